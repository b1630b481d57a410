/* SPDX-License-Identifier: Apache-2.0 */
/* dump_test.c - what a communicator says of itself: dumps, as JSON, the line at its begin and the one at its end. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"

enum { LIMIT_S = 60, LOG_BYTES = 1 << 14 };

#define YEARS_MS INT64_C(100000000000) /* three of them */

/* ---- what is logged ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[LOG_BYTES]; /* level, text */

static void hear(int level, const char *line, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&log_lock);
	snprintf(log_text + strlen(log_text), sizeof(log_text) - strlen(log_text), "%d %s\n", level,
		 line);
	pthread_mutex_unlock(&log_lock);
}

static uint32_t log_count(const char *words)
{
	uint32_t count = 0;

	pthread_mutex_lock(&log_lock);
	for (const char *at = log_text; (at = strstr(at, words)); at++)
		count++;
	pthread_mutex_unlock(&log_lock);
	return count;
}

/* ---- what was counted ---- */

static bool is_counted; /* by the test */
static struct tally_stats counted = TALLY_STATS_INIT;

int __real_tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats);
int __wrap_tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats);

int __wrap_tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats)
{
	if (!is_counted)
		return __real_tally_comm_get_stats(comm, stats);
	*stats = counted;
	return TALLY_OK;
}

/* ---- memory ---- */

static _Thread_local bool is_out_of_memory;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
	return is_out_of_memory ? NULL : __real_calloc(count, bytes);
}

/* ---- the clock ---- */

static _Thread_local uint64_t later_ns;

uint64_t __real_clock_ns(void);
uint64_t __wrap_clock_ns(void);

uint64_t __wrap_clock_ns(void)
{
	return __real_clock_ns() + later_ns;
}

/* ---- JSON ---- */

