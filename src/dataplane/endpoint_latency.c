/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_latency.c - an endpoint's packets in latency mode: core/worker_latency and core/pace_latency run
 * over the link of endpoint_out.c. A slot's buffer holds what the slot would send again: its UPDATE, and
 * once the RESULT is there and ACKs are in use, its ACK.
 */
#include <stdlib.h>
#include <string.h>

#include "core/latency/pace_latency.h"
#include "dataplane/endpoint_state.h"

struct endpoint_latency {
	struct worker_latency worker;
	struct pace_latency pace;
	struct worker_latency_slot *slot;
	struct worker_latency_op_state *ops;
	struct pace_slot *pace_slot;
	uint32_t *acks; /* ring of slots whose ACK is to be sent for the first time */
	uint32_t acks_head, acks_count;
};

bool endpoint_latency_open(struct endpoint *endpoint)
{
	struct endpoint_latency *latency = calloc(1, sizeof(*latency));

	endpoint->latency = latency;
	if (!latency)
		return false;
	latency->slot = calloc(endpoint->slots, sizeof(*latency->slot));
	latency->ops = calloc(endpoint->ops_max, sizeof(*latency->ops));
	latency->pace_slot = calloc(endpoint->slots, sizeof(*latency->pace_slot));
	latency->acks = calloc(endpoint->slots, sizeof(*latency->acks));
	if (!latency->slot || !latency->ops || !latency->pace_slot || !latency->acks)
		return false;
	pace_latency_init(&latency->pace, endpoint->slots, latency->pace_slot);
	endpoint->pace_used = &latency->pace.pace;
	return true;
}

void endpoint_latency_close(struct endpoint *endpoint)
{
	struct endpoint_latency *latency = endpoint->latency;

	if (!latency)
		return;
	free(latency->slot);
	free(latency->ops);
	free(latency->pace_slot);
	free(latency->acks);
	free(latency);
}

void endpoint_latency_start(struct endpoint *endpoint)
{
	const struct endpoint_shard *grant = &endpoint->shards[0].grant;
	struct worker_latency *worker = &endpoint->latency->worker;

	worker_latency_init(worker, endpoint->slots, endpoint->latency_window, endpoint->lanes,
			    endpoint->ops_max, endpoint->latency->slot, endpoint->latency->ops);
	worker->generation = grant->generation;
	worker->job = grant->job;
	worker->child = grant->child;
}

const struct worker_latency *endpoint_worker_latency(const struct endpoint *endpoint)
{
	return endpoint->latency ? &endpoint->latency->worker : NULL;
}

void endpoint_latency_rounds_begin(struct endpoint *endpoint, uint32_t seq)
{
	struct worker_latency *worker = &endpoint->latency->worker;

	worker->head = worker->next = worker->tail = (uint64_t)seq * worker->slots;
	for (uint32_t i = 0; i < worker->slots; i++)
		worker->slot[i].seq = seq;
}

/* --- operations --------------------------------------------------------------------------------- */

bool endpoint_latency_has_room(const struct endpoint *endpoint)
{
	return worker_latency_has_room(&endpoint->latency->worker);
}

void endpoint_latency_submit(struct endpoint *endpoint, uint32_t index)
{
	const struct endpoint_op *op = &endpoint->ops[index];
	struct worker_latency_op worker_op = { .hash = map_descriptor_hash(&op->descriptor),
					       .cookie = index,
					       .count = (uint32_t)op->count };
	struct worker_latency_event event = { .type = WORKER_LATENCY_SUBMIT, .op = &worker_op };
	struct worker_latency_actions actions;

	worker_latency_step(&endpoint->latency->worker, &event, &actions);
}

static const struct endpoint_op *op_of(const struct endpoint *endpoint, uint64_t k)
{
	return &endpoint->ops[worker_latency_op(&endpoint->latency->worker, k)->op.cookie];
}

static void store(struct endpoint *endpoint, const struct worker_latency_actions *actions,
		  const int32_t *lane)
{
	const struct endpoint_op *op = op_of(endpoint, actions->op);
	uint32_t count = (uint32_t)op->count;
	void *at;

	if (actions->is_range) {
		if (op->is_out_of_range)
			*op->is_out_of_range = true;
		return;
	}
	if (!count)
		return;
	at = segments_write(op, 0, count, endpoint->scratch);
	endpoint->quant->unpack_i32(at, lane, count, endpoint->workers, op->op == LANES_AVG);
	segments_written(op, 0, count, endpoint->scratch);
}

