/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/shared/map.h"
#include "core/shared/wire.h"
#include "dataplane/engine_soft.h"
#include "dataplane/link.h"
#include "server/plan.h"

enum { PLENTY = 32 << 20, STOCK = 425984 }; /* SO_RCVBUF as root, and out of the box */

static struct plan plan_of(uint32_t members, uint32_t mtu, uint64_t receive_bytes)
{
	struct plan_input input = { .members = members,
				    .mtu = mtu,
				    .receive_bytes = receive_bytes };
	struct plan plan;

	assert_true(plan_job(&input, &plan));
	return plan;
}

static void plan__mtu_1500_gives_360_lanes_over_v4_and_356_over_v6(void **state)
{
	struct plan_input v6 = {
		.members = 2, .mtu = 1500, .is_v6 = true, .receive_bytes = PLENTY
	};
	struct plan plan;

	(void)state;
	assert_int_equal(plan_of(2, 1500, PLENTY).lanes, 360);
	assert_true(plan_job(&v6, &plan));
	assert_int_equal(plan.lanes, 356);
}

/* R-PACE-6: express has 88 slots of 704, bulk four windows. */
static void plan__defaults_are_704_slots_window_154_run_44(void **state)
{
	struct plan plan = plan_of(8, 1500, PLENTY);

	(void)state;
	assert_int_equal(plan.slots, 704);
	assert_int_equal(plan.window, 154);
	assert_int_equal(plan.run, 44);
	assert_false(plan.is_cramped);
}

/* R-PACE-9 */
static void plan__stock_socket_shares_184_packets(void **state)
{
	struct plan plan = plan_of(8, 1500, STOCK);

	(void)state;
	assert_int_equal(plan.lanes, 360);
	assert_int_equal(plan.window, 23);
	assert_int_equal(plan.run, 11); /* two messages in a window */
	assert_true(plan.is_cramped);
	assert_int_equal(plan_of(184, 1500, STOCK).window, 1);
	assert_int_equal(plan_of(256, 1500, STOCK).window, 1); /* never 0 */
}

/* R-MAP-7: packets share an exponent. */
static void plan__no_mtu_makes_packets_larger_than_360_lanes(void **state)
{
	static const uint32_t mtus[] = { 1500, 1504, 4000, 9000, 65535, 65536 };
	struct plan_input latency = { .members = 2, .mtu = 9000, .receive_bytes = PLENTY };
	struct plan plan;

	(void)state;
	for (size_t i = 0; i < sizeof(mtus) / sizeof(*mtus); i++) {
		plan = plan_of(4, mtus[i], PLENTY);
		assert_int_equal(plan.lanes, 360);
		assert_int_equal(plan.slots, 704);
		assert_int_equal(plan.window, 154);
		assert_int_equal(plan.run, 44); /* a full message of them */
	}
	assert_true(plan_latency(&latency, 16, 8, &plan)); /* int32 alone */
	assert_int_equal(plan.lanes, 2236);
}

static struct plan plan_of_large(uint32_t members, uint64_t receive_bytes)
{
	struct plan_input input = {
		.members = members, .mtu = 65536, .lanes_max = 16368, .receive_bytes = receive_bytes
	};
	struct plan plan;

	assert_true(plan_job(&input, &plan));
	return plan;
}

static void plan__who_asks_for_it_gets_the_largest_datagram(void **state)
{
	struct plan plan = plan_of_large(4, PLENTY);

	(void)state;
	assert_int_equal(plan.lanes, 16368);
	assert_int_equal(plan.run, 1);
	assert_int_equal(plan.slots, 128);
	assert_int_equal(plan.window, 16);
	assert_true((uint64_t)plan.slots * 2 * 4 * plan.lanes <= PLAN_MEMORY_MAX);
	assert_true(plan.window >= PLAN_DEPTH_MIN);
}

static void plan__stock_socket_on_loopback_gets_packets_it_can_hold(void **state)
{
	(void)state;
	for (uint32_t members = 1; members <= 256; members++) {
		struct plan plan = plan_of_large(members, STOCK);
		uint64_t cost = plan_packet_cost(wire_bytes(plan.lanes));

		assert_true(plan.lanes >= PLAN_LANES_STOCK);
		if (plan.lanes > PLAN_LANES_STOCK)
			assert_true(cost * members * PLAN_DEPTH_MIN <= STOCK);
	}
}

