/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_world.h - what sparse_run.c (workers, events) has of sparse_server.c (server, disk, oracle), sparse_engine.c
 * (aggregators), sparse_copy.c (copies, pulls) and sparse_strange.c, and all of them of sparse_world.c. */
#ifndef SIM_SPARSE_WORLD_H
#define SIM_SPARSE_WORLD_H

#include "dataplane/endpoint_sparse.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/home_sparse.h"
#include "sim/sparse.h"

#define MS 1000000ull

enum {
	SPARSE_MAP = 5,
	SPARSE_TABLES = 16, /* of an engine */
	SPARSE_BYTES = 600, /* of a datagram at most */
};

/* One record on the disk, or on its way there. */
struct sparse_logged {
	struct server_sparse_record record;
	uint64_t *cut;   /* EPOCH */
	uint64_t *row;   /* JOIN: the predecessor's row, as it was, */
	uint64_t before; /* and its incarnation; 0: there was none */
	int64_t *added;  /* EPOCH: ranks * dim */
};

/* A worker's incarnation, from 1 on: what it has pushed, and what it was told is committed. */
struct sparse_life {
	uint64_t pushed, batched;
	uint8_t *is_freed; /* by seq */
};

struct sparse_worker {
	struct endpoint_sparse *endpoint;
	struct outbox outbox;
	uint64_t incarnation;
	bool is_joined;
	bool is_cold_out; /* a batch waits for its answer */
	struct sparse_life life[SPARSE_LIVES_MAX + 1];
};

struct sparse_engine {
	struct engine_sparse *engine; /* NULL: dead */
	bool has_table[SPARSE_TABLES];
};

enum sparse_what {
	SPARSE_CALLS,    /* a worker's user does something */
	SPARSE_TOLD,     /* control has told a worker where the switch is */
	SPARSE_JOINS,    /* a worker's JOIN arrives at the server */
	SPARSE_COLD,     /* a worker's batch arrives, */
	SPARSE_ANSWERED, /* and its answer */
	SPARSE_PULLED,   /* the answer to a worker's pull arrives */
	SPARSE_SYNCED,   /* records up to `number` are on the disk */
	SPARSE_STRIKE,
	SPARSE_NOTICES, /* the server looks at its switch */
	SPARSE_RESTARTS,
	SPARSE_FORGES, /* a stranger sends */
};

/* `life`: of the server, when it was made; an event of an earlier life is dropped. */
struct sparse_event {
	enum sparse_what what;
	uint32_t whom, life;
	uint64_t number;
};

struct sparse_world {
	const struct sparse_scenario *scenario;
	struct sparse_report *report;
	FILE *trace;
	struct net *net;
	struct rng rng;
	struct sparse_event *event;
	uint32_t events_count, events_max;
	uint64_t progress_ns;
	uint32_t strikes_left;
	struct sparse_worker worker[SPARSE_WORKERS_MAX];
	struct sparse_engine engine[SPARSE_ENGINES];
	/* the server */
	struct home_sparse *home; /* NULL: dead */
	struct outbox outbox;
	uint32_t life;
	uint32_t engine_now; /* where its switch is, */
	uint16_t index_now;  /* and under which index */
	uint64_t instances;
	uint64_t durable;
	struct sparse_logged *log;
	uint64_t log_count, log_max;
	int64_t *total;
	uint64_t *durable_cut;
};

static inline uint32_t sparse_server_node(const struct sparse_world *world)
{
	return world->scenario->table.workers;
}

static inline uint32_t sparse_engine_node(const struct sparse_world *world, uint32_t engine)
{
	return world->scenario->table.workers + 1u + engine;
}

__attribute__((format(printf, 2, 3))) void sparse_fail(struct sparse_world *world,
						       const char *format, ...);
void sparse_event_in(struct sparse_world *world, uint64_t delay_ns, enum sparse_what what,
		     uint32_t whom, uint64_t number);
void sparse_progress(struct sparse_world *world);
void *sparse_need(void *memory);

/* The pairs of a push, at `at`: how many. */
uint16_t sparse_pairs(const struct sparse_scenario *scenario, uint32_t worker, uint64_t incarnation,
		      uint64_t seq, uint8_t *at);

/* sparse_engine.c */
void sparse_engine_polls(struct sparse_world *world, uint32_t engine);
void sparse_engine_dies(struct sparse_world *world, uint32_t engine);
/* A table for this generation at an engine that lives. */
void sparse_switch_new(struct sparse_world *world);

/* sparse_server.c */
void sparse_server_begin(struct sparse_world *world);
void sparse_server_end(struct sparse_world *world);
void sparse_server_dies(struct sparse_world *world);
void sparse_server_restarts(struct sparse_world *world);
/* Fences, and has another switch set up. */
void sparse_server_fences(struct sparse_world *world);
/* It was told, or has found out, how its switch is. */
void sparse_server_notices(struct sparse_world *world);
void sparse_server_joins(struct sparse_world *world, uint32_t worker);
void sparse_server_cold(struct sparse_world *world, uint32_t worker, uint64_t number);
void sparse_server_synced(struct sparse_world *world, uint64_t number);
void sparse_server_polls(struct sparse_world *world);
/* At the end: are the sums those that they must be? */
void sparse_server_judge(struct sparse_world *world);

/* R-SP-7: does the row of `window` numbers cover this seq? */
static inline bool sparse_covers(const uint64_t *row, uint32_t window, uint64_t seq)
{
	return row[seq % window] >= seq;
}

/* sparse_copy.c */
bcast_values sparse_values;
/* A worker's user wants some values. */
void sparse_copy_looks(struct sparse_world *world, uint32_t worker);
void sparse_copy_pulled(struct sparse_world *world, uint32_t worker, uint64_t what);
/* At the end, as sparse_server_judge. */
void sparse_copies_judge(struct sparse_world *world);

/* sparse_strange.c: one packet to each, from the right address, with all right but the generation's random bits, or
 * the instance. */
void sparse_forge(struct sparse_world *world);

#endif
