/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_share_test.c - which server of its table it is, by what it has and what OPEN says: R-KV-22. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/kv/server_kv_share.h"
#include "core/shared/hash.h"

static struct server_kv_share has, said;

static enum server_kv_share_verdict judged(bool is_here)
{
	return server_kv_share_judge(&has, &said, is_here, NULL, 0);
}

/* It is number 1 of 2, and another one's list has it in another place. */
static int setup(void **state)
{
	(void)state;
	has = (struct server_kv_share){ .index = 1, .count = 2, .is_known = true };
	memset(has.identity, 7, sizeof(has.identity));
	said = has;
	return 0;
}

static void place__is_fixed_once_used_or_while_another_is_here(void **state)
{
	(void)state;
	assert_int_equal(judged(true), SERVER_KV_SHARE_FITS);
	said.index = 0;
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS);
	assert_int_equal(judged(true), SERVER_KV_SHARE_PLACE);
	has.is_used = true;
	assert_int_equal(judged(false), SERVER_KV_SHARE_PLACE);
	said.index = 1;
	said.count = 3;
	assert_int_equal(judged(false), SERVER_KV_SHARE_PLACE);
	has = (struct server_kv_share){ .count = 0 };
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS);
	said.is_used = true; /* its folder is gone */
	assert_int_equal(judged(false), SERVER_KV_SHARE_NOTHING);
}

static void identity__is_that_of_the_table(void **state)
{
	(void)state;
	said.identity[15] = 8;
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS); /* it is not fixed yet */
	assert_int_equal(judged(true), SERVER_KV_SHARE_IDENTITY);
	said.is_used = true;
	assert_int_equal(judged(false), SERVER_KV_SHARE_IDENTITY);
	has.is_known = false;
	assert_int_equal(judged(true), SERVER_KV_SHARE_FITS);
	has.is_known = true;
	memset(said.identity, 0, sizeof(said.identity)); /* not said */
	assert_int_equal(judged(true), SERVER_KV_SHARE_FITS);
}

static void list__is_the_first_servers_to_know(void **state)
{
	(void)state;
	memset(has.list, 3, sizeof(has.list));
	memset(said.list, 4, sizeof(said.list));
	assert_int_equal(judged(true), SERVER_KV_SHARE_FITS);
	has.index = said.index = 0;
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS);
	assert_int_equal(judged(true), SERVER_KV_SHARE_LIST);
	has.is_used = true;
	assert_int_equal(judged(false), SERVER_KV_SHARE_LIST);
	memset(said.list, 0, sizeof(said.list));
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS);
	memset(said.list, 4, sizeof(said.list));
	memset(has.list, 0, sizeof(has.list));
	assert_int_equal(judged(false), SERVER_KV_SHARE_FITS);
}

/* Of 16 keys, or more, that are all another one's. */
static void map__of_another_server_is_told_by_16_keys(void **state)
{
	uint64_t keys[3][20], at[3] = { 0 };
	struct server_kv_share share = { .index = 1, .count = 3 };
	const uint64_t *map = keys[2];
	uint32_t count = 16;

	(void)state;
	for (uint64_t key = 1; at[0] < 20 || at[1] < 20 || at[2] < 20; key++) {
		uint64_t whose = hash_number(HASH_BEGIN, key, 8) % 3;

		if (at[whose] < 20)
			keys[whose][at[whose]++] = key;
	}
	assert_true(server_kv_share_is_others(&share, map, count));
	count = 15;
	assert_false(server_kv_share_is_others(&share, map, count));
	count = 16;
	share.count = 1;
	assert_false(server_kv_share_is_others(&share, map, count));
	share = (struct server_kv_share){ .index = 2, .count = 3 };
	assert_false(server_kv_share_is_others(&share, map, count));
	share.index = 1;
	keys[2][15] = keys[1][0]; /* its own is among them */
	assert_false(server_kv_share_is_others(&share, map, count));
	keys[2][15] = keys[0][0]; /* two others' */
	assert_false(server_kv_share_is_others(&share, map, count));
	keys[2][15] = keys[2][16];
	map = keys[0];
	assert_true(server_kv_share_is_others(&share, map, count));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(place__is_fixed_once_used_or_while_another_is_here),
		T(identity__is_that_of_the_table),
		T(list__is_the_first_servers_to_know),
		T(map__of_another_server_is_told_by_16_keys),
#undef T
	};

	return cmocka_run_group_tests_name("core-server_kv_share", tests, NULL, NULL);
}
