/* SPDX-License-Identifier: Apache-2.0 */
/* count.h - how often each key came, exactly. Memory grows with the keys: 64 bytes each at most, 96 for a moment. */
#ifndef HOT_COUNT_H
#define HOT_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hot/heat.h"

struct count_cell {
	uint64_t key, count; /* 0: empty */
};

struct count {                   /* zeros to begin with */
	struct count_cell *cell; /* [mask + 1] */
	size_t mask, keys;
	uint64_t updates;
};

void count_fini(struct count *count);

/* -1: no memory; nothing was counted. At most COUNT_ADD_MAX at a time. */
enum { COUNT_ADD_MAX = 1 << 16 };
int count_add(struct count *count, const uint64_t *key, size_t keys);
/* 0: it never came. */
uint64_t count_of(const struct count *count, uint64_t key);

/* All keys, in no order, without weights: [count->keys]. */
void count_read(const struct count *count, struct heat *heat);

#endif
