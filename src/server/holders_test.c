/* SPDX-License-Identifier: Apache-2.0 */
/* holders_test.c - who holds what, word for word, and settings that change while it runs. The shards are the test's. */
#include "server/inside_fixture.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SHARDS = 3 };

static struct {
	uint32_t asked[SHARDS];
	struct shard_report *report[SHARDS];
	uint64_t used[SHARDS];
} shards;

/* A shard is its number and 1. */
static uint32_t number_of(const struct shard *shard)
{
	return (uint32_t)((uintptr_t)shard - 1);
}

void __wrap_shard_send(struct shard *shard, const struct shard_command *command);
uint64_t __wrap_shard_memory_used(const struct shard *shard);

void __wrap_shard_send(struct shard *shard, const struct shard_command *command)
{
	assert_int_equal(command->type, SHARD_REPORT);
	shards.asked[number_of(shard)]++;
	shards.report[number_of(shard)] = command->report;
}

uint64_t __wrap_shard_memory_used(const struct shard *shard)
{
	return shards.used[number_of(shard)];
}

static void shards_put(uint32_t count)
{
	memset(&shards, 0, sizeof(shards));
	test.server.options.shards = count;
	for (uintptr_t k = 0; k < count; k++) {
		void *shard = (void *)(k + 1);

		test.server.shards[k] = shard;
	}
}

static struct table table_of(const char *name, const char *job, uint64_t source, uint64_t bytes)
{
	struct table table = { .source = source, .bytes = bytes };

	snprintf(table.open.table, sizeof(table.open.table), "%s", name);
	snprintf(table.open.job, sizeof(table.open.job), "%s", job);
	strcpy(table.open.host, "ps-0");
	table.open.pid = 99;
	table.open.workers = 4;
	return table;
}

static void assert_holds(uint64_t source, const struct job *but, const struct table *but_table,
			 const char *words)
{
	char buffer[2048];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	holders_add(&test.server, source, but, but_table, &text);
	assert_string_equal(buffer, words);
}

static void holders__of_a_job_its_state_its_ranks_and_its_hosts_are_named(void **state)
{
	static const struct {
		enum admission_state state;
		const char *word;
	} states[] = {
		{ ADMISSION_NONE, "over" },        { ADMISSION_GATHER, "gathering" },
		{ ADMISSION_GRANTED, "starting" }, { ADMISSION_ENABLING, "starting" },
		{ ADMISSION_STARTED, "running" },  { ADMISSION_DRAIN, "ending" },
	};
	struct job *job = inside_job(2, "one", ADMISSION_GATHER, 6);
	char words[80];

	(void)state;
	inside_member(job, 1, ADMISSION_JOINED, "b");
	inside_member(job, 2, ADMISSION_ABSENT, "c");
	inside_member(job, 3, ADMISSION_READY, "a");
	inside_member(job, 4, ADMISSION_GONE, "d");
	inside_member(job, 5, ADMISSION_LEFT, "b");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		job->admission->state = (uint8_t)states[i].state;
		snprintf(words, sizeof(words), "\"one\" (%s, 3 of 6 ranks on b, a)",
			 states[i].word);
		assert_holds(0, NULL, NULL, words);
	}
	job->plan.slots = 704;
	assert_holds(0, NULL, NULL, "\"one\" (ending, 3 of 6 ranks on b, a, 704 slots)");
	job->admission->state = ADMISSION_GRANTED;
	assert_holds(0, NULL, NULL, "\"one\" (starting, 3 of 6 ranks on b, a, 704 slots)");
	job->admission->state = ADMISSION_GATHER; /* of an earlier life */
	assert_holds(0, NULL, NULL, "\"one\" (gathering, 3 of 6 ranks on b, a)");
}

static void holders__of_hosts_three_are_named_and_the_others_counted(void **state)
{
	static const char *const hosts[] = { "a", "b", "a", "c", "b", "d", "e", "d" };
	struct job *job = inside_job(0, "wide", ADMISSION_STARTED, 4);

	(void)state;
	for (uint32_t rank = 0; rank < 8; rank++)
		inside_member(job, rank, ADMISSION_READY, hosts[rank]);
	assert_holds(0, NULL, NULL, "\"wide\" (running, 4 of 4 ranks on a, b, c)");
	job->admission->size = 6;
	assert_holds(0, NULL, NULL, "\"wide\" (running, 6 of 6 ranks on a, b, c and 1 more hosts)");
	job->admission->size = 8;
	assert_holds(0, NULL, NULL, "\"wide\" (running, 8 of 8 ranks on a, b, c and 2 more hosts)");
	for (uint32_t rank = 0; rank < 8; rank++)
		inside_member(job, rank, ADMISSION_GONE, hosts[rank]);
	assert_holds(0, NULL, NULL, "\"wide\" (running, 0 of 8 ranks)");
}

