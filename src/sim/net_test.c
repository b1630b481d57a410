/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conformance/link_suite.h"
#include "sim/net.h"

enum { PACKET = 64, GBIT_PS = 8000, DELAY = 1000 };

static const struct net_host good_host = {
	.out = { .ps_per_byte = GBIT_PS, .queue_bytes = 1 << 20, .delay_ns = DELAY / 2 },
	.in = { .ps_per_byte = GBIT_PS, .queue_bytes = 1 << 20, .delay_ns = DELAY / 2 },
	.inbox_bytes = 1 << 20,
	.gro = 500000,
};

static struct net *net_new(uint64_t seed, struct net_weather weather, const struct net_host *host)
{
	struct net_options options = { .seed = seed, .packet_bytes_max = 1464, .weather = weather };
	struct net *net = net_open(&options);

	assert_non_null(net);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(net_node_add(net, host), i);
	return net;
}

/* Node 0 sends `count` packets to node 1, a number in each. */
static void packets_send(struct net *net, uint32_t count)
{
	struct link *link = net_link(net, 0);
	uint32_t bytes[PACKET / 4] = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		struct link_frame frame = { .peer = net_address(net, 1),
					    .packet_bytes = PACKET,
					    .count = 1,
					    .bytes = PACKET,
					    .data = (uint8_t *)bytes };
		bytes[0] = i;
		assert_int_equal(link->ops->send(link, &frame, 1), 0);
	}
}

/* Runs until nothing is left; what node 1 got, in order. */
static uint32_t packets_take(struct net *net, uint32_t *numbers, uint32_t max, uint32_t *frames)
{
	struct link *link = net_link(net, 1);
	struct link_frame frame;
	uint32_t count = 0;

	*frames = 0;
	while (net_step(net).type != NET_IDLE)
		for (; link->ops->recv(link, &frame, 1) == 1; (*frames)++)
			for (uint32_t i = 0; i < frame.count && count < max; i++)
				memcpy(&numbers[count++], frame.data + i * frame.packet_bytes, 4);
	return count;
}

static void net__same_seed_gives_the_same_run(void **state)
{
	struct net_weather weather = { .loss = 20000,
				       .duplicate = 20000,
				       .reorder = 100000,
				       .jitter_ns = 3000,
				       .reorder_ns = 100000 };
	static uint32_t got[3][3000];
	uint32_t count[3], frames;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct net *net = net_new(i < 2 ? 7 : 8, weather, &good_host);
		packets_send(net, 1000);
		count[i] = packets_take(net, got[i], 3000, &frames);
		net_close(net);
	}
	assert_int_equal(count[0], count[1]);
	assert_memory_equal(got[0], got[1], count[0] * 4);
	assert_true(count[0] != count[2] || memcmp(got[0], got[2], count[0] * 4) != 0);
}

static void net__loses_doubles_and_reorders_as_often_as_told(void **state)
{
	struct net_weather weather = {
		.loss = 20000, .duplicate = 10000, .reorder = 30000, .reorder_ns = 1000000
	};
	static uint32_t got[30000], frames;
	struct net *net = net_new(1, weather, &good_host);
	uint32_t back = 0;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		packets_send(net, 1000);
		uint32_t count = packets_take(net, got, 30000, &frames);
		for (uint32_t j = 1; j < count; j++)
			back += got[j] < got[j - 1];
	}
	const struct net_stats *stats = net_stats(net);
	assert_in_range(stats->fate[NET_LOST], 300, 500);
	assert_in_range(stats->fate[NET_DOUBLED], 130, 270);
	assert_in_range(back, 300, 1500);
	assert_int_equal(stats->fate[NET_TAKEN],
			 20000 - stats->fate[NET_LOST] + stats->fate[NET_DOUBLED]);
	net_close(net);
}

static void net__line_is_as_fast_as_its_rate(void **state)
{
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	static uint32_t got[1000], frames;
	uint64_t begin = net_now(net);

	(void)state;
	packets_send(net, 1000);
	assert_int_equal(packets_take(net, got, 1000, &frames), 1000);
	uint64_t wire_ns = 1000ull * (PACKET + NET_OVERHEAD_BYTES) * GBIT_PS / 1000;
	assert_in_range(net_now(net) - begin, wire_ns + DELAY, wire_ns + wire_ns / 100 + DELAY);
	net_close(net);
}

static void net__full_queue_drops_what_comes(void **state)
{
	struct net_host host = good_host;
	static uint32_t got[1000], frames;

	(void)state;
	host.out.queue_bytes = 20 * (PACKET + NET_OVERHEAD_BYTES);
	struct net *net = net_new(1, (struct net_weather){ 0 }, &host);
	packets_send(net, 1000);
	assert_in_range(packets_take(net, got, 1000, &frames), 20, 22);
	net_close(net);
	host = good_host;
	host.inbox_bytes = 20 * PACKET;
	host.poll_ns = 100 * 1000 * 1000;
	net = net_new(1, (struct net_weather){ 0 }, &host);
	packets_send(net, 100);
	packets_take(net, got, 1000, &frames);
	assert_true(net_stats(net)->fate[NET_REFUSED] >= 60);
	net_close(net);
}

