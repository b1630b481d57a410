/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dense/worker_fixture.h"

static bool is_ignored(const struct fixture *f)
{
	static const struct worker_actions nothing;

	return !memcmp(&f->actions, &nothing, sizeof(nothing));
}

/* R-WIRE-9. R-MAP-4: nor is a slot that has room left shared. */
static void worker__numbers_rounds_of_a_slot_over_operations(void **state)
{
	struct fixture *f = fixture_new(0xfffffffe);

	(void)state;
	for (uint32_t i = 0; i < 4 * BULK; i++) {
		struct wire update = begin(f, 1, false, i);
		assert_int_equal(update.slot, i % BULK);
		assert_int_equal(update.seq, 0xffffffffu + i / BULK);
		assert_int_equal(update.generation, GENERATION);
		assert_int_equal(update.job, JOB);
		assert_int_equal(update.child, CHILD);
		assert_int_equal(update.lanes, 4); /* padded to a multiple of 4 */
		deliver(f, result_of(update, 0));
		assert_true(f->actions.store);
		assert_true(f->actions.is_op_done);
		assert_int_equal(f->actions.stored.cookie, i);
	}
}

static void worker__a_result_of_another_round_is_ignored(void **state)
{
	struct fixture *f = fixture_new(0xffffffff);
	struct wire update, wrong;

	(void)state;
	update = begin(f, 40, false, 0);
	wrong = result_of(update, 0);
	wrong.seq -= 2;
	deliver(f, wrong);
	assert_true(is_ignored(f));
	wrong.seq += 4;
	deliver(f, wrong);
	assert_true(is_ignored(f));
	deliver(f, result_of(update, 0));
	assert_true(f->actions.is_accepted);
	deliver(f, result_of(update, 0)); /* a second copy */
	assert_true(is_ignored(f));
}

static void worker__nothing_crosses_generations_jobs_or_slots(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update, wrong;

	(void)state;
	update = begin(f, 40, false, 0);
	wrong = result_of(update, 0);
	wrong.generation++;
	deliver(f, wrong);
	assert_true(is_ignored(f));
	wrong = result_of(update, 0);
	wrong.job++;
	deliver(f, wrong);
	assert_true(is_ignored(f));
	wrong = result_of(update, 0);
	wrong.slot = SLOTS;
	deliver(f, wrong);
	assert_true(is_ignored(f));
}

static void worker__result_with_another_tag_lanes_or_kind_stores_nothing(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update, wrong;

	(void)state;
	update = begin(f, 40, false, 0);
	for (int i = 0; i < 3; i++) {
		wrong = result_of(update, 0);
		wrong.tag ^= i == 0;
		wrong.lanes = (uint16_t)(wrong.lanes - 4 * (i == 1));
		wrong.flags ^= (uint8_t)((i == 2) << WIRE_OP_SHIFT);
		deliver(f, wrong);
		assert_true(f->actions.is_protocol_error);
		assert_false(f->actions.store);
	}
}

static void worker__first_float_chunk_of_a_slot_agrees_on_an_exponent_first(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	update = begin(f, 5, true, 0);
	assert_int_equal(wire_round_of(update.flags), WIRE_EXPONENT);
	assert_int_equal(update.lanes, 0);
	assert_int_equal(f->actions.look, WORKER_AHEAD_SCAN);
	assert_int_equal(f->actions.ahead.cookie, 0);
	deliver(f, result_of(update, 130));
	assert_true(f->actions.is_accepted);
	assert_false(f->actions.store);
	assert_true(f->actions.build);
	assert_int_equal(wire_round_of(f->actions.header.flags), WIRE_DATA);
	assert_int_equal(f->actions.header.seq, update.seq + 1);
	assert_int_equal(f->actions.header.lanes, 8);
	assert_int_equal(f->actions.build_scale, 130);
	assert_int_equal(f->actions.look, WORKER_AHEAD_UNKNOWN); /* nothing is submitted after it */
	deliver(f, result_of(f->actions.header, WIRE_EXPONENT_UNKNOWN));
	assert_true(f->actions.store);
	assert_int_equal(f->actions.stored_scale, 130);
	assert_true(f->actions.is_op_done);
}

