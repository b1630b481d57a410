/* SPDX-License-Identifier: Apache-2.0 */
/* engine_hook_test.c - an engine some of whose slots are in a hook, which is played here: what it is told, what it is asked,
 * and that its answers go out like others. */
#include "dataplane/engine_fixture.h"

#include <errno.h>

#include "core/latency/switch_latency.h"
#include "dataplane/hook.h"

static struct {
	struct hook hook;
	bool refuses_add, refuses_set;
	struct switch_job job;
	struct switch_latency_slot slot[SLOTS];
	int32_t sums[SLOTS][LANES];
	uint32_t steps, reads;
} t;

static int hook_add(struct hook *hook, const struct switch_job *job)
{
	assert_ptr_equal(hook, &t.hook);
	say("add %u of %u; ", job->index, job->slots);
	return t.refuses_add ? -ENOSPC : 0;
}

static bool hook_set(struct hook *hook, const struct switch_job *job)
{
	assert_ptr_equal(hook, &t.hook);
	say("set %u to %u %u %u; ", job->index, job->generation, job->lanes, job->enabled);
	t.job = *job;
	return !t.refuses_set;
}

static void hook_remove(struct hook *hook, uint32_t job)
{
	assert_ptr_equal(hook, &t.hook);
	say("remove %u; ", job);
}

static void hook_bind(struct hook *hook, uint32_t job, uint32_t child,
		      const struct link_address *address)
{
	struct link_address want = address_of(child);

	assert_ptr_equal(hook, &t.hook);
	assert_true(link_address_equal(address, &want));
	say("bind %u.%u; ", job, child);
}

static enum switch_verdict hook_step(struct hook *hook, struct wire *packet, const int32_t *lane,
				     int32_t *sum)
{
	uint32_t slot = packet->slot;
	enum switch_verdict verdict;

	assert_ptr_equal(hook, &t.hook);
	t.steps++;
	verdict = switch_latency_step(&t.job, &t.slot[slot], t.sums[slot], packet, lane, NULL);
	memcpy(sum, t.sums[slot], sizeof(t.sums[slot]));
	return verdict;
}

static void hook_read(struct hook *hook, uint32_t job, uint32_t slot,
		      struct switch_latency_slot *state)
{
	assert_ptr_equal(hook, &t.hook);
	assert_int_equal(job, JOB);
	t.reads++;
	*state = t.slot[slot];
}

static void hook_write(struct hook *hook, uint32_t job, uint32_t slot,
		       const struct switch_latency_slot *state)
{
	assert_ptr_equal(hook, &t.hook);
	assert_int_equal(job, JOB);
	t.slot[slot] = *state;
}

static void hook_served(struct hook *hook, uint32_t job, struct hook_served *served)
{
	assert_ptr_equal(hook, &t.hook);
	assert_int_equal(job, JOB);
	*served = (struct hook_served){ .updates = 100, .again = 20, .results = 3 };
}

static void hook_counts(struct hook *hook, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	assert_ptr_equal(hook, &t.hook);
	verdict[SWITCH_ABSORB] = 12;
}

static const struct engine_job config = { .generation = GENERATION,
					  .children = 2,
					  .mode = SWITCH_LATENCY,
					  .slots = SLOTS,
					  .lanes_max = LANES,
					  .nonces = nonces };

static int begin(void **state)
{
	static const struct hook_ops ops = { .add = hook_add,
					     .set = hook_set,
					     .remove = hook_remove,
					     .bind = hook_bind,
					     .step = hook_step,
					     .read = hook_read,
					     .write = hook_write,
					     .served = hook_served,
					     .counts = hook_counts };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.hook.ops = &ops;
	return setup_beside(&t.hook, NULL);
}

static struct wire update_to(uint16_t child, uint16_t slot, uint32_t seq)
{
	struct wire update = update_of(child, slot, seq);

	update.flags = SWITCH_LATENCY_KIND;
	return update;
}

/* Both children's packets for a slot. */
static void both_give(uint16_t slot, uint32_t seq)
{
	for (uint16_t child = 0; child < 2; child++) {
		struct wire packet = update_to(child, slot, seq);

		give(child, &packet);
	}
	poll_once();
}

