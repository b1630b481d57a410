/* SPDX-License-Identifier: Apache-2.0 */
/* Pace at its bounds: when exactly, how many, and in what order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/dense/pace.h"
#include "tests/random.h"

enum { SLOTS = 400, SHARDS = 3, MAX = 2 * SLOTS };

/* One shard more than there are: whoever goes one too far finds it full. */
struct fixture {
	struct map map;
	struct pace pace;
	struct pace_shard shards[SHARDS + 1];
	struct pace_slot slots[SHARDS * SLOTS];
	struct pace_probe probes[MAX];
	uint32_t base;
};

static struct fixture fixture, copy;

static const uint64_t T0 = 5ull * 1000 * PACE_MS;

static struct fixture *fixture_new(uint32_t shards, uint32_t window)
{
	struct fixture *f = &fixture;

	memset(f, 0, sizeof(*f));
	memset(f->slots, 0xff, sizeof(f->slots)); /* whatever the memory held */
	assert_true(map_init(&f->map, shards, SLOTS, 5));
	f->base = f->map.base[MAP_BULK];
	pace_init(&f->pace, &f->map, SLOTS, window, f->shards, f->slots);
	f->shards[shards] = (struct pace_shard){ .srtt_ns = 3600000 * (uint64_t)PACE_MS,
						 .order = 1,
						 .flight[MAP_BULK].ends = { PACE_END, PACE_END,
									    UINT32_MAX / 2 },
						 .ring = { PACE_END, PACE_END, UINT32_MAX / 2 } };
	return f;
}

static uint32_t poll_at(struct fixture *f, uint64_t now_ns)
{
	return pace_poll(&f->pace, now_ns, f->probes, MAX);
}

/* What a poll at that time would find. */
static uint32_t foresee(const struct fixture *f, uint64_t now_ns)
{
	copy = *f;
	copy.pace.shards = copy.shards;
	copy.pace.slot = copy.slots;
	return poll_at(&copy, now_ns);
}

static void assert_next_is_exact(const struct fixture *f, uint64_t now_ns)
{
	uint64_t next = pace_next(&f->pace, now_ns);

	assert_true(next >= now_ns);
	if (next == PACE_NEVER) {
		assert_int_equal(foresee(f, now_ns + 3600 * 1000ull * PACE_MS), 0);
		return;
	}
	if (next > now_ns)
		assert_int_equal(foresee(f, next - 1), 0);
	if (!foresee(f, next)) { /* the ring's timer; it has become empty, or all in it are young */
		assert_true(copy.pace.ring_ns > next);
		assert_true(next == (f->pace.ring_ns > now_ns ? f->pace.ring_ns : now_ns));
	}
}

static void assert_counts(const struct fixture *f)
{
	for (uint32_t shard = 0; shard < f->map.shards; shard++) {
		uint32_t in[MAP_STREAMS] = { 0 }, listed[PACE_RING + 1] = { 0 };

		for (uint32_t i = 0; i < SLOTS; i++) {
			const struct pace_slot *slot = &f->slots[shard * SLOTS + i];

			in[slot->stream] += slot->in_window;
			listed[slot->list]++;
			assert_int_equal(slot->stream, i >= f->base ? MAP_BULK : MAP_EXPRESS);
		}
		assert_memory_equal(in, f->shards[shard].in_flight, sizeof(in));
		assert_int_equal(listed[PACE_FLIGHT],
				 f->shards[shard].flight[MAP_EXPRESS].ends.count +
					 f->shards[shard].flight[MAP_BULK].ends.count);
		assert_int_equal(listed[PACE_RING], f->shards[shard].ring.count);
	}
}

