/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_kv_share.h - which of how many servers of its table this is, and whether a worker's list says the same.
 * docs/protocol.md, R-KV-22.
 */
#ifndef CORE_SERVER_KV_SHARE_H
#define CORE_SERVER_KV_SHARE_H

#include "core/shared/env.h"

enum { SERVER_KV_ID_BYTES = 16 };

struct server_kv_share {
	uint16_t index, count; /* count 0: nobody has said it yet */
	bool is_used;          /* something was asked of it, or came, since: it stays so */
	bool is_known;         /* the identity is */
	uint8_t identity[SERVER_KV_ID_BYTES];
	uint8_t own[SERVER_KV_ID_BYTES]; /* of this server */
	uint8_t list
		[SERVER_KV_ID_BYTES]; /* at the first: of all the others'; zeros: not said yet */
};

enum server_kv_share_verdict {
	SERVER_KV_SHARE_FITS,
	SERVER_KV_SHARE_NOTHING,  /* the table is used, and nothing of it is here */
	SERVER_KV_SHARE_PLACE,    /* another index or count */
	SERVER_KV_SHARE_MAP,      /* all keys of the map would be another server's */
	SERVER_KV_SHARE_LIST,     /* other servers than before */
	SERVER_KV_SHARE_IDENTITY, /* another table of this name */
};

/* open: as OPEN says it, but for `own`. is_here: another connection has the table open. */
enum server_kv_share_verdict server_kv_share_judge(const struct server_kv_share *has,
						   const struct server_kv_share *open, bool is_here,
						   const uint64_t *key, uint32_t keys);

/* Are all keys of this map another server's? */
bool server_kv_share_is_others(const struct server_kv_share *share, const uint64_t *key,
			       uint32_t keys);

#endif
