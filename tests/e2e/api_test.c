/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_test.c - what tally.h promises beyond sums: many threads, calls that do not wait, communicators that
 * leave nothing behind, ends that come from outside. TALLY_TEST_CYCLES: opened and closed so often (1000).
 */
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ranks.h"

enum { PATIENCE_MS = 30000 };

static uint32_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (uint32_t)(x >> 32);
}

/* Below 2^27 in magnitude, of both signs. */
static int32_t value_of(uint32_t rank, uint64_t i)
{
	return (int32_t)mix((uint64_t)rank << 48 ^ i) / 16;
}

/* ---- two communicators, four threads each, sixteen operations each ---- */

enum { COMMS = 2, THREADS = 4, IN_FLIGHT = 16, COUNT = 777 };

/* All ranks must start the same operations in the same order: the threads of a communicator take turns. */
struct turns {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t next;
};

struct thread {
	struct tally_comm *comm;
	struct turns *turns;
	uint32_t rank, size, idx, comm_idx;
	bool is_good;
};

static uint64_t place_of(const struct thread *thread, uint32_t op, uint32_t i)
{
	return (uint64_t)thread->comm_idx << 40 ^ (uint64_t)thread->idx << 32 ^ (uint64_t)op << 20 ^
	       i;
}

static void in_turn(struct thread *thread, uint32_t op, int32_t *x, struct tally_work **work)
{
	struct turns *turns = thread->turns;

	pthread_mutex_lock(&turns->lock);
	while (turns->next != op * THREADS + thread->idx)
		pthread_cond_wait(&turns->changed, &turns->lock);
	CHECK(tally_iallreduce(x, x, COUNT - op, TALLY_INT32, TALLY_SUM, thread->comm, NULL,
			       work) == TALLY_OK);
	turns->next++;
	pthread_cond_broadcast(&turns->changed);
	pthread_mutex_unlock(&turns->lock);
}

static void *thread_main(void *arg)
{
	static int32_t all[COMMS * THREADS][IN_FLIGHT][COUNT];
	struct thread *thread = arg;
	int32_t(*x)[COUNT] = all[thread->comm_idx * THREADS + thread->idx];
	struct tally_work *works[IN_FLIGHT];

	for (uint32_t op = 0; op < IN_FLIGHT; op++) {
		for (uint32_t i = 0; i < COUNT; i++)
			x[op][i] = value_of(thread->rank, place_of(thread, op, i));
		in_turn(thread, op, x[op], &works[op]);
	}
	for (uint32_t op = IN_FLIGHT; op-- > 0;) {
		CHECK(tally_wait(&works[op], -1) == TALLY_OK);
		for (uint32_t i = 0; i < COUNT; i++) {
			int32_t sum = 0;

			for (uint32_t rank = 0; rank < thread->size && i < COUNT - op; rank++)
				sum += value_of(rank, place_of(thread, op, i));
			if (i >= COUNT - op)
				sum = value_of(thread->rank, place_of(thread, op, i));
			CHECK(x[op][i] == sum);
		}
	}
	thread->is_good = true;
	return NULL;
}

static void threads_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comms[COMMS];
	struct turns turns[COMMS];
	struct thread threads[COMMS * THREADS];
	pthread_t ids[COMMS * THREADS];
	char job[sizeof(ranks->job)];

	strcpy(job, ranks->job);
	for (uint32_t c = 0; c < COMMS; c++) {
		snprintf(ranks->job, sizeof(ranks->job), "%.50s-%u", job, c);
		comms[c] = ranks_join(ranks, rank);
		turns[c] = (struct turns){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
	}
	for (uint32_t t = 0; t < COMMS * THREADS; t++) {
		threads[t] =
			(struct thread){ comms[t / THREADS], &turns[t / THREADS], rank, ranks->size,
					 t % THREADS,        t / THREADS,         false };
		CHECK(!pthread_create(&ids[t], NULL, thread_main, &threads[t]));
	}
	for (uint32_t t = 0; t < COMMS * THREADS; t++) {
		pthread_join(ids[t], NULL);
		CHECK(threads[t].is_good);
	}
	for (uint32_t c = 0; c < COMMS; c++)
		ranks_leave(comms[c]);
}

