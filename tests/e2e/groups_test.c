/* SPDX-License-Identifier: Apache-2.0 */
/* groups_test.c - many buffers as one operation: the bits of one vector, its packets, and one fingerprint. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

enum { TENSORS = 100, SIZE = 3 };

static uint32_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint32_t)(x >> 32);
}

/* From none to a few packets' worth, most of them small and odd. */
static size_t count_of(size_t tensor)
{
	static const size_t large[] = { 360, 361, 1080, 5000 };

	if (tensor % 10 == 9)
		return large[tensor / 10 % 4];
	return tensor % 7 ? 1 + mix(tensor) % 90 : tensor % 2;
}

static size_t count_all(void)
{
	size_t count = 0;

	for (size_t i = 0; i < TENSORS; i++)
		count += count_of(i);
	return count;
}

static float f32_of(uint32_t rank, size_t i)
{
	return (float)(int32_t)mix((uint64_t)rank << 40 ^ i) * (i % 3 ? 0x1p-31f : 0x1p-20f);
}

static int32_t i32_of(uint32_t rank, size_t i)
{
	return (int32_t)mix((uint64_t)rank << 40 ^ i) / SIZE;
}

struct vectors {
	size_t count;
	uint32_t *from, *whole, *to; /* the input, its sum as one vector, and the sum in pieces */
	struct tally_buffer buffers[TENSORS];
};

static void vectors_fill(struct vectors *v, uint32_t rank, int dtype)
{
	for (size_t i = 0; i < v->count; i++) {
		float x = f32_of(rank, i);
		int32_t y = i32_of(rank, i);

		memcpy(&v->from[i], dtype == TALLY_FLOAT32 ? (void *)&x : &y, 4);
	}
	memset(v->to, 0xee, v->count * 4);
}

static void vectors_make(struct vectors *v)
{
	size_t at = 0;

	v->count = count_all();
	v->from = calloc(v->count, 4);
	v->whole = calloc(v->count, 4);
	v->to = calloc(v->count, 4);
	CHECK(v->from && v->whole && v->to);
	for (size_t i = 0; i < TENSORS; i++) {
		v->buffers[i] = (struct tally_buffer){ v->from + at, v->to + at, count_of(i) };
		if (!count_of(i)) /* any pointers will do */
			v->buffers[i].send = v->buffers[i].recv = NULL;
		at += count_of(i);
	}
}

static void vectors_free(struct vectors *v)
{
	free(v->from);
	free(v->whole);
	free(v->to);
}

/* Sums made without tally: exact for int32; for float32 near enough to see that nothing is misplaced. */
static void whole_check(const struct vectors *v, int dtype)
{
	for (size_t i = 0; i < v->count; i++) {
		int64_t sum = 0;
		double near = 0, got;
		float x;

		for (uint32_t rank = 0; rank < SIZE; rank++) {
			sum += i32_of(rank, i);
			near += (double)f32_of(rank, i);
		}
		memcpy(&x, &v->whole[i], 4);
		got = (double)x;
		if (dtype == TALLY_INT32)
			CHECK((int32_t)v->whole[i] == sum);
		else
			CHECK(got - near < 0x1p-10 && near - got < 0x1p-10);
	}
}

static struct tally_stats stats_of(struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	return stats;
}

/* ---- the three ways ---- */

/* Bits are compared, also with what was summed before. */
static const struct tally_op_options *strict(void)
{
	static struct tally_op_options options = TALLY_OP_OPTIONS_INIT;

	options.flags = TALLY_OP_STRICT;
	return &options;
}

static void as_multi(struct tally_comm *comm, struct vectors *v, int dtype)
{
	struct tally_work *work;

	CHECK(tally_iallreduce_multi(v->buffers, TENSORS, dtype, TALLY_SUM, comm, strict(),
				     &work) == TALLY_OK);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
}

static void as_group(struct tally_comm *comm, struct vectors *v, int dtype)
{
	struct tally_work *works[TENSORS];
	int done;

	CHECK(tally_group_start() == TALLY_OK);
	for (size_t i = 0; i < TENSORS; i++) {
		CHECK(tally_group_start() == TALLY_OK);
		CHECK(tally_iallreduce(v->buffers[i].send, v->buffers[i].recv, count_of(i), dtype,
				       TALLY_SUM, comm, strict(), &works[i]) == TALLY_OK);
		CHECK(tally_test(&works[i], &done) == TALLY_OK);
		CHECK(!done && works[i]);
		CHECK(tally_group_end() == TALLY_OK);
	}
	CHECK(tally_group_end() == TALLY_OK);
	for (size_t i = TENSORS; i-- > 0;)
		CHECK(tally_wait(&works[i], -1) == TALLY_OK && !works[i]);
}

