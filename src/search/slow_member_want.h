/* SPDX-License-Identifier: Apache-2.0 */
/* slow_member_want.h - what the parts of slow_member.h share: what a step must have done. slow_member.c says it,
 * slow_member_look.c compares it with what core did. */
#ifndef SEARCH_SLOW_MEMBER_WANT_H
#define SEARCH_SLOW_MEMBER_WANT_H

#include "search/slow_member.h"

enum { SLOW_DEEDS = 2 * MAP_SHARDS_MAX + 8 };

struct slow_deed {
	enum member_action_type what;
	uint32_t shard, lanes, serial;
	uint64_t number;
	struct control_message message; /* SEND */
};

extern struct slow_want {
	struct slow_deed deed[SLOW_DEEDS];
	uint32_t deeds;
	uint32_t cause, rank;
	bool has_progress, has_waiting;
	char text[CONTROL_TEXT_BYTES];
} slow_want;

void slow_want_nothing(void);
struct slow_deed *slow_must(enum member_action_type what);
struct control_message *slow_must_send(enum control_type type);
/* The text. */
__attribute__((format(printf, 1, 2))) void slow_word(const char *format, ...);

const char *slow_member_state_name(enum member_state state);
/* NULL, or what is wrong. */
const char *slow_member_look(const struct slow_member *slow, const struct member_config *config,
			     const struct member *member, const struct member_actions *actions);

#endif
