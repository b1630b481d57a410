/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_test.c - kill -9 at random moments during verified allreduces: of a random worker, then of tallyd.
 *
 *     kill_test TALLYD [ROUNDS] [SEED]     as many rounds of each kind (10)
 *     kill_test local [ROUNDS] [SEED]      ranks of one host, which share memory: workers alone are killed
 *     kill_test local-stop [ROUNDS] [SEED] the same, and they are stopped: who waits learns of it by a deadline
 *
 * Four ranks join, add, leave and join again; the moment may fall into any of these. Each time all
 * survivors must be told who within 2 s, no result may be wrong, nobody may hang, tallyd must hold nothing
 * afterwards, and the survivors' next job runs on that tallyd (on its successor if it was killed).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "still.h"
#include "torture.h"

enum {
	RANKS = 4,
	SUMS_MAX = 30, /* of one job before it leaves */
	KILL_US_MAX = 120000,
	DEADLINE_MS = 500, /* local-stop: of each operation */
	SILENT_S = 16,     /* until an aggregator that says nothing is given up */
	INIT_S = 3,        /* who waits for a dead process to join is told so after this */
	HANG_S = 20,
	TEXT_MAX = 512,
};
static const double notice_s_max = 2.0;

enum phase { PHASE_NONE, PHASE_INIT, PHASE_SUMS, PHASE_FINALIZE, PHASES };
static const char *const phase_names[PHASES] = { "start", "init", "sums", "finalize" };

struct report {
	uint32_t cycle;   /* which job it is in, or ended in */
	enum phase phase; /* where it is; after an error, where that met it */
	double call_s;    /* init: when that call began */
	double told_s;
	int result;      /* of the call that failed */
	int next_result; /* of the survivors' own job; -2: it did not come to that */
	bool is_wrong;
	bool is_leaking; /* after destroy shared memory is still mapped */
	char text[TEXT_MAX];
};

struct shared {
	struct report report[RANKS];
	volatile bool may_go_on; /* there is a tallyd for the next job */
};

struct round {
	unsigned number;
	uint64_t seed;
	uint32_t victim;        /* RANKS: tallyd */
	double kill_s, still_s; /* when, and *still_s then */
	enum phase phase;       /* the victim's */
	pid_t pid[RANKS];
};

static struct {
	unsigned rounds, hangs, wrong, leaks, unnamed, late, no_next;
	unsigned phases[PHASES];
	double slowest_s;      /* notice of those who were past their init */
	double slowest_init_s; /* of those who waited in it */
} sums;

static struct shared *shared;
static volatile double *still_s; /* that this machine has stood still: still.h */
static struct daemon tallyd;
static bool is_local, is_stopped;

/* ---- a rank ---- */

static int join(struct tally_comm **comm, const char *job, uint32_t size, uint32_t rank,
		uint32_t init_s)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = is_local ? "local" : tallyd.address;
	options.local_size = is_local ? size : 0;
	options.init_timeout_s = init_s;
	options.deadline_ms = is_stopped ? DEADLINE_MS : 0;
	return tally_comm_init(comm, job, size, rank, &options);
}

static bool is_memory_mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	bool is_mapped = false;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		is_mapped |= strstr(line, "memfd:tally") != NULL;
	if (maps)
		fclose(maps);
	return is_mapped;
}

/* One job from init to destroy. True if nothing went wrong in it. */
static bool life(const struct round *round, uint32_t rank, uint32_t cycle, int32_t *buffer)
{
	struct report *report = &shared->report[rank];
	struct tally_comm *comm = NULL;
	struct rng rng;
	uint32_t count;
	char job[64];

	snprintf(job, sizeof(job), "kill-%u-%u", round->number, cycle);
	rng_init(&rng, round->seed, cycle); /* the same on all ranks */
	count = 1 + rng_below(&rng, SUMS_MAX);
	report->call_s = now_s();
	report->cycle = cycle;
	report->phase = PHASE_INIT;
	report->result = join(&comm, job, RANKS, rank, INIT_S);
	if (!report->result)
		report->phase = PHASE_SUMS;
	for (uint32_t i = 0; i < count && !report->result; i++)
		report->result = sum_verified(comm, rng_u32(&rng), buffer);
	if (!report->result) {
		report->phase = PHASE_FINALIZE;
		report->result = tally_comm_finalize(comm);
	}
	if (report->result) {
		report->told_s = now_s();
		snprintf(report->text, TEXT_MAX, "%s", tally_get_last_error(comm));
		report->is_wrong = report->result == SUM_WRONG;
	}
	tally_comm_destroy(comm);
	report->is_leaking = is_memory_mapped();
	return !report->result && !report->is_leaking;
}

