/* SPDX-License-Identifier: Apache-2.0 */
/*
 * star.c - what the machine can do without tally: ranks send runs of packets as large as tally's over UDP, one run at a
 * time, and a process in their midst sends each run to all when all have sent theirs. No sums, no protocol, no second
 * try. Prints how many microseconds the fastest hundredth of the rounds took rank 0; floor.sh compares. Exit status 77: not
 * with this kernel.
 *
 * Usage: star RANKS ELEMENTS ROUNDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	LANES = 360,
	PACKET_BYTES = 24 + 4 * LANES,
	RUN = 44, /* packets: a datagram's worth of bytes */
	RUNS_MAX = 64,
	RANKS_MAX = 2, /* whose runs a socket's buffer, as it comes, has room for */
	PATIENCE_S = 10
};

struct run {
	uint32_t rank, index;
	uint8_t rest[RUN * PACKET_BYTES - 8];
};

static struct run run;

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "star: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int socket_open(struct sockaddr_in *at)
{
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), segment = PACKET_BYTES, yes = 1;
	socklen_t bytes = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof(*at)) ||
	    getsockname(fd, (struct sockaddr *)at, &bytes))
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) ||
	    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &yes, sizeof(yes)))
		exit(77);
	return fd;
}

static size_t run_take(int fd, struct sockaddr_in *from)
{
	socklen_t bytes = sizeof(*from);
	ssize_t got = recvfrom(fd, &run, sizeof(run), 0, (struct sockaddr *)from, &bytes);

	if (got <= 0)
		fail("nothing comes");
	return (size_t)got;
}

/* Until it is killed. */
__attribute__((noreturn)) static void aggregate(int fd, uint32_t ranks)
{
	static struct sockaddr_in at[RANKS_MAX];
	static uint32_t has[RUNS_MAX];

	for (;;) {
		struct sockaddr_in from;
		size_t bytes = run_take(fd, &from);

		at[run.rank] = from;
		if (++has[run.index] < ranks)
			continue;
		has[run.index] = 0;
		for (uint32_t k = 0; k < ranks; k++)
			if (sendto(fd, &run, bytes, 0, (struct sockaddr *)&at[k], sizeof(at[k])) <
			    0)
				fail("send");
	}
}

static void round_do(int fd, uint32_t rank, uint32_t packets)
{
	struct sockaddr_in from;

	for (uint32_t i = 0; i * RUN < packets; i++) {
		uint32_t count = packets - i * RUN < RUN ? packets - i * RUN : RUN;

		run.rank = rank;
		run.index = i;
		if (send(fd, &run, (size_t)count * PACKET_BYTES, 0) < 0)
			fail("send");
		if (run_take(fd, &from) != (size_t)count * PACKET_BYTES)
			fail("a run was cut");
	}
}

static int by_value(const void *a, const void *b)
{
	const double *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static void rank_run(uint32_t rank, const struct sockaddr_in *to, uint32_t packets, uint32_t rounds)
{
	double *took_us = calloc(rounds, sizeof(*took_us));
	struct sockaddr_in at;
	int fd = socket_open(&at);

	if (!took_us || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		fail("connect");
	for (uint32_t i = 0; i < rounds; i++) {
		struct timespec begin, end;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		round_do(fd, rank, packets);
		clock_gettime(CLOCK_MONOTONIC, &end);
		took_us[i] = 1e6 * (double)(end.tv_sec - begin.tv_sec) +
			     1e-3 * (double)(end.tv_nsec - begin.tv_nsec);
	}
	qsort(took_us, rounds, sizeof(*took_us), by_value);
	if (!rank)
		printf("%.1f\n", took_us[rounds / 100]);
	free(took_us);
	close(fd);
}

int main(int argc, char **argv)
{
	uint32_t ranks, packets, rounds;
	struct sockaddr_in at;
	pid_t pid[RANKS_MAX];
	int fd, status;

	if (argc != 4)
		return 2;
	ranks = (uint32_t)atoi(argv[1]);
	packets = ((uint32_t)atoi(argv[2]) + LANES - 1) / LANES;
	rounds = (uint32_t)atoi(argv[3]);
	if (!ranks || ranks > RANKS_MAX || !packets || packets > RUN * RUNS_MAX || !rounds)
		return 2;
	fd = socket_open(&at);
	for (uint32_t i = 0; i < ranks;
	     i++) { /* the first is the one in their midst, rank 0 is this one */
		pid[i] = fork();
		if (pid[i] < 0)
			fail("fork");
		if (pid[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!i)
			aggregate(fd, ranks);
		rank_run(i, &at, packets, rounds);
		exit(0);
	}
	rank_run(0, &at, packets, rounds);
	for (uint32_t i = 1; i < ranks; i++)
		if (waitpid(pid[i], &status, 0) != pid[i] || status)
			return 1;
	kill(pid[0], SIGKILL);
	waitpid(pid[0], &status, 0);
	return 0;
}
