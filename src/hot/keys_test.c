/* SPDX-License-Identifier: Apache-2.0 */
#include "hot/keys.h"

#include <inttypes.h>
#include <malloc.h>

#include "core/shared/hash.h"
#include "files/file_fixture.h"
#include "files/line.h"

static char error[FILES_ERROR_MAX], said[1 << 12];

#define LIST(...) ((struct keys_options){ .format = KEYS_LIST, ##__VA_ARGS__ })

/* The rows as text, "1 2|3|": in said[]. -1: error[]. */
static int rows_say(const char *path, const struct keys_options *options)
{
	struct keys *keys;
	struct keys_row row;
	size_t used = 0;
	int result;

	said[0] = 0;
	if (keys_open(&keys, path, options, error))
		return -1;
	while ((result = keys_next(keys, &row)) == 1) {
		for (size_t i = 0; i < row.count && used < sizeof(said) - 64; i++)
			used += (size_t)snprintf(said + used, sizeof(said) - used, "%s%" PRIu64,
						 !i                ? ""
						 : row.is_each_row ? "|"
								   : " ",
						 row.key[i]);
		used += (size_t)snprintf(said + used, sizeof(said) - used, "|");
	}
	if (result < 0)
		memcpy(error, keys_error(keys), sizeof(error));
	keys_close(keys);
	return result;
}

static void expect(const char *text, const struct keys_options *options, const char *want)
{
	if (rows_say(file_text(text), options))
		fail_msg("%s", error);
	assert_string_equal(said, want);
}

/* The sentence is FILE:WHERE: what. */
static void expect_refused(const char *text, const struct keys_options *options, const char *want)
{
	const char *path = file_text(text);

	assert_int_equal(rows_say(path, options), -1);
	if (strncmp(error, path, strlen(path)) != 0 || strcmp(error + strlen(path), want) != 0)
		fail_msg("\"%s\" is not \"FILE%s\"", error, want);
}

static void list__has_a_row_per_line(void **state)
{
	(void)state;
	expect("1 2 3\n\n18446744073709551615\r\n  7,8\t9 \n0", &LIST(),
	       "1 2 3|18446744073709551615|7 8 9|0|");
	expect("", &LIST(), "");
	expect("\n \n", &LIST(), "");
}

static void list__gives_the_columns_that_are_asked_for(void **state)
{
	(void)state;
	/* user item item ...; a user without items has a row, too. */
	expect("5 11 12\n6\n7 13\n", &LIST(.column_first = 2), "11 12||13|");
	expect("5 11 1\n6 12 1\n", &LIST(.column_first = 2, .column_last = 2), "11|12|");
	expect("1 2 3 4\n", &LIST(.column_first = 1, .column_last = 3), "1 2 3|");
	/* What is not asked for need not be a key. */
	expect("u5 11\n", &LIST(.column_first = 2), "11|");
	expect_refused("1 2\n3\n", &LIST(.column_first = 2, .column_last = 2),
		       ":2:2: fewer columns than --columns asks for");
	expect_refused("1 2\n3\n", &LIST(.column_first = 3),
		       ":2:2: fewer columns than --columns asks for");
}

static void list__that_is_none_is_named_with_file_and_line(void **state)
{
	(void)state;
	expect_refused("1 2\n3 x4 5\n", &LIST(), ":2:3: 'x4' is no key: digits are");
	expect_refused("-1\n", &LIST(), ":1:1: '-1' is no key: digits are");
	expect_refused("1\n\n\n1 18446744073709551616\n", &LIST(),
		       ":4:3: the key '18446744073709551616' is above 2^64 - 1");
	expect_refused("1 abcdefghijklmnopqrstuvwxyz\n", &LIST(),
		       ":1:3: 'abcdefghijklmnopqrstuvwx...' is no key: digits are");
	expect_refused("1 \x01z\n", &LIST(), ":1:3: '?z' is no key: digits are");
	expect_refused("1 \x1f~\x7f\x80\n", &LIST(), ":1:3: '?~?\?' is no key: digits are");
	/* As many as are shown: no dots. */
	expect_refused("abcdefghijklmnopqrstuvwx\n", &LIST(),
		       ":1:1: 'abcdefghijklmnopqrstuvwx' is no key: digits are");
}

