/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_flow.c - mini-batches as a flow of micro-batches: forward on every thread, the sum over threads and ranks,
 * backward on every thread. There is no barrier: a thread goes on as far as what it needs is there.
 *
 * Micro-batches are counted through, over all mini-batches. A thread does forward k when it has done all backward
 * and the step of earlier mini-batches, and k is less than `depth` ahead of its backward; the one that makes
 * forward k complete begins the exchange; backward k needs the exchange's end. Whoever has nothing else to do
 * waits for the oldest exchange, and for the others if somebody else does that already. Slot k % depth is free
 * again when every thread has done backward k: only then does the last of them come to forward k + depth.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "glm/train_state.h"
#include "util/clock.h"

enum {
	YIELDS = 50,     /* before a thread sleeps */
	FLUSH_NS = 5000, /* a micro-batch that takes longer is not worth gathering */
	PROGRESS_NS = 20 * 1000000,
};

struct flow_thread {
	_Alignas(64) _Atomic uint64_t forward; /* micro-batches done */
	uint64_t backward;
	int64_t *parts; /* [depth][micro * classes] */
	bool *beyond;   /* [depth] */
	struct flow *flow;
	uint32_t index;
	pthread_t id;
};

struct flow {
	struct glm_train *train;
	const struct flow_plan *plan;
	uint32_t depth, per_batch, activations; /* of a micro-batch */
	uint32_t lanes_count;
	uint64_t total;
	struct flow_thread *threads;

	pthread_mutex_t starts, ends;           /* who begins, who ends */
	_Atomic uint64_t begun, flushed, ended; /* micro-batches */
	int32_t *lanes;                         /* [depth][lanes_count] */
	float *scales;                          /* [depth][activations] */
	int64_t *parts;                         /* [activations]: who begins */
	double *sums;                           /* [activations]: who ends */

	_Atomic uint64_t
		saturated; /* the first such mini-batch; known to all when its last micro-batch has ended */
	atomic_bool has_failed;

	_Atomic uint32_t version, sleepers; /* of what threads wait for */
	pthread_mutex_t sleep;
	pthread_cond_t changed;
	uint64_t progress_ns;
};

/* ---- what a micro-batch is ---- */

struct span {
	uint64_t batch;
	const uint32_t *rows;
	uint32_t count;
	uint32_t known; /* rows from here to the end of the epoch */
};

static void batch_span(const struct flow *flow, uint64_t batch, struct span *span)
{
	const struct glm_train *train = flow->train;
	uint64_t first = batch * train->options.batch, left = train->data->rows - first;

	span->batch = batch;
	span->rows = train->order + first;
	span->known = (uint32_t)left;
	span->count = left < train->options.batch ? (uint32_t)left : train->options.batch;
}

static void micro_span(const struct flow *flow, uint64_t k, struct span *span)
{
	uint32_t offset = (uint32_t)(k % flow->per_batch) * flow->plan->micro;

	batch_span(flow, flow->plan->first + k / flow->per_batch, span);
	span->rows += offset;
	span->count -= offset;
	span->known -= offset;
	if (span->count > flow->plan->micro)
		span->count = flow->plan->micro;
}

/* The end of the mini-batch that k is of. */
static uint64_t batch_end(const struct flow *flow, uint64_t k)
{
	uint64_t end = (k / flow->per_batch + 1) * flow->per_batch;

	return end < flow->total ? end : flow->total;
}

/* ---- waiting for one another ---- */

static void changed(struct flow *flow)
{
	atomic_fetch_add(&flow->version, 1);
	if (!atomic_load(&flow->sleepers))
		return;
	pthread_mutex_lock(&flow->sleep);
	pthread_cond_broadcast(&flow->changed);
	pthread_mutex_unlock(&flow->sleep);
}

static void wait_changed(struct flow *flow, uint32_t version)
{
	for (int i = 0; i < YIELDS; i++) {
		if (atomic_load(&flow->version) != version)
			return;
		sched_yield();
	}
	pthread_mutex_lock(&flow->sleep);
	atomic_fetch_add(&flow->sleepers, 1);
	while (atomic_load(&flow->version) == version)
		pthread_cond_wait(&flow->changed, &flow->sleep);
	atomic_fetch_sub(&flow->sleepers, 1);
	pthread_mutex_unlock(&flow->sleep);
}

