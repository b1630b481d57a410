/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs of a push are hot: each is in the push or in a batch, never in both, whatever maps come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/pack_sparse.h"
#include "tests/random.h"

enum { KEYS = 40, DIM = 2, MAPS = 6 };

static uint64_t map_key[KEYS], key[KEYS], cold_key[KEYS];
static uint32_t map_rank[KEYS];
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

static void a_map_says_which_rank_a_key_has(void **state)
{
	static const uint64_t keys[] = { 0, 7, 1ull << 40, UINT64_MAX };
	static const uint32_t ranks[] = { 3, 0, 2, 1 };
	struct sparse_map map = { keys, ranks, 4 };
	uint32_t rank = 99;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(sparse_map_has(&map, keys[i], &rank));
		assert_int_equal(rank, ranks[i]);
	}
	rank = 99;
	assert_false(sparse_map_has(&map, 6, &rank));
	assert_false(sparse_map_has(&map, 8, &rank));
	assert_false(sparse_map_has(&map, UINT64_MAX - 1, &rank));
	map.count = 0;
	assert_false(sparse_map_has(&map, 0, &rank));
	assert_int_equal(rank, 99);
}

static void a_push_has_ranks_and_values_little_endian(void **state)
{
	static const uint64_t keys[] = { 5, 9 };
	static const uint32_t ranks[] = { 0x01020304, 7 };
	static const uint8_t wanted[] = {
		7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x02, 0x01, 0,    0,
		4, 3, 2, 1, 1,    0,    0,    0x80, 0xfe, 0xff, 0xff, 0xff
	};
	struct sparse_map map = { keys, ranks, 2 };
	struct sparse_pairs pairs = { key, value, 2 };
	uint8_t at[sizeof(wanted)];

	(void)state;
	key[0] = 9;
	key[1] = 5;
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
	static const uint32_t ranks[] = { 0, 1 };
	struct sparse_map all = { both, ranks, 2 }, first = { both, ranks, 1 };
	struct sparse_pairs pairs = { key, value, 2 }, cold = { cold_key, cold_value, 0 };

	(void)state;
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

/* Each key with odds of its own; ranks in any order. Which keys, as bits. */
static uint64_t map_draw(struct sparse_map *map)
{
	uint64_t has = 0;

	*map = (struct sparse_map){ map_key, map_rank, 0 };
	/* key_of rises over 0..9, 20..39, 10..19. */
	for (uint32_t i = 0; i < KEYS; i++) {
		uint32_t which = i < 10 ? i : i < 30 ? i + 10 : i - 20;

		if (!random_below(3))
			continue;
		has |= 1ull << which;
		map_key[map->count] = key_of(which);
		map_rank[map->count++] = which * 7 % KEYS;
	}
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
		cmocka_unit_test(a_push_has_ranks_and_values_little_endian),
		cmocka_unit_test(what_has_gone_cold_stays_cold),
		cmocka_unit_test_setup(every_pair_is_in_one_place_whatever_maps_come,
				       restart_random),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
