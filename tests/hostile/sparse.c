/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse.c - somebody who can write any source address, and knows all but the random numbers, while workers push.
 *
 *     hostile_sparse TALLYD [PACKETS] [SEED]
 *
 * A parameter server and two workers, in one process, so that all numbers are read where they are kept and packets leave
 * from the very sockets of those who could say such things (sparse_lies.h). PACKETS of each kind, one kind after the
 * other, to where the table is summed: inside the server; at an aggregator that grants it and answers no HELLO, so that
 * server and workers knock all the while, until the flood is over; at a tallyd. After each kind those whom it was for
 * must have refused and counted all of it, but for what the kernel had no room for; none is taken, no generation
 * begins, no wait fails, and all sums are exact.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "files/hot_map.h"
#include "network.h"
#include "ps/aggregator_fixture.h" /* with cmocka: what is played asserts */
#include "sparse_lies.h"
#include "tests/e2e/torture.h"

enum {
	KEYS = 40, /* half of them are hot */
	HOT = 20,
	DIM = 2,
	WAIT_MS = 1800000, /* as long as a flood of those that are not answered takes */
	RUNS_HERE = 4,     /* on their way at once */
	RUNS_AWAY = 32,
	KNOCKS_ENOUGH = 15, /* soon the server knocks elsewhere: what comes then is not judged */
	ROUNDS_LEAST = 200,
};

static const double patience_s = 60;

static struct cast cast;
static struct daemon tallyd;
static struct rng rng;
static enum place place;
static atomic_bool is_over;
static uint64_t packets_wanted = 2000, seed = 1;
static int64_t pushed[WORKERS][KEYS][DIM]; /* expected: each worker's own */
static atomic_int bad;
static char folder[32], map_path[64];

static void flaw(const char *what, const char *why)
{
	printf("FAILED: %s: %s\n", what, why);
	atomic_store(&bad, 1);
	atomic_store(&is_over, true);
}

static const struct ps_hosted *hosted(void)
{
	return &cast.server->hosted[0];
}

static const struct server_sparse *state(void)
{
	return home_sparse_server(hosted()->table->home);
}

/* ---- who has refused what ---- */

/* What tallyd says when it is asked: of the "dropped: generation 3, stale 5" of its jobs, or its tables, one number. */
static uint64_t tallyd_refused(bool is_tables, const char *name)
{
	static const char jobs[] = "info: shard 0: ", tables[] = "info: shard 0, tables: ";
	double until_s = now_s() + patience_s;
	const char *line, *end;

	daemon_listen(&tallyd);
	tallyd.log_used = 0;
	tallyd.log[0] = 0;
	kill(tallyd.pid, SIGUSR1);
	do {
		usleep(1000);
		daemon_listen(&tallyd);
		line = strstr(tallyd.log, tables); /* the other one stands before it */
		end = line ? strchr(line, '\n') : NULL;
	} while (!end && now_s() < until_s);
	line = is_tables ? line : strstr(tallyd.log, jobs);
	if (!end || !line) {
		flaw("tallyd", "it does not say what it has dropped");
		return 0;
	}
	end = strchr(line, '\n');
	line = strstr(line, name);
	return line && line < end ? strtoull(line + strlen(name), NULL, 10) : 0;
}

static uint64_t switch_refused(const struct lie *lie)
{
	const struct engine_sparse_stats *stats = engine_sparse_stats(cast.server->engine);
	bool is_stale = lie->guess == GUESS_INSTANCE;

	if (place == PLACE_TALLYD)
		return lie->guess == GUESS_NONCE
			       ? tallyd_refused(false, " hello that binds nobody ")
			       : tallyd_refused(true, is_stale ? " stale " : " generation ");
	if (lie->guess == GUESS_NONCE)
		return stats->wrong_nonce;
	return stats->verdict[is_stale ? SWITCH_SPARSE_DROP_STALE : SWITCH_SPARSE_DROP_GENERATION];
}

static uint64_t server_refused(const struct lie *lie)
{
	const struct home_sparse_stats *stats = home_sparse_stats(hosted()->table->home);

	if (lie->guess == GUESS_NONCE)
		return ps_dropped_table(hosted()).nonce;
	return lie->guess == GUESS_INSTANCE ? stats->dropped : stats->generation;
}

static uint64_t workers_refused(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < WORKERS; i++) {
		struct tally_kv_stats stats = TALLY_KV_STATS_INIT;

		if (tally_kv_get_stats(cast.kv[i], &stats))
			flaw("stats", tally_get_last_error(NULL));
		sum += stats.packets_dropped;
	}
	return sum;
}

struct refusals {
	uint64_t refused, ready, instance;
	uint64_t lost; /* by the kernel: runs, or single ones */
};

