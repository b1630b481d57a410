/* SPDX-License-Identifier: Apache-2.0 */
/* bench_options.c - the command line of tally bench. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/command.h"

#define ELEMENTS_MAX (1ull << 32)
#define BYTES_MAX (4 * ELEMENTS_MAX)

enum {
	ITERS_MAX = 1000000,
	INFLIGHT_MAX = 256,
	WINDOW_MAX = 32768, /* no aggregator has more slots */
	ELEMENT_BYTES = 4,
	LATENCY_SLOTS_MAX = 65536,
};

static const char help[] =
	"tally bench - measure allreduce, every result verified\n"
	"\n"
	"usage: tally bench allreduce [OPTION...]\n"
	"\n"
	"  tally run -n 4 -- tally bench allreduce                 4 ranks here, no aggregator "
	"needed\n"
	"  tally run -n 4 -- tally bench allreduce --bytes 1K:64M:x4 --dtype float32\n"
	"  mpirun -x TALLY_AGGREGATOR=10.0.0.1 tally bench allreduce    ranks on several hosts\n"
	"\n"
	"Every rank runs it, rank 0 prints. Each result is held against a sum made without tally:\n"
	"int32 must be exact, float32 within the bound that tally.h states. Without a launcher it "
	"is\n"
	"a job of one rank.\n"
	"\n"
	"  --elements LIST            sizes in elements: 1,360,65536 (default: 1 to 4194304)\n"
	"  --bytes FROM:TO[:xFACTOR]  sizes in bytes, K, M and G allowed (factor 2)\n"
	"  --random-sizes COUNT:MIN:MAX  instead: COUNT operations of MIN to MAX elements, each\n"
	"                             octave as likely as another\n"
	"  --dtype LIST               int32, float32 or both (both)\n"
	"  --op sum|avg               (sum)\n"
	"  --iters N, --warmup N      operations timed, and before that, per row (by size)\n"
	"  --inflight N               operations on their way at once (1)\n"
	"  --in-place                 source and result are one buffer\n"
	"  --window N                 packets on their way at most, per shard (the aggregator's "
	"choice)\n"
	"  --latency-slots S          latency mode with S slots: int32 that fit one packet\n"
	"  --latency-window P         ... and P operations on their way at most (S / 2, or 1)\n"
	"  --no-check                 do not verify (--check is the default)\n"
	"  --seed S                   of the data (a new one each time, printed)\n"
	"  --timeline FILE            what happened when to every operation, for Perfetto\n"
	"  --json                     one object a line; tally run --no-prefix keeps it so\n"
	"  --help, --version\n"
	"\n"
	"TAT: from the call to the result, slowest rank. algbw: bytes of the tensor per second; "
	"busbw:\n"
	"algbw times 2(n-1)/n, to compare with nccl-tests. goodput: tensor bits that each rank "
	"sends,\n"
	"and gets, per second. wire: tensor bytes in the UDP payload sent. resent, probes, rounds: "
	"all\n"
	"ranks. cpu: seconds of all ranks while timed, an aggregator inside rank 0 included.\n"
	"Exit status: 0 if all was verified on all ranks; 1 if not; 2 wrong command line.\n";

static int refuse(const char *name, const char *value, const char *why)
{
	return args_refuse("bench", name, value, why);
}

/* The next field of a list, cut off in place; NULL: there is none. */
static char *field_next(char **at, char separator)
{
	char *field = *at, *end;

	if (!field)
		return NULL;
	end = strchr(field, separator);
	if (end)
		*end++ = '\0';
	*at = end;
	return field;
}

static bool elements_read(struct bench_options *options, const char *text)
{
	char *copy = strdup(text), *at = copy, *field;
	bool is_good = copy;

	options->sizes = 0;
	while (is_good && (field = field_next(&at, ','))) {
		is_good = options->sizes < BENCH_SIZES_MAX &&
			  args_number(field, 0, ELEMENTS_MAX, &options->elements[options->sizes]);
		options->sizes++;
	}
	free(copy);
	return is_good;
}

