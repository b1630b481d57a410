/* SPDX-License-Identifier: Apache-2.0 */
/* inside_fixture.h - for tests: an aggregator's memory without its threads and sockets, and what it logs. Included
 * once in a program. */
#ifndef SERVER_INSIDE_FIXTURE_H
#define SERVER_INSIDE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "server/internal.h"

/* Not every test needs all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

enum { JOBS = 12, MEMBERS = 8, LINES_MAX = 32 };

static const uint64_t second_ns = 1000 * MS_NS;

static struct {
	struct server server;
	struct job job[JOBS];
	struct job *jobs[JOBS];
	struct job *beyond; /* no pointer: who takes it for one more job crashes */
	struct peer *peers; /* who looks beyond them crashes, too */
	uint64_t now_ns;
	uint32_t lines;
	struct {
		enum server_level level;
		char job[16];
		uint32_t rank;
		char text[LINE_BYTES];
	} line[LINES_MAX];
} test;

static void inside_hear(void *arg, enum server_level level, const struct server_about *about,
			const char *line)
{
	assert_ptr_equal(arg, &test);
	assert_true(test.lines < LINES_MAX);
	test.line[test.lines].level = level;
	snprintf(test.line[test.lines].job, sizeof(test.line[0].job), "%s",
		 about->job ? about->job : "");
	test.line[test.lines].rank = about->rank;
	snprintf(test.line[test.lines].text, sizeof(test.line[0].text), "%s", line);
	test.lines++;
}

enum { GUARD_BYTES = 1 << 16, PEERS_BYTES = PEERS_MAX * sizeof(struct peer) }; /* whole pages */
enum { PEERS_PAGES = (PEERS_BYTES + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES };

/* They end where a page begins of which nothing can be read. */
static struct peer *peers_get(void)
{
	uint8_t *at = mmap(NULL, PEERS_PAGES + GUARD_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + PEERS_PAGES, GUARD_BYTES, PROT_NONE))
		return NULL;
	return (struct peer *)(void *)(at + PEERS_PAGES - PEERS_BYTES);
}

static void peers_put(struct peer *peers)
{
	munmap((uint8_t *)(peers + PEERS_MAX) - PEERS_PAGES, PEERS_PAGES + GUARD_BYTES);
}

static int inside_setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	test.now_ns = 77 * second_ns + 5;
	test.peers = peers_get();
	if (!test.peers)
		return -1;
	test.beyond = (struct job *)(uintptr_t)8;
	test.server.options.jobs_max = JOBS;
	test.server.options.memory_max = PLAN_MEMORY_MAX;
	test.server.options.log = inside_hear;
	test.server.options.log_arg = &test;
	test.server.jobs = test.jobs;
	test.server.peers = test.peers;
	return 0;
}

static int inside_teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < JOBS; i++)
		free(test.job[i].admission);
	peers_put(test.peers);
	return 0;
}

#define INSIDE_TEST(claim) cmocka_unit_test_setup_teardown(claim, inside_setup, inside_teardown)

/* A job of `size` ranks, none of which is there yet. */
static struct job *inside_job(uint32_t index, const char *name, enum admission_state state,
			      uint16_t size)
{
	struct job *job = &test.job[index];

	assert_null(test.jobs[index]);
	assert_true(size <= MEMBERS);
	job->config = (struct admission_config)ADMISSION_CONFIG_DEFAULT;
	job->config.members_max = job->config.waiters_max = MEMBERS;
	job->admission = calloc(1, admission_bytes(&job->config));
	assert_non_null(job->admission);
	snprintf(job->name, sizeof(job->name), "%s", name);
	job->index = (uint16_t)index;
	job->admission->state = (uint8_t)state;
	job->admission->size = size;
	test.jobs[index] = job;
	return job;
}

static struct admission_member *inside_member(struct job *job, uint32_t rank,
					      enum admission_presence presence, const char *host)
{
	struct admission_member *member = admission_member(job->admission, rank);

	member->presence = (uint8_t)presence;
	snprintf(member->peer.host, sizeof(member->peer.host), "%s", host);
	return member;
}

static void assert_line(uint32_t i, enum server_level level, const char *job, uint32_t rank,
			const char *text)
{
	assert_true(i < test.lines);
	assert_string_equal(test.line[i].text, text);
	assert_int_equal(test.line[i].level, level);
	assert_string_equal(test.line[i].job, job);
	assert_int_equal(test.line[i].rank, rank);
}

#endif
