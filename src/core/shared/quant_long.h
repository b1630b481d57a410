/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_long.h - integers of 64 bits as three digits, and sums of these (R-NUM-10), without wide.h's long numbers. The
 * text is built for each instruction set: compilers make vectors of it.
 */
#ifndef CORE_QUANT_LONG_H
#define CORE_QUANT_LONG_H

#include "core/shared/env.h"

CORE_INLINE void quant_long_pack(int32_t *restrict lane, const uint64_t *restrict src, size_t count,
				 uint32_t bits, bool is_signed)
{
	const uint64_t signs = is_signed ? UINT64_MAX : 0;
	const uint32_t mask = (1u << bits) - 1;

	for (size_t i = 0; i < count; i++) {
		uint64_t sign = (0 - (src[i] >> 63)) & signs;
		uint64_t magnitude = (src[i] ^ sign) - sign;
		uint32_t low = (uint32_t)sign;

		lane[3 * i] = (int32_t)((((uint32_t)magnitude & mask) ^ low) - low);
		lane[3 * i + 1] = (int32_t)(((uint32_t)(magnitude >> bits & mask) ^ low) - low);
		lane[3 * i + 2] = (int32_t)(((uint32_t)(magnitude >> 2 * bits) ^ low) - low);
	}
}

CORE_INLINE uint64_t quant_long_unpack(uint64_t *restrict dst, const int32_t *restrict lane,
				       size_t count, uint32_t bits, bool is_signed)
{
	const int64_t most = (int64_t)1 << (64 - is_signed - 2 * bits);
	const int64_t least = is_signed ? -most : 0;
	const uint64_t highest = is_signed ? INT64_MAX : UINT64_MAX;
	const uint64_t lowest = is_signed ? (uint64_t)INT64_MIN : 0;
	const uint32_t mask = (1u << bits) - 1;
	uint64_t saturated = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t middle = lane[3 * i + 1] + (int64_t)(lane[3 * i] >> bits);
		int64_t top = lane[3 * i + 2] + (middle >> bits);
		uint64_t sum = (uint64_t)top << 2 * bits | ((uint64_t)middle & mask) << bits |
			       ((uint32_t)lane[3 * i] & mask);

		saturated += top >= most || top < least;
		sum = top >= most ? highest : sum;
		dst[i] = top < least ? lowest : sum;
	}
	return saturated;
}

#endif