static void libsvm__gives_the_indices(void **state)
{
	const struct keys_options libsvm = { .format = KEYS_LIBSVM };

	(void)state;
	expect("1 1:1 7:0.5\n-1\n# none\n1 2147483648:1\n", &libsvm, "1 7||2147483648|");
	expect_refused("1 1:1\n1 2:1 2:1\n", &libsvm, ":2:7: the index 2 is there twice");
}

static uint64_t hash_of(const char *text)
{
	return hash_text(HASH_BEGIN, text);
}

static void words__are_hashed(void **state)
{
	char want[256];

	(void)state;
	snprintf(want, sizeof(want), "%" PRIu64 " %" PRIu64 "|%" PRIu64 "|", hash_of("to"),
		 hash_of("be"), hash_of("to"));
	expect("to be\nto\n", &(struct keys_options){ .format = KEYS_WORDS }, want);
	snprintf(want, sizeof(want), "%" PRIu64 "|", hash_of("to") % 1024 + 1);
	expect("to\n", &(struct keys_options){ .format = KEYS_WORDS, .bits = 10 }, want);
}

/* A line of criteo with these two fields and nothing else. */
static const char *criteo_line(const char *i1, const char *c26)
{
	static char text[256];
	size_t used = (size_t)snprintf(text, sizeof(text), "1\t%s\t", i1);

	memset(text + used, '\t', 37);
	snprintf(text + used + 37, sizeof(text) - used - 37, "%s\n", c26);
	return text;
}

static void criteo__has_a_key_per_field_that_is_not_empty(void **state)
{
	const struct keys_options criteo = { .format = KEYS_CRITEO };
	static const struct {
		const char *number, *feature;
	} numbers[] = {
		{ "0", "I1=S0" },
		{ "2", "I1=S2" },
		{ "-3", "I1=S-3" },
		{ "3", "I1=1" },
		{ "20", "I1=8" },
		{ "1382", "I1=52" },
		{ "999999999999999999", "I1=1717" },
	};
	char want[128];

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(want, sizeof(want), "%" PRIu64 " %" PRIu64 "|",
			 hash_of(numbers[i].feature), hash_of("C26=9727dd16"));
		expect(criteo_line(numbers[i].number, "9727dd16"), &criteo, want);
	}
	/* Without the label it is the same row. */
	expect(criteo_line("3", "9727dd16") + 2, &criteo,
	       (snprintf(want, sizeof(want), "%" PRIu64 " %" PRIu64 "|", hash_of("I1=1"),
			 hash_of("C26=9727dd16")),
		want));
	expect(criteo_line("", ""), &criteo, "|");
	/* One bit leaves two keys, and each of them once. */
	expect(criteo_line("3", "9727dd16"), &(struct keys_options){ KEYS_CRITEO, 0, 0, 1 },
	       hash_of("I1=1") % 2 == hash_of("C26=9727dd16") % 2
		       ? (hash_of("I1=1") % 2 ? "2|" : "1|")
		       : "1 2|");
}

static void criteo__that_is_none_is_named_with_file_and_line(void **state)
{
	const struct keys_options criteo = { .format = KEYS_CRITEO };
	char text[600];

	(void)state;
	expect_refused("1\t2\n", &criteo,
		       ":1:1: 2 fields with tabs between them: a line of criteo has 40 or 39");
	snprintf(text, sizeof(text), "%s", criteo_line("1", "a"));
	snprintf(text + strlen(text), 200, "%s", criteo_line("x", "b"));
	expect_refused(text, &criteo, ":2:3: 'x' is no whole number");
	snprintf(text, sizeof(text), "%s", criteo_line("1", "a"));
	snprintf(text + strlen(text), 200, "%s", criteo_line("1", "b\tc"));
	expect_refused(text, &criteo, ":2:45: 41 fields, not 40 as in the lines before");
	snprintf(text, sizeof(text), "%s", criteo_line("1", "a"));
	text[0] = '7';
	expect_refused(text, &criteo, ":1:1: the label '7' is not 0 or 1");
	expect_refused(criteo_line("1234567890123456789", ""), &criteo,
		       ":1:3: '1234567890123456789' is no whole number of up to 18 digits");
	expect_refused(criteo_line("-", ""), &criteo,
		       ":1:3: '-' is no whole number of up to 18 digits");
}

