/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout_test.c - engines that train on the same rows as CSR, dense and in planes: the first two bit by bit alike,
 * planes as what their values stand for is, at any number of bits from one copy.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "glm/engine.h"
#include "glm/weave.h"
#include "tests/random.h"

enum { ROWS = 40, BATCH = 10, COLUMNS_MOST = 300, CLASSES_MOST = 5, ROUNDS = 48 };

static const uint32_t sizes[] = { 0, 1, 3, 63, 64, 65, 130, COLUMNS_MOST };

static uint64_t start[ROWS + 1];
static uint32_t column[ROWS * COLUMNS_MOST], rows[ROWS];
static float value[ROWS * COLUMNS_MOST], plain[ROWS][COLUMNS_MOST];

static float draw(void)
{
	return (float)((double)(int32_t)random_below(1 << 24) / (1 << 23) - 1);
}

/* A column is of zeros and ones, or of any values, and filled more or less. */
static struct glm_share share_draw(uint32_t columns)
{
	uint32_t filled[COLUMNS_MOST], kind[COLUMNS_MOST];
	uint64_t at = 0;

	memset(plain, 0, sizeof(plain));
	for (uint32_t c = 0; c < columns; c++) {
		filled[c] = random_below(5);
		kind[c] = random_below(3);
	}
	for (uint32_t row = 0; row < ROWS; row++) {
		rows[row] = row;
		for (uint32_t c = 0; c < columns; c++) {
			float x = kind[c] == 0 ? 1 : kind[c] == 1 ? 3 * draw() : 2 + draw();

			if (random_below(4) >= filled[c] || x == 0)
				continue;
			plain[row][c] = x;
			column[at] = c;
			value[at++] = x;
		}
		start[row + 1] = at;
	}
	return (struct glm_share){ start, column, value, columns };
}

static void engine_make(struct glm_engine *engine, const struct glm_share *share,
			const struct glm_engine_options *options, enum glm_layout layout)
{
	assert_int_equal(glm_engine_open(engine, share, options), 0);
	assert_int_equal(glm_engine_lay(engine, layout, ROWS), 0);
}

/* A mini-batch in two calls, with scales that do not depend on the parts. */
static void batch_run(struct glm_engine *engine, uint32_t first, const float *scales,
		      int64_t *parts)
{
	uint32_t classes = engine->options.classes;

	for (uint32_t at = 0, count = 4; at < BATCH; at += count, count = BATCH - at) {
		glm_engine_pay(engine, rows + first + at, count);
		assert_true(glm_engine_forward(engine, rows + first + at, count, BATCH - at,
					       parts + at * classes));
		glm_engine_backward(engine, rows + first + at, count, scales + at * classes);
	}
	glm_engine_step(engine, 0.05, rows + first, BATCH);
}

static void scales_draw(float *scales)
{
	for (uint32_t i = 0; i < BATCH * CLASSES_MOST; i++)
		scales[i] = random_below(4) ? draw() : 0;
}

static struct glm_engine_options options_draw(uint32_t round)
{
	return (struct glm_engine_options){ .classes = round % 2 ? 1 + random_below(CLASSES_MOST)
								 : 1,
					    .has_bias = round % 3 == 0,
					    .bias = 0.5f,
					    .l1 = round % 4 == 0 ? 0.01 : 0,
					    .l2 = round % 5 == 0 ? 3 : 0,
					    .bits = 1 + round % WEAVE_BITS_MAX };
}

static void layout__dense_has_the_bits_of_csr(void **state)
{
	(void)state;
	restart_random(NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t columns = sizes[random_below(sizeof(sizes) / sizeof(sizes[0]))];
		struct glm_engine_options options = options_draw(round);
		struct glm_share share = share_draw(columns);
		size_t weights = (columns + options.has_bias) * options.classes;
		struct glm_engine csr, dense;

		engine_make(&csr, &share, &options, GLM_LAYOUT_CSR);
		engine_make(&dense, &share, &options, GLM_LAYOUT_DENSE);
		if (round % 6 == 1)
			dense.kernels = &glm_engine_kernels_scalar;
		for (uint32_t first = 0; first + BATCH <= ROWS; first += BATCH) {
			int64_t a[BATCH * CLASSES_MOST], b[BATCH * CLASSES_MOST];
			float scales[BATCH * CLASSES_MOST];

			scales_draw(scales);
			batch_run(&csr, first, scales, a);
			batch_run(&dense, first, scales, b);
			assert_memory_equal(a, b, BATCH * options.classes * sizeof(*a));
			assert_memory_equal(csr.weight, dense.weight, weights * sizeof(float));
		}
		assert_int_equal(csr.rows_read, dense.rows_read);
		assert_true(options.l1 > 0 ||
			    dense.bytes_read == dense.rows_read * columns * sizeof(float));
		glm_engine_close(&csr);
		glm_engine_close(&dense);
	}
}

