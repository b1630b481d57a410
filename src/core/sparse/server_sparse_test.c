/* SPDX-License-Identifier: Apache-2.0 */
/* What a server of sparse mode applies, records and says: claims about single packets and batches. */
#include "core/sparse/server_sparse_fixture.h"

static void nothing_is_said_before_the_disk_has_it(void **state)
{
	uint8_t at[60];
	struct sparse packet = { 0 };

	(void)state;
	give_all(1, 1, 7, 5);
	assert_false(actions.say || server_sparse_is_settled(&server));
	give_part(1, 1, 0, 7); /* the switch sends it again */
	assert_false(actions.say || actions.is_dropped);
	settle();
	assert_true(actions.say);
	give_part(1, 1, 0, 7);
	assert_true(actions.say);
	sparse_check(at, server_sparse_committed(&server, 1, at), &packet);
	assert_int_equal(packet.number, 1);
	assert_int_equal(packet.generation, generation_of(1));
	assert_int_equal(sparse_body_get64(sparse_item(&packet, at, 0)), 7);
	assert_int_equal(sparse_check(at, server_sparse_committed(&server, SPARSE_SERVER, at),
				      &packet),
			 WIRE_OK);
	assert_int_equal(packet.count, 0);
}

/* R-SP-26, R-SP-27 */
static void a_fence_is_on_disk_before_setup_and_resume_leave(void **state)
{
	uint8_t at[60];
	struct sparse packet = { .kind = SPARSE_READY,
				 .table = table.index,
				 .generation = generation_of(2),
				 .number = INSTANCE + 1 };
	struct server_sparse_event ready = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };

	(void)state;
	give_all(1, 1, 7, 5);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_true(actions.record);
	assert_int_equal(actions.what.generation, generation_of(2));
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE + 1);
	assert_false(server_sparse_may_setup(&server) || server_sparse_may_resume(&server, 0));
	settle();
	assert_true(server_sparse_may_setup(&server) && server_sparse_may_resume(&server, 0));
	sparse_check(at, server_sparse_setup(&server, 1, at), &packet);
	assert_int_equal(packet.number, 2);
	assert_int_equal(packet.worker, 1);
	assert_int_equal(packet.generation, generation_of(2));
	assert_int_equal(sparse_body_get64(at + SPARSE_HEADER_BYTES), INSTANCE + 1);
	assert_int_equal(sparse_body_get64(sparse_item(&packet, at, 0)), 7);
	packet = (struct sparse){ .kind = SPARSE_READY,
				  .table = table.index,
				  .generation = generation_of(2),
				  .number = INSTANCE };
	server_sparse_step(&server, &ready, &actions);
	assert_true(actions.is_dropped); /* another instance's */
	packet.number++;
	server_sparse_step(&server, &ready, &actions);
	assert_false(server_sparse_may_setup(&server));
	packet = (struct sparse){ .kind = SPARSE_RESUMED,
				  .table = table.index,
				  .worker = 1,
				  .generation = generation_of(2) };
	server_sparse_step(&server, &ready, &actions);
	assert_true(server_sparse_may_resume(&server, 0));
	assert_false(server_sparse_may_resume(&server, 1));
	packet.worker = table.workers; /* the first that there is not */
	server_sparse_step(&server, &ready, &actions);
	assert_true(actions.is_dropped);
}

/* R-SP-28 */
static void cold_batches_count_once_in_order(void **state)
{
	(void)state;
	step(SERVER_SPARSE_JOINED, 1, 3, 0);
	assert_int_equal(server.generation, generation_of(1)); /* the first needs no fence */
	step(SERVER_SPARSE_COLD, 1, 3, 2);
	assert_true(actions.refuse && !actions.answer);
	step(SERVER_SPARSE_COLD, 1, 3, 1);
	assert_true(actions.apply && actions.record && actions.answer);
	assert_int_equal(actions.what.batch, 1);
	assert_int_equal(actions.what.worker, 1);
	assert_int_equal(actions.what.incarnation, 3);
	step(SERVER_SPARSE_COLD, 1, 3, 1);
	assert_true(actions.answer && !actions.apply && !actions.record);
	step(SERVER_SPARSE_COLD, 1, 2, 2);
	assert_true(actions.refuse);
	step(SERVER_SPARSE_COLD, 1, 3, 0);
	assert_true(actions.refuse);
	step(SERVER_SPARSE_COLD, 1, 3, 2);
	assert_true(actions.apply);
}

