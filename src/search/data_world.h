/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_world.h - the parts of data.h's model and the steps of the shipped worker and switch; data.c says
 * which of them may happen when, data_check.c what must hold.
 *
 * A state is a row of numbers (intern.h): of each worker, of what is on its way, of each node's slot. What
 * a worker or a slot does at an event depends on nothing else, so it is worked out by the shipped code once
 * and looked up from then on.
 */
#ifndef SEARCH_DATA_WORLD_H
#define SEARCH_DATA_WORLD_H

#include <string.h>

#include "core/dense/switch.h"
#include "core/dense/worker.h"
#include "p4/chip.h"
#include "search/data.h"
#include "search/intern.h"

enum {
	CELLS = 8, /* (shard, slot) pairs in use */
	EDGES = DATA_WORKERS +
		DATA_NODES, /* worker w to its node; node i (at DATA_WORKERS + i) to its parent */
	PARTS = DATA_WORKERS + 2 * EDGES + CELLS * DATA_NODES,
	QUEUE = 2,
	LOST = 128,    /* added to the life that a switch was set to before it lost its memory */
	MADE = 8,      /* packets that one step can make */
	OUTCOME = 256, /* and a move, with all that happens at once */
	ATTEMPT = 1,
};

/* Of the first life. A counter starts anywhere: as signed numbers these are behind a new slot's 0. */
#define GENERATION 0xfffffff0u

/* Up: from the edge's lower end to its upper. */
struct packet {
	struct wire wire;
	int32_t lane[DATA_LANES];
	uint8_t edge, is_up, cell;
	uint8_t goes_round; /* in a chip, once more: R-CHIP-3 */
};

/* A worker's slot, field by field: no padding, no counters that only grow. */
struct slot_state {
	uint32_t seq, tag;
	uint32_t built[2]; /* packet + 1: the UPDATEs of seq and seq - 1, at the seq's lowest bit */
	uint16_t lanes, sent, governing, scale;
	uint8_t reserved[2], k, op, state, flags, is_probed, is_bare : 4, is_kept : 4;
};

struct worker_state {
	uint8_t life, submitted, head[MAP_STREAMS];
	uint8_t next[DATA_SHARDS][MAP_STREAMS];
	uint8_t done[DATA_OPS];
	uint8_t stored[DATA_CHUNKS]; /* 0 no, 1 DATA with a DETAIL to come, 2 final */
	struct slot_state slot[CELLS];
};

/* A node's slot. Sums beyond a copy's lanes are 0: nobody reads them. The rest is a chip's. */
struct node_state {
	struct switch_slot slot;
	int32_t sum[2][DATA_LANES];
	struct chip_words words;
	uint32_t going[DATA_WORKERS]; /* by child: packet + 1, the second half is still to come */
};

struct state {
	uint8_t life, node_life[DATA_NODES]; /* the controller's newest, the switches' */
	uint8_t narrow;                      /* in a drain: bit w: worker w has a window of 1 */
	uint8_t reserved[2];
	uint32_t part[PARTS];
};
_Static_assert(sizeof(struct packet) == 60, "no padding: packets are compared as bytes");
_Static_assert(sizeof(struct slot_state) == 32, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct worker_state) == 36 + 32 * CELLS, "no padding");
_Static_assert(sizeof(struct switch_slot) == 104, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct state) % 8 == 0, "no padding: states are compared as bytes");

/* What one step of a worker or a slot leads to. */
struct step {
	uint32_t next; /* the part's number */
	uint32_t made[MADE];
	uint32_t made_count;
	const char *violation;
};

/* What follows from the configuration, and all parts that were ever met. */
struct world {
	const struct data_config *config;
	struct map map;
	uint32_t nodes, slots_all; /* slots_all: of a shard */
	uint32_t cells;
	struct {
		uint32_t shard, slot;
	} cell[CELLS];
	uint32_t parent[EDGES]; /* the node above an edge */
	uint32_t child[EDGES];  /* its index there */
	uint32_t children[DATA_NODES];
	uint32_t below[DATA_NODES]; /* bit w: worker w is in this node's subtree */
	uint32_t nets_at, nets_count, slots_at, parts;
	size_t state_bytes;
	struct intern packets, workers, slots, nets, done;
	struct step *steps; /* of each number in `done` */
	uint32_t steps_room;
};
extern struct world world;

void world_open(const struct data_config *config);

CORE_INLINE void state_copy(struct state *to, const struct state *from)
{
	memcpy(to, from, world.state_bytes);
}