static void worker__looks_ahead_so_that_later_chunks_need_no_exponent_round(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update[BULK];

	(void)state;
	submit(f, (BULK + 1) * LANES, true, 0);
	for (int i = 0; i < BULK; i++)
		update[i] = start(f);
	deliver(f, result_of(update[0], 120));
	assert_int_equal(f->actions.look,
			 WORKER_AHEAD_SCAN); /* about chunk BULK, the slot's next */
	assert_int_equal(f->actions.ahead.first, BULK * LANES);
	deliver(f, result_of(f->actions.header, 99));
	update[0] = start(f);
	assert_int_equal(wire_round_of(update[0].flags), WIRE_DATA);
	assert_int_equal(f->actions.build_scale, 99);
	deliver(f, result_of(update[1], WIRE_EXPONENT_UNKNOWN)); /* a peer that breaks the rule */
	assert_true(f->actions.is_protocol_error);
}

static void worker__last_accepted_result_decides_not_what_this_worker_knew(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	submit(f, BULK * LANES, false, 0);
	update = begin(f, LANES, true, 1);
	assert_int_equal(f->actions.look, WORKER_AHEAD_SCAN); /* known here */
	for (int i = 1; i < BULK; i++)
		start(f);
	deliver(f, result_of(update, WIRE_EXPONENT_UNKNOWN)); /* not known to somebody */
	update = start(f);
	assert_int_equal(wire_round_of(update.flags), WIRE_EXPONENT);
}

static void worker__sticky_result_is_stored_raw_and_amended_by_a_detail_round(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	submit(f, 5, false, 0);
	update = result_of(start(f), 0);
	update.flags |= WIRE_RANGE;
	deliver(f, update);
	assert_true(f->actions.build);
	assert_int_equal(wire_round_of(f->actions.header.flags), WIRE_DETAIL);
	assert_true(f->actions.store);
	assert_true(f->actions.is_amended_later);
	assert_false(f->actions.is_op_done);
	deliver(f, result_of(f->actions.header, 0));
	assert_true(f->actions.store);
	assert_int_equal(f->actions.stored_round, WIRE_DETAIL);
	assert_true(f->actions.is_op_done);
}

static void worker__tag_says_which_chunk_of_its_operation_it_is(void **state)
{
	struct fixture *f = fixture_new(0);

	(void)state;
	for (uint32_t op = 0; op < 3; op++) {
		submit(f, 2 * LANES, false, op);
		for (uint32_t chunk = 0; chunk < 2; chunk++) {
			struct wire update = start(f);

			assert_int_equal(update.tag, map_tag(1000 + op, chunk));
			assert_int_equal(f->actions.chunk.first, chunk * LANES);
			assert_int_equal(f->actions.chunk.elements, LANES);
			deliver(f, result_of(update, 0));
		}
	}
}

static void worker__sums_are_amended_and_nothing_else_is(void **state)
{
	static const enum wire_op ops[] = { WIRE_ADD, WIRE_ADD_SHORT, WIRE_MAX, WIRE_TAKE };

	(void)state;
	for (uint32_t i = 0; i < WIRE_OP_END; i++) {
		struct worker_op op = {
			.count = 5, .shape = { 1, 1 }, .stream = MAP_EXPRESS, .lane_op = ops[i]
		};
		struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
		bool is_sum = ops[i] == WIRE_ADD || ops[i] == WIRE_ADD_SHORT;
		struct fixture *f = fixture_new(0);
		struct wire update;

		worker_step(&f->worker, &event, &f->actions);
		update = result_of(start(f), 0);
		assert_int_equal(wire_op_of(update.flags), ops[i]);
		update.flags |= WIRE_NONFINITE;
		deliver(f, update);
		assert_true(f->actions.store);
		assert_int_equal(f->actions.is_amended_later, is_sum);
		assert_int_equal(f->actions.is_op_done, !is_sum);
	}
}

