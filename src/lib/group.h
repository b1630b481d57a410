/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - tally_group_start: a thread's i-calls are held back; tally_group_end fuses them (fuse.c). */
#ifndef LIB_GROUP_H
#define LIB_GROUP_H

#include "lib/comm.h"

bool group_is_open(void); /* on this thread; no lock needed */
/* Holds back a work that has been made. */
void group_add(struct tally_work *work);
/* One that is open ends: what was held back, if it is inside of no other. */
struct work_list group_end(void);

/* Around a user's function: its calls are no part of a group that happens to be open on this thread. */
unsigned group_suspend(void);
void group_resume(unsigned depth);

/* The second half of an operation's fingerprint: of a list, 0 for less than two counts; of what it was fused from. */
uint32_t group_list_hash(const struct tally_buffer *buffers, size_t n);
uint32_t group_members_hash(const struct tally_work *first);

#endif
