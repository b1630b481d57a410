/* SPDX-License-Identifier: Apache-2.0 */
/* kv_share.c - are these the servers of one table, each in its place? See kv.h. docs/protocol.md, R-KV-22. */
#include <string.h>

#include "lib/kv.h"

void kv_share_put(const struct kv_server *server, struct kv_message *open)
{
	const struct tally_kv *kv = server->kv;

	open->server = (uint16_t)server->idx;
	open->servers = (uint16_t)kv->servers;
	memcpy(open->identity, kv->identity, sizeof(open->identity));
	open->is_used = kv->server->was_used || server->was_open;
}

bool kv_share_may_connect(const struct kv_server *server)
{
	return !server->idx || server->kv->server->was_open;
}

/* ---- OPENED ---- */

bool kv_share_take(struct kv_server *server, const struct kv_message *opened)
{
	struct tally_kv *kv = server->kv;
	const struct kv_server *first = kv->server;
	bool knows = server != first || first->was_open;

	if (opened->server != server->idx || opened->servers != kv->servers ||
	    (knows && memcmp(opened->identity, kv->identity, sizeof(kv->identity)) != 0)) {
		kv_break(kv, TALLY_ERR_REMOTE,
			 "server %s has opened another table than %s as it was asked for: server "
			 "%u of %u",
			 server->at.text, kv->name, server->idx, kv->servers);
		return false;
	}
	if (server->was_open && strcmp(server->made, opened->text) != 0) {
		kv_break(kv, TALLY_ERR_REMOTE,
			 "table %s of server %s has become another one since it was opened: its "
			 "words are others",
			 kv->name, server->at.text);
		return false;
	}
	if (server->was_open)
		return true;
	memcpy(kv->identity, opened->identity, sizeof(kv->identity));
	strcpy(server->made, opened->text);
	server->was_used = opened->is_used;
	for (uint32_t s = 1; s < kv->servers && server == first; s++)
		kv->server[s].down_ns = kv->now_ns; /* they could not be asked before */
	return true;
}
