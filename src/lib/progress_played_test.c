/* SPDX-License-Identifier: Apache-2.0 */
/* progress_played_test.c - who drives and when, to the nanosecond: clock, endpoint and other threads are played. */
#include "lib/played_fixture.h"

static const uint64_t patience_ns = 100000; /* what the background thread waits for, at least */

static bool never(struct tally_comm *comm, void *arg)
{
	(void)comm;
	(void)arg;
	return false;
}

static bool is_flag(struct tally_comm *comm, void *arg)
{
	(void)comm;
	return *(bool *)arg;
}

/* ---- a burst ---- */

static void drive__completes_all_that_the_endpoint_has_done(void **state)
{
	struct tally_work *works[130];

	(void)state;
	for (uint32_t i = 0; i < 130; i++)
		is_done(works[i] = outstanding(i));
	works[129]->is_out_of_range = true;
	test.comm.is_left = true;
	assert_false(progress_drive(&test.comm));
	assert_false(test.comm.is_left);
	assert_int_equal(test.polls, 1);
	assert_int_equal(test.comm.completed, 130);
	assert_int_equal(test.comm.last_complete, 130);
	assert_null(test.comm.outstanding.first);
	assert_int_equal(works[0]->result, TALLY_OK);
	assert_int_equal(works[128]->result, TALLY_OK);
	assert_int_equal(works[129]->result, TALLY_ERR_RANGE);
	assert_int_equal(atomic_load(&test.comm.error), TALLY_OK);
}

static void drive__goes_on_while_there_is_something_to_do(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	test.busy = 1;
	assert_true(progress_drive(&test.comm));
	assert_false(progress_drive(&test.comm));
	test.room = 0;
	work_submit(&test.comm, work); /* it waits for room */
	assert_false(progress_drive(&test.comm));
	assert_int_equal(test.ops_count, 0);
	test.room = 1;
	assert_true(progress_drive(&test.comm));
	assert_int_equal(test.ops_count, 1);
	assert_false(progress_drive(&test.comm));
}

/* The others are told by the background thread. */
static void drive__that_fails_breaks_it_and_says_why(void **state)
{
	static const struct {
		enum endpoint_fault fault;
		enum control_cause cause;
		int result;
		const char *text;
	} cases[] = {
		{ ENDPOINT_LINK_ERROR, CONTROL_SYSTEM, TALLY_ERR_SYSTEM,
		  "the kernel refuses to send or receive on the UDP socket" },
		{ ENDPOINT_PROTOCOL_ERROR, CONTROL_INTERNAL, TALLY_ERR_INTERNAL,
		  "the aggregator answered a round that was not asked, or a rank has not sent its "
		  "part (a bug in tally)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tally_work *work;
		char whole[512];

		if (i) {
			teardown_locked(state);
			setup_locked(state);
		}
		work = outstanding(7);
		test.fault = cases[i].fault;
		assert_false(progress_drive(&test.comm));
		assert_int_equal(atomic_load(&test.comm.error), cases[i].result);
		assert_int_equal(work->result, cases[i].result);
		assert_true(test.comm.wants_error);
		assert_int_equal(test.comm.fault_cause, cases[i].cause);
		assert_string_equal(test.comm.fault_text, cases[i].text);
		assert_int_equal(test.kicks, 1);
		snprintf(whole, sizeof(whole),
			 "%s (rank 1 of 4 on here, job played; waiting for operation #7, barrier; "
			 "last complete operation: none)",
			 cases[i].text);
		assert_string_equal(test.comm.error_text, whole);
	}
}

/* ---- what is left to the background thread ---- */

static void left__is_what_nobody_has_touched_for_a_tenth_of_a_millisecond(void **state)
{
	uint64_t until_ns = 1;

	(void)state;
	test.now_ns = begin_ns + patience_ns - 1;
	assert_false(progress_is_left(&test.comm, true, &until_ns));
	assert_int_equal(until_ns, begin_ns + patience_ns);
	assert_int_equal(test.comm.look_ns, begin_ns + patience_ns);
	assert_int_equal(test.comm.patience_us, 0); /* it has not been asked to look */
	assert_false(progress_is_left(&test.comm, false, &until_ns));
	assert_true(until_ns == UINT64_MAX);
	test.now_ns++;
	assert_true(progress_is_left(&test.comm, true, &until_ns));
	assert_true(until_ns == UINT64_MAX);
	assert_int_equal(test.comm.look_ns, 0);
	test.now_ns += 9000 * ms;
	assert_false(progress_is_left(&test.comm, false, &until_ns)); /* somebody drives it */
}

/* A program that comes back each time is given longer, and one that does not as long as at first. */
static void left__is_later_each_time_that_the_program_comes_back(void **state)
{
	static const uint32_t patience_us[] = { 200, 400, 800, 1600, 1600, 1600 };
	uint64_t until_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(patience_us) / sizeof(patience_us[0]); i++) {
		test.now_ns += ms;
		test.comm.touched_ns = test.now_ns;
		test.comm.look_ns = test.now_ns + 1;
		assert_false(progress_is_left(&test.comm, true, &until_ns)); /* too early */
		test.comm.look_ns = test.now_ns;
		assert_false(progress_is_left(&test.comm, true, &until_ns));
		assert_int_equal(test.comm.patience_us, patience_us[i]);
		assert_int_equal(until_ns, test.now_ns + patience_us[i] * us);
		assert_int_equal(test.comm.look_ns, until_ns);
	}
	test.now_ns = until_ns;
	assert_true(progress_is_left(&test.comm, true, &until_ns));
	assert_int_equal(test.comm.patience_us, 100);
	assert_int_equal(test.comm.look_ns, 0);
}

