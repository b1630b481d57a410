/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_tally_test.c - which communicators an exchange opens, what goes over which, and whose sentence is told: over
 * a libtally that is played here, as the clock is. */
#include "glm/exchange_tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tally.h"

enum { RANK = 2, SIZE = 3, PACKET = 360, OPS_MAX = 64 };

struct tally_comm {
	const char *name;
	uint64_t wait_ns; /* of each of its operations */
	bool is_open, is_finalized;
	uint32_t aborts;
	int error;
};

static struct tally_comm dense, latency;

struct tally_work {
	struct tally_comm *comm;
};

static struct {
	uint64_t now_ns;
	int init, split, stats, start, wait, sum; /* what is returned */
	bool has_no_memory;
	int32_t others; /* what the other ranks say of the second way, in us */
	/* Operations that have been begun. */
	uint32_t count;
	struct {
		const struct tally_comm *comm;
		const void *at;
		size_t count;
		uint32_t flags;
	} op[OPS_MAX];
	struct tally_work work[OPS_MAX];
	int timeout_ms; /* of the last wait */
	size_t sum_count;
	int sum_type;
} fake;

static struct exchange *exchange;
static char error[GLM_ERROR_MAX];
static int32_t lanes[PACKET];

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	(void)id;
	*now = (struct timespec){ .tv_sec = (time_t)(fake.now_ns / 1000000000),
				  .tv_nsec = (long)(fake.now_ns % 1000000000) };
	return 0;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return fake.has_no_memory ? NULL : __real_calloc(count, bytes);
}

/* ---- libtally ---- */

const char *tally_get_last_error(const struct tally_comm *comm)
{
	return comm ? comm->name : "the thread's own error";
}

int tally_comm_init_env(struct tally_comm **comm, const struct tally_options *options)
{
	assert_int_equal(options->flags,
			 TALLY_STRICT); /* a training resumed ends with the same bits */
	assert_false(dense.is_open);
	if (fake.init != TALLY_OK)
		return fake.init;
	dense.is_open = true;
	dense.is_finalized = false;
	*comm = &dense;
	return TALLY_OK;
}

int tally_comm_split(struct tally_comm *comm, int color, int key,
		     const struct tally_options *options, struct tally_comm **made)
{
	const struct tally_options plain = TALLY_OPTIONS_INIT;
	struct tally_options asked = *options;

	assert_ptr_equal(comm, &dense);
	assert_int_equal(color, 0);
	assert_int_equal(key, RANK);
	assert_int_equal(asked.latency_slots, 64); /* twice as many as sums on their way */
	asked.latency_slots = 0;
	assert_memory_equal(&asked, &plain, sizeof(plain));
	if (fake.split != TALLY_OK)
		return fake.split;
	latency.is_open = true;
	latency.is_finalized = false;
	*made = &latency;
	return TALLY_OK;
}

uint32_t tally_comm_rank(const struct tally_comm *comm)
{
	assert_ptr_equal(comm, &dense);
	return RANK;
}

uint32_t tally_comm_size(const struct tally_comm *comm)
{
	assert_ptr_equal(comm, &dense);
	return SIZE;
}

int tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats)
{
	assert_ptr_equal(comm, &latency);
	assert_int_equal(stats->size, sizeof(*stats));
	stats->lanes = PACKET;
	return fake.stats;
}

int tally_comm_get_async_error(struct tally_comm *comm)
{
	assert_true(comm->is_open);
	return comm->error;
}

int tally_comm_finalize(struct tally_comm *comm)
{
	assert_true(comm->is_open);
	assert_false(comm->is_finalized);
	comm->is_finalized = true;
	return TALLY_OK;
}

int tally_comm_abort(struct tally_comm *comm)
{
	assert_true(comm->is_open);
	comm->aborts++;
	return TALLY_OK;
}

void tally_comm_destroy(struct tally_comm *comm)
{
	if (!comm)
		return;
	assert_true(comm->is_open);
	comm->is_open = false;
}

int tally_iallreduce(const void *send, void *recv, size_t count, int dtype, int op,
		     struct tally_comm *comm, const struct tally_op_options *options,
		     struct tally_work **work)
{
	uint32_t at = fake.count % OPS_MAX;

