/* SPDX-License-Identifier: Apache-2.0 */
/* What golden packets cannot say of wire_sparse.h: any header, any bytes. Argument: the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/sparse/wire_sparse.h"
#include "tests/random.h"

static void fill(void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)at)[i] = (uint8_t)rng_u32(&rng);
}

static void any_header_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		uint8_t bytes[SPARSE_HEADER_BYTES], again[SPARSE_HEADER_BYTES];
		struct sparse packet;

		fill(bytes, sizeof(bytes));
		bytes[0] = SPARSE_FIRST_BYTE;
		sparse_get(bytes, &packet);
		sparse_put(again, &packet);
		assert_memory_equal(bytes, again, sizeof(bytes));
	}
}

static void any_number_of_a_body_is_read_as_it_was_written(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		uint8_t bytes[8], again[8];

		fill(bytes, sizeof(bytes));
		sparse_body_put64(again, sparse_body_get64(bytes));
		assert_memory_equal(bytes, again, sizeof(bytes));
		assert_int_equal(sparse_body_get64(bytes) & 0xff, bytes[0]);
	}
}

/* A header that is more or less right; its bytes lie in memory of just their size: asan sees what is read
 * beyond. */
static void whatever_passes_is_as_long_as_it_says(void **state)
{
	uint32_t seen[WIRE_FAULT_COUNT] = { 0 }, passed[SPARSE_KIND_END] = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 400000; i++) {
		struct sparse packet = { .kind = (uint8_t)random_below(SPARSE_KIND_END + 1),
					 .worker = random_below(2) ? SPARSE_SERVER : 1,
					 .count = (uint16_t)random_below(3),
					 .part = random_below(3),
					 .parts = random_below(4),
					 .width = (uint16_t)random_below(3),
					 .flags = (uint16_t)random_below(5) };
		uint32_t bytes = sparse_bytes(&packet) + (random_below(8) ? 0 : random_below(9));
		uint8_t header[SPARSE_HEADER_BYTES + 600], *at;
		enum wire_fault fault;

		if (!random_below(500))
			packet.count = (uint16_t)(8152 / 8 + random_below(2)); /* the longest */
		if (!random_below(20))
			bytes = random_below(SPARSE_HEADER_BYTES);
		if (packet.count > 100)
			bytes = sparse_bytes(&packet);
		at = malloc(bytes + 1);
		fill(header, sizeof(header));
		sparse_put(header, &packet);
		if (!random_below(20))
			header[0] = (uint8_t)rng_u32(&rng);
		memcpy(at, header, bytes < sizeof(header) ? bytes : sizeof(header));
		fault = sparse_check(at, bytes, &packet);
		seen[fault]++;
		if (fault == WIRE_OK) {
			passed[packet.kind]++;
			assert_int_equal(bytes, sparse_bytes(&packet));
			assert_in_range(bytes, SPARSE_HEADER_BYTES, SPARSE_BYTES_MAX);
			assert_ptr_equal(sparse_item(&packet, at, packet.count), at + bytes);
		}
		free(at);
	}
	for (uint32_t i = 0; i < WIRE_FAULT_COUNT; i++)
		assert_true(seen[i] > 100);
	for (uint32_t i = 1; i < SPARSE_KIND_END; i++)
		assert_true(passed[i] > 100);
}

/* Both modes may come to one socket. */
static void what_is_sparse_is_not_dense(void **state)
{
	uint8_t bytes[SPARSE_HEADER_BYTES] = { 0 };
	struct sparse packet = { .kind = SPARSE_ACK };
	struct wire dense;

	(void)state;
	sparse_put(bytes, &packet);
	assert_int_equal(sparse_check(bytes, sizeof(bytes), &packet), WIRE_OK);
	assert_int_equal(wire_check(bytes, sizeof(bytes), &dense), WIRE_FAULT_TYPE);
	for (uint8_t type = 1; type < WIRE_TYPE_END; type++) {
		bytes[0] = (uint8_t)(WIRE_VERSION << 4 | type);
		assert_int_equal(sparse_check(bytes, sizeof(bytes), &packet), WIRE_FAULT_TYPE);
	}
}

static void what_fits_into_an_ethernet_frame(void **state)
{
	(void)state;
	assert_int_equal(sparse_items_of(SPARSE_PUSH, 1472, sparse_pair_bytes(1)), 179);
	assert_int_equal(sparse_items_of(SPARSE_FLUSH, 1472, sparse_sum_bytes(1)), 119);
	assert_int_equal(sparse_items_of(SPARSE_SETUP, 1472, sparse_row_bytes(64)), 2);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(any_header_is_read_as_it_was_written, restart_random),
		cmocka_unit_test_setup(any_number_of_a_body_is_read_as_it_was_written,
				       restart_random),
		cmocka_unit_test_setup(whatever_passes_is_as_long_as_it_says, restart_random),
		cmocka_unit_test(what_is_sparse_is_not_dense),
		cmocka_unit_test(what_fits_into_an_ethernet_frame),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
