/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_worker_kill_test.c - kill -9 of a worker in mid-push, again and again, while others push: of each life what was
 * said to be committed is in, nothing twice, and no push in half (one that fits into a packet, or into a batch); what
 * the others have pushed is exact. At the end a value that no hot sum has room for: the server says so.
 *
 * Usage: kv_worker_kill_test TALLY-PS TALLYD [KILLS [SEED]]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tally_kv.h"
#include "tests/e2e/daemons.h"
#include "util/rng.h"

enum {
	WORKERS = 3, /* the last one is killed */
	VICTIM = WORKERS - 1,
	LIVES_MAX = 64,
	GROUP = 20, /* keys of a push; each worker, and each life of the victim, has as many hot and cold ones */
	GROUPS = VICTIM + LIVES_MAX,
	KEYS = 2 * GROUP * GROUPS + 1, /* even ones are hot, and so is the last */
	TOO_LARGE = KEYS - 1,
	PUSHES_MAX = 400000,
	KILLS = 6,
	PAUSE_MS = 200,
	LIMIT_MS = 100000,
};

/* What a life of the victim has pushed; kinds: hot, cold. */
struct life {
	atomic_uint begun[2], committed[2];
	atomic_bool is_open;
};

static struct shared {
	atomic_bool is_over;
	uint32_t pushes[VICTIM];
	struct life life[LIVES_MAX];
	float row[KEYS];
} * shared;

static struct daemon server, aggregator;
static uint64_t until_ms;

/* ---- the daemons ---- */

static void daemons_start(const char *server_program, const char *aggregator_program)
{
	static uint64_t key[KEYS / 2 + 1];
	char table[160];
	const char *with_aggregator[] = { aggregator_program, "--listen",
					  daemon_address(&aggregator), NULL };
	const char *with_server[] = { server_program,
				      "--workers",
				      "3",
				      "--dir",
				      test_folder(),
				      "--listen",
				      daemon_address(&server),
				      "--table",
				      table,
				      "--aggregator",
				      aggregator.address,
				      NULL };

	for (uint64_t i = 0; i < KEYS / 2 + 1; i++)
		key[i] = 2 * i;
	snprintf(table, sizeof(table), "t,dim=1,optimizer=sum,map=%s,age-us=3000",
		 test_map(1, key, KEYS / 2 + 1));
	daemon_start(&aggregator, with_aggregator, until_ms);
	daemon_start(&server, with_server, until_ms);
}

/* ---- workers ---- */

static void check(int result, const char *call, uint32_t idx)
{
	if (result)
		test_fail("worker %u: %s: %s", idx, call, tally_get_last_error(NULL));
}

static uint64_t key_of(uint32_t group, uint32_t i, bool is_cold)
{
	return 2ull * (group * GROUP + i) + is_cold;
}

/* Both signs, other for each key and push. */
static float value_of(uint32_t idx, uint32_t number, uint32_t i)
{
	return (float)((int)((number * 7 + i * 3 + idx) % 41) - 19);
}

static void push(struct tally_kv *kv, uint32_t idx, uint32_t group, uint32_t number, bool is_cold,
		 uint64_t *timestamp)
{
	uint64_t key[GROUP];
	float value[GROUP];

	for (uint32_t i = 0; i < GROUP; i++) {
		key[i] = key_of(group, i, is_cold);
		value[i] = idx == VICTIM ? (float)(i + 1) : value_of(idx, number, i);
	}
	check(tally_kv_push(kv, key, value, GROUP, timestamp), "push", idx);
}

static struct tally_kv *open_as(uint32_t idx)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv;

	options.servers = server.address;
	options.job = "kill";
	options.workers = WORKERS;
	options.worker = idx;
	options.queue_bytes = 1 << 16;
	check(tally_kv_open(&kv, "t", 1, &options), "open", idx);
	return kv;
}

static void survivor_main(uint32_t idx)
{
	static uint64_t key[KEYS];
	struct tally_kv *kv = open_as(idx);
	const uint64_t too_large = TOO_LARGE;
	const float value = 5e9f;
	uint64_t timestamp;

	for (uint32_t n = 0; n < PUSHES_MAX && !atomic_load(&shared->is_over); n++) {
		push(kv, idx, idx, n, n % 2, &timestamp);
		shared->pushes[idx] = n + 1;
		if (n % 20 == 0)
			check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	}
	if (idx)
		check(tally_kv_push(kv, &too_large, &value, 1, NULL), "push", idx);
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

/* The last life ends as the others do. */
static void victim_main(uint32_t number)
{
	struct life *life = &shared->life[number];
	struct tally_kv *kv = open_as(VICTIM);
	uint64_t timestamp[2];

	atomic_store(&life->is_open, true);
	for (uint32_t n = 0; n < PUSHES_MAX && !atomic_load(&shared->is_over); n++) {
		for (uint32_t kind = 0; kind < 2; kind++) {
			atomic_fetch_add(&life->begun[kind], 1);
			push(kv, VICTIM, VICTIM + number, n, kind, &timestamp[kind]);
		}
		for (uint32_t kind = 0; kind < 2 && n % 10 == 0; kind++) {
			check(tally_kv_wait(kv, timestamp[kind], -1), "wait", VICTIM);
			atomic_store(&life->committed[kind], n + 1);
		}
	}
	check(tally_kv_barrier(kv), "barrier", VICTIM);
	for (uint32_t kind = 0; kind < 2; kind++)
		atomic_store(&life->committed[kind], atomic_load(&life->begun[kind]));
	check(tally_kv_close(kv), "close", VICTIM);
	_exit(0);
}

static pid_t worker_start(uint32_t idx, uint32_t life)
{
	pid_t pid = child();

	if (pid)
		return pid;
	if (idx == VICTIM)
		victim_main(life);
	survivor_main(idx);
	return 0;
}

static void life_end(pid_t pid, uint32_t life, struct rng *rng)
{
	int status;

	while (!atomic_load(&shared->life[life].is_open)) {
		if (now_ms() > until_ms || waitpid(pid, &status, WNOHANG) == pid)
			test_fail("a worker that cannot open the table");
		sleep_ms(1);
	}
	sleep_ms(1 + rng_below(rng, PAUSE_MS));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status))
		test_fail("a worker has failed");
}

