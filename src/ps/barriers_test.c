/* SPDX-License-Identifier: Apache-2.0 */
/* barriers_test.c - steps.c, verdict.c and awaited.c: what core/kv/server_kv.h asks for is done, and said in words:
 * R-KV-11, R-KV-15 to R-KV-17. Connections, tables and the clock are played. */
#include <errno.h>

#include "ps/lines_fixture.h"

enum { WORKERS = 3, MANY = 12, REFUSALS_MAX = 4, HELD_MAX = 8 };

static const uint64_t s_ns = 1000000000;

static struct {
	struct ps_server server;
	struct ps_table table;
	struct server_sparse sums;
	struct server_sparse_worker state[MANY + 1];
	struct server_kv_worker its[MANY + 1];
	struct ps_worker worker[MANY + 1];
	struct ps_conn conn[MANY + 1];
	int trouble;
	bool is_trouble_short; /* it is over when it was read */
	uint64_t staged;
	/* What was done. */
	uint32_t refusals, helds, passes, leaves, voids, joins;
	struct {
		const struct ps_conn *conn;
		enum kv_type about;
		uint64_t number;
		enum kv_refusal refusal;
		char text[KV_TEXT_BYTES];
	} refusal[REFUSALS_MAX];
	struct {
		const struct ps_conn *conn;
		struct kv_message what;
	} held[HELD_MAX];
} test;

#define PLAYED(type, name, ...)          \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

__attribute__((format(printf, 5, 6))) void __wrap_ps_serve_refuse(struct ps_server *server,
								  struct ps_conn *conn,
								  const struct kv_message *what,
								  enum kv_refusal refusal,
								  const char *format, ...);

void __wrap_ps_serve_refuse(struct ps_server *server, struct ps_conn *conn,
			    const struct kv_message *what, enum kv_refusal refusal,
			    const char *format, ...)
{
	va_list values;

	assert_ptr_equal(server, &test.server);
	assert_true(test.refusals < REFUSALS_MAX);
	test.refusal[test.refusals].conn = conn;
	test.refusal[test.refusals].about = what ? what->type : KV_NOTHING;
	test.refusal[test.refusals].number = what ? what->number : 0;
	test.refusal[test.refusals].refusal = refusal;
	va_start(values, format);
	vsnprintf(test.refusal[test.refusals++].text, KV_TEXT_BYTES, format, values);
	va_end(values);
}

PLAYED(const char *, ps_serve_name, struct ps_server *server, const struct ps_conn *other,
       char text[PS_NAMED_BYTES])
{
	assert_ptr_equal(server, &test.server);
	snprintf(text, PS_NAMED_BYTES, "worker %u", other->worker);
	return text;
}

PLAYED(void, ps_conn_hold, struct ps_conn *conn, const struct ps_table *table,
       const struct kv_message *message)
{
	assert_ptr_equal(table, &test.table);
	assert_true(test.helds < HELD_MAX);
	test.held[test.helds].conn = conn;
	test.held[test.helds++].what = *message;
}

PLAYED(const struct server_sparse *, home_sparse_server, const struct home_sparse *home)
{
	assert_ptr_equal(home, &test.table);
	return &test.sums;
}

PLAYED(void, ps_table_barrier, struct ps_table *table, uint64_t barrier)
{
	assert_int_equal(barrier, table->kv.barrier);
	test.passes++;
}

PLAYED(void, ps_table_leave, struct ps_table *table, uint16_t worker)
{
	assert_false(server_kv_is_member(&table->kv, worker));
	test.leaves++;
}

PLAYED(void, ps_table_void, struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	test.voids++;
}

PLAYED(bool, home_sparse_join, struct home_sparse *home, uint16_t worker, uint64_t incarnation)
{
	assert_ptr_equal(home, &test.table);
	test.state[worker].incarnation = incarnation;
	server_kv_replay(&test.table.kv, SERVER_KV_JOINED, worker);
	test.joins++;
	return true;
}

