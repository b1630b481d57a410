/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.c - rank 2 of 3 lies (lies.c), one kind of lie after another, all on one tallyd.
 *
 *     hostile_member TALLYD [LIE...]
 *
 * What it votes is its vote. Every other lie is ignored, or ends the job with an error that the honest
 * ranks can read; none gives a wrong sum, holds anybody for longer than patience (no deadline is set), or
 * harms tallyd: after each, an honest job runs on it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "liar.h"
#include "tests/e2e/torture.h"

enum {
	RANKS = 3,
	LIAR = 2,
	OPS = 12,
	COUNT_MAX = 600,
	COUNT_FEW = 5, /* floats: 10 lanes each */
	LATENCY_SLOTS = 8,
	PATIENCE_MS = 12000, /* three times tallyd's heartbeat time: nobody hangs for longer */
	HANG_S = 25,
	TEXT_MAX = 512,
};

enum sum { SUM_RIGHT, SUM_VOTE, SUM_NEITHER };

struct report {
	uint32_t right, votes;
	bool is_wrong, has_stalled;
	int result;
	char text[TEXT_MAX];
};

static struct report *reports; /* shared by all */
static struct daemon tallyd;

/* ---- ranks ---- */

/* Whole numbers below 2^12, both signs; never so that a chunk is all zeros. */
static int32_t value(uint32_t rank, uint32_t op, uint32_t i)
{
	uint32_t x = (rank * 7919 + op * 104729 + i * 1299709 + 12345) * 2654435761u;

	return (int32_t)(x >> 20) - 2048 + (int32_t)(rank == LIAR);
}

static uint32_t count_of(const struct lie *lie, uint32_t op)
{
	uint32_t most = lie->is_few ? COUNT_FEW : lie->is_latency ? LIAR_LANES : COUNT_MAX;

	return 1 + (op * 211 + 61) % most;
}

static bool is_float32(const struct lie *lie, uint32_t op)
{
	return op % 2 && !lie->is_latency; /* which has int32 alone */
}

static enum sum judge(const struct lie *lie, uint32_t op, const int32_t *ints)
{
	const float *floats = (const float *)(const void *)ints;
	bool is_float = is_float32(lie, op), is_right = true, is_vote = true;

	for (uint32_t i = 0; i < count_of(lie, op); i++) {
		int32_t sum = value(0, op, i) + value(1, op, i) + value(2, op, i);
		/* The numbers are whole: as integers both compare exactly. */
		int32_t got = is_float ? (int32_t)floats[i] : ints[i];
		int32_t vote = is_float ? (lie->votes_zero ? 0 : sum) : sum + lie->vote;

		is_right &= got == sum;
		is_vote &= got == vote;
	}
	return is_right ? SUM_RIGHT : is_vote ? SUM_VOTE : SUM_NEITHER;
}

static int add(const struct lie *lie, struct tally_comm *comm, uint32_t rank, uint32_t op,
	       int32_t *ints)
{
	float *floats = (float *)(void *)ints;
	struct tally_work *work;
	int result;

	for (uint32_t i = 0; i < count_of(lie, op); i++) {
		if (is_float32(lie, op))
			floats[i] = (float)value(rank, op, i);
		else
			ints[i] = value(rank, op, i);
	}
	result = tally_iallreduce(ints, ints, count_of(lie, op),
				  is_float32(lie, op) ? TALLY_FLOAT32 : TALLY_INT32, TALLY_SUM,
				  comm, NULL, &work);
	return result ? result : tally_wait(&work, PATIENCE_MS);
}

static void no_log(int level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

static void rank_main(const struct lie *lie, const char *job, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct report *report = &reports[rank];
	static int32_t ints[COUNT_MAX];
	struct tally_comm *comm = NULL;

	tally_set_log(TALLY_LOG_ERROR, no_log, NULL);
	options.aggregator = tallyd.address;
	options.init_timeout_s = 5;
	options.latency_slots = lie->is_latency ? LATENCY_SLOTS : 0;
	if (rank == LIAR)
		liar_begin(lie, NULL);
	report->result = tally_comm_init(&comm, job, RANKS, rank, &options);
	if (!report->result && rank == LIAR)
		liar_begin(lie, comm);
	if (!report->result && rank == 0 && lie->is_deaf)
		liar_deafen(comm);
	for (uint32_t op = 0; op < OPS && !report->result; op++) {
		enum sum sum;

		report->result = add(lie, comm, rank, op, ints);
		if (report->result)
			break;
		sum = judge(lie, op, ints);
		report->right += sum == SUM_RIGHT;
		report->votes += sum == SUM_VOTE;
		report->is_wrong |= sum == SUM_NEITHER;
	}
	report->has_stalled = comm && report->result && !tally_comm_get_async_error(comm);
	snprintf(report->text, TEXT_MAX, "%s", tally_get_last_error(comm));
	if (!report->result)
		report->result = tally_comm_finalize(comm);
	else if (comm && !report->has_stalled && !lie->control)
		tally_comm_destroy(comm); /* why it has failed goes to the others */
	_exit(0);                         /* whoever stalls dies, which is what people do to it */
}

static bool ranks_run(const struct lie *lie, const char *job)
{
	double until_s = now_s() + HANG_S;
	bool is_good = true;
	pid_t pid[RANKS];
	int status;

	memset(reports, 0, RANKS * sizeof(*reports));
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		pid[rank] = fork_bound();
		if (pid[rank] == 0)
			rank_main(lie, job, rank);
	}
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		bool has_ended = child_wait(pid[rank], until_s, &status);

		if (!has_ended) {
			kill(pid[rank], SIGKILL);
			waitpid(pid[rank], &status, 0);
		}
		if (rank != LIAR && (!has_ended || status)) {
			printf("rank %u %s\n", rank, has_ended ? "crashed" : "hangs");
			is_good = false;
		}
	}
	return is_good;
}

