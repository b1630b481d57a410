/* SPDX-License-Identifier: Apache-2.0 */
#include "core/admission_turn.h"

enum { HOSTS_MAX = 4 }; /* so many ranks are named with their hosts */
static const uint64_t ms_ns = 1000000;

_Static_assert(sizeof(struct admission) % 8 == 0, "members follow it");
_Static_assert(sizeof(struct admission_peer) % 8 == 0, "they are arrays in lent memory");
_Static_assert(sizeof(struct admission_member) % 8 == 0, "so are these");
_Static_assert(sizeof(struct control_op) % 8 == 0, "and these");

#define TO(state) (1u << (state))

/* clang-format off */
static const uint32_t may_enter[ADMISSION_STATE_COUNT] = {
	[ADMISSION_NONE]     = TO(ADMISSION_GATHER),
	[ADMISSION_GATHER]   = TO(ADMISSION_NONE) | TO(ADMISSION_GRANTED),
	[ADMISSION_GRANTED]  = TO(ADMISSION_ENABLING) | TO(ADMISSION_DRAIN),
	[ADMISSION_ENABLING] = TO(ADMISSION_STARTED) | TO(ADMISSION_DRAIN),
	[ADMISSION_STARTED]  = TO(ADMISSION_DRAIN),
	[ADMISSION_DRAIN]    = TO(ADMISSION_NONE),
};
static const char *const state_names[ADMISSION_STATE_COUNT] = {
	"none", "gather", "granted", "enabling", "started", "drain",
};
/* clang-format on */

const char *admission_state_name(uint32_t state)
{
	return state < ADMISSION_STATE_COUNT ? state_names[state] : "?";
}

/* ---- memory ---- */

struct admission_member *admission_member(struct admission *admission, uint32_t rank)
{
	return (struct admission_member *)(void *)(admission + 1) + rank;
}

struct admission_member *turn_member(const struct turn *turn, uint32_t rank)
{
	return admission_member(turn->admission, rank);
}

struct admission_peer *admission_waiters(const struct turn *turn)
{
	return (struct admission_peer *)(void *)turn_member(turn, turn->config->members_max);
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

size_t admission_bytes(const struct admission_config *config)
{
	return sizeof(struct admission) + config->members_max * sizeof(struct admission_member) +
	       config->waiters_max * sizeof(struct admission_peer) +
	       config->groups_max * sizeof(struct control_op) +
	       config->ops_max * sizeof(struct admission_seen) + 2 * config->text_max;
}

/* HEARTBEAT, and then the last message and CLOSE, for everybody; a command. */
uint32_t admission_actions_max(const struct admission_config *config)
{
	return 3 * ((uint32_t)config->members_max + config->waiters_max + 1) + 4;
}

void admission_init(struct admission *admission, const struct admission_config *config)
{
	CORE_ASSERT(config->members_max >= 1);
	CORE_ASSERT(config->members_max <= CONTROL_MEMBERS_MAX);
	CORE_ASSERT(config->shards >= 1);
	CORE_ASSERT(config->shards <= MAP_SHARDS_MAX);
	CORE_ASSERT(config->ops_max >= 1);
	CORE_ASSERT(config->groups_max >= 2);
	CORE_ASSERT(config->text_max >= 8);
	CORE_ASSERT(config->text_max % 8 == 0);
	memset(admission, 0, admission_bytes(config));
	admission->last_rank = CONTROL_RANK_NONE;
}

const uint8_t *admission_nonce(const struct admission *admission, uint32_t rank)
{
	const struct admission_member *members = (const void *)(admission + 1);

	return members[rank].peer.nonce;
}

bool admission_is_idle(const struct admission *admission)
{
	return admission->state == ADMISSION_NONE && !admission->waiters_count;
}

/* ---- actions ---- */

void turn_enter(struct turn *turn, enum admission_state next)
{
	CORE_ASSERT(may_enter[turn->admission->state] & TO(next));
	turn->admission->state = (uint8_t)next;
	turn->admission->since_ns = turn->event->now_ns;
}

static struct admission_action *add_action(struct turn *turn, enum admission_action_type type)
{
	struct admission_actions *actions = turn->actions;

