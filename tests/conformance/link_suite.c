/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/link_suite.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
	PACKETS_MAX = 1024, /* of one test */
	ID_BYTES = 4,       /* a packet begins with its number; the rest follows from it */
	FRAMES_MAX = 64,
};

static const uint64_t ms = 1000000;

struct fixture {
	struct link *link[LINK_SUITE_LINKS_MAX];
	uint32_t count;
	uint8_t *bytes; /* one frame to send */
	uint32_t next_id;
	uint32_t sent_bytes[PACKETS_MAX]; /* by id; what becomes of them is in got */
	uint32_t got[PACKETS_MAX];
};

static uint64_t seed;

static uint64_t chance(void)
{
	uint64_t x = seed += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint32_t between(uint32_t least, uint32_t most)
{
	return least + (uint32_t)(chance() % (most - least + 1));
}

static const struct link_factory *factory_of(void **state)
{
	return *state;
}

static void setup(void **state, struct fixture *fixture, uint32_t count)
{
	const struct link_factory *factory = factory_of(state);

	*fixture = (struct fixture){ .count = count };
	fixture->bytes = malloc(LINK_FRAME_BYTES_MAX);
	assert_non_null(fixture->bytes);
	assert_int_equal(factory->open(factory, fixture->link, count), 0);
}

static void teardown(void **state, struct fixture *fixture)
{
	const struct link_factory *factory = factory_of(state);

	for (uint32_t i = 0; i < fixture->count; i++)
		fixture->link[i]->ops->close(fixture->link[i]);
	if (factory->close)
		factory->close(factory);
	free(fixture->bytes);
}

/* ---- packets that know what they should be ---- */

static uint8_t byte_of(uint32_t id, uint32_t at)
{
	return (uint8_t)(id * 31 + at * 7 + (at >> 8));
}

static void packet_write(struct fixture *fixture, uint8_t *at, uint32_t bytes)
{
	uint32_t id = fixture->next_id++;

	assert_true(id < PACKETS_MAX);
	fixture->sent_bytes[id] = bytes;
	memcpy(at, &id, ID_BYTES);
	for (uint32_t i = ID_BYTES; i < bytes; i++)
		at[i] = byte_of(id, i);
}

/* A frame of `count` packets, the last of last_bytes, in the fixture's buffer from `at` on. */
static struct link_frame frame_make(struct fixture *fixture, const struct link *to, uint32_t at,
				    uint32_t count, uint32_t packet_bytes, uint32_t last_bytes)
{
	struct link_frame frame = { .peer = to->local,
				    .packet_bytes = packet_bytes,
				    .count = count,
				    .bytes = (count - 1) * packet_bytes + last_bytes,
				    .data = fixture->bytes + at };

	assert_true(at + frame.bytes <= LINK_FRAME_BYTES_MAX);
	for (uint32_t i = 0; i < count; i++)
		packet_write(fixture, frame.data + i * packet_bytes,
			     i + 1 < count ? packet_bytes : last_bytes);
	return frame;
}

static void packet_check(struct fixture *fixture, const uint8_t *at, uint32_t bytes)
{
	uint32_t id;

	assert_true(bytes >= ID_BYTES);
	memcpy(&id, at, ID_BYTES);
	assert_true(id < fixture->next_id);
	assert_int_equal(bytes, fixture->sent_bytes[id]);
	for (uint32_t i = ID_BYTES; i < bytes; i++) {
		if (at[i] != byte_of(id, i))
			fail_msg("packet %u of %u bytes differs at %u", id, bytes, i);
	}
	fixture->got[id]++;
}

/* Checks every packet of the frame; the number of packets. */
static uint32_t frame_check(struct fixture *fixture, const struct link_frame *frame)
{
	assert_true(frame->count > 0);
	assert_true(frame->bytes > (frame->count - 1) * frame->packet_bytes);
	assert_true(frame->bytes <= frame->count * frame->packet_bytes);
	assert_int_equal((uintptr_t)frame->data % 4, 0);
	for (uint32_t i = 0; i < frame->count; i++)
		packet_check(fixture, frame->data + i * frame->packet_bytes,
			     link_packet_bytes(frame, i * frame->packet_bytes));
	return frame->count;
}

/* Receives and checks `count` packets that come from `from`. */
static void collect(struct fixture *fixture, struct link *at, const struct link *from,
		    uint32_t count)
{
	uint64_t end = at->ops->now_ns(at) + 5000 * ms;
	struct link_frame frames[FRAMES_MAX];
	uint32_t got = 0;

	while (got < count) {
		int taken = at->ops->recv(at, frames, FRAMES_MAX);

		assert_true(taken >= 0);
		for (int i = 0; i < taken; i++) {
			assert_true(link_address_equal(&frames[i].peer, &from->local));
			got += frame_check(fixture, &frames[i]);
		}
		if (!taken && got < count && at->ops->wait(at, end) == LINK_TIME)
			fail_msg("%u of %u packets came", got, count);
	}
	assert_int_equal(got, count);
}

static void assert_each_came_once(const struct fixture *fixture)
{
	for (uint32_t id = 0; id < fixture->next_id; id++)
		assert_int_equal(fixture->got[id], 1);
}

static void assert_nothing_there(struct link *link)
{
	struct link_frame frame;

	assert_int_equal(link->ops->wait(link, link->ops->now_ns(link) + 2 * ms), LINK_TIME);
	assert_int_equal(link->ops->recv(link, &frame, 1), 0);
}

static void send_all(struct link *link, const struct link_frame *frames, uint32_t count)
{
	assert_int_equal(link->ops->send(link, frames, count), 0);
}

/* ---- the tests ---- */

static void link__packet_arrives_whole_with_its_senders_address(void **state)
{
	struct fixture f;
	struct link_frame frame;

	setup(state, &f, 2);
	for (uint32_t bytes = 4; bytes <= 1464; bytes += 292) {
		frame = frame_make(&f, f.link[1], 0, 1, bytes, bytes);
		send_all(f.link[0], &frame, 1);
		collect(&f, f.link[1], f.link[0], 1);
	}
	assert_nothing_there(f.link[1]);
	assert_nothing_there(f.link[0]);
	teardown(state, &f);
}

static void link__run_of_packets_arrives_as_the_same_packets(void **state)
{
	static const struct {
		uint32_t count, packet_bytes, last_bytes;
	} runs[] = { { 2, 24, 24 },      { 64, 24, 24 },  { 40, 1464, 1464 },
		     { 40, 1464, 1460 }, { 3, 1464, 28 }, { 64, 1020, 4 } };
	struct fixture f;

	setup(state, &f, 2);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct link_frame frame = frame_make(&f, f.link[1], 0, runs[i].count,
						     runs[i].packet_bytes, runs[i].last_bytes);

		send_all(f.link[0], &frame, 1);
		collect(&f, f.link[1], f.link[0], runs[i].count);
	}
	assert_each_came_once(&f);
	assert_nothing_there(f.link[1]);
	teardown(state, &f);
}

