/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sparse/layout_sparse.h"

static uint32_t packets_for(uint32_t count, uint32_t room)
{
	return count / room + (count % room != 0);
}

/* Per packet of Algorithm 1: how many pairs it has, and a bit for each register. */
static size_t packet_words(uint32_t registers)
{
	return 1 + ((size_t)registers + 31) / 32;
}

size_t layout_sparse_scratch(uint32_t count, uint32_t registers, uint32_t room)
{
	size_t orchestrate = packets_for(count, room) * packet_words(registers) + count;
	size_t deal = (size_t)registers + count;

	return orchestrate > deal ? orchestrate : deal;
}

void layout_sparse_fill(struct layout_sparse_packing *packing, uint32_t count, uint32_t room)
{
	packing->packets = packets_for(count, room);
	for (uint32_t i = 0; i < count; i++)
		packing->order[i] = i;
	for (uint32_t p = 0; p < packing->packets; p++)
		packing->first[p] = p * room;
	packing->first[packing->packets] = count;
}

/* Turns packet_of, a packet for each pair, into the packing; of one packet in their order. */
static void packing_set(struct layout_sparse_packing *packing, const uint32_t *packet_of,
			uint32_t count)
{
	uint32_t *first = packing->first, at = 0;

	for (uint32_t p = 0; p <= packing->packets; p++)
		first[p] = 0;
	for (uint32_t i = 0; i < count; i++)
		first[packet_of[i]]++;
	for (uint32_t p = 0; p <= packing->packets; p++) {
		uint32_t pairs = first[p];

		first[p] = at;
		at += pairs;
	}
	for (uint32_t i = 0; i < count; i++)
		packing->order[first[packet_of[i]]++] = i;
	/* Each is now where the next one began. */
	for (uint32_t p = packing->packets; p > 0; p--)
		first[p] = first[p - 1];
	first[0] = 0;
}

void layout_sparse_orchestrate(struct layout_sparse_packing *packing, const uint32_t *reg,
			       uint32_t count, uint32_t registers, uint32_t room, uint32_t *scratch)
{
	uint32_t *packet_of = scratch, *packets = scratch + count;
	uint32_t estimate = packets_for(count, room), left = 0;
	size_t words = packet_words(registers);

	for (size_t i = 0; i < estimate * words; i++)
		packets[i] = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t word = 1 + reg[i] / 32, bit = 1u << reg[i] % 32, p = 0;
		uint32_t *packet = packets;

		CORE_ASSERT(reg[i] < registers);
		for (; p < estimate; p++, packet += words)
			if (packet[0] < room && !(packet[word] & bit))
				break;
		if (p < estimate) {
			packet[0]++;
			packet[word] |= bit;
			packet_of[i] = p;
		} else {
			packet_of[i] = estimate + left++ / room;
		}
	}
	packing->packets = estimate + packets_for(left, room);
	packing_set(packing, packet_of, count);
}

void layout_sparse_deal(struct layout_sparse_packing *packing, const uint32_t *reg, uint32_t count,
			uint32_t registers, uint32_t room, uint32_t *scratch)
{
	uint32_t *packet_of = scratch, *place = scratch + count;
	uint32_t packets = packets_for(count, room), at = 0;

	for (uint32_t r = 0; r < registers; r++)
		place[r] = 0;
	for (uint32_t i = 0; i < count; i++) {
		CORE_ASSERT(reg[i] < registers);
		place[reg[i]]++;
	}
	for (uint32_t r = 0; r < registers; r++) {
		uint32_t pairs = place[r];

		packets = pairs > packets ? pairs : packets;
		place[r] = at;
		at += pairs;
	}
	packing->packets = packets;
	/* Pairs of one register have places in a row, at most as many as there are packets. */
	for (uint32_t i = 0; i < count; i++)
		packet_of[i] = place[reg[i]]++ % packets;
	packing_set(packing, packet_of, count);
}

static void register_touch(struct layout_sparse_cost *cost, uint32_t *scratch, uint32_t reg)
{
	uint32_t pass = ++scratch[reg];

	cost->further += pass > 1;
	cost->passes = pass > cost->passes ? pass : cost->passes;
}

struct layout_sparse_cost layout_sparse_cost(const struct layout_sparse_packing *packing,
					     uint32_t packet, const uint32_t *reg,
					     uint32_t registers, uint32_t *scratch)
{
	struct layout_sparse_cost cost = { .passes = 1 };
	uint32_t first = packing->first[packet], end = packing->first[packet + 1];

	for (uint32_t r = 0; r < registers; r++)
		scratch[r] = 0;
	for (uint32_t i = first; i < end; i++)
		register_touch(&cost, scratch, reg[packing->order[i]]);
	return cost;
}

struct layout_sparse_cost layout_sparse_push_cost(const struct sparse *push, const uint8_t *at,
						  uint32_t registers, uint32_t *scratch)
{
	struct layout_sparse_cost cost = { .passes = 1 };

	for (uint32_t r = 0; r < registers; r++)
		scratch[r] = 0;
	for (uint32_t i = 0; i < push->count; i++) {
		uint32_t rank = sparse_body_get32(sparse_item(push, at, i));

		register_touch(&cost, scratch, layout_sparse_register(rank, registers));
	}
	return cost;
}
