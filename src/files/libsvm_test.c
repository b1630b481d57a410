/* SPDX-License-Identifier: Apache-2.0 */
#include "files/libsvm.h"

#include <errno.h>

#include "core/shared/hash.h"
#include "files/bytes_fixture.h"
#include "files/file_fixture.h"

static char error[FILES_ERROR_MAX];
static bool has_no_room;

void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return has_no_room ? NULL : __real_malloc(bytes);
}

static struct libsvm *opened(struct bytes *bytes)
{
	struct libsvm *libsvm = NULL;
	struct source *source = NULL;

	assert_int_equal(source_open_read(&source, "f", bytes_read, bytes, error), 0);
	assert_int_equal(libsvm_open(&libsvm, source, error), 0);
	return libsvm;
}

/* The rows as text, "line label index:value ..;" each, then the error if there is one. */
static const char *shown(const void *at, size_t length, size_t step)
{
	static char text[1 << 16];
	struct bytes bytes = { .at = at, .left = length, .step = step };
	struct libsvm *libsvm = opened(&bytes);
	size_t used = 0;
	struct libsvm_row row;
	int result;

	text[0] = 0;
	while ((result = libsvm_next(libsvm, &row)) > 0) {
		used += (size_t)sprintf(text + used, "%d %g", (int)row.line, row.label);
		for (uint32_t i = 0; i < row.count; i++)
			used += (size_t)sprintf(text + used, " %u:%g", row.feature[i] + 1,
						(double)row.value[i]);
		used += (size_t)sprintf(text + used, ";");
		assert_true(used < sizeof(text) / 2);
	}
	assert_int_equal(libsvm_next(libsvm, &row), result); /* again */
	if (result)
		strcpy(text + used, libsvm_error(libsvm));
	else
		assert_int_equal(libsvm_hash(libsvm), hash_bytes(HASH_BEGIN, at, length));
	libsvm_close(libsvm);
	return text;
}

/* The same rows or the same error however the bytes come in. */
static void reads_bytes(const void *at, size_t length, const char *rows)
{
	for (size_t step = 1; step < 2 * length + 4; step = 2 * step + 1)
		assert_string_equal(shown(at, length, step), rows);
}

static void reads(const char *text, const char *rows)
{
	reads_bytes(text, strlen(text), rows);
}

static void libsvm__rows_are_read(void **state)
{
	(void)state;
	reads("1 1:2 3:4.5\n-1 2:-1e2\n", "1 1 1:2 3:4.5;2 -1 2:-100;");
	reads("+1\t1:1\t\t2:2 \n0 7:.5", "1 1 1:1 2:2;2 0 7:0.5;");
	reads("3.25e0 1:0 2:-0", "1 3.25 1:0 2:-0;");
	reads("1 007:1 2147483648:2\n", "1 1 7:1 2147483648:2;");
}

static void libsvm__lines_may_end_in_cr_lf_or_with_the_file(void **state)
{
	(void)state;
	reads("1 1:2\r\n2 1:3\r\n", "1 1 1:2;2 2 1:3;");
	reads("1 1:2\r\n2 1:3", "1 1 1:2;2 2 1:3;");
	reads("1 1:2\n2 1:3\r", "1 1 1:2;2 2 1:3;");
	reads("1 1:2 \r\n2 1:3\t", "1 1 1:2;2 2 1:3;");
}

static void libsvm__blank_lines_and_comments_are_passed_over(void **state)
{
	(void)state;
	reads("", "");
	reads("\n\r\n  \t\n", "");
	reads("# a 1:1\n\n1 1:2 # b\n  \r\n#\n2 3:4#c\n#", "3 1 1:2;6 2 3:4;");
}

static void libsvm__a_row_may_have_no_features(void **state)
{
	(void)state;
	reads("1\n2\r\n3 \n4#\n5", "1 1;2 2;3 3;4 4;5 5;");
}

