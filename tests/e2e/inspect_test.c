/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_test.c - what a job shows of itself while it runs and after: dumps and timelines. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ranks.h"

static const char *text_of(json_t *json, const char *name)
{
	CHECK(json_is_string(json_object_get(json, name)));
	return json_string_value(json_object_get(json, name));
}

static json_int_t int_of(json_t *json, const char *name)
{
	CHECK(json_is_integer(json_object_get(json, name)));
	return json_integer_value(json_object_get(json, name));
}

/* ---- a look from another thread ---- */

static json_t *dump_of(struct tally_comm *comm)
{
	FILE *file = tmpfile();
	json_error_t error;
	json_t *json;

	CHECK(file);
	CHECK(tally_comm_dump(comm, fileno(file)) == TALLY_OK);
	rewind(file);
	json = json_loadf(file, 0, &error);
	CHECK(json);
	fclose(file);
	return json;
}

/* Rank 0 hangs in an allreduce that rank 1 does not call; rank 2 has called it, too. */
static void dump_check(struct ranks *ranks, struct tally_comm *comm)
{
	json_t *json = dump_of(comm), *list, *entry;

	CHECK(!strcmp(text_of(json, "job"), ranks->job));
	CHECK(!strcmp(text_of(json, "state"), "running"));
	CHECK(json_is_null(json_object_get(json, "error")));
	list = json_object_get(json, "members");
	CHECK(json_array_size(list) == 3);
	entry = json_array_get(list, 2);
	CHECK(int_of(entry, "rank") == 2 &&
	      int_of(entry, "pid") == (json_int_t)ranks->shared->report[2].value);
	CHECK(!strcmp(text_of(entry, "host"), ranks_host()));
	list = json_object_get(json, "outstanding");
	CHECK(json_array_size(list) == 2 && int_of(json, "outstanding_count") == 2);
	entry = json_array_get(list, 0);
	CHECK(int_of(entry, "number") == 1 && int_of(entry, "since_ms") >= 1000);
	CHECK(!strcmp(text_of(entry, "name"), "layer7"));
	CHECK(!strcmp(text_of(entry, "what"), "allreduce of 100 int32, sum"));
	entry = json_object_get(json, "missing");
	CHECK(int_of(entry, "number") == 1 && int_of(entry, "count") == 1);
	entry = json_array_get(json_object_get(entry, "ranks"), 0);
	CHECK(int_of(entry, "rank") == 1 && !strcmp(text_of(entry, "host"), ranks_host()));
	CHECK(int_of(json_object_get(json, "stats"), "operations") == 1);
	json_decref(json);
}

/* Is it told who is missing, after a second of waiting? */
static bool knows_who_is_missing(struct tally_comm *comm)
{
	json_t *json = dump_of(comm), *list = json_object_get(json, "outstanding");
	bool knows = json_is_object(json_object_get(json, "missing")) &&
		     json_array_size(list) == 2 &&
		     int_of(json_array_get(list, 0), "since_ms") >= 1000;

	json_decref(json);
	return knows;
}

static void *allreduce_main(void *arg)
{
	static int32_t x[100];

	CHECK(tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, arg) == TALLY_OK);
	return NULL;
}

static void dump_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[100];
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_comm *comm;
	struct tally_work *work;
	pthread_t thread;
	json_t *json;

	ranks->shared->report[rank].value = (uint64_t)getpid();
	comm = ranks_join(ranks, rank);
	options.name = "layer7";
	CHECK(tally_barrier(comm) == TALLY_OK);
	if (rank == 1)
		while (ranks->shared->event_s == 0.0)
			usleep(1000); /* until rank 0 has looked */
	CHECK(tally_iallreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm, &options, &work) ==
	      TALLY_OK);
	CHECK(!pthread_create(&thread, NULL, allreduce_main, comm));
	if (rank == 0) {
		for (int i = 0; i < 2000 && !knows_who_is_missing(comm); i++)
			usleep(10000);
		dump_check(ranks, comm);
		ranks->shared->event_s = ranks_now_s();
	}
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	pthread_join(thread, NULL);
	json = dump_of(comm);
	CHECK(json_is_null(json_object_get(json, "missing")));
	CHECK(int_of(json, "complete") == 3 && int_of(json, "outstanding_count") == 0);
	json_decref(json);
	ranks_leave(comm);
}

