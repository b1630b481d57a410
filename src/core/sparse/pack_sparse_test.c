/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs of a push are hot: each is in the push or in a batch, never in both, whatever maps come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/pack_sparse.h"
#include "tests/random.h"

enum { KEYS = 40, DIM = 2, MAPS = 6, MANY = 0x010204, PLACES = 1 << 19 };

static uint64_t map_key[MANY], key[KEYS], cold_key[KEYS];
static uint32_t map_place[PLACES];
static int32_t value[KEYS * DIM], cold_value[KEYS * DIM];

/* The same bits at the ends of 64 bits as in the middle. */
static uint64_t key_of(uint32_t i)
{
	return i < 10 ? i : i < 20 ? UINT64_MAX - KEYS + i : (uint64_t)i << 31;
}

static int32_t value_of(uint64_t of, uint32_t k)
{
	return (int32_t)(of * 2654435761u + k * 97u);
}

static void map_init(struct sparse_map *map, const uint64_t *keys, uint32_t count)
{
	assert_true(sparse_map_places(count) <= PLACES);
	assert_true(sparse_map_init(map, keys, count, map_place));
}

static void a_map_says_which_rank_a_key_has(void **state)
{
	static const uint64_t keys[] = { 7, UINT64_MAX, 1ull << 40, 0 };
	struct sparse_map map = { 0 };
	uint32_t rank = 99;

	(void)state;
	assert_false(sparse_map_has(&map, 0, &rank));
	map_init(&map, keys, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(sparse_map_has(&map, keys[i], &rank));
		assert_int_equal(rank, i);
	}
	rank = 99;
	assert_false(sparse_map_has(&map, 6, &rank));
	assert_false(sparse_map_has(&map, 8, &rank));
	assert_false(sparse_map_has(&map, UINT64_MAX - 1, &rank));
	assert_int_equal(rank, 99);
}

/* Keys one behind the other, and such as differ in few bits, low or high. */
static void large_maps_find_all_their_keys_and_no_others(void **state)
{
	static const uint64_t steps[] = { 1, 1ull << 20, 1ull << 32, 1ull << 46,
					  0x9e3779b97f4a7c15 };
	uint32_t rank = 0;

	(void)state;
	for (uint32_t k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		struct sparse_map map;

		for (uint32_t i = 0; i < MANY; i++)
			map_key[i] = (2 * i + 1) * steps[k];
		map_init(&map, map_key, MANY);
		for (uint32_t i = 0; i < MANY; i++) {
			assert_true(sparse_map_has(&map, (2 * i + 1) * steps[k], &rank));
			assert_int_equal(rank, i);
		}
		for (uint32_t i = 0; i < MANY; i++)
			assert_false(sparse_map_has(&map, 2 * i * steps[k], &rank));
	}
}

static void a_key_that_comes_twice_is_no_map(void **state)
{
	static const uint64_t keys[] = { 3, 5, 3 };
	struct sparse_map map;

	(void)state;
	assert_false(sparse_map_init(&map, keys, 3, map_place));
}

static void a_push_has_ranks_and_values_little_endian(void **state)
{
	static const uint8_t wanted[] = {
		7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x02, 0x01, 0,    0,
		3, 2, 1, 0, 1,    0,    0,    0x80, 0xfe, 0xff, 0xff, 0xff
	};
	struct sparse_map map;
	struct sparse_pairs pairs = { key, value, 2 };
	uint8_t at[sizeof(wanted)];

	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		map_key[i] = i + 100;
	key[0] = map_key[7];
	key[1] = map_key[0x010203];
	map_init(&map, map_key, MANY);
	value[0] = -1;
	value[1] = 0x102;
	value[2] = INT32_MIN + 1;
	value[3] = -2;
	assert_int_equal(sparse_pack(&map, 2, &pairs, at), sizeof(wanted));
	assert_memory_equal(at, wanted, sizeof(wanted));
}

