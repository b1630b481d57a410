/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak.c - four jobs at a time, coming and going for minutes, every sum verified, a third of them with a
 * rank killed at a random moment: is tallyd the same afterwards?
 *
 *     soak TALLYD [MINUTES] [SEED] [CSV]     (1 minute; CSV: one line of samples each second)
 *
 * soak.sh runs it where packets are lost. Compared are a tallyd that has seen more names than it remembers
 * and rests, and the same one after the soak: memory and descriptors.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

enum {
	LANES = 4, /* jobs at a time */
	RANKS_MAX = 4,
	TEXT_MAX = 512,
	WARM_JOBS = 100, /* more than tallyd remembers names, */
	WARM_JOBS_A_MINUTE =
		20,  /* and until malloc keeps no more than before: a block of slots has 2 MiB */
	HANG_S = 90, /* a job on a lossy link and a busy machine takes some seconds */
	GROWTH_KIB_MAX = 1024,
};

struct report {
	volatile int result;
	volatile bool is_done;
	double done_s;
	uint64_t sums;
	char text[TEXT_MAX];
};

struct lane {
	bool is_used;
	char job[32];
	uint32_t size, victim; /* size: nobody is killed */
	uint32_t sums;
	uint64_t seed;
	pid_t pid[RANKS_MAX];
	bool has_ended[RANKS_MAX], is_hung[RANKS_MAX];
	double began_s, kill_s; /* when the victim dies, or died */
	bool is_killed;
	struct report *report; /* shared */
};

static struct {
	unsigned jobs, kills, hangs, wrong, failed, unnamed;
	uint64_t sums, rss_max_kib;
	double slowest_s;
} totals;

static struct lane lanes[LANES];
static struct daemon tallyd;
static struct rng rng;

/* ---- a rank ---- */

