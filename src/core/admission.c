/* SPDX-License-Identifier: Apache-2.0 */
#include "core/admission_turn.h"

enum {
	BEATS = 5,     /* HEARTBEATs in a heartbeat time: four may be late */
	OVERSLEPT = 4, /* no tick for 1/4 of it: it is our clock that cannot be trusted */
	HOSTS_MAX = 4, /* so many ranks are named with their hosts */
};
static const uint64_t ms_ns = 1000000;
static const uint64_t beat_max_ns = 2000000000; /* who has no GRANT yet expects the defaults */
static const uint64_t silence_min_ns = 10000000000;
static const uint64_t progress_ns = 10000000000; /* who is missing is said so often */

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

static struct admission_member *member_of(const struct turn *turn, uint32_t rank)
{
	return admission_member(turn->admission, rank);
}

struct admission_peer *admission_waiters(const struct turn *turn)
{
	return (struct admission_peer *)(void *)member_of(turn, turn->config->members_max);
}

struct control_op *admission_groups(const struct turn *turn)
{
	return (struct control_op *)(void *)(admission_waiters(turn) + turn->config->waiters_max);
}

struct admission_seen *admission_seen(const struct turn *turn)
{
	return (struct admission_seen *)(void *)(admission_groups(turn) + turn->config->groups_max);
}

