/* SPDX-License-Identifier: Apache-2.0 */
/* slow_switch.c - see slow.h. */
#include "core/dense/switch_model.h"
#include "core/latency/switch_latency_model.h"
#include "search/slow.h"

static bool is_left_out;

void slow_leave_out(void)
{
	is_left_out = true;
}

bool slow_is_asked(void)
{
	return !is_left_out;
}

static bool is_same_set(const struct switch_job *job, const uint64_t *set, const bool *want)
{
	uint64_t words[SWITCH_BITMAP_WORDS] = { 0 };

	for (uint32_t i = 0; i < job->children; i++)
		words[i / 64] |= (uint64_t)want[i] << i % 64;
	return !memcmp(words, set, sizeof(words));
}

/* ---- a few children among many ---- */

/* Where the words of a set of children begin and end, and the halves of a word. */
enum { SPREADS = 4, SPREAD = 4 };
static const uint16_t places[SPREADS][SPREAD] = {
	{ 31, 32, 63, 64 },
	{ 0, 65, 127, 128 },
	{ 33, 95, 96, 255 },
	{ 62, 160, 191, 192 },
};

/* The same job with the others' places filled: they are always in. */
static struct switch_job spread_job(const struct switch_job *job, const uint16_t *place)
{
	struct switch_job wide = *job;

	switch_job_fill(&wide, place[job->children - 1] + 1u);
	return wide;
}

static void spread_set(const struct switch_job *job, const uint16_t *place, uint64_t *set)
{
	struct switch_job wide = spread_job(job, place);
	uint64_t words[SWITCH_BITMAP_WORDS] = { 0 };

	for (uint32_t i = 0, child = 0; i < wide.children; i++) {
		bool is_one = place[child] == i, is_in = !is_one || set[0] >> child & 1;

		words[i / 64] |= (uint64_t)is_in << i % 64;
		child += is_one;
	}
	memcpy(set, words, sizeof(words));
}

/* Who is none of them is none of the many either. */
static uint16_t spread_child(const struct switch_job *job, const uint16_t *place, uint16_t child)
{
	if (child < job->children)
		return place[child];
	return child == job->children ? (uint16_t)(place[job->children - 1] + 1) : child;
}

/* ---- dense mode ---- */

static void model_load(const struct switch_job *job, const struct node_state *from,
		       struct model_slot *model)
{
	memset(model, 0, sizeof(*model));
	model->generation = from->slot.generation;
	model->phase = from->slot.phase;
	model->final = from->slot.final;
	for (uint32_t i = 0; i < job->children; i++) {
		model->in[i] = from->slot.bitmap[i / 64] >> i % 64 & 1;
		model->bare[i] = from->slot.bare[i / 64] >> i % 64 & 1;
	}
	for (uint32_t v = 0; v < 2; v++) {
		const struct switch_copy *copy = &from->slot.copy[v];

		model->copy[v].tag = copy->tag;
		model->copy[v].lanes = copy->lanes;
		model->copy[v].flags = copy->flags;
		model->copy[v].exponent = copy->exponent;
		model->copy[v].last = copy->last;
		memcpy(model->copy[v].sum, from->sum[v], sizeof(from->sum[v]));
	}
}

static bool is_same_slot(const struct switch_job *job, const struct node_state *slot,
			 const struct model_slot *model)
{
	if (slot->slot.generation != model->generation || slot->slot.phase != model->phase ||
	    slot->slot.final != model->final || !is_same_set(job, slot->slot.bitmap, model->in) ||
	    !is_same_set(job, slot->slot.bare, model->bare))
		return false;
	for (uint32_t v = 0; v < 2; v++) {
		const struct switch_copy *copy = &slot->slot.copy[v];
		const struct model_copy *want = &model->copy[v];

		if (copy->tag != want->tag || copy->lanes != want->lanes ||
		    copy->flags != want->flags || copy->exponent != want->exponent ||
		    copy->last != want->last ||
		    memcmp(slot->sum[v], want->sum, copy->lanes * sizeof(*want->sum)) != 0)
			return false;
	}
	return true;
}

