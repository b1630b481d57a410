/* SPDX-License-Identifier: Apache-2.0 */
/* commands_test.c - what becomes of that which a job's admission decides: what shards and peers are told, and the log. */
#include "server/commands_fixture.h"

static void command__goes_to_every_shard_that_the_job_is_on(void **state)
{
	struct job *job = job_of_test();

	(void)state;
	job->config.shards = 2;
	job->bytes = 4096;
	steps[0].list[0] = (struct admission_action){ .type = ADMISSION_COMMAND,
						      .command = ADMISSION_JOB_SET,
						      .generation = 33,
						      .lanes = 64 };
	steps[0].list[1] = (struct admission_action){ .type = ADMISSION_COMMAND,
						      .command = ADMISSION_JOB_REMOVE,
						      .generation = 34 };
	steps[0].count = 1;
	step();
	assert_int_equal(job->bytes, 4096);
	steps[1] = steps[0];
	steps[1].list[0] = steps[0].list[1];
	step();
	assert_int_equal(job->bytes, 0);
	assert_int_equal(seen.commands, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_ptr_equal(seen.to[i], shard_of(i % 2));
		assert_int_equal(seen.command[i].type, i < 2 ? SHARD_JOB_SET : SHARD_JOB_REMOVE);
		assert_int_equal(seen.command[i].job, JOB);
		assert_int_equal(seen.command[i].generation, i < 2 ? 33 : 34);
		assert_int_equal(seen.command[i].lanes, i < 2 ? 64 : 0);
	}
}

static int no_chip(struct chip **chip, const char *address, const struct link_address *local,
		   char error[CHIP_ERROR_BYTES])
{
	(void)chip, (void)address, (void)local, (void)error;
	return -1;
}

static void send__of_a_grant_tells_where_the_shards_are(void **state)
{
	static const uint8_t here[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	static const uint8_t anywhere[16];
	struct job *job = job_of_test();

	(void)state;
	job->plan = (struct plan){ .lanes = 360, .slots = 704, .window = 154, .run = 44 };
	job->generation = 88;
	memcpy(test.server.options.listen.ip, here, sizeof(here));
	steps[0].list[0] = (struct admission_action){ .type = ADMISSION_SEND,
						      .message = CONTROL_GRANT,
						      .connection = PEERS_MAX + PEER + 1,
						      .rank = 1 };
	steps[0].count = 1;
	steps[1] = steps[0];
	step();
	test.server.is_local = true;
	test.server.options.chip_open = no_chip;
	step();
	assert_int_equal(seen.messages, 2);
	assert_ptr_equal(seen.peer, &test.peers[PEER + 1]);
	for (uint32_t i = 0; i < 2; i++) {
		const struct control_grant *grant = &seen.message[i].grant;

		assert_int_equal(seen.message[i].type, CONTROL_GRANT);
		assert_int_equal(grant->shards_count, SHARDS);
		for (uint32_t k = 0; k < SHARDS; k++) {
			const struct control_shard *shard = &grant->shards[k];

			assert_int_equal(shard->port, 7172 + k);
			assert_int_equal(shard->job, JOB);
			assert_int_equal(shard->child, 1);
			assert_int_equal(shard->slots, 704);
			assert_int_equal(shard->generation, 88);
			assert_int_equal(shard->window, 154);
			assert_int_equal(shard->lanes, 360);
			assert_int_equal(shard->run, 44);
			assert_int_equal(shard->lane_ops, 1 << WIRE_ADD | 1 << WIRE_ADD_SHORT |
								  1 << WIRE_MAX | 1 << WIRE_TAKE);
			assert_int_equal(shard->is_big_endian, i); /* R-CHIP-12 */
			assert_memory_equal(shard->ip, i ? here : anywhere, 16);
		}
	}
}

static void send__to_one_who_has_gone_is_nothing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		steps[0].list[i] =
			(struct admission_action){ .type = i ? ADMISSION_CLOSE : ADMISSION_SEND,
						   .message = CONTROL_PING,
						   .connection = PEERS_MAX + PEER };
	steps[0].count = 2;
	steps[1] = steps[0];
	step();
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.message[0].type, CONTROL_PING);
	assert_int_equal(seen.message[0].grant.shards_count, 0);
	assert_ptr_equal(seen.leaving, &test.peers[PEER]);
	test.peers[PEER].handle += PEERS_MAX; /* somebody else's by now */
	step();
	assert_int_equal(seen.messages, 1);
	assert_int_equal(seen.last_words, 1);
}

