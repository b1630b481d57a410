/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_world.h - the state of sparse.h's model, and the steps of the shipped machines; sparse.c says which of
 * them may happen when.
 *
 * A packet is known by what it is about, and its bytes are made again from that. Push k of life l of worker w adds
 * 1 to its own digit of each sum, in base 4: so a sum says how often each push is in it, and none may be there twice.
 * Every other push has its ranks the other way round.
 */
#ifndef SEARCH_SPARSE_WORLD_H
#define SEARCH_SPARSE_WORLD_H

#include "core/sparse/server_sparse.h"
#include "core/sparse/switch_sparse.h"
#include "core/sparse/worker_sparse.h"
#include "search/sparse.h"

enum {
	SPARSE_RANKS = 2,
	SPARSE_DIM = 2,
	SPARSE_MAP = 3, /* the first; the next number is that of the second */
	SPARSE_INDEX = 4,
	SPARSE_PARTS = 4,      /* of a flush, at most */
	SPARSE_DATAGRAM = 128, /* bytes, at most */
};

/* No padding, no counters that only grow: states are compared as bytes. seqs, epochs, generations begin with 1,
 * so index 0 of what is per epoch or generation is not used. */
struct sparse_world_worker {
	uint8_t generation, low, sent, next, reached;
	uint8_t acked, freed; /* bit seq - 1 */
	uint8_t life;         /* 0 is the first */
	uint8_t is_waiting;   /* for the answer to its JOIN, or has not said it */
	uint8_t joined;       /* the generation of that answer; 0: none is on its way */
	uint8_t map, step, is_closed;
	uint8_t named;    /* the generation that SWITCH has told of last */
	uint8_t parted;   /* bit seq - 1: what it has of rank 1 is in a batch */
	uint8_t batches;  /* that it has sent, */
	uint8_t answered; /* and of which it knows */
	uint8_t reserved;
	uint8_t batch_of[4]; /* is_remapped: the seq whose pairs batch i + 1 has */
};

struct sparse_world_switch {
	uint8_t generation, epoch, is_busy, is_wanted, setup_parts, is_reset;
	uint8_t touched[2]; /* of a bank: ranks in its list */
	uint8_t last[SPARSE_PLACES], before[SPARSE_PLACES], since[SPARSE_PLACES];
	uint8_t tag[2][SPARSE_RANKS], list[2][SPARSE_RANKS];
	uint32_t sum[2][SPARSE_RANKS];
};

/* A flush as it was first sent. */
struct sparse_world_flush {
	uint8_t is_sent, touched, list[SPARSE_RANKS];
	uint8_t cut[SPARSE_PLACES];
	uint32_t sum[SPARSE_RANKS];
};

/* What a log says, and what the server has in memory. */
struct sparse_world_durable {
	uint8_t generation, expected, map;
	uint8_t applied; /* the last epoch, as the packets said */
	uint8_t cut[SPARSE_PLACES];
	uint8_t incarnation[SPARSE_WORKERS], next[SPARSE_WORKERS];
	uint8_t cold[SPARSE_WORKERS][SPARSE_LIVES]; /* batches that were applied: bit number - 1 */
	uint32_t total[SPARSE_RANKS];               /* what the optimiser has been given */
};

/* As the shipped server wrote it, and what it had in memory then. */
struct sparse_world_record {
	uint8_t kind, generation, epoch, map, worker, incarnation, batch, reserved;
	struct sparse_world_durable after;
};

struct sparse_world_server {
	struct sparse_world_durable now;
	uint8_t has_instance, parts, pending_count, is_unsaid;
	uint8_t ended; /* bit worker */
	uint8_t of;    /* as many parts has the flush that `parts` are of */
	uint8_t reserved[2];
	uint8_t staged[SPARSE_PLACES];
	uint32_t staged_sum[SPARSE_RANKS];
	struct sparse_world_record pending[SPARSE_PENDING];
	struct sparse_world_durable disk;
};

struct sparse_state {
	struct sparse_world_worker worker[SPARSE_WORKERS];
	struct sparse_world_switch at[SPARSE_GENERATIONS + 1];
	struct sparse_world_flush flush[SPARSE_GENERATIONS + 1][SPARSE_EPOCHS + 1];
	struct sparse_world_server server;
	/* what may arrive */
	uint8_t push[SPARSE_GENERATIONS + 1][SPARSE_WORKERS]; /* bit life * pushes + seq - 1 */
	uint8_t ack[SPARSE_GENERATIONS + 1][SPARSE_WORKERS];  /* bit seq - 1 */
	uint8_t end[SPARSE_GENERATIONS + 1][SPARSE_WORKERS];  /* bit step */
	uint8_t flip[SPARSE_GENERATIONS + 1];                 /* bit epoch */
	uint8_t committed[SPARSE_GENERATIONS + 1];            /* bit epoch */
	uint8_t committed_cut[SPARSE_GENERATIONS + 1][SPARSE_EPOCHS + 1][SPARSE_PLACES];
	uint8_t is_fenced[SPARSE_GENERATIONS + 1]; /* SETUP and RESUME, as of their first time: */
	uint8_t fence_epoch[SPARSE_GENERATIONS + 1];
	uint8_t fence_cut[SPARSE_GENERATIONS + 1][SPARSE_PLACES];
	uint8_t batch[SPARSE_WORKERS][SPARSE_LIVES];  /* how many were sent */
	uint8_t answer[SPARSE_WORKERS][SPARSE_LIVES]; /* bit number - 1 */
	uint8_t deaths, resets, reserved[2];
};

