/* SPDX-License-Identifier: Apache-2.0 */
/* shares_test.c - what a table keeps of which server it is, and what --adopt makes of it (R-KV-22): share.c, and what
 * recover.c takes of a record. Random bytes and the log are the test's. */
#include "ps/lines_fixture.h"

static struct {
	struct ps_server server;
	struct ps_table table;
	bool is_random_out, is_joined;
	uint32_t shares, uses; /* how often it was recorded */
} test;

bool __wrap_ps_random(void *at, size_t bytes);
void __wrap_ps_table_share(struct ps_table *table, const struct server_kv_share *share);
void __wrap_ps_table_use(struct ps_table *table);
bool __wrap_ps_table_is_joined(const struct ps_table *table);

bool __wrap_ps_random(void *at, size_t bytes)
{
	assert_int_equal(bytes, KV_IDENTITY_BYTES);
	memset(at, 0x5a, bytes);
	return !test.is_random_out;
}

void __wrap_ps_table_share(struct ps_table *table, const struct server_kv_share *share)
{
	assert_ptr_equal(table, &test.table);
	table->share = *share;
	test.shares++;
}

void __wrap_ps_table_use(struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	test.uses++;
}

bool __wrap_ps_table_is_joined(const struct ps_table *table)
{
	assert_ptr_equal(table, &test.table);
	return test.is_joined;
}

static struct ps_hosted *hosted(void)
{
	return &test.server.hosted[0];
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	memset(&heard, 0, sizeof(heard));
	hosted()->table = &test.table;
	strcpy(hosted()->options.table.name, "emb");
	return 0;
}

static bool take(uint16_t server, uint16_t servers, uint8_t identity, uint8_t list)
{
	struct kv_message open = { .type = KV_OPEN, .server = server, .servers = servers };

	memset(open.identity, identity, sizeof(open.identity));
	memset(open.own, list, sizeof(open.own));
	return ps_share_take(hosted(), &open);
}

static void assert_share(uint16_t index, uint16_t count, uint8_t identity, uint8_t list)
{
	const struct server_kv_share *is = &test.table.share;

	assert_int_equal(is->index, index);
	assert_int_equal(is->count, count);
	assert_true(is->is_known);
	assert_int_equal(is->identity[0], identity);
	assert_int_equal(is->identity[15], identity);
	assert_int_equal(is->own[0], 0x5a);
	assert_int_equal(is->own[15], 0x5a);
	assert_int_equal(is->list[0], list);
	assert_int_equal(is->list[15], list);
}

/* What is news is recorded, and nothing else. */
static void take__records_what_is_new(void **state)
{
	(void)state;
	assert_true(take(0, 2, 0, 0));
	assert_share(0, 2, 0x5a, 0);
	assert_int_equal(test.shares, 1);
	assert_true(take(0, 2, 0, 0));
	assert_true(take(0, 2, 0x5a, 0));
	assert_int_equal(test.shares, 1);
	assert_int_equal(test.uses, 0);
	assert_true(take(0, 2, 0x5a, 7)); /* from here on it may push to the others */
	assert_share(0, 2, 0x5a, 7);
	assert_int_equal(test.shares, 2);
	assert_int_equal(test.uses, 1);
	assert_true(take(0, 2, 0x5a, 7));
	assert_int_equal(test.shares, 2);
	assert_int_equal(test.uses, 2);
	assert_true(take(0, 2, 9, 0));
	assert_share(0, 2, 9, 7);
	assert_int_equal(test.shares, 3);
	assert_true(take(1, 2, 9, 8)); /* what others are is the first one's to know */
	assert_share(1, 2, 9, 0);
	assert_int_equal(test.shares, 4);
	assert_int_equal(test.uses, 2);
	assert_true(take(1, 3, 9, 8));
	assert_share(1, 3, 9, 0);
	assert_int_equal(test.shares, 5);
}

/* A folder of before has no number of its own yet. */
static void take__gives_a_number_to_a_server_that_has_none(void **state)
{
	(void)state;
	test.table.share = (struct server_kv_share){ .index = 1, .count = 2, .is_known = true };
	memset(test.table.share.identity, 9, KV_IDENTITY_BYTES);
	assert_true(take(1, 2, 9, 0));
	assert_share(1, 2, 9, 0);
	assert_int_equal(test.shares, 1);
}

static void take__needs_random_bytes(void **state)
{
	(void)state;
	test.is_random_out = true;
	assert_false(take(0, 1, 0, 0));
	assert_false(take(0, 1, 9, 0));
	assert_int_equal(test.shares, 0);
}

/* ---- --adopt ---- */

static int adopt(uint16_t index, uint16_t count, const char *text)
{
	char error[PS_ERROR_MAX] = "";
	int result;

	test.server.options.adopt_index = index;
	test.server.options.adopt_count = count;
	result = ps_share_adopt(&test.server, hosted(), error);
	assert_string_equal(error, text);
	return result;
}

