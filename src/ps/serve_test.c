/* SPDX-License-Identifier: Apache-2.0 */
/* serve_test.c - what workers say, and what they are answered, field by field and word for word: R-KV-5 to R-KV-14. */
#include "ps/serve_fixture.h"

/* ---- HELLO ---- */

static struct kv_message hello_of(void)
{
	return (struct kv_message){ .type = KV_HELLO,
				    .version = KV_VERSION,
				    .worker = 1,
				    .workers = WORKERS,
				    .pid = 77,
				    .incarnation = 5,
				    .job = "J",
				    .secret = "secret",
				    .host = "H" };
}

static void hello__makes_a_member(void **state)
{
	struct kv_message hello = hello_of();
	struct ps_conn *conn = &test.conn[0];

	(void)state;
	conn->stream.bytes_max = 99;
	say(conn, &hello);
	assert_int_equal(test.outs, 1);
	assert_int_equal(last()->type, KV_WELCOME);
	assert_int_equal(last()->version, KV_VERSION);
	assert_int_equal(last()->port, 7272);
	assert_int_equal(last()->heartbeat_ms, 500);
	assert_false(test.out[0].is_held);
	assert_true(conn->is_welcome);
	assert_int_equal(conn->worker, 1);
	assert_int_equal(conn->incarnation, 5);
	assert_string_equal(conn->job, "J");
	assert_string_equal(conn->who, "worker 1 (H, pid 77)");
	assert_int_equal(conn->stream.bytes_max, KV_BYTES_MAX);
	assert_int_equal(buffer_bytes(&conn->stream.in), 0);
	assert_false(conn->is_ending);
	conn = &test.conn[1];
	conn->stream.bytes_max = 200;
	test.is_stranger = true; /* without a key it has to open a table first */
	test.server.options.key = "";
	test.has_no_place = true;
	*hello.secret = 0;
	say(conn, &hello);
	assert_int_equal(last()->type, KV_WELCOME);
	assert_int_equal(conn->stream.bytes_max, 200);
}

static void hello__of_another_key_is_denied(void **state)
{
	static const char *const keys[] = { "", "secre", "secrets", "Secret", "secreT", "secsec" };
	struct kv_message hello = hello_of();

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		test.conn[0].is_ending = false;
		snprintf(hello.secret, sizeof(hello.secret), "%s", keys[i]);
		say(&test.conn[0], &hello);
		assert_refused(&test.conn[0], KV_REFUSED_DENIED, KV_NOTHING,
			       "worker 1 (H, pid 77) has another key than this server");
		assert_line(i, PS_WARN, NULL,
			    "worker 1 (H, pid 77) is refused: worker 1 (H, pid 77) has another key "
			    "than this server");
		assert_false(test.conn[0].is_welcome);
	}
}

static void hello__of_another_job_is_refused(void **state)
{
	struct kv_message hello = hello_of();
	struct ps_conn *conn = &test.conn[0];

	(void)state;
	strcpy(hello.job, "K");
	say(conn, &hello);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "worker 1 (H, pid 77) is of job K with 3 workers; this server is for job J "
		       "with 3");
	strcpy(hello.job, "J");
	hello.workers = 2;
	conn->is_ending = false;
	say(conn, &hello);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "worker 1 (H, pid 77) is of job J with 2 workers; this server is for job J "
		       "with 3");
	test.server.options.key = "";
	*hello.secret = 0;
	conn->is_ending = false;
	say(conn,
	    &hello); /* whoever is of the job may know its name; it is logged as a stranger's */
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "worker 1 (H, pid 77) is of job J with 2 workers; this server is for job J "
		       "with 3");
	assert_int_equal(heard.level[2], PS_DEBUG);
	strcpy(hello.job, "K");
	conn->is_ending = false;
	say(conn, &hello);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "worker 1 (H, pid 77) is of job K with 2 workers; this server is for "
		       "another job with 3");
	test.server.options.job = "";
	conn->is_ending = false;
	say(conn, &hello);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "worker 1 (H, pid 77) is of job K with 2 workers; this server is for job "
		       "(any) with 3");
	hello.workers = 3;
	conn->is_ending = false;
	say(conn, &hello);
	assert_int_equal(last()->type, KV_WELCOME);
}

