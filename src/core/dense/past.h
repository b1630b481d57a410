/* SPDX-License-Identifier: Apache-2.0 */
/*
 * past.h - what a communicator has called so far, which of that an operation repeats, and what exponents the chunks of
 * those had: what a GUESS round is made of. Pure functions of what was called and accepted, so all ranks guess alike.
 * docs/protocol.md, R-WK-17 and R-WK-18.
 *
 * Calls have one order on all ranks, but a stream that is full lets the other overtake it. So what an operation repeats is
 * found when it is called (past_put), and each stream keeps exponents by itself, in rows: a byte for each of an operation's
 * first chunks.
 */
#ifndef CORE_PAST_H
#define CORE_PAST_H

#include "core/shared/map.h"

enum {
	PAST_REACH = 2048,   /* operations: so far an operation looks back */
	PAST_ROWS = 512,     /* as many of the longest rows: so far it looks back in its stream */
	PAST_ROWS_OPEN = 64, /* and as many for operations that are on their way */
	PAST_MATCH = 16,     /* operations before it that are compared to find its place */
	PAST_BELOW = 4,      /* a guess may be so much above what it is of */
	PAST_EXPONENT_MAX = 254,
	PAST_OPEN = 255, /* instead of the exponent of a chunk that has not been accepted */
};

#define PAST_NONE UINT64_MAX

/* An operation that was called. */
struct past_op {
	uint64_t key;
	uint64_t before; /* the number of the one that it repeats, or PAST_NONE */
	uint64_t
		run; /* the first of those with its key that it follows, one directly behind the other */
	uint64_t row; /* where its row begins: what rows the stream had before it */
};

/* Memory is lent. Operations are numbered 0, 1, 2, ... as they are called. */
struct past {
	struct past_op
		*ops; /* a ring of `reach` of them, a power of two; NULL: nothing is ever guessed */
	uint32_t reach;
	uint32_t rows; /* so many of the longest rows are in reach */
	uint32_t turn
		[MAP_STREAMS]; /* chunks until a slot's turn comes again, on all shards: the longest row */
	uint64_t count;
	uint64_t end[MAP_STREAMS]; /* of the stream's rows */
};

/* `key`: of all that is compared (R-WK-17). */
struct past_call {
	uint64_t key, chunks;
	enum map_stream stream;
	bool is_guessed; /* may it be? */
};

/* Rows: of the operation, of the one that it repeats (PAST_NONE: it repeats none, or may not be guessed), and of the one
 * that this one repeats, or again the same. */
struct past_place {
	uint64_t row, length, first, second;
};

/* The exponents of a stream. Memory is lent: as much as is in reach, and the rows of operations on their way. */
struct past_rows {
	uint8_t *exponents;
	uint64_t size;
};

/* An operation is called. */
void past_put(struct past *past, const struct past_call *call, struct past_place *place);
/* How much is in reach, of a stream's rows. */
uint64_t past_kept(const struct past *past, enum map_stream stream);

enum past_guess {
	PAST_UNKNOWN, /* there is nothing to guess from */
	PAST_WAITS,   /* there will be, when an earlier operation's chunk has been accepted */
	PAST_KNOWN,
};

/* It is on its way: its row is empty. Of a stream in the order of the calls. */
void past_open(struct past_rows *rows, const struct past_place *place);
/* The exponent to guess for its chunk, in *guess. */
enum past_guess past_guess(const struct past_rows *rows, const struct past_place *place,
			   uint64_t chunk, uint16_t *guess);
/* The chunk was accepted; all ranks were told this exponent. */
void past_note(struct past_rows *rows, const struct past_place *place, uint64_t chunk,
	       uint32_t exponent);
/* R-WK-18: is a guess good enough for a chunk of this exponent? */
bool past_fits(uint32_t guess, uint32_t exponent);

#endif
