/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_replay.c - tally bench replay: steps of a training as a trace has them, with real sums. What a GPU would compute is
 * slept through: it takes no processor. In the backward pass, from the last layer to the first, a layer's sum is asked for
 * as soon as it is computed; in the next forward pass a layer begins when the one before has ended and its own sum is there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "lib/bootstrap.h"
#include "tools/bench.h"
#include "tools/command.h"
#include "util/clock.h"
#include "util/machine.h"
#include "util/opt.h"
#include "util/trace.h"

enum { STEPS_MAX = 10000, ALIGN = 64 };

static const char help[] =
	"tally bench replay - steps of a training, as a trace has them, with real sums\n"
	"\n"
	"usage: tally bench replay TRACE [OPTION...]\n"
	"\n"
	"  tally run -n 4 -- tally bench replay resnet50.csv --gpu-speed 10\n"
	"\n"
	"TRACE has a line for each layer, in the order of the forward pass: LAYER, ELEMENTS, "
	"FORWARD_NS,\n"
	"BACKWARD_NS. Computing is slept through. Sums are asked for as their layers are computed, "
	"from\n"
	"the last layer to the first; the next forward pass begins a layer when its sum is there. "
	"The sums\n"
	"are of float32, and each is verified.\n"
	"\n"
	"  --gpu-speed F       computing is F times as fast as in TRACE (1); 0: takes no time\n"
	"  --blocking          each call waits for its sum, and so does the computing\n"
	"  --steps N           that are timed, after one that is not (5)\n"
	"  --watch PID,...     as tally bench allreduce has it\n"
	"  --json              one object\n"
	"  --help, --version\n"
	"\n"
	"A step's time is the slowest rank's, the median of all; the rest is as tally bench "
	"allreduce\n"
	"--help says.\n"
	"Exit status: 0; 1 if a sum was wrong or a call failed; 2 wrong command line.\n";

struct replay {
	/* What is asked for. */
	double gpu_speed;
	bool is_blocking, is_json;
	uint64_t steps;
	struct bench_options watch; /* its pids alone */
	struct trace trace;
	/* What there is. */
	struct tally_comm *comm;
	struct tally_stats stats;
	uint32_t rank, ranks;
	char *send, *recv;
	size_t *offset;
	struct tally_work **works;
	uint64_t *step_ns; /* the slowest rank's, of steps that are timed */
	uint64_t wrong, busy_ns, stolen_ns, watched_ns, cpu_us;
};

static const char *watch_take(struct opt_value *value)
{
	struct replay *replay = value->request;

	return bench_watch(&replay->watch, value->text);
}

#define AT(field) OPT_FIELD(struct replay, field)
static const struct opt table[] = {
	{ "gpu-speed", OPT_REAL, AT(gpu_speed), .low = 0, .high = 1e6 },
	{ "blocking", OPT_FLAG, AT(is_blocking) },
	{ "steps", OPT_NUMBER, AT(steps), .min = 1, .max = STEPS_MAX },
	{ "watch", OPT_CALL, .call = watch_take },
	{ "json", OPT_FLAG, AT(is_json) },
};
static const struct opt_command command = { .name = "tally bench replay",
					    .help = help,
					    .table = table,
					    .count = OPT_COUNT(table) };

static int failed(const struct replay *replay, const char *what, int result)
{
	const char *text = tally_get_last_error(replay->comm);

	fprintf(stderr, "tally bench replay: %s: %s\n", what,
		*text ? text : tally_strerror(result));
	return result;
}

static uint64_t cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- a step ---- */

