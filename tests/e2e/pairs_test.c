/* SPDX-License-Identifier: Apache-2.0 */
/* pairs_test.c - send and receive: the bytes, their order, and what goes wrong between two ranks. R-CT-58. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 3, MANY = 20, INIT_S = 2, LARGEST = 65537 };

static const size_t counts[] = { 0, 1, 5, 359, 360, 361, LARGEST };
enum { COUNTS = sizeof(counts) / sizeof(*counts) };

/* Byte i of what `from` sends to `to` as its number-th. */
static uint8_t byte_of(uint32_t from, uint32_t to, uint32_t number, size_t i)
{
	uint64_t x = (uint64_t)from << 56 ^ (uint64_t)to << 48 ^ (uint64_t)number << 32 ^ i;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint8_t)(x >> 56);
}

static void fill(uint8_t *at, size_t bytes, uint32_t from, uint32_t to, uint32_t number)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = byte_of(from, to, number, i);
}

static bool is_right(const uint8_t *at, size_t bytes, uint32_t from, uint32_t to, uint32_t number)
{
	size_t i = 0;

	while (i < bytes && at[i] == byte_of(from, to, number, i))
		i++;
	return i == bytes;
}

static void reported(struct ranks ranks, int result, double within_s, const char *const *words)
{
	const char *all[RANKS_WORDS_MAX] = { NULL };

	for (int i = 0; words[i]; i++)
		all[i] = words[i];
	assert_true(ranks_run(&ranks));
	assert_true(ranks_have_reported(&ranks, result, within_s, all));
}

/* ---- what is received ---- */

/* Of every type: its size, 0 where there is no such type. */
static const size_t sizes[] = {
	[TALLY_INT8] = 1,        [TALLY_UINT8] = 1,    [TALLY_INT32] = 4,   [TALLY_UINT32] = 4,
	[TALLY_INT64] = 8,       [TALLY_UINT64] = 8,   [TALLY_FLOAT16] = 2, [TALLY_FLOAT32] = 4,
	[TALLY_FLOAT64] = 8,     [TALLY_BFLOAT16] = 2, [TALLY_BOOL] = 1,    [TALLY_COMPLEX64] = 8,
	[TALLY_COMPLEX128] = 16,
};

/* Everybody to everybody, all at once: a rank's own number says in which order it calls. */
static void all_to_all(struct tally_comm *comm, int dtype, size_t count, bool is_grouped)
{
	uint32_t size = tally_comm_size(comm), rank = tally_comm_rank(comm);
	size_t bytes = count * sizes[dtype];
	struct tally_work *works[2 * RANKS_MAX] = { NULL };
	uint8_t *out[RANKS_MAX] = { NULL }, *in[RANKS_MAX] = { NULL };

	if (is_grouped)
		CHECK(tally_group_start() == TALLY_OK);
	for (uint32_t k = 1; k < size; k++) {
		uint32_t peer = (rank % 2 ? rank + k : rank + size - k) % size;

		CHECK((out[peer] = malloc(bytes + 1)) && (in[peer] = calloc(1, bytes + 1)));
		fill(out[peer], bytes, rank, peer, 7);
		CHECK(!tally_isend(out[peer], count, dtype, peer, comm, NULL, &works[2 * peer]));
		CHECK(!tally_irecv(in[peer], count, dtype, peer, comm, NULL, &works[2 * peer + 1]));
	}
	if (is_grouped)
		CHECK(tally_group_end() == TALLY_OK);
	CHECK(tally_waitall(2 * size, works, -1) == TALLY_OK);
	for (uint32_t peer = 0; peer < size; peer++) {
		if (peer != rank)
			CHECK(is_right(in[peer], bytes, peer, rank, 7) && !in[peer][bytes]);
		free(out[peer]);
		free(in[peer]);
	}
}