static void holders__of_jobs_eight_are_named_and_the_others_counted(void **state)
{
	char words[512] = "";

	(void)state;
	assert_holds(0, NULL, NULL, "nobody");
	for (uint32_t i = 0; i < JOBS; i++) {
		char name[8], word[48];

		snprintf(name, sizeof(name), "j%u", i);
		inside_job(i, name, ADMISSION_GATHER, 2);
		if (i == 2)
			test.job[i].idle_ns = 1; /* nobody is in it */
		if (i == 2 || i == 4)
			continue;
		snprintf(word, sizeof(word), "%s\"%s\" (gathering, 0 of 2 ranks)", i ? ", " : "",
			 name);
		if (i < 10)
			strcat(words, word);
		if (i == 9) /* j0 j1 j3 j5 j6 j7 j8 j9 */
			assert_holds(0, &test.job[4], NULL, words);
	}
	strcat(words, " and 2 more");
	assert_holds(0, &test.job[4], NULL, words);
}

static void holders__of_tables_eight_are_named_and_the_others_counted(void **state)
{
	static struct table tables[11];
	char words[1024] = "";

	(void)state;
	for (uint32_t i = 0; i < 11; i++) {
		char name[8], word[96];

		snprintf(name, sizeof(name), "t%u", i);
		tables[i] = table_of(name, i == 3 ? "ads" : "ctr", 0, (i + 1) << 10);
		test.server.tables[SHARD_TABLES_MAX - 11 + i] = &tables[i];
		if (i == 3 || i == 10)
			continue;
		snprintf(word, sizeof(word),
			 "%stable \"%s\" of job \"ctr\" (server on ps-0, pid 99, 4 workers, %u "
			 "KiB)",
			 i ? ", " : "", name, i + 1);
		if (i < 9)
			strcat(words, word);
	}
	{
		char buffer[2048];
		struct text text;

		text_begin(&text, buffer, sizeof(buffer));
		holders_add_tables(&test.server, 0, "ctr", &text);
		assert_memory_equal(buffer, words, strlen(words));
		assert_string_equal(buffer + strlen(words), " and 2 more tables");
		test.server.tables[SHARD_TABLES_MAX - 1] = NULL;
		test.server.tables[SHARD_TABLES_MAX - 2] = NULL;
		text_begin(&text, buffer, sizeof(buffer));
		holders_add_tables(&test.server, 0, "ctr", &text);
		assert_string_equal(buffer, words);
	}
	test.server.tables[SHARD_TABLES_MAX - 8] = NULL; /* t3 */
	assert_holds(0, NULL, &tables[10], words);
}

static void holders__what_another_address_has_is_counted_without_a_name(void **state)
{
	struct table mine = table_of("mine", "ctr", 7, 2048), other = table_of("x", "ctr", 8, 1),
		     third = table_of("y", "ads", 9, 1);

	(void)state;
	inside_job(0, "own", ADMISSION_GATHER, 1)->source = 7;
	inside_job(1, "its", ADMISSION_GATHER, 1)->source = 8;
	inside_job(2, "their", ADMISSION_GATHER, 1)->source = 9;
	test.server.tables[0] = &mine;
	test.server.tables[1] = &other;
	test.server.tables[5] = &third;
	assert_holds(7, NULL, NULL,
		     "\"own\" (gathering, 0 of 1 ranks), table \"mine\" of job \"ctr\" (server on "
		     "ps-0, pid 99, 4 workers, 2 KiB), 2 jobs and 2 tables of other addresses");
	assert_holds(6, NULL, NULL, "3 jobs and 3 tables of other addresses");
	assert_holds(6, &test.job[0], &mine, "2 jobs and 2 tables of other addresses");
	{
		char buffer[512];
		struct text text;

		text_begin(&text, buffer, sizeof(buffer));
		holders_add_tables(&test.server, 7, "ctr", &text);
		assert_string_equal(buffer,
				    "table \"mine\" of job \"ctr\" (server on ps-0, pid 99, 4 "
				    "workers, 2 KiB), 1 tables of other addresses");
		text_begin(&text, buffer, sizeof(buffer));
		holders_add_tables(&test.server, 7, "ads", &text);
		assert_string_equal(buffer, "1 tables of other addresses");
		text_begin(&text, buffer, sizeof(buffer));
		holders_add_tables(&test.server, 7, "none", &text);
		assert_string_equal(buffer, "");
	}
	test.server.tables[0] = test.server.tables[1] = test.server.tables[5] = NULL;
	assert_holds(6, NULL, NULL, "3 jobs and 0 tables of other addresses");
	test.server.key[0] = 'k'; /* whoever comes so far knows it */
	assert_holds(6, &test.job[0], NULL,
		     "\"its\" (gathering, 0 of 1 ranks), \"their\" (gathering, 0 of 1 ranks)");
	test.server.key[0] = 0;
	test.server.is_local = true;
	assert_holds(6, &test.job[0], NULL,
		     "\"its\" (gathering, 0 of 1 ranks), \"their\" (gathering, 0 of 1 ranks)");
}

