/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that wait: WAITING, and deadlines. */
#include "core/job/admission_fixture.h"

static void say_stalled(uint32_t connection, uint64_t number, uint32_t waited_ms, bool is_expired)
{
	say_stall_of(connection, (struct control_stall){ .number = number,
							 .waited_ms = waited_ms,
							 .is_expired = is_expired });
}

/* ---- WAITING ---- */

static void admission__waiting_tells_all_whom_an_operation_waits_for(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 6) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stalled(10, 4, 1500, false);
	say_opinfo(10, 5, ops, 1);
	say_opinfo(11, 4, NULL, 0);
	t.done[0] = 0;
	say_opinfo(12, 4, NULL, 0);
	assert_done("waiting>10 waiting>11 waiting>12");
	assert_int_equal(t.actions.waiting.number, 4);
	assert_int_equal(t.actions.waiting.waited_ms, 1500);
	assert_int_equal(t.actions.waiting.missing_count, 2);
	assert_int_equal(t.actions.waiting.listed_count, 2);
	assert_int_equal(t.actions.waiting.missing[0], 1);
	assert_int_equal(t.actions.waiting.missing[1], 2);
	assert_string_equal(t.actions.waiting.text,
			    "operation 4 waits for rank 1 on host11, rank 2 on host12, for 1.5 s");
	assert_state(ADMISSION_STARTED);
}

static void admission__waiting_says_when_all_have_called(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 4, 700, false);
	say_opinfo(10, 5, ops, 1);
	say_opinfo(11, 5, ops, 1);
	assert_string_equal(t.actions.waiting.text,
			    "operation 4 is under way on all ranks, for 0.7 s");
	assert_int_equal(t.actions.waiting.missing_count, 0);
}

/* Two stall, one after the other's QUERY: each has its round, of the smallest number, the longest wait. */
static void admission__a_round_is_about_the_smallest_number_since_the_last(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 6), allreduce(5, 7) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 5, 9000, false);
	say_stalled(11, 5, 600, false);
	say_stalled(10, 4, 800, false);
	say_stalled(11, 4, 900, false);
	say_opinfo(10, 6, ops, 2);
	t.done[0] = 0;
	say_opinfo(11, 6, ops, 2);
	assert_done("waiting>10 waiting>11 query>10 query>11");
	assert_int_equal(t.actions.waiting.number, 5);
	assert_int_equal(t.actions.waiting.waited_ms, 9000);
	say_opinfo(10, 6, ops, 2);
	say_opinfo(11, 6, ops, 2);
	assert_int_equal(t.actions.waiting.number, 4);
	assert_int_equal(t.actions.waiting.waited_ms, 900);
}

static void admission__waiting_counts_more_ranks_than_it_lists(void **state)
{
	(void)state;
	enum { RANKS = 40 };
	struct control_op ops[] = { allreduce(0, 6) };

	free(t.admission);
	free(t.list);
	t.config.members_max = RANKS;
	t.admission = malloc(admission_bytes(&t.config));
	t.list = malloc(admission_actions_max(&t.config) * sizeof(*t.list));
	admission_init(t.admission, &t.config);
	bring_to(ADMISSION_STARTED, 100, RANKS);
	say_stalled(100, 0, 700, false);
	say_opinfo(100, 1, ops, 1);
	for (uint32_t rank = 1; rank < RANKS; rank++)
		say_opinfo(100 + rank, 0, NULL, 0);
	assert_int_equal(t.actions.waiting.missing_count, RANKS - 1);
	assert_int_equal(t.actions.waiting.listed_count, CONTROL_MISSING_MAX);
	assert_int_equal(t.actions.waiting.missing[0], 1);
	assert_int_equal(t.actions.waiting.missing[CONTROL_MISSING_MAX - 1], CONTROL_MISSING_MAX);
}

/* ---- deadlines ---- */

static void admission__an_expired_deadline_names_who_is_missing(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall_of(10, (struct control_stall){ .number = 3, .is_expired = 1 });
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 3, NULL, 0);
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "the deadline of operation 3 is over, 0.0 s after rank 0 on host10 called it: "
		    "not called yet by rank 1 on host11");
}

/* R-CT-56. */
static void admission__a_deadline_names_who_has_not_called_and_since_when(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stalled(12, 3, 30000, true);
	assert_done("query>10 query>11 query>12");
	say_opinfo(10, 4, ops, 1);
	say_opinfo(12, 4, ops, 1);
	say_opinfo(11, 3, NULL, 0);
	assert_done("abort>12 close>12 abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "the deadline of operation 3 is over, 30.0 s after rank 2 on host12 called it: "
		    "not called yet by rank 1 on host11");
}

static void admission__a_deadline_says_when_all_have_called(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 3, 250, true);
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 4, ops, 1);
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "the deadline of operation 3 is over, 0.2 s after rank 0 on host10 called it: "
		    "all ranks have called it, the network or one of them is slow");
}

