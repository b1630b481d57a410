/* SPDX-License-Identifier: Apache-2.0 */
/* tables_test.c - a table's life inside an aggregator: what its shard and its server are told, and when it is given up.
 * The time, shards and peers are the test's. */
#include "server/inside_fixture.h"

#include <errno.h>

enum { INDEX = 3, PEER = 9, SHARD = 1, LOOK_MS = 100, SENT_MAX = 8 };

static struct {
	uint32_t commands, messages, last_words;
	struct shard_command command[SENT_MAX];
	struct control_message message[SENT_MAX];
} seen;

static uint32_t freed;              /* how often this was: */
static const struct table *watched; /* the test's table */

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_shard_send(struct shard *shard, const struct shard_command *command);
uint16_t __wrap_shard_port(const struct shard *shard);
void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message);
void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns);

void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns);

/* Nonces are forgotten first. */
void __wrap_free(void *block)
{
	static const uint8_t zeros[sizeof(((struct table *)0)->nonces)];
	const struct table *table = block;

	if (table && table == watched) {
		assert_memory_equal(table->nonces, zeros, sizeof(zeros));
		freed++;
	}
	__real_free(block);
}

void __wrap_shard_send(struct shard *shard, const struct shard_command *command)
{
	assert_ptr_equal(shard, test.server.shards[SHARD]);
	assert_true(seen.commands < SENT_MAX);
	seen.command[seen.commands++] = *command;
}

uint16_t __wrap_shard_port(const struct shard *shard)
{
	assert_ptr_equal(shard, test.server.shards[SHARD]);
	return 7173;
}

void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[PEER]);
	assert_true(seen.messages < SENT_MAX);
	seen.message[seen.messages++] = *message;
}

void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns)
{
	(void)server, (void)now_ns;
	assert_ptr_equal(peer, &test.peers[PEER]);
	seen.last_words++;
}

void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns)
{
	struct control_message message = { .type = CONTROL_DENY };

	message.end.cause = (uint16_t)cause;
	snprintf(message.end.text, sizeof(message.end.text), "%s", text);
	__wrap_peer_send(server, peer, &message);
	__wrap_peer_last_words(server, peer, now_ns);
}

/* Table 3 is on shard 1 and its server is peer 9; the last place has one that has nobody any more. */
static int setup(void **state)
{
	struct table *table;

	if (inside_setup(state))
		return -1;
	memset(&seen, 0, sizeof(seen));
	freed = 0;
	test.server.options.heartbeat_ms = 8 * LOOK_MS;
	test.server.options.registers = 64;
	test.server.options.tables_max = SHARD_TABLES_MAX;
	test.server.shards[SHARD] = (struct shard *)(void *)&test;
	for (uint32_t i = INDEX; i < SHARD_TABLES_MAX; i += SHARD_TABLES_MAX - 1 - INDEX) {
		table = test.server.tables[i] = calloc(1, sizeof(*table));
		assert_non_null(table);
		table->index = (uint16_t)i;
		table->shard = SHARD;
		table->heard_ns = test.now_ns;
		table->open.workers = 2;
		strcpy(table->open.job, "ctr");
		strcpy(table->open.host, "ps-0");
		snprintf(table->open.table, sizeof(table->open.table), "t%u", i);
		test.server.tables_count++;
	}
	test.server.tables_ns = test.now_ns;
	watched = test.server.tables[INDEX];
	memset(test.server.tables[INDEX]->nonces, 0x51, sizeof(table->nonces));
	test.server.tables[INDEX]->connection = PEERS_MAX + PEER;
	test.peers[PEER] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
					  .handle = PEERS_MAX + PEER,
					  .job = NO_JOB,
					  .table = INDEX };
	return 0;
}

static int teardown(void **state)
{
	watched = NULL;
	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++)
		free(test.server.tables[i]);
	return inside_teardown(state);
}

static struct table *table_of_test(void)
{
	return test.server.tables[INDEX];
}

static void ack(enum shard_command_type command, int result)
{
	const struct shard_event event = { .type = SHARD_ACK,
					   .command = command,
					   .job = INDEX,
					   .result = result,
					   .instance = 71,
					   .table_generation = 72,
					   .memory_used = 73,
					   .memory_max = 74,
					   .parts = 75 };

	table_shard_ack(&test.server, &event);
}

