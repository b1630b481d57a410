/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_server.c - the server of sparse.h's model, and its log; see sparse_world.h. */
#include "search/sparse_world.h"

#include <assert.h>
#include <string.h>

_Static_assert(sizeof(struct sparse_world_durable) == 24, "no padding");
_Static_assert(sizeof(struct sparse_world_record) == 32, "no padding");
_Static_assert(sizeof(struct sparse_state) % 4 == 0, "no padding");

struct scratch {
	struct sparse_table table;
	struct server_sparse server;
	struct server_sparse_worker worker[SPARSE_WORKERS];
	uint64_t cut[SPARSE_PLACES], staged[SPARSE_PLACES], tag[SPARSE_RANKS];
	int64_t sum[SPARSE_RANKS * SPARSE_DIM];
	uint8_t has_part[SPARSE_PARTS];
};

static void begin(const struct sparse_world_durable *from, struct scratch *scratch)
{
	struct server_sparse_memory memory = { scratch->cut, scratch->staged,   scratch->sum,
					       scratch->tag, scratch->has_part, scratch->worker };

	memset(scratch->cut, 0, sizeof(scratch->cut));
	memset(scratch->staged, 0, sizeof(scratch->staged));
	memset(scratch->sum, 0, sizeof(scratch->sum));
	scratch->table = sparse_table_of();
	server_sparse_init(&scratch->server, &scratch->table, from->map, &memory);
	scratch->server.generation = sparse_generation(from->generation);
	scratch->server.expected = from->expected;
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		scratch->cut[i] = from->cut[i];
	for (uint32_t w = 0; w < sparse->workers; w++) {
		scratch->worker[w].incarnation = from->incarnation[w];
		scratch->worker[w].next = from->next[w];
	}
}

static void load_assembly(const struct sparse_world_server *from, struct scratch *scratch)
{
	struct server_sparse *server = &scratch->server;

	server->parts = from->of;
	for (uint32_t part = 0; part < SPARSE_PARTS; part++) {
		scratch->has_part[part] = from->parts >> part & 1;
		server->parts_count += scratch->has_part[part];
	}
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (from->staged_sum[rank])
			scratch->tag[rank] = server->expected;
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		scratch->staged[i] = from->staged[i];
	for (uint32_t i = 0; i < SPARSE_RANKS * SPARSE_DIM; i++)
		scratch->sum[i] = from->staged_sum[i / SPARSE_DIM];
}

static void load(const struct sparse_state *state, struct scratch *scratch)
{
	const struct sparse_world_server *from = &state->server;
	struct server_sparse *server = &scratch->server;

	begin(&from->now, scratch);
	server->recorded = from->pending_count;
	for (uint32_t i = 0; i < from->pending_count; i++)
		if (from->pending[i].kind != SERVER_SPARSE_BATCH)
			server->binding = i + 1;
	server->instance = from->has_instance ? 100u + from->now.generation : 0;
	server->is_unsaid = from->is_unsaid;
	for (uint32_t w = 0; w < sparse->workers; w++)
		scratch->worker[w].ended = from->ended >> w & 1 ? server->expected : 0;
	load_assembly(from, scratch);
}

static void durable_save(const struct scratch *scratch, struct sparse_world_durable *to)
{
	to->generation = (uint8_t)sparse_fences(scratch->server.generation);
	to->expected = (uint8_t)scratch->server.expected;
	to->map = (uint8_t)scratch->server.map;
	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		to->cut[i] = (uint8_t)scratch->cut[i];
	for (uint32_t w = 0; w < sparse->workers; w++) {
		to->incarnation[w] = (uint8_t)scratch->worker[w].incarnation;
		to->next[w] = (uint8_t)scratch->worker[w].next;
	}
}

