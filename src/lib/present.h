/* SPDX-License-Identifier: Apache-2.0 */
/*
 * present.h - who of this process could still call something: threads that have, and functions (on_done) that have
 * not returned. What R-CT-45 says of a process, but for who waits where, which its communicators know.
 */
#ifndef LIB_PRESENT_H
#define LIB_PRESENT_H

#include <stdbool.h>

struct control_opinfo;

/* This thread begins a function of the program's, as on_done: 1; it has returned: -1. */
void present_inside(int more);
bool present_is_calling(void); /* this thread is inside one */

/* This thread starts an operation, or waits; it counts from now on, until it ends. Not inside an on_done function. */
void present_here(void);
/* A wait begins or ends, or a function is due. */
void present_moved(void);
/* A function will be called: 1. It has returned, or never will be: -1. */
void present_calls(int more);
/* As OPINFO says it: to be asked before anything that belongs to it. */
void present_say(struct control_opinfo *info);

/* In a forked child, which has this one thread. */
void present_forked(void);
/* Changes with that: handles of another epoch are the parent's. */
unsigned present_epoch(void);

#endif