	CORE_ASSERT(actions->count < actions->list_max);
	struct admission_action *action = &actions->list[actions->count++];
	*action = (struct admission_action){ .type = (uint8_t)type };
	return action;
}

struct admission_action *turn_send(struct turn *turn, const struct admission_peer *peer,
				   enum control_type type)
{
	struct admission_action *action = add_action(turn, ADMISSION_SEND);

	action->connection = peer->connection;
	action->message = (uint8_t)type;
	action->rank = peer->rank;
	return action;
}

/* R-CT-5: a close with unread input would eat what was said last. */
static void turn_close(struct turn *turn, struct admission_peer *peer)
{
	if (peer->connection)
		add_action(turn, ADMISSION_CLOSE)->connection = peer->connection;
}

/* Said, closed and forgotten: its CLOSED will find nobody. */
void turn_send_last(struct turn *turn, struct admission_peer *peer, enum control_type type)
{
	turn_send(turn, peer, type);
	turn_close(turn, peer);
	peer->connection = 0;
}

void turn_command(struct turn *turn, enum admission_command what)
{
	struct admission_action *action = add_action(turn, ADMISSION_COMMAND);

	action->command = (uint8_t)what;
	action->generation = turn->admission->generation;
	action->lanes = turn->admission->lanes;
	turn->admission->shards_acked = 0;
}

void turn_blame(struct turn *turn, struct text *text, enum control_cause cause, uint32_t rank)
{
	turn->actions->cause = (uint16_t)cause;
	turn->actions->cause_rank = (uint16_t)rank;
	text_begin(text, turn->actions->text, sizeof(turn->actions->text));
}

void turn_log(struct turn *turn, struct text *text, enum admission_log level)
{
	turn->actions->log_level = level;
	text_begin(text, turn->actions->log, sizeof(turn->actions->log));
}

void turn_log_peer(struct turn *turn, const struct admission_peer *peer, const char *what)
{
	struct text text;

	turn_log(turn, &text, ADMISSION_LOG_INFO);
	text_add(&text, "rank %u on %s (process %u) %s", peer->rank, peer->host, peer->pid, what);
}

/* What went wrong is also a line of log. */
void turn_log_blame(struct turn *turn)
{
	struct text text;

	turn_log(turn, &text, ADMISSION_LOG_WARN);
	text_add(&text, "%s", turn->actions->text);
}

void turn_add_peer(struct text *text, const struct admission_peer *peer)
{
	text_add(text, "rank %u on %s", peer->rank, peer->host);
}

void turn_add_rank(const struct turn *turn, struct text *text, uint32_t rank)
{
	const struct admission_member *member = turn_member(turn, rank);

	if (member->peer.host[0])
		turn_add_peer(text, &member->peer);
	else
		text_add(text, "rank %u", rank);
}

void turn_add_ranks(const struct turn *turn, struct text *text, const struct text_ranks *ranks)
{
	const char *before = "";

	if (text_ranks_count(ranks) > HOSTS_MAX) {
		text_add_ranks(text, ranks);
		return;
	}
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (!text_ranks_has(ranks, rank))
			continue;
		text_add(text, "%s", before);
		turn_add_rank(turn, text, rank);
		before = ", ";
	}
}

/* ---- who is here ---- */

bool admission_is_in(const struct admission_member *member)
{
	return member->presence == ADMISSION_JOINED || member->presence == ADMISSION_READY;
}

bool admission_is_running(const struct admission *admission)
{
	return admission->state >= ADMISSION_GRANTED && admission->state <= ADMISSION_STARTED;
}

static struct admission_member *find_member(const struct turn *turn, uint32_t connection)
{
	for (uint32_t rank = 0; rank < turn->config->members_max; rank++) {
		struct admission_member *member = turn_member(turn, rank);
		if (connection && member->peer.connection == connection)
			return member;
	}
	return NULL;
}

