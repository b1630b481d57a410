/* SPDX-License-Identifier: Apache-2.0 */
/* engine_latency_test.c - an engine with a job in latency mode, in both forms: docs/protocol.md, R-LAT-1 to R-LAT-9. */
#include "dataplane/engine_fixture.h"

enum { TAG = 4711 };

static void latency_open(enum switch_mode mode, uint16_t children)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = children,
				     .mode = (uint8_t)mode,
				     .slots = SLOTS,
				     .lanes_max = LANES,
				     .nonces = nonces };

	job_start(JOB, &config);
}

static int setup_latency(void **state)
{
	int result = setup_engine(state);

	if (!result)
		latency_open(SWITCH_LATENCY, 2);
	return result;
}

static int setup_acknowledged(void **state)
{
	int result = setup_engine(state);

	if (!result)
		latency_open(SWITCH_LATENCY_ACKNOWLEDGED, 2);
	return result;
}

/* As what is given to the engine: DATA to be added. */
static struct wire latency_update_of(uint16_t child, uint16_t slot, uint32_t seq)
{
	struct wire update = update_of(child, slot, seq);

	update.flags = SWITCH_LATENCY_KIND;
	return update;
}

static struct wire ack_of(uint16_t child, uint16_t slot, uint32_t seq)
{
	struct wire ack = update_of(child, slot, seq);

	ack.type = WIRE_ACK;
	ack.lanes = 0;
	return ack;
}

/* Gives a packet alone; how many answers it gets. */
static uint32_t answers_to(const struct wire *packet)
{
	give(packet->child, packet);
	poll_once();
	return fake.answers_count;
}

static struct switch_latency_slot slot_at(uint16_t idx)
{
	struct switch_latency_slot slot;

	assert_int_equal(engine_latency_slot_read(engine, JOB, idx, &slot), 0);
	return slot;
}

/* Nothing comes of the packet, but for the verdict's counter. */
static void assert_verdict_alone(uint32_t host, const struct wire *packet,
				 enum switch_verdict verdict)
{
	struct switch_latency_slot before = slot_at(0), after;
	uint64_t count = engine_stats(engine)->verdict[verdict];

	give(host, packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->verdict[verdict], count + 1);
	after = slot_at(0);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* Both children's UPDATEs: the RESULT goes to both. */
static void round_done(uint16_t slot, uint32_t seq)
{
	for (uint16_t child = 0; child < 2; child++) {
		struct wire packet = latency_update_of(child, slot, seq);

		assert_int_equal(answers_to(&packet), child ? 2 : 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_answer(i, i, WIRE_RESULT, slot, seq);
		assert_sum_of_children(i, 2);
		assert_int_equal(fake.answers[i].wire.child, 1);
		assert_int_equal(fake.answers[i].wire.tag, TAG);
		assert_int_equal(fake.answers[i].wire.generation, GENERATION);
		assert_int_equal(fake.answers[i].wire.flags, SWITCH_LATENCY_KIND);
	}
}

/* ---- jobs ---- */

static void latency__job_add_refuses_parents_and_other_modes(void **state)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = 2,
				     .mode = SWITCH_LATENCY,
				     .slots = SWITCH_LATENCY_SLOTS_MAX,
				     .lanes_max = LANES };

	(void)state;
	config.has_parent = true;
	assert_int_equal(engine_job_add(engine, JOB, &config), -EINVAL);
	config.has_parent = false;
	config.slots++;
	assert_int_equal(engine_job_add(engine, JOB, &config), -EINVAL);
	config.slots--;
	config.mode = SWITCH_LATENCY_ACKNOWLEDGED + 1;
	assert_int_equal(engine_job_add(engine, JOB, &config), -EINVAL);
	assert_int_equal(engine_memory_used(engine), 0);
	config.mode = SWITCH_LATENCY_ACKNOWLEDGED;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
}

