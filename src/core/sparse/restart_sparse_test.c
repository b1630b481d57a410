/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers of sparse mode without a log: what a restart keeps, gathers and loses. Claims, and walks with servers that
 * die and go back to a checkpoint or to nothing, while switches die and packets are lost, late and doubled. Each push
 * has a rank of its own, so the sums say how often it is in. Argument: the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/server_sparse.h"
#include "core/sparse/switch_sparse.h"
#include "core/sparse/worker_sparse.h"
#include "tests/random.h"

enum {
	WORKERS = 2,
	WINDOW_MAX = 3,
	PUSHES = 14,
	BATCHES = 10,
	RANKS = WORKERS * PUSHES,
	KEPT = 5,
	GENERATIONS = 60,
	PARTS_MAX = 16,
	FLYING = 40,
	BYTES = 240,
	MAP = 3,
};

enum { TO_SWITCH = 1, TO_SERVER, TO_WORKER };

struct checkpoint {
	uint64_t expected, cut[WORKERS * WINDOW_MAX];
	uint64_t incarnation[WORKERS], next[WORKERS];
	int64_t total[RANKS];
	uint32_t cold[WORKERS]; /* bit number - 1 */
};

static struct {
	struct sparse_table table;
	struct worker_sparse worker[WORKERS];
	struct worker_sparse_push push[WORKERS][KEPT];
	uint64_t answered[WORKERS]; /* batches */
	struct switch_sparse at;    /* of `at.generation`; one at a time */
	struct switch_sparse_place place[WORKERS * WINDOW_MAX];
	uint64_t at_tag[2 * RANKS];
	int64_t at_sum[2 * RANKS];
	uint32_t at_list[2 * RANKS];
	struct server_sparse server;
	struct server_sparse_worker known[WORKERS];
	uint64_t cut[WORKERS * WINDOW_MAX], staged[WORKERS * WINDOW_MAX], tag[RANKS];
	int64_t sum[RANKS], total[RANKS];
	uint32_t cold[WORKERS];
	uint8_t has_part[PARTS_MAX];
	struct checkpoint saved;
	uint64_t generation; /* of the last FENCE, which is on the disk whatever else is */
	uint64_t generations, lost, deaths;
	bool is_calm, has_saved;
	struct {
		uint32_t to, index, bytes;
		uint8_t at[BYTES];
	} flying[FLYING];
	uint32_t flying_count;
} world;

static const struct server_sparse_memory memory = { world.cut, world.staged,   world.sum,
						    world.tag, world.has_part, world.known };
static const struct switch_sparse_memory at_memory = { world.place, world.at_tag, world.at_sum,
						       world.at_list, NULL };

static bool odds(uint32_t in)
{
	return !world.is_calm && !random_below(in);
}

static void fly(uint32_t to, uint32_t index, const uint8_t *at, uint32_t bytes)
{
	uint32_t i;

	if (odds(4))
		return;
	i = world.flying_count < FLYING ? world.flying_count++ : random_below(FLYING);
	assert_true(bytes <= BYTES);
	world.flying[i].to = to;
	world.flying[i].index = index;
	world.flying[i].bytes = bytes;
	memcpy(world.flying[i].at, at, bytes);
}

static void fly_bare(uint32_t to, uint32_t index, const struct sparse *packet)
{
	uint8_t at[SPARSE_HEADER_BYTES];

	sparse_put(at, packet);
	fly(to, index, at, sizeof(at));
}

/* ---- workers ---- */

static void worker_does(uint32_t w, struct worker_sparse_event event)
{
	struct worker_sparse_actions actions;
	uint8_t at[SPARSE_HEADER_BYTES + 8];

	worker_sparse_step(&world.worker[w], &event, &actions);
	assert_false(actions.is_protocol_error);
	if (actions.send) {
		actions.header.count = actions.header.width = 1;
		sparse_put(at, &actions.header);
		sparse_body_put32(at + SPARSE_HEADER_BYTES,
				  (uint32_t)(w * PUSHES + actions.seq - 1));
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 4, 1);
		fly(TO_SWITCH, 0, at, sizeof(at));
	}
	if (actions.ask)
		fly_bare(TO_SWITCH, 0, &actions.header);
	if (actions.answer)
		fly_bare(TO_SERVER, 0, &actions.header);
}