static struct admission_peer *find_waiter(const struct turn *turn, uint32_t connection)
{
	for (uint32_t i = 0; i < turn->admission->waiters_count; i++) {
		if (connection && admission_waiters(turn)[i].connection == connection)
			return &admission_waiters(turn)[i];
	}
	return NULL;
}

struct text_ranks turn_ranks(const struct turn *turn, enum admission_presence presence)
{
	struct text_ranks ranks = { { 0 } };

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (turn_member(turn, rank)->presence == presence)
			text_ranks_put(&ranks, rank);
	}
	return ranks;
}

/* Who keeps a waiter from its rank: somebody who may be dead without our knowing. Whoever waits for a
 * rank that a job of this size does not have is measured against one that it has. */
struct admission_member *turn_holder(const struct turn *turn, const struct admission_peer *peer)
{
	const struct admission *admission = turn->admission;
	struct admission_member *holder;

	if (admission->state == ADMISSION_GATHER)
		holder = peer->rank < admission->size ? turn_member(turn, peer->rank) : NULL;
	else if (admission_is_running(admission))
		holder = turn_member(turn, peer->rank % admission->size);
	else
		return NULL;
	return holder && admission_is_in(holder) ? holder : NULL;
}

/* A rank is free, or another process has it: what pulses said before is about somebody else. */
void turn_forget_pulses(struct turn *turn)
{
	for (uint32_t i = 0; i < turn->admission->waiters_count; i++)
		admission_waiters(turn)[i].pulse = ADMISSION_UNASKED;
}

/* Nobody is in; those who wait stay, and so does what the log remembers of the last life. */
static void reset(struct turn *turn)
{
	struct admission *admission = turn->admission;

	turn_enter(turn, ADMISSION_NONE);
	memset(turn_member(turn, 0), 0,
	       turn->config->members_max * sizeof(struct admission_member));
	admission->life = 0;
	admission->generation = 0;
	admission->shards_acked = 0;
	admission->size = 0;
	admission->mode = CONTROL_DENSE;
	admission->latency_slots = 0;
	admission->latency_window = 0;
	admission->lanes = 0;
	unfit_forget(turn);
	turn_forget_pulses(turn);
}

void turn_free_rank(struct turn *turn, struct admission_member *member)
{
	memset(member, 0, sizeof(*member));
	turn_forget_pulses(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (turn_member(turn, rank)->presence != ADMISSION_ABSENT)
			return;
	}
	reset(turn);
}

/* ---- the end of a life ---- */

static void remember(struct turn *turn)
{
	turn->admission->last_cause = (uint8_t)turn->actions->cause;
	turn->admission->last_rank = turn->actions->cause_rank;
}

static bool has_all_shards(const struct turn *turn)
{
	uint32_t shards = turn->config->shards;

	return turn->admission->shards_acked == (shards == 64 ? ~0ull : (1ull << shards) - 1);
}

static void check_drained(struct turn *turn)
{
	if (turn->admission->state != ADMISSION_DRAIN || !has_all_shards(turn))
		return;
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_is_in(turn_member(turn, rank)))
			return;
	}
	reset(turn);
}

static void drain(struct turn *turn)
{
	struct admission *admission = turn->admission;

	turn_enter(turn, ADMISSION_DRAIN);
	turn_command(turn, ADMISSION_JOB_REMOVE);
	query_end(turn);
	admission->mismatch = 0;
	wait_forget(turn);
	turn_forget_pulses(turn);
	check_drained(turn);
}

/* Those who have not left stay in their places until their connections are closed, so that nobody of the
 * next life meets them. */
void turn_end_life(struct turn *turn)
{
	remember(turn);
	turn_log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = turn_member(turn, rank);
		if (!admission_is_in(member))
			continue;
		turn_send(turn, &member->peer, CONTROL_ABORT);
		turn_close(turn, &member->peer);
	}
	drain(turn);
}

/* A gathering ends before any shard knows of it: everybody hears why and is forgotten. */
void turn_end_gathering(struct turn *turn, enum control_type last)
{
	remember(turn);
	refuse_late_comers(turn);
	turn_log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = turn_member(turn, rank);
		if (admission_is_in(member))
			turn_send_last(turn, &member->peer, last);
	}
	reset(turn);
}

