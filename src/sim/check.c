/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROUNDS = 4, /* kept of each slot: P - 1, P, P + 1, and one to tell them from older ones */
	TOUCHED_MAX = 8192,
};

/* What workers have sent of one round, as far as it goes through one engine. */
struct round {
	uint32_t seq;
	uint32_t workers; /* 0: nobody yet */
	uint32_t tag;
	uint16_t exponent, lanes;
	uint8_t flags;
	uint32_t givers; /* how many had a lane that is not 0; */
	uint32_t silent; /* and how many sent none */
	uint32_t bare;   /* the workers that said BARE, */
	uint32_t taken;  /* and the one whose lanes a TAKE round has; sets */
	bool is_mixed;   /* they do not agree on what it is */
};

/* One slot of one shard, as the workers have it. */
struct progress {
	uint32_t sent[SIM_WORKERS_MAX];      /* the round whose UPDATE went out last */
	uint32_t delivered[SIM_WORKERS_MAX]; /* whose RESULT has reached the worker */
	uint32_t accepted[SIM_WORKERS_MAX];
	uint64_t hash[SIM_WORKERS_MAX]; /* of the UPDATE of `sent` */
};

/* One slot of one engine, as it was after the last poll that touched it. */
struct seen {
	uint32_t generation, phase, bitmap;
	bool is_final;
};

struct touched {
	uint32_t node, slot, shard;
};

struct check {
	const struct scenario *scenario;
	const struct wiring *wiring;
	uint32_t generation;
	uint32_t engine_generation[WIRING_ENGINES_MAX];
	struct progress *progress; /* shard * slots + slot */
	struct seen *seen;         /* engine * slots + slot */
	struct round *rounds;      /* (engine * slots + slot) * ROUNDS + seq % ROUNDS */
	int32_t *sums;             /* lanes of each round */
	bool has_exact; /* some sums may be, and short rounds then need not be of parts (R-NUM-13) */
	struct touched touched[TOUCHED_MAX];
	uint32_t touched_count;
	struct check_failure failure;
};

void check_fail(struct check *check, uint32_t shard, uint32_t slot, const char *format, ...)
{
	struct check_failure *failure = &check->failure;
	va_list arguments;

	if (failure->is_set)
		return;
	failure->is_set = true;
	failure->shard = shard;
	failure->slot = slot;
	va_start(arguments, format);
	vsnprintf(failure->text, sizeof(failure->text), format, arguments);
	va_end(arguments);
}

const struct check_failure *check_failure(const struct check *check)
{
	return &check->failure;
}

static struct progress *progress_at(const struct check *check, uint32_t shard, uint32_t slot)
{
	return &check->progress[shard * check->scenario->slots + slot];
}

static struct seen *seen_at(const struct check *check, uint32_t engine, uint32_t slot)
{
	return &check->seen[engine * check->scenario->slots + slot];
}

static struct round *round_at(const struct check *check, uint32_t engine, uint32_t slot,
			      uint32_t seq, int32_t **sum)
{
	size_t index = ((size_t)engine * check->scenario->slots + slot) * ROUNDS + seq % ROUNDS;

	*sum = check->sums + index * check->scenario->lanes;
	return &check->rounds[index];
}

/* --- what workers send: into the ledger --- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 29;
}

/* RESENT aside. */
static uint64_t packet_hash(const uint8_t *data, uint32_t bytes)
{
	uint64_t hash = bytes;
	uint64_t word;
	uint32_t last = 0;

	memcpy(&word, data, sizeof(word));
	((uint8_t *)&word)[1] &= (uint8_t)~WIRE_RESENT;
	hash = mix(hash, word);
	uint32_t at = sizeof(word);
	for (; at + sizeof(word) <= bytes; at += (uint32_t)sizeof(word)) {
		memcpy(&word, data + at, sizeof(word));
		hash = mix(hash, word);
	}
	if (at < bytes)
		memcpy(&last, data + at, bytes - at < sizeof(last) ? bytes - at : sizeof(last));
	return mix(hash, last);
}

