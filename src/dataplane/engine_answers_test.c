/* SPDX-License-Identifier: Apache-2.0 */
/* engine_answers_test.c - the sums that an engine sends, to whom, and in how many frames. */
#include "dataplane/engine_fixture.h"

#include "dataplane/link_udp.h"

/* ---- sums and answers ---- */

static void engine__last_childs_packet_sends_the_sum_to_all(void **state)
{
	struct wire packet = update_of(0, 5, 1);

	(void)state;
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	packet.child = 1;
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	for (uint32_t child = 0; child < 2; child++) {
		assert_answer(child, child, WIRE_RESULT, 5, 1);
		assert_sum_of_children(child, 2);
		assert_int_equal(fake.answers[child].wire.job, JOB);
		assert_int_equal(fake.answers[child].wire.generation, GENERATION);
		assert_int_equal(fake.answers[child].wire.tag, 4711);
		assert_int_equal(fake.answers[child].wire.child, 1); /* the last contributor */
	}
	assert_int_equal(engine_stats(engine)->packets_in, 2);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_ABSORB], 1);
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 1);
}

/* R-SW-15 */
static void engine__child_that_wants_no_lanes_gets_none(void **state)
{
	(void)state;
	for (uint32_t bare = 0; bare < 4; bare++) { /* bit c: child c */
		for (uint32_t child = 0; child < 2; child++) {
			struct wire packet = update_of((uint16_t)child, 5, 1 + bare);

			packet.flags |= bare >> child & 1 ? WIRE_BARE : 0;
			give(child, &packet);
		}
		poll_once();
		assert_int_equal(fake.answers_count, 2);
		for (uint32_t i = 0; i < 2; i++) { /* lanes go first */
			uint32_t child = bare == 1 ? !i : i;

			assert_answer(i, child, WIRE_RESULT, 5, 1 + bare);
			assert_int_equal(fake.answers[i].wire.lanes, bare >> child & 1 ? 0 : LANES);
			assert_int_equal(fake.answers[i].wire.child, 1);
			if (!(bare >> child & 1))
				assert_sum_of_children(i, 2);
		}
	}
}

/* Chunks of two children's parts in turn: each child's lanes are in one frame, and its headers in another. */
static void engine__bare_answers_share_frames(void **state)
{
	(void)state;
	for (uint32_t child = 0; child < 2; child++) {
		for (uint32_t slot = 0; slot < 16; slot++) {
			struct wire packet = update_of((uint16_t)child, (uint16_t)slot, 1);

			packet.flags |= WIRE_TAKE << WIRE_OP_SHIFT;
			if (slot % 2 == child)
				packet.flags |= WIRE_BARE;
			else
				packet.lanes = 0;
			give(child, &packet);
		}
	}
	poll_once();
	assert_int_equal(fake.answers_count, 32);
	assert_int_equal(fake.frames, 4);
}

static void engine__run_of_packets_is_answered_by_one_frame_per_child(void **state)
{
	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	give_run(1, update_of(1, 0, 1), 40);
	assert_two_runs_answered();
}

static void engine__answers_to_one_child_share_a_frame(void **state)
{
	uint32_t i = 0;

	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	give_run(0, probe_of(0, 0, 1), 50); /* 40 are held, 10 are needed */
	give_run(1, probe_of(1, 0, 1), 50); /* needed */
	poll_once();
	assert_int_equal(fake.answers_count, 100);
	assert_int_equal(fake.frames, 2);
	assert_int_equal(fake.calls, 1);
	for (; i < 40; i++)
		assert_answer(i, 0, WIRE_HELD, i, 1);
	for (; i < 50; i++)
		assert_answer(i, 0, WIRE_NEED, i, 1);
	for (; i < 100; i++)
		assert_answer(i, 1, WIRE_NEED, i - 50, 1);
}

