/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"
#include "dataplane/link_udp.h"
#include "server/internal.h"

__attribute__((format(printf, 4, 0))) static void server_say_list(struct server *server,
								  enum server_level level,
								  const struct server_about *about,
								  const char *format, va_list list)
{
	char line[LINE_BYTES];

	if (!server->options.log)
		return;
	vsnprintf(line, sizeof(line), format, list);
	text_clean(line); /* what peers send must neither reach a terminal nor forge a line */
	server->options.log(server->options.log_arg, level, about, line);
}

void server_say_job(struct server *server, enum server_level level, const char *job, uint32_t rank,
		    const char *format, ...)
{
	va_list list;

	va_start(list, format);
	server_say_list(server, level, &(struct server_about){ job, rank }, format, list);
	va_end(list);
}

/* False: there have been enough in this second. */
static bool lines_may(struct server *server, struct lines *lines)
{
	uint64_t second = clock_ns() / (1000 * MS_NS);

	if (second != lines->second) {
		if (lines->count > STRANGER_LINES)
			server_say(server, SERVER_WARN, "%u more lines like these were left out",
				   lines->count - STRANGER_LINES);
		*lines = (struct lines){ .second = second };
	}
	return ++lines->count <= STRANGER_LINES;
}

void server_say_stranger_job(struct server *server, const char *job, uint32_t rank,
			     const char *format, ...)
{
	va_list list;

	if (!lines_may(server, &server->stranger_lines))
		return;
	va_start(list, format);
	server_say_list(server, SERVER_WARN, &(struct server_about){ job, rank }, format, list);
	va_end(list);
}

/* clang-format off */
static const char *const fault_names[WIRE_FAULT_COUNT] = {
	[WIRE_FAULT_SHORT]   = "too short",
	[WIRE_FAULT_VERSION] = "version",
	[WIRE_FAULT_TYPE]    = "type",
	[WIRE_FAULT_LANES]   = "lanes",
	[WIRE_FAULT_LENGTH]  = "length",
	[WIRE_FAULT_FLAGS]   = "flags",
};

static const char *const drop_names[SWITCH_VERDICT_COUNT] = {
	[SWITCH_DROP_TYPE]       = "not for a switch",
	[SWITCH_DROP_JOB]        = "job",
	[SWITCH_DROP_GENERATION] = "generation",
	[SWITCH_DROP_CHILD]      = "child",
	[SWITCH_DROP_SLOT]       = "slot",
	[SWITCH_DROP_LANES]      = "more lanes than agreed",
	[SWITCH_DROP_ADDRESS]    = "address",
	[SWITCH_DROP_STALE]      = "stale",
	[SWITCH_DROP_ALARM]      = "alarm",
};
/* clang-format on */

static void line_add(char line[LINE_BYTES], const char *name, uint64_t count)
{
	size_t used = strlen(line);

	if (count)
		snprintf(line + used, LINE_BYTES - used, "%s %s %llu", used ? "," : "", name,
			 (unsigned long long)count);
}

/* clang-format off */
static const char *const table_drop_names[SWITCH_SPARSE_VERDICT_COUNT] = {
	[SWITCH_SPARSE_DROP_KIND]       = "not for a switch",
	[SWITCH_SPARSE_DROP_GENERATION] = "generation",
	[SWITCH_SPARSE_DROP_MAP]        = "map",
	[SWITCH_SPARSE_DROP_WORKER]     = "worker",
	[SWITCH_SPARSE_DROP_SHAPE]      = "shape",
	[SWITCH_SPARSE_DROP_STALE]      = "stale",
};
/* clang-format on */

void server_say_table_stats(struct server *server, uint32_t shard,
			    const struct engine_sparse_stats *stats)
{
	char line[LINE_BYTES] = "";

	if (!stats->packets_in)
		return;
	for (uint32_t fault = WIRE_OK + 1; fault < WIRE_FAULT_COUNT; fault++)
		line_add(line, fault_names[fault], stats->fault[fault]);
	for (uint32_t verdict = 0; verdict < SWITCH_SPARSE_VERDICT_COUNT; verdict++)
		if (table_drop_names[verdict])
			line_add(line, table_drop_names[verdict], stats->verdict[verdict]);
	line_add(line, "no such table", stats->unknown_table);
	line_add(line, "address", stats->wrong_address);
	line_add(line, "hello that was overtaken", stats->overtaken);
	server_say(
		server, SERVER_INFO,
		"shard %u, tables: %llu packets in, %llu pairs added, %llu epochs, %llu parts of "
		"flushes, %llu of them again; dropped:%s",
		shard, (unsigned long long)stats->packets_in, (unsigned long long)stats->pairs,
		(unsigned long long)stats->flips,
		(unsigned long long)(stats->parts_first + stats->parts_again),
		(unsigned long long)stats->parts_again, *line ? line : " none");
	if (server->options.registers)
		server_say(server, SERVER_INFO,
			   "shard %u, tables: a chip of %u registers had recirculated %llu of %llu "
			   "pushes, %llu times; if all registers take a pair each time, %llu times",
			   shard, server->options.registers,
			   (unsigned long long)stats->recirculated,
			   (unsigned long long)stats->verdict[SWITCH_SPARSE_ADDED],
			   (unsigned long long)stats->recirculations,
			   (unsigned long long)stats->passes_again);
}

