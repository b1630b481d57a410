/* SPDX-License-Identifier: Apache-2.0 */
/* run_state.h - what run.c (events, time, chance) and run_nodes.c (engines and workers) share. */
#ifndef SIM_RUN_STATE_H
#define SIM_RUN_STATE_H

#include "sim/check_pace.h"
#include "sim/diagram.h"
#include "sim/load.h"
#include "sim/run.h"

#define US 1000ull
#define MS (1000 * US)
#define SECOND (1000 * MS)

enum {
	/* Timers: the cookie says for which job, which of these, and for whom. */
	TIMER_HELLO,   /* a worker says HELLO to those that have not answered */
	TIMER_START,   /* a worker starts */
	TIMER_SUBMIT,  /* a worker submits its next operation */
	TIMER_WINDOW,  /* a worker changes a window */
	TIMER_PAUSE,   /* something stands still */
	TIMER_RESTART, /* everybody leaves the job */
	TIMER_SET,     /* an engine goes over to the next generation */
	TIMER_REBIND,  /* a worker moves to another port */
	TIMER_STRIKE,  /* the next strike of the scenario */
	TIMER_HEAL,    /* its end */
	TIMER_LOST,    /* a crash has been noticed */
	TIMER_WATCH,   /* is there progress? */
	TIMER_SHIFT = 8,
	TIMER_JOB_SHIFT = 16,
	POLLS_MAX = 100000, /* of one node at one moment */
};
#define STUCK_DISAGREE_NS (2 * SECOND) /* then a disagreement counts as stalled */

struct run_worker {
	struct endpoint *endpoint;
	struct rng rng;
	uint32_t next;    /* operation */
	uint32_t serial;  /* of its last HELLO */
	uint32_t welcome; /* shards that have answered: a bit each */
	bool is_ready, is_started;
	struct check_pace pace;
	uint64_t accepted_ns; /* on its clock: when its last result came */
	uint8_t nonce[SIM_SHARDS_MAX][WIRE_NONCE_BYTES];
};

/* One job. The first of a run owns the net and the engines; the others live on them too. */
struct run {
	const struct scenario *scenario;
	struct run *leader;            /* itself, mostly */
	struct run *job[SIM_JOBS_MAX]; /* the leader's: all, itself first */
	uint32_t jobs, number;         /* of jobs; of this one */
	uint32_t node_first;           /* its first worker */
	struct scenario *own_scenario; /* to be freed: not the leader's */
	struct run_report *report;
	struct wiring wiring;
	struct net *net;
	struct check *check;
	struct load *load;
	struct diagram *diagram;
	struct rng rng;
	uint32_t generation, life;
	uint32_t sets_left; /* engines that still have to go over to it */
	bool is_struck;     /* the restart has been decided on */
	bool is_over;       /* all is done, or has gone as wrong as it was meant to */
	bool is_lost;       /* the life has ended with a named error, and nobody begins another */
	uint32_t strikes;   /* so far */
	uint64_t heal_ns;   /* the end of the last one */
	uint64_t dead;      /* nodes that have crashed: a bit each */
	uint32_t spins;
	uint64_t mismatch_ns; /* of the first verdict */
	uint64_t progress_ns; /* the last accepted result, or submission */
	struct run_worker worker[SIM_WORKERS_MAX];
	struct engine_soft *engine[WIRING_ENGINES_MAX]; /* the leader's */
};

/* A job counts its workers from 0, and the engines behind them; so do its ledger and its wiring. */
static inline uint32_t run_node(const struct run *run, uint32_t local)
{
	uint32_t workers = run->wiring.workers;

	return local < workers ? run->node_first + local
			       : run->leader->wiring.workers + (local - workers);
}

static inline void run_timer_in(struct run *run, uint64_t delay_ns, uint32_t what, uint32_t whom)
{
	net_timer(run->net, net_now(run->net) + delay_ns,
		  run->number << TIMER_JOB_SHIFT | what << TIMER_SHIFT | whom);
}

/* Something got on: a result, or a submission. */
static inline void run_progress(struct run *run)
{
	uint64_t now = net_now(run->net);

	if (now - run->progress_ns > run->report->stall_ns)
		run->report->stall_ns = now - run->progress_ns;
	run->progress_ns = now;
}

/* run_strike.c: what strikes. */
void strike_begin(struct run *run);
void strike_timer(struct run *run, uint32_t what, uint32_t whom);
/* Worker `w` has submitted an operation. */
void strike_submitted(struct run *run, uint32_t w);

/* Opens the engine: the leader's. */
bool engine_setup(struct run *run, uint32_t e);
/* The job's place at the engine. */
bool engine_job_setup(struct run *run, uint32_t e);
void engine_bind(struct run *run, uint32_t e);
/* The engine goes over to the run's generation. */
void engine_set(struct run *run, uint32_t e);
void engine_serve(struct run *run, uint32_t e);

void worker_setup(struct run *run, uint32_t w);
void worker_nonces_draw(struct run *run, uint32_t w);
/* The worker has its grants. */
void worker_open(struct run *run, uint32_t w);
void worker_hello(struct run *run, uint32_t w);
void worker_start(struct run *run, uint32_t w);
void worker_serve(struct run *run, uint32_t w);
/* The worker submits its next operation, if it may: has it? */
bool worker_submit(struct run *run, uint32_t w);
void worker_window(struct run *run, uint32_t w);
/* Takes what the worker did in this life into the report. */
void worker_close(struct run *run, uint32_t w);

#endif
