/* SPDX-License-Identifier: Apache-2.0 */
/* split_test.c - parts: who is in which, in which order, what they are called and what they have of their parent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/comm.h"
#include "lib/seats_fixture.h"

enum { LIMIT_S = 60 };

/* What each rank says, and gets. */
static struct {
	int color, key;
	struct tally_comm *part;
	int result;
} said[2];

static void *seat_split(void *arg)
{
	struct seat *seat = arg;

	said[seat->rank].part = NULL;
	said[seat->rank].result = tally_comm_split(seat->comm, said[seat->rank].color,
						   said[seat->rank].key, NULL,
						   &said[seat->rank].part);
	return NULL;
}

static void *part_leave(void *arg)
{
	tally_comm_destroy(said[((struct seat *)arg)->rank].part);
	return NULL;
}

static void split__orders_a_color_by_keys_and_then_by_ranks(void **state)
{
	static const struct {
		int color[2], key[2];
		uint32_t size[2], rank[2];
	} cases[] = {
		{ { 7, 7 }, { 5, -5 }, { 2, 2 }, { 1, 0 } },
		{ { 7, 7 }, { -5, 5 }, { 2, 2 }, { 0, 1 } },
		{ { 0, 0 }, { -3, -3 }, { 2, 2 }, { 0, 1 } },
		{ { INT32_MAX, INT32_MAX }, { INT32_MAX, INT32_MIN }, { 2, 2 }, { 1, 0 } },
		{ { 65536, 65536 }, { 65536, 65535 }, { 2, 2 }, { 1, 0 } },
		{ { 1, 65537 }, { 0, 0 }, { 1, 1 }, { 0, 0 } },
		{ { 2, -1 }, { 0, 0 }, { 1, 0 }, { 0, 0 } },
	};
	struct seat seats[2] = { 0 };

	(void)state;
	seats_open(seats, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint32_t rank = 0; rank < 2; rank++) {
			said[rank].color = cases[i].color[rank];
			said[rank].key = cases[i].key[rank];
		}
		seats_do(seats, 2, seat_split);
		for (uint32_t rank = 0; rank < 2; rank++) {
			char job[256];

			assert_int_equal(said[rank].result, TALLY_OK);
			if (!cases[i].size[rank]) {
				assert_null(said[rank].part);
				continue;
			}
			assert_int_equal(tally_comm_size(said[rank].part), cases[i].size[rank]);
			assert_int_equal(tally_comm_rank(said[rank].part), cases[i].rank[rank]);
			/* Each split is two operations: of the first it has its number. */
			snprintf(job, sizeof(job), "%s/%u.%d", seats[rank].job, 2 * (unsigned)i,
				 cases[i].color[rank]);
			assert_string_equal(said[rank].part->who.job, job);
			assert_true(said[rank].part->join_life == seats[rank].comm->life);
		}
		seats_do(seats, 2, part_leave);
	}
	seats_do(seats, 2, seat_leave);
}

static struct tally_comm *part_of(struct tally_comm *comm, const struct tally_options *options)
{
	struct tally_comm *part = NULL;

	assert_int_equal(tally_comm_split(comm, 3, 0, options, &part), TALLY_OK);
	assert_non_null(part);
	return part;
}

static int never(void *ctx)
{
	(void)ctx;
	return 0;
}

static int not_yet(void *ctx)
{
	(void)ctx;
	return 0;
}

static void split__of_which_nothing_is_said_has_what_its_parent_has(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct seat seat = { .deadline_ms = 70000 };
	struct tally_comm *part;
	int mine, its;

	(void)state;
	seats_open(&seat, 1);
	seat.comm->boot.local_size = 1;
	seat.comm->interrupted = never;
	seat.comm->interrupted_ctx = &its;
	strcpy(seat.comm->boot.warning, "said");
	part = part_of(seat.comm, NULL);
	assert_int_equal(part->boot.local_size, 1); /* all are on one host */
	assert_int_equal(part->boot.init_timeout_s, 20);
	assert_int_equal(part->boot.deadline_ms, 70000);
	assert_string_equal(part->boot.warning, "");
	assert_string_equal(part->boot.source, "tally_comm_split");
	assert_ptr_equal(part->interrupted, never);
	assert_ptr_equal(part->interrupted_ctx, &its);
	tally_comm_destroy(part);
	seat.comm->boot.local_size = 0; /* nobody knows */
	part = part_of(seat.comm, NULL);
	assert_int_equal(part->boot.local_size, 0);
	tally_comm_destroy(part);
	options.local_size = 1;
	options.init_timeout_s = 86400;
	options.deadline_ms = 80000;
	options.window_packets = 5;
	options.interrupted = not_yet;
	options.interrupted_ctx = &mine;
	part = part_of(seat.comm, &options);
	assert_int_equal(part->boot.local_size, 1);
	assert_int_equal(part->boot.init_timeout_s, 86400);
	assert_int_equal(part->boot.deadline_ms, 80000);
	assert_int_equal(part->boot.window_packets, 5);
	assert_int_equal(part->window_packets, 5);
	assert_ptr_equal(part->interrupted, not_yet);
	assert_ptr_equal(part->interrupted_ctx, &mine);
	tally_comm_destroy(part);
	tally_comm_destroy(seat.comm);
}

