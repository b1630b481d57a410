/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency mode's slots in the kernel (src/dataplane/hook_tc.c): the daemon's way to them does what the user-space build
 * of core/latency/switch_latency.h does; and on a device, packets are served that need no daemon, and the others left
 * to it. In a network namespace of its own, on its loopback device. Arguments: how many random packets, the seed. Exit
 * status 77: what is needed is not there.
 */
#define SWITCH_LANES_MAX 360 /* as in latency_tc.bpf.c */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataplane/hook_tc.h"
#include "util/rng.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { PORT = 7171, CHILDREN = 3, SLOTS = 4, JOB = 5, LANES = 8, WAIT_MS = 20000, QUIET_MS = 30 };

static struct hook *hook;
static struct switch_job job;
static struct rng rng;
static uint32_t packets = 20000;
static uint64_t seed;

/* ---- the daemon's way ---- */

static struct {
	struct switch_latency_slot slot;
	int32_t sum[SWITCH_LANES_MAX];
} model[SLOTS];

static void job_new(enum switch_mode mode, uint32_t children, uint16_t lanes)
{
	static uint32_t generation;

	job = (struct switch_job){ .index = JOB,
				   .generation = ++generation,
				   .lanes = lanes,
				   .slots = SLOTS,
				   .enabled = 1,
				   .mode = (uint8_t)mode };
	switch_job_fill(&job, children);
	memset(model, 0, sizeof(model));
	assert_int_equal(hook->ops->add(hook, &job), 0);
	assert_true(hook->ops->set(hook, &job));
}

static struct wire packet_draw(void)
{
	uint32_t index = rng_below(&rng, SLOTS);
	const struct switch_latency_slot *slot = &model[index].slot;
	struct wire packet = { .type = WIRE_UPDATE,
			       .job = JOB,
			       .generation = job.generation,
			       .slot = (uint16_t)index,
			       .seq = slot->round,
			       .tag = slot->tag,
			       .lanes = slot->lanes,
			       .child = (uint16_t)rng_below(&rng, job.children) };

	if (slot->generation != job.generation)
		packet.seq = 1;
	else if (switch_set_is_full(&job, slot->sum_bitmap))
		packet.seq += rng_below(&rng, 2);
	if (packet.seq != slot->round) {
		packet.lanes = (uint16_t)(4 * rng_below(&rng, job.lanes / 4 + 1u));
		packet.tag = rng_below(&rng, 3);
	}
	if (job.mode == SWITCH_LATENCY_ACKNOWLEDGED && rng_below(&rng, 2)) {
		packet.type = WIRE_ACK;
		packet.lanes = 0;
	}
	if (!rng_below(&rng, 8))
		packet.flags = WIRE_RESENT | (uint8_t)(rng_below(&rng, 4) << 5);
	if (!rng_below(&rng, 20))
		packet.seq += rng_below(&rng, 5) - 2;
	if (!rng_below(&rng, 40) && packet.type == WIRE_UPDATE)
		packet.lanes = 4;
	return packet;
}

/* The answer's lanes are those of the question, or it has none. */
static enum switch_verdict model_step(struct wire *packet, const int32_t *lane, int32_t *sum)
{
	uint32_t index = packet->slot, lanes = packet->lanes;
	enum switch_verdict verdict =
		switch_latency_step(&job, &model[index].slot, model[index].sum, packet, lane, NULL);

	if (verdict != SWITCH_REPLY && verdict != SWITCH_MULTICAST)
		return verdict;
	if (packet->lanes && packet->lanes != lanes)
		return SWITCH_MISMATCH;
	memcpy(sum, model[index].sum, packet->lanes * sizeof(*sum));
	return verdict;
}

