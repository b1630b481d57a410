/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - the first message of a connection: whose is it? */
#include <errno.h>

#include "core/job/key.h"
#include "server/internal.h"

/* Who does not know our key hears nothing of the others. */
static bool peer_has_key(const struct server *server, const struct control_message *first)
{
	const char *key = first->type == CONTROL_JOIN ? first->join.key : first->table_open.key;

	return !server->key[0] || key_matches(key, server->key);
}

/* No room for one more job: who has it? R-CT-34. */
static void peer_refuse(struct server *server, struct peer *peer,
			const struct control_message *message, int result, uint64_t now_ns)
{
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	text_begin(&text, words, sizeof(words));
	if (result == -EDQUOT) {
		share_of_jobs(server, peer->source, &text);
	} else if (result == -ENOSPC) {
		text_add(&text, "the aggregator has as many jobs as it takes (--jobs-max %u)",
			 server->options.jobs_max);
		if (peer_has_key(server, message)) {
			text_add(&text, ": ");
			holders_add(server, peer->source, NULL, NULL, &text);
		}
	} else if (result == -E2BIG) {
		jobs_tell_refused(server, message->join.job);
		text_add(&text,
			 "%u command lines of this name, which is a launcher's, gather already: if "
			 "they are one job, give them one TALLY_JOB, else each its own",
			 (unsigned)PROGRAMS_MAX);
	} else {
		text_add(&text, "the aggregator is out of memory");
	}
	server_say_stranger_job(server, message->join.job, message->join.rank,
				"job %s: rank %u (%s): denied: %s", message->join.job,
				message->join.rank, message->join.host, words);
	peer_deny(server, peer, result == -E2BIG ? CONTROL_DENIED : CONTROL_NO_RESOURCE, words,
		  now_ns);
}

/* It belongs to a life that has ended badly here: not all of its ranks will come. */
static bool peer_is_orphan(struct server *server, struct peer *peer,
			   const struct control_message *message, uint64_t now_ns)
{
	const char *end = job_end_of_life(server, message->join.life);
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	if (!end || !peer_has_key(server, message))
		return false;
	text_begin(&text, words, sizeof(words));
	text_add(&text, "job \"%s\": the job that it is a part of has ended: %s", message->join.job,
		 end);
	peer_deny(server, peer, CONTROL_REMOTE, words, now_ns);
	return true;
}

/* Of connections: for anybody, or for its address, so that others find some. */
static bool peer_finds_no_place(struct server *server, struct peer *peer,
				const struct control_message *message, uint64_t now_ns)
{
	uint32_t taken = server->peers_count - server->strangers_count;
	char words[CONTROL_TEXT_BYTES];
	struct text text;

	text_begin(&text, words, sizeof(words));
	if (peer->has_spare) { /* it came in on the last descriptor */
		text_add(&text,
			 "the aggregator has no descriptor left (ulimit -n), %u connections are "
			 "open",
			 server->peers_count - 1);
		if (peer_has_key(server, message)) {
			text_add(&text, ": ");
			holders_add(server, peer->source, NULL, NULL, &text);
		}
	} else if (taken >= PEERS_MAX - STRANGERS_MAX) { /* the rest: strangers, and this answer */
		text_add(&text,
			 "the aggregator has no room for another connection: %u members and "
			 "waiters are connected",
			 taken);
	} else if (share_of_connections(server, peer, &text)) {
		return false;
	}
	server_say_stranger(server, "%s: denied: %s", peer->text, words);
	peer_deny(server, peer, CONTROL_NO_RESOURCE, words, now_ns);
	return true;
}

/* A name that is remembered, and that nobody is in, costs what a new one does. */
static int peer_opens(struct server *server, const struct peer *peer,
		      const struct control_join *join, struct job **job)
{
	char words[1]; /* peer_refuse asks again, and says it */
	struct text why;

	text_begin(&why, words, sizeof(words));
	if (!share_of_jobs(server, peer->source, &why))
		return -EDQUOT;
	return *job ? 0 : job_open(server, join, peer->source, job);
}

void peer_join(struct server *server, struct peer *peer, const struct control_message *message,
	       uint64_t now_ns)
{
	bool is_refused;
	struct job *job;
	int result = 0;

	if (message->type != CONTROL_JOIN && message->type != CONTROL_TABLE_OPEN) {
		server_say_stranger(server,
				    "%s: dropped: its first message is neither JOIN nor TABLE_OPEN",
				    peer->text);
		peer->is_broken = server->is_some_broken = true;
		return;
	}
	peer_not_silent(server, peer);
	if (peer_finds_no_place(server, peer, message, now_ns))
		return;
	if (message->type == CONTROL_TABLE_OPEN) {
		table_open(server, peer, &message->table_open, now_ns);
		return;
	}
	if (message->join.kind == CONTROL_SWITCH) {
		peer_deny(server, peer, CONTROL_DENIED,
			  "switches as members (trees) are not in this version", now_ns);
		return;
	}
	peer->mtu = message->join.mtu;
	job = job_find(server, &message->join, &is_refused);
	if (peer_is_orphan(server, peer, message, now_ns))
		return;
	if (is_refused && peer_has_key(server, message))
		result = -E2BIG;
	if (!job && server->is_draining && !life_is_running(server, message->join.life)) {
		peer_deny_ending(server, peer, now_ns);
		return;
	}
	if (!result && (!job || job->idle_ns))
		result = peer_opens(server, peer, &message->join, &job);
	if (result) {
		peer_refuse(server, peer, message, result, now_ns);
		return;
	}
	peer->job = job->index;
	server_say_job(server, SERVER_DEBUG, job->name, message->join.rank,
		       "job %s: rank %u of %u (%s, pid %u) joins from %s", job->name,
		       message->join.rank, message->join.size, message->join.host,
		       message->join.pid, peer->text);
}
