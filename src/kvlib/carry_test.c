/* SPDX-License-Identifier: Apache-2.0 */
/* carry_test.c - values of hot keys below the table's unit (1, of kv_fake.h) come in the end, each part once. Sums are made here, in eighths, which floats have exactly. */
#include "kvlib/kv_fixture.h"

enum { HOT_KEYS = 8, PUSHES = 400 };

static const float unit_half = 0.5f;

/* Hot: every sixth (kv_fixture.h). */
static uint64_t key_of(uint32_t i)
{
	return 6 * (i + 1);
}

static float eighths(struct rng *rng)
{
	return ((float)rng_below(rng, 9) - 4) / 8; /* -1/2 to 1/2 */
}

static void pushes(struct tally_kv *kv, struct rng *rng, double *sum, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		uint64_t key[HOT_KEYS];
		float value[HOT_KEYS * FAKE_DIM];

		for (uint32_t i = 0; i < HOT_KEYS; i++)
			key[i] = key_of(i);
		for (uint32_t i = 0; i < HOT_KEYS * FAKE_DIM; i++) {
			value[i] = eighths(rng);
			sum[i] += (double)value[i];
		}
		ok(tally_kv_push(kv, key, value, HOT_KEYS, NULL));
	}
}

static double row_value(struct fake *fake, uint32_t i)
{
	return (double)fake_row(fake, (uint32_t)key_of(i / FAKE_DIM) * FAKE_DIM + i % FAKE_DIM);
}

/* All of one worker: nothing is lost, and less than half a unit is still with it. */
static void rows_are_near(struct fake *fake, const double *sum, uint32_t workers)
{
	for (uint32_t i = 0; i < HOT_KEYS * FAKE_DIM; i++)
		if (fabs(row_value(fake, i) - sum[i]) > (double)unit_half * workers)
			fail_msg("value %u: %g and not %g", i, row_value(fake, i), sum[i]);
}

/* What was left, too: it takes a moment until the worker has heard of the map. */
static void rows_become(struct fake *fake, const double *sum)
{
	uint32_t wrong = 0, at = 0;

	for (uint32_t ms = 0; ms < 20000; ms++) {
		wrong = 0;
		for (uint32_t i = 0; i < HOT_KEYS * FAKE_DIM; i++)
			if (row_value(fake, i) != sum[i]) {
				wrong++;
				at = i;
			}
		if (!wrong)
			return;
		usleep(1000);
	}
	fail_msg("%u are wrong: value %u is %g and not %g", wrong, at, row_value(fake, at),
		 sum[at]);
}

static void of_floats(struct kv_message *opened)
{
	opened->values = SPARSE_LNS;
}

/* A table of floats has no unit. This switch adds up their bits, as if they were whole numbers. */
static void kv__floats_travel_as_they_are(void **state)
{
	static const float value[FAKE_DIM] = { 1, -2, 0.25f },
			   bits[FAKE_DIM] = { 0x3f800000, -0x40000000, 0x3e800000 };
	struct fake *fake = fake_begin(FAKE_HOT, 34);
	const uint64_t key = 6;
	struct tally_kv *kv;

	(void)state;
	pthread_mutex_lock(&fake->lock);
	fake->opened = of_floats;
	pthread_mutex_unlock(&fake->lock);
	kv = open_of(fake->address, 0);
	ok(tally_kv_push(kv, &key, value, 1, NULL));
	ok(tally_kv_close(kv));
	for (uint32_t k = 0; k < FAKE_DIM; k++)
		assert_true(fake_row(fake, 6 * FAKE_DIM + k) == bits[k]);
	fake_end(fake);
}

