/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - an address as 16 bytes: IPv6, or IPv4 as ::ffff:a.b.c.d; a link-local one has its interface's number in
 * bytes 2 and 3, which are zero on the wire. Between that, the kernel's form and people's. Asks nobody.
 */
#ifndef UTIL_ADDRESS_H
#define UTIL_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ADDRESS_MAPPED_BYTES = 12 }; /* of ::ffff:a.b.c.d, before a */
extern const uint8_t address_mapped[ADDRESS_MAPPED_BYTES];

static inline bool address_is_v4(const uint8_t ip[16])
{
	return !memcmp(ip, address_mapped, ADDRESS_MAPPED_BYTES);
}

static inline bool address_is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

bool address_is_loopback(const uint8_t ip[16]);

/* Zeros, and port 0, of what is neither IPv4 nor IPv6. */
void address_from_socket(const struct sockaddr *from, uint8_t ip[16], uint16_t *port);

/* "10.0.0.1", "fd00::7"; false: neither, and ip is as it was. */
bool address_from_text(const char *text, uint8_t ip[16]);
/* The same back, an interface's number and all; returns text. */
const char *address_to_text(const uint8_t ip[16], char text[INET6_ADDRSTRLEN]);

/* Cuts "host", "host:port", "[v6]", "[v6]:port", or a bare "v6" (no port: its last group would be one) into host and
 * port, which stays as it was if none is said. 0, or -EINVAL. */
int address_split(const char *text, char *host, size_t host_bytes, uint16_t *port);

#endif
