/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers, switches and a server of sparse mode around a network that loses, doubles and reorders, larger than
 * any search: walks at random, with switches that die, or are fenced and live on, and servers that die and read
 * their log. When all is quiet the server's sums are those computed without any protocol. Argument: the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/sparse/server_sparse.h"
#include "core/sparse/switch_sparse.h"
#include "core/sparse/worker_sparse.h"
#include "tests/random.h"

enum {
	WORKERS_MAX = 5,
	WINDOW_MAX = 6,
	RANKS_MAX = 12,
	DIM_MAX = 3,
	KEPT_MAX = 16,
	PUSHES = 60,
	GENERATIONS_MAX = 40,
	PARTS_MAX = 32,
	RECORDS_MAX = 4000,
	FLYING_MAX = 64,
	BYTES_MAX = 400,
	MAP = 3,
};

enum { TO_SWITCH = 1, TO_SERVER, TO_WORKER };

struct datagram {
	uint32_t to, index; /* whom; which switch (its generation) or worker */
	uint32_t bytes;
	uint8_t at[BYTES_MAX];
};

struct instance {
	bool is_there, is_dead;
	struct switch_sparse state;
	struct switch_sparse_place place[WORKERS_MAX * WINDOW_MAX];
	uint64_t tag[2 * RANKS_MAX];
	int64_t sum[2 * RANKS_MAX * DIM_MAX];
	uint32_t list[2 * RANKS_MAX];
};

struct logged {
	struct server_sparse_record record;
	uint64_t cut[WORKERS_MAX * WINDOW_MAX];
	int64_t total[RANKS_MAX * DIM_MAX];
};

static struct {
	struct sparse_table table;
	bool is_calm; /* nothing is lost, nobody dies */
	struct worker_sparse worker[WORKERS_MAX];
	struct worker_sparse_push push[WORKERS_MAX][KEPT_MAX];
	struct instance instance[GENERATIONS_MAX];
	struct server_sparse server;
	uint64_t cut[WORKERS_MAX * WINDOW_MAX], staged[WORKERS_MAX * WINDOW_MAX], tag[RANKS_MAX];
	int64_t sum[RANKS_MAX * DIM_MAX], total[RANKS_MAX * DIM_MAX];
	uint8_t has_part[PARTS_MAX];
	struct server_sparse_worker known[WORKERS_MAX];
	struct logged log[RECORDS_MAX];
	uint32_t deaths, fences, zombie_adds;
	struct datagram flying[FLYING_MAX];
	uint32_t flying_count;
} world;

static int32_t value_of(uint32_t worker, uint64_t seq, uint32_t rank, uint32_t i)
{
	return (int32_t)(seq * 2654435761u + worker * 40503u + rank * 97u + i);
}

static bool has_rank(uint32_t worker, uint64_t seq, uint32_t rank)
{
	return (seq * 31 + worker * 7 + rank * 13) % 5 < 2;
}

static bool odds(uint32_t in)
{
	return !world.is_calm && !random_below(in);
}

/* ---- the network ---- */

static void fly(uint32_t to, uint64_t index, const uint8_t *at, uint32_t bytes)
{
	struct datagram *datagram;

	if (odds(4))
		return;
	/* No room: an old one is lost. */
	datagram = world.flying_count < FLYING_MAX ? &world.flying[world.flying_count++]
						   : &world.flying[random_below(FLYING_MAX)];
	assert_true(bytes <= BYTES_MAX);
	datagram->to = to;
	datagram->index = (uint32_t)index;
	datagram->bytes = bytes;
	memcpy(datagram->at, at, bytes);
}

static void fly_bare(uint32_t to, uint64_t index, const struct sparse *packet)
{
	uint8_t at[SPARSE_HEADER_BYTES];

	sparse_put(at, packet);
	fly(to, index, at, sizeof(at));
}

/* ---- workers ---- */

