/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_walk_test.c [SEED] - servers that say anything at any time, as far as it can be decoded: the machine never
 * stops, forgets no answer, and leads its caller nowhere where there is no memory. */
#include "core/kv/worker_kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/shared/rto.h"
#include "core/shared/splitmix.h"

enum { SERVERS = 2, STEPS = 2000, WALKS = 300 };

static uint64_t seed = 1, draws;
static uint8_t identities[2][16] = { { 1 }, { 2 } };

static uint32_t below(uint32_t bound)
{
	return (uint32_t)(splitmix64(seed ^ draws++ << 16) % bound);
}

/* What the caller has, of each server. */
struct caller {
	uint32_t version, ranks; /* of the map for which there is memory; 0: none */
	uint32_t got;            /* of its keys */
	uint64_t freed;          /* batches */
};

static struct worker_kv *kv;
static struct caller callers[SERVERS];
static uint64_t now_ns;

static enum worker_kv_type type_draw(enum worker_kv_state state)
{
	static const enum worker_kv_type types[] = {
		WORKER_KV_SAYS_MAP,     WORKER_KV_SAYS_SWITCH,  WORKER_KV_SAYS_DONE,
		WORKER_KV_SAYS_PULLED,  WORKER_KV_SAYS_BARRIER, WORKER_KV_SAYS_ALIVE,
		WORKER_KV_SAYS_WELCOME, WORKER_KV_SAYS_OPENED,  WORKER_KV_SAYS_LEAVE,
		WORKER_KV_SAYS_ERROR,
	};
	bool is_apt = below(20);

	if (is_apt && state == WORKER_KV_HELLO)
		return WORKER_KV_SAYS_WELCOME;
	if (is_apt && state == WORKER_KV_OPENING)
		return WORKER_KV_SAYS_OPENED;
	if (is_apt && state == WORKER_KV_MAPPING)
		return WORKER_KV_SAYS_MAP;
	if (is_apt && state == WORKER_KV_LEAVING)
		return WORKER_KV_SAYS_LEAVE;
	return types[below(is_apt ? 6 : sizeof(types) / sizeof(types[0]))];
}

static struct worker_kv_message message_draw(const struct worker_kv_server *server)
{
	struct worker_kv_message message = {
		.type = type_draw((enum worker_kv_state)server->state),
		.table = below(100) != 0,
		.version = 4,
		.refusal = WORKER_KV_REFUSED_BUSY,
		.heartbeat_ms = below(3000),
		.number = 1 + below(5),
		.generation = (uint64_t)(1 + below(3)) << SPARSE_RANDOM_BITS,
		.is_same = below(2),
		.is_pull = below(2),
		.map = server->map.version + below(4),
		.epoch = 1,
		.barrier = below(4),
		.identity = identities[!below(50)],
		.own = identities[!below(50)],
		.shape = { .ranks = below(4) ? 3 : 0,
			   .workers = 2,
			   .window = 4,
			   .dim = 1,
			   .bytes = 1400 },
		.scale = 1,
		.server = (uint16_t)below(2),
		.servers = SERVERS,
		.is_known = true,
		.must_report = below(2),
		.is_named = true,
		.is_made_as_first = true,
		.is_made_as_before = true,
	};

	message.first = below(4);
	message.count = 1 + below(3);
	if (message.type == WORKER_KV_SAYS_MAP && below(20)) {
		message.map = below(4) ? server->next.version : server->map.version + 1;
		message.first = message.map == server->next.version ? server->next.got % 3 : 0;
		message.first = below(8) ? message.first : below(3);
		message.count = 1 + below(3 - message.first);
	}
	/* As kv/message.c has it. */
	if (message.type == WORKER_KV_SAYS_MAP)
		message.shape.ranks = below(20) ? 3 : message.first + message.count + below(2);
	if (message.shape.ranks < message.first + message.count)
		message.shape.ranks = message.first + message.count;
	if (message.type == WORKER_KV_SAYS_OPENED)
		message.shape.ranks = server->was_open ? server->has_hot * 3u : below(4) * 3 % 6;
	if (message.type == WORKER_KV_SAYS_OPENED && below(50)) {
		message.number = 1 + server->batch_done;
		message.generation = rto_most(server->generation_told, message.generation);
		message.map = server->map.version + below(2);
		message.identity = message.own = identities[0];
	}
	return message;
}

static void map_take(uint32_t idx, const struct worker_kv_message *message, uint32_t todo,
		     struct worker_kv_actions *actions)
{
	struct caller *caller = &callers[idx];

