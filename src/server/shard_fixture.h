/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_fixture.h - for tests of a shard's thread, which runs turn by turn in the test's own: the engine, the link and the hook
 * are the test's. Included once in a program; meson.build names what it wraps.
 */
#ifndef SERVER_SHARD_FIXTURE_H
#define SERVER_SHARD_FIXTURE_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/sparse/switch_sparse.h"
#include "dataplane/link_udp.h"
#include "server/shard.h"
#include "server/thread_fixture.h"

#pragma GCC diagnostic ignored "-Wunused-function"

enum { JOB = 17, GENERATION = 90, NOTICES = 64, SECOND_NS = 1000000000 };

static struct {
	struct shard *shard;
	int wake_fd;

	uint64_t now_ns, due_ns;
	uint32_t polls, busy, waits, wakes, link_closed, engine_closed, joined, polled;
	uint64_t wait_until_ns;
	uint32_t stop_at_wait; /* SHARD_STOP comes with that wait, from 1 */
	int fault, fault_at_poll;

	struct engine_event notice[3 * NOTICES];
	uint32_t notices, notice_next;
	bool is_endless; /* there are always 64 more */

	uint32_t adds, removes, table_removes, names;
	struct engine_job added;
	uint8_t nonce;
	int result;
	uint16_t set_lanes;
	uint32_t set_generation;
	uint64_t named, memory_used;
	struct engine_sparse_table table;
	uint8_t table_nonce;
	uint64_t job_updates; /* of the job, until it is removed */
	bool has_table;

	uint32_t news, looks, hook_closed;
	const void *lent; /* with a command: the shard frees it, */
	uint32_t freed;   /* so often */
	char done[256];
} seen;

static void did(const char *word)
{
	if (strlen(seen.done) + strlen(word) < sizeof(seen.done))
		strcat(seen.done, word);
}

static struct engine_soft *const engine = (struct engine_soft *)(void *)&seen.adds;
static struct engine_sparse *const tables = (struct engine_sparse *)(void *)&seen.removes;

void __real_free(void *block);
void __wrap_free(void *block);
int __wrap_link_udp_open(struct link **out, const struct link_udp_options *options);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
struct engine_soft *__wrap_engine_open(const struct engine_options *options);
void __wrap_engine_close(struct engine_soft *closing);
bool __wrap_engine_poll(struct engine_soft *polling);
uint64_t __wrap_engine_due(const struct engine_soft *asked);
int __wrap_engine_fault(const struct engine_soft *asked);
uint32_t __wrap_engine_events(struct engine_soft *asked, struct engine_event *events, uint32_t max);
const struct engine_stats *__wrap_engine_stats(struct engine_soft *asked);
struct engine_sparse *__wrap_engine_tables(const struct engine_soft *asked);
int __wrap_engine_job_add(struct engine_soft *asked, uint16_t job, const struct engine_job *config);
int __wrap_engine_job_set(struct engine_soft *asked, uint16_t job, uint32_t generation,
			  uint16_t lanes, bool enabled);
int __wrap_engine_job_remove(struct engine_soft *asked, uint16_t job);
struct engine_job_stats __wrap_engine_job_stats(const struct engine_soft *asked, uint16_t job);
uint64_t __wrap_engine_memory_used(const struct engine_soft *asked);
uint64_t __wrap_engine_memory_max(const struct engine_soft *asked);
int __wrap_engine_sparse_add(struct engine_sparse *asked, const struct engine_sparse_table *table);
int __wrap_engine_sparse_remove(struct engine_sparse *asked, uint16_t index);
int __wrap_engine_sparse_name(struct engine_sparse *asked, uint16_t index, uint64_t generation);
const struct switch_sparse *__wrap_engine_sparse_state(const struct engine_sparse *asked,
						       uint16_t index);
uint64_t __wrap_engine_sparse_parts(const struct engine_sparse *asked, uint16_t index);
const struct engine_sparse_stats *__wrap_engine_sparse_stats(const struct engine_sparse *asked);

void __wrap_free(void *block)
{
	seen.freed += block && block == seen.lent;
	__real_free(block);
}

/* ---- the link and the thread ---- */

static void send_type(enum shard_command_type type)
{
	shard_send(seen.shard,
		   &(struct shard_command){ .type = type, .job = JOB, .generation = GENERATION });
}

