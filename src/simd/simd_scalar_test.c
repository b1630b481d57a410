/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd_scalar_test.c - how much the vectors leave to the scalar. It gives the same bits, and is slow: that they leave
 * too much to it, no other test would see. The scalar is the test's here: it counts the elements that it is given.
 */
#include "core/shared/wire.h"
#include "simd/simd.h"
#include "tests/random.h"

#include "core/shared/quant_fixture.h"

enum {
	COUNT_MAX = 100,
	BFLOAT16_MAX = 0x7f7f,
	FLOAT16_MAX = 0x7bff,
	FLOAT32_MAX = 0x7f7fffff,
};

extern const struct quant_ops __real_quant_scalar, __wrap_quant_scalar;

static size_t counted;

static uint32_t count_exponent_f32(const float *src, size_t count)
{
	counted += count;
	return __real_quant_scalar.exponent_f32(src, count);
}

static uint8_t count_pack_f32(int32_t *lane, const float *src, size_t count,
			      const struct quant_scale *scale)
{
	counted += count;
	return __real_quant_scalar.pack_f32(lane, src, count, scale);
}

static void count_unpack_f32(float *dst, const int32_t *lane, size_t count,
			     const struct quant_scale *scale, bool is_avg)
{
	counted += count;
	__real_quant_scalar.unpack_f32(dst, lane, count, scale, is_avg);
}

static uint8_t count_pack_i32(int32_t *lane, const int32_t *src, size_t count, int32_t bound)
{
	counted += count;
	return __real_quant_scalar.pack_i32(lane, src, count, bound);
}

static void count_unpack_i32(int32_t *dst, const int32_t *lane, size_t count, uint32_t workers,
			     bool is_avg)
{
	counted += count;
	__real_quant_scalar.unpack_i32(dst, lane, count, workers, is_avg);
}

static uint32_t count_exponent_half(const uint16_t *src, size_t count, enum quant_half type)
{
	counted += count;
	return __real_quant_scalar.exponent_half(src, count, type);
}

static uint8_t count_pack_half(int32_t *lane, const void *src, size_t count,
			       const struct quant_scale *scale, enum quant_half type)
{
	counted += count;
	return __real_quant_scalar.pack_half(lane, src, count, scale, type);
}

static void count_unpack_half(void *dst, const int32_t *lane, size_t count,
			      const struct quant_scale *scale, bool is_avg, enum quant_half type)
{
	counted += count;
	__real_quant_scalar.unpack_half(dst, lane, count, scale, is_avg, type);
}

const struct quant_ops __wrap_quant_scalar = {
	.name = "counts",
	.exponent_f32 = count_exponent_f32,
	.pack_f32 = count_pack_f32,
	.unpack_f32 = count_unpack_f32,
	.pack_i32 = count_pack_i32,
	.unpack_i32 = count_unpack_i32,
	.exponent_half = count_exponent_half,
	.pack_half = count_pack_half,
	.unpack_half = count_unpack_half,
};

/* 0 elements of any type; what is written is not looked at. */
static uint32_t src[COUNT_MAX], dst[COUNT_MAX];
static int32_t lane[COUNT_MAX];

/* A table, and how many elements its vectors have. */
struct vectors {
	const struct quant_ops *ops;
	size_t step;
};

static struct vectors vectors_of(size_t table)
{
	size_t count;
	struct vectors vectors = { .ops = simd_all(&count)[table] };

	assert_true(table < count);
	vectors.step = !strcmp(vectors.ops->name, "avx512") ? 16
		       : !strcmp(vectors.ops->name, "avx2") ? 8
							    : 4;
	return vectors;
}

static size_t tables(void)
{
	size_t count;

	simd_all(&count);
	return count;
}

/* How many were counted since the last time. */
static size_t taken(void)
{
	size_t now = counted;

	counted = 0;
	return now;
}

static int begin(void **state)
{
	(void)state;
	memset(src, 0, sizeof(src));
	memset(lane, 0, sizeof(lane));
	taken();
	return 0;
}

/* Both a factor that is a float, and one that is not; averages over powers of two, and others. */
static void check_floats(const struct vectors *vectors, size_t count, uint32_t workers,
			 uint32_t exponent)
{
	size_t want = count < vectors->step ? count : 0;
	struct quant_scale scale;

	quant_scale(&scale, workers, exponent);
	vectors->ops->pack_f32(lane, (const float *)src, count, &scale);
	assert_int_equal(taken(), want);
	for (int is_avg = 0; is_avg < 2; is_avg++) {
		vectors->ops->unpack_f32((float *)dst, lane, count, &scale, is_avg);
		assert_int_equal(taken(), want);
	}
}

