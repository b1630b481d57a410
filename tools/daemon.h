/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h - what tallyd and tally-ps have in common around their rooms: how options are read, lines of log on stderr
 * and nowhere else, signals, descriptors.
 */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- options: daemon_options.c ---- */

struct opt_command;

/* Reads a daemon's command line, and the file of its --config before that, so that the command line wins wherever it
 * stands: lines of NAME=VALUE by the same table. What is said twice in one place is refused. What may be a key is not
 * shown. OPT_GO_ON, or the exit status, and stderr says why. */
int daemon_options_read(const struct opt_command *command, void *settings, int argc, char **argv);

/* Takes the one line of a key file; warns if everybody on this host may read that, once the log is open. NULL, or what
 * is wrong. */
const char *daemon_key(const char *path, char *key, size_t bytes, char *warning,
		       size_t warning_bytes);

/* Levels by their index, from the gravest one; for OPT_CHOICE. */
extern const char *const daemon_levels[];
#define DAEMON_LEVELS "error, warn, info or debug"

/* ---- the log: daemon_log.c ---- */

enum { DAEMON_LINE_BYTES = 1024 }; /* the longest */

/* Lines of this daemon from now on; *is_json, as it is then, says how. */
void daemon_log_open(const char *daemon, const bool *is_json);
/* A line, at a level's name: "" is whatever the level, for scripts wait for it. From any thread. */
void daemon_log(const char *level, const char *line);
/* Whom a line is about, as fields of JSON: in text the line says them. */
struct daemon_about {
	const char *table, *job; /* NULL: none */
	int rank;                /* -1: none */
};
void daemon_log_about(const char *level, const struct daemon_about *about, const char *line);
/* How many lines nobody has read so far, if any: at the end. */
void daemon_log_end(void);

/* ---- life: daemon.c ---- */

/* First of all. Who sends SIGUSR1, SIGUSR2 or SIGHUP has to wait until daemon_ready, and ends nothing. */
void daemon_begin(void);
/* Says that it is, where, and of how many of what ("shard"). From now on `handler` has these signals, SIGTERM and
 * SIGINT. */
void daemon_ready(void (*handler)(int), const char *address, uint32_t count, const char *of);
/* No handler may reach a server that is being freed. */
void daemon_end(void);

#endif
