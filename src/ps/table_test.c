/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/table_fixture.h"

static void table__restart_is_the_same_to_the_bit(void **unused)
{
	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct ps_table *table = open_as((enum optimiser_kind)kind);
		struct state before, after;
		struct rng rng;

		assert_false(table->is_old);
		rng_init(&rng, 11, kind);
		begin(table, 1);
		for (int life = 0; life < 3; life++) {
			for (int i = 0; i < STEPS; i++)
				one_step(table, &rng);
			state_take(table, &before);
			ps_table_close(table);
			table = open_as((enum optimiser_kind)kind);
			assert_true(table->is_old);
			assert_string_equal(table->notice, "");
			state_take(table, &after);
			expect_same(&before, &after);
			home_sparse_fence(table->home, 1);
			settle(table);
			home_sparse_instance(table->home, rng_next(&rng) | 1, 0, &at_switch);
		}
		ps_table_close(table);
		files_remove(NULL);
	}
}

static void table__checkpoint_and_what_follows_are_the_table(void **unused)
{
	(void)unused;
	for (unsigned kind = 0; kind < OPTIMISER_COUNT; kind++) {
		struct ps_table *table = open_as((enum optimiser_kind)kind);
		struct state before, after;
		struct rng rng;

		rng_init(&rng, 31, kind);
		begin(table, 1);
		for (uint64_t turn = 1; turn <= 3; turn++) {
			for (int i = 0; i < STEPS; i++)
				one_step(table, &rng);
			assert_int_equal(ps_table_checkpoint(table, error), 0);
			one_step(table, &rng);
			checkpoint_wait(table, 1);
			assert_true(is_there(turn, "checkpoint"));
			assert_true(is_there(turn, "log"));
			assert_false(is_there(turn - 1, "checkpoint"));
			assert_false(is_there(turn - 1, "log"));
			one_step(table, &rng);
		}
		state_take(table, &before);
		ps_table_close(table);
		table = open_as((enum optimiser_kind)kind);
		state_take(table, &after);
		expect_same(&before, &after);
		ps_table_close(table);
		files_remove(NULL);
	}
}

/* Its writer can fail, or be killed: the old checkpoint and both logs are the table then. */
static void table__checkpoint_that_failed_is_none(void **unused)
{
	struct ps_table *table = open_as(OPTIMISER_SGD);
	struct state before, after;
	struct rlimit size;
	struct rng rng;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	rng_init(&rng, 37, 0);
	begin(table, 1);
	for (int i = 0; i < STEPS; i++)
		one_step(table, &rng);
	settle(table);
	/* The new log's beginning is shorter than this, a checkpoint is not. */
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = 2000;
	setrlimit(RLIMIT_FSIZE, &size);
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, -1);
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	assert_non_null(strstr(error, "table T: no checkpoint was written: File too large"));
	assert_false(is_there(1, "checkpoint"));
	assert_false(is_there(1, "checkpoint.partial"));
	assert_true(is_there(0, "log"));
	one_step(table, &rng);
	state_take(table, &before);
	ps_table_close(table);
	table = open_as(OPTIMISER_SGD);
	state_take(table, &after);
	expect_same(&before, &after);
	ps_table_close(table);
}

/* R-SP-30: a worker says it itself. */
static void table__end_of_a_worker_is_no_strangers(void **unused)
{
	static const struct link_address at_worker = { .port = 2 }, elsewhere = { .port = 3 };
	struct ps_table *table = open_as(OPTIMISER_SUM);
	const struct home_sparse_stats *stats = home_sparse_stats(table->home);
	struct sparse packet;
	uint8_t at[SPARSE_BYTES_MAX];

	(void)unused;
	begin(table, 1);
	home_sparse_worker(table->home, 1, &at_worker);
	packet = (struct sparse){ .kind = SPARSE_END,
				  .generation = server_of(table)->generation,
				  .number = 1,
				  .worker = 1,
				  .width = 1,
				  .count = 1 };
	sparse_put(at, &packet);
	sparse_body_put64(at + SPARSE_HEADER_BYTES, 1);
	home_sparse_serve(table->home, &elsewhere, at, sparse_bytes(&packet));
	assert_int_equal(stats->strangers, 1);
	home_sparse_serve(table->home, &at_worker, at, sparse_bytes(&packet));
	assert_int_equal(stats->strangers, 1);
	assert_int_equal(stats->dropped, 1); /* this table has no steps */
	ps_table_close(table);
}

