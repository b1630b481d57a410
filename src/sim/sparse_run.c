/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_run.c - one simulated run of sparse mode: workers, and what happens when. See sparse.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sparse_world.h"

/* ---- workers ---- */

/* X5, when the worker says so: the disk has it. */
static void freed_judge(struct sparse_world *world, uint32_t number)
{
	struct sparse_worker *worker = &world->worker[number];
	struct sparse_life *life = &worker->life[worker->incarnation];
	const struct sparse_table *table = &world->scenario->table;
	const uint64_t *row = world->durable_cut + (size_t)number * table->window;

	for (uint64_t seq = 1; seq <= life->pushed; seq++) {
		if (life->is_freed[seq] || !endpoint_sparse_is_committed(worker->endpoint, seq))
			continue;
		life->is_freed[seq] = 1;
		sparse_progress(world);
		if (!sparse_covers(row, table->window, seq))
			sparse_fail(world,
				    "X5: worker %u holds push %" PRIu64
				    " for committed, the disk does not have it",
				    number, seq);
	}
}

static void worker_polls(struct sparse_world *world, uint32_t number)
{
	struct sparse_worker *worker = &world->worker[number];
	struct link *link = net_link(world->net, number);
	struct link_frame frames[16];
	int count;

	while ((count = link->ops->recv(link, frames, 16)) > 0) {
		for (int i = 0; i < count && worker->endpoint; i++)
			for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
				endpoint_sparse_serve(worker->endpoint, frames[i].data + at,
						      link_packet_bytes(&frames[i], at));
	}
	if (!worker->endpoint)
		return;
	freed_judge(world, number);
	if (endpoint_sparse_is_broken(worker->endpoint))
		sparse_fail(world, "worker %u: the server says what cannot be", number);
	net_poll_at(world->net, number, endpoint_sparse_turn(worker->endpoint));
	outbox_flush(&worker->outbox);
}

static void worker_starts(struct sparse_world *world, uint32_t number)
{
	struct sparse_worker *worker = &world->worker[number];
	const struct sparse_scenario *scenario = world->scenario;
	struct endpoint_sparse_options options = {
		.outbox = &worker->outbox,
		.table = scenario->table,
		.at_switch = net_address(world->net, sparse_engine_node(world, world->engine_now)),
		.at_server = net_address(world->net, sparse_server_node(world)),
		.generation = home_sparse_server(world->home)->generation,
		.patience_ns = scenario->patience_ns,
		.map = SPARSE_MAP,
		.kept_max = scenario->kept_max,
		.expected = home_sparse_server(world->home)->expected,
		.worker = (uint16_t)number,
		.has_copy = scenario->has_copies,
	};

	options.table.index = world->index_now;
	if (endpoint_sparse_open(&worker->endpoint, &options))
		abort();
	sparse_event_in(world, 1 + rng_below(&world->rng, MS), SPARSE_CALLS, number, 0);
}

/* Its user: pushes some, sends a cold batch, waits for all that it has pushed now and then. */
static void worker_calls(struct sparse_world *world, uint32_t number)
{
	struct sparse_worker *worker = &world->worker[number];
	struct sparse_life *life = &worker->life[worker->incarnation];
	const struct sparse_scenario *scenario = world->scenario;
	uint8_t pairs[SPARSE_BYTES];
	uint32_t many = 1 + rng_below(&world->rng, 8);

	if (!worker->endpoint)
		return;
	while (life->pushed < scenario->pushes && many--) {
		uint16_t count = sparse_pairs(scenario, number, worker->incarnation,
					      life->pushed + 1, pairs);

		if (!endpoint_sparse_push(worker->endpoint, 0, count, pairs))
			break;
		life->pushed++;
	}
	sparse_copy_looks(world, number);
	if (life->pushed == scenario->pushes || !rng_below(&world->rng, 20))
		endpoint_sparse_hurry(worker->endpoint);
	if (world->home && !worker->is_cold_out && life->batched < scenario->batches) {
		worker->is_cold_out = true;
		sparse_event_in(world, 1 + rng_below(&world->rng, 2 * MS), SPARSE_COLD, number,
				life->batched + 1);
	}
	if (life->pushed < scenario->pushes || life->batched < scenario->batches)
		sparse_event_in(world, 1 + rng_log(&world->rng, 1000, 4 * MS), SPARSE_CALLS, number,
				0);
	worker_polls(world, number);
}

static void worker_answered(struct sparse_world *world, uint32_t number, uint64_t which)
{
	struct sparse_worker *worker = &world->worker[number];
	struct sparse_life *life = &worker->life[worker->incarnation];

	if (which != (worker->incarnation << 32 | (life->batched + 1)))
		return;
	life->batched++;
	worker->is_cold_out = false;
	world->report->batches++;
	sparse_progress(world);
}

