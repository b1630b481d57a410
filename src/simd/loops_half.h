/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loops_half.h - the loops of 16 bits, one or two in a lane: see loops.h. Why the bits are those of quant_half.c:
 *
 * pack: 16-bit floats become float32 exactly; then as in loops.h.
 *
 * unpack, two in a lane: a sum of 16 bits is exact in float, and so is its product with 2^-126; the product with what
 * is left of 2^-s is rounded once, if it is denormal. A quotient by N is rounded once in float: as it is 2^-41 of its size
 * away from where it would be rounded differently in double and then in float, that gives the same; and the product
 * with 2^-s is exact unless it is denormal, which is the scalar's.
 *
 * unpack, one in a lane: the double is cut to 24 bits, of which the last is set if any behind it was: so it is a float,
 * and is rounded to less as the double would be. Where it would be a denormal float, it is the scalar's.
 */
#ifndef SIMD_LOOPS_HALF_H
#define SIMD_LOOPS_HALF_H

#include "simd/loops.h"

enum {
	GROUP = 2 * STEP, /* elements that are done together */
	HALF_BITS = 16,
	HALF_MAGNITUDES = 0x7fff7fff,
	LOW_SIGN = 0x8000,
	FLOAT16_INFINITY = 0x7c00,
	BFLOAT16_INFINITY = 0x7f80,
	BFLOAT16_HALF = 0x7fff, /* less than half of the last bit */

	/* Of a double's 53 bits 24 are to stay. */
	ODD_MASK = (1 << 29) - 1,
};

/* Unsigned halves of words: the larger of each two, and the largest. */
LOOP_INLINE words halves_larger(words a, words b);
LOOP_INLINE uint32_t halves_largest(words x);
/* The GROUP halves of `both`, in order, as words with a sign, and back. */
LOOP_INLINE void halves_split(words both, words *first, words *second);
LOOP_INLINE words halves_join(words first, words second);
/* STEP elements of float16; to nearest even. */
LOOP_INLINE floats float16_load(const uint16_t *src);
LOOP_INLINE void float16_store(uint16_t *dst, floats x);

struct group {
	floats first, second;
};

static uint32_t loop_exponent_half(const uint16_t *src, size_t count, enum quant_half type)
{
	const uint32_t infinity = type == QUANT_FLOAT16 ? FLOAT16_INFINITY : BFLOAT16_INFINITY;
	words largest = { 0 };
	uint16_t one;

	if (count < GROUP)
		return quant_scalar.exponent_half(src, count, type);
	for (size_t i = 0; i < whole_of(count, GROUP); i += GROUP)
		largest = halves_larger(largest, words_load(src + i) & HALF_MAGNITUDES);
	largest = halves_larger(largest, words_load(src + count - GROUP) & HALF_MAGNITUDES);
	one = (uint16_t)halves_largest(largest);
	if (one >= infinity)
		return quant_scalar.exponent_half(src, count, type);
	return quant_scalar.exponent_half(&one, 1, type);
}

static const char *element_at(const void *src, size_t i, enum quant_half type)
{
	return (const char *)src + i * (type == QUANT_FLOAT32 ? 4 : 2);
}

LOOP_INLINE struct group group_load(const void *src, size_t i, enum quant_half type)
{
	const void *at = element_at(src, i, type), *next = element_at(src, i + STEP, type);
	words first, second;

	if (type == QUANT_FLOAT16)
		return (struct group){ float16_load(at), float16_load(next) };
	if (type == QUANT_FLOAT32)
		return (struct group){ (floats)words_load(at), (floats)words_load(next) };
	halves_split(words_load(at), &first, &second);
	return (struct group){ (floats)(first << HALF_BITS), (floats)(second << HALF_BITS) };
}

LOOP_INLINE words bfloat16_near(floats x)
{
	words bits = (words)x;

	return (bits + BFLOAT16_HALF + (bits >> HALF_BITS & 1)) >> HALF_BITS;
}

LOOP_INLINE void group_store(void *dst, size_t i, struct group group, enum quant_half type)
{
	void *at = (void *)element_at(dst, i, type),
	     *next = (void *)element_at(dst, i + STEP, type);

	if (type == QUANT_FLOAT16) {
		float16_store(at, group.first);
		float16_store(next, group.second);
	} else if (type == QUANT_FLOAT32) {
		words_store(at, (words)group.first);
		words_store(next, (words)group.second);
	} else {
		words_store(at,
			    halves_join(bfloat16_near(group.first), bfloat16_near(group.second)));
	}
}