static void walk(void)
{
	for (uint32_t run = 0; run < 60; run++) {
		struct fixture *f = fixture_new(1 + random_below(SHARDS), 1 + random_below(60));
		uint64_t now = T0;

		for (uint32_t i = 0; i < 300; i++) {
			uint32_t shard = random_below(f->map.shards);
			uint32_t index = random_below(4) ? f->base + random_below(30) : 1;
			struct pace_slot *slot = &f->slots[shard * SLOTS + index];
			uint32_t count;

			now += random_below(3) ? random_below(300 * PACE_US) : 0;
			if (!slot->list) {
				pace_sent(&f->pace, shard, index, now, false);
				assert_next_is_exact(f, now);
				continue;
			}
			switch (random_below(8)) {
			case 0:
				pace_sent(&f->pace, shard, index, now, true);
				break;
			case 1:
			case 2:
				pace_heard(&f->pace, shard, now);
				pace_result(&f->pace, shard, index, now, random_below(2));
				assert_int_equal(slot->list, PACE_NONE);
				break;
			case 3:
				pace_heard(&f->pace, shard, now);
				pace_held(&f->pace, shard, index, now, slot->attempt);
				assert_int_equal(slot->list, PACE_RING);
				break;
			case 4:
				pace_need(&f->pace, shard, index, now, random_below(3));
				break;
			default:
				now = random_below(2) ? now : pace_next(&f->pace, now);
				count = poll_at(f, now == PACE_NEVER ? now = T0 : now);
				for (uint32_t k = 0; k < count; k++)
					assert_true(f->slots[f->probes[k].shard * SLOTS +
							     f->probes[k].slot]
							    .list);
			}
			assert_counts(f);
			assert_next_is_exact(f, now);
		}
	}
}

static void pace__wakes_when_something_is_due_and_counts_what_is_outstanding(void **state)
{
	/* A gap is not probed later because its shard is in doubt. */
	static const uint64_t found[] = { 3, 4, 35, 1795386480 };

	for (uint32_t i = 0; i < sizeof(found) / sizeof(*found); i++) {
		rng_init(&rng, found[i], 0);
		walk();
	}
	restart_random(state);
	walk();
}

static void pace__estimate_is_never_0(void **state)
{
	struct fixture *f = fixture_new(1, 8);

	(void)state;
	pace_sample(&f->pace, 0, 0); /* a clock that did not move */
	assert_int_equal(f->shards[0].srtt_ns, 1);
	assert_int_equal(f->shards[0].rttvar_ns, 0);
	pace_sample(&f->pace, 0, 0);
	assert_int_equal(f->shards[0].srtt_ns, 1);
	assert_int_equal(pace_rto(&f->pace, 0), RTO_MIN_NS);
	pace_sample(&f->pace, 0, 17);
	assert_int_equal(f->shards[0].srtt_ns, (7 * 1 + 17) / 8);
	assert_int_equal(f->shards[0].rttvar_ns, (17 - 1) / 4);
	assert_int_equal(f->pace.stats.samples, 3);
}

static void pace__back_off_is_at_most_250_ms_and_doubles_once_in_a_timeout(void **state)
{
	struct fixture *f = fixture_new(1, 8);
	uint64_t now = T0, rto = 120 * PACE_MS;

	(void)state;
	pace_sample(&f->pace, 0, 40 * PACE_MS);
	pace_sent(&f->pace, 0, f->base, now, false);
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(pace_rto(&f->pace, 0), rto);
		now += rto;
		rto = rto == 120 * PACE_MS ? 240 * PACE_MS : 250 * PACE_MS;
		assert_int_equal(poll_at(f, now), 1);
	}
	f = fixture_new(1, 8);
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* 3 ms, then 6 */
	pace_sent(&f->pace, 0, f->base, T0, false);
	pace_sent(&f->pace, 0, f->base + 1, T0 + 1 * PACE_MS, false);
	assert_int_equal(poll_at(f, T0 + 3 * PACE_MS), 1);
	assert_int_equal(f->shards[0].backoff, 1);
	assert_int_equal(poll_at(f, T0 + 9 * PACE_MS - 1), 0);
	assert_int_equal(poll_at(f, T0 + 9 * PACE_MS), 2);
	assert_int_equal(f->shards[0].backoff, 2);
}

