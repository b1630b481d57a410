/* SPDX-License-Identifier: Apache-2.0 */
#include "core/job/admission_fixture.h"

/* Two programs of one launch, or two jobs of one name: R-CT-23 and R-CT-24. */

enum { HERE = 7, THERE = 8, PROGRAM = 5 };

/* Under a launcher's name, each connection a process of its own; ranks of `local` are on this host. */
static void prepare_launched(uint32_t connection, uint16_t rank, uint16_t size, uint64_t boot)
{
	prepare_join(connection, rank, size);
	t.message.join.is_launched = 1;
	t.message.join.program = PROGRAM;
	t.message.join.boot = boot;
	t.message.join.process = 1000 + connection;
}

static void join_launched(uint32_t connection, uint16_t rank, uint16_t size)
{
	prepare_launched(connection, rank, size, HERE);
	say(connection);
}

static void both_answer(uint32_t one, uint32_t other)
{
	uint32_t serial = t.serial;

	t.done[0] = 0;
	say_pong(one, serial);
	say_pong(other, serial);
}

/* Two ranks: rank 0 of one program, rank 1 of the other, up to the state. */
static void mix(enum admission_state state)
{
	join_launched(10, 0, 2);
	join_launched(21, 1, 2);
	if (state > ADMISSION_GRANTED) {
		acknowledge(ADMISSION_JOB_ADD);
		say_ready(10, 360);
		say_ready(21, 360);
	}
	if (state > ADMISSION_ENABLING) {
		acknowledge(ADMISSION_JOB_SET);
		wait_seconds(1); /* what START waits for: see below */
	}
	assert_state(state);
	t.done[0] = 0;
}

static const char twins[] = "job \"train\": rank 1 is held by process 121 on host21, and process "
			    "111 on host11 claims it "
			    "too; both are alive; the name is the launcher's, and there are two "
			    "programs of one launch: "
			    "give each its TALLY_JOB";

static void twin__ends_a_life_whatever_its_state(void **state)
{
	(void)state;
	static const enum admission_state states[] = { ADMISSION_GRANTED, ADMISSION_ENABLING,
						       ADMISSION_STARTED };

	for (uint32_t i = 0; i < 3; i++) {
		tear_down(NULL);
		set_up(NULL);
		mix(states[i]);
		join_launched(11, 1, 2);
		assert_done("ping>21 ping>11");
		both_answer(21, 11);
		assert_done("deny>11 close>11 abort>21 close>21 abort>10 close>10 remove");
		assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, twins);
		assert_state(ADMISSION_DRAIN);
	}
}

static void twin__ends_a_gathering_with_the_same_words(void **state)
{
	(void)state;
	join_launched(21, 1, 3);
	join_launched(11, 1, 3);
	both_answer(21, 11);
	assert_done("deny>11 close>11 deny>21 close>21");
	assert_text(CONTROL_DENIED, CONTROL_RANK_NONE, twins);
	assert_state(ADMISSION_NONE);
}

static void twin__all_who_come_within_5_s_hear_it_also_as_a_rank_that_had_been(void **state)
{
	(void)state;
	mix(ADMISSION_STARTED);
	join_launched(11, 1, 2);
	both_answer(21, 11);
	t.done[0] = 0;
	join_launched(20, 0, 2); /* while it drains */
	assert_done("");
	acknowledge(ADMISSION_JOB_REMOVE);
	close_connection(10);
	close_connection(21);
	assert_done("deny>20 close>20");
	wait_seconds(4);
	join_launched(31, 1, 2);
	assert_done("deny>31 close>31");
	assert_non_null(strstr(t.text, "give each its TALLY_JOB (refused 4 s ago; start again in"));
	wait_seconds(1);
	join_launched(30, 0, 2);
	assert_done("");
	assert_state(ADMISSION_GATHER);
}

