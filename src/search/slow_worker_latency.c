/* SPDX-License-Identifier: Apache-2.0 */
/* slow_worker_latency.c - see slow.h: R-LAT-11 to R-LAT-16, and what an operation's place holds. */
#include "search/latency_world.h"
#include "search/slow.h"

enum { NEVER = UINT32_MAX, NEARLY = 21 };

/* By the numbers of operations: a round, a tag and lanes are never kept, they follow from these. */
struct reading {
	const struct latency_config *config;
	const struct worker_latency *worker;
	uint32_t head, next, tail;
	enum worker_latency_state waits[LATENCY_SLOTS];
	struct worker_latency_op_state place[LATENCY_OPS];
};

static struct worker_latency_op_state *place_of(struct reading *reading, uint32_t op)
{
	return &reading->place[(reading->config->first + op) % reading->worker->ops_max];
}

static void reading_load(const struct latency_config *config, const struct worker_latency *worker,
			 struct reading *reading)
{
	*reading = (struct reading){ .config = config, .worker = worker };
	reading->head = (uint32_t)(worker->head - config->first);
	reading->next = (uint32_t)(worker->next - config->first);
	reading->tail = (uint32_t)(worker->tail - config->first);
	for (uint32_t i = 0; i < config->slots; i++)
		reading->waits[i] = (enum worker_latency_state)worker->slot[i].state;
	memcpy(reading->place, worker->ops, worker->ops_max * sizeof(*worker->ops));
}

/* The operation that was the last to use a slot. */
static uint32_t user_of(const struct reading *reading, uint32_t slot)
{
	for (uint32_t op = reading->next; op-- > 0;)
		if (op % reading->config->slots == slot)
			return op;
	return NEVER;
}

static struct wire wire_of(const struct reading *reading, uint32_t op, enum latency_type type)
{
	struct latency_packet packet = { .life = reading->worker->generation - LATENCY_GENERATION,
					 .op = op,
					 .type = type };
	struct wire wire = latency_wire(reading->config, &packet);

	wire.job = LATENCY_OWN_JOB;
	wire.child = LATENCY_OWN_CHILD;
	if (type == LATENCY_UPDATE)
		wire.flags = 0; /* RANGE is said by who has the elements */
	return wire;
}

/* ---- what should happen ---- */

static bool may_start(const struct reading *reading)
{
	uint32_t k = reading->next;

	return k < reading->tail && k < reading->head + reading->config->window &&
	       reading->waits[k % reading->config->slots] == WORKER_LATENCY_IDLE;
}

static void start(struct reading *reading, struct worker_latency_actions *want)
{
	uint32_t op = reading->next++;

	want->build = true;
	want->slot = op % reading->config->slots;
	want->op = reading->config->first + op;
	want->header = wire_of(reading, op, LATENCY_UPDATE);
	reading->waits[want->slot] = WORKER_LATENCY_RESULT_DUE;
}

static void result(struct reading *reading, uint32_t op, const struct wire *packet,
		   struct worker_latency_actions *want)
{
	struct wire sent = wire_of(reading, op, LATENCY_UPDATE);

	if (packet->tag != sent.tag || packet->lanes != sent.lanes || packet->flags & 0x1f) {
		want->is_protocol_error = true;
		return;
	}
	want->is_answered = want->store = true;
	want->op = reading->config->first + op;
	want->is_range = packet->flags >> 6 & 1;
	place_of(reading, op)->is_stored = true;
	place_of(reading, op)->is_range = want->is_range;
	reading->waits[want->slot] = WORKER_LATENCY_IDLE;
	if (reading->config->slots < 2 * reading->config->window) {
		want->ack = true;
		want->header = wire_of(reading, op, LATENCY_ACK);
		reading->waits[want->slot] = WORKER_LATENCY_CONFIRM_DUE;
	}
	want->done_first = reading->config->first + reading->head;
	for (; reading->head < reading->next; reading->head++, want->done++)
		if (!place_of(reading, reading->head)->is_stored)
			break;
}

static void arrive(struct reading *reading, const struct wire *packet,
		   struct worker_latency_actions *want)
{
	uint32_t op = user_of(reading, packet->slot);
	enum worker_latency_state waits;
	struct wire sent;

