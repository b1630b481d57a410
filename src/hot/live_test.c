/* SPDX-License-Identifier: Apache-2.0 */
/* live_test.c - a stream whose hot keys are others after a while: what the map of it is worth, and when another is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "hot/live.h"
#include "util/rng.h"

enum { HOT = 50, COLD = 100000, RATE = 2000 /* updates a second */ };

static struct live live;
static struct rng rng;
static double now_s;

static int begin_with(double half_life_s, uint32_t counters)
{
	const struct live_options options = {
		.rate = 1,
		.seed = 1,
		.counters = counters,
		.half_life_s = half_life_s,
		.slack = 0.02,
		.choose = { .p = 0.7, .keys_max = 1000 },
	};

	rng_init(&rng, 5, 0);
	now_s = 1000;
	return live_open(&live, &options, now_s);
}

static int begin(void **state)
{
	(void)state;
	return begin_with(60, 1 << 14);
}

static int end(void **state)
{
	(void)state;
	live_close(&live);
	return 0;
}

/* Four of five updates are of the keys from `first` on. */
static void stream(double seconds, uint64_t first)
{
	for (uint32_t i = 0; i < (uint32_t)(seconds * RATE); i++) {
		uint64_t key = rng_below(&rng, 5) ? first + rng_below(&rng, HOT)
						  : UINT64_C(1) << 32 | rng_below(&rng, COLD);

		now_s += 1.0 / RATE;
		live_age(&live, now_s);
		assert_int_equal(survey_row(&live.survey, &key, 1), 0);
	}
}

static struct hot_map map_of(uint64_t first)
{
	char path[] = "/tmp/tally-live-XXXXXX", error[FILES_ERROR_MAX];
	uint64_t keys[HOT];
	struct hot_map map = { .version = 1, .keys = HOT, .key = keys };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	for (uint64_t i = 0; i < HOT; i++)
		keys[i] = first + i;
	assert_int_equal(hot_map_write(path, &map, error), 0);
	assert_int_equal(hot_map_read(path, &map, error), 0);
	unlink(path);
	return map;
}

static struct live_look look_at(const struct hot_map *map)
{
	struct live_look look;

	assert_int_equal(live_look(&live, map, &look), 0);
	return look;
}

/* Are the keys that it would choose those from `first` on? */
static bool is_of(const struct live_look *look, uint64_t first)
{
	for (uint64_t i = 0; i < look->choice.keys; i++)
		if (look->heat[i].key - first >= HOT)
			return false;
	return look->choice.keys > HOT / 2;
}

static void drift(void)
{
	struct hot_map map = map_of(100);
	struct live_look look;

	stream(60, 100);
	look = look_at(NULL);
	assert_true(look.is_due && is_of(&look, 100));
	free(look.heat);
	look = look_at(&map);
	assert_false(look.is_due);
	assert_true(look.map_share > 0.7 && look.map_share < 0.9);
	free(look.heat);
	stream(300, 5000);
	look = look_at(&map);
	assert_true(look.is_due && is_of(&look, 5000));
	assert_true(look.map_share < 0.1);
	free(look.heat);
	hot_map_fini(&map);
	map = map_of(5000);
	look = look_at(&map);
	assert_false(look.is_due);
	free(look.heat);
	hot_map_fini(&map);
}

static void live__another_map_is_due_when_other_keys_are_hot(void **state)
{
	(void)state;
	drift();
}

/* Most keys have no counter. */
static void live__a_small_sketch_forgets_as_well(void **state)
{
	end(state);
	assert_int_equal(begin_with(60, 1 << 10), 0);
	drift();
	assert_true(sketch_error(live.survey.sketch) > 0);
}

static void live__what_was_hot_an_hour_ago_is_not_any_more(void **state)
{
	struct live_look look;

	(void)state;
	look = look_at(NULL);
	assert_false(look.is_due);
	free(look.heat);
	stream(60, 100);
	now_s += 3600;
	stream(1, 7000);
	look = look_at(NULL);
	assert_true(look.is_due && is_of(&look, 7000));
	free(look.heat);
	now_s += 1e9;
	live_age(&live, now_s);
	look = look_at(NULL);
	assert_int_equal(look.updates, 0);
	assert_false(look.is_due);
	free(look.heat);
}

static void live__forgets_half_when_a_half_life_is_just_over(void **state)
{
	const uint64_t key = 7;
	struct live_look look;

	(void)state;
	for (int i = 0; i < 64; i++)
		assert_int_equal(survey_row(&live.survey, &key, 1), 0);
	live_age(&live, now_s + 59.5);
	look = look_at(NULL);
	assert_int_equal(look.updates, 64);
	free(look.heat);
	live_age(&live, now_s + 60);
	look = look_at(NULL);
	assert_int_equal(look.updates, 32);
	free(look.heat);
}

/* After 64 half-lives nothing is left: the next begins when something comes again. */
static void live__that_has_forgotten_all_ages_from_then_on(void **state)
{
	static const double halves[] = { 65, 65.5 };
	struct live_look look;
	uint64_t key = 7;

	(void)state;
	for (size_t n = 0; n < sizeof(halves) / sizeof(halves[0]); n++) {
		now_s += halves[n] * 60;
		live_age(&live, now_s);
		for (uint32_t i = 0; i < 64; i++)
			assert_int_equal(survey_row(&live.survey, &key, 1), 0);
		live_age(&live, now_s + 59.5);
		look = look_at(NULL);
		assert_int_equal(look.updates, 64);
		free(look.heat);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(live__another_map_is_due_when_other_keys_are_hot,
						begin, end),
		cmocka_unit_test_setup_teardown(live__a_small_sketch_forgets_as_well, begin, end),
		cmocka_unit_test_setup_teardown(live__what_was_hot_an_hour_ago_is_not_any_more,
						begin, end),
		cmocka_unit_test_setup_teardown(live__forgets_half_when_a_half_life_is_just_over,
						begin, end),
		cmocka_unit_test_setup_teardown(live__that_has_forgotten_all_ages_from_then_on,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
