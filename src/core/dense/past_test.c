/* SPDX-License-Identifier: Apache-2.0 */
/* R-WK-17: which earlier operation one repeats. R-WK-18: what is guessed from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/dense/past.h"

enum { RING = 64, REACH = 40, CHUNKS = 4 };

static struct past_op ops[RING];
static uint8_t exponents[RING * CHUNKS];

static struct past past_new(void)
{
	return (struct past){
		.ops = ops, .exponents = exponents, .ring = RING, .reach = REACH, .chunks = CHUNKS
	};
}

static uint64_t before(const struct past *past, uint64_t op)
{
	return past->ops[op % RING].before;
}

/* Submits operations of these letters; the number of the last. */
static uint64_t put_all(struct past *past, const char *keys)
{
	uint64_t op = PAST_NONE;

	for (; *keys; keys++)
		op = past_put(past, (uint64_t)*keys, 2);
	return op;
}

static void note_all(struct past *past, uint64_t op, uint32_t exponent)
{
	for (uint64_t chunk = 0; chunk < 2; chunk++)
		past_note(past, op, chunk, exponent);
}

static void a_new_operation_repeats_none(void **state)
{
	struct past past = past_new();
	uint16_t guess = 7;

	(void)state;
	put_all(&past, "abc");
	for (uint64_t op = 0; op < 3; op++) {
		assert_int_equal(before(&past, op), PAST_NONE);
		assert_int_equal(past_guess(&past, op, 0, &guess), PAST_UNKNOWN);
	}
	assert_int_equal(guess, 7);
}

static void a_step_repeats_the_one_before(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "abcabcabc");
	for (uint64_t op = 3; op < 9; op++)
		assert_int_equal(before(&past, op), op - 3);
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

static void who_leaves_a_sequence_is_found_again(void **state)
{
	struct past past = past_new();
	uint64_t op;

	(void)state;
	put_all(&past, "abcabc");
	put_all(&past, "x"); /* once */
	op = put_all(&past, "a");
	assert_int_equal(before(&past, op), 3); /* no better match than another: the latest */
	op = put_all(&past, "bc");
	assert_int_equal(before(&past, op), 5);
	assert_int_equal(before(&past, op - 1), 4);
}

static void the_longest_match_wins_over_the_latest(void **state)
{
	struct past past = past_new();
	uint64_t op;

	(void)state;
	put_all(&past, "pqaqa"); /* a after pq, and a after aq */
	op = put_all(&past, "pqa");
	assert_int_equal(before(&past, op), 2);
}

static void nothing_is_looked_for_beyond_reach(void **state)
{
	struct past past = past_new();
	uint64_t op;

	(void)state;
	put_all(&past, "a");
	for (uint32_t i = 0; i < REACH - 1; i++)
		past_put(&past, 1000 + i, 1);
	op = put_all(&past, "a");
	assert_int_equal(op, REACH);
	assert_int_equal(before(&past, op), 0);
	for (uint32_t i = 0; i < REACH; i++)
		past_put(&past, 2000 + i, 1);
	op = put_all(&past, "a");
	assert_int_equal(before(&past, op), PAST_NONE);
}

/* The next one of a sequence is refused, too, when it is too far away. */
static void a_sequence_that_is_left_behind_ends(void **state)
{
	struct past past = past_new();

	(void)state;
	put_all(&past, "ab");
	for (uint32_t i = 0; i < REACH - 2; i++)
		past_put(&past, 1000 + i, 1);
	put_all(&past, "a"); /* number REACH: repeats 0 */
	assert_int_equal(before(&past, REACH), 0);
	put_all(&past, "b"); /* 1 is just in reach */
	assert_int_equal(before(&past, REACH + 1), 1);
	assert_int_equal(before(&past, past_put(&past, 1001, 1)), 3);
	for (uint32_t i = 0; i < 3; i++)
		past_put(&past, 3000 + i, 1);
	assert_int_equal(before(&past, past_put(&past, 1002, 1)), PAST_NONE);
}

