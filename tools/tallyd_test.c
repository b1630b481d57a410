/* SPDX-License-Identifier: Apache-2.0 */
/* tallyd_test.c - tallyd as scripts and service managers see it: words, streams, signals, exit status.
 * The first argument is the program. */
#include "tools/daemon_fixture.h"

#include "tests/skip.h"

static void tallyd__help_and_version_go_to_stdout(void **state)
{
	struct run run;

	(void)state;
	assert_int_equal(run_all(&run, "--help"), 0);
	assert_non_null(strstr(run.out_text, "--listen"));
	assert_string_equal(run.err_text, "");
	assert_int_equal(run_all(&run, "--version"), 0);
	assert_ptr_equal(strstr(run.out_text, "tallyd "), run.out_text);
}

static void tallyd__wrong_flags_exit_2_and_are_named_with_their_value(void **state)
{
	static const char *const wrong[][3] = {
		{ "--shards 0", "--shards", "0" },
		{ "--shards 65", "--shards", "65" },
		{ "--shards two", "--shards", "two" },
		{ "--lanes 6", "--lanes", "6" },
		{ "--lanes 16372", "--lanes", "16372" },
		{ "--slots -5", "--slots", "-5" },
		{ "--run 65", "--run", "65" },
		{ "--faithful 0", "--faithful", "0" },
		{ "--faithful 1025", "--faithful", "1025" },
		{ "--memory 5X", "--memory", "5X" },
		{ "--memory-total 1K", "--memory-total", "1K" },
		{ "--memory 9999999999G", "--memory", "9999999999G" },
		{ "--drain-timeout 1.5", "--drain-timeout", "1.5" },
		{ "--engine xdp", "--engine", "xdp" },
		{ "--engine kernel", "--engine kernel", "--devices" },
		{ "--devices eth0", "--devices eth0", "--engine kernel" },
		{ "--engine p4", "--engine p4", "--switch" },
		{ "--switch 10.0.0.1", "--switch 10.0.0.1", "--engine p4" },
		{ "--engine p4 --switch 10.0.0.1 --devices eth0", "--devices eth0",
		  "--engine kernel" },
		{ "--engine p4 --switch 10.0.0.1 --shards 2", "--engine p4", "one shard" },
		{ "--log-level loud", "--log-level", "loud" },
		{ "--listen [::1", "--listen", "[::1" },
		{ "--listen 127.0.0.1:99999", "--listen", "99999" },
		{ "--listen 127.0.0.1:65535 --shards 2", "--listen", "65535" },
		{ "--config /does/not/exist", "--config", "/does/not/exist" },
		{ "--config /tmp", "--config /tmp", "directory" },
		{ "--shards 2 --shards 2 --engine xdp", "--shards 2", "is given twice" },
		{ "--log-json --log-json --engine xdp", "--log-json", "is given twice" },
		{ "--config /dev/null --config /dev/null", "--config", "/dev/null" },
		{ "--key-file /does/not/exist", "--key-file", "/does/not/exist" },
		{ "--frobnicate", "frobnicate", "" },
		{ "127.0.0.1", "127.0.0.1", "" },
	};
	struct run run;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(run_all(&run, wrong[i][0]), 2);
		assert_non_null(strstr(run.err_text, wrong[i][1]));
		assert_non_null(strstr(run.err_text, wrong[i][2]));
		assert_string_equal(run.out_text, "");
	}
}

static void tallyd__says_ready_and_ends_with_0_on_sigterm(void **state)
{
	struct run run;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0 --shards 2");
	run_await(&run, "tallyd: ready on 127.0.0.1:");
	run_await(&run, ", 2 shards\n");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_string_equal(run.out_text, "");
}

static void tallyd__listens_on_ipv6(void **state)
{
	int probe = socket(AF_INET6, SOCK_DGRAM, 0);
	struct run run;

	(void)state;
	if (probe < 0)
		SKIP("no IPv6 in this kernel");
	close(probe);
	run_start(&run, "--listen [::1]:0");
	run_await(&run, "tallyd: ready on [::1]:");
	kill(run.pid, SIGINT);
	assert_int_equal(run_end(&run), 0);
}