static void net__packets_of_one_peer_join_into_frames(void **state)
{
	struct net_host host = good_host;
	static uint32_t got[1000], frames;

	(void)state;
	host.poll_ns = 1000 * 1000;
	for (uint32_t i = 0; i < 3; i++) {
		host.gro = i * 500000;
		struct net *net = net_new(1, (struct net_weather){ 0 }, &host);
		packets_send(net, 640);
		assert_int_equal(packets_take(net, got, 1000, &frames), 640);
		if (i == 0)
			assert_int_equal(frames, 640);
		else
			assert_in_range(frames, 10, i == 1 ? 500 : 30);
		net_close(net);
	}
}

static void net__what_stands_still_is_late(void **state)
{
	static uint32_t got[10], frames;
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	uint64_t until = net_now(net) + 5000000;

	(void)state;
	net_pause_node(net, 1, until);
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 1);
	assert_true(net_now(net) >= until);
	until = net_now(net) + 5000000;
	net_pause_lines(net, 0, until, false);
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 1);
	assert_true(net_now(net) >= until);
	net_pause_lines(net, 1, net_now(net) + 5000000, true);
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 0);
	net_close(net);
}

static void net__moved_node_is_not_reached_where_it_was(void **state)
{
	static uint32_t got[10], frames;
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	struct link_address old = net_address(net, 1);
	uint8_t byte[PACKET] = { 0 };
	struct link_frame frame = {
		.peer = old, .packet_bytes = PACKET, .count = 1, .bytes = PACKET, .data = byte
	};

	(void)state;
	net_readdress(net, 1, 9999);
	net_link(net, 0)->ops->send(net_link(net, 0), &frame, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 0);
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 1);
	assert_int_equal(net_stats(net)->fate[NET_NOBODY], 1);
	net_close(net);
}

static void net__timers_fire_in_order_and_equal_ones_as_they_were_set(void **state)
{
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	uint64_t now = net_now(net);

	(void)state;
	for (uint32_t i = 0; i < 100; i++)
		net_timer(net, now + 1000 * (i % 10), i);
	for (uint32_t i = 0; i < 100; i++) {
		struct net_event event = net_step(net);
		assert_int_equal(event.type, NET_TIMER);
		assert_int_equal(event.cookie, i % 10 * 10 + i / 10);
	}
	assert_int_equal(net_step(net).type, NET_IDLE);
	net_close(net);
}

static void net__what_is_cut_off_hears_nothing_until_it_heals(void **state)
{
	static uint32_t got[10], frames;
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);

	(void)state;
	net_side(net, 0, 1);
	for (enum net_cut cut = NET_WHOLE; cut <= NET_CUT_ONE_WAY; cut++) {
		net_cut(net, cut);
		packets_send(net, 1);
		assert_int_equal(packets_take(net, got, 10, &frames), cut == NET_WHOLE);
	}
	net_side(net, 0, 0);
	net_side(net, 1, 1); /* from the lower side to the higher one */
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 1);
	net_close(net);
}

static void net__clock_that_drifts_is_met_on_its_own_time(void **state)
{
	static const int32_t rates[] = { 0, 1, -1, 100000, -100000, 333333 };
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	struct link *link = net_link(net, 0);
	struct rng rng;

	(void)state;
	rng_init(&rng, 1, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t before = link->ops->now_ns(link);
		uint64_t begin = net_now(net);
		uint64_t wait = rng_log(&rng, 1, 10000000000);
		int32_t ppm = rates[i % 6];

		net_clock(net, 0, ppm, i % 7);
		assert_int_equal(link->ops->now_ns(link), before + i % 7);
		before += i % 7;
		net_poll_at_clock(net, 0, before + wait);
		assert_int_equal(net_step(net).type, NET_POLL);
		assert_in_range(link->ops->now_ns(link), before + wait, before + wait + 2);
		double true_ns = (double)wait / (1 + ppm / 1e6);
		assert_in_range(net_now(net) - begin, (uint64_t)(true_ns * 0.999999),
				(uint64_t)(true_ns * 1.000001) + 2);
	}
	net_close(net);
}

