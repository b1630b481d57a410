/* SPDX-License-Identifier: Apache-2.0 */
/* engine_chip_test.c - an engine whose jobs a chip sums, which is played here: what it is told, in which order, and what
 * the engine does with packets that the chip hands on. */
#include "dataplane/engine_fixture.h"

static struct {
	struct chip chip;
	int add, set, bind; /* what they return */
	struct chip_way way;
	uint32_t welcomes_before; /* packets that had been sent when bind was called */
} t;

static int chip_add(struct chip *chip, const struct switch_job *job)
{
	assert_ptr_equal(chip, &t.chip);
	say("add %u of %u for %u; ", job->index, job->slots, job->children);
	return t.add;
}

static int chip_set(struct chip *chip, const struct switch_job *job)
{
	(void)chip;
	say("set %u to %u %u %u; ", job->index, job->generation, job->lanes, job->enabled);
	return t.set;
}

static void chip_remove(struct chip *chip, uint32_t job)
{
	(void)chip;
	say("remove %u; ", job);
}

static int chip_bind(struct chip *chip, uint32_t job, uint32_t child,
		     const struct link_address *address, const struct chip_way *way)
{
	struct link_address want = address_of(child);

	(void)chip;
	assert_true(link_address_equal(address, &want));
	t.way = *way;
	t.welcomes_before = fake.answers_count;
	say("bind %u.%u; ", job, child);
	return t.bind;
}

static void chip_counts(struct chip *chip, uint64_t verdict[SWITCH_VERDICT_COUNT])
{
	(void)chip;
	verdict[SWITCH_MULTICAST] = 9;
}

static void chip_served(struct chip *chip, uint32_t job, struct chip_served *served)
{
	(void)chip, (void)job;
	*served = (struct chip_served){ .updates = 100, .again = 3, .results = 25 };
}

static const struct engine_job config = { .generation = GENERATION,
					  .children = 2,
					  .slots = SLOTS,
					  .lanes_max = LANES,
					  .nonces = nonces };

static int begin(void **state)
{
	static const struct chip_ops ops = { .add = chip_add,
					     .set = chip_set,
					     .remove = chip_remove,
					     .bind = chip_bind,
					     .counts = chip_counts,
					     .served = chip_served };

	(void)state;
	memset(&t, 0, sizeof(t));
	t.chip.ops = &ops;
	return setup_beside(NULL, &t.chip);
}

/* As it comes from the chip: it has come in at port 5, from 02:00:00:aa:bb:cc. */
static void give_hello_at(const struct link_address *peer, uint16_t child, uint32_t serial,
			  uint64_t mac)
{
	struct wire hello = { .type = WIRE_HELLO,
			      .job = JOB,
			      .generation = GENERATION,
			      .seq = serial,
			      .slot = 5,
			      .child = child,
			      .exponent = (uint16_t)(mac >> 32),
			      .lanes = WIRE_HELLO_LANES,
			      .tag = (uint32_t)mac };
	uint8_t bytes[WIRE_HEADER_BYTES + WIRE_HELLO_LANES * WIRE_LANE_BYTES] = { 0 };

	wire_put(bytes, &hello);
	memcpy(bytes + WIRE_HEADER_BYTES, nonces[child], WIRE_NONCE_BYTES);
	give_bytes(peer, bytes, 1, sizeof(bytes), sizeof(bytes));
	poll_once();
}

static void give_hello_from(uint16_t child, uint32_t serial, uint64_t mac)
{
	struct link_address peer = address_of(child);

	give_hello_at(&peer, child, serial, mac);
}

static void give_hello(uint16_t child, uint32_t serial)
{
	give_hello_from(child, serial, 0x020000aabbcc);
}

static void open_job(void)
{
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	give_hello(0, 1);
	give_hello(1, 1);
	told_words[0] = 0;
}