/* R-WK-13 */
static void worker__sends_of_parts_what_it_has(void **state)
{
	static const uint64_t ends[] = { LANES, LANES, 2 * LANES + 3,
					 4 * LANES }; /* the second is empty */
	static const struct {
		enum wire_op lane_op;
		uint32_t owner;
	} chunks[] = {
		{ WIRE_TAKE, 0 }, { WIRE_TAKE, 2 }, { WIRE_ADD_SHORT, 0 }, { WIRE_TAKE, 3 }
	};

	(void)state;
	for (uint32_t mine = 0; mine <= 4; mine++) {
		struct worker_op op = { .count = 4 * LANES,
					.shape = { 1, 1 },
					.stream = MAP_EXPRESS,
					.lane_op = WIRE_TAKE,
					.ends = ends,
					.parts = 4,
					.mine = mine };
		struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
		struct fixture *f = fixture_new(0);

		worker_step(&f->worker, &event, &f->actions);
		for (uint32_t i = 0; i < 4; i++) {
			struct wire update = start(f);
			bool is_alone = chunks[i].lane_op == WIRE_TAKE;

			assert_int_equal(wire_op_of(update.flags), chunks[i].lane_op);
			assert_int_equal(update.lanes,
					 !is_alone || chunks[i].owner == mine ? LANES : 0);
			update.lanes = LANES; /* who has them has sent them */
			deliver(f, result_of(update, 0));
			assert_true(f->actions.store);
			assert_int_equal(f->actions.stored.first, i * LANES);
		}
		assert_true(f->actions.is_op_done);
	}
}

static void worker__breaks_at_a_part_that_nobody_sent(void **state)
{
	static const uint64_t ends[] = { 5 };
	struct worker_op op = { .count = 5,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.lane_op = WIRE_TAKE,
				.ends = ends,
				.parts = 1,
				.mine = 1 };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);

	(void)state;
	worker_step(&f->worker, &event, &f->actions);
	deliver(f, result_of(start(f), 0)); /* of no lanes, as it was sent */
	assert_true(f->actions.is_protocol_error);
	assert_false(f->actions.store);
}

/* R-WK-14 */
static void worker__of_its_own_part_takes_a_result_without_lanes(void **state)
{
	static const uint64_t ends[] = { LANES, 2 * LANES };
	struct worker_op op = { .count = 2 * LANES,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.lane_op = WIRE_TAKE,
				.ends = ends,
				.parts = 2,
				.mine = 1 };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	worker_step(&f->worker, &event, &f->actions);
	update = start(f); /* the other's */
	assert_false(update.flags & WIRE_BARE);
	update.lanes = LANES;
	deliver(f, result_of(update, 0));
	assert_true(f->actions.store && !f->actions.is_bare);
	update = start(f); /* its own */
	assert_true(update.flags & WIRE_BARE);
	probe(f, update.slot);
	assert_int_equal(f->actions.header.flags, WIRE_BARE);
	update.lanes = 0;
	deliver(f, result_of(update, 0));
	assert_true(f->actions.store && f->actions.is_bare && f->actions.is_op_done);
}

/* Elements [0, 5). */
static enum worker_wish wants_five(const void *caller, uint64_t first, uint32_t elements)
{
	assert_ptr_equal(caller, wants_five);
	assert_true(elements > 0);
	return first < 5 ? WORKER_WANTS_SOME : WORKER_WANTS_NONE;
}

