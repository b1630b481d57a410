/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_memory_test.c - out of memory, and out of descriptors, at every place where that can be: a
 * named error or success, never a crash or a hang; and afterwards all is as if nothing had been.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "oom.h"
#include "ranks.h"
#include "server/server.h"

enum { LIMIT_S = 20, PLACES_MAX = 2000, DESCRIPTORS_MAX = 40 };

/* What a child tells. */
struct told {
	uint64_t allocations;
	int result; /* of the call that failed; 0: none did */
	bool is_named, is_sound_again;
	char text[512];
};

static int life(const char *job, char text[512])
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	int result;

	options.aggregator = "local";
	options.init_timeout_s = 5;
	result = tally_comm_init(&comm, job, 1, 0, &options);
	for (uint32_t i = 0; i < 3 && !result; i++)
		result = ranks_sum(comm, i);
	if (!result)
		result = tally_comm_finalize(comm);
	snprintf(text, 512, "%s", tally_get_last_error(comm));
	tally_comm_destroy(comm);
	return result;
}

static void child_main(int fd, uint64_t at, bool is_lasting)
{
	struct told told = { 0 };
	char job[64], text[512];

	alarm(LIMIT_S);
	snprintf(job, sizeof(job), "oom-%ld", (long)getpid());
	(void)ranks_host(); /* what the test itself needs is there */
	oom_arm(at, is_lasting);
	told.result = life(job, told.text);
	told.allocations = oom_count();
	oom_arm(0, false);
	told.is_named = !told.result || told.text[0];
	told.is_sound_again = !life(job, text);
	_exit(write(fd, &told, sizeof(told)) == sizeof(told) ? 0 : 9);
}

/* One life in a process of its own, in which the at-th allocation fails. */
static void life_without(uint64_t at, bool is_lasting, struct told *told)
{
	int fds[2], status = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		child_main(fds[1], at, is_lasting);
	close(fds[1]);
	*told = (struct told){ 0 };
	if (read(fds[0], told, sizeof(*told)) != sizeof(*told))
		told->result = -1;
	close(fds[0]);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		fail_msg("allocation %llu%s fails: signal %d", (unsigned long long)at,
			 is_lasting ? " and all that follow" : "", WTERMSIG(status));
	if (WEXITSTATUS(status))
		fail_msg("allocation %llu%s fails: exit status %d", (unsigned long long)at,
			 is_lasting ? " and all that follow" : "", WEXITSTATUS(status));
}

static void sweep(bool is_lasting)
{
	uint32_t errors = 0, no_memory = 0;
	struct told told;
	uint64_t places;

	life_without(0, false, &told);
	assert_int_equal(told.result, TALLY_OK);
	places = told.allocations;
	assert_in_range(places, 10, PLACES_MAX);
	for (uint64_t at = 1; at <= places; at++) {
		life_without(at, is_lasting, &told);
		if (!told.is_named || !told.is_sound_again)
			fail_msg("allocation %llu of %llu: result %d (%s), %s afterwards",
				 (unsigned long long)at, (unsigned long long)places, told.result,
				 told.text, told.is_sound_again ? "sound" : "BROKEN");
		errors += told.result != 0;
		no_memory += told.result == TALLY_ERR_NO_MEMORY ||
			     strstr(told.text, "memory") != NULL;
	}
	printf("%llu places: %u errors, %u of them say memory\n", (unsigned long long)places,
	       errors, no_memory);
	assert_true(no_memory > 5);
}

static void memory__one_allocation_that_fails_is_a_named_error_or_harmless(void **state)
{
	(void)state;
	sweep(false);
}

static void memory__that_ends_for_good_is_a_named_error_or_harmless(void **state)
{
	(void)state;
	sweep(true);
}

/* ---- the daemon ---- */

static char last_line[256];

static void log_keep(void *arg, enum server_level level, const struct server_about *about,
		     const char *line)
{
	(void)arg, (void)about;
	if (level <= SERVER_WARN)
		snprintf(last_line, sizeof(last_line), "%s", line);
}

static int server_once(void)
{
	struct server_options options = {
		.listen = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 } },
		.log = log_keep,
	};
	struct server *server;
	int result = server_open(&server, &options);

	if (!result)
		server_close(server);
	return result;
}

static void memory__that_fails_when_the_daemon_starts_is_said(void **state)
{
	uint64_t places;
	uint32_t errors = 0;

	(void)state;
	oom_arm(0, false);
	assert_int_equal(server_once(), 0);
	places = oom_count();
	assert_in_range(places, 5, PLACES_MAX);
	for (uint64_t at = 1; at <= places; at++) {
		int result;

		last_line[0] = 0;
		oom_arm(at, false);
		result = server_once();
		oom_arm(0, false);
		errors += result != 0;
		if (result && !last_line[0])
			fail_msg("allocation %llu: error %d without a word", (unsigned long long)at,
				 result);
	}
	assert_true(errors > 3);
	assert_int_equal(server_once(), 0);
}

/* ---- descriptors ---- */

