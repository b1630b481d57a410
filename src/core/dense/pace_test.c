/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dense/pace.h"

enum { SLOTS = 40, SHARDS = 2, BASE = 5 /* first bulk slot */ };

struct fixture {
	struct pace pace;
	struct pace_shard shards[SHARDS];
	struct pace_slot slots[SHARDS * SLOTS];
	struct pace_probe probes[64];
	struct map map;
};

static struct fixture *fixture_new(uint32_t window)
{
	static struct fixture fixture;

	memset(&fixture, 0, sizeof(fixture));
	assert_true(map_init(&fixture.map, SHARDS, SLOTS, 5));
	assert_int_equal(fixture.map.base[MAP_BULK], BASE);
	pace_init(&fixture.pace, &fixture.map, SLOTS, window, fixture.shards, fixture.slots);
	return &fixture;
}

static uint32_t poll_at(struct fixture *f, uint64_t now_ns)
{
	return pace_poll(&f->pace, now_ns, f->probes, 64);
}

static const uint64_t T0 = 5ull * 1000 * PACE_MS;

static void pace__first_timeout_is_100_ms_and_sends_a_probe(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	pace_sent(&f->pace, 0, BASE, T0, false);
	assert_int_equal(pace_next(&f->pace, T0), T0 + 100 * PACE_MS);
	assert_int_equal(poll_at(f, T0 + 100 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, T0 + 100 * PACE_MS), 1);
	assert_int_equal(f->probes[0].slot, BASE);
	assert_true(f->probes[0].attempt != 0);
}

static void pace__sample_follows_rfc_6298(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	pace_sample(&f->pace, 0, 8 * PACE_MS);
	assert_int_equal(f->shards[0].srtt_ns, 8 * PACE_MS);
	assert_int_equal(f->shards[0].rttvar_ns, 4 * PACE_MS);
	assert_int_equal(pace_rto(&f->pace, 0), 24 * PACE_MS);
	pace_sample(&f->pace, 0, 16 * PACE_MS);
	assert_int_equal(f->shards[0].rttvar_ns, 5 * PACE_MS);
	assert_int_equal(f->shards[0].srtt_ns, 9 * PACE_MS);
	assert_int_equal(pace_rto(&f->pace, 1),
			 100 * PACE_MS); /* another shard's estimate is its own */
}

static void pace__timeout_is_at_least_1_ms_and_twice_the_round_trip(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	pace_sample(&f->pace, 0, 50 * PACE_US);
	assert_int_equal(pace_rto(&f->pace, 0), 1 * PACE_MS);
	for (int i = 0; i < 100; i++)
		pace_sample(&f->pace, 1, 30 * PACE_MS);
	assert_in_range(pace_rto(&f->pace, 1), 60 * PACE_MS, 61 * PACE_MS);
}

static void pace__only_the_last_contributor_measures_a_round_trip(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + PACE_MS, false);
	assert_int_equal(f->pace.stats.samples, 0);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_sent(&f->pace, 0, BASE, T0, true);
	pace_result(&f->pace, 0, BASE, T0 + PACE_MS, true); /* Karn: which copy was it? */
	assert_int_equal(f->pace.stats.samples, 0);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + PACE_MS, true);
	assert_int_equal(f->pace.stats.samples, 1);
}

static void pace__back_off_doubles_once_in_a_timeout_and_ends_with_a_sample(void **state)
{
	struct fixture *f = fixture_new(8);
	uint64_t now = T0;

	(void)state;
	pace_sample(&f->pace, 0, 100 * PACE_US);
	for (uint32_t i = 0; i < 4; i++)
		pace_sent(&f->pace, 0, BASE + i, now, false);
	now += 1 * PACE_MS;
	assert_int_equal(poll_at(f, now), 4);
	assert_int_equal(pace_rto(&f->pace, 0), 2 * PACE_MS);
	for (int i = 0; i < 12; i++) {
		now += pace_rto(&f->pace, 0);
		assert_int_equal(poll_at(f, now), 4);
	}
	assert_int_equal(pace_rto(&f->pace, 0), 250 * PACE_MS);
	pace_held(&f->pace, 0, f->probes[3].slot, now + 100 * PACE_US, f->probes[3].attempt);
	assert_int_equal(pace_rto(&f->pace, 0), 1 * PACE_MS);
}

