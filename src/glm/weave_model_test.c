/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dot products are within weave.h's bound, and no instruction set, split into shares or cut into calls changes a
 * bit of them or of the sums.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "glm/weave_ops.h"
#include "tests/random.h"

#include "glm/weave_fixture.h"
#include "tests/skip.h"

enum { SHARES_MAX = 5 };

static void weave__all_begins_with_scalar_and_what_the_kernel_lists_follows(void **state)
{
	static char line[16384];
	size_t count, listed = 1;
	const struct weave_ops *const *tables = weave_ops_all(&count);
	FILE *file = fopen("/proc/cpuinfo", "r");
	(void)state;

	assert_string_equal(tables[0]->name, "scalar");
	while (file && fgets(line, sizeof(line), file)) {
		if (strstr(line, " avx2 "))
			listed = strstr(line, " avx512f ") && strstr(line, " avx512bw ") ? 3 : 2;
	}
	if (!file)
		SKIP("no /proc/cpuinfo");
	fclose(file);
	assert_int_equal(count, listed);
	for (size_t i = 1; i < count; i++)
		assert_string_equal(tables[i]->name, i == 1 ? "avx2" : "avx512");
}

/* All features at once, by the scalar, and the same of every table. */
static void dots_check(struct data *data, uint32_t bits, uint32_t fraction)
{
	static const uint32_t rows[ROWS] = { 3, 0, 4, 4, 1 };
	int64_t partial[ROWS], other[ROWS];
	size_t count;
	const struct weave_ops *const *tables = weave_ops_all(&count);

	assert_int_equal(
		weave_model_set(&data->model, data->range, data->weight, 1, bits, fraction), 0);
	data->weave.ops = tables[0];
	weave_dot(&data->weave, &data->model, rows, ROWS, partial);
	for (int i = 0; i < ROWS; i++) {
		long double sum = 0, bound = ldexpl(1, -1 - (int)fraction) + 0x1p-32L;

		for (uint32_t j = 0; j < data->features; j++)
			sum += (long double)data->weight[j] *
			       kept(&data->range[j], data->value[rows[i] * data->features + j],
				    bits);
		bound = bound * data->features + 1e-12L;
		assert_true(fabsl((long double)partial[i] * 0x1p-32L - sum) <= bound);
	}
	for (size_t t = 1; t < count; t++) {
		data->weave.ops = tables[t];
		weave_dot(&data->weave, &data->model, rows, ROWS, other);
		assert_memory_equal(partial, other, sizeof(partial));
	}
}

static void weave__dot_is_within_the_bound_and_the_same_by_every_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct data data;

		data_open(&data, sizes[i], WEAVE_BITS_MAX);
		for (uint32_t bits = 1; bits <= WEAVE_BITS_MAX; bits++)
			dots_check(&data, bits,
				   random_below(2) ? WEAVE_FRACTION : random_below(16));
		data_close(&data);
	}
}

static void weave__dot_of_the_largest_weights_does_not_overflow(void **state)
{
	struct data data;
	(void)state;

	data_open(&data, 5000, WEAVE_BITS_MAX);
	for (uint32_t j = 0; j < data.features; j++) {
		data.range[j] = (struct weave_range){ .low = 0, .high = 1 };
		data.weight[j] = j / 2500 ? -63.7f : 63.7f;
		for (uint32_t r = 0; r < ROWS; r++)
			data.value[r * 5000 + j] = r % 2 == j / 2500 ? 1 : 0;
	}
	free(data.planes_memory);
	free(data.model_memory);
	planes_make(&data);
	dots_check(&data, 8, WEAVE_FRACTION);
	for (uint32_t j = 0; j < data.features; j++)
		data.weight[j] = 31;
	dots_check(&data, 1, WEAVE_FRACTION);
	data_close(&data);
}

/* The features from first on, as planes of their own: what another share would have. */
static void share_dot(const struct data *whole, uint32_t first, uint32_t features, uint32_t bits,
		      const uint32_t *rows, int64_t *partial)
{
	struct data share = { .features = features, .planes = bits };

	share.range = whole->range + first;
	share.value = get(ROWS * (size_t)features * sizeof(float));
	for (size_t r = 0; r < ROWS; r++)
		memcpy(share.value + r * features, whole->value + r * whole->features + first,
		       features * sizeof(float));
	planes_make(&share);
	assert_int_equal(weave_model_set(&share.model, share.range, whole->weight + first, 1, bits,
					 WEAVE_FRACTION),
			 0);
	weave_dot(&share.weave, &share.model, rows, ROWS, partial);
	free(share.model_memory);
	free(share.planes_memory);
	free(share.value);
}

