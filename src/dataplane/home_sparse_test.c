/* SPDX-License-Identifier: Apache-2.0 */
/* home_sparse_test.c - whom a parameter server listens to, and what it says of a flush: claims. */
#include "dataplane/home_sparse_fixture.h"

static void home__of_what_is_no_table_is_none(void **state)
{
	struct home_sparse_options options = plain;
	struct home_sparse *home = NULL;

	(void)state;
	options.table.workers = 0;
	assert_int_equal(home_sparse_open(&home, &options), -EINVAL);
	assert_null(home);
	home_sparse_close(NULL);
}

/* Of sums, tags, parts, pieces, cuts, workers and copies each may be missing. */
static void home__without_memory_is_none(void **state)
{
	struct home_sparse_options options = plain;
	struct home_sparse *home = NULL;
	uint32_t asked;

	(void)state;
	options.values = values;
	for (asked = 1; asked < 100; asked++) {
		memory.asked = 0;
		memory.missing = asked;
		if (!home_sparse_open(&home, &options))
			break;
		assert_null(home);
	}
	memory.missing = 0;
	assert_int_equal(asked, 12);
	home_sparse_close(home);
}

static void packets__are_taken_from_those_who_send_them(void **state)
{
	uint8_t at[BYTES] = { 0 };

	(void)state;
	assert_true(home_sparse_fence(t.home, MAP));
	settle();
	give_part(&at_switch, 1, 0); /* there is none yet */
	counts_are(0, 0, 1, 0);
	home_sparse_instance(t.home, INSTANCE, INDEX, &at_switch);
	home_sparse_worker(t.home, 1, &at_worker[1]);
	give_bare(&at_other, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	give_part(&at_other, 1, 0);
	give_part(&at_worker[1], 1, 0);
	give_bare(&at_worker[0], SPARSE_RESUMED, 0, 0); /* it is not bound */
	give_bare(&at_worker[0], SPARSE_RESUMED, 1, 0);
	give_bare(&at_worker[1], SPARSE_RESUMED, WORKERS, 0);
	give_bare(&at_switch, SPARSE_RESUMED, 1, 0);
	counts_are(0, 0, 8, 0);
	assert_false(server()->is_ready);
	assert_true(server()->memory.worker[1].resumed == 0);
	give_bare(&at_switch, SPARSE_READY, SPARSE_SERVER, INSTANCE);
	give_bare(&at_worker[1], SPARSE_RESUMED, 1, 0);
	counts_are(0, 0, 8, 0);
	assert_true(server()->is_ready);
	assert_true(server()->memory.worker[1].resumed == server()->generation);
	home_sparse_serve(t.home, &at_switch, at, SPARSE_HEADER_BYTES); /* no packet */
	home_sparse_serve(t.home, &at_other, at, 3);
	counts_are(0, 2, 8, 0);
}

static void packets__of_others_than_this_generation_are_counted(void **state)
{
	struct sparse packet;
	uint8_t at[BYTES] = { 0 };

	(void)state;
	go();
	packet = header(SPARSE_CUT, 1);
	packet.parts = PARTS;
	packet.count = packet.width = 1;
	packet.generation--;
	give(&at_switch, &packet, at);
	counts_are(1, 1, 0, 1);
	packet.generation++;
	packet.number = 2; /* an epoch that is not due */
	give(&at_switch, &packet, at);
	counts_are(2, 2, 0, 1);
	assert_true(turn() == UINT64_MAX);
	assert_int_equal(t.count, 0);
}

/* R-SP-34, R-SP-24, R-SP-25 */
static void flush__is_acknowledged_applied_and_committed(void **state)
{
	(void)state;
	go();
	for (uint32_t part = 0; part < PARTS - 1; part++) {
		give_part(&at_switch, 1, part);
		if (part % 2)
			continue;
		assert_true(turn() == UINT64_MAX);
		assert_int_equal(sent(SPARSE_HAVE, &at_switch), 1);
		assert_int_equal(t.count, 1);
		assert_int_equal(t.sent[0].packet.number, 1);
		assert_int_equal(sparse_body_get64(t.sent[0].at + SPARSE_HEADER_BYTES),
				 (1u << (part + 1)) - 1);
		turn();
		assert_int_equal(t.count, 0); /* once for all of them */
	}
	counts_are(PARTS - 1, 0, 0, 0);
	assert_int_equal(stats()->haves, 2);
	give_part(&at_switch, 1, 0); /* again: it has not heard */
	turn();
	assert_int_equal(sent(SPARSE_HAVE, &at_switch), 1);
	assert_int_equal(t.records, 1);
	give_part(&at_switch, 1, PARTS - 2);
	give_part(&at_switch, 1, PARTS - 1);
	assert_int_equal(t.records, 2);
	assert_int_equal(t.last.kind, SERVER_SPARSE_EPOCH);
	assert_int_equal(t.last.epoch, 1);
	assert_int_equal(stats()->epochs, 1);
	assert_true(turn() ==
		    UINT64_MAX); /* not before the disk has it; nor HAVE, which COMMITTED says */
	assert_int_equal(t.count, 0);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_COMMITTED, &at_switch), 1);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_int_equal(sent(SPARSE_COMMITTED, &at_worker[i]), 1);
	assert_int_equal(t.count, 3);
	assert_int_equal(t.sent[0].packet.worker, SPARSE_SERVER);
	assert_int_equal(t.sent[2].packet.worker, 1);
	assert_int_equal(t.sent[2].packet.number, 1);
	assert_int_equal(sparse_body_get64(t.sent[2].at + SPARSE_HEADER_BYTES), 11);
	assert_int_equal(stats()->commits, 1);
	turn();
	assert_int_equal(t.count, 0);
	give_part(&at_switch, 1, 2); /* it has not heard of that either */
	turn();
	assert_int_equal(sent(SPARSE_COMMITTED, &at_switch), 1);
	assert_int_equal(stats()->commits, 2);
	assert_int_equal(stats()->haves, 3);
	counts_are(PARTS + 3, 0, 0, 0);
	for (uint32_t part = 0; part < PARTS; part++)
		give_part(&at_switch, 2, part);
	assert_int_equal(stats()->epochs, 2);
}

