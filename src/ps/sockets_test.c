/* SPDX-License-Identifier: Apache-2.0 */
/* sockets_test.c - one turn of a server: what is done for each connection, what is waited for and for how long, and the
 * datagrams. */
#include "ps/loop_fixture.h"

/* ---- connections ---- */

/* One member; the turn is now. */
static struct ps_conn *one(void)
{
	setup(NULL);
	test.server.conn_count = 1;
	test.conn[0].is_welcome = true;
	return &test.conn[0];
}

static void alive__is_said_after_half_a_heartbeat_of_silence(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	turn();
	assert_true(test.patience_ns == 8000 * ms_ns);
	conn->said_ns = heard.now_ns - 500 * ms_ns;
	turn();
	assert_int_equal(test.alive, 0);
	conn->said_ns--;
	test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.alive, 0);
	test.played[0].wants_to_write = false;
	conn->is_welcome = false;
	turn();
	assert_int_equal(test.alive, 0);
	conn->is_welcome = true;
	turn();
	assert_int_equal(test.alive, 1);
	conn = one();
	conn->is_ending = true;
	conn->said_ns -= 501 * ms_ns;
	turn();
	assert_int_equal(test.alive, 0);
}

static void conn__that_has_gone_is_closed_and_the_others_stay(void **state)
{
	(void)state;
	test.server.conn_count = CONNS;
	test.conn[0].is_gone = true;
	test.played[2].cannot_write = true;
	turn();
	assert_int_equal(test.closed, 5);
	assert_int_equal(test.server.conn_count, 1);
	assert_ptr_equal(test.server.conn[0], &test.conn[1]);
	assert_non_null(strstr(test.calls, "gone close gone close"));
}

static void conn__ends_when_all_was_said(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	conn->is_ending = test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.closed, 0);
	test.played[0].wants_to_write = false;
	turn();
	assert_int_equal(test.closed, 1);
	conn = one();
	conn->has_left = true;
	conn->gate_count = 1; /* the disk has not what it has said */
	turn();
	assert_int_equal(test.closed, 0);
	assert_false(conn->is_ending);
	conn->gate_count = 0;
	turn();
	assert_int_equal(test.closed, 1);
}

static void full__conn_counts_as_heard_while_it_takes_something(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	heard.now_ns += 5;
	test.played[0].is_full = test.played[0].wants_to_write = true;
	turn();
	assert_true(conn->heard_ns == heard.now_ns - 5);
	test.played[0].written_ns = heard.now_ns;
	turn();
	assert_true(conn->heard_ns == heard.now_ns);
	heard.now_ns += 5;
	test.played[0].wants_to_write = false; /* all of it waits for the disk */
	turn();
	assert_true(conn->heard_ns == heard.now_ns);
	heard.now_ns += 5;
	test.played[0].is_full = false;
	turn();
	assert_true(conn->heard_ns == heard.now_ns - 5);
}

/* R-KV-12 */
static void silence__of_8_heartbeats_is_the_end(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	test.polled_after_ns = 8000 * ms_ns;
	turn();
	assert_false(conn->is_gone);
	assert_int_equal(heard.lines, 0);
	conn->heard_ns = heard.now_ns - 1;
	test.revents[3] = POLLIN; /* it has said something, which was not read */
	turn();
	assert_false(conn->is_gone);
	conn->heard_ns = heard.now_ns - 1;
	test.revents[3] = POLLOUT;
	turn();
	assert_true(conn->is_gone);
	assert_line(0, PS_WARN, NULL, "worker 1: nothing was heard for 8000 ms");
	assert_int_equal(heard.about[0].worker, 0);
}

static void read__is_bounded_in_a_turn(void **state)
{
	struct ps_conn *conn = one();

	(void)state;
	test.revents[3] = POLLIN;
	test.played[0].reads = 100;
	test.polled_after_ns = 5;
	turn();
	assert_int_equal(test.read_calls, 16);
	assert_true(conn->heard_ns == heard.now_ns);
	test.played[0].reads = test.played[0].frames + 2; /* and then there is nothing more */
	turn();
	assert_int_equal(test.read_calls, 16 + 3);
	test.played[0].reads += 5;
	test.played[0].full_after = test.played[0].frames + 3;
	turn();
	assert_int_equal(test.read_calls, 19 + 3);
	test.played[0].is_full = false;
	test.played[0].full_after = 0;
	test.played[0].reads += 100;
	test.played[0].bytes = 64 << 10; /* 256 KiB, and then come the others */
	turn();
	assert_int_equal(test.read_calls, 22 + 4);
	conn->is_ending = test.played[0].wants_to_write = true;
	turn();
	assert_int_equal(test.read_calls, 26);
}