static void latency__slots_have_one_copy_and_give_their_memory_back(void **state)
{
	uint64_t sums = LANES * WIRE_LANE_BYTES;
	struct engine_job config = { .generation = GENERATION,
				     .children = 2,
				     .mode = SWITCH_LATENCY,
				     .slots = SLOTS,
				     .lanes_max = LANES };

	(void)state;
	assert_int_equal(engine_slot_bytes(SWITCH_LATENCY, LANES),
			 sizeof(struct switch_latency_slot) + sums);
	assert_int_equal(engine_slot_bytes(SWITCH_DENSE, LANES),
			 sizeof(struct switch_slot) + 2 * sums);
	for (uint16_t idx = 0; idx < 3; idx++)
		assert_int_equal(engine_job_add(engine, idx, &config), 0);
	assert_int_equal(engine_memory_used(engine),
			 3 * SLOTS * engine_slot_bytes(SWITCH_LATENCY, LANES));
	for (uint16_t idx = 0; idx < 3; idx++)
		assert_int_equal(engine_job_remove(engine, idx), 0);
	assert_int_equal(engine_memory_used(engine), 0);
}

static void latency__job_removed_in_mid_operation_leaves_nothing(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1);
	struct engine_event events[4];

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	packet.seq = 2; /* an alarm that nobody has fetched */
	assert_int_equal(answers_to(&packet), 0);
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	assert_int_equal(engine_memory_used(engine), 0);
	assert_int_equal(engine_events(engine, events, 4), 0);
	packet = latency_update_of(1, 0, 1);
	assert_int_equal(answers_to(&packet), 0);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_DROP_JOB], 1);
	latency_open(SWITCH_LATENCY, 2); /* the same name, and nothing of the sums before */
	round_done(0, 1);
}

static void latency__slot_read_tells_who_is_missing(void **state)
{
	struct wire packet = latency_update_of(1, 5, 1);
	struct switch_slot dense;
	struct switch_latency_slot slot;

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	slot = slot_at(5);
	assert_int_equal(slot.round, 1);
	assert_int_equal(slot.sum_bitmap[0], 1 << 1);
	assert_int_equal(slot.tag, TAG);
	assert_int_equal(slot.lanes, LANES);
	assert_int_equal(engine_latency_slot_read(engine, JOB, SLOTS, &slot), -EINVAL);
	assert_int_equal(engine_latency_slot_read(engine, JOB + 1, 0, &slot), -ENOENT);
	assert_int_equal(engine_slot_read(engine, JOB, 5, &dense), -EINVAL);
	job_open(JOB + 1, 2, LANES, false);
	assert_int_equal(engine_latency_slot_read(engine, JOB + 1, 0, &slot), -EINVAL);
}

/* ---- what is dropped ---- */

static void latency__takes_nothing_but_data_to_be_added(void **state)
{
	static const uint8_t flags[] = { WIRE_EXPONENT, WIRE_DETAIL, WIRE_MAX << WIRE_OP_SHIFT,
					 WIRE_TAKE << WIRE_OP_SHIFT };
	static const uint8_t types[] = { WIRE_PROBE, WIRE_ACK, WIRE_CONFIRM, WIRE_WELCOME };
	struct wire packet;

	(void)state;
	for (size_t i = 0; i < sizeof(flags); i++) {
		packet = latency_update_of(0, 0, 1);
		packet.flags = flags[i];
		packet.lanes = flags[i] == WIRE_EXPONENT ? 0 : LANES;
		assert_verdict_alone(0, &packet, SWITCH_DROP_TYPE);
	}
	for (size_t i = 0; i < sizeof(types); i++) {
		packet = ack_of(0, 0, 1);
		packet.type = types[i];
		packet.lanes = types[i] == WIRE_WELCOME ? WIRE_HELLO_LANES : 0;
		assert_verdict_alone(0, &packet, SWITCH_DROP_TYPE);
	}
	round_done(0, 1);
}

