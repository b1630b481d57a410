/* SPDX-License-Identifier: Apache-2.0 */
/* events_test.c - what a shard tells, as a job's admission hears it, and the log. Admission, ports and MTUs are the
 * test's. */
#include "server/inside_fixture.h"

#include <errno.h>

#include "dataplane/link_udp.h"

enum { STEPS_MAX = 16, SHARD = 1 };

static struct {
	const struct admission *admission;
	struct admission_event event;
	char text[CONTROL_TEXT_BYTES];
} steps[STEPS_MAX];
static uint32_t steps_count;
static int mtu;
static char aborted[CONTROL_TEXT_BYTES]; /* tables, of SHARD */

void __wrap_admission_step(struct admission *admission, const struct admission_config *config,
			   const struct admission_event *event, struct admission_actions *actions);
uint16_t __wrap_shard_port(const struct shard *shard);
int __wrap_link_udp_mtu(const struct link_address *peer, bool is_v6);
void __wrap_tables_abort(struct server *server, int shard, bool is_ending, const char *text);

void __wrap_admission_step(struct admission *admission, const struct admission_config *config,
			   const struct admission_event *event, struct admission_actions *actions)
{
	(void)config;
	assert_true(steps_count < STEPS_MAX);
	steps[steps_count].admission = admission;
	steps[steps_count].event = *event;
	snprintf(steps[steps_count++].text, CONTROL_TEXT_BYTES, "%s",
		 event->text ? event->text : "");
	memset(actions, 0, sizeof(*actions));
	actions->wake_ns = 55;
}

uint16_t __wrap_shard_port(const struct shard *shard)
{
	assert_ptr_equal(shard, test.server.shards[SHARD]);
	return 7172;
}

int __wrap_link_udp_mtu(const struct link_address *peer, bool is_v6)
{
	assert_int_equal(is_v6, peer->ip[0] != 0);
	return mtu;
}

void __wrap_tables_abort(struct server *server, int shard, bool is_ending, const char *text)
{
	assert_ptr_equal(server, &test.server);
	assert_int_equal(shard, SHARD);
	assert_false(is_ending);
	snprintf(aborted, sizeof(aborted), "%s", text);
}

/* Job 2 has four ranks; the last place is another's. */
static int setup(void **state)
{
	struct job *job;

	if (inside_setup(state))
		return -1;
	steps_count = 0;
	mtu = 1300;
	aborted[0] = 0;
	test.server.options.shards = 2;
	test.server.shards[SHARD] = (struct shard *)(void *)&test;
	job = inside_job(2, "train", ADMISSION_GATHER, 4);
	job->admission->lanes = 360;
	inside_member(job, 3, ADMISSION_READY, "h3");
	inside_job(JOBS - 1, "other", ADMISSION_GATHER, 1);
	return 0;
}

static void tell(struct engine_event notice)
{
	struct shard_event event = { .type = SHARD_NOTICE, .job = notice.job };

	notice.child = 3;
	if (!notice.address.port)
		notice.address = (struct link_address){
			.ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9 }, .port = 4000
		};
	event.notice = notice;
	job_shard_event(&test.server, SHARD, &event);
}

static const struct admission_event *assert_step(uint32_t count, enum admission_event_type type)
{
	const struct admission_event *event = &steps[count - 1].event;

	assert_int_equal(steps_count, count);
	assert_ptr_equal(steps[count - 1].admission, test.job[2].admission);
	assert_int_equal(event->type, type);
	assert_true(test.job[2].wake_ns == 55);
	return event;
}

static void notice__is_a_step_of_its_job(void **state)
{
	const struct admission_event *event;

	(void)state;
	tell((struct engine_event){ .type = ENGINE_HELLO, .job = 2 });
	assert_int_equal(assert_step(1, ADMISSION_HEARD)->rank, 3);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_DEBUG, "train", 3,
		    "job train: rank 3: shard 1 hears it from 10.0.0.9:4000");
	tell((struct engine_event){ .type = ENGINE_HEARD, .job = 2 });
	assert_int_equal(assert_step(2, ADMISSION_HEARD)->rank, 3);
	tell((struct engine_event){ .type = ENGINE_MISMATCH, .job = 2, .other = 1 });
	event = assert_step(3, ADMISSION_MISMATCH);
	assert_int_equal(event->rank, 3);
	assert_int_equal(event->other, 1);
	tell((struct engine_event){ .type = ENGINE_ALARM, .job = 2 });
	assert_int_equal(assert_step(4, ADMISSION_ALARM)->rank, 3);
	tell((struct engine_event){
		.type = ENGINE_MISFIT, .job = 2, .count = 8, .misfit = MISFIT_AHEAD });
	event = assert_step(5, ADMISSION_MISFIT);
	assert_int_equal(event->rank, 3);
	assert_int_equal(event->count, 8);
	assert_int_equal(event->misfit, MISFIT_AHEAD);
	assert_int_equal(test.lines, 1);
}

