/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h - what core works out of its arguments alone, as a model for bfs.h: quant.c, map.c, hash.h,
 * misfit.h, text.h and the shape of packets (wire.h). A state is a number; it seeds what the functions are
 * called with, often at their bounds, and slow_numbers.h and texts.h say what they must return.
 */
#ifndef SEARCH_NUMBERS_H
#define SEARCH_NUMBERS_H

#include "search/bfs.h"

/* config: how many, a uint32_t. */
void numbers_model(struct bfs_model *model, const void *config);

#endif
