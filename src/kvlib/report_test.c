/* SPDX-License-Identifier: Apache-2.0 */
/* report_test.c - what a worker tells a server that is back from its checkpoint, and counts as lost (R-SP-33,
 * R-KV-20). The server's side, and what was kept of hot keys, is the test's. */
#include "kvlib/kv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WINDOW = 4 };

static struct tally_kv kv;
static struct kv_server server;
static struct kv_message opened, report;
static uint64_t rows[WINDOW];
static uint32_t reports;
static bool is_before;
static char line[512];

void __wrap_kv_hot_report(struct kv_server *its, uint64_t generation,
			  uint64_t row[SPARSE_WINDOW_MAX]);
bool __wrap_kv_hot_is_before(const struct kv_server *its, uint64_t generation);
int __wrap_kv_stream_say(struct kv_stream *stream, const struct kv_message *message);

void __wrap_kv_hot_report(struct kv_server *its, uint64_t generation,
			  uint64_t row[SPARSE_WINDOW_MAX])
{
	assert_ptr_equal(its, &server);
	assert_true(generation == opened.generation);
	memcpy(row, rows, sizeof(rows));
}

bool __wrap_kv_hot_is_before(const struct kv_server *its, uint64_t generation)
{
	assert_ptr_equal(its, &server);
	assert_true(generation == opened.generation);
	return is_before;
}

int __wrap_kv_stream_say(struct kv_stream *stream, const struct kv_message *message)
{
	assert_ptr_equal(stream, &server.stream);
	report = *message;
	reports++;
	return -42;
}

static void hear(int level, const char *text, void *arg)
{
	(void)arg;
	assert_int_equal(level, TALLY_LOG_WARN);
	snprintf(line, sizeof(line), "%s", text);
}

static int setup(void **state)
{
	(void)state;
	memset(&kv, 0, sizeof(kv));
	memset(&server, 0, sizeof(server));
	memset(&opened, 0, sizeof(opened));
	memset(rows, 0, sizeof(rows));
	line[0] = 0;
	reports = 0;
	strcpy(kv.name, "emb");
	strcpy(server.at.text, "ps-1:7");
	server.kv = &kv;
	server.shape.window = WINDOW;
	opened.window = WINDOW;
	opened.table = 6;
	opened.generation = 3ull << SPARSE_RANDOM_BITS | 1;
	opened.number = 1;
	return tally_set_log(TALLY_LOG_WARN, hear, NULL);
}

static void report__counts_what_was_answered_and_is_not_in(void **state)
{
	(void)state;
	opened.number = 11; /* the next that the server expects */
	server.batch_done = 15;
	/* Of place 0: 12 and 16; of 1: 9 and 13; of 2: 2, 6 and 10; of 3 none. */
	opened.row[0] = 8;
	rows[0] = 16;
	opened.row[1] = 5;
	rows[1] = 13;
	opened.row[2] = 0;
	rows[2] = 10;
	opened.row[3] = rows[3] = 7;
	assert_int_equal(kv_report(&server, &opened), -42);
	assert_int_equal(kv.stats.batches_lost, 5);
	assert_int_equal(kv.stats.packets_lost, 7);
	assert_int_equal(reports, 1);
	assert_int_equal(report.type, KV_REPORT);
	assert_int_equal(report.table, 6);
	assert_int_equal(report.window, WINDOW);
	assert_int_equal(report.number, 15);
	assert_memory_equal(report.row, rows, sizeof(rows));
	assert_non_null(strstr(line,
			       "table emb: server ps-1:7 has gone back to its checkpoint: 5 "
			       "batches, up to number 15, and 7 packets of hot keys, which were "
			       "complete, are lost"));
	/* Once more, from further back: what was reported is not lost another time. */
	line[0] = 0;
	opened.number = 3;
	opened.row[1] = 1;
	rows[3] = 11; /* this is news */
	server.batch_done = 17;
	(void)kv_report(&server, &opened);
	assert_int_equal(kv.stats.batches_lost, 5 + 2);
	assert_int_equal(kv.stats.packets_lost, 7 + 1);
	assert_non_null(strstr(line, ": 2 batches, up to number 17, and 1 packets "));
	line[0] = 0;
	(void)kv_report(&server, &opened);
	assert_int_equal(kv.stats.batches_lost, 7);
	assert_int_equal(kv.stats.packets_lost, 8);
	assert_string_equal(line, "");
	assert_int_equal(reports, 3);
}

static void report__of_a_server_that_has_all_is_said_in_silence(void **state)
{
	(void)state;
	opened.number = 21; /* it has more than was answered */
	server.batch_done = 15;
	opened.row[2] = 14;
	rows[2] = 10;
	(void)kv_report(&server, &opened);
	assert_int_equal(kv.stats.batches_lost, 0);
	assert_int_equal(kv.stats.packets_lost, 0);
	assert_string_equal(line, "");
	assert_int_equal(report.number, 15);
	server.batch_done = 22; /* a batch alone is said, too */
	(void)kv_report(&server, &opened);
	assert_non_null(strstr(line, ": 2 batches, up to number 22, and 0 packets "));
	line[0] = 0;
	rows[0] = 4; /* and so is a packet */
	(void)kv_report(&server, &opened);
	assert_non_null(strstr(line, ": 0 batches, up to number 22, and 1 packets "));
}

static void report__a_generation_that_there_was_before_is_a_fault(void **state)
{
	static const char words[] = "has begun a generation that there was before: the end of its "
				    "log is missing";

	(void)state;
	server.generation_told = opened.generation;
	assert_null(kv_report_fault(&server, &opened)); /* it goes on with that one */
	server.generation_told = 2ull << SPARSE_RANDOM_BITS | 9;
	assert_null(kv_report_fault(&server, &opened));
	server.generation_told = 3ull << SPARSE_RANDOM_BITS | 2; /* with other random bits */
	assert_string_equal(kv_report_fault(&server, &opened), words);
	server.generation_told = 4ull << SPARSE_RANDOM_BITS | 1;
	assert_string_equal(kv_report_fault(&server, &opened), words);
	/* Who asks for a report must not be behind what was heard of its switch. */
	server.generation_told = opened.generation;
	opened.must_report = true;
	assert_string_equal(kv_report_fault(&server, &opened), words);
	is_before = true;
	assert_null(kv_report_fault(&server, &opened));
	is_before = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(report__counts_what_was_answered_and_is_not_in, setup),
		cmocka_unit_test_setup(report__of_a_server_that_has_all_is_said_in_silence, setup),
		cmocka_unit_test_setup(report__a_generation_that_there_was_before_is_a_fault,
				       setup),
	};

	return cmocka_run_group_tests_name("lib-kv-report", tests, NULL, NULL);
}
