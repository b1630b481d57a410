/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_fixture.h - for tests of tables: one in a folder of its own, what may happen to it, and what it is then.
 */
#ifndef PS_TABLE_FIXTURE_H
#define PS_TABLE_FIXTURE_H

#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ps/table.h"
#include "util/rng.h"

enum { WORKERS = 3, WINDOW = 4, DIM = 2, HOT = 20, COLD = 60, STEPS = 60, BYTES = 1472 };
enum { PATIENCE_S = 60 };

/* In memory if possible: no test here needs a disk, and a sync of one takes long. */
static char folder[] = "/dev/shm/tally-table-XXXXXX";
static char map_path[64], error[PS_ERROR_MAX];
static struct outbox outbox; /* nothing here is ever sent */
static const struct link_address at_switch = { .port = 1 };

static sem_t news; /* a log has changed, once for each time */

static void on_change(void *arg)
{
	(void)arg;
	sem_post(&news);
}

/* The news may be old: look again at what you wait for. */
static void news_wait(void)
{
	alarm(PATIENCE_S);
	while (sem_wait(&news) && errno == EINTR)
		;
	alarm(0);
}

static void map_make(uint32_t version, uint64_t first_key)
{
	uint64_t keys[HOT];
	struct hot_map map = { .version = version, .keys = HOT, .key = keys };
	char said[FILES_ERROR_MAX];

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

static bool is_sync; /* of tables that begin from now on */

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
		.is_sync = is_sync,
		.changed = on_change,
	};

	return options;
}

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder) && !mkdtemp(strcpy(folder, "/tmp/tally-table-XXXXXX")))
		return -1;
	if (sem_init(&news, 0, 0) || outbox_open(&outbox, NULL))
		return -1;
	snprintf(map_path, sizeof(map_path), "%s/map", folder);
	map_make(1, hot_key(0));
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	outbox_close(&outbox);
	sem_destroy(&news);
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

static inline struct ps_table *open_as(enum optimiser_kind kind)
{
	struct ps_table_options options = options_of(kind);

	return open_with(&options);
}

static inline void refused_with(const struct ps_table_options *options, const char *part)
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

	while (!ps_table_is_durable(table, position))
		news_wait();
	ps_table_settle(table);
}

static inline void trouble_wait(struct ps_table *table, int want)
{
	while (!ps_table_trouble(table))
		news_wait();
	assert_int_equal(ps_table_trouble(table), want);
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

static inline void leave(struct ps_table *table, uint16_t worker)
{
	server_kv_replay(&table->kv, SERVER_KV_HAS_LEFT, worker);
	ps_table_leave(table, worker);
}

static inline void all_leave(struct ps_table *table)
{
	server_kv_replay(&table->kv, SERVER_KV_VOIDED, 0);
	ps_table_void(table);
}

static inline void one_step(struct ps_table *table, struct rng *rng)
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
			ps_table_barrier(table, table->kv.barrier + 1);
		else if (is_sync && !rng_below(rng, 3))
			all_leave(table);
		else
			leave(table, (uint16_t)rng_below(rng, WORKERS));
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
	uint64_t staged; /* keys that a step has sums of, */
	float gradient[HOT + COLD][DIM];
};

static uint64_t key_of(uint32_t i)
{
	return i < HOT ? hot_key(i) : cold_key(i - HOT);
}

static inline void state_take(const struct ps_table *table, struct state *state)
{
	const struct server_sparse *server = server_of(table);

	memset(state, 0, sizeof(*state));
	state->generation = server->generation;
	state->expected = server->expected;
	state->barrier = table->kv.barrier;
	for (uint32_t i = 0; i < WORKERS; i++) {
		state->incarnation[i] = server->memory.worker[i].incarnation;
		state->next[i] = server->memory.worker[i].next;
		for (uint32_t k = 0; k < WORKERS; k++)
			state->has_left[i][k] =
				server_kv_has_left(&table->kv, (uint16_t)i, (uint16_t)k);
	}
	memcpy(state->cut, home_sparse_cut(table->home), sizeof(state->cut));
	for (uint32_t i = 0; i < HOT + COLD; i++)
		store_read(table->store, key_of(i), state->floats[i]);
	state->staged = table->stage ? stage_count(table->stage) : 0;
	for (uint64_t i = 0; i < state->staged; i++) {
		float gradient[DIM];
		uint64_t key = stage_gradient(table->stage, i, gradient);

		for (uint32_t k = 0; k < HOT + COLD; k++)
			if (key_of(k) == key)
				memcpy(state->gradient[k], gradient, sizeof(gradient));
	}
}

static inline void expect_same(const struct state *a, const struct state *b)
{
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->expected, b->expected);
	assert_int_equal(a->barrier, b->barrier);
	assert_memory_equal(a->incarnation, b->incarnation, sizeof(a->incarnation));
	assert_memory_equal(a->next, b->next, sizeof(a->next));
	assert_memory_equal(a->has_left, b->has_left, sizeof(a->has_left));
	assert_memory_equal(a->cut, b->cut, sizeof(a->cut));
	assert_memory_equal(a->floats, b->floats, sizeof(a->floats));
	assert_int_equal(a->staged, b->staged);
	assert_memory_equal(a->gradient, b->gradient, sizeof(a->gradient));
}

/* Its process ends; what the table finds then. */
static inline void checkpoint_wait(struct ps_table *table, int want)
{
	siginfo_t how;

	alarm(PATIENCE_S);
	assert_int_equal(waitid(P_PID, (id_t)table->checkpoint, &how, WEXITED | WNOWAIT), 0);
	alarm(0);
	assert_int_equal(ps_table_checkpoint_turn(table, error), want);
}

static inline bool is_there(uint64_t number, const char *what)
{
	char path[96];

	name_of(number, what, path);
	return access(path, F_OK) == 0;
}

#endif
