/* SPDX-License-Identifier: Apache-2.0 */
/* late_test.c - what takes too long: when it is looked at, what it is called, and whom that is told. The
 * communicator is a struct, and time, endpoint and machines are the test's. */
#include "lib/seat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/background.h"
#include "lib/paths.h"

enum { OPS_MAX = 4, EVENTS_MAX = 16 };

static const uint64_t ms_ns = 1000000, begin_ns = 100000000000;

static struct {
	struct tally_comm comm;
	struct membership membership;
	struct codec codec;
	struct tally_work works[3];
	struct {
		struct worker worker;
		struct worker_op_state ops[OPS_MAX];
	} its;
	uint64_t now_ns, progress_ns, welcomed_ns[4], knocks[4];
	bool is_path_lost;
	struct endpoint_path path;
	uint32_t shards_just_lost; /* others, whose aggregator TCP says too little of */
	uint32_t kicks;
	uint32_t events_count;
	struct {
		const struct seat *seat;
		struct member_event event;
		char text[CONTROL_TEXT_BYTES];
	} events[EVENTS_MAX];
} test;

/* Any place will do. */
static struct endpoint *endpoint(void)
{
	return (struct endpoint *)(void *)&test.its;
}

const struct worker *__wrap_endpoint_worker(const struct endpoint *its);
uint64_t __wrap_endpoint_progress_ns(const struct endpoint *its);
uint64_t __wrap_endpoint_welcomed_ns(const struct endpoint *its, uint32_t shard);
void __wrap_endpoint_knock(struct endpoint *its, uint32_t shard);
bool __wrap_endpoint_path_lost(struct endpoint *its, uint32_t shard, uint64_t now_ns,
			       struct endpoint_path *path);
void __wrap_paths_say_lost(const struct tally_comm *comm, const struct endpoint_path *path,
			   uint64_t for_ns, char text[CONTROL_TEXT_BYTES]);
void __wrap_membership_do(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			  struct member_event *event);
void __wrap_wake_background(void);

const struct worker *__wrap_endpoint_worker(const struct endpoint *its)
{
	assert_ptr_equal(its, endpoint());
	return &test.its.worker;
}

uint64_t __wrap_endpoint_progress_ns(const struct endpoint *its)
{
	assert_ptr_equal(its, endpoint());
	return test.progress_ns;
}

uint64_t __wrap_endpoint_welcomed_ns(const struct endpoint *its, uint32_t shard)
{
	assert_ptr_equal(its, endpoint());
	return test.welcomed_ns[shard];
}

void __wrap_endpoint_knock(struct endpoint *its, uint32_t shard)
{
	assert_ptr_equal(its, endpoint());
	test.knocks[shard]++;
}

bool __wrap_endpoint_path_lost(struct endpoint *its, uint32_t shard, uint64_t now_ns,
			       struct endpoint_path *path)
{
	assert_ptr_equal(its, endpoint());
	assert_true(now_ns == test.now_ns);
	*path = test.path;
	if (shard == test.path.shard)
		return test.is_path_lost;
	*path = (struct endpoint_path){ .shard = shard, .since_ns = now_ns };
	return test.shards_just_lost >> shard & 1;
}

void __wrap_paths_say_lost(const struct tally_comm *comm, const struct endpoint_path *path,
			   uint64_t for_ns, char text[CONTROL_TEXT_BYTES])
{
	assert_ptr_equal(comm, &test.comm);
	assert_true(for_ns == test.now_ns - path->since_ns);
	snprintf(text, CONTROL_TEXT_BYTES, "shard %u", path->shard);
}

void __wrap_membership_do(struct tally_comm *comm, struct seat *seat, struct codec *codec,
			  struct member_event *event)
{
	assert_ptr_equal(comm, &test.comm);
	assert_ptr_equal(codec, &test.codec);
	assert_true(event->now_ns == test.now_ns);
	assert_true(test.events_count < EVENTS_MAX);
	test.events[test.events_count].seat = seat;
	test.events[test.events_count].event = *event;
	if (event->text)
		strcpy(test.events[test.events_count].text, event->text);
	test.events_count++;
}

