/* SPDX-License-Identifier: Apache-2.0 */
/* Who is refused while a job gathers, and what all are told. */
#include "core/admission_fixture.h"

static void prepare_latency(uint32_t connection, uint16_t rank, uint32_t slots, uint32_t window)
{
	prepare_join(connection, rank, 2);
	t.message.join.mode = CONTROL_LATENCY;
	t.message.join.latency_slots = slots;
	t.message.join.latency_window = window;
}

static void admission__another_mode_is_denied_to_all(void **state)
{
	(void)state;
	join(10, 0, 2);
	prepare_latency(11, 1, 8, 4);
	say(11);
	assert_done("deny>11 close>11 deny>10 close>10");
	assert_text(
		CONTROL_DENIED, CONTROL_RANK_NONE,
		"job \"train\": rank 1 on host11 wants latency mode with 8 slots and a window of "
		"4, rank 0 on host10 wants dense mode");
	assert_state(ADMISSION_NONE);
}

static void admission__other_slots_or_another_window_are_denied_to_all(void **state)
{
	(void)state;
	for (uint32_t differs = 0; differs < 2; differs++) {
		uint32_t base = 10 + 10 * differs;

		prepare_latency(base, 0, 8, 4);
		say(base);
		prepare_latency(base + 1, 1, differs ? 8 : 16, differs ? 5 : 4);
		say(base + 1);
		assert_state(ADMISSION_NONE);
		assert_int_equal(t.cause, CONTROL_DENIED);
		assert_non_null(strstr(t.text, differs ? "8 slots and a window of 5"
						       : "16 slots and a window of 4"));
		assert_non_null(strstr(t.text, "8 slots and a window of 4"));
	}
}

static void admission__a_life_knows_the_mode_that_all_asked_for(void **state)
{
	(void)state;
	for (uint16_t rank = 0; rank < 2; rank++) {
		prepare_latency(10 + rank, rank, 65536, 32768);
		say(10 + rank);
	}
	assert_state(ADMISSION_GRANTED);
	assert_int_equal(t.admission->mode, CONTROL_LATENCY);
	assert_int_equal(t.admission->latency_slots, 65536);
	assert_int_equal(t.admission->latency_window, 32768);
	close_connection(10);
	close_connection(11);
	acknowledge(ADMISSION_JOB_REMOVE);
	join(20, 0, 2);
	assert_int_equal(t.admission->mode, CONTROL_DENSE);
	assert_int_equal(t.admission->latency_slots, 0);
}

static void admission__start_names_all_hosts_and_processes(void **state)
{
	(void)state;
	struct control_message message;

	bring_to(ADMISSION_ENABLING, 10, 3);
	for (uint16_t shard = 0; shard < t.config.shards; shard++)
		step((struct admission_event){ .type = ADMISSION_SHARD,
					       .shard = shard,
					       .command = ADMISSION_JOB_SET,
					       .job_generation = t.admission->generation });
	assert_done("start>10 start>11 start>12");
	admission_message(t.admission, &t.config, &t.actions,
			  &(struct admission_action){
				  .type = ADMISSION_SEND, .message = CONTROL_START, .lanes = 360 },
			  &message);
	assert_int_equal(message.start.lanes, 360);
	assert_int_equal(message.start.members_count, 3);
	for (uint16_t rank = 0; rank < 3; rank++) {
		char host[CONTROL_HOST_BYTES];

		snprintf(host, sizeof(host), "host%u", 10u + rank);
		assert_int_equal(message.start.members[rank].rank, rank);
		assert_int_equal(message.start.members[rank].pid, 110 + rank);
		assert_string_equal(message.start.members[rank].host, host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(admission__another_mode_is_denied_to_all, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			admission__other_slots_or_another_window_are_denied_to_all, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(admission__a_life_knows_the_mode_that_all_asked_for,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(admission__start_names_all_hosts_and_processes,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