static void save(struct sparse_state *state, const struct scratch *scratch)
{
	struct sparse_world_server *to = &state->server;

	durable_save(scratch, &to->now);
	to->has_instance = scratch->server.instance != 0;
	to->is_unsaid = scratch->server.is_unsaid;
	to->parts = to->ended = 0;
	memset(to->staged, 0, sizeof(to->staged));
	memset(to->staged_sum, 0, sizeof(to->staged_sum));
	for (uint32_t w = 0; w < sparse->workers; w++)
		if (scratch->worker[w].ended == scratch->server.expected)
			to->ended |= (uint8_t)(1 << w);
	to->of = (uint8_t)scratch->server.parts;
	for (uint32_t part = 0; part < SPARSE_PARTS; part++)
		to->parts |= (uint8_t)(scratch->has_part[part] << part);
	for (uint32_t i = 0; i < SPARSE_PLACES && i < sparse_places(&scratch->table); i++)
		if (to->parts >>
			    (i / scratch->table.window / sparse_rows_per_part(&scratch->table)) &
		    1)
			to->staged[i] = (uint8_t)scratch->staged[i];
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		if (scratch->tag[rank] == scratch->server.expected)
			to->staged_sum[rank] = (uint32_t)scratch->sum[rank * SPARSE_DIM];
}

/* ---- what the optimiser is given ---- */

/* X1: the cut says just which pushes of the lives that the server knows are in. */
static const char *cut_is_true(const struct sparse_world_durable *durable)
{
	for (uint32_t w = 0; w < sparse->workers; w++) {
		uint32_t life = sparse_life_of(durable, w);

		for (uint32_t seq = 1; seq <= sparse->pushes; seq++) {
			bool is_in = sparse_times(durable->total[0], w, life, seq);

			if (is_in && !sparse_cut_covers(durable->cut, w, seq))
				return "X1: the cut does not cover a push that is in the server";
			if (!is_in && sparse_cut_covers(durable->cut, w, seq))
				return "X1: the cut covers a push that is not in the server: it is "
				       "lost";
		}
	}
	return NULL;
}

/* R-SP-30: a flush of a stepped table has its step, whole, and nothing else. */
static const char *step_is_whole(uint32_t epoch, uint32_t sum)
{
	for (uint32_t w = 0; w < sparse->workers; w++)
		for (uint32_t seq = 1; seq <= sparse->pushes; seq++)
			if (sparse_times(sum, w, 0, seq) != ((seq - 1) / sparse->step + 1 == epoch))
				return "R-SP-30: a flush is not just the step of everybody";
	return NULL;
}

static const char *total_add(uint32_t *total, uint32_t sum)
{
	for (uint32_t at = 0; at < 32; at += 2)
		if ((*total >> at & 3) + (sum >> at & 3) > 1)
			return "X1: a push is in the server twice";
	*total += sum;
	return NULL;
}

/* X1, X2, X6 */
static const char *applies_flush(struct sparse_state *state, const struct scratch *scratch,
				 const struct sparse *packet)
{
	struct sparse_world_durable *now = &state->server.now;
	const char *wrong = NULL;

	if (packet->generation != sparse_generation(now->generation))
		return "X6: a flush of an older generation is applied";
	if (packet->number != now->applied + 1u)
		return "X2: a flush is applied twice, or not in the order of epochs";
	now->applied++;
	for (uint32_t rank = 0; rank < SPARSE_RANKS && !wrong; rank++)
		if (server_sparse_is_touched(&scratch->server, rank))
			wrong = total_add(&now->total[rank],
					  (uint32_t)scratch->sum[rank * SPARSE_DIM]);
	if (!wrong && !sparse->is_remapped && now->total[0] != now->total[1])
		wrong = "X1: a push is in the server for one rank and not for another";
	if (!wrong && sparse->step)
		wrong = step_is_whole(now->applied, server_sparse_is_touched(&scratch->server, 0)
							    ? (uint32_t)scratch->sum[0]
							    : 0);
	return wrong ? wrong : cut_is_true(now);
}

