/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - see local.h. */
#include "lib/local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/server.h"

enum { HEAD_BYTES = 60 }; /* of a long job's name */

void local_name(const char *job, char name[LOCAL_NAME_BYTES])
{
	uint64_t hash = 0xcbf29ce484222325;
	int length = snprintf(name, LOCAL_NAME_BYTES, "tally/%u/%s", (unsigned)getuid(), job);

	if (length < LOCAL_NAME_BYTES)
		return;
	for (const char *at = job; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x100000001b3;
	snprintf(name, LOCAL_NAME_BYTES, "tally/%u/%.*s~%016llx", (unsigned)getuid(), HEAD_BYTES,
		 job, (unsigned long long)hash);
}

static void server_says(void *arg, enum server_level level, const char *line)
{
	/* Every rank says itself how the job goes: the aggregator's view is for those who look closer. */
	static const int levels[] = { [SERVER_ERROR] = TALLY_LOG_ERROR,
				      [SERVER_WARN] = TALLY_LOG_DEBUG,
				      [SERVER_INFO] = TALLY_LOG_DEBUG,
				      [SERVER_DEBUG] = TALLY_LOG_DEBUG };

	report_log(arg, levels[level], "aggregator: %s", line);
}

int local_open(struct tally_comm *comm)
{
	const struct link_address loopback = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
						       127, 0, 0, 1 } };
	char name[LOCAL_NAME_BYTES];
	struct server_options options = { .listen = loopback,
					  .local_name = name,
					  .jobs_max = 1,
					  .gather_ms = comm->boot.init_timeout_s * 1000,
					  .key = comm->key,
					  .log = server_says,
					  .log_arg = &comm->who };
	int error;

	local_name(comm->who.job, name);
	error = server_open(&comm->server, &options);
	if (error == -EADDRINUSE)
		return report_error(
			&comm->who, TALLY_ERR_SYSTEM,
			"local mode: a rank 0 of job %s runs on this host already (socket "
			"@%s)",
			comm->who.job, name);
	if (!error) {
		error = server_start(comm->server);
		if (error) {
			server_close(comm->server);
			comm->server = NULL;
		}
	}
	if (error)
		return report_error(&comm->who, TALLY_ERR_SYSTEM,
				    "local mode: no aggregator in this process: %s",
				    strerror(-error));
	return TALLY_OK;
}

void local_close(struct tally_comm *comm, uint32_t timeout_ms)
{
	if (!comm->server)
		return;
	server_drain(comm->server);
	(void)server_wait(comm->server, timeout_ms);
	server_close(comm->server);
	comm->server = NULL;
}

void local_forget(const struct tally_comm *comm)
{
	if (comm->server && !TAKEN_OUT(FORK_CLOSE))
		server_forget(comm->server);
}