static void worker_acts(uint32_t w)
{
	struct worker_sparse *worker = &world.worker[w];

	if (worker->next <= PUSHES && worker_sparse_has_room(worker))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_SUBMIT });
	if (worker_sparse_may_send(worker))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_SEND });
	for (uint64_t seq = worker->low; seq < worker->sent; seq++)
		if (worker_sparse_is_due(worker, seq) && !random_below(3))
			worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_RESEND,
								     .seq = seq });
	if (worker_sparse_wants(worker) && !random_below(3))
		worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_ASK });
}

/* ---- the switch ---- */

static void switch_begins(void)
{
	memset(&world.at, 0, sizeof(world.at));
	memset(world.place, 0, sizeof(world.place));
	memset(world.at_tag, 0, sizeof(world.at_tag));
	world.at.instance = world.generations + 1000;
	switch_sparse_name(&world.at, world.server.generation);
}

static void switch_takes(struct sparse *packet, const uint8_t *at)
{
	enum switch_sparse_verdict verdict =
		switch_sparse_step(&world.table, &world.at, &at_memory, packet, at);

	if (verdict <= SWITCH_SPARSE_REPEAT)
		fly_bare(TO_WORKER, packet->worker, packet);
	else if (verdict == SWITCH_SPARSE_READY)
		fly_bare(TO_SERVER, 0, packet);
}

static void switch_acts(void)
{
	uint8_t at[BYTES];

	if (switch_sparse_is_due(&world.table, &world.at, 4, odds(10)))
		switch_sparse_flip(&world.at);
	for (uint32_t part = 0;
	     world.at.is_busy && part < switch_sparse_parts(&world.table, &world.at); part++)
		if (random_below(2))
			fly(TO_SERVER, 0, at,
			    switch_sparse_part(&world.table, &world.at, &at_memory, part, at));
}

/* ---- the server ---- */

static void server_does(struct server_sparse_event event)
{
	struct server_sparse_actions actions;
	uint8_t at[BYTES];

	server_sparse_step(&world.server, &event, &actions);
	if (actions.apply && event.type == SERVER_SPARSE_PACKET)
		for (uint32_t rank = 0; rank < RANKS; rank++)
			if (server_sparse_is_touched(&world.server, rank))
				world.total[rank] += world.sum[rank];
	if (actions.apply && event.type == SERVER_SPARSE_COLD) {
		assert_false(world.cold[event.worker] >> (event.number - 1) & 1);
		world.cold[event.worker] |= 1u << (event.number - 1);
	}
	if (actions.answer && event.type == SERVER_SPARSE_COLD && !odds(3))
		world.answered[event.worker] = event.number;
	world.generation = world.server.generation;
	if (actions.record) { /* without a log it is durable at once */
		struct server_sparse_event durable = { .type = SERVER_SPARSE_DURABLE,
						       .number = world.server.recorded };
		bool say;

		server_sparse_step(&world.server, &durable, &actions);
		say = actions.say;
		for (uint16_t w = 0; w < WORKERS && say; w++)
			fly(TO_WORKER, w, at, server_sparse_committed(&world.server, w, at));
	}
	if (actions.say)
		fly(TO_SWITCH, 0, at, server_sparse_committed(&world.server, SPARSE_SERVER, at));
	for (uint16_t w = 0; w < WORKERS && actions.say; w++)
		fly(TO_WORKER, w, at, server_sparse_committed(&world.server, w, at));
}

static void server_saves(void)
{
	struct checkpoint *saved = &world.saved;

	saved->expected = world.server.expected;
	memcpy(saved->cut, world.cut, sizeof(saved->cut));
	memcpy(saved->total, world.total, sizeof(saved->total));
	memcpy(saved->cold, world.cold, sizeof(saved->cold));
	for (uint32_t w = 0; w < WORKERS; w++) {
		saved->incarnation[w] = world.known[w].incarnation;
		saved->next[w] = world.known[w].next;
	}
	world.has_saved = true;
}

