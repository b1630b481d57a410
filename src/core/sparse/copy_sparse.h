/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_sparse.h - a worker's copy of a table's hot values, kept by BCAST and pulls, and which of them it may use. Pure;
 * memory is the caller's. docs/protocol.md, R-SP-31.
 *
 * Each rank has the (generation, epoch) of its value, so what comes late changes nothing. From an epoch on, the base, all
 * BCASTs up to another one, fresh, have come: so a value that is as of the base or later is as of fresh. BCAST is not
 * sent again: when one is missing the base moves behind it, and what is older has to be pulled before it is of use. What
 * is of another generation than the worker's does not count: the server may have lost that epoch.
 */
#ifndef CORE_COPY_SPARSE_H
#define CORE_COPY_SPARSE_H

#include "core/sparse/table_sparse.h"

enum { COPY_SPARSE_AHEAD = 4 }; /* epochs of which parts count before older ones are whole */

struct copy_sparse_tag {
	uint64_t generation, epoch; /* 0, 0: no value yet */
};

/* Memory lent by the caller. */
struct copy_sparse_memory {
	struct copy_sparse_tag *tag; /* table->ranks */
	uint32_t *value;             /* table->ranks * table->dim: as the packets have them */
	uint8_t *has_part;           /* COPY_SPARSE_AHEAD * copy_sparse_parts_max(table) */
};

struct copy_sparse {
	/* Read by anyone. */
	const struct sparse_table *table;
	uint64_t generation; /* the worker's */
	uint64_t told;       /* the highest generation that anything has told of */
	uint64_t since;      /* values of an older generation are of no use */
	uint64_t base, fresh;
	uint64_t past;   /* values of this epoch or an older one are of no use */
	uint64_t newest; /* epoch that anything has told of */
	uint32_t parts
		[COPY_SPARSE_AHEAD]; /* of an epoch, as its first part said; 0: none has come */
	uint32_t parts_count[COPY_SPARSE_AHEAD]; /* that have come */
	struct copy_sparse_memory memory;
};

/* How many ranks a BCAST part has, but the last one; the parts of an epoch that has touched so many, and the most. */
uint32_t copy_sparse_ranks_per_part(const struct sparse_table *table);
uint32_t copy_sparse_parts(const struct sparse_table *table, uint32_t touched);
uint32_t copy_sparse_parts_max(const struct sparse_table *table);

/* A copy that has nothing. `expected` is the first epoch that the generation brings, as RESUME or JOIN's answer says. */
void copy_sparse_init(struct copy_sparse *copy, const struct sparse_table *table,
		      uint64_t generation, uint64_t expected,
		      const struct copy_sparse_memory *memory);

/* RESUME was taken. */
void copy_sparse_resume(struct copy_sparse *copy, uint64_t generation, uint64_t expected);

/* COMMITTED, or what a server says over TCP: there is such an epoch, whether its BCAST comes or not. */
void copy_sparse_told(struct copy_sparse *copy, uint64_t generation, uint64_t epoch);

/* A BCAST that sparse_check has passed. False: it is not one of this table. */
bool copy_sparse_take(struct copy_sparse *copy, const struct sparse *packet, const uint8_t *at);

/* A pull has brought dim values of a rank, as of an epoch. Of another generation than the worker's they are not kept. */
void copy_sparse_pulled(struct copy_sparse *copy, uint32_t rank, uint64_t generation,
			uint64_t epoch, const uint32_t *value);

/* What was applied after this epoch, or before, and was no epoch (R-KV-9), may be missing in values as of it. */
void copy_sparse_past(struct copy_sparse *copy, uint64_t epoch);

/* A BCAST that is missing has been waited for long enough: the base is the newest epoch. */
void copy_sparse_give_up(struct copy_sparse *copy);

/* Soon this rank will be asked for, as sparse_map_fetch; one that there is not is fine. */
void copy_sparse_fetch(const struct copy_sparse *copy, uint32_t rank);

/* The rank's values, if they are at most `bound` epochs behind the newest that it knows of; else NULL. */
const uint32_t *copy_sparse_value(const struct copy_sparse *copy, uint32_t rank, uint64_t bound);

#endif
