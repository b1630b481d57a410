/* SPDX-License-Identifier: Apache-2.0 */
/* waiting_test.c - the thread that control runs in, who waits for its end, and a forked child's copies of its
 * descriptors. Threads, the time and what is closed are the test's. */
#include "server/inside_fixture.h"
#include "server/thread_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { FDS_MAX = 8 };

static struct {
	uint32_t waits, timed_waits, broadcasts;
	uint32_t ends_at; /* the wait in which control ends, from 1; 0: it does not */
	uint32_t late_at; /* the wait that takes too long */
	struct timespec until;
	uint32_t fds;
	int fd[FDS_MAX];
} seen;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_close(int fd);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	now->tv_sec = (time_t)(test.now_ns / second_ns);
	now->tv_nsec = (long)(test.now_ns % second_ns);
	return 0;
}

static bool is_locked(void)
{
	int result = pthread_mutex_trylock(&test.server.mutex);

	if (!result)
		pthread_mutex_unlock(&test.server.mutex);
	return result == EBUSY;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	assert_ptr_equal(cond, &test.server.ended);
	assert_ptr_equal(mutex, &test.server.mutex);
	assert_true(is_locked());
	if (++seen.waits == seen.ends_at)
		test.server.has_ended = true;
	assert_true(seen.waits < 9);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	seen.until = *until;
	seen.timed_waits++;
	__wrap_pthread_cond_wait(cond, mutex);
	return seen.waits == seen.late_at ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	assert_ptr_equal(cond, &test.server.ended);
	assert_true(is_locked());
	assert_true(test.server.has_ended);
	seen.broadcasts++;
	return 0;
}

int __wrap_close(int fd)
{
	assert_true(seen.fds < FDS_MAX);
	seen.fd[seen.fds++] = fd;
	return 0;
}

static int setup(void **state)
{
	memset(&seen, 0, sizeof(seen));
	memset(&thread_seen, 0, sizeof(thread_seen));
	if (inside_setup(state))
		return -1;
	test.server.limit_ns = test.server.unite_ns = UINT64_MAX;
	test.server.is_listening = true;
	test.server.epoll_fd = -1; /* so it breaks at once */
	return 0;
}

/* ---- the thread ---- */

static void start__makes_a_thread_that_no_signal_reaches(void **state)
{
	sigset_t mask;

	(void)state;
	assert_int_equal(server_start(&test.server), 0);
	assert_true(test.server.is_started);
	assert_true(thread_seen.are_blocked);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
	assert_string_equal(thread_seen.name, "tally-control");
	assert_ptr_equal(thread_seen.arg, &test.server);
	assert_null(thread_seen.begin(thread_seen.arg));
	assert_int_equal(test.server.result, -EBADF);
	assert_int_equal(seen.broadcasts, 1); /* to all who wait */
	assert_false(is_locked());
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_ERROR, "", SERVER_RANK_NONE, "epoll: Bad file descriptor");
}

static void start__without_a_thread_says_why_and_has_none_to_join(void **state)
{
	sigset_t mask;

	(void)state;
	thread_seen.result = EAGAIN;
	assert_int_equal(server_start(&test.server), -EAGAIN);
	assert_false(test.server.is_started);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
	assert_string_equal(thread_seen.name, "");
}

/* ---- who waits ---- */

static void wait__ends_when_the_time_is_over(void **state)
{
	static const struct {
		uint64_t now_ns;
		uint32_t timeout_ms;
		uint64_t until_ns;
	} rows[] = {
		{ 77000000005, 0, 77000000005 },
		{ 77000000005, 999, 77999000005 },
		{ 77000000005, 2500, 79500000005 },
		{ 77600000000, 399, 77999000000 },
		{ 77600000000, 400, 78000000000 },
		{ 77999999999, 1999, 79998999999 },
		{ 77600000000, UINT32_MAX - 1, 77600000000 + 4294967294000000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		seen.waits = seen.timed_waits = 0;
		seen.late_at = 3; /* it may wake up before, for nothing */
		test.now_ns = rows[i].now_ns;
		assert_false(server_wait(&test.server, rows[i].timeout_ms));
		assert_int_equal(seen.timed_waits, 3);
		assert_int_equal(seen.until.tv_sec, rows[i].until_ns / second_ns);
		assert_int_equal(seen.until.tv_nsec, rows[i].until_ns % second_ns);
		assert_false(is_locked());
	}
}

static void wait__ends_when_control_has_ended(void **state)
{
	(void)state;
	seen.ends_at = 2;
	assert_true(server_wait(&test.server, 1000));
	assert_int_equal(seen.timed_waits, 2);
	assert_true(server_wait(&test.server, 1000)); /* it is known already */
	assert_int_equal(seen.timed_waits, 2);
	test.server.has_ended = false;
	seen.ends_at = seen.late_at = 3; /* both at once */
	assert_true(server_wait(&test.server, 1000));
	assert_false(is_locked());
}

static void wait__without_a_limit_waits_for_the_end_alone(void **state)
{
	(void)state;
	seen.ends_at = 3;
	assert_true(server_wait(&test.server, UINT32_MAX));
	assert_int_equal(seen.waits, 3);
	assert_int_equal(seen.timed_waits, 0);
	assert_false(is_locked());
}

/* ---- a forked child ---- */

static void forget__closes_what_listens_and_all_connections(void **state)
{
	(void)state;
	test.server.listen_fd = 0;
	atomic_store(&test.peers[0].held, 21 + 1);
	atomic_store(&test.peers[7].held, 0 + 1);
	atomic_store(&test.peers[PEERS_MAX - 1].held, 22 + 1);
	server_forget(&test.server);
	assert_int_equal(seen.fds, 4);
	assert_int_equal(seen.fd[0], 0);
	assert_int_equal(seen.fd[1], 21);
	assert_int_equal(seen.fd[2], 0);
	assert_int_equal(seen.fd[3], 22);
	test.server.listen_fd = -1;
	server_forget(&test.server);
	assert_int_equal(seen.fds, 7);
	assert_int_equal(seen.fd[4], 21);
}

#define WAITING_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAITING_TEST(start__makes_a_thread_that_no_signal_reaches),
		WAITING_TEST(start__without_a_thread_says_why_and_has_none_to_join),
		WAITING_TEST(wait__ends_when_the_time_is_over),
		WAITING_TEST(wait__ends_when_control_has_ended),
		WAITING_TEST(wait__without_a_limit_waits_for_the_end_alone),
		WAITING_TEST(forget__closes_what_listens_and_all_connections),
	};

	return cmocka_run_group_tests_name("server-waiting", tests, NULL, NULL);
}
