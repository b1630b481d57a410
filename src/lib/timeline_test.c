/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_test.c - the file of TALLY_TIMELINE: its events, when they are written, and what becomes of it where
 * writing fails. Clocks, the disk and the background thread are the test's. */
#include "lib/timeline.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/shared/map.h"

enum { RING = 4096 };

static const uint64_t second_ns = 1000000000;

static char folder[] = "/tmp/tally-timeline-XXXXXX";
static char path[64], other_path[64], lines[2048];
static uint32_t kicks, writes;
static struct {
	size_t most; /* bytes of a write; 0: any */
	uint32_t at; /* the write that fails, from 1; 0: none */
	int error;   /* 0: it takes nothing */
} disk;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
void __wrap_wake_background(void);
ssize_t __real_pwrite64(int fd, const void *at, size_t bytes, off_t where);
ssize_t __wrap_pwrite64(int fd, const void *at, size_t bytes, off_t where);

/* This host was booted 100 s ago, at 4,900 s. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){ .tv_sec = clock == CLOCK_REALTIME ? 5000 : 100 };
	return 0;
}

void __wrap_wake_background(void)
{
	kicks++;
}

ssize_t __wrap_pwrite64(int fd, const void *at, size_t bytes, off_t where)
{
	if (++writes == disk.at) {
		errno = disk.error ? disk.error : EINTR; /* an earlier call's */
		return disk.error ? -1 : 0;
	}
	return __real_pwrite64(fd, at, disk.most && disk.most < bytes ? disk.most : bytes, where);
}

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%d %s\n", level, line);
}

static const struct report_who who = { .job = "train", .host = "node7", .rank = 3, .size = 5 };

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/timeline", folder);
	snprintf(other_path, sizeof(other_path), "%s/other", folder);
	return tally_set_log(TALLY_LOG_WARN, hear, NULL);
}

static int folder_remove(void **state)
{
	(void)state;
	return rmdir(folder);
}

static int setup(void **state)
{
	(void)state;
	lines[0] = 0;
	kicks = writes = 0;
	memset(&disk, 0, sizeof(disk));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(other_path);
	return 0;
}

/* All events that are in the file, which is whole. */
static json_t *events_of(const char *file)
{
	json_error_t error;
	json_t *events = json_load_file(file, 0, &error);

	if (!events)
		fail_msg("%s:%d: %s", file, error.line, error.text);
	assert_true(json_is_array(events));
	return events;
}

static size_t events_count(const char *file)
{
	json_t *events = events_of(file);
	size_t count = json_array_size(events);

	json_decref(events);
	return count;
}

static void assert_text(const json_t *events, size_t i, const char *key, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(json_array_get(events, i), key)),
			    text);
}

static void assert_number(const json_t *events, size_t i, const char *key, json_int_t number)
{
	assert_int_equal(json_integer_value(json_object_get(json_array_get(events, i), key)),
			 number);
}

static const json_t *args_of(const json_t *events, size_t i)
{
	return json_object_get(json_array_get(events, i), "args");
}

static void assert_named(const json_t *events, size_t i, const char *what, json_int_t thread,
			 const char *name)
{
	assert_text(events, i, "ph", "M");
	assert_text(events, i, "name", what);
	assert_number(events, i, "pid", 3);
	assert_number(events, i, "tid", thread);
	assert_string_equal(json_string_value(json_object_get(args_of(events, i), "name")), name);
}

static struct timeline_op op_of(uint64_t number, uint32_t comm)
{
	return (struct timeline_op){ .op = { .number = number,
					     .kind = CONTROL_OP_ALLREDUCE,
					     .type = TALLY_INT32,
					     .op = TALLY_SUM,
					     .count = 65,
					     .stream = MAP_BULK },
				     .submitted_ns = 10 * second_ns + 1000,
				     .first_ns = 10 * second_ns + 2000,
				     .complete_ns = 10 * second_ns + 3999,
				     .comm = comm };
}

