/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a number is worth: for each kind of packet one that is taken, and then the same with one bit of one number
 * another, which changes nothing at all. docs/protocol.md, "What a stranger would have to guess".
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

enum { MAP = 3, KEPT = 4, RANKS = 2, BYTES = 100, WORKER = 1, WORKERS = 2, EPOCH = 6 };
static const uint64_t instance = 0x8123456789abcdef, generation = 7ull << 40 | 0x123456789a;

static struct sparse_table table = { .ranks = RANKS,
				     .index = 4,
				     .workers = WORKERS,
				     .window = 1,
				     .dim = 1,
				     .bytes = BYTES };

/* All that there is of one table, without padding that anybody writes. */
static struct {
	struct worker_sparse worker;
	struct worker_sparse_push push[KEPT];
	struct switch_sparse at;
	struct switch_sparse_place place[WORKERS];
	uint64_t at_tag[2 * RANKS];
	int64_t at_sum[2 * RANKS];
	uint32_t at_list[2 * RANKS];
	struct server_sparse server;
	struct server_sparse_worker known[WORKERS];
	uint64_t cut[WORKERS], staged[WORKERS], tag[RANKS];
	int64_t sum[RANKS];
	uint8_t has_part[4];
} world, before;

static const struct switch_sparse_memory at_memory = { world.place, world.at_tag, world.at_sum,
						       world.at_list, NULL };
static const struct server_sparse_memory memory = { world.cut, world.staged,   world.sum,
						    world.tag, world.has_part, world.known };

static void server_does(struct server_sparse_event event)
{
	struct server_sparse_actions actions;

	server_sparse_step(&world.server, &event, &actions);
	event = (struct server_sparse_event){ .type = SERVER_SPARSE_DURABLE,
					      .number = world.server.recorded };
	server_sparse_step(&world.server, &event, &actions);
}

/* A worker with a push under way in the generation, a switch that is busy with epoch EPOCH, a server that waits for it. */
static int begin(void **state)
{
	struct worker_sparse_event submit = { .type = WORKER_SPARSE_SUBMIT },
				   send = { .type = WORKER_SPARSE_SEND };
	struct worker_sparse_actions actions;

	(void)state;
	memset(&world, 0, sizeof(world));
	table.is_stepped = 0;
	worker_sparse_init(&world.worker, &table, WORKER, generation, MAP, KEPT, world.push);
	worker_sparse_step(&world.worker, &submit, &actions);
	worker_sparse_step(&world.worker, &send, &actions);
	world.at.instance = instance;
	world.at.generation = world.at.named = generation;
	world.at.epoch = EPOCH + 1;
	world.at.is_busy = 1;
	world.at.map = MAP;
	server_sparse_init(&world.server, &table, MAP, &memory);
	world.server.generation = (generation & ~((1ull << 40) - 1)) - (1ull << 40);
	server_does((struct server_sparse_event){
		.type = SERVER_SPARSE_FENCE_IT, .map = MAP, .random = generation });
	server_does(
		(struct server_sparse_event){ .type = SERVER_SPARSE_INSTANCE, .number = instance });
	assert_true(world.server.generation == generation);
	world.server.expected = EPOCH;
	return 0;
}

/* What a packet of this kind is, if all of it is right. */
static struct sparse right(enum sparse_kind kind)
{
	struct sparse packet = { .kind = (uint8_t)kind,
				 .table = table.index,
				 .worker = WORKER,
				 .generation = generation,
				 .number = EPOCH,
				 .map = MAP,
				 .parts = 1,
				 .width = 1,
				 .count = 1 };

	if (kind == SPARSE_PUSH || kind == SPARSE_ACK)
		packet.number = 1;
	if (kind == SPARSE_READY)
		packet.number = instance;
	if (kind == SPARSE_ACK || kind == SPARSE_ASK || kind == SPARSE_FLIP ||
	    kind == SPARSE_READY || kind == SPARSE_RESUMED)
		packet.count = packet.width = 0;
	if (kind == SPARSE_FLIP)
		packet.number = EPOCH + 1;
	if (kind == SPARSE_CUT || kind == SPARSE_SETUP) {
		packet.worker = 0;
		packet.count = WORKERS;
	}
	if (kind == SPARSE_FLUSH_SHORT) {
		packet.part = 1;
		packet.parts = 2;
	}
	return packet;
}

