/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run_state.h"
#include "simd/simd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { NARROW_ANSWERS = 4, NARROW_ROUNDS = 50, SERIALS = 1 << 16 };

/* --- engines --- */

bool engine_setup(struct run *run, uint32_t e)
{
	struct engine_options options = {
		.link = net_link(run->net, run_node(run, wiring_node(&run->wiring, e))),
		.jobs_max = SIM_JOB + SIM_JOB_STEP * SIM_JOBS_MAX
	};

	run->leader->engine[e] = engine_open(&options);
	return run->leader->engine[e];
}

bool engine_job_setup(struct run *run, uint32_t e)
{
	const struct scenario *scenario = run->scenario;
	const struct wiring_engine *wired = &run->wiring.engine[e];
	uint8_t nonces[SIM_WORKERS_MAX + SIM_ENGINES_MAX][WIRE_NONCE_BYTES] = { { 0 } };
	struct engine_job job = { .generation = run->generation,
				  .children = (uint16_t)wired->children,
				  .slots = scenario->slots,
				  .lanes_max = (uint16_t)scenario->lanes,
				  .nonces = (const uint8_t(*)[WIRE_NONCE_BYTES])nonces };

	if (scenario->latency_window)
		job.mode = (uint8_t)switch_latency_mode(scenario->slots, scenario->latency_window);
	for (uint32_t child = 0; child < wired->children; child++)
		if (wired->child[child].is_worker)
			memcpy(nonces[child],
			       run->worker[wired->child[child].number].nonce[wired->shard],
			       WIRE_NONCE_BYTES);
		else
			memset(nonces[child], 0xff, WIRE_NONCE_BYTES);
	if (wired->parent != WIRING_ENGINES_MAX) {
		job.has_parent = true;
		job.parent = net_address(run->net,
					 run_node(run, wiring_node(&run->wiring, wired->parent)));
		job.parent_job = sim_job(scenario, wired->parent);
		job.parent_child = (uint16_t)wired->parent_child;
	}
	return !engine_job_add(run->leader->engine[e], sim_job(scenario, e), &job);
}

void engine_bind(struct run *run, uint32_t e)
{
	const struct wiring_engine *wired = &run->wiring.engine[e];

	for (uint32_t child = 0; child < wired->children; child++) {
		bool is_worker = wired->child[child].is_worker;
		uint32_t number = wired->child[child].number;
		struct link_address address = net_address(
			run->net,
			run_node(run, is_worker ? number : wiring_node(&run->wiring, number)));

		if (!is_worker || !run->scenario->is_hello)
			engine_child_bind(run->leader->engine[e], sim_job(run->scenario, e),
					  (uint16_t)child, &address);
	}
}

void engine_set(struct run *run, uint32_t e)
{
	if (engine_job_set(run->leader->engine[e], sim_job(run->scenario, e), run->generation,
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
		if (event.type == ENGINE_HELLO || event.type == ENGINE_HEARD ||
		    event.type == ENGINE_REFUSED ||
		    (event.type == ENGINE_MISFIT && event.misfit == MISFIT_OVERRUN))
			continue; /* what comes late on the network may ask for a round of the past */
		if (run->scenario->kind == SCENARIO_disagree && event.type == ENGINE_MISFIT &&
		    event.misfit == MISFIT_DIFFERS)
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
			   event.type == ENGINE_ALARM    ? "ALARM"
			   : event.type == ENGINE_MISFIT ? "MISFIT"
							 : "MISMATCH",
			   event.child, event.seq);
	}
}

/* What comes for nobody is thrown away. */
static void node_drain(struct run *run, uint32_t node)
{
	struct link *link = net_link(run->net, run_node(run, node));
	struct link_frame frame;

	while (link->ops->recv(link, &frame, 1) > 0)
		;
}

void engine_serve(struct run *run, uint32_t e)
{
	if (!run->engine[e]) {
		node_drain(run, wiring_node(&run->wiring, e));
		return;
	}
	while (engine_poll(run->engine[e]))
		for (uint32_t k = 0; k < run->jobs; k++)
			check_engine(run->job[k]->check, e, run->engine[e]);
	engine_events_check(run, e);
}

/* --- workers --- */

void worker_nonces_draw(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];

	for (uint32_t shard = 0; shard < SIM_SHARDS_MAX; shard++)
		for (uint32_t i = 0; i < WIRE_NONCE_BYTES; i++)
			worker->nonce[shard][i] = (uint8_t)rng_next(&worker->rng);
}

void worker_setup(struct run *run, uint32_t w)
{
	uint32_t node = net_node_add(run->net, &run->scenario->worker[w].host);

	assert(node == run_node(run, w));
	rng_init(&run->worker[w].rng, run->scenario->seed, 1000 + w);
	worker_nonces_draw(run, w);
}