/* ---- what came of it ---- */

static uint32_t survivors_compare(void)
{
	uint32_t bad = 0;

	for (uint32_t idx = 0; idx < VICTIM; idx++) {
		static double sum[2 * GROUP];

		memset(sum, 0, sizeof(sum));
		for (uint32_t n = 0; n < shared->pushes[idx]; n++)
			for (uint32_t i = 0; i < GROUP; i++)
				sum[2 * i + n % 2] += (double)value_of(idx, n, i);
		for (uint32_t i = 0; i < 2 * GROUP; i++) {
			double is = (double)shared->row[key_of(idx, i / 2, i % 2)];

			if (is == sum[i])
				continue;
			bad++;
			fprintf(stderr, "worker %u, %s key %u: %.0f and not %.0f\n", idx,
				i % 2 ? "cold" : "hot", i / 2, is, sum[i]);
		}
	}
	return bad;
}

static uint32_t life_compare(uint32_t number)
{
	struct life *life = &shared->life[number];
	uint32_t bad = 0;

	for (uint32_t kind = 0; kind < 2; kind++) {
		uint32_t group = VICTIM + number;
		double count = (double)shared->row[key_of(group, 0, kind)];

		bad += count < atomic_load(&life->committed[kind]) ||
		       count > atomic_load(&life->begun[kind]);
		for (uint32_t i = 1; i < GROUP; i++)
			bad += (double)shared->row[key_of(group, i, kind)] != count * (i + 1);
		if (bad)
			fprintf(stderr,
				"life %u, %s: %.0f pushes, %u committed of %u; or not the same of "
				"all keys\n",
				number, kind ? "cold" : "hot", count,
				atomic_load(&life->committed[kind]),
				atomic_load(&life->begun[kind]));
	}
	return bad;
}

static void compare(uint32_t lives)
{
	uint32_t bad = survivors_compare(), begun = 0, committed = 0;

	for (uint32_t i = 0; i < lives; i++) {
		bad += life_compare(i);
		for (uint32_t kind = 0; kind < 2; kind++) {
			begun += atomic_load(&shared->life[i].begun[kind]);
			committed += atomic_load(&shared->life[i].committed[kind]);
		}
	}
	if (bad)
		test_fail("sums are wrong");
	if (shared->row[TOO_LARGE] != 0x1p31f ||
	    !daemon_said(&server, "table t: values of hot keys were too large"))
		test_fail("the server has not said that a value was too large");
	printf("exact: %u kills of a worker with %u pushes, of which it was told that %u are "
	       "committed; %u and %u pushes of others\n",
	       lives - 1, begun, committed, shared->pushes[0], shared->pushes[1]);
}

int main(int argc, char **argv)
{
	uint32_t kills = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : KILLS, life = 0;
	uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL);
	struct rng rng;
	pid_t pid[WORKERS];

	if (argc < 3 || kills >= LIVES_MAX) {
		fprintf(stderr, "usage: kv_worker_kill_test TALLY-PS TALLYD [KILLS [SEED]]\n");
		return 2;
	}
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	rng_init(&rng, seed, 0);
	until_ms = now_ms() + LIMIT_MS;
	test_begin("kv_worker_kill");
	shared = test_shared(sizeof(*shared));
	daemons_start(argv[1], argv[2]);
	for (uint32_t i = 0; i < VICTIM; i++)
		pid[i] = worker_start(i, 0);
	for (; life < kills; life++)
		life_end(worker_start(VICTIM, life), life, &rng);
	pid[VICTIM] = worker_start(VICTIM, life);
	while (!atomic_load(&shared->life[life].is_open) && now_ms() < until_ms)
		sleep_ms(1);
	sleep_ms(PAUSE_MS);
	atomic_store(&shared->is_over, true);
	if (!workers_join(pid, WORKERS, until_ms))
		return test_end(false);
	compare(life + 1);
	return test_end(true);
}