static void values_body(struct ranks *ranks, uint32_t rank)
{
	const int types = sizeof(sizes) / sizeof(*sizes);
	struct tally_comm *comm = ranks_join(ranks, rank), *part = NULL;

	for (int type = 0; type < types; type++)
		for (int i = 0; i < COUNTS; i++)
			if (sizes[type])
				all_to_all(comm, type, counts[i], (i + type) % 2);
	CHECK(!tally_comm_split(comm, (int)rank % 2, -(int)rank, NULL, &part));
	all_to_all(part, TALLY_FLOAT32, 1000, false);
	ranks_leave(part);
	CHECK(ranks_sum(comm, 3) == TALLY_OK);
	ranks_leave(comm);
}

static void values__all_ranks_receive_what_was_sent_to_them(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 5; size++) {
		struct ranks ranks = { .size = size, .is_local = size % 2, .body = values_body };

		assert_true(ranks_run(&ranks));
	}
	struct ranks ranks = { .size = 3, .aggregators = 2, .body = values_body };

	assert_true(ranks_run(&ranks));
}

/* Blocking, around a ring: rank 0 begins. The sum beside it has nothing to do with it. */
static void ring_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	uint32_t next = (rank + 1) % SIZE, before = (rank + SIZE - 1) % SIZE;
	uint8_t token[1000];

	for (uint32_t turn = 0; turn < MANY; turn++) {
		fill(token, sizeof(token), 0, 0, turn);
		if (rank == 0)
			CHECK(!tally_send(token, sizeof(token), TALLY_UINT8, next, comm));
		memset(token, 0, sizeof(token));
		CHECK(!tally_recv(token, sizeof(token), TALLY_UINT8, before, comm));
		CHECK(is_right(token, sizeof(token), 0, 0, turn));
		if (rank)
			CHECK(!tally_send(token, sizeof(token), TALLY_UINT8, next, comm));
		if (turn % 5 == 0)
			CHECK(ranks_sum(comm, turn) == TALLY_OK);
	}
	ranks_leave(comm);
}

static void values__a_token_goes_round(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = ring_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void note_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	*(volatile int *)arg += result == TALLY_OK;
}

/* Rank 0 sends many before rank 1 has called at all, and does not wait for each. */
static void order_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *works[MANY] = { NULL };
	static uint8_t data[MANY][500];
	volatile int done = 0;

	for (uint32_t i = 0; rank == 0 && i < MANY; i++) {
		fill(data[i], i * 20, 0, 1, i);
		CHECK(!tally_isend(data[i], i * 20, TALLY_INT8, 1, comm, NULL, &works[i]));
		CHECK(!tally_work_on_done(works[i], note_done, (void *)&done));
	}
	ranks_meet(ranks);
	usleep(20000);
	for (uint32_t i = 0; rank == 1 && i < MANY; i++) {
		CHECK(!tally_recv(data[i], i * 20, TALLY_INT8, 0, comm));
		CHECK(is_right(data[i], i * 20, 0, 1, i));
	}
	CHECK(tally_waitall(MANY, works, -1) == TALLY_OK);
	CHECK(done == (rank ? 0 : MANY));
	ranks_leave(comm);
}

