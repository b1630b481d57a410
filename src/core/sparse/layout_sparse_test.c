/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/sparse/layout_sparse.h"
#include "tests/random.h"

enum {
	PAIRS_MAX = 300,
	REGISTERS_MAX = 70,
	ROUNDS = 3000,
	/* by brute force */
	SMALL_PAIRS = 8,
	SMALL_REGISTERS = 4,
	SMALL_ROOM = 5,
};

static uint32_t order[PAIRS_MAX], first[PAIRS_MAX + 1], chip[REGISTERS_MAX];
static struct layout_sparse_packing packing = { .order = order, .first = first };

/* Memory of just the size that is asked for: a word beyond it is seen by asan. */
static uint32_t *scratch_get(uint32_t count, uint32_t registers, uint32_t room)
{
	uint32_t *scratch =
		malloc(layout_sparse_scratch(count, registers, room) * sizeof(*scratch));

	assert_non_null(scratch);
	memset(scratch, 0xa5, layout_sparse_scratch(count, registers, room) * sizeof(*scratch));
	return scratch;
}

static void orchestrate(const uint32_t *reg, uint32_t count, uint32_t registers, uint32_t room)
{
	uint32_t *scratch = scratch_get(count, registers, room);

	layout_sparse_orchestrate(&packing, reg, count, registers, room, scratch);
	free(scratch);
}

static void deal(const uint32_t *reg, uint32_t count, uint32_t registers, uint32_t room)
{
	uint32_t *scratch = scratch_get(count, registers, room);

	layout_sparse_deal(&packing, reg, count, registers, room, scratch);
	free(scratch);
}

/* Further pairs of all packets from `packet` on. */
static uint32_t further_from(uint32_t packet, const uint32_t *reg, uint32_t registers)
{
	uint32_t further = 0;

	for (; packet < packing.packets; packet++)
		further += layout_sparse_cost(&packing, packet, reg, registers, chip).further;
	return further;
}

static void every_pair_is_in_one_packet(uint32_t count, uint32_t room)
{
	bool is_in[PAIRS_MAX] = { false };

	assert_true(packing.packets <= count);
	assert_int_equal(first[0], 0);
	assert_int_equal(first[packing.packets], count);
	for (uint32_t p = 0; p < packing.packets; p++) {
		assert_true(first[p] < first[p + 1]);
		assert_true(first[p + 1] - first[p] <= room);
	}
	for (uint32_t i = 0; i < count; i++) {
		assert_true(order[i] < count);
		assert_false(is_in[order[i]]);
		is_in[order[i]] = true;
	}
}

static void layout__the_hottest_ranks_are_in_different_registers(void **state)
{
	(void)state;
	for (uint32_t rank = 0; rank < 8; rank++)
		assert_int_equal(layout_sparse_register(rank, 8), rank);
	assert_int_equal(layout_sparse_register(8, 8), 0);
}

static void layout__room_is_what_a_datagram_takes(void **state)
{
	(void)state;
	assert_int_equal(layout_sparse_room(192, 1), 19);
	assert_int_equal(layout_sparse_room(192, 8), 4);
	assert_int_equal(layout_sparse_room(1472, 1), 179);
	assert_int_equal(layout_sparse_room(47, 1), 0);
	assert_int_equal(layout_sparse_room(39, 1), 0);
}

static void layout__fill_takes_pairs_as_they_come(void **state)
{
	static const uint32_t reg[] = { 3, 3, 1, 3, 1, 0, 2 };

	(void)state;
	layout_sparse_fill(&packing, 7, 3);
	every_pair_is_in_one_packet(7, 3);
	assert_int_equal(packing.packets, 3);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(order[i], i);
	assert_int_equal(layout_sparse_cost(&packing, 0, reg, 4, chip).further, 1);
	assert_int_equal(layout_sparse_cost(&packing, 1, reg, 4, chip).further, 0);
	layout_sparse_fill(&packing, 0, 3);
	assert_int_equal(packing.packets, 0);
}

/* Pairs 0 to 2 are of one register and go into a packet each, 3 and 4 fill the first two; 5 fits nowhere. */
static void layout__algorithm_1_takes_the_first_packet_that_may(void **state)
{
	static const uint32_t reg[] = { 0, 0, 0, 1, 1, 0 }, want[] = { 0, 3, 1, 4, 2, 5 };

	(void)state;
	orchestrate(reg, 6, 2, 2);
	every_pair_is_in_one_packet(6, 2);
	assert_int_equal(packing.packets, 4);
	assert_memory_equal(order, want, sizeof(want));
	assert_int_equal(further_from(0, reg, 2), 0);
}

