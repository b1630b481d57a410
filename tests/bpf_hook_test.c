/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What src/dataplane/xdp/latency_tc.bpf.c makes of one frame (BPF_PROG_TEST_RUN): checksums of all sums there are, and
 * jobs that change under its hands. Of what it does on a device: hook_test.c. Arguments: the object of hook_race.bpf.c, the
 * shipped one. Exit status 77: not on this machine.
 */
#define SWITCH_LANES_MAX 360 /* as in latency_tc.bpf.c */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <linux/pkt_cls.h>

#include "core/latency/switch_latency.h"
#include "dataplane/xdp/switch_maps.h"
#include "tests/bpf_frame.h"

enum { JOB = 5, BASE = 8, SLOTS = 16, LANES = 4, WORDS = 1 << 16 };
enum { RACE_NONE, RACE_LIFE, RACE_GONE, RACE_MOVED, RACES };

static const char *race_object;
static uint32_t seq;

/* A job of one member: each packet of it is answered with itself. */
static void job_begin(void)
{
	struct xdp_job job = { .job = { .index = JOB,
					.generation = 77,
					.lanes = LANES,
					.slots = 2,
					.enabled = 1,
					.mode = SWITCH_LATENCY },
			       .slot_base = BASE };
	struct xdp_child key = { .job = JOB };
	struct hook_child child = { .address = address_of(JOB, 0), .port = port_of(0) };
	struct xdp_latency_slot none = { 0 };
	uint32_t index = JOB;

	for (uint32_t i = 0; i < SLOTS; i++)
		map_set(bpf.slots, &i, &none);
	switch_job_fill(&job.job, 1);
	map_set(bpf.jobs, &index, &job);
	map_set(bpf.children, &key, &child);
	seq = 0;
}

/* ---- checksums ---- */

static uint16_t sum16(const uint8_t *at, size_t bytes, uint64_t sum)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* RFC 768: of addresses, header and packet; 0 would say that there is none. */
static uint16_t check_of(const struct frame *frame)
{
	uint16_t datagram = wire_get16(frame->at + AT_UDP_BYTES);
	uint16_t check = wire_get16(frame->at + AT_UDP_CHECKSUM);
	uint16_t sum =
		sum16(frame->at + AT_SOURCE, 8u + datagram, 17u + datagram + 0xffffu - check);

	return sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

static struct frame frame_of(const struct wire *packet, const int32_t *lane, uint16_t id)
{
	struct frame frame;

	frame_init(&frame, packet, lane);
	wire_put16(frame.at + AT_IP + 4, id);
	wire_put16(frame.at + AT_UDP_CHECKSUM, 0);
	wire_put16(frame.at + AT_UDP_CHECKSUM, check_of(&frame));
	return frame;
}

static struct frame question(const int32_t lane[LANES], uint16_t id)
{
	struct wire packet = {
		.type = WIRE_UPDATE, .job = JOB, .generation = 77, .seq = ++seq, .lanes = LANES
	};

	return frame_of(&packet, lane, id);
}

/* It is taken, and its answer has the checksums that it should have. */
static void is_answered(struct frame *frame)
{
	struct wire answer;

	assert_int_equal(frame_run(frame), TC_ACT_STOLEN);
	wire_get(frame->at + AT_HEADER, &answer);
	assert_int_equal(answer.type, WIRE_RESULT);
	assert_int_equal(sum16(frame->at + AT_IP, 20, 0), 0xffff);
	assert_int_equal(wire_get16(frame->at + AT_UDP_CHECKSUM), check_of(frame));
}

/* A checksum that is the pseudo header's sum: the program takes it for one that the device is to complete. */
static bool looks_partial(const struct frame *frame)
{
	uint16_t datagram = wire_get16(frame->at + AT_UDP_BYTES);

	return wire_get16(frame->at + AT_UDP_CHECKSUM) ==
	       sum16(frame->at + AT_SOURCE, 8, 17u + datagram);
}

/* A word of a lane, and IP's number of the datagram, take all values: so do the checksums. */
static void checksums__of_all_sums_are_right(void **state)
{
	(void)state;
	job_begin();
	for (uint32_t word = 0; word < WORDS; word++) {
		int32_t lane[LANES] = { (int32_t)(word * 2654435761u), -5, 7, (int32_t)word };
		struct frame frame = question(lane, (uint16_t)word);

		if (looks_partial(&frame))
			seq--;
		else
			is_answered(&frame);
	}
}

static uint32_t header_sum(const struct frame *frame)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < WIRE_HEADER_BYTES; i += 2)
		sum += frame->at[AT_HEADER + i] | (uint32_t)frame->at[AT_HEADER + i + 1] << 8;
	return sum;
}