static void admission__a_deadline_waits_1_s_for_answers_and_names_who_gave_none(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 3);
	event(ADMISSION_TICK);
	say_stalled(10, 3, 2000, true);
	assert_true(t.actions.wake_ns <= t.now_ns + second_ns);
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 3, NULL, 0);
	t.done[0] = 0;
	t.now_ns += second_ns - 1;
	event(ADMISSION_TICK);
	assert_done("");
	t.now_ns += 1;
	event(ADMISSION_TICK);
	assert_text(CONTROL_TIMEOUT, CONTROL_RANK_NONE,
		    "the deadline of operation 3 is over, 2.0 s after rank 0 on host10 called it: "
		    "not called yet by rank 1 on host11; no answer from rank 2 on host12");
	assert_state(ADMISSION_DRAIN);
}

static void admission__the_oldest_that_stalls_says_for_how_long(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 5) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 4, 700, false); /* asks at once; what comes now is of the next round */
	say_stalled(10, 5, 900, false);
	say_stalled(11, 4, 800, false);
	say_stalled(10, 4, 600, false); /* less */
	say_stalled(11, 6, 5000, false);
	for (uint32_t round = 0; round < 2; round++) {
		say_opinfo(10, 5, ops, 1);
		say_opinfo(11, 5, ops, 1);
		assert_int_equal(t.actions.waiting.number, 4);
		assert_int_equal(t.actions.waiting.waited_ms, round ? 800 : 700);
	}
	assert_int_equal(t.admission->query, ADMISSION_QUIET);
}

/* ---- pages without an end ---- */

static void say_more(uint32_t connection, uint64_t submitted, uint64_t number)
{
	struct control_op op = allreduce(number, 6);

	prepare(CONTROL_OPINFO);
	t.message.opinfo = (struct control_opinfo){ .round = t.round,
						    .ops_count = 1,
						    .has_more = true,
						    .submitted = submitted,
						    .oldest = 1,
						    .ops = &op };
	say(connection);
}

static void admission__pages_end_where_nobody_else_has_submitted(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 3);
	say_stalled(11, 4, 700, false);
	for (uint64_t page = 3; page < 5; page++) {
		t.done[0] = 0;
		say_more(10, UINT64_MAX, page);
		say_opinfo(11, 5, NULL, 0);
		say_opinfo(12, 4, NULL, 0);
		assert_done(page == 3 ? "query>10 query>11 query>12"
				      : "waiting>10 waiting>11 waiting>12");
	}
	assert_state(ADMISSION_STARTED);
}

static void admission__one_that_says_more_for_ever_delays_no_deadline(void **state)
{
	(void)state;
	uint64_t begun_ns, page = 1;

	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	begun_ns = t.now_ns;
	say_stalled(11, 99, 2000, true);
	while (t.admission->state == ADMISSION_STARTED && t.now_ns < begun_ns + 5 * second_ns) {
		say_more(10, 1000, page++);
		say_opinfo(11, 1000, NULL, 0);
		t.now_ns += second_ns / 5;
		event(ADMISSION_TICK);
	}
	assert_true(t.now_ns <= begun_ns + second_ns);
	assert_int_equal(t.cause, CONTROL_TIMEOUT);
}

static void admission__a_daemon_that_overslept_waits_for_answers_once_more(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	say_stalled(10, 3, 2000, true);
	t.done[0] = 0;
	t.now_ns += 20 * second_ns;
	event(ADMISSION_TICK);
	assert_done("");
	assert_state(ADMISSION_STARTED);
	wait_seconds(1);
	assert_state(ADMISSION_DRAIN);
}

static void admission__without_a_deadline_an_unanswered_round_waits(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 3, 2000, false);
	t.done[0] = 0;
	wait_seconds(3);
	assert_done("");
	assert_state(ADMISSION_STARTED);
}

/* The answers of the round that is on its way may be older than the deadline, or never come. */
static void admission__a_deadline_during_a_round_starts_it_again(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 3, 700, false);
	say_opinfo(11, 3, NULL, 0);
	uint32_t older = t.round;
	t.done[0] = 0;
	say_stalled(10, 3, 1000, true);
	assert_done("query>10 query>11");
	assert_int_equal(t.round, older + 1);
	say_stalled(11, 3, 1000, true); /* the next deadline does not start it once more */
	assert_done("");
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 4, ops, 1);
	assert_int_equal(t.cause, CONTROL_TIMEOUT);
	assert_non_null(strstr(t.text, "all ranks have called it"));
}

static void admission__a_deadline_forgets_no_mismatch(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_MISMATCH);
	say_stalled(10, 3, 1000, true);
	say_opinfo(10, 4, ops, 1);
	say_opinfo(11, 4, ops, 1);
	assert_int_equal(t.cause, CONTROL_INTERNAL);
}

