/* SPDX-License-Identifier: Apache-2.0 */
/* engine_told_test.c - what an engine has told its owner: of each job and kind once until it is fetched, and nothing of
 * a life that is over. */
#include "dataplane/engine_fixture.h"

enum { OTHER = 8, OTHER_HOST = 20, EVENTS_MAX = 1024 };

static int setup_two(void **state)
{
	if (setup(state))
		return -1;
	job_open(OTHER, 2, LANES, false);
	for (uint16_t child = 0; child < 2; child++) {
		struct link_address address = address_of(OTHER_HOST + child);

		assert_int_equal(engine_child_bind(engine, OTHER, child, &address), 0);
	}
	return 0;
}

static uint32_t host_of(uint16_t job, uint32_t child)
{
	return job == OTHER ? OTHER_HOST + child : child;
}

static struct wire update_in(uint16_t job, uint32_t generation, uint16_t slot)
{
	struct wire packet = update_of(0, slot, 1);

	packet.job = job;
	packet.generation = generation;
	return packet;
}

static void give_as(struct wire *packet, uint16_t child)
{
	packet->child = child;
	give(host_of(packet->job, child), packet);
}

/* Child 1 of the job is in another round of `slot` than child 0. */
static void cause_mismatch(uint16_t job, uint32_t generation, uint16_t slot)
{
	struct wire packet = update_in(job, generation, slot);

	give_as(&packet, 0);
	packet.tag++;
	give_as(&packet, 1);
	poll_once();
}

/* Child 1 has no result of `slot` yet and goes on. */
static void cause_alarm(uint16_t job, uint32_t generation, uint16_t slot)
{
	struct wire packet = update_in(job, generation, slot);

	give_as(&packet, 1);
	packet.seq = 2;
	give_as(&packet, 1);
	poll_once();
}

/* Child 1's path takes no result. */
static void cause_too_large(uint16_t job, uint32_t generation, uint16_t slot)
{
	struct wire packet = update_in(job, generation, slot);

	give_as(&packet, 0);
	give_as(&packet, 1);
	fake.is_narrow = true;
	poll_once();
	fake.is_narrow = false;
}

static const struct {
	void (*cause)(uint16_t job, uint32_t generation, uint16_t slot);
	enum engine_event_type type;
} kinds[] = { { cause_mismatch, ENGINE_MISMATCH },
	      { cause_alarm, ENGINE_ALARM },
	      { cause_too_large, ENGINE_TOO_LARGE } };

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* What waits to be fetched is exactly this. */
static void assert_told(const enum engine_event_type *types, uint32_t count, uint16_t job)
{
	struct engine_event events[8];

	assert_int_equal(events_but_misfits(events, 8), count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(events[i].type, types[i]);
		assert_int_equal(events[i].job, job);
		assert_int_equal(events[i].child, 1);
	}
}

static void engine_told__each_kind_is_told_again_when_it_was_fetched(void **state)
{
	static const enum engine_event_type all[] = { ENGINE_MISMATCH, ENGINE_ALARM,
						      ENGINE_TOO_LARGE };

	(void)state;
	for (uint16_t turn = 0; turn < 3; turn++) {
		for (uint16_t again = 0; again < 2; again++)
			for (uint16_t kind = 0; kind < KINDS; kind++)
				kinds[kind].cause(JOB, GENERATION,
						  (uint16_t)(8 * turn + 4 * again + kind));
		assert_told(all, KINDS, JOB);
	}
}