size_t admission_bytes(const struct admission_config *config)
{
	return sizeof(struct admission) + config->members_max * sizeof(struct admission_member) +
	       config->waiters_max * sizeof(struct admission_peer) +
	       config->groups_max * sizeof(struct control_op) +
	       config->ops_max * sizeof(struct admission_seen);
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

static void enter(struct turn *turn, enum admission_state next)
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
static void close_peer(struct turn *turn, struct admission_peer *peer)
{
	if (peer->connection)
		add_action(turn, ADMISSION_CLOSE)->connection = peer->connection;
}

/* Said, closed and forgotten: its CLOSED will find nobody. */
static void send_last(struct turn *turn, struct admission_peer *peer, enum control_type type)
{
	turn_send(turn, peer, type);
	close_peer(turn, peer);
	peer->connection = 0;
}

static void command(struct turn *turn, enum admission_command what)
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

static void log_peer(struct turn *turn, const struct admission_peer *peer, const char *what)
{
	struct text text;

	turn_log(turn, &text, ADMISSION_LOG_INFO);
	text_add(&text, "rank %u on %s (process %u) %s", peer->rank, peer->host, peer->pid, what);
}

/* What went wrong is also a line of log. */
static void log_blame(struct turn *turn)
{
	struct text text;

	turn_log(turn, &text, ADMISSION_LOG_WARN);
	text_add(&text, "%s", turn->actions->text);
}

static void add_peer(struct text *text, const struct admission_peer *peer)
{
	text_add(text, "rank %u on %s", peer->rank, peer->host);
}

void turn_add_rank(const struct turn *turn, struct text *text, uint32_t rank)
{
	const struct admission_member *member = member_of(turn, rank);

	if (member->peer.host[0])
		add_peer(text, &member->peer);
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

static bool is_in(const struct admission_member *member)
{
	return member->presence == ADMISSION_JOINED || member->presence == ADMISSION_READY;
}

static bool is_running(const struct admission *admission)
{
	return admission->state >= ADMISSION_GRANTED && admission->state <= ADMISSION_STARTED;
}

static struct admission_member *find_member(const struct turn *turn, uint32_t connection)
{
	for (uint32_t rank = 0; rank < turn->config->members_max; rank++) {
		struct admission_member *member = member_of(turn, rank);
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

static struct text_ranks ranks_of(const struct turn *turn, enum admission_presence presence)
{
	struct text_ranks ranks = { { 0 } };

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (member_of(turn, rank)->presence == presence)
			text_ranks_put(&ranks, rank);
	}
	return ranks;
}

/* Who keeps a waiter from its rank: somebody who may be dead without our knowing. Whoever waits for a
 * rank that a job of this size does not have is measured against one that it has. */
static struct admission_member *holder_of(const struct turn *turn,
					  const struct admission_peer *peer)
{
	const struct admission *admission = turn->admission;
	struct admission_member *holder;

	if (admission->state == ADMISSION_GATHER)
		holder = peer->rank < admission->size ? member_of(turn, peer->rank) : NULL;
	else if (is_running(admission))
		holder = member_of(turn, peer->rank % admission->size);
	else
		return NULL;
	return holder && is_in(holder) ? holder : NULL;
}

/* A rank is free, or another process has it: what pulses said before is about somebody else. */
static void forget_pulses(struct turn *turn)
{
	for (uint32_t i = 0; i < turn->admission->waiters_count; i++)
		admission_waiters(turn)[i].pulse = ADMISSION_UNASKED;
}

/* Nobody is in; those who wait stay, and so does what the log remembers of the last life. */
static void reset(struct turn *turn)
{
	struct admission *admission = turn->admission;

	enter(turn, ADMISSION_NONE);
	memset(member_of(turn, 0), 0, turn->config->members_max * sizeof(struct admission_member));
	admission->life = 0;
	admission->generation = 0;
	admission->shards_acked = 0;
	admission->size = 0;
	admission->lanes = 0;
	forget_pulses(turn);
}

static void free_rank(struct turn *turn, struct admission_member *member)
{
	memset(member, 0, sizeof(*member));
	forget_pulses(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (member_of(turn, rank)->presence != ADMISSION_ABSENT)
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

static void check_drained(struct turn *turn)
{
	uint32_t shards = turn->config->shards;
	uint64_t all = shards == 64 ? ~0ull : (1ull << shards) - 1;

	if (turn->admission->state != ADMISSION_DRAIN || turn->admission->shards_acked != all)
		return;
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (is_in(member_of(turn, rank)))
			return;
	}
	reset(turn);
}

static void drain(struct turn *turn)
{
	struct admission *admission = turn->admission;

	enter(turn, ADMISSION_DRAIN);
	command(turn, ADMISSION_JOB_REMOVE);
	query_end(turn);
	admission->mismatch = 0;
	admission->stall = 0;
	admission->is_stalled = 0;
	admission->is_expired = 0;
	forget_pulses(turn);
	check_drained(turn);
}

/* Those who have not left stay in their places until their connections are closed, so that nobody of the
 * next life meets them. */
void turn_end_life(struct turn *turn)
{
	remember(turn);
	log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = member_of(turn, rank);
		if (!is_in(member))
			continue;
		turn_send(turn, &member->peer, CONTROL_ABORT);
		close_peer(turn, &member->peer);
	}
	drain(turn);
}

/* A gathering ends before any shard knows of it: everybody hears why and is forgotten. */
static void end_gathering(struct turn *turn, enum control_type last)
{
	remember(turn);
	log_blame(turn);
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		struct admission_member *member = member_of(turn, rank);
		if (is_in(member))
			send_last(turn, &member->peer, last);
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

/* ---- JOIN ---- */

static void refuse(struct turn *turn, struct admission_peer *peer)
{
	log_blame(turn);
	send_last(turn, peer, CONTROL_DENY);
}

static void grant(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text text;

	enter(turn, ADMISSION_GRANTED);
	admission->life = turn->event->random ? turn->event->random : 1; /* 0 means none */
	admission->generation = turn->event->generation;
	CORE_ASSERT(admission->generation);
	command(turn, ADMISSION_JOB_ADD);
	forget_pulses(turn);
	turn_log(turn, &text, ADMISSION_LOG_INFO);
	text_add(&text, "all %u ranks are here: generation %u", admission->size,
		 admission->generation);
}

static void place(struct turn *turn, const struct admission_peer *peer)
{
	struct admission_member *member = member_of(turn, peer->rank);

	memset(member, 0, sizeof(*member));
	member->peer = *peer;
	member->peer.pulse = ADMISSION_UNASKED;
	member->presence = ADMISSION_JOINED;
	log_peer(turn, peer, "has joined");
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (member_of(turn, rank)->presence == ADMISSION_ABSENT)
			return;
	}
	grant(turn);
}

/* Two claim one rank: only their own answers tell which of them is a process and which a connection that
 * nobody has closed yet (R-CT-10). */
static void contend(struct turn *turn, struct admission_peer *waiter)
{
	struct admission_member *holder = holder_of(turn, waiter);

	if (!holder)
		return;
	uint32_t serial = ++turn->admission->ping;
	struct admission_peer *both[] = { &holder->peer, waiter };
	for (uint32_t i = 0; i < 2; i++) {
		both[i]->pulse = ADMISSION_ASKED;
		both[i]->ping = serial;
		turn_send(turn, both[i], CONTROL_PING)->number = serial;
	}
}

static void wait_in_line(struct turn *turn, struct admission_peer *peer)
{
	struct admission *admission = turn->admission;
	struct text text;

	if (admission->waiters_count == turn->config->waiters_max) {
		turn_blame(turn, &text, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
		text_add(&text, "job \"%s\": %u processes wait for its name already",
			 turn->config->job, admission->waiters_count);
		refuse(turn, peer);
		return;
	}
	struct admission_peer *waiter = &admission_waiters(turn)[admission->waiters_count++];
	*waiter = *peer;
	waiter->pulse = ADMISSION_UNASKED;
	log_peer(turn, peer, "waits: its rank or the job's name is in use");
	contend(turn, waiter);
}

static void drop_waiter(struct turn *turn, struct admission_peer *waiter)
{
	struct admission *admission = turn->admission;
	struct admission_peer *waiters = admission_waiters(turn);
	uint32_t index = (uint32_t)(waiter - waiters);
	uint32_t behind = --admission->waiters_count - index;

	memmove(waiter, waiter + 1, behind * sizeof(*waiter));
	memset(waiters + admission->waiters_count, 0, sizeof(*waiters));
}

/* What all of a life must have in common; the text names both sides of the first difference. */
static bool differs(struct turn *turn, const struct admission_peer *peer)
{
	const struct admission *admission = turn->admission;
	struct text text;

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_peer *other = &member_of(turn, rank)->peer;
		if (!is_in(member_of(turn, rank)))
			continue;
		bool is_apart = peer->version_min > other->version_max ||
				peer->version_max < other->version_min;
		if (peer->size == other->size && peer->list_hash == other->list_hash && !is_apart)
			continue;
		turn_blame(turn, &text, is_apart ? CONTROL_VERSION_BAD : CONTROL_DENIED,
			   CONTROL_RANK_NONE);
		text_add(&text, "job \"%s\": ", turn->config->job);
		add_peer(&text, peer);
		if (peer->size != other->size)
			text_add(&text, " says size %u, ", peer->size);
		else if (is_apart)
			text_add(&text, " speaks protocol versions %u to %u, ", peer->version_min,
				 peer->version_max);
		else
			text_add(&text, " was given another list of aggregators (hash %llu), ",
				 (unsigned long long)peer->list_hash);
		add_peer(&text, other);
		if (peer->size != other->size)
			text_add(&text, " says size %u", other->size);
		else if (is_apart)
			text_add(&text, " %u to %u", other->version_min, other->version_max);
		else
			text_add(&text, " this one: hash %llu",
				 (unsigned long long)other->list_hash);
		return true;
	}
	return false;
}

/* What no life of this aggregator can have, whoever else is in it. */
static bool is_impossible(struct turn *turn, const struct admission_peer *peer)
{
	struct text text;

	if (turn->admission->is_terminating) {
		turn_blame(turn, &text, CONTROL_DENIED, CONTROL_RANK_NONE);
		text_add(&text, "job \"%s\": the aggregator is shutting down", turn->config->job);
		return true;
	}
	if (peer->version_min > CONTROL_VERSION || peer->version_max < CONTROL_VERSION) {
		turn_blame(turn, &text, CONTROL_VERSION_BAD, CONTROL_RANK_NONE);
		add_peer(&text, peer);
		text_add(&text, " speaks protocol versions %u to %u, this aggregator %u",
			 peer->version_min, peer->version_max, CONTROL_VERSION);
		return true;
	}
	if (peer->size < 1 || peer->size > turn->config->members_max) {
		turn_blame(turn, &text, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
		text_add(&text, "job \"%s\" of %u ranks: this aggregator takes 1 to %u",
			 turn->config->job, peer->size, turn->config->members_max);
		return true;
	}
	if (peer->rank >= peer->size) {
		turn_blame(turn, &text, CONTROL_DENIED, CONTROL_RANK_NONE);
		add_peer(&text, peer);
		text_add(&text, ": there is no such rank in a job of %u", peer->size);
		return true;
	}
	return false;
}

/* The peer is a copy: it may become a member or wait (again). */
static void admit(struct turn *turn, struct admission_peer peer)
{
	struct admission *admission = turn->admission;

	if (is_impossible(turn, &peer)) {
		refuse(turn, &peer);
		return;
	}
	if (admission->state == ADMISSION_NONE) {
		enter(turn, ADMISSION_GATHER);
		admission->size = peer.size;
		admission->progress_ns = turn->event->now_ns;
	}
	if (admission->state != ADMISSION_GATHER) {
		wait_in_line(turn, &peer);
	} else if (differs(turn, &peer)) { /* waiting for the others cannot mend it */
		send_last(turn, &peer, CONTROL_DENY);
		end_gathering(turn, CONTROL_DENY);
	} else if (member_of(turn, peer.rank)->presence != ADMISSION_ABSENT) {
		wait_in_line(turn, &peer);
	} else {
		place(turn, &peer);
	}
}

static void join(struct turn *turn)
{
	const struct admission_event *event = turn->event;
	const struct control_join *said = &event->message->join;
	struct admission_peer peer;

	memset(&peer, 0, sizeof(peer));
	peer.heard_ns = event->now_ns;
	peer.joined_ns = event->now_ns;
	peer.list_hash = said->list_hash;
	peer.connection = event->connection;
	peer.pid = said->pid;
	peer.workers = said->workers;
	peer.timeout_ms = said->timeout_ms;
	peer.version_min = said->version_min;
	peer.version_max = said->version_max;
	peer.size = said->size;
	peer.rank = said->rank;
	CORE_ASSERT(event->nonce);
	memcpy(peer.nonce, event->nonce, sizeof(peer.nonce));
	text_copy(peer.host, sizeof(peer.host), said->host);
	admit(turn, peer);
}

/* Can this waiter do anything but wait? */
static bool may_move(const struct turn *turn, const struct admission_peer *waiter)
{
	const struct admission *admission = turn->admission;

	if (admission->state == ADMISSION_NONE)
		return true;
	if (admission->state == ADMISSION_GATHER &&
	    (waiter->size != admission->size ||
	     member_of(turn, waiter->rank)->presence == ADMISSION_ABSENT))
		return true;
	return waiter->pulse == ADMISSION_UNASKED && holder_of(turn, waiter);
}

static struct admission_peer *next_waiter(const struct turn *turn)
{
	for (uint32_t i = 0; i < turn->admission->waiters_count; i++) {
		if (may_move(turn, &admission_waiters(turn)[i]))
			return &admission_waiters(turn)[i];
	}
	return NULL;
}

/* One in a step, first come, first served. */
static void promote(struct turn *turn)
{
	struct admission_peer *waiter = next_waiter(turn);

	if (!waiter)
		return;
	bool is_apart = turn->admission->state == ADMISSION_GATHER &&
			waiter->size != turn->admission->size;
	if (holder_of(turn, waiter) && !is_apart) {
		contend(turn, waiter);
		return;
	}
	struct admission_peer peer = *waiter;
	drop_waiter(turn, waiter);
	admit(turn, peer);
}

/* Both who claim a rank have answered. While gathering nobody can say who is right: both go. */
static bool judge_claim(struct turn *turn, struct admission_peer *waiter)
{
	struct admission_member *holder = holder_of(turn, waiter);
	struct text text;

	if (!holder || holder->peer.pulse != ADMISSION_ANSWERED ||
	    waiter->pulse != ADMISSION_ANSWERED)
		return false;
	turn_blame(turn, &text, CONTROL_DENIED, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\": rank %u is held by process %u on %s, ", turn->config->job,
		 holder->peer.rank, holder->peer.pid, holder->peer.host);
	if (turn->admission->state == ADMISSION_GATHER)
		text_add(&text, "and process %u on %s claims it too; both are alive", waiter->pid,
			 waiter->host);
	else
		text_add(&text, "which is alive: the job runs, another of its name must wait");
	struct admission_peer peer = *waiter;
	drop_waiter(turn, waiter);
	refuse(turn, &peer);
	if (turn->admission->state == ADMISSION_GATHER) {
		send_last(turn, &holder->peer, CONTROL_DENY);
		free_rank(turn, holder);
	}
	return true;
}

static void pong(struct turn *turn, struct admission_peer *peer)
{
	if (peer->pulse != ADMISSION_ASKED || turn->event->message->ping.serial != peer->ping)
		return;
	peer->pulse = ADMISSION_ANSWERED;
	for (uint32_t i = 0; i < turn->admission->waiters_count;)
		if (!judge_claim(turn, &admission_waiters(turn)[i]))
			i++;
}

/* ---- what members say ---- */

static void ready(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	uint32_t lanes = turn->config->lanes_max;

	if (admission->state != ADMISSION_GRANTED || member->presence != ADMISSION_JOINED)
		return;
	member->presence = ADMISSION_READY;
	member->lanes = turn->event->message->lanes.lanes;
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		if (member_of(turn, rank)->presence != ADMISSION_READY)
			return;
		if (member_of(turn, rank)->lanes < lanes)
			lanes = member_of(turn, rank)->lanes;
	}
	admission->lanes = (uint16_t)(lanes - lanes % WIRE_LANES_STEP);
	enter(turn, ADMISSION_ENABLING);
	command(turn, ADMISSION_JOB_SET);
}

/* R-CT-14: a shard that is not enabled yet would drop what the first to start sends. */
static void start(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text text;

	enter(turn, ADMISSION_STARTED);
	for (uint32_t rank = 0; rank < admission->size; rank++)
		turn_send(turn, &member_of(turn, rank)->peer, CONTROL_START)->lanes =
			admission->lanes;
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
	add_peer(&text, &member->peer);
	text_add(&text, said->cause == CONTROL_ABORTED ? " aborted" : " failed");
	if (said->text[0])
		text_add(&text, ": %s", said->text);
	close_peer(turn, &member->peer);
	if (turn->admission->state == ADMISSION_GATHER) {
		log_blame(turn);
		free_rank(turn, member);
	} else {
		lose(turn, member);
	}
}

static bool all_left(const struct turn *turn)
{
	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (member_of(turn, rank)->presence != ADMISSION_LEFT)
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
		add_peer(&text, &member->peer);
		text_add(&text, " left before the job had started");
		close_peer(turn, &member->peer);
		if (admission->state == ADMISSION_GATHER)
			free_rank(turn, member);
		else
			lose(turn, member);
		return;
	}
	member->submitted = turn->event->message->leave.submitted;
	member->presence = ADMISSION_LEFT;
	log_peer(turn, &member->peer, "has left");
	send_last(turn, &member->peer, CONTROL_LEFT); /* at once: it waits for nobody */
	if (all_left(turn)) {
		admission->last_cause = CONTROL_OK;
		admission->last_rank = CONTROL_RANK_NONE;
		drain(turn);
		return;
	}
	if (TAKEN_OUT(SLOTS_EARLY))
		command(turn, ADMISSION_JOB_REMOVE);
	query_left(turn);
}

static void stall(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->is_stalled = 1;
	admission->is_expired |= turn->event->message->stall.is_expired;
	admission->stall = turn->event->message->stall.number;
	query_begin(turn);
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
		pong(turn, &member->peer);
		break;
	case CONTROL_STALL:
		if (is_started)
			stall(turn);
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
		if (is_in(member) && turn->admission->state != ADMISSION_DRAIN)
			member_message(turn, member);
	} else if (waiter) {
		waiter->heard_ns = turn->event->now_ns;
		if (turn->event->message->type == CONTROL_PONG) {
			pong(turn, waiter);
		} else if (turn->event->message->type == CONTROL_PING) {
			turn_send(turn, waiter, CONTROL_PONG)->number =
				turn->event->message->ping.serial;
		} else if (turn->event->message->type == CONTROL_ABORT ||
			   turn->event->message->type == CONTROL_LEAVE) {
			close_peer(turn, waiter);
			drop_waiter(turn, waiter);
		}
	} else if (turn->event->message->type == CONTROL_JOIN) {
		join(turn);
	}
}

/* ---- closed and silent ---- */

static void member_closed(struct turn *turn, struct admission_member *member)
{
	struct text text;

	if (turn->admission->state == ADMISSION_GATHER) {
		log_peer(turn, &member->peer, "has gone");
		free_rank(turn, member);
	} else if (is_running(turn->admission) && is_in(member)) {
		turn_blame(turn, &text, CONTROL_REMOTE, member->peer.rank);
		add_peer(&text, &member->peer);
		text_add(&text, " died: process %u has closed its connection without leaving",
			 member->peer.pid);
		lose(turn, member);
	} else {
		if (is_in(member))
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
		drop_waiter(turn, waiter);
}

static void blame_silence(struct turn *turn, const struct admission_peer *peer)
{
	struct text text;

	turn_blame(turn, &text, CONTROL_REMOTE, peer->rank);
	add_peer(&text, peer);
	text_add(&text, " has been silent for more than %llu ms (process %u)",
		 (unsigned long long)(turn->config->heartbeat_ns / ms_ns), peer->pid);
}

/* It may only be stopped: then it reads later why the others are gone. */
static void member_silent(struct turn *turn, struct admission_member *member)
{
	if (turn->admission->state == ADMISSION_GATHER) {
		blame_silence(turn, &member->peer);
		log_blame(turn);
		send_last(turn, &member->peer, CONTROL_DENY);
		free_rank(turn, member);
	} else if (is_running(turn->admission) && is_in(member)) {
		blame_silence(turn, &member->peer);
		send_last(turn, &member->peer, CONTROL_ABORT);
		lose(turn, member);
	} else {
		member_closed(turn, member);
	}
}

static bool silent(struct turn *turn, uint32_t connection)
{
	struct admission_member *member = find_member(turn, connection);
	struct admission_peer *waiter = find_waiter(turn, connection);

	if (member) {
		member_silent(turn, member);
	} else if (waiter) {
		blame_silence(turn, waiter);
		struct admission_peer peer = *waiter;
		drop_waiter(turn, waiter);
		refuse(turn, &peer);
	}
	return member || waiter;
}

/* ---- time ---- */

static void late(struct turn *turn)
{
	struct admission *admission = turn->admission;
	struct text_ranks missing = ranks_of(turn, ADMISSION_ABSENT);
	struct text_ranks unready = ranks_of(turn, ADMISSION_JOINED);
	struct text text;

	turn_blame(turn, &text, CONTROL_TIMEOUT, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\" of %u: ", turn->config->job, admission->size);
	switch (admission->state) {
	case ADMISSION_GATHER:
		turn_add_ranks(turn, &text, &missing);
		text_add(&text, " did not come in time");
		end_gathering(turn, CONTROL_ABORT);
		break;
	case ADMISSION_GRANTED:
		turn_add_ranks(turn, &text, &unready);
		text_add(&text, " did not get ready in time");
		turn_end_life(turn);
		break;
	case ADMISSION_ENABLING:
		text_add(&text, "the aggregator's shards did not get ready in time");
		turn_end_life(turn);
		break;
	default:
		break;
	}
}

static uint64_t gather_deadline(const struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t deadline = UINT64_MAX;

	if (admission->state == ADMISSION_GRANTED || admission->state == ADMISSION_ENABLING)
		return admission->since_ns + turn->config->gather_ns;
	if (admission->state != ADMISSION_GATHER)
		return deadline;
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_peer *peer = &member_of(turn, rank)->peer;
		uint64_t patience_ns = peer->timeout_ms ? peer->timeout_ms * ms_ns
							: turn->config->gather_ns;
		if (is_in(member_of(turn, rank)) && peer->joined_ns + patience_ns < deadline)
			deadline = peer->joined_ns + patience_ns;
	}
	return deadline;
}

static const char *cause_text(uint32_t cause)
{
	switch (cause) {
	case CONTROL_REMOTE:
		return "a member was lost";
	case CONTROL_MISMATCH:
		return "its ranks called different operations";
	case CONTROL_TIMEOUT:
		return "not all came in time";
	case CONTROL_DENIED:
	case CONTROL_VERSION_BAD:
	case CONTROL_NO_RESOURCE:
		return "it was denied";
	default:
		return "an error";
	}
}

static void progress(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	struct text_ranks missing = ranks_of(turn, ADMISSION_ABSENT);
	struct text text;

	text_begin(&text, turn->actions->text, sizeof(turn->actions->text));
	text_add(&text, "job \"%s\": ", turn->config->job);
	if (admission->state == ADMISSION_GATHER) {
		text_add(&text, "waiting for ");
		turn_add_ranks(turn, &text, &missing);
		text_add(&text, " of %u", admission->size);
	} else {
		text_add(&text, "waiting until a job of this name and %u ranks has ended",
			 admission->size);
	}
	if (admission->last_cause) {
		text_add(&text, "; the last one ended with: %s", cause_text(admission->last_cause));
		if (admission->last_rank != CONTROL_RANK_NONE)
			text_add(&text, " (rank %u)", admission->last_rank);
	}
	turn_log(turn, &text, ADMISSION_LOG_INFO);
	text_add(&text, "%s", turn->actions->text);
	for (uint32_t rank = 0; rank < admission->size && admission->state == ADMISSION_GATHER;
	     rank++) {
		if (is_in(member_of(turn, rank)))
			turn_send(turn, &member_of(turn, rank)->peer, CONTROL_PROGRESS);
	}
	for (uint32_t i = 0; i < admission->waiters_count; i++)
		turn_send(turn, &admission_waiters(turn)[i], CONTROL_PROGRESS);
}

static uint64_t beat_interval_ns(const struct turn *turn)
{
	uint64_t interval_ns = turn->config->heartbeat_ns / BEATS;

	return interval_ns < beat_max_ns ? interval_ns : beat_max_ns;
}

static void beat(struct turn *turn)
{
	struct admission *admission = turn->admission;

	admission->beat_ns = turn->event->now_ns;
	for (uint32_t rank = 0; rank < admission->size && admission->state != ADMISSION_DRAIN;
	     rank++) {
		if (is_in(member_of(turn, rank)))
			turn_send(turn, &member_of(turn, rank)->peer, CONTROL_HEARTBEAT);
	}
	for (uint32_t i = 0; i < admission->waiters_count; i++)
		turn_send(turn, &admission_waiters(turn)[i], CONTROL_HEARTBEAT);
}

/* R-CT-8: while we slept nobody's words were read. */
static void restart_clocks(struct turn *turn)
{
	uint64_t now_ns = turn->event->now_ns;

	for (uint32_t rank = 0; rank < turn->admission->size; rank++)
		member_of(turn, rank)->peer.heard_ns = now_ns;
	for (uint32_t i = 0; i < turn->admission->waiters_count; i++)
		admission_waiters(turn)[i].heard_ns = now_ns;
}

/* One at a time: each has its own text. */
static uint32_t find_silent(const struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t running_ns = turn->config->heartbeat_ns;
	uint64_t waiting_ns = running_ns > silence_min_ns ? running_ns : silence_min_ns;
	uint64_t patience_ns = admission->state == ADMISSION_GATHER ? waiting_ns : running_ns;
	uint64_t now_ns = turn->event->now_ns;

	if (TAKEN_OUT(HEARTBEAT) || admission->state == ADMISSION_DRAIN)
		return 0;
	for (uint32_t rank = 0; rank < admission->size; rank++) {
		const struct admission_member *member = member_of(turn, rank);
		if (is_in(member) && now_ns - member->peer.heard_ns >= patience_ns)
			return member->peer.connection;
	}
	for (uint32_t i = 0; i < admission->waiters_count; i++) {
		const struct admission_peer *waiter = &admission_waiters(turn)[i];
		if (now_ns - waiter->heard_ns >= waiting_ns)
			return waiter->connection;
	}
	return 0;
}

static void tick(struct turn *turn)
{
	struct admission *admission = turn->admission;
	uint64_t now_ns = turn->event->now_ns;

	if (now_ns - admission->tick_ns >= turn->config->heartbeat_ns / OVERSLEPT)
		restart_clocks(turn);
	admission->tick_ns = now_ns;
	if (now_ns - admission->beat_ns >= beat_interval_ns(turn))
		beat(turn);
	if (silent(turn, find_silent(turn)))
		return;
	if (now_ns >= gather_deadline(turn)) {
		late(turn);
		return;
	}
	bool is_waited = admission->state == ADMISSION_GATHER || admission->waiters_count;
	if (is_waited && now_ns - admission->progress_ns >= progress_ns) {
		admission->progress_ns = now_ns;
		progress(turn);
		return;
	}
	promote(turn);
}

static void set_wake(struct turn *turn)
{
	const struct admission *admission = turn->admission;
	uint64_t wake_ns = admission->beat_ns + beat_interval_ns(turn);
	uint64_t deadline_ns = gather_deadline(turn);

	turn->actions->again = next_waiter(turn) ||
			       (turn->event->type == ADMISSION_TICK && find_silent(turn));
	if (admission_is_idle(admission))
		wake_ns = UINT64_MAX;
	turn->actions->wake_ns = deadline_ns < wake_ns ? deadline_ns : wake_ns;
}

/* ---- shards ---- */

static void shard_failed(struct turn *turn)
{
	struct text text;

	turn_blame(turn, &text, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\" of %u: the aggregator has no room for it (shard %u)",
		 turn->config->job, turn->admission->size, turn->event->shard);
	turn_end_life(turn);
}

static void shard(struct turn *turn)
{
	struct admission *admission = turn->admission;
	const struct admission_event *event = turn->event;
	uint32_t shards = turn->config->shards;
	uint64_t all = shards == 64 ? ~0ull : (1ull << shards) - 1;
	/* clang-format off */
	static const enum admission_command expected[ADMISSION_STATE_COUNT] = {
		[ADMISSION_GRANTED]  = ADMISSION_JOB_ADD,
		[ADMISSION_ENABLING] = ADMISSION_JOB_SET,
		[ADMISSION_DRAIN]    = ADMISSION_JOB_REMOVE,
	};
	/* clang-format on */

	if (event->shard >= shards || event->job_generation != admission->generation ||
	    !admission->generation || admission->state == ADMISSION_STARTED ||
	    event->command != expected[admission->state])
		return;
	if (event->has_failed && admission->state != ADMISSION_DRAIN) {
		shard_failed(turn);
		return;
	}
	bool was_all = admission->shards_acked == all;
	admission->shards_acked |= 1ull << event->shard;
	if (was_all || admission->shards_acked != all)
		return;
	if (admission->state == ADMISSION_GRANTED) {
		for (uint32_t rank = 0; rank < admission->size; rank++)
			turn_send(turn, &member_of(turn, rank)->peer, CONTROL_GRANT);
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
		send_last(turn, &admission_waiters(turn)[i], CONTROL_DENY);
	memset(admission_waiters(turn), 0,
	       admission->waiters_count * sizeof(struct admission_peer));
	admission->waiters_count = 0;
	if (admission->state == ADMISSION_GATHER)
		end_gathering(turn, CONTROL_DENY);
}

static void kill_life(struct turn *turn)
{
	struct text text;

	if (!is_running(turn->admission)) {
		terminate(turn);
		return;
	}
	turn->admission->is_terminating = 1; /* who waits is denied when its turn comes */
	turn_blame(turn, &text, CONTROL_REMOTE, CONTROL_RANK_NONE);
	text_add(&text, "job \"%s\": the aggregator is shutting down, the time to end is over",
		 turn->config->job);
	turn_end_life(turn);
}

static void log_alarm(struct turn *turn)
{
	struct text text;

	if (turn->admission->state != ADMISSION_STARTED)
		return;
	turn_log(turn, &text, ADMISSION_LOG_WARN);
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
		silent(turn, turn->event->connection);
		break;
	case ADMISSION_LATE:
		late(turn);
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
		tick(turn);
		break;
	case ADMISSION_TERMINATE:
		terminate(turn);
		break;
	case ADMISSION_KILL:
		kill_life(turn);
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
	set_wake(&turn);
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
		message_out->lanes.lanes = action->lanes;
		break;
	case CONTROL_PING:
	case CONTROL_PONG:
		message_out->ping.serial = action->number;
		break;
	case CONTROL_PROGRESS:
		text_copy(message_out->progress.text, sizeof(message_out->progress.text),
			  actions->text);
		break;
	case CONTROL_QUERY:
		message_out->query.round = action->number;
		message_out->query.from = action->from;
		break;
	default:
		break;
	}
}
