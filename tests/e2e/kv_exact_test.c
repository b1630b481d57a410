/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_exact_test.c - exactly once, live: four processes push whole numbers of both signs with tally_kv_push, hot keys
 * and cold ones, 1 % of their datagrams lost both ways, while tally-ps, or the tallyd that sums for it, is killed at
 * random moments and started again. What the table has at the end is what this file adds up without tally.
 *
 * With --sync all workers make each step together, and what each of them pulls in a step is all that all have pushed in
 * those before it, and nothing else.
 *
 * With --maps other keys become hot at random moments, while workers push (R-SP-32): some that were not, and some that
 * were are not any more.
 *
 * With --power the server is on a disk that forgets what was not synced (tests/disk), and its ends are power cuts.
 *
 * Usage: kv_exact_test TALLY-PS [TALLYD|- [[--sync] [--maps] [--kill WHO] [--power LIBRARY] KILLS [SEED]]]; WHO: server, aggregator, or either,
 * which is drawn each time; RANKS_FAMILY=6: over IPv6
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "tally_kv.h"
#include "tests/disk/cut.h"
#include "tests/e2e/daemons.h"
#include "util/rng.h"

enum {
	WORKERS = 4,
	KEYS = 4000,
	HOT_MIN = 100,
	HOT_MAX = KEYS / 2,
	MAPS = 4, /* --maps: before each kill, at most */
	DIM = 3,
	VALUE_MAX = 40,     /* sums stay below 2^24, where float32 counts */
	PUSHES_MAX = 40000, /* of a worker, for KILLS kills */
	PUSHES_MIN = 100,
	STEPS_MIN = 30,
	LOSS = 10000, /* of a million */
	KILLS = 6,
	PAUSE_MS = 300, /* from one to the next, at most; */
	PAUSE_LONG_MS =
		2500, /* where only the aggregator is killed: it is asked again once a second */
	READY_MS = 60000,
	LIMIT_S = 120,  /* with KILLS kills; more get more */
	WAIT_STEPS = 5, /* --sync: after so many a step is waited for */
};

static struct shared {
	atomic_bool is_over; /* push no more */
	uint32_t pushes[WORKERS];
	uint64_t lost[WORKERS];
	atomic_uint_least64_t elsewhere[WORKERS]; /* datagrams to an aggregator */
	atomic_uint begun;
	atomic_uint steps;     /* --sync: that all make; UINT32_MAX: not known yet */
	atomic_uint looks;     /* --sync: pulls that were compared */
	float row[KEYS * DIM]; /* as worker 0 has pulled them */
} * shared;

static const char *map_path;
static const char *program, *aggregator_program; /* NULL: none */
/* What is killed and started again, at the same address. */
static struct daemon server, aggregator;
static const char *library; /* --power: of the disk that forgets; NULL: it is the kernel's */
static uint32_t server_kills, aggregator_kills;
static const char *who = "either"; /* is killed */
static bool is_sync, has_maps;
static uint32_t map_version, kills_due = KILLS, pushes_max = PUSHES_MAX;
static uint32_t kills_summing; /* of the aggregator, after it was sent something in this life */
static uint64_t seed;

/* ---- a network that loses: around the library's own socket ---- */

static const struct link_ops *real_ops;
static struct link_ops lossy_ops;
static uint16_t server_port; /* of the last life that was known when the worker began */
static struct rng loss_rng;
static uint64_t lost;
static atomic_uint_least64_t elsewhere; /* what went to an aggregator; looked at meanwhile */

static bool is_lost(void)
{
	bool is = rng_chance(&loss_rng, LOSS);

	lost += is;
	return is;
}

static int lossy_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	int count = real_ops->recv(link, frames, max);

	for (int i = 0; i < count; i++) {
		struct link_frame *frame = &frames[i];
		uint32_t to = 0, at = 0;

		while (at < frame->bytes) {
			uint32_t bytes = link_packet_bytes(frame, at);

			if (!is_lost()) {
				memmove(frame->data + to, frame->data + at, bytes);
				to += bytes;
			}
			at += bytes;
		}
		frame->bytes = to;
	}
	return count;
}

static int lossy_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < frames[i].count; k++) {
			struct link_frame one = frames[i];
			uint32_t at = k * one.packet_bytes;

			one.data += at;
			one.bytes = one.bytes - at < one.packet_bytes ? one.bytes - at
								      : one.packet_bytes;
			one.count = 1;
			elsewhere += one.peer.port != server_port;
			if (!is_lost() && real_ops->send(link, &one, 1))
				return -EIO;
		}
	}
	return 0;
}

int __real_link_udp_open(struct link **link, const struct link_udp_options *options);
int __wrap_link_udp_open(struct link **link, const struct link_udp_options *options);