/* What has not been sent waits no longer than the least. */
static void left__with_something_to_send_is_no_matter_of_patience(void **state)
{
	struct tally_work *work = outstanding(0);
	uint64_t until_ns;

	(void)state;
	test.comm.patience_us = 800;
	test.now_ns += patience_ns;
	test.next_ns = test.now_ns + 1;
	assert_false(progress_is_left(&test.comm, true, &until_ns));
	assert_int_equal(until_ns, begin_ns + 800 * us);
	test.next_ns = test.now_ns;
	assert_true(progress_is_left(&test.comm, true, &until_ns));
	test.next_ns = UINT64_MAX;
	assert_false(progress_is_left(&test.comm, true, &until_ns));
	for (uint32_t stream = 0; stream < MAP_STREAMS; stream++) {
		test.comm.waiting[stream].first = test.comm.waiting[stream].last = work;
		assert_true(progress_is_left(&test.comm, true, &until_ns));
		test.comm.waiting[stream].first = NULL;
	}
	assert_false(progress_is_left(&test.comm, true, &until_ns));
}

/* ---- what was just submitted ---- */

static void submitted__wakes_the_driver_that_waits(void **state)
{
	(void)state;
	outstanding(0);
	test.comm.is_driven = true;
	progress_submitted(&test.comm);
	assert_int_equal(test.wakes, 0); /* it will see it */
	test.comm.is_waiting = true;
	progress_submitted(&test.comm);
	progress_gathered(&test.comm);
	assert_int_equal(test.wakes, 2);
	assert_int_equal(test.begins + test.polls + test.reminds + test.broadcasts, 0);
}