PLAYED(int, ps_table_trouble, const struct ps_table *table)
{
	int trouble = test.trouble;

	assert_ptr_equal(table, &test.table);
	if (test.is_trouble_short)
		test.trouble = 0;
	return trouble;
}

PLAYED(uint64_t, stage_count, const struct stage *stage)
{
	assert_ptr_equal(stage, &test);
	return test.staged;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

/* Of so many all have joined, and are here; barrier 4 was passed. */
static void begin(uint16_t workers)
{
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	heard.now_ns = 1000 * s_ns;
	test.server.options.heartbeat_ms = 1000;
	test.table.home = (struct home_sparse *)(void *)&test.table;
	test.table.shape.workers = workers;
	test.sums.memory.worker = test.state;
	test.sums.generation = 8;
	test.sums.expected = 10;
	test.sums.table = &test.table.shape;
	server_kv_init(&test.table.kv, &test.sums, test.its, false);
	test.table.kv.barrier = 4;
	test.table.kv.heartbeat_ns = s_ns;
	hosted()->table = &test.table;
	hosted()->worker = test.worker;
	strcpy(hosted()->options.table.name, "emb");
	for (uint16_t i = 0; i < workers; i++) {
		server_kv_replay(&test.table.kv, SERVER_KV_JOINED, i);
		test.state[i].incarnation = 5;
		test.worker[i].conn = &test.conn[i];
		test.its[i].link = i + 1u;
		test.its[i].barrier = 4;
		test.its[i].joined_ns = 1;
		test.conn[i].link = i + 1u;
		test.conn[i].worker = i;
		test.conn[i].incarnation = 5;
		test.conn[i].is_welcome = true;
		snprintf(test.conn[i].who, sizeof(test.conn[i].who), "W%u", i);
	}
}

static int setup(void **state)
{
	(void)state;
	begin(WORKERS);
	return 0;
}

static void come(uint16_t worker, uint64_t number)
{
	ps_steps_come(&test.server, hosted(), &test.conn[worker],
		      &(struct kv_message){ .type = KV_BARRIER, .number = number });
}

static void assert_held(uint32_t i, uint16_t worker, uint64_t number)
{
	assert_true(i < test.helds);
	assert_ptr_equal(test.held[i].conn, &test.conn[worker]);
	assert_int_equal(test.held[i].what.type, KV_BARRIER);
	assert_int_equal(test.held[i].what.number, number);
	assert_int_equal(test.held[i].what.generation, 8);
	assert_int_equal(test.held[i].what.epoch, 9);
}

static void assert_refused(uint32_t i, uint16_t worker, enum kv_refusal refusal, enum kv_type about,
			   const char *text)
{
	assert_true(i < test.refusals);
	assert_string_equal(test.refusal[i].text, text);
	assert_ptr_equal(test.refusal[i].conn, &test.conn[worker]);
	assert_int_equal(test.refusal[i].refusal, refusal);
	assert_int_equal(test.refusal[i].about, about);
}

/* ---- what is done ---- */

static void barrier__is_recorded_and_answered(void **state)
{
	(void)state;
	come(1, 5);
	come(0, 5);
	ps_steps_left(&test.server, hosted(), 2);
	assert_int_equal(test.leaves, 1);
	assert_int_equal(test.passes, 1);
	assert_int_equal(test.helds, 2);
	assert_held(0, 0, 5);
	assert_held(1, 1, 5);
	assert_int_equal(test.refusals, 0);
}

static void barrier__that_is_refused_says_why(void **state)
{
	(void)state;
	come(0, 5 + (1ull << 32));
	assert_refused(0, 0, KV_REFUSED_MESSAGE, KV_BARRIER,
		       "table emb: barrier 4294967301 is out of reach: the last that was passed is "
		       "4, and none is more than 2^32 above that");
	test.trouble = ENOSPC;
	come(0, 5);
	assert_refused(1, 0, KV_REFUSED_DISK, KV_BARRIER,
		       "table emb: the server cannot write its log: No space left on device");
	come(0, 4);
	assert_held(0, 0, 4);
}

static void left__alone_drops_what_no_step_will_have(void **state)
{
	(void)state;
	test.table.stage = (struct stage *)(void *)&test;
	for (uint16_t i = 0; i < WORKERS; i++)
		ps_steps_left(&test.server, hosted(), i);
	assert_int_equal(test.voids, 0); /* there is nothing */
	setup(NULL);
	test.table.stage = (struct stage *)(void *)&test;
	test.staged = 3;
	for (uint16_t i = 0; i < WORKERS; i++)
		ps_steps_left(&test.server, hosted(), i);
	assert_int_equal(test.voids, 1);
}

static struct server_kv_event open_of(uint16_t worker, uint64_t incarnation)
{
	test.conn[worker].incarnation = incarnation;
	return (struct server_kv_event){ .type = SERVER_KV_TO_OPEN,
					 .worker = worker,
					 .link = test.conn[worker].link,
					 .incarnation = incarnation,
					 .now_ns = heard.now_ns };
}

static void doubt__is_over_when_its_connection_was_heard(void **state)
{
	struct server_kv_event open = open_of(2, 6);

	(void)state;
	come(0, 5);
	come(1, 5);
	test.conn[1].is_gone = true;
	ps_steps_open(&test.server, hosted(), &test.conn[2], &open);
	assert_int_equal(test.joins, 1);
	assert_int_equal(test.its[1].barrier, 4);
	assert_int_equal(test.its[0].barrier, 5);
	come(2, 5);
	come(1, 5);
	test.conn[0].heard_ns = heard.now_ns + 1;
	test.conn[0].is_gone = true;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.passes, 0);
	test.conn[0].is_gone = false;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.passes, 1);
}

