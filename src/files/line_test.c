/* SPDX-License-Identifier: Apache-2.0 */
/* line_test.c - lines of a source, however its bytes come: claims. */
#include "files/line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What is read: `bytes` of `text`, or of fill at first; at most `most` at once, and then the end or an error. */
static struct {
	const char *text;
	size_t bytes, at, fill, most;
	int error;
} file;

static char error[FILES_ERROR_MAX];
static struct line line;

static ssize_t read_some(void *arg, void *to, size_t bytes)
{
	size_t got = bytes < file.most ? bytes : file.most, left;

	(void)arg;
	if (line.buffer) /* the last byte is of what ends a line */
		assert_true((char *)to + bytes <= line.buffer + LINE_BYTES_MAX);
	if (file.fill) {
		got = got < file.fill ? got : file.fill;
		memset(to, 'x', got);
		file.fill -= got;
		return (ssize_t)got;
	}
	left = file.bytes - file.at;
	got = got < left ? got : left;
	if (!got && file.error) {
		errno = file.error;
		return -1;
	}
	memcpy(to, file.text + file.at, got);
	file.at += got;
	return (ssize_t)got;
}

static void open_text(const char *text, size_t bytes, size_t most)
{
	struct source *source;

	file.text = text;
	file.bytes = bytes;
	file.most = most;
	file.at = 0;
	assert_int_equal(source_open_read(&source, "F", read_some, NULL, error), 0);
	assert_int_equal(line_open(&line, source, error), 0);
}

static int begin(void **state)
{
	(void)state;
	memset(&file, 0, sizeof(file));
	memset(&line, 0, sizeof(line));
	return 0;
}

static int end(void **state)
{
	(void)state;
	line_close(&line);
	assert_memory_equal(&line, &(struct line){ 0 }, sizeof(line));
	line_close(&line); /* zeros are fine */
	return 0;
}

static void expect_line(uint64_t number, const char *want, size_t bytes)
{
	assert_int_equal(line_next(&line, error), 1);
	assert_int_equal(line.number, number);
	assert_int_equal(line.end - line.at, bytes);
	assert_memory_equal(line.at, want, bytes);
	assert_int_equal(*line.end, 0);
}

static void lines__are_without_what_ends_them(void **state)
{
	static const char text[] = "one\n\n two \r\n\r\nthr\ree\0 zero\n\r\r\nlast";
	static const size_t most[] = { 1, 2, 3, 5, 1000 };

	(void)state;
	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		open_text(text, sizeof(text) - 1, most[i]);
		expect_line(1, "one", 3);
		expect_line(2, "", 0);
		expect_line(3, " two ", 5);
		expect_line(4, "", 0);
		expect_line(5, "thr\ree\0 zero", 12);
		expect_line(6, "\r", 1);
		expect_line(7, "last", 4);
		assert_int_equal(line_next(&line, error), 0);
		assert_int_equal(line_next(&line, error), 0);
		line_close(&line);
	}
}

static void line__that_is_the_last_may_end_or_not(void **state)
{
	static const struct {
		const char *text, *want;
	} texts[] = { { "a\n", "a" }, { "a", "a" }, { "a\r", "a" }, { "\n", "" }, { "\r", "" } };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		open_text(texts[i].text, strlen(texts[i].text), 1000);
		expect_line(1, texts[i].want, strlen(texts[i].want));
		assert_int_equal(line_next(&line, error), 0);
		line_close(&line);
	}
	open_text("", 0, 1000);
	assert_int_equal(line_next(&line, error), 0);
}

/* With what ends it, 8 MiB. */
static void line__is_as_long_as_one_may_be(void **state)
{
	static const size_t more[] = { 1 << 16, 1000, 1 << 20 };

	(void)state;
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		file.fill = LINE_BYTES_MAX - 1;
		open_text("\nb\n", 3, more[i]);
		assert_int_equal(line_next(&line, error), 1);
		assert_int_equal(line.end - line.at, LINE_BYTES_MAX - 1);
		assert_int_equal(line.at[0], 'x');
		assert_int_equal(line.end[-1], 'x');
		expect_line(2, "b", 1);
		line_close(&line);
		file.fill = LINE_BYTES_MAX;
		open_text("\nb\n", 3, more[i]);
		assert_int_equal(line_next(&line, error), -1);
		assert_string_equal(error, "F:1:1: a line of more than 8388608 bytes");
		line_close(&line);
	}
}

