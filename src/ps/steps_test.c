/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that all workers make together, and those that wait for them: docs/protocol.md, R-KV-15 to R-KV-17. */
#include "ps/server_fixture.h"

static const float RATE = 0.5f;

/* AdaGrad's steps show how many there were. */
static int setup_sync(void **state)
{
	options_begin();
	table.table.is_sync = true;
	table.table.optimiser = optimiser_default(OPTIMISER_ADAGRAD);
	table.table.optimiser.rate = RATE;
	table.table.optimiser.epsilon = 0;
	return begin(state);
}

static int open_as(uint16_t worker, uint64_t incarnation, enum kv_mode mode, uint32_t staleness,
		   enum kv_type answer)
{
	struct kv_message hello = hello_of(worker, incarnation);
	struct kv_message open = { .type = KV_OPEN,
				   .name = "t",
				   .servers = 1,
				   .dim = DIM,
				   .mode = mode,
				   .staleness = staleness };
	int fd = connect_one();

	say(fd, &hello);
	hear(fd, KV_WELCOME);
	say(fd, &open);
	if (answer == KV_OPENED)
		hear(fd, KV_OPENED);
	return fd;
}

static int open_sync(uint16_t worker, uint64_t incarnation)
{
	return open_as(worker, incarnation, KV_SYNC, 0, KV_OPENED);
}

static void done(int fd, uint64_t number, uint64_t key, float value)
{
	batch_say(fd, number, key, value);
	hear(fd, KV_DONE);
	assert_int_equal(said.number, number);
}

/* Rows 5 and 6 have these first values; their second ones are the opposite. */
static void rows_are(int fd, float five, float six)
{
	pull_say(fd, 0, 0);
	hear(fd, KV_PULLED);
	if (said.value[0] != five || said.value[1] != -five || said.value[2] != six ||
	    said.value[3] != -six)
		fail_msg("%g %g %g %g, and not %g %g", (double)said.value[0], (double)said.value[1],
			 (double)said.value[2], (double)said.value[3], (double)five, (double)six);
}

/* What AdaGrad makes of these gradients, one step each. */
static float adagrad(float value, float *square, float gradient)
{
	*square += gradient * gradient;
	return value - RATE * gradient / sqrtf(*square);
}

static void steps__are_one_step_of_the_optimiser_with_all_sums(void **unused)
{
	int first = open_sync(0, 1), second = open_sync(1, 1);
	float five = 0, six = 0, five_square = 0, six_square = 0;

	(void)unused;
	assert_true(said.is_stepped);
	done(first, 1, 5, 2);
	done(first, 2, 5, 0.25f);
	done(second, 1, 5, -7);
	done(second, 2, 6, 3);
	rows_are(first, 0, 0); /* nothing of a step that is not over */
	barrier_say(first, 1);
	assert_true(is_quiet(first));
	rows_are(second, 0, 0);
	barrier_say(second, 1);
	barrier_hear(first, 1);
	barrier_hear(second, 1);
	five = adagrad(five, &five_square, 2 + 0.25f - 7);
	six = adagrad(six, &six_square, 3);
	rows_are(first, five, six);
	done(second, 3, 5, 1);
	rows_are(first, five, six);
	barrier_say(second, 2);
	barrier_say(first, 2);
	barrier_hear(first, 2);
	barrier_hear(second, 2);
	five = adagrad(five, &five_square, 1);
	rows_are(second, five, six);
	close(first);
	close(second);
}

static void steps__half_of_one_outlives_the_server(void **unused)
{
	int first, second;
	float five, square = 0;

	(void)unused;
	first = open_sync(0, 1);
	second = open_sync(1, 1);
	done(first, 1, 5, 2);
	done(second, 1, 5, 0.5f);
	barrier_say(first, 1);
	assert_true(is_quiet(first));
	close(first);
	close(second);
	end(NULL);
	assert_int_equal(begin(NULL), 0);
	first = open_sync(0, 1);
	second = open_sync(1, 1);
	assert_true(said.is_known);
	rows_are(first, 0, 0);
	barrier_say(second, 1);
	assert_true(is_quiet(second)); /* who had come has to say it again */
	barrier_say(first, 1);
	barrier_hear(first, 1);
	barrier_hear(second, 1);
	five = adagrad(0, &square, 2.5f);
	rows_are(first, five, 0);
	close(first);
	close(second);
	end(NULL);
	assert_int_equal(begin(NULL), 0);
	first = open_sync(0, 1);
	rows_are(first, five, 0);
	close(first);
}

