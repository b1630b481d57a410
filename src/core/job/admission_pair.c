/* SPDX-License-Identifier: Apache-2.0 */
/*
 * R-CT-59: a pair (R-CT-58) is of two ranks of another job, and gathers for as long as both can come. Who has left that
 * job calls nothing more. While a call of its side waited it was in the pair: it leaves that first.
 */
#include "core/job/admission_turn.h"

static const struct admission_member *member_of(const struct admission *admission, uint32_t rank)
{
	const struct admission_member *members = (const void *)(admission + 1);

	return &members[rank];
}

bool admission_is_deserted(const struct admission *pair, const struct admission_config *config,
			   const struct admission *first, struct admission_event *event)
{
	uint32_t ranks[2];

	if (pair->state != ADMISSION_GATHER || pair->size != 2 || !config->life ||
	    config->life != first->life || !admission_pair_ranks(config->job, ranks))
		return false;
	for (uint16_t i = 0; i < 2; i++) {
		if (member_of(pair, i)->presence != ADMISSION_ABSENT || ranks[i] >= first->size ||
		    member_of(first, ranks[i])->presence != ADMISSION_LEFT)
			continue;
		*event = (struct admission_event){ .type = ADMISSION_DESERTED,
						   .rank = i,
						   .other = (uint16_t)ranks[i],
						   .text = member_of(first, ranks[i])->peer.host };
		return true;
	}
	return false;
}

void admission_pair_end(struct turn *turn)
{
	const struct admission_event *event = turn->event;
	const struct admission *admission = turn->admission;

	if (admission->state != ADMISSION_GATHER || event->rank >= admission->size ||
	    admission_member_at(turn, event->rank)->presence != ADMISSION_ABSENT)
		return;
	admission_blame(turn, CONTROL_REMOTE, CONTROL_RANK_NONE,
			"job \"%s\": rank %u on %s has finalized, and will not call tally_%s",
			turn->config->job, event->other, event->text,
			event->rank ? "recv" : "send");
	admission_end_refused(turn, NULL);
}
