/* SPDX-License-Identifier: Apache-2.0 */
/* GUESS rounds: R-WK-8, R-WK-10, R-WK-17, R-WK-18. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dense/worker_fixture.h"

enum { KEY = 77, UNKNOWN = WIRE_EXPONENT_UNKNOWN };

static bool may_start(const struct fixture *f)
{
	uint32_t slot;

	return worker_may_start(&f->worker, 0, MAP_EXPRESS, &slot);
}

/* Something else is called, which the other stream does: so the next one like the last may be guessed from it. */
static void call_other(struct fixture *f)
{
	struct worker_op op = { .key = KEY + 1, .stream = MAP_BULK, .shape = { 1, 1 } };

	worker_place(&f->worker, &op);
}

static void submit_next(struct fixture *f, uint64_t count, uint64_t cookie)
{
	call_other(f);
	submit_key(f, count, KEY, true, cookie);
}

/* An operation of one chunk, through EXPONENT and DATA: the slot does not know what comes next. */
static void do_one(struct fixture *f, uint64_t cookie, uint16_t exponent)
{
	struct wire update;

	submit_key(f, 8, KEY, true, cookie);
	update = start(f);
	assert_int_equal(wire_round_of(update.flags), WIRE_EXPONENT);
	deliver(f, result_of(update, exponent));
	deliver(f, result_of(f->actions.header, UNKNOWN));
	assert_true(f->actions.is_op_done);
}

/* The next one like it begins. */
static struct wire guess(struct fixture *f, uint64_t cookie)
{
	submit_next(f, 8, cookie);
	return start(f);
}

static void worker__guesses_one_above_what_it_repeats(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	do_one(f, 0, 100);
	update = guess(f, 1);
	assert_int_equal(update.flags, WIRE_GUESS);
	assert_int_equal(f->actions.build_scale, 101);
	assert_int_equal(update.lanes, 8);
	assert_int_equal(update.tag, map_tag(1001, 0) ^ 101);
	assert_int_equal(f->actions.look, WORKER_AHEAD_UNKNOWN);
	deliver(f, result_of(update, wire_guess_field(99, 0xff)));
	assert_true(f->actions.store);
	assert_false(f->actions.build || f->actions.is_again);
	assert_int_equal(f->actions.stored_round, WIRE_GUESS);
	assert_int_equal(f->actions.stored_scale, 101);
	assert_true(f->actions.is_op_done);
	update = guess(f, 2); /* of 100 and 99 */
	assert_int_equal(f->actions.build_scale, 101);
	deliver(f, result_of(update, wire_guess_field(98, 0xff)));
	guess(f, 3); /* of 99 and 98: what was agreed, not what was guessed */
	assert_int_equal(f->actions.build_scale, 100);
}

/* What all are told decides, and not what is known here. */
static void worker__does_again_what_it_guessed_wrong(void **state)
{
	static const struct {
		uint16_t own;
		bool fits;
	} cases[] = { { 0, true },    { 96, false },  { 97, true }, { 101, true },
		      { 102, false }, { 255, false }, { 1, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = fixture_new(0);
		struct wire update;

		do_one(f, 0, 100);
		update = guess(f, 1);
		deliver(f, result_of(update, wire_guess_field(cases[i].own, 7)));
		assert_true(f->actions.is_accepted);
		assert_int_equal(f->actions.store, cases[i].fits);
		assert_int_equal(f->actions.is_again, !cases[i].fits);
		assert_int_equal(f->actions.build, !cases[i].fits);
		if (cases[i].fits)
			continue;
		assert_int_equal(f->actions.header.flags, WIRE_DATA);
		assert_int_equal(f->actions.header.seq, update.seq + 1);
		assert_int_equal(f->actions.header.tag, map_tag(1001, 0));
		assert_int_equal(f->actions.build_scale, cases[i].own);
		deliver(f, result_of(f->actions.header, UNKNOWN));
		assert_true(f->actions.is_op_done);
		assert_int_equal(f->actions.stored_scale, cases[i].own);
	}
}

/* R-WK-8: the low byte governs the slot's next chunk, as the field of other rounds does. */
static void worker__is_told_by_a_guess_of_the_slots_next_chunk(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	do_one(f, 0, 100);
	update = guess(f, 1);
	for (uint64_t i = 2; i < 6; i++)
		submit_next(f, 8, i);
	deliver(f, result_of(update, wire_guess_field(100, 88)));
	for (uint64_t i = 2; i < 5;
	     i++) { /* each waits for the one before it, but for what is known */
		update = start(f);
		assert_int_equal(update.flags, WIRE_GUESS);
		assert_int_equal(may_start(f), i == 4);
		deliver(f, result_of(update, wire_guess_field(100, 0xff)));
	}
	update = start(f);
	assert_int_equal(update.slot, 1);
	assert_int_equal(update.flags, WIRE_DATA);
	assert_int_equal(f->actions.build_scale, 88);
	deliver(f, result_of(update, UNKNOWN));
	assert_int_equal(f->actions.stored_scale, 88);
}

static void worker__waits_for_what_it_guesses_from(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire first, second;

	(void)state;
	submit_key(f, 16, KEY, true, 0);
	submit_next(f, 16, 1);
	first = start(f);
	second = start(f);
	assert_false(may_start(f));
	deliver(f, result_of(second, 60));
	deliver(f, result_of(f->actions.header, UNKNOWN));
	assert_false(may_start(f)); /* chunk 0 of the next one comes first */
	deliver(f, result_of(first, 50));
	assert_false(may_start(f));
	deliver(f, result_of(f->actions.header, UNKNOWN));
	assert_true(may_start(f));
	start(f);
	assert_int_equal(f->actions.build_scale, 51);
	start(f);
	assert_int_equal(f->actions.build_scale, 61);
}

/* Several calls of one shape, before any is complete: all are on their way at once, as far as there are slots. In a slot
 * that comes again they are guessed. */
static void worker__lets_equal_operations_go_together(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update[4];

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		submit_key(f, 8, KEY, true, i);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(may_start(f));
		update[i] = start(f);
		assert_int_equal(wire_round_of(update[i].flags), WIRE_EXPONENT);
	}
	for (uint32_t i = 0; i < 4; i++) {
		deliver(f, result_of(update[i], (uint16_t)(50 + i)));
		deliver(f, result_of(f->actions.header, i ? UNKNOWN : 60)); /* of the fifth */
	}
	assert_int_equal(start(f).flags, WIRE_DATA);
	deliver(f, result_of(f->actions.header, UNKNOWN));
	for (uint64_t i = 5; i < 8; i++) {
		submit_key(f, 8, KEY, true, i);
		assert_int_equal(start(f).flags, WIRE_GUESS);
		assert_int_equal(f->actions.build_scale, 47 + i); /* of the one four before */
	}
}

