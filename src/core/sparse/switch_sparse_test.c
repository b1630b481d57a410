/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse mode's switch: random packets against a slow model, which keeps every push that was ever added and
 * works out sums and cuts from them; and claims about single packets. Argument: the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "core/sparse/switch_sparse.h"
#include "tests/random.h"

enum { INSTANCE = 77, GENERATION = 5, MAP = 9, FIRST_EPOCH = 3, PUSHES_MAX = 4000, RANKS_MAX = 40 };

/* A push that was added: what it added is worked out again from its number. */
struct added {
	uint64_t epoch, seq;
	uint16_t worker;
};

struct scene {
	struct sparse_table table;
	struct switch_sparse state;
	struct switch_sparse_memory memory;
	uint64_t *cut; /* of SETUP */
	struct added added[PUSHES_MAX];
	uint32_t added_count;
	uint64_t committed; /* epochs below */
	uint8_t at[SPARSE_BYTES_MAX];
	uint32_t seen[SWITCH_SPARSE_VERDICT_COUNT];
};

static struct sparse header_of(const struct scene *scene, enum sparse_kind kind, uint64_t number)
{
	return (struct sparse){ .kind = (uint8_t)kind,
				.table = scene->table.index,
				.worker = SPARSE_SERVER,
				.generation = GENERATION,
				.number = number,
				.map = MAP };
}

/* The packet as a receiver gets it. */
static enum switch_sparse_verdict give(struct scene *scene, struct sparse *packet)
{
	enum switch_sparse_verdict verdict;

	sparse_put(scene->at, packet);
	assert_int_equal(sparse_check(scene->at, sparse_bytes(packet), packet), WIRE_OK);
	verdict =
		switch_sparse_step(&scene->table, &scene->state, &scene->memory, packet, scene->at);
	scene->seen[verdict]++;
	return verdict;
}

static void setup_draw(struct scene *scene, uint32_t part, struct sparse *packet)
{
	uint32_t window = scene->table.window, first = part * sparse_rows_per_part(&scene->table);

	*packet = header_of(scene, SPARSE_SETUP, FIRST_EPOCH);
	packet->worker = (uint16_t)first;
	packet->part = part;
	packet->parts = sparse_cut_parts(&scene->table);
	packet->count = (uint16_t)sparse_rows_of_part(&scene->table, part);
	packet->width = (uint16_t)window;
	sparse_body_put64(scene->at + SPARSE_HEADER_BYTES, INSTANCE);
	for (uint32_t i = 0; i < packet->count * window; i++)
		sparse_body_put64(scene->at + SPARSE_HEADER_BYTES + 8 + 8 * i,
				  scene->cut[first * window + i]);
}

static void scene_open(struct scene *scene, uint64_t number)
{
	struct sparse_table *table = &scene->table;

	memset(scene, 0, sizeof(*scene));
	rng_init(&rng, seed, number);
	table->ranks = 1 + random_below(RANKS_MAX);
	table->index = (uint16_t)random_below(65536);
	table->workers = (uint16_t)(1 + random_below(5));
	table->window = (uint16_t)(1 + random_below(4));
	table->dim = (uint16_t)(1 + random_below(3));
	table->bytes = (uint16_t)(48 + 8u * table->window * (1 + random_below(4)));
	if (table->bytes < 40 + 4 + 8 * table->dim)
		table->bytes = (uint16_t)(44 + 8 * table->dim);
	assert_true(sparse_table_is_sound(table));
	scene->state.instance = INSTANCE;
	switch_sparse_name(&scene->state, GENERATION);
	scene->memory.place = calloc(sparse_places(table), sizeof(*scene->memory.place));
	scene->memory.tag = calloc(2u * table->ranks, sizeof(uint64_t));
	scene->memory.sum = calloc(2u * table->ranks * table->dim, sizeof(int64_t));
	scene->memory.list = calloc(2u * table->ranks, sizeof(uint32_t));
	scene->cut = calloc(sparse_places(table), sizeof(uint64_t));
	for (uint32_t i = 0; i < sparse_places(table); i++)
		if (random_below(2))
			scene->cut[i] = i % table->window + random_below(5) * table->window;
	scene->committed = FIRST_EPOCH;
}

