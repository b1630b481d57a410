/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/dense/window.h"

#define US 1000ull
#define MS (1000 * US)
#define T0 (5000 * MS)

enum { MOST = 154, BASE_US = 100 };

/* A path of one queue: what it carries, and how long others' packets in it take. */
struct path {
	struct window window;
	uint64_t now_ns, order;
	uint64_t per_second; /* packets */
	uint64_t others_ns;
	bool is_own; /* this worker is the last contributor */
};

static struct path path_of(uint64_t per_second)
{
	struct path path = { .now_ns = T0, .order = 1, .per_second = per_second, .is_own = true };

	window_init(&path.window, MOST);
	return path;
}

/* One packet alone, before the queue stands. */
static void path_begin(struct path *path)
{
	window_sample(&path->window, BASE_US * US);
	window_answer(&path->window, path->now_ns, path->order, path->order, false);
}

/* A window goes out and comes back, in the time that the queue takes; `lost` of it does not. */
static uint64_t trip(struct path *path, uint32_t lost)
{
	uint32_t count = window_packets(&path->window);
	uint64_t own_ns = count * 1000 * MS / path->per_second;
	uint64_t took_ns = BASE_US * US + path->others_ns;

	if (own_ns > BASE_US * US)
		took_ns += own_ns - BASE_US * US;
	path->now_ns += took_ns;
	if (path->is_own)
		window_sample(&path->window, took_ns);
	for (uint32_t i = 0; i < lost; i++)
		window_lost(&path->window);
	for (uint32_t i = 0; i < count - lost; i++)
		window_answer(&path->window, path->now_ns, path->order + i, path->order + count - 1,
			      true);
	path->order += count;
	return took_ns;
}

static void trips(struct path *path, uint32_t count)
{
	while (count--)
		trip(path, 0);
}

/* R-WIN-1 */
static void window__begins_with_all_and_keeps_it_on_a_fast_path(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	assert_int_equal(window_packets(&path.window), MOST);
	path_begin(&path);
	for (uint32_t i = 0; i < 1000; i++) {
		trip(&path, 0);
		assert_int_equal(window_packets(&path.window), MOST);
	}
	assert_int_equal(path.window.stats.yields + path.window.stats.losses, 0);
}

/* R-WIN-3 */
static void window__yields_until_its_own_queue_is_at_the_target(void **state)
{
	struct path path = path_of(10000); /* 154 packets: 15 ms */

	(void)state;
	path_begin(&path);
	trips(&path, 40);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t took_ns = trip(&path, 0);

		assert_true(took_ns < WINDOW_TARGET_NS + BASE_US * US + MS);
		assert_true(took_ns > WINDOW_TARGET_NS / 2); /* the link never idles */
	}
	assert_int_equal(path.window.stats.presses, 0);
}

static void window__one_long_trip_is_a_pause_and_changes_nothing(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	for (uint32_t i = 0; i < 50; i++) {
		trips(&path, 40);
		path.others_ns = 20 * MS;
		trip(&path, 0);
		path.others_ns = 0;
		assert_int_equal(window_packets(&path.window), MOST);
	}
}

/* Two operations, and a pause in each. */
static void window__two_long_trips_that_are_far_apart_change_nothing(void **state)
{
	(void)state;
	for (uint32_t far = 0; far < 2; far++) {
		struct path path = path_of(84000);

		path_begin(&path);
		trips(&path, 4);
		path.others_ns = 20 * MS;
		trip(&path, 0);
		path.now_ns += far ? WINDOW_PAIR_NS + 1 : 0;
		trip(&path, 0);
		assert_int_equal(path.window.stats.yields, !far);
	}
}

/* The queue of a slow link may itself last longer than two trips may be apart. */
static void window__yields_to_a_queue_of_more_than_a_second(void **state)
{
	struct path path = path_of(100);

	(void)state;
	path_begin(&path);
	assert_true(trip(&path, 0) > WINDOW_PAIR_NS);
	trip(&path, 0);
	assert_int_equal(path.window.stats.yields, 1);
}

/* R-WIN-2 */
static void window__who_waits_for_others_learns_nothing(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	path.is_own = false;
	path.others_ns = 50 * MS;
	for (uint32_t i = 0; i < 100; i++)
		trip(&path, i % 3);
	assert_int_equal(window_packets(&path.window), MOST);
	assert_int_equal(path.window.stats.yields + path.window.stats.losses, 0);
}

static void window__a_loss_without_a_queue_is_chance(void **state)
{
	struct path path = path_of(10000000);

	(void)state;
	path_begin(&path);
	for (uint32_t i = 0; i < 100; i++)
		trip(&path, 2);
	assert_int_equal(window_packets(&path.window), MOST);
}

/* R-WIN-4 */
static void window__losses_of_a_full_queue_take_three_tenths_once_a_trip(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	trips(&path, 4);
	trip(&path, 9);
	assert_int_equal(window_packets(&path.window), MOST * 7 / 10);
	assert_int_equal(path.window.stats.losses, 1);
	trips(&path, 10);
	assert_in_range(window_packets(&path.window), MOST * 7 / 10 + 5, MOST * 7 / 10 + 6);
}

/* In its own standing queue it takes them for an overflow: down to half a target, where the link is still busy. */
static void window__losses_by_chance_leave_the_link_busy(void **state)
{
	struct path path = path_of(20000);

	(void)state;
	path_begin(&path);
	trips(&path, 40);
	for (uint32_t i = 0; i < 1000; i++) {
		trip(&path, 1);
		assert_true(window_packets(&path.window) >= 14); /* 0.7 of what takes 1 ms */
	}
}

