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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash__is_the_published_one),
		cmocka_unit_test(hash__of_parts_is_that_of_the_whole),
		cmocka_unit_test(hash__of_a_number_is_that_of_its_bytes_lowest_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
