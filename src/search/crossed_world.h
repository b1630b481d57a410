/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crossed_world.h - for tests: processes with threads, in communicators that overlap, whose programs are drawn; what
 * they say when they are asked, over connections that take their time; and the aggregator's looks. Who is stuck is
 * known here without them: whoever cannot go on, whatever those do who can.
 *
 * Included once in a program.
 */
#ifndef SEARCH_CROSSED_WORLD_H
#define SEARCH_CROSSED_WORLD_H

#include <assert.h>
#include <stdlib.h>

#include "core/job/crossed.h"
#include "util/rng.h"

enum {
	PROCESSES = 6,
	THREADS = 2,
	COMMS = 6,
	EVENTS = 400, /* of a program that is in order */
	TICK_MS = 10,
	LOOK_EACH_MS = 250,
	CONFIRM_MS = 5000,
	FOUND_MS = 12000, /* STALL, a round, CONFIRM_MS, a round; all may be late */
};

enum world_kind {
	WORLD_IN_ORDER, /* each thread makes its calls in an order that all have: nobody is ever stuck */
	WORLD_ANYHOW, /* each as it likes */
};

enum thread_state {
	THREAD_COMPUTES,
	THREAD_WAITS, /* for as long as it takes */
	THREAD_TRIES, /* waits until `until_ms` */
	THREAD_TESTS, /* looks again and again */
	THREAD_GONE,
};

struct thread {
	enum thread_state state;
	uint32_t comm;
	uint64_t number;   /* of the operation that it waits for */
	uint64_t until_ms; /* COMPUTES, TRIES */
	uint32_t event;    /* the next */
	struct {
		uint32_t comm;
		uint64_t number;
		bool is_there;
	} async; /* called, and to be waited for later */
};

struct process {
	uint64_t id, entries;
	struct thread thread[THREADS];
	uint64_t stopped_until_ms;
};

struct comm {
	bool has[PROCESSES];
	uint16_t rank[PROCESSES];
	uint16_t size;
	uint64_t submitted[PROCESSES], complete;
	uint64_t oldest_ms[PROCESSES],
		said_ms[PROCESSES]; /* since when its oldest is that, STALL */
	uint64_t oldest[PROCESSES];
	/* the aggregator's */
	bool is_asking, is_again;
	uint32_t round;
	struct {
		uint64_t asked_ms,
			comes_ms; /* when it hears the QUERY; when its answer is there. 0: not */
		struct control_opinfo info;
	} answer[PROCESSES];
	union {
		struct crossed_view view;
		uint8_t bytes[sizeof(struct crossed_view) +
			      PROCESSES * sizeof(struct crossed_member)];
	};
};

struct world {
	struct rng rng;
	enum world_kind kind;
	uint32_t processes, threads, comms;
	uint32_t slow; /* one in so many computes for long */
	uint64_t now_ms, look_ms, sleeps_until_ms;
	uint64_t stuck_since_ms; /* undisturbed; 0: nobody is */
	bool has_news;
	uint32_t events[EVENTS]; /* communicators */
	struct process process[PROCESSES];
	struct comm comm[COMMS];
	struct crossed_cycle cycle;
	bool is_stuck[PROCESSES];
};

static struct world *world; /* the one that all here is about; zeros before world_begin */
static struct crossed_look world_views; /* a look's own */

static uint32_t draw(uint32_t below)
{
	return rng_below(&world->rng, below);
}

/* ---- programs ---- */

static void world_begin(enum world_kind kind, uint64_t seed)
{
	rng_init(&world->rng, seed, kind);
	world->kind = kind;
	world->now_ms = 1000000 + draw(1000);
	world->processes = 2 + draw(PROCESSES - 1);
	world->threads = 1 + !draw(3);
	world->comms = 1 + draw(COMMS);
	world->slow = 2 + draw(30);
	for (uint32_t i = 0; i < EVENTS; i++)
		world->events[i] = draw(world->comms);
	for (uint32_t p = 0; p < world->processes; p++) {
		struct process *process = &world->process[p];

		process->id = draw(40) ? 1 + p + ((uint64_t)draw(1u << 30) << 8) : 0;
		process->entries = (uint64_t)draw(1u << 30) << 20;
		for (uint32_t t = 0; t < THREADS; t++) {
			process->thread[t].state = t < world->threads ? THREAD_COMPUTES
								      : THREAD_GONE;
			process->thread[t].until_ms = world->now_ms + draw(100);
		}
	}
	for (uint32_t c = 0; c < world->comms; c++) {
		struct comm *comm = &world->comm[c];
		bool is_ring = !draw(3);

		for (uint32_t p = 0; p < world->processes; p++) {
			bool is_next = p == c % world->processes || p == (c + 1) % world->processes;

			comm->has[p] = is_ring ? is_next : draw(3) > 0;
			if (comm->has[p])
				comm->rank[p] = comm->size++;
		}
		crossed_view_init(&comm->view, comm->size);
	}
}

