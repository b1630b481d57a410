/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_test.c - sums one after another, as deep as an exchange is, and which of two ways is taken: over one that is
 * played here, as the clock is. */
#include "glm/exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { LANES = 64, ROUNDS = 6, REPEATS = 20 };

static struct {
	struct exchange exchange;
	uint64_t now_ns;
	bool has_no_memory;
	/* What has been called, in words: b0@2+4 begins 4 lanes from 2 on in slot 0, f flushes, e0 ends slot 0. */
	char said[256];
	int32_t *lanes;
	uint32_t calls, fail_at; /* begins, flushes and ends; the one that fails, from 1 */
	enum exchange_state fails_with;
	/* of a choice */
	bool is_choice;
	char uses[32];
	uint32_t used[2], begun[2], flushed[2], most[2];
	uint64_t flush_ns[2],
		slow_ns[2]; /* slow_ns more but in round `quick` of its way, if there is one */
	uint32_t quick[2];
	int32_t told[2], others[2];
	uint32_t sums, aborts;
	bool sum_fails;
} fake;

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	assert_int_equal(id, CLOCK_MONOTONIC);
	*now = (struct timespec){ .tv_sec = (time_t)(fake.now_ns / 1000000000),
				  .tv_nsec = (long)(fake.now_ns % 1000000000) };
	return 0;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return fake.has_no_memory ? NULL : __real_calloc(count, bytes);
}

static int way(void)
{
	return fake.uses[strlen(fake.uses) - 1] - '0';
}

__attribute__((format(printf, 1, 2))) static bool say(const char *format, ...)
{
	size_t used = strlen(fake.said);
	va_list list;

	va_start(list, format);
	if (!fake.is_choice)
		vsnprintf(fake.said + used, sizeof(fake.said) - used, format, list);
	va_end(list);
	return ++fake.calls != fake.fail_at;
}

static int fake_begin(struct exchange *exchange, uint32_t slot, int32_t *lanes, uint32_t count)
{
	assert_ptr_equal(exchange, &fake.exchange);
	assert_true(slot < exchange->depth);
	if (fake.is_choice) {
		fake.begun[way()]++;
		if (count > fake.most[way()])
			fake.most[way()] = count;
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(lanes[i], 0);
	}
	return say("b%u@%d+%u ", slot, fake.is_choice ? 0 : (int)(lanes - fake.lanes), count) ? 0
											      : -1;
}

static int fake_flush(struct exchange *exchange)
{
	assert_ptr_equal(exchange, &fake.exchange);
	if (fake.is_choice) {
		fake.now_ns += fake.flush_ns[way()];
		if (fake.used[way()] != fake.quick[way()])
			fake.now_ns += fake.slow_ns[way()];
		fake.flushed[way()]++;
	}
	return say("f ") ? 0 : -1;
}

static enum exchange_state fake_end(struct exchange *exchange, uint32_t slot, bool is_wait)
{
	assert_ptr_equal(exchange, &fake.exchange);
	assert_true(is_wait);
	return say("e%u ", slot) ? EXCHANGE_DONE : fake.fails_with;
}

static int fake_sum(struct exchange *exchange, int32_t *values, size_t count)
{
	assert_ptr_equal(exchange, &fake.exchange);
	fake.sums++;
	for (size_t i = 0; i < count && fake.is_choice; i++) {
		assert_in_range(i, 0, 1);
		fake.told[i] = values[i];
		values[i] += fake.others[i];
	}
	for (size_t i = 0; i < count && !fake.is_choice; i++)
		say("%d ", values[i]);
	return fake.sum_fails ? -1 : 0;
}

static void fake_abort(struct exchange *exchange)
{
	assert_ptr_equal(exchange, &fake.exchange);
	fake.aborts++;
}

static int begin(void **state)
{
	static const struct exchange_ops ops = { .begin = fake_begin,
						 .flush = fake_flush,
						 .end = fake_end,
						 .sum = fake_sum,
						 .abort = fake_abort };
	static int32_t lanes[LANES];

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.exchange = (struct exchange){ .ops = &ops, .ranks = 1, .depth = 3 };
	fake.lanes = lanes;
	fake.now_ns = 5000999999000ull; /* the second is soon over */
	return 0;
}

static void sums_are(uint32_t total, uint32_t each, int result, const char *said)
{
	fake.calls = 0;
	fake.said[0] = 0;
	assert_int_equal(exchange_sums(&fake.exchange, fake.lanes, total, each), result);
	assert_string_equal(fake.said, said);
}

