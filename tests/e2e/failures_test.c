/* SPDX-License-Identifier: Apache-2.0 */
/* failures_test.c - what goes wrong between ranks ends in a named error on all of them, in time. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 4, WORDS_MAX = 5, INIT_S = 4 };

static const double limit_s = 2.0;

/* All but the killed ones have this result within the limit, with these words in the text. */
static void reports_check(const struct ranks *ranks, int result, double within_s,
			  const char *const words[WORDS_MAX])
{
	for (uint32_t rank = 0; rank < ranks->size; rank++) {
		const struct ranks_report *report = &ranks->shared->report[rank];

		if (ranks->is_killed[rank])
			continue;
		if (report->result != result)
			fail_msg("rank %u: %s, not %s: %s", rank, tally_strerror(report->result),
				 tally_strerror(result), report->text);
		if (report->at_s - ranks->shared->event_s > within_s + ranks->shared->still_s)
			fail_msg("rank %u: %.3f s after the event: %s", rank,
				 report->at_s - ranks->shared->event_s, report->text);
		for (int i = 0; i < WORDS_MAX && words[i]; i++) {
			if (!strstr(report->text, words[i]))
				fail_msg("rank %u does not say \"%s\": %s", rank, words[i],
					 report->text);
		}
	}
}

/* ---- a rank is killed ---- */

/* Which one; some operations work before. */
struct kill_case {
	uint32_t rank;
	size_t count;
	bool has_child; /* forked, and still alive: as a data loader may be */
};