	assert_true(comm->is_open);
	assert_ptr_equal(send, recv);
	assert_int_equal(dtype, TALLY_INT32);
	assert_int_equal(op, TALLY_SUM);
	assert_int_equal(options->size, sizeof(*options));
	if (fake.start != TALLY_OK)
		return fake.start;
	fake.op[at].comm = comm;
	fake.op[at].at = recv;
	fake.op[at].count = count;
	fake.op[at].flags = options->flags;
	fake.work[at].comm = comm;
	*work = &fake.work[at];
	fake.count++;
	return TALLY_OK;
}

int tally_wait(struct tally_work **work, int timeout_ms)
{
	fake.timeout_ms = timeout_ms;
	if (fake.wait != TALLY_OK)
		return fake.wait;
	assert_true((*work)->comm->is_open);
	fake.now_ns += (*work)->comm->wait_ns;
	*work = NULL;
	return TALLY_OK;
}

int tally_allreduce(const void *send, void *recv, size_t count, int dtype, int op,
		    struct tally_comm *comm)
{
	assert_ptr_equal(send, recv);
	assert_ptr_equal(comm, &dense); /* large ones always */
	assert_int_equal(op, TALLY_SUM);
	fake.sum_count = count;
	fake.sum_type = dtype;
	if (dtype == TALLY_INT32 && count == 2)
		((int32_t *)recv)[1] += fake.others;
	return fake.sum;
}

/* ---- opening ---- */

static int begin(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	dense = (struct tally_comm){ .name = "dense has failed" };
	latency = (struct tally_comm){ .name = "latency has failed" };
	exchange = NULL;
	error[0] = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (exchange)
		exchange->ops->close(exchange);
	assert_false(dense.is_open);
	assert_false(latency.is_open);
	return 0;
}

static void open_as(enum exchange_mode mode)
{
	const struct exchange_tally_options options = { .mode = mode };

	assert_int_equal(exchange_tally(&exchange, &options, error), 0);
	assert_int_equal(exchange->rank, RANK);
	assert_int_equal(exchange->ranks, SIZE);
	assert_int_equal(exchange->depth, 32);
	assert_string_equal(exchange->error, "");
	assert_true(dense.is_open);
}

static void refused(enum exchange_mode mode, const char *words)
{
	const struct exchange_tally_options options = { .mode = mode };

	assert_int_equal(exchange_tally(&exchange, &options, error), -1);
	assert_string_equal(error, words);
	assert_null(exchange);
	assert_false(dense.is_open);
	assert_false(latency.is_open);
}

static void expect_op(uint32_t idx, const struct tally_comm *comm, const void *at, size_t count,
		      uint32_t flags)
{
	assert_ptr_equal(fake.op[idx].comm, comm);
	assert_ptr_equal(fake.op[idx].at, at);
	assert_int_equal(fake.op[idx].count, count);
	assert_int_equal(fake.op[idx].flags, flags);
}

static void mode__that_is_asked_for_is_taken(void **state)
{
	(void)state;
	open_as(EXCHANGE_LATENCY);
	assert_true(latency.is_open);
	assert_string_equal(exchange->name, "latency");
	assert_int_equal(exchange->lanes_max, PACKET);
	assert_int_equal(exchange->ops->tune(exchange, 100, 0), 0); /* nothing is measured */
	assert_int_equal(fake.count, 0);
	exchange->ops->close(exchange);
	assert_true(latency.is_finalized && dense.is_finalized);
	begin(NULL);
	open_as(EXCHANGE_DENSE);
	assert_false(latency.is_open);
	assert_string_equal(exchange->name, "dense");
	assert_true(exchange->lanes_max == UINT32_MAX);
	assert_int_equal(exchange->ops->tune(exchange, 100, 0), 0);
	assert_int_equal(fake.count, 0);
}

