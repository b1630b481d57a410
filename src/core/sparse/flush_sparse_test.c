/* SPDX-License-Identifier: Apache-2.0 */
/* What a server of sparse mode makes of the parts of flushes, and what it says of them: claims. */
#include "core/sparse/server_sparse_fixture.h"

/* R-SP-24 */
static void a_whole_flush_is_one_step_and_one_record(void **state)
{
	static const uint32_t order[] = { 3, 0, 0, 1, 3 };

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		give_part(1, 1, order[i], order[i] < 2 ? 7 : 5);
		assert_false(actions.apply || actions.record || actions.say || actions.is_dropped);
	}
	give_part(1, 1, 2, 6);
	assert_true(actions.apply && actions.record);
	assert_int_equal(actions.what.kind, SERVER_SPARSE_EPOCH);
	assert_int_equal(actions.what.epoch, 1);
	assert_int_equal(actions.what.number, server.recorded);
	assert_true(server_sparse_is_touched(&server, 0) && server_sparse_is_touched(&server, 2));
	assert_false(server_sparse_is_touched(&server, 1));
	assert_int_equal(sum[4], 6);
	assert_int_equal(sum[5], -6);
	assert_int_equal(sum[0], 5);
	assert_int_equal(cut[0] + cut[1], 14);
	assert_int_equal(server.expected, 2);
}

/* R-SP-23, R-SP-25 */
static void a_flush_counts_once_and_only_the_expected_one(void **state)
{
	(void)state;
	give_all(1, 2, 7, 5);
	assert_true(actions.is_dropped);
	give_all(1, 1, 7, 5);
	settle();
	give_all(1, 1, 8, 5);
	assert_false(actions.apply);
	assert_int_equal(cut[0], 7);
	give_all(2, 2, 8, 5);
	assert_true(actions.is_dropped);
	assert_int_equal(server.expected, 2);
}

static void half_a_flush_does_not_outlive_a_fence(void **state)
{
	(void)state;
	for (uint32_t part = 0; part < 3; part++)
		give_part(1, 1, part, 5);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	settle();
	give_part(1, 1, 3, 5);
	assert_true(actions.is_dropped);
	part_ranks[0] = 0;
	parts = 3; /* the new half has as many as it has */
	give_part(2, 1, 2, 5);
	assert_false(actions.apply || actions.is_dropped);
	for (uint32_t part = 0; part < 2; part++)
		give_part(2, 1, part, 9);
	assert_true(actions.apply);
	assert_int_equal(cut[1], 9);
	assert_false(server_sparse_is_touched(&server, 2)); /* was touched in the old half */
	assert_true(server_sparse_is_touched(&server, 0));
}

static void misshapen_parts_are_dropped(void **state)
{
	uint8_t at[60];
	struct sparse packet = { .kind = SPARSE_FLUSH,
				 .table = table.index,
				 .generation = generation_of(1),
				 .number = 1,
				 .part = 2,
				 .parts = 4,
				 .count = 1,
				 .width = 2 };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	struct sparse sound = packet;

	(void)state;
	sparse_body_put32(at + SPARSE_HEADER_BYTES, RANKS);
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	sparse_body_put32(at + SPARSE_HEADER_BYTES, 0);
	packet.parts = 6; /* more than all ranks have */
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet.parts = packet.part = 1; /* fewer than CUTs */
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet = sound;
	packet.count = 0;
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet = sound;
	packet.width = 1;
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet = sound;
	packet.table++;
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet = sound;
	packet.kind = SPARSE_CUT;
	server_sparse_step(&server, &event, &actions);
	assert_true(actions.is_dropped);
	packet = sound;
	server_sparse_step(&server, &event, &actions);
	assert_false(actions.is_dropped);
	assert_int_equal(server.parts_count, 1);
}

/* Of a whole that cannot be nothing is taken, and what is sound goes on. */
static void a_rank_that_comes_twice_is_refused(void **state)
{
	(void)state;
	part_ranks[1] = 2;
	for (uint32_t part = 0; part < 3; part++)
		give_part(1, 1, part, 5);
	give_part(1, 1, 3, 6);
	assert_true(actions.is_dropped);
	assert_int_equal(sum[4], 5);
	assert_int_equal(server.parts_count, 3);
	part_ranks[1] = 1;
	give_part(1, 1, 3, 6);
	assert_true(actions.apply);
	assert_int_equal(sum[2], 6);
}

/* Within one packet, too, which then leaves no trace of the ranks before. */
static void a_packet_with_a_rank_twice_leaves_no_trace(void **state)
{
	static struct sparse_table wide;
	uint8_t at[100] = { 0 };
	struct sparse packet = { .kind = SPARSE_FLUSH,
				 .table = table.index,
				 .count = 2,
				 .generation = generation_of(1),
				 .number = 1,
				 .part = 1,
				 .parts = 2,
				 .width = 2 };
	struct server_sparse_event event = { .type = SERVER_SPARSE_PACKET,
					     .packet = &packet,
					     .at = at };
	static const uint32_t seconds[] = { 1, RANKS, UINT32_MAX, 0 };

	(void)state;
	wide = table;
	wide.bytes = sizeof(at);
	server.table = &wide;
	for (uint32_t i = 0; i < 4; i++) {
		sparse_body_put32(at + SPARSE_HEADER_BYTES, 1);
		sparse_body_put32(at + SPARSE_HEADER_BYTES + 20, seconds[i]);
		server_sparse_step(&server, &event, &actions);
		assert_int_equal(actions.is_dropped, i < 3);
		assert_int_equal(server.parts, i < 3 ? 0 : 2);
		assert_int_equal(tag[1], i < 3 ? 0 : 1);
	}
}

