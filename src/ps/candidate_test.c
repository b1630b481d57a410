/* SPDX-License-Identifier: Apache-2.0 */
/* candidate_test.c - aggregators of a table (aggregator.c): whom it asks, in which order and with what words, what it
 * makes of a grant, and when it gives one up. R-CT-28 to R-CT-33. All that they say, and the clock, are played. */
#include <errno.h>
#include <unistd.h>

#include "ps/lines_fixture.h"

enum { WORKERS = 2, OTHERS = 3, CLIENTS = 4 };

static const uint64_t s_ns = 1000000000, ms_ns = 1000000;
static const uint8_t nonces[WORKERS + 1][WIRE_NONCE_BYTES] = { "first", "second", "server" };

/* One connection to an aggregator: what it says. */
struct played {
	enum table_client_state state;
	struct control_table_grant grant;
	struct control_table_beat beat;
	bool has_beat, is_closed;
	uint64_t due_ns;
};

static struct {
	struct ps_server server;
	struct ps_table table;
	struct server_sparse sums;
	struct ps_worker worker[WORKERS];
	struct played client[CLIENTS];
	bool is_drained, is_spent, is_last_fence, looks_tired;
	uint64_t memory_used, knock_due_ns;
	/* What was done. */
	uint32_t opens, fails; /* the next so many cannot be opened */
	uint32_t asked[CLIENTS];
	struct table_client_options options;
	uint32_t insides, drops, begins, fences, installs, looks;
	struct control_table_grant installed; /* what install was told */
	struct link_address at;
	char where[64];
} test;

int __wrap_table_client_open(struct table_client **client,
			     const struct table_client_options *options, uint64_t now_ns);
void __wrap_table_client_close(struct table_client *client);
enum table_client_state __wrap_table_client_turn(struct table_client *client, uint64_t now_ns);
const struct control_table_grant *__wrap_table_client_grant(const struct table_client *client);
const struct control_table_beat *__wrap_table_client_beat(const struct table_client *client);
const char *__wrap_table_client_text(const struct table_client *client);
uint64_t __wrap_table_client_due(const struct table_client *client);
int __wrap_table_client_fd(const struct table_client *client);
short __wrap_table_client_events(const struct table_client *client);
const struct server_sparse *__wrap_home_sparse_server(const struct home_sparse *home);
bool __wrap_home_sparse_fence(struct home_sparse *home, uint32_t map);
bool __wrap_server_sparse_is_spent(const struct server_sparse *server);
uint64_t __wrap_engine_sparse_memory_used(const struct engine_sparse *engine);
uint64_t __wrap_engine_sparse_table_bytes(const struct sparse_table *shape);
void __wrap_ps_summed_inside(struct ps_server *server, struct ps_hosted *hosted);
void __wrap_ps_summed_drop(struct ps_server *server, struct ps_hosted *hosted);
void __wrap_ps_summed_begin(struct ps_server *server, struct ps_hosted *hosted);
bool __wrap_ps_summed_is_drained(struct ps_server *server, struct ps_hosted *hosted);
void __wrap_ps_summed_install(struct ps_server *server, struct ps_hosted *hosted, uint64_t instance,
			      uint16_t index, const struct link_address *at, const char *where);
bool __wrap_ps_tired_look(struct ps_server *server, struct ps_hosted *hosted, char *why,
			  size_t bytes);
void __wrap_ps_table_spent(const struct ps_table *table, char error[PS_ERROR_MAX]);
uint64_t __wrap_knock_turn(struct knock *knock, struct outbox *outbox, uint64_t now_ns);

static struct table_client *client_of(uint32_t i)
{
	return (struct table_client *)(void *)&test.client[i];
}

static struct played *played_of(const struct table_client *client)
{
	struct played *played = (struct played *)(uintptr_t)client;

	assert_true(played >= test.client && played < test.client + CLIENTS);
	assert_false(played->is_closed);
	return played;
}

int __wrap_table_client_open(struct table_client **client,
			     const struct table_client_options *options, uint64_t now_ns)
{
	assert_true(now_ns == heard.now_ns);
	test.options = *options;
	for (uint32_t i = 0; i < OTHERS; i++)
		if (!strcmp(options->address.text, test.server.aggregator[i].text))
			test.asked[test.opens] = i;
	test.opens++;
	if (test.fails) {
		test.fails--;
		return -ECONNREFUSED;
	}
	*client = client_of(test.asked[test.opens - 1]);
	return 0;
}

void __wrap_table_client_close(struct table_client *client)
{
	if (client)
		played_of(client)->is_closed = true;
}

enum table_client_state __wrap_table_client_turn(struct table_client *client, uint64_t now_ns)
{
	assert_true(now_ns == heard.now_ns);
	return played_of(client)->state;
}

const struct control_table_grant *__wrap_table_client_grant(const struct table_client *client)
{
	return &played_of(client)->grant;
}

const struct control_table_beat *__wrap_table_client_beat(const struct table_client *client)
{
	return played_of(client)->has_beat ? &played_of(client)->beat : NULL;
}

const char *__wrap_table_client_text(const struct table_client *client)
{
	return played_of(client) == &test.client[0] ? "agg0: full" : "agg1: silent";
}