static void tallyd__port_in_use_exits_1_and_is_named(void **state)
{
	struct run first, second;
	char words[64], *port;

	(void)state;
	run_start(&first, "--listen 127.0.0.1:0");
	run_await(&first, " shard\n");
	port = strstr(first.err_text, "127.0.0.1:") + strlen("127.0.0.1:");
	snprintf(words, sizeof(words), "--listen 127.0.0.1:%.*s", (int)strspn(port, "0123456789"),
		 port);
	assert_int_equal(run_all(&second, words), 1);
	assert_non_null(strstr(second.err_text, words + strlen("--listen ")));
	kill(first.pid, SIGTERM);
	assert_int_equal(run_end(&first), 0);
}

static void tallyd__flags_win_over_the_file(void **state)
{
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int fd = mkstemp(path);
	struct run run;

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "# a comment\n\nlisten = 127.0.0.1:0\nshards=3\n") > 0);
	snprintf(words, sizeof(words), "--shards 2 --config %s", path);
	run_start(&run, words);
	run_await(&run, "127.0.0.1:");
	run_await(&run, ", 2 shards\n");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_true(dprintf(fd, "lanes=7\n") > 0);
	assert_int_equal(run_all(&run, words), 2);
	assert_non_null(strstr(run.err_text, ":5: lanes=7"));
	close(fd);
	unlink(path);
}

static void tallyd__bad_lines_exit_2_and_are_named_with_file_and_line(void **state)
{
	static const char *const bad[][2] = {
		{ "shards=2\nshards=2\n", ":2: shards=2: is in this file twice" },
		{ "# one\nshard=2\n", ":2: shard=2: no such option" },
		{ "\nshards 2\n", ":2: not KEY=VALUE: shards 2" },
		{ "log-json=maybe\n", ":1: log-json=maybe" },
		{ "slots=9999999\n", ":1: slots=9999999" },
		{ "config=/etc/other\n", ":1: config=/etc/other: no such option" },
		{ "key-file=/does/not/exist\n", ":1: key-file=/does/not/exist" },
	};
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int fd = mkstemp(path);
	struct run run;

	(void)state;
	assert_true(fd >= 0);
	snprintf(words, sizeof(words), "--config %s", path);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, bad[i][0], strlen(bad[i][0]), 0) > 0);
		assert_int_equal(run_all(&run, words), 2);
		assert_non_null(strstr(run.err_text, path));
		if (!strstr(run.err_text, bad[i][1]))
			fail_msg("\"%s\" does not say \"%s\"", run.err_text, bad[i][1]);
	}
	close(fd);
	unlink(path);
}

static void tallyd__never_shows_what_may_be_a_key(void **state)
{
	static const char *const lines[] = { "key=hunter2\n", "TALLY_KEY = hunter2\n",
					     "Key hunter2\n", "job-key=hunter2\n" };
	static const char *const flags[] = { "--key hunter2", "--key=hunter2", "--ke hunter2",
					     "--shards 2 --KEY=hunter2" };
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int fd = mkstemp(path);
	struct run run;

	(void)state;
	assert_true(fd >= 0);
	snprintf(words, sizeof(words), "--config %s", path);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_true(pwrite(fd, lines[i], strlen(lines[i]), 0) > 0);
		assert_int_equal(run_all(&run, words), 2);
		assert_non_null(strstr(run.err_text, ":1: "));
		assert_null(strstr(run.err_text, "hunter2"));
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		assert_int_equal(run_all(&run, flags[i]), 2);
		assert_non_null(strstr(run.err_text, "no such option"));
		assert_non_null(strstr(run.err_text, "--key-file"));
		assert_null(strstr(run.err_text, "hunter2"));
	}
	close(fd);
	unlink(path);
}

static void tallyd__log_json_is_one_object_a_line(void **state)
{
	struct run run;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0 --log-json");
	run_await(&run, "\"ready on 127.0.0.1:");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	for (char *line = strtok(run.err_text, "\n"); line; line = strtok(NULL, "\n")) {
		assert_int_equal(line[0], '{');
		assert_int_equal(line[strlen(line) - 1], '}');
	}
}

