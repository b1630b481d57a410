/* SPDX-License-Identifier: Apache-2.0 */
/* switch_sparse_fixture.h - for tests: a switch of sparse mode with a table. Included once in a program, after
 * tests/random.h. */
#ifndef CORE_SWITCH_SPARSE_FIXTURE_H
#define CORE_SWITCH_SPARSE_FIXTURE_H

#include "core/sparse/switch_sparse.h"

enum { INSTANCE = 77, GENERATION = 5, MAP = 9, FIRST_EPOCH = 3 };

struct scene {
	struct sparse_table table;
	struct switch_sparse state;
	struct switch_sparse_memory memory;
	uint64_t *cut; /* of SETUP */
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

/* Of a switch that knows nothing yet. */
static void scene_open(struct scene *scene, struct sparse_table table)
{
	memset(scene, 0, sizeof(*scene));
	scene->table = table;
	assert_true(sparse_table_is_sound(&table));
	scene->state.instance = INSTANCE;
	switch_sparse_name(&scene->state, GENERATION);
	scene->memory.place = calloc(sparse_places(&table), sizeof(*scene->memory.place));
	scene->memory.tag = calloc(2u * table.ranks, sizeof(uint64_t));
	scene->memory.sum = calloc(2u * table.ranks * table.dim, sizeof(int64_t));
	scene->memory.list = calloc(2u * table.ranks, sizeof(uint32_t));
	scene->cut = calloc(sparse_places(&table), sizeof(uint64_t));
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

static int64_t sum_at(const struct sparse *packet, const uint8_t *item, uint32_t k)
{
	return packet->kind == SPARSE_FLUSH ? (int64_t)sparse_body_get64(item + 4 + 8 * k)
					    : (int32_t)sparse_body_get32(item + 4 + 4 * k);
}

#endif
