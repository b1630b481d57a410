/* SPDX-License-Identifier: Apache-2.0 */
/* leaving_test.c - when a table gives up the aggregator that sums it (aggregator.c), and when it asks that one again.
 * R-CT-31 to R-CT-33. */
#include "ps/candidate_fixture.h"

/* The table is summed at the first aggregator, which has answered its knock. */
static int setup_summed(void **state)
{
	setup(state);
	hosted()->client = client_of(0);
	hosted()->has_switch = true;
	hosted()->is_knocking = true;
	hosted()->knock.is_welcome = true;
	hosted()->taken_ns = heard.now_ns;
	test.client[0].state = TABLE_CLIENT_LIVE;
	test.sums.is_fenced = false;
	test.server.options.switch_memory = 1000;
	return 0;
}

/* ---- when it goes ---- */

static void goes(const char *line, uint32_t lines)
{
	turn();
	assert_int_equal(heard.lines, lines);
	if (line) {
		assert_line(lines - 1, PS_WARN, "emb", line);
		assert_int_equal(test.fences, 1);
		assert_int_equal(test.begins, 1);
		assert_int_equal(hosted()->first, 1);
		assert_true(test.client[0].is_closed);
	} else {
		assert_int_equal(test.fences, 0);
		assert_ptr_equal(hosted()->client, client_of(0));
	}
}

static void switch__that_ends_begins_a_generation_elsewhere(void **state)
{
	(void)state;
	hosted()->first = OTHERS; /* and so the first is the second one */
	goes(NULL, 0);
	test.client[0].state = TABLE_CLIENT_ENDED;
	goes("its switch has gone: agg0: full", 1);
	assert_true(test.server.closed[0].until_ns == 0); /* it may be asked at once */
}

static void switch__that_tells_of_another_instance_is_none(void **state)
{
	(void)state;
	test.client[0].has_beat = true;
	test.client[0].beat = (struct control_table_beat){ .instance = 70, .generation = 6 };
	goes(NULL, 0);
	test.client[0].beat.generation = 0; /* SETUP has not come there yet */
	goes(NULL, 0);
	test.client[0].beat.instance = 71;
	goes("its switch has gone: it tells of another instance or generation", 1);
}

static void switch__that_tells_of_another_generation_is_none(void **state)
{
	(void)state;
	test.client[0].has_beat = true;
	test.client[0].beat = (struct control_table_beat){ .instance = 70, .generation = 5 };
	goes("its switch has gone: it tells of another instance or generation", 1);
}

static void switch__whose_datagrams_do_not_come_is_closed(void **state)
{
	(void)state;
	hosted()->knock = (struct knock){ .count = KNOCKS_MANY };
	goes(NULL, 0);
	hosted()->knock.count++;
	hosted()->knock.is_welcome = true;
	goes(NULL, 0);
	hosted()->knock.is_welcome = false;
	hosted()->is_knocking = false;
	goes(NULL, 0);
	hosted()->is_knocking = true;
	goes("its switch has gone: its datagrams do not come through", 1);
	assert_true(test.server.closed[0].wait_ns == 5 * s_ns);
	assert_true(test.server.closed[0].until_ns == heard.now_ns + 5 * s_ns);
	assert_true(test.server.closed[1].until_ns == 0);
}

static void switch__whose_path_is_too_narrow_is_told_from_a_closed_one(void **state)
{
	(void)state;
	hosted()->knock = (struct knock){ .count = KNOCKS_MANY + 1, .is_short_welcome = true };
	test.server.closed[0] = (struct ps_closed){ .until_ns = heard.now_ns, .wait_ns = 5 * s_ns };
	goes("its switch has gone: its datagrams of full size do not come through", 1);
	assert_true(test.server.closed[0].wait_ns == 10 * s_ns); /* twice as long */
	assert_true(test.server.closed[0].until_ns == heard.now_ns + 10 * s_ns);
}

static void closed__is_five_minutes_at_most_and_told_once(void **state)
{
	struct ps_closed *closed = &test.server.closed[0];

	(void)state;
	hosted()->knock = (struct knock){ .count = KNOCKS_MANY + 1 };
	*closed = (struct ps_closed){ .until_ns = heard.now_ns + 1, .wait_ns = 5 * s_ns };
	turn(); /* another table has found it out */
	assert_true(closed->until_ns == heard.now_ns + 1);
	assert_true(closed->wait_ns == 5 * s_ns);
	setup_summed(NULL);
	hosted()->knock = (struct knock){ .count = KNOCKS_MANY + 1 };
	closed->wait_ns = 200 * s_ns;
	turn();
	assert_true(closed->wait_ns == 300 * s_ns);
	assert_true(closed->until_ns == heard.now_ns + 300 * s_ns);
}

static void closed__is_forgotten_once_it_has_summed_as_long(void **state)
{
	struct ps_closed *closed = &test.server.closed[0];

	(void)state;
	closed->wait_ns = 5 * s_ns;
	heard.now_ns += 5 * s_ns - 1;
	turn();
	assert_true(closed->wait_ns == 5 * s_ns);
	hosted()->knock.is_welcome = false;
	heard.now_ns += 1;
	turn();
	assert_true(closed->wait_ns == 5 * s_ns);
	hosted()->knock.is_welcome = true;
	turn();
	assert_true(closed->wait_ns == 0);
}