static void random_steps(enum switch_mode mode, uint32_t children, uint16_t lanes)
{
	uint32_t seen[SWITCH_VERDICT_COUNT] = { 0 };

	job_new(mode, children, lanes);
	for (uint32_t i = 0; i < packets; i++) {
		int32_t lane[SWITCH_LANES_MAX], is_sum[SWITCH_LANES_MAX] = { 0 };
		int32_t sum[SWITCH_LANES_MAX] = { 0 };
		struct wire packet = packet_draw(), is = packet, should_be = packet;
		struct switch_latency_slot slot;
		enum switch_verdict is_verdict, verdict;

		for (uint32_t k = 0; k < packet.lanes; k++)
			lane[k] = (int32_t)rng_u32(&rng);
		is_verdict = hook->ops->step(hook, &is, lane, is_sum);
		verdict = model_step(&should_be, lane, sum);
		hook->ops->read(hook, JOB, packet.slot, &slot);
		if (is_verdict != verdict || memcmp(&slot, &model[packet.slot].slot, sizeof(slot)))
			fail_msg("packet %u: verdict %d, should be %d (seed %llu)", i, is_verdict,
				 verdict, (unsigned long long)seed);
		seen[verdict]++;
		if (verdict != SWITCH_REPLY && verdict != SWITCH_MULTICAST)
			continue;
		assert_memory_equal(&is, &should_be, sizeof(is));
		assert_memory_equal(is_sum, sum, sizeof(sum));
	}
	for (enum switch_verdict verdict = 0; verdict < SWITCH_VERDICT_COUNT; verdict++)
		if (verdict <= SWITCH_MULTICAST || verdict == SWITCH_MISMATCH ||
		    verdict >= SWITCH_DROP_STALE)
			assert_in_range(seen[verdict], packets / 2000, packets);
	hook->ops->remove(hook, JOB);
}

static void steps__are_those_of_the_program_in_user_space(void **state)
{
	(void)state;
	random_steps(SWITCH_LATENCY, 3, LANES);
	random_steps(SWITCH_LATENCY, 64, 360);
	random_steps(SWITCH_LATENCY_ACKNOWLEDGED, 3, 64);
}

static void steps__of_a_job_that_is_gone_are_dropped(void **state)
{
	struct wire packet = { .type = WIRE_UPDATE, .job = JOB, .generation = 1, .seq = 1 };
	int32_t lane[1] = { 0 };

	(void)state;
	assert_int_equal(hook->ops->step(hook, &packet, lane, lane), SWITCH_DROP_JOB);
	packet.job = UINT16_MAX;
	assert_int_equal(hook->ops->step(hook, &packet, lane, lane), SWITCH_DROP_JOB);
}

static void steps__of_a_job_of_too_many_lanes_are_dropped(void **state)
{
	struct wire packet = { .type = WIRE_UPDATE, .job = JOB, .seq = 1 };
	int32_t lane[1] = { 0 };

	(void)state;
	job_new(SWITCH_LATENCY, 1, LANES);
	packet.generation = job.generation;
	job.lanes = SWITCH_LANES_MAX + 4;
	assert_false(hook->ops->set(hook, &job));
	assert_int_equal(hook->ops->step(hook, &packet, lane, lane), SWITCH_DROP_JOB);
	job.lanes = SWITCH_LANES_MAX;
	assert_true(hook->ops->set(hook, &job));
	assert_int_equal(hook->ops->step(hook, &packet, lane, lane), SWITCH_MULTICAST);
	hook->ops->remove(hook, JOB);
}

/* ---- on a device ---- */

static int daemon_fd, child_fd[CHILDREN];

static int udp_open(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static uint16_t port_of(uint32_t child)
{
	return (uint16_t)(40000 + child);
}

static int world_open(void **state)
{
	(void)state;
	job_new(SWITCH_LATENCY, CHILDREN, LANES);
	daemon_fd = udp_open(PORT);
	for (uint32_t i = 0; i < CHILDREN; i++) {
		struct link_address address = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
						.port = port_of(i) };

		child_fd[i] = udp_open(port_of(i));
		hook->ops->bind(hook, JOB, i, &address);
	}
	return 0;
}

static int world_close(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CHILDREN; i++)
		close(child_fd[i]);
	close(daemon_fd);
	hook->ops->remove(hook, JOB);
	return 0;
}

static struct wire update_of(uint32_t child, uint32_t seq)
{
	return (struct wire){ .type = WIRE_UPDATE,
			      .job = JOB,
			      .generation = job.generation,
			      .seq = seq,
			      .child = (uint16_t)child,
			      .lanes = LANES };
}

static uint32_t put(const struct wire *packet, int32_t value, uint8_t *at)
{
	wire_put(at, packet);
	for (uint32_t i = 0; i < packet->lanes; i++)
		memcpy(at + WIRE_HEADER_BYTES + i * sizeof(value),
		       &(int32_t){ value * (int32_t)(i + 1) }, sizeof(value));
	return wire_bytes(packet->lanes);
}

