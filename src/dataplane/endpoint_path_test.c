/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_path_test.c - an endpoint whose path changes after the start: what it says of it, and when. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/endpoint.h"

enum { LANES = 16, SLOTS = 24, SHARDS = 2, WELCOMES = 8, JOB = 3, COUNT = 200 };

static const uint64_t ms = 1000000;
static const uint64_t step_ns = 20000000;

/* Two shards that answer HELLOs, or not, and nothing else. */
static struct {
	struct link link;
	struct endpoint *endpoint;
	uint64_t now_ns;
	bool answers_full, answers_short, refuses, says_results;
	uint16_t result_lanes;
	uint32_t hellos, answers;
	uint32_t serial[SHARDS]; /* of the last HELLO */
	uint32_t generation;     /* in the answers */
	uint16_t child;          /* likewise */
	uint16_t port_off;       /* of whom they are from */
	uint8_t welcomes[WELCOMES][WIRE_HEADER_BYTES + LANES * WIRE_LANE_BYTES];
	struct link_frame waiting[WELCOMES];
	uint32_t waiting_count;
} t;

static struct link_address address_of(uint32_t shard)
{
	return (struct link_address){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
				      .port = (uint16_t)(7171 + shard) };
}

static int path_recv(struct link *link, struct link_frame *frames, uint32_t max)
{
	uint32_t count = t.waiting_count;

	(void)link;
	assert_true(count <= max);
	memcpy(frames, t.waiting, count * sizeof(*frames));
	t.waiting_count = 0;
	return (int)count;
}

static void answer(const struct link_frame *frame, const struct wire *hello)
{
	bool is_full = hello->lanes >= LANES;
	struct wire welcome = { .type = WIRE_WELCOME,
				.job = JOB,
				.generation = t.generation,
				.seq = hello->seq,
				.child = t.child,
				.lanes = hello->lanes };
	uint8_t *at = t.welcomes[t.waiting_count];
	uint32_t *serial = &t.serial[frame->peer.port - address_of(0).port];

	/* R-WIRE-8: one that is not later than those before it binds nothing. */
	assert_true(hello->seq > *serial);
	*serial = hello->seq;
	t.hellos++;
	if (!(is_full ? t.answers_full : t.answers_short))
		return;
	assert_true(t.waiting_count < WELCOMES);
	wire_put(at, &welcome);
	memset(at + WIRE_HEADER_BYTES, 0x20, 16); /* the worker's address */
	wire_put16(at + WIRE_HEADER_BYTES + 16, 0x1234);
	t.answers++;
	t.waiting[t.waiting_count++] = (struct link_frame){ .peer = frame->peer,
							    .packet_bytes = frame->bytes,
							    .count = 1,
							    .bytes = frame->bytes,
							    .data = at };
	t.waiting[t.waiting_count - 1].peer.port += t.port_off;
}

static int path_send(struct link *link, const struct link_frame *frames, uint32_t count)
{
	int result = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct wire wire = { 0 };

		if (t.refuses && frames[i].packet_bytes >= WIRE_HEADER_BYTES + 64) {
			link->too_large = address_of(1);
			result = -EMSGSIZE;
			continue;
		}
		assert_int_equal(wire_check(frames[i].data, frames[i].packet_bytes, &wire),
				 WIRE_OK);
		if (wire.type == WIRE_HELLO)
			answer(&frames[i], &wire);
	}
	return result;
}

static uint64_t path_now(struct link *link)
{
	(void)link;
	return t.now_ns;
}

static const struct link_ops path_ops = { .recv = path_recv,
					  .send = path_send,
					  .now_ns = path_now };

static int set_up(void **state)
{
	struct endpoint_shard shards[SHARDS] = {
		{ .address = address_of(0), .generation = 1, .job = JOB },
		{ .address = address_of(1), .generation = 1, .job = JOB },
	};
	struct endpoint_options options = { .link = &t.link,
					    .quant = &quant_scalar,
					    .shards = shards,
					    .shards_count = SHARDS,
					    .workers = 2,
					    .slots = SLOTS,
					    .run = 4,
					    .window = 8 };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.now_ns = 1000 * ms;
	t.generation = 1;
	t.link.ops = &path_ops;
	t.endpoint = endpoint_open(&options);
	return !t.endpoint;
}