/* Lanes are added up as 32 bits: a carry out of these may bring another one. Of which header, the question's or its
 * answer's, one round before says. */
static void checksums__whose_carry_carries_are_right(void **state)
{
	(void)state;
	job_begin();
	for (uint32_t of_answer = 0; of_answer < 2; of_answer++) {
		for (int32_t off = -300; off <= 300; off++) {
			struct frame before = question((int32_t[LANES]){ 1 }, 0), frame;
			uint32_t sum;

			if (of_answer)
				is_answered(&before);
			else
				seq--;
			sum = header_sum(&before);
			frame = question((int32_t[LANES]){ -1, -(int32_t)sum + off }, 0);
			is_answered(&frame);
		}
	}
}

/* Whichever bit has fallen over: it goes on to the socket, which counts it. */
static void checksums__that_are_wrong_are_left_to_the_socket(void **state)
{
	(void)state;
	job_begin();
	for (uint32_t bit = 0; bit < 8u * LANES * WIRE_LANE_BYTES; bit++) {
		struct frame frame = question((int32_t[LANES]){ -1, 3, 1 << 30, -70000 }, 9);
		struct frame sent;

		frame.at[AT_LANES + bit / 8] ^= (uint8_t)(1 << bit % 8);
		sent = frame;
		assert_int_equal((int32_t)frame_run(&frame), TC_ACT_UNSPEC);
		assert_memory_equal(frame.at, sent.at, sent.bytes);
		seq--;
	}
}

/* R-WIRE-1: 0 says that there is none. Sockets take that, too; the answer has one. */
static void checksums__of_0_are_not_looked_at(void **state)
{
	struct frame frame;

	(void)state;
	job_begin();
	frame = question((int32_t[LANES]){ -1, 3, 1 << 30, -70000 }, 9);
	wire_put16(frame.at + AT_UDP_CHECKSUM, 0);
	is_answered(&frame);
}

/* A packet that has not left its machine has the pseudo header's sum there; so has its answer. */
static void checksums__that_the_device_is_to_make_are_left_to_it(void **state)
{
	(void)state;
	job_begin();
	for (int32_t value = 0; value < 100; value++) {
		struct frame frame = question((int32_t[LANES]){ value, -2, 3, -4 }, 1);

		wire_put16(frame.at + AT_UDP_CHECKSUM,
			   sum16(frame.at + AT_SOURCE, 8,
				 17u + wire_get16(frame.at + AT_UDP_BYTES)));
		assert_int_equal(frame_run(&frame), TC_ACT_STOLEN);
		assert_true(looks_partial(&frame));
	}
}

/* They end behind the packet's header. */
static void frames__without_lanes_are_answered_in_every_slot(void **state)
{
	(void)state;
	job_begin();
	for (uint16_t slot = 0; slot < 2; slot++) {
		struct wire packet = {
			.type = WIRE_UPDATE, .job = JOB, .generation = 77, .slot = slot, .seq = 1
		};
		struct frame frame = frame_of(&packet, (int32_t[LANES]){ 0 }, 1);

		assert_int_equal(frame.bytes, AT_LANES);
		is_answered(&frame);
	}
}

/* ---- what is none of ours ---- */

/* TC_ACT_UNSPEC: whatever other filters there are have their turn, and then the socket. */
static void is_passed_on(struct frame *frame, uint32_t packets)
{
	static uint8_t out[2 * FRAME_MAX];
	struct __sk_buff skb = { .gso_segs = packets };
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->at, .data_out = out,
		    .data_size_in = frame->bytes, .data_size_out = sizeof(out), .ctx_in = &skb,
		    .ctx_size_in = sizeof(skb));

	assert_int_equal(bpf_prog_test_run_opts(bpf.program, &options), 0);
	assert_int_equal((int32_t)options.retval, TC_ACT_UNSPEC);
	assert_int_equal(options.data_size_out, frame->bytes);
	assert_memory_equal(out, frame->at, frame->bytes);
}

