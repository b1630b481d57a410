/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse mode's switch: claims about single packets, and about flushes of a small table. Argument: the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/random.h"

#include "core/sparse/switch_sparse_fixture.h"

static struct scene only, *const scene = &only;

static int scene_begins(void **state)
{
	(void)state;
	scene_open(scene, (struct sparse_table){ .ranks = 3,
						 .index = 4,
						 .workers = 2,
						 .window = 2,
						 .dim = 1,
						 .bytes = 200 });
	return 0;
}

static int scene_ends(void **state)
{
	(void)state;
	scene_close(scene);
	return 0;
}

static enum switch_sparse_verdict push_one(uint64_t seq, int32_t value)
{
	struct sparse packet = header_of(scene, SPARSE_PUSH, seq);

	packet.worker = 1;
	packet.count = 1;
	packet.width = 1;
	sparse_body_put32(scene->at + SPARSE_HEADER_BYTES, 2);
	sparse_body_put32(scene->at + SPARSE_HEADER_BYTES + 4, (uint32_t)value);
	return give(scene, &packet);
}

static void a_table_has_as_many_workers_as_a_switch_has_children(void **state)
{
	struct sparse_table table = {
		.ranks = 3, .workers = SWITCH_CHILDREN_MAX, .window = 2, .dim = 1, .bytes = 200
	};

	(void)state;
	assert_true(sparse_table_is_sound(&table));
	table.workers++;
	assert_false(sparse_table_is_sound(&table));
}

static void a_sum_of_zero_is_flushed_and_an_untouched_rank_is_not(void **state)
{
	uint8_t at[200];
	struct sparse packet = { 0 };

	(void)state;
	set_up(scene);
	push_one(1, 7);
	push_one(2, -7);
	switch_sparse_flip(&scene->state);
	switch_sparse_part(&scene->table, &scene->state, &scene->memory, 1, at);
	sparse_get(at, &packet);
	assert_int_equal(packet.count, 1);
	assert_int_equal(sparse_body_get32(sparse_item(&packet, at, 0)), 2);
	assert_int_equal(sum_at(&packet, sparse_item(&packet, at, 0), 0), 0);
}

static void a_part_is_short_while_each_of_its_sums_has_32_bits(void **state)
{
	static const int64_t sums[] = { 0,         INT32_MAX,       INT32_MIN,
					INT64_MIN, INT32_MAX + 1ll, INT32_MIN - 1ll };
	uint8_t at[200];

	(void)state;
	set_up(scene);
	push_one(1, 1);
	switch_sparse_flip(&scene->state);
	for (uint32_t i = 0; i < 6; i++) {
		struct sparse packet = { 0 };
		uint32_t bytes;

		scene->memory.sum[(FIRST_EPOCH & 1) * 3 + 2] = sums[i];
		bytes = switch_sparse_part(&scene->table, &scene->state, &scene->memory, 1, at);
		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_int_equal(packet.kind, i < 3 ? SPARSE_FLUSH_SHORT : SPARSE_FLUSH);
		assert_int_equal(bytes, SPARSE_HEADER_BYTES + (i < 3 ? 8 : 12));
		assert_int_equal(sum_at(&packet, sparse_item(&packet, at, 0), 0), sums[i]);
	}
}

/* Of a table of however many ranks: what was touched goes out, and the bank's next epoch has a list of its own. */
static void a_flush_has_the_touched_ranks_and_no_more(void **state)
{
	struct sparse packet;

	(void)state;
	set_up(scene);
	for (uint64_t epoch = FIRST_EPOCH; epoch < FIRST_EPOCH + 6; epoch++) {
		bool is_empty = epoch % 3 == 0;
		uint8_t at[200], *at_end;

		for (uint64_t seq = 2 * epoch; seq < 2 * epoch + 2 && !is_empty; seq++)
			assert_int_equal(push_one(seq, 1), SWITCH_SPARSE_ADDED);
		switch_sparse_flip(&scene->state);
		assert_int_equal(switch_sparse_parts(&scene->table, &scene->state),
				 is_empty ? 1 : 2);
		for (uint32_t part = 0; part < (is_empty ? 1 : 2); part++) {
			memset(at, 0xa5, sizeof(at));
			at_end = at + switch_sparse_part(&scene->table, &scene->state,
							 &scene->memory, part, at);
			assert_int_equal(*at_end, 0xa5); /* nothing is written behind it */
			sparse_get(at, &packet);
			assert_int_equal(packet.parts, is_empty ? 1 : 2);
			assert_int_equal(packet.count, part ? 1 : 2);
		}
		packet = header_of(scene, SPARSE_COMMITTED, epoch);
		assert_int_equal(give(scene, &packet), SWITCH_SPARSE_TAKEN);
	}
}

