/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_test.c - tally-ps, with workers that speak its protocol from here: whole numbers are pushed, hot and cold, with
 * 1 % of all datagrams lost, while it is killed at random moments and started again, and so is its aggregator. What
 * its table has at the end is what was pushed.
 *
 * Usage: ps_test TALLY-PS TALLYD [--kill WHO] ROUNDS [SEED]; TALLYD - is none; WHO: server, aggregator, or either,
 * which is drawn each time
 */
#include "tests/e2e/ps_worker.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/e2e/daemons.h"

struct ps_test test;
static struct worker worker[WORKERS];
static uint64_t cold[COLD];
static int64_t want[KEYS][DIM];
static const char *map_path;
static const char *program, *aggregator_program; /* NULL: none */
static struct daemon server, aggregator;
static unsigned server_kills, aggregator_kills;

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the server ---- */

static void aggregator_start(void)
{
	const char *arguments[] = { aggregator_program, "--listen", daemon_address(&aggregator),
				    NULL };

	daemon_start(&aggregator, arguments, now_ms() + DEADLINE_S * 1000);
}

static void server_start(void)
{
	char workers[16], table[256];
	const char *arguments[] = { program,
				    "--listen",
				    daemon_address(&server),
				    "--workers",
				    workers,
				    "--dir",
				    test_folder(),
				    "--table",
				    table,
				    "--heartbeat",
				    "0.2",
				    "--aggregator",
				    aggregator.address,
				    NULL };

	snprintf(workers, sizeof(workers), "%d", WORKERS);
	snprintf(table, sizeof(table),
		 "t,dim=%d,optimizer=sum,map=%s,window=%d,age-us=3000,patience-us=20000", DIM,
		 map_path, WINDOW);
	if (!aggregator_program)
		arguments[11] = NULL;
	daemon_start(&server, arguments, now_ms() + DEADLINE_S * 1000);
	test.port = (uint16_t)atoi(strrchr(server.address, ':') + 1);
}

/* ---- what is pushed ---- */

static int32_t value_draw(void)
{
	return (int32_t)rng_below(&test.rng, 2 * VALUE_MAX + 1) - VALUE_MAX;
}

static bool push(struct worker *it)
{
	uint8_t pairs[PAIRS * (SPARSE_RANK_BYTES + DIM * SPARSE_VALUE_BYTES)], *at = pairs;
	int32_t value[PAIRS][DIM];
	uint32_t which[PAIRS], first = rng_below(&test.rng, HOT - 3 * PAIRS);

	if (!it->endpoint)
		return false;
	for (uint32_t i = 0; i < PAIRS; i++) {
		which[i] = first += 1 + rng_below(&test.rng, 2);
		sparse_body_put32(at, test.rank_of[which[i]]);
		at += SPARSE_RANK_BYTES;
		for (uint32_t k = 0; k < DIM; k++, at += SPARSE_VALUE_BYTES)
			sparse_body_put32(at, (uint32_t)(value[i][k] = value_draw()));
	}
	if (!endpoint_sparse_push(it->endpoint, 0, PAIRS, pairs))
		return false;
	for (uint32_t i = 0; i < PAIRS; i++)
		for (uint32_t k = 0; k < DIM; k++)
			want[which[i]][k] += value[i][k];
	it->pushes++;
	return true;
}

static bool batch(struct worker *it)
{
	struct batch *batch = &it->kept[it->batch_next % KEPT];
	uint32_t first = rng_below(&test.rng, COLD - 3 * PAIRS);

	if (!it->is_open || it->batch_next - it->batch_first == KEPT)
		return false;
	*batch = (struct batch){ .number = it->batch_next++, .count = PAIRS };
	for (uint32_t i = 0; i < PAIRS; i++) {
		first += 1 + rng_below(&test.rng, 2);
		batch->key[i] = cold[first];
		for (uint32_t k = 0; k < DIM; k++) {
			int32_t value = value_draw();

			batch->value[i * DIM + k] = (float)value;
			want[HOT + first][k] += value;
		}
	}
	it->batches++;
	batch_say(it, batch);
	return true;
}

static bool is_all_in(const struct worker *it)
{
	return it->endpoint && it->batch_first == it->batch_next &&
	       endpoint_sparse_is_committed(it->endpoint, it->pushes);
}

static void all_turn(void)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_turn(&worker[i]);
	sleep_us(300);
}

static void deadline_check(uint64_t begun_ns, const char *what)
{
	if (now_ns() - begun_ns < DEADLINE_S * 1000000000ull)
		return;
	for (uint32_t i = 0; i < WORKERS; i++)
		fprintf(stderr,
			"worker %u: %" PRIu64 " pushes, low %" PRIu64 ", generation %" PRIu64
			", batches %" PRIu64 " to %" PRIu64 "\n",
			i, worker[i].pushes,
			worker[i].endpoint ? endpoint_sparse_worker(worker[i].endpoint)->low : 0,
			worker[i].endpoint ? endpoint_sparse_worker(worker[i].endpoint)->generation
					   : 0,
			worker[i].batch_first, worker[i].batch_next);
	test_fail("%s: not in %d s", what, DEADLINE_S);
}

/* One life of the server, with pushes all the while. */
static void round_run(bool is_last)
{
	uint64_t begun_ns = now_ns(), most = worker[0].pushes + 60;
	uint64_t kill_ns = begun_ns + rng_between(&test.rng, ROUND_MS / 5, ROUND_MS) * 1000000;

	while (is_last || now_ns() < kill_ns) {
		bool is_in = is_last;

		for (uint32_t i = 0; i < WORKERS; i++) {
			struct worker *it = &worker[i];

			if (!is_last && it->pushes < most && rng_below(&test.rng, 2))
				push(it);
			if (!is_last && it->batches < most && !rng_below(&test.rng, 3))
				batch(it);
			if (is_last && it->endpoint)
				endpoint_sparse_hurry(it->endpoint);
			is_in = is_in && is_all_in(it);
		}
		all_turn();
		if (is_in)
			return;
		deadline_check(begun_ns, "the last pushes");
	}
}