static int tear_down(void **state)
{
	(void)state;
	endpoint_close(t.endpoint);
	return 0;
}

static void submit(void)
{
	static int32_t data[COUNT];
	struct endpoint_op op = { .descriptor = { .count = COUNT, .name = "" },
				  .source = data,
				  .destination = data,
				  .count = COUNT,
				  .stream = -1 };

	assert_int_equal(endpoint_submit(t.endpoint, &op), 0);
}

static void begin(void)
{
	assert_int_equal(endpoint_start(t.endpoint, LANES), 0);
	endpoint_poll(t.endpoint);
}

/* Of rounds that are over: it was sent again. */
static void say_results(void)
{
	for (uint32_t shard = 0; shard < SHARDS; shard++) {
		struct wire result = { .type = WIRE_RESULT,
				       .job = JOB,
				       .generation = t.generation,
				       .seq = 77,
				       .lanes = t.result_lanes };
		uint8_t *at = t.welcomes[t.waiting_count];

		memset(at, 0, sizeof(t.welcomes[0]));
		wire_put(at, &result);
		t.waiting[t.waiting_count++] =
			(struct link_frame){ .peer = address_of(shard),
					     .packet_bytes = wire_bytes(t.result_lanes),
					     .count = 1,
					     .bytes = wire_bytes(t.result_lanes),
					     .data = at };
	}
}

static void pass(uint64_t time_ms)
{
	for (uint64_t end_ns = t.now_ns + time_ms * ms; t.now_ns < end_ns; t.now_ns += step_ns) {
		if (t.says_results)
			say_results();
		while (endpoint_poll(t.endpoint))
			;
	}
	assert_int_equal(endpoint_fault(t.endpoint), ENDPOINT_OK);
}

static bool is_lost(struct endpoint_path *path)
{
	bool is_one = false;

	for (uint32_t shard = 0; shard < SHARDS; shard++)
		is_one |= endpoint_path_lost(t.endpoint, shard, t.now_ns, path);
	return is_one;
}

static void path__that_answers_nothing_is_lost_after_5_s(void **state)
{
	struct endpoint_path path = { .shard = 77 };

	(void)state;
	begin();
	submit();
	pass(5000);
	assert_false(is_lost(&path));
	pass(800);
	assert_true(is_lost(&path));
	assert_false(path.is_short_heard);
	assert_in_range(path.since_ns, 1500 * ms, 1600 * ms);
}

static void path__that_answers_short_packets_only_is_lost_after_5_s(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	t.answers_short = true;
	submit();
	pass(5000);
	assert_false(is_lost(&path));
	pass(800);
	assert_true(is_lost(&path));
	assert_true(path.is_short_heard);
}

/* Who has overslept has asked too few times to say so, also if it has asked often before the last answer. */
static void path__asked_few_times_since_its_last_answer_is_not_lost(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	submit();
	pass(3000);
	t.answers_full = true;
	pass(300);
	t.answers_full = false;
	pass(700);
	t.now_ns += 6000 * ms;
	assert_false(is_lost(&path));
	pass(100); /* now it has asked once more */
	assert_false(is_lost(&path));
	pass(1400);
	assert_true(is_lost(&path));
}

/* The thread that asks has no processor, another one judges: what came meanwhile is not read. */
static void path__that_nobody_asks_at_present_is_not_lost(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	submit();
	pass(5800);
	t.now_ns += 800 * ms;
	assert_true(is_lost(&path));
	t.now_ns += 300 * ms;
	assert_false(is_lost(&path));
	pass(200);
	assert_true(is_lost(&path));
}

