/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - see proxy.h. One loop over poll; a flow is one TCP connection or one UDP sender. */
#include "proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

enum { FLOWS_MAX = 64, OWN = 2, DATAGRAM_MAX = 65536, OLD_MAX = 512, BUFFER = 4 << 20 };

/* Ranks reach us over either family, we the aggregator over IPv4. */
union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* fd[0] leads to the rank (UDP: the common socket), fd[1] to the aggregator. */
struct flow {
	bool is_udp, is_over, is_frozen;
	uint32_t rank; /* as JOIN or HELLO says; PROXY_ALL: not known yet */
	int fd[2];
	union address client;
};

static struct flow flows[FLOWS_MAX];
static int flows_count;
static struct proxy_orders *orders;
static union address here, there;
static int listener, datagrams;

/* What went up, for ever: of lives that have ended, too. */
static struct {
	uint8_t *bytes;
	size_t count;
} old[OLD_MAX];
static uint32_t old_next, old_repeated;

static socklen_t length_of(const union address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

static int socket_of(int family, int type, const union address *bound)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0), one = 1, bytes = BUFFER;

	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (type == SOCK_DGRAM && setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bound && bind(fd, &bound->any, length_of(bound)))
		exit(4);
	return fd;
}

static struct flow *flow_new(bool is_udp, int front)
{
	struct flow *flow = &flows[flows_count];

	if (flows_count == FLOWS_MAX)
		exit(5);
	*flow = (struct flow){ .is_udp = is_udp, .fd = { front, -1 }, .rank = PROXY_ALL };
	flow->fd[1] = socket_of(AF_INET, is_udp ? SOCK_DGRAM : SOCK_STREAM, NULL);
	if (connect(flow->fd[1], &there.any, length_of(&there)))
		flow->is_over = true;
	flows_count++;
	return flow;
}

/* All ranks are on this host: the port tells them apart. */
static bool is_same(const union address *a, const union address *b)
{
	return a->any.sa_family == AF_INET6
		       ? a->v6.sin6_port == b->v6.sin6_port
		       : a->v4.sin_port == b->v4.sin_port &&
				 a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

static struct flow *flow_of(const union address *client)
{
	struct flow *flow;

	for (int i = 0; i < flows_count; i++)
		if (flows[i].is_udp && is_same(&flows[i].client, client))
			return &flows[i];
	flow = flow_new(true, datagrams);
	flow->client = *client;
	return flow;
}

/* Do the orders mean this one? */
static bool is_meant(const struct flow *flow)
{
	return orders->rank == PROXY_ALL || orders->rank == flow->rank;
}

static bool passes(const struct flow *flow, size_t bytes)
{
	bool is_long = orders->udp_bytes_max && bytes > orders->udp_bytes_max;
	bool is_stopped = is_meant(flow) && (orders->is_udp_blocked || is_long);

	if (is_stopped)
		orders->udp_dropped++;
	return !is_stopped;
}

/* An old datagram, on the way of a new one: its sender's address is right. */
static void repeat(const struct flow *flow)
{
	uint32_t i = old_repeated++ % OLD_MAX;

	if (old[i].bytes && send(flow->fd[1], old[i].bytes, old[i].count, 0) > 0)
		orders->repeated++;
}

static void keep(const uint8_t *bytes, size_t count)
{
	uint32_t i = old_next++ % OLD_MAX;

	free(old[i].bytes);
	old[i].bytes = malloc(count);
	old[i].count = count;
	if (old[i].bytes)
		memcpy(old[i].bytes, bytes, count);
}

static void datagrams_up(void)
{
	static uint8_t bytes[DATAGRAM_MAX];
	union address client;
	socklen_t length = sizeof(client);
	ssize_t got;

	while ((got = recvfrom(datagrams, bytes, sizeof(bytes), MSG_DONTWAIT, &client.any,
			       &length)) >= 0) {
		struct flow *flow = flow_of(&client);

		if (flow->rank == PROXY_ALL && got >= 16)
			flow->rank = (uint32_t)bytes[14] << 8 | bytes[15];
		if (!passes(flow, (size_t)got))
			continue;
		if (orders->is_repeating)
			repeat(flow);
		else
			keep(bytes, (size_t)got);
		(void)!send(flow->fd[1], bytes, (size_t)got, 0);
	}
}

static void datagrams_down(const struct flow *flow)
{
	static uint8_t bytes[DATAGRAM_MAX];
	ssize_t got;

	while ((got = recv(flow->fd[1], bytes, sizeof(bytes), MSG_DONTWAIT)) >= 0)
		if (passes(flow, (size_t)got))
			(void)!sendto(datagrams, bytes, (size_t)got, 0, &flow->client.any,
				      length_of(&flow->client));
}

/* As long as it was: frames are counted. */
static void version_set(char *text, const char *words)
{
	char *at = strstr(text, words);

	if (at)
		at[strlen(words) - 1] = '9';
}

/* One direction of a connection; its end is passed on. */
static void stream(struct flow *flow, int from)
{
	char bytes[4097];
	ssize_t got = recv(flow->fd[from], bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
	const char *rank;

	bytes[got > 0 ? got : 0] = 0;
	rank = got > 4 ? strstr(bytes + 4, "\"rank\":") : NULL; /* 4: the length */
	if (rank && from == 0 && flow->rank == PROXY_ALL)
		flow->rank = (uint32_t)atoi(rank + 7);
	orders->has_joined |= rank && from == 0 && is_meant(flow);
	if (rank && from == 0 && orders->is_future && is_meant(flow)) {
		version_set(bytes + 4, "\"version_min\":3");
		version_set(bytes + 4, "\"version_max\":3");
	}
	if (got > 0 && send(flow->fd[!from], bytes, (size_t)got, MSG_NOSIGNAL) == got)
		return;
	flow->is_over = true;
	close(flow->fd[0]);
	close(flow->fd[1]);
}

static void serve(const struct pollfd *polls)
{
	int count = flows_count;

	if (polls[0].revents) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && flow_new(false, fd)->is_over)
			close(fd);
	}
	if (polls[1].revents)
		datagrams_up();
	for (int i = 0; i < count; i++) {
		for (int from = 0; from < 2; from++) {
			if (!polls[OWN + 2 * i + from].revents || flows[i].is_over)
				continue;
			if (flows[i].is_udp)
				datagrams_down(&flows[i]);
			else
				stream(&flows[i], from);
		}
	}
}

