/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/admission_turn.h"

static const uint64_t ms_ns = 1000000;

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

/* ---- what members say ---- */

static void ready(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;
	uint32_t lanes = turn->config->lanes_max;

	if (admission->state != ADMISSION_GRANTED || member->presence != ADMISSION_JOINED)
		return;
	if (!admission_has_all_shards(turn))
		return; /* it cannot have its GRANT: no shard is asked for two things at once */
	member->presence = ADMISSION_READY;
	member->lanes = turn->event->message->lanes.lanes;
	if (admission_has(turn, ~ADMISSION_IS(READY)))
		return;
	ADMISSION_EACH(turn, other)
		if (other->lanes < lanes)
			lanes = other->lanes;
	admission->lanes = (uint16_t)(lanes - lanes % WIRE_LANES_STEP);
	admission_enter(turn, ADMISSION_ENABLING);
	admission_tell_shards(turn, ADMISSION_JOB_SET);
}

static void member_aborts(struct turn *turn, struct admission_member *member)
{
	const struct control_end *said = &turn->event->message->end;
	enum control_cause cause = said->cause == CONTROL_MISMATCH || said->cause == CONTROL_TIMEOUT
					   ? said->cause
					   : CONTROL_REMOTE;

	admission_blame(turn, cause, member->peer.rank, "rank %u on %s %s%s%s",
			admission_named(turn, member->peer.rank), member->peer.host,
			said->cause == CONTROL_ABORTED ? "aborted" : "failed",
			said->text[0] ? ": " : "", said->text);
	admission_close(turn, &member->peer);
	if (turn->admission->state == ADMISSION_GATHER)
		admission_log_blame(turn);
	admission_end_lose(turn, member);
}

/* R-CT-18 */
static void leave(struct turn *turn, struct admission_member *member)
{
	struct admission *admission = turn->admission;

	if (admission->state != ADMISSION_STARTED) {
		admission_blame(turn, CONTROL_REMOTE, member->peer.rank,
				"rank %u on %s left before the job had started",
				admission_named(turn, member->peer.rank), member->peer.host);
		admission_close(turn, &member->peer);
		admission_end_lose(turn, member);
		return;
	}
	member->submitted = turn->event->message->leave.submitted;
	member->presence = ADMISSION_LEFT;
	admission_log_peer(turn, &member->peer, "has left");
	admission_send_last(turn, &member->peer, CONTROL_LEFT); /* it waits for nobody */
	if (!admission_has(turn, ~ADMISSION_IS(LEFT))) {
		admission->last_cause = CONTROL_OK;
		admission->last_rank = CONTROL_RANK_NONE;
		admission_end_drain(turn);
		return;
	}
	if (admission_query_left(turn))
		admission_end_life(turn);
}

