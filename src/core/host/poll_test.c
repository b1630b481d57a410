/* SPDX-License-Identifier: Apache-2.0 */
/* poll_test.c - what poll.h learns from waits. */
#include "core/host/poll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void poll__who_was_late_teaches_nothing(void **state)
{
	struct poll poll = poll_new(true);

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(poll_looks(&poll), POLL_FIRST);
		poll_failed(&poll, POLL_NEEDED + 1);
	}
}

static void poll__who_needs_the_processor_is_let_in(void **state)
{
	struct poll poll = poll_new(true);
	uint32_t looks = 0;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		(void)poll_looks(&poll);
		poll_failed(&poll, 1);
	}
	for (uint32_t i = 0; i < 10 * POLL_RETRY; i++)
		looks += poll_looks(&poll);
	assert_int_equal(looks, 10 * POLL_FIRST); /* one wait of POLL_RETRY tries */
	poll_paid(&poll, 100);
	assert_int_equal(poll_looks(&poll), 400 + POLL_LEAST);
	poll_paid(&poll, 1);
	assert_int_equal(poll_looks(&poll), 400 + POLL_LEAST);
	poll_paid(&poll, POLL_MOST);
	assert_int_equal(poll_looks(&poll), POLL_MOST);
}

static void poll__with_more_ranks_than_processors_nobody_looks(void **state)
{
	struct poll poll = poll_new(false);

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(poll_looks(&poll), 0);
		poll_paid(&poll, i); /* it was there at once */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll__who_was_late_teaches_nothing),
		cmocka_unit_test(poll__who_needs_the_processor_is_let_in),
		cmocka_unit_test(poll__with_more_ranks_than_processors_nobody_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