static json_t *dump(struct tally_comm *comm)
{
	static char text[1 << 18];
	FILE *file = tmpfile();
	json_t *json;
	size_t bytes;

	assert_non_null(file);
	assert_int_equal(tally_comm_dump(comm, fileno(file)), TALLY_OK);
	rewind(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	assert_true(bytes > 1);
	assert_int_equal(text[bytes - 1], '\n');
	text[bytes] = 0;
	assert_ptr_equal(strchr(text, '\n'), text + bytes - 1); /* one line */
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	return json;
}

static void assert_text(const json_t *json, const char *key, const char *text)
{
	assert_string_equal(json_string_value(json_object_get(json, key)), text);
}

static void assert_number(const json_t *json, const char *key, json_int_t number)
{
	assert_true(json_is_integer(json_object_get(json, key)));
	assert_int_equal(json_integer_value(json_object_get(json, key)), number);
}

static void assert_quiet(const json_t *json, json_int_t complete)
{
	assert_number(json, "submitted", complete);
	assert_number(json, "complete", complete);
	assert_number(json, "outstanding_count", 0);
	assert_int_equal(json_array_size(json_object_get(json, "outstanding")), 0);
	assert_true(json_is_null(json_object_get(json, "missing")));
	assert_number(json_object_get(json, "stats"), "operations", complete);
}

static void late_set(struct tally_comm *comm, uint64_t number)
{
	comm_lock(comm);
	comm->late = (struct control_waiting){ .number = number,
					       .waited_ms = 912,
					       .missing_count = 2,
					       .listed_count = 2,
					       .missing = { 1, 2 },
					       .text = "rank 1 is late" };
	comm_unlock(comm);
}

/* Who it is, and who all are. */
static void assert_who(const json_t *json, const struct seat *seat)
{
	const struct tally_comm *comm = seat->comm;
	const json_t *list = json_object_get(json, "members");
	char life[17];

	snprintf(life, sizeof(life), "%016llx", (unsigned long long)comm->life);
	assert_text(json, "tally", "0.1.0");
	assert_text(json, "job", seat->job);
	assert_text(json, "life", life);
	assert_number(json, "rank", 0);
	assert_number(json, "size", 2);
	assert_text(json, "host", comm->who.host);
	assert_number(json, "pid", getpid());
	assert_text(json, "aggregator", "local");
	assert_text(json, "state", "running");
	assert_number(json, "result", 0);
	assert_true(json_is_null(json_object_get(json, "error")));
	assert_int_equal(json_array_size(list), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_number(json_array_get(list, i), "rank", (json_int_t)i);
		assert_text(json_array_get(list, i), "host", comm->who.host);
		assert_number(json_array_get(list, i), "pid", getpid());
	}
}

static void dump__says_what_is_on_its_way_and_who_is_missing(void **state)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct seat seats[2] = { 0 };
	struct tally_work *works[4];
	int32_t x[3] = { 1, 2, 3 }, y = 4, z[3] = { 5, 6, 7 };
	const json_t *list, *one;
	json_t *json;

	(void)state;
	seats_open(seats, 2);
	assert_int_equal(tally_iallreduce(&y, &y, 1, TALLY_INT32, TALLY_SUM, seats[1].comm, NULL,
					  &works[1]),
			 TALLY_OK);
	assert_int_equal(tally_allreduce(x, x, 1, TALLY_INT32, TALLY_SUM, seats[0].comm), TALLY_OK);
	assert_int_equal(tally_wait(&works[1], -1), TALLY_OK);
	options.name = "loss";
	assert_int_equal(tally_iallreduce(x, x, 3, TALLY_INT32, TALLY_AVG, seats[0].comm, &options,
					  &works[0]),
			 TALLY_OK);
	assert_int_equal(tally_ibarrier(seats[0].comm, NULL, &works[2]), TALLY_OK);
	late_set(seats[0].comm, 1);
	later_ns = YEARS_MS * 1000000;
	json = dump(seats[0].comm);
	later_ns = 0;
	assert_who(json, &seats[0]);
	assert_number(json, "submitted", 3);
	assert_number(json, "complete", 1);
	assert_number(json, "outstanding_count", 2);
	list = json_object_get(json, "outstanding");
	assert_int_equal(json_array_size(list), 2);
	one = json_array_get(list, 0);
	assert_number(one, "number", 1);
	assert_text(one, "what", "allreduce of 3 int32, avg");
	assert_text(one, "name", "loss");
	assert_text(one, "stream", "express");
	assert_true(json_is_true(json_object_get(one, "is_sent")));
	assert_in_range(json_integer_value(json_object_get(one, "since_ms")), YEARS_MS,
			YEARS_MS + LIMIT_S * 1000);
	assert_number(json_array_get(list, 1), "number", 2);
	assert_text(json_array_get(list, 1), "what", "barrier");
	assert_text(json_array_get(list, 1), "name", "");
	one = json_object_get(json, "missing");
	assert_number(one, "number", 1);
	assert_number(one, "waited_ms", 912);
	assert_number(one, "count", 2);
	assert_text(one, "text", "rank 1 is late");
	list = json_object_get(one, "ranks");
	assert_int_equal(json_array_size(list), 2);
	assert_number(json_array_get(list, 0), "rank", 1);
	assert_text(json_array_get(list, 0), "host", seats[0].comm->who.host);
	assert_number(json_array_get(list, 1), "rank", 2);
	assert_text(json_array_get(list, 1), "host", ""); /* there is no such rank */
	json_decref(json);
	late_set(seats[0].comm, 0); /* that one is complete */
	json = dump(seats[0].comm);
	assert_true(json_is_null(json_object_get(json, "missing")));
	json_decref(json);
	assert_int_equal(tally_iallreduce(z, z, 3, TALLY_INT32, TALLY_AVG, seats[1].comm, &options,
					  &works[1]),
			 TALLY_OK);
	assert_int_equal(tally_ibarrier(seats[1].comm, NULL, &works[3]), TALLY_OK);
	assert_int_equal(tally_waitall(4, works, -1), TALLY_OK);
	json = dump(seats[0].comm);
	assert_quiet(json, 3);
	assert_number(json_object_get(json, "stats"), "elements", 4);
	json_decref(json);
	seats_do(seats, 2, seat_leave);
}

/* Rank 0's: when the next operation is there, too; or it came first, and has been worked out. */
static json_t *seen;
static uint64_t folded_before;

static void reduce_and_dump(const void *in, void *inout, size_t count, int dtype, void *ctx)
{
	struct tally_comm *comm = ctx;

	(void)in;
	(void)inout;
	(void)count;
	(void)dtype;
	for (bool is_there = !comm; !is_there;) {
		comm_lock(comm);
		if (!comm->is_waiting) /* or another thread is at the link */
			progress_drive(comm);
		is_there = comm->calling.first || comm->folded > folded_before;
		comm_unlock(comm);
	}
	if (comm)
		seen = dump(comm);
}

