/* SPDX-License-Identifier: Apache-2.0 */
/* home_sparse_say_test.c - what a parameter server says until it is answered, and its generations: claims. */
#include "dataplane/home_sparse_fixture.h"

static void generation__has_the_random_bits_that_were_drawn(void **state)
{
	struct home_sparse_options options = plain;
	uint64_t first;

	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	assert_true(server()->generation == (1ull << SPARSE_RANDOM_BITS | 0xfeed));
	t.random = 0xbeef;
	assert_true(home_sparse_join(t.home, 1, 5)); /* the first of its kind */
	assert_true(server()->generation == (1ull << SPARSE_RANDOM_BITS | 0xfeed));
	assert_true(home_sparse_join(t.home, 1, 6));
	assert_true(server()->generation == (2ull << SPARSE_RANDOM_BITS | 0xbeef));
	options.random = NULL; /* the kernel's */
	reopen(&options);
	assert_true(home_sparse_fence(t.home, MAP));
	first = server()->generation;
	assert_true(home_sparse_fence(t.home, MAP));
	assert_int_equal(sparse_fences(server()->generation), 2);
	assert_true((first ^ server()->generation) << (64 - SPARSE_RANDOM_BITS));
}

/* R-SP-26 */
static void setup__is_said_until_the_switch_is_ready(void **state)
{
	uint64_t now_ns = begin_ns, wait_ns = RTO_FIRST_NS;

	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	assert_true(turn() == UINT64_MAX);
	home_sparse_instance(t.home, INSTANCE, INDEX, &at_switch);
	assert_true(turn() == UINT64_MAX); /* not before the disk has it */
	assert_int_equal(t.count, 0);
	settle();
	for (uint32_t said = 1; said < 4; said++) {
		assert_true(turn() == now_ns + wait_ns);
		assert_int_equal(sent(SPARSE_SETUP, &at_switch), 2); /* a row each */
		assert_int_equal(t.count, 2);
		assert_int_equal(t.sent[1].packet.part, 1);
		assert_int_equal(t.sent[1].packet.map, MAP);
		assert_int_equal(stats()->setups, said);
		t.link.now_ns = now_ns + wait_ns - 1;
		assert_true(turn() == now_ns + wait_ns);
		assert_int_equal(t.count, 0);
		t.link.now_ns = now_ns += wait_ns;
		wait_ns = 2 * wait_ns < RTO_BACKOFF_NS ? 2 * wait_ns : RTO_BACKOFF_NS;
	}
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
	/* The next one is said at once, and again after the first wait. */
	assert_true(home_sparse_fence(t.home, MAP));
	settle();
	assert_true(turn() == UINT64_MAX);
	home_sparse_instance(t.home, INSTANCE + 1, INDEX, &at_other);
	assert_true(turn() == now_ns + RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_SETUP, &at_other), 2);
	assert_int_equal(sent(SPARSE_SETUP, &at_switch), 0);
}

static void resume__is_said_to_each_until_it_answers(void **state)
{
	uint64_t at_ns = begin_ns + 30 * RTO_MS;

	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_worker(t.home, 0, &at_worker[0]);
	settle();
	assert_true(turn() == UINT64_MAX); /* a switch is needed to go on with */
	home_sparse_instance(t.home, INSTANCE, INDEX, &at_switch);
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	assert_true(turn() == begin_ns + RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_RESUME, &at_worker[0]), 1);
	assert_int_equal(t.count, 1);
	t.link.now_ns = at_ns;
	home_sparse_worker(t.home, 1, &at_worker[1]);
	assert_true(turn() == begin_ns + RTO_FIRST_NS); /* of the first */
	assert_int_equal(sent(SPARSE_RESUME, &at_worker[1]), 1);
	assert_int_equal(t.sent[0].packet.worker, 1);
	assert_int_equal(t.count, 1);
	assert_int_equal(stats()->resumes, 2);
	give_bare(&at_worker[0], SPARSE_RESUMED, 0, 0);
	assert_true(turn() == at_ns + RTO_FIRST_NS);
	assert_int_equal(t.count, 0);
	t.link.now_ns = at_ns + RTO_FIRST_NS;
	assert_true(turn() == at_ns + 3ull * RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_RESUME, &at_worker[1]), 1);
	assert_int_equal(stats()->resumes, 3);
	give_bare(&at_worker[1], SPARSE_RESUMED, 1, 0);
	assert_true(turn() == UINT64_MAX);
	/* In the next generation both are asked, after the first wait again. */
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_instance(t.home, INSTANCE + 1, INDEX, &at_switch);
	settle();
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE + 1);
	assert_true(turn() == t.link.now_ns + RTO_FIRST_NS);
	assert_int_equal(t.count, 2);
}

