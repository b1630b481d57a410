/* SPDX-License-Identifier: Apache-2.0 */
/* host_test.c - ranks that are threads and share memory; what they bring together is worked out beside it. [SEED] */
#include "host/host.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "simd/simd.h"
#include "util/clock.h"
#include "util/rng.h"

enum { RANKS = 5, COUNT_MAX = 300000, ROUNDS = 40, LANES = 360 };

static uint64_t seed = 1;

struct plan {
	uint32_t ranks;
	uint64_t seed;
	void *memory;
	pthread_barrier_t barrier;
};

struct player {
	struct plan *plan;
	struct host *host;
	uint32_t rank;
	pthread_t thread;
	const char *fault;
};

static void *memory_new(uint32_t ranks)
{
	void *memory = aligned_alloc(64, (host_bytes(ranks) + 63) / 64 * 64);

	assert_non_null(memory);
	return memset(memory, 0, host_bytes(ranks));
}

static void players_run(struct plan *plan, void *(*main)(void *), struct player *players)
{
	plan->memory = memory_new(plan->ranks);
	pthread_barrier_init(&plan->barrier, NULL, plan->ranks);
	for (uint32_t r = 0; r < plan->ranks; r++) {
		const struct host_options options = { .memory = plan->memory,
						      .ranks = plan->ranks,
						      .rank = r,
						      .lanes = LANES,
						      .quant = simd_best() };

		players[r] =
			(struct player){ .plan = plan, .rank = r, .host = host_open(&options) };
		assert_non_null(players[r].host);
	}
	for (uint32_t r = 0; r < plan->ranks; r++)
		assert_int_equal(pthread_create(&players[r].thread, NULL, main, &players[r]), 0);
	for (uint32_t r = 0; r < plan->ranks; r++)
		pthread_join(players[r].thread, NULL);
	for (uint32_t r = 0; r < plan->ranks; r++) {
		host_close(players[r].host);
		if (players[r].fault)
			fail_msg("rank %u: %s", r, players[r].fault);
	}
	pthread_barrier_destroy(&plan->barrier);
	free(plan->memory);
}

static bool wait_for(struct player *player, uint64_t cookie)
{
	uint64_t done = 0, until_ns = clock_ns() + 20000000000;

	while (!host_done(player->host, &done, 1)) {
		if (clock_ns() > until_ns)
			player->fault = "an operation does not end";
		if (player->fault)
			return false;
		if (!host_poll(player->host))
			host_wait(player->host, until_ns);
	}
	if (done != cookie)
		player->fault = "another operation ended";
	return !player->fault;
}

/* ---- sums and copies ---- */

/* Both signs, other for each rank; small enough that int32 saturates now and then alone. */
static int32_t element(uint64_t round_seed, uint32_t rank, uint64_t i)
{
	uint64_t hash = (round_seed + i * 40503 + rank * 977) * 0x9e3779b97f4a7c15;

	return (int32_t)(hash >> 32) / 3;
}

struct draw {
	enum lanes_type type;
	enum lanes_op op;
	uint64_t count, cut;
	uint32_t root;
	bool is_in_place;
};

static struct draw draw(struct rng *rng, uint32_t ranks)
{
	static const enum lanes_type types[] = { LANES_INT32, LANES_FLOAT32, LANES_FLOAT64,
						 LANES_INT8,  LANES_INT64,   LANES_BFLOAT16 };
	static const enum lanes_op ops[] = { LANES_SUM, LANES_AVG, LANES_MAX, LANES_COPY };
	struct draw draw = { .type = types[rng_below(rng, 6)], .op = ops[rng_below(rng, 4)] };

	if (!lanes_can(draw.type, draw.op))
		draw.op = LANES_SUM;
	draw.count = rng_below(rng, 3) ? rng_log(rng, 1, COUNT_MAX) : rng_below(rng, 20);
	draw.cut = draw.count ? rng_below(rng, (uint32_t)draw.count) : 0;
	draw.root = rng_below(rng, ranks);
	draw.is_in_place = rng_below(rng, 2);
	return draw;
}

static double value_of(enum lanes_type type, const uint8_t *at, uint64_t i)
{
	uint32_t bits;
	float value;

	switch (type) {
	case LANES_INT8:
		return ((const int8_t *)at)[i];
	case LANES_INT32:
		return ((const int32_t *)(const void *)at)[i];
	case LANES_INT64:
		return (double)((const int64_t *)(const void *)at)[i];
	case LANES_FLOAT64:
		return ((const double *)(const void *)at)[i];
	case LANES_FLOAT32:
		return (double)((const float *)(const void *)at)[i];
	default:
		bits = (uint32_t)((const uint16_t *)(const void *)at)[i] << 16;
		memcpy(&value, &bits, sizeof(value));
		return (double)value;
	}
}

