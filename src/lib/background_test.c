/* SPDX-License-Identifier: Apache-2.0 */
/* background_test.c - the thread that serves all communicators: what it drives, waits for and takes out, and what a
 * child of the process has of it. */
#include "lib/background_fixture.h"

/* ---- what it waits for ---- */

static void thread__waits_for_all_that_it_serves(void **state)
{
	(void)state;
	test.its[0].connections = 2;
	test.its[1].connections = 1;
	test.its[1].is_left = true;
	test.comms[1].state = COMM_JOINING;
	begin(0);
	assert_int_equal(test.its[0].services, 1);
	assert_false(test.has_timeout);
	assert_int_equal(test.polls_count, 4);
	assert_int_equal(test.polls[0].events, POLLIN);
	assert_int_equal(test.polls[1].events, POLLIN);
	assert_int_equal(test.polls[2].fd, TCP_FD);
	assert_int_equal(test.polls[3].fd, TCP_FD + 1);
	assert_int_equal(test.polls[3].events, POLLOUT);
	assert_false(test.comms[0].is_watched);
	test.its[0].deadline_ns = now_ns + 3 * second_ns + 5;
	add(1);
	/* Room for all that two can have. */
	assert_true(test.bytes >= (2 + 2 * (MEMBERSHIP_AGGREGATORS_MAX + 1)) * sizeof(*test.polls));
	test.timelines = 0;
	turn();
	assert_int_equal(test.timelines, 1);
	assert_int_equal(test.its[1].services, 1);
	timeout_is(3 * second_ns + 5);
	assert_int_equal(test.polls_count, 6); /* the last that came is served first */
	assert_int_equal(test.polls[2].fd, TCP_FD + 10);
	assert_int_equal(test.polls[3].fd, UDP_FD + 1);
	assert_int_equal(test.polls[3].events, POLLIN | POLLOUT);
	assert_int_equal(test.polls[4].fd, TCP_FD);
	assert_true(test.comms[1].is_watched);
	assert_int_equal(test.comms[1].watched_events, POLLIN | POLLOUT);
	test.its[1].next_ns = now_ns + second_ns;
	turn();
	timeout_is(second_ns);
	assert_true(test.comms[1].watched_until_ns == now_ns + second_ns);
	test.its[0].deadline_ns = now_ns - 7; /* it is over */
	turn();
	timeout_is(0);
	set_free();
	background_remove(&test.comms[0]);
	background_remove(&test.comms[1]);
}

static void thread__drives_what_nobody_else_does(void **state)
{
	struct tally_comm *comm = &test.comms[0];
	static struct tally_work work;

	(void)state;
	test.its[0].is_left = true;
	begin(0);
	assert_int_equal(test.its[0].drives, 0); /* nothing is outstanding */
	assert_int_equal(test.its[0].callbacks, 1);
	assert_false(test.its[0].is_idle_said);
	comm->outstanding.first = &work;
	turn();
	assert_int_equal(test.its[0].drives, 1);
	assert_true(test.its[0].is_idle_said);
	assert_true(comm->is_watched);
	comm->is_driven = true;
	turn();
	assert_false(comm->is_watched);
	comm->is_driven = false;
	atomic_store(&comm->error, TALLY_ERR_REMOTE);
	turn();
	atomic_store(&comm->error, 0);
	comm->outstanding.first = NULL;
	comm->endpoint = NULL;
	comm->is_knocking = true;
	turn();
	assert_int_equal(test.its[0].drives, 1);
	comm->endpoint = (struct endpoint *)(void *)comm;
	turn();
	assert_int_equal(test.its[0].drives, 2);
	test.its[0].is_left = false; /* its program may come back */
	test.its[0].left_until_ns = now_ns + 9;
	turn();
	assert_int_equal(test.its[0].drives, 2);
	assert_int_equal(test.its[0].callbacks, 6);
	timeout_is(9);
	comm->is_driven = true; /* then its functions are called all the same */
	turn();
	assert_int_equal(test.its[0].callbacks, 7);
	set_free();
	background_remove(comm);
}

static void thread__drives_64_bursts_or_until_somebody_wants_the_lock(void **state)
{
	struct tally_comm *comm = &test.comms[0];

	(void)state;
	test.its[0].is_left = true;
	test.its[0].busy = 100;
	comm->is_knocking = true;
	begin(0);
	assert_int_equal(test.its[0].drives, 64);
	timeout_is(0);
	turn();
	assert_int_equal(test.its[0].drives, 101); /* the last found nothing */
	assert_false(test.has_timeout);
	test.its[0].busy = 1000;
	test.its[0].contend_at = 104;
	turn();
	assert_int_equal(test.its[0].drives, 104);
	timeout_is(0);
	atomic_store(&comm->contenders, 0);
	test.its[0].busy = 105;
	turn();
	assert_int_equal(test.its[0].drives, 106);
	assert_false(test.has_timeout);
	comm->state = COMM_JOINING; /* what came may be a WELCOME */
	test.its[0].busy = 107;
	turn();
	timeout_is(0);
	assert_true(comm->watched_until_ns == 0);
	turn();
	assert_false(test.has_timeout); /* nothing came */
	set_free();
	background_remove(comm);
}

