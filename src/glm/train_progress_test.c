/* SPDX-License-Identifier: Apache-2.0 */
/* train_progress_test.c - what is told of an epoch while it runs, and what leaves when: the clock is played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "glm/train_fixture.h"

enum { ROWS = 30, BATCH = 7, CALLS_MAX = 16 };

static struct {
	atomic_ullong now_ns;
	uint64_t step_ns; /* from one look at the clock to the next */
	uint32_t calls, flushes;
	const struct exchange_ops *none;
	uint64_t done[CALLS_MAX];
} t;

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	uint64_t now_ns = atomic_fetch_add(&t.now_ns, t.step_ns) + t.step_ns;

	(void)id;
	*now = (struct timespec){ .tv_sec = (time_t)(now_ns / 1000000000),
				  .tv_nsec = (long)(now_ns % 1000000000) };
	return 0;
}

static void told(void *arg, uint64_t rows_done, uint64_t rows)
{
	assert_ptr_equal(arg, &t);
	assert_int_equal(rows, ROWS);
	assert_true(t.calls < CALLS_MAX);
	t.done[t.calls++] = rows_done;
}

static int flush(struct exchange *exchange)
{
	t.flushes++;
	return t.none->flush(exchange);
}

/* An epoch with a clock that goes so fast. */
static void epoch_run(enum glm_parallel parallel, uint32_t threads, uint64_t step_ns)
{
	static const struct matrix_shape shape = { ROWS, 8, 2, 500, 9 };
	const struct glm_options options = { .loss = GLM_LOGISTIC,
					     .parallel = parallel,
					     .bias = -1,
					     .rate = 0.2,
					     .batch = BATCH,
					     .micro = parallel == GLM_MODEL_PARALLEL ? 3 : 0 };
	char error[GLM_ERROR_MAX] = "";
	struct exchange *exchange;
	struct exchange_ops ops;
	struct glm_train *train;
	struct matrix matrix;
	struct glm_data data;

	memset(&t, 0, sizeof(t));
	atomic_store(&t.now_ns, 5000000000);
	t.step_ns = step_ns;
	matrix_make(&matrix, &shape);
	data_make(&matrix, 0, 1, threads, &data);
	assert_int_equal(exchange_none(&exchange), 0);
	t.none = exchange->ops;
	ops = *t.none;
	ops.flush = flush;
	exchange->ops = &ops;
	if (glm_train_open(&train, &data, &options, exchange, error))
		fail_msg("%s", error);
	assert_int_equal(glm_train_epoch(train, told, &t), 0);
	assert_int_equal(glm_train_epoch(train, NULL, NULL), 0); /* nobody asks */
	glm_train_close(train);
	exchange->ops->close(exchange);
	data_free(&data);
	matrix_free(&matrix);
}

static void progress__is_of_the_rows_that_are_done(void **state)
{
	static const uint64_t done[] = { 7, 14, 21, 28, 30 };

	(void)state;
	for (uint32_t threads = 1; threads <= 2; threads++) {
		epoch_run(GLM_MODEL_PARALLEL, threads, 1000000000);
		assert_int_equal(t.calls, 5);
		assert_memory_equal(t.done, done, sizeof(done));
	}
	epoch_run(GLM_DATA_PARALLEL, 1, 1000000000);
	assert_int_equal(t.calls, 5);
	assert_memory_equal(t.done, done, sizeof(done));
}

/* A time in which hardly anything happens: once. */
static void progress__is_told_now_and_then(void **state)
{
	(void)state;
	epoch_run(GLM_MODEL_PARALLEL, 1, 1000);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.done[0], 7);
	epoch_run(GLM_DATA_PARALLEL, 1, 1000);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.done[0], 7);
	/* It looks at the clock after each mini-batch: 20 ms are enough, less are not. */
	epoch_run(GLM_DATA_PARALLEL, 1, 20000000);
	assert_int_equal(t.calls, 5);
	epoch_run(GLM_DATA_PARALLEL, 1, 19999999);
	assert_int_equal(t.calls, 3);
	assert_int_equal(t.done[1], 21);
}

/* Mini-batches of 3, 3 and 1 rows, the last of 2: in both epochs. */
static void sums__that_are_ready_in_5_us_leave_with_their_mini_batch(void **state)
{
	(void)state;
	epoch_run(GLM_MODEL_PARALLEL, 1, 5000);
	assert_int_equal(t.flushes, 2 * 5);
	epoch_run(GLM_MODEL_PARALLEL, 1, 5001);
	assert_int_equal(t.flushes, 2 * 13);
}

static int32_t times_us[2];

static int sum(struct exchange *exchange, int32_t *values, size_t count)
{
	if (count == 2)
		memcpy(times_us, values, sizeof(times_us));
	return t.none->sum(exchange, values, count);
}

/* Of 16 rows and of 8: a look at the clock is a millisecond, and so are their times whole ones. */
static void micro__times_are_told_in_microseconds(void **state)
{
	static const struct matrix_shape shape = { 320, 8, 2, 500, 9 };
	static const struct glm_options options = {
		.loss = GLM_LOGISTIC, .bias = -1, .rate = 0.2, .batch = 16
	};
	char error[GLM_ERROR_MAX] = "";
	struct exchange *exchange;
	struct exchange_ops ops;
	struct glm_train *train;
	struct matrix matrix;
	struct glm_data data;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.step_ns = 1000000;
	matrix_make(&matrix, &shape);
	data_make(&matrix, 0, 1, 1, &data);
	assert_int_equal(exchange_none(&exchange), 0);
	t.none = exchange->ops;
	ops = *t.none;
	ops.sum = sum;
	exchange->ops = &ops;
	assert_int_equal(glm_train_open(&train, &data, &options, exchange, error), 0);
	exchange->ranks = 2; /* one alone measures nothing; the other one has nothing */
	assert_int_equal(glm_train_epoch(train, NULL, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(times_us[i] > 0);
		assert_int_equal(times_us[i] % 1000, 0);
	}
	glm_train_close(train);
	exchange->ops->close(exchange);
	data_free(&data);
	matrix_free(&matrix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress__is_of_the_rows_that_are_done),
		cmocka_unit_test(progress__is_told_now_and_then),
		cmocka_unit_test(sums__that_are_ready_in_5_us_leave_with_their_mini_batch),
		cmocka_unit_test(micro__times_are_told_in_microseconds),
	};

	return cmocka_run_group_tests_name("glm-train-progress", tests, NULL, NULL);
}