/* R-SP-29 */
static void a_new_incarnation_begins_with_an_empty_row(void **state)
{
	(void)state;
	step(SERVER_SPARSE_JOINED, 1, 3, 0);
	step(SERVER_SPARSE_COLD, 1, 3, 1);
	give_all(1, 1, 7, 5);
	step(SERVER_SPARSE_JOINED, 1, 3, 0);
	assert_true(actions.refuse);
	step(SERVER_SPARSE_JOINED, 1, 4, 0);
	assert_int_equal(server.generation, generation_of(2));
	assert_int_equal(actions.what.kind, SERVER_SPARSE_JOIN);
	assert_int_equal(cut[0], 7);
	assert_int_equal(cut[1], 0);
	assert_int_equal(workers[1].next, 1);
	step(SERVER_SPARSE_COLD, 1, 3, 2);
	assert_true(actions.refuse);
}

/* Cold traffic that is never all on the disk: what was committed is said, and a new switch is set up. */
static void batches_that_are_not_durable_hold_up_no_commit(void **state)
{
	uint64_t epoch;

	(void)state;
	step(SERVER_SPARSE_JOINED, 1, 3, 0);
	settle();
	give_all(1, 1, 7, 5);
	epoch = server.recorded;
	for (uint64_t number = 1; number <= 3; number++) {
		step(SERVER_SPARSE_COLD, 1, 3, number);
		assert_true(actions.record);
	}
	assert_false(server_sparse_is_settled(&server));
	step(SERVER_SPARSE_DURABLE, 0, 0, epoch);
	assert_true(actions.say);
	give_part(1, 1, 0, 7);
	assert_true(actions.say);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE + 1);
	epoch = server.recorded;
	step(SERVER_SPARSE_COLD, 1, 3, 4);
	step(SERVER_SPARSE_DURABLE, 0, 0, epoch - 1);
	assert_false(server_sparse_may_setup(&server) || server_sparse_may_resume(&server, 1));
	step(SERVER_SPARSE_DURABLE, 0, 0, epoch);
	assert_true(server_sparse_may_setup(&server) && server_sparse_may_resume(&server, 1));
}

/* R-SP-26: before the first fence there is no switch, and what has generation 0 is nobody's. */
static void before_the_first_fence_nothing_counts(void **state)
{
	struct sparse packet = { .kind = SPARSE_READY, .table = table.index, .number = INSTANCE };
	struct server_sparse_event ready = { .type = SERVER_SPARSE_PACKET, .packet = &packet };

	(void)state;
	server_sparse_init(&server, &table, MAP, &memory);
	give_all(0, 1, 7, 5);
	assert_true(actions.is_dropped);
	assert_int_equal(server.expected, 1);
	server_sparse_step(&server, &ready, &actions);
	assert_true(actions.is_dropped);
	step(SERVER_SPARSE_JOINED, 1, 3, 0);
	assert_true(actions.refuse && !actions.record);
	step(SERVER_SPARSE_COLD, 1, 0, 1);
	assert_true(actions.refuse && !actions.apply);
}

static void a_batch_of_nobody_who_has_joined_is_refused(void **state)
{
	(void)state;
	step(SERVER_SPARSE_COLD, 1, 0, 1);
	assert_true(actions.refuse);
	assert_false(actions.apply || actions.record || actions.answer);
	step(SERVER_SPARSE_JOINED, 0, 3, 0);
	assert_true(actions.answer);
	step(SERVER_SPARSE_COLD, 1, 0, 1);
	assert_true(actions.refuse);
}

/* A flag that one part had is that of its epoch, is in its record, and sticks to the table. */
static void flags_of_an_epoch_are_recorded_and_stick(void **state)
{
	struct server_sparse_record log[2];
	uint64_t cuts[2][WORKERS];

	(void)state;
	for (uint32_t epoch = 1; epoch <= 2; epoch++) {
		for (uint32_t part = 0; part < 4; part++) {
			part_flags = part == 3 && epoch == 1 ? SPARSE_SATURATED : 0;
			give_part(1, epoch, part, part < 2 ? 7 : 1);
		}
		assert_true(actions.apply);
		assert_int_equal(actions.what.flags, epoch == 1 ? SPARSE_SATURATED : 0);
		log[epoch - 1] = actions.what;
		memcpy(cuts[epoch - 1], cut, sizeof(cut));
	}
	assert_int_equal(server.sticky, SPARSE_SATURATED);
	server_sparse_init(&server, &table, 0, &memory);
	assert_int_equal(server.sticky, 0);
	server.recorded = 1; /* the fence */
	for (uint32_t i = 0; i < 2; i++)
		server_sparse_replay(&server, &log[i], cuts[i]);
	assert_int_equal(server.sticky, SPARSE_SATURATED);
}

