/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background_fixture.h - for tests: communicators that are structs, and the thread that serves them, which stands in ppoll
 * until the test lets it go. Included once in a program, with what it wraps.
 */
#ifndef LIB_BACKGROUND_FIXTURE_H
#define LIB_BACKGROUND_FIXTURE_H

#include "lib/background.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/caller.h"
#include "lib/local.h"
#include "lib/membership.h"
#include "lib/present.h"

enum { COMMS = 3, POLLS_MAX = 8, UDP_FD = 800, TCP_FD = 900, BLOCKS = 16 };

static const uint64_t now_ns = 90000000000, second_ns = 1000000000;

static struct {
	struct tally_comm comms[COMMS];
	/* What is played, of each. */
	struct {
		uint64_t deadline_ns, left_until_ns, next_ns;
		bool is_left, is_idle_said;
		uint32_t busy, drives, callbacks, services, connections;
		uint32_t
			contend_at; /* this drive finds somebody who wants the lock; 0: none does */
	} its[COMMS];
	sem_t is_asleep, may_wake;
	atomic_bool is_free; /* the thread is: ppoll is the kernel's */
	bool is_timer_over;
	struct pollfd polls[POLLS_MAX];
	uint32_t polls_count;
	bool has_timeout;
	struct timespec timeout;
	uint64_t set_ns; /* of the timer */
	uint32_t sets, timelines;
	uint64_t meanwhile_ns; /* another thread wants this while the next is set; 0: none does */
	bool is_over_meanwhile;
	bool closes_input;  /* another thread does, before the timer is made */
	bool kicks_at_read; /* another thread kicks just before the next read */
	/* Calls that fail. */
	int eventfd_error, timerfd_error, thread_error, atfork_error;
	uint32_t short_at; /* this malloc; 0: none */
	uint32_t atforks, mallocs, joins;
	sigset_t mask; /* that the thread begins with */
	/* What was taken and not given back; under blocks_lock. */
	void *block[BLOCKS];
	uint32_t blocks;
	size_t bytes; /* of the last malloc */
	uint32_t forgets, local_forgets, present_forks, report_prepares, report_dones,
		timeline_prepares, timeline_parents, timeline_children;
} test;

static uint32_t idx_of(const struct tally_comm *comm)
{
	assert_true(comm >= test.comms && comm < test.comms + COMMS);
	return (uint32_t)(comm - test.comms);
}

static void sleeps(void)
{
	sem_wait(&test.is_asleep);
}

/* One more turn of the thread, from ppoll to ppoll. */
static void turn(void)
{
	sem_post(&test.may_wake);
	sleeps();
}

/* ---- what the thread calls ---- */

void __wrap_membership_service(struct tally_comm *comm, struct codec *codec, uint64_t at_ns);
uint64_t __wrap_membership_deadline(const struct tally_comm *comm);
uint32_t __wrap_membership_poll(const struct tally_comm *comm, struct pollfd *polls);
bool __wrap_progress_is_left(struct tally_comm *comm, bool is_idle, uint64_t *until_ns);
bool __wrap_progress_drive(struct tally_comm *comm);
void __wrap_caller_look(struct tally_comm *comm);
uint64_t __wrap_endpoint_next(const struct endpoint *endpoint);
int __wrap_link_udp_fd(const struct link *link);
short __wrap_link_udp_events(const struct link *link);
void __wrap_timeline_service(uint64_t at_ns);
uint64_t __wrap_clock_ns(void);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __real_read(int fd, void *to, size_t bytes);
int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
		 const void *mask);
int __real_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
		 const void *mask);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *was);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *was);

ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
	if (test.kicks_at_read) {
		test.kicks_at_read = false;
		wake_background();
	}
	return __real_read(fd, to, bytes);
}

void __wrap_membership_service(struct tally_comm *comm, struct codec *codec, uint64_t at_ns)
{
	assert_non_null(codec);
	assert_true(at_ns == now_ns);
	test.its[idx_of(comm)].services++;
}

