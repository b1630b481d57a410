/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/control.h"
#include "core/shared/lanes.h"
#include "lib/config.h"
#include "lib/report.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { TEXT_BYTES = 16384, ALL_WELL = 42 };

static const char secret[] = "the key of the job";
static uint32_t wiped; /* whole configurations, with the key */

void __real_explicit_bzero(void *at, size_t bytes);
void __wrap_explicit_bzero(void *at, size_t bytes);

void __wrap_explicit_bzero(void *at, size_t bytes)
{
	wiped += bytes == sizeof(struct config) && memmem(at, bytes, secret, strlen(secret));
	__real_explicit_bzero(at, bytes);
}

static const struct report_who who = { .job = "j/1", .host = "h", .rank = 3, .size = 4 };

/* The log is the process's own: every case has one. `act` runs there with `env` set and its stderr a
 * pipe, whose text comes back; its exit status, or -1 if a signal ended it. */
static int child_run(const char *const env[4], int (*act)(void), char text[TEXT_BYTES])
{
	int ends[2], status;
	size_t used = 0;
	ssize_t got;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		setenv("HOME", "/nonexistent", 1);
		for (int i = 0; i < 4 && env[i]; i++)
			putenv((char *)(uintptr_t)env[i]);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		signal(SIGPIPE, SIG_DFL);
		_exit(act());
	}
	close(ends[1]);
	while (used < TEXT_BYTES - 1 &&
	       (got = read(ends[0], text + used, TEXT_BYTES - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int say_all(void)
{
	for (int level = TALLY_LOG_ERROR; level <= TALLY_LOG_DEBUG; level++)
		report_log(&who, level, "line %d \"quoted\" \xc3\xa4", level);
	report_log(NULL, TALLY_LOG_ERROR, "cut \xc3");
	return ALL_WELL;
}

static uint32_t lines_count(const char *text)
{
	uint32_t count = 0;

	for (; (text = strchr(text, '\n')); text++)
		count++;
	return count;
}

static void report__the_level_decides_which_lines_are_shown(void **state)
{
	static const struct {
		const char *env;
		uint32_t lines;
	} levels[] = { { "TALLY_LOG=error", 2 },
		       { "TALLY_LOG=", 3 },
		       { "TALLY_LOG=WARN", 3 },
		       { "TALLY_LOG=info", 4 },
		       { "TALLY_LOG=debug", 5 } };
	char text[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		const char *env[4] = { levels[i].env };

		assert_int_equal(child_run(env, say_all, text), ALL_WELL);
		assert_int_equal(lines_count(text), levels[i].lines);
		assert_non_null(strstr(text, "tally error [job j/1 rank 3 host h] line 1"));
	}
}

static void report__an_unknown_level_is_said_once_and_changes_nothing(void **state)
{
	const char *env[4] = { "TALLY_LOG=loud" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, say_all, text), ALL_WELL);
	assert_int_equal(lines_count(text), 4);
	assert_non_null(strstr(text, "TALLY_LOG=loud is not error, warn, info or debug"));
}

static int level_asked(void)
{
	return report_level() == TALLY_LOG_INFO && wiped == 1 ? ALL_WELL : 1;
}

static void report__no_key_is_left_behind(void **state)
{
	char folder[] = "/tmp/report-XXXXXX", home[64], path[64], text[TEXT_BYTES];
	const char *env[4] = { "TALLY_LOG=info", home };
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(home, sizeof(home), "HOME=%s", folder);
	snprintf(path, sizeof(path), "%s/.tally.conf", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "TALLY_KEY=%s\n", secret);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(child_run(env, level_asked, text), ALL_WELL);
	assert_int_equal(unlink(path) || rmdir(folder), 0);
}

static void report__json_is_one_object_a_line(void **state)
{
	const char *env[4] = { "TALLY_LOG_JSON=1", "TALLY_LOG=debug" };
	char text[TEXT_BYTES], expected[32];
	int number = 0;

	(void)state;
	assert_int_equal(child_run(env, say_all, text), ALL_WELL);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		json_t *object = json_loads(line, 0, NULL);

		assert_non_null(object);
		assert_true(json_real_value(json_object_get(object, "time")) > 1e9);
		assert_non_null(json_string_value(json_object_get(object, "level")));
		if (++number < 5) {
			snprintf(expected, sizeof(expected), "line %d \"quoted\" \xc3\xa4", number);
			assert_string_equal(json_string_value(json_object_get(object, "text")),
					    expected);
			assert_string_equal(json_string_value(json_object_get(object, "job")),
					    "j/1");
			assert_string_equal(json_string_value(json_object_get(object, "host")),
					    "h");
			assert_int_equal(json_integer_value(json_object_get(object, "rank")), 3);
		} else {
			assert_string_equal(json_string_value(json_object_get(object, "text")),
					    "cut ?");
			assert_true(json_integer_value(json_object_get(object, "pid")) > 0);
		}
		json_decref(object);
	}
	assert_int_equal(number, 5);
}

static int say_of_a_host(void)
{
	struct report_who there = who;

	strcpy(there.host, "M\xfcnchen");
	report_log(&there, TALLY_LOG_ERROR, "\xc3\xa4 and \xe4");
	return ALL_WELL;
}

static void report__json_says_all_that_is_utf8(void **state)
{
	const char *env[4] = { "TALLY_LOG_JSON=1" };
	char text[TEXT_BYTES];
	json_t *object;

	(void)state;
	assert_int_equal(child_run(env, say_of_a_host, text), ALL_WELL);
	object = json_loads(text, 0, NULL);
	assert_non_null(object);
	assert_string_equal(json_string_value(json_object_get(object, "host")), "M?nchen");
	assert_string_equal(json_string_value(json_object_get(object, "text")), "\xc3\xa4 and ?");
	json_decref(object);
}

static int say_to_nobody(void)
{
	int ends[2];

	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		return 1;
	close(ends[0]);
	close(ends[1]);
	say_all();
	return say_all();
}

/* A debugger may have kept it back. */
static int end_without_a_signal(void)
{
	struct report_pipe guard;

	alarm(10); /* who waits for it after all */
	report_pipe_begin(&guard);
	report_pipe_end(&guard, true);
	return ALL_WELL;
}

static void report__a_signal_that_is_not_there_is_not_waited_for(void **state)
{
	const char *const env[4] = { NULL };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, end_without_a_signal, text), ALL_WELL);
}