/* For crossed.c, which is to know who is asked what. */
static void send__of_a_query_is_noted_and_no_other_message_is(void **state)
{
	static const enum control_type types[] = { CONTROL_QUERY, CONTROL_PING };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		steps[0].list[i] = (struct admission_action){ .type = ADMISSION_SEND,
							      .message = (uint8_t)types[i],
							      .number = 21 + i,
							      .connection = PEERS_MAX + PEER };
	}
	steps[0].count = 2;
	step();
	assert_int_equal(seen.messages, 2);
	assert_int_equal(seen.asked, 1);
	assert_int_equal(seen.asked_round, 21);
}

/* For whom those wait whom it is about is added, once for all who hear it. */
static void send__of_waiting_says_for_whom_they_wait_in_turn(void **state)
{
	(void)state;
	step(); /* which says nothing */
	for (uint32_t i = 0; i < 2; i++) {
		steps[1].list[i] = steps[2].list[i] =
			(struct admission_action){ .type = ADMISSION_SEND,
						   .message = CONTROL_WAITING,
						   .connection = PEERS_MAX + PEER + i };
		steps[2].list[i].message = CONTROL_PING;
	}
	steps[1].count = steps[2].count = 2;
	step();
	assert_int_equal(seen.chains, 1);
	assert_int_equal(seen.messages, 2);
	seen.messages = 0;
	step();
	assert_int_equal(seen.chains, 1);
}

/* What the aggregator has to say to all goes to every job. */
static void step__of_all_jobs_is_one_for_each(void **state)
{
	struct job *last = inside_job(JOBS - 1, "last", ADMISSION_GATHER, 1);

	(void)state;
	jobs_tell(&test.server, ADMISSION_KILL);
	assert_int_equal(seen.steps, 2);
	assert_ptr_equal(seen.admission[0], job_of_test()->admission);
	assert_ptr_equal(seen.admission[1], last->admission);
	assert_int_equal(seen.event[0].type, ADMISSION_KILL);
	assert_int_equal(seen.event[1].type, ADMISSION_KILL);
}

/* R-CT-19: once, and the parts of what runs only when that has ended. */
static void step__of_jobs_that_drain_ends_no_part_of_what_runs(void **state)
{
	struct job *part = inside_job(JOBS - 1, "part", ADMISSION_GATHER, 2);

	(void)state;
	part->life = 77;
	job_of_test()->admission->state = ADMISSION_STARTED;
	job_of_test()->admission->life = 77;
	jobs_drain(&test.server);
	assert_int_equal(seen.steps, 1);
	assert_ptr_equal(seen.admission[0], job_of_test()->admission);
	assert_int_equal(seen.event[0].type, ADMISSION_TERMINATE);
	job_of_test()->admission->is_terminating = 1;
	jobs_drain(&test.server);
	assert_int_equal(seen.steps, 1);
	job_of_test()->admission->state = ADMISSION_DRAIN;
	jobs_drain(&test.server);
	assert_int_equal(seen.steps, 2);
	assert_ptr_equal(seen.admission[1], part->admission);
	assert_int_equal(seen.event[1].type, ADMISSION_TERMINATE);
}

/* Each step has bits of its own, which no neighbour can tell. */
static void step__has_fresh_random_bits(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		step();
	assert_true(seen.event[0].random != seen.event[1].random);
	assert_true(seen.event[1].random != seen.event[2].random);
}

/* ---- the log ---- */

