/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_wait_test.c - what an endpoint waits for. */
#include "dataplane/endpoint_fixture.h"

enum { MANY = 12 * LANES };

static int32_t buffers[3][MANY];

static void submit(struct endpoint *endpoint, uint64_t number, enum map_stream stream)
{
	struct endpoint_op op = op_of_type(LANES_INT32, number, buffers[number], MANY);

	op.stream = (int)stream;
	assert_int_equal(endpoint_submit(endpoint, &op), 0);
}

static enum link_load load_of(struct net *net, uint32_t worker)
{
	while (endpoint_poll(net->endpoints[worker]))
		;
	return net->links[worker].link.load;
}

static void endpoint__waits_for_much_while_nothing_else_is_on_its_way(void **state)
{
	struct net *net = net_open(1, 0, seed_of_run());

	(void)state;
	assert_int_equal(net->links[0].link.load, LINK_GUESS);
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	submit(net->endpoints[0], 0, MAP_BULK);
	assert_int_equal(load_of(net, 0), LINK_MUCH);
	submit(net->endpoints[0], 1, MAP_EXPRESS);
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	assert_true(net_run(net, 2, 1));
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	net_close(net);
}

/* What the others have not called has no window any more. */
static void endpoint__waits_for_much_while_others_are_late(void **state)
{
	struct net *net = net_open(2, 0, seed_of_run());

	(void)state;
	submit(net->endpoints[0], 0, MAP_EXPRESS);
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	assert_false(net_run(net, 1, 1));
	assert_int_equal(endpoint_pace(net->endpoints[0])->shards[0].in_flight[MAP_EXPRESS], 0);
	assert_int_equal(load_of(net, 0), LINK_MUCH);
	net_close(net);
}

static void endpoint__waits_for_little_of_its_own_host(void **state)
{
	static const struct link_address here = {
		.ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .port = 7171
	};
	struct net *net = net_open(1, 0, seed_of_run());
	struct endpoint_shard shard = { .address = here, .generation = GENERATION };
	struct endpoint_options options = { .link = &net->links[0].link,
					    .quant = &quant_scalar,
					    .shards = &shard,
					    .shards_count = 1,
					    .workers = 1,
					    .slots = SLOTS,
					    .run = 4,
					    .window = 8 };

	(void)state;
	endpoint_close(net->endpoints[0]);
	net->endpoints[0] = endpoint_open(&options);
	assert_non_null(net->endpoints[0]);
	assert_int_equal(endpoint_start(net->endpoints[0], LANES), 0);
	submit(net->endpoints[0], 0, MAP_BULK);
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	net_close(net);
}

static void endpoint__waits_for_little_in_latency_mode(void **state)
{
	struct net *net = net_open_as(1, 8, 4, 0, seed_of_run());
	struct endpoint_op op = op_of_type(LANES_INT32, 0, buffers[0], LANES);

	(void)state;
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	assert_int_equal(load_of(net, 0), LINK_LITTLE);
	net_close(net);
}

/* How many are on their way to the switch once `count` of them have been answered. */
static uint32_t on_their_way(struct net *net, uint32_t count)
{
	struct packet packet;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(queue_get(&net->to_switch, &packet));
		serve_one(net, &packet);
	}
	while (endpoint_poll(net->endpoints[0]))
		;
	return net->to_switch.count;
}

/* A run of 4, a window of 8: parts of 2. R-PACE-5. */
static void endpoint__bulk_waits_for_room_for_a_message(void **state)
{
	struct net *net = net_open(1, 0, seed_of_run());
	struct endpoint_op op = op_of_type(LANES_INT32, 0, buffers[0], MANY - LANES);

	(void)state;
	op.stream = MAP_BULK;
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	assert_int_equal(on_their_way(net, 0), 8);
	assert_int_equal(on_their_way(net, 1), 7);
	assert_true(endpoint_next(net->endpoints[0]) > net->now_ns); /* there is nothing to do */
	assert_int_equal(on_their_way(net, 1), 8);
	assert_int_equal(net->links[0].frames, 3);
	assert_int_equal(on_their_way(net, 1), 8); /* the last chunk, which no other follows */
	net_close(net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoint__waits_for_much_while_nothing_else_is_on_its_way),
		cmocka_unit_test(endpoint__waits_for_much_while_others_are_late),
		cmocka_unit_test(endpoint__waits_for_little_of_its_own_host),
		cmocka_unit_test(endpoint__waits_for_little_in_latency_mode),
		cmocka_unit_test(endpoint__bulk_waits_for_room_for_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
