/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_soft.h - runs the switch programs for one shard over one link: core/dense/switch.h,
 * core/latency/switch_latency.h, and those of sparse mode's tables through engine_sparse.h. No threads, no
 * clock of its own: whoever owns it polls it. The server has one per shard, the simulator one per
 * switch. It allocates in open and job_add only.
 *
 * A job's life here: job_add (slots reserved, children known by nonce, disabled) -> job_set (generation,
 * lanes, enabled) -> job_set again (restart: a fresh generation) -> job_remove. HELLOs are answered from
 * job_add on: they bind a child to its address.
 */
#ifndef DATAPLANE_ENGINE_SOFT_H
#define DATAPLANE_ENGINE_SOFT_H

#include "core/dense/misfit.h"
#include "core/latency/switch_latency.h"
#include "dataplane/chip.h"
#include "dataplane/engine_sparse.h"
#include "dataplane/hook.h"
#include "dataplane/link.h"

struct engine_soft;

struct engine_options {
	struct link *link;   /* borrowed; must outlive the engine */
	uint64_t memory_max; /* bytes of slots and tables over all jobs; 0: 1 GiB */
	uint32_t jobs_max;   /* 0: SWITCH_JOBS_MAX */
	uint32_t tables_max; /* of sparse mode; 0: none, and their packets are none */
	uint32_t registers;  /* as engine_sparse_options has it */
	struct hook *hook;   /* borrowed: for slots of latency mode in the kernel; NULL: none */
	struct chip *chip;   /* borrowed: adds up instead of this engine; NULL: none */
};

struct engine_job {
	uint32_t generation;
	uint16_t children;  /* 1..SWITCH_CHILDREN_MAX */
	uint8_t mode;       /* enum switch_mode; in latency modes there are no parents */
	uint32_t slots;     /* 1..65536 */
	uint16_t lanes_max; /* memory is reserved for so many; job_set may say fewer */
	bool has_parent;
	uint16_t parent_job, parent_child;
	struct link_address parent;
	/* Of each child; copied. NULL: HELLO binds nobody. */
	const uint8_t (*nonces)[WIRE_NONCE_BYTES];
};

enum engine_event_type {
	ENGINE_MISMATCH, /* a child's round is another one than its siblings' */
	ENGINE_HELLO,    /* a child is bound, or bound anew, to `address` */
	ENGINE_HEARD,    /* a further HELLO of a child, so it is alive: at most every 100 ms */
	ENGINE_ALARM,    /* a child sent what a sound worker never sends */
	ENGINE_MISFIT, /* a child's address has sent `count` packets that no sound child sends: said
	                   * of the first, the second, the fourth, the eighth, ... */
	ENGINE_UNWRITTEN, /* a child is not welcome, as the chip has not taken it: chip->error. Once until it is */
	ENGINE_TOO_LARGE, /* the packets to a child are larger than the path to `address` takes */
	ENGINE_REFUSED, /* since the last of these `count` packets were dropped because of who sent them, the
			   * last from `address`, as `child` of `job`, which need not be: at most once a second */
};

/* Why: R-CT-35. */
enum engine_refusal {
	ENGINE_REFUSED_ADDRESS,    /* not from the child's */
	ENGINE_REFUSED_GENERATION, /* not the job's */
	ENGINE_REFUSED_NONCE,      /* a HELLO of nobody, or an old one */
	ENGINE_REFUSED_AROUND, /* a HELLO that has not come through the chip, though it is to sum */
	ENGINE_REFUSED_TABLE_ADDRESS, /* of a table, whose index is in `job`: not its worker's or server's */
	ENGINE_REFUSED_TABLE_GENERATION, /* likewise */
	ENGINE_REFUSALS
};

struct engine_event {
	enum engine_event_type type;
	uint16_t job, child, slot;
	uint16_t other; /* MISMATCH: the last of those whose round it differs from */
	uint32_t seq;
	uint32_t count;              /* MISFIT, REFUSED */
	enum engine_refusal refusal; /* REFUSED */
	enum misfit misfit;          /* MISFIT: what the last of them was */
	struct link_address address;
};

