/* SPDX-License-Identifier: Apache-2.0 */
/* link_address.h - between the kernel's socket addresses and ours: for the sockets of this room. */
#ifndef DATAPLANE_LINK_ADDRESS_H
#define DATAPLANE_LINK_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "dataplane/link.h"

union link_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

bool link_address_is_v4(const struct link_address *address);
/* The bytes of *to that are used; 0 if the address is of the other family. */
socklen_t link_address_to_socket(const struct link_address *address, bool is_v6,
				 union link_sockaddr *to);
void link_address_from_socket(const union link_sockaddr *from, struct link_address *address);

#endif
