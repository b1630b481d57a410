/* SPDX-License-Identifier: Apache-2.0 */
/* data_world.c - the machines of data.h's model; see data_world.h. */
#include "search/data_world.h"

#include <assert.h>
#include <string.h>

#include "core/hash.h"

struct packet packets[PACKETS];
uint32_t packets_count;
static uint16_t packets_table[TABLE];

void packets_forget(void)
{
	packets_count = 0;
	memset(packets_table, 0, sizeof(packets_table));
}

/* ---- what is to be summed, known without any protocol ---- */

static int32_t value_of(uint32_t worker, uint32_t chunk, enum wire_round round, uint32_t lane)
{
	static const int32_t scale[DATA_WORKERS] = { 1, -1000, 1000000 };

	return (int32_t)(chunk * 8 + lane + 1 + (round == WIRE_DETAIL ? 400 : 0)) * scale[worker];
}

static uint32_t exponent_of(uint32_t worker, uint32_t chunk)
{
	return 100 + (worker * 5 + chunk * 3) % 7;
}

static uint32_t exponent_max(const struct data_config *config, uint32_t chunk)
{
	uint32_t max = 0;

	for (uint32_t w = 0; w < config->workers; w++)
		max = exponent_of(w, chunk) > max ? exponent_of(w, chunk) : max;
	return max;
}

uint32_t op_first_chunk(const struct data_config *config, uint32_t op)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < op; i++)
		first += (uint32_t)map_chunks(config->ops[i].elements, DATA_LANES);
	return first;
}

static uint32_t chunk_number(const struct data_config *config, const struct worker_chunk *chunk)
{
	return op_first_chunk(config, (uint32_t)chunk->cookie) +
	       (uint32_t)(chunk->first / DATA_LANES);
}

static uint64_t op_hash(uint32_t op)
{
	return 0x1234567ull * (op + 1);
}

struct worker_op op_make(const struct data_config *config, uint32_t op)
{
	return (struct worker_op){ .hash = op_hash(op),
				   .count = config->ops[op].elements,
				   .cookie = op,
				   .stream = MAP_BULK,
				   .is_scaled = config->ops[op].is_scaled };
}

static const char *round_name(uint8_t flags)
{
	static const char *const names[] = { "DATA", "EXPONENT", "DETAIL", "?" };

	return names[wire_round_of(flags)];
}

/* The chunk that a tag stands for, for people. */
static int tag_chunk(const struct data_config *config, uint32_t tag)
{
	for (uint32_t op = 0, chunk = 0; op < config->ops_count; op++)
		for (uint32_t i = 0; i < map_chunks(config->ops[op].elements, DATA_LANES);
		     i++, chunk++)
			if (map_tag(op_hash(op), i) == tag)
				return (int)chunk;
	return -1;
}

void say_packet(struct bfs *bfs, const struct data_config *config, uint32_t number)
{
	static const char *const names[] = { "?",    "UPDATE", "PROBE",   "RESULT",
					     "HELD", "ACK",    "CONFIRM", "NEED" };
	const struct packet *packet = &packets[number];

	bfs_say(bfs, "%s[life %u slot %u seq %u", names[packet->wire.type],
		packet->wire.generation - GENERATION, packet->wire.slot, packet->wire.seq);
	if (packet->wire.type == WIRE_UPDATE || packet->wire.type == WIRE_RESULT)
		bfs_say(bfs, " %s chunk %d, %u lanes", round_name(packet->wire.flags),
			tag_chunk(config, packet->wire.tag), packet->wire.lanes);
	bfs_say(bfs, "]");
}

/* ---- packets and sets of them ---- */

static uint32_t packet_number(const struct packet *packet)
{
	uint64_t hash = hash_bytes(HASH_BEGIN, packet, sizeof(*packet));

	for (uint32_t at = (uint32_t)(hash % TABLE);; at = (at + 1) % TABLE) {
		if (!packets_table[at]) {
			assert(packets_count < PACKETS);
			packets[packets_count] = *packet;
			packets_table[at] = (uint16_t)++packets_count;
		}
		if (!memcmp(&packets[packets_table[at] - 1], packet, sizeof(*packet)))
			return packets_table[at] - 1u;
	}
}

