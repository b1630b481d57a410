/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c - see lanes.h. */
#include "core/shared/lanes_ways.h"

enum {
	FLOAT16_PAIR_WORKERS = 16,   /* as many as leave it a float16's 11 bits, */
	BFLOAT16_PAIR_WORKERS = 128, /* or a bfloat16's 8 (R-NUM-11) */
	FLOAT64_BITS = 55,           /* R-NUM-12 */
};

static const struct {
	bool is_wide; /* more than a lane */
	const struct ieee_form *form;
	const struct lanes_way *sum;
} types[LANES_TYPES] = {
	[LANES_INT8] = { false, NULL, &lanes_narrow },
	[LANES_UINT8] = { false, NULL, &lanes_narrow },
	[LANES_INT32] = { false, NULL, &lanes_int32 },
	[LANES_UINT32] = { false, NULL, &lanes_uint32 },
	[LANES_INT64] = { true, NULL, &lanes_int64 },
	[LANES_UINT64] = { true, NULL, &lanes_int64 },
	[LANES_FLOAT16] = { false, &ieee_form_16, &lanes_half },
	[LANES_FLOAT32] = { false, &ieee_form_32, &lanes_float32 },
	[LANES_FLOAT64] = { true, &ieee_form_64, &lanes_float64 },
	[LANES_BFLOAT16] = { false, &ieee_form_b16, &lanes_half },
};

/* R-NUM-8 */
static void choose_copy(struct lanes *lanes)
{
	lanes->way = &lanes_copy;
	lanes->shape.elements = (uint8_t)(lanes->bytes < 4 ? 4 / lanes->bytes : 1);
	lanes->shape.lanes = (uint8_t)(lanes->bytes > 4 ? lanes->bytes / 4 : 1);
}

static void choose_wide(struct lanes *lanes, uint32_t bits)
{
	lanes->wide = wide_form_of(lanes->workers, bits);
	lanes->shape = (struct map_shape){ 1, lanes->wide.lanes };
}

/* R-NUM-13: those that fit a packet, at no cost, or that are to be. */
static bool choose_exact(struct lanes *lanes, const struct lanes_call *call)
{
	struct lanes exact = *lanes;

	if (!lanes->form || !call->count)
		return false;
	choose_wide(&exact, ieee_span(lanes->form));
	if (call->form != LANES_EXACT && call->count > map_full(exact.shape, call->lanes))
		return false;
	*lanes = exact;
	lanes->way = &lanes_exact;
	lanes->is_exact = true;
	lanes->lane_op = WIRE_ADD_SHORT;
	return true;
}

static void choose_sum(struct lanes *lanes)
{
	lanes->way = types[lanes->type].sum;
	switch (lanes->type) {
	case LANES_FLOAT16:
		lanes->shape.elements = lanes->workers <= FLOAT16_PAIR_WORKERS ? 2 : 1;
		break;
	case LANES_BFLOAT16:
		lanes->shape.elements = lanes->workers <= BFLOAT16_PAIR_WORKERS ? 2 : 1;
		break;
	case LANES_FLOAT64:
		choose_wide(lanes, FLOAT64_BITS);
		break;
	case LANES_INT64:
	case LANES_UINT64:
		choose_wide(lanes, 64);
		break;
	default:
		break;
	}
}

bool lanes_can(enum lanes_type type, enum lanes_op op)
{
	bool is_order = op == LANES_MAX || op == LANES_MIN;

	return op != LANES_PROD && !(is_order && types[type].is_wide);
}

/* R-NUM-15. False: fewer bits than a float16 has would be left. */
static bool choose_half(struct lanes *lanes)
{
	lanes->way = &lanes_half;
	lanes->shape.elements = 2;
	return lanes->workers <= FLOAT16_PAIR_WORKERS;
}

/* R-NUM-16 */
static bool choose_fixed(struct lanes *lanes, uint32_t exponent)
{
	lanes->way = &lanes_fixed;
	lanes->exponent = (uint8_t)exponent;
	return exponent && exponent <= LANES_EXPONENT_MAX;
}

/* The caller has said how, and it is for this type. */
static bool is_form_of(const struct lanes_call *call, enum lanes_form form)
{
	return call->form == form && call->type == LANES_FLOAT32 && call->count;
}

bool lanes_choose(struct lanes *lanes, const struct lanes_call *call, const struct quant_ops *quant)
{
	bool is_order = call->op == LANES_MAX || call->op == LANES_MIN;

	*lanes = (struct lanes){ .quant = quant,
				 .form = types[call->type].form,
				 .shape = { 1, 1 },
				 .workers = call->workers,
				 .bytes = (uint8_t)lanes_bytes(call->type),
				 .lane_op = call->op == LANES_COPY ? WIRE_TAKE
					    : is_order             ? WIRE_MAX
								   : WIRE_ADD,
				 .type = call->type,
				 .is_avg = call->op == LANES_AVG,
				 .is_min = call->op == LANES_MIN };
	if (!lanes_can(call->type, call->op))
		return false;
	if (call->workers == 1 || call->op == LANES_COPY)
		choose_copy(lanes);
	else if (is_order)
		lanes->way = &lanes_order;
	else if (choose_exact(lanes, call))
		;
	else if (is_form_of(call, LANES_HALF))
		return choose_half(lanes) && map_full(lanes->shape, call->lanes);
	else if (is_form_of(call, LANES_FIXED))
		return choose_fixed(lanes, call->exponent) && map_full(lanes->shape, call->lanes);
	else
		choose_sum(lanes);
	if (!call->count) /* R-MAP-5: it fits any packet */
		lanes->shape = (struct map_shape){ 1, 1 };
	return !call->count || map_full(lanes->shape, call->lanes);
}
