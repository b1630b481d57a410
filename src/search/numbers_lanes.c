/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_lanes.c - see numbers_lanes.h. */
#include "search/numbers_lanes.h"

#include <assert.h>
#include <string.h>

#include "core/shared/lanes.h"
#include "search/record.h"

enum { ELEMENTS = 24, BYTES = 8 * ELEMENTS, KINDS = 3, PACKET = 360 };

/* A rank's elements, and how many ranks have the same. */
struct kind {
	uint32_t times;
	_Alignas(8) uint8_t source[BYTES];
	int32_t lane[PACKET];
};

static struct lanes lanes;
static uint32_t count;

/* ---- draws ---- */

static uint64_t draw_word(struct rng *rng, uint32_t bits)
{
	uint64_t most = bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;

	switch (rng_below(rng, 6)) {
	case 0:
		return rng_below(rng, 3);
	case 1:
		return most - rng_below(rng, 3);
	case 2:
		return (most >> 1) + rng_below(rng, 3) - 1;
	case 3:
		return (0 - (uint64_t)rng_below(rng, 1000)) & most;
	default:
		return rng_next(rng) >> rng_below(rng, bits) & most;
	}
}

/* Its exponent lies a little below `about`; or it is what integers are. */
static uint64_t draw_float(struct rng *rng, const struct ieee_form *form, uint32_t about)
{
	uint32_t bits = 1u + form->fraction + form->exponent, down = rng_below(rng, 60);
	uint64_t fraction = rng_next(rng) & (((uint64_t)1 << form->fraction) - 1);
	uint64_t sign = (uint64_t)rng_below(rng, 2) << (bits - 1);

	if (!rng_below(rng, 6))
		return draw_word(rng, bits);
	if (!rng_below(rng, 4))
		fraction &= ~(uint64_t)0 << rng_below(rng, form->fraction);
	return sign | (uint64_t)(about > down ? about - down : 0) << form->fraction | fraction;
}

static void draw_source(struct rng *rng, uint8_t *source, uint32_t about, bool has_numbers_only)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bits = lanes.form ? draw_float(rng, lanes.form, about)
					   : draw_word(rng, 8u * lanes.bytes);

		if (lanes.form && has_numbers_only &&
		    ieee_split(lanes.form, bits).class != IEEE_FINITE)
			bits = 0;
		memcpy(source + (size_t)i * lanes.bytes, &bits, lanes.bytes);
	}
}

static uint32_t draw_workers(struct rng *rng)
{
	static const uint32_t bounds[] = { 1, 2, 3, 4, 8, 9, 16, 17, 128, 129, 512, 513, 65535 };

	if (rng_below(rng, 3))
		return 1 + rng_below(rng, 9);
	return bounds[rng_below(rng, sizeof(bounds) / sizeof(*bounds))];
}

/* ---- a round ---- */

static uint32_t lanes_all(void)
{
	return map_lanes(lanes.shape, count);
}

/* As a switch adds them up; of TAKE the last one has sent lanes. */
static void combine(int32_t *sum, const struct kind *kinds, uint32_t ranks, bool is_max)
{
	if (lanes.lane_op == WIRE_TAKE)
		kinds += ranks - 1;
	ranks = lanes.lane_op == WIRE_TAKE ? 1 : ranks;
	for (uint32_t i = 0; i < lanes_all(); i++) {
		uint32_t all = 0;
		int32_t most = INT32_MIN;

		for (uint32_t k = 0; k < ranks; k++) {
			all += (uint32_t)kinds[k].lane[i] * kinds[k].times;
			most = kinds[k].lane[i] > most ? kinds[k].lane[i] : most;
		}
		sum[i] = is_max ? most : (int32_t)all;
	}
}

static uint32_t exponent_all(const struct kind *kinds, uint32_t ranks)
{
	uint32_t most = 0;

	for (uint32_t k = 0; k < ranks && lanes.way->exponent; k++) {
		uint32_t own = lanes.way->exponent(&lanes, kinds[k].source, count);

		most = own > most ? own : most;
	}
	return most;
}

static void play(struct kind *kinds, uint32_t ranks)
{
	uint32_t exponent = exponent_all(kinds, ranks), flags = 0;
	_Alignas(8) uint8_t result[BYTES];
	int32_t sum[PACKET];
	uint64_t saturated;

	for (uint32_t k = 0; k < ranks; k++)
		flags |= lanes.way->pack(&lanes, kinds[k].lane, kinds[k].source, count, exponent);
	combine(sum, kinds, ranks, lanes.lane_op == WIRE_MAX);
	record_also(" ; %u %u", exponent, flags);
	for (uint32_t k = 0; k < ranks; k++) {
		record_also(" ; %u", kinds[k].times);
		record_bytes(kinds[k].source, (size_t)count * lanes.bytes);
		record_list(kinds[k].lane, lanes_all());
	}
	saturated = lanes.way->unpack(&lanes, result, sum, count, exponent, flags != 0);
	if (flags) {
		for (uint32_t k = 0; k < ranks; k++)
			lanes.way->detail(&lanes, kinds[k].lane, kinds[k].source, count);
		combine(sum, kinds, ranks, false);
		saturated = lanes.way->amend(&lanes, result, sum, count);
	}
	record_also(" ; %llu", (unsigned long long)saturated);
	record_bytes(result, (size_t)count * lanes.bytes);
}

void lanes_record(struct rng *rng)
{
	static struct kind kinds[KINDS];
	struct lanes_call call = { .type = (enum lanes_type)rng_below(rng, LANES_TYPES),
				   .op = (enum lanes_op)rng_below(rng, LANES_OPS),
				   .form = rng_below(rng, 3)
						   ? LANES_FREE
						   : (enum lanes_form)rng_below(rng, LANES_FORMS),
				   .workers = draw_workers(rng),
				   .lanes = 4 + 4 * rng_below(rng, PACKET / 4),
				   .exponent = rng_below(rng, 256) };
	uint32_t ranks = call.workers < KINDS ? call.workers : KINDS, about;
	bool is_number = rng_below(rng, 2), is_chosen;

	count = 1 + rng_below(rng, ELEMENTS);
	call.count = rng_below(rng, 3) ? 100000 : count;
	is_chosen = lanes_choose(&lanes, &call, &quant_scalar);
	record("lanes %u %u %u %u %llu %u %u %u", call.type, call.op, call.form, call.exponent,
	       (unsigned long long)call.count, call.workers, call.lanes, is_chosen);
	if (!is_chosen)
		return;
	if (count > map_full(lanes.shape, call.lanes))
		count = map_full(lanes.shape, call.lanes);
	record_also(" ; %u %u %u", lanes.shape.elements, lanes.shape.lanes, lanes.lane_op);
	about = lanes.form ? rng_below(rng, (1u << lanes.form->exponent) - 1) : 0;
	if (lanes.exponent) /* most are below it */
		about = lanes.exponent + (rng_below(rng, 3) ? 0u : 1u);
	for (uint32_t k = 0; k < ranks; k++) {
		kinds[k].times = k ? 1 : call.workers - ranks + 1;
		draw_source(rng, kinds[k].source, about, is_number);
	}
	play(kinds, ranks);
}
