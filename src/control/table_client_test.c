/* SPDX-License-Identifier: Apache-2.0 */
/* How a parameter server keeps a table at an aggregator, and what it hears of the end: claims. The aggregator is
 * played here; the clock is. */
#include "control/table_client_fixture.h"

static void client__says_its_table_and_keeps_the_grant(void **state)
{
	static const uint8_t here[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };

	(void)state;
	assert_string_equal(t.message.table_open.table, "emb");
	assert_int_equal(t.message.table_open.version_max, CONTROL_VERSION);
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	assert_int_equal(table_client_grant(t.client)->index, 9);
	assert_memory_equal(table_client_grant(t.client)->nonces, nonces, sizeof(nonces));
	assert_memory_equal(table_client_grant(t.client)->ip, here, sizeof(here));
	assert_string_equal(table_client_text(t.client), "");
}

static void client__asks_one_beat_at_a_time_and_says_how_long_it_takes(void **state)
{
	struct control_message beat = { .type = CONTROL_TABLE_BEAT };

	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	assert_null(table_client_beat(t.client));
	t.now_ns += 30 * ms_ns;
	assert_int_equal(table_client_beats(t.client), 0);
	beat.table_beat = (struct control_table_beat){ .serial = t.message.table_beat.serial + 1,
						       .index = 9,
						       .instance = 77 };
	say(&beat); /* nobody has asked for it */
	beat.table_beat.serial--;
	beat.table_beat.generation = 5;
	say(&beat);
	for (int i = 0; i < ROUNDS_MAX && !table_client_beat(t.client); i++) {
		table_client_turn(t.client, t.now_ns);
		poll(NULL, 0, 5);
	}
	assert_non_null(table_client_beat(t.client));
	assert_int_equal(table_client_beat(t.client)->generation, 5);
	assert_true(table_client_due(t.client) <= t.now_ns + 1000 * ms_ns);
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE)); /* the next */
	assert_int_equal(t.message.table_beat.serial, beat.table_beat.serial + 1);
	assert_int_equal(table_client_beats(t.client), 1);
	assert_int_equal(table_client_delay_ns(t.client), 30 * ms_ns);
	t.now_ns += 110 * ms_ns;
	beat.table_beat.serial++;
	say(&beat);
	for (int i = 0; i < ROUNDS_MAX && table_client_beats(t.client) < 2; i++) {
		table_client_turn(t.client, t.now_ns);
		poll(NULL, 0, 5);
	}
	assert_int_equal(table_client_delay_ns(t.client), (7 * 30 + 110) / 8 * ms_ns);
}

/* R-CT-30: SETUP waits for it. */
static void client__names_its_generation_at_once_and_from_then_on(void **state)
{
	const uint64_t generation = 3ull << 40 | 0xfeedbeef01;
	uint32_t serial;

	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	assert_true(t.message.table_beat.generation == 0);
	serial = t.message.table_beat.serial;
	table_client_name(t.client, generation); /* the beat before is not answered yet */
	assert_int_equal(table_client_due(t.client), 0);
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	assert_int_equal(t.message.table_beat.serial, serial + 1);
	assert_true(t.message.table_beat.generation == generation);
	assert_int_equal(table_client_due(t.client), t.now_ns + 1000 * ms_ns); /* once */
	table_client_turn(t.client, t.now_ns + 500 * ms_ns);
	assert_int_equal(table_client_due(t.client), t.now_ns + 1000 * ms_ns);
	say(&(struct control_message){
		.type = CONTROL_TABLE_BEAT,
		.table_beat = { .serial = serial + 1, .index = 9, .instance = 77 } });
	t.now_ns += 30 * ms_ns;
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	assert_int_equal(t.message.table_beat.serial, serial + 2);
	assert_true(t.message.table_beat.generation == generation);
}

