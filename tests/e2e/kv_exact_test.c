/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_exact_test.c - exactly once, live: four processes push whole numbers of both signs with tally_kv_push, hot keys
 * and cold ones, 1 % of their datagrams lost both ways, while tally-ps, or the tallyd that sums for it, is killed at
 * random moments and started again. What the table has at the end is what this file adds up without tally.
 *
 * Usage: kv_exact_test TALLY-PS [TALLYD|- [[--kill WHO] KILLS [SEED]]]; WHO: server, aggregator, or either, which is
 * drawn each time; RANKS_FAMILY=6: over IPv6
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "hot/map.h"
#include "tally.h"
#include "util/rng.h"

enum {
	WORKERS = 4,
	KEYS = 4000, /* every fourth is hot */
	HOT = KEYS / 4,
	DIM = 3,
	VALUE_MAX = 40,     /* sums stay below 2^24, where float32 counts */
	PUSHES_MAX = 40000, /* of a worker, for KILLS kills */
	PUSHES_MIN = 100,
	LOSS = 10000, /* of a million */
	KILLS = 6,
	PAUSE_MS = 300, /* from one to the next, at most; */
	PAUSE_LONG_MS =
		2500, /* where only the aggregator is killed: it is asked again once a second */
	READY_MS = 60000,
	LIMIT_S = 120, /* with KILLS kills; more get more */
	ADDRESS_BYTES = 64,
};

static struct shared {
	atomic_bool is_over; /* push no more */
	uint32_t pushes[WORKERS];
	uint64_t lost[WORKERS];
	atomic_uint_least64_t elsewhere[WORKERS]; /* datagrams to an aggregator */
	atomic_uint begun;
	float row[KEYS * DIM]; /* as worker 0 has pulled them */
} * shared;

/* What is killed and started again, at the same address. */
struct daemon {
	pid_t pid;
	char address[ADDRESS_BYTES];
	uint32_t kills;
};

static char folder[] = "/tmp/tally-kv-XXXXXX";
static char map_path[64];
static const char *program, *aggregator_program; /* NULL: none */
static struct daemon server = { .address = "127.0.0.1:0" },
		     aggregator = { .address = "127.0.0.1:0" };
static const char *who = "either"; /* is killed */
static uint32_t lives, kills_due = KILLS, pushes_max = PUSHES_MAX;
static uint32_t kills_summing; /* of the aggregator, after it was sent something in this life */
static uint64_t seed;

static void die(const char *what)
{
	fprintf(stderr, "kv_exact: %s: %s\n", what, strerror(errno));
	if (server.pid > 0)
		kill(server.pid, SIGKILL);
	if (aggregator.pid > 0)
		kill(aggregator.pid, SIGKILL);
	exit(1);
}

/* ---- time ---- */

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(uint32_t ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

/* ---- a network that loses: around the library's own socket ---- */

static const struct link_ops *real_ops;
static struct link_ops lossy_ops;
static uint16_t server_port; /* of the last life that was known when the worker began */
static struct rng loss_rng;
static uint64_t lost, elsewhere; /* elsewhere: what went to an aggregator */

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
			uint32_t bytes = frame->bytes - at < frame->packet_bytes
						 ? frame->bytes - at
						 : frame->packet_bytes;

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
	if (!result)
		return;
	fprintf(stderr, "kv_exact: worker %u: %s: %s\n", idx, call, tally_get_last_error(NULL));
	_exit(1);
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

static void worker_main(uint32_t idx)
{
	static uint64_t key[KEYS];
	static float value[KEYS * DIM], pulled[KEYS * DIM];
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	struct tally_kv *kv;
	uint64_t timestamp = 0;

	server_port = (uint16_t)atoi(strrchr(server.address, ':') + 1);
	rng_init(&loss_rng, seed, 1000 + idx);
	options.servers = server.address;
	options.job = "exact";
	options.workers = WORKERS;
	options.worker = idx;
	options.queue_bytes = 1 << 20;
	options.flags = idx % 2 ? 0 : TALLY_KV_COPIES; /* worker 0's pulls are looked at */
	check(tally_kv_open(&kv, "numbers", DIM, &options), "open", idx);
	atomic_fetch_add(&shared->begun, 1);
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

static void map_make(void)
{
	static uint64_t key[HOT];
	struct hot_map map = { .version = 3, .keys = HOT, .key = key };
	char error[GLM_ERROR_MAX];

	for (uint32_t i = 0; i < HOT; i++)
		key[i] = 4 * ((i * 7ull) % HOT); /* in another order than the keys' */
	if (hot_map_write(map_path, &map, error)) {
		fprintf(stderr, "kv_exact: %s\n", error);
		exit(1);
	}
}

/* "ready on ADDR" is what it says, and then a comma or a blank. */
static bool is_ready(struct daemon *daemon, const char *path)
{
	char text[4096], *at;
	FILE *file = fopen(path, "r");
	size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[bytes] = 0;
	at = strstr(text, "ready on ");
	if (at && strchr(at, '\n')) {
		at += strlen("ready on ");
		at[strcspn(at, ", \n")] = 0;
		snprintf(daemon->address, sizeof(daemon->address), "%.*s", ADDRESS_BYTES - 1, at);
		return true;
	}
	if (waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid) {
		fprintf(stderr, "kv_exact: it has ended instead of being ready:\n%s\n", text);
		daemon->pid = 0;
		die("a daemon");
	}
	return false;
}

/* Its lines go to a file. */
static void daemon_start(struct daemon *daemon, const char *const *arguments)
{
	uint64_t until_ms = now_ms() + READY_MS;
	char path[96];

	snprintf(path, sizeof(path), "%s/out.%u", folder, lives++);
	daemon->pid = fork();
	if (daemon->pid < 0)
		die("fork");
	if (!daemon->pid) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

		dup2(fd, STDERR_FILENO);
		execv(arguments[0], (char *const *)(uintptr_t)arguments);
		_exit(127);
	}
	while (!is_ready(daemon, path)) {
		if (now_ms() > until_ms)
			die("a daemon that does not become ready");
		sleep_ms(2);
	}
}

static void aggregator_start(void)
{
	const char *arguments[] = { aggregator_program, "--listen", aggregator.address, NULL };

	daemon_start(&aggregator, arguments);
}

static void server_start(void)
{
	char table[160];
	/* The aggregator is the last. Without checkpoints all that was ever pushed is read at each start. */
	const char *arguments[] = {
		program,        "--workers",        "4",           "--dir",   folder,
		"--listen",     server.address,     "--heartbeat", "200",     "--log-level",
		"error",        "--checkpoint",     "2",           "--table", table,
		"--aggregator", aggregator.address, NULL
	};

	snprintf(table, sizeof(table),
		 "numbers,dim=%d,optimizer=sum,map=%s,window=8,age-us=5000,patience-us=20000,"
		 "copies=1",
		 DIM, map_path);
	if (!aggregator_program)
		arguments[15] = NULL;
	daemon_start(&server, arguments);
}

static void daemon_kill(struct daemon *daemon, int signal_number)
{
	kill(daemon->pid, signal_number);
	waitpid(daemon->pid, NULL, 0);
	daemon->pid = 0;
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
			fprintf(stderr, "kv_exact: key %u (%s), value %u: %.0f and not %.0f\n",
				i / DIM, i / DIM % 4 ? "cold" : "hot", i % DIM,
				(double)shared->row[i], sum[i]);
	}
	return bad;
}

