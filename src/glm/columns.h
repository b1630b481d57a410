/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns.h - which share owns a feature, and under what number. A share is one engine's part of the columns;
 * rank r of ranks with T threads each has the shares r*T .. r*T + T-1. Features are counted from 0.
 *
 * What is known of the features is a sample, the first rows of a file. Features up to the highest of the sample
 * are cut into contiguous ranges in which the sample's non-zeros are even; a range may be empty. Features above
 * that are dealt out in blocks, in turn. So every feature of 32 bits has its place whatever the file goes on to
 * say, the table has one number per share, and all ranks that read the same sample have the same table.
 */
#ifndef GLM_COLUMNS_H
#define GLM_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

enum {
	COLUMNS_SHARES_MAX = 4096, /* 64 ranks with 64 threads */
	COLUMNS_BLOCK =
		4096, /* 16 KiB of weights: few features share a block with another share's */
};

struct columns {
	uint32_t shares;
	uint32_t first[COLUMNS_SHARES_MAX +
		       1]; /* rising; [shares]: the first feature that is dealt out */
};

/* columns_make cuts for 1 .. COLUMNS_SHARES_MAX shares after the features of a sample, in any order, which it
 * sorts. `spare` has room for as many. A sample of none deals all features out. */
void columns_make(struct columns *columns, uint32_t shares, uint32_t *sample, uint32_t *spare,
		  size_t count);

uint32_t columns_share(const struct columns *columns, uint32_t feature);
/* The feature's number within its share, from 0 without gaps. */
uint32_t columns_local(const struct columns *columns, uint32_t feature);
/* The other way; local < columns_count() of any number of features that has it. */
uint32_t columns_global(const struct columns *columns, uint32_t share, uint32_t local);
/* How many of the features 0 .. features-1 the share owns. */
uint32_t columns_count(const struct columns *columns, uint32_t share, uint64_t features);

#endif
