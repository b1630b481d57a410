/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_numbers.h - R-NUM, R-MAP and the shape of packets once more, with integers where core/shared/quant.c has
 * doubles. Every function is of its arguments alone.
 */
#ifndef SEARCH_SLOW_NUMBERS_H
#define SEARCH_SLOW_NUMBERS_H

#include "core/shared/map.h"
#include "core/shared/wire.h"

/* R-NUM-1 of one element. */
uint32_t slow_exponent(uint32_t bits);
/* R-NUM-2 of one element. */
int32_t slow_lane(uint32_t bits, uint32_t workers, uint32_t exponent);
/* R-NUM-3, a float's bits. */
uint32_t slow_result(int32_t sum, uint32_t workers, uint32_t exponent, bool is_avg);
/* R-MAP-6. */
uint64_t slow_hash(const struct map_descriptor *descriptor);
uint32_t slow_tag(uint64_t hash, uint64_t index);
/* R-WIRE-4, R-WIRE-7; *packet if it is one. */
enum wire_fault slow_wire(const uint8_t *at, uint32_t bytes, struct wire *packet);

#endif
