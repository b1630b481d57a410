/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - see sparse.h. */
#include "search/sparse.h"

#include <assert.h>
#include <string.h>

#include "search/intern.h"
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
};

enum { TURNS = 40 };

static uint32_t move_of(enum move move, uint32_t a, uint32_t b, uint32_t c)
{
	return (uint32_t)move << 24 | a << 16 | b << 8 | c;
}

/* ---- what can do nothing more ---- */

/* Whatever the worker's generation is, is there something for it in this cut? */
static bool is_news(const struct sparse_config *config, const struct sparse_state *state,
		    const uint8_t *cut)
{
	for (uint32_t w = 0; w < config->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];

		for (uint32_t seq = 1; seq < worker->next; seq++)
			if (!(worker->freed >> (seq - 1) & 1) &&
			    sparse_cut_covers(config, cut, w, seq))
				return true;
	}
	return false;
}

static void forget_pushes(const struct sparse_config *config, struct sparse_state *state)
{
	for (uint32_t w = 0; w < config->workers; w++) {
		const struct sparse_world_worker *worker = &state->worker[w];
		uint8_t is_in = worker->acked | worker->freed;

		for (uint32_t g = 1; g < worker->generation; g++)
			state->push[g][w] = state->ack[g][w] = 0;
		state->push[worker->generation][w] &= (uint8_t)~is_in;
		state->ack[worker->generation][w] &= (uint8_t)~is_in;
	}
}

/* A switch that the disk knows as fenced still acknowledges; what it sums reaches nobody. */
static void forget_fenced(struct sparse_state *state)
{
	const struct sparse_world_server *server = &state->server;

	for (uint32_t g = 1; g < server->disk.generation; g++) {
		struct sparse_world_switch *at = &state->at[g];

		if (at->generation)
			*at = (struct sparse_world_switch){ .generation = at->generation,
							    .epoch = 2,
							    .is_busy = 1 };
		memset(state->flush[g], 0, sizeof(state->flush[g]));
	}
	for (uint32_t e = 1; e < server->disk.expected; e++)
		memset(&state->flush[server->disk.generation][e], 0, sizeof(state->flush[0][0]));
}

static void forget_commits(const struct sparse_config *config, struct sparse_state *state)
{
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
			bool is_awaited = state->at[g].is_busy && state->at[g].epoch == e + 1 &&
					  g >= state->server.disk.generation;
			bool is_for_any = false;

			for (uint32_t w = 0; w < config->workers; w++)
				is_for_any |= state->worker[w].generation <= g;
			if (!(state->committed[g] >> e & 1) || is_awaited ||
			    (is_for_any && is_news(config, state, state->committed_cut[g][e])))
				continue;
			state->committed[g] &= (uint8_t) ~(1 << e);
			memset(state->committed_cut[g][e], 0, SPARSE_PLACES);
		}
	}
}

static void forget_fences(const struct sparse_config *config, struct sparse_state *state)
{
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		bool is_awaited = !state->at[g].generation;

		for (uint32_t w = 0; w < config->workers; w++)
			is_awaited |= state->worker[w].generation < g;
		if (is_awaited)
			continue;
		state->fence_epoch[g] = 0;
		memset(state->fence_cut[g], 0, SPARSE_PLACES);
	}
}

/* A rule that is taken out may bring to life what with it is dead. */
static bool is_lean(void)
{
	return !TAKEN_OUT(SPARSE_PUSH_GENERATION) && !TAKEN_OUT(SPARSE_COMMITTED_EPOCH) &&
	       !TAKEN_OUT(SPARSE_SETUP_ONCE) && !TAKEN_OUT(SPARSE_WORKER_GENERATION) &&
	       !TAKEN_OUT(SPARSE_OLD_FLUSH) && !TAKEN_OUT(SPARSE_EXPECTED) &&
	       !TAKEN_OUT(SPARSE_LAST);
}

