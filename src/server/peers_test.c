/* SPDX-License-Identifier: Apache-2.0 */
/* peers_test.c - what peers say and are told once they are there: whose turn it is and for how long, silence, last
 * words, and nonsense. Connections, epoll, jobs and the time are the test's. */
#include "server/conn_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

static int shut_fd; /* for reading and writing */

int __wrap_shutdown(int fd, int how);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);

int __wrap_shutdown(int fd, int how)
{
	assert_int_equal(how, SHUT_RDWR);
	assert_int_equal(played.accepted, 3); /* who comes later is refused */
	shut_fd = fd;
	return 0;
}

/* All are of our user. */
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	(void)fd, (void)level, (void)name, (void)bytes;
	((struct ucred *)value)->uid = geteuid();
	return 0;
}

/* So many come in, have joined job 3 and are no strangers. */
static struct peer *members(uint32_t count)
{
	struct peer *peers = come(count);

	if (!test.jobs[3])
		inside_job(3, "train", ADMISSION_STARTED, MEMBERS);
	for (uint32_t i = 0; i < count; i++) {
		stranger_take(&test.server, &peers[i]);
		peers[i].has_joined = true;
		peers[i].job = 3;
	}
	test.server.silent_count = 0;
	return peers;
}

/* ---- reading ---- */

static void read__of_a_member_every_message_is_a_step_of_its_job(void **state)
{
	struct peer *peer = members(1);

	(void)state;
	say(peer->conn, CONN_MESSAGE, CONTROL_READY);
	say(peer->conn, CONN_CONNECTED, CONTROL_READY); /* no message */
	say(peer->conn, CONN_MESSAGE, CONTROL_LEAVE);
	peer_read(&test.server, peer, test.now_ns);
	assert_int_equal(peer->conn->reads, 4);
	assert_int_equal(played.steps, 2);
	assert_ptr_equal(played.stepped, &test.job[3]);
	assert_int_equal(played.step.type, ADMISSION_MESSAGE);
	assert_int_equal(played.step.connection, peer->handle);
	assert_int_equal(played.step.source, 0); /* a JOIN alone says it */
	assert_true(played.nonce[0] && played.nonce[0] != played.nonce[1]);
	assert_false(peer->has_more);
	assert_int_equal(peer->conn->limit, JOIN_BYTES_MAX); /* nobody has let it in anew */
	assert_int_equal(played.watched, 0);                 /* it waits for what it did */
}

static void read__stops_after_64_messages_and_goes_on_later(void **state)
{
	struct peer *peer = members(1);

	(void)state;
	for (uint32_t i = 0; i < 70; i++)
		say(peer->conn, CONN_MESSAGE, CONTROL_HEARTBEAT);
	peer_read(&test.server, peer, test.now_ns);
	assert_int_equal(peer->conn->reads, 64);
	assert_true(peer->has_more);
	assert_true(test.server.has_some_more);
	peers_read_more(&test.server, test.now_ns);
	assert_int_equal(played.steps, 70);
	assert_false(peer->has_more);
	assert_false(test.server.has_some_more);
	peers_read_more(&test.server, test.now_ns);
	assert_int_equal(peer->conn->reads, 71);
}

static void read__stops_after_200_us_and_goes_on_later(void **state)
{
	struct peer *peer = members(1);

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		say(peer->conn, CONN_MESSAGE, CONTROL_HEARTBEAT);
		peer->conn->says[i].takes_ns = i < 3 ? 99999 : 66668;
	}
	peer->conn->events = POLLIN | POLLOUT;
	peer_read(&test.server, peer, test.now_ns); /* 0.3 ms, of which two are not 0.2 */
	assert_int_equal(played.steps, 3);
	assert_true(peer->has_more);
	assert_int_equal(played.watched_event.events, POLLIN | POLLOUT);
	peer->conn->says[4].takes_ns = 133332;
	peer->has_more = false;
	peer_read(&test.server, peer, test.now_ns); /* 0.2 ms */
	assert_int_equal(peer->conn->reads, 5);
	assert_true(peer->has_more);
}