static void proxy_main(void)
{
	for (;;) {
		struct pollfd polls[OWN + 2 * FLOWS_MAX];

		for (int i = 0; i < flows_count && orders->is_frozen; i++)
			flows[i].is_frozen |= is_meant(&flows[i]);
		orders->is_frozen = false;
		polls[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
		polls[1] = (struct pollfd){ .fd = datagrams, .events = POLLIN };
		for (int i = 0; i < flows_count; i++) {
			bool is_open = (!orders->is_tcp_blocked || !is_meant(&flows[i])) &&
				       !flows[i].is_frozen;
			bool is_used = !flows[i].is_over && (flows[i].is_udp || is_open);

			polls[OWN + 2 * i] = (struct pollfd){ .fd = is_used && !flows[i].is_udp
									    ? flows[i].fd[0]
									    : -1,
							      .events = POLLIN };
			polls[OWN + 2 * i + 1] =
				(struct pollfd){ .fd = is_used ? flows[i].fd[1] : -1,
						 .events = POLLIN };
		}
		if (poll(polls, (nfds_t)(OWN + 2 * flows_count), 20) > 0)
			serve(polls);
	}
}

struct proxy *proxy_shared(void)
{
	struct proxy *proxy = mmap(NULL, sizeof(*proxy), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return proxy == MAP_FAILED ? NULL : proxy;
}

bool proxy_start(struct proxy *proxy, const char *aggregator)
{
	pid_t parent = getpid(), pid;
	uint16_t port = (uint16_t)atoi(strrchr(aggregator, ':') + 1);
	int fds[2];
	char byte;

	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (orders == MAP_FAILED || pipe(fds))
		return false;
	*proxy = (struct proxy){ .orders = orders };
	orders->rank = PROXY_ALL;
	there.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	here.v4 = there.v4;
	there.v4.sin_addr.s_addr = htonl(0x7f000001);
	here.v4.sin_addr.s_addr = htonl(0x7f000002);
	if (ranks_family() == 6)
		here.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						 .sin6_port = htons(port),
						 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	snprintf(proxy->address, sizeof(proxy->address), "%s:%u",
		 ranks_family() == 6 ? "[::1]" : "127.0.0.2", port);
	fflush(NULL);
	pid = fork(); /* not into shared memory: the child would write there, too */
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		listener = socket_of(here.any.sa_family, SOCK_STREAM, &here);
		datagrams = socket_of(here.any.sa_family, SOCK_DGRAM, &here);
		if (listen(listener, 64) || write(fds[1], "r", 1) != 1)
			_exit(4);
		proxy_main();
	}
	proxy->pid = pid;
	close(fds[1]);
	byte = 0;
	(void)!read(fds[0], &byte, 1);
	close(fds[0]);
	return byte == 'r';
}

void proxy_end(struct proxy *proxy)
{
	int status;

	kill(proxy->pid, SIGKILL);
	waitpid(proxy->pid, &status, 0);
	munmap(proxy->orders, sizeof(*proxy->orders));
}
