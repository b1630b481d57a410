/* SPDX-License-Identifier: Apache-2.0 */
/* slow_member_look.c - see slow_member.h: what is wanted, and is it what core did? */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "search/slow_member_want.h"
#include "search/texts.h"

enum { LONG = 4096 };

struct slow_want slow_want;

void slow_want_nothing(void)
{
	slow_want.deeds = 0;
	slow_want.cause = CONTROL_OK;
	slow_want.rank = CONTROL_RANK_NONE;
	slow_want.has_progress = slow_want.has_waiting = false;
	slow_want.text[0] = 0;
}

void slow_word(const char *format, ...)
{
	char whole[LONG];
	va_list arguments;

	va_start(arguments, format);
	assert(vsnprintf(whole, sizeof(whole), format, arguments) < LONG);
	va_end(arguments);
	texts_tidy(slow_want.text, sizeof(slow_want.text), whole);
}

/* ---- what is to be done ---- */

struct slow_deed *slow_must(enum member_action_type what)
{
	struct slow_deed *deed = &slow_want.deed[slow_want.deeds++];

	assert(slow_want.deeds <= SLOW_DEEDS);
	deed->what = what;
	return deed;
}

struct control_message *slow_must_send(enum control_type type)
{
	struct control_message *message = &slow_must(MEMBER_SEND)->message;

	memset(message, 0, sizeof(*message));
	message->type = type;
	return message;
}

const char *slow_member_state_name(enum member_state state)
{
	static const char *const names[] = { "connect", "joining", "helloing", "ready",
					     "run",     "leaving", "left",     "failed" };

	return names[state];
}

/* ---- is that what core did? ---- */

static const char *look_at(const struct member_config *config, const struct slow_deed *deed,
			   const struct member_actions *actions, const struct member_action *action)
{
	struct control_message sent;

	if (action->type != deed->what)
		return "SLOW: something else is to be done";
	switch (deed->what) {
	case MEMBER_SEND:
		member_message(config, actions, action, &sent);
		if (action->message != deed->message.type || sent.type != deed->message.type)
			return "SLOW: something else is to be said";
		return memcmp(&sent, &deed->message, sizeof(sent)) ? "SLOW: in other words" : NULL;
	case MEMBER_HELLO:
		return action->shard != deed->shard || action->lanes != deed->lanes ||
				       action->serial != deed->serial
			       ? "SLOW: another HELLO"
			       : NULL;
	case MEMBER_OPINFO:
		return action->serial != deed->serial || action->number != deed->number
			       ? "SLOW: another round, or from another number on"
			       : NULL;
	case MEMBER_START:
		return action->lanes != deed->lanes ? "SLOW: another number of lanes" : NULL;
	default:
		return NULL;
	}
}

const char *slow_member_look(const struct slow_member *slow, const struct member_config *config,
			     const struct member *member, const struct member_actions *actions)
{
	uint64_t wake_ns = UINT64_MAX;
	const char *wrong = NULL;

	if (actions->count != slow_want.deeds)
		return actions->count < slow_want.deeds ? "SLOW: there is more to do"
							: "SLOW: there is less to do";
	for (uint32_t i = 0; i < slow_want.deeds && !wrong; i++)
		wrong = look_at(config, &slow_want.deed[i], actions, &actions->list[i]);
	if (wrong)
		return wrong;
	for (uint32_t i = 0; i < SLOW_ALARMS; i++)
		wake_ns = slow->alarm[i] < wake_ns ? slow->alarm[i] : wake_ns;
	if (actions->wake_ns != wake_ns)
		return "SLOW: to be woken at another time";
	if (member->state != slow->state ||
	    strcmp(member_state_name(member->state), slow_member_state_name(slow->state)) != 0)
		return "SLOW: another state";
	if (actions->cause != slow_want.cause || actions->cause_rank != slow_want.rank ||
	    member->cause != slow->cause || member->cause_rank != slow->cause_rank)
		return "SLOW: another cause, or rank";
	if (actions->has_progress != slow_want.has_progress ||
	    actions->has_waiting != slow_want.has_waiting)
		return "SLOW: what is to be told of";
	if (strcmp(actions->text, slow_want.text) != 0)
		return "SLOW: another text";
	if (member->is_joined != slow->is_open || member->is_again != slow->is_again)
		return "SLOW: has it a connection, and is it the first?";
	if (slow->is_open &&
	    (member->heard_ns != slow->heard_ns || member->spoke_ns != slow->spoke_ns))
		return "SLOW: heard at another time";
	if (slow->state == MEMBER_CONNECT && member->since_ns != slow->connecting_ns)
		return "SLOW: attempts go on since another time";
	if (slow->alarm[SLOW_VERDICT] != UINT64_MAX && member->expired != slow->over_number)
		return "SLOW: the deadline of another operation";
	return NULL;
}