/* R-KV-16 */
static void join__in_place_of_another_ends_a_synchronous_run(void **state)
{
	struct server_kv_event open = open_of(2, 6);

	(void)state;
	test.table.kv.is_sync = true;
	test.its[0].link = 0;
	test.worker[0].conn = NULL;
	ps_steps_open(&test.server, hosted(), &test.conn[2], &open);
	assert_int_equal(test.voids, 1);
	assert_int_equal(test.joins, 1);
	assert_null(test.worker[1].conn);
	assert_ptr_equal(test.worker[2].conn, &test.conn[2]);
	assert_int_equal(test.refusals, 1);
	assert_refused(0, 1, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: worker 2 has begun anew: what all have pushed since step 4 is "
		       "dropped, and the run is over");
}

static void end__is_of_the_connection_that_has_it_open(void **state)
{
	(void)state;
	test.conn[1].link = 77;
	assert_false(ps_steps_gone(&test.server, hosted(), &test.conn[1]));
	test.conn[1].link = 2;
	test.conn[1].is_welcome = false; /* its rank is nobody's word yet */
	assert_false(ps_steps_gone(&test.server, hosted(), &test.conn[1]));
	assert_ptr_equal(test.worker[1].conn, &test.conn[1]);
	test.conn[1].is_welcome = true;
	assert_true(ps_steps_gone(&test.server, hosted(), &test.conn[1]));
	assert_null(test.worker[1].conn);
	assert_true(test.its[1].gone_ns == heard.now_ns);
}

/* R-KV-17: 2 s and four heartbeats. */
static void gone__for_too_long_is_told_to_those_that_wait(void **state)
{
	(void)state;
	ps_steps_begin(&test.server, hosted());
	assert_true(server_kv_grace_ns(&test.table.kv) == 6 * s_ns);
	assert_true(test.its[0].gone_ns == heard.now_ns);
	test.its[0].gone_ns = test.its[1].gone_ns = 0;
	test.its[0].mode = KV_SYNC;
	come(0, 5);
	test.its[2].link = 0;
	heard.now_ns += 6001 * (s_ns / 1000);
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 1);
	assert_refused(0, 0, KV_REFUSED_GONE, KV_BARRIER,
		       "table emb: worker 2 has gone, 6001 ms ago, and has not ended step 5");
	assert_int_equal(test.refusal[0].number, 5);
}