/* The survivors' own job. */
static int next_job(const struct round *round, uint32_t rank, int32_t *buffer)
{
	bool is_smaller = round->victim < RANKS;
	uint32_t index = is_smaller && rank > round->victim ? rank - 1 : rank;
	struct tally_comm *comm;
	char job[64];
	int result;

	snprintf(job, sizeof(job), "next-%u", round->number);
	result = join(&comm, job, is_smaller ? RANKS - 1 : RANKS, index, 10);
	for (uint32_t i = 0; i < 2 && !result; i++)
		result = sum_verified(comm, (uint32_t)round->seed + i, buffer);
	if (!result) {
		result = tally_comm_finalize(comm);
		tally_comm_destroy(comm);
	}
	return result;
}

/* The killer reads the reports. */
static void no_log(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static void rank_main(const struct round *round, uint32_t rank)
{
	struct report *report = &shared->report[rank];
	int32_t *buffer = malloc(SUM_COUNT_MAX * sizeof(*buffer));
	uint32_t cycle = 0;

	if (!buffer)
		_exit(1);
	tally_set_log(0, no_log, NULL);
	while (life(round, rank, cycle, buffer))
		cycle++;
	while (!shared->may_go_on)
		usleep(1000);
	report->next_result = next_job(round, rank, buffer);
	exit(0);
}

/* ---- the killer ---- */

static void wait_for(const struct round *round, bool (*is_so)(const struct report *),
		     double until_s)
{
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		if (rank == round->victim)
			continue;
		while (!is_so(&shared->report[rank]) && now_s() < until_s)
			usleep(500);
	}
}

static bool is_told(const struct report *report)
{
	return report->told_s > 0;
}

static void strike(struct round *round)
{
	if (round->victim < RANKS) {
		int status;

		round->phase = shared->report[round->victim].phase;
		round->kill_s = now_s();
		round->still_s = *still_s;
		kill(round->pid[round->victim], is_stopped ? SIGSTOP : SIGKILL);
		if (!is_stopped)
			waitpid(round->pid[round->victim], &status, 0);
		shared->may_go_on = true;
		return;
	}
	round->phase = shared->report[0].phase;
	round->kill_s = now_s();
	round->still_s = *still_s;
	daemon_kill(&tallyd);
	/* Nobody is to meet the new one before all know of the old one's end. */
	wait_for(round, is_told, round->kill_s + HANG_S);
	if (!daemon_start(&tallyd, tallyd.program, tallyd.port))
		exit(1);
	shared->may_go_on = true;
}

static void complain(const struct round *round, uint32_t rank, const char *what)
{
	const struct report *report = &shared->report[rank];

	printf("round %u (kill %s %u in %s): rank %u: %s: result %d in %s, %.3f s after the kill: "
	       "%s\n",
	       round->number, round->victim < RANKS ? "rank" : "tallyd", round->victim,
	       phase_names[round->phase], rank, what, report->result, phase_names[report->phase],
	       report->told_s - round->kill_s, report->text);
}

/* Whom a survivor is told of. Who still had a result of the job in which a rank was killed goes on to the next one. In local
 * mode rank 0 is the aggregator of that: if it has had none, it does not come, and nobody there knows of another. */
static const char *awaited(const struct round *round, const struct report *report)
{
	static char who[48];
	uint32_t rank = round->victim;

	if (is_local && report->cycle > shared->report[0].cycle)
		rank = 0;
	if (rank < RANKS)
		snprintf(who, sizeof(who), "rank %u", rank);
	else
		snprintf(who, sizeof(who), "%s", tallyd.address);
	return who;
}

static void judge_survivor(const struct round *round, uint32_t rank)
{
	const struct report *report = &shared->report[rank];
	double from_s = round->kill_s, notice_s, late_s = notice_s_max + *still_s - round->still_s;

	if (report->phase == PHASE_INIT && report->call_s > from_s)
		from_s = report->call_s; /* it came later */
	if (report->phase == PHASE_INIT)
		late_s += INIT_S;
	if (is_stopped) /* ... while it meets the others; rank 0 alone decides how long */
		late_s += round->victim ? INIT_S : SILENT_S;
	notice_s = report->told_s - from_s;
	if (report->is_leaking) {
		complain(round, rank, "shared memory stays");
		sums.leaks++;
	}
	if (report->is_wrong) {
		complain(round, rank, "WRONG SUM");
		sums.wrong++;
	} else if (!is_told(report)) {
		complain(round, rank, "HANGS");
		sums.hangs++;
		return;
	} else if (!strstr(report->text, awaited(round, report))) {
		complain(round, rank, "is not told who");
		sums.unnamed++;
	} else if (notice_s > late_s) {
		complain(round, rank, "told late");
		sums.late++;
	}
	if (report->phase == PHASE_INIT && notice_s > sums.slowest_init_s)
		sums.slowest_init_s = notice_s;
	if (report->phase != PHASE_INIT && notice_s > sums.slowest_s)
		sums.slowest_s = notice_s;
	if (report->next_result) {
		complain(round, rank, "its next job fails");
		printf("  with %d\n", report->next_result);
		sums.no_next++;
	}
}

