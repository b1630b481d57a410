/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_checkpoint_test.c - tables with durability=checkpoint, live: four processes push while tally-ps is killed at random
 * moments and started again. What was complete, and came after its last checkpoint, is lost then; nothing else is, and
 * nothing is there twice. Every push has a key of its own, so at the end the rows say of each whether it is in, and how
 * often: not more than once, and of each worker as many are not as it was told are lost.
 *
 * With --power the server is on a disk that forgets what was not synced (tests/disk), and its ends are power cuts.
 *
 * Usage: kv_checkpoint_test TALLY-PS [TALLYD|- [[--sync] [--power LIBRARY] KILLS [SEED]]]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tally_kv.h"
#include "tests/disk/cut.h"
#include "tests/e2e/daemons.h"
#include "util/rng.h"

enum {
	WORKERS = 4,
	EACH = 1500,                   /* pushes of a worker of either kind, at most */
	KINDS = 2,                     /* hot, cold */
	KEYS = KINDS * WORKERS * EACH, /* of their own; kind by kind, worker by worker */
	SHARED = KEYS,                 /* and one that all pushes of a kind have: KEYS + kind */
	HOT = WORKERS * EACH + 1,      /* keys of the map */
	ROWS = KEYS + KINDS,
	KILLS = 5,
	TIMES = 4,      /* as many, at most; see kill_all() */
	PAUSE_MS = 500, /* from one to the next, at most */
	PUSHES_OF_A_STEP = 6,
	READY_MS = 60000,
	LIMIT_S = 150,
};

struct worker_state {
	uint32_t pushes[KINDS];
	_Atomic uint64_t lost[KINDS]; /* so far */
	float row[ROWS];              /* as it has pulled them at the end */
};

static struct shared {
	atomic_bool is_over; /* push no more */
	atomic_uint begun;
	atomic_uint steps; /* that all make; UINT32_MAX: not known yet */
	struct worker_state worker[WORKERS];
} * shared;

static const char *map_path;
static const char *program, *aggregator_program; /* NULL: none */
static struct daemon server, aggregator;
static const char *library; /* --power: of the disk that forgets; NULL: it is the kernel's */
static bool is_sync;
static uint32_t kills = KILLS;
static uint64_t seed;

static uint64_t key_of(uint32_t kind, uint32_t worker, uint32_t i)
{
	return (kind * WORKERS + worker) * EACH + i;
}

/* ---- a worker ---- */

static void check(int result, const char *what, uint32_t idx)
{
	if (result)
		test_fail("worker %u: %s: %s: %s", idx, what, tally_strerror(result),
			  tally_get_last_error(NULL));
}

/* All keys of one push are of one kind: it is one packet, or one batch. */
static void push(struct tally_kv *kv, uint32_t idx, uint32_t kind)
{
	uint32_t i = shared->worker[idx].pushes[kind]++;
	uint64_t key[2] = { key_of(kind, idx, i), SHARED + kind };
	float value[2] = { 1, 1 };

	check(tally_kv_push(kv, key, value, 2, NULL), "push", idx);
}

/* One is kept for the end. */
static bool may_push(uint32_t idx, uint32_t kind)
{
	return shared->worker[idx].pushes[kind] + 1 < EACH;
}

static void losses_note(struct tally_kv *kv, uint32_t idx)
{
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT;

	check(tally_kv_get_stats(kv, &stats), "stats", idx);
	atomic_store(&shared->worker[idx].lost[0], stats.packets_lost);
	atomic_store(&shared->worker[idx].lost[1], stats.batches_lost);
}

/* One at a time now and then, so that what is complete is always near to what was pushed. */
static void worker_pushes(struct tally_kv *kv, uint32_t idx, struct rng *rng)
{
	while (!atomic_load(&shared->is_over)) {
		uint32_t kind = rng_below(rng, KINDS);

		if (may_push(idx, kind))
			push(kv, idx, kind);
		losses_note(kv, idx);
		/* So that there are pushes left for the last of many kills. */
		sleep_us(rng_below(rng, 3000 * (1 + kills / (2 * KILLS))));
	}
}

static void step_end(struct tally_kv *kv, uint32_t idx)
{
	uint64_t timestamp;

	check(tally_kv_step(kv, &timestamp), "step", idx);
	check(tally_kv_wait(kv, timestamp, -1), "wait for a step", idx);
}

