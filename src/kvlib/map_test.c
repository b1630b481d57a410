/* SPDX-License-Identifier: Apache-2.0 */
/* map_test.c - keys that become hot, and cease to be, while pushes of them are under way, against a server of this
 * process (kv_fixture.h). */
#include "kvlib/kv_draw.h"

enum { ROUNDS = 60, ALL_LOST = 1000000 };

static void remap_drawn(struct fake *fake, struct rng *rng)
{
	uint32_t count = 1 + rng_below(rng, FAKE_KEYS / 2);
	uint64_t key[FAKE_KEYS];

	for (uint32_t i = 0; i < FAKE_KEYS; i++)
		key[i] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + rng_below(rng, FAKE_KEYS - i);
		uint64_t one = key[i];

		key[i] = key[other];
		key[other] = one;
	}
	fake_remap(fake, key, count);
}

static void rows_are(struct tally_kv *kv, const double *sum, uint64_t seed)
{
	uint64_t key[FAKE_KEYS];
	static float row[FAKE_KEYS * FAKE_DIM];

	for (uint32_t k = 0; k < FAKE_KEYS; k++)
		key[k] = k;
	ok(tally_kv_pull(kv, key, row, FAKE_KEYS, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	for (uint32_t i = 0; i < FAKE_KEYS * FAKE_DIM; i++)
		if ((double)row[i] != sum[i])
			fail_msg("seed %llu: key %u: %.0f and not %.0f", (unsigned long long)seed,
				 i / FAKE_DIM, (double)row[i], sum[i]);
}

static void *barrier_main(void *arg)
{
	ok(tally_kv_barrier(arg));
	return NULL;
}

/* What is complete before it is in what anybody pulls after it, copies or not. */
static void barrier_of_both(struct tally_kv **kv)
{
	pthread_t other;

	assert_int_equal(pthread_create(&other, NULL, barrier_main, kv[1]), 0);
	ok(tally_kv_barrier(kv[0]));
	pthread_join(other, NULL);
}

static void sums_are_exact(uint64_t seed, uint32_t loss, bool restarts)
{
	static double sum[FAKE_KEYS * FAKE_DIM];
	static float value[DRAWN_MAX * FAKE_DIM], pulled[FAKE_WORKERS][DRAWN_MAX * FAKE_DIM];
	struct fake *fake = fake_begin(FAKE_HOT, seed);
	struct tally_kv *kv[FAKE_WORKERS];
	uint64_t key[DRAWN_MAX];
	struct rng rng;

	memset(sum, 0, sizeof(sum));
	rng_init(&rng, seed, 7);
	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		flags = w ? 0 : TALLY_KV_COPIES;
		kv[w] = open_of(fake->address, w);
	}
	flags = 0;
	fake_loses(fake, loss);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t w = rng_below(&rng, FAKE_WORKERS), count = keys_draw(&rng, key, value);

		if (round % 3)
			ok(tally_kv_push(kv[w], key, value, count, NULL));
		else
			ok(tally_kv_pushpull(kv[w], key, value, pulled[w], count, NULL));
		for (uint32_t i = 0; i < count * FAKE_DIM; i++)
			sum[key[i / FAKE_DIM] * FAKE_DIM + i % FAKE_DIM] += (double)value[i];
		if (rng_below(&rng, 4) == 0)
			remap_drawn(fake, &rng);
		if (restarts && rng_below(&rng, 12) == 0)
			fake_restart(fake);
		if (rng_below(&rng, 8) == 0)
			usleep(rng_below(&rng, 10000));
	}
	barrier_of_both(kv);
	for (uint32_t w = 0; w < FAKE_WORKERS; w++) {
		rows_are(kv[w], sum, seed);
		ok(tally_kv_close(kv[w]));
	}
	fake_end(fake);
}