static void trouble__of_the_disk_ends_what_waits(void **state)
{
	(void)state;
	come(0, 5);
	come(1, 6);
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 0);
	test.trouble = ENOSPC;
	test.conn[1].is_ending = true;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 1);
	assert_refused(0, 0, KV_REFUSED_DISK, KV_BARRIER,
		       "table emb: the server cannot write its log: No space left on device");
	assert_int_equal(test.refusal[0].number, 5);
	assert_int_equal(test.its[0].barrier, 4); /* R-KV-14 */
	assert_int_equal(test.its[1].barrier, 6);
	assert_int_equal(test.its[1].link, 2); /* until its connection is closed */
}

/* What was refused for it is told of it, though it may be over by then. */
static void trouble__is_said_as_it_was_read(void **state)
{
	(void)state;
	test.is_trouble_short = true;
	test.trouble = EIO;
	come(0, 5);
	assert_refused(0, 0, KV_REFUSED_DISK, KV_BARRIER,
		       "table emb: the server cannot write its log: Input/output error");
	come(1, 5);
	test.trouble = EDQUOT;
	ps_steps_turn(&test.server, hosted());
	assert_refused(1, 1, KV_REFUSED_DISK, KV_BARRIER,
		       "table emb: the server cannot write its log: Disk quota exceeded");
}

/* ---- what is said of an OPEN ---- */

