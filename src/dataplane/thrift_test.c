/* SPDX-License-Identifier: Apache-2.0 */
/* thrift_test.c - calls to the byte, as Thrift's binary protocol says them, and answers that are whole, cut or wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/thrift.h"

static void thrift__writes_a_call_to_the_byte(void **state)
{
	static const uint8_t want[] = {
		0x80, 1,    0, 1,    0,    0, 0, 3,   's', ':', 'm', 0xff, 0xff,
		0xff, 0xfe,                                                   /* call, "s:m", -2 */
		8,    0,    1, 0x80, 0,    0, 1,                              /* 1: i32 */
		10,   0,    2, 0,    0,    0, 1, 0,   0,   0,   2,            /* 2: i64 */
		4,    0,    3, 0x3f, 0xe0, 0, 0, 0,   0,   0,   0,            /* 3: 0.5 */
		2,    0,    4, 1,                                             /* 4: true */
		11,   0,    5, 0,    0,    0, 2, 'h', 'i',                    /* 5: "hi" */
		15,   0,    6, 11,   0,    0, 0, 1,   0,   0,   0,   1,    7, /* 6: ["\7"] */
		12,   0,    7, 8,    0,    1, 0, 0,   0,   9,   0,            /* 7: { 1: 9 } */
		0,
	};
	uint8_t bytes[sizeof(want)];
	struct thrift_out out = { .data = bytes, .room = sizeof(bytes) };

	(void)state;
	thrift_call(&out, "s:m", -2);
	thrift_i32(&out, 1, INT32_MIN + 1);
	thrift_i64(&out, 2, (1ll << 32) + 2);
	thrift_double(&out, 3, 0.5);
	thrift_bool(&out, 4, true);
	thrift_text(&out, 5, "hi");
	thrift_list(&out, 6, THRIFT_STRING, 1);
	thrift_element(&out, "\7", 1);
	thrift_struct(&out, 7);
	thrift_i32(&out, 1, 9);
	thrift_end(&out);
	thrift_end(&out);
	assert_int_equal(out.used, sizeof(want));
	assert_memory_equal(bytes, want, sizeof(want));
	assert_false(out.is_full);
	thrift_end(&out);
	assert_true(out.is_full);
	assert_int_equal(out.used, sizeof(want));
}

#define BEGIN 0x80, 1, 0, 2, 0, 0, 0, 1, 'm', 0, 0, 0, 7

/* All that is shorter is its beginning, and what follows is none of it. */
static struct thrift_answer read_whole(const uint8_t *bytes, uint32_t count)
{
	struct thrift_answer answer;

	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(thrift_read(bytes, i, &answer), THRIFT_MORE);
	assert_int_equal(thrift_read(bytes, count, &answer), THRIFT_OK);
	assert_int_equal(answer.bytes, count);
	assert_int_equal(answer.serial, 7);
	return answer;
}

static void thrift__reads_what_a_method_returns(void **state)
{
	static const uint8_t nothing[] = { BEGIN, 0 },
			     number[] = { BEGIN, 8, 0, 0, 0xff, 0xff, 0xff, 0xfd, 0 };
	static const uint8_t wide[] = { BEGIN, 10, 0, 0, 0x12, 0x34, 0, 0, 0, 0, 0, 5, 0 };
	static const uint8_t pair[] = { BEGIN, 12, 0, 0, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0,
					3,     10, 0, 2, 0,  0, 0, 0, 0, 0, 1, 4, 0, 0 };
	struct thrift_answer answer;

	(void)state;
	answer = read_whole(nothing, sizeof(nothing));
	assert_false(answer.is_refused);
	assert_int_equal(answer.type, THRIFT_STOP);
	assert_int_equal(read_whole(number, sizeof(number)).number, -3);
	assert_int_equal(read_whole(wide, sizeof(wide)).number, 0x1234000000000005);
	answer = read_whole(pair, sizeof(pair));
	assert_int_equal(answer.type, THRIFT_STRUCT);
	assert_int_equal(answer.number, 3);
	assert_int_equal(answer.second, 260);
}

