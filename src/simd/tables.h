/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - what the files built for one instruction set give to dispatch.c. Only their pointers
 * may be touched before the processor was asked.
 */
#ifndef SIMD_TABLES_H
#define SIMD_TABLES_H

#include "core/shared/quant.h"
#include "simd/plain.h"

extern const struct quant_ops simd_avx2;   /* x86_64 with AVX2 and F16C */
extern const struct quant_ops simd_avx512; /* with AVX-512 F, BW, DQ and VL as well */
extern const struct quant_ops simd_neon;   /* every aarch64 */
extern const struct plain_ops plain_avx2, plain_avx512, plain_neon;

#endif
