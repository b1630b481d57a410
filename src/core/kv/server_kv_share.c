/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_share.c - see server_kv_share.h. */
#include "core/kv/server_kv_share.h"

#include "core/shared/hash.h"

enum { MAP_LEAST = 16 }; /* keys: fewer may be of one server by chance */

static bool is_said(const uint8_t id[SERVER_KV_ID_BYTES])
{
	static const uint8_t none[SERVER_KV_ID_BYTES];

	return memcmp(id, none, sizeof(none)) != 0;
}

/* Both have said it, and not the same. */
static bool differ(const uint8_t one[SERVER_KV_ID_BYTES], const uint8_t other[SERVER_KV_ID_BYTES])
{
	return is_said(one) && is_said(other) && memcmp(one, other, SERVER_KV_ID_BYTES) != 0;
}

/* The whole table's map has keys of all its servers. One that has another one's keys alone was made for that one. */
bool server_kv_share_is_others(const struct server_kv_share *share, const uint64_t *key,
			       uint32_t keys)
{
	uint64_t whose = UINT64_MAX;

	if (share->count < 2 || keys < MAP_LEAST)
		return false;
	for (uint32_t i = 0; i < keys; i++) {
		uint64_t its = hash_number(HASH_BEGIN, key[i], 8) % share->count;

		if (its == share->index || (i && its != whose))
			return false;
		whose = its;
	}
	return true;
}

/* Which the other servers are is the first one's to know: each of them knows who the first one is. */
enum server_kv_share_verdict server_kv_share_judge(const struct server_kv_share *has,
						   const struct server_kv_share *open, bool is_here,
						   const uint64_t *key, uint32_t keys)
{
	bool is_fixed = has->is_used || is_here;

	if (!has->count && open->is_used)
		return SERVER_KV_SHARE_NOTHING;
	if (has->count && (has->index != open->index || has->count != open->count))
		return is_fixed ? SERVER_KV_SHARE_PLACE : SERVER_KV_SHARE_FITS;
	if (server_kv_share_is_others(open, key, keys))
		return SERVER_KV_SHARE_MAP;
	if (!open->index && has->count && differ(has->list, open->list) && is_fixed)
		return SERVER_KV_SHARE_LIST;
	if (has->is_known && is_said(open->identity) &&
	    memcmp(open->identity, has->identity, SERVER_KV_ID_BYTES) != 0 &&
	    (is_fixed || open->is_used))
		return SERVER_KV_SHARE_IDENTITY;
	return SERVER_KV_SHARE_FITS;
}
