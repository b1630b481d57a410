/* SPDX-License-Identifier: Apache-2.0 */
/* crossed_test.c - [WORLDS]: how many drawn worlds of each kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "search/crossed_world.h"

enum { JOBS = 3, RANKS = 3, SECONDS = 40 };

static uint32_t worlds = 150;

/* ---- views by hand: job j, rank r is process 100 + what of_[j][r] says ---- */

static struct {
	union {
		struct crossed_view view;
		uint8_t bytes[sizeof(struct crossed_view) + RANKS * sizeof(struct crossed_member)];
	} job[JOBS];
	struct crossed_view *views[JOBS];
	struct crossed_cycle cycle;
	uint64_t now_ns;
	uint32_t rounds;
} test;

static struct crossed_look look;

/* What a rank says: process; operations called, the one that it waits for; threads; how many wait. */
struct line {
	uint64_t process, submitted, waits, entries;
	uint32_t threads, blocked;
};

static const uint64_t second_ns = 1000000000, confirm_ns = 5000000000;

static void begin(void)
{
	memset(&test, 0, sizeof(test));
	test.now_ns = 77 * second_ns;
}

static void round_of(uint32_t job, uint16_t size, const struct line *lines)
{
	struct crossed_view *view = &test.job[job].view;

	if (!test.views[job])
		crossed_view_init(view, size);
	test.views[job] = view;
	test.rounds++;
	for (uint16_t rank = 0; rank < size; rank++)
		crossed_ask(view, test.rounds, rank, test.now_ns);
	for (uint16_t rank = 0; rank < size; rank++) {
		const struct line *line = &lines[rank];
		const struct control_opinfo info = { .round = test.rounds,
						     .process = line->process,
						     .entries = line->entries + line->process,
						     .submitted = line->submitted,
						     .waits = line->waits,
						     .threads = line->threads,
						     .blocked = line->blocked };

		assert_int_equal(crossed_answer(view, rank, &info, test.now_ns), rank + 1 == size);
	}
}

static bool find(void)
{
	return crossed_find(&look, test.views, JOBS, test.now_ns, confirm_ns, &test.cycle);
}

/* Process 101 waits in job 0 for 102, that in job 1 for 101. */
static const struct line crossed[2][2] = {
	{ { 101, 6, 5, 0, 1, 1 }, { 102, 5, 5, 0, 1, 0 } },
	{ { 101, 7, 7, 0, 1, 0 }, { 102, 8, 7, 0, 1, 1 } },
};

/* For so many seconds these two are said each second. True: something was found. */
static bool said(const struct line one[2], const struct line two[2], uint32_t seconds)
{
	bool is_found = false;

	for (uint32_t i = 0; i <= seconds; i++) {
		round_of(0, 2, one);
		round_of(1, 2, two);
		is_found |= find();
		test.now_ns += second_ns;
	}
	return is_found;
}

static void crossed__two_that_wait_for_each_other_are_named(void **state)
{
	struct crossed_edge next;

	(void)state;
	begin();
	assert_true(said(crossed[0], crossed[1], 5));
	assert_int_equal(test.cycle.edges_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct crossed_edge *edge = &test.cycle.edges[i];

		assert_int_equal(edge->number, edge->view ? 7 : 5);
		assert_int_equal(edge->rank, edge->view);
		assert_int_equal(edge->missing, !edge->view);
	}
	assert_true(test.job[0].view.is_crossed);
	assert_true(test.job[1].view.is_crossed);
	assert_false(test.cycle.is_warn);
	assert_true(crossed_follow(test.views, JOBS, 1, 0, test.now_ns, &next));
	assert_false(crossed_follow(test.views, 1, 1, 0, test.now_ns, &next)); /* of none */
}

/* Whether it was in a circle that somebody has left, or never in one. */
static void crossed__a_job_that_is_in_no_circle_does_not_end(void **state)
{
	(void)state;
	begin();
	assert_true(said(crossed[0], crossed[1], 5));
	for (uint32_t i = 0; i <= 5; i++) {
		round_of(0, 2, crossed[0]);
		round_of(2, 2, crossed[1]);
		find();
		test.now_ns += second_ns;
	}
	assert_true(test.job[0].view.is_crossed);
	assert_false(test.job[1].view.is_crossed);
	assert_true(test.job[2].view.is_crossed);
}

static void crossed__nothing_is_said_before_it_has_stood_for_long_enough(void **state)
{
	(void)state;
	begin();
	assert_false(said(crossed[0], crossed[1], 4));
}

/* However short the heartbeat time is: a round comes each second, and may be late. */
static void crossed__what_has_stood_for_as_long_as_a_round_is_fresh_is_enough(void **state)
{
	(void)state;
	begin();
	for (uint32_t i = 0; i < 4; i++) {
		round_of(0, 2, crossed[0]);
		round_of(1, 2, crossed[1]);
		assert_int_equal(crossed_find(&look, test.views, JOBS, test.now_ns, 1, &test.cycle),
				 i == 3);
		test.now_ns += second_ns;
	}
}