static void hello__needs_a_place_and_a_version(void **state)
{
	struct kv_message hello = hello_of();

	(void)state;
	test.has_no_place = true;
	test.server.conn_count = 12;
	say(&test.conn[0], &hello);
	assert_refused(&test.conn[0], KV_REFUSED_BUSY, KV_NOTHING,
		       "no room for one more connection of a worker: 12 are open");
	test.has_no_place = false;
	hello.version = KV_VERSION - 1;
	say(&test.conn[1], &hello);
	assert_refused(&test.conn[1], KV_REFUSED_VERSION, KV_NOTHING,
		       "worker 1 (H, pid 77) speaks version 3; this server speaks 4: bring both to "
		       "one release");
	hello.version = KV_VERSION + 1; /* it says itself which ones it knows */
	say(&test.conn[2], &hello);
	assert_int_equal(last()->type, KV_WELCOME);
	assert_int_equal(last()->version, KV_VERSION);
}

static void refusal__is_logged_as_what_it_is(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message what = { .type = KV_PULL, .number = 12, .table = 1 };

	(void)state;
	ps_serve_refuse(&test.server, conn, &what, KV_REFUSED_MEMORY, "a\tb %u", 7);
	assert_int_equal(last()->number, 12);
	assert_int_equal(last()->table, 1);
	assert_refused(conn, KV_REFUSED_MEMORY, KV_PULL, "a?b 7");
	assert_line(0, PS_INFO, NULL, "worker 1 (H, pid 77) is refused: a?b 7");
	assert_int_equal(heard.about[0].worker, 1);
	what.type = KV_OPEN; /* it has no number of a table yet */
	test.is_stranger = true;
	ps_serve_refuse(&test.server, conn, &what, KV_REFUSED_MEMORY, "x");
	assert_int_equal(last()->table, KV_NO_TABLE);
	assert_refused(conn, KV_REFUSED_MEMORY, KV_OPEN, "x");
	assert_int_equal(heard.level[1], PS_DEBUG);
	test.is_stranger = false;
	test.server.options.key = "";
	ps_serve_refuse(&test.server, conn, NULL, KV_REFUSED_GONE, "y");
	assert_int_equal(last()->table, KV_NO_TABLE);
	assert_int_equal(last()->number, 0);
	assert_refused(conn, KV_REFUSED_GONE, KV_NOTHING, "y");
	assert_int_equal(heard.level[2], PS_DEBUG);
}

static void name__of_another_is_said_to_who_has_the_key(void **state)
{
	char text[PS_NAMED_BYTES];

	(void)state;
	assert_string_equal(ps_serve_name(&test.server, member(2), text), "worker 2 (H, pid 77)");
	assert_int_equal(heard.lines, 0);
	test.server.options.key = "";
	assert_string_equal(ps_serve_name(&test.server, member(2), text), "worker 2");
	assert_line(0, PS_DEBUG, NULL,
		    "the other one of the next line is worker 2 (H, pid 77), of job J");
}

/* ---- OPEN ---- */

static struct kv_message open_of(void)
{
	return (struct kv_message){
		.type = KV_OPEN, .name = "emb", .dim = DIM, .servers = 1, .program = 33
	};
}

static void open__of_what_is_not_here_is_refused(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	strcpy(open.name, "em");
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_UNKNOWN, KV_OPEN,
		       "worker 1 (H, pid 77) asks for a table em, which is not here");
	strcpy(open.name, "emb");
	open.dim = 3;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_OPEN,
		       "table emb has dim 2; worker 1 (H, pid 77) has opened it with dim 3");
	assert_calls("");
}

static void open__of_a_stranger_needs_a_place(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	test.is_stranger = test.has_no_place = true;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_BUSY, KV_NOTHING,
		       "no room for one more connection of a worker: 0 are open");
	conn->is_ending = test.is_stranger = false; /* it has one */
	say(conn, &open);
	assert_int_equal(last()->type, KV_OPENED);
}

