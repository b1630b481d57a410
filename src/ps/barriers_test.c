/* SPDX-License-Identifier: Apache-2.0 */
/* barriers_test.c - steps.c and awaited.c: who takes part, who waits for whom, what is passed and answered, and what is
 * said of those who do not come: R-KV-11, R-KV-15 to R-KV-17. Connections, tables and the clock are played. */
#include <errno.h>

#include "ps/lines_fixture.h"

enum { WORKERS = 3, MANY = 12, REFUSALS_MAX = 4, HELD_MAX = 8 };

static const uint64_t s_ns = 1000000000;

static struct {
	struct ps_server server;
	struct ps_table table;
	struct server_sparse sums;
	struct server_sparse_worker state[MANY + 1];
	struct ps_member member[MANY + 1];
	struct ps_worker worker[MANY + 1];
	struct ps_conn conn[MANY + 1];
	int trouble;
	uint64_t staged;
	/* What was done. */
	uint32_t refusals, helds, passes, voids;
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

PLAYED(void, ps_serve_trouble, struct ps_server *server, const struct ps_hosted *hosted,
       struct ps_conn *conn, const struct kv_message *said, int trouble)
{
	assert_non_null(hosted);
	__wrap_ps_serve_refuse(server, conn, said, KV_REFUSED_DISK, "trouble %d", trouble);
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
	assert_true(barrier > table->barrier);
	table->barrier = barrier;
	test.passes++;
}

PLAYED(void, ps_table_leave, struct ps_table *table, uint16_t worker)
{
	table->member[worker].left = ++table->moves;
}

PLAYED(void, ps_table_void, struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	test.voids++;
}

PLAYED(int, ps_table_trouble, const struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	return test.trouble;
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
	test.table.member = test.member;
	test.table.shape.workers = workers;
	test.table.barrier = 4;
	test.table.moves = workers;
	test.sums.memory.worker = test.state;
	test.sums.generation = 8;
	test.sums.expected = 10;
	hosted()->table = &test.table;
	hosted()->worker = test.worker;
	strcpy(hosted()->options.table.name, "emb");
	for (uint16_t i = 0; i < workers; i++) {
		test.member[i].joined = i + 1u;
		test.state[i].incarnation = 5;
		test.worker[i].conn = &test.conn[i];
		test.worker[i].barrier = 4;
		test.worker[i].joined_ns = 1;
		test.conn[i].worker = i;
		test.conn[i].incarnation = 5;
		snprintf(test.conn[i].who, sizeof(test.conn[i].who), "W%u", i);
	}
	/* Behind them is none: whoever looks there finds one that all would wait for. */
	test.member[workers].joined = 1;
	test.worker[workers] = (struct ps_worker){ .conn = &test.conn[workers],
						   .is_waiting = true,
						   .staleness = 77,
						   .waits_ns = 1,
						   .mode = KV_BOUNDED };
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

/* ---- who may take part ---- */

static bool opens(uint16_t worker, enum kv_mode mode, uint32_t staleness)
{
	return !ps_steps_refuse(
		&test.server, hosted(), &test.conn[worker],
		&(struct kv_message){
			.type = KV_OPEN, .name = "emb", .mode = mode, .staleness = staleness });
}

static void mode__is_the_tables(void **state)
{
	(void)state;
	assert_false(opens(0, KV_SYNC, 0));
	assert_refused(0, 0, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb is asynchronous, mode=async; W0 has opened it as a synchronous "
		       "one");
	test.table.options.is_sync = true;
	assert_false(opens(0, KV_BOUNDED, 1));
	assert_refused(1, 0, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb is synchronous, mode=sync; W0 has opened it as a bounded one");
	assert_false(opens(0, KV_ASYNC, 0));
	assert_refused(2, 0, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb is synchronous, mode=sync; W0 has opened it as an asynchronous "
		       "one");
	for (uint16_t i = 0; i < WORKERS; i++)
		test.worker[i].mode = KV_SYNC;
	assert_true(opens(0, KV_SYNC, 0));
}

static void mode__is_that_of_the_others(void **state)
{
	(void)state;
	for (uint16_t i = 0; i < WORKERS; i++)
		test.worker[i].mode = i < 2 ? KV_ASYNC : KV_BOUNDED;
	test.worker[2].staleness = 3;
	test.worker[1].conn = NULL;
	assert_true(opens(2, KV_ASYNC, 0) == true);
	assert_int_equal(test.worker[2].mode, KV_ASYNC);
	assert_int_equal(test.worker[2].staleness, 0);
	assert_false(opens(2, KV_BOUNDED, 3));
	assert_refused(0, 2, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb: W2 has opened it as bounded, staleness 3; worker 0, which is "
		       "here, as asynchronous, staleness 0");
	assert_int_equal(test.worker[2].mode, KV_ASYNC);
	test.worker[0].mode = KV_BOUNDED;
	test.worker[0].staleness = 2;
	assert_false(opens(2, KV_BOUNDED, 3));
	test.worker[0].staleness = 3;
	assert_true(opens(2, KV_BOUNDED, 3));
	assert_int_equal(test.worker[2].mode, KV_BOUNDED);
	assert_int_equal(test.worker[2].staleness, 3);
}

static void run__that_is_over_goes_not_on(void **state)
{
	(void)state;
	test.table.options.is_sync = true;
	for (uint16_t i = 0; i < WORKERS; i++)
		test.worker[i].mode = KV_SYNC;
	assert_true(opens(0, KV_SYNC, 0));
	test.member[0].left = 99;
	assert_false(opens(0, KV_SYNC, 0));
	assert_refused(0, 0, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: the run of W0 is over: it has left, or another worker has begun "
		       "anew");
	test.conn[0].incarnation = 6;
	assert_true(opens(0, KV_SYNC, 0));
}

/* ---- barriers ---- */

static void barrier__is_passed_when_all_have_come(void **state)
{
	(void)state;
	come(1, 5);
	come(0, 6);
	assert_true(test.worker[1].is_waiting);
	assert_int_equal(test.passes, 0);
	assert_int_equal(test.helds, 0);
	test.worker[1].waits_ns = 7;
	come(2, 5);
	assert_int_equal(test.table.barrier, 5);
	assert_int_equal(test.passes, 1);
	assert_int_equal(test.helds, 2); /* worker 0 waits for 6 */
	assert_held(0, 1, 5);
	assert_held(1, 2, 5);
	assert_false(test.worker[1].is_waiting || test.worker[2].is_waiting);
	assert_true(test.worker[0].is_waiting);
	assert_int_equal(test.worker[1].answered, 5);
	assert_true(test.worker[1].waits_ns == 0);
	come(2, 5); /* said again: it is answered at once */
	assert_held(2, 2, 5);
	come(2, 3); /* and an older one */
	assert_held(3, 2, 3);
	assert_int_equal(test.passes, 1);
}

static void barrier__out_of_reach_is_refused(void **state)
{
	(void)state;
	come(0, 4 + (1ull << 32));
	assert_int_equal(test.refusals, 0);
	assert_true(test.worker[0].barrier == 4 + (1ull << 32));
	test.worker[0].barrier = 4;
	test.worker[0].is_waiting = false;
	come(0, 5 + (1ull << 32));
	assert_refused(0, 0, KV_REFUSED_MESSAGE, KV_BARRIER,
		       "table emb: barrier 4294967301 is out of reach: the last that was passed is "
		       "4, and none is more than 2^32 above that");
	assert_int_equal(test.worker[0].barrier, 4);
	assert_false(test.worker[0].is_waiting);
}

/* R-KV-15: all that are passed are answered, one at a time, while it waits for more. */
static void barrier__of_a_bounded_worker_is_answered_as_it_is_passed(void **state)
{
	(void)state;
	test.worker[0].mode = KV_BOUNDED;
	come(0, 7);
	assert_held(0, 0, 4); /* the last that was passed */
	test.worker[0].waits_ns = 9;
	test.worker[1].barrier = test.worker[2].barrier = 5;
	come(1, 5);
	assert_int_equal(test.helds, 3);
	assert_held(1, 0, 5);
	assert_true(test.worker[0].is_waiting);
	assert_true(test.worker[0].waits_ns == 0); /* for the next one: since now */
	come(1, 5);
	assert_int_equal(test.helds, 4); /* it is told once */
	assert_held(3, 1, 5);
	come(2, 6);
	test.worker[2].waits_ns = 11;
	come(2, 7); /* it has waited since before */
	assert_true(test.worker[2].waits_ns == 11);
	test.worker[2].is_waiting = false;
	come(2, 7);
	assert_true(test.worker[2].waits_ns == 0);
	assert_int_equal(test.helds, 4);
}

static void barrier__who_has_left_is_not_waited_for(void **state)
{
	(void)state;
	come(0, 5);
	come(1, 5);
	assert_true(ps_steps_awaits(hosted(), 0, 2));
	assert_false(ps_steps_awaits(hosted(), 0, 1));
	ps_steps_left(hosted(), 2);
	assert_false(ps_steps_awaits(hosted(), 0, 2));
	assert_int_equal(test.table.barrier, 5);
	assert_int_equal(test.helds, 2);
	assert_int_equal(test.member[2].left, 4);
	ps_steps_left(hosted(), 2); /* said again */
	assert_int_equal(test.member[2].left, 4);
	test.worker[0].conn = NULL; /* nobody hears an answer */
	come(0, 5);
	assert_int_equal(test.helds, 2);
}

static void left__alone_drops_what_no_step_will_have(void **state)
{
	(void)state;
	test.table.stage = (struct stage *)(void *)&test;
	test.staged = 3;
	ps_steps_left(hosted(), 0);
	ps_steps_left(hosted(), 1);
	assert_int_equal(test.voids, 0);
	ps_steps_left(hosted(), 2);
	assert_int_equal(test.voids, 1);
	setup(NULL);
	test.table.stage = (struct stage *)(void *)&test; /* it has nothing */
	for (uint16_t i = 0; i < WORKERS; i++)
		ps_steps_left(hosted(), i);
	assert_int_equal(test.voids, 0);
}

/* ---- who joins, who has gone ---- */

/* R-KV-11: a barrier that a dead run's worker has come to must not let the next run through. */
static void join__in_place_of_another_puts_others_in_doubt(void **state)
{
	(void)state;
	come(0, 5);
	come(1, 5);
	test.worker[1].conn = NULL;
	test.worker[2].barrier = 9;
	test.worker[2].doubt_ns = 3; /* its own, which it has not any more */
	test.worker[2].answered = 2;
	ps_steps_join(&test.server, hosted(), &test.conn[2]);
	assert_true(test.worker[2].barrier == 0 && test.worker[2].answered == 0);
	assert_true(test.worker[2].doubt_ns == 0);
	assert_true(test.worker[2].joined_ns == heard.now_ns);
	assert_true(test.worker[0].doubt_ns == heard.now_ns);
	assert_int_equal(test.worker[0].barrier, 5);
	assert_int_equal(test.worker[1].barrier, 4); /* it is not here: it comes again */
	assert_int_equal(test.voids, 0);
	come(2, 5);
	come(1, 5);
	assert_int_equal(test.passes, 0); /* the first one's does not count */
	assert_true(ps_steps_awaits(hosted(), 2, 0));
	test.conn[0].heard_ns = heard.now_ns;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.passes, 0);
	test.conn[0].is_gone = true;
	test.conn[0].heard_ns++;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.passes, 0);
	test.conn[0].is_gone = false; /* it was heard since */
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.passes, 1);
	assert_true(test.worker[0].doubt_ns == 0);
	assert_int_equal(test.helds, 2);
	assert_held(0, 0, 5);
	assert_held(1, 2, 5);
}

