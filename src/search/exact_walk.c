/* SPDX-License-Identifier: Apache-2.0 */
/* exact_walk.c - see walks.h: sums of floats that are exact (R-NUM-13). */
#include "search/walks.h"

#include <assert.h>
#include <string.h>

#include "core/shared/lanes.h"
#include "search/record.h"
#include "util/rng.h"

enum { RANKS = 300, ELEMENTS = 36, BYTES = 8, PACKET = 360 };

static struct rng rng;
static struct lanes lanes;
static uint64_t element[RANKS][ELEMENTS]; /* bits */
static uint32_t usual;                    /* the exponent of many in a packet */

static uint32_t draw(uint32_t below)
{
	return rng_below(&rng, below);
}

/* ---- one column: what the ranks have of an element ---- */

static uint64_t with(uint32_t exponent, uint64_t fraction)
{
	const struct ieee_form *form = lanes.form;
	uint64_t sign = (uint64_t)draw(2) << (form->fraction + form->exponent);

	return sign | (uint64_t)exponent << form->fraction |
	       (fraction & (((uint64_t)1 << form->fraction) - 1));
}

/* The largest exponent of a finite number. */
static uint32_t exponent_most(void)
{
	return (1u << lanes.form->exponent) - 2;
}

/* All numbers, from the smallest to the largest. */
static uint64_t any(void)
{
	return with(draw(exponent_most() + 1), rng_next(&rng));
}

static uint64_t denormal(void)
{
	return with(draw(8) ? 0 : 1 + draw(2), rng_next(&rng) >> draw(64));
}

static uint64_t huge(void)
{
	return with(exponent_most() - draw(3), rng_next(&rng) | (0 - (uint64_t)draw(2)));
}

/* Powers of two a little apart: sums lie just in the middle of two floats, or beside it. */
static uint64_t tie(uint32_t about)
{
	uint32_t down = draw(lanes.form->fraction + 3);

	return with(about > down ? about - down : 0, draw(3) ? 0 : 0 - (uint64_t)draw(2));
}

static uint64_t negative_of(uint64_t bits)
{
	return bits ^ (uint64_t)1 << (lanes.form->fraction + lanes.form->exponent);
}

/* Of what some ranks have, others have the negative: little or nothing is left. */
static void cancel(uint32_t workers, uint32_t at)
{
	for (uint32_t w = 0; w + 1 < workers; w += 2)
		if (draw(8))
			element[w + 1][at] = negative_of(element[w][at]);
	for (uint32_t w = workers - 1; w > 0; w--) { /* in no order */
		uint32_t other = draw(w + 1);
		uint64_t bits = element[w][at];

		element[w][at] = element[other][at];
		element[other][at] = bits;
	}
}

static void column(uint32_t workers, uint32_t at)
{
	uint32_t mood = draw(5), most = exponent_most();
	uint32_t about = draw(8) ? usual + draw(16) : draw(most + 1);

	about = about < most ? about : most;
	for (uint32_t w = 0; w < workers; w++) {
		uint64_t *bits = &element[w][at];

		if (mood == 0)
			*bits = any();
		else if (mood == 1)
			*bits = denormal();
		else if (mood == 2)
			*bits = huge();
		else if (mood == 3)
			*bits = tie(about);
		else
			*bits = draw(2) ? any() : draw(2) ? tie(about) : denormal();
	}
	if (!draw(3))
		cancel(workers, at);
}

/* ---- a packet of them ---- */

static void play(uint32_t workers, uint32_t count, uint8_t *result)
{
	uint32_t all = map_lanes(lanes.shape, count), flags = 0;
	int32_t lane[PACKET], sum[PACKET] = { 0 };
	_Alignas(8) uint8_t source[BYTES * ELEMENTS];

	assert(all <= PACKET);
	for (uint32_t w = 0; w < workers; w++) {
		for (uint32_t i = 0; i < count; i++)
			memcpy(source + (size_t)i * lanes.bytes, &element[w][i], lanes.bytes);
		record_bytes(source, (size_t)count * lanes.bytes);
		flags |= lanes.way->pack(&lanes, lane, source, count, 0);
		for (uint32_t i = 0; i < all; i++)
			sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)lane[i]);
	}
	assert(!flags);
	lanes.way->unpack(&lanes, result, sum, count, 0, false);
}

static uint32_t packet(void)
{
	static const enum lanes_type types[] = { LANES_FLOAT16, LANES_BFLOAT16, LANES_FLOAT32,
						 LANES_FLOAT64 };
	struct lanes_call call = { .type = types[draw(4)],
				   .op = draw(4) ? LANES_SUM : LANES_AVG,
				   .form = LANES_EXACT,
				   .count = 100000,
				   .workers = draw(16) ? (uint32_t)rng_log(&rng, 1, 64)
						       : RANKS - draw(100),
				   .lanes = PACKET };
	_Alignas(8) uint8_t result[BYTES * ELEMENTS];
	uint32_t count, full;

	assert(lanes_choose(&lanes, &call, &quant_scalar));
	full = map_full(lanes.shape, PACKET);
	count = 1 + draw(draw(2) ? 4 : ELEMENTS);
	count = count < full ? count : full;
	usual = draw(exponent_most() + 1);
	for (uint32_t i = 0; i < count; i++)
		column(call.workers, i);
	record("exact %u %u %u", call.type, call.op == LANES_AVG, call.workers);
	play(call.workers, count, result);
	record_bytes(result, (size_t)count * lanes.bytes);
	return count;
}

static void record_all(const void *config)
{
	uint32_t seed = 0;

	for (uint32_t sums = 0; sums < *(const uint32_t *)config && !record_is_over();) {
		if (seed++ % 64 == 0) {
			rng_init(&rng, 13, seed);
			record("walk %u", seed);
		}
		sums += packet();
	}
}

void exact_model(struct bfs_model *model, const void *config)
{
	*model = (struct bfs_model){ .config = config, .record = record_all };
}
