/* SPDX-License-Identifier: Apache-2.0 */
/* data_values.h - what data.h's model sums up, known without any protocol. */
#ifndef SEARCH_DATA_VALUES_H
#define SEARCH_DATA_VALUES_H

#include "core/dense/worker.h"
#include "core/shared/wire.h"
#include "search/data.h"

/* A worker's lane of a chunk. Chunks are numbered 0, 1, 2, ... over all operations. */
int32_t value_of(uint32_t worker, uint32_t chunk, enum wire_round round, uint32_t lane);
/* Has the worker this element? Else its lane is 0. */
bool value_is_had(const struct data_config *config, uint32_t worker, uint32_t chunk, uint32_t lane);
int32_t value_sum(const struct data_config *config, uint32_t chunk, enum wire_round round,
		  uint32_t lane);
uint32_t exponent_of(const struct data_config *config, uint32_t worker, uint32_t chunk);
uint32_t exponent_max(const struct data_config *config, uint32_t chunk);

struct worker_op op_make(const struct data_config *config, uint32_t worker, uint32_t op);
uint32_t op_chunks(const struct data_config *config, uint32_t op);
/* The lanes that the chunk fills, without padding. */
uint32_t chunk_lanes(const struct data_config *config, const struct worker_chunk *chunk);
uint32_t op_first_chunk(const struct data_config *config, uint32_t op);
uint32_t chunk_number(const struct data_config *config, const struct worker_chunk *chunk);
/* The chunk that a tag stands for, that of a GUESS too; -1: none. */
int tag_chunk(const struct data_config *config, uint32_t tag);
/* The workers that do not want the elements at a place of an operation: a set of bits. */
uint32_t unwanted_of(const struct data_config *config, uint32_t op, uint32_t place);
/* Do these workers (a set of bits) all want nothing of the chunk that a tag is of? */
bool nobody_wants(const struct data_config *config, uint32_t workers, uint32_t tag);
/* Has one of them the first element of the chunk that a tag is of? */
bool somebody_gives(const struct data_config *config, uint32_t workers, uint32_t tag);

#endif
