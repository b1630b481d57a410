/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation.h - how an operation comes to be: a call's request is checked, made into a work, and enters
 * the communicator, where it gets its number. Between made and entered a group may hold it (group.c).
 */
#ifndef LIB_OPERATION_H
#define LIB_OPERATION_H

#include "lib/comm.h"

/* What a call asks for. */
struct request {
	const char *call; /* "tally_allreduce" */
	enum control_op_kind kind;
	const struct tally_buffer *buffers;
	size_t n;
	bool is_multi; /* texts say "buffers[i].send" */
	int dtype, op;
	uint32_t root; /* of kinds that have one */
	const struct tally_op_options *options;
	bool may_interrupt; /* a call that waits: it is called again then */
};

/* ---- request.c ---- */

/* Elements are added up, or the largest or smallest is found. */
bool request_is_sum(enum control_op_kind kind);
/* What sums are sent as: one of these, or none. */
#define REQUEST_FORMS (TALLY_OP_HALF | TALLY_OP_EXACT | TALLY_OP_STRICT)
bool request_has_one_form(uint32_t flags);

/* TALLY_OK, or what is wrong with it, said. No lock held. */
int request_check(struct tally_comm *comm, const struct request *request);

/* The exponent of LANES_FIXED for a scale above 0: only 1 to 254 is one (R-NUM-16). */
int request_exponent(double scale, uint32_t ranks);

/* ---- operation.c ---- */

/* A work that has everything but a number; NULL, said: out of memory. Lock held. */
struct tally_work *operation_make(struct tally_comm *comm, const struct request *request);

/* Lends the buffers, numbers the work and makes it outstanding; on failure (said) the work stays the
 * caller's. Lock held: numbers follow the order in which calls get here. */
int operation_enter(struct tally_comm *comm, struct tally_work *work, const char *call);

/* Checks, enters and waits; *number (may be NULL) is the operation's. No lock held. */
int operation_run(struct tally_comm *comm, const struct request *request, uint64_t *number);

/* TALLY_OK, or why no operation may start, said. Lock held. */
int operation_may_start(struct tally_comm *comm, const char *call);

/* What operation_start does first. */
int operation_check(struct tally_comm *comm, const struct request *request);

/* struct tally_comm's enter_held. */
void operation_enter_held(struct tally_comm *comm);

/* An i-call: checks, enters, or gathers in a group. *work is the caller's. */
int operation_start(struct tally_comm *comm, const struct request *request,
		    struct tally_work **work);

/* Says that the call would wait inside a group or an on_done function; TALLY_OK if it would not. */
int operation_may_wait(const struct tally_comm *comm, const char *call);

/* ---- collective.c: what is no allreduce and no barrier ---- */

/* Of a count: more elements than any address space holds; keeps all sums far from their wrap. */
enum { COLLECTIVE_COUNT_BITS = 45 };

/* Something of a call that is memory of the caller's. */
struct extent {
	const char *side; /* "send" */
	size_t idx;       /* of buffers */
	const void *at;
	uint64_t count; /* elements */
};
/* "send", or "buffers[3].send". */
const char *extent_name(const struct request *request, size_t idx, const char *side, char text[48]);
/* TALLY_OK, or what is wrong with it, said. */
int extent_check(const struct report_who *who, const struct request *request,
		 const struct extent *extent);

/* TALLY_OK, or what is wrong with its root, counts and memory, said. */
int collective_check(const struct tally_comm *comm, const struct request *request);
/* Its segments and parts, count and root; false: out of memory. */
bool collective_note(struct tally_comm *comm, struct tally_work *work,
		     const struct request *request);

#endif