static const char *switch_differs(const struct switch_job *job, struct node_state *slot,
				  const struct wire *packet, bool is_up, const int32_t *lane)
{
	const int32_t *sum = slot->sum[switch_copy_of(packet->seq)];
	struct model_out out = { .count = 0 };
	enum switch_verdict verdict;
	struct wire answer = *packet;
	struct model_slot model;

	model_load(job, slot, &model);
	if (is_up) {
		model_from_child(job, &model, packet, (const uint32_t *)lane, &out);
		verdict = switch_admit(job, &answer);
		if (verdict == SWITCH_ABSORB)
			verdict = switch_step(job, &slot->slot, slot->sum[0], DATA_LANES, &answer,
					      lane, NULL);
	} else {
		model_from_parent(job, &model, packet, (const uint32_t *)lane, &out);
		verdict = switch_from_parent(job, &slot->slot, slot->sum[0], DATA_LANES, &answer,
					     lane, NULL);
	}
	if (verdict != model_verdict(&out))
		return "R-SW: a verdict is not the one that the rules have";
	if (!is_same_slot(job, slot, &model))
		return "R-SW: a slot is not left as the rules say";
	if (out.count && !model_sent_is(&out, 0, &answer, sum))
		return "R-SW: an answer is not the one that the rules have";
	if (verdict != SWITCH_HELD_UP)
		return NULL;
	switch_probe_up(job, &answer);
	return model_sent_is(&out, 1, &answer, sum) ? NULL
						    : "R-SW-10: a PROBE upwards is another one";
}

bool slow_nearly(uint32_t i, const struct switch_job *job, struct wire *packet)
{
	switch (i) {
	case 0:
		return true;
	case 1:
		packet->tag ^= 1;
		return true;
	case 2:
		packet->flags ^= WIRE_DETAIL;
		return true;
	case 3:
		packet->lanes = packet->lanes ? packet->lanes - WIRE_LANES_STEP : WIRE_LANES_STEP;
		return true;
	case 4:
		packet->flags |= WIRE_MAX << WIRE_OP_SHIFT;
		return true;
	case 5:
		packet->flags |= WIRE_TAKE << WIRE_OP_SHIFT;
		return true;
	case 6:
		packet->flags |= WIRE_RANGE | WIRE_RESENT;
		packet->exponent = 0x8001;
		return true;
	case 7:
		packet->type = packet->type == WIRE_UPDATE ? WIRE_PROBE : WIRE_NEED;
		packet->tag = 9;
		packet->lanes = 0;
		return true;
	case 8:
		packet->type = packet->type == WIRE_UPDATE ? WIRE_ACK : WIRE_HELD;
		packet->lanes = 0;
		return true;
	case 9:
		packet->child = job->children;
		return true;
	case 10:
		packet->child = job->parent_child;
		return true;
	case 11:
		packet->slot = (uint16_t)job->slots;
		return true;
	case 12:
		packet->lanes = job->lanes + WIRE_LANES_STEP;
		return true;
	case 13:
		packet->generation++;
		return true;
	case 14:
		packet->seq++;
		return true;
	case 15:
		packet->seq--;
		return true;
	case 16:
		packet->seq += 2;
		return true;
	case 17:
		packet->flags ^= WIRE_BARE;
		return true;
	default:
		return false;
	}
}

/* place: where the job's children are, NULL: from 0 on. */
static const char *switch_nearly(const struct switch_job *job, const struct node_state *slot,
				 const struct packet *packet, const uint16_t *place)
{
	struct switch_job wide = place ? spread_job(job, place) : *job;
	struct node_state from = *slot;
	const char *wrong = NULL;

	if (place) {
		spread_set(job, place, from.slot.bitmap);
		spread_set(job, place, from.slot.bare);
		for (uint32_t v = 0; v < 2; v++)
			from.slot.copy[v].last = spread_child(job, place, from.slot.copy[v].last);
	}
	for (uint32_t i = 0; !wrong; i++) {
		struct node_state next = from;
		struct wire wire = packet->wire;
		int32_t lane[MODEL_LANES] = { 0 };

		memcpy(lane, packet->lane, sizeof(packet->lane));
		if (!slow_nearly(i, job, &wire))
			break;
		uint16_t sibling = (uint16_t)((wire.child + 1) % job->children);
		if (place && packet->is_up) {
			wire.child = spread_child(job, place, wire.child);
			sibling = spread_child(job, place, sibling);
		}
		wrong = switch_differs(&wide, &next, &wire, packet->is_up, lane);
		/* What that leaves meets the like of it from the next child. */
		if (!packet->is_up || wrong)
			continue;
		wire.child = sibling;
		lane[0] = -lane[0];
		wrong = switch_differs(&wide, &next, &wire, true, lane);
	}
	return wrong;
}

const char *slow_switch(const struct switch_job *job, const struct node_state *slot,
			const struct packet *packet)
{
	const char *wrong = NULL;

	if (!slow_is_asked())
		return NULL;
	wrong = switch_nearly(job, slot, packet, NULL);
	for (uint32_t i = 0; i < SPREADS && !wrong; i++)
		wrong = switch_nearly(job, slot, packet, places[i]);
	return wrong;
}