int __wrap_link_udp_open(struct link **link, const struct link_udp_options *options)
{
	int error = __real_link_udp_open(link, options);

	if (error)
		return error;
	real_ops = (*link)->ops;
	lossy_ops = *real_ops;
	lossy_ops.recv = lossy_recv;
	lossy_ops.send = lossy_send;
	(*link)->ops = &lossy_ops;
	return 0;
}

/* ---- a worker ---- */

static void check(int result, const char *call, uint32_t idx)
{
	if (result)
		test_fail("worker %u: %s: %s", idx, call, tally_get_last_error(NULL));
}

/* Push number `number` of a worker: the same for whoever asks. */
static uint32_t draw(uint32_t idx, uint32_t number, uint64_t *key, float *value)
{
	struct rng rng;
	uint32_t count = 0, step;

	rng_init(&rng, seed, (uint64_t)(idx + 1) << 32 | number);
	step = 1 + rng_below(&rng, 200);
	for (uint64_t k = rng_below(&rng, step); k < KEYS; k += 1 + rng_below(&rng, step)) {
		key[count] = k;
		for (uint32_t i = 0; i < DIM; i++)
			value[count * DIM + i] =
				(float)((int)rng_below(&rng, 2 * VALUE_MAX + 1) - VALUE_MAX);
		count++;
	}
	return count;
}

/* --sync: what the rows are before step `number`, pulled in it. */
static void step_look(struct tally_kv *kv, uint32_t idx, uint32_t number, const double *sum)
{
	static uint64_t key[KEYS];
	static float row[KEYS * DIM];
	uint64_t timestamp;

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	check(tally_kv_pull(kv, key, row, KEYS, &timestamp), "pull", idx);
	check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	for (uint32_t i = 0; i < KEYS * DIM; i++) {
		if ((double)row[i] != sum[i])
			test_fail("worker %u pulls in step %u: key %u, value %u: %.0f and not %.0f",
				  idx, number, i / DIM, i % DIM, (double)row[i], sum[i]);
	}
	atomic_fetch_add(&shared->looks, 1);
}

/* Whoever learns first that it is over may be WAIT_STEPS behind the others, which have not waited for it since. */
static bool steps_are_over(uint32_t number)
{
	unsigned unknown = UINT32_MAX;

	if (atomic_load(&shared->is_over) && number >= STEPS_MIN)
		atomic_compare_exchange_strong(&shared->steps, &unknown, number + WAIT_STEPS + 1);
	return number >= atomic_load(&shared->steps);
}

/* --sync: a push a step, sometimes two; waited for, or not. */
static void worker_steps(struct tally_kv *kv, uint32_t idx)
{
	static uint64_t key[KEYS];
	static float value[KEYS * DIM];
	static double sum[KEYS * DIM]; /* of all workers' steps before this one */
	uint64_t timestamp;

	for (uint32_t n = 0; !steps_are_over(n); n++) {
		uint32_t count = draw(idx, n, key, value), half = n % 3 ? count : count / 2;

		if (n % 4 == 0)
			step_look(kv, idx, n, sum);
		check(tally_kv_push(kv, key, value, half, NULL), "push", idx);
		check(tally_kv_push(kv, key + half, value + (size_t)half * DIM, count - half, NULL),
		      "push", idx);
		shared->pushes[idx] = n + 1;
		atomic_store(&shared->elsewhere[idx], elsewhere);
		check(tally_kv_step(kv, &timestamp), "step", idx);
		if ((n + idx) % WAIT_STEPS == 0)
			check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
		for (uint32_t other = 0; other < WORKERS; other++) {
			count = draw(other, n, key, value);
			for (uint32_t i = 0; i < count * DIM; i++)
				sum[key[i / DIM] * DIM + i % DIM] += (double)value[i];
		}
	}
}

static void worker_pushes(struct tally_kv *kv, uint32_t idx)
{
	static uint64_t key[KEYS];
	static float value[KEYS * DIM], pulled[KEYS * DIM];
	uint64_t timestamp = 0;

	for (uint32_t n = 0; n < pushes_max; n++) {
		uint32_t count;

		if (atomic_load(&shared->is_over) && n >= PUSHES_MIN)
			break;
		count = draw(idx, n, key, value);
		if (n % 5)
			check(tally_kv_push(kv, key, value, count, &timestamp), "push", idx);
		else
			check(tally_kv_pushpull(kv, key, value, pulled, count, &timestamp),
			      "pushpull", idx);
		shared->pushes[idx] = n + 1;
		atomic_store(&shared->elsewhere[idx], elsewhere);
		if (n % 10 == 0)
			check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	}
}