static void layout__algorithm_1_leaves_conflicts_for_the_last_packets(void **state)
{
	static const uint32_t reg[] = { 0, 0, 0, 0, 0, 1 };
	struct layout_sparse_cost cost;

	(void)state;
	orchestrate(reg, 6, 2, 3);
	assert_int_equal(packing.packets, 3);
	cost = layout_sparse_cost(&packing, 2, reg, 2, chip);
	assert_int_equal(cost.further, 2);
	assert_int_equal(cost.passes, 3);
	deal(reg, 6, 2, 3);
	assert_int_equal(packing.packets, 5); /* what it costs to have none */
}

/* The paper's lines, one by one: P2 is the packets of P1, those that are not full, without a pair of the register. */
static uint32_t slow_packet(const uint32_t *reg, const uint32_t *packet_of, uint32_t i,
			    uint32_t estimate, uint32_t room)
{
	for (uint32_t p = 0; p < estimate; p++) {
		uint32_t pairs = 0, of_register = 0;

		for (uint32_t k = 0; k < i; k++) {
			pairs += packet_of[k] == p;
			of_register += packet_of[k] == p && reg[k] == reg[i];
		}
		if (pairs < room && !of_register)
			return p;
	}
	return UINT32_MAX;
}

static void layout__algorithm_1_is_the_paper_s(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS / 10; round++) {
		uint32_t count = random_below(120), room = 1 + random_below(24);
		uint32_t registers = 1 + random_below(REGISTERS_MAX), reg[PAIRS_MAX];
		uint32_t packet_of[PAIRS_MAX], estimate = (count + room - 1) / room, left = 0;

		for (uint32_t i = 0; i < count; i++) {
			reg[i] = random_below(registers);
			packet_of[i] = slow_packet(reg, packet_of, i, estimate, room);
			if (packet_of[i] == UINT32_MAX)
				packet_of[i] = estimate + left++ / room;
		}
		orchestrate(reg, count, registers, room);
		every_pair_is_in_one_packet(count, room);
		assert_int_equal(packing.packets, estimate + (left + room - 1) / room);
		for (uint32_t p = 0; p < packing.packets; p++)
			for (uint32_t i = first[p]; i < first[p + 1]; i++)
				assert_int_equal(packet_of[order[i]], p);
	}
}

static void layout__packings_hold_all_pairs_and_deals_no_conflict(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t count = random_below(PAIRS_MAX + 1), room = 1 + random_below(24);
		uint32_t registers = 1 + random_below(REGISTERS_MAX), reg[PAIRS_MAX];
		uint32_t some = 1 + random_below(registers), estimate = (count + room - 1) / room;

		for (uint32_t i = 0; i < count; i++)
			reg[i] = random_below(2) ? random_below(registers) : random_below(some);
		orchestrate(reg, count, registers, room);
		every_pair_is_in_one_packet(count, room);
		assert_true(packing.packets >= estimate);
		assert_int_equal(further_from(0, reg, registers),
				 further_from(estimate, reg, registers));
		deal(reg, count, registers, room);
		every_pair_is_in_one_packet(count, room);
		assert_int_equal(further_from(0, reg, registers), 0);
		/* Even: none has two pairs more than another. */
		for (uint32_t p = 0; p < packing.packets; p++)
			assert_true(first[p + 1] - first[p] + 1 >= first[1]);
	}
}

/* A chip: in a pass each register takes the first pair that is for it, and the packet comes by again with what
 * is left. */
static uint32_t chip_passes(const uint32_t *reg, uint32_t packet)
{
	uint32_t left[PAIRS_MAX], count = first[packet + 1] - first[packet], passes = 0;

	memcpy(left, order + first[packet], count * sizeof(*left));
	do {
		bool is_touched[REGISTERS_MAX] = { false };
		uint32_t kept = 0;

		for (uint32_t i = 0; i < count; i++) {
			if (is_touched[reg[left[i]]])
				left[kept++] = left[i];
			is_touched[reg[left[i]]] = true;
		}
		count = kept;
		passes++;
	} while (count);
	return passes;
}

