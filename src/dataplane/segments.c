/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - see segments.h. */
#include "dataplane/segments.h"

#include <string.h>

#include "dataplane/endpoint.h"

/* The segment that holds element `first`, which is inside the vector. */
static const struct endpoint_segment *segment_of(const struct endpoint_op *op, uint64_t first)
{
	uint32_t low = 0, high = op->segments_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (op->segments[middle].first <= first)
			low = middle;
		else
			high = middle;
	}
	return &op->segments[low];
}

/* NULL: there is no such side. */
static uint8_t *place(const struct endpoint_op *op, const struct endpoint_segment *segment,
		      enum segments_side side, uint64_t first)
{
	/* One table serves both sides; a source is only ever read through what segments_read returns. */
	uintptr_t at = side == SEGMENTS_SOURCE ? (uintptr_t)segment->source
					       : (uintptr_t)segment->destination;

	return at ? (uint8_t *)at + (first - segment->first) * lanes_bytes(op->type) : NULL;
}

/* Where the elements lie, or NULL if they straddle, or there is no such side. */
static uint8_t *whole(const struct endpoint_op *op, enum segments_side side, uint64_t first,
		      uint32_t count)
{
	const struct endpoint_segment all = { 0, op->count, op->source, op->destination };
	const struct endpoint_segment *segment;

	if (!op->segments_count || !count)
		return place(op, &all, side, first);
	segment = segment_of(op, first);
	if (count > segment->count - (first - segment->first))
		return NULL;
	return place(op, segment, side, first);
}

/* How much of [first, end) this segment has. */
static size_t share(const struct endpoint_op *op, const struct endpoint_segment *segment,
		    uint64_t first, uint64_t end)
{
	uint64_t last = segment->first + segment->count;

	return (size_t)((last < end ? last : end) - first) * lanes_bytes(op->type);
}

const void *segments_read(const struct endpoint_op *op, enum segments_side side, uint64_t first,
			  uint32_t count, void *scratch)
{
	const uint8_t *in_place = whole(op, side, first, count);
	uint64_t end = first + count;
	uint8_t *to = scratch;

	if (in_place)
		return in_place;
	for (const struct endpoint_segment *segment = segment_of(op, first); first < end;
	     first = segment->first + segment->count, segment++) {
		size_t bytes = share(op, segment, first, end);

		if (place(op, segment, side, first))
			memcpy(to, place(op, segment, side, first), bytes);
		else
			memset(to, 0, bytes);
		to += bytes;
	}
	return scratch;
}

static bool is_there(const struct endpoint_op *op, const struct endpoint_segment *segment)
{
	return op->op == LANES_COPY && segment->source && segment->source == segment->destination;
}

bool segments_are_there(const struct endpoint_op *op, uint64_t first, uint32_t count)
{
	const struct endpoint_segment all = { 0, op->count, op->source, op->destination };

	if (!op->segments_count || !count)
		return is_there(op, &all);
	return whole(op, SEGMENTS_DESTINATION, first, count) && is_there(op, segment_of(op, first));
}

void *segments_write(const struct endpoint_op *op, uint64_t first, uint32_t count, void *scratch)
{
	uint8_t *in_place = whole(op, SEGMENTS_DESTINATION, first, count);

	return in_place ? in_place : scratch;
}

void segments_written(const struct endpoint_op *op, uint64_t first, uint32_t count,
		      const void *scratch)
{
	const uint8_t *from = scratch;
	uint64_t end = first + count;

	if (whole(op, SEGMENTS_DESTINATION, first, count))
		return;
	for (const struct endpoint_segment *segment = segment_of(op, first); first < end;
	     first = segment->first + segment->count, segment++) {
		size_t bytes = share(op, segment, first, end);

		if (segment->destination && !is_there(op, segment))
			memcpy(place(op, segment, SEGMENTS_DESTINATION, first), from, bytes);
		from += bytes;
	}
}

enum worker_wish segments_wish(const struct endpoint_op *op, uint64_t first, uint32_t count)
{
	uint64_t end = first + count, wanted = 0;

	if (!op->segments_count)
		return WORKER_WANTS_SOME;
	for (const struct endpoint_segment *segment = segment_of(op, first); first < end;
	     segment++) {
		uint64_t next = segment->first + segment->count;

		if (segment->destination)
			wanted += (next < end ? next : end) - first;
		first = next;
	}
	if (!wanted)
		return WORKER_WANTS_NONE;
	return op->is_for_one && wanted == count ? WORKER_WANTS_ALONE : WORKER_WANTS_SOME;
}