static void link__largest_packet_passes(void **state)
{
	uint32_t bytes = factory_of(state)->packet_bytes_max;
	struct fixture f;
	struct link_frame frame;

	setup(state, &f, 2);
	frame = frame_make(&f, f.link[1], 0, 1, bytes, bytes);
	send_all(f.link[0], &frame, 1);
	collect(&f, f.link[1], f.link[0], 1);
	teardown(state, &f);
}

static void link__same_bytes_reach_several_peers_in_one_call(void **state)
{
	struct link_frame frames[LINK_SUITE_LINKS_MAX - 1];
	struct fixture f;

	setup(state, &f, LINK_SUITE_LINKS_MAX);
	frames[0] = frame_make(&f, f.link[1], 0, 30, 1464, 1464);
	for (uint32_t i = 1; i < LINK_SUITE_LINKS_MAX - 1; i++) {
		frames[i] = frames[0];
		frames[i].peer = f.link[i + 1]->local;
	}
	send_all(f.link[0], frames, LINK_SUITE_LINKS_MAX - 1);
	for (uint32_t i = 1; i < LINK_SUITE_LINKS_MAX; i++)
		collect(&f, f.link[i], f.link[0], 30);
	for (uint32_t id = 0; id < f.next_id; id++)
		assert_int_equal(f.got[id], LINK_SUITE_LINKS_MAX - 1);
	teardown(state, &f);
}

