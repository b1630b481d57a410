/* SPDX-License-Identifier: Apache-2.0 */
/* table_client_end_test.c - what a parameter server's client does once and not too early, and what becomes of failures
 * on its own side. */
#include "control/table_client_fixture.h"
#include "util/memory_fixture.h"

/* ---- what is refused to the client, and what it wipes (linked with --wrap) ---- */

static int send_error, say_error; /* 0: none */
static uint32_t wiped;

ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
int __real_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);
int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message);
void __real_explicit_bzero(void *at, size_t bytes);
void __wrap_explicit_bzero(void *at, size_t bytes);

ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
	errno = send_error;
	return send_error ? -1 : __real_send(fd, from, bytes, flags);
}

int __wrap_conn_send(struct conn *conn, struct codec *codec, const struct control_message *message)
{
	if (!say_error)
		return __real_conn_send(conn, codec, message);
	strcpy(codec->error, "TABLE_BEAT: it is not so");
	return say_error;
}

void __wrap_explicit_bzero(void *at, size_t bytes)
{
	wiped += bytes >= sizeof(nonces) && !memcmp(at, nonces, sizeof(nonces));
	__real_explicit_bzero(at, bytes);
}

static int begin_unrefused(void **state)
{
	send_error = say_error = 0;
	return begin(state);
}

/* ---- once, and not when it is not its time ---- */

static void client__counts_an_answer_once(void **state)
{
	uint32_t serial;

	(void)state;
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	serial = t.message.table_beat.serial;
	for (int i = 0; i < 2; i++)
		say(&(struct control_message){
			.type = CONTROL_TABLE_BEAT,
			.table_beat = { .serial = serial, .index = 9, .instance = 77 } });
	say(&(struct control_message){ .type = CONTROL_TABLE_CLOSE }); /* behind both */
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_ENDED));
	assert_int_equal(table_client_beats(t.client), 1);
}

static void assert_says_nothing(void)
{
	for (int i = 0; i < 10; i++) {
		table_client_turn(t.client, t.now_ns);
		assert_int_equal(conn_read(t.conn, t.now_ns, &t.codec, &t.message), CONN_NONE);
		poll(NULL, 0, 1);
	}
}

static void client__asks_nothing_before_its_grant_nor_when_it_leaves(void **state)
{
	(void)state;
	assert_says_nothing();
	grant();
	assert_true(run_until(CONTROL_TABLE_BEAT, TABLE_CLIENT_LIVE));
	answer(t.message.table_beat.serial);
	table_client_leave(t.client, t.now_ns);
	assert_true(run_until(CONTROL_TABLE_CLOSE, TABLE_CLIENT_LIVE));
	t.now_ns += 20 * ms_ns; /* a beat would be due */
	assert_says_nothing();
	table_client_leave(t.client, t.now_ns); /* it has said so */
	assert_says_nothing();
}

/* Whatever comes after it; and the keys do not outlive it. */
static void client__keeps_a_grant_of_its_own_and_wipes_its_keys(void **state)
{
	static const uint8_t others[WORKERS + 1][WIRE_NONCE_BYTES] = { "other 0", "other 1",
								       "no server" };
	struct control_message message = { .type = CONTROL_TABLE_GRANT };

	(void)state;
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	message.table_grant = (struct control_table_grant){ .version = 1,
							    .port = 7172,
							    .nonces_count = WORKERS + 1,
							    .heartbeat_ms = 1000,
							    .instance = 78,
							    .nonces = others };
	say(&message);
	expect_end(CONTROL_INTERNAL, "a second time");
	assert_int_equal(table_client_grant(t.client)->instance, 77);
	assert_memory_equal(table_client_grant(t.client)->nonces, nonces, sizeof(nonces));
	wiped = 0;
	table_client_close(t.client);
	t.client = NULL;
	assert_int_equal(wiped, 1);
}

/* ---- what fails on this side ---- */

static void client__whose_bytes_the_kernel_refuses_ends(void **state)
{
	(void)state;
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	table_client_name(t.client, 5);
	send_error = EIO;
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	send_error = 0;
	assert_int_equal(table_client_due(t.client), 0); /* the connection has something to tell */
	expect_end(CONTROL_SYSTEM, "Input/output error");
}

static void client__ends_for_what_it_cannot_say(void **state)
{
	static const struct {
		int error;
		enum control_cause cause;
		const char *words;
	} ends[] = {
		{ -EINVAL, CONTROL_INTERNAL, "TABLE_BEAT: it is not so" },
		{ -ENOBUFS, CONTROL_SYSTEM, "No buffer space available" },
		{ -ENOMEM, CONTROL_SYSTEM, "Cannot allocate memory" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		grant();
		assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
		table_client_name(t.client, 5);
		say_error = ends[i].error;
		assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_ENDED);
		say_error = 0;
		expect_end(ends[i].cause, ends[i].words);
		finish(state);
		begin_unrefused(state);
	}
	grant();
	assert_true(run_until(CONTROL_NOTHING, TABLE_CLIENT_LIVE));
	table_client_name(t.client, 5);
	say_error = -EPIPE; /* that one the connection tells */
	assert_int_equal(table_client_turn(t.client, t.now_ns), TABLE_CLIENT_LIVE);
	assert_string_equal(table_client_text(t.client), "");
}

static void client__gives_all_back(void **state)
{
	struct table_client_options options = plain();
	struct table_client *client = NULL;
	unsigned missing = 1;
	int error;

	(void)state;
	assert_int_equal(conn_resolve("127.0.0.1:1", 0, &options.address), 0);
	do { /* without each piece in turn, and then with all */
		assert_in_range(missing, 1, 100);
		memory_count(missing++);
		error = table_client_open(&client, &options, t.now_ns);
		if (!error)
			table_client_close(client);
		memory.is_counting = false;
		assert_true(error == 0 || error == -ENOMEM);
		assert_int_equal(memory.held, 0);
	} while (error);
	assert_in_range(missing, 4, 100);
	options.open.dim = 0;
	memory_count(0);
	assert_int_equal(table_client_open(&client, &options, t.now_ns), -EINVAL);
	memory.is_counting = false;
	assert_int_equal(memory.held, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_unrefused, finish)
	static const struct CMUnitTest tests[] = {
		TEST(client__counts_an_answer_once),
		TEST(client__asks_nothing_before_its_grant_nor_when_it_leaves),
		TEST(client__keeps_a_grant_of_its_own_and_wipes_its_keys),
		TEST(client__whose_bytes_the_kernel_refuses_ends),
		TEST(client__ends_for_what_it_cannot_say),
		TEST(client__gives_all_back),
	};

	return cmocka_run_group_tests_name("control-table_client_end", tests, NULL, NULL);
}
