/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every table gives the bits of quant_scalar, which core/shared/quant_test.c holds against the rules.
 */
#include <sys/mman.h>

#include "core/shared/quant_exact.h"
#include "core/shared/wire.h"
#include "simd/simd.h"
#include "tests/random.h"

#include "core/shared/quant_fixture.h"
#include "tests/skip.h"

enum {
	COUNT_MAX = 200,
	OFFSET_MAX = 16, /* elements: a vector of AVX-512 */
	ROOM = COUNT_MAX + 2 * OFFSET_MAX,
	GUARD = 0x5a5a5a5a,
};

/* Bits of a finite float of either sign. */
static uint32_t random_finite(uint32_t exponent)
{
	uint32_t sign = random_below(2) << 31;
	uint32_t fraction = random_below(1 << 23);

	switch (random_below(8)) {
	case 0: /* anywhere */
		return sign | random_below(EXPONENT_MAX + 1) << 23 | fraction;
	case 1: /* denormal */
		return sign | fraction >> random_below(23);
	case 2: /* a zero, the smallest, the largest denormal, the first normal, the largest */
		return sign | (uint32_t[]){ 0, 1, 0x7fffff, 0x800000, 0x7f7fffff }[random_below(5)];
	case 3: /* near the bound */
		return sign | exponent << 23 | 0x7ffff0 | random_below(16);
	case 4: /* one too many */
		return sign | (exponent + (exponent < EXPONENT_MAX)) << 23 |
		       fraction >> random_below(23);
	default: /* with few bits: halfway between two lanes */
		exponent -= random_below(exponent < 32 ? exponent + 1 : 32);
		return sign | exponent << 23 | (fraction & ~0u << random_below(24));
	}
}

static uint32_t random_nonfinite(void)
{
	uint32_t sign = random_below(2) << 31;

	return sign | (random_below(2) ? 0x7f800000 : 0x7f800001 + random_below(0x7fffff));
}

static uint32_t random_lane_bits(void)
{
	uint32_t lane = (uint32_t)rng_next(&rng);

	switch (random_below(4)) {
	case 0:
		return lane;
	case 1: /* small */
		return (uint32_t)((int32_t)lane >> random_below(32));
	case 2: /* near INT32_MAX and INT32_MIN */
		return 0x80000000 + random_below(8) - 4;
	default: /* halfway between two floats, or a quotient is */
		return ((lane >> 7 | 1) * (1 + random_below(9))) << random_below(7);
	}
}

/* What both tables read, and what each writes: with guards on both sides. */
struct area {
	_Alignas(64) uint32_t src[ROOM];
	_Alignas(64) uint32_t scalar[ROOM];
	_Alignas(64) uint32_t other[ROOM];
};

struct shape {
	size_t count, src_at, dst_at;
	uint32_t workers, exponent;
};

static struct shape random_shape(void)
{
	bool is_of_interest = random_below(4);

	return (struct shape){
		.count = random_below(COUNT_MAX + 1),
		.src_at = random_below(OFFSET_MAX),
		.dst_at = random_below(OFFSET_MAX),
		.workers = is_of_interest ? workers_of_interest[random_below(WORKERS_OF_INTEREST)]
					  : 1 + random_below(WORKERS_MAX),
		.exponent = random_below(EXPONENT_MAX + 1),
	};
}

/* What is above the exponent that was agreed gets it: then nothing has to be clamped, or hardly anything. */
static uint32_t within(uint32_t bits, uint32_t exponent)
{
	if ((bits >> 23 & 0xff) > exponent)
		bits = (bits & 0x807fffff) | exponent << 23;
	return bits;
}

static void area_fill(struct area *area, const struct shape *shape, bool is_float)
{
	bool is_within = random_below(4);

	for (size_t i = 0; i < ROOM; i++) {
		area->src[i] = is_float ? random_finite(shape->exponent) : random_lane_bits();
		if (is_float && is_within)
			area->src[i] = within(area->src[i], shape->exponent);
		area->scalar[i] = GUARD;
		area->other[i] = GUARD;
	}
}