static void holders__the_operator_hears_of_all_and_the_shards_are_asked(void **state)
{
	struct table table = table_of("emb", "ctr", 5, 3000);
	struct job *job;

	(void)state;
	shards_put(SHARDS);
	shards.used[0] = 1000;
	shards.used[1] = 20000;
	shards.used[2] = 7;
	test.server.is_reporting[1] = true; /* it was asked already */
	test.server.peers_count = 6;
	test.server.options.tables_max = 256;
	job = inside_job(1, "one", ADMISSION_GATHER, 3);
	inside_member(job, 0, ADMISSION_JOINED, "a");
	job = inside_job(4, "two", ADMISSION_STARTED, 2);
	job->plan.slots = 32;
	inside_member(job, 0, ADMISSION_READY, "a");
	inside_member(job, 1, ADMISSION_LEFT, "b");
	inside_job(5, "idle", ADMISSION_NONE, 1)->idle_ns = 1;
	holders_say(&test.server);
	assert_int_equal(test.lines, 3);
	assert_line(0, SERVER_INFO, "one", SERVER_RANK_NONE,
		    "job \"one\" (gathering, 1 of 3 ranks on a)");
	assert_line(1, SERVER_INFO, "two", SERVER_RANK_NONE,
		    "job \"two\" (running, 2 of 2 ranks on a, b, 32 slots)");
	assert_line(2, SERVER_INFO, "", SERVER_RANK_NONE,
		    "holds 2 of 12 jobs, 3 members, 6 connections, 21007 bytes of slots");
	assert_int_equal(shards.asked[0], 1);
	assert_int_equal(shards.asked[1], 0);
	assert_int_equal(shards.asked[2], 1);
	assert_ptr_equal(shards.report[2], &test.server.shard_reports[2]);
	assert_true(test.server.is_reporting[0]);
	assert_true(test.server.is_reporting[2]);
	test.server.tables[9] = &table;
	test.server.tables_count = 1;
	holders_say(&test.server);
	assert_int_equal(test.lines, 8);
	assert_line(5, SERVER_INFO, "", SERVER_RANK_NONE,
		    "table \"emb\" of job \"ctr\" (server on ps-0, pid 99, 4 workers, 2 KiB)");
	assert_line(6, SERVER_INFO, "", SERVER_RANK_NONE,
		    "holds 2 of 12 jobs, 3 members, 6 connections, 18007 bytes of slots");
	assert_line(7, SERVER_INFO, "", SERVER_RANK_NONE,
		    "holds 1 of 256 tables, 3000 bytes of them");
	assert_int_equal(shards.asked[0], 1); /* it has not answered yet */
	table.bytes = 30000;                  /* the shard has not obeyed yet */
	holders_say(&test.server);
	assert_non_null(strstr(test.line[11].text, " 0 bytes of slots"));
}

/* ---- settings that change ---- */

static struct {
	bool has_read;
	const char *key;
	uint32_t calls;
} again;