/* A member of a granted life is lost, with the text that turn_blame began. */
static void lose(struct turn *turn, struct admission_member *member)
{
	member->presence = ADMISSION_GONE;
	member->peer.connection = 0;
	if (TAKEN_OUT(KILLED_RANK))
		return;
	turn_end_life(turn);
}

/* ---- what members say ---- */

static void ready(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	uint32_t lanes = turn->config->lanes_max;

	if (admission->state != ADMISSION_GRANTED || member->presence != ADMISSION_JOINED)
		return;
	if (!has_all_shards(turn) && !TAKEN_OUT(EARLY_READY))
		return; /* it cannot have its GRANT: no shard is asked for two things at once */
	member->presence = ADMISSION_READY;
	member->lanes = turn->event->message->lanes.lanes;
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		if (turn_member(turn, rank)->presence != ADMISSION_READY)
			return;
		if (turn_member(turn, rank)->lanes < lanes)
			lanes = turn_member(turn, rank)->lanes;
	}
	admission->lanes = (uint16_t)(lanes - lanes % WIRE_LANES_STEP);
	turn_enter(turn, ADMISSION_ENABLING);
	turn_command(turn, ADMISSION_JOB_SET);
}

/* R-CT-14: a shard that is not enabled yet would drop what the first to start sends. */
static void start(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text text;

	turn_enter(turn, ADMISSION_STARTED);
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_peer *peer = &turn_member(turn, rank)->peer;
		struct control_member *member = &turn->actions->members[rank];
		*member = (struct control_member){ .rank = peer->rank, .pid = peer->pid };
		memcpy(member->host, peer->host, sizeof(member->host));
		turn_send(turn, peer, CONTROL_START)->lanes = admission->lanes;
	}
	turn_log(turn, &text, ADMISSION_LOG_INFO);
	text_add(&text, "%u ranks start with %u lanes", admission->size, admission->lanes);
}

static void member_aborts(struct turn *turn, struct admission_member *member)
{
	const struct control_end *said = &turn->event->message->end;
	enum control_cause cause = said->cause == CONTROL_MISMATCH || said->cause == CONTROL_TIMEOUT
					   ? said->cause
					   : CONTROL_REMOTE;
	struct text text;

	turn_blame(turn, &text, cause, member->peer.rank);
	turn_add_peer(&text, &member->peer);
	text_add(&text, said->cause == CONTROL_ABORTED ? " aborted" : " failed");
	if (said->text[0])
		text_add(&text, ": %s", said->text);
	turn_close(turn, &member->peer);
	if (turn->admission->state == ADMISSION_GATHER) {
		turn_log_blame(turn);
		refuse_gatherer_goes(turn, member);
	} else {
		lose(turn, member);
	}
}

static bool all_left(const struct turn *turn)
{
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (turn_member(turn, rank)->presence != ADMISSION_LEFT)
			return false;
	}
	return true;
}

static void leave(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	struct text text;

	if (admission->state != ADMISSION_STARTED) {
		turn_blame(turn, &text, CONTROL_REMOTE, member->peer.rank);
		turn_add_peer(&text, &member->peer);
		text_add(&text, " left before the job had started");
		turn_close(turn, &member->peer);
		if (admission->state == ADMISSION_GATHER)
			refuse_gatherer_goes(turn, member);
		else
			lose(turn, member);
		return;
	}
	member->submitted = turn->event->message->leave.submitted;
	member->presence = ADMISSION_LEFT;
	turn_log_peer(turn, &member->peer, "has left");
	if (all_left(turn) || !TAKEN_OUT(LEFT_AT_ONCE)) /* it waits for nobody */
		turn_send_last(turn, &member->peer, CONTROL_LEFT);
	if (all_left(turn)) {
		admission->last_cause = CONTROL_OK;
		admission->last_rank = CONTROL_RANK_NONE;
		drain(turn);
		return;
	}
	if (TAKEN_OUT(SLOTS_EARLY))
		turn_command(turn, ADMISSION_JOB_REMOVE);
	query_left(turn);
}

