/* SPDX-License-Identifier: Apache-2.0 */
/* limits_test.c - what one address may have, by numbers (R-CT-34). The host's memory, its control groups and the
 * limit of open files are the test's. */
#include "server/inside_fixture.h"

#include <sys/resource.h>
#include <unistd.h>

/* ---- the host ---- */

static struct {
	long pages, page_bytes;
	struct {
		const char *path, *text;
	} files[6];
	rlim_t open_files;
	bool has_no_limit;
	uint32_t opened, closed;
} host;

FILE *__wrap_fopen64(const char *path, const char *mode);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
long __wrap_sysconf(int name);
int __wrap_getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit);

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	assert_string_equal(mode, "re");
	for (size_t i = 0; i < sizeof(host.files) / sizeof(host.files[0]); i++) {
		if (!host.files[i].path || strcmp(path, host.files[i].path))
			continue;
		host.opened++;
		return fmemopen((char *)(uintptr_t)host.files[i].text, strlen(host.files[i].text),
				"r");
	}
	return NULL;
}

int __wrap_fclose(FILE *file)
{
	host.closed++;
	return __real_fclose(file);
}

long __wrap_sysconf(int name)
{
	assert_true(name == _SC_PHYS_PAGES || name == _SC_PAGESIZE);
	return name == _SC_PHYS_PAGES ? host.pages : host.page_bytes;
}

int __wrap_getrlimit64(__rlimit_resource_t resource, struct rlimit64 *limit)
{
	assert_int_equal(resource, RLIMIT_NOFILE);
	limit->rlim_cur = limit->rlim_max = host.open_files;
	return host.has_no_limit ? -1 : 0;
}

static void host_put(uint32_t i, const char *path, const char *text)
{
	host.files[i].path = path;
	host.files[i].text = text;
}

/* 64 GiB. */
static int setup(void **state)
{
	memset(&host, 0, sizeof(host));
	host.pages = 16 << 20;
	host.page_bytes = 4096;
	host.open_files = 1 << 20;
	if (inside_setup(state))
		return -1;
	test.server.options.share = 50;
	test.server.options.shards = 2;
	return 0;
}

/* ---- memory ---- */

/* MiB of each of two shards that are filled in; so much would be wanted at most. */
static uint64_t filled(uint64_t wanted_mib)
{
	test.server.options.memory_total = 0;
	test.server.options.jobs_max = 4;
	test.server.options.memory_max = (wanted_mib << 20) / 8;
	share_memory_fill(&test.server);
	assert_int_equal(test.server.options.memory_total % (1 << 20), 0);
	return test.server.options.memory_total >> 20;
}

static void limits__memory_is_what_all_jobs_may_want_or_half_of_the_hosts(void **state)
{
	(void)state;
	assert_int_equal(filled(1000), 1000);
	assert_int_equal(filled(16384), 16384); /* a half, of two shards */
	assert_int_equal(test.lines, 0);
	assert_int_equal(filled(16392), 16384);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "", SERVER_RANK_NONE,
		    "slots and tables may take 16384 MiB of each shard: half of this host's memory "
		    "in all (--memory-total)");
	test.server.options.memory_total = 5; /* who has said it gets it */
	share_memory_fill(&test.server);
	assert_int_equal(test.server.options.memory_total, 5);
	assert_int_equal(test.lines, 1);
	/* A job may have as much of registers as of slots. */
	test.server.options.memory_total = 0;
	test.server.options.memory_max = PLAN_MEMORY_MAX;
	share_memory_fill(&test.server);
	assert_int_equal(test.server.options.memory_total, 4 * 128 << 20);
}