static void order__is_that_of_the_sends(void **state)
{
	struct ranks ranks = { .size = 2, .body = order_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Nobody waits: finalize does. */
static void finalize_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_work *work = NULL;
	static uint8_t data[LARGEST];

	if (rank == 0) {
		fill(data, LARGEST, 0, 1, 5);
		CHECK(!tally_isend(data, LARGEST, TALLY_INT8, 1, comm, NULL, &work));
	} else {
		usleep(100000);
		CHECK(!tally_irecv(data, LARGEST, TALLY_INT8, 0, comm, NULL, &work));
	}
	CHECK(tally_comm_finalize(comm) == TALLY_OK);
	CHECK(is_right(data, LARGEST, 0, 1, 5));
	CHECK(!tally_comm_get_stats(comm, &stats) && stats.operations == 1);
	CHECK(stats.elements == LARGEST && (rank || stats.bytes_out > LARGEST));
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	tally_comm_destroy(comm);
}

static void finalize__waits_for_sends_and_receives(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = finalize_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static int is_interrupted(void *ctx)
{
	return *(int *)ctx;
}

static void interrupt_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;
	int flag = 0;
	uint8_t data[100] = { 0 };

	options.interrupted = is_interrupted;
	options.interrupted_ctx = &flag;
	CHECK(!tally_comm_init(&comm, ranks->job, ranks->size, rank, &options));
	flag = 1;
	if (rank == 1)
		CHECK(tally_recv(data, 100, TALLY_UINT8, 0, comm) == TALLY_INTERRUPTED);
	flag = 0;
	ranks_meet(ranks);
	fill(data, rank ? 0 : 100, 0, 1, 1);
	CHECK(!(rank ? tally_recv(data, 100, TALLY_UINT8, 0, comm)
		     : tally_send(data, 100, TALLY_UINT8, 1, comm)));
	CHECK(is_right(data, 100, 0, 1, 1));
	ranks_leave(comm);
}

static void interrupted__a_receive_is_called_again(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = interrupt_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- what goes wrong ---- */

static void arguments_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = ranks_join(ranks, rank), *latency;
	struct tally_op_options counted = TALLY_OP_OPTIONS_INIT;
	const size_t parts[2] = { 1, 1 };
	struct tally_work *work;
	char job[80];
	int32_t x = 0;

	CHECK(tally_send(&x, 1, TALLY_INT32, rank, comm) == TALLY_ERR_ARGUMENT);
	CHECK(strstr(tally_get_last_error(comm), "is this rank itself"));
	CHECK(tally_recv(&x, 1, TALLY_INT32, 2, comm) == TALLY_ERR_ARGUMENT);
	CHECK(strstr(tally_get_last_error(comm), "from 2 is not a rank"));
	CHECK(tally_send(&x, 1, TALLY_INT32, 0, NULL) == TALLY_ERR_ARGUMENT);
	counted.counts = parts;
	CHECK(tally_isend(&x, 1, TALLY_INT32, !rank, comm, &counted, &work) == TALLY_ERR_ARGUMENT);
	CHECK(tally_isend(NULL, 1, TALLY_INT32, !rank, comm, NULL, &work) == TALLY_ERR_ARGUMENT);
	CHECK(tally_irecv(&x, 1, 99, !rank, comm, NULL, &work) == TALLY_ERR_ARGUMENT);
	CHECK(tally_isend(&x, 1, TALLY_INT32, !rank, comm, NULL, NULL) == TALLY_ERR_ARGUMENT);
	CHECK(tally_group_start() == TALLY_OK);
	CHECK(tally_send(&x, 1, TALLY_INT32, !rank, comm) == TALLY_ERR_USAGE);
	CHECK(tally_group_end() == TALLY_OK);
	snprintf(job, sizeof(job), "%s-latency", ranks->job);
	options.latency_slots = 4;
	CHECK(!tally_comm_init(&latency, job, 2, rank, &options));
	CHECK(tally_recv(&x, 1, TALLY_INT32, !rank, latency) == TALLY_ERR_UNSUPPORTED);
	ranks_leave(latency);
	ranks_leave(comm); /* pairs in which nothing was called do not hold it up */
}

static void arguments__are_refused_by_name(void **state)
{
	struct ranks ranks = { .size = 2, .body = arguments_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void mismatch_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	static float x[200];
	int result;

	ranks->shared->event_s = ranks_now_s();
	result = rank ? tally_recv(x, 101, TALLY_FLOAT32, 0, comm)
		      : tally_send(x, 100, TALLY_FLOAT32, 1, comm);
	CHECK(tally_comm_get_async_error(comm) == TALLY_OK);
	ranks_report(ranks, rank, NULL, result);
	CHECK(ranks_sum(comm, 8) == TALLY_OK); /* it is the pair that broke */
	CHECK(tally_comm_finalize(comm) == TALLY_ERR_MISMATCH);
	tally_comm_destroy(comm);
}

static void mismatch__of_counts_is_named_to_both(void **state)
{
	(void)state;
	reported((struct ranks){ .size = 2, .body = mismatch_body }, TALLY_ERR_MISMATCH, 2,
		 (const char *[]){ "send of 100 float32", "send of 101 float32", NULL });
}

/* What breaks between two does not hurt a third, nor does a call that is refused. */
static void others_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank), *part = NULL;
	struct tally_work *work = NULL;
	int32_t x[2] = { 0 };

	if (rank == 0)
		CHECK(tally_isend(NULL, 1, TALLY_INT32, 2, comm, NULL, &work) ==
		      TALLY_ERR_ARGUMENT);
	if (rank < 2)
		CHECK((rank ? tally_recv(x, 2, TALLY_INT32, 0, comm)
			    : tally_send(x, 1, TALLY_INT32, 1, comm)) == TALLY_ERR_MISMATCH);
	CHECK(!tally_comm_split(comm, rank ? 1 : -1, 0, NULL, &part));
	if (rank == 0) {
		CHECK(tally_comm_finalize(comm) == TALLY_ERR_MISMATCH);
		tally_comm_destroy(comm);
		return;
	}
	usleep(300000);
	CHECK(ranks_sum(part, 4) == TALLY_OK);
	ranks_leave(part);
	CHECK(tally_comm_get_async_error(comm) == TALLY_OK);
	CHECK(tally_comm_finalize(comm) == (rank == 1 ? TALLY_ERR_MISMATCH : TALLY_OK));
	tally_comm_destroy(comm);
}