static void area_check(const struct area *area)
{
	assert_memory_equal(area->scalar, area->other, sizeof(area->scalar));
}

typedef void check_fn(const struct quant_ops *ops, const struct shape *shape);

static void for_tables(check_fn *check, const struct shape *shape)
{
	size_t count;
	const struct quant_ops *const *tables = simd_all(&count);

	for (size_t i = 1; i < count; i++)
		check(tables[i], shape);
}

/* All counts at all offsets, and all exponents with all interesting workers. */
static void for_shapes(check_fn *check)
{
	for (size_t count = 0; count <= COUNT_MAX; count++) {
		for (size_t at = 0; at < OFFSET_MAX; at++) {
			struct shape shape = random_shape();
			shape.count = count;
			shape.src_at = at;
			for_tables(check, &shape);
		}
	}
	for (uint32_t exponent = 0; exponent <= EXPONENT_MAX; exponent++) {
		for (uint32_t i = 0; i < WORKERS_OF_INTEREST; i++) {
			struct shape shape = random_shape();
			shape.exponent = exponent;
			shape.workers = workers_of_interest[i];
			for_tables(check, &shape);
		}
	}
}

static void check_exponent(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;

	area_fill(&area, shape, true);
	for (size_t i = 0; i < ROOM; i++) {
		if (i < shape->src_at || i >= shape->src_at + shape->count)
			area.src[i] = 0x7f7fffff; /* too large to go unnoticed */
		else if (random_below(3) == 0 || shape->exponent < 2)
			area.src[i] &= 0x80000000 | 0xffffff >> random_below(25);
	}
	if (shape->count && random_below(4) == 0)
		area.src[shape->src_at + random_below((uint32_t)shape->count)] = random_nonfinite();
	const float *src = (const float *)area.src + shape->src_at;
	assert_int_equal(ops->exponent_f32(src, shape->count),
			 quant_scalar.exponent_f32(src, shape->count));
}

static void simd__exponent_is_the_scalar_one(void **state)
{
	(void)state;
	for_shapes(check_exponent);
}

/* Magnitudes that differ in one element only, wherever that is. */
static void simd__exponent_looks_at_every_element(void **state)
{
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	static float src[COUNT_MAX];
	(void)state;

	for (size_t t = 1; t < table_count; t++) {
		for (size_t count = 1; count <= COUNT_MAX; count++) {
			for (size_t i = 0; i < count; i++) {
				uint32_t exponent = 1 + random_below(EXPONENT_MAX);
				src[i] = float_of(exponent << 23 | random_below(2) << 31);
				assert_int_equal(tables[t]->exponent_f32(src, count), exponent);
				src[i] = float_of(1); /* the smallest */
				assert_int_equal(tables[t]->exponent_f32(src, count), 1);
				src[i] = 0;
			}
			assert_int_equal(tables[t]->exponent_f32(src, count), 0);
		}
	}
}

static void check_pack_area(const struct quant_ops *ops, const struct shape *shape,
			    struct area *area, uint8_t flags)
{
	struct quant_scale scale;
	const float *src = (const float *)area->src + shape->src_at;
	int32_t *scalar = (int32_t *)area->scalar + shape->dst_at;
	int32_t *other = (int32_t *)area->other + shape->dst_at;

	quant_scale(&scale, shape->workers, shape->exponent);
	assert_int_equal(quant_scalar.pack_f32(scalar, src, shape->count, &scale), flags);
	assert_int_equal(ops->pack_f32(other, src, shape->count, &scale), flags);
	area_check(area);
}

static void check_pack_finite(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;

	area_fill(&area, shape, true);
	check_pack_area(ops, shape, &area, 0);
}

static void simd__pack_gives_the_scalar_lanes(void **state)
{
	(void)state;
	for_shapes(check_pack_finite);
}

static void check_pack_nonfinite(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;

	if (shape->count == 0)
		return;
	area_fill(&area, shape, true);
	for (uint32_t i = 1 + random_below(3); i; i--)
		area.src[shape->src_at + random_below((uint32_t)shape->count)] = random_nonfinite();
	check_pack_area(ops, shape, &area, WIRE_NONFINITE);
}