static void engine__copies_of_finished_rounds_are_answered_to_their_sender_alone(void **state)
{
	(void)state;
	give_run(0, update_of(0, 0, 1), 40);
	give_run(1, update_of(1, 0, 1), 40);
	poll_once();
	give_run(1, update_of(1, 0, 1), 40);
	give_run(1, probe_of(1, 0, 1), 40);
	poll_once();
	assert_int_equal(fake.answers_count, 80);
	assert_int_equal(fake.frames, 2); /* at most 64 packets each */
	for (uint32_t i = 0; i < 80; i++) {
		assert_answer(i, 1, WIRE_RESULT, i % 40, 1);
		assert_sum_of_children(i, 2);
	}
}

static void engine__more_answers_than_fit_are_all_sent(void **state)
{
	static bool seen[SLOTS];
	uint16_t lanes = 16000; /* one RESULT fills a frame */
	uint32_t length = wire_bytes(lanes);
	uint8_t *bytes = calloc(1, length);
	struct link_address peer;

	(void)state;
	job_open(8, 2, lanes, false);
	for (uint16_t slot = 0; slot < 10; slot++) {
		for (uint16_t child = 0; child < 2; child++) {
			struct wire packet = update_of(child, slot, 1);

			packet.job = 8;
			packet.lanes = lanes;
			packet_write(bytes, &packet, child);
			peer = address_of(child);
			give_bytes(&peer, bytes, 1, length, length);
		}
		poll_once();
		assert_int_equal(fake.answers_count, 2);
	}
	for (uint32_t frame = 0; frame < IN_MAX; frame++) {
		struct wire probe = probe_of(0, 0, 1);

		probe.job = 8;
		give_run(0, probe, 10); /* 240 bytes ask for 640,240 */
	}
	poll_once();
	assert_int_equal(fake.answers_count, IN_MAX * 10);
	for (uint32_t i = 0; i < fake.answers_count; i++) {
		assert_int_equal(fake.answers[i].wire.lanes, lanes);
		assert_int_equal(fake.answers[i].lane[3],
				 lane_of(0, fake.answers[i].wire.slot, 3) +
					 lane_of(1, fake.answers[i].wire.slot, 3));
		seen[fake.answers[i].wire.slot] = true;
	}
	for (uint32_t slot = 0; slot < 10; slot++)
		assert_true(seen[slot]);
	free(bytes);
}

static void engine__many_destinations_and_sizes_all_get_their_answers(void **state)
{
	(void)state;
	job_open(8, 32, LANES, false);
	for (uint16_t child = 0; child < 32; child++) { /* RESULTs of many sizes, HELD, NEED */
		struct wire packet = update_of(child, 0, 1);

		packet.job = 8;
		packet.type = child % 2 ? WIRE_PROBE : WIRE_UPDATE;
		packet.lanes = child % 2 ? 0 : LANES;
		give_run(child, packet, 4);
	}
	poll_once();
	assert_int_equal(fake.answers_count, 16 * 4);
	for (uint32_t i = 0; i < fake.answers_count; i++)
		assert_answer(i, 1 + i / 4 * 2, WIRE_NEED, i % 4, 1);
	assert_int_equal(fake.frames, 16);
	assert_int_equal(fake.calls, 1);
}