static bool has_lanes(const struct wire *packet, const int32_t *lane)
{
	uint32_t i = 0;

	while (i < packet->lanes && !lane[i])
		i++;
	return i < packet->lanes;
}

/* R-SW-8 */
static void take_exponent(struct round *round, uint16_t exponent)
{
	uint16_t masks[] = { 0xffff, 0 };

	if (wire_round_of(round->flags) == WIRE_GUESS) {
		masks[0] = 0xff00;
		masks[1] = 0x00ff;
	}
	for (uint32_t i = 0; i < 2; i++)
		if ((exponent & masks[i]) > (round->exponent & masks[i]))
			round->exponent =
				(uint16_t)((round->exponent & ~masks[i]) | (exponent & masks[i]));
}

static void round_add(struct check *check, uint32_t engine, uint32_t worker,
		      const struct wire *packet, const int32_t *lane)
{
	int32_t *sum;
	struct round *round = round_at(check, engine, packet->slot, packet->seq, &sum);
	uint8_t flags = packet->flags & (WIRE_KIND_MASK | WIRE_STICKY_MASK);
	bool is_take = wire_op_of(flags) == WIRE_TAKE;
	bool is_short = wire_op_of(flags) == WIRE_ADD_SHORT;
	uint32_t bare = packet->flags & WIRE_BARE ? 1u << worker : 0;
	uint32_t taken = is_take && packet->lanes ? 1u << worker : 0;

	if (!round->workers || round->seq != packet->seq) {
		*round = (struct round){ .seq = packet->seq,
					 .workers = 1u << worker,
					 .tag = packet->tag,
					 .exponent = packet->exponent,
					 .lanes = packet->lanes,
					 .flags = flags,
					 .bare = bare,
					 .taken = taken,
					 .givers = has_lanes(packet, lane),
					 .silent = !packet->lanes };
		memcpy(sum, lane, packet->lanes * sizeof(*lane));
		return;
	}
	round->workers |= 1u << worker;
	round->bare |= bare;
	round->taken |= taken;
	if (packet->tag != round->tag ||
	    (packet->lanes && round->lanes &&
	     (is_take || (packet->lanes != round->lanes && !is_short))) ||
	    (flags ^ round->flags) & WIRE_KIND_MASK) {
		round->is_mixed = true;
		if (check->scenario->kind != SCENARIO_disagree)
			check_fail(
				check, check->wiring->engine[engine].shard, packet->slot,
				"w%u's round %u is another one than its siblings': tag %08x, flags "
				"%02x, %u lanes, not %08x, %02x, %u",
				worker, packet->seq, packet->tag, flags, packet->lanes, round->tag,
				round->flags, round->lanes);
		return;
	}
	round->givers += has_lanes(packet, lane);
	round->silent += !packet->lanes;
	round->flags |= flags & WIRE_STICKY_MASK;
	take_exponent(round, packet->exponent);
	for (uint32_t i = 0; i < packet->lanes; i++) {
		if (i >= round->lanes)
			sum[i] = lane[i];
		else if (wire_op_of(flags) != WIRE_MAX)
			sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane[i]);
		else if (lane[i] > sum[i])
			sum[i] = lane[i];
	}
	if (packet->lanes > round->lanes)
		round->lanes = packet->lanes;
}