/* A life of its own a while ago: who comes now is a stranger to it. */
static void twin__a_claim_later_than_2_s_after_the_start_harms_nobody(void **state)
{
	(void)state;
	mix(ADMISSION_STARTED);
	wait_seconds(2);
	join_launched(11, 1, 2); /* just in time */
	both_answer(21, 11);
	assert_state(ADMISSION_DRAIN);
	tear_down(NULL);
	set_up(NULL);
	mix(ADMISSION_STARTED);
	wait_seconds(2);
	t.now_ns++;
	join_launched(11, 1, 2);
	both_answer(21, 11);
	assert_done("deny>11 close>11");
	assert_state(ADMISSION_STARTED);
	assert_non_null(strstr(t.text, "the job runs, another of its name must wait"));
}

/* ---- until a twin would have come nobody has a sum ---- */

static void get_ready(uint32_t one, uint32_t other)
{
	acknowledge(ADMISSION_JOB_ADD);
	say_ready(one, 360);
	say_ready(other, 360);
	t.done[0] = 0;
	acknowledge(ADMISSION_JOB_SET);
}

static void twin__start_waits_until_nobody_has_come_for_1_s(void **state)
{
	(void)state;
	join_launched(10, 0, 2);
	wait_seconds(5);
	join_launched(21, 1, 2);
	t.now_ns += second_ns / 2;
	get_ready(10, 21);
	assert_done("");
	assert_state(ADMISSION_ENABLING);
	assert_true(t.actions.wake_ns == t.now_ns + second_ns / 2);
	t.now_ns += second_ns / 2 - 1;
	event(ADMISSION_TICK);
	assert_state(ADMISSION_ENABLING);
	t.now_ns++;
	event(ADMISSION_TICK);
	assert_done("start>10 start>21");
	assert_state(ADMISSION_STARTED);
}

static void twin__a_life_that_is_ready_late_starts_at_once(void **state)
{
	(void)state;
	join_launched(10, 0, 2);
	join_launched(21, 1, 2);
	wait_seconds(1);
	get_ready(10, 21);
	assert_done("start>10 start>21");
}

static void twin__who_goes_before_start_is_lost_as_ever(void **state)
{
	(void)state;
	mix(ADMISSION_ENABLING);
	acknowledge(ADMISSION_JOB_SET);
	close_connection(21);
	assert_done("abort>10 close>10 remove");
	assert_state(ADMISSION_DRAIN);
	assert_int_equal(t.actions.cause, CONTROL_REMOTE);
}

/* It would rather have the job than the doubt. */
static void twin__start_waits_no_longer_than_a_rank_does(void **state)
{
	(void)state;
	prepare_launched(10, 0, 2, HERE);
	t.message.join.timeout_ms = 700;
	say(10);
	join_launched(21, 1, 2);
	get_ready(10, 21);
	t.now_ns += 700000000 - 1;
	event(ADMISSION_TICK);
	assert_state(ADMISSION_ENABLING);
	t.now_ns++;
	event(ADMISSION_TICK);
	assert_done("start>10 start>21");
}

static void twin__start_of_what_can_have_no_twin_waits_for_nothing(void **state)
{
	(void)state;
	join(10, 0, 2); /* the user's name */
	join(21, 1, 2);
	get_ready(10, 21);
	assert_done("start>10 start>21");
	tear_down(NULL);
	set_up(NULL);
	t.config.life = 99; /* its parent has waited */
	join_launched(10, 0, 2);
	join_launched(21, 1, 2);
	get_ready(10, 21);
	assert_done("start>10 start>21");
	tear_down(NULL);
	set_up(NULL);
	join_launched(10, 0, 1); /* nobody to be mixed with */
	acknowledge(ADMISSION_JOB_ADD);
	say_ready(10, 360);
	t.done[0] = 0;
	acknowledge(ADMISSION_JOB_SET);
	assert_done("start>10");
}

/* R-CT-22: what tally run itself has started is there once. */
static void join_alone(uint32_t connection, uint16_t rank, uint16_t size)
{
	prepare_launched(connection, rank, size, HERE);
	t.message.join.is_launched = 0;
	say(connection);
}

