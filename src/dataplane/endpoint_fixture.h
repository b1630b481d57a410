/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_fixture.h - for tests: endpoints around one switch program, over a network made of arrays. Included
 * once in a program.
 */
#ifndef DATAPLANE_ENDPOINT_FIXTURE_H
#define DATAPLANE_ENDPOINT_FIXTURE_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/latency/switch_latency.h"
#include "dataplane/endpoint.h"
#include "util/rng.h"

/* A test may leave some of this unused, but nothing of its own: that would be a test that does not run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"

enum {
	WORKERS_MAX = 4,
	SLOTS = 24,
	LANES = 8,
	PACKET_BYTES = WIRE_HEADER_BYTES + LANES * WIRE_LANE_BYTES,
	QUEUE = 4096,
	STEP_NS = 200 * 1000,
	GENERATION = 7,
};

struct packet {
	uint32_t bytes;
	_Alignas(8) uint8_t data[PACKET_BYTES];
};

struct queue {
	struct packet packets[QUEUE];
	uint32_t head, count;
};

struct net;

enum { TO_SWITCH = WORKERS_MAX };

struct test_link {
	struct link link;
	struct net *net;
	uint32_t frames; /* sent */
	struct queue inbox;
	struct packet lent[64];
	struct link_frame left; /* the first that an offer did not take */
};

struct net {
	struct test_link links[WORKERS_MAX];
	struct queue to_switch;
	struct switch_job job;
	struct switch_slot slots[SLOTS];
	struct switch_latency_slot latency_slots[SLOTS];
	int32_t sums[SLOTS][2][LANES]; /* in latency mode the first alone */
	struct endpoint *endpoints[WORKERS_MAX];
	atomic_uint contenders; /* for each of them */
	uint32_t workers, mismatches;
	uint32_t done[WORKERS_MAX];   /* operations */
	uint64_t cookie[WORKERS_MAX]; /* of the last of them */
	uint32_t loss;                /* in 256 */
	bool is_big_endian;
	/* NULL, or is this packet lost? `worker` is who gets it; TO_SWITCH: it is from its child. */
	bool (*is_lost)(struct net *net, const struct wire *wire, uint32_t worker);
	void *lost_arg;
	uint64_t now_ns;
	struct rng rng;
};

static uint64_t seed_of_run(void)
{
	const char *text = getenv("TALLY_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : 20260101;

	printf("seed %llu (TALLY_TEST_SEED)\n", (unsigned long long)seed);
	return seed;
}

static void queue_put(struct net *net, uint32_t worker, const uint8_t *data, uint32_t bytes)
{
	struct queue *queue = worker == TO_SWITCH ? &net->to_switch : &net->links[worker].inbox;
	struct packet *packet;
	struct wire wire;

	if (rng_below(&net->rng, 256) < net->loss)
		return;
	if (net->is_lost && !wire_check(data, bytes, &wire) && net->is_lost(net, &wire, worker))
		return;
	assert_true(queue->count < QUEUE);
	packet = &queue->packets[(queue->head + queue->count++) % QUEUE];
	packet->bytes = bytes;
	memcpy(packet->data, data, bytes);
}

static bool queue_get(struct queue *queue, struct packet *packet)
{
	if (!queue->count)
		return false;
	*packet = queue->packets[queue->head];
	queue->head = (queue->head + 1) % QUEUE;
	queue->count--;
	return true;
}

static const struct link_address switch_address = { .ip = { [15] = 9 }, .port = 7171 };

static int test_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	struct test_link *at = (struct test_link *)(void *)link;
	uint32_t count = 0;

	while (count < max && count < 64 && queue_get(&at->inbox, &at->lent[count])) {
		frames[count] = (struct link_frame){ .peer = switch_address,
						     .packet_bytes = at->lent[count].bytes,
						     .count = 1,
						     .bytes = at->lent[count].bytes,
						     .data = at->lent[count].data };
		count++;
	}
	return (int)count;
}

static int test_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	struct test_link *at = (struct test_link *)(void *)link;

	at->frames += count;
	for (uint32_t i = 0; i < count; i++) {
		const struct link_frame *frame = &frames[i];

		assert_true(frame->bytes > (frame->count - 1) * frame->packet_bytes);
		assert_true(frame->bytes <= frame->count * frame->packet_bytes);
		assert_true(frame->count <= LINK_FRAME_PACKETS_MAX);
		for (uint32_t from = 0; from < frame->bytes; from += frame->packet_bytes)
			queue_put(at->net, TO_SWITCH, frame->data + from,
				  link_packet_bytes(frame, from));
	}
	return 0;
}

