/* SPDX-License-Identifier: Apache-2.0 */
#include "ps/table.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/rng.h"

enum { WORKERS = 3, WINDOW = 4, DIM = 2, HOT = 20, COLD = 60, STEPS = 60, BYTES = 1472 };

static char folder[] = "/tmp/tally-table-XXXXXX";
static char map_path[64], error[PS_ERROR_MAX];
static struct outbox outbox; /* nothing here is ever sent */
static const struct link_address at_switch = { .port = 1 };

static void on_change(void *arg)
{
	(void)arg;
}

static void map_make(uint32_t version, uint64_t first_key)
{
	uint64_t keys[HOT];
	struct hot_map map = { .version = version, .keys = HOT, .key = keys };
	char said[GLM_ERROR_MAX];

	for (uint64_t i = 0; i < HOT; i++)
		keys[i] = first_key + 1000 * i;
	if (hot_map_write(map_path, &map, said))
		fail_msg("%s", said);
}

static uint64_t hot_key(uint32_t rank)
{
	return 5 + 1000ull * rank;
}

static uint64_t cold_key(uint32_t i)
{
	return 7 + 13ull * i;
}

static struct ps_table_options options_of(enum optimiser_kind kind)
{
	struct ps_table_options options = {
		.name = "T",
		.dim = DIM,
		.workers = WORKERS,
		.window = WINDOW,
		.bytes = BYTES,
		.optimiser = optimiser_default(kind),
		.initial = { .kind = INITIAL_NORMAL, .scale = 1, .seed = 3 },
		.unit = 0.25f,
		.map = map_path,
		.folder = folder,
		.changed = on_change,
	};

	return options;
}

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder) || outbox_open(&outbox, NULL))
		return -1;
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
	map_make(1, hot_key(0));
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	outbox_close(&outbox);
	unlink(map_path);
	return rmdir(folder);
}

static void name_of(uint64_t number, const char *what, char path[96])
{
	snprintf(path, 96, "%s/T.%u.%s", folder, (unsigned)number, what);
}

static int files_remove(void **state)
{
	static const char *const kinds[] = { "log", "checkpoint", "checkpoint.partial" };
	char path[96];

	(void)state;
	for (uint64_t number = 0; number < 8; number++) {
		for (unsigned i = 0; i < 3; i++) {
			name_of(number, kinds[i], path);
			unlink(path);
		}
	}
	map_make(1, hot_key(0));
	return 0;
}

static struct ps_table *open_with(const struct ps_table_options *options)
{
	struct ps_table *table;

	if (ps_table_open(&table, options, &outbox, error))
		fail_msg("%s", error);
	return table;
}

static struct ps_table *open_as(enum optimiser_kind kind)
{
	struct ps_table_options options = options_of(kind);

	return open_with(&options);
}

static void refused_with(const struct ps_table_options *options, const char *part)
{
	struct ps_table *table;

	assert_int_equal(ps_table_open(&table, options, &outbox, error), -1);
	if (!strstr(error, part))
		fail_msg("\"%s\" does not say \"%s\"", error, part);
}

static const struct server_sparse *server_of(const struct ps_table *table)
{
	return home_sparse_server(table->home);
}

/* ---- what happens to a table ---- */

static void settle(struct ps_table *table)
{
	uint64_t position = ps_table_position(table);

	for (int i = 0; i < 6000 && !ps_table_is_durable(table, position); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_true(ps_table_is_durable(table, position));
	ps_table_settle(table);
}

/* A fence, its switch, and the workers: batches and epochs may come. */
static void begin(struct ps_table *table, uint64_t incarnation)
{
	home_sparse_fence(table->home, table->map.version);
	home_sparse_instance(table->home, 1, 0, &at_switch);
	for (uint16_t i = 0; i < WORKERS; i++)
		assert_true(home_sparse_join(table->home, i, incarnation) || incarnation == 0);
}

static struct sparse part_of(const struct ps_table *table, enum sparse_kind kind, uint32_t part)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.generation = server_of(table)->generation,
				.number = server_of(table)->expected,
				.part = part,
				.parts = 2 };
}

/* The parts of a flush, as a switch makes them: every third rank or so. */
static void epoch(struct ps_table *table, struct rng *rng)
{
	uint64_t number = server_of(table)->expected;
	uint8_t at[SPARSE_BYTES_MAX];
	struct sparse packet = part_of(table, SPARSE_CUT, 0);
	uint32_t cut_parts = sparse_cut_parts(&table->shape);

	assert_int_equal(cut_parts, 1);
	assert_int_equal(sparse_flush_parts_max(&table->shape), 2);
	packet.worker = 0;
	packet.count = WORKERS;
	packet.width = WINDOW;
	sparse_put(at, &packet);
	for (uint32_t i = 0; i < WORKERS * WINDOW; i++)
		sparse_body_put64(at + SPARSE_HEADER_BYTES + 8ul * i, i % WINDOW + WINDOW * number);
	home_sparse_serve(table->home, &at_switch, at, sparse_bytes(&packet));
	packet = part_of(table, SPARSE_FLUSH, 1);
	packet.width = DIM;
	for (uint32_t rank = 0; rank < HOT; rank++) {
		uint8_t *item;

		bool is_last_chance = rank + 1 == HOT && !packet.count;

		if (rng_below(rng, 3) && !is_last_chance)
			continue;
		item = at + SPARSE_HEADER_BYTES + packet.count++ * sparse_sum_bytes(DIM);
		sparse_body_put32(item, rank);
		for (uint32_t i = 0; i < DIM; i++)
			sparse_body_put64(item + 4 + 8ul * i,
					  (uint64_t)((int64_t)rng_below(rng, 2001) - 1000));
	}
	sparse_put(at, &packet);
	home_sparse_serve(table->home, &at_switch, at, sparse_bytes(&packet));
	assert_int_equal(server_of(table)->expected, number + 1);
}

