/* SPDX-License-Identifier: Apache-2.0 */
/* R-WK-17: which earlier operation one repeats. R-WK-18: what is guessed from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/dense/past.h"

enum { REACH = 64, ROWS = 12, TURN = 4, OPEN = 4 };

static struct past_op ops[REACH];
static uint8_t exponents[(ROWS + OPEN) * TURN];
static struct past_rows rows = { exponents, sizeof(exponents) };

static struct past past_new(void)
{
	return (struct past){ .ops = ops, .reach = REACH, .rows = ROWS, .turn = { TURN, TURN } };
}

static uint64_t before(const struct past *past, uint64_t op)
{
	return past->ops[op % REACH].before;
}

static struct past_place put(struct past *past, uint64_t key, uint64_t chunks, bool is_guessed)
{
	const struct past_call call = { key, chunks, MAP_BULK, is_guessed };
	struct past_place place;

	past_put(past, &call, &place);
	past_open(&rows, &place);
	return place;
}

/* Calls operations of these letters, of two chunks; capitals may not be guessed. Where the last one is. */
static struct past_place put_all(struct past *past, const char *keys)
{
	struct past_place place = { 0 };

	for (; *keys; keys++)
		place = put(past, (uint64_t)*keys, 2, *keys >= 'a');
	return place;
}

static void note_all(const struct past_place *place, uint32_t exponent)
{
	for (uint64_t chunk = 0; chunk < 2; chunk++)
		past_note(&rows, place, chunk, exponent);
}

/* The numbers that operations from `from` on repeat, or -1. */
static void expect(const struct past *past, uint64_t from, const int *wanted, uint64_t count)
{
	assert_int_equal(past->count, from + count);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal((int64_t)before(past, from + i), wanted[i]);
}
#define EXPECT(past, from, ...) \
	expect(past, from, (int[]){ __VA_ARGS__ }, sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))

static void a_new_operation_repeats_none(void **state)
{
	struct past past = past_new();
	struct past_place place;
	uint16_t guess = 7;

	(void)state;
	place = put_all(&past, "abc");
	EXPECT(&past, 0, -1, -1, -1);
	assert_int_equal(past_guess(&rows, &place, 0, &guess), PAST_UNKNOWN);
	assert_int_equal(guess, 7);
}

static void a_step_repeats_the_one_before(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "abcabcabc");
	EXPECT(&past, 0, -1, -1, -1, 0, 1, 2, 3, 4, 5);
}

/* Of equal shapes, the one at the same place: from the second repetition on, whatever the first had to take. */
static void equal_shapes_are_told_apart_by_what_was_before(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "abaacabaacabaacabaac");
	for (uint64_t op = 10; op < 20; op++)
		assert_int_equal(before(&past, op), op - 5);
}

/* What may not be guessed is of the sequence, too: it tells where a step begins. */
static void what_is_not_guessed_tells_places_apart(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "aBabCaBabCaBabC");
	for (uint64_t op = 6; op < 15; op++)
		assert_int_equal(before(&past, op), op - 5);
}

static void who_leaves_a_sequence_is_found_again(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past,
		"abcabcxabc"); /* x comes once. a: no better match than another: the latest */
	EXPECT(&past, 0, -1, -1, -1, 0, 1, 2, -1, 3, 4, 5);
}

static void the_longest_match_wins_over_the_latest(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "pqaqapqa"); /* a after pq, and a after aq */
	assert_int_equal(before(&past, 7), 2);
}

/* Each would wait for the one before it: the nearest is a slot's turn away, of 4 chunks. */
static void equal_ones_in_a_row_do_not_take_their_neighbours(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "aaaaa");
	EXPECT(&past, 0, -1, -1, 0, 1, 2);
	past = past_new();
	for (uint32_t i = 0; i < 6; i++)
		put(&past, 1, 1, true);
	EXPECT(&past, 0, -1, -1, -1, -1, 0, 1);
	past = past_new();
	for (uint32_t i = 0; i < 3; i++)
		put(&past, 1, 100, true);
	EXPECT(&past, 0, -1, 0, 1);
	past = past_new();
	put_all(&past, "AAA"); /* who may not be guessed waits for nobody */
	EXPECT(&past, 0, -1, 0, 1);
	past = past_new();
	put_all(&past, "abaab"); /* another one between: a program's two tensors */
	EXPECT(&past, 0, -1, -1, 0, 0, 1);
}