/* What stands for a value at `bits` (weave.h). */
static double kept(uint32_t c, double x, uint32_t bits)
{
	double low = (double)plain[0][c], high = low, q;

	for (uint32_t row = 0; row < ROWS; row++) {
		low = fmin(low, (double)plain[row][c]);
		high = fmax(high, (double)plain[row][c]);
	}
	q = high > low ? fmin(floor((x - low) * 256 / (high - low)), 255) : 0;
	return low + (high - low) / ((1 << bits) - 1) * ((int)q >> (8 - bits));
}

/* A mini-batch on plain doubles, of the values that stand for these. */
static void plain_batch(const struct glm_engine_options *options, uint32_t columns, uint32_t first,
			const float *scales, double *weight, double *parts)
{
	static double gradient[(COLUMNS_MOST + 1) * CLASSES_MOST];
	uint32_t classes = options->classes;

	memset(gradient, 0, sizeof(gradient));
	memset(parts, 0, BATCH * classes * sizeof(*parts));
	for (uint32_t i = 0; i < BATCH; i++)
		for (uint32_t j = 0; j < columns + options->has_bias; j++) {
			double x = j < columns ? kept(j, (double)plain[first + i][j], options->bits)
					       : (double)options->bias;

			for (uint32_t c = 0; c < classes; c++) {
				parts[i * classes + c] += x * weight[j * classes + c];
				gradient[j * classes + c] += x * (double)scales[i * classes + c];
			}
		}
	for (uint32_t i = 0; i < (columns + options->has_bias) * classes; i++)
		weight[i] -= 0.05 / BATCH * gradient[i];
}

static void layout__planes_are_what_their_values_stand_for(void **state)
{
	(void)state;
	restart_random(NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		static double weight[(COLUMNS_MOST + 1) * CLASSES_MOST];
		uint32_t columns = sizes[random_below(sizeof(sizes) / sizeof(sizes[0]))];
		struct glm_engine_options options = options_draw(round);
		struct glm_share share = share_draw(columns);
		struct glm_engine engine;

		options.l1 = options.l2 = 0;
		memset(weight, 0, sizeof(weight));
		engine_make(&engine, &share, &options, GLM_LAYOUT_WEAVE);
		for (uint32_t first = 0; first + BATCH <= ROWS; first += BATCH) {
			int64_t parts[BATCH * CLASSES_MOST];
			double expected[BATCH * CLASSES_MOST];
			float scales[BATCH * CLASSES_MOST];

			scales_draw(scales);
			batch_run(&engine, first, scales, parts);
			plain_batch(&options, columns, first, scales, weight, expected);
			/* A product is rounded to 2^-20, a weight to 24 bits. */
			for (uint32_t i = 0; i < BATCH * options.classes; i++)
				assert_true(fabs((double)parts[i] * 0x1p-32 - expected[i]) <
					    (columns + 1) * 0x1p-19);
			for (uint32_t i = 0; i < (columns + options.has_bias) * options.classes;
			     i++)
				assert_true(fabs((double)engine.weight[i] - weight[i]) < 1e-5);
		}
		assert_true(options.classes > 1 ||
			    engine.bytes_read ==
				    engine.rows_read * ((columns + 63) / 64) * 8 * options.bits);
		glm_engine_close(&engine);
	}
}

/* One copy of the values serves every number of bits, from one mini-batch to the next. */
static void layout__bits_may_change_between_mini_batches(void **state)
{
	struct glm_engine_options options = { .classes = 2, .bits = 8, .l1 = 0.01, .l2 = 0.1 };
	struct glm_engine engine, other;
	struct glm_share share;

	(void)state;
	restart_random(NULL);
	share = share_draw(COLUMNS_MOST);
	engine_make(&engine, &share, &options, GLM_LAYOUT_WEAVE);
	for (uint32_t bits = WEAVE_BITS_MAX, first = 0; bits;
	     bits--, first = (first + BATCH) % ROWS) {
		int64_t a[BATCH * 2], b[BATCH * 2];
		float scales[BATCH * CLASSES_MOST];
		size_t bytes = COLUMNS_MOST * 2 * sizeof(float);

		scales_draw(scales);
		options.bits = engine.options.bits = bits;
		engine_make(&other, &share, &options, GLM_LAYOUT_WEAVE);
		memcpy(other.weight, engine.weight, bytes);
		memcpy(other.paid, engine.paid, COLUMNS_MOST * sizeof(double));
		other.owed = engine.owed;
		other.multiplier = engine.multiplier;
		glm_engine_changed(&engine);
		batch_run(&engine, first, scales, a);
		batch_run(&other, first, scales, b);
		assert_memory_equal(a, b, sizeof(a));
		assert_memory_equal(engine.weight, other.weight, bytes);
		glm_engine_close(&other);
	}
	glm_engine_close(&engine);
}

