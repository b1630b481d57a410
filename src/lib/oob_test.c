/* SPDX-License-Identifier: Apache-2.0 */
/* oob_test.c - tally_comm_init_oob and tally_comm_split: the ranks are threads of this process, which have
 * an allgather of their own. */
#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tally.h"

enum { LIMIT_S = 100, SIZE = 4, RECORD_MAX = 4096 };

/* What the threads share. */
static struct {
	pthread_barrier_t barrier;
	uint8_t records[SIZE][RECORD_MAX];
	void (*tamper)(uint8_t *all, size_t bytes); /* with what everybody gets */
	bool is_of_one;                             /* with what rank 2 alone gets, in one call */
	uint32_t tamper_idx;                        /* from this of its calls on */
	uint32_t calls[SIZE];
	int fails[SIZE];    /* what a rank's callback returns */
	uint32_t fails_idx; /* in this of its calls */
	bool is_slow;
} meeting;

struct seat {
	uint32_t rank;
	struct tally_options options;
	struct tally_comm *comm;
	int result;
	char text[600];
	bool is_without_comm;
	bool is_good;
};

static bool is_tampered(uint32_t rank)
{
	if (!meeting.is_of_one)
		return meeting.calls[rank] >= meeting.tamper_idx;
	return rank == 2 && meeting.calls[rank] == meeting.tamper_idx;
}

static int allgather(const void *send, void *recv, size_t bytes, void *ctx)
{
	struct seat *seat = ctx;

	assert(bytes <= RECORD_MAX);
	memcpy(meeting.records[seat->rank], send, bytes);
	if (meeting.is_slow && seat->rank == 3 && !meeting.calls[3])
		sleep(6);
	pthread_barrier_wait(&meeting.barrier);
	for (uint32_t rank = 0; rank < SIZE; rank++)
		memcpy((uint8_t *)recv + rank * bytes, meeting.records[rank], bytes);
	if (meeting.tamper && is_tampered(seat->rank))
		meeting.tamper(recv, bytes);
	pthread_barrier_wait(&meeting.barrier);
	return meeting.calls[seat->rank]++ == meeting.fails_idx ? meeting.fails[seat->rank] : 0;
}

static void *seat_take(void *arg)
{
	struct seat *seat = arg;

	seat->result = tally_comm_init_oob(seat->is_without_comm ? NULL : &seat->comm, SIZE,
					   seat->rank, allgather, seat, &seat->options);
	snprintf(seat->text, sizeof(seat->text), "%s", tally_get_last_error(NULL));
	return NULL;
}

static void *seat_leave(void *arg)
{
	tally_comm_destroy(((struct seat *)arg)->comm);
	return NULL;
}

static void all_do(struct seat *seats, void *(*what)(void *))
{
	pthread_t threads[SIZE];

	pthread_barrier_init(&meeting.barrier, NULL, SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, what, &seats[i]), 0);
	for (uint32_t i = 0; i < SIZE; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&meeting.barrier);
}

static void seats_init(struct seat *seats)
{
	memset(&meeting, 0, sizeof(meeting));
	for (uint32_t i = 0; i < SIZE; i++) {
		seats[i] = (struct seat){ .rank = i, .options = TALLY_OPTIONS_INIT };
		seats[i].options.init_timeout_s = 20;
	}
}

/* All have this result, and a text with this word. */
static void all_said(const struct seat *seats, int result, const char *word)
{
	for (uint32_t i = 0; i < SIZE; i++)
		if (seats[i].result != result || !strstr(seats[i].text, word))
			fail_msg("rank %u: %s, not %s: \"%s\" should say %s", i,
				 tally_strerror(seats[i].result), tally_strerror(result),
				 seats[i].text, word);
}

static void *sum_check(void *arg)
{
	struct seat *seat = arg;
	int32_t x[3] = { (int32_t)seat->rank, -7, 1 << seat->rank };

	seat->result = tally_allreduce(x, x, 3, TALLY_INT32, TALLY_SUM, seat->comm);
	seat->is_good = x[0] == 6 && x[1] == -28 && x[2] == 15;
	return NULL;
}