static enum link_wait link_wait(struct link *link, uint64_t until_ns)
{
	(void)link;
	did("wait ");
	seen.wait_until_ns = until_ns;
	if (++seen.waits == seen.stop_at_wait)
		send_type(SHARD_STOP);
	return LINK_TIME;
}

static void link_wake(struct link *link)
{
	(void)link;
	seen.wakes++;
}

static uint64_t link_now_ns(struct link *link)
{
	(void)link;
	return seen.now_ns;
}

static void link_close(struct link *link)
{
	(void)link;
	seen.link_closed++;
}

int __wrap_link_udp_open(struct link **out, const struct link_udp_options *options)
{
	static const struct link_ops ops = {
		.wait = link_wait, .wake = link_wake, .now_ns = link_now_ns, .close = link_close
	};
	static struct link link = { .ops = &ops, .local.port = 7175 };

	*options->receive_got = 4321;
	*out = &link;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
	(void)thread, (void)value;
	seen.joined++;
	thread_seen.begin(thread_seen.arg); /* until the SHARD_STOP that shard_close has sent */
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	assert_null(fds);
	assert_int_equal(count, 0);
	assert_int_equal(timeout_ms, 20);
	if (++seen.polled == 1)
		send_type(SHARD_JOB_REMOVE);
	else
		send_type(SHARD_STOP);
	return 0;
}

/* ---- the engine ---- */

struct engine_soft *__wrap_engine_open(const struct engine_options *options)
{
	(void)options;
	return engine;
}

void __wrap_engine_close(struct engine_soft *closing)
{
	assert_ptr_equal(closing, engine);
	assert_int_equal(seen.link_closed + seen.hook_closed, 0);
	seen.engine_closed++;
}

bool __wrap_engine_poll(struct engine_soft *polling)
{
	assert_ptr_equal(polling, engine);
	did("poll ");
	return ++seen.polls <= seen.busy;
}

uint64_t __wrap_engine_due(const struct engine_soft *asked)
{
	assert_ptr_equal(asked, engine);
	return seen.due_ns;
}

int __wrap_engine_fault(const struct engine_soft *asked)
{
	assert_ptr_equal(asked, engine);
	return seen.fault && seen.polls >= (uint32_t)seen.fault_at_poll ? seen.fault : 0;
}

uint32_t __wrap_engine_events(struct engine_soft *asked, struct engine_event *events, uint32_t max)
{
	uint32_t count = 0;

	assert_ptr_equal(asked, engine);
	assert_int_equal(max, NOTICES);
	if (seen.is_endless)
		seen.notice_next = 0;
	while (count < max && seen.notice_next < seen.notices)
		events[count++] = seen.notice[seen.notice_next++];
	return count;
}

const struct engine_stats *__wrap_engine_stats(struct engine_soft *asked)
{
	static const struct engine_stats stats = { .packets_in = 123 };

	assert_ptr_equal(asked, engine);
	return &stats;
}

struct engine_sparse *__wrap_engine_tables(const struct engine_soft *asked)
{
	assert_ptr_equal(asked, engine);
	return tables;
}

int __wrap_engine_job_add(struct engine_soft *asked, uint16_t job, const struct engine_job *config)
{
	assert_ptr_equal(asked, engine);
	assert_int_equal(job, JOB);
	seen.adds++;
	seen.added = *config;
	seen.nonce = config->nonces[1][3];
	seen.memory_used += 1000;
	return seen.result;
}

int __wrap_engine_job_set(struct engine_soft *asked, uint16_t job, uint32_t generation,
			  uint16_t lanes, bool enabled)
{
	assert_ptr_equal(asked, engine);
	assert_int_equal(job, JOB);
	assert_true(enabled);
	seen.set_generation = generation;
	seen.set_lanes = lanes;
	return seen.result;
}

int __wrap_engine_job_remove(struct engine_soft *asked, uint16_t job)
{
	assert_ptr_equal(asked, engine);
	assert_int_equal(job, JOB);
	seen.removes++;
	seen.job_updates = 0;
	seen.memory_used = 0;
	return -ENOENT;
}

struct engine_job_stats __wrap_engine_job_stats(const struct engine_soft *asked, uint16_t job)
{
	assert_ptr_equal(asked, engine);
	assert_int_equal(job, JOB);
	return (struct engine_job_stats){ .updates = seen.job_updates };
}