static void worker_update(struct check *check, uint32_t w, uint32_t shard,
			  const struct wire *packet, const struct net_sight *sight)
{
	struct progress *progress = progress_at(check, shard, packet->slot);
	const int32_t *lane = (const int32_t *)(const void *)(sight->data + WIRE_HEADER_BYTES);
	uint64_t hash = packet_hash(sight->data, sight->bytes);

	if (packet->seq == progress->sent[w]) { /* a copy */
		if (!(packet->flags & WIRE_RESENT))
			check_fail(check, shard, packet->slot, "M3: w%u's copy of %u is not marked",
				   w, packet->seq);
		if (hash != progress->hash[w])
			check_fail(check, shard, packet->slot,
				   "M3: w%u's copy of %u is not what it sent first", w,
				   packet->seq);
		return;
	}
	if (packet->seq != progress->sent[w] + 1)
		check_fail(check, shard, packet->slot, "M3: w%u sends %u after %u", w, packet->seq,
			   progress->sent[w]);
	else if (progress->delivered[w] != progress->sent[w])
		check_fail(check, shard, packet->slot, "M3: w%u sends %u without the result of %u",
			   w, packet->seq, progress->sent[w]);
	if (packet->flags & WIRE_RESENT)
		check_fail(check, shard, packet->slot, "M3: w%u's first copy of %u says RESENT", w,
			   packet->seq);
	progress->sent[w] = packet->seq;
	progress->hash[w] = hash;
	for (uint32_t e = check->wiring->engine_of[shard][w]; e != WIRING_ENGINES_MAX;
	     e = check->wiring->engine[e].parent)
		round_add(check, e, w, packet, lane);
}

static void worker_ack(struct check *check, uint32_t w, uint32_t shard, const struct wire *packet)
{
	const struct progress *progress = progress_at(check, shard, packet->slot);

	if (packet->seq != progress->sent[w] || packet->seq != progress->delivered[w])
		check_fail(check, shard, packet->slot,
			   "w%u acknowledges %u, has sent %u and been given %u", w, packet->seq,
			   progress->sent[w], progress->delivered[w]);
}

static void worker_sent(struct check *check, const struct net_sight *sight,
			const struct wire *packet)
{
	uint32_t w = sight->from;

	if (packet->type == WIRE_HELLO || packet->generation != check->generation)
		return; /* G1 is asserted where something of an old life has an effect */
	if (sight->to == NET_NODES_MAX || wiring_is_worker(check->wiring, sight->to)) {
		check_fail(check, CHECK_NO_SLOT, 0, "w%u sends to a stranger", w);
		return;
	}
	uint32_t engine = wiring_engine(check->wiring, sight->to);
	uint32_t shard = check->wiring->engine[engine].shard;
	if (check->wiring->engine_of[shard][w] != engine ||
	    packet->slot >= check->scenario->slots || packet->lanes > check->scenario->lanes) {
		check_fail(check, shard, CHECK_NO_SLOT, "w%u sends where it is no child", w);
		return;
	}
	const struct progress *progress = progress_at(check, shard, packet->slot);
	if (packet->type == WIRE_UPDATE)
		worker_update(check, w, shard, packet, sight);
	else if (packet->type == WIRE_ACK && check->scenario->latency_window)
		worker_ack(check, w, shard, packet);
	else if (packet->type != WIRE_PROBE)
		check_fail(check, shard, packet->slot, "w%u sends type %u", w, packet->type);
	else if (packet->seq != progress->sent[w] || packet->seq == progress->accepted[w])
		check_fail(check, shard, packet->slot, "w%u probes %u, which it does not wait for",
			   w, packet->seq);
}

/* --- what switches send: against the ledger --- */

/* R-WK-13: a chunk of one part comes from one worker; any other is of several, of which one may keep its lanes
 * (R-WK-15). Elements are not 0 (oracle.c). */
static bool is_of_its_owners(const struct check *check, const struct round *round)
{
	if (wire_op_of(round->flags) == WIRE_TAKE)
		return round->givers == (round->lanes > 0);
	return check->has_exact || wire_op_of(round->flags) != WIRE_ADD_SHORT ||
	       round->givers + round->silent > 1;
}

/* R-SW-15: nobody who wants lanes gets none; `workers` are those that the RESULT is for. */
static bool has_its_lanes(const struct round *round, uint32_t workers, const struct wire *packet)
{
	if (packet->type != WIRE_RESULT || packet->lanes)
		return packet->lanes == round->lanes;
	return !round->lanes || !(workers & ~round->bare) || workers & round->taken;
}