	if (op == NEVER)
		return;
	sent = wire_of(reading, op, LATENCY_ACK);
	waits = reading->waits[packet->slot];
	if (packet->generation != sent.generation || packet->job != sent.job ||
	    packet->seq != sent.seq)
		return;
	want->slot = packet->slot;
	if (packet->type == WIRE_RESULT && waits == WORKER_LATENCY_RESULT_DUE)
		result(reading, op, packet, want);
	if (packet->type == WIRE_CONFIRM && waits == WORKER_LATENCY_CONFIRM_DUE) {
		want->is_answered = true;
		reading->waits[packet->slot] = WORKER_LATENCY_IDLE;
	}
	if (packet->type == WIRE_HELD)
		want->is_held = (waits == WORKER_LATENCY_RESULT_DUE && packet->tag == 0) ||
				(waits == WORKER_LATENCY_CONFIRM_DUE && packet->tag == sent.tag);
}

static void expect(struct reading *reading, const struct worker_latency_event *event,
		   struct worker_latency_actions *want)
{
	*want = (struct worker_latency_actions){ .slot = event->slot };
	if (event->type == WORKER_LATENCY_SUBMIT) {
		*place_of(reading, reading->tail++) =
			(struct worker_latency_op_state){ .op = *event->op };
	} else if (event->type == WORKER_LATENCY_START) {
		start(reading, want);
	} else if (event->type == WORKER_LATENCY_PACKET) {
		arrive(reading, event->packet, want);
	} else if (reading->waits[event->slot] == WORKER_LATENCY_RESULT_DUE) {
		want->resend = true;
	} else {
		want->ack = true;
		want->header = wire_of(reading, user_of(reading, event->slot), LATENCY_ACK);
		want->header.flags = 0x80;
	}
}

/* ---- what does happen ---- */

static const char *actions_differ(const struct worker_latency_actions *got,
				  const struct worker_latency_actions *want)
{
	bool has_slot = want->build || want->resend || want->ack || want->is_answered ||
			want->is_held;

	if (got->is_answered != want->is_answered || got->store != want->store ||
	    got->is_protocol_error != want->is_protocol_error)
		return "R-LAT-13: what should be accepted is not, or what should not";
	if (got->is_held != want->is_held)
		return "R-LAT-15: a HELD is taken for what it is not";
	if (got->build != want->build || got->ack != want->ack || got->resend != want->resend ||
	    !slow_is_same(&got->header, &want->header))
		return "R-LAT-11, R-LAT-16: what is sent is not what is due";
	if ((has_slot && got->slot != want->slot) ||
	    ((want->store || want->build) && got->op != want->op))
		return "R-LAT-1: another slot or operation than the packet's";
	if (got->is_range != want->is_range || got->done != want->done ||
	    (want->done && got->done_first != want->done_first))
		return "R-LAT-14: what completes is not what has come";
	return NULL;
}

static bool is_left(struct reading *reading, const struct worker_latency *worker)
{
	uint64_t first = reading->config->first;

	if (worker->head != first + reading->head || worker->next != first + reading->next ||
	    worker->tail != first + reading->tail)
		return false;
	for (uint32_t i = 0; i < reading->config->slots; i++) {
		const struct worker_latency_slot *slot = &worker->slot[i];
		uint32_t op = user_of(reading, i);
		struct wire sent = { 0 };

		if (op != NEVER)
			sent = wire_of(reading, op, LATENCY_UPDATE);
		if ((op != NEVER && slot->k != first + op) || slot->state != reading->waits[i] ||
		    slot->seq != sent.seq || slot->tag != sent.tag || slot->lanes != sent.lanes)
			return false;
	}
	for (uint32_t i = 0; i < worker->ops_max; i++) {
		const struct worker_latency_op_state *at = &worker->ops[i];
		const struct worker_latency_op_state *want = &reading->place[i];

		if (at->op.cookie != want->op.cookie || at->op.hash != want->op.hash ||
		    at->op.count != want->op.count || at->is_stored != want->is_stored ||
		    at->is_range != want->is_range)
			return false;
	}
	for (uint32_t op = reading->head; op < reading->tail; op++)
		if (worker_latency_op(worker, first + op)->op.cookie !=
		    place_of(reading, op)->op.cookie)
			return false;
	return true;
}

static const char *event_differs(const struct reading *was,
				 const struct worker_latency_event *event)
{
	struct worker_latency_slot slots[LATENCY_SLOTS + 1];
	struct worker_latency_op_state ops[LATENCY_OPS];
	struct worker_latency worker = *was->worker;
	struct worker_latency_actions got, want;
	struct reading reading = *was;
	const char *wrong;

	memcpy(slots, worker.slot, worker.slots * sizeof(*slots));
	slots[worker.slots] = slots[event->slot]; /* nobody's: it must not be looked at */
	memcpy(ops, worker.ops, worker.ops_max * sizeof(*ops));
	worker.slot = slots;
	worker.ops = ops;
	worker_latency_step(&worker, event, &got);
	expect(&reading, event, &want);
	wrong = actions_differ(&got, &want);
	if (!wrong && !is_left(&reading, &worker))
		wrong = "R-LAT: a worker is not left as the rules say";
	return wrong;
}

