/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - what a step of a synchronous table has brought so far (docs/protocol.md, R-KV-16): a sum for each key. Whole
 * numbers are added, so who came first is no matter: of hot keys the table's units, of cold ones 2^-64. Not
 * thread-safe.
 */
#ifndef PS_STAGE_H
#define PS_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/record.h"

struct stage;

/* Below this, in both signs, is a value of a batch: sums of any step have room then. */
#define STAGE_VALUE_MAX 0x1p46f

int stage_open(struct stage **stage, uint32_t dim, float unit); /* 0, -ENOMEM */
void stage_close(struct stage *stage);                          /* NULL is fine */

/* Makes room for so many keys more than there are. 0, -ENOMEM. */
int stage_reserve(struct stage *stage, uint64_t keys);
/* Adds an epoch's sums of a key, or a batch's values; stage_reserve has made the room. */
void stage_add_sums(struct stage *stage, uint64_t key, const int64_t *sums);
void stage_add_floats(struct stage *stage, uint64_t key, const float *values);

uint64_t stage_count(const struct stage *stage);
/* Key i of stage_count, and its sum as a gradient. */
uint64_t stage_gradient(const struct stage *stage, uint64_t i, float *gradient);
void stage_clear(struct stage *stage);

/* Sums of keys first, first + 1, ... for a checkpoint: 4 count, 4 dim, then of each 8 key, 8: 1 of a hot one, else 0, and
 * dim sums of 16. As many as a record has room for; how many. */
uint64_t stage_save(const struct stage *stage, uint64_t first, struct bytes *body);
/* NULL, or why it is none. */
const char *stage_load(struct stage *stage, const uint8_t *body, uint32_t bytes);

#endif
