/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/shared/map.h"
#include "tests/random.h"

enum { MAPS = 400, SAMPLES_PER_MAP = 500 };
static const uint64_t chunk_end = (uint64_t)1 << 40;

static uint64_t random_below64(uint64_t end)
{
	return rng_between(&rng, 0, end - 1);
}

/* Small and large numbers alike: uniform ones would hardly ever be below 2^32. */
static uint64_t random_chunk(void)
{
	return random_below64(chunk_end) >> random_below64(40);
}

static void random_map(struct map *map)
{
	uint32_t run = 1 + (uint32_t)random_below64(MAP_RUN_MAX);
	uint32_t slots_min = MAP_EXPRESS_SLOTS_MIN + run;
	uint32_t slots = slots_min + (uint32_t)random_below64(MAP_SLOTS_MAX - slots_min + 1);

	if (random_below64(2))
		slots = slots_min + (slots - slots_min) % 64;
	assert_true(map_init(map, 1 + (uint32_t)random_below64(MAP_SHARDS_MAX), slots, run));
}

typedef void check_fn(const struct map *map, enum map_stream stream, uint64_t chunk);

static void for_random_chunks(check_fn *check)
{
	for (int i = 0; i < MAPS; i++) {
		struct map map;
		random_map(&map);
		for (int j = 0; j < SAMPLES_PER_MAP; j++) {
			check(&map, MAP_EXPRESS, random_chunk());
			check(&map, MAP_BULK, random_chunk());
		}
		check(&map, MAP_BULK, 0);
		check(&map, MAP_BULK, chunk_end - 1);
		check(&map, MAP_EXPRESS, UINT64_MAX - 1); /* a communicator that never ends */
	}
}

static void map__known_places(void **state)
{
	/* clang-format off */
	static const struct {
		uint32_t shards, slots, run;
		enum map_stream stream;
		uint64_t chunk;
		uint32_t shard, slot;
		uint64_t k;
	} known[] = { /* by hand: of 64 slots express has 0..7, bulk 8..63: 14 runs of 4 */
		{ 1, 64, 4, MAP_EXPRESS,          0, 0,  0,   0 },
		{ 1, 64, 4, MAP_EXPRESS,          9, 0,  1,   9 },
		{ 1, 64, 4, MAP_BULK,             0, 0,  8,   0 },
		{ 1, 64, 4, MAP_BULK,            55, 0, 63,  55 },
		{ 1, 64, 4, MAP_BULK,            56, 0,  8,  56 },
		{ 3, 64, 4, MAP_EXPRESS,          5, 2,  1,   1 },
		{ 3, 64, 4, MAP_BULK,             3, 0, 11,   3 },
		{ 3, 64, 4, MAP_BULK,             4, 1,  8,   0 },
		{ 3, 64, 4, MAP_BULK,            13, 0, 13,   5 },
		{ 3, 64, 4, MAP_BULK,           170, 0, 8 + 2, 58 },
		{ 1,  5, 1, MAP_BULK,          1000, 0,  4, 1000 },
		{ 2, 44, 40, MAP_BULK, 0x10000000000, 0, 4 + 16, 549755813896 },
	};
	/* clang-format on */
	(void)state;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct map map;
		struct map_place place;
		assert_true(map_init(&map, known[i].shards, known[i].slots, known[i].run));
		map_place(&map, known[i].stream, known[i].chunk, &place);
		assert_int_equal(place.shard, known[i].shard);
		assert_int_equal(place.k, known[i].k);
		assert_int_equal(place.slot, known[i].slot);
	}
}