	if (todo & WORKER_KV_NEW_MAP) {
		caller->version = message->map;
		caller->ranks = message->shape.ranks;
	}
	/* It is copied there. */
	assert_int_equal(message->map, caller->version);
	assert_true(message->first + message->count <= caller->ranks);
	caller->got = message->first ? caller->got : 0;
	assert_int_equal(message->first, caller->got);
	caller->got += message->count;
	if (caller->got < caller->ranks)
		return;
	if (!below(4)) {
		worker_kv_lost(kv, idx, now_ns, WORKER_KV_UNFIT,
			       actions); /* a key is there twice */
		return;
	}
	worker_kv_mapped(&kv->server[idx], message->map, actions);
	if (below(2)) {
		worker_kv_adopted(&kv->server[idx]);
		assert_int_equal(kv->server[idx].map.version, message->map);
		assert_true(kv->server[idx].map.is_whole);
		caller->version = 0;
	}
}

static void act(uint32_t idx, struct worker_kv_actions *actions,
		const struct worker_kv_message *message)
{
	struct worker_kv_server *server = &kv->server[idx];
	uint32_t todo = actions->todo;
	uint64_t row[SPARSE_WINDOW_MAX] = { 0 };
	uint8_t list[WORKER_KV_IDENTITY_BYTES];

	if (todo & WORKER_KV_ATTEMPT && below(3))
		worker_kv_connected(server);
	else if (todo & WORKER_KV_ATTEMPT)
		worker_kv_lost(kv, idx, now_ns, WORKER_KV_ENDED, actions);
	if (todo & WORKER_KV_SAY_OPEN)
		(void)worker_kv_open(kv, idx, list);
	if (todo & WORKER_KV_FREE) {
		assert_true(server->batch_done > callers[idx].freed);
		callers[idx].freed = server->batch_done;
	}
	if (todo & WORKER_KV_REPORT)
		(void)worker_kv_report(server, message->number, row, row);
	assert_true(!(todo & WORKER_KV_NEW_MAP) || todo & WORKER_KV_TAKE);
	if (todo & WORKER_KV_TAKE && message->type == WORKER_KV_SAYS_MAP)
		map_take(idx, message, todo, actions);
	if (actions->todo & WORKER_KV_AGAIN)
		assert_int_equal(server->batch_said, server->batch_done);
	assert_int_equal(server->batch_done, callers[idx].freed);
	assert_true(server->batch_done <= server->batch_said);
	assert_true(server->batch_said < server->batch_next);
	assert_true(server->barrier_done <= server->barrier_said);
}

/* One event at one server. */
static void step(uint32_t idx)
{
	struct worker_kv_server *server = &kv->server[idx];
	struct worker_kv_message message = message_draw(server);
	struct worker_kv_actions actions = { 0 };
	uint32_t what = below(64);

	message.server = (uint16_t)idx;
	now_ns += below(server->state == WORKER_KV_IDLE ? 2000 : 20) * 1000000ull;
	if (!what) {
		worker_kv_lost(kv, idx, now_ns, (enum worker_kv_lost)below(2), &actions);
	} else if (what < 10) {
		worker_kv_batch(server);
	} else if (what < 20 && worker_kv_batch_due(server)) {
		worker_kv_batch_said(server);
		worker_kv_said(server, now_ns);
	} else if (what < 25 && server->was_open) {
		(void)worker_kv_barrier(server, server->barrier_said + 1);
	} else if (worker_kv_is_there(server)) {
		worker_kv_message(kv, idx, now_ns, &message, &actions);
	}
	act(idx, &actions, &message);
	worker_kv_time(kv, idx, now_ns, &actions);
	act(idx, &actions, &message);
	if (!worker_kv_is_over(server))
		assert_true(worker_kv_wake_ns(kv, idx) != UINT64_MAX || worker_kv_is_up(server));
}

static void worker_kv__takes_anything(void **state)
{
	const struct worker_kv_config config = {
		.deadline_ns = 60000000000, .kept_packets = 8, .servers = SERVERS, .dim = 1
	};
	uint32_t opens = 0, ends[WORKER_KV_STATE_COUNT] = { 0 };

	(void)state;
	kv = malloc(worker_kv_bytes(SERVERS));
	assert_non_null(kv);
	for (uint32_t walk = 0; walk < WALKS; walk++) {
		uint32_t leaves_at = below(2 * STEPS);

		now_ns = 1;
		worker_kv_init(kv, &config, now_ns);
		memset(callers, 0, sizeof(callers));
		for (uint32_t i = 0; i < STEPS; i++) {
			if (i == leaves_at)
				worker_kv_leave(kv, now_ns);
			step(below(SERVERS));
			opens += worker_kv_is_up(&kv->server[i % SERVERS]);
		}
		for (uint32_t s = 0; s < SERVERS; s++)
			ends[kv->server[s].state]++;
	}
	printf("%u of %u turns with a connection that is open; ends: %u left, %u untold, %u "
	       "broken\n",
	       opens, WALKS * STEPS, ends[WORKER_KV_LEFT], ends[WORKER_KV_UNTOLD],
	       ends[WORKER_KV_BROKEN]);
	assert_true(opens > WALKS * STEPS / 20);
	assert_true(ends[WORKER_KV_LEFT]);
	free(kv);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worker_kv__takes_anything),
	};

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10);
	printf("seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("core-worker_kv_walk", tests, NULL, NULL);
}
