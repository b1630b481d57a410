/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/sketch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hot/count.h"
#include "hot/zipf.h"
#include "util/rng.h"

enum { KEYS = 3000, UPDATES = 200000 };

static uint64_t stream[UPDATES];

/* Against the full count: no count is too small, none too large by more than its error, no error above N / m, and
 * no key that has more than N / m is missing. */
static void expect_bounds(uint32_t counters)
{
	const struct sketch_counter *counter;
	struct count full = { 0 };
	struct sketch *sketch;
	struct heat *heat;
	uint64_t sum = 0;
	uint32_t used;

	assert_int_equal(sketch_open(&sketch, counters), 0);
	for (uint32_t i = 0; i < UPDATES; i++) {
		sketch_add(sketch, stream[i]);
		assert_int_equal(count_add(&full, &stream[i], 1), 0);
	}
	counter = sketch_counters(sketch, &used);
	assert_int_equal(sketch_updates(sketch), UPDATES);
	assert_int_equal(used, full.keys < counters ? full.keys : counters);
	assert_true(sketch_error(sketch) <= UPDATES / counters);
	for (uint32_t i = 0; i < used; i++) {
		uint64_t truth = count_of(&full, counter[i].key);

		assert_true(counter[i].count >= truth);
		assert_true(counter[i].count - counter[i].error <= truth);
		assert_true(counter[i].error <= sketch_error(sketch));
		sum += counter[i].count;
	}
	assert_int_equal(sum, UPDATES); /* space-saving's: nothing is ever thrown away */
	heat = calloc(full.keys, sizeof(*heat));
	assert_non_null(heat);
	count_read(&full, heat);
	for (size_t i = 0; i < full.keys; i++) {
		bool is_there = false;

		for (uint32_t k = 0; k < used && !is_there; k++)
			is_there = counter[k].key == heat[i].key;
		assert_true(is_there || heat[i].count <= UPDATES / counters);
		assert_true(is_there || heat[i].count <= sketch_error(sketch));
	}
	if (full.keys <= counters)
		assert_int_equal(sketch_error(sketch), 0);
	free(heat);
	count_fini(&full);
	sketch_close(sketch);
}

static void counts__keep_their_bounds_in_a_skewed_stream(void **state)
{
	static const uint32_t counters[] = { 16, 17, 100, 1000, KEYS, 2 * KEYS };
	struct zipf zipf;

	(void)state;
	assert_int_equal(zipf_init(&zipf, 1.1, KEYS, 11), 0);
	zipf_next(&zipf, stream, UPDATES);
	zipf_fini(&zipf);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		expect_bounds(counters[i]);
}

static void counts__keep_their_bounds_where_all_keys_are_alike(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < UPDATES; i++)
		stream[i] = (uint64_t)(i % KEYS) << 40; /* in turn: none stays */
	expect_bounds(16);
	expect_bounds(500);
	expect_bounds(KEYS - 1);
	expect_bounds(KEYS);
}

static void counts__keep_their_bounds_where_the_hot_keys_change(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 5, 0);
	for (uint32_t i = 0; i < UPDATES; i++)
		stream[i] = rng_chance(&rng, 500000) ? i / 50000 : rng_below(&rng, KEYS);
	expect_bounds(64);
	expect_bounds(1024);
}

/* Half of what it knows, and no index that leads nowhere. */
static void counts__are_halved(void **state)
{
	const struct sketch_counter *counter;
	struct sketch *sketch;
	uint32_t used;

	(void)state;
	assert_int_equal(sketch_open(&sketch, 16), 0);
	for (uint64_t key = 0; key < 10; key++)
		for (uint64_t i = 0; i <= key; i++)
			sketch_add(sketch, key);
	sketch_halve(sketch);
	assert_int_equal(sketch_updates(sketch), 27);
	counter = sketch_counters(sketch, &used);
	assert_int_equal(used, 9); /* the one that came once is gone */
	for (uint32_t i = 0; i < used; i++)
		assert_int_equal(counter[i].count, (counter[i].key + 1) / 2);
	for (uint64_t key = 0; key < 10; key++)
		sketch_add(sketch, key);
	counter = sketch_counters(sketch, &used);
	assert_int_equal(used, 10);
	for (uint32_t i = 0; i < used; i++)
		assert_int_equal(counter[i].count, (counter[i].key + 1) / 2 + 1);
	sketch_close(sketch);
}

