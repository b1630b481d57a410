/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/sparse/lns.h"
#include "ps/hurry_fixture.h"
#include "ps/table_fixture.h"

static void fail__says_what_there_is_room_for(void **unused)
{
	char said[PS_ERROR_MAX + 1], text[PS_ERROR_MAX + 2] = "";

	(void)unused;
	memset(text, 'x', PS_ERROR_MAX + 1);
	memset(said, 'y', sizeof(said));
	assert_int_equal(ps_fail(said, "%s", text), -1);
	assert_int_equal(strlen(said), PS_ERROR_MAX - 1);
	assert_int_equal(said[PS_ERROR_MAX], 'y');
}

static void table__restart_is_the_same_to_the_bit(void **unused)
{
	(void)unused;
	for (unsigned turn = 0; turn < 2 * OPTIMISER_COUNT; turn++) {
		unsigned kind = turn % OPTIMISER_COUNT;
		struct state before, after;
		struct ps_table *table;
		struct rng rng;

		is_sync = turn >= OPTIMISER_COUNT;
		table = open_as((enum optimiser_kind)kind);
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
	is_sync = false;
}

/* R-KV-24 */
static void table__checkpoint_and_what_follows_are_the_table(void **unused)
{
	(void)unused;
	for (unsigned way = 0; way < 2 * OPTIMISER_COUNT; way++) {
		unsigned kind = way % OPTIMISER_COUNT;
		struct state before, after;
		struct ps_table *table;
		struct rng rng;

		is_sync = way >= OPTIMISER_COUNT;
		table = open_as((enum optimiser_kind)kind);
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
	is_sync = false;
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
	for (int i = 0; i < 2; i++) {
		one_step(table, &rng);
		state_take(table, &before);
		ps_table_close(table);
		table = open_as(OPTIMISER_SGD);
		state_take(table, &after);
		expect_same(&before, &after);
		/* There is room again: the next one stands for all that the failed one has left. */
		if (i)
			break;
		assert_int_equal(ps_table_checkpoint(table, error), 0);
		checkpoint_wait(table, 1);
		assert_true(is_there(2, "checkpoint"));
		assert_false(is_there(0, "log"));
		assert_false(is_there(1, "log"));
	}
	ps_table_close(table);
}

/* R-KV-22: in use, though no worker has said yet whose it is. */
static void table__share_outlives_a_restart(void **unused)
{
	struct server_kv_share share = { .index = 1, .count = 2, .is_used = true };
	struct ps_table *table = open_as(OPTIMISER_SGD);

	(void)unused;
	for (uint8_t i = 0; i < KV_IDENTITY_BYTES; i++) {
		share.identity[i] = 1 + i;
		share.own[i] = 101 + i;
		share.list[i] = 201 + i;
	}
	ps_table_share(table, &share);
	ps_table_close(table);
	table = open_as(OPTIMISER_SGD);
	assert_true(table->share.is_used);
	assert_false(table->share.is_known);
	assert_memory_equal(table->share.identity, share.identity, KV_IDENTITY_BYTES);
	assert_memory_equal(table->share.own, share.own, KV_IDENTITY_BYTES);
	assert_memory_equal(table->share.list, share.list, KV_IDENTITY_BYTES);
	ps_table_close(table);
}

/* R-KV-22: once anything was pushed, the folder stays that of its place. */
static void table__use_outlives_a_restart(void **unused)
{
	struct server_kv_share share = { .index = 1, .count = 2 };
	struct ps_table *table = open_as(OPTIMISER_SGD);

	(void)unused;
	ps_table_share(table, &share);
	ps_table_close(table);
	table = open_as(OPTIMISER_SGD);
	assert_false(table->share.is_used);
	ps_table_use(table);
	ps_table_close(table);
	table = open_as(OPTIMISER_SGD);
	assert_true(table->share.is_used);
	assert_int_equal(table->share.index, 1);
	assert_int_equal(table->share.count, 2);
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

/* R-LNS-5: a sum is a word; also of the log, and a log of words is no log of integers. */
static void table__of_words_steps_by_the_floats_that_they_are(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct lns_tables *lns = malloc(sizeof(*lns));
	const float values[DIM] = { 1.5f, -0.25f };
	float want[DIM] = { 0 };
	int64_t words[DIM];
	struct ps_table *table;
	uint32_t flags = 0;

	(void)unused;
	assert_non_null(lns);
	lns_tables_make(lns);
	options.values = SPARSE_LNS;
	options.initial.kind = INITIAL_ZERO;
	table = open_with(&options);
	for (uint32_t i = 0; i < DIM; i++) {
		uint32_t bits;

		memcpy(&bits, &values[i], sizeof(bits));
		words[i] = lns_word(lns, bits, &flags);
		bits = lns_float(lns, (uint32_t)words[i]);
		memcpy(&want[i], &bits, sizeof(bits));
		assert_true(want[i] / values[i] > 0.99f && want[i] / values[i] < 1.01f);
	}
	ps_table_apply_sums(table, hot_key(1), table->hot[1], words);
	for (uint32_t i = 0; i < DIM; i++)
		assert_true(table->hot[1][i] == want[i]);
	ps_table_close(table);
	options.values = SPARSE_FIXED;
	refused_with(&options, "and now asked for as");
	free(lns);
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
	trouble_wait(table, EFBIG);
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

/* What the table had would not be in it, and would be back with the next start. */
static void table__without_durability_does_not_begin_beside_its_files(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);

	(void)unused;
	ps_table_close(table);
	options.durability = PS_NONE;
	assert_int_equal(ps_table_open(&table, &options, &outbox, error), -1);
	assert_non_null(strstr(error, "/T.0.*: the table has files, and durability=none"));
	strcpy(options.name, "U"); /* which has none there */
	table = open_with(&options);
	ps_table_close(table);
	options.folder = "";
	strcpy(options.name, "T");
	table = open_with(&options);
	ps_table_close(table);
}

/* R-SP-32: a batch may have keys that the map calls hot. They count as any others, once, beside what the switch sums. */
static void table__hot_key_in_a_batch_counts_once(void **unused)
{
	static const float values[DIM] = { 3, -5.5f };
	const uint64_t key = hot_key(4);
	struct state before, after;
	struct ps_table *table;
	float row[DIM], seen[DIM];
	struct rng rng;

	(void)unused;
	rng_init(&rng, 53, 0);
	table = open_as(OPTIMISER_SUM);
	begin(table, 1);
	epoch(table, &rng);
	store_read(table->store, key, row);
	for (int i = 0; i < 2; i++) { /* the second is a repeat */
		assert_int_equal(ps_table_batch(table, 2, 1, 1, &key, values, 1), PS_BATCH_TAKEN);
		store_read(table->store, key, seen);
		assert_true(seen[0] == row[0] + 3 && seen[1] == row[1] - 5.5f);
	}
	epoch(table, &rng);
	state_take(table, &before);
	ps_table_close(table);
	table = open_as(OPTIMISER_SUM);
	state_take(table, &after);
	expect_same(&before, &after);
	ps_table_close(table);
}

static void map_many(uint32_t version, uint32_t count)
{
	uint64_t keys[8192];
	struct hot_map map = { .version = version, .keys = count, .key = keys };

	for (uint32_t i = 0; i < count; i++)
		keys[i] = hot_key(0) + i;
	assert_int_equal(hot_map_write(map_path, &map, error), 0);
}

static int map_load(struct ps_table *table)
{
	struct hot_map map;
	int result;

	if (ps_table_map_read(table, &map, error))
		return -1;
	result = ps_table_remap(table, &map, error);
	hot_map_fini(&map);
	return result;
}

/* R-SP-32. What its log knows of is the map that it had last. */
static void table__other_keys_are_hot_from_a_fence_on(void **unused)
{
	struct state before, after;
	uint64_t generation;
	struct ps_table *table;
	float row[DIM], seen[DIM];
	struct rng rng;

	(void)unused;
	rng_init(&rng, 54, 0);
	table = open_as(OPTIMISER_SUM);
	begin(table, 1);
	epoch(table, &rng);
	generation = server_of(table)->generation;
	assert_int_equal(map_load(table), 0); /* it is the same one */
	assert_int_equal(server_of(table)->generation, generation);
	map_make(2, cold_key(1));
	assert_int_equal(map_load(table), 1);
	assert_int_equal(sparse_fences(server_of(table)->generation),
			 sparse_fences(generation) + 1);
	assert_int_equal(server_of(table)->map, 2);
	home_sparse_instance(table->home, 2, 0, &at_switch);
	state_take(table, &before);
	for (int i = 0; i < 9; i++)
		epoch(table, &rng);
	state_take(table, &after);
	assert_memory_equal(before.floats, after.floats, HOT * sizeof(*after.floats));
	store_read(table->store, cold_key(1), row);
	for (int i = 0; i < 9; i++)
		epoch(table, &rng);
	store_read(table->store, cold_key(1), seen);
	assert_true(memcmp(row, seen, sizeof(row)) != 0);
	settle(table);
	state_take(table, &before);
	ps_table_close(table);
	table = open_as(OPTIMISER_SUM);
	state_take(table, &after);
	expect_same(&before, &after);
	store_read(table->store, cold_key(1), row);
	assert_memory_equal(row, seen, sizeof(row));
	ps_table_close(table);
}

static void table__log_knows_a_map_that_came_later(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);

	(void)unused;
	begin(table, 1);
	map_make(2, cold_key(1));
	assert_int_equal(map_load(table), 1);
	settle(table);
	ps_table_close(table);
	map_make(1, hot_key(0));
	refused_with(&options, "its map has version 1; its log has had version 2");
	map_make(2, hot_key(0));
	refused_with(&options, "its map of version 2 has other keys");
}

static void map_is_refused(struct ps_table *table, const char *part)
{
	uint64_t generation = server_of(table)->generation;

	assert_int_equal(map_load(table), -1);
	if (!strstr(error, part))
		fail_msg("\"%s\" does not say \"%s\"", error, part);
	assert_int_equal(server_of(table)->generation, generation);
	assert_int_equal(table->map.version, 3);
	assert_int_equal(table->map.key[1], 1000 + hot_key(0));
}

static void table__map_that_cannot_be_is_refused_and_the_old_one_goes_on(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;

	(void)unused;
	map_make(3, hot_key(0));
	options.memory_max = 1; /* what it takes by itself is more; so there is no room for a row */
	refused_with(&options, "do not fit into 1 bytes of memory");
	options.memory_max = 1 << 16;
	table = open_with(&options);
	begin(table, 1);
	map_make(3, hot_key(1));
	map_is_refused(table, "its map of version 3 has other keys");
	map_make(2, hot_key(1));
	map_is_refused(table, "its map has version 2; its log has had version 3");
	map_make(2, hot_key(0)); /* the same keys are no reason */
	map_is_refused(table, "its map has version 2; its log has had version 3");
	map_many(3, HOT);
	map_is_refused(table, "its map of version 3 has other keys");
	map_many(3, HOT - 1);
	map_is_refused(table, "its map of version 3 has other keys");
	assert_int_equal(truncate(map_path, 60), 0);
	map_is_refused(table, map_path);
	unlink(map_path);
	map_is_refused(table, "No such file or directory");
	map_many(4, 5000);
	map_is_refused(table, "its 5000 hot keys and 20 rows do not fit into 65536 bytes");
	ps_table_close(table);
}

/* Every hot key has a row, and nothing else has. */
static void table__map_may_take_all_memory_that_there_is(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);
	uint32_t most = HOT;

	(void)unused;
	options.memory_max = store_bytes(table->store);
	while (store_bytes_for(table->store, most + 1) <= options.memory_max)
		most++;
	ps_table_close(table);
	files_remove(NULL);
	map_many(1, most + 1);
	refused_with(&options, "hot keys and 0 rows do not fit into");
	files_remove(NULL);
	map_many(1, most);
	ps_table_close(open_with(&options));
}

/* R-KV-19, of epochs' sums, batches, and steps of both: AdaGrad's first step is as long as its rate, whatever it is of. */
static void table__sums_too_large_are_held_and_counted(void **unused)
{
	const int64_t most[DIM] = { INT64_MAX, INT64_MIN };
	const float large[DIM] = { 0x1p70f, -0x1p70f }, small[DIM] = { 0x1p45f, -0x1p45f };

	(void)unused;
	for (unsigned turn = 0; turn < 2; turn++) {
		struct ps_table_options options = options_of(OPTIMISER_ADAGRAD);
		struct ps_table *table;
		uint64_t hot = hot_key(3), cold = cold_key(0);

		options.is_sync = turn;
		options.unit = 0x1p20f;
		options.initial.kind = INITIAL_ZERO;
		table = open_with(&options);
		begin(table, 1);
		ps_table_apply_sums(table, hot, table->hot[3], most);
		assert_int_equal(ps_table_batch(table, 1, 1, 1, &cold, turn ? small : large, 1),
				 PS_BATCH_TAKEN);
		ps_table_step(table);
		assert_int_equal(table->held, turn ? 1 : 2); /* 2^45 fits */
		assert_int_equal(table->held_key, hot);
		for (int i = 0; i < 4; i++) {
			float row[DIM];

			store_read(table->store, i / 2 ? cold : hot, row);
			assert_true(fabsf(fabsf(row[i % 2]) - options.optimiser.rate) < 1e-6f);
			assert_true((row[i % 2] < 0) == (i % 2 == 0));
		}
		ps_table_close(table);
		files_remove(NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fail__says_what_there_is_room_for),
		cmocka_unit_test_teardown(table__restart_is_the_same_to_the_bit, files_remove),
		cmocka_unit_test_teardown(table__checkpoint_and_what_follows_are_the_table,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_that_failed_is_none, files_remove),
		cmocka_unit_test_teardown(table__share_outlives_a_restart, files_remove),
		cmocka_unit_test_teardown(table__use_outlives_a_restart, files_remove),
		cmocka_unit_test_teardown(table__end_of_a_worker_is_no_strangers, files_remove),
		cmocka_unit_test_teardown(table__made_otherwise_is_refused, files_remove),
		cmocka_unit_test_teardown(table__of_words_steps_by_the_floats_that_they_are,
					  files_remove),
		cmocka_unit_test_teardown(table__bound_of_memory_refuses_a_batch_whole,
					  files_remove),
		cmocka_unit_test_teardown(table__answers_wait_for_the_disk, files_remove),
		cmocka_unit_test_teardown(table__values_are_the_sums_that_were_sent, files_remove),
		cmocka_unit_test_teardown(table__without_durability_does_not_begin_beside_its_files,
					  files_remove),
		cmocka_unit_test_teardown(table__hot_key_in_a_batch_counts_once, files_remove),
		cmocka_unit_test_teardown(table__other_keys_are_hot_from_a_fence_on, files_remove),
		cmocka_unit_test_teardown(table__log_knows_a_map_that_came_later, files_remove),
		cmocka_unit_test_teardown(
			table__map_that_cannot_be_is_refused_and_the_old_one_goes_on, files_remove),
		cmocka_unit_test_teardown(table__map_may_take_all_memory_that_there_is,
					  files_remove),
		cmocka_unit_test_teardown(table__sums_too_large_are_held_and_counted, files_remove),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