static void mismatch__of_two_does_not_hurt_a_third(void **state)
{
	struct ranks ranks = { .size = SIZE, .is_local = true, .body = others_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_local = false;
	assert_true(ranks_run(&ranks));
}

/* A receive whose memory is lent is refused at once, and takes no message away from those behind it. */
static void lent_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *works[2] = { NULL }, *none = NULL;
	int32_t x[2] = { 0 };

	if (rank == 1) {
		CHECK(!tally_irecv(&x[0], 1, TALLY_INT32, 0, comm, NULL, &works[0]));
		CHECK(tally_irecv(x, 2, TALLY_INT32, 0, comm, NULL, &none) == TALLY_ERR_ARGUMENT);
		CHECK(!tally_irecv(&x[1], 1, TALLY_INT32, 0, comm, NULL, &works[1]));
	}
	ranks_meet(ranks);
	for (int32_t i = 1; rank == 0 && i <= 2; i++)
		CHECK(!tally_send(&i, 1, TALLY_INT32, 1, comm));
	CHECK(tally_waitall(2, works, -1) == TALLY_OK);
	CHECK(rank == 0 || (x[0] == 1 && x[1] == 2));
	ranks_leave(comm);
}

static void order__is_kept_by_what_is_refused(void **state)
{
	struct ranks ranks = { .size = 2, .body = lent_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void killed_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x = 0;

	if (ranks->arg) /* the pair is there before */
		CHECK(!(rank == 0   ? tally_recv(&x, 1, TALLY_INT32, 1, comm)
			: rank == 1 ? tally_send(&x, 1, TALLY_INT32, 0, comm)
				    : TALLY_OK));
	ranks_meet(ranks);
	if (rank == 1) {
		usleep(50000);
		ranks->shared->event_s = ranks_now_s();
		raise(SIGKILL);
	}
	ranks_report(ranks, rank, NULL, tally_recv(&x, 1, TALLY_INT32, rank ? 0 : 1, comm));
	/* Else rank 2 may hear first that rank 0 has finalized. */
	for (uint32_t ms = 0; rank == 0 && ms < 5000 && ranks->shared->report[2].at_s <= 0; ms++)
		usleep(1000);
	tally_comm_destroy(comm);
}

static void killed_rank__ends_all_that_wait(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		reported((struct ranks){ .size = SIZE,
					 .body = killed_body,
					 .is_killed = { [1] = true },
					 .arg = i ? counts : NULL },
			 TALLY_ERR_REMOTE, 2, (const char *[]){ "rank 1 on ", NULL });
}

static void abort_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *work = NULL;
	int32_t x = 0;
	int result;

	CHECK(!tally_irecv(&x, 1, TALLY_INT32, (rank + 1) % SIZE, comm, NULL, &work));
	ranks_meet(ranks);
	ranks->shared->event_s = ranks_now_s();
	if (rank == 2)
		CHECK(tally_comm_abort(comm) == TALLY_OK);
	result = tally_wait(&work, -1);
	CHECK(rank != 2 || result == TALLY_ERR_ABORTED);
	ranks_report(ranks, rank, NULL, rank == 2 ? TALLY_ERR_REMOTE : result);
	if (rank == 2)
		strcpy(ranks->shared->report[2].text, "rank 2 aborted");
	tally_comm_destroy(comm);
}

