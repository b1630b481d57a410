/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_curve_test.c - the curvature of rows of which it is known: those that are multiples of one direction, or of two
 * that have nothing in common. With rows a_i v and b_k w, and sums over them, X'X has the eigenvalues |v|^2 sum a_i^2
 * and |w|^2 sum b_k^2, and the part of u = 1 in each is (sum a_i)^2 / sum a_i^2, and so for b.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/train_fixture.h"
#include "glm/train_state.h"

enum { FEATURES = 5, ROWS_MOST = 2048, ROUNDS = 8 };

/* One rank's exchange, which may fail; and memory that may be short. */
static struct {
	struct exchange exchange;
	struct exchange *none;
	struct exchange_ops ops;
	uint32_t aborts, sums, fails_at; /* sums; the one that fails, from 1 */
	uint32_t got, short_at;          /* of memory; 0: there is enough */
	struct matrix matrix;
	struct glm_data data;
	struct glm_train *train;
} t;

static bool has_memory(void)
{
	return !t.short_at || ++t.got != t.short_at;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return has_memory() ? __real_malloc(bytes) : NULL;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return has_memory() ? __real_calloc(count, bytes) : NULL;
}

static int sum(struct exchange *exchange, int32_t *values, size_t count)
{
	(void)values, (void)count;
	if (++t.sums != t.fails_at)
		return 0;
	strcpy(exchange->error, "nobody answers");
	return -1;
}

static void count_abort(struct exchange *exchange)
{
	(void)exchange;
	t.aborts++;
}

/* The labels are in turn -1, 1, 2, ...: classes of them, or numbers for 0. */
static void begin(uint32_t rows, uint32_t classes, uint32_t threads, double bias)
{
	const struct glm_options options = {
		.loss = GLM_LEAST_SQUARES, .bias = bias, .rate = 0.1, .l1 = 0.5, .batch = 4
	};
	char error[GLM_ERROR_MAX] = "";

	for (uint32_t row = 0; row < rows; row++)
		t.matrix.label[row] = classes ? row % classes : row;
	t.matrix.classes_count = classes;
	data_make(&t.matrix, 0, 1, threads, &t.data);
	assert_int_equal(exchange_none(&t.none), 0);
	t.exchange = *t.none;
	t.ops = *t.none->ops;
	t.ops.sum = sum;
	t.ops.abort = count_abort;
	t.exchange.ops = &t.ops;
	if (glm_train_open(&t.train, &t.data, &options, &t.exchange, error))
		fail_msg("%s", error);
	t.sums = t.aborts = 0;
}

static void end(void)
{
	t.short_at = 0;
	glm_train_close(t.train);
	t.none->ops->close(t.none);
	data_free(&t.data);
}

/* Between begin and end: the engines are as they were opened. */
static void expect_zero(void)
{
	for (uint32_t i = 0; i < t.train->threads; i++) {
		const struct glm_engine *engine = &t.train->engines[i];

		for (uint32_t k = 0; k < engine->columns * t.train->classes; k++) {
			assert_true(engine->weight[k] == 0);
			assert_true(engine->gradient[k] == 0);
		}
		assert_int_equal(engine->rows_read, 0);
		assert_int_equal(engine->bytes_read, 0);
		assert_true(engine->owed == 0 && engine->multiplier == 1);
	}
}

static void expect_curve(double mean_square, double want, double within)
{
	double largest = -1;

	assert_int_equal(train_curve(t.train, mean_square, &largest), 0);
	if (!(fabs(largest / want - 1) < within))
		fail_msg("%.9g, not %.9g", largest, want);
	expect_zero();
}

/* Whoever has which columns. */
static void curve_is(uint32_t rows, double bias, double mean_square, double want)
{
	for (uint32_t classes = 0; classes <= 3; classes += classes ? 1 : 2)
		for (uint32_t threads = 1; threads <= 3; threads++) {
			begin(rows, classes, threads, bias);
			expect_curve(mean_square, want, 1e-6);
			assert_int_equal(t.sums, ROUNDS);
			assert_int_equal(t.aborts, 0);
			end();
		}
}