/* Is the packet the combination of what `ledger`'s workers have sent? */
static void combination_check(struct check *check, const char *rule, uint32_t from, uint32_t ledger,
			      uint32_t workers, const struct wire *packet, const uint8_t *data)
{
	int32_t *sum;
	const struct round *round = round_at(check, ledger, packet->slot, packet->seq, &sum);
	uint32_t shard = check->wiring->engine[ledger].shard;
	const char *wrong = NULL;
	char name[16];

	if (round->seq != packet->seq || round->workers != check->wiring->engine[ledger].workers)
		wrong = "not all workers have sent it";
	else if (round->is_mixed)
		wrong = "the workers do not agree on what it is";
	else if (round->tag != packet->tag)
		wrong = "another tag";
	else if (!has_its_lanes(round, workers, packet))
		wrong = "another number of lanes";
	else if (round->flags != (packet->flags & (WIRE_KIND_MASK | WIRE_STICKY_MASK)))
		wrong = "other flags";
	else if (round->exponent != packet->exponent)
		wrong = "another exponent";
	else if (memcmp(sum, data + WIRE_HEADER_BYTES, packet->lanes * sizeof(*sum)) != 0)
		wrong = "a wrong sum";
	else if (ledger == check->wiring->engine[ledger].root && !is_of_its_owners(check, round))
		wrong = "of parts, and not sent by whom they are of";
	if (!wrong)
		return;
	wiring_name(check->wiring, wiring_node(check->wiring, from), name);
	check_fail(check, shard, packet->slot, "%s: %s sends type %u of round %u: %s", rule, name,
		   packet->type, packet->seq, wrong);
}

static void confirm_check(struct check *check, uint32_t shard, const struct wire *packet)
{
	const struct progress *progress = progress_at(check, shard, packet->slot);

	for (uint32_t w = 0; w < check->scenario->workers; w++)
		if ((int32_t)(progress->delivered[w] - packet->seq) < 0)
			check_fail(check, shard, packet->slot,
				   "CONFIRM of %u, and w%u has no result of it", packet->seq, w);
}

/* The workers at a place of the network, or below it; none at a port that a worker had before. */
static uint32_t workers_of(const struct check *check, uint32_t node)
{
	if (node == NET_NODES_MAX)
		return 0;
	if (wiring_is_worker(check->wiring, node))
		return 1u << node;
	return check->wiring->engine[wiring_engine(check->wiring, node)].workers;
}

static void engine_sent(struct check *check, const struct net_sight *sight,
			const struct wire *packet)
{
	uint32_t e = wiring_engine(check->wiring, sight->from);
	const struct wiring_engine *engine = &check->wiring->engine[e];

	if (packet->type == WIRE_WELCOME)
		return;
	if (packet->generation != check->engine_generation[e])
		check_fail(check, engine->shard, packet->slot,
			   "G1: a switch sends of generation %u", packet->generation);
	if (packet->generation != check->generation)
		return; /* the new life has not begun for everybody: no worker has sent anything */
	if (packet->type == WIRE_RESULT)
		combination_check(check, "M1", e, engine->root, workers_of(check, sight->to),
				  packet, sight->data);
	else if (packet->type == WIRE_UPDATE)
		combination_check(check, "M2", e, e, 0, packet, sight->data);
	else if (packet->type == WIRE_HELD && sight->to < check->wiring->workers &&
		 (int32_t)(progress_at(check, engine->shard, packet->slot)->sent[sight->to] -
			   packet->seq) < 0)
		check_fail(check, engine->shard, packet->slot, "HELD of %u, which w%u never sent",
			   packet->seq, sight->to);
	else if (packet->type == WIRE_CONFIRM)
		confirm_check(check, engine->shard, packet);
}

/* --- what has arrived: to be looked at after the poll --- */

