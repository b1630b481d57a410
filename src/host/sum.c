/* SPDX-License-Identifier: Apache-2.0 */
/* sum.c - how the elements of all ranks become a sum: see state.h. */
#include <math.h>
#include <string.h>

#include "core/dense/switch.h"
#include "host/state.h"
#include "simd/float_state.h"
#include "simd/stream.h"

enum { BLOCK_BYTES = 8192 }; /* stays in the nearest cache */

static bool is_plain(const struct endpoint_op *op)
{
	bool is_added = op->op == LANES_SUM || op->op == LANES_AVG;

	return is_added &&
	       (op->form == LANES_FREE || op->form == LANES_STRICT || op->form == LANES_HALF);
}

bool sum_choose(struct sum *sum, const struct host *host, const struct endpoint_op *op)
{
	bool may_be_plain = is_plain(op) && !host->is_same_bits;
	const struct lanes_call call = { .type = op->type,
					 .op = op->op,
					 .form = op->form,
					 .count = op->count,
					 .workers = host->ranks,
					 .lanes = host->lanes,
					 .exponent = op->exponent };

	*sum = (struct sum){ .bytes = lanes_bytes(op->type), .is_avg = op->op == LANES_AVG };
	if (op->op == LANES_COPY || host->ranks == 1 || !op->count)
		sum->kind = SUM_COPY;
	else if (op->type == LANES_FLOAT32 && may_be_plain)
		sum->kind = SUM_F32;
	else if (op->type == LANES_FLOAT64 && may_be_plain)
		sum->kind = SUM_F64;
	else if (op->type == LANES_INT32 && may_be_plain)
		sum->kind = SUM_I32;
	else
		sum->kind = SUM_LANES;
	if (sum->kind != SUM_LANES)
		return true;
	if (!lanes_choose(&sum->lanes, &call, host->quant))
		return false;
	sum->packet = map_full(sum->lanes.shape, host->lanes);
	return true;
}

/* ---- by lanes ---- */

static const void *at(const void *from, size_t first, uint32_t bytes)
{
	return (const uint8_t *)from + first * bytes;
}

static uint32_t exponent_of(const struct sum *sum, const void *const *from, uint32_t ranks,
			    size_t first, uint32_t count)
{
	uint32_t most = 0;

	for (uint32_t r = 0; sum->lanes.way->exponent && r < ranks; r++) {
		uint32_t one = sum->lanes.way->exponent(&sum->lanes, at(from[r], first, sum->bytes),
							count);

		most = one > most ? one : most;
	}
	return most;
}

static void lanes_join(const struct sum *sum, int32_t *to, const int32_t *lane, uint32_t count)
{
	if (sum->lanes.lane_op == WIRE_MAX)
		switch_max(to, lane, count, NULL);
	else
		switch_add(to, lane, count, NULL);
}

/* The lanes of a DETAIL round. */
static void details_join(const struct sum *sum, int32_t *total, const void *const *from,
			 uint32_t ranks, size_t first, uint32_t count)
{
	int32_t lane[WIRE_LANES_MAX] = { 0 };

	memset(total, 0, WIRE_LANES_MAX * sizeof(*total));
	for (uint32_t r = 0; r < ranks; r++) {
		sum->lanes.way->detail(&sum->lanes, lane, at(from[r], first, sum->bytes), count);
		switch_add(total, lane, WIRE_LANES_MAX, NULL);
	}
}

/* What a switch and a worker do of it on the network, in one place. `to` may be one of `from`: what is read, DETAIL's too
 * (R-WK-10), is read before anything is written. */