static void scene_close(struct scene *scene)
{
	free(scene->memory.place);
	free(scene->memory.tag);
	free(scene->memory.sum);
	free(scene->memory.list);
	free(scene->cut);
}

/* Parts in any order, some of them twice. */
static void set_up(struct scene *scene)
{
	struct sparse packet;

	for (uint32_t i = 0; !scene->state.generation; i++) {
		uint32_t part = random_below(sparse_cut_parts(&scene->table));
		enum switch_sparse_verdict verdict;

		setup_draw(scene, part, &packet);
		verdict = give(scene, &packet);
		assert_int_equal(verdict, scene->state.generation ? SWITCH_SPARSE_READY
								  : SWITCH_SPARSE_TAKEN);
		assert_true(i < 1000);
	}
	assert_int_equal(packet.kind, SPARSE_READY);
	assert_int_equal(packet.number, INSTANCE);
	assert_int_equal(packet.generation, GENERATION);
	assert_int_equal(scene->state.epoch, FIRST_EPOCH);
}

/* ---- the slow model ---- */

static int32_t value_of(uint64_t seq, uint16_t worker, uint32_t rank, uint32_t i)
{
	return (int32_t)(seq * 2654435761u + worker * 40503u + rank * 97u + i) >> 4;
}

static bool has_rank(uint64_t seq, uint16_t worker, uint32_t rank)
{
	return (seq * 31 + worker * 7 + rank * 13) % 5 < 2;
}

/* The ranks of a push, if it has them, are in this order: one way round or the other. */
static uint32_t rank_at(const struct scene *scene, uint64_t seq, uint32_t k)
{
	return seq & 1 ? k : scene->table.ranks - 1 - k;
}

static uint64_t last_of(const struct scene *scene, uint16_t worker, uint32_t place, uint64_t end)
{
	uint32_t window = scene->table.window;
	uint64_t last = scene->cut[worker * window + place];

	for (uint32_t i = 0; i < scene->added_count; i++) {
		const struct added *added = &scene->added[i];

		if (added->worker == worker && added->seq % window == place && added->epoch < end &&
		    added->seq > last)
			last = added->seq;
	}
	return last;
}

static int64_t sum_of(const struct scene *scene, uint64_t epoch, uint32_t rank, uint32_t k)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < scene->added_count; i++) {
		const struct added *added = &scene->added[i];

		if (added->epoch == epoch && has_rank(added->seq, added->worker, rank))
			sum += value_of(added->seq, added->worker, rank, k);
	}
	return sum;
}

/* R-SP-6: the ranks that an epoch touched, in the order of their first touch. */
static uint32_t list_of(const struct scene *scene, uint64_t epoch, uint32_t *list)
{
	bool is_in[RANKS_MAX] = { false };
	uint32_t count = 0;

	for (uint32_t i = 0; i < scene->added_count; i++) {
		const struct added *added = &scene->added[i];

		for (uint32_t k = 0; k < scene->table.ranks && added->epoch == epoch; k++) {
			uint32_t rank = rank_at(scene, added->seq, k);

			if (is_in[rank] || !has_rank(added->seq, added->worker, rank))
				continue;
			is_in[rank] = true;
			list[count++] = rank;
		}
	}
	return count;
}

static int64_t sum_at(const struct sparse *packet, const uint8_t *item, uint32_t k)
{
	return packet->kind == SPARSE_FLUSH ? (int64_t)sparse_body_get64(item + 4 + 8 * k)
					    : (int32_t)sparse_body_get32(item + 4 + 4 * k);
}

