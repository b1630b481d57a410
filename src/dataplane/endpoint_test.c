/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_test.c - several endpoints around one switch program, over a network made of arrays. The
 * simulator does this at length; here every step can be seen. */
#include "dataplane/endpoint_fixture.h"

#include <errno.h>
#include <fenv.h>

#include "simd/float_state.h"

static void sums_int32(uint32_t workers, uint64_t count, uint32_t loss, uint64_t seed)
{
	struct net *net = net_open(workers, loss, seed);
	int32_t *data[WORKERS_MAX];
	int64_t *sum = calloc(count + 1, sizeof(*sum));

	for (uint32_t w = 0; w < workers; w++) {
		struct endpoint_op op;

		data[w] = calloc(count + 1, sizeof(int32_t));
		for (uint64_t i = 0; i < count; i++) {
			data[w][i] = (int32_t)rng_next(&net->rng) >> 4;
			sum[i] += data[w][i];
		}
		op = op_of_type(LANES_INT32, 0, data[w], count);
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 1, 60));
	for (uint32_t w = 0; w < workers; w++) {
		for (uint64_t i = 0; i < count; i++)
			assert_int_equal(data[w][i], sum[i]);
		free(data[w]);
	}
	assert_int_equal(net->mismatches, 0);
	free(sum);
	net_close(net);
}

static void endpoint__sums_int32_exactly(void **state)
{
	static const uint64_t counts[] = { 0, 1, 7, 8, 9, 64, 65, 511, 512, 513, 5000 };

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (uint32_t workers = 1; workers <= WORKERS_MAX; workers++)
			sums_int32(workers, counts[i], 0, i);
}

static void endpoint__sums_int32_exactly_under_loss(void **state)
{
	uint64_t seed = seed_of_run();

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		sums_int32(1 + i % WORKERS_MAX, 100 * i, 5 + i, seed + i);
}

/* Worker 0, opened anew for one operation of each stream. */
static struct endpoint *reopen(struct net *net, uint32_t run)
{
	struct endpoint_shard shard = { .address = switch_address, .generation = GENERATION };
	struct endpoint_options options = { .link = &net->links[0].link,
					    .quant = &quant_scalar,
					    .shards = &shard,
					    .shards_count = 1,
					    .workers = 1,
					    .slots = SLOTS,
					    .run = run,
					    .window = 8,
					    .ops_max = 1,
					    .contenders = &net->contenders };
	struct endpoint *endpoint = endpoint_open(&options);

	assert_non_null(endpoint);
	endpoint_close(net->endpoints[0]);
	net->endpoints[0] = endpoint;
	assert_int_equal(endpoint_start(endpoint, LANES), 0);
	return endpoint;
}

static void endpoint__has_as_many_operations_as_it_was_opened_for(void **state)
{
	struct net *net = net_open(1, 0, 1);
	struct endpoint *endpoint = reopen(net, 4);
	int32_t data[MAP_STREAMS] = { 5, 6 };

	(void)state;
	for (int stream = 0; stream < MAP_STREAMS; stream++) {
		struct endpoint_op op = op_of_type(LANES_INT32, 0, &data[stream], 1);

		op.stream = stream;
		assert_int_equal(endpoint_submit(endpoint, &op), 0);
		assert_int_equal(endpoint_submit(endpoint, &op), -EAGAIN);
	}
	assert_true(net_run(net, MAP_STREAMS, 60));
	net_close(net);
}

/* What a packet says of the slot's next chunk: for whole numbers there is no exponent to be agreed on. */
static bool note_exponent(struct net *net, const struct wire *wire, uint32_t worker)
{
	uint32_t *seen = net->lost_arg;

	if (worker == TO_SWITCH && wire->type == WIRE_UPDATE) {
		assert_true(wire->exponent == 0 || wire->exponent == WIRE_EXPONENT_UNKNOWN);
		seen[wire->exponent != 0]++;
	}
	return false;
}