static void kill_body(struct ranks *ranks, uint32_t rank)
{
	const struct kill_case *the = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t *x = calloc(the->count, 4);
	int result = TALLY_OK;

	CHECK(x);
	for (int i = 0; i < 5; i++)
		CHECK(tally_allreduce(x, x, the->count, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	if (rank == the->rank && the->has_child && fork() == 0) {
		sleep(5);
		_exit(0);
	}
	ranks_meet(ranks);
	if (rank == the->rank) {
		usleep(50000); /* the others wait by now */
		ranks->shared->event_s = ranks_now_s();
		raise(SIGKILL);
	}
	result = tally_allreduce(x, x, the->count, TALLY_INT32, TALLY_SUM, comm);
	ranks_report(ranks, rank, comm, result);
	CHECK(tally_allreduce(x, x, the->count, TALLY_INT32, TALLY_SUM, comm) == result);
	CHECK(tally_comm_get_async_error(comm) == result);
	CHECK(tally_comm_finalize(comm) == result);
	tally_comm_destroy(comm);
	free(x);
}

static void killed(struct ranks ranks, struct kill_case the)
{
	char named[32];
	const char *words[WORDS_MAX] = { named, ranks_host(), "operation" };

	snprintf(named, sizeof(named), "rank %u", the.rank);
	ranks.size = SIZE;
	ranks.body = kill_body;
	ranks.arg = &the;
	ranks.is_killed[the.rank] = true;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_REMOTE, limit_s, words);
}

static void killed_rank__is_named_on_all_others(void **state)
{
	(void)state;
	killed((struct ranks){ 0 }, (struct kill_case){ 2, 100, false });
}

static void killed_rank__is_named_although_its_child_lives(void **state)
{
	(void)state;
	killed((struct ranks){ 0 }, (struct kill_case){ 2, 100, true });
	killed((struct ranks){ .is_local = true }, (struct kill_case){ 0, 100, true });
}

static void killed_rank__is_named_while_large_operations_run(void **state)
{
	(void)state;
	killed((struct ranks){ 0 }, (struct kill_case){ 1, 3000000, false });
}

static void killed_rank__is_named_in_local_mode(void **state)
{
	(void)state;
	killed((struct ranks){ .is_local = true }, (struct kill_case){ 3, 100, false });
}

static void killed_rank__is_named_if_it_hosts_the_aggregator(void **state)
{
	(void)state;
	killed((struct ranks){ .is_local = true }, (struct kill_case){ 0, 100, false });
}

/* ---- the ranks call different operations ---- */

struct call {
	size_t count;
	int dtype, op; /* dtype: from bit 8 on flags, from 16 on log2 of a scale, too */
	const char *name;
};

/* The odd rank calls `odd`, the others `common`. */
struct mismatch_case {
	const char *claim;
	struct call common[2], odd[2];
	int calls; /* 1 or 2 */
	const char *words
		[WORDS_MAX]; /* of both calls; that the odd rank and its host are told, always */
};

enum { ODD = 2 };

/* clang-format off */
static const struct mismatch_case mismatches[] = {
	{ "another count",
	  { { 1000, TALLY_INT32, TALLY_SUM, NULL } }, { { 1001, TALLY_INT32, TALLY_SUM, NULL } }, 1,
	  { "1000 int32", "1001 int32" } },
	{ "another type",
	  { { 1000, TALLY_INT32, TALLY_SUM, NULL } }, { { 1000, TALLY_FLOAT32, TALLY_SUM, NULL } }, 1,
	  { "1000 int32", "1000 float32" } },
	{ "another operation",
	  { { 1000, TALLY_FLOAT32, TALLY_SUM, NULL } }, { { 1000, TALLY_FLOAT32, TALLY_AVG, NULL } }, 1,
	  { "float32, sum", "float32, avg" } },
	{ "another form",
	  { { 1000, TALLY_FLOAT32, TALLY_SUM, NULL } },
	  { { 1000, TALLY_FLOAT32 | TALLY_OP_HALF << 8, TALLY_SUM, NULL } }, 1,
	  { "1000 float32, sum", "1000 float32 as halves, sum" } },
	{ "an exact sum",
	  { { 100, TALLY_FLOAT64, TALLY_AVG, NULL } },
	  { { 100, TALLY_FLOAT64 | TALLY_OP_EXACT << 8, TALLY_AVG, NULL } }, 1,
	  { "100 float64, avg", "100 float64 exactly, avg" } },
	{ "another scale",
	  { { 1000, TALLY_FLOAT32 | 20 << 16, TALLY_SUM, NULL } },
	  { { 1000, TALLY_FLOAT32 | 31 << 16, TALLY_SUM, NULL } }, 1,
	  { "1000 float32 below 2^9, sum", "1000 float32 below 2^-2, sum" } },
	{ "a minimum against a maximum",
	  { { 1000, TALLY_BFLOAT16, TALLY_MIN, NULL } }, { { 1000, TALLY_BFLOAT16, TALLY_MAX, NULL } }, 1,
	  { "bfloat16, min", "bfloat16, max" } },
	{ "another name",
	  { { 1000, TALLY_INT32, TALLY_SUM, "layer1" } }, { { 1000, TALLY_INT32, TALLY_SUM, "layer2" } }, 1,
	  { "layer1", "layer2" } },
	{ "another order",
	  { { 500, TALLY_INT32, TALLY_SUM, NULL }, { 700, TALLY_INT32, TALLY_SUM, NULL } },
	  { { 700, TALLY_INT32, TALLY_SUM, NULL }, { 500, TALLY_INT32, TALLY_SUM, NULL } }, 2,
	  { "500 int32", "700 int32" } },
	{ "64 chunks against 65: two streams, which no switch compares",
	  { { 64 * 360, TALLY_INT32, TALLY_SUM, NULL } }, { { 65 * 360, TALLY_INT32, TALLY_SUM, NULL } }, 1,
	  { "23040 int32", "23400 int32", "express", "bulk" } },
	{ "0 elements against 5",
	  { { 5, TALLY_FLOAT32, TALLY_SUM, NULL } }, { { 0, TALLY_FLOAT32, TALLY_SUM, NULL } }, 1,
	  { "of 5 float32", "of 0 float32" } },
	{ "5 elements against 0",
	  { { 0, TALLY_INT32, TALLY_SUM, NULL } }, { { 5, TALLY_INT32, TALLY_SUM, NULL } }, 1,
	  { "of 0 int32", "of 5 int32" } },
};
/* clang-format on */

static void mismatch_body(struct ranks *ranks, uint32_t rank)
{
	const struct mismatch_case *the = ranks->arg;
	const struct call *calls = rank == ODD ? the->odd : the->common;
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *works[2] = { NULL, NULL };
	static int32_t x[2][65 * 360];
	int result = TALLY_OK;

	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks); /* a verdict may come before a slow rank has seen the barrier's end */
	for (int i = 0; i < the->calls && !result; i++) {
		struct tally_op_options options = TALLY_OP_OPTIONS_INIT;

		options.name = calls[i].name;
		options.flags = (uint32_t)calls[i].dtype >> 8 & 0xff;
		if (calls[i].dtype >> 16)
			options.scale = (double)(1u << (calls[i].dtype >> 16));
		result = tally_iallreduce(x[i], x[i], calls[i].count, calls[i].dtype & 0xff,
					  calls[i].op, comm, &options, &works[i]);
	}
	ranks->shared->event_s = ranks_now_s(); /* the last one's counts */
	ranks_report(ranks, rank, comm, result ? result : tally_waitall(2, works, -1));
	tally_comm_destroy(comm);
}

