/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - one shard: a thread that polls one engine on one UDP socket. It shares no memory with
 * control: commands go in and events come out through two queues (queue.h), in order.
 */
#ifndef SERVER_SHARD_H
#define SERVER_SHARD_H

#include "dataplane/engine_soft.h"
#include "dataplane/link.h"

struct shard;

enum {
	SHARD_TABLES_MAX = 256,
	SHARD_COMMANDS = 4096, /* > 3 commands under way for each of 1,024 jobs and 256 tables */
	SHARD_EVENTS = 8192,   /* acknowledgements of all of these always fit */
};
_Static_assert(SHARD_COMMANDS > 3 * (SWITCH_JOBS_MAX + SHARD_TABLES_MAX),
	       "control never waits for a shard");
_Static_assert(SHARD_EVENTS >= 2 * SHARD_COMMANDS, "a shard never waits for control");

enum shard_command_type {
	SHARD_JOB_ADD,
	SHARD_JOB_SET,
	SHARD_JOB_REMOVE,
	SHARD_REPORT,
	SHARD_TABLE_ADD, /* from here on `job` is the index of a table of sparse mode */
	SHARD_TABLE_BEAT,
	SHARD_TABLE_REMOVE,
	SHARD_STOP
};

/* The children's nonces with what the engine wants to know of a job. */
struct shard_job {
	struct engine_job engine;
	uint8_t nonces[SWITCH_CHILDREN_MAX][WIRE_NONCE_BYTES];
};

/* The same for a table: its workers' nonces and its server's. */
struct shard_table {
	struct engine_sparse_table engine;
	uint8_t nonces[SWITCH_CHILDREN_MAX + 1][WIRE_NONCE_BYTES];
};

/* What a shard has counted so far. */
struct shard_report {
	struct engine_stats stats;
	struct engine_sparse_stats tables;
};

struct shard_command {
	enum shard_command_type type;
	uint16_t job;
	uint16_t lanes;              /* JOB_SET */
	uint32_t generation;         /* comes back in the acknowledgement */
	uint64_t table_generation;   /* TABLE_BEAT: that its server has named; 0: none yet */
	struct shard_job *add;       /* JOB_ADD: malloc'd, the shard's from now on */
	struct shard_table *table;   /* TABLE_ADD: likewise */
	struct shard_report *report; /* REPORT: lent until it is acknowledged */
};

enum shard_event_type {
	SHARD_ACK,    /* `command` of `job` and `generation` is done; `result` is the engine's */
	SHARD_NOTICE, /* the engine has seen something; may be lost if control is slow: what matters is
		       * seen again */
	SHARD_DEAD, /* the kernel receives no more on its socket: `result`; commands are still obeyed */
	SHARD_HOOK, /* `hook` */
	SHARD_CHIP, /* `chip`, in words: `text` */
};

struct shard_event {
	enum shard_event_type type;
	enum shard_command_type command;
	uint16_t job;
	uint32_t generation;
	int result;
	uint64_t instance, table_generation; /* TABLE_BEAT: of the table; 0: none */
	uint64_t memory_used, memory_max;    /* TABLE_BEAT: of the shard */
	uint64_t parts;                      /* TABLE_BEAT: that the table has sent */
	struct engine_job_stats totals;      /* JOB_REMOVE: of the job that was there */
	struct engine_event notice;
	struct hook_news hook;
	enum chip_news chip;
	char *text; /* of a chip: why a command or UNWRITTEN has failed, or what is new; malloc'd, control's from now on; NULL: none */
};

struct shard_options {
	struct link_address local; /* port 0: the kernel chooses */
	bool is_v6;
	uint32_t index; /* for the thread's name */
	int receive_bytes;
	uint64_t memory_max; /* of all jobs and tables */
	uint32_t jobs_max;
	uint32_t registers;      /* as engine_sparse_options has it */
	int wake_fd;             /* an eventfd that is written when events wait; borrowed */
	hook_open_fn *hook_open; /* NULL: it is nobody's matter what is in the kernel */
	const char *hook_devices;
	char *hook_error; /* HOOK_ERROR_BYTES: why it could not be opened, if that is why shard_open failed */
	chip_open_fn *chip_open; /* NULL: the shard adds up, */
	const char *chip_address;
	char *chip_error; /* CHIP_ERROR_BYTES; likewise */
};

/* shard_open binds the socket and starts the thread. A negative errno if it cannot. */
int shard_open(struct shard **shard, const struct shard_options *options);
/* Stops and joins the thread, frees all. NULL is fine. *stats and *tables, unless NULL, get the last word. */
void shard_close(struct shard *shard, struct engine_stats *stats,
		 struct engine_sparse_stats *tables);

/* From the control thread only. */
void shard_send(struct shard *shard, const struct shard_command *command);
bool shard_receive(struct shard *shard, struct shard_event *event);

/* What its chip takes; NULL: it has none. */
const struct chip_profile *shard_profile(const struct shard *shard);
uint16_t shard_port(const struct shard *shard);
uint64_t shard_memory_used(
	const struct shard *shard); /* bytes of slots and tables, after the last command */
uint32_t shard_receive_bytes(const struct shard *shard); /* SO_RCVBUF as the kernel tells it */

#endif