struct engine_stats {
	uint64_t packets_in;                    /* those of tables included, not those of hooked */
	uint64_t fault[WIRE_FAULT_COUNT];       /* not a packet, by reason */
	uint64_t verdict[SWITCH_VERDICT_COUNT]; /* what became of sound ones, drops by reason */
	uint64_t hello_unknown; /* HELLO with a wrong nonce, job or child, or an old serial */
	uint64_t events_lost;   /* nobody fetched them */
	uint64_t hooked
		[SWITCH_VERDICT_COUNT]; /* what kernel or chip have served without this engine, by verdict */
};

/* Of a job since it was added, and of packets that were its children's. */
struct engine_job_stats {
	uint64_t updates; /* copies included, */
	uint64_t again;   /* which these are: the first, or what was answered, was lost */
	uint64_t results; /* rounds that were complete */
	uint64_t hooked;  /* of the updates: kernel or chip have served them without this engine */
};

struct engine_soft *engine_open(const struct engine_options *options); /* NULL: out of memory */
void engine_close(struct engine_soft *engine);

/* 0, -EEXIST, -ENOSPC (memory_max or jobs_max), -ENOMEM, -EINVAL; with a chip what that says, and so of the next. */
int engine_job_add(struct engine_soft *engine, uint16_t job, const struct engine_job *config);
/* A fresh generation, lanes and enabled in one step; slots re-initialise themselves (R-SW-2). -ENOENT,
 * -EINVAL. */
int engine_job_set(struct engine_soft *engine, uint16_t job, uint32_t generation, uint16_t lanes,
		   bool enabled);
int engine_job_remove(struct engine_soft *engine, uint16_t job);
/* Binds without a HELLO: trees, tests. */
int engine_child_bind(struct engine_soft *engine, uint16_t job, uint16_t child,
		      const struct link_address *address);

/* For tests whose rounds are to begin near the wrap of their numbers: every slot of the job is as if it
 * had summed rounds up to `seq` in the job's generation. -ENOENT. */
int engine_rounds_begin(struct engine_soft *engine, uint16_t job, uint32_t seq);

/* Serves what has arrived, at most one burst, and what is due; true if anything had arrived. Never waits. */
bool engine_poll(struct engine_soft *engine);
/* When it is to be called again, as the link's clock goes, though nothing comes; UINT64_MAX: never. */
uint64_t engine_due(const struct engine_soft *engine);

/* The tables: added, removed and asked about there, but served by engine_poll. NULL: tables_max was 0. */
struct engine_sparse *engine_tables(const struct engine_soft *engine);

/* Who is missing: *slot gets the registers (no sums) of the slot. -ENOENT, -EINVAL. */
int engine_slot_read(const struct engine_soft *engine, uint16_t job, uint16_t slot_index,
		     struct switch_slot *slot);
/* The same for a job in a latency mode. -ENOENT, -EINVAL. */
int engine_latency_slot_read(const struct engine_soft *engine, uint16_t job, uint16_t slot_index,
			     struct switch_latency_slot *slot);
/* Zeros for a job that is not there. */
struct engine_job_stats engine_job_stats(const struct engine_soft *engine, uint16_t job);
/* Bytes of memory that a slot takes. */
uint64_t engine_slot_bytes(enum switch_mode mode, uint32_t lanes_max);
uint32_t engine_events(struct engine_soft *engine, struct engine_event *events, uint32_t max);
/* Bytes of slots and tables over all jobs, and the most that there may be. */
uint64_t engine_memory_used(const struct engine_soft *engine);
uint64_t engine_memory_max(const struct engine_soft *engine);
/* 0, or the negative errno that broke the link: nothing is received any more. */
int engine_fault(const struct engine_soft *engine);
const struct engine_stats *engine_stats(struct engine_soft *engine);

#endif