/* R-SP-30: once the END of all workers has come. */
static void flip__is_said_when_a_step_is_over(void **state)
{
	struct home_sparse_options options = plain;
	uint64_t now_ns = begin_ns;

	(void)state;
	options.table.is_stepped = 1;
	reopen(&options);
	go();
	give_bare(&at_worker[0], SPARSE_END, 0, 1);
	give_bare(&at_switch, SPARSE_END, 1, 1); /* a stranger */
	turn();
	assert_int_equal(t.count, 0);
	give_bare(&at_worker[1], SPARSE_END, 1, 1);
	assert_true(turn() == now_ns + RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_FLIP, &at_switch), 1);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.sent[0].packet.number, 1);
	t.link.now_ns = now_ns + RTO_FIRST_NS - 1;
	turn();
	assert_int_equal(t.count, 0);
	t.link.now_ns = now_ns += RTO_FIRST_NS;
	assert_true(turn() == now_ns + 2ull * RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_FLIP, &at_switch), 1);
	assert_int_equal(stats()->flips, 2);
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 1, part);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_FLIP, &at_switch), 0);
	/* The next step's goes at once, and after the first wait again. */
	for (uint16_t i = 0; i < WORKERS; i++)
		give_bare(&at_worker[i], SPARSE_END, i, 2);
	assert_true(turn() == now_ns + RTO_FIRST_NS);
	assert_int_equal(sent(SPARSE_FLIP, &at_switch), 1);
	assert_int_equal(t.sent[0].packet.number, 2);
	assert_int_equal(stats()->flips, 3);
}

/* R-SP-35 */
static void drain__asks_for_two_epochs(void **state)
{
	(void)state;
	go();
	home_sparse_drain(t.home);
	for (uint64_t epoch = 1; epoch <= 2; epoch++) {
		assert_false(server_sparse_is_drained(server()));
		turn();
		assert_int_equal(sent(SPARSE_FLIP, &at_switch), 1);
		for (uint32_t part = 0; part < PARTS; part++)
			give_part(&at_switch, epoch, part);
		settle();
	}
	assert_true(server_sparse_is_drained(server()));
	turn();
	assert_int_equal(sent(SPARSE_FLIP, &at_switch), 0);
}

/* R-SP-32 */
static void remap__begins_a_generation_with_as_many_ranks(void **state)
{
	uint8_t at[BYTES] = { 0 };
	struct sparse packet;

	(void)state;
	go();
	give_part(&at_switch, 1, 0);
	memory.asked = 0;
	memory.missing = 2;
	assert_int_equal(home_sparse_remap(t.home, MAP + 1, 400), -ENOMEM);
	memory.missing = 0;
	assert_int_equal(sparse_fences(server()->generation), 1);
	assert_int_equal(home_sparse_remap(t.home, MAP + 1, 400), 0);
	assert_int_equal(sparse_fences(server()->generation), 2);
	assert_int_equal(server()->map, MAP + 1);
	assert_int_equal(server()->table->ranks, 400);
	home_sparse_instance(t.home, INSTANCE + 1, INDEX, &at_switch);
	settle();
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE + 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		give_bare(&at_worker[i], SPARSE_RESUMED, i, 0);
	packet = header(SPARSE_FLUSH, 1);
	packet.part = 3 * PIECE + 9; /* there was no such piece before */
	packet.parts = 400 + WORKERS;
	packet.count = 1;
	packet.width = 2;
	sparse_body_put32(at + SPARSE_HEADER_BYTES, 399);
	give(&at_switch, &packet, at);
	turn();
	assert_int_equal(sent(SPARSE_HAVE, &at_switch), 1);
	assert_int_equal(t.sent[0].packet.part, 3 * PIECE);
}

