/* SPDX-License-Identifier: Apache-2.0 */
/* machine_test.c - how much a machine has worked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/clock.h"
#include "util/machine.h"

static void machine__idle_and_stolen_are_the_right_fields(void **state)
{
	uint64_t idle = 0, stolen = 0;

	(void)state;
	assert_int_equal(machine_parse("cpu  1 20 300 4000 50000 6 70 800 9 10\n", &idle, &stolen),
			 0);
	assert_int_equal(idle, 54000);
	assert_int_equal(stolen, 800);
	assert_int_equal(machine_parse("cpu0 1 20 300 4000 50000 6 70 800\n", &idle, &stolen), -1);
	assert_int_equal(machine_parse("intr 1 20 300 4000 50000 6 70 800\n", &idle, &stolen), -1);
	assert_int_equal(machine_parse("cpu 1 20 300 4000\n", &idle, &stolen), -1);
}

static void machine__busy_is_neither_idle_nor_stolen(void **state)
{
	struct machine from = { .at_ns = 1000, .processors = 4, .idle_ns = 500, .stolen_ns = 70 };
	struct machine to = { .at_ns = 1100, .processors = 4, .idle_ns = 800, .stolen_ns = 80 };

	(void)state;
	assert_int_equal(machine_busy_ns(&from, &to), 400 - 300 - 10);
	to.idle_ns = 901;
	assert_int_equal(machine_busy_ns(&from, &to), 0);
}

static void machine__what_a_process_works_is_watched(void **state)
{
	uint64_t worked_ns = 50000000, until_ns;
	pid_t self = getpid();
	struct machine from, to;
	struct timespec cpu;

	(void)state;
	assert_int_equal(machine_read(&from, &self, 1), 0);
	do {
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
		until_ns = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec;
	} while (until_ns < from.watched_ns + worked_ns);
	assert_int_equal(machine_read(&to, &self, 1), 0);
	assert_true(to.watched_ns >= from.watched_ns + worked_ns);
	assert_true(to.watched_ns - from.watched_ns <=
		    (to.at_ns - from.at_ns + 100000000) * to.processors);
	/* A tick is 10 ms. */
	assert_true(machine_busy_ns(&from, &to) + to.stolen_ns - from.stolen_ns + 20000000 >=
		    worked_ns);
	assert_int_equal(machine_read(&to, NULL, 0), 0);
	assert_int_equal(to.watched_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(machine__idle_and_stolen_are_the_right_fields),
		cmocka_unit_test(machine__busy_is_neither_idle_nor_stolen),
		cmocka_unit_test(machine__what_a_process_works_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