static int begin_stepped(void **state)
{
	static struct sparse_table stepped;

	stepped = table;
	stepped.is_stepped = 1;
	begin(state);
	server.table = &stepped;
	return 0;
}

static void give_end(uint16_t worker, uint64_t generation, uint64_t number)
{
	struct sparse packet = { .kind = SPARSE_END,
				 .table = table.index,
				 .worker = worker,
				 .generation = generation_of(generation),
				 .number = number };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET, .packet = &packet };

	server_sparse_step(&server, &event, &actions);
}

static void a_step_flips_when_all_workers_have_ended_it(void **state)
{
	uint8_t at[60];
	struct sparse packet = { 0 };

	(void)state;
	assert_false(server_sparse_may_flip(&server));
	give_end(0, 1, 1);
	give_end(0, 1, 1);
	give_end(1, 1, 2); /* a step that is not begun */
	assert_true(actions.is_dropped);
	give_end(2, 1, 1); /* nobody */
	assert_true(actions.is_dropped);
	assert_false(server_sparse_may_flip(&server));
	give_end(1, 1, 1);
	assert_true(server_sparse_may_flip(&server));
	assert_int_equal(sparse_check(at, server_sparse_flip(&server, at), &packet), WIRE_OK);
	assert_int_equal(packet.kind, SPARSE_FLIP);
	assert_int_equal(packet.number, 1);
	assert_int_equal(packet.worker, SPARSE_SERVER);
	give_all(1, 1, 7, 5);
	assert_false(server_sparse_may_flip(&server));
	settle();
	give_end(1, 1, 1); /* has not heard COMMITTED */
	assert_true(actions.say);
	assert_false(server_sparse_may_flip(&server));
}

static void a_fence_voids_the_ends_of_a_step(void **state)
{
	(void)state;
	give_end(0, 1, 1);
	give_end(1, 1, 1);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	settle();
	assert_false(server_sparse_may_flip(&server));
	give_end(0, 1, 1);
	assert_true(actions.is_dropped);
	give_end(1, 2, 1);
	assert_false(server_sparse_may_flip(&server));
	give_end(0, 2, 1);
	assert_true(server_sparse_may_flip(&server));
}

static void only_a_stepped_table_has_steps(void **state)
{
	(void)state;
	give_end(0, 1, 1);
	assert_true(actions.is_dropped);
	give_end(1, 1, 1);
	assert_false(server_sparse_may_flip(&server));
}

static void give_ready(uint64_t generation)
{
	struct sparse packet = { .kind = SPARSE_READY,
				 .table = table.index,
				 .generation = generation_of(generation),
				 .number = INSTANCE };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET, .packet = &packet };

	server_sparse_step(&server, &event, &actions);
}

/* R-SP-35: the first may have been cut before anybody asked. */
static void a_drain_ends_with_the_second_epoch(void **state)
{
	uint8_t at[60];
	struct sparse packet = { 0 };

	(void)state;
	assert_true(server_sparse_is_drained(&server)); /* no push can be in it */
	give_ready(1);
	assert_false(server_sparse_is_drained(&server));
	assert_false(server_sparse_may_flip(&server));
	for (uint64_t epoch = 1; epoch <= 6; epoch++) {
		if (epoch % 2) { /* again, another time */
			step(SERVER_SPARSE_DRAIN_IT, 0, 0, 0);
			assert_false(actions.record);
		}
		assert_false(server_sparse_is_drained(&server));
		assert_true(server_sparse_may_flip(&server));
		assert_int_equal(sparse_check(at, server_sparse_flip(&server, at), &packet),
				 WIRE_OK);
		assert_int_equal(packet.kind, SPARSE_FLIP);
		assert_int_equal(packet.number, epoch);
		assert_int_equal(packet.generation, generation_of(1));
		give_all(1, epoch, 7, 5);
	}
	assert_true(server_sparse_is_drained(&server));
	assert_false(server_sparse_may_flip(&server));
}

static void a_fence_ends_a_drain(void **state)
{
	(void)state;
	give_ready(1);
	step(SERVER_SPARSE_DRAIN_IT, 0, 0, 0);
	assert_true(server_sparse_may_flip(&server));
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_true(server_sparse_is_drained(&server));
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE);
	settle();
	give_ready(2);
	assert_false(server_sparse_may_flip(&server));
	assert_false(server_sparse_is_drained(&server));
}

