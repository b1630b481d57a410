/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - a file that grows by records (record.h; docs/protocol.md, R-KV-24 to R-KV-27), and a thread that brings them to the disk: all that has come
 * while it waits for one fdatasync leaves with the next. Nothing here waits for the disk but log_close, log_turn,
 * and log_append while too much is waiting and the disk is in no trouble.
 *
 * When the disk is full, or fails, the thread says so and goes on trying, once a second, from the last byte that is
 * known to be there: what was appended stays in memory, nothing of it is durable, and who appends can see that, and
 * has to leave off in time (is_stuck). A file that was deleted is such a trouble too (ENOENT): it is looked at with
 * each write, and once a second, and so are those before it, until the caller needs them no more.
 */
#ifndef PS_LOG_H
#define PS_LOG_H

#include <stdint.h>

#include "ps/record.h"

struct log;

struct log_options {
	const char *path; /* borrowed until log_open returns */
	struct record_sum
		has;        /* whole records of the file, at its beginning: it is cut behind them */
	size_t waiting_max; /* bytes that wait to be written; 0: 256 MiB */
	/* From the log's thread: more is durable, or it is in trouble, or out of it. */
	void (*changed)(void *arg);
	void *arg;
};

struct log_state {
	uint64_t appended; /* bytes, ever, */
	uint64_t position; /* of which so many are durable, */
	uint64_t mark;     /* and the last mark among these */
	int trouble;       /* errno of the last try; 0: all is well */
	bool is_stuck; /* in trouble, and more waits than may: only what must not be missed is to be appended now */
};

/* 0, or -1 with a sentence that names the file. */
int log_open(struct log **log, const struct log_options *options, char error[PS_ERROR_MAX]);
/* Brings all to the disk, if that takes it, but does not wait for a disk that is in trouble. */
void log_close(struct log *log);

/* One record. `mark` is a number of the caller's that never falls; the position behind it, from log_open on.
 * Copies. */
uint64_t log_append(struct log *log, uint64_t mark, uint32_t type, const uint8_t *body,
		    uint32_t bytes);
struct log_state log_state(struct log *log);
/* What a trouble is, in words. */
const char *log_why(int trouble);

/* What is appended from now on goes into a new file, whose first record is the caller's next; positions go on. All
 * that came before is durable when this returns: *before. 0, or -1 with a sentence: it goes on with the old file. */
int log_turn(struct log *log, const char *path, struct record_sum *before,
	     char error[PS_ERROR_MAX]);
/* The file at `path` is one before the present one, of a life before this: it is looked at as well. 0, or -1 with a
 * sentence. */
int log_watch(struct log *log, const char *path, char error[PS_ERROR_MAX]);
/* Of the files before the present one none is needed any more: they may be deleted. (LOG_OLD_MAX of them are looked at,
 * the latest.) */
enum { LOG_OLD_MAX = 4 };
void log_forget(struct log *log);

#endif
