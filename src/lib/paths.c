/* SPDX-License-Identifier: Apache-2.0 */
/* paths.c - see paths.h. */
#include "lib/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "server/plan.h"
#include "simd/simd.h"

enum { MTU_LEAST = 576 };

static const uint8_t loopback[16] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 };

static bool is_v6(const struct link_address *address)
{
	return !link_address_is_v4(address);
}

uint32_t paths_mtu(const struct conn_address *address)
{
	struct link_address peer = { 0 };
	int mtu;

	conn_address_ip(address, peer.ip, &peer.port);
	if (!peer.port)
		memcpy(peer.ip, loopback, 16);
	peer.port = CONTROL_PORT;
	mtu = link_udp_mtu(&peer, is_v6(&peer));
	return mtu > 0 ? (uint32_t)mtu : 0;
}

/* The family of the address decides which of ours may be taken. */
static bool from_pick(struct bootstrap *boot, struct conn_address *address, char *why,
		      size_t why_bytes)
{
	struct link_address peer = { 0 }, from = { 0 };

	link_address_from_socket((const union link_sockaddr *)&address->socket, &peer);
	if (!interface_pick(boot->ifname, peer.ip, from.ip, boot->interface, why, why_bytes))
		return false;
	memcpy(boot->from, from.ip, sizeof(boot->from));
	address->from_bytes =
		link_address_to_socket(&from, is_v6(&from), (union link_sockaddr *)&address->from);
	return true;
}

bool paths_from(struct bootstrap *boot, struct conn_address *address, char *why, size_t why_bytes)
{
	if (!boot->ifname[0] || address->socket.ss_family == AF_UNIX)
		return true;
	for (uint32_t i = 0; i <= address->others_count; i++) {
		if (from_pick(boot, address, why, why_bytes))
			return true;
		conn_address_next(address);
	}
	return false;
}

/* Where a shard is: zeros mean the host that the control connection goes to. */
static void shard_address(const struct conn *conn, const struct control_shard *shard,
			  struct link_address *address)
{
	static const uint8_t zeros[16];
	uint16_t port;

	memcpy(address->ip, shard->ip, 16);
	if (!memcmp(address->ip, zeros, 16))
		conn_peer(conn, address->ip, &port);
	if (!memcmp(address->ip, zeros, 16))
		memcpy(address->ip, loopback, 16);
	address->port = shard->port;
}

/* What one packet to the shard may hold (R-WIRE-4). */
static uint32_t lanes_of(const struct link_address *address, const struct control_shard *shard)
{
	int mtu = link_udp_mtu(address, is_v6(address));
	uint32_t headers = wire_overhead(is_v6(address)) + WIRE_HEADER_BYTES + shard->trailer;
	uint32_t lanes;

	if (mtu < MTU_LEAST)
		mtu = MTU_LEAST; /* HELLO finds out */
	lanes = ((uint32_t)mtu - headers) / WIRE_LANE_BYTES;
	if (lanes > shard->lanes)
		lanes = shard->lanes;
	return lanes - lanes % WIRE_LANES_STEP;
}

/* What this version cannot do. NULL: fine. */
static const char *grant_refuse(const struct tally_comm *comm, const struct control_grant *grant)
{
	if (comm->latency_slots &&
	    (grant->shards_count != 1 || grant->shards[0].slots != comm->latency_slots))
		return "the aggregator does not do latency mode";
	for (uint32_t i = 0; i < grant->shards_count; i++) {
		const struct control_shard *shard = &grant->shards[i];

		if (shard->trailer)
			return "the aggregator wants trailers, which this version cannot send";
	}
	return NULL;
}

