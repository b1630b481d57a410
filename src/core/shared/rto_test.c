/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/shared/rto.h"

static void rto__is_100_ms_before_the_first_sample(void **state)
{
	struct rto rto = { 0 };

	(void)state;
	assert_int_equal(rto_ns(&rto), 100 * RTO_MS);
}

static void rto__follows_what_it_is_told(void **state)
{
	struct rto rto = { 0 };

	(void)state;
	rto_sample(&rto, 8 * RTO_MS);
	assert_int_equal(rto_ns(&rto), (8 + 4 * 4) * RTO_MS);
	rto_sample(&rto, 16 * RTO_MS); /* off by 8: (3 * 4 + 8) / 4 is 5, (7 * 8 + 16) / 8 is 9 */
	assert_int_equal(rto_ns(&rto), (9 + 4 * 5) * RTO_MS);
	rto_sample(&rto, 1 * RTO_MS); /* and by as much below: 5.75, 8 */
	assert_int_equal(rto_ns(&rto), 8 * RTO_MS + 23 * RTO_MS);
}

static void rto__is_bounded(void **state)
{
	struct rto quick = { 0 }, slow = { 0 };

	(void)state;
	rto_sample(&quick, 0);
	assert_int_equal(rto_ns(&quick), RTO_MIN_NS);
	rto_sample(&slow, 9000ull * RTO_MS);
	assert_int_equal(rto_ns(&slow), RTO_MAX_NS);
}

/* What has run out together doubles it once. */
static void rto__doubles_once_for_each_time_that_is_over(void **state)
{
	struct rto rto = { 0 };
	uint64_t now_ns = 77ull * 1000 * RTO_MS;

	(void)state;
	rto_sample(&rto, 8 * RTO_MS);
	rto_ran_out(&rto, now_ns);
	assert_int_equal(rto_ns(&rto), 48 * RTO_MS);
	rto_ran_out(&rto, now_ns + 48 * RTO_MS - 1);
	assert_int_equal(rto_ns(&rto), 48 * RTO_MS);
	rto_ran_out(&rto, now_ns + 48 * RTO_MS);
	assert_int_equal(rto_ns(&rto), 96 * RTO_MS);
}

static void rto__backs_off_to_250_ms_or_what_is_longer_alone(void **state)
{
	struct rto rto = { 0 }, slow = { 0 };
	uint64_t now_ns = 77ull * 1000 * RTO_MS;

	(void)state;
	rto_sample(&rto, 8 * RTO_MS);
	rto_sample(&slow, 1000 * RTO_MS);
	for (int i = 0; i < 100; i++) {
		now_ns += 4000ull * RTO_MS;
		rto_ran_out(&rto, now_ns);
		rto_ran_out(&slow, now_ns);
	}
	assert_int_equal(rto_ns(&rto), RTO_BACKOFF_NS);
	assert_int_equal(rto_ns(&slow), RTO_MAX_NS);
	assert_int_equal(rto.backoff, RTO_BACKOFF_MAX);
}

static void rto__a_sample_ends_the_back_off(void **state)
{
	struct rto rto = { 0 };

	(void)state;
	rto_sample(&rto, 8 * RTO_MS);
	rto_ran_out(&rto, 1000ull * RTO_MS);
	rto_sample(&rto, 8 * RTO_MS); /* off by nothing: 3 / 4 of the deviation */
	assert_int_equal(rto_ns(&rto), (8 + 4 * 3) * RTO_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rto__is_100_ms_before_the_first_sample),
		cmocka_unit_test(rto__follows_what_it_is_told),
		cmocka_unit_test(rto__is_bounded),
		cmocka_unit_test(rto__doubles_once_for_each_time_that_is_over),
		cmocka_unit_test(rto__backs_off_to_250_ms_or_what_is_longer_alone),
		cmocka_unit_test(rto__a_sample_ends_the_back_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
