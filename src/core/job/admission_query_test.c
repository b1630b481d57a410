/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who disagrees: rounds of QUERY and OPINFO, and what they find.
 */
#include "core/job/admission_fixture.h"

static void admission__stall_asks_all_and_waits_if_all_agree(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(4, 5) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(10, 4);
	assert_done("query>10 query>11 query>12");
	say_opinfo(10, 5, ops, 1);
	say_opinfo(11, 5, ops, 1);
	say_opinfo(12, 4, NULL, 0);
	assert_done("waiting>10 waiting>11 waiting>12");
	assert_state(ADMISSION_STARTED);
	assert_string_equal(t.log, "operation 4 waits for rank 2 on host12, for 0.0 s");
}

static void admission__mismatch_names_the_odd_rank_and_both_calls(void **state)
{
	(void)state;
	struct control_op common[] = { allreduce(4, 6) }, other[] = { allreduce(4, 5) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(10, 4);
	for (uint32_t pass = 0; pass < 2; pass++) {
		assert_done("query>10 query>11 query>12");
		assert_int_equal(t.from, pass ? 4 : 0);
		say_opinfo(10, 5, common, 1);
		say_opinfo(11, 5, other, 1);
		say_opinfo(12, 5, common, 1);
	}
	assert_done("abort>12 close>12 abort>11 close>11 abort>10 close>10 remove");
	assert_text(CONTROL_MISMATCH, 1,
		    "operation 4 differs: rank 1 on host11 calls allreduce of 5 int32, sum "
		    "(express); the others: rank 0 on host10, rank 2 on host12 call allreduce of 6 "
		    "int32, sum (express)");
}

static void admission__a_tie_names_both_groups_and_nobody_as_odd(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(0, 0) }, two[] = { allreduce(0, 5) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(11, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 1, one, 1);
		say_opinfo(11, 1, two, 1);
	}
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 0 differs: rank 0 on host10 calls allreduce of 0 int32, sum "
		    "(express); rank 1 on host11 calls allreduce of 5 int32, sum (express)");
}

static void admission__different_streams_are_a_mismatch(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(9, 64) }, two[] = { allreduce(9, 64) };

	two[0].stream = MAP_BULK;
	two[0].type = 7;
	two[0].op = 4;
	strcpy(two[0].name, "grad");
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(11, 9);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 10, one, 1);
		say_opinfo(11, 10, two, 1);
	}
	assert_text(
		CONTROL_MISMATCH, CONTROL_RANK_NONE,
		"operation 9 differs: rank 0 on host10 calls allreduce of 64 int32, sum (express); "
		"rank 1 on host11 calls allreduce of 64 float32, avg \"grad\" (bulk)");
}

/* Ranks 10, 11, ... call operations of the kinds from `first` on: t.text names them. */
static void kinds_called(uint32_t first, uint16_t count)
{
	struct control_op calls[CONTROL_OP_KIND_END];

	for (uint32_t i = 0; i < count; i++) {
		calls[i] = allreduce(0, 3);
		calls[i].kind = first + i;
		calls[i].root = 1;
		if (calls[i].kind == CONTROL_OP_ALLGATHER)
			calls[i].type = 8 | 2 << 8; /* R-NUM-15 */
		if (calls[i].kind == CONTROL_OP_BROADCAST)
			calls[i].type = 7 | 1 << 8;
		if (calls[i].kind == CONTROL_OP_REDUCE_SCATTER)
			calls[i].type = 7 | 3 << 8 | 130 << 16; /* R-NUM-16 */
		if (calls[i].kind == CONTROL_OP_GATHER)
			calls[i].type = 7 | 3 << 8 | 1 << 16;
		if (calls[i].kind == CONTROL_OP_SCATTER)
			calls[i].root = CONTROL_OP_SIZES + 5;
	}
	t.config.groups_max = CONTROL_OP_KIND_END; /* set_up lent memory for fewer */
	free(t.admission);
	t.admission = malloc(admission_bytes(&t.config));
	assert_non_null(t.admission);
	admission_init(t.admission, &t.config);
	bring_to(ADMISSION_STARTED, 10, count);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < count; i++)
			say_opinfo(10 + i, 1, &calls[i], 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
}