static void link__many_frames_in_one_call_all_arrive(void **state)
{
	static struct link_frame frames[300];
	uint32_t count = sizeof(frames) / sizeof(frames[0]);
	struct fixture f;

	setup(state, &f, 2);
	for (uint32_t i = 0; i < count; i++)
		frames[i] = frame_make(&f, f.link[1], i * 48, 1 + i % 2, 24, 24);
	send_all(f.link[0], frames, count);
	collect(&f, f.link[1], f.link[0], f.next_id);
	assert_each_came_once(&f);
	teardown(state, &f);
}

static void link__sent_bytes_are_the_callers_again_on_return(void **state)
{
	struct fixture f;
	struct link_frame frame;

	setup(state, &f, 2);
	frame = frame_make(&f, f.link[1], 0, 20, 1464, 1464);
	send_all(f.link[0], &frame, 1);
	memset(f.bytes, 0xee, LINK_FRAME_BYTES_MAX);
	collect(&f, f.link[1], f.link[0], 20);
	teardown(state, &f);
}

static void link__received_bytes_stay_until_the_next_recv_or_wait(void **state)
{
	struct link_frame out, in[FRAMES_MAX];
	struct fixture f;
	int taken;

	setup(state, &f, 2);
	out = frame_make(&f, f.link[1], 0, 1, 1464, 1464);
	send_all(f.link[0], &out, 1);
	assert_int_equal(f.link[1]->ops->wait(f.link[1],
					      f.link[1]->ops->now_ns(f.link[1]) + 5000 * ms),
			 LINK_READABLE);
	taken = f.link[1]->ops->recv(f.link[1], in, FRAMES_MAX);
	assert_int_equal(taken, 1);

	out = frame_make(&f, f.link[1], 0, 1, 1464,
			 1464); /* another comes while the first is lent */
	send_all(f.link[0], &out, 1);
	f.link[0]->ops->wait(f.link[0], f.link[0]->ops->now_ns(f.link[0]) + 2 * ms);
	frame_check(&f, &in[0]);
	memset(in[0].data, 0xee, in[0].bytes); /* lent bytes may be written */
	collect(&f, f.link[1], f.link[0], 1);
	assert_each_came_once(&f);
	teardown(state, &f);
}

static void link__what_was_received_can_be_sent_on_in_place(void **state)
{
	struct link_frame out, in[FRAMES_MAX];
	struct fixture f;
	int taken;

	setup(state, &f, 3);
	out = frame_make(&f, f.link[1], 0, 1, 1464, 1464);
	send_all(f.link[0], &out, 1);
	assert_int_equal(f.link[1]->ops->wait(f.link[1],
					      f.link[1]->ops->now_ns(f.link[1]) + 5000 * ms),
			 LINK_READABLE);
	taken = f.link[1]->ops->recv(f.link[1], in, FRAMES_MAX);
	assert_int_equal(taken, 1);
	in[0].peer = f.link[2]->local;
	send_all(f.link[1], in, 1);
	collect(&f, f.link[2], f.link[1], 1);
	teardown(state, &f);
}

