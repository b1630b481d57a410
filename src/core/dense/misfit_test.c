/* SPDX-License-Identifier: Apache-2.0 */
/* What a packet that no sound member sends is called, whatever refused it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/dense/misfit.h"

static void misfit__every_fault_of_shape_has_its_name(void **state)
{
	(void)state;
	assert_int_equal(misfit_of_fault(WIRE_OK), MISFIT_NONE);
	assert_int_equal(misfit_of_fault(WIRE_FAULT_SHORT), MISFIT_NONE); /* from whom? */
	assert_int_equal(misfit_of_fault(WIRE_FAULT_VERSION), MISFIT_VERSION);
	assert_int_equal(misfit_of_fault(WIRE_FAULT_TYPE), MISFIT_TYPE);
	assert_int_equal(misfit_of_fault(WIRE_FAULT_LANES), MISFIT_LANES);
	assert_int_equal(misfit_of_fault(WIRE_FAULT_LENGTH), MISFIT_LENGTH);
	assert_int_equal(misfit_of_fault(WIRE_FAULT_FLAGS), MISFIT_FLAGS);
}

static void misfit__only_verdicts_that_a_sound_member_never_gets_are_misfits(void **state)
{
	static const enum misfit wanted[SWITCH_VERDICT_COUNT] = {
		[SWITCH_MISMATCH] = MISFIT_DIFFERS, [SWITCH_DROP_TYPE] = MISFIT_TYPE,
		[SWITCH_DROP_SLOT] = MISFIT_SLOT,   [SWITCH_DROP_LANES] = MISFIT_MORE_LANES,
		[SWITCH_DROP_ALARM] = MISFIT_AHEAD,
	};

	(void)state;
	for (uint32_t verdict = 0; verdict < SWITCH_VERDICT_COUNT; verdict++)
		assert_int_equal(misfit_of_verdict((enum switch_verdict)verdict), wanted[verdict]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(misfit__every_fault_of_shape_has_its_name),
		cmocka_unit_test(misfit__only_verdicts_that_a_sound_member_never_gets_are_misfits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
