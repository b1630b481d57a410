/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_sparse.h - a parameter server's state machine for one table of sparse mode: which flush counts, what
 * is committed, and who may sum. server_sparse_step(event) fills in actions; no I/O, no clock, no allocation.
 * docs/protocol.md, R-SP-23 to R-SP-30, R-SP-33 and R-SP-35.
 *
 * Everything that must survive is a record, numbered from 1: the caller appends it to its log, says DURABLE
 * when all up to a number are on disk, and nothing that rests on a record leaves before. After a restart the
 * records are given to server_sparse_replay, in order.
 */
#ifndef CORE_SERVER_SPARSE_H
#define CORE_SERVER_SPARSE_H

#include "core/sparse/table_sparse.h"

/* What the server knows of a worker; memory lent by the caller. */
struct server_sparse_worker {
	uint64_t incarnation; /* 0: none has joined */
	uint64_t next;        /* number of the next cold batch */
	uint64_t resumed;     /* the last generation that it has answered RESUME of */
	bool is_unreported;   /* R-SP-33: it has to report before anything is taken of it, */
	bool is_missed;       /* and others do not wait for that */
	uint64_t ended;       /* the last step whose END has come in this generation */
};

/* Memory lent by the caller; the cuts have sparse_places(table) numbers. */
struct server_sparse_memory {
	uint64_t *cut;     /* of the last epoch that was applied */
	uint64_t *staged;  /* of the one that is being assembled, */
	int64_t *sum;      /* its sums, ranks * dim, */
	uint64_t *tag;     /* which ranks it touches: those with its epoch; zeroed by init, */
	uint8_t *has_part; /* and its parts, sparse_flush_parts_max(table) */
	struct server_sparse_worker *worker; /* table->workers */
};

struct server_sparse {
	/* Read by anyone. */
	const struct sparse_table *table;
	uint64_t generation;
	uint64_t expected; /* the epoch that is to be applied next */
	uint64_t recorded; /* the number of the last record, */
	uint64_t binding;  /* of the last that is no BATCH, */
	uint64_t durable;  /* up to which they are on disk */
	uint64_t instance; /* the switch's; 0: not known (yet) */
	uint64_t drained;  /* R-SP-35: it is when this epoch is expected; 0: nobody has asked */
	uint32_t map;
	uint32_t
		parts; /* of the expected epoch's flush, as its first part said; 0: none has come */
	uint32_t parts_count; /* of has_part */
	uint16_t flags;       /* of the parts, */
	uint16_t sticky;      /* and of all epochs that were applied */
	uint64_t lost;        /* R-SP-33: pushes and batches that a restart has lost */
	uint32_t unreported;  /* workers whose reports it waits for; 0: it does not gather */
	bool is_fenced;       /* INSTANCE may come: no SETUP of this generation has left */
	bool is_ready;        /* the instance has answered SETUP */
	bool is_unsaid;       /* an epoch was applied, COMMITTED has not left */
	struct server_sparse_memory memory;
};

enum server_sparse_record_kind {
	SERVER_SPARSE_EPOCH = 1, /* with the cut, and what the optimiser has made of the sums */
	SERVER_SPARSE_FENCE,
	SERVER_SPARSE_JOIN,
	SERVER_SPARSE_BATCH, /* with what the optimiser has made of the batch */
};

/* What a record must say, besides parameters. A FENCE has a new generation and maybe a new map, a JOIN as well
 * unless it is the worker's first; an EPOCH has the cut, which is memory.cut when the action is given. */
struct server_sparse_record {
	enum server_sparse_record_kind kind;
	uint32_t map;
	uint64_t number; /* of the record */
	uint64_t generation;
	uint64_t epoch;       /* EPOCH: the one that was applied */
	uint64_t incarnation; /* JOIN, BATCH */
	uint64_t batch;       /* BATCH: its number */
	uint16_t worker;      /* JOIN, BATCH */
	uint16_t flags;       /* EPOCH: of its pushes */
};

enum server_sparse_event_type {
	SERVER_SPARSE_PACKET,  /* CUT, FLUSH, READY, RESUMED, END; others change nothing */
	SERVER_SPARSE_DURABLE, /* records up to `number` are on disk */
	SERVER_SPARSE_FENCE_IT, /* the switch has to go; map: the same, or a new one. May be refused */
	SERVER_SPARSE_DRAIN_IT, /* it may have to: what it has is to be brought first, if it can be had */
	SERVER_SPARSE_INSTANCE, /* `number` is to be the switch of this generation; once after a fence */
	SERVER_SPARSE_JOINED, /* worker, incarnation. The caller has tried to get a flip first, and to keep
				 * the predecessor's row of the cut for the newcomer */
	SERVER_SPARSE_GATHER, /* R-SP-33: right after a restart without a log. May be refused */
	SERVER_SPARSE_MISSED, /* it does not wait for the report of this worker (any more) */
	SERVER_SPARSE_REPORTED, /* worker, incarnation, number: the last batch that was answered, row */
	SERVER_SPARSE_COLD,     /* worker, incarnation; `number` is the batch's */
};

