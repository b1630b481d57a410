/* SPDX-License-Identifier: Apache-2.0 */
/* membership_test.c - what is done of what the machines say: connections, messages, HELLO, START, the end. */
#include "lib/membership_fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include "lib/present.h"
#include "util/commit.h"

/* ---- connections ---- */

static void connect__of_a_name_takes_its_addresses_in_turn(void **state)
{
	(void)state;
	connect_seat(1);
	seat(1)->is_ending = true;
	for (uint32_t times = 1; times <= 3; times++) {
		answer_do(1, (struct member_action){ .type = MEMBER_DO_CONNECT });
		tell(1, MEMBER_TICK, begin_ns + times);
		step_last_is(times, 1, MEMBER_TICK);
		assert_int_equal(test.connects, times);
		assert_true(test.connect_ns == begin_ns + times);
		assert_true(test.timeout_ns == 3 * second_ns);
		assert_int_equal(test.closes, times); /* the one before */
		assert_int_equal(seat(1)->attempts, times);
		assert_int_equal(test.address_turns, times - 1);
		assert_int_equal(test.froms, times - 1);
		assert_int_equal(seat(1)->join.mtu, times == 1 ? 0 : 1300 + times - 1);
		assert_ptr_equal(seat(1)->conn, &test.conns[1]);
		assert_int_equal(atomic_load(&seat(1)->fd), FD_BASE + 1);
		assert_false(seat(1)->is_ending);
	}
}

static void connect__that_is_refused_is_an_event(void **state)
{
	static const int of_ours[] = { EMFILE, ENFILE, ENOMEM };

	(void)state;
	test.connect_error = -ECONNREFUSED;
	answer_do(0, (struct member_action){ .type = MEMBER_DO_CONNECT });
	tell(0, MEMBER_TICK, begin_ns);
	step_last_is(2, 0, MEMBER_REFUSED);
	assert_true(test.steps[1].event.now_ns == begin_ns);
	assert_string_equal(test.steps[1].text, "Connection refused");
	assert_int_equal(atomic_load(&seat(0)->fd), -1);
	for (uint32_t i = 0; i < 3; i++) { /* what this process lacks */
		test.connect_error = -of_ours[i];
		answer_do(0, (struct member_action){ .type = MEMBER_DO_CONNECT });
		tell(0, MEMBER_TICK, begin_ns);
		step_last_is(4 + 2 * i, 0, MEMBER_ERROR);
		assert_int_equal(test.steps[3 + 2 * i].event.cause, CONTROL_SYSTEM);
		assert_string_equal(test.steps[3 + 2 * i].text, strerror(of_ours[i]));
	}
}

static void absent__is_said_once_after_5_s_of_attempts(void **state)
{
	struct member_event event = { .type = MEMBER_REFUSED, .text = "No route to host" };

	(void)state;
	seat(2)->member.since_ns = begin_ns;
	event.now_ns = begin_ns + 5 * second_ns - 1;
	membership_do(&test.comm, seat(2), &test.codec, &event);
	assert_int_equal(test.log_lines, 0);
	event = (struct member_event){ .type = MEMBER_TICK, .now_ns = begin_ns + 6 * second_ns };
	membership_do(&test.comm, seat(2), &test.codec, &event);
	assert_int_equal(test.log_lines, 0);
	seat(2)->member.state = MEMBER_JOINING; /* somebody is there */
	tell(2, MEMBER_REFUSED, begin_ns + 6 * second_ns);
	assert_int_equal(test.log_lines, 0);
	seat(2)->member.state = MEMBER_CONNECT;
	event = (struct member_event){ .type = MEMBER_REFUSED,
				       .now_ns = begin_ns + 5 * second_ns,
				       .text = "No route to host" };
	membership_do(&test.comm, seat(2), &test.codec, &event);
	heard(TALLY_LOG_WARN,
	      "no aggregator at c:3 for 5 s: No route to host; trying for 30 s in all");
	tell(2, MEMBER_REFUSED, begin_ns + 9 * second_ns);
	assert_int_equal(test.log_lines, 1);
	tell(1, MEMBER_REFUSED, begin_ns + 9 * second_ns); /* since_ns is 0 */
	heard(TALLY_LOG_WARN, "no aggregator at b:2 for 86 s: no answer; trying");
}

/* ---- messages ---- */

