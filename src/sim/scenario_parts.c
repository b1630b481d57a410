/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/scenario.h"

enum { PARTS_STREAM = 200, SMALL = 64 };

/* Nothing, much, or so little that several share a packet. */
static uint64_t piece_draw(uint64_t left, struct rng *rng)
{
	uint64_t small = rng_log(rng, 1, SMALL);

	switch (rng_below(rng, 4)) {
	case 0:
		return 0;
	case 1:
		return rng_between(rng, 0, left);
	default:
		return small < left ? small : left;
	}
}

/* Somebody wants each piece of a sum; nobody else does if it is for one. */
static void owner_draw(const struct scenario_op *op, uint32_t workers, uint32_t piece,
		       struct scenario_parts *parts, struct rng *rng)
{
	uint32_t owner = rng_below(rng, workers);

	for (uint32_t w = 0; w < workers && parts->is_for_one; w++)
		parts->wanted[w] &= ~(1u << piece);
	if (parts->is_for_one || op->op != LANES_COPY)
		parts->wanted[owner] |= 1u << piece;
}

void scenario_parts(const struct scenario_op *op, uint32_t workers, struct scenario_parts *parts)
{
	uint64_t end = 0;
	struct rng rng;

	rng_init(&rng, op->parts, PARTS_STREAM);
	*parts = (struct scenario_parts){ .count = 1 + rng_below(&rng, workers) };
	for (uint32_t w = 0; w < workers; w++) {
		uint32_t part = (uint32_t)((w + op->parts) % workers);

		parts->mine[w] = part < parts->count ? part : parts->count;
		parts->wanted[w] = rng_chance(&rng, 500000) ? UINT32_MAX : rng_u32(&rng);
	}
	parts->is_for_one = workers > 1 && op->parts >> 63;
	for (uint32_t i = 0; i < 2 * parts->count; i++) {
		uint64_t left = op->count - end;

		end += i + 1 < 2 * parts->count ? piece_draw(left, &rng) : left;
		parts->pieces[i] = parts->ends[i / 2] = end;
	}
	for (uint32_t i = 0; i < 2 * parts->count; i++)
		owner_draw(op, workers, i, parts, &rng);
}
