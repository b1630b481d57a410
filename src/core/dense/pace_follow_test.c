/* SPDX-License-Identifier: Apache-2.0 */
/* pace_follow_test.c - what a window that follows the queue gets to know; window_test.c has what it does then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dense/pace.h"

enum { SLOTS = 80, BASE = 10 /* first bulk slot */, WINDOW = 20 };
#define T0 (5000ull * PACE_MS)

struct fixture {
	struct pace pace;
	struct pace_shard shard;
	struct pace_slot slots[SLOTS];
	uint64_t now_ns;
	uint32_t next; /* of the bulk pair's chunks */
};

static struct fixture *fixture_new(void)
{
	static struct fixture fixture;
	struct map map;

	memset(&fixture, 0, sizeof(fixture));
	assert_true(map_init(&map, 1, SLOTS, 5));
	assert_int_equal(map.base[MAP_BULK], BASE);
	pace_init(&fixture.pace, &map, SLOTS, WINDOW, &fixture.shard, fixture.slots);
	pace_follow(&fixture.pace);
	fixture.now_ns = T0;
	return &fixture;
}

static uint32_t slot_of(uint32_t chunk)
{
	return BASE + chunk % (SLOTS - BASE);
}

static void send(struct fixture *f)
{
	while (pace_has_room(&f->pace, 0, MAP_BULK))
		pace_sent(&f->pace, 0, slot_of(f->next++), f->now_ns, false);
}

/* A full window goes out, and comes back after so long. */
static void trip(struct fixture *f, uint64_t took_ns, bool is_last)
{
	uint32_t first = f->next;

	send(f);
	f->now_ns += took_ns;
	pace_heard(&f->pace, 0, f->now_ns);
	for (uint32_t i = first; i < f->next; i++)
		pace_result(&f->pace, 0, slot_of(i), f->now_ns, is_last);
}

static void probe_all(struct fixture *f)
{
	struct pace_probe probes[SLOTS];

	pace_poll(&f->pace, f->now_ns, probes, SLOTS);
}

static void follow__a_queue_makes_it_smaller_and_the_pool_is_no_limit_then(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	trip(f, PACE_MS / 5, true);
	for (uint32_t i = 0; i < 3; i++)
		trip(f, 10 * PACE_MS, true);
	assert_int_equal(f->shard.window[MAP_BULK], WINDOW / 2);
	assert_int_equal(f->shard.window[MAP_EXPRESS], BASE); /* R-WIN-1 */
	send(f);
	assert_int_equal(f->shard.in_flight[MAP_BULK], WINDOW / 2);
}

/* A window of half of what it may be, and then trips with so much less in flight. */
static uint32_t grown_with(uint32_t less)
{
	struct fixture *f = fixture_new();
	uint32_t before, first;

	trip(f, PACE_MS / 5, true);
	for (uint32_t i = 0; i < 3; i++)
		trip(f, 10 * PACE_MS, true);
	for (uint32_t i = 0; i < 3; i++) /* what was under way, and the last full one */
		trip(f, PACE_MS / 5, i == 2);
	before = f->shard.window[MAP_BULK];
	for (uint32_t i = 0; i < 20; i++) {
		first = f->next;
		while (f->shard.in_flight[MAP_BULK] < f->shard.window[MAP_BULK] - less)
			pace_sent(&f->pace, 0, slot_of(f->next++), f->now_ns, false);
		f->now_ns += PACE_MS / 5;
		for (; first < f->next; first++)
			pace_result(&f->pace, 0, slot_of(first), f->now_ns, true);
	}
	return f->shard.window[MAP_BULK] - before;
}

/* R-WIN-6 */
static void follow__a_quarter_that_waits_for_a_message_leaves_it_full(void **state)
{
	(void)state;
	assert_in_range(grown_with(0), 9, 12); /* 0.53 packets each */
	assert_in_range(grown_with(WINDOW / 2 / 4), 9, 12);
	assert_in_range(grown_with(WINDOW / 2 / 4 + 6), 0, 1);
}

static void follow__who_is_not_last_has_no_sample(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	trip(f, PACE_MS / 5, true);
	for (uint32_t i = 0; i < 9; i++)
		trip(f, 10 * PACE_MS, false);
	assert_int_equal(f->shard.window[MAP_BULK], WINDOW);
	assert_int_equal(f->shard.follow.quickest_ns, 0);
}