static void bytes_send(int fd, const uint8_t *bytes, size_t count)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	assert_int_equal(sendto(fd, bytes, count, 0, (struct sockaddr *)&to, sizeof(to)), count);
}

/* An UPDATE whose lane i is value * (i + 1). */
static void update_send(uint32_t child, uint32_t seq, int32_t value)
{
	struct wire packet = update_of(child, seq);
	uint8_t bytes[256];

	bytes_send(child_fd[child], bytes, put(&packet, value, bytes));
}

/* What is there within a moment; 0 bytes: nothing. */
static size_t take(int fd, uint8_t bytes[2048], int wait_ms)
{
	struct timeval wait = { .tv_usec = wait_ms % 1000 * 1000, .tv_sec = wait_ms / 1000 };
	ssize_t got;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	got = recv(fd, bytes, 2048, 0);
	assert_true(got >= 0 || errno == EAGAIN);
	return got > 0 ? (size_t)got : 0;
}

static void result_is(uint32_t child, uint32_t seq, int32_t value)
{
	uint8_t bytes[2048];
	struct wire packet;

	assert_int_equal(take(child_fd[child], bytes, WAIT_MS), wire_bytes(LANES));
	assert_int_equal(wire_check(bytes, wire_bytes(LANES), &packet), WIRE_OK);
	assert_int_equal(packet.type, WIRE_RESULT);
	assert_int_equal(packet.seq, seq);
	for (int32_t i = 0; i < LANES; i++) {
		int32_t lane;

		memcpy(&lane, bytes + WIRE_HEADER_BYTES + 4 * i, sizeof(lane));
		assert_int_equal(lane, value * (i + 1));
	}
}

static void nothing_comes(int fd)
{
	uint8_t bytes[2048];

	assert_int_equal(take(fd, bytes, QUIET_MS), 0);
}

static void nothing_is_left(void)
{
	nothing_comes(daemon_fd);
	for (uint32_t i = 0; i < CHILDREN; i++)
		nothing_comes(child_fd[i]);
}

/* What the daemon does with the next packet that is left to it: child's UPDATE of round seq. */
static enum switch_verdict daemon_step(uint32_t child, uint32_t seq, int32_t sum[LANES])
{
	uint8_t got[2048];
	struct wire packet;

	assert_int_equal(take(daemon_fd, got, WAIT_MS), wire_bytes(LANES));
	assert_int_equal(wire_check(got, wire_bytes(LANES), &packet), WIRE_OK);
	assert_int_equal(packet.type, WIRE_UPDATE);
	assert_int_equal(packet.child, child);
	assert_int_equal(packet.seq, seq);
	return hook->ops->step(hook, &packet, (int32_t *)(void *)(got + WIRE_HEADER_BYTES), sum);
}

/* It does not take what it could not tell to all: the first packets of all but the last to come. */
static void packets__are_the_daemons_until_all_have_sent_one(void **state)
{
	int32_t sum[LANES];

	(void)state;
	update_send(0, 1, 1000);
	assert_int_equal(daemon_step(0, 1, sum), SWITCH_ABSORB);
	update_send(1, 1, 1000 - 7);
	assert_int_equal(daemon_step(1, 1, sum), SWITCH_ABSORB);
	update_send(2, 1, 1000 - 14);
	for (uint32_t i = 0; i < CHILDREN; i++)
		result_is(i, 1, 3000 - 21);
	nothing_is_left();
}