static void link__recv_takes_no_more_frames_than_asked_for(void **state)
{
	struct link_frame out, in[2];
	uint32_t got = 0;
	struct fixture f;

	setup(state, &f, 2);
	for (uint32_t i = 0; i < 8; i++) { /* sizes that no link can put together */
		out = frame_make(&f, f.link[1], 0, 1, 64 + 100 * i, 64 + 100 * i);
		send_all(f.link[0], &out, 1);
	}
	while (got < 8) {
		int taken = f.link[1]->ops->recv(f.link[1], in, 1);

		assert_true(taken >= 0);
		assert_true(taken <= 1);
		if (taken)
			got += frame_check(&f, &in[0]);
		else if (f.link[1]->ops->wait(f.link[1], f.link[1]->ops->now_ns(f.link[1]) +
								 5000 * ms) == LINK_TIME)
			fail_msg("%u of 8 packets came", got);
	}
	assert_each_came_once(&f);
	teardown(state, &f);
}

static void link__recv_without_traffic_returns_at_once(void **state)
{
	struct link_frame frames[FRAMES_MAX];
	struct fixture f;
	uint64_t start;

	setup(state, &f, 1);
	start = f.link[0]->ops->now_ns(f.link[0]);
	assert_int_equal(f.link[0]->ops->recv(f.link[0], frames, FRAMES_MAX), 0);
	assert_true(f.link[0]->ops->now_ns(f.link[0]) - start < 500 * ms);
	teardown(state, &f);
}

static void link__wait_ends_at_its_time_and_not_before(void **state)
{
	struct fixture f;
	struct link *link;
	uint64_t start, end;

	setup(state, &f, 1);
	link = f.link[0];
	for (uint64_t wait = 0; wait <= 4 * ms; wait += ms) {
		start = link->ops->now_ns(link);
		assert_int_equal(link->ops->wait(link, start + wait), LINK_TIME);
		end = link->ops->now_ns(link);
		assert_true(end >= start + wait);
		assert_true(end - start < wait + 2000 * ms);
	}
	teardown(state, &f);
}

static void link__wait_of_zero_looks_and_returns(void **state)
{
	struct fixture f;
	struct link_frame frame;
	uint64_t end;

	setup(state, &f, 2);
	assert_int_equal(f.link[1]->ops->wait(f.link[1], 0), LINK_TIME);
	frame = frame_make(&f, f.link[1], 0, 1, 64, 64);
	send_all(f.link[0], &frame, 1);
	end = f.link[1]->ops->now_ns(f.link[1]) + 5000 * ms;
	assert_int_equal(f.link[1]->ops->wait(f.link[1], end), LINK_READABLE);
	assert_int_equal(f.link[1]->ops->wait(f.link[1], 0), LINK_READABLE);
	collect(&f, f.link[1], f.link[0], 1);
	assert_int_equal(f.link[1]->ops->wait(f.link[1], 0), LINK_TIME);
	teardown(state, &f);
}

static void link__wake_ends_one_wait(void **state)
{
	struct fixture f;
	struct link *link;

	setup(state, &f, 1);
	link = f.link[0];
	for (int i = 0; i < 3; i++) {
		uint64_t start = link->ops->now_ns(link);

		link->ops->wake(link);
		link->ops->wake(link); /* before anybody waits, two are one */
		assert_int_equal(link->ops->wait(link, start + 5000 * ms), LINK_WOKEN);
		assert_true(link->ops->now_ns(link) < start + 4000 * ms);
		assert_int_equal(link->ops->wait(link, link->ops->now_ns(link) + 2 * ms),
				 LINK_TIME);
	}
	teardown(state, &f);
}

static void *wake_later(void *link_given)
{
	const struct timespec later = { .tv_nsec = 20000000 };
	struct link *link = link_given;

	nanosleep(&later, NULL);
	link->ops->wake(link);
	return NULL;
}

static void link__wake_from_another_thread_ends_a_wait(void **state)
{
	struct fixture f;
	pthread_t thread;
	uint64_t start;

	if (!factory_of(state)->has_threads)
		return; /* nobody else is there to wake it */
	setup(state, &f, 1);
	start = f.link[0]->ops->now_ns(f.link[0]);
	assert_int_equal(pthread_create(&thread, NULL, wake_later, f.link[0]), 0);
	assert_int_equal(f.link[0]->ops->wait(f.link[0], start + 20000 * ms), LINK_WOKEN);
	assert_true(f.link[0]->ops->now_ns(f.link[0]) < start + 15000 * ms);
	pthread_join(thread, NULL);
	teardown(state, &f);
}