static void kv__small_values_come_in_the_end(void **state)
{
	struct fake *fake = fake_begin(FAKE_HOT, 31);
	struct tally_kv *kv = open_of(fake->address, 0);
	struct tally_kv_stats stats = TALLY_KV_STATS_INIT;
	uint64_t key[] = { 6, 7 }; /* hot, cold */
	float value[2 * FAKE_DIM] = { -0.25f, 0.0625f, 0.375f, -0.25f, 0.0625f, 0.375f };

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		ok(tally_kv_push(kv, key, value, 2, NULL));
	ok(tally_kv_wait(kv, 0, -1));
	for (uint32_t k = 0; k < FAKE_DIM; k++) {
		assert_true(fake_row(fake, 7 * FAKE_DIM + k) == 1000 * value[k]);
		assert_true(fabsf(fake_row(fake, 6 * FAKE_DIM + k) - 1000 * value[k]) <= unit_half);
	}
	ok(tally_kv_get_stats(kv, &stats));
	assert_true(stats.values_small >= 2000);
	assert_true(stats.values_small < 3000);
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* Whatever is sent again, and under whatever ranks: each part counts once. */
static void each_part_counts_once(uint64_t seed, bool restarts, uint16_t registers)
{
	static double sum[HOT_KEYS * FAKE_DIM];
	uint64_t hot[HOT_KEYS + 1], cold[] = { 1, 2 };
	struct tally_kv *kv;
	struct fake *fake;
	struct rng rng;

	fake_registers = registers;
	fake_bytes = registers ? 192 : 512;
	fake_packing = KV_DEAL;
	fake = fake_begin(FAKE_HOT, seed);
	kv = open_of(fake->address, 0);
	memset(sum, 0, sizeof(sum));
	rng_init(&rng, seed, 9);
	fake_loses(fake, 20000);
	pushes(kv, &rng, sum, PUSHES / 4);
	if (restarts)
		fake_restart(fake);
	pushes(kv, &rng, sum, PUSHES / 4);
	/* Under other ranks, all but the last, which is cold from now on. */
	for (uint32_t i = 0; i < HOT_KEYS - 1; i++)
		hot[i] = key_of(HOT_KEYS - 2 - i);
	hot[HOT_KEYS - 1] = 5;
	fake_remap(fake, hot, HOT_KEYS);
	pushes(kv, &rng, sum, PUSHES / 2);
	if (restarts)
		fake_restart(fake);
	ok(tally_kv_wait(kv, 0, -1));
	rows_are_near(fake, sum, 1);
	/* None of them is hot any more: all that is left comes. */
	fake_remap(fake, cold, 2);
	rows_become(fake, sum);
	ok(tally_kv_close(kv));
	usleep(20000);
	rows_become(fake, sum);
	fake_end(fake);
	fake_registers = 0;
	fake_bytes = 512;
	fake_packing = KV_FILL;
}

static void kv__what_is_left_counts_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		each_part_counts_once(seed, seed % 2, seed % 3 ? 0 : 12);
}

static void kv__where_nothing_is_left_nothing_is_pushed(void **state)
{
	static const float up[FAKE_DIM] = { 0.25f, 0, 0 }, down[FAKE_DIM] = { -0.25f, 0, 0 };
	const uint64_t key = 6, others[] = { 6, 7 };
	struct fake *fake = fake_begin(FAKE_HOT, 34);
	struct tally_kv *kv = open_of(fake->address, 0);
	uint64_t timestamp;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		if (i == 2)
			fake_remap(fake, others, 2);
		ok(tally_kv_push(kv, &key, i % 2 ? down : up, 1, &timestamp));
		ok(tally_kv_wait(kv, 0, -1));
	}
	assert_int_equal(timestamp, 4); /* no operation was anybody else's */
	ok(tally_kv_close(kv));
	fake_end(fake);
}

/* ---- the warning ---- */

enum { LINE_BYTES = 1024 };

struct warned {
	uint32_t count;
	char last[LINE_BYTES];
};

static void warned_keep(int level, const char *line, void *arg)
{
	struct warned *warned = arg;

	if (level != TALLY_LOG_WARN || !strstr(line, "smaller than its unit"))
		return;
	warned->count++;
	snprintf(warned->last, sizeof(warned->last), "%s", line);
}

static void kv__small_values_are_warned_of_once_with_their_count(void **state)
{
	static struct warned warned;
	static const float large[FAKE_DIM] = { 3, -2, 5 }, small[FAKE_DIM] = { 0.125f, -0.125f, 0 };
	const uint64_t key = 6; /* hot */

	(void)state;
	for (uint32_t is_small = 0; is_small < 2; is_small++) {
		struct fake *fake = fake_begin(FAKE_HOT, 32 + is_small);
		struct tally_kv *kv = open_of(fake->address, 0);

		assert_int_equal(tally_set_log(TALLY_LOG_WARN, warned_keep, &warned), TALLY_OK);
		for (uint32_t i = 0; i < 3; i++)
			ok(tally_kv_push(kv, &key, is_small ? small : large, 1, NULL));
		ok(tally_kv_wait(kv, 0, -1));
		assert_int_equal(warned.count, 0);
		ok(tally_kv_close(kv));
		assert_int_equal(tally_set_log(0, NULL, NULL), TALLY_OK);
		fake_end(fake);
		assert_int_equal(warned.count, is_small);
	}
	/* Of 3 pushes of 3 values two each are small and not 0, and of these two 3/8 are left. */
	assert_non_null(strstr(warned.last, "table words: 6 of 9 values that were pushed"));
	assert_non_null(strstr(warned.last, "of 2 of its values less than half a unit is left"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kv__floats_travel_as_they_are),
		cmocka_unit_test(kv__small_values_come_in_the_end),
		cmocka_unit_test(kv__what_is_left_counts_once),
		cmocka_unit_test(kv__where_nothing_is_left_nothing_is_pushed),
		cmocka_unit_test(kv__small_values_are_warned_of_once_with_their_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