static void map__init_gives_express_an_eighth_and_bulk_whole_runs(void **state)
{
	(void)state;
	for (uint32_t run = 1; run <= MAP_RUN_MAX; run++) {
		for (uint32_t slots = MAP_EXPRESS_SLOTS_MIN + run; slots <= 2048; slots++) {
			struct map map;
			assert_true(map_init(&map, 1, slots, run));
			uint32_t eighth = slots < 32 ? 4 : slots / 8;
			uint32_t left = slots - run; /* one run of bulk goes first */
			assert_int_equal(map.pool[MAP_EXPRESS], eighth < left ? eighth : left);
			assert_true(map.pool[MAP_EXPRESS] >= MAP_EXPRESS_SLOTS_MIN);
			assert_int_equal(map.pool[MAP_BULK] % run, 0);
			assert_true(map.pool[MAP_BULK] >= run);
			uint32_t used = map.pool[MAP_EXPRESS] + map.pool[MAP_BULK];
			assert_true(used <= slots);
			assert_true(slots - used < run);
			assert_int_equal(map.run[MAP_EXPRESS], 1);
			assert_int_equal(map.run[MAP_BULK], run);
		}
	}
}

static void map__init_refuses_what_cannot_be_divided(void **state)
{
	struct map map, untouched;
	(void)state;

	memset(&map, 0x5a, sizeof(map));
	untouched = map;
	assert_false(map_init(&map, 0, 64, 4));
	assert_false(map_init(&map, MAP_SHARDS_MAX + 1, 64, 4));
	assert_false(map_init(&map, 1, 64, 0));
	assert_false(map_init(&map, 1, 256, MAP_RUN_MAX + 1));
	assert_false(map_init(&map, 1, 0, 1));
	assert_false(map_init(&map, 1, 4, 1));
	assert_false(map_init(&map, 1, 43, 40));
	assert_false(map_init(&map, 1, MAP_SLOTS_MAX + 1, 40));
	assert_false(map_init(&map, 1, UINT32_MAX, 40));
	assert_memory_equal(&map, &untouched, sizeof(map));

	assert_true(map_init(&map, MAP_SHARDS_MAX, 44, 40));
	assert_true(map_init(&map, 1, MAP_SLOTS_MAX, MAP_RUN_MAX));
	assert_true(map_init(&map, 1, 5, 1));
}

/* R-MAP-3, with numbers so wide that nothing wraps. */
static void check_formula(const struct map *map, enum map_stream stream, uint64_t chunk)
{
	unsigned __int128 c = chunk, run = stream == MAP_BULK ? map->run[MAP_BULK] : 1;
	unsigned __int128 base = stream == MAP_BULK ? map->pool[MAP_EXPRESS] : 0;
	unsigned __int128 g = c / run;
	unsigned __int128 k = (g / map->shards) * run + c % run;
	struct map_place place;

	map_place(map, stream, chunk, &place);
	assert_true(place.shard == g % map->shards);
	assert_true(place.k == k);
	assert_true(place.slot == base + k % map->pool[stream]);
}

static void map__place_is_the_formula(void **state)
{
	(void)state;
	for_random_chunks(check_formula);
}

static void check_place_then_chunk(const struct map *map, enum map_stream stream, uint64_t chunk)
{
	struct map_place place;

	map_place(map, stream, chunk, &place);
	assert_true(map_chunk(map, stream, place.shard, place.k) == chunk);
}

static void map__chunk_undoes_place(void **state)
{
	(void)state;
	for_random_chunks(check_place_then_chunk);
}

static void map__place_undoes_chunk(void **state)
{
	(void)state;
	for (int i = 0; i < MAPS; i++) {
		struct map map;
		random_map(&map);
		for (int j = 0; j < SAMPLES_PER_MAP; j++) {
			enum map_stream stream = random_below64(2) ? MAP_BULK : MAP_EXPRESS;
			uint32_t shard = (uint32_t)random_below64(map.shards);
			uint64_t k = random_chunk();
			struct map_place place;
			map_place(&map, stream, map_chunk(&map, stream, shard, k), &place);
			assert_int_equal(place.shard, shard);
			assert_true(place.k == k);
		}
	}
}

