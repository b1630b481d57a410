/* SPDX-License-Identifier: Apache-2.0 */
/* Against the double arithmetic of the C library, which the tables are not made with. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/lns.h"
#include "tests/random.h"

enum { DRAWS = 300000, PAIRS = 100000 };

static struct lns_tables tables;

static uint32_t bits_of(float number)
{
	uint32_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return bits;
}

static double float_of(uint32_t bits)
{
	float number;

	memcpy(&number, &bits, sizeof(number));
	return (double)number;
}

static uint32_t word_of(int log, bool is_negative)
{
	return ((uint32_t)log & LNS_LOG) | LNS_SOME | (is_negative ? LNS_NEGATIVE : 0);
}

static int log_of(uint32_t word)
{
	return (int16_t)(word & LNS_LOG);
}

static uint32_t negated(uint32_t word)
{
	return word & LNS_SOME ? word ^ LNS_NEGATIVE : word;
}

/* What a word stands for. */
static double number_of(uint32_t word)
{
	double size = word & LNS_SOME ? exp2(log_of(word) / 256.) : 0;

	return word & LNS_NEGATIVE ? -size : size;
}

static uint32_t word_draw(void)
{
	return random_below(50)
		       ? word_of(LNS_LOG_MIN + (int)random_below(LNS_LOG_MAX - LNS_LOG_MIN + 1),
				 random_below(2))
		       : 0;
}

/* A word whose logarithm is near that of another, so that their sum is not just the larger one. */
static uint32_t word_near(uint32_t word)
{
	int log = log_of(word) + (int)random_below(6001) - 3000;

	log = log < LNS_LOG_MIN ? LNS_LOG_MIN : log > LNS_LOG_MAX ? LNS_LOG_MAX : log;
	return word_of(log, random_below(2));
}

static void lns__tables_are_what_the_paper_counts_and_one_more(void **state)
{
	(void)state;
	assert_int_equal(sizeof(tables) - sizeof(tables.log_minus), 408.5 * 1024);
}

static void lns__tables_of_logarithms_are_nearest(void **state)
{
	(void)state;
	for (int e = 0; e < 256; e++)
		assert_int_equal(tables.exponent[e], e == 255 ? 0 : 256 * (e - 127));
	for (int key = 0; key < 2048; key++) {
		assert_int_equal(tables.log[key], 0);
		assert_int_equal(tables.log_slope[key], 0);
	}
	for (int key = 2048; key < 4096; key++) {
		assert_int_equal(tables.log[key], lround(65536 * log2(key / 2048.)));
		assert_int_equal(tables.log_slope[key], lround(256 * log2(key / 2048. * M_LN2)));
	}
	for (int key = 1; key < 4096; key++)
		assert_int_equal(tables.log_rest[key], lround(256 * log2(key * 0x1p-23)));
	/* A rest of 0 adds nothing, whatever the slope. */
	for (int key = 2048; key < 4096; key++)
		assert_int_equal(tables.exp[(tables.log_rest[0] - tables.log_slope[key]) & 0xffff],
				 0);
}

static void lns__tables_of_powers_and_sums_are_nearest(void **state)
{
	(void)state;
	for (int key = 0; key < 65536; key++) {
		double log = (int16_t)key / 256., d = key / 256.;

		assert_int_equal(tables.exp[key], fmin(65535, round(65536 * exp2(log))));
		assert_int_equal(tables.fraction[key],
				 lround(65536 * (exp2(log - floor(log)) - 1)));
		assert_int_equal(tables.log_plus[key], lround(256 * log1p(exp2(-d)) / M_LN2));
		if (key)
			assert_int_equal(tables.log_minus[key],
					 lround(256 * log1p(-exp2(-d)) / M_LN2));
	}
	assert_int_equal(tables.log_minus[0], 0);
}

/* Half a step is due to rounding, 0.005 to the tables. */
static void lns__word_of_a_float_is_the_nearest(void **state)
{
	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		uint32_t bits = (uint32_t)rng_next(&rng), flags = 0;
		uint32_t word = lns_word(&tables, bits, &flags);
		double number = float_of(bits);

		if (!isfinite(number)) {
			assert_int_equal(word, 0);
			assert_int_equal(flags, SPARSE_NONFINITE);
			continue;
		}
		assert_int_equal(flags, 0);
		if (fabs(number) < 0x1p-126) {
			assert_int_equal(word, 0);
			continue;
		}
		assert_int_equal(!!(word & LNS_NEGATIVE), number < 0);
		if (log_of(word) != LNS_LOG_MAX)
			assert_true(fabs(log_of(word) - 256 * log2(fabs(number))) < 0.505);
		else
			assert_true(256 * log2(fabs(number)) > LNS_LOG_MAX - 0.505);
	}
}

static void lns__every_word_is_a_float_and_that_float_the_word(void **state)
{
	(void)state;
	for (int log = LNS_LOG_MIN; log <= LNS_LOG_MAX; log++) {
		for (int sign = 0; sign < 2; sign++) {
			uint32_t word = word_of(log, sign), flags = 0;
			uint32_t bits = lns_float(&tables, word);

			assert_true(fabs(float_of(bits) / number_of(word) - 1) < 0x1p-16);
			assert_int_equal(lns_word(&tables, bits, &flags), word);
			assert_int_equal(flags, 0);
		}
	}
	assert_int_equal(lns_float(&tables, 0), 0);
	assert_int_equal(lns_float(&tables, 1),
			 0); /* R-LNS-4: whatever else is set beside bit 16 */
	assert_int_equal(lns_float(&tables, LNS_NEGATIVE | 0x1234), 0);
}