static void member_message(struct turn *turn, struct admission_member *member)
{
	bool is_started = turn->admission->state == ADMISSION_STARTED;

	switch (turn->event->message->type) {
	case CONTROL_READY:
		ready(turn, member);
		break;
	case CONTROL_PING:
		turn_send(turn, &member->peer, CONTROL_PONG)->number =
			turn->event->message->ping.serial;
		break;
	case CONTROL_PONG:
		join_pong(turn, &member->peer);
		break;
	case CONTROL_STALL:
		if (is_started)
			wait_stall(turn, member);
		break;
	case CONTROL_OPINFO:
		if (is_started)
			query_opinfo(turn, member);
		break;
	case CONTROL_ABORT:
		member_aborts(turn, member);
		break;
	case CONTROL_LEAVE:
		leave(turn, member);
		break;
	case CONTROL_HEARTBEAT: /* that it came is all it says */
	default:                /* what a sound member does not say changes nothing */
		break;
	}
}

static void message(struct turn *turn)
{
	struct admission_member *member = find_member(turn, turn->event->connection);
	struct admission_peer *waiter = find_waiter(turn, turn->event->connection);

	if (member) {
		member->peer.heard_ns = turn->event->now_ns;
		if (admission_is_in(member) && turn->admission->state != ADMISSION_DRAIN)
			member_message(turn, member);
	} else if (waiter) {
		waiter->heard_ns = turn->event->now_ns;
		if (turn->event->message->type == CONTROL_PONG) {
			join_pong(turn, waiter);
		} else if (turn->event->message->type == CONTROL_PING) {
			turn_send(turn, waiter, CONTROL_PONG)->number =
				turn->event->message->ping.serial;
		} else if (turn->event->message->type == CONTROL_ABORT ||
			   turn->event->message->type == CONTROL_LEAVE) {
			turn_close(turn, waiter);
			join_drop_waiter(turn, waiter);
		}
	} else if (turn->event->message->type == CONTROL_JOIN) {
		join_read(turn);
	}
}

/* ---- closed and silent ---- */

static void member_closed(struct turn *turn, struct admission_member *member)
{
	struct text text;

	if (turn->admission->state == ADMISSION_GATHER) {
		turn_log_peer(turn, &member->peer, "has gone");
		refuse_gatherer_goes(turn, member);
	} else if (admission_is_running(turn->admission) && admission_is_in(member)) {
		turn_blame(turn, &text, CONTROL_REMOTE, member->peer.rank);
		turn_add_peer(&text, &member->peer);
		text_add(&text, " died: process %u has closed its connection without leaving",
			 member->peer.pid);
		lose(turn, member);
	} else {
		if (admission_is_in(member))
			member->presence = ADMISSION_GONE;
		member->peer.connection = 0;
		check_drained(turn);
	}
}

static void closed(struct turn *turn)
{
	struct admission_member *member = find_member(turn, turn->event->connection);
	struct admission_peer *waiter = find_waiter(turn, turn->event->connection);

	if (member)
		member_closed(turn, member);
	else if (waiter)
		join_drop_waiter(turn, waiter);
}

static void blame_silence(struct turn *turn, const struct admission_peer *peer)
{
	struct text text;

	turn_blame(turn, &text, CONTROL_REMOTE, peer->rank);
	turn_add_peer(&text, peer);
	text_add(&text, " has been silent for more than %llu ms (process %u)",
		 (unsigned long long)(turn->config->heartbeat_ns / ms_ns), peer->pid);
}

/* It may only be stopped: then it reads later why the others are gone. */
static void member_silent(struct turn *turn, struct admission_member *member)
{
	if (turn->admission->state == ADMISSION_GATHER) {
		blame_silence(turn, &member->peer);
		turn_log_blame(turn);
		turn_send_last(turn, &member->peer, CONTROL_DENY);
		refuse_gatherer_goes(turn, member);
	} else if (admission_is_running(turn->admission) && admission_is_in(member)) {
		blame_silence(turn, &member->peer);
		turn_send_last(turn, &member->peer, CONTROL_ABORT);
		lose(turn, member);
	} else {
		member_closed(turn, member);
	}
}