static void taken(struct check *check, const struct net_sight *sight, const struct wire *packet)
{
	const struct wiring *wiring = check->wiring;
	bool is_worker = wiring_is_worker(wiring, sight->to);
	uint32_t engine = wiring_engine(wiring, is_worker ? sight->from : sight->to);

	if (packet->generation != check->generation || packet->slot >= check->scenario->slots ||
	    engine >= wiring->engines || packet->type == WIRE_HELLO || packet->type == WIRE_WELCOME)
		return;
	uint32_t shard = wiring->engine[engine].shard;
	if (is_worker) {
		struct progress *progress = progress_at(check, shard, packet->slot);
		if (packet->type != WIRE_RESULT)
			return;
		if (packet->seq == progress->sent[sight->to])
			progress->delivered[sight->to] = packet->seq;
	}
	if (check->touched_count == TOUCHED_MAX)
		check_fail(check, shard, packet->slot,
			   "the simulator's list of slots is too short");
	else
		check->touched[check->touched_count++] =
			(struct touched){ .node = sight->to, .shard = shard, .slot = packet->slot };
}

void check_sight(struct check *check, const struct net_sight *sight, const struct wire *packet)
{
	if (sight->fate == NET_TAKEN)
		taken(check, sight, packet);
	else if (!net_is_sending(sight->fate))
		return;
	else if (wiring_is_worker(check->wiring, sight->from))
		worker_sent(check, sight, packet);
	else
		engine_sent(check, sight, packet);
}

/* --- after a poll --- */

/* The worker's slot is at round `seq`, and waits for its result or does not. */
static void worker_slot_check(struct check *check, uint32_t w, uint32_t seq, bool is_waiting,
			      const struct touched *at)
{
	struct progress *progress = progress_at(check, at->shard, at->slot);
	uint32_t accepted = seq - is_waiting;

	if (seq != progress->sent[w])
		check_fail(check, at->shard, at->slot, "w%u is at round %u and has sent %u", w, seq,
			   progress->sent[w]);
	if (accepted != progress->accepted[w] && accepted != progress->accepted[w] + 1)
		check_fail(check, at->shard, at->slot, "W1: w%u accepts %u after %u", w, accepted,
			   progress->accepted[w]);
	if (accepted != progress->delivered[w])
		check_fail(check, at->shard, at->slot, "W1: w%u has accepted %u and been given %u",
			   w, accepted, progress->delivered[w]);
	progress->accepted[w] = accepted;
}

void check_worker(struct check *check, uint32_t number, const struct worker *worker)
{
	for (uint32_t i = 0; i < check->touched_count; i++) {
		const struct touched *at = &check->touched[i];
		const struct worker_slot *slot =
			&worker->slot[(size_t)at->shard * check->scenario->slots + at->slot];

		if (at->node == number)
			worker_slot_check(check, number, slot->seq,
					  slot->state == WORKER_OUTSTANDING, at);
	}
	check->touched_count = 0;
}

void check_worker_latency(struct check *check, uint32_t number, const struct worker_latency *worker)
{
	for (uint32_t i = 0; i < check->touched_count; i++) {
		const struct touched *at = &check->touched[i];
		const struct worker_latency_slot *slot = &worker->slot[at->slot];

		if (at->node == number)
			worker_slot_check(check, number, slot->seq,
					  slot->state == WORKER_LATENCY_RESULT_DUE, at);
	}
	check->touched_count = 0;
}

