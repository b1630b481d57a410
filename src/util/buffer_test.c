/* SPDX-License-Identifier: Apache-2.0 */
/* buffer_test.c - what goes in comes out, in the room that it needs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/buffer.h"

static bool has_no_memory;

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes)
{
	return has_no_memory ? NULL : __real_realloc(at, bytes);
}

static struct buffer buffer;

static int end(void **state)
{
	(void)state;
	has_no_memory = false;
	buffer_fini(&buffer);
	assert_null(buffer.bytes);
	assert_int_equal(buffer.room, 0);
	return 0;
}

/* Bytes that count up: the next to be put, and the next to be taken. */
static void put_each(uint8_t *next, uint32_t count)
{
	for (; count; count--, ++*next)
		assert_int_equal(buffer_put(&buffer, next, 1), 0);
}

/* What was taken makes room for what comes, be it never all that is taken. */
static void buffer__has_no_more_room_than_what_is_in_it_needs(void **state)
{
	uint8_t next = 0, taken = 0;

	(void)state;
	put_each(&next, 3000);
	for (uint32_t i = 0; i < 20000; i++) {
		assert_int_equal(*buffer_first(&buffer), taken++);
		buffer_take(&buffer, 1);
		put_each(&next, 1);
		assert_int_equal(buffer_bytes(&buffer), 3000);
	}
	assert_int_equal(buffer.room, 4096);
	put_each(&next, 1097);
	assert_int_equal(buffer.room, 8192);
	for (uint32_t i = 0; i < 4097; i++) {
		assert_int_equal(*buffer_first(&buffer), taken++);
		buffer_take(&buffer, 1);
	}
	assert_int_equal(buffer.at, 0);
	assert_int_equal(buffer.end, 0);
}

/* A move is for many bytes: each is moved three times for each that was taken, at most. */
static void buffer__moves_no_more_than_is_worth_it(void **state)
{
	uint8_t next = 0;

	(void)state;
	put_each(&next, 4096);
	buffer_take(&buffer, 1023);
	assert_int_equal(buffer_reserve(&buffer, 1), 0);
	assert_int_equal(buffer.at, 1023);
	assert_int_equal(buffer.room, 8192);
	assert_int_equal(buffer_reserve(&buffer, 4096), 0);
	assert_int_equal(buffer.room, 8192);
	put_each(&next, 4096);
	buffer_take(&buffer, 1025);
	assert_int_equal(buffer_reserve(&buffer, 2049), 0);
	assert_int_equal(buffer.at, 0);
	assert_int_equal(buffer.end, 8192 - 2048);
	assert_int_equal(buffer.room, 16384);
	assert_int_equal(*buffer_first(&buffer), 2048 % 256);
	buffer_take(&buffer, 8000 - 2048);
	put_each(&next, 16384 - (uint32_t)buffer.end - 100);
	assert_int_equal(buffer_reserve(&buffer, 100), 0); /* just what is behind the end */
	assert_int_equal(buffer.at, 8000 - 2048);
}

static void widen__doubles_what_was_filled_up_to_a_limit(void **state)
{
	uint32_t rooms = 0;

	(void)state;
	for (size_t room = 0; buffer.end < 10000; room = buffer.room) {
		assert_int_equal(buffer_widen(&buffer, 10000), 0);
		assert_int_equal(buffer.room, room ? (room < 5000 ? 2 * room : 10000) : 4096);
		assert_int_equal(buffer_widen(&buffer, 10000), 0); /* nothing has come */
		buffer.end = buffer.room;
		rooms++;
	}
	assert_int_equal(rooms, 3);
	assert_int_equal(buffer_widen(&buffer, 10000), 0);
	assert_int_equal(buffer.room, 10000);
	buffer.bytes[9998] = 'x';
	buffer.bytes[9999] = 'y';
	buffer_take(&buffer, 9998);
	assert_int_equal(buffer_widen(&buffer, 10000), 0);
	assert_int_equal(buffer.room, 10000);
	assert_int_equal(buffer.at, 0);
	assert_int_equal(buffer_bytes(&buffer), 2);
	assert_memory_equal(buffer.bytes, "xy", 2);
}

static void buffer__without_memory_is_as_it_was(void **state)
{
	uint8_t next = 0;

	(void)state;
	assert_int_equal(buffer_put(&buffer, &next, 0), 0);
	has_no_memory = true;
	assert_int_equal(buffer_put(&buffer, &next, 1), -ENOMEM);
	assert_int_equal(buffer_widen(&buffer, 10), -ENOMEM);
	has_no_memory = false;
	put_each(&next, 4096);
	has_no_memory = true;
	assert_int_equal(buffer_reserve(&buffer, 1), -ENOMEM);
	assert_int_equal(buffer_widen(&buffer, 10000), -ENOMEM);
	assert_int_equal(buffer_bytes(&buffer), 4096);
	assert_int_equal(buffer.room, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_teardown(name, end)
		T(buffer__has_no_more_room_than_what_is_in_it_needs),
		T(buffer__moves_no_more_than_is_worth_it),
		T(widen__doubles_what_was_filled_up_to_a_limit),
		T(buffer__without_memory_is_as_it_was),
#undef T
	};

	return cmocka_run_group_tests_name("util-buffer", tests, NULL, NULL);
}
