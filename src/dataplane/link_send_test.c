/* SPDX-License-Identifier: Apache-2.0 */
/* link_send_test.c - what link_udp.c hands a kernel that refuses, when it waits for room and for how long. */
#include <netinet/in.h>

#include "dataplane/link_kernel_fixture.h"

enum { PACKET_BYTES = 16, FLAGS = MSG_NOSIGNAL | MSG_DONTWAIT };

static uint8_t data[64 * PACKET_BYTES];

/* `count` packets from byte `at` of data on, the last of which is 4 bytes short. */
static struct link_frame frame_of(uint32_t count, uint32_t at)
{
	return (struct link_frame){ .peer = address_of("10.0.0.2", 9),
				    .packet_bytes = PACKET_BYTES,
				    .count = count,
				    .bytes = count * PACKET_BYTES - 4,
				    .data = data + at };
}

static void sent_is(uint32_t idx, uint32_t at, uint32_t bytes, uint32_t segment, bool is_single)
{
	assert_true(idx < kernel.sent_count);
	assert_ptr_equal(kernel.sent[idx].data, data + at);
	assert_int_equal(kernel.sent[idx].bytes, bytes);
	assert_int_equal(kernel.sent[idx].segment, segment);
	assert_int_equal(kernel.sent[idx].is_single, is_single);
	assert_int_equal(kernel.sent[idx].name_bytes, sizeof(struct sockaddr_in));
	assert_int_equal(kernel.sent[idx].flags, FLAGS);
}

static void stats_are(const struct link *link, uint64_t packets, uint64_t bytes, uint64_t calls,
		      uint64_t errors)
{
	assert_int_equal(link->stats.packets_out, packets);
	assert_int_equal(link->stats.bytes_out, bytes);
	assert_int_equal(link->stats.calls_out, calls);
	assert_int_equal(link->stats.send_errors, errors);
}

static void many_say(const struct says *says, uint32_t count)
{
	memcpy(kernel.many.says, says, count * sizeof(*says));
	kernel.many.count = count;
}

static void one_says(const struct says *says, uint32_t count)
{
	memcpy(kernel.one.says, says, count * sizeof(*says));
	kernel.one.count = count;
}

/* 19 refusals; the tenth time something goes: another second begins. */
static void half_way(struct says *says)
{
	for (uint32_t i = 0; i < 19; i++)
		says[i].error = EAGAIN;
	says[9] = (struct says){ .takes = 1 };
}

/* ---- send ---- */

static void link_send__a_run_is_one_message_to_be_cut(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48), frame_of(2, 64) };
	struct link *link = open_plain();

	(void)state;
	assert_int_equal(link->ops->send(link, frames, 3), 0);
	assert_int_equal(kernel.sent_count, 3);
	sent_is(0, 0, 44, PACKET_BYTES, false);
	sent_is(1, 48, 12, 0, false);
	sent_is(2, 64, 28, PACKET_BYTES, false);
	stats_are(link, 6, 84, 1, 0);
	close_link(link);
}

/* From the address that was reached, which goes beside the message as its segment does. */
static void link_send__answers_name_the_address_that_was_reached(void **state)
{
	struct link_udp_options options = { .keeps_via = true, .poll_count = UINT32_MAX };
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48), frame_of(1, 64) };
	static const struct says no_checksums[] = { { .error = EIO } };
	struct link *link = open_with(&options);

	(void)state;
	memcpy(frames[0].peer.via, address_of("10.0.0.77", 0).ip, 16);
	memcpy(frames[1].peer.via, address_of("10.0.0.78", 0).ip, 16);
	many_say(no_checksums, 1);
	assert_int_equal(link->ops->send(link, frames, 3), 0);
	assert_int_equal(kernel.sent_count, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(kernel.sent[i].via, i < 3 ? 77 : i == 3 ? 78 : 0);
	close_link(link);

	link = open_plain(); /* who keeps none says none */
	assert_int_equal(link->ops->send(link, frames, 2), 0);
	assert_int_equal(kernel.sent[0].via, 0);
	assert_int_equal(kernel.sent[0].segment, PACKET_BYTES);
	assert_int_equal(kernel.sent[1].via, 0);
	close_link(link);
}

