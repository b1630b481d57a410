/* SPDX-License-Identifier: Apache-2.0 */
/* feedback_test.c - tally_op_options.residual: it is what was lost, to the bit; and a training that needs it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "core/shared/splitmix.h"
#include "ranks.h"

enum { SIZE = 4 };

static uint64_t random_next(uint64_t *state)
{
	uint64_t x = splitmix64(*state);

	*state += 0x9e3779b97f4a7c15;
	return x;
}

static float random_unit(uint64_t *state) /* -1 to 1 */
{
	return (float)(random_next(state) >> 40) * 0x1p-23f - 1;
}

/* flags: from bit 16 on a scale, too */
static void sum(float *from, float *to, size_t count, int op, uint32_t flags, float *residual,
		struct tally_comm *comm)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;

	options.flags = flags & 0xff;
	options.scale = flags >> 16;
	options.residual = residual;
	CHECK(tally_iallreduce(from, to, count, TALLY_FLOAT32, op, comm, &options, &work) ==
	      TALLY_OK);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
}

/* ---- what it is ---- */

enum { COUNT = 5000, PIECES = 7 };

/* Ranks' elements are of many sizes. What was not lost of them, added up exactly, has to be the sum. */
struct vectors {
	float from[COUNT], kept[COUNT], to[COUNT], residual[COUNT + 1], sent[COUNT], exact[COUNT];
};

static void vectors_fill(struct vectors *v, uint32_t rank)
{
	uint64_t state = rank + 1;

	for (size_t i = 0; i < COUNT; i++)
		v->from[i] = ldexpf(random_unit(&state), -(int)(random_next(&state) % 24));
	memcpy(v->kept, v->from, sizeof(v->kept));
	memset(v->residual, 0xff, sizeof(v->residual));
}

static void vectors_check(struct vectors *v, size_t count, int op, bool is_lossy,
			  struct tally_comm *comm)
{
	size_t lost = 0;

	for (size_t i = 0; i < count; i++) {
		v->sent[i] = v->kept[i] - v->residual[i];
		lost += v->residual[i] != 0;
	}
	CHECK(is_lossy ? lost > count / 4 : !lost);
	sum(v->sent, v->exact, count, op, TALLY_OP_EXACT, NULL, comm);
	CHECK(!memcmp(v->exact, v->to, count * sizeof(float)));
}

static void lost_body(struct ranks *ranks, uint32_t rank)
{
	static const struct {
		int op;
		uint32_t flags;
		size_t count;
		bool is_lossy;
	} ways[] = { { TALLY_SUM, TALLY_OP_HALF, COUNT, true },
		     { TALLY_AVG, TALLY_OP_HALF, COUNT, true },
		     { TALLY_SUM, 0, COUNT, true },
		     { TALLY_AVG, 0, COUNT - 1, true },
		     { TALLY_AVG, 50000u << 16, COUNT, true }, /* a scale */
		     { TALLY_SUM, TALLY_OP_EXACT, COUNT, false },
		     { TALLY_SUM, TALLY_OP_HALF, 7, false } };
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct vectors *v = calloc(1, sizeof(*v));

	CHECK(v);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		vectors_fill(v, rank);
		sum(v->from, v->to, ways[i].count, ways[i].op, ways[i].flags, v->residual, comm);
		vectors_check(v, ways[i].count, ways[i].op, ways[i].is_lossy, comm);
		CHECK(isnan(v->residual[ways[i].count])); /* and nothing behind it */
		vectors_fill(v, rank);
		sum(v->from, v->from, ways[i].count, ways[i].op, ways[i].flags, v->residual, comm);
		memcpy(v->to, v->from, sizeof(v->to));
		vectors_check(v, ways[i].count, ways[i].op, ways[i].is_lossy, comm);
	}
	free(v);
	ranks_leave(comm);
}

static void feedback__is_what_was_lost_to_the_bit(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = lost_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void pieces_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct vectors *v = calloc(1, sizeof(*v));
	struct tally_buffer buffers[PIECES];
	struct tally_work *work;
	size_t at = 0;

	CHECK(v);
	vectors_fill(v, rank);
	for (size_t i = 0; i < PIECES; i++) {
		size_t count = i < PIECES - 1 ? 100 * i : COUNT - at;

		buffers[i] = (struct tally_buffer){ v->from + at, v->to + at, count };
		at += count;
	}
	v->from[500] = rank ? 1 : (float)INFINITY;
	v->from[501] = rank ? (float)NAN : 1;
	options.flags = TALLY_OP_HALF;
	options.residual = v->residual;
	CHECK(tally_iallreduce_multi(buffers, PIECES, TALLY_FLOAT32, TALLY_SUM, comm, &options,
				     &work) == TALLY_OK);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	CHECK(isinf(v->to[500]) && isnan(v->to[501]));
	CHECK(rank || v->residual[500] == 0);
	CHECK(!rank || v->residual[501] == 0);
	/* These two are sums of 1 and nothing, or of nothing and ones. */
	v->kept[500] = v->residual[500] = v->kept[501] = v->residual[501] = 0;
	v->to[500] = v->to[501] = 0;
	vectors_check(v, COUNT, TALLY_SUM, true, comm);
	free(v);
	ranks_leave(comm);
}

