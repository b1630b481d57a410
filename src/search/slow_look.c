/* SPDX-License-Identifier: Apache-2.0 */
/* slow_look.c - see slow_admission.h: is what core did what the rules say? */
#include <stdlib.h>
#include <string.h>

#include "search/slow.h"
#include "search/slow_step.h"

bool slow_admission_is_asked(void)
{
	return slow_is_asked();
}

void slow_admission_init(struct slow_admission *slow)
{
	memset(slow, 0, sizeof(*slow));
	slow->last_rank = CONTROL_RANK_NONE;
}

static const char *look_at_grant(const struct slow_step *step, const struct slow_person *person,
				 const struct control_grant *grant)
{
	uint32_t workers = 0;

	for (uint32_t i = 0; i < step->slow->count; i++)
		workers += slow_is_in(&step->slow->people[i]) ? step->slow->people[i].workers : 0;
	if (grant->size != step->slow->size || grant->workers != workers ||
	    grant->life != step->slow->life || grant->version != CONTROL_VERSION ||
	    grant->heartbeat_ms != step->config->heartbeat_ns / 1000000)
		return "SLOW: another GRANT";
	return memcmp(grant->nonce, person->nonce, sizeof(grant->nonce)) ? "SLOW: another's nonce"
									 : NULL;
}

static const char *look_at_start(const struct slow_step *step, const struct control_start *start)
{
	if (start->lanes != step->slow->lanes || start->members_count != step->slow->size)
		return "SLOW: another START";
	for (uint32_t rank = 0; rank < start->members_count; rank++) {
		const struct slow_person *person = slow_member(step->slow, rank);
		const struct control_member *member = &start->members[rank];

		if (!person || member->rank != rank || member->pid != person->pid ||
		    strtoul(member->host + 1, NULL, 10) != person->host)
			return "SLOW: START names somebody else";
	}
	return NULL;
}

static const char *look_at_end(const struct slow_admission *slow, const struct control_end *end)
{
	if (end->cause != slow->cause)
		return "SLOW: another cause";
	if (end->rank != slow->cause_rank)
		return "SLOW: another rank is named";
	if (end->is_ending != slow->is_ending)
		return "SLOW: `ending` is wrong";
	return strcmp(slow->text, end->text) ? "SLOW: other words of an end" : NULL;
}

static const char *look_at_waiting(const struct control_waiting *want,
				   const struct control_waiting *is)
{
	if (want->number != is->number || want->waited_ms != is->waited_ms ||
	    want->missing_count != is->missing_count || want->listed_count != is->listed_count ||
	    memcmp(want->missing, is->missing, sizeof(is->missing)) != 0)
		return "SLOW: another WAITING";
	return strcmp(want->text, is->text) ? "SLOW: other words of WAITING" : NULL;
}

static const char *look_at_message(const struct slow_step *step, const struct slow_said *said,
				   const struct slow_person *person,
				   const struct control_message *message)
{
	switch (message->type) {
	case CONTROL_GRANT:
		return person ? look_at_grant(step, person, &message->grant) : "SLOW: to nobody";
	case CONTROL_START:
		return look_at_start(step, &message->start);
	case CONTROL_DENY:
	case CONTROL_ABORT:
		return look_at_end(step->slow, &message->end);
	case CONTROL_WAITING:
		return look_at_waiting(&step->slow->waiting, &message->waiting);
	case CONTROL_PROGRESS:
		return strcmp(step->slow->text, message->progress.text)
			       ? "SLOW: other words of PROGRESS"
			       : NULL;
	case CONTROL_PING:
	case CONTROL_PONG:
		return message->ping.serial == said->number ? NULL : "SLOW: another serial";
	case CONTROL_QUERY:
		return message->query.round == said->number && message->query.from == said->from
			       ? NULL
			       : "SLOW: another QUERY";
	default:
		return NULL;
	}
}

static const char *look_at_command(struct slow_admission *slow,
				   const struct admission_action *action)
{
	if (!slow->has_command || action->command != slow->command)
		return "SLOW: another command";
	slow->has_command = false;
	if (action->generation != slow->command_generation)
		return "SLOW: a command for another life";
	if (action->command == ADMISSION_JOB_SET && action->lanes != slow->lanes)
		return "SLOW: the job is enabled with other lanes";
	return NULL;
}

/* On each connection in this order; `said` is used up. */
static const char *look_at_action(struct slow_step *step, const struct admission *admission,
				  const struct admission_actions *actions,
				  const struct admission_action *action)
{
	struct slow_admission *slow = step->slow;
	struct control_message message;
	struct slow_said said;

	if (action->type == ADMISSION_COMMAND)
		return look_at_command(slow, action);
	for (uint32_t i = 0; i < slow->says; i++) {
		said = slow->said[i];
		if (said.connection != action->connection)
			continue;
		memmove(&slow->said[i], &slow->said[i + 1],
			(--slow->says - i) * sizeof(*slow->said));
		if (action->type == ADMISSION_CLOSE)
			return said.what == SLOW_CLOSE ? NULL : "SLOW: closed, not told";
		if (said.what != action->message)
			return "SLOW: something else is to be said";
		memset(&message, 0x5a, sizeof(message));
		admission_message(admission, step->config, actions, action, &message);
		return look_at_message(step, &said, slow_whose(slow, said.connection), &message);
	}
	return "SLOW: there is nothing to say there";
}

static bool is_zero(const void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((const uint8_t *)at)[i])
			return false;
	return true;
}

/* What follows the struct, see admission.h. */
struct memory {
	const struct admission_member *members;
	const struct admission_peer *waiters;
	const struct control_op *groups;
	const struct admission_seen *seen;
	const char *refusal, *unfit;
	const uint64_t *sources;
};