/* The worker has its grants. */
void worker_open(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];
	struct endpoint_shard shards[SIM_SHARDS_MAX];
	struct endpoint_options options = { .link = net_link(run->net, run_node(run, w)),
					    /* Both give the same bits. */
					    .quant = w & 1 ? &quant_scalar : simd_best(),
					    .shards = shards,
					    .shards_count = scenario->shards,
					    .workers = scenario->workers,
					    .slots = scenario->slots,
					    .run = scenario->run,
					    .window = scenario->worker[w].window,
					    .latency_window = scenario->latency_window,
					    .ops_max = 8 };

	for (uint32_t s = 0; s < scenario->shards; s++) {
		uint32_t e = run->wiring.engine_of[s][w];

		shards[s] = (struct endpoint_shard){
			.address =
				net_address(run->net, run_node(run, wiring_node(&run->wiring, e))),
			.generation = run->generation,
			.job = sim_job(scenario, e),
			.child = (uint16_t)run->wiring.child_of[s][w],
		};
		memcpy(shards[s].nonce, worker->nonce[s], WIRE_NONCE_BYTES);
	}
	worker->endpoint = endpoint_open(&options);
	assert(worker->endpoint);
	worker->welcome = 0;
	worker->pace = (struct check_pace){ 0 };
	worker->is_ready = worker->is_started = false;
	run_timer_in(run, rng_below(&worker->rng, MS), TIMER_HELLO, w);
}

/* All are ready: START, which reaches them one after the other. */
static void workers_start(struct run *run)
{
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		if (!run->worker[w].is_ready)
			return;
	for (uint32_t w = 0; w < run->scenario->workers; w++)
		run_timer_in(run, rng_below(&run->worker[w].rng, MS), TIMER_START, w);
}

void worker_hello(struct run *run, uint32_t w)
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
	run_timer_in(run, 100 * MS, TIMER_HELLO, w);
}