bool turn_silent(struct turn *turn, uint32_t connection)
{
	struct admission_member *member = find_member(turn, connection);
	struct admission_peer *waiter = find_waiter(turn, connection);

	if (member) {
		member_silent(turn, member);
	} else if (waiter) {
		blame_silence(turn, waiter);
		struct admission_peer peer = *waiter;
		join_drop_waiter(turn, waiter);
		join_refuse(turn, &peer);
	}
	return member || waiter;
}

/* ---- shards ---- */

static void shard_failed(struct turn *turn)
{
	struct text text;

	if (turn->event->is_path) {
		turn_blame(turn, &text, CONTROL_SYSTEM, turn->event->rank);
		text_add(&text, "job \"%s\" of %u: %s", turn->config->job, turn->admission->size,
			 turn->event->text);
		turn_end_life(turn);
		return;
	}
	turn_blame(turn, &text, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\" of %u: the aggregator has no room for it (shard %u)",
		 turn->config->job, turn->admission->size, turn->event->shard);
	if (turn->event->text && !TAKEN_OUT(HOLDERS))
		text_add(&text, ": %s", turn->event->text);
	turn_end_life(turn);
}

static void shard(struct turn *turn)
{
	struct admission *admission = turn->admission;
	const struct admission_event *event = turn->event;
	/* clang-format off */
	static const enum admission_command expected[ADMISSION_STATE_COUNT] = {
		[ADMISSION_GRANTED]  = ADMISSION_JOB_ADD,
		[ADMISSION_ENABLING] = ADMISSION_JOB_SET,
		[ADMISSION_DRAIN]    = ADMISSION_JOB_REMOVE,
	};
	/* clang-format on */

	if (event->shard >= turn->config->shards ||
	    event->job_generation != admission->generation || !admission->generation ||
	    admission->state == ADMISSION_STARTED || event->command != expected[admission->state])
		return;
	if (event->has_failed && admission->state != ADMISSION_DRAIN) {
		shard_failed(turn);
		return;
	}
	bool was_all = has_all_shards(turn);
	admission->shards_acked |= 1ull << event->shard;
	if (was_all || !has_all_shards(turn))
		return;
	if (admission->state == ADMISSION_GRANTED) {
		for (uint32_t rank = 0; rank < admission->size; rank++)
			turn_send(turn, &turn_member(turn, rank)->peer, CONTROL_GRANT);
	} else if (admission->state == ADMISSION_ENABLING) {
		start(turn);
	} else {
		check_drained(turn);
	}
}

/* ---- the aggregator's own end ---- */

static void terminate(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text text;

	admission->is_terminating = 1;
	turn_blame(turn, &text, CONTROL_DENIED, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\": the aggregator is shutting down", turn->config->job);
	for (uint32_t i = 0; i < admission->waiters_count; i++)
		turn_send_last(turn, &admission_waiters(turn)[i], CONTROL_DENY);
	memset(admission_waiters(turn), 0,
	       admission->waiters_count * sizeof(struct admission_peer));
	admission->waiters_count = 0;
	if (admission->state == ADMISSION_GATHER)
		turn_end_gathering(turn, CONTROL_DENY);
}

static void kill_life(struct turn *turn)
{
	struct text text;

	if (!admission_is_running(turn->admission)) {
		terminate(turn);
		return;
	}
	turn->admission->is_terminating = 1; /* who waits is denied when its turn comes */
	turn_blame(turn, &text, CONTROL_REMOTE, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\": the aggregator is shutting down, the time to end is over",
		 turn->config->job);
	turn_end_life(turn);
}

/* Nothing will come of it any more: who waits for a result would wait for ever. */
static void break_life(struct turn *turn)
{
	struct text text;

	if (!admission_is_running(turn->admission))
		return;
	turn_blame(turn, &text, CONTROL_SYSTEM, turn->event->rank);
	text_add(&text, "job \"%s\": %s", turn->config->job,
		 turn->event->text ? turn->event->text : "the data path is broken");
	turn_end_life(turn);
}