/* R-SP-10: its cut is as of the flip. R-SP-16: a push is in the cut, and all its pairs are in the sums, of one epoch. */
static void flush_agrees(struct scene *scene)
{
	const struct sparse_table *table = &scene->table;
	uint32_t list[RANKS_MAX], rows = 0, next = 0;
	uint32_t touched = list_of(scene, scene->state.epoch - 1, list);
	uint32_t parts = switch_sparse_parts(table, &scene->state);

	assert_int_equal(parts, sparse_flush_parts(table, touched));
	for (uint32_t part = 0; part < parts; part++) {
		uint8_t *at = malloc(table->bytes);
		uint32_t bytes = switch_sparse_part(table, &scene->state, &scene->memory, part, at);
		struct sparse packet = { 0 };

		assert_true(bytes <= table->bytes);
		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_true(sparse_is_flush_part(table, &packet));
		assert_int_equal(packet.number, scene->state.epoch - 1);
		assert_int_equal(packet.generation, GENERATION);
		for (uint32_t i = 0; i < packet.count; i++) {
			const uint8_t *item = sparse_item(&packet, at, i);

			if (packet.kind == SPARSE_CUT) {
				for (uint32_t p = 0; p < table->window; p++)
					assert_int_equal(sparse_body_get64(item + 8 * p),
							 last_of(scene, (uint16_t)rows, p,
								 packet.number + 1));
				rows++;
				continue;
			}
			assert_true(next < touched);
			assert_int_equal(sparse_body_get32(item), list[next]);
			for (uint32_t k = 0; k < table->dim; k++)
				assert_int_equal(sum_at(&packet, item, k),
						 sum_of(scene, packet.number, list[next], k));
			next++;
		}
		free(at);
	}
	assert_int_equal(rows, table->workers);
	assert_int_equal(next, touched);
}

/* ---- packets ---- */

static void push_draw(struct scene *scene, struct sparse *packet)
{
	const struct sparse_table *table = &scene->table;
	uint8_t *item = scene->at + SPARSE_HEADER_BYTES;
	uint32_t place = random_below(table->window);

	*packet = header_of(scene, SPARSE_PUSH, 0);
	packet->worker = (uint16_t)random_below(table->workers);
	packet->width = table->dim;
	packet->number = last_of(scene, packet->worker, place, UINT64_MAX);
	if (packet->number < 1)
		packet->number = place;
	packet->number += random_below(4) ? table->window : 0;
	if (!packet->number)
		packet->number = table->window;
	for (uint32_t k = 0; k < table->ranks; k++) {
		uint32_t rank = rank_at(scene, packet->number, k);

		if (!has_rank(packet->number, packet->worker, rank))
			continue;
		sparse_body_put32(item, rank);
		for (uint32_t i = 0; i < table->dim; i++)
			sparse_body_put32(item + 4 + 4 * i,
					  (uint32_t)value_of(packet->number, packet->worker, rank,
							     i));
		item += sparse_pair_bytes(table->dim);
		packet->count++;
	}
}

/* One thing wrong with it: it must be refused, and nothing changed. */
static void push_spoil(struct scene *scene, struct sparse *packet)
{
	switch (random_below(6)) {
	case 0:
		packet->generation += random_below(2) ? 1 : -1ull;
		break;
	case 1:
		packet->map++;
		break;
	case 2:
		packet->worker = (uint16_t)(scene->table.workers + random_below(3));
		break;
	case 3:
		packet->number = 0;
		break;
	case 4:
		packet->count = 1;
		sparse_body_put32(scene->at + SPARSE_HEADER_BYTES,
				  scene->table.ranks + random_below(2));
		break;
	case 5:
		packet->count = 0;
		packet->width++;
		break;
	}
}

static void push(struct scene *scene)
{
	struct sparse packet;
	struct added added;
	bool is_new, is_spoilt = !random_below(8);
	enum switch_sparse_verdict verdict;
	struct switch_sparse before = scene->state;

	push_draw(scene, &packet);
	if (is_spoilt)
		push_spoil(scene, &packet);
	added = (struct added){ scene->state.epoch, packet.number, packet.worker };
	is_new = !is_spoilt &&
		 added.seq > last_of(scene, added.worker,
				     (uint32_t)(added.seq % scene->table.window), UINT64_MAX);
	verdict = give(scene, &packet);
	if (is_spoilt) {
		assert_true(verdict >= SWITCH_SPARSE_DROP_KIND);
		assert_memory_equal(&before, &scene->state, sizeof(before));
		return;
	}
	assert_int_equal(verdict, is_new ? SWITCH_SPARSE_ADDED : SWITCH_SPARSE_REPEAT);
	assert_int_equal(packet.kind, SPARSE_ACK);
	assert_int_equal(packet.number, added.seq);
	assert_int_equal(packet.worker, added.worker);
	assert_int_equal(packet.count + packet.width + packet.map, 0);
	if (is_new)
		scene->added[scene->added_count++] = added;
}

