/* SPDX-License-Identifier: Apache-2.0 */
/* cycle_test.c - jobs whose processes wait for one another: when that is looked at, what is said, and which jobs
 * end (R-CT-45 to R-CT-48). */
#include "server/inside_fixture.h"

enum { EDGES_MAX = 7, OTHER = JOBS - 1 };

static struct {
	uint32_t jobs;  /* in a ring */
	uint32_t moves; /* that each process has made */
	uint32_t round;
	bool is_warn;
	struct {
		const struct job *job;
		enum admission_event_type type;
		uint16_t rank;
		enum control_cause cause;
		char text[CONTROL_TEXT_BYTES];
	} steps[JOBS];
	uint32_t steps_count;
} ring;

void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event);

void __wrap_job_step(struct server *server, struct job *job, struct admission_event *event)
{
	assert_ptr_equal(server, &test.server);
	assert_true(ring.steps_count < JOBS);
	ring.steps[ring.steps_count].job = job;
	ring.steps[ring.steps_count].type = event->type;
	ring.steps[ring.steps_count].rank = event->rank;
	ring.steps[ring.steps_count].cause = event->cause;
	snprintf(ring.steps[ring.steps_count++].text, CONTROL_TEXT_BYTES, "%s", event->text);
}

/* Of job i rank 0 is process i, which waits there for rank 1, the next one of the ring. */
static void begin(uint32_t jobs)
{
	static struct crossed_view *views[JOBS];

	memset(&ring, 0, sizeof(ring));
	ring.jobs = jobs;
	test.server.crossed.views = views;
	test.server.options.heartbeat_ms = 12000; /* they have to say the same for 6 s */
	for (uint32_t i = 0; i <= jobs; i++) {
		uint32_t at = i == jobs ? (uint32_t)OTHER : i; /* one that goes on, besides */
		char name[16], host[16];
		struct job *job;

		snprintf(name, sizeof(name), "j%u", at);
		job = inside_job(at, name, ADMISSION_STARTED, 2);
		for (uint32_t rank = 0; rank < 2; rank++) {
			snprintf(host, sizeof(host), "h%u", (i + rank) % jobs);
			inside_member(job, rank, ADMISSION_READY, host)->peer.connection =
				1 + 2 * at + rank;
		}
		crossed_begin(job);
		assert_non_null(job->crossed);
		assert_int_equal(job->crossed->size, 2);
	}
}

static void end(void)
{
	for (uint32_t i = 0; i < JOBS; i++)
		crossed_end(&test.job[i]);
}

static void ask(struct job *job)
{
	for (uint32_t rank = 0; rank < 2; rank++)
		crossed_asked(job,
			      &(struct admission_action){ .connection = 1 + 2u * job->index + rank,
							  .number = ring.round },
			      test.now_ns);
	/* a stranger's */
	crossed_asked(job, &(struct admission_action){ .connection = 99, .number = ring.round + 1 },
		      test.now_ns);
}

static void answer(struct job *job, uint32_t rank, uint32_t process, bool is_blocked)
{
	const uint64_t number = 3 + job->index;
	const struct control_opinfo info = { .round = ring.round,
					     .process = 1000 + process,
					     .entries = 50 + process + 1000 * ring.moves,
					     .submitted = rank ? number : number + 1,
					     .waits = number,
					     .threads = 1,
					     .blocked = is_blocked,
					     .is_warn = ring.is_warn };

	crossed_answered(&test.server, job, 1 + 2u * job->index + rank, &info, test.now_ns);
}

/* Every job of the ring is asked and answers. */
static void say(void)
{
	ring.round++;
	for (uint32_t i = 0; i < ring.jobs; i++) {
		ask(&test.job[i]);
		answer(&test.job[i], 0, i, true);
		crossed_answered(&test.server, &test.job[i], 99,
				 &(struct control_opinfo){ .round = ring.round }, test.now_ns);
		assert_int_equal(test.server.crossed.has_news, i > 0);
		answer(&test.job[i], 1, (i + 1) % ring.jobs, false);
		assert_true(test.server.crossed.has_news);
	}
	ask(&test.job[OTHER]);
	answer(&test.job[OTHER], 0, 500, false);
	answer(&test.job[OTHER], 1, 501, false);
}

/* They say the same each second, and all views are looked at. */
static void say_for(uint32_t seconds)
{
	for (uint32_t s = 0; s < seconds; s++) {
		say();
		crossed_tick(&test.server, test.now_ns);
		test.now_ns += second_ns;
	}
}

static void crossed__two_jobs_that_wait_for_one_another_end_and_no_other_does(void **state)
{
	static const char words[] =
		"its ranks wait for one another, for ever: in job \"j0\" rank 0 on "
		"h0 waits in operation 3 for rank 1 on h1; in job \"j1\" rank 0 on "
		"h1 waits in operation 4 for rank 1 on h0";

	(void)state;
	begin(2);
	inside_job(5, "none", ADMISSION_STARTED, 1); /* no memory was left for its view */
	say_for(6);
	assert_int_equal(ring.steps_count, 0);
	say_for(1);
	assert_int_equal(ring.steps_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_ptr_equal(ring.steps[i].job, &test.job[i]);
		assert_int_equal(ring.steps[i].type, ADMISSION_BROKEN);
		assert_int_equal(ring.steps[i].rank, CONTROL_RANK_NONE);
		assert_int_equal(ring.steps[i].cause, CONTROL_MISMATCH);
		assert_string_equal(ring.steps[i].text, words);
	}
	assert_int_equal(test.lines, 0);
	end();
}