static void in_place(struct tally_comm *comm, struct vectors *v, int dtype)
{
	struct tally_buffer buffers[TENSORS];
	struct tally_work *work;

	memcpy(v->to, v->from, v->count * 4);
	for (size_t i = 0; i < TENSORS; i++) {
		buffers[i] = v->buffers[i];
		if (i % 3)
			buffers[i].send = buffers[i].recv;
	}
	CHECK(tally_iallreduce_multi(buffers, TENSORS, dtype, TALLY_SUM, comm, strict(), &work) ==
	      TALLY_OK);
	CHECK(tally_waitall(1, &work, -1) == TALLY_OK);
}

static void bits_body(struct ranks *ranks, uint32_t rank)
{
	static void (*const ways[])(struct tally_comm *, struct vectors *,
				    int) = { as_multi, as_group, in_place };
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct vectors v;

	vectors_make(&v);
	for (int dtype = TALLY_INT32; dtype <= TALLY_FLOAT32;
	     dtype += TALLY_FLOAT32 - TALLY_INT32) {
		struct tally_stats before, after;
		struct tally_work *work;

		vectors_fill(&v, rank, dtype);
		CHECK(tally_iallreduce(v.from, v.whole, v.count, dtype, TALLY_SUM, comm, strict(),
				       &work) == TALLY_OK);
		CHECK(tally_wait(&work, -1) == TALLY_OK);
		whole_check(&v, dtype);
		for (size_t way = 0; way < 3; way++) {
			vectors_fill(&v, rank, dtype);
			before = stats_of(comm);
			ways[way](comm, &v, dtype);
			after = stats_of(comm);
			CHECK(!memcmp(v.to, v.whole, v.count * 4));
			CHECK(after.operations - before.operations == 1);
			CHECK(after.elements - before.elements == v.count);
			CHECK(after.chunks_express + after.chunks_bulk - before.chunks_express -
				      before.chunks_bulk ==
			      (v.count + after.lanes - 1) / after.lanes);
		}
	}
	vectors_free(&v);
	ranks_leave(comm);
}

static void groups__give_the_bits_and_the_packets_of_one_vector(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = bits_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- handles ---- */

static void count_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	if (result == TALLY_OK)
		__atomic_fetch_add((uint32_t *)arg, 1, __ATOMIC_SEQ_CST);
}

/* Two types, two operations, two streams and barriers in one group: fused where they are alike. */
static void mixed_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_op_options bulk = TALLY_OP_OPTIONS_INIT;
	struct tally_work *works[40], *last;
	int32_t sums[40];
	float means[40];
	uint32_t done = 0;

	bulk.stream = TALLY_STREAM_BULK;
	CHECK(tally_group_start() == TALLY_OK);
	for (int32_t i = 0; i < 40; i++) {
		sums[i] = (int32_t)(rank + 1) * (i - 20);
		means[i] = (float)sums[i];
		if (i % 4 == 3)
			CHECK(tally_ibarrier(comm, NULL, &works[i]) == TALLY_OK);
		else if (i % 2)
			CHECK(tally_iallreduce(&means[i], &means[i], 1, TALLY_FLOAT32, TALLY_AVG,
					       comm, NULL, &works[i]) == TALLY_OK);
		else
			CHECK(tally_iallreduce(&sums[i], &sums[i], 1, TALLY_INT32, TALLY_SUM, comm,
					       i % 4 ? &bulk : NULL, &works[i]) == TALLY_OK);
		CHECK(tally_work_on_done(works[i], count_done, &done) == TALLY_OK);
		if (i % 5 == 0)
			tally_work_free(&works[i]);
	}
	CHECK(tally_iallreduce_multi(NULL, 0, TALLY_INT32, TALLY_SUM, comm, NULL, &last) ==
	      TALLY_OK);
	CHECK(tally_group_end() == TALLY_OK);
	CHECK(tally_waitall(40, works, -1) == TALLY_OK);
	CHECK(tally_wait(&last, -1) == TALLY_OK);
	CHECK(tally_barrier(comm) == TALLY_OK);
	for (int i = 0; i < 4000 && __atomic_load_n(&done, __ATOMIC_SEQ_CST) < 40; i++)
		usleep(1000);
	CHECK(__atomic_load_n(&done, __ATOMIC_SEQ_CST) == 40);
	for (int32_t i = 0; i < 40; i++) {
		CHECK(i % 2 || sums[i] == 6 * (i - 20));
		CHECK(i % 4 != 1 || means[i] == 2.0f * (float)(i - 20));
	}
	/* Sums express and bulk, means, ten barriers, and the last barrier. */
	CHECK(stats_of(comm).operations == 14);
	ranks_leave(comm);
}