static void value_set(enum lanes_type type, uint8_t *at, uint64_t i, int32_t drawn)
{
	float value = (float)drawn / 65536;
	uint32_t bits;

	switch (type) {
	case LANES_INT8:
		((int8_t *)at)[i] = (int8_t)(drawn >> 26);
		break;
	case LANES_INT32:
		((int32_t *)(void *)at)[i] = drawn;
		break;
	case LANES_INT64:
		((int64_t *)(void *)at)[i] = drawn * (int64_t)65536;
		break;
	case LANES_FLOAT64:
		((double *)(void *)at)[i] = drawn * 1e-3;
		break;
	case LANES_FLOAT32:
		((float *)(void *)at)[i] = value;
		break;
	default:
		memcpy(&bits, &value, sizeof(bits));
		((uint16_t *)(void *)at)[i] = (uint16_t)(bits >> 16);
	}
}

/* What is far enough from it to be wrong; 16-bit floats share an exponent with all of a packet. */
static bool is_near(const struct draw *draw, uint32_t ranks, double got, double want)
{
	double bound = draw->type == LANES_FLOAT32    ? fabs(want) * 1e-7
		       : draw->type == LANES_FLOAT64  ? fabs(want) * 1e-15
		       : draw->type == LANES_BFLOAT16 ? fabs(want) / 256 + ranks * 16384.0 / 4096
						      : 0;

	return fabs(got - want) <= bound;
}

static double expected(const struct draw *draw, uint64_t round_seed, uint32_t ranks, uint64_t i)
{
	_Alignas(8) uint8_t one[8];
	double sum = 0, most = -HUGE_VAL;

	for (uint32_t r = 0; r < ranks; r++) {
		double value;

		if (draw->op == LANES_COPY && r != draw->root)
			continue;
		value_set(draw->type, one, 0, element(round_seed, r, i));
		value = value_of(draw->type, one, 0);
		sum += value;
		most = value > most ? value : most;
	}
	if (draw->op == LANES_MAX)
		return most;
	if (draw->op == LANES_AVG)
		sum /= ranks;
	if (draw->type == LANES_INT8 || draw->type == LANES_INT32 || draw->type == LANES_INT64) {
		double end = draw->type == LANES_INT8 ? 127 : INT32_MAX;

		sum = trunc(sum);
		if (draw->type != LANES_INT64)
			sum = sum > end ? end : sum < -end - 1 ? -end - 1 : sum;
	}
	return sum;
}

static bool round_play(struct player *player, const struct draw *draw, uint32_t round,
		       uint8_t *from, uint8_t *to)
{
	struct plan *plan = player->plan;
	uint32_t bytes = lanes_bytes(draw->type);
	uint64_t round_seed = plan->seed * 1000 + round;
	bool is_copy = draw->op == LANES_COPY, is_mine = player->rank == draw->root;
	uint8_t *out = draw->is_in_place ? from : to;
	struct endpoint_segment segments[2] = {
		{ 0, draw->cut, from, out },
		{ draw->cut, draw->count - draw->cut, from + draw->cut * bytes,
		  out + draw->cut * bytes },
	};
	struct endpoint_op op = {
		.descriptor = { .number = round, .name = "", .count = draw->count },
		.segments = draw->cut ? segments : segments + 1,
		.segments_count = !draw->count ? 0
				  : draw->cut  ? 2
					       : 1,
		.count = draw->count,
		.type = draw->type,
		.op = draw->op,
		.cookie = round
	};

	for (uint64_t i = 0; i < draw->count; i++)
		value_set(draw->type, from, i, element(round_seed, player->rank, i));
	if (is_copy && !is_mine)
		segments[0].source = segments[1].source = NULL;
	if (host_submit(player->host, &op)) {
		player->fault = "not taken";
		return false;
	}
	if (!wait_for(player, round))
		return false;
	for (uint64_t i = 0; i < draw->count; i++) {
		double got = value_of(draw->type, out, i);
		double want = expected(draw, round_seed, plan->ranks, i);

		if (is_near(draw, plan->ranks, got, want))
			continue;
		fprintf(stderr, "round %u type %d op %d count %llu element %llu: %g, not %g\n",
			round, (int)draw->type, (int)draw->op, (unsigned long long)draw->count,
			(unsigned long long)i, got, want);
		player->fault = "a wrong sum";
		return false;
	}
	return true;
}

