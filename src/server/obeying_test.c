/* SPDX-License-Identifier: Apache-2.0 */
/* obeying_test.c - commands that a shard's thread obeys and answers. */
#include "server/shard_fixture.h"

static void shard__is_what_it_was_opened_as(void **state)
{
	sigset_t mask;

	(void)state;
	assert_true(thread_seen.are_blocked); /* signals are the program's */
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(sigismember(&mask, SIGTERM), 0);
	assert_string_equal(thread_seen.name, "tally-shard3");
	assert_int_equal(shard_port(seen.shard), 7175);
	assert_int_equal(shard_receive_bytes(seen.shard), 4321);
	assert_int_equal(shard_memory_used(seen.shard), 0);
}

static void command__of_a_job_is_obeyed_and_answered(void **state)
{
	struct shard_command add = { .type = SHARD_JOB_ADD, .job = JOB, .generation = GENERATION };

	(void)state;
	for (int life = 0; life < 2; life++) {
		seen.result = life ? -ENOSPC : 0;
		add.add = calloc(1, sizeof(*add.add));
		seen.lent = add.add;
		add.add->engine.children = 2;
		add.add->nonces[1][3] = 0x77;
		shard_send(seen.shard, &add);
		turn(0);
		assert_ack(SHARD_JOB_ADD, seen.result);
		assert_int_equal(seen.adds, life + 1);
		assert_int_equal(seen.freed, life + 1);
		assert_int_equal(seen.added.children, 2);
		assert_int_equal(seen.nonce, 0x77);
		assert_int_equal(shard_memory_used(seen.shard), 1000);
		shard_send(seen.shard, &(struct shard_command){ .type = SHARD_JOB_SET,
								.job = JOB,
								.generation = GENERATION,
								.lanes = 36 });
		turn(0);
		assert_ack(SHARD_JOB_SET, seen.result);
		assert_int_equal(seen.set_generation, GENERATION);
		assert_int_equal(seen.set_lanes, 36);
		assert_int_equal(woken(), 2);
		seen.job_updates = 88;
		send_type(SHARD_JOB_REMOVE);
		turn(0);
		assert_int_equal(assert_ack(SHARD_JOB_REMOVE, 0).totals.updates, 88);
		assert_int_equal(seen.removes, life + 1);
		assert_int_equal(shard_memory_used(seen.shard), 0);
		assert_int_equal(woken(), 1);
	}
	assert_int_equal(seen.wakes, 12); /* each of them wakes the shard */
	assert_int_equal(seen.polls + seen.waits, 0);
	assert_no_event();
}

static void command__of_a_table_is_obeyed_and_answered(void **state)
{
	struct shard_command command = { .type = SHARD_TABLE_ADD,
					 .job = JOB,
					 .generation = GENERATION,
					 .table = calloc(1, sizeof(struct shard_table)) };
	struct shard_event beat;

	(void)state;
	command.table->engine.instance = 8;
	command.table->nonces[2][5] = 0x66;
	seen.lent = command.table;
	seen.result = -ENOMEM;
	shard_send(seen.shard, &command);
	turn(0);
	assert_ack(SHARD_TABLE_ADD, -ENOMEM);
	assert_int_equal(seen.table.instance, 8);
	assert_int_equal(seen.table_nonce, 0x66);
	assert_int_equal(seen.freed, 1);
	command = (struct shard_command){ .type = SHARD_TABLE_BEAT,
					  .job = JOB,
					  .generation = GENERATION };
	seen.memory_used = 700;
	shard_send(seen.shard, &command); /* of a table that is not there, and names nothing */
	turn(0);
	beat = assert_ack(SHARD_TABLE_BEAT, 0);
	assert_int_equal(seen.names, 0);
	assert_int_equal(beat.memory_used, 700);
	assert_int_equal(beat.memory_max, 5000);
	assert_int_equal(beat.instance + beat.table_generation + beat.parts, 0);
	seen.has_table = true;
	command.table_generation = 1;
	shard_send(seen.shard, &command);
	send_type(SHARD_TABLE_REMOVE);
	turn(0);
	beat = assert_ack(SHARD_TABLE_BEAT, 0);
	assert_int_equal(seen.names, 1);
	assert_int_equal(seen.named, 1);
	assert_int_equal(beat.instance, 61);
	assert_int_equal(beat.table_generation, 62);
	assert_int_equal(beat.parts, 63);
	assert_ack(SHARD_TABLE_REMOVE, 0);
	assert_int_equal(seen.table_removes, 1);
}

static void command__to_report_fills_in_what_is_counted(void **state)
{
	struct shard_report report = { .stats.packets_in = 1 };

	(void)state;
	shard_send(seen.shard, &(struct shard_command){ .type = SHARD_REPORT,
							.job = JOB,
							.generation = GENERATION,
							.report = &report });
	turn(0);
	assert_ack(SHARD_REPORT, 0);
	assert_int_equal(report.stats.packets_in, 123);
	assert_int_equal(report.tables.packets_in, 456);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(shard__is_what_it_was_opened_as),
		T(command__of_a_job_is_obeyed_and_answered),
		T(command__of_a_table_is_obeyed_and_answered),
		T(command__to_report_fills_in_what_is_counted),
#undef T
	};

	return cmocka_run_group_tests_name("server-obeying", tests, NULL, NULL);
}
