/* SPDX-License-Identifier: Apache-2.0 */
/* copy_test.c - pulls of hot keys from a worker's copy, against a server of this process (kv_fixture.h): when it is
 * not asked, and when it is. */
#include "kvlib/kv_fixture.h"

static struct tally_kv *open_copying(struct fake *fake)
{
	struct tally_kv *kv;

	flags = TALLY_KV_COPIES;
	kv = open_of(fake->address, 0);
	flags = 0;
	return kv;
}

static struct tally_kv *open_bounded(struct fake *fake, uint32_t worker, uint32_t its_flags)
{
	struct tally_kv_options options = options_of(fake->address, worker);
	struct tally_kv *kv = NULL;

	options.mode = TALLY_KV_BOUNDED;
	options.staleness = 1;
	options.flags = its_flags;
	ok(tally_kv_open(&kv, "words", FAKE_DIM, &options));
	return kv;
}

static uint64_t pulled_of(struct fake *fake)
{
	uint64_t pulled;

	pthread_mutex_lock(&fake->lock);
	pulled = fake->pulled;
	pthread_mutex_unlock(&fake->lock);
	return pulled;
}

/* Pulls the key until the server is not asked for it. */
static void pull_copied(struct tally_kv *kv, struct fake *fake, uint64_t key, float expected)
{
	for (uint32_t i = 0; i < 5000; i++) {
		uint64_t before = pulled_of(fake);
		float got[FAKE_DIM];

		ok(tally_kv_pull(kv, &key, got, 1, NULL));
		ok(tally_kv_wait(kv, 0, -1));
		for (uint32_t k = 0; k < FAKE_DIM; k++)
			assert_true(got[k] == expected);
		if (pulled_of(fake) == before)
			return;
		usleep(1000);
	}
	fail_msg("key %llu is never in the copy", (unsigned long long)key);
}

static void kv__a_copy_answers_pulls_of_hot_keys(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 24);
	const float one[4 * FAKE_DIM] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	uint64_t keys[] = { 0, 1, 6, 12 }, before; /* hot, cold, hot, hot */
	struct tally_kv *kv = open_copying(fake), *other = open_of(fake->address, 1);
	float got[4 * FAKE_DIM] = { 0 };

	(void)state;
	ok(tally_kv_push(kv, keys, one, 4, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	pull_copied(kv, fake, 6, 1);
	pull_copied(kv, fake, 18, 0); /* nobody has pushed it: pulled once */
	/* Somebody else's: known by BCAST, or pulled; and what it does not touch stays. */
	ok(tally_kv_push(other, keys, one, 3, NULL));
	ok(tally_kv_wait(other, 0, -1));
	for (uint32_t i = 0; i < 1000 && got[2 * FAKE_DIM] != 2; i++) {
		ok(tally_kv_pull(kv, keys, got, 4, NULL));
		ok(tally_kv_wait(kv, 0, -1));
		usleep(1000);
	}
	pull_copied(kv, fake, 6, 2);
	pull_copied(kv, fake, 12, 1);
	before = pulled_of(fake);
	ok(tally_kv_pull(kv, keys, got, 4, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	assert_int_equal(pulled_of(fake), before + 1); /* the cold one */
	for (uint32_t i = 0; i < 4 * FAKE_DIM; i++)
		assert_true(got[i] == (i / FAKE_DIM < 3 ? 2 : 1));
	/* Who has none asks for all. */
	ok(tally_kv_pull(other, keys, got, 4, NULL));
	ok(tally_kv_wait(other, 0, -1));
	assert_int_equal(pulled_of(fake), before + 5);
	ok(tally_kv_close(other));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* Its datagrams go where nobody is: a worker hears of no epoch any more, but over TCP. */
static void mute(struct fake *fake, uint16_t worker)
{
	struct link_address nowhere;

	pthread_mutex_lock(&fake->lock);
	nowhere = fake->at_worker[worker];
	nowhere.port = 9;
	home_sparse_worker(fake->home, worker, &nowhere);
	engine_sparse_bind(fake->engine, fake->index, worker, &nowhere);
	pthread_mutex_unlock(&fake->lock);
}

static void *barrier_main(void *kv)
{
	ok(tally_kv_barrier(kv));
	return NULL;
}

static float pull_one(struct tally_kv *kv, uint64_t key)
{
	float got[FAKE_DIM];

	ok(tally_kv_pull(kv, &key, got, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	return got[0];
}

/* Of what it does not hear of a worker knows nothing, until a barrier tells. */
static void kv__after_a_barrier_a_copy_is_not_older(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 25);
	struct tally_kv *kv = open_copying(fake), *other = open_of(fake->address, 1);
	const float one[FAKE_DIM] = { 1, 1, 1 };
	uint64_t key = 6;
	pthread_t thread;

	(void)state;
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	pull_copied(kv, fake, key, 1);
	mute(fake, 0);
	ok(tally_kv_push(other, &key, one, 1, NULL));
	ok(tally_kv_wait(other, 0, -1));
	assert_true(pull_one(other, key) == 2);
	assert_true(pull_one(kv, key) == 1);
	assert_int_equal(pthread_create(&thread, NULL, barrier_main, other), 0);
	ok(tally_kv_barrier(kv));
	pthread_join(thread, NULL);
	assert_true(pull_one(kv, key) == 2);
	ok(tally_kv_close(other));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* R-KV-15: after two steps it has what others pushed in the first one, be it of the last epoch. A staleness of 1 is no bound
 * of 1 in R-SP-31: a step is not an epoch. */
static void kv__a_copy_of_a_bounded_worker_is_no_epoch_late(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 26);
	struct tally_kv *kv = open_bounded(fake, 0, TALLY_KV_COPIES),
			*other = open_bounded(fake, 1, 0);
	const float one[FAKE_DIM] = { 1, 1, 1 };
	uint64_t key = 6;

	(void)state;
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	pull_copied(kv, fake, key, 1);
	mute(fake, 0);
	ok(tally_kv_push(other, &key, one, 1, NULL));
	ok(tally_kv_wait(other, 0, -1));
	for (int i = 0; i < 2; i++) {
		ok(tally_kv_step(kv, NULL));
		ok(tally_kv_step(other, NULL));
	}
	ok(tally_kv_wait(kv, 0, -1));
	assert_true(pull_one(kv, key) == 2);
	ok(tally_kv_close(other));
	ok(tally_kv_close(kv));
	fake_end(fake);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__a_copy_answers_pulls_of_hot_keys),
		cmocka_unit_test(kv__after_a_barrier_a_copy_is_not_older),
		cmocka_unit_test(kv__a_copy_of_a_bounded_worker_is_no_epoch_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