static void weave__partials_of_shares_add_up_to_the_whole(void **state)
{
	static const uint32_t rows[ROWS] = { 0, 1, 2, 3, 4 };
	(void)state;

	for (uint32_t i = 0; i < 40; i++) {
		uint32_t bits = 1 + i % 8, shares = 2 + random_below(SHARES_MAX - 1), first = 0;
		int64_t whole[ROWS], sum[ROWS] = { 0 }, part[ROWS];
		struct data data;

		data_open(&data, 1 + random_below(3000), WEAVE_BITS_MAX);
		for (uint32_t s = 0; s < shares; s++) {
			uint32_t left = data.features - first;
			uint32_t features = s + 1 < shares ? random_below(left + 1) : left;

			share_dot(&data, first, features, bits, rows, part);
			for (int r = 0; r < ROWS; r++)
				sum[r] += part[r];
			first += features;
		}
		weave_model_set(&data.model, data.range, data.weight, 1, bits, WEAVE_FRACTION);
		weave_dot(&data.weave, &data.model, rows, ROWS, whole);
		assert_memory_equal(sum, whole, sizeof(sum));
		data_close(&data);
	}
}

static void weave__indicators_are_exact_with_one_bit(void **state)
{
	static const uint32_t rows[2] = { 0, 1 };
	const struct weave_range range[3] = { { 0, 1 }, { 0, 1 }, { -2, -2 } };
	const float weight[3] = { 0.5f, -3.25f, 0.125f };
	_Alignas(WEAVE_ALIGN) uint8_t memory[1024], parts[2048];
	struct weave weave;
	struct weave_model model;
	int64_t partial[2];
	(void)state;

	assert_true(weave_bytes(2, 3, 1) <= sizeof(memory));
	assert_true(weave_model_bytes(3) <= sizeof(parts));
	weave_init(&weave, memory, 2, 3, 1, range);
	weave_append_dense(&weave, (float[]){ 1, 0, -2 });
	weave_append_dense(&weave, (float[]){ 1, 1, -2 });
	weave_model_init(&model, parts, 3);
	assert_int_equal(weave_model_set(&model, range, weight, 1, 1, WEAVE_FRACTION), 0);
	weave_dot(&weave, &model, rows, 2, partial);
	assert_true((double)partial[0] == (0.5 - 0.25) * 0x1p32);
	assert_true((double)partial[1] == (0.5 - 3.25 - 0.25) * 0x1p32);
}

static void weave__every_table_rounds_weights_the_same(void **state)
{
	size_t count;
	const struct weave_ops *const *tables = weave_ops_all(&count);
	(void)state;

	for (uint32_t i = 0; i < 8 * SIZES; i++) {
		uint32_t features = sizes[i / 8], bits = 1 + i % 8, step = 1 + i % 3;
		size_t bytes = weave_model_bytes(features);
		struct data data;
		struct weave_model model;
		void *memory = get(bytes);
		float *weight = get(features * step * sizeof(float));
		uint64_t saturated;

		data_open(&data, features, 1);
		for (uint32_t j = 0; j < features * step; j++) {
			weight[j] = random_float(random_below(50) ? 10 : 1e4f);
			if (!random_below(100))
				weight[j] = random_below(2) ? NAN : -INFINITY;
		}
		data.model.ops = tables[0];
		saturated =
			weave_model_set(&data.model, data.range, weight, step, bits, 24 - i % 5);
		for (size_t t = 1; t < count; t++) {
			weave_model_init(&model, memory, features);
			model.ops = tables[t];
			assert_int_equal(weave_model_set(&model, data.range, weight, step, bits,
							 24 - i % 5),
					 saturated);
			assert_true(model.constant == data.model.constant);
			assert_memory_equal(model.parts, data.model.parts, bytes);
		}
		free(weight);
		free(memory);
		data_close(&data);
	}
}

/* sums of `bits` of rows 0..ROWS-1, called as the cuts say. */
static void sums_make(struct data *data, uint32_t bits, const float *scale, bool is_cut,
		      float *sums)
{
	static const uint32_t rows[ROWS] = { 2, 0, 1, 4, 2 };

	memset(sums, 0, weave_sums_count(data->features) * sizeof(*sums));
	if (!is_cut) {
		weave_add(&data->weave, bits, rows, scale, ROWS, sums);
		return;
	}
	weave_add(&data->weave, bits, rows, scale, 2, sums);
	weave_add(&data->weave, bits, rows + 2, scale + 2, 0, sums);
	weave_add(&data->weave, bits, rows + 2, scale + 2, ROWS - 2, sums);
	for (uint32_t j = 0; j < data->features; j++) {
		float sum = 0;
		for (int i = 0; i < ROWS; i++) {
			float x = data->value[rows[i] * data->features + j];
			float product = scale[i] * (float)q_of(&data->range[j], x, bits);
			sum += product;
		}
		assert_memory_equal(&sum, &sums[j], sizeof(sum));
	}
}

