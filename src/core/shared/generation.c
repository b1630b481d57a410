/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - see generation.h. */
#include "core/shared/generation.h"

/* Of a Feistel network of two halves of 16 bits. Four are proved enough against few questions, six for any number
 * that is small beside 2^16; a generation is drawn once for each job, so there is time for more. */
enum { FEISTEL_ROUNDS = 16, HALF_BITS = 16, HALF_MASK = 0xffff };

static uint32_t half_of(const struct generation *generation, uint32_t round, uint32_t half)
{
	const uint8_t said[3] = { (uint8_t)round, (uint8_t)(half >> 8), (uint8_t)half };

	return (uint32_t)sip64(generation->key, said, sizeof(said)) & HALF_MASK;
}

/* Each round can be undone, whatever half_of says: so no two counts have one generation. */
static uint32_t encrypt(const struct generation *generation, uint32_t count)
{
	uint32_t left = count >> HALF_BITS, right = count & HALF_MASK;

	for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
		uint32_t next = left ^ half_of(generation, round, right);

		left = right;
		right = next;
	}
	return left << HALF_BITS | right;
}

uint32_t generation_draw(struct generation *generation)
{
	uint32_t drawn;

	do {
		uint32_t count = generation->count++;

		drawn = encrypt(generation, count);
	} while (!drawn);
	return drawn;
}
