/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - see sparse.h. */
#include "search/sparse.h"

#include <assert.h>
#include <string.h>

#include "search/sparse_world.h"

enum move {
	MOVE_SEND = 1,
	MOVE_PUSH,
	MOVE_ACK,
	MOVE_FLIP,
	MOVE_PART,
	MOVE_COMMITTED,
	MOVE_RESUME,
	MOVE_SETUP,
	MOVE_FENCE,
	MOVE_WRITE,
	MOVE_DIE,
	MOVE_END,
	MOVE_END_ARRIVES,
	MOVE_FLIP_ARRIVES,
	MOVE_BATCH,
	MOVE_BATCH_ARRIVES,
	MOVE_ANSWER,
	MOVE_WORKER_DIES,
	MOVE_JOIN,
	MOVE_ADMIT,
	MOVE_RESET,
	MOVE_TOLD,
	MOVE_STRANGER,
};

static uint32_t move_of(enum move move, uint32_t a, uint32_t b, uint32_t c)
{
	return (uint32_t)move << 24 | a << 16 | b << 8 | c;
}

static void emit(struct bfs *bfs, struct sparse_state *next, uint32_t move, const char *violation)
{
	sparse_forget(next);
	if (sparse_swap(next))
		bfs_say(bfs, "; from here on 0 and 1 name the other worker");
	bfs_emit(bfs, next, move, violation);
}

/* ---- workers ---- */

static void expand_send(const struct sparse_state *state, uint32_t w, struct bfs *bfs)
{
	const struct sparse_world_worker *worker = &state->worker[w];
	struct sparse_state next;

	if (sparse_worker_may_send(state, w)) {
		next = *state;
		bfs_say(bfs, "worker %u sends PUSH %u in generation %u", w, worker->sent,
			worker->generation);
		emit(bfs, &next, move_of(MOVE_SEND, w, 0, 0), sparse_worker_send(&next, w));
	}
	if (sparse_worker_may_end(state, w)) {
		next = *state;
		bfs_say(bfs, "worker %u sends END of step %u in generation %u", w, worker->step,
			worker->generation);
		emit(bfs, &next, move_of(MOVE_END, w, 0, 0), sparse_worker_end(&next, w));
	}
	if (sparse_worker_may_batch(state, w)) {
		next = *state;
		bfs_say(bfs, "worker %u sends batch %u", w, worker->batches + 1);
		sparse_worker_batch(&next, w);
		emit(bfs, &next, move_of(MOVE_BATCH, w, 0, 0), NULL);
	}
	for (uint32_t number = 1; number <= worker->batches; number++) {
		if (!(state->answer[w][worker->life] >> (number - 1) & 1))
			continue;
		next = *state;
		bfs_say(bfs, "worker %u takes the answer to batch %u", w, number);
		emit(bfs, &next, move_of(MOVE_ANSWER, w, number, 0),
		     sparse_worker_answered(&next, w, number));
	}
}

static void expand_takes(const struct sparse_state *state, uint32_t w, uint32_t g, struct bfs *bfs)
{
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t seq = 1; seq <= sparse->pushes; seq++) {
		if (!(state->ack[g][w] >> (seq - 1) & 1))
			continue;
		next = *state;
		bfs_say(bfs, "worker %u takes ACK %u of generation %u", w, seq, g);
		emit(bfs, &next, move_of(MOVE_ACK, w, g, seq),
		     sparse_worker_take(&next, w, at, sparse_ack_put(g, w, seq, at)));
	}
	for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
		if (!(state->committed[g] >> e & 1))
			continue;
		next = *state;
		bfs_say(bfs, "worker %u takes COMMITTED %u of generation %u", w, e, g);
		emit(bfs, &next, move_of(MOVE_COMMITTED, w, g, e),
		     sparse_worker_take(&next, w, at, sparse_committed_put(state, g, e, w, at)));
	}
	if (!state->is_fenced[g] || !state->fence_epoch[g])
		return;
	next = *state;
	if (sparse->is_told && state->worker[w].named < g) {
		sparse_worker_name(&next, w, g);
		bfs_say(bfs, "worker %u takes SWITCH of generation %u", w, g);
		emit(bfs, &next, move_of(MOVE_TOLD, w, g, 0), NULL);
		next = *state;
	}
	if (!sparse->is_told)
		sparse_worker_name(&next, w, g);
	bfs_say(bfs, "worker %u takes RESUME of generation %u", w, g);
	emit(bfs, &next, move_of(MOVE_RESUME, w, g, 0),
	     sparse_worker_take(&next, w, at, sparse_resume_put(state, g, w, at)));
}