/* R-SP-33: the records that make a server as the checkpoint has it. */
static void server_loads(void)
{
	const struct checkpoint *saved = &world.saved;
	struct server_sparse_record record = { .map = MAP, .generation = world.generation };

	record.kind = SERVER_SPARSE_FENCE;
	record.number = 1;
	server_sparse_replay(&world.server, &record, NULL);
	for (uint16_t w = 0; w < WORKERS && world.has_saved; w++) {
		record.worker = w;
		record.incarnation = saved->incarnation[w];
		record.kind = SERVER_SPARSE_JOIN;
		record.number++;
		server_sparse_replay(&world.server, &record, NULL);
		record.kind = SERVER_SPARSE_BATCH;
		record.batch = saved->next[w] - 1;
		record.number++;
		server_sparse_replay(&world.server, &record, NULL);
	}
	if (!world.has_saved)
		return;
	record.kind = SERVER_SPARSE_EPOCH;
	record.epoch = saved->expected - 1;
	record.number++;
	server_sparse_replay(&world.server, &record, saved->cut);
	memcpy(world.total, saved->total, sizeof(world.total));
	memcpy(world.cold, saved->cold, sizeof(world.cold));
}

static void server_dies(void)
{
	world.deaths++;
	world.lost += world.server.lost;
	memset(world.total, 0, sizeof(world.total));
	memset(world.cold, 0, sizeof(world.cold));
	server_sparse_init(&world.server, &world.table, MAP, &memory);
	server_loads();
	world.generations++;
	server_does((struct server_sparse_event){
		.type = SERVER_SPARSE_GATHER, .map = MAP, .random = rng_next(&rng) });
	switch_begins();
}

static void worker_reports(uint16_t w)
{
	uint64_t row[WINDOW_MAX], generation = world.server.generation;

	worker_does(w, (struct worker_sparse_event){ .type = WORKER_SPARSE_REPORT,
						     .generation = world.server.generation });
	worker_sparse_report(&world.worker[w], row);
	server_does((struct server_sparse_event){ .type = SERVER_SPARSE_REPORTED,
						  .worker = w,
						  .incarnation = 1,
						  .number = world.answered[w],
						  .random = rng_next(&rng),
						  .row = row });
	if (world.server.generation == generation)
		return;
	world.generations++; /* nobody has waited for it */
	switch_begins();
}

static void fence(void)
{
	world.generations++;
	server_does((struct server_sparse_event){
		.type = SERVER_SPARSE_FENCE_IT, .map = MAP, .random = rng_next(&rng) });
	switch_begins();
}

static void server_acts(void)
{
	struct server_sparse *server = &world.server;
	uint8_t at[BYTES];

	for (uint16_t w = 0; w < WORKERS; w++) {
		if (world.known[w].is_unreported && odds(8))
			server_does((struct server_sparse_event){ .type = SERVER_SPARSE_MISSED,
								  .worker = w });
		if (world.known[w].is_unreported && !random_below(3))
			worker_reports(w);
	}
	if (!server->unreported && server->is_fenced)
		server_does((struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE,
							  .number = world.at.instance });
	if (server_sparse_may_setup(server))
		for (uint32_t part = 0; part < sparse_cut_parts(&world.table); part++)
			fly(TO_SWITCH, 0, at, server_sparse_setup(server, part, at));
	for (uint16_t w = 0; w < WORKERS; w++) {
		if (server_sparse_may_resume(server, w))
			fly(TO_WORKER, w, at, server_sparse_resume(server, w, at));
		if (server_sparse_may_resume(server, w) && !random_below(3))
			worker_does(w,
				    (struct worker_sparse_event){ .type = WORKER_SPARSE_NAME,
								  .generation = server->generation,
								  .map = MAP });
		if (world.answered[w] < BATCHES && !random_below(3))
			server_does(
				(struct server_sparse_event){ .type = SERVER_SPARSE_COLD,
							      .worker = w,
							      .incarnation = 1,
							      .number = world.answered[w] + 1 });
	}
	if (odds(30) && !server->unreported)
		server_saves();
	if (world.generations + 1 < GENERATIONS && odds(60))
		server_dies();
	else if (world.generations + 1 < GENERATIONS && odds(60) && !server->unreported)
		fence();
}

