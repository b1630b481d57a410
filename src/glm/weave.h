/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weave.h - feature values as weaved bit planes: 1 to 8 bits per value, chosen for each pass, of which
 * only those chosen are read (MLWeaving: Wang, Kara, Zhang, Alonso, VLDB 2019).
 *
 * A value x of a feature with the range low..high is kept as q = floor(256 (x - low) / (high - low)), 255
 * at most. Its eight bits go to eight planes, the most significant to plane 0, and each plane keeps its
 * bits of all rows together: a pass at k bits reads the first k planes and nothing else. It works with
 *
 *     x' = low + (high - low) / (2^k - 1) * (q >> (8 - k))
 *
 * which gives back low and high themselves at any k (a feature of 0 and 1 is exact with 1 bit) and is
 * nowhere further than (high - low) / 2^k from x. What is outside the range counts as its nearer end.
 *
 * Numbers. A dot product with the weights w is exact integer arithmetic on rounded weights, so its bits
 * depend neither on the instruction set, nor on the order, nor on how the features are split into shares:
 *
 *     W = w (high - low) / (2^k - 1), rounded to a multiple of 2^-(fraction + k), |W| below 2^30 of these
 *     C = the sum of w low, each rounded to a multiple of 2^-32
 *     partial = C + the sum of W (q >> (8 - k)), a multiple of 2^-32
 *
 * Partials of shares of the features add up to the partial of all of them, bit by bit. A partial is wrong
 * (against the sum of w x' without rounding) by at most 2^-(fraction + 1) + 2^-32 per feature. `fraction` is
 * the same number on all ranks, never a largest value of one rank's weights; the default allows
 * |w| (high - low) up to 64 (1 - 2^-k). A gradient is float32, each column's summed in the order of the
 * rows, product and sum rounded one after the other: the same bits on every instruction set too.
 */
#ifndef GLM_WEAVE_H
#define GLM_WEAVE_H

#include <stddef.h>
#include <stdint.h>

enum {
	WEAVE_BITS_MAX = 8,
	WEAVE_ALIGN = 64,         /* of the memory that is lent: a cache line */
	WEAVE_FRACTION = 24,      /* the most: W times q is then a multiple of 2^-32 for every k */
	WEAVE_FRACTION_BITS = 32, /* of a partial */
	WEAVE_PARTIAL_BITS = 52,  /* a partial is within +-2^52: +-2^20 */
	WEAVE_WEIGHT_MAX = 1 << 30,   /* |W| is below, in its unit */
	WEAVE_CONSTANT_MAX = 1 << 10, /* |w low| is below */
	WEAVE_FEATURES_MAX = 1 << 20, /* of a share: sums of the two stay in 64 bits */
};

struct weave_range {
	float low, high; /* finite, low <= high */
};

struct weave_ops;

/* The planes of one share's columns. Read as you like, changed by the functions below alone. */
struct weave {
	uint64_t *words; /* row r's bits of plane p: from p * plane_words + r * stride on */
	uint64_t plane_words;
	const struct weave_range *ranges; /* [features], the caller's */
	uint8_t *zero, *row;              /* q of a row of zeros; q of the row being appended */
	uint64_t rows, rows_max;
	uint32_t features;
	uint32_t words_count; /* of a row in a plane: 64 features each, unused bits 0 */
	uint32_t stride;      /* words_count, or up to 1/16 more: whole cache lines */
	uint32_t planes;      /* that are kept: the most bits that can be read */
	const struct weave_ops *ops;
};

/* The ranges of CSR rows, where a feature that a row lacks is 0. seen: [features], scratch. Without rows all ranges
 * are 0..0. */
void weave_ranges_sparse(struct weave_range *ranges, uint64_t *seen, uint32_t features,
			 uint64_t rows, const uint64_t *start, const uint32_t *column,
			 const float *value);

/* Bytes to lend to weave_init, aligned to WEAVE_ALIGN; 0: more than memory can be. features is at most
 * WEAVE_FEATURES_MAX, planes 1..8. */
size_t weave_bytes(uint64_t rows_max, uint32_t features, uint32_t planes);

/* weave_init makes planes without rows in memory, which it uses as long as weave is used, as it does
 * ranges. */
void weave_init(struct weave *weave, void *memory, uint64_t rows_max, uint32_t features,
		uint32_t planes, const struct weave_range *ranges);

/* Rows are appended in order, rows_max at most. Columns of a sparse row are below features, each there
 * once, in any order. */
void weave_append_sparse(struct weave *weave, const uint32_t *column, const float *value,
			 size_t count);
void weave_append_dense(struct weave *weave, const float *value);

/* Bytes of planes that one row's dot product, or its addition to the gradient, reads at `bits`. */
static inline uint64_t weave_row_bytes(const struct weave *weave, uint32_t bits)
{
	return (uint64_t)weave->words_count * sizeof(uint64_t) * bits;
}

/* The weights of one vector, rounded for one number of bits. */
struct weave_model {
	const struct weave_ops *ops;
	int16_t *parts; /* W = 2^15 * a signed part + an unsigned one, in the kernels' order */
	int64_t constant;
	uint32_t features, bits, fraction;
};

/* Bytes to lend to weave_model_init, aligned to WEAVE_ALIGN. */
size_t weave_model_bytes(uint32_t features);
void weave_model_init(struct weave_model *model, void *memory, uint32_t features);

/* Rounds weight[0], weight[step], ... for dot products at `bits`. Returns how many were too large, or no
 * number: they were given the largest value that fits (NaN: 0), and the partials are wrong. */
uint64_t weave_model_set(struct weave_model *model, const struct weave_range *ranges,
			 const float *weight, size_t step, uint32_t bits, uint32_t fraction);

/* partial[i] = the dot product of row row[i] with the model, at the model's bits, in units of 2^-32. One
 * pass over the weights serves all rows of a call. Exactly 2^WEAVE_PARTIAL_BITS, or minus that, stands for
 * it and everything beyond: saturated. */
void weave_dot(const struct weave *weave, const struct weave_model *model, const uint32_t *row,
	       size_t count, int64_t *partial);

/* Floats in sums, of which weave_add may write all; those past the features mean nothing. */
size_t weave_sums_count(uint32_t features);

/* sums[j] += scale[i] * (q >> (8 - bits)) of feature j in row row[i], for i = 0, 1, ... in this order. Any
 * cut of a list of rows into calls gives the same bits. */
void weave_add(const struct weave *weave, uint32_t bits, const uint32_t *row, const float *scale,
	       size_t count, float *sums);

/* The gradient in features, from the sums at `bits` and the sum of the same scales:
 * gradient[j * step] = low * scale_sum + (high - low) / (2^bits - 1) * sums[j]; sums are 0 afterwards. */
void weave_gradient(const struct weave *weave, uint32_t bits, float *sums, double scale_sum,
		    float *gradient, size_t step);

#endif
