/* SPDX-License-Identifier: Apache-2.0 */
/* pairs_test.c - what a worker that has a table open says: batches, pulls, barriers, its end, and what is answered; see
 * serve_fixture.h. R-KV-3, R-KV-9 to R-KV-14, R-KV-16. */
#include "ps/serve_fixture.h"

static uint64_t key50[2] = { 50, 60 };

static struct kv_message batch_of(float *values)
{
	return (struct kv_message){
		.type = KV_BATCH, .number = 7, .dim = DIM, .count = 2, .key = key50, .value = values
	};
}

static void order__hello_comes_first_and_once(void **state)
{
	struct kv_message pull = { .type = KV_PULL, .number = 1 }, hello = { .type = KV_HELLO,
									     .version = KV_VERSION,
									     .workers = WORKERS,
									     .incarnation = 5,
									     .job = "J" };

	(void)state;
	say(&test.conn[0], &pull);
	assert_refused(&test.conn[0], KV_REFUSED_MESSAGE, KV_NOTHING,
		       "PULL from somebody, where HELLO comes first");
	say(opened(1), &hello);
	assert_refused(&test.conn[1], KV_REFUSED_MESSAGE, KV_NOTHING,
		       "HELLO from worker 1 (H, pid 77), where HELLO was said before");
}

static void order__what_only_servers_say_is_refused(void **state)
{
	struct kv_message done = { .type = KV_DONE, .number = 1, .generation = 1 };
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &(struct kv_message){ .type = KV_ALIVE });
	assert_int_equal(test.outs + heard.lines, 0);
	say(conn, &done);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_NOTHING,
		       "DONE from worker 1 (H, pid 77): only servers say that");
}

static void order__nonsense_ends_it(void **state)
{
	struct ps_conn *conn = opened(1);
	struct kv_message pull = { .type = KV_PULL, .number = 1 };

	(void)state;
	give(conn, &pull);
	conn->stream.in.bytes[KV_FRAME_BYTES] = 99; /* its type */
	ps_serve(&test.server, conn);
	assert_int_equal(last()->refusal, KV_REFUSED_MESSAGE);
	assert_non_null(strstr(last()->text, "worker 1 (H, pid 77): "));
	assert_true(strlen(last()->text) > strlen("worker 1 (H, pid 77): "));
	assert_int_equal(buffer_bytes(&conn->stream.in), 0);
	test.outs = 0;
	conn = opened(2);
	conn->stream.bytes_max = 4;
	say(conn, &pull);
	assert_refused(
		conn, KV_REFUSED_MESSAGE, KV_NOTHING,
		"worker 2 (H, pid 77): what it sends are no messages of tally, or one longer "
		"than 4 bytes");
}

/* Who is ending, gone, or does not read what it is told, is not listened to. */
static void order__of_some_nothing_is_taken(void **state)
{
	struct kv_message pull = { .type = KV_PULL, .number = 1 };
	struct ps_conn *conn = opened(1);
	size_t bytes;

	(void)state;
	give(conn, &pull);
	bytes = buffer_bytes(&conn->stream.in);
	conn->is_ending = true;
	ps_serve(&test.server, conn);
	conn->is_ending = false;
	conn->is_gone = true;
	ps_serve(&test.server, conn);
	conn->is_gone = false;
	conn->stream.out.end = PS_CONN_OUT_MAX + 1;
	ps_serve(&test.server, conn);
	assert_int_equal(buffer_bytes(&conn->stream.in), bytes);
	conn->stream.out.end = 0;
	ps_serve(&test.server, conn);
	assert_int_equal(buffer_bytes(&conn->stream.in), 0);
	assert_int_equal(test.outs, 1);
	conn->has_left = true;
	say(conn, &pull);
	assert_int_equal(buffer_bytes(&conn->stream.in), 0);
	assert_int_equal(test.outs, 1);
	give(conn, &pull);
	conn->stream.in.end--; /* the rest is on its way */
	conn->has_left = false;
	ps_serve(&test.server, conn);
	assert_int_equal(buffer_bytes(&conn->stream.in), bytes - 1);
	assert_int_equal(test.outs, 1);
}

