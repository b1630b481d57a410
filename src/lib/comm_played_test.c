/* SPDX-License-Identifier: Apache-2.0 */
/* comm_played_test.c - a communicator from its options to its end, without others: whoever would answer is played. */
#include "lib/local.h"
#include "lib/played_fixture.h"

/* ---- from open to destroy ---- */

static struct {
	int open_result;
	bool is_there_at_once; /* all others are */
	int breaks;            /* what breaks it while it joins */
	uint32_t adds, removes;
	bool had_abort; /* it wanted one, at its end */
	/* As it was when it was to join. */
	uint32_t poll_count, window_packets, latency_slots, latency_window;
	tally_interrupted_fn interrupted;
	void *interrupted_ctx;
	uint64_t join_life;
	char key[CONTROL_KEY_BYTES], local_job[BOOTSTRAP_JOB_MAX + 18];
	struct report_who who;
} life;

int __wrap_membership_open(struct tally_comm *comm);
int __wrap_background_add(struct tally_comm *comm);
void __wrap_background_remove(struct tally_comm *comm);

int __wrap_membership_open(struct tally_comm *comm)
{
	test.at = comm;
	life.poll_count = comm->poll_count;
	life.window_packets = comm->window_packets;
	life.latency_slots = comm->latency_slots;
	life.latency_window = comm->latency_window;
	life.interrupted = comm->interrupted;
	life.interrupted_ctx = comm->interrupted_ctx;
	life.join_life = comm->join_life;
	life.who = comm->who;
	strcpy(life.key, comm->key);
	strcpy(life.local_job, comm->local_job);
	assert_true(atomic_load(&comm->deadline_ns) == UINT64_MAX);
	return life.open_result ? report_error(&comm->who, life.open_result, "no membership") : 0;
}

int __wrap_background_add(struct tally_comm *comm)
{
	life.adds++;
	if (life.is_there_at_once)
		comm->state = COMM_RUNNING;
	if (life.breaks)
		comm_break(comm, life.breaks, "nobody came");
	return TALLY_OK;
}

void __wrap_background_remove(struct tally_comm *comm)
{
	assert_ptr_equal(comm, test.at);
	life.had_abort = comm->wants_abort;
	life.removes++;
}

static int begin(void **state)
{
	memset(&life, 0, sizeof(life));
	life.is_there_at_once = true;
	return setup(state);
}

static int interrupted_never(void *ctx)
{
	(void)ctx;
	return 0;
}

static const struct bootstrap boot = { .job = "j",
				       .size = 3,
				       .rank = 2,
				       .key = "a key of ours",
				       .aggregator = "192.0.2.1",
				       .window_packets = 23,
				       .source = "arguments" };

static void open__takes_what_the_options_say(void **state)
{
	/* Slots, window as asked for, window as it is. */
	static const uint32_t windows[][3] = { { 0, 0, 0 }, { 1, 0, 1 }, { 2, 0, 1 },
					       { 7, 0, 3 }, { 7, 7, 7 }, { 7, 1, 1 } };
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = (struct tally_comm *)&life;

	(void)state;
	life.open_result = TALLY_ERR_NO_MEMORY;
	options.poll_count = 17;
	options.interrupted = interrupted_never;
	options.interrupted_ctx = &options;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		options.latency_slots = windows[i][0];
		options.latency_window = windows[i][1];
		assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_ERR_NO_MEMORY);
		assert_int_equal(life.latency_slots, windows[i][0]);
		assert_int_equal(life.latency_window, windows[i][2]);
	}
	assert_int_equal(life.poll_count, 17);
	assert_int_equal(life.window_packets, 23);
	assert_ptr_equal(life.interrupted, interrupted_never);
	assert_ptr_equal(life.interrupted_ctx, &options);
	assert_string_equal(life.key, "a key of ours");
	assert_string_equal(life.who.job, "j");
	assert_int_equal(life.who.rank, 2);
	assert_int_equal(life.who.size, 3);
	assert_ptr_equal(comm, &life); /* what fails leaves it as it was */
	assert_int_equal(life.adds, 0);
}

