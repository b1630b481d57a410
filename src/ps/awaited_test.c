/* SPDX-License-Identifier: Apache-2.0 */
/* Who is waited for in a barrier is logged: awaited.c. The clock of all but the loop's own file is the test's. */
#include "ps/server_fixture.h"

static atomic_ullong now_ns;

uint64_t __wrap_ps_now(const struct ps_server *of);

uint64_t __wrap_ps_now(const struct ps_server *of)
{
	(void)of;
	return now_ns;
}

static void clock_step(unsigned seconds)
{
	now_ns += 1000000000ull * seconds;
	ps_server_ask(server, PS_REPORT); /* wakes it */
}

static int setup_of(void **state, uint16_t workers)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC,
		      &now); /* the loop compares with it when something was heard */
	now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	options_begin();
	options.workers = workers;
	return begin(state);
}

static int setup_five(void **state)
{
	return setup_of(state, 5);
}

static int setup_ten(void **state)
{
	return setup_of(state, 10);
}

static int open_of(uint16_t worker, uint64_t incarnation)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = { .type = KV_OPEN, .name = "t", .servers = 1, .dim = DIM };
	int fd = connect_one();

	hello.workers = options.workers;
	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	hear(fd, KV_OPENED);
	return fd;
}

/* One turn at least has passed since. */
static void turn(int fd)
{
	for (int i = 0; i < 2; i++) {
		pull_say(fd, 0, 0);
		hear(fd, KV_PULLED);
	}
}

static void awaited__are_named_every_10_s_with_why(void **unused)
{
	int first, here, gone;

	(void)unused;
	here = open_of(3, 1);
	leave(here); /* of an earlier run */
	first = open_of(0, 1);
	gone = open_of(2, 1);
	here = open_of(4, 1);
	close(gone);
	log_wait("worker 2 (H, pid 77) has gone, and may come back");
	clock_step(3);
	barrier_say(first, 1);
	turn(first);
	clock_step(8);
	turn(first);
	assert_int_equal(log_count("waiting in a barrier"), 0);
	clock_step(3);
	log_wait("1 table t: waiting in a barrier: workers 0; worker 0 for 11 s, for barrier 1; "
		 "never "
		 "opened the table: 1; not here since an earlier run: 3; gone: 2 (for 14 s); here, "
		 "but "
		 "not so far: 4: start those that are not here\n");
	clock_step(8);
	turn(first);
	assert_int_equal(log_count("waiting in a barrier"), 1);
	barrier_say(here, 1);
	turn(here);
	clock_step(3);
	log_wait("1 table t: waiting in a barrier: workers 0, 4; worker 0 for 22 s, for barrier 1; "
		 "never opened the table: 1; not here since an earlier run: 3; gone: 2 (for 25 s): "
		 "start those that are not here\n");
	assert_int_equal(log_count("waiting in a barrier"), 2);
	close(first);
	close(here);
}

/* Eight of a kind are named, and the others counted. */
static void awaited__others_are_counted(void **unused)
{
	int first;

	(void)unused;
	first = open_of(0, 1);
	barrier_say(first, 1);
	turn(first);
	clock_step(11);
	log_wait("never opened the table: 1, 2, 3, 4, 5, 6, 7, 8 and 1 more: start those that are "
		 "not here\n");
	close(first);
}

/* Nobody is called for who is at work, and nobody after all have come. */
static void awaited__are_not_called_for_when_they_are_here(void **unused)
{
	int fd[5];

	(void)unused;
	for (uint16_t i = 0; i < 5; i++)
		fd[i] = open_of(i, 1);
	barrier_say(fd[1], 1);
	turn(fd[1]);
	clock_step(11);
	log_wait("workers 1; worker 1 for 11 s, for barrier 1; here, but not so far: 0, 2, 3, 4\n");
	for (uint16_t i = 0; i < 5; i++)
		if (i != 1)
			barrier_say(fd[i], 1);
	for (uint16_t i = 0; i < 5; i++)
		barrier_hear(fd[i], 1);
	clock_step(30);
	turn(fd[0]);
	barrier_say(fd[1], 2); /* it waits since now */
	turn(fd[1]);
	turn(fd[0]);
	assert_int_equal(log_count("waiting in a barrier"), 1);
	for (uint16_t i = 0; i < 5; i++)
		close(fd[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(awaited__are_named_every_10_s_with_why, setup_five,
						end),
		cmocka_unit_test_setup_teardown(awaited__are_not_called_for_when_they_are_here,
						setup_five, end),
		cmocka_unit_test_setup_teardown(awaited__others_are_counted, setup_ten, end),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
