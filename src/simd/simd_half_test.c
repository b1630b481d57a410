/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16 bits: every table gives the bits of quant_scalar, which lanes_test.c and tests/interop hold against the rules.
 */
#include "core/shared/wire.h"
#include "simd/simd.h"
#include "tests/random.h"

#include "core/shared/quant_fixture.h"

enum {
	COUNT_MAX = 150,
	OFFSET_MAX = 8,
	ROOM = COUNT_MAX + 2 * OFFSET_MAX,
	PAIR_WORKERS_MAX = 16383,
	ALL = 1 << 16,
	GUARD = 0x5a,
};

static const struct half {
	enum quant_half type;
	uint32_t fraction, exponent_max, bytes;
	int32_t rebias; /* its exponent is by this less than a float32's */
} halves[] = {
	{ QUANT_FLOAT16, 10, 30, 2, 112 },
	{ QUANT_BFLOAT16, 7, 254, 2, 0 },
	{ QUANT_FLOAT32, 23, 254, 4, 0 },
};

struct shape {
	const struct half *half;
	size_t count, src_at, dst_at;
	struct quant_scale scale;
	uint32_t exponent; /* in the type */
	uint8_t flags;     /* that packing is to give */
};

/* What is packed, or unpacked to, is 4 bytes or less. */
struct area {
	_Alignas(64) uint8_t src[4 * ROOM];
	_Alignas(64) uint8_t scalar[4 * ROOM];
	_Alignas(64) uint8_t other[4 * ROOM];
};

/* Half of the jobs may share lanes. Most exponents are those that the type has. */
static struct shape random_shape(const struct half *half, uint32_t together)
{
	uint32_t exponent = random_below(half->exponent_max + 1), of_float;
	uint32_t workers = random_below(2) ? 1 + random_below(20) : 1 + random_below(130);
	struct shape shape = { .half = half,
			       .count = random_below(COUNT_MAX + 1),
			       .src_at = random_below(OFFSET_MAX),
			       .dst_at = random_below(OFFSET_MAX),
			       .exponent = exponent };

	of_float = exponent + (uint32_t)half->rebias;
	if (random_below(6) == 0)
		of_float = random_below(random_below(2) ? EXPONENT_MAX + 1 : 36);
	if (random_below(4) == 0)
		workers = 1 + random_below(together == 2 ? PAIR_WORKERS_MAX : WORKERS_MAX);
	if (together == 2)
		quant_scale_half(&shape.scale, workers, of_float);
	else
		quant_scale(&shape.scale, workers, of_float);
	return shape;
}

/* Of the shape's exponent at most, or now and then any that is finite. */
static uint32_t random_finite(const struct shape *shape)
{
	const struct half *half = shape->half;
	uint32_t ones = (1u << half->fraction) - 1, fraction = random_below(ones + 1);
	uint32_t sign = random_below(2) << (8 * half->bytes - 1), exponent = shape->exponent;

	switch (random_below(6)) {
	case 0: /* denormal, or zero */
		return sign | fraction >> random_below(half->fraction + 1);
	case 1: /* the largest ones */
		return sign | exponent << half->fraction | (ones - random_below(4));
	case 2:
		return sign | random_below(exponent + 1) << half->fraction | fraction;
	default: /* with few bits: halfway between two sums */
		exponent -= random_below(exponent < 24 ? exponent + 1 : 24);
		fraction &= ~0u << random_below(half->fraction + 1);
		return sign | exponent << half->fraction | fraction;
	}
}

static void element_set(uint8_t *at, const struct half *half, size_t i, uint32_t bits)
{
	memcpy(at + i * half->bytes, &bits, half->bytes);
}

static void fill_finite(struct area *area, const struct shape *shape)
{
	for (size_t i = 0; i < ROOM; i++)
		element_set(area->src, shape->half, i, random_finite(shape));
}

/* Nothing of what another table has written is left. */
static void area_guard(struct area *area)
{
	memset(area->scalar, GUARD, sizeof(area->scalar));
	memset(area->other, GUARD, sizeof(area->other));
}

static void area_check(const struct area *area)
{
	assert_memory_equal(area->scalar, area->other, sizeof(area->scalar));
}

typedef void fill_fn(struct area *area, struct shape *shape);
typedef void check_fn(const struct quant_ops *ops, const struct shape *shape, struct area *area);

/* All types, one and two in a lane; all counts, and each often. All tables are given the same: to draw it takes longer
 * than to check it. */
static void for_shapes(fill_fn *fill, check_fn *check)
{
	size_t count;
	const struct quant_ops *const *tables = simd_all(&count);
	struct area area;

	for (uint32_t kind = 0; kind < 5; kind++) {
		for (size_t i = 0; i < 40 * COUNT_MAX; i++) {
			struct shape shape = random_shape(&halves[kind / 2], 2 - kind % 2);

			shape.count = i % 2 ? shape.count : i / 2 % (COUNT_MAX + 1);
			fill(&area, &shape);
			for (size_t table = 1; table < count; table++)
				check(tables[table], &shape, &area);
		}
	}
}

