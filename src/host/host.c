/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - see host.h: operations, window by window. */
#include "host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/state.h"
#include "util/clock.h"

/* ---- memory ---- */

struct areas areas_of(uint32_t ranks)
{
	bool is_pair = ranks <= 2;
	struct areas areas = { .all_bytes = is_pair ? HOST_PAIR_BYTES : HOST_SMALL_BYTES,
			       .window_bytes = is_pair ? HOST_PAIR_BYTES : HOST_WINDOW_BYTES };

	areas.all = sizeof(struct wait_words);
	areas.parts = areas.all + ranks * HOST_TURNS * areas.all_bytes;
	areas.results = areas.parts + (is_pair ? 0 : ranks * HOST_TURNS * areas.window_bytes);
	areas.copies = areas.results + (is_pair ? 0 : HOST_TURNS * areas.window_bytes);
	areas.bytes = areas.copies + HOST_TURNS * areas.window_bytes;
	return areas;
}

size_t host_bytes(uint32_t ranks)
{
	return areas_of(ranks).bytes;
}

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

static struct endpoint_op *oldest(struct host *host)
{
	return &host->ops[host->head % HOST_OPS];
}

static uint64_t first_of(const struct run *run, uint64_t w)
{
	return w * run->window;
}

static uint32_t count_of(const struct run *run, const struct endpoint_op *op, uint64_t w)
{
	uint64_t left = op->count - first_of(run, w);

	return left < run->window ? (uint32_t)left : run->window;
}

static void shape_choose(struct host *host, const struct endpoint_op *op)
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
}

/* This rank's elements of a window. */
static void window_get(const struct endpoint_op *op, uint64_t first, uint32_t count, void *to,
		       uint32_t bytes)
{
	const void *from = count ? segments_read(op, SEGMENTS_SOURCE, first, count, to) : to;

	if (!from) /* it has none: of several ranks' parts */
		memset(to, 0, (size_t)count * bytes);
	else if (from != to)
		memcpy(to, from, (size_t)count * bytes);
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
		       uint32_t bytes)
{
	void *to = segments_write(op, first, count, from);

	if (to != from)
		memcpy(to, from, (size_t)count * bytes);
	else if (op->segments_count)
		segments_written(op, first, count, from);
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
	host->saturated += sum_run(&host->run.sum, to, from, host->ranks, count);
	if (to == host->scratch)
		segments_written(op, first, count, to);
}

/* ---- what is written in a phase, and read after it ---- */

static void window_write(struct host *host, const struct endpoint_op *op, uint64_t w)
{
	const struct run *run = &host->run;
	struct wait_line *line = wait_line(host->words, host->rank, host->phase);
	uint64_t first = first_of(run, w);
	uint32_t count = count_of(run, op, w), bytes = run->sum.bytes;
	void *to = run->shape == SHAPE_LINE  ? line->value
		   : run->shape == SHAPE_ALL ? all_at(host, host->rank, host->phase)
					     : parts_at(host, host->rank, w);

	if (host->phase ==
	    run->base) /* later ones may be written while the line before is still read */
		line->tag = run->tag;
	if (run->shape == SHAPE_COPY) {
		window_get_own(op, first, count, copy_at(host, host->phase), bytes);
	} else if (run->sum.kind == SUM_COPY) { /* beside the word, whoever has it */
		memset(line->value, 0, sizeof(line->value));
		window_get_own(op, first, count, line->value, bytes);
	} else {
		window_get(op, first, count, to, bytes);
	}
	if (op->rest && count)
		sum_rest(&run->sum, op->rest + first, to, count);
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
		window_put(op, 0, (uint32_t)op->count, value, host->run.sum.bytes);
}

/* After the only phase of a window. */
static void window_read(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint64_t first = first_of(run, run->w);
	uint32_t count = count_of(run, op, run->w), phase = host->phase - 1;
	const void *from[HOST_RANKS_MAX];

	if (run->shape == SHAPE_COPY) {
		if (is_wanted(op, first, count))
			window_put(op, first, count, copy_at(host, phase), run->sum.bytes);
		return;
	}
	if (run->sum.kind == SUM_COPY) {
		lines_join(host, op, phase);
		return;
	}
	for (uint32_t r = 0; r < host->ranks; r++)
		from[r] = run->shape == SHAPE_LINE ? wait_line(host->words, r, phase)->value
						   : all_at(host, r, phase);
	window_sum(host, op, first, count, from);
}

