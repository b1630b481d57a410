/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed.h - processes that wait for one another in several communicators: each of these alone sees somebody who is
 * late, and together they wait for ever. What every round (R-CT-36) has heard is kept in a view, one for each job of
 * an aggregator; a look at all views finds the processes that can never go on. docs/protocol.md, R-CT-45 to R-CT-48.
 *
 * A process goes on if one of its threads does. A thread that waits for an operation goes on if everybody has called
 * it. So a set of processes is stuck for ever if all threads of each wait, and each of these waits is for somebody in
 * the set. The largest such set is what is left when whoever may go on is taken out, again and again: one who
 * computes, whoever waits for nobody but him, and so on. What is left has a cycle.
 *
 * Views are of different times. But who says the same entries twice, with all its threads in waits, has been in these
 * waits from the first time to the last; and who waits for somebody is in one view with him.
 *
 * No I/O, no clock, no allocation; memory is the caller's. Nothing that a member says is trusted: at worst its own
 * process is taken for stuck, or no verdict is found.
 */
#ifndef CORE_CROSSED_H
#define CORE_CROSSED_H

#include "core/job/control.h"

enum {
	CROSSED_RECORDS_MAX = 1 << 14, /* ranks of all views that a look can take in */
	CROSSED_WORK_MAX = 1 << 23,    /* of these, looked at in one look: then it gives up */
	CROSSED_EDGES_MAX = 6,         /* of a cycle that are named */
};
static const uint64_t CROSSED_FRESH_NS = 2500000000; /* STALL comes each second: one may be late */

/* What a rank says in OPINFO. */
struct crossed_said {
	uint64_t process; /* 0: not known, it may always go on */
	uint64_t entries; /* changes with whatever a thread begins or ends to do: R-CT-45 */
	uint64_t submitted;
	uint64_t waits;   /* the least number that one of the blocked waits for */
	uint32_t threads; /* that could call something; 0: not known */
	uint32_t blocked; /* of them, those that wait in this communicator */
	uint8_t is_there; /* it was asked, and has answered */
	uint8_t is_warn;  /* its user wants a warning, and no end */
	uint8_t reserved[6];
};

struct crossed_member {
	struct crossed_said next; /* of the round that is under way */
	struct crossed_said said; /* of the last one that is complete */
	uint64_t since_ns;        /* when it first said these entries and threads */
	uint8_t is_asked;
	uint8_t reserved[7];
};

struct crossed_view {
	uint64_t next_ns, asked_ns; /* when the QUERYs of `next` and of `said` went out */
	uint64_t least;             /* a look's own */
	uint32_t round;             /* of `next` */
	uint16_t size;
	uint16_t asked, answered; /* of `next` */
	uint8_t has_said;
	uint8_t is_crossed; /* by the last look: this communicator is to end */
	struct crossed_member member[];
};

size_t crossed_view_bytes(uint16_t size);
/* crossed_view_init begins a life of a job: nothing was heard. */
void crossed_view_init(struct crossed_view *view, uint16_t size);

/* A QUERY goes to `rank`. The first one of a round ends the round before. */
void crossed_ask(struct crossed_view *view, uint32_t round, uint16_t rank, uint64_t now_ns);
/* Its OPINFO has come. True if it was the last one, and a look may find more than before. */
bool crossed_answer(struct crossed_view *view, uint16_t rank, const struct control_opinfo *info,
		    uint64_t now_ns);

/* In view `view`, `rank` waits in operation `number` for `missing`, which has not called it. */
struct crossed_edge {
	uint32_t view;
	uint16_t rank, missing;
	uint64_t number;
};

/* A cycle: `missing` of each edge is the process that the next one's `rank` is; of the last, the first one's. */
struct crossed_cycle {
	uint32_t edges_count; /* in all; so many are here: */
	struct crossed_edge edges[CROSSED_EDGES_MAX];
	uint64_t token; /* the same as long as nothing moves */
	bool is_warn;   /* one of its processes wants no end */
};

/* What a look needs, besides. */
struct crossed_look {
	uint32_t count; /* records */
	uint32_t work;
	uint32_t found;     /* records that there are; count: that there is room for */
	uint32_t processes; /* of the records */
	bool has_given_up;  /* there are more, or too much work: nobody was looked for */
	struct crossed_record {
		uint32_t view;
		uint16_t rank;
		uint16_t process;
	} record[CROSSED_RECORDS_MAX]; /* by process */
	struct crossed_process {
		uint32_t first; /* of its records */
		uint8_t is_stuck;
		uint8_t is_warn;
	} process[CROSSED_RECORDS_MAX];
};

/* Looks at all views; NULL is none. True: *cycle was found, of processes that have said the same for `confirm_ns`, at
 * least CROSSED_FRESH_NS; is_crossed says which communicators it goes through. False: none, or it has given up. */
bool crossed_find(struct crossed_look *look, struct crossed_view *const *views, uint32_t count,
		  uint64_t now_ns, uint64_t confirm_ns, struct crossed_cycle *cycle);

/* For whom the process of `rank` of view `of` waits in turn, in another communicator; false: for nobody that is known. */
bool crossed_follow(struct crossed_view *const *views, uint32_t count, uint32_t of, uint16_t rank,
		    uint64_t now_ns, struct crossed_edge *edge);

#endif