static void log__of_a_step_has_its_level_its_rank_and_the_name_once(void **state)
{
	static const struct {
		enum admission_log level;
		enum server_level said;
		uint16_t rank;
		const char *log, *line;
	} rows[] = {
		{ ADMISSION_LOG_WARN, SERVER_WARN, 1, "gone", "job train: gone" },
		{ ADMISSION_LOG_INFO, SERVER_INFO, CONTROL_RANK_NONE, "granted",
		  "job train: granted" },
		{ ADMISSION_LOG_DEBUG, SERVER_DEBUG, 0, "ready", "job train: ready" },
		{ ADMISSION_LOG_LIMITED, SERVER_WARN, 1, "denied", "job train: denied" },
		{ ADMISSION_LOG_INFO, SERVER_INFO, 0, "job \"train\" of 2: all",
		  "job train of 2: all" },
		{ ADMISSION_LOG_INFO, SERVER_INFO, 0, "job \"trains\" of 2",
		  "job train: job \"trains\" of 2" },
		{ ADMISSION_LOG_INFO, SERVER_INFO, 0, "job \"other\" of 2",
		  "job train: job \"other\" of 2" },
		{ ADMISSION_LOG_INFO, SERVER_INFO, 0, "its \"train\" of 2",
		  "job train: its \"train\" of 2" },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		steps[i].level = rows[i].level;
		steps[i].log_rank = rows[i].rank;
		steps[i].log = rows[i].log;
		step();
		assert_int_equal(test.lines, i + 1);
		assert_line(i, rows[i].said, "train",
			    rows[i].rank == CONTROL_RANK_NONE ? SERVER_RANK_NONE : rows[i].rank,
			    rows[i].line);
	}
	step(); /* which logs nothing */
	assert_int_equal(test.lines, sizeof(rows) / sizeof(rows[0]));
}

/* ---- one step brings another ---- */

static void step__goes_on_as_long_as_there_is_more_to_do(void **state)
{
	struct job *job = job_of_test();

	(void)state;
	steps[0].again = steps[1].again = true;
	steps[2].wake_ns = 99;
	test.server.generation = 815;
	job_step(&test.server, job, &(struct admission_event){ .type = ADMISSION_ALARM });
	assert_int_equal(seen.steps, 3);
	assert_int_equal(seen.event[0].type, ADMISSION_ALARM);
	assert_int_equal(seen.event[1].type, ADMISSION_TICK);
	assert_int_equal(seen.event[2].type, ADMISSION_TICK);
	assert_int_equal(seen.event[2].generation, 815);
	assert_int_equal(job->wake_ns, 99);
	assert_int_equal(job->ticked_ns, seen.event[2].now_ns);
	assert_int_equal(job->idle_ns, 0);
	admission_member(job->admission, 0)->presence = ADMISSION_ABSENT;
	admission_member(job->admission, 1)->presence = ADMISSION_ABSENT;
	steps[3].ends = true;
	step();
	assert_int_equal(job->idle_ns, seen.event[3].now_ns); /* nobody is in any more */
	step();
	assert_int_equal(job->idle_ns, seen.event[3].now_ns);
}

/* Jobs of the life that has ended are told, each once, and no other. */
static void step__that_ends_a_life_badly_tells_its_jobs(void **state)
{
	struct job *job = job_of_test();

	(void)state;
	inside_job(0, "other", ADMISSION_GATHER, 1)->life = 6;
	inside_job(4, "part", ADMISSION_GATHER, 1)->life = 5;
	inside_job(JOBS - 1, "last", ADMISSION_GATHER, 1)->life = 5;
	job->admission->state = ADMISSION_GRANTED;
	job->admission->life = 5;
	job->life = 5; /* itself a part of a job of that number, which is not its own end */
	steps[0] = (struct step){ .cause = CONTROL_REMOTE, .text = "rank 1 died", .ends = true };
	step();
	assert_int_equal(seen.steps, 3);
	assert_ptr_equal(seen.admission[1], test.job[4].admission);
	assert_ptr_equal(seen.admission[2], test.job[JOBS - 1].admission);
	for (uint32_t i = 1; i < 3; i++) {
		assert_int_equal(seen.event[i].type, ADMISSION_ORPHAN);
		assert_string_equal(seen.text[i], "rank 1 died");
	}
	assert_int_equal(job->ended_life, 5);
	assert_false(job->has_ended);
	step();
	assert_int_equal(seen.steps, 4);
}