static struct refusals refusals_of(const struct lie *lie)
{
	struct refusals now = {
		.ready = engine_sparse_stats(cast.server->engine)->verdict[SWITCH_SPARSE_READY],
		.instance = state()->instance,
	};

	switch (lie->side) {
	case SERVER_TO_WORKER:
	case SWITCH_TO_WORKER:
		now.refused = workers_refused();
		for (uint32_t i = 0; i < WORKERS; i++)
			now.lost += network_look(cast.kv[i]->link->local.port, false).lost;
		break;
	case SERVER_TO_SWITCH:
	case WORKER_TO_SWITCH:
		now.refused = switch_refused(lie);
		now.lost = network_look(hosted()->at_switch.port, false).lost;
		break;
	case SWITCH_TO_SERVER:
	case WORKER_TO_SERVER:
		now.refused = server_refused(lie);
		now.lost = network_look(cast.server->self.port, false).lost;
		break;
	}
	return now;
}

/* ---- one kind ---- */

/* Only then is it judged by the number that is wrong. */
static bool is_time(const struct lie *lie)
{
	const struct knock *knock = &hosted()->knock;

	if (place != PLACE_SILENT)
		return true;
	for (uint32_t i = 0; i < WORKERS && lie->side == SWITCH_TO_WORKER; i++) {
		const struct kv_greeting *greeting = &cast.kv[i]->server[0].to_switch;

		if (!greeting->core.is_begun || greeting->core.serial == greeting->core.before)
			return false;
	}
	return lie->side == SWITCH_TO_WORKER ||
	       (hosted()->is_knocking && knock->count && knock->count < KNOCKS_ENOUGH);
}

/* Nobody has answered them. */
static bool is_answered(void)
{
	const struct knock *knock = &hosted()->knock;
	bool is = hosted()->is_knocking && (knock->is_welcome || knock->is_short_welcome);

	for (uint32_t i = 0; i < WORKERS; i++)
		is |= cast.kv[i]->server[0].to_switch.core.is_welcome;
	return is;
}

/* Until whoever listens there has read all, so that the kernel has room for the next: after some runs, of which there is
 * room for more. Of a socket of another process only the kernel's list tells, which is long. */
static void wait_read(int fd, uint64_t run)
{
	double until_s = now_s() + patience_s;
	int waits = 0;

	if (run % (fd < 0 ? RUNS_AWAY : RUNS_HERE))
		return;
	while (now_s() < until_s) {
		if (fd < 0)
			waits = network_look(hosted()->at_switch.port, false).queued > 0;
		else
			ioctl(fd, FIONREAD, &waits);
		if (!waits)
			return;
		usleep(20);
	}
}

static uint64_t lie_flood(const struct lie *lie)
{
	double since_s = now_s();
	uint64_t sent = 0;
	int fd = -1;

	while (sent < packets_wanted && !atomic_load(&bad)) {
		uint32_t more = is_time(lie) ? lie_send(&cast, lie, &rng, &fd) : 0;

		if (!more) {
			if (now_s() > since_s + patience_s)
				flaw(lie->name, "nobody knocks, or nothing can be sent");
			usleep(1000);
			continue;
		}
		since_s = now_s();
		sent += more;
		wait_read(fd, sent / LIE_RUN);
		if (place == PLACE_TALLYD)
			daemon_listen(&tallyd);
		if (place == PLACE_SILENT && is_answered())
			flaw(lie->name, "a forged WELCOME was taken");
	}
	wait_read(fd, 0);
	return sent;
}

/* What is missing in the counters: of what the kernel has no room for it counts a run, or each alone. */
static uint64_t missing(uint64_t sent, const struct refusals *before, const struct refusals *now)
{
	uint64_t refused = now->refused - before->refused;
	uint64_t lost = LIE_RUN * (now->lost - before->lost);

	return refused + lost >= sent ? 0 : sent - refused - lost;
}

static void judge(const struct lie *lie, uint64_t sent, const struct refusals *before,
		  const struct refusals *now)
{
	uint64_t refused = now->refused - before->refused, lost = now->lost - before->lost;
	/* Others are stale, too, or of before a fence, now and then. */
	bool is_exact = lie->guess != GUESS_INSTANCE && place != PLACE_SILENT;

	printf("%s: %llu sent, %llu refused and counted, the kernel has lost %llu times\n",
	       lie->name, (unsigned long long)sent, (unsigned long long)refused,
	       (unsigned long long)lost);
	if (missing(sent, before, now))
		flaw(lie->name, "some are in no counter");
	if (is_exact && refused > sent)
		flaw(lie->name, "others are in the counter as well");
	if (lost * LIE_RUN > sent / 2)
		flaw(lie->name, "most were not judged");
	if (place == PLACE_INSIDE && now->ready != before->ready)
		flaw(lie->name, "a SETUP was answered");
	if (place == PLACE_INSIDE && now->instance != before->instance)
		flaw(lie->name, "the server believes in another instance");
}

