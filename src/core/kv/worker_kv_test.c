/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_test.c - one worker's table, whose servers and clock are the test. */
#include "core/kv/worker_kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERVERS = 3, DIM = 2, WINDOW = 4, NUMBER = 6 };
static const uint64_t ms_ns = 1000000, s_ns = 1000000000;
static const uint64_t GENERATION = 3ull << SPARSE_RANDOM_BITS | 1;

static struct worker_kv *kv;
static struct worker_kv_actions actions;
static uint64_t now_ns;
static uint8_t identity[16] = { 7 }, own[SERVERS][16] = { { 1 }, { 2 }, { 3 } };

/* What a server says to the first OPEN of all: no hot keys, no batches, no barriers. */
static struct worker_kv_message opened_of(uint32_t idx)
{
	return (struct worker_kv_message){
		.type = WORKER_KV_SAYS_OPENED,
		.table = NUMBER,
		.number = 1,
		.generation = GENERATION,
		.epoch = 1,
		.identity = identity,
		.own = own[idx],
		.shape = { .workers = 3, .window = WINDOW, .dim = DIM, .bytes = 1400 },
		.map = 0,
		.scale = 1,
		.server = (uint16_t)idx,
		.servers = kv->config.servers,
		.is_named = true,
		.is_stepped = kv->config.mode == WORKER_KV_SYNC,
		.is_made_as_first = true,
		.is_made_as_before = true,
		.is_known = kv->server[idx].was_open,
	};
}

static uint32_t hear(uint32_t idx, struct worker_kv_message message)
{
	worker_kv_message(kv, idx, now_ns, &message, &actions);
	return actions.todo;
}

static uint32_t hear_of(uint32_t idx, enum worker_kv_type type, uint64_t number)
{
	return hear(idx,
		    (struct worker_kv_message){ .type = type, .table = NUMBER, .number = number });
}

static uint32_t wait(uint32_t idx, uint64_t ns)
{
	now_ns += ns;
	worker_kv_time(kv, idx, now_ns, &actions);
	return actions.todo;
}

static void state_is(uint32_t idx, enum worker_kv_state state)
{
	assert_int_equal(kv->server[idx].state, state);
}

static void begin(uint16_t servers, enum worker_kv_mode mode, uint32_t staleness)
{
	const struct worker_kv_config config = { .deadline_ns = 60 * s_ns,
						 .kept_packets = 8,
						 .staleness = staleness,
						 .servers = servers,
						 .dim = DIM,
						 .mode = mode };

	free(kv);
	kv = malloc(worker_kv_bytes(servers));
	assert_non_null(kv);
	now_ns = 1000 * s_ns;
	worker_kv_init(kv, &config, now_ns);
}

/* To OPENING, from IDLE. */
static void greet(uint32_t idx)
{
	uint64_t due_ns = worker_kv_wake_ns(kv, idx);
	uint8_t list[16];

	assert_int_equal(wait(idx, due_ns > now_ns ? due_ns - now_ns : 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(&kv->server[idx]);
	worker_kv_said(&kv->server[idx], now_ns);
	assert_int_equal(hear(idx, (struct worker_kv_message){ .type = WORKER_KV_SAYS_WELCOME,
							       .version = 4,
							       .heartbeat_ms = 1000 }),
			 WORKER_KV_TAKE | WORKER_KV_SAY_OPEN);
	(void)worker_kv_open(kv, idx, list);
	state_is(idx, WORKER_KV_OPENING);
}

static void up(uint32_t idx)
{
	greet(idx);
	assert_true(hear(idx, opened_of(idx)) & WORKER_KV_AGAIN);
	state_is(idx, WORKER_KV_OPEN);
}

static void lose(uint32_t idx)
{
	worker_kv_lost(kv, idx, now_ns, WORKER_KV_ENDED, &actions);
	state_is(idx, WORKER_KV_IDLE);
}

static void fails(uint32_t idx, struct worker_kv_message message, enum worker_kv_fault fault)
{
	assert_int_equal(hear(idx, message), WORKER_KV_FAIL);
	assert_int_equal(actions.fault, fault);
	state_is(idx, WORKER_KV_BROKEN);
}

/* ---- the connection: R-KV-5, R-KV-12, R-KV-21 ---- */

/* It is tried again after twice as long each time, and once a second in the end: who was gone for an hour is found at
 * once. */
static void kv__server_that_is_gone_is_tried_each_second_in_the_end(void **state)
{
	uint64_t waits_ns;

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	for (unsigned i = 0; i < 30; i++) {
		assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
		worker_kv_lost(kv, 0, now_ns, WORKER_KV_ENDED, &actions);
		assert_int_equal(actions.todo, WORKER_KV_CLOSE | WORKER_KV_NEXT_ADDRESS);
		waits_ns = kv->server->retry_ns - now_ns;
		assert_int_equal(waits_ns, i < 5 ? 50 * ms_ns << i : s_ns);
		assert_int_equal(wait(0, waits_ns - 1), 0);
		now_ns++;
	}
	now_ns = 1000 * s_ns;
	assert_int_equal(wait(0, 60 * s_ns), WORKER_KV_FAIL);
	assert_int_equal(actions.fault, WORKER_KV_UNREACHED);
	assert_true(worker_kv_wake_ns(kv, 0) == UINT64_MAX);
}

/* Before WELCOME silence is that of the address; after an answer a loss is a new one, with all of the deadline. */
static void kv__silence_loses_the_connection(void **state)
{
	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(kv->server);
	assert_int_equal(wait(0, 4999 * ms_ns), WORKER_KV_SAY_ALIVE);
	assert_int_equal(wait(0, ms_ns), WORKER_KV_CLOSE | WORKER_KV_NEXT_ADDRESS);
	assert_int_equal(actions.lost, WORKER_KV_SILENT);
	up(0);
	assert_int_equal(wait(0, 500 * ms_ns), WORKER_KV_SAY_ALIVE);
	worker_kv_said(kv->server, now_ns);
	assert_true(worker_kv_wake_ns(kv, 0) == now_ns + 500 * ms_ns);
	assert_int_equal(wait(0, 7 * s_ns), WORKER_KV_SAY_ALIVE);
	assert_int_equal(wait(0, 500 * ms_ns), WORKER_KV_CLOSE | WORKER_KV_WARN);
	assert_true(kv->server->down_ns == 1000 * s_ns); /* it only seemed to be back */
	up(0);
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_ALIVE, 0), 0);
	assert_int_equal(wait(0, 8 * s_ns), WORKER_KV_CLOSE | WORKER_KV_WARN);
	assert_true(kv->server->down_ns == now_ns);
	assert_true(kv->server->retry_ns == now_ns + 50 * ms_ns);
	up(0);
	now_ns += 7 * s_ns;
	assert_int_equal(hear_of(0, WORKER_KV_SAYS_PULLED, 1), WORKER_KV_TAKE);
	assert_int_equal(wait(0, 7 * s_ns), WORKER_KV_SAY_ALIVE);
}