static enum ps_batch batch(struct ps_table *table, uint16_t worker, struct rng *rng)
{
	const struct server_sparse_worker *at = &server_of(table)->memory.worker[worker];
	uint64_t keys[COLD];
	float values[COLD * DIM];
	uint32_t count = 0;

	for (uint32_t i = 0; i < COLD; i++)
		if (!rng_below(rng, 4))
			keys[count++] = cold_key(i);
	for (uint32_t i = 0; i < count * DIM; i++)
		values[i] = (float)rng_below(rng, 401) / 8 - 25;
	return ps_table_batch(table, worker, at->incarnation, at->next, keys, values, count);
}

static void one_step(struct ps_table *table, struct rng *rng)
{
	uint16_t worker = (uint16_t)rng_below(rng, WORKERS);

	switch (rng_below(rng, 12)) {
	case 0:
		home_sparse_fence(table->home, table->map.version);
		home_sparse_instance(table->home, rng_next(rng) | 1, 0, &at_switch);
		break;
	case 1:
		assert_true(
			home_sparse_join(table->home, worker,
					 server_of(table)->memory.worker[worker].incarnation + 1));
		settle(table);
		home_sparse_instance(table->home, rng_next(rng) | 1, 0, &at_switch);
		break;
	case 2:
		if (rng_below(rng, 2))
			ps_table_barrier(table, table->barrier + 1);
		else
			ps_table_leave(table, (uint16_t)rng_below(rng, WORKERS));
		break;
	case 3:
	case 4:
	case 5:
		epoch(table, rng);
		break;
	default:
		assert_int_equal(batch(table, worker, rng), PS_BATCH_TAKEN);
	}
}

/* ---- what a table is ---- */

struct state {
	uint64_t generation, expected, barrier, rows;
	uint64_t incarnation[WORKERS], next[WORKERS];
	bool has_left[WORKERS][WORKERS];
	uint64_t cut[WORKERS * WINDOW];
	float floats[HOT + COLD][DIM];
};

static void state_take(const struct ps_table *table, struct state *state)
{
	const struct server_sparse *server = server_of(table);

	memset(state, 0, sizeof(*state));
	state->generation = server->generation;
	state->expected = server->expected;
	state->barrier = table->barrier;
	for (uint32_t i = 0; i < WORKERS; i++) {
		state->incarnation[i] = server->memory.worker[i].incarnation;
		state->next[i] = server->memory.worker[i].next;
		for (uint32_t k = 0; k < WORKERS; k++)
			state->has_left[i][k] = ps_table_has_left(table, (uint16_t)i, (uint16_t)k);
	}
	memcpy(state->cut, home_sparse_cut(table->home), sizeof(state->cut));
	for (uint32_t i = 0; i < HOT + COLD; i++)
		store_read(table->store, i < HOT ? hot_key(i) : cold_key(i - HOT),
			   state->floats[i]);
}

static void expect_same(const struct state *a, const struct state *b)
{
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->expected, b->expected);
	assert_int_equal(a->barrier, b->barrier);
	assert_memory_equal(a->incarnation, b->incarnation, sizeof(a->incarnation));
	assert_memory_equal(a->next, b->next, sizeof(a->next));
	assert_memory_equal(a->has_left, b->has_left, sizeof(a->has_left));
	assert_memory_equal(a->cut, b->cut, sizeof(a->cut));
	assert_memory_equal(a->floats, b->floats, sizeof(a->floats));
}

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

/* A crash at any byte: the table is what it was after the last whole record. */
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

static void checkpoint_wait(struct ps_table *table, int want)
{
	int result = 0;

	for (int i = 0; i < 6000 && !result; i++) {
		result = ps_table_checkpoint_turn(table, error);
		if (!result)
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	assert_int_equal(result, want);
}

static bool is_there(uint64_t number, const char *what)
{
	char path[96];

	name_of(number, what, path);
	return access(path, F_OK) == 0;
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

static void something_write(const char *path)
{
	FILE *to = fopen(path, "w");

	assert_non_null(to);
	fputs("something", to);
	assert_int_equal(fclose(to), 0);
}

static void table__damage_anywhere_but_at_the_end_is_refused(void **unused)
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
	refused_with(&options, "T.0.log: it ends inside of a record");
	name_of(0, "log", path);
	unlink(path);
	refused_with(&options, "T.0.log: it is not there, and others of its table are");
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
		cmocka_unit_test_teardown(table__cut_log_is_the_table_of_its_last_whole_record,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_and_what_follows_are_the_table,
					  files_remove),
		cmocka_unit_test_teardown(table__checkpoint_that_failed_is_none, files_remove),
		cmocka_unit_test_teardown(table__damage_anywhere_but_at_the_end_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(table__damage_of_what_was_on_the_disk_is_refused,
					  files_remove),
		cmocka_unit_test_teardown(table__made_otherwise_is_refused, files_remove),
		cmocka_unit_test_teardown(table__bound_of_memory_refuses_a_batch_whole,
					  files_remove),
		cmocka_unit_test_teardown(table__answers_wait_for_the_disk, files_remove),
		cmocka_unit_test_teardown(table__values_are_the_sums_that_were_sent, files_remove),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