static void mismatch__is_named_on_all_ranks(void **state)
{
	char odd[128];
	const char *who[WORDS_MAX] = { odd };

	(void)state;
	snprintf(odd, sizeof(odd), "rank %d on %s ", ODD, ranks_host());
	for (size_t i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++) {
		struct ranks ranks = {
			.size = SIZE, .lanes_max = 360, .body = mismatch_body, .arg = &mismatches[i]
		};

		printf("mismatch: %s\n", mismatches[i].claim);
		assert_true(ranks_run(&ranks));
		reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s, who);
		reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s, mismatches[i].words);
	}
}

static void barrier_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x[5] = { 0 };
	int result;

	ranks->shared->event_s = ranks_now_s();
	result = rank == ODD ? tally_barrier(comm)
			     : tally_allreduce(x, x, 5, TALLY_INT32, TALLY_SUM, comm);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void mismatch__a_barrier_is_no_allreduce(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = barrier_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s,
		      (const char *[WORDS_MAX]){ "rank 2", "barrier", "allreduce" });
}

/* ---- collectives that differ ---- */

enum what { ALLREDUCE, BROADCAST, REDUCE, ALLGATHER, GATHER, SCATTER, REDUCE_SCATTER, ALLTOALL };

struct collective {
	enum what what;
	size_t count; /* of a rank's part */
	uint32_t root;
	const size_t *counts;
};

struct collectives_case {
	const char *claim;
	struct collective common, odd;
	const char *words[WORDS_MAX];
};

static const size_t counts_a[] = { 5, 6, 7, 8 }, counts_b[] = { 6, 5, 7, 8 };

/* clang-format off */
static const struct collectives_case collectives[] = {
	{ "another root", { BROADCAST, 1000, 1, NULL }, { BROADCAST, 1000, 3, NULL },
	  { "broadcast of 1000 float32, root 1", "broadcast of 1000 float32, root 3" } },
	{ "a root that agrees, and another operation", { REDUCE, 9, 0, NULL }, { BROADCAST, 9, 0, NULL },
	  { "reduce of 9 float32, sum, root 0", "broadcast of 9 float32, root 0" } },
	{ "a reduce is no allreduce", { ALLREDUCE, 9, 0, NULL }, { REDUCE, 9, 0, NULL },
	  { "allreduce of 9 float32, sum", "reduce of 9 float32, sum" } },
	{ "other parts of one size together", { GATHER, 7, 0, counts_a }, { GATHER, 7, 0, counts_b },
	  { "gather of 26 float32 in parts of given sizes" } },
	{ "a gather is no allgather", { ALLGATHER, 7, 0, NULL }, { GATHER, 7, 0, NULL },
	  { "allgather of 28 float32", "gather of 28 float32, root 0" } },
	{ "another count", { REDUCE_SCATTER, 100, 0, NULL }, { REDUCE_SCATTER, 101, 0, NULL },
	  { "reduce_scatter of 400 float32, sum", "reduce_scatter of 404 float32, sum" } },
	{ "a scatter is no alltoall", { ALLTOALL, 25, 0, NULL }, { SCATTER, 100, 0, NULL },
	  { "alltoall of 400 float32", "scatter of 400 float32, root 0" } },
};
/* clang-format on */

static int collective_call(const struct collective *call, struct tally_comm *comm)
{
	static float in[4096], out[4096];
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work = NULL;
	size_t n = call->count;
	int type = TALLY_FLOAT32, result = TALLY_ERR_INTERNAL;

	switch (call->what) {
	case ALLREDUCE:
		return tally_allreduce(in, out, n, type, TALLY_SUM, comm);
	case BROADCAST:
		return tally_broadcast(in, out, n, type, call->root, comm);
	case REDUCE:
		return tally_reduce(in, out, n, type, TALLY_SUM, call->root, comm);
	case ALLGATHER:
		return tally_allgather(in, out, n, type, comm);
	case SCATTER:
		return tally_scatter(in, out, n, type, call->root, comm);
	case REDUCE_SCATTER:
		return tally_reduce_scatter(in, out, n, type, TALLY_SUM, comm);
	case ALLTOALL:
		return tally_alltoall(in, out, n, type, comm);
	case GATHER:
		options.counts = call->counts;
		n = call->counts ? call->counts[tally_comm_rank(comm)] : n;
		result = tally_igather(in, out, n, type, call->root, comm, &options, &work);
		return result ? result : tally_wait(&work, -1);
	}
	return result;
}