static void worker_begins(struct sparse_world *world, uint32_t number)
{
	struct sparse_worker *worker = &world->worker[number];

	worker->incarnation++;
	assert(worker->incarnation <= SPARSE_LIVES_MAX);
	worker->life[worker->incarnation].is_freed =
		sparse_need(calloc(world->scenario->pushes + 1u, 1));
	worker->is_joined = worker->is_cold_out = false;
	endpoint_sparse_close(worker->endpoint);
	worker->endpoint = NULL;
	sparse_event_in(world, 1 + rng_below(&world->rng, 20 * MS), SPARSE_JOINS, number, 0);
}

/* Over TCP, so not before the disk knows of the generation, nor while the server is dead: then it comes later. */
static void worker_told(struct sparse_world *world, uint32_t number)
{
	struct link_address address =
		net_address(world->net, sparse_engine_node(world, world->engine_now));

	if (!world->worker[number].endpoint)
		return;
	if (!world->home || !server_sparse_is_settled(home_sparse_server(world->home))) {
		sparse_event_in(world, MS, SPARSE_TOLD, number, 0);
		return;
	}
	endpoint_sparse_switch(world->worker[number].endpoint, world->index_now, &address,
			       home_sparse_server(world->home)->generation, SPARSE_MAP);
}

/* ---- what strikes ---- */

static void strike(struct sparse_world *world)
{
	uint32_t whom = rng_below(&world->rng, world->scenario->table.workers);

	switch (rng_below(&world->rng, 4)) {
	case 0:
		world->report->switch_deaths++;
		sparse_engine_dies(world, world->engine_now);
		sparse_event_in(world, 1 + rng_below(&world->rng, 300 * MS), SPARSE_NOTICES, 0, 0);
		break;
	case 1: /* it lives on, and does not know */
		world->report->zombies++;
		sparse_server_fences(world);
		break;
	case 2:
		sparse_server_dies(world);
		break;
	default:
		if (world->worker[whom].incarnation == SPARSE_LIVES_MAX)
			break;
		world->report->joins++;
		worker_begins(world, whom);
		break;
	}
	if (--world->strikes_left)
		sparse_event_in(world, rng_log(&world->rng, MS, 200 * MS), SPARSE_STRIKE, 0, 0);
	sparse_progress(world);
}

/* What the dead cannot do is dropped; what they must do later comes again when they live. */
static void event_take(struct sparse_world *world, struct sparse_event event)
{
	bool is_servers = event.what == SPARSE_JOINS || event.what == SPARSE_COLD ||
			  event.what == SPARSE_ANSWERED || event.what == SPARSE_SYNCED ||
			  event.what == SPARSE_NOTICES;

	if (is_servers && (event.life != world->life || !world->home))
		return;
	switch (event.what) {
	case SPARSE_CALLS:
		worker_calls(world, event.whom);
		break;
	case SPARSE_TOLD:
		worker_told(world, event.whom);
		break;
	case SPARSE_JOINS:
		sparse_server_joins(world, event.whom);
		if (world->worker[event.whom].is_joined && !world->worker[event.whom].endpoint)
			worker_starts(world, event.whom);
		break;
	case SPARSE_COLD:
		if (world->worker[event.whom].is_joined && world->worker[event.whom].is_cold_out)
			sparse_server_cold(world, event.whom, event.number);
		break;
	case SPARSE_ANSWERED:
		worker_answered(world, event.whom, event.number);
		break;
	case SPARSE_PULLED:
		sparse_copy_pulled(world, event.whom, event.number);
		break;
	case SPARSE_SYNCED:
		sparse_server_synced(world, event.number);
		break;
	case SPARSE_STRIKE:
		strike(world);
		break;
	case SPARSE_FORGES:
		sparse_forge(world);
		break;
	case SPARSE_NOTICES:
		sparse_server_notices(world);
		break;
	case SPARSE_RESTARTS:
		sparse_server_restarts(world);
		break;
	}
}

/* ---- a run ---- */

static void watch(void *context, const struct net_sight *sight)
{
	static const char *const fates[NET_FATES] = { "sent",   "doubled", "LOST",    "FULL",
						      "NOBODY", "DROPPED", "REFUSED", "taken" };
	static const char *const kinds[SPARSE_KIND_END] = {
		"?",     "PUSH",  "ACK",   "ASK",    "FLIP",    "CUT", "FLUSH", "COMMITTED",
		"BCAST", "SETUP", "READY", "RESUME", "RESUMED", "END", "HAVE",  "FLUSH_SHORT",
	};
	struct sparse_world *world = context;
	struct sparse_report *report = world->report;
	struct sparse packet;

	sparse_get(sight->data, &packet);
	report->packets += net_is_sending(sight->fate);
	report->lost += sight->fate != NET_SENT && sight->fate != NET_DOUBLED &&
			sight->fate != NET_TAKEN;
	report->digest = (report->digest ^ sight->now_ns ^ packet.number << 32 ^
			  (uint64_t)packet.part << 16 ^ (uint64_t)packet.kind << 8 ^
			  (uint64_t)sight->fate << 56 ^ sight->from << 4 ^ sight->to) *
			 0x9e3779b97f4a7c15;
	report->digest ^= report->digest >> 31;
	report->zombie_acks += packet.kind == SPARSE_ACK && net_is_sending(sight->fate) &&
			       world->home &&
			       packet.generation < home_sparse_server(world->home)->generation;
	if (world->trace)
		fprintf(world->trace,
			"%10.3f ms  %2u -> %2u  %-7s %-9s table %u worker %d generation %" PRIu64
			" number %" PRIu64 " part %u of %u, %u items\n",
			(double)sight->now_ns / 1e6, sight->from,
			sight->to == NET_NODES_MAX ? 99 : sight->to, fates[sight->fate],
			kinds[packet.kind < SPARSE_KIND_END ? packet.kind : 0], packet.table,
			(int)(int16_t)packet.worker, packet.generation, packet.number, packet.part,
			packet.parts, packet.count);
}

