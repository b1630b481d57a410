/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_sparse.h - a worker's side of one stream of sparse mode: core/sparse/worker_sparse.h with a memory for the
 * pushes and a clock, over a link. Whoever owns it gives it the datagrams that come and calls
 * endpoint_sparse_turn. With a copy of the hot values, if it is asked for. docs/protocol.md, R-SP-17 to R-SP-22, R-SP-31.
 *
 *   endpoint_sparse_push -> seq ... endpoint_sparse_is_committed(seq): the server has it, for ever.
 */
#ifndef DATAPLANE_ENDPOINT_SPARSE_H
#define DATAPLANE_ENDPOINT_SPARSE_H

#include "core/sparse/copy_sparse.h"
#include "core/sparse/worker_sparse.h"
#include "dataplane/link.h"
#include "dataplane/outbox.h"

struct endpoint_sparse;

struct endpoint_sparse_options {
	struct outbox *outbox; /* borrowed; its link has the clock */
	struct sparse_table table;
	struct link_address at_switch, at_server;
	uint64_t generation,
		patience_ns; /* how long it does not ask for a commit unless somebody waits (R-SP-20) */
	uint32_t map;
	uint32_t kept_max; /* pushes that are kept: table.window at least */
	uint64_t
		expected; /* has_copy: the first epoch that the generation brings, as far as is known */
	uint16_t worker;
	bool has_copy; /* of the hot values (R-SP-31) */
};

struct endpoint_sparse_stats {
	uint64_t pushes;       /* that were sent, */
	uint64_t pushes_again; /* and sent again */
	uint64_t asks, resumes;
	uint64_t bcasts; /* that were taken into the copy */
	uint64_t
		dropped; /* packets of a generation that is not its own, or that nobody has named (R-SP-22) */
};

/* 0, -EINVAL, -ENOMEM. */
int endpoint_sparse_open(struct endpoint_sparse **endpoint,
			 const struct endpoint_sparse_options *options);
void endpoint_sparse_close(struct endpoint_sparse *endpoint);

/* `count` pairs of table.dim values, as R-SP-3 has them, at `pairs`, which are copied; they fit into a datagram.
 * flags: SPARSE_SATURATED, SPARSE_NONFINITE. The push's seq; 0: no room, wait for a commit. */
uint64_t endpoint_sparse_push(struct endpoint_sparse *endpoint, uint16_t flags, uint16_t count,
			      const uint8_t *pairs);
/* How many pairs a push has room for. */
uint32_t endpoint_sparse_pairs_max(const struct endpoint_sparse *endpoint);
/* Any seq that was returned, however long ago. */
bool endpoint_sparse_is_committed(const struct endpoint_sparse *endpoint, uint64_t seq);
/* Somebody waits for all that was pushed: it asks for a commit from now on until that is committed. */
void endpoint_sparse_hurry(struct endpoint_sparse *endpoint);

/* R-SP-32: the caller has a map of another version, with so many ranks. Until then a RESUME that names one is not looked
 * at. map 0: the caller has none any more. 0; -ENOMEM, for a copy of them: nothing has happened. */
int endpoint_sparse_map(struct endpoint_sparse *endpoint, uint32_t map, uint32_t ranks);
/* The pairs of a push that is kept, and how many, so that they can be packed again: after endpoint_sparse_serve, when
 * endpoint_sparse_worker has the new map, and before anything else. NULL: it is committed. */
uint8_t *endpoint_sparse_kept(struct endpoint_sparse *endpoint, uint64_t seq, uint16_t **count);

/* One datagram of its table. */
void endpoint_sparse_serve(struct endpoint_sparse *endpoint, const uint8_t *at, uint32_t bytes);
/* Sends what is due into the outbox, which the caller flushes. When it is to be called again, if nothing comes
 * before; UINT64_MAX: nothing is under way. */
uint64_t endpoint_sparse_turn(struct endpoint_sparse *endpoint);

/* The copy, if there is one, or NULL. */
const struct copy_sparse *endpoint_sparse_copy(const struct endpoint_sparse *endpoint);
/* What the server has said over TCP: there is such an epoch (0: such a generation); dim values of a rank as of it. */
void endpoint_sparse_told(struct endpoint_sparse *endpoint, uint64_t generation, uint64_t epoch);
/* What is as of this epoch or older may lack what has come as a batch (R-KV-9). */
void endpoint_sparse_past(struct endpoint_sparse *endpoint, uint64_t epoch);
void endpoint_sparse_pulled(struct endpoint_sparse *endpoint, uint32_t rank, uint64_t generation,
			    uint64_t epoch, const uint32_t *value);

/* The server has said over TCP who sums from this generation on, and by which map: RESUME of no other is taken. What
 * comes under the old switch's index is ignored. */
void endpoint_sparse_switch(struct endpoint_sparse *endpoint, uint16_t index,
			    const struct link_address *at_switch, uint64_t generation,
			    uint32_t map);
/* The server is elsewhere now: it has been restarted. */
void endpoint_sparse_server(struct endpoint_sparse *endpoint, const struct link_address *at_server);
/* R-SP-33: it begins this generation, and is to be told the row, of table.window numbers, of what it had committed. */
void endpoint_sparse_report(struct endpoint_sparse *endpoint, uint64_t generation, uint64_t *row);
/* The server has said what cannot be, and the stream does nothing any more (R-SP-21). */
bool endpoint_sparse_is_broken(const struct endpoint_sparse *endpoint);

const struct worker_sparse *endpoint_sparse_worker(const struct endpoint_sparse *endpoint);
const struct endpoint_sparse_stats *endpoint_sparse_stats(const struct endpoint_sparse *endpoint);

#endif