static void judge(struct round *round)
{
	double until_s = round->kill_s + HANG_S;
	struct holds holds;

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		int status;

		if (rank == round->victim)
			continue;
		if (!child_wait(round->pid[rank], until_s, &status)) {
			kill(round->pid[rank], SIGKILL);
			waitpid(round->pid[rank], &status, 0);
		}
		judge_survivor(round, rank);
	}
	if (is_stopped) {
		int status;

		kill(round->pid[round->victim], SIGKILL);
		waitpid(round->pid[round->victim], &status, 0);
	}
	if (!is_local && !daemon_is_empty(&tallyd, 7, &holds)) {
		printf("round %u: tallyd still holds %u jobs, %u members, %u connections, %llu "
		       "bytes\n",
		       round->number, holds.jobs, holds.members, holds.connections, holds.bytes);
		sums.leaks++;
	}
	sums.phases[round->phase]++;
	sums.rounds++;
}

static void play(unsigned number, uint64_t seed, bool is_tallyd)
{
	struct round round = { .number = number, .seed = seed + number };
	struct rng rng;

	memset(shared, 0, sizeof(*shared));
	for (uint32_t rank = 0; rank < RANKS; rank++)
		shared->report[rank].next_result = -2;
	rng_init(&rng, round.seed, 99);
	round.victim = is_tallyd ? RANKS : rng_below(&rng, RANKS);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		round.pid[rank] = fork_bound();
		if (round.pid[rank] == 0)
			rank_main(&round, rank);
	}
	usleep(1000 + rng_below(&rng, KILL_US_MAX));
	strike(&round);
	judge(&round);
}

static int summary(uint64_t seed, double took_s, uint64_t rss_kib)
{
	unsigned bad =
		sums.hangs + sums.wrong + sums.leaks + sums.unnamed + sums.late + sums.no_next;

	printf("%u kills (in init %u, sums %u, finalize %u) in %.0f s, seed %llu\n", sums.rounds,
	       sums.phases[PHASE_NONE] + sums.phases[PHASE_INIT], sums.phases[PHASE_SUMS],
	       sums.phases[PHASE_FINALIZE], took_s, (unsigned long long)seed);
	printf("slowest notice %.0f ms, of those who still waited for all to join %.0f ms\n",
	       sums.slowest_s * 1e3, sums.slowest_init_s * 1e3);
	printf("%u hangs, %u wrong results, %u leaks, %u not told who, %u told late, %u next jobs "
	       "failed; tallyd %llu KiB\n",
	       sums.hangs, sums.wrong, sums.leaks, sums.unnamed, sums.late, sums.no_next,
	       (unsigned long long)rss_kib);
	return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)argument("ROUNDS", argv[2], 1) : 10;
	uint64_t seed = argc > 3 ? argument("SEED", argv[3], 0) : (uint64_t)getpid() << 20;
	double began_s = now_s();
	uint64_t rss_kib = 0;
	unsigned kinds;
	int result = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: kill_test TALLYD|local|local-stop [ROUNDS] [SEED]\n");
		return 2;
	}
	if (torture_lacks_family())
		return 77;
	is_stopped = !strcmp(argv[1], "local-stop");
	is_local = is_stopped || !strcmp(argv[1], "local");
	kinds = is_local ? 1 : 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %llu, %u rounds of each kind\n", (unsigned long long)seed, rounds);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	still_s = mmap(NULL, sizeof(*still_s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (shared == MAP_FAILED || still_s == MAP_FAILED || still_watch(still_s) < 0 ||
	    (!is_local && !daemon_start(&tallyd, argv[1], 0)))
		return 1;
	for (unsigned number = 0; number < kinds * rounds; number++) {
		play(number, seed, number >= rounds);
		if (number % 50 == 49)
			printf("%u of %u: slowest notice %.0f ms\n", number + 1, kinds * rounds,
			       sums.slowest_s * 1e3);
	}
	if (!is_local) {
		rss_kib = daemon_rss_kib(&tallyd);
		result = daemon_end(&tallyd);
	}
	if (result)
		printf("tallyd: exit status %d\n", result);
	return summary(seed, now_s() - began_s, rss_kib) || result;
}