/* R-SP-30: its flush has the whole step of every worker or nothing of it. */
static void a_stepped_table_is_not_drained(void **state)
{
	(void)state;
	give_ready(1);
	assert_true(server_sparse_is_drained(&server));
	step(SERVER_SPARSE_DRAIN_IT, 0, 0, 0);
	assert_false(server_sparse_may_flip(&server));
	give_end(0, 1, 1);
	give_end(1, 1, 1);
	assert_true(server_sparse_may_flip(&server));
}

static void gather(uint64_t generation)
{
	step(SERVER_SPARSE_GATHER, 0, 0, 0);
	assert_true(actions.record); /* the number is on the disk before anybody is told it */
	assert_int_equal(actions.what.kind, SERVER_SPARSE_FENCE);
	assert_int_equal(actions.what.generation, generation_of(generation));
}

static void give_report(uint16_t worker, uint64_t incarnation, uint64_t batch, uint64_t number)
{
	uint64_t row[1] = { number };
	struct server_sparse_event event = { .type = SERVER_SPARSE_REPORTED,
					     .worker = worker,
					     .incarnation = incarnation,
					     .number = batch,
					     .random = generation_of(
						     1 + sparse_fences(server.generation)),
					     .row = row };

	server_sparse_step(&server, &event, &actions);
}

/* Window 1: what is covered up to 7 and up to 4 differs by three pushes. */
static void without_a_log_nothing_goes_on_before_all_have_reported(void **state)
{
	(void)state;
	step(SERVER_SPARSE_JOINED, 0, 5, 0);
	step(SERVER_SPARSE_COLD, 0, 5, 1);
	give_all(1, 1, 4, 5);
	settle();
	gather(2);
	assert_int_equal(server.generation, generation_of(2));
	assert_int_equal(server.expected, 2);
	give_all(2, 2, 8, 5);
	assert_true(actions.is_dropped);
	step(SERVER_SPARSE_COLD, 0, 5, 2);
	assert_true(actions.refuse);
	give_report(0, 4, 3, 7); /* superseded */
	assert_true(actions.refuse);
	give_report(0, 5, 3, 7);
	assert_true(actions.answer);
	assert_int_equal(cut[0], 7);
	assert_int_equal(server.lost, 3 + 2); /* and batches 2 and 3 */
	assert_false(server_sparse_may_resume(&server, 0));
	give_report(0, 5, 3, 9); /* once */
	assert_true(actions.refuse);
	step(SERVER_SPARSE_COLD, 0, 5, 4);
	assert_true(actions.apply);
	step(SERVER_SPARSE_JOINED, 1, 6, 0); /* stands for a report */
	assert_int_equal(server.generation, generation_of(2));
	assert_int_equal(server.unreported, 0);
	settle();
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE + 1);
	assert_true(server_sparse_may_setup(&server) && server_sparse_may_resume(&server, 0));
	assert_int_equal(cut[1], 0);
	give_all(2, 2, 8, 5);
	assert_true(actions.apply);
}

/* Who has gone, or has left before, holds up nobody; what it has freed is in the switch's row before it goes on. */
static void a_report_that_nobody_has_waited_for_begins_a_generation(void **state)
{
	(void)state;
	step(SERVER_SPARSE_JOINED, 0, 5, 0);
	step(SERVER_SPARSE_JOINED, 1, 6, 0);
	give_all(1, 1, 4, 5);
	settle();
	gather(2);
	step(SERVER_SPARSE_MISSED, 1, 0, 0);
	assert_int_equal(server.unreported, 1);
	step(SERVER_SPARSE_MISSED, 1, 0, 0); /* once */
	assert_int_equal(server.unreported, 1);
	give_report(0, 5, 0, 4);
	assert_int_equal(server.unreported, 0);
	settle();
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE + 1);
	assert_true(server_sparse_may_resume(&server, 0));
	assert_false(server_sparse_may_resume(&server, 1));
	step(SERVER_SPARSE_COLD, 1, 6, 1);
	assert_true(actions.refuse);
	give_all(2, 2, 4, 5);
	assert_true(actions.apply);
	give_report(1, 6, 0, 7);
	assert_true(actions.answer && actions.record);
	assert_int_equal(actions.what.generation, generation_of(3));
	assert_int_equal(server.lost, 3);
	assert_int_equal(cut[1], 7);
	assert_false(server_sparse_may_setup(&server)); /* there is a new switch to come */
	settle();
	assert_true(server_sparse_may_resume(&server, 1));
	give_all(2, 3, 4, 5);
	assert_true(actions.is_dropped);
}

