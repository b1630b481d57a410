/* SPDX-License-Identifier: Apache-2.0 */
/* hot.c - the hot keys of a table at one server: see kv.h. docs/protocol.md, R-SP, R-KV-7, R-KV-8. */
#include <stdlib.h>
#include <string.h>

#include "core/shared/rto.h"
#include "kvlib/kv.h"

enum { DROPPED_MANY = 64 }; /* more than what a fence leaves on its way: somebody should look */

bool kv_hot_is_ready(const struct kv_server *server)
{
	return server->core->was_open && (!server->core->has_hot || server->endpoint);
}

/* ---- who is where ---- */

static void greeting_begin(struct kv_greeting *greeting, const struct link_address *address,
			   uint16_t index, const uint8_t nonce[KV_NONCE_BYTES], uint64_t now_ns)
{
	greeting->address = *address;
	worker_kv_greet(&greeting->core, index, nonce, now_ns);
}

static uint64_t greeting_turn(struct kv_server *server, struct kv_greeting *greeting)
{
	struct tally_kv *kv = server->kv;
	struct wire header;
	uint8_t *at;

	if (worker_kv_greet_time(&greeting->core, kv->worker, kv->now_ns, &header)) {
		at = outbox_put(&kv->outbox, &greeting->address, wire_bytes(WIRE_HELLO_LANES));
		memset(at, 0, wire_bytes(WIRE_HELLO_LANES));
		wire_put(at, &header);
		memcpy(at + WIRE_HEADER_BYTES, greeting->core.nonce, KV_NONCE_BYTES);
	}
	return worker_kv_greet_wake_ns(&greeting->core);
}

static bool greeting_take(struct tally_kv *kv, struct kv_greeting *greeting,
			  const struct link_address *peer, const struct wire *packet)
{
	return link_address_equal(peer, &greeting->address) &&
	       worker_kv_greet_take(&greeting->core, kv->worker, packet);
}

void kv_hot_opened(struct kv_server *server, const uint8_t nonce[KV_NONCE_BYTES])
{
	if (!server->core->has_hot)
		return;
	greeting_begin(&server->to_server, &server->at_server, server->core->number, nonce,
		       server->kv->now_ns);
	if (server->endpoint)
		endpoint_sparse_server(server->endpoint, &server->at_server);
}

static bool stream_open(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	const struct endpoint_sparse_options options = { .outbox = &kv->outbox,
							 .table = server->core->shape,
							 .at_switch = server->to_switch.address,
							 .at_server = server->at_server,
							 .generation = server->generation,
							 .patience_ns = server->patience_ns,
							 .map = server->map.version,
							 .kept_max = kv->core->config.kept_packets,
							 .expected = server->expected,
							 .worker = kv->worker,
							 .has_copy = kv->has_copies };
	int error = endpoint_sparse_open(&server->endpoint, &options);

	if (!error) {
		if (!server->pack)
			server->hot_max = (uint16_t)endpoint_sparse_pairs_max(server->endpoint);
		kv->is_news = true; /* tally_kv_open may have waited for this alone */
		return true;
	}
	server->endpoint = NULL;
	kv_break(kv, TALLY_ERR_NO_MEMORY, "out of memory for %u packets that are kept",
		 kv->core->config.kept_packets);
	return false;
}

static struct link_address switch_address(const struct kv_server *server,
					  const struct kv_message *message)
{
	static const uint8_t none[16];
	struct link_address address = { .port = message->port };

	memcpy(address.ip, memcmp(message->ip, none, 16) ? message->ip : server->at_server.ip, 16);
	return address;
}

bool kv_hot_is_at(const struct kv_server *server, const struct kv_message *message)
{
	const struct link_address address = switch_address(server, message);
	const struct kv_greeting *old = &server->to_switch;

	return old->core.is_begun && old->core.index == message->index &&
	       link_address_equal(&old->address, &address) &&
	       !memcmp(old->core.nonce, message->nonce, KV_NONCE_BYTES);
}

