/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - see work.h. Operations run in batches, as in tools/bench.c: making and checking data never lie between two. */
#include "bench/peers/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "util/clock.h"
#include "util/machine.h"
#include "util/opt.h"
#include "util/trace.h"

enum { BATCH_BYTES = 32 << 20, ALIGN = 64, SIZES_MAX = 64, BLOCK = 1024, ITERS_MAX = 1000000 };
enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct options {
	uint64_t elements[SIZES_MAX];
	uint32_t sizes;
	uint64_t iters, warmup; /* 0 and UINT64_MAX: by size, as tally bench has them */
	int is_float;
	pid_t watched[MACHINE_WATCHED_MAX];
	uint32_t watched_count;
	struct trace trace; /* instead of sizes, if it has layers */
	double gpu_speed;   /* 0: computing takes no time */
};

struct row {
	struct work_peer *peer;
	const struct options *options;
	uint64_t elements, iters, warmup; /* iters, warmup: operations, or steps of a trace */
	size_t *offset, bytes;            /* of the slots */
	uint32_t slots;
	char *send, *recv;
	uint64_t *tat_ns, done; /* of the timed ones */
	uint64_t timed_ns, cpu_us, busy_ns, stolen_ns, watched_ns, wrong, checked;
};

static uint64_t elements_of(const struct row *row, uint32_t slot)
{
	return row->options->trace.count ? row->options->trace.layers[slot].elements
					 : row->elements;
}

/* ---- data ---- */

static inline int32_t element(uint32_t key, uint32_t index)
{
	uint32_t x = key + index * 0x9e3779b1u;

	x = (x ^ x >> 15) * 0x85ebca77u;
	x = (x ^ x >> 13) * 0xc2b2ae3du;
	return (int32_t)(x ^ x >> 16) >> 14;
}

static uint32_t key_of(uint32_t rank, uint64_t operation)
{
	uint64_t x = (operation * WORK_RANKS_MAX + rank + 1) * 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	return (uint32_t)(x ^ x >> 31);
}

static void fill(const struct row *row, uint64_t operation, uint32_t slot)
{
	uint32_t key = key_of(row->peer->rank, operation), count = (uint32_t)elements_of(row, slot);
	void *out = row->send + row->offset[slot];

	if (row->recv != row->send) /* so that nothing stale can look right */
		memset(row->recv + row->offset[slot], 0xa5, (size_t)count * 4);
	if (row->options->is_float)
		for (uint32_t i = 0; i < count; i++)
			((float *)out)[i] = (float)element(key, i) * 0x1p-10f;
	else
		for (uint32_t i = 0; i < count; i++)
			((int32_t *)out)[i] = element(key, i);
}

static uint64_t block_wrong(const struct row *row, const int32_t *sum, const char *got,
			    uint32_t count)
{
	uint64_t wrong = 0;

	if (row->options->is_float)
		for (uint32_t i = 0; i < count; i++)
			wrong += ((const float *)(const void *)got)[i] != (float)sum[i] * 0x1p-10f;
	else
		for (uint32_t i = 0; i < count; i++)
			wrong += ((const int32_t *)(const void *)got)[i] != sum[i];
	return wrong;
}

static void check(struct row *row, uint64_t operation, uint32_t slot)
{
	const char *got = row->recv + row->offset[slot];
	uint64_t elements = elements_of(row, slot);

	for (uint64_t at = 0; at < elements; at += BLOCK) {
		uint64_t left = elements - at;
		uint32_t count = left < BLOCK ? (uint32_t)left : BLOCK;
		int32_t sum[BLOCK] = { 0 };

		for (uint32_t rank = 0; rank < row->peer->ranks; rank++) {
			uint32_t key = key_of(rank, operation);

			for (uint32_t i = 0; i < count; i++)
				sum[i] += element(key, (uint32_t)at + i);
		}
		row->wrong += block_wrong(row, sum, got + at * 4, count);
	}
	row->checked++;
}

/* ---- a batch ---- */

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void look(const struct row *row, struct machine *machine)
{
	if (row->peer->rank == 0 &&
	    machine_read(machine, row->options->watched, row->options->watched_count)) {
		fprintf(stderr, "%s: /proc/stat cannot be read\n", row->peer->name);
		exit(EXIT_WRONG);
	}
}

static void allreduce(const struct row *row, uint32_t slot)
{
	if (elements_of(row, slot))
		row->peer->allreduce(row->peer, slot, row->send + row->offset[slot],
				     row->recv + row->offset[slot], elements_of(row, slot),
				     row->options->is_float);
}

static void operations_run(struct row *row, uint32_t count, int is_timed)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t from_ns = clock_ns();

		allreduce(row, i);
		if (is_timed)
			row->tat_ns[row->done++] = clock_ns() - from_ns;
	}
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = clock_timespec(ns);

	if (ns > clock_ns())
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static uint64_t scaled(const struct options *options, uint64_t ns)
{
	return options->gpu_speed > 0 ? (uint64_t)((double)ns / options->gpu_speed) : 0;
}

