/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - see host.h. */
#include "search/host.h"

#include <string.h>

#include "core/host/wait.h"

enum move {
	MOVE_STEP = 1, /* by rank */
	MOVE_ABORT_STEP,
	MOVE_CALL_STEP,
	MOVE_WAKE, /* the kernel wakes a sleeper that a step has called for */
	MOVE_SPURIOUS,
	MOVE_DIE,
	MOVE_ABORT,
};

enum doing { PUBLISHES, LOOKS, SLEEPS, IS_BLOCKED, HAS_ENDED, WAS_TOLD, IS_DEAD };

struct host_rank {
	uint32_t doing, phase, awaited;
	uint32_t is_called;
	struct wait_publish publish;
	struct wait_sleep sleep;
	struct wait_call call; /* by another thread */
};

struct host_state {
	uint64_t asleep;
	uint32_t rings[HOST_RANKS], sleeps_for[HOST_RANKS];
	uint32_t word[HOST_RANKS][WAIT_LINES];
	struct host_rank rank[HOST_RANKS];
	struct wait_abort abort;
	uint32_t is_aborting, has_died;
	uint32_t waking; /* a bit for each that FUTEX_WAKE is to be called for */
};

/* The memory as the shipped code sees it; one state at a time lies in it. */
static struct wait_words words;

static void words_load(const struct host_state *state)
{
	words.asleep = state->asleep;
	for (uint32_t r = 0; r < HOST_RANKS; r++) {
		words.bell[r].rings = state->rings[r];
		words.bell[r].awaited = state->sleeps_for[r];
		for (uint32_t i = 0; i < WAIT_LINES; i++)
			words.line[r][i].word = state->word[r][i];
	}
}

static void words_store(struct host_state *state)
{
	state->asleep = words.asleep;
	for (uint32_t r = 0; r < HOST_RANKS; r++) {
		state->rings[r] = words.bell[r].rings;
		state->sleeps_for[r] = words.bell[r].awaited;
		for (uint32_t i = 0; i < WAIT_LINES; i++)
			state->word[r][i] = words.line[r][i].word;
	}
}

static bool is_over(const struct host_rank *rank)
{
	return rank->doing >= HAS_ENDED;
}

/* ---- one rank ---- */

/* It has passed its phase, or waits for the next of the others. */
static void await_next(const struct host_config *config, struct host_state *state, uint32_t r)
{
	struct host_rank *rank = &state->rank[r];

	rank->doing = LOOKS;
	if (++rank->awaited == r)
		rank->awaited++;
	if (rank->awaited < config->ranks)
		return;
	rank->awaited = 0;
	rank->publish = (struct wait_publish){ 0 };
	rank->doing = ++rank->phase == config->before + config->phases ? HAS_ENDED : PUBLISHES;
}

static void look(const struct host_config *config, struct host_state *state, uint32_t r)
{
	struct host_rank *rank = &state->rank[r];

	if (rank->is_called) {
		rank->doing = WAS_TOLD;
		return;
	}
	switch (wait_look(wait_line(&words, rank->awaited, rank->phase), rank->phase)) {
	case WAIT_THERE:
		await_next(config, state, r);
		break;
	case WAIT_ABORTED:
		rank->doing = WAS_TOLD;
		break;
	case WAIT_NOT_YET:
		rank->doing = SLEEPS;
		rank->sleep = (struct wait_sleep){ 0 };
		break;
	}
}

/* A line is written again when all have read what it held. */
static const char *overwrites(const struct host_config *config, const struct host_state *state,
			      uint32_t r)
{
	for (uint32_t other = 0; other < config->ranks; other++)
		if (!is_over(&state->rank[other]) &&
		    (int32_t)(state->rank[other].phase + 1 - state->rank[r].phase) < 0)
			return "SAFETY: a line is written that another rank still reads";
	return NULL;
}

static const char *step(const struct host_config *config, struct host_state *state, uint32_t r)
{
	struct host_rank *rank = &state->rank[r];
	const char *violation = NULL;

	switch ((enum doing)rank->doing) {
	case PUBLISHES:
		if (!rank->publish.step)
			violation = overwrites(config, state, r);
		switch (wait_publish_step(&rank->publish, &words, r, rank->phase)) {
		case WAIT_WAKE:
			state->waking |= 1u << rank->publish.wake;
			break;
		case WAIT_OVER:
			rank->awaited = UINT32_MAX; /* before the first */
			await_next(config, state, r);
			break;
		case WAIT_STEP:
		case WAIT_SLEEP:
			break;
		}
		break;
	case LOOKS:
		look(config, state, r);
		break;
	case SLEEPS:
		switch (wait_sleep_step(&rank->sleep, &words, r, rank->awaited, rank->phase,
					&rank->is_called)) {
		case WAIT_SLEEP: /* FUTEX_WAIT */
			if (words.bell[r].rings == rank->sleep.rings)
				rank->doing = IS_BLOCKED;
			break;
		case WAIT_OVER:
			rank->doing = LOOKS;
			break;
		case WAIT_STEP:
		case WAIT_WAKE:
			break;
		}
		break;
	default:
		break;
	}
	return violation;
}

/* ---- all ---- */

