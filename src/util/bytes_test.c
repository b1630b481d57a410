/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_test.c - numbers go into files and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "util/bytes.h"

static void numbers__are_so_many_bytes_lowest_first(void **state)
{
	static const uint8_t written[8] = { 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0xf1 };
	const uint64_t number = 0xf123456789abcdef;

	(void)state;
	for (uint32_t bytes = 1; bytes <= 8; bytes++) {
		uint8_t at[10], untouched[10];

		memset(at, 0x5a, sizeof(at));
		memset(untouched, 0x5a, sizeof(untouched));
		bytes_put(at + 1, number, bytes);
		assert_int_equal(at[0], 0x5a);
		assert_memory_equal(at + 1, written, bytes);
		assert_memory_equal(at + 1 + bytes, untouched, sizeof(at) - 1 - bytes);
		assert_true(bytes_get(at + 1, bytes) == (number & UINT64_MAX >> (64 - 8 * bytes)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers__are_so_many_bytes_lowest_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
