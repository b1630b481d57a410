/* SPDX-License-Identifier: Apache-2.0 */
/* published_p4sgd.c - Algorithms 2 and 3 of P4SGD, line by line. `seq` there is a slot: idx here. */
#include "sim/published.h"

#include <string.h>

/* --- Algorithm 2: the switch --- */

static enum published_answer aggregate(struct published_switch *state, struct published_packet *pkt)
{
	uint32_t seq = pkt->idx;
	uint32_t bm = 1u << pkt->wid;

	if (!(state->agg_bm[seq] & bm)) { /* 3 */
		state->agg_count[seq]++;
		state->agg_bm[seq] |= bm;
		for (uint32_t i = 0; i < PUBLISHED_LANES; i++)
			state->agg[seq][i] =
				(int32_t)((uint32_t)state->agg[seq][i] + (uint32_t)pkt->vector[i]);
		if (state->agg_count[seq] == state->n) { /* 7 */
			state->ack_count[seq] = 0;
			state->ack_bm[seq] = 0;
		}
	}
	if (state->agg_count[seq] != state->n) /* 12 */
		return PUBLISHED_DROP;
	pkt->type = WIRE_RESULT;
	memcpy(pkt->vector, state->agg[seq], sizeof(pkt->vector));
	return PUBLISHED_MULTICAST;
}

static enum published_answer acknowledge(struct published_switch *state,
					 struct published_packet *pkt)
{
	uint32_t seq = pkt->idx;
	uint32_t bm = 1u << pkt->wid;

	if (!(state->ack_bm[seq] & bm)) { /* 18 */
		state->ack_count[seq]++;
		state->ack_bm[seq] |= bm;
		if (state->ack_count[seq] == state->n) { /* 21 */
			state->agg_count[seq] = 0;
			state->agg_bm[seq] = 0;
			memset(state->agg[seq], 0, sizeof(state->agg[seq]));
		}
	}
	if (state->ack_count[seq] != state->n) /* 27 */
		return PUBLISHED_DROP;
	pkt->type = WIRE_CONFIRM;
	return PUBLISHED_MULTICAST;
}

enum published_answer p4sgd_switch(struct published_switch *state, struct published_packet *packet)
{
	return packet->type == WIRE_UPDATE ? aggregate(state, packet) : acknowledge(state, packet);
}

/* --- Algorithm 3: the worker --- */

bool p4sgd_send(struct published_worker *worker, const struct endpoint_op *op, uint32_t index)
{
	uint32_t seq = worker->seq;
	struct published_packet pkt = { .type = WIRE_UPDATE,
					.idx = (uint16_t)seq,
					.wid = (uint16_t)worker->w,
					.lanes = worker->run->scenario->lanes };

	if (!worker->unused[seq]) /* 2 */
		return false;
	worker->unused[seq] = false;
	memcpy(pkt.vector, op->source, op->count * sizeof(int32_t));
	worker->op_of[seq] = *op;
	worker->index_of[seq] = index;
	worker->consumed[seq] = 0;
	worker->seq = (seq + 1) % worker->slots; /* 6 */
	published_send(worker, &pkt);
	published_timer_start(worker, &pkt);
	return true;
}

/* "Forward pkt.FA to backward propagation": the operation that is in the slot has its result. */
static void consume(struct published_worker *worker, const struct published_packet *pkt)
{
	uint32_t seq = pkt->idx;
	struct endpoint_op *op = &worker->op_of[seq];
	uint32_t index = worker->index_of[seq];

	if (worker->consumed[seq]++) {
		check_fail(worker->run->check, 0, seq,
			   "w%u consumes the result of operation %u twice", worker->w, index);
		return;
	}
	memcpy(op->destination, pkt->vector, op->count * sizeof(int32_t));
	load_stored(worker->run->load, worker->w, index, 0, pkt->lanes, seq);
	if (!check_failure(worker->run->check)->is_set)
		load_done(worker->run->load, worker->w, index);
	run_progress(worker->run);
}

void p4sgd_receive(struct published_worker *worker, const struct published_packet *received)
{
	struct published_packet pkt = *received;

	if (pkt.type == WIRE_RESULT) { /* 19 */
		published_timer_cancel(worker, pkt.idx);
		consume(worker, &pkt);
		pkt.type = WIRE_ACK;
		pkt.wid = (uint16_t)worker->w;
		published_send(worker, &pkt);
		published_timer_start(worker, &pkt);
		return;
	}
	worker->unused[pkt.idx] = true; /* 27 */
	published_timer_cancel(worker, pkt.idx);
}
