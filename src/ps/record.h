/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what the log and the checkpoints of a table are made of: records, each with its length and a checksum.
 * docs/protocol.md, R-KV-24 to R-KV-27. Little-endian:
 *
 *   0  4  bytes of the body
 *   4  4  CRC-32 (IEEE 802.3) of the four bytes before, the four behind, and the body
 *   8  4  type
 *  12     body
 *
 * A file begins with a TABLE: words that say which table it is of, and how that is made. Who has other words does
 * not read on. What a body has is below; the parser believes nothing.
 */
#ifndef PS_RECORD_H
#define PS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sparse/server_sparse.h"
#include "ps/fail.h"

enum {
	RECORD_HEADER_BYTES = 12,
	RECORD_BODY_MAX = 1 << 30,
	RECORD_TEXT_MAX = 512, /* of a TABLE */
	RECORD_MAP_BYTES = 16,
	RECORD_SHARE_BYTES = 56,
	RECORD_WHOLE_BYTES = RECORD_HEADER_BYTES + 8,
	RECORD_BEFORE_BYTES =
		44, /* its body: number, bytes, records, batches, epochs of 8, sum of 4 */
};

/* R-KV-26 */
enum record_type {
	/* 1 to 4: enum server_sparse_record_kind, and what goes with it: struct record_step */
	RECORD_TABLE = 16, /* the words */
	RECORD_BARRIER,    /* 8 bytes: this barrier was passed */
	RECORD_MAP,   /* 4 version, 4 count, 8 digest: which keys were hot under this version */
	RECORD_ROWS,  /* of a checkpoint: 4 count, 4 floats of a row, then count keys and rows */
	RECORD_END,   /* of a checkpoint: 8, how many rows there were */
	RECORD_LEFT,  /* 8: this worker has said LEAVE */
	RECORD_VOID,  /* 8: after this barrier, what a step had is dropped; all have left */
	RECORD_STAGE, /* of a checkpoint: what a step has so far (stage.h) */
	RECORD_WHOLE, /* of a log: 8, where in the file it stands. All before it was durable before it was written. */
	RECORD_BEFORE, /* of a log: 8 number of the log before it, and what that had in all: struct record_sum */
	RECORD_SHARE, /* 2 index, 2 count, 4 flags: 1 used, 2 identity is known; 16 each: identity, own, list (R-KV-22) */
};

/* ---- bytes, growing ---- */

struct bytes {
	uint8_t *at; /* malloc */
	size_t count, room;
	bool is_short; /* a put found no memory: what was put is not whole */
};

void bytes_put(struct bytes *bytes, const void *what, size_t count);
void bytes_put32(struct bytes *bytes, uint32_t number);
void bytes_put64(struct bytes *bytes, uint64_t number);
void bytes_fini(struct bytes *bytes);

/* ---- files of records ---- */

/* Takes one record. 0: go on; -1: it does not fit, and `error` has a sentence. */
typedef int record_take(void *arg, uint32_t type, const uint8_t *body, uint32_t bytes,
			char error[PS_ERROR_MAX]);

/* Gives all whole records of a file but RECORD_WHOLE to `take`, in order. *whole: where the last of them ends; behind it the file has
 * nothing, or what is no whole record: *why says what (NULL: nothing). -1 if `take` said so; `error` names the file
 * then, and where in it. */
int record_scan(const char *name, const uint8_t *file, size_t bytes, record_take *take, void *arg,
		size_t *whole, const char **why, char error[PS_ERROR_MAX]);

/* R-KV-27: was all up to here on the disk once? Behind it is a RECORD_WHOLE then, wherever that stands now: it is damaged, and not
 * the end of a crash. */
bool record_was_whole(const uint8_t *file, size_t bytes, size_t at);

/* What a file has: its bytes, its records (of RECORD_WHOLE none counts), and the CRC-32 of all their headers, which have
 * the sums of all bodies. */
struct record_sum {
	uint64_t bytes, records, batches, epochs;
	uint64_t known; /* where the last RECORD_WHOLE stands: all before it was on the disk */
	uint32_t sum;
};
/* One record more, of this header. */
void record_sum_add(struct record_sum *sum, const uint8_t *header);
/* Of a file's first bytes, all of them whole records. */
struct record_sum record_sum_of(const uint8_t *file, size_t bytes);
/* Of all records that can be found from `at` on, whatever lies between them; no bytes, no sum. */
struct record_sum record_sum_found(const uint8_t *file, size_t bytes, size_t at);

/* The body of a RECORD_BEFORE. */
void record_before_put(uint8_t body[RECORD_BEFORE_BYTES], uint64_t number,
		       const struct record_sum *sum);
struct record_sum record_before_get(const uint8_t body[RECORD_BEFORE_BYTES], uint64_t *number);

/* R-KV-25: appends header and body. */
void record_frame(struct bytes *out, uint32_t type, const uint8_t *body, uint32_t bytes);

/* ---- the bodies of types 1 to 4: R-KV-26 ---- */

/*
 *   0  4  map                 20  8  incarnation; of an EPOCH, its number
 *   4  8  generation          28  8  the batch's number
 *  12  2  worker              36  4  places: of an EPOCH the numbers of its cut, else 0
 *  14  2  flags               40  4  count: keys
 *  16  4  dim                 44     the cut, of 8 each; then the keys, of 8 each; then their values: of an EPOCH
 *                                    dim sums of 8, of a BATCH dim floats of 4
 */
enum { RECORD_STEP_BYTES = 44 };

struct record_step {
	struct server_sparse_record what; /* number is 0: it follows from the place in the file */
	uint32_t places, count, dim;
	const uint8_t *cut, *key, *value; /* in the body */
};

/* NULL, or why it is not a step of a table of this shape. */
const char *record_step_get(uint32_t type, const uint8_t *body, uint32_t bytes,
			    const struct sparse_table *table, struct record_step *step);
/* All but keys and values, which the caller puts behind it. cut: of an EPOCH. */
void record_step_put(struct bytes *out, const struct server_sparse_record *what,
		     const struct sparse_table *table, const uint64_t *cut, uint32_t count);

#endif