static void latency__packet_out_of_its_range_is_dropped(void **state)
{
	struct wire packet = latency_update_of(2, 0, 1);

	(void)state;
	assert_verdict_alone(2, &packet, SWITCH_DROP_CHILD);
	packet = latency_update_of(0, SLOTS, 1);
	assert_verdict_alone(0, &packet, SWITCH_DROP_SLOT);
	packet = latency_update_of(0, 0, 1);
	packet.lanes = LANES + 4;
	assert_verdict_alone(0, &packet, SWITCH_DROP_LANES);
	packet = latency_update_of(0, 0, 1);
	packet.generation--;
	assert_verdict_alone(0, &packet, SWITCH_DROP_GENERATION);
	packet = latency_update_of(0, 0, 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	assert_verdict_alone(0, &packet, SWITCH_DROP_JOB);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	round_done(0, 1);
}

static void latency__packet_from_another_address_is_dropped(void **state)
{
	struct wire update = latency_update_of(0, 0, 1), ack = ack_of(0, 0, 1);

	(void)state;
	assert_verdict_alone(STRANGER_HOST, &update, SWITCH_DROP_ADDRESS);
	assert_verdict_alone(1, &update, SWITCH_DROP_ADDRESS);
	round_done(0, 1);
	assert_verdict_alone(1, &ack, SWITCH_DROP_ADDRESS);
}

static void latency__what_a_parent_says_is_dropped(void **state)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_HELD, WIRE_NEED };

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		struct wire packet = latency_update_of(0, 0, 1);

		packet.type = types[i];
		packet.lanes = types[i] == WIRE_RESULT ? LANES : 0;
		assert_verdict_alone(0, &packet, SWITCH_DROP_TYPE);
		assert_verdict_alone(PARENT_HOST, &packet, SWITCH_DROP_TYPE);
	}
}

/* ---- sums ---- */

static void latency__rounds_follow_each_other_in_one_copy(void **state)
{
	(void)state;
	for (uint32_t seq = 1; seq < 10; seq++)
		for (uint16_t slot = 0; slot < 3; slot++)
			round_done(slot, seq);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_ABSORB], 27);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 27);
}

static void latency__rounds_go_on_over_their_wrap(void **state)
{
	(void)state;
	assert_int_equal(engine_rounds_begin(engine, JOB, UINT32_MAX - 2), 0);
	for (uint32_t i = 0; i < 6; i++)
		round_done(7, UINT32_MAX - 1 + i);
}

static void latency__sums_of_neighbours_do_not_touch(void **state)
{
	enum { SHORT = 12 };

	(void)state;
	for (uint16_t slot = 0; slot < SLOTS; slot++) { /* child 0 everywhere, then child 1 */
		struct wire packet = latency_update_of(0, slot, 1);

		packet.lanes = slot % 2 ? LANES : SHORT;
		assert_int_equal(answers_to(&packet), 0);
	}
	for (uint16_t slot = SLOTS; slot-- > 0;) {
		struct wire packet = latency_update_of(1, slot, 1);

		packet.lanes = slot % 2 ? LANES : SHORT;
		assert_int_equal(answers_to(&packet), 2);
		assert_int_equal(fake.answers[1].wire.lanes, packet.lanes);
		for (uint32_t j = 0; j < packet.lanes; j++)
			assert_int_equal(fake.answers[1].lane[j],
					 lane_of(0, slot, j) + lane_of(1, slot, j));
	}
}

static void latency__barrier_has_no_lanes(void **state)
{
	(void)state;
	for (uint16_t child = 0; child < 2; child++) {
		struct wire packet = latency_update_of(child, 0, 1);

		packet.lanes = 0;
		assert_int_equal(answers_to(&packet), child ? 2 : 0);
	}
	assert_answer(0, 0, WIRE_RESULT, 0, 1);
	assert_int_equal(fake.answers[0].wire.lanes, 0);
}

static void latency__run_of_packets_is_answered_by_one_frame_per_child(void **state)
{
	(void)state;
	give_run(0, latency_update_of(0, 0, 1), 40);
	give_run(1, latency_update_of(1, 0, 1), 40);
	assert_two_runs_answered();
}

static void latency__256_children_get_one_sum(void **state)
{
	(void)state;
	latency_open(SWITCH_LATENCY_ACKNOWLEDGED, SWITCH_CHILDREN_MAX);
	for (uint16_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		struct wire packet = latency_update_of(child, 7, 1);
		bool is_last = child == SWITCH_CHILDREN_MAX - 1;

		assert_int_equal(answers_to(&packet), is_last ? SWITCH_CHILDREN_MAX : 0);
	}
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++) {
		assert_answer(i, i, WIRE_RESULT, 7, 1);
		assert_sum_of_children(i, SWITCH_CHILDREN_MAX);
	}
	for (uint16_t child = SWITCH_CHILDREN_MAX; child-- > 0;) {
		struct wire packet = ack_of(child, 7, 1);

		assert_int_equal(answers_to(&packet), child ? 0 : SWITCH_CHILDREN_MAX);
	}
	for (uint32_t i = 0; i < SWITCH_CHILDREN_MAX; i++)
		assert_answer(i, i, WIRE_CONFIRM, 7, 1);
}