void __wrap_wake_background(void)
{
	test.kicks++;
}

/* Three aggregators, of 1, 2 and 1 shards, from which a HEARTBEAT has just come: they are due each 2 s. */
static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	pthread_mutex_init(&test.comm.lock, NULL);
	test.now_ns = begin_ns;
	test.comm.endpoint = endpoint();
	test.comm.membership = &test.membership;
	atomic_store(&test.comm.deadline_ns, UINT64_MAX);
	test.its.worker.ops_max = OPS_MAX;
	for (uint32_t i = 0; i < MAP_STREAMS; i++)
		test.its.worker.stream[i].ops = test.its.ops;
	test.membership.seats_count = 3;
	test.membership.patience.number = UINT64_MAX;
	for (uint32_t i = 0; i < 3; i++) {
		struct seat *seat = &test.membership.seats[i];

		seat->shards_first = i == 2 ? 3 : i;
		seat->shards_count = i == 1 ? 2 : 1;
		seat->member.state = MEMBER_RUN;
		seat->member.heartbeat_ns = 10000 * ms_ns;
		seat->member.spoke_ns = begin_ns;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pthread_mutex_destroy(&test.comm.lock);
	return 0;
}

static void outstanding(uint32_t i, uint64_t number, uint64_t submitted_ns)
{
	test.works[i].op.number = number;
	test.works[i].op.stream = MAP_BULK;
	test.works[i].submitted_ns = submitted_ns;
	work_append(&test.comm.outstanding, &test.works[i]);
}

static void look(uint64_t at_ns)
{
	test.now_ns = at_ns;
	for (uint32_t i = 0; i < 3; i++)
		test.membership.seats[i].member.spoke_ns = at_ns;
	test.events_count = 0;
	late_look(&test.comm, &test.codec, at_ns);
}

static void assert_stalled(uint64_t number, uint32_t waited_ms, uint32_t still_ms)
{
	assert_int_equal(test.events_count, 1);
	assert_ptr_equal(test.events[0].seat, &test.membership.seats[0]);
	assert_int_equal(test.events[0].event.type, MEMBER_STALLED);
	assert_int_equal(test.events[0].event.number, number);
	assert_int_equal(test.events[0].event.waited_ms, waited_ms);
	assert_int_equal(test.events[0].event.still_ms, still_ms);
}

/* ---- operations ---- */

static void stall__is_said_after_half_a_second_and_then_each_second(void **state)
{
	uint64_t from_ns = begin_ns + 7 * ms_ns;

	(void)state;
	outstanding(0, 41, from_ns);
	outstanding(1, 42, begin_ns - 1);
	look(from_ns);
	assert_int_equal(test.events_count, 0);
	assert_true(test.membership.look_ns == from_ns + 250 * ms_ns);
	look(from_ns + 500 * ms_ns - 1);
	assert_int_equal(test.events_count, 0);
	look(from_ns + 500 * ms_ns);
	assert_stalled(41, 500, 500);
	look(from_ns + 1500 * ms_ns - 1);
	assert_int_equal(test.events_count, 0);
	look(from_ns + 1500 * ms_ns);
	assert_stalled(41, 1500, 1500);
	work_remove(&test.comm.outstanding, &test.works[0]); /* the next is the oldest now */
	look(from_ns + 2500 * ms_ns);
	assert_stalled(42, 2507, 2507);
	work_remove(&test.comm.outstanding, &test.works[1]);
	look(from_ns + 4000 * ms_ns);
	assert_int_equal(test.events_count, 0);
}

