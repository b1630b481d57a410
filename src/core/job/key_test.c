/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/job/key.h"

static void key__equal_keys_match(void **state)
{
	(void)state;
	char a[CONTROL_KEY_BYTES] = "sesame", b[CONTROL_KEY_BYTES] = "sesame";
	char none[CONTROL_KEY_BYTES] = "", longest[CONTROL_KEY_BYTES];

	assert_true(key_matches(a, b));
	assert_true(key_matches(none, none));
	memset(longest, 'k', sizeof(longest) - 1);
	longest[CONTROL_KEY_BYTES - 1] = 0;
	assert_true(key_matches(longest, longest));
	assert_false(key_matches(longest, a));
	assert_false(key_matches(none, a));
}

/* The first byte, the last, each bit: none of them counts less. */
static void key__one_bit_anywhere_is_another_key(void **state)
{
	(void)state;
	char a[CONTROL_KEY_BYTES], b[CONTROL_KEY_BYTES];

	for (uint32_t i = 0; i < CONTROL_KEY_BYTES; i++)
		a[i] = (char)(i * 37 + 1);
	for (uint32_t bit = 0; bit < 8 * CONTROL_KEY_BYTES; bit++) {
		memcpy(b, a, sizeof(b));
		b[bit / 8] = (char)(b[bit / 8] ^ 1 << bit % 8);
		assert_false(key_matches(a, b));
		assert_false(key_matches(b, a));
	}
	memcpy(b, a, sizeof(b));
	b[3] = (char)(b[3] ^ 0x10);
	b[4] = (char)(b[4] ^ 0x10); /* two differences do not make up for one another */
	assert_false(key_matches(a, b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__equal_keys_match),
		cmocka_unit_test(key__one_bit_anywhere_is_another_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