static void open__of_an_earlier_incarnation_ends(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	test.member[0][1].incarnation = test.wall_ns;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: a later incarnation of worker 1 has come");
	conn->is_ending = false;
	test.member[0][1].incarnation = test.wall_ns + 2 * s_ns;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		       "table emb: a later incarnation of worker 1 has come: that one is 3 s ahead "
		       "of this server's clock: set the clocks of all hosts, and try again when "
		       "these are over");
	assert_calls("");
}

/* R-KV-6: an hour is borne, and so is the number behind the last one. */
static void open__of_an_incarnation_far_ahead_ends(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	conn->incarnation = test.wall_ns + 3600 * s_ns;
	say(conn, &open);
	assert_int_equal(last()->type, KV_OPENED);
	test.outs = 0;
	test.member[0][1].incarnation = 0;
	conn->incarnation += 1;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_MISMATCH, KV_NOTHING,
		       "table emb: the incarnation of worker 1 (H, pid 77), 3603600000000006 ns of "
		       "its clock, is 1.0 h ahead of this server's clock: set the clocks of both "
		       "hosts (an hour is borne)");
	conn->is_ending = false;
	test.member[0][1].incarnation = conn->incarnation - 2;
	say(conn, &open);
	assert_int_equal(last()->type, KV_ERROR);
	conn->is_ending = false;
	test.member[0][1].incarnation = conn->incarnation - 1;
	say(conn, &open);
	assert_int_equal(last()->type, KV_OPENED);
}

static void open__that_anybody_refuses_changes_nothing(void **state)
{
	static const char *const who[] = { "job", "share" };
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		test.refuses = who[i];
		say(conn, &open);
	}
	test.refuses = NULL;
	test.is_stuck = true;
	test.trouble = ENOSPC;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_DISK, KV_OPEN,
		       "table emb: the server cannot write its log: No space left on device: too "
		       "much waits for it already");
	test.trouble = ENOENT;
	say(conn, &open);
	assert_refused(conn, KV_REFUSED_DISK, KV_NOTHING,
		       "table emb: the server cannot write its log: its file was deleted: nothing "
		       "is acknowledged any more");
	assert_calls("");
	assert_null(test.worker[0][1].conn);
	assert_false(conn->has_table);
	conn->is_ending = false;
	test.trouble = ENOSPC;
	test.member[0][1].incarnation = 5; /* who comes back records nothing */
	say(conn, &open);
	assert_int_equal(last()->type, KV_OPENED);
}

/* R-KV-13, R-KV-16: it has said LEAVE, and lost its connection before the answer. */
static void open__of_a_run_that_is_over_waits_for_the_disk(void **state)
{
	struct ps_conn *conn = member(1);
	struct kv_message open = open_of();

	(void)state;
	hosted()->table->kv.is_sync = true;
	open.mode = KV_SYNC;
	test.member[0][1].incarnation = 5;
	test.is_unsynced = true;
	say(conn, &open);
	assert_true(conn->is_held);
	assert_int_equal(test.outs, 0);
	test.is_unsynced = false;
	ps_serve(&test.server, conn);
	assert_refused(
		conn, KV_REFUSED_SUPERSEDED, KV_NOTHING,
		"table emb: the run of worker 1 (H, pid 77) is over: it has left, or another "
		"worker has begun anew");
	assert_false(conn->is_held);
}

static void open__without_random_bytes_ends(void **state)
{
	struct kv_message open = open_of();

	(void)state;
	test.takes_none = true;
	say(member(1), &open);
	assert_true(test.conn[1].is_gone);
	assert_calls("share");
	test.takes_none = false;
	test.is_random_out = true;
	say(member(2), &open);
	assert_true(test.conn[2].is_gone);
	assert_int_equal(test.outs, 0);
}

static void assert_opened(const struct kv_message *is)
{
	assert_int_equal(is->type, KV_OPENED);
	assert_int_equal(is->table, 0);
	assert_int_equal(is->dim, DIM);
	assert_int_equal(is->window, WINDOW);
	assert_int_equal(is->bytes, 1472);
	assert_int_equal(is->ranks, 0);
	assert_int_equal(is->patience_us, 900);
	assert_true(is->scale == 4);
	assert_int_equal(is->values, SPARSE_LNS);
	assert_true(is->is_stepped);
	assert_true(is->must_report);
	assert_true(is->is_used);
	assert_int_equal(is->server, 2);
	assert_int_equal(is->servers, 3);
	assert_int_equal(is->generation, 8);
	assert_int_equal(is->epoch, 4);
	assert_int_equal(is->barrier, 6);
	assert_string_equal(is->name, "emb");
	assert_string_equal(is->text, "made so");
	assert_int_equal(is->identity[15], 11);
	assert_int_equal(is->own[15], 12);
	assert_int_equal(is->nonce[15], 0x5a);
	for (uint32_t i = 0; i < WINDOW; i++)
		assert_int_equal(is->row[i], 100 + WINDOW + i);
}