static uint64_t compute_ms(void)
{
	if (!draw(world->slow))
		return draw(15000);
	return draw(3) ? draw(50) : draw(1000);
}

/* A communicator has one thread of each process. */
static bool is_own(uint32_t t, uint32_t c)
{
	return c % world->threads == t;
}

static void thread_wait(struct process *process, struct thread *thread, uint32_t c, uint64_t number)
{
	uint32_t how = draw(12);

	thread->comm = c;
	thread->number = number;
	thread->state = how == 0 ? THREAD_TRIES : how == 1 ? THREAD_TESTS : THREAD_WAITS;
	thread->until_ms = world->now_ms + 100 + draw(3000);
	process->entries++;
}

static void thread_computes(struct process *process, struct thread *thread)
{
	process->entries++;
	thread->state = THREAD_COMPUTES;
	thread->until_ms = world->now_ms + compute_ms();
}

/* The communicator of its next call; COMMS: it makes no more. */
static uint32_t next_call(uint32_t p, uint32_t t)
{
	struct thread *thread = &world->process[p].thread[t];

	for (uint32_t tries = 0; world->kind == WORLD_ANYHOW && tries < 20; tries++) {
		uint32_t c = draw(world->comms);

		if (world->comm[c].has[p] && is_own(t, c))
			return c;
	}
	while (world->kind == WORLD_IN_ORDER && thread->event < EVENTS) {
		uint32_t c = world->events[thread->event++];

		if (world->comm[c].has[p] && is_own(t, c))
			return c;
	}
	return COMMS;
}

static void thread_goes_on(uint32_t p, uint32_t t)
{
	struct process *process = &world->process[p];
	struct thread *thread = &process->thread[t];
	uint32_t c;

	if (thread->async.is_there && draw(2)) {
		thread->async.is_there = false;
		thread_wait(process, thread, thread->async.comm, thread->async.number);
		return;
	}
	c = next_call(p, t);
	if (c == COMMS) { /* in order: until the others have done, too */
		thread_computes(process, thread);
		return;
	}
	uint64_t number = world->comm[c].submitted[p]++;

	if (!draw(4) && !thread->async.is_there) {
		thread->async.comm = c;
		thread->async.number = number;
		thread->async.is_there = true;
		thread_computes(process, thread);
	} else {
		thread_wait(process, thread, c, number);
	}
}

static void thread_step(uint32_t p, uint32_t t)
{
	struct process *process = &world->process[p];
	struct thread *thread = &process->thread[t];
	bool is_over = thread->number < world->comm[thread->comm].complete;

	switch (thread->state) {
	case THREAD_COMPUTES:
		if (world->now_ms >= thread->until_ms)
			thread_goes_on(p, t);
		break;
	case THREAD_TRIES:
		if (is_over || world->now_ms >= thread->until_ms)
			thread_computes(process, thread);
		break;
	case THREAD_WAITS:
	case THREAD_TESTS:
		if (is_over)
			thread_computes(process, thread);
		break;
	case THREAD_GONE:
		break;
	}
}

static void comm_step(struct comm *comm)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t p = 0; p < world->processes; p++)
		if (comm->has[p] && comm->submitted[p] < least)
			least = comm->submitted[p];
	if (least != UINT64_MAX)
		comm->complete = least;
}

/* ---- who is stuck, in truth ---- */

static bool goes_on(uint32_t p, const struct thread *thread)
{
	const struct comm *comm = &world->comm[thread->comm];

	if (thread->state == THREAD_GONE)
		return false;
	if (thread->state != THREAD_WAITS || !world->process[p].id)
		return true;
	for (uint32_t other = 0; other < world->processes; other++)
		if (comm->has[other] && comm->submitted[other] <= thread->number &&
		    world->is_stuck[other])
			return false;
	return true;
}

static bool truth_find(void)
{
	bool has_changed = true, is_any = false;

	for (uint32_t p = 0; p < world->processes; p++)
		world->is_stuck[p] = true;
	while (has_changed) {
		has_changed = false;
		for (uint32_t p = 0; p < world->processes; p++)
			for (uint32_t t = 0; t < THREADS; t++)
				if (world->is_stuck[p] &&
				    goes_on(p, &world->process[p].thread[t])) {
					world->is_stuck[p] = false;
					has_changed = true;
				}
	}
	for (uint32_t p = 0; p < world->processes; p++)
		is_any |= world->is_stuck[p];
	return is_any;
}