/* Who is stopped among several aggregators is named for that: it is no standstill that nothing explains. */
static void stall__counts_anew_while_an_aggregator_is_quiet(void **state)
{
	struct membership *membership = &test.membership;

	(void)state;
	outstanding(0, 41, begin_ns);
	look(begin_ns + 4000 * ms_ns);
	assert_stalled(41, 4000, 4000);
	membership->seats[2].member.spoke_ns = begin_ns + 1000 * ms_ns;
	test.events_count = 0;
	late_look(&test.comm, &test.codec, test.now_ns = begin_ns + 5000 * ms_ns);
	assert_stalled(41, 5000, 5000); /* two beats of 2 s */
	for (uint32_t i = 0; i < 2; i++)
		membership->seats[i].member.spoke_ns = begin_ns + 6000 * ms_ns;
	test.events_count = 0;
	late_look(&test.comm, &test.codec, test.now_ns = begin_ns + 6000 * ms_ns);
	assert_stalled(41, 6000, 0);
	membership->seats[2].member.state = MEMBER_LEFT;
	test.events_count = 0;
	late_look(&test.comm, &test.codec, test.now_ns = begin_ns + 7000 * ms_ns);
	assert_stalled(41, 7000, 7000);
}

/* Seldom words put a standstill off, but not for ever. */
static void stall__counts_in_full_after_three_silences(void **state)
{
	uint64_t limit_ns = 3 * 14000 * ms_ns;

	(void)state;
	outstanding(0, 41, begin_ns);
	look(begin_ns + limit_ns - 2000 * ms_ns);
	for (uint32_t late = 0; late < 2; late++) {
		uint64_t at_ns = begin_ns + limit_ns - 1000 * ms_ns + late * 1000 * ms_ns;

		for (uint32_t i = 0; i < 3; i++)
			test.membership.seats[i].member.spoke_ns = at_ns - 5000 * ms_ns;
		test.events_count = 0;
		late_look(&test.comm, &test.codec, test.now_ns = at_ns);
		assert_stalled(41, late ? 42000 : 41000, late ? 42000 : 0);
	}
}

static void stall__is_none_while_the_operation_or_the_endpoint_gets_on(void **state)
{
	uint64_t at_ns = begin_ns;

	(void)state;
	outstanding(0, 41, begin_ns);
	test.its.worker.stream[MAP_BULK].head = 6; /* of 4 places: the third */
	test.its.worker.stream[MAP_BULK].tail = 7;
	for (uint32_t i = 0; i < 5; i++, at_ns += 400 * ms_ns) {
		test.its.ops[2].done = 10 + i;
		look(at_ns);
		assert_int_equal(test.events_count, 0);
	}
	look(at_ns - 400 * ms_ns + 500 * ms_ns);
	assert_stalled(41, 2100, 500);
	/* Somewhere something has come since. */
	test.progress_ns = begin_ns + 3000 * ms_ns;
	look(begin_ns + 3200 * ms_ns);
	assert_stalled(41, 3200, 200);
	/* A new one begins when the endpoint has last got on. */
	work_remove(&test.comm.outstanding, &test.works[0]);
	outstanding(1, 42, begin_ns);
	test.progress_ns = begin_ns + 5000 * ms_ns;
	look(begin_ns + 5499 * ms_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 5500 * ms_ns);
	assert_stalled(42, 5500, 500);
}

static void stall__is_none_of_what_is_broken_or_does_not_run_yet(void **state)
{
	(void)state;
	outstanding(0, 41, begin_ns);
	test.membership.seats[0].member.state = MEMBER_READY;
	look(begin_ns + 9000 * ms_ns);
	assert_int_equal(test.events_count, 0);
	test.membership.seats[0].member.state = MEMBER_RUN;
	atomic_store(&test.comm.error, TALLY_ERR_REMOTE);
	look(begin_ns + 9500 * ms_ns);
	assert_int_equal(test.events_count, 0);
	atomic_store(&test.comm.error, 0);
	/* Another thread's clock may be ahead. */
	test.works[0].submitted_ns = begin_ns + 20000 * ms_ns;
	look(begin_ns + 10000 * ms_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 20000 * ms_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 20500 * ms_ns);
	assert_stalled(41, 500, 500);
}

/* ---- deadlines ---- */

static void expire(uint64_t at_ns)
{
	test.now_ns = at_ns;
	test.events_count = 0;
	late_expire(&test.comm, &test.codec, at_ns);
}

