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
void slow_name(struct slow_admission *slow, const struct slow_person *person);
void slow_end_life(struct slow_step *step); /* as slow_blame said */

/* slow_round.c */
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
void slow_refuse_hopeless(struct slow_step *step, struct slow_person *comer);
void slow_lose(struct slow_step *step, struct slow_person *person);
void slow_note_refused(struct slow_admission *slow, uint32_t rank);
void slow_dispatch(struct slow_step *step);
struct slow_person *slow_next_to_move(struct slow_admission *slow); /* of those who wait */
struct slow_person *slow_first_silent(struct slow_step *step);

/* slow_join.c */
void slow_admit(struct slow_step *step, struct slow_person comer);
struct slow_person *slow_holder_of(struct slow_admission *slow, const struct slow_person *claimant);
void slow_ping_both(struct slow_admission *slow, struct slow_person *claimant);
void slow_message(struct slow_step *step);
void slow_shard(struct slow_step *step);

#endif