/* The first chunks of every pair are counted without a gap: with the inverse above, a bijection. */
static void map__pairs_number_their_chunks_without_a_gap(void **state)
{
	(void)state;
	for (int i = 0; i < MAPS; i++) {
		struct map map;
		uint64_t next[MAP_SHARDS_MAX] = { 0 };
		random_map(&map);
		enum map_stream stream = random_below64(2) ? MAP_BULK : MAP_EXPRESS;
		for (uint64_t c = 0; c < 10000; c++) {
			struct map_place place;
			map_place(&map, stream, c, &place);
			assert_true(place.shard < map.shards);
			assert_true(place.k == next[place.shard]);
			next[place.shard]++;
		}
	}
}

static void check_run_stays_together(const struct map *map, enum map_stream stream, uint64_t chunk)
{
	uint32_t run = map->run[stream];
	uint64_t first = chunk - chunk % run;
	struct map_place head, place;

	map_place(map, stream, first, &head);
	for (uint32_t i = 1; i < run; i++) {
		map_place(map, stream, first + i, &place);
		assert_int_equal(place.shard, head.shard);
		assert_int_equal(place.slot, head.slot + i);
		assert_true(place.k == head.k + i);
	}
}

static void map__run_stays_in_one_shard_with_consecutive_slots(void **state)
{
	(void)state;
	for_random_chunks(check_run_stays_together);
}

static void check_stays_in_pool(const struct map *map, enum map_stream stream, uint64_t chunk)
{
	struct map_place place;

	map_place(map, stream, chunk, &place);
	if (stream == MAP_EXPRESS) {
		assert_true(place.slot < map->pool[MAP_EXPRESS]);
	} else {
		assert_true(place.slot >= map->pool[MAP_EXPRESS]);
		assert_true(place.slot < map->pool[MAP_EXPRESS] + map->pool[MAP_BULK]);
	}
}

static void map__pools_do_not_overlap(void **state)
{
	(void)state;
	for_random_chunks(check_stays_in_pool);
}

static void map__slot_comes_round_after_exactly_one_pool(void **state)
{
	(void)state;
	for (int i = 0; i < MAPS; i++) {
		struct map map;
		random_map(&map);
		enum map_stream stream = random_below64(2) ? MAP_BULK : MAP_EXPRESS;
		uint32_t shard = (uint32_t)random_below64(map.shards);
		uint64_t k = random_chunk();
		uint32_t pool = map.pool[stream];
		struct map_place first, place;
		map_place(&map, stream, map_chunk(&map, stream, shard, k), &first);
		for (uint32_t j = 1; j < pool; j++) {
			map_place(&map, stream, map_chunk(&map, stream, shard, k + j), &place);
			assert_int_not_equal(place.slot, first.slot);
		}
		map_place(&map, stream, map_chunk(&map, stream, shard, k + pool), &place);
		assert_int_equal(place.slot, first.slot);
	}
}

static void map__chunks_cover_the_operation(void **state)
{
	(void)state;
	assert_int_equal(map_chunks(1, 360), 1);
	assert_int_equal(map_chunks(359, 360), 1);
	assert_int_equal(map_chunks(360, 360), 1);
	assert_int_equal(map_chunks(361, 360), 2);
	assert_int_equal(map_chunks(25000000, 360), 69445);
	assert_true(map_chunks(UINT64_MAX, 4) == (uint64_t)1 << 62);

	for (int i = 0; i < 2000; i++) {
		uint32_t lanes = 4 * (1 + (uint32_t)random_below64(4092));
		uint64_t count = 1 + random_chunk();
		uint64_t chunks = map_chunks(count, lanes);
		uint32_t last = map_chunk_elements(count, lanes, chunks - 1);
		assert_true(last >= 1);
		assert_true(last <= lanes);
		assert_true((chunks - 1) * lanes + last == count);
		if (chunks > 1)
			assert_int_equal(map_chunk_elements(count, lanes,
							    random_below64(chunks - 1)),
					 lanes);
	}
}