static void crossed__more_ranks_than_there_is_room_for_are_counted(void **state)
{
	enum { MANY = CROSSED_RECORDS_MAX + 7 };
	struct crossed_view *view = calloc(1, crossed_view_bytes(MANY));
	struct crossed_view *const views[] = { view };

	(void)state;
	assert_non_null(view);
	crossed_view_init(view, MANY);
	view->has_said = 1;
	for (uint32_t i = 0; i < MANY; i++)
		view->member[i].said = (struct crossed_said){ .process = i + 1, .is_there = 1 };
	assert_false(crossed_find(&look, views, 1, 1, 1, &test.cycle));
	assert_true(look.has_given_up);
	assert_int_equal(look.found, MANY);
	view->member[0].said.is_there = 0;
	view->size -= 6; /* just as many as there is room for */
	assert_false(crossed_find(&look, views, 1, 1, 1, &test.cycle));
	assert_false(look.has_given_up);
	assert_int_equal(look.found, CROSSED_RECORDS_MAX);
	free(view);
}

/* Since the last round others may have ended it: a job of the cycle is asked no more. */
static void crossed__what_was_heard_long_ago_is_nothing(void **state)
{
	(void)state;
	begin();
	assert_false(said(crossed[0], crossed[1], 4));
	for (uint32_t i = 0; i < 4; i++) {
		round_of(0, 2, crossed[0]);
		test.now_ns += second_ns;
	}
	assert_false(find());
}

static void crossed__a_thread_that_does_not_wait_may_end_it(void **state)
{
	struct line one[2], two[2];

	(void)state;
	memcpy(one, crossed[0], sizeof(one));
	memcpy(two, crossed[1], sizeof(two));
	one[1].threads = two[1].threads = 2;
	begin();
	assert_false(said(one, two, 20));
	one[1].threads = two[1].threads = 0; /* not said */
	begin();
	assert_false(said(one, two, 20));
}

static void crossed__who_has_moved_between_two_answers_is_not_stuck(void **state)
{
	struct line two[2];
	bool is_found = false;

	(void)state;
	memcpy(two, crossed[1], sizeof(two));
	begin();
	for (uint32_t i = 0; i < 20; i++) { /* never the same twice */
		two[1].entries++;
		is_found |= said(crossed[0], two, 0);
	}
	assert_false(is_found);
	begin();
	two[1].entries =
		1; /* the same each time, but not in both jobs: it was asked before, and after */
	assert_false(said(crossed[0], two, 20));
}

/* R-CT-48: 101 waits for 102, which waits for 103, which computes. */
static void crossed__a_chain_that_ends_at_one_who_computes_is_followed(void **state)
{
	static const struct line one[] = { { 101, 6, 5, 0, 1, 1 }, { 102, 5, 5, 0, 1, 0 } };
	static const struct line two[] = { { 103, 7, 7, 0, 1, 0 }, { 102, 8, 7, 0, 1, 1 } };
	struct crossed_edge edge;

	(void)state;
	begin();
	assert_false(said(one, two, 20));
	assert_true(crossed_follow(test.views, JOBS, 0, 1, test.now_ns, &edge));
	assert_int_equal(edge.view, 1);
	assert_int_equal(edge.rank, 1);
	assert_int_equal(edge.missing, 0);
	assert_int_equal(edge.number, 7);
	assert_false(crossed_follow(test.views, JOBS, 1, 0, test.now_ns, &edge));
	assert_false(crossed_follow(test.views, JOBS, 0, 1, test.now_ns + 3 * second_ns, &edge));
}

/* All have called what it waits for: the network has it, or R-CT-43 ends it. */
static void crossed__an_operation_that_all_have_called_is_no_wait_for_anybody(void **state)
{
	struct line one[2];

	(void)state;
	memcpy(one, crossed[0], sizeof(one));
	one[1].submitted = 6;
	begin();
	assert_false(said(one, crossed[1], 20));
}

static void crossed__whose_process_is_not_known_may_always_go_on(void **state)
{
	struct line one[2], two[2];

	(void)state;
	memcpy(one, crossed[0], sizeof(one));
	memcpy(two, crossed[1], sizeof(two));
	one[1].process = two[1].process = 0;
	begin();
	assert_false(said(one, two, 20));
}

/* Two ranks of one process: two threads, and each waits for the other. */
static void crossed__a_process_may_wait_for_itself(void **state)
{
	static const struct line one[] = { { 101, 6, 5, 0, 2, 1 }, { 101, 5, 5, 0, 2, 0 } };
	static const struct line two[] = { { 101, 7, 7, 0, 2, 0 }, { 101, 8, 7, 0, 2, 1 } };

	(void)state;
	begin();
	assert_true(said(one, two, 6));
	assert_true(test.cycle.edges_count >= 1);
}

