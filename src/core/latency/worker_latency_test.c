/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/latency/worker_latency.h"
#include "core/shared/map.h"

enum { SLOTS_MAX = 8, LANES = 8, OPS = 16, GENERATION = 9, JOB = 3, CHILD = 1 };

struct fixture {
	struct worker_latency worker;
	struct worker_latency_slot slots[SLOTS_MAX];
	struct worker_latency_op_state ops[OPS];
	struct worker_latency_actions actions;
};

/* Operations are numbered from `first` on. */
static struct fixture *fixture_new(uint32_t slots, uint32_t window, uint64_t first)
{
	static struct fixture f;

	memset(&f, 0, sizeof(f));
	worker_latency_init(&f.worker, slots, window, LANES, OPS, f.slots, f.ops);
	f.worker.generation = GENERATION;
	f.worker.job = JOB;
	f.worker.child = CHILD;
	f.worker.head = f.worker.next = f.worker.tail = first;
	return &f;
}

static void submit(struct fixture *f, uint32_t count, uint64_t cookie)
{
	struct worker_latency_op op = { .hash = 1000 + cookie, .cookie = cookie, .count = count };
	struct worker_latency_event event = { .type = WORKER_LATENCY_SUBMIT, .op = &op };

	worker_latency_step(&f->worker, &event, &f->actions);
}

static bool may_start(const struct fixture *f)
{
	uint32_t slot;

	return worker_latency_may_start(&f->worker, &slot);
}

static struct wire start(struct fixture *f)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_START };

	worker_latency_step(&f->worker, &event, &f->actions);
	assert_true(f->actions.build);
	assert_int_equal(f->actions.slot, f->actions.header.slot);
	return f->actions.header;
}

static struct wire submit_and_start(struct fixture *f, uint32_t count, uint64_t cookie)
{
	submit(f, count, cookie);
	return start(f);
}

static void resend(struct fixture *f, uint32_t slot)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_RESEND, .slot = slot };

	worker_latency_step(&f->worker, &event, &f->actions);
}

static void deliver(struct fixture *f, struct wire packet)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_PACKET, .packet = &packet };

	worker_latency_step(&f->worker, &event, &f->actions);
}

static struct wire result_of(struct wire update)
{
	update.type = WIRE_RESULT;
	update.child = 7;
	return update;
}

static struct wire say(struct wire update, enum wire_type type, uint32_t tag)
{
	update.type = (uint8_t)type;
	update.flags = 0;
	update.lanes = 0;
	update.tag = tag;
	return update;
}

static bool is_ignored(const struct fixture *f)
{
	const struct worker_latency_actions *actions = &f->actions;

	return !actions->store && !actions->ack && !actions->build && !actions->resend &&
	       !actions->is_answered && !actions->is_held && !actions->is_protocol_error &&
	       !actions->done;
}

static void worker_latency__operation_k_uses_slot_k_mod_s_in_round_k_div_s_plus_1(void **state)
{
	struct fixture *f = fixture_new(4, 2, 0x3fffffff8); /* round 0xffffffff is next */

	(void)state;
	assert_int_equal(f->worker.mode, SWITCH_LATENCY);
	for (uint32_t i = 0; i < 16; i++) {
		struct wire update = submit_and_start(f, i % 9, i);

		assert_int_equal(update.type, WIRE_UPDATE);
		assert_int_equal(update.flags, WIRE_DATA | WIRE_ADD << WIRE_OP_SHIFT);
		assert_int_equal(update.slot, i % 4);
		assert_int_equal(update.seq, 0xffffffffu + i / 4);
		assert_int_equal(update.generation, GENERATION);
		assert_int_equal(update.job, JOB);
		assert_int_equal(update.child, CHILD);
		assert_int_equal(update.lanes, (i % 9 + 3) / 4 * 4);
		assert_int_equal(update.tag, map_tag(1000 + i, 0));
		assert_int_equal(f->actions.op, 0x3fffffff8 + i);
		deliver(f, result_of(update));
		assert_true(f->actions.store);
		assert_true(f->actions.is_answered);
		assert_false(f->actions.ack);
		assert_int_equal(f->actions.op, 0x3fffffff8 + i);
		assert_int_equal(f->actions.done, 1);
		assert_int_equal(f->actions.done_first, 0x3fffffff8 + i);
		assert_int_equal(worker_latency_op(&f->worker, f->actions.done_first)->op.cookie,
				 i);
	}
}

