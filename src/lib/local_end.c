/* SPDX-License-Identifier: Apache-2.0 */
/* local_end.c - the aggregator in this process, when a communicator needs it no more: see local.h. */
#include <stdlib.h>

#include "lib/local.h"
#include "server/server.h"

enum { ASK_MS = 50 }; /* between two questions to the program, whether a wait is to end */

/* This communicator needs it no more; of those who do not, one is the last. */
static bool is_last(struct tally_comm *comm)
{
	if (!comm->is_local_last)
		comm->is_local_last = atomic_fetch_sub(&comm->local->users, 1) == 1;
	if (comm->is_local_last)
		return true;
	comm_lock(comm); /* local_stop looks at it */
	comm->local = NULL;
	comm_unlock(comm);
	return false;
}

bool local_wait(struct tally_comm *comm, bool may_interrupt)
{
	struct local *local = comm->local;

	if (!local || !is_last(comm))
		return true;
	server_drain(local->server);
	while (!server_wait(local->server, ASK_MS)) {
		if (comm_error(comm)) /* local_stop */
			return true;
		if (may_interrupt && comm->interrupted && progress_is_interrupted(comm))
			return false;
	}
	return true;
}

void local_close(struct tally_comm *comm, uint32_t timeout_ms)
{
	struct local *local = comm->local;

	if (!local || !is_last(comm))
		return;
	comm_lock(comm); /* local_stop looks at it */
	comm->local = NULL;
	comm_unlock(comm);
	server_drain(local->server);
	(void)server_wait(local->server, timeout_ms);
	server_close(local->server);
	free(local);
}