static void dump__says_who_is_missing_while_all_else_hangs(void **state)
{
	struct ranks ranks = { .size = 3, .body = dump_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- timelines ---- */

static char timeline_dir[64];

/* The background thread has come round. */
static bool is_written(uint32_t rank)
{
	static char text[1 << 16];
	char path[128];
	uint32_t ends = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u.json", timeline_dir, rank);
	file = fopen(path, "r");
	if (!file)
		return false;
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	for (const char *at = text; (at = strstr(at, "\"ph\":\"e\"")); at++)
		ends++;
	return ends == 50;
}

static void timeline_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_comm *comm;
	char path[128];

	snprintf(path, sizeof(path), "%s/%%r.json", timeline_dir);
	setenv("TALLY_TIMELINE", path, 1);
	comm = ranks_join(ranks, rank);
	for (int32_t i = 0; i < 50; i++) {
		int32_t x[3] = { i, -i, (int32_t)rank };
		struct tally_work *work;

		options.name = i % 2 ? "odd \"\xc3\xb6ne\xff\"" : NULL;
		CHECK(tally_iallreduce(x, x, 3, TALLY_INT32, TALLY_SUM, comm, &options, &work) ==
		      TALLY_OK);
		CHECK(tally_wait(&work, -1) == TALLY_OK);
	}
	for (int i = 0; i < 2000 && !is_written(rank); i++)
		usleep(10000);
	if (rank == 1)
		_exit(0); /* as if it had been killed */
	while (!tally_comm_get_async_error(comm))
		usleep(1000);
	tally_comm_destroy(comm);
}

/* What happened to every operation: begun, on the wire, complete, in this order. */
static void timeline_check(uint32_t rank)
{
	json_error_t error;
	json_t *json, *event;
	char path[128], last[3][64] = { "", "", "" };
	uint32_t counts[3] = { 0 };
	json_int_t at[3] = { 0 };
	size_t i;

	snprintf(path, sizeof(path), "%s/%u.json", timeline_dir, rank);
	json = json_load_file(path, 0, &error);
	if (!json)
		fail_msg("%s: %s", path, error.text);
	json_array_foreach(json, i, event)
	{
		const char *phase = text_of(event, "ph");
		uint32_t kind = *phase == 'b' ? 0 : *phase == 'n' ? 1 : 2;

		if (*phase == 'M')
			continue;
		snprintf(last[kind], sizeof(last[kind]), "%s", text_of(event, "id"));
		at[kind] = int_of(event, "ts");
		counts[kind]++;
		if (kind == 0 && counts[0] % 2 == 0)
			assert_string_equal(text_of(event, "name"), "odd \"\xc3\xb6ne?\"");
		if (kind != 2)
			continue;
		assert_string_equal(last[0], last[2]);
		assert_string_equal(last[1], last[2]);
		assert_true(at[0] <= at[1] && at[1] <= at[2]);
		assert_true(at[2] - at[0] < 10 * 1000000);
	}
	json_decref(json);
	assert_int_equal(counts[0], 50);
	assert_int_equal(counts[1], 50);
	assert_int_equal(counts[2], 50);
	unlink(path);
}

static void timeline__can_be_loaded_whatever_becomes_of_the_rank(void **state)
{
	struct ranks ranks = { .size = 2, .body = timeline_body };

	(void)state;
	strcpy(timeline_dir, "/tmp/tally-timeline-XXXXXX");
	assert_non_null(mkdtemp(timeline_dir));
	assert_true(ranks_run(&ranks));
	timeline_check(0);
	timeline_check(1);
	rmdir(timeline_dir);
}

static uint32_t warnings;

static void warnings_count(int level, const char *line, void *arg)
{
	(void)arg;
	if (level == TALLY_LOG_WARN && strstr(line, "/dev/full"))
		warnings++;
}

static void full_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;

	setenv("TALLY_TIMELINE", "/dev/full", 1);
	tally_set_log(0, warnings_count, NULL);
	comm = ranks_join(ranks, rank);
	for (int i = 0; i < 5000; i++)
		CHECK(tally_barrier(comm) == TALLY_OK);
	usleep(400000);
	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_leave(comm);
	CHECK(warnings == 1);
}

static void timeline__a_full_disk_costs_one_warning(void **state)
{
	struct ranks ranks = { .size = 1, .is_local = true, .body = full_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dump__says_who_is_missing_while_all_else_hangs),
		cmocka_unit_test(timeline__can_be_loaded_whatever_becomes_of_the_rank),
		cmocka_unit_test(timeline__a_full_disk_costs_one_warning),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-inspect", tests, NULL, NULL);
}
