/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow_admission.h - the aggregator's rules once more (docs/protocol.md, R-CT-8 to R-CT-42, R-CT-21, R-CT-26,
 * R-CT-56, R-CT-43, R-CT-44, R-CT-23, R-CT-34), beside each step of core/job/admission.c: a list of people in the
 * order in which they came, and whole answers, for what core keeps by rank and as hashes.
 *
 * Judged: what is sent to whom and in which order there, each CLOSE and COMMAND; causes, ranks, `ending`,
 * texts; numbers of GRANT, START, PING, PONG, QUERY, WAITING; the state, lines of log, when to wake up, whether
 * there is more to do at once, and that nothing is kept of what is over. Not judged: the order between
 * connections. Which of several things one TICK does first is core's choice, repeated here.
 */
#ifndef SEARCH_SLOW_ADMISSION_H
#define SEARCH_SLOW_ADMISSION_H

#include "core/job/admission.h"

enum {
	SLOW_PEOPLE = 16,
	SLOW_OPS = 6,
	SLOW_SAYS = 96,
	SLOW_RANKS = 8,   /* members_max at most */
	SLOW_SHARDS = 64, /* likewise */
	SLOW_CLOSE = 200, /* beside enum control_type */
};

/* TOLD: that it is over, and its connection is not closed yet. */
enum slow_place { SLOW_WAITS, SLOW_JOINED, SLOW_READY, SLOW_LEFT, SLOW_TOLD };

struct slow_person {
	uint64_t heard_ns, spoke_ns, joined_ns;
	uint64_t submitted, oldest;
	uint64_t still_number, still_ns, still_said_ns;
	enum slow_place place;
	uint32_t connection; /* 0: it has none any more */
	uint32_t host, rank, size, pid, workers, timeout_ms;
	uint32_t mode, latency_slots, latency_window;
	uint64_t list_hash;
	bool has_list;
	uint64_t boot, process, source, program;
	uint32_t local_size;
	bool is_launched;
	uint32_t misfit; /* enum misfit */
	uint32_t answer; /* the how manieth of the round */
	uint32_t asked;  /* the serial of the last PING, 0: none */
	uint32_t lanes, misfits;
	bool is_alive; /* it has answered that one */
	bool is_still, has_answered;
	enum {
		SLOW_UNKNOWN,
		SLOW_OUTSTANDING,
		SLOW_COMPLETE
	} about; /* of what the round is about */
	uint32_t ops_count;
	bool has_more;
	struct control_op ops[SLOW_OPS]; /* of its answer */
	uint8_t nonce[WIRE_NONCE_BYTES];
};

struct slow_said {
	uint32_t connection, what; /* enum control_type, SLOW_CLOSE */
	uint32_t number;
	uint64_t from;
};

struct slow_wish { /* what the next round is to be about */
	bool is_stalled, is_expired;
	uint64_t stall, expired;
	uint32_t stall_ms, expired_ms, expired_rank;
};

struct slow_admission {
	struct slow_person people[SLOW_PEOPLE];
	uint32_t count;
	enum admission_state state;
	uint32_t size, generation, lanes, pings;
	uint64_t life, since_ns, tick_ns, beat_ns, progress_ns;
	bool acked[SLOW_SHARDS];
	bool is_terminating;
	uint32_t last_cause, last_rank;
	/* R-CT-10: a gathering that was refused */
	bool is_refusing, is_refusing_all;
	uint64_t refused_ns, refused;
	uint32_t refused_cause, refused_rank;
	char refused_text[CONTROL_TEXT_BYTES];
	/* R-CT-26 */
	uint64_t unfit, unfit_ns, unfit_source[SLOW_RANKS];
	uint32_t unfit_cause;
	char unfit_text[CONTROL_TEXT_BYTES];
	/* R-CT-36 */
	enum admission_query query;
	uint32_t round, answers;
	uint64_t from, asked_ns, page_ns;
	struct slow_wish wish, about;
	enum { SLOW_AGREED, SLOW_WANTED, SLOW_COVERED } mismatch;
	uint32_t mismatch_rank, mismatch_other;
	uint64_t complete;
	uint32_t complete_rank;
	/* What this step must have done. */
	struct slow_said said[SLOW_SAYS];
	uint32_t says;
	bool has_command, is_ending, again;
	enum admission_command command;
	uint32_t command_generation;
	uint32_t cause, cause_rank;
	char text[CONTROL_TEXT_BYTES];
	enum admission_log log_level;
	char log[CONTROL_TEXT_BYTES];
	struct control_waiting waiting;
};

/* How often the end of a round was which. */
enum slow_reached {
	SLOW_REACHED_ODD,
	SLOW_REACHED_OTHERS,
	SLOW_REACHED_TIE,
	SLOW_REACHED_NOT_CALLED,
	SLOW_REACHED_MORE_KINDS,
	SLOW_REACHED_CHANGE,
	SLOW_REACHED_NOBODY,
	SLOW_REACHED_LEAVER,
	SLOW_REACHED_FORGETFUL,
	SLOW_REACHED_PAGE,
	SLOW_REACHED_PAGE_ABOUT,
	SLOW_REACHED_DEADLINE,
	SLOW_REACHED_DEADLINE_MISSING,
	SLOW_REACHED_DEADLINE_SILENT,
	SLOW_REACHED_DEADLINE_BOTH,
	SLOW_REACHED_COMPLETE_MEANWHILE,
	SLOW_REACHED_STILL,
	SLOW_REACHED_STILL_ONE,
	SLOW_REACHED_STILL_MORE,
	SLOW_REACHED_UNANSWERED,
	SLOW_REACHED_WAITS,
	SLOW_REACHED_WAITS_FOR,
	SLOW_REACHED
};
extern uint32_t slow_reached[SLOW_REACHED];

/* Are all rules in the build? */
bool slow_admission_is_asked(void);
void slow_admission_init(struct slow_admission *slow);
/* After admission_step: NULL, or what it did that the rules do not say. Hosts are named "<number>". */
const char *slow_admission(struct slow_admission *slow, const struct admission_config *config,
			   const struct admission_event *event, const struct admission *admission,
			   const struct admission_actions *actions);

#endif
