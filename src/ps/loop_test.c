/* SPDX-License-Identifier: Apache-2.0 */
/* loop_test.c - one turn of a server: what is done for each table and connection, in which order, what is waited for and
 * for how long, and what is logged of it. All but server.c is played, the clock too. */
#include "ps/loop_fixture.h"

static void on_reload(void *arg)
{
	assert_ptr_equal(arg, &test);
	note("on-reload");
}

/* ---- tables ---- */

#define OF_WIDE "wide wide wide wide wide wide dropped summed"
#define OF_BOTH "settle serve_waiting steps_turn awaited_turn gather_turn serve_deleted " OF_WIDE

static void turn__does_all_for_each_table(void **state)
{
	(void)state;
	turn();
	assert_calls(OF_BOTH);
	assert_int_equal(heard.lines, 0);
	test.server.options.reload = on_reload;
	turn();
	assert_calls(OF_BOTH);
	ps_server_ask(&test.server, PS_RELOAD);
	turn();
	assert_calls("on-reload reload settle serve_waiting steps_turn awaited_turn gather_turn "
		     "serve_deleted wide " OF_WIDE);
	turn(); /* once */
	assert_calls(OF_BOTH);
	test.server.options.reload = NULL;
	ps_server_ask(&test.server, PS_RELOAD);
	turn();
	assert_calls("reload settle serve_waiting steps_turn awaited_turn gather_turn "
		     "serve_deleted wide " OF_WIDE);
}

static void bell__is_rung_by_all_that_is_asked(void **state)
{
	(void)state;
	ps_server_ask(&test.server, PS_STOP);
	assert_int_equal(test.bells, 2); /* the first was interrupted */
	assert_true(test.server.asked & PS_STOP);
	assert_int_equal(ps_server_run(&test.server), 0);
	assert_int_equal(test.turns, 0);
	turn();
	assert_int_equal(test.bells, 0); /* it was heard */
	ps_server_ask(&test.server, PS_REPORT);
	assert_int_equal(test.bells, 2);
	ps_server_ask(&test.server, PS_SAVE);
	assert_int_equal(test.bells, 3);
	ps_server_ask(&test.server, PS_RELOAD);
	assert_int_equal(test.bells, 4);
}

static void report__says_what_there_is(void **state)
{
	(void)state;
	test.server.hosted_count = 1;
	test.worker[0][0].conn = test.worker[0][2].conn = &test.conn[0];
	test.table[0].map.keys = 13;
	test.table[0].held = 14;
	test.sums[0] = (struct server_sparse){ .generation = 15ull << SPARSE_RANDOM_BITS | 7,
					       .expected = 17,
					       .recorded = 18,
					       .durable = 19,
					       .lost = 20,
					       .sticky = 3 };
	test.server.hosted[0].sticky = 3;
	test.server.hosted[0].is_held = true;
	test.stats = (struct home_sparse_stats){ .parts = 21, .dropped = 22, .strangers = 23 };
	ps_server_ask(&test.server, PS_REPORT);
	turn();
	assert_int_equal(heard.lines, 1);
	assert_line(0, PS_INFO, "emb",
		    "table emb: 11 rows in 12 bytes, 13 hot; 2 of 3 workers here; generation 15, "
		    "16 epochs, 18 records of which 19 durable; 20 pushes and batches lost since "
		    "the start; flushes: 21 parts, 22 dropped, 23 of strangers; flags 3; 14 steps "
		    "with a number that was too large");
	assert_non_null(strstr(test.calls, "dropped dropped-all"));
	turn();
	assert_int_equal(heard.lines, 1);
}

