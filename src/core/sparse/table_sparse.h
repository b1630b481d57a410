/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_sparse.h - what switch, worker and server know alike of a table of sparse mode, and how a flush or a
 * SETUP is cut into parts: that follows from it and from how many ranks were touched, so that a part can be made
 * again, and judged, by itself. docs/protocol.md, R-SP-7 and R-SP-11.
 */
#ifndef CORE_TABLE_SPARSE_H
#define CORE_TABLE_SPARSE_H

#include "core/dense/switch.h"
#include "core/sparse/wire_sparse.h"

/* What the values of a PUSH are, and what a bank has of them. */
enum sparse_values {
	SPARSE_FIXED, /* integers of 32 bits, added up in 64 */
	SPARSE_LNS,   /* float32, added up as words: R-LNS-5 */
	SPARSE_VALUES_END
};

/* 1 <= workers <= SWITCH_CHILDREN_MAX, 1 <= window <= SPARSE_WINDOW_MAX, 1 <= dim <= SPARSE_DIM_MAX, ranks
 * >= 1; bytes, of a datagram, lets a row and a sum fit and is at most SPARSE_BYTES_MAX. */
struct sparse_table {
	uint32_t ranks; /* K */
	uint16_t index; /* at the aggregator */
	uint16_t workers;
	uint16_t window; /* W */
	uint16_t dim;    /* values of a rank */
	uint16_t bytes;
	uint8_t is_stepped; /* R-SP-12 */
	uint8_t values;     /* enum sparse_values */
};

CORE_INLINE bool sparse_table_is_sound(const struct sparse_table *table)
{
	return table->ranks && table->values < SPARSE_VALUES_END && table->workers &&
	       table->workers <= SWITCH_CHILDREN_MAX && table->window &&
	       table->window <= SPARSE_WINDOW_MAX && table->dim && table->dim <= SPARSE_DIM_MAX &&
	       table->bytes <= SPARSE_BYTES_MAX &&
	       table->bytes >= sparse_items_at(SPARSE_SETUP) + sparse_row_bytes(table->window) &&
	       table->bytes >= SPARSE_HEADER_BYTES + sparse_sum_bytes(table->dim);
}

/* Places of a cut, of which worker w has [w * window, (w + 1) * window). */
CORE_INLINE uint32_t sparse_places(const struct sparse_table *table)
{
	return (uint32_t)table->workers * table->window;
}

CORE_INLINE uint32_t sparse_place(const struct sparse_table *table, uint32_t worker, uint64_t seq)
{
	return worker * table->window + (uint32_t)(seq % table->window);
}

/* R-SP-1: a generation is how many fences there have been, and random bits: ordered, and nobody can guess it. */
enum {
	SPARSE_RANDOM_BITS = 40,
	SPARSE_FENCES_SPARE =
		1 << 16, /* not for other maps and switches: 18 hours of one a second */
	SPARSE_FENCES_LAST = 1 << 10, /* nor for workers in place of others */
};
#define SPARSE_FENCES_MAX (UINT64_MAX >> SPARSE_RANDOM_BITS)

CORE_INLINE uint64_t sparse_fences(uint64_t generation)
{
	return generation >> SPARSE_RANDOM_BITS;
}

CORE_INLINE uint64_t sparse_fences_left(uint64_t generation)
{
	return SPARSE_FENCES_MAX - sparse_fences(generation);
}

/* There is one: sparse_fences_left. */
CORE_INLINE uint64_t sparse_generation_after(uint64_t generation, uint64_t random)
{
	CORE_ASSERT(sparse_fences(generation) < SPARSE_FENCES_MAX);
	return (sparse_fences(generation) + 1) << SPARSE_RANDOM_BITS |
	       (random & ((1ull << SPARSE_RANDOM_BITS) - 1));
}

/* How many rows a part has, of a CUT as of a SETUP, and how many parts hold all. */
CORE_INLINE uint32_t sparse_rows_per_part(const struct sparse_table *table)
{
	return sparse_items_of(SPARSE_SETUP, table->bytes, sparse_row_bytes(table->window));
}

CORE_INLINE uint32_t sparse_cut_parts(const struct sparse_table *table)
{
	uint32_t rows = sparse_rows_per_part(table);

	return (table->workers + rows - 1) / rows;
}

CORE_INLINE uint32_t sparse_rows_of_part(const struct sparse_table *table, uint32_t part)
{
	uint32_t rows = sparse_rows_per_part(table), left = table->workers - part * rows;

	return left < rows ? left : rows;
}

/* How many ranks a FLUSH has, long or short, but the last one, and the parts of a flush, CUTs first. */
CORE_INLINE uint32_t sparse_ranks_per_part(const struct sparse_table *table)
{
	return sparse_items_of(SPARSE_FLUSH, table->bytes, sparse_sum_bytes(table->dim));
}

CORE_INLINE uint32_t sparse_flush_parts(const struct sparse_table *table, uint32_t touched)
{
	uint32_t ranks = sparse_ranks_per_part(table);

	return sparse_cut_parts(table) + touched / ranks + (touched % ranks != 0);
}

CORE_INLINE uint32_t sparse_flush_parts_max(const struct sparse_table *table)
{
	return sparse_flush_parts(table, table->ranks);
}

/* R-SP-33: how many seqs of the place `high` covers, and `low` does not. */
CORE_INLINE uint64_t sparse_lost_at(const struct sparse_table *table, uint32_t place, uint64_t low,
				    uint64_t high)
{
	uint64_t first = place ? place : table->window;

	if (high <= low)
		return 0;
	return (high - (low ? low : first)) / table->window + !low;
}

/* R-SP-11: is this a part of a flush, or of a SETUP, of this table, by its header? */
CORE_INLINE bool sparse_is_cut_part(const struct sparse_table *table, const struct sparse *packet)
{
	return packet->width == table->window && packet->part < sparse_cut_parts(table) &&
	       packet->worker == packet->part * sparse_rows_per_part(table) &&
	       packet->count == sparse_rows_of_part(table, packet->part);
}

CORE_INLINE bool sparse_is_flush_part(const struct sparse_table *table, const struct sparse *packet)
{
	uint32_t ranks = sparse_ranks_per_part(table);

	if (packet->parts < sparse_cut_parts(table) ||
	    packet->parts > sparse_flush_parts_max(table))
		return false;
	if (packet->kind == SPARSE_CUT)
		return sparse_is_cut_part(table, packet);
	return sparse_is_flush(packet->kind) && packet->part >= sparse_cut_parts(table) &&
	       packet->width == table->dim && packet->count && packet->count <= ranks &&
	       (packet->count == ranks || packet->part + 1 == packet->parts);
}

enum { SPARSE_HAVE_NUMBERS = 16, SPARSE_HAVE_BITS = 64 };

/* R-SP-34: the parts that a HAVE tells of are so many, from a multiple of it on: what fits into a datagram. */
CORE_INLINE uint32_t sparse_have_parts(const struct sparse_table *table)
{
	uint32_t numbers = ((uint32_t)table->bytes - SPARSE_HEADER_BYTES) / SPARSE_NUMBER_BYTES;

	return SPARSE_HAVE_BITS * (numbers < SPARSE_HAVE_NUMBERS ? numbers : SPARSE_HAVE_NUMBERS);
}

/* Where in the list of the touched ranks those of a FLUSH part begin. */
CORE_INLINE uint32_t sparse_first_touched(const struct sparse_table *table, uint32_t part)
{
	return (part - sparse_cut_parts(table)) * sparse_ranks_per_part(table);
}

#endif