static void avazu__has_a_key_per_column_but_id_and_click(void **state)
{
	const struct keys_options avazu = { .format = KEYS_AVAZU };
	char want[128];

	(void)state;
	snprintf(want, sizeof(want), "%" PRIu64 " %" PRIu64 "|%" PRIu64 " %" PRIu64 "|",
		 hash_of("hour=23"), hash_of("C1=1005"), hash_of("hour=00"), hash_of("C1="));
	expect("id,click,hour,C1\n10000,0,14102123,1005\n\n10001,1,14102100,\n", &avazu, want);
	expect_refused("id,click,hour,C1\n1,0,14102123\n", &avazu,
		       ":2:13: 3 fields, not 4 as in the lines before");
	expect_refused("10000,0,14102123,1005\n", &avazu,
		       ":1:1: '10000' is no name of a column: a first line has names");
	expect_refused("id,,hour\n", &avazu, ":1:4: a column without a name");
	expect_refused("id\n", &avazu, ":1:1: no names with commas between them");
}

static void avazu__has_so_many_columns_and_no_more(void **state)
{
	const struct keys_options avazu = { .format = KEYS_AVAZU };
	enum { MOST = 1024 };
	char text[2 * (MOST + 1) + 1];

	(void)state;
	for (uint32_t i = 0; i <= MOST; i++)
		memcpy(text + 2 * i, "n,", 2);
	memcpy(text + 2 * MOST - 1, "\n", 2);
	expect(text, &avazu, "");
	memcpy(text + 2 * MOST - 1, ",n\n", 4);
	expect_refused(text, &avazu, ":1:1: more than 1024 columns");
}

static void u64__is_a_row_per_key(void **state)
{
	const struct keys_options u64 = { .format = KEYS_U64 };
	const uint64_t keys[] = { 1, UINT64_MAX, 0x0102030405060708 };
	const char *path = file_write(keys, sizeof(keys));

	(void)state;
	assert_int_equal(rows_say(path, &u64), 0);
	assert_string_equal(said, "1|18446744073709551615|72623859790382856|");
	assert_int_equal(rows_say(file_write(keys, sizeof(keys) - 3), &u64), -1);
	assert_string_equal(error + strlen(path),
			    ": ends inside of a key of 8 bytes, behind 2 whole ones");
	assert_string_equal(said, "1|18446744073709551615|"); /* however the bytes came in */
	assert_int_equal(rows_say(file_write(keys, 0), &u64), 0);
	assert_string_equal(said, "");
}

/* A pipe's bytes, in pieces: 0 ends them. */
static ssize_t piece_read(void *arg, void *to, size_t bytes)
{
	static const uint64_t keys[] = { 7, UINT64_MAX, 1ull << 56 };
	static const uint8_t pieces[] = { 16, 3, 5, 0 };
	static size_t at;
	size_t *piece = arg, some = pieces[*piece];

	assert_true(some <= bytes && at + some <= sizeof(keys));
	memcpy(to, (const uint8_t *)keys + at, some);
	at += some;
	*piece += 1;
	return (ssize_t)some;
}

/* Who follows a stream (tally hot --live) has its keys when they come, not when very many have come. */
static void u64__of_a_stream_are_there_as_they_come(void **state)
{
	const struct keys_options u64 = { .format = KEYS_U64 };
	struct source *source;
	struct keys_row row;
	struct keys *keys;
	size_t piece = 0;

	(void)state;
	assert_int_equal(source_open_read(&source, "pipe", piece_read, &piece, error), 0);
	assert_int_equal(keys_open_source(&keys, source, &u64, error), 0);
	assert_int_equal(keys_next(keys, &row), 1);
	assert_true(piece == 1 && row.count == 2 && row.is_each_row);
	assert_true(row.key[0] == 7 && row.key[1] == UINT64_MAX);
	assert_int_equal(keys_next(keys, &row), 1); /* one that came in two pieces */
	assert_true(piece == 3 && row.count == 1 && row.key[0] == 1ull << 56);
	assert_int_equal(keys_next(keys, &row), 0);
	keys_close(keys);
}

static void packed__files_are_the_same(void **state)
{
	static const char text[] = "1 2 3\n4\n";
	static uint8_t packed[FILE_PACKED_MAX];
	size_t bytes = file_gz(text, strlen(text), packed);

	(void)state;
	assert_int_equal(rows_say(file_write(packed, bytes), &LIST()), 0);
	assert_string_equal(said, "1 2 3|4|");
	/* Cut off: an error, not an end. */
	assert_int_equal(rows_say(file_write(packed, bytes - 3), &LIST()), -1);
	assert_non_null(strstr(error, "truncated gz"));
	bytes = file_xz(text, strlen(text), packed);
	assert_int_equal(rows_say(file_write(packed, bytes), &(struct keys_options){ 0 }), 0);
	assert_string_equal(said, "1 2 3|4|");
}