static void layout__passes_are_those_of_a_chip(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t count = 1 + random_below(40), registers = 1 + random_below(20);
		uint32_t reg[PAIRS_MAX];

		for (uint32_t i = 0; i < count; i++)
			reg[i] = random_below(registers);
		layout_sparse_fill(&packing, count, 1 + random_below(20));
		for (uint32_t p = 0; p < packing.packets; p++)
			assert_int_equal(
				layout_sparse_cost(&packing, p, reg, registers, chip).passes,
				chip_passes(reg, p));
	}
}

/* ---- brute force ---- */

struct brute {
	const uint32_t *reg;
	uint32_t count, room, best;
	uint32_t pairs[SMALL_PAIRS], touched[SMALL_PAIRS]; /* of each packet */
};

/* Pair i into each packet that has room and not its register, or into a new one: all ways that there are. */
static void brute_try(struct brute *brute, uint32_t i, uint32_t packets)
{
	if (packets >= brute->best)
		return;
	if (i == brute->count) {
		brute->best = packets;
		return;
	}
	for (uint32_t p = 0; p <= packets; p++) {
		uint32_t bit = 1u << brute->reg[i];

		if (p < packets && (brute->pairs[p] == brute->room || brute->touched[p] & bit))
			continue;
		brute->pairs[p]++;
		brute->touched[p] |= bit;
		brute_try(brute, i + 1, p == packets ? packets + 1 : packets);
		brute->pairs[p]--;
		brute->touched[p] &= ~bit;
	}
}

/* The next of all sequences of registers; false after the last. */
static bool registers_next(uint32_t *reg, uint32_t count, uint32_t registers)
{
	for (uint32_t i = 0; i < count; i++) {
		if (++reg[i] < registers)
			return true;
		reg[i] = 0;
	}
	return false;
}

static bool is_sorted(const uint32_t *reg, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (reg[i - 1] > reg[i])
			return false;
	return true;
}

/* How many packets it takes does not depend on the order of pairs, so for the slow one they are sorted. */
static void layout__dealing_takes_the_fewest_packets_without_conflict(void **state)
{
	uint32_t cases = 0;

	(void)state;
	for (uint32_t count = 1; count <= SMALL_PAIRS; count++) {
		uint32_t reg[SMALL_PAIRS] = { 0 };

		do {
			if (!is_sorted(reg, count))
				continue;
			for (uint32_t room = 1; room <= SMALL_ROOM; room++) {
				struct brute brute = { reg, count, room, count + 1, { 0 }, { 0 } };

				brute_try(&brute, 0, 0);
				deal(reg, count, SMALL_REGISTERS, room);
				every_pair_is_in_one_packet(count, room);
				assert_int_equal(further_from(0, reg, SMALL_REGISTERS), 0);
				assert_int_equal(packing.packets, brute.best);
				cases++;
			}
		} while (registers_next(reg, count, SMALL_REGISTERS));
	}
	printf("%u cases\n", cases);
	assert_int_equal(cases, 494 * SMALL_ROOM);
}

static void layout__order_of_pairs_does_not_change_how_many_packets(void **state)
{
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t count = 2 + random_below(30), room = 1 + random_below(9), reg[PAIRS_MAX];
		uint32_t packets;

		for (uint32_t i = 0; i < count; i++)
			reg[i] = random_below(9);
		deal(reg, count, 9, room);
		packets = packing.packets;
		for (uint32_t i = count - 1; i > 0; i--) {
			uint32_t k = random_below(i + 1), swap = reg[i];

			reg[i] = reg[k];
			reg[k] = swap;
		}
		deal(reg, count, 9, room);
		assert_int_equal(packing.packets, packets);
	}
}

int main(int argc, char **argv)
{
#define RANDOM(test) cmocka_unit_test_setup(test, restart_random)
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout__the_hottest_ranks_are_in_different_registers),
		cmocka_unit_test(layout__room_is_what_a_datagram_takes),
		cmocka_unit_test(layout__fill_takes_pairs_as_they_come),
		cmocka_unit_test(layout__algorithm_1_takes_the_first_packet_that_may),
		cmocka_unit_test(layout__algorithm_1_leaves_conflicts_for_the_last_packets),
		RANDOM(layout__algorithm_1_is_the_paper_s),
		RANDOM(layout__packings_hold_all_pairs_and_deals_no_conflict),
		RANDOM(layout__passes_are_those_of_a_chip),
		cmocka_unit_test(layout__dealing_takes_the_fewest_packets_without_conflict),
		RANDOM(layout__order_of_pairs_does_not_change_how_many_packets),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