/* Who has taken another's place knows half as well how often it came: half of what it may be wrong by is forgotten. */
static void errors__are_halved(void **state)
{
	const struct sketch_counter *counter;
	struct sketch *sketch;
	uint32_t used, taken = 0;

	(void)state;
	assert_int_equal(sketch_open(&sketch, SKETCH_COUNTERS_MIN), 0);
	for (uint32_t i = 0; i < 20 * SKETCH_COUNTERS_MIN; i++)
		sketch_add(sketch, i % SKETCH_COUNTERS_MIN);
	sketch_add(sketch, 100); /* its count is 21, of which 20 may be another's */
	sketch_halve(sketch);
	counter = sketch_counters(sketch, &used);
	assert_int_equal(used, SKETCH_COUNTERS_MIN);
	for (uint32_t i = 0; i < used; i++) {
		assert_int_equal(counter[i].count, 10);
		assert_int_equal(counter[i].error, counter[i].key == 100 ? 10 : 0);
		taken += counter[i].key == 100;
	}
	assert_int_equal(taken, 1);
	sketch_close(sketch);
}

/* Wherever in the index a key was that halving has forgotten: it is counted again. */
static void keys__that_are_forgotten_are_counted_when_they_come_again(void **state)
{
	const struct sketch_counter *counter;
	struct sketch *sketch;
	uint32_t used;

	(void)state;
	assert_int_equal(sketch_open(&sketch, SKETCH_COUNTERS_MIN), 0);
	for (uint64_t key = 0; key < 1000; key++) {
		sketch_add(sketch, key);
		sketch_halve(sketch);
		sketch_add(sketch, key);
		counter = sketch_counters(sketch, &used);
		assert_int_equal(used, 1);
		assert_int_equal(counter[0].key, key);
		assert_int_equal(counter[0].count, 1);
		sketch_halve(sketch);
	}
	sketch_close(sketch);
}

/* Wherever its hand was: who has the least goes first, before and after. A counter below it would stay for ever. */
static void counts__are_not_below_the_least_when_halved(void **state)
{
	enum { COUNTERS = 16, HALVED_EACH = 1003 };
	const struct sketch_counter *counter;
	struct sketch *sketch;
	uint32_t used;

	(void)state;
	assert_int_equal(sketch_open(&sketch, COUNTERS), 0);
	for (uint32_t i = 1; i <= UPDATES; i++) {
		sketch_add(sketch, i % KEYS);
		if (i % HALVED_EACH == 0)
			sketch_halve(sketch);
		counter = sketch_counters(sketch, &used);
		for (uint32_t k = 0; used == COUNTERS && k < used; k++)
			if (counter[k].count < sketch_error(sketch))
				fail_msg("update %u: %llu is below %llu", i,
					 (unsigned long long)counter[k].count,
					 (unsigned long long)sketch_error(sketch));
	}
	sketch_close(sketch);
}

/* A key that is thrown out must not hide one behind it in the index. */
static void keys__are_found_after_others_were_thrown_out(void **state)
{
	const struct sketch_counter *counter;
	struct sketch *sketch;
	uint32_t used, seen = 0;

	(void)state;
	assert_int_equal(sketch_open(&sketch, 64), 0);
	for (uint64_t round = 0; round < 2000; round++) {
		for (uint64_t hot = 0; hot < 32; hot++)
			sketch_add(sketch, hot * 0x100000000);
		sketch_add(sketch, 1000000 + round);
		sketch_add(sketch, 2000000 + round);
	}
	counter = sketch_counters(sketch, &used);
	for (uint32_t i = 0; i < used; i++) {
		if (counter[i].key >= 32 * 0x100000000 || counter[i].key % 0x100000000)
			continue;
		assert_int_equal(counter[i].count, 2000);
		assert_int_equal(counter[i].error, 0);
		seen++;
	}
	assert_int_equal(seen, 32);
	sketch_close(sketch);
}

static void bytes__of_the_most_counters_are_as_the_header_says(void **state)
{
	(void)state;
	assert_int_equal(sketch_bytes(SKETCH_COUNTERS_MAX) >> 20, 8 << 10); /* of MiB */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts__keep_their_bounds_in_a_skewed_stream),
		cmocka_unit_test(counts__keep_their_bounds_where_all_keys_are_alike),
		cmocka_unit_test(counts__keep_their_bounds_where_the_hot_keys_change),
		cmocka_unit_test(counts__are_halved),
		cmocka_unit_test(errors__are_halved),
		cmocka_unit_test(keys__that_are_forgotten_are_counted_when_they_come_again),
		cmocka_unit_test(counts__are_not_below_the_least_when_halved),
		cmocka_unit_test(keys__are_found_after_others_were_thrown_out),
		cmocka_unit_test(bytes__of_the_most_counters_are_as_the_header_says),
	};

	return cmocka_run_group_tests_name("hot-sketch", tests, NULL, NULL);
}