static void committed(struct scene *scene)
{
	struct sparse packet =
		header_of(scene, SPARSE_COMMITTED, scene->state.epoch - random_below(4));
	bool is_it = scene->state.is_busy && packet.number == scene->state.epoch - 1;

	if (!random_below(6)) {
		packet.generation++;
		is_it = false;
	}
	assert_int_equal(give(scene, &packet) == SWITCH_SPARSE_TAKEN, is_it);
	if (is_it)
		assert_false(scene->state.is_busy);
}

static void whatever_comes_is_as_the_slow_model_says(void **state)
{
	uint32_t flushes = 0, seen[SWITCH_SPARSE_VERDICT_COUNT] = { 0 };
	struct scene *scene = malloc(sizeof(*scene));

	(void)state;
	for (uint32_t number = 1; number <= 60; number++) {
		scene_open(scene, number);
		set_up(scene);
		for (uint32_t i = 0; i < 300; i++) {
			uint32_t what = random_below(20);

			if (what < 14) {
				push(scene);
			} else if (what < 16) {
				committed(scene);
			} else if (what < 17 && switch_sparse_may_flip(&scene->state)) {
				switch_sparse_flip(&scene->state);
			} else if (what < 18 && scene->state.is_busy) {
				flush_agrees(scene);
				flushes++;
			}
		}
		for (uint32_t i = 0; i < SWITCH_SPARSE_VERDICT_COUNT; i++)
			seen[i] += scene->seen[i];
		scene_close(scene);
	}
	free(scene);
	assert_true(flushes > 300);
	assert_true(seen[SWITCH_SPARSE_ADDED] > 1000 && seen[SWITCH_SPARSE_REPEAT] > 500);
	for (uint32_t i = SWITCH_SPARSE_DROP_GENERATION; i < SWITCH_SPARSE_VERDICT_COUNT; i++)
		assert_true(seen[i] > 20);
}

/* ---- claims ---- */

static void scene_of_one(struct scene *scene)
{
	scene_open(scene, 1000);
	scene_close(scene);
	scene->table = (struct sparse_table){
		.ranks = 3, .index = 4, .workers = 2, .window = 2, .dim = 1, .bytes = 200
	};
	scene->memory.place = calloc(4, sizeof(*scene->memory.place));
	scene->memory.tag = calloc(6, sizeof(uint64_t));
	scene->memory.sum = calloc(6, sizeof(int64_t));
	scene->memory.list = calloc(6, sizeof(uint32_t));
	scene->cut = calloc(4, sizeof(uint64_t));
}

static enum switch_sparse_verdict push_one(struct scene *scene, uint64_t seq, int32_t value)
{
	struct sparse packet = header_of(scene, SPARSE_PUSH, seq);

	packet.worker = 1;
	packet.count = 1;
	packet.width = 1;
	sparse_body_put32(scene->at + SPARSE_HEADER_BYTES, 2);
	sparse_body_put32(scene->at + SPARSE_HEADER_BYTES + 4, (uint32_t)value);
	return give(scene, &packet);
}

static void a_table_has_as_many_workers_as_a_switch_has_children(void **state)
{
	struct sparse_table table = {
		.ranks = 3, .workers = SWITCH_CHILDREN_MAX, .window = 2, .dim = 1, .bytes = 200
	};

	(void)state;
	assert_true(sparse_table_is_sound(&table));
	table.workers++;
	assert_false(sparse_table_is_sound(&table));
}