static void plan__lanes_flag_caps(void **state)
{
	struct plan_input input = {
		.members = 2, .mtu = 65536, .lanes_max = 64, .receive_bytes = PLENTY
	};
	struct plan plan;

	(void)state;
	assert_true(plan_job(&input, &plan));
	assert_int_equal(plan.lanes, 64);
	assert_int_equal(plan.run, 44);
}

static void plan__mtu_below_any_path_is_refused(void **state)
{
	struct plan_input input = { .members = 2, .mtu = 60, .receive_bytes = PLENTY };
	struct plan plan;

	(void)state;
	assert_false(plan_job(&input, &plan));
}

/* R-LAT-19 */
static void plan__latency_slots_leave_the_lanes_that_fit_the_memory(void **state)
{
	static const uint32_t slots[] = { 1, 2, 15, 16, 1024, 65536 };
	struct plan_input input = { .members = 4, .mtu = 65536, .receive_bytes = PLENTY };
	struct plan plan;

	(void)state;
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		assert_true(plan_latency(&input, slots[i], (slots[i] + 1) / 2, &plan));
		assert_int_equal(plan.slots, slots[i]);
		assert_true(plan.lanes >= WIRE_LANES_STEP);
		assert_int_equal(plan.lanes % WIRE_LANES_STEP, 0);
		assert_in_range(plan.window, 1, (slots[i] + 1) / 2);
		assert_in_range(plan.run, 1, MAP_RUN_MAX);
		assert_true(engine_slot_bytes(SWITCH_LATENCY, plan.lanes) * slots[i] <=
			    PLAN_MEMORY_MAX);
	}
	assert_int_equal(plan.lanes, 224); /* 1 KiB for each of 65,536 */
	input.receive_bytes = STOCK;
	input.mtu = 1500;
	assert_true(plan_latency(&input, 65536, 32768, &plan));
	assert_int_equal(plan.window, 46); /* 184 packets for 4 members */
	input.memory_max = 1 << 20;
	assert_false(plan_latency(&input, 65536, 32768, &plan));
	assert_true(plan_latency(&input, 1024, 512, &plan));
}

/* Whatever members and options say, the map takes the slots, a message fits one sendmsg, and memory
 * and receive buffer are not overrun. */
static void plan__every_plan_is_one_that_workers_can_use(void **state)
{
	static const uint32_t mtus[] = { 1240, 1280, 1500, 4000, 9000, 65535, 65536 };
	static const uint32_t wishes[] = { 0, 8, 44, 128, 640, 4096, 32768 };
	static const uint64_t buffers[] = { 2304, STOCK, PLENTY, 1ull << 30 };
	struct map map;
	struct plan plan;

	(void)state;
	for (uint32_t i = 0; i < 7 * 7 * 4 * 256; i++) {
		struct plan_input input = {
			.mtu = mtus[i % 7],
			.slots = wishes[i / 7 % 7],
			.receive_bytes = buffers[i / 49 % 4],
			.members = i / 196 + 1,
			.run = i % 65,
			.is_v6 = i % 2,
			.window = i % 3 ? 0 : i % 700,
		};

		assert_true(plan_job(&input, &plan));
		assert_true(map_init(&map, 1, plan.slots, plan.run));
		assert_int_equal(plan.lanes % WIRE_LANES_STEP, 0);
		assert_true(plan.window >= 1);
		assert_true(plan.window <= plan.slots);
		assert_true(plan.run * wire_bytes(plan.lanes) <= LINK_FRAME_BYTES_MAX);
		assert_true((uint64_t)plan.slots * 2 * 4 * plan.lanes <= PLAN_MEMORY_MAX);
		if (plan.window > 1)
			assert_true((uint64_t)plan.window * input.members *
					    plan_packet_cost(wire_bytes(plan.lanes)) <=
				    input.receive_bytes);
	}
}

