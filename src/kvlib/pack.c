/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - hot pairs for a switch that is a chip of registers: see kv.h. docs/protocol.md, R-KV-18. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kvlib/kv.h"

static uint32_t pair_bytes(const struct kv_server *server)
{
	return sparse_pair_bytes(server->core->shape.dim);
}

static uint32_t room_of(const struct kv_server *server)
{
	return layout_sparse_room(server->core->shape.bytes, server->core->shape.dim);
}

static struct kv_pack *pack_new(uint32_t room)
{
	struct kv_pack *pack = calloc(1, sizeof(*pack));

	if (!pack)
		return NULL;
	pack->reg = calloc(KV_PACK_PAIRS, sizeof(*pack->reg));
	pack->scratch = calloc(layout_sparse_scratch(KV_PACK_PAIRS, LAYOUT_REGISTERS_MAX, room),
			       sizeof(*pack->scratch));
	pack->packets.order = calloc(KV_PACK_PAIRS, sizeof(*pack->packets.order));
	pack->packets.first = calloc(KV_PACK_PAIRS + 1, sizeof(*pack->packets.first));
	return pack;
}

static void pack_free(struct kv_pack *pack)
{
	free(pack->reg);
	free(pack->scratch);
	free(pack->packets.order);
	free(pack->packets.first);
	free(pack);
}

bool kv_pack_switch(struct kv_server *server, uint16_t registers, enum kv_packing packing)
{
	struct kv_pack *pack = server->pack;
	uint8_t *hot;

	if (!pack && !registers)
		return true;
	if (!pack) {
		pack = pack_new(room_of(server));
		hot = malloc((size_t)KV_PACK_PAIRS * pair_bytes(server));
		if (!pack || !hot || !pack->reg || !pack->scratch || !pack->packets.order ||
		    !pack->packets.first) {
			if (pack)
				pack_free(pack);
			free(hot);
			return false;
		}
		memcpy(hot, server->hot, (size_t)server->hot_count * pair_bytes(server));
		server->hot = hot;
		server->hot_max = KV_PACK_PAIRS;
		server->pack = pack;
	}
	/* What is packed stays so. */
	pack->registers = registers;
	pack->packing = packing;
	return true;
}

void kv_pack_fini(struct kv_server *server)
{
	if (!server->pack)
		return;
	pack_free(server->pack);
	free(server->hot);
}

static void pack(const struct kv_server *server, struct kv_pack *pack)
{
	uint32_t room = room_of(server), count = server->hot_count;

	for (uint32_t i = 0; i < count && pack->registers; i++) {
		uint32_t rank = sparse_body_get32(server->hot + (size_t)i * pair_bytes(server));

		pack->reg[i] = layout_sparse_register(rank, pack->registers);
	}
	if (pack->registers && pack->packing == KV_DEAL)
		layout_sparse_deal(&pack->packets, pack->reg, count, pack->registers, room,
				   pack->scratch);
	else if (pack->registers && pack->packing == KV_ALGORITHM_1)
		layout_sparse_orchestrate(&pack->packets, pack->reg, count, pack->registers, room,
					  pack->scratch);
	else
		layout_sparse_fill(&pack->packets, count, room);
	pack->is_packed = true;
	pack->next = 0;
}

uint16_t kv_pack_next(struct kv_server *server)
{
	struct kv_pack *at = server->pack;
	uint32_t bytes = pair_bytes(server), first, count;

	if (!at->is_packed)
		pack(server, at);
	if (at->next == at->packets.packets) {
		at->is_packed = false;
		return 0;
	}
	first = at->packets.first[at->next];
	count = at->packets.first[at->next + 1] - first;
	assert(count);
	for (uint32_t i = 0; i < count; i++)
		memcpy(server->hot_packet + (size_t)i * bytes,
		       server->hot + (size_t)at->packets.order[first + i] * bytes, bytes);
	return (uint16_t)count;
}

void kv_pack_undo(struct kv_server *server)
{
	struct kv_pack *at = server->pack;
	uint32_t bytes = pair_bytes(server), left = 0;

	if (!at || !at->is_packed)
		return;
	at->is_packed = false;
	memset(at->reg, 0, server->hot_count * sizeof(*at->reg));
	for (uint32_t i = at->packets.first[at->next]; i < server->hot_count; i++)
		at->reg[at->packets.order[i]] = 1;
	for (uint32_t i = 0; i < server->hot_count; i++)
		if (at->reg[i])
			memmove(server->hot + (size_t)left++ * bytes,
				server->hot + (size_t)i * bytes, bytes);
	server->hot_count = (uint16_t)left;
}

void kv_pack_pushed(struct kv_server *server)
{
	server->pack->next++;
}