/* 65 equal ones and another: the first two steps tell where a step begins. */
static void a_row_of_equal_ones_is_found_from_its_end(void **state)
{
	struct past_op many[512];
	struct past past = past_new();

	(void)state;
	past.ops = many;
	past.reach = 512;
	past.rows = 512;
	for (uint64_t i = 0; i < 4 * 66; i++)
		put(&past, i % 66 == 65 ? 2 : 1, 1, i % 66 != 65);
	for (uint64_t i = 2 * 66; i < 4 * 66; i++)
		assert_int_equal(many[i].before, i - 66);
	for (uint64_t i = 0; i < 66; i++) /* and nobody ever waited for a neighbour */
		assert_true(many[i].before == PAST_NONE || many[i].before + TURN <= i);
}

static void nothing_is_looked_for_beyond_reach(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "A");
	for (uint32_t i = 0; i < REACH - 1; i++)
		put(&past, 1000 + i, 1, false);
	put_all(&past, "A");
	assert_int_equal(before(&past, REACH), 0);
	for (uint32_t i = 0; i < REACH; i++)
		put(&past, 2000 + i, 1, false);
	put_all(&past, "A");
	assert_int_equal(before(&past, 2 * REACH + 1), PAST_NONE);
}

/* The next one of a sequence is refused, too, when it is too far away. */
static void a_sequence_that_is_left_behind_ends(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "AB");
	for (uint32_t i = 0; i < REACH - 2; i++)
		put(&past, 1000 + i, 1, false);
	put_all(&past, "AB"); /* numbers REACH and REACH + 1: 0 and 1 are just in reach */
	put(&past, 1001, 1, false);
	for (uint32_t i = 0; i < 3; i++)
		put(&past, 3000 + i, 1, false);
	put(&past, 1002, 1, false);
	EXPECT(&past, REACH, 0, 1, 3, -1, -1, -1, -1);
}

/* Of its stream, no more than so many chunks; those of the other stream do not count. */
static void exponents_reach_no_further_than_their_rows(void **state)
{
	const struct past_call other = { 9, 100, MAP_EXPRESS, true };
	struct past past = past_new();
	struct past_place place;

	(void)state;
	put_all(&past, "a"); /* 2 chunks of 48 */
	for (uint32_t i = 0; i < 11; i++) {
		put(&past, 50 + i, 100, true); /* 4 count */
		past_put(&past, &other, &place);
	}
	put_all(&past, "bA");
	place = put_all(&past, "a");
	assert_int_equal(before(&past, past.count - 1), 0);
	assert_int_equal(place.first, 0);
	past.count--; /* not called: instead, with a chunk more between */
	past.end[MAP_BULK] -= 2;
	put(&past, 99, 1, true);
	assert_int_equal(put_all(&past, "a").first, PAST_NONE);
}

