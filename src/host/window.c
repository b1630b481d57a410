/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - what a rank writes of a window, and what it makes of all ranks': see state.h. */
#include <string.h>

#include "host/state.h"
#include "simd/stream.h"

/* ---- memory ---- */

/* Rank r's buffer where all add up all; by phase: what was there two phases ago all have read. */
static void *all_at(const struct host *host, uint32_t r, uint32_t phase)
{
	return host->memory + host->areas.all +
	       (r * HOST_TURNS + phase % HOST_TURNS) * host->areas.all_bytes;
}

/* By window: the one before the last all have added up. */
static void *parts_at(const struct host *host, uint32_t r, uint64_t w)
{
	return host->memory + host->areas.parts +
	       (r * HOST_TURNS + w % HOST_TURNS) * host->areas.window_bytes;
}

static void *result_at(const struct host *host, uint64_t w)
{
	return host->memory + host->areas.results + w % HOST_TURNS * host->areas.window_bytes;
}

static void *copy_at(const struct host *host, uint32_t phase)
{
	return host->memory + host->areas.copies + phase % HOST_TURNS * host->areas.window_bytes;
}

/* ---- windows ---- */

static uint64_t first_of(const struct run *run, uint64_t w)
{
	return w * run->window;
}

static uint32_t count_of(const struct run *run, const struct endpoint_op *op, uint64_t w)
{
	uint64_t left = op->count - first_of(run, w);

	return left < run->window ? (uint32_t)left : run->window;
}

void shape_choose(struct host *host, const struct endpoint_op *op)
{
	struct run *run = &host->run;
	bool is_copy = run->sum.kind == SUM_COPY, is_all;
	size_t room = host->areas.window_bytes;

	is_all = host->ranks <= 2 || op->count <= HOST_SMALL_BYTES / run->sum.bytes;
	run->shape = op->count <= WAIT_VALUE_BYTES / run->sum.bytes ? SHAPE_LINE
		     : is_copy                                      ? SHAPE_COPY
		     : is_all                                       ? SHAPE_ALL
								    : SHAPE_PARTS;
	if (run->shape == SHAPE_ALL)
		room = host->areas.all_bytes;
	run->window = (uint32_t)(room / run->sum.bytes);
	if (run->sum.packet && run->window >= run->sum.packet)
		run->window -= run->window % run->sum.packet;
	run->windows = op->count ? (op->count - 1) / run->window + 1 : 1;
	run->is_large = op->count * run->sum.bytes * 2 * host->ranks > host->cache_bytes;
}

/* This rank's elements of a window: where they are, or gathered in `own`. */
static const void *own_at(const struct host *host, const struct endpoint_op *op, uint64_t first,
			  uint32_t count)
{
	return count ? segments_read(op, SEGMENTS_SOURCE, first, count, host->own) : host->own;
}

/* Those that it alone has, each at its place. */
static void window_get_own(const struct endpoint_op *op, uint64_t first, uint32_t count,
			   uint8_t *to, uint32_t bytes)
{
	const struct endpoint_segment whole = { 0, op->count, op->source, op->destination };
	const struct endpoint_segment *segments = op->segments_count ? op->segments : &whole;
	uint32_t segments_count = op->segments_count ? op->segments_count : 1;

	for (uint32_t i = 0; i < segments_count; i++) {
		uint64_t from = segments[i].first, end = from + segments[i].count;
		uint64_t begin = from < first ? first : from;

		end = end > first + count ? first + count : end;
		if (segments[i].source && begin < end)
			memcpy(to + (begin - first) * bytes,
			       (const uint8_t *)segments[i].source + (begin - from) * bytes,
			       (size_t)(end - begin) * bytes);
	}
}

static void window_put(const struct endpoint_op *op, uint64_t first, uint32_t count, void *from,
		       uint32_t bytes, bool is_large)
{
	void *to = segments_write(op, first, count, from);

	if (segments_are_there(op, first, count))
		return;
	if (to == from)
		segments_written(op, first, count, from);
	else if (is_large)
		stream_copy(to, from, (size_t)count * bytes);
	else
		memcpy(to, from, (size_t)count * bytes);
}

static bool is_wanted(const struct endpoint_op *op, uint64_t first, uint32_t count)
{
	return count && (op->segments_count ? segments_wish(op, first, count) != WORKER_WANTS_NONE
					    : op->destination != NULL);
}

/* All ranks' elements of a window, added up where this one wants them. */
static void window_sum(struct host *host, const struct endpoint_op *op, uint64_t first,
		       uint32_t count, const void *const *from)
{
	void *to;

	if (!is_wanted(op, first, count))
		return;
	to = segments_write(op, first, count, host->scratch);
	host->saturated += (host->run.is_large ? sum_stream : sum_run)(&host->run.sum, to, from,
								       host->ranks, count);
	if (to == host->scratch)
		segments_written(op, first, count, to);
}

/* ---- what is written in a phase, and read after it ---- */

/* Where rank r's part of a window begins. */
static uint32_t part_at(const struct host *host, uint32_t count, uint32_t r)
{
	uint32_t unit = host->run.sum.packet ? host->run.sum.packet : 16;
	uint64_t each = (count / host->ranks + unit - 1) / unit * unit, at;

	each = each * host->ranks < count ? each + unit : each;
	at = each * r;
	return at < count ? (uint32_t)at : count;
}

