/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_latency_life_test.c - an endpoint in latency mode: what it refuses and drops, and what it leaves behind. */
#include "dataplane/endpoint_latency_fixture.h"

#include <errno.h>

/* ---- what comes from elsewhere or another time ---- */

/* Two workers, of which 0 has sent its UPDATE of operation 7; *update is it. */
static struct net *net_with_one_sent(struct wire *update)
{
	struct net *net = net_open_as(2, 8, 4, 0, 2);
	struct packet packet = { 0 };

	submit_all(net, 7, 1);
	assert_true(endpoint_poll(net->endpoints[0]));
	assert_true(queue_get(&net->to_switch, &packet));
	assert_int_equal(wire_check(packet.data, packet.bytes, update), WIRE_OK);
	return net;
}

/* Child 0 gets a RESULT, or what `wire` says it is, with lanes of its own. */
static void net_give(struct net *net, const struct wire *wire)
{
	struct packet packet;

	wire_put(packet.data, wire);
	for (uint32_t i = 0; i < wire->lanes; i++) {
		int32_t lane = value_of(0, 7, i) + value_of(1, 7, i);

		memcpy(packet.data + WIRE_HEADER_BYTES + i * sizeof(lane), &lane, sizeof(lane));
	}
	queue_put(net, 0, packet.data, wire_bytes(wire->lanes));
	endpoint_poll(net->endpoints[0]);
}

static void assert_ignored(struct net *net, const struct wire *wire, bool is_bad)
{
	struct endpoint_stats before = stats_of(net, 0), after;
	uint64_t cookie;

	net_give(net, wire);
	after = stats_of(net, 0);
	assert_int_equal(after.results_in, before.results_in);
	assert_int_equal(after.bad_in, before.bad_in + is_bad);
	assert_int_equal(after.results_ignored,
			 before.results_ignored + (!is_bad && wire->type == WIRE_RESULT));
	assert_int_equal(endpoint_done(net->endpoints[0], &cookie, 1), 0);
	assert_int_equal(endpoint_fault(net->endpoints[0]), ENDPOINT_OK);
	for (uint32_t i = 0; i < LANES; i++)
		assert_int_equal(calls[0].out[7][i], -1);
}

static void latency__result_of_an_old_generation_is_dropped(void **state)
{
	struct wire result, other;
	struct net *net = net_with_one_sent(&result);
	uint64_t cookie;

	(void)state;
	result.type = WIRE_RESULT;
	other = result;
	other.generation = GENERATION - 1;
	assert_ignored(net, &other, true);
	other.generation = GENERATION + 1;
	assert_ignored(net, &other, true);
	other = result;
	other.seq = 0; /* the slot's round before, and the next */
	assert_ignored(net, &other, false);
	other.seq = 2;
	assert_ignored(net, &other, false);
	other = result;
	other.slot = 1; /* waits for nothing */
	assert_ignored(net, &other, false);
	other.slot = 8; /* there is none */
	assert_ignored(net, &other, false);
	other = result;
	other.job++;
	assert_ignored(net, &other, true);

	net_give(net, &result);
	assert_true(is_summed(net, 0, 7));
	assert_int_equal(endpoint_done(net->endpoints[0], &cookie, 1), 1);
	assert_int_equal(cookie, 7);
	net_give(net, &result); /* a second copy */
	assert_int_equal(stats_of(net, 0).results_in, 1);
	assert_int_equal(endpoint_done(net->endpoints[0], &cookie, 1), 0);
	net_close(net);
}

