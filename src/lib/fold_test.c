/* SPDX-License-Identifier: Apache-2.0 */
/* fold_test.c - what ranks work out by themselves. All types to the bit: tests/e2e/every_type.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/fold.h"
#include "tally.h"

enum { RANKS = 3 };

/* Two buffers of this rank, of which it wants one. */
static void fold__lays_the_ranks_out_one_behind_the_other(void **state)
{
	int64_t in[5] = { 1, 2, 3, 4, 5 }, out[2] = { 0 };
	struct endpoint_segment segments[] = { { 0, 2, in, out }, { 2, 3, in + 2, NULL } };
	static const struct {
		uint64_t first, count;
		int source; /* element of in; -1: none */
	} wanted[] = { { 0, 5, -1 }, { 5, 2, 0 }, { 7, 3, 2 }, { 10, 5, -1 } };
	const struct fold_op min = { .dtype = TALLY_INT64, .op = TALLY_MIN };
	struct fold *fold = fold_new(&min, 5, RANKS, 1, segments, 2);

	(void)state;
	assert_non_null(fold);
	assert_int_equal(fold->segments_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct endpoint_segment *segment = &fold->segments[i];

		assert_int_equal(segment->first, wanted[i].first);
		assert_int_equal(segment->count, wanted[i].count);
		assert_ptr_equal(segment->source,
				 wanted[i].source < 0 ? NULL : &in[wanted[i].source]);
		assert_ptr_equal(segment->destination, fold->all + wanted[i].first * sizeof(*in));
	}
	for (uint32_t r = 0; r < RANKS; r++)
		assert_int_equal(fold->ends[r], 5 * (r + 1));
	for (int64_t i = 0; i < 15; i++)
		memcpy(fold->all + i * 8, &(int64_t){ i % 2 ? -i : i }, 8);
	fold_run(fold, segments, 2);
	assert_int_equal(out[0], -5);
	assert_int_equal(out[1], -11);
	free(fold);
}

static void fold__of_nothing_is_nothing(void **state)
{
	const struct fold_op prod = { .dtype = TALLY_FLOAT32, .op = TALLY_PROD };
	struct fold *fold = fold_new(&prod, 0, RANKS, 2, NULL, 0);

	(void)state;
	assert_non_null(fold);
	assert_int_equal(fold->segments_count, 0);
	fold_run(fold, NULL, 0);
	free(fold);
	assert_null(fold_new(&prod, (uint64_t)1 << 62, 65535, 0, NULL, 0)); /* no size has room */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fold__lays_the_ranks_out_one_behind_the_other),
		cmocka_unit_test(fold__of_nothing_is_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
