/* SPDX-License-Identifier: Apache-2.0 */
/* turning_test.c - what a shard's thread does, turn by turn: what is told and what is left out, how long it sleeps, and its
 * end. */
#include "server/shard_fixture.h"

/* ---- turns ---- */

static void turn__sleeps_when_nothing_has_come_a_second_at_most(void **state)
{
	(void)state;
	seen.busy = 2;
	turn(2);
	assert_string_equal(seen.done, "poll poll poll wait poll wait ");
	assert_true(seen.wait_until_ns == 51ull * SECOND_NS);
	seen.due_ns = 51ull * SECOND_NS + 1;
	turn(1);
	assert_true(seen.wait_until_ns == 51ull * SECOND_NS);
	seen.due_ns = 51ull * SECOND_NS - 1;
	turn(1);
	assert_true(seen.wait_until_ns == seen.due_ns);
	assert_int_equal(woken(), 0); /* there was nothing to tell */
	assert_no_event();
}

static struct engine_event notice(enum engine_event_type type, uint16_t job, uint16_t child)
{
	return (struct engine_event){ .type = type, .job = job, .child = child };
}

static void turn__tells_what_is_alike_in_one_batch_once(void **state)
{
	static const uint32_t told[] = { 0, 2, 3, 4, 5, 6 };

	(void)state;
	seen.notice[0] = seen.notice[1] = notice(ENGINE_HEARD, 1, 1);
	seen.notice[2] = notice(ENGINE_HEARD, 1, 2);
	seen.notice[3] = notice(ENGINE_HEARD, 2, 2);
	seen.notice[4] = notice(ENGINE_ALARM, 2, 2);
	seen.notice[5] = seen.notice[6] = notice(ENGINE_REFUSED, 2, 2); /* each has its count */
	seen.notices = 7;
	turn(1);
	for (uint32_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct shard_event event = next();

		assert_int_equal(event.type, SHARD_NOTICE);
		assert_int_equal(event.job, seen.notice[told[i]].job);
		assert_memory_equal(&event.notice, &seen.notice[told[i]], sizeof(event.notice));
	}
	assert_no_event();
	assert_int_equal(woken(), 1);
}

static enum chip_news chip_look(struct chip *chip)
{
	(void)chip;
	return CHIP_NO_NEWS;
}

static void chip_close(struct chip *chip)
{
	(void)chip;
}

static int chip_open(struct chip **out, const char *address, const struct link_address *local,
		     char error[CHIP_ERROR_BYTES])
{
	static const struct chip_ops ops = { .look = chip_look, .close = chip_close };
	static struct chip chip = { .ops = &ops, .error = "it is full" };

	(void)address, (void)local, (void)error;
	*out = &chip;
	return 0;
}

/* Why the chip has not taken a child is the chip's to say; of other notices it says nothing. */
static void turn__tells_of_an_untaken_child_in_the_words_of_the_chip(void **state)
{
	struct shard_event event;

	(void)state;
	shard_close(seen.shard, NULL, NULL);
	seen.link_closed = seen.engine_closed = seen.waits = seen.polls = 0;
	assert_int_equal(shard_open(&seen.shard, &(struct shard_options){ .index = 3,
									  .wake_fd = seen.wake_fd,
									  .chip_open = chip_open }),
			 0);
	seen.notice[0] = notice(ENGINE_UNWRITTEN, 1, 1);
	seen.notice[1] = notice(ENGINE_ALARM, 1, 1);
	seen.notices = 2;
	turn(1);
	event = next();
	assert_int_equal(event.notice.type, ENGINE_UNWRITTEN);
	assert_non_null(event.text);
	assert_string_equal(event.text, "it is full");
	free(event.text);
	assert_null(next().text);
	assert_no_event();
}

/* All that the engine has seen of a job is told before its removal. */
static void turn__tells_all_before_the_next_command_is_answered(void **state)
{
	(void)state;
	seen.notices = 2 * NOTICES + 3;
	for (uint32_t i = 0; i < seen.notices; i++)
		seen.notice[i] = notice(ENGINE_MISFIT, (uint16_t)i, 0);
	send_type(SHARD_JOB_REMOVE);
	turn(0);
	for (uint32_t i = 0; i < seen.notices; i++)
		assert_int_equal(next().job, i);
	assert_ack(SHARD_JOB_REMOVE, 0);
	assert_no_event();
}

/* If control is slow: half of the room is for what must not be lost. */
static void turn__leaves_half_of_the_room_to_answers(void **state)
{
	(void)state;
	seen.notices = NOTICES;
	for (uint32_t i = 0; i < NOTICES; i++)
		seen.notice[i] = notice(ENGINE_MISFIT, (uint16_t)i, 0);
	seen.is_endless = true;
	turn(SHARD_EVENTS / 2 / NOTICES);
	assert_int_equal(woken(), SHARD_EVENTS / 2 / NOTICES);
	turn(3);
	assert_int_equal(woken(), 0);
	for (uint32_t i = 0; i < SHARD_COMMANDS; i++) {
		send_type(SHARD_JOB_SET);
		turn(0);
	}
	for (uint32_t i = 0; i < SHARD_EVENTS / 2; i++)
		assert_int_equal(next().type, SHARD_NOTICE);
	for (uint32_t i = 0; i < SHARD_COMMANDS; i++)
		assert_ack(SHARD_JOB_SET, 0);
	assert_no_event();
}