static void fail(struct flow *flow)
{
	atomic_store(&flow->has_failed, true);
	changed(flow);
}

/* ---- beginning ---- */

static bool is_whole(const struct flow *flow, uint64_t k)
{
	if (k >= flow->total)
		return false;
	for (uint32_t i = 0; i < flow->train->threads; i++)
		if (atomic_load(&flow->threads[i].forward) <= k)
			return false;
	return true;
}

/* The threads' parts of micro-batch k, added up and in lanes. */
static void pack(struct flow *flow, uint64_t k, int32_t *lanes)
{
	uint32_t slot = (uint32_t)(k % flow->depth), count = flow->activations;
	const struct glm_train *train = flow->train;
	bool beyond = false;

	memset(flow->parts, 0, count * sizeof(*flow->parts));
	for (uint32_t t = 0; t < train->threads; t++) {
		const struct flow_thread *thread = &flow->threads[t];
		const int64_t *parts = thread->parts + (size_t)slot * count;

		beyond |= thread->beyond[slot];
		for (uint32_t i = 0; i < count; i++)
			beyond |= __builtin_add_overflow(flow->parts[i], parts[i], &flow->parts[i]);
	}
	wire_pack(&train->options.wire, train->exchange->ranks, flow->parts, count, beyond, lanes);
}

static int begin(struct flow *flow, uint64_t k)
{
	uint32_t slot = (uint32_t)(k % flow->depth);
	int32_t *lanes = flow->lanes + (size_t)slot * flow->lanes_count;
	struct exchange *exchange = flow->train->exchange;

	pack(flow, k, lanes);
	return exchange->ops->begin(exchange, slot, lanes, flow->lanes_count);
}

static int flush(struct flow *flow)
{
	struct exchange *exchange = flow->train->exchange;
	uint64_t begun = atomic_load(&flow->begun);

	if (atomic_load(&flow->flushed) == begun)
		return 0;
	if (exchange->ops->flush(exchange))
		return -1;
	atomic_store(&flow->flushed, begun);
	changed(flow);
	return 0;
}

/* Begins what is whole. What is ready at nearly the same time leaves together: a mini-batch's last one, and one
 * that took long (is_slow), take along what waits; else who has nothing more to do. */
static void start(struct flow *flow, bool is_slow)
{
	int result = 0;

	pthread_mutex_lock(&flow->starts);
	while (!result && is_whole(flow, atomic_load(&flow->begun))) {
		uint64_t k = atomic_load(&flow->begun);

		result = begin(flow, k);
		atomic_store(&flow->begun, k + 1);
		if (!result && (is_slow || k + 1 == batch_end(flow, k)))
			result = flush(flow);
	}
	pthread_mutex_unlock(&flow->starts);
	if (result)
		fail(flow);
}

static void flush_waiting(struct flow *flow)
{
	int result;

	pthread_mutex_lock(&flow->starts);
	result = flush(flow);
	pthread_mutex_unlock(&flow->starts);
	if (result)
		fail(flow);
}

/* ---- ending ---- */

static void scale(struct flow *flow, uint64_t k, double multiplier)
{
	uint32_t slot = (uint32_t)(k % flow->depth);
	const struct glm_train *train = flow->train;
	uint32_t classes = train->classes;
	const int32_t *lanes = flow->lanes + (size_t)slot * flow->lanes_count;
	float *scales = flow->scales + (size_t)slot * flow->activations;
	struct span span;

	micro_span(flow, k, &span);
	if (!wire_unpack(&train->options.wire, lanes, flow->activations, flow->sums)) {
		if (span.batch < atomic_load(&flow->saturated))
			atomic_store(&flow->saturated, span.batch);
		return;
	}
	for (uint32_t i = 0; i < span.count; i++)
		for (uint32_t c = 0; c < classes; c++)
			scales[i * classes + c] = (float)dloss(
				train->options.loss, multiplier * flow->sums[i * classes + c],
				train_label(train, span.rows[i], c));
}

