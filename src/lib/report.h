/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what libtally says: the text of a thread's last error, and log lines with job, rank and
 * host, or one JSON object a line. Never stdout. Where stderr is closed, broken or full, lines are lost
 * and nothing else: no signal, no error, no wait. How many is said when there is room again.
 */
#ifndef LIB_REPORT_H
#define LIB_REPORT_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

enum { REPORT_TEXT_MAX = 1024 };

struct control_op;

/* Whose line it is; part of every communicator. */
struct report_who {
	char job[208];
	char host[65];
	uint32_t rank, size;
};

#define REPORT_FORMAT(text, first) __attribute__((format(printf, text, first)))

/* Keeps the text as the calling thread's last error, logs it at ERROR, returns `result`. who: NULL while
 * there is no communicator. */
int report_error(const struct report_who *who, int result, const char *format, ...)
	REPORT_FORMAT(3, 4);
/* The same text again, as this thread's last error, without a second log line. */
int report_again(int result, const char *text);
/* The calling thread's last error; "". */
const char *report_last(void);

void report_log(const struct report_who *who, int level, const char *format, ...)
	REPORT_FORMAT(3, 4);
/* The level that lines must have to be shown. */
int report_level(void);
/* As tally_set_log. */
int report_set(int level, tally_log_fn fn, void *arg);

/* Around a fork: no other thread is inside a log call then. */
void report_fork_prepare(void);
void report_fork_done(void);

/* Around writes of the calling thread to a pipe or socket that nobody may read: SIGPIPE would end the
 * program. It is blocked, and after a write that said EPIPE taken back, if it was ours. */
struct report_pipe {
	sigset_t before;
	bool is_ours;
};
void report_pipe_begin(struct report_pipe *guard);
void report_pipe_end(const struct report_pipe *guard, bool is_broken);

/* Types and operations by their numbers; "allreduce of 65 float32, sum". */
extern const char *const report_dtypes[TALLY_COMPLEX128 + 1], *const report_ops[TALLY_USER + 1];
extern const char *const report_kinds[];
const char *report_op(const struct control_op *op, char text[96]);

/* This host's name, at most 64 bytes. */
void report_host(char host[65]);

#endif
