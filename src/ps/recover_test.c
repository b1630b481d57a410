/* SPDX-License-Identifier: Apache-2.0 */
/* What a start makes of the files that a crash, or a damage, has left. */
#include "ps/hurry_fixture.h"
#include "ps/table_fixture.h"

/* R-KV-25: a crash at any byte: the table is what it was after the last whole record. */
static void table__cut_log_is_the_table_of_its_last_whole_record(void **unused)
{
	static struct state states[STEPS + 1];
	uint64_t ends[STEPS + 1];
	struct ps_table *table = open_as(OPTIMISER_ADAGRAD);
	uint64_t base = ps_table_position(table), whole;
	struct rng rng;
	char path[96];

	(void)unused;
	rng_init(&rng, 23, 0);
	begin(table, 4);
	for (int i = 0; i <= STEPS; i++) {
		if (i)
			one_step(table, &rng);
		state_take(table, &states[i]);
		ends[i] = ps_table_position(table);
	}
	whole = ends[STEPS];
	ps_table_close(table);
	name_of(0, "log", path);
	for (int i = STEPS; whole > ends[0]; whole -= rng_between(&rng, 1, 40)) {
		struct state state;
		uint64_t old = ends[STEPS];

		if (whole < ends[0])
			break;
		while (ends[i] > whole)
			i--;
		(void)old;
		assert_int_equal(truncate(path, (off_t)whole), 0);
		table = open_as(OPTIMISER_ADAGRAD);
		state_take(table, &state);
		expect_same(&state, &states[i]);
		/* Between two records may be one that says that all before it was on the disk. */
		if (*table->notice)
			assert_true(whole != ends[i]);
		else
			assert_true(whole == ends[i] || whole == ends[i] + RECORD_WHOLE_BYTES);
		ps_table_close(table);
		if (whole > ends[i])
			whole = ends[i];
	}
	assert_true(base < ends[0]);
}

static void something_write(const char *path)
{
	FILE *to = fopen(path, "w");

	assert_non_null(to);
	fputs("something", to);
	assert_int_equal(fclose(to), 0);
}

/* R-KV-24: what a writer that was killed has left is of no use to anybody. */
static void table__partial_checkpoint_of_a_killed_writer_goes(void **unused)
{
	struct ps_table *table = open_as(OPTIMISER_SGD);
	char path[96];

	(void)unused;
	begin(table, 1);
	name_of(1, "checkpoint.partial", path);
	assert_int_equal(mkfifo(path, 0600),
			 0); /* nobody reads: its writer is there when it is killed */
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	assert_int_equal(kill(table->checkpoint, SIGKILL), 0);
	checkpoint_wait(table, -1);
	assert_false(is_there(1, "checkpoint.partial"));
	ps_table_close(table);
	something_write(path); /* of a writer that was killed with its server */
	table = open_as(OPTIMISER_SGD);
	assert_false(is_there(1, "checkpoint.partial"));
	ps_table_close(table);
}

/* Files of others, whatever they are called: none is taken for one of the table's. */
static void table__files_that_only_look_like_its_own_are_none(void **unused)
{
	static const char *const names[] = { "T.+7.checkpoint", "T. 7.log", "T.-.log",
					     "T.:.checkpoint",  "T.log",    "TT.7.log",
					     "U.7.checkpoint",  "T.7.logs", "T7.log" };
	struct ps_table *table = open_as(OPTIMISER_SGD);
	struct state before, after;
	char path[96];

	(void)unused;
	begin(table, 1);
	state_take(table, &before);
	ps_table_close(table);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		something_write(path);
	}
	table = open_as(OPTIMISER_SGD);
	state_take(table, &after);
	expect_same(&before, &after);
	ps_table_close(table);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		assert_int_equal(unlink(path), 0);
	}
}

static void table__a_cut_anywhere_but_at_the_end_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);
	struct rng rng;
	char path[96];
	struct stat is;

	(void)unused;
	rng_init(&rng, 41, 0);
	begin(table, 1);
	for (int i = 0; i < 20; i++)
		one_step(table, &rng);
	settle(table);
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	checkpoint_wait(table, 1);
	ps_table_close(table);
	name_of(1, "checkpoint", path);
	assert_int_equal(stat(path, &is), 0);
	/* Just without its END, and inside of a record. */
	assert_int_equal(truncate(path, is.st_size - RECORD_HEADER_BYTES - 8), 0);
	refused_with(&options, "T.1.checkpoint: damaged: it has no end");
	assert_int_equal(truncate(path, is.st_size / 2), 0);
	refused_with(&options, "T.1.checkpoint: damaged: it ends inside of a record");
	files_remove(NULL);
	/* A log that another one follows on. */
	table = open_with(&options);
	begin(table, 1);
	ps_table_close(table);
	name_of(0, "log", path);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(truncate(path, is.st_size - 1), 0);
	name_of(1, "log", path);
	fclose(fopen(path, "w")); /* nothing: no log has followed */
	table = open_with(&options);
	assert_non_null(strstr(table->notice, "T.0.log: recovered to the last whole record"));
	ps_table_close(table);
	name_of(0, "log", path);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(truncate(path, is.st_size - 1), 0);
	name_of(1, "log", path);
	something_write(path);
	refused_with(&options, ": it ends inside of a record: at least ");
	name_of(0, "log", path);
	unlink(path);
	refused_with(&options, "T.1.checkpoint: it is not there, and logs that follow on it are");
}