static void assert_line_begins(uint32_t i, enum server_level level, const char *end)
{
	assert_int_equal(test.lines, i + 1);
	assert_int_equal(test.line[i].level, level);
	assert_non_null(strstr(test.line[i].text, "\"t3\""));
	assert_non_null(strstr(test.line[i].text, end));
}

/* ---- what its shard has done ---- */

static void ack__of_an_addition_grants_the_table(void **state)
{
	static const uint8_t zeros[sizeof(((struct table *)0)->nonces)];
	const struct control_table_grant *grant = &seen.message[0].table_grant;
	struct table *table = table_of_test();

	(void)state;
	table->instance = 5;
	table->bytes = 4096;
	ack(SHARD_TABLE_ADD, 0);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message[0].type, CONTROL_TABLE_GRANT);
	assert_int_equal(grant->port, 7173);
	assert_int_equal(grant->index, INDEX);
	assert_int_equal(grant->nonces_count, 3); /* two workers' and its own */
	assert_int_equal(grant->heartbeat_ms, 800);
	assert_int_equal(grant->instance, 5);
	assert_int_equal(grant->memory, 4096);
	assert_int_equal(grant->registers, 64);
	assert_int_equal(grant->version, CONTROL_VERSION);
	for (uint32_t i = 0; i < sizeof(grant->ip); i++) /* where it has come to */
		assert_int_equal(grant->ip[i], 0);
	assert_true(table->is_granted);
	assert_memory_equal(table->nonces, zeros, sizeof(zeros)); /* they are told once */
	assert_line_begins(0, SERVER_INFO, "added");
}

static void ack__of_an_addition_that_has_failed_is_the_end(void **state)
{
	(void)state;
	ack(SHARD_TABLE_ADD, -ENOMEM);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message[0].type, CONTROL_DENY);
	assert_int_equal(seen.message[0].end.cause, CONTROL_NO_RESOURCE);
	assert_non_null(strstr(seen.message[0].end.text, ": Cannot allocate memory"));
	assert_int_equal(seen.last_words, 1);
	assert_int_equal(seen.commands, 0);
	assert_int_equal(test.peers[PEER].table, NO_TABLE);
	assert_null(test.server.tables[INDEX]);
	assert_int_equal(test.server.tables_count, 1);
}

/* Its workers may be elsewhere by other names: it is told. */
static void ack__of_an_addition_at_a_local_one_tells_the_address(void **state)
{
	(void)state;
	test.server.is_local = true;
	memset(test.server.options.listen.ip, 0x33, sizeof(test.server.options.listen.ip));
	ack(SHARD_TABLE_ADD, 0);
	assert_memory_equal(seen.message[0].table_grant.ip, test.server.options.listen.ip, 16);
}

/* Who has the room is said; one of another error nobody is to blame for. */
static void ack__of_an_addition_without_room_says_who_has_it(void **state)
{
	(void)state;
	ack(SHARD_TABLE_ADD, -ENOSPC);
	assert_int_equal(seen.message[0].end.cause, CONTROL_NO_RESOURCE);
	assert_string_equal(
		seen.message[0].end.text,
		"table \"t3\" of job \"ctr\" (server on ps-0, pid 0, 2 workers, 0 KiB): all memory "
		"for slots and tables (--memory-total) is held by table \"t255\" of job \"ctr\" "
		"(server on ps-0, pid 0, 2 workers, 0 KiB)");
	assert_int_equal(test.lines, 1);
	assert_int_equal(test.line[0].level, SERVER_WARN);
	assert_memory_equal(test.line[0].text, ": denied: ", 10);
	assert_string_equal(test.line[0].text + 10, seen.message[0].end.text);
}

