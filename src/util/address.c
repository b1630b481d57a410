/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see address.h. */
#include "util/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

const uint8_t address_mapped[ADDRESS_MAPPED_BYTES] = { [10] = 0xff, [11] = 0xff };

bool address_is_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return address_is_v4(ip) ? ip[ADDRESS_MAPPED_BYTES] == 127 : !memcmp(ip, one, sizeof(one));
}

void address_from_socket(const struct sockaddr *from, uint8_t ip[16], uint16_t *port)
{
	const struct sockaddr_in *v4 = (const void *)from;
	const struct sockaddr_in6 *v6 = (const void *)from;

	memset(ip, 0, 16);
	*port = 0;
	if (from->sa_family == AF_INET) {
		memcpy(ip, address_mapped, ADDRESS_MAPPED_BYTES);
		memcpy(ip + ADDRESS_MAPPED_BYTES, &v4->sin_addr, sizeof(v4->sin_addr));
		*port = ntohs(v4->sin_port);
	} else if (from->sa_family == AF_INET6) {
		memcpy(ip, &v6->sin6_addr, 16);
		*port = ntohs(v6->sin6_port);
		if (address_is_link_local(ip)) {
			ip[2] = (uint8_t)(v6->sin6_scope_id >> 8);
			ip[3] = (uint8_t)v6->sin6_scope_id;
		}
	}
}

bool address_from_text(const char *text, uint8_t ip[16])
{
	if (inet_pton(AF_INET6, text, ip) == 1)
		return true;
	if (inet_pton(AF_INET, text, ip + ADDRESS_MAPPED_BYTES) != 1)
		return false;
	memcpy(ip, address_mapped, ADDRESS_MAPPED_BYTES);
	return true;
}

const char *address_to_text(const uint8_t ip[16], char text[INET6_ADDRSTRLEN])
{
	if (address_is_v4(ip))
		return inet_ntop(AF_INET, ip + ADDRESS_MAPPED_BYTES, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, ip, text, INET6_ADDRSTRLEN);
}

static int port_read(const char *text, uint16_t *port)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || number > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)number;
	return 0;
}

int address_split(const char *text, char *host, size_t host_bytes, uint16_t *port)
{
	const char *colon = strchr(text, ':'), *end = colon, *rest;

	if (*text == '[')
		end = strchr(++text, ']');
	else if (!colon || strchr(colon + 1, ':')) /* no port; or a bare IPv6 address */
		end = text + strlen(text);
	if (!end || end == text || (size_t)(end - text) >= host_bytes)
		return -EINVAL;
	rest = *end == ']' ? end + 1 : end;
	if (*rest && *rest != ':')
		return -EINVAL;
	memcpy(host, text, (size_t)(end - text));
	host[end - text] = '\0';
	return *rest ? port_read(rest + 1, port) : 0;
}