static void admission__every_kind_of_call_has_its_words(void **state)
{
	(void)state;
	kinds_called(CONTROL_OP_ALLREDUCE, 6);
	assert_non_null(strstr(t.text, "host10 calls allreduce of 3 int32, sum in several buffers "
				       "(list 1) (express); "));
	assert_non_null(strstr(t.text, "host11 calls barrier (express); "));
	assert_non_null(strstr(t.text, "host12 calls reduce of 3 int32, sum, root 1 (express); "));
	assert_non_null(strstr(t.text, "host13 calls broadcast of 3 float32 as halves, root 1 "
				       "(express); "));
	assert_non_null(strstr(t.text, "host14 calls allgather of 3 float64 exactly (express); "));
	assert_non_null(strstr(t.text, "host15 calls reduce_scatter of 3 float32 below 2^4, sum "
				       "(express)"));
}

static void admission__other_kinds_have_their_words_and_parts_of_given_sizes(void **state)
{
	(void)state;
	kinds_called(CONTROL_OP_GATHER, 3);
	assert_non_null(strstr(t.text, "host10 calls gather of 3 float32 below 2^-125, root 1 "
				       "(express); "));
	assert_non_null(strstr(t.text, "host11 calls scatter of 3 int32 in parts of given sizes "
				       "(list 2147483653, with the root) (express); "));
	assert_non_null(strstr(t.text, "host12 calls alltoall of 3 int32 (express)"));
}

static void admission__more_kinds_of_calls_than_it_can_keep_are_one_group(void **state)
{
	(void)state;
	struct control_op calls[6];

	bring_to(ADMISSION_STARTED, 10, 6);
	for (uint32_t i = 0; i < 6; i++)
		calls[i] = allreduce(0, i);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < 6; i++)
			say_opinfo(10 + i, 1, &calls[i], 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "rank 1 on host11 calls allreduce of 1 int32, sum"));
	assert_non_null(strstr(t.text, "ranks 3-5 call allreduce of 3 int32, sum (express) or"));
}

static void admission__nobody_is_odd_while_somebody_has_not_submitted(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(0, 6) }, two[] = { allreduce(0, 5) };

	bring_to(ADMISSION_STARTED, 10, 4);
	say_stall(10, 0);
	for (uint32_t pass = 0; pass < 2; pass++) {
		say_opinfo(10, 1, one, 1);
		say_opinfo(11, 1, one, 1);
		say_opinfo(12, 1, two, 1);
		say_opinfo(13, 0, NULL, 0);
	}
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 0 differs: rank 0 on host10, rank 1 on host11 call allreduce of 6 "
		    "int32, sum (express); rank 2 on host12 calls allreduce of 5 int32, sum "
		    "(express); not called yet by rank 3 on host13");
}

static void admission__the_first_difference_is_the_verdict(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(3, 6), allreduce(4, 7), allreduce(6, 1) };
	struct control_op two[] = { allreduce(4, 8), allreduce(6, 2) }; /* 3 is complete there */

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 3);
	say_opinfo(10, 7, one, 3);
	say_opinfo(11, 7, two, 2);
	assert_int_equal(t.from, 4);
	say_opinfo(10, 7, one + 1, 2);
	say_opinfo(11, 7, two, 2);
	assert_text(CONTROL_MISMATCH, CONTROL_RANK_NONE,
		    "operation 4 differs: rank 0 on host10 calls allreduce of 7 int32, sum "
		    "(express); rank 1 on host11 calls allreduce of 8 int32, sum (express)");
}

static void admission__more_operations_than_one_answer_holds_are_compared(void **state)
{
	(void)state;
	struct control_op one[16], two[16];

	for (uint32_t i = 0; i < 16; i++) {
		one[i] = allreduce(i, 100);
		two[i] = allreduce(i, i == 13 ? 99 : 100);
	}
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	for (uint32_t round = 0; round < 10 && t.admission->state == ADMISSION_STARTED; round++) {
		for (uint32_t i = 0; i < 2; i++) { /* at most 5 in an answer */
			const struct control_op *all = i ? two : one;
			uint32_t from = (uint32_t)t.from;
			uint32_t count = 16 - from < 5 ? 16 - from : 5;
			prepare(CONTROL_OPINFO);
			t.message.opinfo = (struct control_opinfo){
				.round = t.round,
				.ops_count = (uint16_t)count,
				.has_more = from + count < 16,
				.submitted = 16,
				.ops = all + from,
			};
			say(10 + i);
			if (t.from != from)
				break;
		}
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "operation 13 differs"));
}