static void vectors__do_all_floats_from_one_vector_on(void **state)
{
	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		struct vectors vectors = vectors_of(table);

		for (size_t count = 0; count <= COUNT_MAX; count++) {
			for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++) {
				check_floats(&vectors, count, workers_of_interest[i], 1);
				check_floats(&vectors, count, workers_of_interest[i], EXPONENT_MAX);
			}
			vectors.ops->exponent_f32((const float *)src, count);
			assert_int_equal(taken(), count < vectors.step ? count : 0);
		}
	}
}

static void vectors__do_all_int32_from_one_vector_on(void **state)
{
	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		struct vectors vectors = vectors_of(table);

		for (size_t count = 0; count <= COUNT_MAX; count++) {
			vectors.ops->pack_i32(lane, (const int32_t *)src, count, 1000);
			assert_int_equal(taken(), count < vectors.step ? count : 0);
			vectors.ops->unpack_i32((int32_t *)dst, lane, count, 7, true);
			assert_int_equal(taken(), count < vectors.step ? count : 0);
		}
	}
}

static void check_halves(const struct vectors *vectors, size_t count, enum quant_half type,
			 const struct quant_scale *scale)
{
	size_t odd = scale->together == 2 ? count % 2 : 0;
	size_t want = count - odd < 2 * vectors->step ? count : odd;

	vectors->ops->pack_half(lane, src, count, scale, type);
	assert_int_equal(taken(), want);
	for (int is_avg = 0; is_avg < 2; is_avg++) {
		vectors->ops->unpack_half(dst, lane, count, scale, is_avg, type);
		assert_int_equal(taken(), want);
	}
}

/* Of halves two vectors; then the scalar does one whose lane is half full, and reads the largest one's exponent. */
static void vectors__do_all_halves_from_two_vectors_on(void **state)
{
	struct quant_scale scale;

	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		struct vectors vectors = vectors_of(table);

		for (size_t count = 0; count <= COUNT_MAX; count++) {
			for (uint32_t workers = 7; workers < 9; workers++) {
				quant_scale(&scale, workers, 127);
				check_halves(&vectors, count, QUANT_FLOAT16, &scale);
				check_halves(&vectors, count, QUANT_BFLOAT16, &scale);
				quant_scale_half(&scale, workers, 127);
				check_halves(&vectors, count, QUANT_FLOAT16, &scale);
				check_halves(&vectors, count, QUANT_BFLOAT16, &scale);
				check_halves(&vectors, count, QUANT_FLOAT32, &scale);
			}
			vectors.ops->exponent_half((const uint16_t *)src, count, QUANT_FLOAT16);
			assert_int_equal(taken(), count < 2 * vectors.step ? count : 1);
		}
	}
}

static void vectors__find_the_exponent_of_all_that_is_finite(void **state)
{
	const struct {
		enum quant_half type;
		uint32_t most;
	} halves[] = { { QUANT_FLOAT16, FLOAT16_MAX }, { QUANT_BFLOAT16, BFLOAT16_MAX } };

	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		const struct quant_ops *ops = vectors_of(table).ops;

		src[70] = FLOAT32_MAX;
		ops->exponent_f32((const float *)src, COUNT_MAX);
		assert_int_equal(taken(), 0);
		src[70]++;
		ops->exponent_f32((const float *)src, COUNT_MAX);
		assert_int_equal(taken(), COUNT_MAX);
		for (uint32_t i = 0; i < 2; i++) {
			src[35] = halves[i].most << 16;
			src[70] = 0;
			ops->exponent_half((const uint16_t *)src, COUNT_MAX, halves[i].type);
			assert_int_equal(taken(), 1);
			src[35] += 1 << 16;
			ops->exponent_half((const uint16_t *)src, COUNT_MAX, halves[i].type);
			assert_int_equal(taken(), COUNT_MAX);
			src[35] = 0;
		}
	}
}

/* The bits of the largest float that is not above the bound. */
static uint32_t largest_within(const struct quant_scale *scale)
{
	uint32_t bits = bits_of((float)(scale->bound * scale->down)) + 1;

	while ((double)float_of(bits) * scale->up > scale->bound)
		bits--;
	return bits;
}