static void expect_file_format(const char *path, enum keys_format want)
{
	struct keys *keys;

	if (keys_open(&keys, path, &(struct keys_options){ 0 }, error))
		fail_msg("%s", error);
	assert_int_equal(keys_format(keys), want);
	keys_close(keys);
}

static void expect_format(const char *text, enum keys_format want)
{
	expect_file_format(file_text(text), want);
}

/* A line may come in pieces, as members of gz have it. */
static void format__is_known_however_the_line_comes(void **state)
{
	static uint8_t packed[FILE_PACKED_MAX], more[FILE_PACKED_MAX];
	size_t bytes = file_gz("i", 1, packed), next = file_gz("d,click,hour\n1,0,1\n", 20, more);

	(void)state;
	memcpy(packed + bytes, more, next);
	expect_file_format(file_write(packed, bytes + next), KEYS_AVAZU);
}

/* It is looked at as far as 64 KiB, which may be a part of it. */
static void format__is_known_by_a_line_that_does_not_end(void **state)
{
	enum { BYTES = 3 << 16 };
	char *text = malloc(BYTES);

	(void)state;
	assert_non_null(text);
	memset(text, '7', BYTES);
	text[(1 << 16) + 5] = 'x';
	expect_file_format(file_write(text, BYTES), KEYS_LIST);
	text[(1 << 16) - 1] = 'x';
	assert_int_equal(keys_open(&(struct keys *){ NULL }, file_write(text, BYTES),
				   &(struct keys_options){ 0 }, error),
			 -1);
	free(text);
}

/* What memory has had in it is no part of the line: here it is full of 'x'. */
static void format__is_known_by_a_line_that_ends_with_the_file(void **state)
{
	(void)state;
	mallopt(M_PERTURB, 'x' ^ 0xff);
	expect_format("0 1 2 3", KEYS_LIST);
	expect_format("-1 3:1", KEYS_LIBSVM);
	mallopt(M_PERTURB, 0);
}

static void format__is_known_by_the_first_line(void **state)
{
	struct keys *keys;

	(void)state;
	expect_format("-1 3:1 11:0.5\n", KEYS_LIBSVM);
	expect_format("\r\n+1.5e0 3:1 # 1", KEYS_LIBSVM);
	expect_format("0 1 2 3\n", KEYS_LIST);
	expect_format("77\n", KEYS_LIST);
	expect_format(criteo_line("5", "68fd1e64"), KEYS_CRITEO);
	expect_format(criteo_line("", "68fd1e64") + 2, KEYS_CRITEO);
	expect_format("id,click,hour,C1\n", KEYS_AVAZU);
	assert_int_equal(keys_open(&keys, file_text("to be or not\n"), &(struct keys_options){ 0 },
				   error),
			 -1);
	assert_non_null(strstr(error, "its first line does not say what it is: --format"));
	assert_int_equal(keys_open(&keys, "/dev/null", &(struct keys_options){ 0 }, error), -1);
	assert_non_null(strstr(error, "/dev/null: a stream cannot be looked at first"));
	assert_int_equal(keys_open(&keys, "/nowhere/at-all", &(struct keys_options){ 0 }, error),
			 -1);
	assert_string_equal(error, "/nowhere/at-all: No such file or directory");
}

static void format__has_a_name(void **state)
{
	static const char *const names[] = { "auto",   "libsvm", "list", "words",
					     "criteo", "avazu",  "u64" };

	(void)state;
	for (int i = KEYS_AUTO; i <= KEYS_U64; i++)
		assert_string_equal(keys_format_names[i], names[i]);
	assert_null(keys_format_names[KEYS_U64 + 1]);
}

/* Lines that lie across all borders of the reader's buffer, and one that is longer than any may be. */
static void lines__may_be_long_but_not_endless(void **state)
{
	enum { LENGTH = 3000000, LINES = 5 };
	char *text = malloc(LINE_BYTES_MAX + 2 * LINES * LENGTH);
	struct keys_options options = LIST(.column_first = 2, .column_last = 2);
	size_t used = 0;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < LINES; i++) {
		size_t length = (size_t)(LENGTH + i * 1000);

		memset(text + used, '9', length);
		used += length + (size_t)sprintf(text + used + length, " %d\n", i);
	}
	assert_int_equal(rows_say(file_write(text, used), &options), 0);
	assert_string_equal(said, "0|1|2|3|4|");
	memset(text + used, '9', LINE_BYTES_MAX + 1);
	assert_int_equal(rows_say(file_write(text, used + LINE_BYTES_MAX + 1), &options), -1);
	assert_non_null(strstr(error, ":6:1: a line of more than 8388608 bytes"));
	free(text);
}

