/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_sparse.h - the aggregator's side of sparse mode: runs the switch program of hot tables
 * (core/sparse/switch_sparse.h) over one link, closes epochs, and sends flushes until they are committed. No thread and
 * no clock of its own: whoever owns it gives it the datagrams and calls engine_sparse_turn.
 * docs/protocol.md, R-SP-5 to R-SP-16 and R-SP-34.
 *
 * A table's life here: add (memory reserved, workers and server known by nonce) -> HELLOs bind their addresses, its
 * generation is named -> SETUP by its server -> remove. For another generation the server gets a new table, with a new instance.
 */
#ifndef DATAPLANE_ENGINE_SPARSE_H
#define DATAPLANE_ENGINE_SPARSE_H

#include "core/sparse/switch_sparse.h"
#include "dataplane/account.h"
#include "dataplane/link.h"

struct engine_sparse;

struct engine_sparse_options {
	struct link *link;   /* borrowed; must outlive the engine */
	uint64_t memory_max; /* bytes of tables; 0: 1 GiB */
	uint32_t tables_max; /* 0: 1,024 */
	struct account *
		account; /* borrowed: bytes that others take from, too, instead of memory_max; NULL: none */
	uint32_t
		registers; /* as a chip with so many, LAYOUT_REGISTERS_MAX at most: R-CT-32; 0: as no chip */
};

struct engine_sparse_table {
	struct sparse_table shape; /* index: under which packets name it */
	uint64_t instance;         /* never used before by this aggregator; not 0 */
	uint64_t pairs_max;        /* an epoch is closed when it has so many; 0: R-SP-9's own */
	uint64_t age_ns;           /* or so long after its first push; 0: no limit */
	/* Of shape.workers workers, then of the server; copied. NULL: HELLO binds nobody. */
	const uint8_t (*nonces)[WIRE_NONCE_BYTES];
};

struct engine_sparse_stats {
	uint64_t packets_in;
	uint64_t fault[WIRE_FAULT_COUNT];              /* not a packet, by reason */
	uint64_t verdict[SWITCH_SPARSE_VERDICT_COUNT]; /* of sound ones, drops by reason */
	uint64_t unknown_table, wrong_address;
	uint64_t wrong_nonce; /* HELLOs that bind nobody: of another nonce, or an old serial */
	uint64_t overtaken;   /* HELLOs that a later one has passed: these are no stranger's */
	uint64_t pairs;       /* that were added */
	uint64_t flips;       /* epochs that were closed */
	uint64_t parts_first; /* parts of flushes that were sent, */
	uint64_t parts_again; /* and sent again */
	/* With registers, of PUSHes that were added: as struct layout_sparse_cost has them. */
	uint64_t recirculations; /* pairs whose register was touched */
	uint64_t recirculated;   /* PUSHes with such pairs */
	uint64_t passes_again;   /* of all, beyond the first of each */
};

struct engine_sparse *
engine_sparse_open(const struct engine_sparse_options *options); /* NULL: out of memory */
void engine_sparse_close(struct engine_sparse *engine);

/* 0, -EEXIST, -ENOSPC (memory or tables_max), -ENOMEM, -EINVAL. */
int engine_sparse_add(struct engine_sparse *engine, const struct engine_sparse_table *table);
int engine_sparse_remove(struct engine_sparse *engine, uint16_t index); /* 0, -ENOENT */
/* Binds without a HELLO; worker: an index or SPARSE_SERVER. 0, -ENOENT, -EINVAL. */
int engine_sparse_bind(struct engine_sparse *engine, uint16_t index, uint16_t worker,
		       const struct link_address *address);

/* R-SP-15: its server has told of this generation over TCP: SETUP of no other is taken. 0, -ENOENT. */
int engine_sparse_name(struct engine_sparse *engine, uint16_t index, uint64_t generation);

/* R-WIRE-8 of a table: job is its index, child the worker's; `nonce` has WIRE_NONCE_BYTES; the HELLO has passed
 * wire_check. True: it is bound, and its WELCOME leaves with engine_sparse_turn, or a later one has overtaken it;
 * false: of no table here, or of a stranger. */
bool engine_sparse_hello(struct engine_sparse *engine, const struct link_address *peer,
			 const struct wire *hello, const uint8_t *nonce);

/* One datagram whose first byte is SPARSE_FIRST_BYTE. Answers leave with engine_sparse_turn at the latest. */
void engine_sparse_serve(struct engine_sparse *engine, const struct link_address *peer,
			 const uint8_t *at, uint32_t bytes);
/* After each burst, and at the time that the last call gave: closes epochs, sends what is due. When it is to be
 * called again; UINT64_MAX: not before something comes. */
uint64_t engine_sparse_turn(struct engine_sparse *engine);

/* What the table's switch knows, for tests and reports; NULL: no such table. */
const struct switch_sparse *engine_sparse_state(const struct engine_sparse *engine, uint16_t index);
/* How many parts of flushes, whole or again, the table has sent. */
uint64_t engine_sparse_parts(const struct engine_sparse *engine, uint16_t index);
uint64_t engine_sparse_memory_used(const struct engine_sparse *engine);
uint64_t engine_sparse_table_bytes(const struct sparse_table *shape);
const struct engine_sparse_stats *engine_sparse_stats(const struct engine_sparse *engine);

#endif