static void adopt__of_none_needs_a_folder_that_says_it(void **state)
{
	(void)state;
	assert_int_equal(adopt(0, 0, ""), 0);
	test.is_joined = true;
	assert_int_equal(
		adopt(0, 0,
		      "table emb: its folder does not say which of how many servers it is of, for "
		      "an older tally-ps has made it: start it once with --adopt 0/1 if it is the "
		      "only one, else with its place in the workers' list, from 0, and their "
		      "number: "
		      "--adopt INDEX/COUNT"),
		-1);
	test.table.share.count = 1;
	assert_int_equal(adopt(0, 0, ""), 0);
	assert_int_equal(test.shares, 0);
}

static void adopt__makes_it_that_server(void **state)
{
	(void)state;
	assert_int_equal(adopt(1, 3, ""), 0);
	assert_int_equal(test.shares, 1);
	assert_int_equal(test.table.share.index, 1);
	assert_int_equal(test.table.share.count, 3);
	assert_true(test.table.share.is_used);
	assert_false(test.table.share.is_known); /* the first worker says whose it is */
	assert_int_equal(test.table.share.identity[0], 0);
	assert_line(0, PS_WARN, "emb", "adopted as that of number 2 of 3 servers");
	setup(NULL);
	assert_int_equal(adopt(0, 3, ""), 0); /* the first one's is the table's */
	assert_true(test.table.share.is_known);
	assert_int_equal(test.table.share.identity[0], 0x5a);
	assert_line(0, PS_WARN, "emb", "adopted as that of number 1 of 3 servers");
	setup(NULL);
	test.is_random_out = true;
	assert_int_equal(adopt(0, 3, "table emb: the kernel has no random bytes"), -1);
	assert_int_equal(test.shares, 0);
}

static void adopt__of_what_is_used_stays_it(void **state)
{
	struct server_kv_share *share = &test.table.share;

	(void)state;
	*share = (struct server_kv_share){
		.index = 1, .count = 3, .is_used = true, .is_known = true
	};
	memset(share->list, 7, sizeof(share->list));
	memset(share->own, 0x5a, sizeof(share->own));
	assert_int_equal(
		adopt(2, 3,
		      "table emb: --adopt 2/3: its folder is that of number 2 of 3 servers "
		      "(1/3), and stays it"),
		-1);
	assert_int_equal(
		adopt(1, 2,
		      "table emb: --adopt 1/2: its folder is that of number 2 of 3 servers "
		      "(1/3), and stays it"),
		-1);
	assert_int_equal(test.shares, 0);
	assert_int_equal(adopt(1, 3, ""), 0);
	assert_int_equal(test.shares, 1);
	assert_share(1, 3, 0, 0); /* which the others are is asked anew */
	assert_int_equal(heard.lines, 0);
}

/* ---- records ---- */

static void record__of_a_share_has_all_of_it(void **state)
{
	const struct server_kv_share *is = &test.table.share;
	uint8_t body[RECORD_SHARE_BYTES + 1];
	char error[PS_ERROR_MAX];

	(void)state;
	for (uint32_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(100 + i);
	memcpy(body, "\x3f\0\x40\0\x03\0\0\0", 8); /* 63 of 64 */
	test.table.has_table = true;
	assert_int_equal(ps_table_take(&test.table, RECORD_SHARE, body, RECORD_SHARE_BYTES, error),
			 0);
	assert_int_equal(is->index, 63);
	assert_int_equal(is->count, 64);
	assert_true(is->is_used && is->is_known);
	assert_memory_equal(is->identity, body + 8, 16);
	assert_memory_equal(is->own, body + 24, 16);
	assert_memory_equal(is->list, body + 40, 16);
	for (uint32_t i = 0; i < 6; i++) {
		static const uint8_t wrong[][4] = { { 0x40, 0, 0x40, 0 }, { 0, 0, 0, 0 },
						    { 0, 0, 0x41, 0 },    { 0, 1, 0x40, 0 },
						    { 0, 0, 0, 1 },       { 1, 0, 1, 0 } };

		memcpy(body, wrong[i], 4);
		assert_int_equal(ps_table_take(&test.table, RECORD_SHARE, body, RECORD_SHARE_BYTES,
					       error),
				 -1);
		assert_string_equal(error, "a server's share that cannot be");
	}
	body[4] = 2;
	memcpy(body, "\0\0\1\0", 4);
	assert_int_equal(ps_table_take(&test.table, RECORD_SHARE, body, RECORD_SHARE_BYTES, error),
			 0);
	assert_true(!is->is_used && is->is_known);
	for (uint32_t more = 0; more < 2; more++) {
		assert_int_equal(ps_table_take(&test.table, RECORD_SHARE, body,
					       RECORD_SHARE_BYTES - 1 + 2 * more, error),
				 -1);
		assert_string_equal(error, "a server's share of another length than 56");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(take__records_what_is_new),
		T(take__gives_a_number_to_a_server_that_has_none),
		T(take__needs_random_bytes),
		T(adopt__of_none_needs_a_folder_that_says_it),
		T(adopt__makes_it_that_server),
		T(adopt__of_what_is_used_stays_it),
		T(record__of_a_share_has_all_of_it),
#undef T
	};

	return cmocka_run_group_tests_name("ps-shares", tests, NULL, NULL);
}