static void hook__hears_of_a_job_and_serves_its_slots(void **state)
{
	char words[100];

	(void)state;
	snprintf(words, sizeof(words), "add %u of %u; set %u to %u %u 1; bind %u.0; bind %u.1; ",
		 JOB, SLOTS, JOB, GENERATION, LANES, JOB, JOB);
	job_start(JOB, &config);
	said(words);
	both_give(3, 1);
	assert_int_equal(t.steps, 2);
	assert_int_equal(fake.answers_count, 2);
	assert_answer(0, 0, WIRE_RESULT, 3, 1);
	assert_answer(1, 1, WIRE_RESULT, 3, 1);
	assert_sum_of_children(0, 2);
	assert_int_equal(engine_stats(engine)->hooked[SWITCH_ABSORB], 12);
	assert_int_equal(engine_stats(engine)->packets_in, 2);
	assert_int_equal(t.reads, 0);
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	snprintf(words, sizeof(words), "remove %u; ", JOB);
	said(words);
}

static void hook__has_its_part_of_what_a_job_comes_to(void **state)
{
	struct engine_job_stats stats;
	struct wire packet = update_to(0, 1, 1);

	(void)state;
	job_start(JOB, &config);
	packet.flags = WIRE_RESENT;
	give(0, &packet);
	poll_once();
	stats = engine_job_stats(engine, JOB);
	assert_int_equal(stats.updates, 101);
	assert_int_equal(stats.again, 21);
	assert_int_equal(stats.results, 3);
	assert_int_equal(stats.hooked, 100);
}

static void hook__is_asked_where_a_slot_is(void **state)
{
	struct switch_latency_slot slot;
	struct wire packet = update_to(1, 2, 1);

	(void)state;
	job_start(JOB, &config);
	give(1, &packet);
	poll_once();
	assert_int_equal(engine_latency_slot_read(engine, JOB, 2, &slot), 0);
	assert_int_equal(t.reads, 1);
	assert_memory_equal(&slot, &t.slot[2], sizeof(slot));
	assert_int_equal(slot.generation, GENERATION);
	assert_int_equal(engine_rounds_begin(engine, JOB, 77), 0);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(t.slot[i].round, 77);
	/* A life whose rounds are still there is none to begin. */
	t.slot[SLOTS - 1].generation = GENERATION + 5;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 5, LANES, true), -EINVAL);
	t.slot[SLOTS - 1].generation = GENERATION;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 5, LANES, true), 0);
}

/* The registers that say why are the hook's. */
static void hook__explains_a_mismatch(void **state)
{
	struct wire packet = update_to(0, 4, 1);
	struct engine_event events[4];

	(void)state;
	job_start(JOB, &config);
	give(0, &packet);
	packet = update_to(1, 4, 1);
	packet.tag++;
	give(1, &packet);
	poll_once();
	assert_int_equal(t.reads, 1);
	assert_int_equal(events_but_misfits(events, 4), 1);
	assert_int_equal(events[0].type, ENGINE_MISMATCH);
	assert_int_equal(events[0].child, 1);
	assert_int_equal(events[0].slot, 4);
}

static void jobs__that_the_hook_does_not_take_are_the_engines(void **state)
{
	struct engine_job dense = config;

	(void)state;
	t.refuses_add = true;
	job_start(JOB, &config);
	assert_null(strstr(told_words, "set"));
	both_give(3, 1);
	assert_int_equal(t.steps, 0);
	assert_int_equal(fake.answers_count, 2);
	assert_sum_of_children(0, 2);
	engine_job_remove(engine, JOB);
	assert_null(strstr(told_words, "remove"));
	t.refuses_add = false;
	t.refuses_set = true; /* in this life */
	job_start(JOB, &config);
	both_give(3, 1);
	assert_int_equal(t.steps, 0);
	assert_int_equal(fake.answers_count, 2);
	t.refuses_set = false;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_non_null(strstr(told_words, "set"));
	told_words[0] = 0;
	dense.mode = SWITCH_DENSE; /* no hook has such slots */
	assert_int_equal(engine_job_add(engine, JOB + 1, &dense), 0);
	said("");
}

static void hook__hears_that_its_jobs_end_with_the_engine(void **state)
{
	(void)state;
	job_start(JOB, &config);
	told_words[0] = 0;
	engine_close(engine);
	engine = NULL;
	said("remove 3; ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(hook__hears_of_a_job_and_serves_its_slots, begin),
		ENGINE_TEST(hook__has_its_part_of_what_a_job_comes_to, begin),
		ENGINE_TEST(hook__is_asked_where_a_slot_is, begin),
		ENGINE_TEST(hook__explains_a_mismatch, begin),
		ENGINE_TEST(hook__hears_that_its_jobs_end_with_the_engine, begin),
		ENGINE_TEST(jobs__that_the_hook_does_not_take_are_the_engines, begin),
	};

	return cmocka_run_group_tests_name("dataplane-engine-hook", tests, NULL, NULL);
}