static void pace__what_runs_out_together_is_asked_for_by_the_message(void **state)
{
	struct fixture *f = fixture_new(1, 64);

	(void)state;
	pace_sample(&f->pace, 0, 1 * PACE_MS); /* 3 ms, then 6 */
	for (uint32_t i = 0; i < 40; i++)
		pace_sent(&f->pace, 0, f->base + i, T0, false);
	pace_need(&f->pace, 0, f->base, T0 + 2 * PACE_MS, 0); /* no doubt: something is lost */
	assert_int_equal(pace_poll(&f->pace, T0 + 3 * PACE_MS, f->probes, 32), 32);
	assert_int_equal(f->probes[31].slot, f->base + 31);
	assert_int_equal(pace_poll(&f->pace, T0 + 3 * PACE_MS, f->probes, 32), 0);
	assert_int_equal(pace_poll(&f->pace, T0 + 6 * PACE_MS - 1, f->probes, 32), 0);
	assert_int_equal(pace_poll(&f->pace, T0 + 6 * PACE_MS, f->probes, 32), 8);
	assert_int_equal(f->probes[0].slot, f->base + 32);
}

static void pace__probes_have_numbers_in_a_row_and_none_is_0(void **state)
{
	static const uint32_t numbers[] = { UINT32_MAX - 1, UINT32_MAX, 1, 2, 3 };
	struct fixture *f = fixture_new(1, 8);
	uint64_t now = T0;

	(void)state;
	f->shards[0].attempts = UINT32_MAX - 2;
	pace_sent(&f->pace, 0, f->base, now, false);
	for (uint32_t i = 0; i < 5; i++) {
		now = pace_next(&f->pace, now);
		assert_int_equal(poll_at(f, now), 1);
		assert_int_equal(f->probes[0].attempt, numbers[i]);
	}
	assert_int_equal(f->pace.stats.probes_rto, 5);
	assert_int_equal(f->pace.stats.probes_gap, 0);
	assert_int_equal(f->pace.stats.probes_ring, 0);
}

static void pace__an_echo_of_the_last_probe_alone_is_a_sample(void **state)
{
	struct fixture *f = fixture_new(1, 8);

	(void)state;
	pace_sent(&f->pace, 0, f->base, T0, false);
	pace_need(&f->pace, 0, f->base, T0 + PACE_MS, 0); /* a HINT */
	assert_int_equal(f->pace.stats.samples, 0);
	assert_int_equal(poll_at(f, T0 + 100 * PACE_MS), 1);
	pace_need(&f->pace, 0, f->base, T0 + 101 * PACE_MS, f->probes[0].attempt + 1);
	assert_int_equal(f->pace.stats.samples, 0);
	pace_need(&f->pace, 0, f->base, T0 + 102 * PACE_MS, f->probes[0].attempt);
	assert_int_equal(f->pace.stats.samples, 1);
	assert_int_equal(f->shards[0].srtt_ns, 2 * PACE_MS);
	pace_result(&f->pace, 0, f->base, T0 + 103 * PACE_MS, true); /* of which attempt? */
	assert_int_equal(f->pace.stats.samples, 1);
}

static void pace__silent_shard_is_asked_about_a_sixteenth_and_8_at_least(void **state)
{
	static const uint32_t rows[][2] = { { 1, 1 },    { 8, 8 },    { 9, 8 },   { 127, 8 },
					    { 128, 8 },  { 129, 9 },  { 144, 9 }, { 145, 10 },
					    { 160, 10 }, { 161, 11 }, { 320, 20 } };

	(void)state;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fixture *f = fixture_new(1, SLOTS);

		for (uint32_t k = 0; k < rows[i][0]; k++)
			pace_sent(&f->pace, 0, f->base + k, T0, false);
		assert_int_equal(poll_at(f, T0 + 100 * PACE_MS), rows[i][1]);
	}
}

