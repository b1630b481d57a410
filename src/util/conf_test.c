/* SPDX-License-Identifier: Apache-2.0 */
#include "util/conf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_interrupted; /* the next read, by a signal */
static bool is_short;       /* the next read gets one byte */
static bool is_wiped;       /* a whole file of it, with the key */

ssize_t __real_read(int fd, void *at, size_t bytes);
ssize_t __wrap_read(int fd, void *at, size_t bytes);

ssize_t __wrap_read(int fd, void *at, size_t bytes)
{
	if (!is_interrupted) {
		bytes = is_short ? 1 : bytes;
		is_short = false;
		return __real_read(fd, at, bytes);
	}
	is_interrupted = false;
	errno = EINTR;
	return -1;
}

void __real_explicit_bzero(void *at, size_t bytes);
void __wrap_explicit_bzero(void *at, size_t bytes);

void __wrap_explicit_bzero(void *at, size_t bytes)
{
	is_wiped = bytes >= 4096 && !memcmp(at, "s3 cret", 7);
	__real_explicit_bzero(at, bytes);
}

/* One line, and what should come of it. */
struct line_case {
	const char *text;
	enum conf_result result;
	const char *key, *value; /* of a pair */
	const char *why, *shown; /* of a bad line */
};

/* clang-format off */
static const struct line_case lines[] = {
	{ "A=b", CONF_PAIR, "A", "b", NULL, NULL },
	{ " \tshards =  2 \t", CONF_PAIR, "shards", "2", NULL, NULL },
	{ "log-json=", CONF_PAIR, "log-json", "", NULL, NULL },
	{ "a=b=c # d \"e\"", CONF_PAIR, "a", "b=c # d \"e\"", NULL, NULL },
	{ "A=b\r", CONF_PAIR, "A", "b", NULL, NULL },
	{ "A=\xc3\xa4", CONF_PAIR, "A", "\xc3\xa4", NULL, NULL },
	{ "", CONF_END, NULL, NULL, NULL, NULL },
	{ " \t\r", CONF_END, NULL, NULL, NULL, NULL },
	{ "  # A=b", CONF_END, NULL, NULL, NULL, NULL },
	{ "shards 2", CONF_BAD, NULL, NULL, "not KEY=VALUE", "shards 2" },
	{ "=2", CONF_BAD, NULL, NULL, "a key has", "=2" },
	{ "two words=2", CONF_BAD, NULL, NULL, "a key has", "two words=2" },
	{ "a.b=2", CONF_BAD, NULL, NULL, "a key has", "a.b=2" },
	{ "a=b\rc", CONF_BAD, NULL, NULL, "control character", "a=b?c" },
	{ "a=\033[2J\xff", CONF_BAD, NULL, NULL, "control character", "a=?[2J?" },
	{ "0123456789012345678901234567890123456789012345678901234567890123=", CONF_BAD, NULL, NULL,
	  "a key has", "0123456789012345678901234567890123456789..." },
	{ "TALLY_KEY hunter2", CONF_BAD, NULL, NULL, "not KEY=VALUE", "(not shown)" },
	{ "tally-Key: hunter2", CONF_BAD, NULL, NULL, "not KEY=VALUE", "(not shown)" },
	{ "hunter2 is my key", CONF_BAD, NULL, NULL, "not KEY=VALUE", "(not shown)" },
	{ "jey kdy kex ley", CONF_BAD, NULL, NULL, "not KEY=VALUE", "jey kdy kex ley" },
};
/* clang-format on */

static void conf__each_line_is_a_pair_or_nothing_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const struct line_case *line = &lines[i];
		struct conf_pair pair;
		struct conf conf;

		conf_init(&conf, line->text, strlen(line->text));
		assert_int_equal(conf_next(&conf, &pair), line->result);
		if (line->result == CONF_PAIR) {
			assert_string_equal(pair.key, line->key);
			assert_string_equal(pair.value, line->value);
		} else if (line->result == CONF_BAD) {
			assert_non_null(strstr(pair.why, line->why));
			assert_string_equal(pair.shown, line->shown);
		}
		assert_int_equal(conf_next(&conf, &pair), CONF_END);
	}
}

static void conf__lines_are_numbered_and_a_bad_one_does_not_end_it(void **state)
{
	static const char text[] = "# first\n\nA=1\r\nnonsense\nB=2";
	struct conf_pair pair;
	struct conf conf;

	(void)state;
	conf_init(&conf, text, sizeof(text) - 1);
	assert_int_equal(conf_next(&conf, &pair), CONF_PAIR);
	assert_int_equal(conf.line, 3);
	assert_string_equal(pair.value, "1");
	assert_int_equal(conf_next(&conf, &pair), CONF_BAD);
	assert_int_equal(conf.line, 4);
	assert_string_equal(pair.key, "");
	assert_int_equal(conf_next(&conf, &pair), CONF_PAIR);
	assert_int_equal(conf.line, 5);
	assert_string_equal(pair.key, "B");
	assert_null(pair.why);
	assert_int_equal(conf_next(&conf, &pair), CONF_END);
}

