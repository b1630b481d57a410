/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of a step: the same to the bit, whoever came first, and over a checkpoint. */
#include "ps/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "util/rng.h"

enum { DIM = 3, KEYS = 700, PUSHES = 4000, PIECES = 8 };

static const float UNIT = 0.1f; /* no power of two */

struct push {
	uint64_t key;
	bool is_hot;
	int64_t sum[DIM];
	float value[DIM];
};
static struct push push[PUSHES];

/* Values of very different size: in float32, or in double, their order would show. */
static void pushes_draw(void)
{
	struct rng rng;

	rng_init(&rng, 17, 0);
	for (uint32_t i = 0; i < PUSHES; i++) {
		push[i].key = rng_below(&rng, KEYS) * 0x123456789abull;
		push[i].is_hot = push[i].key % 3 == 0;
		for (uint32_t k = 0; k < DIM; k++) {
			int power = (int)rng_below(&rng, 70) - 40;
			float one = ldexpf((float)rng_below(&rng, 1 << 24) - 0x1p23f, power - 23);

			push[i].value[k] = one;
			push[i].sum[k] = (int64_t)rng_next(&rng) >> rng_below(&rng, 60);
		}
	}
}

static void add(struct stage *stage, const struct push *one)
{
	assert_int_equal(stage_reserve(stage, 1), 0);
	if (one->is_hot)
		stage_add_sums(stage, one->key, one->sum);
	else
		stage_add_floats(stage, one->key, one->value);
}

static struct stage *stage_new(void)
{
	struct stage *stage;

	assert_int_equal(stage_open(&stage, DIM, UNIT), 0);
	return stage;
}

/* In the order of `order`; NULL: as they are. */
static struct stage *stage_of(const uint32_t *order)
{
	struct stage *stage = stage_new();

	for (uint32_t i = 0; i < PUSHES; i++)
		add(stage, &push[order ? order[i] : i]);
	return stage;
}

struct row {
	uint64_t key;
	float gradient[DIM];
};

static int by_key(const void *a, const void *b)
{
	const struct row *one = a, *other = b;

	return one->key < other->key ? -1 : one->key > other->key;
}

static uint64_t rows_of(const struct stage *stage, struct row *row)
{
	uint64_t count = stage_count(stage);

	memset(row, 0, KEYS * sizeof(*row));
	assert_true(count <= KEYS);
	for (uint64_t i = 0; i < count; i++)
		row[i].key = stage_gradient(stage, i, row[i].gradient);
	qsort(row, count, sizeof(*row), by_key);
	return count;
}

static void expect_same(const struct stage *a, const struct stage *b)
{
	static struct row one[KEYS], other[KEYS];

	assert_int_equal(rows_of(a, one), rows_of(b, other));
	assert_memory_equal(one, other, sizeof(one));
}

static void stage__order_of_arrival_is_no_matter(void **state)
{
	static uint32_t order[PUSHES];
	struct stage *first = stage_of(NULL), *then;
	struct rng rng;

	(void)state;
	rng_init(&rng, 3, 1);
	for (uint32_t i = 0; i < PUSHES; i++)
		order[i] = i;
	for (uint32_t turn = 0; turn < 5; turn++) {
		for (uint32_t i = PUSHES; i > 1; i--) {
			uint32_t at = rng_below(&rng, i), kept = order[i - 1];

			order[i - 1] = order[at];
			order[at] = kept;
		}
		then = stage_of(order);
		expect_same(first, then);
		stage_close(then);
	}
	stage_close(first);
}

/* Added up by hand, in long double: 64 bits, and these pushes need less. */
static void stage__sums_are_the_sums(void **state)
{
	struct stage *stage = stage_new();
	const float value[4][DIM] = { { 1, -2, 0x1p-60f },
				      { 0x1p40f, 3, 0x1p-60f },
				      { 0.25f, -1.5f, -0x1p-59f },
				      { -0x1p40f, 1, 0x1p-30f } };
	const int64_t sum[2][DIM] = { { 7, -1, INT64_MAX }, { -9, 1, INT64_MAX } };
	float gradient[DIM];

	(void)state;
	assert_int_equal(stage_reserve(stage, 2), 0);
	for (int i = 0; i < 4; i++)
		stage_add_floats(stage, 5, value[i]);
	stage_add_sums(stage, 6, sum[0]);
	stage_add_sums(stage, 6, sum[1]);
	assert_int_equal(stage_count(stage), 2);
	assert_true(stage_gradient(stage, 0, gradient) == 5);
	assert_true(gradient[0] == 1.25f && gradient[1] == 0.5f && gradient[2] == 0x1p-30f);
	assert_true(stage_gradient(stage, 1, gradient) == 6);
	assert_true(gradient[0] == (float)(-2.0 * (double)UNIT) && gradient[1] == 0);
	assert_true(gradient[2] == (float)(0x1p64 * (double)UNIT));
	stage_clear(stage);
	assert_int_equal(stage_count(stage), 0);
	stage_add_floats(stage, 6, value[0]);
	assert_true(stage_gradient(stage, 0, gradient) == 6);
	assert_true(gradient[1] == -2);
	stage_add_sums(stage, 6, sum[0]); /* a map has made it hot meanwhile */
	assert_true(stage_gradient(stage, 0, gradient) == 6);
	assert_true(gradient[0] == (float)(1 + 7 * (double)UNIT));
	assert_true(gradient[1] == (float)(-2 - (double)UNIT));
	stage_close(stage);
}

static void stage__what_was_saved_is_loaded(void **state)
{
	struct stage *first = stage_of(NULL), *then = stage_new();
	struct bytes body = { 0 };
	uint64_t at = 0;

	(void)state;
	while (at < stage_count(first)) {
		body.count = 0;
		at += stage_save(first, at, &body);
		assert_null(stage_load(then, body.at, (uint32_t)body.count));
	}
	expect_same(first, then);
	/* Its last record again: keys twice; or cut off. */
	assert_non_null(stage_load(then, body.at, (uint32_t)body.count));
	stage_clear(then);
	assert_non_null(stage_load(then, body.at, (uint32_t)body.count - 1));
	assert_non_null(stage_load(then, body.at, 7));
	body.at[8 + 8] = 2; /* neither hot nor cold */
	assert_non_null(stage_load(then, body.at, (uint32_t)body.count));
	bytes_fini(&body);
	stage_close(first);
	stage_close(then);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stage__order_of_arrival_is_no_matter),
		cmocka_unit_test(stage__sums_are_the_sums),
		cmocka_unit_test(stage__what_was_saved_is_loaded),
	};

	pushes_draw();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