/* TABLE_CLOSE is answered when the shard has removed it; no beat is before that. */
static void close__is_obeyed_and_answered_once(void **state)
{
	static const struct control_message said = { .type = CONTROL_TABLE_CLOSE },
					    beat = { .type = CONTROL_TABLE_BEAT };

	(void)state;
	table_of_test()->is_granted = true;
	table_of_test()->is_beating = true;
	table_message(&test.server, &test.peers[PEER], &said, test.now_ns + 1);
	assert_line_begins(0, SERVER_INFO, "closed by its server");
	assert_int_equal(seen.commands, 1);
	assert_int_equal(seen.command[0].type, SHARD_TABLE_REMOVE);
	table_message(&test.server, &test.peers[PEER], &said, test.now_ns + 2);
	table_message(&test.server, &test.peers[PEER], &beat, test.now_ns + 3);
	assert_int_equal(table_of_test()->heard_ns, test.now_ns + 3);
	assert_int_equal(seen.commands, 1);
	assert_int_equal(test.lines, 1);
	ack(SHARD_TABLE_BEAT, 0);
	assert_int_equal(seen.messages, 0);
	ack(SHARD_TABLE_REMOVE, 0);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message[0].type, CONTROL_TABLE_CLOSE);
	assert_int_equal(seen.last_words, 1);
	assert_int_equal(test.peers[PEER].table, NO_TABLE);
	assert_int_equal(freed, 1);
}

static void beat__before_the_grant_is_of_no_table(void **state)
{
	static const struct control_message beat = { .type = CONTROL_TABLE_BEAT },
					    other = { .type = CONTROL_TABLE_OPEN };

	(void)state;
	table_message(&test.server, &test.peers[PEER], &beat, test.now_ns);
	table_of_test()->is_granted = true;
	table_message(&test.server, &test.peers[PEER], &other, test.now_ns);
	assert_int_equal(seen.commands + seen.messages, 0);
	assert_false(table_of_test()->is_beating);
}

/* Its server has gone meanwhile: nobody is answered, and the removal that is under way is the end. */
static void ack__of_what_is_leaving_waits_for_the_removal(void **state)
{
	(void)state;
	table_end(&test.server, table_of_test());
	assert_line_begins(0, SERVER_INFO, "removed: its server's connection has ended");
	assert_int_equal(test.peers[PEER].table, NO_TABLE);
	assert_int_equal(table_of_test()->connection, 0);
	assert_int_equal(seen.commands, 1);
	assert_int_equal(seen.command[0].type, SHARD_TABLE_REMOVE);
	assert_int_equal(seen.command[0].job, INDEX);
	table_end(&test.server, table_of_test());
	assert_int_equal(seen.commands, 1);
	ack(SHARD_TABLE_ADD, 0);
	assert_false(table_of_test()->is_granted);
	ack(SHARD_TABLE_ADD, -ENOMEM);
	assert_non_null(table_of_test());
	ack(SHARD_TABLE_BEAT, 0);
	ack(SHARD_TABLE_REMOVE, 0);
	assert_null(table_of_test());
	assert_int_equal(test.server.tables_count, 1);
	assert_int_equal(seen.messages + seen.last_words, 0);
	assert_int_equal(test.lines, 1);
}

/* A beat goes to the shard and back. While one is there the last of the others waits, and follows. */
static void beat__is_answered_by_the_shard_one_at_a_time(void **state)
{
	struct control_message beat = { .type = CONTROL_TABLE_BEAT };

	(void)state;
	table_of_test()->is_granted = true;
	for (uint32_t serial = 1; serial <= 3; serial++) {
		beat.table_beat.serial = serial;
		beat.table_beat.generation = 60 + serial;
		table_message(&test.server, &test.peers[PEER], &beat, test.now_ns + serial);
	}
	assert_int_equal(table_of_test()->heard_ns, test.now_ns + 3);
	assert_int_equal(seen.commands, 1);
	assert_int_equal(seen.command[0].type, SHARD_TABLE_BEAT);
	assert_int_equal(seen.command[0].job, INDEX);
	assert_int_equal(seen.command[0].table_generation, 61);
	for (uint32_t i = 0; i < 2; i++) {
		const struct control_table_beat *answer = &seen.message[i].table_beat;

		ack(SHARD_TABLE_BEAT, 0);
		assert_int_equal(seen.messages, i + 1);
		assert_int_equal(answer->serial, i ? 3 : 1);
		assert_int_equal(answer->index, INDEX);
		assert_int_equal(answer->instance, 71);
		assert_int_equal(answer->generation, 72);
		assert_int_equal(answer->memory_used, 73);
		assert_int_equal(answer->memory_max, 74);
		assert_int_equal(answer->parts, 75);
		assert_int_equal(seen.commands, 2);
	}
	assert_int_equal(seen.command[1].table_generation, 63);
	assert_false(table_of_test()->is_beating);
}