/* As tools/bench_replay.c, but that sums wait for each other: who computes does not wait for them until the next forward
 * pass. All of them are there then, the first layer's last. */
static void step_run(struct row *row, int is_timed)
{
	const struct options *options = row->options;
	uint64_t begin_ns = clock_ns(), ready_ns = begin_ns;

	for (uint32_t i = row->slots; i-- > 0;) {
		ready_ns += scaled(options, options->trace.layers[i].backward_ns);
		sleep_until(ready_ns);
		allreduce(row, i);
	}
	ready_ns = ready_ns > clock_ns() ? ready_ns : clock_ns();
	for (uint32_t i = 0; i < row->slots; i++)
		ready_ns += scaled(options, options->trace.layers[i].forward_ns);
	sleep_until(ready_ns);
	if (is_timed)
		row->tat_ns[row->done++] = clock_ns() - begin_ns;
}

static void batch_time(struct row *row, uint32_t count, int is_timed)
{
	struct work_peer *peer = row->peer;
	struct machine begin = { 0 }, end = { 0 };
	uint64_t begin_ns, begin_cpu_us, ns, us;

	/* All have made their data when rank 0 looks, and none begins before it has. */
	peer->barrier(peer);
	look(row, &begin);
	peer->barrier(peer);
	begin_cpu_us = cpu_us();
	begin_ns = clock_ns();
	if (row->options->trace.count)
		step_run(row, is_timed);
	else
		operations_run(row, count, is_timed);
	ns = clock_ns() - begin_ns;
	us = cpu_us() - begin_cpu_us;
	/* Who is done waits before it checks: where ranks share processors a check would come out of the others' times. */
	peer->barrier(peer);
	if (!is_timed)
		return;
	row->timed_ns += ns;
	row->cpu_us += us;
	look(row, &end);
	row->busy_ns += machine_busy_ns(&begin, &end);
	row->stolen_ns += end.stolen_ns - begin.stolen_ns;
	row->watched_ns += end.watched_ns - begin.watched_ns;
}

static void batch_run(struct row *row, uint64_t first, uint32_t count, int is_timed)
{
	for (uint32_t i = 0; i < count; i++)
		fill(row, first + i, i);
	batch_time(row, count, is_timed);
	for (uint32_t i = 0; i < count; i++)
		check(row, first + i, i);
}

/* ---- a size ---- */

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void row_print(struct row *row)
{
	const struct work_peer *peer = row->peer;
	uint64_t n = row->iters, each = row->options->trace.count ? row->slots : 1;

	qsort(row->tat_ns, n, sizeof(*row->tat_ns), compare);
	printf("{\"command\":\"%s\",\"rank\":%" PRIu32 ",\"ranks\":%" PRIu32
	       ",\"dtype\":\"%s\",\"elements\":%" PRIu64 ",\"operations\":%" PRIu64
	       ",\"timed_s\":%.9f,",
	       peer->name, peer->rank, peer->ranks, row->options->is_float ? "float32" : "int32",
	       row->elements, n, (double)row->timed_ns / 1e9);
	printf("\"tat_us_median\":%.3f,\"tat_us_p99\":%.3f,\"tat_us_p1\":%.3f,\"tat_us_min\":%.3f,",
	       (double)row->tat_ns[n / 2] / 1e3, (double)row->tat_ns[(n * 99 + 99) / 100 - 1] / 1e3,
	       (double)row->tat_ns[n / 100] / 1e3, (double)row->tat_ns[0] / 1e3);
	printf("\"cpu_s\":%.6f,\"watched_cpu_s\":%.6f,\"machine_busy_s\":%.3f,"
	       "\"machine_stolen_s\":%.3f,\"elements_wrong\":%" PRIu64 ",\"verified\":%s}\n",
	       (double)row->cpu_us / 1e6, (double)row->watched_ns / 1e9, (double)row->busy_ns / 1e9,
	       (double)row->stolen_ns / 1e9, row->wrong,
	       !row->wrong && row->checked == (row->iters + row->warmup) * each ? "true" : "false");
	fflush(stdout);
}

static void row_settle(struct row *row)
{
	const struct options *options = row->options;
	uint64_t by_size = (20u << 20) / (row->elements + 1);

	by_size = by_size < 5 ? 5 : by_size > 1000 ? 1000 : by_size;
	row->iters = options->iters ? options->iters : by_size;
	row->warmup = options->warmup != UINT64_MAX ? options->warmup
		      : row->iters / 10             ? row->iters / 10
						    : 1;
}

static size_t aligned(uint64_t elements)
{
	return (elements * 4 + ALIGN - 1) / ALIGN * ALIGN;
}

