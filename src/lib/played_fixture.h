/* SPDX-License-Identifier: Apache-2.0 */
/*
 * played_fixture.h - for tests: a communicator that is a struct. Its endpoint, its link, the clock, memory and whoever
 * else would drive it are the test's; what is asked of them is noted. Included once in a program, with played_wraps.
 */
#ifndef LIB_PLAYED_FIXTURE_H
#define LIB_PLAYED_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lib/background.h"
#include "lib/group.h"
#include "lib/present.h"

/* No test uses all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { COOKIES = 256, OPS_MAX = 32 };

static const uint64_t us = 1000, ms = 1000000, begin_ns = 5000000000;

static struct {
	bool is_held;                /* its lock is */
	struct tally_comm comm, *at; /* who sleeps; itself, if nothing else is said */
	struct link link;
	struct worker worker;

	/* What is played. */
	uint64_t now_ns, next_ns;         /* the clock's, endpoint_next's */
	uint32_t busy;                    /* so many polls find something */
	struct tally_work *done[COOKIES]; /* of the endpoint, in turn */
	uint32_t done_count, done_taken;
	enum endpoint_fault fault;
	uint32_t room;           /* so many operations are taken yet */
	uint32_t placed;         /* so many were called */
	void (*meanwhile)(void); /* while a thread waits or sleeps; NULL: until its time is over */
	uint32_t short_at;       /* this malloc finds no memory; 0: none */
	struct endpoint_stats stats;

	/* What is noted. */
	uint32_t polls, begins, kicks, reminds, waits, wakes, sleeps, broadcasts, yields, mallocs,
		frees;
	uint64_t remind_ns, wait_ns, sleep_ns;
	uint32_t sleepers, moved;
	uint32_t begun_polls; /* before the last begin */
	int calls;
	struct endpoint_op ops[OPS_MAX]; /* that were taken */
	uint32_t ops_count;
	int log_level;
	uint32_t log_lines;
	char log[REPORT_TEXT_MAX];
} test;

/* ---- the endpoint and its link ---- */

static struct endpoint *endpoint_of_ours(void)
{
	return (struct endpoint *)(void *)&test.worker; /* nobody looks into it */
}

bool __wrap_endpoint_poll(struct endpoint *endpoint);
void __wrap_endpoint_begin(struct endpoint *endpoint);
uint64_t __wrap_endpoint_next(const struct endpoint *endpoint);
uint32_t __wrap_endpoint_done(struct endpoint *endpoint, uint64_t *cookies, uint32_t max);
enum endpoint_fault __wrap_endpoint_fault(const struct endpoint *endpoint);
int __wrap_endpoint_submit(struct endpoint *endpoint, const struct endpoint_op *op);
void __wrap_endpoint_place(struct endpoint *endpoint, const struct endpoint_op *op,
			   struct past_place *place);
void __wrap_endpoint_stats(const struct endpoint *endpoint, struct endpoint_stats *stats);
const struct worker *__wrap_endpoint_worker(const struct endpoint *endpoint);

bool __wrap_endpoint_poll(struct endpoint *endpoint)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	if (test.next_ns <= test.now_ns)
		test.next_ns = UINT64_MAX; /* what was due is done */
	return test.polls++ < test.busy;
}

void __wrap_endpoint_begin(struct endpoint *endpoint)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	test.begins++;
	test.begun_polls = test.polls;
}

uint64_t __wrap_endpoint_next(const struct endpoint *endpoint)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	return test.next_ns;
}

uint32_t __wrap_endpoint_done(struct endpoint *endpoint, uint64_t *cookies, uint32_t max)
{
	uint32_t count = 0;

	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	while (count < max && test.done_taken < test.done_count)
		cookies[count++] = (uintptr_t)test.done[test.done_taken++];
	return count;
}

enum endpoint_fault __wrap_endpoint_fault(const struct endpoint *endpoint)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	return test.fault;
}

int __wrap_endpoint_submit(struct endpoint *endpoint, const struct endpoint_op *op)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	if (!test.room)
		return -EAGAIN;
	test.room--;
	assert_true(test.ops_count < OPS_MAX);
	test.ops[test.ops_count++] = *op;
	return 0;
}

/* A row of one more byte for each. */
void __wrap_endpoint_place(struct endpoint *endpoint, const struct endpoint_op *op,
			   struct past_place *place)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	assert_non_null(op);
	*place = (struct past_place){ .row = test.placed++ };
}

void __wrap_endpoint_stats(const struct endpoint *endpoint, struct endpoint_stats *stats)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	*stats = test.stats;
}

const struct worker *__wrap_endpoint_worker(const struct endpoint *endpoint)
{
	assert_true(test.is_held);
	assert_ptr_equal(endpoint, endpoint_of_ours());
	return &test.worker;
}

/* Nobody may hold the lock of a communicator that others are to get on with. */
static void lock_is_free(void)
{
	assert_false(test.is_held);
}

static void time_passes(uint64_t until_ns)
{
	if (test.meanwhile)
		test.meanwhile();
	else if (until_ns == UINT64_MAX || test.waits + test.sleeps > 1000)
		fail_msg("this wait never ends");
	else if (test.now_ns < until_ns)
		test.now_ns = until_ns;
}

static enum link_wait link_waits(struct link *link, uint64_t until_ns)
{
	assert_ptr_equal(link, &test.link);
	assert_true(test.comm.is_waiting);
	assert_true(test.comm.is_driven);
	lock_is_free();
	test.waits++;
	test.wait_ns = until_ns;
	time_passes(until_ns);
	return (enum link_wait)0;
}

static void link_wakes(struct link *link)
{
	assert_ptr_equal(link, &test.link);
	test.wakes++;
}