static void fill_for_exponent(struct area *area, struct shape *shape)
{
	const struct half *half = shape->half;
	uint32_t infinite = (half->exponent_max + 1) << half->fraction;

	fill_finite(area, shape);
	for (size_t i = 0; i < ROOM; i++) /* too large to go unnoticed */
		if (i < shape->src_at || i >= shape->src_at + shape->count)
			element_set(area->src, half, i, infinite - 1);
	if (shape->count && random_below(4) == 0)
		element_set(area->src, half, shape->src_at + random_below((uint32_t)shape->count),
			    infinite + random_below(2));
}

static void check_exponent(const struct quant_ops *ops, const struct shape *shape,
			   struct area *area)
{
	const uint16_t *src = (const uint16_t *)(const void *)area->src + shape->src_at;

	if (shape->half->type == QUANT_FLOAT32)
		return;
	assert_int_equal(ops->exponent_half(src, shape->count, shape->half->type),
			 quant_scalar.exponent_half(src, shape->count, shape->half->type));
}

static void simd__exponent_of_halves_is_the_scalar_one(void **state)
{
	(void)state;
	for_shapes(fill_for_exponent, check_exponent);
}

static void check_every_half(const struct quant_ops *ops, const struct half *half)
{
	uint32_t least = 1 + (uint32_t)half->rebias - (half->rebias ? half->fraction : 0);
	static uint16_t src[COUNT_MAX];

	for (size_t count = 1; count <= COUNT_MAX; count++) {
		for (size_t i = 0; i < count; i++) {
			uint32_t exponent = 1 + random_below(half->exponent_max);
			src[i] = (uint16_t)(exponent << half->fraction | random_below(2) << 15);
			assert_int_equal(ops->exponent_half(src, count, half->type),
					 exponent + (uint32_t)half->rebias);
			src[i] = 1; /* the smallest: in bfloat16 it is denormal as a float32, too */
			assert_int_equal(ops->exponent_half(src, count, half->type), least);
			src[i] = 0;
		}
		assert_int_equal(ops->exponent_half(src, count, half->type), 0);
	}
}

static void simd__exponent_looks_at_every_half(void **state)
{
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	(void)state;

	for (size_t t = 1; t < table_count; t++) {
		check_every_half(tables[t], &halves[0]);
		check_every_half(tables[t], &halves[1]);
	}
}

static void fill_for_pack(struct area *area, struct shape *shape)
{
	const struct half *half = shape->half;
	uint32_t infinite = (half->exponent_max + 1) << half->fraction;
	uint32_t sign = random_below(2) << (8 * half->bytes - 1);

	fill_finite(area, shape);
	if (shape->count && random_below(4) == 0) {
		size_t at = shape->src_at + random_below((uint32_t)shape->count);
		element_set(area->src, half, at, sign | (infinite + random_below(3)));
		shape->flags = WIRE_NONFINITE;
	}
}

static void check_pack(const struct quant_ops *ops, const struct shape *shape, struct area *area)
{
	const struct half *half = shape->half;
	const void *src = area->src + shape->src_at * half->bytes;
	int32_t *scalar = (int32_t *)(void *)area->scalar + shape->dst_at;
	int32_t *other = (int32_t *)(void *)area->other + shape->dst_at;

	area_guard(area);
	assert_int_equal(quant_scalar.pack_half(scalar, src, shape->count, &shape->scale,
						half->type),
			 shape->flags);
	assert_int_equal(ops->pack_half(other, src, shape->count, &shape->scale, half->type),
			 shape->flags);
	area_check(area);
}

static void simd__pack_of_halves_gives_the_scalar_lanes(void **state)
{
	(void)state;
	for_shapes(fill_for_pack, check_pack);
}

/* Any, small ones, and such that they, or their quotients, are halfway between two floats of 8, 11 or 24 bits, or of
 * less as denormal ones have, or next to that. */
static uint32_t random_sum(const struct shape *shape, uint32_t bits)
{
	static const uint32_t long_ones[] = { 9, 12, 25 };
	uint32_t length = random_below(2) ? long_ones[random_below(3)] : 2 + random_below(8);
	uint32_t by = random_below(2) ? shape->scale.workers : 1, sum, most;

	if (random_below(4) == 0)
		return (uint32_t)rng_next(&rng) >> random_below(bits);
	sum = 1u << (length - 1) | random_below(1u << (length - 1)) | 1;
	sum >>= length < bits ? 0 : length - bits + 1;
	most = ((1u << (bits - 1)) - 1) / by;
	while (sum > most)
		sum >>= 1;
	for (uint32_t up = random_below(bits); up && 2 * sum <= most; up--)
		sum *= 2;
	sum = sum * by + (random_below(2) ? 0 : random_below(3) - 1);
	return random_below(2) ? sum : 0 - sum;
}

