/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interface.h - TALLY_IFNAME: which address of this host control and data leave from. NCCL's syntax:
 *
 *     eth,ib      interfaces whose name begins so      =eth0,eth1   that are called so
 *     ^docker,lo  all but those that begin so          ^=eth0       all but this one
 *
 * and networks, instead of names or among them: 10.0.0.0/8,fd00::/8 or ^192.168.0.0/16. Of several that
 * match, one in the aggregator's own network is preferred, then the kernel's order counts. Loopback is
 * taken only if it is named, or if the aggregator is there. Pure but for interface_list and _pick.
 */
#ifndef LIB_INTERFACE_H
#define LIB_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INTERFACE_NAME_BYTES = 16, INTERFACES_MAX = 128, INTERFACE_TEXT_BYTES = 80 };

/* One address of one interface; ip as struct link_address has it (IPv4 mapped; a link-local one has its
 * interface's number in bytes 2 and 3). */
struct interface {
	char name[INTERFACE_NAME_BYTES];
	uint8_t ip[16];
	uint32_t prefix_bits; /* of the network, of 128 */
	bool is_loopback;
};

/* What is wrong with a pattern, or NULL. */
const char *interface_pattern_check(const char *pattern);

/* The address of `list` to reach `peer` from; -1: none matches. The pattern is a good one. */
int interface_choose(const char *pattern, const struct interface *list, uint32_t count,
		     const uint8_t peer[16]);

/* Addresses of interfaces that are up, in the kernel's order: how many. */
uint32_t interface_list(struct interface list[INTERFACES_MAX]);

/* "eth0 10.0.0.5"; returns text. */
const char *interface_format(const struct interface *interface, char text[INTERFACE_TEXT_BYTES]);

/* Both for this host: from[] and its text, or false and what there is in `why`. */
bool interface_pick(const char *pattern, const uint8_t peer[16], uint8_t from[16],
		    char text[INTERFACE_TEXT_BYTES], char *why, size_t why_bytes);

#endif