static void push_send(uint32_t w, const struct worker_sparse_actions *actions)
{
	uint8_t at[BYTES_MAX], *item = at + SPARSE_HEADER_BYTES;
	struct sparse packet = actions->header;

	packet.width = world.table.dim;
	for (uint32_t rank = 0; rank < world.table.ranks; rank++) {
		if (!has_rank(w, actions->seq, rank))
			continue;
		sparse_body_put32(item, rank);
		for (uint32_t i = 0; i < packet.width; i++)
			sparse_body_put32(item + 4 + 4 * i,
					  (uint32_t)value_of(w, actions->seq, rank, i));
		item += sparse_pair_bytes(packet.width);
		packet.count++;
	}
	sparse_put(at, &packet);
	fly(TO_SWITCH, sparse_fences(packet.generation), at, sparse_bytes(&packet));
}

static void worker_does(uint32_t w, struct worker_sparse_event event)
{
	struct worker_sparse_actions actions;

	worker_sparse_step(&world.worker[w], &event, &actions);
	assert_false(actions.is_protocol_error);
	if (actions.send)
		push_send(w, &actions);
	if (actions.ask)
		fly_bare(TO_SWITCH, sparse_fences(world.worker[w].generation), &actions.header);
	if (actions.answer)
		fly_bare(TO_SERVER, 0, &actions.header);
}

static void worker_acts(uint32_t w)
{
	struct worker_sparse *worker = &world.worker[w];

	if (worker->next <= PUSHES && worker_sparse_has_room(worker) && random_below(2))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_SUBMIT });
	if (worker_sparse_may_send(worker))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_SEND });
	for (uint64_t seq = worker->low; seq < worker->sent; seq++)
		if (worker_sparse_is_due(worker, seq) && !random_below(4))
			worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_RESEND,
								     .seq = seq });
	if (worker_sparse_wants(worker) && !random_below(4))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_ASK });
}

/* ---- switches ---- */

/* Which switch is the server's. */
static uint32_t fences_now(void)
{
	return (uint32_t)sparse_fences(world.server.generation);
}

static struct switch_sparse_memory memory_of(struct instance *instance)
{
	return (struct switch_sparse_memory){ instance->place, instance->tag, instance->sum,
					      instance->list, NULL };
}

static void switch_takes(uint32_t g, struct sparse *packet, const uint8_t *at)
{
	struct instance *instance = &world.instance[g];
	struct switch_sparse_memory memory = memory_of(instance);
	enum switch_sparse_verdict verdict;

	if (!instance->is_there || instance->is_dead)
		return;
	verdict = switch_sparse_step(&world.table, &instance->state, &memory, packet, at);
	if (verdict == SWITCH_SPARSE_ADDED || verdict == SWITCH_SPARSE_REPEAT)
		fly_bare(TO_WORKER, packet->worker, packet);
	else if (verdict == SWITCH_SPARSE_READY)
		fly_bare(TO_SERVER, 0, packet);
	world.zombie_adds += verdict == SWITCH_SPARSE_ADDED && g < fences_now();
}

static void switch_acts(uint32_t g)
{
	struct instance *instance = &world.instance[g];
	struct switch_sparse_memory memory = memory_of(instance);
	uint8_t at[BYTES_MAX];

	if (!instance->is_there || instance->is_dead)
		return;
	if (switch_sparse_is_due(&world.table, &instance->state, 20, odds(20)))
		switch_sparse_flip(&instance->state);
	for (uint32_t part = 0;
	     instance->state.is_busy && part < switch_sparse_parts(&world.table, &instance->state);
	     part++)
		if (random_below(2))
			fly(TO_SERVER, 0, at,
			    switch_sparse_part(&world.table, &instance->state, &memory, part, at));
	if (odds(300))
		instance->is_dead = true;
}

/* ---- the server ---- */

static void server_begin(void)
{
	struct server_sparse_memory memory = { world.cut, world.staged,   world.sum,
					       world.tag, world.has_part, world.known };

	server_sparse_init(&world.server, &world.table, MAP, &memory);
	memset(world.total, 0, sizeof(world.total));
}