/* Ends exchange k, the oldest; false: it is busy, or has failed. */
static bool end_one(struct flow *flow, uint64_t k, bool is_wait, double multiplier)
{
	struct exchange *exchange = flow->train->exchange;

	switch (exchange->ops->end(exchange, (uint32_t)(k % flow->depth), is_wait)) {
	case EXCHANGE_BUSY:
		return false;
	case EXCHANGE_FAILED:
		atomic_store(&flow->has_failed, true);
		return false;
	case EXCHANGE_DONE:
		break;
	}
	/* No thread has left this mini-batch: all multipliers are the one of k. */
	scale(flow, k, multiplier);
	atomic_store(&flow->ended, k + 1);
	return true;
}

/* Waits for the oldest exchange, unless another thread does, and takes those that have come with it: what then
 * becomes ready leaves together, too. False: another thread does, or there is none. */
static bool end_oldest(struct flow *flow, const struct glm_engine *engine)
{
	bool has_one = false;
	uint64_t k;

	if (pthread_mutex_trylock(&flow->ends))
		return false;
	k = atomic_load(&flow->ended);
	while (k < atomic_load(&flow->flushed)) {
		bool is_wait = !has_one;

		/* Also if it was flushed just now: whoever flushed it found us here, and sleeps. */
		has_one = true;
		if (!end_one(flow, k++, is_wait, engine->multiplier))
			break;
	}
	pthread_mutex_unlock(&flow->ends);
	if (has_one)
		changed(flow);
	return has_one;
}

/* ---- a thread ---- */

static void forward(struct flow_thread *thread, uint64_t k)
{
	struct flow *flow = thread->flow;
	uint32_t slot = (uint32_t)(k % flow->depth), used;
	struct glm_engine *engine = &flow->train->engines[thread->index];
	int64_t *parts = thread->parts + (size_t)slot * flow->activations;
	uint64_t begin_ns = clock_ns();
	struct span span;

	micro_span(flow, k, &span);
	used = span.count * flow->train->classes;
	glm_engine_pay(engine, span.rows, span.count);
	thread->beyond[slot] =
		!glm_engine_forward(engine, span.rows, span.count, span.known, parts);
	memset(parts + used, 0, (flow->activations - used) * sizeof(*parts));
	atomic_store(&thread->forward, k + 1);
	if (is_whole(flow, atomic_load(&flow->begun)))
		start(flow, clock_ns() - begin_ns > FLUSH_NS);
}

static void progress(struct flow *flow, const struct span *span)
{
	const struct flow_plan *plan = flow->plan;
	uint64_t now_ns;

	if (!plan->progress)
		return;
	now_ns = clock_ns();
	if (now_ns - flow->progress_ns < PROGRESS_NS)
		return;
	flow->progress_ns = now_ns;
	plan->progress(plan->progress_arg,
		       (uint64_t)(span->rows - flow->train->order) + span->count,
		       flow->train->data->rows);
}

/* False: this mini-batch was too much, and the model stays what it was. */
static bool step(struct flow_thread *thread, uint64_t k)
{
	struct flow *flow = thread->flow;
	struct span span;
	double rate;

	batch_span(flow, flow->plan->first + k / flow->per_batch, &span);
	if (atomic_load(&flow->saturated) <= span.batch)
		return false;
	rate = train_rate(flow->train, span.batch);
	glm_engine_step(&flow->train->engines[thread->index], rate, span.rows, span.count);
	if (!thread->index)
		progress(flow, &span);
	return true;
}

/* Micro-batch k's; false as step(). */
static bool backward(struct flow_thread *thread, uint64_t k)
{
	struct flow *flow = thread->flow;
	uint32_t slot = (uint32_t)(k % flow->depth);
	struct span span;

	micro_span(flow, k, &span);
	glm_engine_backward(&flow->train->engines[thread->index], span.rows, span.count,
			    flow->scales + (size_t)slot * flow->activations);
	thread->backward = k + 1;
	return thread->backward < batch_end(flow, k) || step(thread, k);
}

static void idle(struct flow_thread *thread)
{
	struct flow *flow = thread->flow;
	uint32_t version = atomic_load(&flow->version);

	if (atomic_load(&flow->flushed) < atomic_load(&flow->begun))
		flush_waiting(flow);
	if (end_oldest(flow, &flow->train->engines[thread->index]))
		return;
	if (atomic_load(&flow->ended) <= thread->backward && !atomic_load(&flow->has_failed))
		wait_changed(flow, version);
}

/* Forward of the next mini-batch needs the model that this one makes. */
static uint64_t forward_end(const struct flow *flow, uint64_t backward)
{
	return batch_end(flow, backward);
}