/* True: it begins as "2026-01-31T23:59:59.123Z tallyd: " does. */
static bool is_timed(const char *line)
{
	static const char shape[] = "0000-00-00T00:00:00.000Z tallyd: ";

	for (size_t i = 0; i < sizeof(shape) - 1; i++)
		if (shape[i] == '0' ? line[i] < '0' || line[i] > '9' : line[i] != shape[i])
			return false;
	return true;
}

static void tallyd__text_lines_begin_with_the_time(void **state)
{
	struct run run;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0");
	run_await(&run, " shard\n");
	kill(run.pid, SIGUSR1);
	run_await(&run, "holds ");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	for (char *line = strtok(run.err_text, "\n"); line; line = strtok(NULL, "\n"))
		if (!is_timed(line))
			fail_msg("\"%s\" has no time", line);
}

/* In the protocol's own words. */
static int say(struct run *run, const char *join)
{
	uint32_t length = htonl((uint32_t)strlen(join));
	struct sockaddr_in to = { .sin_family = AF_INET };
	const char *port = strstr(run->err_text, "127.0.0.1:") + strlen("127.0.0.1:");
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(port));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, &length, sizeof(length), 0), sizeof(length));
	assert_int_equal(send(fd, join, strlen(join), 0), strlen(join));
	return fd;
}

/* A job of one rank. */
static int join_say(struct run *run)
{
	return say(run, "{\"type\":\"JOIN\",\"version_min\":3,\"version_max\":3,\"job\":"
			"\"hand\",\"size\":1,"
			"\"rank\":0,\"host\":\"here\",\"list_hash\":\"0000000000000000\"}");
}

/* One that never gets ready. */
static int join_by_hand(struct run *run)
{
	int fd = join_say(run);

	run_await(run, "all 1 ranks are here");
	return fd;
}

static void tallyd__log_json_has_job_and_rank_as_fields(void **state)
{
	static const char of_job[] = "\"level\":\"info\",\"job\":\"hand\",\"text\":\"job hand: "
				     "all 1 ranks are here";
	static const char of_rank[] = "\"job\":\"hand\",\"rank\":0,\"text\":\"job hand: rank 0 on "
				      "here";
	static const char joined[] =
		"\"job\":\"pair\",\"rank\":1,\"text\":\"job pair: rank 1 on here";
	struct run run;
	int fd, pair;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0 --log-json");
	run_await(&run, "shard\"}\n");
	pair = say(&run, "{\"type\":\"JOIN\",\"version_min\":3,\"version_max\":3,\"job\":\"pair\","
			 "\"size\":2,\"rank\":1,\"host\":\"here\","
			 "\"list_hash\":\"0000000000000000\"}");
	run_await(&run, joined);
	fd = join_by_hand(&run);
	run_await(&run, of_job);
	close(fd);
	run_await(&run, of_rank);
	close(pair);
	kill(run.pid, SIGTERM);
	(void)run_end(&run);
}

static void tallyd__with_a_key_file_nobody_joins_without_the_key(void **state)
{
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128], answer[1024];
	int file = mkstemp(path), fd;
	struct run run;
	ssize_t got;

	(void)state;
	assert_true(file >= 0);
	assert_int_equal(fchmod(file, 0644), 0);
	assert_true(dprintf(file, "hunter2\n") > 0);
	snprintf(words, sizeof(words), "--listen 127.0.0.1:0 --key-file %s", path);
	run_start(&run, words);
	run_await(&run, " shard\n");
	assert_non_null(strstr(run.err_text, path)); /* everybody may read it */
	fd = join_say(&run);
	got = recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	assert_true(got > 4);
	answer[got] = '\0';
	assert_non_null(strstr(answer + 4, "DENIED"));
	assert_non_null(strstr(answer + 4, "key"));
	assert_null(strstr(answer + 4, "hunter"));
	close(fd);
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_null(strstr(run.err_text, "hunter"));
	close(file);
	unlink(path);
}