static void admission__lists_that_hardly_overlap_are_compared_from_the_smallest(void **state)
{
	(void)state;
	struct control_op late[8], early[8]; /* ops_max is 8: the table cannot hold both */

	for (uint32_t i = 0; i < 8; i++) {
		late[i] = allreduce(8 + i, 1);
		early[i] = allreduce(1 + i, 1);
	}
	early[7].count = 2; /* number 8, which only the second page compares */
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 16, late, 8);
	say_opinfo(11, 16, early, 8);
	assert_state(ADMISSION_STARTED);
	say_opinfo(10, 16, late, 8);
	say_opinfo(11, 16, early + 7, 1);
	if (t.admission->state == ADMISSION_STARTED) {
		say_opinfo(10, 16, late, 8);
		say_opinfo(11, 16, early + 7, 1);
	}
	assert_int_equal(t.cause, CONTROL_MISMATCH);
	assert_non_null(strstr(t.text, "operation 8 differs"));
}

static void admission__a_switchs_mismatch_starts_a_round(void **state)
{
	(void)state;
	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_MISMATCH);
	assert_done("query>10 query>11");
	event(ADMISSION_MISMATCH); /* one is on its way */
	assert_done("");
}

static void admission__a_mismatch_without_a_difference_is_an_internal_error(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	event(ADMISSION_MISMATCH);
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	assert_int_equal(t.cause, CONTROL_INTERNAL);
	assert_non_null(strstr(t.text, "packets of two ranks differ although their calls agree"));
	assert_state(ADMISSION_DRAIN);
}

/* 11 has called it otherwise, and lists nothing in the second round. */
static void admission__a_difference_that_goes_away_is_laid_to_nobody(void **state)
{
	(void)state;
	struct control_op one[] = { allreduce(3, 6) }, two[] = { allreduce(3, 5) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 3);
	say_opinfo(10, 4, one, 1);
	say_opinfo(11, 4, two, 1);
	say_opinfo(10, 4, one, 1);
	say_opinfo(11, 4, NULL, 0);
	assert_int_equal(t.cause, CONTROL_INTERNAL);
	assert_int_equal(t.cause_rank, CONTROL_RANK_NONE);
	assert_non_null(strstr(t.text, "the ranks' calls of operation 3 differed when they were "
				       "asked, and do not any more: an internal error (job"));
	assert_state(ADMISSION_DRAIN);
}

/* R-CT-37 */
static void admission__a_mismatch_after_the_query_needs_a_round_of_its_own(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 1, ops, 1);
	event(ADMISSION_MISMATCH); /* 10 submitted what it is about after its answer */
	t.done[0] = 0;
	say_opinfo(11, 1, ops, 1);
	assert_done("waiting>10 waiting>11 query>10 query>11");
	assert_state(ADMISSION_STARTED);
}

/* R-CT-37 */
static void admission__answers_of_an_older_round_are_ignored(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(0, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 0);
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	say_stall(10, 0);
	t.done[0] = 0;
	t.round--;
	say_opinfo(10, 1, ops, 1);
	say_opinfo(11, 1, ops, 1);
	assert_int_equal(admission_member(t.admission, 0)->has_answered, 0);
	assert_int_equal(admission_member(t.admission, 1)->has_answered, 0);
}

static void admission__who_left_too_early_is_named_when_it_is_missed(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 3);
	t.done[0] = 0;
	say_stall(11, 3);
	assert_done("query>11");
	say_opinfo(11, 4, ops, 1);
	assert_done("abort>11 close>11 remove");
	assert_text(CONTROL_REMOTE, 0,
		    "rank 0 on host10 left after 3 operations; rank 1 on host11 has called 4");
}

static void admission__who_left_after_all_that_the_others_called_is_not(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 2);
	say_leave(10, 4);
	t.done[0] = 0;
	say_stall(11, 3);
	say_opinfo(11, 4, ops, 1);
	assert_done("query>11 waiting>11");
	assert_state(ADMISSION_STARTED);
}

