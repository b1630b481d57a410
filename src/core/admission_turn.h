/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_turn.h - what admission.c (who is in) and admission_query.c (who disagrees) share: one step's
 * machine, event and actions. Included by these two alone.
 */
#ifndef CORE_ADMISSION_TURN_H
#define CORE_ADMISSION_TURN_H

#include "core/admission.h"
#include "core/text.h"

struct turn {
	struct admission *admission;
	const struct admission_config *config;
	const struct admission_event *event;
	struct admission_actions *actions;
};

/* What follows struct admission. */
struct admission_peer *admission_waiters(const struct turn *turn);
struct control_op *admission_groups(const struct turn *turn);
struct admission_seen *admission_seen(const struct turn *turn);

struct admission_action *turn_send(struct turn *turn, const struct admission_peer *peer,
				   enum control_type type);

/* turn_blame begins the step's one text; turn_log begins its line of log. */
void turn_blame(struct turn *turn, struct text *text, enum control_cause cause, uint32_t rank);
void turn_log(struct turn *turn, struct text *text, enum admission_log level);

/* "rank 2 on hostb" */
void turn_add_rank(const struct turn *turn, struct text *text, uint32_t rank);
/* As many with their hosts as are readable, then as runs of numbers. */
void turn_add_ranks(const struct turn *turn, struct text *text, const struct text_ranks *ranks);

/* Ends a granted life with the text that turn_blame began: ABORT to all, the shards forget it. */
void turn_end_life(struct turn *turn);

/* admission_query.c: all of them while STARTED, query_end also when a life ends. */
void query_end(struct turn *turn);   /* no round, nothing of one */
void query_begin(struct turn *turn); /* a round, if one is wanted and none is on its way */
void query_opinfo(struct turn *turn, struct admission_member *member);
void query_left(struct turn *turn); /* a member has left: perhaps the round waited for it alone */

#endif
