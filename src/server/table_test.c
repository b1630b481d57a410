/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of sparse mode at an aggregator, over real sockets: who gets one, what is summed in it, and when it goes:
 * claims. */
#include <stdatomic.h>

#include "server/table_fixture.h"

enum { HEARTBEAT_MS = 2500, MANY = 3000 };

/* --- a machine that has stood still --- */

static atomic_long stood_still_s; /* in all */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock, now);

	now->tv_sec += stood_still_s;
	return result;
}

/* --- claims --- */

static void table__sums_what_workers_push_exactly_once_whatever_is_lost(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 2 });
	char address[32];

	(void)state;
	tcp_address(server, address);
	world_begin();
	world.loss_one_in = 20;
	world_switch(address);
	world_push_until(MANY);
	world_check();
	assert_in_range(home_sparse_stats(world.home)->epochs, 11, 1000 * MANY);
	assert_non_null(table_client_beat(world.client));
	assert_int_equal(sparse_fences(table_client_beat(world.client)->generation), 1);
	assert_true(table_client_beat(world.client)->memory_used >=
		    table_client_grant(world.client)->memory);
	world_end();
	server_close(server);
	assert_true(book_has("pairs added"));
	assert_true(book_has("table \"emb\" of job \"ctr\" (server on ps-0"));
}

/* Its sums are lost, and the last flush may be, or not. */
static void table__of_an_aggregator_that_dies_goes_on_at_the_next(void **state)
{
	char address[32];

	(void)state;
	world_begin();
	world.loss_one_in = 50;
	for (uint64_t life = 1; life <= 4; life++) {
		struct server *server = test_server((struct server_options){ .shards = 1 });

		world_switch(tcp_address(server, address));
		world_push_until(life * 500 + life);
		if (life == 4)
			world_check();
		server_close(server);
	}
	assert_int_equal(sparse_fences(home_sparse_server(world.home)->generation), 4);
	world_end();
}

/* The same at one aggregator: the old table and the new one are there at the same time, and differ. */
static void table__that_is_fenced_gets_another_instance_and_no_old_packet(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	struct table_client *old;
	char address[32];
	uint64_t instance;

	(void)state;
	tcp_address(server, address);
	world_begin();
	world_switch(address);
	world_push_until(300);
	old = world.client;
	world.client = NULL; /* it stays open */
	instance = table_client_grant(old)->instance;
	world_switch(address);
	assert_true(table_client_grant(world.client)->instance != instance);
	/* What is not counted is not the last one's either: R-CT-29. */
	assert_true(table_client_grant(world.client)->instance >> 24 != instance >> 24);
	assert_true(table_client_grant(world.client)->instance >> 24 != (instance >> 24) + 1);
	assert_true(table_client_grant(world.client)->index != table_client_grant(old)->index);
	world_push_until(600);
	world_check();
	table_client_close(old);
	world_end();
	server_close(server);
}

static void assert_denied(const char *address, struct control_table_open open,
			  enum control_cause cause, const char *words)
{
	struct table_client *client = table_ask(address, open);

	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_ENDED);
	if (!strstr(table_client_text(client), words))
		fail_msg("\"%s\" is not in: %s", words, table_client_text(client));
	assert_int_equal(table_client_cause(client), cause);
	table_client_close(client);
}

/* R-CT-28 */
static void table__of_a_stranger_or_of_no_shape_is_denied_by_name(void **state)
{
	struct server *server = test_server((struct server_options){ .key = "open sesame" });
	struct control_table_open open = world_shape("emb");
	struct table_client *client;
	char address[32];

	(void)state;
	tcp_address(server, address);
	assert_denied(address, open, CONTROL_DENIED, "gave no key");
	strcpy(open.key, "open barley");
	assert_denied(address, open, CONTROL_DENIED, "ps-0 gave a key that is not");
	strcpy(open.key, "open sesame");
	open.bytes = 100;
	assert_denied(address, open, CONTROL_DENIED, "a row of the window's numbers");
	open.bytes = 200;
	open.dim = 64;
	assert_denied(address, open, CONTROL_DENIED, "a sum of dim values");
	open.bytes = 1472;
	open.version_min = open.version_max = 4;
	assert_denied(address, open, CONTROL_VERSION_BAD, "speaks protocol versions 4 to 4");
	open.version_min = 1;
	client = table_ask(address, open);
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	table_client_close(client);
	server_close(server);
	assert_false(book_has("sesame"));
}