static void report__a_reader_that_is_gone_harms_nothing(void **state)
{
	const char *const plain[4] = { "TALLY_LOG=debug" };
	const char *const json[4] = { "TALLY_LOG=debug", "TALLY_LOG_JSON=1" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(plain, say_to_nobody, text), ALL_WELL);
	assert_int_equal(child_run(json, say_to_nobody, text), ALL_WELL);
}

/* First nobody reads, and then somebody, who has all lines or hears how many he has not. */
static int say_to_a_stopped_reader(void)
{
	static char text[TEXT_BYTES];
	uint32_t lines = 0, said = 0;
	const char *count;
	int ends[2];
	ssize_t got;

	alarm(20); /* who waits after all */
	if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0)
		return 1;
	for (int i = 0; i < 2000; i++, said += 5)
		say_all();
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	while ((got = read(ends[0], text, sizeof(text) - 1)) > 0) {
		text[got] = '\0';
		lines += lines_count(text);
	}
	say_all();
	text[0] = '\0';
	if (read(ends[0], text, sizeof(text) - 1) <= 0)
		return 2;
	count = strstr(text, " lines before this one were dropped");
	if (!count || !strstr(text, "line 4"))
		return 3;
	while (count > text && strchr("0123456789", count[-1]))
		count--;
	return strtoul(count, NULL, 10) == said - lines ? ALL_WELL : 4;
}

static void report__a_reader_that_has_stopped_harms_nothing(void **state)
{
	const char *const plain[4] = { "TALLY_LOG=debug" };
	const char *const json[4] = { "TALLY_LOG=debug", "TALLY_LOG_JSON=1" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(plain, say_to_a_stopped_reader, text), ALL_WELL);
	assert_int_equal(child_run(json, say_to_a_stopped_reader, text), ALL_WELL);
}

static int say_to_a_full_disk(void)
{
	int fd = open("/dev/full", O_WRONLY);

	return fd < 0 || dup2(fd, STDERR_FILENO) < 0 ? 1 : say_all();
}

static void report__a_full_disk_harms_nothing(void **state)
{
	const char *const env[4] = { "TALLY_LOG=debug" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, say_to_a_full_disk, text), ALL_WELL);
}

