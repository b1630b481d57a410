/* SPDX-License-Identifier: Apache-2.0 */
/* latency_world.c - the machines of latency.h's model; see latency_world.h. */
#include "search/latency_world.h"

#include <assert.h>
#include <string.h>

#include "search/intern.h"
#include "search/slow.h"

static void broken(struct latency_outcome *outcome, const char *violation)
{
	if (!outcome->violation)
		outcome->violation = violation;
}

static void make(struct latency_outcome *outcome, struct latency_packet packet)
{
	if (outcome->count < LATENCY_MADE)
		outcome->packets[outcome->count++] = latency_packet_number(&packet);
	else
		broken(outcome, "MODEL: one step makes more packets than there is room for");
}

/* ---- the worker ---- */

struct scratch {
	struct worker_latency worker;
	struct worker_latency_slot slots[LATENCY_SLOTS];
	struct worker_latency_op_state ops[LATENCY_OPS];
};

static uint32_t ring_of(const struct latency_config *config)
{
	return config->ring ? config->ring : LATENCY_OPS;
}

/* As soon as there is room: when else is a matter of who calls, and START comes at any time. */
static void submit(const struct latency_config *config, struct worker_latency *worker)
{
	while (worker->tail < config->first + config->ops && worker_latency_has_room(worker)) {
		struct worker_latency_op op = latency_op((uint32_t)(worker->tail - config->first));
		struct worker_latency_event event = { .type = WORKER_LATENCY_SUBMIT, .op = &op };
		struct worker_latency_actions actions;

		worker_latency_step(worker, &event, &actions);
	}
}

static void worker_load(const struct latency_config *config, const struct latency_worker *from,
			struct scratch *scratch)
{
	struct worker_latency *worker = &scratch->worker;
	uint32_t ring = ring_of(config);

	worker_latency_init(worker, config->slots, config->window, LATENCY_LANES, ring,
			    scratch->slots, scratch->ops);
	worker->generation = LATENCY_GENERATION + from->life;
	worker->head = config->first + from->head;
	worker->next = config->first + from->next;
	worker->tail = config->first + from->tail;
	for (uint32_t op = from->tail > ring ? from->tail - ring : 0; op < from->tail; op++)
		scratch->ops[(config->first + op) % ring].op = latency_op(op);
	for (uint32_t i = 0; i < ring; i++)
		scratch->ops[i].is_stored = from->is_stored >> i & 1;
	for (uint32_t i = 0; i < config->slots; i++)
		scratch->slots[i] =
			(struct worker_latency_slot){ .k = config->first + from->slot[i].k,
						      .seq = from->slot[i].seq,
						      .tag = from->slot[i].tag,
						      .lanes = from->slot[i].lanes,
						      .state = from->slot[i].state };
	submit(config, worker);
}

static void worker_save(const struct latency_config *config, struct scratch *scratch,
			struct latency_worker *to)
{
	submit(config, &scratch->worker);
	to->tail = (uint8_t)(scratch->worker.tail - config->first);
	to->is_stored = 0;
	for (uint32_t i = 0; i < ring_of(config); i++)
		to->is_stored |= (uint8_t)(scratch->ops[i].is_stored << i);
	to->head = (uint8_t)(scratch->worker.head - config->first);
	to->next = (uint8_t)(scratch->worker.next - config->first);
	for (uint32_t i = 0; i < config->slots; i++) {
		const struct worker_latency_slot *slot = &scratch->slots[i];

		to->slot[i].k = (uint8_t)(slot->k - config->first);
		to->slot[i].seq = slot->seq;
		to->slot[i].tag = slot->tag;
		to->slot[i].lanes = slot->lanes;
		to->slot[i].state = slot->state;
	}
}

void latency_worker_new(struct latency_worker *worker, uint32_t life)
{
	memset(worker, 0, sizeof(*worker));
	worker->life = (uint8_t)life;
}

bool latency_may_start(const struct latency_config *config, const struct latency_worker *worker)
{
	struct scratch scratch;
	uint32_t slot;

	worker_load(config, worker, &scratch);
	return worker_latency_may_start(&scratch.worker, &slot);
}

/* What a worker sends must be what the rules say of this operation. */
static void worker_send(const struct latency_config *config, const struct latency_worker *worker,
			uint32_t w, struct wire wire, const struct latency_packet *packet,
			struct latency_outcome *outcome)
{
	struct latency_packet own = *packet;
	struct wire want;

	own.life = worker->life;
	own.worker = w;
	want = latency_wire(config, &own);
	wire.child = (uint16_t)w;
	wire.flags &= (uint8_t)~WIRE_RESENT;
	if (!slow_is_same(&wire, &want)) {
		broken(outcome, "M3: a packet is not that of its operation");
		return;
	}
	make(outcome, own);
}