static void table__made_otherwise_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SGD);

	(void)unused;
	ps_table_close(open_with(&options));
	options.optimiser.rate = 0.5f;
	refused_with(&options, "and now asked for as");
	options = options_of(OPTIMISER_SGD);
	options.workers++;
	refused_with(&options, "and now asked for as");
	options = options_of(OPTIMISER_SGD);
	map_make(1, hot_key(0) + 1);
	refused_with(&options, "has other keys than that of its log");
	map_make(2, hot_key(0) + 1);
	ps_table_close(open_with(&options));
	map_make(1, hot_key(0));
	refused_with(&options, "its map has version 1; its log has had version 2");
	options.map = "/nowhere/map";
	refused_with(&options, "/nowhere/map: No such file or directory");
}

static void table__bound_of_memory_refuses_a_batch_whole(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;
	uint64_t keys[8192], rows;
	static float values[8192 * DIM];
	enum ps_batch result = PS_BATCH_TAKEN;

	(void)unused;
	options.memory_max = 200000;
	table = open_with(&options);
	begin(table, 1);
	for (uint32_t i = 0; i < 8192 * DIM; i++)
		values[i] = 1;
	for (uint64_t first = 1; first < 1000000; first += 512) {
		for (uint32_t i = 0; i < 512; i++)
			keys[i] = 1000000 + first + i;
		rows = store_rows(table->store);
		result = ps_table_batch(table, 0, 1, server_of(table)->memory.worker[0].next, keys,
					values, 512);
		if (result != PS_BATCH_TAKEN)
			break;
	}
	assert_int_equal(result, PS_BATCH_FULL);
	assert_int_equal(store_rows(table->store), rows);
	assert_true(store_bytes(table->store) <= 200000);
	/* What needs no room goes on. */
	assert_int_equal(ps_table_batch(table, 0, 1, server_of(table)->memory.worker[0].next,
					&keys[0] - 0, values, 0),
			 PS_BATCH_TAKEN);
	ps_table_close(table);
	files_remove(NULL);
	options.memory_max = 100;
	refused_with(&options, "its 20 hot keys");
}

/* Nothing may leave before its record is on the disk: here the disk takes nothing. */
static void table__answers_wait_for_the_disk(void **unused)
{
	struct ps_table *table = open_as(OPTIMISER_SUM);
	struct rlimit size;
	struct rng rng;
	uint64_t position;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	rng_init(&rng, 43, 0);
	begin(table, 1);
	settle(table);
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = ps_table_position(table);
	setrlimit(RLIMIT_FSIZE, &size);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	position = ps_table_position(table);
	for (int i = 0; i < 6000 && !ps_table_trouble(table); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_int_equal(ps_table_trouble(table), EFBIG);
	ps_table_settle(table);
	assert_false(ps_table_is_durable(table, position));
	assert_true(server_of(table)->durable < server_of(table)->recorded);
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	settle(table);
	assert_int_equal(server_of(table)->durable, server_of(table)->recorded);
	ps_table_close(table);
}

static void table__values_are_the_sums_that_were_sent(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;
	uint64_t keys[2] = { 3, UINT64_MAX };
	float values[4] = { 1, -2, 3.5f, -4.25f }, seen[DIM];

	(void)unused;
	options.initial.kind = INITIAL_ZERO;
	options.durability = PS_NONE;
	table = open_with(&options);
	begin(table, 1);
	assert_int_equal(ps_table_batch(table, 2, 1, 1, keys, values, 2), PS_BATCH_TAKEN);
	assert_int_equal(ps_table_batch(table, 2, 1, 1, keys, values, 2), PS_BATCH_TAKEN);
	assert_int_equal(ps_table_batch(table, 2, 1, 3, keys, values, 2), PS_BATCH_REFUSED);
	assert_int_equal(ps_table_batch(table, 2, 2, 2, keys, values, 2), PS_BATCH_REFUSED);
	assert_int_equal(ps_table_batch(table, 2, 1, 2, keys + 1, values, 1), PS_BATCH_TAKEN);
	store_read(table->store, 3, seen);
	assert_true(seen[0] == 1 && seen[1] == -2);
	store_read(table->store, UINT64_MAX, seen);
	assert_true(seen[0] == 4.5f && seen[1] == -6.25f);
	ps_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(table__restart_is_the_same_to_the_bit, files_remove),
		cmocka_unit_test_teardown(table__checkpoint_and_what_follows_are_the_table,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_that_failed_is_none, files_remove),
		cmocka_unit_test_teardown(table__end_of_a_worker_is_no_strangers, files_remove),
		cmocka_unit_test_teardown(table__made_otherwise_is_refused, files_remove),
		cmocka_unit_test_teardown(table__bound_of_memory_refuses_a_batch_whole,
					  files_remove),
		cmocka_unit_test_teardown(table__answers_wait_for_the_disk, files_remove),
		cmocka_unit_test_teardown(table__values_are_the_sums_that_were_sent, files_remove),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