static void member_message(struct turn *turn, struct admission_member *member)
{
	bool is_started = turn->admission->state == ADMISSION_STARTED;

	switch (turn->event->message->type) {
	case CONTROL_READY:
		ready(turn, member);
		break;
	case CONTROL_STALL:
		if (is_started)
			admission_query_stall(turn, member);
		break;
	case CONTROL_OPINFO:
		if (is_started && admission_query_opinfo(turn, member))
			admission_end_life(turn);
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
	struct admission_member *member = admission_find_member(turn, turn->event->connection);
	struct admission_peer *waiter = admission_find_waiter(turn, turn->event->connection);
	struct admission_peer *peer = member ? &member->peer : waiter;
	const struct control_message *said = turn->event->message;

	if (!peer) {
		if (said->type == CONTROL_JOIN)
			admission_join_read(turn);
		return;
	}
	peer->heard_ns = peer->spoke_ns = turn->event->now_ns;
	if (member && (!admission_is_in(member) || turn->admission->state == ADMISSION_DRAIN))
		return;
	if (said->type == CONTROL_PING) {
		admission_send(turn, peer, CONTROL_PONG)->number = said->ping.serial;
	} else if (said->type == CONTROL_PONG) {
		admission_join_pong(turn, peer);
	} else if (member) {
		member_message(turn, member);
	} else if (said->type == CONTROL_ABORT || said->type == CONTROL_LEAVE) {
		admission_close(turn, waiter);
		admission_drop_waiter(turn, waiter);
	}
}

/* ---- shards ---- */

static void shard_failed(struct turn *turn)
{
	const char *why = turn->event->text;

	if (turn->event->is_path)
		admission_blame(turn, CONTROL_SYSTEM, turn->event->rank, "job \"%s\" of %u: %s",
				turn->config->job, turn->admission->size, why);
	else
		admission_blame(
			turn, CONTROL_NO_RESOURCE, CONTROL_RANK_NONE,
			"job \"%s\" of %u: the aggregator has no room for it (shard %u)%s%s",
			turn->config->job, turn->admission->size, turn->event->shard,
			why ? ": " : "", why ? why : "");
	admission_end_life(turn);
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
	    admission->state == ADMISSION_STARTED)
		return;
	if (event->command != expected[admission->state])
		return; /* of a command that JOB_REMOVE has overtaken */
	if (event->has_failed && admission->state != ADMISSION_DRAIN) {
		shard_failed(turn);
		return;
	}
	bool was_all = admission_has_all_shards(turn);
	admission->shards_acked |= 1ull << event->shard;
	if (was_all || !admission_has_all_shards(turn))
		return;
	if (admission->state == ADMISSION_GRANTED) {
		admission_send_all(turn, CONTROL_GRANT);
	} else if (admission->state == ADMISSION_ENABLING) {
		(void)admission_time_start(turn);
	} else {
		admission_end_check_drained(turn);
	}
}

/* ---- the machine ---- */

/* R-CT-42 */
static void log_alarm(struct turn *turn)
{
	static const char what[] = "sent a packet that a sound worker never sends: dropped";
	uint32_t rank = turn->event->rank;

	if (turn->admission->state != ADMISSION_STARTED)
		return;
	if (rank < turn->admission->size)
		admission_log(turn, ADMISSION_LOG_LIMITED, "rank %u on %s %s", rank,
			      admission_host(turn, rank), what);
	else
		admission_log(turn, ADMISSION_LOG_LIMITED, "somebody %s", what);
}

static void dispatch(struct turn *turn)
{
	switch (turn->event->type) {
	case ADMISSION_MESSAGE:
		message(turn);
		break;
	case ADMISSION_CLOSED:
		admission_end_closed(turn);
		break;
	case ADMISSION_HEARD:
		admission_time_heard(turn);
		break;
	case ADMISSION_SHARD:
		shard(turn);
		break;
	case ADMISSION_MISMATCH:
		admission_query_mismatch(turn);
		break;
	case ADMISSION_MISFIT:
		admission_still_misfit(turn);
		break;
	case ADMISSION_ALARM:
		log_alarm(turn);
		break;
	case ADMISSION_TICK:
		admission_time_tick(turn);
		break;
	case ADMISSION_TERMINATE:
		admission_end_terminate(turn);
		break;
	case ADMISSION_BROKEN:
		admission_end_broken(turn);
		break;
	case ADMISSION_KILL:
		admission_end_kill(turn);
		break;
	case ADMISSION_ORPHAN:
		admission_end_orphans(turn);
		break;
	case ADMISSION_DESERTED:
		admission_pair_end(turn);
		break;
	case ADMISSION_YIELD:
		admission_twin_yield(turn);
		break;
	case ADMISSION_ADOPT:
		admission_join_adopt(turn);
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
	actions->is_ending = false;
	actions->cause_rank = CONTROL_RANK_NONE;
	actions->text[0] = 0;
	actions->log_level = ADMISSION_LOG_NONE;
	actions->log[0] = 0;
	dispatch(&turn);
	admission_time_set_wake(&turn);
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
		message_out->end.is_ending = actions->is_ending;
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