static void link__counts_packets_and_bytes(void **state)
{
	struct fixture f;
	struct link_frame frame;

	setup(state, &f, 2);
	frame = frame_make(&f, f.link[1], 0, 10, 1464, 28);
	send_all(f.link[0], &frame, 1);
	collect(&f, f.link[1], f.link[0], 10);
	assert_int_equal(f.link[0]->stats.packets_out, 10);
	assert_int_equal(f.link[0]->stats.bytes_out, 9 * 1464 + 28);
	assert_int_equal(f.link[0]->stats.send_errors, 0);
	assert_int_equal(f.link[1]->stats.packets_in, 10);
	assert_int_equal(f.link[1]->stats.bytes_in, 9 * 1464 + 28);
	assert_int_equal(f.link[1]->stats.packets_out, 0);
	teardown(state, &f);
}

static void link__any_mix_of_frames_arrives_exactly_once(void **state)
{
	struct fixture f;

	for (int turn = 0; turn < 20; turn++) {
		uint32_t count[2] = { 0, 0 };

		setup(state, &f, 2);
		while (f.next_id < 100) { /* at most 165 packets, of 1,600 bytes */
			uint32_t to = between(0, 1), bytes = 4 * between(1, 400);
			uint32_t run = between(1, LINK_FRAME_BYTES_MAX / bytes);
			struct link_frame frame;

			if (run > LINK_FRAME_PACKETS_MAX)
				run = LINK_FRAME_PACKETS_MAX;
			frame = frame_make(&f, f.link[to], 0, run, bytes,
					   4 * between(1, bytes / 4));
			send_all(f.link[!to], &frame, 1);
			count[to] += run;
		}
		collect(&f, f.link[0], f.link[1], count[0]);
		collect(&f, f.link[1], f.link[0], count[1]);
		assert_each_came_once(&f);
		teardown(state, &f);
	}
}

int link_suite_run(const struct link_factory *factory)
{
	struct CMUnitTest tests[] = {
		cmocka_unit_test(link__packet_arrives_whole_with_its_senders_address),
		cmocka_unit_test(link__run_of_packets_arrives_as_the_same_packets),
		cmocka_unit_test(link__largest_packet_passes),
		cmocka_unit_test(link__same_bytes_reach_several_peers_in_one_call),
		cmocka_unit_test(link__many_frames_in_one_call_all_arrive),
		cmocka_unit_test(link__sent_bytes_are_the_callers_again_on_return),
		cmocka_unit_test(link__received_bytes_stay_until_the_next_recv_or_wait),
		cmocka_unit_test(link__what_was_received_can_be_sent_on_in_place),
		cmocka_unit_test(link__recv_takes_no_more_frames_than_asked_for),
		cmocka_unit_test(link__recv_without_traffic_returns_at_once),
		cmocka_unit_test(link__wait_ends_at_its_time_and_not_before),
		cmocka_unit_test(link__wait_of_zero_looks_and_returns),
		cmocka_unit_test(link__wake_ends_one_wait),
		cmocka_unit_test(link__wake_from_another_thread_ends_a_wait),
		cmocka_unit_test(link__counts_packets_and_bytes),
		cmocka_unit_test(link__any_mix_of_frames_arrives_exactly_once),
	};
	const char *given = getenv("TALLY_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	printf("links by %s, seed %llu (TALLY_TEST_SEED)\n", factory->name,
	       (unsigned long long)seed);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		void *state;

		memcpy(&state, &factory, sizeof(state)); /* the suite reads it only */
		tests[i].initial_state = state;
	}
	return _cmocka_run_group_tests(factory->name, tests, sizeof(tests) / sizeof(tests[0]), NULL,
				       NULL);
}
