/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of admission use: the memory, who is in it, and a step's actions, texts and lines of log.
 */
#include "core/job/admission_turn.h"
#include "core/job/silence.h"

static const uint64_t silence_min_ns = 10000000000;

enum { HOSTS_MAX = 4 }; /* so many ranks are named with their hosts */

_Static_assert(sizeof(struct admission) % 8 == 0, "members follow it");
_Static_assert(sizeof(struct admission_peer) % 8 == 0, "they are arrays in lent memory");
_Static_assert(sizeof(struct admission_member) % 8 == 0, "so are these");
_Static_assert(sizeof(struct control_op) % 8 == 0, "and these");

/* ---- states ---- */

#define TO(state) (1u << (state))

/* R-CT-8 */
/* clang-format off */
static const uint32_t may_enter[ADMISSION_STATE_COUNT] = {
	[ADMISSION_NONE]     = TO(ADMISSION_GATHER),
	[ADMISSION_GATHER]   = TO(ADMISSION_NONE) | TO(ADMISSION_GRANTED),
	[ADMISSION_GRANTED]  = TO(ADMISSION_ENABLING) | TO(ADMISSION_DRAIN),
	[ADMISSION_ENABLING] = TO(ADMISSION_STARTED) | TO(ADMISSION_DRAIN),
	[ADMISSION_STARTED]  = TO(ADMISSION_DRAIN),
	[ADMISSION_DRAIN]    = TO(ADMISSION_NONE),
};
/* clang-format on */

void admission_enter(struct turn *turn, enum admission_state next)
{
	CORE_ASSERT(may_enter[turn->admission->state] & TO(next));
	turn->admission->state = (uint8_t)next;
	turn->admission->since_ns = turn->event->now_ns;
}

bool admission_is_idle(const struct admission *admission)
{
	return admission->state == ADMISSION_NONE && !admission->waiters_count;
}

bool admission_is_running(const struct admission *admission)
{
	return admission->state >= ADMISSION_GRANTED && admission->state <= ADMISSION_STARTED;
}

/* ---- pairs (R-CT-58) ---- */

bool admission_pair_ranks(const char *name, uint32_t ranks[2])
{
	const char *at = NULL;

	for (; *name; name++)
		at = *name == '/' ? name + 1 : at;
	for (uint32_t i = 0; i < 2; i++) {
		const char *begin = at;

		ranks[i] = 0;
		while (at && *at >= '0' && *at <= '9' && ranks[i] < CONTROL_MEMBERS_MAX)
			ranks[i] = 10 * ranks[i] + (uint32_t)(*at++ - '0');
		if (at == begin || *at++ != "-"[i])
			return false;
	}
	return true;
}

uint32_t admission_named_in(const struct admission *admission,
			    const struct admission_config *config, uint32_t rank)
{
	uint32_t ranks[2];

	return config->life && rank < 2 && admission->size == 2 &&
			       admission_pair_ranks(config->job, ranks)
		       ? ranks[rank]
		       : rank;
}

uint32_t admission_named(const struct turn *turn, uint32_t rank)
{
	return admission_named_in(turn->admission, turn->config, rank);
}

/* ---- memory ---- */

struct admission_member *admission_member(struct admission *admission, uint32_t rank)
{
	return (struct admission_member *)(void *)(admission + 1) + rank;
}

struct admission_member *admission_member_at(const struct turn *turn, uint32_t rank)
{
	return admission_member(turn->admission, rank);
}

const char *admission_host(const struct turn *turn, uint32_t rank)
{
	return admission_member_at(turn, rank)->peer.host;
}

struct admission_peer *admission_waiters(const struct turn *turn)
{
	return (struct admission_peer *)(void *)admission_member_at(turn,
								    turn->config->members_max);
}

struct control_op *admission_groups(const struct turn *turn)
{
	return (struct control_op *)(void *)(admission_waiters(turn) + turn->config->waiters_max);
}

struct admission_seen *admission_seen(const struct turn *turn)
{
	return (struct admission_seen *)(void *)(admission_groups(turn) + turn->config->groups_max);
}

char *admission_refusal(const struct turn *turn)
{
	return (char *)(admission_seen(turn) + turn->config->ops_max);
}