/* Is there a dump of both? */
static bool both_are_seen(struct seat *seats)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *works[2][2];
	int32_t x[2] = { 5, -7 }, y[2] = { 11, 2 };

	folded_before = seats[0].comm->folded;
	for (uint32_t r = 0; r < 2; r++) {
		options.reduce = reduce_and_dump;
		options.reduce_ctx = r ? NULL : seats[r].comm;
		assert_int_equal(tally_iallreduce(&x[r], &x[r], 1, TALLY_INT32, TALLY_USER,
						  seats[r].comm, &options, &works[r][0]),
				 TALLY_OK);
		assert_int_equal(tally_iallreduce(&y[r], &y[r], 1, TALLY_INT32, TALLY_PROD,
						  seats[r].comm, NULL, &works[r][1]),
				 TALLY_OK);
	}
	assert_int_equal(tally_waitall(2, works[1], -1), TALLY_OK);
	assert_int_equal(tally_waitall(2, works[0], -1), TALLY_OK);
	return json_integer_value(json_object_get(seen, "outstanding_count")) == 2;
}

static void dump__says_what_is_there_and_not_worked_out(void **state)
{
	struct seat seats[2] = { 0 };
	const json_t *list;
	uint32_t before = 0;

	(void)state;
	seats_open(seats, 2);
	for (; !both_are_seen(seats) && before < 200; before += 2)
		json_decref(seen);
	assert_number(seen, "complete", before);
	assert_number(seen, "outstanding_count", 2);
	list = json_object_get(seen, "outstanding");
	assert_number(json_array_get(list, 0), "number", before);
	assert_text(json_array_get(list, 0), "what", "allreduce of 1 int32, user");
	assert_true(json_is_true(json_object_get(json_array_get(list, 0), "is_sent")));
	assert_number(json_array_get(list, 1), "number", before + 1);
	json_decref(seen);
	seen = dump(seats[0].comm);
	assert_quiet(seen, before + 2);
	json_decref(seen);
	seats_do(seats, 2, seat_leave);
}

static void dump__says_that_it_is_broken_or_left(void **state)
{
	struct seat seat = { 0 };
	json_t *json;

	(void)state;
	seats_open(&seat, 1);
	assert_int_equal(tally_comm_finalize(seat.comm), TALLY_OK);
	json = dump(seat.comm);
	assert_text(json, "state", "left");
	assert_quiet(json, 0);
	json_decref(json);
	tally_comm_destroy(seat.comm);
	seats_open(&seat, 1);
	assert_int_equal(tally_comm_abort(seat.comm), TALLY_OK);
	assert_int_equal(tally_barrier(seat.comm), TALLY_ERR_ABORTED);
	json = dump(seat.comm);
	assert_text(json, "state", "broken");
	assert_number(json, "result", TALLY_ERR_ABORTED);
	assert_text(json, "error", tally_get_last_error(seat.comm));
	json_decref(json);
	tally_comm_destroy(seat.comm);
}

/* Of many operations so many are listed, and all are counted. */
static void dump__lists_a_thousand_operations_at_most(void **state)
{
	enum { OPS = 1001 };
	static struct tally_work *works[2][OPS];
	struct seat seats[2] = { 0 };
	json_t *json;

	(void)state;
	seats_open(seats, 2);
	for (int i = 0; i < OPS; i++) {
		if (i + 1 == OPS) {
			json = dump(seats[0].comm);
			assert_number(json, "outstanding_count", OPS - 1);
			assert_int_equal(json_array_size(json_object_get(json, "outstanding")),
					 OPS - 1);
			json_decref(json);
		}
		assert_int_equal(tally_ibarrier(seats[0].comm, NULL, &works[0][i]), TALLY_OK);
	}
	json = dump(seats[0].comm);
	assert_number(json, "outstanding_count", OPS);
	assert_int_equal(json_array_size(json_object_get(json, "outstanding")), OPS - 1);
	json_decref(json);
	for (int i = 0; i < OPS; i++)
		assert_int_equal(tally_ibarrier(seats[1].comm, NULL, &works[1][i]), TALLY_OK);
	for (int rank = 0; rank < 2; rank++)
		assert_int_equal(tally_waitall(OPS, works[rank], -1), TALLY_OK);
	seats_do(seats, 2, seat_leave);
}