/* The reader's room for a row grows, twice and more. */
static void rows__may_have_many_keys(void **state)
{
	enum { KEYS = 20000, DIGITS = 5 };
	static const struct {
		enum keys_format format;
		const char *begin, *value;
	} rows[] = { { KEYS_LIST, "1", "" }, { KEYS_LIBSVM, "1 1:1", ":1" } };
	char *text = malloc(16 + KEYS * (size_t)(DIGITS + 3));

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < 2; i++) {
		const struct keys_options options = { .format = rows[i].format };
		size_t used = (size_t)sprintf(text, "%s", rows[i].begin);
		struct keys *keys;
		struct keys_row row;

		for (uint32_t key = 2; key <= KEYS; key++)
			used += (size_t)sprintf(text + used, " %u%s", key, rows[i].value);
		assert_int_equal(keys_open(&keys, file_write(text, used), &options, error), 0);
		assert_int_equal(keys_next(keys, &row), 1);
		assert_int_equal(row.count, KEYS);
		for (uint32_t k = 0; k < KEYS; k++)
			assert_int_equal(row.key[k], k + 1);
		assert_int_equal(keys_next(keys, &row), 0);
		keys_close(keys);
	}
	free(text);
}

/* Numbers end with the 13th field; the next is a word, whatever it looks like. */
static void criteo__has_words_from_the_14th_field_on(void **state)
{
	const struct keys_options criteo = { .format = KEYS_CRITEO };
	char text[256], want[128];

	(void)state;
	memset(text, '\t', sizeof(text));
	memcpy(text + 12, "5\t5", 3);
	strcpy(text + 40, "\n");
	snprintf(want, sizeof(want), "%" PRIu64 " %" PRIu64 "|", hash_of("I13=2"), hash_of("C1=5"));
	expect(text, &criteo, want);
}

/* Of one bit there are two keys, and a row has each once. */
static void avazu__has_a_key_once(void **state)
{
	const struct keys_options avazu = { .format = KEYS_AVAZU, .bits = 1 };
	uint64_t odd = hash_of("a=1") % 2 + hash_of("b=1") % 2 + hash_of("c=1") % 2;

	(void)state;
	expect("id,a,b,c\n7,1,1,1\n", &avazu, odd == 3 ? "2|" : odd ? "1 2|" : "1|");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list__has_a_row_per_line),
		cmocka_unit_test(list__gives_the_columns_that_are_asked_for),
		cmocka_unit_test(list__that_is_none_is_named_with_file_and_line),
		cmocka_unit_test(libsvm__gives_the_indices),
		cmocka_unit_test(words__are_hashed),
		cmocka_unit_test(criteo__has_a_key_per_field_that_is_not_empty),
		cmocka_unit_test(criteo__that_is_none_is_named_with_file_and_line),
		cmocka_unit_test(avazu__has_so_many_columns_and_no_more),
		cmocka_unit_test(avazu__has_a_key_per_column_but_id_and_click),
		cmocka_unit_test(avazu__has_so_many_columns_and_no_more),
		cmocka_unit_test(u64__is_a_row_per_key),
		cmocka_unit_test(u64__of_a_stream_are_there_as_they_come),
		cmocka_unit_test(packed__files_are_the_same),
		cmocka_unit_test(format__is_known_by_a_line_that_ends_with_the_file),
		cmocka_unit_test(format__is_known_by_the_first_line),
		cmocka_unit_test(format__is_known_however_the_line_comes),
		cmocka_unit_test(format__is_known_by_a_line_that_does_not_end),
		cmocka_unit_test(format__has_a_name),
		cmocka_unit_test(lines__may_be_long_but_not_endless),
		cmocka_unit_test(rows__may_have_many_keys),
		cmocka_unit_test(criteo__has_words_from_the_14th_field_on),
		cmocka_unit_test(avazu__has_a_key_once),
	};

	return cmocka_run_group_tests_name("hot-keys", tests, NULL, NULL);
}
