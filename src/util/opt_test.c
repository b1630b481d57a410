/* SPDX-License-Identifier: Apache-2.0 */
/* opt_test.c - a table of every kind: what is taken, and what is said of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/opt.h"

enum { WORDS_MAX = 32 };

struct request {
	bool is_loud, is_checked;
	uint64_t wide;
	uint32_t middle;
	uint16_t narrow;
	uint64_t size;
	uint32_t ms;
	double real, part;
	float small;
	bool is_second;
	const char *text;
	char copy[4];
	unsigned many, done;
};

static const char *many_take(struct opt_value *value)
{
	struct request *request = value->request;

	request->many++;
	snprintf(value->why, sizeof(value->why), "not %s", value->text);
	return strcmp(value->text, "bad") ? NULL : value->why;
}

static const char *done_take(struct opt_value *value)
{
	struct request *request = value->request;

	assert_null(value->text);
	request->done++;
	return NULL;
}

static const char *const choices[] = { "first", "second", NULL };

#define AT(field) OPT_FIELD(struct request, field)
/* clang-format off */
static const struct opt table[] = {
	{ "loud", OPT_FLAG, 'l', AT(is_loud) },
	{ "check", OPT_FLAG, AT(is_checked) },
	{ "no-check", OPT_UNSET, AT(is_checked), .same = "check" },
	{ "wide", OPT_NUMBER, 'w', AT(wide) },
	{ "least", OPT_NUMBER, AT(wide), .min = 3 },
	{ "middle", OPT_NUMBER, AT(middle), .min = 2, .max = 9, .unit = 1000 },
	{ "narrow", OPT_NUMBER, AT(narrow), .max = 9, .instead = "auto" },
	{ "even", OPT_NUMBER, AT(wide), .step = 2 },
	{ "size", OPT_SIZE, AT(size), .min = 1, .max = 1ull << 40, .takes = "a size" },
	{ "seconds", OPT_SECONDS, AT(ms), .min = 10, .max = 60000, .takes = "seconds" },
	{ "real", OPT_REAL, AT(real), .low = 0.5, .high = 2 },
	{ "small", OPT_REAL, AT(small), .high = 2 },
	{ "part", OPT_PART, AT(part) },
	{ "choice", OPT_CHOICE, AT(is_second), .names = choices, .takes = "first or second" },
	{ "text", OPT_TEXT, AT(text) },
	{ "copy", OPT_COPY, AT(copy) },
	{ "many", OPT_CALL, .call = many_take, .is_many = true },
	{ "done", OPT_DO, .call = done_take },
};
/* clang-format on */
static struct opt_command command = { .name = "x",
				      .help = "",
				      .version = "",
				      .table = table,
				      .count = OPT_COUNT(table) };

static struct request request;
static struct opt_line line;
static char said[1024];

/* The words of a command line; what is said on stderr is in `said`. */
static int parse(const char *words)
{
	static char copy[256];
	static char *argv[WORDS_MAX + 1];
	char *at = copy, *word;
	FILE *file = tmpfile();
	int argc = 1, status, kept = dup(STDERR_FILENO);

	assert_non_null(file);
	argv[0] = (char[]){ "x" };
	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&at, " ")) && (*word || at || argc > 1)) {
		assert_true(argc < WORDS_MAX);
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	request = (struct request){ .narrow = 7 };
	fflush(stderr);
	dup2(fileno(file), STDERR_FILENO);
	status = opt_read(&command, &request, argc, argv, &line);
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
	rewind(file);
	said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
	fclose(file);
	return status;
}

static void taken(const char *words)
{
	if (parse(words) != OPT_GO_ON)
		fail_msg("%s: %s", words, said);
}

static void refused(const char *words, const char *why)
{
	assert_int_equal(parse(words), 2);
	if (!strstr(said, why))
		fail_msg("%s: said \"%s\", not \"%s\"", words, said, why);
}

