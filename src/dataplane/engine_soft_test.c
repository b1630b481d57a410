/* SPDX-License-Identifier: Apache-2.0 */
/* engine_soft_test.c - packets that an engine drops, what it tells its owner, and any bytes at all. */
#include "dataplane/engine_fixture.h"

#include <stdio.h>
#include <time.h>

#include "util/rng.h"

/* ---- bad input ---- */

static void engine__packet_shorter_than_a_header_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	uint8_t bytes[WIRE_HEADER_BYTES];
	struct wire probe = probe_of(0, 0, 1);

	(void)state;
	packet_write(bytes, &probe, 0);
	for (uint32_t length = 0; length < WIRE_HEADER_BYTES; length++) {
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_SHORT], length + 1);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_of_another_version_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	struct wire probe = probe_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES];
	uint64_t dropped = 0;

	(void)state;
	packet_write(bytes, &probe, 0);
	for (uint32_t version = 0; version < 16; version++) {
		if (version == WIRE_VERSION)
			continue;
		bytes[0] = (uint8_t)(version << 4 | WIRE_PROBE);
		give_bytes(&peer, bytes, 1, sizeof(bytes), sizeof(bytes));
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_VERSION], ++dropped);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_of_an_unknown_type_is_dropped(void **state)
{
	(void)state;
	for (uint8_t type = 0; type < 16; type++) {
		struct wire packet = probe_of(0, 0, 1);

		packet.type = type;
		if (type == 0 || type >= WIRE_TYPE_END)
			assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_TYPE]);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_that_a_child_does_not_send_is_dropped(void **state)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_HELD,    WIRE_NEED,
					 WIRE_ACK,    WIRE_CONFIRM, WIRE_WELCOME };

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		struct wire packet = probe_of(0, 0, 1);

		packet.type = types[i];
		packet.lanes = packet.type == WIRE_WELCOME ? WIRE_HELLO_LANES : 0;
		assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_TYPE]);
	}
	assert_sound_packets_still_served();
}

static void engine__packet_with_impossible_lanes_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.lanes = 6; /* not a multiple of 4 */
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	packet = probe_of(0, 0, 1); /* has none */
	packet.lanes = 4;
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	packet = update_of(0, 0, 1);
	packet.flags = WIRE_EXPONENT; /* has none */
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_LANES]);
	assert_sound_packets_still_served();
}

static void engine__packet_whose_length_and_lanes_disagree_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	struct wire packet = update_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * LANES + 4] = { 0 };
	uint32_t length = packet_write(bytes, &packet, 0);
	uint64_t dropped = 0;

	(void)state;
	for (uint32_t other = WIRE_HEADER_BYTES; other <= sizeof(bytes); other++) {
		if (other == length)
			continue;
		give_bytes(&peer, bytes, 1, other, other);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_LENGTH], ++dropped);
	}
	assert_sound_packets_still_served();
}

/* The only flag that is wrong by itself, in what no child sends at all. */
static void engine__result_that_is_bare_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.type = WIRE_RESULT;
	packet.flags = WIRE_BARE;
	assert_dropped(0, &packet, &engine_stats(engine)->fault[WIRE_FAULT_FLAGS]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_an_unknown_or_disabled_job_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);
	const uint64_t *counter = &engine_stats(engine)->verdict[SWITCH_DROP_JOB];

	(void)state;
	packet.job = JOB + 1;
	assert_dropped(0, &packet, counter);
	packet.job = SWITCH_JOBS_MAX;
	assert_dropped(0, &packet, counter);
	packet.job = UINT16_MAX;
	assert_dropped(0, &packet, counter);
	packet.generation = 0;
	assert_dropped(0, &packet, counter);

	packet = update_of(0, 0, 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	assert_dropped(0, &packet, counter);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	assert_sound_packets_still_served();
}

static void engine__packet_of_another_generation_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.generation = GENERATION - 1;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	packet.generation = 0;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_child_out_of_range_is_dropped(void **state)
{
	struct wire packet = update_of(2, 0, 1);

	(void)state;
	assert_dropped(2, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_CHILD]);
	packet.child = UINT16_MAX;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_CHILD]);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_slot_out_of_range_is_dropped(void **state)
{
	struct wire packet = update_of(0, SLOTS, 1);

	(void)state;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_SLOT]);
	packet.slot = UINT16_MAX;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_SLOT]);
	assert_sound_packets_still_served();
}