/* One table fits; who wants a second one hears who has it; when that one has gone there is room again. */
static void table__without_room_is_denied_and_its_end_gives_room(void **state)
{
	struct control_table_open open = world_shape("emb"), other = world_shape("wide");
	struct server *server = test_server((struct server_options){ .memory_total = 4 << 20 });
	struct table_client *client;
	uint64_t until_ns = now_ns() + (uint64_t)LONG_MS * 1000000;
	enum table_client_state its;
	char address[32];

	(void)state;
	tcp_address(server, address);
	open.ranks = other.ranks = 60000; /* 2 banks of a tag and 2 sums: 2,880,000 bytes */
	client = table_ask(address, open);
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	assert_denied(address, other, CONTROL_NO_RESOURCE,
		      "is held by table \"emb\" of job \"ctr\" (server on ps-0");
	table_client_close(client);
	do {
		client = table_ask(address, other);
		its = table_wait(client, TABLE_CLIENT_OPENING);
		table_client_close(client);
	} while (its != TABLE_CLIENT_LIVE && now_ns() < until_ns);
	assert_int_equal(its, TABLE_CLIENT_LIVE);
	server_close(server);
}

static void table__beyond_tables_max_is_denied_by_name(void **state)
{
	struct server *server = test_server((struct server_options){ .tables_max = 1 });
	struct table_client *client;
	char address[32];

	(void)state;
	tcp_address(server, address);
	client = table_ask(address, world_shape("emb"));
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	assert_denied(address, world_shape("wide"), CONTROL_NO_RESOURCE, "(--tables-max 1): ");
	table_client_close(client);
	server_close(server);
}

/* R-CT-32 */
static void table__at_a_chip_has_datagrams_that_it_can_parse(void **state)
{
	struct server *server = test_server((struct server_options){ .registers = 16 });
	struct control_table_open open = world_shape("emb");
	struct table_client *client;
	char address[32];

	(void)state;
	tcp_address(server, address);
	open.bytes = 193;
	assert_denied(address, open, CONTROL_DENIED, "bytes: this aggregator counts as a chip");
	open.bytes = 192;
	client = table_ask(address, open);
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	assert_int_equal(table_client_grant(client)->registers, 16);
	table_client_close(client);
	server_close(server);
}

