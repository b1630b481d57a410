/* SPDX-License-Identifier: Apache-2.0 */
/* asking_test.c - who asks for a table: what it gets, on which shard, and why not, word for word (R-CT-28). Shards,
 * peers, memory and chance are the test's. */
#include "server/inside_fixture.h"

#include <errno.h>

enum { PEER = 9, SHARDS = 3, RANKS = 100, DIM = 2, WINDOW = 8, WORKERS = 2 };
enum { TABLE_BYTES = 5992 }; /* of that shape: two banks, and what is kept for each worker */

static struct {
	uint32_t commands, denials;
	struct shard_command command;
	const struct shard *to;
	enum control_cause cause;
	char text[CONTROL_TEXT_BYTES];
	struct control_message message;
	uint32_t messages, last_words;
	uint32_t allocations, fails_at; /* from 1; 0: never */
	int blocks;                     /* taken and not given back */
	uint64_t used[SHARDS];
} seen;

static struct control_table_open asked;
static struct table others[SHARD_TABLES_MAX];

void __wrap_shard_send(struct shard *shard, const struct shard_command *command);
void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message);
void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns);
void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns);
void __wrap_peer_deny_ending(struct server *server, struct peer *peer, uint64_t now_ns);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_shard_send(struct shard *shard, const struct shard_command *command)
{
	assert_int_equal(seen.commands, 0);
	seen.commands++;
	seen.command = *command;
	seen.to = shard;
}

void __wrap_peer_send(struct server *server, struct peer *peer,
		      const struct control_message *message)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[PEER]);
	seen.messages++;
	seen.message = *message;
}

void __wrap_peer_last_words(struct server *server, struct peer *peer, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[PEER]);
	assert_true(now_ns > 0);
	seen.last_words++;
}

void __wrap_peer_deny(struct server *server, struct peer *peer, enum control_cause cause,
		      const char *text, uint64_t now_ns)
{
	assert_ptr_equal(server, &test.server);
	assert_ptr_equal(peer, &test.peers[PEER]);
	assert_int_equal(now_ns, test.now_ns);
	seen.denials++;
	seen.cause = cause;
	snprintf(seen.text, sizeof(seen.text), "%s", text);
}

void __wrap_peer_deny_ending(struct server *server, struct peer *peer, uint64_t now_ns)
{
	__wrap_peer_deny(server, peer, CONTROL_DENIED, "ending", now_ns);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	if (++seen.allocations == seen.fails_at)
		return NULL;
	seen.blocks++;
	return __real_calloc(count, bytes);
}

void __wrap_free(void *block)
{
	seen.blocks -= block != NULL;
	__real_free(block);
}

static int setup(void **state)
{
	memset(&seen, 0, sizeof(seen));
	memset(others, 0, sizeof(others));
	if (inside_setup(state))
		return -1;
	test.server.options.shards = SHARDS;
	test.server.options.share = 100;
	test.server.options.tables_max = 5;
	test.server.options.memory_total = 1 << 30;
	for (uint32_t k = 0; k < SHARDS; k++)
		test.server.shards[k] = (struct shard *)(void *)&seen.used[k];
	test.peers[PEER] = (struct peer){ .conn = (struct conn *)(void *)test.peers,
					  .handle = PEERS_MAX + PEER,
					  .job = NO_JOB,
					  .table = NO_TABLE,
					  .source = 7,
					  .text = "10.0.0.9:4000" };
	asked = (struct control_table_open){ .version_min = 1,
					     .version_max = CONTROL_VERSION,
					     .workers = WORKERS,
					     .window = WINDOW,
					     .dim = DIM,
					     .bytes = 512,
					     .ranks = RANKS,
					     .pid = 99,
					     .pairs_max = 200,
					     .age_us = 20000,
					     .job = "ctr",
					     .table = "emb",
					     .host = "ps-0" };
	return 0;
}

static int teardown(void **state)
{
	free(seen.command.table);
	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++)
		if (test.server.tables[i] != &others[i])
			free(test.server.tables[i]);
	return inside_teardown(state);
}

