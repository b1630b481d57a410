/* SPDX-License-Identifier: Apache-2.0 */
/*
 * knock.h - how a worker, or the server, of a table makes its address known to the aggregator: HELLO with its nonce,
 * again and again, until WELCOME. As long as the table's datagrams, so that it also proves the path; from the sixth
 * on a short one goes with it, so that a path that is too narrow can be told from one that is closed.
 * docs/protocol.md, R-WIRE-8 and R-SP-5.
 */
#ifndef DATAPLANE_KNOCK_H
#define DATAPLANE_KNOCK_H

#include "core/sparse/table_sparse.h"
#include "dataplane/outbox.h"

enum { KNOCKS_MANY = 20 }; /* without an answer: the path is closed, or too narrow */

static const uint64_t KNOCK_NS = 100000000; /* from one HELLO to the next */

struct knock {
	struct link_address at_switch;
	uint64_t said_ns;
	uint32_t serial; /* of the last HELLO: grows as long as the nonce is the same, */
	uint32_t before; /* from here */
	uint32_t count;  /* HELLOs of full size that were sent */
	uint16_t index, child, lanes;
	bool is_welcome;       /* a full one was answered */
	bool is_short_welcome; /* a short one was */
	uint8_t nonce[WIRE_NONCE_BYTES];
};

/* child: the worker's index, or SPARSE_SERVER; table: its index and bytes count. Serials begin at a place that
 * the nonce gives: a late WELCOME of a table that had the same index is none of this one. */
void knock_begin(struct knock *knock, const struct sparse_table *table, uint16_t child,
		 const struct link_address *at_switch, const uint8_t nonce[WIRE_NONCE_BYTES]);
/* Is this datagram the answer? Any other is left alone. */
bool knock_serve(struct knock *knock, const struct link_address *peer, const uint8_t *at,
		 uint32_t bytes);
/* Says what is due into the outbox, which the caller flushes. When it is to be called again; UINT64_MAX: never. */
uint64_t knock_turn(struct knock *knock, struct outbox *outbox, uint64_t now_ns);

#endif