static void submitted__is_begun_and_left_to_who_looks_after_it(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	outstanding(1);
	is_done(work);
	test.now_ns += 7 * us;
	progress_submitted(&test.comm);
	assert_int_equal(test.begins, 1);
	assert_int_equal(test.polls, 0);
	assert_int_equal(test.comm.completed, 1);
	assert_true(test.comm.is_left);
	assert_int_equal(test.comm.touched_ns, begin_ns + 7 * us);
	assert_int_equal(test.reminds, 1);
	assert_int_equal(test.remind_ns, begin_ns + 7 * us + patience_ns);
	assert_int_equal(test.comm.look_ns, test.remind_ns);
	test.now_ns += 7 * us;
	progress_submitted(&test.comm); /* of many in a row the first counts */
	assert_int_equal(test.comm.touched_ns, begin_ns + 7 * us);
	assert_int_equal(test.remind_ns, begin_ns + 7 * us + patience_ns);
	test.comm.look_ns = begin_ns + 9; /* somebody wants it earlier */
	progress_submitted(&test.comm);
	assert_int_equal(test.remind_ns, begin_ns + 9);
	test.comm.look_ns = begin_ns + 9000 * ms; /* and nobody later */
	progress_submitted(&test.comm);
	assert_int_equal(test.remind_ns, begin_ns + 7 * us + patience_ns);
	assert_int_equal(test.reminds, 4);
	assert_int_equal(test.kicks + test.broadcasts, 0);
}

static void submitted__asks_nobody_to_look_at_what_is_looked_after(void **state)
{
	(void)state;
	progress_submitted(&test.comm); /* nothing is on its way */
	assert_int_equal(test.reminds, 0);
	outstanding(0);
	test.comm.is_watched = true;
	test.comm.watched_until_ns = test.next_ns = begin_ns + 5;
	progress_submitted(&test.comm);
	assert_int_equal(test.reminds, 0);
	assert_false(test.comm.is_left);
	test.next_ns--; /* it would come too late */
	progress_submitted(&test.comm);
	assert_int_equal(test.reminds, 1);
	test.comm.sleepers = 1; /* who sleeps here will drive */
	progress_submitted(&test.comm);
	assert_int_equal(test.reminds, 1);
	assert_int_equal(test.broadcasts, 1);
	assert_int_equal(test.begins, 4);
}

static void submitted__to_what_is_broken_or_not_open_sends_nothing(void **state)
{
	(void)state;
	atomic_store(&test.comm.error, TALLY_ERR_REMOTE);
	progress_submitted(&test.comm);
	atomic_store(&test.comm.error, TALLY_OK);
	test.comm.endpoint = NULL;
	outstanding(0);
	progress_submitted(&test.comm);
	progress_gathered(&test.comm);
	assert_int_equal(test.begins + test.polls + test.reminds, 0);
}

/* It may wait for what follows, but not for ever. */
static void gathered__is_not_begun_but_looked_after(void **state)
{
	(void)state;
	outstanding(0);
	test.comm.is_watched = true; /* though it does not know of this one */
	progress_gathered(&test.comm);
	assert_int_equal(test.reminds, 1);
	assert_int_equal(test.remind_ns, begin_ns + patience_ns);
	test.comm.sleepers = 1;
	progress_gathered(&test.comm);
	assert_int_equal(test.reminds, 1);
	assert_int_equal(test.broadcasts, 1);
	assert_int_equal(test.begins + test.polls, 0);
}

static void look__leaves_it_looked_after(void **state)
{
	(void)state;
	assert_false(progress_look(&test.comm));
	assert_int_equal(test.reminds, 0);
	outstanding(0);
	test.busy = 2;
	assert_true(progress_look(&test.comm));
	assert_int_equal(test.reminds, 1);
	test.comm.is_driven = true;
	assert_false(progress_look(&test.comm));
	test.comm.is_driven = false;
	test.comm.sleepers = 1;
	assert_false(progress_look(&test.comm));
	assert_int_equal(test.reminds, 1);
	assert_int_equal(test.polls, 4);
}

static void notify__wakes_who_sleeps_and_who_waits_on_the_link(void **state)
{
	(void)state;
	wake_waiters(&test.comm);
	assert_int_equal(test.broadcasts + test.wakes, 0);
	test.comm.sleepers = 1;
	wake_waiters(&test.comm);
	assert_int_equal(test.broadcasts, 1);
	assert_int_equal(test.wakes, 0);
	test.comm.sleepers = 0;
	test.comm.is_waiting = true;
	wake_waiters(&test.comm);
	assert_int_equal(test.broadcasts, 1);
	assert_int_equal(test.wakes, 1);
}