/* R-WK-16. last: the last lane that is not 0, counted from 1. */
static void short_round(enum wire_op lane_op, uint32_t last, uint16_t lanes)
{
	struct worker_op op = {
		.count = LANES, .shape = { 1, 1 }, .stream = MAP_EXPRESS, .lane_op = lane_op
	};
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	uint16_t sent = lane_op != WIRE_ADD_SHORT || last > 4 ? LANES : 4;
	bool is_right = lanes >= sent && lanes <= LANES;
	struct fixture *f = fixture_new(0);
	int32_t lane[LANES] = { 0 };
	struct wire update;

	if (last)
		lane[last - 1] = -1;
	worker_step(&f->worker, &event, &f->actions);
	update = start(f);
	assert_int_equal(update.lanes, LANES);
	update.lanes = worker_trim(&f->worker, 0, &f->actions, lane);
	assert_int_equal(update.lanes, sent);
	update.lanes = lanes;
	deliver(f, result_of(update, 0));
	assert_int_equal(f->actions.is_protocol_error, !is_right);
	assert_int_equal(f->actions.store, is_right);
	assert_int_equal(f->actions.stored_lanes, is_right ? LANES : 0);
	assert_false(f->actions.is_bare);
}

static void worker__leaves_out_zeros_at_the_end(void **state)
{
	static const enum wire_op ops[] = { WIRE_ADD, WIRE_ADD_SHORT, WIRE_MAX };

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		for (uint32_t last = 0; last <= LANES; last++)
			for (uint16_t lanes = 0; lanes <= LANES + 4; lanes += 4)
				short_round(ops[i], last, lanes);
}

static enum worker_wish wants_alone(const void *caller, uint64_t first, uint32_t elements)
{
	(void)caller;
	assert_true(elements > 0);
	return first < LANES ? WORKER_WANTS_ALONE : WORKER_WANTS_NONE;
}

/* R-WK-15 */
static void worker__keeps_its_lanes_of_a_sum_that_it_alone_wants(void **state)
{
	struct worker_op op = { .count = 2 * LANES,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.lane_op = WIRE_ADD,
				.wants = wants_alone };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	worker_step(&f->worker, &event, &f->actions);
	update = start(f);
	assert_int_equal(update.lanes, 0);
	assert_int_equal(update.flags, WIRE_DATA);
	assert_int_equal(f->actions.lanes, LANES);
	update.lanes = LANES;
	update.flags |= WIRE_NONFINITE;
	deliver(f, result_of(update, 0));
	assert_true(f->actions.store && f->actions.is_joined && f->actions.is_amended_later);
	assert_int_equal(f->actions.joined_by, WIRE_ADD);
	update = f->actions.header;
	assert_int_equal(update.flags, WIRE_DETAIL);
	assert_int_equal(update.lanes, LANES);
	deliver(f, result_of(update, 0));
	assert_true(f->actions.store && !f->actions.is_joined);
	update = start(f); /* which somebody else wants */
	assert_int_equal(update.lanes, LANES);
	assert_int_equal(update.flags, WIRE_DATA | WIRE_BARE);
}

static void worker__breaks_if_nobody_adds_to_what_it_keeps(void **state)
{
	struct worker_op op = { .count = LANES,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.lane_op = WIRE_MAX,
				.wants = wants_alone };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);

	(void)state;
	worker_step(&f->worker, &event, &f->actions);
	deliver(f, result_of(start(f), 0));
	assert_true(f->actions.is_protocol_error && !f->actions.store);
}

static void worker__keeps_a_part_that_it_alone_wants(void **state)
{
	static const uint64_t ends[] = { LANES };

	(void)state;
	for (uint32_t lanes = 0; lanes <= LANES; lanes += LANES) {
		struct worker_op op = { .count = LANES,
					.shape = { 1, 1 },
					.stream = MAP_EXPRESS,
					.lane_op = WIRE_TAKE,
					.ends = ends,
					.parts = 1,
					.wants = wants_alone };
		struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
		struct fixture *f = fixture_new(0);
		struct wire update;

		worker_step(&f->worker, &event, &f->actions);
		update = start(f);
		assert_int_equal(update.lanes, 0);
		assert_true(update.flags & WIRE_BARE);
		assert_int_equal(f->actions.lanes, LANES);
		update.lanes = (uint16_t)lanes;
		deliver(f, result_of(update, 0));
		assert_int_equal(f->actions.is_protocol_error, lanes > 0);
		assert_int_equal(f->actions.store && f->actions.is_bare, lanes == 0);
		assert_false(f->actions.is_joined);
	}
}