static void limits__memory_is_the_least_of_the_control_groups_around(void **state)
{
	(void)state;
	host_put(0, "/sys/fs/cgroup/memory.max", "max\n");
	host_put(1, "/proc/self/cgroup", "5:cpu:/elsewhere\n0::/a/b\n");
	host_put(2, "/sys/fs/cgroup/a/b/memory.max", "34359738368\n"); /* 32 GiB */
	host_put(3, "/sys/fs/cgroup/elsewhere/memory.max", "4096\n");
	assert_int_equal(filled(100000), 32768 / 4);
	host_put(4, "/sys/fs/cgroup/a/memory.max", "17179869184\n");
	assert_int_equal(filled(100000), 16384 / 4);
	host_put(4, "/sys/fs/cgroup/a/memory.max", "68719476736\n");
	assert_int_equal(filled(100000), 32768 / 4);
	host_put(0, "/sys/fs/cgroup/memory.max", "8589934592\n"); /* in a container */
	assert_int_equal(filled(100000), 8192 / 4);
	host_put(1, "/proc/self/cgroup", "0::/\n");
	assert_int_equal(filled(100000), 8192 / 4);
	host_put(0, "/sys/fs/cgroup/memory.max", "1152921504606846976\n"); /* more than there is */
	assert_int_equal(filled(100000), 16384);
	host_put(1, "/proc/self/cgroup", "\n");
	host_put(0, "/sys/fs/cgroup/memory.max", "-");
	assert_int_equal(filled(100000), 16384);
	assert_true(host.opened > 0);
	assert_int_equal(host.opened, host.closed);
}

/* ---- jobs and tables ---- */

static bool allows(bool is_allowed, const char *buffer, const char *words)
{
	assert_string_equal(buffer, words ? words : "");
	return is_allowed == !words;
}

static bool may_have_job(uint64_t source, const char *words)
{
	char buffer[512];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	return allows(share_of_jobs(&test.server, source, &text), buffer, words);
}

static void limits__of_jobs_is_half_of_what_others_leave_or_four(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 6; i++) /* 2 of it, 3 of others, one that nobody is in */
		inside_job(i, "job", ADMISSION_GATHER, 1)->source = i < 2 ? 7 : 8;
	test.job[5].idle_ns = 1;
	test.job[5].source = 7;
	assert_true(may_have_job(7, NULL)); /* 12 - 3: 5, rounded up */
	inside_job(6, "job", ADMISSION_GATHER, 1)->source = 7;
	assert_true(may_have_job(7, NULL));
	inside_job(7, "job", ADMISSION_GATHER, 1)->source = 7;
	assert_true(may_have_job(7, NULL));
	inside_job(8, "job", ADMISSION_GATHER, 1)->source = 7;
	assert_true(may_have_job(7,
				 "your address has 5 of the aggregator's jobs, others have 3: one "
				 "may not have more (--share 50)"));
	assert_true(may_have_job(8, NULL));
	test.server.options.share = 100;
	assert_true(may_have_job(7, NULL));
	test.server.options.share = 99;
	assert_true(may_have_job(7, NULL));
	test.server.options.share = 10; /* but never less than four */
	test.jobs[8] = test.jobs[7] = NULL;
	assert_true(may_have_job(7, NULL));
	test.jobs[7] = &test.job[7];
	assert_true(may_have_job(7,
				 "your address has 4 of the aggregator's jobs, others have 3: one "
				 "may not have more (--share 10)"));
	test.server.is_local = true;
	assert_true(may_have_job(7, NULL));
	test.server.is_local = false;
	test.server.options.jobs_max = 8; /* with the idle one: 7 are in use */
	assert_true(may_have_job(9, NULL));
	test.job[5].idle_ns = 0;
	test.server.options.jobs_max = 7;
	assert_true(may_have_job(8, NULL)); /* there is none: that is said elsewhere */
}

static bool may_have_table(uint64_t source, bool is_replacing, const char *words)
{
	char buffer[512];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	return allows(share_of_tables(&test.server, source, is_replacing, &text), buffer, words);
}

static void limits__of_tables_is_half_of_what_others_leave_or_four(void **state)
{
	static struct table tables[8];

	(void)state;
	test.server.options.tables_max = 13;
	for (uint32_t i = 0; i < 8; i++) { /* 5 of it, 3 of others */
		tables[i].source = i % 3 ? 7 : 8;
		test.server.tables[i * 36] = &tables[i];
	}
	test.server.tables_count = 8; /* no pointer: who takes it for one more table crashes */
	assert_true(
		may_have_table(7, false,
			       "your address has 5 of the aggregator's tables, others have 3: one "
			       "may not have more (--share 50)"));
	assert_true(may_have_table(7, true, NULL));
	test.server.options.tables_max = 14; /* 11: 6, rounded up */
	assert_true(may_have_table(7, false, NULL));
	assert_true(may_have_table(8, false, NULL));
	test.server.options.share = 10; /* four */
	assert_true(may_have_table(8, false, NULL));
	assert_true(
		may_have_table(7, true,
			       "your address has 5 of the aggregator's tables, others have 3: one "
			       "may not have more (--share 10)"));
	test.server.options.share = 100;
	assert_true(may_have_table(7, false, NULL));
	test.server.options.share = 10;
	test.server.options.tables_max = 8;
	assert_true(may_have_table(7, false, NULL)); /* there is none: that is said elsewhere */
}

