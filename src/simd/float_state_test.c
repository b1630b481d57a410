/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float_state_test.c - whatever a thread has set, it is as this library counts with it in between, and as the thread
 * has it afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simd/float_state.h"

/* Each alone differs from what this library counts with. */
static const uint64_t settings[] = {
#if defined(__x86_64__)
	0x2000, /* down */
	0x4000, /* up */
	0x6000, /* toward zero */
	0x8000, /* results that are denormal become 0, */
	0x40,   /* and operands */
	0x1000, /* traps: of what is inexact, */
	0x80,   /* and invalid: on where this bit is not set */
#elif defined(__aarch64__)
	1 << 22, /* up */
	2 << 22, /* down */
	3 << 22, /* toward zero */
	1 << 24, /* denormals are 0 */
#endif
	0,
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) - 1, INEXACT = 0x20, DIVIDED_BY_ZERO = 4 };

static void state__is_the_librarys_in_between_and_the_threads_afterwards(void **state)
{
	uint64_t before = float_state_read();

	(void)state;
	for (uint32_t i = 0; i < SETTINGS; i++) {
		uint64_t set = FLOAT_STATE_DEFAULT ^ settings[i], begun, between, after;

		float_state_write(set);
		begun = float_state_begin();
		between = float_state_read();
		float_state_end(begun);
		after = float_state_read();
		float_state_write(before);
		assert_int_equal(between, FLOAT_STATE_DEFAULT);
		assert_int_equal(after, set);
	}
}

/* They say what the thread has computed so far: it may ask for them. */
static void state__flags_are_no_setting_and_stay(void **state)
{
	uint64_t before = float_state_read(), between, after;

	(void)state;
	if (!FLOAT_STATE_FLAGS)
		return; /* they are elsewhere: nothing here touches them */
	float_state_write(FLOAT_STATE_DEFAULT | INEXACT);
	uint64_t begun = float_state_begin();
	between = float_state_read();
	float_state_write(between | DIVIDED_BY_ZERO);
	float_state_end(begun);
	after = float_state_read();
	float_state_write(before);
	assert_int_equal(between, FLOAT_STATE_DEFAULT | INEXACT);
	assert_int_equal(after, FLOAT_STATE_DEFAULT | INEXACT | DIVIDED_BY_ZERO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(state__is_the_librarys_in_between_and_the_threads_afterwards),
		cmocka_unit_test(state__flags_are_no_setting_and_stay),
	};

	return cmocka_run_group_tests_name("float-state", tests, NULL, NULL);
}