static void lie_run(const struct lie *lie)
{
	struct refusals before = refusals_of(lie), now;
	uint64_t generation = state()->generation, sent = lie_flood(lie);
	double until_s = now_s() + 10;

	do {
		now = refusals_of(lie);
	} while (missing(sent, &before, &now) && now_s() < until_s && !usleep(10000));
	if (!atomic_load(&bad))
		judge(lie, sent, &before, &now);
	if (place != PLACE_SILENT && state()->generation != generation)
		flaw(lie->name, "another generation has begun");
}

/* ---- the table ---- */

static void *serve(void *unused)
{
	if (ps_server_run(cast.server))
		flaw("tally-ps", "it has ended");
	return unused;
}

static void on_log(void *arg, enum ps_level level, const struct ps_about *about, const char *line)
{
	(void)arg;
	(void)about;
	if (level <= PS_ERROR)
		fprintf(stderr, "tally-ps: %s\n", line);
}

static void kv_check(int result, const char *what)
{
	if (result)
		flaw(what, tally_get_last_error(NULL));
}

/* Pushes until the floods are over, of both signs, and waits now and then. */
static void *work(void *arg)
{
	uint32_t worker = *(uint32_t *)arg;
	uint64_t key[8], timestamp = 0;
	float value[8 * DIM];
	struct rng own;

	rng_init(&own, seed, worker);
	for (uint32_t round = 0; !atomic_load(&is_over) || round < ROUNDS_LEAST; round++) {
		uint32_t first = rng_below(&own, KEYS - 8);

		if (atomic_load(&bad))
			return NULL;
		for (uint32_t i = 0; i < 8; i++) {
			key[i] = first + i;
			for (uint32_t k = 0; k < DIM; k++) {
				int32_t x = (int32_t)rng_below(&own, 9) - 4 + (int32_t)worker;

				value[i * DIM + k] = (float)x;
				pushed[worker][first + i][k] += x;
			}
		}
		kv_check(tally_kv_push(cast.kv[worker], key, value, 8, &timestamp), "push");
		if (round % 16 == 0)
			kv_check(tally_kv_wait(cast.kv[worker], timestamp, WAIT_MS), "wait");
	}
	kv_check(tally_kv_wait(cast.kv[worker], timestamp, WAIT_MS), "the last wait");
	return NULL;
}

static bool table_open(void)
{
	static uint64_t hot[HOT];
	static struct ps_hosted_options table;
	struct hot_map map = { .version = 1, .keys = HOT, .key = hot };
	struct ps_server_options options = { .listen = "127.0.0.1:0",
					     .job = "flood",
					     .key = "",
					     .workers = WORKERS,
					     .silence_ns = 60000000000,
					     .tables = &table,
					     .table_count = 1,
					     .log = on_log };
	char error[PS_ERROR_MAX];

	for (uint32_t i = 0; i < HOT; i++)
		hot[i] = 2 * i;
	snprintf(folder, sizeof(folder), "/tmp/tally-hostile-XXXXXX");
	if (!mkdtemp(folder))
		return false;
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
	if (hot_map_write(map_path, &map, error)) {
		flaw("map", error);
		return false;
	}
	table = (struct ps_hosted_options){
		.table = { .name = "t",
			   .dim = DIM,
			   .window = 8,
			   .bytes = LIE_BYTES,
			   .optimiser = optimiser_default(OPTIMISER_SUM),
			   .unit = 1,
			   .map = map_path,
			   .has_copies = true,
			   .folder = folder },
		.age_us = 2000,
	};
	if (place != PLACE_INSIDE) {
		options.aggregator[options.aggregator_count++] =
			place == PLACE_TALLYD ? tallyd.address : played.address;
		options.switch_memory = 1; /* for none: it is there, or nowhere */
	}
	if (!ps_server_open(&cast.server, &options, error))
		return true;
	flaw("tally-ps", error);
	return false;
}

static bool worker_open(uint32_t worker)
{
	struct tally_kv_options options = TALLY_KV_OPTIONS_INIT;
	char text[PS_TEXT_BYTES];

	options.servers = ps_server_address(cast.server, text);
	options.job = "flood";
	options.workers = WORKERS;
	options.worker = worker;
	options.deadline_ms = WAIT_MS;
	options.flags = TALLY_KV_COPIES;
	if (!tally_kv_open(&cast.kv[worker], "t", DIM, &options))
		return true;
	flaw("open", tally_get_last_error(NULL));
	return false;
}