static void threads__two_communicators_four_threads_sixteen_in_flight(void **state)
{
	struct ranks ranks = { .size = 3, .body = threads_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- nothing stays behind ---- */

static uint32_t entries(const char *path)
{
	DIR *dir = opendir(path);
	uint32_t count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* The kernel lists a thread for a moment after pthread_join. */
static bool tasks_end(uint32_t tasks)
{
	for (int ms = 0; ms < PATIENCE_MS && entries("/proc/self/task") > tasks; ms++)
		usleep(1000);
	return entries("/proc/self/task") <= tasks;
}

static void cycle(struct ranks *ranks, uint32_t rank, uint32_t i)
{
	struct tally_comm *comm;
	int32_t x[100];

	snprintf(ranks->job, sizeof(ranks->job), "cycle-%ld-%u", (long)getppid(), i);
	comm = ranks_join(ranks, rank);
	for (int32_t at = 0; at < 100; at++)
		x[at] = at + (int32_t)rank;
	CHECK(tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, comm) == TALLY_OK);
	CHECK(x[99] == (ranks->size == 2 ? 2 * 99 + 1 : 99));
	if (i % 2)
		CHECK(tally_comm_finalize(comm) == TALLY_OK);
	tally_comm_destroy(comm);
}

static void cycles_body(struct ranks *ranks, uint32_t rank)
{
	const char *text = getenv("TALLY_TEST_CYCLES");
	uint32_t cycles = text ? (uint32_t)atoi(text) : 1000;
	uint32_t descriptors, tasks;
	struct mallinfo2 before, after;
	double start;

	alarm(250);

	for (uint32_t i = 0; i < 20; i++) /* what is made once */
		cycle(ranks, rank, i);
	descriptors = entries("/proc/self/fd");
	tasks = entries("/proc/self/task");
	before = mallinfo2();
	start = ranks_now_s();
	for (uint32_t i = 20; i < 20 + cycles; i++)
		cycle(ranks, rank, i);
	after = mallinfo2();
	CHECK(entries("/proc/self/fd") == descriptors);
	CHECK(tasks_end(tasks));
	if (rank == 0)
		printf("%u cycles of %u ranks, %.1f ms each: %u descriptors, %u tasks, as before, "
		       "%zu bytes before, %zu after\n",
		       cycles, ranks->size, (ranks_now_s() - start) / cycles * 1e3, descriptors - 2,
		       tasks - 2, before.uordblks + before.hblkhd, after.uordblks + after.hblkhd);
#ifndef __SANITIZE_ADDRESS__ /* whose leak check sees to that, and whose malloc counts otherwise */
	CHECK(after.hblkhd <= before.hblkhd);
	CHECK(after.uordblks <=
	      before.uordblks + 4096); /* 4 bytes a cycle would be more at 1,024 */
#endif
}

/* Each life has the name of the one before it, whose end some ranks see sooner than others. */
static void one_name_body(struct ranks *ranks, uint32_t rank)
{
	const char *text = getenv("TALLY_TEST_CYCLES");
	uint32_t cycles = text ? (uint32_t)atoi(text) : 300;
	double start = ranks_now_s();

	alarm(60);
	for (uint32_t i = 0; i < cycles; i++) {
		struct tally_comm *comm = ranks_join(ranks, rank);
		int32_t sum = (int32_t)rank;

		if (i % 3 == 0)
			CHECK(tally_allreduce(&sum, &sum, 1, TALLY_INT32, TALLY_SUM, comm) ==
				      TALLY_OK &&
			      sum == 1);
		if (i % 2 == rank)
			CHECK(tally_comm_finalize(comm) == TALLY_OK);
		tally_comm_destroy(comm);
	}
	if (rank == 0)
		printf("%u lives of one name, %.2f ms each\n", cycles,
		       (ranks_now_s() - start) / cycles * 1e3);
}

static void cycles__of_one_name_in_local_mode_meet_no_earlier_life(void **state)
{
	struct ranks ranks = { .size = 2, .is_local = true, .body = one_name_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void cycles__leave_no_thread_descriptor_or_byte(void **state)
{
	struct ranks alone = { .size = 1, .is_local = true, .body = cycles_body };
	struct ranks ranks = { .size = 2, .body = cycles_body };

	(void)state;
	assert_true(ranks_run(&alone));
	assert_true(ranks_run(&ranks));
}

/* ---- a submit does not wait ---- */

enum { SUBMITS = 2000 };

/* Of one submit; its processor time leaves out what the scheduler gave to others. */
struct submit {
	double took_s, ran_s;
};

static int by_size(const void *a, const void *b)
{
	const struct submit *x = a, *y = b;

	return (x->took_s > y->took_s) - (x->took_s < y->took_s);
}

static double ran_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The first one's packets go out at once, a burst of them: it counts like the others. */
static struct tally_work *submit_timed(struct tally_comm *comm, int32_t *x, size_t count,
				       struct submit *submit)
{
	double start_s = ranks_now_s(), start_ran_s = ran_s();
	struct tally_work *work;

	CHECK(tally_iallreduce(x, x, count, TALLY_INT32, TALLY_SUM, comm, NULL, &work) == TALLY_OK);
	submit->ran_s = ran_s() - start_ran_s;
	submit->took_s = ranks_now_s() - start_s;
	return work;
}

static void submits_judge(struct submit submits[SUBMITS])
{
	double most_ran_s = 0;

	for (uint32_t i = 0; i < SUBMITS; i++)
		most_ran_s = submits[i].ran_s > most_ran_s ? submits[i].ran_s : most_ran_s;
	qsort(submits, SUBMITS, sizeof(*submits), by_size);
	printf("%d submits while the peer is late: median %.1f us, 99 %% below %.1f us, most %.1f "
	       "us, of processor time most %.1f us\n",
	       SUBMITS, submits[SUBMITS / 2].took_s * 1e6, submits[SUBMITS * 99 / 100].took_s * 1e6,
	       submits[SUBMITS - 1].took_s * 1e6, most_ran_s * 1e6);
	/* The tail is the scheduler's where others run on this machine. */
	CHECK(submits[SUBMITS / 2].took_s < 100e-6);
}

static void submit_body(struct ranks *ranks, uint32_t rank)
{
	static struct submit submits[SUBMITS];
	static int32_t small[SUBMITS], large[1 << 20];
	static struct tally_work *works[SUBMITS];
	struct tally_comm *comm = ranks_join(ranks, rank);

	CHECK(tally_barrier(comm) == TALLY_OK);
	if (rank == 1)
		usleep(1000000);
	works[0] = submit_timed(comm, large, 1 << 20, &submits[0]);
	for (uint32_t i = 1; i < SUBMITS; i++) {
		small[i] = (int32_t)(i + rank);
		works[i] = submit_timed(comm, &small[i], 1, &submits[i]);
		if (i % 16 == 15)
			usleep(200);
	}
	CHECK(tally_waitall(SUBMITS, works, -1) == TALLY_OK);
	for (uint32_t i = 1; i < SUBMITS; i++)
		CHECK(small[i] == (int32_t)(2 * i + 1));
	if (rank == 0)
		submits_judge(submits);
	ranks_leave(comm);
}

static void submit__returns_at_once_while_the_peer_is_late(void **state)
{
	struct ranks ranks = { .size = 2, .body = submit_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- exponents travel ahead ---- */

static void exponents_body(struct ranks *ranks, uint32_t rank)
{
	enum { TENSORS = 100, EACH = 20000 };
	static float x[TENSORS][EACH];
	static struct tally_work *works[TENSORS];
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_stats stats = TALLY_STATS_INIT;

	for (uint32_t t = 0; t < TENSORS; t++)
		for (uint32_t i = 0; i < EACH; i++)
			x[t][i] = (float)(rank ? 3 * (t + i) : t * i) * (i % 2 ? 1.0f : -1.0f);
	for (uint32_t t = 0; t < TENSORS; t++)
		CHECK(tally_iallreduce(x[t], x[t], EACH, TALLY_FLOAT32, TALLY_SUM, comm, NULL,
				       &works[t]) == TALLY_OK);
	CHECK(tally_waitall(TENSORS, works, -1) == TALLY_OK);
	CHECK(x[99][101] == 99 * 101 + 3 * 200);
	CHECK(tally_comm_get_stats(comm, &stats) == TALLY_OK);
	if (rank == 0) {
		printf("%u packets of data with %u exponent rounds, %u shards of %u slots, %u "
		       "lanes\n",
		       (unsigned)(stats.chunks_bulk + stats.chunks_express),
		       (unsigned)stats.exponent_rounds, stats.shards, stats.slots, stats.lanes);
		fflush(NULL);
	}
	CHECK(stats.chunks_bulk + stats.chunks_express >= 2 * (uint64_t)stats.slots);
	CHECK(stats.exponent_rounds <= (uint64_t)stats.slots * stats.shards);
	ranks_leave(comm);
}

static void exponents__of_tensors_submitted_ahead_cost_a_round_per_slot(void **state)
{
	struct ranks ranks = { .size = 2, .lanes_max = 360, .body = exponents_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- ends from outside ---- */

static int wait_result, allreduce_result;

static void *wait_main(void *arg)
{
	struct tally_work *work = arg;

	wait_result = tally_wait(&work, -1);
	return NULL;
}

static void *allreduce_main(void *arg)
{
	static int32_t x[100];

	allreduce_result = tally_allreduce(x, x, 100, TALLY_INT32, TALLY_SUM, arg);
	return NULL;
}

static void *finalize_main(void *arg)
{
	return (void *)(intptr_t)tally_comm_finalize(arg);
}

static bool dump_says(struct tally_comm *comm, const char *words)
{
	char text[8192] = "";
	FILE *file = tmpfile();

	CHECK(file);
	CHECK(tally_comm_dump(comm, fileno(file)) == TALLY_OK);
	rewind(file);
	CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	return strstr(text, words);
}

/* However late the thread is: the next call must come after its own, as the dump shows. (It does not show who waits for
 * an operation that has begun; but no matter when that does.) */
static pthread_t thread_begin(void *(*function)(void *), void *arg, struct tally_comm *comm,
			      const char *words)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, function, arg));
	for (int ms = 0; ms < PATIENCE_MS && !dump_says(comm, words); ms++)
		usleep(1000);
	CHECK(dump_says(comm, words));
	return thread;
}

/* The aggregator would end what is silent after 10 s: less than half of it means that nobody waited for that. */
static void abort_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *work;
	pthread_t threads[3];
	void *finalized;
	double start;
	int result;

	result = tally_barrier(comm);
	if (rank == 1) { /* which may hear of the abort before it has the barrier */
		for (int ms = 0; ms < PATIENCE_MS && !result; ms++) {
			usleep(1000);
			result = tally_comm_get_async_error(comm);
		}
		CHECK(result == TALLY_ERR_REMOTE);
		tally_comm_destroy(comm);
		return;
	}
	CHECK(result == TALLY_OK);
	CHECK(tally_ibarrier(comm, NULL, &work) == TALLY_OK);
	threads[0] = thread_begin(wait_main, work, comm, "\"submitted\":2,");
	threads[1] = thread_begin(allreduce_main, comm, comm, "\"submitted\":3,");
	threads[2] = thread_begin(finalize_main, comm, comm, "\"state\":\"leaving\"");
	start = ranks_now_s();
	CHECK(tally_comm_abort(comm) == TALLY_OK);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], i == 2 ? &finalized : NULL);
	CHECK(ranks_now_s() - start < 5);
	CHECK(wait_result == TALLY_ERR_ABORTED);
	CHECK(allreduce_result == TALLY_ERR_ABORTED);
	CHECK((int)(intptr_t)finalized == TALLY_ERR_ABORTED);
	CHECK(strstr(tally_get_last_error(comm), "tally_comm_abort"));
	tally_comm_destroy(comm);
}

static void abort__ends_whatever_waits_in_other_threads(void **state)
{
	struct ranks ranks = { .size = 2, .limit_s = 100, .body = abort_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

static void destroy_body(struct ranks *ranks, uint32_t rank)
{
	static int32_t x[20][5000];
	struct tally_comm *comm = ranks_join(ranks, rank);
	struct tally_work *works[20];

	CHECK(tally_barrier(comm) == TALLY_OK);
	if (rank == 1)
		usleep(300000);
	for (int32_t i = 0; i < 20; i++) {
		for (int32_t at = 0; at < 5000; at++)
			x[i][at] = (int32_t)(rank + 1) * (at - i);
		CHECK(tally_iallreduce(x[i], x[i], 5000, TALLY_INT32, TALLY_SUM, comm, NULL,
				       &works[i]) == TALLY_OK);
	}
	tally_comm_destroy(comm);
	for (int32_t i = 0; i < 20; i++)
		for (int32_t at = 0; at < 5000; at++)
			CHECK(x[i][at] == 3 * (at - i));
}

static void destroy__completes_what_is_outstanding(void **state)
{
	struct ranks ranks = { .size = 2, .body = destroy_body };

	(void)state;
	assert_true(ranks_run(&ranks));
}

/* ---- deadlines ---- */

enum deadline_of { OF_THE_OPERATION, OF_THE_COMMUNICATOR, OF_THE_ENVIRONMENT, OF_A_GROUP };

/* Rank 2 does not call. Rank 1 calls without a deadline, and hears all the same. */
static void deadline_body(struct ranks *ranks, uint32_t rank)
{
	enum deadline_of of = *(const enum deadline_of *)ranks->arg;
	struct tally_op_options own = TALLY_OP_OPTIONS_INIT;
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_work *work = NULL;
	struct tally_comm *comm;
	int32_t x[3] = { 0 };
	int result = TALLY_OK;

	options.aggregator = ranks->aggregator;
	options.init_timeout_s = 20;
	if (of == OF_THE_COMMUNICATOR && rank == 0)
		options.deadline_ms = 700;
	if (of == OF_THE_ENVIRONMENT && rank == 0)
		setenv("TALLY_DEADLINE_S", "1", 1);
	own.name = "layer7";
	if ((of == OF_THE_OPERATION || of == OF_A_GROUP) && rank == 0)
		own.deadline_ms = 700;
	CHECK(tally_comm_init(&comm, ranks->job, ranks->size, rank, &options) == TALLY_OK);
	CHECK(tally_barrier(comm) == TALLY_OK);
	ranks_meet(ranks);
	if (rank == 0) /* whose deadline it is */
		ranks->shared->event_s = ranks_now_s();
	if (of == OF_A_GROUP)
		CHECK(tally_group_start() == TALLY_OK);
	if (rank != 2)
		result = tally_iallreduce(x, x, 3, TALLY_INT32, TALLY_SUM, comm, &own, &work);
	if (of == OF_A_GROUP && !result)
		result = tally_group_end();
	if (rank == 2) {
		for (int i = 0; i < 10000 && !result; i++) {
			usleep(1000);
			result = tally_comm_get_async_error(comm);
		}
	} else if (!result) {
		CHECK(tally_wait(&work, 100) ==
		      TALLY_IN_PROGRESS); /* another thing: it ends nothing */
		result = tally_wait(&work, 20000);
	}
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

/* R-CT-56. */
static void deadline__ends_it_on_all_ranks_and_names_the_missing(void **state)
{
	(void)state;
	for (enum deadline_of of = OF_THE_OPERATION; of <= OF_A_GROUP; of++) {
		struct ranks ranks = { .size = 3, .body = deadline_body, .arg = &of };

		assert_true(ranks_run(&ranks));
		for (uint32_t rank = 0; rank < 3; rank++) {
			const struct ranks_report *report = &ranks.shared->report[rank];
			double took = report->at_s - ranks.shared->event_s;

			if (report->result != TALLY_ERR_TIMEOUT || took < 0.6 || took > 6 ||
			    !strstr(report->text, "rank 2") ||
			    !strstr(report->text, ranks_host()) ||
			    (rank != 2 && !strstr(report->text, "layer7")))
				fail_msg("deadline %d, rank %u: %s after %.2f s: %s", of, rank,
					 tally_strerror(report->result), took, report->text);
			if (rank == 2)
				printf("%.2f s: %s\n", took, report->text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads__two_communicators_four_threads_sixteen_in_flight),
		cmocka_unit_test(cycles__leave_no_thread_descriptor_or_byte),
		cmocka_unit_test(cycles__of_one_name_in_local_mode_meet_no_earlier_life),
		cmocka_unit_test(submit__returns_at_once_while_the_peer_is_late),
		cmocka_unit_test(exponents__of_tensors_submitted_ahead_cost_a_round_per_slot),
		cmocka_unit_test(abort__ends_whatever_waits_in_other_threads),
		cmocka_unit_test(destroy__completes_what_is_outstanding),
		cmocka_unit_test(deadline__ends_it_on_all_ranks_and_names_the_missing),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-api", tests, NULL, NULL);
}
