/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is over leaves nothing behind: what nobody reads any more is 0 again. So nothing of it is taken for
 * something of the next round or life, and a search sees that both begin alike.
 */
#include "core/job/admission_fixture.h"

/* A copy of all memory, to be freed. */
static struct admission *kept(void)
{
	size_t bytes = admission_bytes(&t.config);
	struct admission *copy = malloc(bytes);

	assert_non_null(copy);
	memcpy(copy, t.admission, bytes);
	return copy;
}

/* All is as it was, but for clocks, serials and how the last one ended. */
static void assert_same_but_clocks(struct admission *before)
{
	const struct admission *now = t.admission;

	before->since_ns = now->since_ns;
	before->tick_ns = now->tick_ns;
	before->beat_ns = now->beat_ns;
	before->progress_ns = now->progress_ns;
	before->ping = now->ping;
	before->round = now->round;
	before->last_cause = now->last_cause;
	before->last_rank = now->last_rank;
	assert_memory_equal(now, before, admission_bytes(&t.config));
	free(before);
}

static void say_expired(uint32_t connection, uint64_t number, uint32_t waited_ms)
{
	say_stall_of(connection, (struct control_stall){ .number = number,
							 .waited_ms = waited_ms,
							 .is_expired = 1 });
}

/* A life in which everything happens at once; rank 1 is lost in the midst of it. */
static void live_badly(void)
{
	struct control_op ops[] = { allreduce(4, 5), allreduce(5, 5) };

	bring_to(ADMISSION_STARTED, 10, 3);
	wait_seconds(1);
	join(20, 2, 3);
	step((struct admission_event){
		.type = ADMISSION_MISFIT, .rank = 1, .count = 3, .misfit = 2 });
	say_stall(10, 4);
	say_opinfo(10, 6, ops, 2);
	say_opinfo(12, 5, ops, 1);
	step((struct admission_event){ .type = ADMISSION_MISMATCH, .rank = 1, .other = 2 });
	say_stall(12, 5);
	say_expired(12, 5, 2000);
	say_opinfo(12, 5, ops, 1);
	close_connection(20);
	close_connection(11);
	assert_state(ADMISSION_DRAIN);
}

static void admission__a_life_that_is_over_leaves_nothing(void **state)
{
	struct admission *fresh = kept();

	(void)state;
	live_badly();
	close_connection(10);
	close_connection(12);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_state(ADMISSION_NONE);
	assert_same_but_clocks(fresh);
}

static void admission__a_life_that_ends_forgets_whom_it_asked(void **state)
{
	const struct turn turn = { .admission = t.admission, .config = &t.config };
	const struct admission_peer *waiter = admission_waiters(&turn);

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	join(20, 0, 2);
	assert_int_equal(waiter->pulse, ADMISSION_ASKED);
	close_connection(10);
	assert_state(ADMISSION_DRAIN);
	assert_int_equal(waiter->pulse, ADMISSION_UNASKED);
}

static void admission__a_gathering_that_is_over_leaves_nothing(void **state)
{
	struct admission *fresh;

	(void)state;
	event(ADMISSION_TICK); /* the first: all clocks begin */
	fresh = kept();
	prepare_join(10, 1, 3);
	t.message.join.timeout_ms = 2000;
	say(10);
	join(20, 1, 3);
	close_connection(20);
	join(12, 2, 3);
	close_connection(12);
	wait_seconds(2);
	assert_state(ADMISSION_NONE);
	assert_same_but_clocks(fresh);
}

static void admission__a_round_that_is_over_leaves_what_was_answered(void **state)
{
	struct control_op ops[] = { allreduce(5, 5), allreduce(7, 5) };
	struct admission *before;

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	before = kept();
	say_stall(10, 5);
	say_expired(11, 4, 700);                       /* it is complete meanwhile */
	for (uint32_t round = 0; round < 2; round++) { /* of the STALL, and of the deadline */
		say_opinfo(10, 8, ops, 2);
		say_opinfo(11, 8, ops, 2);
	}
	assert_int_equal(t.admission->query, ADMISSION_QUIET);
	for (uint32_t rank = 0; rank < 2; rank++) { /* what each has said is of use later */
		struct admission_member *member = admission_member(t.admission, rank);

		assert_int_equal(member->submitted, 8);
		assert_int_equal(member->oldest, 5);
		assert_int_equal(member->about, ADMISSION_ABOUT_UNKNOWN);
		*admission_member(before, rank) = *member;
	}
	before->complete = t.admission->complete;
	assert_same_but_clocks(before);
}