bool set_has(const struct state *state, uint32_t number)
{
	return state->sent[number / 64] >> number % 64 & 1;
}

void set_put(struct state *state, uint32_t number)
{
	state->sent[number / 64] |= 1ull << number % 64;
}

void set_take(struct state *state, uint32_t number)
{
	state->sent[number / 64] &= ~(1ull << number % 64);
}

static void make(struct outcome *outcome, const struct packet *packet)
{
	assert(outcome->count < ANSWERS);
	outcome->packets[outcome->count++] = packet_number(packet);
}

static void broken(struct outcome *outcome, const char *violation)
{
	if (!outcome->violation)
		outcome->violation = violation;
}

/* The UPDATE that a worker has built for a round, if any. */
static const struct packet *update_of(const struct state *state, uint32_t worker,
				      const struct wire *round)
{
	for (uint32_t i = 0; i < packets_count; i++)
		if (set_has(state, i) && packets[i].to == TO_SWITCH &&
		    packets[i].wire.type == WIRE_UPDATE && packets[i].wire.child == worker &&
		    packets[i].wire.generation == round->generation &&
		    packets[i].wire.slot == round->slot && packets[i].wire.seq == round->seq)
			return &packets[i];
	return NULL;
}

/* ---- the worker ---- */

static uint32_t slots_all(const struct data_config *config)
{
	return MAP_EXPRESS_SLOTS_MIN + config->pool;
}

void scratch_init(const struct data_config *config, struct scratch *scratch)
{
	struct worker_memory memory = { &scratch->shard,
					scratch->slots,
					{ scratch->ops[0], scratch->ops[1] } };
	struct map map;

	if (!map_init(&map, 1, slots_all(config), 1))
		assert(0);
	worker_init(&scratch->worker, &map, slots_all(config), DATA_LANES, DATA_OPS, &memory);
	for (uint32_t i = 0; i < slots_all(config); i++)
		scratch->slots[i].seq = config->first_seq;
}

void worker_load(const struct data_config *config, const struct worker_state *from,
		 struct scratch *scratch)
{
	struct worker_stream *stream;

	scratch_init(config, scratch);
	stream = &scratch->worker.stream[MAP_BULK];
	scratch->shard.generation = from->generation;
	scratch->shard.next[MAP_BULK] = from->next;
	for (uint32_t op = 0; op < from->submitted; op++) {
		stream->ops[op] = (struct worker_op_state){
			.op = op_make(config, op),
			.first = op_first_chunk(config, op),
			.chunks = map_chunks(config->ops[op].elements, DATA_LANES),
			.done = from->done[op],
		};
	}
	stream->head = from->head;
	stream->tail = from->submitted;
	stream->chunks = op_first_chunk(config, from->submitted);
	for (uint32_t i = 0; i < config->pool; i++) {
		const struct slot_state *slot = &from->slot[i];

		scratch->slots[MAP_EXPRESS_SLOTS_MIN + i] =
			(struct worker_slot){ .k = slot->k,
					      .op = slot->op,
					      .seq = slot->seq,
					      .tag = slot->tag,
					      .lanes = slot->lanes,
					      .governing = slot->governing,
					      .scale = slot->scale,
					      .state = slot->state,
					      .flags = slot->flags,
					      .is_probed = slot->is_probed,
					      .is_resent = slot->is_resent };
	}
}

void worker_save(const struct data_config *config, const struct scratch *scratch,
		 struct worker_state *to)
{
	const struct worker_stream *stream = &scratch->worker.stream[MAP_BULK];

