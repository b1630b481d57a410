/* SPDX-License-Identifier: Apache-2.0 */
/* published.c - what carries the published rules: their packets, timers and calls. */
#include "sim/published.h"

#include <stdlib.h>

enum { STUCK_PUBLISHED_NS = 2000 * 1000 * 1000 };

struct published {
	struct run *run;
	struct published_switch state;
	struct published_worker worker[SIM_WORKERS_MAX];
};

/* "Upon timeout: send p, start_timer(p)", in both papers. */
static void timers_fire(struct published_worker *worker)
{
	uint64_t next = NET_NEVER;

	for (uint32_t i = 0; i < worker->slots; i++) {
		if (worker->timer[i].due_ns <= net_now(worker->run->net)) {
			struct published_packet packet = worker->timer[i].packet;

			published_send(worker, &packet);
			published_timer_start(worker, &packet);
			worker->run->report->resent++;
		}
		if (worker->timer[i].due_ns < next)
			next = worker->timer[i].due_ns;
	}
	net_poll_at(worker->run->net, worker->w, next);
}

/* --- calls --- */

static void call_later(struct run *run, uint32_t w)
{
	const struct scenario_worker *config = &run->scenario->worker[w];
	struct rng *rng = &run->worker[w].rng;
	uint64_t gap = rng_below(rng, config->gap_ns + 1);

	if (rng_chance(rng, config->straggle))
		gap += rng_log(rng, MS, 20 * MS);
	run_timer_in(run, gap, TIMER_SUBMIT, w);
}

/* The worker calls its next operation, if it may. */
static void call(struct published_worker *worker)
{
	struct run *run = worker->run;
	uint32_t *next = &run->worker[worker->w].next;
	struct endpoint_op op;

	if (*next == run->scenario->ops)
		return;
	if (run->scenario->rules == SIM_P4SGD) {
		if (!worker->unused[worker->seq])
			return; /* a CONFIRM will be its time */
		load_submit(run->load, worker->w, *next, &op);
		p4sgd_send(worker, &op, (*next)++);
		call_later(run, worker->w);
	} else if (worker->filled == worker->chunks) {
		worker->index = *next;
		load_submit(run->load, worker->w, (*next)++, &worker->op);
		worker->chunks = (uint32_t)map_chunks(worker->op.count, run->scenario->lanes);
		worker->filled = 0;
		worker->is_filled = 0;
		switchml_begin(worker);
	}
	timers_fire(worker);
}

/* --- nodes --- */

static void worker_receive(struct published_worker *worker, const struct published_packet *packet)
{
	struct run *run = worker->run;
	uint32_t chunks_before = worker->filled;

	if (run->scenario->rules == SIM_P4SGD) {
		p4sgd_receive(worker, packet);
		if (packet->type == WIRE_CONFIRM)
			call_later(run, worker->w);
		return;
	}
	if (worker->filled == worker->chunks)
		return; /* between two tensors nobody receives */
	switchml_receive(worker, packet);
	if (worker->filled == chunks_before || worker->filled < worker->chunks)
		return;
	if (!check_failure(run->check)->is_set)
		load_done(run->load, worker->w, worker->index);
	call_later(run, worker->w);
}

static void switch_receive(struct published *published, struct published_packet *packet)
{
	struct run *run = published->run;
	uint32_t node = wiring_node(&run->wiring, 0);
	uint32_t sender = packet->wid;
	enum published_answer answer = run->scenario->rules == SIM_P4SGD
					       ? p4sgd_switch(&published->state, packet)
					       : switchml_switch(&published->state, packet);

	for (uint32_t w = 0; w < run->scenario->workers; w++)
		if (answer == PUBLISHED_MULTICAST || (answer == PUBLISHED_UNICAST && w == sender))
			published_send_from(run, node, w, packet);
}

static void node_serve(struct published *published, uint32_t node)
{
	struct run *run = published->run;
	struct published_packet packet;

	while (!check_failure(run->check)->is_set && published_next(run, node, &packet))
		if (wiring_is_worker(&run->wiring, node))
			worker_receive(&published->worker[node], &packet);
		else
			switch_receive(published, &packet);
	if (wiring_is_worker(&run->wiring, node))
		timers_fire(&published->worker[node]);
}

static void event_serve(struct published *published, const struct net_event *event)
{
	struct run *run = published->run;

	if (event->type == NET_TIMER)
		call(&published->worker[event->cookie & ((1u << TIMER_SHIFT) - 1)]);
	else
		node_serve(published, event->node);
	if (net_now(run->net) - run->progress_ns > STUCK_PUBLISHED_NS)
		check_fail(run->check, UINT32_MAX, 0, "no progress for %llu s: a deadlock",
			   STUCK_PUBLISHED_NS / SECOND);
}

void published_run(struct run *run)
{
	struct published *published = calloc(1, sizeof(*published));

	if (!published)
		abort();
	published->run = run;
	published->state.n = run->scenario->workers;
	run->progress_ns = net_now(run->net);
	for (uint32_t w = 0; w < run->scenario->workers; w++) {
		struct published_worker *worker = &published->worker[w];

		worker->run = run;
		worker->w = w;
		worker->slots = run->scenario->slots - MAP_EXPRESS_SLOTS_MIN;
		for (uint32_t i = 0; i < PUBLISHED_SLOTS; i++) {
			worker->unused[i] = true;
			worker->timer[i].due_ns = NET_NEVER;
		}
		call_later(run, w);
	}
	while (!check_failure(run->check)->is_set && !load_is_finished(run->load)) {
		struct net_event event = net_step(run->net);

		if (event.type == NET_IDLE)
			check_fail(run->check, UINT32_MAX, 0,
				   "nothing is left to happen: a deadlock");
		else
			event_serve(published, &event);
	}
	free(published);
}
