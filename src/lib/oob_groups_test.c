/* SPDX-License-Identifier: Apache-2.0 */
/* oob_groups_test.c - two groups of ranks, each with an allgather of its own, that take one job's name: as the rows of
 * one launch do. The ranks are threads of this process. */
#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/server.h"
#include "tally.h"

enum { LIMIT_S = 60, GROUPS = 2, SIZE = 2, SEATS = GROUPS * SIZE, RECORD_MAX = 4096 };

static struct group {
	pthread_barrier_t barrier;
	uint8_t records[SIZE][RECORD_MAX];
} groups[GROUPS];

struct seat {
	uint32_t group, rank;
	const char *aggregator;
	struct tally_comm *comm, *part;
	int result;
	int32_t sums[2]; /* of the whole, of the part */
};

static int allgather(const void *send, void *recv, size_t bytes, void *ctx)
{
	const struct seat *seat = ctx;
	struct group *group = &groups[seat->group];

	assert(bytes <= RECORD_MAX);
	memcpy(group->records[seat->rank], send, bytes);
	pthread_barrier_wait(&group->barrier);
	for (uint32_t rank = 0; rank < SIZE; rank++)
		memcpy((uint8_t *)recv + rank * bytes, group->records[rank], bytes);
	pthread_barrier_wait(&group->barrier);
	return 0;
}

static int32_t value_of(uint32_t group, uint32_t rank)
{
	return (group ? -1000 : 10) * (int32_t)(1 + 2 * rank);
}

static int32_t sum_of(uint32_t group)
{
	int32_t sum = 0;

	for (uint32_t rank = 0; rank < SIZE; rank++)
		sum += value_of(group, rank);
	return sum;
}

static void *seat_take(void *arg)
{
	struct seat *seat = arg;
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = seat->aggregator;
	options.init_timeout_s = 10;
	seat->result =
		tally_comm_init_oob(&seat->comm, SIZE, seat->rank, allgather, seat, &options);
	if (seat->result)
		print_message("group %u rank %u: %s\n", seat->group, seat->rank,
			      tally_get_last_error(NULL));
	return NULL;
}

static void *seat_sum(void *arg)
{
	struct seat *seat = arg;
	struct tally_comm *comms[2] = { seat->comm };

	seat->result = tally_comm_split(seat->comm, 0, 0, NULL, &seat->part);
	comms[1] = seat->part;
	for (uint32_t i = 0; i < 2 && !seat->result; i++) {
		seat->sums[i] = value_of(seat->group, seat->rank);
		seat->result = tally_allreduce(&seat->sums[i], &seat->sums[i], 1, TALLY_INT32,
					       TALLY_SUM, comms[i]);
	}
	return NULL;
}

static void *seat_leave(void *arg)
{
	struct seat *seat = arg;

	tally_comm_destroy(seat->part);
	tally_comm_destroy(seat->comm);
	return NULL;
}

static void all_do(struct seat *seats, void *(*what)(void *))
{
	pthread_t threads[SEATS];

	for (uint32_t i = 0; i < SEATS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, what, &seats[i]), 0);
	for (uint32_t i = 0; i < SEATS; i++)
		pthread_join(threads[i], NULL);
}

/* All are in at once: nobody leaves before each has what is its own. */
static void groups_check(const char *aggregator)
{
	struct seat seats[SEATS] = { 0 };

	for (uint32_t i = 0; i < GROUPS; i++)
		pthread_barrier_init(&groups[i].barrier, NULL, SIZE);
	for (uint32_t i = 0; i < SEATS; i++) {
		seats[i].group = i / SIZE;
		seats[i].rank = i % SIZE;
		seats[i].aggregator = aggregator;
	}
	all_do(seats, seat_take);
	for (uint32_t i = 0; i < SEATS; i++)
		assert_int_equal(seats[i].result, TALLY_OK);
	all_do(seats, seat_sum);
	for (uint32_t i = 0; i < SEATS; i++) {
		assert_int_equal(seats[i].result, TALLY_OK);
		assert_int_equal(seats[i].sums[0], sum_of(seats[i].group));
		assert_int_equal(seats[i].sums[1], sum_of(seats[i].group));
	}
	all_do(seats, seat_leave);
	for (uint32_t i = 0; i < GROUPS; i++)
		pthread_barrier_destroy(&groups[i].barrier);
}

static struct server *aggregator_open(void)
{
	const struct server_options options = {
		.listen = { .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 } },
	};
	struct server *server = NULL;

	assert_int_equal(server_open(&server, &options), 0);
	assert_int_equal(server_start(server), 0);
	return server;
}

static void groups__of_one_name_have_their_own_sums_at_one_aggregator(void **state)
{
	struct server *server = aggregator_open();
	char address[SERVER_TEXT_BYTES];

	(void)state;
	groups_check(server_address(server, address));
	server_close(server);
}

static void groups__of_one_name_have_their_own_sums_at_two_aggregators(void **state)
{
	struct server *servers[2] = { aggregator_open(), aggregator_open() };
	char addresses[2][SERVER_TEXT_BYTES], list[2 * SERVER_TEXT_BYTES];

	(void)state;
	snprintf(list, sizeof(list), "%s,%s", server_address(servers[0], addresses[0]),
		 server_address(servers[1], addresses[1]));
	groups_check(list);
	server_close(servers[0]);
	server_close(servers[1]);
}

static void groups__of_one_name_have_their_own_sums_in_local_mode(void **state)
{
	(void)state;
	groups_check("local");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups__of_one_name_have_their_own_sums_at_one_aggregator),
		cmocka_unit_test(groups__of_one_name_have_their_own_sums_at_two_aggregators),
		cmocka_unit_test(groups__of_one_name_have_their_own_sums_in_local_mode),
	};

	alarm(LIMIT_S);
	setenv("TALLY_JOB", "oob-groups", 1);
	return cmocka_run_group_tests_name("lib-oob-groups", tests, NULL, NULL);
}