static void committed_fly(void)
{
	uint8_t at[BYTES_MAX];

	fly(TO_SWITCH, fences_now(), at, server_sparse_committed(&world.server, SPARSE_SERVER, at));
	for (uint16_t w = 0; w < world.table.workers; w++)
		fly(TO_WORKER, w, at, server_sparse_committed(&world.server, w, at));
}

static void server_does(struct server_sparse_event event)
{
	struct server_sparse_actions actions;
	struct logged *logged;

	server_sparse_step(&world.server, &event, &actions);
	if (actions.apply)
		for (uint32_t i = 0; i < world.table.ranks * world.table.dim; i++)
			if (server_sparse_is_touched(&world.server, i / world.table.dim))
				world.total[i] += world.sum[i];
	if (actions.record) {
		assert_true(actions.what.number < RECORDS_MAX);
		logged = &world.log[actions.what.number];
		logged->record = actions.what;
		memcpy(logged->cut, world.cut, sizeof(world.cut));
		memcpy(logged->total, world.total, sizeof(world.total));
	}
	if (actions.say)
		committed_fly();
}

/* The first generation that has no switch yet gets one. */
static void server_fences(void)
{
	uint32_t g;

	if (fences_now() + 1 == GENERATIONS_MAX)
		return;
	world.fences++;
	server_does((struct server_sparse_event){
		.type = SERVER_SPARSE_FENCE_IT, .map = MAP, .random = rng_next(&rng) });
	g = fences_now();
	memset(&world.instance[g], 0,
	       sizeof(world.instance[g])); /* a life before the last record */
	world.instance[g].is_there = true;
	world.instance[g].state.instance = 1000 * (1 + world.deaths) + g;
	switch_sparse_name(&world.instance[g].state, world.server.generation);
	server_does((struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE,
						  .number = world.instance[g].state.instance });
}

/* What the log has on the disk, and not a record more. */
static void server_dies(void)
{
	uint64_t durable = world.server.durable;

	world.deaths++;
	server_begin();
	for (uint64_t i = 1; i <= durable; i++) {
		server_sparse_replay(&world.server, &world.log[i].record, world.log[i].cut);
		memcpy(world.total, world.log[i].total, sizeof(world.total));
	}
}

static bool is_switch_well(void)
{
	const struct instance *instance = &world.instance[fences_now()];

	if (!instance->is_there || instance->is_dead)
		return false;
	/* After a death nobody sends SETUP to it again. */
	return instance->state.generation || world.server.instance;
}

/* Its name comes over TCP, maybe later. */
static void resume_flies(uint16_t w)
{
	uint8_t at[BYTES_MAX];

	if (!server_sparse_may_resume(&world.server, w))
		return;
	if (!random_below(3))
		fly(TO_WORKER, w, at, server_sparse_resume(&world.server, w, at));
	if (!random_below(3))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_NAME,
							     .generation = world.server.generation,
							     .map = MAP });
}

static void server_acts(void)
{
	uint8_t at[BYTES_MAX];

	if (!server_sparse_is_settled(&world.server) && !random_below(3))
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_DURABLE,
			.number = world.server.durable + 1 +
				  random_below((uint32_t)(world.server.recorded -
							  world.server.durable)) });
	if (server_sparse_may_setup(&world.server))
		for (uint32_t part = 0; part < sparse_cut_parts(&world.table); part++)
			fly(TO_SWITCH, fences_now(), at,
			    server_sparse_setup(&world.server, part, at));
	for (uint16_t w = 0; w < world.table.workers; w++)
		resume_flies(w);
	if ((!is_switch_well() && !random_below(10)) || odds(500))
		server_fences();
	if (odds(400))
		server_dies();
}

/* ---- a walk ---- */

