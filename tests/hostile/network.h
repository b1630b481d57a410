/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - a network of its own for who forges packets, and what the kernel says of a UDP socket there. */
#ifndef TESTS_HOSTILE_NETWORK_H
#define TESTS_HOSTILE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/* For main, before there are threads: a network with nothing but loopback. False, with errno: not for this user. */
bool network_own(void);

/* Of the sockets of one family at this port. */
struct network_socket {
	uint64_t queued; /* bytes of memory that wait to be read */
	uint64_t lost;   /* packets that it had no room for, since it was opened */
};
struct network_socket network_look(uint16_t port, bool is_v6);

#endif