static bool is_worker_done(const struct sparse_world *world, uint32_t number)
{
	const struct sparse_worker *worker = &world->worker[number];
	const struct sparse_life *life = &worker->life[worker->incarnation];

	return worker->endpoint && life->pushed == world->scenario->pushes &&
	       life->batched == world->scenario->batches &&
	       endpoint_sparse_worker(worker->endpoint)->low == life->pushed + 1;
}

static bool is_done(const struct sparse_world *world)
{
	if (world->strikes_left || !world->home || world->durable != world->log_count)
		return false;
	for (uint32_t i = 0; i < world->scenario->table.workers; i++)
		if (!is_worker_done(world, i))
			return false;
	return true;
}

static void world_begin(struct sparse_world *world)
{
	const struct sparse_scenario *scenario = world->scenario;
	struct net_options options = { .seed = scenario->seed,
				       .packet_bytes_max = scenario->table.bytes,
				       .weather = scenario->weather };

	rng_init(&world->rng, scenario->seed, 77);
	world->net = sparse_need(net_open(&options));
	if (world->trace || world->report)
		net_watch(world->net, watch, world);
	for (uint32_t i = 0; i < scenario->table.workers + 1u + SPARSE_ENGINES; i++)
		net_node_add(world->net, &scenario->host);
	world->strikes_left = scenario->strikes;
	sparse_server_begin(world);
	sparse_server_fences(world);
	for (uint32_t i = 0; i < scenario->table.workers; i++) {
		if (outbox_open(&world->worker[i].outbox, net_link(world->net, i)))
			abort();
		worker_begins(world, i);
	}
	if (scenario->strikes)
		sparse_event_in(world, rng_log(&world->rng, MS, 200 * MS), SPARSE_STRIKE, 0, 0);
	if (scenario->has_stranger)
		sparse_event_in(world, MS, SPARSE_FORGES, 0, 0);
}

static void world_end(struct sparse_world *world)
{
	for (uint32_t i = 0; i < world->scenario->table.workers; i++) {
		struct sparse_worker *worker = &world->worker[i];

		if (worker->endpoint) {
			const struct endpoint_sparse_stats *stats =
				endpoint_sparse_stats(worker->endpoint);

			world->report->pushes += stats->pushes;
			world->report->pushes_again += stats->pushes_again;
			world->report->bcasts += stats->bcasts;
		}
		endpoint_sparse_close(worker->endpoint);
		outbox_close(&worker->outbox);
		for (uint64_t k = 1; k <= worker->incarnation; k++)
			free(worker->life[k].is_freed);
	}
	for (uint32_t i = 0; i < SPARSE_ENGINES; i++)
		sparse_engine_dies(world, i);
	sparse_server_end(world);
	world->report->virtual_ns = net_now(world->net);
	net_close(world->net);
	free(world->event);
}

static void world_step(struct sparse_world *world)
{
	struct net_event event = net_step(world->net);
	uint32_t workers = world->scenario->table.workers;

	if (event.type == NET_IDLE)
		sparse_fail(world, "nothing happens any more");
	else if (event.type == NET_TIMER)
		event_take(world, world->event[event.cookie]);
	else if (event.node < workers)
		worker_polls(world, event.node);
	else if (event.node == workers)
		sparse_server_polls(world);
	else
		sparse_engine_polls(world, event.node - workers - 1);
}

void sparse_scenario_run(const struct sparse_scenario *scenario, struct sparse_report *report,
			 FILE *trace)
{
	struct sparse_world *world = sparse_need(calloc(1, sizeof(*world)));

	*report = (struct sparse_report){ 0 };
	world->scenario = scenario;
	world->report = report;
	world->trace = trace;
	world_begin(world);
	while (!report->is_failed && !is_done(world)) {
		world_step(world);
		if (net_now(world->net) - world->progress_ns > scenario->bound_ns)
			sparse_fail(world, "nothing gets on for %.1f s",
				    (double)scenario->bound_ns / 1e9);
	}
	if (!report->is_failed)
		sparse_server_judge(world);
	if (!report->is_failed)
		sparse_copies_judge(world);
	world_end(world);
	free(world);
}