static void pace__gap_looks_at_the_three_last_of_those_that_were_answered(void **state)
{
	(void)state;
	for (uint32_t run = 0; run < 200; run++) {
		struct fixture *f = fixture_new(1, SLOTS);
		uint32_t answered[20] = { 0 };

		for (uint32_t i = 0; i < 20; i++)
			pace_sent(&f->pace, 0, f->base + i, T0, false);
		for (uint32_t i = 0; i < 10; i++) {
			uint32_t slot = random_below(20), order = 20;

			if (!f->slots[f->base + slot].list)
				continue;
			pace_result(&f->pace, 0, f->base + slot, T0 + 1, false);
			answered[slot] = 1;
			for (uint32_t k = 0; k < PACE_GAP; k++) {
				while (order && !answered[order - 1])
					order--;
				assert_int_equal(f->shards[0].late[k], order);
				order -= order > 0;
			}
		}
	}
}

/* Of a ring of `count` that a firing after `interval_ns` finds: 1/16 of it, or one in 4 ms, but not all, and
 * the next number that shares no divisor with the ring's. */
static uint32_t ring_part(uint32_t count, uint64_t interval_ns)
{
	uint32_t part = (count + 15) / 16, of_time = (uint32_t)(interval_ns / (4 * PACE_MS));
	bool shares = true;

	part = part > of_time ? part : of_time;
	if (part >= count)
		return count == 1 ? 1 : count - 1;
	for (; shares; part += shares) {
		shares = false;
		for (uint32_t d = 2; d <= part; d++)
			shares |= part % d == 0 && count % d == 0;
	}
	return part;
}

static void pace__ring_is_probed_in_parts_that_share_no_divisor_with_it(void **state)
{
	(void)state;
	for (uint32_t count = 1; count < 50; count++) {
		for (uint32_t rtt_ms = 1; rtt_ms < 8; rtt_ms++) {
			struct fixture *f = fixture_new(1, SLOTS);

			pace_sample(&f->pace, 0,
				    rtt_ms * PACE_MS); /* RTO 3, interval 12 times that */
			for (uint32_t i = 0; i < count; i++) {
				pace_sent(&f->pace, 0, f->base + i, T0, false);
				pace_held(&f->pace, 0, f->base + i, T0, 0);
			}
			assert_int_equal(f->pace.ring_ns, T0 + rtt_ms * 12 * PACE_MS);
			assert_int_equal(poll_at(f, f->pace.ring_ns - 1), 0);
			assert_int_equal(poll_at(f, f->pace.ring_ns),
					 ring_part(count, rtt_ms * 12 * PACE_MS));
			assert_int_equal(f->pace.stats.probes_ring,
					 ring_part(count, rtt_ms * 12 * PACE_MS));
			assert_int_equal(f->pace.stats.probes_gap, 0);
		}
	}
}

static void pace__ring_slows_to_250_ms_or_for_more_than_16_to_64_ms(void **state)
{
	(void)state;
	for (uint32_t held = 15; held < 19; held++) {
		for (uint32_t shard = 0; shard < SHARDS; shard++) {
			struct fixture *f = fixture_new(SHARDS, SLOTS);
			uint64_t end_ns = (held > 16 ? 64 : 250) * PACE_MS, now, fewest = end_ns,
				 most = 0;

			for (uint32_t i = 0; i < held; i++) {
				pace_sent(&f->pace, shard, f->base + i, T0, false);
				pace_held(&f->pace, shard, f->base + i, T0, 0);
			}
			for (uint32_t firing = 0; firing < 300; firing++) {
				now = f->pace.ring_ns;
				poll_at(f, now);
				if (firing < 8)
					continue;
				assert_int_equal(f->pace.ring_interval_ns, end_ns);
				if (f->pace.ring_ns - now < fewest)
					fewest = f->pace.ring_ns - now;
				if (f->pace.ring_ns - now > most)
					most = f->pace.ring_ns - now;
			}
			/* by chance up to a quarter earlier, and anything between */
			assert_in_range(fewest, end_ns - end_ns / 4, end_ns - end_ns / 5);
			assert_in_range(most, end_ns - end_ns / 50, end_ns);
		}
	}
}

