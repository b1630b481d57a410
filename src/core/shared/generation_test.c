/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/shared/generation.h"

enum { DRAWN = 1 << 18 };

static int ascending(const void *a, const void *b)
{
	uint32_t left, right;

	left = *(const uint32_t *)a;
	right = *(const uint32_t *)b;
	return left < right ? -1 : left > right;
}

/* R-CT-14. Random numbers would have met 8 times. The counter passes its wrap. */
static void generation__never_comes_twice_and_is_never_0(void **state)
{
	struct generation generation = { .key = { 1, 2, 3 }, .count = UINT32_MAX - DRAWN / 2 };
	uint32_t *drawn = malloc(DRAWN * sizeof(*drawn));

	(void)state;
	assert_non_null(drawn);
	for (uint32_t i = 0; i < DRAWN; i++) {
		drawn[i] = generation_draw(&generation);
		assert_int_not_equal(drawn[i], 0);
	}
	qsort(drawn, DRAWN, sizeof(*drawn), ascending);
	for (uint32_t i = 1; i < DRAWN; i++)
		assert_int_not_equal(drawn[i - 1], drawn[i]);
	free(drawn);
}

/* R-CT-14. The difference to the next one is anything: of 2^18 numbers no two differences should lie in one place of 2^32 / 256
 * much oftener than in another. (1,024 expected, deviation 32.) */
static void generation__tells_nothing_of_the_next(void **state)
{
	struct generation generation = { .key = { 9 }, .count = 0 };
	uint32_t of[256] = { 0 }, last = generation_draw(&generation);

	(void)state;
	for (uint32_t i = 0; i < DRAWN; i++) {
		uint32_t next = generation_draw(&generation);

		of[(next - last) >> 24]++;
		last = next;
	}
	for (uint32_t i = 0; i < 256; i++)
		assert_in_range(of[i], 1024 - 6 * 32, 1024 + 6 * 32);
}

static void generation__of_another_key_is_another(void **state)
{
	struct generation one = { .key = { 1 } }, other = { .key = { 1, [15] = 0x80 } };
	uint32_t alike = 0;

	(void)state;
	for (uint32_t i = 0; i < 4096; i++)
		alike += generation_draw(&one) == generation_draw(&other);
	assert_in_range(alike, 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generation__never_comes_twice_and_is_never_0),
		cmocka_unit_test(generation__tells_nothing_of_the_next),
		cmocka_unit_test(generation__of_another_key_is_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
