/* SPDX-License-Identifier: Apache-2.0 */
/* train_micro_test.c - micro-batches are reckoned with the rows that there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/exchange_fixture.h"
#include "glm/train_fixture.h"

/* What one rank's trainer takes, and what it has told its exchange. */
static void micro_is(uint32_t rows, uint32_t batch, uint32_t asked, uint32_t expected)
{
	const struct matrix_shape shape = { rows, 30, 2, 200, 7 };
	const struct glm_options options = {
		.loss = GLM_LOGISTIC, .bias = -1, .rate = 0.1, .batch = batch, .micro = asked
	};
	uint32_t most = rows < batch ? rows : batch;
	char error[GLM_ERROR_MAX] = "";
	struct exchange *exchange;
	struct glm_train *train;
	struct matrix matrix;
	struct shared shared;
	struct glm_data data;

	shared_init(&shared, 1);
	exchange = shared_open(&shared, 0);
	matrix_make(&matrix, &shape);
	data_make(&matrix, 0, 1, 1, &data);
	assert_int_equal(glm_train_open(&train, &data, &options, exchange, error), 0);
	assert_int_equal(shared.tuned_total, wire_lanes(&options.wire, most));
	assert_int_equal(shared.tuned_each, asked ? wire_lanes(&options.wire, expected) : 0);
	assert_int_equal(glm_train_epoch(train, NULL, NULL), 0);
	assert_int_equal(glm_train_micro(train), expected);
	glm_train_close(train);
	exchange->ops->close(exchange);
	data_free(&data);
	matrix_free(&matrix);
}

static void micro__auto_is_no_larger_than_the_rows_that_there_are(void **state)
{
	(void)state;
	micro_is(20, 1000, 0, 20);
	micro_is(64, 1000, 0, 64);
	micro_is(200, 1000, 0, 119); /* as many as fit 360 lanes */
	micro_is(200, 64, 0, 64);
}

static void micro__asked_for_is_no_larger_than_the_rows_that_there_are(void **state)
{
	(void)state;
	micro_is(20, 1000, 64, 20);
	micro_is(200, 1000, 64, 64);
	micro_is(200, 32, 32, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(micro__auto_is_no_larger_than_the_rows_that_there_are),
		cmocka_unit_test(micro__asked_for_is_no_larger_than_the_rows_that_there_are),
	};

	return cmocka_run_group_tests_name("glm-train-micro", tests, NULL, NULL);
}
