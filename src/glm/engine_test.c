/* SPDX-License-Identifier: Apache-2.0 */
/* engine_test.c - kernels against their reference and against 128-bit sums; what is beyond; steps, sparse and not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "glm/engine.h"
#include "tests/random.h"

enum { COLUMNS = 300, ROWS = 64, ROUNDS = 400, CLASSES_MOST = 13 };

struct row {
	uint32_t count;
	uint32_t column[COLUMNS];
	float value[COLUMNS];
};

/* Of all sizes between 2^-20 and 2^top, both signs. */
static float draw(int top)
{
	float x = ldexpf(1 + (float)random_below(1 << 23) / (1 << 23),
			 -20 + (int)random_below((uint32_t)top + 20));

	return random_below(2) ? -x : x;
}

static void row_draw(struct row *row, int top)
{
	row->count = 0;
	for (uint32_t column = 0; column < COLUMNS; column++)
		if (random_below(COLUMNS) < 1 + random_below(COLUMNS)) {
			row->column[row->count] = column;
			row->value[row->count++] = draw(top);
		}
	row->count = random_below(row->count + 1);
}

/* What the header promises; *is_beyond: a product is. */
static int64_t exact(const struct row *row, const float *weight, uint32_t classes, uint32_t c,
		     bool *is_beyond)
{
	__int128 sum = 0;

	for (uint32_t i = 0; i < row->count; i++) {
		double product = rint((double)row->value[i] *
				      (double)weight[row->column[i] * classes + c] * 4294967296.0);

		*is_beyond |= !(product >= -0x1p51 && product < 0x1p51);
		sum += *is_beyond ? 0 : (__int128)product;
	}
	return (int64_t)sum;
}

static void kernel_check(const struct glm_engine_kernels *kernels)
{
	static float weight[COLUMNS * CLASSES_MOST];
	static struct row row;
	uint32_t beyonds = 0;

	restart_random(NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t classes = 1 + round % CLASSES_MOST;
		int top = round % 7 == 0 ? 12 : 8; /* products up to 2^26, or 2^18 */
		int64_t parts[CLASSES_MOST] = { 0 }, alone = 0;
		uint64_t beyond = 0;
		bool is_beyond = false;

		for (uint32_t i = 0; i < COLUMNS * CLASSES_MOST; i++)
			weight[i] = draw(top);
		if (round % 50 == 49)
			weight[random_below(COLUMNS * classes)] = random_below(2) ? INFINITY : NAN;
		row_draw(&row, top);
		kernels->dots(row.column, row.value, row.count, weight, classes, parts, &beyond);
		if (classes == 1)
			alone = kernels->dot(row.column, row.value, row.count, weight, &beyond);
		for (uint32_t c = 0; c < classes; c++) {
			int64_t expected = exact(&row, weight, classes, c, &is_beyond);

			assert_true(is_beyond || parts[c] == expected);
			assert_true(is_beyond || classes > 1 || alone == expected);
		}
		assert_int_equal(beyond >> 52 != 0, is_beyond);
		beyonds += is_beyond;
	}
	assert_true(beyonds > 10 && beyonds < ROUNDS / 3);
}

static void engine__scalar_kernels_are_exact(void **state)
{
	(void)state;
	kernel_check(&glm_engine_kernels_scalar);
}

static void engine__best_kernels_are_exact(void **state)
{
	(void)state;
	printf("%s\n", glm_engine_kernels_best()->name);
#ifdef __x86_64__
	assert_ptr_equal(glm_engine_kernels_best(), __builtin_cpu_supports("avx2")
							    ? &glm_engine_kernels_avx2
							    : &glm_engine_kernels_scalar);
#endif
	kernel_check(glm_engine_kernels_best());
}