static void thrift__reads_a_refusal(void **state)
{
	static const uint8_t thrown[] = { BEGIN, 12, 0, 1, 8, 0, 1, 0, 0, 0, 17, 0, 0 };
	static const uint8_t unknown[] = { 0x80, 1, 0, 3, 0,   0, 0,   1, 'm', 0, 0, 0, 7, 11, 0, 1,
					   0,    0, 0, 3, 'n', 1, 'o', 8, 0,   2, 0, 0, 0, 1,  0 };
	struct thrift_answer answer;

	(void)state;
	answer = read_whole(thrown, sizeof(thrown));
	assert_true(answer.is_refused);
	assert_int_equal(answer.code, 17);
	answer = read_whole(unknown, sizeof(unknown));
	assert_true(answer.is_refused);
	assert_int_equal(answer.code, 0);
	assert_string_equal(answer.text, "n?o");
}

static void thrift__reads_a_list_of_structs(void **state)
{
	static const uint8_t list[] = { BEGIN, 15, 0,  0, 12, 0, 0,   0,  2, /* two of: */
					8,     0,  1,  0, 0,  0, 64,  13, 0, 4, 11, 2, 0, 0,
					0,     1,  0,  0, 0,  1, 'k', 1,  0, 8, 0,  1, 0, 0,
					0,     65, 14, 0, 9,  6, 0,   0,  0, 1, 0,  7, 0, 0 };
	struct thrift_answer answer;
	struct thrift_in in;
	int16_t field;

	(void)state;
	answer = read_whole(list, sizeof(list));
	assert_int_equal(answer.type, THRIFT_LIST);
	in = (struct thrift_in){ .data = list, .bytes = answer.bytes, .used = answer.value };
	assert_int_equal(thrift_take_list(&in, THRIFT_STRUCT), 2);
	assert_int_equal(thrift_take_field(&in, &field), THRIFT_I32);
	assert_int_equal(thrift_take(&in, 4), 64);
	assert_int_equal(thrift_take_field(&in, &field), THRIFT_MAP);
	assert_int_equal(field, 4);
	thrift_skip(&in, THRIFT_MAP);
	assert_int_equal(thrift_take_field(&in, &field), THRIFT_STOP);
	assert_int_equal(thrift_take_field(&in, &field), THRIFT_I32);
	assert_int_equal(thrift_take(&in, 4), 65);
	assert_int_equal(in.result, THRIFT_OK);
	in.used = answer.value;
	assert_int_equal(thrift_take_list(&in, THRIFT_STRING), 0);
	assert_int_equal(in.result, THRIFT_BAD);
}

static void thrift__takes_no_nonsense(void **state)
{
	static const struct {
		uint8_t bytes[40];
		uint32_t count;
	} wrong[] = {
		{ { 'H', 'T', 'T', 'P' }, 4 },
		{ { 0x80, 1, 0, 1 }, 4 },                               /* a call */
		{ { 0x80, 2, 0, 2 }, 4 },                               /* another version */
		{ { 0x80, 1, 0, 2, 0xff, 0xff, 0xff, 0xff }, 8 },       /* a name without end */
		{ { BEGIN, 5, 0, 0 }, 16 },                             /* no such type */
		{ { BEGIN, 15, 0, 0, 8, 0x7f, 0xff, 0xff, 0xff }, 21 }, /* a list without end */
		{ { BEGIN, 8, 0, 1, 0, 0, 0, 1 }, 20 }, /* an exception that is a number */
		{
			{ BEGIN, 15, 0,  0, 15, 0, 0, 0,  1, 15, 0, 0,
			  0,     1,  15, 0, 0,  0, 1, 15, 0, 0,  0, 1 },
			36 }, /* deep: */
	};
	uint8_t deep[128] = { BEGIN, 12, 0, 0 };
	struct thrift_answer answer;

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(thrift_read(wrong[i].bytes, wrong[i].count, &answer), THRIFT_BAD);
	assert_int_equal(thrift_read(wrong[7].bytes, wrong[7].count, &answer), THRIFT_MORE);
	for (uint32_t i = 16; i + 3 <= sizeof(deep); i += 3)
		deep[i] = THRIFT_STRUCT;
	assert_int_equal(thrift_read(deep, sizeof(deep), &answer), THRIFT_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thrift__writes_a_call_to_the_byte),
		cmocka_unit_test(thrift__reads_what_a_method_returns),
		cmocka_unit_test(thrift__reads_a_refusal),
		cmocka_unit_test(thrift__reads_a_list_of_structs),
		cmocka_unit_test(thrift__takes_no_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
