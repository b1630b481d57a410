/* SPDX-License-Identifier: Apache-2.0 */
/* another_test.c - a server that opens a table, or comes back, as another than it was: what is said of it (R-KV-6, R-KV-20). */
#include "kvlib/kv_fixture.h"

static void kv__server_that_has_forgotten_is_no_server(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 13);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 3, timestamp;
	float value[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->forgets = true;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	if (!tally_kv_push(kv, &key, value, 1, &timestamp))
		failed(tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
		       "does not know this worker any more");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "does not know this worker any more");
	fake_end(fake);
}

static void another_dim(struct kv_message *opened)
{
	opened->dim++;
}

static void another_name(struct kv_message *opened)
{
	strcpy(opened->name, "others");
}

static void another_mode(struct kv_message *opened)
{
	opened->is_stepped = true;
}

static void no_map(struct kv_message *opened)
{
	opened->map = 0;
}

static void older_map(struct kv_message *opened)
{
	opened->map--;
}

static void another_unit(struct kv_message *opened)
{
	opened->scale *= 2;
}

static void no_hot_keys(struct kv_message *opened)
{
	opened->ranks = 0;
}

static void batches_ahead(struct kv_message *opened)
{
	opened->number += 7;
}

static void batches_back(struct kv_message *opened)
{
	opened->number = 1;
}

static void generation_back(struct kv_message *opened)
{
	opened->generation = 1;
}

static uint64_t generation_told; /* of the life before */

static void generation_again(struct kv_message *opened)
{
	opened->generation = generation_told;
	opened->must_report = true;
}

/* The same fence once more: its random bits are others. */
static void generation_twin(struct kv_message *opened)
{
	opened->generation = generation_told ^ 1;
	opened->must_report = true;
}

static void generation_larger_twin(struct kv_message *opened)
{
	opened->generation = generation_told | ((1ull << SPARSE_RANDOM_BITS) - 1);
}

static uint64_t fake_generation(struct fake *fake)
{
	uint64_t generation;

	pthread_mutex_lock(&fake->lock);
	generation = home_sparse_server(fake->home)->generation;
	pthread_mutex_unlock(&fake->lock);
	return generation;
}

static void opened_as(struct fake *fake, void (*how)(struct kv_message *opened))
{
	pthread_mutex_lock(&fake->lock);
	fake->opened = how;
	pthread_mutex_unlock(&fake->lock);
}

static void kv__table_that_is_another_is_not_opened(void **state)
{
	static const struct {
		void (*how)(struct kv_message *opened);
		const char *because;
	} cases[] = {
		{ another_dim, "is not the one that was asked for" },
		{ another_name, "is not the one that was asked for" },
		{ another_mode, "is of another mode than the one that was asked for" },
		{ no_map, "cannot be: of its ranks, window, bytes, map and generation" },
		{ batches_ahead, "has batches that were never sent" },
	};
	struct fake *fake = fake_begin(FAKE_HOT, 14);
	struct tally_kv_options options = options_of(fake->address, 0);
	struct tally_kv *kv = NULL;

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		opened_as(fake, cases[i].how);
		failed(tally_kv_open(&kv, "words", FAKE_DIM, &options), TALLY_ERR_REMOTE,
		       cases[i].because);
		assert_non_null(strstr(tally_get_last_error(NULL), "table words of server"));
		assert_non_null(strstr(tally_get_last_error(NULL), fake->address));
		assert_null(kv);
	}
	fake_end(fake);
}

/* Its server comes back with an older map, another unit or past: what it still keeps does not fit that. */
static void kv__table_that_comes_back_as_another_is_left(void **state)
{
	static const struct {
		void (*how)(struct kv_message *opened);
		const char *because;
	} cases[] = {
		{ older_map, "has an older map of hot keys than it had" },
		{ another_unit, "has become another one since it was opened" },
		{ no_hot_keys, "has become another one since it was opened" },
		{ batches_back, "has lost batches that it had answered" },
	};
	uint64_t key = 4, timestamp; /* a cold one */
	float value[FAKE_DIM] = { 1, -2, 3 };

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake *fake = fake_begin(FAKE_HOT, 15 + i);
		struct tally_kv *kv = open_of(fake->address, 0);
		int result;

		ok(tally_kv_push(kv, &key, value, 1, &timestamp));
		ok(tally_kv_wait(kv, timestamp, -1));
		opened_as(fake, cases[i].how);
		fake_restart(fake);
		result = tally_kv_push(kv, &key, value, 1, &timestamp);
		failed(result ? result : tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
		       cases[i].because);
		failed(tally_kv_close(kv), TALLY_ERR_REMOTE, cases[i].because);
		fake_end(fake);
	}
}