static void emit(const struct sparse_config *config, struct bfs *bfs, struct sparse_state *next,
		 uint32_t move, const char *violation)
{
	if (is_lean()) {
		forget_pushes(config, next);
		forget_fenced(next);
		forget_commits(config, next);
		forget_fences(config, next);
	}
	bfs_emit(bfs, next, move, violation);
}

/* ---- moves ---- */

static void expand_worker(const struct sparse_config *config, const struct sparse_state *state,
			  uint32_t w, struct bfs *bfs)
{
	const struct sparse_world_worker *worker = &state->worker[w];
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	if (sparse_worker_may_send(config, state, w)) {
		next = *state;
		bfs_say(bfs, "worker %u sends PUSH %u in generation %u", w, worker->sent,
			worker->generation);
		emit(config, bfs, &next, move_of(MOVE_SEND, w, 0, 0),
		     sparse_worker_send(config, &next, w));
	}
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		for (uint32_t seq = 1; seq <= config->pushes; seq++) {
			if (!(state->ack[g][w] >> (seq - 1) & 1))
				continue;
			next = *state;
			bfs_say(bfs, "worker %u takes ACK %u of generation %u", w, seq, g);
			emit(config, bfs, &next, move_of(MOVE_ACK, w, g, seq),
			     sparse_worker_take(config, &next, w, at,
						sparse_ack_put(g, w, seq, at)));
		}
		for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
			if (!(state->committed[g] >> e & 1))
				continue;
			next = *state;
			bfs_say(bfs, "worker %u takes COMMITTED %u of generation %u", w, e, g);
			emit(config, bfs, &next, move_of(MOVE_COMMITTED, w, g, e),
			     sparse_worker_take(config, &next, w, at,
						sparse_committed_put(config, state, g, e, w, at)));
		}
		if (!state->is_fenced[g] || !state->fence_epoch[g])
			continue;
		next = *state;
		bfs_say(bfs, "worker %u takes RESUME of generation %u", w, g);
		emit(config, bfs, &next, move_of(MOVE_RESUME, w, g, 0),
		     sparse_worker_take(config, &next, w, at,
					sparse_resume_put(config, state, g, w, at)));
	}
}

/* Does a packet of generation `of` matter to the switch of generation g? */
static bool is_for(uint32_t g, uint32_t of)
{
	return g == of || (of < g && TAKEN_OUT(SPARSE_PUSH_GENERATION));
}

static void expand_push(const struct sparse_config *config, const struct sparse_state *state,
			uint32_t g, uint32_t of, struct bfs *bfs)
{
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t w = 0; w < config->workers; w++) {
		for (uint32_t seq = 1; seq <= config->pushes; seq++) {
			struct sparse_state next = *state;

			if (!(state->push[of][w] >> (seq - 1) & 1))
				continue;
			bfs_say(bfs, "switch %u takes worker %u's PUSH %u of generation %u", g, w,
				seq, of);
			emit(config, bfs, &next, move_of(MOVE_PUSH, g << 4 | of, w, seq),
			     sparse_switch_take(config, &next, g, at,
						sparse_push_put(config, of, w, seq, at)));
		}
	}
}