static void abort__ends_all_that_wait(void **state)
{
	(void)state;
	reported((struct ranks){ .size = SIZE, .body = abort_body }, TALLY_ERR_REMOTE, 2,
		 (const char *[]){ "rank 2", "aborted", NULL });
}

/* Whoever wonders what a rank waits for is told. */
static void dump_check(struct tally_comm *comm)
{
	char text[8192] = "";
	FILE *file = tmpfile();

	CHECK(file && tally_comm_dump(comm, fileno(file)) == TALLY_OK);
	rewind(file);
	CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	CHECK(strstr(text, "\"pairs\":[{\"tally\"") && strstr(text, "/0-1\""));
	CHECK(strstr(text, "\"state\":\"joining\"") && strstr(text, "\"send of 1 int32\""));
}

static void note_end(struct tally_work *work, int result, void *arg)
{
	(void)work;
	*(volatile uint64_t *)arg = 1 + (uint64_t)result;
}

/* The other rank never calls: a deadline ends it, and without one finalize does. */
static void alone_body(struct ranks *ranks, uint32_t rank)
{
	volatile uint64_t *done = &ranks->shared->report[RANKS_MAX - 1].value;
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_op_options timed = TALLY_OP_OPTIONS_INIT;
	struct tally_comm *comm;
	struct tally_work *work = NULL;
	int32_t x = 0;
	int result;

	options.init_timeout_s = INIT_S;
	CHECK(!tally_comm_init(&comm, ranks->job, ranks->size, rank, &options));
	timed.deadline_ms = ranks->arg ? 300 : 0;
	ranks->shared->event_s = ranks_now_s();
	if (rank == 0)
		CHECK(!tally_isend(&x, 1, TALLY_INT32, 1, comm, &timed, &work));
	if (rank == 0)
		CHECK(!tally_work_on_done(work, note_end, (void *)(uintptr_t)done));
	if (rank == 0)
		dump_check(comm);
	if (rank == 0 && ranks->arg) {
		CHECK(tally_wait(&work, -1) == TALLY_ERR_TIMEOUT);
		CHECK(ranks_now_s() - ranks->shared->event_s > 0.29);
	}
	while (rank == 1 && !*done) /* it does not leave before */
		usleep(1000);
	result = tally_comm_finalize(comm);
	CHECK(rank == 0 || result == TALLY_OK);
	ranks_report(ranks, rank, NULL, rank ? TALLY_ERR_TIMEOUT : result);
	tally_comm_destroy(comm);
}

static void alone__is_told_who_has_not_called(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ranks ranks = { .size = 2, .body = alone_body, .arg = i ? counts : NULL };

		assert_true(ranks_run(&ranks));
		assert_int_equal(ranks.shared->report[0].result, TALLY_ERR_TIMEOUT);
		assert_non_null(strstr(ranks.shared->report[0].text,
				       i ? "rank 1 has not called tally_recv for 0.3"
					 : "rank 1 has not called tally_recv for 2.0"));
	}
}

/* A rank has finalized, before or after another calls. Nobody else is hurt. */
static const struct desertion {
	uint32_t leaver; /* 0 or 2; the other of these waits for it */
	bool is_send, is_late, is_local;
	uint32_t aggregators;
	bool is_used; /* the pair is there before */
} desertions[] = {
	{ 2, false, false, false, 0, false }, { 2, false, true, false, 0, false },
	{ 2, true, false, false, 0, false },  { 2, true, true, false, 0, false },
	{ 2, false, false, true, 0, false },  { 2, false, true, true, 0, false },
	{ 2, false, false, false, 2, false }, { 2, true, true, false, 2, false },
	{ 0, true, false, false, 0, false },  { 0, false, true, false, 0, false },
	{ 0, false, false, true, 0, false },  { 0, true, true, true, 0, false },
	{ 2, false, false, false, 0, true },  { 0, true, true, false, 0, true },
};

