/* SPDX-License-Identifier: Apache-2.0 */
/* Planes hold what weave.h says, from dense and sparse rows, in as many bytes as it says. */
#include "glm/weave.h"

#include "glm/weave_ops.h"
#include "tests/random.h"

#include "glm/weave_fixture.h"

/* What the first `bits` planes say of a value. */
static uint32_t q_read(const struct weave *weave, uint64_t row, uint32_t feature, uint32_t bits)
{
	const uint64_t *word = weave->words + row * weave->stride + feature / WEAVE_WORD;
	uint32_t q = 0;

	for (uint32_t p = 0; p < bits; p++, word += weave->plane_words)
		q = q << 1 | (*word >> weave_bit(feature) & 1);
	return q;
}

static void weave__value_is_within_a_bin_and_exact_at_the_ends(void **state)
{
	struct data data;
	(void)state;

	data_open(&data, 1500, WEAVE_BITS_MAX);
	for (uint32_t i = 0; i < ROWS * data.features * WEAVE_BITS_MAX; i++) {
		uint32_t bits = 1 + i % WEAVE_BITS_MAX, row = i / WEAVE_BITS_MAX % ROWS;
		uint32_t feature = i / WEAVE_BITS_MAX / ROWS;
		const struct weave_range *range = &data.range[feature];
		long double low = (long double)range->low;
		long double x = (long double)data.value[row * (size_t)data.features + feature];
		long double width = (long double)range->high - low;
		uint32_t q = q_read(&data.weave, row, feature, bits), levels = (1u << bits) - 1;

		assert_int_equal(q, q_of(range, (float)x, bits));
		assert_true(fabsl(low + width * q / levels - x) <=
			    width / (1 << bits) * (1 + 1e-9L));
		if (width > 0 && (x == low || x == low + width))
			assert_int_equal(q, x == low ? 0 : levels);
	}
	data_close(&data);
}

static void weave__sparse_rows_and_fewer_planes_give_the_same_words(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SIZES; i++) {
		uint32_t *column;
		float *value;
		struct data data, sparse;

		data_open(&data, sizes[i], WEAVE_BITS_MAX);
		column = get(data.features * sizeof(*column));
		value = get(data.features * sizeof(*value));
		sparse = (struct data){ .features = sizes[i], .planes = 1 + random_below(8) };
		sparse.planes_memory = get(weave_bytes(ROWS, sizes[i], sparse.planes));
		weave_init(&sparse.weave, sparse.planes_memory, ROWS, sizes[i], sparse.planes,
			   data.range);
		for (size_t r = 0; r < ROWS; r++) {
			size_t count = 0;

			for (uint32_t j = data.features; j-- > 0;) { /* backwards: any order */
				column[count] = j;
				value[count] = data.value[r * data.features + j];
				count += value[count] != 0;
			}
			weave_append_sparse(&sparse.weave, column, value, count);
		}
		assert_int_equal(sparse.weave.plane_words, data.weave.plane_words);
		for (uint32_t p = 0; p < sparse.planes; p++) {
			for (uint32_t r = 0; r < ROWS; r++) {
				uint64_t at = p * data.weave.plane_words + r * data.weave.stride;
				assert_memory_equal(sparse.weave.words + at, data.weave.words + at,
						    data.weave.words_count * sizeof(uint64_t));
			}
		}
		free(sparse.planes_memory);
		free(value);
		free(column);
		data_close(&data);
	}
}

static void weave__what_is_outside_its_range_is_its_nearer_end(void **state)
{
	const struct weave_range range[4] = { { -1, 1 }, { -1, 1 }, { 0, 0 }, { 0, 1 } };
	_Alignas(WEAVE_ALIGN) uint8_t memory[1024];
	struct weave weave;
	(void)state;

	assert_true(weave_bytes(1, 4, 8) <= sizeof(memory));
	weave_init(&weave, memory, 1, 4, 8, range);
	weave_append_dense(&weave, (float[]){ -7, INFINITY, 3, NAN });
	for (uint32_t p = 0; p < 8; p++) {
		uint64_t word = weave.words[p * weave.plane_words];
		assert_int_equal(word & 1ULL << weave_bit(0), 0);
		assert_int_equal(word >> weave_bit(1) & 1, 1);
		assert_int_equal(word & 1ULL << weave_bit(3), 0);
	}
}