static void pace__ring_takes_the_time_of_the_slowest_shard_that_is_in_it(void **state)
{
	struct fixture *f = fixture_new(SHARDS, SLOTS);

	(void)state;
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		pace_sample(&f->pace, shard, (1 + shard) * PACE_MS);
		pace_sent(&f->pace, shard, f->base, T0, false);
	}
	pace_held(&f->pace, 1, f->base, T0, 0);
	assert_int_equal(f->pace.ring_interval_ns, 24 * PACE_MS);
	pace_held(&f->pace, 2, f->base, T0, 0); /* its timer runs already */
	assert_int_equal(f->pace.ring_interval_ns, 24 * PACE_MS);
	pace_result(&f->pace, 0, f->base, T0, false);
	assert_int_equal(f->pace.ring_interval_ns, 36 * PACE_MS);
	assert_int_equal(f->pace.ring_ns, T0 + 24 * PACE_MS);
	pace_result(&f->pace, 2, f->base, T0 + 1 * PACE_MS, false);
	assert_int_equal(f->pace.ring_interval_ns, 24 * PACE_MS);
	assert_int_equal(f->pace.ring_ns, T0 + 24 * PACE_MS);
	pace_sample(&f->pace, 1, 3600ull * 1000 * PACE_MS);
	pace_sent(&f->pace, 0, f->base, T0, false);
	pace_result(&f->pace, 0, f->base, T0, false);
	assert_int_equal(f->pace.ring_interval_ns, 250 * PACE_MS);
}

static void pace__no_number_of_copies_makes_a_round_new_again(void **state)
{
	struct fixture *f = fixture_new(1, 8);

	(void)state;
	pace_sent(&f->pace, 0, f->base, T0, false);
	for (uint32_t i = 1; i < 600; i++) {
		pace_sent(&f->pace, 0, f->base, T0 + i, true);
		assert_int_equal(f->slots[f->base].list, i < PACE_COPIES ? PACE_FLIGHT : PACE_RING);
		assert_int_equal(f->shards[0].in_flight[MAP_BULK], 1);
	}
	pace_result(&f->pace, 0, f->base, T0 + 600, true);
	assert_int_equal(f->pace.stats.samples, 0);
	assert_int_equal(f->shards[0].in_flight[MAP_BULK], 0);
	pace_sent(&f->pace, 0, f->base, T0 + 601, false);
	assert_int_equal(f->slots[f->base].list, PACE_FLIGHT);
}

static void pace__windows_are_no_wider_than_their_pools(void **state)
{
	struct fixture *f = fixture_new(SHARDS, SLOTS);

	(void)state;
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		assert_int_equal(f->shards[shard].window[MAP_EXPRESS], f->map.pool[MAP_EXPRESS]);
		assert_int_equal(f->shards[shard].window[MAP_BULK], f->map.pool[MAP_BULK]);
		pace_window(&f->pace, shard, MAP_EXPRESS, 1 + shard);
		assert_int_equal(f->shards[shard].window[MAP_EXPRESS], 1 + shard);
	}
	pace_sent(&f->pace, 1, 0, T0, false);
	assert_true(pace_has_room(&f->pace, 1, MAP_EXPRESS));
	pace_sent(&f->pace, 1, 1, T0, false);
	assert_false(pace_has_room(&f->pace, 1, MAP_EXPRESS));
}