/* L1 to L3 for a worker that is a child, or further below. */
static void worker_phase_check(struct check *check, uint32_t e, uint32_t slot, uint32_t w,
			       const struct seen *now)
{
	uint32_t shard = check->wiring->engine[e].shard;
	const struct progress *progress = progress_at(check, shard, slot);
	int32_t ahead = (int32_t)(progress->sent[w] - now->phase);

	if (ahead < -1 || ahead > 1)
		check_fail(check, shard, slot, "L1: w%u is at round %u, the switch at phase %u", w,
			   progress->sent[w], now->phase);
	if (ahead == 1 && !now->is_final)
		check_fail(check, shard, slot, "L2: w%u is at round %u before %u is final", w,
			   progress->sent[w], now->phase);
	if (check->wiring->engine_of[shard][w] == e &&
	    now->bitmap >> check->wiring->child_of[shard][w] & 1 && ahead < 0)
		check_fail(check, shard, slot, "L3: w%u is in the bitmap of %u and has sent %u", w,
			   now->phase, progress->sent[w]);
}

/* S3 and L4 for a child that is a node. */
static void node_phase_check(struct check *check, uint32_t e, uint32_t slot, uint32_t child,
			     const struct seen *now)
{
	const struct wiring_engine *engine = &check->wiring->engine[e];
	uint32_t number = engine->child[child].number;
	const struct seen *below = seen_at(check, number, slot);
	uint32_t full = (1u << check->wiring->engine[number].children) - 1;
	int32_t ahead = (int32_t)(below->phase - now->phase);

	if (below->generation != now->generation)
		return;
	if (ahead < -1 || ahead > 1)
		check_fail(check, engine->shard, slot, "L4: phase %u below, %u above", below->phase,
			   now->phase);
	if (now->bitmap >> child & 1 && (ahead < 0 || (!ahead && below->bitmap != full)))
		check_fail(check, engine->shard, slot,
			   "S3: a node is in the bitmap of %u before it is complete", now->phase);
}

/* I2 and I3: what has changed since the last look. */
static void step_check(struct check *check, uint32_t e, uint32_t slot, const struct seen *was,
		       const struct seen *now)
{
	const struct wiring *wiring = check->wiring;
	uint32_t shard = wiring->engine[e].shard;
	const struct progress *progress = progress_at(check, shard, slot);

	if (now->phase == was->phase) {
		if (was->bitmap & ~now->bitmap || was->is_final > now->is_final)
			check_fail(check, shard, slot, "S3: phase %u lost a child", now->phase);
		return;
	}
	if (now->phase != was->phase + 1 || !was->is_final)
		check_fail(check, shard, slot, "I2: phase %u opens after %u (%s)", now->phase,
			   was->phase, was->is_final ? "final" : "not final");
	for (uint32_t w = 0; w < wiring->workers; w++)
		if ((int32_t)(progress->sent[w] - (now->phase - 1)) < 0)
			check_fail(check, shard, slot,
				   "I3: phase %u opens, and w%u has sent only %u", now->phase, w,
				   progress->sent[w]);
	for (uint32_t w = 0; w < wiring->workers && check->scenario->latency_window; w++)
		if ((int32_t)(progress->delivered[w] - (now->phase - 1)) < 0)
			check_fail(check, shard, slot,
				   "I3: round %u opens, and w%u has accepted only %u", now->phase,
				   w, progress->delivered[w]);
}

/* In latency mode a round is final when it is complete: there is nobody above. */
static bool slot_look(const struct check *check, uint32_t e, const struct engine_soft *engine,
		      uint32_t slot, struct seen *now)
{
	struct switch_latency_slot latency;
	struct switch_slot registers;

	if (check->scenario->latency_window) {
		if (engine_latency_slot_read(engine, sim_job(check->scenario, e), (uint16_t)slot,
					     &latency))
			return false;
		*now = (struct seen){ .generation = latency.generation,
				      .phase = latency.round,
				      .bitmap = (uint32_t)latency.sum_bitmap[0] };
		now->is_final = now->bitmap == (1u << check->wiring->engine[e].children) - 1;
		return true;
	}
	if (engine_slot_read(engine, sim_job(check->scenario, e), (uint16_t)slot, &registers))
		return false;
	*now = (struct seen){ .generation = registers.generation,
			      .phase = registers.phase,
			      .bitmap = (uint32_t)registers.bitmap[0],
			      .is_final = registers.final };
	return true;
}

