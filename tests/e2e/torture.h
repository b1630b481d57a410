/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torture.h - what the kill test and the soak share: a real tallyd whose accounts can be asked for, and
 * sums whose every element is checked. Both are programs, not cmocka tests: they run for as long as told.
 */
#ifndef TESTS_E2E_TORTURE_H
#define TESTS_E2E_TORTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tally.h"
#include "util/rng.h"

/* ---- the daemon ---- */

struct daemon {
	const char *program;
	pid_t pid;
	int log_fd;
	uint16_t port;
	char address[32];  /* 127.0.0.1:PORT, or [::1]:PORT */
	char log[1 << 16]; /* what of its log has not been looked at */
	size_t log_used;
};

/* For main: true, having said so, if TORTURE_FAMILY=6 and this host has no IPv6: exit status 77. */
bool torture_lacks_family(void);

/* TORTURE_FAMILY=6. */
bool torture_is_v6(void);

/* What tallyd answers to SIGUSR1. */
struct holds {
	unsigned jobs, members, connections;
	unsigned long long bytes;
};

/* Starts program on 127.0.0.1:port, with TORTURE_FAMILY=6 in the environment on [::1]:port (0: one of
 * ports.h), and waits until it is ready. */
bool daemon_start(struct daemon *daemon, const char *program, uint16_t port);
/* Likewise, with further options up to a NULL, at most ten words. */
bool daemon_start_with(struct daemon *daemon, const char *program, uint16_t port,
		       const char *const *more);
/* False: no answer in 2 s. */
bool daemon_asks(struct daemon *daemon, struct holds *holds);
/* Asks until nobody holds anything, at most so long; false: *holds says what was left. */
bool daemon_is_empty(struct daemon *daemon, double patience_s, struct holds *holds);
/* Takes what it has logged by now: in a long run, or its pipe would be full one day. */
void daemon_listen(struct daemon *daemon);
uint64_t daemon_rss_kib(const struct daemon *daemon);
uint32_t daemon_descriptors(const struct daemon *daemon);
void daemon_kill(struct daemon *daemon);
/* SIGTERM; its exit status, or 128 + signal. */
int daemon_end(struct daemon *daemon);

/* ---- ranks ---- */

double now_s(void);
/* A process that dies with its parent; its stdin and stdout are its parent's, stderr too. */
pid_t fork_bound(void);
/* Waits for it until `until_s`; false: it runs on. */
bool child_wait(pid_t pid, double until_s, int *status);
/* Waits for it, and takes what the daemon logs, for as long as what `moved` returns changes at least once in
 * 5 minutes: a busy machine is slow, not still. False: it hung, and was killed. */
bool child_wait_moving(pid_t pid, struct daemon *daemon, uint64_t (*moved)(void), int *status);

enum { SUM_COUNT_MAX = 300000, SUM_WRONG = -1 };

/* One allreduce, int32 or float32, of a size that `seed` says, with inputs of both signs that differ by
 * rank and place; all results are whole numbers that both types hold. What the call returned; SUM_WRONG:
 * it succeeded with a wrong element. buffer: SUM_COUNT_MAX elements. */
int sum_verified(struct tally_comm *comm, uint32_t seed, int32_t *buffer);

/* An argument of the programs: a whole number, at least min. Anything else ends them with status 2. */
uint64_t argument(const char *name, const char *text, uint64_t min);

#endif