static void a_sum_of_zero_is_flushed_and_an_untouched_rank_is_not(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	uint8_t at[200];
	struct sparse packet = { 0 };

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	push_one(scene, 1, 7);
	push_one(scene, 2, -7);
	switch_sparse_flip(&scene->state);
	switch_sparse_part(&scene->table, &scene->state, &scene->memory, 1, at);
	sparse_get(at, &packet);
	assert_int_equal(packet.count, 1);
	assert_int_equal(sparse_body_get32(sparse_item(&packet, at, 0)), 2);
	assert_int_equal(sum_at(&packet, sparse_item(&packet, at, 0), 0), 0);
	scene_close(scene);
	free(scene);
}

static void a_part_is_short_while_each_of_its_sums_has_32_bits(void **state)
{
	static const int64_t sums[] = { 0,         INT32_MAX,       INT32_MIN,
					INT64_MIN, INT32_MAX + 1ll, INT32_MIN - 1ll };
	struct scene *scene = malloc(sizeof(*scene));
	uint8_t at[200];

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	push_one(scene, 1, 1);
	switch_sparse_flip(&scene->state);
	for (uint32_t i = 0; i < 6; i++) {
		struct sparse packet = { 0 };
		uint32_t bytes;

		scene->memory.sum[(FIRST_EPOCH & 1) * 3 + 2] = sums[i];
		bytes = switch_sparse_part(&scene->table, &scene->state, &scene->memory, 1, at);
		assert_int_equal(sparse_check(at, bytes, &packet), WIRE_OK);
		assert_int_equal(packet.kind, i < 3 ? SPARSE_FLUSH_SHORT : SPARSE_FLUSH);
		assert_int_equal(bytes, SPARSE_HEADER_BYTES + (i < 3 ? 8 : 12));
		assert_int_equal(sum_at(&packet, sparse_item(&packet, at, 0), 0), sums[i]);
	}
	scene_close(scene);
	free(scene);
}

/* Of a table of however many ranks: what was touched goes out, and the bank's next epoch has a list of its own. */
static void a_flush_has_the_touched_ranks_and_no_more(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse packet;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	for (uint64_t epoch = FIRST_EPOCH; epoch < FIRST_EPOCH + 6; epoch++) {
		bool is_empty = epoch % 3 == 0;
		uint8_t at[200], *at_end;

		for (uint64_t seq = 2 * epoch; seq < 2 * epoch + 2 && !is_empty; seq++)
			assert_int_equal(push_one(scene, seq, 1), SWITCH_SPARSE_ADDED);
		switch_sparse_flip(&scene->state);
		assert_int_equal(switch_sparse_parts(&scene->table, &scene->state),
				 is_empty ? 1 : 2);
		for (uint32_t part = 0; part < (is_empty ? 1 : 2); part++) {
			memset(at, 0xa5, sizeof(at));
			at_end = at + switch_sparse_part(&scene->table, &scene->state,
							 &scene->memory, part, at);
			assert_int_equal(*at_end, 0xa5); /* nothing is written behind it */
			sparse_get(at, &packet);
			assert_int_equal(packet.parts, is_empty ? 1 : 2);
			assert_int_equal(packet.count, part ? 1 : 2);
		}
		packet = header_of(scene, SPARSE_COMMITTED, epoch);
		assert_int_equal(give(scene, &packet), SWITCH_SPARSE_TAKEN);
	}
	scene_close(scene);
	free(scene);
}