static void worker__may_be_bare_of_what_nobody_wants(void **state)
{
	struct worker_op op = { .count = 2 * LANES,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.is_scaled = true,
				.wants = wants_five,
				.caller = (const void *)(uintptr_t)wants_five };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	worker_step(&f->worker, &event, &f->actions);
	for (uint32_t chunk = 0; chunk < 2; chunk++) {
		uint32_t bare = chunk ? WIRE_BARE : 0;

		update = start(f);
		assert_int_equal(update.flags, WIRE_EXPONENT);
		deliver(f, result_of(update, 100));
		update = f->actions.header;
		assert_int_equal(update.flags, WIRE_DATA | bare);
		update.flags |= WIRE_NONFINITE;
		update.lanes = chunk ? 0 : LANES;
		deliver(f, result_of(update, 100));
		assert_true(f->actions.store && f->actions.is_amended_later);
		assert_int_equal(f->actions.is_bare, chunk);
		update = f->actions.header;
		assert_int_equal(update.flags, WIRE_DETAIL | bare);
		deliver(f, result_of(update,
				     WIRE_EXPONENT_UNKNOWN)); /* with lanes: it may have them */
		assert_true(f->actions.store && !f->actions.is_bare);
	}
	assert_true(f->actions.is_op_done);
}

static void worker__breaks_at_half_a_result(void **state)
{
	struct worker_op op = { .count = LANES,
				.shape = { 1, 1 },
				.stream = MAP_EXPRESS,
				.wants = wants_five,
				.caller = (const void *)(uintptr_t)wants_five };
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &op };
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	op.count = 2 * LANES;
	worker_step(&f->worker, &event, &f->actions);
	update = start(f);
	deliver(f, result_of(update, 0));
	update = start(f);
	assert_true(update.flags & WIRE_BARE);
	update.lanes = LANES - WIRE_LANES_STEP;
	deliver(f, result_of(update, 0));
	assert_true(f->actions.is_protocol_error);
}

static void worker__a_hint_asks_once_in_every_round(void **state)
{
	struct fixture *f = fixture_new(0);

	(void)state;
	for (uint32_t i = 0; i < 3 * BULK; i++) {
		struct wire update = begin(f, 5, false, i);
		for (uint32_t times = 0; times < 2; times++) {
			deliver(f, say(update, WIRE_NEED, WIRE_HINT));
			assert_int_equal(f->actions.resend, !times);
		}
		deliver(f, result_of(update, 0));
	}
}

static void worker__need_gets_one_copy_and_only_after_a_probe_or_as_a_hint(void **state)
{
	struct fixture *f = fixture_new(0xfffffffe);
	struct wire update;

	(void)state;
	update = begin(f, 5, false, 0);
	deliver(f, say(update, WIRE_NEED, 0));
	assert_false(f->actions.resend); /* nobody asked */
	probe(f, update.slot);
	assert_true(f->actions.probe);
	assert_int_equal(f->actions.header.seq, update.seq);
	assert_int_equal(f->actions.header.tag, 5);
	deliver(f, say(update, WIRE_NEED, 0));
	assert_true(f->actions.resend);
	deliver(f, say(update, WIRE_NEED, 0));
	assert_false(f->actions.resend);
	deliver(f, say(update, WIRE_NEED, WIRE_HINT));
	assert_false(f->actions.resend); /* it was sent twice already */
	deliver(f, result_of(update, 0));
	update = begin(f, 5, false, 1);
	deliver(f, say(update, WIRE_NEED, WIRE_HINT));
	assert_true(f->actions.resend);
	deliver(f, say(update, WIRE_HELD, 0));
	assert_true(f->actions.is_held);
}