static void expand_switch(const struct sparse_config *config, const struct sparse_state *state,
			  uint32_t g, struct bfs *bfs)
{
	struct sparse_table table = sparse_table_of(config);
	struct sparse_state next;
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t of = 1; state->at[g].generation && of <= SPARSE_GENERATIONS; of++) {
		if (!is_for(g, of))
			continue;
		expand_push(config, state, g, of, bfs);
		for (uint32_t e = 0; e <= SPARSE_EPOCHS; e++) {
			if (!(state->committed[of] >> e & 1))
				continue;
			next = *state;
			bfs_say(bfs, "switch %u takes COMMITTED %u of generation %u", g, e, of);
			emit(config, bfs, &next, move_of(MOVE_COMMITTED, SPARSE_WORKERS + g, of, e),
			     sparse_switch_take(config, &next, g, at,
						sparse_committed_put(config, state, of, e,
								     SPARSE_SERVER, at)));
		}
	}
	if (sparse_switch_may_flip(config, state, g) && state->at[g].epoch <= config->epochs) {
		next = *state;
		bfs_say(bfs, "switch %u flips, epoch %u", g, state->at[g].epoch);
		emit(config, bfs, &next, move_of(MOVE_FLIP, g, 0, 0),
		     sparse_switch_flip(config, &next, g));
	}
	if (!state->is_fenced[g] || (state->at[g].generation && !TAKEN_OUT(SPARSE_SETUP_ONCE)))
		return;
	for (uint32_t part = 0; part < sparse_cut_parts(&table); part++) {
		next = *state;
		bfs_say(bfs, "switch %u takes SETUP, part %u of %u", g, part,
			sparse_cut_parts(&table));
		emit(config, bfs, &next, move_of(MOVE_SETUP, g, part, 0),
		     sparse_switch_take(config, &next, g, at,
					sparse_setup_put(config, state, g, part, at)));
	}
}

static void expand_parts(const struct sparse_config *config, const struct sparse_state *state,
			 uint32_t g, struct bfs *bfs)
{
	struct sparse_table table = sparse_table_of(config);
	uint8_t at[SPARSE_DATAGRAM];

	for (uint32_t e = 1; e <= SPARSE_EPOCHS; e++) {
		for (uint32_t part = 0; part < sparse_flush_parts(&table); part++) {
			struct sparse_state next = *state;

			if (!state->flush[g][e].is_sent)
				break;
			if (state->server.pending_count == SPARSE_PENDING)
				return; /* a record now would have no room */
			bfs_say(bfs,
				"the server takes part %u of the flush of epoch %u of switch %u",
				part, e, g);
			emit(config, bfs, &next, move_of(MOVE_PART, g, e, part),
			     sparse_server_take(config, &next, at,
						sparse_part_put(config, state, g, e, part, at)));
		}
	}
}

static void sparse_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct sparse_config *config = config_at;
	const struct sparse_state *state = state_at;
	const struct sparse_world_server *server = &state->server;
	struct sparse_state next;

	for (uint32_t w = 0; w < config->workers; w++)
		expand_worker(config, state, w, bfs);
	for (uint32_t g = 1; g <= SPARSE_GENERATIONS; g++) {
		expand_switch(config, state, g, bfs);
		expand_parts(config, state, g, bfs);
	}
	if (server->now.generation < config->generations &&
	    server->pending_count < SPARSE_PENDING) {
		next = *state;
		bfs_say(bfs, "the server fences: generation %u", server->now.generation + 1);
		emit(config, bfs, &next, move_of(MOVE_FENCE, 0, 0, 0),
		     sparse_server_fence(config, &next));
	}
	if (server->pending_count) {
		next = *state;
		bfs_say(bfs, "the server's oldest record gets to the disk");
		emit(config, bfs, &next, move_of(MOVE_WRITE, 0, 0, 0),
		     sparse_server_write(config, &next));
	}
	if (state->deaths < config->deaths) {
		next = *state;
		next.deaths++;
		sparse_server_die(&next);
		bfs_say(bfs, "the server dies, and reads its log");
		emit(config, bfs, &next, move_of(MOVE_DIE, 0, 0, 0), NULL);
	}
}

/* ---- from here on nothing is lost: what must happen by itself? ---- */

static const char *drain_server(const struct sparse_config *config, struct sparse_state *state)
{
	const char *wrong = NULL;

	while (!wrong && state->server.pending_count)
		wrong = sparse_server_write(config, state);
	return wrong;
}