/* Of the same size, to the same child's number or to all, in one burst: each goes to its own job's children. */
static void engine__answers_of_two_jobs_go_to_their_own_children(void **state)
{
	enum { OTHER = 8, OTHER_HOST = 20 };
	struct wire packet;

	(void)state;
	job_open(OTHER, 3, LANES, false);
	for (uint16_t child = 0; child < 3; child++) {
		struct link_address address = address_of(OTHER_HOST + child);

		assert_int_equal(engine_child_bind(engine, OTHER, child, &address), 0);
	}
	for (uint16_t child = 0; child < 3; child++) {
		packet = update_of(child, 5, 1);
		if (child < 2)
			give(child, &packet);
		packet.job = OTHER;
		give(OTHER_HOST + child, &packet);
	}
	poll_once();
	assert_int_equal(fake.answers_count, 2 + 3);
	for (uint16_t i = 0; i < 2; i++) {
		assert_answer(i, i, WIRE_RESULT, 5, 1);
		assert_int_equal(fake.answers[i].wire.job, JOB);
	}
	for (uint16_t i = 0; i < 3; i++) {
		assert_answer(2u + i, OTHER_HOST + i, WIRE_RESULT, 5, 1);
		assert_int_equal(fake.answers[2 + i].wire.job, OTHER);
	}
	packet = probe_of(1, 9, 1);
	give(1, &packet);
	packet.job = OTHER;
	give(OTHER_HOST + 1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_answer(0, 1, WIRE_NEED, 9, 1);
	assert_answer(1, OTHER_HOST + 1, WIRE_NEED, 9, 1);
	assert_int_equal(fake.answers[1].wire.job, OTHER);
}

static void engine__only_child_gets_its_own_lanes(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	job_open(8, 1, LANES, false);
	packet.job = 8;
	for (uint32_t seq = 1; seq < 10; seq++) {
		packet.seq = seq;
		give(0, &packet);
		poll_once();
		assert_int_equal(fake.answers_count, 1);
		assert_answer(0, 0, WIRE_RESULT, 0, seq);
		assert_sum_of_children(0, 1);
	}
}

static void engine__256_children_get_one_sum_in_one_call(void **state)
{
	(void)state;
	job_open(8, SWITCH_CHILDREN_MAX, LANES, false);
	for (uint16_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		struct wire packet = update_of(child, 7, 1);

		packet.job = 8;
		give(child, &packet);
		poll_once();
		assert_int_equal(fake.answers_count,
				 child == SWITCH_CHILDREN_MAX - 1 ? SWITCH_CHILDREN_MAX : 0);
	}
	assert_int_equal(fake.calls, 1);
	for (uint32_t child = 0; child < SWITCH_CHILDREN_MAX; child++) {
		assert_answer(child, child, WIRE_RESULT, 7, 1);
		assert_sum_of_children(child, SWITCH_CHILDREN_MAX);
	}
}

/* RESULTs of two sizes are twice as many frames as one call takes. */
static void engine__answers_beyond_one_call_go_out_once(void **state)
{
	enum { CHILDREN = SWITCH_CHILDREN_MAX };

	(void)state;
	job_open(8, CHILDREN, LANES, false);
	for (uint16_t child = 0; child < CHILDREN; child++) {
		for (uint16_t slot = 0; slot < 2; slot++) {
			struct wire packet = update_of(child, slot, 1);

			packet.job = 8;
			packet.lanes = slot ? LANES / 2 : LANES;
			give(child, &packet);
		}
		poll_once();
	}
	assert_int_equal(fake.calls, 2);
	assert_int_equal(fake.answers_count, 2 * CHILDREN);
	for (uint32_t i = 0; i < 2 * CHILDREN; i++)
		assert_answer(i, i % CHILDREN, WIRE_RESULT, (uint16_t)(i / CHILDREN), 1);
}

static void engine__result_of_the_round_before_keeps_its_own_lanes(void **state)
{
	struct wire packet = update_of(0, 0, 1);

	(void)state;
	packet.lanes = 8;
	give(0, &packet);
	packet.child = 1;
	give(1, &packet);
	packet.seq = 2;
	packet.lanes = LANES;
	give(1, &packet); /* child 1 has its result and goes on; child 0's was lost */
	poll_once();
	packet = probe_of(0, 0, 1);
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, 0, WIRE_RESULT, 0, 1);
	assert_int_equal(fake.answers[0].wire.lanes, 8);
	assert_int_equal(fake.answers[0].lane[7], lane_of(0, 0, 7) + lane_of(1, 0, 7));
}

/* ---- trees ---- */

static struct wire from_parent_of(enum wire_type type, uint16_t slot, uint32_t seq)
{
	struct wire packet = update_of(2, slot, seq); /* child 2 of the parent */

	packet.type = (uint8_t)type;
	packet.job = 9;
	packet.lanes = type == WIRE_RESULT ? LANES : 0;
	return packet;
}

