/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caller.h - a thread of its own for functions of the program (on_done, reduce) that are due while nobody waits. It begins
 * with the first of them and ends with the background thread, which thereby never waits for the program: it goes on
 * to say that this rank is alive.
 */
#ifndef LIB_CALLER_H
#define LIB_CALLER_H

#include "lib/comm.h"

/* The thread calls what is due in the communicator; if there can be no thread, this one does. Lock held, but not
 * meanwhile. */
void caller_look(struct tally_comm *comm);
/* Returns when the thread is not in it, and does not know it any more. Not from a user's function. */
void caller_forget(struct tally_comm *comm);
/* Ends the thread. No communicator is left. */
void caller_end(void);

/* Around a fork. */
void caller_fork_prepare(void);
void caller_fork_parent(void);
void caller_fork_child(void);

#endif
