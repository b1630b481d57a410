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
/* Makes the thread look at all its communicators. From any thread, with or without a lock. */
void background_kick(void);

/* The same at a time of clock_ns, for a thread that has just left an operation on its way: most likely it comes
 * back to drive it by itself, and the communicator is then better left alone (progress_return_ns). Costs nothing
 * if the thread will look as soon anyway. */
void background_remind(uint64_t at_ns);

#endif