/* A link that was down is back: a short answer comes, and a full one a little later. */
static void path__that_is_back_may_answer_short_packets_first(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	submit();
	pass(8000);
	assert_true(is_lost(&path)); /* if TCP says so */
	assert_false(path.is_short_heard);
	t.answers_short = true;
	pass(900);
	assert_false(is_lost(&path));
	t.answers_full = true;
	pass(300);
	assert_false(is_lost(&path));
	pass(8000);
	assert_false(is_lost(&path));
}

static void path__knocked_at_tells_when_it_has_answered(void **state)
{
	(void)state;
	begin();
	pass(1000);
	assert_int_equal(endpoint_welcomed_ns(t.endpoint, 1), 0);
	endpoint_knock(t.endpoint, 1);
	pass(100);
	assert_int_equal(endpoint_welcomed_ns(t.endpoint, 1), 0);
	t.answers_short = true;
	endpoint_knock(t.endpoint, 1);
	pass(100);
	assert_in_range(endpoint_welcomed_ns(t.endpoint, 1), 1000 * ms, t.now_ns);
	assert_int_equal(endpoint_welcomed_ns(t.endpoint, 0), 0);
}

static void path__that_answers_full_packets_is_only_waiting(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	t.answers_short = t.answers_full = true;
	submit();
	pass(20000);
	assert_false(is_lost(&path));
	assert_in_range(t.hellos, 40, 400); /* of all kinds, to both shards: no flood */
	t.answers_full = false;
	pass(4000);
	assert_false(is_lost(&path));
	t.answers_full = true; /* it was an outage */
	pass(4000);
	assert_false(is_lost(&path));
}

/* As wide as at the start: nothing has to be asked. */
static void path__that_brings_results_of_full_size_is_alive(void **state)
{
	struct endpoint_path path;
	struct endpoint_stats stats;

	(void)state;
	begin();
	t.says_results = true;
	t.result_lanes = LANES;
	submit();
	pass(20000);
	assert_false(is_lost(&path));
	assert_int_equal(t.hellos, 0);
	endpoint_stats(t.endpoint, &stats);
	assert_true(stats.results_ignored > 100); /* which is not why */
	t.result_lanes = 0;                       /* these would get through where those do not */
	pass(5800);
	assert_true(is_lost(&path));
	assert_in_range(path.since_ns, 21400 * ms, 21600 * ms);
}

/* A full packet is no longer than the shortest HELLO: one is enough. */
static void path__that_is_narrow_is_asked_once_at_a_time(void **state)
{
	(void)state;
	assert_int_equal(endpoint_start(t.endpoint, WIRE_HELLO_LANES), 0);
	submit();
	pass(400);
	t.hellos = 0; /* because nothing at all has come */
	pass(140);
	assert_int_equal(t.hellos, SHARDS);
}

/* The shards know this generation by then: what comes could be taken for answers. */
static void path__brings_no_results_before_the_start(void **state)
{
	struct endpoint_stats stats;

	(void)state;
	say_results();
	endpoint_poll(t.endpoint);
	endpoint_stats(t.endpoint, &stats);
	assert_int_equal(stats.results_ignored + stats.bad_in, 0);
}

/* Everything in the answers is right but `what`. */
static void answers_count_for_nothing(const char *what, enum endpoint_stray why)
{
	struct endpoint_welcome welcome;
	struct endpoint_path path;
	struct endpoint_stats stats;

	print_message("%s\n", what);
	begin();
	t.answers_short = t.answers_full = true;
	submit();
	pass(5800);
	assert_true(is_lost(&path));
	assert_false(path.is_short_heard);
	assert_int_equal(endpoint_welcomes(t.endpoint, &welcome, 1), 0);
	endpoint_stats(t.endpoint, &stats);
	assert_in_range(t.answers, 20, 400);
	assert_int_equal(stats.bad_in, t.answers);
	assert_int_equal(stats.stray_in[why], t.answers);
	assert_in_range(stats.stray_from[why].port, address_of(0).port + t.port_off,
			address_of(SHARDS - 1).port + t.port_off);
}