/* ---- what is said ---- */

static bool is_stopped(uint32_t p)
{
	return world->process[p].stopped_until_ms > world->now_ms;
}

static struct control_opinfo info_of(const struct comm *comm, uint32_t p)
{
	const struct process *process = &world->process[p];
	struct control_opinfo info = { .round = comm->round,
				       .process = process->id,
				       .entries = process->entries,
				       .submitted = comm->submitted[p] };

	for (uint32_t t = 0; t < THREADS; t++) {
		const struct thread *thread = &process->thread[t];

		info.threads += thread->state != THREAD_GONE;
		if (thread->state != THREAD_WAITS || &world->comm[thread->comm] != comm ||
		    thread->number < comm->complete)
			continue;
		if (!info.blocked++ || thread->number < info.waits)
			info.waits = thread->number;
	}
	return info;
}

static uint64_t travel_ms(void)
{
	return draw(50) ? 1 + draw(20) : draw(900);
}

static void round_begin(struct comm *comm)
{
	comm->is_asking = true;
	comm->is_again = false;
	comm->round++;
	for (uint32_t p = 0; p < world->processes; p++) {
		if (!comm->has[p])
			continue;
		crossed_ask(&comm->view, comm->round, comm->rank[p], world->now_ms * 1000000);
		comm->answer[p].asked_ms = world->now_ms + travel_ms();
		comm->answer[p].comes_ms = 0;
	}
}

static void comm_say(struct comm *comm, uint32_t p)
{
	uint64_t oldest = comm->complete < comm->submitted[p] ? comm->complete : UINT64_MAX;

	if (!comm->has[p] || is_stopped(p))
		return;
	if (comm->answer[p].asked_ms && world->now_ms >= comm->answer[p].asked_ms) {
		comm->answer[p].asked_ms = 0;
		comm->answer[p].info = info_of(comm, p);
		comm->answer[p].comes_ms = world->now_ms + travel_ms();
	}
	if (oldest != comm->oldest[p]) {
		comm->oldest[p] = oldest;
		comm->oldest_ms[p] = world->now_ms;
	}
	if (oldest == UINT64_MAX || world->now_ms - comm->oldest_ms[p] < 500 ||
	    world->now_ms - comm->said_ms[p] < 1000 + draw(250))
		return;
	comm->said_ms[p] = world->now_ms;
	comm->is_again = true;
}

/* The aggregator has its turn. */
static void comm_hear(struct comm *comm)
{
	for (uint32_t p = 0; p < world->processes; p++) {
		if (!comm->answer[p].comes_ms || world->now_ms < comm->answer[p].comes_ms)
			continue;
		comm->answer[p].comes_ms = 0;
		if (!crossed_answer(&comm->view, comm->rank[p], &comm->answer[p].info,
				    world->now_ms * 1000000))
			continue;
		comm->is_asking = false;
		world->has_news = true;
	}
	if (comm->is_again && !comm->is_asking)
		round_begin(comm);
}

static bool world_look(struct crossed_view *views[COMMS])
{
	for (uint32_t c = 0; c < COMMS; c++)
		views[c] = c < world->comms ? &world->comm[c].view : NULL;
	world->has_news = false;
	world->look_ms = world->now_ms + LOOK_EACH_MS;
	return crossed_find(&world_views, views, COMMS, world->now_ms * 1000000,
			    CONFIRM_MS * 1000000ull, &world->cycle);
}

/* ---- the same look once more, read slowly ---- */

static bool slow_is_fresh(const struct crossed_view *view)
{
	return view->has_said && world->now_ms * 1000000 - view->asked_ns <= CROSSED_FRESH_NS;
}

