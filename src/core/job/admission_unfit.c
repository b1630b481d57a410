/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who can be in no life of this aggregator: it has another key, or no version in common. docs/protocol.md,
 * R-CT-26.
 *
 * Anybody can say the name of a job. So whoever is unfit is denied alone, and its rank is noted; the
 * gathering ends only when every rank is either in or noted, for then nobody is left who could complete it.
 * Notes from before the gathering count for 5 s. One address stands for one rank, the one that it named
 * last: whoever knows nothing but the job's name can name all ranks, but not from as many places.
 */
#include "core/job/admission_turn.h"
#include "core/job/key.h"

static const uint64_t note_ns = 5000000000;

/* R-CT-26 */
bool admission_unfit_is(struct turn *turn, const struct admission_peer *peer,
			const struct control_join *said)
{
	if (turn->config->key && !key_matches(said->key, turn->config->key))
		admission_blame(turn, CONTROL_DENIED, CONTROL_RANK_NONE,
				"job \"%s\": rank %u on %s gave %s", turn->config->job, peer->rank,
				peer->host,
				said->key[0] ? "a key that is not this aggregator's"
					     : "no key, and this aggregator wants one");
	else if (said->version_min > CONTROL_VERSION || said->version_max < CONTROL_VERSION)
		admission_blame(turn, CONTROL_VERSION_BAD, CONTROL_RANK_NONE,
				"rank %u on %s speaks protocol versions %u to %u, this aggregator "
				"%u",
				peer->rank, peer->host, said->version_min, said->version_max,
				CONTROL_VERSION);
	else
		return false;
	return true;
}

void admission_unfit_forget(struct turn *turn)
{
	turn->admission->unfit = (struct admission_note){ 0 };
	memset(admission_unfit_sources(turn), 0,
	       turn->config->members_max * sizeof(*admission_unfit_sources(turn)));
	memset(admission_unfit(turn), 0, turn->config->text_max);
}

void admission_unfit_begin(struct turn *turn)
{
	if (turn->event->now_ns - turn->admission->unfit.since_ns >= note_ns)
		admission_unfit_forget(turn);
}

void admission_unfit_drop(struct turn *turn, uint32_t rank)
{
	if (!text_ranks_has(&turn->admission->unfit.ranks, rank))
		return;
	text_ranks_drop(&turn->admission->unfit.ranks, rank);
	if (!text_ranks_count(&turn->admission->unfit.ranks))
		admission_unfit_forget(turn);
}

void admission_unfit_add(const struct turn *turn, struct text *text)
{
	if (turn->admission->unfit.cause)
		text_add(text, "; denied meanwhile: %s", admission_unfit(turn));
}

void admission_unfit_note(struct turn *turn, uint32_t rank)
{
	uint64_t *sources = admission_unfit_sources(turn), source = turn->event->source;
	struct text_ranks *unfit = &turn->admission->unfit.ranks;

	turn->admission->unfit.since_ns = turn->event->now_ns;
	turn->admission->unfit.cause = (uint8_t)turn->actions->cause;
	text_copy(admission_unfit(turn), turn->config->text_max, turn->actions->text);
	for (uint32_t other = 0; source && other < turn->config->members_max; other++)
		if (text_ranks_has(unfit, other) && sources[other] == source)
			text_ranks_drop(unfit, other);
	if (rank >= turn->config->members_max)
		return; /* of no job that there can be */
	text_ranks_put(unfit, rank);
	sources[rank] = source;
}

/* Is every rank either in or noted, and not all of them in? */
bool admission_unfit_is_hopeless(const struct turn *turn)
{
	uint32_t noted = 0;

	for (uint32_t rank = 0; rank < turn->admission->size; rank++) {
		if (admission_member_at(turn, rank)->presence != ADMISSION_ABSENT)
			continue;
		if (!text_ranks_has(&turn->admission->unfit.ranks, rank))
			return false;
		noted++;
	}
	return noted > 0;
}