static void kv__nothing_is_lost_or_doubled_when_other_keys_are_hot(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 5; seed++) {
		fake_registers = seed % 2 ? 0 : 12;
		fake_bytes = seed % 2 ? 512 : 192;
		fake_packing = seed == 2 ? KV_DEAL : KV_ALGORITHM_1;
		sums_are_exact(seed, seed % 3 ? 50000 : 0, seed == 1 || seed == 2);
	}
	fake_bytes = 512;
	fake_registers = 0;
	fake_packing = KV_FILL;
}

/* A push is not complete before what has left it is in. */
static void kv__a_push_waits_for_its_pairs_that_are_cold_now(void **state)
{
	static const uint64_t keys[] = { 6, 12 }, still[] = { 1, 2, 12 };
	const float value[2 * FAKE_DIM] = { 1, 2, 3, -4, -5, -6 };
	struct fake *fake = fake_begin(FAKE_HOT, 40);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t timestamp;

	(void)state;
	fake_loses(fake, ALL_LOST);
	ok(tally_kv_push(kv, keys, value, 2, &timestamp));
	assert_int_equal(tally_kv_wait(kv, timestamp, 50), TALLY_IN_PROGRESS);
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_BATCH;
	pthread_mutex_unlock(&fake->lock);
	fake_remap(fake, still, 3);
	fake_loses(fake, 0);
	while (fake_row(fake, 12 * FAKE_DIM) == 0)
		usleep(1000);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(tally_kv_wait(kv, timestamp, 10), TALLY_IN_PROGRESS);
	assert_true(fake_row(fake, 6 * FAKE_DIM) == 0);
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_NOTHING;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	ok(tally_kv_wait(kv, timestamp, -1));
	for (uint32_t k = 0; k < FAKE_DIM; k++) {
		assert_true(fake_row(fake, 6 * FAKE_DIM + k) == value[k]);
		assert_true(fake_row(fake, 12 * FAKE_DIM + k) == value[FAKE_DIM + k]);
	}
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* There are more of them than a packet has, and those that stay hot close up. */
static void kv__pairs_that_wait_for_room_are_packed_by_the_next_map(void **state)
{
	static const float nothing[FAKE_DIM];
	static uint64_t all[FAKE_KEYS], odd[FAKE_KEYS / 2];
	static double sum[FAKE_KEYS * FAKE_DIM];
	static float value[FAKE_KEYS * FAKE_DIM];
	struct tally_kv *kv;
	struct fake *fake;

	(void)state;
	for (uint32_t i = 0; i < FAKE_KEYS * FAKE_DIM; i++) {
		all[i / FAKE_DIM] = i / FAKE_DIM;
		odd[i / FAKE_DIM / 2] = i / FAKE_DIM | 1;
		value[i] = (float)i;
		sum[i] = i;
	}
	fake_registers = 12;
	fake_bytes = 192;
	fake = fake_begin(FAKE_HOT, 44);
	kv = open_of(fake->address, 0);
	fake_remap(fake, all, FAKE_KEYS);
	ok(tally_kv_push(kv, all, nothing, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	fake_loses(fake, ALL_LOST);
	ok(tally_kv_push(kv, all, value, FAKE_KEYS, NULL));
	assert_int_equal(tally_kv_wait(kv, 0, 100), TALLY_IN_PROGRESS);
	fake_remap(fake, odd, FAKE_KEYS / 2);
	fake_loses(fake, 0);
	ok(tally_kv_wait(kv, 0, -1));
	rows_are(kv, sum, 44);
	ok(tally_kv_close(kv));
	fake_end(fake);
	fake_registers = 0;
	fake_bytes = 512;
}

static uint64_t hot_pairs(struct tally_kv *kv)
{
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT;

	ok(tally_kv_get_stats(kv, &stats));
	return stats.pairs_hot;
}

/* RESUME may be faster than MAP, and the new switch have the old one's index. */
static void kv__a_resume_waits_for_its_map(void **state)
{
	static const uint64_t key = 6, others[] = { 1, 6 };
	const float one[FAKE_DIM] = { 1, 1, 1 };
	struct fake *fake = fake_begin(FAKE_HOT, 42);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	pthread_mutex_lock(&fake->lock);
	assert_true(fake->peer[0].is_open);
	fake->peer[0].is_open = false; /* it is told nothing over TCP */
	(void)engine_sparse_remove(fake->engine, fake->index--);
	pthread_mutex_unlock(&fake->lock);
	fake_remap(fake, others, 2);
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	assert_int_equal(tally_kv_wait(kv, 0, 300), TALLY_IN_PROGRESS);
	pthread_mutex_lock(&fake->lock);
	fake->peer[0].is_open = true;
	fake_map_say(fake, &fake->peer[0]);
	fake_switch_say(fake, &fake->peer[0]);
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_wait(kv, 0, -1));
	assert_true(fake_row(fake, 6 * FAKE_DIM) == 2);
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	assert_int_equal(hot_pairs(kv), 3);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static void no_map(struct kv_message *opened)
{
	opened->map += 2; /* and MAPs say another version */
}

/* A server that speaks of a map and does not say it is not believed, and is asked again. */
static void kv__a_map_that_never_comes_is_waited_for(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 41);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t key = 6;
	const float one[FAKE_DIM] = { 1, 1, 1 };

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->opened = no_map;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	ok(tally_kv_push(kv, &key, one, 1, NULL));
	usleep(300000);
	pthread_mutex_lock(&fake->lock);
	fake->opened = NULL;
	pthread_mutex_unlock(&fake->lock);
	fake_restart(fake);
	ok(tally_kv_wait(kv, 0, -1));
	assert_true(fake_row(fake, 6 * FAKE_DIM) == 1);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

static void older_map(struct kv_message *opened)
{
	opened->map--; /* and MAP says the next */
}

/* What has no answer is said again, though the map that comes is not the one that OPENED has named. */
static void kv__a_map_after_the_one_in_force_holds_nothing_up(void **state)
{
	static const uint64_t hot = 6, cold = 7, keys[] = { 1, 6 }, others[] = { 1, 12 };
	const float one[FAKE_DIM] = { 1, 1, 1 };
	struct fake *fake = fake_begin(FAKE_HOT, 43);
	struct tally_kv *kv = open_of(fake->address, 0);

	(void)state;
	fake_remap(fake, keys, 2);
	ok(tally_kv_push(kv, &hot, one, 1, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	pthread_mutex_lock(&fake->lock);
	fake->drops = KV_BATCH;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_push(kv, &cold, one, 1, NULL));
	assert_int_equal(tally_kv_wait(kv, 0, 200), TALLY_IN_PROGRESS);
	pthread_mutex_lock(&fake->lock);
	fake->peer[0].is_open = false; /* it hears of the next map as it opens again */
	fake->drops = KV_NOTHING;
	fake->opened = older_map;
	pthread_mutex_unlock(&fake->lock);
	fake_remap(fake, others, 2);
	fake_restart(fake);
	ok(tally_kv_wait(kv, 0, 20000));
	assert_true(fake_row(fake, 7 * FAKE_DIM) == 1);
	pthread_mutex_lock(&fake->lock);
	fake->opened = NULL;
	pthread_mutex_unlock(&fake->lock);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__nothing_is_lost_or_doubled_when_other_keys_are_hot),
		cmocka_unit_test(kv__a_push_waits_for_its_pairs_that_are_cold_now),
		cmocka_unit_test(kv__pairs_that_wait_for_room_are_packed_by_the_next_map),
		cmocka_unit_test(kv__a_resume_waits_for_its_map),
		cmocka_unit_test(kv__a_map_that_never_comes_is_waited_for),
		cmocka_unit_test(kv__a_map_after_the_one_in_force_holds_nothing_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