static bool bytes_read(struct bench_options *options, const char *text)
{
	char *copy = strdup(text), *at = copy;
	const char *from = field_next(&at, ':'), *to = field_next(&at, ':');
	const char *factor = field_next(&at, ':');
	uint64_t first, last, step = 2;
	bool is_good = copy && !at && from && to &&
		       args_size(from, ELEMENT_BYTES, BYTES_MAX, &first) &&
		       args_size(to, first, BYTES_MAX, &last) &&
		       (!factor || (factor[0] == 'x' && args_number(factor + 1, 2, 1024, &step)));

	options->sizes = 0;
	for (uint64_t bytes = is_good ? first : 1, end = is_good ? last : 0; bytes <= end;
	     bytes *= step)
		if (options->sizes < BENCH_SIZES_MAX)
			options->elements[options->sizes++] = bytes / ELEMENT_BYTES;
	free(copy);
	return is_good;
}

static bool random_read(struct bench_options *options, const char *text)
{
	char *copy = strdup(text), *at = copy;
	const char *count = field_next(&at, ':'), *min = field_next(&at, ':');
	const char *max = field_next(&at, ':');
	bool is_good = copy && !at && count && min && max &&
		       args_number(count, 1, ITERS_MAX, &options->random_count) &&
		       args_number(min, 1, ELEMENTS_MAX, &options->random_min) &&
		       args_number(max, options->random_min, ELEMENTS_MAX, &options->random_max);

	free(copy);
	return is_good;
}

static bool dtypes_read(struct bench_options *options, const char *text)
{
	char *copy = strdup(text), *at = copy, *field;
	bool is_good = copy;

	options->dtypes_count = 0;
	while (is_good && (field = field_next(&at, ','))) {
		int dtype = !strcmp(field, "int32") ? TALLY_INT32 : TALLY_FLOAT32;

		is_good = options->dtypes_count < 2 && !strcmp(field, bench_dtype_name(dtype));
		if (is_good)
			options->dtypes[options->dtypes_count++] = dtype;
	}
	free(copy);
	return is_good;
}

enum {
	OPT_ELEMENTS = 1,
	OPT_BYTES,
	OPT_RANDOM,
	OPT_DTYPE,
	OPT_OP,
	OPT_ITERS,
	OPT_WARMUP,
	OPT_INFLIGHT,
	OPT_IN_PLACE,
	OPT_WINDOW,
	OPT_LATENCY_SLOTS,
	OPT_LATENCY_WINDOW,
	OPT_CHECK,
	OPT_NO_CHECK,
	OPT_SEED,
	OPT_TIMELINE,
	OPT_JSON,
	OPT_HELP
};

/* clang-format off */
static const struct option long_options[] = {
	{ "elements", required_argument, NULL, OPT_ELEMENTS },
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "random-sizes", required_argument, NULL, OPT_RANDOM },
	{ "dtype", required_argument, NULL, OPT_DTYPE },
	{ "op", required_argument, NULL, OPT_OP },
	{ "iters", required_argument, NULL, OPT_ITERS },
	{ "warmup", required_argument, NULL, OPT_WARMUP },
	{ "inflight", required_argument, NULL, OPT_INFLIGHT },
	{ "in-place", no_argument, NULL, OPT_IN_PLACE },
	{ "window", required_argument, NULL, OPT_WINDOW },
	{ "latency-slots", required_argument, NULL, OPT_LATENCY_SLOTS },
	{ "latency-window", required_argument, NULL, OPT_LATENCY_WINDOW },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "no-check", no_argument, NULL, OPT_NO_CHECK },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "timeline", required_argument, NULL, OPT_TIMELINE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};
/* clang-format on */

/* Options that have one number as their value. */
static const struct args_number numbers[] = {
	{ OPT_ITERS, 1, ITERS_MAX, offsetof(struct bench_options, iters),
	  "a number from 1 to 1000000" },
	{ OPT_WARMUP, 0, ITERS_MAX, offsetof(struct bench_options, warmup),
	  "a number up to 1000000" },
	{ OPT_INFLIGHT, 1, INFLIGHT_MAX, offsetof(struct bench_options, inflight),
	  "a number from 1 to 256" },
	{ OPT_WINDOW, 1, WINDOW_MAX, offsetof(struct bench_options, window),
	  "a number of packets from 1 to 32768" },
	{ OPT_LATENCY_SLOTS, 1, LATENCY_SLOTS_MAX, offsetof(struct bench_options, latency_slots),
	  "a number from 1 to 65536" },
	{ OPT_LATENCY_WINDOW, 1, LATENCY_SLOTS_MAX, offsetof(struct bench_options, latency_window),
	  "a number from 1 to 65536" },
	{ OPT_SEED, 0, UINT64_MAX, offsetof(struct bench_options, seed), "a number" },
};

