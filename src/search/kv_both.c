/* SPDX-License-Identifier: Apache-2.0 */
/* kv_both.c - see kv_both.h: what may happen next. */
#include "search/kv_both_world.h"

/* The last three need not happen. */
enum what {
	BEGINS,
	CALLS,
	CONNECTS,
	HEARS,
	FINDS_END,
	SERVES,
	CLOSES,
	SYNCS,
	IS_SURE,
	KILLED,
	BREAKS,
	CRASHES,
	WHATS
};
static const char *const words[WHATS] = {
	"begins: process",
	"goes on: process",
	"connects: process",
	"hears the next message: process",
	"finds its connection closed: process",
	"the server hears the next message on connection",
	"the server closes connection",
	"a record is on the disk",
	"says ALIVE: worker",
	"is killed: process",
	"its connection breaks: process",
	"the server is killed, and begins again",
};

static bool is_alive(const struct both_process *process)
{
	return process->is_begun && !process->is_dead;
}

/* What a process, or its user, may do. */
static bool process_does(const struct kv_both_config *config, struct both_world *world,
			 enum what what, uint32_t p)
{
	struct both_process *process = &world->process[p];
	const struct both_conn *conn = process->conn ? &world->conn[process->conn - 1] : NULL;

	if (what == BEGINS) {
		if (process->is_begun || p >= config->processes)
			return false;
		both_process_begin(config, world, p);
		return true;
	}
	if (!is_alive(process))
		return false;
	switch (what) {
	case CALLS:
		return both_process_calls(config, world, p);
	case CONNECTS:
		if (both_kv(process)->server->state != WORKER_KV_IDLE)
			return false;
		both_process_connects(world, p);
		return true;
	case HEARS:
		if (!conn || !conn->down.count)
			return false;
		both_process_hears(world, p);
		return true;
	case FINDS_END:
		if (!conn || conn->far || conn->down.count)
			return false;
		both_process_breaks(world, p, false);
		return true;
	case KILLED:
		if (world->kills == config->kills || worker_kv_is_over(both_kv(process)->server))
			return false;
		world->kills++;
		both_process_breaks(world, p, true);
		return true;
	default:
		if (!conn || world->losses == config->losses)
			return false;
		world->losses++;
		both_process_breaks(world, p, false);
		return true;
	}
}

static bool server_does(const struct kv_both_config *config, struct both_world *world,
			enum what what, uint32_t i)
{
	const struct both_conn *conn = &world->conn[i];

	switch (what) {
	case SERVES:
		return both_server_hears(world, i);
	case CLOSES:
		if (!conn->far || !(conn->is_ending || !conn->near))
			return false;
		both_server_ends(world, i);
		return true;
	case SYNCS:
		if (i || !world->records_count)
			return false;
		both_server_syncs(world);
		return true;
	case IS_SURE:
		if (i >= world->workers || !world->its[i] || !world->conn[world->its[i] - 1].near ||
		    world->conn[world->its[i] - 1].is_ending ||
		    !server_kv_doubts(&world->kv, (uint16_t)i))
			return false;
		both_server_is_sure(world, (uint16_t)i);
		return true;
	default:
		if (i || world->crashes == config->crashes)
			return false;
		world->crashes++;
		both_server_dies(world, config->is_sync);
		return true;
	}
}

/* ---- joins, leaves and connections by their order alone ---- */

static uint64_t normalised(uint64_t *const *at, uint32_t count)
{
	uint64_t rank = 0, next;

	do {
		next = UINT64_MAX;
		for (uint32_t i = 0; i < count; i++)
			if (*at[i] > rank && *at[i] < next)
				next = *at[i];
		rank += next != UINT64_MAX;
		for (uint32_t i = 0; i < count; i++)
			if (*at[i] == next)
				*at[i] = rank;
	} while (next != UINT64_MAX);
	return rank;
}

static void normalise(struct both_world *world)
{
	struct both_book *books[] = { &world->book, &world->disk };
	uint64_t *at[2 * BOTH_WORKERS + BOTH_CONNS];

	for (uint32_t b = 0; b < 2; b++) {
		for (uint32_t i = 0; i < BOTH_WORKERS; i++) {
			at[2 * i] = &books[b]->joined[i];
			at[2 * i + 1] = &books[b]->left[i];
		}
		books[b]->moves = normalised(at, 2 * BOTH_WORKERS);
	}
	for (uint32_t i = 0; i < BOTH_WORKERS; i++) {
		at[2 * i] = &world->worker[i].joined;
		at[2 * i + 1] = &world->worker[i].left;
	}
	world->kv.moves = normalised(at, 2 * BOTH_WORKERS);
	for (uint32_t i = 0; i < BOTH_WORKERS; i++)
		at[i] = &world->worker[i].link;
	for (uint32_t c = 0; c < BOTH_CONNS; c++)
		at[BOTH_WORKERS + c] = &world->conn[c].link;
	normalised(at, BOTH_WORKERS + BOTH_CONNS);
	world->kv.spends_ns = 0;
}

/* ---- the model ---- */

static void both_init(const void *config_at, void *state)
{
	const struct kv_both_config *config = config_at;
	struct both_world *world = state;

	memset(world, 0, sizeof(*world));
	world->workers = config->processes > 1 ? 2 : 1;
	world->book.fences = world->disk.fences = 1;
	both_server_lay(world, true);
	both_server_begin(world, config->is_sync);
	for (uint32_t p = 0; p < 2 && p < config->processes; p++)
		both_process_begin(config, world, p);
	normalise(world);
	both_server_lay(world, false);
}

static void both_expand(const void *config_at, const void *state, struct bfs *bfs)
{
	static struct both_world next;
	const struct kv_both_config *config = config_at;

	for (uint32_t move = 0; move < WHATS * BOTH_CONNS; move++) {
		enum what what = (enum what)(move / BOTH_CONNS);
		uint32_t i = move % BOTH_CONNS;
		bool is_process = what <= FINDS_END || what == KILLED || what == BREAKS;

		if (is_process && i >= BOTH_PROCESSES)
			continue;
		memcpy(&next, state, sizeof(next));
		both_wrong = NULL;
		both_server_lay(&next, true);
		if (!(is_process ? process_does : server_does)(config, &next, what, i))
			continue;
		normalise(&next);
		both_server_lay(&next, false);
		if (bfs_is_telling(bfs))
			bfs_say(bfs, "%s %u", words[what], i);
		bfs_emit(bfs, &next, move | (what >= KILLED ? BFS_MAY : 0), both_wrong);
	}
}

static const char *both_check(const void *config, const void *state)
{
	return both_world_judge(config, state);
}

static bool both_is_end(const void *config, const void *state)
{
	(void)config;
	return both_may_rest(state);
}

void kv_both_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .state_bytes = sizeof(struct both_world),
				     .config = config,
				     .init = both_init,
				     .expand = both_expand,
				     .check = both_check,
				     .is_end = both_is_end };
}