static void worker_main(uint32_t idx)
{
	static uint64_t key[KEYS];
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv;
	uint64_t timestamp;

	server_port = (uint16_t)atoi(strrchr(server.address, ':') + 1);
	rng_init(&loss_rng, seed, 1000 + idx);
	options.servers = server.address;
	options.job = "exact";
	options.workers = WORKERS;
	options.worker = idx;
	options.queue_bytes = 1 << 20;
	options.mode = is_sync ? TALLY_KV_SYNC : TALLY_KV_ASYNC;
	/* Worker 0's pulls are looked at. */
	options.flags = idx % 2 || is_sync ? 0 : TALLY_KV_COPIES;
	check(tally_kv_open(&kv, "numbers", DIM, &options), "open", idx);
	atomic_fetch_add(&shared->begun, 1);
	if (is_sync)
		worker_steps(kv, idx);
	else
		worker_pushes(kv, idx);
	check(tally_kv_barrier(kv), "barrier", idx);
	if (!idx) {
		for (uint32_t i = 0; i < KEYS; i++)
			key[i] = i;
		check(tally_kv_pull(kv, key, shared->row, KEYS, &timestamp), "pull", idx);
		check(tally_kv_wait(kv, timestamp, -1), "wait", idx);
	}
	check(tally_kv_close(kv), "close", idx);
	shared->lost[idx] = lost;
	atomic_store(&shared->elsewhere[idx], elsewhere);
	_exit(0);
}

/* ---- the server ---- */

/* Keys in any order are hot from now on: how many, and which, is drawn. */
static void map_make(struct rng *rng)
{
	static uint64_t key[KEYS];
	uint32_t keys = HOT_MIN + rng_below(rng, HOT_MAX - HOT_MIN);

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	for (uint32_t i = 0; i < keys; i++) {
		uint32_t other = i + rng_below(rng, KEYS - i);
		uint64_t one = key[i];

		key[i] = key[other];
		key[other] = one;
	}
	map_path = test_map(++map_version, key, keys);
}

static void aggregator_start(void)
{
	const char *arguments[] = { aggregator_program, "--listen", daemon_address(&aggregator),
				    NULL };

	daemon_start(&aggregator, arguments, now_ms() + READY_MS);
}

static void server_start(void)
{
	char table[160];
	/* The aggregator is the last. Without checkpoints all that was ever pushed is read at each start. */
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
				    "0.2",
				    "--log-level",
				    "error",
				    "--checkpoint",
				    "2",
				    "--table",
				    table,
				    "--aggregator",
				    aggregator.address,
				    NULL };

	snprintf(table, sizeof(table),
		 "numbers,dim=%d,optimizer=sum,map=%s,window=8,age-us=5000,patience-us=20000,"
		 "%s",
		 DIM, map_path, is_sync ? "mode=sync" : "copies=1");
	if (!aggregator_program)
		arguments[18] = NULL;
	daemon_start(&server, library ? arguments : arguments + 3, now_ms() + READY_MS);
}

/* ---- the test ---- */

static uint32_t compare(void)
{
	static double sum[KEYS * DIM];
	static uint64_t key[KEYS];
	static float value[KEYS * DIM];
	uint32_t bad = 0;

	for (uint32_t idx = 0; idx < WORKERS; idx++) {
		for (uint32_t n = 0; n < shared->pushes[idx]; n++) {
			uint32_t count = draw(idx, n, key, value);

			for (uint32_t i = 0; i < count * DIM; i++)
				sum[key[i / DIM] * DIM + i % DIM] += (double)value[i];
		}
	}
	for (uint32_t i = 0; i < KEYS * DIM; i++) {
		if ((double)shared->row[i] == sum[i])
			continue;
		if (bad++ < 10)
			fprintf(stderr, "kv_exact: key %u, value %u: %.0f and not %.0f\n", i / DIM,
				i % DIM, (double)shared->row[i], sum[i]);
	}
	return bad;
}

static uint64_t elsewhere_all(void)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < WORKERS; i++)
		all += atomic_load(&shared->elsewhere[i]);
	return all;
}

static bool is_server_next(struct rng *rng)
{
	if (!strcmp(who, "either"))
		return !aggregator_program || rng_chance(rng, 500000);
	return !strcmp(who, "server");
}

static void maps_change(struct rng *rng, uint32_t ms)
{
	for (uint32_t left = rng_below(rng, MAPS + 1); left; left--) {
		uint32_t part = rng_below(rng, ms / MAPS);

		sleep_ms(part);
		ms -= part;
		map_make(rng);
		kill(server.pid, SIGHUP);
	}
	sleep_ms(ms);
}