static void engine__node_sends_its_partial_up_and_the_result_down(void **state)
{
	struct wire packet;

	(void)state;
	round_give(6, 1);
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, PARENT_HOST, WIRE_UPDATE, 6, 1);
	assert_int_equal(fake.answers[0].wire.job, 9);
	assert_int_equal(fake.answers[0].wire.child, 2);
	assert_sum_of_children(0, 2);

	packet = from_parent_of(WIRE_NEED, 6, 1); /* lost on its way: once more */
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 1);
	assert_answer(0, PARENT_HOST, WIRE_UPDATE, 6, 1);
	assert_sum_of_children(0, 2);

	packet = from_parent_of(WIRE_HELD, 6, 1);
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);

	packet = from_parent_of(WIRE_RESULT, 6, 1);
	give(PARENT_HOST, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	for (uint32_t child = 0; child < 2; child++) {
		assert_answer(child, child, WIRE_RESULT, 6, 1);
		assert_int_equal(fake.answers[child].wire.job, JOB);
		assert_int_equal(fake.answers[child].wire.child, 1);
		assert_int_equal(fake.answers[child].lane[5], lane_of(2, 6, 5));
	}
}

static void engine__last_contributors_copy_asks_the_parent(void **state)
{
	struct wire packet = update_of(1, 6, 1);

	(void)state;
	round_give(6, 1);
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_answer(0, 1, WIRE_HELD, 6, 1);
	assert_answer(1, PARENT_HOST, WIRE_PROBE, 6, 1);
	assert_int_equal(fake.answers[1].wire.job, 9);
	assert_int_equal(fake.answers[1].wire.child, 2);
}

static void engine__result_from_anyone_but_the_parent_is_dropped(void **state)
{
	struct wire packet = from_parent_of(WIRE_RESULT, 0, 1);
	const uint64_t *verdict = engine_stats(engine)->verdict;

	(void)state;
	round_give(0, 1);
	assert_dropped(STRANGER_HOST, &packet, &verdict[SWITCH_DROP_TYPE]);
	assert_dropped(0, &packet, &verdict[SWITCH_DROP_TYPE]);
	packet.job = 8; /* not ours at the parent */
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_TYPE]);
	packet = from_parent_of(WIRE_RESULT, SLOTS, 1);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_SLOT]);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	packet.generation++;
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_GENERATION]);
	packet = from_parent_of(WIRE_RESULT, 0, 2);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_STALE]);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	packet.lanes = LANES + 4;
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_LANES]);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	assert_dropped(PARENT_HOST, &packet, &verdict[SWITCH_DROP_JOB]);
}

static void engine__each_parent_reaches_its_own_job_alone(void **state)
{
	struct engine_job config = { .generation = GENERATION,
				     .children = 1,
				     .slots = 1,
				     .lanes_max = LANES,
				     .has_parent = true,
				     .parent_job = 9 };
	struct link_address child = address_of(0);
	struct wire packet;

	(void)state;
	for (uint16_t idx = 10; idx < 14; idx++) { /* the same index at different parents */
		config.parent = address_of(7000u + idx);
		assert_int_equal(engine_job_add(engine, idx, &config), 0);
		assert_int_equal(engine_job_set(engine, idx, GENERATION, LANES, true), 0);
		assert_int_equal(engine_child_bind(engine, idx, 0, &child), 0);
		packet = update_of(0, 0, 1);
		packet.job = idx;
		give(0, &packet);
	}
	poll_once();
	assert_int_equal(fake.answers_count, 4);
	assert_int_equal(engine_job_remove(engine, 11), 0);
	packet = from_parent_of(WIRE_RESULT, 0, 1);
	for (uint16_t idx = 13; idx >= 10; idx--) {
		give(7000u + idx, &packet);
		poll_once();
		assert_int_equal(fake.answers_count, idx == 11 ? 0 : 1);
		if (idx != 11)
			assert_int_equal(fake.answers[0].wire.job, idx);
	}
}

/* ---- over sockets ---- */

static struct link *socket_open(void)
{
	struct link_udp_options options = { .is_v6 = false };
	struct link *link;
	bool is_v6;

