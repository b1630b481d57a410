/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the aggregator as a library: one control thread (admission of jobs over TCP or an
 * abstract unix socket) and one thread per shard (the switch program over one UDP socket). tallyd is
 * flags, files and signals around it; libtally hosts one inside rank 0 (TALLY_AGGREGATOR=local).
 *
 * Its threads mask all signals, write nothing but through `log`, and touch no global state: several
 * servers may live in one process.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/chip.h"
#include "dataplane/hook.h"
#include "dataplane/link.h"

struct server;

enum {
	SERVER_PORT = 7171,
	SERVER_SHARDS_MAX = 64,
	SERVER_JOBS_MAX = 1024,
	SERVER_TABLES_MAX = 256,
	SERVER_ABORTED = 1,
	SERVER_TEXT_BYTES = 192
};

enum server_level { SERVER_ERROR, SERVER_WARN, SERVER_INFO, SERVER_DEBUG };

/* Whom a line is about: its text says that as well. */
struct server_about {
	const char *job; /* NULL: none */
	uint32_t rank;   /* SERVER_RANK_NONE: none in particular */
};
#define SERVER_RANK_NONE UINT32_MAX

/* What a line at SERVER_WARN begins with, behind its job, that tells of ranks which wait for one another and are not
 * ended: nobody else hears of it. */
#define SERVER_CROSSED_TEXT "TALLY_CROSSED=warn: "

/* One line without its newline, from the thread of server_run, server_open or server_close. */
typedef void server_log(void *arg, enum server_level level, const struct server_about *about,
			const char *line);

struct server_options;

/* From the thread of server_run, after server_reload: `options` are zero, and the key is what it was; fill in
 * what key, gather_ms and drain_ms are to be from now on, gather_ms above 0. False: all stays as it was. */
typedef bool server_read_again(void *arg, struct server_options *options);

/* Zero means "choose for me", but for the port and drain_ms. */
struct server_options {
	/* all zero ip: any address; port 0: the kernel chooses all ports */
	struct link_address listen;
	bool is_v6;             /* the family of control and shards */
	const char *local_name; /* listen on this abstract unix socket ("tally/UID/JOB", without
				     * the leading '@') instead of TCP; shards then use ports that the
				     * kernel chooses on the loopback address */
	uint32_t shards;        /* 1; shard k's UDP port is the control port + k */
	uint32_t lanes_max;     /* 4..16368, a multiple of 4; 360, if the members' MTU allows */
	uint32_t slots;         /* per job and shard; 704 */
	uint32_t window;        /* first window; a quarter of the bulk slots */
	uint32_t run;           /* packets in one message, 1..64; 44 */
	uint32_t jobs_max;      /* 64 */
	uint32_t tables_max;    /* 256, which is also the most */
	uint32_t
		registers; /* tables are summed as by a chip of so many, at most 1,024: R-CT-32; 0: not */
	uint32_t receive_bytes; /* receive buffer of each shard's socket; 16 MiB */
	uint64_t memory_max;    /* bytes of slots per job and shard; 64 MiB */
	uint64_t
		memory_total; /* of all jobs on one shard; what jobs_max of them take at most, or the shard's part of half of the
				 * host's memory, if that is less */
	uint32_t
		share; /* percent, 1..100 (no limit), of what others leave of jobs, tables, memory and
			 * connections that one address may have; 50 */
	uint64_t tables_memory; /* of all tables of one job, on all shards; 0: no limit */
	uint32_t heartbeat_ms;  /* a member silent for so long is dead; 10,000 */
	uint32_t gather_ms;     /* not all there after so long: ABORT; 300,000 */
	uint32_t drain_ms;      /* after server_drain, running jobs are aborted; 0: no limit */
	const char *key; /* every JOIN must say it, at most 127 bytes; NULL, "": none. Copied */
	hook_open_fn *hook_open; /* NULL: nothing is in the kernel, */
	const char *
		hook_devices; /* or, where packets come in by these, latency mode's slots are; NULL: what the dead have
				   * left there goes. Both must outlive the server; devices not with local_name */
	chip_open_fn *chip_open;  /* NULL: shards add up; else the one shard's chip does, */
	const char *chip_address; /* which is there. It must outlive the server */
	server_log *log;          /* NULL: silence */
	void *log_arg;
	server_read_again *read_again; /* NULL: server_reload does nothing. arg is log_arg */
};

/* Fills in listen and is_v6 from "host", "host:port", "[v6]:port"; SERVER_PORT if there is no port. 0,
 * -EINVAL (syntax), -ENOENT (no such host). */
int server_listen_parse(const char *text, struct server_options *options);

/* server_open binds all sockets and starts the shards' threads: from then on members can connect. On
 * success *server belongs to the caller until server_close. A negative errno, having logged why:
 * -EINVAL (an option), -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -ENOMEM, ... */
int server_open(struct server **server, const struct server_options *options);

/* Runs control in the calling thread until server_stop, or until server_drain is done. 0;
 * SERVER_ABORTED: jobs that still ran were aborted; a negative errno: the server itself broke. */
int server_run(struct server *server);

/* The same in a thread of its own, which server_close joins. 0 or a negative errno. */
int server_start(struct server *server);

/* No new jobs: gatherings and waiters are denied. Granted jobs end by themselves, or are aborted
 * after drain_ms; then server_run returns. From any thread or signal handler. */
void server_drain(struct server *server);

/* ABORT to all members; server_run returns at once. From any thread or signal handler. */
void server_stop(struct server *server);

/* Says at level info who holds what: a line for each job, then one that sums up. From any thread or
 * signal handler. */
void server_report(struct server *server);

/* Calls read_again, and does as it says: of those who JOIN later the new key is asked; who is in stays in. From
 * any thread or signal handler. */
void server_reload(struct server *server);

/* Waits, after server_start, until control has ended: true, or false after timeout_ms (UINT32_MAX: no
 * limit). libtally's rank 0 drains, then waits. */
bool server_wait(struct server *server, uint32_t timeout_ms);

/* Stops if need be, joins all threads, frees all. NULL is fine. Not while another thread is inside
 * server_run. */
void server_close(struct server *server);

/* Where control listens: "0.0.0.0:7171", "[::1]:7171"; "@NAME" with local_name. Returns text. */
const char *server_address(const struct server *server, char text[SERVER_TEXT_BYTES]);

/* In a forked child: closes the child's copies of the sockets, so that members notice the parent's death.
 * The server stays the parent's; nothing else may be called on it here. */
void server_forget(const struct server *server);

/* The port that control listens on (0 with local_name), and that of shard k. */
uint16_t server_port(const struct server *server);
uint16_t server_shard_port(const struct server *server, uint32_t shard);

#endif