/* As many as there are layers, or as fit a batch. */
static void slots_place(struct row *row)
{
	uint64_t most = row->peer->batch_max ? row->peer->batch_max : WORK_BATCH_MAX;
	uint64_t slots = BATCH_BYTES / aligned(row->elements);

	slots = slots < 1 ? 1 : slots > most ? most : slots;
	row->slots = row->options->trace.count ? row->options->trace.count : (uint32_t)slots;
	row->offset = calloc(row->slots, sizeof(*row->offset));
	for (uint32_t i = 0; row->offset && i < row->slots; i++) {
		row->offset[i] = row->bytes;
		row->bytes += aligned(elements_of(row, i));
	}
}

static void row_open(struct row *row)
{
	struct work_peer *peer = row->peer;

	row_settle(row);
	slots_place(row);
	row->send = aligned_alloc(ALIGN, row->bytes);
	row->recv = peer->is_in_place ? row->send : aligned_alloc(ALIGN, row->bytes);
	row->tat_ns = calloc(row->iters, sizeof(*row->tat_ns));
	if (!row->offset || !row->send || !row->recv || !row->tat_ns) {
		fprintf(stderr, "%s: no memory for %zu bytes\n", peer->name, row->bytes);
		exit(EXIT_WRONG);
	}
	for (uint32_t i = 0; peer->prepare && i < row->slots; i++)
		peer->prepare(peer, i, row->send + row->offset[i], elements_of(row, i),
			      row->options->is_float);
}

static int row_run(struct row *row)
{
	int is_trace = row->options->trace.count != 0;
	uint64_t operation = 0, done = 0, all;

	row_open(row);
	all = row->warmup + row->iters;
	while (done < all) {
		uint64_t end = done < row->warmup ? row->warmup : all;
		uint64_t count = end - done < row->slots ? end - done : row->slots;

		count = is_trace ? row->slots : count;
		batch_run(row, operation, (uint32_t)count, done >= row->warmup);
		operation += count;
		done += is_trace ? 1 : count;
	}
	row_print(row);
	if (row->recv != row->send)
		free(row->recv);
	free(row->send);
	free(row->offset);
	free(row->tat_ns);
	return row->wrong ? EXIT_WRONG : 0;
}

/* ---- the options ---- */

/* The next number of a list. */
static int number_next(const char **at, uint64_t most, uint64_t *number)
{
	char *end;

	*number = strtoull(*at, &end, 10);
	if (end == *at || **at < '0' || **at > '9' || *number > most || (*end && *end != ','))
		return 0;
	*at = *end ? end + 1 : end;
	return 1;
}

static int option_take(struct options *options, const char *name, const char *value)
{
	const char *at = value;
	uint64_t number;

	if (!strcmp(name, "--dtype")) {
		options->is_float = !strcmp(value, "float32");
		return options->is_float || !strcmp(value, "int32");
	}
	if (!strcmp(name, "--trace")) {
		char why[TRACE_WHY_BYTES];

		if (!trace_load(&options->trace, value, why))
			return 1;
		fprintf(stderr, "%s: %s\n", value, why);
		return 0;
	}
	if (!strcmp(name, "--gpu-speed"))
		return opt_real(value, 0, 1e6, &options->gpu_speed);
	if (!strcmp(name, "--iters"))
		return number_next(&at, ITERS_MAX, &options->iters) && !*at;
	if (!strcmp(name, "--warmup"))
		return number_next(&at, ITERS_MAX, &options->warmup) && !*at;
	while (*at && !strcmp(name, "--elements") && options->sizes < SIZES_MAX) {
		if (!number_next(&at, 1u << 30, &options->elements[options->sizes]) ||
		    !options->elements[options->sizes++])
			return 0;
	}
	while (*at && !strcmp(name, "--watch") && options->watched_count < MACHINE_WATCHED_MAX) {
		if (!number_next(&at, INT32_MAX, &number))
			return 0;
		options->watched[options->watched_count++] = (pid_t)number;
	}
	return *value && !*at;
}

int work_run(struct work_peer *peer, int argc, char **argv)
{
	struct options options = { .warmup = UINT64_MAX, .is_float = 1, .gpu_speed = 1 };
	int is_good = peer->ranks && peer->ranks <= WORK_RANKS_MAX && !(argc % 2), result = 0;

	for (int i = 0; is_good && i < argc; i += 2)
		is_good = option_take(&options, argv[i], argv[i + 1]);
	if (is_good && options.trace.count && !options.sizes)
		options.elements[options.sizes++] = trace_elements(&options.trace);
	if (!is_good || options.sizes < 1 || (options.trace.count && options.sizes > 1)) {
		fprintf(stderr,
			"%s: --elements A,B, or --trace FILE [--gpu-speed F]; [--dtype "
			"int32|float32] [--iters N] [--warmup N] [--watch PID,PID]; 1 to %d "
			"ranks\n",
			peer->name, WORK_RANKS_MAX);
		return EXIT_USAGE;
	}
	for (uint32_t i = 0; i < options.sizes; i++) {
		struct row row = { .peer = peer,
				   .options = &options,
				   .elements = options.elements[i] };
		int wrong = row_run(&row);

		result = result ? result : wrong;
	}
	free(options.trace.layers);
	return result;
}
