/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_swap_test.c - sparse.h's model is the same from the view of both workers: the mirror image of each state can
 * be reached too, and where names do not matter there is one state for each two that are mirrored, and for each that
 * is its own image. So no part of the state is left out of the image, and no step depends on who is first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <string.h>

#include <cmocka.h>

#include "search/seen.h"
#include "search/sparse_world.h"

static uint64_t own_images;
static struct seen states_and_images;

static const char *look(const void *config, const void *state)
{
	struct sparse_state image = *(const struct sparse_state *)state;

	sparse_mirror(&image);
	seen_put(&states_and_images, state, sizeof(image));
	seen_put(&states_and_images, &image, sizeof(image));
	own_images += !memcmp(&image, state, sizeof(image));
	sparse_mirror(&image);
	assert_memory_equal(&image, state, sizeof(image));
	return sparse_drain(config, state);
}

static uint64_t states_of(const struct sparse_config *config)
{
	struct bfs_model model;
	struct bfs_result result;

	sparse_model(&model, config);
	model.check = look;
	own_images = 0;
	seen_forget(&states_and_images);
	result = bfs_run(&model, 1000000, NULL, false);
	assert_true(result.is_complete && !result.violation);
	return result.states;
}

static void mirrored_once(struct sparse_config config)
{
	uint64_t named, nameless;

	config.workers = 2;
	config.is_named = true;
	named = states_of(&config);
	assert_true(own_images && own_images < named);
	assert_int_equal(states_and_images.count, named);
	named += own_images;
	config.is_named = false;
	nameless = states_of(&config);
	assert_int_equal(named, 2 * nameless);
}

static void test_pushes(void **unused)
{
	(void)unused;
	mirrored_once(
		(struct sparse_config){ .window = 2, .pushes = 2, .generations = 1, .rows = 1 });
}

static void test_fence_with_old_packets(void **unused)
{
	(void)unused;
	mirrored_once((struct sparse_config){
		.window = 1, .pushes = 1, .epochs = 1, .generations = 2, .is_fat = true });
}

static void test_two_lives(void **unused)
{
	(void)unused;
	mirrored_once((struct sparse_config){
		.window = 1, .pushes = 1, .epochs = 1, .generations = 2, .lives = 2, .rows = 1 });
}

static void test_batches(void **unused)
{
	(void)unused;
	mirrored_once((struct sparse_config){
		.window = 1, .pushes = 1, .epochs = 1, .generations = 1, .batches = 1, .rows = 1 });
}

static void test_steps_and_restart(void **unused)
{
	(void)unused;
	mirrored_once((struct sparse_config){ .window = 1,
					      .pushes = 2,
					      .kept = 1,
					      .epochs = 2,
					      .generations = 2,
					      .deaths = 1,
					      .step = 1,
					      .rows = 1 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pushes),
		cmocka_unit_test(test_fence_with_old_packets),
		cmocka_unit_test(test_two_lives),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_steps_and_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