static void end_write(const char *path, uint64_t rows)
{
	struct bytes frame = { 0 };
	uint8_t body[8];
	FILE *to = fopen(path, "a");

	assert_non_null(to);
	sparse_body_put64(body, rows);
	record_frame(&frame, RECORD_END, body, sizeof(body));
	assert_int_equal(fwrite(frame.at, 1, frame.count, to), frame.count);
	assert_int_equal(fclose(to), 0);
	bytes_fini(&frame);
}

/* A checkpoint ends with the number of its rows, and a log with none. */
static void table__end_that_cannot_be_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);
	char path[96];
	struct stat is;

	(void)unused;
	begin(table, 1);
	assert_int_equal(ps_table_save(table, error), 0);
	ps_table_close(table);
	name_of(1, "checkpoint", path);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(truncate(path, is.st_size - RECORD_HEADER_BYTES - 8), 0);
	end_write(path, HOT + 1);
	refused_with(&options, "an end with another number of rows");
	files_remove(NULL);
	ps_table_close(open_with(&options));
	name_of(0, "log", path);
	end_write(path, 0);
	refused_with(&options, "an end with another number of rows");
}

/* By how much a step is another than the one that could come next. */
static const struct misfit {
	uint8_t kind;
	uint64_t generation, epoch, incarnation, batch;
	const char *why;
} misfits[] = {
	{ SERVER_SPARSE_FENCE, 0, 0, 0, 0,
	  "a fence to a generation that is not above the one before" },
	{ SERVER_SPARSE_FENCE, -1ull, 0, 0, 0,
	  "a fence to a generation that is not above the one before" },
	{ SERVER_SPARSE_EPOCH, 0, 1, 0, 0, "an epoch that does not follow on the one before" },
	{ SERVER_SPARSE_EPOCH, 0, -1ull, 0, 0, "an epoch that does not follow on the one before" },
	{ SERVER_SPARSE_EPOCH, 1, 0, 0, 0,
	  "a step of another generation than that of the last fence" },
	{ SERVER_SPARSE_JOIN, 0, 0, 0, 0,
	  "a worker's incarnation that is not above the one before" },
	{ SERVER_SPARSE_JOIN, -1ull, 0, 1, 0,
	  "a step of another generation than that of the last fence" },
	{ SERVER_SPARSE_BATCH, 0, 0, 1, 0, "a batch of a worker's other incarnation" },
	{ SERVER_SPARSE_BATCH, 0, 0, 0, 1, "a batch that does not follow on the one before" },
	{ SERVER_SPARSE_BATCH, 0, 0, 0, -1ull, "a batch that does not follow on the one before" },
	{ SERVER_SPARSE_BATCH, 1, 0, 0, 0,
	  "a step of another generation than that of the last fence" },
};

/* What the table would not have written there: each alone, behind a log that is whole. */
static void table__step_that_does_not_follow_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);
	static const uint64_t cut[WORKERS * WINDOW];
	struct sparse_table shape = table->shape;
	struct server_sparse_record is = { .map = 1 };
	struct rng rng;
	char path[96];
	struct stat file;

	(void)unused;
	rng_init(&rng, 43, 0);
	begin(table, 4);
	for (int i = 0; i < 20; i++)
		one_step(table, &rng);
	is.generation = server_of(table)->generation;
	is.epoch = server_of(table)->expected;
	is.incarnation = server_of(table)->memory.worker[0].incarnation;
	is.batch = server_of(table)->memory.worker[0].next;
	assert_int_equal(is.incarnation, 4);
	ps_table_close(table);
	name_of(0, "log", path);
	assert_int_equal(stat(path, &file), 0);
	for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
		const struct misfit *misfit = &misfits[i];
		struct server_sparse_record what = is;
		struct bytes body = { 0 }, frame = { 0 };
		FILE *log = fopen(path, "a");

		what.kind = misfit->kind;
		what.generation += misfit->generation;
		what.epoch += misfit->epoch;
		what.incarnation += misfit->incarnation;
		what.batch += misfit->batch;
		record_step_put(&body, &what, &shape, cut, 0);
		record_frame(&frame, what.kind, body.at, (uint32_t)body.count);
		assert_non_null(log);
		assert_int_equal(fwrite(frame.at, 1, frame.count, log), frame.count);
		assert_int_equal(fclose(log), 0);
		bytes_fini(&body);
		bytes_fini(&frame);
		refused_with(&options, misfit->why);
		assert_int_equal(truncate(path, file.st_size), 0);
	}
	ps_table_close(open_with(&options)); /* which was all that was wrong */
}

