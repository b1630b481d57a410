/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seats_fixture.h - for tests: the ranks of one job, in local mode, as threads of this process.
 * Included once in a program.
 */
#ifndef LIB_SEATS_FIXTURE_H
#define LIB_SEATS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tally.h"

struct seat {
	char job[64];
	uint32_t rank, size, deadline_ms;
	struct tally_comm *comm;
};

static void *seat_take(void *arg)
{
	struct seat *seat = arg;
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = "local";
	options.init_timeout_s = 20;
	options.deadline_ms = seat->deadline_ms;
	if (tally_comm_init(&seat->comm, seat->job, seat->size, seat->rank, &options))
		seat->comm = NULL;
	return NULL;
}

static void *seat_leave(void *arg)
{
	tally_comm_destroy(((struct seat *)arg)->comm);
	return NULL;
}

/* What is collective is done in a thread for each rank. */
static void seats_do(struct seat *seats, uint32_t size, void *(*what)(void *))
{
	pthread_t threads[3];

	assert_true(size <= 3);
	for (uint32_t i = 0; i < size; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, what, &seats[i]), 0);
	for (uint32_t i = 0; i < size; i++)
		pthread_join(threads[i], NULL);
}

/* A job of its own. */
static void seats_open(struct seat *seats, uint32_t size)
{
	static unsigned made;

	made++;
	for (uint32_t i = 0; i < size; i++) {
		snprintf(seats[i].job, sizeof(seats[i].job), "seats-%ld-%u", (long)getpid(), made);
		seats[i].rank = i;
		seats[i].size = size;
	}
	seats_do(seats, size, seat_take);
	for (uint32_t i = 0; i < size; i++)
		assert_non_null(seats[i].comm);
}

#endif
