/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meeting.h - ranks of one host get memory in common. Rank 0 makes it and hands it out over an abstract unix socket: so
 * ranks in another network namespace are another host, and what ends with its processes leaves nothing behind. Only if
 * all ranks want it and have it is it used.
 */
#ifndef LIB_MEETING_H
#define LIB_MEETING_H

#include "lib/comm.h"

/* After START, before the first operation; waits for the other ranks, unless the communicator breaks. comm->host is set
 * on all ranks, or on none. No lock held. */
void meeting_hold(struct tally_comm *comm);
/* Nobody uses it any more. */
void meeting_end(struct tally_comm *comm);

#endif