static void open__of_a_first_one_is_answered_with_all(void **state)
{
	struct ps_table *table = &test.table[0];
	struct kv_message open = open_of();
	struct ps_conn *conn = member(1);

	(void)state;
	hosted()->options.patience_us = 900;
	table->options.values = SPARSE_LNS;
	table->options.is_sync = table->kv.is_sync = true;
	open.mode = KV_SYNC;
	table->kv.barrier = 6;
	table->share = (struct server_kv_share){ .index = 2, .count = 3, .is_used = true };
	table->share.identity[15] = 11;
	table->share.own[15] = 12;
	test.member[0][1].is_unreported = true;
	for (uint32_t i = 0; i < WORKERS * WINDOW; i++)
		test.cut[i] = 100 + i;
	test.its[0][1].gone_ns = 5;
	test.its[0][1].is_waiting = true;
	test.worker[0][1].binding.is_bound = true;
	conn->stream.bytes_max = 99;
	conn->stream.bytes_max = KV_BYTES_MAX - 1;
	say(conn, &open);
	assert_calls("share join gather");
	assert_int_equal(test.outs, 1);
	assert_opened(last());
	assert_true(test.out[0].is_held);
	assert_false(last()->is_known);
	assert_int_equal(last()->number, 1);
	assert_ptr_equal(test.worker[0][1].conn, conn);
	assert_false(test.its[0][1].is_waiting);
	assert_true(test.its[0][1].gone_ns == 0);
	assert_false(test.worker[0][1].binding.is_bound);
	assert_int_equal(test.worker[0][1].binding.nonce[15], 0x5a);
	assert_true(conn->has_table);
	assert_int_equal(conn->program, 33);
	assert_int_equal(conn->stream.bytes_max, KV_BYTES_MAX);
	assert_line(0, PS_INFO, "emb", "worker 1 (H, pid 77) has come");
	assert_int_equal(heard.about[0].worker, 1);
}

static void open__again_of_the_same_is_no_join(void **state)
{
	struct kv_message open = open_of();
	struct ps_conn *conn = opened(1), *other = &test.conn[3];

	(void)state;
	say(conn, &open);
	assert_calls("share gather");
	assert_int_equal(test.outs, 1); /* nobody is told that it is superseded */
	assert_true(last()->is_known);
	assert_int_equal(last()->number, 7);
	assert_line(0, PS_INFO, "emb", "worker 1 (H, pid 77) has come back");
	*other = *conn;
	other->stream.in.bytes = test.in[3];
	other->link = 4;
	test.outs = 0;
	say(other, &open);
	assert_ptr_equal(test.worker[0][1].conn, other);
	assert_true(conn->is_ending);
	assert_int_equal(test.outs, 2);
	assert_ptr_equal(test.out[0].to, conn);
	assert_int_equal(test.out[0].what.refusal, KV_REFUSED_SUPERSEDED);
	assert_string_equal(test.out[0].what.text,
			    "table emb: worker 1 has another connection now");
	assert_int_equal(last()->type, KV_OPENED);
}