/* How a loop is made: constants where it is inlined. */
struct half_way {
	enum quant_half type;
	uint32_t together;
	bool is_far;     /* pack: two factors; unpack of two in a lane: likewise */
	bool is_divided; /* unpack: by N, which is no power of two */
};

LOOP_INLINE words pack_group(int32_t *lane, const void *src, size_t i, const struct factors *up,
			     struct half_way way)
{
	struct group group = group_load(src, i, way.type);
	words first = quantised(group.first, up, way.is_far);
	words second = quantised(group.second, up, way.is_far);

	if (way.together == 2) {
		words both = halves_join(first, second);
		words_store(lane + i / 2, words_sum(both, -((both & LOW_SIGN) << 1)));
	} else {
		words_store(lane + i, first);
		words_store(lane + i + STEP, second);
	}
	return larger((words)group.first & MAGNITUDE_MASK, (words)group.second & MAGNITUDE_MASK);
}

/* Whole pairs. */
LOOP_INLINE uint32_t pack_groups(int32_t *restrict lane, const void *restrict src, size_t count,
				 const struct factors *up, struct half_way way)
{
	words largest = { 0 };

	for (size_t i = 0; i < whole_of(count, GROUP); i += GROUP)
		largest = larger(largest, pack_group(lane, src, i, up, way));
	return largest_of(larger(largest, pack_group(lane, src, count - GROUP, up, way)));
}

LOOP_INLINE uint32_t pack_type(int32_t *lane, const void *src, size_t count,
			       const struct factors *up, uint32_t together, enum quant_half type)
{
	if (up->is_far)
		return together == 2 ? pack_groups(lane, src, count, up,
						   (struct half_way){ type, 2, true, false })
				     : pack_groups(lane, src, count, up,
						   (struct half_way){ type, 1, true, false });
	return together == 2 ? pack_groups(lane, src, count, up,
					   (struct half_way){ type, 2, false, false })
			     : pack_groups(lane, src, count, up,
					   (struct half_way){ type, 1, false, false });
}

static uint8_t loop_pack_half(int32_t *lane, const void *src, size_t count,
			      const struct quant_scale *scale, enum quant_half type)
{
	const size_t odd = scale->together == 2 ? count % 2 : 0, whole = count - odd;
	struct factors up;
	uint32_t largest;

	if (whole < GROUP || scale->shift < FLOAT_EXPONENT_MIN)
		return quant_scalar.pack_half(lane, src, count, scale, type);
	up = factors_of(scale->shift);
	if (type == QUANT_FLOAT16)
		largest = pack_type(lane, src, whole, &up, scale->together, QUANT_FLOAT16);
	else if (type == QUANT_BFLOAT16)
		largest = pack_type(lane, src, whole, &up, scale->together, QUANT_BFLOAT16);
	else
		largest = pack_type(lane, src, whole, &up, 2, QUANT_FLOAT32);
	if (largest > limit_of(scale))
		return quant_scalar.pack_half(lane, src, count, scale, type);
	return quant_scalar.pack_half(lane + whole / 2, element_at(src, whole, type), odd, scale,
				      type);
}

/* What is done to each sum. */
struct downs {
	struct factors factors;
	floats workers;
	doubles down, by;
};

LOOP_INLINE floats pair_near(words sum, const struct downs *downs, struct half_way way)
{
	floats x = __builtin_convertvector(sum, floats);

	if (way.is_divided)
		x /= downs->workers;
	if (way.is_far)
		x *= downs->factors.first;
	return x * downs->factors.second;
}

LOOP_INLINE doubles odd_of(const int32_t *lane, const struct downs *downs, struct half_way way)
{
	doubles x = doubles_load(lane) * downs->down;
	longs bits = (longs)(way.is_divided ? x / downs->by : x);

	return (doubles)((bits | ((bits & ODD_MASK) + ODD_MASK)) & ~(int64_t)ODD_MASK);
}

LOOP_INLINE floats one_odd(const int32_t *lane, const struct downs *downs, struct half_way way)
{
	return doubles_near(odd_of(lane, downs, way), odd_of(lane + HALF_STEP, downs, way));
}