/* Makes of a packet about an operation another one: change number `i` of NEARLY. */
static void nearly(const struct reading *was, uint32_t i, uint32_t op, struct wire *packet)
{
	static const uint8_t flags[] = { WIRE_RANGE, WIRE_NONFINITE, WIRE_RESENT, WIRE_DETAIL,
					 WIRE_MAX << WIRE_OP_SHIFT };
	uint32_t slots = was->config->slots;

	if (i < 5)
		packet->flags ^= flags[i];
	else if (i < 7)
		packet->seq += i == 5 ? 1 : UINT32_MAX;
	else if (i < 9)
		packet->generation += i == 7 ? 1 : UINT32_MAX;
	else if (i < 11)
		packet->slot = (uint16_t)(i == 9 ? (packet->slot + 1) % slots : slots);
	else if (i < 13)
		packet->lanes = i == 11 ? 0 : packet->lanes + WIRE_LANES_STEP;
	else if (i < 15)
		packet->tag = i == 13 ? 0 : packet->tag ^ 1;
	else if (i < 17) /* the neighbour's, and that of the slot's other round */
		packet->tag =
			wire_of(was, (op + (i == 15 ? 1 : slots)) % LATENCY_OPS, LATENCY_ACK).tag;
	else if (i == 17)
		packet->job ^= 1;
	else if (i == 18)
		packet->child ^= 1;
	else if (i == 19)
		packet->exponent = 1;
}

/* All types about a slot's operation (the first that it will have, if none), with up to two changes. */
static const char *packets_differ(const struct reading *was, uint32_t slot)
{
	uint32_t op = user_of(was, slot) == NEVER ? slot : user_of(was, slot);
	const char *wrong = NULL;
	struct wire packet;
	struct worker_latency_event event = { .type = WORKER_LATENCY_PACKET,
					      .slot = slot,
					      .packet = &packet };

	for (uint32_t i = 0; i < NEARLY * NEARLY * WIRE_HELLO && !wrong; i++) {
		uint32_t a = i / WIRE_HELLO % NEARLY, b = i / WIRE_HELLO / NEARLY;

		if (b > a)
			continue;
		packet = wire_of(was, op, LATENCY_UPDATE);
		packet.type = (uint8_t)(i % WIRE_HELLO);
		nearly(was, a, op, &packet);
		if (b != a)
			nearly(was, b, op, &packet);
		wrong = event_differs(was, &event);
	}
	return wrong;
}

const char *slow_worker_latency(const struct latency_config *config,
				const struct worker_latency *worker)
{
	struct worker_latency_op more = { .hash = 5, .cookie = UINT64_MAX, .count = 3 };
	struct worker_latency_event event = { .type = WORKER_LATENCY_START, .op = &more };
	const char *wrong = NULL;
	struct reading was;
	uint32_t slot;

	if (!slow_is_asked())
		return NULL;
	reading_load(config, worker, &was);
	for (uint32_t op = was.head; op < was.tail; op++)
		if (place_of(&was, op)->op.cookie != LATENCY_COOKIE + op)
			return "R-LAT-12: an operation is not in its place";
	if (worker_latency_may_start(worker, &slot) != may_start(&was) ||
	    worker_latency_has_room(worker) != (was.tail - was.head < worker->ops_max))
		return "R-LAT-12: an operation starts too early, or too late";
	if (may_start(&was) && slot != was.next % config->slots)
		return "R-LAT-12: an operation starts in another's slot";
	if (may_start(&was))
		wrong = event_differs(&was, &event);
	event.type = WORKER_LATENCY_SUBMIT;
	if (!wrong && worker_latency_has_room(worker))
		wrong = event_differs(&was, &event);
	for (uint32_t i = 0; i < config->slots && !wrong; i++) {
		event.type = WORKER_LATENCY_RESEND;
		event.slot = i;
		if (was.waits[i] != WORKER_LATENCY_IDLE)
			wrong = event_differs(&was, &event);
		if (!wrong)
			wrong = packets_differ(&was, i);
	}
	return wrong;
}