static void notice__of_nobody_is_none(void **state)
{
	(void)state;
	tell((struct engine_event){ .type = ENGINE_REFUSED,
				    .job = 2 }); /* it has a line elsewhere */
	tell((struct engine_event){ .type = ENGINE_ALARM, .job = 1 });
	tell((struct engine_event){ .type = ENGINE_ALARM, .job = JOBS });
	assert_int_equal(steps_count, 0);
	tell((struct engine_event){ .type = ENGINE_ALARM, .job = JOBS - 1 });
	assert_int_equal(steps_count, 1);
	assert_ptr_equal(steps[0].admission, test.job[JOBS - 1].admission);
}

static void notice__of_a_path_that_is_too_narrow_breaks_the_job(void **state)
{
	static const char begin[] =
		"rank 3 on h3: packets of 360 numbers from the aggregator's UDP "
		"port 7172 to 10.0.0.9:4000 have become larger than the MTU of the "
		"path",
			  end[] = ": set the same MTU all the way, or cap them (tallyd --lanes)";
	char words[CONTROL_TEXT_BYTES];

	(void)state;
	tell((struct engine_event){ .type = ENGINE_TOO_LARGE, .job = 2 });
	assert_int_equal(assert_step(1, ADMISSION_BROKEN)->rank, 3);
	snprintf(words, sizeof(words), "%s, which is 1300 now%s", begin, end);
	assert_string_equal(steps[0].text, words);
	mtu = -EHOSTUNREACH;
	tell((struct engine_event){ .type = ENGINE_TOO_LARGE, .job = 2 });
	snprintf(words, sizeof(words), "%s%s", begin, end);
	assert_string_equal(steps[1].text, words);
	mtu = 0; /* which nobody knows */
	tell((struct engine_event){ .type = ENGINE_TOO_LARGE, .job = 2 });
	assert_string_equal(steps[2].text, words);
	/* Of IPv6, though its bytes 10 and 11 are those of one of IPv4. */
	tell((struct engine_event){
		.type = ENGINE_TOO_LARGE,
		.job = 2,
		.address = { .ip = { 0x20, 0x01, 0xd, 0xb8, [10] = 0xff, [11] = 0xff, [15] = 9 },
			     .port = 4000 } });
	assert_non_null(strstr(steps[3].text, "to [2001:db8::ffff:0:9]:4000 have become larger"));
}

static void ack__says_which_command_and_whether_it_has_failed(void **state)
{
	static const struct {
		enum shard_command_type said;
		enum admission_command heard;
		int result;
		const char *why;
	} acks[] = {
		{ SHARD_JOB_ADD, ADMISSION_JOB_ADD, 0, "" },
		{ SHARD_JOB_SET, ADMISSION_JOB_SET, 0, "" },
		{ SHARD_JOB_REMOVE, ADMISSION_JOB_REMOVE, 0, "" },
		{ SHARD_JOB_ADD, ADMISSION_JOB_ADD, -ENOSPC,
		  "all memory for slots and tables is held by \"other\" (gathering, 0 of 1 "
		  "ranks)" },
		{ SHARD_JOB_SET, ADMISSION_JOB_SET, -ENOMEM, "Cannot allocate memory" },
	};
	uint32_t lines = 0;

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		const struct shard_event ack = { .type = SHARD_ACK,
						 .command = acks[i].said,
						 .job = 2,
						 .generation = 90 + i,
						 .result = acks[i].result };
		const struct admission_event *event;
		char line[256];

		job_shard_event(&test.server, SHARD, &ack);
		event = assert_step(i + 1, ADMISSION_SHARD);
		assert_int_equal(event->shard, SHARD);
		assert_int_equal(event->command, acks[i].heard);
		assert_int_equal(event->job_generation, 90 + i);
		assert_int_equal(event->has_failed, acks[i].result != 0);
		assert_string_equal(steps[i].text, acks[i].why);
		lines += acks[i].result != 0;
		assert_int_equal(test.lines, lines);
		snprintf(line, sizeof(line), "job train: shard 1 does not take it: %s",
			 acks[i].why);
		if (acks[i].result)
			assert_line(lines - 1, SERVER_ERROR, "train", SERVER_RANK_NONE, line);
	}
}

/* A job's sums are said when all of its shards have removed it. */
static void ack__of_a_removal_brings_the_sums(void **state)
{
	const struct shard_event ack = { .type = SHARD_ACK,
					 .command = SHARD_JOB_REMOVE,
					 .job = 2,
					 .totals = { .updates = 8, .results = 4 } };

	(void)state;
	test.job[2].config.shards = 1;
	totals_begin(&test.job[2]);
	job_shard_event(&test.server, SHARD, &ack);
	assert_int_equal(test.lines, 1);
	assert_non_null(strstr(test.line[0].text, ": 8 packets in, 4 sums out; "));
}

