/* SPDX-License-Identifier: Apache-2.0 */
/* comm_test.c - the public calls on a job of one rank, which hosts its own aggregator. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tally.h"

enum { LIMIT_S = 30 }; /* a hang is a failure like another */

static struct tally_comm *comm_make(void)
{
	static unsigned made;
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char job[64];

	snprintf(job, sizeof(job), "comm-test-%ld-%u", (long)getpid(), ++made);
	options.aggregator = "local";
	assert_int_equal(tally_comm_init(&comm, job, 1, 0, &options), TALLY_OK);
	return comm;
}

static int setup(void **state)
{
	*state = comm_make();
	return 0;
}

static int teardown(void **state)
{
	tally_comm_destroy(*state);
	return 0;
}

/* The call gave this result, and its text says so. */
static void said(int result, int expected, const char *word)
{
	if (result != expected || !strstr(tally_get_last_error(NULL), word))
		fail_msg("%s, not %s: \"%s\" should say %s", tally_strerror(result),
			 tally_strerror(expected), tally_get_last_error(NULL), word);
}

/* ---- arguments ---- */

struct wrong_call {
	const char *claim;
	ptrdiff_t send, recv; /* offsets into a buffer of bytes; -1: NULL */
	size_t count;
	int dtype, op, result;
	const char *word;
};

/* clang-format off */
static const struct wrong_call wrong_calls[] = {
	{ "send is NULL", -1, 0, 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "send is NULL" },
	{ "recv is NULL", 0, -1, 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "recv is NULL" },
	{ "both are NULL", -1, -1, 4, TALLY_FLOAT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "NULL" },
	{ "send is not aligned", 2, 64, 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "send" },
	{ "recv is not aligned", 0, 65, 4, TALLY_FLOAT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "recv" },
	{ "recv is inside send", 0, 8, 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "in place means" },
	{ "send is inside recv", 8, 0, 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "in place means" },
	{ "count is too large", 0, 64, SIZE_MAX / 4, TALLY_INT32, TALLY_SUM, TALLY_ERR_ARGUMENT, "count" },
	{ "no such type", 0, 64, 4, 15, TALLY_SUM, TALLY_ERR_ARGUMENT, "dtype 15" },
	{ "nccl.h's, and not ours", 0, 64, 4, 10, TALLY_SUM, TALLY_ERR_UNSUPPORTED, "float8e4m3" },
	{ "no such type either", 0, 64, 4, -1, TALLY_SUM, TALLY_ERR_ARGUMENT, "dtype -1" },
	{ "no such op", 0, 64, 4, TALLY_INT32, 14, TALLY_ERR_ARGUMENT, "op 14" },
	{ "half a pair", 0, 64, 3, TALLY_INT32, TALLY_MAXLOC, TALLY_ERR_ARGUMENT, "maxloc: count 3 is odd" },
	{ "nobody's operation", 0, 64, 4, TALLY_INT32, TALLY_USER, TALLY_ERR_ARGUMENT, "options->reduce is not set" },
	{ "an order of complex numbers", 0, 64, 4, TALLY_COMPLEX64, TALLY_MAX, TALLY_ERR_UNSUPPORTED, "max of complex64" },
	{ "a sum of truth values", 0, 64, 4, TALLY_BOOL, TALLY_SUM, TALLY_ERR_UNSUPPORTED, "sum of bool" },
	{ "complex numbers overlap", 0, 28, 4, TALLY_COMPLEX64, TALLY_SUM, TALLY_ERR_ARGUMENT, "in place means" },
	{ "not aligned for its type", 4, 64, 4, TALLY_FLOAT64, TALLY_SUM, TALLY_ERR_ARGUMENT, "8 bytes" },
	{ "not aligned for its type", 0, 65, 4, TALLY_BFLOAT16, TALLY_SUM, TALLY_ERR_ARGUMENT, "2 bytes" },
	{ "wider elements overlap", 0, 24, 4, TALLY_INT64, TALLY_SUM, TALLY_ERR_ARGUMENT, "in place means" },
	{ "bits of floats", 0, 64, 4, TALLY_FLOAT64, TALLY_BAND, TALLY_ERR_UNSUPPORTED, "band of float64" },
	{ "others", 0, 64, 4, TALLY_FLOAT32, TALLY_BXOR, TALLY_ERR_UNSUPPORTED, "bxor" },
};
/* clang-format on */