static void open__without_latency_mode_takes_the_dense_one(void **state)
{
	(void)state;
	fake.split = TALLY_ERR_NO_RESOURCE;
	open_as(EXCHANGE_AUTO);
	assert_string_equal(exchange->name, "dense");
	assert_true(exchange->lanes_max == UINT32_MAX);
	assert_int_equal(exchange->ops->tune(exchange, 100, 0), 0);
	assert_int_equal(fake.count, 0);
}

static void open__that_fails_says_why_and_leaves_nothing(void **state)
{
	(void)state;
	fake.init = TALLY_ERR_SYSTEM;
	refused(EXCHANGE_LATENCY, "the thread's own error");
	fake.init = TALLY_OK;
	fake.split = TALLY_ERR_UNSUPPORTED;
	refused(EXCHANGE_AUTO, "the thread's own error");
	fake.split = TALLY_ERR_NO_RESOURCE;
	refused(EXCHANGE_LATENCY, "the thread's own error");
	fake.split = TALLY_OK;
	fake.stats = TALLY_ERR_ARGUMENT;
	refused(EXCHANGE_LATENCY, "latency has failed");
	fake.stats = TALLY_OK;
	fake.has_no_memory = true;
	refused(EXCHANGE_LATENCY, "out of memory");
}

struct agreement {
	int result;
	uint32_t asked;
};

static int agree(void *arg, struct exchange *asked, char why[GLM_ERROR_MAX])
{
	struct agreement *agreement = arg;

	agreement->asked++;
	assert_false(latency.is_open); /* before anything that depends on the mode */
	assert_int_equal(asked->rank, RANK);
	assert_int_equal(asked->ranks, SIZE);
	assert_int_equal(asked->ops->sum(asked, lanes, 7), 0);
	assert_int_equal(fake.sum_count, 7);
	if (agreement->result)
		strcpy(why, "ranks differ");
	return agreement->result;
}

static void open__asks_whether_all_ranks_agree(void **state)
{
	struct agreement agreement = { .result = -1 };
	const struct exchange_tally_options options = { EXCHANGE_LATENCY, agree, &agreement };

	(void)state;
	assert_int_equal(exchange_tally(&exchange, &options, error), -1);
	assert_string_equal(error, "ranks differ");
	assert_false(dense.is_open);
	assert_int_equal(agreement.asked, 1);
	agreement.result = 0;
	assert_int_equal(exchange_tally(&exchange, &options, error), 0);
	assert_int_equal(agreement.asked, 2);
	assert_true(latency.is_open);
}

/* ---- sums ---- */

static void small_sums_go_over(const struct tally_comm *comm)
{
	int32_t *at = lanes + 10;

	assert_int_equal(exchange->ops->begin(exchange, 5, at, 4), 0);
	assert_int_equal(exchange->ops->begin(exchange, 0, at + 4, 8), 0);
	assert_int_equal(exchange->ops->begin(exchange, 31, at + 12, 1), 0);
	assert_int_equal(fake.count, 0); /* they wait for flush */
	assert_int_equal(exchange->ops->flush(exchange), 0);
	assert_int_equal(fake.count, 3);
	expect_op(0, comm, at, 4, TALLY_OP_MORE);
	expect_op(1, comm, at + 4, 8, TALLY_OP_MORE);
	expect_op(2, comm, at + 12, 1, 0);
	assert_int_equal(exchange->ops->flush(exchange), 0); /* of nothing */
	assert_int_equal(fake.count, 3);
	fake.wait = TALLY_IN_PROGRESS;
	assert_int_equal(exchange->ops->end(exchange, 5, false), EXCHANGE_BUSY);
	assert_int_equal(fake.timeout_ms, 0);
	fake.wait = TALLY_OK;
	assert_int_equal(exchange->ops->end(exchange, 5, true), EXCHANGE_DONE);
	assert_int_equal(fake.timeout_ms, -1);
	assert_int_equal(exchange->ops->end(exchange, 0, false), EXCHANGE_DONE);
	assert_int_equal(exchange->ops->end(exchange, 31, false), EXCHANGE_DONE);
	assert_int_equal(exchange->ops->begin(exchange, 7, at, 2), 0);
	assert_int_equal(exchange->ops->flush(exchange), 0);
	expect_op(3, comm, at, 2, 0);
	assert_int_equal(exchange->ops->end(exchange, 7, true), EXCHANGE_DONE);
	assert_string_equal(exchange->error, "");
}

