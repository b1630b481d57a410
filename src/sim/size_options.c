/* SPDX-License-Identifier: Apache-2.0 */
/* size_options.c - the command line of `tally sim --topology`. */
#include "sim/size.h"

#include "core/latency/switch_latency.h"
#include "core/shared/map.h"
#include "sim/sim_state.h"

#include <errno.h>
#include <getopt.h>
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

/* X(option, field, units, least, most, what) */
/* clang-format off */
#define SIZE_OPTIONS(X)                                                                               \
	X("link", link_bps, rates, 1e6, 1e12, "rate of a worker's cable, e.g. 10gbit (the default)")   \
	X("uplink", uplink_bps, rates, 1e6, 1e12, "of a switch's cable to its parent (as --link)")     \
	X("hub", hub_bps, rates, 1e6, 1e13, "of all cables of a switch together: an aggregator's host") \
	X("delay", delay_ns, times, 0, 1e9, "propagation of each cable, and the switch (1us)")         \
	X("poll", poll_ns, times, 0, 1e8, "until a worker looks at what has come, at most (5us)")      \
	X("queue", queue_bytes, sizes, 1024, 1e9, "bytes that wait for a cable at a switch (1M)")      \
	X("message", message_bytes, sizes, 1, 1e11, "bytes of each worker's vector (16M)")             \
	X("slots", slots, counts, 8, 65536, "slots of the job at each switch (704)")                   \
	X("window", window, counts, 1, 65536, "packets of a worker on their way (a quarter of --slots)") \
	X("lanes", lanes, counts, 4, 16368, "numbers in a packet (360)")                               \
	X("loss", loss, parts, 0, 0.5, "of the packets, on each cable: 0.001 or 0.1% (0)")
/* clang-format on */

enum field_type { FIELD_WHOLE, FIELD_PART };

static const struct field {
	const char *name, *about;
	const struct unit *units;
	size_t offset;
	double least, most;
	enum field_type type;
} fields[] = {
#define X(option, member, unit, from, to, text)               \
	{ option,                                             \
	  text,                                               \
	  unit,                                               \
	  offsetof(struct size_options, member),              \
	  from,                                               \
	  to,                                                 \
	  _Generic(((struct size_options *)0)->member, double \
		   : FIELD_PART, default                      \
		   : FIELD_WHOLE) },
	SIZE_OPTIONS(X)
#undef X
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

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
	for (uint32_t i = 0; i < FIELDS; i++)
		printf("  --%-8s %s\n", fields[i].name, fields[i].about);
	printf("  --seed     of losses and delays (1)\n"
	       "  --plot     FILE.svg or FILE.png: TAT over the option that has several values "
	       "(gnuplot)\n"
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

static bool value_read(const char *text, const struct field *field, double *value)
{
	char *rest;

	errno = 0;
	if (*text < '0' || *text > '9')
		return false;
	*value = strtod(text, &rest);
	if (errno)
		return false;
	for (const struct unit *unit = field->units; unit->factor > 0; unit++) {
		if (strcmp(rest, unit->name) != 0)
			continue;
		*value *= unit->factor;
		return *value >= field->least && *value <= field->most &&
		       (field->type == FIELD_PART || *value == (double)(uint64_t)*value);
	}
	return false;
}

static void field_set(struct size_options *options, const struct field *field, double value)
{
	void *at = (char *)options + field->offset;

	if (field->type == FIELD_PART)
		*(double *)at = value;
	else
		*(uint64_t *)at = (uint64_t)value;
}

/* Several values make a run each. */
static bool values_read(const char *name, char *text, const struct field *field,
			struct size_request *request)
{
	double value[SIZE_POINTS_MAX];
	uint32_t count = 0;
	char *rest = text;

	for (char *word; (word = strsep(&rest, ",")) != NULL; count++)
		if (count == SIZE_POINTS_MAX || !value_read(word, field, &value[count])) {
			fprintf(stderr, "%s: --%s %s: what is \"%s\"? (%s)\n", name, field->name,
				text, word, field->about);
			return false;
		}
	if (count > 1 && request->swept) {
		fprintf(stderr,
			"%s: several values for --%s and for --%s: only one option may have them\n",
			name, request->swept, field->name);
		return false;
	}
	if (count > 1) {
		request->swept = field->name;
		request->points = count;
		memcpy(request->x, value, sizeof(value));
	}
	for (uint32_t i = 0; i < SIZE_POINTS_MAX; i++)
		field_set(&request->option[i], field, value[count > 1 && i < count ? i : 0]);
	return true;
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

static int option_take(int argc, char **argv, int index, struct size_request *request,
		       uint32_t *seen)
{
	const char *name = argv[0];
	(void)argc;

	if (*seen >> index & 1) {
		fprintf(stderr, "%s: --%s: is given twice: take one out\n", name,
			index < FIELDS ? fields[index].name : "topology, seed, plot or json");
		return SIM_EXIT_USAGE;
	}
	*seen |= 1u << index;
	if (index < FIELDS)
		return values_read(name, optarg, &fields[index], request) ? 0 : SIM_EXIT_USAGE;
	char *rest = NULL;
	switch (index - FIELDS) {
	case 0:
		if (topology_read(optarg, &request->option[0]))
			return 0;
		fprintf(stderr,
			"%s: --topology %s: numbers of children with x between, each at most %d, "
			"%d "
			"levels and %d workers at most\n",
			name, optarg, SWITCH_CHILDREN_MAX, SIZE_LEVELS_MAX, SIZE_WORKERS_MAX);
		return SIM_EXIT_USAGE;
	case 1:
		request->option[0].seed = strtoull(optarg, &rest, 10);
		if (*optarg >= '0' && *optarg <= '9' && !*rest)
			return 0;
		fprintf(stderr, "%s: --seed %s: a number\n", name, optarg);
		return SIM_EXIT_USAGE;
	case 2:
		request->plot_path = optarg;
		return 0;
	default:
		request->is_json = true;
		return 0;
	}
}

int size_read(int argc, char **argv, struct size_request *request)
{
	static const char *const more[] = { "topology", "seed", "plot", "json" };
	struct option options[FIELDS + 5] = { { 0 } };
	uint32_t seen = 0;
	int index = 0, error;

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
	for (uint32_t i = 0; i < FIELDS; i++)
		options[i] = (struct option){ fields[i].name, required_argument, NULL, 1 };
	for (uint32_t i = 0; i < 4; i++)
		options[FIELDS + i] = (struct option){ more[i],
						       i == 3 ? no_argument : required_argument,
						       NULL, 1 };
	optind = 1;
	for (int option; (option = getopt_long(argc, argv, "", options, &index)) != -1;) {
		if (option == '?') {
			fprintf(stderr, "%s: see --topology 8 --help\n", argv[0]);
			return SIM_EXIT_USAGE;
		}
		error = option_take(argc, argv, index, request, &seen);
		if (error)
			return error;
	}
	if (optind < argc) {
		fprintf(stderr, "%s: what is \"%s\"? See --topology 8 --help\n", argv[0],
			argv[optind]);
		return SIM_EXIT_USAGE;
	}
	for (uint32_t i = 0; i < request->points; i++) {
		memcpy(request->option[i].children, request->option[0].children,
		       sizeof(request->option[0].children));
		request->option[i].levels = request->option[0].levels;
		request->option[i].seed = request->option[0].seed;
		if (!options_finish(argv[0], &request->option[i]))
			return SIM_EXIT_USAGE;
	}
	return size_plot_check(argv[0], request) ? 0 : SIM_EXIT_USAGE;
}
