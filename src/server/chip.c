/* SPDX-License-Identifier: Apache-2.0 */
/* chip.c - what a switch that sums takes, and what not: R-CHIP-6. */
#include "server/internal.h"

static uint32_t least(uint32_t wanted, uint32_t most)
{
	return wanted && wanted < most ? wanted : most;
}

static bool is_other_mode(const struct chip_profile *profile, const struct job *job)
{
	return (job->admission->mode == CONTROL_LATENCY) != profile->is_latency;
}

bool chip_wrong(const struct server *server, const struct job *job)
{
	const struct chip_profile *profile = shard_profile(server->shards[0]);

	return is_other_mode(profile, job) || job->admission->size > profile->children ||
	       job->admission->latency_slots > profile->slots;
}

void chip_refusal(const struct server *server, const struct job *job, struct text *text)
{
	const struct chip_profile *profile = shard_profile(server->shards[0]);

	text_add(text, "the switch behind this aggregator (tallyd --engine p4) ");
	if (is_other_mode(profile, job))
		text_add(text,
			 profile->is_latency
				 ? "runs latency.p4, and this job does not use latency mode: set "
				   "latency_slots, or use another aggregator"
				 : "runs dense.p4, which has no latency mode: leave latency_slots "
				   "out, or use another aggregator");
	else if (job->admission->size > profile->children)
		text_add(text,
			 "has room for at most %u ranks in a job, this one has %u: use another "
			 "aggregator",
			 profile->children, job->admission->size);
	else
		text_add(text, "has %u slots, this job wants %u: set a smaller latency_slots",
			 profile->slots, job->admission->latency_slots);
}

/* Slots are for all jobs together: one job has them all only if it was asked for. */
void chip_plan(const struct server *server, struct plan_input *input)
{
	const struct chip_profile *profile = shard_profile(server->shards[0]);

	input->lanes_max = least(input->lanes_max, profile->lanes);
	input->slots = least(input->slots ? input->slots : (uint32_t)PLAN_SLOTS, profile->slots);
}
