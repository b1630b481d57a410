/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run.h"

#include "sim/diagram.h"
#include "sim/load.h"
#include "simd/simd.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static void timer_in(struct run *run, uint64_t delay_ns, uint32_t what, uint32_t whom)
{
	net_timer(run->net, net_now(run->net) + delay_ns, what << TIMER_SHIFT | whom);
}

static void watch(void *context, const struct net_sight *sight)
{
	struct run *run = context;
	struct wire packet;

	wire_get(sight->data, &packet);
	diagram_add(run->diagram, sight, &packet);
	check_sight(run->check, sight, &packet);
	if (net_is_sending(sight->fate) && packet.type == WIRE_UPDATE &&
	    packet.flags & WIRE_RESENT && run->scenario->kind == SCENARIO_clean)
		check_fail(run->check, UINT32_MAX, 0, "an UPDATE is sent twice without any loss");
	uint64_t word = sight->now_ns ^ (uint64_t)packet.seq << 32 ^ (uint64_t)packet.slot << 16 ^
			(uint64_t)sight->fate << 12 ^ sight->from << 6 ^ sight->to ^
			(uint64_t)packet.type << 60 ^ (uint64_t)packet.flags << 52;
	run->report->digest = (run->report->digest ^ word) * 0x9e3779b97f4a7c15;
	run->report->digest ^= run->report->digest >> 31;
}

static void progress(struct run *run)
{
	uint64_t now = net_now(run->net);

	if (now - run->progress_ns > run->report->stall_ns)
		run->report->stall_ns = now - run->progress_ns;
	run->progress_ns = now;
}

/* --- engines --- */

static bool engine_setup(struct run *run, uint32_t e)
{
	const struct scenario *scenario = run->scenario;
	const struct wiring_engine *wired = &run->wiring.engine[e];
	uint8_t nonces[SIM_WORKERS_MAX + SIM_ENGINES_MAX][WIRE_NONCE_BYTES] = { { 0 } };
	uint32_t node = net_node_add(
		run->net, &scenario->shard[wired->shard].host[e - wired->root]);
	struct engine_options options = { .link = net_link(run->net, node), .jobs_max = 8 };
	struct engine_job job = { .generation = run->generation,
				  .children = (uint16_t)wired->children,
				  .slots = (uint16_t)scenario->slots,
				  .lanes_max = (uint16_t)scenario->lanes,
				  .nonces = (const uint8_t(*)[WIRE_NONCE_BYTES])nonces };

	assert(node == wiring_node(&run->wiring, e));
	for (uint32_t child = 0; child < wired->children; child++)
		if (wired->child[child].is_worker)
			memcpy(nonces[child],
			       run->worker[wired->child[child].number].nonce[wired->shard],
			       WIRE_NONCE_BYTES);
		else
			memset(nonces[child], 0xff, WIRE_NONCE_BYTES);
	if (wired->parent != WIRING_ENGINES_MAX) {
		job.has_parent = true;
		job.parent = net_address(run->net, wiring_node(&run->wiring, wired->parent));
		job.parent_job = sim_job(wired->parent);
		job.parent_child = (uint16_t)wired->parent_child;
	}
	run->engine[e] = engine_open(&options);
	return run->engine[e] && !engine_job_add(run->engine[e], sim_job(e), &job);
}

static void engine_bind(struct run *run, uint32_t e)
{
	const struct wiring_engine *wired = &run->wiring.engine[e];

	for (uint32_t child = 0; child < wired->children; child++) {
		bool is_worker = wired->child[child].is_worker;
		uint32_t number = wired->child[child].number;
		struct link_address address = net_address(
			run->net, is_worker ? number : wiring_node(&run->wiring, number));

		if (!is_worker || !run->scenario->is_hello)
			engine_child_bind(run->engine[e], sim_job(e), (uint16_t)child, &address);
	}
}

static void engine_set(struct run *run, uint32_t e)
{
	if (engine_job_set(run->engine[e], sim_job(e), run->generation,
			   (uint16_t)run->scenario->lanes, true))
		check_fail(run->check, UINT32_MAX, 0, "an engine refuses generation %u",
			   run->generation);
	check_generation(run->check, e, run->generation);
}

