/* SPDX-License-Identifier: Apache-2.0 */
/* interface.c - see interface.h. */
#include "lib/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "util/address.h"

enum { ITEM_BYTES = 128, MAPPED_BITS = 96 };

static bool is_in_network(const uint8_t ip[16], const uint8_t network[16], uint32_t bits)
{
	uint32_t bytes = bits / 8, rest = bits % 8;

	if (memcmp(ip, network, bytes) != 0)
		return false;
	return !rest || !((ip[bytes] ^ network[bytes]) >> (8 - rest));
}

/* ---- patterns ---- */

/* "10.0.0.0/8" into 16 bytes and bits of 128. */
static bool network_read(const char *item, uint8_t network[16], uint32_t *bits)
{
	char host[ITEM_BYTES];
	const char *slash = strchr(item, '/'), *at = slash + 1;
	size_t length = (size_t)(slash - item);
	bool is_four;

	memcpy(host, item, length);
	host[length] = '\0';
	if (!address_from_text(host, network))
		return false;
	is_four = !strchr(host, ':');
	*bits = 0;
	for (; *at >= '0' && *at <= '9' && *bits <= 128; at++)
		*bits = *bits * 10 + (uint32_t)(*at - '0');
	if (at == slash + 1 || *at || *bits > (is_four ? 32 : 128))
		return false;
	*bits += is_four ? MAPPED_BITS : 0;
	return true;
}

/* The next item of a list, and where the one after it begins; NULL: the last was the last. */
static const char *item_next(const char *at, char item[ITEM_BYTES])
{
	size_t length = strcspn(at, ",");
	size_t copied = length < ITEM_BYTES ? length : ITEM_BYTES - 1;

	memcpy(item, at, copied);
	item[copied] = '\0';
	return at[length] ? at + length + 1 : NULL;
}

/* Past ^ and =. */
static const char *pattern_open(const char *pattern, bool *is_not, bool *is_exact)
{
	*is_not = *pattern == '^';
	pattern += *is_not;
	*is_exact = *pattern == '=';
	return pattern + *is_exact;
}

const char *interface_pattern_check(const char *pattern)
{
	bool is_not, is_exact;
	char item[ITEM_BYTES];
	uint8_t network[16];
	uint32_t bits;

	for (const char *at = pattern_open(pattern, &is_not, &is_exact); at;) {
		size_t length = strcspn(at, ",");

		at = item_next(at, item);
		if (!length)
			return "a name between commas is empty";
		if (strchr(item, '/')) {
			if (length >= ITEM_BYTES || !network_read(item, network, &bits))
				return "not a network as 10.0.0.0/8 or fd00::/8";
			continue;
		}
		if (length >= INTERFACE_NAME_BYTES)
			return "an interface's name has at most 15 bytes";
		if (strpbrk(item, "^=: \t"))
			return "names and networks with commas between them; ^ and = stand in "
			       "front of all";
	}
	return NULL;
}

static bool item_matches(const char *item, bool is_exact, const struct interface *interface)
{
	uint8_t network[16];
	uint32_t bits;

	if (strchr(item, '/'))
		return network_read(item, network, &bits) &&
		       is_in_network(interface->ip, network, bits);
	return is_exact ? !strcmp(interface->name, item)
			: !strncmp(interface->name, item, strlen(item));
}

/* *is_named: by a word that says what is meant, not by one that says what is not. */
static bool pattern_matches(const char *pattern, const struct interface *interface, bool *is_named)
{
	bool is_not, is_exact, is_found = false;
	char item[ITEM_BYTES];

	for (const char *at = pattern_open(pattern, &is_not, &is_exact); at && !is_found;) {
		at = item_next(at, item);
		is_found = item_matches(item, is_exact, interface);
	}
	*is_named = !is_not;
	return is_found != is_not;
}

/* ---- choosing ---- */

/* 0: not at all. */
static uint32_t rank_of(const char *pattern, const struct interface *interface,
			const uint8_t peer[16])
{
	bool is_named;

	if (address_is_v4(interface->ip) != address_is_v4(peer) ||
	    !pattern_matches(pattern, interface, &is_named))
		return 0;
	if (interface->is_loopback && !is_named && !address_is_loopback(peer))
		return 0;
	if (is_in_network(peer, interface->ip, interface->prefix_bits))
		return 4;
	return interface->is_loopback || address_is_link_local(interface->ip) ? 1 : 2;
}

int interface_choose(const char *pattern, const struct interface *list, uint32_t count,
		     const uint8_t peer[16])
{
	uint32_t best = 0;
	int chosen = -1;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = rank_of(pattern, &list[i], peer);

		if (rank > best) {
			best = rank;
			chosen = (int)i;
		}
	}
	return chosen;
}

/* ---- this host ---- */

static uint32_t bits_of(const uint8_t *mask, uint32_t bytes)
{
	uint32_t bits = 0;

	while (bits < 8 * bytes && mask[bits / 8] & 0x80 >> bits % 8)
		bits++;
	return bits;
}

static bool interface_read(const struct ifaddrs *from, struct interface *to)
{
	uint16_t port;

	if (!from->ifa_addr || !(from->ifa_flags & IFF_UP))
		return false;
	snprintf(to->name, sizeof(to->name), "%s", from->ifa_name);
	to->is_loopback = from->ifa_flags & IFF_LOOPBACK;
	address_from_socket(from->ifa_addr, to->ip, &port);
	if (from->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *mask = (const void *)from->ifa_netmask;

		to->prefix_bits =
			MAPPED_BITS + (mask ? bits_of((const uint8_t *)&mask->sin_addr, 4) : 32);
		return true;
	}
	if (from->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *mask = (const void *)from->ifa_netmask;

		to->prefix_bits = mask ? bits_of(mask->sin6_addr.s6_addr, 16) : 128;
		return true;
	}
	return false;
}

uint32_t interface_list(struct interface list[INTERFACES_MAX])
{
	struct ifaddrs *all = NULL;
	uint32_t count = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *at = all; at && count < INTERFACES_MAX; at = at->ifa_next)
		count += interface_read(at, &list[count]);
	freeifaddrs(all);
	return count;
}

const char *interface_format(const struct interface *interface, char text[INTERFACE_TEXT_BYTES])
{
	char ip[INET6_ADDRSTRLEN];
	uint8_t plain[16];

	memcpy(plain, interface->ip, sizeof(plain));
	if (address_is_link_local(plain))
		plain[2] = plain[3] = 0;
	snprintf(text, INTERFACE_TEXT_BYTES, "%s %s", interface->name, address_to_text(plain, ip));
	return text;
}

bool interface_pick(const char *pattern, const uint8_t peer[16], uint8_t from[16],
		    char text[INTERFACE_TEXT_BYTES], char *why, size_t why_bytes)
{
	struct interface list[INTERFACES_MAX];
	uint32_t count = interface_list(list);
	int chosen = interface_choose(pattern, list, count, peer);
	size_t used;

	if (chosen >= 0) {
		memcpy(from, list[chosen].ip, 16);
		interface_format(&list[chosen], text);
		return true;
	}
	used = (size_t)snprintf(why, why_bytes,
				"TALLY_IFNAME=%.80s matches no %s address here:", pattern,
				address_is_v4(peer) ? "IPv4" : "IPv6");
	for (uint32_t i = 0; i < count && used < why_bytes; i++) {
		char one[INTERFACE_TEXT_BYTES];

		used += (size_t)snprintf(why + used, why_bytes - used, "%s %s", i ? "," : "",
					 interface_format(&list[i], one));
	}
	return false;
}
