/* SPDX-License-Identifier: Apache-2.0 */
/* bench_options.c - the command line of tally bench. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench.h"
#include "tools/bench_data.h"
#include "util/opt.h"

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
	"tally bench - measure allreduce and its kin, every result verified\n"
	"\n"
	"usage: tally bench allreduce [OPTION...]\n"
	"       tally bench reduce|broadcast|allgather|reduce_scatter|gather|scatter|alltoall\n"
	"                                         the root is rank 0; --elements are of all parts\n"
	"       tally bench send                  each rank to the next one\n"
	"       tally bench profile ...           suggest a --scale (tally bench profile --help)\n"
	"       tally bench replay TRACE          steps of a training (tally bench replay --help)\n"
	"\n"
	"  tally run -n 4 -- tally bench allreduce                 4 ranks here, no aggregator "
	"needed\n"
	"  tally run -n 4 -- tally bench allreduce --bytes 1K:64M:x4 --dtype float32\n"
	"  mpirun -x TALLY_AGGREGATOR=10.0.0.1 tally bench allreduce    ranks on several hosts\n"
	"\n"
	"Every rank runs it, rank 0 prints. Each result is compared with a sum made without "
	"tally:\n"
	"int32 must be exact, float32 within the bound that tally.h states. Without a launcher it "
	"is\n"
	"a job of one rank.\n"
	"\n"
	"  --elements LIST            sizes in elements: 1,360,65536 (default: 1 to 4194304)\n"
	"  --bytes FROM:TO[:xFACTOR]  sizes in bytes, K, M and G allowed (factor 2)\n"
	"  --random-sizes COUNT:MIN:MAX  instead: COUNT operations of MIN to MAX elements, with\n"
	"                             equal probability for each octave\n"
	"  --dtype LIST               int8, uint8, int32, uint32, int64, uint64, float16,\n"
	"                             bfloat16, float32, float64 (int32,float32)\n"
	"  --op sum|avg               operation (sum)\n"
	"  --iters N, --warmup N      operations timed, and before that, per row (by size)\n"
	"  --inflight N               operations in flight at once (1)\n"
	"  --in-place                 source and result are one buffer\n"
	"  --window N                 packets in flight at most, per shard (the aggregator's "
	"choice)\n"
	"  --latency-slots S          latency mode with S slots: int32 that fit one packet\n"
	"  --latency-window P         ... and P operations in flight at most (S / 2, or 1)\n"
	"  --scale F                  sums of float32 with a fixed scale (tally_op_options.scale)\n"
	"  --wire half|exact|strict   sums of float32 in 16 bits, exact, or without guesses "
	"(TALLY_HALF, ...)\n"
	"  --no-check                 do not verify (--check is the default)\n"
	"  --seed S                   seed of the data (a new one each time, printed)\n"
	"  --timeline FILE            write the timeline of every operation, for Perfetto\n"
	"  --watch PID,...            processes on rank 0's host, as tallyd: --json then says what "
	"they\n"
	"                             worked while operations were timed\n"
	"  --json                     one object a line; tally run --no-prefix keeps it so\n"
	"  --help, --version\n"
	"\n"
	"TAT: from the call to the result, slowest rank. algbw: bytes of the tensor per second; "
	"busbw:\n"
	"algbw times 2(n-1)/n (of an allreduce), to compare with nccl-tests. goodput: tensor bits "
	"that each rank "
	"sends,\n"
	"and gets, per second. wire: tensor bytes that had to be sent, of 100 sent. resent, "
	"probes, rounds: "
	"all\n"
	"ranks. cpu: seconds of all ranks while timed, an aggregator inside rank 0 included.\n"
	"Exit status: 0 if all was verified on all ranks; 1 if not; 2 wrong command line.\n";

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

static const char *elements_take(struct opt_value *value)
{
	struct bench_options *options = value->request;
	char *copy = strdup(value->text), *at = copy, *field;
	bool is_good = copy;

	options->sizes = 0;
	while (is_good && (field = field_next(&at, ','))) {
		is_good = options->sizes < BENCH_SIZES_MAX &&
			  opt_number(field, 0, ELEMENTS_MAX, &options->elements[options->sizes]);
		options->sizes++;
	}
	free(copy);
	return is_good ? NULL : "numbers up to 2^32 and commas";
}

static const char *bytes_take(struct opt_value *value)
{
	struct bench_options *options = value->request;
	char *copy = strdup(value->text), *at = copy;
	const char *from = field_next(&at, ':'), *to = field_next(&at, ':');
	const char *factor = field_next(&at, ':');
	uint64_t first, last, step = 2;
	bool is_good = copy && !at && from && to &&
		       opt_size(from, ELEMENT_BYTES, BYTES_MAX, &first) &&
		       opt_size(to, first, BYTES_MAX, &last) &&
		       (!factor || (factor[0] == 'x' && opt_number(factor + 1, 2, 1024, &step)));

	options->sizes = 0;
	for (uint64_t bytes = is_good ? first : 1, end = is_good ? last : 0; bytes <= end;
	     bytes *= step)
		if (options->sizes < BENCH_SIZES_MAX)
			options->elements[options->sizes++] = bytes / ELEMENT_BYTES;
	free(copy);
	return is_good ? NULL : "FROM:TO[:xFACTOR], 4 to 16G";
}

static const char *random_take(struct opt_value *value)
{
	struct bench_options *options = value->request;
	char *copy = strdup(value->text), *at = copy;
	const char *count = field_next(&at, ':'), *min = field_next(&at, ':');
	const char *max = field_next(&at, ':');
	bool is_good = copy && !at && count && min && max &&
		       opt_number(count, 1, ITERS_MAX, &options->random_count) &&
		       opt_number(min, 1, ELEMENTS_MAX, &options->random_min) &&
		       opt_number(max, options->random_min, ELEMENTS_MAX, &options->random_max);

	free(copy);
	return is_good ? NULL : "COUNT:MIN:MAX, MIN at least 1";
}

static const char *dtypes_take(struct opt_value *value)
{
	struct bench_options *options = value->request;
	char *copy = strdup(value->text), *at = copy, *field;
	bool is_good = copy;

	options->dtypes_count = 0;
	while (is_good && (field = field_next(&at, ','))) {
		int dtype = TALLY_BFLOAT16;

		while (dtype >= 0 && strcmp(field, bench_dtype_name(dtype)) != 0)
			dtype--;
		is_good = dtype >= 0 && options->dtypes_count < BENCH_DTYPES_MAX;
		if (is_good)
			options->dtypes[options->dtypes_count++] = dtype;
	}
	free(copy);
	return is_good ? NULL : "types of tally.h, as int32,bfloat16, each once";
}

const char *bench_watch(struct bench_options *options, const char *text)
{
	char *copy = strdup(text), *at = copy, *field;
	bool is_good = copy;
	uint64_t pid;

	options->watched_count = 0;
	while (is_good && (field = field_next(&at, ','))) {
		is_good = options->watched_count < MACHINE_WATCHED_MAX &&
			  opt_number(field, 1, INT32_MAX, &pid);
		if (is_good)
			options->watched[options->watched_count++] = (pid_t)pid;
	}
	free(copy);
	return is_good ? NULL : "process ids and commas";
}

static const char *watch_take(struct opt_value *value)
{
	return bench_watch(value->request, value->text);
}

/* The library's business, as if the launcher had set it. */
static const char *timeline_take(struct opt_value *value)
{
	return *value->text && !setenv("TALLY_TIMELINE", value->text, 1) ? NULL : "a file's name";
}