static void engine_events_check(struct run *run, uint32_t e)
{
	struct engine_event event;
	char name[16];

	while (engine_events(run->engine[e], &event, 1)) {
		if (event.type == ENGINE_HELLO)
			continue;
		if (run->scenario->kind == SCENARIO_disagree && event.type == ENGINE_MISMATCH) {
			if (!run->mismatch_ns)
				run->mismatch_ns = net_now(run->net);
			run->report->mismatches++;
			continue;
		}
		wiring_name(&run->wiring, wiring_node(&run->wiring, e), name);
		check_fail(run->check, run->wiring.engine[e].shard, event.slot,
			   "%s: %s by child %u, round %u", name,
			   event.type == ENGINE_ALARM ? "ALARM" : "MISMATCH", event.child,
			   event.seq);
	}
}

static void engine_serve(struct run *run, uint32_t e)
{
	while (engine_poll(run->engine[e]))
		check_engine(run->check, e, run->engine[e]);
	engine_events_check(run, e);
}

/* --- workers --- */

static void worker_setup(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	uint32_t node = net_node_add(run->net, &run->scenario->worker[w].host);

	assert(node == w);
	rng_init(&worker->rng, run->scenario->seed, 1000 + w);
	for (uint32_t shard = 0; shard < SIM_SHARDS_MAX; shard++)
		for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
			worker->nonce[shard][i] = (uint8_t)rng_next(&worker->rng);
}

/* The worker has its grants. */
static void worker_open(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];
	struct endpoint_shard shards[SIM_SHARDS_MAX];
	struct endpoint_options options = { .link = net_link(run->net, w),
					    .quant = simd_best(),
					    .shards = shards,
					    .shards_count = scenario->shards,
					    .workers = scenario->workers,
					    .slots = scenario->slots,
					    .run = scenario->run,
					    .window = scenario->worker[w].window,
					    .ops_max = 8 };

	for (uint32_t s = 0; s < scenario->shards; s++) {
		uint32_t e = run->wiring.engine_of[s][w];

		shards[s] = (struct endpoint_shard){
			.address = net_address(run->net, wiring_node(&run->wiring, e)),
			.generation = run->generation,
			.job = sim_job(e),
			.child = (uint16_t)run->wiring.child_of[s][w],
		};
		memcpy(shards[s].nonce, worker->nonce[s], WIRE_NONCE_BYTES);
	}
	worker->endpoint = endpoint_open(&options);
	assert(worker->endpoint);
	worker->welcome = 0;
	worker->is_ready = worker->is_started = false;
	timer_in(run, rng_below(&worker->rng, MS), TIMER_HELLO, w);
}

/* All are ready: START, which reaches them one after the other. */
static void workers_start(struct run *run)
{
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		if (!run->worker[w].is_ready)
			return;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		timer_in(run, rng_below(&run->worker[w].rng, MS), TIMER_START, w);
}

static void worker_hello(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];
	uint32_t lanes = scenario->lanes < WIRE_HELLO_LANES ? WIRE_HELLO_LANES : scenario->lanes;
	uint32_t all = (1u << scenario->shards) - 1;

	if (!worker->endpoint || worker->is_ready)
		return;
	if (!scenario->is_hello)
		worker->welcome = all;
	if (worker->welcome == all) {
		worker->is_ready = true;
		workers_start(run);
		return;
	}
	worker->serial++;
	for (uint32_t s = 0; s < scenario->shards; s++)
		if (!(worker->welcome >> s & 1))
			endpoint_hello(worker->endpoint, s, worker->serial, lanes);
	timer_in(run, 100 * MS, TIMER_HELLO, w);
}

static void worker_welcomed(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	struct link_address local = net_address(run->net, w);
	struct endpoint_welcome welcome;

	while (endpoint_welcomes(worker->endpoint, &welcome, 1)) {
		if (run->scenario->kind != SCENARIO_rebind &&
		    !link_address_equal(&welcome.seen, &local))
			check_fail(run->check, UINT32_MAX, 0, "a WELCOME names another address");
		worker->welcome |= 1u << welcome.shard;
	}
	if (worker->welcome == (1u << run->scenario->shards) - 1)
		worker_hello(run, w);
}