static enum link_wait test_wait(struct link *link, uint64_t until_ns)
{
	(void)link;
	(void)until_ns;
	return LINK_TIME;
}

static uint64_t test_now(struct link *link)
{
	return ((struct test_link *)(void *)link)->net->now_ns;
}

static void test_nothing(struct link *link)
{
	(void)link;
}

static const struct link_ops test_ops = {
	.recv = test_recv,
	.send = test_send,
	.wait = test_wait,
	.wake = test_nothing,
	.now_ns = test_now,
	.close = test_nothing,
};

/* A link that has room for a few frames now and then, and none at all in between. */
static int narrow_offer(struct link *link, const struct link_frame *frames, uint32_t count,
			uint32_t *taken)
{
	struct test_link *at = (struct test_link *)(void *)link;
	struct net *net = at->net;
	uint32_t room = rng_below(&net->rng, 4) ? 0 : rng_below(&net->rng, 3);

	if (at->left.count) {
		assert_ptr_equal(frames[0].data, at->left.data);
		assert_int_equal(frames[0].bytes, at->left.bytes);
	}
	*taken = count < room ? count : room;
	at->left = *taken < count ? frames[*taken] : (struct link_frame){ 0 };
	return test_send(link, frames, *taken);
}

static int never_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	(void)link;
	(void)frames;
	fail_msg("%u frames sent in a way that may wait", count);
	return 0;
}

static const struct link_ops narrow_ops = {
	.recv = test_recv,
	.send = never_send,
	.offer = narrow_offer,
	.wait = test_wait,
	.wake = test_nothing,
	.now_ns = test_now,
	.close = test_nothing,
};

static enum switch_verdict switch_serve(struct net *net, struct wire *wire, const int32_t *lane)
{
	uint32_t slot = wire->slot;

	if (net->job.mode != SWITCH_DENSE) {
		assert_int_equal(switch_latency_admit(&net->job, wire), SWITCH_ABSORB);
		return switch_latency_step(&net->job, &net->latency_slots[slot], net->sums[slot][0],
					   wire, lane, NULL);
	}
	assert_int_equal(switch_admit(&net->job, wire), SWITCH_ABSORB);
	return switch_step(&net->job, &net->slots[slot], net->sums[slot][0], LANES, wire, lane,
			   NULL);
}

/* R-WIRE-6 */
static void lanes_turn(const struct net *net, int32_t *lane, uint32_t count)
{
	for (uint32_t i = 0; i < count && net->is_big_endian; i++)
		lane[i] = (int32_t)ntohl((uint32_t)lane[i]);
}

static void serve_one(struct net *net, struct packet *packet)
{
	int32_t *lane = (int32_t *)(void *)(packet->data + WIRE_HEADER_BYTES);
	struct wire wire = { 0 };
	enum switch_verdict verdict;
	uint32_t child;

	assert_int_equal(wire_check(packet->data, packet->bytes, &wire), WIRE_OK);
	if (wire.type == WIRE_HELLO)
		return; /* a worker that hears nothing says it again */
	child = wire.child;
	lanes_turn(net, lane, wire.lanes);
	verdict = switch_serve(net, &wire, lane);
	assert_true(verdict <= SWITCH_MISMATCH);
	net->mismatches += verdict == SWITCH_MISMATCH;
	if (verdict != SWITCH_REPLY && verdict != SWITCH_MULTICAST)
		return;
	memcpy(lane,
	       net->sums[wire.slot][net->job.mode == SWITCH_DENSE && switch_copy_of(wire.seq)],
	       wire.lanes * sizeof(*lane));
	lanes_turn(net, lane, wire.lanes);
	for (uint32_t i = 0; i < net->workers; i++) {
		struct wire answer = wire;

		if (verdict == SWITCH_REPLY && i != child)
			continue;
		if (verdict == SWITCH_MULTICAST && net->job.mode == SWITCH_DENSE &&
		    switch_set_has(net->slots[wire.slot].bare, i))
			answer.lanes = 0;
		wire_put(packet->data, &answer);
		queue_put(net, i, packet->data, wire_bytes(answer.lanes));
	}
}