static void arrive(void)
{
	uint32_t i = random_below(world.flying_count);
	struct datagram datagram = world.flying[i];
	struct sparse packet = { 0 };

	if (world.is_calm || random_below(4)) /* else it comes once more */
		world.flying[i] = world.flying[--world.flying_count];
	assert_int_equal(sparse_check(datagram.at, datagram.bytes, &packet), WIRE_OK);
	if (datagram.to == TO_SWITCH)
		switch_takes(datagram.index, &packet, datagram.at);
	else if (datagram.to == TO_SERVER)
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_PACKET, .packet = &packet, .at = datagram.at });
	else
		worker_does(datagram.index,
			    (struct worker_sparse_event){ .type = WORKER_SPARSE_PACKET,
							  .packet = &packet,
							  .at = datagram.at });
}

static void walk_begin(uint64_t number)
{
	struct sparse_table *table = &world.table;

	memset(&world, 0, sizeof(world));
	rng_init(&rng, seed, number);
	*table = (struct sparse_table){ .ranks = 1 + random_below(RANKS_MAX),
					.workers = (uint16_t)(1 + random_below(WORKERS_MAX)),
					.window = (uint16_t)(1 + random_below(WINDOW_MAX)),
					.dim = (uint16_t)(1 + random_below(DIM_MAX)) };
	table->bytes = (uint16_t)(48 + 8u * table->window * (1 + random_below(3)));
	if (table->bytes < 44 + 8 * table->dim)
		table->bytes = (uint16_t)(44 + 8 * table->dim);
	assert_true(sparse_flush_parts_max(table) <= PARTS_MAX);
	server_begin();
	server_fences();
	for (uint16_t w = 0; w < table->workers; w++)
		worker_sparse_init(&world.worker[w], table, w, 0, MAP,
				   table->window + random_below(KEPT_MAX - WINDOW_MAX + 1u),
				   world.push[w]);
}

static bool is_done(void)
{
	for (uint32_t w = 0; w < world.table.workers; w++)
		if (world.worker[w].low <= PUSHES)
			return false;
	return true;
}

static void turn(void)
{
	switch (random_below(world.is_calm ? 5 : 8)) {
	case 0:
		worker_acts(random_below(world.table.workers));
		break;
	case 1:
		switch_acts(fences_now());
		break;
	case 2:
		server_acts();
		break;
	case 3:
		if (fences_now() > 1)
			switch_acts(1 + random_below(fences_now()));
		break;
	default:
		if (world.flying_count)
			arrive();
	}
}

static void sums_are_exact(void)
{
	for (uint32_t rank = 0; rank < world.table.ranks; rank++) {
		for (uint32_t i = 0; i < world.table.dim; i++) {
			int64_t sum = 0;

			for (uint32_t w = 0; w < world.table.workers; w++)
				for (uint64_t seq = 1; seq <= PUSHES; seq++)
					if (has_rank(w, seq, rank))
						sum += value_of(w, seq, rank, i);
			assert_int_equal(world.total[rank * world.table.dim + i], sum);
		}
	}
}

static void every_push_is_in_the_server_once(void **state)
{
	uint32_t fences = 0, deaths = 0, zombie_adds = 0;

	(void)state;
	for (uint64_t number = 1; number <= 200; number++) {
		uint32_t turns = 0;

		walk_begin(number);
		while (turns++ < 6000 && !is_done())
			turn();
		world.is_calm = true;
		for (turns = 0; !is_done(); turns++) {
			if (turns == 400000)
				fail_msg("walk %u does not come to an end", (unsigned)number);
			turn();
		}
		sums_are_exact();
		fences += world.fences;
		deaths += world.deaths;
		zombie_adds += world.zombie_adds;
	}
	print_message("%u fences, %u deaths of servers, %u pushes added by fenced switches\n",
		      fences, deaths, zombie_adds);
	assert_true(fences > 400 && deaths > 200 && zombie_adds > 200);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_push_is_in_the_server_once),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