static void timeline__of_an_operation_has_its_begin_its_first_packet_and_its_end(void **state)
{
	uint32_t first = 9, second = 9;
	struct timeline *timeline = timeline_open(&who, path, &first);
	struct timeline_op op = op_of(41, 0);
	json_t *events;

	(void)state;
	assert_non_null(timeline);
	assert_int_equal(first, 0);
	assert_int_equal(events_count(path), 3);
	assert_ptr_equal(timeline_open(&who, path, &second), timeline); /* another communicator */
	assert_int_equal(second, 1);
	strcpy(op.op.name, "loss");
	timeline_add(timeline, &op);
	op = op_of(7, 1);
	op.op.kind = CONTROL_OP_BARRIER;
	op.op.stream = MAP_EXPRESS;
	op.first_ns = 0;
	op.result = TALLY_ERR_TIMEOUT;
	timeline_add(timeline, &op);
	timeline_close(timeline);
	events = events_of(path);
	assert_int_equal(json_array_size(events), 3 + 2 + 3 + 2);
	assert_named(events, 0, "process_name", 0, "node7, rank 3");
	assert_named(events, 1, "thread_name", 0, "train, rank 3: express");
	assert_named(events, 2, "thread_name", 1, "train, rank 3: bulk");
	assert_named(events, 3, "thread_name", 2, "train, rank 3: express");
	assert_named(events, 4, "thread_name", 3, "train, rank 3: bulk");
	for (size_t i = 5; i < 8; i++) {
		static const char *const phases[] = { "b", "n", "e" };

		assert_text(events, i, "ph", phases[i - 5]);
		assert_text(events, i, "cat", "allreduce");
		assert_text(events, i, "id", "3.0.41");
		assert_text(events, i, "name", i == 6 ? "first packet" : "loss");
		assert_number(events, i, "pid", 3);
		assert_number(events, i, "tid", 1);
		assert_number(events, i, "ts", 4910000000 + (json_int_t)(i - 4)); /* us */
	}
	assert_int_equal(json_integer_value(json_object_get(args_of(events, 5), "number")), 41);
	assert_int_equal(json_integer_value(json_object_get(args_of(events, 5), "elements")), 65);
	assert_string_equal(json_string_value(json_object_get(args_of(events, 5), "stream")),
			    "bulk");
	assert_string_equal(json_string_value(json_object_get(args_of(events, 5), "result")),
			    "success");
	assert_string_equal(json_string_value(json_object_get(args_of(events, 5), "what")),
			    "allreduce of 65 int32, sum");
	assert_int_equal(json_object_size(args_of(events, 6)), 0);
	assert_text(events, 8, "ph", "b");
	assert_text(events, 8, "cat", "barrier");
	assert_text(events, 8, "id", "3.1.7");
	assert_text(events, 8, "name", "barrier");
	assert_number(events, 8, "tid", 2);
	assert_string_equal(json_string_value(json_object_get(args_of(events, 8), "stream")),
			    "express");
	assert_string_equal(json_string_value(json_object_get(args_of(events, 8), "result")),
			    "no answer in time");
	assert_text(events, 9, "ph", "e");
	json_decref(events);
	timeline_close(timeline);
	timeline_close(NULL);
	assert_string_equal(lines, "");
}

static void timeline__is_written_when_something_has_waited_for_a_tenth_of_a_second(void **state)
{
	uint32_t comm;
	struct timeline *timeline = timeline_open(&who, path, &comm);
	struct timeline_op op = op_of(1, 0);
	uint64_t due_ns = op.complete_ns + second_ns / 10;

	(void)state;
	timeline_service(due_ns);
	assert_int_equal(events_count(path), 3);
	timeline_add(timeline, &op);
	op.complete_ns += second_ns; /* the oldest counts */
	timeline_add(timeline, &op);
	timeline_service(due_ns - 1);
	assert_int_equal(events_count(path), 3);
	timeline_service(due_ns);
	assert_int_equal(events_count(path), 9);
	timeline_add(timeline, &op); /* for itself, now */
	timeline_service(due_ns + second_ns - 1);
	assert_int_equal(events_count(path), 9);
	timeline_service(due_ns + second_ns);
	assert_int_equal(events_count(path), 12);
	assert_int_equal(kicks, 0);
	timeline_close(timeline);
}

static void timeline__that_is_not_written_drops_what_it_has_no_room_for(void **state)
{
	uint32_t comm;
	struct timeline *timeline = timeline_open(&who, path, &comm);
	json_t *events;

	(void)state;
	for (uint64_t i = 0; i < RING + 5; i++) {
		struct timeline_op op = op_of(i, 0);

		timeline_add(timeline, &op);
		assert_int_equal(kicks, i + 1 >= RING / 2);
	}
	timeline_service(0); /* half of the room is taken: it is due */
	events = events_of(path);
	assert_int_equal(json_array_size(events), 3 + 1 + 3 * RING);
	assert_text(events, 3, "name", "operations left out");
	assert_text(events, 3, "ph", "i");
	assert_number(events, 3, "ts", 5000000000);
	assert_int_equal(json_integer_value(json_object_get(args_of(events, 3), "count")), 5);
	assert_text(events, 4, "id", "3.0.0");
	assert_text(events, 3 + 3 * RING, "id", "3.0.4095");
	json_decref(events);
	for (uint64_t i = 0; i < RING / 2 - 1; i++) {
		struct timeline_op op = op_of(i, 0);

		timeline_add(timeline, &op);
	}
	timeline_service(0);
	assert_int_equal(events_count(path), 4 + 3 * RING); /* not yet */
	timeline_close(timeline);
	assert_int_equal(events_count(path), 4 + 3 * (RING + RING / 2 - 1)); /* none was dropped */
}