static void dump__waits_for_no_reader(void **state)
{
	struct seat seat = { 0 };
	int ends[2];
	char byte;

	(void)state;
	seats_open(&seat, 1);
	assert_int_equal(tally_comm_dump(seat.comm, -1), TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(tally_get_last_error(NULL), "tally_comm_dump: fd -1"));
	assert_int_equal(tally_comm_dump(NULL, 1), TALLY_ERR_ARGUMENT);
	is_out_of_memory = true;
	assert_int_equal(tally_comm_dump(seat.comm, 1), TALLY_ERR_NO_MEMORY);
	is_out_of_memory = false;
	assert_string_equal(tally_get_last_error(NULL), "tally_comm_dump: out of memory");
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], "", 1) == 1)
		;
	assert_int_equal(tally_comm_dump(seat.comm, ends[1]), TALLY_ERR_SYSTEM);
	assert_non_null(
		strstr(tally_get_last_error(NULL), "tally_comm_dump: writing to descriptor "));
	assert_non_null(strstr(tally_get_last_error(NULL), strerror(ETIMEDOUT)));
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
	tally_comm_destroy(seat.comm);
}

/* ---- lines ---- */

static void begin__is_said_once_in_a_process(void **state)
{
	struct tally_stats stats = TALLY_STATS_INIT;
	struct seat seat = { 0 };
	char words[256];

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		seats_open(&seat, 1);
		assert_int_equal(tally_comm_get_stats(seat.comm, &stats), TALLY_OK);
		snprintf(words, sizeof(words),
			 ": 1 ranks, aggregator rank 0 on %s (local mode), 1 shard, %u lanes, "
			 "window "
			 "%u of %u slots, run %u\n",
			 seat.comm->who.host, (unsigned)stats.lanes, (unsigned)stats.window,
			 (unsigned)stats.slots, (unsigned)stats.run);
		assert_int_equal(log_count(words), 1); /* another one says it at DEBUG */
		tally_comm_destroy(seat.comm);
	}
	assert_int_equal(log_count("tally 0.1.0"), 1);
}

static void end__is_a_warning_if_one_in_a_hundred_was_sent_again(void **state)
{
	static const struct {
		uint64_t out, again;
		const char *words;
		uint32_t latency_slots; /* there packets go again while another rank computes */
	} ends[] = {
		{ 9900, 100,
		  "left after 7 operations: 10000 packets out, 100 of them (1.00 %) sent again, "
		  "for "
		  "they had been lost: tally doctor says how many are\n",
		  0 },
		{ 9901, 100,
		  "left after 7 operations: 10001 packets out, 100 of them (1.00 %) sent again\n",
		  0 },
		{ 1, 99,
		  "left after 7 operations: 100 packets out, 99 of them (99.00 %) sent again\n",
		  0 },
		{ 0, 0, "left after 7 operations: 0 packets out, 0 of them (0.00 %) sent again\n",
		  0 },
		{ 5000, 5000,
		  "left after 7 operations: 10000 packets out, 5000 of them (50.00 %) sent again\n",
		  8 },
	};
	struct tally_comm *comm = calloc(1, sizeof(*comm));

	(void)state;
	assert_non_null(comm);
	is_counted = true;
	counted.operations = 7;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char level[4];

		counted.packets_out = ends[i].out;
		counted.packets_resent = ends[i].again;
		comm->latency_slots = ends[i].latency_slots;
		pthread_mutex_lock(&log_lock);
		log_text[0] = 0;
		pthread_mutex_unlock(&log_lock);
		comm_say_end(comm);
		assert_int_equal(log_count(ends[i].words), 1);
		snprintf(level, sizeof(level), "%d ", i ? TALLY_LOG_INFO : TALLY_LOG_WARN);
		assert_memory_equal(log_text, level, 2);
	}
	is_counted = false;
	free(comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begin__is_said_once_in_a_process),
		cmocka_unit_test(dump__says_what_is_on_its_way_and_who_is_missing),
		cmocka_unit_test(dump__says_what_is_there_and_not_worked_out),
		cmocka_unit_test(dump__says_that_it_is_broken_or_left),
		cmocka_unit_test(dump__lists_a_thousand_operations_at_most),
		cmocka_unit_test(dump__waits_for_no_reader),
		cmocka_unit_test(end__is_a_warning_if_one_in_a_hundred_was_sent_again),
	};

	alarm(LIMIT_S);
	assert_int_equal(tally_set_log(TALLY_LOG_INFO, hear, NULL), TALLY_OK);
	return cmocka_run_group_tests_name("lib-dump", tests, NULL, NULL);
}