	assert_int_equal(link_address_parse("127.0.0.1", 0, &options.local, &is_v6), 0);
	assert_int_equal(link_udp_open(&link, &options), 0);
	return link;
}

static void engine__serves_runs_of_packets_over_sockets(void **state)
{
	struct link *at = socket_open(), *child[2] = { socket_open(), socket_open() };
	struct engine_options options = { .link = at };
	static uint8_t bytes[40 * (WIRE_HEADER_BYTES + 4 * LANES)];
	uint32_t length = wire_bytes(LANES);

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	job_open(JOB, 2, LANES, false);
	for (uint16_t i = 0; i < 2; i++)
		assert_int_equal(engine_child_bind(engine, JOB, i, &child[i]->local), 0);
	for (uint32_t seq = 1; seq <= 5; seq++) {
		uint32_t got[2] = { 0, 0 };

		for (uint16_t i = 0; i < 2; i++) {
			struct link_frame frame = { .peer = at->local,
						    .packet_bytes = length,
						    .count = 40,
						    .bytes = sizeof(bytes),
						    .data = bytes };
			for (uint16_t slot = 0; slot < 40; slot++) {
				struct wire packet = update_of(i, slot, seq);

				packet_write(bytes + slot * length, &packet, i);
			}
			assert_int_equal(child[i]->ops->send(child[i], &frame, 1), 0);
		}
		for (uint32_t turn = 0; got[0] + got[1] < 80; turn++) {
			struct link_frame in[8];

			assert_true(turn < 1000);
			(void)at->ops->wait(at, at->ops->now_ns(at) + 1000000);
			(void)engine_poll(engine);
			for (uint32_t i = 0; i < 2; i++) {
				int count = child[i]->ops->recv(child[i], in, 8);

				for (int k = 0; k < count; k++) {
					assert_int_equal(in[k].packet_bytes, length);
					got[i] += in[k].count;
				}
			}
		}
		assert_int_equal(got[0], 40);
		assert_int_equal(got[1], 40);
	}
	assert_int_equal(engine_stats(engine)->verdict[SWITCH_MULTICAST], 200);
	engine_close(engine);
	engine = NULL;
	at->ops->close(at);
	child[0]->ops->close(child[0]);
	child[1]->ops->close(child[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(engine__last_childs_packet_sends_the_sum_to_all, setup),
		ENGINE_TEST(engine__child_that_wants_no_lanes_gets_none, setup),
		ENGINE_TEST(engine__bare_answers_share_frames, setup),
		ENGINE_TEST(engine__run_of_packets_is_answered_by_one_frame_per_child, setup),
		ENGINE_TEST(engine__answers_to_one_child_share_a_frame, setup),
		ENGINE_TEST(engine__copies_of_finished_rounds_are_answered_to_their_sender_alone,
			    setup),
		ENGINE_TEST(engine__more_answers_than_fit_are_all_sent, setup),
		ENGINE_TEST(engine__many_destinations_and_sizes_all_get_their_answers, setup),
		ENGINE_TEST(engine__answers_of_two_jobs_go_to_their_own_children, setup),
		ENGINE_TEST(engine__only_child_gets_its_own_lanes, setup),
		ENGINE_TEST(engine__256_children_get_one_sum_in_one_call, setup),
		ENGINE_TEST(engine__answers_beyond_one_call_go_out_once, setup),
		ENGINE_TEST(engine__result_of_the_round_before_keeps_its_own_lanes, setup),
		ENGINE_TEST(engine__node_sends_its_partial_up_and_the_result_down, setup_node),
		ENGINE_TEST(engine__last_contributors_copy_asks_the_parent, setup_node),
		ENGINE_TEST(engine__result_from_anyone_but_the_parent_is_dropped, setup_node),
		ENGINE_TEST(engine__each_parent_reaches_its_own_job_alone, setup_node),
		ENGINE_TEST(engine__serves_runs_of_packets_over_sockets, setup_engine),
	};

	return cmocka_run_group_tests_name("engine_answers", tests, NULL, NULL);
}
