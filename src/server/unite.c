/* SPDX-License-Identifier: Apache-2.0 */
/* unite.c - one launch with a program for each rank: gatherings of one name that are one. R-CT-24. */
#include <stdlib.h>
#include <string.h>

#include "server/internal.h"

enum { QUIET_MS = 2000 }; /* before a word: two programs that both get their ranks soon need none */

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

enum told { TOLD_PARTS, TOLD_TWICE, TOLD_REFUSED };

static void told_add(struct text *text, const struct job *job, enum told what)
{
	static const char *const words[] = {
		[TOLD_PARTS] = "ranks are here, but with several command lines, and the name is a "
			       "launcher's: if they are one job, give them one TALLY_JOB; each "
			       "waits for the ranks of its own command line",
		[TOLD_TWICE] = "a rank of this name, which is a launcher's, is here twice, with "
			       "another command line: these are several programs, and each waits "
			       "for its own ranks; if you wait in vain, give each its TALLY_JOB",
		[TOLD_REFUSED] = "one more command line of this name, which is a launcher's, was "
				 "refused: if they are one job, you wait in vain: give them one "
				 "TALLY_JOB, else each its own",
	};

	text_add(text, "job \"%s\": ", job->name);
	if (what == TOLD_PARTS)
		text_add(text, "all %u ", job->admission->size);
	text_add(text, "%s", words[what]);
}

/* Who waits hears for what, once: all of the name are here but not of one program, or one of them is twice. */
static void tell(struct server *server, struct job *job, enum told what)
{
	struct control_message message = { .type = CONTROL_PROGRESS };
	struct text text;

	text_begin(&text, message.progress.text, sizeof(message.progress.text));
	told_add(&text, job, what);
	for (uint32_t rank = 0; rank < job->admission->size; rank++) {
		const struct admission_member *member = admission_member(job->admission, rank);
		struct peer *peer = peer_of(server, member->peer.connection);

		if (member->presence != ADMISSION_ABSENT && peer)
			peer_send(server, peer, &message);
	}
}

void jobs_tell_refused(struct server *server, const char *name)
{
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job_gathers(job, name) || job->is_told_refused)
			continue;
		job->is_told_refused = true;
		tell(server, job, TOLD_REFUSED);
	}
}

/* UINT64_MAX, or when to tell those who have not heard it. */
static uint64_t tell_all(struct server *server, struct job **jobs, uint32_t count,
			 uint64_t since_ns, enum told what, uint64_t now_ns)
{
	if (now_ns < since_ns + QUIET_MS * MS_NS)
		return since_ns + QUIET_MS * MS_NS;
	for (uint32_t i = 0; i < count; i++) {
		if (jobs[i]->told_ns != since_ns)
			tell(server, jobs[i], what);
		jobs[i]->told_ns = since_ns;
	}
	return UINT64_MAX;
}

/* The gatherings of jobs[first]'s name, none of which comes before it. */
static uint64_t look(struct server *server, uint32_t first, uint64_t now_ns)
{
	struct admission *list[UNITE_MAX] = { NULL };
	struct job *jobs[UNITE_MAX];
	uint32_t count = 0, into = 0;
	uint64_t apart_ns = 0, last_ns;

	for (uint32_t i = first; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];

		if (!job_gathers(job, server->jobs[first]->name))
			continue;
		if (count == UNITE_MAX)
			return UINT64_MAX;
		apart_ns = job->apart_ns > apart_ns ? job->apart_ns : apart_ns;
		jobs[count] = job;
		list[count++] = job->admission;
	}
	if (apart_ns)
		return tell_all(server, jobs, count, apart_ns, TOLD_TWICE, now_ns);
	switch (admission_together(list, count, &into, &last_ns)) {
	case ADMISSION_PARTS:
		return UINT64_MAX;
	case ADMISSION_EITHER:
		return tell_all(server, jobs, count, last_ns, TOLD_PARTS, now_ns);
	case ADMISSION_SEVERAL:
		for (uint32_t i = 0; i < count; i++)
			jobs[i]->apart_ns = now_ns;
		return now_ns + QUIET_MS * MS_NS;
	case ADMISSION_ONE:
		break;
	}
	for (uint32_t i = 0; i < count; i++)
		if (i != into)
			unite(server, jobs[i], jobs[into]);
	return UINT64_MAX;
}

static bool is_first(const struct server *server, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (job_gathers(server->jobs[i], server->jobs[index]->name))
			return false;
	return true;
}

void jobs_unite(struct server *server, uint64_t now_ns)
{
	server->unite_ns = UINT64_MAX;
	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		struct job *job = server->jobs[i];
		uint64_t wake_ns;

		if (job && job->admission->state == ADMISSION_NONE) {
			job->apart_ns = 0;
			job->told_ns = 0;
			job->is_told_refused = false;
		}
		if (!job || !job_gathers(job, job->name) || !is_first(server, i))
			continue;
		wake_ns = look(server, i, now_ns);
		server->unite_ns = wake_ns < server->unite_ns ? wake_ns : server->unite_ns;
	}
}