/* Who has left by then may be known at once, or later. */
static int desertion_call(const struct desertion *how, int32_t *x, struct tally_comm *comm,
			  struct tally_work **work)
{
	return how->is_send ? tally_isend(x, 1, TALLY_INT32, how->leaver, comm, NULL, work)
			    : tally_irecv(x, 1, TALLY_INT32, how->leaver, comm, NULL, work);
}

/* Where rank 0 is the aggregator, it returns last. */
static void desert(struct ranks *ranks, uint32_t rank, const struct desertion *how,
		   struct tally_comm *comm)
{
	bool is_last = how->is_local && !how->leaver;

	ranks->shared->event_s = ranks_now_s();
	if (rank == how->leaver)
		CHECK(tally_comm_finalize(comm) == TALLY_OK);
	else if (how->is_late && is_last)
		usleep(200000);
	if (how->is_late && !is_last)
		ranks_meet(ranks);
}

static void deserted_body(struct ranks *ranks, uint32_t rank)
{
	const struct desertion *how = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *work = NULL;
	int32_t x = 7, y = 9;
	uint32_t waiter = 2 - how->leaver;
	int result = TALLY_ERR_REMOTE;

	if (how->is_used && rank != 1) {
		CHECK(!((rank == waiter) == how->is_send
				? tally_send(&x, 1, TALLY_INT32, 2 - rank, comm)
				: tally_recv(&x, 1, TALLY_INT32, 2 - rank, comm)));
	}
	if (rank == waiter && !how->is_late)
		CHECK(!desertion_call(how, &x, comm, &work));
	usleep(50000);
	ranks_meet(ranks);
	desert(ranks, rank, how, comm);
	if (rank == waiter) {
		result = how->is_late ? desertion_call(how, &x, comm, &work) : TALLY_OK;
		result = result ? result : tally_wait(&work, -1);
	}
	ranks_report(ranks, rank, NULL, result);
	if (rank == waiter) { /* and so do further calls */
		CHECK(tally_recv(&x, 1, TALLY_INT32, how->leaver, comm) == TALLY_ERR_REMOTE);
		CHECK(strstr(tally_get_last_error(NULL),
			     how->leaver ? "rank 2 on " : "rank 0 on "));
	}
	if (rank != how->leaver) /* the first time */
		CHECK(!(rank == 1 ? tally_recv(&y, 1, TALLY_INT32, waiter, comm)
				  : tally_send(&y, 1, TALLY_INT32, 1, comm)));
	if (rank != how->leaver)
		CHECK(tally_comm_finalize(comm) == (rank == 1 ? TALLY_OK : TALLY_ERR_REMOTE));
	tally_comm_destroy(comm);
}

static void deserted__is_told_who_has_finalized(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < sizeof(desertions) / sizeof(*desertions); i++) {
		const struct desertion *how = &desertions[i];
		struct ranks ranks = { .size = SIZE,
				       .is_local = how->is_local,
				       .aggregators = how->aggregators,
				       .body = deserted_body,
				       .arg = how };
		const struct ranks_report *report;
		char text[96];

		snprintf(text, sizeof(text), "%s%s",
			 how->is_used ? " left after 1 operations; rank "
				      : " has finalized, and will not call tally_",
			 how->is_used   ? how->leaver ? "0" : "2"
			 : how->is_send ? "recv"
					: "send");
		assert_true(ranks_run(&ranks));
		report = &ranks.shared->report[2 - how->leaver];
		assert_int_equal(report->result, TALLY_ERR_REMOTE);
		assert_true(report->at_s - ranks.shared->event_s < 3 + ranks.shared->still_s);
		assert_non_null(strstr(report->text, how->leaver ? "rank 2 on " : "rank 0 on "));
		assert_non_null(strstr(report->text, text));
	}
}