	to->generation = scratch->shard.generation;
	to->next = (uint8_t)scratch->shard.next[MAP_BULK];
	to->head = (uint8_t)stream->head;
	to->submitted = (uint8_t)stream->tail;
	for (uint32_t op = 0; op < to->submitted; op++)
		to->done[op] = (uint8_t)stream->ops[op].done;
	for (uint32_t i = 0; i < config->pool; i++) {
		const struct worker_slot *slot = &scratch->slots[MAP_EXPRESS_SLOTS_MIN + i];
		struct slot_state *at = &to->slot[i];

		at->seq = slot->seq;
		at->tag = slot->tag;
		at->lanes = slot->lanes;
		at->governing = slot->governing;
		at->scale = slot->scale;
		at->k = (uint8_t)slot->k;
		at->op = (uint8_t)slot->op;
		at->state = slot->state;
		at->flags = slot->flags;
		at->is_probed = config->is_fifo ? slot->is_probed : 0; /* decides only what is sent
									  again: the set has it */
		at->is_resent = 0;                                     /* matters to hints only */
	}
}

/* build: the packet is composed as endpoint.c would, of values that are known beforehand. */
static void worker_build(const struct data_config *config, struct state *state, uint32_t worker,
			 const struct worker_actions *actions, struct outcome *outcome)
{
	struct packet packet = { .wire = actions->header, .to = TO_SWITCH };
	enum wire_round round = (enum wire_round)wire_round_of(actions->header.flags);
	uint32_t chunk = chunk_number(config, &actions->chunk);
	const struct packet *other;

	packet.wire.exponent = WIRE_EXPONENT_UNKNOWN;
	if (actions->look == WORKER_AHEAD_ZERO)
		packet.wire.exponent = 0;
	if (actions->look == WORKER_AHEAD_SCAN)
		packet.wire.exponent =
			(uint16_t)exponent_of(worker, chunk_number(config, &actions->ahead));
	if (round != WIRE_EXPONENT)
		for (uint32_t i = 0; i < actions->chunk.elements; i++)
			packet.lane[i] = value_of(worker, chunk, round, i);
	if (round == WIRE_DATA && config->sticky[worker] >> chunk & 1)
		packet.wire.flags |= WIRE_NONFINITE;
	if (round == WIRE_DATA && config->ops[actions->chunk.cookie].is_scaled &&
	    actions->build_scale != exponent_max(config, chunk))
		broken(outcome,
		       "EXP: a chunk is scaled by an exponent that is not the largest of all");
	other = update_of(state, worker, &packet.wire);
	if (other && memcmp(other, &packet, sizeof(packet)) != 0)
		broken(outcome, "M3: one round of one worker has two contents");
	set_put(state, packet_number(&packet));
	make(outcome, &packet);
}

static void worker_store(const struct data_config *config, struct worker_state *to,
			 const struct worker_actions *actions, const struct packet *packet,
			 struct outcome *outcome)
{
	uint32_t chunk = chunk_number(config, &actions->stored);
	uint8_t before = actions->stored_round == WIRE_DETAIL ? 1 : 0;

	for (uint32_t i = 0; i < actions->stored.elements; i++) {
		int32_t sum = 0;

		for (uint32_t w = 0; w < config->workers; w++)
			sum += value_of(w, chunk, actions->stored_round, i);
		if (packet->lane[i] != sum)
			broken(outcome, "SUM: what is stored is not the sum over all workers");
	}
	if (to->stored[chunk] != before)
		broken(outcome, "W1: a chunk is stored twice, or out of turn");
	to->stored[chunk] = actions->is_amended_later ? 1 : 2;
	if (!actions->is_op_done)
		return;
	for (uint32_t op = (uint32_t)actions->stored.cookie, i = op_first_chunk(config, op);
	     i < op_first_chunk(config, op + 1); i++)
		if (to->stored[i] != 2)
			broken(outcome, "an operation ends before all its chunks are stored");
}

void worker_event(const struct data_config *config, struct state *state, uint32_t worker,
		  const struct worker_event *event, const struct packet *packet,
		  struct outcome *outcome)
{
	struct worker_state *to = &state->worker[worker];
	struct worker_actions actions;
	struct scratch scratch;