static void emit(struct bfs *bfs, struct host_state *next, enum move move, uint32_t r, uint32_t may,
		 const char *violation)
{
	words_store(next);
	bfs_emit(bfs, next, may | (uint32_t)move << 8 | r, violation);
}

static void expand_rank(const struct host_config *config, const struct host_state *state,
			uint32_t r, struct bfs *bfs)
{
	struct host_state next = *state;
	const struct host_rank *rank = &state->rank[r];

	words_load(state);
	if (!is_over(rank) && rank->doing != IS_BLOCKED) {
		const char *violation;

		bfs_say(bfs, "rank %u: step of %u in phase %u", r, rank->doing, rank->phase);
		violation = step(config, &next, r);
		emit(bfs, &next, MOVE_STEP, r, 0, violation);
	}
	if (state->waking >> r & 1) {
		next = *state;
		next.waking &= ~(1u << r);
		if (next.rank[r].doing == IS_BLOCKED)
			next.rank[r].doing = SLEEPS;
		words_load(state);
		bfs_say(bfs, "the kernel wakes rank %u", r);
		emit(bfs, &next, MOVE_WAKE, r, 0, NULL);
	}
	if (rank->doing == IS_BLOCKED && config->has_spurious) {
		next = *state;
		next.rank[r].doing = SLEEPS;
		words_load(state);
		bfs_say(bfs, "rank %u wakes for no reason", r);
		emit(bfs, &next, MOVE_SPURIOUS, r, BFS_MAY, NULL);
	}
}

/* Somebody has died: the control connection says so, and a thread of each process ends the wait. */
static void expand_death(const struct host_config *config, const struct host_state *state,
			 uint32_t r, struct bfs *bfs)
{
	struct host_state next = *state;

	if (!state->has_died && !is_over(&state->rank[r])) {
		words_load(state);
		next.has_died = 1;
		next.rank[r].doing = IS_DEAD;
		bfs_say(bfs, "rank %u dies", r);
		emit(bfs, &next, MOVE_DIE, r, BFS_MAY, NULL);
	}
	if (!state->has_died || state->rank[r].doing == IS_DEAD || state->rank[r].call.step == 3)
		return;
	next = *state;
	words_load(state);
	bfs_say(bfs, "another thread of rank %u ends its wait: step %u", r,
		state->rank[r].call.step);
	if (wait_call_step(&next.rank[r].call, &words, r, &next.rank[r].is_called) == WAIT_WAKE)
		next.waking |= 1u << r;
	emit(bfs, &next, MOVE_CALL_STEP, r, 0, NULL);
	(void)config;
}

static void expand_abort(const struct host_config *config, const struct host_state *state,
			 struct bfs *bfs)
{
	struct host_state next = *state;

	words_load(state);
	if (!state->is_aborting) {
		next.is_aborting = 1;
		bfs_say(bfs, "a thread of rank 0 gives up");
		emit(bfs, &next, MOVE_ABORT, 0, BFS_MAY, NULL);
	} else if (state->is_aborting == 1) {
		bfs_say(bfs, "giving up: step %u", state->abort.step);
		switch (wait_abort_step(&next.abort, &words, config->ranks)) {
		case WAIT_WAKE:
			next.waking |= 1u << next.abort.wake;
			break;
		case WAIT_OVER:
			next.is_aborting = 2;
			break;
		case WAIT_STEP:
		case WAIT_SLEEP:
			break;
		}
		emit(bfs, &next, MOVE_ABORT_STEP, 0, 0, NULL);
	}
}

static void host_expand(const void *config_at, const void *state_at, struct bfs *bfs)
{
	const struct host_config *config = config_at;
	const struct host_state *state = state_at;

	for (uint32_t r = 0; r < config->ranks; r++) {
		expand_rank(config, state, r, bfs);
		if (config->has_death)
			expand_death(config, state, r, bfs);
	}
	if (config->has_abort)
		expand_abort(config, state, bfs);
}

static void host_init(const void *config_at, void *state_at)
{
	const struct host_config *config = config_at;
	struct host_state *state = state_at;

	for (uint32_t r = 0; r < config->ranks; r++) {
		state->rank[r].phase = config->before;
		for (uint32_t i = 0; i < WAIT_LINES; i++) /* as often as its phases have passed */
			state->word[r][i] = (config->before + 1 - i) / WAIT_LINES * WAIT_PHASE;
	}
}

static bool host_is_end(const void *config_at, const void *state_at)
{
	const struct host_config *config = config_at;
	const struct host_state *state = state_at;

	for (uint32_t r = 0; r < config->ranks; r++)
		if (!is_over(&state->rank[r]))
			return false;
	return true;
}

/* Who was told must have had a reason. */
static const char *host_check(const void *config_at, const void *state_at)
{
	const struct host_config *config = config_at;
	const struct host_state *state = state_at;

	for (uint32_t r = 0; r < config->ranks; r++)
		if (state->rank[r].doing == WAS_TOLD && !state->has_died && !state->is_aborting)
			return "SAFETY: a wait has ended, and nobody has died or given up";
	return NULL;
}

void host_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .state_bytes = sizeof(struct host_state),
				     .config = config,
				     .init = host_init,
				     .expand = host_expand,
				     .check = host_check,
				     .is_end = host_is_end };
}