/* R-SP-1: a restart that finds the last of all fences used. */
static void fence__behind_the_last_is_refused(void **state)
{
	const struct server_sparse_record last = {
		.kind = SERVER_SPARSE_FENCE, .map = MAP, .number = 1, .generation = UINT64_MAX
	};

	(void)state;
	home_sparse_replay(t.home, &last, NULL);
	assert_int_equal(server()->recorded, 1);
	assert_false(home_sparse_fence(t.home, MAP));
	assert_int_equal(home_sparse_remap(t.home, MAP + 1, 400), -EOVERFLOW);
	assert_false(home_sparse_gather(t.home, MAP));
	assert_int_equal(server()->table->ranks, RANKS);
	assert_int_equal(server()->map, MAP);
	assert_true(server()->generation == UINT64_MAX);
	assert_int_equal(t.records, 0);
}

/* R-SP-26: after a restart the switch may still be there: it is not set up, but says that it is ready. */
static void restart__goes_on_with_the_switch_that_is_there(void **state)
{
	static const uint64_t cut[WORKERS] = { 31, 33 };
	const struct server_sparse_record records[] = {
		{ .kind = SERVER_SPARSE_FENCE, .map = MAP, .number = 1, .generation = 5ull << 40 },
		{ .kind = SERVER_SPARSE_EPOCH,
		  .map = MAP,
		  .number = 2,
		  .generation = 5ull << 40,
		  .epoch = 6 },
	};

	(void)state;
	home_sparse_replay(t.home, &records[0], NULL);
	home_sparse_replay(t.home, &records[1], cut);
	assert_int_equal(server()->expected, 7);
	assert_memory_equal(home_sparse_cut(t.home), cut, sizeof(cut));
	home_sparse_instance(t.home, 0, INDEX, &at_switch);
	assert_int_equal(server()->instance, 0);
	turn();
	assert_int_equal(t.count, 0);
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	assert_true(server()->is_ready);
	assert_int_equal(server()->instance, INSTANCE);
}

static void batches__are_answered_with_the_record_that_has_them(void **state)
{
	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	assert_int_equal(home_sparse_cold(t.home, 1, 5, 1), 0); /* nobody has joined */
	assert_true(home_sparse_join(t.home, 1, 5));
	assert_false(home_sparse_join(t.home, 1, 5));
	assert_int_equal(t.last.kind, SERVER_SPARSE_JOIN);
	assert_int_equal(t.last.worker, 1);
	assert_true(t.last.incarnation == 5);
	assert_int_equal(home_sparse_cold(t.home, 1, 5, 1), 3);
	assert_int_equal(t.last.kind, SERVER_SPARSE_BATCH);
	assert_int_equal(t.last.worker, 1);
	assert_int_equal(t.last.batch, 1);
	assert_int_equal(home_sparse_cold(t.home, 1, 5, 1), 3); /* it has come already */
	assert_int_equal(t.records, 3);
	assert_int_equal(home_sparse_cold(t.home, 1, 5, 3), 0); /* there is a gap */
	assert_int_equal(home_sparse_cold(t.home, 1, 4, 2), 0);
	home_sparse_durable(t.home, 2);
	assert_int_equal(server()->durable, 2);
}

