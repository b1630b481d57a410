/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/sip.h"

enum { BYTES_MAX = 64 };

static uint8_t key[SIP_KEY_BYTES], text[BYTES_MAX];

static int count_up(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SIP_KEY_BYTES; i++)
		key[i] = (uint8_t)i;
	for (uint32_t i = 0; i < BYTES_MAX; i++)
		text[i] = (uint8_t)i;
	return 0;
}

/* The numbers of its authors' own test: key 00 01 .. 0f, text 00 01 .. of 0, 1, 7, 8, 15 and 63 bytes. */
static void sip64__says_what_its_authors_say(void **state)
{
	static const struct {
		uint32_t bytes;
		uint64_t is;
	} said[] = {
		{ 0, 0x726fdb47dd0e0e31ull },  { 1, 0x74f839c593dc67fdull },
		{ 7, 0xab0200f58b01d137ull },  { 8, 0x93f5f5799a932462ull },
		{ 15, 0xa129ca6149be45e5ull }, { 63, 0x958a324ceb064572ull },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		assert_int_equal(sip64(key, text, said[i].bytes), said[i].is);
}

/* Of each bit of the key, and of the text, half of the answer hangs on. */
static void sip__every_bit_of_key_and_text_counts(void **state)
{
	uint64_t before = sip64(key, text, 24);

	(void)state;
	for (uint32_t bit = 0; bit < (SIP_KEY_BYTES + 24) * 8; bit++) {
		bool is_key = bit < SIP_KEY_BYTES * 8;
		uint8_t *at = is_key ? &key[bit / 8] : &text[bit / 8 - SIP_KEY_BYTES];
		int changed;

		*at ^= (uint8_t)(1 << bit % 8);
		changed = __builtin_popcountll(sip64(key, text, 24) ^ before);
		*at ^= (uint8_t)(1 << bit % 8);
		assert_in_range(changed, 10, 54);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sip64__says_what_its_authors_say),
		cmocka_unit_test(sip__every_bit_of_key_and_text_counts),
	};

	return cmocka_run_group_tests(tests, count_up, NULL);
}