static void latency__range_of_one_child_is_told_to_all(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1);

	(void)state;
	packet.flags |= WIRE_RANGE | WIRE_RESENT;
	assert_int_equal(answers_to(&packet), 0);
	packet = latency_update_of(1, 0, 1);
	assert_int_equal(answers_to(&packet), 2);
	assert_int_equal(fake.answers[0].wire.flags, SWITCH_LATENCY_KIND | WIRE_RANGE);
	assert_int_equal(fake.answers[1].wire.flags, SWITCH_LATENCY_KIND | WIRE_RANGE);
	round_done(0, 2); /* of this round alone */
}

/* ---- copies, and what comes too early or too late ---- */

static void latency__copy_is_held_until_all_are_in_and_never_added_twice(void **state)
{
	struct wire packet = latency_update_of(0, 3, 1);

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	packet.flags |= WIRE_RESENT;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(answers_to(&packet), 1);
		assert_answer(0, 0, WIRE_HELD, 3, 1);
		assert_int_equal(fake.answers[0].wire.tag, 0);
		assert_int_equal(fake.answers[0].wire.lanes, 0);
	}
	packet = latency_update_of(1, 3, 1);
	assert_int_equal(answers_to(&packet), 2);
	assert_sum_of_children(0, 2);
	packet = latency_update_of(0, 3, 1); /* its RESULT was lost */
	assert_int_equal(answers_to(&packet), 1);
	assert_answer(0, 0, WIRE_RESULT, 3, 1);
	assert_sum_of_children(0, 2);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_REPLY], 4);
}

static void latency__old_round_is_stale(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1);

	(void)state;
	round_done(0, 1);
	round_done(0, 2);
	assert_verdict_alone(0, &packet, SWITCH_DROP_STALE);
	round_done(0, 3);
}

/* Child 1 opens a round although child 0, who asks for the last one, has no result of it. */
static void
latency__who_opens_a_round_too_early_is_told_when_another_asks_for_the_last(void **state)
{
	struct wire old = latency_update_of(0, 0, 1), early = latency_update_of(1, 0, 2);
	struct engine_event event;

	(void)state;
	round_done(0, 1);
	assert_int_equal(answers_to(&old), 1);
	assert_int_equal(answers_to(&early), 0);
	while (engine_events(engine, &event, 1))
		assert_int_not_equal(event.type, ENGINE_MISFIT);
	old.flags |= WIRE_RESENT;
	assert_verdict_alone(0, &old, SWITCH_DROP_STALE);
	assert_int_equal(engine_events(engine, &event, 1), 1);
	assert_int_equal(event.type, ENGINE_MISFIT);
	assert_int_equal(event.misfit, MISFIT_OVERRUN);
	assert_int_equal(event.child, 1);
	assert_int_equal(event.count, 1);
	early = latency_update_of(1, 0, 1); /* an old copy of its own */
	assert_verdict_alone(1, &early, SWITCH_DROP_STALE);
	assert_int_equal(engine_events(engine, &event, 1), 0);
}

/* As above, of as many children as there may be. */
static void latency__who_opens_a_round_too_early_is_told_alone(void **state)
{
	struct wire packet;
	struct engine_event event;

	(void)state;
	latency_open(SWITCH_LATENCY, SWITCH_CHILDREN_MAX);
	for (uint16_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		packet = latency_update_of(child, 0, 1);
		assert_int_equal(answers_to(&packet),
				 child == SWITCH_CHILDREN_MAX - 1 ? SWITCH_CHILDREN_MAX : 0);
	}
	packet = latency_update_of(0, 0, 2);
	assert_int_equal(answers_to(&packet), 0);
	while (engine_events(engine, &event, 1))
		assert_int_not_equal(event.type, ENGINE_MISFIT);
	packet = latency_update_of(1, 0, 1);
	assert_verdict_alone(1, &packet, SWITCH_DROP_STALE);
	assert_int_equal(engine_events(engine, &event, 1), 1);
	assert_int_equal(event.misfit, MISFIT_OVERRUN);
	assert_int_equal(event.child, 0);
	assert_int_equal(engine_events(engine, &event, 1), 0);
}