/* The row's; no 0 stands for something else here. */
extern const struct sparse_config *sparse;
struct sparse_table sparse_table_of(void);

/* Of a generation the model has the number of fences, and the machines what R-SP-1 says. 0: none. */
uint64_t sparse_generation(uint32_t g);

/* The map of a generation, and the life of the worker that the server knows. */
uint32_t sparse_map_of(uint32_t g);
uint32_t sparse_life_of(const struct sparse_world_durable *durable, uint32_t w);

/* Each is a step of a shipped machine. What it sends is in the state's sets afterwards; NULL, or what it broke. */
bool sparse_worker_may_send(const struct sparse_state *state, uint32_t w);
const char *sparse_worker_send(struct sparse_state *state, uint32_t w);
const char *sparse_worker_take(struct sparse_state *state, uint32_t w, const uint8_t *at,
			       uint32_t bytes);
/* SWITCH of this generation: R-SP-22. */
void sparse_worker_name(struct sparse_state *state, uint32_t w, uint32_t g);
bool sparse_worker_may_end(const struct sparse_state *state, uint32_t w);
const char *sparse_worker_end(struct sparse_state *state, uint32_t w);
/* Sends what its timers would; an ASK is written at `ask`, of so many bytes. */
const char *sparse_worker_timers(struct sparse_state *state, uint32_t w, uint8_t *ask,
				 uint32_t *ask_bytes);
/* Its process ends, and another one is to be this worker; and that one is told that it has joined. */
void sparse_worker_die(struct sparse_state *state, uint32_t w);
void sparse_worker_admit(struct sparse_state *state, uint32_t w);
/* Batches: has it one that it has not sent? The answer to one. */
bool sparse_worker_may_batch(const struct sparse_state *state, uint32_t w);
void sparse_worker_batch(struct sparse_state *state, uint32_t w);
const char *sparse_worker_answered(struct sparse_state *state, uint32_t w, uint32_t number);

const char *sparse_switch_take(struct sparse_state *state, uint32_t g, const uint8_t *at,
			       uint32_t bytes);
/* For its pairs or its age; of a stepped table, and in the drain, only if somebody has asked. */
bool sparse_switch_may_flip(const struct sparse_state *state, uint32_t g, bool is_asked);
const char *sparse_switch_flip(struct sparse_state *state, uint32_t g);

/* The parts of the flush that the switch is busy with, and one of them, as it sends it now. */
uint32_t sparse_switch_parts(const struct sparse_state *state, uint32_t g);
uint32_t sparse_switch_part(const struct sparse_state *state, uint32_t g, uint32_t part,
			    uint8_t *at);

const char *sparse_server_take(struct sparse_state *state, const uint8_t *at, uint32_t bytes);
const char *sparse_server_fence(struct sparse_state *state);
const char *sparse_server_join(struct sparse_state *state, uint32_t w);
const char *sparse_server_cold(struct sparse_state *state, uint32_t w, uint32_t life,
			       uint32_t number);
/* The oldest record that is not on the disk gets there. */
const char *sparse_server_write(struct sparse_state *state);
void sparse_server_die(struct sparse_state *state);

/* Datagrams of the sets; how many bytes. */
uint32_t sparse_push_put(uint32_t g, uint32_t w, uint32_t id, uint8_t *at);
uint32_t sparse_ack_put(uint32_t g, uint32_t w, uint32_t seq, uint8_t *at);
uint32_t sparse_end_put(uint32_t g, uint32_t w, uint32_t step, uint8_t *at);
uint32_t sparse_flip_put(uint32_t g, uint32_t epoch, uint8_t *at);
uint32_t sparse_part_put(const struct sparse_state *state, uint32_t g, uint32_t epoch,
			 uint32_t part, uint8_t *at);
uint32_t sparse_committed_put(const struct sparse_state *state, uint32_t g, uint32_t epoch,
			      uint32_t worker, uint8_t *at);
uint32_t sparse_resume_put(const struct sparse_state *state, uint32_t g, uint32_t worker,
			   uint8_t *at);
uint32_t sparse_setup_put(const struct sparse_state *state, uint32_t g, uint32_t part, uint8_t *at);

/* How many parts the flush of an epoch has. */
uint32_t sparse_parts_of(const struct sparse_state *state, uint32_t g, uint32_t epoch);

/* The digit of a push of a life of worker w: 1 there, and how often a sum has it. */
uint32_t sparse_value(uint32_t w, uint32_t life, uint32_t seq);
uint32_t sparse_times(uint32_t sum, uint32_t w, uint32_t life, uint32_t seq);
bool sparse_is_any_twice(uint32_t sum);
bool sparse_cut_covers(const uint8_t *cut, uint32_t w, uint32_t seq);

/* What the rules say can do nothing more does not arrive. */
void sparse_forget(struct sparse_state *state);

/* Nothing depends on which of two workers is the first. Their names change; and, of two states that differ in that
 * alone one is chosen: true if it is the other one. */
void sparse_mirror(struct sparse_state *state);
bool sparse_swap(struct sparse_state *state);

/* R-SP-1: what a stranger may send changes nothing at all: NULL, or what it does. */
const char *sparse_strange(const struct sparse_state *state);

/* From here on nothing is lost but what is on its way: NULL, or what does not come to its end. */
const char *sparse_drain(const void *config, const void *state);
void sparse_drain_begin(void);

#endif