/* Short ones in front of a long one, which has the whole buffer all the same. */
static void line__has_the_room_of_those_before(void **state)
{
	enum { SHORT = 1000, COUNT = 6000 };
	size_t bytes = (size_t)SHORT * COUNT + LINE_BYTES_MAX;
	char *text = malloc(bytes);

	(void)state;
	assert_non_null(text);
	memset(text, 'y', bytes);
	for (size_t i = 1; i <= COUNT; i++)
		text[i * SHORT - 1] = '\n';
	text[bytes - 1] = '\n';
	open_text(text, bytes, 1 << 16);
	for (uint64_t i = 1; i <= COUNT; i++)
		expect_line(i, text, SHORT - 1);
	assert_int_equal(line_next(&line, error), 1);
	assert_int_equal(line.end - line.at, LINE_BYTES_MAX - 1);
	assert_int_equal(line.number, COUNT + 1);
	assert_int_equal(line_next(&line, error), 0);
	free(text);
}

/* It is read to the end of the buffer, and not over it. */
static void line__behind_a_short_one_is_not_longer_than_another(void **state)
{
	size_t bytes = 3 + LINE_BYTES_MAX + 6;
	char *text = malloc(bytes);

	(void)state;
	assert_non_null(text);
	memset(text, 'y', bytes);
	text[2] = text[bytes - 1] = '\n';
	open_text(text, bytes, 1 << 16);
	expect_line(1, "yy", 2);
	assert_int_equal(line_next(&line, error), -1);
	assert_string_equal(error, "F:2:1: a line of more than 8388608 bytes");
	free(text);
}

static void line__of_what_cannot_be_read_is_none(void **state)
{
	struct {
		char error[FILES_ERROR_MAX], behind;
	} why = { .behind = 'b' };

	(void)state;
	file.error = EIO;
	open_text("one\ntwo", 7, 7);
	expect_line(1, "one", 3);
	assert_int_equal(line_next(&line, why.error), -1);
	assert_memory_equal(why.error, "F: Input/output error", 21);
	assert_int_equal(why.behind, 'b');
}

static void fault__has_its_place_and_what_can_be_shown(void **state)
{
	(void)state;
	open_text("ab\ncd \x1f\x20~\x7f\xff fghijklmnopqrstuvwxyz\n", 34, 1000);
	expect_line(1, "ab", 2);
	assert_int_equal(line_fail(&line, line.at, line.at, "nothing", " there", error), -1);
	assert_string_equal(error, "F:1:1: nothing there");
	assert_int_equal(line_next(&line, error), 1);
	line_fail(&line, line.at + 3, line.at + 8, "the word ", " is odd", error);
	assert_string_equal(error, "F:2:4: the word '? ~?\?' is odd");
	line_fail(&line, line.at + 5, line.at + 29, "", "", error);
	assert_string_equal(error, "F:2:6: '~?\? fghijklmnopqrstuvwxy'");
	line_fail(&line, line.at + 5, line.at + 30, "", "", error);
	assert_string_equal(error, "F:2:6: '~?\? fghijklmnopqrstuvwxy...'");
	line_fail(&line, line.end, line.end, "ends", "", error);
	assert_string_equal(error, "F:2:31: ends");
	assert_string_equal(files_show("~\x7f", 2).text, "~?");
}

static void fault__has_room_behind_a_long_name(void **state)
{
	char name[600];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(files_fail_at(error, name, 12, 34, "it is odd"), -1);
	assert_string_equal(error + 300, ":12:34: it is odd");
	assert_int_equal(files_fail(error, name, "it is odd"), -1);
	assert_string_equal(error + 400, ": it is odd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines__are_without_what_ends_them, begin, end),
		cmocka_unit_test_setup_teardown(line__that_is_the_last_may_end_or_not, begin, end),
		cmocka_unit_test_setup_teardown(line__is_as_long_as_one_may_be, begin, end),
		cmocka_unit_test_setup_teardown(line__has_the_room_of_those_before, begin, end),
		cmocka_unit_test_setup_teardown(line__behind_a_short_one_is_not_longer_than_another,
						begin, end),
		cmocka_unit_test_setup_teardown(line__of_what_cannot_be_read_is_none, begin, end),
		cmocka_unit_test_setup_teardown(fault__has_its_place_and_what_can_be_shown, begin,
						end),
		cmocka_unit_test(fault__has_room_behind_a_long_name),
	};

	return cmocka_run_group_tests_name("files-line", tests, NULL, NULL);
}