static void turn__looks_at_its_filters_once_a_second(void **state)
{
	(void)state;
	shard_close(seen.shard, NULL, NULL);
	seen.link_closed = seen.engine_closed = seen.waits = seen.polls = 0;
	open_shard(true);
	seen.news = 2;
	turn(2);
	assert_int_equal(seen.looks, 3);
	assert_int_equal(woken(), 2);
	for (int i = 2; i > 0; i--) {
		struct shard_event event = next();

		assert_int_equal(event.type, SHARD_HOOK);
		assert_int_equal(event.hook.error, -i);
	}
	seen.now_ns += SECOND_NS - 1;
	turn(1);
	assert_int_equal(seen.looks, 3);
	seen.now_ns++;
	turn(1);
	assert_int_equal(seen.looks, 4);
	assert_no_event();
	assert_int_equal(woken(), 0);
}

static void turn__tells_of_no_filter_into_the_half_of_the_answers(void **state)
{
	(void)state;
	shard_close(seen.shard, NULL, NULL);
	seen.link_closed = seen.engine_closed = seen.waits = seen.polls = 0;
	open_shard(true);
	seen.notices = NOTICES;
	for (uint32_t i = 0; i < NOTICES; i++)
		seen.notice[i] = notice(ENGINE_MISFIT, (uint16_t)i, 0);
	seen.is_endless = true;
	turn(SHARD_EVENTS / 2 / NOTICES);
	assert_int_equal(seen.looks, 1);
	seen.news = 1;
	seen.now_ns += SECOND_NS;
	turn(1);
	assert_int_equal(seen.looks, 1);
	next();
	seen.is_endless = false; /* there is room for one */
	seen.now_ns += SECOND_NS;
	turn(1);
	assert_int_equal(seen.looks, 2);
}

/* ---- the end ---- */

static void end__of_the_socket_is_told_and_commands_are_still_obeyed(void **state)
{
	struct shard_event event;

	(void)state;
	seen.fault = -EBADF;
	seen.fault_at_poll = 2;
	seen.stop_at_wait = 99;
	thread_seen.begin(thread_seen.arg); /* a REMOVE comes after it, and then the STOP */
	assert_string_equal(seen.done, "poll wait poll ");
	event = next();
	assert_int_equal(event.type, SHARD_DEAD);
	assert_int_equal(event.result, -EBADF);
	assert_ack(SHARD_JOB_REMOVE, 0);
	assert_int_equal(woken(), 2);
	assert_int_equal(seen.polled, 2);
	seen.fault = 0;
}

static void end__of_the_socket_refuses_what_is_to_be_added(void **state)
{
	struct shard_command command = { .job = JOB, .generation = GENERATION };

	(void)state;
	seen.fault = -EIO;
	for (uint32_t i = 0; i < 2; i++) {
		command.type = i ? SHARD_TABLE_ADD : SHARD_JOB_ADD;
		command.add = i ? NULL : calloc(1, sizeof(*command.add));
		command.table = i ? calloc(1, sizeof(*command.table)) : NULL;
		seen.lent = i ? (void *)command.table : (void *)command.add;
		shard_send(seen.shard, &command);
		turn(0);
		assert_ack(command.type, -EIO);
		assert_int_equal(seen.freed, i + 1);
	}
	assert_int_equal(seen.adds, 0);
	send_type(SHARD_JOB_SET); /* which is as good as any */
	turn(0);
	assert_ack(SHARD_JOB_SET, 0);
	seen.fault = 0;
}

static void end__gives_all_back_and_has_the_last_word(void **state)
{
	struct engine_stats stats = { .packets_in = 0 };
	struct engine_sparse_stats sparse = { .packets_in = 0 };

	(void)state;
	shard_close(NULL, &stats, &sparse);
	assert_int_equal(stats.packets_in, 0);
	shard_close(seen.shard, NULL, NULL);
	assert_int_equal(seen.joined, 1);
	assert_int_equal(seen.engine_closed, 1);
	assert_int_equal(seen.link_closed, 1);
	assert_int_equal(seen.hook_closed, 0);
	seen.link_closed = seen.engine_closed = 0;
	open_shard(true);
	shard_close(seen.shard, &stats, &sparse);
	assert_int_equal(stats.packets_in, 123);
	assert_int_equal(sparse.packets_in, 456);
	assert_int_equal(seen.hook_closed, 1);
	assert_int_equal(seen.joined, 2);
	seen.link_closed = seen.engine_closed = seen.hook_closed = 0;
	open_shard(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(turn__sleeps_when_nothing_has_come_a_second_at_most),
		T(turn__tells_what_is_alike_in_one_batch_once),
		T(turn__tells_of_an_untaken_child_in_the_words_of_the_chip),
		T(turn__tells_all_before_the_next_command_is_answered),
		T(turn__leaves_half_of_the_room_to_answers),
		T(turn__looks_at_its_filters_once_a_second),
		T(turn__tells_of_no_filter_into_the_half_of_the_answers),
		T(end__of_the_socket_is_told_and_commands_are_still_obeyed),
		T(end__of_the_socket_refuses_what_is_to_be_added),
		T(end__gives_all_back_and_has_the_last_word),
#undef T
	};

	return cmocka_run_group_tests_name("server-turning", tests, NULL, NULL);
}