static void client__ends_when_its_beat_has_no_answer(void **state)
{
	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	t.now_ns += 999 * ms_ns;
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	t.now_ns += ms_ns;
	assert_int_equal(table_client_due(t.client), t.now_ns);
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_ENDED);
	assert_int_equal(table_client_cause(t.client), CONTROL_TIMEOUT);
	assert_non_null(strstr(table_client_text(t.client), "silent for 1000 ms"));
	assert_int_equal(table_client_fd(t.client), -1);
	assert_int_equal(table_client_due(t.client), UINT64_MAX);
}

/* The answer was there in time: who reads it late has overslept, and blames nobody. */
static void client__that_oversleeps_reads_before_it_judges(void **state)
{
	struct pollfd answer = { .events = POLLIN };

	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	say(&(struct control_message){ .type = CONTROL_TABLE_BEAT,
				       .table_beat = { .serial = 1, .index = 9, .instance = 77 } });
	answer.fd = table_client_fd(t.client);
	assert_int_equal(poll(&answer, 1, 5 * ROUNDS_MAX), 1);
	t.now_ns += 5000 * ms_ns;
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	assert_int_equal(table_client_beats(t.client), 1);
}

static void client__hears_why_it_was_denied_or_ended(void **state)
{
	struct control_message deny = { .type = CONTROL_DENY };

	(void)state;
	deny.end.cause = CONTROL_NO_RESOURCE;
	deny.end.rank = CONTROL_RANK_NONE;
	strcpy(deny.end.text, "all memory is held by \"job\"");
	say(&deny);
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_cause(t.client), CONTROL_NO_RESOURCE);
	assert_non_null(strstr(table_client_text(t.client), "all memory is held by \"job\""));
	assert_non_null(strstr(table_client_text(t.client), "127.0.0.1:"));
}

static void client__notices_that_the_aggregator_is_gone(void **state)
{
	(void)state;
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	conn_close(t.conn);
	t.conn = NULL;
	close(t.listen_fd);
	t.listen_fd = -1;
	for (int i = 0; i < ROUNDS_MAX; i++) {
		if (table_client_turn(t.client, t.now_ns) == TABLE_CLIENT_ENDED)
			break;
		poll(NULL, 0, 5);
	}
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_ENDED);
	assert_int_not_equal(table_client_cause(t.client), CONTROL_OK);
}

static void client__whose_instance_is_another_ends(void **state)
{
	struct control_message beat = { .type = CONTROL_TABLE_BEAT };

	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	beat.table_beat = (struct control_table_beat){ .serial = t.message.table_beat.serial,
						       .index = 9,
						       .instance = 78 };
	say(&beat);
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_cause(t.client), CONTROL_INTERNAL);
}

static void client__refuses_a_grant_for_another_number_of_workers(void **state)
{
	struct control_message message = { .type = CONTROL_TABLE_GRANT };

	(void)state;
	message.table_grant = (struct control_table_grant){ .version = 1,
							    .port = 7171,
							    .nonces_count = WORKERS,
							    .heartbeat_ms = 1000,
							    .instance = 77,
							    .nonces = nonces };
	say(&message);
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_cause(t.client), CONTROL_INTERNAL);
	assert_non_null(strstr(table_client_text(t.client), "workers"));
}

static void client__that_leaves_waits_for_the_end(void **state)
{
	(void)state;
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	table_client_leave(t.client, t.now_ns);
	assert_true(run_until(CONTROL_TABLE_CLOSE, TABLE_CLIENT_LIVE));
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	say(&(struct control_message){ .type = CONTROL_TABLE_CLOSE });
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_cause(t.client), CONTROL_OK);
}