static void step__that_ends_a_life_well_tells_nobody(void **state)
{
	struct job *job = job_of_test();

	(void)state;
	inside_job(4, "part", ADMISSION_GATHER, 1)->life = 5;
	job->admission->state = ADMISSION_GRANTED;
	job->admission->life = 5;
	steps[0] = (struct step){ .cause = CONTROL_REMOTE, .text = "one was denied" };
	steps[1] = (struct step){ .ends = true };
	steps[2] = (struct step){ .cause = CONTROL_REMOTE, .text = "one was denied" };
	for (uint32_t i = 0; i < 3; i++)
		step();
	assert_int_equal(seen.steps, 3);
	assert_int_equal(job->ended_life, 0);
}

/* A pair of ranks of the job of that life, of which one has joined. */
static struct job *pair_of(uint32_t index, const char *name, uint64_t life, uint32_t joined)
{
	struct job *pair = inside_job(index, name, ADMISSION_GATHER, 2);

	pair->config.job = pair->name;
	pair->config.life = pair->life = life;
	inside_member(pair, joined, ADMISSION_JOINED, "gamma");
	return pair;
}

static void hear(struct job *job, enum control_type type)
{
	const struct control_message message = { .type = type };

	job_step(&test.server, job,
		 &(struct admission_event){ .type = ADMISSION_MESSAGE, .message = &message });
}

static void assert_deserted(uint32_t step, const struct job *pair, uint32_t rank)
{
	assert_ptr_equal(seen.admission[step], pair->admission);
	assert_int_equal(seen.event[step].type, ADMISSION_DESERTED);
	assert_int_equal(seen.event[step].rank, rank);
	assert_int_equal(seen.event[step].other, 1);
	assert_string_equal(seen.text[step], "beta");
}

/* R-CT-59 */
static void step__of_a_leave_or_a_join_tells_pairs_that_wait_for_one_who_has_left(void **state)
{
	struct job *job = job_of_test();
	struct job *pairs[] = { pair_of(0, "train/0-1", 5, 0), pair_of(4, "train/1-0", 5, 1),
				pair_of(6, "other/0-1", 6, 0), pair_of(7, "train/0-1", 7, 0),
				pair_of(JOBS - 1, "train/2-1", 5, 0) };

	(void)state;
	job->admission->state = ADMISSION_STARTED;
	job->admission->life = 5;
	admission_member(job->admission, 1)->presence = ADMISSION_LEFT;
	hear(job, CONTROL_LEAVE);
	assert_int_equal(seen.steps, 4);
	assert_deserted(1, pairs[0], 1);
	assert_deserted(2, pairs[1], 0);
	assert_deserted(3, pairs[4], 1);
	hear(pairs[1], CONTROL_JOIN); /* of that alone */
	assert_int_equal(seen.steps, 6);
	assert_deserted(5, pairs[1], 0);
	hear(pairs[2], CONTROL_JOIN);
	hear(job, CONTROL_JOIN); /* no pair: of no life */
	hear(job, CONTROL_STALL);
	hear(pairs[1], CONTROL_HEARTBEAT);
	step();
	assert_int_equal(seen.steps, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(command__goes_to_every_shard_that_the_job_is_on),
		T(send__of_a_grant_tells_where_the_shards_are),
		T(send__to_one_who_has_gone_is_nothing),
		T(send__of_a_query_is_noted_and_no_other_message_is),
		T(send__of_waiting_says_for_whom_they_wait_in_turn),
		T(step__of_all_jobs_is_one_for_each),
		T(step__of_jobs_that_drain_ends_no_part_of_what_runs),
		T(step__has_fresh_random_bits),
		T(log__of_a_step_has_its_level_its_rank_and_the_name_once),
		T(step__goes_on_as_long_as_there_is_more_to_do),
		T(step__that_ends_a_life_badly_tells_its_jobs),
		T(step__of_a_leave_or_a_join_tells_pairs_that_wait_for_one_who_has_left),
		T(step__that_ends_a_life_well_tells_nobody),
#undef T
	};

	return cmocka_run_group_tests_name("server-commands", tests, NULL, NULL);
}
