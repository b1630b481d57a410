/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bcast.h - the new values of hot ranks on their way to the workers (docs/protocol.md, R-SP-31): an epoch's packets,
 * made when it was applied, wait until its record is on the disk, and leave 64 KiB in a millisecond. One epoch at a
 * time: what a later one finds here has been too slow, and is left out, as is an epoch of more than BCAST_PARTS_MAX
 * packets; workers pull then. No packets are sent here, and no clock.
 */
#ifndef DATAPLANE_BCAST_H
#define DATAPLANE_BCAST_H

#include "core/sparse/server_sparse.h"

enum { BCAST_PARTS_MAX = 1024, BCAST_BURST_BYTES = 65536, BCAST_BURST_NS = 1000000 };

/* Writes dim values of a rank, as the optimiser has made them. */
typedef void bcast_values(void *arg, uint32_t rank, uint32_t *value);

struct bcast {
	uint64_t record; /* leaves when this is on the disk */
	uint64_t due_ns; /* the next burst's */
	uint32_t parts, next;
	uint32_t last_bytes; /* of the last part; all others are full */
	uint32_t ranks_max;
	uint32_t *rank, *value; /* of the epoch that is being made */
	uint8_t *bytes;         /* of the parts, table->bytes each */
};

/* False: out of memory; bcast_close is due all the same. */
bool bcast_open(struct bcast *bcast, const struct sparse_table *table);
void bcast_close(struct bcast *bcast);

/* The epoch that `server` has just applied. */
void bcast_make(struct bcast *bcast, const struct server_sparse *server, bcast_values *values,
		void *arg);
/* What has not left does not leave any more. */
void bcast_drop(struct bcast *bcast);

/* The next part, if one is to leave now, and its bytes; else NULL, and when to ask again, or UINT64_MAX. */
const uint8_t *bcast_next(struct bcast *bcast, const struct server_sparse *server, uint64_t now_ns,
			  uint32_t *bytes, uint64_t *due_ns);

#endif