static void engine__packet_with_more_lanes_than_started_is_dropped(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES - 4, true), 0);
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_LANES]);
	packet.lanes = 1000;
	assert_dropped(0, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_LANES]);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	assert_sound_packets_still_served();
}

static void engine__packet_from_a_strangers_address_is_dropped(void **state)
{
	struct link_address other_port = address_of(0);
	struct wire packet = update_of(0, 0, 1), probe = probe_of(0, 0, 1);
	uint8_t bytes[WIRE_HEADER_BYTES];
	const uint64_t *counter = &engine_stats(engine)->verdict[SWITCH_DROP_ADDRESS];

	(void)state;
	assert_dropped(STRANGER_HOST, &packet, counter);
	assert_dropped(STRANGER_HOST, &probe, counter);
	assert_dropped(1, &packet, counter); /* another child's */
	other_port.port++;
	packet_write(bytes, &probe, 0);
	give_bytes(&other_port, bytes, 1, sizeof(bytes), sizeof(bytes));
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(*counter, 4);
	assert_sound_packets_still_served();
}

static void engine__packet_of_a_child_that_is_not_bound_is_dropped(void **state)
{
	struct engine_job config = {
		.generation = GENERATION, .children = 1, .slots = 1, .lanes_max = LANES
	};
	struct link_address nobody = { .port = 0 };
	uint8_t bytes[WIRE_HEADER_BYTES];
	struct wire probe = probe_of(0, 0, 1);

	(void)state;
	assert_int_equal(engine_job_add(engine, 0, &config), 0);
	assert_int_equal(engine_job_set(engine, 0, GENERATION, LANES, true), 0);
	probe.job = 0;
	packet_write(bytes, &probe, 0);
	give_bytes(&nobody, bytes, 1, sizeof(bytes),
		   sizeof(bytes)); /* what an unbound child holds */
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_DROP_ADDRESS], 1);
}

static void engine__bad_packets_in_a_frame_do_not_hurt_their_neighbours(void **state)
{
	uint8_t bytes[5 * (WIRE_HEADER_BYTES + 4 * LANES)];
	uint32_t length = wire_bytes(LANES);
	struct link_address peer = address_of(0);
	struct wire packet;

	(void)state;
	for (uint16_t i = 0; i < 5; i++) {
		packet = update_of(0, i, 1);
		packet_write(bytes + i * length, &packet, 0);
	}
	bytes[1 * length] = 0xff;      /* version and type */
	bytes[3 * length + 12] = 0xff; /* slot */
	give_bytes(&peer, bytes, 5, length, sizeof(bytes));
	give_run(1, update_of(1, 0, 1), 5);
	poll_once();
	assert_int_equal(fake.answers_count, 2 * 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_answer(i, 0, WIRE_RESULT, 2 * i, 1);
	assert_sum_of_children(0, 2);
}

static void engine__packet_that_lies_askew_behind_odd_ones_is_served(void **state)
{
	struct link_address peer = address_of(0);
	struct wire packet = update_of(0, 0, 1);
	uint32_t length = wire_bytes(LANES);

	(void)state;
	for (uint32_t more = 1; more < 8; more++) {
		uint32_t all = 3 * (length + more) + length;
		uint8_t *bytes = calloc(1, all);

		packet.slot = (uint16_t)more;
		packet_write(bytes + 3 * (length + more), &packet, 0);
		give_bytes(&peer, bytes, 4, length + more, all);
		free(bytes);
		packet.child = 1;
		give(1, &packet);
		packet.child = 0;
		poll_once();
		assert_int_equal(fake.answers_count, 2);
		assert_sum_of_children(0, 2);
	}
	assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_VERSION], 7 * 3);
}

/* ---- events ---- */

static void give_mismatch(void)
{
	struct wire packet = update_of(0, 0, 1);

	give(0, &packet);
	packet.child = 1;
	packet.tag++;
	for (uint32_t i = 0; i < 20; i++)
		give(1, &packet);
	poll_once();
}

