/* SPDX-License-Identifier: Apache-2.0 */
/* wire_test.c - activations through their lanes, summed as ranks would, against 128-bit sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "glm/wire.h"
#include "tests/random.h"

enum { COUNT = 50, ROUNDS = 300, LANES = 3 * COUNT + 1 };

static const double two_32 = 4294967296.0;

/* Of every size up to 2^bits, and the ends; 1 to 63 bits. */
static int64_t draw(uint32_t bits)
{
	uint64_t raw = rng_next(&rng) >> (64 - bits);
	int64_t value = (int64_t)(raw >> random_below(bits));

	switch (random_below(16)) {
	case 0:
		value = 0;
		break;
	case 1:
		value = (int64_t)((1ull << bits) - 1);
		break;
	default:
		break;
	}
	return random_below(2) ? -value : value;
}

static void lanes_add(int32_t *sum, const int32_t *lanes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_false(__builtin_add_overflow(sum[i], lanes[i], &sum[i]));
}

static void wire__wide_sums_are_exact_for_any_number_of_ranks(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 8, 100, WIRE_RANKS_MAX };
	const struct glm_wire wire = { .is_narrow = false };

	(void)state;
	assert_int_equal(wire_lanes(&wire, COUNT), LANES);
	assert_true(wire_limit(&wire, 1) == 0x1p20);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t ranks = sizes[round % 6];
		int64_t parts[COUNT], exact[COUNT] = { 0 };
		int32_t lanes[LANES], sum[LANES] = { 0 };
		double sums[COUNT];

		for (uint32_t rank = 0; rank < ranks; rank++) {
			for (uint32_t i = 0; i < COUNT; i++) {
				parts[i] = draw(42);
				exact[i] += parts[i];
			}
			wire_pack(&wire, ranks, parts, COUNT, false, lanes);
			lanes_add(sum, lanes, LANES);
		}
		assert_true(wire_unpack(&wire, sum, COUNT, sums));
		for (uint32_t i = 0; i < COUNT; i++)
			assert_true(sums[i] == (double)exact[i] / two_32);
	}
}

/* Parts of all 64 bits: a sum is right, or said to be beyond. */
static void wire__wide_sums_at_2_20_and_beyond_are_told(void **state)
{
	const struct glm_wire wire = { .is_narrow = false };
	uint32_t beyond = 0, inside = 0;

	(void)state;
	for (uint32_t round = 0; round < 20 * ROUNDS; round++) {
		uint32_t ranks = 1 + random_below(8);
		int32_t sum[4] = { 0 }, lanes[4];
		__int128 exact = 0;
		bool is_inside, fits;
		double got;

		for (uint32_t rank = 0; rank < ranks; rank++) {
			int64_t part = draw(round % 2 ? 63 : 52);

			exact += part;
			wire_pack(&wire, ranks, &part, 1, false, lanes);
			lanes_add(sum, lanes, 4);
		}
		is_inside = exact > -((__int128)1 << 52) && exact < (__int128)1 << 52;
		fits = wire_unpack(&wire, sum, 1, &got);
		assert_int_equal(fits, is_inside);
		assert_true(!fits || got == (double)(int64_t)exact / two_32);
		inside += is_inside;
		beyond += !is_inside;
	}
	assert_true(inside > ROUNDS && beyond > ROUNDS);
}

static void wire__narrow_lanes_are_rounded_and_their_bound_is_told(void **state)
{
	struct glm_wire wire;

	(void)state;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t ranks = 1 + random_below(8), fraction = random_below(31);
		uint32_t bits = 62 - fraction + random_below(fraction ? 3 : 2);
		double step, exact = 0, sum_of_one;
		int32_t lanes[2], sum[2] = { 0 };
		bool should_fit = true, fits;
		char text[WIRE_TEXT_MAX];

		snprintf(text, sizeof(text), "q%u.%u", 31 - fraction, fraction);
		assert_true(wire_parse(text, &wire));
		step = ldexp(1, -(int)fraction);
		for (uint32_t rank = 0; rank < ranks; rank++) {
			int64_t part = draw(bits);
			__int128 twice =
				part * ((__int128)2 << fraction); /* of the lane, times 2^32 */
			__int128 bound = 2 * ((__int128)(INT32_MAX / ranks) << 32);

			should_fit &= twice < bound + ((__int128)1 << 32) &&
				      twice >= -bound - ((__int128)1 << 32);
			exact += (double)part / two_32;
			wire_pack(&wire, ranks, &part, 1, false, lanes);
			lanes_add(sum, lanes, 2);
		}
		fits = wire_unpack(&wire, sum, 1, &sum_of_one);
		assert_int_equal(fits, should_fit);
		assert_true(wire_limit(&wire, ranks) == (INT32_MAX / ranks) * step);
		assert_true(!fits || fabs(sum_of_one - exact) <= ranks * step * 0.501);
	}
}

static void wire__one_saturated_rank_is_every_rank_s(void **state)
{
	static const struct glm_wire wires[] = { { false, 0 }, { true, 19 } };

	(void)state;
	for (int i = 0; i < 2; i++) {
		int32_t lanes[4], sum[4] = { 0 };
		int64_t part = 5;
		double got;

		wire_pack(&wires[i], 2, &part, 1, false, lanes);
		lanes_add(sum, lanes, wire_lanes(&wires[i], 1));
		assert_true(wire_unpack(&wires[i], sum, 1, &got));
		wire_pack(&wires[i], 2, &part, 1, true, lanes);
		lanes_add(sum, lanes, wire_lanes(&wires[i], 1));
		assert_false(wire_unpack(&wires[i], sum, 1, &got));
	}
}

static void wire__texts_are_read_strictly_and_written_back(void **state)
{
	static const char *const good[] = { "fixed64", "q31.0", "q12.19", "q1.30" };
	static const char *const bad[] = { "",       "q",       "q12",     "q12.18",
					   "q0.31",  "q12.19x", "q 12.19", "q012.19",
					   "Q12.19", "fixed32", "q-1.32",  "fixed64 " };
	struct glm_wire wire = { .is_narrow = true, .fraction = 7 };
	char text[WIRE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(wire_parse(bad[i], &wire));
		assert_int_equal(wire.fraction, 7);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(wire_parse(good[i], &wire));
		assert_string_equal(wire_text(&wire, text), good[i]);
	}
}

static void wire__what_fits_fits(void **state)
{
	static const struct glm_wire wires[] = { { false, 0 }, { true, 19 } };

	(void)state;
	for (int i = 0; i < 2; i++)
		for (uint32_t lanes = 0; lanes < 400; lanes++) {
			uint32_t fit = wire_fit(&wires[i], lanes);

			assert_true(!fit || wire_lanes(&wires[i], fit) <= lanes);
			assert_true(wire_lanes(&wires[i], fit + 1) > lanes);
		}
	assert_int_equal(wire_fit(&wires[0], 360), 119);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire__wide_sums_are_exact_for_any_number_of_ranks),
		cmocka_unit_test(wire__wide_sums_at_2_20_and_beyond_are_told),
		cmocka_unit_test(wire__narrow_lanes_are_rounded_and_their_bound_is_told),
		cmocka_unit_test(wire__one_saturated_rank_is_every_rank_s),
		cmocka_unit_test(wire__texts_are_read_strictly_and_written_back),
		cmocka_unit_test(wire__what_fits_fits),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
