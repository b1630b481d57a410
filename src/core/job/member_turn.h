/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_turn.h - what the parts of member share: one step's machine, event and actions. Included by these alone, of
 * which each calls only those below it:
 *   member.c         the machine: what the aggregator, the library and the clock say
 *   member_begin.c   the way from CONNECT to RUN
 *   member_turn.c    states, actions and texts, for both
 */
#ifndef CORE_MEMBER_TURN_H
#define CORE_MEMBER_TURN_H

#include "core/job/member.h"
#include "core/job/silence.h"
#include "core/shared/text.h"

struct turn {
	struct member *member;
	const struct member_config *config;
	const struct member_event *event;
	struct member_actions *actions;
};

void member_enter(struct turn *turn, enum member_state next);
struct member_action *member_act(struct turn *turn, enum member_action_type type);
struct member_action *member_send(struct turn *turn, enum control_type message);
/* The step's one text. */
void member_say(struct turn *turn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* R-CT-53: with that text. The aggregator hears of it, unless it comes from there. */
void member_fail(struct turn *turn, enum control_cause cause, uint32_t rank, bool is_told);
/* What the aggregator has not heard of, and no rank in particular has done. */
void member_fail_here(struct turn *turn, enum control_cause cause);
void member_unexpected(struct turn *turn); /* R-CT-5: the event's message */

/* member_begin.c: each does what it is to do in the state that the member is in, perhaps nothing. */
void member_begin_connect(struct turn *turn); /* if it is time to */
void member_begin_connected(struct turn *turn);
void member_begin_refused(struct turn *turn);
bool member_begin_again(struct turn *turn); /* a DENY is no end here: it connects anew */
void member_begin_granted(struct turn *turn);
void member_begin_welcome(struct turn *turn);
void member_begin_hello(struct turn *turn); /* once more, if it is time to */
void member_begin_started(struct turn *turn);
bool member_begin_is_late(struct turn *turn); /* then it has failed */
uint64_t member_begin_wake_ns(const struct turn *turn);

#endif
