/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker of sparse mode sends, keeps and believes: claims about single packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/worker_sparse.h"

enum { WINDOW = 3, KEPT = 6, GENERATION = 5, MAP = 9, WORKER = 1 };

static const struct sparse_table table = { .ranks = 10,
					   .index = 4,
					   .workers = 2,
					   .window = WINDOW,
					   .dim = 1,
					   .bytes = 200 };
static struct worker_sparse worker;
static struct worker_sparse_push pushes[KEPT];
static struct worker_sparse_actions actions;

static int begin(void **state)
{
	(void)state;
	worker_sparse_init(&worker, &table, WORKER, GENERATION, MAP, KEPT, pushes);
	return 0;
}

static void step(enum worker_sparse_event_type type, uint64_t seq)
{
	struct worker_sparse_event event = { .type = type, .seq = seq };

	worker_sparse_step(&worker, &event, &actions);
}

static void submit(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t next = worker.next;

		assert_true(worker_sparse_has_room(&worker));
		step(WORKER_SPARSE_SUBMIT, 0);
		assert_true(actions.submitted);
		assert_int_equal(actions.seq, next);
	}
}

/* Sends whatever may be sent; how many. */
static uint32_t send_all(void)
{
	uint32_t sent = 0;

	for (; worker_sparse_may_send(&worker); sent++) {
		step(WORKER_SPARSE_SEND, 0);
		assert_true(actions.send);
		assert_int_equal(actions.header.kind, SPARSE_PUSH);
		assert_int_equal(actions.header.number, actions.seq);
		assert_int_equal(actions.header.generation, worker.generation);
		assert_int_equal(actions.header.worker, WORKER);
		assert_int_equal(actions.header.table, table.index);
		assert_int_equal(actions.header.map, worker.map);
	}
	return sent;
}

/* SWITCH says so. */
static void name(uint64_t generation, uint32_t map)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_NAME,
					     .generation = generation,
					     .map = map };

	worker_sparse_step(&worker, &event, &actions);
}

