/* SPDX-License-Identifier: Apache-2.0 */
/* slow_step.h - what the parts of slow_admission.h share: slow_admission.c, slow_join.c,
 * slow_round.c and slow_look.c. */
#ifndef SEARCH_SLOW_STEP_H
#define SEARCH_SLOW_STEP_H

#include "search/slow_admission.h"

struct slow_step {
	struct slow_admission *slow;
	const struct admission_config *config;
	const struct admission_event *event;
};

bool slow_is_in(const struct slow_person *person);
/* Who is in, or has left, as this rank; NULL: nobody. */
struct slow_person *slow_member(struct slow_admission *slow, uint32_t rank);
struct slow_said *slow_say(struct slow_admission *slow, const struct slow_person *person,
			   uint32_t what);
void slow_blame(struct slow_admission *slow, enum control_cause cause, uint32_t rank);
void slow_end_life(struct slow_step *step); /* as slow_blame said */

/* slow_text.c: to the text of slow_blame, a line of log instead of another. */
__attribute__((format(printf, 2, 3))) void slow_text(struct slow_admission *slow,
						     const char *format, ...);
__attribute__((format(printf, 3, 4))) void
slow_log(struct slow_admission *slow, enum admission_log level, const char *format, ...);
void slow_log_text(struct slow_admission *slow, enum admission_log level);
void slow_log_person(struct slow_admission *slow, const struct slow_person *person,
		     const char *what);
void slow_name(struct slow_admission *slow, const struct slow_person *person);
void slow_ranks(struct slow_admission *slow, uint64_t ranks); /* with hosts, if they are few */
void slow_runs(struct slow_admission *slow, uint64_t ranks);
void slow_call(struct slow_admission *slow, const struct control_op *op);
void slow_seconds(struct slow_admission *slow, uint64_t ms);

/* slow_differ.c */
bool slow_is_same_call(const struct control_op *a, const struct control_op *b);
/* What `person` calls this number; NULL: it has not said. */
const struct control_op *slow_call_of(const struct slow_person *person, uint64_t number);
void slow_blame_nobody(struct slow_step *step);
void slow_judge_description(struct slow_step *step);

/* slow_round.c */
void slow_round_misfit(struct slow_step *step, struct slow_person *person);
uint64_t slow_round_wake_ns(const struct slow_step *step); /* UINT64_MAX: never */
void slow_round_begin(struct slow_step *step); /* if one is wanted and none is on its way */
void slow_round_forget(struct slow_admission *slow);
void slow_round_stall(struct slow_step *step, struct slow_person *person);
void slow_round_opinfo(struct slow_step *step, struct slow_person *person);
void slow_round_left(struct slow_step *step);
void slow_round_slept(struct slow_step *step);
bool slow_round_tick(struct slow_step *step);

/* slow_admission.c */
struct slow_person *slow_whose(struct slow_admission *slow, uint32_t connection);
void slow_drop(struct slow_admission *slow, struct slow_person *person);
uint32_t slow_waiters(const struct slow_admission *slow);
bool slow_is_running(const struct slow_admission *slow);
void slow_say_last(struct slow_admission *slow, struct slow_person *person, uint32_t what);
void slow_blame_person(struct slow_admission *slow, enum control_cause cause,
		       const struct slow_person *person);
void slow_command(struct slow_admission *slow, enum admission_command what);
bool slow_have_all_acked(const struct slow_step *step);
void slow_enter(struct slow_step *step, enum admission_state state);
void slow_forget_unfit(struct slow_admission *slow);
bool slow_is_hopeless(struct slow_admission *slow);
void slow_forget_claims(struct slow_admission *slow);
void slow_clear_if_drained(struct slow_step *step);
void slow_drain(struct slow_step *step);
void slow_refuse_all(struct slow_step *step, struct slow_person *comer);
void slow_refuse_twins(struct slow_step *step);
void slow_refuse_hopeless(struct slow_step *step, struct slow_person *comer);
void slow_lose(struct slow_step *step, struct slow_person *person);
void slow_note_refused(struct slow_admission *slow, uint32_t rank);
void slow_dispatch(struct slow_step *step);

void slow_end_gathering(struct slow_step *step, enum control_type last);
void slow_silent(struct slow_step *step, struct slow_person *person);

/* slow_time.c */
void slow_heard(struct slow_step *step);
uint64_t slow_silence_ns(const struct slow_step *step); /* of a member, that is death */
bool slow_is_heard(const struct slow_step *step, const struct slow_person *person);
void slow_tick(struct slow_step *step);
uint64_t slow_start_ns(const struct slow_step *step);
uint64_t slow_wake_ns(const struct slow_step *step);
struct slow_person *slow_next_to_move(struct slow_admission *slow); /* of those who wait */
struct slow_person *slow_first_silent(struct slow_step *step);

/* slow_join.c */
void slow_admit(struct slow_step *step, struct slow_person comer);
struct slow_person *slow_holder_of(struct slow_admission *slow, const struct slow_person *claimant);
void slow_ping_both(struct slow_admission *slow, struct slow_person *claimant);
void slow_adopt(struct slow_step *step);
void slow_message(struct slow_step *step);
void slow_shard(struct slow_step *step);
bool slow_start(struct slow_step *step);

#endif