/* More rows than go at once, and what lies behind them is none of theirs. Whole scales: sums are exact. */
static void layout__planes_take_as_many_rows_as_they_are_given(void **state)
{
	enum { MANY = 70, BEHIND = 60 };
	const struct glm_engine_options options = { .classes = 1, .bits = 4 };
	struct glm_engine whole, halves;
	uint32_t many[MANY + BEHIND];
	float scales[MANY + BEHIND];
	struct glm_share share;

	(void)state;
	restart_random(NULL);
	share = share_draw(COLUMNS_MOST);
	for (uint32_t i = 0; i < MANY + BEHIND; i++) {
		many[i] = i % ROWS;
		scales[i] = (float)(1 + i % 3);
	}
	engine_make(&whole, &share, &options, GLM_LAYOUT_WEAVE);
	engine_make(&halves, &share, &options, GLM_LAYOUT_WEAVE);
	glm_engine_backward(&whole, many, MANY, scales);
	glm_engine_backward(&halves, many, MANY / 2, scales);
	glm_engine_backward(&halves, many + MANY / 2, MANY / 2, scales + MANY / 2);
	glm_engine_step(&whole, 0.05, many, MANY);
	glm_engine_step(&halves, 0.05, many, MANY);
	assert_memory_equal(whole.weight, halves.weight, COLUMNS_MOST * sizeof(float));
	assert_int_equal(whole.bytes_read, halves.bytes_read);
	glm_engine_close(&whole);
	glm_engine_close(&halves);
}

static void layout__weights_that_do_not_fit_are_told(void **state)
{
	static const float beyond[] = { 1e30f, -1e30f, INFINITY, NAN };
	const struct glm_engine_options options = { .classes = 1, .bits = 4 };
	struct glm_share share;

	(void)state;
	restart_random(NULL);
	share = share_draw(COLUMNS_MOST);
	start[0] = 0;
	share.columns = COLUMNS_MOST;
	for (int layout = GLM_LAYOUT_CSR; layout <= GLM_LAYOUT_WEAVE; layout++)
		for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
			struct glm_engine engine;
			int64_t parts[ROWS];

			engine_make(&engine, &share, &options, (enum glm_layout)layout);
			assert_true(glm_engine_forward(&engine, rows, ROWS, ROWS, parts));
			for (uint32_t j = 0; j < COLUMNS_MOST; j++)
				engine.weight[j] = beyond[i];
			glm_engine_changed(&engine);
			assert_false(glm_engine_forward(&engine, rows, ROWS, ROWS, parts));
			glm_engine_zero(&engine);
			assert_true(glm_engine_forward(&engine, rows, ROWS, ROWS, parts));
			glm_engine_close(&engine);
		}
}

/* An empty row, and one of ones. */
static struct glm_share ones_make(uint32_t columns)
{
	for (uint32_t i = 0; i < 2; i++)
		rows[i] = i;
	for (uint32_t j = 0; j < columns; j++) {
		column[j] = j;
		value[j] = 1;
	}
	start[0] = start[1] = 0;
	start[2] = columns;
	return (struct glm_share){ start, column, value, columns };
}

/* One below -2^19, that is. */
static void layout__product_that_just_does_not_fit_is_told(void **state)
{
	const struct glm_engine_options options = { .classes = 1 };
	struct glm_share share = ones_make(1);

	(void)state;
	for (int layout = GLM_LAYOUT_CSR; layout <= GLM_LAYOUT_DENSE; layout++) {
		struct glm_engine engine;
		int64_t parts[2];

		assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
		assert_int_equal(glm_engine_lay(&engine, (enum glm_layout)layout, 2), 0);
		engine.weight[0] = -0x1p19f;
		assert_true(glm_engine_forward(&engine, rows, 2, 2, parts));
		engine.weight[0] = -0x1.000002p19f;
		assert_false(glm_engine_forward(&engine, rows, 2, 2, parts));
		glm_engine_close(&engine);
	}
}