/* ---- kicks and reminders ---- */

/* Of what it waits for: the bell, or the timer. */
static bool is_ready(uint32_t i)
{
	struct pollfd poll = { .fd = test.polls[i].fd, .events = POLLIN };
	const struct timespec at_once = { 0 };

	return __real_ppoll(&poll, 1, &at_once, NULL) == 1;
}

static bool is_bell(void)
{
	return is_ready(0);
}

/* How often it was rung since the thread last looked; that stays as it is. */
static uint64_t rings(void)
{
	uint64_t count = 0;

	assert_int_equal(read(test.polls[0].fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(write(test.polls[0].fd, &count, sizeof(count)), sizeof(count));
	return count;
}

static void kick__wakes_the_thread_each_time(void **state)
{
	(void)state;
	begin(0);
	turn(); /* for the new one it was kicked, too */
	assert_false(is_bell());
	for (uint32_t i = 0; i < 2; i++) {
		wake_background();
		wake_background();
		assert_true(is_bell());
		assert_int_equal(rings(), 1); /* the second has nothing to do */
		turn();
		assert_false(is_bell());
	}
	add(1); /* who is new is served at once */
	assert_true(is_bell());
	set_free();
	background_remove(&test.comms[0]);
	background_remove(&test.comms[1]);
}

/* Another thread kicks while the thread takes the last kick: that is seen in this turn, and the next one rings again. */
static void kick__while_one_is_taken_stops_no_later_one(void **state)
{
	(void)state;
	begin(0);
	turn();
	wake_background();
	test.kicks_at_read = true;
	turn();
	assert_false(test.kicks_at_read);
	assert_false(is_bell());
	wake_background();
	assert_true(is_bell());
	set_free();
	background_remove(&test.comms[0]);
}

static void remind__sets_the_timer_to_the_earliest(void **state)
{
	(void)state;
	begin(0);
	wake_background_at(UINT64_MAX);
	assert_int_equal(test.sets, 0);
	wake_background_at(5 * second_ns + 20);
	assert_int_equal(test.sets, 1);
	assert_true(test.set_ns == 5 * second_ns + 20);
	wake_background_at(5 * second_ns + 20);
	wake_background_at(6 * second_ns);
	assert_int_equal(test.sets, 1);
	wake_background_at(4 * second_ns - 1);
	assert_int_equal(test.sets, 2);
	assert_true(test.set_ns == 4 * second_ns - 1);
	test.is_timer_over = true;
	turn();
	assert_false(is_ready(1));         /* it is read, or the thread would turn for ever */
	wake_background_at(7 * second_ns); /* now this is the earliest */
	assert_int_equal(test.sets, 3);
	assert_true(test.set_ns == 7 * second_ns);
	for (uint32_t i = 0; i < 2; i++) { /* by nothing, then by a kick */
		turn();
		wake_background_at(8 * second_ns);
		assert_int_equal(test.sets, 3);
		wake_background();
	}
	set_free();
	background_remove(&test.comms[0]);
}

/* Two at once: the timer must not stay at the later time, and of one that is over nothing is left. */
static void remind__of_two_at_once_the_earlier_stays(void **state)
{
	(void)state;
	begin(0);
	test.meanwhile_ns = 4 * second_ns;
	wake_background_at(5 * second_ns);
	assert_int_equal(test.sets, 3); /* the other's, ours, and the other's again */
	assert_true(test.set_ns == 4 * second_ns);
	test.is_over_meanwhile = true;
	wake_background_at(3 * second_ns);
	assert_int_equal(test.sets, 4);
	assert_true(test.set_ns == 3 * second_ns);
	wake_background_at(6 * second_ns);
	assert_int_equal(test.sets, 5);
	set_free();
	background_remove(&test.comms[0]);
}

/* ---- start and end ---- */

/* Whatever has the numbers of the thread's descriptors now is not written to. */
static void kick__without_a_thread_is_nothing(void **state)
{
	uint64_t count;
	int bell, other;

	(void)state;
	begin(0);
	bell = test.polls[0].fd;
	set_free();
	background_remove(&test.comms[0]);
	assert_int_equal(fcntl(bell, F_GETFD), -1);
	other = __real_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(dup2(other, bell), bell);
	if (other != bell)
		close(other);
	wake_background();
	assert_int_equal(read(bell, &count, sizeof(count)), -1);
	close(bell);
}

static void thread__ends_with_the_last_and_begins_with_the_next(void **state)
{
	(void)state;
	for (uint32_t life = 0; life < 2; life++) {
		struct pollfd own[2];

		atomic_store(&test.is_free, false);
		for (uint32_t i = 0; i < COMMS; i++)
			add(i);
		sleeps();
		turn();
		memcpy(own, test.polls, sizeof(own));
		for (uint32_t i = 0; i < 2; i++)
			assert_true(fcntl(own[i].fd, F_GETFL) & O_NONBLOCK);
		set_free();
		background_remove(&test.comms[1]);
		assert_false(test.comms[1].is_removed); /* the thread has taken it out */
		test.its[1].services = 0;
		background_remove(&test.comms[0]);
		assert_int_equal(fcntl(own[0].fd, F_GETFD), FD_CLOEXEC);
		assert_int_equal(test.joins, life);
		background_remove(&test.comms[2]);
		assert_int_equal(test.joins, life + 1);
		assert_int_equal(test.blocks, 0);
		assert_int_equal(test.its[1].services, 0);
		assert_int_equal(fcntl(own[0].fd, F_GETFD), -1);
		assert_int_equal(fcntl(own[1].fd, F_GETFD), -1);
		sem_destroy(&test.is_asleep);
		sem_destroy(&test.may_wake);
		sem_init(&test.is_asleep, 0, 0);
		sem_init(&test.may_wake, 0, 0);
	}
}

static void refused(int result, const char *words)
{
	int free_fd = dup(0);

	assert_true(free_fd >= 0);
	close(free_fd);
	assert_int_equal(background_add(&test.comms[0]), result);
	assert_string_equal(tally_get_last_error(NULL), words);
	assert_true(test.blocks <= 1);     /* the room for the thread to wait with may stay */
	assert_int_equal(dup(0), free_fd); /* it has closed what it had opened */
	close(free_fd);
}

/* It is one as any other, in a process that has closed its input. */
static void no_descriptor_0_is_left(void)
{
	int input = dup(0), result;
	bool is_there;

	assert_true(input > 0);
	close(0);
	result = background_add(&test.comms[0]);
	is_there = fcntl(0, F_GETFD) >= 0;
	dup2(input, 0);
	close(input);
	assert_int_equal(result, TALLY_ERR_SYSTEM);
	assert_false(is_there);
}

/* This one comes first: the handlers of forks are set once in a process. */
static void thread__that_cannot_begin_is_an_error(void **state)
{
	(void)state;
	tally_set_log(TALLY_LOG_ERROR, NULL, NULL);
	test.short_at = test.mallocs + 1;
	refused(TALLY_ERR_NO_MEMORY, "tally_comm_init: out of memory");
	test.short_at = test.mallocs + 2;
	refused(TALLY_ERR_SYSTEM, "tally_comm_init: no background thread: Cannot allocate memory");
	test.short_at = 0;
	assert_int_equal(test.atforks, 0);
	test.atfork_error = ENOMEM;
	refused(TALLY_ERR_SYSTEM, "tally_comm_init: no background thread: Cannot allocate memory");
	assert_int_equal(test.atforks, 1);
	test.atfork_error = 0;
	test.eventfd_error = EMFILE;
	refused(TALLY_ERR_SYSTEM, "tally_comm_init: no background thread: Too many open files");
	assert_int_equal(test.atforks, 2);
	test.eventfd_error = 0;
	test.timerfd_error = ENFILE;
	refused(TALLY_ERR_SYSTEM,
		"tally_comm_init: no background thread: Too many open files in system");
	no_descriptor_0_is_left(); /* the bell's */
	test.timerfd_error = 0;
	test.eventfd_error = EMFILE;
	no_descriptor_0_is_left(); /* the timer's */
	test.eventfd_error = 0;
	test.thread_error = EAGAIN;
	refused(TALLY_ERR_SYSTEM,
		"tally_comm_init: no background thread: Resource temporarily unavailable");
	test.thread_error = 0;
	add(0);
	sleeps();
	assert_int_equal(test.atforks, 2); /* once is enough */
	set_free();
	background_remove(&test.comms[0]);
	assert_int_equal(test.blocks, 0);
}

/* A program may have closed it, and a call before this one may have failed. */
static void descriptor_0_is(uint32_t which, int input)
{
	errno = EMFILE;
	begin(0);
	assert_int_equal(test.polls[which].fd, 0);
	set_free();
	background_remove(&test.comms[0]);
	assert_int_equal(dup2(input, 0), 0);
	close(input);
}

static void thread__may_have_descriptor_0(void **state)
{
	int input = dup(0);

	(void)state;
	assert_true(input > 0);
	close(0);
	descriptor_0_is(0, input);
}

static void thread__may_have_descriptor_0_for_its_timer(void **state)
{
	int input = dup(0);

	(void)state;
	assert_true(input > 0);
	test.closes_input = true;
	descriptor_0_is(1, input);
}

/* Each is the program's: the thread has all of them blocked, and who begins it what he had before. */
static void thread__gets_no_signal(void **state)
{
	sigset_t mine, after;

	(void)state;
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	begin(0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int i = SIGHUP; i < SIGSYS; i++) {
		assert_int_equal(sigismember(&after, i), i == SIGUSR2);
		if (i != SIGKILL && i != SIGSTOP)
			assert_int_equal(sigismember(&test.mask, i), 1);
	}
	sigemptyset(&mine);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	set_free();
	background_remove(&test.comms[0]);
}

/* ---- fork ---- */

/* 0, or the number of what is wrong: assertions of a child are nobody's. */
static int child_is_right(const struct pollfd own[2], unsigned epoch)
{
	if (present_epoch() != epoch + 1)
		return 1;
	if (test.forgets != 3 || test.local_forgets != 3 || test.present_forks != 1)
		return 2;
	if (test.report_dones != 1 || test.timeline_children != 1 || test.timeline_parents)
		return 3;
	if (fcntl(own[0].fd, F_GETFD) >= 0 || fcntl(own[1].fd, F_GETFD) >= 0)
		return 4;
	if (fcntl(UDP_FD, F_GETFD) >= 0 || fcntl(UDP_FD + 1, F_GETFD) < 0)
		return 5; /* the second one has no link: what has that number is not its */
	/* A thread of its own, which serves nobody but its own. */
	test.its[0].services = test.its[1].services = 0;
	sem_init(&test.is_asleep, 0, 0);
	sem_init(&test.may_wake, 0, 0);
	test.comms[2].epoch = epoch + 1;
	if (background_add(&test.comms[2]))
		return 6;
	sleeps();
	if (!test.its[2].services)
		turn();
	if (test.its[0].services || test.its[1].services || test.its[2].services != 1)
		return 7;
	set_free();
	background_remove(&test.comms[2]);
	return 0;
}

static void fork__leaves_the_child_nothing_of_the_thread(void **state)
{
	unsigned epoch = present_epoch();
	struct pollfd own[2];
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(dup2(0, UDP_FD), UDP_FD);
	assert_int_equal(dup2(0, UDP_FD + 1), UDP_FD + 1);
	test.comms[1].link = NULL;
	add(0);
	add(1);
	sleeps();
	turn();
	memcpy(own, test.polls, sizeof(own));
	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		alarm(60);
		_exit(child_is_right(own, epoch));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(test.report_prepares, 1);
	assert_int_equal(test.timeline_prepares, 1);
	assert_int_equal(test.report_dones, 1);
	assert_int_equal(test.timeline_parents, 1);
	assert_int_equal(test.timeline_children + test.present_forks + test.forgets, 0);
	assert_int_equal(present_epoch(), epoch);
	turn(); /* the parent's thread goes on */
	set_free();
	background_remove(&test.comms[0]);
	background_remove(&test.comms[1]);
	assert_int_equal(fcntl(UDP_FD, F_GETFD), 0);
	close(UDP_FD);
	close(UDP_FD + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup(claim, setup)
		T(thread__that_cannot_begin_is_an_error), /* first */
		T(thread__may_have_descriptor_0),
		T(thread__may_have_descriptor_0_for_its_timer),
		T(thread__gets_no_signal),
		T(thread__waits_for_all_that_it_serves),
		T(thread__drives_what_nobody_else_does),
		T(thread__drives_64_bursts_or_until_somebody_wants_the_lock),
		T(kick__wakes_the_thread_each_time),
		T(kick__while_one_is_taken_stops_no_later_one),
		T(remind__sets_the_timer_to_the_earliest),
		T(remind__of_two_at_once_the_earlier_stays),
		T(kick__without_a_thread_is_nothing),
		T(thread__ends_with_the_last_and_begins_with_the_next),
		T(fork__leaves_the_child_nothing_of_the_thread),
#undef T
	};

	alarm(60);
	return cmocka_run_group_tests_name("lib-background", tests, NULL, NULL);
}
