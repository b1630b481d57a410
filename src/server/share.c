/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - what one address has of jobs, tables, memory and connections, and how much of that it may have (R-CT-34).
 * In local mode there is one user and no stranger: no shares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/job/share.h"
#include "server/internal.h"
#include "util/whole.h"

enum {
	JOBS_FEW = 4,
	TABLES_FEW = 4,
	CONNECTIONS_ALL = PEERS_MAX - STRANGERS_MAX,
	CONNECTIONS_FEW_PART = 7, /* one in so many */
	CONNECTIONS_LEAST = 8,
	FILES_OTHERS = 32, /* descriptors that are no connections: the log, what listens, folders */
	FILES_SHARD = 4,
	FILES_STRANGERS_PART = 8, /* and one in so many is for those who are to be heard yet */
	MEMORY_OF_JOBS_FEW = 2,   /* slots of so many jobs, the largest that there may be */
	PATH_BYTES = 4096,
};

_Static_assert(CONNECTIONS_ALL / CONNECTIONS_FEW_PART == 1024, "as R-CT-34 says");

/* ---- the host's memory ---- */

/* The least limit of our control group and of those around it; 0: none. */
static uint64_t group_memory(void)
{
	static const char mount[] = "/sys/fs/cgroup";
	char line[PATH_BYTES], path[PATH_BYTES + 64];
	/* Of "max" 0. In a container this is its own. */
	uint64_t least = (uint64_t)whole_number("/sys/fs/cgroup/memory.max", 0);
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		for (char *group = line + 3; group; group = strrchr(line + 3, '/')) {
			uint64_t limit;

			snprintf(path, sizeof(path), "%s%s/memory.max", mount, line + 3);
			limit = (uint64_t)whole_number(path, 0);
			if (limit && (!least || limit < least))
				least = limit;
			*strrchr(group, '/') = 0;
		}
	}
	if (file)
		fclose(file);
	return least;
}

static uint64_t host_memory(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t group = group_memory();

	return group && group < bytes ? group : bytes;
}

static uint64_t job_memory(const struct server *server)
{
	/* memory_max is each job's (plan.c); with the slots' registers, which come on top, never twice as much. */
	return 2 * server->options.memory_max;
}

/* What no job touches costs nothing; but what they may touch must be there. */
void share_memory_fill(struct server *server)
{
	uint64_t wanted = job_memory(server) * server->options.jobs_max;
	uint64_t half = host_memory() / 2 / server->options.shards;

	if (server->options.memory_total)
		return;
	server->options.memory_total = wanted < half ? wanted : half;
	if (half < wanted)
		server_say(server, SERVER_INFO,
			   "slots and tables may take %llu MiB of each shard: half of this host's "
			   "memory in all (--memory-total)",
			   (unsigned long long)(server->options.memory_total >> 20));
}

/* ---- shares ---- */

static bool has_shares(const struct server *server)
{
	return !server->is_local && server->options.share < SHARE_ALL;
}

static bool refuse(const struct server *server, struct text *text, const char *what, uint64_t own,
		   uint64_t others)
{
	text_add(text,
		 "your address has %llu of the aggregator's %s, others have %llu: one may not have "
		 "more (--share %u)",
		 (unsigned long long)own, what, (unsigned long long)others, server->options.share);
	return false;
}

void share_charge(struct server *server, struct job *job)
{
	const struct peer *first = NULL;

	if (job->admission->state != ADMISSION_GATHER && job->admission->state != ADMISSION_GRANTED)
		return;
	for (uint32_t rank = 0; rank < job->admission->size; rank++) {
		const struct admission_member *member = admission_member(job->admission, rank);
		const struct peer *peer = member->presence == ADMISSION_JOINED
						  ? peer_of(server, member->peer.connection)
						  : NULL;

		if (peer && peer->source == job->source)
			return;
		if (peer && !first)
			first = peer;
	}
	if (first)
		job->source = first->source;
}

