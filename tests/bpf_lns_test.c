/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel takes core/sparse/lns.h as it is, tables in a map, and comes to the same bits as the compiler here
 * (BPF_PROG_TEST_RUN). Arguments: the object, how many frames, the seed. Exit status 77: not on this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/bpf_frame.h"
#include "tests/bpf_lns.h"

enum { FRAMES = 20000, INSTRUCTIONS_MAX = 500000 };

static struct lns_tables tables;

/* Words near each other, so that a sum is not just one of them; floats of any bits, now and then near. */
static void pair_draw(struct bpf_lns_pair *pair)
{
	pair->a = rng_u32(&bpf.rng);
	pair->b = rng_below(&bpf.rng, 2) ? rng_u32(&bpf.rng)
					 : pair->a + rng_below(&bpf.rng, 0x21000) - 0x10800;
	pair->x = rng_u32(&bpf.rng);
	pair->y = rng_below(&bpf.rng, 2) ? rng_u32(&bpf.rng)
					 : (pair->x ^ 1u << 31) + rng_below(&bpf.rng, 1 << 26);
	pair->sum = 0;
}

static void bpf_lns__kernel_and_compiler_agree_on_every_bit(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < bpf.packets; i++) {
		struct bpf_lns sent, here, kernel;
		uint32_t flags = 0;
		LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = &sent, .data_out = &kernel,
			    .data_size_in = sizeof(sent), .data_size_out = sizeof(kernel));

		for (uint32_t k = 0; k < BPF_LNS_PAIRS; k++)
			pair_draw(&sent.pair[k]);
		here = sent;
		for (uint32_t k = 0; k < BPF_LNS_PAIRS; k++)
			bpf_lns_step(&tables, &here.pair[k], &flags);
		assert_int_equal(bpf_prog_test_run_opts(bpf.program, &options), 0);
		assert_int_equal(options.data_size_out, sizeof(kernel));
		assert_int_equal(options.retval, flags);
		assert_memory_equal(&kernel, &here, sizeof(here));
		assert_memory_not_equal(&kernel, &sent, sizeof(sent));
	}
}

static void bpf_lns__is_verified_in_few_instructions(void **state)
{
	(void)state;
	program_is_verified(INSTRUCTIONS_MAX);
}

static int group(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bpf_lns__kernel_and_compiler_agree_on_every_bit),
		cmocka_unit_test(bpf_lns__is_verified_in_few_instructions),
	};
	uint32_t first = 0;

	lns_tables_make(&tables);
	map_set(bpf_object__find_map_fd_by_name(bpf.object, "tables"), &first, &tables);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return bpf_main(argc, argv, "tally_lns", FRAMES, group);
}
