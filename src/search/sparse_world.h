/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sparse_world.h - the state of sparse.h's model, and the steps of the shipped machines; sparse.c says which of
 * them may happen when.
 *
 * A packet is known by what it is about, and its bytes are made again from that; each one that is made is
 * compared with these. Push k of worker w adds 1 to digit w * pushes + k - 1 of each sum, in base 16: so a sum
 * says how often each push is in it.
 */
#ifndef SEARCH_SPARSE_WORLD_H
#define SEARCH_SPARSE_WORLD_H

#include "core/server_sparse.h"
#include "core/switch_sparse.h"
#include "core/worker_sparse.h"
#include "search/sparse.h"

enum {
	SPARSE_RANKS = 2,
	SPARSE_DIM = 2,
	SPARSE_MAP = 3,
	SPARSE_INDEX = 4,
	SPARSE_PARTS = 4,      /* of a flush, at most */
	SPARSE_DATAGRAM = 128, /* bytes, at most */
};

/* No padding, no counters that only grow: states are compared as bytes. seqs, epochs, generations begin with 1,
 * so index 0 of what is per epoch or generation is not used. */
struct sparse_world_worker {
	uint8_t generation, low, sent, next;
	uint8_t acked, freed; /* bit seq - 1 */
	uint8_t reached, reserved;
};

struct sparse_world_switch {
	uint8_t generation, epoch, is_busy, setup_parts;
	uint8_t last[SPARSE_PLACES], before[SPARSE_PLACES], since[SPARSE_PLACES];
	uint8_t tag[2], reserved[2];
	uint32_t sum[2]; /* of a bank: of each rank the same */
};

/* A flush as it was first sent. */
struct sparse_world_flush {
	uint8_t is_sent, reserved[3];
	uint8_t cut[SPARSE_PLACES];
	uint32_t sum;
};

/* What a log says, and what the server has in memory. */
struct sparse_world_durable {
	uint8_t generation, expected, kind, reserved;
	uint8_t cut[SPARSE_PLACES];
	uint32_t total[SPARSE_RANKS]; /* what the optimiser has been given */
};

struct sparse_world_server {
	struct sparse_world_durable now;
	uint8_t has_instance, parts, pending_count, is_unsaid;
	uint8_t staged[SPARSE_PLACES];
	uint32_t staged_sum[SPARSE_RANKS];
	struct sparse_world_durable pending[SPARSE_PENDING], disk;
};

struct sparse_state {
	struct sparse_world_worker worker[SPARSE_WORKERS];
	struct sparse_world_switch at[SPARSE_GENERATIONS + 1];
	struct sparse_world_flush flush[SPARSE_GENERATIONS + 1][SPARSE_EPOCHS + 1];
	struct sparse_world_server server;
	/* what may arrive */
	uint8_t push[SPARSE_GENERATIONS + 1][SPARSE_WORKERS]; /* bit seq - 1 */
	uint8_t ack[SPARSE_GENERATIONS + 1][SPARSE_WORKERS];
	uint8_t committed[SPARSE_GENERATIONS + 1]; /* bit epoch */
	uint8_t committed_cut[SPARSE_GENERATIONS + 1][SPARSE_EPOCHS + 1][SPARSE_PLACES];
	uint8_t is_fenced[SPARSE_GENERATIONS + 1]; /* SETUP and RESUME, as of their first time: */
	uint8_t fence_epoch[SPARSE_GENERATIONS + 1];
	uint8_t fence_cut[SPARSE_GENERATIONS + 1][SPARSE_PLACES];
	uint8_t deaths, reserved[3];
};

struct sparse_table sparse_table_of(const struct sparse_config *config);

/* Each is a step of a shipped machine. What it sends is in the state's sets afterwards; NULL, or what it broke. */
bool sparse_worker_may_send(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t w);
const char *sparse_worker_send(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t w);
const char *sparse_worker_take(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t w, const uint8_t *at, uint32_t bytes);
/* Sends what its timers would: ASK says whether it asks. */
const char *sparse_worker_timers(const struct sparse_config *config, struct sparse_state *state,
				 uint32_t w, bool *ask);

const char *sparse_switch_take(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t g, const uint8_t *at, uint32_t bytes);
bool sparse_switch_may_flip(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t g);
const char *sparse_switch_flip(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t g);

/* A part of the flush that the switch is busy with, as it sends it now. */
uint32_t sparse_switch_part(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t g, uint32_t part, uint8_t *at);

const char *sparse_server_take(const struct sparse_config *config, struct sparse_state *state,
			       const uint8_t *at, uint32_t bytes);
const char *sparse_server_fence(const struct sparse_config *config, struct sparse_state *state);
/* The oldest record that is not on the disk gets there. */
const char *sparse_server_write(const struct sparse_config *config, struct sparse_state *state);
void sparse_server_die(struct sparse_state *state);

/* Datagrams of the sets; how many bytes. */
uint32_t sparse_push_put(const struct sparse_config *config, uint32_t g, uint32_t w, uint32_t seq,
			 uint8_t *at);
uint32_t sparse_ack_put(uint32_t g, uint32_t w, uint32_t seq, uint8_t *at);
uint32_t sparse_part_put(const struct sparse_config *config, const struct sparse_state *state,
			 uint32_t g, uint32_t epoch, uint32_t part, uint8_t *at);
uint32_t sparse_committed_put(const struct sparse_config *config, const struct sparse_state *state,
			      uint32_t g, uint32_t epoch, uint32_t worker, uint8_t *at);
uint32_t sparse_resume_put(const struct sparse_config *config, const struct sparse_state *state,
			   uint32_t g, uint32_t worker, uint8_t *at);
uint32_t sparse_setup_put(const struct sparse_config *config, const struct sparse_state *state,
			  uint32_t g, uint32_t part, uint8_t *at);

/* Digit of push `seq` of worker w: how often a sum has it. */
uint32_t sparse_times(const struct sparse_config *config, uint32_t sum, uint32_t w, uint32_t seq);
bool sparse_cut_covers(const struct sparse_config *config, const uint8_t *cut, uint32_t w,
		       uint32_t seq);

#endif