static void byte_flip(const char *path, off_t at)
{
	FILE *file = fopen(path, "r+");
	int byte;

	assert_non_null(file);
	assert_int_equal(fseek(file, at, SEEK_SET), 0);
	byte = fgetc(file);
	assert_int_equal(fseek(file, at, SEEK_SET), 0);
	fputc(byte ^ 0x10, file);
	assert_int_equal(fclose(file), 0);
}

/* In the last log, too: it is not taken for the end of a crash, and what is behind it stays where it is. */
static void table__damage_of_what_was_on_the_disk_is_refused(void **unused)
{
	struct ps_table_options options = options_of(OPTIMISER_SUM);
	struct ps_table *table = open_with(&options);
	struct state before, after;
	struct stat is, then;
	struct rng rng;
	char path[96];

	(void)unused;
	rng_init(&rng, 47, 0);
	begin(table, 1);
	for (int i = 0; i < 20; i++)
		one_step(table, &rng);
	state_take(table, &before);
	ps_table_close(table);
	name_of(0, "log", path);
	assert_int_equal(stat(path, &is), 0);
	for (off_t at = is.st_size / 7; at < is.st_size - 40; at += is.st_size / 7) {
		byte_flip(path, at);
		refused_with(&options, "T.0.log: damaged at byte ");
		assert_int_equal(stat(path, &then), 0);
		assert_int_equal(then.st_size, is.st_size);
		byte_flip(path, at);
	}
	table = open_with(&options);
	state_take(table, &after);
	expect_same(&before, &after);
	ps_table_close(table);
}

/* ---- without a log: R-SP-33 ---- */

static const uint64_t reported[WINDOW] = { 8, 5, 6, 7 };

static struct ps_table_options options_without(void)
{
	struct ps_table_options options = options_of(OPTIMISER_ADAGRAD);

	options.durability = PS_CHECKPOINT;
	return options;
}

/* Who is whom, who has left, barriers and generations are as they were; pairs are as of the checkpoint. */
static void table__without_a_log_is_what_its_checkpoint_has(void **unused)
{
	struct ps_table_options options = options_without();
	struct ps_table *table = open_with(&options);
	struct state saved, before, after;
	struct rng rng;

	(void)unused;
	rng_init(&rng, 53, 0);
	begin(table, 3);
	for (int i = 0; i < STEPS; i++)
		one_step(table, &rng);
	settle(table);
	assert_int_equal(ps_table_checkpoint(table, error), 0);
	state_take(table, &saved);
	for (int i = 0; i < STEPS; i++)
		one_step(table, &rng);
	checkpoint_wait(table, 1);
	assert_true(home_sparse_join(table->home, 1, 1000));
	leave(table, 2);
	ps_table_barrier(table, 77);
	state_take(table, &before);
	ps_table_close(table);
	table = open_with(&options);
	state_take(table, &after);
	assert_int_equal(after.generation, before.generation);
	assert_int_equal(after.barrier, 77);
	assert_memory_equal(after.incarnation, before.incarnation, sizeof(before.incarnation));
	assert_memory_equal(after.has_left, before.has_left, sizeof(before.has_left));
	assert_int_equal(after.expected, saved.expected);
	assert_memory_equal(after.floats, saved.floats, sizeof(saved.floats));
	assert_int_equal(after.next[1], 1);
	ps_table_close(table);
}

/* It takes them in pieces. */
static void table__checkpoint_of_many_rows_has_all_of_them(void **unused)
{
	enum { PIECE_ROWS = (1 << 20) / (8 + 4 * DIM) + 1, ROWS = 2 * PIECE_ROWS };
	struct ps_table *table = open_as(OPTIMISER_SGD);
	uint64_t rows;

	(void)unused;
	assert_int_equal(store_reserve(table->store, ROWS), 0);
	for (uint32_t i = 0; i < ROWS; i++)
		store_get(table->store, cold_key(i))[0] = (float)i;
	rows = store_rows(table->store); /* these, and hot ones */
	assert_int_equal(ps_table_save(table, error), 0);
	ps_table_close(table);
	table = open_as(OPTIMISER_SGD);
	assert_int_equal(store_rows(table->store), rows);
	for (uint32_t i = 0; i < ROWS; i++) {
		const float *row = store_find(table->store, cold_key(i));

		assert_non_null(row);
		assert_true(row[0] == (float)i);
	}
	ps_table_close(table);
}