static void link_send__more_than_a_call_takes_goes_in_several(void **state)
{
	struct link_udp_options options = { .no_offload = true };
	struct link_frame frames[] = { frame_of(64, 0), frame_of(64, 0), frame_of(3, 0) };
	struct link *link = open_with(&options);

	(void)state;
	assert_int_equal(link->ops->send(link, frames, 3), 0);
	assert_int_equal(kernel.calls, 2);
	assert_int_equal(kernel.offered[0], 128);
	assert_int_equal(kernel.offered[1], 3);
	assert_int_equal(kernel.sent_count, 131);
	sent_is(63, 63 * PACKET_BYTES, 12, 0, false);
	sent_is(64, 0, PACKET_BYTES, 0, false);
	sent_is(130, 2 * PACKET_BYTES, 12, 0, false);
	stats_are(link, 131, 131 * PACKET_BYTES - 12, 2, 0);
	close_link(link);
}

/* A full send buffer has an event that ends it, memory that is short has none. */
static void link_send__waits_for_room_as_the_refusal_says(void **state)
{
	static const struct {
		int error;
		uint32_t room_polls, pauses;
	} rows[] = { { EAGAIN, 3, 0 }, { ENOBUFS, 0, 3 }, { ENOMEM, 0, 3 }, { EINTR, 0, 0 } };
	struct link_frame frame = frame_of(3, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct says says[3] = { { .error = rows[i].error },
					{ .error = rows[i].error },
					{ .error = rows[i].error } };
		struct link *link = open_plain();

		many_say(says, 3);
		assert_int_equal(link->ops->send(link, &frame, 1), 0);
		assert_int_equal(kernel.room_polls, rows[i].room_polls);
		assert_int_equal(kernel.pauses, rows[i].pauses);
		stats_are(link, 3, 44, 1, 0);
		assert_int_equal(link_udp_events(link), POLLIN);
		close_link(link);
	}
}

static void link_send__a_second_without_room_drops_it_all(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48), frame_of(2, 64) };
	struct link *link = open_plain();

	(void)state;
	kernel.many.always.error = EAGAIN;
	assert_int_equal(link->ops->send(link, frames, 3), 0);
	assert_int_equal(kernel.room_polls, 10); /* one second for all */
	assert_int_equal(kernel.calls, 10 + 3);
	stats_are(link, 0, 0, 0, 6);
	assert_int_equal(link->ops->send(link, frames, 1), 0); /* has a second of its own */
	assert_int_equal(kernel.room_polls, 20);
	stats_are(link, 0, 0, 0, 9);
	close_link(link);
}

static void link_send__progress_begins_another_second(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48) };
	struct says says[NOTES_MAX] = { { 0 } };
	struct link *link = open_plain();

	(void)state;
	half_way(says);
	many_say(says, 19);
	assert_int_equal(link->ops->send(link, frames, 2), 0);
	assert_int_equal(kernel.room_polls, 18);
	sent_is(0, 0, 44, PACKET_BYTES, false);
	sent_is(1, 48, 12, 0, false);
	stats_are(link, 4, 56, 2, 0);
	close_link(link);
}

/* ---- a device that cannot ---- */

static void link_send__message_that_cannot_be_cut_goes_packet_by_packet(void **state)
{
	static const struct says refused[] = { { .error = EIO } };
	static const struct says busy[] = {
		{ .error = EINTR }, { .error = EAGAIN }, { .takes = 1 }, { .error = ENOBUFS }
	};
	struct link_frame frames[] = { frame_of(3, 0), frame_of(2, 64) };
	struct link *link = open_plain();

	(void)state;
	many_say(refused, 1);
	one_says(busy, 4);
	assert_int_equal(link->ops->send(link, frames, 2), 0);
	assert_int_equal(kernel.room_polls, 1);
	assert_int_equal(kernel.pauses, 1);
	assert_int_equal(kernel.sent_count, 4);
	sent_is(0, 0, PACKET_BYTES, 0, true);
	sent_is(1, PACKET_BYTES, PACKET_BYTES, 0, true);
	sent_is(2, 2 * PACKET_BYTES, 12, 0, true);
	sent_is(3, 64, 28, PACKET_BYTES, false); /* it was collected before */
	stats_are(link, 5, 72, 4, 0);
	assert_int_equal(link->stats.fallbacks, 1);

	assert_int_equal(link->ops->send(link, frames + 1, 1), 0); /* remembered */
	sent_is(4, 64, PACKET_BYTES, 0, false);
	sent_is(5, 80, 12, 0, false);
	assert_int_equal(link->stats.fallbacks, 1);
	close_link(link);
}