/* R-SP-29 */
static void open__in_place_of_another_waits_and_begins_a_generation(void **state)
{
	struct kv_message open = open_of(), leave = { .type = KV_LEAVE };
	struct ps_conn *conn = opened(1);

	(void)state;
	conn->incarnation = 6;
	test.is_undrained = test.begins = true;
	hosted()->has_switch = true;
	give(conn, &open);
	say(conn, &leave); /* not before OPEN was taken */
	assert_true(conn->is_held);
	assert_int_equal(test.outs, 0);
	assert_true(buffer_bytes(&conn->stream.in) > 0);
	ps_serve(&test.server, conn);
	assert_calls("drain drain");
	assert_false(conn->has_left);
	test.is_undrained = false;
	ps_serve(&test.server, conn);
	assert_false(conn->is_held);
	assert_true(conn->has_left);
	assert_int_equal(buffer_bytes(&conn->stream.in), 0);
	assert_calls("drain share join drop begin spent-say "
		     "gather use steps-left wait-emb use-wide steps-left wait-wide");
	assert_int_equal(test.out[0].what.type, KV_OPENED);
	assert_int_equal(test.out[0].what.generation, 9);
	assert_false(test.out[0].what.is_known);
	assert_line(0, PS_INFO, "emb", "worker 1 (H, pid 77) has come in place of another");
}

static void map__is_told_in_parts_with_its_switch(void **state)
{
	static uint64_t keys[KV_KEYS_MAX + 3];
	struct kv_message open = open_of();
	struct ps_conn *conn = opened(1);

	(void)state;
	test.table[0].map = (struct hot_map){ .version = 4, .keys = KV_KEYS_MAX + 3, .key = keys };
	hosted()->registers = 12;
	hosted()->options.packing = KV_DEAL;
	hosted()->index = 70;
	hosted()->at_switch = (struct link_address){ .ip = { [15] = 7 }, .port = 7171 };
	test.worker[0][1].nonce[15] = 13;
	say(conn, &open);
	assert_int_equal(test.outs, 3); /* there is no switch yet */
	assert_int_equal(test.out[0].what.ranks, KV_KEYS_MAX + 3);
	assert_int_equal(test.out[0].what.map, 4);
	assert_int_equal(test.out[1].what.type, KV_MAP);
	assert_int_equal(test.out[1].what.first, 0);
	assert_int_equal(test.out[1].what.count, KV_KEYS_MAX);
	assert_ptr_equal(test.out[1].what.key, keys);
	assert_int_equal(test.out[2].what.first, KV_KEYS_MAX);
	assert_int_equal(test.out[2].what.count, 3);
	assert_int_equal(test.out[2].what.map, 4);
	assert_int_equal(test.out[2].what.ranks, KV_KEYS_MAX + 3);
	assert_ptr_equal(test.out[2].what.key, keys + KV_KEYS_MAX);
	hosted()->has_switch = true;
	test.outs = 0;
	say(conn, &open);
	assert_int_equal(test.outs, 4);
	assert_int_equal(last()->type, KV_SWITCH);
	assert_int_equal(last()->index, 70);
	assert_int_equal(last()->map, 4);
	assert_int_equal(last()->generation, 8);
	assert_int_equal(last()->nonce[15], 13);
	assert_int_equal(last()->registers, 12);
	assert_int_equal(last()->packing, KV_DEAL);
	assert_int_equal(last()->port, 7171);
	assert_int_equal(last()->ip[15], 7);
	hosted()->is_inside = true; /* at the server's own address, and no chip */
	ps_serve_switch(&test.server, hosted(), 1);
	assert_int_equal(last()->port, 7272);
	assert_int_equal(last()->ip[15], 0);
	assert_int_equal(last()->registers, 0);
	assert_int_equal(last()->packing, KV_FILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(hello__makes_a_member),
		T(hello__of_another_key_is_denied),
		T(hello__of_another_job_is_refused),
		T(hello__needs_a_place_and_a_version),
		T(refusal__is_logged_as_what_it_is),
		T(name__of_another_is_said_to_who_has_the_key),
		T(open__of_what_is_not_here_is_refused),
		T(open__of_a_stranger_needs_a_place),
		T(open__of_an_earlier_incarnation_ends),
		T(open__of_an_incarnation_far_ahead_ends),
		T(open__that_anybody_refuses_changes_nothing),
		T(open__of_a_run_that_is_over_waits_for_the_disk),
		T(open__without_random_bytes_ends),
		T(open__of_a_first_one_is_answered_with_all),
		T(open__again_of_the_same_is_no_join),
		T(open__in_place_of_another_waits_and_begins_a_generation),
		T(map__is_told_in_parts_with_its_switch),
#undef T
	};

	return cmocka_run_group_tests_name("ps-serve", tests, NULL, NULL);
}