/* Wherever it is, and of either sign: one that has to be clamped is the scalar's, with all others. */
static void vectors__pack_what_need_not_be_clamped(void **state)
{
	struct quant_scale scale, half;

	(void)state;
	for (uint32_t i = 0; i < 1000 * tables(); i++) {
		const struct quant_ops *ops = vectors_of(i % tables()).ops;
		uint32_t workers = workers_of_interest[random_below(WORKERS_OF_INTEREST)];
		uint32_t at = random_below(COUNT_MAX), sign = random_below(2) << 31;
		uint32_t exponent = 1 + random_below(EXPONENT_MAX - 1);

		if (ops == &__wrap_quant_scalar)
			continue;
		quant_scale(&scale, workers, exponent);
		src[at] = sign | largest_within(&scale);
		ops->pack_f32(lane, (const float *)src, COUNT_MAX, &scale);
		assert_int_equal(taken(), 0);
		src[at]++;
		ops->pack_f32(lane, (const float *)src, COUNT_MAX, &scale);
		assert_int_equal(taken(), COUNT_MAX);

		quant_scale_half(&half, workers < 10000 ? workers : 10000, exponent);
		src[at] = sign | largest_within(&half);
		ops->pack_half(lane, src, COUNT_MAX, &half, QUANT_FLOAT32);
		assert_int_equal(taken(), 0);
		src[at]++;
		ops->pack_half(lane, src, COUNT_MAX, &half, QUANT_FLOAT32);
		assert_int_equal(taken(), COUNT_MAX);
		src[at] = 0;
	}
}

/* How many are the scalar's, of COUNT_MAX whose sums, or quotients, are multiples of 2^exponent. */
static size_t unpacked(const struct quant_ops *ops, uint32_t together, uint32_t workers,
		       int32_t exponent)
{
	struct quant_scale scale = { .together = together, .workers = workers };

	for (uint32_t biased = 0; biased <= EXPONENT_MAX; biased++) {
		if (together == 2)
			quant_scale_half(&scale, workers, biased);
		else
			quant_scale(&scale, workers, biased);
		if (-scale.shift - (31 - __builtin_clz(workers)) == exponent)
			break;
	}
	taken();
	ops->unpack_half(dst, lane, COUNT_MAX, &scale, true, QUANT_FLOAT32 - together % 2);
	return taken();
}

static void vectors__unpack_halves_that_cannot_be_denormal_floats(void **state)
{
	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		const struct quant_ops *ops = vectors_of(table).ops;

		assert_int_equal(unpacked(ops, 1, 7, -125), 0);
		assert_int_equal(unpacked(ops, 1, 7, -126), COUNT_MAX);
		assert_int_equal(unpacked(ops, 1, 8, -125), 0);
		assert_int_equal(unpacked(ops, 1, 8, -126), COUNT_MAX);
		assert_int_equal(unpacked(ops, 2, 7, -125), 0);
		assert_int_equal(unpacked(ops, 2, 7, -126), COUNT_MAX);
		assert_int_equal(unpacked(ops, 2, 1, -126), 0); /* these are rounded once */
		assert_int_equal(unpacked(ops, 2, 8, -126), 0);
		assert_int_equal(unpacked(ops, 2, 8, -140), 0);
	}
}

/* 2^shift is a float down to 2^-126; denormal ones are flushed on some machines. */
static void vectors__pack_halves_by_normal_factors(void **state)
{
	struct quant_scale scale;

	(void)state;
	for (size_t table = 1; table < tables(); table++) {
		const struct quant_ops *ops = vectors_of(table).ops;

		quant_scale_half(&scale, 8192, EXPONENT_MAX);
		assert_int_equal(scale.shift, -126);
		ops->pack_half(lane, src, COUNT_MAX, &scale, QUANT_BFLOAT16);
		assert_int_equal(taken(), 0);
		quant_scale_half(&scale, 8193, EXPONENT_MAX);
		ops->pack_half(lane, src, COUNT_MAX, &scale, QUANT_BFLOAT16);
		assert_int_equal(taken(), COUNT_MAX);
	}
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(vectors__do_all_floats_from_one_vector_on, begin),
		cmocka_unit_test_setup(vectors__do_all_int32_from_one_vector_on, begin),
		cmocka_unit_test_setup(vectors__do_all_halves_from_two_vectors_on, begin),
		cmocka_unit_test_setup(vectors__find_the_exponent_of_all_that_is_finite, begin),
		cmocka_unit_test_setup(vectors__pack_what_need_not_be_clamped, begin),
		cmocka_unit_test_setup(vectors__unpack_halves_that_cannot_be_denormal_floats,
				       begin),
		cmocka_unit_test_setup(vectors__pack_halves_by_normal_factors, begin),
	};

	return cmocka_run_group_tests_name("simd-scalar", tests, NULL, NULL);
}
