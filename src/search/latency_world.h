/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latency_world.h - the state of latency.h's model, and the steps of the shipped worker and switch;
 * latency.c says which of them may happen when.
 *
 * A packet is known by what it is about: its bytes follow from (life, operation, worker, type), and each one
 * that is made is compared with these. So the network is a set of bits.
 */
#ifndef SEARCH_LATENCY_WORLD_H
#define SEARCH_LATENCY_WORLD_H

#include "core/latency/worker_latency.h"
#include "p4/chip_latency.h"
#include "search/latency.h"

enum {
	LATENCY_LANES = 8,
	LATENCY_TYPES = 6,
	LATENCY_PACKETS = LATENCY_LIVES * LATENCY_OPS * LATENCY_WORKERS * LATENCY_TYPES,
	LATENCY_WORDS = (LATENCY_PACKETS + 63) / 64,
	LATENCY_MADE = LATENCY_WORKERS + 2, /* by one step, at most */
};
/* Of the first life. A counter starts anywhere: as signed numbers these are behind a new slot's 0. */
#define LATENCY_GENERATION 0xfffffff0u
#define LATENCY_OWN_JOB 0x505 /* of the worker that slow.h is asked about: in both bytes */
#define LATENCY_OWN_CHILD 0x202
#define LATENCY_COOKIE 0x500000000u /* of operation 0 */

/* UPDATE and ACK are the worker's, RESULT and CONFIRM for it. HELD changes nothing and is not kept. In a chip an UPDATE and
 * an ACK may go round (R-CHIP-3): that may be lost, or be late, as all others. */
enum latency_type {
	LATENCY_UPDATE,
	LATENCY_ACK,
	LATENCY_RESULT,
	LATENCY_CONFIRM,
	LATENCY_UPDATE_ROUND,
	LATENCY_ACK_ROUND,
};

struct latency_packet {
	uint32_t life, op, worker;
	enum latency_type type;
};

/* No padding, no counters that only grow: states are compared as bytes. */
struct latency_worker {
	uint8_t life, head, next, stored; /* stored: a bit per operation */
	uint8_t tail, is_stored; /* is_stored: the worker's own, a bit per place in its ring */
	uint8_t reserved[2];
	struct {
		uint8_t k, state;
		uint16_t lanes;
		uint32_t seq, tag;
	} slot[LATENCY_SLOTS];
};

struct latency_state {
	struct latency_worker worker[LATENCY_WORKERS];
	uint32_t life, switch_life; /* the controller's newest, the switch's */
	uint32_t reserved[2];
	struct switch_latency_slot slot[LATENCY_SLOTS];
	struct chip_latency_words words[LATENCY_SLOTS]; /* of a chip */
	int32_t sum[LATENCY_SLOTS][LATENCY_LANES];
	uint64_t sent[LATENCY_WORDS]; /* may arrive */
};
_Static_assert(sizeof(struct latency_worker) == 8 + 12 * LATENCY_SLOTS, "no padding");
_Static_assert(sizeof(struct switch_latency_slot) == 88, "no padding");
_Static_assert(sizeof(struct latency_state) ==
		       3 * (8 + 12 * LATENCY_SLOTS) + 16 +
			       LATENCY_SLOTS * (88 + 28 + 4 * LATENCY_LANES) + 8 * LATENCY_WORDS,
	       "no padding");

/* What one step makes. */
struct latency_outcome {
	uint32_t packets[LATENCY_MADE];
	uint32_t count;
	bool is_held; /* the switch said HELD */
	const char *violation;
};

/* latency_packet.c: what is to be summed, known without any protocol; and packets. */
struct worker_latency_op latency_op(uint32_t op);
int32_t latency_value(uint32_t life, uint32_t worker, uint32_t op, uint32_t lane);
bool latency_is_range(uint32_t worker, uint32_t op);
bool latency_is_range_anywhere(const struct latency_config *config, uint32_t op);
uint32_t latency_packet_number(const struct latency_packet *packet);
struct latency_packet latency_packet_of(uint32_t number);
struct wire latency_wire(const struct latency_config *config, const struct latency_packet *packet);

/* Before the first step of a search. */
void latency_world_forget(void);
void latency_worker_new(struct latency_worker *worker, uint32_t life);
bool latency_may_start(const struct latency_config *config, const struct latency_worker *worker);
/* START, PACKET (`number` is what arrives) or RESEND at a worker. */
void latency_worker_step(const struct latency_config *config, struct latency_state *state,
			 uint32_t w, const struct worker_latency_event *event, uint32_t number,
			 struct latency_outcome *outcome);
void latency_switch_step(const struct latency_config *config, struct latency_state *state,
			 uint32_t number, struct latency_outcome *outcome);

#endif