static void rounds__need_no_daemon(void **state)
{
	uint64_t before[SWITCH_VERDICT_COUNT], after[SWITCH_VERDICT_COUNT];
	struct wire again = update_of(1, 50);
	struct hook_served served, more;
	uint8_t bytes[256];

	(void)state;
	hook->ops->counts(hook, before);
	hook->ops->served(hook, JOB, &served);
	for (uint32_t seq = 2; seq <= 50; seq++) {
		for (uint32_t i = 0; i < CHILDREN; i++)
			update_send((i + seq) % CHILDREN, seq,
				    (int32_t)(1000 * seq) - 7 * (int32_t)((i + seq) % CHILDREN));
		for (uint32_t i = 0; i < CHILDREN; i++)
			result_is(i, seq, (int32_t)(3000 * seq) - 21);
	}
	again.flags =
		WIRE_RESENT; /* a copy, whatever it says now: the result for its sender alone */
	bytes_send(child_fd[1], bytes, put(&again, 99, bytes));
	result_is(1, 50, 150000 - 21);
	nothing_is_left();
	hook->ops->counts(hook, after);
	assert_int_equal(after[SWITCH_ABSORB] - before[SWITCH_ABSORB], 98);
	assert_int_equal(after[SWITCH_MULTICAST] - before[SWITCH_MULTICAST], 49);
	assert_int_equal(after[SWITCH_REPLY] - before[SWITCH_REPLY], 1);
	hook->ops->served(hook, JOB, &more);
	assert_int_equal(more.updates - served.updates, 148);
	assert_int_equal(more.again - served.again, 1);
	assert_int_equal(more.results - served.results, 49);
}

/* As it came. */
static void is_left_to_daemon(int fd, const uint8_t *bytes, size_t count)
{
	uint8_t got[2048];

	bytes_send(fd, bytes, count);
	assert_int_equal(take(daemon_fd, got, WAIT_MS), count);
	assert_memory_equal(got, bytes, count);
	nothing_is_left();
}

/* R-LAT-10 */
static void packets__that_the_daemon_is_to_judge_reach_it_as_they_came(void **state)
{
	struct wire packet = update_of(0, 51);
	uint8_t bytes[256];
	uint32_t count = put(&packet, 5, bytes);
	int stranger = udp_open(port_of(CHILDREN));

	(void)state;
	is_left_to_daemon(stranger, bytes, count);
	is_left_to_daemon(child_fd[1], bytes, count); /* says that it is child 0 */
	is_left_to_daemon(child_fd[0], bytes, count - 1);
	is_left_to_daemon(child_fd[0], bytes, 5);
	packet.seq = 53; /* too early */
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	packet.seq = 49; /* too late */
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	packet = update_of(0, 51);
	packet.job++;
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	packet = update_of(0, 51);
	packet.generation++;
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	packet = (struct wire){ .type = WIRE_HELLO, .job = JOB, .lanes = WIRE_HELLO_LANES };
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	update_send(0, 51, 5);
	nothing_is_left();
	packet = update_of(0, 51); /* HELD is shorter than the frame */
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	packet = update_of(1, 51); /* a mismatch */
	packet.tag = 9;
	is_left_to_daemon(child_fd[1], bytes, put(&packet, 5, bytes));
	update_send(1, 51, -6);
	update_send(2, 51, 7);
	for (uint32_t i = 0; i < CHILDREN; i++)
		result_is(i, 51, 6);
	close(stranger);
}

static uint16_t sum16(const uint8_t *at, size_t bytes, uint32_t sum)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

enum { AT_IP = 14, AT_UDP = AT_IP + 20, AT_PACKET = AT_UDP + 8 };

enum { FRAME_BYTES = 512, VLAN_BYTES = 4, AT_VLAN = 12 };

static void frame_put(const uint8_t *frame, size_t bytes)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_ifindex = (int)if_nametoindex("lo") };
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	assert_true(fd >= 0);
	assert_int_equal(sendto(fd, frame, bytes, 0, (struct sockaddr *)&to, sizeof(to)), bytes);
	close(fd);
}

/* As it comes from another machine: whole, with a checksum of its own, in which `damage` bits are wrong. */
static size_t frame_make(uint8_t frame[FRAME_BYTES], uint32_t child, uint32_t seq, int32_t value,
			 uint16_t damage)
{
	struct wire packet = update_of(child, seq);
	uint32_t count = put(&packet, value, frame + AT_PACKET);
	uint16_t check;

	memset(frame, 0, AT_PACKET);
	wire_put16(frame + AT_VLAN, 0x0800);
	frame[AT_IP] = 0x45;
	frame[AT_IP + 8] = 64;
	frame[AT_IP + 9] = 17;
	wire_put16(frame + AT_IP + 2, (uint16_t)(20 + 8 + count));
	wire_put32(frame + AT_IP + 12, INADDR_LOOPBACK);
	wire_put32(frame + AT_IP + 16, INADDR_LOOPBACK);
	wire_put16(frame + AT_IP + 10, (uint16_t)~sum16(frame + AT_IP, 20, 0));
	wire_put16(frame + AT_UDP, port_of(child));
	wire_put16(frame + AT_UDP + 2, PORT);
	wire_put16(frame + AT_UDP + 4, (uint16_t)(8 + count));
	check = (uint16_t)~sum16(frame + AT_IP + 12, 16 + count,
				 17 + 8 + count); /* addresses, header, packet */
	wire_put16(frame + AT_UDP + 6, check ^ damage);
	return AT_PACKET + count;
}