static void endpoint__says_no_exponent_of_whole_numbers(void **state)
{
	enum { COUNT = 3 * SLOTS * LANES };
	struct net *net = net_open(1, 0, 3);
	int32_t data[COUNT];
	uint32_t seen[2] = { 0 };
	struct endpoint_op op = op_of_type(LANES_INT32, 0, data, COUNT);

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++)
		data[i] = i % 2 ? -(int32_t)i : (int32_t)i;
	net->lost_arg = seen;
	net->is_lost = note_exponent;
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	assert_true(net_run(net, 1, 60));
	assert_int_equal(seen[0] + seen[1], COUNT / LANES);
	assert_in_range(seen[1], 1, SLOTS); /* behind these comes no other chunk */
	net_close(net);
}

/* R-NUM-8 */
static void sum_of_one_is_itself(bool is_avg)
{
	enum { COUNT = 500 };
	static const uint32_t odd[] = {
		0x7fc00001, 0xffc12345, 0x7f800001, 0xff800000, 0x80000000,
		1,          0x807fffff, 0x4e6e6b28, 0x3a83126f, 0x7f7fffff
	};
	struct net *net = net_open(1, 5, seed_of_run());
	static uint32_t in[COUNT], out[COUNT];
	struct endpoint_op op = op_of_type(LANES_FLOAT32, 0, out, COUNT);
	struct endpoint_stats stats;

	op.op = is_avg ? LANES_AVG : LANES_SUM;
	for (uint32_t i = 0; i < COUNT; i++)
		in[i] = i % 3 ? (uint32_t)rng_next(&net->rng) : odd[i / 3 % 10];
	memcpy(out, in, sizeof(in));
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	assert_true(net_run(net, 1, 60));
	assert_memory_equal(out, in, sizeof(in));
	endpoint_stats(net->endpoints[0], &stats);
	assert_int_equal(stats.exponent_rounds, 0);
	net_close(net);
}

static void endpoint__sum_and_average_of_one_are_itself_bit_for_bit(void **state)
{
	(void)state;
	sum_of_one_is_itself(false);
	sum_of_one_is_itself(true);
}

/* A submit that does not wait sends what is urgent and leaves the rest. */
static void endpoint__begins_what_is_urgent_and_leaves_the_rest(void **state)
{
	static int32_t large[1000 * LANES], small[LANES];
	struct net *net = net_open(2, 0, 1);
	struct endpoint_op bulk = op_of_type(LANES_INT32, 0, large, 1000 * LANES);
	struct endpoint_op express = op_of_type(LANES_INT32, 0, small, LANES);
	struct endpoint *endpoint = net->endpoints[0];
	struct endpoint_stats stats;

	(void)state;
	assert_int_equal(endpoint_submit(endpoint, &bulk), 0);
	assert_int_equal(endpoint_submit(endpoint, &express), 0);
	endpoint_begin(endpoint);
	endpoint_stats(endpoint, &stats);
	assert_int_equal(stats.chunks_express, 1);
	assert_int_equal(stats.chunks_bulk, 0);
	assert_true(endpoint_next(endpoint) <= net->now_ns); /* whoever has the time: at once */
	assert_true(endpoint_poll(endpoint));
	assert_false(endpoint_poll(endpoint));
	endpoint_stats(endpoint, &stats);
	assert_int_equal(stats.chunks_bulk, 8); /* the window */
	assert_true(endpoint_next(endpoint) > net->now_ns);
	net_close(net);
}

/* Who has it, has it for a message, however large the window is. */
static void endpoint__begins_one_message_while_others_want_it(void **state)
{
	static int32_t data[1000 * LANES];
	struct net *net = net_open(2, 0, 1);
	struct endpoint_op op = op_of_type(LANES_INT32, 0, data, 1000 * LANES);
	struct endpoint_stats stats;

	(void)state;
	atomic_store(&net->contenders, 1);
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	for (uint32_t polls = 1; polls <= 2; polls++) {
		assert_true(endpoint_poll(net->endpoints[0]));
		endpoint_stats(net->endpoints[0], &stats);
		assert_int_equal(stats.chunks_bulk, 4 * polls); /* a run is one message */
	}
	atomic_store(&net->contenders, 0);
	assert_int_equal(endpoint_submit(net->endpoints[1], &op), 0);
	assert_true(endpoint_poll(net->endpoints[1]));
	endpoint_stats(net->endpoints[1], &stats);
	assert_int_equal(stats.chunks_bulk, 8); /* the window */
	net_close(net);
}