/* Jobs of one name and two lives have two hosts; a part has its parent's. */
static void open__names_the_job_and_its_life_for_local_mode(void **state)
{
	const struct tally_options options = TALLY_OPTIONS_INIT;
	struct bootstrap mine = boot;
	struct tally_comm *comm;

	(void)state;
	life.open_result = TALLY_ERR_NO_MEMORY;
	assert_int_equal(comm_open(&comm, &mine, &options, NULL), TALLY_ERR_NO_MEMORY);
	assert_string_equal(life.local_job, "j");
	assert_true(life.join_life == 0);
	mine.life = 0xfeed;
	assert_int_equal(comm_open(&comm, &mine, &options, NULL), TALLY_ERR_NO_MEMORY);
	assert_string_equal(life.local_job, "000000000000feed/j");
	assert_true(life.join_life == 0xfeed);
	strcpy(test.comm.local_job, "its parent's");
	test.comm.life = 0xbeef;
	assert_int_equal(comm_open(&comm, &mine, &options, &test.comm), TALLY_ERR_NO_MEMORY);
	assert_string_equal(life.local_job, "its parent's");
	assert_true(life.join_life == 0xbeef);
}

static void open__of_a_part_that_fails_leaves_the_parents_aggregator(void **state)
{
	const struct tally_options options = TALLY_OPTIONS_INIT;
	struct local local = { .users = 1 };
	struct tally_comm *comm;

	(void)state;
	life.open_result = TALLY_ERR_NO_MEMORY;
	test.comm.local = &local;
	assert_int_equal(comm_open(&comm, &boot, &options, &test.comm), TALLY_ERR_NO_MEMORY);
	assert_int_equal(atomic_load(&local.users), 1); /* the parent's alone */
	test.comm.local = NULL;
}

static void open__that_fails_says_why_and_waits_a_quarter_of_a_second(void **state)
{
	const struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	char text[256];

	(void)state;
	life.is_there_at_once = false;
	life.breaks = TALLY_ERR_TIMEOUT;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_ERR_TIMEOUT);
	snprintf(text, sizeof(text), "nobody came (rank 2 of 3 on %s, job j)", life.who.host);
	assert_string_equal(tally_get_last_error(NULL), text);
	assert_null(comm);
	assert_int_equal(test.now_ns, begin_ns + 250 * ms); /* for its last words */
	assert_int_equal(life.removes, 1);
	/* What breaks a job that has begun is told by this rank's first call. */
	life.is_there_at_once = true;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_OK);
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_ERR_TIMEOUT);
	tally_comm_destroy(comm);
	assert_int_equal(test.now_ns, begin_ns + 1250 * ms);
	assert_int_equal(life.removes, 2);
}

/* The aggregator has heard that this rank leaves, and the connection is over. */
static void all_leave(void)
{
	assert_int_equal(test.at->state, COMM_LEAVING);
	assert_true(test.at->wants_leave);
	test.at->state = COMM_LEFT;
	test.at->is_over = true;
}

static void finalize__leaves_when_nothing_is_on_its_way_any_more(void **state)
{
	const struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_comm *comm = NULL;
	uint32_t kicks;

	(void)state;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_OK);
	test.meanwhile = all_leave;
	kicks = test.kicks;
	assert_int_equal(tally_comm_finalize(comm), TALLY_OK);
	assert_int_equal(test.kicks, kicks + 1);
	assert_non_null(strstr(test.log, "left after 0 operations"));
	assert_int_equal(tally_comm_finalize(comm), TALLY_ERR_USAGE);
	said("tally_comm_finalize: twice");
	assert_int_equal(tally_barrier(comm), TALLY_ERR_USAGE);
	assert_int_equal(tally_comm_get_async_error(comm), TALLY_OK);
	test.meanwhile = NULL;
	tally_comm_destroy(comm);
	assert_int_equal(test.now_ns, begin_ns); /* all is said: it waits for nobody */
	assert_int_equal(life.removes, 1);
}

static void all_break(void)
{
	comm_break(test.at, TALLY_ERR_REMOTE, "rank 1 is gone");
}

/* Those whom it hosts may be there for long: who destroys it waits for them, and only for a while. */
static void finalize__that_fails_waits_for_no_others_to_leave(void **state)
{
	const struct tally_options options = TALLY_OPTIONS_INIT;
	struct local local = { .users = 2 };
	struct tally_comm *comm = NULL;

	(void)state;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_OK);
	comm->local = &local;
	test.meanwhile = all_break;
	assert_int_equal(tally_comm_finalize(comm), TALLY_ERR_REMOTE);
	assert_non_null(strstr(tally_get_last_error(NULL), "rank 1 is gone"));
	test.meanwhile = NULL;
	assert_int_equal(atomic_load(&local.users), 2);
	tally_comm_destroy(comm);
	assert_int_equal(atomic_load(&local.users), 1);
}

