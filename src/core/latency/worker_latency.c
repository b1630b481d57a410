/* SPDX-License-Identifier: Apache-2.0 */
/* worker_latency.c - see worker_latency.h. Rules R-LAT-11 to R-LAT-17 of docs/protocol.md. */
#include "core/latency/worker_latency.h"

#include "core/shared/map.h"

static struct worker_latency_op_state *op_at(const struct worker_latency *worker, uint64_t k)
{
	return &worker->ops[k & (worker->ops_max - 1)];
}

void worker_latency_init(struct worker_latency *worker, uint32_t slots, uint32_t window,
			 uint32_t lanes, uint32_t ops_max, struct worker_latency_slot *slot,
			 struct worker_latency_op_state *ops)
{
	CORE_ASSERT(window && window <= slots);
	CORE_ASSERT(slots <= SWITCH_LATENCY_SLOTS_MAX);
	CORE_ASSERT(lanes && lanes <= WIRE_LANES_MAX && lanes % WIRE_LANES_STEP == 0);
	CORE_ASSERT(ops_max >= window && !(ops_max & (ops_max - 1)));
	*worker = (struct worker_latency){ .slots = slots,
					   .window = window,
					   .lanes = lanes,
					   .ops_max = ops_max,
					   .mode = switch_latency_mode(slots, window),
					   .slot = slot,
					   .ops = ops };
	for (uint32_t i = 0; i < slots; i++)
		slot[i] = (struct worker_latency_slot){ 0 };
	for (uint32_t i = 0; i < ops_max; i++)
		ops[i] = (struct worker_latency_op_state){ 0 };
}

bool worker_latency_has_room(const struct worker_latency *worker)
{
	return worker->tail - worker->head < worker->ops_max;
}

/* R-LAT-12: strictly in order, never over a busy slot, and at most P without a result. */
bool worker_latency_may_start(const struct worker_latency *worker, uint32_t *slot)
{
	if (worker->next == worker->tail)
		return false;
	if (worker->next - worker->head >= worker->window)
		return false;
	*slot = (uint32_t)(worker->next % worker->slots);
	return worker->slot[*slot].state == WORKER_LATENCY_IDLE;
}

const struct worker_latency_op_state *worker_latency_op(const struct worker_latency *worker,
							uint64_t k)
{
	return op_at(worker, k);
}

static void submit(struct worker_latency *worker, const struct worker_latency_op *op)
{
	CORE_ASSERT(worker_latency_has_room(worker));
	CORE_ASSERT(op->count <= worker->lanes);
	*op_at(worker, worker->tail++) = (struct worker_latency_op_state){ .op = *op };
}

static struct wire header_of(const struct worker_latency *worker, uint32_t index,
			     enum wire_type type)
{
	const struct worker_latency_slot *slot = &worker->slot[index];

	return (struct wire){ .type = (uint8_t)type,
			      .job = worker->job,
			      .generation = worker->generation,
			      .seq = slot->seq,
			      .slot = (uint16_t)index,
			      .child = worker->child,
			      .tag = slot->tag };
}

/* R-LAT-11: composed once, in the slot's own buffer; R-LAT-1: operation k is a round of slot k mod S. */
static void start(struct worker_latency *worker, struct worker_latency_actions *actions)
{
	const struct worker_latency_op *op = &op_at(worker, worker->next)->op;
	uint32_t step = WIRE_LANES_STEP;
	struct worker_latency_slot *slot;
	uint32_t index;

	CORE_ASSERT(worker_latency_may_start(worker, &index));
	slot = &worker->slot[index];
	slot->k = worker->next++;
	slot->seq = (uint32_t)(slot->k / worker->slots + 1);
	slot->tag = map_tag(op->hash, 0);
	slot->lanes = (uint16_t)((op->count + step - 1) / step * step);
	slot->state = WORKER_LATENCY_RESULT_DUE;
	actions->build = true;
	actions->slot = index;
	actions->op = slot->k;
	actions->header = header_of(worker, index, WIRE_UPDATE);
	actions->header.flags = SWITCH_LATENCY_KIND;
	actions->header.lanes = slot->lanes;
}

