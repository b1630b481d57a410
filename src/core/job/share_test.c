/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/job/share.h"

enum { ALL = 64, HALF = 50, FEW = 4 };

static void share__of_one_alone_is_half(void **state)
{
	(void)state;
	assert_int_equal(share_most(ALL, 0, HALF, FEW), 32);
	assert_true(share_allows(ALL, 0, 31, 1, HALF, FEW));
	assert_false(share_allows(ALL, 0, 32, 1, HALF, FEW));
	assert_true(share_allows(ALL, 0, 32, 1, SHARE_ALL, FEW));
	assert_true(
		share_allows(ALL, 60, 5, 1, SHARE_ALL, FEW)); /* no limit: not even what is left */
	assert_false(share_allows(ALL, 60, 5, 1, SHARE_ALL - 1, FEW));
	assert_int_equal(share_most(UINT64_MAX, 0, 100, 0), UINT64_MAX); /* nothing overflows */
	assert_int_equal(share_most(ALL, ALL + 1, HALF, FEW), 0);
}

/* Each takes as much as it may, in turn: of nobody's share is there ever nothing, until fewer than a few are left. */
static void share__leaves_some_for_whoever_comes_next(void **state)
{
	uint32_t others = 0, addresses = 0;

	(void)state;
	while (others < ALL) {
		uint64_t most = share_most(ALL, others, HALF, FEW);

		assert_true(most >= 1);
		if (ALL - others >= FEW)
			assert_true(most >= FEW);
		if (most > FEW)
			assert_true(others + most < ALL);
		others += (uint32_t)most;
		addresses++;
	}
	assert_int_equal(addresses, 5); /* 32, 16, 8, 4, 4 */
}

static void share__is_never_less_than_a_few_nor_more_than_there_is(void **state)
{
	(void)state;
	assert_int_equal(share_most(2, 0, HALF, FEW), 2);
	assert_int_equal(share_most(ALL, 58, HALF, FEW), 4);
	assert_int_equal(share_most(ALL, 62, HALF, FEW), 2);
	assert_int_equal(share_most(ALL, 0, 1, 0), 1); /* rounded up */
	assert_int_equal(share_most(ALL, 0, 1, FEW), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share__of_one_alone_is_half),
		cmocka_unit_test(share__leaves_some_for_whoever_comes_next),
		cmocka_unit_test(share__is_never_less_than_a_few_nor_more_than_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