/* A life ends; the next one joins, and nobody is told of it before the disk has it. */
static void expand_lives(const struct sparse_state *state, uint32_t w, struct bfs *bfs)
{
	const struct sparse_world_worker *worker = &state->worker[w];
	struct sparse_state next = *state;

	if (worker->life + 1u < sparse->lives && !worker->is_waiting) {
		bfs_say(bfs, "worker %u dies, and is started again", w);
		sparse_worker_die(&next, w);
		emit(bfs, &next, move_of(MOVE_WORKER_DIES, w, 0, 0), NULL);
	} else if (worker->is_waiting && !worker->joined) {
		if (state->server.now.generation >= sparse->generations ||
		    state->server.pending_count == SPARSE_PENDING)
			return;
		bfs_say(bfs, "worker %u joins: generation %u", w, state->server.now.generation + 1);
		emit(bfs, &next, move_of(MOVE_JOIN, w, 0, 0), sparse_server_join(&next, w));
	} else if (worker->is_waiting && state->server.disk.incarnation[w] == worker->life + 1) {
		bfs_say(bfs, "worker %u is told that it has joined in generation %u", w,
			worker->joined);
		sparse_worker_admit(&next, w);
		emit(bfs, &next, move_of(MOVE_ADMIT, w, 0, 0), NULL);
	}
}

static void expand_worker(const struct sparse_state *state, uint32_t w, struct bfs *bfs)
{
	expand_lives(state, w, bfs);
	if (state->worker[w].is_waiting)
		return;
	expand_send(state, w, bfs);
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++)
		expand_takes(state, w, g, bfs);
}

/* ---- switches ---- */

/* Does a packet of generation `of` matter to the switch of generation g? */
static bool is_for(uint32_t g, uint32_t of)
{
	return g == of || sparse->is_fat;
}

static void expand_push(const struct sparse_state *state, uint32_t g, uint32_t of, struct bfs *bfs)
{
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t w = 0; w < sparse->workers; w++) {
		for (uint32_t id = 0; id < SPARSE_PUSHES; id++) {
			struct sparse_state next = *state;

			if (!(state->push[of][w] >> id & 1))
				continue;
			bfs_say(bfs, "switch %u takes worker %u's PUSH %u of generation %u", g, w,
				id % sparse->pushes + 1, of);
			emit(bfs, &next, move_of(MOVE_PUSH, g << 4 | of, w, id),
			     sparse_switch_take(&next, g, at, sparse_push_put(of, w, id, at)));
		}
	}
}

static void expand_told(const struct sparse_state *state, uint32_t g, uint32_t of, struct bfs *bfs)
{
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
		if (state->committed[of] >> e & 1) {
			next = *state;
			bfs_say(bfs, "switch %u takes COMMITTED %u of generation %u", g, e, of);
			emit(bfs, &next, move_of(MOVE_COMMITTED, SPARSE_WORKERS + g, of, e),
			     sparse_switch_take(&next, g, at,
						sparse_committed_put(state, of, e, SPARSE_SERVER,
								     at)));
		}
		if (state->flip[of] >> e & 1) {
			next = *state;
			bfs_say(bfs, "switch %u takes FLIP of epoch %u, generation %u", g, e, of);
			emit(bfs, &next, move_of(MOVE_FLIP_ARRIVES, g, of, e),
			     sparse_switch_take(&next, g, at, sparse_flip_put(of, e, at)));
		}
	}
}