static void table__that_is_not_open_is_named(void **state)
{
	struct kv_message pull = { .type = KV_PULL, .table = TABLES, .number = 3 };
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &pull);
	assert_int_equal(last()->number, 3);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_PULL,
		       "PULL of worker 1 (H, pid 77): it has no table 2 open");
	pull.table = 1;
	test.its[1][1].link = 1;
	say(conn, &pull);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_PULL,
		       "PULL of worker 1 (H, pid 77): it has no table 1 open");
	assert_calls("");
	say(conn, &(struct kv_message){ .type = KV_REPORT, .table = 1, .window = WINDOW });
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_NOTHING,
		       "REPORT of worker 1 (H, pid 77): it has no table 1 open");
	conn->is_ending = false;
	say(conn, &(struct kv_message){ .type = KV_REPORT, .window = WINDOW, .number = 44 });
	assert_calls("use report");
	assert_int_equal(test.taken.number, 44);
	for (uint32_t type = 0; type < 2; type++) {
		float values[4] = { 1, 2, 3, 4 };
		struct kv_message what = batch_of(values);

		if (type)
			what = (struct kv_message){ .type = KV_BARRIER, .number = 1 };
		what.table = 1;
		say(conn, &what);
		assert_refused(conn, KV_REFUSED_MESSAGE, what.type,
			       type ? "BARRIER of worker 1 (H, pid 77): it has no table 1 open"
				    : "BATCH of worker 1 (H, pid 77): it has no table 1 open");
	}
	assert_calls("");
}

/* ---- batches ---- */

static void batch__that_is_taken_is_answered_from_the_disk(void **state)
{
	float values[4] = { 1, 2, 3, 4 };
	struct kv_message batch = batch_of(values);
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &batch);
	assert_calls("use batch");
	assert_int_equal(test.taken.worker, 1);
	assert_int_equal(test.taken.incarnation, 5);
	assert_int_equal(test.taken.number, 7);
	assert_int_equal(test.taken.count, 2);
	assert_true(test.first_value == 1);
	assert_int_equal(test.outs, 1);
	assert_ptr_equal(test.out[0].table, &test.table[0]);
	assert_ptr_equal(test.out[0].to, conn);
	assert_int_equal(last()->type, KV_DONE);
	assert_int_equal(last()->table, 0);
	assert_int_equal(last()->number, 7);
	assert_int_equal(last()->generation, 8);
	assert_int_equal(last()->epoch, 3);
}

static void batch__that_is_not_taken_is_told_why(void **state)
{
	float values[4] = { 1, 2, 3, 4 };
	struct kv_message batch = batch_of(values);
	struct ps_conn *conn = opened(1);

	(void)state;
	hosted()->options.table.memory_max = 5000;
	test.batch = PS_BATCH_REFUSED;
	batch.number = 9;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_BATCH,
		       "table emb: batch 9 of worker 1 (H, pid 77); 7 is next");
	test.batch = PS_BATCH_FULL;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_MEMORY, KV_BATCH,
		       "table emb: no room for a batch of 2 keys of worker 1 (H, pid 77): 123 rows "
		       "take 4567 of at most 5000 bytes");
	test.batch = PS_BATCH_NO_MEMORY;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_MEMORY, KV_BATCH,
		       "table emb: out of memory for a batch of 2 keys of worker 1 (H, pid 77)");
	*test.calls = 0;
	test.trouble = ENOSPC;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_DISK, KV_BATCH,
		       "table emb: the server cannot write its log: No space left on device");
	batch.dim = 1;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_BATCH,
		       "table emb has dim 2; worker 1 (H, pid 77) has sent a batch of dim 1");
	assert_calls("use use");
}

/* R-KV-9: it was recorded when it came first. */
static void batch__said_again_on_a_full_disk_is_answered(void **state)
{
	float values[4] = { 1, 2, 3, 4 };
	struct kv_message batch = batch_of(values);
	struct ps_conn *conn = opened(1);

	(void)state;
	test.trouble = ENOSPC;
	batch.number = 6; /* 7 is next */
	say(conn, &batch);
	assert_calls("use batch");
	assert_int_equal(test.outs, 1);
	assert_int_equal(last()->type, KV_DONE);
	assert_int_equal(last()->number, 6);
	assert_true(test.out[0].is_held);
}

/* R-KV-16 */
static void batch__of_2_to_the_46_has_no_room_in_a_step(void **state)
{
	float values[4] = { 0, 0, 0, -0x1p46f };
	struct kv_message batch = batch_of(values);
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &batch);
	assert_int_equal(last()->type, KV_DONE); /* the table has no steps */
	test.outs = 0;
	test.table[0].options.is_sync = true;
	say(conn, &batch);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_BATCH,
		       "table emb: a value of worker 1 (H, pid 77) is 2^46 or more, which no step "
		       "has room for");
	values[3] = 0x1.fffffep45f;
	say(conn, &batch);
	assert_int_equal(last()->type, KV_DONE);
}

/* ---- pulls ---- */

