/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_drain.c - what in sparse.h's model must happen by itself; see sparse_world.h. */
#include "search/sparse_world.h"

#include <assert.h>
#include <string.h>

#include "search/seen.h"

enum { TURNS = 60 };

static const char *server_settles(struct sparse_state *state)
{
	const char *wrong = NULL;

	while (!wrong && state->server.pending_count)
		wrong = sparse_server_write(state);
	return wrong;
}

/* Whoever waits says JOIN, for the first time or again. */
static const char *newcomers_join(struct sparse_state *state)
{
	const char *wrong = NULL;

	for (uint32_t w = 0; w < sparse->workers && !wrong; w++) {
		if (!state->worker[w].is_waiting)
			continue;
		if (!state->worker[w].joined)
			wrong = sparse_server_join(state, w);
		if (!wrong)
			wrong = server_settles(state);
		if (!wrong)
			sparse_worker_admit(state, w);
	}
	return wrong;
}

/* A switch for the server's generation: the one that there is, or one after a fence, as the heartbeat would ask. */
static const char *switch_is_there(struct sparse_state *state)
{
	struct sparse_table table = sparse_table_of();
	uint32_t g = state->server.now.generation;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	if (state->at[g].generation)
		return NULL;
	if (!state->server.has_instance || state->at[g].is_reset) {
		wrong = sparse_server_fence(state);
		if (!wrong)
			wrong = server_settles(state);
		g = state->server.now.generation;
	}
	for (uint32_t part = 0; part < sparse_cut_parts(&table) && !wrong; part++)
		wrong = sparse_switch_take(state, g, at, sparse_setup_put(state, g, part, at));
	return wrong;
}

/* The workers send, and send again; the switch takes it, and its ACKs arrive. Of what each asks the first is lost. */
static const char *worker_turn(struct sparse_state *state, uint32_t w, bool *has_asked)
{
	uint32_t g = state->server.now.generation, ask_bytes = 0;
	uint8_t at[SPARSE_DATAGRAM], ask[SPARSE_DATAGRAM];
	const char *wrong;

	memset(state->push, 0, sizeof(state->push));
	memset(state->ack, 0, sizeof(state->ack));
	wrong = sparse_worker_timers(state, w, ask, &ask_bytes);
	if (!wrong && ask_bytes && *has_asked)
		wrong = sparse_switch_take(state, g, ask, ask_bytes);
	*has_asked |= ask_bytes != 0;
	while (!wrong && sparse_worker_may_send(state, w))
		wrong = sparse_worker_send(state, w);
	for (uint32_t id = 0; id < SPARSE_PUSHES && !wrong; id++)
		if (state->push[g][w] >> id & 1)
			wrong = sparse_switch_take(state, g, at, sparse_push_put(g, w, id, at));
	for (uint32_t seq = 1; seq <= sparse->pushes && !wrong; seq++)
		if (state->ack[g][w] >> (seq - 1) & 1)
			wrong = sparse_worker_take(state, w, at, sparse_ack_put(g, w, seq, at));
	return wrong;
}

/* It connects again and is told the server's next number; what is before is answered. */
static const char *batches_turn(struct sparse_state *state, uint32_t w)
{
	struct sparse_world_worker *worker = &state->worker[w];
	const char *wrong = NULL;

	for (uint32_t number = worker->answered + 1u; number <= worker->batches && !wrong;
	     number++) {
		wrong = sparse_server_cold(state, w, worker->life, number);
		if (!wrong)
			wrong = server_settles(state);
		if (!wrong)
			wrong = sparse_worker_answered(state, w, number);
	}
	while (!wrong && sparse_worker_may_batch(state, w))
		sparse_worker_batch(state, w);
	return wrong;
}

static const char *steps_turn(struct sparse_state *state)
{
	uint32_t g = state->server.now.generation, step;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	memset(state->end, 0, sizeof(state->end));
	memset(state->flip, 0, sizeof(state->flip));
	for (uint32_t w = 0; w < sparse->workers && !wrong; w++) {
		if (!sparse_worker_may_end(state, w))
			continue;
		step = state->worker[w].step;
		wrong = sparse_worker_end(state, w);
		if (!wrong)
			wrong = sparse_server_take(state, at, sparse_end_put(g, w, step, at));
	}
	for (uint32_t e = 1; e <= SPARSE_EPOCHS && !wrong; e++)
		if (state->flip[g] >> e & 1)
			wrong = sparse_switch_take(state, g, at, sparse_flip_put(g, e, at));
	return wrong;
}