static void send__needs_a_connection_and_memory(void **state)
{
	const struct member_action leave = { .type = MEMBER_SEND,
					     .message = CONTROL_LEAVE,
					     .number = 4242 };

	(void)state;
	answer_do(1, leave);
	tell(1, MEMBER_TICK, begin_ns);
	assert_int_equal(test.sends, 0);
	connect_seat(1);
	answer_do(1, leave);
	tell(1, MEMBER_TICK, begin_ns);
	assert_int_equal(test.sends, 1);
	assert_int_equal(test.sent.type, CONTROL_LEAVE);
	assert_int_equal(test.sent.leave.submitted, 4242);
	test.send_error = -EPIPE; /* connection_read tells it */
	answer_do(1, leave);
	tell(1, MEMBER_TICK, begin_ns);
	step_last_is(3, 1, MEMBER_TICK);
	test.send_error = -ENOMEM;
	answer_do(1, leave);
	tell(1, MEMBER_TICK, begin_ns);
	step_last_is(5, 1, MEMBER_ERROR);
	assert_int_equal(test.steps[4].event.cause, CONTROL_NO_MEMORY);
	assert_string_equal(test.steps[4].text, "out of memory for a message to the aggregator");
}

/* Works that nobody has submitted: their numbers are enough. */
static void outstanding(struct tally_work *works, uint32_t count, uint64_t first)
{
	for (uint32_t i = 0; i < count; i++) {
		works[i].op.number = first + i;
		works[i].op.count = 1000 - i;
		work_append(&test.comm.outstanding, &works[i]);
	}
	test.comm.next_number = first + count;
}

static void ask(uint64_t from, uint32_t round)
{
	answer_do(0,
		  (struct member_action){ .type = MEMBER_OPINFO, .number = from, .serial = round });
	tell(0, MEMBER_TICK, begin_ns);
}

static void opinfo__lists_what_is_outstanding_from_a_number_on(void **state)
{
	static struct tally_work works[4];
	const struct control_opinfo *info = &test.sent.opinfo;

	(void)state;
	memset(works, 0, sizeof(works));
	present_here(); /* as any call of the program's */
	test.comm.next_number = 17;
	ask(0, 1);
	assert_int_equal(test.sends, 0); /* nobody is connected */
	connect_seat(0);
	ask(0, 2);
	assert_int_equal(test.sends, 1);
	assert_int_equal(test.sent.type, CONTROL_OPINFO);
	assert_int_equal(info->round, 2);
	assert_true(info->process != 0);
	assert_true(info->threads > 0);
	assert_int_equal(info->oldest, 17);
	assert_int_equal(info->submitted, 17);
	assert_int_equal(info->ops_count + info->has_more + info->blocked + info->is_warn, 0);
	outstanding(works, 4, 20);
	works[3].done_fn = (tally_done_fn)abort; /* never called */
	test.comm.boot.is_crossed_warn = true;
	ask(22, 3);
	assert_int_equal(info->oldest, 20);
	assert_int_equal(info->submitted, 24);
	assert_int_equal(info->ops_count, 2);
	assert_int_equal(info->has_more, 0);
	assert_int_equal(info->is_warn, 1);
	assert_int_equal(info->blocked, 1);
	assert_int_equal(info->waits, 23);
	assert_int_equal(test.sent_ops[0].number, 22);
	assert_int_equal(test.sent_ops[0].count, 998);
	assert_int_equal(test.sent_ops[1].number, 23);
	step_last_is(3, 0, MEMBER_TICK);
	test.send_error = -ENOMEM;
	ask(22, 4);
	step_last_is(5, 0, MEMBER_ERROR);
}

static void opinfo__says_that_there_is_more_than_it_has_room_for(void **state)
{
	static struct tally_work works[CONTROL_OPS_MAX + 1];
	const struct control_opinfo *info = &test.sent.opinfo;

	(void)state;
	memset(works, 0, sizeof(works));
	connect_seat(0);
	outstanding(works, CONTROL_OPS_MAX + 1, 5);
	ask(6, 1);
	assert_int_equal(info->ops_count, CONTROL_OPS_MAX);
	assert_int_equal(info->has_more, 0);
	ask(0, 2);
	assert_int_equal(info->ops_count, CONTROL_OPS_MAX);
	assert_int_equal(info->has_more, 1);
	test.is_short = true;
	ask(0, 3);
	test.is_short = false;
	assert_int_equal(info->ops_count, 0);
	assert_int_equal(info->has_more, 1);
	assert_int_equal(info->submitted, 5 + CONTROL_OPS_MAX + 1);
}