static void oob__ranks_of_one_host_need_no_aggregator_nor_a_name(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	seats[1].options.aggregator = "192.0.2.1:7"; /* rank 0's counts, which has none */
	all_do(seats, seat_take);
	all_said(seats, TALLY_OK, "");
	all_do(seats, sum_check);
	for (uint32_t i = 0; i < SIZE; i++)
		assert_true(seats[i].result == TALLY_OK && seats[i].is_good);
	all_do(seats, seat_leave);
}

static void oob__rank_0s_aggregator_is_every_ranks(void **state)
{
	char job[201]; /* the longest name */
	struct seat seats[SIZE];

	(void)state;
	memset(job, 'j', sizeof(job) - 1);
	job[sizeof(job) - 1] = '\0';
	setenv("TALLY_JOB", job, 1);
	seats_init(seats);
	seats[0].options.aggregator = "127.0.0.1:1"; /* nobody is there */
	seats[1].options.aggregator = "192.0.2.1:7";
	for (uint32_t i = 0; i < SIZE; i++)
		seats[i].options.init_timeout_s = 1;
	all_do(seats, seat_take);
	unsetenv("TALLY_JOB");
	for (uint32_t i = 0; i < SIZE; i++) {
		assert_int_not_equal(seats[i].result, TALLY_OK);
		if (!strstr(seats[i].text, "127.0.0.1:1") || !strstr(seats[i].text, job))
			fail_msg("rank %u: %s", i, seats[i].text);
	}
}

/* It is rank 0's alone that counts, and another that all can have is made. */
static void oob__a_name_that_is_too_long_is_none(void **state)
{
	char job[202];
	struct seat seats[SIZE];

	(void)state;
	memset(job, 'j', sizeof(job) - 1);
	job[sizeof(job) - 1] = '\0';
	setenv("TALLY_JOB", job, 1);
	seats_init(seats);
	seats[0].options.aggregator = "127.0.0.1:1"; /* nobody is there */
	for (uint32_t i = 0; i < SIZE; i++)
		seats[i].options.init_timeout_s = 1;
	all_do(seats, seat_take);
	unsetenv("TALLY_JOB");
	for (uint32_t i = 0; i < SIZE; i++) {
		assert_int_not_equal(seats[i].result, TALLY_OK);
		if (!strstr(seats[i].text, "127.0.0.1:1") || !strstr(seats[i].text, "oob-") ||
		    strstr(seats[i].text, "jjj"))
			fail_msg("rank %u: %s", i, seats[i].text);
	}
}

static void oob__what_one_rank_finds_wrong_is_every_ranks_error(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	seats[2].options.init_timeout_s = 100000;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "rank 2 on ");
	all_said(seats, TALLY_ERR_ARGUMENT, "init_timeout_s 100000");
}

static void oob__a_wrong_argument_of_one_rank_is_every_ranks_error(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	seats[1].options.size = 7;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "rank 1 on ");
	all_said(seats, TALLY_ERR_ARGUMENT, ": options->size is 7");
	seats_init(seats);
	seats[3].is_without_comm = true;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "rank 3 on ");
	all_said(seats, TALLY_ERR_ARGUMENT, ": comm is NULL");
}

static void swap_two(uint8_t *all, size_t bytes)
{
	uint8_t one[RECORD_MAX];

	memcpy(one, all + bytes, bytes);
	memcpy(all + bytes, all + 3 * bytes, bytes);
	memcpy(all + 3 * bytes, one, bytes);
}

static void forget_one(uint8_t *all, size_t bytes)
{
	memset(all + 2 * bytes, 0, bytes);
}

static void move_one(uint8_t *all, size_t bytes)
{
	char host[65] = "";
	uint8_t *at;

	gethostname(host, sizeof(host) - 1);
	at = memmem(all + bytes, bytes, host, strlen(host) + 1);
	assert(at);
	*at ^= 1;
}