/* One that is there. */
static struct table *put(uint32_t index, uint16_t shard, const char *job, const char *name)
{
	struct table *table = &others[index];

	*table = (struct table){ .index = (uint16_t)index, .shard = shard, .source = 7 };
	snprintf(table->open.job, sizeof(table->open.job), "%s", job);
	snprintf(table->open.table, sizeof(table->open.table), "%s", name);
	strcpy(table->open.host, "ps-1");
	table->bytes = 4096;
	test.server.tables[index] = table;
	test.server.tables_count++;
	return table;
}

static void ask(void)
{
	table_open(&test.server, &test.peers[PEER], &asked, test.now_ns);
}

/* Both it and the operator hear why not. */
static void assert_denied(enum control_cause cause, const char *words)
{
	uint32_t count = test.server.tables_count, lines = test.lines;
	char line[LINE_BYTES];

	seen.denials = 0;
	ask();
	assert_int_equal(seen.denials, 1);
	assert_string_equal(seen.text, words);
	assert_int_equal(seen.cause, cause);
	snprintf(line, sizeof(line), "10.0.0.9:4000: denied: %s", words);
	assert_int_equal(test.lines, lines + 1);
	assert_line(lines, SERVER_WARN, "", SERVER_RANK_NONE, line);
	assert_int_equal(seen.commands, 0);
	assert_int_equal(test.server.tables_count, count);
	assert_int_equal(test.peers[PEER].table, NO_TABLE);
}

static struct table *assert_let_in(uint32_t index)
{
	struct table *table;

	seen.text[0] = 0;
	ask();
	assert_string_equal(seen.text, "");
	table = test.server.tables[index];
	assert_int_equal(test.peers[PEER].table, index);
	assert_non_null(table);
	assert_int_equal(table->index, index);
	assert_int_equal(seen.commands, 1);
	return table;
}

/* It can be tried again. */
static void forget(uint32_t index)
{
	free(seen.command.table);
	free(test.server.tables[index]);
	test.server.tables[index] = NULL;
	test.server.tables_count--;
	test.peers[PEER].table = NO_TABLE;
	memset(&seen, 0, sizeof(seen));
}

/* ---- what it gets ---- */

static void ask__gets_a_table_of_its_shape_and_the_shard_hears_of_it(void **state)
{
	static const uint8_t zeros[WIRE_NONCE_BYTES];
	const struct shard_table *add;
	const struct table *table;

	(void)state;
	strcpy(test.server.key, "sesame");
	strcpy(asked.key, "sesame");
	asked.is_stepped = 1;
	table = assert_let_in(0);
	assert_int_equal(test.server.tables_count, 1);
	assert_int_equal(table->connection, PEERS_MAX + PEER);
	assert_int_equal(table->heard_ns, test.now_ns);
	assert_int_equal(table->source, 7);
	assert_int_equal(table->shard, 0);
	assert_int_equal(table->bytes, TABLE_BYTES);
	assert_int_equal(table->instance & 0xffffff, 1);
	assert_true(table->instance >> 24); /* and random bits */
	assert_string_equal(table->open.table, "emb");
	assert_string_equal(table->open.key, ""); /* nobody needs it any more */
	assert_ptr_equal(seen.to, test.server.shards[0]);
	assert_int_equal(seen.command.type, SHARD_TABLE_ADD);
	assert_int_equal(seen.command.job, 0);
	add = seen.command.table;
	assert_int_equal(add->engine.shape.ranks, RANKS);
	assert_int_equal(add->engine.shape.workers, WORKERS);
	assert_int_equal(add->engine.shape.window, WINDOW);
	assert_int_equal(add->engine.shape.dim, DIM);
	assert_int_equal(add->engine.shape.bytes, 512);
	assert_true(add->engine.shape.is_stepped);
	assert_true(add->engine.instance == table->instance);
	assert_int_equal(add->engine.pairs_max, 200);
	assert_int_equal(add->engine.age_ns, 20000000);
	for (uint32_t i = 0; i <= WORKERS; i++) { /* the last is its server's */
		assert_memory_equal(add->nonces[i], table->nonces[i], WIRE_NONCE_BYTES);
		assert_memory_not_equal(add->nonces[i], zeros, WIRE_NONCE_BYTES);
	}
	assert_memory_equal(add->nonces[WORKERS + 1], zeros, WIRE_NONCE_BYTES);
	assert_int_equal(test.lines + seen.denials, 0);
}

