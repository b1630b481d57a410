/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membership.h - a communicator's control connections: a core/member each over a TCP or unix socket. Only
 * the background thread calls these, without the communicator's lock, but for open and close.
 */
#ifndef LIB_MEMBERSHIP_H
#define LIB_MEMBERSHIP_H

#include <poll.h>

#include "control/codec.h"
#include "lib/comm.h"

enum { MEMBERSHIP_AGGREGATORS_MAX = 16 };

/* Finds out where the aggregator is (this may ask DNS) and makes ready to join. TALLY_OK, or said. */
int membership_open(struct tally_comm *comm);
void membership_close(struct tally_comm *comm);

/* What is due, and what has come. */
void membership_service(struct tally_comm *comm, struct codec *codec, uint64_t now_ns);
/* What to wait for: how many connections, at most MEMBERSHIP_AGGREGATORS_MAX. */
uint32_t membership_poll(const struct tally_comm *comm, struct pollfd *polls);
uint64_t membership_deadline(const struct tally_comm *comm);

/* After fork, in the child: no other process must hold the connection open. */
void membership_forget(const struct tally_comm *comm);

#endif