static void oob__records_that_are_not_what_they_should_be_are_refused(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	meeting.tamper = swap_two;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "record of rank 3 of 4");
	meeting.tamper = forget_one;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "gave for rank 2");
	meeting.tamper = move_one;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "not all ranks are on one host");
	all_said(seats, TALLY_ERR_ARGUMENT, "TALLY_AGGREGATOR");
	all_said(seats, TALLY_ERR_ARGUMENT, "no aggregator, and not all");
	seats[0].options.aggregator = "local";
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT,
		 "the aggregator is local, and not all ranks are on one");
}

static void give_garbage(uint8_t *all, size_t bytes)
{
	memset(all, 0x5a, SIZE * bytes);
}

static void give_nothing(uint8_t *all, size_t bytes)
{
	memset(all, 0, SIZE * bytes);
}

/* The others were given what is right, and would wait for rank 2 until their time is over. */
static void oob__what_one_rank_is_given_wrong_is_every_ranks_error(void **state)
{
	static void (*const tampers[])(uint8_t *, size_t) = { swap_two, forget_one, give_garbage,
							      give_nothing };
	struct seat seats[SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(tampers) / sizeof(tampers[0]); i++) {
		seats_init(seats);
		meeting.tamper = tampers[i];
		meeting.is_of_one = true;
		all_do(seats, seat_take);
		all_said(seats, TALLY_ERR_ARGUMENT, "the allgather function gave");
		for (uint32_t rank = 0; rank < SIZE; rank++)
			assert_true(rank == 2 || strstr(seats[rank].text, "rank 2 on "));
	}
	seats_init(seats);
	meeting.fails[2] = 77;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_SYSTEM, "of rank 2 on ");
	all_said(seats, TALLY_ERR_SYSTEM, "has failed: it returned 77");
}

/* What rank 0 said in an earlier run, as a store that nobody has emptied has it. */
static uint8_t kept[RECORD_MAX];

static void keep_first(uint8_t *all, size_t bytes)
{
	if (!meeting.calls[2])
		memcpy(kept, all, bytes);
}

static void give_kept(uint8_t *all, size_t bytes)
{
	memcpy(all, kept, bytes);
}

/* What tells the runs apart: 64 bits, of which some bytes may be equal. */
static void forget_run(uint8_t *all, size_t bytes)
{
	for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t))
		if (memcmp(all + i, kept + i, sizeof(uint64_t)) != 0)
			memset(all + i, 0, sizeof(uint64_t));
}

static void oob__a_record_of_another_run_is_every_ranks_error(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	setenv("TALLY_JOB", "oob-kept", 1);
	seats_init(seats);
	meeting.tamper = keep_first;
	meeting.is_of_one = true;
	all_do(seats, seat_take);
	all_said(seats, TALLY_OK, "");
	all_do(seats, seat_leave);
	seats_init(seats);
	meeting.tamper = give_kept;
	meeting.is_of_one = true;
	for (uint32_t rank = 0; rank < SIZE; rank++)
		seats[rank].options.init_timeout_s = 1;
	all_do(seats, seat_take);
	all_said(seats, TALLY_ERR_ARGUMENT, "two different records of rank 0");
	seats_init(seats);
	meeting.tamper = forget_run;
	meeting.is_of_one = true;
	all_do(seats, seat_take);
	unsetenv("TALLY_JOB");
	all_said(seats, TALLY_ERR_ARGUMENT, "gave for rank 0 is not a record");
}

static void oob__a_callback_that_fails_is_named(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	meeting.fails[2] = 77;
	pthread_barrier_init(&meeting.barrier, NULL, 1);
	seat_take(&seats[2]);
	pthread_barrier_destroy(&meeting.barrier);
	assert_int_equal(seats[2].result, TALLY_ERR_SYSTEM);
	assert_non_null(strstr(seats[2].text, "returned 77"));
	assert_int_equal(tally_comm_init_oob(&seats[0].comm, 4, 4, allgather, NULL, NULL),
			 TALLY_ERR_ARGUMENT);
	assert_int_equal(tally_comm_init_oob(&seats[0].comm, 4, 0, NULL, NULL, NULL),
			 TALLY_ERR_ARGUMENT);
}