static void ask__gets_the_first_free_index_and_the_shard_with_the_fewest(void **state)
{
	struct table *table;

	(void)state;
	put(0, 0, "a", "a");
	put(1, 2, "a", "b");
	put(3, 0, "a", "c");
	table = assert_let_in(2);
	assert_int_equal(table->shard, 1);
	assert_ptr_equal(seen.to, test.server.shards[1]);
	assert_int_equal(seen.command.table->engine.shape.index, 2);
	forget(2);
	put(SHARD_TABLES_MAX - 1, 1, "a", "d"); /* of a time when there were more */
	put(200, 1, "a", "e");
	assert_int_equal(assert_let_in(2)->shard, 2);
	forget(2);
	put(201, 2, "a", "f"); /* all have two: the first */
	assert_int_equal(assert_let_in(2)->shard, 0);
	forget(2);
	put(2, 0, "a", "g"); /* the last place */
	assert_int_equal(assert_let_in(4)->shard, 1);
}

static void ask__gets_another_instance_each_time_and_never_0(void **state)
{
	static const uint64_t before[] = { 0, 1, 0xfffffe, 0xffffff, 0x1ffffff };
	static const uint64_t counts[] = { 1, 2, 0xffffff, 1, 1 };

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		test.server.instance = before[i];
		assert_int_equal(assert_let_in(0)->instance & 0xffffff, counts[i]);
		forget(0);
	}
}

static void ask__as_large_as_a_datagram_can_just_hold(void **state)
{
	(void)state;
	asked.bytes = 40 + 8 + 8 * WINDOW; /* a row */
	assert_let_in(0);
	forget(0);
	asked.dim = 9;
	asked.bytes = 40 + 8 + 8 * WINDOW + 4; /* a sum, which is larger by now */
	assert_let_in(0);
	forget(0);
	test.server.options.registers = 16;
	asked.bytes = 192;
	assert_let_in(0);
	forget(0);
	test.server.options.registers = 0;
	asked.bytes = 193;
	assert_let_in(0);
	forget(0);
	asked.version_min = 0;
	asked.version_max = CONTROL_VERSION + 1;
	assert_let_in(0);
}

/* ---- why not ---- */

#define ITS "table \"emb\" of job \"ctr\": "

static void ask__with_a_wrong_key_or_version_hears_so(void **state)
{
	(void)state;
	strcpy(test.server.key, "sesame");
	asked.bytes = 1; /* which a stranger need not hear */
	assert_denied(CONTROL_DENIED,
		      ITS "its server on ps-0 gave no key, and this aggregator wants one");
	strcpy(asked.key, "mustard");
	assert_denied(CONTROL_DENIED,
		      ITS "its server on ps-0 gave a key that is not this aggregator's");
	strcpy(asked.key, "sesame");
	asked.version_min = asked.version_max = 4;
	assert_denied(CONTROL_VERSION_BAD,
		      ITS "its server on ps-0 speaks protocol versions 4 to 4, this aggregator 3");
	asked.version_min = asked.version_max = 0;
	assert_denied(CONTROL_VERSION_BAD,
		      ITS "its server on ps-0 speaks protocol versions 0 to 0, this aggregator 3");
}

