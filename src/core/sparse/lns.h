/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lns.h - floats added up by looking into tables (docs/protocol.md, R-LNS; docs/lns.md), for switches that
 * cannot add floats: x + y is 2^(i + log2(1 + 2^(j - i))), i and j being the logarithms. A sum lies in
 * the switch as a *word*: sign, whether it is anything but 0, and log2 of its magnitude in 256ths. A word of
 * 0 is the number 0, so an empty register is one.
 *
 * Restricted C (tests/lns.bpf.c), without a float or a loop: one look-up or addition after the other, as a
 * chip does it. The tables are made by lns.c, with integers alone: they have the same bits everywhere.
 */
#ifndef CORE_LNS_H
#define CORE_LNS_H

#include "core/sparse/wire_sparse.h"

enum {
	LNS_ONE = 256, /* logarithms count in 256ths: 16 bits hold those of all normal floats */
	LNS_LOG_MIN = -126 * LNS_ONE, /* of the smallest normal float; below is 0 */
	LNS_LOG_MAX = 32767,          /* 1/256 below 128, where floats end */
	LNS_HEAD_BITS = 11,           /* the first bits of a fraction, */
	LNS_REST_BITS = 12,           /* and the others */
};

#define LNS_LOG 0xffffu       /* two's complement */
#define LNS_SOME 0x10000u     /* not the number 0 */
#define LNS_NEGATIVE 0x20000u /* only with LNS_SOME */

/* The paper's seven, 408.5 KB, and one for opposite signs. A float is 2^(e - 127) * (head + rest): head is 1
 * and the fraction's first 11 bits, so a key of 12 bits begins with 1; rest is what the others are worth. */
struct lns_tables {
	int16_t exponent[1 << 8];   /* e - 127, in 256ths */
	uint16_t log[1 << 12];      /* log2(head), in 65536ths */
	int16_t log_rest[1 << 12];  /* log2(rest), in 256ths */
	int16_t log_slope[1 << 12]; /* log2(head * ln 2), in 256ths */
	uint16_t exp[1 << 16];      /* 2^t in 65536ths, 65535 at most; the key is t in 256ths */
	int16_t log_plus[1 << 16];  /* log2(1 + 2^-d), d and it in 256ths */
	int16_t log_minus[1 << 16]; /* log2(1 - 2^-d); 0 at d = 0, which is not looked up */
	uint16_t fraction[1 << 16]; /* of 2^log, without the leading 1, in 65536ths */
};

_Static_assert(sizeof(struct lns_tables) - sizeof((struct lns_tables *)0)->log_minus[0] * 65536 ==
		       256 * 2 + 3 * 4096 * 2 + 3 * 65536 * 2,
	       "408.5 KB and the second table of sums");

#ifndef __bpf__
/* Fills the tables; some 10 ms. */
void lns_tables_make(struct lns_tables *tables);
#endif

/* R-LNS-2: the word of a float32, given as its bits. A denormal is 0; so is an infinity or NaN, and then
 * SPARSE_NONFINITE is put into *flags, which is never cleared here. */
CORE_INLINE uint32_t lns_word(const struct lns_tables *tables, uint32_t bits, uint32_t *flags)
{
	uint32_t exponent = bits >> 23 & 0xff;
	uint32_t head = (bits >> LNS_REST_BITS & 0x7ff) | 1u << LNS_HEAD_BITS;
	uint32_t rest = bits & 0xfff, more, fraction;
	int32_t log;

	if (exponent == 0)
		return 0;
	if (exponent == 0xff) {
		*flags |= SPARSE_NONFINITE;
		return 0;
	}
	/* log(head + rest) is nearly log(head) + rest / (head * ln 2). */
	more = (uint32_t)(tables->log_rest[rest] - tables->log_slope[head]) & 0xffff;
	fraction = (uint32_t)tables->log[head] + tables->exp[more];
	log = tables->exponent[exponent] + (int32_t)((fraction + 128) >> 8);
	if (log > LNS_LOG_MAX)
		log = LNS_LOG_MAX; /* of the largest floats: rounded down, not saturated */
	return ((uint32_t)log & LNS_LOG) | LNS_SOME | (bits >> 31 ? LNS_NEGATIVE : 0);
}

/* R-LNS-3: a + b. Beyond the largest word the sum is that, and SPARSE_SATURATED is put into *flags. */
CORE_INLINE uint32_t lns_add(const struct lns_tables *tables, uint32_t a, uint32_t b,
			     uint32_t *flags)
{
	int32_t log_a = (int16_t)(a & LNS_LOG), log_b = (int16_t)(b & LNS_LOG), log;
	uint32_t large = log_a >= log_b ? a : b, apart;

	if (!(a & LNS_SOME))
		return b;
	if (!(b & LNS_SOME))
		return a;
	log = log_a >= log_b ? log_a : log_b;
	apart = (uint32_t)(log_a >= log_b ? log_a - log_b : log_b - log_a) & 0xffff;
	if (!((a ^ b) & LNS_NEGATIVE)) {
		log += tables->log_plus[apart];
	} else {
		if (apart == 0)
			return 0;
		log += tables->log_minus[apart];
	}
	if (log < LNS_LOG_MIN)
		return 0; /* a denormal */
	if (log > LNS_LOG_MAX) {
		*flags |= SPARSE_SATURATED;
		log = LNS_LOG_MAX;
	}
	return ((uint32_t)log & LNS_LOG) | (large & (LNS_SOME | LNS_NEGATIVE));
}

/* R-LNS-4: the bits of a float32 for any word: 0 if its log is below LNS_LOG_MIN, too. */
CORE_INLINE uint32_t lns_float(const struct lns_tables *tables, uint32_t word)
{
	int32_t log = (int16_t)(word & LNS_LOG);
	uint32_t exponent = ((uint32_t)(log + 32768) >> 8) - 1; /* floor(log) + 127 */

	if (!(word & LNS_SOME) || log < LNS_LOG_MIN)
		return 0;
	return (word & LNS_NEGATIVE ? 1u << 31 : 0) | exponent << 23 |
	       (uint32_t)tables->fraction[word & LNS_LOG] << 7;
}

#endif
