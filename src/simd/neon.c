/* SPDX-License-Identifier: Apache-2.0 */
/* For every 64-bit ARM. What it does to floats depends on FPCR, which float_state.h sets. */
#define VECTOR_BYTES 16
#include "simd/loops_half.h"
#include "simd/plain_loops.h"

#include <arm_neon.h>

LOOP_INLINE words larger(words a, words b)
{
	return (words)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

LOOP_INLINE uint32_t largest_of(words x)
{
	return vmaxvq_u32((uint32x4_t)x);
}

LOOP_INLINE words rounded(floats x)
{
	return (words)vcvtnq_s32_f32((float32x4_t)x);
}

LOOP_INLINE doubles doubles_load(const int32_t *lane)
{
	return (doubles)vcvtq_f64_s64(vmovl_s32(vld1_s32(lane)));
}

LOOP_INLINE floats doubles_near(doubles first, doubles second)
{
	return (floats)vcombine_f32(vcvt_f32_f64((float64x2_t)first),
				    vcvt_f32_f64((float64x2_t)second));
}

LOOP_INLINE void doubles_truncate(int32_t *dst, doubles x)
{
	vst1_s32(dst, vmovn_s64(vcvtq_s64_f64((float64x2_t)x)));
}

LOOP_INLINE words halves_larger(words a, words b)
{
	return (words)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
}

LOOP_INLINE uint32_t halves_largest(words x)
{
	return vmaxvq_u16((uint16x8_t)x);
}

LOOP_INLINE void halves_split(words both, words *first, words *second)
{
	*first = (words)vmovl_s16(vget_low_s16((int16x8_t)both));
	*second = (words)vmovl_s16(vget_high_s16((int16x8_t)both));
}

LOOP_INLINE words halves_join(words first, words second)
{
	return (words)vcombine_s16(vmovn_s32((int32x4_t)first), vmovn_s32((int32x4_t)second));
}

LOOP_INLINE floats float16_load(const uint16_t *src)
{
	return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src)));
}

LOOP_INLINE void float16_store(uint16_t *dst, floats x)
{
	vst1_u16(dst, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

const struct quant_ops simd_neon = LOOP_TABLE("neon");
const struct plain_ops plain_neon = PLAIN_TABLE;