static void worker_start(struct run *run, uint32_t w)
{
	const struct scenario_worker *config = &run->scenario->worker[w];
	struct run_worker *worker = &run->worker[w];

	if (!worker->is_ready || worker->is_started)
		return; /* of a life that has ended meanwhile */
	if (endpoint_start(worker->endpoint, run->scenario->lanes))
		check_fail(run->check, UINT32_MAX, 0, "w%u cannot start", w);
	if (run->scenario->seq_first && run->generation == 1)
		endpoint_rounds_begin(worker->endpoint, run->scenario->seq_first);
	worker->is_started = true;
	timer_in(run, rng_below(&worker->rng, config->gap_ns + 1), TIMER_SUBMIT, w);
	if (config->window_ns)
		timer_in(run, config->window_ns, TIMER_WINDOW, w);
}

static void worker_finished(struct run *run, uint32_t w)
{
	uint64_t cookie;

	while (endpoint_done(run->worker[w].endpoint, &cookie, 1)) {
		load_done(run->load, w, (uint32_t)cookie);
		if (run->scenario->worker[w].is_waiting)
			timer_in(run, 1 * US, TIMER_SUBMIT, w);
	}
	if (load_is_finished(run->load))
		run->is_over = true;
}

static void worker_serve(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	struct link *link = net_link(run->net, w);
	struct link_frame frame;
	uint32_t polls = 0;

	if (!worker->endpoint) { /* between two lives: what comes is for nobody */
		while (link->ops->recv(link, &frame, 1) > 0)
			;
		return;
	}
	while (endpoint_poll(worker->endpoint) && polls++ < POLLS_MAX)
		if (worker->is_started)
			check_worker(run->check, w, endpoint_worker(worker->endpoint));
	if (polls >= POLLS_MAX)
		check_fail(run->check, UINT32_MAX, 0, "w%u has always something to do", w);
	if (!worker->is_started) {
		worker_welcomed(run, w);
		return;
	}
	if (endpoint_progress_ns(worker->endpoint) > run->progress_ns)
		progress(run);
	if (endpoint_fault(worker->endpoint) != ENDPOINT_OK)
		check_fail(run->check, UINT32_MAX, 0, "w%u: the endpoint reports fault %d", w,
			   (int)endpoint_fault(worker->endpoint));
	worker_finished(run, w);
	uint64_t next = endpoint_next(worker->endpoint);
	run->spins = next <= net_now(run->net) ? run->spins + 1 : 0;
	if (run->spins > POLLS_MAX)
		check_fail(run->check, UINT32_MAX, 0, "w%u never waits", w);
	if (next != PACE_NEVER)
		net_poll_at(run->net, w, next > net_now(run->net) ? next : net_now(run->net) + 1);
}

static void restart_decide(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];

	if (run->is_struck || w || worker->next <= run->scenario->strike_op)
		return;
	run->is_struck = true;
	if (run->scenario->kind == SCENARIO_restart)
		timer_in(run, rng_log(&run->rng, 1, 20 * MS), TIMER_RESTART, 0);
}

static void worker_submit(struct run *run, uint32_t w)
{
	const struct scenario_worker *config = &run->scenario->worker[w];
	struct run_worker *worker = &run->worker[w];
	struct endpoint_op op;

	if (!worker->is_started || worker->next == run->scenario->ops)
		return;
	if (config->is_waiting && !load_is_idle(run->load, w))
		return; /* the end of the one before is its time */
	load_submit(run->load, w, worker->next, &op);
	int error = endpoint_submit(worker->endpoint, &op);
	if (error == -EAGAIN) {
		timer_in(run, 100 * US, TIMER_SUBMIT, w);
		return;
	}
	if (error)
		check_fail(run->check, UINT32_MAX, 0, "w%u: operation %u is refused", w,
			   worker->next);
	worker->next++;
	progress(run);
	uint64_t gap = rng_below(&worker->rng, config->gap_ns + 1);
	if (rng_chance(&worker->rng, 300000))
		gap = 0; /* several at once */
	if (rng_chance(&worker->rng, config->straggle))
		gap += rng_log(&worker->rng, MS, STRAGGLE_NS);
	timer_in(run, gap, TIMER_SUBMIT, w);
	net_poll_at(run->net, w, net_now(run->net));
	restart_decide(run, w);
}

static void worker_window(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];

	if (run->is_over || !worker->is_started)
		return;
	endpoint_window(worker->endpoint, rng_below(&worker->rng, scenario->shards),
			(enum map_stream)rng_below(&worker->rng, MAP_STREAMS),
			1 + rng_below(&worker->rng, scenario->slots));
	net_poll_at(run->net, w, net_now(run->net));
	timer_in(run, rng_between(&worker->rng, 1, 2 * scenario->worker[w].window_ns), TIMER_WINDOW,
		 w);
}

