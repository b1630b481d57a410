/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/link_address.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/link_udp.h"
#include "util/address.h"

enum {
	SCOPE_AT = 2,     /* in a link-local address: see link_udp.h */
	HOST_BYTES = 256, /* the longest name of DNS, and its end */
	TEXT_BYTES = 64,
};

static const uint8_t any_ip[16];

bool link_address_is_any(const struct link_address *address)
{
	static const uint8_t any_v4[4];

	return !memcmp(address->ip, any_ip, sizeof(any_ip)) ||
	       (link_address_is_v4(address) &&
		!memcmp(address->ip + ADDRESS_MAPPED_BYTES, any_v4, sizeof(any_v4)));
}

bool link_address_is_v4(const struct link_address *address)
{
	return address_is_v4(address->ip);
}

uint64_t link_address_source(const struct link_address *address)
{
	uint64_t high, low;

	memcpy(&high, address->ip, sizeof(high));
	memcpy(&low, address->ip + sizeof(high), sizeof(low));
	return high ? high : low; /* IPv4 is ::ffff:a.b.c.d */
}

bool link_address_is_loopback(const struct link_address *address)
{
	return address_is_loopback(address->ip);
}

socklen_t link_address_to_socket(const struct link_address *address, bool is_v6,
				 union link_sockaddr *to)
{
	bool is_any = !memcmp(address->ip, any_ip, sizeof(any_ip));

	*to = (union link_sockaddr){ 0 };
	if (!is_any && link_address_is_v4(address) == is_v6)
		return 0;
	if (!is_v6) {
		to->v4.sin_family = AF_INET;
		to->v4.sin_port = htons(address->port);
		memcpy(&to->v4.sin_addr, address->ip + ADDRESS_MAPPED_BYTES,
		       sizeof(to->v4.sin_addr));
		return sizeof(to->v4);
	}
	return link_address_to_dual(address, to);
}

socklen_t link_address_to_dual(const struct link_address *address, union link_sockaddr *to)
{
	*to = (union link_sockaddr){ 0 };
	to->v6.sin6_family = AF_INET6;
	to->v6.sin6_port = htons(address->port);
	memcpy(&to->v6.sin6_addr, address->ip, sizeof(to->v6.sin6_addr));
	if (address_is_link_local(address->ip)) {
		to->v6.sin6_scope_id = (uint32_t)address->ip[SCOPE_AT] << 8 |
				       address->ip[SCOPE_AT + 1];
		memset(to->v6.sin6_addr.s6_addr + SCOPE_AT, 0, 2);
	}
	return sizeof(to->v6);
}

void link_address_from_socket(const union link_sockaddr *from, struct link_address *address)
{
	memset(address->via, 0, sizeof(address->via));
	address_from_socket(&from->any, address->ip, &address->port);
}

bool link_has_via(const struct link_address *peer)
{
	return memcmp(peer->via, any_ip, sizeof(any_ip)) != 0;
}

void link_via_get(const struct cmsghdr *header, struct link_address *peer)
{
	struct in6_pktinfo v6;
	struct in_pktinfo v4;

	if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
		memcpy(&v4, CMSG_DATA(header), sizeof(v4));
		memcpy(peer->via, address_mapped, ADDRESS_MAPPED_BYTES);
		memcpy(peer->via + ADDRESS_MAPPED_BYTES, &v4.ipi_spec_dst, sizeof(v4.ipi_spec_dst));
	} else if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
		memcpy(&v6, CMSG_DATA(header), sizeof(v6));
		memcpy(peer->via, &v6.ipi6_addr, sizeof(peer->via));
	}
}

/* The interface stays 0: the route chooses it, or a link-local peer's own scope. */
size_t link_via_put(struct cmsghdr *header, bool is_v6, const uint8_t via[16])
{
	struct in6_pktinfo v6 = { .ipi6_ifindex = 0 };
	struct in_pktinfo v4 = { .ipi_ifindex = 0 };

	if (is_v6) {
		header->cmsg_level = IPPROTO_IPV6;
		header->cmsg_type = IPV6_PKTINFO;
		header->cmsg_len = CMSG_LEN(sizeof(v6));
		memcpy(&v6.ipi6_addr, via, sizeof(v6.ipi6_addr));
		memcpy(CMSG_DATA(header), &v6, sizeof(v6));
		return CMSG_SPACE(sizeof(v6));
	}
	header->cmsg_level = IPPROTO_IP;
	header->cmsg_type = IP_PKTINFO;
	header->cmsg_len = CMSG_LEN(sizeof(v4));
	memcpy(&v4.ipi_spec_dst, via + ADDRESS_MAPPED_BYTES, sizeof(v4.ipi_spec_dst));
	memcpy(CMSG_DATA(header), &v4, sizeof(v4));
	return CMSG_SPACE(sizeof(v4));
}

int link_address_parse(const char *text, uint16_t default_port, struct link_address *address,
		       bool *is_v6)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	union link_sockaddr socket_address = { 0 };
	char host[HOST_BYTES];
	uint16_t port = default_port;

	if (address_split(text, host, sizeof(host), &port))
		return -EINVAL;
	if (getaddrinfo(host, NULL, &hints, &found))
		return -ENOENT;
	if (found->ai_addrlen > sizeof(socket_address)) {
		freeaddrinfo(found);
		return -ENOENT;
	}
	memcpy(&socket_address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	link_address_from_socket(&socket_address, address);
	address->port = port;
	*is_v6 = !link_address_is_v4(address);
	return 0;
}

const char *link_address_format(const struct link_address *address, char text[TEXT_BYTES])
{
	bool is_v6 = !link_address_is_v4(address);
	union link_sockaddr socket_address;
	socklen_t bytes = link_address_to_socket(address, is_v6, &socket_address);
	char host[TEXT_BYTES - 8]; /* without brackets, colon and port */

	if (getnameinfo(&socket_address.any, bytes, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		strcpy(host, "?");
	snprintf(text, TEXT_BYTES, is_v6 ? "[%s]:%u" : "%s:%u", host, (unsigned)address->port);
	return text;
}
