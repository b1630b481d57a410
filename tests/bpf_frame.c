/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bpf_frame.h"

uint32_t address_of(uint32_t job, uint32_t child)
{
	return htonl(0x0a000000 + job * 256 + child);
}

uint16_t port_of(uint32_t child)
{
	return htons((uint16_t)(40000 + child));
}

int bpf_program_open(const char *path, const char *name, struct bpf_object **object, int *program)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	static char log[1 << 16];
	struct bpf_program *one;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "probe", 4, 4, 1, &options), error;

	if (fd < 0) {
		printf("SKIP: no BPF here: %s\n", strerror(-fd));
		return 77;
	}
	*object = bpf_object__open_file(path, NULL);
	one = *object ? bpf_object__find_program_by_name(*object, name) : NULL;
	if (!one) {
		printf("%s: no program %s\n", path, name);
		return 1;
	}
	bpf_program__set_log_buf(one, log, sizeof(log));
	error = bpf_object__load(*object);
	if (error == -EPERM) {
		printf("SKIP: no permission to load XDP programs\n");
		return 77;
	}
	if (error) {
		printf("the verifier refused: %s\n%s\n", strerror(-error), log);
		return 1;
	}
	*program = bpf_program__fd(one);
	return 0;
}

void map_set(int map, const void *key, const void *value)
{
	assert_int_equal(bpf_map_update_elem(map, key, value, BPF_ANY), 0);
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

uint32_t frame_run(int program, struct frame *frame)
{
	static uint8_t out[2 * FRAME_MAX];
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame->at, .data_out = out,
		    .data_size_in = frame->bytes, .data_size_out = sizeof(out));

	assert_int_equal(bpf_prog_test_run_opts(program, &options), 0);
	assert_in_range(options.data_size_out, 1, FRAME_MAX);
	frame->bytes = options.data_size_out;
	memcpy(frame->at, out, frame->bytes);
	return options.retval;
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