static void collectives_body(struct ranks *ranks, uint32_t rank)
{
	const struct collectives_case *the = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);

	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, comm,
		     collective_call(rank == ODD ? &the->odd : &the->common, comm));
	tally_comm_destroy(comm);
}

static void mismatch__kinds_roots_and_parts_are_compared(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(collectives) / sizeof(*collectives); i++) {
		struct ranks ranks = { .size = SIZE,
				       .body = collectives_body,
				       .arg = &collectives[i] };

		printf("mismatch: %s\n", collectives[i].claim);
		assert_true(ranks_run(&ranks));
		reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s,
			      (const char *[WORDS_MAX]){ "rank 2" });
		reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s, collectives[i].words);
	}
}

/* The last rank's thread is inside its init still, while the others' first calls, which do not agree, break the
 * job: what it waits for has come, but it does not get the processor. */
static const struct ranks *late_ranks;

static void sleep_on(int signal_number)
{
	(void)signal_number;
	for (uint32_t rank = 0; rank < SIZE - 1; rank++)
		while (!late_ranks->shared->report[rank].has_come)
			usleep(1000); /* RANK_LIMIT_S ends it */
}

static void begun(int level, const char *line, void *main_thread)
{
	if (level == TALLY_LOG_DEBUG && strstr(line, " window "))
		pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
}

static void late_body(struct ranks *ranks, uint32_t rank)
{
	pthread_t main_thread = pthread_self();

	if (rank == SIZE - 1) {
		late_ranks = ranks;
		CHECK(signal(SIGUSR1, sleep_on) != SIG_ERR);
		CHECK(tally_set_log(TALLY_LOG_DEBUG, begun, &main_thread) == TALLY_OK);
	}
	barrier_body(ranks, rank);
}

static void init__what_breaks_a_job_that_has_begun_is_the_first_calls(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = late_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_MISMATCH, limit_s,
		      (const char *[WORDS_MAX]){ "rank 2", "barrier", "not called yet by ",
						 "rank 3 on " });
}

/* ---- the aggregator ---- */

static void absent_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;
	char nobody[32];

	snprintf(nobody, sizeof(nobody), "%s:9", ranks_loopback()); /* discard: nobody listens */
	options.aggregator = nobody;
	options.init_timeout_s = INIT_S;
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL,
		     tally_comm_init(&comm, ranks->job, ranks->size, rank, &options));
}

static void aggregator__absent_is_named_with_address_and_port(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = absent_body };
	char nobody[32];

	(void)state;
	snprintf(nobody, sizeof(nobody), "%s:9", ranks_loopback());
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_SYSTEM, INIT_S + limit_s,
		      (const char *[WORDS_MAX]){ nobody, "refused" });
}

static void alone_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = INIT_S;
	ranks->shared->event_s = ranks_now_s();
	if (rank != 1)
		ranks_report(ranks, rank, NULL,
			     tally_comm_init(&comm, ranks->job, ranks->size, rank, &options));
}

static void init__names_the_missing_rank(void **state)
{
	struct ranks ranks = { .size = 3, .body = alone_body };
	const char *words[WORDS_MAX] = { "rank 1" };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[1] = true; /* it has no report */
	reports_check(&ranks, TALLY_ERR_TIMEOUT, INIT_S + limit_s, words);
}

/* Rank 1 says something that cannot be. */
struct claim {
	uint32_t size, rank;
};

static void claim_body(struct ranks *ranks, uint32_t rank)
{
	const struct claim *claim = ranks->arg;
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 10;
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL,
		     tally_comm_init(&comm, ranks->job, rank == 1 ? claim->size : ranks->size,
				     rank == 1 ? claim->rank : rank, &options));
}

static void init__two_that_claim_one_rank_are_both_refused(void **state)
{
	const struct claim claim = { 2, 0 };
	struct ranks ranks = { .size = 2, .body = claim_body, .arg = &claim };

	(void)state;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_DENIED, limit_s,
		      (const char *[WORDS_MAX]){ "rank 0", ranks_host(), "both are alive" });
}

static void init__another_size_is_refused_on_all(void **state)
{
	const struct claim claim = { 3, 1 };
	struct ranks ranks = { .size = 2, .body = claim_body, .arg = &claim };

	(void)state;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_DENIED, limit_s,
		      (const char *[WORDS_MAX]){ "rank 1", "size 3", "size 2" });
}

