/* SPDX-License-Identifier: Apache-2.0 */
/* What golden packets cannot say of wire.h: any header, any bytes. Argument: the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/shared/wire.h"
#include "tests/random.h"

static void fill(void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = (uint8_t)rng_u32(&rng);
}

static void any_header_is_read_as_it_was_written(void **state)
{
	(void)state;
	rng_init(&rng, seed, 1);
	for (uint32_t i = 0; i < 100000; i++) {
		uint8_t bytes[WIRE_HEADER_BYTES], again[WIRE_HEADER_BYTES];
		struct wire packet;

		fill(bytes, sizeof(bytes));
		bytes[0] = (uint8_t)(WIRE_VERSION << 4 | (bytes[0] & 15));
		wire_get(bytes, &packet);
		wire_put(again, &packet);
		assert_memory_equal(bytes, again, sizeof(bytes));
	}
}

/* Random bytes, more often than not with a good first byte and few lanes. Each datagram lies in
 * memory of just its size: asan sees what is read beyond it. */
static void whatever_passes_is_as_long_as_it_says(void **state)
{
	uint32_t seen[WIRE_FAULT_COUNT] = { 0 };

	(void)state;
	rng_init(&rng, seed, 2);
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t count = rng_below(&rng, 20) ? 24 + 4 * rng_below(&rng, 12)
						     : rng_below(&rng, 60);
		uint8_t *bytes = malloc(count);
		struct wire packet = { 0 };
		enum wire_fault fault;

		fill(bytes, count);
		if (count >= WIRE_HEADER_BYTES && rng_below(&rng, 10)) {
			bytes[0] = (uint8_t)(0x10 | rng_below(&rng, 12));
			wire_put16(bytes + WIRE_LANES_AT,
				   (uint16_t)(rng_below(&rng, 4) ? (count - 24) / 4
								 : rng_below(&rng, 20)));
		}
		fault = wire_check(bytes, count, &packet);
		seen[fault]++;
		if (fault == WIRE_OK) {
			assert_int_equal(count, WIRE_HEADER_BYTES + 4 * packet.lanes);
			assert_int_equal(bytes[0] >> 4, 1);
			assert_in_range(packet.type, WIRE_UPDATE, WIRE_WELCOME);
			assert_int_equal(packet.lanes % 4, 0);
		}
		free(bytes);
	}
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		assert_true(seen[i] > 20);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_header_is_read_as_it_was_written),
		cmocka_unit_test(whatever_passes_is_as_long_as_it_says),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
