/* SPDX-License-Identifier: Apache-2.0 */
/* size_options.c - the command line of `tally sim --topology`. */
#include "sim/size.h"

#include "core/latency/switch_latency.h"
#include "core/shared/map.h"
#include "sim/sim_state.h"
#include "util/opt.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* As tallyd grants them (src/server/plan.c). */
	WINDOW = 154,
	SLOTS = 704,
	RUN = 44,
	LANES = 360,
	WINDOWS_OF_SLOTS = 4,
};
#define GBIT 1000000000ull

struct unit {
	const char *name;
	double factor;
};

static const struct unit rates[] = { { "gbit", 1e9 }, { "mbit", 1e6 }, { "kbit", 1e3 }, { "", 0 } };
static const struct unit times[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "", 0 } };
static const struct unit sizes[] = { { "", 1 },
				     { "K", 1024 },
				     { "M", 1024.0 * 1024 },
				     { "G", 1024.0 * 1024 * 1024 },
				     { "", 0 } };
static const struct unit parts[] = { { "", 1 }, { "%", 0.01 }, { "", 0 } };
static const struct unit counts[] = { { "", 1 }, { "", 0 } };

/* Whole, unless it may be a part. */
static bool value_read(const char *text, const struct opt *opt, const struct unit *units,
		       double *value)
{
	bool is_whole = units != parts;
	char *rest;

	errno = 0;
	if (*text < '0' || *text > '9')
		return false;
	*value = strtod(text, &rest);
	if (errno)
		return false;
	for (const struct unit *unit = units; unit->factor > 0; unit++) {
		if (strcmp(rest, unit->name) != 0)
			continue;
		*value *= unit->factor;
		return *value >= opt->low && *value <= opt->high &&
		       (!is_whole || *value == (double)(uint64_t)*value);
	}
	return false;
}

/* Several values make a run each; `drawn` is what a drawing says that the numbers are. */
static const char *values_take(struct opt_value *value, const struct unit *units, const char *drawn)
{
	struct size_request *request = value->request;
	const struct opt *opt = value->opt;
	double number[SIZE_POINTS_MAX];
	uint32_t count = 0;
	char text[1024], *rest = text;

	if (snprintf(text, sizeof(text), "%s", value->text) >= (int)sizeof(text))
		return "too long";
	for (char *word; (word = strsep(&rest, ",")) != NULL; count++) {
		if (count < SIZE_POINTS_MAX && value_read(word, opt, units, &number[count]))
			continue;
		snprintf(value->why, sizeof(value->why), "what is \"%.100s\"? (%s)", word,
			 opt->takes);
		return value->why;
	}
	if (count > 1 && request->swept) {
		snprintf(value->why, sizeof(value->why),
			 "--%s has several values already: only one option may have them",
			 request->swept);
		return value->why;
	}
	if (count > 1) {
		request->swept = opt->name;
		request->swept_unit = drawn;
		request->points = count;
		memcpy(request->x, number, sizeof(number));
	}
	for (uint32_t i = 0; i < SIZE_POINTS_MAX; i++) {
		double one = number[count > 1 && i < count ? i : 0];
		uint64_t whole = (uint64_t)one;
		char *at = (char *)&request->option[i] + opt->at;

		memcpy(at, units == parts ? (void *)&one : (void *)&whole, opt->bytes);
	}
	return NULL;
}

static const char *rate_take(struct opt_value *value)
{
	return values_take(value, rates, " (bit/s)");
}

static const char *time_take(struct opt_value *value)
{
	return values_take(value, times, " (ns)");
}

static const char *bytes_take(struct opt_value *value)
{
	return values_take(value, sizes, " (bytes)");
}

static const char *part_take(struct opt_value *value)
{
	return values_take(value, parts, " (of the packets)");
}

static const char *count_take(struct opt_value *value)
{
	return values_take(value, counts, "");
}