/* What the worker did in this life, for the report; the slots' rounds are the accepted results (W1). */
static void worker_close(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];
	struct run_report *report = run->report;
	struct endpoint_stats stats;
	uint64_t rounds = 0;

	if (!worker->endpoint)
		return;
	endpoint_stats(worker->endpoint, &stats);
	if (worker->is_started) {
		const struct worker *state = endpoint_worker(worker->endpoint);
		uint32_t first = run->generation == 1 ? scenario->seq_first : 0;
		for (uint32_t i = 0; i < scenario->shards * scenario->slots; i++)
			rounds += state->slot[i].seq - first -
				  (state->slot[i].state == WORKER_OUTSTANDING);
		if (rounds != stats.results_in)
			check_fail(run->check, UINT32_MAX, 0,
				   "W1: w%u has accepted %llu results in %llu rounds", w,
				   (unsigned long long)stats.results_in,
				   (unsigned long long)rounds);
	}
	report->chunks_express += stats.chunks_express;
	report->chunks_bulk += stats.chunks_bulk;
	report->updates += stats.updates_out;
	report->resent += stats.updates_resent;
	report->probes += stats.probes_out;
	report->exponent_rounds += stats.exponent_rounds;
	report->detail_rounds += stats.detail_rounds;
	report->saturated += stats.saturated;
	endpoint_close(worker->endpoint);
	worker->endpoint = NULL;
	worker->is_ready = worker->is_started = false;
}

/* --- what strikes --- */

static void pause_something(struct run *run)
{
	const struct scenario *scenario = run->scenario;
	uint32_t node = rng_below(&run->rng, run->wiring.workers + run->wiring.engines);
	uint64_t until = net_now(run->net) + rng_log(&run->rng, 50 * US, scenario->pause_ns);

	if (run->is_over)
		return;
	switch (rng_below(&run->rng, 3)) {
	case 0:
		net_pause_node(run->net, node, until);
		break;
	case 1:
		net_pause_lines(run->net, node, until, false);
		break;
	default:
		net_pause_lines(run->net, node, until, true);
		break;
	}
	timer_in(run, rng_between(&run->rng, 1, 2ull * scenario->pause_every_ns), TIMER_PAUSE, 0);
}

/* Everybody leaves; the engines learn of the next generation one by one, in any order; then all start
 * again from a step that all agree on. */
static void restart(struct run *run)
{
	if (run->is_over)
		return;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		worker_close(run, w);
	run->worker[0].next = load_restart(run->load);
	for (uint32_t w = 1; w < run->scenario->workers; w++)
		run->worker[w].next = run->worker[0].next;
	run->generation++;
	run->sets_left = run->wiring.engines;
	for (uint32_t e = 0; e < run->wiring.engines; e++)
		timer_in(run, rng_log(&run->rng, 1, 2 * MS), TIMER_SET, e);
}

static void restart_set(struct run *run, uint32_t e)
{
	engine_set(run, e);
	if (--run->sets_left)
		return;
	check_life(run->check, run->generation, 0);
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		worker_open(run, w);
}

static void rebind(struct run *run)
{
	uint32_t w = rng_below(&run->rng, run->scenario->workers);

	if (run->is_over)
		return;
	net_readdress(run->net, w, (uint16_t)(net_address(run->net, w).port + 1));
	timer_in(run, rng_log(&run->rng, 10 * MS, 500 * MS), TIMER_REBIND, 0);
}

/* A slot whose workers are not at the same round, or wait for one that not all have begun: the place to
 * look at when nothing moves. */
static bool stuck_slot(const struct run *run, uint32_t *shard, uint32_t *slot)
{
	const struct scenario *scenario = run->scenario;

	for (uint32_t i = 0; i < scenario->shards * scenario->slots; i++) {
		const struct worker_slot *first = NULL;

		for (uint32_t w = 0; w < scenario->workers; w++) {
			if (!run->worker[w].is_started)
				return false;
			const struct worker *worker = endpoint_worker(run->worker[w].endpoint);
			const struct worker_slot *at = &worker->slot[i];
			first = first ? first : at;
			*shard = i / scenario->slots;
			*slot = i % scenario->slots;
			if (at->seq != first->seq && at->state == WORKER_OUTSTANDING &&
			    first->state == WORKER_OUTSTANDING)
				return true;
		}
	}
	return false;
}

