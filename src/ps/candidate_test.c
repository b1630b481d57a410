/* SPDX-License-Identifier: Apache-2.0 */
/* candidate_test.c - aggregators of a table (aggregator.c): whom it asks, in which order and with what words, what it
 * makes of a grant, and when it gives one up. R-CT-28 to R-CT-33. All that they say, and the clock, are played. */
#include "ps/candidate_fixture.h"

#include <unistd.h>

/* ---- who is asked ---- */

static void ask__says_what_the_table_is(void **state)
{
	const struct control_table_open *open = &test.options.open;
	char host[CONTROL_HOST_BYTES] = "";

	(void)state;
	ps_aggregator_ask(&test.server, hosted());
	assert_ptr_equal(hosted()->candidate, client_of(0));
	assert_string_equal(test.options.address.text, "agg0");
	assert_true(test.options.open_ns == s_ns);
	assert_true(test.options.beat_ns == 20 * ms_ns);
	assert_true(test.options.silence_ns == 77);
	assert_int_equal(open->workers, WORKERS);
	assert_int_equal(open->window, 4);
	assert_int_equal(open->dim, 2);
	assert_int_equal(open->bytes, 1472);
	assert_int_equal(open->values, 1);
	assert_int_equal(open->ranks, 5);
	assert_int_equal(open->pid, getpid());
	assert_int_equal(open->pairs_max, 10);
	assert_int_equal(open->age_us, 20);
	assert_string_equal(open->table, "emb");
	assert_string_equal(open->job, "any");
	assert_string_equal(open->key, "");
	gethostname(host, sizeof(host) - 1);
	assert_string_equal(open->host, host);
	test.server.options.job = "J";
	test.server.options.key = "secret";
	ps_aggregator_ask(&test.server, hosted());
	assert_string_equal(open->job, "J");
	assert_string_equal(open->key, "secret");
}

static void ask__longest_key_is_said_whole(void **state)
{
	char key[CONTROL_KEY_BYTES + 1];

	(void)state;
	memset(key, 'k', sizeof(key));
	key[CONTROL_KEY_BYTES] = 0;
	test.server.options.key = key;
	ps_aggregator_ask(&test.server, hosted());
	key[CONTROL_KEY_BYTES - 1] = 0;
	assert_string_equal(test.options.open.key, key);
}

static void ask__goes_round_all_and_then_inside(void **state)
{
	(void)state;
	hosted()->first = 2;
	test.fails = 3;
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(test.opens, 3);
	assert_int_equal(test.asked[0], 2);
	assert_int_equal(test.asked[1], 0);
	assert_int_equal(test.asked[2], 1);
	assert_int_equal(test.insides, 1);
	assert_true(hosted()->again_ns == heard.now_ns + s_ns);
	hosted()->has_switch = true; /* the one that there is goes on */
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(test.opens, 3); /* all were asked */
	assert_int_equal(test.insides, 1);
}

static void ask__goes_on_behind_the_last(void **state)
{
	(void)state;
	test.fails = 1;
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(hosted()->asked, 1);
	assert_int_equal(hosted()->tried, 2);
	assert_ptr_equal(hosted()->candidate, client_of(1));
	ps_aggregator_ask(&test.server, hosted());
	assert_ptr_equal(hosted()->candidate, client_of(2));
	assert_true(hosted()->again_ns == 0);
	assert_int_equal(test.insides, 0);
}

static void ask__leaves_closed_ones_alone(void **state)
{
	(void)state;
	test.server.closed[0].until_ns = heard.now_ns + 1;
	test.server.closed[1].until_ns = heard.now_ns;
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(test.opens, 1);
	assert_int_equal(test.asked[0], 1);
	assert_false(hosted()->is_early);
	hosted()->tried = 0; /* nobody has room for the table: better one of those */
	hosted()->no_room = -ENOSPC;
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(test.asked[1], 0);
	assert_true(hosted()->is_early);
	hosted()->tried = 0;
	hosted()->has_switch = true;
	ps_aggregator_ask(&test.server, hosted());
	assert_int_equal(test.asked[2], 1);
}

/* ---- its answer ---- */

static void grant__is_the_switch_of_this_generation(void **state)
{
	static const struct link_address at = { .ip = { [12] = 10, [15] = 1 }, .port = 9000 };

	(void)state;
	hosted()->asked = 1;
	hosted()->candidate = client_of(1);
	test.client[1].due_ns = 44;
	assert_true(turn() == 44); /* it has not said anything yet */
	assert_int_equal(test.installs, 0);
	test.client[1].state = TABLE_CLIENT_LIVE;
	turn();
	assert_null(hosted()->candidate);
	assert_ptr_equal(hosted()->client, client_of(1));
	assert_int_equal(hosted()->which, 1);
	assert_int_equal(hosted()->first, 1);
	assert_int_equal(hosted()->registers, 12);
	assert_int_equal(test.fences, 0);
	assert_int_equal(test.drops, 1);
	assert_int_equal(test.installs, 1);
	assert_true(test.installed.instance == 71);
	assert_int_equal(test.installed.index, 40);
	assert_true(link_address_equal(&test.at, &at));
	assert_string_equal(test.where, "agg1");
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_memory_equal(test.worker[i].nonce, nonces[i], WIRE_NONCE_BYTES);
	assert_true(hosted()->is_knocking);
	assert_memory_equal(hosted()->knock.nonce, nonces[WORKERS], WIRE_NONCE_BYTES);
	assert_int_equal(hosted()->knock.index, 40);
	assert_int_equal(hosted()->knock.child, SPARSE_SERVER);
	assert_int_equal(hosted()->knock.serial, wire_get32(nonces[WORKERS]));
	assert_true(link_address_equal(&hosted()->knock.at_switch, &at));
	assert_false(test.client[1].is_closed);
}

