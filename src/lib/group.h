/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - tally_group_start and _end: a thread's i-calls are held back, then fused. */
#ifndef LIB_GROUP_H
#define LIB_GROUP_H

#include "lib/comm.h"

bool group_is_open(void); /* on this thread; no lock needed */
/* Holds back a work that has been made, until tally_group_end. */
void group_add(struct tally_work *work);

/* Around a user's function: its calls are no part of a group that happens to be open on this thread. */
unsigned group_suspend(void);
void group_resume(unsigned depth);

/* The second half of a fused operation's fingerprint: which calls it was fused from. 0 for less than two
 * counts. */
uint32_t group_list_hash(const struct tally_buffer *buffers, size_t n);

#endif
