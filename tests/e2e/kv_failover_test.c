/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_failover_test.c - who sums hot keys changes while workers push: what the tables have at the end is what this file
 * adds up without tally.
 *
 *   takeover  the first of two tallyds is killed for good, then the second: then tally-ps sums
 *   tired     the first of two tallyds is stopped for a moment again and again, so that it answers late: it is drained, and
 *             the second sums
 *   servers   the keys are spread over two tally-ps, which both have their hot keys summed by one tallyd: all three are
 *             killed at random moments, and started again
 *
 * Usage: kv_failover_test TALLY-PS TALLYD CASE [SEED]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tally_kv.h"
#include "tests/e2e/daemons.h"
#include "util/rng.h"

enum {
	WORKERS = 3,
	KEYS = 3000, /* every third is hot */
	HOT = KEYS / 3,
	VALUE_MAX = 40, /* sums stay below 2^24, where float32 counts */
	PUSHES_MAX = 100000,
	PUSHES_MIN = 50,
	KILLS = 8,
	SERVERS_MAX = 2,
	AGGREGATORS_MAX = 2,
	STOPPED_MS = 60, /* of the tired one: so long, and then a moment at work */
	AWAKE_MS = 15,
	MOMENT_MS = 300, /* in which workers push */
	LIMIT_MS = 120000,
};

static struct shared {
	atomic_bool is_over;
	atomic_uint begun;
	atomic_uint pushes[WORKERS];
	float row[KEYS];
} * shared;

static const char *map_path;
static const char *server_program, *aggregator_program;
static struct daemon server[SERVERS_MAX], aggregator[AGGREGATORS_MAX];
static uint32_t servers = 1, aggregators = 2;
static uint64_t seed, until_ms;

/* ---- daemons ---- */

static void aggregator_start(uint32_t which)
{
	const char *arguments[] = { aggregator_program, "--listen",
				    daemon_address(&aggregator[which]), NULL };

	daemon_start(&aggregator[which], arguments, until_ms);
}

/* All that a tired aggregator does is late: nothing that is silent shall be taken for dead. */
static void server_start(uint32_t which, bool is_tiring)
{
	char table[160], dir[96], list[2 * DAEMON_ADDRESS_BYTES];
	const char *arguments[] = { server_program,
				    "--workers",
				    "3",
				    "--dir",
				    dir,
				    "--listen",
				    daemon_address(&server[which]),
				    "--table",
				    table,
				    "--aggregator",
				    list,
				    "--silence",
				    is_tiring ? "60000" : "500",
				    "--tired-delay",
				    is_tiring ? "10" : "0",
				    NULL };

	snprintf(dir, sizeof(dir), "%s/%u", test_folder(), which);
	snprintf(list, sizeof(list), "%s%s%s", aggregator[0].address, aggregators > 1 ? "," : "",
		 aggregators > 1 ? aggregator[1].address : "");
	snprintf(table, sizeof(table), "t,dim=1,optimizer=sum,map=%s,age-us=5000,copies=1",
		 map_path);
	daemon_start(&server[which], arguments, until_ms);
}

/* ---- workers ---- */

static void check(int result, const char *call, uint32_t idx)
{
	if (result)
		test_fail("worker %u: %s: %s", idx, call, tally_get_last_error(NULL));
}

/* Push number `number` of a worker: the same for whoever asks. */
static uint32_t draw(uint32_t idx, uint32_t number, uint64_t *key, float *value)
{
	struct rng rng;
	uint32_t count = 0;

	rng_init(&rng, seed, (uint64_t)(idx + 1) << 32 | number);
	for (uint64_t k = rng_below(&rng, 90); k < KEYS; k += 1 + rng_below(&rng, 90)) {
		key[count] = k;
		value[count++] = (float)((int)rng_below(&rng, 2 * VALUE_MAX + 1) - VALUE_MAX);
	}
	return count;
}

static struct tally_kv *open_as(uint32_t idx)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	char list[SERVERS_MAX * DAEMON_ADDRESS_BYTES];
	struct tally_kv *kv;

	snprintf(list, sizeof(list), "%s%s%s", server[0].address, servers > 1 ? "," : "",
		 servers > 1 ? server[1].address : "");
	options.servers = list;
	options.job = "failover";
	options.workers = WORKERS;
	options.worker = idx;
	options.queue_bytes = 1 << 18;
	options.flags = idx ? 0 : TALLY_KV_COPIES;
	check(tally_kv_open(&kv, "t", 1, &options), "open", idx);
	return kv;
}

static void worker_main(uint32_t idx)
{
	static uint64_t key[KEYS];
	static float value[KEYS];
	struct tally_kv *kv = open_as(idx);
	uint64_t timestamp;

	atomic_fetch_add(&shared->begun, 1);
	for (uint32_t n = 0; n < PUSHES_MAX && (n < PUSHES_MIN || !atomic_load(&shared->is_over));
	     n++) {
		uint32_t count = draw(idx, n, key, value);

		check(tally_kv_push(kv, key, value, count, &timestamp), "push", idx);
		atomic_store(&shared->pushes[idx], n + 1);
		if (n % 10 == 0)
			check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	}
	check(tally_kv_barrier(kv), "barrier", idx);
	for (uint64_t i = 0; i < KEYS; i++)
		key[i] = i;
	if (!idx) {
		check(tally_kv_pull(kv, key, shared->row, KEYS, &timestamp), "pull", idx);
		check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	}
	check(tally_kv_close(kv), "close", idx);
	_exit(0);
}

