/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_sparse.h - a worker's state machine for one stream of sparse mode: WHAT may be sent, never when.
 * worker_sparse_step(event) fills in actions; no I/O, no clock, no allocation. docs/protocol.md, R-SP-17 to
 * R-SP-22.
 *
 * A push gets its seq from SUBMIT and is kept until the server has committed it. In a generation each goes
 * out in order, within the window, and again until it is acknowledged; acknowledged means that the switch has
 * it, which the switch can still lose. After RESUME, in a higher generation, all that was not committed goes
 * out again.
 *
 *   low .. next - 1   kept, but for those that were freed out of order
 *   sent .. next - 1  not yet sent in this generation
 */
#ifndef CORE_WORKER_SPARSE_H
#define CORE_WORKER_SPARSE_H

#include "core/sparse/table_sparse.h"

enum { WORKER_SPARSE_HURRY = 3 }; /* later ones that are acknowledged first: it is lost, not late */

/* A push that is kept; memory lent by the caller, kept by the worker. */
struct worker_sparse_push {
	uint8_t is_acked; /* in this generation */
	uint8_t is_freed;
	uint8_t is_hurried; /* was sent again for later ones' sake */
	uint8_t later;      /* how many of these */
};

struct worker_sparse {
	/* Read by anyone. */
	const struct sparse_table *table;
	uint64_t generation;
	uint64_t named;     /* R-SP-22: the generation that the server has told of over TCP, */
	uint32_t named_map; /* and its map: RESUME of no other is taken */
	uint64_t low;       /* seqs below are freed */
	uint64_t sent;      /* the next to be sent in this generation */
	uint64_t next;      /* the next to be submitted; low + kept_max at most */
	uint64_t reached;   /* the next that no generation has sent */
	uint64_t
		barred; /* R-SP-33: lower generations are over, and this one's RESUME has not come */
	uint64_t step;  /* of a stepped table: from 1 */
	uint32_t map;
	uint32_t kept_max; /* B */
	uint16_t worker;   /* this one's index */
	bool is_closed;    /* all of the step is submitted */
	struct worker_sparse_push *push;
};

enum worker_sparse_event_type {
	WORKER_SPARSE_SUBMIT, /* the caller has checked worker_sparse_has_room */
	WORKER_SPARSE_SEND,   /* the next in order; worker_sparse_may_send was checked */
	WORKER_SPARSE_RESEND, /* a timer ran out; worker_sparse_is_due was checked */
	WORKER_SPARSE_ASK,    /* a timer ran out; worker_sparse_wants was checked */
	WORKER_SPARSE_CLOSE,  /* of a stepped table: the last push of the step is submitted */
	WORKER_SPARSE_END,    /* a timer ran out; worker_sparse_may_end was checked */
	WORKER_SPARSE_REPORT, /* R-SP-33: a server without a log begins this generation */
	WORKER_SPARSE_NAME,   /* the server has told of this generation and map, over TCP */
	WORKER_SPARSE_PACKET, /* ACK, COMMITTED or RESUME; others change nothing */
};

struct worker_sparse_event {
	enum worker_sparse_event_type type;
	uint64_t seq;                /* RESEND */
	uint64_t generation;         /* REPORT, NAME */
	uint32_t map;                /* NAME */
	const struct sparse *packet; /* PACKET: has passed sparse_check, */
	const uint8_t *at;           /* and its datagram */
};

/*
 * What the caller does:
 *   submitted  the new push has number `seq`: it composes its pairs, as `map` says, and keeps them until
 *              worker_sparse_is_freed. Its pairs never change between two fences.
 *   send       `header`, then the pairs of push `seq`: count, width and flags are the caller's to fill in.
 *   ask        `header`, an ASK.
 *   answer     `header`, a RESUMED, to the server.
 *   end        `header`, an END, to the server; its one number is seq.
 *   left       the step has been applied; once its cold batches are answered the next one may begin.
 *   freed      some pushes have been committed: worker_sparse_is_freed says which.
 *   resumed    a new generation. If is_map_new, pairs of what is kept are packed again before they are sent.
 * is_dropped: a packet of a generation that is not its own, or RESUME of one that nobody has named. is_acked: push `seq` was acknowledged; its timer ends. is_protocol_error: the server says that it has
 * committed what was never sent; nothing was changed, the table is broken.
 */
struct worker_sparse_actions {
	bool submitted, send, ask, answer, end, left, freed, resumed;
	bool is_acked, is_map_new, is_protocol_error, is_dropped;
	uint64_t acked; /* is_acked */
	uint64_t seq;   /* submitted, send, end */
	struct sparse header;
};

/* worker_sparse_init starts a stream: nothing sent, seq 1 is next. Memory is lent: kept_max pushes, at least
 * table->window of them. The generation and map are what the server has told. */
void worker_sparse_init(struct worker_sparse *worker, const struct sparse_table *table,
			uint16_t index, uint64_t generation, uint32_t map, uint32_t kept_max,
			struct worker_sparse_push *push);

/* Can a push be submitted? False while kept_max are kept, or the step is closed. */
bool worker_sparse_has_room(const struct worker_sparse *worker);

/* May the next push in order be sent (R-SP-18)? */
bool worker_sparse_may_send(const struct worker_sparse *worker);

/* Was it sent in this generation, and is it neither acknowledged nor freed? Then its timer runs. */
bool worker_sparse_is_due(const struct worker_sparse *worker, uint64_t seq);
/* None before this one is. */
uint64_t worker_sparse_first_due(const struct worker_sparse *worker);

/* R-SP-33: the row, of table->window numbers, of what it has freed; after WORKER_SPARSE_REPORT. */
void worker_sparse_report(const struct worker_sparse *worker, uint64_t *row);

/* R-SP-30: is the step closed, and all of it acknowledged in this generation or freed? */
bool worker_sparse_may_end(const struct worker_sparse *worker);

/* R-SP-17, R-SP-20; never in a stepped table: is something acknowledged and not committed, or half of what can be kept in use? */
bool worker_sparse_wants(const struct worker_sparse *worker);

/* Is the push committed? Any seq that was submitted, however long ago. */
bool worker_sparse_is_freed(const struct worker_sparse *worker, uint64_t seq);

void worker_sparse_step(struct worker_sparse *worker, const struct worker_sparse_event *event,
			struct worker_sparse_actions *actions);

#endif