static void a_sum_saturates_both_ways_and_says_so_in_its_epoch(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	uint64_t bank = FIRST_EPOCH & 1;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	push_one(scene, 1, 1);
	scene->memory.sum[bank * 3 + 2] = INT64_MAX - 1;
	push_one(scene, 2, 1);
	assert_int_equal(scene->state.flags[bank], 0);
	push_one(scene, 3, 1);
	assert_int_equal(scene->memory.sum[bank * 3 + 2], INT64_MAX);
	assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
	scene->memory.sum[bank * 3 + 2] = INT64_MIN + 1;
	push_one(scene, 4, -2);
	assert_int_equal(scene->memory.sum[bank * 3 + 2], INT64_MIN);
	push_one(scene, 5, 1);
	assert_int_equal(scene->state.flags[bank],
			 SPARSE_SATURATED); /* what fits does not mend it */
	switch_sparse_flip(&scene->state);
	assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
	assert_int_equal(scene->state.flags[!bank], 0);
	push_one(scene, 6, 9);
	assert_int_equal(scene->memory.sum[(!bank) * 3 + 2], 9);
	scene_close(scene);
	free(scene);
}

static void setup_is_for_one_instance_once(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse packet;

	(void)state;
	scene_of_one(scene);
	setup_draw(scene, 0, &packet);
	sparse_body_put64(scene->at + SPARSE_HEADER_BYTES, INSTANCE + 1);
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_STALE);
	assert_int_equal(push_one(scene, 1, 1), SWITCH_SPARSE_DROP_GENERATION);
	set_up(scene);
	assert_int_equal(push_one(scene, 1, 1), SWITCH_SPARSE_ADDED);
	setup_draw(scene, 0, &packet); /* a copy: READY again, and nothing is lost */
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_READY);
	assert_int_equal(push_one(scene, 1, 1), SWITCH_SPARSE_REPEAT);
	setup_draw(scene, 0, &packet);
	packet.generation++;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_GENERATION);
	assert_int_equal(push_one(scene, 2, 1), SWITCH_SPARSE_ADDED);
	scene_close(scene);
	free(scene);
}

static void a_push_of_another_map_is_dropped(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse packet;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	packet = header_of(scene, SPARSE_PUSH, 1);
	packet.worker = 1;
	packet.width = 1;
	packet.map = MAP + 1;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_DROP_MAP);
	packet.map = MAP;
	assert_int_equal(give(scene, &packet), SWITCH_SPARSE_ADDED);
	scene_close(scene);
	free(scene);
}

/* R-SP-12, R-SP-30 */
static void a_stepped_table_flips_for_flip_alone(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse ask, flip;

	(void)state;
	scene_of_one(scene);
	scene->table.is_stepped = 1;
	set_up(scene);
	ask = header_of(scene, SPARSE_ASK, 0);
	push_one(scene, 1, 1);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_DROP_STALE);
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 1, true));
	flip = header_of(scene, SPARSE_FLIP, FIRST_EPOCH + 1);
	assert_int_equal(give(scene, &flip), SWITCH_SPARSE_DROP_STALE);
	flip = header_of(scene, SPARSE_FLIP, FIRST_EPOCH);
	assert_int_equal(give(scene, &flip), SWITCH_SPARSE_TAKEN);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1000, false));
	scene_close(scene);
	free(scene);
}

/* R-SP-9, R-SP-12, R-SP-13, R-SP-14 */
static void a_flip_is_due_by_pairs_age_or_ask_and_never_while_busy(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse ask, bcast;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 1, false));
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1, true));
	push_one(scene, 1, 1);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1, false));
	switch_sparse_flip(&scene->state);
	ask = header_of(scene, SPARSE_ASK, 0);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN); /* remembered while busy */
	assert_false(switch_sparse_is_due(&scene->table, &scene->state, 0, true));
	ask = header_of(scene, SPARSE_COMMITTED, FIRST_EPOCH);
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN);
	assert_true(switch_sparse_is_due(&scene->table, &scene->state, 1000, false));
	bcast = header_of(scene, SPARSE_BCAST, FIRST_EPOCH);
	bcast.width = 1;
	bcast.parts = 1;
	assert_int_equal(give(scene, &bcast), SWITCH_SPARSE_FORWARD);
	bcast.generation--;
	assert_int_equal(give(scene, &bcast), SWITCH_SPARSE_DROP_GENERATION);
	scene_close(scene);
	free(scene);
}

