/* SPDX-License-Identifier: Apache-2.0 */
/* adding_test.c - a job that its admission wants to be added: what its shards are told, or why they are not. */
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

static int no_chip(struct chip **chip, const char *address, const struct link_address *local,
		   char error[CHIP_ERROR_BYTES])
{
	(void)chip, (void)address, (void)local, (void)error;
	return -1;
}

/* Row i of a test: a server as new, before a switch. */
static void begin_with_chip(void **state, size_t i)
{
	if (i)
		assert_int_equal(teardown(state) || setup(state), 0);
	test.server.options.shards = 1;
	test.server.options.chip_open = no_chip;
}

/* R-CHIP-6; no more than was asked for, and no more than there is. */
static void add__where_a_switch_sums_takes_what_that_has(void **state)
{
	static const struct {
		uint32_t lanes_wanted, slots_wanted, lanes, slots;
	} rows[] = { { 0, 0, 32, 704 }, { 16, 100, 16, 100 }, { 360, 9000, 32, 8192 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin_with_chip(state, i);
		test.server.options.lanes_max = rows[i].lanes_wanted;
		test.server.options.slots = rows[i].slots_wanted;
		add();
		assert_int_equal(seen.commands, 1);
		assert_int_equal(seen.command[0].add->engine.lanes_max, rows[i].lanes);
		assert_int_equal(seen.command[0].add->engine.slots, rows[i].slots);
	}
}

static void add__where_a_switch_sums_refuses_what_is_beyond_it(void **state)
{
	(void)state;
	test.server.options.shards = 1;
	test.server.options.chip_open = no_chip;
	profile_of_test.children = 1;
	add();
	profile_of_test.children = 32;
	assert_refused(
		1,
		"the switch behind this aggregator (tallyd --engine p4) has room for at most 1 "
		"ranks in a job, this one has 2: use another aggregator",
		false, 0);
	assert_int_equal(teardown(state) || setup(state), 0);
	test.server.options.shards = 1;
	test.server.options.chip_open = no_chip;
	job_of_test()->admission->mode = CONTROL_LATENCY;
	add();
	assert_refused(
		1,
		"the switch behind this aggregator (tallyd --engine p4) runs dense.p4, which has "
		"no latency mode: leave latency_slots out, or use another aggregator",
		false, 0);
}

/* A job of latency mode as it has asked for it, and what is not one. */
static void add__where_a_switch_has_latency_mode_takes_that_alone(void **state)
{
	static const struct {
		uint32_t slots;
		const char *refusal;
	} rows[] = {
		{ 0, "runs latency.p4, and this job does not use latency mode: set latency_slots, "
		     "or use another aggregator" },
		{ 8192, NULL },
		{ 8193, "has 8192 slots, this job wants 8193: set a smaller latency_slots" },
	};
	char words[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin_with_chip(state, i);
		if (rows[i].slots)
			job_of_test()->admission->mode = CONTROL_LATENCY;
		job_of_test()->admission->latency_slots = rows[i].slots;
		job_of_test()->admission->latency_window = rows[i].slots ? 1 : 0;
		profile_of_test.is_latency = true;
		add();
		profile_of_test.is_latency = false;
		if (rows[i].refusal) {
			snprintf(words, sizeof(words),
				 "the switch behind this aggregator (tallyd --engine p4) %s",
				 rows[i].refusal);
			assert_refused(1, words, false, 0);
			continue;
		}
		assert_int_equal(seen.commands, 1);
		assert_int_equal(seen.command[0].add->engine.slots, rows[i].slots);
		assert_int_equal(seen.command[0].add->engine.lanes_max, 32);
		assert_int_equal(seen.command[0].add->engine.mode, SWITCH_LATENCY);
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

static void add__of_paths_too_narrow_names_the_first_of_the_narrowest(void **state)
{
	(void)state;
	test.peers[PEER].mtu = test.peers[PEER + 1].mtu = 1239;
	add();
	assert_refused(SHARDS,
		       "rank 0 on alpha: the MTU of its path to the aggregator is 1239 bytes, and "
		       "must be 1240 or more",
		       true, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(add__tells_every_shard_what_the_narrowest_can_hold),
		T(add__of_latency_mode_is_for_the_first_shard_alone),
		T(add__where_a_switch_sums_takes_what_that_has),
		T(add__where_a_switch_sums_refuses_what_is_beyond_it),
		T(add__where_a_switch_has_latency_mode_takes_that_alone),
		T(add__of_a_path_too_narrow_names_its_rank),
		T(add__of_paths_too_narrow_names_the_first_of_the_narrowest),
		T(add__of_an_unknown_mtu_is_for_1500_bytes),
		T(add__beyond_the_memory_says_what_does_not_fit),
		T(add__without_memory_for_the_last_shard_tells_none),
		T(add__beyond_its_addresses_share_says_so),
		T(add__of_the_narrowest_path_there_may_be_fails_for_memory_alone),
#undef T
	};

	return cmocka_run_group_tests_name("server-adding", tests, NULL, NULL);
}
