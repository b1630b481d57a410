/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_copy.c - the workers' copies of a simulated run of sparse mode: what they pull, and what they may use. */
#include "sim/sparse_world.h"

#include <stdlib.h>

enum {
	LOOKS = 2,  /* of a user, each time it is there */
	RANKS = 16, /* that are looked at in the end */
};

void sparse_values(void *arg, uint32_t rank, uint32_t *value)
{
	const struct sparse_world *world = arg;
	uint32_t dim = world->scenario->table.dim;

	for (uint32_t k = 0; k < dim; k++)
		value[k] = (uint32_t)world->total[rank * dim + k];
}

/* A rank's values as of an epoch, by the log alone. */
static void values_of(const struct sparse_world *world, uint32_t rank, uint64_t epoch,
		      uint32_t *value)
{
	uint32_t dim = world->scenario->table.dim;

	for (uint32_t k = 0; k < dim; k++)
		value[k] = 0;
	for (uint64_t i = 0; i < world->log_count; i++) {
		const struct sparse_logged *logged = &world->log[i];

		if (!logged->added || logged->record.epoch > epoch)
			continue;
		for (uint32_t k = 0; k < dim; k++)
			value[k] += (uint32_t)logged->added[rank * dim + k];
	}
}

/* R-SP-31: it is what the server had, in every epoch from that of the value to the one that the copy is fresh of. */
static void value_judge(struct sparse_world *world, uint32_t number, uint32_t rank,
			const uint32_t *has)
{
	const struct copy_sparse *copy = endpoint_sparse_copy(world->worker[number].endpoint);
	uint64_t epoch = copy->memory.tag[rank].epoch;
	uint32_t want[SPARSE_DIM_MAX];

	for (uint32_t i = 0; i < 2; i++) {
		values_of(world, rank, epoch, want);
		for (uint32_t k = 0; k < world->scenario->table.dim; k++)
			if (want[k] != has[k])
				sparse_fail(world,
					    "R-SP-31: worker %u has %u for value %u of rank %u, "
					    "the server had %u as of epoch %llu",
					    number, has[k], k, rank, want[k],
					    (unsigned long long)epoch);
		if (copy->fresh > epoch)
			epoch = copy->fresh;
	}
}

/* What is as new as anything that was heard is used; else it is pulled, if the server is there and its disk is, too. */
void sparse_copy_looks(struct sparse_world *world, uint32_t number)
{
	const struct copy_sparse *copy = endpoint_sparse_copy(world->worker[number].endpoint);

	for (uint32_t i = 0; copy && i < LOOKS; i++) {
		uint32_t rank = rng_below(&world->rng, world->scenario->table.ranks);
		const uint32_t *has = copy_sparse_value(copy, rank, 0);

		if (has) {
			world->report->copied++;
			value_judge(world, number, rank, has);
		} else if (world->home && world->durable == world->log_count) {
			sparse_event_in(world, 1 + rng_below(&world->rng, 2 * MS), SPARSE_PULLED,
					number, world->log_count << 32 | rank);
		}
	}
}

/* The answer to a pull, as of so many records. */
void sparse_copy_pulled(struct sparse_world *world, uint32_t number, uint64_t what)
{
	struct endpoint_sparse *endpoint = world->worker[number].endpoint;
	uint32_t rank = (uint32_t)what, value[SPARSE_DIM_MAX];
	uint64_t records = what >> 32, epoch = 0;

	if (!endpoint || !records)
		return;
	for (uint64_t i = 0; i < records; i++)
		if (world->log[i].record.kind == SERVER_SPARSE_EPOCH)
			epoch = world->log[i].record.epoch;
	values_of(world, rank, epoch, value);
	endpoint_sparse_pulled(endpoint, rank, world->log[records - 1].record.generation, epoch,
			       value);
	world->report->pulled++;
}

/* All is over: what any copy has is true, and when all has been pulled it is what the server has. */
void sparse_copies_judge(struct sparse_world *world)
{
	uint32_t ranks = world->scenario->table.ranks, step = 1 + ranks / RANKS;

	for (uint32_t i = 0; i < world->scenario->table.workers; i++) {
		struct endpoint_sparse *endpoint = world->worker[i].endpoint;
		const struct copy_sparse *copy = endpoint ? endpoint_sparse_copy(endpoint) : NULL;

		for (uint32_t rank = 0; copy && rank < ranks; rank += step) {
			const uint32_t *has = copy_sparse_value(copy, rank, UINT64_MAX);
			uint64_t generation = home_sparse_server(world->home)->generation;

			if (has)
				value_judge(world, i, rank, has);
			sparse_copy_pulled(world, i, world->log_count << 32 | rank);
			has = copy_sparse_value(copy, rank, UINT64_MAX);
			if (has)
				value_judge(world, i, rank, has);
			else if (copy->generation == generation)
				sparse_fail(world,
					    "R-SP-31: worker %u may not use rank %u, which it has "
					    "pulled",
					    i, rank);
		}
	}
}
