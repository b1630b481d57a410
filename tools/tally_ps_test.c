/* SPDX-License-Identifier: Apache-2.0 */
/* tally_ps_test.c - tally-ps as scripts and service managers see it. The first argument is the program. */
#include "tools/daemon_fixture.h"

#define TABLE "--workers 1 --table t,dim=1,durability=none"

static char path[64];
static int file = -1;

static int file_begin(void **state)
{
	(void)state;
	strcpy(path, "/tmp/tally-ps-test-XXXXXX");
	file = mkstemp(path);
	return file < 0 ? -1 : 0;
}

static int file_end(void **state)
{
	(void)state;
	close(file);
	return unlink(path);
}

static void file_write(const char *text)
{
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, text, strlen(text), 0), strlen(text));
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Starts with these words, says these, and ends in order. */
static void expect_start(const char *words, const char *part)
{
	struct run run;

	run_start(&run, words);
	run_await(&run, "ready on ");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	expect(run.err_text, part);
}

static void expect_refusal(const char *words, const char *part)
{
	struct run run;

	assert_int_equal(run_all(&run, words), 2);
	expect(run.err_text, part);
}

static void tally_ps__without_a_key_it_is_there_for_this_host_alone(void **state)
{
	char words[160];

	(void)state;
	expect_start(TABLE " --listen 127.0.0.1:0", "ready on 127.0.0.1:");
	expect_start(TABLE " --listen 0.0.0.0:0", "warn: whoever reaches 0.0.0.0:0 may change");
	file_write("secret\n");
	snprintf(words, sizeof(words), TABLE " --listen 0.0.0.0:0 --key-file %s", path);
	expect_start(words, "tally-ps: ready on 0.0.0.0:");
	expect_start(TABLE " --listen 0.0.0.0:0 --insecure", "tally-ps: ready on 0.0.0.0:");
}

/* The default port may be in use here: by its refusal, too, the address is known. */
static void tally_ps__default_address_is_loopback(void **state)
{
	static const struct {
		const char *words, *address;
	} cases[] = { { TABLE, "127.0.0.1" }, { TABLE " --insecure", "0.0.0.0" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct run run;

		run_start(&run, cases[i].words);
		run_await(&run, cases[i].address);
		kill(run.pid, SIGTERM);
		(void)run_end(&run);
		assert_null(strstr(run.err_text, cases[1 - i].address));
	}
}

static void tally_ps__aggregator_that_loopback_does_not_reach_is_named(void **state)
{
	struct run run;

	(void)state;
	assert_int_equal(run_all(&run, TABLE " --listen 127.0.0.1:0 --aggregator 192.0.2.1"), 1);
	expect(run.err_text, "aggregator 192.0.2.1: out of reach: this server listens on loopback");
	expect(run.err_text, "--listen");
}

static void tally_ps__never_shows_what_may_be_a_key(void **state)
{
	static const char *const flags[] = { "--key hunter2", "--key=hunter2", "--ke hunter2",
					     "--workers 2 --KEY=hunter2" };
	static const char *const lines[] = { "key=hunter2\n", "TALLY_KEY = hunter2\n" };
	char words[96];

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) + 2; i++) {
		bool is_flag = i < sizeof(flags) / sizeof(*flags);
		struct run run;

		if (!is_flag)
			file_write(lines[i - sizeof(flags) / sizeof(*flags)]);
		snprintf(words, sizeof(words), "--config %s", path);
		assert_int_equal(run_all(&run, is_flag ? flags[i] : words), 2);
		expect(run.err_text, "key-file");
		assert_null(strstr(run.err_text, "hunter2"));
	}
}

static void tally_ps__key_file_that_all_may_read_is_warned_of(void **state)
{
	char words[160], key[128 + 1] = "";

	(void)state;
	file_write("secret\n");
	snprintf(words, sizeof(words), TABLE " --listen 127.0.0.1:0 --key-file %s", path);
	assert_int_equal(fchmod(file, 0604), 0);
	expect_start(words, "may be read by everybody on this host: chmod o-r");
	assert_int_equal(fchmod(file, 0600), 0);
	file_write("two\nlines\n");
	expect_refusal(words, "--key-file /tmp/tally-ps-test-");
	memset(key, 'k',
	       sizeof(key) -
		       1); /* longer than any worker's may be; --heartbeat is looked at later */
	file_write(key);
	snprintf(words, sizeof(words), "--key-file %s --heartbeat 0", path);
	expect_refusal(words, "not one line of 1 to 127");
}

static void tally_ps__sighup_reads_its_key_file_again(void **state)
{
	char words[160];
	struct run run;

	(void)state;
	assert_int_equal(fchmod(file, 0600), 0);
	file_write("secret\n");
	snprintf(words, sizeof(words), TABLE " --listen 127.0.0.1:0 --key-file %s", path);
	run_start(&run, words);
	run_await(&run, "ready on ");
	file_write("");
	kill(run.pid, SIGHUP);
	run_await(&run, "the key stays as it was");
	file_write("hunter2\n");
	kill(run.pid, SIGHUP);
	run_await(&run, "another key: whoever connects from now on must know it");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_null(strstr(run.err_text, "hunter2"));
}

static void tally_ps__file_and_flags_are_one_set_of_options(void **state)
{
	char words[160];

	(void)state;
	file_write("# a comment\nlisten = 127.0.0.1:0\nworkers=3\n"
		   "table=a,dim=1,durability=none\ntable=b,dim=2,durability=none\n");
	snprintf(words, sizeof(words), "--config %s --table c,dim=1,durability=none", path);
	expect_start(words, ", 3 tables\n");
	file_write("workers=3\nworkers=3\n");
	expect_refusal(words, ":2: workers=3: is in this file twice");
	file_write("wrokers=3\n");
	expect_refusal(words, ":1: wrokers=3: no such option");
	file_write("workers=0\n");
	expect_refusal(words, ":1: workers=0: a number from 1 to 256");
	file_write("table=c,dim=1,durability=none\n");
	expect_refusal(words, "c,dim=1,durability=none: name=c: a second table of this name");
}