static void simd__pack_flags_every_nonfinite_element(void **state)
{
	(void)state;
	for_shapes(check_pack_nonfinite);
}

static void check_unpack_one(const struct quant_ops *ops, const struct shape *shape, bool is_avg)
{
	struct area area;
	struct quant_scale scale;

	area_fill(&area, shape, false);
	const int32_t *lane = (const int32_t *)area.src + shape->src_at;
	float *scalar = (float *)area.scalar + shape->dst_at;
	float *other = (float *)area.other + shape->dst_at;
	quant_scale(&scale, shape->workers, shape->exponent);
	quant_scalar.unpack_f32(scalar, lane, shape->count, &scale, is_avg);
	ops->unpack_f32(other, lane, shape->count, &scale, is_avg);
	area_check(&area);
}

static void check_unpack(const struct quant_ops *ops, const struct shape *shape)
{
	check_unpack_one(ops, shape, false);
	check_unpack_one(ops, shape, true);
}

static void simd__unpack_gives_the_scalar_floats(void **state)
{
	(void)state;
	for_shapes(check_unpack);
}

/* Lanes whose average is a float or halfway between two, where a double that is slightly wrong
 * would show. */
static void check_average_of_ties(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;
	struct quant_scale scale;

	area_fill(&area, shape, false);
	for (size_t i = 0; i < ROOM; i++) {
		uint32_t quotient_max = INT32_MAX / shape->workers;
		uint32_t quotient = 1 + random_below(quotient_max), lane;
		if (quotient_max >> 25 && random_below(2)) /* halfway between two floats */
			quotient = 1 << 24 | random_below(1 << 24) | 1;
		lane = quotient * shape->workers;
		lane += random_below(4) ? 0 : random_below(3) - 1;
		area.src[i] = random_below(2) ? lane : 0 - lane;
	}
	const int32_t *lane = (const int32_t *)area.src + shape->src_at;
	quant_scale(&scale, shape->workers, shape->exponent);
	quant_scalar.unpack_f32((float *)area.scalar + shape->dst_at, lane, shape->count, &scale,
				true);
	ops->unpack_f32((float *)area.other + shape->dst_at, lane, shape->count, &scale, true);
	area_check(&area);

	quant_scalar.unpack_i32((int32_t *)area.scalar + shape->dst_at, lane, shape->count,
				shape->workers, true);
	ops->unpack_i32((int32_t *)area.other + shape->dst_at, lane, shape->count, shape->workers,
			true);
	area_check(&area);
}

static void simd__average_of_whole_quotients_is_the_scalar_one(void **state)
{
	(void)state;
	for_shapes(check_average_of_ties);
}

static void simd__average_is_the_scalar_one_for_all_workers(void **state)
{
	(void)state;
	for (uint32_t workers = 1; workers <= WORKERS_MAX;
	     workers += workers < 128 ? 1 : 1 + random_below(16)) {
		struct shape shape = random_shape();
		shape.workers = workers;
		shape.count = workers < 64 ? COUNT_MAX : 16 + random_below(17);
		for_tables(check_average_of_ties, &shape);
	}
}

static void check_pack_i32(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;
	int32_t bound = quant_bound(shape->workers);

	area_fill(&area, shape, false);
	if (random_below(4)) { /* none beyond, or one */
		for (size_t i = 0; i < ROOM; i++) {
			uint32_t lane = (uint32_t)bound -
					random_below(random_below(2) ? 2 : (uint32_t)bound);
			area.src[i] = random_below(2) ? lane : 0 - lane;
		}
		uint32_t beyond = (uint32_t)bound + 1;
		if (shape->count && random_below(2))
			area.src[shape->src_at + random_below((uint32_t)shape->count)] =
				random_below(2) ? beyond : 0 - beyond;
	}
	const int32_t *src = (const int32_t *)area.src + shape->src_at;
	int32_t *scalar = (int32_t *)area.scalar + shape->dst_at;
	int32_t *other = (int32_t *)area.other + shape->dst_at;
	assert_int_equal(ops->pack_i32(other, src, shape->count, bound),
			 quant_scalar.pack_i32(scalar, src, shape->count, bound));
	area_check(&area);
}

