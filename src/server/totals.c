/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "server/internal.h"

enum {
	AGAIN_PERCENT = 1, /* from here on whoever runs the network is told, */
	AGAIN_LEAST = 10,  /* but not of so few */
};

void totals_begin(struct job *job)
{
	memset(&job->totals, 0, sizeof(job->totals));
	job->totals.since_ns = clock_ns();
	job->totals.shards = job->config.shards;
}

/* Of a job that was never told of its slots there is nothing to say. */
void totals_end(struct server *server, struct job *job, const struct engine_job_stats *stats)
{
	struct engine_job_stats *sum = &job->totals.sum;
	char hooked[64] = "";
	bool is_much;

	if (!job->totals.shards)
		return;
	sum->updates += stats->updates;
	sum->again += stats->again;
	sum->results += stats->results;
	sum->hooked += stats->hooked;
	if (--job->totals.shards || !sum->updates)
		return;
	/* In latency mode a packet comes again while another rank computes: that says nothing of the network. */
	is_much = !job->admission->latency_slots && sum->again >= AGAIN_LEAST &&
		  sum->again * 100 >= sum->updates * AGAIN_PERCENT;
	if (sum->hooked)
		snprintf(hooked, sizeof(hooked), " (%llu served by the %s)",
			 (unsigned long long)sum->hooked,
			 server->options.chip_open ? "switch" : "kernel");
	server_say_job(
		server, is_much ? SERVER_WARN : SERVER_INFO, job->name, SERVER_RANK_NONE,
		"job %s: over after %.1f s: %llu packets in%s, %llu sums out; %llu packets (%.2f "
		"%%) came "
		"again%s",
		job->name, (double)(clock_ns() - job->totals.since_ns) / 1e9,
		(unsigned long long)sum->updates, hooked, (unsigned long long)sum->results,
		(unsigned long long)sum->again, 100 * (double)sum->again / (double)sum->updates,
		is_much ? ", for they had been lost: tally doctor on its hosts says how many are"
			: "");
}
