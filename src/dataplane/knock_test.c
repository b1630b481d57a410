/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker or a server of a table makes its address known: claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/binding.h"
#include "dataplane/fake_link.h"
#include "dataplane/knock.h"

enum { INDEX = 3, WORKER = 2, OUT_MAX = 8 };

static const uint8_t nonce[WIRE_NONCE_BYTES] = "\xff\xff\xff\xff nonce"; /* serials wrap at once */
static const struct sparse_table table = { .ranks = 9,
					   .index = INDEX,
					   .workers = 4,
					   .window = 2,
					   .dim = 1,
					   .bytes = 1472 };
static const struct link_address at_switch = { .ip = { [15] = 7 }, .port = 7171 };

static struct {
	struct fake_link net;
	struct outbox outbox;
	struct knock knock;
	struct wire hello[OUT_MAX];
	uint32_t count;
} t;

static void hello_note(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	assert_true(link_address_equal(peer, &at_switch));
	assert_true(t.count < OUT_MAX);
	assert_int_equal(wire_check(at, bytes, &t.hello[t.count]), WIRE_OK);
	assert_int_equal(t.hello[t.count].type, WIRE_HELLO);
	assert_memory_equal(at + WIRE_HEADER_BYTES, nonce, sizeof(nonce));
	t.count++;
}

static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	fake_link_init(&t.net, 0, hello_note);
	if (outbox_open(&t.outbox, &t.net.link))
		return 1;
	knock_begin(&t.knock, &table, WORKER, &at_switch, nonce);
	return 0;
}

static int end(void **state)
{
	(void)state;
	outbox_close(&t.outbox);
	return 0;
}

static uint64_t turn(uint64_t now_ns)
{
	uint64_t due_ns = knock_turn(&t.knock, &t.outbox, now_ns);

	t.count = 0;
	outbox_flush(&t.outbox);
	return due_ns;
}

/* The answer to that HELLO, from there. */
static bool welcome(const struct wire *hello, const struct link_address *from)
{
	uint8_t at[SPARSE_BYTES_MAX];

	binding_welcome(hello, from, at);
	return knock_serve(&t.knock, from, at, wire_bytes(hello->lanes));
}

static void knock__says_hello_until_one_of_full_size_is_answered(void **state)
{
	(void)state;
	assert_int_equal(turn(1000), 1000 + KNOCK_NS);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.hello[0].job, INDEX);
	assert_int_equal(t.hello[0].child, WORKER);
	assert_int_equal(wire_bytes(t.hello[0].lanes),
			 1464); /* the most below 1472 that lanes let be */
	turn(1000 + KNOCK_NS - 1);
	assert_int_equal(t.count, 0);
	assert_int_equal(turn(1000 + KNOCK_NS), 1000 + 2 * KNOCK_NS);
	assert_int_equal(t.count, 1);
	assert_true(welcome(&t.hello[0], &at_switch));
	assert_true(t.knock.is_welcome);
	assert_int_equal(turn(1000 + 3 * KNOCK_NS), UINT64_MAX);
	assert_int_equal(t.count, 0);
}

static void knock__tells_a_narrow_path_from_a_closed_one(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 6; i++) {
		turn(1000 + i * KNOCK_NS);
		assert_int_equal(t.count, i < 5 ? 1 : 2);
	}
	assert_int_equal(t.hello[1].lanes, WIRE_HELLO_LANES);
	assert_true(welcome(&t.hello[1], &at_switch));
	assert_true(t.knock.is_short_welcome);
	assert_false(t.knock.is_welcome);
	turn(1000 + 6 * KNOCK_NS);
	assert_int_equal(t.count, 2);
}

static void knock__of_the_smallest_packets_has_no_shorter_one(void **state)
{
	struct sparse_table smallest = table;

	(void)state;
	smallest.bytes = (uint16_t)wire_bytes(WIRE_HELLO_LANES);
	knock_begin(&t.knock, &smallest, WORKER, &at_switch, nonce);
	for (uint64_t i = 0; i < 7; i++) {
		turn(1000 + i * KNOCK_NS);
		assert_int_equal(t.count, 1);
		assert_int_equal(t.hello[0].lanes, WIRE_HELLO_LANES);
	}
}

static void knock__takes_no_welcome_of_others(void **state)
{
	struct link_address elsewhere = at_switch;
	uint8_t other[WIRE_NONCE_BYTES] = "another nonce";
	struct wire hello;

	(void)state;
	turn(1000);
	hello = t.hello[0];
	elsewhere.port++;
	assert_false(welcome(&hello, &elsewhere));
	hello.child++;
	assert_false(welcome(&hello, &at_switch));
	hello = t.hello[0];
	hello.job++;
	assert_false(welcome(&hello, &at_switch));
	hello = t.hello[0];
	hello.seq++; /* was not said yet */
	assert_false(welcome(&hello, &at_switch));
	for (uint32_t bit = 0; bit < 32; bit++) { /* all is right, but for what the nonce says */
		hello = t.hello[0];
		hello.generation ^= 1u << bit;
		assert_false(welcome(&hello, &at_switch));
	}
	/* The next table has the index of this one, and its HELLO is on the way. */
	hello = t.hello[0];
	knock_begin(&t.knock, &table, WORKER, &at_switch, other);
	knock_turn(&t.knock, &t.outbox, 2000);
	assert_false(welcome(&hello, &at_switch));
	assert_false(t.knock.is_welcome);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			knock__says_hello_until_one_of_full_size_is_answered, begin, end),
		cmocka_unit_test_setup_teardown(knock__tells_a_narrow_path_from_a_closed_one, begin,
						end),
		cmocka_unit_test_setup_teardown(knock__of_the_smallest_packets_has_no_shorter_one,
						begin, end),
		cmocka_unit_test_setup_teardown(knock__takes_no_welcome_of_others, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
