/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_judge_test.c - loss from a job's counters, and advice for who was not let in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/doctor.h"
#include "util/rng.h"

enum { PACKETS = 20000 };

/* One way each, or none: how many of 1,000 are lost. */
struct network {
	uint32_t there, back;
	struct rng rng;
};

static bool is_lost(struct network *network, uint32_t of_1000)
{
	return rng_chance(&network->rng, 1000 * of_1000);
}

/* Until its RESULT is here: an UPDATE, then PROBEs, upon which the RESULT or NEED comes. needless: so many PROBEs more. */
static void packet_send(struct network *network, struct tally_stats *stats, uint32_t needless)
{
	bool is_there = !is_lost(network, network->there), is_in;

	stats->packets_out++;
	is_in = is_there && !is_lost(network, network->back);
	while (!is_in) {
		stats->probes++;
		if (is_lost(network, network->there) || is_lost(network, network->back))
			continue;
		if (is_there) {
			is_in = true;
			continue;
		}
		stats->packets_resent++;
		is_there = !is_lost(network, network->there);
		is_in = is_there && !is_lost(network, network->back);
	}
	stats->packets_in++;
	for (; needless; needless--) {
		stats->probes++;
		if (!is_lost(network, network->there) && !is_lost(network, network->back))
			stats->results_ignored++;
	}
}

static struct doctor_loss loss_of(uint32_t there, uint32_t back, uint32_t needless)
{
	struct network network = { .there = there, .back = back };
	struct tally_stats stats = TALLY_STATS_INIT;

	rng_init(&network.rng, there, back);
	for (int i = 0; i < PACKETS; i++)
		packet_send(&network, &stats, needless);
	return doctor_loss_of(&stats);
}

static void loss__is_that_of_each_way(void **state)
{
	static const uint32_t cases[][2] = { { 50, 50 }, { 400, 400 }, { 50, 0 },
					     { 0, 50 },  { 5, 200 },   { 10, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (uint32_t needless = 0; needless < 2; needless++) {
			struct doctor_loss loss = loss_of(cases[i][0], cases[i][1], needless);
			double there = (double)cases[i][0] / 1000,
			       back = (double)cases[i][1] / 1000;

			assert_float_equal(loss.there, there, 0.006);
			assert_float_equal(loss.back, back, 0.02);
		}
	}
}

static void loss__is_none_where_a_slow_machine_asks_too_soon(void **state)
{
	struct doctor_loss loss = loss_of(0, 0, 3);

	(void)state;
	assert_int_equal(loss.packets, 4 * PACKETS);
	assert_int_equal(loss.lost, 0);
	assert_true(loss.there < DOCTOR_LOSS_WARN && loss.back < DOCTOR_LOSS_WARN);
}

static void loss__five_and_forty_percent_are_told_apart(void **state)
{
	(void)state;
	assert_true(loss_of(50, 50, 0).there > DOCTOR_LOSS_WARN);
	assert_true(loss_of(50, 50, 0).there < DOCTOR_LOSS_FAIL);
	assert_true(loss_of(400, 400, 0).there > DOCTOR_LOSS_FAIL);
	assert_true(loss_of(0, 400, 0).back > DOCTOR_LOSS_FAIL);
}

static void loss__of_no_packet_is_none(void **state)
{
	struct tally_stats stats = TALLY_STATS_INIT;

	(void)state;
	assert_int_equal(doctor_loss_of(&stats).lost, 0);
}

/* As the library says them. */
static void advice__speaks_of_firewalls_where_one_is_meant(void **state)
{
	static const char *const mtu =
		"path MTU is below 1500: UDP datagrams of 1464 bytes to the "
		"aggregator at a:7171, port 7171, get no answer, short ones do";
	const char *advice = doctor_join_advice(
		TALLY_ERR_SYSTEM, "TCP to a:7171 works, UDP to its port 7171 does not (firewall?)");

	(void)state;
	assert_non_null(advice);
	assert_non_null(strstr(advice, "firewall"));
	assert_null(doctor_join_advice(TALLY_ERR_SYSTEM, mtu));
	assert_null(doctor_join_advice(TALLY_ERR_DENIED, "the aggregator is draining"));
	advice = doctor_join_advice(TALLY_ERR_DENIED, "it wants a key, and none was said");
	assert_non_null(strstr(advice, "TALLY_KEY"));
	assert_null(strstr(advice, "firewall"));
	advice = doctor_join_advice(TALLY_ERR_TIMEOUT,
				    "the aggregator at a:80 did not grant the job within 10 s");
	assert_non_null(strstr(advice, "is it tallyd"));
	assert_null(doctor_join_advice(TALLY_ERR_TIMEOUT, "a sum did not end within its deadline"));
	advice = doctor_join_advice(TALLY_ERR_NO_RESOURCE, "all 64 jobs (--jobs-max) are in use");
	assert_null(strstr(advice, "firewall"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss__is_that_of_each_way),
		cmocka_unit_test(loss__is_none_where_a_slow_machine_asks_too_soon),
		cmocka_unit_test(loss__five_and_forty_percent_are_told_apart),
		cmocka_unit_test(loss__of_no_packet_is_none),
		cmocka_unit_test(advice__speaks_of_firewalls_where_one_is_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