static void conf__a_nul_is_refused_and_hides_nothing(void **state)
{
	static const char text[] = "A=1\0B\nC=3\n";
	struct conf_pair pair;
	struct conf conf;

	(void)state;
	conf_init(&conf, text, sizeof(text) - 1);
	assert_int_equal(conf_next(&conf, &pair), CONF_BAD);
	assert_string_equal(pair.shown, "A=1?B");
	assert_string_equal(pair.value, "");
	assert_int_equal(conf_next(&conf, &pair), CONF_PAIR);
	assert_string_equal(pair.key, "C");
}

/* The longest that fit, then one more byte. */
static void conf__limits_are_exact(void **state)
{
	char text[CONF_KEY_MAX + 1 + CONF_VALUE_MAX + 1];
	struct conf_pair pair;
	struct conf conf;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[CONF_KEY_MAX] = '=';
	conf_init(&conf, text, sizeof(text) - 1);
	assert_int_equal(conf_next(&conf, &pair), CONF_PAIR);
	assert_int_equal(strlen(pair.key), CONF_KEY_MAX);
	assert_int_equal(strlen(pair.value), CONF_VALUE_MAX);
	conf_init(&conf, text, sizeof(text));
	assert_int_equal(conf_next(&conf, &pair), CONF_BAD);
	assert_non_null(strstr(pair.why, "1023"));
}

static void file_write(const char *path, const char *text, size_t bytes, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void conf__load_takes_files_that_fit_and_nothing_else(void **state)
{
	char path[] = "/tmp/tally-conf-XXXXXX", data[4];
	uint32_t mode = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	file_write(path, "abcd", 4, 0640);
	assert_int_equal(conf_load(path, data, sizeof(data), &mode), 4);
	assert_memory_equal(data, "abcd", 4);
	assert_int_equal(mode & 0777, 0640);
	is_interrupted = true;
	assert_int_equal(conf_load(path, data, sizeof(data), NULL), 4);
	assert_false(is_interrupted);
	assert_int_equal(conf_load(path, data, 3, NULL), -EFBIG);
	is_short = true; /* what comes in two parts has no more room than one */
	data[3] = 'Z';
	assert_int_equal(conf_load(path, data, 3, NULL), -EFBIG);
	assert_memory_equal(data, "abcZ", 4);
	assert_int_equal(conf_load("/tmp", data, sizeof(data), NULL), -EISDIR);
	assert_int_equal(conf_load("/dev/null", data, sizeof(data), NULL), -EINVAL);
	assert_string_equal(conf_error_text(-EINVAL), "not a regular file");
	assert_string_equal(conf_error_text(-EISDIR), strerror(EISDIR));
	assert_string_equal(conf_error_text(-ENOENT), strerror(ENOENT));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(conf_load(path, data, sizeof(data), NULL), -ENOENT);
}

static void conf__a_key_file_is_one_printable_line(void **state)
{
	char path[] = "/tmp/tally-conf-XXXXXX", key[8] = "old";
	uint32_t mode = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	file_write(path, "s3 cret\r\n\n", 10, 0604);
	assert_int_equal(conf_load_key(path, key, sizeof(key), &mode), 0);
	assert_string_equal(key, "s3 cret");
	assert_true(is_wiped);
	assert_int_equal(mode & 0777, 0604);
	is_wiped = false;
	file_write(path, "s3 crets", 8, 0600); /* no room for its NUL */
	assert_int_equal(conf_load_key(path, key, sizeof(key), NULL), -EBADMSG);
	assert_true(is_wiped);
	assert_string_equal(key, "");
	file_write(path, "\n", 1, 0600);
	assert_int_equal(conf_load_key(path, key, sizeof(key), NULL), -EBADMSG);
	file_write(path, "a\nb\n", 4, 0600);
	assert_int_equal(conf_load_key(path, key, sizeof(key), NULL), -EBADMSG);
	file_write(path, "a\0", 2, 0600);
	assert_int_equal(conf_load_key(path, key, sizeof(key), NULL), -EBADMSG);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(conf_load_key(path, key, sizeof(key), NULL), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conf__each_line_is_a_pair_or_nothing_or_refused),
		cmocka_unit_test(conf__lines_are_numbered_and_a_bad_one_does_not_end_it),
		cmocka_unit_test(conf__a_nul_is_refused_and_hides_nothing),
		cmocka_unit_test(conf__limits_are_exact),
		cmocka_unit_test(conf__load_takes_files_that_fit_and_nothing_else),
		cmocka_unit_test(conf__a_key_file_is_one_printable_line),
	};

	return cmocka_run_group_tests_name("util-conf", tests, NULL, NULL);
}