static uint64_t scaled(const struct replay *replay, uint64_t ns)
{
	return replay->gpu_speed > 0 ? (uint64_t)((double)ns / replay->gpu_speed) : 0;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = clock_timespec(ns);

	if (ns > clock_ns())
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static struct data_op op_of(const struct replay *replay, uint64_t step, uint32_t layer)
{
	return (struct data_op){
		.seed = 1,
		.number = step * replay->trace.count + layer,
		.ranks = replay->ranks,
		.dtype = TALLY_FLOAT32,
		.count = replay->trace.layers[layer].elements,
	};
}

/* All sums are asked for; when the last layer's, from the front, has been computed is returned. */
static int backward(struct replay *replay, uint64_t *ready_ns)
{
	for (uint32_t i = replay->trace.count; i-- > 0;) {
		const struct trace_layer *layer = &replay->trace.layers[i];
		char *send = replay->send + replay->offset[i],
		     *recv = replay->recv + replay->offset[i];
		int result = TALLY_OK;

		*ready_ns += scaled(replay, layer->backward_ns);
		sleep_until(*ready_ns);
		if (!layer->elements)
			continue;
		if (replay->is_blocking) {
			result = tally_allreduce(send, recv, layer->elements, TALLY_FLOAT32,
						 TALLY_SUM, replay->comm);
			*ready_ns = *ready_ns > clock_ns() ? *ready_ns : clock_ns();
		} else {
			result = tally_iallreduce(send, recv, layer->elements, TALLY_FLOAT32,
						  TALLY_SUM, replay->comm, NULL, &replay->works[i]);
		}
		if (result)
			return result;
	}
	return TALLY_OK;
}

/* Whatever fails, no operation is left behind. */
static int forward(struct replay *replay, uint64_t ready_ns)
{
	int result = TALLY_OK;

	for (uint32_t i = 0; i < replay->trace.count; i++) {
		uint64_t now_ns;
		int end = TALLY_OK;

		if (replay->works[i])
			end = tally_waitall(1, &replay->works[i], -1);
		result = result ? result : end;
		now_ns = clock_ns();
		ready_ns = (ready_ns > now_ns ? ready_ns : now_ns) +
			   scaled(replay, replay->trace.layers[i].forward_ns);
	}
	if (!result)
		sleep_until(ready_ns);
	return result;
}

static int step_time(struct replay *replay, uint64_t *took_ns)
{
	const struct bench_options *watch = &replay->watch;
	struct machine begin = { 0 }, end = { 0 };
	uint64_t begin_ns, ready_ns, begin_cpu_us;
	int result = tally_barrier(replay->comm), other;

	if (replay->rank == 0)
		machine_read(&begin, watch->watched, watch->watched_count);
	if (!result)
		result = tally_barrier(replay->comm);
	if (result)
		return failed(replay, "barrier", result);
	begin_cpu_us = cpu_us();
	begin_ns = ready_ns = clock_ns();
	result = backward(replay, &ready_ns);
	other = forward(replay, ready_ns);
	*took_ns = clock_ns() - begin_ns;
	replay->cpu_us += cpu_us() - begin_cpu_us;
	if (replay->rank == 0) {
		machine_read(&end, watch->watched, watch->watched_count);
		replay->busy_ns += machine_busy_ns(&begin, &end);
		replay->stolen_ns += end.stolen_ns - begin.stolen_ns;
		replay->watched_ns += end.watched_ns - begin.watched_ns;
	}
	result = result ? result : other;
	return result ? failed(replay, "allreduce", result) : TALLY_OK;
}

static int step_run(struct replay *replay, uint64_t step, uint64_t *took_ns)
{
	int result;

	for (uint32_t i = 0; i < replay->trace.count; i++) {
		struct data_op op = op_of(replay, step, i);

		data_fill(&op, replay->rank, replay->send + replay->offset[i]);
		memset(replay->recv + replay->offset[i], 0xa5, op.count * sizeof(float));
	}
	result = step_time(replay, took_ns);
	for (uint32_t i = 0; !result && i < replay->trace.count; i++) {
		struct data_op op = op_of(replay, step, i);
		struct data_verdict verdict;

		if (!data_verify(&op, replay->stats.lanes, replay->recv + replay->offset[i],
				 &verdict))
			return failed(replay, "verification", TALLY_ERR_NO_MEMORY);
		replay->wrong += verdict.wrong;
	}
	return result;
}

/* ---- all of them ---- */

/* The slowest rank's steps, everybody's processor and wrong elements. */
static int ranks_join(struct replay *replay)
{
	uint64_t sums[] = { replay->wrong, replay->cpu_us };
	int result = tally_allreduce(replay->step_ns, replay->step_ns, replay->steps, TALLY_INT64,
				     TALLY_MAX, replay->comm);

	if (!result)
		result = tally_allreduce(sums, sums, 2, TALLY_INT64, TALLY_SUM, replay->comm);
	if (result)
		return failed(replay, "allreduce", result);
	replay->wrong = sums[0];
	replay->cpu_us = sums[1];
	return TALLY_OK;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void show(struct replay *replay)
{
	uint64_t n = replay->steps, all_ns = 0;
	uint64_t compute_ns = scaled(replay, trace_compute_ns(&replay->trace));
	const uint64_t *ns = replay->step_ns;

	for (uint64_t i = 0; i < n; i++)
		all_ns += ns[i];
	qsort(replay->step_ns, n, sizeof(*ns), compare);
	if (!replay->is_json) {
		printf("%u ranks, %u layers, %" PRIu64 " elements: a step %.3f ms, computing %.3f "
		       "ms of it, %s, cpu "
		       "%.3f s a step, verified %s\n",
		       replay->ranks, replay->trace.count, trace_elements(&replay->trace),
		       us(ns[n / 2]) / 1e3, us(compute_ns) / 1e3,
		       replay->is_blocking ? "calls block" : "calls overlap",
		       (double)replay->cpu_us / 1e6 / (double)n, replay->wrong ? "NO" : "yes");
		return;
	}
	printf("{\"command\":\"bench "
	       "replay\",\"ranks\":%u,\"dtype\":\"float32\",\"elements\":%" PRIu64
	       ",\"layers\":%u,\"gpu_speed\":%g,\"blocking\":%s,\"compute_us\":%.3f,\"operations\":"
	       "%" PRIu64 ",\"timed_s\":%.9f,",
	       replay->ranks, trace_elements(&replay->trace), replay->trace.count,
	       replay->gpu_speed, replay->is_blocking ? "true" : "false", us(compute_ns), n,
	       (double)all_ns / 1e9);
	printf("\"tat_us_median\":%.3f,\"tat_us_p99\":%.3f,\"tat_us_p1\":%.3f,\"tat_us_min\":%.3f,",
	       us(ns[n / 2]), us(ns[(n * 99 + 99) / 100 - 1]), us(ns[n / 100]), us(ns[0]));
	printf("\"cpu_s\":%.6f,\"watched_cpu_s\":%.6f,\"machine_busy_s\":%.3f,"
	       "\"machine_stolen_s\":%.3f,\"verified\":%s}\n",
	       (double)replay->cpu_us / 1e6, (double)replay->watched_ns / 1e9,
	       (double)replay->busy_ns / 1e9, (double)replay->stolen_ns / 1e9,
	       replay->wrong ? "false" : "true");
}

static int steps_run(struct replay *replay)
{
	uint64_t took_ns;
	int result = step_run(replay, 0, &took_ns);

	replay->busy_ns = replay->stolen_ns = replay->watched_ns = replay->cpu_us = 0;
	for (uint64_t i = 0; !result && i < replay->steps; i++)
		result = step_run(replay, i + 1, &replay->step_ns[i]);
	if (!result)
		result = ranks_join(replay);
	if (!result && replay->rank == 0)
		show(replay);
	return result;
}

/* ---- life ---- */

static int buffers_open(struct replay *replay)
{
	size_t bytes = 0;

	replay->offset = calloc(replay->trace.count, sizeof(*replay->offset));
	replay->works = calloc(replay->trace.count, sizeof(*replay->works));
	replay->step_ns = calloc(replay->steps, sizeof(*replay->step_ns));
	for (uint32_t i = 0; replay->offset && i < replay->trace.count; i++) {
		replay->offset[i] = bytes;
		bytes += (replay->trace.layers[i].elements * sizeof(float) + ALIGN - 1) / ALIGN *
			 ALIGN;
	}
	replay->send = aligned_alloc(ALIGN, bytes);
	replay->recv = aligned_alloc(ALIGN, bytes);
	if (replay->offset && replay->works && replay->step_ns && replay->send && replay->recv)
		return TALLY_OK;
	return failed(replay, "buffers", TALLY_ERR_NO_MEMORY);
}

static int comm_open(struct replay *replay)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	int result = bootstrap_is_launched(bootstrap_getenv, NULL)
			     ? tally_comm_init_env(&replay->comm, &options)
			     : tally_comm_init(&replay->comm, "replay", 1, 0, &options);

	if (result)
		return failed(replay, "init", result);
	replay->rank = tally_comm_rank(replay->comm);
	replay->ranks = tally_comm_size(replay->comm);
	return tally_comm_get_stats(replay->comm, &replay->stats);
}

static int replay_run(struct replay *replay)
{
	int result = comm_open(replay);

	if (!result)
		result = buffers_open(replay);
	if (!result)
		result = steps_run(replay);
	if (!result) {
		result = tally_comm_finalize(replay->comm);
		if (result)
			failed(replay, "finalize", result);
	} else if (replay->comm) {
		tally_comm_abort(replay->comm); /* the others must not wait for this rank */
	}
	tally_comm_destroy(replay->comm);
	free(replay->offset);
	free(replay->works);
	free(replay->step_ns);
	free(replay->send);
	free(replay->recv);
	return result || replay->wrong || fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

int replay_main(int argc, char **argv)
{
	struct replay replay = { .gpu_speed = 1, .steps = 5, .stats = TALLY_STATS_INIT };
	char why[TRACE_WHY_BYTES];
	struct opt_line line;
	int status = opt_read(&command, &replay, argc, argv, &line);

	if (status != OPT_GO_ON)
		return status;
	if (line.words != 1)
		return opt_refuse(command.name, "TRACE", NULL, "one file is needed");
	if (trace_load(&replay.trace, line.word[0], why))
		return opt_refuse(command.name, "TRACE", line.word[0], why);
	status = replay_run(&replay);
	free(replay.trace.layers);
	return status;
}