struct server_sparse_event {
	enum server_sparse_event_type type;
	uint16_t worker;
	uint32_t map;
	uint64_t
		random; /* of the next generation, should it begin one: FENCE_IT, JOINED, GATHER, REPORTED */
	uint64_t incarnation;
	uint64_t number;
	const uint64_t *row;         /* REPORTED */
	const struct sparse *packet; /* PACKET: has passed sparse_check, */
	const uint8_t *at;           /* and its datagram */
};

/*
 * What the caller does:
 *   apply     one step of the optimiser for each rank that server_sparse_is_touched, with the sums in
 *             memory.sum, before the next event; likewise the batch, if the record is a BATCH.
 *   record    appends `record` to the log.
 *   say       COMMITTED goes to the switch (server_sparse_committed, worker SPARSE_SERVER) and to every worker.
 *   answer    the batch or the newcomer is in: tells it, once record server->recorded, as of now, is durable. A
 *             newcomer is told server->generation and server->map.
 *   refuse    the batch, the report, or the worker, is not taken, and is told so; or there is no fence left (R-SP-1).
 */
struct server_sparse_actions {
	bool apply, record, say, answer, refuse;
	bool is_dropped; /* a packet that does not count: of another generation or epoch, or misshapen */
	struct server_sparse_record what;
};

/* A table of which nothing is known: no generation. The first FENCE_IT begins one. A restart begins like
 * this too, and goes on with server_sparse_replay. */
void server_sparse_init(struct server_sparse *server, const struct sparse_table *table,
			uint32_t map, const struct server_sparse_memory *memory);

/* After init, for each record that the log has, or a checkpoint, in order; without a log GATHER follows. cut: of an
 * EPOCH. */
void server_sparse_replay(struct server_sparse *server, const struct server_sparse_record *record,
			  const uint64_t *cut);

/* Right after a FENCE_IT with a map of another number of ranks, which the table has by now: memory for them, zeroed. Only
 * sum, tag and has_part are looked at; those that were lent before are the caller's again. */
void server_sparse_lend(struct server_sparse *server, const struct server_sparse_memory *memory);

/* R-SP-27: may COMMITTED, SETUP and RESUME leave? Answers, and what has values of parameters in it, leave when
 * the record that was the last when they were made is durable. */
bool server_sparse_is_settled(const struct server_sparse *server);

/* May SETUP be sent, or RESUME to this worker? While it may, both are sent again and again. */
bool server_sparse_may_setup(const struct server_sparse *server);
bool server_sparse_may_resume(const struct server_sparse *server, uint16_t worker);

/* R-SP-1: are there too few fences left for one that nobody needs? */
bool server_sparse_is_spent(const struct server_sparse *server);
/* R-SP-29: does a JOIN of this worker begin a generation? */
bool server_sparse_is_replaced(const struct server_sparse *server, uint16_t worker);

/* R-SP-30: has the END of every worker come? R-SP-35: is the table drained just now? While it is so, FLIP is sent
 * again and again. */
bool server_sparse_may_flip(const struct server_sparse *server);
/* R-SP-35: is there nothing that DRAIN_IT, or waiting after it, could bring? */
bool server_sparse_is_drained(const struct server_sparse *server);

/* These write a datagram at `at`, table->bytes at most, and say how many bytes it has. */
uint32_t server_sparse_setup(const struct server_sparse *server, uint32_t part, uint8_t *at);
uint32_t server_sparse_resume(const struct server_sparse *server, uint16_t worker, uint8_t *at);
uint32_t server_sparse_flip(const struct server_sparse *server, uint8_t *at);
/* R-SP-34, if server->parts: which parts of the expected epoch have come, of sparse_have_parts from a multiple of it on: those among
 * which `part` is. */
uint32_t server_sparse_have(const struct server_sparse *server, uint32_t part, uint8_t *at);
uint32_t server_sparse_committed(const struct server_sparse *server, uint16_t worker, uint8_t *at);

/* What the epoch that was just applied has touched, ascending, and the dim values of each, as the optimiser has made
 * them. */
struct server_sparse_touched {
	const uint32_t *rank;
	const uint32_t *value;
	uint32_t count;
};

/* R-SP-31: part `part` of copy_sparse_parts(table, touched->count) of that epoch's BCAST. Written before the next event;
 * it leaves when record server->recorded, as of now, is durable. */
uint32_t server_sparse_bcast(const struct server_sparse *server, uint32_t part,
			     const struct server_sparse_touched *touched, uint8_t *at);

/* Does the epoch that was just applied touch this rank? */
bool server_sparse_is_touched(const struct server_sparse *server, uint32_t rank);

void server_sparse_step(struct server_sparse *server, const struct server_sparse_event *event,
			struct server_sparse_actions *actions);

#endif