static void libsvm__labels_that_are_none_are_named(void **state)
{
	(void)state;
	reads("1 1:1\n3:1 4:1\n", "1 1 1:1;f:2:1: no label before 3:1");
	reads("1\n  7:1\n", "1 1;f:2:3: no label before 7:1");
	reads("abc 1:1\n", "f:1:1: the label abc is no number");
	reads("1x 1:1\n", "f:1:1: the label 1x is no number");
	reads("1,2 1:1\n", "f:1:1: the label 1,2 is no number");
	reads("inf 1:1\n", "f:1:1: the label inf is not finite");
	reads("-Infinity\n", "f:1:1: the label -Infinity is not finite");
	reads("NaN 1:1\n", "f:1:1: the label NaN is not finite");
	reads("1e999 1:1\n", "f:1:1: the label 1e999 is too large for a double");
	reads("\xef\xbb\xbf"
	      "1 1:1\n",
	      "f:1:1: the label ???1 is no number");
}

static void libsvm__indices_that_are_none_are_named(void **state)
{
	(void)state;
	reads("1 0:1\n", "f:1:3: the index 0: features are counted from 1");
	reads("1 000:1\n", "f:1:3: the index 0: features are counted from 1");
	reads("1 1:1 5:1 3:1\n", "f:1:11: the index 3 after 5: they must rise");
	reads("1 1:1\n1 2:1 2:3\n", "1 1 1:1;f:2:7: the index 2 is there twice");
	reads("1 2147483649:1\n", "f:1:3: the index of 2147483649:1 is above 2^31");
	reads("1 18446744073709551617:1\n",
	      "f:1:3: the index of 18446744073709551617:1 is above 2^31");
	reads("1 0000000000000000000000001:1\n",
	      "f:1:3: the index 000000000000000000000000... is too long");
	reads("1 -1:1\n", "f:1:3: -1:1 is no index:value");
	reads("1 1:1 word\n", "f:1:7: word is no index:value");
	reads("1 x:1\n", "f:1:3: x:1 is no index:value");
	reads("1 1.5:1\n", "f:1:3: 1.5:1 is no index:value");
	reads("1 :1\n", "f:1:3: :1 is no index:value");
	reads("1 4 5:1\n", "f:1:3: no ':' after the index 4");
	reads("1 4 :5\n", "f:1:3: no ':' after the index 4");
	reads("1 4\n", "f:1:3: no ':' after the index 4");
	reads("1 qid:3 1:1\n",
	      "f:1:3: qid: groups of queries are for ranking, which is not done here");
}

static void libsvm__values_that_are_none_are_named(void **state)
{
	(void)state;
	reads("1 4:\n", "f:1:3: no value after 4:");
	reads("1 4: 5:1\n", "f:1:3: no value after 4:");
	reads("1 4:", "f:1:3: no value after 4:");
	reads("1 4:x\n", "f:1:5: the value x is no number");
	reads("1 4:1x\n", "f:1:5: the value 1x is no number");
	reads("1 4:1:2\n", "f:1:5: the value 1:2 is no number");
	reads("1 4:0x10\n", "f:1:5: the value 0x10 is no number");
	reads("1 4:1e\n", "f:1:5: the value 1e is no number");
	reads("1 4:--1\n", "f:1:5: the value --1 is no number");
	reads("1 4:inf\n", "f:1:5: the value inf is not finite");
	reads("1 4:-INF\n", "f:1:5: the value -INF is not finite");
	reads("1 4:nan\n", "f:1:5: the value nan is not finite");
	reads("1 4:1e39\n", "f:1:5: the value 1e39 is too large for a float");
	reads("1 4:1e-60\n", "1 1 4:0;");
	reads("1 4:\x1b[2J\n", "f:1:5: the value ?[2J is no number");
}

static void libsvm__bytes_that_no_line_has_are_named(void **state)
{
	(void)state;
	reads_bytes("1 4:1\0 5:1\n", 11, "f:1:6: a NUL byte");
	reads_bytes("1 4:\0\n", 6, "f:1:5: a NUL byte");
	reads_bytes("1 4\0:1\n", 7, "f:1:4: a NUL byte");
	reads_bytes("1\n\0", 3, "1 1;f:2:1: a NUL byte");
	reads_bytes("1x\0", 3, "f:1:3: a NUL byte");
	reads("1 1:1\r2:2\n", "f:1:6: a carriage return inside of a line");
	reads("1 1:1\r\r\n", "f:1:6: a carriage return inside of a line");
}