LOOP_INLINE void unpack_group(void *dst, const int32_t *lane, size_t i, const struct downs *downs,
			      struct half_way way)
{
	struct group group;

	if (way.together == 2) {
		words both = words_load(lane + i / 2), first, second;
		halves_split(words_sum(both, (both & LOW_SIGN) << 1), &first, &second);
		group.first = pair_near(first, downs, way);
		group.second = pair_near(second, downs, way);
	} else {
		group.first = one_odd(lane + i, downs, way);
		group.second = one_odd(lane + i + STEP, downs, way);
	}
	group_store(dst, i, group, way.type);
}

LOOP_INLINE void unpack_groups(void *restrict dst, const int32_t *restrict lane, size_t count,
			       const struct downs *downs, struct half_way way)
{
	for (size_t i = 0; i < whole_of(count, GROUP); i += GROUP)
		unpack_group(dst, lane, i, downs, way);
	unpack_group(dst, lane, count - GROUP, downs, way);
}

LOOP_INLINE void unpack_type(void *dst, const int32_t *lane, size_t count,
			     const struct downs *downs, struct half_way way, enum quant_half type)
{
	if (way.together == 1 && way.is_divided)
		unpack_groups(dst, lane, count, downs, (struct half_way){ type, 1, false, true });
	else if (way.together == 1)
		unpack_groups(dst, lane, count, downs, (struct half_way){ type, 1, false, false });
	else if (way.is_divided)
		unpack_groups(dst, lane, count, downs, (struct half_way){ type, 2, false, true });
	else if (way.is_far)
		unpack_groups(dst, lane, count, downs, (struct half_way){ type, 2, true, false });
	else
		unpack_groups(dst, lane, count, downs, (struct half_way){ type, 2, false, false });
}

static void loop_unpack_half(void *dst, const int32_t *lane, size_t count,
			     const struct quant_scale *scale, bool is_avg, enum quant_half type)
{
	const uint32_t divisor = is_avg ? scale->workers : 1;
	const size_t odd = scale->together == 2 ? count % 2 : 0, whole = count - odd;
	const int32_t log2 = 31 - __builtin_clz(divisor), exponent = -scale->shift - log2;
	const bool is_tiny = exponent <= FLOAT_EXPONENT_MIN; /* a quotient may be denormal */
	struct half_way way = { type, scale->together, is_tiny, !is_power_of_two(divisor) };
	struct downs downs;

	if (whole < GROUP || (is_tiny && (way.is_divided || way.together == 1))) {
		quant_scalar.unpack_half(dst, lane, count, scale, is_avg, type);
		return;
	}
	downs.factors.first = floats_of(power_of_two(FLOAT_EXPONENT_MIN));
	downs.factors.second = floats_of(power_of_two(exponent + (is_tiny ? 126 : 0)));
	downs.workers = floats_of((float)divisor);
	downs.down = doubles_of(scale->down);
	downs.by = doubles_of(divisor);
	if (way.is_divided)
		downs.factors.second = floats_of(power_of_two(-scale->shift));
	else
		downs.down /= downs.by;
	if (type == QUANT_FLOAT16)
		unpack_type(dst, lane, whole, &downs, way, QUANT_FLOAT16);
	else if (type == QUANT_BFLOAT16)
		unpack_type(dst, lane, whole, &downs, way, QUANT_BFLOAT16);
	else
		unpack_type(dst, lane, whole, &downs, way, QUANT_FLOAT32);
	quant_scalar.unpack_half((void *)element_at(dst, whole, type), lane + whole / 2, odd, scale,
				 is_avg, type);
}

#define LOOP_TABLE(its_name)                                                                      \
	{                                                                                         \
		.name = (its_name), .exponent_f32 = loop_exponent_f32, .pack_f32 = loop_pack_f32, \
		.unpack_f32 = loop_unpack_f32, .pack_i32 = loop_pack_i32,                         \
		.unpack_i32 = loop_unpack_i32, .pack_i64 = loop_pack_i64,                         \
		.unpack_i64 = loop_unpack_i64, .pack_exact = loop_pack_exact,                     \
		.unpack_exact = loop_unpack_exact, .exponent_half = loop_exponent_half,           \
		.pack_half = loop_pack_half, .unpack_half = loop_unpack_half,                     \
	}

#endif
