/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/bytes.h"
#include "util/whole.h"

static char path[] = "tally-whole-test.XXXXXX";

/* What each read gives: bytes, -1: a signal came, -2: it fails, 0: the file ends; NULL: what there is. */
static const ssize_t *played;
static size_t left; /* of the file */

ssize_t __real_read(int fd, void *at, size_t bytes);
ssize_t __wrap_read(int fd, void *at, size_t bytes);

ssize_t __wrap_read(int fd, void *at, size_t bytes)
{
	ssize_t got;

	if (!played)
		return __real_read(fd, at, bytes);
	assert_int_equal(bytes, left);
	got = *played++;
	errno = got == -2 ? ESTALE : EINTR;
	if (got > 0)
		left -= (size_t)got;
	return got > 0 ? __real_read(fd, at, (size_t)got) : got < 0 ? -1 : 0;
}

static bool has_no_status;

int __real_fstat64(int fd, struct stat *status);
int __wrap_fstat64(int fd, struct stat *status);

int __wrap_fstat64(int fd, struct stat *status)
{
	if (!has_no_status)
		return __real_fstat64(fd, status);
	errno = ESTALE;
	return -1;
}

static int begin(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0 || write(fd, "a\0b\nc", 5) != 5 || close(fd))
		return -1;
	return 0;
}

static int end(void **state)
{
	(void)state;
	return unlink(path);
}

static void a_file_is_read_as_it_is_up_to_its_limit(void **state)
{
	size_t bytes = 0;
	uint8_t *file = whole_read(path, 5, &bytes);

	(void)state;
	assert_non_null(file);
	assert_int_equal(bytes, 5);
	assert_memory_equal(file, "a\0b\nc", 5);
	free(file);
	assert_null(whole_read(path, 4, &bytes));
	assert_int_equal(errno, EFBIG);
	assert_int_equal(truncate(path, 1), 0);
	file = whole_read(path, 4, &bytes);
	assert_non_null(file);
	assert_int_equal(bytes, 1);
	free(file);
	assert_int_equal(truncate(path, 0), 0);
	file = whole_read(path, 4, &bytes);
	assert_non_null(file);
	assert_int_equal(bytes, 0);
	free(file);
}

static void a_file_is_read_in_pieces_and_one_that_gets_shorter_is_none(void **state)
{
	static const ssize_t whole[] = { 2, -1, 1, 2 }, shorter[] = { 3, 0, 2 };
	size_t bytes = 0;
	uint8_t *file;

	(void)state;
	played = whole;
	left = 5;
	file = whole_read(path, 5, &bytes);
	assert_non_null(file);
	assert_memory_equal(file, "a\0b\nc", 5);
	free(file);
	played = shorter;
	left = 5;
	assert_null(whole_read(path, 5, &bytes));
	assert_int_equal(errno, EIO);
	played = NULL;
}

static void why_a_file_cannot_be_read_is_told(void **state)
{
	static const ssize_t failing[] = { 3, -2 };
	size_t bytes;

	(void)state;
	played = failing;
	left = 5;
	assert_null(whole_read(path, 5, &bytes));
	assert_int_equal(errno, ESTALE);
	played = NULL;
}

static void what_is_no_regular_file_is_refused_at_once(void **state)
{
	char name[] = "tally-whole-fifo.XXXXXX";
	size_t bytes;

	(void)state;
	assert_null(whole_read(".", 100, &bytes));
	assert_int_equal(errno, ENOTSUP);
	assert_string_equal(whole_why(ENOTSUP), "not a regular file");
	assert_null(whole_read("there/is/none", 100, &bytes));
	assert_int_equal(errno, ENOENT);
	assert_string_equal(whole_why(ENOENT), strerror(ENOENT));
	assert_non_null(mkdtemp(name));
	assert_int_equal(rmdir(name), 0);
	assert_int_equal(mkfifo(name, 0600), 0);
	assert_null(whole_read(name, 100, &bytes)); /* nobody writes to it */
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(unlink(name), 0);
}

static void why_a_file_has_no_status_is_told(void **state)
{
	size_t bytes;

	(void)state;
	has_no_status = true;
	assert_null(whole_read(path, 100, &bytes));
	assert_int_equal(errno, ESTALE);
	has_no_status = false;
}

static void numbers_are_little_endian(void **state)
{
	uint8_t at[9] = { 0 };

	(void)state;
	bytes_put(at + 1, 0x8899aabbccddeeff, 8);
	assert_int_equal(at[1], 0xff);
	assert_int_equal(at[8], 0x88);
	assert_int_equal(bytes_get(at + 1, 8), 0x8899aabbccddeeff);
	assert_int_equal(bytes_get(at + 1, 3), 0xddeeff);
	bytes_put(at, 0x12345678, 2);
	assert_int_equal(bytes_get(at, 4), 0xddee5678);
}

static void a_number_is_what_a_file_begins_with(void **state)
{
	static const struct {
		const char *text;
		int64_t number;
	} rows[] = { { "1500\n", 1500 },
		     { "-1\n", -1 },
		     { "9223372036854775807", INT64_MAX },
		     { "max\n", 42 },
		     { "", 42 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		FILE *file = fopen(path, "w");

		assert_non_null(file);
		fputs(rows[i].text, file);
		fclose(file);
		assert_true(whole_number(path, 42) == rows[i].number);
	}
	assert_true(whole_number("/nowhere/at-all", 42) == 42);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_read_in_pieces_and_one_that_gets_shorter_is_none),
		cmocka_unit_test(why_a_file_cannot_be_read_is_told),
		cmocka_unit_test(a_file_is_read_as_it_is_up_to_its_limit),
		cmocka_unit_test(what_is_no_regular_file_is_refused_at_once),
		cmocka_unit_test(why_a_file_has_no_status_is_told),
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(a_number_is_what_a_file_begins_with),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
