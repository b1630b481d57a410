/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/check_pace.h"

enum { SLOTS = 40, RUN = 5, WINDOW = 8, EXPRESS = 5 /* slots: bulk begins behind them */ };

static struct {
	struct check_pace check;
	struct pace pace;
	struct pace_shard shard;
	struct pace_slot at[SLOTS];
	struct worker worker;
	struct worker_slot slot[SLOTS];
	struct worker_op_state op[MAP_STREAMS];
	struct map map;
} t;

static const char *wrong(void)
{
	uint32_t shard, slot;

	t.check.calls = 0; /* each of them looks */
	return check_pace(&t.check, &t.worker, &t.pace, &shard, &slot);
}

/* A first round of an integer operation goes out. */
static void send(uint32_t slot)
{
	t.slot[slot].state = WORKER_OUTSTANDING;
	t.slot[slot].flags = WIRE_DATA;
	pace_sent(&t.pace, 0, slot, 1000 * PACE_MS, false);
}

static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	assert_true(map_init(&t.map, 1, SLOTS, RUN));
	assert_int_equal(t.map.base[MAP_BULK], EXPRESS);
	pace_init(&t.pace, &t.map, SLOTS, WINDOW, &t.shard, t.at);
	t.worker.slot = t.slot;
	t.worker.ops_max = 1;
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++)
		t.worker.stream[stream].ops = &t.op[stream];
	assert_null(wrong());
	for (uint32_t i = 0; i < WINDOW; i++)
		send(EXPRESS + i);
	assert_null(wrong());
	return 0;
}

static void window__is_kept_until_it_changes(void **state)
{
	(void)state;
	send(EXPRESS + WINDOW);
	assert_string_equal(wrong(), "R-PACE-5: a first round goes out beyond the window");
	begin(NULL);
	pace_window(&t.pace, 0, MAP_BULK, WINDOW - 2);
	assert_null(wrong()); /* they are out */
	send(EXPRESS + WINDOW);
	assert_string_equal(wrong(), "R-PACE-5: a first round goes out beyond the window");
}

static void slot__counts_as_in_flight_while_its_round_is_on_its_way(void **state)
{
	(void)state;
	t.slot[EXPRESS].state = WORKER_IDLE;
	assert_string_equal(wrong(),
			    "R-PACE-5: a slot without a round has a timer, or is in flight");
	begin(NULL);
	t.at[EXPRESS].in_window = 0;
	assert_string_equal(wrong(), "R-PACE-5: another number counts as in flight");
	begin(NULL);
	t.shard.flight[MAP_BULK].ends.count--;
	assert_string_equal(wrong(), "R-PACE-3: a list does not have the slots that wait");
}

static void held__is_out_of_the_window_and_has_a_timer(void **state)
{
	(void)state;
	pace_held(&t.pace, 0, EXPRESS, 1001 * PACE_MS, 0);
	assert_int_equal(t.at[EXPRESS].list, PACE_RING);
	assert_null(wrong());
	t.pace.ring_ns = PACE_NEVER;
	assert_string_equal(wrong(), "R-PACE-7: slots are held and no timer runs");
	begin(NULL);
	pace_held(&t.pace, 0, EXPRESS, 1001 * PACE_MS, 0);
	t.at[EXPRESS].in_window = 1;
	t.shard.in_flight[MAP_BULK]++;
	assert_string_equal(wrong(), "R-PACE-5: what is held counts as in flight");
}

/* But what changes the window is noted each time. */
static void check__looks_at_all_slots_now_and_then(void **state)
{
	uint32_t shard, slot, calls = 0;

	(void)state;
	assert_null(wrong());
	send(EXPRESS + WINDOW);
	while (!check_pace(&t.check, &t.worker, &t.pace, &shard, &slot))
		calls++;
	assert_int_equal(calls, CHECK_PACE_EACH - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(window__is_kept_until_it_changes, begin),
		cmocka_unit_test_setup(slot__counts_as_in_flight_while_its_round_is_on_its_way,
				       begin),
		cmocka_unit_test_setup(held__is_out_of_the_window_and_has_a_timer, begin),
		cmocka_unit_test_setup(check__looks_at_all_slots_now_and_then, begin),
	};

	return cmocka_run_group_tests_name("sim-check_pace", tests, NULL, NULL);
}