static void worker_steps(struct tally_kv *kv, uint32_t idx, struct rng *rng)
{
	for (uint32_t step = 0; step < atomic_load(&shared->steps); step++) {
		uint32_t none = UINT32_MAX;

		for (uint32_t i = 0; i < PUSHES_OF_A_STEP; i++) {
			uint32_t kind = rng_below(rng, KINDS);

			if (may_push(idx, kind))
				push(kv, idx, kind);
			sleep_us(rng_below(rng, 2000));
		}
		/* All make as many: nobody has begun the next but one before all have ended this one. */
		if (atomic_load(&shared->is_over))
			atomic_compare_exchange_strong(&shared->steps, &none, step + 2);
		step_end(kv, idx);
		losses_note(kv, idx);
	}
}

/* The server ends no more: so these are in, whatever was lost before. */
static void worker_pushes_last(struct tally_kv *kv, uint32_t idx)
{
	for (uint32_t kind = 0; kind < KINDS; kind++)
		push(kv, idx, kind);
	if (is_sync)
		step_end(kv, idx);
}

static void rows_pull(struct tally_kv *kv, uint32_t idx)
{
	static uint64_t key[ROWS];
	uint64_t timestamp;

	for (uint32_t i = 0; i < ROWS; i++)
		key[i] = i;
	check(tally_kv_pull(kv, key, shared->worker[idx].row, ROWS, &timestamp), "pull", idx);
	check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
}

static void worker_main(uint32_t idx)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv;
	struct rng rng;

	rng_init(&rng, seed, 1 + idx);
	options.servers = server.address;
	options.job = "checkpoint";
	options.workers = WORKERS;
	options.worker = idx;
	options.mode = is_sync ? TALLY_KV_SYNC : TALLY_KV_ASYNC;
	options.flags = idx % 2 && !is_sync ? TALLY_KV_COPIES : 0;
	check(tally_kv_open(&kv, "ones", 1, &options), "open", idx);
	atomic_fetch_add(&shared->begun, 1);
	if (is_sync)
		worker_steps(kv, idx, &rng);
	else
		worker_pushes(kv, idx, &rng);
	worker_pushes_last(kv, idx);
	check(tally_kv_barrier(kv), "barrier", idx);
	rows_pull(kv, idx);
	check(tally_kv_barrier(kv), "the last barrier", idx);
	losses_note(kv, idx);
	check(tally_kv_close(kv), "close", idx);
	_exit(0);
}

/* ---- daemons ---- */

static void map_make(void)
{
	static uint64_t key[HOT];

	for (uint32_t i = 0; i < HOT; i++)
		key[i] = i + 1 == HOT ? SHARED : i;
	map_path = test_map(1, key, HOT);
}

static void server_start(void)
{
	char table[200];
	const char *arguments[] = { "/usr/bin/env",
				    cut_variable,
				    cut_preload,
				    program,
				    "--workers",
				    "4",
				    "--dir",
				    cut_folder(),
				    "--listen",
				    daemon_address(&server),
				    "--heartbeat",
				    "0.3",
				    "--log-level",
				    "warn",
				    "--checkpoint",
				    "1",
				    "--table",
				    table,
				    "--aggregator",
				    aggregator.address,
				    NULL };

	snprintf(table, sizeof(table),
		 "ones,dim=1,optimizer=sum,map=%s,window=8,age-us=3000,patience-us=10000,"
		 "durability=checkpoint,%s",
		 map_path, is_sync ? "mode=sync" : "copies=1");
	if (!aggregator_program)
		arguments[18] = NULL;
	daemon_start(&server, library ? arguments : arguments + 3, now_ms() + READY_MS);
}

/* ---- the test ---- */

/* Of one worker's pushes of a kind: none is in twice, and as many as were said to be lost are not in. */
static bool kind_is_as_said(uint32_t idx, uint32_t kind, uint64_t *in)
{
	const struct worker_state *worker = &shared->worker[idx];
	const float *row = shared->worker[0].row;
	uint64_t missing = 0;
	bool is = true;

	for (uint32_t i = 0; i < EACH; i++) {
		uint64_t key = key_of(kind, idx, i);
		float most = i < worker->pushes[kind];

		if (row[key] != 0 && row[key] != most) {
			fprintf(stderr, "kv_checkpoint: push %u of worker %u is in %g times\n", i,
				idx, (double)row[key]);
			is = false;
		}
		missing += most > 0 && row[key] == 0;
		*in += row[key] == 1;
	}
	if (missing != worker->lost[kind]) {
		fprintf(stderr,
			"kv_checkpoint: of %u %s of worker %u %" PRIu64
			" are not in the table, and %" PRIu64 " were said to be lost\n",
			worker->pushes[kind], kind ? "batches" : "packets", idx, missing,
			worker->lost[kind]);
		is = false;
	}
	return is;
}

