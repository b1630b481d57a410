/* SPDX-License-Identifier: Apache-2.0 */
/* candidate_test.c - aggregators of a table: whom it asks (candidate.c), in which order and with what words, and what it
 * makes of a grant. R-CT-28 to R-CT-31. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
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
#undef T
	};

	return cmocka_run_group_tests_name("ps-candidate", tests, NULL, NULL);
}