static void read__more_begins_where_the_last_turn_was_over(void **state)
{
	struct peer *peers = members(3);

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		peers[i].has_more = true;
		say(peers[i].conn, CONN_MESSAGE, CONTROL_HEARTBEAT);
		peers[i].conn->says[0].takes_ns = 50000;
	}
	test.server.has_some_more = true;
	test.server.more_next = 1;
	test.server.turn_end_ns = test.now_ns + 50000;
	peers_read_more(&test.server, test.now_ns);
	assert_int_equal(peers[1].conn->reads, 2);
	assert_int_equal(played.steps, 1);
	assert_int_equal(test.server.more_next, 2);
	assert_true(test.server.has_some_more && peers[2].has_more);
	test.server.turn_end_ns = test.now_ns + 1000 * second_ns;
	peers_read_more(&test.server, test.now_ns);
	assert_int_equal(played.steps, 3);
	assert_true(!peers[0].has_more && !peers[2].has_more);
	assert_false(test.server.has_some_more);
	assert_int_equal(test.server.more_next, 2); /* all were looked at, once */
}

static void break_itself(void)
{
	test.peers[0].is_broken = test.server.is_some_broken = true;
}

static void read__no_more_of_one_to_whom_nothing_can_be_sent(void **state)
{
	struct peer *peer = members(1);

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		say(peer->conn, CONN_MESSAGE, CONTROL_HEARTBEAT);
	played.on_step = break_itself;
	peer_read(&test.server, peer, test.now_ns);
	assert_int_equal(peer->conn->reads, 1);
	assert_int_equal(played.steps, 1);
	peer_read(&test.server, peer, test.now_ns);
	assert_int_equal(peer->conn->reads, 1);
	assert_false(peer->has_more);
}

static void read__the_end_is_the_jobs_matter_and_an_error_the_logs_too(void **state)
{
	struct peer *peers = members(3);

	(void)state;
	say(peers[0].conn, CONN_EOF, CONTROL_JOIN);
	peer_read(&test.server, &peers[0], test.now_ns);
	assert_true(played.conn[0].is_closed);
	assert_int_equal(played.step.type, ADMISSION_CLOSED);
	assert_int_equal(test.lines, 0);
	peers[1].conn->text = "Connection reset by peer";
	peers[1].conn->cannot_answer = true;
	say(peers[1].conn, CONN_ERROR, CONTROL_JOIN);
	peer_read(&test.server, &peers[1], test.now_ns);
	assert_true(played.conn[1].is_closed);
	assert_int_equal(played.steps, 2);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4001: dropped: Connection reset by peer");
	peer_last_words(&test.server, &peers[2], test.now_ns);
	say(peers[2].conn, CONN_MESSAGE, CONTROL_HEARTBEAT); /* is thrown away */
	say(peers[2].conn, CONN_ERROR, CONTROL_JOIN);
	peer_read(&test.server, &peers[2], test.now_ns);
	assert_int_equal(played.steps, 3);
	assert_int_equal(played.step.type, ADMISSION_CLOSED);
	assert_int_equal(test.lines, 1); /* it was on its way out anyway */
	assert_int_equal(test.server.peers_count + test.server.closing_count, 0);
}

/* ---- nonsense ---- */

static void nonsense__as_the_first_message_is_answered(void **state)
{
	static const struct {
		const char *text, *answer;
	} rows[] = {
		{ "the peer said nonsense: no key \"rank\"",
		  "the aggregator cannot read the first message: no key \"rank\"" },
		{ "a message of 9000 bytes",
		  "the aggregator does not take a message of 9000 bytes" },
	};
	struct peer *peers = come(2);

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct conn *conn = peers[i].conn;

		conn->text = rows[i].text;
		conn->events = POLLOUT;
		say(conn, CONN_ERROR, CONTROL_JOIN);
		peer_read(&test.server, &peers[i], test.now_ns);
		assert_int_equal(conn->told_count, 1);
		assert_int_equal(conn->told.type, CONTROL_DENY);
		assert_int_equal(conn->told.end.cause, CONTROL_DENIED);
		assert_int_equal(conn->told.end.rank, CONTROL_RANK_NONE);
		assert_string_equal(conn->told.end.text, rows[i].answer);
		assert_true(peers[i].is_closing && peers[i].has_joined && !conn->is_closed);
		assert_int_equal(played.watched_event.events, POLLOUT);
		assert_int_equal(played.watched_event.data.u32, peers[i].handle);
		assert_int_equal(test.server.closing_count, i + 1);
		assert_int_equal(test.server.silent_count, 1 - i);
	}
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4000: dropped: the peer said nonsense: no key \"rank\"");
}