static void hello__goes_to_the_endpoint_unless_somebody_drives_it(void **state)
{
	const struct member_action hello = {
		.type = MEMBER_HELLO, .shard = 1, .serial = 9, .lanes = 64
	};

	(void)state;
	answer_do(1, hello);
	tell(1, MEMBER_TICK, begin_ns); /* there is no endpoint yet */
	test.comm.endpoint = endpoint();
	test.comm.is_driven = true;
	answer_do(1, hello);
	tell(1, MEMBER_TICK, begin_ns);
	assert_int_equal(test.hellos, 0);
	test.comm.is_driven = false;
	answer_do(1, hello);
	tell(1, MEMBER_TICK, begin_ns);
	assert_int_equal(test.hellos, 1);
	assert_int_equal(test.hello_shard, 1 + 1); /* behind the shard of the first */
	assert_int_equal(test.hello_serial, 9);
	assert_int_equal(test.hello_lanes, 64);
}

/* ---- what others have said ---- */

static void progress__is_a_warning_if_it_says_what_to_set(void **state)
{
	(void)state;
	tell(0, MEMBER_TICK, begin_ns);
	assert_int_equal(test.log_lines, 0);
	strcpy(answer(0)->text, "not to be said");
	tell(0, MEMBER_TICK, begin_ns);
	assert_int_equal(test.log_lines, 0);
	strcpy(answer(0)->text, "waiting for rank 1");
	test.seat[0].answers[1].has_progress = true;
	tell(0, MEMBER_TICK, begin_ns);
	heard(TALLY_LOG_INFO, "[job circle rank 2 host h2] waiting for rank 1");
	strcpy(answer(0)->text, "give each its TALLY_JOB");
	test.seat[0].answers[2].has_progress = true;
	tell(0, MEMBER_TICK, begin_ns);
	heard(TALLY_LOG_WARN, "give each its TALLY_JOB");
}

static void waiting__is_kept_and_said_in_one_line(void **state)
{
	struct control_message message = {
		.type = CONTROL_WAITING,
		.waiting = { .number = 7, .waited_ms = 600, .missing_count = 2, .text = "rank\n3" }
	};
	struct member_event event = { .type = MEMBER_MESSAGE,
				      .now_ns = begin_ns,
				      .message = &message };

	(void)state;
	membership_do(&test.comm, seat(1), &test.codec, &event);
	assert_int_equal(test.comm.late.missing_count, 0); /* the machine has not said so */
	event.message = &message;
	event.type = MEMBER_MESSAGE;
	answer(1)->has_waiting = true;
	membership_do(&test.comm, seat(1), &test.codec, &event);
	assert_int_equal(test.comm.late.number, 7);
	assert_int_equal(test.comm.late.waited_ms, 600);
	assert_int_equal(test.comm.late.missing_count, 2);
	assert_string_equal(test.comm.late.text, "rank?3");
	heard(TALLY_LOG_DEBUG, "rank?3");
}