/* R-WK-17: as many rows as operations on their way are guessed from stay. */
static void worker__has_room_while_there_is_room_for_exponents(void **state)
{
	struct fixture *f = fixture_new(0);
	struct past_rows *rows = &f->worker.stream[MAP_EXPRESS].rows;

	(void)state;
	rows->size = (ROWS + 2) * ROW;
	assert_true(worker_has_room(&f->worker, MAP_EXPRESS));
	submit_key(f, 80, KEY, true, 0);
	assert_true(worker_has_room(&f->worker, MAP_EXPRESS));
	submit_key(f, 8, KEY, true, 1);
	assert_false(worker_has_room(&f->worker, MAP_EXPRESS));
	assert_true(worker_has_room(&f->worker, MAP_BULK));
	rows->size++;
	assert_true(worker_has_room(&f->worker, MAP_EXPRESS));
}

/* What cannot be guessed waits for nobody. */
static void worker__without_a_key_agrees_first(void **state)
{
	struct fixture *f = fixture_new(0);

	(void)state;
	submit(f, 8, true, 0);
	submit(f, 8, true, 1);
	assert_int_equal(start(f).flags, WIRE_EXPONENT);
	assert_int_equal(start(f).flags, WIRE_EXPONENT);
}

static void worker__amends_a_guess_that_fits(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire result, detail;

	(void)state;
	do_one(f, 0, 100);
	result = result_of(guess(f, 1), wire_guess_field(101, 0xff));
	result.flags |= WIRE_NONFINITE;
	deliver(f, result);
	assert_true(f->actions.store && f->actions.is_amended_later && f->actions.build);
	detail = f->actions.header;
	assert_int_equal(detail.flags, WIRE_DETAIL);
	assert_int_equal(detail.tag, map_tag(1001, 0));
	submit_next(f, 8, 2); /* the exponent is known before the DETAIL round ends */
	assert_true(may_start(f));
	deliver(f, result_of(detail, UNKNOWN));
	assert_int_equal(f->actions.stored_round, WIRE_DETAIL);
	assert_true(f->actions.is_op_done);
}

/* GUESS, DATA, DETAIL: no more. */
static void worker__amends_after_it_has_done_a_chunk_again(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire result;

	(void)state;
	do_one(f, 0, 100);
	result = result_of(guess(f, 1), wire_guess_field(150, 0xff));
	result.flags |= WIRE_NONFINITE;
	deliver(f, result);
	assert_true(f->actions.is_again && !f->actions.store && !f->actions.is_amended_later);
	result = result_of(f->actions.header, UNKNOWN);
	result.flags |= WIRE_NONFINITE;
	deliver(f, result);
	assert_int_equal(f->actions.stored_scale, 150);
	assert_int_equal(f->actions.header.flags, WIRE_DETAIL);
	deliver(f, result_of(f->actions.header, UNKNOWN));
	assert_true(f->actions.is_op_done);
}

static void worker__takes_no_other_round_for_a_guess(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire result;

	(void)state;
	do_one(f, 0, 100);
	result = result_of(guess(f, 1), wire_guess_field(101, 0xff));
	result.tag ^= 1; /* of another guess */
	deliver(f, result);
	assert_true(f->actions.is_protocol_error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worker__guesses_one_above_what_it_repeats),
		cmocka_unit_test(worker__does_again_what_it_guessed_wrong),
		cmocka_unit_test(worker__is_told_by_a_guess_of_the_slots_next_chunk),
		cmocka_unit_test(worker__waits_for_what_it_guesses_from),
		cmocka_unit_test(worker__lets_equal_operations_go_together),
		cmocka_unit_test(worker__has_room_while_there_is_room_for_exponents),
		cmocka_unit_test(worker__without_a_key_agrees_first),
		cmocka_unit_test(worker__amends_a_guess_that_fits),
		cmocka_unit_test(worker__amends_after_it_has_done_a_chunk_again),
		cmocka_unit_test(worker__takes_no_other_round_for_a_guess),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