static void join__of_who_had_left_puts_nobody_in_doubt(void **state)
{
	(void)state;
	come(0, 5);
	test.worker[1].barrier = 5;
	test.conn[1].is_gone = true;
	ps_steps_left(hosted(), 2);
	test.worker[0].barrier = 6;
	ps_steps_join(&test.server, hosted(), &test.conn[2]);
	assert_true(test.worker[0].doubt_ns == 0 && test.worker[1].doubt_ns == 0);
	assert_int_equal(test.worker[0].barrier, 6);
}

static void gone__in_doubt_is_forgotten(void **state)
{
	(void)state;
	test.worker[0].barrier = test.worker[1].barrier = 6;
	test.worker[1].doubt_ns = 3;
	ps_steps_gone(hosted(), 0);
	ps_steps_gone(hosted(), 1);
	assert_int_equal(test.worker[0].barrier, 6);
	assert_int_equal(test.worker[1].barrier, 4);
	assert_true(test.worker[1].doubt_ns == 0);
}

/* R-KV-16 */
static void join__in_place_of_another_ends_a_synchronous_run(void **state)
{
	(void)state;
	test.table.options.is_sync = true;
	test.worker[1].is_waiting = true;
	test.worker[0].barrier = 5;
	test.worker[0].gone_ns = test.worker[0].doubt_ns = 3;
	test.worker[0].conn = NULL;
	ps_steps_join(&test.server, hosted(), &test.conn[2]);
	assert_int_equal(test.voids, 1);
	assert_true(test.worker[0].barrier == 0 && test.worker[1].barrier == 0);
	assert_true(test.worker[0].gone_ns == 0 && test.worker[0].doubt_ns == 0);
	assert_null(test.worker[1].conn);
	assert_false(test.worker[1].is_waiting);
	assert_ptr_equal(test.worker[2].conn, &test.conn[2]);
	assert_int_equal(test.refusals, 1);
	assert_refused(0, 1, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: worker 2 has begun anew: what all have pushed since step 4 is "
		       "dropped, and the run is over");
	test.member[2].left = 50; /* it had left: nobody's step has anything of it */
	ps_steps_join(&test.server, hosted(), &test.conn[2]);
	assert_int_equal(test.voids, 1);
}