static void twin__start_waits_only_if_a_second_program_may_come(void **state)
{
	(void)state;
	join_alone(10, 0, 2);
	join_alone(21, 1, 2);
	get_ready(10, 21);
	assert_done("start>10 start>21");
	tear_down(NULL);
	set_up(NULL);
	join_alone(10, 0, 2);
	join_launched(21, 1, 2);
	get_ready(10, 21);
	assert_done("");
	t.now_ns += second_ns;
	event(ADMISSION_TICK);
	assert_done("start>10 start>21");
	/* sh -c 'a & b': the shell has become b, and a is its child */
	join_launched(20, 0, 2);
	both_answer(10, 20);
	assert_done("deny>20 close>20 abort>21 close>21 abort>10 close>10 remove");
}

/* What counts is when it came, not when it answered. */
static void twin__who_came_in_time_may_answer_late(void **state)
{
	(void)state;
	mix(ADMISSION_STARTED);
	join_launched(11, 1, 2);
	t.now_ns += 3 * second_ns;
	both_answer(21, 11);
	assert_state(ADMISSION_DRAIN);
}

static void twin__a_dead_holder_is_no_other_program(void **state)
{
	(void)state;
	join_launched(21, 1, 2);
	join_launched(11, 1, 2);
	t.done[0] = 0;
	close_connection(21);
	assert_done("");
	join_launched(10, 0, 2);
	assert_done("add");
}

static void twin__a_name_of_the_users_keeps_its_rules(void **state)
{
	(void)state;
	join(10, 0, 2);
	join(21, 1, 2);
	t.done[0] = 0;
	join(11, 1, 2);
	both_answer(21, 11);
	assert_done("deny>11 close>11");
	assert_state(ADMISSION_GRANTED);
}

static void twin__one_process_that_joins_twice_is_no_other_program(void **state)
{
	(void)state;
	mix(ADMISSION_STARTED);
	prepare_launched(11, 1, 2, HERE);
	t.message.join.process = 1000 + 21;
	say(11);
	both_answer(21, 11);
	assert_done("deny>11 close>11");
	assert_state(ADMISSION_STARTED);
}

/* Two jobs of several hosts each, of one name: nobody knows whose the ranks are that are in. */
static void twin__a_claim_from_another_host_ends_both(void **state)
{
	(void)state;
	mix(ADMISSION_STARTED);
	prepare_launched(11, 1, 2, THERE);
	say(11);
	both_answer(21, 11);
	assert_done("deny>11 close>11 abort>21 close>21 abort>10 close>10 remove");
	assert_non_null(strstr(t.text, "there are two jobs of one name: give each its TALLY_JOB"));
}

static void join_local(uint32_t connection, uint16_t rank, uint16_t size, uint64_t boot)
{
	prepare_launched(connection, rank, size, boot);
	t.message.join.local_size = size;
	say(connection);
}

/* ... but whose ranks are all on one host, as each of them says, has none from elsewhere. */
static void twin__a_claim_from_another_host_than_all_ranks_are_on_harms_nobody(void **state)
{
	(void)state;
	join_local(10, 0, 2, HERE);
	join_local(11, 1, 2, HERE);
	t.done[0] = 0;
	join_local(20, 0, 2, THERE);
	both_answer(10, 20);
	assert_done("deny>20 close>20");
	assert_state(ADMISSION_GRANTED);
}

static void twin__ranks_that_are_all_on_one_host_are_on_one_host(void **state)
{
	(void)state;
	join_local(10, 0, 2, HERE);
	t.done[0] = 0;
	join_local(21, 1, 2, THERE);
	assert_done("deny>21 close>21 deny>10 close>10");
	assert_text(
		CONTROL_DENIED, CONTROL_RANK_NONE,
		"job \"train\": rank 1 on host21 says that all 2 ranks are on its host, rank 0 on "
		"host10 says that all 2 ranks are on its host: if these are two jobs, give each "
		"its TALLY_JOB");
	wait_seconds(5);
	join_launched(10, 0, 2);
	join_local(21, 1, 2, THERE);
	assert_non_null(strstr(t.text, "rank 0 on host10 is on another host: if these"));
	wait_seconds(5);
	join_local(10, 0, 2, HERE);
	t.done[0] = 0;
	join_local(21, 1, 2, 0); /* not known */
	assert_done("add");
}

