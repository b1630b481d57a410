/* SPDX-License-Identifier: Apache-2.0 */
/* ports.c - see ports.h. */
#include "ports.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 20000, TRIES = 100 };

static bool is_free(uint16_t port, bool is_v6, int kind)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT,
				   .sin6_port = htons(port) };
	const struct sockaddr *at = is_v6 ? (const void *)&v6 : (const void *)&v4;
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, kind | SOCK_CLOEXEC, 0);
	bool is = fd >= 0 && !bind(fd, at, is_v6 ? sizeof(v6) : sizeof(v4));

	close(fd);
	return is;
}

/* The first port that sockets get which ask for any; 0: it is not known. */
static uint32_t any_begins(void)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
	uint32_t begin = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%" SCNu32, &begin) != 1)
		begin = 0;
	fclose(file);
	return begin;
}

uint16_t port_free(bool is_v6)
{
	uint32_t end = any_begins();

	for (uint32_t i = 0; i < TRIES && end > FIRST; i++) {
		uint16_t draw;

		if (getrandom(&draw, sizeof(draw), 0) != sizeof(draw))
			break;
		draw = (uint16_t)(FIRST + draw % (end - FIRST));
		if (is_free(draw, is_v6, SOCK_DGRAM) && is_free(draw, is_v6, SOCK_STREAM))
			return draw;
	}
	return 0;
}