static void admission__an_operation_that_ends_after_its_deadline_has_ended_well(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 3, 1000, true);
	say_opinfo(10, 4, NULL, 0);
	t.done[0] = 0;
	say_opinfo(11, 4, NULL, 0);
	assert_done("waiting>10 waiting>11");
	assert_string_equal(t.actions.waiting.text,
			    "operation 3 is complete on all ranks, for 1.0 s");
	assert_state(ADMISSION_STARTED);
}

/* A large one is under way for long; a small one, called later, is complete before anybody asks. */
static void admission__an_older_operation_under_way_ends_no_deadline_that_is_met(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(5, 1u << 30), allreduce(7, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 7, 1000, true);
	say_opinfo(10, 8, ops, 1);
	t.done[0] = 0;
	say_opinfo(11, 8, ops, 1);
	assert_done("waiting>10 waiting>11");
	assert_string_equal(t.actions.waiting.text,
			    "operation 7 is complete on all ranks, for 1.0 s");
	assert_state(ADMISSION_STARTED);
	say_stalled(10, 7, 1000, true); /* on one it is not */
	say_opinfo(10, 8, ops, 2);
	say_opinfo(11, 8, ops, 1);
	assert_int_equal(t.cause, CONTROL_TIMEOUT);
}

/* Alone in its job nobody's list is compared with its own; a page from that number on tells. */
static void admission__a_cut_list_is_asked_on_for_the_deadlines_number(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 1);
	for (uint64_t outstanding = 8; outstanding >= 7; outstanding--) {
		say_stalled(10, 7, 1000, true);
		t.done[0] = 0;
		say_more(10, 1000, 6); /* 7 may come next */
		assert_done("query>10");
		assert_int_equal(t.from, 7);
		say_more(10, 1000, outstanding);
		assert_int_equal(t.cause, outstanding == 7 ? CONTROL_TIMEOUT : CONTROL_OK);
	}
}

static void admission__pages_without_end_end_no_deadline_that_is_met(void **state)
{
	(void)state;
	uint64_t page = 50;

	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_TICK);
	say_stalled(11, 7, 2000, true);
	for (uint32_t i = 0; i < 20; i++) {
		say_more(10, 1000, page++);
		say_opinfo(11, 1000, NULL, 0);
		t.now_ns += second_ns / 5;
		event(ADMISSION_TICK);
	}
	assert_state(ADMISSION_STARTED);
	assert_string_equal(t.actions.waiting.text,
			    "operation 7 is complete on all ranks, for 2.0 s");
}

/* A page says nothing of the numbers before it: the first has listed what is waited for. */
static void admission__what_one_page_lists_the_next_does_not_make_complete(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 1, 5000, true);
	say_more(10, 3, 1);
	say_more(11, 3, 1);
	for (uint32_t rank = 0; rank < 2; rank++) {
		assert_state(ADMISSION_STARTED);
		assert_int_equal(t.from, 2);
		say_more(10 + rank, 3, 2);
	}
	assert_int_equal(t.cause, CONTROL_TIMEOUT);
}

static void admission__a_mismatch_is_a_better_cause_than_a_deadline(void **state)
{
	(void)state;
	struct control_op mine[] = { allreduce(3, 6) }, its[] = { allreduce(3, 7) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stalled(10, 3, 1000, true);
	for (uint32_t round = 0; round < 2; round++) {
		say_opinfo(10, 4, mine, 1);
		say_opinfo(11, 4, its, 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			admission__pages_end_where_nobody_else_has_submitted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			admission__one_that_says_more_for_ever_delays_no_deadline, set_up,
			tear_down),
		TEST(admission__waiting_tells_all_whom_an_operation_waits_for),
		TEST(admission__the_oldest_that_stalls_says_for_how_long),
		TEST(admission__waiting_says_when_all_have_called),
		TEST(admission__a_round_is_about_the_smallest_number_since_the_last),
		TEST(admission__waiting_counts_more_ranks_than_it_lists),
		TEST(admission__an_expired_deadline_names_who_is_missing),
		TEST(admission__a_deadline_names_who_has_not_called_and_since_when),
		TEST(admission__a_deadline_says_when_all_have_called),
		TEST(admission__a_deadline_waits_1_s_for_answers_and_names_who_gave_none),
		TEST(admission__a_daemon_that_overslept_waits_for_answers_once_more),
		TEST(admission__without_a_deadline_an_unanswered_round_waits),
		TEST(admission__a_deadline_during_a_round_starts_it_again),
		TEST(admission__a_deadline_forgets_no_mismatch),
		TEST(admission__an_operation_that_ends_after_its_deadline_has_ended_well),
		TEST(admission__an_older_operation_under_way_ends_no_deadline_that_is_met),
		TEST(admission__a_cut_list_is_asked_on_for_the_deadlines_number),
		TEST(admission__pages_without_end_end_no_deadline_that_is_met),
		TEST(admission__what_one_page_lists_the_next_does_not_make_complete),
		TEST(admission__a_mismatch_is_a_better_cause_than_a_deadline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
