/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt_test.c - waits that a signal ends by way of tally_options.interrupted, as Python's Ctrl-C does: its handler,
 * installed with SA_RESTART, leaves a note; what was waited for is still there.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 2, COUNT = 3000, SIGNAL_MS = 60 };

static const double limit_s = 1.0;

/* ---- the program's side ---- */

static atomic_uint signals, seen;

static void on_signal(int signal_number)
{
	(void)signal_number;
	atomic_fetch_add(&signals, 1);
}

static int has_signal(void *ctx)
{
	(void)ctx;
	return atomic_exchange(&signals, 0) != 0;
}

/* SIGINT to this process, in a moment. */
static void signal_soon(void)
{
	static timer_t timer;
	static bool is_made;
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGINT };
	const struct itimerspec at = { .it_value = { .tv_nsec = SIGNAL_MS * 1000000 } };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	CHECK(!sigaction(SIGINT, &action, NULL));
	CHECK(is_made || !timer_create(CLOCK_MONOTONIC, &event, &timer));
	is_made = true;
	atomic_store(&signals, 0);
	CHECK(!timer_settime(timer, 0, &at, NULL));
}

static int join(struct ranks *ranks, uint32_t rank, bool asks, struct tally_comm **comm)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 20;
	if (asks)
		options.interrupted = has_signal;
	return tally_comm_init(comm, ranks->job, SIZE, rank, &options);
}

/* A vector of this rank, and whether it has become the sum of all. */
static void fill(int32_t *x, uint32_t rank, int32_t salt)
{
	for (int32_t i = 0; i < COUNT; i++)
		x[i] = rank ? 1000 * i + salt : -7 * i;
}

static bool is_sum(const int32_t *x, int32_t salt)
{
	for (int32_t i = 0; i < COUNT; i++)
		if (x[i] != 993 * i + salt)
			return false;
	return true;
}

/* ---- handles ---- */

static void wait_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[COUNT], y[COUNT];
	struct tally_work *works[2];
	struct tally_comm *comm;
	double from_s;
	int done;

	fill(x, rank, 5);
	fill(y, rank, 6);
	CHECK(join(ranks, rank, true, &comm) == TALLY_OK);
	CHECK(tally_barrier(comm) == TALLY_OK);
	if (rank == 1)
		ranks_meet(ranks); /* this rank is late */
	CHECK(!tally_iallreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm, NULL, &works[0]));
	CHECK(!tally_iallreduce(y, y, COUNT, TALLY_INT32, TALLY_SUM, comm, NULL, &works[1]));
	if (rank == 0) {
		for (int i = 0; i < 2; i++) {
			signal_soon();
			from_s = ranks_now_s();
			CHECK((i ? tally_wait(&works[0], -1) : tally_waitall(2, works, 30000)) ==
			      TALLY_INTERRUPTED);
			CHECK(ranks_now_s() - from_s < limit_s + ranks->shared->still_s);
		}
		CHECK(works[0] && works[1]);
		CHECK(tally_test(&works[0], &done) == TALLY_OK && !done);
		CHECK(tally_comm_get_async_error(comm) == TALLY_OK);
		CHECK(tally_wait(&works[0], 10) == TALLY_IN_PROGRESS);
		ranks_meet(ranks);
	}
	CHECK(tally_waitall(2, works, -1) == TALLY_OK);
	CHECK(!works[0] && !works[1] && is_sum(x, 5) && is_sum(y, 6));
	ranks_leave(comm);
}

static void wait__is_interrupted_and_nothing_has_changed(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = wait_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- without the option ---- */

static void deaf_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;

	CHECK(join(ranks, rank, false, &comm) == TALLY_OK);
	if (rank == 0)
		signal_soon();
	else
		usleep(4000 * SIGNAL_MS);
	CHECK(tally_barrier(comm) == TALLY_OK);
	CHECK(rank || atomic_load(&signals) == 1); /* it has come */
	ranks_leave(comm);
}