uint64_t __wrap_membership_deadline(const struct tally_comm *comm)
{
	return test.its[idx_of(comm)].deadline_ns;
}

uint32_t __wrap_membership_poll(const struct tally_comm *comm, struct pollfd *polls)
{
	uint32_t i = idx_of(comm);

	for (uint32_t k = 0; k < test.its[i].connections; k++)
		polls[k] = (struct pollfd){ .fd = TCP_FD + (int)(10 * i + k), .events = POLLOUT };
	return test.its[i].connections;
}

bool __wrap_progress_is_left(struct tally_comm *comm, bool is_idle, uint64_t *until_ns)
{
	uint32_t i = idx_of(comm);

	test.its[i].is_idle_said = is_idle;
	if (!test.its[i].is_left)
		*until_ns = test.its[i].left_until_ns;
	return test.its[i].is_left;
}

bool __wrap_progress_drive(struct tally_comm *comm)
{
	uint32_t i = idx_of(comm);

	test.its[i].drives++;
	if (test.its[i].drives == test.its[i].contend_at)
		atomic_store(&comm->contenders, 1);
	return test.its[i].drives <= test.its[i].busy;
}

void __wrap_caller_look(struct tally_comm *comm)
{
	test.its[idx_of(comm)].callbacks++;
}

uint64_t __wrap_endpoint_next(const struct endpoint *endpoint)
{
	return test.its[idx_of((const struct tally_comm *)(const void *)endpoint)].next_ns;
}

int __wrap_link_udp_fd(const struct link *link)
{
	return UDP_FD + (int)idx_of((const struct tally_comm *)(const void *)link);
}

short __wrap_link_udp_events(const struct link *link)
{
	(void)link;
	return POLLIN | POLLOUT;
}

void __wrap_timeline_service(uint64_t at_ns)
{
	assert_true(at_ns == now_ns);
	test.timelines++;
}

uint64_t __wrap_clock_ns(void)
{
	return now_ns;
}

/* The thread says what it would wait for, and comes back with what is there. */
int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *timeout,
		 const void *mask)
{
	static const struct itimerspec soonest = { .it_value.tv_nsec = 1 };
	const struct timespec at_once = { 0 };

	assert_null(mask);
	if (atomic_load(&test.is_free))
		return __real_ppoll(polls, count, timeout, mask);
	assert_true(count <= POLLS_MAX);
	memcpy(test.polls, polls, count * sizeof(*polls));
	test.polls_count = (uint32_t)count;
	test.has_timeout = timeout != NULL;
	if (timeout)
		test.timeout = *timeout;
	sem_post(&test.is_asleep);
	sem_wait(&test.may_wake);
	if (test.is_timer_over) {
		__real_timerfd_settime(polls[1].fd, 0, &soonest, NULL);
		__real_ppoll(&polls[1], 1, NULL, NULL);
	}
	test.is_timer_over = false;
	return __real_ppoll(polls, 2, &at_once, NULL);
}

static void meanwhile(void)
{
	uint64_t at_ns = test.meanwhile_ns;

	test.meanwhile_ns = 0;
	if (at_ns)
		wake_background_at(at_ns);
	if (!test.is_over_meanwhile)
		return;
	test.is_over_meanwhile = false;
	test.is_timer_over = true;
	turn();
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *was)
{
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(flags, TFD_TIMER_ABSTIME);
	assert_null(was);
	assert_true(at->it_value.tv_nsec < 1000000000);
	meanwhile();
	test.sets++;
	test.set_ns = (uint64_t)at->it_value.tv_sec * second_ns + (uint64_t)at->it_value.tv_nsec;
	return 0;
}

/* ---- what may fail ---- */

int __wrap_eventfd(unsigned count, int flags);
int __real_eventfd(unsigned count, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);
void __wrap_free(void *block);
void __real_free(void *block);
int __wrap_pthread_join(pthread_t thread, void **result);
int __real_pthread_join(pthread_t thread, void **result);

int __wrap_eventfd(unsigned count, int flags)
{
	if (!test.eventfd_error)
		return __real_eventfd(count, flags);
	errno = test.eventfd_error;
	return -1;
}