/* Of three that wait the first is fetched: the others wait still, and are not told twice. */
static void engine_told__what_still_waits_is_not_told_again(void **state)
{
	struct engine_event event = { .type = ENGINE_MISFIT };

	(void)state;
	for (uint16_t first = 0; first < KINDS; first++) {
		enum engine_event_type waiting[KINDS];
		uint16_t slot = (uint16_t)(8 * first);

		for (uint16_t k = 0; k < KINDS; k++)
			kinds[(first + k) % KINDS].cause(JOB, GENERATION, (uint16_t)(slot + k));
		assert_int_equal(events_but_misfits(&event, 1), 1);
		assert_int_equal(event.type, kinds[first].type);
		for (uint16_t k = 0; k < KINDS; k++) {
			kinds[(first + k) % KINDS].cause(JOB, GENERATION, (uint16_t)(slot + 4 + k));
			waiting[k] = kinds[(first + k + 1) % KINDS].type;
		}
		assert_told(waiting, KINDS, JOB); /* the one that was fetched, as the last */
	}
}

/* A new life hears nothing of the old one, is told its own, and other jobs' stay. */
static void engine_told__of_an_older_life_is_forgotten_and_told_anew(void **state)
{
	(void)state;
	for (uint16_t kind = 0; kind < KINDS; kind++) {
		uint32_t generation = GENERATION + 2u * kind; /* of the first of three lives */

		cause_mismatch(OTHER, GENERATION, kind);
		kinds[kind].cause(JOB, generation, kind);
		assert_int_equal(engine_job_set(engine, JOB, generation + 1, LANES, true), 0);
		assert_told(&kinds[0].type, 1, OTHER);
		kinds[kind].cause(JOB, generation + 1, (uint16_t)(8 + kind));
		assert_int_equal(engine_job_set(engine, JOB, generation + 2, LANES, true), 0);
		kinds[kind].cause(JOB, generation + 2, (uint16_t)(16 + kind));
		assert_told(&kinds[kind].type, 1, JOB);
	}
}

/* Nobody could be told: it is when there is room. */
static void engine_told__without_room_is_told_later(void **state)
{
	struct engine_event event;
	uint32_t lost;

	(void)state;
	for (uint32_t serial = 1; serial <= EVENTS_MAX; serial++)
		assert_int_equal(hello_from(100 + serial % 2, serial), 1);
	assert_int_equal(engine_stats(engine)->events_lost, 0);
	cause_mismatch(OTHER, GENERATION, 0);
	lost = (uint32_t)engine_stats(engine)->events_lost;
	assert_true(lost >= 1);
	for (uint32_t serial = 1; serial <= EVENTS_MAX; serial++) {
		assert_int_equal(engine_events(engine, &event, 1), 1);
		assert_int_equal(event.type, ENGINE_HELLO);
		assert_int_equal(event.seq, serial);
	}
	assert_int_equal(engine_events(engine, &event, 1), 0);
	cause_mismatch(OTHER, GENERATION, 1);
	assert_told(&kinds[0].type, 1, OTHER);
	assert_int_equal(engine_stats(engine)->events_lost, lost);
}

/* They are kept in a ring, which has come round here several times. */
static void engine_told__in_the_order_in_which_it_happened(void **state)
{
	struct engine_event events[600];
	uint32_t fetched = 0;

	(void)state;
	for (uint32_t serial = 1; serial <= 3000; serial++) {
		uint32_t got;

		assert_int_equal(hello_from(100 + serial % 2, serial), 1);
		if (serial % 500)
			continue;
		got = engine_events(engine, events, serial % 1000 ? 400 : 600);
		assert_int_equal(got, serial % 1000 ? 400 : 600);
		for (uint32_t i = 0; i < got; i++)
			assert_int_equal(events[i].seq, ++fetched);
	}
	assert_int_equal(fetched, 3000);
	assert_int_equal(engine_stats(engine)->events_lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(engine_told__each_kind_is_told_again_when_it_was_fetched, setup_two),
		ENGINE_TEST(engine_told__what_still_waits_is_not_told_again, setup_two),
		ENGINE_TEST(engine_told__of_an_older_life_is_forgotten_and_told_anew, setup_two),
		ENGINE_TEST(engine_told__without_room_is_told_later, setup_two),
		ENGINE_TEST(engine_told__in_the_order_in_which_it_happened, setup_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
