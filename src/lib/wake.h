/* SPDX-License-Identifier: Apache-2.0 */
/* wake.h - who is woken: who waits in a communicator, and the background thread. */
#ifndef LIB_WAKE_H
#define LIB_WAKE_H

#include <poll.h>
#include <stdint.h>

struct tally_comm;

/* Wakes whoever waits for something to change, asleep or on the link. Lock held. */
void wake_waiters(struct tally_comm *comm);
/* Makes the background thread look at all its communicators. From any thread, with or without a lock. */
void wake_background(void);
/* The same at a time of clock_ns, for a thread that has just left an operation on its way: most likely it comes
 * back to drive it by itself, and the communicator is then better left alone (progress_is_left). Costs nothing
 * if the thread will look as soon anyway. */
void wake_background_at(uint64_t at_ns);

/* The background thread's end: what to wait for, and that it has come. wake_open: 0 or an errno, and wake_close is due. */
enum { WAKE_POLLS = 2 };
int wake_open(void);
void wake_close(void);
void wake_poll(struct pollfd polls[WAKE_POLLS]);
void wake_take(const struct pollfd polls[WAKE_POLLS]);

#endif
