/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c - see kv.h. */
#include "search/kv.h"

#include <stdio.h>
#include <string.h>

#include "core/kv/server_kv_model.h"

static const uint64_t TICK_NS = 4000000000, FIRST_NS = 1000000000;

enum what { OPEN, OPEN_NEW, LOSE, ENDS, END, LEAVE, HEARD, TURN, TROUBLE, TICK, BARRIER };
static const char *const words[] = {
	"comes back",
	"begins anew",
	"has lost its connection",
	"is told that this ends",
	"is known to have gone",
	"leaves",
	"is heard",
	"the server looks",
	"the disk fails for a look",
	"4 s pass",
	"barrier",
};

/* The next move after `last`; UINT64_MAX: there is none. */
static uint64_t move_after(const struct server_kv_model *model, uint64_t last)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < model->table.workers; i++) {
		const struct server_kv_worker *it = &model->worker[i];

		if (it->joined > last && it->joined < next)
			next = it->joined;
		if (it->left > last && it->left < next)
			next = it->left;
	}
	return next;
}

/* Joins and leaves by their order alone; not when somebody came in place of another, nor on the how manieth connection. */
static void normalise(struct server_kv_model *model)
{
	uint64_t rank = 0, next;

	while ((next = move_after(model, rank)) != UINT64_MAX) {
		rank++;
		for (uint32_t i = 0; i < model->table.workers; i++) {
			uint64_t *at[] = { &model->worker[i].joined, &model->worker[i].left,
					   &model->seen[i].joined, &model->seen[i].left };

			for (int k = 0; k < 4; k++)
				if (*at[k] == next)
					*at[k] = rank;
		}
	}
	for (uint32_t i = 0; i < model->table.workers; i++)
		model->worker[i].link = model->seen[i].link = model->seen[i].link != 0;
	model->kv.moves = model->moves = rank;
	model->kv.spends_ns = 0;
}

static void kv_init(const void *config, void *state)
{
	const struct kv_config *kv = config;

	server_kv_model_init(state, kv->workers, kv->is_sync);
}

/* False: it is not possible. */
static bool is_done(const struct kv_config *config, struct server_kv_model *model, uint16_t worker,
		    uint32_t what)
{
	const struct server_kv_seen *it = &model->seen[worker];
	bool is_here = it->link && !it->is_lost;

	switch (what) {
	case OPEN:
		return it->incarnation && server_kv_model_open(model, worker, false);
	case OPEN_NEW:
		return it->incarnation < (worker ? config->others : config->lives) &&
		       server_kv_model_open(model, worker, true);
	case LOSE:
		if (is_here)
			server_kv_model_lose(model, worker);
		return is_here && config->has_losses;
	case ENDS:
		if (!is_here || !it->asked || !config->has_trouble)
			return false;
		server_kv_model_ends(model, worker);
		return true;
	case END:
		if (!it->link)
			return false;
		server_kv_model_end(model, worker);
		return true;
	case LEAVE:
		if (is_here && !it->is_leaving)
			server_kv_model_leave(model, worker);
		return is_here;
	case HEARD:
		if (is_here && it->doubt_ns)
			server_kv_model_heard(model, worker);
		return is_here;
	case TURN:
	case TROUBLE:
		if (what == TROUBLE && !config->has_trouble)
			return false;
		server_kv_model_turn(model, what == TURN ? SERVER_KV_WELL : SERVER_KV_TROUBLED);
		return !worker;
	case TICK:
		model->now_ns += TICK_NS;
		return !worker && model->now_ns <= FIRST_NS + config->ticks * TICK_NS;
	default:
		if (is_here && !it->is_leaving)
			server_kv_model_barrier(model, worker, what - BARRIER + 1, SERVER_KV_WELL);
		return is_here;
	}
}

static void kv_expand(const void *config, const void *state, struct bfs *bfs)
{
	const struct kv_config *kv = config;
	uint32_t kinds = BARRIER + kv->barriers;

	for (uint32_t move = 0; move < kv->workers * kinds; move++) {
		uint32_t worker = move / kinds, what = move % kinds;
		struct server_kv_model next;

		memcpy(&next, state, sizeof(next));
		server_kv_model_lay(&next, true);
		if (!is_done(kv, &next, (uint16_t)worker, what))
			continue;
		normalise(&next);
		server_kv_model_lay(&next, false);
		if (bfs_is_telling(bfs))
			bfs_say(bfs, "worker %u: %s %u", worker,
				words[what < BARRIER ? what : BARRIER],
				what < BARRIER ? 0 : what - BARRIER + 1);
		bfs_emit(bfs, &next, move, NULL);
	}
}

static const char *kv_check(const void *config, const void *state)
{
	static char text[64];
	uint64_t line = ((const struct server_kv_model *)state)->wrong;

	(void)config;
	if (!line)
		return NULL;
	snprintf(text, sizeof(text), "not as R-KV-11 is read: server_kv_model.h:%u",
		 (uint32_t)line);
	return text;
}

void kv_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .state_bytes = sizeof(struct server_kv_model),
				     .config = config,
				     .init = kv_init,
				     .expand = kv_expand,
				     .check = kv_check };
}