static void matrix_begin(uint32_t rows)
{
	matrix_free(&t.matrix);
	t.matrix = (struct matrix){ .rows = rows,
				    .features = FEATURES,
				    .value = calloc((size_t)rows * FEATURES, sizeof(float)),
				    .label = calloc(rows, sizeof(double)) };
}

/* Features 0 to 2; 3 and 4. */
static const float v[3] = { 1, -2, 0.5f }, w[2] = { -1.5f, 2 };
static const double v_square = 5.25, w_square = 6.25;

static void put_v(uint32_t row, float times)
{
	for (uint32_t f = 0; f < 3; f++)
		t.matrix.value[row * FEATURES + f] = times * v[f];
}

static void put_w(uint32_t row, float times)
{
	for (uint32_t f = 0; f < 2; f++)
		t.matrix.value[row * FEATURES + 3 + f] = times * w[f];
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	matrix_free(&t.matrix);
	return 0;
}

static void curve__of_one_direction_is_its_mean_square(void **state)
{
	static const float a[] = { 1, -2, 0.5f, 3, -1, 2 };
	double square = 0;

	(void)state;
	matrix_begin(6);
	for (uint32_t i = 0; i < 6; i++) {
		put_v(i, a[i]);
		square += (double)(a[i] * a[i]) * v_square / 6;
	}
	curve_is(6, -1, square, square);
	curve_is(6, -1, 40 * square, square); /* whatever bounds it */
}

static void curve__with_a_bias_has_one_more_column(void **state)
{
	(void)state;
	matrix_begin(4);
	for (uint32_t i = 0; i < 4; i++)
		put_v(i, 1);
	curve_is(4, 2, v_square + 4, v_square + 4);
}

/* Rows a v and b w, three and four of them: after eight rounds the larger eigenvalue is not all there is to be seen. */
static void curve__of_two_directions_is_nearly_the_larger(void **state)
{
	static const float a[] = { 1, 2, -0.5f }, b[] = { 1.1f, 0.9f, -1, 1 };
	double sum_a = 0, sum_b = 0, square_a = 0, square_b = 0, of_v, of_w, before, after;

	(void)state;
	matrix_begin(7);
	for (uint32_t i = 0; i < 7; i++) {
		double times = (double)(i < 3 ? a[i] : b[i - 3]);

		if (i < 3)
			put_v(i, a[i]);
		else
			put_w(i, b[i - 3]);
		*(i < 3 ? &sum_a : &sum_b) += times;
		*(i < 3 ? &square_a : &square_b) += times * times;
	}
	of_v = square_a * v_square;
	of_w = square_b * w_square;
	assert_true(of_w < of_v && of_w > 0.8 * of_v);
	before =
		sum_a * sum_a / square_a * pow(of_v, 14) + sum_b * sum_b / square_b * pow(of_w, 14);
	after = sum_a * sum_a / square_a * pow(of_v, 16) + sum_b * sum_b / square_b * pow(of_w, 16);
	curve_is(7, -1, (of_v + of_w) / 7, sqrt(after / before) / 7);
}

/* Of 4096 rows every second one is looked at. */
static void curve__of_many_rows_is_that_of_some_from_all_over_the_file(void **state)
{
	(void)state;
	matrix_begin(2 * ROWS_MOST);
	for (uint32_t i = 0; i < 2 * ROWS_MOST; i++)
		put_v(i, i % 2 ? 9 : i < ROWS_MOST ? 1 : 2);
	begin(2 * ROWS_MOST, 0, 2, -1);
	expect_curve(50 * v_square, v_square * 2.5, 1e-4);
	end();
	matrix_begin(ROWS_MOST); /* all of them */
	for (uint32_t i = 0; i < ROWS_MOST; i++)
		put_v(i, i % 2 ? 3 : 1);
	begin(ROWS_MOST, 2, 1, -1);
	expect_curve(5 * v_square, v_square * 5, 1e-4);
	end();
}