static void worker_welcomed(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	struct link_address local = net_address(run->net, run_node(run, w));
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

void worker_start(struct run *run, uint32_t w)
{
	const struct scenario_worker *config = &run->scenario->worker[w];
	struct run_worker *worker = &run->worker[w];

	if (!worker->is_ready || worker->is_started)
		return; /* of a life that has ended meanwhile */
	if (endpoint_start(worker->endpoint, run->scenario->lanes))
		check_fail(run->check, UINT32_MAX, 0, "w%u cannot start", w);
	if (run->scenario->seq_first && !run->life)
		endpoint_rounds_begin(worker->endpoint, run->scenario->seq_first);
	worker->is_started = true;
	worker->accepted_ns = endpoint_progress_ns(worker->endpoint);
	run_timer_in(run, rng_below(&worker->rng, config->gap_ns + 1), TIMER_SUBMIT, w);
	if (config->window_ns)
		run_timer_in(run, config->window_ns, TIMER_WINDOW, w);
}

static void worker_finished(struct run *run, uint32_t w)
{
	uint64_t cookie;

	while (endpoint_done(run->worker[w].endpoint, &cookie, 1)) {
		load_done(run->load, w, (uint32_t)cookie);
		if (run->scenario->worker[w].is_waiting)
			run_timer_in(run, 1 * US, TIMER_SUBMIT, w);
	}
	if (load_is_finished(run->load))
		run->is_over = true;
}

static void worker_check(struct run *run, uint32_t w)
{
	const struct endpoint *endpoint = run->worker[w].endpoint;
	const char *wrong;
	uint32_t shard, slot;

	if (run->scenario->latency_window) {
		check_worker_latency(run->check, w, endpoint_worker_latency(endpoint));
		return;
	}
	check_worker(run->check, w, endpoint_worker(endpoint));
	wrong = check_pace(&run->worker[w].pace, endpoint_worker(endpoint), endpoint_pace(endpoint),
			   &shard, &slot);
	if (wrong)
		check_fail(run->check, shard, slot, "w%u: %s", w, wrong);
}

void worker_serve(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	struct link *link = net_link(run->net, run_node(run, w));
	uint32_t polls = 0;

	if (!worker->endpoint) { /* between two lives */
		node_drain(run, w);
		return;
	}
	while (endpoint_poll(worker->endpoint) && polls++ < POLLS_MAX)
		if (worker->is_started)
			worker_check(run, w);
	if (polls >= POLLS_MAX)
		check_fail(run->check, UINT32_MAX, 0, "w%u has always something to do", w);
	if (!worker->is_started) {
		worker_welcomed(run, w);
		return;
	}
	if (endpoint_progress_ns(worker->endpoint) != worker->accepted_ns) {
		worker->accepted_ns = endpoint_progress_ns(worker->endpoint);
		run_progress(run);
	}
	if (endpoint_fault(worker->endpoint) != ENDPOINT_OK)
		check_fail(run->check, UINT32_MAX, 0, "w%u: the endpoint reports fault %d", w,
			   (int)endpoint_fault(worker->endpoint));
	worker_finished(run, w);
	uint64_t next = endpoint_next(worker->endpoint);
	run->spins = next <= link->ops->now_ns(link) ? run->spins + 1 : 0;
	if (run->spins > POLLS_MAX)
		check_fail(run->check, UINT32_MAX, 0, "w%u never waits", w);
	net_poll_at_clock(run->net, run_node(run, w), next);
}

bool worker_submit(struct run *run, uint32_t w)
{
	const struct scenario_worker *config = &run->scenario->worker[w];
	struct run_worker *worker = &run->worker[w];
	struct endpoint_op op;

	if (!worker->is_started || worker->next == run->scenario->ops)
		return false;
	if (config->is_waiting && !load_is_idle(run->load, w))
		return false; /* the end of the one before is its time */
	load_submit(run->load, w, worker->next, &op);
	int error = endpoint_submit(worker->endpoint, &op);
	if (error == -EAGAIN) {
		run_timer_in(run, 100 * US, TIMER_SUBMIT, w);
		return false;
	}
	if (error)
		check_fail(run->check, UINT32_MAX, 0, "w%u: operation %u is refused", w,
			   worker->next);
	worker->next++;
	run_progress(run);
	uint64_t gap = rng_below(&worker->rng, config->gap_ns + 1);
	if (rng_chance(&worker->rng, 300000))
		gap = 0; /* several at once */
	if (rng_chance(&worker->rng, config->straggle))
		gap += rng_log(&worker->rng, MS, config->straggle_ns);
	run_timer_in(run, gap, TIMER_SUBMIT, w);
	net_poll_at(run->net, run_node(run, w), net_now(run->net));
	return true;
}

void worker_window(struct run *run, uint32_t w)
{
	const struct scenario *scenario = run->scenario;
	struct run_worker *worker = &run->worker[w];

	if (run->is_over || !worker->is_started)
		return;
	endpoint_window(worker->endpoint, rng_below(&worker->rng, scenario->shards),
			(enum map_stream)rng_below(&worker->rng, MAP_STREAMS),
			1 + rng_below(&worker->rng, scenario->slots));
	net_poll_at(run->net, run_node(run, w), net_now(run->net));
	run_timer_in(run, rng_between(&worker->rng, 1, 2 * scenario->worker[w].window_ns),
		     TIMER_WINDOW, w);
}

static uint64_t rounds_done(const struct run *run, const struct endpoint *endpoint)
{
	const struct worker_latency *latency = endpoint_worker_latency(endpoint);
	const struct worker *worker = endpoint_worker(endpoint);
	const struct scenario *scenario = run->scenario;
	uint32_t first = run->life ? 0 : scenario->seq_first;
	uint64_t rounds = 0;

	for (uint32_t i = 0; i < scenario->shards * scenario->slots; i++)
		rounds += latency ? latency->slot[i].seq - first -
					    (latency->slot[i].state == WORKER_LATENCY_RESULT_DUE)
				  : worker->slot[i].seq - first -
					    (worker->slot[i].state == WORKER_OUTSTANDING);
	return rounds;
}

/* Nothing is lost by chance, so nearly every answer should be one that was waited for: a worker that asks
 * faster than its line carries the answers fills the line's queue for ever. What is held is asked for at a rate of
 * its own (R-PACE-7), however slow the line: its answers are not counted. */
static void answers_check(struct run *run, uint32_t w, const struct endpoint_stats *stats)
{
	uint64_t held = endpoint_pace(run->worker[w].endpoint)->stats.probes_ring;

	if (stats->results_ignored > NARROW_ANSWERS * (stats->updates_out + NARROW_ROUNDS) + held)
		check_fail(run->check, UINT32_MAX, 0,
			   "w%u: %llu answers that it did not wait for any more, %llu UPDATEs", w,
			   (unsigned long long)stats->results_ignored,
			   (unsigned long long)stats->updates_out);
}

/* What the worker did in this life, for the report; the slots' rounds are the accepted results (W1). */
void worker_close(struct run *run, uint32_t w)
{
	struct run_worker *worker = &run->worker[w];
	struct run_report *report = run->report;
	struct endpoint_stats stats;
	uint64_t rounds;

	if (!worker->endpoint)
		return;
	endpoint_stats(worker->endpoint, &stats);
	if (worker->is_started) {
		rounds = rounds_done(run, worker->endpoint);
		if (rounds != stats.results_in)
			check_fail(run->check, UINT32_MAX, 0,
				   "W1: w%u has accepted %llu results in %llu rounds", w,
				   (unsigned long long)stats.results_in,
				   (unsigned long long)rounds);
	}
	if (run->scenario->kind == SCENARIO_narrow)
		answers_check(run, w, &stats);
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
	worker->serial += SERIALS; /* beyond those of the HELLOs that it has repeated by itself */
	worker->is_ready = worker->is_started = false;
}