/* Without a stderr, the next descriptor that is opened is number 2: no line may end up in there. */
static int say_without_stderr(void)
{
	char path[] = "/tmp/tally-report-XXXXXX", text[BOOTSTRAP_TEXT_MAX];
	struct bootstrap boot = { .job = "j", .size = 1, .source = "arguments" };
	int fd, status;

	close(STDERR_FILENO);
	if (config_bootstrap(&boot, NULL, false, text)) /* with which an init begins */
		return 2;
	fd = mkstemp(path);
	unlink(path);
	if (fd != STDERR_FILENO)
		return 1;
	status = say_all();
	return lseek(fd, 0, SEEK_END) == 0 ? status : 3;
}

static void report__without_a_stderr_no_other_file_gets_the_lines(void **state)
{
	const char *const env[4] = { "TALLY_LOG=debug" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, say_without_stderr, text), ALL_WELL);
}

/* ---- an operation ---- */

static void report__operation_is_said_with_its_form(void **state)
{
	static const struct {
		uint8_t kind;
		uint32_t type, op;
		const char *text;
	} cases[] = {
		{ CONTROL_OP_ALLREDUCE, TALLY_FLOAT32, TALLY_SUM, "allreduce of 12 float32, sum" },
		{ CONTROL_OP_ALLREDUCE, TALLY_FLOAT32 | LANES_HALF << 8, TALLY_AVG,
		  "allreduce of 12 float32 as halves, avg" },
		{ CONTROL_OP_REDUCE_SCATTER, TALLY_FLOAT64 | LANES_EXACT << 8, TALLY_SUM,
		  "reduce_scatter of 12 float64 exactly, sum" },
		{ CONTROL_OP_REDUCE, TALLY_FLOAT32 | LANES_FIXED << 8 | 129 << 16, TALLY_SUM,
		  "reduce of 12 float32 below 2^3, sum" },
		{ CONTROL_OP_BROADCAST, TALLY_INT8, 0, "broadcast of 12 int8" },
		{ CONTROL_OP_BARRIER, TALLY_INT32, 0, "barrier" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct control_op op = {
			.kind = cases[i].kind, .type = cases[i].type, .op = cases[i].op, .count = 12
		};
		char text[96];

		assert_string_equal(report_op(&op, text), cases[i].text);
	}
}

/* ---- a line ---- */

static int say_one(void)
{
	report_log(NULL, TALLY_LOG_WARN, "%s", "one");
	return ALL_WELL;
}

static long seconds_now(void)
{
	struct timespec now; /* time() may be a tick behind the log's clock */

	clock_gettime(CLOCK_REALTIME, &now);
	return (long)(now.tv_sec % 86400);
}

static void report__a_line_begins_with_the_time_of_day(void **state)
{
	const char *env[4] = { "TZ=UTC" };
	int hour, minute, second, millisecond, end = 0;
	long before = seconds_now(), said, pid;
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, say_one, text), ALL_WELL);
	assert_int_equal(sscanf(text, "%2d:%2d:%2d.%3d tally warn [pid %ld] one\n%n", &hour,
				&minute, &second, &millisecond, &pid, &end),
			 5);
	assert_int_equal(end, strlen(text));
	said = hour * 3600 + minute * 60 + second;
	/* At midnight the day begins anew. */
	assert_true((said - before + 86400) % 86400 <= (seconds_now() - before + 86400) % 86400);
}

static int say_too_much(void)
{
	static char much[3 * REPORT_TEXT_MAX];

	memset(much, 'm', sizeof(much) - 1);
	report_log(&who, TALLY_LOG_WARN, "%s", much);
	if (report_error(&who, TALLY_ERR_RANGE, "%s", much) != TALLY_ERR_RANGE)
		return 1;
	return strlen(report_last()) == REPORT_TEXT_MAX - 1 ? ALL_WELL : 2;
}

static void report__what_is_too_long_is_cut_and_stays_one_line(void **state)
{
	const char *env[4] = { NULL };
	char text[TEXT_BYTES];
	size_t letters = 0;

	(void)state;
	assert_int_equal(child_run(env, say_too_much, text), ALL_WELL);
	assert_int_equal(lines_count(text), 2);
	assert_int_equal(text[strlen(text) - 1], '\n');
	for (const char *at = strstr(text, "] m") + 2; *at == 'm'; at++)
		letters++;
	assert_int_equal(letters, REPORT_TEXT_MAX - 1);
}