static void admission__clocks_that_begin_again_forget_who_stood_still(void **state)
{
	const struct admission_member *member;

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	say_stall(10, 4);
	member = admission_member(t.admission, 0);
	assert_true(member->is_still);
	assert_int_equal(member->still_number, 4);
	assert_true(member->still_ns == t.now_ns);
	assert_true(member->still_said_ns == t.now_ns);
	t.now_ns += 60 * second_ns; /* asleep */
	event(ADMISSION_TICK);
	assert_false(member->is_still);
	assert_int_equal(member->still_number, 0);
	assert_int_equal(member->still_ns, 0);
	assert_int_equal(member->still_said_ns, 0);
}

static void admission__who_waited_for_a_refused_gathering_is_forgotten(void **state)
{
	struct admission *fresh = kept();
	size_t bytes = admission_bytes(&t.config);

	(void)state;
	join(10, 0, 2);
	join(20, 0, 2);
	join(21, 0, 2);
	prepare_join(11, 1, 2);
	t.message.join.version_min = t.message.join.version_max = CONTROL_VERSION + 1;
	say(11);
	assert_state(ADMISSION_NONE);
	assert_memory_equal(admission_member(t.admission, 0), admission_member(fresh, 0),
			    bytes - sizeof(*fresh) - 2ul * t.config.text_max /* the refusal stays */
				    - t.config.members_max * sizeof(uint64_t));
	free(fresh);
}

/* A rank is no more than a number in a JOIN that fits nothing. */
static void admission__a_misfit_beyond_all_ranks_is_not_noted(void **state)
{
	struct admission *before;

	(void)state;
	join(10, 0, 2);
	before = kept();
	prepare_join(11, t.config.members_max, 2);
	t.message.join.version_min = t.message.join.version_max = CONTROL_VERSION + 1;
	say(11);
	assert_state(ADMISSION_GATHER);
	assert_memory_equal(&t.admission->unfit.ranks, &before->unfit.ranks,
			    sizeof(before->unfit.ranks));
	free(before);
}

static void admission__who_waited_when_it_shuts_down_is_forgotten(void **state)
{
	struct admission *before;

	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	before = kept();
	join(20, 0, 3);
	join(21, 2, 3);
	join(22, 2, 3);
	t.done[0] = 0;
	event(ADMISSION_TERMINATE);
	assert_done("deny>20 close>20 deny>21 close>21 deny>22 close>22");
	assert_int_equal(t.admission->is_terminating, 1);
	before->is_terminating = 1;
	for (uint32_t rank = 0; rank < 2; rank++) /* it has been asked whether it lives */
		*admission_member(before, rank) = *admission_member(t.admission, rank);
	before->asked_ns = t.admission->asked_ns;
	before->page_ns = t.admission->page_ns;
	assert_same_but_clocks(before);
}

static void admission__a_life_that_ended_well_is_no_ones_verdict(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	close_connection(11);
	close_connection(10);
	acknowledge(ADMISSION_JOB_REMOVE);
	assert_int_equal(t.admission->last_cause, CONTROL_REMOTE);
	assert_int_equal(t.admission->last_rank, 1);
	bring_to(ADMISSION_STARTED, 20, 2);
	say_leave(20, 0);
	say_leave(21, 0);
	assert_int_equal(t.admission->last_cause, CONTROL_OK);
	assert_int_equal(t.admission->last_rank, CONTROL_RANK_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(admission__a_life_that_is_over_leaves_nothing),
		TEST(admission__a_life_that_ends_forgets_whom_it_asked),
		TEST(admission__a_gathering_that_is_over_leaves_nothing),
		TEST(admission__a_round_that_is_over_leaves_what_was_answered),
		TEST(admission__clocks_that_begin_again_forget_who_stood_still),
		TEST(admission__who_waited_for_a_refused_gathering_is_forgotten),
		TEST(admission__a_misfit_beyond_all_ranks_is_not_noted),
		TEST(admission__who_waited_when_it_shuts_down_is_forgotten),
		TEST(admission__a_life_that_ended_well_is_no_ones_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