static void ask__for_a_shape_that_nobody_can_have_hears_why(void **state)
{
	static const char row[] = ITS "bytes: a datagram must hold a row of the window's numbers";
	static const char sum[] = ITS "bytes: a datagram must hold a sum of dim values";

	(void)state;
	asked.bytes = 40 + 8 + 8 * WINDOW - 1;
	assert_denied(CONTROL_DENIED, row);
	asked.dim = 9;
	asked.bytes = 40 + 4 + 8 * 9 - 1;
	assert_denied(CONTROL_DENIED, sum);
	asked.dim = DIM;
	asked.bytes = 512;
	asked.workers = 0;
	assert_denied(CONTROL_DENIED, ITS "its shape");
	asked.workers = WORKERS;
	asked.bytes = 193;
	test.server.options.registers = 16;
	assert_denied(CONTROL_DENIED, ITS "bytes: this aggregator counts as a chip does "
					  "(--faithful), which takes datagrams of at most 192");
}

static void ask__while_it_drains_hears_that_it_ends(void **state)
{
	(void)state;
	test.server.is_draining = true;
	ask();
	assert_string_equal(seen.text, "ending");
	assert_int_equal(seen.denials, 1);
	assert_int_equal(seen.commands + test.lines, 0);
}

static void ask__for_one_too_many_hears_who_has_them(void **state)
{
	(void)state;
	test.server.options.tables_max = 1;
	put(0, 0, "ads", "wide");
	assert_denied(CONTROL_NO_RESOURCE,
		      ITS "the aggregator has as many tables as it takes (--tables-max 1): table "
			  "\"wide\" of job \"ads\" (server on ps-1, pid 0, 0 workers, 4 KiB)");
}

/* Of its job; what it replaces does not count. */
static void ask__beyond_its_jobs_quota_hears_who_has_it(void **state)
{
	(void)state;
	test.server.options.tables_memory = TABLE_BYTES + 4096 + 100;
	put(0, 0, "ctr", "wide");
	put(1, 0, "ads", "emb");
	assert_let_in(2);
	forget(2);
	test.server.options.tables_memory = TABLE_BYTES + 4096; /* just as much */
	assert_let_in(2);
	forget(2);
	test.server.options.tables_memory--;
	assert_denied(CONTROL_NO_RESOURCE,
		      ITS "the tables of its job may have 9 KiB (--tables-memory) and would have "
			  "9: table \"wide\" of job \"ctr\" (server on ps-1, pid 0, 0 workers, 4 "
			  "KiB)");
	strcpy(others[0].open.table, "emb"); /* a fence */
	assert_let_in(2);
	forget(2);
	put(3, 0, "ctr", "emb")->bytes = 1000; /* the larger one is replaced, and this one counts */
	test.server.options.tables_memory = TABLE_BYTES + 1000;
	assert_let_in(2);
	forget(2);
	test.server.options.tables_memory--;
	ask();
	assert_int_equal(seen.denials, 1);
}

static void ask__beyond_its_addresses_share_hears_so(void **state)
{
	(void)state;
	test.server.options.share = 10;
	test.server.options.tables_max = 9;
	for (uint32_t i = 0; i < 4; i++)
		put(i, 0, "ctr", i ? "wide" : "other");
	assert_denied(CONTROL_NO_RESOURCE,
		      ITS "your address has 4 of the aggregator's tables, others have 0: one may "
			  "not have more (--share 10)");
	strcpy(others[3].open.table, "emb"); /* that one will go */
	assert_let_in(4);
	forget(4);
	others[3].source = 8; /* it is no address's but its own */
	others[0].source = 7;
	put(5, 0, "ctr", "more");
	ask();
	assert_int_equal(seen.denials, 1);
}

/* Of a shard's memory, less what goes. */
static void ask__beyond_its_share_of_memory_hears_so(void **state)
{
	(void)state;
	test.server.options.shards = 1;
	test.server.options.memory_max = 1 << 10; /* a few jobs' are 4 KiB */
	test.server.options.share = 50;
	test.server.options.memory_total = 4 * TABLE_BYTES;
	put(0, 0, "ctr", "wide")->bytes = TABLE_BYTES;
	assert_let_in(1);
	forget(1);
	others[0].bytes += 2;
	assert_denied(CONTROL_NO_RESOURCE,
		      ITS "its address has 5 KiB of a shard's memory for slots and tables, others "
			  "have 0 of 23: it may not have 5 more (--share 50, --memory-total)");
	strcpy(others[0].open.table, "emb");
	assert_let_in(1);
	forget(1);
	others[0].bytes = 2 * TABLE_BYTES; /* it needs no more than it has */
	assert_let_in(1);
	forget(1);
	others[0].source = 8; /* another's, which does not go */
	put(1, 0, "ctr", "mine")->bytes = TABLE_BYTES;
	test.server.options.memory_total = 5 * TABLE_BYTES;
	ask();
	assert_int_equal(seen.denials, 1);
}

