/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/link_address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/link_udp.h"

enum {
	MAPPED_BYTES = 12, /* of ::ffff:a.b.c.d, before a */
	SCOPE_AT = 2,      /* in a link-local address: see link_udp.h */
	HOST_BYTES = 256,  /* the longest name of DNS, and its end */
	PORT_MAX = 65535,
	TEXT_BYTES = 64,
};

static const uint8_t mapped_prefix[MAPPED_BYTES] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
static const uint8_t any_ip[16];

bool link_address_is_any(const struct link_address *address)
{
	static const uint8_t any_v4[4];

	return !memcmp(address->ip, any_ip, sizeof(any_ip)) ||
	       (link_address_is_v4(address) &&
		!memcmp(address->ip + MAPPED_BYTES, any_v4, sizeof(any_v4)));
}

bool link_address_is_v4(const struct link_address *address)
{
	return !memcmp(address->ip, mapped_prefix, MAPPED_BYTES);
}

bool link_address_is_loopback(const struct link_address *address)
{
	static const uint8_t one[16] = { [15] = 1 };

	return link_address_is_v4(address) ? address->ip[MAPPED_BYTES] == 127
					   : !memcmp(address->ip, one, sizeof(one));
}

static bool is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
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
		memcpy(&to->v4.sin_addr, address->ip + MAPPED_BYTES, sizeof(to->v4.sin_addr));
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
	if (is_link_local(address->ip)) {
		to->v6.sin6_scope_id = (uint32_t)address->ip[SCOPE_AT] << 8 |
				       address->ip[SCOPE_AT + 1];
		memset(to->v6.sin6_addr.s6_addr + SCOPE_AT, 0, 2);
	}
	return sizeof(to->v6);
}

void link_address_from_socket(const union link_sockaddr *from, struct link_address *address)
{
	memset(address->via, 0, sizeof(address->via));
	if (from->any.sa_family == AF_INET) {
		memcpy(address->ip, mapped_prefix, MAPPED_BYTES);
		memcpy(address->ip + MAPPED_BYTES, &from->v4.sin_addr, sizeof(from->v4.sin_addr));
		address->port = ntohs(from->v4.sin_port);
		return;
	}
	memcpy(address->ip, &from->v6.sin6_addr, sizeof(address->ip));
	address->port = ntohs(from->v6.sin6_port);
	if (is_link_local(address->ip)) {
		address->ip[SCOPE_AT] = (uint8_t)(from->v6.sin6_scope_id >> 8);
		address->ip[SCOPE_AT + 1] = (uint8_t)from->v6.sin6_scope_id;
	}
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
		memcpy(peer->via, mapped_prefix, MAPPED_BYTES);
		memcpy(peer->via + MAPPED_BYTES, &v4.ipi_spec_dst, sizeof(v4.ipi_spec_dst));
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
	memcpy(&v4.ipi_spec_dst, via + MAPPED_BYTES, sizeof(v4.ipi_spec_dst));
	memcpy(CMSG_DATA(header), &v4, sizeof(v4));
	return CMSG_SPACE(sizeof(v4));
}

/* Cuts text into host and port ("" if none). */
static int address_split(const char *text, char host[HOST_BYTES], const char **port)
{
	const char *end, *rest, *colon = strchr(text, ':');

	if (*text == '[') {
		end = strchr(++text, ']');
		if (!end)
			return -EINVAL;
		rest = end + 1;
	} else if (colon && strchr(colon + 1, ':')) { /* a bare IPv6 address */
		end = text + strlen(text);
		rest = end;
	} else {
		end = colon ? colon : text + strlen(text);
		rest = end;
	}
	if (end == text || end - text >= HOST_BYTES || (*rest && *rest != ':') ||
	    (*rest && !rest[1]))
		return -EINVAL;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	*port = *rest ? rest + 1 : "";
	return 0;
}

static int port_parse(const char *text, uint16_t *port)
{
	char *end;
	unsigned long number;

	if (!*text)
		return 0; /* the default stands */
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || *end || number > PORT_MAX)
		return -EINVAL;
	*port = (uint16_t)number;
	return 0;
}

int link_address_parse(const char *text, uint16_t default_port, struct link_address *address,
		       bool *is_v6)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *found;
	union link_sockaddr socket_address = { 0 };
	char host[HOST_BYTES];
	const char *port_text;
	uint16_t port = default_port;

	if (address_split(text, host, &port_text) || port_parse(port_text, &port))
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
