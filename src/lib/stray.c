/* SPDX-License-Identifier: Apache-2.0 */
/* stray.c - packets that were dropped because of who sent them: the user is to hear of them, but not of each. R-CT-35. */
#include "core/shared/text.h"
#include "dataplane/link_udp.h"
#include "lib/comm.h"

enum { LOOK_MS = 250, AGAIN_MS = 10000, LATE_OF_SLOT = 2 };

static const uint64_t ns_per_ms = 1000000;

/* clang-format off */
static const struct {
	const char *what, *advice;
} reasons[ENDPOINT_STRAYS] = {
	[ENDPOINT_STRAY_ADDRESS] = {
		"of this job but from another address",
		"an aggregator of several addresses must answer from the one that it is reached at "
		"(tallyd --listen); if that is none of yours, it forges packets" },
	[ENDPOINT_STRAY_GENERATION] = {
		"of another generation",
		"more than an earlier life of this rank can have left: another job's aggregator sends "
		"there, or somebody who guesses: find and end it" },
	[ENDPOINT_STRAY_SHAPE] = {
		"malformed",
		"another program sends there, or of another version of tally: end it" },
};
/* clang-format on */

/* After a restart on the same port answers to the former life may come, of another generation, and from wherever its
 * aggregator was. They are few: no PROBE asks for more, so of each slot a result and an answer to a PROBE may be on their
 * way. So many are as they should be. Nothing else is forgiven: what is of our generation, or garbage, is no late answer. */
static void former_life_forgive(const struct tally_comm *comm, struct endpoint_stats *stats)
{
	uint64_t *late = &stats->stray_in[ENDPOINT_STRAY_GENERATION];

	if (*late <= (uint64_t)LATE_OF_SLOT * comm->shards * comm->slots)
		*late = 0;
}

/* True if it is time to tell of *stats. Lock held. */
static bool is_due(struct tally_comm *comm, uint64_t now_ns, struct endpoint_stats *stats,
		   uint64_t *all)
{
	struct strays *strays = &comm->strays;

	strays->look_ns = now_ns + LOOK_MS * ns_per_ms;
	if (!comm->endpoint || (strays->said_ns && now_ns < strays->said_ns + AGAIN_MS * ns_per_ms))
		return false;
	endpoint_stats(comm->endpoint, stats);
	former_life_forgive(comm, stats);
	*all = 0;
	for (uint32_t why = 0; why < ENDPOINT_STRAYS; why++)
		*all += stats->stray_in[why];
	if (*all <= strays->said)
		return false;
	strays->said = *all;
	strays->said_ns = now_ns;
	return true;
}

static void say(const struct tally_comm *comm, const struct endpoint_stats *stats, uint64_t all)
{
	char line[REPORT_TEXT_MAX], from[64];
	const char *advice = NULL;
	struct text text;

	text_begin(&text, line, sizeof(line));
	text_add(&text, "%llu packet%s dropped since it joined: ", (unsigned long long)all,
		 all == 1 ? "" : "s");
	for (uint32_t why = 0; why < ENDPOINT_STRAYS; why++) {
		if (!stats->stray_in[why])
			continue;
		text_add(&text, "%s%llu %s, the last from %s", advice ? "; " : "",
			 (unsigned long long)stats->stray_in[why], reasons[why].what,
			 link_address_format(&stats->stray_from[why], from));
		advice = advice ? advice : reasons[why].advice;
	}
	report_log(&comm->who, TALLY_LOG_WARN, "%s. Nothing of them was taken: %s", line, advice);
}

void stray_look(struct tally_comm *comm, uint64_t now_ns)
{
	struct endpoint_stats stats;
	uint64_t all;
	bool is_said;

	if (now_ns < comm->strays.look_ns)
		return;
	comm_lock(comm);
	is_said = is_due(comm, now_ns, &stats, &all);
	comm_unlock(comm);
	if (is_said)
		say(comm, &stats, all);
}
