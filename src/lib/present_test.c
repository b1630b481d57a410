/* SPDX-License-Identifier: Apache-2.0 */
/* present_test.c - who of this process could still call something (R-CT-45). Whether the kernel has random bytes is
 * the test's. */
#include "lib/present.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/job/control.h"

static bool has_no_random;

ssize_t __real_getrandom(void *at, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *at, size_t bytes, unsigned flags);

ssize_t __wrap_getrandom(void *at, size_t bytes, unsigned flags)
{
	assert_int_equal(flags, GRND_NONBLOCK); /* early, a host has none for long */
	return has_no_random ? -1 : __real_getrandom(at, bytes, flags);
}

static int told = -1; /* gets a byte when ends of threads are told no more */

int __real_pthread_key_delete(pthread_key_t key);
int __wrap_pthread_key_delete(pthread_key_t key);

int __wrap_pthread_key_delete(pthread_key_t key)
{
	if (told >= 0 && write(told, "", 1) != 1)
		abort();
	return __real_pthread_key_delete(key);
}

static struct control_opinfo say(void)
{
	struct control_opinfo info = { 0 };

	present_say(&info);
	return info;
}

static pthread_barrier_t barrier;

static void *other_main(void *arg)
{
	(void)arg;
	present_here();
	present_here(); /* it is one, however often it calls */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void present__threads_count_from_their_first_call_to_their_end(void **state)
{
	struct control_opinfo before = say(), here, both, after;
	pthread_t other;

	(void)state;
	assert_int_equal(before.threads, 0);
	present_inside(1);
	present_here(); /* inside of a function its thread does not count */
	present_inside(-1);
	assert_int_equal(say().threads, 0);
	assert_int_equal(say().entries, before.entries);
	present_here();
	here = say();
	assert_int_equal(here.threads, 1);
	assert_int_equal(here.entries, before.entries + 1);
	assert_true(here.process != 0);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&other, NULL, other_main, NULL), 0);
	pthread_barrier_wait(&barrier);
	both = say();
	assert_int_equal(both.threads, 2);
	assert_int_equal(both.entries, here.entries + 1);
	pthread_barrier_wait(&barrier);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&barrier);
	after = say();
	assert_int_equal(after.threads, 1);
	assert_int_equal(after.entries, both.entries + 1);
	assert_true(after.process == here.process);
}

static pthread_key_t last_key;
static unsigned last_turns, last_threads[2];

/* The program's own end of a thread, which calls us after the thread's end was told: in the second turn it surely was. */
static void call_last(void *value)
{
	if (++last_turns == 1) {
		assert_int_equal(pthread_setspecific(last_key, value), 0);
		return;
	}
	last_threads[0] = say().threads;
	present_here();
	last_threads[1] = say().threads;
}

static void *last_main(void *arg)
{
	present_here();
	assert_int_equal(pthread_setspecific(last_key, arg), 0);
	return NULL;
}

static void present__thread_that_calls_at_its_end_counts_again_until_its_end(void **state)
{
	unsigned before = say().threads;
	pthread_t other;

	(void)state;
	assert_int_equal(pthread_key_create(&last_key, call_last), 0);
	assert_int_equal(pthread_create(&other, NULL, last_main, &before), 0);
	pthread_join(other, NULL);
	pthread_key_delete(last_key);
	assert_int_equal(last_turns, 2);
	assert_int_equal(last_threads[0], before);
	assert_int_equal(last_threads[1], before + 1);
	assert_int_equal(say().threads, before);
}

static void present__functions_count_like_threads_and_each_move_is_an_entry(void **state)
{
	struct control_opinfo before = say();

	(void)state;
	present_calls(1);
	present_calls(1);
	assert_int_equal(say().threads, before.threads + 2);
	assert_int_equal(say().entries, before.entries + 2);
	present_calls(-1);
	present_calls(-1);
	assert_int_equal(say().threads, before.threads);
	present_moved();
	assert_int_equal(say().entries, before.entries + 5);
}

static void *forked_main(void *arg)
{
	struct control_opinfo before = say();

	(void)arg;
	present_forked(); /* in a thread that has called nothing */
	assert_int_equal(say().threads, 0);
	assert_true(say().process != before.process);
	return NULL;
}

static void present__a_child_is_another_process_of_one_thread(void **state)
{
	struct control_opinfo before;
	pthread_t other;
	unsigned epoch;

	(void)state;
	present_here();
	present_calls(1);
	before = say();
	epoch = present_epoch();
	present_forked();
	assert_int_equal(present_epoch(), epoch + 1);
	assert_int_equal(say().threads, 1);
	assert_true(say().process != before.process);
	before = say();
	has_no_random = true; /* as good as can be had, then */
	present_forked();
	has_no_random = false;
	assert_true(say().process != before.process);
	/* More than the number that the host has given it. */
	assert_true(say().process > UINT32_MAX);
	assert_int_equal(pthread_create(&other, NULL, forked_main, NULL), 0);
	pthread_join(other, NULL);
}

/* A thread's end would call what is no longer there. */
static void present__of_a_library_that_goes_no_end_is_told(void **state)
{
	int ends[2], status;
	char byte;
	pid_t pid;

	(void)state;
	present_here();
	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		told = ends[1];
		exit(0); /* for the library, to be unloaded is the same */
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(present__threads_count_from_their_first_call_to_their_end),
		cmocka_unit_test(present__thread_that_calls_at_its_end_counts_again_until_its_end),
		cmocka_unit_test(present__functions_count_like_threads_and_each_move_is_an_entry),
		cmocka_unit_test(present__a_child_is_another_process_of_one_thread),
		cmocka_unit_test(present__of_a_library_that_goes_no_end_is_told),
	};

	return cmocka_run_group_tests_name("lib-present", tests, NULL, NULL);
}