static void crossed__who_has_moved_is_not_stuck(void **state)
{
	(void)state;
	begin(2);
	for (uint32_t i = 0; i < 3; i++) {
		say_for(6);
		ring.moves++;
	}
	assert_int_equal(ring.steps_count, 0);
	crossed_begin(&test.job[1]); /* another life */
	assert_int_equal(test.job[1].crossed->has_said, 0);
	end();
	assert_null(test.job[0].crossed);
	crossed_answered(&test.server, &test.job[0], 1, &(struct control_opinfo){ .round = 1 },
			 test.now_ns);
}

static void crossed__of_a_long_cycle_six_waits_are_named(void **state)
{
	static const char more[] = "; and so on, 7 in all";

	(void)state;
	for (uint32_t jobs = 6; jobs <= EDGES_MAX; jobs++) {
		const char *text = ring.steps[0].text;
		uint32_t waits = 0;

		begin(jobs);
		say_for(7);
		assert_int_equal(ring.steps_count, jobs);
		for (const char *at = text; (at = strstr(at, " waits in operation ")); at++)
			waits++;
		assert_int_equal(waits, 6);
		if (jobs == 6)
			assert_null(strstr(text, "and so on"));
		else
			assert_string_equal(text + strlen(text) - strlen(more), more);
		end();
		inside_teardown(NULL);
		inside_setup(NULL);
	}
}

static void crossed__that_its_user_wants_a_warning_is_said_once_until_somebody_moves(void **state)
{
	(void)state;
	begin(2);
	ring.is_warn = true;
	say_for(9);
	assert_int_equal(ring.steps_count, 0);
	assert_int_equal(test.lines, 1);
	assert_line(
		0, SERVER_WARN, "j0", SERVER_RANK_NONE,
		"job j0: TALLY_CROSSED=warn: its ranks wait for one another, for ever: in job "
		"\"j0\" rank 0 on h0 waits in operation 3 for rank 1 on h1; in job \"j1\" rank 0 "
		"on h1 waits in operation 4 for rank 1 on h0");
	ring.moves++;
	say_for(9);
	assert_int_equal(test.lines, 2);
	assert_int_equal(ring.steps_count, 0);
	end();
}

/* It is told by a number that no look leaves there. */
static bool is_looked_at(void)
{
	test.server.crossed.look.found = 12345;
	crossed_tick(&test.server, test.now_ns);
	return test.server.crossed.look.found != 12345;
}

static void crossed__views_are_looked_at_when_there_is_news_four_times_a_second(void **state)
{
	(void)state;
	begin(2);
	assert_false(is_looked_at());
	test.server.crossed.has_news = true;
	assert_true(is_looked_at());
	assert_false(test.server.crossed.has_news);
	test.now_ns += second_ns;
	assert_false(is_looked_at());
	test.server.crossed.has_news = true;
	assert_true(is_looked_at());
	test.server.crossed.has_news = true;
	test.now_ns += 250 * MS_NS - 1;
	assert_false(is_looked_at());
	assert_true(test.server.crossed.has_news);
	test.now_ns++;
	assert_true(is_looked_at());
	end();
}

static void crossed__for_whom_a_rank_waits_in_turn_is_said_for_four_waits(void **state)
{
	static const char words[] =
		"2 of 2"
		"; in job \"j1\" rank 0 on h1 waits in operation 4 for rank 1 on h2"
		"; in job \"j2\" rank 0 on h2 waits in operation 5 for rank 1 on h3"
		"; in job \"j3\" rank 0 on h3 waits in operation 6 for rank 1 on h4"
		"; in job \"j4\" rank 0 on h4 waits in operation 7 for rank 1 on h5";
	struct control_waiting waiting = { .missing_count = 1,
					   .listed_count = 1,
					   .missing = { 1 } };

	(void)state;
	begin(7);
	say();
	strcpy(waiting.text, "2 of 2");
	crossed_chain_add(&test.server, &test.job[0], test.now_ns, &waiting);
	assert_string_equal(waiting.text, words);
	crossed_end(&test.job[3]); /* there is no word of it any more */
	strcpy(waiting.text, "2 of 2");
	crossed_chain_add(&test.server, &test.job[0], test.now_ns, &waiting);
	assert_int_equal(strlen(waiting.text), strstr(words, "; in job \"j3\"") - words);
	assert_memory_equal(waiting.text, words, strlen(waiting.text));
	strcpy(waiting.text, "2 of 2");
	waiting.missing[0] = 0; /* who waits in no other job */
	crossed_chain_add(&test.server, &test.job[OTHER], test.now_ns, &waiting);
	assert_string_equal(waiting.text, "2 of 2");
	waiting.missing[0] = 1;
	waiting.listed_count = 0;
	crossed_chain_add(&test.server, &test.job[0], test.now_ns, &waiting);
	assert_string_equal(waiting.text, "2 of 2");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INSIDE_TEST(crossed__two_jobs_that_wait_for_one_another_end_and_no_other_does),
		INSIDE_TEST(crossed__who_has_moved_is_not_stuck),
		INSIDE_TEST(crossed__of_a_long_cycle_six_waits_are_named),
		INSIDE_TEST(
			crossed__that_its_user_wants_a_warning_is_said_once_until_somebody_moves),
		INSIDE_TEST(crossed__views_are_looked_at_when_there_is_news_four_times_a_second),
		INSIDE_TEST(crossed__for_whom_a_rank_waits_in_turn_is_said_for_four_waits),
	};

	return cmocka_run_group_tests_name("server-cycle", tests, NULL, NULL);
}
