/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_refused_test.c - of the numbers that judge (docs/protocol.md), all but one are right: the packet changes
 * nothing, is counted, and is told of.
 */
#include "dataplane/engine_fixture.h"

static const uint64_t ms = 1000000;

static uint64_t counted(enum engine_refusal refusal)
{
	const struct engine_stats *stats = engine_stats(engine);

	switch (refusal) {
	case ENGINE_REFUSED_ADDRESS:
		return stats->verdict[SWITCH_DROP_ADDRESS];
	case ENGINE_REFUSED_GENERATION:
		return stats->verdict[SWITCH_DROP_GENERATION];
	default:
		return stats->hello_unknown;
	}
}

/* It has `count` of them, the last from `host`. */
static void assert_told(enum engine_refusal refusal, uint32_t host, uint32_t count)
{
	struct link_address peer = address_of(host);
	struct engine_event event = { .count = 0 };

	assert_int_equal(engine_events(engine, &event, 1), 1);
	assert_int_equal(event.type, ENGINE_REFUSED);
	assert_int_equal(event.refusal, refusal);
	assert_int_equal(event.count, count);
	assert_int_equal(event.job, JOB);
	assert_int_equal(event.child, 0);
	assert_true(link_address_equal(&event.address, &peer));
	assert_int_equal(engine_events(engine, &event, 1), 0);
}

static void assert_refused(uint32_t host, const struct wire *wire, enum engine_refusal refusal)
{
	uint64_t before = counted(refusal);

	fake.now_ns += 1000 * ms;
	give(host, wire);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(counted(refusal), before + 1);
	assert_told(refusal, host, 1);
}

static void assert_judged(struct wire packet)
{
	assert_refused(STRANGER_HOST, &packet, ENGINE_REFUSED_ADDRESS);
	assert_refused(1, &packet, ENGINE_REFUSED_ADDRESS); /* a sibling's is another's, too */
	for (uint32_t bit = 0; bit < 32; bit++) {
		packet.generation ^= 1u << bit;
		assert_refused(0, &packet, ENGINE_REFUSED_GENERATION);
		packet.generation ^= 1u << bit;
	}
}

static void refused__dense_packets_of_which_one_number_is_wrong(void **state)
{
	struct switch_slot before, after;

	(void)state;
	assert_int_equal(engine_slot_read(engine, JOB, 5, &before), 0);
	assert_judged(update_of(0, 5, 1));
	assert_judged(probe_of(0, 5, 1));
	assert_int_equal(engine_slot_read(engine, JOB, 5, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_sound_packets_still_served();
}

static int setup_latency(void **state)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = 2,
				     .mode = SWITCH_LATENCY_ACKNOWLEDGED,
				     .slots = SLOTS,
				     .lanes_max = LANES,
				     .nonces = nonces };

	if (setup_engine(state))
		return 1;
	job_start(JOB, &config);
	return 0;
}