static struct memory memory_of(const struct admission_config *config,
			       const struct admission *admission)
{
	struct memory memory = { .members = (const void *)(admission + 1) };

	memory.waiters = (const void *)(memory.members + config->members_max);
	memory.groups = (const void *)(memory.waiters + config->waiters_max);
	memory.seen = (const void *)(memory.groups + config->groups_max);
	memory.refusal = (const void *)(memory.seen + config->ops_max);
	memory.unfit = memory.refusal + config->text_max;
	memory.sources = (const void *)(memory.unfit + config->text_max);
	return memory;
}

/* States can be compared: nothing is kept of what is over. */
static bool is_round_over(const struct admission_config *config, const struct admission *admission)
{
	struct memory memory = memory_of(config, admission);

	return !admission->from && !admission->page_end && !admission->differs &&
	       !admission->about && !admission->about_ms && !admission->about_rank &&
	       !admission->has_about && !admission->is_about_expired && !admission->seen_count &&
	       !admission->groups_count && !admission->has_more_groups &&
	       is_zero(memory.groups, config->groups_max * sizeof(*memory.groups)) &&
	       is_zero(memory.seen, config->ops_max * sizeof(*memory.seen));
}

static bool is_life_over(const struct admission *admission)
{
	return !admission->mismatch && !admission->is_stalled && !admission->is_expired &&
	       !admission->stall && !admission->stall_ms && !admission->expired &&
	       !admission->expired_ms && !admission->expired_rank && !admission->complete &&
	       !admission->complete_rank && !admission->mismatch_rank && !admission->mismatch_other;
}

static bool is_nobody(const struct admission_config *config, const struct admission *admission)
{
	struct memory memory = memory_of(config, admission);

	return !admission->life && !admission->generation && !admission->shards_acked &&
	       !admission->size && !admission->mode && !admission->latency_slots &&
	       !admission->latency_window && !admission->lanes &&
	       is_zero(memory.members, config->members_max * sizeof(*memory.members));
}

static const char *look_at_memory(const struct slow_step *step, const struct admission *admission)
{
	const struct admission_config *config = step->config;
	struct memory memory = memory_of(config, admission);
	uint32_t count = admission->waiters_count;

	if (admission->query != step->slow->query)
		return "SLOW: another round is on its way";
	if (admission->query == ADMISSION_QUIET && !is_round_over(config, admission))
		return "SLOW: something of a round is kept";
	if (admission->state != ADMISSION_STARTED && !is_life_over(admission))
		return "SLOW: something of a life is kept";
	for (uint32_t rank = 0; rank < admission->size; rank++)
		if (memory.members[rank].presence >= ADMISSION_LEFT &&
		    memory.members[rank].peer.connection)
			return "SLOW: who is gone has a connection";
	if (admission->state == ADMISSION_NONE && !is_nobody(config, admission))
		return "SLOW: somebody is kept";
	if (!is_zero(memory.waiters + count,
		     (config->waiters_max - count) * sizeof(*memory.waiters)))
		return "SLOW: somebody who waited is kept";
	if (!admission->is_refusing &&
	    (admission->refused_ns || admission->refused_cause || admission->refused_rank ||
	     !is_zero(&admission->refused, sizeof(admission->refused)) ||
	     !is_zero(memory.refusal, config->text_max)))
		return "SLOW: something of a refusal is kept";
	if (!step->slow->unfit_cause &&
	    (admission->unfit_ns || admission->unfit_cause ||
	     !is_zero(&admission->unfit, sizeof(admission->unfit)) ||
	     !is_zero(memory.unfit, config->text_max) ||
	     !is_zero(memory.sources, config->members_max * sizeof(*memory.sources))))
		return "SLOW: something of who was unfit is kept";
	return admission->last_cause == step->slow->last_cause &&
			       admission->last_rank == step->slow->last_rank
		       ? NULL
		       : "SLOW: another end of the last life";
}

static const char *look_at_log(const struct slow_admission *slow,
			       const struct admission_actions *actions)
{
	if (actions->log_level != slow->log_level)
		return "SLOW: another level of the log";
	return strcmp(actions->log, slow->log) ? "SLOW: another line of the log" : NULL;
}

static const char *look(struct slow_step *step, const struct admission *admission,
			const struct admission_actions *actions)
{
	const char *wrong = NULL;
	bool is_tick = step->event->type == ADMISSION_TICK;

	for (uint32_t i = 0; i < actions->count && !wrong; i++)
		wrong = look_at_action(step, admission, actions, &actions->list[i]);
	if (wrong)
		return wrong;
	if (step->slow->says)
		return "SLOW: somebody is not told";
	if (step->slow->has_command)
		return "SLOW: the shards are not told";
	if (admission->state != step->slow->state)
		return "SLOW: another state";
	if (admission->waiters_count != slow_waiters(step->slow))
		return "SLOW: somebody else waits";
	if (actions->again !=
	    (slow_next_to_move(step->slow) || (is_tick && slow_first_silent(step))))
		return "SLOW: there is more to do at once, or not";
	if (actions->wake_ns != slow_wake_ns(step))
		return "SLOW: it would wake up too early, or too late";
	wrong = look_at_log(step->slow, actions);
	return wrong ? wrong : look_at_memory(step, admission);
}

const char *slow_admission(struct slow_admission *slow, const struct admission_config *config,
			   const struct admission_event *event, const struct admission *admission,
			   const struct admission_actions *actions)
{
	struct slow_step step = { slow, config, event };

	slow->says = 0;
	slow->has_command = false;
	slow->is_ending = false;
	slow->log_level = ADMISSION_LOG_NONE;
	slow->log[0] = 0;
	slow_dispatch(&step);
	return look(&step, admission, actions);
}
