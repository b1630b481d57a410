/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.h - what tallyd and tally-ps have in common around their rooms: how options are read, lines of log on stderr
 * and nowhere else, descriptors.
 */
#ifndef TOOLS_DAEMON_H
#define TOOLS_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- options: daemon_options.c ---- */

/* Where a setting was: for messages. */
struct daemon_place {
	const char *file; /* NULL: the command line */
	uint32_t line;
};

struct option;

struct daemon_options {
	const char *name, *help;      /* "tallyd"; what --help prints */
	const struct option *options; /* of getopt_long; each one's val is a DAEMON_OPTION_* */
	const char *many;             /* the one that may be said again and again; NULL: none */
	/* Takes one setting. `value` is gone when it returns, and "" for a flag. 0, or the exit status, having said why. */
	int (*set)(void *settings, const struct daemon_place *place, const char *name,
		   const char *value);
	void *settings;
};

enum {
	DAEMON_OPTION_HELP = 1,
	DAEMON_OPTION_VERSION,
	DAEMON_OPTION_CONFIG,
	DAEMON_OPTION_SET,
	DAEMON_OPTIONS_MAX = 64
};

/* Files of --config first, so that the command line wins wherever they stand; anything said twice in one place is
 * refused. -1: go on; else the exit status, and stderr says why. */
int daemon_options_read(const struct daemon_options *options, int argc, char **argv);

/* Says on stderr, with its place, what is wrong with a setting. What may be a key is not shown. The exit status. */
int daemon_refuse(const char *daemon, const struct daemon_place *place, const char *name,
		  const char *value, const char *why);

/* Takes the one line of a key file; warns if everybody on this host may read that, once the log is open. 0, or the exit
 * status. */
int daemon_key(const char *daemon, const struct daemon_place *place, const char *path, char *key,
	       size_t bytes, char *warning, size_t warning_bytes);

/* A level by its name, from the gravest one: error, warn, info, debug. -1: none. */
int daemon_level(const char *name);
const char *daemon_level_name(int level);

/* ---- the log, descriptors: daemon_log.c ---- */

enum { DAEMON_LINE_BYTES = 1024 }; /* the longest */

/* Lines of this daemon from now on; *is_json, as it is then, says how. */
void daemon_log_open(const char *daemon, const bool *is_json);
/* A line, at a level's name: "" is whatever the level, for scripts wait for it. From any thread. */
void daemon_log(const char *level, const char *line);
/* Of a job and a rank of it, as fields of JSON: in text the line says them. NULL, -1: of none. */
void daemon_log_about(const char *level, const char *job, int rank, const char *line);
/* How many lines nobody has read so far, if any: at the end. */
void daemon_log_end(void);

/* Whoever starts us without a stderr must not find our lines in one of our files or sockets. */
void daemon_fill_standard(void);
/* A connection is a descriptor: as many as we are allowed to. */
void daemon_raise_limits(void);

#endif