/* Of one job; another one, and a table that replaces one of its own name, may come. */
static void table__beyond_its_jobs_quota_is_denied_by_name(void **state)
{
	struct server *server = test_server((struct server_options){ .tables_memory = 5 << 20 });
	struct control_table_open open[] = { world_shape("emb"), world_shape("wide"),
					     world_shape("emb"), world_shape("wide") };
	struct table_client *client[3];
	char address[32];

	(void)state;
	tcp_address(server, address);
	for (int i = 0; i < 4; i++)
		open[i].ranks = 60000; /* 2,880,000 bytes */
	strcpy(open[3].job, "ads");
	client[0] = table_ask(address, open[0]);
	assert_int_equal(table_wait(client[0], TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	assert_denied(address, open[1], CONTROL_NO_RESOURCE,
		      "may have 5120 KiB (--tables-memory) and would have ");
	assert_denied(address, open[1], CONTROL_NO_RESOURCE, ": table \"emb\" of job \"ctr\"");
	for (int i = 1; i < 3; i++) {
		client[i] = table_ask(address, open[i + 1]);
		assert_int_equal(table_wait(client[i], TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	}
	for (int i = 0; i < 3; i++)
		table_client_close(client[i]);
	server_close(server);
}

/* R-CT-31 */
static void table__is_gone_when_its_closing_is_answered(void **state)
{
	struct control_table_open open = world_shape("emb");
	struct server *server = test_server((struct server_options){ .memory_total = 4 << 20 });
	char address[32];

	(void)state;
	tcp_address(server, address);
	open.ranks = 60000;
	for (int i = 0; i < 20; i++) { /* each needs the room of the last */
		struct table_client *client = table_ask(address, open);

		assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
		table_client_leave(client, now_ns());
		assert_int_equal(table_wait(client, TABLE_CLIENT_LIVE), TABLE_CLIENT_ENDED);
		assert_int_equal(table_client_cause(client), CONTROL_OK);
		table_client_close(client);
	}
	server_close(server);
}

/* Who beats is heard, who does not is dead. */
static void table__of_a_silent_server_goes_and_of_one_that_beats_stays(void **state)
{
	struct server *server =
		test_server((struct server_options){ .heartbeat_ms = HEARTBEAT_MS });
	struct control_message open = { .type = CONTROL_TABLE_OPEN };
	struct table_client *client;
	struct client silent;
	char address[32];

	(void)state;
	tcp_address(server, address);
	client = table_ask(address, world_shape("emb"));
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	client_open(&silent, address);
	open.table_open = world_shape("quiet");
	open.table_open.version_min = open.table_open.version_max = CONTROL_VERSION;
	client_send(&silent, &open);
	client_expect(&silent, CONTROL_TABLE_GRANT, LONG_MS);
	for (int i = 0; i < 1000 && !book_has("its server was silent"); i++) {
		table_client_turn(client, now_ns());
		poll(NULL, 0, 10);
	}
	client_expect(&silent, CONTROL_ABORT, LONG_MS);
	assert_int_equal(silent.message.end.cause, CONTROL_TIMEOUT);
	assert_int_equal(table_client_turn(client, now_ns()), TABLE_CLIENT_LIVE);
	table_client_close(client);
	client_close(&silent);
	server_close(server);
}

/* Who has slept through the heartbeat has not listened. */
static void table__of_nobody_goes_because_the_aggregator_has_slept(void **state)
{
	struct server *server = test_server((struct server_options){ .heartbeat_ms = 60000 });
	struct control_message open = { .type = CONTROL_TABLE_OPEN },
			       beat = { .type = CONTROL_TABLE_BEAT };
	struct control_table_open shapeless = world_shape("emb");
	struct client client;
	char address[32];

	(void)state;
	client_open(&client, tcp_address(server, address));
	open.table_open = world_shape("quiet");
	open.table_open.version_min = open.table_open.version_max = CONTROL_VERSION;
	client_send(&client, &open);
	client_expect(&client, CONTROL_TABLE_GRANT, LONG_MS);
	shapeless.bytes = 100;
	for (uint32_t serial = 1; serial <= 3; serial++) {
		stood_still_s += 70;
		for (int i = 0; i < 3; i++) /* it is awake */
			assert_denied(address, shapeless, CONTROL_DENIED, "a row of");
		assert_false(book_has("its server was silent"));
		beat.table_beat.serial = serial;
		client_send(&client, &beat);
		client_expect(&client, CONTROL_TABLE_BEAT, LONG_MS);
		assert_int_equal(client.message.table_beat.serial, serial);
	}
	client_close(&client);
	server_close(server);
}

/* R-CT-31 */
static void table__ends_with_its_aggregator_which_says_so(void **state)
{
	struct server *server = test_server((struct server_options){ .drain_ms = LONG_MS });
	struct table_client *client;
	char address[32];

	(void)state;
	tcp_address(server, address);
	client = table_ask(address, world_shape("emb"));
	assert_int_equal(table_wait(client, TABLE_CLIENT_OPENING), TABLE_CLIENT_LIVE);
	server_report(server);
	for (int i = 0; i < 500 && !book_has("holds 1 of 256 tables"); i++)
		poll(NULL, 0, 10);
	assert_true(book_has("holds 1 of 256 tables"));
	server_drain(server);
	assert_int_equal(table_wait(client, TABLE_CLIENT_LIVE), TABLE_CLIENT_ENDED);
	assert_non_null(strstr(table_client_text(client), "the aggregator is shutting down"));
	assert_int_equal(table_client_cause(client), CONTROL_REMOTE);
	table_client_close(client);
	assert_true(server_wait(server, LONG_MS));
	server_close(server);
}

/* Without a HELLO nothing that comes is a worker's: the grant's nonces are all that lets in. */
static void table__hears_nobody_who_has_not_shown_a_nonce(void **state)
{
	struct server *server = test_server((struct server_options){ .shards = 1 });
	uint64_t until_ns = now_ns() + (uint64_t)LONG_MS * 1000000;
	char address[32];

	(void)state;
	world_begin();
	world_switch(tcp_address(server, address));
	world.side[1].knock.nonce[3] ^= 1;
	world_push_until(KEPT);
	endpoint_sparse_hurry(world.endpoint[0]);
	while (!endpoint_sparse_is_committed(world.endpoint[0], world.last[0]) &&
	       now_ns() < until_ns)
		world_turn();
	assert_true(endpoint_sparse_is_committed(world.endpoint[0], world.last[0]));
	assert_int_equal(world.side[1].knock.is_welcome, false);
	assert_int_equal(endpoint_sparse_is_committed(world.endpoint[1], 1), false);
	world.side[1].knock.nonce[3] ^= 1;
	world_check();
	world_end();
	server_close(server);
	assert_true(book_has("hello that binds nobody"));
	assert_true(book_has("as worker 1 of table emb: a HELLO without the nonce"));
	assert_true(book_has("as worker 1 of table emb: the address is not that worker's"));
	assert_true(book_has("address"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(table__sums_what_workers_push_exactly_once_whatever_is_lost),
		cmocka_unit_test(table__of_an_aggregator_that_dies_goes_on_at_the_next),
		cmocka_unit_test(table__that_is_fenced_gets_another_instance_and_no_old_packet),
		cmocka_unit_test(table__of_a_stranger_or_of_no_shape_is_denied_by_name),
		cmocka_unit_test(table__without_room_is_denied_and_its_end_gives_room),
		cmocka_unit_test(table__beyond_tables_max_is_denied_by_name),
		cmocka_unit_test(table__beyond_its_jobs_quota_is_denied_by_name),
		cmocka_unit_test(table__at_a_chip_has_datagrams_that_it_can_parse),
		cmocka_unit_test(table__is_gone_when_its_closing_is_answered),
		cmocka_unit_test(table__of_a_silent_server_goes_and_of_one_that_beats_stays),
		cmocka_unit_test(table__of_nobody_goes_because_the_aggregator_has_slept),
		cmocka_unit_test(table__ends_with_its_aggregator_which_says_so),
		cmocka_unit_test(table__hears_nobody_who_has_not_shown_a_nonce),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
