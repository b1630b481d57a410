/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_server.c - the parameter server of a simulated run of sparse mode, its disk, and what its sums must be. */
#include "sim/sparse_world.h"

#include <stdlib.h>
#include <string.h>

static uint32_t values_of(const struct sparse_table *table)
{
	return table->ranks * table->dim;
}

/* ---- the disk ---- */

static void logged_free(struct sparse_logged *logged)
{
	free(logged->cut);
	free(logged->row);
	free(logged->added);
}

static void *copy(const void *from, size_t bytes)
{
	return memcpy(sparse_need(malloc(bytes)), from, bytes);
}

static void epoch_log(struct sparse_world *world, struct sparse_logged *logged)
{
	const struct sparse_table *table = &world->scenario->table;

	logged->cut = copy(home_sparse_cut(world->home), sparse_places(table) * sizeof(uint64_t));
	logged->added = sparse_need(calloc(values_of(table), sizeof(int64_t)));
	for (uint32_t rank = 0; rank < table->ranks; rank++) {
		if (!home_sparse_is_touched(world->home, rank))
			continue;
		memcpy(logged->added + rank * table->dim, home_sparse_sum(world->home, rank),
		       table->dim * sizeof(int64_t));
	}
	for (uint32_t i = 0; i < values_of(table); i++)
		world->total[i] += logged->added[i];
}

static void record(void *arg, const struct server_sparse_record *what)
{
	struct sparse_world *world = arg;
	struct sparse_logged *logged;

	if (what->number != world->log_count + 1)
		sparse_fail(world, "record %llu follows record %llu",
			    (unsigned long long)what->number, (unsigned long long)world->log_count);
	if (world->log_count == world->log_max) {
		world->log_max = world->log_max ? 2 * world->log_max : 256;
		world->log =
			sparse_need(realloc(world->log, world->log_max * sizeof(world->log[0])));
	}
	logged = &world->log[world->log_count++];
	*logged = (struct sparse_logged){ .record = *what };
	if (what->kind == SERVER_SPARSE_EPOCH) {
		epoch_log(world, logged);
		world->report->epochs++;
	}
	if (world->trace)
		fprintf(world->trace, "%10.3f ms  server: record %llu, kind %d, generation %llu\n",
			(double)net_now(world->net) / 1e6, (unsigned long long)what->number,
			(int)what->kind, (unsigned long long)what->generation);
	sparse_event_in(world, rng_below(&world->rng, (uint32_t)world->scenario->disk_ns + 1),
			SPARSE_SYNCED, 0, what->number);
	sparse_progress(world);
}

/* Of a batch; whose it is must fit when it comes. */
static void answer_in(struct sparse_world *world, uint32_t worker, uint64_t incarnation,
		      uint64_t number)
{
	sparse_event_in(world, 1 + rng_below(&world->rng, 2 * MS), SPARSE_ANSWERED, worker,
			incarnation << 32 | number);
}

void sparse_server_synced(struct sparse_world *world, uint64_t number)
{
	if (number <= world->durable)
		return;
	for (; world->durable < number; world->durable++) {
		const struct sparse_logged *logged = &world->log[world->durable];
		uint32_t window = world->scenario->table.window;

		if (logged->record.kind == SERVER_SPARSE_EPOCH)
			memcpy(world->durable_cut, logged->cut,
			       sparse_places(&world->scenario->table) * sizeof(uint64_t));
		if (logged->record.kind == SERVER_SPARSE_JOIN)
			memset(world->durable_cut + (size_t)logged->record.worker * window, 0,
			       window * sizeof(uint64_t));
		if (logged->record.kind == SERVER_SPARSE_BATCH)
			answer_in(world, logged->record.worker, logged->record.incarnation,
				  logged->record.batch);
	}
	home_sparse_durable(world->home, number);
	sparse_server_polls(world);
}

/* ---- its life ---- */

static uint64_t random_bits(void *arg)
{
	struct sparse_world *world = arg;

	return rng_next(&world->rng);
}

static void home_open(struct sparse_world *world)
{
	struct home_sparse_options options = { .outbox = &world->outbox,
					       .table = world->scenario->table,
					       .map = SPARSE_MAP,
					       .record = record,
					       .values = world->scenario->has_copies ? sparse_values
										     : NULL,
					       .random = random_bits,
					       .arg = world };

	if (home_sparse_open(&world->home, &options))
		abort();
	for (uint16_t i = 0; i < world->scenario->table.workers; i++) {
		struct link_address address = net_address(world->net, i);

		home_sparse_worker(world->home, i, &address);
	}
	world->life++;
}