/* R-WIN-5 */
static void window__presses_where_yielding_does_not_help(void **state)
{
	struct path path = path_of(20000);
	uint32_t before;

	(void)state;
	path_begin(&path);
	trips(&path, 100);
	before = window_packets(&path.window);
	path.others_ns = 10 * MS;
	trips(&path, 3 * WINDOW_YIELDS);
	assert_int_equal(path.window.stats.presses, 1);
	assert_true(window_packets(&path.window) >= before);
	trips(&path, 300);
	assert_int_equal(window_packets(&path.window), MOST); /* nothing is lost */
	trip(&path, 3);
	assert_int_equal(window_packets(&path.window), MOST * 7 / 10);
}

/* An overflow between the yields is none of their doing. */
static void window__a_loss_is_not_undone_by_pressing(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	trips(&path, 100);
	path.others_ns = 10 * MS;
	for (uint32_t i = 0; !path.window.stats.presses; i++)
		trip(&path, i == 4);
	assert_int_equal(path.window.stats.losses, 1);
	assert_int_equal(path.window.stats.yields, WINDOW_YIELDS);
	assert_in_range(window_packets(&path.window), MOST * 7 / 10 - 1, MOST * 7 / 10 + 1);
}

static void window__tries_anew_whether_yielding_helps(void **state)
{
	struct path path = path_of(20000);

	(void)state;
	path_begin(&path);
	path.others_ns = 10 * MS;
	trips(&path, 3 * WINDOW_YIELDS);
	assert_true(path.window.is_pressed);
	path.others_ns = 0; /* the others have gone */
	while (path.now_ns < T0 + 2 * WINDOW_SPAN_NS)
		trip(&path, 0);
	assert_false(path.window.is_pressed);
	assert_true(trip(&path, 0) < WINDOW_TARGET_NS + MS);
}

static void window__yields_in_vain_cost_at_most_seven_eighths_for_a_while(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	trips(&path, 100);
	path.others_ns = 50 * MS;
	for (uint32_t i = 0; i < 4 * WINDOW_YIELDS; i++) {
		trip(&path, 0);
		assert_true(window_packets(&path.window) >= MOST / 8);
	}
	assert_int_equal(path.window.stats.yields, WINDOW_YIELDS);
	assert_int_equal(window_packets(&path.window), MOST);
}

static void window__is_never_less_than_two_or_the_most(void **state)
{
	(void)state;
	for (uint32_t most = 1; most < 4; most++) {
		struct path path = path_of(1000);

		window_init(&path.window, most);
		path_begin(&path);
		for (uint32_t i = 0; i < 100; i++) {
			trip(&path, 1);
			assert_true(window_packets(&path.window) >= (most < 2 ? most : 2));
			assert_true(window_packets(&path.window) <= most);
		}
	}
}

static void window__follows_a_path_that_has_become_longer(void **state)
{
	struct path path = path_of(84000);

	(void)state;
	path_begin(&path);
	path.others_ns = 30 * MS; /* not a queue: propagation */
	while (path.now_ns < T0 + 130 * WINDOW_SPAN_NS)
		trip(&path, 0);
	assert_true(path.window.base_ns > 25 * MS);
	path.others_ns = 0; /* and shorter again: at once */
	trip(&path, 0);
	assert_true(path.window.base_ns < 3 * MS);
}

/* R-WIN-6 */
static void window__grows_only_where_it_was_full(void **state)
{
	struct path path = path_of(84000);
	uint32_t before;

	(void)state;
	path_begin(&path);
	trips(&path, 4);
	trip(&path, 1);
	before = window_packets(&path.window);
	for (uint32_t i = 0; i < 100; i++) {
		path.now_ns += MS;
		window_sample(&path.window, BASE_US * US);
		window_answer(&path.window, path.now_ns, path.order, path.order, false);
		path.order++;
	}
	assert_in_range(window_packets(&path.window), before,
			before + 1); /* the last full trip's */
}

static void window__fixed_is_left_alone(void **state)
{
	struct window window;

	(void)state;
	window_init(&window, 0);
	window_sample(&window, MS);
	window_lost(&window);
	window_answer(&window, T0, 1, 1, true);
	assert_int_equal(window_packets(&window), 0);
	assert_int_equal(window.stats.losses, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window__begins_with_all_and_keeps_it_on_a_fast_path),
		cmocka_unit_test(window__yields_until_its_own_queue_is_at_the_target),
		cmocka_unit_test(window__one_long_trip_is_a_pause_and_changes_nothing),
		cmocka_unit_test(window__two_long_trips_that_are_far_apart_change_nothing),
		cmocka_unit_test(window__yields_to_a_queue_of_more_than_a_second),
		cmocka_unit_test(window__who_waits_for_others_learns_nothing),
		cmocka_unit_test(window__a_loss_without_a_queue_is_chance),
		cmocka_unit_test(window__losses_of_a_full_queue_take_three_tenths_once_a_trip),
		cmocka_unit_test(window__losses_by_chance_leave_the_link_busy),
		cmocka_unit_test(window__presses_where_yielding_does_not_help),
		cmocka_unit_test(window__a_loss_is_not_undone_by_pressing),
		cmocka_unit_test(window__tries_anew_whether_yielding_helps),
		cmocka_unit_test(window__yields_in_vain_cost_at_most_seven_eighths_for_a_while),
		cmocka_unit_test(window__is_never_less_than_two_or_the_most),
		cmocka_unit_test(window__follows_a_path_that_has_become_longer),
		cmocka_unit_test(window__grows_only_where_it_was_full),
		cmocka_unit_test(window__fixed_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
