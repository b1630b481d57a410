/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_world.c - the machines of sparse.h's model; see sparse_world.h. */
#include "search/sparse_world.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct sparse_world_worker) == 8, "no padding");
_Static_assert(sizeof(struct sparse_world_switch) == 8 + 3 * SPARSE_PLACES + 8, "no padding");
_Static_assert(sizeof(struct sparse_world_flush) == 8 + SPARSE_PLACES, "no padding");
_Static_assert(sizeof(struct sparse_world_durable) == 12 + SPARSE_PLACES, "no padding");

/* ---- a worker ---- */

struct worker_scratch {
	struct sparse_table table;
	struct worker_sparse worker;
	struct worker_sparse_push push[SPARSE_PUSHES];
};

static void worker_load(const struct sparse_config *config, const struct sparse_state *state,
			uint32_t w, struct worker_scratch *scratch)
{
	const struct sparse_world_worker *from = &state->worker[w];
	struct worker_sparse *worker = &scratch->worker;

	scratch->table = sparse_table_of(config);
	worker_sparse_init(worker, &scratch->table, (uint16_t)w, from->generation, SPARSE_MAP,
			   config->kept, scratch->push);
	worker->low = from->low;
	worker->sent = from->sent;
	worker->next = from->next;
	worker->reached = from->reached;
	for (uint64_t seq = worker->low; seq < worker->next; seq++)
		scratch->push[seq % config->kept] = (struct worker_sparse_push){
			.is_acked = from->acked >> (seq - 1) & 1,
			.is_freed = from->freed >> (seq - 1) & 1,
		};
}

/* X5 is looked at here: a push is freed only when the disk has it. */
static const char *worker_save(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t w, const struct worker_scratch *scratch)
{
	const struct worker_sparse *worker = &scratch->worker;
	struct sparse_world_worker *to = &state->worker[w];
	uint8_t before = to->freed;

	*to = (struct sparse_world_worker){ .generation = (uint8_t)worker->generation,
					    .low = (uint8_t)worker->low,
					    .sent = (uint8_t)worker->sent,
					    .next = (uint8_t)worker->next,
					    .reached = (uint8_t)worker->reached };
	for (uint64_t seq = 1; seq < worker->next; seq++) {
		if (worker_sparse_is_freed(worker, seq))
			to->freed |= (uint8_t)(1 << (seq - 1));
		else if (scratch->push[seq % config->kept].is_acked)
			to->acked |= (uint8_t)(1 << (seq - 1));
	}
	for (uint32_t seq = 1; seq < to->next; seq++) {
		if (!((to->freed & ~before) >> (seq - 1) & 1))
			continue;
		for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
			if (!sparse_times(config, state->server.disk.total[rank], w, seq))
				return "X5: a worker frees a push that is not committed";
	}
	return NULL;
}

static bool load_for_send(const struct sparse_config *config, const struct sparse_state *state,
			  uint32_t w, struct worker_scratch *scratch)
{
	struct worker_sparse_event submit = { .type = WORKER_SPARSE_SUBMIT };
	struct worker_sparse_actions actions;

	worker_load(config, state, w, scratch);
	if (scratch->worker.sent == scratch->worker.next) {
		if (scratch->worker.next > config->pushes ||
		    !worker_sparse_has_room(&scratch->worker))
			return false;
		worker_sparse_step(&scratch->worker, &submit, &actions);
	}
	return worker_sparse_may_send(&scratch->worker);
}

bool sparse_worker_may_send(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t w)
{
	struct worker_scratch scratch;

	return load_for_send(config, state, w, &scratch);
}

/* A PUSH must be that of its number. */
static const char *worker_sends(struct sparse_state *state, uint32_t w,
				const struct worker_sparse_actions *actions)
{
	const struct sparse *header = &actions->header;

	if (header->kind != SPARSE_PUSH || header->worker != w || header->map != SPARSE_MAP ||
	    header->number != actions->seq || header->generation != state->worker[w].generation)
		return "R-SP-18: a PUSH is not that of its seq";
	state->push[header->generation][w] |= (uint8_t)(1 << (actions->seq - 1));
	return NULL;
}

const char *sparse_worker_send(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t w)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_SEND };
	struct worker_sparse_actions actions;
	struct worker_scratch scratch;
	const char *wrong;

	assert(load_for_send(config, state, w, &scratch));
	worker_sparse_step(&scratch.worker, &event, &actions);
	wrong = worker_save(config, state, w, &scratch);
	return wrong ? wrong : worker_sends(state, w, &actions);
}