/* Halves to even, at the edge of what is beyond, and past many. */
static void engine__edges_of_products(void **state)
{
	const struct glm_engine_kernels *all[] = { &glm_engine_kernels_scalar,
						   glm_engine_kernels_best() };
	static const struct {
		float value, weight;
		int64_t part;
		bool is_beyond;
	} edges[] = {
		{ 0x1p-33f, 1, 0, false },
		{ 0x1p-33f, 3, 2, false },
		{ 0x1p-33f, -3, -2, false },
		{ 0x1p-34f, 3, 1, false },
		{ 0x1p19f, -1, -(1ll << 51), false },
		{ 0x1p19f, 1, 0, true },
		{ 0x1.fffffep18f, 1, 0x7fffff8000000, false },
		{ 0, 0x1p100f, 0, false },
		{ 1, -0x1.000002p19f, 0, true },
		{ 0x1p100f, 0x1p100f, 0, true },
	};
	const uint32_t column[8] = { 0 };

	(void)state;
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
			for (uint32_t count = 1; count <= 8; count++) {
				float value[8];
				uint64_t beyond = 0;
				int64_t part;

				for (int j = 0; j < 8; j++)
					value[j] = edges[i].value;
				part = all[k]->dot(column, value, count, &edges[i].weight, &beyond);
				assert_int_equal(beyond >> 52 != 0, edges[i].is_beyond);
				assert_true(edges[i].is_beyond || part == count * edges[i].part);
			}
}

/* ---- engines ---- */

static uint64_t start[ROWS + 1];
static uint32_t column[ROWS * COLUMNS];
static float value[ROWS * COLUMNS];
static uint32_t rows[ROWS];

static struct glm_share share_draw(uint32_t columns, uint32_t most)
{
	uint64_t at = 0;

	for (uint32_t row = 0; row < ROWS; row++) {
		rows[row] = row;
		for (uint32_t c = 0, used = 0; c < columns && used < most; c++)
			if (random_below(columns) < most) {
				column[at] = c;
				value[at++] = draw(2);
				used++;
			}
		start[row + 1] = at;
	}
	return (struct glm_share){ start, column, value, columns };
}

/* More products than one sum may have, each of the largest size: named when they are too many. */
static void engine__parts_of_2_31_are_beyond(void **state)
{
	enum { MANY = 3 * ENGINE_PRODUCTS_MAX };
	static uint32_t columns[MANY];
	static float values[MANY];
	const struct glm_engine_options options = { .classes = 1 };
	uint64_t starts[3] = { 0, 4097, 4097 + 4095 };
	struct glm_share share = { starts, columns, values, MANY };
	const uint32_t both[2] = { 0, 1 };
	struct glm_engine engine;
	int64_t parts[2];

	(void)state;
	assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		columns[i] = i;
		values[i] = 0x1p9f;
		engine.weight[i] = -0x1p10f;
	}
	starts[2] = 4097;
	assert_false(glm_engine_forward(&engine, both, 1, 2, parts)); /* 4097 * 2^19 > 2^31 */
	starts[1] = 4096;
	starts[2] = MANY;
	assert_true(glm_engine_forward(&engine, both, 2, 2, parts));
	assert_true(parts[0] == INT64_MIN);
	assert_true(parts[1] == -((int64_t)(MANY - 4096) << 51));
	glm_engine_close(&engine);
}

/* Few columns in a mini-batch or nearly all: the bits are those of the formula. */
static void engine__steps_are_the_same_sparse_and_dense(void **state)
{
	static float gradient[COLUMNS * 3], weight[COLUMNS * 3];

	(void)state;
	for (uint32_t round = 0; round < 60; round++) {
		uint32_t classes = round % 2 ? 3 : 1, count = 1 + random_below(8);
		const struct glm_engine_options options = { .classes = classes };
		struct glm_share share = share_draw(COLUMNS, round % 3 ? 2 : COLUMNS / 2);
		float scales[8 * 3], factor = (float)(0.1 / count);
		struct glm_engine engine;

		assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
		for (uint32_t i = 0; i < COLUMNS * classes; i++)
			engine.weight[i] = weight[i] = random_below(3) ? draw(3) : -0.0f;
		for (uint32_t i = 0; i < 8 * 3; i++)
			scales[i] = random_below(4) ? draw(1) : 0;
		memset(gradient, 0, sizeof(gradient));
		for (uint32_t i = 0; i < count; i++)
			for (uint64_t at = start[i]; at < start[i + 1]; at++)
				for (uint32_t c = 0; c < classes; c++)
					gradient[column[at] * classes + c] +=
						scales[i * classes + c] * value[at];
		for (uint32_t i = 0; i < COLUMNS * classes; i++)
			weight[i] -= factor * gradient[i];
		glm_engine_backward(&engine, rows, count, scales);
		glm_engine_step(&engine, 0.1, rows, count);
		assert_memory_equal(engine.weight, weight, COLUMNS * classes * sizeof(float));
		for (uint32_t i = 0; i < COLUMNS * classes; i++)
			assert_true(engine.gradient[i] == 0);
		glm_engine_close(&engine);
	}
}