/* A job with S slots; `window` 0: dense mode, else P. Of odd seeds: the switch is a chip, with big-endian lanes. */
static struct net *net_open_as(uint32_t workers, uint32_t slots, uint32_t window, uint32_t loss,
			       uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));

	assert_non_null(net);
	assert_true(slots <= SLOTS);
	rng_init(&net->rng, seed, 0);
	net->workers = workers;
	net->loss = loss;
	net->is_big_endian = seed % 2;
	net->now_ns = 1000 * 1000 * 1000;
	net->job = (struct switch_job){
		.generation = GENERATION, .slots = slots, .lanes = LANES, .enabled = 1
	};
	if (window)
		net->job.mode = (uint8_t)switch_latency_mode(slots, window);
	switch_job_fill(&net->job, workers);
	for (uint32_t i = 0; i < workers; i++) {
		struct endpoint_shard shard = { .address = switch_address,
						.generation = GENERATION,
						.child = (uint16_t)i,
						.is_big_endian = net->is_big_endian };
		struct endpoint_options options = { .link = &net->links[i].link,
						    .quant = &quant_scalar,
						    .shards = &shard,
						    .shards_count = 1,
						    .workers = workers,
						    .slots = slots,
						    .run = 4,
						    .window = 8,
						    .latency_window = window,
						    .contenders = &net->contenders };

		net->links[i].link.ops = &test_ops;
		net->links[i].net = net;
		net->endpoints[i] = endpoint_open(&options);
		assert_non_null(net->endpoints[i]);
		assert_int_equal(endpoint_start(net->endpoints[i], LANES), 0);
	}
	return net;
}

static struct net *net_open(uint32_t workers, uint32_t loss, uint64_t seed)
{
	return net_open_as(workers, SLOTS, 0, loss, seed);
}

static void net_close(struct net *net)
{
	for (uint32_t i = 0; i < net->workers; i++)
		endpoint_close(net->endpoints[i]);
	free(net);
}

static void done_take(struct net *net, uint32_t worker, uint64_t cookie)
{
	/* R-LAT-14: strictly in their order. */
	if (net->job.mode != SWITCH_DENSE && net->done[worker])
		assert_int_equal(cookie, net->cookie[worker] + 1);
	net->cookie[worker] = cookie;
	net->done[worker]++;
}

/* Everybody takes what has come and sends what may be sent, once. */
static void net_step(struct net *net)
{
	struct packet packet;
	uint64_t cookies[16];

	for (uint32_t i = 0; i < net->workers; i++) {
		endpoint_poll(net->endpoints[i]);
		assert_int_equal(endpoint_fault(net->endpoints[i]), ENDPOINT_OK);
		for (uint32_t more = 16; more == 16;) {
			more = endpoint_done(net->endpoints[i], cookies, 16);
			for (uint32_t k = 0; k < more; k++)
				done_take(net, i, cookies[k]);
		}
	}
	while (queue_get(&net->to_switch, &packet))
		serve_one(net, &packet);
	net->now_ns += STEP_NS;
}

/* 2,000 packets of random bytes to worker 0, every other one with a good version. */
static void net_garbage(struct net *net)
{
	for (uint32_t i = 0; i < 2000; i++) {
		struct packet packet = { .bytes = 1 + rng_below(&net->rng, PACKET_BYTES) };

		for (uint32_t b = 0; b < packet.bytes; b++)
			packet.data[b] = (uint8_t)rng_next(&net->rng);
		if (i & 1)
			packet.data[0] = (uint8_t)(WIRE_VERSION << 4 | (i / 2) % 16);
		queue_put(net, 0, packet.data, packet.bytes);
		endpoint_poll(net->endpoints[0]);
	}
}

/* Runs until every endpoint has `count` more operations done, at most `seconds` of virtual time. */
static bool net_run(struct net *net, uint32_t count, uint32_t seconds)
{
	uint64_t end_ns = net->now_ns + seconds * 1000000000ull;
	uint32_t last[WORKERS_MAX], left = net->workers;

	for (uint32_t i = 0; i < net->workers; i++)
		last[i] = net->done[i] + count;
	while (net->now_ns < end_ns && left) {
		net_step(net);
		left = 0;
		for (uint32_t i = 0; i < net->workers; i++)
			left += net->done[i] < last[i];
	}
	return !left;
}

static struct endpoint_op op_of_type(enum lanes_type type, uint64_t number, void *buffer,
				     uint64_t count)
{
	return (struct endpoint_op){
		.descriptor = { .number = number, .count = count, .type = type, .name = "" },
		.source = buffer,
		.destination = buffer,
		.count = count,
		.type = type,
		.stream = -1,
		.cookie = number
	};
}

#pragma GCC diagnostic pop

#endif