static bool may_have_memory(uint64_t source, uint32_t shard, uint64_t kib, const char *words)
{
	char buffer[512];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	return allows(share_of_memory(&test.server, source, shard, kib << 10, &text), buffer,
		      words);
}

static void limits__of_memory_is_half_of_what_others_leave_on_that_shard(void **state)
{
	struct table its = { .source = 7, .shard = 1, .bytes = 100 << 10 },
		     theirs = { .source = 8, .shard = 0, .bytes = 200 << 10 };
	static const uint64_t kib[] = { 300, 50, 1000 };

	(void)state;
	test.server.options.memory_total = 3000 << 10;
	test.server.options.memory_max = 1 << 10; /* a few jobs have 4 KiB */
	for (uint32_t i = 0; i < 3; i++) {
		struct job *job = inside_job(i, "job", ADMISSION_STARTED, 1);

		job->source = i < 2 ? 7 : 8;
		job->bytes = kib[i] << 10;
		job->config.shards = i == 1 ? 1 : 2;
	}
	test.server.tables[0] = &its;
	test.server.tables[SHARD_TABLES_MAX - 1] = &theirs;
	/* Shard 0: others have 1200, it has 350, and may have 900. */
	assert_true(may_have_memory(7, 0, 550, NULL));
	assert_true(may_have_memory(7, 0, 551,
				    "its address has 350 KiB of a shard's memory for slots and "
				    "tables, others have 1200 of 3000: it may not have 551 more "
				    "(--share 50, --memory-total)"));
	/* Shard 1: others have 1000, it has 400, and may have 1000. */
	assert_true(may_have_memory(7, 1, 600, NULL));
	assert_true(may_have_memory(7, 1, 601,
				    "its address has 400 KiB of a shard's memory for slots and "
				    "tables, others have 1000 of 3000: it may not have 601 more "
				    "(--share 50, --memory-total)"));
	assert_false(share_of_memory(&test.server, 7, 1, 1600 << 10, /* all that there is */
				     &(struct text){ (char[512]){ 0 }, 512, 0 }));
	assert_true(
		may_have_memory(7, 1, 1601, NULL)); /* there is not as much: the shard says so */
	test.server.options.share = 100;
	assert_true(may_have_memory(7, 1, 601, NULL));
	test.server.options.share = 50;
	test.server.options.memory_max = 300 << 10; /* 4 * 300 are a few jobs' */
	assert_true(may_have_memory(7, 1, 800, NULL));
	assert_true(may_have_memory(7, 1, 801,
				    "its address has 400 KiB of a shard's memory for slots and "
				    "tables, others have 1000 of 3000: it may not have 801 more "
				    "(--share 50, --memory-total)"));
}

/* ---- connections ---- */

static bool may_have_connection(uint32_t peer, const char *words)
{
	char buffer[512];
	struct text text;

	text_begin(&text, buffer, sizeof(buffer));
	return allows(share_of_connections(&test.server, &test.peers[peer], &text), buffer, words);
}

/* So many are taken, `own` of them by address 7, and one more of it asks, with some strangers. */
static void connections_put(uint32_t taken, uint32_t own)
{
	memset(test.peers, 0, PEERS_MAX * sizeof(*test.peers));
	for (uint32_t i = 0; i < taken + 3; i++) {
		test.peers[i].conn = (struct conn *)(void *)test.peers;
		test.peers[i].source = i < own || i >= taken ? 7 : 8;
		test.peers[i].is_stranger = i >= taken;
	}
	test.peers[taken + 3].source = 7; /* has gone */
	test.server.peers_count = taken + 3;
	test.server.strangers_count = 3;
}