/* A worker is killed, and another one comes in its place. */
static void steps__of_a_run_that_was_broken_is_dropped(void **unused)
{
	int first = open_sync(0, 1), second = open_sync(1, 1), again;
	float five, six, square = 0, six_square = 0;

	(void)unused;
	done(first, 1, 5, 2);
	done(second, 1, 5, 1000);
	barrier_say(first, 1);
	close(second);
	again = open_sync(1, 2);
	hear_no(first, KV_REFUSED_SUPERSEDED, "worker 1 (H, pid 77) has begun anew");
	hear_end(first);
	/* Whoever was in it is not taken again, not even by a server that was restarted. */
	first = open_as(0, 1, KV_SYNC, 0, KV_ERROR);
	hear_no(first, KV_REFUSED_SUPERSEDED, "is over");
	hear_end(first);
	close(again);
	end(NULL);
	assert_int_equal(begin(NULL), 0);
	first = open_as(0, 1, KV_SYNC, 0, KV_ERROR);
	hear_no(first, KV_REFUSED_SUPERSEDED, "is over");
	hear_end(first);
	/* What the new one pushes before the other is there counts. */
	again = open_sync(1, 2);
	done(again, 1, 5, 4);
	first = open_sync(0, 3);
	assert_int_equal(said.barrier, 0);
	barrier_say(again, 1);
	assert_true(is_quiet(again));
	done(first, 1, 6, 8);
	barrier_say(first, 1);
	barrier_hear(first, 1);
	barrier_hear(again, 1);
	five = adagrad(0, &square, 4);
	six = adagrad(0, &six_square, 8);
	rows_are(first, five, six);
	close(first);
	close(again);
}

/* A run that has ended well leaves nothing behind that is no whole step. */
static void steps__that_nobody_is_left_to_end_are_dropped(void **unused)
{
	int first = open_sync(0, 1), second = open_sync(1, 1);
	float six, square = 0;

	(void)unused;
	done(first, 1, 5, 2);
	done(second, 1, 5, 3);
	leave(first);
	leave(second);
	first = open_sync(0, 2);
	second = open_sync(1, 2);
	done(first, 1, 6, 1);
	barrier_say(first, 1);
	barrier_say(second, 1);
	barrier_hear(first, 1);
	six = adagrad(0, &square, 1);
	rows_are(first, 0, six);
	close(first);
	close(second);
}

static void steps__who_has_left_is_not_waited_for(void **unused)
{
	int first = open_sync(0, 1), second = open_sync(1, 1);
	float five, square = 0;

	(void)unused;
	done(second, 1, 5, 3);
	barrier_say(second, 1);
	leave(second);
	done(first, 1, 5, -1);
	barrier_say(first, 1);
	barrier_hear(first, 1);
	five = adagrad(0, &square, 2);
	rows_are(first, five, 0);
	done(first, 2, 5, 1);
	barrier_say(first, 2);
	barrier_hear(first, 2);
	rows_are(first, adagrad(five, &square, 1), 0);
	close(first);
}