static void lost_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x[100] = { 0 };
	int result = tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm);

	if (rank == 0) { /* the others may not have that result yet */
		CHECK(result == TALLY_OK);
		ranks->shared->event_s = ranks_now_s();
		kill(ranks->aggregator_pid, SIGKILL);
	}
	while (!result)
		result = tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void aggregator__killed_is_named_with_address_and_port(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = lost_body };
	const char *words[WORDS_MAX] = { ranks.aggregator };

	(void)state;
	assert_true(ranks_run(&ranks));
	reports_check(&ranks, TALLY_ERR_REMOTE, limit_s, words);
}

/* ---- leaving and aborting ---- */

static void *abort_main(void *arg)
{
	usleep(100000);
	CHECK(tally_comm_abort(arg) == TALLY_OK);
	return NULL;
}

static void abort_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x[100] = { 0 };
	pthread_t thread;
	int result = TALLY_OK;

	ranks->shared->event_s = ranks_now_s();
	if (rank == 1) {
		CHECK(!pthread_create(&thread, NULL, abort_main, comm));
		result = tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm);
		CHECK(result == TALLY_ERR_ABORTED);
		pthread_join(thread, NULL);
	} else if (rank == 0) {
		/* never calls: the others would wait */
		for (int i = 0; i < 20000 && !(result = tally_comm_get_async_error(comm)); i++)
			usleep(1000);
		ranks_report(ranks, rank, comm, result);
	} else {
		result = tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm);
		ranks_report(ranks, rank, comm, result);
	}
	tally_comm_destroy(comm);
}

static void abort__ends_the_call_here_and_the_job_everywhere(void **state)
{
	struct ranks ranks = { .size = 3, .body = abort_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[1] = true; /* it has no report */
	reports_check(&ranks, TALLY_ERR_REMOTE, limit_s, (const char *[WORDS_MAX]){ "rank 1" });
}

static void leave_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x[100] = { 0 };

	CHECK(tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	ranks->shared->event_s = ranks_now_s();
	if (rank == 1) {
		ranks_leave(comm);
		return;
	}
	ranks_report(ranks, rank, comm, tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm));
	tally_comm_destroy(comm);
}

static void finalize__a_rank_that_leaves_too_early_is_named(void **state)
{
	struct ranks ranks = { .size = 3, .body = leave_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_killed[1] = true; /* it has no report */
	reports_check(&ranks, TALLY_ERR_REMOTE, limit_s, (const char *[WORDS_MAX]){ "rank 1" });
}

static void local_last_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *work;
	int32_t x[10] = { 0 };

	CHECK(tally_iallreduce(x, x, 10, TALLY_INT32, TALLY_SUM, comm, NULL, &work) == TALLY_OK);
	if (rank == 2)
		usleep(500000);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	if (rank == 2) {
		usleep(500000); /* rank 0 has left long ago, its aggregator must not */
		ranks_report(ranks, rank, NULL, TALLY_OK); /* the last moment that it is there */
	}
	ranks_leave(comm);
	if (rank != 2)
		ranks_report(ranks, rank, NULL, TALLY_OK);
}

static void finalize__rank_0_stays_until_all_others_have_left(void **state)
{
	struct ranks ranks = { .size = 3, .is_local = true, .body = local_last_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks.shared->report[0].at_s >= ranks.shared->report[2].at_s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_rank__is_named_on_all_others),
		cmocka_unit_test(killed_rank__is_named_although_its_child_lives),
		cmocka_unit_test(killed_rank__is_named_while_large_operations_run),
		cmocka_unit_test(killed_rank__is_named_in_local_mode),
		cmocka_unit_test(killed_rank__is_named_if_it_hosts_the_aggregator),
		cmocka_unit_test(mismatch__is_named_on_all_ranks),
		cmocka_unit_test(mismatch__a_barrier_is_no_allreduce),
		cmocka_unit_test(mismatch__kinds_roots_and_parts_are_compared),
		cmocka_unit_test(init__what_breaks_a_job_that_has_begun_is_the_first_calls),
		cmocka_unit_test(aggregator__absent_is_named_with_address_and_port),
		cmocka_unit_test(aggregator__killed_is_named_with_address_and_port),
		cmocka_unit_test(init__names_the_missing_rank),
		cmocka_unit_test(init__two_that_claim_one_rank_are_both_refused),
		cmocka_unit_test(init__another_size_is_refused_on_all),
		cmocka_unit_test(abort__ends_the_call_here_and_the_job_everywhere),
		cmocka_unit_test(finalize__a_rank_that_leaves_too_early_is_named),
		cmocka_unit_test(finalize__rank_0_stays_until_all_others_have_left),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures", tests, NULL, NULL);
}