/* ---- sums ---- */

static void sums__are_begun_as_many_as_the_exchange_takes_then_ended(void **state)
{
	(void)state;
	sums_are(10, 2, 0, "b0@0+2 b1@2+2 b2@4+2 f e0 e1 e2 b0@6+2 b1@8+2 f e0 e1 ");
	sums_are(7, 3, 0, "b0@0+3 b1@3+3 b2@6+1 f e0 e1 e2 ");
	sums_are(7, 7, 0, "b0@0+7 f e0 ");
	sums_are(7, 60, 0, "b0@0+7 f e0 ");
	sums_are(0, 4, 0, "");
	fake.exchange.depth = 1;
	sums_are(4, 2, 0, "b0@0+2 f e0 b0@2+2 f e0 ");
}

static void sums__end_with_the_first_that_fails(void **state)
{
	(void)state;
	fake.fail_at = 2;
	sums_are(4, 2, -1, "b0@0+2 b1@2+2 ");
	fake.fail_at = 3;
	sums_are(4, 2, -1, "b0@0+2 b1@2+2 f ");
	fake.fail_at = 4;
	fake.fails_with = EXCHANGE_FAILED;
	sums_are(4, 2, -1, "b0@0+2 b1@2+2 f e0 ");
	fake.fails_with = EXCHANGE_BUSY; /* nobody may be busy who is waited for */
	sums_are(4, 2, -1, "b0@0+2 b1@2+2 f e0 ");
}

/* ---- which of two ways ---- */

static void fake_use(struct exchange *exchange, int used)
{
	size_t at = strlen(fake.uses);

	assert_ptr_equal(exchange, &fake.exchange);
	assert_in_range(used, 0, 1);
	fake.uses[at] = (char)('0' + used);
	fake.uses[at + 1] = 0;
	fake.used[used]++;
}

static const uint32_t each[2] = { 2, 10 };

static int choose(void)
{
	fake.is_choice = true;
	fake.exchange.depth = 8;
	fake.uses[0] = 0;
	memset(fake.used, 0, sizeof(fake.used));
	return exchange_choose(&fake.exchange, fake_use, 10, each);
}

static void chosen(int of_both)
{
	assert_int_equal(choose(), 0);
	assert_int_equal(strlen(fake.uses), 2 * ROUNDS + 1);
	assert_memory_equal(fake.uses, "010101010101", 2 * ROUNDS);
	assert_int_equal(way(), of_both);
}

static void choice__is_the_faster_way(void **state)
{
	(void)state;
	fake.flush_ns[0] = 100025;
	fake.flush_ns[1] = 50025;
	chosen(1);
	assert_int_equal(fake.told[0], 2000); /* us, of all repeats */
	assert_int_equal(fake.told[1], 1000);
	assert_int_equal(fake.begun[0], ROUNDS * REPEATS * 5);
	assert_int_equal(fake.begun[1], ROUNDS * REPEATS);
	assert_int_equal(fake.flushed[0], ROUNDS * REPEATS);
	assert_int_equal(fake.flushed[1], ROUNDS * REPEATS);
	assert_int_equal(fake.most[0], 2);
	assert_int_equal(fake.most[1], 10);
	assert_int_equal(fake.sums, 1);
	assert_int_equal(fake.aborts, 0);
	fake.flush_ns[0] = 50025;
	fake.flush_ns[1] = 100025;
	chosen(0);
	fake.flush_ns[1] = 50025; /* as fast as the other */
	chosen(0);
}

static void choice__is_of_all_ranks_together(void **state)
{
	(void)state;
	fake.flush_ns[0] = 100025;
	fake.flush_ns[1] = 50025;
	fake.others[1] = 1000; /* as fast, all in all */
	chosen(0);
	fake.others[1] = 999;
	chosen(1);
	fake.flush_ns[0] = 50025;
	fake.others[0] = 1200;
	chosen(1);
}

static void choice__looks_at_the_best_round_of_each(void **state)
{
	(void)state;
	for (uint32_t quick = 1; quick <= ROUNDS; quick++) {
		fake.flush_ns[0] = 100025;
		fake.flush_ns[1] = 50025;
		fake.slow_ns[1] = 300000;
		fake.quick[1] = quick;
		chosen(1);
		assert_int_equal(fake.told[1], 1000);
	}
	fake.quick[1] = 0; /* never */
	chosen(0);
	assert_int_equal(fake.told[1], 7000);
}