/* It lives, and says what it makes of its files. */
static void hup(struct run *run, int file, const char *lines, const char *words)
{
	assert_int_equal(ftruncate(file, 0), 0);
	assert_true(pwrite(file, lines, strlen(lines), 0) == (ssize_t)strlen(lines));
	kill(run->pid, SIGHUP);
	run_await(run, words);
}

static void tallyd__sighup_reads_its_files_again_and_says_what_changed(void **state)
{
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int file = mkstemp(path);
	struct run run;

	(void)state;
	assert_true(file >= 0);
	assert_true(dprintf(file, "gather-timeout=20\n") > 0);
	snprintf(words, sizeof(words), "--listen 127.0.0.1:0 --shards 2 --config %s", path);
	run_start(&run, words);
	run_await(&run, " shards\n");
	kill(run.pid, SIGUSR2);
	hup(&run, file, "gather-timeout=20\n", "nothing has changed");
	hup(&run, file, "gather-timeout=30\nshards=7\nslots=8\nmemory=2M\n",
	    "gather-timeout: 30 from now on, 20 before");
	run_await(&run, "slots: 8 needs a restart, it stays the default");
	run_await(&run, "memory: 2097152 needs a restart, it stays the default");
	assert_null(strstr(run.err_text, "shards: ")); /* the command line wins */
	hup(&run, file, "gather-timeout=0\n", ":1: gather-timeout=0: ");
	assert_non_null(strstr(run.err_text, "error: all stays as it was: "));
	hup(&run, file, "log-level=debug\n", "gather-timeout: 300 from now on, 30 before");
	assert_non_null(strstr(run.err_text, "log-level: debug from now on, info before"));
	hup(&run, file, "log-json=1\n", "log-json: 1 from now on, 0 before");
	run_await(&run, "\"log-level: info from now on, debug before\"");
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	close(file);
	unlink(path);
}

/* True: let in. */
static bool is_let_in(struct run *run, const char *key)
{
	static const char join[] = "{\"type\":\"JOIN\",\"version_min\":3,\"version_max\":3,"
				   "\"job\":\"keyed\",\"size\":1,\"rank\":0,\"host\":\"here\","
				   "\"list_hash\":\"0000000000000000\",\"key\":\"%s\"}";
	char text[sizeof(join) + 128], answer[2048];
	uint32_t length;
	bool is_in;
	int fd;

	snprintf(text, sizeof(text), join, key);
	fd = say(run, text);
	do {
		assert_int_equal(recv(fd, &length, sizeof(length), MSG_WAITALL), sizeof(length));
		length = ntohl(length);
		assert_true(length < sizeof(answer));
		assert_int_equal(recv(fd, answer, length, MSG_WAITALL), length);
		answer[length] = '\0';
		is_in = strstr(answer, "GRANT") != NULL;
	} while (!is_in && !strstr(answer, "DENIED"));
	close(fd);
	return is_in;
}