/* ---- silence ---- */

static void silence__is_looked_for_eight_times_in_a_heartbeat(void **state)
{
	uint64_t from_ns = test.now_ns;

	(void)state;
	assert_int_equal(tables_wake_ns(&test.server), from_ns + LOOK_MS * MS_NS);
	tables_tick(&test.server, from_ns + LOOK_MS * MS_NS - 1);
	assert_int_equal(test.server.tables_ns, from_ns);
	tables_tick(&test.server, from_ns + LOOK_MS * MS_NS);
	assert_int_equal(test.server.tables_ns, from_ns + LOOK_MS * MS_NS);
	for (uint32_t look = 2; look < 8; look++)
		tables_tick(&test.server, from_ns + look * LOOK_MS * MS_NS);
	table_of_test()->heard_ns++;
	tables_tick(&test.server, from_ns + 8 * LOOK_MS * MS_NS);
	assert_int_equal(seen.messages, 0);
	assert_int_equal(seen.commands, 1); /* of the last table: its server is not there */
	assert_int_equal(seen.command[0].job, SHARD_TABLES_MAX - 1);
	tables_tick(&test.server, from_ns + 9 * LOOK_MS * MS_NS);
	assert_int_equal(seen.commands, 2);
	assert_int_equal(seen.command[1].type, SHARD_TABLE_REMOVE);
	assert_int_equal(seen.command[1].job, INDEX);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message[0].type, CONTROL_ABORT);
	assert_int_equal(seen.message[0].end.cause, CONTROL_TIMEOUT);
	assert_int_equal(seen.message[0].end.rank, CONTROL_RANK_NONE);
	assert_string_equal(seen.message[0].end.text, "its server was silent for 800 ms");
	assert_int_equal(seen.last_words, 1);
	assert_line_begins(1, SERVER_WARN, "its server was silent for 800 ms");
	test.server.tables_count = 0;
	assert_int_equal(tables_wake_ns(&test.server), UINT64_MAX);
}

/* R-CT-9: who comes to look twice as late as he should has slept himself. */
static void silence__while_the_aggregator_slept_is_nobodys(void **state)
{
	uint64_t late_ns = test.now_ns + 20 * LOOK_MS * MS_NS;

	(void)state;
	tables_tick(&test.server, late_ns);
	assert_int_equal(seen.commands, 0);
	assert_int_equal(table_of_test()->heard_ns, late_ns);
	table_of_test()->heard_ns = 0;
	tables_tick(&test.server, late_ns + 2 * LOOK_MS * MS_NS);
	assert_int_equal(seen.commands, 0);
	table_of_test()->heard_ns = 0;
	tables_tick(&test.server, late_ns + 4 * LOOK_MS * MS_NS - 1);
	assert_int_equal(seen.commands, 1);
}

#define TABLES_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLES_TEST(ack__of_an_addition_grants_the_table),
		TABLES_TEST(ack__of_an_addition_that_has_failed_is_the_end),
		TABLES_TEST(ack__of_an_addition_at_a_local_one_tells_the_address),
		TABLES_TEST(ack__of_an_addition_without_room_says_who_has_it),
		TABLES_TEST(close__is_obeyed_and_answered_once),
		TABLES_TEST(beat__before_the_grant_is_of_no_table),
		TABLES_TEST(ack__of_what_is_leaving_waits_for_the_removal),
		TABLES_TEST(beat__is_answered_by_the_shard_one_at_a_time),
		TABLES_TEST(silence__is_looked_for_eight_times_in_a_heartbeat),
		TABLES_TEST(silence__while_the_aggregator_slept_is_nobodys),
	};

	return cmocka_run_group_tests_name("server-tables", tests, NULL, NULL);
}