/* The smaller number loses, whoever has it. */
static void a_report_takes_nothing_from_a_checkpoint(void **state)
{
	static struct sparse_table wide;
	uint64_t odd[2] = { 2, 4 }, row[2] = { 4, 1 };
	struct server_sparse_event event = {
		.type = SERVER_SPARSE_REPORTED, .worker = 0, .incarnation = 1, .row = odd
	};

	(void)state;
	wide = table;
	wide.workers = 1;
	wide.window = 2;
	wide.bytes = 100;
	server.table = &wide;
	cut[0] = 2;
	cut[1] = 5;
	gather(2);
	server_sparse_step(&server, &event, &actions); /* 4 is not at place 1 */
	assert_true(actions.refuse);
	event.row = row;
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.answer);
	assert_int_equal(cut[0], 4); /* of a new incarnation: the checkpoint's row was another's */
	assert_int_equal(cut[1], 1);
	assert_int_equal(server.lost, 3);
	gather(3);
	cut[1] = 5;
	event.row = odd;
	odd[1] = 3;
	server_sparse_step(&server, &event, &actions);
	assert_int_equal(cut[0], 4);
	assert_int_equal(cut[1], 5);
	assert_int_equal(server.lost, 3);
}

/* Whatever has happened, a restart finds it again. */
static void a_restart_finds_what_was_recorded(void **state)
{
	struct server_sparse_record log[16];
	uint64_t cuts[16][WORKERS];
	uint32_t count = 0;
	struct server_sparse before;
	struct server_sparse_worker known[WORKERS];

	(void)state;
	server_sparse_init(&server, &table, MAP, &memory);
	for (uint32_t i = 0; i < 10; i++) {
		if (i == 0 || i == 5)
			step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
		else if (i == 1 || i == 7)
			step(SERVER_SPARSE_JOINED, 1, i, 0);
		else if (i == 2 || i == 3)
			step(SERVER_SPARSE_COLD, 1, 1, i - 1);
		else
			give_all(sparse_fences(server.generation), server.expected, 10 + i, 5);
		assert_true(actions.record);
		log[count] = actions.what;
		memcpy(cuts[count++], cut, sizeof(cut));
		settle();
	}
	before = server;
	memcpy(known, workers, sizeof(known));
	server_sparse_init(&server, &table, 0, &memory);
	for (uint32_t i = 0; i < count; i++)
		server_sparse_replay(&server, &log[i], cuts[i]);
	assert_int_equal(server.generation, before.generation);
	assert_int_equal(server.expected, before.expected);
	assert_int_equal(server.map, before.map);
	assert_int_equal(server.recorded, before.recorded);
	assert_true(server_sparse_is_settled(&server));
	assert_memory_equal(cut, cuts[count - 1], sizeof(cut));
	assert_memory_equal(workers, known, sizeof(known));
	assert_false(
		server_sparse_may_setup(&server)); /* the switch may live: READY says who it is */
}

/* Above whatever the log has, also where generations were but counted; and what is random is the caller's alone. */
static void a_generation_is_above_the_last_and_random(void **state)
{
	struct server_sparse_event fence = { .type = SERVER_SPARSE_FENCE_IT, .map = MAP };

	(void)state;
	server.generation = 17;
	fence.random = 0xabcdef0123456789;
	server_sparse_step(&server, &fence, &actions);
	assert_int_equal(actions.what.generation, 1ull << 40 | 0xef0123456789 % (1ull << 40));
	fence.random = 0;
	server_sparse_step(&server, &fence, &actions);
	assert_int_equal(server.generation, 2ull << 40);
	assert_int_equal(sparse_fences(server.generation), 2);
}

/* As after so many that `left` are left; both workers have joined. */
static void begin_late(uint64_t left)
{
	step(SERVER_SPARSE_JOINED, 0, 5, 0);
	step(SERVER_SPARSE_JOINED, 1, 6, 0);
	give_all(1, 1, 4, -5);
	server.generation = generation_of(SPARSE_FENCES_MAX - left);
	settle();
}

static void expect_refused_whole(enum server_sparse_event_type type, uint16_t worker,
				 uint64_t incarnation)
{
	struct server_sparse before = server;

	step(type, worker, incarnation, 0);
	assert_true(actions.refuse);
	assert_false(actions.record || actions.answer);
	assert_memory_equal(&server, &before, sizeof(before));
}

