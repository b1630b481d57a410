/* SPDX-License-Identifier: Apache-2.0 */
/* loop_test.c - one turn of a server: what is done for each table, in which order, and what is logged of it. */
#include "ps/loop_fixture.h"

static void on_reload(void *arg)
{
	assert_ptr_equal(arg, &test);
	note("on-reload");
}

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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(turn__does_all_for_each_table),      T(bell__is_rung_by_all_that_is_asked),
		T(report__says_what_there_is),         T(checkpoint__is_as_often_as_it_is_told),
		T(sums__that_are_wrong_are_said_once), T(trouble__is_said_as_it_begins_and_ends),
		T(end__of_a_table_that_fails_is_said),
#undef T
	};

	return cmocka_run_group_tests_name("ps-loop", tests, NULL, NULL);
}