void server_say_stats(struct server *server, uint32_t shard, const struct engine_stats *stats)
{
	char line[LINE_BYTES] = "";

	for (uint32_t fault = WIRE_OK + 1; fault < WIRE_FAULT_COUNT; fault++)
		line_add(line, fault_names[fault], stats->fault[fault]);
	for (uint32_t verdict = SWITCH_DROP; verdict < SWITCH_VERDICT_COUNT; verdict++)
		line_add(line, drop_names[verdict], stats->verdict[verdict]);
	line_add(line, "hello that binds nobody", stats->hello_unknown);
	server_say(server, SERVER_INFO, "shard %u: %llu packets in; dropped:%s", shard,
		   (unsigned long long)stats->packets_in, *line ? line : " none");
	if (stats->hooked[SWITCH_ABSORB])
		server_say(server, SERVER_INFO,
			   "shard %u, %s: %llu packets added, %llu completed a round, %llu "
			   "answered",
			   shard, server->options.chip_open ? "switch" : "kernel",
			   (unsigned long long)stats->hooked[SWITCH_ABSORB],
			   (unsigned long long)stats->hooked[SWITCH_MULTICAST],
			   (unsigned long long)stats->hooked[SWITCH_REPLY]);
}

void server_ask_reports(struct server *server)
{
	for (uint32_t k = 0; k < server->options.shards; k++) {
		if (server->is_reporting[k])
			continue;
		server->is_reporting[k] = true;
		shard_send(server->shards[k],
			   &(struct shard_command){ .type = SHARD_REPORT,
						    .report = &server->shard_reports[k] });
	}
}

void server_say_report(struct server *server, uint32_t shard)
{
	server->is_reporting[shard] = false;
	server_say_stats(server, shard, &server->shard_reports[shard].stats);
	server_say_table_stats(server, shard, &server->shard_reports[shard].tables);
}

/* clang-format off */
static const char *const refusals[ENGINE_REFUSALS] = {
	[ENGINE_REFUSED_ADDRESS]    = "the address is not that rank's (has it changed?)",
	[ENGINE_REFUSED_GENERATION] = "the generation is not the job's (of an earlier job?)",
	[ENGINE_REFUSED_AROUND]     = ("its HELLO has not come through the switch, which then cannot sum for it: run that "
				       "rank on a host behind a port of the switch, not on tallyd's (man tallyd, --engine)"),
	[ENGINE_REFUSED_TABLE_ADDRESS]    = "the address is not that worker's (has it changed?)",
	[ENGINE_REFUSED_TABLE_GENERATION] = "the generation is not the table's (of before a fence?)",
	[ENGINE_REFUSED_NONCE]      = "a HELLO without the nonce of that rank, or an old one",
};
/* clang-format on */

void server_say_refused(struct server *server, uint32_t shard, const struct engine_event *notice)
{
	bool is_tables = notice->refusal >= ENGINE_REFUSED_TABLE_ADDRESS;
	const struct job *job = notice->job < server->options.jobs_max && !is_tables
					? server->jobs[notice->job]
					: NULL;
	const struct table *table = NULL;
	char text[64], whose[LINE_BYTES] = "";

	/* Jobs and tables have indices of their own, and a HELLO does not say which it means. */
	if ((notice->refusal == ENGINE_REFUSED_NONCE || is_tables) &&
	    notice->job < SHARD_TABLES_MAX)
		table = server->tables[notice->job];
	if (table && table->shard != shard)
		table = NULL;
	/* Not of the strangers' lines: whoever floods TCP would hide who forges packets. */
	if (!lines_may(server, &server->refused_lines))
		return;
	if (job || !table)
		snprintf(whose, sizeof(whose), "rank %u of job %s%s", notice->child,
			 job ? job->name : "(none)", table ? " or " : "");
	if (table)
		snprintf(whose + strlen(whose), sizeof(whose) - strlen(whose),
			 "worker %u of table %s", notice->child, table->open.table);
	server_say_job(server, SERVER_WARN, job ? job->name : NULL, notice->child,
		       "shard %u: %u packet%s dropped, the last from %s as %s: %s", shard,
		       notice->count, notice->count == 1 ? "" : "s",
		       link_address_format(&notice->address, text), whose,
		       refusals[notice->refusal]);
}

void server_say_hook(struct server *server, uint32_t shard, const struct hook_news *news)
{
	if (news->error)
		server_say(server, SERVER_WARN,
			   "shard %u: the filter at %s is gone and cannot be put back, so the "
			   "threads add what comes there: %s",
			   shard, news->device, strerror(-news->error));
	else
		server_say(server, SERVER_WARN,
			   "shard %u: the filter at %s was gone, and is back: meanwhile the "
			   "threads have added what came there",
			   shard, news->device);
}
