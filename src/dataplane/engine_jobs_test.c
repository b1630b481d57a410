/* SPDX-License-Identifier: Apache-2.0 */
/* engine_jobs_test.c - the jobs of an engine: memory, lives, and who is bound to which child. */
#include "dataplane/engine_fixture.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/account.h"

/* ---- the kernel ---- */

static bool is_out_of_memory;

void *__real_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	if (!is_out_of_memory)
		return __real_mmap64(at, bytes, access, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* ---- HELLO ---- */

static void engine__hello_is_answered_with_the_address_seen(void **state)
{
	struct link_address peer = address_of(STRANGER_HOST);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * LANES * 4];
	const struct answer *answer = &fake.answers[0];
	uint32_t length;

	(void)state;
	for (uint16_t lanes = WIRE_HELLO_LANES; lanes <= 4 * LANES; lanes += 4) {
		length = hello_write(bytes, 1, 0x12345678u + lanes, lanes);
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 1);
		assert_answer(0, STRANGER_HOST, WIRE_WELCOME, 0, 0x12345678u + lanes);
		assert_int_equal(answer->wire.job, JOB);
		assert_int_equal(answer->wire.child, 1);
		assert_int_equal(answer->wire.generation, GENERATION);
		assert_int_equal(answer->wire.lanes, lanes);
		assert_memory_equal(answer->lane, peer.ip, 16);
		assert_memory_equal(&answer->lane[4], "\x23\x28\0\0", 4); /* port 9000 */
		for (uint32_t j = 5; j < (lanes < LANES ? lanes : LANES); j++)
			assert_int_equal(answer->lane[j], 0);
	}
	assert_true(is_bound_to_host(0));
}

static void engine__hello_is_answered_while_the_job_is_disabled(void **state)
{
	(void)state;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, false), 0);
	assert_int_equal(hello_from(0, 1), 1);
}