static void groups__fuse_only_what_is_alike(void **state)
{
	struct ranks ranks = { .size = SIZE, .is_local = true, .body = mixed_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- fingerprints ---- */

static void split_body(struct ranks *ranks, uint32_t rank)
{
	const bool *is_group = ranks->arg;
	struct tally_comm *comm = ranks_join(ranks, rank);
	int32_t x[8] = { 0 };
	size_t first = rank == 1 ? 4 : 3;
	struct tally_buffer buffers[] = { { x, x, first }, { x + first, x + first, 8 - first } };
	struct tally_work *works[2] = { NULL, NULL };
	int result;

	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	if (*is_group) {
		CHECK(tally_group_start() == TALLY_OK);
		for (int i = 0; i < 2; i++)
			CHECK(tally_iallreduce(buffers[i].send, buffers[i].recv, buffers[i].count,
					       TALLY_INT32, TALLY_SUM, comm, NULL,
					       &works[i]) == TALLY_OK);
		result = tally_group_end();
	} else {
		result = tally_iallreduce_multi(buffers, 2, TALLY_INT32, TALLY_SUM, comm, NULL,
						&works[0]);
	}
	ranks_report(ranks, rank, comm, result ? result : tally_waitall(2, works, 20000));
	tally_comm_destroy(comm);
}

static void groups__another_split_is_a_mismatch(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		bool is_group = i;
		struct ranks ranks = { .size = SIZE, .body = split_body, .arg = &is_group };

		assert_true(ranks_run(&ranks));
		for (uint32_t rank = 0; rank < SIZE; rank++) {
			const struct ranks_report *report = &ranks.shared->report[rank];

			assert_int_equal(report->result, TALLY_ERR_MISMATCH);
			assert_non_null(strstr(report->text, "rank 1"));
			assert_non_null(strstr(report->text, "several buffers"));
		}
	}
}

/* ---- as halves ---- */

enum { HALF_BUFFERS = 40, HALF_COUNT = 5000 };

/* A packet has twice as many elements as lanes, and lies in several buffers. */
static void halves_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_buffer buffers[HALF_BUFFERS];
	struct tally_work *work;

	for (int i = 0; i < HALF_BUFFERS; i++) {
		float *x = calloc(HALF_COUNT, sizeof(*x));

		CHECK(x);
		for (int j = 0; j < HALF_COUNT; j++)
			x[j] = (float)(i + 1);
		buffers[i] = (struct tally_buffer){ x, x, HALF_COUNT };
	}
	options.flags = TALLY_OP_HALF;
	CHECK(tally_iallreduce_multi(buffers, HALF_BUFFERS, TALLY_FLOAT32, TALLY_SUM, comm,
				     &options, &work) == TALLY_OK);
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	for (int i = 0; i < HALF_BUFFERS; i++) {
		float *x = buffers[i].recv;

		for (int j = 0; j < HALF_COUNT; j++)
			CHECK(x[j] == (float)(2 * (i + 1)));
		free(x);
	}
	ranks_leave(comm);
}

static void groups__of_halves_fit_the_largest_packets(void **state)
{
	struct ranks ranks = { .size = 2, .lanes_max = 16368, .body = halves_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups__give_the_bits_and_the_packets_of_one_vector),
		cmocka_unit_test(groups__fuse_only_what_is_alike),
		cmocka_unit_test(groups__another_split_is_a_mismatch),
		cmocka_unit_test(groups__of_halves_fit_the_largest_packets),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-groups", tests, NULL, NULL);
}
