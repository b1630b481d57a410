/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_test.c - one worker's table, whose servers and clock are the test. */
#include "core/kv/worker_kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DIM = 2 };
static const uint64_t ms_ns = 1000000, s_ns = 1000000000;

static struct worker_kv *kv;
static struct worker_kv_actions actions;
static uint64_t now_ns;

static uint32_t hear(uint32_t idx, struct worker_kv_message message)
{
	worker_kv_message(kv, idx, now_ns, &message, &actions);
	return actions.todo;
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
		cmocka_unit_test(kv__other_version_ends_the_table),
	};
	int failed = cmocka_run_group_tests_name("core-worker_kv", tests, NULL, NULL);

	free(kv);
	return failed;
}