/* `number` arrived, and the worker stores its lanes as operation `op`. */
static void worker_store(const struct latency_config *config, struct latency_worker *worker,
			 uint32_t op, bool range, uint32_t number, struct latency_outcome *outcome)
{
	struct latency_packet result = latency_packet_of(number);

	if (result.op != op || result.life != worker->life)
		broken(outcome, "SUM: what is stored is another operation's sum");
	if (range != latency_is_range_anywhere(config, op))
		broken(outcome, "RANGE is not what the workers said");
	if (worker->stored >> op & 1)
		broken(outcome, "W1: an operation is stored twice");
	worker->stored |= (uint8_t)(1 << op);
}

static void worker_done(const struct latency_config *config, const struct latency_worker *worker,
			const struct worker_latency_actions *actions, uint8_t head,
			struct latency_outcome *outcome)
{
	if (!actions->done)
		return;
	if (actions->done_first != config->first + head)
		broken(outcome, "operations complete out of order");
	for (uint32_t i = 0; i < actions->done; i++)
		if (!(worker->stored >> (head + i) & 1))
			broken(outcome, "an operation completes before it is stored");
}

/* Workers that slow.h has been asked about. What was stored is the model's, not theirs. */
static struct intern asked;

static void worker_slow(const struct latency_config *config, const struct latency_worker *worker,
			const struct scratch *scratch, struct latency_outcome *outcome)
{
	struct worker_latency own = scratch->worker;
	struct latency_worker look = *worker;
	uint32_t known = asked.count;
	const char *wrong;

	look.stored = 0;
	if (intern_put(&asked, &look, sizeof(look)) != known)
		return;
	own.job = LATENCY_OWN_JOB; /* what the search has no use for must be repeated as well */
	own.child = LATENCY_OWN_CHILD;
	wrong = slow_worker_latency(config, &own);
	if (wrong)
		broken(outcome, wrong);
}

void latency_worker_step(const struct latency_config *config, struct latency_state *state,
			 uint32_t w, const struct worker_latency_event *event, uint32_t number,
			 struct latency_outcome *outcome)
{
	struct latency_worker *worker = &state->worker[w];
	uint8_t head = worker->head;
	struct worker_latency_actions actions;
	struct latency_packet own = { 0 };
	struct scratch scratch;
	struct wire wire;

	worker_load(config, worker, &scratch);
	worker_slow(config, worker, &scratch, outcome);
	if (event->type == WORKER_LATENCY_RESEND)
		own.op = worker->slot[event->slot].k;
	worker_latency_step(&scratch.worker, event, &actions);
	worker_save(config, &scratch, worker);
	if (actions.is_protocol_error)
		broken(outcome, "R-LAT-13: the RESULT waited for is another operation's");
	if (actions.store || actions.build)
		own.op = (uint32_t)(actions.op - config->first);
	if ((actions.store || actions.build) && actions.op - config->first >= config->ops)
		broken(outcome, "R-LAT-12: an operation has a number that none was given");
	if (actions.store)
		worker_store(config, worker, own.op, actions.is_range, number, outcome);
	worker_done(config, worker, &actions, head, outcome);
	if (actions.ack) {
		own.type = LATENCY_ACK;
		worker_send(config, worker, w, actions.header, &own, outcome);
	}
	if (actions.build) {
		wire = actions.header;
		wire.flags |= latency_is_range(w, own.op) ? WIRE_RANGE : 0;
		worker_send(config, worker, w, wire, &own, outcome);
	}
	if (actions.resend) { /* the slot's bytes: those of its last build */
		own.life = worker->life;
		own.worker = w;
		make(outcome, own);
	}
}

/* ---- the switch ---- */

/* M1: a RESULT is the exact sum over all workers, of one operation of one life. */
static void result_check(const struct latency_config *config, const struct wire *wire,
			 const int32_t *sum, const struct latency_packet *packet,
			 struct latency_outcome *outcome)
{
	struct wire want = latency_wire(config, packet);

	if (!slow_is_same(wire, &want))
		broken(outcome, "M1: RESULT with the tag, lanes or flags of another operation");
	for (uint32_t i = 0; i < wire->lanes && i < LATENCY_LANES; i++) {
		int32_t exact = 0;

		for (uint32_t w = 0; w < config->workers; w++)
			exact += latency_value(packet->life, w, packet->op, i);
		if (sum[i] != exact)
			broken(outcome, "M1: RESULT is not the exact sum");
	}
}

static void switch_send(const struct latency_config *config, const struct latency_state *state,
			struct wire wire, bool is_for_all, const struct latency_packet *packet,
			struct latency_outcome *outcome)
{
	struct latency_packet answer = *packet;
	struct wire want;