/* ---- verdicts ---- */

static bool is_clean(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* With its host, as the aggregator says it. */
static bool names_liar(const struct lie *lie, const char *text)
{
	char host[64] = "", name[96];

	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "rank %d on %s%s", LIAR, host,
		 lie->end == LIE_STALL ? " sent " : "");
	return strstr(text, name);
}

static bool report_fits(const struct lie *lie, const struct report *report)
{
	bool is_told = report->result && !report->has_stalled &&
		       (!lie->word || strstr(report->text, lie->word)) &&
		       (!lie->is_named || names_liar(lie, report->text));

	if (report->is_wrong || !is_clean(report->text))
		return false;
	switch (lie->end) {
	case LIE_HARMLESS:
		return !report->result && report->right == OPS;
	case LIE_VOTE:
		return !report->result && report->votes && report->right + report->votes == OPS;
	case LIE_NAMED:
		return is_told && !report->votes;
	case LIE_EITHER:
		return !report->votes && (is_told || (!report->result && report->right == OPS));
	case LIE_STALL:
		return is_told && report->result == TALLY_ERR_TIMEOUT && !report->votes;
	}
	return false;
}

static bool log_is_clean(void)
{
	for (const char *at = tallyd.log; *at; at++)
		if (((unsigned char)*at < ' ' && *at != '\n') || *at == 0x7f)
			return false;
	return !strstr(tallyd.log, "\ntallyd: info: all is well");
}

static bool lie_play(const struct lie *lie)
{
	static const struct lie none = { .name = "the truth", .end = LIE_HARMLESS };
	double begin_s = now_s();
	struct holds holds;
	bool is_good;
	char job[64];

	snprintf(job, sizeof(job), "lie-%s", lie->name);
	is_good = ranks_run(lie, job);
	for (uint32_t rank = 0; rank < LIAR; rank++) {
		if (report_fits(lie, &reports[rank]))
			continue;
		printf("  rank %u: %u right, %u votes%s%s, result %d: %s\n", rank,
		       reports[rank].right, reports[rank].votes,
		       reports[rank].is_wrong ? ", WRONG" : "",
		       reports[rank].has_stalled ? ", stalled" : "", reports[rank].result,
		       reports[rank].text);
		is_good = false;
	}
	printf("%-26s %5.1f s  %s\n", lie->name, now_s() - begin_s,
	       reports[0].result ? reports[0].text : "");
	is_good &= log_is_clean() || !printf("  a control character in tallyd's log\n");
	is_good &= daemon_is_empty(&tallyd, 5, &holds) ||
		   !printf("  tallyd holds %u jobs\n", holds.jobs);
	snprintf(job, sizeof(job), "after-%s", lie->name);
	if (!ranks_run(&none, job) || !report_fits(&none, &reports[0]) ||
	    !report_fits(&none, &reports[1])) {
		printf("  the next job: %s\n", reports[0].text);
		is_good = false;
	}
	printf("%s", is_good ? "" : "  FAILED\n");
	fflush(stdout);
	return is_good;
}

/* What tallyd says at its end that it has dropped, by name. */
static bool has_dropped(const char *name)
{
	const char *at = strstr(tallyd.log, "dropped:");

	if (at && strstr(at, name))
		return true;
	printf("tallyd has counted no \"%s\"\n", name);
	return false;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc <= 2;
}

int main(int argc, char **argv)
{
	static const char *const options[] = { "--lanes", "64", "--heartbeat", "4", NULL };
	uint32_t played = 0, bad = 0;
	int status;

	if (argc < 2)
		return 2;
	if (torture_lacks_family())
		return 77;
	reports = mmap(NULL, RANKS * sizeof(*reports), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED || !daemon_start_with(&tallyd, argv[1], 0, options))
		return 1;
	for (size_t i = 0; i < lies_count; i++) {
		if (!is_wanted(lies[i].name, argc, argv))
			continue;
		played++;
		bad += !lie_play(&lies[i]);
	}
	status = daemon_end(&tallyd);
	for (size_t i = 0; i < lies_count; i++)
		if (lies[i].counter && is_wanted(lies[i].name, argc, argv))
			bad += !has_dropped(lies[i].counter);
	printf("%u lies, %u of them not borne; tallyd ended with %d\n", played, bad, status);
	return bad || status || !played;
}