static void engine__hello_without_the_right_nonce_job_or_child_is_dropped(void **state)
{
	struct link_address peer = address_of(STRANGER_HOST);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	struct engine_job config = {
		.generation = GENERATION, .children = 4, .slots = 1, .lanes_max = LANES
	};
	uint32_t length = hello_write(bytes, 0, 1, WIRE_HELLO_LANES);
	uint64_t dropped = 0;

	(void)state;
	assert_int_equal(engine_job_add(engine, 7, &config), 0); /* without nonces */
	for (uint32_t bit = 0; bit < 8 * WIRE_NONCE_BYTES; bit++) {
		bytes[WIRE_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
		give_bytes(&peer, bytes, 1, length, length);
		bytes[WIRE_HEADER_BYTES + bit / 8] ^= (uint8_t)(1u << bit % 8);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	for (uint16_t child = 1; child < 4;
	     child++) { /* child 0's nonce; children 2 and 3 are none */
		wire_put16(bytes + 14, child);
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	wire_put16(bytes + 14, 0);
	for (uint32_t job = 0; job < 10; job++) {
		wire_put16(bytes + 2, job == 9 ? UINT16_MAX : (uint16_t)job);
		if (job == JOB)
			continue;
		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->hello_unknown, ++dropped);
	}
	assert_true(is_bound_to_host(0));
}

static void engine__hello_too_short_for_its_answer_is_dropped(void **state)
{
	struct link_address peer = address_of(0);
	uint8_t bytes[WIRE_HEADER_BYTES + 4 * WIRE_HELLO_LANES];
	uint64_t dropped = 0;

	(void)state;
	for (uint16_t lanes = 0; lanes < WIRE_HELLO_LANES; lanes += 4) {
		uint32_t length = hello_write(bytes, 0, 1, lanes);

		give_bytes(&peer, bytes, 1, length, length);
		poll_once();
		assert_int_equal(fake.answers_count, 0);
		assert_int_equal(engine_stats(engine)->fault[WIRE_FAULT_LANES], ++dropped);
	}
}

/* R-WIRE-8. */
static void engine__only_a_higher_serial_binds_anew(void **state)
{
	uint32_t serial = UINT32_MAX - 1; /* wraps below */

	(void)state;
	assert_int_equal(hello_from(100, serial), 1); /* the first binds, whatever its serial */
	assert_true(is_bound_to_host(100));
	assert_int_equal(hello_from(100, serial), 1); /* a copy is answered again */
	assert_int_equal(hello_from(101, serial), 0); /* the same HELLO from elsewhere is not */
	assert_int_equal(hello_from(101, serial - 1), 0);
	assert_true(is_bound_to_host(100));
	assert_int_equal(hello_from(101, serial + 1), 1);
	assert_true(is_bound_to_host(101));
	assert_int_equal(hello_from(102, serial + 3), 1); /* 1 */
	assert_true(is_bound_to_host(102));
	assert_int_equal(hello_from(101, serial + 1), 0); /* an old copy */
	assert_int_equal(hello_from(102, serial + 1), 0);
	assert_true(is_bound_to_host(102));
	assert_false(is_bound_to_host(101));
	assert_int_equal(engine_stats(engine)->hello_unknown, 4);
}

static void engine__binding_is_told_once(void **state)
{
	struct engine_event events[8];
	struct link_address peer = address_of(100);

	(void)state;
	assert_int_equal(engine_events(engine, events, 8), 0);
	for (uint32_t serial = 1; serial < 10; serial++)
		assert_int_equal(hello_from(serial < 9 ? 100 : 101, serial), 1);
	assert_int_equal(engine_events(engine, events, 8), 2);
	assert_int_equal(events[0].type, ENGINE_HELLO);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 0);
	assert_int_equal(events[0].seq, 1);
	assert_true(link_address_equal(&events[0].address, &peer));
	assert_int_equal(events[1].seq, 9);
}

/* Now and then, and not of a copy of one that was heard: anybody may have that. */
static void engine__further_hello_is_a_sign_of_life(void **state)
{
	struct engine_event events[8];

	(void)state;
	assert_int_equal(hello_from(100, 1), 1);
	assert_int_equal(engine_events(engine, events, 8), 1);
	for (uint32_t i = 0; i < 10; i++) { /* 300 ms */
		fake.now_ns += 30000000;
		assert_int_equal(hello_from(100, 2 + i), 1);
	}
	assert_int_equal(engine_events(engine, events, 8), 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(events[i].type, ENGINE_HEARD);
		assert_int_equal(events[i].job, JOB);
		assert_int_equal(events[i].child, 0);
	}
	fake.now_ns += 1000000000;
	assert_int_equal(hello_from(100, 11), 1);
	assert_int_equal(engine_events(engine, events, 8), 0);
	assert_int_equal(hello_from(100, 12), 1);
	assert_int_equal(engine_events(engine, events, 8), 1);
}

/* ---- jobs ---- */

static void engine__job_add_refuses_what_it_cannot_hold(void **state)
{
	struct engine_options options = { .link = &fake.link,
					  .memory_max = 1 << 20,
					  .jobs_max = 5 }; /* odd: no room is left behind them */
	struct engine_job config = { .children = 1, .slots = 100, .lanes_max = 1024 };
	struct engine_job bad = config;

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	is_out_of_memory = true;
	assert_int_equal(engine_job_add(engine, 0, &config), -ENOMEM);
	is_out_of_memory = false;
	assert_int_equal(engine_job_add(engine, 0, &config), 0); /* 800 KiB and some */
	assert_int_equal(engine_job_add(engine, 0, &config), -EEXIST);
	assert_int_equal(engine_job_add(engine, 1, &config), -ENOSPC);
	assert_int_equal(engine_job_add(engine, 5, &config), -ENOSPC);
	bad.children = 0;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad.children = SWITCH_CHILDREN_MAX + 1;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad = config;
	bad.slots = 0;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);
	bad = config;
	bad.lanes_max = WIRE_LANES_MAX + 1;
	assert_int_equal(engine_job_add(engine, 1, &bad), -EINVAL);

	assert_int_equal(engine_job_remove(engine, 0), 0); /* gives its memory back */
	assert_int_equal(engine_job_remove(engine, 0), -ENOENT);
	assert_int_equal(engine_job_add(engine, 1, &config), 0);
	assert_int_equal(engine_job_set(engine, 0, 1, 4, true), -ENOENT);
	assert_int_equal(engine_job_set(engine, 5, 1, 4, true), -ENOENT);
	assert_int_equal(engine_job_set(engine, UINT16_MAX, 1, 4, true), -ENOENT);
	assert_int_equal(engine_job_set(engine, 1, 0, 4, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, 1, 1, 1028, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, 1, 1, 6, true), -EINVAL);
	assert_int_equal(engine_child_bind(engine, 0, 0, &fake.link.local), -ENOENT);
	assert_int_equal(engine_child_bind(engine, 1, 1, &fake.link.local), -EINVAL);
}

