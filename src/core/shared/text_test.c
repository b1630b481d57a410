/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/text.h"

static void text__formats_strings_and_numbers(void **state)
{
	(void)state;
	char buffer[64];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "%s: %u of %llu, 100%%", "a", 7u, (unsigned long long)UINT64_MAX);
	text_add(&text, "!");
	assert_string_equal(buffer, "a: 7 of 18446744073709551615, 100%!");
}

static void text__is_cut_at_the_end_of_the_buffer(void **state)
{
	(void)state;
	char buffer[8] = "xxxxxxx";
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "123456789");
	text_add(&text, "0");
	assert_string_equal(buffer, "1234567");
}

static void text__is_never_cut_inside_a_character(void **state)
{
	(void)state;
	char buffer[6];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "%s", "abcd\xc3\xa9");
	assert_string_equal(buffer, "abcd");
	text_add(&text, "e"); /* what follows a cut is not there either */
	assert_string_equal(buffer, "abcd");
	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "%s", "abc\xc3\xa9z");
	assert_string_equal(buffer, "abc\xc3\xa9");
	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "%s", "ab\xf0\x9f\x98\x80");
	assert_string_equal(buffer, "ab");
}

static void text__control_characters_of_a_peer_do_not_end_a_line(void **state)
{
	(void)state;
	char buffer[32];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	text_add(&text, "%s", "a\nb\x1b[1m\x7f");
	assert_string_equal(buffer, "a?b?[1m?");
	/* CSI in one character; its neighbours U+00A0 and U+00C2, and half a one, are none. */
	text_copy(buffer, sizeof(buffer),
		  "\xc2\x9b"
		  "1m\xc2\x80\xc2\xa0\xc3\x82\xc2");
	assert_string_equal(buffer, "?1m?\xc2\xa0\xc3\x82\xc2");
}

static void text__ranks_are_listed_as_runs(void **state)
{
	(void)state;
	char buffer[64];
	struct text text;
	struct text_ranks ranks = { { 0 } };

	text_ranks_put(&ranks, 2);
	text_begin(&text, buffer, sizeof(buffer));
	text_add_ranks(&text, &ranks);
	assert_string_equal(buffer, "rank 2");
	text_ranks_put(&ranks, 256 + 9); /* no rank, and no alias of one */
	text_ranks_drop(&ranks, 256 + 2);
	text_ranks_put(&ranks, 8);
	text_ranks_drop(&ranks, 8);
	text_ranks_put(&ranks, 3);
	text_ranks_put(&ranks, 63);
	text_ranks_put(&ranks, 64);
	text_ranks_put(&ranks, 65);
	text_ranks_put(&ranks, 255);
	text_begin(&text, buffer, sizeof(buffer));
	text_add_ranks(&text, &ranks);
	assert_string_equal(buffer, "ranks 2, 3, 63-65, 255");
	assert_int_equal(text_ranks_count(&ranks), 6);
}

static void text__copy_leaves_zeros_behind(void **state)
{
	(void)state;
	char buffer[8];

	memset(buffer, 'x', sizeof(buffer));
	text_copy(buffer, sizeof(buffer), "ab");
	assert_memory_equal(buffer, "ab\0\0\0\0\0", 8);
	text_copy(buffer, sizeof(buffer), "abcdefghij");
	assert_string_equal(buffer, "abcdefg");
}

static void text__clean_leaves_no_control_character(void **state)
{
	char all[] = "a\nb\x1b[2J\x7f\xc2\x9b c\xc3\xa9\t", empty[] = "";

	(void)state;
	text_clean(all);
	assert_string_equal(all, "a?b?[2J??? c\xc3\xa9?");
	text_clean(empty);
	assert_string_equal(empty, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text__clean_leaves_no_control_character),
		cmocka_unit_test(text__formats_strings_and_numbers),
		cmocka_unit_test(text__is_cut_at_the_end_of_the_buffer),
		cmocka_unit_test(text__is_never_cut_inside_a_character),
		cmocka_unit_test(text__control_characters_of_a_peer_do_not_end_a_line),
		cmocka_unit_test(text__ranks_are_listed_as_runs),
		cmocka_unit_test(text__copy_leaves_zeros_behind),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
