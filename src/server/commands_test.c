/* SPDX-License-Identifier: Apache-2.0 */
/* commands_test.c - what becomes of that which a job's admission decides: what shards and peers are told, and the log.
 * Admission, shards and peers are the test's. */
#include "server/commands_fixture.h"

/* Nothing went to a shard, and admission hears so for each of them. */
static void assert_refused(uint32_t shards, const char *text, bool is_path, uint16_t rank)
{
	assert_int_equal(seen.commands, 0);
	assert_int_equal(seen.steps, 1 + shards);
	for (uint32_t k = 0; k < shards; k++) {
		const struct admission_event *event = &seen.event[1 + k];

		assert_int_equal(event->type, ADMISSION_SHARD);
		assert_int_equal(event->shard, k);
		assert_int_equal(event->command, ADMISSION_JOB_ADD);
		assert_int_equal(event->job_generation, 4711);
		assert_true(event->has_failed);
		assert_int_equal(event->is_path, is_path);
		if (is_path)
			assert_int_equal(event->rank, rank);
		assert_string_equal(seen.text[1 + k], text);
	}
	assert_false(job_of_test()->is_refused);
}

/* ---- JOB_ADD ---- */

static void add__tells_every_shard_what_the_narrowest_can_hold(void **state)
{
	const struct job *job = job_of_test();

	(void)state;
	memset(admission_member(job_of_test()->admission, 2)->peer.nonce, 0x52, WIRE_NONCE_BYTES);
	add();
	assert_int_equal(seen.commands, SHARDS);
	for (uint32_t k = 0; k < SHARDS; k++) {
		const struct shard_command *command = &seen.command[k];

		assert_ptr_equal(seen.to[k], shard_of(k));
		assert_int_equal(command->type, SHARD_JOB_ADD);
		assert_int_equal(command->job, JOB);
		assert_int_equal(command->generation, 4711);
		assert_int_equal(command->add->engine.generation, 4711);
		assert_int_equal(command->add->engine.children, 2);
		assert_int_equal(command->add->engine.mode, SWITCH_DENSE);
		assert_int_equal(command->add->engine.slots, 704);
		assert_int_equal(command->add->engine.lanes_max, 360);
		assert_int_equal(command->add->nonces[0][15], 0x50);
		assert_int_equal(command->add->nonces[1][0], 0x51);
		assert_int_equal(command->add->nonces[2][0], 0); /* there is no rank 2 */
	}
	assert_int_equal(job->generation, 4711);
	assert_int_not_equal(test.server.generation, 4711); /* of the next */
	assert_int_equal(job->config.lanes_max, 360);
	assert_int_equal(job->plan.window, 50); /* packets of each member in the second's buffer */
	assert_int_equal(job->totals.shards, SHARDS);
	assert_true(job->bytes >= 704 * 2 * 360 * 4);
	assert_non_null(job->crossed);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_INFO, "train", SERVER_RANK_NONE,
		    "job train: 2 members: 360 lanes, 704 slots, window 50 (all that the receive "
		    "buffer holds), run 25, generation 4711");
}