static void fill_with_sums(struct area *area, struct shape *shape)
{
	for (size_t i = 0; i < ROOM; i++) {
		uint32_t sum = shape->scale.together == 1
				       ? random_sum(shape, 32)
				       : random_sum(shape, 16) + (random_sum(shape, 16) << 16);
		memcpy(area->src + 4 * i, &sum, sizeof(sum));
	}
}

static void check_unpack(const struct quant_ops *ops, const struct shape *shape, struct area *area)
{
	const struct half *half = shape->half;
	const int32_t *lane = (const int32_t *)(const void *)area->src + shape->src_at;
	void *scalar = area->scalar + shape->dst_at * half->bytes;
	void *other = area->other + shape->dst_at * half->bytes;

	for (int is_avg = 0; is_avg < 2; is_avg++) {
		area_guard(area);
		quant_scalar.unpack_half(scalar, lane, shape->count, &shape->scale, is_avg,
					 half->type);
		ops->unpack_half(other, lane, shape->count, &shape->scale, is_avg, half->type);
		area_check(area);
	}
}

static void simd__unpack_of_halves_gives_the_scalar_floats(void **state)
{
	(void)state;
	for_shapes(fill_with_sums, check_unpack);
}

/* All bits that a half can have, at a few scales: both how it is read, and what is rounded. */
static void simd__every_half_is_packed_as_by_the_scalar(void **state)
{
	static const uint32_t exponents[] = { 1, 20, 103, 112, 127, 142, 254 };
	static int32_t scalar[ALL], other[ALL];
	static uint16_t src[ALL];
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	(void)state;

	for (uint32_t i = 0; i < 7 * table_count; i++) {
		const struct quant_ops *ops = tables[i / 7];
		struct quant_scale scale;

		quant_scale(&scale, 17, exponents[i % 7]);
		for (uint32_t kind = 0; kind < 2; kind++) {
			enum quant_half type = halves[kind].type;

			for (uint32_t j = 0; j < ALL; j++)
				src[j] = (uint16_t)j;
			/* In pieces, for one that is too large is done by the scalar with all others. */
			for (uint32_t j = 0; j < ALL; j += 64) {
				assert_int_equal(ops->pack_half(other + j, src + j, 64, &scale,
								type),
						 quant_scalar.pack_half(scalar + j, src + j, 64,
									&scale, type));
			}
			assert_memory_equal(scalar, other, sizeof(scalar));
		}
	}
}

/* All sums of 16 bits, at all scales. */
static void simd__every_short_sum_is_unpacked_as_by_the_scalar(void **state)
{
	static const uint32_t workers[] = { 2, 3, 7, 16, 127, 128 };
	static uint32_t scalar[ALL], other[ALL];
	static int32_t lane[ALL / 2];
	size_t table_count;
	const struct quant_ops *const *tables = simd_all(&table_count);
	(void)state;

	for (uint32_t i = 0; i < ALL / 2; i++)
		lane[i] = (int32_t)((2 * i) - ((2 * i & 0x8000) << 1) + ((2 * i + 1) << 16));
	for (uint32_t i = 0; i < (EXPONENT_MAX + 1) * table_count; i++) {
		const struct quant_ops *ops = tables[i / (EXPONENT_MAX + 1)];
		struct quant_scale scale;

		for (uint32_t kind = 0; kind < 3; kind++) {
			enum quant_half type = halves[kind].type;
			bool is_avg = random_below(4);

			quant_scale_half(&scale, workers[random_below(6)], i % (EXPONENT_MAX + 1));
			quant_scalar.unpack_half(scalar, lane, ALL, &scale, is_avg, type);
			ops->unpack_half(other, lane, ALL, &scale, is_avg, type);
			assert_memory_equal(scalar, other, sizeof(scalar));
		}
	}
}

int main(int argc, char **argv)
{
	seed_take(argc, argv);

#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	const struct CMUnitTest tests[] = {
		RANDOM(simd__exponent_of_halves_is_the_scalar_one),
		RANDOM(simd__exponent_looks_at_every_half),
		RANDOM(simd__pack_of_halves_gives_the_scalar_lanes),
		RANDOM(simd__unpack_of_halves_gives_the_scalar_floats),
		RANDOM(simd__every_half_is_packed_as_by_the_scalar),
		RANDOM(simd__every_short_sum_is_unpacked_as_by_the_scalar),
	};
	return cmocka_run_group_tests_name("simd-half", tests, NULL, NULL);
}
