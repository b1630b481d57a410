/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange_fixture.h - for tests: ranks that are threads of one process, and sums in memory that they share. It
 * asserts what exchange.h demands of its callers, and fails where a test says so.
 */
#ifndef GLM_EXCHANGE_FIXTURE_H
#define GLM_EXCHANGE_FIXTURE_H

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glm/exchange.h"

enum { SHARED_DEPTH = 4, SHARED_LANES = 360, SHARED_RANKS = 8, SHARED_RING = 2 * SHARED_DEPTH };

struct shared_sum {
	uint32_t arrived, left, count;
	int32_t sum[SHARED_LANES];
};

struct shared {
	uint32_t ranks;
	uint32_t tuned_total, tuned_each; /* as tune() has heard it */
	uint64_t fail_from;               /* the small sum that fails on all ranks; 0: none */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct shared_sum ring[SHARED_RING];
	bool is_aborted;
	/* of the large sums */
	void *large; /* int32_t, or float: in the order of the ranks */
	size_t large_count;
	uint32_t large_arrived, large_left;
};

struct shared_rank {
	struct exchange exchange; /* first */
	struct shared *shared;
	uint64_t begun, flushed, ended;
	struct {
		int32_t *lanes;
		uint32_t slot, count;
	} lent[SHARED_DEPTH]; /* of sum k % SHARED_DEPTH */
};

static void shared_init(struct shared *shared, uint32_t ranks)
{
	*shared = (struct shared){ .ranks = ranks };
	pthread_mutex_init(&shared->lock, NULL);
	pthread_cond_init(&shared->changed, NULL);
}

static int shared_tune(struct exchange *exchange, uint32_t total, uint32_t each)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;

	assert(!rank->begun);
	assert(total >= each);
	pthread_mutex_lock(&rank->shared->lock);
	rank->shared->tuned_total = total;
	rank->shared->tuned_each = each;
	pthread_mutex_unlock(&rank->shared->lock);
	return 0;
}

static int shared_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;

	pthread_mutex_lock(&rank->shared->lock);
	assert(rank->begun - rank->ended < SHARED_DEPTH);
	assert(slot < SHARED_DEPTH && count && count <= SHARED_LANES);
	for (uint64_t k = rank->ended; k < rank->begun; k++)
		assert(rank->lent[k % SHARED_DEPTH].slot != slot);
	rank->lent[rank->begun % SHARED_DEPTH].lanes = lanes;
	rank->lent[rank->begun % SHARED_DEPTH].slot = slot;
	rank->lent[rank->begun++ % SHARED_DEPTH].count = count;
	pthread_mutex_unlock(&rank->shared->lock);
	return 0;
}

static int shared_flush(struct exchange *exchange)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;
	struct shared *shared = rank->shared;

	pthread_mutex_lock(&shared->lock);
	for (; rank->flushed < rank->begun; rank->flushed++) {
		struct shared_sum *sum = &shared->ring[rank->flushed % SHARED_RING];
		const int32_t *lanes = rank->lent[rank->flushed % SHARED_DEPTH].lanes;
		uint32_t count = rank->lent[rank->flushed % SHARED_DEPTH].count;

		if (!sum->arrived++) {
			memset(sum->sum, 0, sizeof(sum->sum));
			sum->count = count;
		}
		assert(sum->count == count);
		for (uint32_t i = 0; i < count; i++) {
			assert(lanes[i] <= INT32_MAX / (int32_t)shared->ranks);
			assert(lanes[i] >= -(INT32_MAX / (int32_t)shared->ranks));
			sum->sum[i] += lanes[i];
		}
	}
	pthread_cond_broadcast(&shared->changed);
	pthread_mutex_unlock(&shared->lock);
	return 0;
}

static bool shared_has_failed(struct shared_rank *rank, uint64_t k)
{
	if (!rank->shared->is_aborted && (!rank->shared->fail_from || k < rank->shared->fail_from))
		return false;
	snprintf(rank->exchange.error, sizeof(rank->exchange.error), "the shared exchange %s",
		 rank->shared->is_aborted ? "was aborted" : "has failed");
	return true;
}

