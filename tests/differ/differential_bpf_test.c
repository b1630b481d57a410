/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel makes of the switch programs (step.bpf.c, by BPF_PROG_TEST_RUN) is the same as what gcc
 * makes of them, byte by byte; and that of an object with one check taken out is not. Arguments: the
 * object, that other object, how many packets, the seed. Exit status 77: what is needed is not there.
 */
#include "tests/differ/differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/bpf_frame.h"
#include "tests/random.h"

enum { PACKETS = 100000, BUILDS = 2 };

static struct switch_job jobs[DIFFER_JOBS];
static struct differ_slot slots[DIFFER_SLOTS_ALL];

static uint32_t kernel_run(struct differ_world *world, struct differ_frame *frame, uint32_t bytes)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_out = frame,
		    .data_size_in = bytes, .data_size_out = bytes);
	int error = bpf_prog_test_run_opts(bpf.program, &options);

	(void)world;
	if (error || options.data_size_out != bytes) {
		printf("the kernel does not run the program: %s\n", strerror(-error));
		exit(1);
	}
	return options.retval;
}

/* The whole map, which the kernel's program writes to. */
static void *map_of(int map, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);

	if (at == MAP_FAILED) {
		perror("mmap of a BPF map");
		exit(1);
	}
	return at;
}

/* 0: differ_agree or differ_find is to be called, then object_close. */
static int object_open(const char *path, struct differ *differ, struct differ_build *builds)
{
	int status = bpf_open(path, "tally_differ");

	if (status)
		return status;
	memset(jobs, 0, sizeof(jobs));
	memset(slots, 0, sizeof(slots));
	builds[0] = (struct differ_build){ "gcc -O3", differ_gcc_O3, { jobs, slots } };
	builds[1] = (struct differ_build){ "BPF",
					   kernel_run,
					   { map_of(bpf.jobs, sizeof(jobs)),
					     map_of(bpf.slots, sizeof(slots)) } };
	differ_init(differ, seed, builds, BUILDS);
	return 0;
}

static void object_close(struct differ_build *builds)
{
	munmap(builds[1].world.jobs, sizeof(jobs));
	munmap(builds[1].world.slots, sizeof(slots));
	bpf_close();
}

int main(int argc, char **argv)
{
	uint32_t packets = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : PACKETS, packet;
	struct differ_build builds[BUILDS];
	static struct differ differ;
	bool is_right;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: %s OBJECT OBJECT_OTHER [PACKETS [SEED]]\n", argv[0]);
		return 2;
	}
	seed_take(argc - 3, argv + 3);
	status = object_open(argv[1], &differ, builds);
	if (status)
		return status;
	is_right = differ_agree(&differ, packets);
	object_close(builds);
	status = object_open(argv[2], &differ, builds);
	if (status)
		return status;
	packet = differ_find(&differ, packets);
	if (packet == UINT32_MAX)
		printf("FAILED: nothing differs in %s\n", argv[2]);
	else
		differ_print(&differ);
	object_close(builds);
	return is_right && packet != UINT32_MAX ? 0 : 1;
}