static void a_sum_saturates_both_ways_and_says_so_in_its_epoch(void **state)
{
	uint64_t bank = FIRST_EPOCH & 1;

	(void)state;
	set_up(scene);
	push_one(1, 1);
	scene->memory.sum[bank * 3 + 2] = INT64_MAX - 1;
	push_one(2, 1);
	assert_int_equal(scene->state.flags[bank], 0);
	push_one(3, 1);
	assert_int_equal(scene->memory.sum[bank * 3 + 2], INT64_MAX);
	assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
	scene->memory.sum[bank * 3 + 2] = INT64_MIN + 1;
	push_one(4, -2);
	assert_int_equal(scene->memory.sum[bank * 3 + 2], INT64_MIN);
	push_one(5, 1);
	assert_int_equal(scene->state.flags[bank],
			 SPARSE_SATURATED); /* what fits does not mend it */
	switch_sparse_flip(&scene->state);
	assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
	assert_int_equal(scene->state.flags[!bank], 0);
	push_one(6, 9);
	assert_int_equal(scene->memory.sum[(!bank) * 3 + 2], 9);
}

static void setup_is_for_one_instance_once(void **state)
{
	struct sparse packet;

	(void)state;
	setup_draw(scene, 0, &packet);
	sparse_body_put64(scene->at + SPARSE_HEADER_BYTES, INSTANCE + 1);
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_STALE);
	assert_int_equal(push_one(1, 1), SWITCH_SPARSE_DROP_GENERATION);
	set_up(scene);
	assert_int_equal(push_one(1, 1), SWITCH_SPARSE_ADDED);
	setup_draw(scene, 0, &packet); /* a copy: READY again, and nothing is lost */
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_READY);
	assert_int_equal(push_one(1, 1), SWITCH_SPARSE_REPEAT);
	setup_draw(scene, 0, &packet);
	packet.generation++;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_GENERATION);
	assert_int_equal(push_one(2, 1), SWITCH_SPARSE_ADDED);
}

static void a_push_of_another_map_is_dropped(void **state)
{
	struct sparse packet;

	(void)state;
	set_up(scene);
	packet = header_of(scene, SPARSE_PUSH, 1);
	packet.worker = 1;
	packet.width = 1;
	packet.map = MAP + 1;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_MAP);
	packet.map = MAP;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_ADDED);
}

/* R-SP-12, R-SP-30 */
static void a_stepped_table_flips_for_flip_alone(void **state)
{
	struct sparse ask, flip;

	(void)state;
	scene->table.is_stepped = 1;
	set_up(scene);
	ask = header_of(scene, SPARSE_ASK, 0);
	push_one(1, 1);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_DROP_STALE);
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 1, true));
	flip = header_of(scene, SPARSE_FLIP, FIRST_EPOCH + 1);
	assert_int_equal(give(scene, &flip), SWITCH_SPARSE_DROP_STALE);
	flip = header_of(scene, SPARSE_FLIP, FIRST_EPOCH);
	assert_int_equal(give(scene, &flip), SWITCH_SPARSE_TAKEN);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1000, false));
}

/* R-SP-9, R-SP-12, R-SP-13, R-SP-14 */
static void a_flip_is_due_by_pairs_age_or_ask_and_never_while_busy(void **state)
{
	struct sparse ask, bcast;

	(void)state;
	set_up(scene);
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 1, false));
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1, true));
	push_one(1, 1);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1, false));
	switch_sparse_flip(&scene->state);
	ask = header_of(scene, SPARSE_ASK, 0);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN); /* remembered while busy */
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 0, true));
	ask = header_of(scene, SPARSE_COMMITTED, FIRST_EPOCH);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1000, false));
	bcast = header_of(scene, SPARSE_BCAST, FIRST_EPOCH);
	bcast.width = 1;
	bcast.parts = 1;
	assert_int_equal(give(scene, &bcast), SWITCH_SPARSE_FORWARD);
	bcast.generation--;
	assert_int_equal(give(scene, &bcast), SWITCH_SPARSE_DROP_GENERATION);
}

