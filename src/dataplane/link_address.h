/* SPDX-License-Identifier: Apache-2.0 */
/* link_address.h - between the kernel's socket addresses and ours: for the sockets of this room. */
#ifndef DATAPLANE_LINK_ADDRESS_H
#define DATAPLANE_LINK_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "dataplane/link.h"

union link_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Room for what goes beside a message: one int (UDP_GRO) or uint16_t (UDP_SEGMENT), and our address. */
union link_control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

bool link_address_is_any(const struct link_address *address);
bool link_address_is_loopback(const struct link_address *address);
bool link_address_is_v4(const struct link_address *address);
/* A number for its host, or of IPv6 for the network of 64 bits that one host may have all addresses of. */
uint64_t link_address_source(const struct link_address *address);
/* The bytes of *to that are used; 0 if the address is of the other family. */
socklen_t link_address_to_socket(const struct link_address *address, bool is_v6,
				 union link_sockaddr *to);
/* The same for an IPv6 socket that speaks IPv4 too: never 0. */
socklen_t link_address_to_dual(const struct link_address *address, union link_sockaddr *to);
void link_address_from_socket(const union link_sockaddr *from, struct link_address *address);

/* Our own address beside a message (IP_PKTINFO, IPV6_PKTINFO): get reads it out of a message that was
 * received, and leaves *peer alone if it is not there; put writes it for `via` (not zero) and returns the
 * bytes it takes: CMSG_SPACE of a pktinfo. */
void link_via_get(const struct cmsghdr *header, struct link_address *peer);
size_t link_via_put(struct cmsghdr *header, bool is_v6, const uint8_t via[16]);
bool link_has_via(const struct link_address *peer);

#endif