static void the_last_generation_is_no_trap(void **state)
{
	(void)state;
	begin_late(1);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_true(actions.record && !actions.refuse);
	assert_int_equal(sparse_fences(server.generation), SPARSE_FENCES_MAX);
	step(SERVER_SPARSE_INSTANCE, 0, 0, INSTANCE + 1);
	settle();
	expect_refused_whole(SERVER_SPARSE_FENCE_IT, 0, 0);
	expect_refused_whole(SERVER_SPARSE_GATHER, 0, 0);
	expect_refused_whole(SERVER_SPARSE_JOINED, 1, 7);
	assert_int_equal(workers[1].incarnation, 6);
	assert_int_equal(cut[1], 4);
	step(SERVER_SPARSE_COLD, 1, 6, 1); /* what needs no fence goes on */
	assert_true(actions.apply);
	give_all(SPARSE_FENCES_MAX, 2, 8, 5);
	assert_true(actions.apply);
}

/* Who has not reported in time would need a fence: it stays out, and the others go on. */
static void a_late_report_in_the_last_generation_is_refused(void **state)
{
	(void)state;
	begin_late(1);
	gather(SPARSE_FENCES_MAX);
	step(SERVER_SPARSE_MISSED, 1, 0, 0);
	give_report(0, 5, 0, 4);
	assert_true(actions.answer);
	assert_int_equal(server.unreported, 0);
	give_report(1, 6, 0, 7);
	assert_true(actions.refuse && !actions.record);
	assert_int_equal(cut[1], 4);
	assert_true(workers[1].is_unreported);
}

static void a_joining_worker_needs_a_fence_in_place_of_another(void **state)
{
	(void)state;
	step(SERVER_SPARSE_JOINED, 0, 5, 0);
	assert_true(server_sparse_is_replaced(&server, 0));
	assert_false(server_sparse_is_replaced(&server, 1));
	settle();
	gather(2);
	assert_false(server_sparse_is_replaced(&server, 0));
}

static void fences_are_spared_for_what_nobody_asks_for(void **state)
{
	(void)state;
	assert_false(server_sparse_is_spent(&server));
	begin_late(SPARSE_FENCES_SPARE + 1);
	assert_false(server_sparse_is_spent(&server));
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_true(server_sparse_is_spent(&server));
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_true(actions.record && !actions.refuse);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_said_before_the_disk_has_it, begin),
		cmocka_unit_test_setup(a_fence_is_on_disk_before_setup_and_resume_leave, begin),
		cmocka_unit_test_setup(cold_batches_count_once_in_order, begin),
		cmocka_unit_test_setup(a_new_incarnation_begins_with_an_empty_row, begin),
		cmocka_unit_test_setup(batches_that_are_not_durable_hold_up_no_commit, begin),
		cmocka_unit_test_setup(before_the_first_fence_nothing_counts, begin),
		cmocka_unit_test_setup(a_batch_of_nobody_who_has_joined_is_refused, begin),
		cmocka_unit_test_setup(flags_of_an_epoch_are_recorded_and_stick, begin),
		cmocka_unit_test_setup(a_step_flips_when_all_workers_have_ended_it, begin_stepped),
		cmocka_unit_test_setup(a_fence_voids_the_ends_of_a_step, begin_stepped),
		cmocka_unit_test_setup(only_a_stepped_table_has_steps, begin),
		cmocka_unit_test_setup(a_drain_ends_with_the_second_epoch, begin),
		cmocka_unit_test_setup(a_fence_ends_a_drain, begin),
		cmocka_unit_test_setup(a_stepped_table_is_not_drained, begin_stepped),
		cmocka_unit_test_setup(without_a_log_nothing_goes_on_before_all_have_reported,
				       begin),
		cmocka_unit_test_setup(a_report_that_nobody_has_waited_for_begins_a_generation,
				       begin),
		cmocka_unit_test_setup(a_report_takes_nothing_from_a_checkpoint, begin),
		cmocka_unit_test_setup(a_restart_finds_what_was_recorded, begin),
		cmocka_unit_test_setup(a_generation_is_above_the_last_and_random, begin),
		cmocka_unit_test_setup(the_last_generation_is_no_trap, begin),
		cmocka_unit_test_setup(a_late_report_in_the_last_generation_is_refused, begin),
		cmocka_unit_test_setup(a_joining_worker_needs_a_fence_in_place_of_another, begin),
		cmocka_unit_test_setup(fences_are_spared_for_what_nobody_asks_for, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
