/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_judge.c - what a job of one rank has met: how many of its packets were lost, and why it was not let in. */
#include <string.h>

#include "tools/doctor.h"

/* Of a job of one rank every packet has an answer: an UPDATE the RESULT, each copy of it the RESULT again, a PROBE the
 * RESULT, or NEED where the UPDATE was lost, upon which it goes again. So a packet that a slow machine has sent too soon
 * is no loss: its answer is counted as well. */
struct doctor_loss doctor_loss_of(const struct tally_stats *stats)
{
	uint64_t updates = stats->packets_out + stats->packets_resent;
	uint64_t answers = stats->packets_in + stats->results_ignored + stats->packets_resent;
	struct doctor_loss loss = { .packets = updates + stats->probes };
	double arrived;

	if (!updates)
		return loss;
	loss.lost = loss.packets > answers ? loss.packets - answers : 0;
	loss.there = (double)stats->packets_resent / (double)updates;
	arrived = (1 - loss.there) * (double)loss.packets;
	if (arrived > (double)answers)
		loss.back = 1 - (double)answers / arrived;
	return loss;
}

const char *doctor_join_advice(int result, const char *text)
{
	if (strstr(text, "(firewall?)"))
		return "TCP passed: does a firewall let UDP through, the same port and those after "
		       "it, both ways?";
	if (result == TALLY_ERR_DENIED && strstr(text, "key"))
		return "give TALLY_KEY or TALLY_KEY_FILE what tallyd --key-file has";
	if (result == TALLY_ERR_TIMEOUT &&
	    strstr(text, "did not grant")) /* a job of one rank waits for nobody */
		return "is it tallyd that listens there, or another program?";
	if (result == TALLY_ERR_NO_RESOURCE)
		return "wait until others have ended, or raise that limit of tallyd";
	return NULL;
}