/* The shards of all aggregators, in order, and what all of them have. */
struct shards {
	struct endpoint_shard shard[MAP_SHARDS_MAX];
	uint32_t count, lanes, slots, run, window, workers;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void shards_add(struct shards *shards, const struct conn *conn,
		       const struct control_grant *grant)
{
	shards->workers = grant->workers;
	for (uint32_t i = 0; i < grant->shards_count; i++) {
		const struct control_shard *its = &grant->shards[i];
		struct endpoint_shard *shard = &shards->shard[shards->count++];

		shard_address(conn, its, &shard->address);
		shard->generation = its->generation;
		shard->job = its->job;
		shard->child = its->child;
		shard->is_big_endian = its->is_big_endian;
		memcpy(shard->nonce, grant->nonce, WIRE_NONCE_BYTES);
		shards->lanes = min_u32(shards->lanes, lanes_of(&shard->address, its));
		shards->slots = min_u32(shards->slots, its->slots);
		shards->run = min_u32(shards->run, its->run);
		shards->window = min_u32(shards->window, its->window);
	}
}

/* NULL, or why not. */
static const char *shards_fill(const struct tally_comm *comm, struct shards *shards,
			       const struct paths_grant *grants, uint32_t grants_count)
{
	*shards = (struct shards){ .lanes = WIRE_LANES_MAX,
				   .slots = UINT32_MAX,
				   .run = MAP_RUN_MAX,
				   .window = UINT32_MAX };
	if (comm->latency_slots && grants_count > 1)
		return "latency mode takes one aggregator, not a list";
	for (uint32_t i = 0; i < grants_count; i++) {
		const char *refused = grant_refuse(comm, grants[i].grant);

		if (refused)
			return refused;
		if (shards->count + grants[i].grant->shards_count > MAP_SHARDS_MAX)
			return "the aggregators have more than 64 shards";
		shards_add(shards, grants[i].conn, grants[i].grant);
	}
	for (uint32_t i = 1; i < shards->count; i++)
		if (is_v6(&shards->shard[i].address) != is_v6(&shards->shard[0].address))
			return "some aggregators are reached over IPv4, others over IPv6: name "
			       "all of them by addresses of one family";
	return NULL;
}

/* Once for each communicator. All shards share this host's link, which the window of one of them can fill:
 * as long as that many packets are on their way to all of them together, nothing is slower. */
static void say_shrunk(const struct tally_comm *comm, uint32_t receive_bytes, uint32_t shards,
		       uint32_t window, uint32_t wanted)
{
	bool is_slower = window * shards < wanted;

	report_log(&comm->who, is_slower ? TALLY_LOG_WARN : TALLY_LOG_INFO,
		   "receive buffer: %u KiB hold a window of %u packets from each of %u shards, not "
		   "%u%s",
		   receive_bytes >> 11, window, shards, wanted,
		   is_slower ? ": for full speed raise net.core.rmem_max (sysctl -w "
			       "net.core.rmem_max=16777216, as root)"
			     : "");
}

/* The results of a window from every shard have to fit into our receive buffer. */
static uint32_t window_of(const struct tally_comm *comm, const struct shards *shards,
			  uint32_t receive_bytes)
{
	uint32_t wanted = comm->window_packets ? comm->window_packets : shards->window;
	uint32_t window;

	wanted = min_u32(wanted ? wanted : 1, shards->slots); /* no more are ever on their way */
	if (comm->latency_slots)
		return wanted; /* its own window counts */
	window = plan_window_fit(wanted, receive_bytes, shards->count, wire_bytes(shards->lanes));
	if (window < wanted)
		say_shrunk(comm, receive_bytes, shards->count, window, wanted);
	return window;
}

static int endpoint_make(struct tally_comm *comm, const struct shards *shards, struct link *link,
			 uint32_t window, char *text)
{
	const struct endpoint_options options = {
		.link = link,
		.quant = simd_best(),
		.shards = shards->shard,
		.shards_count = shards->count,
		.workers = shards->workers,
		.slots = shards->slots,
		.run = shards->run,
		.window = window,
		.is_window_fixed = comm->window_packets,
		.latency_window = comm->latency_slots ? comm->latency_window : 0,
		.contenders = &comm->contenders,
	};
	struct endpoint *endpoint = endpoint_open(&options);

	if (!endpoint) {
		snprintf(text, CONTROL_TEXT_BYTES,
			 "no endpoint for %u shards of %u slots in runs of %u: out of memory, or "
			 "impossible",
			 options.shards_count, options.slots, options.run);
		return TALLY_ERR_NO_MEMORY;
	}
	comm_lock(comm);
	comm->link = link;
	comm->endpoint = endpoint;
	comm->shards = options.shards_count;
	comm->slots = options.slots;
	comm->run = options.run;
	comm_unlock(comm);
	return TALLY_OK;
}

int paths_open(struct tally_comm *comm, const struct paths_grant *grants, uint32_t grants_count,
	       uint16_t *lanes, char text[CONTROL_TEXT_BYTES])
{
	uint32_t receive_bytes = 0;
	struct link_udp_options options = { .poll_count = comm->poll_count,
					    .receive_got = &receive_bytes };
	struct shards shards;
	const char *refused = shards_fill(comm, &shards, grants, grants_count);
	struct link *link;
	int result;

	if (refused) {
		snprintf(text, CONTROL_TEXT_BYTES, "%s", refused);
		return TALLY_ERR_UNSUPPORTED;
	}
	options.is_v6 = is_v6(&shards.shard[0].address);
	memcpy(options.local.ip, comm->boot.from, sizeof(options.local.ip));
	result = link_udp_open(&link, &options);
	if (result) {
		snprintf(text, CONTROL_TEXT_BYTES, "no UDP socket: %s", strerror(-result));
		return TALLY_ERR_SYSTEM;
	}
	result = endpoint_make(comm, &shards, link, window_of(comm, &shards, receive_bytes), text);
	if (result) {
		link->ops->close(link);
		return result;
	}
	*lanes = (uint16_t)shards.lanes;
	return TALLY_OK;
}

bool paths_is_v6(const struct tally_comm *comm)
{
	return is_v6(endpoint_address(comm->endpoint, 0));
}

static uint32_t packet_bytes(const struct tally_comm *comm)
{
	return wire_bytes(comm->lanes < WIRE_HELLO_LANES ? WIRE_HELLO_LANES : comm->lanes);
}

static uint32_t mtu_needed(const struct tally_comm *comm, const struct link_address *address)
{
	return wire_overhead(is_v6(address)) + packet_bytes(comm);
}

void paths_say_too_large(const struct tally_comm *comm, char text[CONTROL_TEXT_BYTES])
{
	uint32_t shard = endpoint_fault_shard(comm->endpoint);
	const struct link_address *address = endpoint_address(comm->endpoint, shard);
	int mtu = link_udp_mtu(address, is_v6(address));
	char peer[64], now[48] = "";

	if (mtu > 0)
		snprintf(now, sizeof(now), ", and is %d now", mtu);
	snprintf(text, CONTROL_TEXT_BYTES,
		 "UDP datagrams of %u bytes to the aggregator at %s have become too large for the "
		 "path: its MTU was %u or more when the job began%s: set the same MTU all the way, "
		 "or cap packets (tallyd --lanes)",
		 packet_bytes(comm), link_address_format(address, peer), mtu_needed(comm, address),
		 now);
}

void paths_say_lost(const struct tally_comm *comm, const struct endpoint_path *path,
		    uint64_t for_ns, char text[CONTROL_TEXT_BYTES])
{
	const struct link_address *address = endpoint_address(comm->endpoint, path->shard);
	unsigned seconds = (unsigned)(for_ns / 1000000000);
	char peer[64];

	link_address_format(address, peer);
	if (path->is_short_heard)
		snprintf(text, CONTROL_TEXT_BYTES,
			 "UDP datagrams of %u bytes to the aggregator at %s have had no answer for "
			 "%u s, short ones have: the MTU of the path has fallen below %u: set the "
			 "same MTU all the way, or cap packets (tallyd --lanes)",
			 packet_bytes(comm), peer, seconds, mtu_needed(comm, address));
	else
		snprintf(text, CONTROL_TEXT_BYTES,
			 "UDP to the aggregator at %s worked when the job began, and has had no "
			 "answer "
			 "for %u s, while TCP works (firewall?)",
			 peer, seconds);
}