static const char *applies_batch(struct sparse_state *state, uint32_t w, uint32_t life,
				 uint32_t number)
{
	struct sparse_world_durable *now = &state->server.now;
	uint8_t *cold = &now->cold[w][life];

	if (life != sparse_life_of(now, w))
		return "R-SP-28: a batch of a dead incarnation counts";
	if (*cold >> (number - 1) & 1)
		return "R-SP-28: a batch is in the server twice";
	*cold |= (uint8_t)(1 << (number - 1));
	if (*cold != (1 << number) - 1)
		return "R-SP-28: a batch is in the server, and not all before it";
	if (!sparse->is_remapped)
		return NULL;
	return total_add(&now->total[1],
			 sparse_value(w, life, state->worker[w].batch_of[number - 1]));
}

/* ---- steps ---- */

/* What may leave does so, now and at any time later. */
static void tells(struct sparse_state *state, const struct scratch *scratch, bool say)
{
	const struct server_sparse *server = &scratch->server;
	uint32_t g = (uint32_t)sparse_fences(server->generation),
		 epoch = (uint32_t)server->expected - 1;

	if (say) {
		state->committed[g] |= (uint8_t)(1 << epoch);
		for (uint32_t i = 0; i < SPARSE_PLACES; i++)
			state->committed_cut[g][epoch][i] = (uint8_t)scratch->cut[i];
	}
	if (server_sparse_may_flip(server))
		state->flip[g] |= (uint8_t)(1 << (epoch + 1));
	if (server_sparse_may_setup(server) && !state->is_fenced[g]) {
		state->is_fenced[g] = 1;
		state->fence_epoch[g] = (uint8_t)server->expected;
		for (uint32_t i = 0; i < SPARSE_PLACES; i++)
			state->fence_cut[g][i] = (uint8_t)scratch->cut[i];
	}
}

static const char *step(struct sparse_state *state, const struct server_sparse_event *event,
			uint32_t life, struct server_sparse_actions *actions)
{
	struct sparse_world_server *server = &state->server;
	struct scratch scratch;
	const char *wrong = NULL;

	load(state, &scratch);
	server_sparse_step(&scratch.server, event, actions);
	if (scratch.server.is_fenced) {
		struct server_sparse_event instance = {
			.type = SERVER_SPARSE_INSTANCE,
			.number = 100 + sparse_fences(scratch.server.generation)
		};
		struct server_sparse_actions none;

		server_sparse_step(&scratch.server, &instance, &none);
	}
	save(state, &scratch);
	if (actions->apply)
		wrong = event->type == SERVER_SPARSE_COLD
				? applies_batch(state, event->worker, life, (uint32_t)event->number)
				: applies_flush(state, &scratch, event->packet);
	if (actions->record) {
		const struct server_sparse_record *what = &actions->what;

		assert(server->pending_count < SPARSE_PENDING);
		server->pending[server->pending_count++] = (struct sparse_world_record){
			.kind = (uint8_t)what->kind,
			.generation = (uint8_t)sparse_fences(what->generation),
			.epoch = (uint8_t)what->epoch,
			.map = (uint8_t)what->map,
			.worker = (uint8_t)what->worker,
			.incarnation = (uint8_t)what->incarnation,
			.batch = (uint8_t)what->batch,
			.after = server->now
		};
	}
	tells(state, &scratch, actions->say);
	return wrong;
}

const char *sparse_server_take(struct sparse_state *state, const uint8_t *at, uint32_t bytes)
{
	struct sparse packet = { 0 };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	struct server_sparse_actions actions;
	enum wire_fault fault = sparse_check(at, bytes, &packet);

	assert(fault == WIRE_OK);
	return step(state, &event, 0, &actions);
}

const char *sparse_server_fence(struct sparse_state *state)
{
	uint32_t g = state->server.now.generation + 1u;
	struct server_sparse_event event = { .type = SERVER_SPARSE_FENCE_IT,
					     .map = sparse_map_of(g),
					     .random = sparse_generation(g) };
	struct server_sparse_actions actions;

	return step(state, &event, 0, &actions);
}

const char *sparse_server_join(struct sparse_state *state, uint32_t w)
{
	struct server_sparse_event event = { .type = SERVER_SPARSE_JOINED,
					     .worker = (uint16_t)w,
					     .random = sparse_generation(
						     state->server.now.generation + 1u),
					     .incarnation = state->worker[w].life + 1u };
	struct server_sparse_actions actions;
	const char *wrong = step(state, &event, 0, &actions);

	if (!wrong && (actions.refuse || !actions.answer))
		return "R-SP-29: a newcomer is refused";
	state->worker[w].joined = state->server.now.generation;
	return wrong;
}

