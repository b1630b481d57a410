/* SPDX-License-Identifier: Apache-2.0 */
/* train_parts_test.c - a mini-batch's parts, over sums that take as long as the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "glm/train_fixture.h"
#include "glm/train_state.h"

enum { SUM_US = 3000, DEPTH = 8 };

/* Two ranks of which the other one has nothing; a sum takes SUM_US, or so long for each of its lanes. */
static struct {
	struct exchange exchange;
	uint64_t due_ns[DEPTH], begun, ended;
	uint64_t most;    /* on their way at once */
	uint64_t refused; /* the sum that cannot be begun, from 1; 0: none */
	uint32_t lane_us;
	uint64_t
		micros; /* of the mini-batches that are measured: their sums alone are of nothing */
	bool fails, cannot_flush;
} slow;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int slow_tune(struct exchange *exchange, uint32_t total, uint32_t each)
{
	(void)exchange, (void)total, (void)each;
	return 0;
}

static int slow_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	for (uint32_t i = 0; slow.micros && slow.begun / slow.micros % 2 && i < count; i++)
		assert_int_equal(lanes[i], 0);
	slow.due_ns[slot] = now_ns() + (slow.lane_us ? slow.lane_us * count : SUM_US) * 1000ull;
	slow.begun++;
	if (slow.begun == slow.refused) {
		snprintf(exchange->error, sizeof(exchange->error), "it cannot begin");
		return -1;
	}
	if (slow.begun - slow.ended > slow.most)
		slow.most = slow.begun - slow.ended;
	return 0;
}

static int slow_flush(struct exchange *exchange)
{
	snprintf(exchange->error, sizeof(exchange->error), "it cannot flush");
	return slow.cannot_flush ? -1 : 0;
}

static enum exchange_state slow_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	const struct timespec nap = { .tv_nsec = 50000 };

	if (slow.fails)
		snprintf(exchange->error, sizeof(exchange->error), "it broke");
	while (is_wait && now_ns() < slow.due_ns[slot])
		nanosleep(&nap, NULL);
	slow.ended++;
	return slow.fails ? EXCHANGE_FAILED : EXCHANGE_DONE;
}

/* The other rank says at every question what this one says. */
static int slow_sum(struct exchange *exchange, int32_t *values, size_t count)
{
	(void)exchange;
	for (size_t i = 0; i < count; i++)
		values[i] *= 2;
	return 0;
}

static void slow_abort(struct exchange *exchange)
{
	(void)exchange;
}

static const struct exchange_ops ops = { .tune = slow_tune,
					 .begin = slow_begin,
					 .flush = slow_flush,
					 .end = slow_end,
					 .sum = slow_sum,
					 .abort = slow_abort };

/* A training whose exchange is slow from the second epoch on. */
struct slow_training {
	struct exchange *alone;
	struct glm_train *train;
	struct matrix matrix;
	struct glm_data data;
};

static void training_open(struct slow_training *training, uint32_t rows, uint32_t batch,
			  uint32_t depth)
{
	const struct matrix_shape shape = { rows, 30, 2, 200, 7 };
	const struct glm_options options = { .loss = GLM_LOGISTIC,
					     .bias = -1,
					     .rate = 0.1,
					     .batch = batch,
					     .micro = 8,
					     .depth = depth };
	char error[GLM_ERROR_MAX] = "";

	matrix_make(&training->matrix, &shape);
	data_make(&training->matrix, 0, 1, 1, &training->data);
	assert_int_equal(exchange_none(&training->alone), 0);
	memset(&slow, 0, sizeof(slow));
	slow.exchange = *training->alone; /* to begin with */
	slow.exchange.depth = DEPTH;
	assert_int_equal(glm_train_open(&training->train, &training->data, &options, &slow.exchange,
					error),
			 0);
	assert_int_equal(glm_train_epoch(training->train, NULL, NULL), 0);
	slow.exchange.ops = &ops;
	slow.exchange.ranks = 2;
}

static void training_close(struct slow_training *training)
{
	glm_train_close(training->train);
	training->alone->ops->close(training->alone);
	data_free(&training->data);
	matrix_free(&training->matrix);
}