/* Room is waited for a second from the last packet that went, not from the first refusal. */
static void link_send__packets_that_go_singly_have_a_second_each(void **state)
{
	static const struct says refused[] = { { .error = EINVAL } };
	struct link_frame frame = frame_of(3, 0);
	struct says says[NOTES_MAX] = { { 0 } };
	struct link *link = open_plain();

	(void)state;
	half_way(says);
	many_say(refused, 1);
	one_says(says, 19);
	assert_int_equal(link->ops->send(link, &frame, 1), 0);
	assert_int_equal(kernel.room_polls, 18);
	stats_are(link, 3, 44, 3, 0);

	kernel.sent_count = 0;
	link->ops->close(link);
	link = open_plain();
	many_say(refused, 1);
	kernel.one.always.error = EAGAIN;
	assert_int_equal(link->ops->send(link, &frame, 1), 0);
	assert_int_equal(kernel.room_polls, 10);
	stats_are(link, 0, 0, 0, 3);
	assert_int_equal(link->stats.fallbacks, 0); /* nothing has shown that it would help */
	close_link(link);
}

/* Some kernels call a packet larger than the path EINVAL, as long as it is to be cut. */
static void link_send__packet_larger_than_the_path_is_told_of_its_peer(void **state)
{
	static const struct says invalid[] = { { .error = EINVAL } };
	static const struct says large[] = { { .takes = 1 }, { .error = EMSGSIZE } };
	static const struct says large_alone[] = { { .error = EMSGSIZE } };
	struct link_frame frames[] = { frame_of(2, 0), frame_of(1, 48) };
	struct link_address other = address_of("10.0.0.3", 10);
	struct link *link = open_plain();

	(void)state;
	frames[1].peer = other;
	many_say(invalid, 1);
	one_says(large, 2);
	assert_int_equal(link->ops->send(link, frames, 2), -EMSGSIZE);
	assert_true(link_address_equal(&link->too_large, &frames[0].peer));
	stats_are(link, 2, 28, 2, 1);
	assert_int_equal(link->stats.fallbacks, 0);

	memset(&kernel.many, 0, sizeof(kernel.many));
	many_say(large_alone, 1);
	assert_int_equal(link->ops->send(link, frames + 1, 1), -EMSGSIZE);
	assert_true(link_address_equal(&link->too_large, &other));
	stats_are(link, 2, 28, 2, 2);
	close_link(link);
}

/* A single packet that is refused so is lost: there is nothing to cut it into. */
static void link_send__refusal_of_a_single_packet_is_a_loss(void **state)
{
	static const int errors[] = { EIO, EINVAL, EPERM };
	struct link_frame frame = frame_of(1, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct says says = { .error = errors[i] };
		struct link *link = open_plain();

		many_say(&says, 1);
		assert_int_equal(link->ops->send(link, &frame, 1), 0);
		assert_int_equal(kernel.sent_count, 0);
		stats_are(link, 0, 0, 0, 1);
		assert_int_equal(link->stats.fallbacks, 0);
		close_link(link);
	}
}

/* ---- offer ---- */

static void link_send__an_offer_leaves_the_wait_to_its_caller(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48), frame_of(2, 64) };
	static const struct says full[] = { { .error = EINTR },
					    { .takes = 1 },
					    { .error = EAGAIN } };
	static const struct says no_memory[] = { { .error = ENOBUFS } };
	struct link *link = open_plain();
	struct link_frame come;
	uint32_t taken = 9;

	(void)state;
	many_say(full, 3);
	assert_int_equal(link->ops->offer(link, frames, 3, &taken), 0);
	assert_int_equal(taken, 1);
	assert_int_equal(link_udp_events(link), POLLIN | POLLOUT);
	assert_int_equal(kernel.room_polls + kernel.pauses, 0);
	kernel.got = -EAGAIN; /* says nothing of room */
	assert_int_equal(link->ops->recv(link, &come, 1), 0);
	kernel.readable_at = kernel.looks + 1;
	assert_int_equal(link->ops->wait(link, kernel.now_ns + ms), LINK_READABLE);
	assert_int_equal(kernel.events, POLLIN | POLLOUT);

	memset(&kernel.many, 0, sizeof(kernel.many));
	many_say(no_memory, 1);
	assert_int_equal(link->ops->offer(link, frames + 1, 2, &taken), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(link_udp_events(link), POLLIN); /* POLLOUT would not tell */
	assert_int_equal(kernel.room_polls + kernel.pauses, 0);

	assert_int_equal(link->ops->offer(link, frames + 1, 2, &taken), 0);
	assert_int_equal(taken, 2);
	assert_int_equal(kernel.sent_count, 3);
	stats_are(link, 6, 84, 2, 0);
	close_link(link);
}