/* Each weight fits, and their sum is 1.2 times 2^20. */
static void layout__weaved_row_that_is_too_much_is_told(void **state)
{
	enum { MANY = 2048 };
	const struct glm_engine_options options = { .classes = 1, .bits = 4 };
	struct glm_share share = ones_make(MANY);

	(void)state;
	for (int sign = -1; sign <= 1; sign += 2) {
		struct glm_engine engine;
		int64_t parts[2];

		assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
		assert_int_equal(glm_engine_lay(&engine, GLM_LAYOUT_WEAVE, 2), 0);
		for (uint32_t j = 0; j < MANY; j++)
			engine.weight[j] = (float)(600 * sign);
		glm_engine_changed(&engine);
		assert_true(glm_engine_forward(&engine, rows, 1, 2, parts));
		assert_false(glm_engine_forward(&engine, rows, 2, 2, parts));
		glm_engine_close(&engine);
	}
}

static void layout__auto_is_dense_above_a_third(void **state)
{
	struct glm_data data = { .rows = 300, .features = 1000, .nonzeros = 100001 };

	(void)state;
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 0, &data), GLM_LAYOUT_DENSE);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 3, &data), GLM_LAYOUT_WEAVE);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_CSR, 0, &data), GLM_LAYOUT_CSR);
	data.nonzeros = 100000;
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 0, &data), GLM_LAYOUT_CSR);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_DENSE, 0, &data), GLM_LAYOUT_DENSE);
}

static void layout__bytes_of_what_cannot_be(void **state)
{
	(void)state;
	assert_true(glm_layout_bytes(GLM_LAYOUT_CSR, 1ull << 60, 1000) == 0);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, 1000, 2000) == 8000000);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, 1ull << 60, 1000) == UINT64_MAX);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, UINT32_MAX, UINT32_MAX) == UINT64_MAX);
	assert_true(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1ull << 60, 1000) == UINT64_MAX);
	/* A byte for a value, in whole words, and two rows of bytes. */
	assert_in_range(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1000, 2048), 2048000, 2048000 + 8192);
}

static void layouts__have_names(void **state)
{
	static const char *const names[] = { "auto", "csr", "dense", "weave" };

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_string_equal(glm_layout_names[i], names[i]);
	assert_null(glm_layout_names[4]);
}

/* Dense from a third on; weaved where bits are asked for, whatever there is. */
static void layouts__that_nobody_asks_for_follow_from_the_data(void **state)
{
	struct glm_data data = { .rows = 10, .features = 9, .nonzeros = 30 };

	(void)state;
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 0, &data), GLM_LAYOUT_CSR);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_DENSE, 0, &data), GLM_LAYOUT_DENSE);
	data.nonzeros = 31;
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 0, &data), GLM_LAYOUT_DENSE);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_AUTO, 1, &data), GLM_LAYOUT_WEAVE);
	assert_int_equal(glm_layout_choose(GLM_LAYOUT_CSR, 1, &data), GLM_LAYOUT_CSR);
}

static void layouts__take_what_they_take(void **state)
{
	const uint64_t most = PTRDIFF_MAX;

	(void)state;
	assert_int_equal(glm_layout_bytes(GLM_LAYOUT_CSR, 1000, 50), 0);
	assert_int_equal(glm_layout_bytes(GLM_LAYOUT_DENSE, 1000, 50), 200000);
	assert_int_equal(glm_layout_bytes(GLM_LAYOUT_DENSE, 1000, 0), 0);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, most / 4, 1) == most / 4 * 4);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, most / 4 + 1, 1) == UINT64_MAX);
	assert_true(glm_layout_bytes(GLM_LAYOUT_DENSE, 1ull << 40, 1u << 31) == UINT64_MAX);
	/* Eight planes: of 64 columns a word each, a bit per value. */
	assert_in_range(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1000, 64), 64000, 66000);
	assert_true(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1ull << 60, 64) == UINT64_MAX);
	assert_true(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1, WEAVE_FEATURES_MAX) > 0);
	assert_int_equal(glm_layout_bytes(GLM_LAYOUT_WEAVE, 1, WEAVE_FEATURES_MAX + 1), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout__dense_has_the_bits_of_csr),
		cmocka_unit_test(layout__planes_are_what_their_values_stand_for),
		cmocka_unit_test(layout__bits_may_change_between_mini_batches),
		cmocka_unit_test(layout__planes_take_as_many_rows_as_they_are_given),
		cmocka_unit_test(layout__weights_that_do_not_fit_are_told),
		cmocka_unit_test(layout__product_that_just_does_not_fit_is_told),
		cmocka_unit_test(layout__weaved_row_that_is_too_much_is_told),
		cmocka_unit_test(layout__auto_is_dense_above_a_third),
		cmocka_unit_test(layout__bytes_of_what_cannot_be),
		cmocka_unit_test(layouts__have_names),
		cmocka_unit_test(layouts__that_nobody_asks_for_follow_from_the_data),
		cmocka_unit_test(layouts__take_what_they_take),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