static bool topology_read(const char *text, struct size_options *options)
{
	char *rest;

	for (options->levels = 0; options->levels < SIZE_LEVELS_MAX; text = rest + 1) {
		unsigned long children = *text >= '1' && *text <= '9' ? strtoul(text, &rest, 10)
								      : 0;

		if (!children || children > SWITCH_CHILDREN_MAX)
			return false;
		options->children[options->levels++] = (uint32_t)children;
		if (!*rest)
			return size_workers(options) <= SIZE_WORKERS_MAX;
		if (*rest != 'x')
			return false;
	}
	return false;
}

static const char *topology_take(struct opt_value *value)
{
	struct size_request *request = value->request;

	if (topology_read(value->text, &request->option[0]))
		return NULL;
	snprintf(value->why, sizeof(value->why),
		 "numbers of children with x between, each at most %d, %d levels and %d workers at "
		 "most",
		 SWITCH_CHILDREN_MAX, SIZE_LEVELS_MAX, SIZE_WORKERS_MAX);
	return value->why;
}

/* `at` is in each of the runs' options, or in the request; `takes` is what --help says of it. */
#define AT(field) OPT_FIELD(struct size_options, field)
#define OF_ALL(field) OPT_FIELD(struct size_request, field)
/* clang-format off */
static const struct opt table[] = {
	{ "link", OPT_CALL, AT(link_bps), .call = rate_take, .low = 1e6, .high = 1e12,
	  .takes = "rate of a worker's cable, e.g. 10gbit (the default)" },
	{ "uplink", OPT_CALL, AT(uplink_bps), .call = rate_take, .low = 1e6, .high = 1e12,
	  .takes = "of a switch's cable to its parent (as --link)" },
	{ "hub", OPT_CALL, AT(hub_bps), .call = rate_take, .low = 1e6, .high = 1e13,
	  .takes = "of all cables of a switch together: an aggregator's host" },
	{ "delay", OPT_CALL, AT(delay_ns), .call = time_take, .high = 1e9,
	  .takes = "propagation of each cable, and the switch (1us)" },
	{ "poll", OPT_CALL, AT(poll_ns), .call = time_take, .high = 1e8,
	  .takes = "until a worker looks at what has come, at most (5us)" },
	{ "pause", OPT_CALL, AT(pause_ns), .call = time_take, .high = 99e6,
	  .takes = "of worker 0 in every 100 ms (0)" },
	{ "queue", OPT_CALL, AT(queue_bytes), .call = bytes_take, .low = 1024, .high = 1e9,
	  .takes = "bytes that wait for a cable at a switch (1M)" },
	{ "message", OPT_CALL, AT(message_bytes), .call = bytes_take, .low = 1, .high = 1e11,
	  .takes = "bytes of each worker's vector (16M)" },
	{ "slots", OPT_CALL, AT(slots), .call = count_take, .low = 8, .high = 65536,
	  .takes = "slots of the job at each switch (704)" },
	{ "window", OPT_CALL, AT(window), .call = count_take, .low = 1, .high = 65536,
	  .takes = "packets of a worker on their way (a quarter of --slots)" },
	{ "lanes", OPT_CALL, AT(lanes), .call = count_take, .low = 4, .high = 16368,
	  .takes = "numbers in a packet (360)" },
	{ "loss", OPT_CALL, AT(loss), .call = part_take, .high = 0.5,
	  .takes = "of the packets, on each cable: 0.001 or 0.1% (0)" },
	{ "topology", OPT_CALL, .call = topology_take },
	{ "seed", OPT_NUMBER, OF_ALL(option[0].seed) },
	{ "plot", OPT_TEXT, OF_ALL(plot_path), .takes = "the name of a file" },
	{ "queue-plot", OPT_TEXT, OF_ALL(queue_plot_path), .takes = "the name of a file" },
	{ "fixed", OPT_FLAG, OF_ALL(option[0].is_fixed) },
	{ "json", OPT_FLAG, OF_ALL(is_json) },
};
/* clang-format on */

