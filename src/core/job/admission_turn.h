/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission_turn.h - what the parts of admission share: one step's machine, event and actions. Included by
 * these alone, of which each calls only those below it:
 *   admission.c         the machine: what members and shards say
 *   admission_time.c    what happens by itself
 *   admission_join.c    who may be in
 *   admission_twin.c    two programs under one name
 *   admission_pair.c    whether both of a pair can come
 *   admission_end.c     how a gathering or a life ends, and who hears of it
 *   admission_unfit.c   who never may be in
 *   admission_query.c   who disagrees, and who is late
 *   admission_still.c   what stands still
 *   admission_turn.c    states, memory, actions and texts, for all of them
 */
#ifndef CORE_ADMISSION_TURN_H
#define CORE_ADMISSION_TURN_H

#include "core/job/admission.h"
#include "core/shared/text.h"

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
char *admission_refusal(const struct turn *turn);
char *admission_unfit(const struct turn *turn);
uint64_t *admission_unfit_sources(const struct turn *turn); /* by rank */

struct admission_member *admission_member_at(const struct turn *turn, uint32_t rank);
/* First come, first. None may come or go meanwhile. */
#define ADMISSION_EACH_WAITER(turn, waiter)                           \
	for (struct admission_peer *waiter = admission_waiters(turn); \
	     waiter < admission_waiters(turn) + (turn)->admission->waiters_count; waiter++)
/* Of the job's size, by rank; also those that are not there. */
#define ADMISSION_EACH(turn, member)                                         \
	for (struct admission_member *member = admission_member_at(turn, 0); \
	     member < admission_member_at(turn, (turn)->admission->size); member++)
const char *admission_host(const struct turn *turn, uint32_t rank);
/* Of a pair's name, "NAME/i-j": i and j. False: it is no such name. */
bool admission_pair_ranks(const char *name, uint32_t ranks[2]);
/* As admission_named_in. */
uint32_t admission_named(const struct turn *turn, uint32_t rank);
/* Whose connection it is; NULL: no member's, no waiter's. */
struct admission_member *admission_find_member(const struct turn *turn, uint32_t connection);
struct admission_peer *admission_find_waiter(const struct turn *turn, uint32_t connection);
/* JOINED or READY: neither lost nor gone in good order. */
bool admission_is_in(const struct admission_member *member);
/* Whose presence is one of these, and whether there is anybody. */
#define ADMISSION_IS(presence) (1u << ADMISSION_##presence)
struct text_ranks admission_ranks(const struct turn *turn, uint32_t presences);
bool admission_has(const struct turn *turn, uint32_t presences);
/* Who keeps a waiter from its rank, and may be dead without our knowing; NULL: nobody. */
struct admission_member *admission_holder(const struct turn *turn,
					  const struct admission_peer *peer);
/* All shards have acknowledged the last command. */
bool admission_has_all_shards(const struct turn *turn);

void admission_enter(struct turn *turn, enum admission_state next);
struct admission_action *admission_send(struct turn *turn, const struct admission_peer *peer,
					enum control_type type);
void admission_send_all(struct turn *turn, enum control_type type); /* who are in */
void admission_send_waiters(struct turn *turn, enum control_type type);
/* R-CT-6: a close with unread input would eat what was said last. */
void admission_close(struct turn *turn, struct admission_peer *peer);
/* Said, closed and forgotten: its CLOSED will find nobody. */
void admission_send_last(struct turn *turn, struct admission_peer *peer, enum control_type type);
void admission_tell_shards(struct turn *turn, enum admission_command what);
/* DENY, with the text that admission_blame began, to who is not in, or to all who wait. */
void admission_refuse(struct turn *turn, struct admission_peer *peer);
void admission_refuse_waiters(struct turn *turn);

/* admission_blame begins the step's one text, admission_log its line of log. What comes back goes on with it. */
struct text admission_blame(struct turn *turn, enum control_cause cause, uint32_t rank,
			    const char *format, ...) __attribute__((format(printf, 4, 5)));