static uint64_t packet_run(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
			   size_t first, uint32_t count)
{
	const struct lanes *lanes = &sum->lanes;
	uint32_t exponent = exponent_of(sum, from, ranks, first, count);
	uint32_t filled = map_lanes(lanes->shape, count);
	uint32_t all = (filled + WIRE_LANES_STEP - 1) / WIRE_LANES_STEP * WIRE_LANES_STEP;
	int32_t lane[WIRE_LANES_MAX], total[WIRE_LANES_MAX], detail[WIRE_LANES_MAX];
	uint64_t saturated;
	uint8_t flags = 0;

	memset(lane + filled, 0, (all - filled) * sizeof(*lane));

	for (uint32_t r = 0; r < ranks; r++) {
		flags |= lanes->way->pack(lanes, lane, at(from[r], first, sum->bytes), count,
					  exponent);
		if (r)
			lanes_join(sum, total, lane, all);
		else
			memcpy(total, lane, all * sizeof(*total));
	}
	if (flags)
		details_join(sum, detail, from, ranks, first, count);
	saturated = lanes->way->unpack(lanes, to, total, count, exponent, flags);
	return flags ? saturated + lanes->way->amend(lanes, to, detail, count) : saturated;
}

static uint64_t lanes_run(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
			  size_t count)
{
	uint64_t saturated = 0;

	for (size_t first = 0; first < count; first += sum->packet) {
		size_t left = count - first;

		saturated += packet_run(sum, (uint8_t *)to + first * sum->bytes, from, ranks, first,
					left < sum->packet ? (uint32_t)left : sum->packet);
	}
	return saturated;
}

/* ---- all ---- */

static uint64_t run(const struct sum *sum, const struct plain_ops *plain, void *to,
		    const void *const *from, uint32_t ranks, size_t count)
{
	switch (sum->kind) {
	case SUM_F32:
		plain->f32(to, (const float *const *)from, ranks, count, sum->is_avg);
		return 0;
	case SUM_F64:
		plain->f64(to, (const double *const *)from, ranks, count, sum->is_avg);
		return 0;
	case SUM_I32:
		return plain->i32(to, (const int32_t *const *)from, ranks, count, sum->is_avg);
	case SUM_LANES:
		return lanes_run(sum, to, from, ranks, count);
	case SUM_COPY: /* of one rank */
		break;
	}
	memcpy(to, from[0], count * sum->bytes);
	return 0;
}

uint64_t sum_run(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
		 size_t count)
{
	static const struct plain_ops *_Atomic chosen;
	const struct plain_ops *plain = atomic_load_explicit(&chosen, memory_order_relaxed);
	uint64_t before, saturated;

	if (!plain) {
		plain = plain_best();
		atomic_store_explicit(&chosen, plain, memory_order_relaxed);
	}
	before = float_state_begin();
	saturated = run(sum, plain, to, from, ranks, count);
	float_state_end(before);
	return saturated;
}

uint64_t sum_stream(const struct sum *sum, void *to, const void *const *from, uint32_t ranks,
		    size_t count)
{
	_Alignas(STREAM_LINE) uint8_t block[BLOCK_BYTES];
	const void *part[HOST_RANKS_MAX];
	size_t step = BLOCK_BYTES / sum->bytes, m;
	uint64_t saturated = 0;

	if (sum->packet > step)
		return sum_run(sum, to, from, ranks, count);
	step -= sum->packet ? step % sum->packet : 0;
	for (size_t first = 0; first < count; first += m) {
		m = count - first < step ? count - first : step;
		for (uint32_t r = 0; r < ranks; r++)
			part[r] = at(from[r], first, sum->bytes);
		saturated += sum_run(sum, block, part, ranks, m);
		stream_copy((uint8_t *)to + first * sum->bytes, block, m * sum->bytes);
	}
	return saturated;
}

/* What lanes with an exponent of their own do not say; nothing else is lost on the way. */
void sum_rest(const struct sum *sum, float *rest, const float *from, size_t count)
{
	struct lanes own = sum->lanes;
	int32_t lane[WIRE_LANES_MAX];

	memset(rest, 0, count * sizeof(*rest));
	if (sum->kind != SUM_LANES || own.is_exact)
		return;
	own.is_avg = false;
	for (size_t first = 0; first < count; first += sum->packet) {
		uint32_t m = count - first < sum->packet ? (uint32_t)(count - first) : sum->packet;

		own.way->pack(&own, lane, from + first, m, 0);
		own.way->unpack(&own, rest + first, lane, m, 0, false);
		for (uint32_t i = 0; i < m; i++)
			rest[first + i] =
				isfinite(from[first + i]) ? from[first + i] - rest[first + i] : 0;
	}
}