/* Gives it to whom it is for: was it taken? */
static bool takes(struct sparse packet, uint64_t of_instance)
{
	uint8_t at[BYTES] = { 0 };
	struct worker_sparse_event worker = { .type = WORKER_SPARSE_PACKET,
					      .packet = &packet,
					      .at = at };
	struct server_sparse_event server = { .type = SERVER_SPARSE_PACKET,
					      .packet = &packet,
					      .at = at };
	struct worker_sparse_actions heard;
	struct server_sparse_actions served;

	if (packet.kind == SPARSE_SETUP)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, of_instance);
	if (packet.kind == SPARSE_COMMITTED && packet.worker != SPARSE_SERVER)
		sparse_body_put64(at + SPARSE_HEADER_BYTES, 1);
	sparse_put(at, &packet);
	assert_int_equal(sparse_check(at, sparse_bytes(&packet), &packet), WIRE_OK);
	switch (packet.kind) {
	case SPARSE_ACK:
	case SPARSE_RESUME:
		worker_sparse_step(&world.worker, &worker, &heard);
		return heard.is_acked || heard.resumed;
	case SPARSE_CUT:
	case SPARSE_FLUSH_SHORT:
	case SPARSE_READY:
	case SPARSE_RESUMED:
	case SPARSE_END:
		server_sparse_step(&world.server, &server, &served);
		return !served.is_dropped;
	case SPARSE_COMMITTED:
		if (packet.worker != SPARSE_SERVER) {
			worker_sparse_step(&world.worker, &worker, &heard);
			return heard.freed;
		}
		break;
	default:
		break;
	}
	return switch_sparse_step(&table, &world.at, &at_memory, &packet, at) <
	       SWITCH_SPARSE_DROP_KIND;
}

/* What a stranger has all of but one number. */
struct guess {
	struct sparse packet;
	uint64_t instance;
};

/* Each bit of the number alone, and what one would try: the least, the largest, the next, the next fence's. */
static void only_the_right_one_is_taken(struct guess *guess, uint64_t *number)
{
	uint64_t was = *number,
		 wrong[64 + 6] = { 0, 1, UINT64_MAX, was + 1, was - 1, was + (1ull << 40) };

	for (uint32_t bit = 0; bit < 64; bit++)
		wrong[6 + bit] = was ^ 1ull << bit;
	before = world;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		*number = wrong[i];
		if (takes(guess->packet, guess->instance))
			fail_msg("kind %u is taken with %016llx in place of %016llx",
				 guess->packet.kind, (unsigned long long)*number,
				 (unsigned long long)was);
		assert_memory_equal(&before, &world, sizeof(world));
	}
	*number = was;
	assert_true(takes(guess->packet, guess->instance));
}

static void judges_generation(enum sparse_kind kind, uint16_t worker)
{
	struct guess guess = { right(kind), instance };

	guess.packet.worker = worker;
	if (kind == SPARSE_COMMITTED && worker == SPARSE_SERVER)
		guess.packet.count = guess.packet.width = 0;
	only_the_right_one_is_taken(&guess, &guess.packet.generation);
}

static void a_worker_judges_by_its_generation(void **state)
{
	(void)state;
	judges_generation(SPARSE_ACK, WORKER);
	judges_generation(SPARSE_COMMITTED, WORKER);
}

static void a_worker_resumes_in_the_named_generation_alone(void **state)
{
	(void)state;
	world.worker.generation -= 1ull << 40;
	judges_generation(SPARSE_RESUME, WORKER);
	assert_true(world.worker.generation == generation);
}