/* ---- functions of the program ---- */

static struct {
	uint64_t numbers[4];
	uint32_t count;
	bool was_calling, had_group;
} called;

static void call_note(struct tally_work *work, int result, void *arg)
{
	lock_is_free();
	assert_int_equal(result, TALLY_OK);
	assert_ptr_equal(arg, &called);
	called.was_calling = present_is_calling();
	called.had_group = group_is_open();
	called.numbers[called.count++] = work->op.number;
	comm_lock(&test.comm);
	progress_callbacks(&test.comm); /* those of others wait until this one returns */
	comm_unlock(&test.comm);
}

static void callbacks__run_in_order_one_at_a_time_without_the_lock(void **state)
{
	struct tally_work *works[3];

	(void)state;
	memset(&called, 0, sizeof(called));
	for (uint32_t i = 0; i < 3; i++) {
		is_done(works[i] = outstanding(i));
		works[i]->done_fn = call_note;
		works[i]->done_arg = &called;
	}
	assert_int_equal(tally_group_start(), TALLY_OK);
	progress_drive(&test.comm);
	assert_int_equal(atomic_load(&works[0]->state), WORK_CALLING);
	assert_int_equal(called.count, 0);
	test.comm.sleepers = 1;
	progress_callbacks(&test.comm);
	comm_unlock(&test.comm);
	assert_true(group_is_open());
	assert_int_equal(tally_group_end(), TALLY_OK);
	assert_int_equal(called.count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(called.numbers[i], i);
		assert_int_equal(atomic_load(&works[i]->state), WORK_COMPLETE);
	}
	assert_true(called.was_calling);
	assert_false(called.had_group);
	assert_false(present_is_calling());
	assert_int_equal(test.calls, -3);
	assert_int_equal(test.broadcasts, 3);
	assert_ptr_equal(test.comm.complete.first, works[0]);
	assert_null(test.comm.calling.first);
	comm_lock(&test.comm);
}

static void drives_from_now_on(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	test.comm.is_driven = *(bool *)arg;
}

/* A submit runs what is due; a thread that has begun to drive meanwhile looks after the rest. */
static void submitted__runs_what_is_due_and_leaves_the_rest_to_a_driver(void **state)
{
	bool is_driven = false;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tally_work *work = outstanding((uint64_t)i);

		outstanding(9);
		work->done_fn = drives_from_now_on;
		work->done_arg = &is_driven;
		is_done(work);
		progress_submitted(&test.comm);
		assert_int_equal(atomic_load(&work->state), WORK_COMPLETE);
		assert_int_equal(test.comm.is_driven, is_driven);
		assert_int_equal(test.reminds, 1); /* none in the second case */
		is_driven = true;
	}
}

/* ---- waits ---- */

static enum progress_end wait_until(progress_over_fn is_over, void *arg, uint64_t until_ns)
{
	enum progress_end end;

	end = progress_wait(&test.comm, is_over, arg, until_ns, true);
	assert_int_equal(test.comm.sleepers, 0);
	assert_false(test.comm.is_waiting);
	assert_null(test.comm.blocked);
	return end;
}

static void wait__is_late_when_its_time_is_over_and_not_before(void **state)
{
	(void)state;
	outstanding(0);
	assert_int_equal(wait_until(never, NULL, test.now_ns), PROGRESS_LATE);
	assert_int_equal(test.polls, 0);
	assert_int_equal(wait_until(never, NULL, test.now_ns + 3 * us), PROGRESS_LATE);
	assert_int_equal(test.now_ns, begin_ns + 3 * us);
	assert_int_equal(test.waits, 1);
	assert_int_equal(test.wait_ns, begin_ns + 3 * us);
	test.next_ns = test.now_ns + us; /* the endpoint wants to be polled then */
	assert_int_equal(wait_until(never, NULL, test.now_ns + 9 * us), PROGRESS_LATE);
	assert_int_equal(test.sleeps, 0);
	assert_false(test.comm.is_driven);
	assert_true(test.comm.is_left); /* nobody drives it any more */
}