static bool is_as_said(void)
{
	uint64_t lost[KINDS] = { 0 }, in[KINDS] = { 0 };
	uint32_t pushes = 0;
	bool is = true;

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		for (uint32_t idx = 0; idx < WORKERS; idx++) {
			is &= kind_is_as_said(idx, kind, &in[kind]);
			lost[kind] += shared->worker[idx].lost[kind];
			pushes += shared->worker[idx].pushes[kind];
		}
		is &= (float)in[kind] == shared->worker[0].row[SHARED + kind];
		is &= in[kind] && (lost[kind] || !kills); /* else nothing was tried */
	}
	for (uint32_t idx = 1; idx < WORKERS; idx++)
		is &= !memcmp(shared->worker[idx].row, shared->worker[0].row,
			      sizeof(shared->worker[0].row));
	printf("%s: %u pushes of %d workers, %u kills of the server: %" PRIu64
	       " packets and %" PRIu64 " batches in, %" PRIu64 " and %" PRIu64
	       " lost, as was said\n",
	       is ? "exact" : "FAILED", pushes, WORKERS, kills, in[0], in[1], lost[0], lost[1]);
	return is;
}

/* At a random moment; sometimes right behind the beginning of a checkpoint, sometimes gone for a while. */
static void kill_one(struct rng *rng)
{
	sleep_us(1000 * (20 + rng_below(rng, PAUSE_MS)));
	if (rng_below(rng, 2)) {
		kill(server.pid, SIGUSR2);
		sleep_us(rng_below(rng, 60000));
	}
	if (library)
		cut_end(&server, rng);
	else
		daemon_end(&server, SIGKILL);
	if (rng_below(rng, 3) == 0)
		sleep_us(rng_below(rng, 300000));
	server_start();
}

static bool is_lost_of_both(void)
{
	uint64_t lost[KINDS] = { 0 };

	for (uint32_t idx = 0; idx < WORKERS; idx++)
		for (uint32_t kind = 0; kind < KINDS; kind++)
			lost[kind] += shared->worker[idx].lost[kind];
	return lost[0] && lost[1];
}

/* As often as was asked for, and again if by chance nothing of a kind was lost. */
static void kill_all(struct rng *rng)
{
	uint32_t least = kills;

	for (kills = 0; kills < least || (kills < TIMES * least && !is_lost_of_both()); kills++)
		kill_one(rng);
}

static void begin(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: kv_checkpoint_test TALLY-PS [TALLYD|- [[--sync] [--power "
				"LIBRARY] KILLS [SEED]]]\n");
		exit(2);
	}
	program = argv[1];
	aggregator_program = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
	if (argc > 3 && !strcmp(argv[3], "--sync")) {
		is_sync = true;
		argv++;
		argc--;
	}
	if (argc > 4 && !strcmp(argv[3], "--power")) {
		library = argv[4];
		argv += 2;
		argc -= 2;
	}
	kills = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : KILLS;
	seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL);
	test_begin("kv_checkpoint");
	if (library)
		cut_begin(library);
	shared = test_shared(sizeof(*shared));
	atomic_store(&shared->steps, UINT32_MAX);
	map_make();
	if (aggregator_program)
		daemon_start(&aggregator,
			     (const char *[]){ aggregator_program, "--listen",
					       daemon_address(&aggregator), NULL },
			     now_ms() + READY_MS);
	server_start();
}

int main(int argc, char **argv)
{
	uint64_t until_ms;
	pid_t pid[WORKERS];
	struct rng rng;
	bool is_well;

	begin(argc, argv);
	printf("seed %" PRIu64 ", %u kills\n", seed, kills);
	fflush(stdout);
	rng_init(&rng, seed, 0);
	until_ms = now_ms() + LIMIT_S * 1000 + kills * 3000ull;
	workers_start(pid, WORKERS, worker_main);
	while (atomic_load(&shared->begun) < WORKERS && now_ms() < until_ms)
		sleep_us(1000);
	kill_all(&rng);
	atomic_store(&shared->is_over, true);
	is_well = workers_join(pid, WORKERS, until_ms) && is_as_said();
	return test_end(is_well);
}
