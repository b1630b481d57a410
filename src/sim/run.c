/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/published.h"
#include "sim/run_state.h"

#include <stdlib.h>
#include <string.h>

void run_timer_in(struct run *run, uint64_t delay_ns, uint32_t what, uint32_t whom)
{
	net_timer(run->net, net_now(run->net) + delay_ns, what << TIMER_SHIFT | whom);
}

static void watch(void *context, const struct net_sight *sight)
{
	struct run *run = context;
	struct wire packet;

	wire_get(sight->data, &packet);
	diagram_add(run->diagram, sight, &packet);
	if (!published_is_run(run->scenario)) /* its rules are not theirs: only the oracle judges */
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

void run_progress(struct run *run)
{
	uint64_t now = net_now(run->net);

	if (now - run->progress_ns > run->report->stall_ns)
		run->report->stall_ns = now - run->progress_ns;
	run->progress_ns = now;
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
	run_timer_in(run, rng_between(&run->rng, 1, 2ull * scenario->pause_every_ns), TIMER_PAUSE,
		     0);
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
		run_timer_in(run, rng_log(&run->rng, 1, 2 * MS), TIMER_SET, e);
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
	run_timer_in(run, rng_log(&run->rng, 10 * MS, 500 * MS), TIMER_REBIND, 0);
}

/* A slot whose workers are not at the same round, or wait for one that not all have begun: the place to
 * look at when nothing moves. */
static bool stuck_slot(const struct run *run, uint32_t *shard, uint32_t *slot)
{
	const struct scenario *scenario = run->scenario;

	for (uint32_t i = 0; i < scenario->shards * scenario->slots && !scenario->latency_window;
	     i++) {
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
	run_timer_in(run, 200 * MS, TIMER_WATCH, 0);
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
		if (scenario->latency_window) {
			const struct worker_latency *latency =
				endpoint_worker_latency(worker->endpoint);
			fprintf(file, "; complete %llu, sent %llu, submitted %llu\n",
				(unsigned long long)latency->head,
				(unsigned long long)latency->next,
				(unsigned long long)latency->tail);
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
	run->diagram->is_published = published_is_run(scenario);
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
	run_timer_in(run, SECOND, TIMER_WATCH, 0);
	if (scenario->pause_every_ns)
		run_timer_in(run, rng_below(&run->rng, 10 * MS), TIMER_PAUSE, 0);
	if (scenario->kind == SCENARIO_rebind)
		run_timer_in(run, 5 * MS, TIMER_REBIND, 0);
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
	if (published_is_run(scenario)) {
		net_watch(run->net, watch, run);
		published_run(run);
	} else {
		begin(run);
		events_run(run);
	}
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