int __wrap_timerfd_create(int clock, int flags)
{
	assert_int_equal(clock, CLOCK_MONOTONIC); /* as clock_ns */
	if (test.closes_input)
		close(0);
	if (!test.timerfd_error)
		return __real_timerfd_create(clock, flags);
	errno = test.timerfd_error;
	return -1;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, &test.mask); /* which it inherits */
	return test.thread_error ? test.thread_error
				 : __real_pthread_create(thread, attributes, run, arg);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	test.joins++;
	return __real_pthread_join(thread, result);
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	test.atforks++;
	return test.atfork_error ? test.atfork_error
				 : __real_pthread_atfork(prepare, parent, child);
}

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

void *__wrap_malloc(size_t bytes)
{
	void *block;

	if (++test.mallocs == test.short_at)
		return NULL;
	block = __real_malloc(bytes);
	pthread_mutex_lock(&blocks_lock);
	if (block && test.blocks < BLOCKS)
		test.block[test.blocks++] = block;
	test.bytes = bytes;
	pthread_mutex_unlock(&blocks_lock);
	return block;
}

void __wrap_free(void *block)
{
	pthread_mutex_lock(&blocks_lock);
	for (uint32_t i = 0; block && i < test.blocks; i++)
		if (test.block[i] == block)
			test.block[i] = test.block[--test.blocks];
	pthread_mutex_unlock(&blocks_lock);
	__real_free(block);
}

/* ---- around a fork ---- */

#define COUNTED(name, counter)    \
	void __wrap_##name(void); \
	void __real_##name(void); \
	void __wrap_##name(void)  \
	{                         \
		test.counter++;   \
		__real_##name();  \
	}
COUNTED(present_forked, present_forks)
COUNTED(report_fork_prepare, report_prepares)
COUNTED(report_fork_done, report_dones)
COUNTED(timeline_fork_prepare, timeline_prepares)
COUNTED(timeline_fork_parent, timeline_parents)
COUNTED(timeline_fork_child, timeline_children)

void __wrap_membership_forget(const struct tally_comm *comm);
void __wrap_local_forget(const struct tally_comm *comm);

void __wrap_membership_forget(const struct tally_comm *comm)
{
	test.forgets |= 1u << idx_of(comm);
}

void __wrap_local_forget(const struct tally_comm *comm)
{
	test.local_forgets |= 1u << idx_of(comm);
}

/* ---- the fixture ---- */

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	sem_init(&test.is_asleep, 0, 0);
	sem_init(&test.may_wake, 0, 0);
	for (uint32_t i = 0; i < COMMS; i++) {
		struct tally_comm *comm = &test.comms[i];

		pthread_mutex_init(&comm->lock, NULL);
		/* Neither is looked into: they say whose they are. */
		comm->endpoint = (struct endpoint *)(void *)comm;
		comm->link = (struct link *)(void *)comm;
		comm->epoch = present_epoch();
		comm->state = COMM_RUNNING;
		test.its[i].deadline_ns = test.its[i].next_ns = test.its[i].left_until_ns =
			UINT64_MAX;
	}
	assert_int_equal(tally_set_log(TALLY_LOG_ERROR, NULL, NULL), TALLY_OK);
	return 0;
}

static void add(uint32_t i)
{
	assert_int_equal(background_add(&test.comms[i]), TALLY_OK);
}

/* The first: a thread that has just begun may not have found it yet. */
static void begin(uint32_t i)
{
	add(i);
	sleeps();
	if (!test.its[i].services)
		turn();
}

/* From now on the thread does as it likes. */
static void set_free(void)
{
	atomic_store(&test.is_free, true);
	sem_post(&test.may_wake);
}

static void timeout_is(uint64_t ns)
{
	assert_true(test.has_timeout);
	assert_int_equal(test.timeout.tv_sec, ns / second_ns);
	assert_int_equal(test.timeout.tv_nsec, ns % second_ns);
}

#endif
