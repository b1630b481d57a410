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
 */
#ifndef GLM_WEAVE_H
#define GLM_WEAVE_H

#include <stddef.h>
#include <stdint.h>

enum {
	WEAVE_BITS_MAX = 8,
	WEAVE_ALIGN = 64,             /* of the memory that is lent: a cache line */
	WEAVE_FEATURES_MAX = 1 << 20, /* of a share: sums of the two stay in 64 bits */
};

struct weave_range {
	float low, high; /* finite, low <= high */
};

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
};

/* The ranges of CSR rows, where a feature that a row lacks is 0, or of dense rows. seen: [features],
 * scratch. Without rows all ranges are 0..0. */
void weave_ranges_sparse(struct weave_range *ranges, uint64_t *seen, uint32_t features,
			 uint64_t rows, const uint64_t *start, const uint32_t *column,
			 const float *value);
void weave_ranges_dense(struct weave_range *ranges, uint32_t features, uint64_t rows,
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

#endif