/* Whatever it was about to hear before. */
static void client__that_leaves_ends_when_nobody_answers(void **state)
{
	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	say(&(struct control_message){ .type = CONTROL_TABLE_BEAT,
				       .table_beat = { .serial = t.message.table_beat.serial,
						       .index = 9,
						       .instance = 77 } });
	for (int i = 0; i < ROUNDS_MAX && !table_client_beats(t.client); i++) {
		table_client_turn(t.client, t.now_ns);
		poll(NULL, 0, 5);
	}
	t.now_ns += 60000 * ms_ns; /* the time counts from now on, not from when it was opened */
	table_client_leave(t.client, t.now_ns);
	assert_true(run_until(CONTROL_TABLE_CLOSE, TABLE_CLIENT_LIVE));
	t.now_ns += 4999 * ms_ns;
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	assert_int_equal(table_client_due(t.client), t.now_ns + ms_ns);
	t.now_ns += ms_ns;
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_ENDED);
	assert_int_equal(table_client_cause(t.client), CONTROL_OK);
	assert_non_null(strstr(table_client_text(t.client), "no answer in 5000 ms"));
}

/* ---- what ends it, and when ---- */

static void client__has_times_of_its_own_where_none_are_given(void **state)
{
	struct table_client_options options = plain();

	finish(state);
	options.beat_ns = options.silence_ns = 0;
	begin_as(options);
	assert_int_equal(table_client_due(t.client), t.now_ns + 5000 * ms_ns);
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	assert_int_equal(table_client_due(t.client), t.now_ns + 3000 * ms_ns);
	t.now_ns += 20 * ms_ns;
	answer(t.message.table_beat.serial);
	assert_int_equal(table_client_due(t.client), t.now_ns + 80 * ms_ns);
	t.now_ns += 80 * ms_ns - 1;
	table_client_turn(t.client, t.now_ns++);
	assert_int_equal(table_client_due(t.client), t.now_ns); /* it has not asked yet */
	table_client_turn(t.client, t.now_ns);
	assert_int_equal(table_client_due(t.client), t.now_ns + 3000 * ms_ns);
}

static void client__that_gets_no_grant_ends(void **state)
{
	struct table_client_options options = plain();

	finish(state);
	options.open_ns = 70 * ms_ns;
	begin_as(options);
	/* Nobody has asked this. */
	say(&(struct control_message){ .type = CONTROL_TABLE_BEAT,
				       .table_beat = { .index = 9, .instance = 77 } });
	t.now_ns += 70 * ms_ns - 1;
	for (int i = 0; i < 20; i++) {
		assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_OPENING);
		poll(NULL, 0, 1);
	}
	assert_int_equal(table_client_beats(t.client), 0);
	assert_int_equal(table_client_due(t.client), ++t.now_ns);
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_ENDED);
	assert_int_equal(table_client_cause(t.client), CONTROL_TIMEOUT);
	assert_non_null(strstr(table_client_text(t.client), "no answer in 70 ms"));
	assert_int_equal(table_client_events(t.client), 0);
	table_client_leave(t.client, t.now_ns); /* it has gone */
	assert_int_equal(table_client_cause(t.client), CONTROL_TIMEOUT);
}

/* What comes while it is live. */
static void client__ends_for_the_reason_that_it_hears(void **state)
{
	struct control_message last = { .type = CONTROL_ABORT };

	(void)state;
	last.end.cause = CONTROL_NO_MEMORY;
	last.end.rank = CONTROL_RANK_NONE;
	strcpy(last.end.text, "it was too much");
	for (int i = 0; i < 6; i++) {
		if (i) {
			finish(state);
			begin(state);
		}
		grant();
		assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
		assert_true(table_client_events(t.client) & POLLIN);
		assert_true(table_client_fd(t.client) >= 0);
		switch (i) {
		case 0:
			say(&last);
			expect_end(CONTROL_NO_MEMORY, "it was too much");
			break;
		case 1:
			say(&(struct control_message){ .type = CONTROL_TABLE_CLOSE });
			expect_end(CONTROL_REMOTE, "closed");
			break;
		case 2:
			grant();
			expect_end(CONTROL_INTERNAL, "a second time");
			break;
		case 3:
			say(&(struct control_message){ .type = CONTROL_LEFT });
			expect_end(CONTROL_INTERNAL, "what is not for a parameter server");
			break;
		case 4:
			assert_int_equal(write(conn_fd(t.conn), "\xff\xff\xff\xff\xff", 5), 5);
			expect_end(CONTROL_SYSTEM, "");
			break;
		case 5: /* all that was said has been read: the end is no reset */
			conn_close(t.conn);
			t.conn = NULL;
			close(t.listen_fd);
			t.listen_fd = -1;
			expect_end(CONTROL_REMOTE, "");
			break;
		}
	}
}

