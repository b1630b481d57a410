/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_latency_fixture.h - for tests: operations of latency mode whose sums are known. Included once in a program. */
#ifndef DATAPLANE_ENDPOINT_LATENCY_FIXTURE_H
#define DATAPLANE_ENDPOINT_LATENCY_FIXTURE_H

#include "dataplane/endpoint_fixture.h"

/* S and P: self-acknowledging, at the edge, acknowledged, one slot. */
static const struct {
	uint32_t slots, window;
} forms[] = { { 24, 8 }, { 8, 4 }, { 2, 1 }, { 7, 4 }, { 5, 5 }, { 1, 1 } };

enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

enum { OPS = 60 };

struct calls {
	int32_t in[OPS][LANES], out[OPS][LANES];
	bool is_range[OPS];
	uint64_t first_ns[OPS];
};
static struct calls calls[WORKERS_MAX];

/* Of both signs, different on all ranks. */
static int32_t value_of(uint32_t worker, uint32_t op, uint32_t i)
{
	int32_t value = (int32_t)((worker + 1) * 1000003 + op * 7919 + i * 131);

	return (worker + op + i) % 2 ? -value : value;
}

static uint32_t count_of(uint32_t op)
{
	return op % (LANES + 1); /* 0: a barrier */
}

static bool is_avg(uint32_t op)
{
	return op % 5 == 4;
}

static struct endpoint_op call_of(uint32_t worker, uint32_t op)
{
	struct calls *of = &calls[worker];
	struct endpoint_op call = op_of_type(LANES_INT32, op, of->in[op], count_of(op));

	for (uint32_t i = 0; i < LANES; i++) {
		of->in[op][i] = value_of(worker, op, i);
		of->out[op][i] = -1;
	}
	if (op % 2)
		call.destination = of->out[op];
	call.op = is_avg(op) ? LANES_AVG : LANES_SUM;
	call.is_out_of_range = &of->is_range[op];
	call.first_ns = &of->first_ns[op];
	of->is_range[op] = false;
	of->first_ns[op] = 0;
	return call;
}

static void submit_all(struct net *net, uint32_t first, uint32_t count)
{
	for (uint32_t op = first; op < first + count; op++)
		for (uint32_t w = 0; w < net->workers; w++) {
			struct endpoint_op call = call_of(w, op);

			assert_int_equal(endpoint_submit(net->endpoints[w], &call), 0);
		}
}

static bool is_summed(const struct net *net, uint32_t worker, uint32_t op)
{
	const int32_t *at = op % 2 ? calls[worker].out[op] : calls[worker].in[op];

	for (uint32_t i = 0; i < LANES; i++) {
		int64_t sum = 0;

		for (uint32_t w = 0; w < net->workers; w++)
			sum += value_of(w, op, i);
		if (is_avg(op))
			sum /= net->workers;
		if (i >= count_of(op)) /* what lies behind is nobody's */
			sum = op % 2 ? -1 : value_of(worker, op, i);
		if (at[i] != sum)
			return false;
	}
	return true;
}

static void assert_summed(const struct net *net, uint32_t first, uint32_t count)
{
	for (uint32_t op = first; op < first + count; op++)
		for (uint32_t w = 0; w < net->workers; w++)
			assert_true(is_summed(net, w, op));
}

static struct endpoint_stats stats_of(const struct net *net, uint32_t worker)
{
	struct endpoint_stats stats;

	endpoint_stats(net->endpoints[worker], &stats);
	return stats;
}

#endif
