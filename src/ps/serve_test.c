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
	conn->bytes_max = 99;
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
	assert_int_equal(conn->bytes_max, KV_BYTES_MAX);
	assert_int_equal(conn->in_count, 0);
	assert_false(conn->is_ending);
	conn = &test.conn[1];
	conn->bytes_max = 200;
	test.is_stranger = true; /* without a key it has to open a table first */
	test.server.options.key = "";
	test.has_no_place = true;
	*hello.secret = 0;
	say(conn, &hello);
	assert_int_equal(last()->type, KV_WELCOME);
	assert_int_equal(conn->bytes_max, 200);
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
#undef T
	};

	return cmocka_run_group_tests_name("ps-serve", tests, NULL, NULL);
}