static void no_log(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static void rank_main(const struct lane *lane, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct report *report = &lane->report[rank];
	int32_t *buffer = malloc(SUM_COUNT_MAX * sizeof(*buffer));
	struct tally_comm *comm = NULL;
	int result;

	if (!buffer)
		_exit(1);
	tally_set_log(0, no_log, NULL);
	options.aggregator = tallyd.address;
	options.init_timeout_s = 10;
	result = tally_comm_init(&comm, lane->job, lane->size, rank, &options);
	for (uint32_t i = 0; i < lane->sums && !result; i++) {
		result = sum_verified(comm, (uint32_t)lane->seed + i, buffer);
		report->sums++;
	}
	if (!result)
		result = tally_comm_finalize(comm);
	report->done_s = now_s();
	snprintf(report->text, TEXT_MAX, "%s", result ? tally_get_last_error(comm) : "");
	report->result = result;
	report->is_done = true;
	tally_comm_destroy(comm);
	exit(0);
}

/* ---- a lane ---- */

static void lane_begin(struct lane *lane, unsigned number, bool is_warm_up)
{
	struct report *report = lane->report;

	memset(report, 0, RANKS_MAX * sizeof(*report));
	*lane = (struct lane){ .is_used = true, .report = report, .began_s = now_s() };
	snprintf(lane->job, sizeof(lane->job), "soak-%u", number);
	lane->seed = rng_next(&rng);
	lane->size = is_warm_up ? 2 : 2 + rng_below(&rng, RANKS_MAX - 1);
	lane->sums = is_warm_up ? 2 : (uint32_t)rng_log(&rng, 4, 400);
	lane->victim = is_warm_up || rng_below(&rng, 3) ? lane->size : rng_below(&rng, lane->size);
	lane->kill_s = lane->began_s + rng_below(&rng, 2000) * 1e-3;
	for (uint32_t rank = 0; rank < lane->size; rank++) {
		lane->pid[rank] = fork_bound();
		if (lane->pid[rank] == 0)
			rank_main(lane, rank);
	}
}

static void lane_kill(struct lane *lane)
{
	lane->kill_s = now_s();
	lane->is_killed = !lane->has_ended[lane->victim];
	if (lane->is_killed) {
		kill(lane->pid[lane->victim], SIGKILL);
		totals.kills++;
	}
	lane->victim = lane->is_killed ? lane->victim : lane->size;
}

static void complain(const struct lane *lane, uint32_t rank, const char *what)
{
	printf("job %s rank %u of %u: %s: result %d after %.1f s: %s\n", lane->job, rank,
	       lane->size, what, lane->report[rank].result,
	       lane->report[rank].done_s - lane->began_s, lane->report[rank].text);
}

static void judge(const struct lane *lane, uint32_t rank)
{
	const struct report *report = &lane->report[rank];
	double notice_s = report->done_s - lane->kill_s;
	char who[32];

	totals.sums += report->sums;
	snprintf(who, sizeof(who), "rank %u", lane->victim);
	if (lane->is_killed && rank == lane->victim)
		return;
	if (report->result == SUM_WRONG) {
		complain(lane, rank, "WRONG SUM");
		totals.wrong++;
	} else if (!report->is_done && !lane->is_hung[rank]) {
		complain(lane, rank, "ended without a word");
		totals.failed++;
	} else if (report->result && !lane->is_killed) {
		complain(lane, rank, "failed though nobody was killed");
		totals.failed++;
	} else if (report->result && !strstr(report->text, who)) {
		complain(lane, rank, "is not told who");
		totals.unnamed++;
	} else if (report->result && report->result != TALLY_ERR_TIMEOUT && /* of init: 10 s */
		   notice_s > totals.slowest_s) {
		totals.slowest_s = notice_s;
	}
}

/* True while it has ranks. */
static bool lane_serve(struct lane *lane)
{
	bool is_alive = false;

	if (!lane->is_killed && lane->victim < lane->size && now_s() >= lane->kill_s)
		lane_kill(lane);
	for (uint32_t rank = 0; rank < lane->size; rank++) {
		int status;

		if (!lane->has_ended[rank])
			lane->has_ended[rank] = child_wait(lane->pid[rank], 0, &status);
		is_alive |= !lane->has_ended[rank];
	}
	if (is_alive && now_s() - lane->began_s > HANG_S) {
		for (uint32_t rank = 0; rank < lane->size; rank++) {
			if (lane->has_ended[rank] || lane->is_hung[rank])
				continue;
			complain(lane, rank, "HANGS");
			totals.hangs++;
			lane->is_hung[rank] = true;
			kill(lane->pid[rank], SIGKILL);
		}
	}
	if (is_alive)
		return true;
	for (uint32_t rank = 0; rank < lane->size; rank++)
		judge(lane, rank);
	totals.jobs++;
	lane->is_used = false;
	return false;
}

/* ---- the soak ---- */

static void sample(FILE *csv, double began_s)
{
	uint64_t rss_kib = daemon_rss_kib(&tallyd);
	struct holds holds = { 0 };

	if (!daemon_asks(&tallyd, &holds))
		printf("tallyd does not answer\n");
	if (rss_kib > totals.rss_max_kib)
		totals.rss_max_kib = rss_kib;
	if (csv)
		fprintf(csv, "%.0f,%llu,%u,%u,%llu,%u,%u,%llu\n", now_s() - began_s,
			(unsigned long long)rss_kib, daemon_descriptors(&tallyd), holds.jobs,
			holds.bytes, totals.jobs, totals.kills, (unsigned long long)totals.sums);
}

static void say(double began_s)
{
	printf("%4.0f s: %u jobs, %u kills, %llu sums; %u hangs, %u wrong, %u failed; tallyd %llu "
	       "KiB, "
	       "%u descriptors\n",
	       now_s() - began_s, totals.jobs, totals.kills, (unsigned long long)totals.sums,
	       totals.hangs, totals.wrong, totals.failed + totals.unnamed,
	       (unsigned long long)daemon_rss_kib(&tallyd), daemon_descriptors(&tallyd));
}

/* Jobs begin until `until_s`, or until so many have begun; then the last ones end. */
static void run(double until_s, unsigned jobs, bool is_warming, FILE *csv)
{
	double began_s = now_s(), sample_s = began_s, say_s = began_s + 60;
	static unsigned number;
	unsigned begun = 0;
	bool is_busy = true;

	while (is_busy) {
		is_busy = false;
		for (uint32_t i = 0; i < LANES; i++) {
			bool may_begin = now_s() < until_s && begun < jobs;

			if (!lanes[i].is_used && may_begin) {
				lane_begin(&lanes[i], number++, is_warming);
				begun++;
			}
			is_busy |= lanes[i].is_used && (lane_serve(&lanes[i]) || may_begin);
		}
		if (now_s() >= sample_s) {
			sample(csv, began_s);
			sample_s += 1;
		}
		if (now_s() >= say_s) {
			say(began_s);
			say_s += 60;
		}
		usleep(3000);
	}
}

/* Rests: what it holds must be nothing. */
static bool rest(const char *when, uint64_t *rss_kib, uint32_t *descriptors)
{
	struct holds holds;
	bool is_empty = daemon_is_empty(&tallyd, 10, &holds);

	if (!is_empty)
		printf("%s: tallyd holds %u jobs, %u members, %u connections, %llu bytes\n", when,
		       holds.jobs, holds.members, holds.connections, holds.bytes);
	*rss_kib = daemon_rss_kib(&tallyd);
	*descriptors = daemon_descriptors(&tallyd);
	printf("%s: tallyd at rest: %llu KiB, %u descriptors\n", when, (unsigned long long)*rss_kib,
	       *descriptors);
	return is_empty;
}

static int soak(double minutes, FILE *csv)
{
	uint64_t rss_before, rss_after;
	uint32_t fds_before, fds_after;
	bool is_good;
	double began_s;

	run(now_s() + 120 + 10 * minutes, WARM_JOBS + (unsigned)(WARM_JOBS_A_MINUTE * minutes),
	    true, NULL);
	is_good = rest("before", &rss_before, &fds_before);
	memset(&totals, 0, sizeof(totals));
	began_s = now_s();
	run(began_s + minutes * 60, UINT32_MAX, false, csv);
	say(began_s);
	is_good &= rest("after", &rss_after, &fds_after);
	if (rss_after > rss_before + GROWTH_KIB_MAX || fds_after != fds_before) {
		printf("tallyd has GROWN\n");
		is_good = false;
	}
	printf("%u jobs, %u kills, %llu verified sums, slowest notice %.0f ms, tallyd at most %llu "
	       "KiB: "
	       "%u hangs, %u wrong, %u failed, %u not told who\n",
	       totals.jobs, totals.kills, (unsigned long long)totals.sums, totals.slowest_s * 1e3,
	       (unsigned long long)totals.rss_max_kib, totals.hangs, totals.wrong, totals.failed,
	       totals.unnamed);
	return is_good && !totals.hangs && !totals.wrong && !totals.failed && !totals.unnamed ? 0
											      : 1;
}

int main(int argc, char **argv)
{
	char *end = NULL;
	double minutes = argc > 2 ? strtod(argv[2], &end) : 1;
	uint64_t seed = argc > 3 && *argv[3] ? argument("SEED", argv[3], 0)
					     : (uint64_t)getpid() << 20;
	FILE *csv = argc > 4 ? fopen(argv[4], "w") : NULL;
	struct report *reports;
	int result, status;

	if (argc < 2 || (end && *end) || !(minutes > 0 && minutes < 1e6)) {
		fprintf(stderr, "usage: soak TALLYD [MINUTES] [SEED] [CSV]\n");
		return 2;
	}
	if (argc > 4 && !csv) {
		perror(argv[4]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %llu, %g minutes\n", (unsigned long long)seed, minutes);
	rng_init(&rng, seed, 0);
	reports = mmap(NULL, LANES * RANKS_MAX * sizeof(*reports), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED || !daemon_start(&tallyd, argv[1], 0))
		return 1;
	for (uint32_t i = 0; i < LANES; i++)
		lanes[i].report = reports + (size_t)i * RANKS_MAX;
	if (csv)
		fprintf(csv, "second,rss_kib,descriptors,jobs,slot_bytes,jobs_done,kills,sums\n");
	result = soak(minutes, csv);
	if (csv && fclose(csv))
		result = 1;
	status = daemon_end(&tallyd);
	if (status)
		printf("tallyd: exit status %d\n", status);
	return result || status;
}