static void sums__that_are_small_leave_together_over_the_mode_in_use(void **state)
{
	(void)state;
	open_as(EXCHANGE_LATENCY);
	small_sums_go_over(&latency);
	exchange->ops->close(exchange);
	begin(NULL);
	open_as(EXCHANGE_DENSE);
	small_sums_go_over(&dense);
}

static void sums__that_are_large_go_over_the_dense_one(void **state)
{
	float numbers[5] = { 0 };

	(void)state;
	open_as(EXCHANGE_LATENCY);
	assert_int_equal(exchange->ops->sum(exchange, lanes, 300), 0);
	assert_int_equal(fake.sum_count, 300);
	assert_int_equal(fake.sum_type, TALLY_INT32);
	assert_int_equal(exchange->ops->sum_float(exchange, numbers, 5), 0);
	assert_int_equal(fake.sum_count, 5);
	assert_int_equal(fake.sum_type, TALLY_FLOAT32);
}

static void failure__that_comes_first_has_the_sentence(void **state)
{
	float number = 1;

	(void)state;
	for (int first = 0; first < 4; first++) {
		const char *words = first < 2 ? "dense has failed" : "latency has failed";
		enum exchange_state state_now = EXCHANGE_FAILED;
		int result = -1;

		begin(NULL);
		open_as(EXCHANGE_LATENCY);
		fake.sum = fake.start = fake.wait = TALLY_ERR_REMOTE;
		assert_int_equal(exchange->ops->begin(exchange, 0, lanes, 4), 0);
		if (first == 0)
			result = exchange->ops->sum(exchange, lanes, 3);
		else if (first == 1)
			result = exchange->ops->sum_float(exchange, &number, 1);
		else if (first == 2)
			result = exchange->ops->flush(exchange);
		else
			state_now = exchange->ops->end(exchange, 0, true);
		assert_int_equal(result, -1);
		assert_int_equal(state_now, EXCHANGE_FAILED);
		assert_string_equal(exchange->error, words);
		assert_int_equal(exchange->ops->sum(exchange, lanes, 3), -1);
		assert_int_equal(exchange->ops->flush(exchange), first == 2 ? 0 : -1);
		assert_int_equal(exchange->ops->end(exchange, 0, false), EXCHANGE_FAILED);
		assert_string_equal(exchange->error, words);
		exchange->ops->close(exchange);
		exchange = NULL;
	}
}

/* A start that fails is the last one, and what has not left by then never does. */
static void flush__ends_with_the_first_that_fails(void **state)
{
	(void)state;
	open_as(EXCHANGE_LATENCY);
	fake.start = TALLY_ERR_REMOTE;
	assert_int_equal(exchange->ops->begin(exchange, 0, lanes, 4), 0);
	assert_int_equal(exchange->ops->begin(exchange, 1, lanes + 4, 4), 0);
	assert_int_equal(exchange->ops->flush(exchange), -1);
	fake.start = TALLY_OK;
	assert_int_equal(exchange->ops->flush(exchange), 0);
	assert_int_equal(fake.count, 0);
}

static void abort__tells_both_and_close_leaves_only_what_is_sound(void **state)
{
	(void)state;
	open_as(EXCHANGE_LATENCY);
	exchange->ops->abort(exchange);
	assert_int_equal(dense.aborts, 1);
	assert_int_equal(latency.aborts, 1);
	latency.error = TALLY_ERR_ABORTED;
	exchange->ops->close(exchange);
	assert_false(latency.is_finalized);
	assert_true(dense.is_finalized);
	assert_false(latency.is_open || dense.is_open);
	begin(NULL);
	open_as(EXCHANGE_DENSE);
	exchange->ops->abort(exchange);
	assert_int_equal(dense.aborts, 1);
	dense.error = TALLY_ERR_REMOTE;
	exchange->ops->close(exchange);
	exchange = NULL;
	assert_false(dense.is_finalized || dense.is_open);
}

/* ---- which mode ---- */

