/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/published.h"
#include "sim/run_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A node as its job counts it; NET_NODES_MAX: it is nobody's there. */
static uint32_t local_node(const struct run *run, uint32_t node)
{
	uint32_t first = run->leader->wiring.workers;

	if (node - run->node_first < run->wiring.workers)
		return node - run->node_first;
	return node - first < run->wiring.engines ? run->wiring.workers + node - first
						  : NET_NODES_MAX;
}

/* Whose packet it is, and how that job sees it. */
static struct run *job_find(struct run *leader, const struct wire *packet, struct net_sight *sight)
{
	uint32_t number = (uint32_t)(packet->job - SIM_JOB) / SIM_JOB_STEP;
	struct run *run = leader->job[packet->job >= SIM_JOB && number < leader->jobs ? number : 0];

	sight->from = local_node(run, sight->from);
	sight->to = local_node(run, sight->to);
	return run;
}

static void watch(void *context, const struct net_sight *seen)
{
	struct net_sight sight = *seen;
	struct run *run = context;
	struct run_report *report = run->report;
	struct wire packet;

	wire_get(seen->data, &packet);
	if (run->jobs > 1)
		run = job_find(run, &packet, &sight);
	if (run->diagram)
		diagram_add(run->diagram, &sight, &packet);
	if (!published_is_run(run->scenario)) /* its rules are not theirs: only the oracle judges */
		check_sight(run->check, &sight, &packet);
	if (net_is_sending(sight.fate) && packet.type == WIRE_UPDATE &&
	    packet.flags & WIRE_RESENT && run->scenario->kind == SCENARIO_clean)
		check_fail(run->check, UINT32_MAX, 0, "an UPDATE is sent twice without any loss");
	uint64_t word = seen->now_ns ^ (uint64_t)packet.seq << 32 ^ (uint64_t)packet.slot << 16 ^
			(uint64_t)seen->fate << 12 ^ seen->from << 6 ^ seen->to ^
			(uint64_t)packet.type << 60 ^ (uint64_t)packet.flags << 52;
	report->digest = (report->digest ^ word) * 0x9e3779b97f4a7c15;
	report->digest ^= report->digest >> 31;
}

/* A slot whose workers are not at the same round, or wait for one that not all have begun: the place to look at
 * when nothing moves. Else the first that anybody waits for. */
static bool stuck_slot(const struct run *run, uint32_t *shard, uint32_t *slot)
{
	const struct scenario *scenario = run->scenario;
	uint32_t all = scenario->shards * scenario->slots, found = all;

	for (uint32_t i = 0; i < all && !scenario->latency_window; i++) {
		const struct worker_slot *first = NULL;

		for (uint32_t w = 0; w < scenario->workers; w++) {
			if (!run->worker[w].is_started)
				return false;
			const struct worker *worker = endpoint_worker(run->worker[w].endpoint);
			const struct worker_slot *at = &worker->slot[i];
			bool is_waiting = at->state == WORKER_OUTSTANDING;
			first = first ? first : at;
			*shard = i / scenario->slots;
			*slot = i % scenario->slots;
			if (at->seq != first->seq && is_waiting &&
			    first->state == WORKER_OUTSTANDING)
				return true;
			if (is_waiting && found == all)
				found = i;
		}
	}
	*shard = found / scenario->slots;
	*slot = found % scenario->slots;
	return found < all;
}

/* How often: often enough for the run's patience. */
static uint64_t watch_ns(const struct scenario *scenario)
{
	return scenario->bound_ns < SECOND ? scenario->bound_ns / 4 : 200 * MS;
}