static void wait__drives_without_a_pause_while_there_is_something_to_do(void **state)
{
	(void)state;
	outstanding(0);
	test.busy = 5;
	test.next_ns = begin_ns + us;
	test.comm.contenders = 1;
	assert_int_equal(wait_until(never, NULL, begin_ns + us), PROGRESS_LATE);
	assert_int_equal(test.polls,
			 7); /* the last two have found nothing, before and after the wait */
	assert_int_equal(test.waits, 1);
	assert_int_equal(test.yields, 5); /* it lets in who wants the lock */
	test.comm.contenders = 0;
	test.busy = 20;
	assert_int_equal(wait_until(never, NULL, test.now_ns + us), PROGRESS_LATE);
	assert_int_equal(test.yields, 5);
}

/* What was just submitted is sent before a look for answers, each time that a thread begins to drive. */
static void wait__sends_before_it_looks(void **state)
{
	(void)state;
	outstanding(0);
	assert_int_equal(wait_until(never, NULL, begin_ns + us), PROGRESS_LATE);
	assert_int_equal(test.begins, 1);
	assert_int_equal(test.begun_polls, 0);
	assert_true(test.polls > 0);
}

static void driver_seen(void)
{
	assert_ptr_equal(test.comm.blocked->is_over, work_is_over);
	assert_int_equal(test.moved, 1);
	is_done(test.comm.outstanding.first);
}

/* R-CT-45: a wait for as long as it takes is told of. */
static void wait__for_as_long_as_it_takes_is_seen_by_others(void **state)
{
	struct tally_work *work = outstanding(3);

	(void)state;
	test.meanwhile = driver_seen;
	assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_OVER);
	assert_int_equal(test.moved, 2);
	assert_true(test.wait_ns == UINT64_MAX);
	assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_OVER);
	assert_int_equal(test.moved, 2); /* it is over already: nobody has waited */
}

static void sleeper_woken(void)
{
	assert_int_equal(test.comm.sleepers, 1);
	work_complete(&test.comm, test.comm.outstanding.first, TALLY_OK);
	assert_int_equal(test.broadcasts, 1);
	test.comm.is_driven = false;
}

static void wait__sleeps_while_another_thread_drives(void **state)
{
	struct tally_work *work = outstanding(3);

	(void)state;
	test.comm.is_driven = true;
	assert_int_equal(wait_until(never, NULL, begin_ns + 1300 * ms), PROGRESS_LATE);
	assert_int_equal(test.sleeps, 1);
	assert_int_equal(test.sleepers, 1);
	assert_int_equal(test.sleep_ns, begin_ns + 1300 * ms);
	assert_int_equal(test.reminds, 0); /* there is a driver */
	test.meanwhile = sleeper_woken;
	assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_OVER);
	assert_int_equal(test.sleeps, 2);
	assert_int_equal(test.polls + test.waits, 0);
}

/* There is nothing to drive: the background thread gets on with it. */
static void wait__sleeps_while_nothing_is_on_its_way(void **state)
{
	bool is_over = false;

	(void)state;
	assert_int_equal(wait_until(is_flag, &is_over, begin_ns + ms), PROGRESS_LATE);
	assert_int_equal(test.sleeps, 1);
	assert_int_equal(test.sleep_ns, begin_ns + ms);
	assert_int_equal(test.polls, 0);
	assert_false(test.comm.is_driven);
}

/* ---- waits that the program ends ---- */

static struct {
	uint32_t asks, until; /* the last says: end it */
	uint64_t at_ns[8];
	bool was_calling;
	bool completes; /* the last does */
} program;

static int asked(void *ctx)
{
	assert_ptr_equal(ctx, &program);
	lock_is_free();
	program.was_calling = present_is_calling();
	program.at_ns[program.asks++] = test.now_ns;
	if (program.asks < program.until)
		return 0;
	if (program.completes)
		work_complete(&test.comm, test.comm.outstanding.first, TALLY_OK);
	return 5;
}