static void engine__slots_cost_no_memory_until_they_are_used(void **state)
{
	struct engine_options options = { .link = &fake.link, .memory_max = 1ull << 40 };
	struct engine_job config = { .generation = GENERATION,
				     .children = 1,
				     .slots = UINT16_MAX,
				     .lanes_max = WIRE_LANES_MAX };
	unsigned long before, after, size;
	FILE *statm;

	(void)state;
	engine_close(engine);
	engine = engine_open(&options);
	statm = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(statm, "%lu %lu", &size, &before), 2);
	fclose(statm);
	for (uint16_t idx = 0; idx < 16; idx++) /* 8 GiB each */
		assert_int_equal(engine_job_add(engine, idx, &config), 0);
	statm = fopen("/proc/self/statm", "r");
	assert_int_equal(fscanf(statm, "%lu %lu", &size, &after), 2);
	fclose(statm);
	assert_true((after - before) * (unsigned long)sysconf(_SC_PAGESIZE) < 4ul << 20);
}

static void engine__fresh_generation_starts_from_clean_slots(void **state)
{
	struct wire packet = update_of(0, 0, 1);
	struct switch_slot slot;

	(void)state;
	give(0, &packet); /* half a round of the old life */
	poll_once();
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	packet.child = 1;
	assert_dropped(1, &packet, &engine_stats(engine)->verdict[SWITCH_DROP_GENERATION]);
	packet.generation++;
	give(1, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	packet.child = 0;
	give(0, &packet);
	poll_once();
	assert_int_equal(fake.answers_count, 2);
	assert_sum_of_children(0, 2);
	assert_int_equal(engine_slot_read(engine, JOB, 0, &slot), 0);
	assert_int_equal(slot.generation, GENERATION + 1);
}

static void engine__generation_that_slots_still_hold_is_refused(void **state)
{
	(void)state;
	round_give(0, 1); /* a flat job here: it completes */
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), -EINVAL);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 2, LANES, true), 0);
}

static void engine__slot_read_tells_who_is_missing(void **state)
{
	struct wire packet = update_of(1, 2, 1);
	struct switch_slot slot;

	(void)state;
	give(1, &packet);
	poll_once();
	assert_int_equal(engine_slot_read(engine, JOB, 2, &slot), 0);
	assert_int_equal(slot.phase, 1);
	assert_int_equal(slot.bitmap[0], 1 << 1);
	assert_int_equal(slot.copy[1].tag, 4711);
	assert_int_equal(engine_slot_read(engine, JOB, SLOTS, &slot), -EINVAL);
	assert_int_equal(engine_slot_read(engine, JOB + 1, 0, &slot), -ENOENT);
}

static void account__gives_its_last_byte_and_no_more(void **state)
{
	struct account account = { .max = 10, .used = 3 };

	(void)state;
	assert_false(account_take(&account, 8));
	assert_int_equal(account.used, 3);
	assert_true(account_take(&account, 7));
	assert_int_equal(account.used, 10);
	assert_false(account_take(&account, 1));
	account_give(&account, 4);
	assert_int_equal(account.used, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(engine__hello_is_answered_with_the_address_seen, setup),
		ENGINE_TEST(engine__hello_is_answered_while_the_job_is_disabled, setup),
		ENGINE_TEST(engine__hello_without_the_right_nonce_job_or_child_is_dropped, setup),
		ENGINE_TEST(engine__hello_too_short_for_its_answer_is_dropped, setup),
		ENGINE_TEST(engine__only_a_higher_serial_binds_anew, setup),
		ENGINE_TEST(engine__binding_is_told_once, setup),
		ENGINE_TEST(engine__further_hello_is_a_sign_of_life, setup),
		ENGINE_TEST(engine__job_add_refuses_what_it_cannot_hold, setup_engine),
		ENGINE_TEST(engine__slots_cost_no_memory_until_they_are_used, setup_engine),
		ENGINE_TEST(engine__fresh_generation_starts_from_clean_slots, setup),
		ENGINE_TEST(engine__generation_that_slots_still_hold_is_refused, setup),
		ENGINE_TEST(engine__slot_read_tells_who_is_missing, setup),
		cmocka_unit_test(account__gives_its_last_byte_and_no_more),
	};

	return cmocka_run_group_tests_name("engine_jobs", tests, NULL, NULL);
}
