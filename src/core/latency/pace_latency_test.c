/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/latency/pace_latency.h"

enum { SLOTS = 256, MAX = SLOTS };

static const uint64_t T0 = 5ull * 1000 * PACE_MS;

static struct pace_latency pace;
static struct pace_slot slots[SLOTS];
static uint32_t due[MAX];

static void setup(uint64_t rtt_ns)
{
	memset(slots, 0xff, sizeof(slots));
	pace_latency_init(&pace, SLOTS, slots);
	if (rtt_ns)
		pace_sample(&pace.pace, 0, rtt_ns);
}

/* All that is due at a time. */
static uint32_t poll_all(uint64_t now_ns)
{
	uint32_t sum = 0, count;

	do {
		count = pace_latency_poll(&pace, now_ns, due, MAX);
		sum += count;
	} while (count == MAX);
	return sum;
}

static void pace_latency__first_timeout_is_100_ms_then_it_backs_off(void **state)
{
	(void)state;
	setup(0);
	assert_int_equal(pace_latency_next(&pace, T0), PACE_NEVER);
	pace_latency_sent(&pace, 7, T0);
	assert_int_equal(pace_latency_next(&pace, T0), T0 + 100 * PACE_MS);
	assert_int_equal(poll_all(T0 + 100 * PACE_MS - 1), 0);
	assert_int_equal(poll_all(T0 + 100 * PACE_MS), 1);
	assert_int_equal(due[0], 7);
	setup(1 * PACE_MS); /* SRTT 1, RTTVAR 0.5: 3 ms, then 6, then 12 */
	pace_latency_sent(&pace, 7, T0);
	assert_int_equal(poll_all(T0 + 3 * PACE_MS), 1);
	assert_int_equal(pace_latency_next(&pace, T0 + 3 * PACE_MS), T0 + 9 * PACE_MS);
	assert_int_equal(poll_all(T0 + 9 * PACE_MS), 1);
	assert_int_equal(pace_latency_next(&pace, T0 + 9 * PACE_MS), T0 + 21 * PACE_MS);
}

static void pace_latency__an_answer_ends_the_timer(void **state)
{
	(void)state;
	setup(1 * PACE_MS);
	pace_latency_sent(&pace, 7, T0);
	pace_latency_answered(&pace, 7, T0 + 1 * PACE_MS, false);
	assert_int_equal(pace_latency_next(&pace, T0), PACE_NEVER);
	assert_int_equal(poll_all(T0 + 1000 * PACE_MS), 0);
	pace_latency_sent(&pace, 7, T0 + 2 * PACE_MS); /* the ACK of the same slot */
	assert_int_equal(poll_all(T0 + 5 * PACE_MS), 1);
}

static void pace_latency__held_slows_from_4_rto_to_250_ms_and_never_stops(void **state)
{
	uint64_t now = T0 + 3 * PACE_MS, wait = 0;

	(void)state;
	setup(1 * PACE_MS);
	pace_latency_sent(&pace, 7, T0);
	assert_int_equal(poll_all(now), 1);
	now += 100 * PACE_US; /* the copy's answer: a sample, and the back-off ends */
	pace_latency_held(&pace, 7, now);
	assert_int_equal(pace_latency_next(&pace, now), now + 4 * pace_rto(&pace.pace, 0));
	for (uint32_t i = 0; i < 20; i++) {
		uint64_t next = pace_latency_next(&pace, now);

		assert_true(next != PACE_NEVER);
		wait = next - now;
		now = next;
		assert_int_equal(poll_all(now), 1);
		pace_latency_held(&pace, 7, now + PACE_MS);
	}
	assert_in_range(wait, 187 * PACE_MS, 250 * PACE_MS); /* up to a quarter shorter */
}

static void pace_latency__only_what_was_sent_once_or_held_after_one_copy_is_a_sample(void **state)
{
	(void)state;
	setup(1 * PACE_MS);
	pace_latency_sent(&pace, 1, T0);
	pace_latency_answered(&pace, 1, T0 + 5 * PACE_MS, false); /* others were awaited */
	assert_int_equal(pace.pace.stats.samples, 1);
	pace_latency_sent(&pace, 1, T0);
	pace_latency_answered(&pace, 1, T0 + 1 * PACE_MS, true);
	assert_int_equal(pace.pace.stats.samples, 2);
	pace_latency_sent(&pace, 2, T0);
	pace_latency_held(&pace, 2, T0 + 1 * PACE_MS); /* the network's copy: whose answer? */
	assert_int_equal(pace.pace.stats.samples, 2);
	setup(1 * PACE_MS);
	pace_latency_sent(&pace, 2, T0);
	assert_int_equal(poll_all(T0 + 3 * PACE_MS), 1);
	pace_latency_held(&pace, 2, T0 + 4 * PACE_MS);
	assert_int_equal(pace.pace.stats.samples, 2);
	pace_latency_answered(&pace, 2, T0 + 5 * PACE_MS, true); /* was sent twice */
	assert_int_equal(pace.pace.stats.samples, 2);
	pace_latency_sent(&pace, 3, T0);
	assert_int_equal(poll_all(T0 + 3 * PACE_MS), 1);
	assert_int_equal(poll_all(T0 + 20 * PACE_MS), 1);
	pace_latency_held(&pace, 3, T0 + 21 * PACE_MS); /* of which copy? */
	assert_int_equal(pace.pace.stats.samples, 2);
}