/* A switch for the server's generation: the one that there is, or one after a fence, as the heartbeat would ask. */
static const char *drain_setup(const struct sparse_config *config, struct sparse_state *state)
{
	struct sparse_table table = sparse_table_of(config);
	uint32_t g = state->server.now.generation;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	if (state->at[g].generation)
		return NULL;
	if (!state->server.has_instance) {
		wrong = sparse_server_fence(config, state);
		if (!wrong)
			wrong = drain_server(config, state);
		g = state->server.now.generation;
	}
	for (uint32_t part = 0; part < sparse_cut_parts(&table) && !wrong; part++)
		wrong = sparse_switch_take(config, state, g, at,
					   sparse_setup_put(config, state, g, part, at));
	return wrong;
}

/* The workers send, and send again; the switch takes it, and its ACKs arrive. */
static const char *drain_pushes(const struct sparse_config *config, struct sparse_state *state,
				uint32_t w, bool *ask)
{
	uint32_t g = state->server.now.generation;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;
	bool wants = false;

	memset(state->push, 0, sizeof(state->push));
	memset(state->ack, 0, sizeof(state->ack));
	wrong = sparse_worker_timers(config, state, w, &wants);
	*ask |= wants;
	while (!wrong && sparse_worker_may_send(config, state, w))
		wrong = sparse_worker_send(config, state, w);
	for (uint32_t seq = 1; seq <= config->pushes && !wrong; seq++)
		if (state->push[g][w] >> (seq - 1) & 1)
			wrong = sparse_switch_take(config, state, g, at,
						   sparse_push_put(config, g, w, seq, at));
	for (uint32_t seq = 1; seq <= config->pushes && !wrong; seq++)
		if (state->ack[g][w] >> (seq - 1) & 1)
			wrong = sparse_worker_take(config, state, w, at,
						   sparse_ack_put(g, w, seq, at));
	return wrong;
}

/* A flush goes out until COMMITTED comes, and COMMITTED to everybody. */
static const char *drain_flush(const struct sparse_config *config, struct sparse_state *state,
			       bool ask)
{
	struct sparse_table table = sparse_table_of(config);
	uint32_t g = state->server.now.generation, e;
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong = NULL;

	if (ask && sparse_switch_may_flip(config, state, g))
		wrong = sparse_switch_flip(config, state, g);
	if (wrong || !state->at[g].is_busy)
		return wrong;
	e = state->at[g].epoch - 1u;
	for (uint32_t part = 0; part < sparse_flush_parts(&table) && !wrong; part++)
		wrong = sparse_server_take(config, state, at,
					   sparse_switch_part(config, state, g, part, at));
	if (!wrong)
		wrong = drain_server(config, state);
	if (wrong || !(state->committed[g] >> e & 1))
		return wrong;
	wrong = sparse_switch_take(config, state, g, at,
				   sparse_committed_put(config, state, g, e, SPARSE_SERVER, at));
	for (uint32_t w = 0; w < config->workers && !wrong; w++)
		wrong = sparse_worker_take(config, state, w, at,
					   sparse_committed_put(config, state, g, e, w, at));
	return wrong;
}

/* X4 */
static bool is_done(const struct sparse_config *config, const struct sparse_state *state)
{
	for (uint32_t w = 0; w < config->workers; w++)
		if (state->worker[w].low != config->pushes + 1)
			return false;
	return !state->at[state->server.now.generation].is_busy;
}

static const char *sums_are_exact(const struct sparse_config *config,
				  const struct sparse_state *state)
{
	for (uint32_t rank = 0; rank < SPARSE_RANKS; rank++)
		for (uint32_t w = 0; w < config->workers; w++)
			for (uint32_t seq = 1; seq <= config->pushes; seq++)
				if (sparse_times(config, state->server.disk.total[rank], w, seq) !=
				    1)
					return "X4: all is quiet, and the sums are not exact";
	return NULL;
}

/* States that differ in what is on its way, or in what is over, end alike: they are looked at once. */
static struct intern looked;