static void plan__stock_receive_buffer_holds_184_packets(void **state)
{
	(void)state;
	assert_int_equal(plan_window_fit(154, 425984, 1, wire_bytes(360)), 154);
	assert_int_equal(plan_window_fit(200, 425984, 1, wire_bytes(360)), 184);
	assert_int_equal(plan_window_fit(154, 425984, 8, wire_bytes(360)), 23);
	assert_int_equal(plan_window_fit(116, 425984, 1, wire_bytes(2236)), 34); /* MTU 9000 */
	assert_int_equal(plan_window_fit(16, 425984, 100, wire_bytes(16368)), 1);
}

/* At their edges: what packets cost, what a buffer, the memory and the map hold, and what was wished for. */
static const struct {
	struct plan_input input;
	struct plan plan;
} exact[] = {
	{ { .members = 1, .mtu = 65536, .receive_bytes = 11600, .lanes_max = 16368 },
	  { 360, 704, 5, 2, true } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = 11604, .lanes_max = 16368 },
	  { 368, 704, 5, 2, true } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = 12052, .lanes_max = 16368 },
	  { 388, 704, 4, 2, true } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = 12056, .lanes_max = 16368 },
	  { 392, 704, 4, 2, true } },
	{ { .members = 2, .mtu = 65536, .receive_bytes = 24112, .lanes_max = 16368 },
	  { 392, 704, 4, 2, true } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = PLENTY, .lanes_max = 1860 },
	  { 1860, 700, 140, 8, false } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = PLENTY, .lanes_max = 2003 },
	  { 2000, 650, 130, 8, false } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = PLENTY, .lanes_max = 8000, .window = 30 },
	  { 8000, 160, 30, 2, false } },
	{ { .members = 1, .mtu = 65536, .receive_bytes = PLENTY, .lanes_max = 8000, .window = 40 },
	  { 8000, 200, 40, 2, false } },
	{ { .members = 1,
	    .mtu = 1500,
	    .receive_bytes = PLENTY,
	    .slots = 40000,
	    .memory_max = 1ull << 40 },
	  { 360, 32768, 716, 44, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .memory_max = 14400 },
	  { 360, 5, 1, 1, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .memory_max = 2016000 },
	  { 360, 700, 153, 44, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 16 },
	  { 360, 16, 3, 1, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 40 },
	  { 360, 40, 8, 4, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 40, .window = 100 },
	  { 360, 40, 35, 17, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 40, .window = 35 },
	  { 360, 40, 35, 17, false } },
	{ { .members = 1,
	    .mtu = 1500,
	    .receive_bytes = PLENTY,
	    .lanes_max = 300,
	    .slots = 1000,
	    .window = 500,
	    .run = 65 },
	  { 300, 1000, 500, 53, false } },
	{ { .members = 1,
	    .mtu = 1500,
	    .receive_bytes = PLENTY,
	    .lanes_max = 64,
	    .slots = 1000,
	    .window = 500,
	    .run = 65 },
	  { 64, 1000, 500, 64, false } },
	{ { .members = 1,
	    .mtu = 1500,
	    .receive_bytes = PLENTY,
	    .lanes_max = 64,
	    .slots = 1000,
	    .window = 500,
	    .run = 7 },
	  { 64, 1000, 500, 7, false } },
	{ { .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 1000, .window = 3 },
	  { 360, 1000, 3, 1, false } },
	{ { .members = 1,
	    .mtu = 1500,
	    .receive_bytes = PLENTY,
	    .slots = 1000,
	    .window = 4,
	    .run = 64 },
	  { 360, 1000, 4, 2, false } },
	{ { .members = 1, .mtu = 1516, .receive_bytes = PLENTY, .is_v6 = true },
	  { 360, 704, 154, 44, false } },
	{ { .members = 1, .mtu = 1515, .receive_bytes = PLENTY, .is_v6 = true },
	  { 360, 704, 154, 44, false } },
	{ { .members = 1, .mtu = 1240, .receive_bytes = PLENTY }, { 296, 704, 154, 44, false } },
	{ { .members = 8, .mtu = 1500, .receive_bytes = 2838528 }, { 360, 704, 154, 44, false } },
	{ { .members = 8, .mtu = 1500, .receive_bytes = 2838527 }, { 360, 704, 153, 44, true } },
	{ { .members = 8, .mtu = 1500, .receive_bytes = 100 }, { 360, 704, 1, 1, true } },
};