char *admission_unfit(const struct turn *turn)
{
	return admission_refusal(turn) + turn->config->text_max;
}

uint64_t *admission_unfit_sources(const struct turn *turn)
{
	return (uint64_t *)(void *)(admission_unfit(turn) + turn->config->text_max);
}

size_t admission_bytes(const struct admission_config *config)
{
	return sizeof(struct admission) + config->members_max * sizeof(struct admission_member) +
	       config->waiters_max * sizeof(struct admission_peer) +
	       config->groups_max * sizeof(struct control_op) +
	       config->ops_max * sizeof(struct admission_seen) + 2 * config->text_max +
	       config->members_max * sizeof(uint64_t);
}

/* ---- who is here ---- */

bool admission_is_in(const struct admission_member *member)
{
	return member->presence == ADMISSION_JOINED || member->presence == ADMISSION_READY;
}

struct admission_member *admission_find_member(const struct turn *turn, uint32_t connection)
{
	for (uint32_t rank = 0; rank < turn->config->members_max; rank++) {
		struct admission_member *member = admission_member_at(turn, rank);
		if (connection && member->peer.connection == connection)
			return member;
	}
	return NULL;
}

struct admission_peer *admission_find_waiter(const struct turn *turn, uint32_t connection)
{
	ADMISSION_EACH_WAITER(turn, waiter)
		if (connection && waiter->connection == connection)
			return waiter;
	return NULL;
}

struct text_ranks admission_ranks(const struct turn *turn, uint32_t presences)
{
	struct text_ranks ranks = { { 0 } };

	for (uint32_t rank = 0; rank < turn->admission->size; rank++)
		if (presences >> admission_member_at(turn, rank)->presence & 1)
			text_ranks_put(&ranks, rank);
	return ranks;
}

bool admission_has(const struct turn *turn, uint32_t presences)
{
	ADMISSION_EACH(turn, member)
		if (presences >> member->presence & 1)
			return true;
	return false;
}

struct admission_member *admission_holder(const struct turn *turn,
					  const struct admission_peer *peer)
{
	const struct admission *admission = turn->admission;
	struct admission_member *holder;

	if (admission->state == ADMISSION_GATHER)
		holder = peer->rank < admission->size ? admission_member_at(turn, peer->rank)
						      : NULL;
	else if (admission_is_running(admission))
		holder = admission_member_at(turn, peer->rank % admission->size);
	else
		return NULL;
	return holder && admission_is_in(holder) ? holder : NULL;
}

/* Who has not said READY may not know how long a heartbeat time is. */
uint64_t admission_limit_ns(const struct turn *turn, const struct admission_peer *peer)
{
	const struct admission_member *member = admission_find_member(turn, peer->connection);
	uint64_t running_ns = silence_ns(turn->config->heartbeat_ns);
	bool has_time = member && member->presence != ADMISSION_JOINED;

	return has_time ? running_ns : rto_most(running_ns, silence_min_ns);
}

bool admission_is_heard(const struct turn *turn, const struct admission_peer *peer)
{
	return turn->event->now_ns - peer->heard_ns < admission_limit_ns(turn, peer);
}

void admission_forget_pulses(struct turn *turn)
{
	ADMISSION_EACH_WAITER(turn, waiter)
		waiter->pulse = ADMISSION_UNASKED;
}

bool admission_has_all_shards(const struct turn *turn)
{
	uint32_t shards = turn->config->shards;

	return turn->admission->shards_acked == (shards == 64 ? ~0ull : (1ull << shards) - 1);
}

/* ---- actions ---- */

static struct admission_action *add_action(struct turn *turn, enum admission_action_type type)
{
	struct admission_actions *actions = turn->actions;

	CORE_ASSERT(actions->count < actions->list_max);
	struct admission_action *action = &actions->list[actions->count++];
	*action = (struct admission_action){ .type = (uint8_t)type };
	return action;
}

struct admission_action *admission_send(struct turn *turn, const struct admission_peer *peer,
					enum control_type type)
{
	struct admission_action *action = add_action(turn, ADMISSION_SEND);

	action->connection = peer->connection;
	action->message = (uint8_t)type;
	action->rank = peer->rank;
	return action;
}