static void kv__message_that_may_not_come_now_loses_the_connection(void **state)
{
	static const enum worker_kv_type early[] = { WORKER_KV_SAYS_OPENED, WORKER_KV_SAYS_DONE,
						     WORKER_KV_SAYS_LEAVE, WORKER_KV_SAYS_MAP };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(wait(0, 2 * s_ns), WORKER_KV_ATTEMPT);
		worker_kv_connected(kv->server);
		assert_int_equal(hear_of(0, early[i], 1), WORKER_KV_CLOSE);
		assert_int_equal(actions.lost, WORKER_KV_UNFIT);
		up(0);
		if (early[i] == WORKER_KV_SAYS_OPENED || early[i] == WORKER_KV_SAYS_LEAVE)
			assert_true(hear(0, opened_of(0)) & WORKER_KV_CLOSE);
		else
			lose(0);
	}
	up(0);
	assert_true(hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_DONE,
							.table = NUMBER + 1 }) &
		    WORKER_KV_CLOSE);
	up(0);
	assert_true(hear_of(0, WORKER_KV_SAYS_WELCOME, 0) & WORKER_KV_CLOSE);
	up(0);
	assert_true(hear(0, (struct worker_kv_message){ .type = WORKER_KV_SAYS_SWITCH,
							.table = NUMBER }) &
		    WORKER_KV_CLOSE); /* no hot keys */
}

static void kv__refusal_that_says_come_again_is_none(void **state)
{
	struct worker_kv_message error = { .type = WORKER_KV_SAYS_ERROR, .refusal = 12 };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	greet(0);
	assert_int_equal(hear(0, error), WORKER_KV_CLOSE);
	assert_int_equal(actions.lost, WORKER_KV_BUSY);
	up(0);
	error.refusal = 6;
	error.is_pull = true;
	assert_int_equal(hear(0, error), WORKER_KV_TAKE);
	state_is(0, WORKER_KV_OPEN);
	error.is_pull = false;
	fails(0, error, WORKER_KV_REFUSED);
}

static void kv__other_version_ends_the_table(void **state)
{
	struct worker_kv_message welcome = { .type = WORKER_KV_SAYS_WELCOME, .version = 3 };

	(void)state;
	begin(1, WORKER_KV_ASYNC, 0);
	assert_int_equal(wait(0, 0), WORKER_KV_ATTEMPT);
	worker_kv_connected(kv->server);
	fails(0, welcome, WORKER_KV_OTHER_VERSION);
}

/* ---- OPENED ---- */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__server_that_is_gone_is_tried_each_second_in_the_end),
		cmocka_unit_test(kv__silence_loses_the_connection),
		cmocka_unit_test(kv__message_that_may_not_come_now_loses_the_connection),
		cmocka_unit_test(kv__refusal_that_says_come_again_is_none),
		cmocka_unit_test(kv__other_version_ends_the_table),
	};
	int failed = cmocka_run_group_tests_name("core-worker_kv", tests, NULL, NULL);

	free(kv);
	return failed;
}
