/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.c - a bare star over UDP: ranks send a small packet each to a hub, which adds up, and answers all when all have
 * come. No protocol, no second try: the least that 8 elements can take over these sockets, links and processors.
 *
 *   floor hub ADDRESS:PORT RANKS [POLLS]                    until it is killed; says "ready" on stderr
 *   floor rank ADDRESS:PORT RANK RANKS [POLLS] -- OPTION... as bench/peers/work.h has them; 8 elements at most
 *
 * POLLS (0): how often a wait polls and yields before it blocks, on both sides, as tally's do. 0: it blocks at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench/peers/work.h"

enum { LANES = 8, PATIENCE_S = 10, POLLS_MAX = 10000 };

struct packet {
	uint32_t rank, operation;
	int32_t lanes[LANES]; /* their bits, if they are floats */
};

struct star {
	int fd;
	uint32_t polls, operation;
};

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint32_t number_of(const char *text, uint32_t least, uint32_t most)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || number < least || number > most) {
		fprintf(stderr, "floor: %s: a number from %u to %u\n", text, least, most);
		exit(2);
	}
	return (uint32_t)number;
}

static struct sockaddr_in address_of(char *text)
{
	char *colon = strchr(text, ':');
	struct sockaddr_in at = { .sin_family = AF_INET };

	if (colon)
		*colon = '\0';
	if (!colon || !inet_aton(text, &at.sin_addr)) {
		fprintf(stderr, "floor: %s: not ADDRESS:PORT\n", text);
		exit(2);
	}
	at.sin_port = htons((uint16_t)number_of(colon + 1, 1, UINT16_MAX));
	return at;
}

static int socket_open(int is_patient)
{
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 ||
	    (!is_patient && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience))))
		fail("socket");
	return fd;
}

static void take(const struct star *star, struct packet *packet, struct sockaddr_in *from)
{
	socklen_t bytes = sizeof(*from);
	ssize_t got = -1;

	for (uint32_t i = 0; i < star->polls && got < 0; i++) {
		got = recvfrom(star->fd, packet, sizeof(*packet), MSG_DONTWAIT,
			       (struct sockaddr *)from, &bytes);
		if (got < 0)
			sched_yield();
	}
	if (got < 0)
		got = recvfrom(star->fd, packet, sizeof(*packet), 0, (struct sockaddr *)from,
			       &bytes);
	if (got != sizeof(*packet))
		fail("a packet was lost: there is no second try");
}

__attribute__((noreturn)) static void hub_run(const struct star *star, uint32_t ranks)
{
	struct sockaddr_in at[WORK_RANKS_MAX];
	struct iovec iov;
	struct mmsghdr out[WORK_RANKS_MAX];
	struct packet sum = { 0 }, in;
	uint32_t has = 0;

	memset(out, 0, sizeof(out));
	iov = (struct iovec){ .iov_base = &sum, .iov_len = sizeof(sum) };
	for (uint32_t i = 0; i < ranks; i++)
		out[i].msg_hdr = (struct msghdr){ .msg_name = &at[i],
						  .msg_namelen = sizeof(at[i]),
						  .msg_iov = &iov,
						  .msg_iovlen = 1 };
	fprintf(stderr, "floor: ready\n");
	for (;;) {
		struct sockaddr_in from;

		take(star, &in, &from);
		if (in.rank >= ranks)
			continue;
		at[in.rank] = from;
		if (!has++)
			memset(&sum, 0, sizeof(sum));
		sum.operation = in.operation;
		for (uint32_t i = 0; i < LANES; i++)
			sum.lanes[i] += in.lanes[i];
		if (has < ranks)
			continue;
		has = 0;
		if (sendmmsg(star->fd, out, ranks, 0) != (int)ranks)
			fail("send");
	}
}

static void exchange(const struct work_peer *peer, struct packet *packet)
{
	struct star *star = peer->own;
	struct sockaddr_in from;

	packet->rank = peer->rank;
	packet->operation = star->operation++;
	if (send(star->fd, packet, sizeof(*packet), 0) != sizeof(*packet))
		fail("send");
	take(star, packet, &from);
	if (packet->operation + 1 != star->operation)
		fail("an answer to another operation");
}

static void barrier(struct work_peer *peer)
{
	struct packet packet = { 0 };

	exchange(peer, &packet);
}

static void allreduce(struct work_peer *peer, uint32_t slot, void *out, void *in, size_t elements,
		      int is_float)
{
	struct packet packet = { 0 };

	(void)slot;
	if (elements > LANES || is_float) {
		fprintf(stderr, "floor: --elements 8 at most, --dtype int32\n");
		exit(2);
	}
	memcpy(packet.lanes, out, elements * sizeof(packet.lanes[0]));
	exchange(peer, &packet);
	memcpy(in, packet.lanes, elements * sizeof(packet.lanes[0]));
}

static int usage(void)
{
	fprintf(stderr, "usage: floor hub ADDRESS:PORT RANKS [POLLS]\n"
			"       floor rank ADDRESS:PORT RANK RANKS [POLLS] -- OPTION...\n"
			"A bare star over UDP; bench/compare --suite tiny runs it.\n");
	return 2;
}

static int rank_main(int argc, char **argv)
{
	struct star star = { .fd = socket_open(0) };
	struct work_peer peer = {
		.name = "floor", .own = &star, .barrier = barrier, .allreduce = allreduce
	};
	struct sockaddr_in hub;
	int at = 5;

	if (argc < 6)
		return usage();
	hub = address_of(argv[2]);
	peer.rank = number_of(argv[3], 0, WORK_RANKS_MAX - 1);
	peer.ranks = number_of(argv[4], peer.rank + 1, WORK_RANKS_MAX);
	if (strcmp(argv[at], "--"))
		star.polls = number_of(argv[at++], 0, POLLS_MAX);
	if (at >= argc || strcmp(argv[at], "--"))
		return usage();
	if (connect(star.fd, (struct sockaddr *)&hub, sizeof(hub)))
		fail("connect");
	return work_run(&peer, argc - at - 1, argv + at + 1);
}

int main(int argc, char **argv)
{
	struct star star = { 0 };
	struct sockaddr_in at;
	uint32_t ranks;

	if (argc > 1 && !strcmp(argv[1], "rank"))
		return rank_main(argc, argv);
	if (argc < 4 || argc > 5 || strcmp(argv[1], "hub"))
		return usage();
	at = address_of(argv[2]);
	ranks = number_of(argv[3], 1, WORK_RANKS_MAX);
	star.polls = argc == 5 ? number_of(argv[4], 0, POLLS_MAX) : 0;
	star.fd = socket_open(1);
	if (bind(star.fd, (struct sockaddr *)&at, sizeof(at)))
		fail("bind");
	hub_run(&star, ranks);
}