static void begin__expects_who_had_not_left(void **state)
{
	(void)state;
	test.member[1].left = 9;
	ps_steps_begin(&test.server, hosted());
	assert_true(test.worker[0].gone_ns == heard.now_ns);
	assert_true(test.worker[1].gone_ns == 0);
	assert_true(test.worker[2].gone_ns == heard.now_ns);
	assert_true(test.worker[WORKERS].gone_ns == 0);
}

/* R-KV-17: 2 s and four heartbeats. */
static void gone__for_too_long_is_told_to_those_that_wait(void **state)
{
	(void)state;
	assert_true(ps_steps_grace_ns(&test.server) == 6 * s_ns);
	test.worker[0].mode = test.worker[1].mode = KV_BOUNDED;
	come(0, 5);
	come(1, 5);
	test.refusals = test.helds = 0;
	test.worker[1].conn = NULL;
	test.worker[2].conn = NULL;
	test.worker[2].gone_ns = heard.now_ns - 6 * s_ns;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 0);
	heard.now_ns += 1000000;
	test.worker[0].joined_ns = test.worker[2].gone_ns; /* it has begun after that */
	ps_steps_turn(&test.server, hosted());
	test.worker[0].joined_ns--;
	test.worker[2].barrier = 5; /* it has ended that step before */
	ps_steps_turn(&test.server, hosted());
	test.worker[2].barrier = 4;
	test.worker[0].mode = KV_ASYNC;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 0);
	test.worker[0].mode = KV_SYNC;
	ps_steps_turn(&test.server, hosted());
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 1);
	assert_refused(0, 0, KV_REFUSED_GONE, KV_BARRIER,
		       "table emb: worker 2 has gone, 6001 ms ago, and has not ended step 5");
	assert_int_equal(test.refusal[0].number, 5);
	assert_false(test.worker[0].is_waiting);
	test.worker[0].is_waiting = true;
	test.member[2].left = 50;
	ps_steps_turn(&test.server, hosted());
	assert_int_equal(test.refusals, 1);
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
	assert_refused(0, 0, KV_REFUSED_DISK, KV_BARRIER, "trouble 28");
	assert_int_equal(test.refusal[0].number, 5);
	assert_false(test.worker[0].is_waiting);
	assert_int_equal(test.worker[0].barrier, 4); /* R-KV-14: as if it had not been said */
	assert_int_equal(test.worker[1].barrier, 6);
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
		test.worker[i].conn = NULL;
	await(0);
	await(9);
	assert_int_equal(heard.lines, 0);
	await(1);
	assert_line(0, PS_WARN, "emb",
		    "waiting in a barrier: workers 3; worker 3 for 10 s, for barrier 5; not here "
		    "since an earlier run: 4, 5, 6, 7, 8, 9, 10, 11; here, but not so far: 0, 1, "
		    "2: start those that are not here");
	for (uint16_t i = 0; i < 3; i++) {
		test.worker[i].conn = NULL;
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
	test.worker[5].conn = &test.conn[5];
	for (uint16_t i = 0; i < MANY; i++)
		test.worker[i].gone_ns = i == 3 || i == 5 ? 0 : heard.now_ns - i * s_ns;
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
	test.worker[0].waits_ns--; /* it was seen a moment earlier than the clock says */
	await(6);
	assert_line(0, PS_WARN, "emb",
		    "waiting in a barrier: workers 0, 2; worker 2 for 10 s, for barrier 5; here, "
		    "but not so far: 1");
	test.worker[2].conn = NULL; /* who has gone does not wait */
	test.worker[1].conn = NULL;
	test.worker[1].gone_ns = heard.now_ns;
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
		T(mode__is_the_tables),
		T(mode__is_that_of_the_others),
		T(run__that_is_over_goes_not_on),
		T(barrier__is_passed_when_all_have_come),
		T(barrier__out_of_reach_is_refused),
		T(barrier__of_a_bounded_worker_is_answered_as_it_is_passed),
		T(barrier__who_has_left_is_not_waited_for),
		T(left__alone_drops_what_no_step_will_have),
		T(join__in_place_of_another_puts_others_in_doubt),
		T(join__of_who_had_left_puts_nobody_in_doubt),
		T(gone__in_doubt_is_forgotten),
		T(join__in_place_of_another_ends_a_synchronous_run),
		T(begin__expects_who_had_not_left),
		T(gone__for_too_long_is_told_to_those_that_wait),
		T(trouble__of_the_disk_ends_what_waits),
		T(awaited__are_eight_by_name_and_the_rest_by_number),
		T(awaited__is_said_of_who_waits_the_longest),
#undef T
	};

	return cmocka_run_group_tests_name("ps-barriers", tests, NULL, NULL);
}
