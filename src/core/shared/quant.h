/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.h - float to lanes and back, exact int32 sums: block fixed point, one exponent per chunk, agreed
 * by all workers before the chunk is sent. docs/protocol.md, R-NUM-1 to R-NUM-7. The scalar code in
 * quant.c and quant_half.c is the reference; src/simd has the same functions, bit-equal, for this processor.
 *
 * Arrays are naturally aligned; `count` elements; src and lane never overlap; no padding is written:
 * the caller zeroes what is left of a packet.
 */
#ifndef CORE_QUANT_H
#define CORE_QUANT_H

#include "core/shared/env.h"

/* How one chunk is scaled. quant_scale makes it; N workers, E the agreed biased exponent:
 * shift = 31 - ceil(log2 N) - (E - 126), bound = floor((2^31 - 1) / N) (R-NUM-2). */
struct quant_scale {
	int32_t shift;
	int32_t bound;
	uint32_t workers;
	uint32_t together; /* elements that share a lane: 1, or 2 (R-NUM-11) */
	double up;         /* 2^shift */
	double down;       /* 2^-shift */
};

/* workers 1..65535; exponent 0..254 (0: all elements are zero). What a broken peer says above that counts as 254. */
void quant_scale(struct quant_scale *scale, uint32_t workers, uint32_t exponent);
/* The same for sums of 16 bits instead of 32 (R-NUM-11); workers 1..16383. */
void quant_scale_half(struct quant_scale *scale, uint32_t workers, uint32_t exponent);

/* floor((2^31 - 1) / workers): above it in magnitude, an int32 sum may leave its range (R-NUM-5). */
int32_t quant_bound(uint32_t workers);

/* What is packed as 16-bit floats are: two elements in a lane, or one (R-NUM-11, R-NUM-15). */
enum quant_half { QUANT_FLOAT16, QUANT_BFLOAT16, QUANT_FLOAT32 };

/* One table per instruction set; all give the same bits. */
struct quant_ops {
	const char *name; /* "scalar", "avx2", ... */

	/* The largest finite magnitude's biased exponent: 0 if all are zero or none is finite; a denormal
	 * counts as 1 (R-NUM-1). */
	uint32_t (*exponent_f32)(const float *src, size_t count);

	/* lane = clamp(round to nearest even(src * 2^shift), -bound, bound); 0 for a non-finite element.
	 * Returns WIRE_NONFINITE if there was one, else 0. */
	uint8_t (*pack_f32)(int32_t *lane, const float *src, size_t count,
			    const struct quant_scale *scale);

	/* R-NUM-3: dst = (float)((double)lane * 2^-shift), divided by N in double before the one rounding if
	 * is_avg. Inf where that exceeds FLT_MAX: a sum of finite elements may. */
	void (*unpack_f32)(float *dst, const int32_t *lane, size_t count,
			   const struct quant_scale *scale, bool is_avg);

	/* A copy; returns WIRE_RANGE if some |src| > bound (INT32_MIN included), else 0. */
	uint8_t (*pack_i32)(int32_t *lane, const int32_t *src, size_t count, int32_t bound);

	/* A copy; is_avg divides by workers, truncating toward zero. */
	void (*unpack_i32)(int32_t *dst, const int32_t *lane, size_t count, uint32_t workers,
			   bool is_avg);

	/* 64 bits as three digits of 22 to 30 bits, which have the sign of the number (R-NUM-10). */
	void (*pack_i64)(int32_t *lane, const uint64_t *src, size_t count, uint32_t bits,
			 bool is_signed);

	/* Sums of these. Returns how many have left the type, and are saturated. */
	uint64_t (*unpack_i64)(uint64_t *dst, const int32_t *lane, size_t count, uint32_t bits,
			       bool is_signed);

	/* Float32 as `digits` digits, 3 to 16, of `bits` bits, 23 to 31, which have its sign, and hold all that a float32
	 * is, in rows (R-NUM-13). Returns WIRE_NONFINITE if an element is none; it is 0 then. */
	uint8_t (*pack_exact)(int32_t *lane, const float *src, size_t count, uint32_t digits,
			      uint32_t bits);

	/* Sums of these, rounded, of the elements [first, count). Returns the number of the first one that takes more,
	 * as one whose digits lie far apart, or count; dst has no result for that one and what is behind it. */
	size_t (*unpack_exact)(float *dst, const int32_t *lane, size_t first, size_t count,
			       uint32_t digits, uint32_t bits);

	/* What is said of float32, for float16 and bfloat16, scale->together in a lane, and for float32, two in a lane. The
	 * exponent is that of a float32; float32's own is exponent_f32. The result is rounded once to the type. A
	 * lane that is half full has 0 as its second sum. */
	uint32_t (*exponent_half)(const uint16_t *src, size_t count, enum quant_half type);
	uint8_t (*pack_half)(int32_t *lane, const void *src, size_t count,
			     const struct quant_scale *scale, enum quant_half type);
	void (*unpack_half)(void *dst, const int32_t *lane, size_t count,
			    const struct quant_scale *scale, bool is_avg, enum quant_half type);
};

extern const struct quant_ops quant_scalar;

/* DETAIL rounds are rare: scalar only (R-NUM-4, R-NUM-6).
 * Floats: per element +Inf 1, -Inf 1 << 16, NaN both, finite 0. */
void quant_detail_pack_f32(int32_t *lane, const float *src, size_t count);

/* dst becomes Inf, -Inf or NaN where the sum of the details says so: both halves non-zero: NaN. */
void quant_detail_amend_f32(float *dst, const int32_t *lane, size_t count);

/* int32: lane = src >> 16, arithmetic. */
void quant_detail_pack_i32(int32_t *lane, const int32_t *src, size_t count);

/* dst holds the wrapped sums; with the sums of the high halves they give the exact 48-bit sums, which are
 * divided by workers (truncating) if is_avg, then saturated. Returns how many were saturated. */
uint64_t quant_detail_amend_i32(int32_t *dst, const int32_t *lane, size_t count, uint32_t workers,
				bool is_avg);

#endif
