/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_member.h - a member's rules once more (docs/protocol.md, R-CT-49 to R-CT-57, R-CT-56, R-CT-50, and R-CT-5,
 * R-CT-6, R-CT-9 and R-CT-27 as far as they are its), beside each step of core/job/member.c: alarms, which are points
 * in time, for what core keeps as what happened last and how long ago.
 *
 * Judged: all that is done, in its order, with every field of every message; causes, ranks and every letter of a
 * text; wake_ns; the state, and what the library reads of a member besides. Which of several things one TICK does
 * first is core's choice, repeated here, and so are the words of texts.
 */
#ifndef SEARCH_SLOW_MEMBER_H
#define SEARCH_SLOW_MEMBER_H

#include "core/job/member.h"

/* When something is to be done by itself; UINT64_MAX: never. */
enum slow_alarm {
	SLOW_ATTEMPT,   /* to connect, R-CT-51 */
	SLOW_UNREACHED, /* the attempt under way has no end */
	SLOW_OVER,      /* the time to begin, R-CT-50 */
	SLOW_BEAT,      /* HEARTBEAT, R-CT-9 */
	SLOW_HELLO,     /* R-CT-52 */
	SLOW_VERDICT,   /* R-CT-56 */
	SLOW_ALARMS
};

struct slow_member {
	uint64_t alarm[SLOW_ALARMS];
	uint64_t begun_ns, connecting_ns, heard_ns, spoke_ns, looked_ns, beaten_ns, heartbeat_ns;
	uint64_t over_number; /* of the operation whose deadline is over */
	enum member_state state;
	uint32_t serial, shards, lanes, rounds;
	uint32_t cause, cause_rank;
	bool has_begun, is_open, is_again;
	struct {
		uint16_t port;
		bool is_bound, has_answered_short;
	} shard[MAP_SHARDS_MAX];
};

/* Are all rules in the build? */
bool slow_member_is_asked(void);
void slow_member_init(struct slow_member *slow, const struct member_config *config);
/* After member_step: NULL, or what it did that the rules do not say. */
const char *slow_member_step(struct slow_member *slow, const struct member_config *config,
			     const struct member_event *event, const struct member *member,
			     const struct member_actions *actions);
/* When a TICK may find that the aggregator is silent; when one is so late that this process has slept. */
uint64_t slow_member_silent_at(const struct slow_member *slow);
uint64_t slow_member_slept_at(const struct slow_member *slow);
/* How many lanes a HELLO has. */
uint32_t slow_member_hello_lanes(const struct slow_member *slow);

#endif