static void client__keeps_the_address_that_the_grant_names(void **state)
{
	struct control_message message = { .type = CONTROL_TABLE_GRANT };

	(void)state;
	message.table_grant = (struct control_table_grant){ .version = 1,
							    .port = 7172,
							    .index = 9,
							    .nonces_count = WORKERS + 1,
							    .heartbeat_ms = 1000,
							    .instance = 77,
							    .nonces = nonces };
	message.table_grant.ip[0] = 0xfd;
	message.table_grant.ip[15] = 7;
	say(&message);
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	assert_memory_equal(table_client_grant(t.client)->ip, message.table_grant.ip, 16);
	assert_int_equal(table_client_grant(t.client)->port, 7172);
}

static void client__says_at_once_what_cannot_be(void **state)
{
	struct table_client_options options = plain();
	struct table_client *client = NULL;

	(void)state;
	assert_int_equal(conn_resolve("@tally-nobody-listens-here", 0, &options.address), 0);
	assert_int_equal(table_client_open(&client, &options, t.now_ns), -ECONNREFUSED);
	assert_null(client);
	assert_int_equal(conn_resolve("127.0.0.1:1", 0, &options.address), 0);
	options.open.dim = 0; /* no table has so few */
	assert_int_equal(table_client_open(&client, &options, t.now_ns), -EINVAL);
	assert_null(client);
	table_client_close(NULL);
}

static void client__says_the_versions_that_it_was_told(void **state)
{
	struct table_client_options options = plain();

	finish(state);
	options.open.version_min = 2;
	options.open.version_max = 5;
	begin_as(options);
	assert_int_equal(t.message.table_open.version_min, 2);
	assert_int_equal(t.message.table_open.version_max, 5);
	finish(state);
	assert_int_equal(conn_resolve("127.0.0.1:1", 0, &options.address), 0);
	options.open.version_min = 0; /* one of them alone is what no aggregator takes */
	assert_int_equal(table_client_open(&t.client, &options, t.now_ns), -EINVAL);
	begin(state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(client__says_its_table_and_keeps_the_grant, begin,
						finish),
		cmocka_unit_test_setup_teardown(
			client__asks_one_beat_at_a_time_and_says_how_long_it_takes, begin, finish),
		cmocka_unit_test_setup_teardown(
			client__names_its_generation_at_once_and_from_then_on, begin, finish),
		cmocka_unit_test_setup_teardown(client__ends_when_its_beat_has_no_answer, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__that_oversleeps_reads_before_it_judges,
						begin, finish),
		cmocka_unit_test_setup_teardown(client__hears_why_it_was_denied_or_ended, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__notices_that_the_aggregator_is_gone, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__whose_instance_is_another_ends, begin,
						finish),
		cmocka_unit_test_setup_teardown(
			client__refuses_a_grant_for_another_number_of_workers, begin, finish),
		cmocka_unit_test_setup_teardown(client__that_leaves_waits_for_the_end, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__that_leaves_ends_when_nobody_answers, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__has_times_of_its_own_where_none_are_given,
						begin, finish),
		cmocka_unit_test_setup_teardown(client__that_gets_no_grant_ends, begin, finish),
		cmocka_unit_test_setup_teardown(client__ends_for_the_reason_that_it_hears, begin,
						finish),
		cmocka_unit_test_setup_teardown(client__keeps_the_address_that_the_grant_names,
						begin, finish),
		cmocka_unit_test_setup_teardown(client__says_at_once_what_cannot_be, begin, finish),
		cmocka_unit_test_setup_teardown(client__says_the_versions_that_it_was_told, begin,
						finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