static enum exchange_state shared_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;
	struct shared *shared = rank->shared;
	uint64_t k = rank->ended;
	struct shared_sum *sum = &shared->ring[k % SHARED_RING];
	enum exchange_state state = EXCHANGE_BUSY;

	pthread_mutex_lock(&shared->lock);
	assert(k < rank->flushed && rank->lent[k % SHARED_DEPTH].slot == slot);
	while (is_wait && sum->arrived < shared->ranks && !shared_has_failed(rank, k))
		pthread_cond_wait(&shared->changed, &shared->lock);
	if (shared_has_failed(rank, k)) {
		state = EXCHANGE_FAILED;
	} else if (sum->arrived == shared->ranks) {
		state = EXCHANGE_DONE;
		memcpy(rank->lent[k % SHARED_DEPTH].lanes, sum->sum, sum->count * sizeof(int32_t));
		rank->ended++;
		if (++sum->left == shared->ranks)
			sum->arrived = sum->left = 0;
	}
	pthread_mutex_unlock(&shared->lock);
	return state;
}

static void shared_add(void *to, const void *from, size_t count, bool is_float)
{
	for (size_t i = 0; i < count && is_float; i++)
		((float *)to)[i] += ((const float *)from)[i];
	for (size_t i = 0; i < count && !is_float; i++)
		((int32_t *)to)[i] += ((const int32_t *)from)[i];
}

static int shared_sum_of(struct exchange *exchange, void *values, size_t count, bool is_float)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;
	struct shared *shared = rank->shared;
	bool has_failed;

	pthread_mutex_lock(&shared->lock);
	assert(rank->ended == rank->begun);
	while ((shared->large_left || (is_float && shared->large_arrived < exchange->rank)) &&
	       !shared->is_aborted)
		pthread_cond_wait(&shared->changed, &shared->lock);
	if (!shared->large_arrived++) {
		shared->large = calloc(count + 1, 4);
		shared->large_count = count;
	}
	assert(shared->large_count == count);
	shared_add(shared->large, values, count, is_float);
	if (shared->large_arrived == shared->ranks)
		shared->large_left = shared->ranks;
	pthread_cond_broadcast(&shared->changed);
	while (!shared->large_left && !shared->is_aborted)
		pthread_cond_wait(&shared->changed, &shared->lock);
	has_failed = shared_has_failed(rank, 0);
	if (!has_failed)
		memcpy(values, shared->large, count * 4);
	if (!has_failed && !--shared->large_left) {
		free(shared->large);
		shared->large = NULL;
		shared->large_arrived = 0;
		pthread_cond_broadcast(&shared->changed);
	}
	pthread_mutex_unlock(&shared->lock);
	return has_failed ? -1 : 0;
}

static int shared_sum_all(struct exchange *exchange, int32_t *values, size_t count)
{
	return shared_sum_of(exchange, values, count, false);
}

static int shared_sum_float(struct exchange *exchange, float *values, size_t count)
{
	return shared_sum_of(exchange, values, count, true);
}

static void shared_abort(struct exchange *exchange)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;

	pthread_mutex_lock(&rank->shared->lock);
	rank->shared->is_aborted = true;
	pthread_cond_broadcast(&rank->shared->changed);
	pthread_mutex_unlock(&rank->shared->lock);
}

static void shared_close(struct exchange *exchange)
{
	struct shared_rank *rank = (struct shared_rank *)exchange;

	pthread_mutex_lock(&rank->shared->lock);
	assert(rank->shared->is_aborted || rank->shared->fail_from || rank->ended == rank->begun);
	pthread_mutex_unlock(&rank->shared->lock);
	free(rank);
}

static struct exchange *shared_open(struct shared *shared, uint32_t rank)
{
	static const struct exchange_ops ops = { shared_tune,  shared_begin,   shared_flush,
						 shared_end,   shared_sum_all, shared_sum_float,
						 shared_abort, shared_close };
	struct shared_rank *made = calloc(1, sizeof(*made));

	made->exchange = (struct exchange){ .ops = &ops,
					    .rank = rank,
					    .ranks = shared->ranks,
					    .depth = SHARED_DEPTH,
					    .lanes_max = SHARED_LANES,
					    .name = "shared" };
	made->shared = shared;
	return &made->exchange;
}

#endif