static void map__shapes_fill_packets_as_far_as_they_can(void **state)
{
	static const struct map_shape one = { 1, 1 }, half = { 2, 1 }, wide = { 1, 3 };

	(void)state;
	assert_int_equal(map_full(one, 360), 360);
	assert_int_equal(map_full(half, 360), 720);
	assert_int_equal(map_full(wide, 360), 120);
	assert_int_equal(map_full(wide, 364), 121); /* and a lane of padding */
	assert_int_equal(map_full(wide, 2), 0);
	assert_int_equal(map_full((struct map_shape){ 255, 1 }, 16368), 255 * 16368);
	assert_int_equal(map_lanes(one, 7), 7);
	assert_int_equal(map_lanes(half, 7), 4);
	assert_int_equal(map_lanes(half, 8), 4);
	assert_int_equal(map_lanes(wide, 7), 21);
	assert_int_equal(map_lanes(wide, 0), 0);
}

static void map__empty_operation_is_one_chunk_of_no_lanes(void **state)
{
	(void)state;
	assert_int_equal(map_chunks(0, 360), 1);
	assert_int_equal(map_chunk_elements(0, 360, 0), 0);
}

static uint64_t fnv1a_64(const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < count; i++) {
		hash ^= at[i];
		hash *= 1099511628211u;
	}
	return hash;
}

/* The tests' own FNV-1a-64 gives the numbers of its authors' page, so it may judge map's. */
static void map__fnv_of_the_test_is_the_published_one(void **state)
{
	(void)state;
	assert_true(fnv1a_64("", 0) == 0xcbf29ce484222325);
	assert_true(fnv1a_64("a", 1) == 0xaf63dc4c8601ec8c);
	assert_true(fnv1a_64("foobar", 6) == 0x85944171f73967e8);
	assert_true(fnv1a_64("chongo was here!\n", 17) == 0x46810940eff5f915);
}

static void map__descriptor_hash_is_fnv_of_its_bytes(void **state)
{
	/* clang-format off */
	static const uint8_t bytes[] = {
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* number */
		0x04, 0x03, 0x02, 0x01,                         /* kind */
		0xd4, 0xd3, 0xd2, 0xd1,                         /* type */
		0xf4, 0xf3, 0xf2, 0xf1,                         /* op */
		0xc8, 0xc7, 0xc6, 0xc5, 0xc4, 0xc3, 0xc2, 0xc1, /* count */
		0xe4, 0xe3, 0xe2, 0xe1,                         /* root */
		'g', 'r', 'a', 'd', 0xc3, 0xa9,
	};
	/* clang-format on */
	struct map_descriptor descriptor = {
		.number = 0x1122334455667788,
		.kind = 0x01020304,
		.type = 0xd1d2d3d4,
		.op = 0xf1f2f3f4,
		.root = 0xe1e2e3e4,
		.count = 0xc1c2c3c4c5c6c7c8,
		.name = "grad\xc3\xa9",
	};
	(void)state;

	assert_true(map_descriptor_hash(&descriptor) == fnv1a_64(bytes, sizeof(bytes)));
	descriptor.name = "";
	assert_true(map_descriptor_hash(&descriptor) == fnv1a_64(bytes, 32));
	/* 32 bytes of zero: a number that any implementation can be held against. */
	descriptor = (struct map_descriptor){ .name = "" };
	assert_true(map_descriptor_hash(&descriptor) == 0xc8210784d8af5a5);
}

static void map__descriptors_that_differ_hash_differently(void **state)
{
	struct map_descriptor same = { 7, 1, 2, 3, 4, 5, "name" };
	struct map_descriptor other[7] = { same, same, same, same, same, same, same };
	(void)state;

	other[0].number++;
	other[1].kind++;
	other[2].type++;
	other[3].op++;
	other[4].root++;
	other[5].count++;
	other[6].name = "nam";
	for (size_t i = 0; i < 7; i++)
		assert_true(map_descriptor_hash(&other[i]) != map_descriptor_hash(&same));
}

