/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed.c - jobs whose processes wait for one another: core/job/crossed.h hears what goes to members and comes from
 * them, and what it finds is put into words, and ends the jobs. R-CT-45 to R-CT-48.
 */
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

enum {
	LOOK_MS = 250,
	HOPS_MAX = 4,
	ABLE_MS = 10000, /* looks are able again: at the limit every other one may be */
};

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
	text_add(text, "rank %u on %s", rank,
		 admission_member(server->jobs[view]->admission, rank)->peer.host);
}

static void edge_add(const struct server *server, struct text *text,
		     const struct crossed_edge *edge)
{
	text_add(text, "in job \"%s\" ", server->jobs[edge->view]->name);
	rank_add(server, text, edge->view, edge->rank);
	text_add(text, " waits in operation %llu for ", (unsigned long long)edge->number);
	rank_add(server, text, edge->view, edge->missing);
}

static void views_take(struct server *server)
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
	views_take(server);
	for (uint32_t i = 0; i < HOPS_MAX; i++) {
		if (!crossed_follow(server->crossed.views, server->options.jobs_max, view, rank,
				    now_ns, &edge))
			return;
		text_add(&text, "; ");
		edge_add(server, &text, &edge);
		view = edge.view;
		rank = edge.missing;
	}
}

/* ---- looks ---- */

static void cycle_text(const struct server *server, char words[CONTROL_TEXT_BYTES])
{
	const struct crossed_cycle *cycle = &server->crossed.cycle;
	struct text text;

	text_begin(&text, words, CONTROL_TEXT_BYTES);
	text_add(&text, "its ranks wait for one another, for ever: ");
	for (uint32_t i = 0; i < cycle->edges_count && i < CROSSED_EDGES_MAX; i++) {
		text_add(&text, i ? "; " : "");
		edge_add(server, &text, &cycle->edges[i]);
	}
	if (cycle->edges_count > CROSSED_EDGES_MAX)
		text_add(&text, "; and so on, %u in all", cycle->edges_count);
}

static void cycle_end(struct server *server)
{
	char text[CONTROL_TEXT_BYTES];
	struct admission_event event = { .type = ADMISSION_BROKEN,
					 .rank = CONTROL_RANK_NONE,
					 .cause = CONTROL_MISMATCH,
					 .text = text };

	cycle_text(server, text);
	if (server->crossed.cycle.is_warn) {
		const char *name = server->jobs[server->crossed.cycle.edges[0].view]->name;

		if (server->crossed.told != server->crossed.cycle.token)
			server_say_job(server, SERVER_WARN, name, SERVER_RANK_NONE,
				       "job %s: " SERVER_CROSSED_TEXT "%s", name, text);
		server->crossed.told = server->crossed.cycle.token;
		return;
	}
	for (uint32_t i = 0; i < server->options.jobs_max; i++)
		if (server->jobs[i] && server->jobs[i]->crossed &&
		    server->jobs[i]->crossed->is_crossed)
			job_step(server, server->jobs[i], &event);
}

/* R-CT-46: once for as long as looks give up, for then nobody is told why a job stands still. */
static void limit_say(struct server *server, uint64_t now_ns)
{
	const struct crossed_look *look = &server->crossed.look;

	if (now_ns - server->crossed.gave_up_ns >= ABLE_MS * MS_NS)
		server->crossed.is_limit_said = false;
	if (!look->has_given_up)
		return;
	server->crossed.gave_up_ns = now_ns;
	if (server->crossed.is_limit_said)
		return;
	server->crossed.is_limit_said = true;
	server_say(server, SERVER_WARN,
		   "ranks that wait for one another in several jobs are not found at present: %u "
		   "ranks of all jobs that wait for an operation, and a look takes in %u ranks and "
		   "%u steps: spread the jobs over more aggregators",
		   look->found, CROSSED_RECORDS_MAX, CROSSED_WORK_MAX);
}

void crossed_tick(struct server *server, uint64_t now_ns)
{
	if (!server->crossed.has_news || now_ns < server->crossed.look_ns)
		return;
	server->crossed.has_news = false;
	server->crossed.look_ns = now_ns + LOOK_MS * MS_NS;
	views_take(server);
	if (crossed_find(&server->crossed.look, server->crossed.views, server->options.jobs_max,
			 now_ns, server->options.heartbeat_ms * MS_NS / 2, &server->crossed.cycle))
		cycle_end(server);
	limit_say(server, now_ns);
}