/* A RESULT for each chunk, and nothing is lost: all of them come in, and as many bytes as they have. */
static void endpoint__counts_the_bytes_that_come(void **state)
{
	enum { CHUNKS = 100 };
	static int32_t data[CHUNKS * LANES];
	struct net *net = net_open(1, 0, 1);
	struct endpoint_op op = op_of_type(LANES_INT32, 0, data, CHUNKS * LANES);
	struct endpoint_stats stats;

	(void)state;
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	assert_true(net_run(net, 1, 60));
	endpoint_stats(net->endpoints[0], &stats);
	assert_int_equal(stats.results_in, CHUNKS);
	assert_int_equal(stats.results_ignored + stats.held_in + stats.need_in, 0);
	assert_int_equal(stats.bytes_in, CHUNKS * PACKET_BYTES);
	net_close(net);
}

/* What finds no room is neither lost nor sent twice, and the endpoint never waits for it. */
static void endpoint__keeps_what_the_link_has_no_room_for(void **state)
{
	enum { COUNT = 3000 };
	static int32_t data[2][COUNT];
	struct net *net = net_open(2, 0, seed_of_run());
	struct endpoint_stats stats;

	(void)state;
	for (uint32_t w = 0; w < 2; w++) {
		struct endpoint_op op = op_of_type(LANES_INT32, 0, data[w], COUNT);

		net->links[w].link.ops = &narrow_ops;
		for (int32_t i = 0; i < COUNT; i++)
			data[w][i] = w ? -3 * i : i * i;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 1, 60));
	for (uint32_t w = 0; w < 2; w++) {
		for (int32_t i = 0; i < COUNT; i++)
			assert_int_equal(data[w][i], i * i - 3 * i);
		endpoint_stats(net->endpoints[w], &stats);
		assert_int_equal(stats.updates_out, COUNT / LANES);
		assert_int_equal(stats.results_in, COUNT / LANES);
	}
	net_close(net);
}

static int one_offer(struct link *link, const struct link_frame *frames, uint32_t count,
		     uint32_t *taken)
{
	*taken = count ? 1 : 0;
	return test_send(link, frames, *taken);
}

static bool note_slot(struct net *net, const struct wire *wire, uint32_t worker)
{
	uint32_t *seen = net->lost_arg;

	seen[wire->slot] += worker == TO_SWITCH && wire->type == WIRE_UPDATE;
	return true;
}

/* However many have to wait: nobody hears them, and the time stands still, so that nothing goes again. */
static void endpoint__sends_each_packet_that_waits_for_room_once(void **state)
{
	enum { PACKETS = MAP_EXPRESS_SLOTS_MIN }; /* all at once; those of bulk go one by one */
	static int32_t data[PACKETS * LANES];
	struct net *net = net_open(1, 0, 1);
	struct endpoint *endpoint = reopen(net, 1); /* a frame has one packet */
	struct link_ops ops = narrow_ops;
	struct endpoint_op op = op_of_type(LANES_INT32, 0, data, PACKETS * LANES);
	uint32_t seen[SLOTS] = { 0 }, slots = 0;

	(void)state;
	op.stream = MAP_EXPRESS;
	ops.offer = one_offer;
	net->links[0].link.ops = &ops;
	net->lost_arg = seen;
	net->is_lost = note_slot;
	assert_int_equal(endpoint_submit(endpoint, &op), 0);
	for (uint32_t polls = 0; polls < 2 * PACKETS; polls++)
		endpoint_poll(endpoint);
	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		assert_in_range(seen[slot], 0, 1);
		slots += seen[slot];
	}
	assert_int_equal(slots, PACKETS);
	net_close(net);
}