/* All must end by themselves, and well. */
static bool workers_join(const pid_t *pid, uint64_t until_ms)
{
	uint32_t left = WORKERS;
	bool is_well = true;

	while (left && now_ms() < until_ms) {
		int status;
		pid_t ended = waitpid(-1, &status, WNOHANG);

		if (ended > 0 && (ended == server.pid || ended == aggregator.pid)) {
			fprintf(stderr, "kv_exact: a daemon has ended by itself\n");
			if (ended == server.pid)
				server.pid = 0;
			else
				aggregator.pid = 0;
			is_well = false;
		} else if (ended > 0) {
			left--;
			is_well &= WIFEXITED(status) && !WEXITSTATUS(status);
		} else {
			sleep_ms(5);
		}
	}
	for (uint32_t i = 0; left && i < WORKERS; i++)
		kill(pid[i], SIGKILL);
	if (left)
		fprintf(stderr, "kv_exact: %u workers hang\n", left);
	return is_well && !left;
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

/* One of the two, maybe for a while. */
static void kill_one(struct rng *rng)
{
	bool is_server = is_server_next(rng), is_long = !strcmp(who, "aggregator");
	struct daemon *daemon = is_server ? &server : &aggregator;
	uint64_t before = elsewhere_all();

	sleep_ms(5 + rng_below(rng, is_long ? PAUSE_LONG_MS : PAUSE_MS));
	daemon_kill(daemon, SIGKILL);
	daemon->kills++;
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
	static const char usage[] =
		"usage: kv_exact_test TALLY-PS [TALLYD|- [[--kill server|aggregator|either] "
		"KILLS [SEED]]]";

	if (argc > 4 && !strcmp(argv[3], "--kill")) {
		who = argv[4];
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
	arguments_read(argc, argv);
	if (!mkdtemp(folder))
		die(folder);
	program = argv[1];
	aggregator_program = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
	if (!aggregator_program && !strcmp(who, "aggregator"))
		die("there is no aggregator to be killed");
	if (getenv("RANKS_FAMILY") && !strcmp(getenv("RANKS_FAMILY"), "6")) {
		strcpy(server.address, "[::1]:0");
		strcpy(aggregator.address, "[::1]:0");
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("mmap");
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
	map_make();
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
	printf("%s: %u pushes of %d workers, %u kills of the server, %u of the aggregator (%u "
	       "while it "
	       "summed), %" PRIu64 " datagrams lost, %" PRIu64 " to an aggregator\n",
	       is ? "exact" : "FAILED", pushes, WORKERS, server.kills, aggregator.kills,
	       kills_summing, lost_all, elsewhere_all());
	return is;
}

int main(int argc, char **argv)
{
	char command[96];
	uint64_t until_ms;
	struct rng rng;
	pid_t pid[WORKERS];
	bool is_well;

	begin(argc, argv);
	printf("seed %" PRIu64 ", %u kills of %s\n", seed, kills_due, who);
	fflush(stdout);
	rng_init(&rng, seed, 0);
	until_ms = now_ms() + LIMIT_S * 1000 + kills_due * 3000ull;
	for (uint32_t i = 0; i < WORKERS; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork");
		if (!pid[i])
			worker_main(i);
	}
	while (atomic_load(&shared->begun) < WORKERS && now_ms() < until_ms)
		sleep_ms(1);
	for (uint32_t i = 0; i < kills_due; i++)
		kill_one(&rng);
	atomic_store(&shared->is_over, true);
	is_well = workers_join(pid, until_ms) && is_exact();
	if (server.pid)
		daemon_kill(&server, SIGTERM);
	if (aggregator.pid)
		daemon_kill(&aggregator, SIGTERM);
	if (!is_well) {
		fprintf(stderr, "kv_exact: FAILED; what the daemons said is in %s\n", folder);
		return 1;
	}
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) != 0;
}