/* R-LAT-19 */
static void add__of_latency_mode_is_for_the_first_shard_alone(void **state)
{
	static const struct {
		uint32_t slots, window;
		enum switch_mode mode;
		bool has_hook;
		uint32_t lanes_max, lanes;
	} rows[] = { { 64, 32, SWITCH_LATENCY, false, 0, 2236 },
		     { 64, 33, SWITCH_LATENCY_ACKNOWLEDGED, true, 0, 360 },
		     { 64, 32, SWITCH_LATENCY, true, 400, 360 },
		     { 64, 32, SWITCH_LATENCY, true, 100, 100 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct job *job;

		if (i)
			assert_int_equal(teardown(state) || setup(state), 0);
		job = job_of_test();
		for (uint32_t rank = 0; rank < 2; rank++)
			test.peers[PEER + rank].mtu = 9000;
		job->admission->mode = CONTROL_LATENCY;
		job->admission->latency_slots = rows[i].slots;
		job->admission->latency_window = rows[i].window;
		test.server.options.hook_devices = rows[i].has_hook ? "eth0" : NULL;
		test.server.options.lanes_max = rows[i].lanes_max;
		add();
		assert_int_equal(seen.commands, 1);
		assert_ptr_equal(seen.to[0], shard_of(0));
		assert_int_equal(seen.command[0].add->engine.mode, rows[i].mode);
		assert_int_equal(seen.command[0].add->engine.slots, 64);
		assert_int_equal(seen.command[0].add->engine.lanes_max, rows[i].lanes);
		assert_int_equal(job->config.shards, 1);
		job->admission->mode = CONTROL_DENSE; /* the name's next life has all of them */
		seen.steps = 0;
		add();
		assert_int_equal(job->config.shards, SHARDS);
	}
}

static void add__of_a_path_too_narrow_names_its_rank(void **state)
{
	static const char words[] = "rank 1 on beta: the MTU of its path to the aggregator is 1239 "
				    "bytes, and must be 1240 or more";
	char line[256];

	(void)state;
	test.peers[PEER].mtu = 1300;
	test.peers[PEER + 1].mtu = 1239;
	add();
	assert_refused(SHARDS, words, true, 1);
	snprintf(line, sizeof(line), "job train: %s", words);
	assert_int_equal(test.lines, 1);
	assert_line(0, SERVER_ERROR, "train", 1, line);
}

/* A member that has gone, or has told no MTU, counts as one on a stock network. */
static void add__of_an_unknown_mtu_is_for_1500_bytes(void **state)
{
	(void)state;
	test.server.options.lanes_max = 16368;
	receive_bytes[1] = receive_bytes[2] = receive_bytes[0];
	test.peers[PEER].mtu = 9000;
	test.peers[PEER + 1].mtu = 0;
	add();
	assert_int_equal(seen.command[0].add->engine.lanes_max, 360);
}

static void add__beyond_the_memory_says_what_does_not_fit(void **state)
{
	static const char dense[] =
		"slots for packets as large as the members' MTU of 1500 bytes allows do not fit "
		"into 8 KiB (--memory): raise it, or cap packets (--lanes 4 to 16368)";
	static const char latency[] = "512 slots (latency_slots) do not fit into 8 KiB (--memory), "
				      "not even of 4 lanes";

	(void)state;
	test.server.options.memory_max = 8192;
	add();
	assert_refused(SHARDS, dense, false, 0);
	assert_int_equal(job_of_test()->bytes, 0);

	assert_int_equal(teardown(state) || setup(state), 0);
	test.server.options.memory_max = 8192;
	job_of_test()->admission->mode = CONTROL_LATENCY;
	job_of_test()->admission->latency_slots = 512;
	job_of_test()->admission->latency_window = 256;
	add();
	assert_refused(1, latency, false, 0);
	assert_line(0, SERVER_ERROR, "train", SERVER_RANK_NONE,
		    "job train: 512 slots (latency_slots) do not fit into 8 KiB (--memory), not "
		    "even of 4 lanes");
}

/* 1,240 bytes are enough; and without a word the memory is 64 MiB. */
static void add__of_the_narrowest_path_there_may_be_fails_for_memory_alone(void **state)
{
	static const char words[] =
		"slots for packets as large as the members' MTU of 1240 bytes allows do not fit "
		"into 8 KiB (--memory): raise it, or cap packets (--lanes 4 to 16368)";

	(void)state;
	test.peers[PEER].mtu = 1240;
	test.server.options.memory_max = 8192;
	add();
	assert_refused(SHARDS, words, false, 0);
	assert_int_equal(teardown(state) || setup(state), 0);
	job_of_test()->admission->mode = CONTROL_LATENCY;
	job_of_test()->admission->latency_slots = 1 << 30;
	job_of_test()->admission->latency_window = 1;
	add();
	assert_refused(1,
		       "1073741824 slots (latency_slots) do not fit into 65536 KiB (--memory), not "
		       "even of 4 lanes",
		       false, 0);
}

/* Of memory, on the last of its shards. */
static void add__beyond_its_addresses_share_says_so(void **state)
{
	static struct table table = { .shard = SHARDS - 1, .source = 5, .bytes = 1 << 10 };
	struct job *job = job_of_test();
	char line[64];

	(void)state;
	job->source = 5;
	test.server.options.share = 50;
	test.server.options.memory_max = 2 << 20;
	test.server.options.memory_total = 1 << 30;
	test.server.tables[0] = &table;
	add();
	assert_int_equal(seen.commands, SHARDS);
	assert_int_equal(job->bytes, engine_slot_bytes(SWITCH_DENSE, 360) * 704);
	assert_int_equal(teardown(state) || setup(state), 0);
	job = job_of_test();
	job->source = test.peers[PEER].source = 5;
	test.server.options.share = 50;
	test.server.options.memory_max = 1 << 20;
	test.server.options.slots = 8;
	table.bytes = 4 << 20;
	test.server.tables[0] = &table;
	test.server.options.memory_total = 5 << 20; /* a few jobs' are 4 MiB, which it has */
	add();
	assert_int_equal(seen.commands, 0);
	assert_int_equal(seen.steps, 1 + SHARDS);
	assert_true(seen.event[1].has_failed);
	assert_memory_equal(seen.text[1], "its address has 4096 KiB of a shard's memory", 44);
	assert_int_equal(job->bytes, 0);
	assert_int_equal(test.lines, 1);
	snprintf(line, sizeof(line), "job train: %.40s", seen.text[1]);
	assert_memory_equal(test.line[0].text, line, strlen(line));
	assert_int_equal(test.line[0].level, SERVER_ERROR);
	assert_int_equal(test.line[0].rank, SERVER_RANK_NONE);
	assert_string_equal(test.line[0].job, "train");
}

static void add__without_memory_for_the_last_shard_tells_none(void **state)
{
	(void)state;
	seen.allocations_left = SHARDS - 1;
	job_of_test()->is_path_refused = true; /* of an earlier life */
	add();
	assert_refused(SHARDS, "out of memory", false, 0);
	assert_int_equal(seen.blocks, 0);
	assert_int_equal(test.lines, 0);
}

/* ---- what follows ---- */

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
			assert_int_equal(shard->lane_ops, 1 << WIRE_ADD | 1 << WIRE_ADD_NOCARRY |
								  1 << WIRE_MAX | 1 << WIRE_TAKE);
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

#define COMMANDS_TEST(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		COMMANDS_TEST(add__tells_every_shard_what_the_narrowest_can_hold),
		COMMANDS_TEST(add__of_latency_mode_is_for_the_first_shard_alone),
		COMMANDS_TEST(add__of_a_path_too_narrow_names_its_rank),
		COMMANDS_TEST(add__of_an_unknown_mtu_is_for_1500_bytes),
		COMMANDS_TEST(add__beyond_the_memory_says_what_does_not_fit),
		COMMANDS_TEST(add__without_memory_for_the_last_shard_tells_none),
		COMMANDS_TEST(command__goes_to_every_shard_that_the_job_is_on),
		COMMANDS_TEST(send__of_a_grant_tells_where_the_shards_are),
		COMMANDS_TEST(send__to_one_who_has_gone_is_nothing),
		COMMANDS_TEST(send__of_a_query_is_noted_and_no_other_message_is),
		COMMANDS_TEST(send__of_waiting_says_for_whom_they_wait_in_turn),
		COMMANDS_TEST(step__of_all_jobs_is_one_for_each),
		COMMANDS_TEST(step__has_fresh_random_bits),
		COMMANDS_TEST(add__beyond_its_addresses_share_says_so),
		COMMANDS_TEST(add__of_the_narrowest_path_there_may_be_fails_for_memory_alone),
		COMMANDS_TEST(log__of_a_step_has_its_level_its_rank_and_the_name_once),
		COMMANDS_TEST(step__goes_on_as_long_as_there_is_more_to_do),
		COMMANDS_TEST(step__that_ends_a_life_badly_tells_its_jobs),
		COMMANDS_TEST(step__that_ends_a_life_well_tells_nobody),
	};

	return cmocka_run_group_tests_name("server-commands", tests, NULL, NULL);
}