static void dead__shard_ends_all_jobs_and_its_tables(void **state)
{
	static const char words[] =
		"the aggregator receives no more on its UDP port 7172 (shard 1): "
		"Bad file descriptor";
	const struct shard_event dead = { .type = SHARD_DEAD, .job = 2, .result = -EBADF };
	char line[256];

	(void)state;
	job_shard_event(&test.server, SHARD, &dead);
	assert_string_equal(aborted, words);
	assert_int_equal(steps_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_ptr_equal(steps[i].admission, test.job[i ? JOBS - 1 : 2].admission);
		assert_int_equal(steps[i].event.type, ADMISSION_BROKEN);
		assert_int_equal(steps[i].event.rank, CONTROL_RANK_NONE);
		assert_string_equal(steps[i].text, words);
	}
	assert_int_equal(test.lines, 1);
	snprintf(line, sizeof(line),
		 "%s; its jobs and tables end, and new ones are refused: restart it", words);
	assert_line(0, SERVER_ERROR, "", SERVER_RANK_NONE, line);
}

/* R-CHIP-10 */
static void chip__that_has_lost_all_ends_all_jobs(void **state)
{
	static char words[] = "the switch at 10.0.0.1:9090 was started again";
	struct shard_event event = { .type = SHARD_CHIP, .chip = CHIP_WORD, .text = words };

	(void)state;
	shard_chip(&test.server, SHARD, &event);
	assert_int_equal(steps_count, 0);
	assert_line(0, SERVER_WARN, "", SERVER_RANK_NONE,
		    "shard 1: the switch at 10.0.0.1:9090 was started again");
	event.chip = CHIP_LOST;
	shard_chip(&test.server, SHARD, &event);
	assert_int_equal(steps_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(steps[i].event.type, ADMISSION_BROKEN);
		assert_string_equal(steps[i].text, words);
	}
	assert_int_equal(test.line[1].level, SERVER_ERROR);
}

static void ack__that_a_chip_has_refused_says_its_words(void **state)
{
	static char words[] = "the switch at 10.0.0.1:9090: no answer in time";
	const struct shard_event ack = { .type = SHARD_ACK,
					 .command = SHARD_JOB_ADD,
					 .job = 2,
					 .result = -ETIMEDOUT,
					 .text = words };

	(void)state;
	job_shard_event(&test.server, SHARD, &ack);
	assert_string_equal(steps[0].text, words);
	assert_true(steps[0].event.has_failed);
}

/* Slots of a switch are no memory of ours. */
static void ack__of_a_chip_that_is_full_says_who_has_its_slots(void **state)
{
	static char words[] = "the switch at 10.0.0.1:9090: all its slots are other jobs'";
	const struct shard_event ack = { .type = SHARD_ACK,
					 .command = SHARD_JOB_ADD,
					 .job = 2,
					 .result = -ENOSPC,
					 .text = words };

	(void)state;
	job_shard_event(&test.server, SHARD, &ack);
	assert_string_equal(steps[0].text,
			    "the switch at 10.0.0.1:9090: all its slots are other jobs': "
			    "\"other\" (gathering, 0 of 1 ranks)");
}

static void notice__of_a_child_that_the_chip_has_not_taken_is_a_line(void **state)
{
	static char words[] = "the switch at 10.0.0.1:9090: no answer in time";
	const struct shard_event event = {
		.type = SHARD_NOTICE,
		.job = 2,
		.notice = { .type = ENGINE_UNWRITTEN,
			    .child = 1,
			    .address = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 7 },
					 .port = 400 } },
		.text = words
	};

	(void)state;
	job_shard_event(&test.server, SHARD, &event);
	assert_line(
		0, SERVER_ERROR, "train", 1,
		"job train: rank 1 at 10.0.0.7:400: the switch has not taken it, so it waits and "
		"asks again: the switch at 10.0.0.1:9090: no answer in time");
}

#define EVENTS_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, inside_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVENTS_TEST(notice__is_a_step_of_its_job),
		EVENTS_TEST(notice__of_nobody_is_none),
		EVENTS_TEST(notice__of_a_path_that_is_too_narrow_breaks_the_job),
		EVENTS_TEST(ack__says_which_command_and_whether_it_has_failed),
		EVENTS_TEST(ack__of_a_removal_brings_the_sums),
		EVENTS_TEST(chip__that_has_lost_all_ends_all_jobs),
		EVENTS_TEST(ack__that_a_chip_has_refused_says_its_words),
		EVENTS_TEST(ack__of_a_chip_that_is_full_says_who_has_its_slots),
		EVENTS_TEST(notice__of_a_child_that_the_chip_has_not_taken_is_a_line),
		EVENTS_TEST(dead__shard_ends_all_jobs_and_its_tables),
	};

	return cmocka_run_group_tests_name("server-events", tests, NULL, NULL);
}
