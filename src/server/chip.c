/* SPDX-License-Identifier: Apache-2.0 */
/* chip.c - what a switch that sums takes, and what not: R-CHIP-6. */
#include "server/internal.h"

static uint32_t least(uint32_t wanted, uint32_t most)
{
	return wanted && wanted < most ? wanted : most;
}

bool chip_wrong(const struct server *server, const struct job *job)
{
	return job->admission->mode == CONTROL_LATENCY ||
	       job->admission->size > shard_profile(server->shards[0])->children;
}

void chip_refusal(const struct server *server, const struct job *job, struct text *text)
{
	if (job->admission->mode == CONTROL_LATENCY)
		text_add(text, "the switch behind this aggregator (tallyd --engine p4) has no "
			       "latency mode: "
			       "leave latency_slots out, or use another aggregator");
	else
		text_add(text,
			 "the switch behind this aggregator (tallyd --engine p4) has room for at "
			 "most %u ranks in a "
			 "job, this one has %u: use another aggregator",
			 shard_profile(server->shards[0])->children, job->admission->size);
}

/* Slots are for all jobs together: one job has them all only if it was asked for. */
void chip_plan(const struct server *server, struct plan_input *input)
{
	const struct chip_profile *profile = shard_profile(server->shards[0]);

	input->lanes_max = least(input->lanes_max, profile->lanes);
	input->slots = least(input->slots ? input->slots : (uint32_t)PLAN_SLOTS, profile->slots);
}