static void worker_latency__at_most_p_operations_have_no_result(void **state)
{
	struct fixture *f = fixture_new(8, 3, 0);
	struct wire update[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		submit(f, 1, i);
	for (uint32_t i = 0; i < 3; i++)
		update[i] = start(f);
	assert_false(may_start(f)); /* five slots are free, but operation 0 has no result */
	deliver(f, result_of(update[1]));
	deliver(f, result_of(update[2]));
	assert_false(may_start(f));
	deliver(f, result_of(update[0]));
	assert_true(may_start(f));
}

static void worker_latency__results_are_stored_at_once_and_complete_in_order(void **state)
{
	struct fixture *f = fixture_new(8, 3, 5);
	struct wire update[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		update[i] = submit_and_start(f, 4, i);
	deliver(f, result_of(update[2]));
	assert_true(f->actions.store);
	assert_int_equal(f->actions.op, 7);
	assert_int_equal(f->actions.done, 0);
	deliver(f, result_of(update[0]));
	assert_int_equal(f->actions.done, 1);
	assert_int_equal(f->actions.done_first, 5);
	deliver(f, result_of(update[1]));
	assert_int_equal(f->actions.done, 2);
	assert_int_equal(f->actions.done_first, 6);
	assert_int_equal(f->worker.head, 8);
}

static void worker_latency__a_copy_of_a_result_does_nothing(void **state)
{
	struct fixture *f = fixture_new(4, 2, 0);
	struct wire update = submit_and_start(f, 4, 0);

	(void)state;
	deliver(f, result_of(update));
	deliver(f, result_of(update));
	assert_true(is_ignored(f));
}

static void worker_latency__what_is_not_for_this_round_is_ignored(void **state)
{
	struct fixture *f = fixture_new(2, 1, 0xfffffffe * 2ull);
	struct wire update = submit_and_start(f, 4, 0), wrong;

	(void)state;
	assert_int_equal(update.seq, 0xffffffff);
	f->slots[2] =
		f->slots[0]; /* what lies behind the last is no slot, whatever it looks like */
	for (int i = 0; i < 6; i++) {
		wrong = result_of(update);
		wrong.seq += i == 0 ? 1u : i == 1 ? (uint32_t)-1 : 0u;
		wrong.generation += i == 2;
		wrong.job = (uint16_t)(wrong.job + (i == 3));
		wrong.slot = (uint16_t)(wrong.slot + (i == 4 ? 1 : i == 5 ? 2 : 0));
		deliver(f, wrong);
		assert_true(is_ignored(f));
	}
	deliver(f, say(update, WIRE_CONFIRM, update.tag)); /* nobody waits for one */
	assert_true(is_ignored(f));
	deliver(f, say(update, WIRE_NEED, 0));
	assert_true(is_ignored(f));
	deliver(f, result_of(update));
	assert_true(f->actions.store);
}

static void worker_latency__a_result_of_another_operation_breaks_the_job(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fixture *f = fixture_new(2, 1, 0);
		struct wire wrong = result_of(submit_and_start(f, 4, 0));

		wrong.tag += i == 0;
		wrong.lanes = (uint16_t)(wrong.lanes + (i == 1 ? 4 : 0));
		wrong.flags |= i == 2 ? WIRE_EXPONENT : i == 3 ? WIRE_MAX << WIRE_OP_SHIFT : 0;
		deliver(f, wrong);
		assert_true(f->actions.is_protocol_error);
		assert_false(f->actions.store);
		assert_int_equal(f->worker.head, 0);
	}
}

static void worker_latency__range_of_any_worker_is_kept_with_the_operation(void **state)
{
	struct fixture *f = fixture_new(4, 2, 0);
	struct wire update[2] = { submit_and_start(f, 4, 0), submit_and_start(f, 4, 1) };
	struct wire result = result_of(update[1]);

	(void)state;
	result.flags |= WIRE_RANGE;
	deliver(f, result);
	assert_true(f->actions.is_range);
	assert_false(f->actions.is_protocol_error);
	deliver(f, result_of(update[0]));
	assert_int_equal(f->actions.done, 2);
	assert_false(worker_latency_op(&f->worker, 0)->is_range);
	assert_true(worker_latency_op(&f->worker, 1)->is_range);
}

static void worker_latency__acknowledged_slots_wait_for_confirm(void **state)
{
	struct fixture *f = fixture_new(2, 2, 0);
	struct wire update[2] = { submit_and_start(f, 4, 0), submit_and_start(f, 4, 1) };

	(void)state;
	assert_int_equal(f->worker.mode, SWITCH_LATENCY_ACKNOWLEDGED);
	submit(f, 4, 2);
	deliver(f, result_of(update[0]));
	assert_true(f->actions.store);
	assert_int_equal(f->actions.done, 1); /* the operation is; its slot is not */
	assert_true(f->actions.ack);
	assert_int_equal(f->actions.header.type, WIRE_ACK);
	assert_int_equal(f->actions.header.flags, 0);
	assert_int_equal(f->actions.header.seq, 1);
	assert_int_equal(f->actions.header.lanes, 0);
	assert_int_equal(f->actions.header.tag, update[0].tag);
	assert_int_equal(f->actions.header.child, CHILD);
	assert_false(may_start(f));
	deliver(f, result_of(update[0])); /* a copy: the ACK has its own timer */
	assert_true(is_ignored(f));
	update[0].seq++;
	deliver(f, say(update[0], WIRE_CONFIRM, update[0].tag));
	assert_true(is_ignored(f));
	update[0].seq--;
	deliver(f, say(update[0], WIRE_CONFIRM, update[0].tag));
	assert_true(f->actions.is_answered);
	assert_false(f->actions.store);
	assert_true(may_start(f));
	assert_int_equal(start(f).seq, 2);
	deliver(f, say(update[0], WIRE_CONFIRM, update[0].tag)); /* a copy, of the round before */
	assert_true(is_ignored(f));
}

static void worker_latency__a_busy_slot_is_never_skipped(void **state)
{
	struct fixture *f = fixture_new(3, 2, 0);
	struct wire update[3];

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		submit(f, 1, i);
	for (uint32_t i = 0; i < 3; i++) {
		update[i] = start(f);
		deliver(f, result_of(update[i]));
	}
	deliver(f, say(update[1], WIRE_CONFIRM, update[1].tag));
	assert_false(
		may_start(f)); /* operation 3's slot 0 is not confirmed; slot 1 would be free */
	deliver(f, say(update[0], WIRE_CONFIRM, update[0].tag));
	assert_true(may_start(f));
}

static void worker_latency__resends_the_update_then_the_ack(void **state)
{
	struct fixture *f = fixture_new(1, 1, 0);
	struct wire update = submit_and_start(f, 4, 0);

	(void)state;
	resend(f, 0);
	assert_true(f->actions.resend);
	assert_false(f->actions.ack);
	deliver(f, result_of(update));
	resend(f, 0);
	assert_false(f->actions.resend);
	assert_true(f->actions.ack);
	assert_int_equal(f->actions.header.type, WIRE_ACK);
	assert_int_equal(f->actions.header.flags, WIRE_RESENT);
	assert_int_equal(f->actions.header.seq, update.seq);
}

static void worker_latency__held_is_taken_only_for_what_was_sent_last(void **state)
{
	struct fixture *f = fixture_new(1, 1, 0);
	struct wire update = submit_and_start(f, 4, 0);

	(void)state;
	deliver(f, say(update, WIRE_HELD, update.tag)); /* answers an ACK that was not sent */
	assert_false(f->actions.is_held);
	deliver(f, say(update, WIRE_HELD, 0));
	assert_true(f->actions.is_held);
	deliver(f, result_of(update));
	deliver(f, say(update, WIRE_HELD, 0)); /* late: answers the UPDATE */
	assert_false(f->actions.is_held);
	deliver(f, say(update, WIRE_HELD, update.tag));
	assert_true(f->actions.is_held);
	deliver(f, say(update, WIRE_CONFIRM, update.tag));
	deliver(f, say(update, WIRE_HELD, update.tag));
	assert_false(f->actions.is_held);
}

static void worker_latency__has_room_for_so_many_operations(void **state)
{
	struct fixture *f = fixture_new(4, 2, 3);

	(void)state;
	for (uint32_t i = 0; i < OPS; i++) {
		assert_true(worker_latency_has_room(&f->worker));
		submit(f, 1, i);
	}
	assert_false(worker_latency_has_room(&f->worker));
	deliver(f, result_of(start(f)));
	assert_true(worker_latency_has_room(&f->worker));
}

/* R-LAT-17 */
static void worker_latency__a_life_begins_with_nothing_of_the_one_before(void **state)
{
	struct fixture *f = fixture_new(1, 1, 0);

	(void)state;
	deliver(f, result_of(submit_and_start(f, 4, 7)));
	worker_latency_init(&f->worker, 1, 1, LANES, OPS, f->slots, f->ops);
	assert_int_equal(f->slots[0].state, WORKER_LATENCY_IDLE);
	assert_int_equal(f->slots[0].seq, 0);
	assert_int_equal(f->ops[0].is_stored, 0);
	assert_int_equal(f->ops[0].op.cookie, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			worker_latency__operation_k_uses_slot_k_mod_s_in_round_k_div_s_plus_1),
		cmocka_unit_test(worker_latency__at_most_p_operations_have_no_result),
		cmocka_unit_test(worker_latency__results_are_stored_at_once_and_complete_in_order),
		cmocka_unit_test(worker_latency__a_copy_of_a_result_does_nothing),
		cmocka_unit_test(worker_latency__what_is_not_for_this_round_is_ignored),
		cmocka_unit_test(worker_latency__a_result_of_another_operation_breaks_the_job),
		cmocka_unit_test(worker_latency__range_of_any_worker_is_kept_with_the_operation),
		cmocka_unit_test(worker_latency__acknowledged_slots_wait_for_confirm),
		cmocka_unit_test(worker_latency__a_busy_slot_is_never_skipped),
		cmocka_unit_test(worker_latency__resends_the_update_then_the_ack),
		cmocka_unit_test(worker_latency__held_is_taken_only_for_what_was_sent_last),
		cmocka_unit_test(worker_latency__has_room_for_so_many_operations),
		cmocka_unit_test(worker_latency__a_life_begins_with_nothing_of_the_one_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
