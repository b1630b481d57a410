/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - see local.h. */
#include "lib/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "server/server.h"

enum {
	HEAD_BYTES = 60, /* of a long job's name */
	JOBS_MAX = 64,   /* the first communicator, and what is split off */
};

void local_name(const char *job, char name[LOCAL_NAME_BYTES])
{
	int length = snprintf(name, LOCAL_NAME_BYTES, "tally/%u/%s", (unsigned)getuid(), job);

	if (length < LOCAL_NAME_BYTES)
		return;
	snprintf(name, LOCAL_NAME_BYTES, "tally/%u/%.*s~%016llx", (unsigned)getuid(), HEAD_BYTES,
		 job, (unsigned long long)hash_text(HASH_BEGIN, job));
}

static void server_says(void *arg, enum server_level level, const struct server_about *about,
			const char *line)
{
	/* Every rank says itself how the job goes: the aggregator's view is for those who look closer. But who waits
	 * for one another, and is not ended, hears nothing of it. */
	static const int levels[] = { [SERVER_ERROR] = TALLY_LOG_ERROR,
				      [SERVER_WARN] = TALLY_LOG_DEBUG,
				      [SERVER_INFO] = TALLY_LOG_DEBUG,
				      [SERVER_DEBUG] = TALLY_LOG_DEBUG };
	bool is_crossed = level == SERVER_WARN && strstr(line, SERVER_CROSSED_TEXT);

	(void)about; /* arg is */
	report_log(arg, is_crossed ? TALLY_LOG_WARN : levels[level], "aggregator: %s", line);
}

int local_open(struct tally_comm *comm)
{
	const struct link_address loopback = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
						       127, 0, 0, 1 } };
	struct local *local = calloc(1, sizeof(*local));
	char name[LOCAL_NAME_BYTES];
	struct server_options options = { .listen = loopback,
					  .local_name = name,
					  .jobs_max = JOBS_MAX,
					  .gather_ms = comm->boot.init_timeout_s * 1000,
					  .key = comm->key,
					  .log = server_says };
	int error;

	if (!local)
		return report_error(&comm->who, TALLY_ERR_NO_MEMORY, "local mode: out of memory");
	local->who = comm->who;
	options.log_arg = &local->who;
	local_name(comm->local_job, name);
	error = server_open(&local->server, &options);
	if (!error) {
		error = server_start(local->server);
		if (error)
			server_close(local->server);
	}
	if (!error) {
		atomic_init(&local->users, 1);
		comm->local = local;
		return TALLY_OK;
	}
	free(local);
	if (error == -EADDRINUSE)
		return report_error(
			&comm->who, TALLY_ERR_SYSTEM,
			"local mode: a rank 0 of job %s runs on this host already (socket "
			"@%s)%s",
			comm->who.job, name,
			comm->boot.is_launched ? "; the name is the launcher's: if it has started "
						 "two programs, give each its TALLY_JOB"
					       : "");
	return report_error(&comm->who, TALLY_ERR_SYSTEM,
			    "local mode: no aggregator in this process: %s", strerror(-error));
}

void local_share(struct tally_comm *comm, const struct tally_comm *parent)
{
	comm->local = parent->local;
	if (comm->local)
		atomic_fetch_add(&comm->local->users, 1);
}

bool local_stop(struct tally_comm *comm)
{
	if (!comm->local || atomic_load(&comm->local->users) > 1)
		return false;
	server_stop(comm->local->server);
	return true;
}

void local_forget(const struct tally_comm *comm)
{
	if (comm->local && !comm->local->is_forgotten) {
		comm->local->is_forgotten = true;
		server_forget(comm->local->server);
	}
}
