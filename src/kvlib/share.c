/* SPDX-License-Identifier: Apache-2.0 */
/* share.c - are these the servers of one table, each in its place, all made alike? See kv.h. docs/protocol.md, R-KV-22. */
#include <string.h>

#include "core/shared/hash.h"
#include "kvlib/kv.h"

static bool are_all_open(const struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		if (!kv->server[s].was_open)
			return false;
	return true;
}

/* Of the others' own identities, in their order. */
static void list_put(const struct tally_kv *kv, uint8_t list[KV_IDENTITY_BYTES])
{
	uint64_t one = HASH_BEGIN, other = ~one;

	for (uint32_t s = 1; s < kv->servers; s++)
		for (uint32_t i = 0; i < KV_IDENTITY_BYTES; i++) {
			one = hash_byte(one, kv->server[s].own[i]);
			other = hash_byte(other, kv->server[s].own[i]);
		}
	sparse_body_put64(list, one);
	sparse_body_put64(list + 8, other);
}

void kv_share_put(struct kv_server *server, struct kv_message *open)
{
	const struct tally_kv *kv = server->kv;

	open->server = (uint16_t)server->idx;
	open->servers = (uint16_t)kv->servers;
	memcpy(open->identity, kv->identity, sizeof(open->identity));
	open->is_used = kv->server->was_used || server->was_open;
	server->has_list = !server->idx && kv->servers > 1 && are_all_open(kv);
	if (server->has_list)
		list_put(kv, open->own);
}

bool kv_share_may_connect(const struct kv_server *server)
{
	return !server->idx || server->kv->server->was_open;
}

bool kv_share_may_ask_again(const struct kv_server *server)
{
	return !server->idx && server->state == KV_UP && !server->has_list &&
	       server->kv->servers > 1 && are_all_open(server->kv);
}

/* ---- OPENED ---- */

bool kv_share_take(struct kv_server *server, const struct kv_message *opened)
{
	struct tally_kv *kv = server->kv;
	struct kv_server *first = kv->server;
	bool knows = server != first || first->was_open;

	if (opened->server != server->idx || opened->servers != kv->servers ||
	    (knows && memcmp(opened->identity, kv->identity, sizeof(kv->identity)) != 0)) {
		kv_break(kv, TALLY_ERR_REMOTE,
			 "server %s has opened another table than %s as it was asked for: server "
			 "%u of %u",
			 server->at.text, kv->name, server->idx, kv->servers);
		return false;
	}
	if (server->was_open && (strcmp(server->made, opened->text) != 0 ||
				 memcmp(server->own, opened->own, sizeof(server->own)) != 0)) {
		kv_break(kv, TALLY_ERR_REMOTE,
			 "table %s of server %s has become another one since it was opened: its "
			 "words are others",
			 kv->name, server->at.text);
		return false;
	}
	if (server != first && strcmp(first->made, opened->text) != 0) {
		kv_fault_unlike(server, opened->text);
		return false;
	}
	kv->is_whole |= kv->servers == 1 || server->has_list;
	if (server->was_open)
		return true;
	memcpy(server->own, opened->own, sizeof(server->own));
	memcpy(kv->identity, opened->identity, sizeof(kv->identity));
	strcpy(server->made, opened->text);
	server->was_used = opened->is_used;
	for (uint32_t s = 1; s < kv->servers && server == first; s++)
		kv->server[s].down_ns = kv->now_ns; /* they could not be asked before */
	return true;
}
