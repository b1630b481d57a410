/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_shadow.h - for tests: every step again, on copies of the state. Included by admission_fixture.h.
 *
 * A state has room for more members, waiters and numbers than there are, and zeros there say "nobody". In
 * a copy somebody lies right behind the last of each: a step that does anything else then has read too far.
 */
#ifndef CORE_ADMISSION_SHADOW_H
#define CORE_ADMISSION_SHADOW_H

#include "core/job/admission_turn.h"

static const uint32_t GHOST = 0xdead0001;
enum { GHOSTS = 2 * (ADMISSION_GONE + 1) };

struct shadow {
	const struct admission_config *config;
	const struct admission *before;
	struct admission *state;
	struct admission_action *list;
	struct admission_actions actions;
	struct admission_member member;
	struct admission_peer waiter;
	struct admission_seen seen;
	struct admission_member *member_at;
	struct admission_peer *waiter_at;
	struct admission_seen *seen_at;
};

/* All of a short test, and now and then of a long one. */
static bool shadow_is_worth_it(uint32_t step)
{
	return step < 300 || step % 499 == 0;
}

static void shadow_open(struct shadow *s, const struct admission_config *config,
			const struct admission *state)
{
	size_t bytes = admission_bytes(config);

	memset(s, 0, sizeof(*s));
	s->config = config;
	s->before = memcpy(malloc(bytes), state, bytes);
	s->state = malloc(bytes);
	s->list = malloc(admission_actions_max(config) * sizeof(*s->list));
}

static void shadow_close(struct shadow *s)
{
	free((void *)(uintptr_t)s->before);
	free(s->state);
	free(s->list);
}

/* One that a loop without its end would take for a member, whatever it looks for. */
static struct admission_member ghost_of(uint32_t kind)
{
	bool is_far = kind & 1; /* it has called much, and waits; or nothing */
	struct admission_member ghost = { .presence = (uint8_t)(kind / 2), .lanes = 4 };

	ghost.peer =
		(struct admission_peer){ .connection = GHOST,
					 .size = 9,
					 .list_hash = 1,
					 .workers = 7,
					 .timeout_ms = 1,
					 .pulse = is_far ? ADMISSION_ANSWERED : ADMISSION_UNASKED };
	strcpy(ghost.peer.host, "ghost");
	if (!is_far)
		return ghost;
	ghost.submitted = ghost.oldest = UINT64_MAX - 1;
	ghost.is_still = ghost.has_answered = ghost.group = 1;
	ghost.about = ADMISSION_ABOUT_COMPLETE;
	ghost.misfits = UINT32_MAX;
	return ghost;
}

static void shadow_haunt(struct shadow *s, const struct admission_event *event, uint32_t kind)
{
	struct turn turn = { .admission = s->state, .config = s->config };
	const struct admission *state = s->state;
	const struct control_message *message = event->message;

	s->member = ghost_of(kind);
	s->waiter = s->member.peer;
	s->seen = (struct admission_seen){ .number = kind };
	if (message && message->type == CONTROL_OPINFO && message->opinfo.ops_count)
		s->seen.number = message->opinfo.ops[message->opinfo.ops_count - 1].number;
	s->member_at = NULL;
	s->waiter_at = NULL;
	s->seen_at = NULL;
	if (state->size && state->size < s->config->members_max) {
		s->member_at = admission_member_at(&turn, state->size);
		*s->member_at = s->member;
	}
	if (state->waiters_count < s->config->waiters_max) {
		s->waiter_at = admission_waiters(&turn) + state->waiters_count;
		*s->waiter_at = s->waiter;
	}
	if (state->page.seen_count < s->config->ops_max) {
		s->seen_at = admission_seen(&turn) + state->page.seen_count;
		*s->seen_at = s->seen;
	}
}

/* As it is in `real`, if nobody has touched it. */
static void lay(struct shadow *s, void *at, const void *ghost, size_t bytes,
		const struct admission *real)
{
	if (at && !memcmp(at, ghost, bytes))
		memcpy(at, (const char *)real + ((const char *)at - (const char *)s->state), bytes);
}

static void shadow_step(struct shadow *s, const struct admission_event *event,
			const struct admission_actions *lent)
{
	memset(&s->actions, 1, sizeof(s->actions));
	s->actions.waiting = lent->waiting;
	s->actions.list = s->list;
	s->actions.list_max = lent->list_max;
	s->actions.members = lent->members;
	admission_step(s->state, s->config, event, &s->actions);
}

/* `lent`: what the step that led to `real` was given. */
static void shadow_assert(struct shadow *s, const struct admission_event *event,
			  const struct admission_actions *lent, const struct admission *real,
			  const struct admission_actions *done)
{
	for (uint32_t kind = 0; kind < GHOSTS; kind++) {
		memcpy(s->state, s->before, admission_bytes(s->config));
		shadow_haunt(s, event, kind);
		shadow_step(s, event, lent);
		assert_int_equal(s->actions.count, done->count);
		assert_memory_equal(s->list, done->list, done->count * sizeof(*s->list));
		for (uint32_t i = 0; i < done->count; i++) {
			struct control_message ours, theirs;

			admission_message(s->state, s->config, &s->actions, &s->list[i], &ours);
			admission_message(real, s->config, done, &done->list[i], &theirs);
			assert_memory_equal(&ours, &theirs, sizeof(ours));
		}
		s->actions.list = done->list;
		assert_memory_equal(&s->actions, done, sizeof(*done));
		lay(s, s->member_at, &s->member, sizeof(s->member), real);
		lay(s, s->waiter_at, &s->waiter, sizeof(s->waiter), real);
		lay(s, s->seen_at, &s->seen, sizeof(s->seen), real);
		assert_memory_equal(s->state, real, admission_bytes(s->config));
	}
}

/* A TICK is wanted just when something has its time: at `wake_ns` there is something to do, before it only
 * what the TICK of each second finds: silence, and whom the gathering waits for. */
static void shadow_assert_wake(struct shadow *s, const struct admission *real,
			       const struct admission_actions *done, uint64_t now_ns)
{
	struct admission_event tick = { .type = ADMISSION_TICK, .now_ns = done->wake_ns };

	if (done->wake_ns == UINT64_MAX)
		return;
	memcpy(s->state, real, admission_bytes(s->config));
	s->state->tick_ns = tick.now_ns;
	shadow_step(s, &tick, done);
	s->state->tick_ns = real->tick_ns;
	assert_true(s->actions.count || memcmp(s->state, real, admission_bytes(s->config)));
	tick.now_ns--;
	if (tick.now_ns < now_ns)
		return;
	memcpy(s->state, real, admission_bytes(s->config));
	shadow_step(s, &tick, done);
	if (!strstr(s->actions.text, "silent for") && !strstr(s->actions.text, ": waiting"))
		assert_int_equal(s->actions.count, 0);
}

#endif