void sparse_server_begin(struct sparse_world *world)
{
	const struct sparse_table *table = &world->scenario->table;

	world->total = sparse_need(calloc(values_of(table), sizeof(int64_t)));
	world->durable_cut = sparse_need(calloc(sparse_places(table), sizeof(uint64_t)));
	if (outbox_open(&world->outbox, net_link(world->net, sparse_server_node(world))))
		abort();
	home_open(world);
}

void sparse_server_end(struct sparse_world *world)
{
	home_sparse_close(world->home);
	outbox_close(&world->outbox);
	for (uint64_t i = 0; i < world->log_count; i++)
		logged_free(&world->log[i]);
	free(world->log);
	free(world->total);
	free(world->durable_cut);
}

void sparse_server_dies(struct sparse_world *world)
{
	if (!world->home)
		return;
	home_sparse_close(world->home);
	world->home = NULL;
	world->life++;
	world->report->server_deaths++;
	for (uint32_t i = 0; i < world->scenario->table.workers; i++)
		world->worker[i].is_cold_out = false; /* its connection is gone */
	sparse_event_in(world, 1 + rng_below(&world->rng, 200 * MS), SPARSE_RESTARTS, 0, 0);
}

/* What was not on the disk is forgotten. */
void sparse_server_restarts(struct sparse_world *world)
{
	const struct sparse_table *table = &world->scenario->table;
	struct link_address address =
		net_address(world->net, sparse_engine_node(world, world->engine_now));

	while (world->log_count > world->durable)
		logged_free(&world->log[--world->log_count]);
	memset(world->total, 0, values_of(table) * sizeof(int64_t));
	home_open(world);
	for (uint64_t i = 0; i < world->log_count; i++) {
		const struct sparse_logged *logged = &world->log[i];

		home_sparse_replay(world->home, &logged->record, logged->cut);
		for (uint32_t k = 0; logged->added && k < values_of(table); k++)
			world->total[k] += logged->added[k];
	}
	/* Of a disk that has nothing yet the table begins anew. */
	if (home_sparse_server(world->home)->generation)
		home_sparse_instance(world->home, 0, world->index_now, &address);
	else
		sparse_server_fences(world);
	for (uint32_t i = 0; i < table->workers; i++) {
		sparse_event_in(world, 1 + rng_below(&world->rng, 20 * MS), SPARSE_CALLS, i, 0);
		if (!world->worker[i].is_joined)
			sparse_event_in(world, 1 + rng_below(&world->rng, 20 * MS), SPARSE_JOINS, i,
					0);
	}
	sparse_event_in(world, 1 + rng_below(&world->rng, 50 * MS), SPARSE_NOTICES, 0, 0);
	sparse_server_polls(world);
}

void sparse_server_fences(struct sparse_world *world)
{
	if (!world->home)
		return;
	home_sparse_fence(world->home, SPARSE_MAP);
	sparse_switch_new(world);
	sparse_server_polls(world);
}

/* A heartbeat would say so: another generation than its own, or none after a restart that has lost who was to be
 * set up, or silence. */
void sparse_server_notices(struct sparse_world *world)
{
	const struct engine_sparse *engine = world->engine[world->engine_now].engine;
	const struct switch_sparse *state = engine ? engine_sparse_state(engine, world->index_now)
						   : NULL;
	uint64_t generation = home_sparse_server(world->home)->generation;
	bool is_being_set_up = server_sparse_may_setup(home_sparse_server(world->home)) ||
			       !server_sparse_is_settled(home_sparse_server(world->home));

	if (!state ||
	    (state->generation != generation &&
	     (state->generation || !is_being_set_up || !home_sparse_server(world->home)->instance)))
		sparse_server_fences(world);
}

/* ---- what comes over its connections ---- */

void sparse_server_joins(struct sparse_world *world, uint32_t worker)
{
	struct sparse_worker *its = &world->worker[worker];
	const struct server_sparse *server = home_sparse_server(world->home);
	uint32_t window = world->scenario->table.window;
	uint64_t generation = server->generation;
	uint64_t before = server->memory.worker[worker].incarnation;
	uint64_t *row = copy(home_sparse_cut(world->home) + (size_t)worker * window,
			     window * sizeof(uint64_t));

	if (its->is_joined || before == its->incarnation) {
		free(row);
	} else if (!home_sparse_join(world->home, (uint16_t)worker, its->incarnation)) {
		sparse_fail(world, "worker %u: incarnation %llu is refused", worker,
			    (unsigned long long)its->incarnation);
		free(row);
	} else {
		world->log[world->log_count - 1].row = row;
		world->log[world->log_count - 1].before = before;
	}
	if (server->generation != generation)
		sparse_switch_new(world);
	/* Told when the record is on the disk: an event looks again. */
	if (server_sparse_is_settled(server))
		its->is_joined = true;
	else
		sparse_event_in(world, MS, SPARSE_JOINS, worker, 0);
	sparse_server_polls(world);
}