static void engine_slot_check(struct check *check, uint32_t e, const struct engine_soft *engine,
			      uint32_t slot)
{
	const struct wiring_engine *wired = &check->wiring->engine[e];
	struct seen *was = seen_at(check, e, slot);
	uint32_t full = (1u << wired->children) - 1;
	struct seen now;

	if (!slot_look(check, e, engine, slot, &now)) {
		check_fail(check, wired->shard, slot, "the slot cannot be read");
		return;
	}
	if (now.generation != check->generation)
		return;
	if (now.bitmap & ~full || (now.is_final && now.bitmap != full))
		check_fail(check, wired->shard, slot, "S1: bitmap %x of %x, final %u", now.bitmap,
			   full, now.is_final);
	step_check(check, e, slot, was, &now);
	for (uint32_t w = 0; w < check->wiring->workers; w++)
		if (wired->workers >> w & 1)
			worker_phase_check(check, e, slot, w, &now);
	for (uint32_t child = 0; child < wired->children; child++)
		if (!wired->child[child].is_worker)
			node_phase_check(check, e, slot, child, &now);
	*was = now;
}

void check_engine(struct check *check, uint32_t number, const struct engine_soft *engine)
{
	uint32_t node = wiring_node(check->wiring, number);

	for (uint32_t i = 0; i < check->touched_count; i++)
		if (check->touched[i].node == node)
			engine_slot_check(check, number, engine, check->touched[i].slot);
	check->touched_count = 0;
}

/* --- lives --- */

void check_generation(struct check *check, uint32_t engine, uint32_t generation)
{
	check->engine_generation[engine] = generation;
}

void check_life(struct check *check, uint32_t generation, uint32_t first)
{
	const struct wiring *wiring = check->wiring;
	uint32_t slots = check->scenario->slots;

	check->generation = generation;
	check->touched_count = 0;
	memset(check->rounds, 0, (size_t)wiring->engines * slots * ROUNDS * sizeof(*check->rounds));
	for (uint32_t i = 0; i < wiring->shards * slots; i++) {
		struct progress *progress = &check->progress[i];
		for (uint32_t w = 0; w < wiring->workers; w++)
			progress->sent[w] = progress->delivered[w] = progress->accepted[w] = first;
	}
	for (uint32_t e = 0; e < wiring->engines; e++) {
		check->engine_generation[e] = generation;
		for (uint32_t slot = 0; slot < slots; slot++)
			*seen_at(check, e, slot) = (struct seen){
				.generation = generation,
				.phase = first,
				.bitmap = (1u << wiring->engine[e].children) - 1,
				.is_final = true,
			};
	}
}

struct check *check_open(const struct scenario *scenario, const struct wiring *wiring)
{
	struct check *check = calloc(1, sizeof(*check));
	size_t slots = scenario->slots;

	if (!check)
		return NULL;
	check->scenario = scenario;
	check->wiring = wiring;
	for (uint32_t i = 0; i < SIM_OPS_MAX; i++)
		check->has_exact |= scenario->op[i].type == LANES_FLOAT32 &&
				    scenario->op[i].count && scenario->op[i].op != LANES_COPY;
	check->progress = calloc(wiring->shards * slots, sizeof(*check->progress));
	check->seen = calloc(wiring->engines * slots, sizeof(*check->seen));
	check->rounds = calloc(wiring->engines * slots * ROUNDS, sizeof(*check->rounds));
	check->sums = malloc(wiring->engines * slots * ROUNDS * scenario->lanes * sizeof(int32_t));
	if (!check->progress || !check->seen || !check->rounds || !check->sums) {
		check_close(check);
		return NULL;
	}
	return check;
}

void check_close(struct check *check)
{
	if (!check)
		return;
	free(check->progress);
	free(check->seen);
	free(check->rounds);
	free(check->sums);
	free(check);
}
