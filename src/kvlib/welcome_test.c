/* SPDX-License-Identifier: Apache-2.0 */
/* welcome_test.c - a worker takes the WELCOME that answers a HELLO of its own, and no other one, which it counts.
 * docs/protocol.md, R-KV-7 and "What a stranger would have to guess". */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/fake_link.h"
#include "kvlib/kv.h"

enum { INDEX = 9, WORKER = 2, HELLOS = 3 };

static const struct link_address at_server = { .ip = { [10] = 0xff, 0xff, 10, 0, 0, 7 },
					       .port = 7272 };
static const uint8_t nonce[KV_NONCE_BYTES] = "16 random bytes";

static struct {
	struct fake_link net;
	struct tally_kv *kv;
	struct kv_server *server;
	struct wire hello[HELLOS + 1];
	uint32_t hellos;
} t;

static void hello_note(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	assert_true(link_address_equal(peer, &at_server));
	assert_true(t.hellos <= HELLOS);
	assert_int_equal(wire_check(at, bytes, &t.hello[t.hellos]), WIRE_OK);
	assert_int_equal(t.hello[t.hellos].type, WIRE_HELLO);
	assert_memory_equal(at + WIRE_HEADER_BYTES, nonce, sizeof(nonce));
	t.hellos++;
}

/* It has said HELLO three times since OPENED; once before, and that one was never answered. */
static int setup(void **state)
{
	static struct worker_kv_server core;

	(void)state;
	memset(&t, 0, sizeof(t));
	fake_link_init(&t.net, 0, hello_note);
	t.kv = calloc(1, sizeof(*t.kv) + sizeof(t.kv->server[0]));
	if (!t.kv || outbox_open(&t.kv->outbox, &t.net.link))
		return -1;
	t.kv->servers = 1;
	t.kv->worker = WORKER;
	t.server = &t.kv->server[0];
	t.server->kv = t.kv;
	t.server->core = &core;
	core.has_hot = true;
	core.number = INDEX;
	t.server->at_server = at_server;
	t.server->to_server.core.serial = UINT32_MAX - 2; /* wraps */
	for (uint32_t opens = 0; opens < 2; opens++) {
		kv_hot_opened(t.server, nonce);
		do {
			t.kv->now_ns = kv_hot_turn(t.server);
			outbox_flush(&t.kv->outbox);
		} while (opens && t.hellos <= HELLOS);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	outbox_close(&t.kv->outbox);
	free(t.kv);
	return 0;
}

static void come(const struct wire *welcome, const struct link_address *from)
{
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	wire_put(at, welcome);
	kv_hot_packet(t.kv, from, at, wire_bytes(welcome->lanes));
}

/* As the right one but for one field. */
static void welcome__of_another_field_is_dropped_and_counted(void **state)
{
	static const struct {
		const char *what;
		uint8_t type; /* 0: WELCOME */
		uint16_t job, child, port;
		uint32_t generation, seq;
		uint8_t ip;
	} cases[] = {
		{ "a HELLO", .type = WIRE_HELLO },
		{ "of another index", .job = 1 },
		{ "another worker's", .child = 1 },
		{ "another nonce's, in its first bit", .generation = 1 },
		{ "another nonce's, in its last bit", .generation = 1u << 31 },
		{ "of a HELLO that was not said yet", .seq = 1 },
		{ "of the HELLO before OPENED", .seq = (uint32_t)-HELLOS },
		{ "from another port", .port = 1 },
		{ "from another host", .ip = 1 },
	};
	const uint32_t count = sizeof(cases) / sizeof(cases[0]);

	(void)state;
	for (uint32_t i = 0; i < count; i++) {
		struct link_address from = at_server;
		struct wire welcome = t.hello[HELLOS];

		welcome.type = cases[i].type ? cases[i].type : WIRE_WELCOME;
		welcome.job = (uint16_t)(welcome.job + cases[i].job);
		welcome.child = (uint16_t)(welcome.child + cases[i].child);
		welcome.generation ^= cases[i].generation;
		welcome.seq += cases[i].seq;
		from.port = (uint16_t)(from.port + cases[i].port);
		from.ip[15] = (uint8_t)(from.ip[15] + cases[i].ip);
		come(&welcome, &from);
		if (t.server->to_server.core.is_welcome)
			fail_msg("it takes a WELCOME %s", cases[i].what);
		if (kv_hot_dropped(t.kv) != i + 1)
			fail_msg("it does not count a WELCOME %s", cases[i].what);
	}
	assert_true(kv_hot_turn(t.server) != UINT64_MAX); /* it goes on asking */
}

static void welcome__to_any_hello_since_opened_is_taken(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= HELLOS; i++) {
		struct wire welcome = t.hello[i];

		t.server->to_server.core.is_welcome = false;
		welcome.type = WIRE_WELCOME;
		for (uint32_t copies = 0; copies < 2; copies++) {
			come(&welcome, &at_server);
			assert_true(t.server->to_server.core.is_welcome);
		}
		assert_false(t.server->to_switch.core.is_welcome);
		assert_int_equal(kv_hot_turn(t.server), UINT64_MAX);
	}
	assert_int_equal(kv_hot_dropped(t.kv), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(welcome__##claim, setup, teardown)
		T(of_another_field_is_dropped_and_counted),
		T(to_any_hello_since_opened_is_taken),
#undef T
	};

	return cmocka_run_group_tests_name("kvlib-welcome", tests, NULL, NULL);
}
