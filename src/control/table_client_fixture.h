/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_client_fixture.h - for tests: a parameter server's client of a table, and its aggregator, which is played; so is
 * the clock. Included once in a program.
 */
#ifndef CONTROL_TABLE_CLIENT_FIXTURE_H
#define CONTROL_TABLE_CLIENT_FIXTURE_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/table_client.h"

enum { WORKERS = 2, ROUNDS_MAX = 500 };

static const uint64_t ms_ns = 1000000;
static const uint8_t nonces[WORKERS + 1][WIRE_NONCE_BYTES] = { "worker 0", "worker 1",
							       "the server" };

static struct {
	int listen_fd;
	struct conn *conn; /* the aggregator's end */
	struct codec codec;
	struct control_message message;
	struct table_client *client;
	uint64_t now_ns;
} t;

static void set_up_address(struct conn_address *address)
{
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, address), 0);
	t.listen_fd = conn_listen(address);
	assert_true(t.listen_fd >= 0);
}

/* Both ends, until the aggregator has a message, or the client's state is `state`; false: neither. */
static bool run_until(enum control_type type, enum table_client_state state)
{
	for (int i = 0; i < ROUNDS_MAX; i++) {
		if (table_client_turn(t.client, t.now_ns) == state && type == CONTROL_NOTHING)
			return true;
		if (!t.conn)
			conn_accept(&t.conn, t.listen_fd);
		if (t.conn && conn_read(t.conn, t.now_ns, &t.codec, &t.message) == CONN_MESSAGE &&
		    t.message.type == type)
			return true;
		poll(NULL, 0, 5);
	}
	return false;
}

static void say(const struct control_message *message)
{
	assert_int_equal(conn_send(t.conn, &t.codec, message), 0);
}

static void grant(void)
{
	struct control_message message = { .type = CONTROL_TABLE_GRANT };

	message.table_grant = (struct control_table_grant){ .version = 1,
							    .port = 7171,
							    .index = 9,
							    .nonces_count = WORKERS + 1,
							    .heartbeat_ms = 1000,
							    .instance = 77,
							    .nonces = nonces };
	say(&message);
}

static struct table_client_options plain(void)
{
	return (struct table_client_options){
		.open = { .workers = WORKERS,
			  .window = 2,
			  .dim = 1,
			  .bytes = 128,
			  .ranks = 100,
			  .job = "ctr",
			  .table = "emb",
			  .host = "ps" },
		.beat_ns = 10 * ms_ns,
		.silence_ns = 1000 * ms_ns,
	};
}

static int begin_as(struct table_client_options options)
{
	memset(&t, 0, sizeof(t));
	t.now_ns = 1000000 * ms_ns;
	set_up_address(&options.address);
	assert_int_equal(table_client_open(&t.client, &options, t.now_ns), 0);
	assert_true(run_until(CONTROL_TABLE_OPEN, TABLE_CLIENT_OPENING));
	return 0;
}

static int begin(void **state)
{
	(void)state;
	return begin_as(plain());
}

static int finish(void **state)
{
	(void)state;
	table_client_close(t.client);
	conn_close(t.conn);
	if (t.listen_fd >= 0)
		close(t.listen_fd);
	return 0;
}

static void answer(uint32_t serial)
{
	uint64_t before = table_client_beats(t.client);

	say(&(struct control_message){
		.type = CONTROL_TABLE_BEAT,
		.table_beat = { .serial = serial, .index = 9, .instance = 77 } });
	for (int i = 0; i < ROUNDS_MAX && table_client_beats(t.client) == before; i++) {
		table_client_turn(t.client, t.now_ns);
		poll(NULL, 0, 5);
	}
	assert_int_equal(table_client_beats(t.client), before + 1);
}

/* The next thing that is no message. */
static void assert_aggregator_hears_the_end(void)
{
	enum conn_result result = CONN_NONE;

	for (int i = 0; i < ROUNDS_MAX && result >= CONN_NONE; i++) {
		result = conn_read(t.conn, t.now_ns, &t.codec, &t.message);
		if (result == CONN_NONE)
			poll(NULL, 0, 5);
	}
	assert_true(result < CONN_NONE);
}

static void expect_end(enum control_cause cause, const char *words)
{
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_cause(t.client), cause);
	if (!strstr(table_client_text(t.client), words))
		fail_msg("\"%s\" is not \"%s\"", table_client_text(t.client), words);
	assert_memory_equal(table_client_text(t.client), "aggregator 127.0.0.1:", 21);
	assert_int_equal(table_client_fd(t.client), -1);
	if (t.conn)
		assert_aggregator_hears_the_end();
}

#endif