static void simd__pack_of_int32_copies_and_flags_like_the_scalar(void **state)
{
	(void)state;
	for_shapes(check_pack_i32);
}

static void check_unpack_i32(const struct quant_ops *ops, const struct shape *shape)
{
	struct area area;

	for (int is_avg = 0; is_avg < 2; is_avg++) {
		area_fill(&area, shape, false);
		const int32_t *lane = (const int32_t *)area.src + shape->src_at;
		int32_t *scalar = (int32_t *)area.scalar + shape->dst_at;
		int32_t *other = (int32_t *)area.other + shape->dst_at;
		quant_scalar.unpack_i32(scalar, lane, shape->count, shape->workers, is_avg);
		ops->unpack_i32(other, lane, shape->count, shape->workers, is_avg);
		area_check(&area);
	}
}

static void simd__unpack_of_int32_is_the_scalar_one(void **state)
{
	(void)state;
	for_shapes(check_unpack_i32);
}

enum { LONGS = 70, LONG_LANES = 3 * LONGS };

/* Near the ends of the type, or the digits' ends, or with few bits. */
static uint64_t random_long(uint32_t bits)
{
	uint64_t near = (uint64_t)1 << random_below(3) * bits;

	switch (random_below(4)) {
	case 0:
		return rng_next(&rng);
	case 1:
		return (random_below(2) ? INT64_MAX : 0) + (uint64_t)random_below(3) - 1;
	case 2:
		return (random_below(2) ? near : 0 - near) + random_below(3) - 1;
	default:
		return (uint64_t)((int64_t)rng_next(&rng) >> random_below(64));
	}
}

/* The sums of two such numbers: most do not leave the type, some do. */
static void check_long(const struct quant_ops *ops, size_t count, size_t at, uint32_t bits,
		       bool is_signed)
{
	static int32_t scalar[LONG_LANES + 2 * OFFSET_MAX], other[LONG_LANES + 2 * OFFSET_MAX];
	static uint64_t src[LONGS + OFFSET_MAX], dst[LONGS + OFFSET_MAX], same[LONGS + OFFSET_MAX];
	int32_t *sum = scalar + OFFSET_MAX;

	for (size_t i = 0; i < LONGS + OFFSET_MAX; i++)
		src[i] = random_long(bits);
	for (size_t i = 0; i < LONG_LANES + 2 * OFFSET_MAX; i++)
		scalar[i] = other[i] = GUARD;
	memset(dst, 1, sizeof(dst));
	memset(same, 1, sizeof(same));
	quant_scalar.pack_i64(sum, src + at, count, bits, is_signed);
	ops->pack_i64(other + OFFSET_MAX, src + at, count, bits, is_signed);
	assert_memory_equal(scalar, other, sizeof(scalar));
	for (size_t i = 0; i < 3 * count; i++)
		sum[i] += other[OFFSET_MAX + (i + 3 * at) % (3 * count)];
	assert_int_equal(ops->unpack_i64(same + at, sum, count, bits, is_signed),
			 quant_scalar.unpack_i64(dst + at, sum, count, bits, is_signed));
	assert_memory_equal(dst, same, sizeof(dst));
}

static void simd__digits_of_64_bits_are_the_scalar_ones(void **state)
{
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	(void)state;

	for (size_t i = 0; i < 4000; i++)
		for (size_t t = 1; t < table_count; t++)
			check_long(tables[t], i % (LONGS + 1), random_below(OFFSET_MAX),
				   22 + random_below(9), random_below(2));
}

enum { EXACTS = 40, EXACT_BYTES = EXACTS * QUANT_EXACT_DIGITS_MAX * 4 };

