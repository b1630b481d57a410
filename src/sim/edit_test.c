/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/edit.h"
#include "sim/run.h"

static void edits__text_is_read_as_it_was_written(void **state)
{
	struct edits edits, again;
	char text[EDITS_TEXT];

	(void)state;
	edits_init(&edits);
	edits_text(&edits, text);
	assert_string_equal(text, "");
	assert_true(edits_read(&edits, "workers=2,ops=1,chance=3"));
	assert_int_equal(edits.value[EDIT_workers], 2);
	assert_int_equal(edits.value[EDIT_loss], EDIT_NONE);
	edits_text(&edits, text);
	assert_string_equal(text, "workers=2,ops=1,chance=3");
	for (uint32_t edit = 0; edit < EDIT_COUNT; edit++)
		edits.value[edit] = UINT64_MAX - 1 - edit; /* the longest there is */
	edits_text(&edits, text);
	edits.chance = UINT64_MAX;
	edits_text(&edits, text);
	assert_in_range(strlen(text), 500, EDITS_TEXT - 2);
	assert_true(edits_read(&again, text));
	assert_memory_equal(&again, &edits, sizeof(edits));
	assert_true(edits_read(&again, "last=5"));
	assert_int_equal(again.chance, 0);
}

static void edits__nonsense_is_refused(void **state)
{
	static const char *const wrong[] = { "",         "workers",    "workers=",    "workers=two",
					     "worker=2", "workers=2,", "workers=2 x", ",",
					     "=2",       "workers=-1" };
	struct edits edits;

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(edits_read(&edits, wrong[i]));
}

/* Each alone, at its least, on many seeds of every kind: smaller, and a scenario that can be run. */
static void edits__nothing_becomes_larger(void **state)
{
	struct scenario drawn, edited;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		for (uint32_t edit = 0; edit < EDIT_last; edit++) {
			struct edits edits;

			edits_init(&edits);
			edits.value[edit] = edit_least((enum edit)edit);
			scenario_draw_short(&drawn, seed,
					    (enum scenario_kind)(seed % SCENARIO_COUNT), 1500);
			edited = drawn;
			edits_apply(&edits, &edited);
			for (uint32_t other = 0; other < EDIT_last; other++)
				if (other !=
				    EDIT_chunks) /* fewer numbers in a packet: more packets */
					assert_true(edit_now(&edited, (enum edit)other) <=
						    edit_now(&drawn, (enum edit)other));
		}
}

static void edits__smallest_of_every_kind_still_runs(void **state)
{
	struct scenario scenario;
	struct run_report drawn, least;
	struct edits edits;

	(void)state;
	edits_init(&edits);
	for (uint32_t edit = 0; edit < EDIT_last; edit++)
		edits.value[edit] = edit_least((enum edit)edit);
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++) {
		scenario_draw_short(&scenario, 5, (enum scenario_kind)kind, 1500);
		run_scenario(&scenario, &drawn, stdout);
		edits_apply(&edits, &scenario);
		run_scenario(&scenario, &least, stdout);
		assert_false(least.is_failed);
		assert_true(least.packets > 0);
		assert_true(least.packets < drawn.packets);
		assert_int_equal(scenario.workers, kind == SCENARIO_disagree ? 2 : 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits__text_is_read_as_it_was_written),
		cmocka_unit_test(edits__nonsense_is_refused),
		cmocka_unit_test(edits__nothing_becomes_larger),
		cmocka_unit_test(edits__smallest_of_every_kind_still_runs),
	};

	return cmocka_run_group_tests_name("edit", tests, NULL, NULL);
}