static void allreduce__wrong_arguments_are_named_and_nothing_starts(void **state)
{
	static _Alignas(8) unsigned char bytes[256];
	struct tally_comm *comm = *state;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_work *untouched = (struct tally_work *)bytes;

	for (size_t i = 0; i < sizeof(wrong_calls) / sizeof(wrong_calls[0]); i++) {
		const struct wrong_call *the = &wrong_calls[i];
		const void *send = the->send < 0 ? NULL : bytes + the->send;
		void *recv = the->recv < 0 ? NULL : bytes + the->recv;
		struct tally_work *work = untouched;

		said(tally_allreduce(send, recv, the->count, the->dtype, the->op, comm),
		     the->result, the->word);
		said(tally_iallreduce(send, recv, the->count, the->dtype, the->op, comm, NULL,
				      &work),
		     the->result, the->word);
		assert_ptr_equal(work, untouched);
	}
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_OK);
	assert_int_equal(tally_comm_get_stats(comm, &stats), TALLY_OK);
	assert_int_equal(stats.operations, 0);
}

static void allreduce__a_buffer_beyond_the_last_address_is_named(void **state)
{
	struct tally_comm *comm = *state;
	int32_t x[16] = { 0 }, y[16] = { 0 };
	void *high = (void *)(UINTPTR_MAX - 7);
	const struct tally_buffer sends[] = { { x, y, 2 }, { high, y + 8, 3 } };
	const struct tally_buffer recvs[] = { { x, y, 2 }, { x + 8, high, 3 } };
	struct tally_work *work;

	said(tally_allreduce(x, high, 10, TALLY_INT32, TALLY_SUM, comm), TALLY_ERR_ARGUMENT,
	     "recv 0xfffffffffffffff8 with count 10 ends above");
	said(tally_allreduce(high, x, 2, TALLY_INT32, TALLY_SUM, comm), TALLY_ERR_ARGUMENT,
	     "send 0xfffffffffffffff8 with count 2 ends above");
	said(tally_allreduce(high, high, 10, TALLY_INT32, TALLY_SUM, comm), TALLY_ERR_ARGUMENT,
	     "ends above");
	said(tally_iallreduce_multi(sends, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "buffers[1].send");
	said(tally_iallreduce_multi(recvs, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "buffers[1].recv");
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_OK);
}

static void allreduce__wrong_options_are_named(void **state)
{
	struct tally_comm *comm = *state;
	struct tally_op_options options = TALLY_OP_OPTIONS_INIT;
	struct tally_work *work;
	char long_name[65];
	int32_t x = 1;

	memset(long_name, 'a', 64);
	long_name[64] = '\0';
	options.stream = 3;
	said(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm, &options, &work),
	     TALLY_ERR_ARGUMENT, "stream 3");
	options.stream = TALLY_STREAM_AUTO;
	options.name = long_name;
	said(tally_ibarrier(comm, &options, &work), TALLY_ERR_ARGUMENT, "name");
	options.name = NULL;
	options.flags = 16;
	said(tally_ibarrier(comm, &options, &work), TALLY_ERR_UNSUPPORTED, "flags");
	options.flags = 0;
	options.size = 0;
	said(tally_ibarrier(comm, &options, &work), TALLY_ERR_ARGUMENT, "size");
}

static void allreduce__no_communicator_is_named(void **state)
{
	struct tally_work *work;
	int32_t x = 1;

	(void)state;
	said(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, NULL), TALLY_ERR_ARGUMENT, "comm");
	said(tally_barrier(NULL), TALLY_ERR_ARGUMENT, "comm");
	said(tally_ibarrier(NULL, NULL, &work), TALLY_ERR_ARGUMENT, "comm");
	said(tally_comm_finalize(NULL), TALLY_ERR_ARGUMENT, "comm");
	assert_int_equal(tally_comm_abort(NULL), TALLY_ERR_ARGUMENT); /* without a text */
	tally_comm_destroy(NULL);
}