static int allgather_fails(const void *send, void *recv, size_t bytes, void *ctx)
{
	(void)send;
	(void)recv;
	(void)bytes;
	++*(int *)ctx;
	return 9;
}

/* A rank that is none takes part in nothing: the others have no place for it. */
static void oob__ranks_that_there_are_not_are_refused_at_once(void **state)
{
	static const struct {
		uint32_t size, rank;
	} none[] = { { 0, 0 }, { 257, 0 }, { 3, 3 } };
	struct tally_comm *comm = NULL;
	char text[128];
	int calls = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(tally_comm_init_oob(&comm, none[i].size, none[i].rank,
						     allgather_fails, &calls, NULL),
				 TALLY_ERR_ARGUMENT);
		snprintf(text, sizeof(text),
			 "tally_comm_init_oob: no such rank, rank %u of %u (at most 256)",
			 none[i].rank, none[i].size);
		assert_string_equal(tally_get_last_error(NULL), text);
	}
	assert_int_equal(tally_comm_init_oob(&comm, 2, 1, NULL, NULL, NULL), TALLY_ERR_ARGUMENT);
	assert_string_equal(tally_get_last_error(NULL), "tally_comm_init_oob: allgather is NULL, "
							"rank 1 of 2 (at most 256)");
	assert_int_equal(calls, 0);
	assert_int_equal(tally_comm_init_oob(&comm, 256, 255, allgather_fails, &calls, NULL),
			 TALLY_ERR_SYSTEM);
	assert_non_null(strstr(tally_get_last_error(NULL), "tally_comm_init_oob: the allgather "
							   "function of rank 255 on "));
	assert_non_null(strstr(tally_get_last_error(NULL), " has failed: it returned 9"));
	assert_int_equal(calls, 2); /* the second is for the others */
	assert_null(comm);
}

/* Which of these ranks' callback has failed, and with what. */
static bool names_one(const char *text, uint32_t ranks)
{
	for (uint32_t rank = 0; rank < SIZE; rank++) {
		char words[64], result[32];

		snprintf(words, sizeof(words), "the allgather function of rank %u on ", rank);
		snprintf(result, sizeof(result), " has failed: it returned 7%u", rank);
		if (ranks >> rank & 1 && strstr(text, words) && strstr(text, result))
			return true;
	}
	return false;
}

/* Whoever's second one fails: all the others have been told that all is well, and wait for it in the job. */
static void oob__a_second_callback_that_fails_is_every_ranks_error_at_once(void **state)
{
	static const struct {
		uint32_t ranks; /* one bit each */
	} cases[] = {
		{ 1u << 2 }, { 1u << 0 }, { 1u << 1 | 1u << 3 }, { 0xf & ~(1u << 1) }, { 0xf }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seat seats[SIZE];
		time_t begun;

		seats_init(seats);
		meeting.fails_idx = 1;
		for (uint32_t rank = 0; rank < SIZE; rank++)
			meeting.fails[rank] = cases[i].ranks >> rank & 1 ? 70 + (int)rank : 0;
		begun = time(NULL);
		all_do(seats, seat_take);
		assert_true(time(NULL) - begun < 4);
		for (uint32_t rank = 0; rank < SIZE; rank++) {
			bool fails = meeting.fails[rank];

			assert_int_equal(seats[rank].result,
					 fails ? TALLY_ERR_SYSTEM : TALLY_ERR_REMOTE);
			assert_true(
				names_one(seats[rank].text, fails ? 1u << rank : cases[i].ranks));
		}
	}
}