static void link_send__an_offer_goes_on_within_a_frame(void **state)
{
	struct link_udp_options options = { .no_offload = true };
	struct link_frame frames[] = { frame_of(2, 0), frame_of(3, 64) };
	static const struct says full[] = { { .takes = 3 }, { .error = EAGAIN } };
	static const struct says one[] = { { .takes = 1 }, { .error = EAGAIN } };
	struct link *link = open_with(&options);
	uint32_t taken = 9;

	(void)state;
	many_say(full, 2);
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 1);
	assert_int_equal(link->ops->offer(link, frames + 1, 1, &taken), 0);
	assert_int_equal(taken, 1);
	assert_int_equal(kernel.sent_count, 5);
	for (uint32_t i = 0; i < 5; i++)
		sent_is(i, i < 2 ? i * PACKET_BYTES : 64 + (i - 2) * PACKET_BYTES,
			i == 1 || i == 4 ? 12 : PACKET_BYTES, 0, false);
	stats_are(link, 5, 72, 2, 0);

	many_say(one, 2); /* and what is sent after it begins at its own beginning */
	kernel.many.at = 0;
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 0);
	assert_int_equal(link->ops->send(link, frames, 1), 0);
	assert_int_equal(kernel.sent_count, 8);
	sent_is(5, 0, PACKET_BYTES, 0, false);
	sent_is(6, 0, PACKET_BYTES, 0, false);
	sent_is(7, PACKET_BYTES, 12, 0, false);
	close_link(link);
}

static void link_send__an_offer_of_a_second_ago_is_dropped(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(1, 48) };
	struct link *link = open_plain();
	uint32_t taken = 9;

	(void)state;
	kernel.many.always.error = EAGAIN;
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 0);
	kernel.now_ns += 1000 * ms - 1;
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 0);
	kernel.now_ns += 1;
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 2);
	stats_are(link, 0, 0, 0, 4);
	assert_int_equal(kernel.room_polls + kernel.pauses, 0);
	close_link(link);
}

/* The device is found out once: its packets go singly, which may wait, but what follows may not. */
static void link_send__an_offer_waits_only_to_find_the_device_out(void **state)
{
	struct link_frame frames[] = { frame_of(3, 0), frame_of(2, 64) };
	static const struct says says[] = { { .error = EIO }, { .error = EAGAIN } };
	static const struct says busy[] = { { .error = EAGAIN } };
	struct link *link = open_plain();
	uint32_t taken = 9;

	(void)state;
	many_say(says, 2);
	one_says(busy, 1);
	assert_int_equal(link->ops->offer(link, frames, 2, &taken), 0);
	assert_int_equal(taken, 1);
	assert_int_equal(kernel.room_polls, 1);
	assert_int_equal(kernel.sent_count, 3);
	assert_int_equal(link_udp_events(link), POLLIN | POLLOUT);
	close_link(link);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_send__a_run_is_one_message_to_be_cut),
		cmocka_unit_test(link_send__answers_name_the_address_that_was_reached),
		cmocka_unit_test(link_send__more_than_a_call_takes_goes_in_several),
		cmocka_unit_test(link_send__waits_for_room_as_the_refusal_says),
		cmocka_unit_test(link_send__a_second_without_room_drops_it_all),
		cmocka_unit_test(link_send__progress_begins_another_second),
		cmocka_unit_test(link_send__message_that_cannot_be_cut_goes_packet_by_packet),
		cmocka_unit_test(link_send__packets_that_go_singly_have_a_second_each),
		cmocka_unit_test(link_send__packet_larger_than_the_path_is_told_of_its_peer),
		cmocka_unit_test(link_send__refusal_of_a_single_packet_is_a_loss),
		cmocka_unit_test(link_send__an_offer_leaves_the_wait_to_its_caller),
		cmocka_unit_test(link_send__an_offer_goes_on_within_a_frame),
		cmocka_unit_test(link_send__an_offer_of_a_second_ago_is_dropped),
		cmocka_unit_test(link_send__an_offer_waits_only_to_find_the_device_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