static void deadline__is_the_first_of_all_and_wakes_who_sleeps(void **state)
{
	(void)state;
	test.works[0].submitted_ns = begin_ns;
	test.works[0].deadline_ms = 3000;
	work_deadline_set(&test.comm, &test.works[0]);
	assert_true(test.works[0].deadline_ns == begin_ns + 3000 * ms_ns);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 3000 * ms_ns);
	assert_int_equal(test.kicks, 1);
	test.works[1].submitted_ns = begin_ns + 1000 * ms_ns;
	test.works[1].deadline_ms = 2000; /* no sooner */
	work_deadline_set(&test.comm, &test.works[1]);
	assert_true(test.works[1].deadline_ns == begin_ns + 3000 * ms_ns);
	assert_int_equal(test.kicks, 1);
	test.works[2].submitted_ns = begin_ns + 999 * ms_ns;
	test.works[2].deadline_ms = 2000;
	work_deadline_set(&test.comm, &test.works[2]);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 2999 * ms_ns);
	assert_int_equal(test.kicks, 2);
}

static void deadline__that_is_over_is_said_of_the_oldest_each_second(void **state)
{
	(void)state;
	outstanding(0, 50, begin_ns); /* has none */
	outstanding(1, 51, begin_ns + 10 * ms_ns);
	outstanding(2, 52, begin_ns + 20 * ms_ns);
	test.works[1].deadline_ns = begin_ns + 300 * ms_ns;
	test.works[2].deadline_ns = begin_ns + 200 * ms_ns;
	expire(begin_ns + 100 * ms_ns);
	assert_int_equal(test.events_count, 0);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 200 * ms_ns);
	expire(begin_ns + 200 * ms_ns);
	assert_int_equal(test.events_count, 1);
	assert_ptr_equal(test.events[0].seat, &test.membership.seats[0]);
	assert_int_equal(test.events[0].event.type, MEMBER_EXPIRED);
	assert_int_equal(test.events[0].event.number, 52);
	assert_int_equal(test.events[0].event.waited_ms, 180);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 300 * ms_ns);
	expire(begin_ns + 300 * ms_ns);
	assert_int_equal(test.events_count, 1);
	assert_int_equal(test.events[0].event.number, 51);
	assert_int_equal(test.events[0].event.waited_ms, 290);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 1300 * ms_ns);
	expire(begin_ns + 1300 * ms_ns - 1);
	assert_int_equal(test.events_count, 0);
	assert_true(atomic_load(&test.comm.deadline_ns) == begin_ns + 1300 * ms_ns);
	expire(begin_ns + 1300 * ms_ns);
	assert_int_equal(test.events_count, 1);
	assert_int_equal(test.events[0].event.number, 51);
	assert_int_equal(test.events[0].event.waited_ms, 1290);
	work_remove(&test.comm.outstanding, &test.works[1]);
	work_remove(&test.comm.outstanding, &test.works[2]);
	expire(begin_ns + 2400 * ms_ns);
	assert_int_equal(test.events_count, 0);
	assert_true(atomic_load(&test.comm.deadline_ns) == UINT64_MAX);
}

/* 32 bits of milliseconds are seven weeks; another thread's clock may be ahead. */
static void deadline__has_waited_for_no_more_than_a_number_holds(void **state)
{
	static const uint64_t waits_ms[][2] = { { 4294967294, 4294967294 },
						{ 4294967295, 4294967295 },
						{ 4294967296, 4294967295 },
						{ 9294967296, 4294967295 } };

	(void)state;
	outstanding(0, 50, begin_ns);
	test.works[0].deadline_ns = 1;
	expire(begin_ns - 5);
	assert_int_equal(test.events_count, 1);
	assert_int_equal(test.events[0].event.waited_ms, 0);
	for (size_t i = 0; i < sizeof(waits_ms) / sizeof(waits_ms[0]); i++) {
		test.membership.expiry = (struct expiry){ 0 };
		expire(begin_ns + waits_ms[i][0] * ms_ns);
		assert_int_equal(test.events_count, 1);
		assert_int_equal(test.events[0].event.waited_ms, waits_ms[i][1]);
	}
}

