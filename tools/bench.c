/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.c - tally bench: times operations and verifies every result. Operations run in batches: make the
 * data of as many as fit into a few MB, barrier, run and time them back to back, then check them all. So
 * making and checking, which take longer than small operations, never lie between two of them.
 */
#include "tools/bench.h"
#include "lib/bootstrap.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/bench_block.h"
#include "tools/bench_data.h"
#include "tools/command.h"
#include "util/clock.h"
#include "util/rng.h"

enum { BATCH_BYTES = 32 << 20, BATCH_MAX = 1024, BUFFER_ALIGN = 64, LIMBS = 4 };
enum { SUMS_WRONG = -1 }; /* all ranks know: no result of tally.h */

/* One operation of a batch. */
struct op {
	struct data_op data;
	size_t offset; /* bytes, in both buffers */
	uint64_t begin_ns, tat_ns;
};

struct bench {
	struct bench_options options;
	struct tally_comm *comm;
	uint32_t rank, ranks;
	char *send, *recv; /* one and the same if in place */
	size_t buffer_bytes;
	struct op ops[BATCH_MAX];
	uint32_t ops_count;
	size_t ops_bytes;
	uint64_t number; /* of the next operation */
	struct bench_count count;
	uint64_t *tats; /* of the row, timed ones */
	struct bench_report report;
};

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int failed(const struct bench *bench, const char *what, int result)
{
	const char *text = tally_get_last_error(bench->comm);

	fprintf(stderr, "tally bench: %s: %s\n", what, *text ? text : tally_strerror(result));
	return result;
}

/* ---- between the ranks ---- */

/* In latency mode an operation has to fit one packet. */
static int limbs_add(struct bench *bench, int32_t *limbs, size_t total)
{
	size_t most = bench->options.latency_slots ? bench->report.stats.lanes : total;
	int result = TALLY_OK;

	for (size_t at = 0; !result && at < total; at += most) {
		size_t count = total - at < most ? total - at : most;

		result = tally_allreduce(limbs + at, limbs + at, count, TALLY_INT32, TALLY_SUM,
					 bench->comm);
	}
	return result;
}

/* all: ranks * count numbers; every rank brings `count` and gets all. The numbers travel as 16-bit parts
 * of int32 sums to which one rank alone contributes. */
static int gather(struct bench *bench, const uint64_t *mine, uint32_t count, uint64_t *all)
{
	size_t row = (size_t)count * LIMBS, total = row * bench->ranks;
	int32_t *limbs = calloc(total, sizeof(*limbs));
	int result = TALLY_ERR_NO_MEMORY;

	if (!limbs)
		return failed(bench, "gather", result);
	for (size_t i = 0; i < row; i++)
		limbs[bench->rank * row + i] =
			(int32_t)(mine[i / LIMBS] >> (16 * (i % LIMBS)) & 0xffff);
	result = limbs_add(bench, limbs, total);
	if (result)
		failed(bench, "gather", result);
	memset(all, 0, sizeof(*all) * count * bench->ranks);
	for (size_t i = 0; !result && i < total; i++)
		all[i / LIMBS] |= (uint64_t)(uint32_t)limbs[i] << (16 * (i % LIMBS));
	free(limbs);
	return result;
}

/* Rank 0's number, on all. */
static int share(struct bench *bench, uint64_t *number)
{
	uint64_t *all = calloc(bench->ranks, sizeof(*all));
	int result = all ? gather(bench, number, 1, all) : TALLY_ERR_NO_MEMORY;

	if (!result)
		*number = all[0];
	free(all);
	return result;
}

/* ---- a batch ---- */

static bool batch_has_room(const struct bench *bench, uint64_t count, int dtype)
{
	size_t bytes = bench->ops_bytes + count * data_bytes(dtype);

	if (bench->ops_count == BATCH_MAX)
		return false;
	return !bench->ops_count || (bytes <= BATCH_BYTES && bytes <= bench->buffer_bytes) ||
	       (bench->ops_count < bench->options.inflight && bytes <= bench->buffer_bytes);
}