static void latency__what_a_switch_does_not_say_changes_nothing(void **state)
{
	static const uint8_t types[] = { WIRE_HELD,   WIRE_NEED,  WIRE_CONFIRM,
					 WIRE_UPDATE, WIRE_PROBE, WIRE_ACK };
	struct wire update, other;
	struct net *net = net_with_one_sent(&update);

	(void)state;
	for (size_t i = 0; i < sizeof(types); i++) {
		other = update;
		other.type = types[i];
		if (other.type != WIRE_UPDATE) {
			other.lanes = 0;
			other.flags = 0;
		}
		assert_ignored(net, &other,
			       types[i] == WIRE_UPDATE || types[i] == WIRE_PROBE ||
				       types[i] == WIRE_ACK);
	}
	assert_int_equal(stats_of(net, 0).held_in, 0); /* that HELD had the round's tag */
	other = update;
	other.type = WIRE_HELD;
	other.lanes = 0;
	other.tag = 0;
	assert_ignored(net, &other, false);
	assert_int_equal(stats_of(net, 0).held_in, 1);
	net_close(net);
}

static void latency__result_of_another_operation_is_a_protocol_error(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct wire result;
		struct net *net = net_with_one_sent(&result);
		uint64_t cookie;

		result.type = WIRE_RESULT;
		if (i == 0)
			result.tag++;
		else if (i == 1)
			result.lanes -= WIRE_LANES_STEP;
		else
			result.flags |= WIRE_MAX << WIRE_OP_SHIFT;
		net_give(net, &result);
		assert_int_equal(endpoint_fault(net->endpoints[0]), ENDPOINT_PROTOCOL_ERROR);
		assert_int_equal(stats_of(net, 0).results_in, 0);
		for (uint32_t k = 0; k < LANES; k++)
			assert_int_equal(calls[0].out[7][k], -1);
		assert_true(endpoint_next(net->endpoints[0]) == PACE_NEVER);
		net->now_ns += 10000000000ull; /* nor is anything sent again */
		assert_int_equal(net->to_switch.count, 0);
		assert_false(endpoint_poll(net->endpoints[0]));
		assert_int_equal(net->to_switch.count, 0);
		assert_int_equal(endpoint_done(net->endpoints[0], &cookie, 1), 0);
		net_close(net);
	}
}

static void latency__garbage_is_counted_and_ignored(void **state)
{
	struct net *net = net_open_as(2, 7, 4, 0, seed_of_run());

	(void)state;
	submit_all(net, 0, 4);
	net_garbage(net);
	assert_int_equal(endpoint_fault(net->endpoints[0]), ENDPOINT_OK);
	assert_true(stats_of(net, 0).bad_in > 1000);
	assert_int_equal(stats_of(net, 0).results_in, 0);
	assert_true(net_run(net, 4, 10));
	assert_summed(net, 0, 4);
	net_close(net);
}

/* ---- life ---- */

static struct endpoint_options options_of(struct net *net, const struct endpoint_shard *shard)
{
	net->links[0].link.ops = &test_ops;
	net->links[0].net = net;
	return (struct endpoint_options){ .link = &net->links[0].link,
					  .quant = &quant_scalar,
					  .shards = shard,
					  .shards_count = 1,
					  .workers = 2,
					  .slots = 8,
					  .run = 4,
					  .window = 8,
					  .ops_max = 2,
					  .latency_window = 4 };
}

static void latency__open_and_submit_refuse_what_the_mode_does_not_do(void **state)
{
	struct endpoint_shard shards[2] = { { .address = switch_address, .generation = 7 },
					    { .address = switch_address, .generation = 7 } };
	struct net *net = net_open_as(0, 8, 4, 0, 1);
	struct endpoint_options good = options_of(net, shards), bad;
	int32_t x[LANES] = { 0 };
	struct endpoint_op op = op_of_type(LANES_INT32, 0, x, 1);
	struct endpoint *endpoint;

	(void)state;
	bad = good, bad.shards_count = 2;
	assert_null(endpoint_open(&bad));
	bad = good, bad.slots = 3; /* less than P */
	assert_null(endpoint_open(&bad));
	bad = good, bad.slots = SWITCH_LATENCY_SLOTS_MAX + 1;
	assert_null(endpoint_open(&bad));
	bad = good, bad.run = 0;
	assert_null(endpoint_open(&bad));
	bad = good, bad.run = MAP_RUN_MAX + 1;
	assert_null(endpoint_open(&bad));

	endpoint = endpoint_open(&good);
	assert_non_null(endpoint);
	assert_int_equal(endpoint_submit(endpoint, &op), -EINVAL); /* before START */
	assert_int_equal(endpoint_start(endpoint, LANES), 0);
	op = op_of_type(LANES_INT32, 0, x, LANES + 1);
	assert_int_equal(endpoint_submit(endpoint, &op), -EINVAL);
	op = op_of_type(LANES_FLOAT32, 0, x, 1);
	assert_int_equal(endpoint_submit(endpoint, &op), -EINVAL);
	op = op_of_type(LANES_INT32, 0, x, LANES);
	for (uint32_t i = 0; i < 4; i++) /* 2 were asked for, but P fit */
		assert_int_equal(endpoint_submit(endpoint, &op), 0);
	assert_int_equal(endpoint_submit(endpoint, &op), -EAGAIN);
	endpoint_close(endpoint);
	net_close(net);
}