static void open__that_is_refused_says_why(void **state)
{
	struct kv_message open = { .type = KV_OPEN, .mode = KV_SYNC };

	(void)state;
	ps_verdict_say(&test.server, hosted(), &test.conn[0], &open, SERVER_KV_OTHER_MODE, 0);
	assert_refused(0, 0, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb is asynchronous, mode=async; W0 has opened it as a synchronous "
		       "one");
	test.table.options.is_sync = true;
	open.mode = KV_BOUNDED;
	ps_verdict_say(&test.server, hosted(), &test.conn[0], &open, SERVER_KV_OTHER_MODE, 0);
	assert_refused(1, 0, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb is synchronous, mode=sync; W0 has opened it as a bounded one");
	open.staleness = 3;
	ps_verdict_say(&test.server, hosted(), &test.conn[2], &open, SERVER_KV_DIFFERS, 0);
	assert_refused(2, 2, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb: W2 has opened it as bounded, staleness 3; worker 0, which is "
		       "here, as asynchronous, staleness 0");
	ps_verdict_say(&test.server, hosted(), &test.conn[0], &open, SERVER_KV_OVER, 0);
	assert_refused(3, 0, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: the run of W0 is over: it has left, or another worker has begun "
		       "anew");
	ps_verdict_say(&test.server, hosted(), &test.conn[0], &open, SERVER_KV_DRAIN, 0);
	assert_int_equal(test.refusals, 4);
}

static void open__in_place_of_another_is_told_of_the_bounds(void **state)
{
	const struct kv_message open = { .type = KV_OPEN };

	(void)state;
	ps_verdict_say(&test.server, hosted(), &test.conn[1], &open, SERVER_KV_SOON, 0);
	assert_refused(0, 1, KV_REFUSED_BUSY, KV_NOTHING,
		       "table emb: workers come in place of others too fast: one a second may, "
		       "after 65536 at once: come again");
	ps_verdict_say(&test.server, hosted(), &test.conn[1], &open, SERVER_KV_SPENT, 0);
	assert_int_equal(test.refusal[1].refusal, KV_REFUSED_UNSUPPORTED);
	assert_int_equal(test.refusal[1].about, KV_OPEN);
	assert_non_null(strstr(test.refusal[1].text, "nobody comes in place of worker 1 any more"));
}

/* ---- who is awaited ---- */

static void await(uint64_t seconds)
{
	heard.now_ns += seconds * s_ns;
	ps_awaited_turn(&test.server, hosted());
}

static void awaited__are_eight_by_name_and_the_rest_by_number(void **state)
{
	(void)state;
	begin(MANY);
	come(3, 5);
	for (uint16_t i = 4; i < MANY; i++)
		test.its[i].link = 0;
	await(0);
	await(9);
	assert_int_equal(heard.lines, 0);
	await(1);
	assert_line(0, PS_WARN, "emb",
		    "waiting in a barrier: workers 3; worker 3 for 10 s, for barrier 5; not here "
		    "since an earlier run: 4, 5, 6, 7, 8, 9, 10, 11; here, but not so far: 0, 1, "
		    "2: start those that are not here");
	for (uint16_t i = 0; i < 3; i++) {
		test.its[i].link = 0;
		test.state[i].incarnation = 0;
	}
	for (uint16_t i = 4; i < MANY; i++)
		test.state[i].incarnation = 0;
	await(9);
	assert_int_equal(heard.lines, 1);
	await(1);
	assert_line(1, PS_WARN, "emb",
		    "waiting in a barrier: workers 3; worker 3 for 20 s, for barrier 5; never "
		    "opened the table: 0, 1, 2, 4, 5, 6, 7, 8 and 3 more: start those that are not "
		    "here");
	test.its[5].link = 6;
	for (uint16_t i = 0; i < MANY; i++)
		test.its[i].gone_ns = i == 3 || i == 5 ? 0 : heard.now_ns - i * s_ns;
	await(10);
	assert_line(2, PS_WARN, "emb",
		    "waiting in a barrier: workers 3; worker 3 for 30 s, for barrier 5; gone: 0 "
		    "(for 10 s), 1 (for 11 s), 2 (for 12 s), 4 (for 14 s), 6 (for 16 s), 7 (for "
		    "17 s), 8 (for 18 s), 9 (for 19 s) and 2 more; here, but not so far: 5: start "
		    "those that are not here");
}

static void awaited__is_said_of_who_waits_the_longest(void **state)
{
	(void)state;
	await(100); /* nobody waits */
	come(2, 5);
	await(0);
	come(0, 6);
	await(4);
	test.its[0].waits_ns--; /* it was seen a moment earlier than the clock says */
	await(6);
	assert_line(0, PS_WARN, "emb",
		    "waiting in a barrier: workers 0, 2; worker 2 for 10 s, for barrier 5; here, "
		    "but not so far: 1");
	test.its[2].link = 0; /* who has gone does not wait */
	test.its[1].link = 0;
	test.its[1].gone_ns = heard.now_ns;
	await(10);
	assert_line(1, PS_WARN, "emb",
		    "waiting in a barrier: workers 0; worker 0 for 16 s, for barrier 6; not here "
		    "since an earlier run: 2; gone: 1 (for 10 s): start those that are not here");
	assert_int_equal(heard.lines, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(barrier__is_recorded_and_answered),
		T(barrier__that_is_refused_says_why),
		T(left__alone_drops_what_no_step_will_have),
		T(doubt__is_over_when_its_connection_was_heard),
		T(join__in_place_of_another_ends_a_synchronous_run),
		T(end__is_of_the_connection_that_has_it_open),
		T(gone__for_too_long_is_told_to_those_that_wait),
		T(trouble__of_the_disk_ends_what_waits),
		T(trouble__is_said_as_it_was_read),
		T(open__that_is_refused_says_why),
		T(open__in_place_of_another_is_told_of_the_bounds),
		T(awaited__are_eight_by_name_and_the_rest_by_number),
		T(awaited__is_said_of_who_waits_the_longest),
#undef T
	};

	return cmocka_run_group_tests_name("ps-barriers", tests, NULL, NULL);
}