static void batch_add(struct bench *bench, uint64_t count, int dtype)
{
	struct op *op = &bench->ops[bench->ops_count++];

	*op = (struct op){
		.data = {
			.seed = bench->options.seed,
			.number = bench->number++,
			.ranks = bench->ranks,
			.dtype = dtype,
			.is_avg = bench->options.is_avg,
			.count = count,
			.scale = bench->options.scale,
			.wire = (enum data_wire)bench->options.wire,
		},
		.offset = bench->ops_bytes,
	};
	bench->ops_bytes +=
		(count * data_bytes(dtype) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
}

static int op_start(struct bench *bench, struct op *op, struct tally_work **works)
{
	enum bench_kind kind = bench->options.kind;
	const char *send = bench->send + op->offset;
	char *recv = bench->recv + op->offset;

	op->begin_ns = clock_ns();
	if (works)
		return collective_start(kind, &op->data, send, recv, bench->comm, works);
	return collective_run(kind, &op->data, send, recv, bench->comm);
}

static int batch_blocking(struct bench *bench)
{
	for (uint32_t i = 0; i < bench->ops_count; i++) {
		int result = op_start(bench, &bench->ops[i], NULL);

		if (result)
			return result;
		bench->ops[i].tat_ns = clock_ns() - bench->ops[i].begin_ns;
	}
	return TALLY_OK;
}

/* Keeps `inflight` on their way; whatever fails, none is left behind. */
static int batch_inflight(struct bench *bench)
{
	struct tally_work *works[BATCH_MAX][COLLECTIVE_WORKS] = { { NULL } };
	uint32_t inflight = (uint32_t)bench->options.inflight;
	uint32_t started = 0;
	int result = TALLY_OK;

	for (uint32_t i = 0; i < bench->ops_count; i++) {
		while (!result && started < bench->ops_count && started < i + inflight) {
			result = op_start(bench, &bench->ops[started], works[started]);
			started++;
		}
		if (i < started) {
			int end = tally_waitall(COLLECTIVE_WORKS, works[i], -1);

			result = result ? result : end;
			bench->ops[i].tat_ns = clock_ns() - bench->ops[i].begin_ns;
		}
	}
	return result;
}

static void stats_add(struct bench_count *count, const struct tally_stats *before,
		      const struct tally_stats *after)
{
	count->packets_resent += after->packets_resent - before->packets_resent;
	count->probes += after->probes - before->probes;
	count->exponent_rounds += after->exponent_rounds - before->exponent_rounds;
	count->guess_rounds += after->guess_rounds - before->guess_rounds;
	count->guesses_again += after->guesses_again - before->guesses_again;
	count->detail_rounds += after->detail_rounds - before->detail_rounds;
	count->bytes_out += after->bytes_out - before->bytes_out;
}

/* All have made their data when rank 0 looks at the machine, and none begins before it has. */
static int batch_begin(struct bench *bench, struct machine *machine)
{
	const struct bench_options *options = &bench->options;
	int result = tally_barrier(bench->comm);

	if (result)
		return result;
	if (bench->rank == 0)
		machine_read(machine, options->watched, options->watched_count);
	return tally_barrier(bench->comm);
}

static void machine_add(struct bench *bench, const struct machine *begin)
{
	const struct bench_options *options = &bench->options;
	struct machine end = *begin;

	machine_read(&end, options->watched, options->watched_count);
	bench->count.busy_ns += machine_busy_ns(begin, &end);
	bench->count.stolen_ns += end.stolen_ns - begin->stolen_ns;
	bench->count.watched_ns += end.watched_ns - begin->watched_ns;
}

/* Runs the batch and times it. Who is done waits for the others before it checks: a check takes a processor for longer
 * than an operation, and where ranks share processors it would come out of the others' times. */
static int batch_operations(struct bench *bench, uint64_t *ns, uint64_t *us)
{
	uint64_t begin_cpu_us = cpu_us(), begin_ns = clock_ns();
	int result = bench->options.inflight > 1 ? batch_inflight(bench) : batch_blocking(bench);

	*ns = clock_ns() - begin_ns;
	*us = cpu_us() - begin_cpu_us;
	if (result)
		return failed(bench, bench_kinds[bench->options.kind], result);
	result = tally_barrier(bench->comm);
	return result ? failed(bench, "barrier", result) : result;
}

static int batch_time(struct bench *bench, bool is_timed)
{
	struct tally_stats before = TALLY_STATS_INIT, after = TALLY_STATS_INIT;
	struct machine machine = { 0 };
	uint64_t ns, us;
	int result = batch_begin(bench, &machine);

	if (result)
		return failed(bench, "barrier", result);
	tally_comm_get_stats(bench->comm, &before);
	result = batch_operations(bench, &ns, &us);
	if (result || !is_timed)
		return result;
	bench->count.timed_ns += ns;
	bench->count.cpu_us += us;
	if (bench->rank == 0)
		machine_add(bench, &machine);
	tally_comm_get_stats(bench->comm, &after);
	stats_add(&bench->count, &before, &after);
	for (uint32_t i = 0; i < bench->ops_count; i++) {
		bench->tats[bench->count.operations++] = bench->ops[i].tat_ns;
		bench->count.elements += bench->ops[i].data.count;
	}
	return TALLY_OK;
}

static int op_check(struct bench *bench, const struct op *op)
{
	struct data_verdict verdict;

	if (!collective_verify(bench->options.kind, &op->data, bench->report.stats.lanes,
			       bench->recv + op->offset, bench->comm, &verdict))
		return failed(bench, "verification", TALLY_ERR_NO_MEMORY);
	if (verdict.wrong && !bench->count.elements_wrong)
		fprintf(stderr,
			"tally bench: rank %u: %s x %zu, operation %" PRIu64 " of seed %" PRIu64
			": %" PRIu64
			" wrong, the first is element %zu: %.9g, should be %.9g +- %g\n",
			bench->rank, bench_dtype_name(op->data.dtype), op->data.count,
			op->data.number, op->data.seed, verdict.wrong, verdict.index, verdict.got,
			verdict.want, verdict.bound);
	bench->count.elements_wrong += verdict.wrong;
	bench->count.digest = bench->count.digest * 31 + verdict.digest;
	bench->count.operations_checked++;
	return TALLY_OK;
}

static int batch_run(struct bench *bench, bool is_timed)
{
	int result;

	for (uint32_t i = 0; i < bench->ops_count; i++) {
		const struct op *op = &bench->ops[i];

		data_fill(&op->data, bench->rank, bench->send + op->offset);
		if (!bench->options.is_in_place) /* so that nothing stale can look right */
			memset(bench->recv + op->offset, 0xa5,
			       op->data.count * data_bytes(op->data.dtype));
	}
	result = batch_time(bench, is_timed);
	for (uint32_t i = 0; !result && bench->options.is_checked && i < bench->ops_count; i++)
		result = op_check(bench, &bench->ops[i]);
	bench->ops_count = 0;
	bench->ops_bytes = 0;
	return result;
}

/* ---- a row ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tats_sort(struct bench *bench)
{
	struct bench_count *count = &bench->count;
	size_t n = count->operations;

	if (!n)
		return;
	qsort(bench->tats, n, sizeof(*bench->tats), compare_u64);
	count->min_ns = bench->tats[0];
	count->p1_ns = bench->tats[n / 100];
	count->median_ns = bench->tats[n / 2];
	count->p99_ns = bench->tats[(n * 99 + 99) / 100 - 1];
}

static void keep_larger(uint64_t *to, uint64_t value)
{
	if (value > *to)
		*to = value;
}

/* The slowest rank's times, everybody's counts, and one verdict. */
static void row_sum(struct bench_row *row, const uint64_t *all, uint32_t ranks)
{
	uint64_t sum[BENCH_COUNT_FIELDS] = { 0 };

	row->is_same = row->is_verified = true;
	for (uint32_t i = 0; i < ranks; i++) {
		const uint64_t *mine = all + i * BENCH_COUNT_FIELDS;
		struct bench_count count;

		memcpy(&count, mine, sizeof(count));
		for (uint32_t k = 0; k < BENCH_COUNT_FIELDS; k++) {
			if (k < BENCH_COUNT_TIMES)
				keep_larger(&sum[k], mine[k]);
			else
				sum[k] += mine[k];
		}
		row->is_same = row->is_same && count.digest == all[BENCH_COUNT_FIELDS - 1];
		row->is_verified = row->is_verified && !count.elements_wrong &&
				   count.operations_checked == row->operations_expected;
	}
	row->is_verified = row->is_verified && row->is_same;
	memcpy(&row->all, sum, sizeof(sum));
}

/* Collective: adds up what the ranks counted and prints it. */
static int row_end(struct bench *bench, struct bench_row *row)
{
	uint64_t mine[BENCH_COUNT_FIELDS], *all;
	int result;

	tats_sort(bench);
	memcpy(mine, &bench->count, sizeof(mine));
	all = calloc((size_t)bench->ranks * BENCH_COUNT_FIELDS, sizeof(*all));
	if (!all)
		return failed(bench, "gather", TALLY_ERR_NO_MEMORY);
	result = gather(bench, mine, BENCH_COUNT_FIELDS, all);
	if (!result)
		row_sum(row, all, bench->ranks);
	free(all);
	if (result)
		return result;
	if (!row->is_same && bench->rank == 0)
		fprintf(stderr, "tally bench: the ranks got different bits\n");
	tally_comm_get_stats(bench->comm, &bench->report.stats);
	if (bench->rank == 0)
		report_row(&bench->report, row);
	return bench->options.is_checked && !row->is_verified ? SUMS_WRONG : TALLY_OK;
}

/* Enough for a p99 where that is cheap, few where one takes long. */
static uint64_t iters_of(const struct bench_options *options, uint64_t count)
{
	uint64_t iters = (20u << 20) / (count + 1);

	if (options->iters != UINT64_MAX)
		return options->iters;
	return iters < 5 ? 5 : iters > 1000 ? 1000 : iters;
}

static uint64_t warmup_of(const struct bench_options *options, uint64_t iters)
{
	if (options->warmup != UINT64_MAX)
		return options->warmup;
	return iters / 10 ? iters / 10 : 1;
}

static int row_run(struct bench *bench, uint64_t count, int dtype)
{
	uint64_t iters = iters_of(&bench->options, count);
	uint64_t warmup = warmup_of(&bench->options, iters), done = 0;
	struct bench_row row = {
		.count = count,
		.dtype = dtype,
		.operations_expected = bench->options.is_checked ? warmup + iters : 0,
	};

	bench->count = (struct bench_count){ 0 };
	while (done < warmup + iters) {
		bool is_timed = done >= warmup;
		uint64_t end = is_timed ? warmup + iters : warmup;
		int result;

		for (; done < end && batch_has_room(bench, count, dtype); done++)
			batch_add(bench, count, dtype);
		result = batch_run(bench, is_timed);
		if (result)
			return result;
		if (bench->rank == 0)
			report_progress(&bench->report, bench_dtype_name(dtype), count,
					(double)done / (double)(warmup + iters));
	}
	return row_end(bench, &row);
}

static int random_run(struct bench *bench)
{
	const struct bench_options *options = &bench->options;
	struct bench_row row = {
		.dtype = options->dtypes[0],
		.is_random = true,
		.operations_expected = options->is_checked ? options->random_count : 0,
	};
	uint64_t begin_ns = clock_ns(), count;
	struct rng rng;

	bench->count = (struct bench_count){ 0 };
	rng_init(&rng, options->seed, 0);
	count = rng_log(&rng, options->random_min, options->random_max);
	for (uint64_t done = 0; done < options->random_count;) {
		int result;

		while (done < options->random_count &&
		       batch_has_room(bench, count, options->dtypes[0])) {
			batch_add(bench, count, options->dtypes[done % options->dtypes_count]);
			count = rng_log(&rng, options->random_min, options->random_max);
			done++;
		}
		result = batch_run(bench, true);
		if (result)
			return result;
		if (bench->rank == 0)
			report_progress(&bench->report, "random", options->random_count,
					(double)done / (double)options->random_count);
	}
	row.wall_ns = clock_ns() - begin_ns;
	return row_end(bench, &row);
}

/* ---- life ---- */

static int comm_open(struct bench *bench)
{
	static const uint32_t flags[] = {
		[DATA_HALF] = TALLY_HALF, [DATA_EXACT] = TALLY_EXACT, [DATA_STRICT] = TALLY_STRICT
	};
	struct tally_options options = TALLY_OPTIONS_INIT;
	char job[64];
	int result;

	options.window_packets = (uint32_t)bench->options.window;
	options.latency_slots = (uint32_t)bench->options.latency_slots;
	options.flags = flags[bench->options.wire];
	options.latency_window = (uint32_t)bench->options.latency_window;
	snprintf(job, sizeof(job), "bench-%d-%" PRIu64, (int)getpid(), clock_ns());
	result = bootstrap_is_launched(bootstrap_getenv, NULL)
			 ? tally_comm_init_env(&bench->comm, &options)
			 : tally_comm_init(&bench->comm, job, 1, 0, &options);
	if (result)
		return failed(bench, "init", result);
	bench->rank = tally_comm_rank(bench->comm);
	bench->ranks = tally_comm_size(bench->comm);
	return TALLY_OK;
}

static size_t bytes_most(const struct bench_options *options)
{
	size_t most = 0;

	for (uint32_t i = 0; i < options->dtypes_count; i++)
		most = most < data_bytes(options->dtypes[i]) ? data_bytes(options->dtypes[i])
							     : most;
	return most;
}

/* One buffer of the largest size, times the operations on their way; but at least one batch. */
static int buffers_open(struct bench *bench)
{
	const struct bench_options *options = &bench->options;
	uint64_t most = options->random_count ? options->random_max : 0;
	uint64_t tats = options->random_count;

	for (uint32_t i = 0; !options->random_count && i < options->sizes; i++) {
		keep_larger(&most, options->elements[i]);
		keep_larger(&tats, iters_of(options, options->elements[i]));
	}
	bench->buffer_bytes = (most * bytes_most(options) + BUFFER_ALIGN) * options->inflight;
	if (bench->buffer_bytes < BATCH_BYTES)
		bench->buffer_bytes = BATCH_BYTES;
	bench->buffer_bytes += BATCH_MAX * BUFFER_ALIGN; /* each begins aligned */
	bench->buffer_bytes = bench->buffer_bytes / BUFFER_ALIGN * BUFFER_ALIGN;
	bench->send = aligned_alloc(BUFFER_ALIGN, bench->buffer_bytes);
	bench->recv = options->is_in_place ? bench->send
					   : aligned_alloc(BUFFER_ALIGN, bench->buffer_bytes);
	bench->tats = calloc(tats, sizeof(*bench->tats));
	if (!bench->send || !bench->recv || !bench->tats)
		return failed(bench, "buffers", TALLY_ERR_NO_MEMORY);
	return TALLY_OK;
}

/* Rank 0's count: other data are another sum, and who does not check makes no sums to compare. */
static int options_agree(struct bench *bench)
{
	struct bench_options *options = &bench->options;
	uint64_t seed, is_checked = options->is_checked;
	int result;

	if (!options->has_seed) {
		if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
			seed = clock_ns();
		options->seed = seed >> 32; /* short enough to type */
	}
	seed = options->seed;
	result = share(bench, &options->seed);
	if (!result)
		result = share(bench, &is_checked);
	if (!result && options->has_seed && seed != options->seed)
		fprintf(stderr,
			"tally bench: rank %u: --seed %" PRIu64 ": rank 0's counts, %" PRIu64 "\n",
			bench->rank, seed, options->seed);
	options->is_checked = is_checked;
	return result;
}

/* Its own data have to fit. */
static int scale_check(const struct bench *bench)
{
	double most = ldexp(1, 31 - (int)block_log2(bench->ranks)) / DATA_LIMIT;

	if (bench->options.scale <= most)
		return TALLY_OK;
	if (bench->rank == 0)
		fprintf(stderr,
			"tally bench: --scale %g: with %u ranks at most %g: its elements are below "
			"%d\n",
			bench->options.scale, bench->ranks, most, DATA_LIMIT);
	return TALLY_ERR_ARGUMENT;
}

static int rows_run(struct bench *bench)
{
	const struct bench_options *options = &bench->options;
	int result = TALLY_OK, wrong = TALLY_OK;

	if (options->random_count)
		return random_run(bench);
	for (uint32_t i = 0; i < options->sizes; i++) {
		for (uint32_t k = 0; k < options->dtypes_count; k++) {
			result = row_run(bench, options->elements[i], options->dtypes[k]);
			if (result && result != SUMS_WRONG)
				return result;
			wrong = wrong ? wrong : result; /* wrong sums: go on, to see which */
		}
	}
	return wrong;
}

static int bench_run(struct bench *bench)
{
	int result = comm_open(bench);

	if (result)
		return result;
	bench->report = (struct bench_report){
		.options = &bench->options,
		.ranks = bench->ranks,
		.stats = TALLY_STATS_INIT,
	};
	result = scale_check(bench);
	if (!result)
		result = buffers_open(bench);
	if (!result)
		result = tally_comm_get_stats(bench->comm, &bench->report.stats);
	if (!result)
		result = options_agree(bench);
	if (!result && bench->rank == 0)
		report_open(&bench->report);
	if (!result)
		result = rows_run(bench);
	if (bench->rank == 0)
		report_progress_end(&bench->report);
	return result;
}

int bench_main(int argc, char **argv)
{
	static struct bench bench;
	int result;

	if (argc > 1 && !strcmp(argv[1], "profile"))
		return profile_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "replay"))
		return replay_main(argc - 1, argv + 1);
	result = bench_parse(&bench.options, argc, argv);

	if (result >= 0)
		return result;
	result = bench_run(&bench);
	if (!result || result == SUMS_WRONG) {
		int end = tally_comm_finalize(bench.comm);

		if (end)
			failed(&bench, "finalize", end);
		result = result ? result : end;
	} else if (bench.comm) {
		tally_comm_abort(bench.comm); /* the others must not wait for this rank */
	}
	tally_comm_destroy(bench.comm);
	if (!bench.options.is_in_place)
		free(bench.recv);
	free(bench.send);
	free(bench.tats);
	if (fflush(stdout))
		result = TALLY_ERR_SYSTEM;
	return result ? EXIT_FAILED : EXIT_DONE;
}