static void timeline__is_one_for_each_file_that_is_named(void **state)
{
	uint32_t first = 9, second = 9;
	struct timeline *timeline = timeline_open(&who, path, &first),
			*other = timeline_open(&who, other_path, &second);
	struct timeline_op op = op_of(1, 0);
	struct stat file;

	(void)state;
	assert_true(timeline != other);
	assert_int_equal(first + second, 0);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_mode & 0111, 0); /* it is no program */
	timeline_add(other, &op);
	timeline_close(timeline);
	assert_int_equal(events_count(path), 3);
	timeline_close(other);
	assert_int_equal(events_count(other_path), 6);
	timeline = timeline_open(&who, other_path, &first); /* begun anew */
	assert_int_equal(first, 0);
	assert_int_equal(events_count(other_path), 3);
	timeline_close(timeline);
	assert_null(timeline_open(&who, "", &first));
	assert_string_equal(lines, "");
	assert_null(timeline_open(&who, "/nowhere/at/all", &first));
	assert_non_null(strstr(lines, "there will be no timeline /nowhere/at/all: No such file or "
				      "directory"));
}

static void timeline__is_whole_though_a_write_takes_little_or_is_interrupted(void **state)
{
	uint32_t comm;
	struct timeline *timeline;
	struct timeline_op op = op_of(1, 0);

	(void)state;
	disk.most = 7;
	disk.at = 3;
	disk.error = EINTR;
	timeline = timeline_open(&who, path, &comm);
	timeline_add(timeline, &op);
	assert_int_equal(events_count(path), 3);
	disk.at = writes + 2;
	timeline_close(timeline);
	assert_int_equal(events_count(path), 6);
	assert_string_equal(lines, "");
}

/* What is there stays whole, and nothing more comes. */
static void timeline__ends_where_writing_fails(void **state)
{
	static const struct {
		int error;
		const char *words;
	} fails[] = { { 0, " ends here: No space left on device; operations go on without it" },
		      { EIO, " ends here: Input/output error; operations go on without it" } };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t comm;
		struct timeline *timeline = timeline_open(&who, path, &comm);
		struct timeline_op op = op_of(1, 0);

		timeline_add(timeline, &op);
		timeline_service(UINT64_MAX);
		assert_int_equal(events_count(path), 6);
		lines[0] = 0;
		disk.most = 30; /* some of it is written */
		disk.at = writes + 3;
		disk.error = fails[i].error;
		timeline_add(timeline, &op);
		timeline_service(UINT64_MAX);
		disk.most = 0;
		assert_non_null(strstr(lines, path));
		assert_non_null(strstr(lines, fails[i].words));
		assert_int_equal(events_count(path), 6);
		lines[0] = 0;
		timeline_add(timeline, &op);
		timeline_close(timeline);
		assert_int_equal(events_count(path), 6);
		assert_string_equal(lines, "");
	}
}

/* The descriptor that one more open would get. */
static int fd_next(void)
{
	int fd = dup(STDOUT_FILENO);

	close(fd);
	return fd;
}

static void timeline__keeps_no_descriptor(void **state)
{
	int before = fd_next();
	uint32_t comm;

	(void)state;
	timeline_close(timeline_open(&who, path, &comm));
	assert_int_equal(fd_next(), before);
}

/* Of a program without a stdin it is the first that it opens. */
static void timeline__may_have_descriptor_0(void **state)
{
	int kept = dup(STDIN_FILENO);
	struct timeline *timeline;
	uint32_t comm;

	(void)state;
	assert_true(kept >= 0);
	close(STDIN_FILENO);
	timeline = timeline_open(&who, path, &comm);
	timeline_close(timeline);
	dup2(kept, STDIN_FILENO);
	close(kept);
	assert_string_equal(lines, "");
	assert_int_equal(events_count(path), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(timeline__##claim, setup, teardown)
		T(of_an_operation_has_its_begin_its_first_packet_and_its_end),
		T(is_written_when_something_has_waited_for_a_tenth_of_a_second),
		T(that_is_not_written_drops_what_it_has_no_room_for),
		T(is_one_for_each_file_that_is_named),
		T(is_whole_though_a_write_takes_little_or_is_interrupted),
		T(ends_where_writing_fails),
		T(keeps_no_descriptor),
		T(may_have_descriptor_0),
#undef T
	};

	return cmocka_run_group_tests_name("lib-timeline", tests, folder_make, folder_remove);
}