/* ---- a program that ends its waits ---- */

static int answer, answers_left; /* so often `answer`, then 0 */

static int interrupted_now(void *ctx)
{
	assert_ptr_equal(ctx, &answer);
	return answers_left-- > 0 ? answer : 0;
}

static struct tally_options interruptible(int times)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	answer = 1;
	answers_left = times;
	options.interrupted = interrupted_now;
	options.interrupted_ctx = &answer;
	return options;
}

/* For the others it is as if this rank had died. */
static void open__that_the_program_ends_aborts_the_job(void **state)
{
	const struct tally_options options = interruptible(1);
	struct tally_comm *comm = NULL;
	char text[256];

	(void)state;
	life.is_there_at_once = false;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_INTERRUPTED);
	snprintf(text, sizeof(text), "tally_comm_init was interrupted (rank 2 of 3 on %s, job j)",
		 life.who.host);
	assert_string_equal(tally_get_last_error(NULL), text);
	assert_int_equal(test.log_level, TALLY_LOG_INFO); /* it was asked for */
	assert_true(life.had_abort);
	assert_int_equal(test.kicks, 1);
	assert_int_equal(test.now_ns, begin_ns + 50 * ms + 250 * ms);
	assert_null(comm);
}

/* Before it has said that it leaves it is as if it had not been called; after that it is to be called again. */
static void finalize__that_the_program_ends_can_be_called_again(void **state)
{
	const struct tally_options options = interruptible(2);
	struct tally_comm *comm = NULL;
	struct tally_work *work;

	(void)state;
	assert_int_equal(comm_open(&comm, &boot, &options, NULL), TALLY_OK);
	comm->endpoint = test.comm.endpoint;
	comm->link = &test.link;
	comm->is_driven = true; /* by another thread */
	assert_int_equal(tally_ibarrier(comm, NULL, &work), TALLY_OK);
	assert_int_equal(tally_comm_finalize(comm), TALLY_INTERRUPTED);
	assert_int_equal(comm->state, COMM_RUNNING);
	assert_false(comm->wants_leave);
	comm_lock(comm);
	work_complete(comm, work, TALLY_OK);
	comm_unlock(comm);
	assert_int_equal(tally_comm_finalize(comm), TALLY_INTERRUPTED);
	assert_int_equal(comm->state, COMM_LEAVING);
	assert_true(comm->wants_leave);
	assert_int_equal(tally_barrier(comm), TALLY_ERR_USAGE);
	test.meanwhile = all_leave;
	assert_int_equal(tally_comm_finalize(comm), TALLY_OK);
	assert_int_equal(tally_comm_finalize(comm), TALLY_ERR_USAGE);
	test.meanwhile = NULL;
	comm->endpoint = NULL;
	comm->link = NULL;
	tally_comm_destroy(comm);
	assert_int_equal(life.removes, 1);
}

/* ---- options ---- */

static void options__are_refused_beyond_their_limits(void **state)
{
	static const struct {
		uint32_t slots, window, flags;
		int result;
		const char *text;
	} cases[] = {
		{ 65536, 65536, 0, TALLY_OK, NULL },
		{ 65537, 0, 0, TALLY_ERR_ARGUMENT,
		  "call: options->latency_slots is 65537: 65536 are the most" },
		{ 0, 1, 0, TALLY_ERR_ARGUMENT,
		  "call: options->latency_window is 1 without latency_slots, which choose latency "
		  "mode" },
		{ 5, 6, 0, TALLY_ERR_ARGUMENT,
		  "call: options->latency_window is 6, more than latency_slots, 5" },
		{ 5, 5, 0, TALLY_OK, NULL },
		{ 0, 0, TALLY_HALF, TALLY_OK, NULL },
		{ 0, 0, TALLY_EXACT, TALLY_OK, NULL },
		{ 5, 0, 0x30, TALLY_ERR_UNSUPPORTED,
		  "call: options->flags 0x30: this version has TALLY_HALF, TALLY_EXACT and "
		  "TALLY_STRICT" },
		{ 0, 0, TALLY_HALF | TALLY_EXACT, TALLY_ERR_ARGUMENT,
		  "call: options->flags has more than one of TALLY_HALF, TALLY_EXACT and "
		  "TALLY_STRICT: "
		  "choose one" },
		{ 0, 0, TALLY_STRICT, TALLY_OK, NULL },
		{ 5, 0, TALLY_EXACT, TALLY_ERR_ARGUMENT,
		  "call: options->flags 0x4 is for floats, and latency mode has int32" },
	};
	struct tally_options theirs = TALLY_OPTIONS_INIT, mine;
	struct tally_comm *comm;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		theirs.latency_slots = cases[i].slots;
		theirs.latency_window = cases[i].window;
		theirs.flags = cases[i].flags;
		assert_int_equal(comm_init_check(&comm, &mine, &theirs, "call"), cases[i].result);
		if (cases[i].text)
			said(cases[i].text);
	}
}