/* It would clear a gradient where these rows have nothing, if it came there. */
static void engine__a_step_of_few_columns_goes_to_them_alone(void **state)
{
	const struct glm_engine_options options = { .classes = 1 };
	uint64_t starts[] = { 0, 1 };
	uint32_t columns[] = { 3 }, row = 0;
	float values[] = { 1.5f };
	struct glm_share share = { starts, columns, values, COLUMNS };
	struct glm_engine engine;

	(void)state;
	assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
	engine.gradient[3] = engine.gradient[5] = 1;
	glm_engine_step(&engine, 0.1, &row, 1);
	assert_true(engine.gradient[3] == 0 && engine.weight[3] < 0);
	assert_true(engine.gradient[5] == 1 && engine.weight[5] == 0);
	glm_engine_close(&engine);
}

static void engine__weights_that_are_no_numbers_are_told(void **state)
{
	static const struct glm_engine_options kinds[] = { { .classes = 1 },
							   { .classes = 1, .l1 = 0.1 } };
	static const float bad[] = { INFINITY, -INFINITY, NAN };
	struct glm_share share = share_draw(COLUMNS, 3);

	(void)state;
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < 3; i++) {
			struct glm_engine engine;

			assert_int_equal(glm_engine_open(&engine, &share, &kinds[k]), 0);
			engine.owed = 1;
			assert_true(glm_engine_settle(&engine));
			engine.weight[COLUMNS - 1] = bad[i];
			engine.owed = 1;
			assert_false(glm_engine_settle(&engine));
			glm_engine_close(&engine);
		}
}

/* After steps that have left a debt of L1 and a multiplier of L2 behind. */
static void engine__that_is_zeroed_is_as_it_was_opened(void **state)
{
	static const uint64_t starts[] = { 0, 2, 3 };
	static uint32_t columns[] = { 0, 2, 1 };
	static float values[] = { 1.5f, -2, 3 };
	static const uint32_t both[] = { 0, 1 };
	static const float scales[] = { 0.5f, -1 };
	const struct glm_share share = { (uint64_t *)(uintptr_t)starts, columns, values, 3 };
	const struct glm_engine_options options = {
		.classes = 1, .has_bias = true, .bias = 2, .l1 = 0.01, .l2 = 0.3
	};
	struct glm_engine engine, fresh;
	int64_t parts[2];

	(void)state;
	assert_int_equal(glm_engine_open(&engine, &share, &options), 0);
	assert_int_equal(glm_engine_open(&fresh, &share, &options), 0);
	glm_engine_pay(&engine, both, 2);
	assert_true(glm_engine_forward(&engine, both, 2, 2, parts));
	glm_engine_backward(&engine, both, 2, scales);
	glm_engine_step(&engine, 0.1, both, 2);
	glm_engine_pay(&engine, both, 1);
	glm_engine_backward(&engine, both, 2, scales);
	assert_true(engine.owed > 0 && engine.multiplier < 1 && engine.paid[0] > 0);
	assert_true(engine.weight[3] != 0 && engine.gradient[3] != 0);
	assert_true(engine.rows_read && engine.bytes_read);
	glm_engine_zero(&engine);
	assert_memory_equal(engine.weight, fresh.weight, 4 * sizeof(float));
	assert_memory_equal(engine.gradient, fresh.gradient, 4 * sizeof(float));
	assert_memory_equal(engine.paid, fresh.paid, 4 * sizeof(double));
	assert_true(engine.owed == 0 && engine.multiplier == 1);
	assert_int_equal(engine.rows_read, 0);
	assert_int_equal(engine.bytes_read, 0);
	glm_engine_close(&engine);
	glm_engine_close(&fresh);
	assert_memory_equal(&engine, &fresh, sizeof(engine));
	assert_null(engine.layout);
	glm_engine_close(&engine); /* of one that is all 0 */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine__scalar_kernels_are_exact),
		cmocka_unit_test(engine__best_kernels_are_exact),
		cmocka_unit_test(engine__edges_of_products),
		cmocka_unit_test(engine__parts_of_2_31_are_beyond),
		cmocka_unit_test(engine__steps_are_the_same_sparse_and_dense),
		cmocka_unit_test(engine__a_step_of_few_columns_goes_to_them_alone),
		cmocka_unit_test(engine__weights_that_are_no_numbers_are_told),
		cmocka_unit_test(engine__that_is_zeroed_is_as_it_was_opened),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
