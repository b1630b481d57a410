/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/count.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/splitmix.h"

/* Keys that an open table likes least: neighbours, multiples of its size, the ends of the range. */
static uint64_t key_of(uint64_t i)
{
	switch (i % 4) {
	case 0:
		return i;
	case 1:
		return i << 32;
	case 2:
		return UINT64_MAX - i;
	default:
		return splitmix64(i);
	}
}

static void keys__come_as_often_as_they_were_added(void **state)
{
	enum { KEYS = 20000, TIMES_MAX = 5 };
	static uint64_t key[KEYS];
	struct count count = { 0 };
	uint64_t updates = 0;
	struct heat *heat;

	(void)state;
	for (uint64_t times = 1; times <= TIMES_MAX; times++) {
		size_t keys = 0;

		for (uint64_t i = 0; i < KEYS; i++)
			if (i % TIMES_MAX < times)
				key[keys++] = key_of(i);
		assert_int_equal(count_add(&count, key, keys), 0);
		updates += keys;
	}
	assert_int_equal(count.keys, KEYS);
	assert_int_equal(count.updates, updates);
	for (uint64_t i = 0; i < KEYS; i++)
		assert_int_equal(count_of(&count, key_of(i)), TIMES_MAX - i % TIMES_MAX);
	assert_int_equal(count_of(&count, 4 * KEYS), 0);
	heat = calloc(KEYS, sizeof(*heat));
	assert_non_null(heat);
	count_read(&count, heat);
	for (size_t i = 0; i < KEYS; i++) {
		assert_int_equal(heat[i].count, count_of(&count, heat[i].key));
		updates -= heat[i].count;
	}
	assert_int_equal(updates, 0);
	free(heat);
	count_fini(&count);
	assert_int_equal(count_of(&count, 1), 0);
}

/* Half of the cells stay empty, and three quarters do not: 64 bytes a key. */
static void cells__are_neither_too_few_nor_too_many(void **state)
{
	enum { KEYS = 20000, CELLS_FIRST = 4096 };
	struct count count = { 0 };

	(void)state;
	for (uint64_t i = 0; i < KEYS; i++) {
		const uint64_t key = key_of(i);

		assert_int_equal(count_add(&count, &key, 1), 0);
		assert_int_equal(count.keys, i + 1);
		assert_true(count.mask + 1 >= 2 * count.keys);
		assert_true(count.mask + 1 <= 4 * count.keys || count.mask + 1 == CELLS_FIRST);
	}
	count_fini(&count);
	assert_null(count.cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys__come_as_often_as_they_were_added),
		cmocka_unit_test(cells__are_neither_too_few_nor_too_many),
	};

	return cmocka_run_group_tests_name("hot-count", tests, NULL, NULL);
}