void size_help(const char *name)
{
	printf("%s --topology SHAPE - how long an allreduce takes on a network that is not there "
	       "yet\n\n"
	       "usage: %s --topology SHAPE [OPTION...]\n\n"
	       "SHAPE is 8 for 8 workers at one switch, 32x32 for 32 switches of 32 workers below "
	       "a root,\n"
	       "10x25x40 for three levels. The shipped workers and switch programs exchange every "
	       "packet\n"
	       "and every sum is checked; cables and clocks are made up. Processors' time for a "
	       "packet is\n"
	       "not in it: measure that with `tally bench`.\n\n",
	       name, name);
	for (size_t i = 0; table[i].call != topology_take; i++)
		printf("  --%-8s %s\n", table[i].name, table[i].takes);
	printf("  --seed     of losses and delays (1)\n"
	       "  --plot     FILE.svg or FILE.png: TAT over the option that has several values "
	       "(gnuplot)\n"
	       "  --queue-plot  FILE.svg or FILE.png: what waits for --hub, and windows, over time "
	       "(gnuplot)\n"
	       "  --fixed    windows stay as they are at first\n"
	       "  --json     an object a line\n\n"
	       "One option may have several values: --slots 64,128,256 is three runs, a row "
	       "each.\n\n"
	       "TAT: tensor aggregation time, from the call until the last worker has its result.\n"
	       "exit status: 0 all was right, 1 a run failed or could not be drawn, 2 wrong "
	       "arguments\n\n"
	       "examples:\n"
	       "  %s --topology 32x32 --link 10gbit --message 64M --loss 0.01%%\n"
	       "  %s --topology 16 --slots 64,128,256,512,1024 --plot slots.svg\n",
	       name, name);
}

/* What follows from the others, and whether it all fits together. */
static bool options_finish(const char *name, struct size_options *options)
{
	struct map map;

	if (!options->uplink_bps)
		options->uplink_bps = options->link_bps;
	uint64_t bulk = options->slots - options->slots / 8;
	if (!options->window)
		options->window = bulk / WINDOWS_OF_SLOTS ? bulk / WINDOWS_OF_SLOTS : 1;
	options->run = options->window / 2 < RUN ? options->window / 2 : RUN;
	if (!options->run)
		options->run = 1;
	if (options->lanes % SIZE_LANES_CARRIED) {
		fprintf(stderr, "%s: --lanes %llu is no multiple of 4\n", name,
			(unsigned long long)options->lanes);
		return false;
	}
	while (!map_init(&map, 1, (uint32_t)options->slots, (uint32_t)options->run) &&
	       options->run > 1)
		options->run--;
	return true;
}

int size_read(int argc, char **argv, struct size_request *request)
{
	const struct opt_command command = { .name = argv[0],
					     .table = table,
					     .count = OPT_COUNT(table) };
	struct opt_line line;
	int status;

	*request = (struct size_request){ .points = 1 };
	for (uint32_t i = 0; i < SIZE_POINTS_MAX; i++)
		request->option[i] = (struct size_options){ .link_bps = 10 * GBIT,
							    .delay_ns = 1000,
							    .poll_ns = 5000,
							    .queue_bytes = 1 << 20,
							    .message_bytes = 16 << 20,
							    .slots = SLOTS,
							    .lanes = LANES,
							    .seed = 1 };
	status = opt_read(&command, request, argc, argv, &line);
	if (status != OPT_GO_ON)
		return status;
	if (line.words)
		return opt_refuse(argv[0], line.word[0], NULL,
				  "not an option: it takes options only");
	for (uint32_t i = 0; i < request->points; i++) {
		memcpy(request->option[i].children, request->option[0].children,
		       sizeof(request->option[0].children));
		request->option[i].levels = request->option[0].levels;
		request->option[i].seed = request->option[0].seed;
		request->option[i].is_fixed = request->option[0].is_fixed;
		if (!options_finish(argv[0], &request->option[i]))
			return SIM_EXIT_USAGE;
	}
	return size_plot_check(argv[0], request) ? 0 : SIM_EXIT_USAGE;
}