/* Memory that ends where nothing may be read. */
static int32_t *end_of_memory(void)
{
	uint8_t *pages = mmap(NULL, 2 * EXACT_BYTES + 65536, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *end = (uint8_t *)((uintptr_t)(pages + EXACT_BYTES + 65535) & ~(uintptr_t)65535);

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(end, EXACT_BYTES, PROT_NONE), 0);
	return (int32_t *)(void *)end;
}

/* Most near one another, some of any size, some no numbers. */
static float random_exact(uint32_t about)
{
	uint32_t bits = rng_u32(&rng);
	float x;

	if (random_below(8))
		bits = (bits & 0x807fffff) | (about + random_below(20)) % 255 << 23;
	if (!random_below(8))
		bits &= ~(uint32_t)0 << random_below(32);
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* The sums of some ranks' floats, and where the first is that takes more. */
static void check_exact(const struct quant_ops *ops, int32_t *end, uint32_t bits, uint32_t count)
{
	uint32_t digits = (277 + bits - 1) / bits, about = random_below(255);
	int32_t *at = end - (size_t)count * digits, scalar[EXACT_BYTES / 4], sum[EXACT_BYTES / 4];
	size_t bytes = (size_t)count * digits * sizeof(*sum), whole,
	       first = random_below(count + 1);
	uint8_t flags;
	uint32_t ranks = 1 + random_below(bits < 30 ? 3 : 1u << (31 - bits));
	float src[EXACTS], dst[EXACTS], same[EXACTS];

	memset(sum, 0, bytes);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		for (uint32_t i = 0; i < count; i++)
			src[i] = random_exact(about);
		flags = quant_scalar.pack_exact(at, src, count, digits, bits);
		memcpy(scalar, at, bytes);
		assert_int_equal(ops->pack_exact(at, src, count, digits, bits), flags);
		assert_memory_equal(scalar, at, bytes);
		for (uint32_t i = 0; i < count * digits; i++)
			sum[i] += at[i];
	}
	memcpy(at, sum, bytes);
	whole = quant_scalar.unpack_exact(dst, at, first, count, digits, bits);
	assert_int_equal(ops->unpack_exact(same, at, first, count, digits, bits), whole);
	assert_memory_equal(dst + first, same + first, (whole - first) * sizeof(*dst));
}

static void simd__exact_sums_are_the_scalar_ones(void **state)
{
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	int32_t *end = end_of_memory();

	(void)state;
	for (uint32_t i = 0; i < 20000; i++)
		for (size_t t = 1; t < table_count; t++)
			check_exact(tables[t], end, QUANT_EXACT_BITS_MIN + i % 9, i % (EXACTS + 1));
}

/* Of one element: three digits from `first` on, and rarely one more, which takes more than the vectors do. */
static void random_digits(int32_t *at, const uint32_t *row, uint32_t digits, uint32_t first)
{
	for (uint32_t i = 0; i < digits; i++)
		at[row[i]] = i - first < QUANT_EXACT_TOP ? (int32_t)random_lane_bits() : 0;
	if (!random_below(2 * EXACTS))
		at[row[random_below(digits)]] = 1;
}

/* In most packets, most elements have the same three. */
static void simd__exact_sums_of_any_digits_are_the_scalar_ones(void **state)
{
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	int32_t *end = end_of_memory();
	float dst[EXACTS], same[EXACTS];
	(void)state;

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t bits = QUANT_EXACT_BITS_MIN + i % 9, count = i % (EXACTS + 1);
		uint32_t digits = (277 + bits - 1) / bits, row[QUANT_EXACT_DIGITS_MAX];
		uint32_t firsts = digits + 1 - QUANT_EXACT_TOP, usual = random_below(firsts);
		int32_t *at = end - (size_t)count * digits;
		size_t whole;

		quant_exact_rows(row, count, digits, bits, QUANT_DENORMALS);
		for (uint32_t j = 0; j < count; j++)
			random_digits(at + j, row, digits,
				      random_below(20) ? usual : random_below(firsts));
		whole = quant_scalar.unpack_exact(dst, at, 0, count, digits, bits);
		for (size_t t = 1; t < table_count; t++) {
			assert_int_equal(tables[t]->unpack_exact(same, at, 0, count, digits, bits),
					 whole);
			assert_memory_equal(dst, same, whole * sizeof(*dst));
		}
	}
}