/* ---- an aggregator that is silent ---- */

static void silent_look(uint32_t idx, uint64_t at_ns, uint64_t spoke_ns)
{
	test.now_ns = at_ns;
	test.events_count = 0;
	memset(test.knocks, 0, sizeof(test.knocks));
	for (uint32_t i = 0; i < 3; i++)
		test.membership.seats[i].member.spoke_ns = i == idx ? spoke_ns : at_ns;
	late_look(&test.comm, &test.codec, at_ns);
}

static void silence__of_two_heartbeats_is_knocked_at(void **state)
{
	uint64_t at_ns = begin_ns + 4000 * ms_ns;

	(void)state;
	silent_look(1, at_ns, begin_ns);
	assert_int_equal(test.knocks[0] + test.knocks[1] + test.knocks[2] + test.knocks[3], 0);
	assert_false(test.comm.is_knocking);
	silent_look(1, at_ns + 1, begin_ns);
	assert_true(test.comm.is_knocking);
	assert_int_equal(test.knocks[0], 0);
	assert_int_equal(test.knocks[1], 1);
	assert_int_equal(test.knocks[2], 1);
	assert_int_equal(test.knocks[3], 0);
	/* It is heard again: what is on its way there may still wait, as long as it was silent. */
	silent_look(1, at_ns + 4000 * ms_ns + 1, at_ns + 4000 * ms_ns);
	assert_int_equal(test.knocks[1], 1);
	silent_look(1, at_ns + 4000 * ms_ns + 2, at_ns + 4000 * ms_ns);
	assert_int_equal(test.knocks[1], 0);
	assert_false(test.comm.is_knocking);
}

static void silence__is_knocked_at_by_who_may_and_where_there_are_paths(void **state)
{
	uint64_t at_ns = begin_ns + 9000 * ms_ns;

	(void)state;
	test.comm.is_driven = true; /* a thread drives, and watches the path */
	silent_look(2, at_ns, begin_ns);
	assert_int_equal(test.knocks[3], 0);
	assert_true(test.comm.is_knocking);
	test.comm.is_driven = false;
	test.membership.seats[2].member.state = MEMBER_JOINING;
	silent_look(2, at_ns, begin_ns);
	assert_int_equal(test.knocks[3], 0);
	test.membership.seats[2].member.state = MEMBER_LEAVING;
	silent_look(2, at_ns, begin_ns);
	assert_int_equal(test.knocks[3], 1);
	test.membership.seats[2].member.state = MEMBER_READY;
	silent_look(2, at_ns, begin_ns);
	assert_int_equal(test.knocks[3], 1);
	/* Of a short heartbeat time a fifth, twice. */
	test.membership.seats[2].member.heartbeat_ns = 500 * ms_ns;
	test.membership.seats[2].knock_until_ns = 0;
	silent_look(2, at_ns, at_ns - 200 * ms_ns);
	assert_int_equal(test.knocks[3], 0);
	silent_look(2, at_ns, at_ns - 200 * ms_ns - 1);
	assert_int_equal(test.knocks[3], 1);
}

static void silence__ends_with_a_welcome_which_is_told_once(void **state)
{
	(void)state;
	test.welcomed_ns[1] = 5;
	test.welcomed_ns[2] = 9;
	silent_look(3, begin_ns, begin_ns);
	assert_int_equal(test.events_count, 1);
	assert_ptr_equal(test.events[0].seat, &test.membership.seats[1]);
	assert_int_equal(test.events[0].event.type, MEMBER_WELCOME);
	assert_int_equal(test.events[0].event.lanes, WIRE_HELLO_LANES);
	assert_true(test.membership.seats[1].welcomed_ns == 9);
	test.welcomed_ns[1] = 8;
	silent_look(3, begin_ns, begin_ns);
	assert_int_equal(test.events_count, 0);
	test.welcomed_ns[1] = 10;
	silent_look(3, begin_ns, begin_ns);
	assert_int_equal(test.events_count, 1);
}

/* ---- paths ---- */