static void nonsense__of_one_who_is_none_of_ours_or_has_joined_is_its_end(void **state)
{
	struct peer *peers = come(2);

	(void)state;
	peers[0].conn->cannot_answer = true;
	peers[1].has_joined = true;
	test.server.silent_count--;
	for (uint32_t i = 0; i < 2; i++) {
		say(peers[i].conn, CONN_ERROR, CONTROL_JOIN);
		peer_read(&test.server, &peers[i], test.now_ns);
		assert_true(played.conn[i].is_closed);
		assert_int_equal(played.conn[i].told_count, 0);
	}
	assert_int_equal(test.server.peers_count + test.server.silent_count, 0);
	assert_int_equal(test.server.closing_count, 0);
}

/* ---- sending ---- */

static void send__that_fails_is_said_and_is_the_peers_end_later(void **state)
{
	const struct control_message ping = { .type = CONTROL_PING };
	struct peer *peer = members(1);

	(void)state;
	peer->conn->events = POLLIN | POLLOUT;
	peer_send(&test.server, peer, &ping);
	assert_int_equal(peer->conn->told_count, 1);
	assert_int_equal(played.watched, 1);
	assert_int_equal(played.watched_how, EPOLL_CTL_MOD);
	assert_int_equal(played.watched_fd, FD);
	assert_int_equal(played.watched_event.events, POLLIN | POLLOUT);
	assert_int_equal(played.watched_event.data.u32, peer->handle);
	peer_send(&test.server, peer, &ping);
	assert_int_equal(played.watched, 1); /* it knows */
	peer->conn->cannot_send = ENOBUFS;
	peer_send(&test.server, peer, &ping);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4000: given up: No buffer space available");
	assert_true(peer->is_broken && test.server.is_some_broken && !peer->conn->is_closed);
	peer->conn->cannot_send = 0;
	peer_send(&test.server, peer, &ping);
	assert_int_equal(peer->conn->told_count, 2);
}

static void send__last_words_are_the_last(void **state)
{
	const struct control_message ping = { .type = CONTROL_PING };
	struct peer *peer = members(1);

	(void)state;
	peer->conn->events = POLLOUT;
	peer_last_words(&test.server, peer, 5);
	peer_last_words(&test.server, peer, 6);
	assert_int_equal(peer->conn->last_words_ns, 5);
	assert_int_equal(test.server.closing_count, 1);
	assert_int_equal(played.watched, 1);
	peer_send(&test.server, peer, &ping);
	assert_int_equal(peer->conn->told_count, 0);
	assert_int_equal(played.watched, 1);
}

static void send__of_a_denial_has_its_cause_and_no_rank(void **state)
{
	struct peer *peers = come(2);

	(void)state;
	peer_deny(&test.server, &peers[0], CONTROL_NO_RESOURCE, "full", 5);
	peer_deny_ending(&test.server, &peers[1], 5);
	for (uint32_t i = 0; i < 2; i++) {
		const struct control_message *told = &peers[i].conn->told;

		assert_int_equal(told->type, CONTROL_DENY);
		assert_int_equal(told->end.cause, i ? CONTROL_DENIED : CONTROL_NO_RESOURCE);
		assert_int_equal(told->end.rank, CONTROL_RANK_NONE);
		assert_int_equal(told->end.is_ending, i);
		assert_string_equal(told->end.text, i ? "the aggregator is shutting down" : "full");
		assert_int_equal(peers[i].conn->last_words_ns, 5);
	}
}

/* ---- silence ---- */