bool kv_hot_switch(struct kv_server *server, const struct kv_message *message)
{
	const struct link_address address = switch_address(server, message);

	if (!kv_pack_switch(server, message->registers, message->packing)) {
		kv_break(server->kv, TALLY_ERR_NO_MEMORY, "out of memory for %u pairs",
			 KV_PACK_PAIRS);
		return false;
	}
	greeting_begin(&server->to_switch, &address, message->index, message->nonce,
		       server->kv->now_ns);
	if (!server->endpoint && !stream_open(server))
		return false;
	endpoint_sparse_switch(server->endpoint, message->index, &address, message->generation,
			       message->map);
	return true;
}

uint64_t kv_hot_generation(const struct kv_server *server)
{
	return server->endpoint ? endpoint_sparse_worker(server->endpoint)->generation : 0;
}

void kv_hot_report(struct kv_server *server, uint64_t generation, uint64_t row[SPARSE_WINDOW_MAX])
{
	memset(row, 0, SPARSE_WINDOW_MAX * sizeof(*row));
	if (server->endpoint)
		endpoint_sparse_report(server->endpoint, generation, row);
}

void kv_hot_fini(struct kv_server *server)
{
	endpoint_sparse_close(server->endpoint);
	kv_pack_fini(server);
}

/* ---- pairs ---- */