static bool has_path(void)
{
	struct hook_child child;

	assert_int_equal(
		bpf_map_lookup_elem(bpf.children, &(struct xdp_child){ .job = JOB }, &child), 0);
	return child.has_path;
}

static void frames__of_others_are_passed_on(void **state)
{
	/* where a byte is another, and by what */
	static const struct {
		uint32_t at;
		uint8_t by;
	} changes[] = {
		{ AT_ETHERTYPE, 1 },    { AT_IP_PROTOCOL, 1 }, { AT_IP_FRAGMENT, 0x20 },
		{ AT_UDP + 3, 1 },      { AT_UDP + 1, 1 },     { AT_SOURCE + 3, 1 },
		{ AT_IP_BYTES + 1, 1 }, { AT_HEADER, 0xff },   { AT_HEADER + 3, 1 },
	};

	(void)state;
	for (uint32_t packets = 1; packets <= 2; packets++) {
		job_begin();
		for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
			struct frame frame = question((int32_t[LANES]){ 1 }, 1);

			frame.at[changes[i].at] ^= changes[i].by;
			is_passed_on(&frame, packets);
			assert_false(has_path());
			seq--;
		}
	}
}

/* They are the daemon's, but who sends them is known by then. */
static void frames__of_several_packets_are_passed_on_and_show_the_path(void **state)
{
	struct frame frame;

	(void)state;
	job_begin();
	frame = question((int32_t[LANES]){ 1 }, 1);
	is_passed_on(&frame, 2);
	assert_true(has_path());
	is_answered(&frame);
}

/* ---- races ---- */

/* R-LAT-9: if the daemon changes a job after the lookup, the packet goes to the daemon, and no slot is touched. */
static void jobs__that_change_meanwhile_keep_their_slots(void **state)
{
	(void)state;
	bpf_close();
	assert_int_equal(bpf_open(race_object, "tally_hook"), 0);
	for (uint32_t race = RACE_NONE; race < RACES; race++) {
		struct xdp_latency_slot slots[SLOTS];
		int bss = bpf_object__find_map_fd_by_name(bpf.object, ".bss");
		struct frame frame;

		assert_true(bss >= 0);
		map_set(bss, &(uint32_t){ 0 }, &race);
		job_begin();
		frame = question((int32_t[LANES]){ 1, -2, 3, -4 }, 1);
		assert_int_equal((int32_t)frame_run(&frame),
				 race == RACE_NONE ? TC_ACT_STOLEN : TC_ACT_UNSPEC);
		map_get_first(bpf.slots, slots, SLOTS);
		for (uint32_t i = 0; i < SLOTS; i++)
			assert_int_equal(slots[i].slot.round, race == RACE_NONE && i == BASE);
	}
}

static int group(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums__of_all_sums_are_right),
		cmocka_unit_test(checksums__whose_carry_carries_are_right),
		cmocka_unit_test(checksums__that_are_wrong_are_left_to_the_socket),
		cmocka_unit_test(checksums__of_0_are_not_looked_at),
		cmocka_unit_test(checksums__that_the_device_is_to_make_are_left_to_it),
		cmocka_unit_test(frames__without_lanes_are_answered_in_every_slot),
		cmocka_unit_test(frames__of_others_are_passed_on),
		cmocka_unit_test(frames__of_several_packets_are_passed_on_and_show_the_path),
		cmocka_unit_test(jobs__that_change_meanwhile_keep_their_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: %s RACE_OBJECT OBJECT\n", argv[0]);
		return 2;
	}
	race_object = argv[1];
	if (unshare(CLONE_NEWNET)) { /* answers leave by a loopback device of its own, which is down */
		printf("SKIP: no network namespace of its own: %s\n", strerror(errno));
		return 77;
	}
	return bpf_main(argc - 1, argv + 1, "tally_hook", 0, group);
}