static const char *const ops[] = { "sum", "avg", NULL };

#define AT(field) OPT_FIELD(struct bench_options, field)
/* clang-format off */
static const struct opt table[] = {
	{ "elements", OPT_CALL, .call = elements_take },
	{ "bytes", OPT_CALL, .call = bytes_take, .same = "elements" },
	{ "random-sizes", OPT_CALL, .call = random_take, .same = "elements" },
	{ "dtype", OPT_CALL, .call = dtypes_take },
	{ "op", OPT_CHOICE, AT(is_avg), .names = ops, .takes = "bench has sum and avg" },
	{ "iters", OPT_NUMBER, AT(iters), .min = 1, .max = ITERS_MAX },
	{ "warmup", OPT_NUMBER, AT(warmup), .max = ITERS_MAX },
	{ "inflight", OPT_NUMBER, AT(inflight), .min = 1, .max = INFLIGHT_MAX },
	{ "in-place", OPT_FLAG, AT(is_in_place) },
	{ "window", OPT_NUMBER, AT(window), .min = 1, .max = WINDOW_MAX, .takes = "a number of packets from 1 to 32768" },
	{ "latency-slots", OPT_NUMBER, AT(latency_slots), .min = 1, .max = LATENCY_SLOTS_MAX },
	{ "latency-window", OPT_NUMBER, AT(latency_window), .min = 1, .max = LATENCY_SLOTS_MAX },
	{ "scale", OPT_REAL, AT(scale), .low = 0x1p-126, .high = 0x1p126 },
	{ "wire", OPT_CHOICE, AT(wire), .names = bench_wires, .takes = "free, half, exact or strict" },
	{ "check", OPT_FLAG, AT(is_checked) },
	{ "no-check", OPT_UNSET, AT(is_checked), .same = "check" },
	{ "seed", OPT_NUMBER, AT(seed) },
	{ "timeline", OPT_CALL, .call = timeline_take },
	{ "watch", OPT_CALL, .call = watch_take },
	{ "json", OPT_FLAG, AT(is_json) },
};
/* clang-format on */
static const struct opt_command command = { .name = "tally bench",
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

static int refuse(const char *name, const char *why)
{
	return opt_refuse(command.name, name, NULL, why);
}

/* What latency mode changes of the defaults. */
static int latency_settle(struct bench_options *options, bool has_sizes, bool has_dtypes)
{
	static const uint64_t sizes[] = { 1, 8, 64 };

	if (options->latency_window > options->latency_slots)
		return refuse("--latency-window", "must be at most --latency-slots");
	if (!options->latency_slots)
		return 0;
	for (uint32_t i = 0; has_dtypes && i < options->dtypes_count; i++)
		if (options->dtypes[i] != TALLY_INT32)
			return refuse("--latency-slots",
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

/* A scale, and a form on the wire, are for sums of float32. */
static int form_settle(struct bench_options *options, bool has_dtypes)
{
	const char *name = options->scale != 0 ? "--scale" : "--wire";

	if (options->scale == 0 && !options->wire)
		return 0;
	if (options->scale != 0 && options->wire)
		return refuse("--wire", "free with --scale, which says how sums travel");
	if (options->kind != BENCH_ALLREDUCE && options->kind != BENCH_REDUCE &&
	    options->kind != BENCH_REDUCE_SCATTER)
		return refuse(name, "for allreduce, reduce and reduce_scatter");
	for (uint32_t i = 0; has_dtypes && i < options->dtypes_count; i++)
		if (options->dtypes[i] != TALLY_FLOAT32)
			return refuse(name, "for float32: --dtype float32");
	options->dtypes_count = 1;
	options->dtypes[0] = TALLY_FLOAT32;
	return 0;
}

/* Sizes in bytes are of elements of 4 bytes until the types are known. */
static int types_settle(struct bench_options *options, bool has_bytes)
{
	size_t bytes = data_bytes(options->dtypes[0]);

	for (uint32_t i = 1; i < options->dtypes_count; i++)
		if (data_bytes(options->dtypes[i]) != bytes && (has_bytes || options->random_count))
			return refuse("--dtype", "types of one size, or else --elements");
	for (uint32_t i = 0; has_bytes && i < options->sizes; i++) {
		options->elements[i] = options->elements[i] * ELEMENT_BYTES / bytes;
		if (!options->elements[i] || options->elements[i] > ELEMENTS_MAX)
			return refuse("--bytes", "sizes of 1 to 2^32 elements of --dtype");
	}
	return 0;
}

int bench_parse(struct bench_options *options, int argc, char **argv)
{
	static const uint64_t sizes[] = { 1, 64, 1024, 16384, 262144, 4194304 };
	struct opt_line line;
	int status;

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
	status = opt_read(&command, options, argc, argv, &line);
	if (status != OPT_GO_ON)
		return status;
	options->has_seed = opt_has(&command, &line, "seed");
	if (options->random_count &&
	    (opt_has(&command, &line, "iters") || opt_has(&command, &line, "warmup")))
		return refuse(
			"--random-sizes",
			"COUNT says how many operations there are: leave out --iters and --warmup");
	status = latency_settle(options,
				opt_has(&command, &line, "elements") ||
					opt_has(&command, &line, "bytes") || options->random_count,
				opt_has(&command, &line, "dtype"));
	if (!status)
		status = types_settle(options, opt_has(&command, &line, "bytes"));
	if (status)
		return status;
	if (!line.words)
		return refuse("OPERATION", "missing: give allreduce, or another of --help");
	if (line.words > 1)
		return refuse(line.word[1], "one operation is enough");
	while (bench_kinds[options->kind] && strcmp(line.word[0], bench_kinds[options->kind]) != 0)
		options->kind++;
	if (!bench_kinds[options->kind])
		return refuse(line.word[0],
			      "no such operation: give allreduce, or another of --help");
	if (options->latency_slots && options->kind != BENCH_ALLREDUCE)
		return refuse("--latency-slots", "latency mode has allreduce");
	if (options->is_in_place && options->kind > BENCH_BROADCAST)
		return refuse("--in-place", "for allreduce, reduce and broadcast");
	status = form_settle(options, opt_has(&command, &line, "dtype"));
	return status ? status : OPT_GO_ON;
}
