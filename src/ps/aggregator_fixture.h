/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregator_fixture.h - for tests: an aggregator in a thread, with a real switch and control that is played, so that
 * what its beats say is the test's. One table at a time. Included once in a program.
 */
#ifndef PS_AGGREGATOR_FIXTURE_H
#define PS_AGGREGATOR_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/link_udp.h"

enum { PLAYED_INDEX = 9, PLAYED_WORKERS_MAX = 4, PLAYED_FRAMES = 16, PLAYED_OPENS_MAX = 8 };

static struct {
	atomic_uint opens, beats;           /* tables that were granted; answers, of all */
	atomic_uint delay_ms;               /* of an answer */
	atomic_uint memory_percent;         /* that is said to be in use, */
	atomic_uint calm_every;             /* but not in each so-manieth answer; 0: in all */
	atomic_uint lost;                   /* parts that an answer says were sent, and were not */
	uint64_t open_ns[PLAYED_OPENS_MAX]; /* when the first tables were granted */
	atomic_bool is_deaf;                /* for FLIP, */
	atomic_bool is_shut;                /* and for all that is a datagram */
	atomic_bool is_ending;
	char address[64];
	int listener;
	pthread_t thread;
	/* The thread's own. */
	struct link *link;
	struct engine_sparse *engine;
	struct conn *conn;
	struct codec codec;
	uint64_t instance, said_lost;
	uint32_t serial; /* of a beat that is to be answered; 0: none, */
	uint64_t due_ns; /* and when */
} played;

static uint64_t played_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void played_grant(const struct control_table_open *open)
{
	static const uint8_t nonces[PLAYED_WORKERS_MAX + 1][WIRE_NONCE_BYTES] = { "one", "two",
										  "three", "four",
										  "five" };
	struct control_message message = { .type = CONTROL_TABLE_GRANT };
	struct engine_sparse_table table = { .shape = { .ranks = open->ranks,
							.index = PLAYED_INDEX,
							.workers = open->workers,
							.window = open->window,
							.dim = open->dim,
							.bytes = open->bytes },
					     .instance = ++played.instance,
					     .pairs_max = open->pairs_max,
					     .age_ns = open->age_us * 1000,
					     .nonces = nonces };

	assert_true(open->workers <= PLAYED_WORKERS_MAX);
	engine_sparse_remove(played.engine, PLAYED_INDEX);
	assert_int_equal(engine_sparse_add(played.engine, &table), 0);
	message.table_grant =
		(struct control_table_grant){ .version = 1,
					      .port = played.link->local.port,
					      .index = PLAYED_INDEX,
					      .nonces_count = (uint16_t)(open->workers + 1),
					      .heartbeat_ms = 1000,
					      .instance = played.instance,
					      .nonces = nonces };
	played.serial = 0;
	played.said_lost = 0;
	assert_int_equal(conn_send(played.conn, &played.codec, &message), 0);
	if (played.opens < PLAYED_OPENS_MAX)
		played.open_ns[played.opens] = played_now();
	played.opens++;
}

static void played_answer(void)
{
	const struct switch_sparse *state = engine_sparse_state(played.engine, PLAYED_INDEX);
	struct control_message message = { .type = CONTROL_TABLE_BEAT };
	unsigned calm = played.calm_every;
	bool is_calm = calm && played.beats % calm == 0;

	played.said_lost += played.lost;
	message.table_beat = (struct control_table_beat){
		.serial = played.serial,
		.index = PLAYED_INDEX,
		.instance = played.instance,
		.generation = state->generation,
		.memory_used = is_calm ? 0 : played.memory_percent,
		.memory_max = 100,
		.parts = engine_sparse_parts(played.engine, PLAYED_INDEX) + played.said_lost,
	};
	played.serial = 0;
	played.beats++;
	conn_send(played.conn, &played.codec, &message); /* maybe it has just gone */
}

static void played_control(void)
{
	static struct control_message message;
	enum conn_result result;

	if (!played.conn && conn_accept(&played.conn, played.listener))
		return;
	result = conn_read(played.conn, played_now(), &played.codec, &message);
	if (result < CONN_NONE) {
		conn_close(played.conn);
		played.conn = NULL;
		played.serial = 0;
		return;
	}
	if (result == CONN_MESSAGE && message.type == CONTROL_TABLE_OPEN) {
		played_grant(&message.table_open);
	} else if (result == CONN_MESSAGE && message.type == CONTROL_TABLE_BEAT) {
		played.serial = message.table_beat.serial;
		engine_sparse_name(played.engine, PLAYED_INDEX, message.table_beat.generation);
		played.due_ns = played_now() + played.delay_ms * 1000000ull;
	}
	if (played.serial && played_now() >= played.due_ns)
		played_answer();
}

static void played_datagram(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	struct wire hello;

	if (played.is_shut)
		return;
	if (at[0] == SPARSE_FIRST_BYTE) {
		if (!played.is_deaf || at[1] != SPARSE_FLIP)
			engine_sparse_serve(played.engine, peer, at, bytes);
	} else if (wire_check(at, bytes, &hello) == WIRE_OK && hello.type == WIRE_HELLO) {
		engine_sparse_hello(played.engine, peer, &hello, at + WIRE_HEADER_BYTES);
	}
}

static void *played_main(void *arg)
{
	struct link_frame frames[PLAYED_FRAMES];

	(void)arg;
	while (!played.is_ending) {
		int count = played.link->ops->recv(played.link, frames, PLAYED_FRAMES);

		for (int i = 0; i < count; i++)
			for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
				played_datagram(&frames[i].peer, frames[i].data + at,
						frames[i].packet_bytes);
		played_control();
		engine_sparse_turn(played.engine);
		usleep(500);
	}
	conn_close(played.conn);
	played.conn = NULL;
	return NULL;
}

static void played_begin(void)
{
	struct link_udp_options udp = {
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } }
	};
	struct conn_address address;
	uint8_t ip[16];
	uint16_t port;

	memset(&played, 0, sizeof(played));
	assert_int_equal(link_udp_open(&played.link, &udp), 0);
	played.engine = engine_sparse_open(&(struct engine_sparse_options){ .link = played.link });
	assert_non_null(played.engine);
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &address), 0);
	played.listener = conn_listen(&address);
	assert_true(played.listener >= 0);
	conn_address_ip(&address, ip, &port);
	snprintf(played.address, sizeof(played.address), "127.0.0.1:%u", port);
	assert_int_equal(pthread_create(&played.thread, NULL, played_main, NULL), 0);
}

static void played_end(void)
{
	played.is_ending = true;
	pthread_join(played.thread, NULL);
	engine_sparse_close(played.engine);
	played.link->ops->close(played.link);
	close(played.listener);
}

#endif
