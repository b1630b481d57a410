/* SPDX-License-Identifier: Apache-2.0 */
/* report_test.c - what a whole server tells its operator, and does when it is told to. */
#include <sys/wait.h>

#include "ps/server_fixture.h"
#include "util/clock.h"

static void server__member_that_is_silent_is_named(void **unused)
{
	(void)unused;
	end(NULL);
	options.heartbeat_ms = 30;
	assert_int_equal(begin(NULL), 0);
	close(connect_one()); /* who has gone is not silent */
	open_one(1, 3);
	log_wait("1 worker 1 (H, pid 77): nothing was heard for ");
	assert_int_equal(log_count("nothing was heard"), 1);
}

/* What is done for the operator, in a line each. */
static void server__says_what_it_has_and_does(void **unused)
{
	char path[64];
	int fd = open_one(1, 1);

	(void)unused;
	assert_int_equal(log_count("2 table t: 0 rows, 0 of them hot, 0 records read\n"), 1);
	batch_say(fd, 1, 5, 3e38f);
	hear(fd, KV_DONE);
	batch_say(fd, 2, 6, -3e38f);
	hear(fd, KV_DONE);
	assert_int_equal(log_count("too large"), 0);
	batch_say(fd, 3, 6, -3e38f);
	hear(fd, KV_DONE);
	batch_say(fd, 4, 5, 3e38f);
	hear(fd, KV_DONE);
	log_wait(
		"1 table t: a step of key 6 had a gradient or came to a number that was too large: "
		"the largest that there is room for was taken in its place\n");
	ps_server_ask(server, PS_REPORT);
	log_wait(
		"2 the switches inside: dropped since the start: 0 packets from another address, 0 "
		"of another generation, 0 with another nonce or an old serial\n2 table t: dropped "
		"since the "
		"start: 0 packets");
	assert_int_equal(log_count("2 table t: 2 rows in "), 1);
	assert_int_equal(log_count(
				 " bytes, 0 hot; 1 of 2 workers here; generation 1, 0 epochs, 6 "
				 "records of which 6 durable; 0 pushes and batches lost since the "
				 "start; flushes: 0 parts, 0 dropped, 0 of strangers; flags 0; 2 "
				 "steps with a number that was too large\n"),
			 1);
	assert_int_equal(log_count("a step of key"), 1); /* of the first alone */
	ps_server_ask(server, PS_SAVE);
	log_wait("2 table t: a checkpoint was written\n");
	snprintf(path, sizeof(path), "%s/t.1.checkpoint", folder);
	assert_int_equal(unlink(path), 0);
	close(fd);
}

static void server__writes_checkpoints_as_often_as_it_is_told(void **unused)
{
	char path[64];

	(void)unused;
	assert_int_equal(log_count("a checkpoint was"), 0);
	end(NULL);
	options.checkpoint_ns = 30000000;
	assert_int_equal(begin(NULL), 0);
	for (int i = 0;
	     i < 100 * PATIENCE_S && log_count("2 table t: a checkpoint was written\n") < 2; i++)
		usleep(10000);
	assert_true(log_count("2 table t: a checkpoint was written\n") >= 2);
	end(NULL);
	while (wait(NULL) > 0) /* for the writer of one more */
		continue;
	options.checkpoint_ns = 0;
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "%s/t.%u.checkpoint", folder, i);
		unlink(path);
		snprintf(path, sizeof(path), "%s/t.%u.log", folder, i);
		unlink(path);
	}
	assert_int_equal(begin(NULL), 0);
}

/* Pulls, until the server takes no more of them: it has as much to say as it may have. */
static void pulls_until_full(int fd)
{
	static uint64_t keys[KV_KEYS_MAX];
	struct kv_message pull = {
		.type = KV_PULL, .number = 1, .count = KV_KEYS_MAX, .key = keys
	};
	size_t bytes, done = 0;
	uint8_t *frame;
	int idle = 0;

	for (uint32_t i = 0; i < KV_KEYS_MAX; i++)
		keys[i] = i;
	frame = malloc(kv_bytes(&pull));
	bytes = kv_put(&pull, frame);
	while (idle < 10) {
		ssize_t got = send(fd, frame + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		idle = got < 0 ? idle + 1 : 0;
		done = got < 0 ? done : (done + (size_t)got) % bytes;
		if (got < 0)
			usleep(20000);
	}
	free(frame);
}

/* R-KV-12: who takes what is said is there, though it is not listened to. */
static void server__slow_reader_is_not_given_up(void **unused)
{
	enum { BEAT_MS = 250, WIDE = 8, READS = 280, PIECE = 2048, ROOM = 1 << 16 };
	struct kv_message hello = hello_of(0, 1),
			  open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = WIDE };
	uint8_t piece[PIECE];
	uint64_t due_ns, now_ns;
	int fd, room = ROOM;

	(void)unused;
	end(NULL);
	options.heartbeat_ms = BEAT_MS;
	table.table.dim = WIDE;
	logs_remove();
	assert_int_equal(begin(NULL), 0);
	fd = connect_one();
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear(fd, KV_OPENED);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	pulls_until_full(fd);
	due_ns = clock_ns();
	for (int i = 0; i < READS; i++) { /* an answer takes longer than 8 heartbeats */
		assert_true(recv(fd, piece, sizeof(piece), 0) > 0);
		now_ns = clock_ns();
		due_ns += 15000000; /* on a busy machine it catches up: its pace is what counts */
		if (due_ns > now_ns)
			usleep((uint32_t)((due_ns - now_ns) / 1000));
	}
	assert_int_equal(log_count("nothing was heard"), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(server__##name, setup, end)
		T(member_that_is_silent_is_named),
		T(says_what_it_has_and_does),
		T(writes_checkpoints_as_often_as_it_is_told),
		T(slow_reader_is_not_given_up),
#undef T
	};

	return cmocka_run_group_tests_name("ps-report", tests, folder_make, folder_remove);
}
