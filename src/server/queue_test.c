/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "server/queue.h"

struct entry {
	uint64_t number, twice;
};

enum { ENTRIES = 8, SENT = 100000 };

static void queue__is_first_in_first_out_and_refuses_when_full(void **state)
{
	struct queue queue;
	struct entry entry = { 0, 0 };

	(void)state;
	memset(&queue, 0x5a, sizeof(queue)); /* whatever was there before */
	assert_int_equal(queue_init(&queue, ENTRIES, sizeof(entry)), 0);
	assert_false(queue_pop(&queue, &entry));
	assert_int_equal(queue_room(&queue), ENTRIES);
	atomic_store(&queue.head, UINT32_MAX - 3); /* the counters wrap in this test */
	atomic_store(&queue.tail, UINT32_MAX - 3);
	assert_false(queue_pop(&queue, &entry));
	for (entry.number = 0; entry.number < ENTRIES; entry.number++) {
		assert_int_equal(queue_room(&queue), ENTRIES - entry.number);
		assert_true(queue_push(&queue, &entry));
	}
	assert_false(queue_push(&queue, &entry));
	assert_int_equal(queue_room(&queue), 0);
	for (uint64_t number = 0; number < ENTRIES; number++) {
		assert_true(queue_pop(&queue, &entry));
		assert_int_equal(entry.number, number);
	}
	assert_false(queue_pop(&queue, &entry));
	queue_fini(&queue);
}

static void *producer(void *arg)
{
	for (uint64_t number = 0; number < SENT; number++) {
		struct entry entry = { number, 2 * number };

		while (!queue_push(arg, &entry))
			sched_yield();
	}
	return NULL;
}

static void queue__two_threads_lose_and_tear_nothing(void **state)
{
	struct queue queue;
	struct entry entry;
	pthread_t thread;

	(void)state;
	assert_int_equal(queue_init(&queue, ENTRIES, sizeof(entry)), 0);
	assert_int_equal(pthread_create(&thread, NULL, producer, &queue), 0);
	for (uint64_t number = 0; number < SENT; number++) {
		while (!queue_pop(&queue, &entry))
			sched_yield();
		assert_int_equal(entry.number, number);
		assert_int_equal(entry.twice, 2 * number);
	}
	pthread_join(thread, NULL);
	queue_fini(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue__is_first_in_first_out_and_refuses_when_full),
		cmocka_unit_test(queue__two_threads_lose_and_tear_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