/* What the others read of a window: of parts all but its own. A rank's own elements nobody else needs to be near. */
static void own_write(struct host *host, const void *own, uint32_t count, uint64_t w)
{
	const struct run *run = &host->run;
	uint32_t bytes = run->sum.bytes, begin, end;
	uint8_t *to;

	if (run->shape == SHAPE_LINE) {
		memcpy(wait_line(host->words, host->rank, host->phase)->value, own,
		       (size_t)count * bytes);
	} else if (run->shape == SHAPE_ALL) {
		stream_copy(all_at(host, host->rank, host->phase), own, (size_t)count * bytes);
	} else {
		begin = part_at(host, count, host->rank);
		end = part_at(host, count, host->rank + 1);
		to = parts_at(host, host->rank, w);
		stream_copy(to, own, (size_t)begin * bytes);
		stream_copy(to + (size_t)end * bytes, (const uint8_t *)own + (size_t)end * bytes,
			    (size_t)(count - end) * bytes);
	}
}

void window_write(struct host *host, const struct endpoint_op *op, uint64_t w)
{
	const struct run *run = &host->run;
	struct wait_line *line = wait_line(host->words, host->rank, host->phase);
	uint64_t first = first_of(run, w);
	uint32_t count = count_of(run, op, w), bytes = run->sum.bytes;
	const void *own;

	if (host->phase ==
	    run->base) /* later ones may be written while the line before is still read */
		line->tag = run->tag;
	if (run->shape == SHAPE_COPY) {
		window_get_own(op, first, count, copy_at(host, host->phase), bytes);
	} else if (run->sum.kind == SUM_COPY) { /* beside the word, whoever has it */
		memset(line->value, 0, sizeof(line->value));
		window_get_own(op, first, count, line->value, bytes);
	} else {
		own = own_at(host, op, first, count);
		own_write(host, own, count, w);
		if (op->rest && count)
			sum_rest(&run->sum, op->rest + first, own, count);
	}
	host_publish(host);
}

/* Of each element one rank has said what it is, all others 0. */
static void lines_join(struct host *host, const struct endpoint_op *op, uint32_t phase)
{
	_Alignas(8) uint8_t value[WAIT_VALUE_BYTES] = { 0 };

	for (uint32_t r = 0; r < host->ranks; r++)
		for (uint32_t i = 0; i < WAIT_VALUE_BYTES; i++)
			value[i] |= wait_line(host->words, r, phase)->value[i];
	if (is_wanted(op, 0, (uint32_t)op->count))
		window_put(op, 0, (uint32_t)op->count, value, host->run.sum.bytes, false);
}

void window_read(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint64_t first = first_of(run, run->w);
	uint32_t count = count_of(run, op, run->w), phase = host->phase - 1;
	const void *from[HOST_RANKS_MAX];

	if (run->shape == SHAPE_COPY) {
		if (is_wanted(op, first, count))
			window_put(op, first, count, copy_at(host, phase), run->sum.bytes,
				   run->is_large);
		return;
	}
	if (run->sum.kind == SUM_COPY) {
		lines_join(host, op, phase);
		return;
	}
	for (uint32_t r = 0; r < host->ranks; r++)
		from[r] = run->shape == SHAPE_LINE ? wait_line(host->words, r, phase)->value
						   : all_at(host, r, phase);
	if (run->shape == SHAPE_ALL) /* nearer than what it has written for the others */
		from[host->rank] = own_at(host, op, first, count);
	window_sum(host, op, first, count, from);
}

uint32_t written_phase(const struct run *run)
{
	return run->base + (run->w ? (uint32_t)(2 * run->w) - 1 : 0);
}

uint32_t summed_phase(const struct run *run)
{
	return run->base + (uint32_t)(run->w + 1 < run->windows ? 2 * run->w + 2 : 2 * run->w + 1);
}

/* Beside the word of the phase in which rank r has added up its part. By window: one that is ahead has done the next. */
static void *saturated_at(const struct host *host, uint32_t r, uint32_t phase, uint64_t w)
{
	return wait_line(host->words, r, phase)->value + w % HOST_TURNS * sizeof(uint64_t);
}

void part_sum(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint32_t count = count_of(run, op, run->w), bytes = run->sum.bytes;
	uint32_t begin = part_at(host, count, host->rank);
	uint32_t end = part_at(host, count, host->rank + 1);
	const void *from[HOST_RANKS_MAX];
	uint64_t saturated = 0;

	for (uint32_t r = 0; r < host->ranks; r++)
		from[r] = (const uint8_t *)parts_at(host, r, run->w) + (size_t)begin * bytes;
	from[host->rank] = (const uint8_t *)own_at(host, op, first_of(run, run->w), count) +
			   (size_t)begin * bytes;
	if (begin < end)
		saturated = sum_stream(&run->sum,
				       (uint8_t *)result_at(host, run->w) + (size_t)begin * bytes,
				       from, host->ranks, end - begin);
	memcpy(saturated_at(host, host->rank, host->phase, run->w), &saturated, sizeof(saturated));
	host_publish(host);
}

void parts_read(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint64_t first = first_of(run, run->w);
	uint32_t count = count_of(run, op, run->w);

	if (!is_wanted(op, first, count))
		return;
	window_put(op, first, count, result_at(host, run->w), run->sum.bytes, run->is_large);
	for (uint32_t r = 0; r < host->ranks; r++) {
		uint64_t saturated;

		memcpy(&saturated, saturated_at(host, r, summed_phase(run), run->w),
		       sizeof(saturated));
		host->saturated += saturated;
	}
}
