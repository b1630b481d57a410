/* SPDX-License-Identifier: Apache-2.0 */
/* engine_state.h - what engine_soft.c (packets in, answers out) and engine_jobs.c (jobs and their memory)
 * share; nobody else includes it. */
#ifndef DATAPLANE_ENGINE_STATE_H
#define DATAPLANE_ENGINE_STATE_H

#include "dataplane/binding.h"
#include "dataplane/engine_soft.h"

enum {
	ENGINE_JOBS_LIMIT = 65536, /* what 16 bits can name */
	ENGINE_EVENTS_MAX = 1024,
	ENGINE_FRAMES_OUT = SWITCH_CHILDREN_MAX, /* of one send: an answer to all children fits */
	ENGINE_OUTS = 24,         /* four senders' HELD and RESULT, and some results */
	ENGINE_OUT_BYTES = 65536, /* more than LINK_FRAME_BYTES_MAX, whole cache lines */
	ENGINE_LINE_BYTES = 64,
	ENGINE_LINE_LANES = ENGINE_LINE_BYTES / WIRE_LANE_BYTES,
};
_Static_assert(ENGINE_OUT_BYTES >= (int)LINK_FRAME_BYTES_MAX, "an answer's frame");
_Static_assert(WIRE_HEADER_BYTES + WIRE_LANES_MAX * WIRE_LANE_BYTES <= (int)LINK_FRAME_BYTES_MAX,
	       "any packet fits into a frame");

struct child {
	struct binding at;
	uint64_t heard_ns;          /* its last HELLO that was told of */
	uint32_t misfits;           /* packets from its address that no sound child sends */
	bool is_unwritten;          /* and the event has been put */
	struct link_address around; /* whose HELLOs past the chip were told of */
};

struct job {
	struct switch_job program;                 /* what the switch program knows of it */
	struct switch_slot *slots;                 /* dense mode */
	struct switch_latency_slot *latency_slots; /* latency modes */
	int32_t *sums; /* `copies` of each slot, one after the other, each `stride` lanes */
	uint32_t stride, copies;
	uint16_t lanes_max;
	bool has_nonces;
	bool has_hook;  /* slots in the kernel are kept for it, */
	bool is_hooked; /* and are in use: its own are not */
	bool is_mismatch_told, is_alarm_told, is_too_large_told; /* the event waits to be fetched */
	void *memory;                                            /* slots, then sums */
	uint64_t memory_bytes;
	struct link_address parent;
	struct engine_job_stats stats;
	struct child children[];
};

/* To whom an answer goes, where it is no child's index. */
enum { TO_ALL = SWITCH_CHILDREN_MAX, TO_PARENT };

struct way {
	const struct job *job;
	uint32_t to;
	uint64_t skip[SWITCH_BITMAP_WORDS]; /* TO_ALL: but for these children */
};

/* Answers of one size that go one way. */
struct out {
	struct way way;
	uint32_t packet_bytes;
	uint32_t count;
	uint8_t *data;
};

/* Dropped because of who sent them, since it was said last. */
struct refused {
	uint32_t count;
	bool has_said;
	uint64_t said_ns;
	struct engine_event last;
};

struct engine_soft {
	struct link *link;
	struct account account;       /* of jobs and tables */
	struct engine_sparse *sparse; /* NULL: none */
	struct hook *hook;            /* NULL: none */
	struct chip *chip;            /* NULL: none */
	uint64_t due_ns;              /* of the tables */
	uint32_t jobs_max;
	struct job **jobs;  /* by index; NULL: no such job */
	struct job **nodes; /* those with a parent */
	uint32_t nodes_count, node_last;
	struct engine_stats stats;
	int fault;

	struct link_frame in[LINK_RECV_FRAMES];
	struct out outs[ENGINE_OUTS];
	uint32_t outs_count, out_last;
	uint8_t *out_bytes;
	struct link_frame frames[ENGINE_FRAMES_OUT];

	struct refused refused[ENGINE_REFUSALS];
	bool has_refused; /* some that are to be said */
	struct engine_event events[ENGINE_EVENTS_MAX];
	uint32_t events_first, events_count;
};

static inline struct job *engine_job_find(const struct engine_soft *engine, uint32_t idx)
{
	return idx < engine->jobs_max ? engine->jobs[idx] : NULL;
}

static inline bool engine_job_is_latency(const struct job *job)
{
	return job->program.mode != SWITCH_DENSE;
}

/* A child has a new address. */
void engine_child_bound(struct engine_soft *engine, const struct job *job, uint16_t child);

/* False: there is no room for it. */
bool engine_event_put(struct engine_soft *engine, const struct engine_event *event);

/* engine_refused.c: one more; and what is to be told of them by now. */
void engine_refuse(struct engine_soft *engine, enum engine_refusal why,
		   const struct link_address *peer, const struct wire *packet);
void engine_refused_say(struct engine_soft *engine);

/* What nobody has fetched of a job that ends, or begins a new life, is about the old one. */
void engine_events_forget(struct engine_soft *engine, struct job *job, bool with_hello);

#endif