static void opt__each_kind_goes_to_its_field(void **state)
{
	(void)state;
	taken("a --loud --wide 18446744073709551615 b --middle 9 --narrow 3 --size 3M");
	assert_true(request.is_loud);
	assert_true(request.wide == UINT64_MAX);
	assert_int_equal(request.middle, 9000);
	assert_int_equal(request.narrow, 3);
	assert_int_equal(request.size, 3 << 20);
	assert_int_equal(line.words, 2);
	assert_string_equal(line.word[0], "a");
	assert_string_equal(line.word[1], "b");
	taken("--seconds 0.25 --real 0.5 --small 1.5 --part 8% --choice second --text t --copy "
	      "abc");
	assert_int_equal(request.ms, 250);
	assert_true(request.real == 0.5);
	assert_true(request.small == 1.5f);
	assert_true(request.part == 0.08);
	assert_true(request.is_second);
	assert_string_equal(request.text, "t");
	assert_string_equal(request.copy, "abc");
	taken("--part 0.5 --choice first --done --many 1 --many 2 --check");
	assert_true(request.part == 0.5);
	assert_false(request.is_second);
	assert_int_equal(request.many, 2);
	assert_int_equal(request.done, 1);
	assert_true(request.is_checked);
	taken("--seconds 0.01");
	assert_int_equal(request.ms, 10);
	taken("--seconds 60");
	assert_int_equal(request.ms, 60000);
}

static void opt__a_letter_is_its_option(void **state)
{
	(void)state;
	taken("-lw 5");
	assert_true(request.is_loud);
	assert_int_equal(request.wide, 5);
	assert_true(opt_has(&command, &line, "wide"));
	assert_false(opt_has(&command, &line, "least"));
	refused("-w 5 --wide 5", "--wide 5: is given twice");
	refused("-x", "x --help says which there are");
}

static void opt__a_word_may_leave_a_field_as_it_is(void **state)
{
	(void)state;
	taken("--narrow auto");
	assert_int_equal(request.narrow, 7);
	assert_true(opt_has(&command, &line, "narrow"));
}

static void opt__what_is_wrong_is_said(void **state)
{
	(void)state;
	refused("--wide 18446744073709551616", "--wide 18446744073709551616: a number (");
	refused("--wide -1", "--wide -1: a number (");
	refused("--wide ", "--wide '': a number (");
	refused("--least 2", "--least 2: a number, at least 3 (x --help)");
	refused("--middle 1", "--middle 1: a number from 2 to 9");
	refused("--middle 10", "--middle 10: a number from 2 to 9");
	refused("--middle 3x", "--middle 3x: a number from 2 to 9");
	refused("--even 7", "--even 7: a number (");
	refused("--narrow 10", "--narrow 10: a number up to 9");
	refused("--size 0", "--size 0: a size");
	refused("--size 1T", "--size 1T: a size");
	refused("--size 1025G", "--size 1025G: a size");
	refused("--seconds 60.001", "--seconds 60.001: seconds");
	refused("--seconds 0.009", "--seconds 0.009: seconds");
	refused("--seconds 1.", "--seconds 1.: seconds");
	refused("--seconds 0.2500", "--seconds 0.2500: seconds");
	refused("--real 0.4", "--real 0.4: a number from 0.5 to 2");
	refused("--real nan", "--real nan: a number from 0.5 to 2");
	refused("--real 0x1", "--real 0x1: a number from 0.5 to 2");
	refused("--part 0", "--part 0: a part of a whole");
	refused("--part 101%", "--part 101%: a part of a whole");
	refused("--part 8%%", "--part 8%%: a part of a whole");
	refused("--choice third", "--choice third: first or second");
	refused("--text ", "--text '': is empty: give a value");
	refused("--copy abcd", "--copy abcd: too long");
	refused("--many bad", "--many bad: not bad");
	refused("--wide", "requires an argument");
	refused("--what", "x --help says which there are");
}