static void tallyd__sighup_changes_the_key_for_who_joins_later(void **state)
{
	char path[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int file = mkstemp(path);
	struct run run;

	(void)state;
	assert_true(file >= 0);
	assert_true(dprintf(file, "hunter2\n") > 0);
	snprintf(words, sizeof(words), "--listen 127.0.0.1:0 --key-file %s", path);
	run_start(&run, words);
	run_await(&run, " shard\n");
	assert_true(is_let_in(&run, "hunter2"));
	assert_false(is_let_in(&run, "gatherer3"));
	hup(&run, file, "gatherer3\n", "key-file: another key from now on");
	assert_true(is_let_in(&run, "gatherer3"));
	assert_false(is_let_in(&run, "hunter2"));
	hup(&run, file, "", "all stays as it was");
	assert_true(is_let_in(&run, "gatherer3"));
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	assert_null(strstr(run.err_text, "hunter"));
	assert_null(strstr(run.err_text, "gatherer"));
	close(file);
	unlink(path);
}

/* However little is logged: an empty file must not let in whoever comes. */
static void tallyd__sighup_never_ends_that_a_key_is_asked_for(void **state)
{
	char path[] = "/tmp/tallyd-test-XXXXXX", key[] = "/tmp/tallyd-test-XXXXXX", words[128];
	int file = mkstemp(path), key_file = mkstemp(key);
	struct run run;

	(void)state;
	assert_true(file >= 0);
	assert_true(key_file >= 0);
	assert_true(dprintf(key_file, "hunter2\n") > 0);
	assert_true(dprintf(file, "key-file=%s\ngather-timeout=20\n", key) > 0);
	snprintf(words, sizeof(words), "--listen 127.0.0.1:0 --log-level error --config %s", path);
	run_start(&run, words);
	run_await(&run, " shard\n");
	hup(&run, file, "",
	    "error: all stays as it was: key-file: to ask for no key needs a restart");
	assert_false(is_let_in(&run, ""));
	assert_true(is_let_in(&run, "hunter2"));
	kill(run.pid, SIGTERM);
	assert_int_equal(run_end(&run), 0);
	close(file);
	close(key_file);
	unlink(path);
	unlink(key);
}

static void tallyd__sighup_while_it_drains_is_told_so(void **state)
{
	struct run run;
	int fd;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0");
	run_await(&run, " shard\n");
	fd = join_by_hand(&run);
	kill(run.pid, SIGTERM);
	run_await(&run, "draining");
	kill(run.pid, SIGHUP);
	run_await(&run, "no file is read again: it drains");
	kill(run.pid, SIGINT);
	assert_int_equal(run_end(&run), 3);
	close(fd);
}

static void tallyd__second_signal_aborts_jobs_and_exits_3(void **state)
{
	struct run run;
	int fd;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0");
	run_await(&run, " shard\n");
	fd = join_by_hand(&run);
	kill(run.pid, SIGTERM);
	run_await(&run, "draining");
	kill(run.pid, SIGINT);
	assert_int_equal(run_end(&run), 3);
	close(fd);
}

static void tallyd__drain_timeout_aborts_jobs_and_exits_3(void **state)
{
	struct run run;
	int fd;

	(void)state;
	run_start(&run, "--listen 127.0.0.1:0 --drain-timeout 1");
	run_await(&run, " shard\n");
	fd = join_by_hand(&run);
	kill(run.pid, SIGTERM);
	run_await(&run, "not drained in 1000 ms");
	close(fd);
	assert_int_equal(run_end(&run), 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tallyd__help_and_version_go_to_stdout),
		cmocka_unit_test(tallyd__wrong_flags_exit_2_and_are_named_with_their_value),
		cmocka_unit_test(tallyd__says_ready_and_ends_with_0_on_sigterm),
		cmocka_unit_test(tallyd__listens_on_ipv6),
		cmocka_unit_test(tallyd__port_in_use_exits_1_and_is_named),
		cmocka_unit_test(tallyd__flags_win_over_the_file),
		cmocka_unit_test(tallyd__bad_lines_exit_2_and_are_named_with_file_and_line),
		cmocka_unit_test(tallyd__with_a_key_file_nobody_joins_without_the_key),
		cmocka_unit_test(tallyd__never_shows_what_may_be_a_key),
		cmocka_unit_test(tallyd__log_json_is_one_object_a_line),
		cmocka_unit_test(tallyd__text_lines_begin_with_the_time),
		cmocka_unit_test(tallyd__log_json_has_job_and_rank_as_fields),
		cmocka_unit_test(tallyd__sighup_reads_its_files_again_and_says_what_changed),
		cmocka_unit_test(tallyd__sighup_changes_the_key_for_who_joins_later),
		cmocka_unit_test(tallyd__sighup_never_ends_that_a_key_is_asked_for),
		cmocka_unit_test(tallyd__sighup_while_it_drains_is_told_so),
		cmocka_unit_test(tallyd__second_signal_aborts_jobs_and_exits_3),
		cmocka_unit_test(tallyd__drain_timeout_aborts_jobs_and_exits_3),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: tallyd_test TALLYD\n");
		return 2;
	}
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