static void look_for_progress(struct run *run)
{
	uint64_t since = run->progress_ns > run->leader->heal_ns ? run->progress_ns
								 : run->leader->heal_ns;
	uint64_t idle = net_now(run->net) > since ? net_now(run->net) - since : 0;

	if (run->is_over)
		return;
	if (run->scenario->kind == SCENARIO_disagree) {
		if (idle > STUCK_DISAGREE_NS ||
		    (run->mismatch_ns && net_now(run->net) - run->mismatch_ns > 200 * MS))
			run->is_over = true;
	} else if (idle > run->scenario->bound_ns) {
		uint32_t shard, slot = 0;
		if (!stuck_slot(run, &shard, &slot))
			shard = UINT32_MAX;
		if (run->leader->diagram)
			run->leader->diagram->stuck_ns = since;
		check_fail(run->check, shard, slot, "no progress for %.3g s",
			   (double)idle / SECOND);
	}
	run_timer_in(run, watch_ns(run->scenario), TIMER_WATCH, 0);
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
		if (worker_submit(run, whom))
			strike_submitted(run, whom);
		break;
	case TIMER_WINDOW:
		worker_window(run, whom);
		break;
	case TIMER_WATCH:
		look_for_progress(run);
		break;
	default:
		strike_timer(run, what, whom);
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

static bool job_open(struct run *run)
{
	wiring_init(&run->wiring, run->scenario);
	run->net = run->leader->net;
	run->report = run->leader->report;
	/* A counter starts anywhere: as a signed number every other one is behind a new slot's 0. */
	run->generation = (uint32_t)(run->scenario->seed * 0x9e3779b97f4a7c15 >> 32) | 1;
	rng_init(&run->rng, run->scenario->seed, 3);
	run->check = check_open(run->scenario, &run->wiring);
	run->load = load_open(run->scenario, run->check);
	if (!run->check || !run->load)
		return false;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		worker_setup(run, w);
	return true;
}

/* The other jobs of the scenario: their workers come behind all that there is. */
static bool jobs_open(struct run *leader)
{
	const struct scenario *scenario = leader->scenario;
	uint32_t nodes = leader->wiring.workers + leader->wiring.engines;

	for (leader->jobs = 1; leader->jobs < scenario->jobs; leader->jobs++) {
		struct run *run = calloc(1, sizeof(*run));

		if (!run || !(run->own_scenario = malloc(sizeof(*scenario))))
			return false;
		leader->job[leader->jobs] = run;
		scenario_draw_job(run->own_scenario, scenario, leader->jobs);
		run->scenario = run->own_scenario;
		run->number = leader->jobs;
		run->leader = leader;
		run->node_first = nodes;
		nodes += run->scenario->workers;
		if (!job_open(run))
			return false;
	}
	return true;
}

static bool setup(struct run *run, bool is_drawn)
{
	const struct scenario *scenario = run->scenario;
	uint32_t lanes = WIRE_HELLO_LANES;
	struct net_options options = { .seed = scenario->seed,
				       .fault_first = scenario->fault_first,
				       .fault_last = scenario->fault_last,
				       .weather = scenario->weather };

	if (lanes < scenario->lanes || scenario->jobs > 1)
		lanes = scenario->jobs > 1 ? SIM_LANES_MAX : scenario->lanes;
	options.packet_bytes_max = wire_bytes(lanes);
	run->leader = run->job[0] = run;
	run->net = net_open(&options);
	if (!run->net || !job_open(run))
		return false;
	if (is_drawn && !(run->diagram = malloc(sizeof(*run->diagram))))
		return false;
	if (run->diagram) {
		run->diagram->count = run->diagram->stuck_ns = 0;
		run->diagram->rules = published_is_run(scenario) ? scenario->rules : SIM_OURS;
	}
	for (uint32_t e = 0; e < run->wiring.engines; e++) {
		uint32_t root = run->wiring.engine[e].root;
		uint32_t node = net_node_add(
			run->net, &scenario->shard[run->wiring.engine[e].shard].host[e - root]);
		assert(node == wiring_node(&run->wiring, e));
		if (!engine_setup(run, e))
			return false;
	}
	if (!jobs_open(run))
		return false;
	for (uint32_t k = 0; k < run->jobs; k++)
		for (uint32_t e = 0; e < run->wiring.engines; e++)
			if (!engine_job_setup(run->job[k], e))
				return false;
	return true;
}

static void begin(struct run *run)
{
	const struct scenario *scenario = run->scenario;

	check_life(run->check, run->generation, scenario->seq_first);
	for (uint32_t e = 0; e < run->wiring.engines; e++) {
		engine_bind(run, e);
		engine_set(run, e);
		if (scenario->seq_first)
			engine_rounds_begin(run->leader->engine[e], sim_job(scenario, e),
					    scenario->seq_first);
	}
	for (uint32_t w = 0; w < scenario->workers; w++)
		worker_open(run, w);
	run->progress_ns = net_now(run->net);
	run_timer_in(run, scenario->bound_ns < SECOND ? scenario->bound_ns : SECOND, TIMER_WATCH,
		     0);
	strike_begin(run);
}

static const struct check_failure *run_failure(const struct run *leader)
{
	const struct check_failure *failure = check_failure(leader->check);

	for (uint32_t k = 1; k < leader->jobs && !failure->is_set; k++)
		failure = check_failure(leader->job[k]->check);
	return failure;
}

static bool are_over(const struct run *leader)
{
	for (uint32_t k = 0; k < leader->jobs; k++)
		if (!leader->job[k]->is_over)
			return false;
	return true;
}

static void event_serve(struct run *leader, const struct net_event *event)
{
	uint32_t mask = (1u << TIMER_SHIFT) - 1;

	if (event->type == NET_TIMER) {
		timer_fires(leader->job[event->cookie >> TIMER_JOB_SHIFT],
			    event->cookie >> TIMER_SHIFT & mask, event->cookie & mask);
		return;
	}
	for (uint32_t k = 0; k < leader->jobs; k++) {
		struct run *run = leader->job[k];
		if (event->node - run->node_first < run->wiring.workers) {
			worker_serve(run, event->node - run->node_first);
			return;
		}
	}
	engine_serve(leader, wiring_engine(&leader->wiring, event->node));
}

/* When all that is done is to be at rest: what a strike has frozen answers only when it goes on. */
static uint64_t rest_begins(const struct run *run)
{
	uint64_t now = net_now(run->net);

	return (now > run->heal_ns ? now : run->heal_ns) + run->scenario->rest_ns;
}

/* Until everything is done and, after that, has come to rest: whoever still sends then would do so for
 * ever. */
static void events_run(struct run *run)
{
	uint64_t rest_ns = NET_NEVER;

	while (!run_failure(run)->is_set) {
		struct net_event event = net_step(run->net);
		bool is_over = are_over(run);

		if (is_over && run->scenario->kind == SCENARIO_disagree)
			return;
		if (is_over && rest_ns == NET_NEVER)
			rest_ns = rest_begins(run);
		if (event.type == NET_IDLE) {
			if (!is_over)
				check_fail(run->check, UINT32_MAX, 0, "nothing is left to happen");
			return;
		}
		event_serve(run, &event);
		if (net_now(run->net) > rest_ns && event.type == NET_POLL)
			check_fail(run->check, UINT32_MAX, 0,
				   "there is traffic %.3g s after everything is done",
				   (double)run->scenario->rest_ns / SECOND);
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
	if (run->leader == run)
		net_close(run->net);
	free(run->diagram);
	free(run->own_scenario);
	free(run);
}

static void report_fill(struct run *run)
{
	struct run_report *report = run->report;
	const struct net_stats *stats = net_stats(run->net);
	const struct check_failure *failure = run_failure(run);

	report->lost = stats->fate[NET_LOST] + stats->fate[NET_FULL] + stats->fate[NET_NOBODY];
	report->packets = stats->fate[NET_SENT] + stats->fate[NET_DOUBLED] + report->lost;
	report->lost += stats->fate[NET_REFUSED] + stats->fate[NET_DROPPED];
	for (uint32_t k = 0; k < run->jobs; k++) {
		report->operations += run->job[k]->scenario->ops;
		report->elements += load_elements(run->job[k]->load);
		report->errors += run->job[k]->is_lost;
	}
	report->lives = run->life + 1;
	report->virtual_ns = net_now(run->net);
	report->is_failed = failure->is_set;
	memcpy(report->failure, failure->text, sizeof(report->failure));
}

static void failure_draw(const struct run *leader, FILE *diagram)
{
	const struct check_failure *failure = run_failure(leader);

	for (uint32_t k = 0; k < leader->jobs; k++)
		state_print(leader->job[k], diagram);
	diagram_draw(leader->diagram, &leader->wiring, failure->shard, failure->slot, diagram);
}

void run_scenario(const struct scenario *scenario, struct run_report *report, FILE *diagram)
{
	struct run *run = calloc(1, sizeof(*run));

	*report = (struct run_report){ 0 };
	if (!run)
		abort();
	run->scenario = scenario;
	run->report = report;
	if (!setup(run, diagram))
		abort(); /* out of memory: nothing that could be reported about the protocol */
	net_watch(run->net, watch, run);
	if (published_is_run(scenario)) {
		published_run(run);
	} else {
		for (uint32_t k = 0; k < run->jobs; k++)
			begin(run->job[k]);
		events_run(run);
	}
	if (run_failure(run)->is_set && diagram)
		failure_draw(run, diagram);
	for (uint32_t k = 0; k < run->jobs; k++)
		for (uint32_t w = 0; w < run->job[k]->scenario->workers; w++)
			worker_close(run->job[k], w);
	report_fill(run);
	for (uint32_t k = run->jobs; k-- > 0;)
		fini(run->job[k]);
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
	sum->errors += other->errors;
	sum->lives += other->lives;
	sum->virtual_ns += other->virtual_ns;
	if (other->stall_ns > sum->stall_ns)
		sum->stall_ns = other->stall_ns;
	sum->digest = (sum->digest ^ other->digest) * 0x9e3779b97f4a7c15;
}