static void twin__fewer_ranks_on_a_host_say_nothing(void **state)
{
	(void)state;
	prepare_launched(10, 0, 3, HERE);
	t.message.join.local_size = 1;
	say(10);
	prepare_launched(11, 1, 3, THERE);
	t.message.join.local_size = 2;
	say(11);
	join_launched(12, 2, 3);
	assert_done("add");
}

/* ---- a program for each rank ---- */

enum { MACHINES = 3 };

static struct admission *machines[MACHINES];

/* Further machines of the same config; the fixture's steps go to t.admission. */
static void open_machines(void)
{
	for (uint32_t i = 0; i < MACHINES; i++) {
		machines[i] = malloc(admission_bytes(&t.config));
		admission_init(machines[i], &t.config);
	}
	free(t.admission);
}

static void join_machine(uint32_t machine, uint32_t connection, uint16_t rank, uint16_t size)
{
	t.admission = machines[machine];
	prepare_launched(connection, rank, size, HERE);
	t.message.join.program = PROGRAM + machine;
	say(connection);
}

static void close_machines(void)
{
	for (uint32_t i = 0; i < MACHINES; i++)
		free(machines[i]);
	t.admission = malloc(8);
}

static enum admission_together together(uint32_t *into)
{
	uint64_t last_ns;

	return admission_together(machines, MACHINES, into, &last_ns);
}

/* As tally run has started them itself. */
static void not_launched(void)
{
	for (uint32_t i = 0; i < MACHINES; i++)
		for (uint32_t rank = 0; rank < machines[i]->size; rank++)
			admission_member(machines[i], rank)->peer.is_launched = 0;
}

static void unite__gatherings_that_are_complete_together_are_one_if_nobody_is_launched(void **state)
{
	(void)state;
	struct admission_peer moved[2];
	uint32_t into = 99;
	uint64_t last_ns;

	open_machines();
	join_machine(0, 11, 1, 3);
	t.now_ns += second_ns;
	join_machine(1, 10, 0, 3);
	assert_int_equal(together(&into), ADMISSION_PARTS); /* rank 2 is missing */
	t.now_ns += second_ns;
	last_ns = t.now_ns;
	join_machine(2, 12, 2, 3);
	t.now_ns += 10000 * second_ns;
	for (uint32_t i = 0; i < MACHINES; i++) {
		uint64_t last_is_ns;

		/* One is enough that may be a second program's. */
		assert_int_equal(admission_together(machines, MACHINES, &into, &last_is_ns),
				 ADMISSION_EITHER);
		assert_true(last_is_ns == last_ns);
		admission_member(machines[i], i == 0 ? 1 : i == 1 ? 0 : 2)->peer.is_launched = 0;
	}
	assert_int_equal(together(&into), ADMISSION_ONE);
	assert_int_equal(into, 1); /* rank 0's */
	moved[0] = admission_member(machines[0], 1)->peer;
	moved[1] = admission_member(machines[2], 2)->peer;
	for (uint32_t i = 0; i < MACHINES; i++) {
		t.admission = machines[i];
		if (i != into)
			event(ADMISSION_YIELD);
	}
	assert_done("");
	assert_int_equal(t.log_level, ADMISSION_LOG_WARN);
	assert_string_equal(
		t.log,
		"rank 2 on host12: another command line than other ranks of this name: one job "
		"with them, as they are complete together, and tally run has started one program "
		"for each rank");
	assert_true(admission_is_idle(machines[0]) && admission_is_idle(machines[2]));
	t.admission = machines[1];
	for (uint32_t i = 0; i < 2; i++)
		step((struct admission_event){ .type = ADMISSION_ADOPT, .peer = &moved[i] });
	assert_done("add");
	for (uint32_t i = 0; i < MACHINES; i++)
		assert_true(admission_has_program(t.admission, PROGRAM + i));
	assert_false(admission_has_program(t.admission, PROGRAM + MACHINES));
	acknowledge(ADMISSION_JOB_ADD);
	assert_done("grant>10 grant>11 grant>12");
	for (uint32_t connection = 10; connection < 13; connection++)
		say_ready(connection, 360);
	t.done[0] = 0;
	acknowledge(ADMISSION_JOB_SET);
	assert_done("start>10 start>11 start>12");
	/* who says at any time that it is one of them is a twin, and these were no one job */
	t.now_ns += 3600 * second_ns;
	event(ADMISSION_TICK);
	join_machine(1, 21, 1, 3);
	both_answer(11, 21);
	assert_done(
		"deny>21 close>21 abort>12 close>12 abort>11 close>11 abort>10 close>10 remove");
	assert_non_null(strstr(t.text, "two programs of one launch: give each its TALLY_JOB"));
	close_machines();
}