static void latency__next_round_before_all_are_in_is_an_alarm_told_once(void **state)
{
	struct wire packet = latency_update_of(1, 0, 1);
	struct engine_event events[4];

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	for (packet.seq = 2; packet.seq < 5; packet.seq++)
		assert_verdict_alone(1, &packet, SWITCH_DROP_ALARM);
	assert_int_equal(events_but_misfits(events, 4), 1);
	assert_int_equal(events[0].type, ENGINE_ALARM);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 1);
	assert_int_equal(events[0].seq, 2);
	packet = latency_update_of(0, 0, 1);
	assert_int_equal(answers_to(&packet), 2);
	assert_sum_of_children(0, 2);
}

static void latency__another_operation_is_a_mismatch_told_once(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1);
	struct engine_event events[4];

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	packet = latency_update_of(1, 0, 1);
	packet.tag++;
	assert_verdict_alone(1, &packet, SWITCH_MISMATCH);
	packet.tag--;
	packet.lanes -= 4;
	assert_verdict_alone(1, &packet, SWITCH_MISMATCH);
	assert_int_equal(events_but_misfits(events, 4), 1);
	assert_int_equal(events[0].type, ENGINE_MISMATCH);
	assert_int_equal(events[0].child, 1);
	packet = latency_update_of(1, 0, 1); /* what was refused is not in the sum */
	assert_int_equal(answers_to(&packet), 2);
	assert_sum_of_children(0, 2);
}

static void latency__fresh_generation_starts_from_clean_slots(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1);

	(void)state;
	assert_int_equal(answers_to(&packet), 0); /* half a round of the old life */
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), -EINVAL);
	packet.child = 1;
	assert_verdict_alone(1, &packet, SWITCH_DROP_GENERATION);
	packet.generation++;
	packet.seq = 2; /* a life begins with round 1 */
	assert_verdict_alone(1, &packet, SWITCH_DROP_STALE);
	packet.seq = 1;
	assert_int_equal(answers_to(&packet), 0);
	packet.child = 0;
	assert_int_equal(answers_to(&packet), 2);
	assert_sum_of_children(0, 2);
	assert_int_equal(fake.answers[0].wire.generation, GENERATION + 1);
}

/* ---- the acknowledged form ---- */

static void acks_done(uint16_t slot, uint32_t seq)
{
	for (uint16_t child = 0; child < 2; child++) {
		struct wire ack = ack_of(child, slot, seq);

		assert_int_equal(answers_to(&ack), child ? 2 : 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_answer(i, i, WIRE_CONFIRM, slot, seq);
		assert_int_equal(fake.answers[i].wire.tag, TAG);
		assert_int_equal(fake.answers[i].wire.lanes, 0);
	}
}

static void acknowledged__last_ack_confirms_to_all(void **state)
{
	(void)state;
	for (uint32_t seq = 1; seq < 6; seq++) {
		round_done(9, seq);
		acks_done(9, seq);
	}
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 10);
}

static void acknowledged__next_round_waits_for_all_acks(void **state)
{
	struct wire packet = latency_update_of(0, 0, 2), ack = ack_of(0, 0, 1);

	(void)state;
	round_done(0, 1);
	assert_verdict_alone(0, &packet, SWITCH_DROP_ALARM);
	assert_int_equal(answers_to(&ack), 0);
	assert_verdict_alone(0, &packet, SWITCH_DROP_ALARM);
	ack.child = 1;
	assert_int_equal(answers_to(&ack), 2);
	round_done(0, 2);
}

static void acknowledged__ack_before_the_result_is_an_alarm(void **state)
{
	struct wire packet = latency_update_of(0, 0, 1), ack = ack_of(0, 0, 1);

	(void)state;
	assert_int_equal(answers_to(&packet), 0);
	assert_verdict_alone(0, &ack, SWITCH_DROP_ALARM);
	ack.seq = 2;
	assert_verdict_alone(0, &ack, SWITCH_DROP_ALARM);
}