static void a_chunk_waits_until_both_before_it_are_accepted(void **state)
{
	struct past past = past_new();
	uint16_t guess = 0;

	(void)state;
	put_all(&past, "aaa");
	assert_int_equal(past_guess(&past, 1, 0, &guess), PAST_WAITS);
	past_note(&past, 0, 0, 100);
	assert_int_equal(past_guess(&past, 1, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 101);
	assert_int_equal(past_guess(&past, 1, 1, &guess), PAST_WAITS); /* another chunk */
	past_note(&past, 1, 0, 90);
	assert_int_equal(past_guess(&past, 2, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 101); /* the larger of two */
	past_note(&past, 1, 0, 120);
	past_guess(&past, 2, 0, &guess);
	assert_int_equal(guess, 121);
	past_note(&past, 2, 1,
		  50); /* accepted out of turn: that of the operation before is missing */
	assert_int_equal(past_guess(&past, put_all(&past, "a"), 1, &guess), PAST_WAITS);
	past_note(&past, 1, 1, 60);
	assert_int_equal(past_guess(&past, 3, 1, &guess), PAST_KNOWN);
	assert_int_equal(guess, 61);
}

static void zeros_and_the_largest_exponent_stay(void **state)
{
	struct past past = past_new();
	uint16_t guess = 9;

	(void)state;
	put_all(&past, "aaa");
	note_all(&past, 0, 0);
	note_all(&past, 1, 0);
	assert_int_equal(past_guess(&past, 2, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 0);
	note_all(&past, 1, 0xfffe); /* only who lies says so */
	past_guess(&past, 2, 1, &guess);
	assert_int_equal(guess, 254);
	note_all(&past, 1, 253);
	past_guess(&past, 2, 1, &guess);
	assert_int_equal(guess, 254);
}

static void chunks_beyond_those_that_are_kept_are_unknown(void **state)
{
	struct past past = past_new();
	uint16_t guess;

	(void)state;
	past_put(&past, 1, 100);
	past_put(&past, 1, 100);
	for (uint64_t chunk = 0; chunk < 100; chunk++)
		past_note(&past, 0, chunk, 80);
	assert_int_equal(past_guess(&past, 1, CHUNKS - 1, &guess), PAST_KNOWN);
	assert_int_equal(past_guess(&past, 1, CHUNKS, &guess), PAST_UNKNOWN);
}

/* That of the operation before is not there any more: its exponent counts alone. */
static void the_second_before_must_be_in_reach_as_well(void **state)
{
	struct past past = past_new();
	uint64_t op;
	uint16_t guess;

	(void)state;
	put_all(&past, "a");
	past_note(&past, 0, 0, 200);
	for (uint32_t i = 0; i < REACH - 2; i++)
		past_put(&past, 1000 + i, 1);
	op = put_all(&past, "a");
	assert_int_equal(before(&past, op), 0);
	past_note(&past, op, 0, 100);
	op = put_all(&past, "a"); /* number REACH */
	assert_int_equal(past_guess(&past, op, 0, &guess), PAST_KNOWN);
	assert_int_equal(guess, 201);
	op = put_all(&past, "a"); /* its second before is REACH - 1 */
	past_note(&past, op - 1, 0, 90);
	past_guess(&past, op, 0, &guess);
	assert_int_equal(guess, 101);
	past = past_new();
	put_all(&past, "a");
	past_note(&past, 0, 0, 200);
	for (uint32_t i = 0; i < REACH - 1; i++)
		past_put(&past, 1000 + i, 1);
	op = put_all(&past, "a");
	past_note(&past, op, 0, 100);
	op = put_all(&past, "a"); /* number REACH + 1: 0 is out of reach */
	past_guess(&past, op, 0, &guess);
	assert_int_equal(guess, 101);
}

static void a_guess_fits_what_is_little_below_it(void **state)
{
	(void)state;
	assert_true(past_fits(100, 0));
	assert_true(past_fits(0, 0));
	assert_false(past_fits(100, 101));
	assert_true(past_fits(100, 100));
	assert_true(past_fits(100, 97));
	assert_false(past_fits(100, 96));
	assert_false(past_fits(0, 1));
	assert_true(past_fits(2, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_operation_repeats_none),
		cmocka_unit_test(a_step_repeats_the_one_before),
		cmocka_unit_test(equal_shapes_are_told_apart_by_what_was_before),
		cmocka_unit_test(who_leaves_a_sequence_is_found_again),
		cmocka_unit_test(the_longest_match_wins_over_the_latest),
		cmocka_unit_test(nothing_is_looked_for_beyond_reach),
		cmocka_unit_test(a_sequence_that_is_left_behind_ends),
		cmocka_unit_test(a_chunk_waits_until_both_before_it_are_accepted),
		cmocka_unit_test(zeros_and_the_largest_exponent_stay),
		cmocka_unit_test(chunks_beyond_those_that_are_kept_are_unknown),
		cmocka_unit_test(the_second_before_must_be_in_reach_as_well),
		cmocka_unit_test(a_guess_fits_what_is_little_below_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