/* R-SP-1 */
static void switch__that_goes_after_the_last_fence_is_the_last(void **state)
{
	(void)state;
	test.client[0].state = TABLE_CLIENT_ENDED;
	test.is_last_fence = true;
	turn();
	assert_line(1, PS_ERROR, "emb",
		    "its generations are used up: nothing hot is summed any more");
	assert_int_equal(test.begins, 0);
	assert_int_equal(test.drops, 1);
	assert_int_equal(heard.lines, 2);
}

/* ---- R-CT-33 ---- */

static void tired__is_drained_and_then_left_alone(void **state)
{
	(void)state;
	test.looks_tired = true;
	test.is_drained = false;
	turn();
	assert_line(0, PS_WARN, "emb", "its switch agg0 is tired: it yawns: it is drained");
	assert_true(hosted()->tired.is);
	assert_int_equal(test.fences, 0);
	turn();
	assert_int_equal(heard.lines, 1);
	assert_int_equal(test.looks, 1); /* it is so already */
	test.is_drained = true;
	turn();
	assert_int_equal(test.begins, 1);
	assert_int_equal(heard.lines, 1);
	assert_true(test.server.closed[0].until_ns == heard.now_ns + 5 * s_ns);
	assert_int_equal(hosted()->first, 1);
}

static void tired__stays_where_another_is_no_better(void **state)
{
	(void)state;
	test.looks_tired = true;
	test.is_spent = true; /* a fence would be one of the last */
	turn();
	assert_false(hosted()->tired.is);
	test.is_spent = false;
	hosted()->is_early = true; /* it was the last resort, */
	test.server.closed[0].until_ns = heard.now_ns + 1;
	turn();
	assert_false(hosted()->tired.is);
	test.server.closed[0].until_ns = heard.now_ns; /* and is none now */
	for (uint32_t i = 1; i < OTHERS; i++)
		test.server.closed[i].until_ns = heard.now_ns + 1;
	test.memory_used = 1; /* 1001 bytes, and 1000 are there */
	turn();
	assert_false(hosted()->tired.is);
	assert_int_equal(heard.lines, 0);
	test.looks_tired = false;
	test.memory_used = 0;
	turn();
	assert_false(hosted()->tired.is);
	test.looks_tired = true; /* inside there is just room */
	turn();
	assert_true(hosted()->tired.is);
}

static void tired__goes_where_another_aggregator_is(void **state)
{
	(void)state;
	test.looks_tired = true;
	test.memory_used = 1;
	test.is_drained = false;
	test.server.closed[1].until_ns = heard.now_ns + 1;
	test.server.closed[2].until_ns = heard.now_ns;
	turn();
	assert_true(hosted()->tired.is);
}

static void turn__is_due_when_the_first_of_all_is(void **state)
{
	(void)state;
	hosted()->candidate = client_of(1);
	for (uint32_t i = 0; i < 3; i++) {
		test.client[1].due_ns = i == 0 ? 5 : 10;
		test.client[0].due_ns = i == 1 ? 5 : 10;
		test.knock_due_ns = i == 2 ? 5 : 10;
		assert_true(turn() == 5);
	}
	hosted()->is_knocking = false;
	assert_true(turn() == 10);
}

static void poll__is_of_the_candidate_then_of_the_switch(void **state)
{
	struct pollfd fd;

	(void)state;
	assert_true(ps_aggregator_poll(hosted(), &fd));
	assert_int_equal(fd.fd, 100);
	assert_int_equal(fd.events, 1);
	hosted()->candidate = client_of(1);
	assert_true(ps_aggregator_poll(hosted(), &fd));
	assert_int_equal(fd.fd, 101);
	assert_int_equal(fd.events, 2);
	ps_aggregator_drop(hosted());
	assert_true(test.client[0].is_closed && test.client[1].is_closed);
	assert_null(hosted()->client);
	assert_null(hosted()->candidate);
	assert_false(hosted()->is_knocking);
	assert_false(ps_aggregator_poll(hosted(), &fd));
	assert_int_equal(fd.fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define S(claim) cmocka_unit_test_setup(claim, setup_summed)
		S(switch__that_ends_begins_a_generation_elsewhere),
		S(switch__that_tells_of_another_instance_is_none),
		S(switch__that_tells_of_another_generation_is_none),
		S(switch__whose_datagrams_do_not_come_is_closed),
		S(switch__whose_path_is_too_narrow_is_told_from_a_closed_one),
		S(closed__is_five_minutes_at_most_and_told_once),
		S(closed__is_forgotten_once_it_has_summed_as_long),
		S(switch__that_goes_after_the_last_fence_is_the_last),
		S(tired__is_drained_and_then_left_alone),
		S(tired__stays_where_another_is_no_better),
		S(tired__goes_where_another_aggregator_is),
		S(turn__is_due_when_the_first_of_all_is),
		S(poll__is_of_the_candidate_then_of_the_switch),
#undef S
	};

	return cmocka_run_group_tests_name("ps-leaving", tests, NULL, NULL);
}
