/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker of sparse mode sends a push again: claims. What becomes of whole networks of them is the simulator's
 * (tally sim --sparse). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/endpoint_sparse.h"
#include "dataplane/fake_link.h"

enum { WINDOW = 8, OUT_MAX = 64, MS = 1000 * 1000 };

static const struct sparse_table shape = { .ranks = 10,
					   .index = 3,
					   .workers = 1,
					   .window = WINDOW,
					   .dim = 1,
					   .bytes = 128 };

static struct fake_link net;
static struct {
	uint64_t seq[OUT_MAX]; /* of the pushes that went out since count was 0 */
	uint32_t count;
} fake;
static struct outbox outbox;
static struct endpoint_sparse *endpoint;

static void push_note(const struct link_address *peer, const uint8_t *at, uint32_t bytes)
{
	struct sparse packet = { 0 };

	(void)peer;
	assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
	if (packet.kind != SPARSE_PUSH)
		return;
	assert_true(fake.count < OUT_MAX);
	fake.seq[fake.count++] = packet.number;
}

static int begin(void **state)
{
	struct endpoint_sparse_options options = { .outbox = &outbox,
						   .table = shape,
						   .generation = 1,
						   .expected = 1,
						   .patience_ns = UINT64_MAX / 2,
						   .map = 1,
						   .kept_max = 4 * WINDOW,
						   .has_copy = true };

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake_link_init(&net, 1000ull * MS, push_note);
	return outbox_open(&outbox, &net.link) || endpoint_sparse_open(&endpoint, &options);
}

static int end(void **state)
{
	(void)state;
	endpoint_sparse_close(endpoint);
	outbox_close(&outbox);
	return 0;
}

/* After so long; how many pushes go out. */
static uint32_t turn_after(uint64_t ns)
{
	net.now_ns += ns;
	fake.count = 0;
	endpoint_sparse_turn(endpoint);
	outbox_flush(&outbox);
	return fake.count;
}

static void give(enum sparse_kind kind, uint64_t number)
{
	struct sparse packet = { .kind = (uint8_t)kind,
				 .table = shape.index,
				 .worker = kind == SPARSE_BCAST ? SPARSE_SERVER : 0,
				 .generation = 1,
				 .number = number,
				 .map = 1,
				 .parts = kind == SPARSE_BCAST };
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	packet.width = kind == SPARSE_BCAST;
	sparse_put(at, &packet);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	endpoint_sparse_serve(endpoint, at, sparse_bytes(&packet));
}

/* So many pushes go out; the first of all is acknowledged after 10 ms, so the RTO is 30 ms (R-PACE-2). */
static void push(uint32_t count)
{
	const uint8_t pairs[8] = { 0 };

	assert_int_equal(endpoint_sparse_push(endpoint, 0, 1, pairs), 1);
	assert_int_equal(turn_after(0), 1);
	net.now_ns += 10 * MS;
	give(SPARSE_ACK, 1);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(endpoint_sparse_push(endpoint, 0, 1, pairs), 2 + i);
	assert_int_equal(turn_after(0), count);
}

/* Whoever says the largest number: the copy is of as much use as before, and somebody counts. */
static void what_is_of_another_generation_is_counted(void **state)
{
	struct sparse packet = { .kind = SPARSE_COMMITTED,
				 .table = shape.index,
				 .number = 9,
				 .count = 1,
				 .width = WINDOW };
	uint8_t at[SPARSE_BYTES_MAX] = { 0 };

	(void)state;
	give(SPARSE_BCAST, 1);
	assert_int_equal(endpoint_sparse_stats(endpoint)->bcasts, 1);
	packet.generation = UINT64_MAX;
	sparse_put(at, &packet);
	endpoint_sparse_serve(endpoint, at, sparse_bytes(&packet));
	assert_int_equal(endpoint_sparse_stats(endpoint)->dropped, 1);
	assert_int_equal(endpoint_sparse_copy(endpoint)->told, 1);
	packet = (struct sparse){ .kind = SPARSE_BCAST,
				  .table = shape.index,
				  .generation = UINT64_MAX,
				  .number = 9,
				  .parts = 1,
				  .width = 1 };
	sparse_put(at, &packet);
	endpoint_sparse_serve(endpoint, at, sparse_bytes(&packet));
	assert_int_equal(endpoint_sparse_stats(endpoint)->dropped, 2);
	assert_int_equal(endpoint_sparse_stats(endpoint)->bcasts, 1);
	assert_int_equal(endpoint_sparse_copy(endpoint)->newest, 1);
	assert_int_equal(endpoint_sparse_copy(endpoint)->told, 1);
}

/* R-SP-19 */
static void what_has_no_answer_goes_again(void **state)
{
	(void)state;
	push(1);
	assert_int_equal(turn_after(29 * MS), 0);
	assert_int_equal(turn_after(1 * MS), 1);
	assert_int_equal(fake.seq[0], 2);
}

/* The ACKs of all wait in one queue: while they come, one that is late is not lost. */
static void a_late_answer_is_waited_for(void **state)
{
	(void)state;
	push(4);
	net.now_ns += 29 * MS;
	give(SPARSE_ACK, 2);
	assert_int_equal(turn_after(5 * MS), 0);
	net.now_ns += 20 * MS;
	give(SPARSE_ACK, 3);
	assert_int_equal(turn_after(20 * MS), 0);
	give(SPARSE_ACK, 4);
	give(SPARSE_ACK, 5);
	assert_int_equal(turn_after(1000 * MS), 0);
}

/* And so do the packets of a BCAST. */
static void a_broadcast_is_waited_for(void **state)
{
	(void)state;
	push(1);
	for (uint64_t epoch = 1; epoch <= 3; epoch++) {
		net.now_ns += 29 * MS;
		give(SPARSE_BCAST, epoch);
		assert_int_equal(turn_after(0), 0);
	}
	assert_int_equal(turn_after(30 * MS), 1);
}

/* It is passed by three that went out after it. */
static void what_is_missed_goes_again_at_once(void **state)
{
	(void)state;
	push(4);
	net.now_ns += 10 * MS;
	give(SPARSE_ACK, 3);
	give(SPARSE_ACK, 4);
	assert_int_equal(turn_after(0), 0);
	give(SPARSE_ACK, 5);
	outbox_flush(&outbox);
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.seq[0], 2);
}

/* R-SP-19: 8 RTO, whatever else comes. */
static void nothing_is_waited_for_for_ever(void **state)
{
	uint32_t again = 0;

	(void)state;
	push(1);
	for (uint64_t epoch = 1; epoch <= 24; epoch++) {
		net.now_ns += 10 * MS;
		give(SPARSE_BCAST, epoch);
		assert_int_equal(again, 0);
		again += turn_after(0);
	}
	assert_int_equal(again, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_of_another_generation_is_counted, begin,
						end),
		cmocka_unit_test_setup_teardown(what_has_no_answer_goes_again, begin, end),
		cmocka_unit_test_setup_teardown(a_late_answer_is_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(a_broadcast_is_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(what_is_missed_goes_again_at_once, begin, end),
		cmocka_unit_test_setup_teardown(nothing_is_waited_for_for_ever, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