static bool is_known(const struct sparse_state *state)
{
	uint32_t g = state->server.now.generation, known = looked.count;
	uint32_t disk = state->server.disk.generation;
	struct sparse_state key = *state;

	memset(key.push, 0, sizeof(key.push));
	memset(key.ack, 0, sizeof(key.ack));
	memset(key.committed, 0, sizeof(key.committed));
	memset(key.committed_cut, 0, sizeof(key.committed_cut));
	for (uint32_t of = 1; of < g && of < disk; of++) {
		memset(&key.at[of], 0, sizeof(key.at[of]));
		memset(key.flush[of], 0, sizeof(key.flush[of]));
		key.fence_epoch[of] = 0;
		memset(key.fence_cut[of], 0, sizeof(key.fence_cut[of]));
	}
	key.deaths = 0;
	return intern_put(&looked, &key, sizeof(key)) != known;
}

static const char *sparse_check_state(const void *config_at, const void *state_at)
{
	const struct sparse_config *config = config_at;
	struct sparse_state state = *(const struct sparse_state *)state_at;
	const char *wrong = NULL;
	uint8_t at[SPARSE_DATAGRAM];
	uint32_t g;

	if (is_known(state_at))
		return NULL;
	memset(state.committed, 0, sizeof(state.committed));
	wrong = drain_server(config, &state);
	if (!wrong)
		wrong = drain_setup(config, &state);
	g = state.server.now.generation;
	for (uint32_t w = 0; w < config->workers && !wrong; w++)
		if (state.worker[w].generation < g)
			wrong = sparse_worker_take(config, &state, w, at,
						   sparse_resume_put(config, &state, g, w, at));
	for (uint32_t turn = 0; turn < TURNS && !wrong; turn++) {
		struct sparse_world_worker before[SPARSE_WORKERS];
		bool ask = false;

		if (is_done(config, &state))
			return sums_are_exact(config, &state);
		memcpy(before, state.worker, sizeof(before));
		for (uint32_t w = 0; w < config->workers && !wrong; w++)
			wrong = drain_pushes(config, &state, w, &ask);
		if (!wrong && !memcmp(before, state.worker, sizeof(before)))
			wrong = drain_flush(config, &state, ask);
	}
	return wrong ? wrong : "LIVENESS: sending again and again does not finish";
}

static void sparse_init(const void *config_at, void *state_at)
{
	const struct sparse_config *config = config_at;
	struct sparse_state *state = state_at;
	struct sparse_table table = sparse_table_of(config);
	uint8_t at[SPARSE_DATAGRAM];
	const char *wrong;

	assert(config->workers * config->pushes <= 8 &&
	       config->workers * config->window <= SPARSE_PLACES &&
	       config->generations < SPARSE_GENERATIONS &&
	       config->epochs + 2 + config->pushes / config->kept < SPARSE_EPOCHS &&
	       sparse_flush_parts(&table) <= SPARSE_PARTS);
	state->server.now.expected = state->server.disk.expected = 1;
	for (uint32_t w = 0; w < config->workers; w++)
		state->worker[w] = (struct sparse_world_worker){
			.low = 1, .sent = 1, .next = 1, .reached = 1
		};
	/* The table is set up. */
	wrong = sparse_server_fence(config, state);
	if (!wrong)
		wrong = drain_server(config, state);
	if (!wrong)
		wrong = drain_setup(config, state);
	assert(!wrong);
	for (uint32_t w = 0; w < config->workers; w++)
		sparse_worker_take(config, state, w, at,
				   sparse_resume_put(config, state, 1, w, at));
}

void sparse_model(struct bfs_model *model, const void *config)
{
	intern_forget(&looked);
	*model = (struct bfs_model){ .state_bytes = sizeof(struct sparse_state),
				     .config = config,
				     .init = sparse_init,
				     .expand = sparse_expand,
				     .check = sparse_check_state };
}