static void look_for_progress(struct run *run)
{
	uint64_t idle = net_now(run->net) - run->progress_ns;

	if (run->is_over)
		return;
	if (run->scenario->kind == SCENARIO_disagree) {
		if (idle > STUCK_DISAGREE_NS ||
		    (run->mismatch_ns && net_now(run->net) - run->mismatch_ns > 200 * MS))
			run->is_over = true;
	} else if (idle > (run->scenario->kind == SCENARIO_storm ? STUCK_STORM_NS : STUCK_NS)) {
		uint32_t shard, slot = 0;
		if (!stuck_slot(run, &shard, &slot))
			shard = UINT32_MAX;
		check_fail(run->check, shard, slot, "no progress for %llu s",
			   (unsigned long long)(idle / SECOND));
	}
	timer_in(run, 200 * MS, TIMER_WATCH, 0);
}

static void timer_fires(struct run *run, uint32_t what, uint32_t whom)
{
	switch (what) {
	case TIMER_HELLO:
		worker_hello(run, whom);
		break;
	case TIMER_START:
		worker_start(run, whom);
		break;
	case TIMER_SUBMIT:
		worker_submit(run, whom);
		break;
	case TIMER_WINDOW:
		worker_window(run, whom);
		break;
	case TIMER_PAUSE:
		pause_something(run);
		break;
	case TIMER_RESTART:
		restart(run);
		break;
	case TIMER_SET:
		restart_set(run, whom);
		break;
	case TIMER_REBIND:
		rebind(run);
		break;
	default:
		look_for_progress(run);
		break;
	}
}

/* What a stuck run waits for. */
static void state_print(const struct run *run, FILE *file)
{
	const struct scenario *scenario = run->scenario;

	for (uint32_t w = 0; w < scenario->workers; w++) {
		const struct run_worker *worker = &run->worker[w];
		fprintf(file, "w%u: %u of %u operations submitted", w, worker->next, scenario->ops);
		if (!worker->is_started) {
			fprintf(file, ", not started\n");
			continue;
		}
		const struct worker *state = endpoint_worker(worker->endpoint);
		for (uint32_t s = 0; s < scenario->shards; s++) {
			fprintf(file, "; shard %u: next %llu express, %llu bulk, outstanding", s,
				(unsigned long long)state->shards[s].next[MAP_EXPRESS],
				(unsigned long long)state->shards[s].next[MAP_BULK]);
			for (uint32_t i = 0; i < scenario->slots; i++) {
				const struct worker_slot *slot =
					&state->slot[s * scenario->slots + i];
				if (slot->state == WORKER_OUTSTANDING)
					fprintf(file, " %u:%u", i, slot->seq);
			}
		}
		fprintf(file, "\n");
	}
}

/* --- the whole --- */

static bool setup(struct run *run)
{
	const struct scenario *scenario = run->scenario;
	uint32_t lanes = scenario->lanes < WIRE_HELLO_LANES ? WIRE_HELLO_LANES : scenario->lanes;
	struct net_options options = { .seed = scenario->seed,
				       .packet_bytes_max = wire_bytes(lanes),
				       .weather = scenario->weather };

	wiring_init(&run->wiring, scenario);
	run->generation = 1;
	rng_init(&run->rng, scenario->seed, 3);
	run->net = net_open(&options);
	run->check = check_open(scenario, &run->wiring);
	run->load = load_open(scenario, run->check);
	run->diagram = malloc(sizeof(*run->diagram));
	if (!run->net || !run->check || !run->load || !run->diagram)
		return false;
	run->diagram->count = 0;
	for (uint32_t w = 0; w < scenario->workers; w++)
		worker_setup(run, w);
	for (uint32_t e = 0; e < run->wiring.engines; e++)
		if (!engine_setup(run, e))
			return false;
	return true;
}

static void begin(struct run *run)
{
	const struct scenario *scenario = run->scenario;

	net_watch(run->net, watch, run);
	check_life(run->check, run->generation, scenario->seq_first);
	for (uint32_t e = 0; e < run->wiring.engines; e++) {
		engine_bind(run, e);
		engine_set(run, e);
		if (scenario->seq_first)
			engine_rounds_begin(run->engine[e], sim_job(e), scenario->seq_first);
	}
	for (uint32_t w = 0; w < scenario->workers; w++)
		worker_open(run, w);
	run->progress_ns = net_now(run->net);
	timer_in(run, SECOND, TIMER_WATCH, 0);
	if (scenario->pause_every_ns)
		timer_in(run, rng_below(&run->rng, 10 * MS), TIMER_PAUSE, 0);
	if (scenario->kind == SCENARIO_rebind)
		timer_in(run, 5 * MS, TIMER_REBIND, 0);
}

