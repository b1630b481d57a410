/* SPDX-License-Identifier: Apache-2.0 */
/* pairs_test.c - send and receive: the bytes, their order, and what goes wrong between two ranks. R-CT-58. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZE = 3, MANY = 20, LARGEST = 65537 };

static const size_t counts[] = { 0, 1, 5, 359, 360, 361, LARGEST };
enum { COUNTS = sizeof(counts) / sizeof(*counts) };

/* Byte i of what `from` sends to `to` as its number-th. */
static uint8_t byte_of(uint32_t from, uint32_t to, uint32_t number, size_t i)
{
	uint64_t x = (uint64_t)from << 56 ^ (uint64_t)to << 48 ^ (uint64_t)number << 32 ^ i;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint8_t)(x >> 56);
}

static void fill(uint8_t *at, size_t bytes, uint32_t from, uint32_t to, uint32_t number)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = byte_of(from, to, number, i);
}

static bool is_right(const uint8_t *at, size_t bytes, uint32_t from, uint32_t to, uint32_t number)
{
	size_t i = 0;

	while (i < bytes && at[i] == byte_of(from, to, number, i))
		i++;
	return i == bytes;
}

/* ---- what is received ---- */

static size_t bytes_of(int dtype)
{
	return dtype == TALLY_INT8         ? 1
	       : dtype == TALLY_FLOAT16    ? 2
	       : dtype == TALLY_COMPLEX128 ? 16
					   : 4;
}

/* Everybody to everybody, all at once: a rank's own number says in which order it calls. */
static void all_to_all(struct tally_comm *comm, int dtype, size_t count, bool is_grouped)
{
	uint32_t size = tally_comm_size(comm), rank = tally_comm_rank(comm);
	size_t bytes = count * bytes_of(dtype);
	struct tally_work *works[2 * RANKS_MAX] = { NULL };
	uint8_t *out[RANKS_MAX] = { NULL }, *in[RANKS_MAX] = { NULL };

	if (is_grouped)
		CHECK(tally_group_start() == TALLY_OK);
	for (uint32_t k = 1; k < size; k++) {
		uint32_t peer = (rank % 2 ? rank + k : rank + size - k) % size;

		CHECK((out[peer] = malloc(bytes + 1)) && (in[peer] = calloc(1, bytes + 1)));
		fill(out[peer], bytes, rank, peer, 7);
		CHECK(!tally_isend(out[peer], count, dtype, peer, comm, NULL, &works[2 * peer]));
		CHECK(!tally_irecv(in[peer], count, dtype, peer, comm, NULL, &works[2 * peer + 1]));
	}
	if (is_grouped)
		CHECK(tally_group_end() == TALLY_OK);
	CHECK(tally_waitall(2 * size, works, -1) == TALLY_OK);
	for (uint32_t peer = 0; peer < size; peer++) {
		if (peer != rank)
			CHECK(is_right(in[peer], bytes, peer, rank, 7) && !in[peer][bytes]);
		free(out[peer]);
		free(in[peer]);
	}
}

static void values_body(struct ranks *ranks, uint32_t rank)
{
	static const int dtypes[] = { TALLY_INT8, TALLY_FLOAT16, TALLY_FLOAT32, TALLY_COMPLEX128 };
	struct tally_comm *comm = ranks_join(ranks, rank), *part = NULL;

	for (int i = 0; i < COUNTS; i++)
		for (int d = 0; d < 4; d++)
			all_to_all(comm, dtypes[d], counts[i], (i + d) % 2);
	CHECK(!tally_comm_split(comm, (int)rank % 2, -(int)rank, NULL, &part));
	all_to_all(part, TALLY_FLOAT32, 1000, false);
	ranks_leave(part);
	CHECK(ranks_sum(comm, 3) == TALLY_OK);
	ranks_leave(comm);
}

static void values__all_ranks_receive_what_was_sent_to_them(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= 5; size++) {
		struct ranks ranks = { .size = size, .is_local = size % 2, .body = values_body };

		assert_true(ranks_run(&ranks));
	}
	struct ranks ranks = { .size = 3, .aggregators = 2, .body = values_body };

	assert_true(ranks_run(&ranks));
}