/* R-LAT-14: complete are those below the first without a result. */
static void complete(struct worker_latency *worker, struct worker_latency_actions *actions)
{
	actions->done_first = worker->head;
	while (worker->head < worker->next && op_at(worker, worker->head)->is_stored)
		worker->head++;
	actions->done = (uint32_t)(worker->head - actions->done_first);
}

static void accept_result(struct worker_latency *worker, const struct wire *packet,
			  struct worker_latency_actions *actions)
{
	struct worker_latency_slot *slot = &worker->slot[packet->slot];
	struct worker_latency_op_state *state = op_at(worker, slot->k);

	if (packet->lanes != slot->lanes || packet->tag != slot->tag ||
	    (packet->flags & (WIRE_KIND_MASK | WIRE_BARE)) != SWITCH_LATENCY_KIND) {
		actions->is_protocol_error = true;
		return;
	}
	actions->is_answered = true;
	actions->store = true;
	actions->op = slot->k;
	actions->is_range = packet->flags & WIRE_RANGE;
	state->is_stored = 1;
	state->is_range = actions->is_range;
	slot->state = WORKER_LATENCY_IDLE;
	if (worker->mode == SWITCH_LATENCY_ACKNOWLEDGED) {
		actions->ack = true;
		actions->header = header_of(worker, packet->slot, WIRE_ACK);
		slot->state = WORKER_LATENCY_CONFIRM_DUE;
	}
	complete(worker, actions);
}

/* R-LAT-15: a HELD says what it answers: 0 in tag for an UPDATE, the round's own for an ACK. */
static bool is_held(const struct worker_latency_slot *slot, const struct wire *packet)
{
	if (slot->state == WORKER_LATENCY_IDLE)
		return false;
	return packet->tag == (slot->state == WORKER_LATENCY_CONFIRM_DUE ? slot->tag : 0);
}

/* R-LAT-13: is the slot waiting for just this? */
static bool is_due(const struct worker_latency_slot *slot, enum worker_latency_state state)
{
	return slot->state == state;
}

static void take(struct worker_latency *worker, const struct wire *packet,
		 struct worker_latency_actions *actions)
{
	struct worker_latency_slot *slot;

	if (packet->generation != worker->generation)
		return;
	if (packet->slot >= worker->slots || packet->job != worker->job)
		return;
	slot = &worker->slot[packet->slot];
	if (packet->seq != slot->seq)
		return;
	actions->slot = packet->slot;
	if (packet->type == WIRE_RESULT && is_due(slot, WORKER_LATENCY_RESULT_DUE)) {
		accept_result(worker, packet, actions);
	} else if (packet->type == WIRE_CONFIRM && is_due(slot, WORKER_LATENCY_CONFIRM_DUE)) {
		actions->is_answered = true;
		slot->state = WORKER_LATENCY_IDLE;
	} else if (packet->type == WIRE_HELD) {
		actions->is_held = is_held(slot, packet);
	}
}

/* R-LAT-16 */
static void resend(struct worker_latency *worker, uint32_t index,
		   struct worker_latency_actions *actions)
{
	CORE_ASSERT(index < worker->slots);
	CORE_ASSERT(worker->slot[index].state != WORKER_LATENCY_IDLE);
	actions->slot = index;
	if (worker->slot[index].state == WORKER_LATENCY_RESULT_DUE) {
		actions->resend = true;
		return;
	}
	actions->ack = true;
	actions->header = header_of(worker, index, WIRE_ACK);
	actions->header.flags = WIRE_RESENT;
}

void worker_latency_step(struct worker_latency *worker, const struct worker_latency_event *event,
			 struct worker_latency_actions *actions)
{
	*actions = (struct worker_latency_actions){ 0 };
	switch (event->type) {
	case WORKER_LATENCY_SUBMIT:
		submit(worker, event->op);
		break;
	case WORKER_LATENCY_START:
		start(worker, actions);
		break;
	case WORKER_LATENCY_PACKET:
		take(worker, event->packet, actions);
		break;
	case WORKER_LATENCY_RESEND:
		resend(worker, event->slot, actions);
		break;
	}
}
