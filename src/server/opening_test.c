/* SPDX-License-Identifier: Apache-2.0 */
/* opening_test.c - a shard that cannot be opened: what has failed is told, and what was there until then is given back.
 * Memory, sockets, engines and threads are the test's. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/link_udp.h"
#include "server/queue.h"
#include "server/shard.h"

enum piece { NOTHING, SHARD, COMMANDS, EVENTS, LINK, HOOK, ENGINE, THREAD };

static struct {
	enum piece fails;
	int held[THREAD]; /* of each piece, taken and not given back */
	const struct queue *commands;
	struct link_udp_options udp;
	struct engine_options engine;
	const char *devices;
	uint16_t hook_port;
} seen;

static struct link link;
static struct hook hook;

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);
int __wrap_queue_init(struct queue *queue, uint32_t entries, uint32_t entry_bytes);
void __wrap_queue_fini(struct queue *queue);
int __wrap_link_udp_open(struct link **out, const struct link_udp_options *options);
struct engine_soft *__wrap_engine_open(const struct engine_options *options);
void __wrap_engine_close(struct engine_soft *engine);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*begin)(void *),
			  void *arg);

static bool take(enum piece piece)
{
	if (seen.fails == piece)
		return false;
	seen.held[piece]++;
	return true;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return take(SHARD) ? __real_aligned_alloc(alignment, bytes) : NULL;
}

void __wrap_free(void *block)
{
	seen.held[SHARD]--;
	__real_free(block);
}

int __wrap_queue_init(struct queue *queue, uint32_t entries, uint32_t entry_bytes)
{
	bool is_commands = entry_bytes == sizeof(struct shard_command);

	assert_int_equal(entries, is_commands ? SHARD_COMMANDS : SHARD_EVENTS);
	if (is_commands)
		seen.commands = queue;
	else
		assert_int_equal(entry_bytes, sizeof(struct shard_event));
	return take(is_commands ? COMMANDS : EVENTS) ? 0 : -ENOMEM;
}

void __wrap_queue_fini(struct queue *queue)
{
	seen.held[queue == seen.commands ? COMMANDS : EVENTS]--;
}

static void link_close(struct link *closing)
{
	assert_ptr_equal(closing, &link);
	seen.held[LINK]--;
}

int __wrap_link_udp_open(struct link **out, const struct link_udp_options *options)
{
	static const struct link_ops ops = { .close = link_close };

	seen.udp = *options;
	if (!take(LINK))
		return -EADDRINUSE;
	link = (struct link){ .ops = &ops, .local.port = 7174 };
	*out = &link;
	return 0;
}

static void hook_close(struct hook *closing)
{
	assert_ptr_equal(closing, &hook);
	seen.held[HOOK]--;
}

static int hook_open(struct hook **out, const char *devices, uint16_t port,
		     char error[HOOK_ERROR_BYTES])
{
	static const struct hook_ops ops = { .close = hook_close };

	seen.devices = devices;
	seen.hook_port = port;
	if (!take(HOOK)) {
		strcpy(error, "no such device");
		return -ENODEV;
	}
	hook.ops = &ops;
	*out = &hook;
	return 0;
}

struct engine_soft *__wrap_engine_open(const struct engine_options *options)
{
	seen.engine = *options;
	return take(ENGINE) ? (struct engine_soft *)(void *)&seen : NULL;
}

void __wrap_engine_close(struct engine_soft *engine)
{
	assert_ptr_equal(engine, &seen);
	seen.held[ENGINE]--;
}

/* No shard gets as far as to run here. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*begin)(void *),
			  void *arg)
{
	(void)thread, (void)attr, (void)begin, (void)arg;
	return EAGAIN;
}

static int open_failing(enum piece piece, bool has_hook, char error[HOOK_ERROR_BYTES])
{
	struct shard *shard = NULL;
	struct shard_options options = {
		.local.port = 7174,
		.is_v6 = true,
		.receive_bytes = 70000,
		.memory_max = 1 << 20,
		.jobs_max = 12,
		.registers = 64,
		.hook_open = has_hook ? hook_open : NULL,
		.hook_devices = "eth7",
		.hook_error = error,
	};
	int result;

	memset(&seen, 0, sizeof(seen));
	seen.fails = piece;
	result = shard_open(&shard, &options);
	assert_null(shard);
	return result;
}

static void opening__that_fails_gives_everything_back(void **state)
{
	static const struct {
		enum piece piece;
		int told;
	} rows[] = { { SHARD, -ENOMEM },    { COMMANDS, -ENOMEM }, { EVENTS, -ENOMEM },
		     { LINK, -EADDRINUSE }, { HOOK, -ENODEV },     { ENGINE, -ENOMEM },
		     { THREAD, -EAGAIN } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int has_hook = 0; has_hook < 2; has_hook++) {
			char error[HOOK_ERROR_BYTES] = "";

			if (rows[i].piece == HOOK && !has_hook)
				continue;
			assert_int_equal(open_failing(rows[i].piece, has_hook, error),
					 rows[i].told);
			for (enum piece piece = SHARD; piece < THREAD; piece++)
				assert_int_equal(seen.held[piece], 0);
			assert_string_equal(error, rows[i].piece == HOOK ? "no such device" : "");
		}
	}
}

static void opening__hands_on_what_was_asked_for(void **state)
{
	char error[HOOK_ERROR_BYTES];

	(void)state;
	for (int has_hook = 0; has_hook < 2; has_hook++) {
		assert_int_equal(open_failing(THREAD, has_hook, error), -EAGAIN);
		assert_int_equal(seen.udp.local.port, 7174);
		assert_true(seen.udp.is_v6);
		assert_true(seen.udp.keeps_via); /* answers leave from where packets came to */
		assert_int_equal(seen.udp.receive_bytes, 70000);
		assert_non_null(seen.udp.receive_got);
		assert_ptr_equal(seen.engine.link, &link);
		assert_ptr_equal(seen.engine.hook, has_hook ? &hook : NULL);
		assert_int_equal(seen.engine.memory_max, 1 << 20);
		assert_int_equal(seen.engine.jobs_max, 12);
		assert_int_equal(seen.engine.tables_max, SHARD_TABLES_MAX);
		assert_int_equal(seen.engine.registers, 64);
	}
	assert_string_equal(seen.devices, "eth7");
	assert_int_equal(seen.hook_port, 7174); /* which the kernel may have chosen */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening__that_fails_gives_everything_back),
		cmocka_unit_test(opening__hands_on_what_was_asked_for),
	};

	return cmocka_run_group_tests_name("server-opening", tests, NULL, NULL);
}