/* So that the times of all ranks have room in an int32. */
static void choice__says_no_more_than_a_second(void **state)
{
	(void)state;
	fake.flush_ns[0] = 70000000;
	fake.flush_ns[1] = 60000000;
	chosen(0);
	assert_int_equal(fake.told[0], 1000000);
	assert_int_equal(fake.told[1], 1000000);
	fake.flush_ns[1] = 45000000;
	chosen(1);
	assert_in_range(fake.told[1], 899999, 900001);
}

static void choice__fails_where_the_exchange_does(void **state)
{
	(void)state;
	fake.fail_at = 1000;
	assert_int_equal(choose(), -1);
	assert_int_equal(fake.calls, 1000);
	assert_int_equal(fake.sums, 0);
	fake.calls = fake.fail_at = 0;
	fake.flush_ns[0] = 100025;
	fake.sum_fails = true;
	assert_int_equal(choose(), -1);
	assert_string_equal(fake.uses, "010101010101"); /* neither of them is chosen */
}

static void choice__without_memory_tells_the_others(void **state)
{
	(void)state;
	fake.has_no_memory = true;
	assert_int_equal(choose(), -1);
	assert_int_equal(fake.aborts, 1);
	assert_int_equal(fake.calls, 0);
	assert_int_equal(fake.sums, 0);
}

/* ---- what one rank has, and what all have ---- */

static void none__leaves_everything_as_it_is(void **state)
{
	int32_t lanes[] = { 5, -6, 2147483647 };
	float numbers[] = { 0.5f, -3e38f };
	struct exchange *none;

	(void)state;
	assert_int_equal(exchange_none(&none), 0);
	assert_int_equal(none->rank, 0);
	assert_int_equal(none->ranks, 1);
	assert_int_equal(none->depth, 8);
	assert_true(none->lanes_max == UINT32_MAX);
	assert_string_equal(none->name, "none");
	assert_string_equal(none->error, "");
	assert_int_equal(none->ops->tune(none, 100, 0), 0);
	assert_int_equal(none->ops->begin(none, 0, lanes, 3), 0);
	assert_int_equal(none->ops->flush(none), 0);
	assert_int_equal(none->ops->end(none, 0, false), EXCHANGE_DONE);
	assert_int_equal(none->ops->end(none, 0, true), EXCHANGE_DONE);
	assert_int_equal(none->ops->sum(none, lanes, 3), 0);
	assert_int_equal(none->ops->sum_float(none, numbers, 2), 0);
	assert_true(lanes[0] == 5 && lanes[1] == -6 && lanes[2] == 2147483647);
	assert_true(numbers[0] == 0.5f && numbers[1] == -3e38f);
	none->ops->abort(none);
	none->ops->close(none);
	fake.has_no_memory = true;
	assert_int_equal(exchange_none(&none), -1);
}

static void gather__adds_what_each_rank_has_to_nothing(void **state)
{
	int32_t all[] = { 9, 8, 5, -6, 7, 6, 99 };

	(void)state;
	fake.exchange.ranks = 3;
	fake.exchange.rank = 1;
	assert_int_equal(exchange_gather(&fake.exchange, all, 2), 0);
	assert_string_equal(fake.said, "0 0 5 -6 0 0 ");
	assert_int_equal(all[6], 99);
	fake.sum_fails = true;
	assert_int_equal(exchange_gather(&fake.exchange, all, 2), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(sums__are_begun_as_many_as_the_exchange_takes_then_ended,
				       begin),
		cmocka_unit_test_setup(sums__end_with_the_first_that_fails, begin),
		cmocka_unit_test_setup(choice__is_the_faster_way, begin),
		cmocka_unit_test_setup(choice__is_of_all_ranks_together, begin),
		cmocka_unit_test_setup(choice__looks_at_the_best_round_of_each, begin),
		cmocka_unit_test_setup(choice__says_no_more_than_a_second, begin),
		cmocka_unit_test_setup(choice__fails_where_the_exchange_does, begin),
		cmocka_unit_test_setup(choice__without_memory_tells_the_others, begin),
		cmocka_unit_test_setup(none__leaves_everything_as_it_is, begin),
		cmocka_unit_test_setup(gather__adds_what_each_rank_has_to_nothing, begin),
	};

	return cmocka_run_group_tests_name("glm-exchange", tests, NULL, NULL);
}