static void feedback__is_of_all_buffers_and_not_of_infinities(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = pieces_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- what it is not for ---- */

static void refused(int result, int wanted, const char *words)
{
	CHECK(result == wanted);
	CHECK(strstr(tally_get_last_error(NULL), words));
}

static void refused_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	float memory[64] = { 0 }, *x = memory + 16, *y = memory + 32, *rest = memory + 48;
	float kept = 5;
	struct tally_buffer buffers[2] = { { x, y, 4 }, { x + 4, y + 4, 4 } };
	struct tally_work *work;

	options.residual = rest;
	refused(tally_iallreduce(x, y, 8, TALLY_INT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_UNSUPPORTED, "options->residual is for sum and avg of float32");
	refused(tally_iallreduce(x, y, 8, TALLY_FLOAT32, TALLY_MAX, comm, &options, &work),
		TALLY_ERR_UNSUPPORTED, "options->residual is for sum and avg of float32");
	refused(tally_ireduce(x, y, 8, TALLY_FLOAT32, TALLY_SUM, 0, comm, &options, &work),
		TALLY_ERR_UNSUPPORTED, "options->residual is for sum and avg of float32");
	CHECK(tally_group_start() == TALLY_OK);
	refused(tally_iallreduce(x, y, 8, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_UNSUPPORTED, "options->residual in a group");
	CHECK(tally_group_end() == TALLY_OK);
	options.residual = x + 7;
	refused(tally_iallreduce(x, y, 8, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "overlaps a buffer");
	options.residual = y + 7;
	refused(tally_iallreduce_multi(buffers, 2, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "overlaps a buffer");
	options.residual = y - 4; /* as long as both */
	refused(tally_iallreduce_multi(buffers, 2, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "overlaps a buffer");
	options.residual = (float *)(void *)((char *)rest + 2);
	refused(tally_iallreduce(x, y, 7, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work),
		TALLY_ERR_ARGUMENT, "is not aligned");
	options.residual = &kept; /* a caller of an older header, whose struct ends before it */
	options.size = offsetof(struct tally_op_options, reduce);
	CHECK(tally_iallreduce(x, y, 8, TALLY_FLOAT32, TALLY_SUM, comm, &options, &work) ==
	      TALLY_OK);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	CHECK(kept == 5);
	ranks_leave(comm);
}

static void feedback__is_refused_where_it_means_nothing(void **state)
{
	struct ranks ranks = { .size = 2, .body = refused_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- a training that needs it ----
 *
 * A linear model of columns in different units: every other one is 2^16 times smaller, and says as much. Steps are of each
 * column's own size, so float32 learns all alike. But the gradients of the small columns lie in the same packets as the
 * large ones', which do not become small: what the small columns have not learnt yet is their noise. */

enum { COLUMNS = 80, SHARE = 64, STEPS = 60 };
static const float rate = 0.4f, small_unit = 0x1p-16f;

static float unit_of(int column)
{
	return column % 2 ? small_unit : 1;
}

static void gradients_make(const float *model, const float *truth, uint64_t state, float *gradients)
{
	memset(gradients, 0, COLUMNS * sizeof(float));
	for (int sample = 0; sample < SHARE; sample++) {
		float x[COLUMNS], off = 0;

		for (int i = 0; i < COLUMNS; i++) {
			x[i] = random_unit(&state) * unit_of(i);
			off += x[i] * (model[i] - truth[i]);
		}
		for (int i = 0; i < COLUMNS; i++)
			gradients[i] += off * x[i] / SHARE;
	}
}

/* The part of the loss that is left. */
static double train(struct tally_comm *comm, uint32_t flags, bool has_feedback)
{
	float model[COLUMNS] = { 0 }, truth[COLUMNS], gradients[COLUMNS], residual[COLUMNS] = { 0 };
	double first = 0, left = 0;
	uint64_t state = 1;

	for (int i = 0; i < COLUMNS; i++)
		truth[i] = random_unit(&state) / unit_of(i);
	for (uint64_t step = 0; step < STEPS; step++) {
		gradients_make(model, truth, step * SIZE + tally_comm_rank(comm), gradients);
		for (int i = 0; i < COLUMNS && has_feedback; i++)
			gradients[i] += residual[i];
		sum(gradients, gradients, COLUMNS, TALLY_AVG, flags, has_feedback ? residual : NULL,
		    comm);
		for (int i = 0; i < COLUMNS; i++)
			model[i] -= rate * gradients[i] / (unit_of(i) * unit_of(i));
	}
	for (int i = 0; i < COLUMNS; i++) {
		double was = (double)(truth[i] * unit_of(i));
		double off = (double)((truth[i] - model[i]) * unit_of(i));

		first += was * was;
		left += off * off;
	}
	return left / first;
}

static void training_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	double whole = train(comm, 0, false), half = train(comm, TALLY_OP_HALF, false);
	double feedback = train(comm, TALLY_OP_HALF, true);

	if (rank == 0)
		printf("loss that is left: float32 %.2g, TALLY_OP_HALF %.2g, with feedback %.2g\n",
		       whole, half, feedback);
	CHECK(whole < 0.001);
	CHECK(half > 0.4);
	CHECK(feedback < 0.001);
	ranks_leave(comm);
}

static void feedback__is_needed_where_small_gradients_count(void **state)
{
	struct ranks ranks = { .size = SIZE, .limit_s = 150, .body = training_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feedback__is_what_was_lost_to_the_bit),
		cmocka_unit_test(feedback__is_of_all_buffers_and_not_of_infinities),
		cmocka_unit_test(feedback__is_refused_where_it_means_nothing),
		cmocka_unit_test(feedback__is_needed_where_small_gradients_count),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-feedback", tests, NULL, NULL);
}