static void barrier_pass(void)
{
	uint64_t begun_ns = now_ns();

	for (uint32_t i = 0; i < WORKERS; i++) {
		for (int turn = 0; turn < 20; turn++)
			all_turn();
		if (worker[0].passed)
			test_fail("a barrier was passed before all had come");
		worker[i].barrier = 1;
		if (worker[i].is_open)
			barrier_say(&worker[i]);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		while (!worker[i].passed) {
			all_turn();
			deadline_check(begun_ns, "the barrier");
		}
	}
}

static void pull(struct worker *by)
{
	uint64_t begun_ns = now_ns();

	memset(test.got, 0, sizeof(test.got));
	by->pulls++;
	if (by->is_open)
		pull_say(by);
	while (by->pulled != by->pulls) {
		all_turn();
		deadline_check(begun_ns, "a pull");
	}
}

/* ---- */

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint32_t place_of(uint64_t key)
{
	const uint64_t *at = bsearch(&key, test.asked, KEYS, sizeof(*test.asked), by_number);

	return (uint32_t)(at - test.asked);
}

static void begin(void)
{
	/* Odd ones are hot; drawn, so that their ranks are in no order. */
	for (uint32_t i = 0; i < HOT; i++)
		test.hot[i] = rng_next(&test.rng) << 10 | i << 1 | 1;
	for (uint32_t i = 0; i < COLD; i++)
		cold[i] = 1000ull * i;
	memcpy(test.asked, test.hot, sizeof(test.hot));
	memcpy(test.asked + HOT, cold, sizeof(cold));
	qsort(test.asked, KEYS, sizeof(*test.asked), by_number);
	test_begin("ps");
	map_path = test_map(1, test.hot, HOT);
	if (aggregator_program)
		aggregator_start();
	server_start();
	for (uint16_t i = 0; i < WORKERS; i++)
		worker_begin(&worker[i], i);
}

static void compare(void)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < KEYS; i++) {
		uint64_t key = i < HOT ? test.hot[i] : cold[i - HOT];
		const float *value = test.got[place_of(key)];

		for (uint32_t k = 0; k < DIM; k++) {
			if ((int64_t)value[k] == want[i][k])
				continue;
			if (wrong++ < 5)
				fprintf(stderr,
					"%s key %" PRIu64 ", value %u: %g, and %" PRId64
					" was pushed\n",
					i < HOT ? "hot" : "cold", key, k, (double)value[k],
					want[i][k]);
		}
	}
	if (wrong)
		test_fail("%u of %u sums are wrong", wrong, KEYS * DIM);
}

/* Of one of the two, which is missed for a while. */
static void kill_one(const char *who)
{
	bool is_either = !strcmp(who, "either");

	if (is_either ? !aggregator_program || rng_below(&test.rng, 2) : !strcmp(who, "server")) {
		daemon_end(&server, SIGKILL);
		server_kills++;
		server_start();
		return;
	}
	daemon_end(&aggregator, SIGKILL);
	aggregator_kills++;
	if (rng_below(&test.rng, 2))
		round_run(false);
	aggregator_start();
}

static void end(void)
{
	uint64_t pushes = 0, batches = 0;

	for (uint32_t i = 0; i < WORKERS; i++) {
		pushes += worker[i].pushes;
		batches += worker[i].batches;
	}
	if (aggregator_program && !test.elsewhere)
		test_fail("the aggregator has never summed");
	printf("%u kills of the server, %u of the aggregator: %" PRIu64 " pushes and %" PRIu64
	       " batches, %" PRIu64 " datagrams lost, %" PRIu64 " connections, %" PRIu64
	       " generations at an aggregator: every sum is exact\n",
	       server_kills, aggregator_kills, pushes, batches, test.lost, test.connections,
	       test.elsewhere);
	if (aggregator_program)
		daemon_end(&aggregator, SIGKILL);
	daemon_end(&server, SIGTERM);
}

int main(int argc, char **argv)
{
	const char *who = "either";
	uint64_t rounds, seed;

	if (argc < 3)
		return 2;
	program = argv[1];
	aggregator_program = strcmp(argv[2], "-") ? argv[2] : NULL;
	if (argc > 4 && !strcmp(argv[3], "--kill")) {
		who = argv[4];
		argc -= 2;
		argv += 2;
	}
	if (strcmp(who, "either") != 0 && strcmp(who, "server") != 0 &&
	    (strcmp(who, "aggregator") != 0 || !aggregator_program))
		return 2;
	rounds = argc > 3 ? strtoull(argv[3], NULL, 10) : 10;
	seed = argc > 4 ? strtoull(argv[4], NULL, 10) : now_ns();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %" PRIu64 "\n", seed);
	signal(SIGPIPE, SIG_IGN);
	rng_init(&test.rng, seed, 0);
	begin();
	for (uint64_t i = 0; i < rounds; i++) {
		round_run(false);
		if (rng_below(&test.rng, 4) == 0)
			kill(server.pid, SIGUSR2); /* it is killed while it writes a checkpoint */
		if (rng_below(&test.rng, 4) == 0)
			round_run(false);
		kill_one(who);
	}
	round_run(true);
	barrier_pass();
	pull(&worker[0]);
	compare();
	daemon_end(&server, SIGTERM);
	server_start();
	pull(&worker[WORKERS - 1]);
	compare();
	end();
	return test_end(true);
}
