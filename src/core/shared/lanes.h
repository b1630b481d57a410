/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - how the elements of each type become lanes, and sums of lanes elements again: docs/protocol.md, R-NUM.
 * lanes_choose says how an operation travels; all ranks choose alike, for they compare what it depends on. Hot loops
 * are quant.h's; what is here is for any processor.
 */
#ifndef CORE_LANES_H
#define CORE_LANES_H

#include "core/shared/ieee.h"
#include "core/shared/map.h"
#include "core/shared/quant.h"
#include "core/shared/wire.h"

/* The numbers of nccl.h, as in tally.h. */
enum lanes_type {
	LANES_INT8,
	LANES_UINT8,
	LANES_INT32,
	LANES_UINT32,
	LANES_INT64,
	LANES_UINT64,
	LANES_FLOAT16,
	LANES_FLOAT32,
	LANES_FLOAT64,
	LANES_BFLOAT16,
	LANES_TYPES
};
enum lanes_op {
	LANES_SUM,
	LANES_PROD,
	LANES_MAX,
	LANES_MIN,
	LANES_AVG,
	LANES_COPY, /* not nccl.h's: nothing is added up (R-WK-13) */
	LANES_OPS
};

/* What floats are sent as, where the caller has a say (R-NUM-15). */
/* STRICT: as FREE, but no exponent is guessed. */
enum lanes_form { LANES_FREE, LANES_HALF, LANES_EXACT, LANES_FIXED, LANES_STRICT, LANES_FORMS };

/* Of float32, biased: what LANES_FIXED may have, and that of the numbers from 1/2 to 1. */
enum { LANES_EXPONENT_MAX = 254, LANES_EXPONENT_ONE = 126 };

/* A descriptor's type: an element's type, the form, and the exponent of LANES_FIXED. */
static inline uint32_t lanes_word(uint32_t type, enum lanes_form form, uint32_t exponent)
{
	return type | (uint32_t)form << 8 | exponent << 16;
}

static inline uint32_t lanes_word_type(uint32_t word)
{
	return word & 0xff;
}

static inline enum lanes_form lanes_word_form(uint32_t word)
{
	return (enum lanes_form)(word >> 8 & 0xff);
}

static inline uint32_t lanes_word_exponent(uint32_t word)
{
	return word >> 16;
}

/* An operation, as far as its numbers go. */
struct lanes_call {
	enum lanes_type type;
	enum lanes_op op;
	enum lanes_form form;
	uint64_t count;
	uint32_t workers;  /* 1..65535 */
	uint32_t lanes;    /* of a packet */
	uint32_t exponent; /* of LANES_FIXED: 1..254 */
};

struct lanes;

/* What is done with `count` elements of one chunk. Elements are aligned to their size. */
struct lanes_way {
	/* NULL: unscaled. The largest finite magnitude's biased exponent, as quant.h has it. */
	uint32_t (*exponent)(const struct lanes *lanes, const void *source, uint32_t count);
	/* The sticky flags (WIRE_NONFINITE, WIRE_RANGE). */
	uint8_t (*pack)(const struct lanes *lanes, int32_t *lane, const void *source,
			uint32_t count, uint32_t exponent);
	/* How many were saturated. is_raw: of an integer that DETAIL amends, neither divided nor saturated. */
	uint64_t (*unpack)(const struct lanes *lanes, void *destination, const int32_t *lane,
			   uint32_t count, uint32_t exponent, bool is_raw);
	/* The DETAIL round. Where pack sets no flag, a rank that lies may: lanes are 0, and nothing is amended. */
	void (*detail)(const struct lanes *lanes, int32_t *lane, const void *source,
		       uint32_t count);
	uint64_t (*amend)(const struct lanes *lanes, void *destination, const int32_t *lane,
			  uint32_t count);
};

struct lanes {
	const struct lanes_way *way;
	const struct quant_ops *quant;
	const struct ieee_form *form; /* floats */
	struct map_shape shape;
	struct wide_form wide; /* what takes more than a lane */
	uint32_t workers;
	uint8_t bytes;    /* of an element */
	uint8_t exponent; /* of all chunks, said by the caller (R-NUM-16) */
	enum wire_op lane_op;
	enum lanes_type type;
	bool is_avg, is_min;
	bool is_exact; /* R-NUM-13 */
};

/* The bytes of an element. */
static inline uint32_t lanes_bytes(enum lanes_type type)
{
	static const uint8_t bytes[LANES_TYPES] = {
		[LANES_INT8] = 1,    [LANES_UINT8] = 1,    [LANES_INT32] = 4,   [LANES_UINT32] = 4,
		[LANES_INT64] = 8,   [LANES_UINT64] = 8,   [LANES_FLOAT16] = 2, [LANES_FLOAT32] = 4,
		[LANES_FLOAT64] = 8, [LANES_BFLOAT16] = 2,
	};

	return bytes[type];
}

/* Whether lanes can do it: there is no product, and no minimum or maximum of 64 bits. */
bool lanes_can(enum lanes_type type, enum lanes_op op);

/* False: lanes cannot do it, not one element fits a packet, there are too many workers for halves, or no float32 has the
 * fixed exponent. */
bool lanes_choose(struct lanes *lanes, const struct lanes_call *call,
		  const struct quant_ops *quant);

#endif
