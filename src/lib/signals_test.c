/* SPDX-License-Identifier: Apache-2.0 */
/* signals_test.c - no thread of this library takes a signal of the program's: neither those of a communicator and the
 * aggregator that it hosts, nor the one that watches over an allgather. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tally.h"

static volatile sig_atomic_t taken;

static void take(int signal)
{
	(void)signal;
	taken = 1;
}

/* The signal stays where it is while this thread does not want it. */
static bool is_nobodys(void)
{
	struct timespec moment = { .tv_nsec = 20000000 };
	sigset_t one, before, pending;
	bool is_pending;

	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	if (pthread_sigmask(SIG_BLOCK, &one, &before) || sigismember(&before, SIGUSR1))
		return false; /* this thread's mask is as it was */
	kill(getpid(), SIGUSR1);
	nanosleep(&moment, NULL);
	sigpending(&pending);
	is_pending = sigismember(&pending, SIGUSR1);
	if (is_pending)
		(void)sigtimedwait(&one, NULL, &moment);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return is_pending && !taken;
}

static bool was_nobodys;

static int allgather(const void *send, void *recv, size_t bytes, void *ctx)
{
	(void)ctx;
	was_nobodys = is_nobodys();
	memcpy(recv, send, bytes);
	return 0;
}

static void signals__are_taken_by_no_thread_of_ours(void **state)
{
	struct sigaction action = { .sa_handler = take };
	struct tally_comm *comm;
	int32_t x = -8;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_true(is_nobodys());
	assert_int_equal(tally_comm_init_oob(&comm, 1, 0, allgather, NULL, NULL), TALLY_OK);
	assert_true(was_nobodys);
	assert_true(is_nobodys());
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(x, -8);
	tally_comm_destroy(comm);
	assert_true(is_nobodys());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals__are_taken_by_no_thread_of_ours),
	};

	alarm(30);
	unsetenv("TALLY_AGGREGATOR");
	unsetenv("TALLY_JOB");
	return cmocka_run_group_tests_name("lib-signals", tests, NULL, NULL);
}