static void have_is_of_the_flush_under_way_and_changes_nothing(void **state)
{
	struct switch_sparse before;
	struct sparse have;

	(void)state;
	set_up(scene);
	push_one(1, 1);
	have = header_of(scene, SPARSE_HAVE, FIRST_EPOCH);
	have.count = have.width = 1;
	have.parts = sparse_flush_parts(&scene->table, 1);
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_STALE); /* nothing is flushed */
	switch_sparse_flip(&scene->state);
	before = scene->state;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_TAKEN);
	have.parts++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_SHAPE);
	have.parts--;
	have.number++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_STALE);
	have.number--;
	have.generation++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_GENERATION);
	assert_memory_equal(&before, &scene->state, sizeof(before));
}

/* What its sender could not add is said with the epoch that it was added to, and not with the ACK. */
static void what_a_push_says_is_of_its_epoch_alone(void **state)
{
	uint64_t bank = FIRST_EPOCH & 1;
	struct sparse push, committed;

	(void)state;
	set_up(scene);
	for (uint64_t round = 0; round < 3; round++, bank = !bank) {
		push_one(2 * round + 1, -5);
		assert_int_equal(scene->state.flags[bank], 0);
		push = header_of(scene, SPARSE_PUSH, 2 * round + 2);
		push.worker = 1;
		push.count = push.width = 1;
		push.flags = SPARSE_SATURATED;
		sparse_body_put32(scene->at + SPARSE_HEADER_BYTES, 2);
		sparse_body_put32(scene->at + SPARSE_HEADER_BYTES + 4, 4);
		assert_int_equal(give(scene, &push), SWITCH_SPARSE_ADDED);
		assert_int_equal(push.kind, SPARSE_ACK);
		assert_int_equal(push.flags, 0);
		assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
		assert_int_equal(scene->state.flags[!bank], round ? SPARSE_SATURATED : 0);
		switch_sparse_flip(&scene->state);
		committed = header_of(scene, SPARSE_COMMITTED, FIRST_EPOCH + round);
		assert_int_equal(give(scene, &committed), SWITCH_SPARSE_TAKEN);
	}
}

/* R-SP-12 */
static void who_asks_for_a_flip_is_a_worker_or_the_server(void **state)
{
	struct sparse ask;

	(void)state;
	set_up(scene);
	for (uint32_t worker = 0; worker < 5; worker++) {
		ask = header_of(scene, SPARSE_ASK, 0);
		ask.worker = (uint16_t)worker;
		assert_int_equal(give(scene, &ask),
				 worker < 2 ? SWITCH_SPARSE_TAKEN : SWITCH_SPARSE_DROP_WORKER);
	}
	ask.worker = SPARSE_SERVER;
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN);
}

#define CLAIM(test) cmocka_unit_test_setup_teardown(test, scene_begins, scene_ends)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		CLAIM(a_table_has_as_many_workers_as_a_switch_has_children),
		CLAIM(a_sum_of_zero_is_flushed_and_an_untouched_rank_is_not),
		CLAIM(a_part_is_short_while_each_of_its_sums_has_32_bits),
		CLAIM(a_flush_has_the_touched_ranks_and_no_more),
		CLAIM(a_sum_saturates_both_ways_and_says_so_in_its_epoch),
		CLAIM(setup_is_for_one_instance_once),
		CLAIM(a_push_of_another_map_is_dropped),
		CLAIM(a_stepped_table_flips_for_flip_alone),
		CLAIM(a_flip_is_due_by_pairs_age_or_ask_and_never_while_busy),
		CLAIM(have_is_of_the_flush_under_way_and_changes_nothing),
		CLAIM(what_a_push_says_is_of_its_epoch_alone),
		CLAIM(who_asks_for_a_flip_is_a_worker_or_the_server),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
