/* SPDX-License-Identifier: Apache-2.0 */
/* latency_packet.c - what operations and packets of latency.h's model are about; see latency_world.h. */
#include "search/latency_world.h"

#include "core/shared/map.h"

/* ---- what is to be summed, known without any protocol ---- */

static uint32_t count_of(uint32_t op)
{
	static const uint32_t counts[LATENCY_OPS] = { 3, 8, 0, 4, 7, 1, 5, 2 };

	return counts[op];
}

static uint64_t hash_of(uint32_t op)
{
	return 0x123456789abcdefull * (op + 1);
}

int32_t latency_value(uint32_t life, uint32_t worker, uint32_t op, uint32_t lane)
{
	static const int32_t scale[LATENCY_WORKERS] = { 1, -1000, 1000000 };

	return lane < count_of(op) ? (int32_t)(life * 200 + op * 16 + lane + 1) * scale[worker] : 0;
}

bool latency_is_range(uint32_t worker, uint32_t op)
{
	return (worker + op) % 4 == 1;
}

bool latency_is_range_anywhere(const struct latency_config *config, uint32_t op)
{
	bool is = false;

	for (uint32_t w = 0; w < config->workers; w++)
		is |= latency_is_range(w, op);
	return is;
}

struct worker_latency_op latency_op(uint32_t op)
{
	return (struct worker_latency_op){ .hash = hash_of(op),
					   .cookie = LATENCY_COOKIE + op,
					   .count = count_of(op) };
}

/* ---- packets ---- */

uint32_t latency_packet_number(const struct latency_packet *packet)
{
	uint32_t number = packet->life;

	number = number * LATENCY_OPS + packet->op;
	number = number * LATENCY_WORKERS + packet->worker;
	return number * LATENCY_TYPES + packet->type;
}

struct latency_packet latency_packet_of(uint32_t number)
{
	return (struct latency_packet){
		.type = (enum latency_type)(number % LATENCY_TYPES),
		.worker = number / LATENCY_TYPES % LATENCY_WORKERS,
		.op = number / LATENCY_TYPES / LATENCY_WORKERS % LATENCY_OPS,
		.life = number / LATENCY_TYPES / LATENCY_WORKERS / LATENCY_OPS,
	};
}

struct wire latency_wire(const struct latency_config *config, const struct latency_packet *packet)
{
	static const uint8_t types[LATENCY_TYPES] = {
		[LATENCY_UPDATE] = WIRE_UPDATE,       [LATENCY_ACK] = WIRE_ACK,
		[LATENCY_RESULT] = WIRE_RESULT,       [LATENCY_CONFIRM] = WIRE_CONFIRM,
		[LATENCY_UPDATE_ROUND] = WIRE_UPDATE, [LATENCY_ACK_ROUND] = WIRE_ACK,
	};
	bool has_lanes = packet->type == LATENCY_UPDATE || packet->type == LATENCY_RESULT;
	uint32_t lanes = (count_of(packet->op) + 3) / 4 * 4;
	struct wire wire = {
		.type = types[packet->type],
		.generation = LATENCY_GENERATION + packet->life,
		.seq = (uint32_t)(config->first / config->slots) + packet->op / config->slots + 1,
		.slot = (uint16_t)(packet->op % config->slots),
		.child = (uint16_t)packet->worker,
		.lanes = (uint16_t)(has_lanes ? lanes : 0),
		.tag = map_tag(hash_of(packet->op), 0),
	};

	if (packet->type == LATENCY_UPDATE && latency_is_range(packet->worker, packet->op))
		wire.flags = WIRE_RANGE;
	if (packet->type == LATENCY_RESULT && latency_is_range_anywhere(config, packet->op))
		wire.flags = WIRE_RANGE;
	return wire;
}
