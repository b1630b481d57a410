/* SPDX-License-Identifier: Apache-2.0 */
/* loss_later_test.c - a log that is damaged in front of others: how much is gone with all of them, to the byte. */
#include "ps/table_fixture.h"

enum { LOGS = 3, LEFT = 2 }; /* batches of the first that are whole */

static const uint32_t batches[LOGS] = { 5, 3, 2 }, epochs[LOGS] = { 0, 1, 4 };

static struct state whole;
static uint64_t whole_bytes;

/* One life for each log, with an orderly end, which begins another. */
static void lives(const struct ps_table_options *options)
{
	struct rng rng;

	rng_init(&rng, 101, 0);
	for (uint32_t i = 0; i < LOGS; i++) {
		struct ps_table *table = open_with(options);

		begin(table, 5 + i);
		if (i) { /* who was there before is replaced, which takes a fence */
			settle(table);
			home_sparse_instance(table->home, 10 + i, 0, &at_switch);
		}
		for (uint16_t k = 0; k < batches[i]; k++) {
			assert_int_equal(batch(table, k % WORKERS, &rng), PS_BATCH_TAKEN);
			if (i || k + 1 != LEFT)
				continue;
			settle(table);
			state_take(table, &whole);
			whole_bytes = ps_table_position(table);
		}
		for (uint32_t k = 0; k < epochs[i]; k++)
			epoch(table, &rng);
		if (ps_table_end(table, error))
			fail_msg("%s", error);
		ps_table_close(table);
	}
}

static uint64_t bytes_of(uint64_t number)
{
	struct stat is;
	char path[96];

	name_of(number, "log", path);
	assert_int_equal(stat(path, &is), 0);
	return (uint64_t)is.st_size;
}

/* Of the first it is what the next says, of the others what is there. */
static void loss__in_front_of_later_logs_is_all_that_they_had_too(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	uint64_t bytes = 0;
	char said[128], path[96];
	struct ps_table *table;
	struct state after;

	(void)unused;
	lives(&options);
	for (uint64_t number = 0; number <= LOGS; number++)
		bytes += bytes_of(number);
	name_of(0, "log", path);
	assert_int_equal(truncate(path, (off_t)whole_bytes), 0);
	for (uint32_t i = 0; i < 2; i++) { /* nothing is changed by it */
		refused_with(&options, path);
		snprintf(
			said, sizeof(said),
			": 8 batches and 5 epochs of hot keys, %llu bytes, were on the disk behind "
			"that; ",
			(unsigned long long)(bytes - whole_bytes));
		if (!strstr(error, said))
			fail_msg("\"%s\" does not say \"%s\"", error, said);
		assert_true(is_there(LOGS, "log"));
	}
	options.accepts_loss = true;
	table = open_with(&options);
	assert_true(table->has_lost);
	state_take(table, &after);
	expect_same(&after, &whole);
	ps_table_close(table);
	for (uint64_t number = 1; number <= LOGS; number++)
		assert_false(is_there(number, "log"));
}

/* The one behind both says nothing of the first of them. */
static void loss__of_two_logs_that_are_not_there_is_at_least_what_is(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	char said[128], path[96];

	(void)unused;
	lives(&options);
	for (uint64_t number = 2; number; number--) {
		name_of(number, "log", path);
		assert_int_equal(unlink(path), 0);
	}
	refused_with(&options, path);
	snprintf(said, sizeof(said),
		 ": at least 0 batches and 0 epochs of hot keys, about %llu bytes, were ",
		 (unsigned long long)bytes_of(3));
	if (!strstr(error, said))
		fail_msg("\"%s\" does not say \"%s\"", error, said);
}

/* It would come back behind what the table goes on with. */
static void loss__of_a_log_that_cannot_be_removed_is_not_accepted(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	char path[96];

	(void)unused;
	lives(&options);
	name_of(0, "log", path);
	assert_int_equal(truncate(path, (off_t)whole_bytes), 0);
	name_of(LOGS, "log", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	options.accepts_loss = true;
	refused_with(&options, "T.3.log: Is a directory");
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(loss__in_front_of_later_logs_is_all_that_they_had_too,
					  files_remove),
		cmocka_unit_test_teardown(loss__of_two_logs_that_are_not_there_is_at_least_what_is,
					  files_remove),
		cmocka_unit_test_teardown(loss__of_a_log_that_cannot_be_removed_is_not_accepted,
					  files_remove),
	};

	return cmocka_run_group_tests_name("ps-loss-later", tests, folder_make, folder_remove);
}
