/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h - MPI's collectives over tally, without a change of the program: LD_PRELOAD puts this library's MPI_Allreduce
 * and its kin before those of MPI, which stay reachable as PMPI_Allreduce. One source, built against each MPI.
 *
 * The rules that it keeps:
 * - All ranks of a communicator give a call to tally, or none does. So only what MPI promises to be equal on all ranks
 *   decides: kind, count, type and op of reductions, the root, and the bytes of what is moved. Whether a buffer is in
 *   place, aligned or contiguous is one rank's own affair: that rank copies.
 * - Whoever waits in tally lets MPI get on, too: another rank may wait for the rest of a message of ours, and calls the
 *   collective only then.
 * - A non-blocking call never waits for another rank. So the tally communicator is made in blocking calls.
 *
 * The files, each over those before it: settings (the environment), report (what was done, errors), poke (MPI's
 * progress), types, place (a communicator's tally), plan (a call as tally has it), pending (a request in flight),
 * lasting (persistent requests), call (who does it), entries (what programs call), waits, fortran.
 */
#ifndef TALLY_SHIM_H
#define TALLY_SHIM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tally.h>

/* What leaves the library. */
#define SHIM_API __attribute__((visibility("default")))

/* ---- settings ---- */

struct settings {
	uint64_t min_bytes; /* UINT64_MAX: not set */
	uint32_t is_all;    /* also what tally gathers instead of summing it on the way */
	uint32_t is_exact;
	uint32_t is_required; /* an aggregator that cannot be used is an error */
	uint32_t is_ordered;  /* all ranks start persistent requests in one order */
	bool is_eager;        /* non-blocking calls may make the tally communicator */
	int report;           /* 0: none, 1: rank 0's, 2: every rank's */
};

const struct settings *settings(void);

/* ---- what is called ---- */

enum kind {
	KIND_ALLREDUCE,
	KIND_REDUCE,
	KIND_REDUCE_SCATTER,
	KIND_REDUCE_SCATTER_BLOCK, /* those before it sum, those behind it move */
	KIND_BCAST,
	KIND_ALLGATHER,
	KIND_ALLGATHERV,
	KIND_BARRIER,
	KIND_COUNT
};

/* A call's arguments, of whatever kind. Counts of all ranks are of int, or MPI_Count in the calls whose names end in _c. */
struct call {
	enum kind kind;
	const void *send;
	void *recv; /* a broadcast's buffer, too */
	MPI_Count send_count;
	MPI_Datatype send_type; /* of gathers */
	MPI_Count count;
	MPI_Datatype type;
	const int *counts, *displs;
	const MPI_Count *counts_c;
	const MPI_Aint *displs_c;
	MPI_Op op;
	int root;
	MPI_Comm comm;
};

static inline MPI_Count call_count(const struct call *call, int rank)
{
	if (call->counts)
		return call->counts[rank];
	return call->counts_c ? call->counts_c[rank] : call->count;
}

static inline MPI_Aint call_displ(const struct call *call, int rank)
{
	return call->displs ? call->displs[rank] : call->displs_c[rank];
}

/* Why MPI does a call. */
enum why {
	WHY_NOT, /* tally does it */
	WHY_ARGUMENT,
	WHY_INTER,
	WHY_ALONE,
	WHY_HOST,
	WHY_SMALL,
	WHY_TYPE,
	WHY_OP,
	WHY_WRAPS,
	WHY_GATHERED,
	WHY_EARLY,
	WHY_ORDER,
	WHY_AGGREGATOR,
	WHY_SHIM,
	WHY_PROGRESS,
	WHY_COUNT
};

/* ---- report ---- */

void report_count(enum kind kind, enum why why, uint64_t bytes);
void report_print(int rank, int size);

/* One line on stderr. */
__attribute__((format(printf, 1, 2))) void report_say(const char *format, ...);

/* Says what is wrong here, in this library: the next report_code of this thread takes it. Returns the result. */
__attribute__((format(printf, 2, 3))) int report_fault(int result, const char *format, ...);

/* The code of an error for MPI's error handlers, whose text is that fault or tally's last. */
int report_code(enum kind kind, int result, struct tally_comm *comm);

/* ---- poke ---- */

bool poke_begin(void);
void poke_end(void);
/* Lets MPI get on with whatever it has to do. */
void poke(void);
/* Waits for the work, and lets MPI get on meanwhile. */
int poke_wait(struct tally_work **work);
/* The same as tally_options.interrupted. */
int poke_meanwhile(void *ctx);
/* This thread is not the program's: it does not enter MPI. */
void poke_never_here(void);
/* Can this MPI complete requests that are not its own? */
bool poke_can_ask(void);

/* ---- types ---- */

struct sum {
	int dtype, op;
	uint32_t width;    /* bytes of one of MPI's elements */
	uint32_t elements; /* of tally's in it */
};

/* How tally does this reduction; or why it does not. */
enum why types_sum(MPI_Datatype type, MPI_Op op, bool is_all, struct sum *sum);

/* Bytes of an element without gaps; the same for types that match. Negative: MPI does not know. */
MPI_Count types_bytes(MPI_Datatype type);

/* Do elements lie in memory one after the other, without gaps, in the type's order? */
bool types_is_plain(MPI_Datatype type);

/* ---- place ---- */

/* A communicator of MPI's, and its tally's. */
struct place {
	struct place *next;
	struct tally_comm *tally; /* NULL: not yet */
	MPI_Comm comm;            /* MPI_COMM_NULL: freed */
	int rank, size;
	enum why never; /* no call of this communicator is tally's */
	uint64_t min_bytes;
	bool is_all, is_exact, is_required, is_ordered, can_start;
	bool is_wanted;         /* a non-blocking call would have used it */
	_Atomic uint32_t users; /* MPI's communicator, and the plans */
};

/* The first call ever begins all there is. False: MPI is not to be had. */
bool place_begin(void);

/* The communicator's; NULL: it has none yet. may_greet: this call is a collective that may wait for the others, so it makes
 * one: they tell each other what they are set to. */
struct place *place_of(MPI_Comm comm, bool may_greet);

/* Makes the tally communicator, with all ranks of it. MPI's result; if it is no error, place->tally or place->never says
 * how it ended. */
int place_join(struct place *place, enum kind kind);

/* This rank cannot make a call that the others make: if they may wait for it, they are told. */
void place_give_up(struct place *place);

/* A plan uses it, and no longer does. */
void place_get(struct place *place);
void place_put(struct place *place);

/* ---- plan ---- */

/* A call as tally has it. */
struct plan {
	struct place *place;
	enum kind kind;
	int dtype, op;
	uint32_t root;
	const void *send;
	void *recv;
	size_t count;
	size_t *counts, *displs; /* of all ranks, NULL: none */

	/* Copies, where tally cannot use the program's memory; NULL: it can. */
	void *copied_send, *copied_recv;
	const void *from;            /* what is copied into copied_send before */
	void *to;                    /* where copied_recv goes afterwards */
	size_t from_bytes, to_bytes; /* of plain memory; else elements of a type: */
	MPI_Count from_count, to_count;
	MPI_Datatype from_type, to_type; /* MPI_DATATYPE_NULL: plain */
	MPI_Aint *to_displs;             /* bytes, of each rank's part; NULL: one after the other */
};

/* Fills plan in. 0, or an enum tally_result. */
int plan_make(struct plan *plan, const struct call *call, struct place *place);
void plan_free(struct plan *plan);

/* Copies what has to be copied and starts it. */
int plan_start(struct plan *plan, struct tally_work **work);
/* After a success: what tally has brought is where the program wants it. */
int plan_end(struct plan *plan);

/* ---- pending, lasting ---- */

/* Starts the plan as an MPI request. is_owned: it is freed with the request. 0, or an enum tally_result. */
int pending_start(struct plan *plan, bool is_owned, MPI_Request *request);

/* Completes the requests whose operations are over, and returns their number. MPI calls it while it waits. */
int pending_look(void);

/* A persistent request. While it is active, an inner one is in flight. */
struct lasting;

int lasting_make(struct plan *plan, MPI_Request *request);
/* NULL: it is none of ours. */
struct lasting *lasting_of(MPI_Request request);
int lasting_start(struct lasting *lasting);
void lasting_free(struct lasting *lasting);
/* The inner request; MPI_REQUEST_NULL: inactive. */
MPI_Request lasting_inner(const struct lasting *lasting);
void lasting_set(struct lasting *lasting, MPI_Request inner);

/* ---- call ---- */

/* Each true: tally has done it, and *code is MPI's result. False: MPI is to do it. */
bool call_now(const struct call *call, int *code);
bool call_start(const struct call *call, MPI_Request *request, int *code);
bool call_init(const struct call *call, MPI_Request *request, int *code);

/* ---- load ---- */

/* Ends the process if the program uses another MPI than this library is for. */
void load_check(void);

#endif
