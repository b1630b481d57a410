/* SPDX-License-Identifier: Apache-2.0 */
/*
 * published_switchml.c - Algorithms 3 and 4 of "Scaling Distributed Machine Learning with In-Network
 * Aggregation", line by line.
 */
#include "sim/published.h"

#include <string.h>

static void vector_add(int32_t *sum, const int32_t *vector)
{
	for (uint32_t i = 0; i < PUBLISHED_LANES; i++)
		sum[i] = (int32_t)((uint32_t)sum[i] + (uint32_t)vector[i]);
}

/* --- Algorithm 3: the switch --- */

enum published_answer switchml_switch(struct published_switch *state, struct published_packet *p)
{
	bool *seen = &state->seen[p->ver][p->idx][p->wid];
	uint32_t *count = &state->count[p->ver][p->idx];
	int32_t *pool = state->pool[p->ver][p->idx];

	p->type = WIRE_RESULT;
	if (!*seen) { /* 5 */
		*seen = true;
		state->seen[(p->ver + 1) % 2][p->idx][p->wid] = false;
		*count = (*count + 1) % state->n; /* 8 */
		if (*count == 1)
			memcpy(pool, p->vector, sizeof(p->vector)); /* 10 */
		else
			vector_add(pool, p->vector); /* 12 */
		if (*count != 0)
			return PUBLISHED_DROP; /* 17 */
		memcpy(p->vector, pool, sizeof(p->vector));
		return PUBLISHED_MULTICAST; /* 15 */
	}
	if (*count != 0)
		return PUBLISHED_DROP; /* 23 */
	memcpy(p->vector, pool, sizeof(p->vector));
	return PUBLISHED_UNICAST; /* 21 */
}

/* --- Algorithm 4: the worker --- */

/* p.vector <- U[p.off : p.off + k] */
static void chunk_load(const struct published_worker *worker, struct published_packet *p)
{
	const int32_t *u = worker->op.source;
	uint64_t first = (uint64_t)p->off * p->lanes;

	memset(p->vector, 0, sizeof(p->vector));
	for (uint32_t i = 0; i < p->lanes && first + i < worker->op.count; i++)
		p->vector[i] = u[first + i];
}

/* A[p.off : p.off + k] <- p.vector */
static void chunk_store(struct published_worker *worker, const struct published_packet *p)
{
	int32_t *a = worker->op.destination;
	uint64_t first = (uint64_t)p->off * p->lanes;

	for (uint32_t i = 0; i < p->lanes && first + i < worker->op.count; i++)
		a[first + i] = p->vector[i];
	load_stored(worker->run->load, worker->w, worker->index, first, p->lanes, p->idx);
	if (worker->is_filled >> p->off & 1)
		return;
	worker->is_filled |= 1ull << p->off;
	worker->filled++;
	run_progress(worker->run);
}

void switchml_begin(struct published_worker *worker)
{
	for (uint16_t i = 0; i < worker->slots && i < worker->chunks; i++) { /* 1 */
		struct published_packet p = { .type = WIRE_UPDATE,
					      .wid = (uint16_t)worker->w,
					      .ver = 0, /* 3 */
					      .idx = i,
					      .off = i,
					      .lanes = worker->run->scenario->lanes };

		chunk_load(worker, &p);
		published_send(worker, &p);
		published_timer_start(worker, &p);
	}
}

void switchml_receive(struct published_worker *worker, const struct published_packet *received)
{
	struct published_packet p = *received;

	published_timer_cancel(worker, p.idx); /* 11 */
	if (p.off >= worker->chunks)
		return;          /* of a longer tensor: the paper would write beyond its end */
	chunk_store(worker, &p); /* 12 */
	p.off += worker->slots;
	if (p.off >= worker->chunks) /* 14 */
		return;
	p.type = WIRE_UPDATE;
	p.wid = (uint16_t)worker->w;
	p.ver ^= 1; /* 15 */
	chunk_load(worker, &p);
	published_send(worker, &p);
	published_timer_start(worker, &p);
}