/* PARTS: the phases of a window that its ranks have written, and those of one that they have added up. The next
 * window is written before the last one is added up. */
static uint32_t written_phase(const struct run *run)
{
	return run->base + (run->w ? (uint32_t)(2 * run->w) - 1 : 0);
}

static uint32_t summed_phase(const struct run *run)
{
	return run->base + (uint32_t)(run->w + 1 < run->windows ? 2 * run->w + 2 : 2 * run->w + 1);
}

/* Where rank r's part of a window begins. */
static uint32_t part_at(const struct host *host, uint32_t count, uint32_t r)
{
	uint32_t unit = host->run.sum.packet ? host->run.sum.packet : 16;
	uint64_t each = (count / host->ranks + unit - 1) / unit * unit, at;

	each = each * host->ranks < count ? each + unit : each;
	at = each * r;
	return at < count ? (uint32_t)at : count;
}

/* Beside the word of the phase in which rank r has added up its part. By window: one that is ahead has done the next. */
static void *saturated_at(const struct host *host, uint32_t r, uint32_t phase, uint64_t w)
{
	return wait_line(host->words, r, phase)->value + w % HOST_TURNS * sizeof(uint64_t);
}

/* This rank's part of a window, for all. */
static void part_sum(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint32_t count = count_of(run, op, run->w), bytes = run->sum.bytes;
	uint32_t begin = part_at(host, count, host->rank);
	uint32_t end = part_at(host, count, host->rank + 1);
	const void *from[HOST_RANKS_MAX];
	uint64_t saturated = 0;

	for (uint32_t r = 0; r < host->ranks; r++)
		from[r] = (uint8_t *)parts_at(host, r, run->w) + (size_t)begin * bytes;
	if (begin < end)
		saturated = sum_run(&run->sum,
				    (uint8_t *)result_at(host, run->w) + (size_t)begin * bytes,
				    from, host->ranks, end - begin);
	memcpy(saturated_at(host, host->rank, host->phase, run->w), &saturated, sizeof(saturated));
	host_publish(host);
}

static void parts_read(struct host *host, const struct endpoint_op *op)
{
	const struct run *run = &host->run;
	uint64_t first = first_of(run, run->w);
	uint32_t count = count_of(run, op, run->w);

	if (!is_wanted(op, first, count))
		return;
	window_put(op, first, count, result_at(host, run->w), run->sum.bytes);
	for (uint32_t r = 0; r < host->ranks; r++) {
		uint64_t saturated;

		memcpy(&saturated, saturated_at(host, r, summed_phase(run), run->w),
		       sizeof(saturated));
		host->saturated += saturated;
	}
}

/* ---- steps ---- */

/* All others have passed the phase. If not: who has not is whom host_wait waits for. */
static bool are_there(struct host *host, uint32_t phase)
{
	for (; host->seen < host->ranks; host->seen++) {
		uint32_t r = host->seen;

		switch (r == host->rank ? WAIT_THERE
					: wait_look(wait_line(host->words, r, phase), phase)) {
		case WAIT_THERE:
			continue;
		case WAIT_NOT_YET:
			atomic_store_explicit(&host->awaited, r, memory_order_relaxed);
			atomic_store_explicit(&host->awaited_phase, phase, memory_order_relaxed);
			return false;
		case WAIT_ABORTED:
			host->is_given_up = true;
			atomic_store(&host->awaited, WAIT_NOBODY);
			return false;
		}
	}
	host->seen = 0;
	return true;
}

/* Before anything of the others' is read. */
static bool are_same(struct host *host, uint32_t phase)
{
	for (uint32_t r = 0; r < host->ranks; r++)
		host->is_odd |= wait_line(host->words, r, phase)->tag != host->run.tag;
	if (host->is_odd)
		atomic_store(&host->awaited, WAIT_NOBODY);
	return !host->is_odd;
}