/* Of process p, as the views say: it has said the same for long enough, and all its threads wait for those of `in`. */
static bool slow_holds(uint32_t p, const bool in[PROCESSES])
{
	const struct crossed_said *first = NULL;
	uint64_t since_ns = UINT64_MAX;
	uint32_t blocked = 0;

	for (uint32_t c = 0; c < world->comms; c++) {
		const struct comm *comm = &world->comm[c];
		const struct crossed_member *member = &comm->view.member[comm->rank[p]];
		bool is_held = false;

		if (!comm->has[p] || !slow_is_fresh(&comm->view))
			continue;
		if (first && (first->entries != member->said.entries ||
			      first->threads != member->said.threads))
			return false;
		first = &member->said;
		since_ns = member->since_ns < since_ns ? member->since_ns : since_ns;
		blocked += member->said.blocked;
		for (uint32_t q = 0; q < world->processes; q++)
			is_held |= comm->has[q] && in[q] &&
				   comm->view.member[comm->rank[q]].said.submitted <=
					   member->said.waits;
		if (member->said.blocked &&
		    (!is_held || member->said.waits >= member->said.submitted))
			return false;
	}
	return first && first->process && first->threads == blocked &&
	       world->now_ms * 1000000 - since_ns >= CONFIRM_MS * 1000000ull;
}

static bool slow_look(void)
{
	bool in[PROCESSES], has_changed = true, is_any = false;

	memset(in, true, sizeof(in));
	while (has_changed) {
		has_changed = false;
		for (uint32_t p = 0; p < world->processes; p++)
			if (in[p] && !slow_holds(p, in)) {
				in[p] = false;
				has_changed = true;
			}
	}
	for (uint32_t p = 0; p < world->processes; p++)
		is_any |= in[p];
	return is_any;
}

/* ---- steps ---- */

static void world_disturb(void)
{
	if (!draw(1500)) {
		struct process *process = &world->process[draw(world->processes)];

		process->stopped_until_ms = world->now_ms + draw(9000);
	}
	if (!draw(4000))
		world->sleeps_until_ms = world->now_ms + draw(6000);
}

/* What is wrong with the cycle that was found; NULL. */
static const char *world_judge(struct crossed_view *views[COMMS])
{
	const struct crossed_cycle *cycle = &world->cycle;
	uint64_t to = 0, begin = 0;

	if (!truth_find())
		return "a cycle was found, and nobody is stuck";
	for (uint32_t i = 0; i < cycle->edges_count && i < CROSSED_EDGES_MAX; i++) {
		const struct crossed_edge *edge = &cycle->edges[i];
		const struct crossed_view *view = views[edge->view];

		if (!view->is_crossed)
			return "the communicator of an edge is not to end";
		if (view->member[edge->missing].said.submitted > edge->number)
			return "it is waited for one that has called the operation";
		if (i && view->member[edge->rank].said.process != to)
			return "an edge does not begin where the last one ends";
		begin = i ? begin : view->member[edge->rank].said.process;
		to = view->member[edge->missing].said.process;
		for (uint32_t p = 0; p < world->processes; p++)
			if (world->process[p].id == to && !world->is_stuck[p])
				return "one of the cycle can go on";
	}
	if (cycle->edges_count <= CROSSED_EDGES_MAX && to != begin)
		return "the cycle has an end";
	return NULL;
}

enum world_end { WORLD_GOES_ON, WORLD_FOUND, WORLD_WRONG };

/* One tick; what is wrong, in *wrong. */
static enum world_end world_step(const char **wrong)
{
	struct crossed_view *views[COMMS];
	bool is_disturbed = world->sleeps_until_ms > world->now_ms, is_found;

	world->now_ms += TICK_MS;
	world_disturb();
	for (uint32_t p = 0; p < world->processes; p++) {
		is_disturbed |= is_stopped(p);
		for (uint32_t t = 0; t < THREADS && !is_stopped(p); t++)
			thread_step(p, t);
	}
	for (uint32_t c = 0; c < world->comms; c++) {
		comm_step(&world->comm[c]);
		for (uint32_t p = 0; p < world->processes; p++)
			comm_say(&world->comm[c], p);
		if (world->sleeps_until_ms <= world->now_ms)
			comm_hear(&world->comm[c]);
	}
	if (!truth_find() || is_disturbed)
		world->stuck_since_ms = 0;
	else if (!world->stuck_since_ms)
		world->stuck_since_ms = world->now_ms;
	if (world->stuck_since_ms && world->now_ms - world->stuck_since_ms > FOUND_MS) {
		*wrong = "processes are stuck, and nobody has found it";
		return WORLD_WRONG;
	}
	if (!world->has_news || world->now_ms < world->look_ms ||
	    world->sleeps_until_ms > world->now_ms)
		return WORLD_GOES_ON;
	is_found = world_look(views);
	*wrong = is_found != slow_look() ? "a slow reading of the views says otherwise"
		 : is_found              ? world_judge(views)
					 : NULL;
	return *wrong ? WORLD_WRONG : is_found ? WORLD_FOUND : WORLD_GOES_ON;
}

#endif
