/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_ways.h - what lanes.c chooses among; lanes_int.c and lanes_float.c have it. */
#ifndef CORE_LANES_WAYS_H
#define CORE_LANES_WAYS_H

#include "core/shared/lanes.h"

enum { LANES_CODE_NAN = INT32_MAX }; /* above every number, for min too */

extern const struct lanes_way lanes_narrow, lanes_int32, lanes_uint32, lanes_int64;
extern const struct lanes_way lanes_order, lanes_copy;
extern const struct lanes_way lanes_float32, lanes_fixed, lanes_half, lanes_float64, lanes_exact;

#endif
