/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simd.h - the vector loops of core/shared/quant.h for the processor that we run on. All tables give the
 * same bits for all inputs, so which one a rank has is nobody's business.
 */
#ifndef SIMD_SIMD_H
#define SIMD_SIMD_H

#include "core/shared/quant.h"

/* What a processor may have beyond what all of its kind have. */
enum simd_feature { SIMD_AVX2 = 1, SIMD_F16C = 2, SIMD_AVX512 = 4 /* F, BW, DQ and VL */ };

/* Those that this processor has, and the system lets us use. */
uint32_t simd_features(void);

/* The fastest table for a processor that has these features and no others. */
const struct quant_ops *simd_best_of(uint32_t features);

/* The fastest table that this processor can run; from any thread. Asks the processor: not for each packet. */
const struct quant_ops *simd_best(void);

/* All tables that this processor can run, slowest first: [0] is quant_scalar, [*count - 1] is
 * simd_best's. For tests and benchmarks; from any thread. */
const struct quant_ops *const *simd_all(size_t *count);

#endif