static uint32_t welcomes_of(uint16_t child, struct endpoint_welcome *welcome)
{
	begin();
	t.child = child;
	t.answers_short = t.answers_full = true;
	submit();
	pass(5800);
	assert_in_range(t.answers, 1, 400);
	return endpoint_welcomes(t.endpoint, welcome, 1);
}

static void welcome__says_how_the_shard_sees_this_worker(void **state)
{
	struct endpoint_welcome welcome;

	(void)state;
	assert_int_equal(welcomes_of(0, &welcome), 1);
	for (int i = 0; i < 16; i++)
		assert_int_equal(welcome.seen.ip[i], 0x20);
	assert_int_equal(welcome.seen.port, 0x1234);
	assert_true(welcome.lanes >= WIRE_HELLO_LANES);
	assert_true(welcome.shard < SHARDS);
}

static void welcome__for_another_child_is_none(void **state)
{
	struct endpoint_welcome welcome;

	(void)state;
	assert_int_equal(welcomes_of(1, &welcome), 0);
}

/* A WELCOME proves a path: without the generation a blind sender has but to find a port. */
static void path__is_not_shown_by_a_welcome_of_another_generation(void **state)
{
	(void)state;
	t.generation = 2;
	answers_count_for_nothing("generation", ENDPOINT_STRAY_GENERATION);
}

static void path__is_not_shown_by_a_welcome_from_elsewhere(void **state)
{
	(void)state;
	t.port_off = 7;
	answers_count_for_nothing("address", ENDPOINT_STRAY_ADDRESS);
}

static void path__of_an_idle_endpoint_is_not_watched(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	pass(20000);
	assert_int_equal(t.hellos, 0);
	assert_false(is_lost(&path));
	submit();
	pass(400);
	assert_false(is_lost(&path));
}

static void path__is_not_lost_because_we_have_overslept(void **state)
{
	struct endpoint_path path;

	(void)state;
	begin();
	submit();
	pass(700);
	t.now_ns += 60000 * ms;
	assert_false(is_lost(&path));
	t.answers_full = t.answers_short = true;
	pass(300);
	assert_false(is_lost(&path));
}

static void path__that_takes_no_such_packet_is_named(void **state)
{
	(void)state;
	begin();
	t.refuses = true;
	submit();
	while (endpoint_poll(t.endpoint))
		;
	assert_int_equal(endpoint_fault(t.endpoint), ENDPOINT_TOO_LARGE);
	assert_int_equal(endpoint_fault_shard(t.endpoint), 1);
	assert_int_equal(endpoint_address(t.endpoint, 1)->port, 7172);
}

/* Before the start a HELLO finds out, and member says it. */
static void path__too_narrow_for_a_hello_is_no_fault(void **state)
{
	(void)state;
	t.refuses = true;
	endpoint_hello(t.endpoint, 0, 1, LANES * 2);
	endpoint_poll(t.endpoint);
	assert_int_equal(endpoint_fault(t.endpoint), ENDPOINT_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(welcome__says_how_the_shard_sees_this_worker,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(welcome__for_another_child_is_none, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(path__that_answers_nothing_is_lost_after_5_s,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			path__that_answers_short_packets_only_is_lost_after_5_s, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			path__asked_few_times_since_its_last_answer_is_not_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__that_nobody_asks_at_present_is_not_lost,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__that_is_back_may_answer_short_packets_first,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__knocked_at_tells_when_it_has_answered, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(path__that_answers_full_packets_is_only_waiting,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__that_brings_results_of_full_size_is_alive,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__that_is_narrow_is_asked_once_at_a_time,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__brings_no_results_before_the_start, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			path__is_not_shown_by_a_welcome_of_another_generation, set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__is_not_shown_by_a_welcome_from_elsewhere,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(path__of_an_idle_endpoint_is_not_watched, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(path__is_not_lost_because_we_have_overslept, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(path__that_takes_no_such_packet_is_named, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(path__too_narrow_for_a_hello_is_no_fault, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("endpoint-path", tests, NULL, NULL);
}