/* Several float and integer operations at once, in both streams, in place, under loss. */
/* Worker 1's first chunk is lost once; then worker 0 stands still but for three that come later. */
static bool first_is_lost(struct net *net, const struct wire *wire, uint32_t worker)
{
	uint32_t first = MAP_EXPRESS_SLOTS_MIN;

	(void)net;
	if (worker != TO_SWITCH || wire->type != WIRE_UPDATE)
		return false;
	return wire->child ? wire->slot == first && !(wire->flags & WIRE_RESENT)
			   : wire->slot > first + 3;
}

/* R-WK-5: all others wait for that one, so it must not wait for them. */
static void endpoint__copy_that_is_asked_for_does_not_wait_for_the_window(void **state)
{
	static int32_t data[2][1000 * LANES];
	struct net *net = net_open(2, 0, 1);
	struct endpoint_stats stats = { 0 };

	(void)state;
	net->is_lost = first_is_lost;
	for (uint32_t w = 0; w < 2; w++) {
		struct endpoint_op op = op_of_type(LANES_INT32, 0, data[w], 1000 * LANES);

		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	for (uint32_t steps = 0; steps < 20 && !stats.need_in; steps++) {
		net_step(net);
		endpoint_stats(net->endpoints[1], &stats);
	}
	assert_int_equal(stats.need_in, 1);
	assert_int_equal(stats.updates_out, 8 + 3 + 1); /* the window is full without it */
	assert_int_equal(stats.updates_resent, 1);
	net_close(net);
}

static void endpoint__sums_floats_of_mixed_operations_within_the_bound(void **state)
{
	enum { OPS = 12, COUNT_MAX = 1500 };
	static float data[OPS][WORKERS_MAX][COUNT_MAX];
	static double sum[OPS][COUNT_MAX], largest[OPS][COUNT_MAX / LANES + 1];
	struct net *net = net_open(3, 6, seed_of_run());
	uint64_t counts[OPS];

	(void)state;
	for (uint32_t o = 0; o < OPS; o++) {
		memset(sum[o], 0, sizeof(sum[o]));
		memset(largest[o], 0, sizeof(largest[o]));
		counts[o] = o % 4 == 3 ? 0 : 1 + rng_below(&net->rng, COUNT_MAX);
		for (uint32_t w = 0; w < 3; w++) {
			struct endpoint_op op;

			for (uint64_t i = 0; i < counts[o]; i++) {
				float x = ((float)rng_below(&net->rng, 2000001) - 1e6f) /
					  (float)(1u << rng_below(&net->rng, 24));

				data[o][w][i] = x;
				sum[o][i] += (double)x;
				if (largest[o][i / LANES] < (double)(x < 0 ? -x : x))
					largest[o][i / LANES] = (double)(x < 0 ? -x : x);
			}
			op = op_of_type(LANES_FLOAT32, o, data[o][w], counts[o]);
			assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
		}
	}
	assert_true(net_run(net, OPS, 60));
	for (uint32_t o = 0; o < OPS; o++)
		for (uint64_t i = 0; i < counts[o]; i++) {
			/* N 2^-s with s = 31 - 2 - (E - 126), and 2^(E - 127) <= largest */
			double bound = 3 * largest[o][i / LANES] * 2 / (1 << 29);
			double off = (double)data[o][0][i] - sum[o][i];

			bound += (sum[o][i] < 0 ? -sum[o][i] : sum[o][i]) / (1 << 23);
			assert_true((off < 0 ? -off : off) <= bound);
			assert_memory_equal(&data[o][0][i], &data[o][1][i], sizeof(float));
			assert_memory_equal(&data[o][0][i], &data[o][2][i], sizeof(float));
		}
	assert_int_equal(net->mismatches, 0);
	net_close(net);
}

static void endpoint__gives_back_inf_nan_and_saturates(void **state)
{
	struct net *net = net_open(2, 0, 1);
	union {
		uint32_t bits;
		float value;
	} inf = { 0x7f800000 }, nan = { 0x7fc00000 };
	float a[4] = { inf.value, inf.value, 1.5f, nan.value };
	float b[4] = { 2.0f, -inf.value, -0.25f, 1.0f };
	int32_t c[3] = { INT32_MAX, INT32_MIN, -5 }, d[3] = { INT32_MAX, -1, 3 };
	struct endpoint_stats stats;
	struct endpoint_op op;

	(void)state;
	op = op_of_type(LANES_FLOAT32, 0, a, 4);
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	op = op_of_type(LANES_FLOAT32, 0, b, 4);
	assert_int_equal(endpoint_submit(net->endpoints[1], &op), 0);
	op = op_of_type(LANES_INT32, 1, c, 3);
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	op = op_of_type(LANES_INT32, 1, d, 3);
	assert_int_equal(endpoint_submit(net->endpoints[1], &op), 0);
	assert_true(net_run(net, 2, 10));
	assert_true(a[0] == inf.value);
	assert_true(a[1] != a[1]);
	assert_true(a[2] == 1.25f);
	assert_true(a[3] != a[3]);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(c[0], INT32_MAX);
	assert_int_equal(c[1], INT32_MIN);
	assert_int_equal(c[2], -2);
	endpoint_stats(net->endpoints[0], &stats);
	assert_int_equal(stats.saturated, 2);
	assert_true(stats.detail_rounds == 2);
	net_close(net);
}

static void endpoint__another_count_on_one_rank_is_a_mismatch(void **state)
{
	struct net *net = net_open(2, 0, 1);
	int32_t a[100] = { 0 }, b[100] = { 0 };
	struct endpoint_op op = op_of_type(LANES_INT32, 0, a, 100);

	(void)state;
	assert_int_equal(endpoint_submit(net->endpoints[0], &op), 0);
	op = op_of_type(LANES_INT32, 0, b, 99);
	assert_int_equal(endpoint_submit(net->endpoints[1], &op), 0);
	assert_false(net_run(net, 1, 1));
	assert_true(net->mismatches > 0);
	net_close(net);
}

/* ---- the state of the processor ---- */

/* Denormals, and sums that have to be rounded. */
static void sums_of_floats(uint32_t *bits, uint32_t count)
{
	struct net *net = net_open(2, 0, 5);

	for (uint32_t w = 0; w < 2; w++) {
		struct endpoint_op op;

		for (uint32_t i = 0; i < count; i++)
			bits[w * count + i] = i < count / 2 ? 1 + 977 * i * (w + 1)
							    : 0x3f800001 + 3 * i + w;
		op = op_of_type(LANES_FLOAT32, 0, bits + w * count, count);
		op.op = LANES_AVG;
		assert_int_equal(endpoint_submit(net->endpoints[w], &op), 0);
	}
	assert_true(net_run(net, 1, 10));
	net_close(net);
}

static void endpoint__gives_the_same_bits_whatever_the_thread_has_set(void **state)
{
	enum { COUNT = 64, FLUSH = 0x8040, FZ = 1 << 24 };
	uint32_t plain[2 * COUNT], other[2 * COUNT];
	uint64_t before = float_state_read(), after;
	uint64_t set = FLOAT_STATE_DEFAULT | (FLOAT_STATE_DEFAULT ? FLUSH : FZ);

	(void)state;
	sums_of_floats(plain, COUNT);
	assert_int_equal(plain[0], 1);
	float_state_write(set);
	sums_of_floats(other, COUNT);
	after = float_state_read();
	float_state_write(before);
	assert_int_equal(after & ~(uint64_t)FLOAT_STATE_FLAGS, set);
	assert_memory_equal(plain, other, sizeof(plain));

	assert_int_equal(fesetround(FE_UPWARD), 0);
	sums_of_floats(other, COUNT);
	assert_int_equal(fegetround(), FE_UPWARD);
	fesetround(FE_TONEAREST);
	assert_memory_equal(plain, other, sizeof(plain));
}

static void endpoint__garbage_is_counted_and_ignored(void **state)
{
	struct net *net = net_open(2, 0, seed_of_run());
	struct endpoint_stats stats;

	(void)state;
	net_garbage(net);
	assert_int_equal(endpoint_fault(net->endpoints[0]), ENDPOINT_OK);
	endpoint_stats(net->endpoints[0], &stats);
	assert_true(stats.bad_in > 1000);
	assert_true(stats.stray_in[ENDPOINT_STRAY_SHAPE] > 500);
	assert_int_equal(stats.results_in, 0);
	net_close(net);
}

/* Of what a shard may say to a worker, everything is right but the generation. */
static void endpoint__takes_nothing_of_another_generation(void **state)
{
	static const uint8_t types[] = { WIRE_RESULT, WIRE_HELD, WIRE_NEED };
	struct net *net = net_open(2, 0, seed_of_run());
	int32_t data[LANES] = { 1, -2, 3 };
	struct endpoint_op op = op_of_type(LANES_INT32, 0, data, LANES);
	struct endpoint *endpoint = net->endpoints[0];
	struct endpoint_stats stats;

	(void)state;
	assert_int_equal(endpoint_submit(endpoint, &op), 0);
	while (endpoint_poll(endpoint))
		;
	for (size_t i = 0; i < sizeof(types); i++) {
		const struct worker *worker = endpoint_worker(endpoint);
		const struct worker_slot *slot = &worker->slot[0];
		bool has_lanes = types[i] == WIRE_RESULT;
		struct wire packet = { .type = types[i],
				       .flags = has_lanes ? slot->flags : 0,
				       .generation = GENERATION + 1,
				       .seq = slot->seq,
				       .lanes = has_lanes ? slot->lanes : 0,
				       .tag = has_lanes ? slot->tag : 0 };
		uint8_t bytes[PACKET_BYTES] = { 0 };

		assert_int_equal(slot->state, WORKER_OUTSTANDING);
		wire_put(bytes, &packet);
		queue_put(net, 0, bytes, wire_bytes(packet.lanes));
		while (endpoint_poll(endpoint))
			;
	}
	endpoint_stats(endpoint, &stats);
	assert_int_equal(stats.bad_in, sizeof(types));
	assert_int_equal(stats.stray_in[ENDPOINT_STRAY_GENERATION], sizeof(types));
	assert_int_equal(stats.results_in + stats.results_ignored + stats.held_in + stats.need_in,
			 0);
	assert_int_equal(endpoint_fault(endpoint), ENDPOINT_OK);
	net_close(net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(endpoint__sums_int32_exactly),
		cmocka_unit_test(endpoint__sums_int32_exactly_under_loss),
		cmocka_unit_test(endpoint__has_as_many_operations_as_it_was_opened_for),
		cmocka_unit_test(endpoint__says_no_exponent_of_whole_numbers),
		cmocka_unit_test(endpoint__sum_and_average_of_one_are_itself_bit_for_bit),
		cmocka_unit_test(endpoint__begins_what_is_urgent_and_leaves_the_rest),
		cmocka_unit_test(endpoint__begins_one_message_while_others_want_it),
		cmocka_unit_test(endpoint__counts_the_bytes_that_come),
		cmocka_unit_test(endpoint__keeps_what_the_link_has_no_room_for),
		cmocka_unit_test(endpoint__sends_each_packet_that_waits_for_room_once),
		cmocka_unit_test(endpoint__copy_that_is_asked_for_does_not_wait_for_the_window),
		cmocka_unit_test(endpoint__sums_floats_of_mixed_operations_within_the_bound),
		cmocka_unit_test(endpoint__gives_back_inf_nan_and_saturates),
		cmocka_unit_test(endpoint__another_count_on_one_rank_is_a_mismatch),
		cmocka_unit_test(endpoint__gives_the_same_bits_whatever_the_thread_has_set),
		cmocka_unit_test(endpoint__takes_nothing_of_another_generation),
		cmocka_unit_test(endpoint__garbage_is_counted_and_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