/* R-SP-33 */
static void reports__are_gathered_after_a_restart_without_a_log(void **state)
{
	static const uint64_t row[1] = { 40 };

	(void)state;
	assert_true(home_sparse_gather(t.home, MAP + 3));
	assert_int_equal(server()->map, MAP + 3);
	assert_int_equal(server()->unreported, WORKERS);
	assert_true(home_sparse_report(t.home, 0, 8, 12, row));
	assert_false(home_sparse_report(t.home, 0, 8, 12, row)); /* once */
	assert_int_equal(server()->memory.cut[0], 40);
	assert_int_equal(server()->memory.worker[0].next, 13);
	assert_true(server()->memory.worker[0].incarnation == 8);
	assert_int_equal(server()->unreported, 1);
	home_sparse_missed(t.home, 1);
	assert_int_equal(server()->unreported, 0);
	assert_int_equal(sparse_fences(server()->generation), 1);
	t.random = 0xabc;
	assert_true(home_sparse_report(t.home, 1, 9, 2, row)); /* too late: a fence of its own */
	assert_true(server()->generation == (2ull << SPARSE_RANDOM_BITS | 0xabc));
}

/* COMMITTED goes to those who are there. */
static void commit__is_for_those_who_are_bound(void **state)
{
	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_instance(t.home, INSTANCE, INDEX, &at_switch);
	home_sparse_worker(t.home, 1, &at_worker[1]);
	settle();
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	give_bare(&at_worker[1], SPARSE_RESUMED, 1, 0);
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 1, part);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_COMMITTED, &at_switch), 1);
	assert_int_equal(sent(SPARSE_COMMITTED, &at_worker[1]), 1);
	assert_int_equal(t.count, 2);
	/* A fence takes back what was about to be said. */
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 2, part);
	settle();
	assert_true(home_sparse_fence(t.home, MAP));
	settle();
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
}

static void values__leave_before_the_epoch_is_called_committed(void **state)
{
	struct home_sparse_options options = plain;

	(void)state;
	options.values = values;
	reopen(&options);
	go();
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 1, part);
	turn();
	assert_int_equal(t.count, 0);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_BCAST, &at_switch), 3); /* a rank each */
	assert_int_equal(sent(SPARSE_COMMITTED, &at_switch), 1);
	assert_int_equal(t.count, 6);
	assert_int_equal(stats()->bcasts, 3);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t rising[] = { 0, 3, RANKS - 1 };
		const uint8_t *item = t.sent[i].at + SPARSE_HEADER_BYTES;

		assert_int_equal(t.sent[i].packet.kind, SPARSE_BCAST);
		assert_int_equal(sparse_body_get32(item), rising[i]);
		assert_int_equal(sparse_body_get32(item + 4), 7 * rising[i]);
		assert_int_equal(sparse_body_get32(item + 8), 7 * rising[i] + 1);
	}
	/* What has not left by the next generation does not. */
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 2, part);
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_instance(t.home, INSTANCE + 1, INDEX, &at_switch);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_BCAST, &at_switch), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
		TEST(generation__has_the_random_bits_that_were_drawn),
		TEST(setup__is_said_until_the_switch_is_ready),
		TEST(resume__is_said_to_each_until_it_answers),
		TEST(flip__is_said_when_a_step_is_over),
		TEST(drain__asks_for_two_epochs),
		TEST(remap__begins_a_generation_with_as_many_ranks),
		TEST(fence__behind_the_last_is_refused),
		TEST(restart__goes_on_with_the_switch_that_is_there),
		TEST(batches__are_answered_with_the_record_that_has_them),
		TEST(reports__are_gathered_after_a_restart_without_a_log),
		TEST(commit__is_for_those_who_are_bound),
		TEST(values__leave_before_the_epoch_is_called_committed),
#undef TEST
	};

	return cmocka_run_group_tests_name("dataplane-home-sparse-say", tests, NULL, NULL);
}