static void steps__workers_that_disagree_are_refused_by_name(void **unused)
{
	int first, second;

	(void)unused;
	first = open_as(0, 1, KV_ASYNC, 0, KV_ERROR);
	hear_no(first, KV_REFUSED_MISMATCH,
		"table t is synchronous, mode=sync; worker 0 (H, pid 77) has opened it as an "
		"asynchronous one");
	close(first);
	end(NULL);
	table.table.is_sync = false;
	table.table.durability = PS_NONE;
	table.table.folder = NULL;
	assert_int_equal(begin(NULL), 0);
	first = open_as(0, 1, KV_SYNC, 0, KV_ERROR);
	hear_no(first, KV_REFUSED_MISMATCH, "table t is asynchronous, mode=async");
	close(first);
	first = open_as(0, 2, KV_BOUNDED, 3, KV_OPENED);
	assert_false(said.is_stepped);
	second = open_as(1, 1, KV_BOUNDED, 2, KV_ERROR);
	hear_no(second, KV_REFUSED_MISMATCH,
		"worker 0 (H, pid 77), which is here, as bounded, "
		"staleness 3");
	close(second);
	second = open_as(1, 1, KV_ASYNC, 0, KV_ERROR);
	hear_no(second, KV_REFUSED_MISMATCH, "has opened it as asynchronous, staleness 0");
	close(second);
	second = open_as(1, 1, KV_BOUNDED, 3, KV_OPENED);
	leave(first);
	leave(second);
	second = open_as(1, 2, KV_ASYNC, 0, KV_OPENED); /* another run */
	close(second);
}

static void steps__values_that_no_step_has_room_for_are_refused(void **unused)
{
	int fd = open_sync(0, 1), other = open_sync(1, 1);

	(void)unused;
	batch_say(fd, 1, 5, -0x1p46f);
	hear_no(fd, KV_REFUSED_MESSAGE, "2^46 or more");
	done(fd, 1, 5, 0x1.fffffep45f);
	close(fd);
	close(other);
}

/* R-KV-15: several may be unanswered. */
static void steps__of_a_bounded_worker_are_answered_as_they_are_passed(void **unused)
{
	int first, second;

	(void)unused;
	end(NULL);
	table.table.is_sync = false;
	table.table.durability = PS_NONE;
	table.table.folder = NULL;
	assert_int_equal(begin(NULL), 0);
	first = open_as(0, 1, KV_BOUNDED, 2, KV_OPENED);
	second = open_as(1, 1, KV_BOUNDED, 2, KV_OPENED);
	barrier_say(first, 1);
	barrier_say(first, 2);
	barrier_say(first, 3);
	assert_true(is_quiet(first));
	barrier_say(second, 1);
	barrier_hear(second, 1);
	barrier_hear(first, 1);
	barrier_say(second, 2);
	barrier_hear(first, 2);
	barrier_hear(second, 2);
	leave(second);
	barrier_hear(first, 3);
	close(first);
}

/* R-KV-17 */
static void steps__that_wait_for_who_has_gone_end_with_its_name(void **unused)
{
	int first, second;
	struct timespec since, now;

	(void)unused;
	end(NULL);
	options.heartbeat_ms = 400; /* `first` may be held up for 3 s, and is still not given up */
	assert_int_equal(begin(NULL), 0);
	first = open_sync(0, 1);
	second = open_sync(1, 1);
	close(second);
	usleep(150000);
	second = open_sync(1, 1); /* it has only lost its connection */
	barrier_say(first, 1);
	clock_gettime(CLOCK_MONOTONIC, &since);
	close(second);
	for (int i = 0; i < 30; i++) { /* it is there all the time */
		say(first, &(struct kv_message){ .type = KV_ALIVE });
		usleep(100000);
	}
	hear_no(first, KV_REFUSED_GONE, "worker 1 has gone");
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_non_null(strstr(said.text, "has not ended step 1"));
	assert_int_equal(said.about, KV_BARRIER);
	assert_true(now.tv_sec - since.tv_sec < 10);
	close(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_sync, end)
		TEST(steps__are_one_step_of_the_optimiser_with_all_sums),
		TEST(steps__half_of_one_outlives_the_server),
		TEST(steps__of_a_run_that_was_broken_is_dropped),
		TEST(steps__that_nobody_is_left_to_end_are_dropped),
		TEST(steps__who_has_left_is_not_waited_for),
		TEST(steps__workers_that_disagree_are_refused_by_name),
		TEST(steps__values_that_no_step_has_room_for_are_refused),
		TEST(steps__of_a_bounded_worker_are_answered_as_they_are_passed),
		TEST(steps__that_wait_for_who_has_gone_end_with_its_name),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
