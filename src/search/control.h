/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - control as a model for bfs.h: the shipped admission and member around one job name, with
 * connections as queues of messages that may be cut, shards as queues of commands, and a data plane that
 * knows only who has sent what. What may happen at any time is said per row; what must happen, must happen
 * in whatever order: every run has to come to its end.
 *
 * Time is a choice: a heartbeat time passes in one TICK, which the machines' own clocks judge, for whoever
 * would not have sent a HEARTBEAT. Nothing else is ever late, except where nothing else can happen.
 */
#ifndef SEARCH_CONTROL_H
#define SEARCH_CONTROL_H

#include "search/bfs.h"

enum { CONTROL_PROCESSES = 4, CONTROL_RANKS = 3, CONTROL_SHARDS = 2, CONTROL_OPS = 2 };

/* What may happen; config.may says how often. */
enum control_fault {
	FAULT_KILL,      /* a process is gone, its connection ends */
	FAULT_CUT,       /* its host loses power: silence */
	FAULT_STOP,      /* SIGSTOP, perhaps SIGCONT later */
	FAULT_ABORT,     /* its user aborts */
	FAULT_BLOCK,     /* its UDP packets get no answer */
	FAULT_LATE,      /* the time to gather is over */
	FAULT_ASK,       /* STALL, though other things can still happen */
	FAULT_REFUSE,    /* a shard has no room */
	FAULT_AGG_KILL,  /* the aggregator is gone */
	FAULT_AGG_CUT,   /* its host loses power */
	FAULT_AGG_STOP,  /* it is stopped, perhaps continued */
	FAULT_AGG_START, /* one that has ended is started again */
	FAULT_TERM,      /* SIGTERM to it */
	FAULT_LIMIT,     /* it has to end at once, after SIGTERM or without */
	FAULT_EXPIRE,    /* an operation's deadline is over */
	FAULT_SECOND,    /* 2 s pass although a user could call, or go on */
	FAULT_MUTE,      /* its packets get lost from now on */
	FAULT_MISFIT,    /* it sends nothing but what no sound member sends */
	FAULT_DUMB,      /* it answers no QUERY any more */
	FAULT_UNHEARD,   /* its HELLO, or the answer, is lost */
	FAULT_END
};

/* What its processes have besides their one connection. */
enum control_second {
	SECOND_NONE,
	SECOND_AGGREGATOR, /* that has shards, too: one more connection, of the same communicator */
	SECOND_COMMUNICATOR, /* of the same processes, at the same aggregator */
	SECOND_PAIR,         /* the same of two, R-CT-58: each joins it when it likes, or never */
};

struct control_process {
	uint8_t rank, size;
	uint8_t after; /* 1 + the process that must have ended before: another life; 0: none */
	uint8_t list;  /* which list of aggregators it was given */
	uint8_t key;   /* 0: the aggregator's; 1: another */
	uint8_t slots, window; /* of latency mode; 0: dense mode */
	/* What it calls, one letter an operation: small letters are express, capitals bulk. NULL: "a" */
	const char *program;
};

struct control_config {
	uint32_t processes, shards;
	struct control_process process[CONTROL_PROCESSES];
	uint8_t life;     /* the job belongs to one */
	uint8_t second;   /* enum control_second */
	bool is_launched; /* the job's name is a launcher's: R-CT-23 */
	bool has_clock;   /* seconds pass: R-CT-43 and R-CT-44 */
	bool is_local;    /* rank 0 is said to host the aggregator: R-CT-27 */
	bool is_paged;    /* an OPINFO lists one operation, and says that there are more */
	bool is_cut;      /* the aggregator compares one operation at a time */
	uint8_t may[FAULT_END];
	uint32_t causes; /* bit 1 << enum control_cause: how members may fail */
};

void control_model(struct bfs_model *model, const void *config);

#endif