const char *sparse_server_cold(struct sparse_state *state, uint32_t w, uint32_t life,
			       uint32_t number)
{
	struct server_sparse_event event = { .type = SERVER_SPARSE_COLD,
					     .worker = (uint16_t)w,
					     .incarnation = life + 1,
					     .number = number };
	struct server_sparse_actions actions;

	return step(state, &event, life, &actions);
}

/* ---- the disk ---- */

/* Known without the server: what each record must have changed, and what is in the sums. */
static const char *disk_is_true(const struct sparse_world_durable *was,
				const struct sparse_world_durable *disk,
				const struct sparse_world_record *record)
{
	bool is_fence = record->kind == SERVER_SPARSE_FENCE ||
			(record->kind == SERVER_SPARSE_JOIN && was->incarnation[record->worker]);

	if (disk->generation != was->generation + is_fence)
		return "R-SP-27: a restart would be in another generation";
	if (disk->expected != disk->applied + 1)
		return "R-SP-27: a restart would expect another epoch";
	if (disk->map != sparse_map_of(disk->generation))
		return "R-SP-27: a restart would have another map";
	for (uint32_t w = 0; w < sparse->workers; w++)
		if (disk->cold[w][sparse_life_of(disk, w)] + 1 != 1 << (disk->next[w] - 1))
			return "R-SP-27: a restart would take a batch again, or leave one out";
	return cut_is_true(disk);
}

/* The disk is what a restart reads: the shipped replay makes it of what the shipped server wrote. */
const char *sparse_server_write(struct sparse_state *state)
{
	struct sparse_world_server *server = &state->server;
	struct sparse_world_record record = server->pending[0];
	struct sparse_world_durable was = server->disk;
	struct server_sparse_event event = { .type = SERVER_SPARSE_DURABLE, .number = 1 };
	struct server_sparse_record replayed = {
		.kind = (enum server_sparse_record_kind)record.kind,
		.map = record.map,
		.number = 1,
		.generation = sparse_generation(record.generation),
		.epoch = record.epoch,
		.incarnation = record.incarnation,
		.batch = record.batch,
		.worker = record.worker,
	};
	struct server_sparse_actions actions;
	struct scratch scratch;
	uint64_t cut[SPARSE_PLACES];
	const char *wrong;

	for (uint32_t i = 0; i < SPARSE_PLACES; i++)
		cut[i] = record.after.cut[i];
	begin(&server->disk, &scratch);
	server_sparse_replay(&scratch.server, &replayed, cut);
	server->disk = record.after;
	durable_save(&scratch, &server->disk);
	if (memcmp(&server->disk, &record.after, sizeof(record.after)))
		return "R-SP-27: a restart would not find what was in memory";
	wrong = disk_is_true(&was, &server->disk, &record);
	if (wrong)
		return wrong;
	if (record.kind == SERVER_SPARSE_BATCH)
		state->answer[record.worker][record.incarnation - 1] |=
			(uint8_t)(1 << (record.batch - 1));

	load(state, &scratch);
	server_sparse_step(&scratch.server, &event, &actions);
	save(state, &scratch);
	server->pending_count--;
	memmove(server->pending, server->pending + 1,
		(SPARSE_PENDING - 1) * sizeof(server->pending[0]));
	memset(&server->pending[SPARSE_PENDING - 1], 0, sizeof(server->pending[0]));
	tells(state, &scratch, actions.say);
	return NULL;
}

void sparse_server_die(struct sparse_state *state)
{
	struct sparse_world_server *server = &state->server;
	struct sparse_world_durable disk = server->disk;

	*server = (struct sparse_world_server){ .now = disk, .disk = disk };
	for (uint32_t w = 0; w < SPARSE_WORKERS; w++)
		if (disk.incarnation[w] != state->worker[w].life + 1)
			state->worker[w].joined = 0;
}