static void wait__goes_on_if_the_program_has_not_asked(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = deaf_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- blocking calls ---- */

static void blocking_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[COUNT], y[COUNT];
	struct tally_comm *comm;

	fill(x, rank, 5);
	fill(y, rank, 6);
	CHECK(join(ranks, rank, true, &comm) == TALLY_OK);
	if (rank == 1)
		ranks_meet(ranks);
	if (rank == 0) {
		for (int i = 0; i < 3; i++) {
			signal_soon();
			CHECK(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm) ==
			      TALLY_INTERRUPTED);
		}
		CHECK(tally_barrier(comm) == TALLY_ERR_USAGE);
		CHECK(strstr(tally_get_last_error(NULL), "operation #0"));
		CHECK(tally_allreduce(y, y, COUNT, TALLY_INT32, TALLY_SUM, comm) ==
		      TALLY_ERR_USAGE);
		ranks_meet(ranks);
		usleep(20000); /* the background thread may complete it meanwhile */
	}
	CHECK(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(is_sum(x, 5));
	CHECK(tally_allreduce(y, y, COUNT, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(is_sum(y, 6));
	if (rank == 1)
		ranks_meet(ranks);
	if (rank == 0) {
		signal_soon();
		CHECK(tally_barrier(comm) == TALLY_INTERRUPTED);
		ranks_meet(ranks);
	}
	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_leave(comm);
}

static void allreduce__is_interrupted_and_called_again(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = blocking_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Ctrl-C, and the program wants no more: its buffers are its own when the communicator is gone. */
static void given_up_body(struct ranks *ranks, uint32_t rank)
{
	int32_t *x = malloc(COUNT * sizeof(*x));
	struct tally_comm *comm;
	int result;

	CHECK(x);
	fill(x, rank, 5);
	CHECK(join(ranks, rank, true, &comm) == TALLY_OK);
	if (rank == 0) {
		signal_soon();
		CHECK(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, comm) ==
		      TALLY_INTERRUPTED);
		CHECK(tally_comm_abort(comm) == TALLY_OK);
		CHECK(tally_barrier(comm) == TALLY_ERR_ABORTED);
		ranks_report(ranks, rank, comm, TALLY_ERR_REMOTE);
	} else {
		while (!(result = tally_comm_get_async_error(comm)))
			usleep(1000);
		ranks_report(ranks, rank, comm, result);
	}
	tally_comm_destroy(comm);
	free(x);
}

static void allreduce__may_be_given_up_after_that(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = given_up_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_int_equal(ranks.shared->report[1].result, TALLY_ERR_REMOTE);
	assert_non_null(strstr(ranks.shared->report[1].text, "rank 0"));
}

/* ---- a thread that has ended, and another that the system takes for it ---- */

struct caller {
	struct tally_comm *comm;
	int32_t *x; /* NULL: a barrier */
	pthread_t self;
	int result;
};

static void *caller_main(void *arg)
{
	struct caller *caller = arg;

	caller->self = pthread_self();
	caller->result = caller->x ? tally_allreduce(caller->x, caller->x, COUNT, TALLY_INT32,
						     TALLY_SUM, caller->comm)
				   : tally_barrier(caller->comm);
	return NULL;
}

/* On one stack, so that all that run there have the same pthread_t. */
static void caller_run(struct caller *caller)
{
	static _Alignas(65536) char stack[1 << 20];
	pthread_attr_t attributes;
	pthread_t thread;

	CHECK(!pthread_attr_init(&attributes));
	CHECK(!pthread_attr_setstack(&attributes, stack, sizeof(stack)));
	CHECK(!pthread_create(&thread, &attributes, caller_main, caller));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!pthread_attr_destroy(&attributes));
}

static void heir_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[COUNT];
	struct caller first = { .x = NULL }, second = { .x = x };

	fill(x, rank, 5);
	CHECK(join(ranks, rank, true, &first.comm) == TALLY_OK);
	second.comm = first.comm;
	if (rank == 0) {
		signal_soon();
		caller_run(&first);
		CHECK(first.result == TALLY_INTERRUPTED);
	}
	ranks_meet(ranks);
	if (rank == 0) {
		caller_run(&second);
		CHECK(pthread_equal(first.self, second.self));
		CHECK(second.result == TALLY_OK);
	} else {
		CHECK(tally_barrier(first.comm) == TALLY_OK);
		CHECK(tally_allreduce(x, x, COUNT, TALLY_INT32, TALLY_SUM, first.comm) == TALLY_OK);
	}
	CHECK(is_sum(x, 5));
	ranks_leave(first.comm);
}