static void weave__ranges_know_the_zeros_that_sparse_rows_lack(void **state)
{
	/* 0: never there; 1: always; 2, 3: once. */
	const uint64_t start[] = { 0, 2, 4 };
	const uint32_t column[] = { 1, 2, 1, 3 };
	const float value[] = { 5, -3, 7, 0.5f };
	const float low[] = { 0, 5, -3, 0 }, high[] = { 0, 7, 0, 0.5f };
	struct weave_range sparse[4];
	uint64_t seen[4];
	(void)state;

	weave_ranges_sparse(sparse, seen, 4, 2, start, column, value);
	for (int j = 0; j < 4; j++) {
		assert_true(sparse[j].low == low[j]);
		assert_true(sparse[j].high == high[j]);
	}
	weave_ranges_sparse(sparse, seen, 4, 0, start, column, value);
	assert_true(sparse[1].low == 0);
	assert_true(sparse[1].high == 0);
}

static void weave__bytes_are_near_the_bits_share_of_dense_floats(void **state)
{
	(void)state;
	for (uint32_t shares = 1; shares <= 8; shares++) { /* of 5000 features */
		uint32_t features = 5000 / shares;
		struct weave_range *range = get(features * sizeof(*range));
		void *memory = get(weave_bytes(1, features, WEAVE_BITS_MAX));
		struct weave weave;

		memset(range, 0, features * sizeof(*range));
		weave_init(&weave, memory, 1, features, WEAVE_BITS_MAX, range);
		for (uint32_t bits = 1; bits <= WEAVE_BITS_MAX; bits++) {
			double part = (double)features * sizeof(float) * bits / 32;
			assert_true((double)weave_row_bytes(&weave, bits) <= 1.1 * part);
			assert_true((double)weave.stride * sizeof(uint64_t) * bits <= 1.1 * part);
		}
		free(memory);
		free(range);
	}
	assert_int_equal(weave_bytes(UINT64_MAX / 64, 5000, 8), 0);
	assert_int_equal(weave_bytes(UINT64_MAX, 64, 1), 0);
}

/* A share of 15 words would grow by a 15th, more than is little; one of 31 words does not. */
static void weave__rows_begin_at_a_cache_line_if_that_costs_little(void **state)
{
	static const uint32_t words[] = { 1, 8, 15, 16, 17, 31, 118, 121 },
			      strides[] = { 1, 8, 15, 16, 17, 32, 120, 128 };

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		uint32_t features = words[i] * WEAVE_WORD;
		struct weave_range *range = get(features * sizeof(*range));
		void *memory = get(weave_bytes(1, features, 1));
		struct weave weave;

		memset(range, 0, features * sizeof(*range));
		weave_init(&weave, memory, 1, features, 1, range);
		assert_int_equal(weave.stride, strides[i]);
		free(memory);
		free(range);
	}
}

static void ops__are_the_best_of_this_processor(void **state)
{
	size_t count, want = 1;
	const struct weave_ops *const *all = weave_ops_all(&count);

	(void)state;
#ifdef __x86_64__
	want += !!__builtin_cpu_supports("avx2");
	want += want == 2 && __builtin_cpu_supports("avx512f") &&
		__builtin_cpu_supports("avx512bw");
	if (want < 3)
		print_message("NOT HERE: %s\n", want < 2 ? "AVX2 and AVX-512" : "AVX-512");
#endif
	assert_int_equal(count, want);
	assert_ptr_equal(all[0], &weave_scalar);
	assert_ptr_equal(weave_ops_best(), all[want - 1]);
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		RANDOM(weave__value_is_within_a_bin_and_exact_at_the_ends),
		RANDOM(weave__sparse_rows_and_fewer_planes_give_the_same_words),
		cmocka_unit_test(weave__what_is_outside_its_range_is_its_nearer_end),
		cmocka_unit_test(weave__ranges_know_the_zeros_that_sparse_rows_lack),
		cmocka_unit_test(weave__bytes_are_near_the_bits_share_of_dense_floats),
		cmocka_unit_test(weave__rows_begin_at_a_cache_line_if_that_costs_little),
		cmocka_unit_test(ops__are_the_best_of_this_processor),
	};
	return cmocka_run_group_tests_name("weave", tests, NULL, NULL);
}
