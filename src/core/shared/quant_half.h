/* SPDX-License-Identifier: Apache-2.0 */
/* quant_half.h - what quant_scalar has for 16 bits: see quant.h. */
#ifndef CORE_QUANT_HALF_H
#define CORE_QUANT_HALF_H

#include "core/shared/quant.h"

uint32_t quant_half_exponent(const uint16_t *src, size_t count, enum quant_half type);
uint8_t quant_half_pack(int32_t *lane, const void *src, size_t count,
			const struct quant_scale *scale, enum quant_half type);
void quant_half_unpack(void *dst, const int32_t *lane, size_t count,
		       const struct quant_scale *scale, bool is_avg, enum quant_half type);

#endif
