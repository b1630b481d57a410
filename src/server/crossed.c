/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed.c - jobs whose processes wait for one another: core/job/crossed.h hears what goes to members and comes from
 * them, and what it finds is put into words. R-CT-45 to R-CT-48.
 */
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

enum { HOPS_MAX = 4 };

/* The memory may be missing: then nothing is found here, and nobody is worse off than without. */
void crossed_begin(struct job *job)
{
	uint16_t size = job->admission->size;

	free(job->crossed);
	job->crossed = malloc(crossed_view_bytes(size));
	if (job->crossed)
		crossed_view_init(job->crossed, size);
}

void crossed_end(struct job *job)
{
	free(job->crossed);
	job->crossed = NULL;
}

static int rank_of(struct job *job, uint32_t connection)
{
	for (uint32_t rank = 0; rank < job->admission->size; rank++)
		if (admission_member(job->admission, rank)->peer.connection == connection)
			return (int)rank;
	return -1;
}

void crossed_asked(struct job *job, const struct admission_action *query, uint64_t now_ns)
{
	int rank = job->crossed ? rank_of(job, query->connection) : -1;

	if (rank >= 0)
		crossed_ask(job->crossed, query->number, (uint16_t)rank, now_ns);
}

void crossed_answered(struct server *server, struct job *job, uint32_t connection,
		      const struct control_opinfo *info, uint64_t now_ns)
{
	int rank = job->crossed ? rank_of(job, connection) : -1;

	if (rank >= 0 && crossed_answer(job->crossed, (uint16_t)rank, info, now_ns))
		server->crossed.has_news = true;
}

/* ---- in words ---- */

static void rank_add(const struct server *server, struct text *text, uint32_t view, uint16_t rank)
{
	const struct job *job = server->jobs[view];

	text_add(text, "rank %u on %s", admission_named_in(job->admission, &job->config, rank),
		 admission_member(job->admission, rank)->peer.host);
}

void crossed_edge_add(const struct server *server, struct text *text,
		      const struct crossed_edge *edge)
{
	text_add(text, "in job \"%s\" ", server->jobs[edge->view]->name);
	rank_add(server, text, edge->view, edge->rank);
	text_add(text, " waits in operation %llu for ", (unsigned long long)edge->number);
	rank_add(server, text, edge->view, edge->missing);
}

void crossed_views_take(struct server *server)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		server->crossed.views[i] = server->jobs[i] ? server->jobs[i]->crossed : NULL;
}

/* R-CT-48 */
void crossed_chain_add(struct server *server, const struct job *job, uint64_t now_ns,
		       struct control_waiting *waiting)
{
	uint32_t view = job->index;
	uint16_t rank = waiting->missing[0];
	struct crossed_edge edge;
	struct text text = { waiting->text, sizeof(waiting->text), strlen(waiting->text) };

	if (!waiting->listed_count)
		return;
	crossed_views_take(server);
	for (uint32_t i = 0; i < HOPS_MAX; i++) {
		if (!crossed_follow(server->crossed.views, server->options.jobs_max, view, rank,
				    now_ns, &edge))
			return;
		text_add(&text, "; ");
		crossed_edge_add(server, &text, &edge);
		view = edge.view;
		rank = edge.missing;
	}
}
