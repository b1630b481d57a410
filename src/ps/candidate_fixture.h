/* SPDX-License-Identifier: Apache-2.0 */
/*
 * candidate_fixture.h - for tests of a table's aggregators: all that they say, and the clock, are played. meson.build
 * names what is wrapped; included once in a program.
 */
#ifndef PS_CANDIDATE_FIXTURE_H
#define PS_CANDIDATE_FIXTURE_H

#include <errno.h>

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

#endif