static void a_chunk_waits_until_both_before_it_are_accepted(void **state)
{
	struct past past = past_new();
	struct past_place place[4];
	uint16_t guess = 0;

	(void)state;
	place[0] = put_all(&past, "a");
	for (uint32_t i = 1; i < 4; i++)
		place[i] = put_all(&past, "Xa");
	assert_int_equal(past_guess(&rows, &place[1], 0, &guess), PAST_WAITS);
	past_note(&rows, &place[0], 0, 100);
	assert_int_equal(past_guess(&rows, &place[1], 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 101);
	assert_int_equal(past_guess(&rows, &place[1], 1, &guess), PAST_WAITS); /* another chunk */
	past_note(&rows, &place[1], 0, 90);
	assert_int_equal(past_guess(&rows, &place[2], 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 101); /* the larger of two */
	past_note(&rows, &place[1], 0, 120);
	past_guess(&rows, &place[2], 0, &guess);
	assert_int_equal(guess, 121);
	past_note(&rows, &place[2], 1,
		  50); /* out of turn: that of the operation before is missing */
	assert_int_equal(past_guess(&rows, &place[3], 1, &guess), PAST_WAITS);
	past_note(&rows, &place[1], 1, 60);
	assert_int_equal(past_guess(&rows, &place[3], 1, &guess), PAST_KNOWN);
	assert_int_equal(guess, 61);
}

static void zeros_and_the_largest_exponent_stay(void **state)
{
	struct past past = past_new();
	struct past_place place[3];
	uint16_t guess = 9;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		place[i] = put_all(&past, "Xa");
	note_all(&place[0], 0);
	note_all(&place[1], 0);
	assert_int_equal(past_guess(&rows, &place[2], 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 0);
	note_all(&place[1], 0xfffe); /* only who lies says so */
	past_guess(&rows, &place[2], 1, &guess);
	assert_int_equal(guess, 254);
	note_all(&place[1], 253);
	past_guess(&rows, &place[2], 1, &guess);
	assert_int_equal(guess, 254);
}

/* The chunk before in its slot is of the same operation, and tells the exponent. */
static void chunks_behind_a_slots_turn_are_not_guessed(void **state)
{
	struct past past = past_new();
	struct past_place place[2];
	uint16_t guess;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		place[i] = put(&past, 1, 100, true);
	for (uint64_t chunk = 0; chunk < 100; chunk++)
		past_note(&rows, &place[0], chunk, 80);
	assert_int_equal(past_guess(&rows, &place[1], TURN - 1, &guess), PAST_KNOWN);
	assert_int_equal(past_guess(&rows, &place[1], TURN, &guess), PAST_UNKNOWN);
	assert_int_equal(exponents[place[1].row % sizeof(exponents)], PAST_OPEN);
}

/* That of the operation before is not there any more: its exponent counts alone. */
static void the_second_before_must_be_in_reach_as_well(void **state)
{
	struct past past = past_new();
	struct past_place place;
	uint16_t guess;

	(void)state;
	place = put_all(&past, "a");
	note_all(&place, 200);
	for (uint32_t i = 0; i < 11; i++)
		put(&past, 100 + i, 100, true);
	place = put_all(&past, "a");
	note_all(&place, 100);
	place = put_all(&past, "Xa"); /* 48 chunks behind the first */
	assert_int_equal(past_guess(&rows, &place, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 201);
	note_all(&place, 90);
	place = put_all(&past, "Xa");
	assert_int_equal(past_guess(&rows, &place, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 101);
	past = past_new();
	place = put_all(&past, "a");
	note_all(&place, 200);
	for (uint32_t i = 0; i < 11; i++)
		put(&past, 100 + i, 100, true);
	put(&past, 99, 1, true);
	place = put(&past, 'a', 2, true);
	assert_int_equal(place.first, 0);
	past_note(&rows, &place, 0, 100);
	place = put_all(&past, "Xa"); /* 49 chunks behind the first */
	assert_int_equal(place.second, place.first);
	past_guess(&rows, &place, 0, &guess);
	assert_int_equal(guess, 101);
}

static void a_guess_fits_what_is_little_below_it(void **state)
{
	(void)state;
	assert_true(past_fits(100, 0));
	assert_true(past_fits(0, 0));
	assert_false(past_fits(100, 101));
	assert_true(past_fits(100, 100));
	assert_true(past_fits(100, 96));
	assert_false(past_fits(100, 95));
	assert_false(past_fits(0, 1));
	assert_true(past_fits(2, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_operation_repeats_none),
		cmocka_unit_test(a_step_repeats_the_one_before),
		cmocka_unit_test(equal_shapes_are_told_apart_by_what_was_before),
		cmocka_unit_test(what_is_not_guessed_tells_places_apart),
		cmocka_unit_test(who_leaves_a_sequence_is_found_again),
		cmocka_unit_test(the_longest_match_wins_over_the_latest),
		cmocka_unit_test(equal_ones_in_a_row_do_not_take_their_neighbours),
		cmocka_unit_test(a_row_of_equal_ones_is_found_from_its_end),
		cmocka_unit_test(nothing_is_looked_for_beyond_reach),
		cmocka_unit_test(a_sequence_that_is_left_behind_ends),
		cmocka_unit_test(exponents_reach_no_further_than_their_rows),
		cmocka_unit_test(a_chunk_waits_until_both_before_it_are_accepted),
		cmocka_unit_test(zeros_and_the_largest_exponent_stay),
		cmocka_unit_test(chunks_behind_a_slots_turn_are_not_guessed),
		cmocka_unit_test(the_second_before_must_be_in_reach_as_well),
		cmocka_unit_test(a_guess_fits_what_is_little_below_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