const char *sparse_worker_take(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t w, const uint8_t *at, uint32_t bytes)
{
	struct sparse packet = { 0 };
	struct worker_sparse_event event = { .type = WORKER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	struct worker_sparse_actions actions;
	struct worker_scratch scratch;
	const char *wrong;

	assert(sparse_check(at, bytes, &packet) == WIRE_OK);
	worker_load(config, state, w, &scratch);
	worker_sparse_step(&scratch.worker, &event, &actions);
	if (actions.is_protocol_error)
		return "R-SP-21: a row covers what was never sent";
	wrong = worker_save(config, state, w, &scratch);
	if (!wrong && actions.send)
		wrong = worker_sends(state, w, &actions);
	return wrong;
}

const char *sparse_worker_timers(const struct sparse_config *config, struct sparse_state *state,
				 uint32_t w, bool *ask)
{
	struct worker_sparse_event event = { .type = WORKER_SPARSE_RESEND };
	struct worker_sparse_actions actions;
	struct worker_scratch scratch;
	const char *wrong = NULL;

	worker_load(config, state, w, &scratch);
	for (event.seq = scratch.worker.low; event.seq < scratch.worker.sent && !wrong;
	     event.seq++) {
		if (!worker_sparse_is_due(&scratch.worker, event.seq))
			continue;
		worker_sparse_step(&scratch.worker, &event, &actions);
		wrong = worker_sends(state, w, &actions);
	}
	*ask = worker_sparse_wants(&scratch.worker);
	return wrong;
}

/* ---- a switch ---- */

struct switch_scratch {
	struct sparse_table table;
	struct switch_sparse state;
	struct switch_sparse_memory memory;
	struct switch_sparse_place place[SPARSE_PLACES];
	uint64_t tag[2 * SPARSE_RANKS];
	int64_t sum[2 * SPARSE_RANKS * SPARSE_DIM];
};

static void switch_load(const struct sparse_config *config, const struct sparse_state *state,
			uint32_t g, struct switch_scratch *scratch)
{
	const struct sparse_world_switch *from = &state->at[g];

	memset(scratch, 0, sizeof(*scratch));
	scratch->table = sparse_table_of(config);
	scratch->memory =
		(struct switch_sparse_memory){ scratch->place, scratch->tag, scratch->sum };
	scratch->state = (struct switch_sparse){ .instance = 100 + g,
						 .generation = from->generation,
						 .epoch = from->epoch,
						 .setup_generation = from->setup_parts ? g : 0,
						 .setup_parts = { from->setup_parts },
						 .map = from->generation ? SPARSE_MAP : 0,
						 .is_busy = from->is_busy };
	for (uint32_t i = 0; i < sparse_places(&scratch->table); i++)
		scratch->place[i] = (struct switch_sparse_place){ from->last[i], from->before[i],
								  from->since[i] };
	for (uint32_t i = 0; i < 2 * SPARSE_RANKS; i++) {
		scratch->tag[i] = from->tag[i / SPARSE_RANKS];
		for (uint32_t k = 0; k < SPARSE_DIM; k++)
			scratch->sum[i * SPARSE_DIM + k] = from->sum[i / SPARSE_RANKS];
	}
}

static const char *switch_save(struct sparse_state *state, uint32_t g,
			       const struct switch_scratch *scratch)
{
	const struct switch_sparse *from = &scratch->state;
	struct sparse_world_switch *to = &state->at[g];

	*to = (struct sparse_world_switch){ .generation = (uint8_t)from->generation,
					    .epoch = (uint8_t)from->epoch,
					    .is_busy = from->is_busy };
	if (!from->generation)
		to->setup_parts = (uint8_t)from->setup_parts[0];
	for (uint32_t i = 0; i < sparse_places(&scratch->table); i++) {
		to->last[i] = (uint8_t)scratch->place[i].last;
		to->before[i] = (uint8_t)scratch->place[i].before;
		to->since[i] = (uint8_t)scratch->place[i].since;
	}
	for (uint32_t i = 0; i < 2 * SPARSE_RANKS; i++) {
		if (scratch->tag[i] != scratch->tag[i / SPARSE_RANKS * SPARSE_RANKS])
			return "X1: a push is in one rank and not in another";
		to->tag[i / SPARSE_RANKS] = (uint8_t)scratch->tag[i];
		for (uint32_t k = 0; k < SPARSE_DIM; k++) {
			if (scratch->sum[i * SPARSE_DIM + k] !=
			    scratch->sum[i / SPARSE_RANKS * SPARSE_RANKS * SPARSE_DIM])
				return "X1: a push is in one rank and not in another";
			to->sum[i / SPARSE_RANKS] = (uint32_t)scratch->sum[i * SPARSE_DIM + k];
		}
	}
	return NULL;
}

uint32_t sparse_switch_part(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t g, uint32_t part, uint8_t *at)
{
	struct switch_scratch scratch;

	switch_load(config, state, g, &scratch);
	return switch_sparse_part(&scratch.table, &scratch.state, &scratch.memory, part, at);
}

/* What is sent of an epoch is the same each time: else one part could be of one time and one of another. */
static const char *parts_are_same(const struct sparse_config *config,
				  const struct sparse_state *state, uint32_t g)
{
	struct switch_scratch scratch;
	uint8_t is[SPARSE_DATAGRAM], was[SPARSE_DATAGRAM];

	if (!state->at[g].is_busy || !state->flush[g][state->at[g].epoch - 1].is_sent)
		return NULL;
	switch_load(config, state, g, &scratch);
	for (uint32_t part = 0; part < sparse_flush_parts(&scratch.table); part++) {
		uint32_t bytes = switch_sparse_part(&scratch.table, &scratch.state, &scratch.memory,
						    part, is);

		if (bytes !=
			    sparse_part_put(config, state, g, state->at[g].epoch - 1u, part, was) ||
		    memcmp(is, was, bytes))
			return "R-SP-11: a part of a flush is another one than at the flip";
	}
	return NULL;
}

const char *sparse_switch_take(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t g, const uint8_t *at, uint32_t bytes)
{
	struct switch_scratch scratch;
	struct sparse packet = { 0 };
	enum switch_sparse_verdict verdict;
	const char *wrong;

	assert(sparse_check(at, bytes, &packet) == WIRE_OK);
	switch_load(config, state, g, &scratch);
	verdict = switch_sparse_step(&scratch.table, &scratch.state, &scratch.memory, &packet, at);
	if (verdict == SWITCH_SPARSE_ADDED || verdict == SWITCH_SPARSE_REPEAT) {
		if (packet.kind == SPARSE_ACK)
			state->ack[packet.generation][packet.worker] |=
				(uint8_t)(1 << (packet.number - 1));
	} else if (verdict == SWITCH_SPARSE_READY) {
		if (packet.number != 100 + g || packet.generation != g)
			return "R-SP-15: READY is not this instance's";
	} else if (verdict == SWITCH_SPARSE_DROP_SHAPE || verdict == SWITCH_SPARSE_DROP_MAP ||
		   verdict == SWITCH_SPARSE_DROP_WORKER || verdict == SWITCH_SPARSE_DROP_KIND) {
		return "a switch calls a sound packet misshapen";
	}
	wrong = switch_save(state, g, &scratch);
	return wrong ? wrong : parts_are_same(config, state, g);
}

bool sparse_switch_may_flip(const struct sparse_config *config, const struct sparse_state *state,
			    uint32_t g)
{
	struct switch_scratch scratch;

	switch_load(config, state, g, &scratch);
	return switch_sparse_may_flip(&scratch.state);
}

const char *sparse_switch_flip(const struct sparse_config *config, struct sparse_state *state,
			       uint32_t g)
{
	uint32_t epoch = state->at[g].epoch;
	struct sparse_world_flush *flush = &state->flush[g][epoch];
	struct switch_scratch scratch;
	const char *wrong;

	assert(epoch <= SPARSE_EPOCHS);
	/* The new epoch's bank is that of the last one but this. */
	if (state->flush[g][epoch - 1].is_sent && epoch > state->server.disk.expected)
		return "X3: an epoch opens on a bank whose flush is not committed";
	*flush = (struct sparse_world_flush){ .is_sent = 1 };
	memcpy(flush->cut, state->at[g].last, sizeof(flush->cut));
	if (state->at[g].tag[epoch & 1] == epoch)
		flush->sum = state->at[g].sum[epoch & 1];
	switch_load(config, state, g, &scratch);
	switch_sparse_flip(&scratch.state);
	wrong = switch_save(state, g, &scratch);
	return wrong ? wrong : parts_are_same(config, state, g);
}

/* ---- the server ---- */

struct server_scratch {
	struct sparse_table table;
	struct server_sparse server;
	struct server_sparse_worker worker[SPARSE_WORKERS];
	uint64_t cut[SPARSE_PLACES], staged[SPARSE_PLACES], tag[SPARSE_RANKS];
	int64_t sum[SPARSE_RANKS * SPARSE_DIM];
	uint8_t has_part[SPARSE_PARTS];
};

static void server_begin(const struct sparse_config *config,
			 const struct sparse_world_durable *from, struct server_scratch *scratch)
{
	struct server_sparse_memory memory = { scratch->cut, scratch->staged,   scratch->sum,
					       scratch->tag, scratch->has_part, scratch->worker };

	memset(scratch->cut, 0, sizeof(scratch->cut));
	memset(scratch->staged, 0, sizeof(scratch->staged));
	memset(scratch->sum, 0, sizeof(scratch->sum));
	scratch->table = sparse_table_of(config);
	server_sparse_init(&scratch->server, &scratch->table, SPARSE_MAP, &memory);
	scratch->server.generation = from->generation;
	scratch->server.expected = from->expected;
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		scratch->cut[i] = from->cut[i];
}

static uint32_t parts_of(const struct server_scratch *scratch)
{
	uint32_t parts = sparse_flush_parts(&scratch->table);

	return parts < SPARSE_PARTS ? parts : SPARSE_PARTS;
}

static void server_load(const struct sparse_config *config, const struct sparse_state *state,
			struct server_scratch *scratch)
{
	const struct sparse_world_server *from = &state->server;
	struct server_sparse *server = &scratch->server;
	uint32_t cut_parts;

	server_begin(config, &from->now, scratch);
	cut_parts = sparse_cut_parts(&scratch->table);
	server->recorded = server->binding = from->pending_count;
	server->instance = from->has_instance ? 100u + from->now.generation : 0;
	server->is_unsaid = from->is_unsaid;
	for (uint32_t part = 0; part < parts_of(scratch); part++) {
		if (!(from->parts >> part & 1))
			continue;
		scratch->has_part[part] = 1;
		server->parts_count++;
		if (part < cut_parts)
			continue;
		for (uint32_t rank = sparse_first_rank(&scratch->table, part); rank < SPARSE_RANKS;
		     rank++)
			if (from->staged_sum[rank])
				scratch->tag[rank] = server->expected;
	}
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		scratch->staged[i] = from->staged[i];
	for (uint32_t i = 0; i < SPARSE_RANKS * SPARSE_DIM; i++)
		scratch->sum[i] = from->staged_sum[i / SPARSE_DIM];
}

static void durable_save(const struct server_scratch *scratch, struct sparse_world_durable *to)
{
	to->generation = (uint8_t)scratch->server.generation;
	to->expected = (uint8_t)scratch->server.expected;
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		to->cut[i] = (uint8_t)scratch->cut[i];
}

static void server_save(struct sparse_state *state, const struct server_scratch *scratch)
{
	struct sparse_world_server *to = &state->server;
	uint32_t cut_parts = sparse_cut_parts(&scratch->table);

	durable_save(scratch, &to->now);
	to->has_instance = scratch->server.instance != 0;
	to->is_unsaid = scratch->server.is_unsaid;
	to->parts = 0;
	memset(to->staged, 0, sizeof(to->staged));
	memset(to->staged_sum, 0, sizeof(to->staged_sum));
	for (uint32_t part = 0; part < parts_of(scratch); part++)
		to->parts |= (uint8_t)(scratch->has_part[part] << part);
	for (uint32_t i = 0; i < SPARSE_PLACES && i < sparse_places(&scratch->table); i++)
		if (to->parts >>
			    (i / scratch->table.window / sparse_rows_per_part(&scratch->table)) &
		    1)
			to->staged[i] = (uint8_t)scratch->staged[i];
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (to->parts >> (cut_parts + rank / sparse_ranks_per_part(&scratch->table)) & 1 &&
		    scratch->tag[rank] == scratch->server.expected)
			to->staged_sum[rank] = (uint32_t)scratch->sum[rank * SPARSE_DIM];
}

/* X1, X2, X6: what the optimiser is given, and what the server then says is in. */
static const char *server_applies(const struct sparse_config *config, struct sparse_state *state,
				  const struct server_scratch *scratch, uint32_t g)
{
	struct sparse_world_durable *now = &state->server.now;

	if (g != now->generation)
		return "X6: a flush of an older generation is applied";
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (server_sparse_is_touched(&scratch->server, rank))
			now->total[rank] += (uint32_t)scratch->sum[rank * SPARSE_DIM];
	for (uint32_t w = 0; w < config->workers; w++) {
		for (uint32_t seq = 1; seq <= config->pushes; seq++) {
			uint32_t times = sparse_times(config, now->total[0], w, seq);
			bool is_covered = sparse_cut_covers(config, now->cut, w, seq);

			if (times > 1)
				return "X1: a push is in the server twice";
			if (times != sparse_times(config, now->total[1], w, seq))
				return "X1: a push is in the server for one rank and not for "
				       "another";
			if (times && !is_covered)
				return "X1: the cut does not cover a push that is in the server";
			if (!times && is_covered)
				return "X1: the cut covers a push that is not in the server: it is "
				       "lost";
		}
	}
	return NULL;
}

/* What may leave does so, now and at any time later. */
static void server_tells(struct sparse_state *state, const struct server_scratch *scratch, bool say)
{
	const struct server_sparse *server = &scratch->server;
	uint32_t g = (uint32_t)server->generation, epoch = (uint32_t)server->expected - 1;

	if (say) {
		state->committed[g] |= (uint8_t)(1 << epoch);
		for (uint32_t i = 0; i < SPARSE_PLACES; i++)
			state->committed_cut[g][epoch][i] = (uint8_t)scratch->cut[i];
	}
	if (server_sparse_may_setup(server) && !state->is_fenced[g]) {
		state->is_fenced[g] = 1;
		state->fence_epoch[g] = (uint8_t)server->expected;
		for (uint32_t i = 0; i < SPARSE_PLACES; i++)
			state->fence_cut[g][i] = (uint8_t)scratch->cut[i];
	}
}

static const char *server_step(const struct sparse_config *config, struct sparse_state *state,
			       const struct server_sparse_event *event)
{
	struct sparse_world_server *server = &state->server;
	struct server_sparse_actions actions;
	struct server_scratch scratch;
	const char *wrong = NULL;

	server_load(config, state, &scratch);
	server_sparse_step(&scratch.server, event, &actions);
	if (event->type == SERVER_SPARSE_FENCE_IT) {
		struct server_sparse_event instance = { .type = SERVER_SPARSE_INSTANCE,
							.number = 100 + scratch.server.generation };
		struct server_sparse_actions none;

		server_sparse_step(&scratch.server, &instance, &none);
	}
	server_save(state, &scratch);
	if (actions.apply)
		wrong = server_applies(config, state, &scratch,
				       (uint32_t)event->packet->generation);
	if (actions.record) {
		assert(server->pending_count < SPARSE_PENDING);
		server->pending[server->pending_count] = server->now;
		server->pending[server->pending_count++].kind = (uint8_t)actions.what.kind;
		scratch.server.recorded = server->pending_count;
	}
	server_tells(state, &scratch, actions.say);
	return wrong;
}

const char *sparse_server_take(const struct sparse_config *config, struct sparse_state *state,
			       const uint8_t *at, uint32_t bytes)
{
	struct sparse packet = { 0 };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	assert(sparse_check(at, bytes, &packet) == WIRE_OK);
	return server_step(config, state, &event);
}

const char *sparse_server_fence(const struct sparse_config *config, struct sparse_state *state)
{
	struct server_sparse_event event = { .type = SERVER_SPARSE_FENCE_IT, .map = SPARSE_MAP };

	return server_step(config, state, &event);
}

/* The disk is what a restart reads: the shipped replay makes it. */
const char *sparse_server_write(const struct sparse_config *config, struct sparse_state *state)
{
	struct sparse_world_server *server = &state->server;
	struct sparse_world_durable record = server->pending[0];
	struct server_sparse_event event = { .type = SERVER_SPARSE_DURABLE, .number = 1 };
	struct server_sparse_record replayed = {
		.kind = (enum server_sparse_record_kind)record.kind,
		.map = SPARSE_MAP,
		.number = 1,
		.generation = record.generation,
		.epoch = record.expected - 1u,
	};
	struct server_sparse_actions actions;
	struct server_scratch scratch;
	uint64_t cut[SPARSE_PLACES];

	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		cut[i] = record.cut[i];
	server_begin(config, &server->disk, &scratch);
	server_sparse_replay(&scratch.server, &replayed, cut);
	durable_save(&scratch, &server->disk);
	memcpy(server->disk.total, record.total, sizeof(record.total));
	record.kind = 0;
	if (memcmp(&server->disk, &record, sizeof(record)))
		return "R-SP-27: a restart would not find what was recorded";

	server_load(config, state, &scratch);
	server_sparse_step(&scratch.server, &event, &actions);
	server_save(state, &scratch);
	server->pending_count--;
	memmove(server->pending, server->pending + 1,
		(SPARSE_PENDING - 1) * sizeof(server->pending[0]));
	memset(&server->pending[SPARSE_PENDING - 1], 0, sizeof(server->pending[0]));
	server_tells(state, &scratch, actions.say);
	return NULL;
}

void sparse_server_die(struct sparse_state *state)
{
	struct sparse_world_server *server = &state->server;
	struct sparse_world_durable disk = server->disk;

	*server = (struct sparse_world_server){ .now = disk, .disk = disk };
}