static void engine__mismatch_is_told_once_until_fetched_and_never_answered(void **state)
{
	struct engine_event events[8];

	(void)state;
	for (int turn = 0; turn < 2; turn++) {
		give_mismatch();
		assert_int_equal(fake.answers_count, turn); /* child 0's second copy is HELD */
		assert_int_equal(events_but_misfits(events, 8), 1);
		assert_int_equal(events[0].type, ENGINE_MISMATCH);
		assert_int_equal(events[0].job, JOB);
		assert_int_equal(events[0].child, 1);
		assert_int_equal(events[0].other, 0);
		assert_int_equal(events[0].slot, 0);
		assert_int_equal(events[0].seq, 1);
		assert_int_equal(engine_events(engine, events, 8), 0);
	}
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MISMATCH], 40);
	assert_int_equal(engine_stats(engine)->events_lost, 0);
}

static void engine__alarm_is_told_once_until_fetched_and_never_answered(void **state)
{
	struct engine_event events[8];
	struct wire packet = update_of(1, 4, 1);

	(void)state;
	give(1, &packet);
	poll_once();
	packet.seq = 2; /* child 1 cannot have a result yet */
	for (uint32_t i = 0; i < 20; i++)
		give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_DROP_ALARM], 20);
	assert_int_equal(events_but_misfits(events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_ALARM);
	assert_int_equal(events[0].child, 1);
	assert_int_equal(events[0].slot, 4);
	assert_int_equal(events[0].seq, 2);
}

/* Each kind from child 1's own address, `times`, and then what the engine tells of it. */
static void assert_misfit(struct wire packet, uint32_t bytes, uint32_t times, enum misfit misfit)
{
	static uint32_t before;
	struct engine_event event;
	uint32_t told = 0;

	if (!engine_stats(engine)->packets_in)
		before = 0;
	for (uint32_t i = 0; i < times; i++) {
		give_cut(1, &packet, bytes);
		poll_once();
	}
	while (engine_events(engine, &event, 1)) {
		if (event.type != ENGINE_MISFIT)
			continue;
		assert_int_equal(event.child, 1);
		assert_int_equal(event.misfit, misfit);
		assert_int_equal(event.count & (event.count - 1), 0);
		assert_in_range(event.count, before + 1, before + times);
		told++;
	}
	before += times;
	for (uint32_t count = before - times + 1; count <= before; count++)
		told -= !(count & (count - 1));
	assert_int_equal(told, 0);
}

static void engine__what_no_sound_child_sends_is_counted_by_child(void **state)
{
	struct wire packet = update_of(1, 0, 1);
	uint32_t bytes = wire_bytes(packet.lanes);

	(void)state;
	packet.lanes -= 1;
	assert_misfit(packet, bytes - 4, 20, MISFIT_LANES);
	packet.lanes += 1;
	assert_misfit(packet, bytes - 8, 20, MISFIT_LENGTH);
	packet.type = WIRE_RESULT;
	packet.flags = WIRE_BARE;
	assert_misfit(packet, bytes, 30, MISFIT_FLAGS);
	packet = update_of(1, 0, 1);
	packet.slot = 0xffff;
	assert_misfit(packet, bytes, 70, MISFIT_SLOT);
	packet = update_of(0, 5, 1);
	give(0, &packet);
	packet = update_of(1, 5, 1);
	packet.tag++; /* another round than its sibling's */
	assert_misfit(packet, bytes, 120, MISFIT_DIFFERS);
	packet = update_of(1, 0, 7);
	assert_misfit(packet, bytes, 0, MISFIT_NONE);
	packet.generation++; /* of another life: it may only be late */
	give(1, &packet);
	packet.generation--;
	packet.child = 0; /* not its own name */
	packet.slot = 0xffff;
	give(1, &packet);
	poll_once();
	assert_misfit(update_of(1, 0, 1), bytes, 0, MISFIT_NONE);
}

static void engine__path_that_has_become_too_narrow_is_told_once_until_fetched(void **state)
{
	struct engine_event events[8];

	(void)state;
	fake.is_narrow = true;
	for (uint16_t slot = 0; slot < 5; slot++)
		round_give(slot, 1);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_TOO_LARGE);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 1);
	round_give(6, 1);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	round_give(7, 1);
	assert_int_equal(engine_events(engine, events, 8), 0);
}

static void engine__broken_link_is_told_and_not_asked_again(void **state)
{
	(void)state;
	assert_int_equal(engine_fault(engine), 0);
	fake.broken = -EBADF;
	assert_false(engine_poll(engine));
	assert_int_equal(engine_fault(engine), -EBADF);
	fake.broken = 0;
	assert_false(engine_poll(engine));
	assert_int_equal(engine_fault(engine), -EBADF);
}

