/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_path.c - an endpoint's HELLOs, and what their answers, or the lack of them, say of the path to
 * each shard. What else goes out and comes in: endpoint_flow.c.
 */
#include <assert.h>
#include <string.h>

#include "dataplane/endpoint_state.h"

enum { WATCHES_LEAST = 12 };

static const uint64_t WATCH_NS = 500000000;       /* nothing for so long: a full HELLO, and again */
static const uint64_t WATCH_AGAIN_NS = 100000000; /* ... while it has no answer */
static const uint64_t WATCH_LATE_NS = 1000000000; /* for so long nobody has asked */
static const uint64_t SHORT_NS =
	1000000000; /* short ones have an answer for so long: it is the MTU */

/* A HELLO is as long as the longest packet. */
static uint32_t hello_lanes(const struct endpoint *endpoint)
{
	return endpoint->lanes < WIRE_HELLO_LANES ? WIRE_HELLO_LANES : endpoint->lanes;
}

void endpoint_hello(struct endpoint *endpoint, uint32_t shard, uint32_t serial, uint32_t lanes)
{
	struct shard_state *state = &endpoint->shards[shard];
	struct wire header = { .type = WIRE_HELLO,
			       .job = state->grant.job,
			       .generation = state->grant.generation,
			       .seq = serial,
			       .child = state->grant.child,
			       .lanes = (uint16_t)lanes };

	assert(lanes >= WIRE_HELLO_LANES && lanes <= WIRE_LANES_MAX);
	if (!endpoint_flush(endpoint))
		return; /* it will be said again */
	memset(endpoint->hello_bytes, 0, wire_bytes(lanes));
	wire_put(endpoint->hello_bytes, &header);
	memcpy(endpoint->hello_bytes + WIRE_HEADER_BYTES, state->grant.nonce, WIRE_NONCE_BYTES);
	state->serial = serial;
	state->hello_ns = endpoint->link->ops->now_ns(endpoint->link);
	endpoint_emit(endpoint, shard, endpoint->hello_bytes, wire_bytes(lanes));
	endpoint_flush(endpoint);
}

void endpoint_path_moved(struct endpoint *endpoint, uint32_t shard)
{
	struct shard_state *state = &endpoint->shards[shard];

	state->moved_ns = endpoint->now_ns;
	state->full_ns = 0;
	state->answered_ns = 0;
	state->watches = 0;
}

void endpoint_path_welcome(struct endpoint *endpoint, uint32_t shard, const struct wire *packet,
			   const uint8_t *body)
{
	struct shard_state *state = &endpoint->shards[shard];
	struct endpoint_welcome *welcome;

	if (packet->lanes < WIRE_HELLO_LANES || packet->child != state->grant.child)
		return;
	state->short_ns = endpoint->now_ns;
	if (packet->lanes >= hello_lanes(endpoint))
		endpoint_path_moved(endpoint, shard);
	else if (state->full_ns && !state->answered_ns)
		state->answered_ns = endpoint->now_ns;
	if (packet->seq == state->serial && state->hello_ns) {
		pace_sample(endpoint->pace_used, shard, endpoint->now_ns - state->hello_ns);
		state->hello_ns = 0;
	}
	if (endpoint->welcomes_count == ENDPOINT_WELCOMES)
		return;
	welcome = &endpoint->welcomes[endpoint->welcomes_count++];
	*welcome = (struct endpoint_welcome){ .shard = shard,
					      .serial = packet->seq,
					      .lanes = packet->lanes };
	memcpy(welcome->seen.ip, body, sizeof(welcome->seen.ip));
	welcome->seen.port = wire_get16(body + sizeof(welcome->seen.ip));
}

/* R-PACE-10: as long as nothing of full size comes from a shard where something waits, is the path still
 * as wide as at the start? */
static void watch_path(struct endpoint *endpoint, uint32_t shard)
{
	const struct pace_shard *pace = &endpoint->pace_used->shards[shard];
	struct shard_state *state = &endpoint->shards[shard];
	uint64_t now_ns = endpoint->now_ns;

	if (pace_is_idle(pace)) {
		endpoint_path_moved(endpoint, shard);
		return;
	}
	if (now_ns - state->moved_ns < WATCH_NS ||
	    now_ns - state->watch_ns < (state->full_ns ? WATCH_AGAIN_NS : WATCH_NS))
		return;
	if (!state->full_ns)
		state->full_ns = now_ns;
	state->watch_ns = now_ns;
	state->watches++;
	endpoint_hello(endpoint, shard, state->serial + 1, hello_lanes(endpoint));
	if (hello_lanes(endpoint) > WIRE_HELLO_LANES)
		endpoint_hello(endpoint, shard, state->serial + 1, WIRE_HELLO_LANES);
}

bool endpoint_path_lost(const struct endpoint *endpoint, uint32_t shard, uint64_t now_ns,
			struct endpoint_path *path)
{
	const struct shard_state *state = &endpoint->shards[shard];
	bool is_short = state->answered_ns && now_ns < state->short_ns + SHORT_NS;

	/* So many, too: who has overslept has said few. The thread that says them reads the answers, and may
	 * oversleep alone. */
	if (!endpoint->lanes || !state->full_ns || state->watches < WATCHES_LEAST ||
	    now_ns < state->full_ns + ENDPOINT_PATH_NS || now_ns > state->watch_ns + WATCH_LATE_NS)
		return false;
	/* A link that is back may let a short one through first. */
	if (is_short && now_ns < state->answered_ns + SHORT_NS)
		return false;
	*path = (struct endpoint_path){ .shard = shard,
					.since_ns = state->full_ns,
					.is_short_heard = is_short };
	return true;
}

void endpoint_knock(struct endpoint *endpoint, uint32_t shard)
{
	endpoint_hello(endpoint, shard, endpoint->shards[shard].serial + 1, WIRE_HELLO_LANES);
}

uint64_t endpoint_welcomed_ns(const struct endpoint *endpoint, uint32_t shard)
{
	return endpoint->shards[shard].short_ns;
}

void endpoint_path_hellos(struct endpoint *endpoint)
{
	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
		watch_path(endpoint, shard);
	for (uint32_t shard = 0; shard < endpoint->map.shards; shard++)
		if (pace_hello_due(endpoint->pace_used, shard, endpoint->now_ns))
			endpoint_knock(endpoint, shard);
}