static void have_is_of_the_flush_under_way_and_changes_nothing(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct switch_sparse before;
	struct sparse have;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	push_one(scene, 1, 1);
	have = header_of(scene, SPARSE_HAVE, FIRST_EPOCH);
	have.count = have.width = 1;
	have.parts = sparse_flush_parts(&scene->table, 1);
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_STALE); /* nothing is flushed */
	switch_sparse_flip(&scene->state);
	before = scene->state;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_TAKEN);
	have.parts++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_SHAPE);
	have.parts--;
	have.number++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_STALE);
	have.number--;
	have.generation++;
	assert_int_equal(give(scene, &have), SWITCH_SPARSE_DROP_GENERATION);
	assert_memory_equal(&before, &scene->state, sizeof(before));
	scene_close(scene);
	free(scene);
}

/* What its sender could not add is said with the epoch that it was added to, and not with the ACK. */
static void what_a_push_says_is_of_its_epoch_alone(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	uint64_t bank = FIRST_EPOCH & 1;
	struct sparse push, committed;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	for (uint64_t round = 0; round < 3; round++, bank = !bank) {
		push_one(scene, 2 * round + 1, -5);
		assert_int_equal(scene->state.flags[bank], 0);
		push = header_of(scene, SPARSE_PUSH, 2 * round + 2);
		push.worker = 1;
		push.count = push.width = 1;
		push.flags = SPARSE_SATURATED;
		sparse_body_put32(scene->at + SPARSE_HEADER_BYTES, 2);
		sparse_body_put32(scene->at + SPARSE_HEADER_BYTES + 4, 4);
		assert_int_equal(give(scene, &push), SWITCH_SPARSE_ADDED);
		assert_int_equal(push.kind, SPARSE_ACK);
		assert_int_equal(push.flags, 0);
		assert_int_equal(scene->state.flags[bank], SPARSE_SATURATED);
		assert_int_equal(scene->state.flags[!bank], round ? SPARSE_SATURATED : 0);
		switch_sparse_flip(&scene->state);
		committed = header_of(scene, SPARSE_COMMITTED, FIRST_EPOCH + round);
		assert_int_equal(give(scene, &committed), SWITCH_SPARSE_TAKEN);
	}
	scene_close(scene);
	free(scene);
}

/* R-SP-12 */
static void who_asks_for_a_flip_is_a_worker_or_the_server(void **state)
{
	struct scene *scene = malloc(sizeof(*scene));
	struct sparse ask;

	(void)state;
	scene_of_one(scene);
	set_up(scene);
	for (uint32_t worker = 0; worker < 5; worker++) {
		ask = header_of(scene, SPARSE_ASK, 0);
		ask.worker = (uint16_t)worker;
		assert_int_equal(give(scene, &ask),
				 worker < 2 ? SWITCH_SPARSE_TAKEN : SWITCH_SPARSE_DROP_WORKER);
	}
	ask.worker = SPARSE_SERVER;
	assert_int_equal(give(scene, &ask), SWITCH_SPARSE_TAKEN);
	scene_close(scene);
	free(scene);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_comes_is_as_the_slow_model_says),
		cmocka_unit_test(a_table_has_as_many_workers_as_a_switch_has_children),
		cmocka_unit_test(a_sum_of_zero_is_flushed_and_an_untouched_rank_is_not),
		cmocka_unit_test(a_part_is_short_while_each_of_its_sums_has_32_bits),
		cmocka_unit_test(a_flush_has_the_touched_ranks_and_no_more),
		cmocka_unit_test(a_sum_saturates_both_ways_and_says_so_in_its_epoch),
		cmocka_unit_test(setup_is_for_one_instance_once),
		cmocka_unit_test(a_push_of_another_map_is_dropped),
		cmocka_unit_test(a_stepped_table_flips_for_flip_alone),
		cmocka_unit_test(a_flip_is_due_by_pairs_age_or_ask_and_never_while_busy),
		cmocka_unit_test(have_is_of_the_flush_under_way_and_changes_nothing),
		cmocka_unit_test(what_a_push_says_is_of_its_epoch_alone),
		cmocka_unit_test(who_asks_for_a_flip_is_a_worker_or_the_server),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