static uint32_t descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void limit_descriptors(uint32_t count)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = count;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int descriptors_child(uint32_t more)
{
	char text[512], again[512], job[64];
	uint32_t before;
	double began_s;
	int result;

	alarm(LIMIT_S);
	snprintf(job, sizeof(job), "fds-%ld", (long)getpid());
	before = descriptors();
	limit_descriptors(before + more);
	began_s = ranks_now_s();
	result = life(job, text);
	limit_descriptors(1024);
	if (ranks_now_s() - began_s > 4)
		return 22; /* who has no descriptor left says so at once */
	if (result && !text[0])
		return 20;
	if (result && !strstr(text, "open files") && !strstr(text, "time"))
		fprintf(stderr, "%u descriptors more: result %d: %s\n", more, result, text);
	if (descriptors() != before || life(job, again))
		return 21; /* something leaked, or it is not sound again */
	return result ? 1 : 0;
}

/* libtally and its aggregator need so many more than there are: for every number below that. */
static void descriptors__that_run_out_are_a_named_error(void **state)
{
	uint32_t errors = 0;
	bool is_enough = false;

	(void)state;
	for (uint32_t more = 0; more < DESCRIPTORS_MAX && !is_enough; more++) {
		int status = 0;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (pid == 0)
			_exit(descriptors_child(more));
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
			fail_msg("%u descriptors more: exit status %d, signal %d", more,
				 WEXITSTATUS(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		errors += WEXITSTATUS(status) == 1;
		is_enough = WEXITSTATUS(status) == 0;
	}
	assert_true(is_enough);
	assert_true(errors > 5);
}

/* ---- a vector of more than 2^31 elements ---- */

/* Bytes: most of the vector is the same memory, again and again; but around the edges, where an offset of
 * too few bits would wrap or turn negative, it is memory of its own. */
enum { PERIOD = 1 << 21, OWN = 1 << 16, EDGES = 3 };
enum { HUGE_S = 150 }; /* 10 s on an idle machine */
static const uint64_t edges[EDGES] = { 1ull << 31, 1ull << 32, 1ull << 33 };

static int32_t *map_again_and_again(size_t bytes)
{
	int fd = memfd_create("vector", MFD_CLOEXEC), prot = PROT_READ | PROT_WRITE;
	char *at = mmap(NULL, bytes + PERIOD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(fd >= 0 && !ftruncate(fd, PERIOD) && at != MAP_FAILED);
	for (size_t done = 0; done < bytes; done += PERIOD)
		CHECK(mmap(at + done, PERIOD, prot, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) !=
		      MAP_FAILED);
	for (uint32_t i = 0; i < EDGES; i++)
		CHECK(mmap(at + edges[i] - OWN / 2, OWN, prot,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	close(fd);
	return (int32_t *)(void *)at;
}

/* Never 0, which is what memory that nobody has written holds; no two edges are alike. */
static int32_t huge_value(size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15;

	return (int32_t)(x >> 34) | 1;
}

/* Calls for every element that is not another one's memory: of the first period, and of each edge. */
static void huge_each(const int32_t *in, int32_t *out, size_t count,
		      void (*visit)(const int32_t *in, int32_t *out, size_t i))
{
	for (size_t i = 0; i < PERIOD / sizeof(*in); i++)
		visit(in, out, i);
	for (uint32_t edge = 0; edge < EDGES; edge++) {
		size_t first = (edges[edge] - OWN / 2) / sizeof(*in);

		for (size_t i = first; i < first + OWN / sizeof(*in) && i < count; i++)
			visit(in, out, i);
	}
}

static void huge_fill(const int32_t *in, int32_t *out, size_t i)
{
	(void)in;
	out[i] = huge_value(i);
}

static void huge_check(const int32_t *in, int32_t *out, size_t i)
{
	CHECK(in[i] == huge_value(i));
	CHECK(out[i] == huge_value(i));
}

static void huge_body(struct ranks *ranks, uint32_t rank)
{
	const size_t count = (1ull << 31) + 5;
	struct tally_stats stats = TALLY_STATS_INIT;
	int32_t *in = map_again_and_again(count * sizeof(*in));
	int32_t *out = map_again_and_again(count * sizeof(*out));
	struct tally_comm *comm;

	CHECK(!setenv("TALLY_LOCAL", "udp", 1)); /* it is packets that are counted */
	comm = ranks_join(ranks, rank);
	huge_each(NULL, in, count, huge_fill);
	CHECK(tally_allreduce(in, out, count, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	huge_each(in, out, count, huge_check);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	CHECK(stats.elements == count);
	CHECK(stats.packets_in == (count + stats.lanes - 1) / stats.lanes);
	ranks_leave(comm);
}

static void count__above_2_to_the_31_is_summed_to_its_end(void **state)
{
	struct ranks ranks = { .size = 1, .is_local = true, .limit_s = HUGE_S, .body = huge_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__one_allocation_that_fails_is_a_named_error_or_harmless),
		cmocka_unit_test(memory__that_ends_for_good_is_a_named_error_or_harmless),
		cmocka_unit_test(memory__that_fails_when_the_daemon_starts_is_said),
		cmocka_unit_test(descriptors__that_run_out_are_a_named_error),
		cmocka_unit_test(count__above_2_to_the_31_is_summed_to_its_end),
	};

	return cmocka_run_group_tests_name("e2e-failures-memory", tests, NULL, NULL);
}
