/* SPDX-License-Identifier: Apache-2.0 */
/* Logs that have lost what was on the disk: told from what a crash leaves, refused by name, and gone on from if asked. */
#include "ps/hurry_fixture.h"
#include "ps/table_fixture.h"

enum { FILE_MAX = 1 << 20 };

static uint8_t file[FILE_MAX + 1];

static size_t file_get(const char *path)
{
	FILE *from = fopen(path, "rb");
	size_t bytes;

	assert_non_null(from);
	bytes = fread(file, 1, FILE_MAX, from);
	assert_true(bytes < FILE_MAX);
	fclose(from);
	return bytes;
}

static void file_put(const char *path, size_t bytes)
{
	FILE *to = fopen(path, "wb");

	assert_non_null(to);
	assert_int_equal(fwrite(file, 1, bytes, to), bytes);
	assert_int_equal(fclose(to), 0);
}

/* BATCHES batches of worker 0, and where each of them ends in the log. */
enum { BATCHES = 24 };

static uint64_t ends[BATCHES + 1];
static struct state states[BATCHES + 1];

static struct ps_table *life(const struct ps_table_options *options)
{
	struct ps_table *table = open_with(options);
	struct rng rng;

	rng_init(&rng, 71, 0);
	begin(table, 5);
	settle(table);
	for (int i = 0; i <= BATCHES; i++) {
		if (i)
			assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
		ends[i] = ps_table_position(table);
		settle(table);
		state_take(table, &states[i]);
	}
	return table;
}

static void end(struct ps_table *table)
{
	if (ps_table_end(table, error))
		fail_msg("%s", error);
	ps_table_close(table);
}

/* The last batch that is whole up to this byte. */
static int whole_to(uint64_t at)
{
	int i = BATCHES;

	while (i && ends[i] > at)
		i--;
	return i;
}

static void refused_and_named(const struct ps_table_options *options, int left)
{
	char lost[64];

	snprintf(lost, sizeof(lost), " %d batches and 0 epochs", BATCHES - left);
	refused_with(options, "T.0.log: damaged at byte ");
	if (!strstr(error, lost) || !strstr(error, "--accept-loss"))
		fail_msg("\"%s\" does not say \"%s\"", error, lost);
}

/* It is as it was then, nobody of before goes on, and from now on all is well. */
static void goes_on(struct ps_table_options options, int left)
{
	const struct server_sparse *server;
	struct ps_table *table;
	struct state after;
	struct rng rng;

	options.accepts_loss = true;
	table = open_with(&options);
	assert_true(table->has_lost);
	assert_non_null(strstr(table->notice, "and are lost: that is accepted"));
	state_take(table, &after);
	expect_same(&after, &states[left]);
	ps_table_disown(table);
	assert_false(server_kv_is_member(&table->kv, 0));
	assert_false(home_sparse_join(table->home, 0, 5));
	begin(table, 9);
	rng_init(&rng, 73, 0);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	state_take(table, &after);
	end(table);
	options.accepts_loss = false;
	table = open_with(&options);
	server = server_of(table);
	assert_int_equal(server->memory.worker[0].incarnation, 9);
	state_take(table, &states[0]);
	expect_same(&states[0], &after);
	ps_table_close(table);
}

static void cut(const char *path, size_t at)
{
	assert_int_equal(truncate(path, (off_t)at), 0);
}

static void zeros(const char *path, size_t at)
{
	size_t bytes = file_get(path);

	memset(file + at, 0, bytes - at);
	file_put(path, bytes);
}

static void put_in(const char *path, size_t at)
{
	size_t bytes = file_get(path);

	memmove(file + at + 1, file + at, bytes - at);
	file_put(path, bytes + 1);
}

static void (*const damages[])(const char *path, size_t at) = { cut, zeros, put_in };

/* Also where a record ends, and what is left looks whole. */
static void loss__after_an_orderly_end_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_ADAGRAD);

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned back = 0; back < 3; back++) {
			char path[96];
			uint64_t at;

			end(life(&options));
			at = back == 1 ? ends[BATCHES / 2]
				       : ends[BATCHES] - 100 - back * ends[BATCHES] / 3;
			name_of(0, "log", path);
			damages[i](path, at);
			refused_and_named(&options, whole_to(at));
			refused_and_named(&options, whole_to(at)); /* nothing was changed */
			goes_on(options, whole_to(at));
			files_remove(NULL);
		}
	}
}

static void loss__of_the_first_byte_has_a_place_too(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		char path[96];

		end(life(&options));
		name_of(0, "log", path);
		damages[i](path, 0);
		refused_with(&options, "T.0.log: damaged at byte 0: ");
		files_remove(NULL);
	}
}