static bool read_again(void *arg, struct server_options *options)
{
	assert_ptr_equal(arg, &test);
	again.calls++;
	assert_int_equal(options->gather_ms, 0);
	options->gather_ms = 4000;
	options->drain_ms = 70;
	if (again.key)
		options->key = again.key[0] ? again.key : NULL;
	return again.has_read;
}

static void reload(void)
{
	server_reload(&test.server);
	server_reload_asked(&test.server);
	server_reload_asked(&test.server); /* nobody has asked again */
}

static void reload__reads_once_for_each_call_and_all_jobs_know_it(void **state)
{
	struct job *jobs[2] = { inside_job(0, "a", ADMISSION_STARTED, 1),
				inside_job(JOBS - 1, "b", ADMISSION_GATHER, 1) };

	(void)state;
	memset(&again, 0, sizeof(again));
	test.server.calls_fd = -1;
	server_key_set(&test.server, "old");
	test.server.options.gather_ms = 9;
	reload(); /* nobody can read */
	test.server.options.read_again = read_again;
	reload();
	assert_int_equal(again.calls, 1);
	assert_int_equal(test.server.options.gather_ms, 9); /* it could not be read */
	assert_string_equal(test.server.key, "old");
	again.has_read = true;
	reload();
	assert_int_equal(again.calls, 2);
	assert_int_equal(test.server.options.gather_ms, 4000);
	assert_int_equal(test.server.options.drain_ms, 70);
	assert_string_equal(test.server.key, "old");
	for (uint32_t i = 0; i < 2; i++) {
		assert_ptr_equal(jobs[i]->config.key, test.server.key);
		assert_true(jobs[i]->config.gather_ns == 4 * second_ns);
	}
	again.key = "newer";
	reload();
	assert_string_equal(test.server.key, "newer");
	again.key = "x"; /* nothing of the old one is left */
	reload();
	assert_memory_equal(test.server.key, "x\0\0\0\0", 6);
	again.key = ""; /* any will do from now on */
	reload();
	assert_string_equal(test.server.key, "");
	assert_null(jobs[0]->config.key);
	assert_int_equal(test.lines, 0);
	test.server.is_draining = true;
	reload();
	assert_int_equal(again.calls, 5);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "", SERVER_RANK_NONE, "no file is read again: it drains");
}

static void reload__a_key_is_cut_where_no_join_can_say_more(void **state)
{
	char key[CONTROL_KEY_BYTES + 1];

	(void)state;
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = 0;
	memset(test.server.key, '?', sizeof(test.server.key));
	server_key_set(&test.server, key);
	assert_int_equal(strlen(test.server.key), CONTROL_KEY_BYTES - 1);
	server_key_set(&test.server, NULL);
	for (uint32_t i = 0; i < CONTROL_KEY_BYTES; i++)
		assert_int_equal(test.server.key[i], 0);
}

/* Whatever is asked from a signal handler, the loop wakes up. */
static void server__every_call_wakes_the_loop_and_leaves_errno_alone(void **state)
{
	static void (*const calls[])(struct server *) = { server_reload, server_drain, server_stop,
							  server_report };

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		uint64_t count = 0;

		test.server.calls_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		assert_true(test.server.calls_fd >= 0);
		calls[i](&test.server);
		assert_int_equal(read(test.server.calls_fd, &count, sizeof(count)), 8);
		assert_int_equal(count, 1);
		close(test.server.calls_fd);
		test.server.calls_fd = -1;
		errno = ENOTTY;
		calls[i](&test.server);
		assert_int_equal(errno, ENOTTY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INSIDE_TEST(holders__of_a_job_its_state_its_ranks_and_its_hosts_are_named),
		INSIDE_TEST(holders__of_hosts_three_are_named_and_the_others_counted),
		INSIDE_TEST(holders__of_jobs_eight_are_named_and_the_others_counted),
		INSIDE_TEST(holders__of_tables_eight_are_named_and_the_others_counted),
		INSIDE_TEST(holders__what_another_address_has_is_counted_without_a_name),
		INSIDE_TEST(holders__the_operator_hears_of_all_and_the_shards_are_asked),
		INSIDE_TEST(reload__reads_once_for_each_call_and_all_jobs_know_it),
		INSIDE_TEST(reload__a_key_is_cut_where_no_join_can_say_more),
		INSIDE_TEST(server__every_call_wakes_the_loop_and_leaves_errno_alone),
	};

	return cmocka_run_group_tests_name("server-holders", tests, NULL, NULL);
}