static void net__switch_has_a_cable_for_each_child(void **state)
{
	struct net_host hub = good_host;
	static uint32_t got[1000], frames;
	struct net *net = net_new(1, (struct net_weather){ 0 }, &good_host);
	uint64_t wire_ns = 100ull * (PACKET + NET_OVERHEAD_BYTES) * GBIT_PS / 1000;
	uint64_t begin = net_now(net);

	(void)state;
	net_node_up(net, 1, 0); /* node 0 is the switch: its own line is not used */
	net_pause_lines(net, 0, begin, false);
	packets_send(net, 100);
	assert_int_equal(packets_take(net, got, 1000, &frames), 100);
	assert_in_range(net_now(net) - begin, wire_ns - wire_ns / 50, wire_ns + DELAY);
	net_close(net);
	hub.hub_out = (struct net_line){ .ps_per_byte = 10 * GBIT_PS, .queue_bytes = 1 << 20 };
	net = net_new(1, (struct net_weather){ 0 }, &hub);
	net_node_up(net, 1, 0);
	begin = net_now(net);
	packets_send(net, 100);
	assert_int_equal(packets_take(net, got, 1000, &frames), 100);
	assert_in_range(net_now(net) - begin, 10 * wire_ns, 10 * wire_ns + 10 * DELAY);
	net_close(net);
}

static void net__lane_may_weigh_as_much_as_several(void **state)
{
	struct net_options options = { .seed = 1, .packet_bytes_max = PACKET, .lane_weight = 10 };
	static uint32_t got[10], frames;
	struct net *net = net_open(&options);
	uint32_t wire = 24 + 10 * (PACKET - 24) + NET_OVERHEAD_BYTES;

	(void)state;
	net_node_add(net, &good_host);
	net_node_add(net, &good_host);
	uint64_t begin = net_now(net);
	packets_send(net, 1);
	assert_int_equal(packets_take(net, got, 10, &frames), 1);
	assert_int_equal(net_now(net) - begin, wire * (GBIT_PS / 1000) + DELAY);
	net_close(net);
}

static void net__chance_strikes_only_the_packets_it_is_let_to(void **state)
{
	struct net_options options = { .seed = 1,
				       .packet_bytes_max = PACKET,
				       .fault_first = 10,
				       .fault_last = 19,
				       .weather = { .loss = 1000000 } };
	static uint32_t got[100], frames;
	struct net *net = net_open(&options);

	(void)state;
	net_node_add(net, &good_host);
	net_node_add(net, &good_host);
	packets_send(net, 100);
	assert_int_equal(packets_take(net, got, 100, &frames), 90);
	assert_int_equal(got[9], 9);
	assert_int_equal(got[10], 20);
	net_close(net);
}

static void net__newcomer_gets_nothing_of_whoever_was_there_before(void **state)
{
	static uint32_t got[100], frames;
	struct net_host host = good_host;

	(void)state;
	host.poll_ns = 1000 * 1000;
	struct net *net = net_new(1, (struct net_weather){ 0 }, &host);
	uint16_t port = net_address(net, 1).port;
	packets_send(net, 10);
	net_timer(net, net_now(net) + 4 * (PACKET + NET_OVERHEAD_BYTES) * GBIT_PS / 1000 + DELAY,
		  7);
	while (net_step(net).type != NET_TIMER)
		; /* four are there, six on their way */
	net_reborn(net, 1);
	assert_true(net_address(net, 1).port != port);
	assert_int_equal(packets_take(net, got, 100, &frames), 0);
	packets_send(net, 3);
	assert_int_equal(packets_take(net, got, 100, &frames), 3);
	net_close(net);
}

/* --- the suite that every link passes --- */

static struct net *suite_net;

static int suite_open(const struct link_factory *factory, struct link **links, uint32_t count)
{
	struct net_options options = { .seed = 1, .packet_bytes_max = factory->packet_bytes_max };

	suite_net = net_open(&options);
	for (uint32_t i = 0; i < count; i++)
		links[i] = net_link(suite_net, net_node_add(suite_net, &good_host));
	return 0;
}

static void suite_close(const struct link_factory *factory)
{
	(void)factory;
	net_close(suite_net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net__same_seed_gives_the_same_run),
		cmocka_unit_test(net__loses_doubles_and_reorders_as_often_as_told),
		cmocka_unit_test(net__line_is_as_fast_as_its_rate),
		cmocka_unit_test(net__full_queue_drops_what_comes),
		cmocka_unit_test(net__packets_of_one_peer_join_into_frames),
		cmocka_unit_test(net__what_stands_still_is_late),
		cmocka_unit_test(net__moved_node_is_not_reached_where_it_was),
		cmocka_unit_test(net__timers_fire_in_order_and_equal_ones_as_they_were_set),
		cmocka_unit_test(net__what_is_cut_off_hears_nothing_until_it_heals),
		cmocka_unit_test(net__clock_that_drifts_is_met_on_its_own_time),
		cmocka_unit_test(net__switch_has_a_cable_for_each_child),
		cmocka_unit_test(net__lane_may_weigh_as_much_as_several),
		cmocka_unit_test(net__chance_strikes_only_the_packets_it_is_let_to),
		cmocka_unit_test(net__newcomer_gets_nothing_of_whoever_was_there_before),
	};
	const struct link_factory factory = {
		.name = "sim", .packet_bytes_max = 9000, .open = suite_open, .close = suite_close
	};
	int failed = cmocka_run_group_tests_name("net", tests, NULL, NULL);

	return failed + link_suite_run(&factory);
}
