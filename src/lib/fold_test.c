/* SPDX-License-Identifier: Apache-2.0 */
/* fold_test.c - what ranks work out by themselves (R-NUM-17). All types to the bit: tests/e2e/every_type.py. */
#include <math.h>
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

static void pairs_are(int op, const float *in, const float *wanted)
{
	const struct fold_op pairs = { .dtype = TALLY_FLOAT32, .op = op };
	struct fold *fold = fold_new(&pairs, 2, RANKS, 0, NULL, 0);
	float out[2];
	const struct endpoint_segment segment = { 0, 2, NULL, out };

	assert_non_null(fold);
	memcpy(fold->all, in, 2 * RANKS * sizeof(*in));
	fold_run(fold, &segment, 1);
	assert_memory_equal(out, wanted, sizeof(out));
	free(fold);
}

static void fold__of_pairs_takes_the_least_index_of_equal_values(void **state)
{
	static const float in[] = { -2, 7, 3, 9, -2, 4 }, least[] = { -2, 4 }, largest[] = { 3, 9 };
	const float with_nan[] = { 1, 5, NAN, 6, -1, 2 };
	static const float zeros[] = { 0, 5, -0.0f, 1, 0, 2 }, zero[] = { -0.0f, 1 };

	(void)state;
	pairs_are(TALLY_MINLOC, in, least);
	pairs_are(TALLY_MAXLOC, in, largest);
	pairs_are(TALLY_MINLOC, with_nan, with_nan + 2);
	pairs_are(TALLY_MAXLOC, with_nan, with_nan + 2);
	pairs_are(TALLY_MAXLOC, zeros, zero);
}

/* Of two complex numbers, four floats. */
static void note_calls(const void *in, void *inout, size_t count, int dtype, void *ctx)
{
	const float *from = in;
	float *to = inout;
	uint32_t *calls = ctx;

	assert_int_equal(count, 2);
	assert_int_equal(dtype, TALLY_COMPLEX64);
	for (uint32_t i = 0; i < 4; i++)
		to[i] = 2 * from[i] - to[i];
	++*calls;
}

static void fold__calls_the_programs_function_from_the_last_rank_to_the_first(void **state)
{
	uint32_t calls = 0;
	const struct fold_op own = { TALLY_COMPLEX64, TALLY_USER, note_calls, &calls };
	struct fold *fold = fold_new(&own, 4, RANKS, 0, NULL, 0);
	static const float in[] = { 1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400 };
	float out[2];
	const struct endpoint_segment segment = { 1, 2, NULL, out };

	(void)state;
	assert_non_null(fold);
	memcpy(fold->all, in, sizeof(in));
	fold_run(fold, &segment, 1);
	assert_int_equal(calls, RANKS - 1);
	assert_true(out[0] == 2 * 2 - (2 * 20 - 200)); /* a - (b - c), with each a doubled */
	assert_true(out[1] == 2 * 3 - (2 * 30 - 300));
	free(fold);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fold__of_pairs_takes_the_least_index_of_equal_values),
		cmocka_unit_test(fold__calls_the_programs_function_from_the_last_rank_to_the_first),
		cmocka_unit_test(fold__lays_the_ranks_out_one_behind_the_other),
		cmocka_unit_test(fold__of_nothing_is_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
