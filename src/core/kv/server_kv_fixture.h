/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_fixture.h - for tests: a table's workers, all of which have opened it, and what server_kv_step asks for in
 * words. Included once in a program. */
#ifndef CORE_SERVER_KV_FIXTURE_H
#define CORE_SERVER_KV_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/kv/server_kv.h"

enum { WORKERS = 3 };

static const uint64_t s_ns = 1000000000, REACH = 1ull << 32;

static struct {
	struct sparse_table table;
	struct server_sparse sparse;
	struct server_sparse_worker state[WORKERS + 1];
	struct server_kv_worker worker[WORKERS + 1];
	struct server_kv kv;
	struct server_kv_actions actions;
	uint64_t now_ns;
	char did[256];
} test;

/* Of all actions, in words, since the last time: "pass5 answer1:5". */
static void note(const struct server_kv_action *action)
{
	static const char *const words[] = {
		[SERVER_KV_DO_PASS] = "pass",     [SERVER_KV_DO_LEAVE] = "leave",
		[SERVER_KV_DO_VOID] = "void",     [SERVER_KV_DO_JOIN] = "join",
		[SERVER_KV_DO_ANSWER] = "answer", [SERVER_KV_DO_TAKE] = "take",
		[SERVER_KV_DO_REFUSE] = "refuse", [SERVER_KV_DO_CLOSE] = "close",
		[SERVER_KV_DO_MISS] = "miss",
	};
	size_t used = strlen(test.did);

	snprintf(test.did + used, sizeof(test.did) - used, "%s%s%u:%u:%u:%llu", used ? " " : "",
		 words[action->type], action->worker, action->verdict, action->other,
		 (unsigned long long)action->number);
}

static enum server_kv_verdict step(struct server_kv_event event)
{
	server_kv_step(&test.kv, &event, &test.actions);
	for (uint32_t i = 0; i < test.actions.count; i++) {
		note(&test.actions.list[i]);
		if (test.actions.list[i].type == SERVER_KV_DO_JOIN) {
			server_kv_replay(&test.kv, SERVER_KV_JOINED, event.worker);
			test.state[event.worker].incarnation = event.incarnation;
		}
		if (test.actions.list[i].type == SERVER_KV_DO_MISS) {
			test.sparse.unreported -=
				test.state[test.actions.list[i].worker].is_unreported;
			test.state[test.actions.list[i].worker].is_missed = true;
		}
	}
	return test.actions.verdict;
}

static inline void assert_did(const char *words)
{
	assert_string_equal(test.did, words);
	*test.did = 0;
}

static inline struct server_kv_event event_of(enum server_kv_event_type type, uint16_t worker)
{
	return (struct server_kv_event){ .type = type, .worker = worker, .now_ns = test.now_ns };
}

static inline struct server_kv_event open_of(uint16_t worker, uint64_t incarnation)
{
	struct server_kv_event open = event_of(SERVER_KV_TO_OPEN, worker);

	open.link = 10 * incarnation + worker;
	open.incarnation = incarnation;
	open.wall_ns = 1000 * s_ns;
	return open;
}

static inline enum server_kv_verdict come(uint16_t worker, uint64_t number)
{
	struct server_kv_event event = event_of(SERVER_KV_BARRIER, worker);

	event.number = number;
	return step(event);
}

static inline void leave(uint16_t worker, uint64_t has)
{
	struct server_kv_event event = event_of(SERVER_KV_LEAVE, worker);

	event.number = has;
	step(event);
}

static inline void turn(enum server_kv_disk disk)
{
	struct server_kv_event event = event_of(SERVER_KV_TIME, 0);

	event.disk = disk;
	step(event);
}

/* All have opened it, as incarnation 5; barrier 4 was passed. */
static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.now_ns = 1000 * s_ns;
	test.table.workers = WORKERS;
	test.sparse =
		(struct server_sparse){ .table = &test.table, .generation = 8, .expected = 10 };
	test.sparse.memory.worker = test.state;
	server_kv_init(&test.kv, &test.sparse, test.worker, false);
	test.kv.heartbeat_ns = s_ns;
	server_kv_replay(&test.kv, SERVER_KV_PASSED, 4);
	for (uint16_t i = 0; i < WORKERS; i++) {
		step(open_of(i, 5));
		test.worker[i].barrier = 4;
	}
	assert_did("join0:0:0:0 take0:0:0:0 join1:0:0:0 take1:0:0:0 join2:0:0:0 take2:0:0:0");
	/* Behind them is none: whoever looks there finds one that all would wait for. */
	test.worker[WORKERS] = (struct server_kv_worker){ .joined = 1,
							  .link = 99,
							  .is_waiting = true,
							  .staleness = 77,
							  .waits_ns = 1,
							  .mode = SERVER_KV_BOUNDED };
	return 0;
}

#endif
