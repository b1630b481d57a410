/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - the one thread that libtally has in a process, from the first communicator to the last:
 * it serves all control connections and timers, and drives the communicators that nobody drives.
 */
#ifndef LIB_BACKGROUND_H
#define LIB_BACKGROUND_H

#include "lib/comm.h"

/* Hands a communicator to the thread, which is started if need be. TALLY_OK, or TALLY_ERR_SYSTEM, said. */
int background_add(struct tally_comm *comm);
/* Takes it back; returns when the thread does not know it any more. Not from a user's function. */
void background_remove(struct tally_comm *comm);

#endif