/* Also before the first epoch: what was reported must not come again. */
static void table__checkpoint_keeps_what_was_reported(void **unused)
{
	struct ps_table_options options = options_without();
	struct ps_table *table = open_with(&options);

	(void)unused;
	begin(table, 3);
	for (int life = 0; life < 2; life++) {
		ps_table_close(table);
		table = open_with(&options);
		home_sparse_gather(table->home, 1);
		assert_int_equal(sparse_fences(server_of(table)->generation), 2 + life);
		assert_true(home_sparse_report(table->home, 1, 3, 4, reported));
		assert_int_equal(server_of(table)->lost, life ? 0 : 2 + 2 + 2 + 2 + 4);
		assert_memory_equal(home_sparse_cut(table->home) + WINDOW, reported,
				    sizeof(reported));
		assert_int_equal(server_of(table)->memory.worker[1].next, 5);
		assert_int_equal(ps_table_save(table, error), 0);
		assert_true(is_there((uint64_t)life + 1, "checkpoint"));
	}
	ps_table_close(table);
}

/* While it is set the log's thread does not come to write; 5 s at most, so that a test that fails ends. */
static _Atomic bool is_slow;

ssize_t __real_pwrite64(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at);

ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at)
{
	for (int ms = 0; is_slow && ms < 5000; ms++)
		usleep(1000);
	return __real_pwrite64(fd, from, bytes, at);
}

/* An epoch is not in the log, but its generation is: nobody is told of either before that is on the disk. */
static void table__what_is_not_logged_waits_for_what_is(void **unused)
{
	struct ps_table_options options = options_without();
	struct ps_table *table = open_with(&options);
	struct rlimit size;
	struct rng rng;

	(void)unused;
	signal(SIGXFSZ, SIG_IGN);
	rng_init(&rng, 59, 0);
	begin(table, 3);
	settle(table);
	epoch(table, &rng);
	ps_table_settle(table);
	assert_true(server_sparse_is_settled(server_of(table)));
	getrlimit(RLIMIT_FSIZE, &size);
	size.rlim_cur = 1;
	setrlimit(RLIMIT_FSIZE, &size);
	is_slow = true;
	home_sparse_fence(table->home, 1);
	home_sparse_instance(table->home, 2, 0, &at_switch);
	epoch(table, &rng);
	ps_table_settle(table);
	assert_false(server_sparse_is_settled(server_of(table)));
	is_slow = false;
	trouble_wait(table, EFBIG);
	ps_table_settle(table);
	assert_false(server_sparse_is_settled(server_of(table)));
	size.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &size);
	settle(table);
	assert_true(server_sparse_is_settled(server_of(table)));
	ps_table_close(table);
}

static void table__without_a_log_damage_is_named(void **unused)
{
	struct ps_table_options options = options_without();
	struct ps_table *table = open_with(&options);
	struct rng rng;
	struct stat is;
	char path[96];

	(void)unused;
	rng_init(&rng, 61, 0);
	begin(table, 3);
	for (int i = 0; i < 20; i++)
		one_step(table, &rng);
	settle(table);
	assert_int_equal(ps_table_save(table, error), 0);
	home_sparse_fence(table->home, 1);
	ps_table_close(table);
	name_of(1, "log", path);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(truncate(path, is.st_size - 25), 0);
	table = open_with(&options);
	assert_non_null(strstr(table->notice, "T.1.log: recovered to the last whole record"));
	ps_table_close(table);
	name_of(1, "checkpoint", path);
	assert_int_equal(stat(path, &is), 0);
	assert_int_equal(truncate(path, is.st_size / 2), 0);
	refused_with(&options, "T.1.checkpoint: damaged: it ends inside of a record");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(table__cut_log_is_the_table_of_its_last_whole_record,
					  files_remove),
		cmocka_unit_test_teardown(table__partial_checkpoint_of_a_killed_writer_goes,
					  files_remove),
		cmocka_unit_test_teardown(table__files_that_only_look_like_its_own_are_none,
					  files_remove),
		cmocka_unit_test_teardown(table__a_cut_anywhere_but_at_the_end_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(table__end_that_cannot_be_is_refused, files_remove),
		cmocka_unit_test_teardown(table__step_that_does_not_follow_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(table__damage_of_what_was_on_the_disk_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(table__without_a_log_is_what_its_checkpoint_has,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_of_many_rows_has_all_of_them,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_keeps_what_was_reported, files_remove),
		cmocka_unit_test_teardown(table__what_is_not_logged_waits_for_what_is,
					  files_remove),
		cmocka_unit_test_teardown(table__without_a_log_damage_is_named, files_remove),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
