/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/shared/hash.h"

/* The numbers are of its authors' page. */
static void hash__is_the_published_one(void **state)
{
	(void)state;
	assert_true(hash_text(HASH_BEGIN, "") == 0xcbf29ce484222325);
	assert_true(hash_text(HASH_BEGIN, "a") == 0xaf63dc4c8601ec8c);
	assert_true(hash_text(HASH_BEGIN, "foobar") == 0x85944171f73967e8);
	assert_true(hash_text(HASH_BEGIN, "chongo was here!\n") == 0x46810940eff5f915);
	assert_true(hash_bytes(HASH_BEGIN, "foobar", 6) == 0x85944171f73967e8);
	assert_true(hash_byte(HASH_BEGIN, 0) == 0xaf63bd4c8601b7df);
}

static void hash__of_parts_is_that_of_the_whole(void **state)
{
	(void)state;
	assert_true(hash_text(hash_text(HASH_BEGIN, "foo"), "bar") ==
		    hash_text(HASH_BEGIN, "foobar"));
}

static void hash__of_a_number_is_that_of_its_bytes_lowest_first(void **state)
{
	static const uint8_t bytes[] = { 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11 };

	(void)state;
	for (uint32_t count = 0; count <= sizeof(bytes); count++)
		assert_true(hash_number(HASH_BEGIN, 0x1122334455667788, count) ==
			    hash_bytes(HASH_BEGIN, bytes, count));
}

/* Bytes of 0 are taken together: before, between and behind others, and what is above the bytes asked for is not there. */
static void hash__of_a_number_counts_its_zeros(void **state)
{
	static const uint64_t values[] = {
		0, 1, 0xff, 0x100, 0x10000, 0x7f0000ff00, 1ull << 56, 0xff00ff00ff00ff00, ~0ull
	};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		for (uint32_t count = 0; count <= 8; count++) {
			uint8_t bytes[8];

			for (uint32_t k = 0; k < 8; k++)
				bytes[k] = (uint8_t)(values[i] >> 8 * k);
			assert_true(hash_number(HASH_BEGIN, values[i], count) ==
				    hash_bytes(HASH_BEGIN, bytes, count));
		}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash__is_the_published_one),
		cmocka_unit_test(hash__of_parts_is_that_of_the_whole),
		cmocka_unit_test(hash__of_a_number_is_that_of_its_bytes_lowest_first),
		cmocka_unit_test(hash__of_a_number_counts_its_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
