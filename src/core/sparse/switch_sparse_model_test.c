/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse mode's switch: random packets against a slow model, which keeps every push that was ever added and
 * works out sums and cuts from them. Argument: the seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/random.h"

#include "core/sparse/switch_sparse_fixture.h"

enum { PUSHES_MAX = 4000, RANKS_MAX = 40 };

/* A push that was added: what it added is worked out again from its number. */
struct added {
	uint64_t epoch, seq;
	uint16_t worker;
};

static struct added pushes[PUSHES_MAX];
static uint32_t pushes_count;

static void scene_draw(struct scene *scene, uint64_t number)
{
	struct sparse_table table = { 0 };

	rng_init(&rng, seed, number);
	table.ranks = 1 + random_below(RANKS_MAX);
	table.index = (uint16_t)random_below(65536);
	table.workers = (uint16_t)(1 + random_below(5));
	table.window = (uint16_t)(1 + random_below(4));
	table.dim = (uint16_t)(1 + random_below(3));
	table.bytes = (uint16_t)(48 + 8u * table.window * (1 + random_below(4)));
	if (table.bytes < 40 + 4 + 8 * table.dim)
		table.bytes = (uint16_t)(44 + 8 * table.dim);
	scene_open(scene, table);
	for (uint32_t i = 0; i < sparse_places(&table); i++)
		if (random_below(2))
			scene->cut[i] = i % table.window + random_below(5) * table.window;
	pushes_count = 0;
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

	for (uint32_t i = 0; i < pushes_count; i++) {
		const struct added *added = &pushes[i];

		if (added->worker == worker && added->seq % window == place && added->epoch < end &&
		    added->seq > last)
			last = added->seq;
	}
	return last;
}

static int64_t sum_of(uint64_t epoch, uint32_t rank, uint32_t k)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < pushes_count; i++) {
		const struct added *added = &pushes[i];

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

	for (uint32_t i = 0; i < pushes_count; i++) {
		const struct added *added = &pushes[i];

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
						 sum_of(packet.number, list[next], k));
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
		pushes[pushes_count++] = added;
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
		scene_draw(scene, number);
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

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_comes_is_as_the_slow_model_says),
	};

	seed_take(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