/* Blocking, around a ring: rank 0 begins. The sum beside it has nothing to do with it. */
static void ring_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	uint32_t next = (rank + 1) % SIZE, before = (rank + SIZE - 1) % SIZE;
	uint8_t token[1000];

	for (uint32_t turn = 0; turn < MANY; turn++) {
		fill(token, sizeof(token), 0, 0, turn);
		if (rank == 0)
			CHECK(!tally_send(token, sizeof(token), TALLY_UINT8, next, comm));
		memset(token, 0, sizeof(token));
		CHECK(!tally_recv(token, sizeof(token), TALLY_UINT8, before, comm));
		CHECK(is_right(token, sizeof(token), 0, 0, turn));
		if (rank)
			CHECK(!tally_send(token, sizeof(token), TALLY_UINT8, next, comm));
		if (turn % 5 == 0)
			CHECK(ranks_sum(comm, turn) == TALLY_OK);
	}
	ranks_leave(comm);
}

static void values__a_token_goes_round(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = ring_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void note_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	*(volatile int *)arg += result == TALLY_OK;
}

/* Rank 0 sends many before rank 1 has called at all, and does not wait for each. */
static void order_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *works[MANY] = { NULL };
	static uint8_t data[MANY][500];
	volatile int done = 0;

	for (uint32_t i = 0; rank == 0 && i < MANY; i++) {
		fill(data[i], i * 20, 0, 1, i);
		CHECK(!tally_isend(data[i], i * 20, TALLY_INT8, 1, comm, NULL, &works[i]));
		CHECK(!tally_work_on_done(works[i], note_done, (void *)&done));
	}
	ranks_meet(ranks);
	usleep(20000);
	for (uint32_t i = 0; rank == 1 && i < MANY; i++) {
		CHECK(!tally_recv(data[i], i * 20, TALLY_INT8, 0, comm));
		CHECK(is_right(data[i], i * 20, 0, 1, i));
	}
	CHECK(tally_waitall(MANY, works, -1) == TALLY_OK);
	CHECK(done == (rank ? 0 : MANY));
	ranks_leave(comm);
}

static void order__is_that_of_the_sends(void **state)
{
	struct ranks ranks = { .size = 2, .body = order_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* Nobody waits: finalize does. */
static void finalize_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_work *work = NULL;
	static uint8_t data[LARGEST];

	if (rank == 0) {
		fill(data, LARGEST, 0, 1, 5);
		CHECK(!tally_isend(data, LARGEST, TALLY_INT8, 1, comm, NULL, &work));
	} else {
		usleep(100000);
		CHECK(!tally_irecv(data, LARGEST, TALLY_INT8, 0, comm, NULL, &work));
	}
	CHECK(tally_comm_finalize(comm) == TALLY_OK);
	CHECK(is_right(data, LARGEST, 0, 1, 5));
	CHECK(!tally_comm_get_stats(comm, &stats) && stats.operations == 1);
	CHECK(stats.elements == LARGEST && (rank || stats.bytes_out > LARGEST));
	CHECK(tally_wait(&work, -1) == TALLY_OK);
	tally_comm_destroy(comm);
}

static void finalize__waits_for_sends_and_receives(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = finalize_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static int is_interrupted(void *ctx)
{
	return *(int *)ctx;
}

static void interrupt_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm;
	int flag = 0;
	uint8_t data[100] = { 0 };

	options.interrupted = is_interrupted;
	options.interrupted_ctx = &flag;
	CHECK(!tally_comm_init(&comm, ranks->job, ranks->size, rank, &options));
	flag = 1;
	if (rank == 1)
		CHECK(tally_recv(data, 100, TALLY_UINT8, 0, comm) == TALLY_INTERRUPTED);
	flag = 0;
	ranks_meet(ranks);
	fill(data, rank ? 0 : 100, 0, 1, 1);
	CHECK(!(rank ? tally_recv(data, 100, TALLY_UINT8, 0, comm)
		     : tally_send(data, 100, TALLY_UINT8, 1, comm)));
	CHECK(is_right(data, 100, 0, 1, 1));
	ranks_leave(comm);
}

static void interrupted__a_receive_is_called_again(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = interrupt_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values__all_ranks_receive_what_was_sent_to_them),
		cmocka_unit_test(values__a_token_goes_round),
		cmocka_unit_test(order__is_that_of_the_sends),
		cmocka_unit_test(finalize__waits_for_sends_and_receives),
		cmocka_unit_test(interrupted__a_receive_is_called_again),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-pairs", tests, NULL, NULL);
}