/* ---- latency mode ---- */

static void latency_load(const struct switch_job *job, const struct switch_latency_slot *from,
			 const int32_t *sum, uint32_t lanes, struct latency_model *model)
{
	memset(model, 0, sizeof(*model));
	model->generation = from->generation;
	model->round = from->round;
	model->tag = from->tag;
	model->lanes = from->lanes;
	model->flags = from->flags;
	model->last = from->last;
	for (uint32_t i = 0; i < job->children; i++) {
		model->in[i] = from->sum_bitmap[i / 64] >> i % 64 & 1;
		model->has_acked[i] = from->ack_bitmap[i / 64] >> i % 64 & 1;
	}
	memcpy(model->sum, sum, lanes * sizeof(*sum));
}

static bool is_same_latency(const struct switch_job *job, const struct switch_latency_slot *slot,
			    const int32_t *sum, const struct latency_model *model)
{
	return slot->generation == model->generation && slot->round == model->round &&
	       slot->tag == model->tag && slot->lanes == model->lanes &&
	       slot->flags == model->flags && slot->last == model->last &&
	       is_same_set(job, slot->sum_bitmap, model->in) &&
	       is_same_set(job, slot->ack_bitmap, model->has_acked) &&
	       memcmp(sum, model->sum, slot->lanes * sizeof(*sum)) == 0;
}

static const char *latency_differs(const struct switch_job *job, struct switch_latency_slot *slot,
				   int32_t *sum, const struct wire *packet, const int32_t *lane)
{
	struct model_out out = { .count = 0 };
	struct wire answer = *packet;
	enum switch_verdict verdict;
	struct latency_model model;

	latency_load(job, slot, sum, job->lanes, &model);
	latency_model_take(job, &model, packet, (const uint32_t *)lane, &out);
	verdict = switch_latency_admit(job, &answer);
	if (verdict == SWITCH_ABSORB)
		verdict = switch_latency_step(job, slot, sum, &answer, lane, lane + MODEL_LANES);
	if (verdict != model_verdict(&out))
		return "R-LAT: a verdict is not the one that the rules have";
	if (!is_same_latency(job, slot, sum, &model))
		return "R-LAT: a slot is not left as the rules say";
	if (out.count && !model_sent_is(&out, 0, &answer, sum))
		return "R-LAT: an answer is not the one that the rules have";
	return NULL;
}

static const char *latency_nearly(const struct switch_job *job,
				  const struct switch_latency_slot *slot, const int32_t *sum,
				  const struct wire *packet, const int32_t *lane,
				  const uint16_t *place)
{
	struct switch_job wide = place ? spread_job(job, place) : *job;
	struct switch_latency_slot from = *slot;
	const char *wrong = NULL;

	/* The model's state does not have it: whoever it was, the answer must say so. */
	from.last = 1000;
	if (place) {
		spread_set(job, place, from.sum_bitmap);
		spread_set(job, place, from.ack_bitmap);
	}
	for (uint32_t i = 0; !wrong; i++) {
		struct switch_latency_slot next = from;
		int32_t next_sum[MODEL_LANES] = { 0 }, next_lane[MODEL_LANES] = { 0 };
		struct wire wire = *packet;

		memcpy(next_sum, sum, job->lanes * sizeof(*sum));
		memcpy(next_lane, lane, job->lanes * sizeof(*lane));
		if (!slow_nearly(i, job, &wire))
			break;
		uint16_t sibling = (uint16_t)((wire.child + 1) % job->children);
		if (place) {
			wire.child = spread_child(job, place, wire.child);
			sibling = spread_child(job, place, sibling);
		}
		wrong = latency_differs(&wide, &next, next_sum, &wire, next_lane);
		if (wrong)
			break;
		wire.child = sibling;
		wrong = latency_differs(&wide, &next, next_sum, &wire, next_lane);
	}
	return wrong;
}

const char *slow_latency(const struct switch_job *job, const struct switch_latency_slot *slot,
			 const int32_t *sum, const struct wire *packet, const int32_t *lane)
{
	const char *wrong;

	if (!slow_is_asked())
		return NULL;
	wrong = latency_nearly(job, slot, sum, packet, lane, NULL);
	for (uint32_t i = 0; i < SPREADS && !wrong; i++)
		wrong = latency_nearly(job, slot, sum, packet, lane, places[i]);
	return wrong;
}