/* What an older program did not know of is as if it had not been set. */
static void options__of_older_programs_end_where_theirs_did(void **state)
{
	const size_t first = offsetof(struct tally_options, flags) + sizeof(uint32_t);
	const size_t sizes[] = { (first + 7) / 8 * 8, offsetof(struct tally_options, interrupted),
				 sizeof(struct tally_options) };
	struct tally_options theirs = TALLY_OPTIONS_INIT, mine;
	struct tally_comm *comm;
	char text[128];

	(void)state;
	theirs.local_size = 4;
	theirs.latency_slots = 9;
	theirs.interrupted = interrupted_never;
	for (uint32_t i = 0; i < 3; i++) {
		theirs.size = sizes[i];
		assert_int_equal(comm_init_check(&comm, &mine, &theirs, "call"), TALLY_OK);
		assert_int_equal(mine.size, sizeof(mine));
		assert_int_equal(mine.local_size, 4);
		assert_int_equal(mine.latency_slots, i ? 9 : 0);
		assert_true(mine.interrupted == (i < 2 ? NULL : interrupted_never));
	}
	theirs.size++;
	assert_int_equal(comm_init_check(&comm, &mine, &theirs, "call"), TALLY_ERR_ARGUMENT);
	snprintf(text, sizeof(text),
		 "call: options->size is %zu, not %zu: set it with TALLY_OPTIONS_INIT", theirs.size,
		 theirs.size - 1);
	said(text);
	assert_int_equal(comm_init_check(&comm, &mine, NULL, "call"), TALLY_OK);
	assert_int_equal(mine.latency_slots, 0);
	assert_int_equal(tally_comm_init_env(NULL, NULL), TALLY_ERR_ARGUMENT);
	said("tally_comm_init_env: comm is NULL");
	assert_int_equal(tally_comm_init(&test.at, NULL, 1, 0, NULL), TALLY_ERR_ARGUMENT);
	said("tally_comm_init: job: a name has 1 to 200 bytes");
}

/* ---- what breaks it ---- */

static void break__says_where_this_rank_was(void **state)
{
	struct tally_work *work = outstanding(6), *second = outstanding(7);

	(void)state;
	strcpy(work->op.name, "loss");
	test.comm.last_complete = 5;
	test.comm.sleepers = 1;
	comm_break(&test.comm, TALLY_ERR_REMOTE, "rank 3 is gone");
	assert_string_equal(
		test.comm.error_text,
		"rank 3 is gone (rank 1 of 4 on here, job played; waiting for operation "
		"#6, barrier \"loss\"; last complete operation: #4)");
	assert_int_equal(test.log_level, TALLY_LOG_ERROR);
	assert_non_null(strstr(test.log, test.comm.error_text));
	assert_int_equal(work->result, TALLY_ERR_REMOTE);
	assert_int_equal(second->result, TALLY_ERR_REMOTE);
	assert_null(test.comm.outstanding.first);
	assert_int_equal(test.broadcasts, 3);
	assert_int_equal(test.kicks, 0); /* no function is due */
	comm_break(&test.comm, TALLY_ERR_TIMEOUT, "later");
	assert_int_equal(tally_comm_get_async_error(&test.comm), TALLY_ERR_REMOTE);
	assert_int_equal(test.log_lines, 1);
	assert_int_equal(test.comm.completed, 0);
}

