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

/* "rank 2 on <17> ..., rank 3" */
static struct slow_names names_of(const char *text)
{
	struct slow_names names = { 0 };
	const char *at;

	for (at = strchr(text, '<'); at; at = strchr(at + 1, '<'))
		names.hosts |= 1ull << strtoul(at + 1, NULL, 10) % 64;
	for (at = strstr(text, "rank "); at; at = strstr(at + 1, "rank "))
		if (at[5] >= '0' && at[5] <= '9')
			names.ranks |= 1ull << strtoul(at + 5, NULL, 10) % 64;
	return names;
}

/* Of more than four core tells runs of numbers, without hosts. */
static bool is_named(const struct slow_names *want, const char *text)
{
	struct slow_names names = names_of(text);

	if (want->is_any || __builtin_popcountll(want->ranks) > 4)
		return true;
	return names.hosts == want->hosts && names.ranks == want->ranks;
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
	return is_named(&slow->names, end->text) ? NULL : "SLOW: the text names others";
}

static const char *look_at_waiting(const struct control_waiting *want,
				   const struct control_waiting *is)
{
	struct slow_names names = names_of(is->text);
	uint64_t missing = 0;

	for (uint32_t i = 0; i < want->missing_count; i++)
		missing |= 1ull << want->missing[i];
	if (want->number != is->number || want->waited_ms != is->waited_ms ||
	    want->missing_count != is->missing_count || want->listed_count != is->listed_count ||
	    memcmp(want->missing, is->missing, sizeof(is->missing)) != 0)
		return "SLOW: another WAITING";
	return want->missing_count > 4 || names.ranks == missing ? NULL
								 : "SLOW: WAITING names others";
}

static const char *look_at_progress(const struct slow_admission *slow, const char *text)
{
	if (!strstr(text, "the last one ended") != (slow->last_cause == CONTROL_OK))
		return "SLOW: PROGRESS tells of another last life";
	return is_named(&slow->names, text) ? NULL : "SLOW: PROGRESS names others";
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
		return look_at_progress(step->slow, message->progress.text);
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
		admission_message(admission, step->config, actions, action, &message);
		return look_at_message(step, &said, slow_whose(slow, said.connection), &message);
	}
	return "SLOW: there is nothing to say there";
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
	return NULL;
}

const char *slow_admission(struct slow_admission *slow, const struct admission_config *config,
			   const struct admission_event *event, const struct admission *admission,
			   const struct admission_actions *actions)
{
	struct slow_step step = { slow, config, event };

	slow->says = 0;
	slow->has_command = false;
	slow->is_ending = false;
	slow_dispatch(&step);
	return look(&step, admission, actions);
}