void admission_send_all(struct turn *turn, enum control_type type)
{
	ADMISSION_EACH(turn, member)
		if (admission_is_in(member))
			admission_send(turn, &member->peer, type);
}

void admission_send_waiters(struct turn *turn, enum control_type type)
{
	ADMISSION_EACH_WAITER(turn, waiter)
		admission_send(turn, waiter, type);
}

void admission_close(struct turn *turn, struct admission_peer *peer)
{
	if (peer->connection)
		add_action(turn, ADMISSION_CLOSE)->connection = peer->connection;
}

void admission_send_last(struct turn *turn, struct admission_peer *peer, enum control_type type)
{
	admission_send(turn, peer, type);
	admission_close(turn, peer);
	peer->connection = 0;
}

void admission_drop_waiter(struct turn *turn, struct admission_peer *waiter)
{
	struct admission *admission = turn->admission;
	struct admission_peer *waiters = admission_waiters(turn);
	uint32_t index = (uint32_t)(waiter - waiters);
	uint32_t behind = --admission->waiters_count - index;

	memmove(waiter, waiter + 1, behind * sizeof(*waiter));
	memset(waiters + admission->waiters_count, 0, sizeof(*waiters));
}

void admission_tell_shards(struct turn *turn, enum admission_command what)
{
	struct admission_action *action = add_action(turn, ADMISSION_COMMAND);

	action->command = (uint8_t)what;
	action->generation = turn->admission->generation;
	action->lanes = turn->admission->lanes;
	turn->admission->shards_acked = 0;
}

struct text admission_blame(struct turn *turn, enum control_cause cause, uint32_t rank,
			    const char *format, ...)
{
	__builtin_va_list args;
	struct text text;

	turn->actions->cause = (uint16_t)cause;
	turn->actions->cause_rank = (uint16_t)rank;
	text_begin(&text, turn->actions->text, sizeof(turn->actions->text));
	__builtin_va_start(args, format);
	text_add_args(&text, format, args);
	__builtin_va_end(args);
	return text;
}

struct text admission_log(struct turn *turn, enum admission_log level, const char *format, ...)
{
	__builtin_va_list args;
	struct text text;

	turn->actions->log_level = level;
	turn->actions->log_rank = CONTROL_RANK_NONE;
	text_begin(&text, turn->actions->log, sizeof(turn->actions->log));
	__builtin_va_start(args, format);
	text_add_args(&text, format, args);
	__builtin_va_end(args);
	return text;
}

void admission_log_peer(struct turn *turn, const struct admission_peer *peer, const char *what)
{
	admission_log(turn, ADMISSION_LOG_INFO, "rank %u on %s (process %u) %s",
		      admission_named(turn, peer->rank), peer->host, peer->pid, what);
	turn->actions->log_rank = peer->rank;
}

void admission_log_blame(struct turn *turn)
{
	admission_log(turn, ADMISSION_LOG_WARN, "%s", turn->actions->text);
	turn->actions->log_rank = turn->actions->cause_rank;
}

void admission_refuse(struct turn *turn, struct admission_peer *peer)
{
	admission_log_blame(turn);
	turn->actions->log_level = ADMISSION_LOG_LIMITED;
	admission_send_last(turn, peer, CONTROL_DENY);
}

void admission_refuse_waiters(struct turn *turn)
{
	struct admission *admission = turn->admission;

	ADMISSION_EACH_WAITER(turn, waiter)
		admission_send_last(turn, waiter, CONTROL_DENY);
	memset(admission_waiters(turn), 0,
	       admission->waiters_count * sizeof(struct admission_peer));
	admission->waiters_count = 0;
}

void admission_add_ranks(const struct turn *turn, struct text *text, const struct text_ranks *ranks)
{
	const char *before = "";

	if (text_ranks_count(ranks) > HOSTS_MAX) {
		text_add_ranks(text, ranks);
		return;
	}
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (!text_ranks_has(ranks, rank))
			continue;
		const char *host = admission_host(turn, rank); /* of nobody: none */
		text_add(text, "%srank %u%s%s", before, admission_named(turn, rank),
			 host[0] ? " on " : "", host);
		before = ", ";
	}
}