static void read__of_an_end_is_the_end(void **state)
{
	static const short events[] = { POLLHUP, POLLERR };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct ps_conn *conn = one();

		test.revents[3] = events[i];
		test.played[0].ends = true;
		turn();
		assert_true(conn->is_gone);
		assert_int_equal(test.read_calls, 1);
		assert_non_null(strstr(test.calls, "summed serve0"));
		assert_true(conn->heard_ns == heard.now_ns);
	}
	one(); /* whoever is new was not asked for */
	test.comes_anew = true;
	test.revents[4] = POLLIN;
	turn();
	assert_int_equal(test.read_calls, 0);
}

/* ---- what is waited for ---- */

static void assert_fd(uint32_t i, int fd, short events)
{
	assert_true(i < test.fds_count);
	assert_int_equal(test.fds[i].fd, fd);
	assert_int_equal(test.fds[i].events, events);
}

static void wait__is_for_all_that_may_come(void **state)
{
	(void)state;
	test.server.conn_count = CONNS;
	test.played[1].is_full = test.played[1].wants_to_write = true;
	test.conn[2].is_ending = test.played[2].wants_to_write = true;
	turn();
	assert_int_equal(test.fds_count, 6);
	assert_fd(0, BELL, POLLIN);
	assert_fd(1, LISTENER, POLLIN);
	assert_fd(2, LINK, 5);
	assert_fd(3, 50, POLLIN);
	assert_fd(4, 51, POLLOUT);
	assert_fd(5, 52, POLLOUT);
	test.is_polled_aggregator = true;
	test.server.accept_ns = heard.now_ns + 1;
	turn();
	assert_fd(1, -1, POLLIN);
	assert_int_equal(test.fds_count, 7);
	assert_fd(6, 97, 4);
	test.server.accept_ns--;
	turn();
	assert_fd(1, LISTENER, POLLIN);
}

static void wait__is_until_something_is_due(void **state)
{
	(void)state;
	turn();
	assert_true(test.wait_ns == 100 * ms_ns); /* checkpoints, silence */
	test.due_ns = heard.now_ns + 100 * ms_ns - 1;
	turn();
	assert_true(test.wait_ns == 100 * ms_ns - 1);
	test.switch_due_ns = heard.now_ns + 7;
	turn();
	assert_true(test.wait_ns == 7);
	test.due_ns = heard.now_ns - 1;
	turn();
	assert_true(test.wait_ns == 0);
}

static void wait__that_fails_has_brought_nothing(void **state)
{
	(void)state;
	one();
	test.revents[1] = test.revents[3] = POLLIN;
	test.poll_fails = true;
	turn();
	assert_int_equal(test.read_calls, 0);
	assert_null(strstr(test.calls, "accept"));
	test.poll_fails = false;
	turn();
	assert_int_equal(test.read_calls, 1);
	assert_non_null(strstr(test.calls, "accept"));
}

/* ---- datagrams ---- */

static void datagrams__of_one_frame_are_told_apart(void **state)
{
	(void)state;
	test.frame = (struct link_frame){
		.peer = { .port = 33 }, .packet_bytes = 10, .bytes = 25, .data = test.data
	};
	test.frames_left = 2;
	turn();
	assert_int_equal(test.datagrams, 6);
	assert_int_equal(test.datagram_bytes[0], 10);
	assert_int_equal(test.datagram_bytes[1], 10);
	assert_int_equal(test.datagram_bytes[2], 5);
	assert_int_equal(test.datagram_bytes[3], 10);
	assert_int_equal(test.frames_calls, 1);
	test.frames_left = FRAMES;
	turn();
	assert_int_equal(test.datagrams, 6 + 3 * FRAMES);
	assert_int_equal(test.frames_calls, 3);
	test.frames_left = 9 * FRAMES;
	turn();
	assert_int_equal(test.frames_left, FRAMES); /* others have a turn */
}

static void datagrams__of_a_broken_socket_end_the_server(void **state)
{
	(void)state;
	test.link_error = -ENETDOWN;
	test.server.asked &= ~(unsigned)PS_STOP;
	assert_int_equal(ps_server_run(&test.server), -1);
	assert_line(0, PS_ERROR, NULL, "its UDP socket: Network is down");
	assert_int_equal(test.turns, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(alive__is_said_after_half_a_heartbeat_of_silence),
		T(conn__that_has_gone_is_closed_and_the_others_stay),
		T(conn__ends_when_all_was_said),
		T(full__conn_counts_as_heard_while_it_takes_something),
		T(silence__of_8_heartbeats_is_the_end),
		T(read__is_bounded_in_a_turn),
		T(read__of_an_end_is_the_end),
		T(wait__is_for_all_that_may_come),
		T(wait__is_until_something_is_due),
		T(wait__that_fails_has_brought_nothing),
		T(datagrams__of_one_frame_are_told_apart),
		T(datagrams__of_a_broken_socket_end_the_server),
#undef T
	};

	return cmocka_run_group_tests_name("ps-sockets", tests, NULL, NULL);
}