/* R-WK-7, R-WK-2 */
static void worker__starts_strictly_in_order_and_never_skips_a_busy_slot(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update[BULK];
	uint32_t slot;

	(void)state;
	submit(f, 3 * BULK * LANES, false, 0);
	for (int i = 0; i < BULK; i++)
		update[i] = start(f);
	assert_false(worker_may_start(&f->worker, 0, MAP_EXPRESS, &slot));
	deliver(f, result_of(update[1], 0)); /* slot 1 is free, but slot 0 comes first */
	assert_false(worker_may_start(&f->worker, 0, MAP_EXPRESS, &slot));
	deliver(f, result_of(update[0], 0));
	assert_true(worker_may_start(&f->worker, 0, MAP_EXPRESS, &slot));
	assert_int_equal(slot, 0);
}

static void worker__empty_operation_is_one_chunk_without_lanes(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update;

	(void)state;
	update = begin(f, 0, false, 0);
	assert_int_equal(update.lanes, 0);
	assert_int_equal(wire_round_of(update.flags), WIRE_DATA);
	deliver(f, result_of(update, 0));
	assert_true(f->actions.is_op_done);
}

static void worker__keeps_at_most_ops_max_operations(void **state)
{
	struct fixture *f = fixture_new(0);
	struct wire update[BULK];

	(void)state;
	for (uint32_t i = 0; i < OPS; i++) {
		assert_true(worker_has_room(&f->worker, MAP_EXPRESS));
		submit(f, 1, false, i);
	}
	assert_false(worker_has_room(&f->worker, MAP_EXPRESS));
	for (uint32_t i = 0; i < BULK; i++)
		update[i] = start(f);
	deliver(f, result_of(update[1], 0));
	assert_false(worker_has_room(&f->worker, MAP_EXPRESS)); /* the oldest is still there */
	deliver(f, result_of(update[0], 0));
	assert_true(worker_has_room(&f->worker, MAP_EXPRESS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worker__numbers_rounds_of_a_slot_over_operations),
		cmocka_unit_test(worker__a_result_of_another_round_is_ignored),
		cmocka_unit_test(worker__nothing_crosses_generations_jobs_or_slots),
		cmocka_unit_test(worker__result_with_another_tag_lanes_or_kind_stores_nothing),
		cmocka_unit_test(worker__first_float_chunk_of_a_slot_agrees_on_an_exponent_first),
		cmocka_unit_test(worker__looks_ahead_so_that_later_chunks_need_no_exponent_round),
		cmocka_unit_test(worker__last_accepted_result_decides_not_what_this_worker_knew),
		cmocka_unit_test(worker__sticky_result_is_stored_raw_and_amended_by_a_detail_round),
		cmocka_unit_test(worker__tag_says_which_chunk_of_its_operation_it_is),
		cmocka_unit_test(worker__sums_are_amended_and_nothing_else_is),
		cmocka_unit_test(worker__sends_of_parts_what_it_has),
		cmocka_unit_test(worker__breaks_at_a_part_that_nobody_sent),
		cmocka_unit_test(worker__of_its_own_part_takes_a_result_without_lanes),
		cmocka_unit_test(worker__may_be_bare_of_what_nobody_wants),
		cmocka_unit_test(worker__leaves_out_zeros_at_the_end),
		cmocka_unit_test(worker__keeps_its_lanes_of_a_sum_that_it_alone_wants),
		cmocka_unit_test(worker__breaks_if_nobody_adds_to_what_it_keeps),
		cmocka_unit_test(worker__keeps_a_part_that_it_alone_wants),
		cmocka_unit_test(worker__breaks_at_half_a_result),
		cmocka_unit_test(worker__a_hint_asks_once_in_every_round),
		cmocka_unit_test(worker__need_gets_one_copy_and_only_after_a_probe_or_as_a_hint),
		cmocka_unit_test(worker__starts_strictly_in_order_and_never_skips_a_busy_slot),
		cmocka_unit_test(worker__empty_operation_is_one_chunk_without_lanes),
		cmocka_unit_test(worker__keeps_at_most_ops_max_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