static void tune(uint32_t total, uint32_t each, const char *name)
{
	assert_string_equal(exchange->name, "auto");
	assert_int_equal(exchange->lanes_max, PACKET);
	assert_int_equal(exchange->ops->tune(exchange, total, each), 0);
	assert_string_equal(exchange->name, name);
}

static void auto__takes_what_is_faster_here(void **state)
{
	enum { ROUNDS = 6 * 20 };

	(void)state;
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 10000;
	dense.wait_ns = 50000;
	tune(700, 0, "latency"); /* two packets, or one operation */
	assert_int_equal(fake.count, ROUNDS * 3);
	assert_true(latency.is_open);
	assert_int_equal(exchange->lanes_max, PACKET);
	assert_int_equal(exchange->ops->tune(exchange, 700, 0), 0); /* once and for all */
	assert_int_equal(fake.count, ROUNDS * 3);
	fake.count = 0;
	small_sums_go_over(&latency);
	exchange->ops->close(exchange);
	begin(NULL);
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 10000;
	dense.wait_ns = 15000; /* faster than two of the other */
	tune(700, 0, "dense");
	assert_false(latency.is_open);
	assert_true(latency.is_finalized);
	assert_true(exchange->lanes_max == UINT32_MAX);
	fake.count = 0;
	small_sums_go_over(&dense);
}

static void auto__has_sums_of_the_size_that_is_asked_for(void **state)
{
	enum { ROUNDS = 6 * 20 };

	(void)state;
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 10000;
	dense.wait_ns = 15000;
	tune(300, 100, "latency"); /* both ways three of them */
	assert_int_equal(fake.count, ROUNDS * 6);
	exchange->ops->close(exchange);
	begin(NULL);
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 10000;
	dense.wait_ns = 15000;
	tune(2 * PACKET, PACKET, "latency"); /* it just fits */
	exchange->ops->close(exchange);
	begin(NULL);
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 10000;
	dense.wait_ns = 15000;
	tune(2 * PACKET, PACKET + 1, "dense"); /* this does not: nothing is measured */
	assert_int_equal(fake.count, 0);
	assert_false(latency.is_open);
}

static void auto__is_alike_on_all_ranks(void **state)
{
	(void)state;
	open_as(EXCHANGE_AUTO);
	latency.wait_ns = 20000;
	dense.wait_ns = 15000;
	fake.others = 1000;
	tune(100, 100, "latency");
}

static void auto__that_fails_says_why(void **state)
{
	(void)state;
	open_as(EXCHANGE_AUTO);
	fake.has_no_memory = true;
	assert_int_equal(exchange->ops->tune(exchange, 100, 0), -1);
	assert_string_equal(exchange->error, "out of memory");
	assert_int_equal(dense.aborts, 1);
	assert_int_equal(latency.aborts, 1);
	fake.has_no_memory = false;
	exchange->ops->close(exchange);
	begin(NULL);
	open_as(EXCHANGE_AUTO);
	fake.start = TALLY_ERR_REMOTE;
	assert_int_equal(exchange->ops->tune(exchange, 100, 0), -1);
	assert_string_equal(exchange->error, "latency has failed");
	assert_string_equal(exchange->name, "auto");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
		TEST(mode__that_is_asked_for_is_taken),
		TEST(open__without_latency_mode_takes_the_dense_one),
		TEST(open__that_fails_says_why_and_leaves_nothing),
		TEST(open__asks_whether_all_ranks_agree),
		TEST(sums__that_are_small_leave_together_over_the_mode_in_use),
		TEST(sums__that_are_large_go_over_the_dense_one),
		TEST(failure__that_comes_first_has_the_sentence),
		TEST(flush__ends_with_the_first_that_fails),
		TEST(abort__tells_both_and_close_leaves_only_what_is_sound),
		TEST(auto__takes_what_is_faster_here),
		TEST(auto__has_sums_of_the_size_that_is_asked_for),
		TEST(auto__is_alike_on_all_ranks),
		TEST(auto__that_fails_says_why),
#undef TEST
	};

	return cmocka_run_group_tests_name("glm-exchange-tally", tests, NULL, NULL);
}