uint64_t __wrap_table_client_due(const struct table_client *client)
{
	return played_of(client)->due_ns;
}

int __wrap_table_client_fd(const struct table_client *client)
{
	return 100 + (int)(played_of(client) - test.client);
}

short __wrap_table_client_events(const struct table_client *client)
{
	return (short)(1 + (played_of(client) - test.client));
}

const struct server_sparse *__wrap_home_sparse_server(const struct home_sparse *home)
{
	assert_ptr_equal(home, &test.table);
	return &test.sums;
}

bool __wrap_home_sparse_fence(struct home_sparse *home, uint32_t map)
{
	assert_ptr_equal(home, &test.table);
	assert_int_equal(map, 3);
	test.fences++;
	return !test.is_last_fence;
}

bool __wrap_server_sparse_is_spent(const struct server_sparse *server)
{
	assert_ptr_equal(server, &test.sums);
	return test.is_spent;
}

uint64_t __wrap_engine_sparse_memory_used(const struct engine_sparse *engine)
{
	assert_null(engine);
	return test.memory_used;
}

uint64_t __wrap_engine_sparse_table_bytes(const struct sparse_table *shape)
{
	assert_ptr_equal(shape, &test.table.shape);
	return 1000;
}

void __wrap_ps_summed_inside(struct ps_server *server, struct ps_hosted *hosted)
{
	assert_ptr_equal(hosted, &server->hosted[0]);
	test.insides++;
}

void __wrap_ps_summed_drop(struct ps_server *server, struct ps_hosted *hosted)
{
	assert_ptr_equal(server, &test.server);
	test.drops++;
	ps_aggregator_drop(hosted);
}

void __wrap_ps_summed_begin(struct ps_server *server, struct ps_hosted *hosted)
{
	test.begins++;
	__wrap_ps_summed_drop(server, hosted);
}

bool __wrap_ps_summed_is_drained(struct ps_server *server, struct ps_hosted *hosted)
{
	assert_ptr_equal(hosted, &server->hosted[0]);
	return test.is_drained;
}

void __wrap_ps_summed_install(struct ps_server *server, struct ps_hosted *hosted, uint64_t instance,
			      uint16_t index, const struct link_address *at, const char *where)
{
	assert_ptr_equal(hosted, &server->hosted[0]);
	test.installs++;
	test.installed.instance = instance;
	test.installed.index = index;
	test.at = *at;
	snprintf(test.where, sizeof(test.where), "%s", where);
	hosted->has_switch = true;
}

bool __wrap_ps_tired_look(struct ps_server *server, struct ps_hosted *hosted, char *why,
			  size_t bytes)
{
	assert_ptr_equal(hosted, &server->hosted[0]);
	test.looks++;
	snprintf(why, bytes, "it yawns");
	return test.looks_tired;
}

void __wrap_ps_table_spent(const struct ps_table *table, char error[PS_ERROR_MAX])
{
	assert_ptr_equal(table, &test.table);
	snprintf(error, PS_ERROR_MAX, "its generations are used up");
}

uint64_t __wrap_knock_turn(struct knock *knock, struct outbox *outbox, uint64_t now_ns)
{
	assert_ptr_equal(knock, &test.server.hosted[0].knock);
	assert_ptr_equal(outbox, &test.server.outbox);
	assert_true(now_ns == heard.now_ns);
	return test.knock_due_ns;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

static uint64_t turn(void)
{
	return ps_aggregator_turn(&test.server, hosted());
}

/* Three aggregators; the table has hot keys, and its generation no switch yet. */
static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	heard.now_ns = 1000 * s_ns;
	test.server.options.aggregator_count = OTHERS;
	test.server.options.silence_ns = 77;
	test.server.options.closed_ns = 5 * s_ns;
	test.server.options.key = "";
	test.server.options.job = "";
	test.server.hosted_count = 1;
	for (uint32_t i = 0; i < OTHERS; i++)
		snprintf(test.server.aggregator[i].text, sizeof(test.server.aggregator[i].text),
			 "agg%u", i);
	test.table.home = (struct home_sparse *)(void *)&test.table;
	test.table.map.version = 3;
	test.table.map.keys = 5;
	test.table.shape = (struct sparse_table){
		.workers = WORKERS, .window = 4, .dim = 2, .bytes = 1472, .values = 1, .ranks = 5
	};
	test.sums.generation = 6;
	test.sums.is_fenced = true;
	hosted()->table = &test.table;
	hosted()->worker = test.worker;
	hosted()->options.pairs_max = 10;
	hosted()->options.age_us = 20;
	strcpy(hosted()->options.table.name, "emb");
	for (uint32_t i = 0; i < CLIENTS; i++) {
		test.client[i].due_ns = UINT64_MAX;
		test.client[i].grant =
			(struct control_table_grant){ .ip = { [12] = 10, [15] = (uint8_t)i },
						      .port = 9000,
						      .index = 40,
						      .instance = 70 + i,
						      .registers = 12,
						      .nonces = nonces };
	}
	test.knock_due_ns = UINT64_MAX;
	test.is_drained = true;
	return 0;
}

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
