/* SPDX-License-Identifier: Apache-2.0 */
/* cycle.c - looks for jobs whose processes wait for one another, and ends them. R-CT-45 to R-CT-48. */
#include "server/internal.h"

enum {
	LOOK_MS = 250,
	ABLE_MS = 10000, /* looks are able again: at the limit every other one may be */
};

static void cycle_text(const struct server *server, char words[CONTROL_TEXT_BYTES])
{
	const struct crossed_cycle *cycle = &server->crossed.cycle;
	struct text text;

	text_begin(&text, words, CONTROL_TEXT_BYTES);
	text_add(&text, "its ranks wait for one another, for ever: ");
	for (uint32_t i = 0; i < cycle->edges_count && i < CROSSED_EDGES_MAX; i++) {
		text_add(&text, i ? "; " : "");
		crossed_edge_add(server, &text, &cycle->edges[i]);
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
	crossed_views_take(server);
	if (crossed_find(&server->crossed.look, server->crossed.views, server->options.jobs_max,
			 now_ns, server->options.heartbeat_ms * MS_NS / 2, &server->crossed.cycle))
		cycle_end(server);
	limit_say(server, now_ns);
}