/* R-CHIP-9 */
static void chip__hears_of_a_child_before_the_child_is_welcome(void **state)
{
	(void)state;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	said("add 3 of 64 for 2; ");
	give_hello(1, 7);
	said("bind 3.1; ");
	assert_int_equal(t.welcomes_before, 0);
	assert_int_equal(t.way.port, 5);
	assert_memory_equal(t.way.mac, "\x02\x00\x00\xaa\xbb\xcc", 6);
	assert_int_equal(fake.answers_count, 1);
	assert_int_equal(fake.answers[0].wire.type, WIRE_WELCOME);
	assert_int_equal(fake.answers[0].wire.slot, 0); /* R-WIRE-8 */
	assert_int_equal(fake.answers[0].wire.tag, 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	said("set 3 to 77 16 1; ");
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	said("remove 3; ");
}

static void chip__that_has_not_taken_a_child_has_it_ask_again(void **state)
{
	(void)state;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	t.bind = -ETIMEDOUT;
	give_hello(0, 1);
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_stats(engine)->hello_unknown, 0);
	t.bind = 0;
	give_hello(0, 2);
	assert_int_equal(fake.answers_count, 1);
	assert_int_equal(fake.answers[0].wire.type, WIRE_WELCOME);
}

/* Once, however often the child asks; again, if the chip had it meanwhile. */
static void chip__that_has_not_taken_a_child_is_told_of(void **state)
{
	struct engine_event events[8];

	(void)state;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	t.bind = -EREMOTEIO;
	give_hello(1, 1);
	give_hello(1, 2);
	assert_int_equal(engine_events(engine, events, 8), 2);
	assert_int_equal(events[0].type, ENGINE_HELLO);
	assert_int_equal(events[1].type, ENGINE_UNWRITTEN);
	assert_int_equal(events[1].job, JOB);
	assert_int_equal(events[1].child, 1);
	give_hello(1, 3);
	assert_int_equal(engine_events(engine, events, 8), 0);
	t.bind = 0;
	give_hello(1, 4);
	t.bind = -EREMOTEIO;
	give_hello(1, 5);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_UNWRITTEN);
}

/* A new life of the job forgets what the old one said, but not this: it would never be told again. */
static void chip__that_has_not_taken_a_child_is_told_of_in_a_new_life(void **state)
{
	struct engine_event events[8];

	(void)state;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	t.bind = -EREMOTEIO;
	give_hello(1, 1);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION + 1, LANES, true), 0);
	assert_int_equal(engine_events(engine, events, 8), 2);
	assert_int_equal(events[0].type, ENGINE_HELLO);
	assert_int_equal(events[1].type, ENGINE_UNWRITTEN);
}

/* A worker on the chip's own host: the chip would never see its packets. */
static void chip__is_not_told_of_who_comes_around_it(void **state)
{
	struct engine_event events[8];
	struct wire update = update_of(1, 3, 1);

	(void)state;
	open_job();
	assert_int_equal(engine_job_remove(engine, JOB), 0);
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), 0);
	told_words[0] = 0;
	fake.answers_count = 0;
	give_hello_from(1, 7, 0);
	said("");
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].type, ENGINE_REFUSED);
	assert_int_equal(events[0].refusal, ENGINE_REFUSED_AROUND);
	assert_int_equal(events[0].job, JOB);
	assert_int_equal(events[0].child, 1);
	update.tag = SWITCH_MISMATCH; /* its tags are its own, not the chip's word */
	give(1, &update);
	update.tag = SWITCH_DROP_ALARM;
	give(1, &update);
	poll_once();
	for (uint32_t i = engine_events(engine, events, 8); i--;)
		assert_int_equal(events[i].type, ENGINE_REFUSED);
}