/* Who takes none of what is done has no room left in the end. */
static void latency__submits_no_more_than_there_is_room_for_until_they_are_taken(void **state)
{
	struct endpoint_shard shard = { .address = switch_address, .generation = GENERATION };
	struct net *net = net_open_as(1, 8, 4, 0, 2);
	struct endpoint_options options = options_of(net, &shard);
	int32_t x[LANES] = { 0 };
	struct endpoint_op op = op_of_type(LANES_INT32, 0, x, 1);
	struct packet packet;
	uint32_t count = 0;
	uint64_t cookie;

	(void)state;
	endpoint_close(net->endpoints[0]);
	options.workers = 1;
	net->endpoints[0] = endpoint_open(&options);
	assert_int_equal(endpoint_start(net->endpoints[0], LANES), 0);
	for (; endpoint_submit(net->endpoints[0], &op) == 0; count++) {
		while (stats_of(net, 0).results_in <= count) {
			endpoint_poll(net->endpoints[0]);
			while (queue_get(&net->to_switch, &packet))
				serve_one(net, &packet);
			net->now_ns += STEP_NS;
		}
	}
	assert_int_equal(count, MAP_STREAMS * 4);
	assert_int_equal(endpoint_done(net->endpoints[0], &cookie, 1), 1);
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	net_close(net);
}

/* The window of packets holds too, where P would let more go. */
static void latency__sends_no_more_than_its_window(void **state)
{
	struct endpoint_shard shard = { .address = switch_address, .generation = GENERATION };
	struct net *net = net_open_as(0, 8, 4, 0, 1);
	struct endpoint_options options = options_of(net, &shard);
	struct endpoint_op op = op_of_type(LANES_INT32, 0, NULL, 0);
	struct endpoint *endpoint;

	(void)state;
	options.window = 2;
	endpoint = endpoint_open(&options);
	assert_int_equal(endpoint_start(endpoint, LANES), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(endpoint_submit(endpoint, &op), 0);
	assert_true(endpoint_poll(endpoint));
	assert_int_equal(net->to_switch.count, 2);
	endpoint_close(endpoint);
	net_close(net);
}

static void latency__welcome_gives_a_round_trip(void **state)
{
	struct net *net = net_open_as(1, 8, 4, 0, 2);
	struct wire welcome = {
		.type = WIRE_WELCOME, .generation = GENERATION, .seq = 3, .lanes = WIRE_HELLO_LANES
	};
	uint8_t bytes[WIRE_HEADER_BYTES + WIRE_HELLO_LANES * WIRE_LANE_BYTES] = { 0 };
	struct endpoint_welcome got;

	(void)state;
	endpoint_hello(net->endpoints[0], 0, 3, WIRE_HELLO_LANES);
	net->now_ns += 12345;
	wire_put(bytes, &welcome);
	bytes[WIRE_HEADER_BYTES + 15] = 77; /* the address that was seen */
	queue_put(net, 0, bytes, sizeof(bytes));
	endpoint_poll(net->endpoints[0]);
	assert_int_equal(endpoint_welcomes(net->endpoints[0], &got, 1), 1);
	assert_int_equal(got.serial, 3);
	assert_int_equal(got.seen.ip[15], 77);
	assert_int_equal(stats_of(net, 0).srtt_ns, 12345);
	net_close(net);
}

/* ---- what is left behind ---- */

void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **at, size_t align, size_t bytes);
void __real_free(void *at);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **at, size_t align, size_t bytes);
void __wrap_free(void *at);

