/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home_sparse.h - a parameter server's side of one table of sparse mode: core/sparse/server_sparse.h with its memory, a
 * clock and a link. It takes the flushes of the table's switch, says what has come and what is committed, sets a
 * new switch up and tells the workers. Parameters, optimiser and log are the owner's, who is called when
 * something is to be applied and recorded. docs/protocol.md, R-SP-23 to R-SP-29, R-SP-34 and R-SP-35.
 */
#ifndef DATAPLANE_HOME_SPARSE_H
#define DATAPLANE_HOME_SPARSE_H

#include "core/sparse/server_sparse.h"
#include "dataplane/bcast.h"
#include "dataplane/link.h"
#include "dataplane/outbox.h"

struct home_sparse;

/* Applies the epoch (home_sparse_is_touched, home_sparse_sum) or the batch, if `what` is one, and appends the record
 * to the log, with home_sparse_cut if it is an EPOCH's: one step, before the call returns. It tells of the disk by
 * home_sparse_durable, later or at once. */
typedef void home_sparse_record(void *arg, const struct server_sparse_record *what);

struct home_sparse_options {
	struct outbox *outbox; /* borrowed; its link has the clock */
	struct sparse_table table;
	uint32_t map;
	home_sparse_record *record;
	bcast_values *
		values; /* called after `record`, for the workers' copies (R-SP-31); NULL: no BCAST */
	/* The random bits of a generation (R-SP-1); NULL: the kernel's. */
	uint64_t (*random)(void *arg);
	void *arg; /* of all three */
};

struct home_sparse_stats {
	uint64_t parts, dropped,
		strangers;   /* of the packets that came; strangers: from another address */
	uint64_t generation; /* of those that were dropped: of another one */
	uint64_t epochs, haves, setups, resumes, commits, bcasts, flips;
};

/* 0, -EINVAL, -ENOMEM. */
int home_sparse_open(struct home_sparse **home, const struct home_sparse_options *options);
void home_sparse_close(struct home_sparse *home);
/* After open, for each record that the log has, in order. */
void home_sparse_replay(struct home_sparse *home, const struct server_sparse_record *record,
			const uint64_t *cut);

/* The switch has to go: a new generation, which its table has no switch for until home_sparse_instance. False: there is
 * none left (R-SP-1), and nothing has happened; so for all that may begin one. */
bool home_sparse_fence(struct home_sparse *home, uint32_t map);
/* It may have to: what it has is asked for, until server_sparse_is_drained, or the next fence. */
void home_sparse_drain(struct home_sparse *home);
/* The same, for a map with so many ranks (R-SP-32). -ENOMEM, -EOVERFLOW: nothing has happened. */
int home_sparse_remap(struct home_sparse *home, uint32_t map, uint32_t ranks);
/* R-SP-33: a restart without a log, right after it has replayed what there is; then who is not waited for (any more),
 * and a report: false, it is refused. */
bool home_sparse_gather(struct home_sparse *home, uint32_t map);
void home_sparse_missed(struct home_sparse *home, uint16_t worker);
bool home_sparse_report(struct home_sparse *home, uint16_t worker, uint64_t incarnation,
			uint64_t number, const uint64_t *row);
/* The instance, at this address and under this index there, is to be the switch of this generation: once after a
 * fence. After a restart it only says where the switch is: `instance` 0. */
void home_sparse_instance(struct home_sparse *home, uint64_t instance, uint16_t index,
			  const struct link_address *at_switch);
void home_sparse_worker(struct home_sparse *home, uint16_t worker,
			const struct link_address *at_worker);

/* False: refused. */
bool home_sparse_join(struct home_sparse *home, uint16_t worker, uint64_t incarnation);
/* A cold batch; the owner has its pairs at hand. 0: refused; else the record that must be durable before its
 * worker is answered. */
uint64_t home_sparse_cold(struct home_sparse *home, uint16_t worker, uint64_t incarnation,
			  uint64_t number);
void home_sparse_durable(struct home_sparse *home, uint64_t number);

/* One datagram of sparse mode. */
void home_sparse_serve(struct home_sparse *home, const struct link_address *peer, const uint8_t *at,
		       uint32_t bytes);
/* Sends what is due into the outbox, which the caller flushes. When it is to be called again, if nothing comes
 * before; UINT64_MAX: nothing is under way. */
uint64_t home_sparse_turn(struct home_sparse *home);

/* While home_sparse_record runs. */
bool home_sparse_is_touched(const struct home_sparse *home, uint32_t rank);
const int64_t *home_sparse_sum(const struct home_sparse *home, uint32_t rank);
const uint64_t *home_sparse_cut(const struct home_sparse *home);

const struct server_sparse *home_sparse_server(const struct home_sparse *home);
const struct home_sparse_stats *home_sparse_stats(const struct home_sparse *home);

#endif