/* Whichever aggregator says it, and as soon as one says so long a time. */
static void waiting__for_30_s_is_a_warning_once_an_operation(void **state)
{
	static const struct {
		uint32_t seat, number, waited_ms, missing_count;
		int level;
	} cases[] = {
		{ 0, 7, 29999, 2, TALLY_LOG_DEBUG }, { 1, 7, 30000, 2, TALLY_LOG_WARN },
		{ 0, 7, 30001, 2, TALLY_LOG_DEBUG }, { 1, 7, 99000, 1, TALLY_LOG_DEBUG },
		{ 0, 8, 30000, 0, TALLY_LOG_DEBUG }, /* all have called it */
		{ 0, 8, 45000, 1, TALLY_LOG_WARN },  { 1, 7, 99999, 1, TALLY_LOG_DEBUG },
		{ 1, 9, 70000, 1, TALLY_LOG_WARN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct control_message message = {
			.type = CONTROL_WAITING,
			.waiting = { .number = cases[i].number,
				     .waited_ms = cases[i].waited_ms,
				     .missing_count = (uint16_t)cases[i].missing_count }
		};
		struct member_event event = { .type = MEMBER_MESSAGE,
					      .now_ns = begin_ns,
					      .message = &message };

		snprintf(message.waiting.text, sizeof(message.waiting.text),
			 "operation %u waits for rank 3 on h3", cases[i].number);
		answer(cases[i].seat)->has_waiting = true;
		membership_do(&test.comm, seat(cases[i].seat), &test.codec, &event);
		assert_int_equal(test.log_lines, i + 1);
		heard(cases[i].level, message.waiting.text);
	}
}

/* ---- START ---- */

static const struct control_member started[] = { { .pid = 31, .rank = 3, .host = "h3" },
						 { .pid = 11, .rank = 1, .host = "h1" },
						 { .pid = 41, .rank = 4, .host = "none" } };

static void start(uint32_t i, uint16_t lanes)
{
	struct control_message message = {
		.type = CONTROL_START,
		.start = { .lanes = lanes, .members_count = 3, .members = started }
	};
	struct member_event event = { .type = MEMBER_MESSAGE,
				      .now_ns = begin_ns,
				      .message = &message };

	answer_do(i, (struct member_action){ .type = MEMBER_START, .lanes = lanes });
	membership_do(&test.comm, seat(i), &test.codec, &event);
}

static void start__of_all_begins_with_the_least_lanes(void **state)
{
	(void)state;
	test.comm.endpoint = endpoint();
	start(1, 64);
	start(0, 128);
	assert_int_equal(test.starts, 0);
	assert_int_equal(test.comm.state, COMM_JOINING);
	assert_int_equal(test.notifies, 0);
	start(2, 248);
	assert_int_equal(test.starts, 1);
	assert_int_equal(test.start_lanes, 64);
	assert_int_equal(test.comm.lanes, 64);
	assert_int_equal(test.comm.state, COMM_RUNNING);
	assert_int_equal(test.notifies, 1);
	assert_int_equal(test.steps_count, 3);
	for (uint32_t rank = 0; rank < 4; rank++)
		assert_int_equal(test.comm.members[rank].rank, rank);
	assert_int_equal(test.comm.members[0].pid, 0); /* nobody spoke of it */
	assert_int_equal(test.comm.members[1].pid, 11);
	assert_int_equal(test.comm.members[3].pid, 31);
	assert_string_equal(test.comm.members[3].host, "h3");
}

static void start__that_cannot_be_is_an_error(void **state)
{
	(void)state;
	test.comm.endpoint = endpoint();
	seat(1)->lanes = seat(2)->lanes = 64;
	test.start_error = -EINVAL;
	start(0, 128);
	step_last_is(2, 0, MEMBER_ERROR);
	assert_int_equal(test.steps[1].event.cause, CONTROL_INTERNAL);
	assert_string_equal(test.steps[1].text, "START with impossible lanes");
	test.start_error = -ENOMEM;
	start(0, 128);
	step_last_is(4, 0, MEMBER_ERROR);
	assert_int_equal(test.steps[3].event.cause, CONTROL_NO_MEMORY);
	assert_string_equal(test.steps[3].text, "out of memory for the slots");
	assert_int_equal(test.comm.state, COMM_JOINING);
	assert_int_equal(test.comm.lanes + test.notifies, 0);
}

/* Nothing else is waited for then. */
static void start__without_memory_for_the_members_is_an_error(void **state)
{
	(void)state;
	test.comm.endpoint = endpoint();
	test.is_short = true;
	start(0, 128);
	test.is_short = false;
	assert_null(test.comm.members);
	step_last_is(2, 0, MEMBER_ERROR);
	assert_int_equal(test.steps[1].event.cause, CONTROL_NO_MEMORY);
	assert_int_equal(test.starts, 0);
}

/* Level and text of what a rank says first. A process says it once: each is a child. */
static void banner_is(int level, const char *words)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		test.comm.endpoint = endpoint();
		for (uint32_t i = 0; i < test.membership.seats_count; i++)
			start(i, 60);
		if (test.log_level != level || !strstr(test.log, words))
			print_error("level %d: %s\n", test.log_level, test.log);
		_exit(test.log_level != level || !strstr(test.log, words));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void banner__is_rank_0s_or_of_who_has_an_interface(void **state)
{
	(void)state;
	test.comm.shards = 4;
	test.comm.slots = 512;
	test.comm.run = 8;
	banner_is(TALLY_LOG_DEBUG, ": 4 ranks, aggregator a:1,b:2,c:3, 4 shards, 60 lanes, window "
				   "33 of 512 slots, run 8");
	strcpy(test.comm.boot.interface, "eth7");
	banner_is(TALLY_LOG_INFO, "aggregator a:1,b:2,c:3, from eth7, 4 shards");
	test.membership.seats_count = 2;
	banner_is(TALLY_LOG_INFO, "aggregator a:1,b:2,c:3, from eth7, 4 shards");
	test.comm.boot.interface[0] = 0;
	test.comm.who.rank = 0;
	test.membership.seats_count = 1;
	test.comm.shards = 1;
	banner_is(TALLY_LOG_INFO, ": 4 ranks, aggregator a:1, 1 shard, 60 lanes");
	banner_is(TALLY_LOG_INFO, "tally " TALLY_VERSION);
	banner_is(TALLY_LOG_INFO,
		  *TALLY_COMMIT ? " (commit " TALLY_COMMIT ")" : TALLY_VERSION ": 4");
	test.comm.endpoint = endpoint();
	start(0, 60);
	assert_int_equal(test.log_level, TALLY_LOG_INFO);
	start(0, 60);
	assert_int_equal(test.log_level, TALLY_LOG_DEBUG); /* it has been said */
}

/* ---- the end ---- */

static void close__lets_a_connection_say_its_last_words(void **state)
{
	(void)state;
	answer_do(1, (struct member_action){ .type = MEMBER_CLOSE });
	tell(1, MEMBER_TICK, begin_ns);
	assert_true(seat(1)->is_ending);
	assert_int_equal(test.last_words, 0);
	connect_seat(0);
	answer_do(0, (struct member_action){ .type = MEMBER_CLOSE });
	tell(0, MEMBER_TICK, begin_ns + 3);
	assert_true(seat(0)->is_ending);
	assert_int_equal(test.last_words, 1);
	assert_true(test.last_words_ns == begin_ns + 3);
}

static void left__is_who_has_left_all_aggregators(void **state)
{
	(void)state;
	test.comm.state = COMM_LEAVING;
	for (uint32_t i = 0; i < SEATS; i++) {
		seat(i)->member.state = MEMBER_LEFT;
		answer_do(i, (struct member_action){ .type = MEMBER_IS_LEFT });
		tell(i, MEMBER_TICK, begin_ns);
		assert_int_equal(test.comm.state, i < SEATS - 1 ? COMM_LEAVING : COMM_LEFT);
		assert_int_equal(test.notifies, i == SEATS - 1);
	}
}

static void ends_with(uint32_t i, enum control_cause cause, const char *text)
{
	struct member_actions *the = answer_do(i, (struct member_action){ .type = MEMBER_FAIL });

	the->cause = (uint16_t)cause;
	strcpy(the->text, text);
	test.membership.has_failed = false;
	tell(i, MEMBER_TICK, begin_ns);
}

static void failure__is_the_first_ones_and_the_others_are_told(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SEATS; i++)
		seat(i)->member.state = MEMBER_RUN;
	/* The machine of the third fails because of what it is told: that is no news. */
	answer_do(2, (struct member_action){ .type = MEMBER_FAIL })->cause = CONTROL_INTERNAL;
	ends_with(1, CONTROL_MISMATCH, "rank 3 called a barrier");
	assert_int_equal(test.breaks, 1);
	assert_int_equal(test.break_result, TALLY_ERR_MISMATCH);
	assert_string_equal(test.break_text, "rank 3 called a barrier");
	assert_int_equal(test.steps_count, 3);
	assert_int_equal(test.break_after, 3); /* a program that knows may end at once */
	for (uint32_t i = 0; i < 2; i++) {
		step_is(1 + i, 2 * i, MEMBER_ERROR);
		assert_int_equal(test.steps[1 + i].event.cause, CONTROL_MISMATCH);
		assert_true(test.steps[1 + i].event.now_ns == begin_ns);
		assert_string_equal(test.steps[1 + i].text, "rank 3 called a barrier");
	}
	seat(0)->member.state = MEMBER_FAILED; /* it is over there */
	ends_with(1, CONTROL_REMOTE, "rank 0 died");
	assert_int_equal(test.breaks, 2);
	step_last_is(5, 2, MEMBER_ERROR);
}