static void sweep__is_four_times_a_second_and_strangers_have_ten(void **state)
{
	uint64_t from_ns = test.now_ns;
	struct peer *peers = come(2);

	(void)state;
	peers[1].has_joined = true;
	test.server.silent_count--;
	peers[1].conn->deadline_ns = from_ns + 10 * second_ns + 7;
	peers_sweep(&test.server, from_ns + 10 * second_ns);
	assert_int_equal(test.server.sweep_ns, from_ns + 10 * second_ns + 250 * MS_NS);
	assert_int_equal(test.server.peers_count, 2);
	peers_sweep(&test.server, test.server.sweep_ns - 1);
	assert_int_equal(test.server.peers_count, 2);
	assert_int_equal(peers[1].conn->reads, 0);
	peers_sweep(&test.server, test.server.sweep_ns);
	assert_true(played.conn[0].is_closed && !played.conn[1].is_closed);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "10.0.0.9:4000: dropped: no JOIN in 10 s");
	assert_int_equal(peers[1].conn->reads, 1); /* whose last words may be over */
	test.server.sweep_ns = 0;
	peers[1].conn->deadline_ns = from_ns + 7;
	peers_sweep(&test.server, from_ns + 6);
	assert_int_equal(peers[1].conn->reads, 1);
	test.server.sweep_ns = 0;
	peers_sweep(&test.server, from_ns + 7);
	assert_int_equal(peers[1].conn->reads, 2);
}

/* ---- the aggregator's end ---- */

static void last__words_go_to_all_who_have_joined(void **state)
{
	struct peer *peers = come(2);

	(void)state;
	peers[1].has_joined = true;
	test.peers[PEERS_MAX - 1] = (struct peer){ .conn = &played.conn[7], .has_joined = true };
	peers_last_words(&test.server, 9);
	assert_int_equal(peers[0].conn->last_words_ns, 0);
	assert_int_equal(peers[1].conn->last_words_ns, 9);
	assert_int_equal(played.conn[7].last_words_ns, 9);
}

static void last__of_a_local_one_all_in_the_backlog_hear_that_it_ends(void **state)
{
	struct peer *peers = come(3);

	(void)state;
	peers[0].has_joined = true;
	peers[1].is_broken = true;
	test.server.silent_count = 2;
	peers_local_last(&test.server, 9);
	assert_false(test.server.is_shut); /* over TCP others may still come */
	test.server.is_local = true;
	played.waiting = 75;
	peers_local_last(&test.server, 9);
	assert_int_equal(played.accepted, 75); /* more than in a turn */
	assert_true(test.server.is_shut && !test.server.is_listening);
	assert_true(test.server.listen_ns == UINT64_MAX);
	assert_int_equal(played.unwatched_fd, LISTEN_FD);
	assert_int_equal(shut_fd, LISTEN_FD);
	assert_int_equal(peers[0].conn->told_count + peers[1].conn->told_count, 0);
	assert_int_equal(test.server.silent_count, 1); /* the broken one */
	peers_local_last(&test.server, 9);
	for (uint32_t i = 2; i < 75; i++) {
		assert_int_equal(peers[i].conn->told_count, 1);
		assert_int_equal(peers[i].conn->told.type, CONTROL_DENY);
		assert_true(peers[i].conn->told.end.is_ending);
		assert_int_equal(peers[i].conn->last_words_ns, 9);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONN_TEST(read__of_a_member_every_message_is_a_step_of_its_job),
		CONN_TEST(read__stops_after_64_messages_and_goes_on_later),
		CONN_TEST(read__stops_after_200_us_and_goes_on_later),
		CONN_TEST(read__more_begins_where_the_last_turn_was_over),
		CONN_TEST(read__no_more_of_one_to_whom_nothing_can_be_sent),
		CONN_TEST(read__the_end_is_the_jobs_matter_and_an_error_the_logs_too),
		CONN_TEST(nonsense__as_the_first_message_is_answered),
		CONN_TEST(nonsense__of_one_who_is_none_of_ours_or_has_joined_is_its_end),
		CONN_TEST(send__that_fails_is_said_and_is_the_peers_end_later),
		CONN_TEST(send__last_words_are_the_last),
		CONN_TEST(send__of_a_denial_has_its_cause_and_no_rank),
		CONN_TEST(sweep__is_four_times_a_second_and_strangers_have_ten),
		CONN_TEST(last__words_go_to_all_who_have_joined),
		CONN_TEST(last__of_a_local_one_all_in_the_backlog_hear_that_it_ends),
	};

	return cmocka_run_group_tests_name("server-peers", tests, NULL, NULL);
}