static void libsvm__a_number_of_any_length_is_an_error(void **state)
{
	static char text[1 << 20];

	(void)state;
	memset(text, '1', sizeof(text));
	assert_string_equal(
		shown(text, sizeof(text), 1 << 16),
		"f:1:1: the label 111111111111111111111111... is longer than any number has to be");
	memcpy(text, "1 2:", 4);
	assert_string_equal(
		shown(text, sizeof(text), 1 << 16),
		"f:1:5: the value 111111111111111111111111... is longer than any number has to be");
	memcpy(text, "1 21", 4);
	assert_string_equal(shown(text, sizeof(text), 1 << 16),
			    "f:1:3: the index 211111111111111111111111... is too long");
	assert_string_equal(shown(text, 2 + 24, 1 << 16),
			    "f:1:3: no ':' after the index 211111111111111111111111");
	memset(text, ' ', sizeof(text)); /* blanks and comments may be as long as they like */
	memcpy(text + 500000, "3 4:5#", 6);
	assert_string_equal(shown(text, sizeof(text), 1 << 16), "1 3 4:5;");
	memcpy(text + 1000000, "\n?", 2);
	assert_string_equal(shown(text, sizeof(text), 1 << 16),
			    "1 3 4:5;f:2:1: the label ? is no number");
}

/* Rows that lie across the ends of buffers, lines and columns counted on. */
static void libsvm__rows_go_on_across_buffers(void **state)
{
	enum { ROWS = 60000 };
	char *text = malloc(ROWS * 48);
	struct bytes bytes = { .step = 100003 };
	struct libsvm_row row;
	struct libsvm *libsvm;
	size_t used = 0;

	(void)state;
	assert_non_null(text);
	for (uint32_t i = 0; i < ROWS; i++)
		used += (size_t)sprintf(text + used, "%u %u:%u.5 1000000:-%u\n", i, i + 1, i, i);
	used += (size_t)sprintf(text + used, "1 1:1 bad");
	bytes.at = (const uint8_t *)text;
	bytes.left = used;
	libsvm = opened(&bytes);
	for (uint32_t i = 0; i < ROWS; i++) {
		assert_int_equal(libsvm_next(libsvm, &row), 1);
		assert_int_equal(row.line, i + 1);
		assert_true(row.label == i);
		assert_int_equal(row.count, 2);
		assert_int_equal(row.feature[0], i);
		assert_int_equal(row.feature[1], 999999);
		assert_true(row.value[0] == (float)i + 0.5f);
		assert_true(row.value[1] == -(float)i);
	}
	assert_int_equal(libsvm_next(libsvm, &row), -1);
	assert_string_equal(libsvm_error(libsvm), "f:60001:7: bad is no index:value");
	libsvm_close(libsvm);
	free(text);
}

/* "1 1:1 2:1 3:1 ..." for ever: no file has to be so long. */
struct endless {
	uint32_t index;
	char text[32];
	size_t at, bytes;
	uint64_t given;
};

static ssize_t endless_read(void *arg, void *to, size_t max)
{
	struct endless *endless = arg;
	size_t done = 0;

	while (done < max) {
		if (endless->at == endless->bytes) {
			endless->at = 0;
			endless->bytes = (size_t)sprintf(endless->text, "%s %u:1",
							 endless->index ? "" : "1",
							 endless->index + 1);
			endless->index++;
		}
		((char *)to)[done++] = endless->text[endless->at++];
	}
	endless->given += done;
	return (ssize_t)done;
}

static void libsvm__a_row_without_end_is_an_error_before_it_is_large(void **state)
{
	struct endless endless = { 0 };
	struct libsvm *libsvm = NULL;
	struct source *source = NULL;
	struct libsvm_row row;

	(void)state;
	assert_int_equal(source_open_read(&source, "f", endless_read, &endless, error), 0);
	assert_int_equal(libsvm_open(&libsvm, source, error), 0);
	assert_int_equal(libsvm_next(libsvm, &row), -1);
	assert_non_null(strstr(libsvm_error(libsvm), "f:1:"));
	assert_non_null(strstr(libsvm_error(libsvm), ": a row of more than 4194304 features"));
	assert_true(endless.given < 50000000);
	libsvm_close(libsvm);
}