/* What this rank has asked for is no error to tell of. */
static void abort__is_done_by_who_gets_the_lock_next(void **state)
{
	(void)state;
	assert_int_equal(tally_comm_abort(NULL), TALLY_ERR_ARGUMENT);
	assert_int_equal(tally_comm_abort(&test.comm), TALLY_OK);
	assert_int_equal(test.kicks, 1);
	assert_int_equal(atomic_load(&test.comm.error), TALLY_OK);
	assert_int_equal(comm_error(&test.comm), TALLY_ERR_ABORTED);
	assert_int_equal(test.kicks, 2);
	assert_true(test.comm.wants_abort);
	assert_false(atomic_load(&test.comm.is_abort_asked));
	assert_string_equal(tally_get_last_error(&test.comm),
			    "tally_comm_abort was called (rank 1 of 4 on here, job played; last "
			    "complete operation: none)");
	assert_int_equal(test.log_level, TALLY_LOG_INFO);
	test.comm.epoch++;
	assert_int_equal(tally_comm_abort(&test.comm), TALLY_ERR_USAGE);
	assert_int_equal(test.kicks, 2);
}

static void abort__of_a_rank_that_has_left_ends_nothing(void **state)
{
	(void)state;
	test.comm.state = COMM_LEFT;
	assert_int_equal(tally_comm_abort(&test.comm), TALLY_OK);
	assert_int_equal(comm_error(&test.comm), TALLY_OK);
	assert_false(test.comm.wants_abort);
	assert_false(atomic_load(&test.comm.is_abort_asked));
}

static void cause__is_a_result_of_its_own(void **state)
{
	static const int results[CONTROL_CAUSE_END] = {
		TALLY_ERR_INTERNAL,    TALLY_ERR_REMOTE,    TALLY_ERR_MISMATCH, TALLY_ERR_ABORTED,
		TALLY_ERR_TIMEOUT,     TALLY_ERR_INTERNAL,  TALLY_ERR_DENIED,   TALLY_ERR_VERSION,
		TALLY_ERR_NO_RESOURCE, TALLY_ERR_NO_MEMORY, TALLY_ERR_SYSTEM
	};

	(void)state;
	for (uint32_t cause = 0; cause < CONTROL_CAUSE_END; cause++)
		assert_int_equal(result_of_cause((enum control_cause)cause), results[cause]);
	assert_int_equal(result_of_cause(CONTROL_CAUSE_END), TALLY_ERR_INTERNAL);
	assert_int_equal(result_of_cause((enum control_cause) - 1), TALLY_ERR_INTERNAL);
}

/* ---- questions ---- */

/* Each of another value. */
static const struct endpoint_stats counted = {
	.updates_out = 1,
	.results_in = 2,
	.updates_resent = 3,
	.results_ignored = 4,
	.probes_out = 5,
	.exponent_rounds = 6,
	.guess_rounds = 22,
	.guesses_again = 23,
	.detail_rounds = 7,
	.chunks_express = 8,
	.chunks_bulk = 9,
	.saturated = 10,
	.bytes_out = 11,
	.bytes_in = 12,
	.bad_in = 13,
	.window = 14,
	.srtt_ns = 15499,
	.window_yields = 24,
	.window_losses = 25,
	.window_presses = 26,
};

static void stats__are_the_endpoints_and_ours(void **state)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	(void)state;
	test.stats = counted;
	test.comm.completed = 16;
	test.comm.elements = 17;
	test.comm.shards = 18;
	test.comm.slots = 19;
	test.comm.run = 20;
	test.comm.folded = 21;
	assert_int_equal(tally_comm_get_stats(&test.comm, &stats), TALLY_OK);
	assert_memory_equal(&stats, (&(struct tally_stats){ sizeof(stats),
							    16,
							    17,
							    1,
							    2,
							    3,
							    4,
							    5,
							    6,
							    7,
							    8,
							    9,
							    10,
							    11,
							    12,
							    13,
							    14,
							    15,
							    360,
							    18,
							    19,
							    20,
							    21,
							    22,
							    23,
							    24,
							    25,
							    26,
							    0 }),
			    sizeof(stats));
	test.stats.srtt_ns++; /* from half a microsecond on it is one more */
	stats.size = offsetof(struct tally_stats, lanes);
	stats.lanes = 77;
	assert_int_equal(tally_comm_get_stats(&test.comm, &stats), TALLY_OK);
	assert_int_equal(stats.srtt_us, 16);
	assert_int_equal(stats.lanes, 77); /* an older program's struct ends before it */
	assert_int_equal(stats.size, offsetof(struct tally_stats, lanes));
	stats.size = sizeof(stats.size);
	assert_int_equal(tally_comm_get_stats(&test.comm, &stats), TALLY_OK);
	for (stats.size = sizeof(size_t) - 1; stats.size <= sizeof(stats) + 1;
	     stats.size += sizeof(stats) + 2 - sizeof(size_t)) {
		assert_int_equal(tally_comm_get_stats(&test.comm, &stats), TALLY_ERR_ARGUMENT);
		said("tally_comm_get_stats: stats is NULL, or stats->size is not set: "
		     "TALLY_STATS_INIT does");
	}
	assert_int_equal(tally_comm_get_stats(&test.comm, NULL), TALLY_ERR_ARGUMENT);
}