/* R-KV-4: an integer, and what the unit has no room for comes with the next; or the float as it is. */
static uint32_t lane_of(struct kv_server *server, uint32_t rank, uint32_t k, float value)
{
	uint32_t bits;

	if (server->core->shape.values != SPARSE_LNS)
		return (uint32_t)kv_carry_lane(server, rank, k, value);
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The pairs in hot_packet. */
static bool packet_push(struct kv_server *server, uint16_t count, uint64_t *seq)
{
	uint64_t got = endpoint_sparse_push(server->endpoint, server->hot_flags, count,
					    server->hot_packet);

	if (!got)
		return false;
	if (endpoint_sparse_worker(server->endpoint)->low == got)
		server->hot_ns = server->kv->now_ns; /* it is alone */
	*seq = got;
	return true;
}

bool kv_hot_push(struct kv_server *server, uint64_t *seq)
{
	uint16_t count;

	if (!server->pack && !packet_push(server, server->hot_count, seq))
		return false;
	while (server->pack && (count = kv_pack_next(server))) {
		if (!packet_push(server, count, seq))
			return false;
		kv_pack_pushed(server);
	}
	server->hot_count = 0;
	server->hot_flags = 0;
	return true;
}

/* The sum is not what was pushed: whoever trains must know, once. */
static void saturation_say(struct kv_server *server, uint64_t key)
{
	struct tally_kv *kv = server->kv;

	if (server->has_saturated)
		return;
	server->has_saturated = true;
	report_log(&kv->who, TALLY_LOG_WARN,
		   "table %s: a value pushed for hot key %llu is too large: %g is added in its "
		   "place, the most that the table's unit has room for (said once)",
		   kv->name, (unsigned long long)key,
		   (double)INT32_MAX / (double)server->core->scale);
}

bool kv_hot_add(struct kv_server *server, uint64_t key, uint32_t rank, const float *value,
		uint64_t *seq)
{
	uint16_t dim = server->core->shape.dim;
	uint8_t *at;

	if (server->hot_count == server->hot_max && !kv_hot_push(server, seq))
		return false;
	at = server->hot + (size_t)server->hot_count++ * sparse_pair_bytes(dim);
	sparse_body_put32(at, rank);
	at += SPARSE_RANK_BYTES;
	for (uint32_t k = 0; k < dim; k++, at += SPARSE_VALUE_BYTES)
		sparse_body_put32(at, lane_of(server, rank, k, value[k]));
	if (server->hot_flags & SPARSE_SATURATED)
		saturation_say(server, key);
	return true;
}

/* ---- the copy (R-SP-31) ---- */

/* Only while the server is there: who does not hear it does not know how old the copy is. */
const struct copy_sparse *kv_hot_copy(const struct kv_server *server)
{
	return server->endpoint && worker_kv_is_up(server->core)
		       ? endpoint_sparse_copy(server->endpoint)
		       : NULL;
}

/* R-KV-9: of a key that was cold when it was pushed no BCAST tells that it came. */
void kv_hot_batched(struct kv_server *server, uint64_t generation, uint64_t epoch)
{
	if (server->endpoint)
		endpoint_sparse_told(server->endpoint, generation, epoch);
	if (server->core->was_remapped)
		endpoint_sparse_past(server->endpoint, epoch);
}

void kv_hot_pulled(struct kv_server *server, const struct kv_message *message, uint32_t rank,
		   const float *value)
{
	uint32_t bits[SPARSE_DIM_MAX];

	if (!server->endpoint || rank == KV_COLD)
		return;
	memcpy(bits, value, server->core->shape.dim * sizeof(*value));
	endpoint_sparse_pulled(server->endpoint, rank, message->generation, message->epoch, bits);
}

/* ---- packets and time ---- */

/* Indices are one server's or one switch's: only with the address do they say which table. */
static bool is_of(const struct kv_server *server, const struct link_address *peer,
		  const struct sparse *packet)
{
	return server->endpoint && packet->table == server->core->shape.index &&
	       (link_address_equal(peer, &server->at_server) ||
		link_address_equal(peer, &server->to_switch.address));
}

static void serve(struct kv_server *server, const uint8_t *at, uint32_t bytes)
{
	endpoint_sparse_serve(server->endpoint, at, bytes);
	if (endpoint_sparse_worker(server->endpoint)->map != server->map.version)
		kv_map_adopt(server);
}

void kv_hot_packet(struct tally_kv *kv, const struct link_address *peer, const uint8_t *at,
		   uint32_t bytes)
{
	struct sparse sparse;
	struct wire wire;
	bool is_taken = false;

	if (bytes && at[0] == SPARSE_FIRST_BYTE) {
		if (sparse_check(at, bytes, &sparse) != WIRE_OK)
			return;
		for (uint32_t i = 0; i < kv->servers; i++) {
			if (!is_of(&kv->server[i], peer, &sparse))
				continue;
			is_taken = true;
			serve(&kv->server[i], at, bytes);
		}
		kv->stats.packets_dropped += !is_taken;
		return;
	}
	if (wire_check(at, bytes, &wire) != WIRE_OK)
		return;
	for (uint32_t i = 0; i < kv->servers; i++) {
		is_taken |= greeting_take(kv, &kv->server[i].to_server, peer, &wire);
		is_taken |= greeting_take(kv, &kv->server[i].to_switch, peer, &wire);
	}
	kv->stats.packets_dropped += !is_taken;
}

uint64_t kv_hot_dropped(const struct tally_kv *kv)
{
	uint64_t dropped = kv->stats.packets_dropped;

	for (uint32_t i = 0; i < kv->servers; i++)
		if (kv->server[i].endpoint)
			dropped += endpoint_sparse_stats(kv->server[i].endpoint)->dropped;
	return dropped;
}

/* The 1st, 2nd, 4th, 8th, ...: a flood is seen, and does not fill the log. */
void kv_hot_dropped_say(struct tally_kv *kv)
{
	uint64_t dropped = kv_hot_dropped(kv);

	if (!dropped || dropped < 2 * kv->dropped_said)
		return;
	kv->dropped_said = dropped;
	report_log(
		&kv->who, dropped < DROPPED_MANY ? TALLY_LOG_INFO : TALLY_LOG_WARN,
		"table %s: %llu packets were dropped since it was opened: from another address, of "
		"another generation, or with another nonce",
		kv->name, (unsigned long long)dropped);
}

uint64_t kv_hot_turn(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	uint64_t due_ns = greeting_turn(server, &server->to_server);

	due_ns = rto_least(due_ns, greeting_turn(server, &server->to_switch));
	if (!server->endpoint)
		return due_ns;
	if (endpoint_sparse_is_broken(server->endpoint)) {
		kv_break(kv, TALLY_ERR_INTERNAL,
			 "server %s has committed what was never sent to table %s", server->at.text,
			 kv->name);
		return UINT64_MAX;
	}
	if (endpoint_sparse_worker(server->endpoint)->low > server->hot_low) {
		server->hot_low = endpoint_sparse_worker(server->endpoint)->low;
		server->hot_ns = kv->now_ns;
	}
	/* Before that the switch takes nothing. */
	if (server->to_switch.core.is_welcome)
		due_ns = rto_least(due_ns, endpoint_sparse_turn(server->endpoint));
	return due_ns;
}

bool kv_hot_is_committed(const struct kv_server *server, uint64_t seq)
{
	return !seq || endpoint_sparse_worker(server->endpoint)->low > seq;
}
