/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "util/rng.h"

static bool is_taken(const char *text)
{
	json_t *string = json_string(text);
	bool is = string != NULL;

	json_decref(string);
	return is;
}

static void assert_becomes(const char *from, const char *wanted)
{
	char to[64];

	assert_string_equal(utf8_copy(to, sizeof(to), from), wanted);
}

static void utf8__what_is_none_becomes_question_marks_and_all_else_stays(void **state)
{
	(void)state;
	assert_becomes("", "");
	assert_becomes("plain \"text\"\n", "plain \"text\"\n");
	assert_becomes("M\xc3\xbcnchen", "M\xc3\xbcnchen");
	assert_becomes("M\xfcnchen, M\xc3\xbcnchen", "M?nchen, M\xc3\xbcnchen");
	assert_becomes("cut \xc3", "cut ?");
	assert_becomes("cut \xf0\x9f\x98", "cut ???");
	assert_becomes("\xf0\x9f\x98\x80\xe2\x82\xac", "\xf0\x9f\x98\x80\xe2\x82\xac");
	assert_becomes("longer than needed \xc0\xaf", "longer than needed ??");
	assert_becomes("half a pair \xed\xa0\x80", "half a pair ???");
	assert_becomes("too high \xf4\x90\x80\x80", "too high ????");
}

static void utf8__is_cut_between_two_characters(void **state)
{
	char to[8];

	(void)state;
	assert_string_equal(utf8_copy(to, 1, "a"), "");
	assert_string_equal(utf8_copy(to, 3, "abc"), "ab");
	assert_string_equal(utf8_copy(to, 3, "a\xc3\xbc"), "a");
	assert_string_equal(utf8_copy(to, 4, "a\xc3\xbc"), "a\xc3\xbc");
	assert_string_equal(utf8_copy(to, 5, "ab\xe2\x82\xac"), "ab");
}

/* What JSON takes is not touched, and the rest it takes then. */
static void utf8__agrees_with_json(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (uint32_t bits = 1; bits < 1u << 24; bits += 1 + bits % 13) {
		char from[5] = { (char)(bits >> 16), (char)(bits >> 8), (char)bits,
				 (char)rng_next(&rng) };
		char to[5];

		utf8_copy(to, sizeof(to), from);
		assert_true(is_taken(to));
		assert_int_equal(strlen(to), strlen(from));
		assert_int_equal(is_taken(from), !strcmp(to, from));
	}
}

static void utf8__any_text_becomes_a_word(void **state)
{
	char host[] = "h\xc3\xb6st\t1 \x7f!~", word[] = "node-1.lan";

	(void)state;
	assert_string_equal(utf8_to_word(host), "h__st_1__!~");
	assert_string_equal(utf8_to_word(word), "node-1.lan");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8__what_is_none_becomes_question_marks_and_all_else_stays),
		cmocka_unit_test(utf8__is_cut_between_two_characters),
		cmocka_unit_test(utf8__agrees_with_json),
		cmocka_unit_test(utf8__any_text_becomes_a_word),
	};

	return cmocka_run_group_tests_name("util-utf8", tests, NULL, NULL);
}