static void ignore_done(struct tally_work *work, int result, void *arg)
{
	(void)work;
	(void)result;
	(void)arg;
}

static void dump__says_since_when_and_what_has_not_been_sent(void **state)
{
	struct tally_work *sent = outstanding(3), *waiting = outstanding(4);
	struct tally_work *complete = outstanding(5); /* only its function is due */
	char text[8192];
	FILE *file = tmpfile();
	size_t bytes;

	(void)state;
	assert_non_null(file);
	sent->submitted_ns = begin_ns;
	waiting->submitted_ns = begin_ns + 8 * ms; /* another thread's clock may be ahead */
	waiting->op.stream = MAP_BULK;
	atomic_store(&waiting->state, WORK_WAITING);
	assert_int_equal(tally_work_on_done(complete, ignore_done, NULL), TALLY_OK);
	comm_lock(&test.comm);
	work_complete(&test.comm, complete, TALLY_OK);
	comm_unlock(&test.comm);
	test.now_ns = begin_ns + 8 * ms - 1;
	assert_int_equal(tally_comm_dump(&test.comm, fileno(file)), TALLY_OK);
	rewind(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	assert_non_null(strstr(
		text, "\"outstanding_count\":2,\"outstanding\":[{\"number\":3,\"what\":\"barrier\","
		      "\"name\":\"\",\"stream\":\"express\",\"is_sent\":true,\"since_ms\":7},"
		      "{\"number\":4,\"what\":\"barrier\",\"name\":\"\",\"stream\":\"bulk\","
		      "\"is_sent\":false,\"since_ms\":0}]"));
	assert_non_null(strstr(text, "\"life\":\"0000000000000000\"")); /* it has not begun */
	assert_non_null(strstr(text, "\"members\":[]"));
}

static void questions__of_no_communicator_or_a_parents_are_refused(void **state)
{
	(void)state;
	assert_int_equal(tally_comm_rank(NULL), 0);
	assert_int_equal(tally_comm_size(NULL), 0);
	assert_int_equal(tally_comm_rank(&test.comm), 1);
	assert_int_equal(tally_comm_size(&test.comm), 4);
	assert_int_equal(tally_comm_get_async_error(NULL), TALLY_ERR_ARGUMENT);
	said("tally_comm_get_async_error: comm is NULL");
	test.comm.epoch++;
	assert_int_equal(tally_comm_get_async_error(&test.comm), TALLY_ERR_USAGE);
	said("tally_comm_get_async_error in a forked child: the communicator is its parent's");
	test.comm.epoch--;
	test.comm.gathered = 2;
	tally_comm_destroy(&test.comm);
	said("tally_comm_destroy: another thread's group has gathered 2 operations and is not at "
	     "its tally_group_end: nothing is freed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(open__takes_what_the_options_say),
		TEST(open__names_the_job_and_its_life_for_local_mode),
		TEST(open__of_a_part_that_fails_leaves_the_parents_aggregator),
		TEST(open__that_fails_says_why_and_waits_a_quarter_of_a_second),
		TEST(finalize__leaves_when_nothing_is_on_its_way_any_more),
		TEST(finalize__that_fails_waits_for_no_others_to_leave),
		TEST(open__that_the_program_ends_aborts_the_job),
		TEST(finalize__that_the_program_ends_can_be_called_again),
		TEST(options__are_refused_beyond_their_limits),
		TEST(options__of_older_programs_end_where_theirs_did),
		TEST(break__says_where_this_rank_was),
		TEST(abort__is_done_by_who_gets_the_lock_next),
		TEST(abort__of_a_rank_that_has_left_ends_nothing),
		TEST(cause__is_a_result_of_its_own),
		TEST(stats__are_the_endpoints_and_ours),
		TEST(dump__says_since_when_and_what_has_not_been_sent),
		TEST(questions__of_no_communicator_or_a_parents_are_refused),
	};

	return cmocka_run_group_tests_name("lib-comm-played", tests, NULL, NULL);
}