/* It asks again for as long as it waits: one line of the log, and one more of its next address. */
static void chip__is_told_once_of_who_comes_around_it(void **state)
{
	const uint64_t second_ns = 1000000000;
	struct link_address other = address_of(STRANGER_HOST);
	struct engine_event events[8];

	(void)state;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	for (uint32_t serial = 1; serial < 5; serial++) {
		give_hello_from(1, serial, 0);
		assert_int_equal(engine_events(engine, events, 8), serial == 1);
		fake.now_ns += 2 * second_ns;
	}
	give_hello_at(&other, 1, 5, 0);
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].refusal, ENGINE_REFUSED_AROUND);
	assert_true(link_address_equal(&events[0].address, &other));
	assert_int_equal(events[0].count, 1);
	fake.now_ns += 2 * second_ns;
	give_hello_from(0, 1, 0); /* each rank has its own */
	assert_int_equal(engine_events(engine, events, 8), 1);
	assert_int_equal(events[0].child, 0);
}

/* Its word is what the job's end says. */
static void chip__may_refuse_a_job(void **state)
{
	uint64_t before = engine_memory_used(engine);

	(void)state;
	t.add = -EREMOTEIO;
	assert_int_equal(engine_job_add(engine, JOB, &config), -EREMOTEIO);
	assert_int_equal(engine_memory_used(engine), before);
	t.add = 0;
	assert_int_equal(engine_job_add(engine, JOB, &config), 0);
	t.set = -ENOENT;
	assert_int_equal(engine_job_set(engine, JOB, GENERATION, LANES, true), -ENOENT);
}

static void chip__alone_adds_up(void **state)
{
	struct wire update = update_of(0, 3, 1);

	(void)state;
	open_job();
	give(0, &update);
	update.child = 1;
	give(1, &update);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_job_stats(engine, JOB).updates, 100);
	assert_int_equal(engine_job_stats(engine, JOB).again, 3);
	assert_int_equal(engine_job_stats(engine, JOB).results, 25);
	assert_int_equal(engine_job_stats(engine, JOB).hooked, 100);
	assert_int_equal(engine_stats(engine)->hooked[SWITCH_MULTICAST], 9);
}

/* R-CHIP-8: what the chip hands on says its verdict, once until somebody has heard. */
static void chip__tells_control_by_packets(void **state)
{
	struct engine_event events[8];
	struct wire update = update_of(1, 3, 1);

	(void)state;
	open_job();
	assert_int_equal(engine_events(engine, events, 8), 2); /* two HELLOs */
	update.tag = SWITCH_MISMATCH;
	update.exponent = 0;
	give(1, &update);
	give(1, &update);
	update.tag = SWITCH_DROP_ALARM;
	give(1, &update);
	update.tag = SWITCH_DROP_STALE; /* nobody is to be told of these */
	give(1, &update);
	update.tag = SWITCH_MISMATCH;
	update.generation++;
	give(1, &update);
	poll_once();
	assert_int_equal(fake.answers_count, 0);
	assert_int_equal(engine_events(engine, events, 8), 3);
	assert_int_equal(events[0].type, ENGINE_MISMATCH);
	assert_int_equal(events[0].child, 1);
	assert_int_equal(events[0].other, 0);
	assert_int_equal(events[0].slot, 3);
	assert_int_equal(events[1].type, ENGINE_ALARM);
	assert_int_equal(events[2].type, ENGINE_REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chip__hears_of_a_child_before_the_child_is_welcome,
						begin, teardown),
		cmocka_unit_test_setup_teardown(chip__that_has_not_taken_a_child_has_it_ask_again,
						begin, teardown),
		cmocka_unit_test_setup_teardown(chip__that_has_not_taken_a_child_is_told_of, begin,
						teardown),
		cmocka_unit_test_setup_teardown(
			chip__that_has_not_taken_a_child_is_told_of_in_a_new_life, begin, teardown),
		cmocka_unit_test_setup_teardown(chip__is_not_told_of_who_comes_around_it, begin,
						teardown),
		cmocka_unit_test_setup_teardown(chip__is_told_once_of_who_comes_around_it, begin,
						teardown),
		cmocka_unit_test_setup_teardown(chip__may_refuse_a_job, begin, teardown),
		cmocka_unit_test_setup_teardown(chip__alone_adds_up, begin, teardown),
		cmocka_unit_test_setup_teardown(chip__tells_control_by_packets, begin, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
