/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bpf_frame.h"
#include "core/dense/switch.h"
#include "dataplane/xdp/switch_maps.h"

_Static_assert((int)FRAME_PORT == (int)XDP_PORT_DEFAULT, "one port");

struct bpf_test bpf;

uint32_t address_of(uint32_t job, uint32_t child)
{
	return htonl(0x0a000000 + job * 256 + child);
}

uint16_t port_of(uint32_t child)
{
	return htons((uint16_t)(40000 + child));
}

int bpf_open(const char *path, const char *name)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	static char log[1 << 16];
	struct bpf_program *one;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "probe", 4, 4, 1, &options), error;

	if (fd < 0) {
		printf("SKIP: no BPF here: %s\n", strerror(-fd));
		return 77;
	}
	bpf.object = bpf_object__open_file(path, NULL);
	one = bpf.object ? bpf_object__find_program_by_name(bpf.object, name) : NULL;
	if (!one) {
		printf("%s: no program %s\n", path, name);
		return 1;
	}
	bpf_program__set_log_buf(one, log, sizeof(log));
	error = bpf_object__load(bpf.object);
	if (error == -EPERM) {
		printf("SKIP: no permission to load XDP programs\n");
		return 77;
	}
	if (error) {
		printf("the verifier refused: %s\n%s\n", strerror(-error), log);
		return 1;
	}
	bpf.program = bpf_program__fd(one);
	bpf.jobs = bpf_object__find_map_fd_by_name(bpf.object, "jobs");
	bpf.children = bpf_object__find_map_fd_by_name(bpf.object, "children");
	bpf.slots = bpf_object__find_map_fd_by_name(bpf.object, "slots");
	bpf.counters = bpf_object__find_map_fd_by_name(bpf.object, "counters");
	return 0;
}

void bpf_close(void)
{
	bpf_object__close(bpf.object);
	bpf.object = NULL;
}

int bpf_main(int argc, char **argv, const char *name, uint32_t packets, int (*group)(void))
{
	int status;

	if (argc < 2) {
		fprintf(stderr, "usage: %s OBJECT [PACKETS [SEED]]\n", argv[0]);
		return 2;
	}
	bpf.packets = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : packets;
	bpf.seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
	printf("seed %#llx\n", (unsigned long long)bpf.seed);
	fflush(stdout);
	rng_init(&bpf.rng, bpf.seed, 0);
	status = bpf_open(argv[1], name);
	if (!status)
		status = group();
	bpf_close();
	return status;
}

void map_set(int map, const void *key, const void *value)
{
	assert_int_equal(bpf_map_update_elem(map, key, value, BPF_ANY), 0);
}

void children_set(uint32_t job, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct xdp_child child = { .job = job, .child = i };
		struct xdp_address address = { .address = address_of(job, i), .port = port_of(i) };

		map_set(bpf.children, &child, &address);
	}
}

void map_get_first(int map, void *values, uint32_t count)
{
	uint32_t keys[MAP_GET_MAX], next, got = count;
	int error;

	assert_in_range(count, 1, MAP_GET_MAX);
	error = bpf_map_lookup_batch(map, NULL, &next, keys, values, &got, NULL);
	assert_true(error == 0 || error == -ENOENT); /* that was all */
	assert_int_equal(got, count);
}

void counters_are(const uint64_t *counters, uint32_t count, const char *what)
{
	uint64_t values[MAP_GET_MAX];

	map_get_first(bpf.counters, values, count);
	for (uint32_t i = 0; i < count; i++) {
		if (values[i] != counters[i])
			fail_msg("%s: counter %u is %llu, should be %llu (seed %#llx)", what, i,
				 (unsigned long long)values[i], (unsigned long long)counters[i],
				 (unsigned long long)bpf.seed);
	}
}

void program_is_verified(uint32_t instructions_max)
{
	struct bpf_prog_info info = { 0 };
	uint32_t bytes = sizeof(info);

	assert_int_equal(bpf_obj_get_info_by_fd(bpf.program, &info, &bytes), 0);
	assert_int_equal(info.type, BPF_PROG_TYPE_XDP);
	printf("%u instructions verified, of at most 1,000,000; %u in the program\n",
	       info.verified_insns, info.xlated_prog_len / 8);
	assert_true(info.verified_insns < instructions_max); /* 0 before Linux 5.16 */
}

void frame_init(struct frame *frame, const struct wire *packet, const int32_t *lane)
{
	uint32_t datagram = 8 + wire_bytes(packet->lanes);
	uint32_t source = address_of(packet->job, packet->child), target = htonl(0x0a0000fe);
	uint16_t port = port_of(packet->child);

	memset(frame, 0, sizeof(*frame));
	frame->bytes = AT_UDP + datagram;
	memcpy(frame->at, "\2AGGRE\2WORKE\x08\x00", 14);
	frame->at[AT_IP] = 0x45;
	wire_put16(frame->at + AT_IP_BYTES, (uint16_t)(20 + datagram));
	wire_put16(frame->at + AT_IP_FRAGMENT, 0x4000);
	frame->at[AT_IP_PROTOCOL] = 17;
	memcpy(frame->at + AT_SOURCE, &source, 4);
	memcpy(frame->at + AT_TARGET, &target, 4);
	memcpy(frame->at + AT_UDP, &port, 2);
	wire_put16(frame->at + AT_UDP + 2, FRAME_PORT);
	wire_put16(frame->at + AT_UDP_BYTES, (uint16_t)datagram);
	wire_put16(frame->at + AT_UDP_CHECKSUM, 0xabcd);
	wire_put(frame->at + AT_HEADER, packet);
	if (packet->lanes)
		memcpy(frame->at + AT_LANES, lane, packet->lanes * sizeof(*lane));
}

uint32_t frame_run(struct frame *frame)
{
	static uint8_t out[2 * FRAME_MAX];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->at, .data_out = out,
		    .data_size_in = frame->bytes, .data_size_out = sizeof(out));

	assert_int_equal(bpf_prog_test_run_opts(bpf.program, &options), 0);
	assert_in_range(options.data_size_out, 1, FRAME_MAX);
	frame->bytes = options.data_size_out;
	memcpy(frame->at, out, frame->bytes);
	return options.retval;
}

uint32_t frame_agrees(const struct frame *sent, uint32_t (*here_run)(struct frame *frame),
		      const char *what)
{
	struct frame kernel = *sent, here = *sent;
	uint32_t is = frame_run(&kernel), should_be = here_run(&here);

	if (is != should_be)
		fail_msg("%s: the kernel's action is %u, should be %u (seed %#llx)", what, is,
			 should_be, (unsigned long long)bpf.seed);
	if (kernel.bytes != here.bytes || memcmp(kernel.at, here.at, here.bytes) != 0)
		fail_msg("%s: the kernel's frame differs (seed %#llx)", what,
			 (unsigned long long)bpf.seed);
	return is;
}

static void swap(uint8_t *a, uint8_t *b, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		uint8_t was = a[i];

		a[i] = b[i];
		b[i] = was;
	}
}

void frame_turn(struct frame *frame)
{
	swap(frame->at, frame->at + 6, 6);
	swap(frame->at + AT_SOURCE, frame->at + AT_TARGET, 4);
	swap(frame->at + AT_UDP, frame->at + AT_UDP + 2, 2);
}
