/* SPDX-License-Identifier: Apache-2.0 */
/* control_expand.h - what control.c (what must happen), control_clock.c and control_fault.c (what may) share. */
#ifndef SEARCH_CONTROL_EXPAND_H
#define SEARCH_CONTROL_EXPAND_H

#include "search/control_world.h"

enum move {
	MOVE_START = 1,
	MOVE_CONNECT,
	MOVE_GIVE_UP,
	MOVE_TAKE,
	MOVE_END_OF_FILE,
	MOVE_SILENCE,
	MOVE_WELCOME,
	MOVE_SUBMIT,
	MOVE_RESULT,
	MOVE_FINALIZE,
	MOVE_STALL,
	MOVE_READ,
	MOVE_CLOSED,
	MOVE_SILENT,
	MOVE_ACK,
	MOVE_EXIT,
	MOVE_COMMAND,
	MOVE_ADD,
	MOVE_LATE,
	MOVE_MEMBER_LATE,
	MOVE_CONTINUE,
	MOVE_FORGET,
	MOVE_VERDICT,
	MOVE_NO_VERDICT,
	MOVE_SPLIT,
	MOVE_SECOND,
	MOVE_HOLD,
	MOVE_LOSE, /* as another, with what was on its way */
	MOVE_FAULT = 64,
};

/* One expansion. */
struct expansion {
	struct world *world;
	const struct state *from;
	const uint8_t *packed; /* the same */
	struct bfs *bfs;
	uint32_t moves; /* that are not BFS_MAY */
};

/* The world is in the state that is being expanded; the step follows. */
struct seat *begin(struct expansion *expansion, uint32_t s);

/* The same, and what it is that the process of a seat does, or an aggregator. */
struct seat *rank_begins(struct expansion *expansion, uint32_t s, const char *does);
void aggregator_begins(struct expansion *expansion, uint32_t aggregator, const char *does);

/* The state that the world is in is emitted; if nothing has changed, it was no move. */
void finish(struct expansion *expansion, uint32_t move, uint32_t a, uint32_t b);

bool may(const struct expansion *expansion, enum control_fault fault);
void finish_fault(struct expansion *expansion, enum control_fault fault, uint32_t a, uint32_t b);
bool is_up(const struct expansion *expansion, uint32_t aggregator);
void say_who(const struct expansion *expansion, uint32_t s);
void say_aggregator(const struct expansion *expansion, uint32_t aggregator);

/* control_clock.c: somebody's time is over; is_last_resort: because nothing else can happen, and that may be wrong. */
void expand_late(struct expansion *expansion, uint32_t job, bool is_last_resort);
void expand_member_late(struct expansion *expansion, uint32_t s, bool is_last_resort);

/* Time passes, for who only waits, and at last for all. */
void expand_seconds(struct expansion *expansion);
void expand_hold(struct expansion *expansion, uint32_t job);

/* control_fault.c: what the world does. */
void expand_faults(struct expansion *expansion);

#endif