static void crossed__a_warning_is_what_one_of_them_asks_for(void **state)
{
	struct control_opinfo info = { .process = 102,
				       .entries = 102,
				       .submitted = 8,
				       .waits = 7,
				       .threads = 1,
				       .blocked = 1,
				       .is_warn = 1 };
	uint64_t token;

	(void)state;
	begin();
	assert_true(said(crossed[0], crossed[1], 5));
	token = test.cycle.token;
	crossed_ask(&test.job[1].view, 99, 1, test.now_ns);
	crossed_ask(&test.job[1].view, 99, 0, test.now_ns);
	info.round = 99;
	assert_false(crossed_answer(&test.job[1].view, 1, &info, test.now_ns));
	info = (struct control_opinfo){ .round = 99,
					.process = 101,
					.entries = 101,
					.submitted = 7,
					.waits = 7,
					.threads = 1 };
	assert_true(crossed_answer(&test.job[1].view, 0, &info, test.now_ns));
	assert_true(find());
	assert_true(test.cycle.is_warn);
	assert_true(test.cycle.token == token);
}

static void crossed__an_answer_that_was_not_asked_for_is_nothing(void **state)
{
	struct crossed_view *view = &test.job[0].view;
	const struct control_opinfo info = { .round = 5, .threads = 1 };

	(void)state;
	begin();
	crossed_view_init(view, RANKS);
	assert_false(crossed_answer(view, 0, &info, 1));
	crossed_ask(view, 6, 0, 1);
	assert_false(crossed_answer(view, 0, &info, 1)); /* of another round */
	crossed_ask(view, 5, 0, 1);
	assert_false(crossed_answer(view, 1, &info, 1)); /* of one that was not asked */
	assert_false(crossed_answer(view, RANKS, &info, 1));
	assert_true(crossed_answer(view, 0, &info, 1));
	assert_false(crossed_answer(view, 0, &info, 1)); /* twice */
}

/* ---- drawn worlds ---- */

static struct world one;

/* How many have found something. */
static uint32_t run(enum world_kind kind)
{
	uint32_t found = 0;

	for (uint64_t seed = 1; seed <= worlds; seed++) {
		enum world_end end = WORLD_GOES_ON;
		const char *wrong = NULL;

		memset(&one, 0, sizeof(one));
		world = &one;
		world_begin(kind, seed);
		for (uint32_t i = 0; i < SECONDS * 1000 / TICK_MS && end == WORLD_GOES_ON; i++)
			end = world_step(&wrong);
		if (wrong)
			fail_msg("world %d, seed %llu, at %llu ms: %s", kind,
				 (unsigned long long)seed, (unsigned long long)world->now_ms,
				 wrong);
		found += end == WORLD_FOUND;
	}
	return found;
}

static void crossed__nobody_is_blamed_whose_calls_are_in_order(void **state)
{
	(void)state;
	assert_int_equal(run(WORLD_IN_ORDER), 0);
}

static void crossed__whoever_is_stuck_is_found_and_nobody_else(void **state)
{
	uint32_t found = run(WORLD_ANYHOW);

	(void)state;
	printf("%u of %u worlds got stuck\n", found, worlds);
	assert_true(found > worlds / 4);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crossed__two_that_wait_for_each_other_are_named),
		cmocka_unit_test(crossed__a_job_that_is_in_no_circle_does_not_end),
		cmocka_unit_test(crossed__nothing_is_said_before_it_has_stood_for_long_enough),
		cmocka_unit_test(crossed__what_has_stood_for_as_long_as_a_round_is_fresh_is_enough),
		cmocka_unit_test(crossed__more_ranks_than_there_is_room_for_are_counted),
		cmocka_unit_test(crossed__what_was_heard_long_ago_is_nothing),
		cmocka_unit_test(crossed__a_thread_that_does_not_wait_may_end_it),
		cmocka_unit_test(crossed__who_has_moved_between_two_answers_is_not_stuck),
		cmocka_unit_test(crossed__a_chain_that_ends_at_one_who_computes_is_followed),
		cmocka_unit_test(crossed__an_operation_that_all_have_called_is_no_wait_for_anybody),
		cmocka_unit_test(crossed__whose_process_is_not_known_may_always_go_on),
		cmocka_unit_test(crossed__a_process_may_wait_for_itself),
		cmocka_unit_test(crossed__a_warning_is_what_one_of_them_asks_for),
		cmocka_unit_test(crossed__an_answer_that_was_not_asked_for_is_nothing),
		cmocka_unit_test(crossed__nobody_is_blamed_whose_calls_are_in_order),
		cmocka_unit_test(crossed__whoever_is_stuck_is_found_and_nobody_else),
	};

	if (argc > 1)
		worlds = (uint32_t)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
