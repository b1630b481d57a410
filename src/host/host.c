/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - see host.h: operations, window by window. */
#include "host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/state.h"
#include "simd/stream.h"
#include "util/clock.h"

enum { CACHE_BYTES = 16 << 20 /* where nobody says */ };

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

/* ---- steps ---- */

static struct endpoint_op *oldest(struct host *host)
{
	return &host->ops[host->head % HOST_OPS];
}

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
	if (host->run.is_large)
		stream_end();
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

/* Of the last cache: what is larger all together is not there for whoever reads it next. */
static size_t cache_bytes(void)
{
	long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);

	return bytes > 0 ? (size_t)bytes : CACHE_BYTES;
}

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
	host->cache_bytes = cache_bytes();
	host->scratch = malloc(host->areas.window_bytes);
	host->own = malloc(host->areas.window_bytes);
	if (!host->scratch || !host->own) {
		host_close(host);
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
	free(host->own);
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