/* COMMITTED, to the switch if it waits for it, and to everybody. */
static const char *commits_arrive(struct sparse_state *state)
{
	uint32_t g = state->server.now.generation;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
		if (!(state->committed[g] >> e & 1))
			continue;
		wrong = sparse_switch_take(state, g, at,
					   sparse_committed_put(state, g, e, SPARSE_SERVER, at));
		for (uint32_t w = 0; w < sparse->workers && !wrong; w++)
			wrong = sparse_worker_take(state, w, at,
						   sparse_committed_put(state, g, e, w, at));
		if (wrong)
			return wrong;
	}
	state->committed[g] = 0;
	return NULL;
}

/* A flush goes out until COMMITTED comes. */
static const char *flush_turn(struct sparse_state *state)
{
	uint32_t g = state->server.now.generation, parts;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	if (sparse_switch_may_flip(state, g, true))
		wrong = sparse_switch_flip(state, g);
	parts = state->at[g].is_busy ? sparse_switch_parts(state, g) : 0;
	for (uint32_t part = 0; part < parts && !wrong; part++)
		wrong = sparse_server_take(state, at, sparse_switch_part(state, g, part, at));
	if (!wrong)
		wrong = server_settles(state);
	return wrong ? wrong : commits_arrive(state);
}

/* ---- the end ---- */

static bool is_done(const struct sparse_state *state)
{
	for (uint32_t w = 0; w < sparse->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];

		if (worker->low != sparse->pushes + 1 || worker->answered != worker->batches ||
		    worker->is_closed || sparse_worker_may_batch(state, w))
			return false;
	}
	return !state->at[state->server.now.generation].is_busy;
}

/* X4: of a worker's last life all, of an earlier one each at most once, which X1 has looked at. */
static const char *sums_are_exact(const struct sparse_state *state)
{
	const struct sparse_world_durable *disk = &state->server.disk;

	for (uint32_t w = 0; w < sparse->workers; w++) {
		uint32_t life = state->worker[w].life;

		for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
			for (uint32_t seq = 1; seq <= sparse->pushes; seq++)
				if (sparse_times(disk->total[rank], w, life, seq) != 1)
					return "X4: all is quiet, and the sums are not exact";
		if (disk->cold[w][life] != (1 << state->worker[w].batches) - 1)
			return "X4: all is quiet, and a batch is not in";
	}
	return NULL;
}

/* States that differ in what is on its way, or in what is over, end alike: they are looked at once. */
static struct seen looked;

static bool is_known(const struct sparse_state *state)
{
	uint32_t g = state->server.now.generation;
	uint64_t known = looked.count;
	uint32_t disk = state->server.disk.generation;
	struct sparse_state key = *state;

	memset(key.push, 0, sizeof(key.push));
	memset(key.ack, 0, sizeof(key.ack));
	memset(key.end, 0, sizeof(key.end));
	memset(key.flip, 0, sizeof(key.flip));
	memset(key.committed, 0, sizeof(key.committed));
	memset(key.committed_cut, 0, sizeof(key.committed_cut));
	memset(key.batch, 0, sizeof(key.batch));
	memset(key.answer, 0, sizeof(key.answer));
	for (uint32_t of = 1; of < g && of < disk; of++) {
		memset(&key.at[of], 0, sizeof(key.at[of]));
		memset(key.flush[of], 0, sizeof(key.flush[of]));
		key.fence_epoch[of] = 0;
		memset(key.fence_cut[of], 0, sizeof(key.fence_cut[of]));
	}
	key.deaths = key.resets = 0;
	return seen_put(&looked, &key, sizeof(key)) != known;
}

void sparse_drain_begin(void)
{
	seen_forget(&looked);
}

const char *sparse_drain(const void *config, const void *state_at)
{
	struct sparse_state state = *(const struct sparse_state *)state_at;
	bool has_asked[SPARSE_WORKERS] = { false };
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong;
	uint32_t g;

	(void)config;
	if (is_known(state_at))
		return NULL;
	memset(state.committed, 0, sizeof(state.committed));
	wrong = server_settles(&state);
	if (!wrong)
		wrong = newcomers_join(&state);
	if (!wrong)
		wrong = switch_is_there(&state);
	g = state.server.now.generation;
	for (uint32_t w = 0; w < sparse->workers && !wrong; w++)
		if (state.worker[w].generation < g) {
			sparse_worker_name(&state, w, g);
			wrong = sparse_worker_take(&state, w, at,
						   sparse_resume_put(&state, g, w, at));
		}
	for (uint32_t turn = 0; turn < TURNS && !wrong; turn++) {
		if (is_done(&state))
			return sums_are_exact(&state);
		for (uint32_t w = 0; w < sparse->workers && !wrong; w++)
			wrong = worker_turn(&state, w, &has_asked[w]);
		for (uint32_t w = 0; w < sparse->workers && !wrong; w++)
			wrong = batches_turn(&state, w);
		if (!wrong && sparse->step)
			wrong = steps_turn(&state);
		if (!wrong)
			wrong = flush_turn(&state);
	}
	return wrong ? wrong : "LIVENESS: sending again and again does not finish";
}