static void unite__two_of_one_rank_are_two_jobs(void **state)
{
	(void)state;
	uint32_t into;

	open_machines();
	join_machine(0, 10, 0, 2);
	join_machine(1, 11, 1, 2);
	join_machine(2, 21, 1, 2);
	not_launched();
	assert_int_equal(together(&into), ADMISSION_SEVERAL);
	t.admission = machines[2];
	close_connection(21);
	assert_int_equal(together(&into), ADMISSION_ONE);
	join_machine(1, 31, 1, 2); /* a claim is not decided yet */
	not_launched();
	assert_int_equal(together(&into), ADMISSION_PARTS);
	close_machines();
}

static void unite__a_job_that_runs_and_one_of_another_size_are_none_of_it(void **state)
{
	(void)state;
	uint32_t into;

	open_machines();
	join_machine(0, 10, 0, 2);
	join_machine(0, 11, 1, 2);
	join_machine(1, 21, 1, 2);
	not_launched();
	assert_int_equal(together(&into), ADMISSION_PARTS);
	join_machine(2, 30, 0, 2);
	not_launched();
	assert_int_equal(together(&into), ADMISSION_ONE);
	assert_int_equal(into, 2);
	t.admission = machines[2];
	close_connection(30);
	join_machine(2, 30, 0, 3);
	not_launched();
	assert_int_equal(together(&into), ADMISSION_PARTS);
	close_machines();
}

/* What differs in more than its command line is refused when it comes. */
static void unite__differences_are_told_to_all(void **state)
{
	(void)state;
	struct admission_peer moved;
	uint32_t into;

	open_machines();
	join_machine(0, 10, 0, 2);
	t.admission = machines[1];
	prepare_launched(11, 1, 2, HERE);
	t.message.join.list_hash = 78;
	say(11);
	not_launched();
	assert_int_equal(together(&into), ADMISSION_ONE);
	moved = admission_member(machines[1], 1)->peer;
	event(ADMISSION_YIELD);
	t.admission = machines[into];
	step((struct admission_event){ .type = ADMISSION_ADOPT, .peer = &moved });
	assert_done("deny>11 close>11 deny>10 close>10");
	close_machines();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(twin__ends_a_life_whatever_its_state, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(twin__ends_a_gathering_with_the_same_words, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			twin__all_who_come_within_5_s_hear_it_also_as_a_rank_that_had_been, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			twin__a_claim_later_than_2_s_after_the_start_harms_nobody, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(twin__start_waits_until_nobody_has_come_for_1_s,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__a_life_that_is_ready_late_starts_at_once,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__who_goes_before_start_is_lost_as_ever, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(twin__start_waits_no_longer_than_a_rank_does,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			twin__start_of_what_can_have_no_twin_waits_for_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__start_waits_only_if_a_second_program_may_come,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__who_came_in_time_may_answer_late, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(twin__a_dead_holder_is_no_other_program, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(twin__a_name_of_the_users_keeps_its_rules, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			twin__one_process_that_joins_twice_is_no_other_program, set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__a_claim_from_another_host_ends_both, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			twin__a_claim_from_another_host_than_all_ranks_are_on_harms_nobody, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			twin__ranks_that_are_all_on_one_host_are_on_one_host, set_up, tear_down),
		cmocka_unit_test_setup_teardown(twin__fewer_ranks_on_a_host_say_nothing, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			unite__gatherings_that_are_complete_together_are_one_if_nobody_is_launched,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(unite__two_of_one_rank_are_two_jobs, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			unite__a_job_that_runs_and_one_of_another_size_are_none_of_it, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(unite__differences_are_told_to_all, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