/* The sum of what the words stand for, rounded once. */
static void lns__sum_of_words_is_nearest(void **state)
{
	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		uint32_t a = word_draw(), b = random_below(8) ? word_near(a) : word_draw();
		uint32_t flags = 0, sum = lns_add(&tables, a, b, &flags);
		double exact = number_of(a) + number_of(b), log = 256 * log2(fabs(exact));

		assert_int_equal(flags, log > LNS_LOG_MAX + 0.5 ? SPARSE_SATURATED : 0);
		if (flags) {
			assert_int_equal(log_of(sum), LNS_LOG_MAX);
		} else if (!(sum & LNS_SOME)) {
			assert_int_equal(sum, 0);
			assert_true(log < LNS_LOG_MIN - 0.499);
			continue;
		} else {
			assert_true(fabs(log_of(sum) - log) < 0.5001);
		}
		assert_int_equal(!!(sum & LNS_NEGATIVE), exact < 0);
	}
}

static void lns__sum_does_not_care_for_order_nor_sign(void **state)
{
	(void)state;
	for (int i = 0; i < DRAWS; i++) {
		uint32_t a = word_draw(), b = word_near(a), flags = 0;
		uint32_t sum = lns_add(&tables, a, b, &flags);

		assert_int_equal(lns_add(&tables, b, a, &flags), sum);
		assert_int_equal(lns_add(&tables, negated(a), negated(b), &flags), negated(sum));
		assert_int_equal(lns_add(&tables, a, 0, &flags), a);
		assert_int_equal(lns_add(&tables, a, negated(a), &flags), 0);
	}
}

static void lns__flags_are_sticky(void **state)
{
	uint32_t flags = 0x100, most = word_of(LNS_LOG_MAX, true);

	(void)state;
	lns_word(&tables, bits_of(INFINITY), &flags);
	assert_int_equal(flags, 0x100 | SPARSE_NONFINITE);
	assert_int_equal(lns_add(&tables, most, most, &flags), most);
	assert_int_equal(flags, 0x100 | SPARSE_NONFINITE | SPARSE_SATURATED);
	lns_word(&tables, bits_of(1), &flags);
	lns_add(&tables, most, 0, &flags);
	assert_int_equal(flags, 0x100 | SPARSE_NONFINITE | SPARSE_SATURATED);
}

/* docs/lns.md warns of this: a sum of ones stays where a one is less than half a step. */
static void lns__sum_of_ones_stops_below_a_thousand(void **state)
{
	uint32_t one = word_of(0, false), sum = 0, flags = 0, before;
	int ones = 0;

	(void)state;
	do {
		before = sum;
		sum = lns_add(&tables, sum, one, &flags);
		ones++;
		assert_true(ones < 2000);
	} while (sum != before);
	assert_int_equal(log_of(sum), 2440);
	assert_true(number_of(sum) > 739 && number_of(sum) < 741);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double signed_draw(void)
{
	return (double)(int32_t)(uint32_t)rng_next(&rng) * 0x1p-31;
}

/* Precision is 1 - |error| / |sum|, at least 0. */
static void lns__random_pairs_of_both_signs_are_precise(void **state)
{
	static double precision[PAIRS];
	double total = 0;

	(void)state;
	for (int i = 0; i < PAIRS; i++) {
		float a = (float)signed_draw(), b = (float)signed_draw();
		double exact = (double)a + (double)b, got;
		uint32_t flags = 0, word = lns_word(&tables, bits_of(a), &flags);

		word = lns_add(&tables, word, lns_word(&tables, bits_of(b), &flags), &flags);
		got = float_of(lns_float(&tables, word));
		precision[i] = got == exact ? 1 : fmax(0, 1 - fabs(got - exact) / fabs(exact));
		total += precision[i];
	}
	qsort(precision, PAIRS, sizeof(precision[0]), by_value);
	assert_true(precision[PAIRS / 2] >= 0.9985);
	assert_true(total / PAIRS >= 0.995);
}

int main(int argc, char **argv)
{
#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lns__tables_are_what_the_paper_counts_and_one_more),
		cmocka_unit_test(lns__tables_of_logarithms_are_nearest),
		cmocka_unit_test(lns__tables_of_powers_and_sums_are_nearest),
		RANDOM(lns__word_of_a_float_is_the_nearest),
		cmocka_unit_test(lns__every_word_is_a_float_and_that_float_the_word),
		RANDOM(lns__sum_of_words_is_nearest),
		RANDOM(lns__sum_does_not_care_for_order_nor_sign),
		cmocka_unit_test(lns__flags_are_sticky),
		cmocka_unit_test(lns__sum_of_ones_stops_below_a_thousand),
		RANDOM(lns__random_pairs_of_both_signs_are_precise),
	};

	seed_take(argc, argv);
	lns_tables_make(&tables);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