static void plan__is_this_to_the_last_lane_and_slot(void **state)
{
	static const struct plan_input wrong[] = {
		{ .members = 1, .mtu = 1239, .receive_bytes = PLENTY },
		{ .members = 0, .mtu = 1500, .receive_bytes = PLENTY },
		{ .members = 1, .mtu = 1500, .receive_bytes = PLENTY, .slots = 4 },
		{ .members = 1,
		  .mtu = 1500,
		  .receive_bytes = PLENTY,
		  .memory_max = 8 * 360 * 5 - 1 },
	};
	struct plan plan;

	(void)state;
	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		assert_true(plan_job(&exact[i].input, &plan));
		assert_int_equal(plan.lanes, exact[i].plan.lanes);
		assert_int_equal(plan.slots, exact[i].plan.slots);
		assert_int_equal(plan.window, exact[i].plan.window);
		assert_int_equal(plan.run, exact[i].plan.run);
		assert_int_equal(plan.is_cramped, exact[i].plan.is_cramped);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(plan_job(&wrong[i], &plan));
	assert_int_equal(plan_packet_cost(1500), 2304);
	assert_int_equal(plan_packet_cost(1501), 1501 + 375 + 1024);
	assert_int_equal(plan_window_fit(184, 425984, 1, 1464), 184);
	assert_int_equal(plan_window_fit(185, 425984, 1, 1464), 184);
}

static void plan__of_latency_shrinks_the_window_to_the_buffer(void **state)
{
	struct plan_input input = { .members = 4, .mtu = 1500, .receive_bytes = 4 * 50 * 2304 };
	struct plan plan;

	(void)state;
	assert_true(plan_latency(&input, 64, 50, &plan));
	assert_int_equal(plan.window, 50);
	assert_int_equal(plan.run, 25);
	assert_true(plan_latency(&input, 64, 51, &plan));
	assert_int_equal(plan.window, 50);
	input.receive_bytes--;
	assert_true(plan_latency(&input, 64, 50, &plan));
	assert_int_equal(plan.window, 49);
	input.receive_bytes = 100; /* never 0 */
	assert_true(plan_latency(&input, 64, 50, &plan));
	assert_int_equal(plan.window, 1);
	input.lanes_max = 103; /* a multiple of 4 */
	assert_true(plan_latency(&input, 64, 50, &plan));
	assert_int_equal(plan.lanes, 100);
	assert_int_equal(plan.slots, 64);
	input.memory_max = engine_slot_bytes(SWITCH_LATENCY, 8) * 64; /* just as much */
	assert_true(plan_latency(&input, 64, 50, &plan));
	assert_true(plan.lanes >= 8);
	input.memory_max = engine_slot_bytes(SWITCH_LATENCY, 4) * 64 - 1;
	assert_false(plan_latency(&input, 64, 50, &plan));
	input.memory_max = 0;
	input.mtu = 1239;
	assert_false(plan_latency(&input, 64, 50, &plan));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plan__mtu_1500_gives_360_lanes_over_v4_and_356_over_v6),
		cmocka_unit_test(plan__defaults_are_704_slots_window_154_run_44),
		cmocka_unit_test(plan__stock_socket_shares_184_packets),
		cmocka_unit_test(plan__no_mtu_makes_packets_larger_than_360_lanes),
		cmocka_unit_test(plan__who_asks_for_it_gets_the_largest_datagram),
		cmocka_unit_test(plan__stock_socket_on_loopback_gets_packets_it_can_hold),
		cmocka_unit_test(plan__lanes_flag_caps),
		cmocka_unit_test(plan__mtu_below_any_path_is_refused),
		cmocka_unit_test(plan__stock_receive_buffer_holds_184_packets),
		cmocka_unit_test(plan__every_plan_is_one_that_workers_can_use),
		cmocka_unit_test(plan__latency_slots_leave_the_lanes_that_fit_the_memory),
		cmocka_unit_test(plan__is_this_to_the_last_lane_and_slot),
		cmocka_unit_test(plan__of_latency_shrinks_the_window_to_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