static void map__tag_is_high_half_of_published_splitmix64(void **state)
{
	/* The first outputs for the seeds 0 and 1234567; each step adds gamma to the state. */
	static const uint64_t from_0[] = { 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4,
					   0x06c45d188009454f };
	static const uint64_t from_1234567[] = { 6457827717110365317u, 3203168211198807973u,
						 9817491932198370423u, 4593380528125082431u,
						 16408922859458223821u };
	const uint64_t gamma = 0x9e3779b97f4a7c15;
	(void)state;

	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(map_tag(i * gamma, 0), from_0[i] >> 32);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(map_tag(1234567 + i * gamma, 0), from_1234567[i] >> 32);
}

static void map__tag_adds_the_index_to_the_hash(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t hash = rng_next(&rng), index = random_chunk();
		assert_int_equal(map_tag(hash, index), map_tag(hash + index, 0));
	}
	assert_int_equal(map_tag(UINT64_MAX, 1), 0xe220a839);
}

/* R-MAP-8, against lists: each part's runs, one after the other, dealt out one of each part in turn. */
static void map__parts_take_turns(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t parts = (uint32_t)rng_between(&rng, 1, 9),
			 run = (uint32_t)rng_between(&rng, 1, 6);
		uint32_t chunks = (uint32_t)rng_between(&rng, 1, 200), runs = chunks / run, at = 0;
		uint32_t begin[10] = { 0 }, taken[9] = { 0 };

		for (uint32_t p = 0; p < parts; p++)
			begin[p + 1] = begin[p] + runs / parts + (p < runs % parts);
		assert_int_equal(begin[parts], runs);
		for (uint32_t p = 0; at < runs * run; p = (p + 1) % parts) {
			uint32_t place = begin[p] + taken[p]++;

			assert_true(place < begin[p + 1]);
			for (uint32_t c = 0; c < run; c++, at++)
				assert_int_equal(map_turn(at, chunks, parts, run), place * run + c);
		}
		for (; at < chunks; at++)
			assert_int_equal(map_turn(at, chunks, parts, run), at);
	}
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map__known_places),
		cmocka_unit_test(map__init_gives_express_an_eighth_and_bulk_whole_runs),
		cmocka_unit_test(map__init_refuses_what_cannot_be_divided),
		cmocka_unit_test_setup(map__place_is_the_formula, restart_random),
		cmocka_unit_test_setup(map__chunk_undoes_place, restart_random),
		cmocka_unit_test_setup(map__place_undoes_chunk, restart_random),
		cmocka_unit_test_setup(map__pairs_number_their_chunks_without_a_gap,
				       restart_random),
		cmocka_unit_test_setup(map__run_stays_in_one_shard_with_consecutive_slots,
				       restart_random),
		cmocka_unit_test_setup(map__pools_do_not_overlap, restart_random),
		cmocka_unit_test_setup(map__slot_comes_round_after_exactly_one_pool,
				       restart_random),
		cmocka_unit_test_setup(map__chunks_cover_the_operation, restart_random),
		cmocka_unit_test(map__shapes_fill_packets_as_far_as_they_can),
		cmocka_unit_test(map__empty_operation_is_one_chunk_of_no_lanes),
		cmocka_unit_test(map__fnv_of_the_test_is_the_published_one),
		cmocka_unit_test(map__descriptor_hash_is_fnv_of_its_bytes),
		cmocka_unit_test(map__descriptors_that_differ_hash_differently),
		cmocka_unit_test(map__tag_is_high_half_of_published_splitmix64),
		cmocka_unit_test_setup(map__tag_adds_the_index_to_the_hash, restart_random),
		cmocka_unit_test_setup(map__parts_take_turns, restart_random),
	};
	return cmocka_run_group_tests_name("core-map", tests, NULL, NULL);
}