/* ---- the lock ---- */

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock);
int __real_pthread_mutex_trylock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_trylock(pthread_mutex_t *lock)
{
	if (lock == &test.at->lock) {
		assert_false(test.is_held); /* it would wait for itself */
		test.is_held = true;
	}
	return __real_pthread_mutex_trylock(lock);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	if (lock == &test.at->lock) {
		assert_true(test.is_held);
		test.is_held = false;
	}
	return __real_pthread_mutex_unlock(lock);
}

/* ---- others, and the clock ---- */

void __wrap_wake_background(void);
void __wrap_wake_background_at(uint64_t at_ns);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_sched_yield(void);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
void __wrap_present_moved(void);
void __wrap_present_calls(int more);
void *__wrap_malloc(size_t bytes);
void *__real_malloc(size_t bytes);
void __wrap_free(void *block);
void __real_free(void *block);

void __wrap_wake_background(void)
{
	test.kicks++;
}

void __wrap_wake_background_at(uint64_t at_ns)
{
	test.reminds++;
	test.remind_ns = at_ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, now);
	now->tv_sec = (time_t)(test.now_ns / 1000000000);
	now->tv_nsec = (long)(test.now_ns % 1000000000);
	return 0;
}

int __wrap_sched_yield(void)
{
	lock_is_free();
	test.yields++;
	return 0;
}

static void sleep_note(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
	assert_ptr_equal(cond, &test.at->changed);
	assert_ptr_equal(lock, &test.at->lock);
	assert_true(test.is_held);
	test.sleeps++;
	test.sleep_ns = until_ns;
	test.sleepers = test.at->sleepers;
	time_passes(until_ns);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	sleep_note(cond, lock, UINT64_MAX);
	return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	assert_true(until->tv_nsec < 1000000000);
	sleep_note(cond, lock, (uint64_t)until->tv_sec * 1000000000 + (uint64_t)until->tv_nsec);
	return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	assert_ptr_equal(cond, &test.at->changed);
	test.broadcasts++;
	return 0;
}

void __wrap_present_moved(void)
{
	test.moved++;
}

void __wrap_present_calls(int more)
{
	test.calls += more;
}

void *__wrap_malloc(size_t bytes)
{
	return ++test.mallocs == test.short_at ? NULL : __real_malloc(bytes);
}

void __wrap_free(void *block)
{
	test.frees += block != NULL;
	__real_free(block);
}

/* ---- the fixture ---- */

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	test.log_level = level;
	test.log_lines++;
	snprintf(test.log, sizeof(test.log), "%s", line);
}

/* Rank 1 of 4 of a job that runs. */
static int setup(void **state)
{
	static const struct link_ops ops = { .wait = link_waits, .wake = link_wakes };
	struct tally_comm *comm = &test.comm;

	(void)state;
	memset(&test, 0, sizeof(test));
	test.now_ns = test.comm.touched_ns = begin_ns;
	test.next_ns = UINT64_MAX;
	test.at = comm;
	test.room = OPS_MAX;
	test.worker.lanes = 360;
	test.link.ops = &ops;
	comm->link = &test.link;
	comm->endpoint = endpoint_of_ours();
	comm->who = (struct report_who){ .rank = 1, .size = 4, .job = "played", .host = "here" };
	comm->epoch = present_epoch();
	comm->state = COMM_RUNNING;
	comm->lanes = 360;
	atomic_init(&comm->deadline_ns, UINT64_MAX);
	pthread_mutex_init(&comm->lock, NULL);
	assert_int_equal(tally_set_log(TALLY_LOG_DEBUG, hear, NULL), TALLY_OK);
	return 0;
}

/* For what is called with the lock held; teardown gives it back. */
static int setup_locked(void **state)
{
	int result = setup(state);

	comm_lock(&test.comm);
	return result;
}

static void list_free(struct work_list *list)
{
	while (list->first) {
		struct tally_work *work = list->first;

		work_remove(list, work);
		for (struct tally_work *member = work->members, *next; member; member = next) {
			next = member->next;
			work_drop(&test.comm, member);
		}
		work_drop(&test.comm, work);
	}
}

static int teardown(void **state)
{
	struct tally_comm *comm = &test.comm;

	(void)state;
	assert_false(test.is_held);
	list_free(&comm->outstanding);
	list_free(&comm->calling);
	list_free(&comm->complete);
	while (comm->free_works) {
		struct tally_work *work = comm->free_works;

		comm->free_works = work->next;
		free(work);
	}
	pthread_mutex_destroy(&comm->lock);
	return tally_set_log(TALLY_LOG_ERROR, NULL, NULL);
}

static int teardown_locked(void **state)
{
	comm_unlock(&test.comm); /* it was not lost meanwhile */
	return teardown(state);
}

/* One that the endpoint has. */
static struct tally_work *outstanding(uint64_t number)
{
	struct tally_work *work = work_get(&test.comm);

	assert_non_null(work);
	assert_true(work_segments(work, 0));
	work->op.number = number;
	work->op.kind = CONTROL_OP_BARRIER;
	work->op.type = TALLY_INT32;
	work_append(&test.comm.outstanding, work);
	atomic_store(&work->state, WORK_SUBMITTED);
	return work;
}

static void is_done(struct tally_work *work)
{
	assert_true(test.done_count < COOKIES);
	test.done[test.done_count++] = work;
}

/* A burst of a driver. */
static void get_on(void)
{
	comm_lock(&test.comm);
	progress_drive(&test.comm);
	comm_unlock(&test.comm);
}

/* What this thread was last told, and its line in the log. */
static void said(const char *text)
{
	assert_string_equal(tally_get_last_error(NULL), text);
	assert_int_equal(test.log_level, TALLY_LOG_ERROR);
	assert_non_null(strstr(test.log, text));
}

#endif