/* Its log was cut off: a generation that this worker has been told of, or is in, would begin another time. */
static void kv__generation_that_there_was_before_is_no_way_to_go_on(void **state)
{
	void (*const how[])(struct kv_message * opened) = { generation_back, generation_again,
							    generation_twin,
							    generation_larger_twin };
	uint64_t key[] = { 4, 6 }, timestamp;
	float value[2 * FAKE_DIM] = { 1, -2, 3, 4, 5, 6 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		struct fake *fake = fake_begin(FAKE_HOT, 24 + i);
		struct tally_kv *kv = open_of(fake->address, 0);
		int result;

		for (uint32_t life = 0; life < 2; life++) {
			if (life)
				fake_restart(fake);
			ok(tally_kv_push(kv, key, value, 2, &timestamp));
			ok(tally_kv_wait(kv, timestamp, -1));
		}
		generation_told = fake_generation(fake);
		opened_as(fake, how[i]);
		fake_restart(fake);
		result = tally_kv_push(kv, key, value, 2, &timestamp);
		failed(result ? result : tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
		       "the end of its log is missing");
		failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "the end of its log is missing");
		fake_end(fake);
	}
}

/* No switch of its tells of one either: OPENED alone does. */
static void kv__generation_of_a_table_without_hot_keys_is_kept_in_mind(void **state)
{
	struct fake *fake = fake_begin(0, 31);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 4, timestamp;
	float value[FAKE_DIM] = { 1, -2, 3 };
	int result;

	(void)state;
	ok(tally_kv_push(kv, &key, value, 1, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	generation_told = fake_generation(fake);
	opened_as(fake, generation_larger_twin);
	fake_restart(fake);
	result = tally_kv_push(kv, &key, value, 1, &timestamp);
	failed(result ? result : tally_kv_wait(kv, timestamp, -1), TALLY_ERR_REMOTE,
	       "the end of its log is missing");
	failed(tally_kv_close(kv), TALLY_ERR_REMOTE, "the end of its log is missing");
	fake_end(fake);
}

/* It says once what is lost, however often it is told so, and goes on. */
static void kv__server_back_from_a_checkpoint_is_told_and_counted(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 23);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT;
	uint64_t key[] = { 4, 6 }, timestamp; /* a cold one, a hot one */
	float value[2 * FAKE_DIM] = { 1, -2, 3, 4, 5, 6 };

	(void)state;
	for (uint32_t life = 1; life <= 3; life++) {
		ok(tally_kv_push(kv, key, value, 2, &timestamp));
		ok(tally_kv_wait(kv, timestamp, -1));
		ok(tally_kv_get_stats(kv, &stats));
		assert_int_equal(stats.batches_lost, life - 1);
		assert_int_equal(stats.packets_lost, life - 1);
		pthread_mutex_lock(&fake->lock);
		fake->gathers = true;
		pthread_mutex_unlock(&fake->lock);
		fake_restart(fake);
		do {
			usleep(1000);
			ok(tally_kv_get_stats(kv, &stats));
		} while (stats.batches_lost < life);
		assert_int_equal(stats.batches_lost, life);
		assert_int_equal(stats.packets_lost, life);
	}
	ok(tally_kv_push(kv, key, value, 2, &timestamp));
	ok(tally_kv_wait(kv, timestamp, -1));
	ok(tally_kv_close(kv));
	assert_int_equal(fake->reports, 3);
	assert_int_equal(fake->reported, 3);
	fake_end(fake);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__server_that_has_forgotten_is_no_server),
		cmocka_unit_test(kv__table_that_is_another_is_not_opened),
		cmocka_unit_test(kv__table_that_comes_back_as_another_is_left),
		cmocka_unit_test(kv__generation_that_there_was_before_is_no_way_to_go_on),
		cmocka_unit_test(kv__generation_of_a_table_without_hot_keys_is_kept_in_mind),
		cmocka_unit_test(kv__server_back_from_a_checkpoint_is_told_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