static void tally_ps__what_is_for_one_start_is_not_in_a_file(void **state)
{
	static const char *const lines[] = { "adopt=0/2\n", "adopt = 1/1\n", "accept-loss=\n",
					     "accept-loss=1\n" };
	char words[160];

	(void)state;
	/* The heartbeat is refused, too, but later: it would run otherwise. */
	snprintf(words, sizeof(words), TABLE " --heartbeat 0 --config %s", path);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		file_write(lines[i]);
		expect_refusal(words, "on the command line alone");
	}
	expect_start(TABLE " --listen 127.0.0.1:0 --adopt 0/2 --accept-loss", "ready");
}

static void tally_ps__heartbeat_is_in_seconds(void **state)
{
	(void)state;
	expect_start(TABLE " --listen 127.0.0.1:0 --heartbeat 0.25", "ready");
	expect_refusal(TABLE " --heartbeat 0", "--heartbeat 0: seconds, from 0.01 to 3600");
	expect_refusal(TABLE " --heartbeat 0.0009", "seconds");
	expect_refusal(TABLE " --heartbeat 1.", "seconds");
	expect_refusal(TABLE " --heartbeat 3600.001", "seconds");
	expect_refusal(TABLE " --heartbeat 1s", "seconds");
}

static void tally_ps__log_json_is_one_object_a_line(void **state)
{
	static const char of_table[] =
		"\"level\":\"info\",\"table\":\"t\",\"text\":\"table t: 0 rows";
	struct run run;

	(void)state;
	run_start(&run, TABLE " --listen 127.0.0.1:0 --log-json");
	run_await(&run, "\"ready on 127.0.0.1:");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	expect(run.err_text, of_table);
	for (char *line = strtok(run.err_text, "\n"); line; line = strtok(NULL, "\n")) {
		assert_int_equal(line[0], '{');
		assert_int_equal(line[strlen(line) - 1], '}');
	}
}

/* What was pushed since the last checkpoint is lost then: scripts must see that. */
static void tally_ps__end_without_its_checkpoint_exits_1(void **state)
{
	static const char *const durabilities[] = { "checkpoint", "log" };
	char dir[] = "/tmp/tally-ps-test-XXXXXX", log[64], words[160];
	struct run run;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		strcpy(dir + strlen(dir) - 6, "XXXXXX");
		assert_non_null(mkdtemp(dir));
		snprintf(log, sizeof(log), "%s/t.0.log", dir);
		snprintf(words, sizeof(words),
			 "--workers 1 --listen 127.0.0.1:0 --dir %s --table t,dim=1,durability=%s",
			 dir, durabilities[i]);
		run_start(&run, words);
		run_await(&run, "ready on ");
		assert_int_equal(unlink(log), 0);
		assert_int_equal(rmdir(dir), 0);
		kill(run.pid, SIGTERM);
		assert_int_equal(run_end(&run), 1);
		expect(run.err_text, "its file was deleted: ");
	}
}

/* However it was started: it hears that the checkpoint's writer has done it (run_start). */
static void tally_ps__end_with_its_checkpoint_exits_0(void **state)
{
	char dir[] = "/tmp/tally-ps-test-XXXXXX", words[160], file_name[64];
	struct run run;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(words, sizeof(words),
		 "--workers 1 --listen 127.0.0.1:0 --dir %s --table t,dim=1,durability=checkpoint",
		 dir);
	run_start(&run, words);
	run_await(&run, "ready on ");
	kill(run.pid, SIGUSR2);
	run_await(&run, "a checkpoint was written");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_null(strstr(run.err_text, "no checkpoint"));
	for (unsigned k = 0; k < 4; k++) {
		snprintf(file_name, sizeof(file_name), "%s/t.%u.checkpoint", dir, k);
		assert_int_equal(unlink(file_name), k == 2 ? 0 : -1); /* the last, and no other */
		snprintf(file_name, sizeof(file_name), "%s/t.%u.log", dir, k);
		assert_int_equal(unlink(file_name), k == 2 ? 0 : -1);
	}
	unlink(strcat(strcpy(file_name, dir), "/lock"));
	rmdir(dir);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(tally_ps__without_a_key_it_is_there_for_this_host_alone),
		cmocka_unit_test(tally_ps__default_address_is_loopback),
		cmocka_unit_test(tally_ps__aggregator_that_loopback_does_not_reach_is_named),
		cmocka_unit_test(tally_ps__never_shows_what_may_be_a_key),
		cmocka_unit_test(tally_ps__key_file_that_all_may_read_is_warned_of),
		cmocka_unit_test(tally_ps__sighup_reads_its_key_file_again),
		cmocka_unit_test(tally_ps__file_and_flags_are_one_set_of_options),
		cmocka_unit_test(tally_ps__what_is_for_one_start_is_not_in_a_file),
		cmocka_unit_test(tally_ps__heartbeat_is_in_seconds),
		cmocka_unit_test(tally_ps__log_json_is_one_object_a_line),
		cmocka_unit_test(tally_ps__end_without_its_checkpoint_exits_1),
		cmocka_unit_test(tally_ps__end_with_its_checkpoint_exits_0),
	};

	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests(tests, file_begin, file_end);
}