static void *thread_main(void *arg)
{
	struct flow_thread *thread = arg;
	struct flow *flow = thread->flow;
	bool goes_on = true;

	while (goes_on && thread->backward < flow->total && !atomic_load(&flow->has_failed)) {
		uint64_t next = atomic_load(&thread->forward);

		if (next < forward_end(flow, thread->backward) &&
		    next < thread->backward + flow->depth)
			forward(thread, next);
		else if (thread->backward < atomic_load(&flow->ended))
			goes_on = backward(thread, thread->backward);
		else
			idle(thread);
	}
	return NULL;
}

/* ---- a run ---- */

static bool memory_take(struct flow *flow)
{
	uint32_t threads = flow->train->threads;
	size_t all = (size_t)flow->depth * flow->activations;

	flow->threads = aligned_alloc(64, threads * sizeof(*flow->threads));
	flow->lanes = calloc((size_t)flow->depth * flow->lanes_count, sizeof(*flow->lanes));
	flow->scales = calloc(all, sizeof(*flow->scales));
	flow->parts = calloc(flow->activations, sizeof(*flow->parts));
	flow->sums = calloc(flow->activations, sizeof(*flow->sums));
	if (!flow->threads)
		return false;
	memset(flow->threads, 0, threads * sizeof(*flow->threads));
	for (uint32_t i = 0; i < threads; i++) {
		struct flow_thread *thread = &flow->threads[i];

		thread->parts = calloc(all, sizeof(*thread->parts));
		thread->beyond = calloc(flow->depth, sizeof(*thread->beyond));
		thread->flow = flow;
		thread->index = i;
		if (!thread->parts || !thread->beyond)
			return false;
	}
	return flow->lanes && flow->scales && flow->parts && flow->sums;
}

static void memory_free(struct flow *flow)
{
	for (uint32_t i = 0; flow->threads && i < flow->train->threads; i++) {
		free(flow->threads[i].parts);
		free(flow->threads[i].beyond);
	}
	free(flow->threads);
	free(flow->lanes);
	free(flow->scales);
	free(flow->parts);
	free(flow->sums);
}

/* The first thread is this one. False: a thread could not be started. */
static bool threads_run(struct flow *flow)
{
	uint32_t started = 1;

	while (started < flow->train->threads &&
	       !pthread_create(&flow->threads[started].id, NULL, thread_main,
			       &flow->threads[started]))
		started++;
	if (started < flow->train->threads)
		fail(flow);
	else
		thread_main(&flow->threads[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(flow->threads[i].id, NULL);
	return started == flow->train->threads;
}

static void counts_make(struct flow *flow)
{
	const struct glm_train *train = flow->train;
	const struct flow_plan *plan = flow->plan;
	struct span last;

	flow->per_batch = (train->options.batch + plan->micro - 1) / plan->micro;
	batch_span(flow, plan->end - 1, &last);
	flow->total = (plan->end - 1 - plan->first) * flow->per_batch +
		      (last.count + plan->micro - 1) / plan->micro;
	flow->depth = train->exchange->depth < flow->per_batch ? train->exchange->depth
							       : flow->per_batch;
	if (flow->depth > flow->total)
		flow->depth = (uint32_t)flow->total;
	if (train->options.depth && train->options.depth < flow->depth)
		flow->depth = train->options.depth;
	flow->activations = plan->micro * train->classes;
	flow->lanes_count = wire_lanes(&train->options.wire, flow->activations);
}

int flow_run(struct glm_train *train, const struct flow_plan *plan)
{
	struct flow flow = { .train = train,
			     .plan = plan,
			     .saturated = UINT64_MAX,
			     .starts = PTHREAD_MUTEX_INITIALIZER,
			     .ends = PTHREAD_MUTEX_INITIALIZER,
			     .sleep = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER };
	int result = 0;

	counts_make(&flow);
	if (!memory_take(&flow))
		result = train_give_up(train, "out of memory");
	else if (!threads_run(&flow))
		result = train_give_up(train, "no more threads");
	else if (atomic_load(&flow.has_failed))
		result = train_fail_exchange(train);
	else if (atomic_load(&flow.saturated) != UINT64_MAX)
		result = train_fail_saturated(train, atomic_load(&flow.saturated));
	memory_free(&flow);
	return result;
}