uint64_t __wrap_engine_memory_used(const struct engine_soft *asked)
{
	assert_ptr_equal(asked, engine);
	return seen.memory_used;
}

uint64_t __wrap_engine_memory_max(const struct engine_soft *asked)
{
	assert_ptr_equal(asked, engine);
	return 5000;
}

int __wrap_engine_sparse_add(struct engine_sparse *asked, const struct engine_sparse_table *table)
{
	assert_ptr_equal(asked, tables);
	seen.table = *table;
	seen.table_nonce = table->nonces[2][5];
	return seen.result;
}

int __wrap_engine_sparse_remove(struct engine_sparse *asked, uint16_t index)
{
	assert_ptr_equal(asked, tables);
	assert_int_equal(index, JOB);
	seen.table_removes++;
	return -ENOENT;
}

int __wrap_engine_sparse_name(struct engine_sparse *asked, uint16_t index, uint64_t generation)
{
	assert_ptr_equal(asked, tables);
	assert_int_equal(index, JOB);
	seen.names++;
	seen.named = generation;
	return 0;
}

const struct switch_sparse *__wrap_engine_sparse_state(const struct engine_sparse *asked,
						       uint16_t index)
{
	static const struct switch_sparse state = { .instance = 61, .generation = 62 };

	assert_ptr_equal(asked, tables);
	assert_int_equal(index, JOB);
	return seen.has_table ? &state : NULL;
}

uint64_t __wrap_engine_sparse_parts(const struct engine_sparse *asked, uint16_t index)
{
	assert_ptr_equal(asked, tables);
	assert_int_equal(index, JOB);
	return 63;
}

const struct engine_sparse_stats *__wrap_engine_sparse_stats(const struct engine_sparse *asked)
{
	static const struct engine_sparse_stats stats = { .packets_in = 456 };

	assert_ptr_equal(asked, tables);
	return &stats;
}

/* ---- the hook ---- */

static bool hook_look(struct hook *hook, struct hook_news *news)
{
	(void)hook;
	seen.looks++;
	news->error = -(int)seen.news;
	return seen.news && seen.news--;
}

static void hook_close(struct hook *hook)
{
	(void)hook;
	seen.hook_closed++;
}

static int hook_open(struct hook **hook, const char *devices, uint16_t port,
		     char error[HOOK_ERROR_BYTES])
{
	static const struct hook_ops ops = { .look = hook_look, .close = hook_close };
	static struct hook opened = { .ops = &ops };

	(void)devices, (void)port, (void)error;
	*hook = &opened;
	return 0;
}

/* ---- a shard ---- */

static void open_shard(bool has_hook)
{
	const struct shard_options options = { .index = 3,
					       .wake_fd = seen.wake_fd,
					       .hook_open = has_hook ? hook_open : NULL };

	assert_int_equal(shard_open(&seen.shard, &options), 0);
}

static int setup(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	memset(&thread_seen, 0, sizeof(thread_seen));
	seen.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	seen.now_ns = 50ull * SECOND_NS;
	seen.due_ns = UINT64_MAX;
	open_shard(false);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	shard_close(seen.shard, NULL, NULL);
	close(seen.wake_fd);
	return 0;
}

/* The thread runs, until a SHARD_STOP comes that is under way or at the latest with that wait. */
static void turn(uint32_t stop_at_wait)
{
	seen.stop_at_wait = seen.waits + stop_at_wait;
	if (!stop_at_wait)
		send_type(SHARD_STOP);
	thread_seen.begin(thread_seen.arg);
}

/* How often control was woken. */
static uint64_t woken(void)
{
	uint64_t count = 0;

	return read(seen.wake_fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static struct shard_event next(void)
{
	struct shard_event event;

	assert_true(shard_receive(seen.shard, &event));
	return event;
}

static struct shard_event assert_ack(enum shard_command_type type, int result)
{
	struct shard_event event = next();

	assert_int_equal(event.type, SHARD_ACK);
	assert_int_equal(event.command, type);
	assert_int_equal(event.job, JOB);
	assert_int_equal(event.generation, GENERATION);
	assert_int_equal(event.result, result);
	return event;
}

static void assert_no_event(void)
{
	struct shard_event event;

	assert_false(shard_receive(seen.shard, &event));
}

#endif
