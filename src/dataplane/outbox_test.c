/* SPDX-License-Identifier: Apache-2.0 */
/* How packets are collected into frames: claims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/outbox.h"

enum { SMALL = 60, LARGE = 5039, SENT_MAX = 4 * OUTBOX_FRAMES };

static const struct link_address here = { .ip = { [15] = 7 }, .port = 7171 };
static const struct link_address there = { .ip = { [15] = 7 }, .port = 7172 };

static struct {
	struct link link;
	struct outbox outbox;
	uint32_t calls, count;
	struct link_frame frame[SENT_MAX];               /* that were sent, without their bytes: */
	uint8_t first[SENT_MAX][LINK_FRAME_PACKETS_MAX]; /* of each packet the first */
} t;

static int fake_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	t.calls++;
	for (uint32_t i = 0; i < count; i++, t.count++) {
		const struct link_frame *frame = &frames[i];

		assert_true(t.count < SENT_MAX);
		assert_true(frame->count && frame->count <= LINK_FRAME_PACKETS_MAX);
		assert_int_equal(frame->bytes, frame->count * frame->packet_bytes);
		assert_true(frame->bytes <= LINK_FRAME_BYTES_MAX);
		t.frame[t.count] = *frame;
		for (uint32_t k = 0; k < frame->count; k++) {
			const uint8_t *packet = frame->data + (size_t)k * frame->packet_bytes;

			t.first[t.count][k] = packet[0];
			assert_int_equal(packet[frame->packet_bytes - 1], packet[0]);
		}
	}
	return 0;
}

static const struct link_ops fake_ops = { .send = fake_send };

static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.link.ops = &fake_ops;
	return outbox_open(&t.outbox, &t.link);
}

static int end(void **state)
{
	(void)state;
	outbox_close(&t.outbox);
	return 0;
}

/* All its bytes are `what`. */
static void put(const struct link_address *peer, uint32_t bytes, uint8_t what)
{
	memset(outbox_put(&t.outbox, peer, bytes), what, bytes);
}

static void what_is_for_one_in_one_size_goes_in_one_frame(void **state)
{
	(void)state;
	put(&here, SMALL, 1);
	put(&there, SMALL, 2);
	put(&here, LARGE, 3);
	put(&there, SMALL, 4);
	put(&here, SMALL, 5);
	assert_int_equal(t.calls, 0);
	outbox_flush(&t.outbox);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.count, 3);
	assert_true(link_address_equal(&t.frame[0].peer, &here));
	assert_int_equal(t.frame[0].packet_bytes, SMALL);
	assert_memory_equal(t.first[0], ((uint8_t[]){ 1, 5 }), 2);
	assert_true(link_address_equal(&t.frame[1].peer, &there));
	assert_memory_equal(t.first[1], ((uint8_t[]){ 2, 4 }), 2);
	assert_int_equal(t.frame[2].packet_bytes, LARGE);
	assert_int_equal(t.first[2][0], 3);
}

static void a_frame_has_as_many_packets_as_a_link_takes(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < LINK_FRAME_PACKETS_MAX + 1; i++)
		put(&here, SMALL, i);
	outbox_flush(&t.outbox);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.frame[0].count, LINK_FRAME_PACKETS_MAX);
	assert_int_equal(t.frame[1].count, 1);
	assert_int_equal(t.first[1][0], LINK_FRAME_PACKETS_MAX);
}

static void a_frame_has_as_many_bytes_as_a_link_takes(void **state)
{
	const uint32_t fit = LINK_FRAME_BYTES_MAX / LARGE; /* to the last byte */

	(void)state;
	for (uint32_t i = 0; i <= fit; i++)
		put(&here, LARGE, (uint8_t)i);
	put(&here, LINK_FRAME_BYTES_MAX, 99);
	for (uint8_t i = 0; i < 12; i++)
		put(&here, (LINK_FRAME_BYTES_MAX + 1) / 12, i); /* one byte too many */
	outbox_flush(&t.outbox);
	assert_int_equal(t.count, 5);
	assert_int_equal(t.frame[0].count, fit);
	assert_int_equal(t.first[1][0], fit);
	assert_int_equal(t.frame[2].bytes, LINK_FRAME_BYTES_MAX);
	assert_int_equal(t.frame[3].count, 11);
}

/* Each to another one: what has no frame left makes room for itself. */
static void where_there_is_no_frame_left_all_are_sent(void **state)
{
	struct link_address peer = here;

	(void)state;
	for (uint8_t i = 0; i < OUTBOX_FRAMES; i++, peer.port++)
		put(&peer, SMALL, i);
	assert_int_equal(t.calls, 0);
	put(&here, SMALL, 50); /* has its frame */
	assert_int_equal(t.calls, 0);
	put(&peer, SMALL, 51);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.count, OUTBOX_FRAMES);
	put(&here, SMALL, 52); /* another one now */
	outbox_flush(&t.outbox);
	assert_int_equal(t.count, OUTBOX_FRAMES + 2);
	assert_memory_equal(t.first[0], ((uint8_t[]){ 0, 50 }), 2);
	assert_int_equal(t.first[OUTBOX_FRAMES][0], 51);
	assert_int_equal(t.first[OUTBOX_FRAMES + 1][0], 52);
	assert_int_equal(t.frame[OUTBOX_FRAMES + 1].count, 1);
}

static void nothing_is_sent_of_nothing_nor_twice(void **state)
{
	(void)state;
	outbox_flush(&t.outbox);
	assert_int_equal(t.calls, 0);
	put(&here, SMALL, 1);
	outbox_flush(&t.outbox);
	outbox_flush(&t.outbox);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_for_one_in_one_size_goes_in_one_frame,
						begin, end),
		cmocka_unit_test_setup_teardown(a_frame_has_as_many_packets_as_a_link_takes, begin,
						end),
		cmocka_unit_test_setup_teardown(a_frame_has_as_many_bytes_as_a_link_takes, begin,
						end),
		cmocka_unit_test_setup_teardown(where_there_is_no_frame_left_all_are_sent, begin,
						end),
		cmocka_unit_test_setup_teardown(nothing_is_sent_of_nothing_nor_twice, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
