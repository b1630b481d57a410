/* SPDX-License-Identifier: Apache-2.0 */
/* run_state.h - what run.c (events, time, chance) and run_nodes.c (engines and workers) share. */
#ifndef SIM_RUN_STATE_H
#define SIM_RUN_STATE_H

#include "sim/diagram.h"
#include "sim/load.h"
#include "sim/run.h"

#define US 1000ull
#define MS (1000 * US)
#define SECOND (1000 * MS)

enum {
	/* Timers: the cookie's upper half says which, its lower half for whom. */
	TIMER_HELLO,   /* a worker says HELLO to those that have not answered */
	TIMER_START,   /* a worker starts */
	TIMER_SUBMIT,  /* a worker submits its next operation */
	TIMER_WINDOW,  /* a worker changes a window */
	TIMER_PAUSE,   /* something stands still */
	TIMER_RESTART, /* everybody leaves the job */
	TIMER_SET,     /* an engine goes over to the next generation */
	TIMER_REBIND,  /* a worker moves to another port */
	TIMER_WATCH,   /* is there progress? */
	TIMER_SHIFT = 8,
	POLLS_MAX = 100000, /* of one node at one moment */
	STRAGGLE_NS = 200 * 1000 * 1000,
};
/* A whole turn of the held ring takes 4 s, and what is to be recovered in a tree by one PROBE takes four
 * packets in a row: in a storm, many turns. */
#define STUCK_NS (60 * SECOND)
#define STUCK_STORM_NS (300 * SECOND)
#define STUCK_DISAGREE_NS (2 * SECOND) /* then a disagreement counts as stalled */

struct run_worker {
	struct endpoint *endpoint;
	struct rng rng;
	uint32_t next;    /* operation */
	uint32_t serial;  /* of its last HELLO */
	uint32_t welcome; /* shards that have answered: a bit each */
	bool is_ready, is_started;
	uint8_t nonce[SIM_SHARDS_MAX][WIRE_NONCE_BYTES];
};

struct run {
	const struct scenario *scenario;
	struct run_report *report;
	struct wiring wiring;
	struct net *net;
	struct check *check;
	struct load *load;
	struct diagram *diagram;
	struct rng rng;
	uint32_t generation;
	uint32_t sets_left; /* engines that still have to go over to it */
	bool is_struck;     /* the restart has been decided on */
	bool is_over;       /* all is done, or has gone as wrong as it was meant to */
	uint32_t spins;
	uint64_t mismatch_ns; /* of the first verdict */
	uint64_t progress_ns; /* the last accepted result, or submission */
	struct run_worker worker[SIM_WORKERS_MAX];
	struct engine_soft *engine[WIRING_ENGINES_MAX];
};

void run_timer_in(struct run *run, uint64_t delay_ns, uint32_t what, uint32_t whom);
/* Something got on: a result, or a submission. */
void run_progress(struct run *run);

bool engine_setup(struct run *run, uint32_t e);
void engine_bind(struct run *run, uint32_t e);
/* The engine goes over to the run's generation. */
void engine_set(struct run *run, uint32_t e);
void engine_serve(struct run *run, uint32_t e);

void worker_setup(struct run *run, uint32_t w);
/* The worker has its grants. */
void worker_open(struct run *run, uint32_t w);
void worker_hello(struct run *run, uint32_t w);
void worker_start(struct run *run, uint32_t w);
void worker_serve(struct run *run, uint32_t w);
void worker_submit(struct run *run, uint32_t w);
void worker_window(struct run *run, uint32_t w);
/* Takes what the worker did in this life into the report. */
void worker_close(struct run *run, uint32_t w);

#endif