/* ---- walks ---- */

static void arrive(void)
{
	uint32_t i = random_below(world.flying_count), to = world.flying[i].to;
	uint32_t index = world.flying[i].index;
	struct sparse packet = { 0 };
	uint8_t at[BYTES];

	memcpy(at, world.flying[i].at, sizeof(at));
	assert_int_equal(sparse_check(at, world.flying[i].bytes, &packet), WIRE_OK);
	if (world.is_calm || random_below(4))
		world.flying[i] = world.flying[--world.flying_count];
	if (to == TO_SWITCH)
		switch_takes(&packet, at);
	else if (to == TO_SERVER)
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_PACKET, .packet = &packet, .at = at });
	else
		worker_does(index, (struct worker_sparse_event){ .type = WORKER_SPARSE_PACKET,
								 .packet = &packet,
								 .at = at });
}

static void begin(uint64_t number)
{
	memset(&world, 0, sizeof(world));
	rng_init(&rng, seed, number);
	world.table = (struct sparse_table){ .ranks = RANKS,
					     .workers = WORKERS,
					     .window = (uint16_t)(1 + random_below(WINDOW_MAX)),
					     .dim = 1,
					     .bytes = (uint16_t)(100 + random_below(BYTES - 100)) };
	assert_true(sparse_flush_parts_max(&world.table) <= PARTS_MAX);
	server_sparse_init(&world.server, &world.table, MAP, &memory);
	fence();
	for (uint16_t w = 0; w < WORKERS; w++) {
		server_does((struct server_sparse_event){
			.type = SERVER_SPARSE_JOINED, .worker = w, .incarnation = 1 });
		worker_sparse_init(&world.worker[w], &world.table, w, world.server.generation, MAP,
				   KEPT, world.push[w]);
	}
	server_does((struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE,
						  .number = world.at.instance });
}

/* Of who has not reported, though all is done, nobody knows yet what was lost. */
static bool is_done(void)
{
	for (uint32_t w = 0; w < WORKERS; w++)
		if (world.worker[w].low <= PUSHES || world.answered[w] < BATCHES ||
		    world.known[w].is_unreported)
			return false;
	return true;
}

static void turn(void)
{
	switch (random_below(6)) {
	case 0:
		worker_acts(random_below(WORKERS));
		break;
	case 1:
		switch_acts();
		break;
	case 2:
		server_acts();
		break;
	default:
		if (world.flying_count)
			arrive();
	}
}

/* In the sums once, or lost. How many are lost. */
static uint32_t missing_count(void)
{
	uint32_t missing = 0;

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		assert_in_range(world.total[rank], 0, 1);
		missing += world.total[rank] == 0;
	}
	for (uint32_t w = 0; w < WORKERS; w++)
		missing += BATCHES - (uint32_t)__builtin_popcount(world.cold[w]);
	return missing;
}

/* A checkpoint may go back behind what an earlier restart has counted: such a loss is counted again, for it is what
 * this restart has lost of what its workers were told. So one death is looked at by itself, many for what is twice. */
static void what_is_not_in_the_sums_was_said_to_be_lost(void **state)
{
	uint64_t deaths = 0, lost = 0, saved = 0;

	(void)state;
	for (uint64_t number = 1; number <= 600; number++) {
		uint32_t turns = 0, missing;

		begin(number);
		while (turns++ < 1500 && !is_done())
			turn();
		world.is_calm = true;
		for (turns = 0; !is_done(); turns++) {
			if (turns == 200000)
				fail_msg("walk %u does not come to an end", (unsigned)number);
			turn();
		}
		missing = missing_count();
		world.lost += world.server.lost;
		if (world.deaths <= 1)
			assert_int_equal(missing, world.lost);
		assert_true(missing <= world.lost);
		deaths += world.deaths;
		lost += world.lost;
		saved += world.has_saved;
	}
	print_message("%u deaths, %u lost, %u walks with a checkpoint\n", (unsigned)deaths,
		      (unsigned)lost, (unsigned)saved);
	assert_true(deaths > 600 && lost > 600 && saved > 100);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_in_the_sums_was_said_to_be_lost),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