static void weave__sums_are_those_of_floats_in_order_by_every_table(void **state)
{
	float scale[ROWS], *sums, *other;
	size_t count;
	const struct weave_ops *const *tables = weave_ops_all(&count);
	(void)state;

	for (size_t i = 0; i < SIZES * WEAVE_BITS_MAX; i++) {
		uint32_t bits = 1 + (uint32_t)i % WEAVE_BITS_MAX;
		struct data data;

		data_open(&data, sizes[i / WEAVE_BITS_MAX], bits);
		sums = get(weave_sums_count(data.features) * sizeof(float));
		other = get(weave_sums_count(data.features) * sizeof(float));
		for (int r = 0; r < ROWS; r++)
			scale[r] = random_float(random_below(2) ? 1 : 1e30f);
		data.weave.ops = tables[0];
		sums_make(&data, bits, scale, true, sums);
		for (size_t t = 0; t < count; t++) {
			data.weave.ops = tables[t];
			sums_make(&data, bits, scale, false, other);
			assert_memory_equal(sums, other, data.features * sizeof(float));
		}
		free(other);
		free(sums);
		data_close(&data);
	}
}

static void weave__gradient_is_the_sum_of_scaled_values(void **state)
{
	static const uint32_t rows[ROWS] = { 0, 1, 2, 3, 4 };
	(void)state;

	for (uint32_t bits = 1; bits <= WEAVE_BITS_MAX; bits++) {
		float scale[ROWS], *sums, *gradient;
		double scale_sum = 0;
		struct data data;

		data_open(&data, 700, WEAVE_BITS_MAX);
		sums = get(weave_sums_count(data.features) * sizeof(float));
		gradient = get(3 * data.features * sizeof(float));
		memset(sums, 0, weave_sums_count(data.features) * sizeof(*sums));
		for (int r = 0; r < ROWS; r++) {
			scale[r] = random_float(1);
			scale_sum += (double)scale[r];
		}
		weave_add(&data.weave, bits, rows, scale, ROWS, sums);
		weave_gradient(&data.weave, bits, sums, scale_sum, gradient, 3);
		for (uint32_t j = 0; j < data.features; j++) {
			long double sum = 0, largest = 1;

			for (uint32_t r = 0; r < ROWS; r++) {
				sum += (long double)scale[r] *
				       kept(&data.range[j], data.value[r * data.features + j],
					    bits);
			}
			largest += fabsl((long double)data.range[j].low) +
				   fabsl((long double)data.range[j].high);
			assert_true(fabsl((long double)gradient[3 * j] - sum) <=
				    4 * ROWS * largest * 0x1p-24L);
			assert_true(sums[j] == 0);
		}
		free(gradient);
		free(sums);
		data_close(&data);
	}
}

static void weave__weights_that_do_not_fit_are_counted(void **state)
{
	const struct weave_range range[2] = { { 0, 1 }, { 1000, 1001 } };
	_Alignas(WEAVE_ALIGN) uint8_t parts[2048];
	struct weave_model model;
	const struct {
		float first, second;
		uint64_t saturated;
	} rows[] = {
		{ 63.74f, 1.02f, 0 }, { 63.76f, 0, 1 }, { -63.76f, 0, 1 },  { NAN, 0, 1 },
		{ -INFINITY, 0, 1 },  { 0, 1.025f, 1 }, { 64, -1.025f, 2 }, { 0, -INFINITY, 1 },
	};
	(void)state;

	weave_model_init(&model, parts, 2);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const float weight[2] = { rows[i].first, rows[i].second };
		assert_int_equal(weave_model_set(&model, range, weight, 1, 8, WEAVE_FRACTION),
				 rows[i].saturated);
	}
	assert_int_equal(
		weave_model_set(&model, range, (float[]){ 64, 0 }, 1, 8, WEAVE_FRACTION - 1), 0);
}