/* Whoever can send only a few at a time reaches every shard. */
static void pace__shards_take_turns_to_be_the_first(void **state)
{
	struct fixture *f = fixture_new(SHARDS, SLOTS);
	uint32_t first[SHARDS] = { 0 };

	(void)state;
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		for (uint32_t i = 0; i < 3; i++) {
			pace_sent(&f->pace, shard, f->base + i, T0, false);
			pace_held(&f->pace, shard, f->base + i, T0, 0);
		}
	}
	for (uint32_t firing = 0; firing < 30; firing++) {
		uint64_t now = pace_next(&f->pace, T0);
		uint32_t count = pace_poll(&f->pace, now, f->probes, 1);

		assert_int_equal(count, 1);
		first[f->probes[0].shard]++;
		assert_int_equal(pace_poll(&f->pace, now, f->probes, 2), 2);
		poll_at(f, now);
	}
	for (uint32_t shard = 0; shard < SHARDS; shard++)
		assert_int_equal(first[shard], 10);
}

static void pace__hello_is_due_to_the_nanosecond(void **state)
{
	struct fixture *f = fixture_new(2, 8);
	uint64_t due = T0 + 9 * PACE_MS;

	(void)state;
	pace_sample(&f->pace, 1, 1 * PACE_MS); /* RTO 3 ms, three of them */
	pace_sent(&f->pace, 1, f->base, T0, false);
	pace_sent(&f->pace, 1, f->base + 1, T0 + 5 * PACE_MS, false); /* it was not the first */
	assert_false(pace_hello_due(&f->pace, 1, due - 1));
	assert_true(pace_hello_due(&f->pace, 1, due));
	assert_false(pace_hello_due(&f->pace, 1, due + 250 * PACE_MS - 1));
	assert_true(pace_hello_due(&f->pace, 1, due + 250 * PACE_MS));
	assert_false(pace_hello_due(&f->pace, 0, due + 1000 * PACE_MS));
	pace_result(&f->pace, 1, f->base, due, false);
	pace_held(&f->pace, 1, f->base + 1, due, 0); /* in the ring it is outstanding, too */
	assert_true(pace_hello_due(&f->pace, 1, due + 500 * PACE_MS));
	pace_result(&f->pace, 1, f->base + 1, due, false);
	assert_false(pace_hello_due(&f->pace, 1, due + 1000 * PACE_MS));
	pace_sent(&f->pace, 1, f->base, due + 2000 * PACE_MS, false); /* silence begins anew */
	assert_false(pace_hello_due(&f->pace, 1, due + 2009 * PACE_MS - 1));
	assert_true(pace_hello_due(&f->pace, 1, due + 2009 * PACE_MS));
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pace__wakes_when_something_is_due_and_counts_what_is_outstanding),
		cmocka_unit_test(pace__estimate_is_never_0),
		cmocka_unit_test(pace__back_off_is_at_most_250_ms_and_doubles_once_in_a_timeout),
		cmocka_unit_test(pace__what_runs_out_together_is_asked_for_by_the_message),
		cmocka_unit_test(pace__probes_have_numbers_in_a_row_and_none_is_0),
		cmocka_unit_test(pace__an_echo_of_the_last_probe_alone_is_a_sample),
		cmocka_unit_test(pace__silent_shard_is_asked_about_a_sixteenth_and_8_at_least),
		cmocka_unit_test(pace__gap_looks_at_the_three_last_of_those_that_were_answered),
		cmocka_unit_test(pace__ring_is_probed_in_parts_that_share_no_divisor_with_it),
		cmocka_unit_test(pace__ring_slows_to_250_ms_or_for_more_than_16_to_64_ms),
		cmocka_unit_test(pace__ring_takes_the_time_of_the_slowest_shard_that_is_in_it),
		cmocka_unit_test(pace__no_number_of_copies_makes_a_round_new_again),
		cmocka_unit_test(pace__windows_are_no_wider_than_their_pools),
		cmocka_unit_test(pace__shards_take_turns_to_be_the_first),
		cmocka_unit_test(pace__hello_is_due_to_the_nanosecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