static void log_alarm(struct turn *turn)
{
	struct text text;

	if (turn->admission->state != ADMISSION_STARTED)
		return;
	turn_log(turn, &text, ADMISSION_LOG_LIMITED);
	if (turn->event->rank < turn->admission->size)
		turn_add_rank(turn, &text, turn->event->rank);
	else
		text_add(&text, "somebody");
	text_add(&text, " sent a packet that a sound worker never sends: dropped");
}

/* ---- the machine ---- */

static void dispatch(struct turn *turn)
{
	switch (turn->event->type) {
	case ADMISSION_MESSAGE:
		message(turn);
		break;
	case ADMISSION_CLOSED:
		closed(turn);
		break;
	case ADMISSION_SILENT:
		turn_silent(turn, turn->event->connection);
		break;
	case ADMISSION_LATE:
		time_late(turn);
		break;
	case ADMISSION_SHARD:
		shard(turn);
		break;
	case ADMISSION_MISMATCH:
		if (turn->admission->state == ADMISSION_STARTED && !turn->admission->mismatch)
			turn->admission->mismatch = 1;
		query_begin(turn);
		break;
	case ADMISSION_ALARM:
		log_alarm(turn);
		break;
	case ADMISSION_TICK:
		time_tick(turn);
		break;
	case ADMISSION_TERMINATE:
		terminate(turn);
		break;
	case ADMISSION_BROKEN:
		break_life(turn);
		break;
	case ADMISSION_KILL:
		kill_life(turn);
		break;
	case ADMISSION_ORPHAN:
		refuse_orphans(turn);
		break;
	}
}

void admission_step(struct admission *admission, const struct admission_config *config,
		    const struct admission_event *event, struct admission_actions *actions)
{
	struct turn turn = { admission, config, event, actions };

	CORE_ASSERT(actions->list_max >= admission_actions_max(config));
	actions->count = 0;
	actions->cause = CONTROL_OK;
	actions->cause_rank = CONTROL_RANK_NONE;
	actions->text[0] = 0;
	actions->log_level = ADMISSION_LOG_NONE;
	actions->log[0] = 0;
	dispatch(&turn);
	if (TAKEN_OUT(ENABLE_ACK) && admission->state == ADMISSION_ENABLING)
		start(&turn);
	time_set_wake(&turn);
}

static void fill_grant(const struct admission *admission, const struct admission_config *config,
		       uint32_t rank, struct control_grant *grant)
{
	const struct admission_member *members = (const void *)(admission + 1);

	grant->life = admission->life;
	grant->heartbeat_ms = (uint32_t)(config->heartbeat_ns / ms_ns);
	grant->version = CONTROL_VERSION;
	grant->size = admission->size;
	for (uint32_t i = 0; i < admission->size; i++)
		grant->workers += members[i].peer.workers;
	memcpy(grant->nonce, members[rank].peer.nonce, sizeof(grant->nonce));
}

void admission_message(const struct admission *admission, const struct admission_config *config,
		       const struct admission_actions *actions,
		       const struct admission_action *action, struct control_message *message_out)
{
	memset(message_out, 0, sizeof(*message_out));
	message_out->type = action->message;
	switch (message_out->type) {
	case CONTROL_GRANT:
		fill_grant(admission, config, action->rank, &message_out->grant);
		break;
	case CONTROL_DENY:
	case CONTROL_ABORT:
		message_out->end.cause = actions->cause;
		message_out->end.rank = actions->cause_rank;
		text_copy(message_out->end.text, sizeof(message_out->end.text), actions->text);
		break;
	case CONTROL_START:
		message_out->start.lanes = action->lanes;
		message_out->start.members = actions->members;
		message_out->start.members_count = admission->size;
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message_out->ping.serial = action->number;
		break;
	case CONTROL_PROGRESS:
		text_copy(message_out->progress.text, sizeof(message_out->progress.text),
			  actions->text);
		break;
	case CONTROL_WAITING:
		message_out->waiting = actions->waiting;
		break;
	case CONTROL_QUERY:
		message_out->query.round = action->number;
		message_out->query.from = action->from;
		break;
	default:
		break;
	}
}