static void all_parts_of_a_flush_say_how_many_they_are(void **state)
{
	(void)state;
	give_part(1, 1, 0, 7);
	give_part(1, 1, 2, 5);
	for (parts = 3; parts <= 5; parts += 2) {
		give_part(1, 1, 1, 7);
		assert_true(actions.is_dropped);
	}
	parts = 4;
	give_part(1, 1, 1, 7);
	give_part(1, 1, 3, 5);
	assert_true(actions.apply);
	parts = 2; /* the next one has touched nothing */
	give_all(1, 2, 8, 0);
	assert_true(actions.apply);
	for (uint32_t rank = 0; rank < RANKS; rank++)
		assert_false(server_sparse_is_touched(&server, rank));
	assert_int_equal(cut[1], 8);
}

static uint64_t have_of(uint64_t generation, uint64_t epoch)
{
	uint8_t at[60];
	struct sparse packet = { 0 };

	assert_int_equal(server.parts, 4);
	assert_int_equal(sparse_check(at, server_sparse_have(&server, 3, at), &packet), WIRE_OK);
	assert_int_equal(packet.kind, SPARSE_HAVE);
	assert_int_equal(packet.worker, SPARSE_SERVER);
	assert_int_equal(packet.generation, generation_of(generation));
	assert_int_equal(packet.number, epoch);
	assert_int_equal(packet.part, 0);
	assert_int_equal(packet.parts, 4);
	assert_int_equal(packet.width, 1);
	return sparse_body_get64(sparse_item(&packet, at, 0));
}

static void have_tells_what_has_come_of_the_expected_epoch(void **state)
{
	(void)state;
	assert_int_equal(server.parts, 0); /* there is nothing to tell */
	give_part(1, 1, 3, 5);
	give_part(1, 1, 1, 7);
	give_part(1, 1, 3, 5);
	assert_int_equal(have_of(1, 1), 0xa);
	give_part(1, 2, 2, 5); /* of another epoch */
	assert_int_equal(have_of(1, 1), 0xa);
	give_all(1, 1, 7, 5);
	assert_int_equal(server.parts, 0);
	give_part(1, 2, 0, 7);
	assert_int_equal(have_of(1, 2), 1);
	step(SERVER_SPARSE_FENCE_IT, 0, 0, 0);
	assert_int_equal(server.parts, 0);
	give_part(2, 2, 1, 7);
	assert_int_equal(have_of(2, 2), 2);
}

enum { LARGE_RANKS = 21000, LARGE_PARTS = 2101 };

/* Of a large table it tells of the `most` parts around one, of the last ones just as many as there are. */
static void pieces_are_equal(uint16_t bytes, uint32_t ranks, uint32_t most)
{
	static uint8_t has[LARGE_PARTS], at[SPARSE_BYTES_MAX];
	static uint64_t large_tag[LARGE_RANKS];
	static int64_t large_sum[LARGE_RANKS];
	const struct sparse_table large = {
		.ranks = ranks, .workers = 1, .window = 1, .dim = 1, .bytes = bytes
	};
	const struct server_sparse_memory lent = {
		cut, staged, large_sum, large_tag, has, workers
	};

	assert_int_equal(sparse_flush_parts_max(&large), LARGE_PARTS);
	server_sparse_init(&server, &large, MAP, &lent);
	server.parts = LARGE_PARTS;
	for (uint32_t part = 0; part < LARGE_PARTS; part++)
		has[part] = part % 3 == 0;
	for (uint32_t part = 0; part < LARGE_PARTS; part += 1 + part % 7) {
		uint32_t first = part - part % most, left = LARGE_PARTS - first;
		struct sparse packet = { 0 };
		uint32_t length;

		memset(at, 0xa5, sizeof(at));
		length = server_sparse_have(&server, part, at);
		assert_true(length <= bytes);
		assert_int_equal(at[length], 0xa5); /* nothing is written behind it */
		assert_int_equal(sparse_check(at, length, &packet), WIRE_OK);
		assert_int_equal(packet.part, first);
		assert_int_equal(packet.width, ((left < most ? left : most) + 63) / 64);
		for (uint32_t i = 0; i < packet.width * 64u; i++) {
			uint64_t number =
				sparse_body_get64(sparse_item(&packet, at, 0) + i / 64 * 8);

			assert_int_equal(number >> (i % 64) & 1,
					 i < most && i < left && (first + i) % 3 == 0);
		}
	}
}

static void have_is_cut_into_pieces_that_fit_into_a_datagram(void **state)
{
	(void)state;
	pieces_are_equal(60, 2100, 128);
	pieces_are_equal(168, 21000, 1024);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_whole_flush_is_one_step_and_one_record, begin),
		cmocka_unit_test_setup(a_flush_counts_once_and_only_the_expected_one, begin),
		cmocka_unit_test_setup(half_a_flush_does_not_outlive_a_fence, begin),
		cmocka_unit_test_setup(misshapen_parts_are_dropped, begin),
		cmocka_unit_test_setup(a_rank_that_comes_twice_is_refused, begin),
		cmocka_unit_test_setup(a_packet_with_a_rank_twice_leaves_no_trace, begin),
		cmocka_unit_test_setup(all_parts_of_a_flush_say_how_many_they_are, begin),
		cmocka_unit_test_setup(have_tells_what_has_come_of_the_expected_epoch, begin),
		cmocka_unit_test_setup(have_is_cut_into_pieces_that_fit_into_a_datagram, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