static void failure__in_local_mode_says_what_to_set(void **state)
{
	(void)state;
	test.membership.seats_count = 1;
	test.comm.boot.is_launched = true;
	ends_with(0, CONTROL_SYSTEM, "no answer");
	assert_string_equal(test.break_text, "no answer");
	test.comm.boot.is_local = true;
	ends_with(0, CONTROL_SYSTEM, "no answer");
	assert_string_equal(test.break_text,
			    "no answer; if the ranks are on several hosts, set "
			    "TALLY_AGGREGATOR=host:port; if two programs have this launch, give "
			    "each its TALLY_JOB");
	test.comm.boot.is_launched = false;
	ends_with(0, CONTROL_SYSTEM, "no answer");
	assert_string_equal(test.break_text, "no answer; if the ranks are on several hosts, set "
					     "TALLY_AGGREGATOR=host:port");
	seat(0)->member.is_again = true; /* it was there, and ending */
	ends_with(0, CONTROL_SYSTEM, "no answer");
	assert_string_equal(test.break_text, "no answer");
}

/* An error of the others' may be that they wait elsewhere. */
static void failure__of_who_waited_for_others_says_where(void **state)
{
	(void)state;
	test.membership.seats_count = 2;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, "late"); /* it never joined */
	seat(0)->member.is_joined = seat(1)->member.is_joined = true;
	ends_with(0, CONTROL_REMOTE, "late");
	assert_string_equal(test.break_text, "late");
	ends_with(1, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, "late"); /* at the first all have been */
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text,
			    "late; this rank waited at the aggregator a:1 of the list "
			    "a:1,b:2,c:3: all must be given the same list");
	test.membership.seats_count = 1;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, "late; this rank waited at the aggregator a:1");
}