struct text admission_log(struct turn *turn, enum admission_log level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void admission_log_blame(struct turn *turn); /* the one is the other */
void admission_log_peer(struct turn *turn, const struct admission_peer *peer, const char *what);

/* As many with their hosts as are readable, then as runs of numbers. */
void admission_add_ranks(const struct turn *turn, struct text *text,
			 const struct text_ranks *ranks);

/* admission_words.c: "allreduce of 64 float32, avg "grad" (bulk)" */
void admission_add_op(struct text *text, const struct control_op *op);

void admission_drop_waiter(struct turn *turn, struct admission_peer *waiter);
/* So long a silence is death; it was heard in this time, if only over UDP. */
uint64_t admission_limit_ns(const struct turn *turn, const struct admission_peer *peer);
bool admission_is_heard(const struct turn *turn, const struct admission_peer *peer);
/* A rank is free, or another process has it: what pulses said before is about somebody else. */
void admission_forget_pulses(struct turn *turn);

/* admission_end.c */
void admission_end_reset(struct turn *turn); /* NONE: nobody is in */
/* Each with the text that admission_blame began. A gathering ends before any shard knows of it: all hear `last` and are
 * forgotten; in a job of a life who comes later hears it, too. A granted life ends: ABORT to all, the shards forget it. */
void admission_end_gathering(struct turn *turn, enum control_type last);
void admission_end_life(struct turn *turn);
/* A member is lost. A life ends. Of a gathering its rank is free; in a job of a life nobody can take it, so that all
 * are refused: there the text may be begun. */
void admission_end_lose(struct turn *turn, struct admission_member *member);
/* DENY to `peer`, who is not in, to all who gather and who wait. */
void admission_end_refused(struct turn *turn, struct admission_peer *peer);
/* DENY or ABORT to all, in whatever state, and for 5 s to whoever comes. */
void admission_end_twins(struct turn *turn);
/* DENY once more, if what was refused lately is what `peer` comes for. */
bool admission_end_refuse_again(struct turn *turn, struct admission_peer *peer);
void admission_end_drain(struct turn *turn); /* the shards forget it; NONE when all is clean, */
void admission_end_check_drained(struct turn *turn); /* as it may be now */
void admission_end_closed(struct turn *turn);        /* the event's connection is no more */
/* A connection has been silent for too long. False if nobody has it. */
bool admission_end_silent(struct turn *turn, uint32_t connection);
void admission_end_terminate(struct turn *turn); /* SIGTERM */
/* Begins the text of a DENY to whoever comes while we end. */
void admission_end_blame(struct turn *turn);
void admission_end_kill(struct turn *turn);    /* its limit is over */
void admission_end_orphans(struct turn *turn); /* the life that this job belongs to has ended */
void admission_end_broken(struct turn *turn);  /* the data path is */

/* admission_join.c */
void admission_join_read(struct turn *turn); /* the event is a JOIN of a new connection */
void admission_join_pong(struct turn *turn, struct admission_peer *peer);
void admission_join_adopt(struct turn *turn);
struct admission_peer *
admission_join_next_waiter(const struct turn *turn); /* that can do more than wait */
void admission_join_promote(struct turn *turn);      /* it does */

/* admission_unfit.c */
/* Wrong key, no version in common, as its JOIN says? Begins the text. */
bool admission_unfit_is(struct turn *turn, const struct admission_peer *peer,
			const struct control_join *said);
void admission_unfit_note(struct turn *turn, uint32_t rank); /* with that text */
void admission_unfit_drop(struct turn *turn, uint32_t rank); /* one that is fit has come */
void admission_unfit_begin(struct turn *turn);               /* a gathering begins */
/* Nobody is left who could come. */
bool admission_unfit_is_hopeless(const struct turn *turn);
void admission_unfit_forget(struct turn *turn);
void admission_unfit_add(const struct turn *turn,
			 struct text *text); /* "; denied meanwhile: ..." */

/* admission_twin.c */
/* Both live and claim one rank: is the name a launcher's, which two programs have? */
bool admission_twin_is(const struct turn *turn, const struct admission_peer *holder,
		       const struct admission_peer *claimant);
void admission_twin_add(struct text *text, const struct admission_peer *holder,
			const struct admission_peer *claimant);
/* START of a job that all have joined goes out no sooner. */
uint64_t admission_twin_hold_ns(const struct turn *turn);
/* One says that all ranks are on its host, the other is on another one. */
bool admission_twin_is_elsewhere(const struct admission_peer *a, const struct admission_peer *b);
void admission_twin_yield(struct turn *turn);

/* admission_pair.c */
void admission_pair_end(struct turn *turn); /* the event's rank will not come */

/* admission_time.c */
void admission_time_tick(struct turn *turn);
void admission_time_heard(struct turn *turn);
void admission_time_set_wake(struct turn *turn);
bool admission_time_start(struct turn *turn); /* START, if its time has come */

/* admission_query.c: while STARTED, admission_query_forget when a life ends. True: it ends now, with the text that
 * admission_blame began. */
void admission_query_mismatch(struct turn *turn); /* a switch saw one: a round is wanted */
void admission_query_stall(struct turn *turn, struct admission_member *member);
bool admission_query_opinfo(struct turn *turn, struct admission_member *member);
/* A member has left: perhaps the round waited for it alone. */
bool admission_query_left(struct turn *turn);
/* The time to answer is over. True: the life ends if a text was begun, and else there was something to tell. */
bool admission_query_tick(struct turn *turn);
uint64_t admission_query_wake_ns(const struct turn *turn);
void admission_query_forget(struct turn *turn);

/* admission_still.c: while STARTED */
void admission_still_stall(struct turn *turn,
			   struct admission_member *member); /* it has said STALL */
void admission_still_restart(struct turn *turn);             /* what may explain all waits */
/* A round has found nobody wrong: is that the end? With the text begun. */
bool admission_still_blame(struct turn *turn);
void admission_still_misfit(struct turn *turn);
uint64_t admission_still_limit_ns(const struct turn *turn); /* nobody stands still before */

#endif