static void parts__are_what_each_takes_alone(void **state)
{
	struct slow_training training;
	struct glm_parts parts;
	uint64_t begin_ns, time_ns;

	(void)state;
	training_open(&training, 320, 32, 0);
	begin_ns = now_ns();
	assert_int_equal(glm_train_parts(training.train, &parts), 0);
	time_ns = now_ns() - begin_ns;
	assert_true(glm_train_rate(training.train) == 0.1);
	/* Four sums of a mini-batch are on their way together; computing takes microseconds. */
	assert_true(parts.exchange_us >= SUM_US);
	assert_true(parts.whole_us >= SUM_US);
	assert_true(parts.compute_us > 0);
	assert_true(parts.compute_us < SUM_US);
	/* Five rounds of ten mini-batches, none quicker than the best. */
	assert_true((parts.whole_us + parts.compute_us + parts.exchange_us) * 5 * 10 * 1000 <=
		    (double)time_ns);
	assert_int_equal(slow.begun,
			 2 * 5 * 10 * 4); /* whole and sums: rounds, mini-batches, micro-batches */

	slow.fails = true;
	assert_int_equal(glm_train_parts(training.train, &parts), -1);
	assert_string_equal(glm_train_error(training.train), "it broke");
	training_close(&training);
}

/* What was begun while the sums were taken alone is what the training itself begins. */
static void sums_are(uint32_t rows, uint32_t batch, uint64_t micros)
{
	struct slow_training training;
	struct glm_parts parts;

	training_open(&training, rows, batch, 0);
	slow.micros = micros;
	assert_int_equal(glm_train_parts(training.train, &parts), 0);
	assert_int_equal(slow.begun, 2 * 5 * micros);
	training_close(&training);
}

static void parts__have_the_sums_of_the_rows_that_there_are(void **state)
{
	(void)state;
	sums_are(20, 1000, 3); /* fewer rows than a mini-batch has */
	sums_are(40, 40, 5);
	sums_are(73, 32, 4 + 4 + 2); /* the last mini-batch is short */
}

/* Of four micro-batches in a mini-batch, in the training itself. */
static void parts__overlap_as_deep_as_was_asked_for(void **state)
{
	static const uint32_t asked[] = { 0, 1, 2, 99 }, given[] = { 4, 1, 2, 4 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct slow_training training;

		training_open(&training, 64, 32, asked[i]);
		assert_int_equal(glm_train_epoch(training.train, NULL, NULL), 0);
		assert_int_equal(slow.begun, 8);
		assert_int_equal(slow.ended, 8);
		assert_int_equal(slow.most, given[i]);
		training_close(&training);
	}
}

/* Also a mini-batch's last one, behind which there is a flush. */
static void epoch__fails_where_a_sum_cannot_be_begun(void **state)
{
	(void)state;
	for (uint64_t refused = 1; refused <= 4; refused++) {
		struct slow_training training;

		training_open(&training, 64, 32, 0);
		slow.refused = refused;
		assert_int_equal(glm_train_epoch(training.train, NULL, NULL), -1);
		assert_string_equal(glm_train_error(training.train), "it cannot begin");
		training_close(&training);
	}
}

/* One on its way at once: the thread finds nothing more to do, and flushes what waits. */
static void epoch__fails_where_what_waits_cannot_be_flushed(void **state)
{
	struct slow_training training;

	(void)state;
	training_open(&training, 64, 32, 1);
	slow.cannot_flush = true;
	assert_int_equal(glm_train_epoch(training.train, NULL, NULL), -1);
	assert_string_equal(glm_train_error(training.train), "it cannot flush");
	training_close(&training);
}

/* Of 32, 16 and 8 rows: all of a mini-batch are on their way at once, and small ones are back sooner. */
static void epoch__takes_micro_batches_that_are_quicker(void **state)
{
	struct slow_training training;

	(void)state;
	training_open(&training, 800, 32, 0);
	training.train->micro = 0;
	slow.lane_us = 2000;
	assert_int_equal(glm_train_epoch(training.train, NULL, NULL), 0);
	assert_true(glm_train_micro(training.train) < 32);
	training_close(&training);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts__are_what_each_takes_alone),
		cmocka_unit_test(parts__have_the_sums_of_the_rows_that_there_are),
		cmocka_unit_test(parts__overlap_as_deep_as_was_asked_for),
		cmocka_unit_test(epoch__fails_where_a_sum_cannot_be_begun),
		cmocka_unit_test(epoch__fails_where_what_waits_cannot_be_flushed),
		cmocka_unit_test(epoch__takes_micro_batches_that_are_quicker),
	};

	return cmocka_run_group_tests_name("glm-train-parts", tests, NULL, NULL);
}