static void opt__what_is_said_twice_is_refused(void **state)
{
	(void)state;
	refused("--loud --loud", "--loud: is given twice, or contradicts");
	refused("--check --no-check", "--no-check: is given twice, or contradicts");
	refused("--no-check --check", "--check: is given twice, or contradicts");
	taken("--no-check --loud");
	assert_false(request.is_checked);
}

static void opt__help_and_version_end_it(void **state)
{
	(void)state;
	assert_int_equal(parse("--help --what"), 0);
	assert_int_equal(parse("-h"), 0);
	assert_int_equal(parse("--loud --version"), 0);
	command.help = command.version = NULL;
	assert_int_equal(parse("--help"), 2);
	assert_int_equal(parse("--version"), 2);
	command.help = command.version = "";
}

static void opt__words_of_another_command_are_its_own(void **state)
{
	(void)state;
	command.ends_at_word = true;
	taken("--loud run --wide x");
	assert_int_equal(line.words, 3);
	assert_string_equal(line.word[1], "--wide");
	command.ends_at_word = false;
}

static void opt__a_line_of_a_file_may_turn_a_flag_off(void **state)
{
	struct opt_value value = { .opt = opt_find(table, OPT_COUNT(table), "loud"),
				   .request = &request };

	(void)state;
	request.is_loud = true;
	value.text = "0";
	assert_null(opt_take(&value));
	assert_false(request.is_loud);
	value.text = "1";
	assert_null(opt_take(&value));
	assert_true(request.is_loud);
	value.text = "yes";
	assert_string_equal(opt_take(&value), "1, 0 or nothing");
	assert_null(opt_find(table, OPT_COUNT(table), "lou"));
}

static void opt__a_field_is_said_as_it_was_given(void **state)
{
	static const char *const cases[][2] = {
		{ "loud", "1" },
		{ "no-check", "1" },
		{ "wide", "18446744073709551615" },
		{ "middle", "9" },
		{ "narrow", "3" },
		{ "size", "4096" },
		{ "seconds", "0.25" },
		{ "real", "0.59999999999999998" },
		{ "small", "1.5" },
		{ "part", "0.5" },
		{ "choice", "second" },
		{ "text", "word" },
		{ "copy", "abc" },
		{ "many", "" },
		{ "done", "" },
	};
	char text[OPT_TEXT_BYTES];

	(void)state;
	taken("--loud --no-check --wide 18446744073709551615 --middle 9 --narrow 3 --size 4K "
	      "--seconds 0.25 --real 0.6 --small 1.5 --part 50% --choice second --text word "
	      "--copy abc --many x --done");
	for (size_t i = 0; i < OPT_COUNT(cases); i++)
		assert_string_equal(opt_text(opt_find(table, OPT_COUNT(table), cases[i][0]),
					     &request, text),
				    cases[i][1]);
	taken("--even 6");
	assert_int_equal(request.wide, 6);
	request = (struct request){ .is_checked = true };
	assert_string_equal(opt_text(opt_find(table, OPT_COUNT(table), "loud"), &request, text),
			    "0");
	assert_string_equal(opt_text(opt_find(table, OPT_COUNT(table), "no-check"), &request, text),
			    "0");
	assert_string_equal(opt_text(opt_find(table, OPT_COUNT(table), "text"), &request, text),
			    "");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(opt__each_kind_goes_to_its_field),
		cmocka_unit_test(opt__a_letter_is_its_option),
		cmocka_unit_test(opt__a_word_may_leave_a_field_as_it_is),
		cmocka_unit_test(opt__what_is_wrong_is_said),
		cmocka_unit_test(opt__what_is_said_twice_is_refused),
		cmocka_unit_test(opt__help_and_version_end_it),
		cmocka_unit_test(opt__words_of_another_command_are_its_own),
		cmocka_unit_test(opt__a_line_of_a_file_may_turn_a_flag_off),
		cmocka_unit_test(opt__a_field_is_said_as_it_was_given),
	};

	return cmocka_run_group_tests_name("util-opt", tests, NULL, NULL);
}