static void allreduce__of_a_new_thread_is_not_the_one_that_an_ended_thread_left(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = heir_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- a thread that another one drives for ---- */

static void *driver_main(void *work)
{
	struct tally_work *own = work;

	CHECK(tally_wait(&own, -1) == TALLY_OK);
	return NULL;
}

static int never(void *ctx)
{
	(void)ctx;
	atomic_fetch_add(&seen, 1);
	return 0;
}

static int in_first_thread(void *ctx)
{
	return pthread_equal(pthread_self(), *(pthread_t *)ctx) ? has_signal(NULL) : never(NULL);
}

static void sleeper_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	pthread_t self = pthread_self(), driver;
	struct tally_work *works[2];
	struct tally_comm *comm;

	options.aggregator = ranks->aggregator;
	options.interrupted = in_first_thread;
	options.interrupted_ctx = &self;
	CHECK(tally_comm_init(&comm, ranks->job, SIZE, rank, &options) == TALLY_OK);
	if (rank == 1)
		ranks_meet(ranks);
	for (int i = 0; i < 2; i++)
		CHECK(tally_ibarrier(comm, NULL, &works[i]) == TALLY_OK);
	if (rank == 0) {
		CHECK(!pthread_create(&driver, NULL, driver_main, works[0]));
		usleep(20000);
		signal_soon();
		CHECK(tally_wait(&works[1], -1) == TALLY_INTERRUPTED);
		ranks_meet(ranks);
		pthread_join(driver, NULL);
		CHECK(atomic_load(&seen)); /* the driver is asked, too */
	} else {
		CHECK(tally_wait(&works[0], -1) == TALLY_OK);
	}
	CHECK(tally_wait(&works[1], -1) == TALLY_OK);
	ranks_leave(comm);
}

static void wait__is_interrupted_where_another_thread_drives(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = sleeper_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- the beginning and the end ---- */

static void init_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = NULL;
	double from_s = ranks_now_s();

	if (rank == 0) {
		signal_soon();
		CHECK(join(ranks, rank, true, &comm) == TALLY_INTERRUPTED);
		CHECK(!comm && ranks_now_s() - from_s < limit_s + ranks->shared->still_s);
		CHECK(strstr(tally_get_last_error(NULL), "interrupted"));
	}
	ranks_meet(ranks);
	CHECK(join(ranks, rank, true, &comm) == TALLY_OK);
	CHECK(ranks_sum(comm, 3) == TALLY_OK);
	ranks_leave(comm);
}

static void init__is_interrupted_and_may_be_called_again(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = init_body };
	struct ranks local = { .size = SIZE, .is_local = true, .body = init_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_run(&local));
}

static void finalize_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_work *work;
	struct tally_comm *comm;

	CHECK(join(ranks, rank, true, &comm) == TALLY_OK);
	if (rank == 1)
		ranks_meet(ranks);
	CHECK(tally_ibarrier(comm, NULL, &work) == TALLY_OK);
	if (rank == 0) { /* something is on its way */
		signal_soon();
		CHECK(tally_comm_finalize(comm) == TALLY_INTERRUPTED);
		ranks_meet(ranks);
	}
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	CHECK(ranks_sum(comm, 4) == TALLY_OK); /* nothing has changed */
	if (rank == 1)
		ranks_meet(ranks);
	if (rank == 0) {
		signal_soon();
		if (ranks->is_local) /* it hosts the aggregator for the other */
			CHECK(tally_comm_finalize(comm) == TALLY_INTERRUPTED);
		ranks_meet(ranks);
	}
	ranks_leave(comm);
}

static void finalize__is_interrupted_and_called_again(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = finalize_body };
	struct ranks local = { .size = SIZE, .is_local = true, .body = finalize_body };

	(void)state;
	assert_true(ranks_run(&ranks));
	assert_true(ranks_run(&local));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__is_interrupted_and_nothing_has_changed),
		cmocka_unit_test(wait__goes_on_if_the_program_has_not_asked),
		cmocka_unit_test(wait__is_interrupted_where_another_thread_drives),
		cmocka_unit_test(allreduce__is_interrupted_and_called_again),
		cmocka_unit_test(allreduce__may_be_given_up_after_that),
		cmocka_unit_test(
			allreduce__of_a_new_thread_is_not_the_one_that_an_ended_thread_left),
		cmocka_unit_test(init__is_interrupted_and_may_be_called_again),
		cmocka_unit_test(finalize__is_interrupted_and_called_again),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-interrupt", tests, NULL, NULL);
}
