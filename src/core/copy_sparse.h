/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_sparse.h - a worker's copy of a table's hot values, kept by BCAST, and how fresh it is. Pure; memory is
 * the caller's. docs/protocol.md, R-SP-31.
 *
 * Each rank has the (generation, epoch) of its value, so what comes late changes nothing. The copy is fresh as of
 * an epoch when no part of any up to it is missing. BCAST is not sent again: what is missing has to be pulled. What
 * is of another generation than the worker's does not count: the server may have lost that epoch.
 */
#ifndef CORE_COPY_SPARSE_H
#define CORE_COPY_SPARSE_H

#include "core/table_sparse.h"

enum { COPY_SPARSE_AHEAD = 4 }; /* epochs of which parts count before older ones are whole */

struct copy_sparse_tag {
	uint64_t generation, epoch; /* 0, 0: no value yet */
};

/* Memory lent by the caller. */
struct copy_sparse_memory {
	struct copy_sparse_tag *tag; /* table->ranks */
	uint32_t *value;             /* table->ranks * table->dim: as the packets have them */
	uint8_t *has_part;           /* COPY_SPARSE_AHEAD * copy_sparse_parts(table) */
};

struct copy_sparse {
	/* Read by anyone. */
	const struct sparse_table *table;
	uint64_t generation; /* the worker's */
	uint64_t first;      /* the first epoch that this generation brings */
	uint64_t fresh;      /* as of this epoch; 0: of none */
	uint64_t newest;     /* that anything has told of */
	struct copy_sparse_memory memory;
};

/* How many ranks a BCAST part is about, and how many parts hold all. */
uint32_t copy_sparse_ranks_per_part(const struct sparse_table *table);
uint32_t copy_sparse_parts(const struct sparse_table *table);

/* A copy that has nothing. `expected` is the first epoch that the generation brings, as RESUME or JOIN's answer says. */
void copy_sparse_init(struct copy_sparse *copy, const struct sparse_table *table,
		      uint64_t generation, uint64_t expected,
		      const struct copy_sparse_memory *memory);

/* RESUME was taken. */
void copy_sparse_resume(struct copy_sparse *copy, uint64_t generation, uint64_t expected);

/* COMMITTED was taken: there is such an epoch, whether its BCAST comes or not. */
void copy_sparse_committed(struct copy_sparse *copy, uint64_t generation, uint64_t epoch);

/* A BCAST that sparse_check has passed. False: it is not one of this table. */
bool copy_sparse_take(struct copy_sparse *copy, const struct sparse *packet, const uint8_t *at);

/* A pull has brought dim values of a rank, as of an epoch; and one that has brought all ranks, as of this or later. Of
 * another generation than the worker's it changes nothing. */
void copy_sparse_pulled(struct copy_sparse *copy, uint32_t rank, uint64_t generation,
			uint64_t epoch, const uint32_t *value);
void copy_sparse_pulled_all(struct copy_sparse *copy, uint64_t generation, uint64_t epoch);

/* Is it at most `bound` epochs behind the newest that it knows of? */
bool copy_sparse_is_within(const struct copy_sparse *copy, uint64_t bound);

/* Can nothing but a pull make it fresh as of the newest? */
bool copy_sparse_has_gap(const struct copy_sparse *copy);

#endif