	worker_load(config, to, &scratch);
	scratch.shard.child = (uint16_t)worker;
	worker_step(&scratch.worker, event, &actions);
	worker_save(config, &scratch, to);
	if (actions.is_protocol_error)
		broken(outcome, "R-WK-6: an accepted RESULT is of another round");
	if (actions.build)
		worker_build(config, state, worker, &actions, outcome);
	if (actions.store)
		worker_store(config, to, &actions, packet, outcome);
	if (actions.probe) {
		struct packet probe = { .wire = actions.header, .to = TO_SWITCH };

		make(outcome, &probe);
	}
	if (actions.resend) {
		struct wire round = { .generation = to->generation,
				      .slot = (uint16_t)actions.slot,
				      .seq = to->slot[actions.slot - MAP_EXPRESS_SLOTS_MIN].seq };
		const struct packet *again = update_of(state, worker, &round);

		assert(again);
		make(outcome, again);
	}
}

/* ---- the switch ---- */

/* M1: a RESULT is the exact combination over all workers of one round. */
static void result_check(const struct data_config *config, const struct state *state,
			 const struct packet *result, struct outcome *outcome)
{
	int32_t sum[DATA_LANES] = { 0 };
	uint32_t exponent = 0, sticky = 0;

	for (uint32_t w = 0; w < config->workers; w++) {
		const struct packet *update = update_of(state, w, &result->wire);

		if (!update) {
			broken(outcome, "M1: RESULT of a round that some worker has not sent");
			return;
		}
		if (update->wire.tag != result->wire.tag ||
		    update->wire.lanes != result->wire.lanes ||
		    (update->wire.flags ^ result->wire.flags) & WIRE_KIND_MASK) {
			broken(outcome, "M1: RESULT with the tag, lanes or kind of another round");
			return;
		}
		for (uint32_t i = 0; i < update->wire.lanes; i++)
			sum[i] += update->lane[i];
		exponent = update->wire.exponent > exponent ? update->wire.exponent : exponent;
		sticky |= update->wire.flags & WIRE_STICKY_MASK;
	}
	if (memcmp(sum, result->lane, result->wire.lanes * sizeof(*sum)) != 0)
		broken(outcome, "M1: RESULT is not the exact sum");
	if (exponent != result->wire.exponent || sticky != (result->wire.flags & WIRE_STICKY_MASK))
		broken(outcome, "M1: RESULT has another exponent or other flags");
}

enum switch_verdict switch_take(const struct data_config *config, struct state *state,
				const struct packet *packet, struct outcome *outcome)
{
	struct switch_job job = { .generation = GENERATION + state->switch_life,
				  .lanes = DATA_LANES,
				  .slots = (uint16_t)slots_all(config),
				  .enabled = 1 };
	struct packet answer = { .wire = packet->wire };
	uint32_t index = packet->wire.slot - MAP_EXPRESS_SLOTS_MIN;
	enum switch_verdict verdict;

	switch_job_fill(&job, config->workers);
	verdict = switch_admit(&job, &packet->wire);
	if (verdict != SWITCH_ABSORB)
		return verdict;
	verdict = switch_step(&job, &state->slot[index], state->sum[index][0], DATA_LANES,
			      &answer.wire, packet->lane, NULL);
	if (verdict == SWITCH_MISMATCH)
		broken(outcome, "MISMATCH without any disagreement");
	if (verdict == SWITCH_DROP_ALARM)
		broken(outcome, "I2: a phase opens before the last one is complete");
	if (verdict != SWITCH_REPLY && verdict != SWITCH_MULTICAST)
		return verdict;
	if (answer.wire.type == WIRE_RESULT) {
		memcpy(answer.lane, state->sum[index][switch_copy_of(answer.wire.seq)],
		       answer.wire.lanes * sizeof(*answer.lane));
		result_check(config, state, &answer, outcome);
	}
	for (uint32_t w = 0; w < config->workers; w++) {
		answer.to = w;
		if (verdict == SWITCH_MULTICAST || w == packet->wire.child)
			make(outcome, &answer);
	}
	return verdict;
}
