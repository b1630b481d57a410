/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds what: for those who are refused because somebody else has it, and for the operator who asks
 * (SIGUSR1).
 */
#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"
#include "server/internal.h"

enum { HOSTS_NAMED = 3, HOLDERS_NAMED = 8 };

static const char *state_text(const struct job *job)
{
	switch ((enum admission_state)job->admission->state) {
	case ADMISSION_GATHER:
		return "gathering";
	case ADMISSION_GRANTED:
	case ADMISSION_ENABLING:
		return "starting";
	case ADMISSION_STARTED:
		return "running";
	case ADMISSION_DRAIN:
		return "ending";
	default:
		return "over";
	}
}

static const struct admission_member *member_in(const struct job *job, uint32_t rank)
{
	const struct admission_member *member = admission_member(job->admission, rank);
	bool is_in = member->presence == ADMISSION_JOINED || member->presence == ADMISSION_READY ||
		     member->presence == ADMISSION_LEFT;

	return is_in ? member : NULL;
}

/* Is the host of `rank` that of a lower rank, too? */
static bool is_named(const struct job *job, uint32_t rank, const char *host)
{
	for (uint32_t other = 0; other < rank; other++) {
		const struct admission_member *member = member_in(job, other);

		if (member && !strcmp(member->peer.host, host))
			return true;
	}
	return false;
}

static void add_hosts(struct text *text, const struct job *job)
{
	uint32_t hosts = 0;

	for (uint32_t rank = 0; rank < job->admission->size; rank++) {
		const struct admission_member *member = member_in(job, rank);

		if (!member || is_named(job, rank, member->peer.host))
			continue;
		if (++hosts <= HOSTS_NAMED)
			text_add(text, "%s%s", hosts == 1 ? " on " : ", ", member->peer.host);
	}
	if (hosts > HOSTS_NAMED)
		text_add(text, " and %u more hosts", hosts - HOSTS_NAMED);
}

static uint32_t members_of(const struct job *job)
{
	uint32_t members = 0;

	for (uint32_t rank = 0; rank < job->admission->size; rank++)
		members += member_in(job, rank) != NULL;
	return members;
}

/* What a job keeps in every shard, between JOB_ADD and JOB_REMOVE. */
static uint32_t slots_of(const struct job *job)
{
	bool has_slots = job->admission->state >= ADMISSION_GRANTED;

	return has_slots ? job->plan.slots : 0;
}

static void add_job(struct text *text, const struct job *job)
{
	text_add(text, "\"%s\" (%s, %u of %u ranks", job->name, state_text(job), members_of(job),
		 job->admission->size);
	add_hosts(text, job);
	if (slots_of(job))
		text_add(text, ", %u slots", slots_of(job));
	text_add(text, ")");
}

void table_add(struct text *text, const struct table *table)
{
	const struct control_table_open *open = &table->open;

	text_add(text, "table \"%s\" of job \"%s\" (server on %s, pid %u, %u workers, %llu KiB)",
		 open->table, open->job, open->host, open->pid, open->workers,
		 (unsigned long long)(table->bytes >> 10));
}

/* Whoever may hear of what `its` address has. */
static bool may_hear(const struct server *server, uint64_t source, uint64_t its)
{
	return server->key[0] || server->is_local || source == its;
}

/* Of `job`, or of all. */
static void add_tables(const struct server *server, uint64_t source, const char *job,
		       const struct table *but, uint32_t *named, uint32_t *others,
		       struct text *text)
{
	uint32_t tables = 0;

	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++) {
		const struct table *table = server->tables[i];

		if (!table || table == but || (job && strcmp(table->open.job, job) != 0))
			continue;
		if (!may_hear(server, source, table->source)) {
			++*others;
			continue;
		}
		if (++tables > HOLDERS_NAMED)
			continue;
		text_add(text, (*named)++ ? ", " : "");
		table_add(text, table);
	}
	if (tables > HOLDERS_NAMED)
		text_add(text, " and %u more tables", tables - HOLDERS_NAMED);
}

void holders_add(const struct server *server, uint64_t source, const struct job *but,
		 const struct table *but_table, struct text *text)
{
	uint32_t jobs = 0, others = 0, other_tables = 0, named = 0;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];

		if (!job || job == but || job->idle_ns)
			continue;
		if (!may_hear(server, source, job->source)) {
			others++;
			continue;
		}
		if (++jobs > HOLDERS_NAMED)
			continue;
		text_add(text, named++ ? ", " : "");
		add_job(text, job);
	}
	if (jobs > HOLDERS_NAMED)
		text_add(text, " and %u more", jobs - HOLDERS_NAMED);
	add_tables(server, source, NULL, but_table, &named, &other_tables, text);
	if (others || other_tables)
		text_add(text, "%s%u jobs and %u tables of other addresses", named ? ", " : "",
			 others, other_tables);
	else if (!named)
		text_add(text, "nobody");
}

void holders_add_tables(const struct server *server, uint64_t source, const char *job,
			struct text *text)
{
	uint32_t named = 0, others = 0;

	add_tables(server, source, job, NULL, &named, &others, text);
	if (others)
		text_add(text, "%s%u tables of other addresses", named ? ", " : "", others);
}

void holders_say(struct server *server)
{
	uint32_t jobs = 0, members = 0;
	uint64_t bytes = 0, table_bytes = 0;

	for (uint32_t i = 0; i < server->options.jobs_max; i++) {
		const struct job *job = server->jobs[i];
		char line[CONTROL_TEXT_BYTES];
		struct text text;

		if (!job || job->idle_ns)
			continue;
		jobs++;
		members += members_of(job);
		text_begin(&text, line, sizeof(line));
		add_job(&text, job);
		server_say_job(server, SERVER_INFO, job->name, SERVER_RANK_NONE, "job %s", line);
	}
	for (uint32_t i = 0; i < SHARD_TABLES_MAX; i++) {
		char line[CONTROL_TEXT_BYTES];
		struct text text;

		if (!server->tables[i])
			continue;
		table_bytes += server->tables[i]->bytes;
		text_begin(&text, line, sizeof(line));
		table_add(&text, server->tables[i]);
		server_say(server, SERVER_INFO, "%s", line);
	}
	for (uint32_t k = 0; k < server->options.shards; k++)
		bytes += shard_memory_used(server->shards[k]);
	server_say(server, SERVER_INFO,
		   "holds %u of %u jobs, %u members, %u connections, %llu bytes of slots", jobs,
		   server->options.jobs_max, members, server->peers_count,
		   (unsigned long long)(bytes > table_bytes ? bytes - table_bytes : 0));
	if (server->tables_count)
		server_say(server, SERVER_INFO, "holds %u of %u tables, %llu bytes of them",
			   server->tables_count, server->options.tables_max,
			   (unsigned long long)table_bytes);
	server_ask_reports(server);
}