/* The one inside sums meanwhile: it is drained, and then a generation begins. */
static void grant__after_another_switch_begins_a_generation(void **state)
{
	(void)state;
	hosted()->candidate = client_of(1);
	hosted()->has_switch = true;
	test.sums.is_fenced = test.is_drained = false;
	test.client[1].state = TABLE_CLIENT_LIVE;
	turn();
	assert_int_equal(test.installs, 0);
	assert_ptr_equal(hosted()->candidate, client_of(1));
	test.is_drained = true;
	turn();
	assert_int_equal(test.fences, 1);
	assert_int_equal(test.installs, 1);
}

static void grant__that_may_not_be_taken_is_given_back(void **state)
{
	(void)state;
	test.sums.is_fenced = false;
	for (uint32_t i = 0; i < 2; i++) {
		hosted()->candidate = client_of(i);
		test.client[i].state = TABLE_CLIENT_LIVE;
		turn();
		assert_null(hosted()->candidate);
		assert_true(test.client[i].is_closed);
		assert_int_equal(test.installs, 0);
		hosted()->has_switch = true; /* a fence would be one of the last */
		test.is_spent = true;
	}
}

static void refusal__is_said_and_the_next_is_asked(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		hosted()->candidate = client_of(i);
		hosted()->tried = i + 1;
		test.client[i].state = TABLE_CLIENT_ENDED;
		turn();
		assert_true(test.client[i].is_closed);
		assert_ptr_equal(hosted()->candidate, client_of(i + 1));
		hosted()->has_switch = true; /* nothing is the worse for it */
	}
	assert_line(0, PS_WARN, "emb", "no switch of it: agg0: full");
	assert_line(1, PS_DEBUG, "emb", "no switch of it: agg1: silent");
	assert_int_equal(heard.lines, 2);
	hosted()->candidate = client_of(2);
	hosted()->tried = OTHERS; /* all have refused */
	test.client[2].state = TABLE_CLIENT_ENDED;
	turn();
	assert_null(hosted()->candidate);
	assert_true(hosted()->again_ns == heard.now_ns + s_ns);
	assert_int_equal(test.insides, 0);
}

/* ---- turns ---- */

static void turn__asks_when_it_is_time(void **state)
{
	(void)state;
	hosted()->tried = OTHERS;
	hosted()->again_ns = heard.now_ns + 1;
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(test.opens, 0);
	heard.now_ns++;
	hosted()->table->kv.is_gathering = true; /* R-SP-33: nothing may be summed yet */
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(test.opens, 0);
	hosted()->table->kv.is_gathering = false;
	test.client[0].due_ns = 99;
	assert_true(turn() == 99);
	assert_int_equal(test.opens, 1);
	assert_int_equal(hosted()->tried, 1);
	turn(); /* one at a time */
	assert_int_equal(test.opens, 1);
}

/* The one inside is there, and goes for none that would not be better. */
static void turn__asks_nobody_for_nothing(void **state)
{
	(void)state;
	hosted()->has_switch = true;
	test.table.map.keys = 0;
	turn();
	assert_int_equal(test.opens, 0);
	test.table.map.keys = 5;
	test.server.options.aggregator_count = 0;
	turn();
	assert_int_equal(test.opens, 0);
	assert_true(hosted()->again_ns == 0);
	test.server.options.aggregator_count = OTHERS;
	test.is_spent = true;
	test.sums.is_fenced = false;
	turn();
	assert_int_equal(test.opens, 0);
	test.is_spent = false;
	hosted()->client = client_of(0); /* an aggregator sums it */
	test.client[0].state = TABLE_CLIENT_LIVE;
	turn();
	assert_int_equal(test.opens, 0);
	hosted()->client = NULL;
	turn();
	assert_int_equal(test.opens, 1);
}

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
#define T(claim) cmocka_unit_test_setup(claim, setup)
#define S(claim) cmocka_unit_test_setup(claim, setup_summed)
		T(ask__says_what_the_table_is),
		T(ask__longest_key_is_said_whole),
		T(ask__goes_round_all_and_then_inside),
		T(ask__goes_on_behind_the_last),
		T(ask__leaves_closed_ones_alone),
		T(grant__is_the_switch_of_this_generation),
		T(grant__after_another_switch_begins_a_generation),
		T(grant__that_may_not_be_taken_is_given_back),
		T(refusal__is_said_and_the_next_is_asked),
		T(turn__asks_when_it_is_time),
		T(turn__asks_nobody_for_nothing),
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
#undef T
#undef S
	};

	return cmocka_run_group_tests_name("ps-candidate", tests, NULL, NULL);
}
