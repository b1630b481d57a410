/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member_turn.h - one step of a member: member.c is the machine, its clocks and its end, member_begin.c the
 * way from CONNECT to RUN. docs/protocol.md, R-CT-49 to R-CT-57, R-CT-56 and R-CT-50.
 */
#ifndef CORE_MEMBER_TURN_H
#define CORE_MEMBER_TURN_H

#include "core/job/member.h"
#include "core/shared/text.h"

static const uint64_t ms_ns = 1000000;
static const uint64_t hello_ns = 100000000;

struct turn {
	struct member *member;
	const struct member_config *config;
	const struct member_event *event;
	struct member_actions *actions;
};

void member_enter(struct turn *turn, enum member_state next);
struct member_action *member_act(struct turn *turn, enum member_action_type type);
struct member_action *member_send(struct turn *turn, enum control_type message);
/* Begins the text of an end. */
void member_blame(struct turn *turn, struct text *text, enum control_cause cause, uint32_t rank);
/* The end, with the cause and the text that blame began. Who failed by itself tells the others first. */
void member_fail(struct turn *turn, bool is_told);
/* A message that does not fit the state: R-CT-5. */
void member_unexpected(struct turn *turn);

/* ---- member_begin.c ---- */

void member_begin_refused(struct turn *turn);
void member_begin_connected(struct turn *turn);
/* R-CT-27: whether a DENIED is of rank 0's last life, which this process was quicker to leave; and what then. */
bool member_begin_is_earlier(const struct turn *turn);
void member_begin_again(struct turn *turn);
void member_begin_granted(struct turn *turn);
void member_begin_welcome(struct turn *turn);
void member_begin_started(struct turn *turn);

/* Ticks: of CONNECT, and of HELLOING. */
void member_begin_tick(struct turn *turn);
void member_begin_tick_hello(struct turn *turn);
/* When the state that the member is in has lasted too long (UINT64_MAX: never); and what then. */
uint64_t member_begin_late_at(const struct turn *turn);
void member_begin_too_late(struct turn *turn);

#endif