static void path__that_carries_only_short_packets_is_lost_at_once(void **state)
{
	(void)state;
	test.is_path_lost = true;
	for (uint32_t shard = 0; shard < 4; shard++) {
		static const uint32_t seats[] = { 0, 1, 1, 2 };

		test.path = (struct endpoint_path){ .shard = shard, .is_short_heard = true };
		look(begin_ns);
		assert_int_equal(test.events_count, 1);
		assert_ptr_equal(test.events[0].seat, &test.membership.seats[seats[shard]]);
		assert_int_equal(test.events[0].event.type, MEMBER_ERROR);
		assert_int_equal(test.events[0].event.cause, CONTROL_SYSTEM);
		assert_int_equal(test.events[0].text[6], '0' + (int)shard);
	}
	/* Of others it cannot be said yet. */
	test.shards_just_lost = 7;
	look(begin_ns);
	assert_int_equal(test.events_count, 1);
	assert_int_equal(test.events[0].text[6], '3');
	test.is_path_lost = false;
	look(begin_ns);
	assert_int_equal(test.events_count, 0);
}

static void path__is_lost_if_tcp_has_worked_for_as_long(void **state)
{
	(void)state;
	test.is_path_lost = true;
	test.path = (struct endpoint_path){ .shard = 3, .since_ns = begin_ns + 1000 * ms_ns };
	look(begin_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 11000 * ms_ns);
	assert_int_equal(test.events_count, 1);
	assert_ptr_equal(test.events[0].seat, &test.membership.seats[2]);
	/* A word over TCP was late: from the next on it counts anew. */
	silent_look(2, begin_ns + 13500 * ms_ns, begin_ns + 11000 * ms_ns);
	assert_int_equal(test.events_count, 1);
	silent_look(2, begin_ns + 13500 * ms_ns + 1, begin_ns + 11000 * ms_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 13600 * ms_ns);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 16100 * ms_ns - 1);
	assert_int_equal(test.events_count, 0);
	look(begin_ns + 16100 * ms_ns);
	assert_int_equal(test.events_count, 1);
}

/* A thread that gets no processor for seconds is no firewall. */
static void path__is_lost_after_the_heartbeat_time_but_not_below_5_s_nor_above_10_s(void **state)
{
	static const uint64_t heartbeat_ms[] = { 1000, 7000, 60000 },
			      lost_ms[] = { 5000, 7000, 10000 };

	(void)state;
	test.is_path_lost = true;
	for (uint32_t i = 0; i < 3; i++) {
		test.membership.seats[2].member.heartbeat_ns = heartbeat_ms[i] * ms_ns;
		test.path = (struct endpoint_path){ .shard = 3, .since_ns = begin_ns };
		look(begin_ns);
		look(begin_ns + lost_ms[i] * ms_ns - 1);
		assert_int_equal(test.events_count, 0);
		look(begin_ns + lost_ms[i] * ms_ns);
		assert_int_equal(test.events_count, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(claim, setup, teardown)
		T(stall__is_said_after_half_a_second_and_then_each_second),
		T(stall__counts_anew_while_an_aggregator_is_quiet),
		T(stall__counts_in_full_after_three_silences),
		T(stall__is_none_while_the_operation_or_the_endpoint_gets_on),
		T(stall__is_none_of_what_is_broken_or_does_not_run_yet),
		T(deadline__is_the_first_of_all_and_wakes_who_sleeps),
		T(deadline__that_is_over_is_said_of_the_oldest_each_second),
		T(deadline__has_waited_for_no_more_than_a_number_holds),
		T(silence__of_two_heartbeats_is_knocked_at),
		T(silence__is_knocked_at_by_who_may_and_where_there_are_paths),
		T(silence__ends_with_a_welcome_which_is_told_once),
		T(path__that_carries_only_short_packets_is_lost_at_once),
		T(path__is_lost_if_tcp_has_worked_for_as_long),
		T(path__is_lost_after_the_heartbeat_time_but_not_below_5_s_nor_above_10_s),
#undef T
	};

	return cmocka_run_group_tests_name("lib-late", tests, NULL, NULL);
}