static void finish(struct host *host)
{
	host->done[host->done_tail++ % HOST_OPS] = oldest(host)->cookie;
	host->head++;
	host->is_running = false;
}

/* True: it has got on. */
static bool parts_step(struct host *host, const struct endpoint_op *op)
{
	struct run *run = &host->run;

	switch (run->step) {
	case RUN_WRITE:
		if (!run->w)
			window_write(host, op, 0);
		if (run->w + 1 < run->windows)
			window_write(host, op, run->w + 1);
		run->step = RUN_READ;
		return true;
	case RUN_READ:
		if (!are_there(host, written_phase(run)) || (!run->w && !are_same(host, run->base)))
			return false;
		part_sum(host, op);
		run->step = RUN_COLLECT;
		return true;
	case RUN_COLLECT:
		if (!are_there(host, summed_phase(run)))
			return false;
		parts_read(host, op);
		run->step = RUN_WRITE;
		if (++run->w == run->windows)
			finish(host);
		return true;
	}
	return false;
}

static bool step(struct host *host, const struct endpoint_op *op)
{
	struct run *run = &host->run;

	if (run->shape == SHAPE_PARTS)
		return parts_step(host, op);
	if (run->step == RUN_WRITE) {
		window_write(host, op, run->w);
		run->step = RUN_READ;
		return true;
	}
	if (!are_there(host, host->phase - 1) || (!run->w && !are_same(host, run->base)))
		return false;
	window_read(host, op);
	run->step = RUN_WRITE;
	if (++run->w == run->windows)
		finish(host);
	return true;
}

/* The oldest operation's turn has come. */
static void begin(struct host *host)
{
	struct endpoint_op *op = oldest(host);
	struct run *run = &host->run;
	uint64_t hash = map_descriptor_hash(&op->descriptor);

	*run = (struct run){ .base = host->phase, .tag = map_tag(hash, 0) };
	(void)sum_choose(&run->sum, host, op);
	shape_choose(host, op);
	host->is_running = true;
	if (op->first_ns)
		*op->first_ns = clock_ns();
}

/* ---- the engine ---- */

struct host *host_open(const struct host_options *options)
{
	struct host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->words = options->memory;
	host->memory = options->memory;
	host->areas = areas_of(options->ranks);
	host->ranks = options->ranks;
	host->rank = options->rank;
	host->lanes = options->lanes;
	host->is_same_bits = options->is_same_bits;
	host->quant = options->quant;
	host->scratch = malloc(host->areas.window_bytes);
	if (!host->scratch) {
		free(host);
		return NULL;
	}
	host_wait_init(host);
	return host;
}

void host_close(struct host *host)
{
	if (!host)
		return;
	free(host->scratch);
	free(host);
}

int host_submit(struct host *host, const struct endpoint_op *op)
{
	struct sum sum;

	if (host->tail - host->head + host->done_tail - host->done_head >= HOST_OPS)
		return -EAGAIN;
	if (!sum_choose(&sum, host, op))
		return -EINVAL;
	host->ops[host->tail++ % HOST_OPS] = *op;
	if (host->tail - host->head > 1 || host->is_odd || host->is_given_up)
		return 0;
	begin(host);
	(void)step(host, oldest(host)); /* the others need not wait until this rank does */
	return 0;
}

bool host_poll(struct host *host)
{
	bool is_busy;

	if (host->is_odd || host->is_given_up)
		return false;
	if (host->head == host->tail) {
		atomic_store_explicit(&host->awaited, WAIT_NOBODY, memory_order_relaxed);
		return false;
	}
	if (!host->is_running)
		begin(host);
	is_busy = step(host, oldest(host));
	host->progress += is_busy;
	return is_busy;
}

uint32_t host_done(struct host *host, uint64_t *cookies, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && host->done_head != host->done_tail)
		cookies[count++] = host->done[host->done_head++ % HOST_OPS];
	return count;
}

bool host_is_odd(const struct host *host)
{
	return host->is_odd;
}

uint64_t host_progress(const struct host *host)
{
	return host->progress;
}

uint64_t host_saturated(const struct host *host)
{
	return host->saturated;
}

bool host_has_same_bits(const struct host *host)
{
	return host->is_same_bits;
}