static void ask__without_memory_hears_so_and_nothing_is_left(void **state)
{
	(void)state;
	for (seen.fails_at = 1; seen.fails_at <= 2; seen.fails_at++) {
		seen.allocations = 0;
		assert_denied(CONTROL_NO_RESOURCE, ITS "the aggregator is out of memory");
		assert_null(test.server.tables[0]);
		assert_int_equal(seen.blocks, 0);
	}
}

/* ---- the end ---- */

static void end__of_the_aggregator_is_told_to_the_tables_of_a_shard_or_to_all(void **state)
{
	struct table *table = put(2, 1, "ctr", "emb");

	(void)state;
	table->connection = PEERS_MAX + PEER;
	test.peers[PEER].table = 2;
	tables_abort(&test.server, 0, false, "gone");
	assert_int_equal(seen.commands + seen.messages, 0);
	tables_abort(&test.server, 1, true, "gone");
	assert_int_equal(seen.commands, 1);
	assert_int_equal(seen.command.type, SHARD_TABLE_REMOVE);
	assert_int_equal(seen.command.job, 2);
	assert_ptr_equal(seen.to, test.server.shards[1]);
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message.type, CONTROL_ABORT);
	assert_int_equal(seen.message.end.cause, CONTROL_REMOTE);
	assert_int_equal(seen.message.end.rank, CONTROL_RANK_NONE);
	assert_true(seen.message.end.is_ending);
	assert_string_equal(seen.message.end.text, "gone");
	assert_int_equal(seen.last_words, 1);
	assert_int_equal(test.peers[PEER].table, NO_TABLE);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_WARN, "ctr", SERVER_RANK_NONE,
		    "table \"emb\" of job \"ctr\" (server on ps-1, pid 0, 0 workers, 4 KiB): gone");
	tables_abort(&test.server, -1, true, "gone"); /* it is on its way out */
	assert_int_equal(seen.messages, 1);
	seen.commands = 0;
	put(SHARD_TABLES_MAX - 1, 2, "ctr", "last");
	tables_abort(&test.server, -1, false, "gone");
	assert_int_equal(seen.commands, 1);
	assert_int_equal(seen.command.job, SHARD_TABLES_MAX - 1);
	assert_int_equal(seen.messages, 1); /* nobody is there */
}

#define ASKING_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ASKING_TEST(ask__gets_a_table_of_its_shape_and_the_shard_hears_of_it),
		ASKING_TEST(ask__gets_the_first_free_index_and_the_shard_with_the_fewest),
		ASKING_TEST(ask__gets_another_instance_each_time_and_never_0),
		ASKING_TEST(ask__as_large_as_a_datagram_can_just_hold),
		ASKING_TEST(ask__with_a_wrong_key_or_version_hears_so),
		ASKING_TEST(ask__for_a_shape_that_nobody_can_have_hears_why),
		ASKING_TEST(ask__while_it_drains_hears_that_it_ends),
		ASKING_TEST(ask__for_one_too_many_hears_who_has_them),
		ASKING_TEST(ask__beyond_its_jobs_quota_hears_who_has_it),
		ASKING_TEST(ask__beyond_its_addresses_share_hears_so),
		ASKING_TEST(ask__beyond_its_share_of_memory_hears_so),
		ASKING_TEST(ask__without_memory_hears_so_and_nothing_is_left),
		ASKING_TEST(end__of_the_aggregator_is_told_to_the_tables_of_a_shard_or_to_all),
	};

	return cmocka_run_group_tests_name("server-asking", tests, NULL, NULL);
}