/* A flush of more parts than a HAVE tells of. */
static void have__is_of_the_piece_that_a_part_has_come_of(void **state)
{
	uint8_t at[BYTES] = { 0 };
	struct sparse packet;

	(void)state;
	go();
	packet = header(SPARSE_FLUSH, 1);
	packet.parts = RANKS + WORKERS;
	packet.count = 1;
	packet.width = 2;
	for (uint32_t i = 0; i < 2; i++) {
		packet.part = i ? WORKERS : PIECE + 6;
		sparse_body_put32(at + SPARSE_HEADER_BYTES, i);
		give(&at_switch, &packet, at);
		turn();
		assert_int_equal(sent(SPARSE_HAVE, &at_switch), 1);
		assert_int_equal(t.count, 1);
		assert_int_equal(t.sent[0].packet.part, i ? 0 : PIECE);
		assert_int_equal(sparse_body_get64(t.sent[0].at + SPARSE_HEADER_BYTES),
				 i ? 1 << WORKERS : 1 << 6);
	}
	/* Of a generation that is over nothing is acknowledged. */
	give(&at_switch, &packet, at);
	assert_true(home_sparse_fence(t.home, MAP));
	home_sparse_instance(t.home, INSTANCE + 1, INDEX, &at_switch);
	settle();
	turn();
	assert_int_equal(sent(SPARSE_HAVE, &at_switch), 0);
	assert_int_equal(stats()->haves, 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)
		TEST(home__of_what_is_no_table_is_none),
		TEST(home__without_memory_is_none),
		TEST(packets__are_taken_from_those_who_send_them),
		TEST(packets__of_others_than_this_generation_are_counted),
		TEST(flush__is_acknowledged_applied_and_committed),
		TEST(have__is_of_the_piece_that_a_part_has_come_of),
#undef TEST
	};

	return cmocka_run_group_tests_name("dataplane-home-sparse", tests, NULL, NULL);
}