/* A key that was hot, is not, and is again: its pair has left the push for good. */
static void what_has_gone_cold_stays_cold(void **state)
{
	static const uint64_t both[] = { 5, 9 };
	uint32_t place[8];
	struct sparse_map all, first;
	struct sparse_pairs pairs = { key, value, 2 }, cold = { cold_key, cold_value, 0 };

	(void)state;
	map_init(&all, both, 2);
	assert_true(sparse_map_places(1) <= sizeof(place) / sizeof(*place));
	assert_true(sparse_map_init(&first, both, 1, place));
	key[0] = 9;
	key[1] = 5;
	value[0] = -3;
	value[1] = 4;
	assert_int_equal(sparse_split(&all, 1, &pairs, &cold), 0);
	assert_int_equal(sparse_split(&first, 1, &pairs, &cold), 1);
	assert_int_equal(pairs.count, 1);
	assert_int_equal(key[0], 5);
	assert_int_equal(value[0], 4);
	assert_int_equal(sparse_split(&all, 1, &pairs, &cold), 0);
	assert_int_equal(sparse_split(&first, 1, &pairs, &cold), 0);
	assert_int_equal(pairs.count, 1);
	assert_int_equal(cold.count, 1);
	assert_int_equal(cold_key[0], 9);
	assert_int_equal(cold_value[0], -3);
}

/* Each key with odds of its own; which keys, as bits. */
static uint64_t map_draw(struct sparse_map *map)
{
	uint64_t has = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < KEYS; i++) {
		uint32_t which = i * 7 % KEYS;

		if (!random_below(3))
			continue;
		has |= 1ull << which;
		map_key[count++] = key_of(which);
	}
	map_init(map, map_key, count);
	return has;
}

static void every_pair_is_in_one_place_whatever_maps_come(void **state)
{
	struct sparse_pairs pairs = { key, value, 0 }, cold = { cold_key, cold_value, 0 };
	uint64_t hot = 0;

	(void)state;
	for (uint32_t i = 0; i < KEYS; i++) {
		if (!random_below(2))
			continue;
		hot |= 1ull << i;
		key[pairs.count] = key_of(i);
		for (uint32_t k = 0; k < DIM; k++)
			value[pairs.count * DIM + k] = value_of(key_of(i), k);
		pairs.count++;
	}
	for (uint32_t n = 0; n < MAPS; n++) {
		struct sparse_map map;
		uint64_t has = map_draw(&map);
		uint32_t place = 0, gone = (uint32_t)__builtin_popcountll(hot & ~has);

		assert_int_equal(sparse_split(&map, DIM, &pairs, &cold), gone);
		hot &= has;
		for (uint32_t i = 0; i < KEYS; i++) {
			if (!(hot >> i & 1))
				continue;
			assert_int_equal(key[place], key_of(i));
			for (uint32_t k = 0; k < DIM; k++)
				assert_int_equal(value[place * DIM + k], value_of(key_of(i), k));
			place++;
		}
		assert_int_equal(pairs.count, place);
	}
	for (uint32_t i = 0; i < cold.count; i++) {
		for (uint32_t k = 0; k < DIM; k++)
			assert_int_equal(cold_value[i * DIM + k], value_of(cold_key[i], k));
		for (uint32_t other = 0; other < i; other++)
			assert_true(cold_key[other] != cold_key[i]);
		for (uint32_t other = 0; other < pairs.count; other++)
			assert_true(key[other] != cold_key[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_map_says_which_rank_a_key_has),
		cmocka_unit_test(large_maps_find_all_their_keys_and_no_others),
		cmocka_unit_test(a_key_that_comes_twice_is_no_map),
		cmocka_unit_test(a_push_has_ranks_and_values_little_endian),
		cmocka_unit_test(what_has_gone_cold_stays_cold),
		cmocka_unit_test_setup(every_pair_is_in_one_place_whatever_maps_come,
				       restart_random),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
