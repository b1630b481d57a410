/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv.c - see server_kv.h. Who comes, who goes; server_kv_step.c has the barriers. */
#include "core/kv/server_kv.h"

/* R-KV-17. The milliseconds: who finds no server tries again once a second (src/kvlib/server.c). */
enum { GONE_HEARTBEATS = 4 };
static const uint64_t GONE_NS = 2000000000;

static uint16_t workers_of(const struct server_kv *kv)
{
	return kv->sparse->table->workers;
}

void server_kv_init(struct server_kv *kv, const struct server_sparse *sparse,
		    struct server_kv_worker *worker, bool is_sync)
{
	*kv = (struct server_kv){ .sparse = sparse, .worker = worker, .is_sync = is_sync };
}

struct server_kv_action *server_kv_act(struct server_kv_actions *actions,
				       enum server_kv_action_type type, uint16_t worker)
{
	struct server_kv_action *action = &actions->list[actions->count++];

	CORE_ASSERT(actions->count <= SERVER_KV_ACTIONS_MAX);
	*action = (struct server_kv_action){ .type = (uint8_t)type, .worker = worker };
	return action;
}

/* ---- what is on the disk ---- */

bool server_kv_is_member(const struct server_kv *kv, uint16_t worker)
{
	return kv->worker[worker].joined > kv->worker[worker].left;
}

bool server_kv_has_left(const struct server_kv *kv, uint16_t other, uint16_t worker)
{
	const struct server_kv_worker *it = &kv->worker[other];

	return it->left > it->joined && it->left > kv->worker[worker].joined;
}

void server_kv_replay(struct server_kv *kv, enum server_kv_record record, uint64_t number)
{
	switch (record) {
	case SERVER_KV_JOINED:
		kv->worker[number].joined = ++kv->moves;
		break;
	case SERVER_KV_HAS_LEFT:
		kv->worker[number].left = ++kv->moves;
		break;
	case SERVER_KV_PASSED:
		kv->barrier = number;
		break;
	case SERVER_KV_VOIDED:
		for (uint16_t i = 0; i < workers_of(kv); i++)
			if (server_kv_is_member(kv, i))
				kv->worker[i].left = ++kv->moves;
		break;
	}
}

void server_kv_void(struct server_kv *kv, struct server_kv_actions *actions)
{
	server_kv_replay(kv, SERVER_KV_VOIDED, 0);
	server_kv_act(actions, SERVER_KV_DO_VOID, 0);
}

/* ---- what others see ---- */

uint64_t server_kv_grace_ns(const struct server_kv *kv)
{
	return GONE_NS + GONE_HEARTBEATS * kv->heartbeat_ns;
}

bool server_kv_has_open(const struct server_kv *kv, uint16_t worker, uint64_t link)
{
	return link && kv->worker[worker].link == link;
}