/* An ACK counts once the round is complete: then one more of both would free the slot. */
static void refused__latency_packets_of_which_one_number_is_wrong(void **state)
{
	struct switch_latency_slot before, after;
	struct wire ack = probe_of(0, 5, 1);

	(void)state;
	ack.type = WIRE_ACK;
	assert_judged(update_of(0, 5, 1));
	round_give(5, 1);
	assert_int_equal(fake.answers_count, 2);
	assert_int_equal(engine_latency_slot_read(engine, JOB, 5, &before), 0);
	assert_judged(ack);
	assert_int_equal(engine_latency_slot_read(engine, JOB, 5, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	give(0, &ack);
	poll_once();
	assert_int_equal(engine_latency_slot_read(engine, JOB, 5, &after), 0);
	assert_memory_not_equal(&before, &after, sizeof(before)); /* the right one does */
}

static void hello_give(uint32_t host, uint32_t wrong_bit)
{
	struct link_address peer = address_of(host);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	uint32_t length = hello_write(bytes, 0, 1, WIRE_HELLO_LANES);

	bytes[WIRE_HEADER_BYTES + wrong_bit / 8] ^= (uint8_t)(1u << wrong_bit % 8);
	give_bytes(&peer, bytes, 1, length, length);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
}

static void refused__hello_of_which_one_bit_is_wrong(void **state)
{
	(void)state;
	for (uint32_t bit = 0; bit < 8 * WIRE_NONCE_BYTES; bit++) {
		fake.now_ns += 1000 * ms;
		hello_give(STRANGER_HOST, bit);
		assert_told(ENGINE_REFUSED_NONCE, STRANGER_HOST, 1);
	}
	assert_true(is_bound_to_host(0));
}

static void hello_old_from(uint32_t host, uint32_t serial, uint8_t wrong)
{
	struct link_address peer = address_of(host);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	uint32_t length = hello_write(bytes, 0, serial, WIRE_HELLO_LANES);

	bytes[WIRE_HEADER_BYTES] ^= wrong;
	fake.now_ns += 1000 * ms;
	give_bytes(&peer, bytes, 1, length, length);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
}

/* Two HELLOs of a rank may come the other way round. The same from elsewhere has been recorded, and whoever has made the
 * serial leap is not the rank. */
static void refused__hello_that_a_later_one_has_passed_is_counted_alone(void **state)
{
	struct engine_event event;

	(void)state;
	assert_int_equal(hello_from(0, 19), 1);
	while (engine_events(engine, &event, 1))
		;
	hello_old_from(0, 18, 0);
	hello_old_from(0, 3, 0);
	assert_int_equal(counted(ENGINE_REFUSED_NONCE), 2);
	assert_int_equal(engine_events(engine, &event, 1), 0);
	hello_old_from(STRANGER_HOST, 18, 0);
	assert_told(ENGINE_REFUSED_NONCE, STRANGER_HOST, 1);
	hello_old_from(0, 2, 0);
	assert_told(ENGINE_REFUSED_NONCE, 0, 1);
	hello_old_from(0, 18, 1); /* its address alone is no proof */
	assert_told(ENGINE_REFUSED_NONCE, 0, 1);
	assert_int_equal(counted(ENGINE_REFUSED_NONCE), 5);
	assert_true(is_bound_to_host(0));
}

/* A flood is one line a second, and none of it is left out; what its last second had is told though nothing comes. */
static void refused__are_told_once_a_second_and_all_of_them(void **state)
{
	struct wire packet = update_of(0, 5, 1);
	struct engine_event event;
	uint32_t told = 0, lines = 0;

	(void)state;
	packet.generation++;
	for (uint32_t i = 0; i < 5000; i++, fake.now_ns += ms) {
		give(0, &packet);
		poll_once();
		for (; engine_events(engine, &event, 1); lines++)
			told += event.count;
	}
	assert_int_equal(lines, 5);
	assert_int_equal(told, 4001);
	fake.now_ns += 1000 * ms;
	assert_false(engine_poll(engine));
	assert_told(ENGINE_REFUSED_GENERATION, 0, 999);
	fake.now_ns += 1000 * ms;
	assert_false(engine_poll(engine));
	assert_int_equal(engine_events(engine, &event, 1), 0);
}

/* Events that nobody fetches leave no room in the end: what was refused then is told when there is some. */
static void refused__are_kept_until_there_is_room_to_tell(void **state)
{
	struct wire packet = update_of(0, 5, 1);
	uint32_t given = 2000, told = 0;
	struct engine_event event;

	(void)state;
	packet.generation++;
	for (uint32_t i = 0; i < given; i++, fake.now_ns += 1000 * ms) {
		give(0, &packet);
		poll_once();
	}
	assert_true(engine_stats(engine)->events_lost > 0);
	while (engine_events(engine, &event, 1))
		told += event.count;
	assert_true(told < given);
	assert_false(engine_poll(engine));
	while (engine_events(engine, &event, 1))
		told += event.count;
	assert_int_equal(told, given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(refused__dense_packets_of_which_one_number_is_wrong, setup),
		ENGINE_TEST(refused__latency_packets_of_which_one_number_is_wrong, setup_latency),
		ENGINE_TEST(refused__hello_of_which_one_bit_is_wrong, setup),
		ENGINE_TEST(refused__hello_that_a_later_one_has_passed_is_counted_alone, setup),
		ENGINE_TEST(refused__are_told_once_a_second_and_all_of_them, setup),
		ENGINE_TEST(refused__are_kept_until_there_is_room_to_tell, setup),
	};

	return cmocka_run_group_tests_name("engine_refused", tests, NULL, NULL);
}
