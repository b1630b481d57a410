/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data_world.h - the state of data.h's model, and the steps of the shipped worker and switch; data.c says
 * which of them may happen when.
 */
#ifndef SEARCH_DATA_WORLD_H
#define SEARCH_DATA_WORLD_H

#include "core/switch.h"
#include "core/worker.h"
#include "search/data.h"

enum {
	PACKETS = 1024, /* different ones that can exist */
	TABLE = 4096,
	QUEUE = 2,
	SLOTS_ALL = MAP_EXPRESS_SLOTS_MIN + DATA_POOL,
	GENERATION = 40, /* of the first life */
	ANSWERS = 2 * DATA_WORKERS + 2,
	ATTEMPT = 1,
};

/* Who takes it: 0..DATA_WORKERS-1 is a worker. */
enum { TO_SWITCH = 255 };

struct packet {
	struct wire wire;
	int32_t lane[DATA_LANES];
	uint32_t to;
};

/* A worker's slot, field by field: no padding, no counters that only grow. */
struct slot_state {
	uint32_t seq, tag;
	uint16_t lanes, governing, scale;
	uint8_t k, op, state, flags, is_probed, is_resent;
};

struct worker_state {
	uint32_t generation;
	uint8_t submitted, head, next, reserved;
	uint8_t done[DATA_OPS];
	uint8_t stored[DATA_CHUNKS]; /* 0 no, 1 DATA with a DETAIL to come, 2 final */
	struct slot_state slot[DATA_POOL];
};

struct state {
	struct worker_state worker[DATA_WORKERS];
	uint32_t life, switch_life; /* the controller's newest, the switch's */
	struct switch_slot slot[DATA_POOL];
	int32_t sum[DATA_POOL][2][DATA_LANES];
	uint64_t sent[PACKETS / 64]; /* `set`: may arrive. FIFO: UPDATEs that were built */
	uint16_t queue[2 * DATA_WORKERS][QUEUE]; /* FIFO: packet + 1; first up, then down */
};
_Static_assert(sizeof(struct packet) == 60, "no padding: packets are compared as bytes");
_Static_assert(sizeof(struct slot_state) == 20, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct switch_slot) == 72, "no padding: states are compared as bytes");
_Static_assert(sizeof(struct state) % 8 == 0, "no padding: states are compared as bytes");

/* What one step makes. */
struct outcome {
	uint32_t packets[ANSWERS];
	uint32_t count;
	const char *violation;
};

/* Every packet that ever existed has a number. */
extern struct packet packets[PACKETS];
extern uint32_t packets_count;

/* A worker in full, for a step. */
struct scratch {
	struct worker worker;
	struct worker_shard shard;
	struct worker_slot slots[SLOTS_ALL];
	struct worker_op_state ops[MAP_STREAMS][DATA_OPS];
};

uint32_t op_first_chunk(const struct data_config *config, uint32_t op);
struct worker_op op_make(const struct data_config *config, uint32_t op);
void say_packet(struct bfs *bfs, const struct data_config *config, uint32_t number);
bool set_has(const struct state *state, uint32_t number);
void set_put(struct state *state, uint32_t number);
void set_take(struct state *state, uint32_t number);
void scratch_init(const struct data_config *config, struct scratch *scratch);
void worker_load(const struct data_config *config, const struct worker_state *from,
		 struct scratch *scratch);
void worker_save(const struct data_config *config, const struct scratch *scratch,
		 struct worker_state *to);
void worker_event(const struct data_config *config, struct state *state, uint32_t worker,
		  const struct worker_event *event, const struct packet *packet,
		  struct outcome *outcome);
enum switch_verdict switch_take(const struct data_config *config, struct state *state,
				const struct packet *packet, struct outcome *outcome);
void packets_forget(void);

#endif