static int set_and_say(void)
{
	if (tally_set_log(TALLY_LOG_DEBUG, NULL, NULL))
		return 1;
	say_all();
	if (tally_set_log(0, NULL, NULL)) /* the level stays */
		return 2;
	return report_level() == TALLY_LOG_DEBUG ? ALL_WELL : 3;
}

static int heard;

static void hear(int level, const char *line, void *arg)
{
	if (arg == &heard && level == TALLY_LOG_WARN && strstr(line, "] one"))
		heard++;
}

/* Lines go to the function alone, with what it was given, and back to stderr when there is none any more. */
static int set_a_function(void)
{
	if (tally_set_log(0, hear, &heard) || say_one() != ALL_WELL || heard != 1)
		return 1;
	return tally_set_log(0, NULL, NULL) || say_one() != ALL_WELL || heard != 1 ? 2 : ALL_WELL;
}

static void report__a_function_gets_the_lines_until_there_is_none(void **state)
{
	const char *env[4] = { NULL };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, set_a_function, text), ALL_WELL);
	assert_int_equal(lines_count(text), 1);
}

static int set_wrongly(void)
{
	if (tally_set_log(-1, NULL, NULL) != TALLY_ERR_ARGUMENT ||
	    strcmp(report_last(), "level -1: no such log level") != 0)
		return 1;
	if (tally_set_log(TALLY_LOG_DEBUG + 1, NULL, NULL) != TALLY_ERR_ARGUMENT ||
	    strcmp(report_last(), "level 5: no such log level") != 0)
		return 2;
	return report_level() == TALLY_LOG_INFO ? ALL_WELL : 3;
}

/* Whether it has been looked at or not. */
static void report__what_the_program_says_wins_over_the_environment(void **state)
{
	const char *env[4] = { "TALLY_LOG=error" }, *info[4] = { "TALLY_LOG=info" };
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(child_run(env, set_and_say, text), ALL_WELL);
	assert_int_equal(lines_count(text), 5);
	assert_int_equal(child_run(info, set_wrongly, text), ALL_WELL);
	assert_int_equal(lines_count(text), 2);
}

static void report__json_is_on_or_off(void **state)
{
	static const struct {
		const char *env;
		bool is_json, is_said;
	} cases[] = { { "TALLY_LOG_JSON=", false, false },
		      { "TALLY_LOG_JSON=0", false, false },
		      { "TALLY_LOG_JSON=1", true, false },
		      { "TALLY_LOG_JSON=2", false, true } };
	char text[TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *env[4] = { cases[i].env };

		assert_int_equal(child_run(env, say_one, text), ALL_WELL);
		assert_int_equal(text[0] == '{', cases[i].is_json);
		assert_int_equal(lines_count(text), 1 + cases[i].is_said);
		assert_int_equal(strstr(text, "TALLY_LOG_JSON=2 is not 0 or 1: 0 it is\n") != NULL,
				 cases[i].is_said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(report__the_level_decides_which_lines_are_shown),
		cmocka_unit_test(report__an_unknown_level_is_said_once_and_changes_nothing),
		cmocka_unit_test(report__no_key_is_left_behind),
		cmocka_unit_test(report__json_is_one_object_a_line),
		cmocka_unit_test(report__json_says_all_that_is_utf8),
		cmocka_unit_test(report__a_signal_that_is_not_there_is_not_waited_for),
		cmocka_unit_test(report__a_reader_that_is_gone_harms_nothing),
		cmocka_unit_test(report__a_reader_that_has_stopped_harms_nothing),
		cmocka_unit_test(report__operation_is_said_with_its_form),
		cmocka_unit_test(report__a_line_begins_with_the_time_of_day),
		cmocka_unit_test(report__what_is_too_long_is_cut_and_stays_one_line),
		cmocka_unit_test(report__what_the_program_says_wins_over_the_environment),
		cmocka_unit_test(report__a_function_gets_the_lines_until_there_is_none),
		cmocka_unit_test(report__json_is_on_or_off),
		cmocka_unit_test(report__a_full_disk_harms_nothing),
		cmocka_unit_test(report__without_a_stderr_no_other_file_gets_the_lines),
	};

	return cmocka_run_group_tests_name("lib-report", tests, NULL, NULL);
}