/* Of two ranks that call the same 9 operations, from #10 on, the first has said so: there is room for 8. */
static void stall_with_a_page_and_one(struct control_op ops[9])
{
	for (uint32_t i = 0; i < 9; i++)
		ops[i] = allreduce(10 + i, 5);
	bring_to(ADMISSION_STARTED, 10, 2);
	say_stall(10, 10);
	say_opinfo(10, 19, ops, 9);
}

static void admission__more_operations_than_there_is_room_for_make_another_page(void **state)
{
	struct control_op ops[9];

	(void)state;
	stall_with_a_page_and_one(ops);
	assert_int_equal(t.admission->page.seen_count, 8);
	assert_int_equal(t.admission->page.end, 18);
	say_opinfo(11, 19, ops, 9);
	assert_done("query>10 query>11 query>10 query>11");
	assert_int_equal(t.from, 18);
	say_opinfo(10, 19, ops + 8, 1);
	say_opinfo(11, 19, ops + 8, 1);
	assert_done("waiting>10 waiting>11");
}

static void admission__the_last_to_answer_may_have_called_the_most(void **state)
{
	struct control_op ops[10];

	(void)state;
	stall_with_a_page_and_one(ops);
	ops[9] = allreduce(19, 5);
	say_opinfo(11, 20, ops, 10);
	assert_done("query>10 query>11 query>10 query>11");
	assert_int_equal(t.from, 18);
}

static void admission__more_behind_what_was_compared_is_no_other_page(void **state)
{
	struct control_op ops[9];

	(void)state;
	stall_with_a_page_and_one(ops);
	say_opinfo(11, 19, ops, 9);
	assert_int_equal(t.from, 18);
	t.done[0] = 0;
	prepare(CONTROL_OPINFO);
	t.message.opinfo = (struct control_opinfo){
		.round = t.round,
		.ops_count = 1,
		.has_more = 1,
		.submitted = 19,
		.oldest = 10,
		.ops = ops + 7, /* the last of the page before: this one would begin at 18 again */
	};
	say(10);
	say_opinfo(11, 19, ops + 8, 1);
	assert_done("waiting>10 waiting>11");
}

static void admission__who_leaves_during_a_round_has_answered_it(void **state)
{
	(void)state;
	struct control_op ops[] = { allreduce(3, 6) };

	bring_to(ADMISSION_STARTED, 10, 3);
	say_stall(11, 3);
	say_opinfo(11, 4, ops, 1);
	say_opinfo(12, 4, ops, 1);
	t.done[0] = 0;
	say_leave(10, 3);
	assert_done("left>10 close>10 abort>12 close>12 abort>11 close>11 remove");
	assert_int_equal(t.cause_rank, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(admission__stall_asks_all_and_waits_if_all_agree),
		TEST(admission__mismatch_names_the_odd_rank_and_both_calls),
		TEST(admission__a_tie_names_both_groups_and_nobody_as_odd),
		TEST(admission__different_streams_are_a_mismatch),
		TEST(admission__every_kind_of_call_has_its_words),
		TEST(admission__other_kinds_have_their_words_and_parts_of_given_sizes),
		TEST(admission__more_kinds_of_calls_than_it_can_keep_are_one_group),
		TEST(admission__nobody_is_odd_while_somebody_has_not_submitted),
		TEST(admission__the_first_difference_is_the_verdict),
		TEST(admission__more_operations_than_one_answer_holds_are_compared),
		TEST(admission__lists_that_hardly_overlap_are_compared_from_the_smallest),
		TEST(admission__a_switchs_mismatch_starts_a_round),
		TEST(admission__a_mismatch_without_a_difference_is_an_internal_error),
		TEST(admission__a_difference_that_goes_away_is_laid_to_nobody),
		TEST(admission__a_mismatch_after_the_query_needs_a_round_of_its_own),
		TEST(admission__answers_of_an_older_round_are_ignored),
		TEST(admission__who_left_too_early_is_named_when_it_is_missed),
		TEST(admission__who_left_after_all_that_the_others_called_is_not),
		TEST(admission__more_operations_than_there_is_room_for_make_another_page),
		TEST(admission__the_last_to_answer_may_have_called_the_most),
		TEST(admission__more_behind_what_was_compared_is_no_other_page),
		TEST(admission__who_leaves_during_a_round_has_answered_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