static void oob__what_one_rank_is_given_wrong_at_last_is_every_ranks_error_at_once(void **state)
{
	static void (*const tampers[])(uint8_t *, size_t) = { swap_two, forget_one, give_garbage,
							      give_nothing };

	(void)state;
	for (size_t i = 0; i < sizeof(tampers) / sizeof(tampers[0]); i++) {
		struct seat seats[SIZE];
		time_t begun = time(NULL);

		seats_init(seats);
		meeting.tamper = tampers[i];
		meeting.is_of_one = true;
		meeting.tamper_idx = 1;
		all_do(seats, seat_take);
		assert_true(time(NULL) - begun < 4);
		for (uint32_t rank = 0; rank < SIZE; rank++) {
			assert_int_equal(seats[rank].result,
					 rank == 2 ? TALLY_ERR_ARGUMENT : TALLY_ERR_REMOTE);
			assert_non_null(strstr(seats[rank].text, "the allgather function gave"));
			assert_true(rank == 2 || strstr(seats[rank].text, "rank 2 on "));
		}
	}
}

/* What all are given wrong all know: nobody waits for anybody. */
static void oob__what_all_are_given_wrong_at_last_is_every_ranks_error_at_once(void **state)
{
	struct seat seats[SIZE];
	time_t begun = time(NULL);

	(void)state;
	seats_init(seats);
	meeting.tamper = forget_one;
	meeting.tamper_idx = 1;
	all_do(seats, seat_take);
	assert_true(time(NULL) - begun < 4);
	all_said(seats, TALLY_ERR_ARGUMENT, "gave for rank 2");
}

/* In this thread, for what all ranks say. */
static _Thread_local bool is_out_of_memory;

void *__real_calloc(size_t items, size_t bytes);
void *__wrap_calloc(size_t items, size_t bytes);

void *__wrap_calloc(size_t items, size_t bytes)
{
	if (is_out_of_memory && items == SIZE && bytes > 256)
		return NULL;
	return __real_calloc(items, bytes);
}

static void *seat_take_without_memory(void *arg)
{
	struct seat *seat = arg;

	is_out_of_memory = seat->rank == 1;
	return seat_take(arg);
}

static atomic_bool has_odd_name;

int __real_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes);

int __wrap_gethostname(char *name, size_t bytes)
{
	if (!has_odd_name)
		return __real_gethostname(name, bytes);
	snprintf(name, bytes, "h\xc3\xb6st 1");
	return 0;
}

static void oob__any_name_of_a_host_does_for_a_job(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	has_odd_name = true;
	all_do(seats, seat_take);
	has_odd_name = false;
	all_said(seats, TALLY_OK, "");
	all_do(seats, seat_leave);
}

static void oob__a_rank_without_memory_is_every_ranks_error(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	all_do(seats, seat_take_without_memory);
	all_said(seats, TALLY_ERR_NO_MEMORY, "rank 1 on ");
	all_said(seats, TALLY_ERR_NO_MEMORY, ": out of memory");
}

/* As if the wall clock had been set forward by an hour after it was read. */
static atomic_bool is_clock_set;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock, now);

	if (clock == CLOCK_REALTIME && is_clock_set)
		now->tv_sec -= 3600;
	return result;
}

static char warned[512];
static struct timespec warned_first;
static pthread_mutex_t warned_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_keep(int level, const char *line, void *arg)
{
	(void)arg;
	pthread_mutex_lock(&warned_lock);
	if (level == TALLY_LOG_WARN && strstr(line, "allgather")) {
		if (!warned[0])
			__real_clock_gettime(CLOCK_MONOTONIC, &warned_first);
		snprintf(warned, sizeof(warned), "%s", line);
	}
	pthread_mutex_unlock(&warned_lock);
}

static void oob__a_callback_that_stays_away_is_named(void **state)
{
	struct seat seats[SIZE];
	struct timespec begin;

	(void)state;
	seats_init(seats);
	meeting.is_slow = true;
	is_clock_set = true;
	__real_clock_gettime(CLOCK_MONOTONIC, &begin);
	tally_set_log(0, log_keep, NULL);
	all_do(seats, seat_take);
	tally_set_log(0, NULL, NULL);
	is_clock_set = false;
	all_said(seats, TALLY_OK, "");
	assert_non_null(strstr(warned, "has not returned for 5 s"));
	assert_true(warned_first.tv_sec - begin.tv_sec >= 4);
	all_do(seats, seat_leave);
}

