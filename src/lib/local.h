/* SPDX-License-Identifier: Apache-2.0 */
/* local.h - TALLY_AGGREGATOR=local: rank 0 hosts the aggregator for the ranks of its host, which find it
 * under an abstract unix socket's name. */
#ifndef LIB_LOCAL_H
#define LIB_LOCAL_H

#include "lib/comm.h"

enum { LOCAL_NAME_BYTES = 100 }; /* with its NUL; an abstract name has no file and no leftovers */

/* An aggregator in this process. */
struct local {
	struct server *server;
	struct report_who who; /* for its log: the communicator may go before it */
	atomic_uint users;     /* communicators of this process */
	bool is_forgotten;     /* in a forked child */
};

/* "tally/UID/JOB"; a long job's end is replaced by a hash. */
void local_name(const char *job, char name[LOCAL_NAME_BYTES]);

/* Starts the aggregator; TALLY_OK, or said. */
int local_open(struct tally_comm *comm);
/* A communicator that is split off uses the same one. */
void local_share(struct tally_comm *comm, const struct tally_comm *parent);
/* Ends it at once for the others as well, who are told; false: comm has none, or not alone. Lock held. */
bool local_stop(struct tally_comm *comm);
/* After fork, in the child. */
void local_forget(const struct tally_comm *comm);

/* ---- local_end.c; no lock held ---- */

/* The last of this process's communicators there waits until the others have left, at most timeout_ms
 * (UINT32_MAX: no limit), and ends it. */
void local_close(struct tally_comm *comm, uint32_t timeout_ms);
/* As local_close without a limit, but what waits can be ended: by tally_comm_abort, whose error comm then has, and, if
 * may_interrupt, by the program, which is asked meanwhile whether to go on. False: it is to end, and nothing has
 * changed. */
bool local_wait(struct tally_comm *comm, bool may_interrupt);

#endif