static void acknowledged__copy_of_an_ack_is_held_then_confirmed_to_it_alone(void **state)
{
	struct wire ack = ack_of(0, 0, 1);

	(void)state;
	round_done(0, 1);
	assert_int_equal(answers_to(&ack), 0);
	assert_int_equal(answers_to(&ack), 1);
	assert_answer(0, 0, WIRE_HELD, 0, 1);
	assert_int_equal(fake.answers[0].wire.tag, TAG); /* not 0: it answers an ACK */
	ack.child = 1;
	assert_int_equal(answers_to(&ack), 2);
	ack.child = 0; /* its CONFIRM was lost */
	assert_int_equal(answers_to(&ack), 1);
	assert_answer(0, 0, WIRE_CONFIRM, 0, 1);
}

static void acknowledged__ack_of_an_old_round_is_confirmed(void **state)
{
	struct wire ack = ack_of(0, 0, 1), packet = latency_update_of(1, 0, 2);
	struct switch_latency_slot before, after;

	(void)state;
	round_done(0, 1);
	acks_done(0, 1);
	assert_int_equal(answers_to(&packet), 0); /* child 1 has gone on */
	before = slot_at(0);
	ack.tag = 99;
	assert_int_equal(answers_to(&ack), 1);
	assert_answer(0, 0, WIRE_CONFIRM, 0, 1);
	assert_int_equal(fake.answers[0].wire.tag, 99);
	after = slot_at(0);
	assert_memory_equal(&before, &after, sizeof(before));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(latency__job_add_refuses_parents_and_other_modes, setup_engine),
		ENGINE_TEST(latency__slots_have_one_copy_and_give_their_memory_back, setup_engine),
		ENGINE_TEST(latency__job_removed_in_mid_operation_leaves_nothing, setup_latency),
		ENGINE_TEST(latency__slot_read_tells_who_is_missing, setup_latency),
		ENGINE_TEST(latency__takes_nothing_but_data_to_be_added, setup_latency),
		ENGINE_TEST(latency__packet_out_of_its_range_is_dropped, setup_latency),
		ENGINE_TEST(latency__packet_from_another_address_is_dropped, setup_acknowledged),
		ENGINE_TEST(latency__what_a_parent_says_is_dropped, setup_latency),
		ENGINE_TEST(latency__rounds_follow_each_other_in_one_copy, setup_latency),
		ENGINE_TEST(latency__rounds_go_on_over_their_wrap, setup_latency),
		ENGINE_TEST(latency__sums_of_neighbours_do_not_touch, setup_latency),
		ENGINE_TEST(latency__barrier_has_no_lanes, setup_latency),
		ENGINE_TEST(latency__run_of_packets_is_answered_by_one_frame_per_child,
			    setup_latency),
		ENGINE_TEST(latency__256_children_get_one_sum, setup_engine),
		ENGINE_TEST(latency__range_of_one_child_is_told_to_all, setup_latency),
		ENGINE_TEST(latency__copy_is_held_until_all_are_in_and_never_added_twice,
			    setup_latency),
		ENGINE_TEST(latency__old_round_is_stale, setup_latency),
		ENGINE_TEST(
			latency__who_opens_a_round_too_early_is_told_when_another_asks_for_the_last,
			setup_latency),
		ENGINE_TEST(latency__who_opens_a_round_too_early_is_told_alone, setup_engine),
		ENGINE_TEST(latency__next_round_before_all_are_in_is_an_alarm_told_once,
			    setup_latency),
		ENGINE_TEST(latency__another_operation_is_a_mismatch_told_once, setup_latency),
		ENGINE_TEST(latency__fresh_generation_starts_from_clean_slots, setup_latency),
		ENGINE_TEST(acknowledged__last_ack_confirms_to_all, setup_acknowledged),
		ENGINE_TEST(acknowledged__next_round_waits_for_all_acks, setup_acknowledged),
		ENGINE_TEST(acknowledged__ack_before_the_result_is_an_alarm, setup_acknowledged),
		ENGINE_TEST(acknowledged__copy_of_an_ack_is_held_then_confirmed_to_it_alone,
			    setup_acknowledged),
		ENGINE_TEST(acknowledged__ack_of_an_old_round_is_confirmed, setup_acknowledged),
	};

	return cmocka_run_group_tests_name("engine_latency", tests, NULL, NULL);
}