static void simd__all_begins_with_scalar_and_ends_with_best(void **state)
{
	size_t count = 0;
	const struct quant_ops *const *tables = simd_all(&count);
	(void)state;

	if (count == 1)
		print_message("NOT HERE: vectors of this processor: no table but the scalar one\n");
	assert_true(count >= 1);
	assert_ptr_equal(tables[0], &quant_scalar);
	assert_ptr_equal(tables[count - 1], simd_best());
	assert_ptr_equal(simd_best(), simd_best());
}

#ifdef __x86_64__
static void simd__each_table_needs_all_of_its_features(void **state)
{
	(void)state;
	assert_ptr_equal(simd_best_of(0), &quant_scalar);
	assert_ptr_equal(simd_best_of(SIMD_AVX2), &quant_scalar);
	assert_ptr_equal(simd_best_of(SIMD_F16C), &quant_scalar);
	assert_string_equal(simd_best_of(SIMD_AVX2 | SIMD_F16C)->name, "avx2");
	assert_ptr_equal(simd_best_of(SIMD_AVX512), &quant_scalar);
	assert_ptr_equal(simd_best_of(SIMD_AVX512 | SIMD_AVX2), &quant_scalar);
	assert_ptr_equal(simd_best_of(SIMD_AVX512 | SIMD_F16C), &quant_scalar);
	assert_string_equal(simd_best_of(SIMD_AVX512 | SIMD_AVX2 | SIMD_F16C)->name, "avx512");
	assert_string_equal(simd_best_of(~0u)->name, "avx512"); /* and what nobody knows yet */
}

static void simd__features_are_those_that_the_kernel_lists(void **state)
{
	static char line[16384];
	bool is_listed = false;
	uint32_t features = 0;
	FILE *file = fopen("/proc/cpuinfo", "r");
	(void)state;

	if (!file)
		SKIP("no /proc/cpuinfo");
	while (!is_listed && fgets(line, sizeof(line), file))
		is_listed = !strncmp(line, "flags", 5);
	fclose(file);
	features |= strstr(line, " avx2 ") ? SIMD_AVX2 : 0;
	features |= strstr(line, " f16c ") ? SIMD_F16C : 0;
	if (strstr(line, " avx512f ") && strstr(line, " avx512bw ") && strstr(line, " avx512dq ") &&
	    strstr(line, " avx512vl ") && strstr(line, " bmi2 "))
		features |= SIMD_AVX512;
	assert_int_equal(simd_features(), features);
	assert_ptr_equal(simd_best(), simd_best_of(features));
}
#endif

int main(int argc, char **argv)
{
	seed_take(argc, argv);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(simd__all_begins_with_scalar_and_ends_with_best),
#ifdef __x86_64__
		cmocka_unit_test(simd__each_table_needs_all_of_its_features),
		cmocka_unit_test(simd__features_are_those_that_the_kernel_lists),
#endif
		RANDOM(simd__exponent_is_the_scalar_one),
		RANDOM(simd__exponent_looks_at_every_element),
		RANDOM(simd__pack_gives_the_scalar_lanes),
		RANDOM(simd__pack_flags_every_nonfinite_element),
		RANDOM(simd__unpack_gives_the_scalar_floats),
		RANDOM(simd__average_of_whole_quotients_is_the_scalar_one),
		RANDOM(simd__average_is_the_scalar_one_for_all_workers),
		RANDOM(simd__pack_of_int32_copies_and_flags_like_the_scalar),
		RANDOM(simd__unpack_of_int32_is_the_scalar_one),
		RANDOM(simd__digits_of_64_bits_are_the_scalar_ones),
		RANDOM(simd__exact_sums_are_the_scalar_ones),
		RANDOM(simd__exact_sums_of_any_digits_are_the_scalar_ones),
	};
	return cmocka_run_group_tests_name("simd", tests, NULL, NULL);
}