/* Until all are bound, and the generation has begun: from then on there is but one. */
static bool all_are_there(void)
{
	double until_s = now_s() + patience_s;

	while (place != PLACE_SILENT && now_s() < until_s) {
		bool is_there = state()->is_ready;

		for (uint32_t i = 0; i < WORKERS; i++)
			is_there &= cast.kv[i]->server[0].to_switch.core.is_welcome &&
				    cast.kv[i]->server[0].to_server.core.is_welcome;
		if (is_there)
			return true;
		usleep(1000);
	}
	if (place != PLACE_SILENT)
		flaw("the table", "nobody sums it");
	return place == PLACE_SILENT;
}

/* ---- the end ---- */

static void sums_judge(void)
{
	uint64_t key[KEYS];
	float value[KEYS * DIM];
	uint64_t timestamp;

	for (uint32_t i = 0; i < KEYS; i++)
		key[i] = i;
	kv_check(tally_kv_pull(cast.kv[0], key, value, KEYS, &timestamp), "pull");
	kv_check(tally_kv_wait(cast.kv[0], timestamp, WAIT_MS), "pull");
	for (uint32_t i = 0; i < KEYS * DIM && !atomic_load(&bad); i++) {
		int64_t sum = pushed[0][i / DIM][i % DIM] + pushed[1][i / DIM][i % DIM];

		if (value[i] >= (float)sum && value[i] <= (float)sum)
			continue;
		printf("key %u: %g, pushed were %lld\n", i / DIM, (double)value[i], (long long)sum);
		flaw("sums", "they are wrong");
	}
}

static void folder_remove(void)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	char path[sizeof(folder) + sizeof(entry->d_name) + 1];

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
}

/* ---- one place ---- */

static void floods_run(void)
{
	static uint32_t numbers[WORKERS] = { 0, 1 };
	pthread_t works[WORKERS];

	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_create(&works[i], NULL, work, &numbers[i]);
	for (uint32_t i = 0; i < LIES && !atomic_load(&bad); i++)
		if (lies[i].places & place)
			lie_run(&lies[i]);
	if (place == PLACE_SILENT)
		played.is_shut = false; /* the HELLO that comes next is answered */
	atomic_store(&is_over, true);
	/* If it has failed some may wait for what never comes: they end with the process. */
	for (uint32_t i = 0; i < WORKERS && !atomic_load(&bad); i++)
		pthread_join(works[i], NULL);
	if (!atomic_load(&bad))
		sums_judge();
}

static void place_run(enum place where, const char *name)
{
	pthread_t serves;

	place = where;
	printf("%s\n", name);
	memset(pushed, 0, sizeof(pushed));
	atomic_store(&is_over, false);
	if (!table_open() || pthread_create(&serves, NULL, serve, NULL))
		exit(1);
	for (uint32_t i = 0; i < WORKERS; i++)
		if (!worker_open(i))
			exit(1);
	if (!all_are_there())
		exit(1);
	floods_run();
	if (atomic_load(&bad)) {
		folder_remove();
		exit(1);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		kv_check(tally_kv_close(cast.kv[i]), "close");
	ps_server_ask(cast.server, PS_STOP);
	pthread_join(serves, NULL);
	ps_server_close(cast.server);
	folder_remove();
}

int main(int argc, char **argv)
{
	double begin_s = now_s();

	if (argc < 2)
		return 2;
	packets_wanted = argc > 2 ? argument("PACKETS", argv[2], 1) : packets_wanted;
	seed = argc > 3 ? argument("SEED", argv[3], 0) : seed;
	rng_init(&rng, seed, 99);
	setvbuf(stdout, NULL, _IOLBF, 0);
	network_own(); /* where it may: nobody else's ports are there */
	if (!daemon_start(&tallyd, argv[1], 0))
		return 1;
	place_run(PLACE_INSIDE, "summed by tally-ps:");
	played_begin();
	played.is_shut = true;
	cast.at_switch = played.link;
	place_run(PLACE_SILENT, "to be summed by an aggregator that does not answer HELLO:");
	played_end();
	cast.at_switch = NULL;
	place_run(PLACE_TALLYD, "summed by tallyd:");
	if (daemon_end(&tallyd))
		flaw("tallyd", "it has ended badly");
	printf("%u kinds, seed %llu, %.1f s: %s\n", LIES, (unsigned long long)seed,
	       now_s() - begin_s,
	       atomic_load(&bad) ? "FAILED" : "none taken, all counted, all sums exact");
	return atomic_load(&bad) ? 1 : 0;
}