static void split__options_that_no_part_has_are_named(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *part = NULL;
	struct seat seat = { 0 };

	(void)state;
	seats_open(&seat, 1);
	options.init_timeout_s = 86401;
	assert_int_equal(tally_comm_split(seat.comm, 0, 0, &options, &part), TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(tally_get_last_error(NULL),
			       "tally_comm_split: options->init_timeout_s is above a day"));
	options.init_timeout_s = 0;
	options.key = "sesame";
	assert_int_equal(tally_comm_split(seat.comm, 0, 0, &options, &part), TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(tally_get_last_error(NULL),
			       "tally_comm_split: options->key: a part has its parent's"));
	assert_int_equal(tally_comm_split(seat.comm, 0, 0, NULL, NULL), TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(tally_get_last_error(NULL), "tally_comm_split: new_comm is NULL"));
	assert_null(part);
	assert_int_equal(seat.comm->next_number, 0); /* nothing has begun */
	tally_comm_destroy(seat.comm);
}

/* Of a name that has no room for more the part has the beginning, and a hash of all of it. */
static void split__of_a_long_name_has_a_name_of_its_own(void **state)
{
	char names[2][BOOTSTRAP_JOB_MAX + 1];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct seat seat = { 0 };
		struct tally_comm *part;
		char saved[sizeof(seat.comm->who.job)];

		seats_open(&seat, 1);
		strcpy(saved, seat.comm->who.job);
		memset(seat.comm->who.job, 'j', BOOTSTRAP_JOB_MAX);
		seat.comm->who.job[BOOTSTRAP_JOB_MAX - 1] = (char)('0' + i);
		seat.comm->who.job[BOOTSTRAP_JOB_MAX] = 0;
		part = part_of(seat.comm, NULL);
		strcpy(names[i], part->who.job);
		strcpy(seat.comm->who.job, saved);
		tally_comm_destroy(part);
		tally_comm_destroy(seat.comm);
		assert_int_equal(strlen(names[i]), BOOTSTRAP_JOB_MAX);
		assert_string_equal(names[i] + BOOTSTRAP_JOB_MAX - 4, "/0.3");
		assert_int_equal(strspn(names[i], "j"), BOOTSTRAP_JOB_MAX - 4 - 17);
		assert_int_equal(names[i][BOOTSTRAP_JOB_MAX - 4 - 17], '~');
		assert_int_equal(strspn(names[i] + BOOTSTRAP_JOB_MAX - 4 - 16, "0123456789abcdef"),
				 16);
	}
	assert_string_not_equal(names[0], names[1]);
}

/* As rank 1's half of a split into color 3, which then stays away from the part. */
static void colors_bring(struct tally_comm *comm)
{
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	int32_t all[8] = { [4] = 0, 3, 0xffff, 0xfff9 }; /* its key is -7 */
	struct tally_work *work;

	options.name = "tally_comm_split";
	assert_int_equal(tally_iallreduce(all, all, 8, TALLY_INT32, TALLY_SUM, comm, &options,
					  &work),
			 TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(all[1], 3);
}

static uint64_t completed(struct tally_comm *comm)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	assert_int_equal(tally_comm_get_stats(comm, &stats), TALLY_OK);
	return stats.operations;
}

static void split__of_an_aborted_parent_is_aborted_while_its_part_gathers(void **state)
{
	struct seat seats[2] = { 0 };
	pthread_t thread;

	(void)state;
	seats_open(seats, 2);
	said[0].color = 3;
	said[0].key = 5;
	assert_int_equal(pthread_create(&thread, NULL, seat_split, &seats[0]), 0);
	colors_bring(seats[1].comm);
	while (!completed(seats[0].comm)) /* from then on it waits for the part */
		usleep(1000);
	assert_int_equal(tally_comm_abort(seats[0].comm), TALLY_OK);
	pthread_join(thread, NULL);
	assert_int_equal(said[0].result, TALLY_ERR_ABORTED);
	assert_null(said[0].part);
	assert_int_equal(tally_barrier(seats[1].comm), TALLY_ERR_REMOTE);
	seats_do(seats, 2, seat_leave);
}

/* Which hosts the aggregator of both. */
static void split__of_a_parent_that_is_gone_has_its_aggregator(void **state)
{
	struct seat seat = { 0 };
	struct tally_comm *part;

	(void)state;
	seats_open(&seat, 1);
	part = part_of(seat.comm, NULL);
	assert_non_null(part->local);
	assert_ptr_equal(part->local, seat.comm->local);
	tally_comm_destroy(seat.comm);
	assert_int_equal(tally_barrier(part), TALLY_OK);
	tally_comm_destroy(part);
}

static void split__refuses_an_aggregator_of_its_own(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *part = NULL;
	struct seat seat = { 0 };

	(void)state;
	options.aggregator = "local";
	seats_open(&seat, 1);
	assert_int_equal(tally_comm_split(seat.comm, 0, 0, &options, &part), TALLY_ERR_ARGUMENT);
	assert_non_null(strstr(tally_get_last_error(NULL), "aggregator"));
	assert_null(part);
	assert_int_equal(tally_comm_split(seat.comm, 0, 0, NULL, NULL), TALLY_ERR_ARGUMENT);
	assert_int_equal(tally_barrier(seat.comm), TALLY_OK);
	tally_comm_destroy(seat.comm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split__orders_a_color_by_keys_and_then_by_ranks),
		cmocka_unit_test(split__of_which_nothing_is_said_has_what_its_parent_has),
		cmocka_unit_test(split__options_that_no_part_has_are_named),
		cmocka_unit_test(split__of_a_long_name_has_a_name_of_its_own),
		cmocka_unit_test(split__of_a_parent_that_is_gone_has_its_aggregator),
		cmocka_unit_test(split__of_an_aborted_parent_is_aborted_while_its_part_gathers),
		cmocka_unit_test(split__refuses_an_aggregator_of_its_own),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-split", tests, NULL, NULL);
}