static const char *value_read(void *arg, int option, const char *value)
{
	struct bench_options *options = arg;

	switch (option) {
	case OPT_ELEMENTS:
		return elements_read(options, value) ? NULL : "numbers up to 2^32 and commas";
	case OPT_BYTES:
		return bytes_read(options, value) ? NULL : "FROM:TO[:xFACTOR], 4 to 16G";
	case OPT_RANDOM:
		return random_read(options, value) ? NULL : "COUNT:MIN:MAX, MIN at least 1";
	case OPT_DTYPE:
		return dtypes_read(options, value) ? NULL : "this version has int32 and float32";
	case OPT_OP:
		options->is_avg = !strcmp(value, "avg");
		return options->is_avg || !strcmp(value, "sum") ? NULL
								: "this version has sum and avg";
	case OPT_IN_PLACE:
		options->is_in_place = true;
		return NULL;
	case OPT_CHECK:
	case OPT_NO_CHECK:
		options->is_checked = option == OPT_CHECK;
		return NULL;
	case OPT_TIMELINE: /* the library's business, as if the launcher had set it */
		return *value && !setenv("TALLY_TIMELINE", value, 1) ? NULL : "a file's name";
	case OPT_JSON:
		options->is_json = true;
		return NULL;
	default:
		options->has_seed |= option == OPT_SEED;
		return args_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), options, option,
				    value);
	}
}

/* Options of one group say one thing. */
static int group_of(int option)
{
	switch (option) {
	case OPT_BYTES:
	case OPT_RANDOM:
		return OPT_ELEMENTS;
	case OPT_NO_CHECK:
		return OPT_CHECK;
	default:
		return option;
	}
}

/* What latency mode changes of the defaults. */
static int latency_settle(struct bench_options *options, bool has_sizes, bool has_dtypes)
{
	static const uint64_t sizes[] = { 1, 8, 64 };

	if (options->latency_window > options->latency_slots)
		return refuse("--latency-window", NULL, "must be at most --latency-slots");
	if (!options->latency_slots)
		return 0;
	for (uint32_t i = 0; has_dtypes && i < options->dtypes_count; i++)
		if (options->dtypes[i] != TALLY_INT32)
			return refuse("--latency-slots", NULL,
				      "latency mode sums int32 only: --dtype int32");
	if (!has_sizes) {
		options->sizes = sizeof(sizes) / sizeof(sizes[0]);
		memcpy(options->elements, sizes, sizeof(sizes));
	}
	if (!has_dtypes) {
		options->dtypes_count = 1;
		options->dtypes[0] = TALLY_INT32;
	}
	return 0;
}

int bench_parse(struct bench_options *options, int argc, char **argv)
{
	static const uint64_t sizes[] = { 1, 64, 1024, 16384, 262144, 4194304 };
	uint64_t seen = 0;
	int option, status, index = 0;

	*options = (struct bench_options){
		.sizes = sizeof(sizes) / sizeof(sizes[0]),
		.dtypes = { TALLY_INT32, TALLY_FLOAT32 },
		.dtypes_count = 2,
		.iters = UINT64_MAX,
		.warmup = UINT64_MAX,
		.inflight = 1,
		.is_checked = true,
	};
	memcpy(options->elements, sizes, sizeof(sizes));
	while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
		if (option == '?') {
			fprintf(stderr, "tally bench --help says which there are\n");
			return EXIT_USAGE;
		}
		if (option == OPT_HELP)
			return args_print(help);
		status = args_take("bench", &long_options[index], group_of(option), &seen,
				   value_read, options, optarg);
		if (status)
			return status;
	}
	if (options->random_count &&
	    (!args_once(&seen, OPT_ITERS) || !args_once(&seen, OPT_WARMUP)))
		return refuse(
			"--random-sizes", NULL,
			"COUNT says how many operations there are: leave out --iters and --warmup");
	status = latency_settle(options, !args_once(&seen, OPT_ELEMENTS),
				!args_once(&seen, OPT_DTYPE));
	if (status)
		return status;
	if (optind >= argc)
		return refuse("OPERATION", NULL, "missing: give allreduce");
	if (strcmp(argv[optind], "allreduce") != 0)
		return refuse(argv[optind], NULL, "no such operation: give allreduce");
	if (optind + 1 < argc)
		return refuse(argv[optind + 1], NULL, "one operation is enough");
	return -1;
}