static void limits__of_connections_follow_the_limit_of_open_files(void **state)
{
	static const char all[] =
		"your address has 2600 of the aggregator's connections, others have "
		"1969: one may not have more (--share 50)";

	(void)state;
	connections_put(1023, 1023); /* 1,024 are a few */
	assert_true(may_have_connection(1023, NULL));
	connections_put(2600 + 1969, 2600); /* 7,168 - 1,969: 2,600, rounded up */
	assert_true(may_have_connection(4569, all));
	host.has_no_limit = true;
	host.open_files = 0;
	assert_true(may_have_connection(4569, all));
	connections_put(2600 + 1968, 2600); /* 7,168 - 1,968: 2,600 */
	assert_false(share_of_connections(&test.server, &test.peers[4568],
					  &(struct text){ (char[512]){ 0 }, 512, 0 }));
	host.has_no_limit = false;
	connections_put(2599 + 1969, 2599);
	host.open_files = 1 << 20;
	assert_true(may_have_connection(4568, NULL));
	/* 1,000 files: 40 are ours, and 125 for those who are to be heard. Of 835 others have 235. */
	host.open_files = 1000;
	connections_put(300 + 235, 300);
	assert_true(may_have_connection(
		535,
		"your address has 300 of the aggregator's connections, others have 235: one may "
		"not have more (--share 50); the limit of open files leaves room for 835 in all "
		"(ulimit -n)"));
	connections_put(299 + 235, 299);
	assert_true(may_have_connection(534, NULL));
	connections_put(118, 118); /* a seventh is a few */
	test.server.options.share = 1;
	assert_true(may_have_connection(118, NULL));
	connections_put(119, 119);
	assert_false(share_of_connections(&test.server, &test.peers[119],
					  &(struct text){ (char[99]){ 0 }, 99, 0 }));
	test.server.is_local = true;
	assert_true(may_have_connection(119, NULL));
}

static void limits__of_connections_there_are_always_eight(void **state)
{
	static const rlim_t few[] = { 0, 40, 50, 54 }; /* 54: 46, and 8 */

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		host.open_files = few[i];
		connections_put(4, 4);
		assert_true(may_have_connection(
			4,
			"your address has 4 of the aggregator's connections, others have 0: one "
			"may not have more (--share 50); the limit of open files leaves room for 8 "
			"in all (ulimit -n)"));
		connections_put(3, 3);
		assert_true(may_have_connection(3, NULL));
	}
}

/* ---- who is charged ---- */

static void limits__a_job_is_charged_to_one_who_is_in_it_while_it_gathers(void **state)
{
	struct job *job = inside_job(0, "job", ADMISSION_GATHER, 3);

	(void)state;
	for (uint32_t i = 1; i < 4; i++) {
		test.peers[i] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
					       .handle = PEERS_MAX + i,
					       .source = 10 + i };
		inside_member(job, i - 1, ADMISSION_JOINED, "a")->peer.connection = PEERS_MAX + i;
	}
	job->source = 13;
	share_charge(&test.server, job);
	assert_int_equal(job->source, 13); /* it is in it */
	job->source = 14;
	admission_member(job->admission, 0)->presence = ADMISSION_GONE;
	share_charge(&test.server, job);
	assert_int_equal(job->source, 12); /* the first who is */
	job->source = 14;
	test.peers[2].handle += PEERS_MAX; /* its connection is no more */
	job->admission->state = ADMISSION_GRANTED;
	share_charge(&test.server, job);
	assert_int_equal(job->source, 13);
	job->source = 14;
	job->admission->size = 2; /* nobody is */
	share_charge(&test.server, job);
	assert_int_equal(job->source, 14);
	job->admission->size = 3;
	job->admission->state = ADMISSION_STARTED;
	share_charge(&test.server, job);
	assert_int_equal(job->source, 14);
}

#define LIMITS_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LIMITS_TEST(limits__memory_is_what_all_jobs_may_want_or_half_of_the_hosts),
		LIMITS_TEST(limits__memory_is_the_least_of_the_control_groups_around),
		LIMITS_TEST(limits__of_jobs_is_half_of_what_others_leave_or_four),
		LIMITS_TEST(limits__of_tables_is_half_of_what_others_leave_or_four),
		LIMITS_TEST(limits__of_memory_is_half_of_what_others_leave_on_that_shard),
		LIMITS_TEST(limits__of_connections_follow_the_limit_of_open_files),
		LIMITS_TEST(limits__of_connections_there_are_always_eight),
		LIMITS_TEST(limits__a_job_is_charged_to_one_who_is_in_it_while_it_gathers),
	};

	return cmocka_run_group_tests_name("server-limits", tests, NULL, NULL);
}
