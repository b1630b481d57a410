/* SPDX-License-Identifier: Apache-2.0 */
/* What goes past the ledger here is made up: each rule must see its own kind of lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/check.h"

enum { WORKERS = 2, LANES = 4, ENGINE = WORKERS, GENERATION = 9 };

static struct fixture {
	struct scenario scenario;
	struct wiring wiring;
	struct check *check;
} fixture;

static struct fixture *fixture_new(void)
{
	struct fixture *f = &fixture;

	memset(f, 0, sizeof(*f));
	f->scenario =
		(struct scenario){ .workers = WORKERS, .shards = 1, .lanes = LANES, .slots = 8 };
	f->scenario.shard[0].engines = 1;
	f->scenario.shard[0].parent[0] = SIM_PARENT_NONE;
	wiring_init(&f->wiring, &f->scenario);
	f->check = check_open(&f->scenario, &f->wiring);
	assert_non_null(f->check);
	check_life(f->check, GENERATION, 0);
	return f;
}

/* A packet with lanes {value, 0, 0, 0} goes past; in a TAKE round, 0 is without lanes. */
static void sight(struct fixture *f, enum net_fate fate, uint32_t from, uint32_t to,
		  struct wire packet, int32_t value)
{
	uint32_t bytes[(WIRE_HEADER_BYTES + LANES * 4) / 4] = { 0 };

	packet.generation = packet.generation ? packet.generation : GENERATION;
	packet.lanes = wire_op_of(packet.flags) == WIRE_TAKE && !value ? 0 : LANES;
	wire_put((uint8_t *)bytes, &packet);
	bytes[WIRE_HEADER_BYTES / 4] = (uint32_t)value;
	check_sight(f->check,
		    &(struct net_sight){ .fate = fate,
					 .from = from,
					 .to = to,
					 .bytes = sizeof(bytes),
					 .data = (uint8_t *)bytes },
		    &packet);
}

static void update(struct fixture *f, uint32_t w, uint32_t seq, uint8_t flags, int32_t value)
{
	struct wire packet = { .type = WIRE_UPDATE,
			       .seq = seq,
			       .flags = flags,
			       .exponent = 5,
			       .child = (uint16_t)w,
			       .tag = 77 };

	sight(f, NET_SENT, w, ENGINE, packet, value);
}

static struct wire result(uint32_t seq)
{
	return (struct wire){ .type = WIRE_RESULT, .seq = seq, .exponent = 5, .tag = 77 };
}

static void assert_failed(struct fixture *f, const char *rule)
{
	const struct check_failure *failure = check_failure(f->check);

	assert_true(failure->is_set);
	assert_memory_equal(failure->text, rule, strlen(rule));
	check_close(f->check);
}

static void check__exact_result_passes(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	update(f, 1, 1, 0, 4);
	update(f, 1, 1, WIRE_RESENT, 4);
	sight(f, NET_SENT, ENGINE, 0, result(1), 7);
	sight(f, NET_TAKEN, ENGINE, 0, result(1), 7);
	update(f, 0, 2, 0, 3);
	assert_false(check_failure(f->check)->is_set);
	check_close(f->check);
}

static void check__m1_sees_a_wrong_sum(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	update(f, 1, 1, 0, 4);
	sight(f, NET_SENT, ENGINE, 0, result(1), 8);
	assert_failed(f, "M1");
}

static void check__m1_sees_a_result_without_everybody(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	sight(f, NET_SENT, ENGINE, 0, result(1), 3);
	assert_failed(f, "M1");
}

static void check__m1_sees_a_wrong_header(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct fixture *f = fixture_new();
		struct wire packet = result(1);

		update(f, 0, 1, 0, 3);
		update(f, 1, 1, 0, 4);
		if (i == 0)
			packet.tag++;
		if (i == 1)
			packet.exponent++;
		packet.flags = i == 2 ? WIRE_RANGE : 0;
		sight(f, NET_SENT, ENGINE, 0, packet, 7);
		assert_failed(f, "M1");
	}
}

/* R-WK-13. Of a part, whoever comes first: its owner sends it, and nobody else. */
static void check__m1_sees_who_sends_a_part(void **state)
{
	static const struct {
		enum wire_op op;
		int32_t first, second;
		bool is_right;
	} rounds[] = { { WIRE_TAKE, 3, 0, true },       { WIRE_TAKE, 0, 3, true },
		       { WIRE_TAKE, 0, 0, true },       { WIRE_ADD_SHORT, 3, 4, true },
		       { WIRE_ADD_SHORT, 3, 0, false }, { WIRE_ADD_SHORT, 0, 0, false } };

	(void)state;
	for (uint32_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++) {
		struct fixture *f = fixture_new();
		struct wire packet = result(1);

		packet.flags = (uint8_t)(rounds[i].op << WIRE_OP_SHIFT);
		update(f, 0, 1, packet.flags, rounds[i].first);
		update(f, 1, 1, packet.flags, rounds[i].second);
		sight(f, NET_SENT, ENGINE, 0, packet, rounds[i].first + rounds[i].second);
		if (!rounds[i].is_right) {
			assert_failed(f, "M1");
			continue;
		}
		assert_false(check_failure(f->check)->is_set);
		check_close(f->check);
	}
	struct fixture *f = fixture_new();
	update(f, 0, 1, WIRE_TAKE << WIRE_OP_SHIFT, 3);
	update(f, 1, 1, WIRE_TAKE << WIRE_OP_SHIFT, 4);
	assert_failed(f, "w1's round 1 is another one");
}

static void check__m3_sees_another_copy(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	update(f, 0, 1, WIRE_RESENT, 2);
	assert_failed(f, "M3");
}

static void check__m3_sees_an_unmarked_copy(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	update(f, 0, 1, 0, 3);
	assert_failed(f, "M3");
}

static void check__m3_sees_a_round_begun_too_early(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	update(f, 0, 1, 0, 3);
	update(f, 1, 1, 0, 4);
	sight(f, NET_SENT, ENGINE, 0, result(1), 7); /* on its way: not there */
	update(f, 0, 2, 0, 3);
	assert_failed(f, "M3");
}

static void check__g1_sees_a_packet_of_another_life(void **state)
{
	struct fixture *f = fixture_new();
	struct wire packet = result(1);

	(void)state;
	packet.generation = GENERATION - 1;
	sight(f, NET_SENT, ENGINE, 0, packet, 7);
	assert_failed(f, "G1");
}

static void check__held_of_what_was_never_sent_is_seen(void **state)
{
	struct fixture *f = fixture_new();
	struct wire packet = { .type = WIRE_HELD, .seq = 1 };

	(void)state;
	sight(f, NET_SENT, ENGINE, 1, packet, 0);
	assert_failed(f, "HELD");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check__exact_result_passes),
		cmocka_unit_test(check__m1_sees_a_wrong_sum),
		cmocka_unit_test(check__m1_sees_a_result_without_everybody),
		cmocka_unit_test(check__m1_sees_a_wrong_header),
		cmocka_unit_test(check__m1_sees_who_sends_a_part),
		cmocka_unit_test(check__m3_sees_another_copy),
		cmocka_unit_test(check__m3_sees_an_unmarked_copy),
		cmocka_unit_test(check__m3_sees_a_round_begun_too_early),
		cmocka_unit_test(check__g1_sees_a_packet_of_another_life),
		cmocka_unit_test(check__held_of_what_was_never_sent_is_seen),
	};

	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