/* ---- split ---- */

/* Even ranks in one part, in the opposite order; rank 1 in one of its own; rank 3 in none. */
static void *split_main(void *arg)
{
	struct seat *seat = arg;
	int color = seat->rank == 3 ? -1 : (int)(seat->rank % 2) * 1000000007;
	struct tally_comm *part = (struct tally_comm *)seat, *nested = NULL;
	int32_t x = 10 + (int32_t)seat->rank, sum = seat->rank == 1 ? 11 : 22;

	seat->result = tally_comm_split(seat->comm, color, seat->rank == 0 ? INT32_MAX : INT32_MIN,
					NULL, &part);
	if (seat->result || seat->rank == 3) {
		seat->is_good = !seat->result && !part;
		tally_comm_destroy(seat->comm);
		pthread_barrier_wait(&meeting.barrier);
		return NULL;
	}
	seat->is_good = tally_comm_size(part) == (seat->rank == 1 ? 1 : 2) &&
			tally_comm_rank(part) == (seat->rank == 0);
	/* The parent may go first; in local mode its aggregator stays for the parts. */
	tally_comm_destroy(seat->rank == 0 ? NULL : seat->comm);
	seat->is_good &= !tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, part) && x == sum;
	seat->is_good &= !tally_comm_split(part, 0, 0, NULL, &nested);
	seat->is_good &= tally_comm_size(nested) == tally_comm_size(part) &&
			 tally_comm_rank(nested) == tally_comm_rank(part);
	tally_comm_destroy(part);
	seat->is_good &= !tally_barrier(nested);
	/* Rank 0's aggregator takes no new part when rank 0 has left. */
	pthread_barrier_wait(&meeting.barrier);
	tally_comm_destroy(nested);
	if (seat->rank == 0)
		tally_comm_destroy(seat->comm);
	return NULL;
}

static void split__makes_parts_that_outlive_what_they_were_split_off(void **state)
{
	struct seat seats[SIZE];

	(void)state;
	seats_init(seats);
	all_do(seats, seat_take);
	all_said(seats, TALLY_OK, "");
	all_do(seats, split_main);
	for (uint32_t i = 0; i < SIZE; i++)
		assert_true(seats[i].is_good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(oob__ranks_of_one_host_need_no_aggregator_nor_a_name),
		cmocka_unit_test(oob__rank_0s_aggregator_is_every_ranks),
		cmocka_unit_test(oob__a_name_that_is_too_long_is_none),
		cmocka_unit_test(oob__what_one_rank_finds_wrong_is_every_ranks_error),
		cmocka_unit_test(oob__a_wrong_argument_of_one_rank_is_every_ranks_error),
		cmocka_unit_test(oob__records_that_are_not_what_they_should_be_are_refused),
		cmocka_unit_test(oob__a_rank_without_memory_is_every_ranks_error),
		cmocka_unit_test(oob__any_name_of_a_host_does_for_a_job),
		cmocka_unit_test(oob__what_one_rank_is_given_wrong_is_every_ranks_error),
		cmocka_unit_test(oob__a_record_of_another_run_is_every_ranks_error),
		cmocka_unit_test(oob__a_callback_that_fails_is_named),
		cmocka_unit_test(oob__ranks_that_there_are_not_are_refused_at_once),
		cmocka_unit_test(oob__a_second_callback_that_fails_is_every_ranks_error_at_once),
		cmocka_unit_test(
			oob__what_one_rank_is_given_wrong_at_last_is_every_ranks_error_at_once),
		cmocka_unit_test(
			oob__what_all_are_given_wrong_at_last_is_every_ranks_error_at_once),
		cmocka_unit_test(oob__a_callback_that_stays_away_is_named),
		cmocka_unit_test(split__makes_parts_that_outlive_what_they_were_split_off),
	};

	alarm(LIMIT_S);
	unsetenv("TALLY_AGGREGATOR");
	unsetenv("TALLY_JOB");
	return cmocka_run_group_tests_name("lib-oob", tests, NULL, NULL);
}