/* Rows that take each other away: nothing is seen of them. And activations beyond what can be said. */
static void curve__that_is_not_found_is_the_mean_square(void **state)
{
	double largest = -1;

	(void)state;
	matrix_begin(4);
	for (uint32_t i = 0; i < 4; i++)
		put_v(i, i % 2 ? -3 : 3);
	begin(4, 2, 2, -1);
	assert_int_equal(train_curve(t.train, 9 * v_square, &largest), 0);
	assert_true(largest == 9 * v_square);
	assert_int_equal(t.sums, 1);
	expect_zero();
	end();
	matrix_begin(4);
	for (uint32_t i = 0; i < 4; i++)
		put_v(i, 3);
	begin(4, 2, 2, -1);
	assert_int_equal(train_curve(t.train, 1e-30, &largest), 0);
	assert_true(largest == 1e-30);
	assert_int_equal(t.sums, 1);
	expect_zero();
	end();
}

/* Nothing is to be learnt of rows of zeros, at any rate. */
static void rate__of_rows_of_zeros_is_one(void **state)
{
	const struct glm_options options = { .loss = GLM_LOGISTIC, .bias = -1, .batch = 4 };
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train;

	(void)state;
	matrix_begin(4);
	begin(4, 2, 1, -1);
	assert_int_equal(glm_train_open(&train, &t.data, &options, &t.exchange, error), 0);
	assert_true(glm_train_rate(train) == 1);
	glm_train_close(train);
	end();
}

static void curve__fails_where_the_exchange_does(void **state)
{
	(void)state;
	matrix_begin(4);
	for (uint32_t i = 0; i < 4; i++)
		put_v(i, 3);
	for (uint32_t fails_at = 1; fails_at <= ROUNDS; fails_at++) {
		double largest;

		begin(4, 2, 2, -1);
		t.fails_at = fails_at;
		assert_int_equal(train_curve(t.train, 9 * v_square, &largest), -1);
		assert_string_equal(glm_train_error(t.train), "nobody answers");
		assert_int_equal(t.sums, fails_at);
		expect_zero();
		t.fails_at = 0;
		end();
	}
}

/* Six times it asks for memory. */
static void curve__without_memory_tells_the_others(void **state)
{
	double largest = -1;

	(void)state;
	matrix_begin(4);
	for (uint32_t i = 0; i < 4; i++)
		put_v(i, 3);
	for (uint32_t short_at = 1; short_at <= 6; short_at++) {
		begin(4, 2, 1, -1);
		t.got = 0;
		t.short_at = short_at;
		assert_int_equal(train_curve(t.train, 9 * v_square, &largest), -1);
		assert_string_equal(glm_train_error(t.train), "rank 0: out of memory");
		assert_int_equal(t.aborts, 1);
		assert_int_equal(t.sums, 0);
		expect_zero();
		end();
	}
	begin(4, 2, 1, -1);
	t.got = 0;
	t.short_at = 7;
	assert_int_equal(train_curve(t.train, 9 * v_square, &largest), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(curve__of_one_direction_is_its_mean_square),
		TEST(curve__with_a_bias_has_one_more_column),
		TEST(curve__of_two_directions_is_nearly_the_larger),
		TEST(curve__of_many_rows_is_that_of_some_from_all_over_the_file),
		TEST(curve__that_is_not_found_is_the_mean_square),
		TEST(rate__of_rows_of_zeros_is_one),
		TEST(curve__fails_where_the_exchange_does),
		TEST(curve__without_memory_tells_the_others),
#undef TEST
	};

	return cmocka_run_group_tests_name("glm-train-curve", tests, NULL, NULL);
}
