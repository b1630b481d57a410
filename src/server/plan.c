/* SPDX-License-Identifier: Apache-2.0 */
#include "server/plan.h"

#include "core/shared/map.h"
#include "core/shared/wire.h"
#include "dataplane/engine_soft.h"
#include "dataplane/link.h"

enum { COPIES = 2, WINDOWS_OF_SLOTS = 4 };

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t lanes_of_bytes(uint32_t bytes)
{
	uint32_t lanes = bytes < WIRE_HEADER_BYTES ? 0
						   : (bytes - WIRE_HEADER_BYTES) / WIRE_LANE_BYTES;

	return min_u32(lanes, WIRE_LANES_MAX) / WIRE_LANES_STEP * WIRE_LANES_STEP;
}

/* A larger packet lies in pages of which the last is half empty on average. */
uint32_t plan_packet_cost(uint32_t bytes)
{
	if (bytes <= PLAN_PACKET_STOCK)
		return PLAN_COST_STOCK;
	return max_u32(PLAN_COST_STOCK, bytes + bytes / 4 + 1024);
}

uint32_t plan_window_fit(uint32_t window, uint64_t receive_bytes, uint32_t senders,
			 uint32_t packet_bytes)
{
	uint64_t each = receive_bytes / plan_packet_cost(packet_bytes) / senders;

	return each < window ? max_u32(1, (uint32_t)each) : window;
}

/* The lanes whose packets of all members fit PLAN_DEPTH_MIN times into the receive buffer: the inverse
 * of plan_packet_cost. On loopback --lanes may say 16,368, of which a stock socket holds 5. */
static uint32_t lanes_of_buffer(const struct plan_input *input)
{
	uint64_t cost = input->receive_bytes / input->members / PLAN_DEPTH_MIN;

	if (cost >= plan_packet_cost(LINK_FRAME_BYTES_MAX))
		return WIRE_LANES_MAX;
	if (cost <= plan_packet_cost(PLAN_PACKET_STOCK + 1))
		return PLAN_LANES_STOCK;
	return max_u32(PLAN_LANES_STOCK, lanes_of_bytes((uint32_t)((cost - 1024) * 4 / 5)));
}

static uint32_t plan_lanes(const struct plan_input *input, uint32_t most)
{
	uint32_t overhead = wire_overhead(input->is_v6);
	uint32_t lanes = lanes_of_bytes(input->mtu > overhead ? input->mtu - overhead : 0);

	if (input->mtu < PLAN_MTU_MIN || !input->members)
		return 0;
	lanes = min_u32(lanes, most / WIRE_LANES_STEP * WIRE_LANES_STEP);
	return min_u32(lanes, lanes_of_buffer(input));
}

/* A message has to fit one sendmsg; and two of them into the window, so that one is on the wire while
 * the next is built. */
static uint32_t plan_run(const struct plan_input *input, uint32_t lanes, uint32_t window)
{
	uint32_t run = input->run ? input->run : PLAN_RUN;

	run = min_u32(run, LINK_FRAME_BYTES_MAX / wire_bytes(lanes));
	run = min_u32(run, min_u32(MAP_RUN_MAX, LINK_FRAME_PACKETS_MAX));
	return max_u32(1, min_u32(run, window / 2));
}

static uint32_t express_of(uint32_t slots)
{
	return max_u32(slots / 8, MAP_EXPRESS_SLOTS_MIN);
}

/* Loopback's packets of 64 KiB need no window of 154 to keep a processor busy, only to fill its caches
 * and to make the round trip longer than the time-out: 16 are enough there. */
static uint32_t window_of_bytes(uint32_t lanes)
{
	return max_u32(PLAN_DEPTH_MIN, PLAN_WINDOW_BYTES / wire_bytes(lanes));
}

/* The most slots that memory holds, that the map can count, and that were asked for. */
static uint32_t plan_slots(const struct plan_input *input, uint32_t lanes)
{
	uint64_t memory = input->memory_max ? input->memory_max : (uint64_t)PLAN_MEMORY_MAX;
	uint64_t fit = memory / ((uint64_t)COPIES * WIRE_LANE_BYTES * lanes);
	uint32_t windows = (WINDOWS_OF_SLOTS + 1) * max_u32(window_of_bytes(lanes), input->window);
	uint32_t slots = min_u32(PLAN_SLOTS, max_u32(PLAN_SLOTS_MIN, windows));

	if (input->slots)
		slots = min_u32(input->slots, MAP_SLOTS_MAX);
	return fit < slots ? (uint32_t)fit : slots;
}

/*
 * The window has to cover bandwidth times delay, and the delay is mostly our own: a message of 44
 * packets of 1,492 bytes takes 0.5 ms to leave a worker at 1 Gbit/s, 0.5 ms to come back to it (both
 * links send whole messages on), and 8 workers' messages 0.5 ms of a shard that handles 600,000
 * packets/s. 1.5 ms at 84,000 packets/s per worker are 126 packets. The default of 704 slots gives 88
 * to the express stream, 616 to the bulk stream, a window of 154 (3.5 messages), and with 360 lanes
 * 2 MB of sums, which stay in a core's L2 or the L3.
 *
 * Slots are 4 windows: one late slot does not stall the stream (R-PACE-6). A window of each member fits into
 * the receive buffer: of one job with one stream, little is lost at home (R-PACE-9).
 */
bool plan_job(const struct plan_input *input, struct plan *plan)
{
	uint32_t most = input->lanes_max ? input->lanes_max : (uint32_t)PLAN_LANES_STOCK;
	uint32_t lanes = plan_lanes(input, most);
	uint32_t slots = lanes ? plan_slots(input, lanes) : 0;
	uint32_t window, bulk;

	if (slots <= MAP_EXPRESS_SLOTS_MIN)
		return false;
	bulk = slots - express_of(slots);
	window = max_u32(1, min_u32(bulk / WINDOWS_OF_SLOTS, window_of_bytes(lanes)));
	if (input->window)
		window = min_u32(bulk, input->window);
	plan->lanes = lanes;
	plan->slots = slots;
	plan->window =
		plan_window_fit(window, input->receive_bytes, input->members, wire_bytes(lanes));
	plan->is_cramped = plan->window < window;
	plan->run = plan_run(input, lanes, plan->window);
	return true;
}

/* The most lanes with which so many slots fit. */
static uint32_t lanes_of_slots(uint32_t lanes, uint32_t slots, uint64_t memory)
{
	while (lanes && engine_slot_bytes(SWITCH_LATENCY, lanes) * slots > memory)
		lanes -= WIRE_LANES_STEP;
	return lanes;
}

/* R-LAT-19 */
bool plan_latency(const struct plan_input *input, uint32_t slots, uint32_t window,
		  struct plan *plan)
{
	uint64_t memory = input->memory_max ? input->memory_max : (uint64_t)PLAN_MEMORY_MAX;
	uint32_t lanes = plan_lanes(input, input->lanes_max ? input->lanes_max : WIRE_LANES_MAX);
	uint64_t each;

	lanes = lanes_of_slots(lanes, slots, memory);
	if (!lanes)
		return false;
	each = input->receive_bytes / plan_packet_cost(wire_bytes(lanes)) / input->members;
	if (each < window)
		window = max_u32(1, (uint32_t)each);
	plan->lanes = lanes;
	plan->slots = slots;
	plan->window = window;
	plan->run = plan_run(input, lanes, window);
	return true;
}
