/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h - what core works out of its arguments alone: quant.c, map.c, hash.h, text.h and the shape of packets
 * (wire.h). A seed draws what the functions are called with, often at their bounds. What they return is recorded
 * (record.h); of texts, texts.h says what it must be.
 */
#ifndef SEARCH_NUMBERS_H
#define SEARCH_NUMBERS_H

#include "search/bfs.h"

/* config: how many, a uint32_t. */
void numbers_model(struct bfs_model *model, const void *config);

#endif