static void frame_send(uint32_t child, uint32_t seq, int32_t value, uint16_t damage)
{
	uint8_t frame[FRAME_BYTES];

	frame_put(frame, frame_make(frame, child, seq, value, damage));
}

/* A bit that has fallen over on the way must not be in a sum. An answer has a checksum again: sockets look. */
static void frames__with_a_wrong_checksum_are_not_believed(void **state)
{
	(void)state;
	for (uint16_t damage = 1; damage; damage = (uint16_t)(damage << 1)) {
		frame_send(0, 52, 1000, damage);
		frame_send(1, 52, 1000, damage);
	}
	frame_send(0, 52, 7, 0);
	frame_send(1, 52, -100, 0);
	frame_send(2, 52, 1000, 0x100);
	nothing_is_left(); /* the daemon's socket takes no such, either */
	frame_send(2, 52, 1, 0);
	for (uint32_t i = 0; i < CHILDREN; i++)
		result_is(i, 52, -92);
	frame_send(0, 52, 7, 0);
	result_is(0, 52, -92);
	nothing_is_left();
}

/* With the tag of a VLAN; 0 is none of them, and such a frame is for who has the device. */
static void tagged_send(uint32_t child, uint32_t seq, int32_t value, uint16_t vlan)
{
	uint8_t frame[FRAME_BYTES + VLAN_BYTES];
	size_t bytes = frame_make(frame, child, seq, value, 0);

	memmove(frame + AT_VLAN + VLAN_BYTES, frame + AT_VLAN, bytes - AT_VLAN);
	wire_put16(frame + AT_VLAN, 0x8100);
	wire_put16(frame + AT_VLAN + 2, vlan);
	frame_put(frame, bytes + VLAN_BYTES);
}

/* tallyd(8): a VLAN's frames are not for here, whatever else they say; the kernel gives them to whom they are for. */
static void frames__of_vlans_are_not_served(void **state)
{
	int32_t sum[LANES];

	(void)state;
	for (uint32_t i = 0; i < CHILDREN; i++)
		tagged_send(i, 53, 1000, 5);
	nothing_is_left();
	for (uint32_t i = 0; i < CHILDREN; i++) {
		tagged_send(i, 53, 7 - 5 * (int32_t)i, 0);
		assert_int_equal(daemon_step(i, 53, sum),
				 i < CHILDREN - 1 ? SWITCH_ABSORB : SWITCH_MULTICAST);
	}
	assert_int_equal(sum[LANES - 1], 6 * LANES);
	nothing_is_left();
}

/* Several packets in one message: the daemon's, in the same slots. */
static void packets__in_one_message_are_the_daemons(void **state)
{
	uint8_t bytes[512], got[2048];
	struct wire first = update_of(0, 54), second = update_of(0, 1);
	int segment = (int)wire_bytes(LANES), none = 0;
	uint64_t size = 0;
	int32_t sum[LANES];
	struct wire packet;

	(void)state;
	second.slot = 1;
	size += put(&first, 10, bytes);
	size += put(&second, 20, bytes + size);
	assert_int_equal(setsockopt(child_fd[0], SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)),
			 0);
	bytes_send(child_fd[0], bytes, size);
	assert_int_equal(setsockopt(child_fd[0], SOL_UDP, UDP_SEGMENT, &none, sizeof(none)), 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(take(daemon_fd, got, WAIT_MS), wire_bytes(LANES));
		assert_int_equal(wire_check(got, wire_bytes(LANES), &packet), WIRE_OK);
		assert_int_equal(packet.slot, i);
		assert_int_equal(hook->ops->step(hook, &packet,
						 (int32_t *)(void *)(got + WIRE_HEADER_BYTES), sum),
				 SWITCH_ABSORB);
	}
	update_send(1, 54, -3);
	update_send(2, 54, 1);
	for (uint32_t i = 0; i < CHILDREN; i++)
		result_is(i, 54, 8);
	nothing_is_left();
}

