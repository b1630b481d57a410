/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.h - a bad network between ranks and their aggregator, without any privilege: a process that
 * forwards 127.0.0.2, or with RANKS_FAMILY=6 ::1, to 127.0.0.1, TCP and UDP on the same ports, and
 * stops, drops or repeats when told.
 */
#ifndef TESTS_E2E_PROXY_H
#define TESTS_E2E_PROXY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROXY_ALL = 0xffffffff };

/* In shared memory: may be changed at any time, by any process. */
struct proxy_orders {
	volatile uint32_t rank;       /* whom the next three are about; PROXY_ALL */
	volatile bool is_tcp_blocked; /* connections stay open, nothing passes */
	volatile bool is_udp_blocked;
	volatile uint32_t udp_bytes_max; /* longer datagrams are dropped; 0: none */
	volatile bool
		is_frozen; /* those of `rank` that are there now are cut for ever, without a word */
	volatile bool is_future;    /* its JOIN says that it speaks version 9 */
	volatile bool is_repeating; /* with every datagram up, an old one goes up the same way */
	volatile bool has_joined;   /* a JOIN of `rank` has come */
	volatile uint64_t repeated;
	volatile uint64_t udp_dropped;
};

struct proxy {
	struct proxy_orders *orders;
	pid_t pid;
	char address[32]; /* 127.0.0.2:PORT or [::1]:PORT */
};

/* Memory for one that processes forked later see, too. NULL: none. */
struct proxy *proxy_shared(void);

/* aggregator: 127.0.0.1:PORT. */
bool proxy_start(struct proxy *proxy, const char *aggregator);
void proxy_end(struct proxy *proxy);

#endif
