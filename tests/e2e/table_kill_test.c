/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_kill_test.c TALLYD [ROUNDS [SEED]] - kill -9 of the aggregator of a table at random moments: while its
 * grant, its HELLOs, its SETUP are on their way, in mid-push, in mid-flush. The next tallyd gets a new generation of
 * the table. Two workers and their parameter server are this process; of all datagrams that they get 1 % are thrown
 * away. At the end the table must be the sum that was added up beside it, to the byte.
 */
#include "server/table_fixture.h"
#include "tests/e2e/torture.h"

enum { ROUNDS = 10, TURNS_MAX = 60 };

static const char *program;
static uint64_t rounds = ROUNDS, seed;

static void round_play(struct rng *rng)
{
	uint32_t turns = rng_below(rng, TURNS_MAX);

	for (uint32_t turn = 0; turn < turns; turn++) {
		for (uint16_t i = 0; i < WORKERS; i++)
			for (uint32_t many = rng_below(rng, 6); many; many--)
				world_push(i);
		world_turn();
	}
}

static void table__is_exact_whenever_its_aggregator_is_killed(void **state)
{
	static struct daemon daemon;
	struct rng rng;

	(void)state;
	rng_init(&rng, seed, 0);
	world_begin();
	world.loss_one_in = 100;
	for (uint64_t round = 0; round < rounds; round++) {
		assert_true(daemon_start(&daemon, program, 0));
		world_switch(daemon.address);
		round_play(&rng);
		daemon_kill(&daemon);
	}
	assert_true(daemon_start(&daemon, program, 0));
	world_switch(daemon.address);
	world_push_until(world.pushes[0] + 100);
	world_check();
	printf("%llu kills, %llu and %llu pushes, %llu epochs: exact\n", (unsigned long long)rounds,
	       (unsigned long long)world.pushes[0], (unsigned long long)world.pushes[1],
	       (unsigned long long)home_sparse_stats(world.home)->epochs);
	assert_int_equal(sparse_fences(home_sparse_server(world.home)->generation), rounds + 1);
	world_end();
	assert_int_equal(daemon_end(&daemon), 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(table__is_exact_whenever_its_aggregator_is_killed),
	};

	if (argc < 2) {
		fprintf(stderr, "usage: table_kill_test TALLYD [ROUNDS [SEED]]\n");
		return 2;
	}
	program = argv[1];
	if (argc > 2)
		rounds = argument("ROUNDS", argv[2], 1);
	seed = argc > 3 ? argument("SEED", argv[3], 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