/* One of the two, maybe for a while. */
static void kill_one(struct rng *rng)
{
	bool is_server = is_server_next(rng), is_long = !strcmp(who, "aggregator");
	struct daemon *daemon = is_server ? &server : &aggregator;
	uint64_t before = elsewhere_all();

	if (has_maps)
		maps_change(rng, 5 + rng_below(rng, is_long ? PAUSE_LONG_MS : PAUSE_MS));
	else
		sleep_ms(5 + rng_below(rng, is_long ? PAUSE_LONG_MS : PAUSE_MS));
	if (library && is_server)
		cut_end(&server, rng);
	else
		daemon_end(daemon, SIGKILL);
	server_kills += is_server;
	aggregator_kills += !is_server;
	kills_summing += !is_server && elsewhere_all() > before;
	if (rng_chance(rng, 300000))
		sleep_ms(rng_below(rng, is_server ? 200 : 1000));
	if (is_server)
		server_start();
	else
		aggregator_start();
}

static void arguments_read(int argc, char **argv)
{
	static const char usage[] = "usage: kv_exact_test TALLY-PS [TALLYD|- [[--sync] "
				    "[--maps] [--kill server|aggregator|either] "
				    "[--power LIBRARY] KILLS [SEED]]]";

	if (argc > 3 && !strcmp(argv[3], "--sync")) {
		is_sync = true;
		argv++;
		argc--;
	}
	if (argc > 3 && !strcmp(argv[3], "--maps")) {
		has_maps = true;
		argv++;
		argc--;
	}
	if (argc > 4 && !strcmp(argv[3], "--kill")) {
		who = argv[4];
		argv += 2;
		argc -= 2;
	}
	if (argc > 4 && !strcmp(argv[3], "--power")) {
		library = argv[4];
		who = "server";
		argv += 2;
		argc -= 2;
	}
	if (argc < 2 || (strcmp(who, "server") != 0 && strcmp(who, "aggregator") != 0 &&
			 strcmp(who, "either") != 0)) {
		fprintf(stderr, "%s\n", usage);
		exit(2);
	}
	kills_due = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : KILLS;
	pushes_max = PUSHES_MAX * (1 + kills_due / KILLS);
	seed = argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL);
}

static void begin(int argc, char **argv)
{
	struct rng rng;

	arguments_read(argc, argv);
	program = argv[1];
	aggregator_program = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
	test_begin("kv_exact");
	if (!aggregator_program && !strcmp(who, "aggregator"))
		test_fail("there is no aggregator to be killed");
	if (library)
		cut_begin(library);
	shared = test_shared(sizeof(*shared));
	atomic_store(&shared->steps, UINT32_MAX);
	rng_init(&rng, seed, 1);
	map_make(&rng);
	if (aggregator_program)
		aggregator_start();
	server_start();
}

/* What the workers say of themselves, and whether that is what should be. */
static bool is_exact(void)
{
	uint64_t lost_all = 0;
	uint32_t pushes = 0;
	bool is = !compare();

	for (uint32_t i = 0; i < WORKERS; i++) {
		pushes += shared->pushes[i];
		lost_all += shared->lost[i];
	}
	/* Else the network was better than it should be, or the aggregator has never been asked. */
	is = is && lost_all && (!aggregator_program || elsewhere_all());
	is = is && is_sync == (atomic_load(&shared->looks) > 0);
	is = is && (!has_maps || map_version > 1);
	printf("%s: %u pushes of %d workers, %u kills of the server, %u of the aggregator (%u "
	       "while it summed), %u maps, %" PRIu64 " datagrams lost, %" PRIu64
	       " to an aggregator\n",
	       is ? "exact" : "FAILED", pushes, WORKERS, server_kills, aggregator_kills,
	       kills_summing, map_version, lost_all, elsewhere_all());
	return is;
}

int main(int argc, char **argv)
{
	uint64_t until_ms;
	struct rng rng;
	pid_t pid[WORKERS];
	bool is_well;

	begin(argc, argv);
	printf("seed %" PRIu64 ", %u kills of %s\n", seed, kills_due, who);
	fflush(stdout);
	rng_init(&rng, seed, 0);
	until_ms = now_ms() + LIMIT_S * 1000 + kills_due * 3000ull;
	workers_start(pid, WORKERS, worker_main);
	while (atomic_load(&shared->begun) < WORKERS && now_ms() < until_ms)
		sleep_ms(1);
	for (uint32_t i = 0; i < kills_due; i++)
		kill_one(&rng);
	atomic_store(&shared->is_over, true);
	is_well = workers_join(pid, WORKERS, until_ms) && is_exact();
	return test_end(is_well);
}