static void engine__events_of_an_older_life_are_forgotten(void **state)
{
	struct engine_event events[8];

	(void)state;
	assert_int_equal(hello_from(0, 1), 1);
	give_mismatch();
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_events(engine, events, 8), 0);

	assert_int_equal(hello_from(50, 2), 1);
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	assert_int_equal(engine_events(engine, events, 8), 0);
	job_open(JOB, 2, LANES, false);
	give_mismatch(); /* the new life's own is told */
	assert_int_equal(events_but_misfits(events, 8), 1);
}

static void engine__events_that_nobody_fetches_are_counted(void **state)
{
	struct engine_event *events = calloc(4096, sizeof(*events));
	uint32_t fetched;

	(void)state;
	for (uint32_t serial = 1; serial <= 2000; serial++)
		assert_int_equal(hello_from(100 + serial % 2, serial), 1);
	fetched = engine_events(engine, events, 4096);
	assert_true(fetched >= 256);
	assert_int_equal(fetched + engine_stats(engine)->events_lost, 2000);
	assert_int_equal(events[0].seq, 1); /* the oldest are kept, in order */
	assert_int_equal(events[fetched - 1].seq, fetched);
	free(events);
}

/* ---- any bytes ---- */

static uint64_t seed;

/* A packet that is nearly right, or not at all. A child knows its own nonce. */
static uint32_t packet_draw(struct rng *rng, uint8_t *at, uint32_t host, uint16_t lanes)
{
	struct wire packet = update_of((uint16_t)rng_below(rng, 2), (uint16_t)rng_below(rng, 4),
				       1 + rng_below(rng, 4));
	uint32_t bytes;

	packet.job = (uint16_t)(JOB + rng_below(rng, 2));
	packet.child = host < 2 ? (uint16_t)host : packet.child;
	packet.lanes = lanes;
	if (host == PARENT_HOST) {
		packet.type = rng_below(rng, 4) ? WIRE_RESULT : WIRE_NEED;
		packet.job = 9;
		packet.child = (uint16_t)(2 + rng_below(rng, 2));
	}
	if (!rng_below(rng, 4))
		packet.type = (uint8_t)rng_below(rng, 16);
	if (!rng_below(rng, 16))
		packet.flags = (uint8_t)rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.job = (uint16_t)rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.generation++;
	if (!rng_below(rng, 16))
		packet.seq = rng_u32(rng);
	if (!rng_below(rng, 16))
		packet.slot = (uint16_t)rng_below(rng, 2 * SLOTS);
	if (!rng_below(rng, 16))
		packet.child = (uint16_t)rng_below(rng, 4);
	if (!rng_below(rng, 16))
		packet.lanes = (uint16_t)rng_below(rng, 200);
	if (!rng_below(rng, 16))
		packet.tag++;
	if (packet.type != WIRE_UPDATE && packet.type != WIRE_RESULT && packet.type != WIRE_HELLO &&
	    rng_below(rng, 16))
		packet.lanes = 0;
	bytes = rng_below(rng, 16) ? wire_bytes(packet.lanes) : rng_below(rng, 900);

	for (uint32_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)rng_u32(rng);
	if (bytes >= WIRE_HEADER_BYTES)
		wire_put(at, &packet);
	if (packet.type == WIRE_HELLO && host < 2 && bytes >= WIRE_HEADER_BYTES + WIRE_NONCE_BYTES)
		memcpy(at + WIRE_HEADER_BYTES, nonces[host], WIRE_NONCE_BYTES);
	for (uint32_t flips = rng_below(rng, 4) ? 0 : rng_below(rng, 4); flips && bytes; flips--)
		at[rng_below(rng, bytes)] ^= (uint8_t)(1u << rng_below(rng, 8));
	return bytes;
}

static void frame_draw(struct rng *rng)
{
	static const uint32_t hosts[] = { 0, 1, 0, 1, PARENT_HOST, STRANGER_HOST };
	static uint8_t bytes[LINK_FRAME_BYTES_MAX];
	uint32_t host = hosts[rng_below(rng, 6)];
	uint16_t lanes = rng_below(rng, 8) ? LANES : (uint16_t)(4 * rng_below(rng, 8));
	struct link_address peer = address_of(host);
	uint32_t first = packet_draw(rng, bytes, host, lanes), count = 1, all = first;

	while (first && rng_below(rng, 8) && count < LINK_FRAME_PACKETS_MAX &&
	       all + 1000 < sizeof(bytes)) {
		uint32_t next = packet_draw(rng, bytes + all, host, lanes);

		all += next < first ? next : first;
		count += next > 0;
		if (next < first)
			break;
	}
	give_bytes(&peer, bytes, count, first, all);
}

