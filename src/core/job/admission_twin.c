/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two programs under one name. A launcher's name is its launch's: `mpirun sh -c 'a & b & wait'` has two
 * programs in it, and some launchers make one name for two jobs. docs/protocol.md, R-CT-23 and R-CT-24.
 *
 * Programs that say different things gather apart, each in a machine of its own; so this one sees only those
 * that say the same, and what they do: two live and claim one rank. Who has which of the others nobody can
 * say, so all end. But one launch may well have a program for each rank: then no gathering is ever complete,
 * and together they are. So are, for as long as it takes, two programs whose ranks come late by turns: only who can
 * have no second program is taken for the former.
 */
#include "core/job/admission_turn.h"
#include "core/shared/rto.h"

static const uint64_t claim_ns = 2000000000; /* programs of one launch begin within so long */
static const uint64_t hold_ns = 1000000000;  /* and most of them within this */

bool admission_twin_is_elsewhere(const struct admission_peer *a, const struct admission_peer *b)
{
	bool is_one_host = a->local_size == a->size || b->local_size == b->size;

	return is_one_host && a->boot && b->boot && a->boot != b->boot;
}

/* One job of several programs, as nobody else of these had come: R-CT-24. */
static bool is_united(const struct turn *turn)
{
	uint64_t program = 0;

	ADMISSION_EACH(turn, member) {
		if (member->presence == ADMISSION_ABSENT || !member->peer.program)
			continue;
		if (program && member->peer.program != program)
			return true;
		program = member->peer.program;
	}
	return false;
}

/* Of a life that is on one host alone a stranger from elsewhere can have no part; and one process that joins
 * twice is no other program. */
bool admission_twin_is(const struct turn *turn, const struct admission_peer *holder,
		       const struct admission_peer *claimant)
{
	const struct admission *admission = turn->admission;
	bool is_late = admission->state == ADMISSION_STARTED &&
		       claimant->joined_ns > admission->since_ns + claim_ns && !is_united(turn);

	if ((!holder->is_launched && !claimant->is_launched) || turn->config->life || is_late)
		return false;
	if (holder->process && holder->process == claimant->process)
		return false;
	return !admission_twin_is_elsewhere(holder, claimant);
}

/* Two programs that were mixed find it out when the second ones of their ranks come. Until then nobody may have a sum: a
 * short program would be gone with it. */
uint64_t admission_twin_hold_ns(const struct turn *turn)
{
	uint64_t last_ns = 0;
	bool is_launched = false;

	ADMISSION_EACH(turn, member) {
		is_launched |= member->peer.is_launched;
		last_ns = rto_most(last_ns, member->peer.joined_ns);
	}
	if (!is_launched || turn->admission->size == 1 || turn->config->life)
		return 0;
	return last_ns + hold_ns;
}

void admission_twin_add(struct text *text, const struct admission_peer *holder,
			const struct admission_peer *claimant)
{
	text_add(text,
		 "; the name is the launcher's, and there are two %s: give each its TALLY_JOB",
		 holder->boot == claimant->boot ? "programs of one launch" : "jobs of one name");
}

/* ---- one program for each rank ---- */

bool admission_has_program(const struct admission *admission, uint64_t program)
{
	const struct admission_member *members = (const void *)(admission + 1);

	for (uint32_t rank = 0; rank < admission->size; rank++)
		if (members[rank].presence != ADMISSION_ABSENT &&
		    members[rank].peer.program == program)
			return true;
	return false;
}

/* Who gathers takes its rank; false if it is taken. */
static bool put_all(const struct admission *admission, struct text_ranks *ranks, uint64_t *last_ns,
		    bool *is_launched)
{
	const struct admission_member *members = (const void *)(admission + 1);

	for (uint32_t rank = 0; rank < admission->size; rank++) {
		if (!admission_is_in(&members[rank]))
			continue;
		if (text_ranks_has(ranks, rank))
			return false;
		text_ranks_put(ranks, rank);
		*is_launched |= members[rank].peer.is_launched;
		*last_ns = rto_most(*last_ns, members[rank].peer.joined_ns);
	}
	return true;
}

/* One whose rank is claimed, or that comes twice, says that these are several jobs. */
enum admission_together admission_together(struct admission *const *list, uint32_t count,
					   uint32_t *into, uint64_t *last_ns)
{
	struct text_ranks ranks = { { 0 } };
	uint32_t gatherings = 0, size = 0;
	bool is_launched = false; /* or nobody can have a second program: R-CT-22 */

	*last_ns = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (list[i]->state != ADMISSION_GATHER)
			continue;
		if (list[i]->waiters_count || (size && list[i]->size != size))
			return ADMISSION_PARTS;
		if (!put_all(list[i], &ranks, last_ns, &is_launched))
			return ADMISSION_SEVERAL;
		size = list[i]->size;
		gatherings++;
		if (admission_is_in(admission_member(list[i], 0)))
			*into = i;
	}
	if (gatherings < 2 || text_ranks_count(&ranks) != size)
		return ADMISSION_PARTS;
	return is_launched ? ADMISSION_EITHER : ADMISSION_ONE;
}

void admission_twin_yield(struct turn *turn)
{
	if (turn->admission->state != ADMISSION_GATHER)
		return;
	struct text text = admission_log(turn, ADMISSION_LOG_WARN, "%s", "");
	struct text_ranks ranks = admission_ranks(turn, ADMISSION_IS(JOINED));
	admission_add_ranks(turn, &text, &ranks);
	text_add(&text,
		 ": another command line than other ranks of this name: one job with them, as they "
		 "are complete together, and tally run has started one program for each rank");
	admission_end_reset(turn);
}
