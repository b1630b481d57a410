/* SPDX-License-Identifier: Apache-2.0 */
#include "files/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/rng.h"

static int strings = 300000; /* or what the second argument says */

static struct rng rng;
static uint64_t quick;

/* number_float and number_double of the whole text have the bits of strtof and strtod. */
static void same_bits(const char *text)
{
	struct number number;
	const char *end = number_scan(text, &number);
	float f, f_right = strtof(text, NULL);
	double d, d_right = strtod(text, NULL);

	assert_ptr_equal(end, text + strlen(text));
	quick += number_is_quick(&number);
	f = number_float(&number, text, end);
	d = number_double(&number, text, end);
	if (memcmp(&f, &f_right, sizeof(f)) || memcmp(&d, &d_right, sizeof(d)))
		fail_msg("%s: %.9g, not %.9g; %.17g, not %.17g", text, (double)f, (double)f_right,
			 d, d_right);
}

/* A point somewhere, an exponent one time in four. */
static void digits_draw(char text[64])
{
	static const char sign[] = "-+";
	uint32_t digits = 1 + rng_below(&rng, rng_below(&rng, 8) ? 9 : 24),
		 point = rng_below(&rng, 2 * digits);
	char *at = text;

	if (!rng_below(&rng, 3))
		*at++ = sign[rng_below(&rng, 2)];
	for (uint32_t i = 0; i < digits; i++) {
		if (i == point)
			*at++ = '.';
		*at++ = (char)('0' + rng_below(&rng, 10));
	}
	*at = 0;
	if (!rng_below(&rng, 4))
		sprintf(at, "e%d", (int)rng_below(&rng, 100) - 50);
}

static void number__random_digits_have_the_bits_of_strtof(void **state)
{
	char text[64];

	(void)state;
	quick = 0;
	for (int i = 0; i < strings; i++) {
		digits_draw(text);
		same_bits(text);
	}
	assert_true(quick > (uint64_t)strings / 2); /* else it would be strtof against strtof */
}

/* Midpoints of two floats and their neighbours: where rounding twice goes wrong. */
static void number__near_midpoints_of_floats_is_rounded_once(void **state)
{
	char text[64];

	(void)state;
	for (int i = 0; i < strings / 8; i++) {
		uint32_t bits = (rng_u32(&rng) & 0x0fffffff) | 0x30000000; /* 2^-31 .. 2 */
		double middle;
		float low, high;

		memcpy(&low, &bits, sizeof(low));
		bits++;
		memcpy(&high, &bits, sizeof(high));
		middle = ((double)low + (double)high) / 2;
		for (int digits = 6; digits < 26; digits += 1 + (int)rng_below(&rng, 3)) {
			snprintf(text, sizeof(text), "%.*g", digits, middle);
			same_bits(text);
		}
	}
}

static void number__random_floats_come_back(void **state)
{
	char text[64];

	(void)state;
	for (int i = 0; i < strings / 4; i++) {
		uint32_t bits = rng_u32(&rng);
		struct number number;
		float from, to;

		memcpy(&from, &bits, sizeof(from));
		if (!__builtin_isfinite(from))
			continue;
		snprintf(text, sizeof(text), "%.9g", (double)from);
		to = number_float(&number, text, number_scan(text, &number));
		assert_memory_equal(&from, &to, sizeof(from));
		same_bits(text);
	}
}

static void number__ends_of_the_ranges(void **state)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"+0",
		"0.",
		".0",
		"00000000000000000000000001",
		"0e99999999999",
		"1e99999999999",
		"1e-99999999999",
		"9007199254740992",
		"9007199254740993",
		"9999999999999999999",
		"10000000000000000000",
		"99999999999999999999",
		"1e22",
		"1e23",
		"1e-22",
		"1e-23",
		"3.4028235e38",
		"3.4028236e38",
		"1e39",
		"1.1754944e-38",
		"1.1754943e-38",
		"1e-45",
		"7e-46",
		"1.7976931348623159e308",
		"1.00000005960464477539062500000000000000000000000001",
		"16777217",
		"16777219",
		"33554434.0000000001",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		same_bits(texts[i]);
}

static void number__what_is_none_is_refused(void **state)
{
	static const char *const texts[] = {
		"",    "-",   "+",   ".",   "-.",   "e5", ".e5", "1e",
		"1e+", "1e-", "inf", "nan", "-inf", "x",  " 1",  "--1"
	};
	struct number number;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_null(number_scan(texts[i], &number));
	assert_string_equal(number_scan("0x10", &number), "x10");
	assert_string_equal(number_scan("1.5.5", &number), ".5");
	assert_string_equal(number_scan("1,5", &number), ",5");
	assert_string_equal(number_scan("1:5", &number), ":5"); /* what follows 9 in ASCII */
	assert_string_equal(number_scan("1.5:5", &number), ":5");
	assert_string_equal(number_scan("1e5:5", &number), ":5");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(number__random_digits_have_the_bits_of_strtof),
		cmocka_unit_test(number__near_midpoints_of_floats_is_rounded_once),
		cmocka_unit_test(number__random_floats_come_back),
		cmocka_unit_test(number__ends_of_the_ranges),
		cmocka_unit_test(number__what_is_none_is_refused),
	};
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;

	if (argc > 2)
		strings = atoi(argv[2]);
	printf("seed %llu\n", (unsigned long long)seed);
	rng_init(&rng, seed, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