/* What it waits for may be here, and wait for others of its own command line. */
static void failure__of_who_waited_under_a_launchers_name_says_what_to_set(void **state)
{
	const char *const plain = "late; this rank waited at the aggregator a:1";
	const char *const launched =
		"late; this rank waited at the aggregator a:1; ranks with another command line "
		"wait apart, for the name is the launcher's: if they are one job, set one "
		"TALLY_JOB for all";

	(void)state;
	test.membership.seats_count = 1;
	seat(0)->member.is_joined = true;
	test.comm.boot.is_launched = true;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, launched);
	test.comm.boot.is_alone = true;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, plain);
	test.comm.boot.is_alone = false;
	test.comm.join_life = 7;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, plain);
}

static void failure__of_who_waited_is_silent_where_there_is_one_place(void **state)
{
	(void)state;
	test.membership.seats_count = 1;
	seat(0)->member.is_joined = true;
	seat(0)->is_granted = true;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, "late"); /* all were there */
	seat(0)->is_granted = false;
	test.comm.boot.is_local = true;
	ends_with(0, CONTROL_TIMEOUT, "late");
	assert_string_equal(test.break_text, "late");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(banner__is_rank_0s_or_of_who_has_an_interface), /* first: it is said once */
		T(connect__of_a_name_takes_its_addresses_in_turn),
		T(connect__that_is_refused_is_an_event),
		T(absent__is_said_once_after_5_s_of_attempts),
		T(send__needs_a_connection_and_memory),
		T(opinfo__lists_what_is_outstanding_from_a_number_on),
		T(opinfo__says_that_there_is_more_than_it_has_room_for),
		T(hello__goes_to_the_endpoint_unless_somebody_drives_it),
		T(progress__is_a_warning_if_it_says_what_to_set),
		T(waiting__is_kept_and_said_in_one_line),
		T(waiting__for_30_s_is_a_warning_once_an_operation),
		T(start__of_all_begins_with_the_least_lanes),
		T(start__that_cannot_be_is_an_error),
		T(start__without_memory_for_the_members_is_an_error),
		T(close__lets_a_connection_say_its_last_words),
		T(left__is_who_has_left_all_aggregators),
		T(failure__is_the_first_ones_and_the_others_are_told),
		T(failure__in_local_mode_says_what_to_set),
		T(failure__of_who_waited_for_others_says_where),
		T(failure__of_who_waited_under_a_launchers_name_says_what_to_set),
		T(failure__of_who_waited_is_silent_where_there_is_one_place),
#undef T
	};

	return cmocka_run_group_tests_name("lib-membership", tests, NULL, NULL);
}