static void expand_setup(const struct sparse_state *state, uint32_t g, struct bfs *bfs)
{
	struct sparse_table table = sparse_table_of();
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	if (g == state->server.now.generation && state->resets < sparse->resets &&
	    !state->at[g].is_reset) {
		next = *state;
		next.resets++;
		next.at[g] = (struct sparse_world_switch){ .is_reset = 1 };
		bfs_say(bfs, "switch %u dies, and another instance is at its address", g);
		emit(bfs, &next, move_of(MOVE_RESET, g, 0, 0), NULL);
	}
	if (!state->is_fenced[g] || !state->fence_epoch[g] ||
	    (state->at[g].generation && !sparse->is_fat))
		return;
	for (uint32_t part = 0; part < sparse_cut_parts(&table); part++) {
		next = *state;
		bfs_say(bfs, "switch %u takes SETUP, part %u of %u", g, part,
			sparse_cut_parts(&table));
		emit(bfs, &next, move_of(MOVE_SETUP, g, part, 0),
		     sparse_switch_take(&next, g, at, sparse_setup_put(state, g, part, at)));
	}
}

static void expand_switch(const struct sparse_state *state, uint32_t g, struct bfs *bfs)
{
	struct sparse_state next;

	for (uint32_t of = 1; state->at[g].generation && of <= SPARSE_GENERATIONS; of++) {
		if (!is_for(g, of))
			continue;
		expand_push(state, g, of, bfs);
		expand_told(state, g, of, bfs);
	}
	if (state->at[g].epoch <= sparse->epochs && sparse_switch_may_flip(state, g, false)) {
		next = *state;
		bfs_say(bfs, "switch %u flips, epoch %u", g, state->at[g].epoch);
		emit(bfs, &next, move_of(MOVE_FLIP, g, 0, 0), sparse_switch_flip(&next, g));
	}
	expand_setup(state, g, bfs);
}

/* ---- the server ---- */

static void expand_parts(const struct sparse_state *state, uint32_t g, struct bfs *bfs)
{
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t e = 1; e <= SPARSE_EPOCHS; e++) {
		for (uint32_t part = 0; part < sparse_parts_of(state, g, e); part++) {
			struct sparse_state next = *state;

			if (!state->flush[g][e].is_sent)
				break;
			if (state->server.pending_count == SPARSE_PENDING)
				return; /* a record now would have no room */
			bfs_say(bfs,
				"the server takes part %u of the flush of epoch %u of switch %u",
				part, e, g);
			emit(bfs, &next, move_of(MOVE_PART, g, e, part),
			     sparse_server_take(&next, at, sparse_part_put(state, g, e, part, at)));
		}
	}
}

static void expand_arrivals(const struct sparse_state *state, uint32_t w, struct bfs *bfs)
{
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t life = 0; life <= state->worker[w].life; life++) {
		for (uint32_t number = 1; number <= state->batch[w][life]; number++) {
			next = *state;
			bfs_say(bfs, "the server takes batch %u of worker %u's life %u", number, w,
				life);
			emit(bfs, &next, move_of(MOVE_BATCH_ARRIVES, w, life, number),
			     sparse_server_cold(&next, w, life, number));
		}
	}
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		for (uint32_t step = 1; step <= SPARSE_EPOCHS; step++) {
			if (!(state->end[g][w] >> step & 1))
				continue;
			next = *state;
			bfs_say(bfs, "the server takes END of worker %u's step %u, generation %u",
				w, step, g);
			emit(bfs, &next, move_of(MOVE_END_ARRIVES, w, g, step),
			     sparse_server_take(&next, at, sparse_end_put(g, w, step, at)));
		}
	}
}