static void follow__a_window_that_is_set_stays(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	pace_window(&f->pace, 0, MAP_BULK, 7);
	trip(f, PACE_MS / 5, true);
	for (uint32_t i = 0; i < 9; i++)
		trip(f, 10 * PACE_MS, true);
	assert_int_equal(f->shard.window[MAP_BULK], 7);
}

/* Others come back 2 ms later; of the first it is said that it is needed. */
static void follow__a_need_that_echoes_is_a_loss(void **state)
{
	for (uint32_t wrong = 0; wrong < 2; wrong++) {
		struct fixture *f = fixture_new();
		uint32_t lost;

		trip(f, PACE_MS / 5, true);
		lost = slot_of(f->next);
		send(f);
		f->now_ns += 2 * PACE_MS;
		pace_heard(&f->pace, 0, f->now_ns);
		probe_all(f); /* of a shard that answers: all of them */
		assert_true(f->slots[lost].attempt);
		pace_need(&f->pace, 0, lost, f->now_ns, f->slots[lost].attempt + wrong);
		assert_int_equal(f->shard.follow.is_lossy, !wrong);
	}
	(void)state;
}

/* The first slot's RESULT does not come, later ones' do: it is probed, and then answered. */
static struct fixture *gap(uint32_t *suspect)
{
	struct fixture *f = fixture_new();

	trip(f, PACE_MS / 5, true);
	*suspect = slot_of(f->next);
	send(f);
	f->now_ns += PACE_MS / 2;
	pace_heard(&f->pace, 0, f->now_ns);
	for (uint32_t i = 1; i <= PACE_GAP; i++)
		pace_result(&f->pace, 0, *suspect + i, f->now_ns, true);
	f->now_ns += PACE_MS / 2; /* R-PACE-4: the second round trip */
	probe_all(f);
	assert_true(f->slots[*suspect].by_gap);
	assert_false(f->shard.follow.is_lossy);
	return f;
}

static void follow__an_answer_to_a_gap_is_a_loss(void **state)
{
	uint32_t slot;
	struct fixture *f = gap(&slot);

	(void)state;
	pace_result(&f->pace, 0, slot, f->now_ns + PACE_MS / 2, false);
	assert_true(f->shard.follow.is_lossy);
}

static void follow__an_answer_sooner_than_any_was_only_late(void **state)
{
	uint32_t slot;
	struct fixture *f = gap(&slot);

	(void)state;
	pace_result(&f->pace, 0, slot, f->now_ns + PACE_MS / 10, false);
	assert_false(f->shard.follow.is_lossy);
}

static void follow__what_is_held_waits_for_others_and_is_not_lost(void **state)
{
	uint32_t slot;
	struct fixture *f = gap(&slot);

	(void)state;
	pace_held(&f->pace, 0, slot, f->now_ns, f->slots[slot].attempt);
	pace_result(&f->pace, 0, slot, f->now_ns + PACE_MS, false);
	assert_false(f->shard.follow.is_lossy);
}

/* Its PROBE is the newest attempt, but its RESULT was on the way before: no trip ends so. */
static void follow__what_was_probed_ends_no_trip(void **state)
{
	uint32_t slot;
	struct fixture *f = gap(&slot);
	uint64_t trip_order = f->shard.follow.trip_order;

	(void)state;
	assert_true(f->slots[slot].order > trip_order);
	pace_result(&f->pace, 0, slot, f->now_ns + 1, true);
	assert_int_equal(f->shard.follow.trip_order, trip_order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follow__a_queue_makes_it_smaller_and_the_pool_is_no_limit_then),
		cmocka_unit_test(follow__a_quarter_that_waits_for_a_message_leaves_it_full),
		cmocka_unit_test(follow__who_is_not_last_has_no_sample),
		cmocka_unit_test(follow__a_window_that_is_set_stays),
		cmocka_unit_test(follow__a_need_that_echoes_is_a_loss),
		cmocka_unit_test(follow__an_answer_to_a_gap_is_a_loss),
		cmocka_unit_test(follow__an_answer_sooner_than_any_was_only_late),
		cmocka_unit_test(follow__what_is_held_waits_for_others_and_is_not_lost),
		cmocka_unit_test(follow__what_was_probed_ends_no_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
