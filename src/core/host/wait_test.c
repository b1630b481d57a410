/* SPDX-License-Identifier: Apache-2.0 */
/* wait_test.c - the steps of wait.h where orders matter; all orders are the search's (src/search/host.c). */
#include "core/host/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };

static struct wait_words words;
static uint32_t is_called;

static int fresh(void **state)
{
	(void)state;
	memset(&words, 0, sizeof(words));
	is_called = 0;
	return 0;
}

/* All steps; a bit for each bell that rang. */
static uint32_t publish(uint32_t rank, uint32_t phase)
{
	struct wait_publish publish = { 0 };
	uint32_t rung = 0;

	for (;;)
		switch (wait_publish_step(&publish, &words, rank, phase)) {
		case WAIT_WAKE:
			rung |= 1u << publish.wake;
			break;
		case WAIT_OVER:
			return rung;
		case WAIT_STEP:
		case WAIT_SLEEP:
			break;
		}
}

/* So many steps of rank 0's sleep for rank 1's phase; what the last one asks for. */
static enum wait_next sleep_steps(struct wait_sleep *sleep, uint32_t steps, uint32_t phase)
{
	enum wait_next next = WAIT_STEP;

	while (steps--)
		next = wait_sleep_step(sleep, &words, 0, 1, phase, &is_called);
	return next;
}

static void wait__phases_are_seen_in_order_and_over_the_wrap(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 6; phase++) {
		assert_int_equal(wait_look(wait_line(&words, 1, phase), phase), WAIT_NOT_YET);
		assert_int_equal(publish(1, phase), 0);
		assert_int_equal(wait_look(wait_line(&words, 1, phase), phase), WAIT_THERE);
	}
	words.line[1][1].word = UINT32_MAX - 1;
	assert_int_equal(wait_look(&words.line[1][1], UINT32_MAX), WAIT_NOT_YET);
	publish(1, UINT32_MAX);
	assert_int_equal(wait_look(&words.line[1][1], UINT32_MAX), WAIT_THERE);
}

static void wait__sleeper_is_rung_by_whom_it_waits_for_alone(void **state)
{
	struct wait_sleep sleep = { 0 };

	(void)state;
	assert_int_equal(sleep_steps(&sleep, 5, 0), WAIT_SLEEP);
	assert_int_equal(publish(2, 0), 0);
	assert_int_equal(words.bell[0].rings, sleep.rings);
	assert_int_equal(publish(1, 0), 1);
	assert_int_not_equal(words.bell[0].rings, sleep.rings);
	assert_int_equal(sleep_steps(&sleep, 1, 0), WAIT_OVER);
	assert_int_equal(words.asleep, 0);
}

static void wait__who_counts_itself_looks_again(void **state)
{
	struct wait_sleep sleep = { 0 };

	(void)state;
	sleep_steps(&sleep, 2, 0);
	assert_int_equal(publish(1, 0), 0); /* it saw nobody asleep */
	assert_int_equal(sleep_steps(&sleep, 3, 0), WAIT_STEP);
	assert_int_equal(sleep_steps(&sleep, 1, 0), WAIT_OVER);
}

static void wait__publisher_looks_after_its_word(void **state)
{
	struct wait_publish publishing = { 0 };
	struct wait_sleep sleep = { 0 };

	(void)state;
	assert_int_equal(wait_publish_step(&publishing, &words, 1, 0), WAIT_STEP);
	if (sleep_steps(&sleep, 5, 0) == WAIT_SLEEP)
		assert_true(wait_publish_step(&publishing, &words, 1, 0) == WAIT_STEP &&
			    publishing.left);
}

static void wait__call_ends_the_sleep_that_is_about_to_begin(void **state)
{
	struct wait_sleep sleep = { 0 };
	struct wait_call call = { 0 };

	(void)state;
	assert_int_equal(wait_call_step(&call, &words, 0, &is_called), WAIT_STEP);
	assert_int_equal(wait_call_step(&call, &words, 0, &is_called), WAIT_WAKE);
	assert_int_equal(wait_call_step(&call, &words, 0, &is_called), WAIT_OVER);
	assert_int_equal(sleep_steps(&sleep, 4, 0), WAIT_STEP);
	assert_int_equal(sleep_steps(&sleep, 1, 0), WAIT_OVER);
}

static void wait__abort_marks_all_words_and_rings_all_bells(void **state)
{
	struct wait_abort abort = { 0 };
	enum wait_next next;
	uint32_t rung = 0;

	(void)state;
	publish(2, 0);
	while ((next = wait_abort_step(&abort, &words, RANKS)) != WAIT_OVER)
		if (next == WAIT_WAKE)
			rung |= 1u << abort.wake;
	assert_int_equal(rung, 7);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_int_equal(wait_look(wait_line(&words, rank, 1), 1), WAIT_ABORTED);
	assert_int_equal(wait_look(wait_line(&words, 2, 0), 0), WAIT_THERE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(wait__phases_are_seen_in_order_and_over_the_wrap, fresh),
		cmocka_unit_test_setup(wait__sleeper_is_rung_by_whom_it_waits_for_alone, fresh),
		cmocka_unit_test_setup(wait__who_counts_itself_looks_again, fresh),
		cmocka_unit_test_setup(wait__publisher_looks_after_its_word, fresh),
		cmocka_unit_test_setup(wait__call_ends_the_sleep_that_is_about_to_begin, fresh),
		cmocka_unit_test_setup(wait__abort_marks_all_words_and_rings_all_bells, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