static void sparse_expand(const void *config, const void *state_at, struct bfs *bfs)
{
	const struct sparse_state *state = state_at;
	const struct sparse_world_server *server = &state->server;
	struct sparse_state next;
	const char *wrong = sparse->has_stranger ? sparse_strange(state) : NULL;

	(void)config;
	if (wrong) {
		next = *state;
		bfs_say(bfs, "a stranger sends what he likes");
		bfs_emit(bfs, &next, move_of(MOVE_STRANGER, 0, 0, 0), wrong);
	}
	for (uint32_t w = 0; w < sparse->workers; w++) {
		expand_worker(state, w, bfs);
		if (server->pending_count < SPARSE_PENDING)
			expand_arrivals(state, w, bfs);
	}
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		expand_switch(state, g, bfs);
		expand_parts(state, g, bfs);
	}
	if (server->now.generation < sparse->generations &&
	    server->pending_count < SPARSE_PENDING) {
		next = *state;
		bfs_say(bfs, "the server fences: generation %u", server->now.generation + 1);
		emit(bfs, &next, move_of(MOVE_FENCE, 0, 0, 0), sparse_server_fence(&next));
	}
	if (server->pending_count) {
		next = *state;
		bfs_say(bfs, "the server's oldest record gets to the disk");
		emit(bfs, &next, move_of(MOVE_WRITE, 0, 0, 0), sparse_server_write(&next));
	}
	if (state->deaths < sparse->deaths) {
		next = *state;
		next.deaths++;
		sparse_server_die(&next);
		bfs_say(bfs, "the server dies, and reads its log");
		emit(bfs, &next, move_of(MOVE_DIE, 0, 0, 0), NULL);
	}
}

static void sparse_init(const void *config, void *state_at)
{
	struct sparse_state *state = state_at;
	struct sparse_table table = sparse_table_of();
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong;

	(void)config;
	assert(sparse->workers * sparse->lives * sparse->pushes <= 16);
	assert(sparse->lives * sparse->pushes <= SPARSE_PUSHES);
	assert(sparse->workers * sparse->window <= SPARSE_PLACES);
	assert(sparse->generations + (sparse->lives > 1) + 1 <= SPARSE_GENERATIONS);
	assert(sparse->epochs + 2 + sparse->pushes / sparse->kept < SPARSE_EPOCHS);
	assert(sparse_flush_parts_max(&table) <= SPARSE_PARTS);
	state->server.now.expected = state->server.disk.expected = 1;
	state->server.now.map = state->server.disk.map = SPARSE_MAP;
	for (uint32_t w = 0; w < sparse->workers; w++) {
		state->server.now.next[w] = state->server.disk.next[w] = 1;
		state->worker[w] = (struct sparse_world_worker){
			.low = 1, .sent = 1, .next = 1, .reached = 1, .step = 1, .is_waiting = 1
		};
	}
	/* The table is set up, and everybody joins. */
	wrong = sparse_server_fence(state);
	for (uint32_t w = 0; w < sparse->workers && !wrong; w++) {
		while (!wrong && state->server.pending_count)
			wrong = sparse_server_write(state);
		if (!wrong)
			wrong = sparse_server_join(state, w);
	}
	while (!wrong && state->server.pending_count)
		wrong = sparse_server_write(state);
	for (uint32_t part = 0; part < sparse_cut_parts(&table) && !wrong; part++)
		wrong = sparse_switch_take(state, 1, at, sparse_setup_put(state, 1, part, at));
	assert(!wrong);
	for (uint32_t w = 0; w < sparse->workers; w++)
		sparse_worker_admit(state, w);
}

void sparse_model(struct bfs_model *model, const void *config)
{
	static struct sparse_config row;

	row = *(const struct sparse_config *)config;
	if (!row.kept)
		row.kept = row.pushes;
	if (!row.lives)
		row.lives = 1;
	if (!row.rows)
		row.rows = row.workers;
	sparse = &row;
	sparse_drain_begin();
	*model = (struct bfs_model){ .state_bytes = sizeof(struct sparse_state),
				     .config = config,
				     .init = sparse_init,
				     .expand = sparse_expand,
				     .check = sparse_drain };
}