static struct kv_message pull_of(uint64_t generation, uint64_t epoch)
{
	return (struct kv_message){ .type = KV_PULL,
				    .number = 21,
				    .generation = generation,
				    .epoch = epoch,
				    .count = 2,
				    .key = key50 };
}

static void assert_pulled(const struct ps_conn *conn)
{
	assert_int_equal(test.outs, 1);
	assert_ptr_equal(test.out[0].to, conn);
	assert_ptr_equal(test.out[0].table, &test.table[0]);
	assert_int_equal(last()->type, KV_PULLED);
	assert_int_equal(last()->number, 21);
	assert_int_equal(last()->generation, test.sums[0].generation);
	assert_int_equal(last()->epoch, test.sums[0].expected - 1);
	assert_int_equal(last()->dim, DIM);
	assert_int_equal(last()->count, 2);
	assert_true(test.out[0].value[0] == 50 && test.out[0].value[1] == -50);
	assert_true(test.out[0].value[2] == 60 && test.out[0].value[3] == -60);
	test.outs = 0;
}

/* Epoch 4 is expected: 3 is in. */
static void pull__of_what_is_in_is_answered_at_once(void **state)
{
	static const uint64_t fresh[][2] = { { 7, 99 }, { 8, 3 }, { 0, 0 } };
	static const uint64_t not_yet[][2] = { { 8, 4 }, { 9, 0 } };
	struct ps_conn *conn = opened(1);
	struct kv_message pull;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		pull = pull_of(fresh[i][0], fresh[i][1]);
		say(conn, &pull);
		assert_pulled(conn);
	}
	for (uint32_t i = 0; i < 2; i++) {
		pull = pull_of(not_yet[i][0], not_yet[i][1]);
		say(conn, &pull);
		assert_int_equal(test.outs, 0);
		assert_int_equal(conn->pull_count, 1 + i);
	}
	hosted()->recorded = test.sums[0].recorded = 5;
	test.sums[0].expected = 5;
	ps_serve_waiting(&test.server, hosted());
	assert_int_equal(test.outs, 0); /* it has seen this record already */
	test.sums[0].recorded = 6;
	hosted()->number = 1; /* it is the other table's pull */
	ps_serve_waiting(&test.server, hosted());
	assert_int_equal(test.outs, 0);
	hosted()->number = 0;
	test.sums[0].recorded = 7;
	ps_serve_waiting(&test.server, hosted());
	assert_pulled(conn);
	assert_int_equal(conn->pull_count, 1);
	assert_int_equal(conn->pull[0].generation, 9);
	test.sums[0].generation = 9;
	test.sums[0].expected = 1;
	test.sums[0].recorded = 8;
	test.worker[0][0].conn = NULL;
	ps_serve_waiting(&test.server, hosted());
	assert_pulled(conn);
	assert_int_equal(conn->pull_count, 0);
}

static void pull__of_nothing_is_answered(void **state)
{
	struct kv_message pull = { .type = KV_PULL, .generation = 9, .number = 5 };
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &pull);
	assert_int_equal(conn->pull_count, 1);
	test.sums[0].generation = 10;
	test.sums[0].recorded = 1;
	ps_serve_waiting(&test.server, hosted());
	assert_int_equal(last()->count, 0);
	assert_int_equal(last()->number, 5);
}

static void pull__has_bounds_of_keys_and_of_how_many_wait(void **state)
{
	static uint64_t keys[KV_KEYS_MAX];
	struct kv_message pull = pull_of(9, 0);
	struct ps_conn *conn = opened(1);

	(void)state;
	for (uint32_t i = 0; i < KV_KEYS_MAX; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < PS_CONN_PULLS; i++)
		say(conn, &pull);
	assert_int_equal(test.outs, 0);
	assert_int_equal(conn->pull_count, 64);
	say(conn, &pull);
	assert_int_equal(last()->number, 21);
	assert_refused(conn, KV_REFUSED_MEMORY, KV_PULL,
		       "64 pulls of worker 1 (H, pid 77) wait already");
	assert_int_equal(conn->pull_count, 64);
	for (uint32_t i = 0; i < 64; i++)
		free(conn->pull[i].key);
	conn->pull_count = 0;
	test.table[0].shape.dim = 16; /* 131,072 values */
	pull = (struct kv_message){ .type = KV_PULL, .number = 1, .count = 8193, .key = keys };
	say(conn, &pull);
	assert_refused(conn, KV_REFUSED_MESSAGE, KV_PULL,
		       "table emb: worker 1 (H, pid 77) asks for 8193 keys at once; 8192 of dim 16 "
		       "fit into an answer");
	pull.count = 8192;
	say(conn, &pull);
	assert_int_equal(last()->type, KV_PULLED);
}

