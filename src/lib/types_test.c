/* SPDX-License-Identifier: Apache-2.0 */
/* types_test.c - which types and operations go together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/types.h"
#include "tally.h"

/* In the order of enum tally_op: l, lanes add it up; g, it is gathered; -, it is refused. */
static const struct {
	uint32_t dtype, bytes;
	const char *ops;
} types[] = {
	{ TALLY_INT8, 1, "lglllggggggggg" },        { TALLY_UINT8, 1, "lglllggggggggg" },
	{ TALLY_INT32, 4, "lglllggggggggg" },       { TALLY_UINT32, 4, "lglllggggggggg" },
	{ TALLY_INT64, 8, "lggglggggggggg" },       { TALLY_UINT64, 8, "lggglggggggggg" },
	{ TALLY_FLOAT16, 2, "lglll------ggg" },     { TALLY_FLOAT32, 4, "lglll------ggg" },
	{ TALLY_FLOAT64, 8, "lgggl------ggg" },     { TALLY_BFLOAT16, 2, "lglll------ggg" },
	{ TALLY_BOOL, 1, "--gg-gggggg--g" },        { TALLY_COMPLEX64, 8, "lg--l--------g" },
	{ TALLY_COMPLEX128, 16, "lg--l--------g" },
};

static void types__have_their_operations(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		assert_int_equal(strlen(types[i].ops), TALLY_USER + 1);
		assert_int_equal(type_bytes(types[i].dtype), types[i].bytes);
		for (int op = TALLY_SUM; op <= TALLY_USER; op++) {
			bool is_lanes = type_lanes_can(types[i].dtype, op);

			assert_int_equal(is_lanes, types[i].ops[op] == 'l');
			if (!is_lanes)
				assert_int_equal(type_fold_can(types[i].dtype, op),
						 types[i].ops[op] == 'g');
		}
	}
}

static void types__travel_as_what_they_are_made_of(void **state)
{
	struct control_op op = { .type = lanes_word(TALLY_COMPLEX128, LANES_EXACT, 0) };

	(void)state;
	assert_int_equal(type_of(TALLY_BOOL).lanes, LANES_UINT8);
	assert_int_equal(type_of(TALLY_COMPLEX64).lanes, LANES_FLOAT32);
	assert_int_equal(type_of_op(&op).lanes, LANES_FLOAT64);
	assert_int_equal(type_of_op(&op).elements, 2);
	assert_int_equal(type_of(TALLY_BFLOAT16).lanes, LANES_BFLOAT16);
	assert_int_equal(type_of(TALLY_BFLOAT16).elements, 1);
	for (int one = TALLY_SUM; one <= TALLY_USER; one++)
		assert_int_equal(type_pair(one),
				 one == TALLY_MINLOC || one == TALLY_MAXLOC ? 2 : 1);
	for (uint32_t dtype = TALLY_INT8; dtype <= TALLY_COMPLEX128; dtype++) {
		assert_int_equal(type_is_float(dtype), dtype >= 6 && dtype <= 9);
		assert_int_equal(type_is_signed(dtype), dtype == 0 || dtype == 2 || dtype == 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types__have_their_operations),
		cmocka_unit_test(types__travel_as_what_they_are_made_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