static void program_asks(uint32_t until)
{
	memset(&program, 0, sizeof(program));
	program.until = until;
	test.comm.interrupted = asked;
	test.comm.interrupted_ctx = &program;
}

static void wait__asks_the_program_each_50_ms(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	for (int is_driven = 0; is_driven < 2; is_driven++) {
		uint64_t first_ns = test.now_ns;

		program_asks(3);
		test.comm.is_driven = is_driven;
		assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_INTERRUPTED);
		assert_int_equal(program.asks, 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(program.at_ns[i], first_ns + (i + 1) * 50 * ms);
		assert_true(program.was_calling);
		assert_false(present_is_calling());
		assert_int_equal(test.comm.is_driven, is_driven);
	}
	assert_int_equal(test.moved, 0); /* what may end at any time is no wait for ever */
}

static void wait__that_is_over_when_the_program_ends_it_is_over(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	program_asks(1);
	program.completes = true;
	assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_OVER);
	assert_int_equal(program.asks, 1);
}

static int complete_meanwhile(void *ctx)
{
	(void)ctx;
	work_complete(&test.comm, test.comm.outstanding.first, TALLY_OK);
	return 0;
}

/* The lock was free, and a driver that does not wait is not woken. */
static void wait__looks_at_what_has_happened_while_it_asked(void **state)
{
	struct tally_work *work = outstanding(0);

	(void)state;
	test.comm.interrupted = complete_meanwhile;
	assert_int_equal(wait_until(work_is_over, work, UINT64_MAX), PROGRESS_OVER);
	assert_int_equal(test.waits, 1);
	assert_int_equal(test.now_ns, begin_ns + 50 * ms);
}

static void wait__that_may_not_be_ended_does_not_ask(void **state)
{
	(void)state;
	program_asks(1);
	outstanding(0);
	assert_int_equal(progress_wait(&test.comm, never, NULL, begin_ns + 300 * ms, false),
			 PROGRESS_LATE);
	assert_int_equal(program.asks, 0);
	assert_int_equal(test.waits, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_locked, teardown_locked)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(drive__completes_all_that_the_endpoint_has_done),
		TEST(drive__goes_on_while_there_is_something_to_do),
		TEST(drive__that_fails_breaks_it_and_says_why),
		TEST(left__is_what_nobody_has_touched_for_a_tenth_of_a_millisecond),
		TEST(left__is_later_each_time_that_the_program_comes_back),
		TEST(left__with_something_to_send_is_no_matter_of_patience),
		TEST(submitted__wakes_the_driver_that_waits),
		TEST(submitted__is_begun_and_left_to_who_looks_after_it),
		TEST(submitted__asks_nobody_to_look_at_what_is_looked_after),
		TEST(submitted__to_what_is_broken_or_not_open_sends_nothing),
		TEST(gathered__is_not_begun_but_looked_after),
		TEST(look__leaves_it_looked_after),
		TEST(notify__wakes_who_sleeps_and_who_waits_on_the_link),
		TEST(callbacks__run_in_order_one_at_a_time_without_the_lock),
		TEST(submitted__runs_what_is_due_and_leaves_the_rest_to_a_driver),
		TEST(wait__is_late_when_its_time_is_over_and_not_before),
		TEST(wait__drives_without_a_pause_while_there_is_something_to_do),
		TEST(wait__sends_before_it_looks),
		TEST(wait__for_as_long_as_it_takes_is_seen_by_others),
		TEST(wait__sleeps_while_another_thread_drives),
		TEST(wait__sleeps_while_nothing_is_on_its_way),
		TEST(wait__asks_the_program_each_50_ms),
		TEST(wait__that_is_over_when_the_program_ends_it_is_over),
		TEST(wait__looks_at_what_has_happened_while_it_asked),
		TEST(wait__that_may_not_be_ended_does_not_ask),
	};

	return cmocka_run_group_tests_name("lib-progress-played", tests, NULL, NULL);
}