/* Until everything is done and, after that, has come to rest: whoever still sends then would do so for
 * ever. */
static void events_run(struct run *run)
{
	uint64_t rest_ns = NET_NEVER;

	while (!check_failure(run->check)->is_set) {
		struct net_event event = net_step(run->net);

		if (run->is_over && run->scenario->kind == SCENARIO_disagree)
			return;
		if (run->is_over && rest_ns == NET_NEVER)
			rest_ns = net_now(run->net) + 2 * SECOND;
		if (event.type == NET_IDLE) {
			if (!run->is_over)
				check_fail(run->check, UINT32_MAX, 0, "nothing is left to happen");
			return;
		}
		if (event.type == NET_TIMER)
			timer_fires(run, event.cookie >> TIMER_SHIFT,
				    event.cookie & ((1u << TIMER_SHIFT) - 1));
		else if (wiring_is_worker(&run->wiring, event.node))
			worker_serve(run, event.node);
		else
			engine_serve(run, wiring_engine(&run->wiring, event.node));
		if (net_now(run->net) > rest_ns)
			check_fail(run->check, UINT32_MAX, 0,
				   "there is traffic 2 s after everything is done");
	}
}

static void fini(struct run *run)
{
	for (uint32_t w = 0; w < SIM_WORKERS_MAX; w++)
		endpoint_close(run->worker[w].endpoint);
	for (uint32_t e = 0; e < WIRING_ENGINES_MAX; e++)
		engine_close(run->engine[e]);
	load_close(run->load);
	check_close(run->check);
	net_close(run->net);
	free(run->diagram);
	free(run);
}

static void report_fill(struct run *run)
{
	struct run_report *report = run->report;
	const struct net_stats *stats = net_stats(run->net);
	const struct check_failure *failure = check_failure(run->check);

	report->lost = stats->fate[NET_LOST] + stats->fate[NET_FULL] + stats->fate[NET_NOBODY];
	report->packets = stats->fate[NET_SENT] + stats->fate[NET_DOUBLED] + report->lost;
	report->lost += stats->fate[NET_REFUSED] + stats->fate[NET_DROPPED];
	report->operations = run->scenario->ops;
	report->elements = load_elements(run->load);
	report->virtual_ns = net_now(run->net);
	report->is_failed = failure->is_set;
	memcpy(report->failure, failure->text, sizeof(report->failure));
}

void run_scenario(const struct scenario *scenario, struct run_report *report, FILE *diagram)
{
	struct run *run = calloc(1, sizeof(*run));

	*report = (struct run_report){ 0 };
	if (!run)
		abort();
	run->scenario = scenario;
	run->report = report;
	if (!setup(run))
		abort(); /* out of memory: nothing that could be reported about the protocol */
	begin(run);
	events_run(run);
	if (check_failure(run->check)->is_set && diagram)
		state_print(run, diagram);
	for (uint32_t w = 0; w < scenario->workers; w++)
		worker_close(run, w);
	report_fill(run);
	if (report->is_failed && diagram)
		diagram_draw(run->diagram, &run->wiring, check_failure(run->check)->shard,
			     check_failure(run->check)->slot, diagram);
	fini(run);
}

void run_report_add(struct run_report *sum, const struct run_report *other)
{
	sum->chunks_express += other->chunks_express;
	sum->chunks_bulk += other->chunks_bulk;
	sum->packets += other->packets;
	sum->lost += other->lost;
	sum->updates += other->updates;
	sum->resent += other->resent;
	sum->probes += other->probes;
	sum->exponent_rounds += other->exponent_rounds;
	sum->detail_rounds += other->detail_rounds;
	sum->elements += other->elements;
	sum->saturated += other->saturated;
	sum->operations += other->operations;
	sum->mismatches += other->mismatches;
	sum->virtual_ns += other->virtual_ns;
	if (other->stall_ns > sum->stall_ns)
		sum->stall_ns = other->stall_ns;
	sum->digest = (sum->digest ^ other->digest) * 0x9e3779b97f4a7c15;
}
