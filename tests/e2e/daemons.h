/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemons.h - for tests with daemons and workers as processes of this machine: one test a program, from test_begin to
 * test_end, with a folder of its own. What cannot be done ends the test with a sentence (test_fail): nothing here
 * returns an error, but where it says so. All processes end with the test, however that ends.
 */
#ifndef TESTS_E2E_DAEMONS_H
#define TESTS_E2E_DAEMONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { DAEMONS_MAX = 8, DAEMON_ADDRESS_BYTES = 64 };

/* The caller's, until test_end; zero before its first life. */
struct daemon {
	pid_t pid; /* 0: does not run */
	char address[DAEMON_ADDRESS_BYTES];
	char log[96]; /* what it says in this life; each has a file of its own */
};

/* ---- the test: name is borrowed until test_end ---- */

/* Makes the folder. */
void test_begin(const char *name);
/* Ends the daemons that still run, by SIGTERM, and removes the folder, which stays where it is if not is_well: there is
 * what they said. Returns what main shall return. */
int test_end(bool is_well);
/* Says what, and ends the test; in a child: the child. */
__attribute__((format(printf, 1, 2), noreturn)) void test_fail(const char *format, ...);
const char *test_folder(void);
/* Zeros that children share with the test, until it ends. */
void *test_shared(size_t bytes);
/* These keys are hot, in this order: writes them to a file, the same at each call, and returns its path. */
const char *test_map(uint32_t version, uint64_t *key, uint32_t keys);

/* ---- time: monotonic ---- */

uint64_t now_ms(void);
void sleep_ms(uint32_t ms);
void sleep_us(uint32_t us);

/* ---- workers ---- */

/* As fork, but it ends with its parent; never fails. A child ends with _exit. */
pid_t child(void);
/* pid[i] is a child that runs run(i), which does not return. */
void workers_start(pid_t *pid, uint32_t count, void (*run)(uint32_t idx));
/* Whether all end by themselves, and well, and the daemons go on. Says what else has happened; then those that are left
 * are killed. pid is all 0 afterwards. The test has no other children meanwhile. */
bool workers_join(pid_t *pid, uint32_t count, uint64_t until_ms);

/* ---- daemons ---- */

/* arguments[0] is the program, NULL the end. Returns when it has said "ready on ADDRESS". */
void daemon_start(struct daemon *daemon, const char *const *arguments, uint64_t until_ms);
/* It runs. Returns when it has ended. */
void daemon_end(struct daemon *daemon, int signal_number);
/* What follows the last `what` in the whole lines of this life, up to a comma, a blank or the line's end; NULL: it has
 * not said that. Valid until the next call. */
const char *daemon_said(const struct daemon *daemon, const char *what);
/* To be given to all its lives: the same address of loopback (IPv6: RANKS_FAMILY=6), at a port of ports.h. */
const char *daemon_address(struct daemon *daemon);

#endif