static void a_worker_resumes_by_the_named_map_alone(void **state)
{
	struct guess guess = { right(SPARSE_RESUME), instance };

	(void)state;
	world.worker.generation -= 1ull << 40;
	before = world;
	for (uint32_t bit = 0; bit < 32; bit++) {
		guess.packet.map = MAP ^ 1u << bit;
		assert_false(takes(guess.packet, instance));
		assert_memory_equal(&before, &world, sizeof(world));
	}
	guess.packet.map = MAP;
	assert_true(takes(guess.packet, instance));
}

static void a_switch_judges_by_its_generation(void **state)
{
	(void)state;
	judges_generation(SPARSE_PUSH, WORKER);
	judges_generation(SPARSE_ASK, WORKER);
	judges_generation(SPARSE_FLIP, SPARSE_SERVER);
	judges_generation(SPARSE_BCAST, 0);
	judges_generation(SPARSE_HAVE, 0);
	judges_generation(SPARSE_COMMITTED, SPARSE_SERVER);
}

static void a_switch_is_set_up_by_generation_and_instance(void **state)
{
	struct guess guess = { right(SPARSE_SETUP), instance };

	(void)state;
	world.at.generation = 0;
	before = world;
	for (uint32_t bit = 0; bit < 64; bit++) {
		guess.packet.generation = generation ^ 1ull << bit;
		assert_false(takes(guess.packet, instance));
		assert_memory_equal(&before, &world, sizeof(world));
	}
	guess.packet.generation = generation;
	only_the_right_one_is_taken(&guess, &guess.instance);
	assert_true(world.at.generation == generation);
}

/* Before anything is named nothing is taken; what is named later makes what had come void; what has begun stays. */
static void a_switch_is_set_up_by_the_last_that_was_named(void **state)
{
	struct sparse setup = right(SPARSE_SETUP);

	(void)state;
	world.at.generation = world.at.named = 0;
	assert_false(takes(setup, instance));
	switch_sparse_name(&world.at, generation - 1);
	world.at.setup_parts[0] = 2; /* of several parts one has come */
	assert_false(takes(setup, instance));
	switch_sparse_name(&world.at, generation);
	assert_int_equal(world.at.setup_parts[0], 0);
	assert_true(takes(setup, instance));
	assert_true(world.at.generation == generation);
	switch_sparse_name(&world.at, generation + 1);
	setup.generation = generation + 1;
	assert_false(takes(setup, instance));
	assert_true(world.at.generation == generation && world.at.named == generation);
}

static void a_server_judges_flushes_by_their_generation(void **state)
{
	(void)state;
	judges_generation(SPARSE_FLUSH_SHORT, 0);
	(void)begin(state);
	judges_generation(SPARSE_CUT, 0);
}

static void a_server_judges_workers_by_their_generation(void **state)
{
	(void)state;
	judges_generation(SPARSE_RESUMED, WORKER);
	table.is_stepped = 1;
	judges_generation(SPARSE_END, WORKER);
}

static void a_server_judges_its_switch_by_generation_and_instance(void **state)
{
	struct guess guess = { right(SPARSE_READY), 0 };

	(void)state;
	judges_generation(SPARSE_READY, SPARSE_SERVER);
	only_the_right_one_is_taken(&guess, &guess.packet.number);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_worker_judges_by_its_generation, begin),
		cmocka_unit_test_setup(a_worker_resumes_in_the_named_generation_alone, begin),
		cmocka_unit_test_setup(a_worker_resumes_by_the_named_map_alone, begin),
		cmocka_unit_test_setup(a_switch_judges_by_its_generation, begin),
		cmocka_unit_test_setup(a_switch_is_set_up_by_generation_and_instance, begin),
		cmocka_unit_test_setup(a_switch_is_set_up_by_the_last_that_was_named, begin),
		cmocka_unit_test_setup(a_server_judges_flushes_by_their_generation, begin),
		cmocka_unit_test_setup(a_server_judges_workers_by_their_generation, begin),
		cmocka_unit_test_setup(a_server_judges_its_switch_by_generation_and_instance,
				       begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