	if (wire.type == WIRE_HELD) {
		outcome->is_held = true;
		return;
	}
	answer.type = wire.type == WIRE_RESULT ? LATENCY_RESULT : LATENCY_CONFIRM;
	for (uint32_t w = 0; w < config->workers; w++) {
		if (!is_for_all && w != packet->worker)
			continue;
		answer.worker = w;
		wire.child = (uint16_t)w; /* whose was the last matters to pace only */
		if (wire.type == WIRE_RESULT)
			result_check(config, &wire, state->sum[wire.slot], &answer, outcome);
		want = latency_wire(config, &answer);
		if (wire.type == WIRE_CONFIRM && !slow_is_same(&wire, &want))
			broken(outcome, "a CONFIRM is not that of its round");
		make(outcome, answer);
	}
}

/* Slots and packets that slow.h has been asked about: in many states they are the same. */
struct look {
	struct switch_latency_slot slot;
	int32_t sum[LATENCY_LANES];
	uint32_t number, life;
};
_Static_assert(sizeof(struct look) == 88 + 4 * LATENCY_LANES + 8, "no padding");
static struct intern looked;

void latency_world_forget(void)
{
	intern_forget(&looked);
	intern_forget(&asked);
}

static void switch_slow(const struct switch_job *job, const struct latency_state *state,
			uint32_t number, const struct wire *wire, const int32_t *lane,
			struct latency_outcome *outcome)
{
	struct look look = { .slot = state->slot[wire->slot],
			     .number = number,
			     .life = state->switch_life };
	uint32_t known = looked.count;
	const char *wrong = NULL;

	memcpy(look.sum, state->sum[wire->slot], sizeof(look.sum));
	if (intern_put(&looked, &look, sizeof(look)) == known)
		wrong = slow_latency(job, &look.slot, look.sum, wire, lane);
	if (wrong)
		broken(outcome, wrong);
}

/* R-CHIP-11 */
static enum switch_verdict chip_step(const struct switch_job *job, struct latency_state *state,
				     struct latency_packet packet, struct wire *wire,
				     const int32_t *lane, struct latency_outcome *outcome)
{
	const struct chip_packet first = { wire, lane, 0, LATENCY_LANES };
	struct switch_latency_slot *slot = &state->slot[wire->slot];
	struct chip_latency_words *words = &state->words[wire->slot];
	enum switch_verdict verdict;
	bool goes_round;

	if (packet.type == LATENCY_UPDATE_ROUND || packet.type == LATENCY_ACK_ROUND)
		return chip_latency_last(slot, words, wire);
	verdict = chip_latency_first(job, slot, words, state->sum[wire->slot], &first, &goes_round);
	if (goes_round) {
		packet.type = packet.type == LATENCY_UPDATE ? LATENCY_UPDATE_ROUND
							    : LATENCY_ACK_ROUND;
		make(outcome, packet);
	}
	return verdict;
}

void latency_switch_step(const struct latency_config *config, struct latency_state *state,
			 uint32_t number, struct latency_outcome *outcome)
{
	struct latency_packet packet = latency_packet_of(number);
	struct wire wire = latency_wire(config, &packet);
	struct switch_job job = { .generation = LATENCY_GENERATION + state->switch_life,
				  .lanes = LATENCY_LANES,
				  .slots = config->slots,
				  .mode = (uint8_t)switch_latency_mode(config->slots,
								       config->window),
				  .enabled = 1 };
	int32_t lane[LATENCY_LANES];
	enum switch_verdict verdict;

	switch_job_fill(&job, config->workers);
	for (uint32_t i = 0; i < LATENCY_LANES; i++)
		lane[i] = latency_value(packet.life, packet.worker, packet.op, i);
	if (!config->is_chip)
		switch_slow(&job, state, number, &wire, lane, outcome);
	if (switch_latency_admit(&job, &wire) != SWITCH_ABSORB)
		return;
	verdict = config->is_chip ? chip_step(&job, state, packet, &wire, lane, outcome)
				  : switch_latency_step(&job, &state->slot[wire.slot],
							state->sum[wire.slot], &wire, lane,
							lane + LATENCY_LANES);
	state->slot[wire.slot].last = 0;
	if (verdict == SWITCH_MISMATCH)
		broken(outcome, "MISMATCH without any disagreement");
	if (verdict == SWITCH_DROP_ALARM)
		broken(outcome, "I2: a slot is used again before everybody is done with it");
	if (verdict == SWITCH_REPLY || verdict == SWITCH_MULTICAST)
		switch_send(config, state, wire, verdict == SWITCH_MULTICAST, &packet, outcome);
}