static bool is_exact(const char *name)
{
	static double sum[KEYS];
	static uint64_t key[KEYS];
	static float value[KEYS];
	uint32_t bad = 0, pushes = 0;

	for (uint32_t idx = 0; idx < WORKERS; idx++) {
		for (uint32_t n = 0; n < shared->pushes[idx]; n++) {
			uint32_t count = draw(idx, n, key, value);

			for (uint32_t i = 0; i < count; i++)
				sum[key[i]] += (double)value[i];
		}
		pushes += shared->pushes[idx];
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		if ((double)shared->row[i] == sum[i])
			continue;
		if (bad++ < 10)
			fprintf(stderr, "key %u (%s): %.0f and not %.0f\n", i,
				i % 3 ? "cold" : "hot", (double)shared->row[i], sum[i]);
	}
	if (!bad)
		printf("%s: exact: %u pushes of %d workers\n", name, pushes, WORKERS);
	return !bad;
}

/* ---- what happens meanwhile ---- */

/* "table t: generation 2 is summed WHERE": pushes are on their way there. */
static void wait_summed(const char *where)
{
	const char *last;

	while (!(last = daemon_said(&server[0], " is summed ")) || strcmp(last, where) != 0) {
		if (now_ms() > until_ms)
			test_fail("it is not summed %s", where);
		sleep_ms(2);
	}
	sleep_ms(MOMENT_MS);
}

static void takeover(void)
{
	wait_summed(aggregator[0].address);
	daemon_end(&aggregator[0], SIGKILL);
	wait_summed(aggregator[1].address);
	daemon_end(&aggregator[1], SIGKILL);
	wait_summed("here");
}

/* It never was silent, so it was not fenced before it had been drained. */
static void tired(void)
{
	const char *last;

	wait_summed(aggregator[0].address);
	while (!(last = daemon_said(&server[0], " is summed ")) ||
	       strcmp(last, aggregator[1].address) != 0) {
		if (now_ms() > until_ms)
			test_fail("nobody is tired");
		kill(aggregator[0].pid, SIGSTOP);
		sleep_ms(STOPPED_MS);
		kill(aggregator[0].pid, SIGCONT);
		sleep_ms(AWAKE_MS);
	}
	sleep_ms(MOMENT_MS);
	if (!daemon_said(&server[0], "is tired: its answers take ") ||
	    daemon_said(&server[0], "its switch has gone"))
		test_fail("it has gone, and was not tired");
}

static void servers_killed(void)
{
	struct rng rng;

	rng_init(&rng, seed, 0);
	for (uint32_t i = 0; i < KILLS; i++) {
		uint32_t which = rng_below(&rng, 3);

		sleep_ms(20 + rng_below(&rng, MOMENT_MS));
		daemon_end(which == 2 ? &aggregator[0] : &server[which], SIGKILL);
		sleep_ms(rng_below(&rng, 100));
		if (which == 2)
			aggregator_start(0);
		else
			server_start(which, false);
	}
}

static const struct {
	const char *name;
	uint32_t servers, aggregators;
	void (*run)(void);
} cases[] = {
	{ "takeover", 1, 2, takeover },
	{ "tired", 1, 2, tired },
	{ "servers", 2, 1, servers_killed },
};

static void map_make(void)
{
	static uint64_t key[HOT];

	for (uint64_t i = 0; i < HOT; i++)
		key[i] = 3 * ((i * 7) % HOT); /* in another order than the keys' */
	map_path = test_map(1, key, HOT);
}

int main(int argc, char **argv)
{
	char path[96];
	pid_t pid[WORKERS];
	uint32_t which = 0;

	while (argc > 3 && which < 3 && strcmp(argv[3], cases[which].name) != 0)
		which++;
	if (argc < 4 || which == 3) {
		fprintf(stderr, "usage: kv_failover_test TALLY-PS TALLYD takeover|tired|servers "
				"[SEED]\n");
		return 2;
	}
	server_program = argv[1];
	aggregator_program = argv[2];
	servers = cases[which].servers;
	aggregators = cases[which].aggregators;
	seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL);
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	until_ms = now_ms() + LIMIT_MS;
	test_begin("kv_failover");
	shared = test_shared(sizeof(*shared));
	map_make();
	for (uint32_t i = 0; i < aggregators; i++)
		aggregator_start(i);
	for (uint32_t i = 0; i < servers; i++) {
		snprintf(path, sizeof(path), "%s/%u", test_folder(), i);
		mkdir(path, 0700);
		server_start(i, cases[which].run == tired);
	}
	workers_start(pid, WORKERS, worker_main);
	while (atomic_load(&shared->begun) < WORKERS) {
		if (now_ms() > until_ms)
			test_fail("workers do not begin");
		sleep_ms(1);
	}
	cases[which].run();
	atomic_store(&shared->is_over, true);
	return test_end(workers_join(pid, WORKERS, until_ms) && is_exact(cases[which].name));
}