void sparse_server_cold(struct sparse_world *world, uint32_t worker, uint64_t number)
{
	uint64_t recorded = world->log_count;
	uint64_t durable_at = home_sparse_cold(world->home, (uint16_t)worker,
					       world->worker[worker].incarnation, number);

	if (!durable_at)
		sparse_fail(world, "worker %u: batch %llu is refused", worker,
			    (unsigned long long)number);
	else if (recorded == world->log_count && durable_at <= world->durable) /* it was there */
		answer_in(world, worker, world->worker[worker].incarnation, number);
	else if (recorded == world->log_count) /* it was, but not yet what came after it */
		sparse_event_in(world, MS, SPARSE_COLD, worker, number);
	sparse_server_polls(world);
}

void sparse_server_polls(struct sparse_world *world)
{
	uint32_t node = sparse_server_node(world);
	struct link *link = net_link(world->net, node);
	struct link_frame frames[16];
	int count;

	while ((count = link->ops->recv(link, frames, 16)) > 0) {
		for (int i = 0; i < count && world->home; i++)
			for (uint32_t at = 0; at < frames[i].bytes; at += frames[i].packet_bytes)
				home_sparse_serve(world->home, &frames[i].peer, frames[i].data + at,
						  link_packet_bytes(&frames[i], at));
	}
	if (!world->home)
		return;
	net_poll_at(world->net, node, home_sparse_turn(world->home));
	outbox_flush(&world->outbox);
}

/* ---- the oracle ---- */

/* Adds what an incarnation has pushed: what `row` covers, or, if it is NULL, all. */
static void life_add(const struct sparse_world *world, uint32_t worker, uint64_t incarnation,
		     const uint64_t *row, int64_t *sum)
{
	const struct sparse_scenario *scenario = world->scenario;
	uint32_t dim = scenario->table.dim;
	uint8_t pairs[SPARSE_BYTES];

	for (uint64_t seq = 1; seq <= world->worker[worker].life[incarnation].pushed; seq++) {
		uint16_t count = sparse_pairs(scenario, worker, incarnation, seq, pairs);

		if (row && !sparse_covers(row, scenario->table.window, seq))
			continue;
		for (uint32_t i = 0; i < count; i++) {
			const uint8_t *pair = pairs + i * sparse_pair_bytes(dim);

			for (uint32_t k = 0; k < dim; k++)
				sum[sparse_body_get32(pair) * dim + k] +=
					(int32_t)sparse_body_get32(pair + SPARSE_RANK_BYTES +
								   4 * k);
		}
	}
}

/* What the predecessor was told is committed is in the row that its successor began with. */
static void row_judge(struct sparse_world *world, const struct sparse_logged *logged)
{
	const struct server_sparse_record *what = &logged->record;
	const struct sparse_life *life = &world->worker[what->worker].life[logged->before];

	for (uint64_t seq = 1; seq <= life->pushed; seq++)
		if (life->is_freed[seq] &&
		    !sparse_covers(logged->row, world->scenario->table.window, seq))
			sparse_fail(world, "X5: worker %u held push %llu for committed",
				    what->worker, (unsigned long long)seq);
}

void sparse_server_judge(struct sparse_world *world)
{
	const struct sparse_table *table = &world->scenario->table;
	int64_t *sum = sparse_need(calloc(values_of(table), sizeof(int64_t)));
	uint64_t epoch = 0;

	for (uint64_t i = 0; i < world->log_count; i++) {
		const struct sparse_logged *logged = &world->log[i];

		if (logged->record.kind == SERVER_SPARSE_EPOCH && logged->record.epoch != ++epoch)
			sparse_fail(world, "X2: epoch %llu follows epoch %llu",
				    (unsigned long long)logged->record.epoch,
				    (unsigned long long)epoch - 1);
		if (logged->record.kind != SERVER_SPARSE_JOIN || !logged->before)
			continue;
		life_add(world, logged->record.worker, logged->before, logged->row, sum);
		row_judge(world, logged);
	}
	for (uint32_t i = 0; i < table->workers; i++)
		life_add(world, i, world->worker[i].incarnation, NULL, sum);
	for (uint32_t i = 0; i < values_of(table); i++)
		if (sum[i] != world->total[i])
			sparse_fail(world, "X4: rank %u, value %u: %lld, pushed were %lld",
				    i / table->dim, i % table->dim, (long long)world->total[i],
				    (long long)sum[i]);
	free(sum);
}
