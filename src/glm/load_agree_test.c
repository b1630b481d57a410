/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include "glm/exchange_fixture.h"
#include "glm/load.h"

#include <cmocka.h>

enum { RANKS = 5 };

/* One rank, in a thread. */
struct agreeing {
	struct glm_data data;
	struct exchange *exchange;
	int result;
	char error[GLM_ERROR_MAX];
};

static struct agreeing all[RANKS];
static struct shared shared;

static void *agree(void *arg)
{
	struct agreeing *rank = arg;

	rank->result = glm_load_agree(&rank->data, rank->exchange, rank->error);
	return NULL;
}

static void begin(void)
{
	memset(all, 0, sizeof(all));
	shared_init(&shared, RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		all[i].data.hash = 0xfedcba9876543210;
		all[i].data.rows = 0x123456789;
		all[i].data.features = 100;
		all[i].data.columns.shares = RANKS;
		all[i].data.columns.first[RANKS] = 80;
		all[i].exchange = shared_open(&shared, i);
	}
}

/* All ranks come to the same end: this error, or none. */
static void agreed(const char *error)
{
	pthread_t thread[RANKS];

	for (uint32_t i = 0; i < RANKS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, agree, &all[i]), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_string_equal(all[i].error, error);
		assert_int_equal(all[i].result, *error ? -1 : 0);
		all[i].exchange->ops->close(all[i].exchange);
	}
}

static void agree__the_same_file_is_no_error(void **state)
{
	(void)state;
	begin();
	agreed("");
}

static void agree__one_rank_has_nobody_to_differ_from(void **state)
{
	const struct glm_data data = { .rows = 7, .columns = { .shares = 1 } };
	struct exchange *exchange;
	char error[GLM_ERROR_MAX];

	(void)state;
	assert_int_equal(exchange_none(&exchange), 0);
	assert_int_equal(glm_load_agree(&data, exchange, error), 0);
	exchange->ops->close(exchange);
}

static void agree__the_odd_ranks_are_named_after_the_majority(void **state)
{
	(void)state;
	begin();
	all[0].data.hash ^= 1ull << 63;
	agreed("the ranks' files differ: ranks 1-4 have one of 4886718345 rows, rank 0 has another "
	       "of 4886718345 rows");
	begin();
	all[1].data.hash++;
	all[1].data.rows = 7;
	all[2].data.hash ^= 1ull << 31;
	all[2].data.rows = 8;
	all[4].data = all[1].data;
	agreed("the ranks' files differ: ranks 0, 3 have one of 4886718345 rows, ranks 1, 4 have "
	       "another of 7 rows, "
	       "rank 2 has another of 8 rows");
}

static void agree__another_split_of_the_same_file_is_named(void **state)
{
	(void)state;
	begin();
	all[3].data.columns.shares = 2 * RANKS;
	agreed("the ranks split the columns differently: ranks 0-2, 4 have one of 5 shares, rank 3 "
	       "has another of 10 "
	       "shares");
	begin();
	all[3].data.features = 99;
	agreed("the ranks split the columns differently: ranks 0-2, 4 have one of 5 shares, rank 3 "
	       "has another of 5 "
	       "shares");
	begin();
	all[3].data.columns.first[2] = 1;
	agreed("the ranks split the columns differently: ranks 0-2, 4 have one of 5 shares, rank 3 "
	       "has another of 5 "
	       "shares");
}

static void agree__an_exchange_that_fails_says_why(void **state)
{
	(void)state;
	begin();
	all[0].exchange->ops->abort(all[0].exchange);
	agreed("the shared exchange was aborted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agree__the_same_file_is_no_error),
		cmocka_unit_test(agree__one_rank_has_nobody_to_differ_from),
		cmocka_unit_test(agree__the_odd_ranks_are_named_after_the_majority),
		cmocka_unit_test(agree__another_split_of_the_same_file_is_named),
		cmocka_unit_test(agree__an_exchange_that_fails_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