static void libsvm__errors_of_the_source_are_its_own(void **state)
{
	static uint8_t packed[FILE_PACKED_MAX];
	struct libsvm *libsvm = NULL;
	struct source *source = NULL;
	struct libsvm_row row;
	char text[2000];
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "1 2:3\n"[i % 6];
	bytes = file_gz(text, sizeof(text), packed);
	assert_int_equal(source_open(&source, file_write(packed, bytes - 1), error), 0);
	assert_int_equal(libsvm_open(&libsvm, source, error), 0);
	while (libsvm_next(libsvm, &row) > 0)
		;
	assert_non_null(strstr(libsvm_error(libsvm), "truncated gz"));
	libsvm_close(libsvm);
}

/* A disk that goes after a line: what it has read is not all. */
static ssize_t broken_read(void *arg, void *to, size_t max)
{
	bool *is_read = arg;

	if (*is_read || max < 6) {
		errno = EIO;
		return -1;
	}
	*is_read = true;
	memcpy(to, "1 2:3\n", 6);
	return 6;
}

static void libsvm__a_read_that_fails_is_not_the_end(void **state)
{
	struct libsvm *libsvm = NULL;
	struct source *source = NULL;
	struct libsvm_row row;
	bool is_read = false;

	(void)state;
	assert_int_equal(source_open_read(&source, "f", broken_read, &is_read, error), 0);
	assert_int_equal(libsvm_open(&libsvm, source, error), 0);
	assert_int_equal(libsvm_next(libsvm, &row), -1);
	assert_string_equal(libsvm_error(libsvm), "f: Input/output error (byte 6)");
	assert_int_equal(libsvm_next(libsvm, &row), -1);
	libsvm_close(libsvm);
}

static void libsvm__the_caller_may_refuse_a_label(void **state)
{
	struct bytes bytes = { .at = (const uint8_t *)"\n  5 1:1\n", .left = 9, .step = 9 };
	struct libsvm *libsvm = opened(&bytes);
	struct libsvm_row row;

	(void)state;
	assert_int_equal(libsvm_next(libsvm, &row), 1);
	assert_int_equal(libsvm_fail_label(libsvm, "too many"), -1);
	assert_string_equal(libsvm_error(libsvm), "f:2:3: too many");
	assert_int_equal(libsvm_next(libsvm, &row), -1);
	libsvm_close(libsvm);
}

static void libsvm__without_memory_is_an_error(void **state)
{
	struct bytes bytes = { .at = (const uint8_t *)"1\n", .left = 2, .step = 2 };
	struct source *source = NULL;
	struct libsvm *libsvm;

	(void)state;
	assert_int_equal(source_open_read(&source, "f", bytes_read, &bytes, error), 0);
	has_no_room = true;
	assert_int_equal(libsvm_open(&libsvm, source, error), -1);
	has_no_room = false;
	assert_string_equal(error, "f: out of memory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libsvm__rows_are_read),
		cmocka_unit_test(libsvm__lines_may_end_in_cr_lf_or_with_the_file),
		cmocka_unit_test(libsvm__blank_lines_and_comments_are_passed_over),
		cmocka_unit_test(libsvm__a_row_may_have_no_features),
		cmocka_unit_test(libsvm__labels_that_are_none_are_named),
		cmocka_unit_test(libsvm__indices_that_are_none_are_named),
		cmocka_unit_test(libsvm__values_that_are_none_are_named),
		cmocka_unit_test(libsvm__bytes_that_no_line_has_are_named),
		cmocka_unit_test(libsvm__a_number_of_any_length_is_an_error),
		cmocka_unit_test(libsvm__rows_go_on_across_buffers),
		cmocka_unit_test(libsvm__a_row_without_end_is_an_error_before_it_is_large),
		cmocka_unit_test(libsvm__errors_of_the_source_are_its_own),
		cmocka_unit_test(libsvm__a_read_that_fails_is_not_the_end),
		cmocka_unit_test(libsvm__the_caller_may_refuse_a_label),
		cmocka_unit_test(libsvm__without_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