static void give_resume(uint64_t generation, uint32_t map)
{
	uint8_t at[SPARSE_HEADER_BYTES + 8 * WINDOW] = { 0 };
	struct sparse packet = { .kind = SPARSE_RESUME,
				 .table = table.index,
				 .worker = WORKER,
				 .generation = generation,
				 .number = 7,
				 .map = map,
				 .count = 1,
				 .width = WINDOW };
	struct worker_sparse_event event = { .type = WORKER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	sparse_put(at, &packet);
	worker_sparse_step(&worker, &event, &actions);
}

static void give(enum sparse_kind kind, uint64_t generation, uint64_t number, uint64_t a,
		 uint64_t b, uint64_t c)
{
	uint8_t at[SPARSE_HEADER_BYTES + 8 * WINDOW];
	struct sparse packet = { .kind = (uint8_t)kind,
				 .table = table.index,
				 .worker = WORKER,
				 .generation = generation,
				 .number = number,
				 .map = MAP,
				 .count = 1,
				 .width = WINDOW };
	struct worker_sparse_event event = { .type = WORKER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	if (kind == SPARSE_ACK)
		packet.count = packet.width = 0;
	if (kind == SPARSE_RESUME)
		name(generation, MAP);
	sparse_put(at, &packet);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, a);
	sparse_body_put64(at + SPARSE_HEADER_BYTES + 8, b);
	sparse_body_put64(at + SPARSE_HEADER_BYTES + 16, c);
	worker_sparse_step(&worker, &event, &actions);
}

static void ack(uint64_t seq)
{
	give(SPARSE_ACK, worker.generation, seq, 0, 0, 0);
}

static void what_is_for_another_worker_or_table_does_nothing(void **state)
{
	struct sparse_table other = table;

	(void)state;
	other.index++;
	submit(2);
	assert_int_equal(send_all(), 2);
	worker.worker = WORKER + 1;
	ack(1);
	assert_false(actions.is_acked);
	worker.worker = WORKER;
	worker.table = &other;
	ack(1);
	assert_false(actions.is_acked);
	worker.table = &table;
	ack(1);
	assert_true(actions.is_acked);
}

static void the_window_moves_with_the_oldest(void **state)
{
	(void)state;
	submit(5);
	assert_int_equal(send_all(), 3);
	ack(2);
	assert_true(actions.is_acked);
	ack(3);
	assert_int_equal(send_all(), 0); /* 4 waits for 1 */
	ack(1);
	assert_int_equal(send_all(), 2);
	ack(6);
	assert_false(actions.is_acked); /* never sent */
}

/* R-SP-17 */
static void what_is_acknowledged_is_kept_until_it_is_committed(void **state)
{
	(void)state;
	submit(6);
	assert_false(worker_sparse_has_room(&worker));
	send_all();
	ack(1);
	ack(2);
	ack(3);
	assert_false(worker_sparse_has_room(&worker));
	assert_false(worker_sparse_is_freed(&worker, 1));
	give(SPARSE_COMMITTED, GENERATION, 1, 0, 1, 2); /* places 0, 1, 2: so 1 and 2 */
	assert_true(actions.freed);
	assert_true(worker_sparse_is_freed(&worker, 1) && worker_sparse_is_freed(&worker, 2));
	assert_false(worker_sparse_is_freed(&worker, 3));
	submit(2);
	assert_false(worker_sparse_has_room(&worker));
}

static void pushes_may_be_freed_out_of_order(void **state)
{
	(void)state;
	submit(3);
	send_all();
	give(SPARSE_COMMITTED, GENERATION, 1, 3, 0, 2);
	assert_true(worker_sparse_is_freed(&worker, 3) && worker_sparse_is_freed(&worker, 2));
	assert_int_equal(worker.low, 1);
	assert_true(worker_sparse_is_due(&worker, 1));
	assert_false(worker_sparse_is_due(&worker, 3));
	give(SPARSE_COMMITTED, GENERATION, 2, 3, 1, 2);
	assert_int_equal(worker.low, 4);
}

static void a_commit_stands_for_a_lost_ack(void **state)
{
	(void)state;
	submit(4);
	send_all();
	give(SPARSE_COMMITTED, GENERATION, 1, 0, 1, 0);
	assert_int_equal(send_all(), 1);
}

static void it_asks_while_something_is_acknowledged_and_not_committed(void **state)
{
	(void)state;
	assert_false(worker_sparse_wants(&worker));
	submit(1);
	send_all();
	assert_false(worker_sparse_wants(&worker)); /* its own timer is enough */
	ack(1);
	assert_true(worker_sparse_wants(&worker));
	step(WORKER_SPARSE_ASK, 0);
	assert_true(actions.ask);
	assert_int_equal(actions.header.kind, SPARSE_ASK);
	give(SPARSE_COMMITTED, GENERATION, 1, 0, 1, 0);
	assert_false(worker_sparse_wants(&worker));
	submit(worker.kept_max / 2 - 1);
	send_all();
	assert_false(worker_sparse_wants(&worker));
	submit(1);
	send_all();
	assert_true(worker_sparse_wants(&worker)); /* half of what it can keep */
}

/* R-SP-19 */
static void three_later_ones_bring_a_copy_one_time(void **state)
{
	static struct sparse_table wide;
	static struct worker_sparse_push kept[16];

	(void)state;
	wide = table;
	wide.window = 8;
	worker_sparse_init(&worker, &wide, WORKER, GENERATION, MAP, 16, kept);
	submit(8);
	assert_int_equal(send_all(), 8);
	ack(2);
	ack(3);
	assert_false(actions.send);
	ack(3); /* a copy counts once */
	assert_false(actions.send);
	ack(4);
	assert_true(actions.send);
	assert_int_equal(actions.seq, 1);
	assert_int_equal(actions.header.number, 1);
	ack(5);
	assert_false(actions.send);
	step(WORKER_SPARSE_RESEND, 1);
	assert_true(actions.send);
	ack(1);
	assert_true(actions.is_acked);
	assert_false(worker_sparse_is_due(&worker, 1));
}

static void a_resume_sends_all_that_is_not_covered_again_in_order(void **state)
{
	(void)state;
	submit(5);
	send_all();
	ack(1);
	ack(2);
	ack(3);
	send_all();
	give(SPARSE_RESUME, GENERATION + 2, 7, 0, 1, 0);
	assert_true(actions.resumed && actions.answer && actions.freed);
	assert_false(actions.is_map_new);
	assert_int_equal(actions.header.kind, SPARSE_RESUMED);
	assert_int_equal(actions.header.generation, GENERATION + 2);
	assert_true(worker_sparse_is_freed(&worker, 1));
	assert_int_equal(worker.sent, 2);
	assert_int_equal(send_all(), 3); /* 5 waits for 2, whose ACK was of another generation */
	ack(2);
	assert_int_equal(send_all(), 1);
}

/* R-SP-22: what anybody may say, with the largest number or a good guess, moves nobody. */
static void a_resume_that_nobody_has_named_changes_nothing(void **state)
{
	struct worker_sparse before;

	(void)state;
	submit(5);
	send_all();
	name(GENERATION + 7, MAP + 1);
	before = worker;
	give_resume(UINT64_MAX, MAP + 1);
	assert_true(actions.is_dropped && !actions.answer && !actions.resumed);
	give_resume(GENERATION + 6, MAP + 1);
	assert_true(actions.is_dropped);
	give_resume(GENERATION + 8, MAP + 1);
	assert_true(actions.is_dropped);
	give_resume(GENERATION + 7, MAP); /* not its map */
	assert_true(actions.is_dropped && !actions.answer);
	name(GENERATION + 3, MAP); /* of a connection that was slower than the next one */
	give_resume(GENERATION + 3, MAP);
	assert_true(actions.is_dropped);
	assert_memory_equal(&before, &worker, sizeof(before));
	give_resume(GENERATION + 7, MAP + 1);
	assert_true(actions.resumed && actions.is_map_new && actions.answer);
	give(SPARSE_COMMITTED, UINT64_MAX, 99, 3, 4, 5);
	assert_true(actions.is_dropped && !actions.freed && !actions.is_protocol_error);
}

static void a_second_resume_is_answered_and_changes_nothing(void **state)
{
	struct worker_sparse before;
	struct worker_sparse_push kept[KEPT];

	(void)state;
	submit(2);
	give(SPARSE_RESUME, GENERATION + 1, 7, 0, 0, 0);
	send_all();
	ack(1);
	before = worker;
	memcpy(kept, pushes, sizeof(kept));
	give(SPARSE_RESUME, GENERATION + 1, 7, 0, 0, 0);
	assert_true(actions.answer);
	assert_false(actions.resumed || actions.freed);
	assert_memory_equal(&before, &worker, sizeof(before));
	assert_memory_equal(kept, pushes, sizeof(kept));
}

static void nothing_of_an_older_generation_counts(void **state)
{
	(void)state;
	submit(2);
	send_all();
	give(SPARSE_RESUME, GENERATION + 1, 7, 0, 0, 0);
	send_all();
	give(SPARSE_ACK, GENERATION, 1, 0, 0, 0);
	assert_false(actions.is_acked);
	give(SPARSE_COMMITTED, GENERATION, 6, 0, 1, 2);
	assert_false(actions.freed);
	give(SPARSE_RESUME, GENERATION, 6, 0, 1, 2);
	assert_false(actions.freed || actions.answer);
	give(SPARSE_COMMITTED, GENERATION + 2, 8, 0, 1, 2); /* nor of one that it does not know */
	assert_false(actions.freed);
}

static void a_row_that_covers_what_was_never_sent_is_refused(void **state)
{
	(void)state;
	submit(2);
	send_all();
	give(SPARSE_COMMITTED, GENERATION, 1, 3, 1, 2);
	assert_true(actions.is_protocol_error);
	assert_int_equal(worker.low, 1);
	give(SPARSE_RESUME, GENERATION + 1, 1, 0, 4, 2);
	assert_true(actions.is_protocol_error);
	assert_int_equal(worker.generation, GENERATION);
}

/* Submitted is not sent: what only its own worker has cannot be committed. */
static void a_row_that_covers_what_was_only_submitted_is_refused(void **state)
{
	(void)state;
	submit(5);
	assert_int_equal(send_all(), 3);
	give(SPARSE_COMMITTED, GENERATION, 1, 3, 4, 2);
	assert_true(actions.is_protocol_error);
	assert_false(actions.freed);
	assert_int_equal(worker.low, 1);
	give(SPARSE_RESUME, GENERATION + 1, 1, 3, 4, 2);
	assert_true(actions.is_protocol_error);
	assert_int_equal(worker.generation, GENERATION);
	give(SPARSE_COMMITTED, GENERATION, 1, 3, 1, 2);
	assert_true(actions.freed && !actions.is_protocol_error);
	assert_int_equal(send_all(), 2);
}

/* What an older generation has sent may be in the server, but not by a commit of a younger one that has not sent it. */
static void a_commit_covers_what_its_generation_has_sent(void **state)
{
	(void)state;
	submit(3);
	assert_int_equal(send_all(), 3);
	give(SPARSE_RESUME, GENERATION + 1, 1, 3, 0, 0); /* 3 alone is in */
	assert_true(actions.resumed && actions.freed);
	give(SPARSE_COMMITTED, GENERATION + 1, 2, 3, 1, 0);
	assert_true(actions.is_protocol_error);
	assert_false(worker_sparse_is_freed(&worker, 1));
	give(SPARSE_COMMITTED, GENERATION + 1, 2, 3, 0, 0); /* 3 is known to be */
	assert_false(actions.is_protocol_error);
	step(WORKER_SPARSE_SEND, 0);
	assert_int_equal(actions.seq, 1);
	give(SPARSE_COMMITTED, GENERATION + 1, 2, 3, 1, 0);
	assert_true(actions.freed && !actions.is_protocol_error);
}

static int begin_stepped(void **state)
{
	static struct sparse_table stepped;

	stepped = table;
	stepped.is_stepped = 1;
	(void)state;
	worker_sparse_init(&worker, &stepped, WORKER, GENERATION, MAP, KEPT, pushes);
	worker.step = 4;
	return 0;
}

static void a_step_ends_when_all_of_it_is_acknowledged(void **state)
{
	(void)state;
	submit(2);
	send_all();
	ack(1);
	ack(2);
	assert_false(worker_sparse_may_end(&worker)); /* there may be more */
	assert_false(worker_sparse_wants(&worker));
	submit(1);
	step(WORKER_SPARSE_CLOSE, 0);
	assert_false(worker_sparse_has_room(&worker));
	assert_false(worker_sparse_may_end(&worker));
	send_all();
	assert_false(worker_sparse_may_end(&worker));
	ack(3);
	assert_true(worker_sparse_may_end(&worker));
	step(WORKER_SPARSE_END, 0);
	assert_true(actions.end);
	assert_int_equal(actions.seq, 3);
	assert_int_equal(actions.header.kind, SPARSE_END);
	assert_int_equal(actions.header.number, 4);
	assert_int_equal(actions.header.generation, GENERATION);
	assert_true(sparse_is_shaped(&actions.header));
}

static void a_step_is_left_when_its_epoch_is_committed(void **state)
{
	(void)state;
	submit(1);
	send_all();
	step(WORKER_SPARSE_CLOSE, 0);
	ack(1);
	give(SPARSE_COMMITTED, GENERATION, 3, 0, 0, 0); /* of the step before */
	assert_false(actions.left);
	give(SPARSE_COMMITTED, GENERATION, 4, 0, 1, 0);
	assert_true(actions.left && actions.freed);
	assert_int_equal(worker.step, 5);
	assert_true(worker_sparse_has_room(&worker));
	give(SPARSE_COMMITTED, GENERATION, 4, 0, 1, 0);
	assert_false(actions.left);
	step(WORKER_SPARSE_CLOSE, 0); /* a step without a push ends as well */
	assert_true(worker_sparse_may_end(&worker));
}

static void a_fence_voids_the_end_of_a_step_that_is_not_applied(void **state)
{
	(void)state;
	submit(1);
	send_all();
	step(WORKER_SPARSE_CLOSE, 0);
	ack(1);
	assert_true(worker_sparse_may_end(&worker));
	give(SPARSE_RESUME, GENERATION + 1, 4, 0, 0, 0);
	assert_false(actions.left);
	assert_false(worker_sparse_may_end(&worker));
	send_all();
	ack(1);
	assert_true(worker_sparse_may_end(&worker));
	give(SPARSE_RESUME, GENERATION + 2, 5, 0, 1, 0);
	assert_true(actions.left);
	assert_int_equal(worker.step, 5);
}

static void numbers_near_the_end_of_32_bits_are_just_numbers(void **state)
{
	uint64_t first = UINT32_MAX - 1ull;

	(void)state;
	worker.low = worker.sent = worker.next = first;
	submit(4);
	assert_int_equal(send_all(), 3); /* what is below low is freed */
	ack(first + 2);
	ack(first + 1);
	assert_int_equal(send_all(), 0);
	ack(first);
	assert_int_equal(send_all(), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_for_another_worker_or_table_does_nothing, begin),
		cmocka_unit_test_setup(the_window_moves_with_the_oldest, begin),
		cmocka_unit_test_setup(what_is_acknowledged_is_kept_until_it_is_committed, begin),
		cmocka_unit_test_setup(pushes_may_be_freed_out_of_order, begin),
		cmocka_unit_test_setup(a_commit_stands_for_a_lost_ack, begin),
		cmocka_unit_test_setup(it_asks_while_something_is_acknowledged_and_not_committed,
				       begin),
		cmocka_unit_test_setup(three_later_ones_bring_a_copy_one_time, begin),
		cmocka_unit_test_setup(a_resume_sends_all_that_is_not_covered_again_in_order,
				       begin),
		cmocka_unit_test_setup(a_resume_that_nobody_has_named_changes_nothing, begin),
		cmocka_unit_test_setup(a_second_resume_is_answered_and_changes_nothing, begin),
		cmocka_unit_test_setup(nothing_of_an_older_generation_counts, begin),
		cmocka_unit_test_setup(a_row_that_covers_what_was_never_sent_is_refused, begin),
		cmocka_unit_test_setup(a_row_that_covers_what_was_only_submitted_is_refused, begin),
		cmocka_unit_test_setup(a_commit_covers_what_its_generation_has_sent, begin),
		cmocka_unit_test_setup(a_step_ends_when_all_of_it_is_acknowledged, begin_stepped),
		cmocka_unit_test_setup(a_step_is_left_when_its_epoch_is_committed, begin_stepped),
		cmocka_unit_test_setup(a_fence_voids_the_end_of_a_step_that_is_not_applied,
				       begin_stepped),
		cmocka_unit_test_setup(numbers_near_the_end_of_32_bits_are_just_numbers, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
