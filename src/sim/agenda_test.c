/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/agenda.h"
#include "util/rng.h"

enum { ENTRIES = 20000 };

static void agenda__equal_times_leave_as_they_came(void **state)
{
	struct agenda agenda = { .last = 0 };

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		agenda_push(&agenda, 1000 + i % 3, i);
	assert_int_equal(agenda_next(&agenda), 1000);
	for (uint32_t time = 0; time < 3; time++)
		for (uint32_t i = time; i < 100; i += 3) {
			struct agenda_entry entry = agenda_pop(&agenda);
			assert_int_equal(entry.at, 1000 + time);
			assert_int_equal(entry.what, i);
		}
	assert_int_equal(agenda_next(&agenda), UINT64_MAX);
	agenda_fini(&agenda);
}

/* Against the plainest list there is: what has the least time and, of these, came first. */
static void agenda__any_order_of_pushes_and_pops_is_kept(void **state)
{
	static struct agenda_entry list[ENTRIES];
	struct agenda agenda = { .last = 0 };
	uint64_t now = UINT64_MAX / 2 - 1000; /* its top bit changes on the way */
	uint32_t count = 0, pushed = 0;
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	while (pushed < ENTRIES || count) {
		if (pushed < ENTRIES && (!count || (count < 300 && rng_chance(&rng, 520000)))) {
			list[count] = (struct agenda_entry){
				.at = now +
				      (rng_chance(&rng, 200000) ? 0 : rng_log(&rng, 1, 1ull << 40)),
				.what = pushed++,
			};
			agenda_push(&agenda, list[count].at, list[count].what);
			count++;
			continue;
		}
		uint32_t least = 0;
		for (uint32_t i = 1; i < count; i++)
			if (list[i].at < list[least].at)
				least = i;
		assert_int_equal(agenda_next(&agenda), list[least].at);
		struct agenda_entry entry = agenda_pop(&agenda);
		assert_int_equal(entry.at, list[least].at);
		assert_int_equal(entry.what, list[least].what);
		now = entry.at;
		for (count--; least < count; least++)
			list[least] = list[least + 1];
	}
	assert_int_equal(agenda.count, 0);
	agenda_fini(&agenda);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agenda__equal_times_leave_as_they_came),
		cmocka_unit_test(agenda__any_order_of_pushes_and_pops_is_kept),
	};

	return cmocka_run_group_tests_name("agenda", tests, NULL, NULL);
}