static void *rounds_main(void *arg)
{
	struct player *player = arg;
	uint8_t *from = malloc(COUNT_MAX * 8), *to = malloc(COUNT_MAX * 8);
	struct rng rng;

	rng_init(&rng, player->plan->seed, player->plan->ranks);
	for (uint32_t round = 0; from && to && round < ROUNDS; round++) {
		struct draw drawn = draw(&rng, player->plan->ranks);

		if (!round_play(player, &drawn, round, from, to)) {
			host_abort(player->host);
			break;
		}
	}
	free(from);
	free(to);
	return NULL;
}

static void host__all_ranks_get_what_all_have_brought(void **state)
{
	(void)state;
	for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
		struct plan plan = { .ranks = ranks, .seed = seed };
		struct player players[RANKS];

		players_run(&plan, rounds_main, players);
	}
}

/* ---- what is not as it should be ---- */

static struct endpoint_op small_op(uint32_t number, int32_t *at)
{
	return (struct endpoint_op){ .descriptor = { .number = number, .name = "", .count = 1 },
				     .source = at,
				     .destination = at,
				     .count = 1,
				     .type = LANES_INT32,
				     .cookie = number };
}

static void host__other_operations_are_not_mixed(void **state)
{
	void *memory = memory_new(2);
	struct host *hosts[2];
	int32_t value[2] = { 3, 4 };

	(void)state;
	for (uint32_t r = 0; r < 2; r++) {
		const struct host_options options = { memory, 2, r, LANES, simd_best(), false };
		struct endpoint_op op = small_op(7 + r, &value[r]);

		hosts[r] = host_open(&options);
		assert_non_null(hosts[r]);
		assert_int_equal(host_submit(hosts[r], &op), 0);
	}
	for (uint32_t r = 0; r < 2; r++) {
		uint64_t cookie;

		assert_false(host_poll(hosts[r]));
		assert_true(host_is_odd(hosts[r]));
		assert_int_equal(host_done(hosts[r], &cookie, 1), 0);
		assert_int_equal(value[r], 3 + r);
		host_close(hosts[r]);
	}
	free(memory);
}

static void *waker_main(void *host)
{
	usleep(20000);
	host_wake(host);
	return NULL;
}

static void *aborter_main(void *host)
{
	usleep(20000);
	host_abort(host);
	return NULL;
}

/* Two ranks, of which one never comes: how long the other waits, in ms. */
static uint64_t wait_alone(void *(*main)(void *), uint64_t most_ns)
{
	void *memory = memory_new(2);
	struct host_options options = { memory, 2, 0, LANES, simd_best(), false };
	struct host *host = host_open(&options), *other;
	int32_t value = 1;
	struct endpoint_op op = small_op(0, &value);
	uint64_t begun_ns;
	pthread_t thread;

	options.rank = 1;
	other = host_open(&options);
	assert_true(host && other);
	assert_int_equal(host_submit(host, &op), 0);
	assert_false(host_poll(host));
	begun_ns = clock_ns();
	if (main)
		pthread_create(&thread, NULL, main, main == waker_main ? host : other);
	host_wait(host, begun_ns + most_ns);
	begun_ns = clock_ns() - begun_ns;
	if (main)
		pthread_join(thread, NULL);
	assert_false(host_poll(host));
	host_close(host);
	host_close(other);
	free(memory);
	return begun_ns / 1000000;
}

static void host__waits_end_by_time_wake_and_abort(void **state)
{
	uint64_t ms = wait_alone(NULL, 30000000);

	(void)state;
	assert_in_range(ms, 29, 5000);
	assert_in_range(wait_alone(waker_main, 20000000000), 0, 10000);
	assert_in_range(wait_alone(aborter_main, 20000000000), 0, 10000);
}

static void host__more_than_enough_operations_are_refused(void **state)
{
	void *memory = memory_new(2);
	const struct host_options options = { memory, 2, 0, LANES, simd_best(), false };
	struct host *host = host_open(&options);
	struct endpoint_op op = small_op(0, NULL);
	uint32_t taken = 0;

	(void)state;
	op.count = 0;
	while (!host_submit(host, &op))
		assert_in_range(++taken, 1, 100000);
	assert_int_equal(host_submit(host, &op), -EAGAIN);
	host_close(host);
	free(memory);
}

static void host__only_whole_sealed_memory_is_mapped(void **state)
{
	int fd = host_memory_make(2);
	void *memory = host_memory_map(fd, 2);

	(void)state;
	assert_true(fd >= 0);
	assert_non_null(memory);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_null(host_memory_map(fd, 3));
	host_memory_unmap(memory, 2);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host__all_ranks_get_what_all_have_brought),
		cmocka_unit_test(host__other_operations_are_not_mixed),
		cmocka_unit_test(host__waits_end_by_time_wake_and_abort),
		cmocka_unit_test(host__more_than_enough_operations_are_refused),
		cmocka_unit_test(host__only_whole_sealed_memory_is_mapped),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
