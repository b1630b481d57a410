/* SPDX-License-Identifier: Apache-2.0 */
/* clock_test.c - the clock that nobody sets, and threads that no signal reaches (thread.h). */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "util/clock.h"
#include "util/thread.h"

static void clock__is_the_kernels_in_nanoseconds(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		struct timespec before, after;
		uint64_t now_ns, from_ns, to_ns;

		clock_gettime(CLOCK_MONOTONIC, &before);
		now_ns = clock_ns();
		clock_gettime(CLOCK_MONOTONIC, &after);
		from_ns = (uint64_t)before.tv_sec * 1000000000 + (uint64_t)before.tv_nsec;
		to_ns = (uint64_t)after.tv_sec * 1000000000 + (uint64_t)after.tv_nsec;
		assert_in_range(now_ns, from_ns, to_ns);
	}
}

static void clock__has_other_units(void **state)
{
	struct timespec time = clock_timespec(7123456789);
	uint64_t before_ns = clock_ns();
	int64_t ms = clock_ms();
	double s = clock_s();
	uint64_t after_ns = clock_ns();

	(void)state;
	assert_int_equal(time.tv_sec, 7);
	assert_int_equal(time.tv_nsec, 123456789);
	assert_in_range(ms, before_ns / 1000000, after_ns / 1000000);
	assert_true(s >= (double)before_ns * 0.999999e-9 && s <= (double)after_ns * 1.000001e-9);
}

/* By the wall clock, which is decades ahead, it would be over at once. */
static void waits__go_by_it(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t until_ns = clock_ns() + 20000000;
	struct timespec until = clock_timespec(until_ns);
	pthread_cond_t cond;
	int result;

	(void)state;
	clock_cond_init(&cond);
	pthread_mutex_lock(&lock);
	do
		result = pthread_cond_timedwait(&cond, &lock, &until);
	while (!result);
	pthread_mutex_unlock(&lock);
	assert_int_equal(result, ETIMEDOUT);
	assert_true(clock_ns() >= until_ns);
	pthread_cond_destroy(&cond);
}

static void *look(void *arg)
{
	sigset_t *blocked = arg;

	pthread_sigmask(SIG_SETMASK, NULL, blocked);
	return blocked;
}

static void threads__get_no_signals_and_leave_ours_as_they_were(void **state)
{
	sigset_t ours, theirs, after;
	pthread_t thread;
	void *result;

	(void)state;
	sigemptyset(&theirs);
	sigemptyset(&ours);
	sigaddset(&ours, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &ours, NULL);
	assert_int_equal(thread_create(&thread, look, &theirs), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &theirs);
	for (int i = 1; i < SIGRTMIN; i++) {
		assert_int_equal(sigismember(&after, i), i == SIGUSR1);
		assert_int_equal(sigismember(&theirs, i), i != SIGKILL && i != SIGSTOP && i < 32);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock__is_the_kernels_in_nanoseconds),
		cmocka_unit_test(clock__has_other_units),
		cmocka_unit_test(waits__go_by_it),
		cmocka_unit_test(threads__get_no_signals_and_leave_ours_as_they_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
