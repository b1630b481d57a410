/* SPDX-License-Identifier: Apache-2.0 */
/* worker_kv_greet_test.c - R-KV-7: when a worker says HELLO over UDP, and whose WELCOME ends that. */
#include "core/kv/worker_kv_greet.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { INDEX = 9, WORKER = 3 };
static const uint64_t ms_ns = 1000000;
static const uint8_t nonce[16] = { 1, 2, 3, 4, 0x12, 0x34, 0x56, 0x78, 5 };

static struct worker_kv_greeting greeting;
static struct wire hello;

static int setup(void **state)
{
	(void)state;
	greeting = (struct worker_kv_greeting){ .serial = UINT32_MAX - 1 }; /* wraps */
	return 0;
}

static struct wire welcome_of(uint32_t serial)
{
	return (struct wire){ .type = WIRE_WELCOME,
			      .job = INDEX,
			      .child = WORKER,
			      .seq = serial,
			      .generation = 0x12345678 };
}

static void greet__says_hello_at_once_and_then_more_and_more_rarely(void **state)
{
	static const uint32_t waits_ms[] = { 20, 40, 80, 160, 250, 250 };
	uint64_t now_ns = 5000 * ms_ns;

	(void)state;
	assert_true(worker_kv_greet_wake_ns(&greeting) == UINT64_MAX);
	assert_false(worker_kv_greet_time(&greeting, WORKER, now_ns, &hello));
	worker_kv_greet(&greeting, INDEX, nonce, now_ns);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(worker_kv_greet_wake_ns(&greeting) == now_ns);
		assert_false(worker_kv_greet_time(&greeting, WORKER, now_ns - 1, &hello));
		assert_true(worker_kv_greet_time(&greeting, WORKER, now_ns, &hello));
		assert_int_equal(hello.type, WIRE_HELLO);
		assert_int_equal(hello.job, INDEX);
		assert_int_equal(hello.child, WORKER);
		assert_int_equal(hello.seq, (uint32_t)(UINT32_MAX + i));
		assert_int_equal(hello.generation, 0x12345678);
		assert_int_equal(hello.lanes, WIRE_HELLO_LANES);
		now_ns += waits_ms[i] * ms_ns;
	}
}

/* Of any of these HELLOs, so a path that is slower than they are opens; of none before, nor of one to come. */
static void greet__ends_with_a_welcome_of_its_own(void **state)
{
	(void)state;
	for (uint32_t first = 0; first < 2;
	     first++) { /* not of those of the first greeting, either */
		worker_kv_greet(&greeting, INDEX, nonce, 0);
		for (uint64_t ns = 0; ns < 100 * ms_ns; ns += ms_ns)
			(void)worker_kv_greet_time(&greeting, WORKER, ns, &hello);
		for (uint32_t i = 0; i < 8; i++) { /* it said three: at 0, 20 and 60 ms */
			struct wire welcome = welcome_of(greeting.before + i);

			greeting.is_welcome = false;
			assert_int_equal(worker_kv_greet_take(&greeting, WORKER, &welcome),
					 i >= 1 && i <= greeting.serial - greeting.before);
			assert_int_equal(greeting.is_welcome,
					 i >= 1 && i <= greeting.serial - greeting.before);
		}
		assert_int_equal(greeting.serial - greeting.before, 3);
	}
	greeting.is_welcome = true;
	assert_true(worker_kv_greet_wake_ns(&greeting) == UINT64_MAX);
	assert_false(worker_kv_greet_time(&greeting, WORKER, UINT64_MAX - 1, &hello));
}

static void greet__drops_what_a_stranger_may_say(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		struct wire welcome;

		greeting = (struct worker_kv_greeting){ 0 };
		if (i != 5)
			worker_kv_greet(&greeting, INDEX, nonce, 0);
		(void)worker_kv_greet_time(&greeting, WORKER, 0, &hello);
		welcome = welcome_of(1);
		welcome.type = i == 1 ? WIRE_HELLO : WIRE_WELCOME;
		welcome.job = INDEX + (i == 2);
		welcome.child = WORKER + (i == 3);
		welcome.generation += i == 4;
		assert_int_equal(worker_kv_greet_take(&greeting, WORKER, &welcome), i == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(greet__says_hello_at_once_and_then_more_and_more_rarely,
				       setup),
		cmocka_unit_test_setup(greet__ends_with_a_welcome_of_its_own, setup),
		cmocka_unit_test_setup(greet__drops_what_a_stranger_may_say, setup),
	};

	return cmocka_run_group_tests_name("core-worker_kv_greet", tests, NULL, NULL);
}