static void weave__a_partial_beyond_2_to_the_20_is_saturated(void **state)
{
	enum { FEATURES = 20000 }; /* of 63 each: 1.2 times 2^20 */
	static const uint32_t rows[ROWS] = { 0, 1, 2, 3, 4 };
	int64_t partial[ROWS];
	struct data data;
	(void)state;

	data_open(&data, FEATURES, 1);
	for (uint32_t j = 0; j < FEATURES; j++) {
		data.range[j] = (struct weave_range){ .low = 0, .high = 2 };
		for (uint32_t r = 0; r < ROWS; r++)
			data.value[(size_t)r * FEATURES + j] = j % 2 || r % 2 ? 2 : 0;
	}
	free(data.planes_memory);
	free(data.model_memory);
	planes_make(&data);
	for (int sign = 1; sign >= -1; sign -= 2) {
		for (uint32_t j = 0; j < FEATURES; j++)
			data.weight[j] = (float)sign * 31.5f;
		assert_int_equal(weave_model_set(&data.model, data.range, data.weight, 1, 1, 23),
				 0);
		weave_dot(&data.weave, &data.model, rows, ROWS, partial);
		assert_true(partial[0] == sign * ((63LL * FEATURES / 2) << 32));
		assert_true(partial[1] == sign * (1LL << WEAVE_PARTIAL_BITS));
		/* Also where the sum, in units of 2^-32, leaves 64 bits. */
		for (uint32_t j = 0; j < FEATURES; j++)
			data.weight[j] = (float)sign * 0x1p27f;
		assert_int_equal(weave_model_set(&data.model, data.range, data.weight, 1, 1, 0), 0);
		weave_dot(&data.weave, &data.model, rows, ROWS, partial);
		assert_true(partial[1] == sign * (1LL << WEAVE_PARTIAL_BITS));
	}
	data_close(&data);
}

/* A plane of 64 features and `rows` rows is a page: reading one word too many, or a plane too many, is a
 * fault. */
static void weave__reads_the_words_of_the_chosen_planes_alone(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const uint32_t rows = (uint32_t)(page / sizeof(uint64_t)), last = rows - 1;
	struct weave_range range[64];
	_Alignas(WEAVE_ALIGN) uint8_t parts[2048];
	float weight[64], value[64], scale = 1, sums[512];
	struct weave weave;
	struct weave_model model;
	int64_t partial;
	size_t count, bytes = weave_bytes(rows, 64, 8);
	const struct weave_ops *const *tables = weave_ops_all(&count);
	uint8_t *memory;
	(void)state;

	for (uint32_t j = 0; j < 64; j++) {
		range[j] = (struct weave_range){ .low = -1, .high = 1 };
		weight[j] = random_float(1);
	}
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(memory != MAP_FAILED);
	weave_init(&weave, memory, rows, 64, 8, range);
	assert_int_equal(weave.plane_words * sizeof(uint64_t), page);
	for (uint32_t r = 0; r < rows; r++) {
		for (uint32_t j = 0; j < 64; j++)
			value[j] = random_float(1);
		weave_append_dense(&weave, value);
	}
	weave_model_init(&model, parts, 64);
	for (uint32_t bits = 8; bits >= 1; bits--) {
		assert_int_equal(mprotect(memory + bits * page, page, PROT_NONE), 0);
		weave_model_set(&model, range, weight, 1, bits, WEAVE_FRACTION);
		for (size_t t = 0; t < count; t++) {
			weave.ops = tables[t];
			weave_dot(&weave, &model, &last, 1, &partial);
			memset(sums, 0, sizeof(sums));
			weave_add(&weave, bits, &last, &scale, 1, sums);
			for (uint32_t j = 0; j < 64; j++)
				assert_true(sums[j] == (float)q_of(&range[j], value[j], bits));
		}
	}
	munmap(memory, bytes);
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weave__all_begins_with_scalar_and_what_the_kernel_lists_follows),
		RANDOM(weave__dot_is_within_the_bound_and_the_same_by_every_table),
		RANDOM(weave__dot_of_the_largest_weights_does_not_overflow),
		RANDOM(weave__partials_of_shares_add_up_to_the_whole),
		cmocka_unit_test(weave__indicators_are_exact_with_one_bit),
		RANDOM(weave__every_table_rounds_weights_the_same),
		RANDOM(weave__sums_are_those_of_floats_in_order_by_every_table),
		RANDOM(weave__gradient_is_the_sum_of_scaled_values),
		cmocka_unit_test(weave__weights_that_do_not_fit_are_counted),
		RANDOM(weave__a_partial_beyond_2_to_the_20_is_saturated),
		RANDOM(weave__reads_the_words_of_the_chosen_planes_alone),
	};
	return cmocka_run_group_tests_name("weave_model", tests, NULL, NULL);
}