struct caller {
	struct tally_comm *comm;
	struct tally_work *work;
	uint32_t spins;
	int32_t x;
	int result;
};

static void *caller_main(void *arg)
{
	struct caller *caller = arg;

	for (volatile uint32_t i = 0; i < caller->spins; i++) {
	}
	caller->result =
		tally_isend(&caller->x, 1, TALLY_INT32, 1, caller->comm, NULL, &caller->work);
	return NULL;
}

/* A call of another thread comes before tally_comm_finalize, which then waits for it, or after it, and is refused. */
static void race_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank), *part;

	for (uint32_t i = 0; i < 200; i++) {
		struct caller caller = { .spins = i * 37 % 400 * 50, .x = (int32_t)i };
		int32_t x = -1;
		pthread_t thread;

		CHECK(!tally_comm_split(comm, 0, (int)rank, NULL, &part));
		caller.comm = part;
		if (rank) {
			caller.result = tally_recv(&x, 1, TALLY_INT32, 0, part);
			CHECK(caller.result || x == (int32_t)i);
			(void)tally_comm_finalize(part); /* which is an error if the receive was */
		} else {
			CHECK(!pthread_create(&thread, NULL, caller_main, &caller));
			for (volatile uint32_t k = 0; k < 8000; k++) {
			}
			CHECK(!tally_comm_finalize(part));
			CHECK(!pthread_join(thread, NULL));
			CHECK(caller.result ? caller.result == TALLY_ERR_USAGE
					    : !tally_wait(&caller.work, 0));
		}
		CHECK(!tally_allreduce(&caller.result, &x, 1, TALLY_INT32, TALLY_MAX, comm));
		CHECK(!caller.result == !x); /* both, or none */
		tally_comm_destroy(part);
	}
	ranks_leave(comm);
}

static void race__of_a_call_and_finalize_loses_nothing(void **state)
{
	struct ranks ranks = { .size = 2, .body = race_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* One rank calls its side, and finalizes: that waits for the other, who comes at any time. */
static void both_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank), *part;
	struct tally_work *work;

	for (uint32_t i = 0; i < 40; i++) {
		uint32_t sender = i % 2, late = i / 2 % 2;
		int32_t x = rank == sender ? (int32_t)i : -1;

		CHECK(!tally_comm_split(comm, 0, (int)rank, NULL, &part));
		if (rank == late)
			usleep(i * 37 % 11 * 300);
		CHECK(!(rank == sender
				? tally_isend(&x, 1, TALLY_INT32, !rank, part, NULL, &work)
				: tally_irecv(&x, 1, TALLY_INT32, !rank, part, NULL, &work)));
		CHECK(tally_comm_finalize(part) == TALLY_OK);
		CHECK(tally_wait(&work, -1) == TALLY_OK);
		CHECK(x == (int32_t)i);
		tally_comm_destroy(part);
	}
	ranks_leave(comm);
}

static void deserted__is_nobody_whose_partner_has_called(void **state)
{
	struct ranks ranks = { .size = 2, .body = both_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	ranks.is_local = true;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__all_ranks_receive_what_was_sent_to_them),
		cmocka_unit_test(values__a_token_goes_round),
		cmocka_unit_test(order__is_that_of_the_sends),
		cmocka_unit_test(finalize__waits_for_sends_and_receives),
		cmocka_unit_test(interrupted__a_receive_is_called_again),
		cmocka_unit_test(arguments__are_refused_by_name),
		cmocka_unit_test(mismatch__of_counts_is_named_to_both),
		cmocka_unit_test(mismatch__of_two_does_not_hurt_a_third),
		cmocka_unit_test(order__is_kept_by_what_is_refused),
		cmocka_unit_test(killed_rank__ends_all_that_wait),
		cmocka_unit_test(abort__ends_all_that_wait),
		cmocka_unit_test(alone__is_told_who_has_not_called),
		cmocka_unit_test(deserted__is_told_who_has_finalized),
		cmocka_unit_test(race__of_a_call_and_finalize_loses_nothing),
		cmocka_unit_test(deserted__is_nobody_whose_partner_has_called),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-pairs", tests, NULL, NULL);
}