static void engine__any_bytes_are_survived_and_answered_to_members_alone(void **state)
{
	const struct engine_stats *stats = engine_stats(engine);
	struct link_address stranger = address_of(STRANGER_HOST);
	struct engine_event events[4];
	uint64_t judged = 0, answered = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 0);
	job_open(JOB + 1, 2, LANES, true);
	for (uint32_t turn = 0; turn < 20000; turn++) {
		if (turn % 200 == 0) { /* fresh slots, or all that comes is soon stale */
			assert_int_equal(engine_job_remove(engine, JOB), 0);
			assert_int_equal(engine_job_remove(engine, JOB + 1), 0);
			job_open(JOB, 2, LANES, false);
			job_open(JOB + 1, 2, LANES, true);
		}
		for (uint32_t frames = 1 + rng_below(&rng, 4); frames; frames--)
			frame_draw(&rng);
		poll_once();
		answered += fake.answers_count;
		for (uint32_t i = 0; i < fake.answers_count; i++)
			assert_false(link_address_equal(&fake.answers[i].peer, &stranger));
		if (!rng_below(&rng, 100))
			engine_events(engine, events, 4);
	}
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		judged += stats->fault[i];
	for (uint32_t i = 0; i < SWITCH_VERDICT_COUNT; i++)
		judged += stats->verdict[i];
	assert_true(judged <= stats->packets_in);            /* the others are HELLOs */
	assert_true(stats->verdict[SWITCH_MULTICAST] > 100); /* and it was no idle talk */
	assert_true(stats->verdict[SWITCH_UP] > 10);
	assert_true(stats->verdict[SWITCH_MISMATCH] > 100);
	print_message("%llu packets, %llu answers\n", (unsigned long long)stats->packets_in,
		      (unsigned long long)answered);
}

int main(void)
{
	const char *given = getenv("TALLY_TEST_SEED");
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(engine__packet_shorter_than_a_header_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_another_version_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_an_unknown_type_is_dropped, setup),
		ENGINE_TEST(engine__packet_that_a_child_does_not_send_is_dropped, setup),
		ENGINE_TEST(engine__packet_with_impossible_lanes_is_dropped, setup),
		ENGINE_TEST(engine__packet_whose_length_and_lanes_disagree_is_dropped, setup),
		ENGINE_TEST(engine__result_that_is_bare_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_an_unknown_or_disabled_job_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_another_generation_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_child_out_of_range_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_slot_out_of_range_is_dropped, setup),
		ENGINE_TEST(engine__packet_with_more_lanes_than_started_is_dropped, setup),
		ENGINE_TEST(engine__packet_from_a_strangers_address_is_dropped, setup),
		ENGINE_TEST(engine__packet_of_a_child_that_is_not_bound_is_dropped, setup),
		ENGINE_TEST(engine__bad_packets_in_a_frame_do_not_hurt_their_neighbours, setup),
		ENGINE_TEST(engine__packet_that_lies_askew_behind_odd_ones_is_served, setup),
		ENGINE_TEST(engine__mismatch_is_told_once_until_fetched_and_never_answered, setup),
		ENGINE_TEST(engine__alarm_is_told_once_until_fetched_and_never_answered, setup),
		ENGINE_TEST(engine__what_no_sound_child_sends_is_counted_by_child, setup),
		ENGINE_TEST(engine__path_that_has_become_too_narrow_is_told_once_until_fetched,
			    setup),
		ENGINE_TEST(engine__broken_link_is_told_and_not_asked_again, setup),
		ENGINE_TEST(engine__events_of_an_older_life_are_forgotten, setup),
		ENGINE_TEST(engine__events_that_nobody_fetches_are_counted, setup),
		ENGINE_TEST(engine__any_bytes_are_survived_and_answered_to_members_alone, setup),
	};

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	return cmocka_run_group_tests_name("engine_soft", tests, NULL, NULL);
}
