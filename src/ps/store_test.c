/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/store.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = 3, STATE = 2, KEYS = 100000 };

static uint64_t key_of(uint64_t i)
{
	return i * 0x9e3779b97f4a7c15; /* each another one */
}

static struct store *open_one(uint64_t bytes_max)
{
	struct store_options options = {
		.dim = DIM,
		.state = STATE,
		.initial = { .kind = INITIAL_UNIFORM, .scale = 1, .seed = 9 },
		.bytes_max = bytes_max
	};
	struct store *store;

	assert_int_equal(store_open(&store, &options), 0);
	return store;
}

static void store__rows_are_found_again_and_never_move(void **unused)
{
	struct store *store = open_one(0);
	float *first;

	(void)unused;
	assert_int_equal(store_reserve(store, 1), 0);
	first = store_get(store, key_of(0));
	first[0] = 0;
	for (uint64_t i = 1; i < KEYS; i++) {
		float *row;

		assert_int_equal(store_reserve(store, 1), 0);
		row = store_get(store, key_of(i));
		assert_true(row[DIM] == 0 && row[DIM + STATE - 1] == 0);
		row[0] = (float)i;
		row[DIM + STATE - 1] = -(float)i;
	}
	assert_int_equal(store_rows(store), KEYS);
	assert_ptr_equal(store_get(store, key_of(0)), first);
	for (uint64_t i = 1; i < KEYS; i++) {
		const float *row = store_find(store, key_of(i));
		uint64_t key;

		assert_true(row[0] == (float)i);
		assert_true(row[DIM + STATE - 1] == -(float)i);
		assert_ptr_equal(store_row(store, i, &key), row);
		assert_int_equal(key, key_of(i));
	}
	store_close(store);
}

static void store__reading_makes_no_row(void **unused)
{
	struct store *store = open_one(0);
	float seen[DIM];

	(void)unused;
	store_read(store, 5, seen);
	assert_null(store_find(store, 5));
	assert_int_equal(store_rows(store), 0);
	assert_int_equal(store_reserve(store, 1), 0);
	assert_memory_equal(store_get(store, 5), seen, sizeof(seen));
	store_close(store);
}

static void store__bound_is_kept_and_nothing_lost_at_it(void **unused)
{
	enum { BOUND = 1 << 20 };
	struct store *store = open_one(BOUND);
	uint64_t rows = 0;

	(void)unused;
	while (!store_reserve(store, 1)) {
		store_get(store, key_of(rows))[1] = (float)(rows + 1);
		rows++;
		assert_true(store_bytes(store) <= BOUND);
	}
	assert_int_equal(store_reserve(store, 1), -ENOSPC);
	assert_int_equal(store_reserve(store, UINT64_MAX), -ENOSPC);
	assert_true(rows > BOUND / 64);
	assert_true(store_bytes_for(store, rows + 1) > BOUND);
	assert_int_equal(store_rows(store), rows);
	for (uint64_t i = 0; i < rows; i++)
		assert_true(store_find(store, key_of(i))[1] == (float)(i + 1));
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(store__rows_are_found_again_and_never_move),
		cmocka_unit_test(store__reading_makes_no_row),
		cmocka_unit_test(store__bound_is_kept_and_nothing_lost_at_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