/* The checkpoint was not finished, but the log that begins with it is there. */
static void loss__of_a_log_that_a_checkpoint_followed_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	char path[96], partial[96];

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		struct ps_table *table = life(&options);

		name_of(1, "checkpoint.partial", partial);
		assert_int_equal(mkdir(partial, 0700), 0);
		assert_int_equal(ps_table_checkpoint(table, error), 0);
		checkpoint_wait(table, -1);
		settle(table);
		ps_table_close(table);
		assert_int_equal(rmdir(partial), 0);
		name_of(0, "log", path);
		damages[i](path, ends[BATCHES - 3]);
		refused_and_named(&options, BATCHES - 3);
		goes_on(options, BATCHES - 3);
		files_remove(NULL);
	}
}

/* And pushes of all kinds. */
static void loss__behind_a_checkpoint_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SGD);
	struct ps_table *table = open_as(OPTIMISER_SGD);
	struct state saved, after;
	char path[96];
	struct rng rng;

	(void)unused;
	rng_init(&rng, 83, 0);
	begin(table, 1);
	for (int i = 0; i < STEPS; i++)
		one_step(table, &rng);
	settle(table);
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, 1);
	state_take(table, &saved);
	epoch(table, &rng);
	assert_int_equal(batch(table, 1, &rng), PS_BATCH_TAKEN);
	epoch(table, &rng);
	end(table);
	name_of(1, "log", path);
	/* In the first epoch, whether or not a record of what is synced comes before it. */
	assert_int_equal(truncate(path, 500), 0);
	refused_with(&options, "T.1.log: damaged at byte ");
	assert_non_null(strstr(error, ": 1 batches and 2 epochs of hot keys, "));
	options.accepts_loss = true;
	table = open_with(&options);
	state_take(table, &after);
	expect_same(&saved, &after);
	ps_table_close(table);
}

/* No end is there, but what was synced later says that this was, too. */
static void loss__byte_put_in_is_no_crash(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	char path[96];

	(void)unused;
	ps_table_close(life(&options));
	name_of(0, "log", path);
	put_in(path, ends[BATCHES / 2] + 50);
	refused_with(&options, "T.0.log: damaged at byte ");
	assert_non_null(strstr(error, "at least "));
	goes_on(options, BATCHES / 2);
}

static void loss__of_a_whole_log_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;
	char path[96];

	(void)unused;
	end(life(&options));
	table = open_with(&options);
	begin(table, 6);
	end(table);
	name_of(1, "log", path);
	assert_int_equal(unlink(path), 0);
	refused_with(&options, "it is not there, and others of its table are");
	options.accepts_loss = true;
	table = open_with(&options);
	assert_true(table->has_lost);
	assert_int_equal(server_of(table)->memory.worker[0].next, BATCHES + 1);
	assert_int_equal(server_of(table)->memory.worker[0].incarnation, 5);
	ps_table_close(table);
	assert_false(is_there(2, "log"));
}

/* Nothing that is there could stand for it: no loss that can be accepted, but all. */
static void loss__of_the_checkpoint_is_never_accepted(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = life(&options);
	char path[96];

	(void)unused;
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, 1);
	end(table);
	name_of(1, "checkpoint", path);
	assert_int_equal(unlink(path), 0);
	for (int i = 0; i < 2; i++) {
		refused_with(&options,
			     "T.1.checkpoint: it is not there, and logs that follow on it are");
		options.accepts_loss = true;
	}
	assert_true(is_there(1, "log"));
	assert_true(is_there(2, "log"));
}

/* What was written before logs said what was before them. */
static void loss__old_logs_are_read(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = life(&options);
	struct state before, after;
	size_t bytes, at = 0, to = 0;
	char path[96];

	(void)unused;
	end(table);
	table = open_with(&options);
	state_take(table, &before);
	ps_table_close(table);
	name_of(1, "log", path);
	bytes = file_get(path);
	while (at < bytes) {
		size_t one = RECORD_HEADER_BYTES + sparse_body_get32(file + at);
		uint32_t type = sparse_body_get32(file + at + 8);

		if (type != RECORD_BEFORE && type != RECORD_WHOLE) {
			memmove(file + to, file + at, one);
			to += one;
		}
		at += one;
	}
	assert_true(to < bytes);
	file_put(path, to);
	table = open_with(&options);
	assert_string_equal(table->notice, "");
	state_take(table, &after);
	expect_same(&before, &after);
	ps_table_close(table);
}

/* With PS_CHECKPOINT pushes rest on no write of the log: they are not acknowledged either, once that is gone. */
static void loss__deleted_folder_acknowledges_nothing(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;
	struct rng rng;
	char path[96];

	(void)unused;
	options.durability = PS_CHECKPOINT;
	rng_init(&rng, 79, 0);
	table = open_with(&options);
	begin(table, 1);
	settle(table);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	ps_table_settle(table);
	assert_int_equal(server_of(table)->durable, server_of(table)->recorded);
	name_of(0, "log", path);
	assert_int_equal(unlink(path), 0);
	trouble_wait(table, ENOENT);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	ps_table_settle(table);
	assert_true(server_of(table)->durable < server_of(table)->recorded);
	ps_table_close(table);
}