static void
pace_latency__results_of_three_later_slots_call_for_a_copy_after_a_round_trip_and_1_ms(void **state)
{
	(void)state;
	setup(50 * PACE_MS);
	for (uint32_t i = 0; i < 4; i++)
		pace_latency_sent(&pace, i, T0);
	for (uint32_t i = 1; i < 4; i++)
		pace_latency_answered(&pace, i, T0 + 49 * PACE_MS, false);
	assert_int_equal(poll_all(T0 + 51 * PACE_MS - 1), 0);
	assert_int_equal(poll_all(T0 + 51 * PACE_MS), 1);
	assert_int_equal(due[0], 0);
	assert_int_equal(pace.pace.stats.probes_gap, 1);
}

/* All slots run out at once: at most 64 copies in an eighth of an RTO, and each slot has its turn. */
static void pace_latency__a_window_that_runs_out_is_sent_in_bursts(void **state)
{
	uint32_t counts[SLOTS] = { 0 }, sent = 0;
	uint64_t now = T0 + 3 * PACE_MS;

	(void)state;
	setup(1 * PACE_MS);
	for (uint32_t i = 0; i < SLOTS; i++)
		pace_latency_sent(&pace, i, T0);
	while (sent < SLOTS && now < T0 + 50 * PACE_MS) {
		uint32_t count = 0;

		for (uint32_t got = MAX; got == MAX;) {
			got = pace_latency_poll(&pace, now, due, MAX);
			for (uint32_t i = 0; i < got; i++)
				counts[due[i]]++;
			count += got;
		}
		assert_true(count <= PACE_LATENCY_BURST);
		sent += count;
		assert_true(pace_latency_next(&pace, now) > now);
		now = pace_latency_next(&pace, now);
	}
	assert_int_equal(sent, SLOTS);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(counts[i], 1);
	assert_true(now < T0 + 12 * PACE_MS);
}

static void pace_latency__hello_is_said_again_after_three_rto_of_silence(void **state)
{
	(void)state;
	setup(100 * PACE_MS); /* RTO 300 ms */
	assert_false(pace_hello_due(&pace.pace, 0, T0));
	pace_latency_sent(&pace, 0, T0);
	assert_false(pace_hello_due(&pace.pace, 0, T0 + 899 * PACE_MS));
	assert_true(pace_hello_due(&pace.pace, 0, T0 + 900 * PACE_MS));
	assert_false(pace_hello_due(&pace.pace, 0, T0 + 901 * PACE_MS));
	pace_heard(&pace.pace, 0, T0 + 902 * PACE_MS);
	assert_false(pace_hello_due(&pace.pace, 0, T0 + 1700 * PACE_MS));
}

/* Whatever room the caller has: 64 in an eighth of an RTO. */
static void pace_latency__no_room_makes_a_burst_longer(void **state)
{
	(void)state;
	for (uint32_t room = PACE_LATENCY_BURST - 3; room < PACE_LATENCY_BURST + 4; room++) {
		uint32_t first = room < PACE_LATENCY_BURST ? room : PACE_LATENCY_BURST;

		setup(1 * PACE_MS);
		for (uint32_t i = 0; i < SLOTS; i++)
			pace_latency_sent(&pace, i, T0);
		assert_int_equal(pace_latency_poll(&pace, T0 + 3 * PACE_MS, due, room), first);
		assert_int_equal(pace_latency_poll(&pace, T0 + 3 * PACE_MS, due, room), 0);
	}
}

static void pace_latency__no_number_of_copies_is_a_first_one_again(void **state)
{
	uint64_t now = T0;

	(void)state;
	setup(1 * PACE_MS);
	pace_latency_sent(&pace, 7, now);
	for (uint32_t copies = 1; copies < 600; copies++) {
		now = pace_latency_next(&pace, now);
		assert_int_equal(poll_all(now), 1);
		assert_int_equal(slots[7].copies, copies < UINT8_MAX ? copies : UINT8_MAX);
	}
	pace_latency_held(&pace, 7, now);
	pace_latency_answered(&pace, 7, now, true);
	assert_int_equal(pace.pace.stats.samples, 1); /* setup's */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(pace_latency__first_timeout_is_100_ms_then_it_backs_off),
		cmocka_unit_test(pace_latency__an_answer_ends_the_timer),
		cmocka_unit_test(pace_latency__held_slows_from_4_rto_to_250_ms_and_never_stops),
		cmocka_unit_test(
			pace_latency__only_what_was_sent_once_or_held_after_one_copy_is_a_sample),
		cmocka_unit_test(
			pace_latency__results_of_three_later_slots_call_for_a_copy_after_a_round_trip_and_1_ms),
		cmocka_unit_test(pace_latency__a_window_that_runs_out_is_sent_in_bursts),
		cmocka_unit_test(pace_latency__no_room_makes_a_burst_longer),
		cmocka_unit_test(pace_latency__no_number_of_copies_is_a_first_one_again),
		cmocka_unit_test(pace_latency__hello_is_said_again_after_three_rto_of_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