static void checkpoint__is_as_often_as_it_is_told(void **state)
{
	struct ps_hosted *hosted = &test.server.hosted[0];

	(void)state;
	test.server.hosted_count = 1;
	hosted->saved_ns = heard.now_ns - 500;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	test.server.options.checkpoint_ns = 501;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	heard.now_ns++;
	turn();
	assert_non_null(strstr(test.calls, "checkpoint"));
	assert_true(hosted->saved_ns == heard.now_ns);
	*test.calls = 0;
	turn();
	assert_null(strstr(test.calls, "checkpoint"));
	test.server.options.checkpoint_ns = 0;
	heard.now_ns++;
	ps_server_ask(&test.server, PS_SAVE);
	test.checkpoint_fails = 1;
	turn();
	assert_non_null(strstr(test.calls, "checkpoint"));
	assert_true(hosted->saved_ns == heard.now_ns);
	assert_line(0, PS_ERROR, "emb", "table emb: no child for it");
	test.checkpoint = 1;
	turn();
	assert_line(1, PS_INFO, "emb", "table emb: a checkpoint was written");
	test.checkpoint = -1;
	turn();
	assert_line(2, PS_ERROR, "emb", "table emb: no room for it");
	assert_int_equal(heard.lines, 3);
}

static void sums__that_are_wrong_are_said_once(void **state)
{
	(void)state;
	test.server.hosted[0].options.table.values = SPARSE_FIXED;
	test.server.hosted[1].options.table.values = SPARSE_LNS;
	test.sums[0].sticky = SPARSE_SATURATED;
	test.sums[1].sticky = (uint16_t)~SPARSE_SATURATED;
	turn();
	turn();
	assert_line(0, PS_WARN, "emb",
		    "table emb: values of hot keys were too large, and sums of them are not what "
		    "was pushed: a larger unit= has room for larger ones");
	assert_line(1, PS_WARN, "wide",
		    "table wide: values of hot keys were no numbers, and sums of them are not what "
		    "was pushed");
	test.table[0].held = 3;
	test.table[0].held_key = 1234;
	turn();
	turn();
	assert_line(2, PS_WARN, "emb",
		    "table emb: a step of key 1234 had a gradient or came to a number that was too "
		    "large: the largest that there is room for was taken in its place");
	assert_int_equal(heard.lines, 3);
}

static void trouble__is_said_as_it_begins_and_ends(void **state)
{
	(void)state;
	test.trouble = ENOSPC;
	turn();
	turn();
	assert_line(0, PS_ERROR, "emb",
		    "table emb: its log cannot be written: No space left on device: nothing more "
		    "is acknowledged until it can");
	test.trouble = ENOENT;
	turn();
	assert_line(1, PS_ERROR, "emb",
		    "table emb: its log cannot be written: its file was deleted: nothing more is "
		    "acknowledged, and its workers end: a copy of the folder, and a restart, are "
		    "what helps");
	test.trouble = 0;
	turn();
	turn();
	assert_line(2, PS_WARN, "emb", "table emb: its log can be written again");
	assert_int_equal(heard.lines, 3);
}

static void end__of_a_table_that_fails_is_said(void **state)
{
	(void)state;
	test.table[1].options.durability = PS_CHECKPOINT;
	test.end_of[0] = test.end_of[1] = -1;
	test.server.asked |= PS_STOP;
	assert_int_equal(ps_server_run(&test.server), -1);
	assert_line(0, PS_ERROR, "emb",
		    "table emb: it could not end: its log has no orderly end, and looks as after a "
		    "crash");
	assert_line(1, PS_ERROR, "wide",
		    "table wide: it could not end: what came after the last one is lost");
	test.end_of[0] = 0;
	assert_int_equal(ps_server_run(&test.server), -1);
	test.end_of[1] = 0;
	assert_int_equal(ps_server_run(&test.server), 0);
	assert_int_equal(heard.lines, 3);
}

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
		T(turn__does_all_for_each_table),
		T(bell__is_rung_by_all_that_is_asked),
		T(report__says_what_there_is),
		T(checkpoint__is_as_often_as_it_is_told),
		T(sums__that_are_wrong_are_said_once),
		T(trouble__is_said_as_it_begins_and_ends),
		T(end__of_a_table_that_fails_is_said),
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

	return cmocka_run_group_tests_name("ps-loop", tests, NULL, NULL);
}