/* One is bound anew: whatever the others send is the daemon's, until that one has sent something. */
static void packets__are_the_daemons_again_when_one_has_moved(void **state)
{
	struct link_address address = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
					.port = port_of(0) };
	int32_t sum[LANES];

	(void)state;
	update_send(0, 55, 1);
	nothing_is_left();
	hook->ops->bind(hook, JOB, 0, &address);
	update_send(1, 55, 2);
	assert_int_equal(daemon_step(1, 55, sum), SWITCH_ABSORB);
	update_send(2, 55, 3);
	assert_int_equal(daemon_step(2, 55, sum), SWITCH_MULTICAST);
	assert_int_equal(sum[LANES - 1], 6 * LANES);
	nothing_is_left();
	for (uint32_t i = 0; i < CHILDREN; i++)
		update_send(i, 56, 4);
	for (uint32_t i = 0; i < CHILDREN; i++)
		result_is(i, 56, 12);
	nothing_is_left();
}

static void jobs__that_are_gone_are_the_daemons(void **state)
{
	struct wire packet = update_of(0, 57);
	struct hook_served served;
	uint8_t bytes[256];

	(void)state;
	hook->ops->remove(hook, JOB);
	is_left_to_daemon(child_fd[0], bytes, put(&packet, 5, bytes));
	job_new(SWITCH_LATENCY, CHILDREN,
		LANES); /* what the last one in its place came to is not its own */
	hook->ops->served(hook, JOB, &served);
	assert_int_equal(served.updates + served.again + served.results, 0);
	hook->ops->remove(hook, JOB);
}

static int group(void)
{
	const struct CMUnitTest steps[] = {
		cmocka_unit_test(steps__are_those_of_the_program_in_user_space),
		cmocka_unit_test(steps__of_a_job_that_is_gone_are_dropped),
		cmocka_unit_test(steps__of_a_job_of_too_many_lanes_are_dropped),
	};
	const struct CMUnitTest on_a_device[] = {
		cmocka_unit_test(packets__are_the_daemons_until_all_have_sent_one),
		cmocka_unit_test(rounds__need_no_daemon),
		cmocka_unit_test(packets__that_the_daemon_is_to_judge_reach_it_as_they_came),
		cmocka_unit_test(frames__with_a_wrong_checksum_are_not_believed),
		cmocka_unit_test(frames__of_vlans_are_not_served),
		cmocka_unit_test(packets__in_one_message_are_the_daemons),
		cmocka_unit_test(packets__are_the_daemons_again_when_one_has_moved),
		cmocka_unit_test(jobs__that_are_gone_are_the_daemons),
	};

	return cmocka_run_group_tests_name("hook-steps", steps, NULL, NULL) +
	       cmocka_run_group_tests_name("hook-device", on_a_device, world_open, world_close);
}

static bool setting_on(const char *path)
{
	FILE *file = fopen(path, "w");
	bool is_on = file && fputs("1", file) >= 0;

	return file && !fclose(file) && is_on;
}

/* Or the kernel would take a frame that has not gone through its own output for one that lies about where it is from. */
static bool loopback_route(void)
{
	return setting_on("/proc/sys/net/ipv4/conf/all/route_localnet") &&
	       setting_on("/proc/sys/net/ipv4/conf/all/accept_local");
}

static bool loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool is_up = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &request);

	close(fd);
	return is_up;
}

int main(int argc, char **argv)
{
	char error[HOOK_ERROR_BYTES];
	int result;

	packets = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : packets;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	rng_init(&rng, seed, 0);
	if (unshare(CLONE_NEWNET) || !loopback_up() || !loopback_route()) {
		printf("SKIP: no network namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	result = hook_tc_open(&hook, "lo", PORT, error);
	if (result == -EPERM || result == -ENOSYS || result == -ENOTSUP) {
		printf("SKIP: %s\n", error);
		return 77;
	}
	if (result) {
		printf("FAILED: %s\n", error);
		return 1;
	}
	result = group();
	hook->ops->close(hook);
	return result;
}