static int64_t blocks; /* in use */
static uint32_t until_full = UINT32_MAX;

static bool is_full(void)
{
	return until_full != UINT32_MAX && !until_full--;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *at = is_full() ? NULL : __real_calloc(count, size);

	blocks += at != NULL;
	return at;
}

int __wrap_posix_memalign(void **at, size_t align, size_t bytes)
{
	int error = is_full() ? ENOMEM : __real_posix_memalign(at, align, bytes);

	blocks += !error;
	return error;
}

void __wrap_free(void *at)
{
	blocks -= at != NULL;
	__real_free(at);
}

static void latency__open_that_runs_out_of_memory_leaves_nothing(void **state)
{
	struct endpoint_shard shard = { .address = switch_address, .generation = GENERATION };
	struct net *net = net_open_as(0, 8, 4, 0, 1);
	struct endpoint_options options = options_of(net, &shard);
	uint32_t refused_open = 0, refused_start = 0;
	int64_t before = blocks;

	(void)state;
	for (uint32_t at = 0, error = 1; error; at++) {
		struct endpoint *endpoint;

		until_full = at;
		endpoint = endpoint_open(&options);
		error = !endpoint || endpoint_start(endpoint, LANES) == -ENOMEM;
		until_full = UINT32_MAX;
		refused_open += !endpoint;
		refused_start += endpoint && error;
		endpoint_close(endpoint);
		assert_int_equal(blocks, before);
	}
	assert_true(refused_open > 10);
	assert_true(refused_start > 2);
	net_close(net);
}

static int broken_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	(void)link, (void)frames, (void)max;
	return -EBADF;
}

/* Closed at every step of a job with operations in all states, and once the link has broken. */
static void latency__end_in_mid_operation_frees_everything(void **state)
{
	struct link_ops broken_ops = test_ops;
	int64_t before = blocks;

	(void)state;
	broken_ops.recv = broken_recv;
	for (uint32_t steps = 0; steps < 24; steps++) {
		uint32_t form = steps % FORMS;
		struct net *net = net_open_as(3, forms[form].slots, forms[form].window, 40, steps);

		submit_all(net, 0, OPS);
		for (uint32_t i = 0; i < steps / 2; i++)
			net_step(net);
		assert_true(net->done[0] < OPS);
		if (steps % 2) {
			uint32_t waiting = net->to_switch.count;

			net->links[0].link.ops = &broken_ops;
			net->now_ns += 1000000000;
			assert_false(endpoint_poll(net->endpoints[0]));
			assert_int_equal(endpoint_fault(net->endpoints[0]), ENDPOINT_LINK_ERROR);
			assert_true(endpoint_next(net->endpoints[0]) == PACE_NEVER);
			assert_int_equal(net->to_switch.count, waiting);
		}
		net_close(net);
		assert_int_equal(blocks, before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(latency__result_of_an_old_generation_is_dropped),
		cmocka_unit_test(latency__what_a_switch_does_not_say_changes_nothing),
		cmocka_unit_test(latency__result_of_another_operation_is_a_protocol_error),
		cmocka_unit_test(latency__garbage_is_counted_and_ignored),
		cmocka_unit_test(latency__open_and_submit_refuse_what_the_mode_does_not_do),
		cmocka_unit_test(
			latency__submits_no_more_than_there_is_room_for_until_they_are_taken),
		cmocka_unit_test(latency__sends_no_more_than_its_window),
		cmocka_unit_test(latency__welcome_gives_a_round_trip),
		cmocka_unit_test(latency__open_that_runs_out_of_memory_leaves_nothing),
		cmocka_unit_test(latency__end_in_mid_operation_frees_everything),
	};

	return cmocka_run_group_tests_name("endpoint_latency_life", tests, NULL, NULL);
}