/* A worker that is never last has no other way back where nothing runs out. */
static void pace__a_result_in_time_reduces_the_back_off_of_who_was_not_last(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	pace_sample(&f->pace, 0, 8 * PACE_MS); /* RTO 24 ms */
	f->shards[0].backoff = 3;
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + 96 * PACE_MS, false);
	assert_int_equal(pace_rto(&f->pace, 0), 192 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_sent(&f->pace, 0, BASE, T0 + 1 * PACE_MS, true);
	pace_result(&f->pace, 0, BASE, T0 + 2 * PACE_MS, false); /* Karn */
	assert_int_equal(pace_rto(&f->pace, 0), 192 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + 96 * PACE_MS - 1, false);
	assert_int_equal(pace_rto(&f->pace, 0), 96 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + 24 * PACE_MS - 1, false);
	assert_int_equal(pace_rto(&f->pace, 0), 24 * PACE_MS);
	assert_int_equal(f->pace.stats.samples, 1);
}

/* Others are late, or its answers wait in a queue: every PROBE of a complete sum draws another one into it. */
static void pace__who_answers_and_needs_nothing_is_probed_in_parts(void **state)
{
	struct fixture *f = fixture_new(20);
	uint64_t now = T0 + 3 * PACE_MS;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* RTO 3 ms */
	for (uint32_t i = 0; i < 20; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	pace_heard(&f->pace, 0, T0 + 1);
	assert_int_equal(poll_at(f, now), PACE_QUIET_MIN);
	pace_held(&f->pace, 0, f->probes[0].slot, now + PACE_MS, 0);
	assert_int_equal(f->shards[0].in_flight[MAP_BULK],
			 19); /* what is held has left the window */
	assert_int_equal(pace_next(&f->pace, now + PACE_MS), now + 6 * PACE_MS);
	assert_int_equal(poll_at(f, now + 6 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, now + 6 * PACE_MS), PACE_QUIET_MIN);
	assert_int_equal(f->probes[0].slot, BASE + PACE_QUIET_MIN);
}

static void pace__a_need_ends_the_doubt(void **state)
{
	struct fixture *f = fixture_new(20);
	uint64_t now = T0 + 3 * PACE_MS;
	uint32_t slot;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* RTO 3 ms */
	for (uint32_t i = 0; i < 20; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	assert_int_equal(poll_at(f, now), PACE_QUIET_MIN);
	slot = f->probes[0].slot;
	pace_need(&f->pace, 0, slot, now + PACE_MS, f->probes[0].attempt);
	pace_sent(&f->pace, 0, slot, now + PACE_MS, true);
	assert_int_equal(poll_at(f, now + PACE_MS), 20 - PACE_QUIET_MIN);
	assert_int_equal(f->probes[0].slot, BASE + PACE_QUIET_MIN);
	/* They have left the window; not the seven that ran out before. */
	assert_int_equal(f->shards[0].in_flight[MAP_BULK], PACE_QUIET_MIN);
}

/* R-PACE-3: workers have drifted apart, and this one's results come late, but they come. */
static void pace__a_result_gives_what_waits_another_timeout(void **state)
{
	struct fixture *f = fixture_new(20);

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* RTO 3 ms */
	pace_sample(&f->pace, 1, 1 * PACE_MS);
	for (uint32_t i = 0; i < 4; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	pace_sent(&f->pace, 1, BASE, T0, false);
	pace_result(&f->pace, 0, BASE, T0 + 2 * PACE_MS, false);
	assert_int_equal(poll_at(f, T0 + 3 * PACE_MS), 1); /* another shard's is its own */
	assert_int_equal(f->probes[0].shard, 1);
	pace_result(&f->pace, 1, BASE, T0 + 3 * PACE_MS, false);
	assert_int_equal(pace_next(&f->pace, T0 + 3 * PACE_MS), T0 + 5 * PACE_MS);
	assert_int_equal(poll_at(f, T0 + 5 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, T0 + 5 * PACE_MS), 3);
	assert_int_equal(f->pace.stats.probes_gap, 0);
}

static void pace__three_later_results_and_two_round_trips_make_a_gap(void **state)
{
	struct fixture *f = fixture_new(30);

	(void)state;
	pace_sample(&f->pace, 0, 400 * PACE_US);
	for (uint32_t i = 0; i < 5; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	pace_result(&f->pace, 0, BASE + 1, T0 + 300 * PACE_US, false);
	pace_result(&f->pace, 0, BASE + 2, T0 + 300 * PACE_US, false);
	assert_int_equal(poll_at(f, T0 + 500 * PACE_US), 0);
	pace_result(&f->pace, 0, BASE + 3, T0 + 300 * PACE_US, false);
	assert_int_equal(poll_at(f, T0 + 799 * PACE_US), 0);
	assert_int_equal(pace_next(&f->pace, T0 + 799 * PACE_US), T0 + 800 * PACE_US);
	assert_int_equal(poll_at(f, T0 + 800 * PACE_US), 1);
	assert_int_equal(f->probes[0].slot, BASE);
	assert_int_equal(f->pace.stats.probes_gap, 1);
	assert_int_equal(poll_at(f, T0 + 1300 * PACE_US), 0); /* its attempt is now the newest */
}

/* R-PACE-4: a round trip of more than 1 ms is not doubled. */
static void pace__a_gap_is_at_most_1_ms_more_than_a_round_trip(void **state)
{
	struct fixture *f = fixture_new(30);

	(void)state;
	pace_sample(&f->pace, 0, 4 * PACE_MS);
	for (uint32_t i = 0; i < 5; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	for (uint32_t i = 1; i < 4; i++)
		pace_result(&f->pace, 0, BASE + i, T0 + 4 * PACE_MS, false);
	assert_int_equal(poll_at(f, T0 + 5 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, T0 + 5 * PACE_MS), 1);
}

static void pace__window_bounds_what_is_in_flight_and_held_slots_leave_it(void **state)
{
	struct fixture *f = fixture_new(3);

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(pace_has_room(&f->pace, 0, MAP_BULK));
		pace_sent(&f->pace, 0, BASE + i, T0 + i, false);
	}
	assert_false(pace_has_room(&f->pace, 0, MAP_BULK));
	assert_true(pace_has_room(&f->pace, 0, MAP_EXPRESS)); /* no pair shares a window */
	assert_true(pace_has_room(&f->pace, 1, MAP_BULK));
	assert_int_equal(poll_at(f, T0 + 100 * PACE_MS), 1);
	assert_false(pace_has_room(&f->pace, 0, MAP_BULK)); /* nobody knows what is the matter */
	pace_held(&f->pace, 0, BASE, T0 + 100 * PACE_MS + 1, 0);
	assert_true(pace_has_room(&f->pace, 0, MAP_BULK));
	pace_sent(&f->pace, 0, BASE, T0 + 101 * PACE_MS, true); /* NEED's copy is in it again */
	assert_false(pace_has_room(&f->pace, 0, MAP_BULK));
	pace_result(&f->pace, 0, BASE, T0 + 102 * PACE_MS, true);
	assert_true(pace_has_room(&f->pace, 0, MAP_BULK));
	pace_window(&f->pace, 0, MAP_BULK, 1);
	assert_false(pace_has_room(&f->pace, 0, MAP_BULK));
}

static void pace__silent_shard_is_probed_in_parts_and_its_window_stays_full(void **state)
{
	struct fixture *f = fixture_new(20);
	uint64_t now = T0 + 100 * PACE_MS;

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		pace_sent(&f->pace, 0, BASE + i, T0 + i, false);
	assert_int_equal(poll_at(f, now + 20), PACE_QUIET_MIN);
	for (uint32_t i = 0; i < PACE_QUIET_MIN; i++)
		assert_int_equal(f->probes[i].slot, BASE + i);
	assert_false(pace_has_room(&f->pace, 0, MAP_BULK));
	assert_int_equal(poll_at(f, now + 50 * PACE_MS), 0);
	assert_int_equal(pace_next(&f->pace, now + 50 * PACE_MS), now + 20 + 200 * PACE_MS);
	assert_int_equal(poll_at(f, now + 20 + 200 * PACE_MS), PACE_QUIET_MIN); /* the next ones */
	assert_int_equal(f->probes[0].slot, BASE + PACE_QUIET_MIN);

	now += 201 * PACE_MS;
	pace_held(&f->pace, 0, BASE + PACE_QUIET_MIN, now, f->probes[0].attempt);
	assert_true(pace_has_room(&f->pace, 0, MAP_BULK)); /* what the switch holds has left it */
}

/* R-PACE-11: what has waited 20 ms once may do so again, for a second. */
static void pace__time_out_of_bulk_is_twice_the_longest_wait(void **state)
{
	struct fixture *f = fixture_new(5);
	uint64_t now = T0 + 20 * PACE_MS;

	(void)state;
	pace_sample(&f->pace, 0, 300 * PACE_US); /* an RTO of 1 ms */
	for (uint32_t i = 0; i < 5; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	pace_sent(&f->pace, 0, 0, T0, false); /* express has its own time-out */
	pace_result(&f->pace, 0, BASE, now, false);
	assert_int_equal(pace_next(&f->pace, now), now + 1 * PACE_MS);
	pace_result(&f->pace, 0, 0, now, false);
	assert_int_equal(pace_next(&f->pace, now), now + 40 * PACE_MS);
	pace_result(&f->pace, 0, BASE + 1, now, false);
	/* Nothing comes behind the last three, unless the window keeps it back. */
	assert_int_equal(pace_next(&f->pace, now), now + 1 * PACE_MS);
	pace_window(&f->pace, 0, MAP_BULK, 1); /* for ever, if it is what was lost */
	assert_int_equal(pace_next(&f->pace, now), now + 1 * PACE_MS);
	pace_window(&f->pace, 0, MAP_BULK, 3);
	assert_int_equal(pace_next(&f->pace, now), now + 40 * PACE_MS);
	assert_int_equal(poll_at(f, now + 40 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, now + 40 * PACE_MS), 3);
}

static void pace__a_long_wait_is_forgotten_after_one_to_two_seconds(void **state)
{
	struct fixture *f = fixture_new(5);
	uint64_t now = T0;

	(void)state;
	pace_sent(&f->pace, 0, BASE, now, false);
	pace_result(&f->pace, 0, BASE, now += 300 * PACE_MS, false);
	assert_int_equal(f->shards[0].longest_ns, 300 * PACE_MS);
	for (uint32_t i = 1; i < 20; i++) {
		pace_sent(&f->pace, 0, BASE, now + 90 * PACE_MS, false);
		pace_result(&f->pace, 0, BASE, now += 100 * PACE_MS, false);
		assert_int_equal(f->shards[0].longest_ns, 300 * PACE_MS);
	}
	pace_sent(&f->pace, 0, BASE, now + 90 * PACE_MS, false);
	pace_result(&f->pace, 0, BASE, now += 100 * PACE_MS, false);
	assert_int_equal(f->shards[0].longest_ns, 10 * PACE_MS);
	/* Who was sent twice, or probed, says nothing: its time may be that of a loss. */
	pace_sent(&f->pace, 0, BASE, now, false);
	pace_sent(&f->pace, 0, BASE, now, true);
	pace_result(&f->pace, 0, BASE, now += 50 * PACE_MS, false);
	assert_int_equal(f->shards[0].longest_ns, 10 * PACE_MS);
}

static void pace__no_wait_makes_a_time_out_longer_than_250_ms(void **state)
{
	struct fixture *f = fixture_new(5);
	uint64_t now = T0 + 60000ull * PACE_MS;

	(void)state;
	pace_sample(&f->pace, 0, 300 * PACE_US);
	for (uint32_t i = 0; i < 5; i++)
		pace_sent(&f->pace, 0, BASE + i, T0, false);
	pace_result(&f->pace, 0, BASE, now, false);
	assert_int_equal(pace_next(&f->pace, now), now + 250 * PACE_MS);
}

/* Nobody is probed twice before everybody was probed once, and no slot is always last in its burst: a
 * short queue on the way drops the end of each. */
static void pace__ring_gives_every_held_slot_its_turn_at_every_place(void **state)
{
	enum { HELD = 20, FIRINGS = 2000 };
	struct fixture *f = fixture_new(30);
	uint32_t seen[HELD] = { 0 }, last[HELD] = { 0 }, first[HELD] = { 0 }, probes = 0;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS);
	for (uint32_t i = 0; i < HELD; i++) {
		pace_sent(&f->pace, 0, BASE + i, T0, false);
		pace_held(&f->pace, 0, BASE + i, T0 + 1, 0);
	}
	for (uint32_t firing = 0; firing < FIRINGS; firing++) {
		uint32_t count = poll_at(f, pace_next(&f->pace, T0));

		assert_in_range(count, (HELD + PACE_RING_PART - 1) / PACE_RING_PART, HELD - 1);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(seen[f->probes[i].slot - BASE]++, probes++ / HELD);
		first[f->probes[0].slot - BASE]++;
		last[f->probes[count - 1].slot - BASE]++;
	}
	for (uint32_t i = 0; i < HELD; i++) {
		assert_in_range(first[i], FIRINGS / HELD - 2, FIRINGS / HELD + 2);
		assert_in_range(last[i], FIRINGS / HELD - 2, FIRINGS / HELD + 2);
	}
	assert_int_equal(f->pace.ring_interval_ns, 64 * PACE_MS);
}

/* Each PROBE of a sum that has become complete draws a RESULT into the queue that makes the round trip long. */
static void pace__nobody_in_the_ring_is_probed_twice_in_a_timeout(void **state)
{
	enum { HELD = 20 };
	struct fixture *f = fixture_new(30);
	uint64_t now = T0, last[HELD] = { 0 };
	uint32_t probes = 0;

	(void)state;
	pace_sample(&f->pace, 0, 100 * PACE_MS);
	assert_int_equal(pace_rto(&f->pace, 0), 300 * PACE_MS);
	for (uint32_t i = 0; i < HELD; i++) {
		pace_sent(&f->pace, 0, BASE + i, T0, false);
		pace_held(&f->pace, 0, BASE + i, T0 + 1, 0);
		last[i] = T0;
	}
	while (now < T0 + 10 * 1000ull * PACE_MS) {
		uint32_t count;

		now = pace_next(&f->pace, now);
		count = poll_at(f, now);
		probes += count;
		for (uint32_t i = 0; i < count; i++) {
			assert_true(now - last[f->probes[i].slot - BASE] >= 300 * PACE_MS);
			last[f->probes[i].slot - BASE] = now;
		}
	}
	assert_in_range(probes, HELD * 20, HELD * 34); /* 10 s are 33 time-outs */
}

/* 250 PROBEs a second, never many at once: 62 every 250 ms, of each of two shards, met queues of 32 packets
 * that dropped the same ones for 29 s. */
static void pace__large_ring_is_probed_in_short_bursts(void **state)
{
	struct fixture *f = fixture_new(35);
	uint64_t now = T0;
	uint32_t probes = 0;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS);
	for (uint32_t i = 0; i < 35; i++) {
		pace_sent(&f->pace, 0, BASE + i, T0, false);
		pace_held(&f->pace, 0, BASE + i, T0 + 1, 0);
	}
	while (now < T0 + 10 * 1000ull * PACE_MS) {
		now = pace_next(&f->pace, now);
		uint32_t count = poll_at(f, now);
		assert_in_range(count, 3, PACE_RING_BURST + 2);
		probes += count;
	}
	assert_in_range(probes, 10 * 250, 10 * 250 * 4 / 3);
}

static void pace__what_is_asked_for_again_and_again_leaves_the_fast_timer(void **state)
{
	struct fixture *f = fixture_new(30);
	uint64_t now = T0;
	uint32_t copies = 0;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, now, false);
	while (now < T0 + 10 * 1000ull * PACE_MS) { /* a switch that refuses the round: MISMATCH */
		now = pace_next(&f->pace, now);
		assert_int_equal(poll_at(f, now), 1);
		pace_need(&f->pace, 0, BASE, now + PACE_MS, f->probes[0].attempt);
		pace_sent(&f->pace, 0, BASE, now + PACE_MS, true);
		copies++;
	}
	assert_in_range(copies, 10 * 4, 10 * 4 + 20); /* four a second */
}

static void pace__result_shortens_the_ring_interval_and_never_postpones_it(void **state)
{
	struct fixture *f = fixture_new(30);
	uint64_t due;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* RTO 3 ms, first interval 12 ms */
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_sent(&f->pace, 0, BASE + 1, T0, false);
	pace_held(&f->pace, 0, BASE, T0, 0);
	assert_int_equal(f->pace.ring_ns, T0 + 12 * PACE_MS);
	due = f->pace.ring_ns;
	pace_result(&f->pace, 0, BASE + 1, T0 + 5 * PACE_MS, false);
	assert_int_equal(f->pace.ring_ns, due);
	for (int i = 0; i < 6; i++)
		poll_at(f, f->pace.ring_ns);
	pace_sent(&f->pace, 0, BASE + 1, due, false);
	due = f->pace.ring_ns;
	pace_result(&f->pace, 0, BASE + 1, due - 100 * PACE_MS, false);
	assert_true(f->pace.ring_ns <= due - 100 * PACE_MS + 12 * PACE_MS);
}

static void pace__ring_that_is_empty_has_no_timer(void **state)
{
	struct fixture *f = fixture_new(30);
	uint64_t due;

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, T0, false);
	pace_held(&f->pace, 0, BASE, T0, 0);
	pace_result(&f->pace, 0, BASE, T0 + 2 * PACE_MS, false);
	assert_true(pace_next(&f->pace, T0 + 2 * PACE_MS) == PACE_NEVER);
	pace_sent(&f->pace, 0, BASE, T0 + 2 * PACE_MS, false);
	pace_held(&f->pace, 0, BASE, T0 + 2 * PACE_MS, 0);
	due = f->pace.ring_ns;
	pace_sent(&f->pace, 0, BASE, due - 1, true); /* asked for again: it is in flight */
	assert_int_equal(poll_at(f, due), 0);
	assert_true(f->pace.ring_ns == PACE_NEVER);
}

static void pace__silence_asks_for_a_hello_at_most_every_250_ms(void **state)
{
	struct fixture *f = fixture_new(8);

	(void)state;
	assert_false(
		pace_hello_due(&f->pace, 0, T0 + 10ull * 1000 * PACE_MS)); /* nothing on its way */
	pace_sample(&f->pace, 0, 1 * PACE_MS);
	pace_sent(&f->pace, 0, BASE, T0, false);
	assert_false(pace_hello_due(&f->pace, 0, T0 + 8 * PACE_MS));
	assert_true(pace_hello_due(&f->pace, 0, T0 + 9 * PACE_MS));
	assert_false(pace_hello_due(&f->pace, 0, T0 + 258 * PACE_MS));
	assert_true(pace_hello_due(&f->pace, 0, T0 + 259 * PACE_MS));
	pace_heard(&f->pace, 0, T0 + 600 * PACE_MS);
	assert_false(pace_hello_due(&f->pace, 0, T0 + 601 * PACE_MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pace__first_timeout_is_100_ms_and_sends_a_probe),
		cmocka_unit_test(pace__sample_follows_rfc_6298),
		cmocka_unit_test(pace__timeout_is_at_least_1_ms_and_twice_the_round_trip),
		cmocka_unit_test(pace__only_the_last_contributor_measures_a_round_trip),
		cmocka_unit_test(pace__back_off_doubles_once_in_a_timeout_and_ends_with_a_sample),
		cmocka_unit_test(pace__a_result_in_time_reduces_the_back_off_of_who_was_not_last),
		cmocka_unit_test(pace__who_answers_and_needs_nothing_is_probed_in_parts),
		cmocka_unit_test(pace__a_need_ends_the_doubt),
		cmocka_unit_test(pace__a_result_gives_what_waits_another_timeout),
		cmocka_unit_test(pace__three_later_results_and_two_round_trips_make_a_gap),
		cmocka_unit_test(pace__a_gap_is_at_most_1_ms_more_than_a_round_trip),
		cmocka_unit_test(pace__window_bounds_what_is_in_flight_and_held_slots_leave_it),
		cmocka_unit_test(pace__silent_shard_is_probed_in_parts_and_its_window_stays_full),
		cmocka_unit_test(pace__time_out_of_bulk_is_twice_the_longest_wait),
		cmocka_unit_test(pace__a_long_wait_is_forgotten_after_one_to_two_seconds),
		cmocka_unit_test(pace__no_wait_makes_a_time_out_longer_than_250_ms),
		cmocka_unit_test(pace__ring_gives_every_held_slot_its_turn_at_every_place),
		cmocka_unit_test(pace__nobody_in_the_ring_is_probed_twice_in_a_timeout),
		cmocka_unit_test(pace__large_ring_is_probed_in_short_bursts),
		cmocka_unit_test(pace__what_is_asked_for_again_and_again_leaves_the_fast_timer),
		cmocka_unit_test(pace__result_shortens_the_ring_interval_and_never_postpones_it),
		cmocka_unit_test(pace__ring_that_is_empty_has_no_timer),
		cmocka_unit_test(pace__silence_asks_for_a_hello_at_most_every_250_ms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