/* A checkpoint that is asked for just then finds a folder, in which nothing is of what was acknowledged. */
static void loss__folder_that_is_made_again_gets_no_checkpoint(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table;
	struct rng rng;
	char path[96];

	(void)unused;
	options.durability = PS_CHECKPOINT;
	rng_init(&rng, 89, 0);
	table = open_with(&options);
	begin(table, 1);
	settle(table);
	name_of(0, "log", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(map_path), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
	map_make(1, hot_key(0));
	assert_int_equal(ps_table_checkpoint(table, error), -1);
	assert_non_null(strstr(error, "its file was deleted"));
	assert_int_equal(table->checkpoint, 0);
	assert_int_equal(ps_table_trouble(table), ENOENT);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	ps_table_settle(table);
	assert_true(server_of(table)->durable < server_of(table)->recorded);
	ps_table_close(table);
	assert_false(is_there(1, "log"));
}

/* The checkpoint that was to stand for it has failed: the next log alone is not the table. */
static void deleted_is_noticed(struct ps_table *table, uint64_t number, struct rng *rng)
{
	char path[96];

	name_of(number, "log", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(batch(table, 1, rng), PS_BATCH_TAKEN);
	trouble_wait(table, ENOENT);
	assert_false(ps_table_is_durable(table, ps_table_position(table)));
}

static void loss__of_a_log_that_no_checkpoint_stands_for_acknowledges_nothing(void **unused)
{
	struct ps_table *table = open_as(OPTIMISER_SUM);
	char partial[96];
	struct rng rng;

	(void)unused;
	rng_init(&rng, 97, 0);
	begin(table, 1);
	assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
	name_of(1, "checkpoint.partial", partial);
	assert_int_equal(mkdir(partial, 0700), 0);
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, -1);
	settle(table);
	deleted_is_noticed(table, 0, &rng);
	assert_int_equal(rmdir(partial), 0);
	ps_table_close(table);
}

/* The table rests on them until there is a checkpoint. */
static void loss__of_a_log_of_a_former_life_acknowledges_nothing(void **unused)
{
	struct rng rng;

	(void)unused;
	rng_init(&rng, 99, 0);
	for (uint64_t life = 1; life <= 3; life++) {
		struct ps_table *table = open_as(OPTIMISER_SUM);

		begin(table, life);
		assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
		settle(table);
		if (life < 3) {
			end(table);
			continue;
		}
		deleted_is_noticed(table, 1, &rng);
		ps_table_close(table);
	}
}

/* A checkpoint that is there stands for all before it, which it removes. */
static void loss__of_what_a_checkpoint_stands_for_is_none(void **unused)
{
	struct ps_table *table = open_as(OPTIMISER_SUM);
	struct rng rng;

	(void)unused;
	rng_init(&rng, 98, 0);
	begin(table, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(batch(table, 0, &rng), PS_BATCH_TAKEN);
		assert_int_equal(ps_table_checkpoint(table, error), 0);
		checkpoint_wait(table, 1);
		assert_false(is_there((uint64_t)i, "log"));
		assert_int_equal(batch(table, 1, &rng), PS_BATCH_TAKEN);
		settle(table);
		assert_int_equal(ps_table_trouble(table), 0);
	}
	ps_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(loss__after_an_orderly_end_is_refused, files_remove),
		cmocka_unit_test_teardown(loss__of_the_first_byte_has_a_place_too, files_remove),
		cmocka_unit_test_teardown(loss__of_a_log_that_a_checkpoint_followed_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(loss__behind_a_checkpoint_is_refused, files_remove),
		cmocka_unit_test_teardown(loss__byte_put_in_is_no_crash, files_remove),
		cmocka_unit_test_teardown(loss__of_a_whole_log_is_refused, files_remove),
		cmocka_unit_test_teardown(loss__of_the_checkpoint_is_never_accepted, files_remove),
		cmocka_unit_test_teardown(loss__old_logs_are_read, files_remove),
		cmocka_unit_test_teardown(loss__deleted_folder_acknowledges_nothing, files_remove),
		cmocka_unit_test_teardown(
			loss__of_a_log_that_no_checkpoint_stands_for_acknowledges_nothing,
			files_remove),
		cmocka_unit_test_teardown(loss__of_a_log_of_a_former_life_acknowledges_nothing,
					  files_remove),
		cmocka_unit_test_teardown(loss__of_what_a_checkpoint_stands_for_is_none,
					  files_remove),
		cmocka_unit_test_teardown(loss__folder_that_is_made_again_gets_no_checkpoint,
					  files_remove),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
