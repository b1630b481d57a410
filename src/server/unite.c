/* SPDX-License-Identifier: Apache-2.0 */
/* unite.c - one launch with a program for each rank: gatherings of one name that are one. R-CT-51. */
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

enum { APART_MS = 2000 };

/* A name of the user's (program 0) is one job, and no launcher's is a part of it. */
static bool gathers(const struct job *job)
{
	return job && !job->life && job->program && job->admission->state == ADMISSION_GATHER;
}

/* All that gather `from` yields gathers `into`. Without memory for them: another time. */
static void unite(struct server *server, struct job *from, struct job *into)
{
	uint32_t size = from->admission->size, count = 0;
	struct admission_peer *peers = malloc(size * sizeof(*peers));

	if (!peers)
		return;
	for (uint32_t rank = 0; rank < size; rank++) {
		const struct admission_member *member = admission_member(from->admission, rank);

		if (member->presence != ADMISSION_ABSENT)
			peers[count++] = member->peer;
	}
	job_step(server, from, &(struct admission_event){ .type = ADMISSION_YIELD });
	for (uint32_t i = 0; i < count; i++) {
		struct peer *peer = peer_of(server, peers[i].connection);

		if (!peer)
			continue;
		peer->job = into->index;
		job_step(server, into,
			 &(struct admission_event){ .type = ADMISSION_ADOPT, .peer = &peers[i] });
	}
	free(peers);
}

/* Who waits hears for what, once: all of the name are here but not of one program, or one of them is twice. */
static void tell(struct server *server, struct job *job, bool is_one)
{
	struct control_message message = { .type = CONTROL_PROGRESS };
	struct text text;

	text_begin(&text, message.progress.text, sizeof(message.progress.text));
	text_add(&text, "job \"%s\": ", job->name);
	if (is_one)
		text_add(&text,
			 "all %u ranks are here, but with several command lines, and the name is a "
			 "launcher's: if nobody else comes for 10 s, they are one job; TALLY_JOB "
			 "says so at once",
			 job->admission->size);
	else
		text_add(&text, "a rank of this name, which is a launcher's, is here twice, with "
				"another command line: these are several programs, and each waits "
				"for its own ranks; if you wait in vain, give each its TALLY_JOB");
	for (uint32_t rank = 0; rank < job->admission->size; rank++) {
		const struct admission_member *member = admission_member(job->admission, rank);
		struct peer *peer = peer_of(server, member->peer.connection);

		if (member->presence != ADMISSION_ABSENT && peer)
			peer_send(server, peer, &message);
	}
}

/* Two programs that both get their ranks soon need no word. */
static uint64_t stay_apart(struct server *server, struct job **jobs, uint32_t count,
			   uint64_t tell_ns, uint64_t now_ns)
{
	if (now_ns < tell_ns)
		return tell_ns;
	for (uint32_t i = 0; i < count; i++) {
		if (!jobs[i]->is_told_apart)
			tell(server, jobs[i], false);
		jobs[i]->is_told_apart = true;
	}
	return UINT64_MAX;
}

/* The gatherings of jobs[first]'s name, none of which comes before it. */
static uint64_t look(struct server *server, uint32_t first, uint64_t now_ns)
{
	struct admission *list[UNITE_MAX] = { NULL };
	struct job *jobs[UNITE_MAX];
	uint32_t count = 0, into = 0;
	uint64_t wake_ns;
	uint64_t apart_ns = 0;

	for (uint32_t i = first; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!gathers(job) || strcmp(job->name, server->jobs[first]->name) != 0)
			continue;
		if (count == UNITE_MAX)
			return UINT64_MAX;
		apart_ns = job->apart_ns > apart_ns ? job->apart_ns : apart_ns;
		jobs[count] = job;
		list[count++] = job->admission;
	}
	if (apart_ns)
		return stay_apart(server, jobs, count, apart_ns + APART_MS * MS_NS, now_ns);
	if (!admission_may_unite(list, count, now_ns, &into, &wake_ns)) {
		for (uint32_t i = 0; i < count; i++) {
			if (wake_ns && wake_ns != UINT64_MAX && wake_ns != jobs[i]->unite_ns)
				tell(server, jobs[i], true);
			jobs[i]->unite_ns = wake_ns;
			jobs[i]->apart_ns = wake_ns ? 0 : now_ns;
		}
		return wake_ns ? wake_ns : now_ns + APART_MS * MS_NS;
	}
	for (uint32_t i = 0; i < count; i++)
		if (i != into)
			unite(server, jobs[i], jobs[into]);
	return UINT64_MAX;
}

static bool is_first(const struct server *server, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (gathers(server->jobs[i]) &&
		    !strcmp(server->jobs[i]->name, server->jobs[index]->name))
			return false;
	return true;
}

void jobs_unite(struct server *server, uint64_t now_ns)
{
	server->unite_ns = UINT64_MAX;
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		uint64_t wake_ns;

		if (server->jobs[i] && server->jobs[i]->admission->state == ADMISSION_NONE) {
			server->jobs[i]->apart_ns = 0;
			server->jobs[i]->is_told_apart = false;
		}
		if (!gathers(server->jobs[i]) || !is_first(server, i))
			continue;
		wake_ns = look(server, i, now_ns);
		server->unite_ns = wake_ns < server->unite_ns ? wake_ns : server->unite_ns;
	}
}
