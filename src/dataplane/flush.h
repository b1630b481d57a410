/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flush.h - which part of a flush of sparse mode goes out when (docs/protocol.md, R-SP-11, R-SP-34): some 64 KiB at
 * a time wait for their HAVE, one that has run out goes again, and when all have come but COMMITTED does not, all
 * go again. No packets here, and no clock.
 */
#ifndef DATAPLANE_FLUSH_H
#define DATAPLANE_FLUSH_H

#include "core/shared/rto.h"
#include "core/sparse/table_sparse.h"

enum { FLUSH_WINDOW_MAX = 64, FLUSH_WINDOW_BYTES = 65536 };

/* A part that was sent and has not been answered. */
struct flush_flight {
	uint64_t sent_ns;
	uint32_t part;
	uint8_t is_again; /* was sent more than once: an answer is no sample */
	uint8_t is_out;   /* has run out, or was never sent: goes next */
};

struct flush {
	struct rto rto;
	uint64_t waits_ns; /* since when all have come and COMMITTED has not */
	uint64_t *had;     /* a bit per part */
	uint32_t parts;    /* of this flush */
	uint32_t next, window;
	uint32_t flight_count;
	struct flush_flight flight[FLUSH_WINDOW_MAX];
	bool is_again; /* all of it, once more */
};

/* Bytes of `had` for so many parts. */
uint64_t flush_bytes(uint32_t parts);
/* had: lent, for sparse_flush_parts_max(table). */
void flush_init(struct flush *flush, const struct sparse_table *table, uint64_t *had);
/* A flip: so many parts are to be sent. The flush before it has ended. */
void flush_begin(struct flush *flush, uint32_t parts, uint64_t now_ns);
/* The server has said what it has; the switch has said that it is of this flush. */
void flush_have(struct flush *flush, const struct sparse *packet, const uint8_t *at,
		uint64_t now_ns);
/* It is committed. */
void flush_end(struct flush *flush, uint64_t now_ns);
/* Is a part to be sent now? It counts as sent. */
bool flush_next(struct flush *flush, uint64_t now_ns, uint32_t *part, bool *is_again);
/* When flush_next may have one again, if nothing comes before. */
uint64_t flush_due(const struct flush *flush);

#endif