/* ---- barriers, and the end ---- */

static void barrier__is_come_to(void **state)
{
	struct kv_message barrier = { .type = KV_BARRIER, .number = 6 };

	(void)state;
	say(opened(1), &barrier);
	assert_calls("use come");
	assert_int_equal(test.taken.number, 6);
}

static void leave__waits_for_the_disks_of_its_tables(void **state)
{
	struct kv_message leave = { .type = KV_LEAVE };
	struct ps_conn *conn = opened(1);

	(void)state;
	say(conn, &leave);
	assert_calls("use steps-left wait-emb use-wide steps-left wait-wide");
	assert_int_equal(test.outs, 1);
	assert_int_equal(last()->type, KV_LEAVE);
	assert_ptr_equal(test.out[0].table, &test.table[1]);
	assert_true(conn->has_left);
	conn = opened(2);
	test.its[0][2].link = 1;
	say(conn, &leave);
	assert_calls("use-wide steps-left wait-wide");
	conn = member(0); /* it has none open */
	say(conn, &leave);
	assert_calls("");
	assert_int_equal(last()->type, KV_LEAVE);
	assert_false(test.out[2].is_held);
	assert_true(conn->has_left);
}

static void gone__is_known_of_each_table(void **state)
{
	struct ps_conn *conn = opened(1), *other = opened(2);

	(void)state;
	test.its[0][1].joined = 1;
	test.its[0][1].is_waiting = true;
	test.worker[1][1].conn = other;
	test.its[1][1].link = other->link;
	ps_serve_gone(&test.server, conn);
	assert_null(test.worker[0][1].conn);
	assert_ptr_equal(test.worker[1][1].conn, other);
	assert_false(test.its[0][1].is_waiting);
	assert_true(test.its[0][1].gone_ns == heard.now_ns);
	assert_line(0, PS_INFO, "emb", "worker 1 (H, pid 77) has gone, and may come back");
	other->has_left = true;
	for (uint32_t t = 0; t < 2; t++) {
		test.its[t][2].joined = 1;
		test.its[t][2].left = 2;
	}
	ps_serve_gone(&test.server, other);
	assert_true(test.its[0][2].gone_ns == 0 && test.its[1][2].gone_ns == 0);
	assert_line(1, PS_INFO, "emb", "worker 2 (H, pid 77) has left");
	assert_line(2, PS_INFO, "wide", "worker 2 (H, pid 77) has left");
	conn = opened(0);
	conn->is_welcome = false; /* its rank is nobody's word yet */
	ps_serve_gone(&test.server, conn);
	assert_ptr_equal(test.worker[0][0].conn, conn);
	assert_int_equal(heard.lines, 3);
}

static void deleted__log_ends_all_that_are_there(void **state)
{
	struct ps_conn *conn = opened(0);

	(void)state;
	opened(1);
	opened(2);
	test.worker[0][1].conn = NULL;
	test.trouble = ENOSPC;
	ps_serve_deleted(&test.server, hosted());
	assert_int_equal(test.outs, 0);
	test.trouble = ENOENT;
	test.conn[2].is_ending = true;
	ps_serve_deleted(&test.server, hosted());
	assert_refused(conn, KV_REFUSED_DISK, KV_NOTHING,
		       "table emb: the server cannot write its log: its file was deleted: nothing "
		       "is acknowledged any more");
	conn->is_ending = test.conn[2].is_ending = false;
	ps_serve_deleted(&test.server, hosted());
	assert_int_equal(test.outs, 2);
	assert_ptr_equal(test.out[1].to, &test.conn[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(order__hello_comes_first_and_once),
		T(order__what_only_servers_say_is_refused),
		T(order__nonsense_ends_it),
		T(order__of_some_nothing_is_taken),
		T(table__that_is_not_open_is_named),
		T(batch__that_is_taken_is_answered_from_the_disk),
		T(batch__that_is_not_taken_is_told_why),
		T(batch__said_again_on_a_full_disk_is_answered),
		T(batch__of_2_to_the_46_has_no_room_in_a_step),
		T(pull__of_what_is_in_is_answered_at_once),
		T(pull__of_nothing_is_answered),
		T(pull__has_bounds_of_keys_and_of_how_many_wait),
		T(barrier__is_come_to),
		T(leave__waits_for_the_disks_of_its_tables),
		T(gone__is_known_of_each_table),
		T(deleted__log_ends_all_that_are_there),
#undef T
	};

	return cmocka_run_group_tests_name("ps-pairs", tests, NULL, NULL);
}