static void allreduce__any_count_and_place_works(void **state)
{
	struct tally_comm *comm = *state;
	int32_t x[7] = { 1, -2, 3, -4, 5, -6, 7 }, y[7] = { 0 };

	assert_int_equal(tally_allreduce(NULL, NULL, 0, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(tally_allreduce(x, y, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(y[0], 1);
	assert_int_equal(y[1], 0);
	assert_int_equal(tally_allreduce(x, y, 7, TALLY_INT32, TALLY_AVG, comm), TALLY_OK);
	assert_memory_equal(x, y, sizeof(x));
	assert_int_equal(tally_allreduce(x, x, 7, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_memory_equal(x, y, sizeof(x));
}

static void init__a_window_without_slots_is_named(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;

	(void)state;
	options.latency_window = 4;
	said(tally_comm_init(&comm, "comm-test-window", 1, 0, &options), TALLY_ERR_ARGUMENT,
	     "latency_window is 4 without latency_slots");
}

/* As a program built with the header of 0.1.0 hands it over: the padding is whatever was there. */
struct options_0_1_0 {
	size_t size;
	const char *aggregator;
	uint32_t local_size, init_timeout_s, window_packets, poll_count, flags;
};

static void init__options_of_an_older_caller_work(void **state)
{
	struct {
		struct options_0_1_0 options;
		unsigned char beyond[64];
	} old;
	struct tally_options too_large = TALLY_OPTIONS_INIT, before = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char job[64];

	(void)state;
	memset(&old, 0xa5, sizeof(old));
	old.options.size = sizeof(old.options);
	old.options.aggregator = "local";
	old.options.local_size = old.options.flags = 0;
	old.options.init_timeout_s = 30;
	old.options.window_packets = old.options.poll_count = 0;
	snprintf(job, sizeof(job), "comm-test-old-%ld", (long)getpid());
	assert_int_equal(tally_comm_init(&comm, job, 1, 0,
					 (const struct tally_options *)(void *)&old),
			 TALLY_OK);
	assert_int_equal(tally_barrier(comm), TALLY_OK);
	tally_comm_destroy(comm);

	before.size = offsetof(struct tally_options, interrupted); /* what follows is not read */
	before.interrupted = (tally_interrupted_fn)(uintptr_t)1;
	before.aggregator = "local";
	assert_int_equal(tally_comm_init(&comm, job, 1, 0, &before), TALLY_OK);
	assert_int_equal(tally_comm_finalize(comm), TALLY_OK);
	tally_comm_destroy(comm);
	too_large.size += 8;
	said(tally_comm_init(&comm, job, 1, 0, &too_large), TALLY_ERR_ARGUMENT, "size");
}

/* What nobody ever answers at is refused at once, by name. */
static void init__an_aggregator_that_is_no_host_is_refused_at_once(void **state)
{
	static const char *const wrongs[][2] = {
		{ ":7171", "\":7171\" of :7171" },
		{ ",", "\"\" of ," },
		{ "127.0.0.1,", "\"\" of 127.0.0.1," },
		{ ",127.0.0.1", "\"\" of ,127.0.0.1" },
		{ "127.0.0.1:0", "\"127.0.0.1:0\"" },
		{ "fe80::1", "%INTERFACE" },
		{ "127.0.0.1,224.0.0.1", "224.0.0.1:7171 is a multicast address" },
		{ "255.255.255.255:7", "broadcast" },
		{ "0.0.0.0", "every address" },
	};
	struct tally_options options = TALLY_OPTIONS_INIT;

	(void)state;
	options.init_timeout_s = 5;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct tally_comm *comm = NULL;
		time_t begin = time(NULL);

		options.aggregator = wrongs[i][0];
		said(tally_comm_init(&comm, "comm-test-nowhere", 1, 0, &options),
		     TALLY_ERR_ARGUMENT, wrongs[i][1]);
		assert_true(time(NULL) - begin < 3);
	}
}

/* ---- handles ---- */

static void work__found_complete_is_freed_and_null(void **state)
{
	struct tally_comm *comm = *state;
	struct tally_work *work;
	int32_t x = 3;
	int done = 0;

	assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
			 TALLY_OK);
	while (!done)
		assert_int_equal(tally_test(&work, &done), TALLY_OK);
	assert_null(work);
	assert_int_equal(tally_test(&work, &done), TALLY_OK);
	assert_int_equal(done, 1);
	assert_int_equal(tally_wait(&work, 0), TALLY_OK);
	assert_int_equal(tally_ibarrier(comm, NULL, &work), TALLY_OK);
	while (tally_wait(&work, 0) == TALLY_IN_PROGRESS)
		assert_non_null(work);
	assert_null(work);
	said(tally_wait(NULL, 0), TALLY_ERR_ARGUMENT, "work");
	said(tally_test(NULL, &done), TALLY_ERR_ARGUMENT, "work");
	said(tally_test(&work, NULL), TALLY_ERR_ARGUMENT, "done");
	said(tally_waitall(1, NULL, 0), TALLY_ERR_ARGUMENT, "works");
	assert_int_equal(tally_waitall(0, NULL, 0), TALLY_OK);
}

static void group__refuses_what_would_wait_and_says_what_it_did_not_start(void **state)
{
	struct tally_comm *comm = *state, *other;
	struct tally_work *work, *works[2];
	int32_t x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct tally_buffer over[] = { { x, x, 3 }, { x + 2, x + 4, 2 } };

	said(tally_group_end(), TALLY_ERR_USAGE, "without tally_group_start");
	assert_int_equal(tally_group_start(), TALLY_OK);
	assert_int_equal(tally_iallreduce(x, x, 4, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
			 TALLY_OK);
	said(tally_wait(&work, -1), TALLY_ERR_USAGE, "tally_group_start");
	assert_int_equal(tally_wait(&work, 0), TALLY_IN_PROGRESS);
	said(tally_barrier(comm), TALLY_ERR_USAGE, "tally_group_start");
	said(tally_allreduce(x, x, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_ERR_USAGE, "group");
	said(tally_comm_finalize(comm), TALLY_ERR_USAGE, "tally_group_start");
	said(tally_comm_init(&other, "j", 1, 0, NULL), TALLY_ERR_USAGE, "tally_group_start");
	said(tally_iallreduce(x, x, 4, TALLY_FLOAT32, TALLY_LOR, comm, NULL, &works[0]),
	     TALLY_ERR_UNSUPPORTED, "lor");
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);

	assert_int_equal(tally_group_start(), TALLY_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(tally_iallreduce(x + i, x + i, 4, TALLY_INT32, TALLY_SUM, comm,
						  NULL, &works[i]),
				 TALLY_OK);
	said(tally_group_end(), TALLY_ERR_ARGUMENT, "same operation");
	said(tally_wait(&works[1], -1), TALLY_ERR_ARGUMENT, "tally_group_end");
	said(tally_wait(&works[0], -1), TALLY_ERR_ARGUMENT, "tally_group_end");
	said(tally_iallreduce_multi(over, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "overlaps the recv buffer");
	over[0].recv = NULL;
	said(tally_iallreduce_multi(over, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "buffers[0].recv is NULL");
	over[0] = (struct tally_buffer){ x + 1, x + 2, 2 };
	said(tally_iallreduce_multi(over, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "buffers[0].send");
	said(tally_iallreduce_multi(NULL, 2, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
	     TALLY_ERR_ARGUMENT, "buffers is NULL");
	assert_int_equal(tally_allreduce(x, x, 8, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(x[7], 8);
}

static void done_count(struct tally_work *work, int result, void *arg)
{
	(void)work;
	if (result == TALLY_OK)
		__atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void work__on_done_runs_once_late_or_detached(void **state)
{
	struct tally_comm *comm = *state;
	struct tally_work *work;
	int ran = 0;

	assert_int_equal(tally_ibarrier(comm, NULL, &work), TALLY_OK);
	usleep(50000); /* the background thread completes it */
	assert_int_equal(tally_work_on_done(work, done_count, &ran), TALLY_OK);
	said(tally_work_on_done(work, done_count, &ran), TALLY_ERR_USAGE, "one already");
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(ran, 1);

	assert_int_equal(tally_ibarrier(comm, NULL, &work), TALLY_OK);
	assert_int_equal(tally_work_on_done(work, done_count, &ran), TALLY_OK);
	tally_work_free(&work);
	assert_null(work);
	tally_work_free(&work);
	assert_int_equal(tally_barrier(comm), TALLY_OK);
	for (int i = 0; i < 2000 && __atomic_load_n(&ran, __ATOMIC_SEQ_CST) < 2; i++)
		usleep(1000);
	assert_int_equal(ran, 2);
}

/* ---- the end ---- */

static void finalize__only_destroy_is_left(void **state)
{
	struct tally_comm *comm = comm_make();
	struct tally_stats stats = TALLY_STATS_INIT;
	int32_t x = 1;

	(void)state;
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(tally_comm_finalize(comm), TALLY_OK);
	said(tally_comm_finalize(comm), TALLY_ERR_USAGE, "twice");
	said(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_ERR_USAGE, "finalize");
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_OK);
	assert_int_equal(tally_comm_get_stats(comm, &stats), TALLY_OK);
	assert_int_equal(stats.operations, 1);
	assert_int_equal(stats.elements, 1);
	assert_int_equal(stats.packets_in, 1);
	tally_comm_destroy(comm);
}

static void abort__breaks_the_communicator_with_its_name(void **state)
{
	struct tally_comm *comm = comm_make();
	int32_t x = 1;

	(void)state;
	assert_int_equal(tally_comm_abort(comm), TALLY_OK);
	assert_int_equal(tally_comm_abort(comm), TALLY_OK);
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_ERR_ABORTED);
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm),
			 TALLY_ERR_ABORTED);
	assert_non_null(strstr(tally_get_last_error(comm), "tally_comm_abort"));
	assert_non_null(strstr(tally_get_last_error(comm), "rank 0 of 1"));
	assert_int_equal(tally_comm_finalize(comm), TALLY_ERR_ABORTED);
	tally_comm_destroy(comm);
}

static void destroy__takes_works_and_finalize_along(void **state)
{
	struct tally_comm *comm = comm_make();
	struct tally_work *work;
	int32_t x = 1;

	(void)state;
	assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm, NULL, &work),
			 TALLY_OK);
	tally_comm_destroy(comm);
}

/* ---- fork ---- */

static uint32_t sockets_of(int type)
{
	uint32_t count = 0;

	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
		socklen_t bytes = sizeof(int);
		int its;

		count += !getsockopt(fd, SOL_SOCKET, SO_TYPE, &its, &bytes) && its == type;
	}
	return count;
}

static uint32_t parents_udp; /* sockets: the communicator's, and the aggregator's inside */

static int child_says(struct tally_comm *comm, struct tally_work **work)
{
	int32_t x = 1;
	int done;

	tally_set_log(TALLY_LOG_ERROR, NULL, NULL);
	if (tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm) != TALLY_ERR_USAGE)
		return 1;
	if (!strstr(tally_get_last_error(NULL), "forked child"))
		return 2;
	if (tally_barrier(comm) != TALLY_ERR_USAGE || tally_test(work, &done) != TALLY_ERR_USAGE ||
	    tally_wait(work, -1) != TALLY_ERR_USAGE ||
	    tally_comm_finalize(comm) != TALLY_ERR_USAGE ||
	    tally_comm_abort(comm) != TALLY_ERR_USAGE)
		return 3;
	/* Else nobody would hear that the parent has died, and its address stayed in use. */
	if (sockets_of(SOCK_STREAM) || sockets_of(SOCK_DGRAM) >= parents_udp)
		return 4;
	tally_comm_destroy(comm);
	return 0;
}

static void fork__the_childs_handles_are_refused_and_the_parents_work(void **state)
{
	struct tally_comm *comm = *state;
	struct tally_work *work;
	int32_t x = 1;
	int status;
	pid_t pid;

	assert_int_equal(tally_ibarrier(comm, NULL, &work), TALLY_OK);
	parents_udp = sockets_of(SOCK_DGRAM);
	assert_true(parents_udp > 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20);
		_exit(child_says(comm, &work));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(tally_wait(&work, -1), TALLY_OK);
	assert_int_equal(tally_allreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
}

/* ---- without a communicator ---- */

static void *destroy_main(void *comm)
{
	tally_comm_destroy(comm);
	said(TALLY_OK, TALLY_OK, "group has gathered 2 operations");
	return NULL;
}

/* The gathered works point to it. */
static void destroy__leaves_what_another_threads_group_has_gathered(void **state)
{
	struct tally_comm *comm = comm_make();
	struct tally_work *works[2];
	int32_t x = 4, y = 5;
	pthread_t thread;

	(void)state;
	assert_int_equal(tally_group_start(), TALLY_OK);
	assert_int_equal(tally_iallreduce(&x, &x, 1, TALLY_INT32, TALLY_SUM, comm, NULL, &works[0]),
			 TALLY_OK);
	assert_int_equal(tally_ibarrier(comm, NULL, &works[1]), TALLY_OK);
	assert_int_equal(pthread_create(&thread, NULL, destroy_main, comm), 0);
	pthread_join(thread, NULL);
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(tally_waitall(2, works, -1), TALLY_OK);
	assert_int_equal(tally_allreduce(&y, &y, 1, TALLY_INT32, TALLY_SUM, comm), TALLY_OK);
	assert_int_equal(x + y, 9);
	tally_comm_destroy(comm); /* now it goes: a leak would be the sanitizer's to tell */
}

static void log_keep(int level, const char *line, void *arg)
{
	(void)level;
	snprintf(arg, 256, "%s", line);
}

static void absent_keep(int level, const char *line, void *arg)
{
	char *lines = arg;

	if (level == TALLY_LOG_WARN && strlen(lines) + strlen(line) < 1000)
		strcat(strcat(lines, line), "\n");
}

/* Once: the error comes when the time is over. */
static void init__an_absent_aggregator_is_told_of_after_5_s(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char lines[1024] = "";

	(void)state;
	options.aggregator = "127.0.0.1:1";
	options.init_timeout_s = 7;
	assert_int_equal(tally_set_log(TALLY_LOG_WARN, absent_keep, lines), TALLY_OK);
	said(tally_comm_init(&comm, "comm-test-absent", 1, 0, &options), TALLY_ERR_SYSTEM,
	     "127.0.0.1:1: Connection refused");
	assert_int_equal(tally_set_log(0, NULL, NULL), TALLY_OK);
	assert_non_null(strstr(lines, "no aggregator at 127.0.0.1:1 for 5 s: Connection refused"));
	assert_ptr_equal(strchr(lines, '\n'), lines + strlen(lines) - 1);
}

/* In local mode the first program has the name's socket; the second one's ranks hear what to do. */
static void init__a_second_program_of_a_launch_is_told_to_have_a_name(void **state)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *first = NULL, *comm = NULL;
	char number[16], mine[48];

	(void)state;
	options.init_timeout_s = 1;
	/* Names of this process alone: another one of this test may run beside it. */
	snprintf(number, sizeof(number), "%ld", (long)getpid());
	snprintf(mine, sizeof(mine), "comm-test-mine-%s", number);
	setenv("SLURM_JOB_ID", number, 1);
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	setenv("SLURM_NTASKS", "1", 1);
	setenv("SLURM_PROCID", "0", 1);
	setenv("TALLY_AGGREGATOR", "local", 1);
	assert_int_equal(tally_comm_init_env(&first, &options), TALLY_OK);
	said(tally_comm_init_env(&comm, &options), TALLY_ERR_SYSTEM, "give each its TALLY_JOB");
	tally_comm_destroy(first);
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_NTASKS", "2", 1);
	setenv("SLURM_PROCID", "1", 1);
	said(tally_comm_init_env(&comm, &options), TALLY_ERR_SYSTEM, "give each its TALLY_JOB");
	setenv("TALLY_JOB", mine, 1);
	said(tally_comm_init_env(&comm, &options), TALLY_ERR_SYSTEM, "TALLY_AGGREGATOR=host:port");
	assert_null(strstr(tally_get_last_error(NULL), "TALLY_JOB"));
	unsetenv("TALLY_JOB");
	unsetenv("TALLY_AGGREGATOR");
	unsetenv("SLURM_PROCID");
	unsetenv("SLURM_NTASKS");
	unsetenv("SLURM_STEP_NUM_TASKS");
	unsetenv("SLURM_STEP_ID");
	unsetenv("SLURM_JOB_ID");
}

static void log__errors_go_to_the_users_function(void **state)
{
	char line[256] = "";

	(void)state;
	assert_int_equal(tally_set_log(0, log_keep, line), TALLY_OK);
	assert_int_equal(tally_barrier(NULL), TALLY_ERR_ARGUMENT);
	assert_int_equal(tally_set_log(0, NULL, NULL), TALLY_OK);
	assert_non_null(strstr(line, "tally_barrier: comm is NULL"));
	assert_int_equal(tally_set_log(9, NULL, NULL), TALLY_ERR_ARGUMENT);
}

/* SIGPIPE would end this process: it does what it does from the start. */
static void dump__without_a_reader_fails_and_leaves_no_signal(void **state)
{
	sigset_t pending;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	said(tally_comm_dump(*state, ends[1]), TALLY_ERR_SYSTEM, strerror(EPIPE));
	close(ends[1]);
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
	assert_int_equal(tally_barrier(*state), TALLY_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			allreduce__wrong_arguments_are_named_and_nothing_starts, setup, teardown),
		cmocka_unit_test_setup_teardown(allreduce__wrong_options_are_named, setup,
						teardown),
		cmocka_unit_test(allreduce__no_communicator_is_named),
		cmocka_unit_test_setup_teardown(allreduce__any_count_and_place_works, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			allreduce__a_buffer_beyond_the_last_address_is_named, setup, teardown),
		cmocka_unit_test(init__options_of_an_older_caller_work),
		cmocka_unit_test(init__an_aggregator_that_is_no_host_is_refused_at_once),
		cmocka_unit_test_setup_teardown(work__found_complete_is_freed_and_null, setup,
						teardown),
		cmocka_unit_test_setup_teardown(work__on_done_runs_once_late_or_detached, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			group__refuses_what_would_wait_and_says_what_it_did_not_start, setup,
			teardown),
		cmocka_unit_test(finalize__only_destroy_is_left),
		cmocka_unit_test(abort__breaks_the_communicator_with_its_name),
		cmocka_unit_test(destroy__takes_works_and_finalize_along),
		cmocka_unit_test(destroy__leaves_what_another_threads_group_has_gathered),
		cmocka_unit_test_setup_teardown(
			fork__the_childs_handles_are_refused_and_the_parents_work, setup, teardown),
		cmocka_unit_test(init__a_second_program_of_a_launch_is_told_to_have_a_name),
		cmocka_unit_test(log__errors_go_to_the_users_function),
		cmocka_unit_test_setup_teardown(dump__without_a_reader_fails_and_leaves_no_signal,
						setup, teardown),
		cmocka_unit_test(init__a_window_without_slots_is_named),
		cmocka_unit_test(init__an_absent_aggregator_is_told_of_after_5_s),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("lib-comm", tests, NULL, NULL);
}
