/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_frame.h - for the tests of XDP programs: loads one, makes frames, has the kernel run it on them
 * (BPF_PROG_TEST_RUN), and compares with what the same switch program does here.
 */
#ifndef TESTS_BPF_FRAME_H
#define TESTS_BPF_FRAME_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "core/shared/wire.h"
#include "util/rng.h"

enum {
	FRAME_PORT = 7171, /* the daemon's */
	/* offsets */
	AT_ETHERTYPE = 12,
	AT_IP = 14,
	AT_IP_BYTES = AT_IP + 2,
	AT_IP_FRAGMENT = AT_IP + 6,
	AT_IP_PROTOCOL = AT_IP + 9,
	AT_SOURCE = AT_IP + 12,
	AT_TARGET = AT_IP + 16,
	AT_UDP = AT_IP + 20,
	AT_UDP_BYTES = AT_UDP + 4,
	AT_UDP_CHECKSUM = AT_UDP + 6,
	AT_HEADER = AT_UDP + 8,
	AT_LANES = AT_HEADER + WIRE_HEADER_BYTES,
	MAP_GET_MAX = 32,
	FRAME_MAX = AT_LANES + 4 * 360 + 64, /* 360 lanes, and some more bytes */
};

struct frame {
	uint32_t bytes;
	uint8_t at[FRAME_MAX];
};

/* The program under test, and its maps. */
struct bpf_test {
	uint64_t seed;
	uint32_t packets; /* random ones */
	struct rng rng;
	struct bpf_object *object;
	int program, jobs, children, slots, counters;
};
extern struct bpf_test bpf;

/* main of such a test: arguments OBJECT [PACKETS [SEED]]; loads the program `name` and runs `group`. Its result,
 * or 77 if this machine cannot. */
int bpf_main(int argc, char **argv, const char *name, uint32_t packets, int (*group)(void));
/* Loads the program `name`. 0, or 1 or 77 with a text: 77 if this machine cannot. */
int bpf_open(const char *path, const char *name);
void bpf_close(void);
void map_set(int map, const void *key, const void *value);
/* Entries 0 to count - 1 of an array, in one system call: it is asked after every packet. */
void map_get_first(int map, void *values, uint32_t count);
/* So many children of a job live where address_of and port_of say. */
void children_set(uint32_t job, uint32_t count);
void counters_are(const uint64_t *counters, uint32_t count, const char *what);
/* The verifier has looked at fewer instructions than this. */
void program_is_verified(uint32_t instructions_max);

/* Where a child of a job lives. Network byte order. */
uint32_t address_of(uint32_t job, uint32_t child);
uint16_t port_of(uint32_t child);

/* The frame of a child's packet. */
void frame_init(struct frame *frame, const struct wire *packet, const int32_t *lane);
/* The kernel's action; *frame is what it has made of it. */
uint32_t frame_run(struct frame *frame);
/* The same, once here_run gives the same action and the same frame for the one that was sent. */
uint32_t frame_agrees(const struct frame *sent, uint32_t (*here_run)(struct frame *frame),
		      const char *what);
/* Back to where it came from. */
void frame_turn(struct frame *frame);

#endif