static void build(struct endpoint *endpoint, const struct worker_latency_actions *actions)
{
	const struct endpoint_op *op = op_of(endpoint, actions->op);
	uint8_t *bytes = endpoint_buffer(endpoint, 0, actions->slot);
	int32_t *lane = (int32_t *)(void *)(bytes + WIRE_HEADER_BYTES);
	uint32_t count = (uint32_t)op->count;
	struct wire header = actions->header;

	endpoint_op_begun(endpoint, op);
	if (header.lanes) {
		const void *source =
			segments_read(op, SEGMENTS_SOURCE, 0, count, endpoint->scratch);

		memset(lane + count, 0, (header.lanes - count) * sizeof(*lane));
		header.flags |= endpoint->quant->pack_i32(lane, source, count,
							  quant_bound(endpoint->workers));
		if (endpoint->shards[0].grant.is_big_endian)
			endpoint_lanes_swap(lane, lane, header.lanes);
	}
	wire_put(bytes, &header);
}

/* --- packets ------------------------------------------------------------------------------------ */

static void ack_push(struct endpoint *endpoint, const struct worker_latency_actions *actions)
{
	struct endpoint_latency *latency = endpoint->latency;

	wire_put(endpoint_buffer(endpoint, 0, actions->slot), &actions->header);
	latency->acks[(latency->acks_head + latency->acks_count++) % endpoint->slots] =
		actions->slot;
}

void endpoint_latency_take(struct endpoint *endpoint, const struct wire *packet,
			   const int32_t *lane)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_PACKET, .packet = packet };
	struct endpoint_latency *latency = endpoint->latency;
	struct worker_latency_actions actions;

	worker_latency_step(&latency->worker, &event, &actions);
	if (actions.is_held) {
		endpoint->stats.held_in++;
		pace_latency_held(&latency->pace, actions.slot, endpoint->now_ns);
	}
	if (actions.is_answered) {
		endpoint->progress_ns = endpoint->now_ns;
		pace_latency_answered(&latency->pace, actions.slot, endpoint->now_ns,
				      packet->child == latency->worker.child);
	}
	if (actions.store) {
		endpoint->stats.results_in++;
		store(endpoint, &actions, lane);
	} else if (packet->type == WIRE_RESULT) {
		endpoint->stats.results_ignored++;
	}
	if (actions.ack)
		ack_push(endpoint, &actions);
	for (uint64_t k = actions.done_first; k < actions.done_first + actions.done; k++)
		endpoint_op_finish(endpoint, worker_latency_op(&latency->worker, k)->op.cookie);
	if (actions.is_protocol_error)
		endpoint->fault = ENDPOINT_PROTOCOL_ERROR;
}

/* What had no answer in time. */
static bool send_copies(struct endpoint *endpoint)
{
	struct endpoint_latency *latency = endpoint->latency;
	struct worker_latency_actions actions;
	uint32_t slots[ENDPOINT_SEND_FRAMES];
	uint32_t room, count = 0;
	bool any = false;

	do {
		room = endpoint_header_rooms(endpoint);
		if (!room)
			break;
		count = pace_latency_poll(&latency->pace, endpoint->now_ns, slots, room);
		for (uint32_t i = 0; i < count; i++) {
			struct worker_latency_event event = { .type = WORKER_LATENCY_RESEND,
							      .slot = slots[i] };

			worker_latency_step(&latency->worker, &event, &actions);
			endpoint_buffer(endpoint, 0, slots[i])[1] |= WIRE_RESENT;
			endpoint_emit_slot(endpoint, 0, slots[i]);
			endpoint->stats.updates_resent += actions.resend;
		}
		any |= count > 0;
	} while (count == room);
	return any;
}

static bool send_acks(struct endpoint *endpoint)
{
	struct endpoint_latency *latency = endpoint->latency;
	bool any = false;

	while (latency->acks_count && endpoint_has_room(endpoint)) {
		uint32_t slot = latency->acks[latency->acks_head];

		latency->acks_head = (latency->acks_head + 1) % endpoint->slots;
		latency->acks_count--;
		endpoint_emit_slot(endpoint, 0, slot);
		pace_latency_sent(&latency->pace, slot, endpoint->now_ns);
		any = true;
	}
	return any;
}

bool endpoint_latency_begin(struct endpoint *endpoint)
{
	struct worker_latency_event event = { .type = WORKER_LATENCY_START };
	struct endpoint_latency *latency = endpoint->latency;
	struct worker_latency_actions actions;
	bool any = false;
	uint32_t slot;

	while (worker_latency_may_start(&latency->worker, &slot) &&
	       latency->worker.next - latency->worker.head < endpoint->window &&
	       endpoint_has_room(endpoint)) {
		worker_latency_step(&latency->worker, &event, &actions);
		build(endpoint, &actions);
		endpoint_emit_slot(endpoint, 0, slot);
		pace_latency_sent(&latency->pace, slot, endpoint->now_ns);
		endpoint->stats.updates_out++;
		endpoint->stats.chunks_express++;
		any = true;
	}
	return any;
}

bool endpoint_latency_send(struct endpoint *endpoint)
{
	bool any = send_copies(endpoint);

	any |= send_acks(endpoint);
	any |= endpoint_latency_begin(endpoint);
	return any;
}

uint64_t endpoint_latency_next(const struct endpoint *endpoint)
{
	return pace_latency_next(&endpoint->latency->pace, endpoint->now_ns);
}