bool share_of_jobs(const struct server *server, uint64_t source, struct text *text)
{
	uint32_t own = 0, others = 0;

	for (uint32_t i = 0; has_shares(server) && i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];

		if (job && !job->idle_ns && job->source == source)
			own++;
		else if (job && !job->idle_ns)
			others++;
	}
	return !has_shares(server) ||
	       own + others >= server->options.jobs_max || /* job_index says so */
	       share_allows(server->options.jobs_max, others, own, 1, server->options.share,
			    JOBS_FEW) ||
	       refuse(server, text, "jobs", own, others);
}

bool share_of_tables(const struct server *server, uint64_t source, bool is_replacing,
		     struct text *text)
{
	uint32_t own = 0, others = 0;

	for (uint32_t i = 0; has_shares(server) && i < SHARD_TABLES_MAX; i++) {
		if (server->tables[i] && server->tables[i]->source == source)
			own++;
		else if (server->tables[i])
			others++;
	}
	return !has_shares(server) || own + others >= server->options.tables_max ||
	       share_allows(server->options.tables_max, others, own - is_replacing, 1,
			    server->options.share, TABLES_FEW) ||
	       refuse(server, text, "tables", own, others);
}

bool share_of_memory(const struct server *server, uint64_t source, uint32_t shard, uint64_t bytes,
		     struct text *text)
{
	uint64_t own = 0, others = 0, all = server->options.memory_total;

	for (uint32_t i = 0; has_shares(server) && i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];

		if (job && shard < job->config.shards)
			*(job->source == source ? &own : &others) += job->bytes;
	}
	for (uint32_t i = 0; has_shares(server) && i < SHARD_TABLES_MAX; i++) {
		const struct table *table = server->tables[i];

		if (table && table->shard == shard)
			*(table->source == source ? &own : &others) += table->bytes;
	}
	if (!has_shares(server) || own + others + bytes > all || /* the shard says so */
	    share_allows(all, others, own, bytes, server->options.share,
			 MEMORY_OF_JOBS_FEW * job_memory(server)))
		return true;
	text_add(text,
		 "its address has %llu KiB of a shard's memory for slots and tables, others have "
		 "%llu of %llu: it may not have %llu more (--share %u, --memory-total)",
		 (unsigned long long)(own >> 10), (unsigned long long)(others >> 10),
		 (unsigned long long)(all >> 10), (unsigned long long)(bytes >> 10),
		 server->options.share);
	return false;
}

/* So many there can be that are no strangers': our places, or what the limit of open files leaves of them. */
static uint32_t connections_all(const struct server *server)
{
	uint64_t others = FILES_OTHERS + (uint64_t)FILES_SHARD * server->options.shards, most;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return CONNECTIONS_ALL;
	others += files.rlim_cur / FILES_STRANGERS_PART;
	most = files.rlim_cur > others + CONNECTIONS_LEAST ? files.rlim_cur - others
							   : CONNECTIONS_LEAST;
	return most < CONNECTIONS_ALL ? (uint32_t)most : CONNECTIONS_ALL;
}

bool share_of_connections(const struct server *server, const struct peer *peer, struct text *text)
{
	uint32_t taken = server->peers_count - server->strangers_count, own = 0;
	uint32_t all = connections_all(server), few = all / CONNECTIONS_FEW_PART;

	if (!has_shares(server) || taken < few)
		return true;
	for (uint32_t i = 0; i < PEERS_MAX; i++) {
		const struct peer *other = &server->peers[i];

		own += other->conn && other != peer && !other->is_stranger &&
		       other->source == peer->source;
	}
	if (share_allows(all, taken - own, own, 1, server->options.share, few))
		return true;
	refuse(server, text, "connections", own, taken - own);
	if (all < CONNECTIONS_ALL)
		text_add(text, "; the limit of open files leaves room for %u in all (ulimit -n)",
			 all);
	return false;
}