CORE_INLINE uint32_t *part_net(struct state *state, uint32_t net)
{
	return &state->part[world.nets_at + net];
}

CORE_INLINE uint32_t *part_slot(struct state *state, uint32_t node, uint32_t cell)
{
	return &state->part[world.slots_at + cell * world.nodes + node];
}

CORE_INLINE const struct packet *packet_at(uint32_t number)
{
	return intern_get(&world.packets, number, NULL);
}

CORE_INLINE const struct worker_state *worker_at(const struct state *state, uint32_t worker)
{
	return intern_get(&world.workers, state->part[worker], NULL);
}

CORE_INLINE const struct node_state *slot_at(const struct state *state, uint32_t node,
					     uint32_t cell)
{
	return intern_get(&world.slots, state->part[world.slots_at + cell * world.nodes + node],
			  NULL);
}

CORE_INLINE bool is_node(uint32_t edge)
{
	return edge >= DATA_WORKERS;
}

/* What was worked out is found by this. */
struct step_key {
	uint8_t kind, who, life, reserved; /* kind: enum worker_move, or one of those below */
	uint32_t part, about;
};
enum { STEP_MAY_BEGIN = 8, STEP_MAY_SUBMIT, STEP_SLOT, STEP_SECOND };

/* Has it been worked out? If not, world.steps[*number] is for the caller to fill in. */
bool step_find(const struct step_key *key, uint32_t *number);
void step_make(struct step *step, const struct packet *packet);
void step_broken(struct step *step, const char *violation);

/* A seq of which only seq_bits are on the wire, as somebody at `mine` takes it. */
uint32_t seq_seen(uint32_t seq, uint32_t mine);

/* What a worker does. `about` is the pair (shard * MAP_STREAMS + stream) of START, the packet, the cell that
 * PROBE asks about. */
enum worker_move { DO_SUBMIT, DO_START, DO_PACKET, DO_PROBE };

struct step worker_do(uint32_t worker, uint32_t part, enum worker_move move, uint32_t about);
/* May it submit its next operation? Else there is none, or no room. NULL, or what is wrong with that. */
const char *worker_may_submit(uint32_t worker, uint32_t part, bool *may);
/* May it start the pair's next chunk? */
bool worker_may_begin(uint32_t worker, uint32_t part, uint32_t pair);
/* A worker at the start of a life. */
uint32_t worker_new(uint32_t worker, uint32_t life);

/* A slot as it is at first, or without memory. */
uint32_t slot_new(uint32_t node, bool is_rebooted);

void say_packet(struct bfs *bfs, uint32_t number);
/* The name of who is at the edge's lower end, or the node's. */
const char *edge_name(uint32_t edge);
const char *node_name(uint32_t node);

/* What a move makes. */
struct outcome {
	uint32_t packets[OUTCOME];
	uint32_t count;
	const char *violation;
};

/* A chip's slot: data_chip.c. A packet passes, or the child's second half does. Settled: all second halves are in. */
enum switch_verdict chip_take(const struct switch_job *job, struct node_state *at,
			      const struct packet *packet, struct wire *answer, struct step *step);
void chip_comes_round(const struct switch_job *job, struct node_state *at, uint32_t child,
		      struct step *step);
void chip_settle(const struct switch_job *job, struct node_state *at);
void chip_settle_node(uint32_t node, struct node_state *at);

/* The second half of the child's UPDATE is added to the slot. */
void take_second(struct state *state, uint32_t node, uint32_t cell, uint32_t child,
		 struct outcome *outcome);
/* The packet arrives at whom it is for. */
void take(struct state *state, uint32_t packet, struct outcome *outcome);
/* The worker does it; its part of the state is the next one. */
void worker_event(struct state *state, uint32_t worker, enum worker_move move, uint32_t about,
		  struct outcome *outcome);
/* Is this what these workers' UPDATEs of the cell's (generation, seq) combine to? data_check.c */
enum made {
	MADE_EXACTLY,
	MADE_WRONG,
	MADE_EARLY, /* one of them has not sent it */
	MADE_PAST,  /* one of them is further and does not know its UPDATE any more */
};
struct made_round {
	uint32_t workers, generation, seq, cell;
	bool is_bare; /* its lanes are gone */
};
enum made made_of(const struct state *state, const struct made_round *round,
		  const struct switch_copy *copy, const int32_t *sum);

/* NULL, or what is wrong with a state. data_check.c */
const char *data_check(const void *config, const void *state);
void data_check_forget(void);

#endif
