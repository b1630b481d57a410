/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failures_network_test.c - networks that stop, drop what is long, pass one protocol and not the other,
 * or repeat what is old: through a proxy (proxy.h), which ranks reach over
 * either family.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "proxy.h"
#include "ranks.h"

enum { SIZE = 3, FAR = 2, HEARTBEAT_MS = 1000 }; /* FAR: the rank that has the proxy before it */

static const double limit_s = 2.0;

/* Between test and ranks: ranks start when the proxy is there. */
static struct proxy *proxy; /* shared memory */

static void prepare(struct ranks *ranks)
{
	static uint16_t port;

	if (!port)
		port = (uint16_t)(20000 + getpid() % 250 * 20);
	ranks->port = port++; /* so that shard 0's UDP port is the same */
	ranks->lanes_max = 360;
	ranks->is_behind_proxy = true;
	memset(proxy, 0, sizeof(*proxy));
	assert_true(ranks_start(ranks));
	assert_true(proxy_start(proxy, ranks->aggregator));
}

static void go(struct ranks *ranks)
{
	__atomic_store_n(&ranks->shared->arrived, ranks->size, __ATOMIC_SEQ_CST);
}

static bool end(struct ranks *ranks)
{
	bool is_good = ranks_end(ranks);

	proxy_end(proxy);
	return is_good;
}

/* The proxy's orders are in memory that was mapped after the ranks were forked: they are the test's. */
static void wait_proxy(const struct ranks *ranks)
{
	while (__atomic_load_n(&ranks->shared->arrived, __ATOMIC_SEQ_CST) < ranks->size)
		usleep(1000);
}

static int init(struct ranks *ranks, uint32_t rank, struct tally_comm **comm)
{
	struct tally_options options = TALLY_OPTIONS_INIT;

	options.aggregator = proxy->address;
	options.init_timeout_s = 20;
	return tally_comm_init(comm, ranks->job, ranks->size, rank, &options);
}

/* ---- after the start nothing passes any more ---- */

static void cut_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;
	int result = TALLY_OK;

	wait_proxy(ranks);
	CHECK(init(ranks, rank, &comm) == TALLY_OK);
	ranks_meet(ranks);
	for (uint32_t i = 0; !result; i++)
		result = ranks_sum(comm, i);
	ranks_report(ranks, rank, comm, result);
	tally_comm_destroy(comm);
}

static void network__cut_after_the_start_names_the_rank_and_to_it_the_aggregator(void **state)
{
	struct ranks ranks = { .size = SIZE, .heartbeat_ms = HEARTBEAT_MS, .body = cut_body };
	const char *to_others[RANKS_WORDS_MAX] = { "rank 2 on ", ranks_host(), "silent for more" };
	const char *to_it[RANKS_WORDS_MAX] = { proxy->address, "silent for 1000 ms" };

	(void)state;
	prepare(&ranks);
	go(&ranks);
	assert_true(ranks_have_met(&ranks, 2));
	usleep(100000);
	ranks.shared->event_s = ranks_now_s();
	proxy->orders->rank = FAR;
	proxy->orders->is_udp_blocked = true;
	proxy->orders->is_tcp_blocked = true;
	ranks_wait_reports(&ranks, 10);
	proxy->orders->is_tcp_blocked = false; /* or last words take their 5 s */
	assert_true(end(&ranks));
	ranks.is_killed[FAR] = true;
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, 1 + limit_s, to_others));
	ranks.is_killed[FAR] = false;
	ranks.is_killed[0] = ranks.is_killed[1] = true;
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, 1 + limit_s, to_it));
}

/* ---- UDP does not pass, or not all of it ---- */

static void path_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;

	wait_proxy(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, init(ranks, rank, &comm));
}

/* The rank behind it says what to look at; the others are told what it said. */
static void path_fails(struct ranks *ranks, double after_s,
		       const char *const words[RANKS_WORDS_MAX])
{
	assert_true(end(ranks));
	ranks->is_killed[0] = ranks->is_killed[1] = true;
	assert_true(ranks_have_reported(ranks, TALLY_ERR_SYSTEM, after_s + limit_s, words));
	ranks->is_killed[0] = ranks->is_killed[1] = false;
	ranks->is_killed[FAR] = true;
	assert_true(ranks_have_reported(ranks, TALLY_ERR_REMOTE, after_s + limit_s, words));
}

static void network__that_passes_tcp_but_not_udp_is_named_at_init(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = path_body };
	const char *words[RANKS_WORDS_MAX] = { "TCP to ", proxy->address, "works, UDP to its port ",
					       "firewall" };

	(void)state;
	prepare(&ranks);
	proxy->orders->rank = FAR;
	proxy->orders->is_udp_blocked = true;
	go(&ranks);
	path_fails(&ranks, 10, words);
}

/* R-CT-52. 360 lanes are 1464 bytes. */
static void network__whose_mtu_is_below_the_interfaces_is_named_at_init(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = path_body };
	const char *words[RANKS_WORDS_MAX] = { "UDP datagrams of 1464 bytes", proxy->address,
					       "short ones do",
					       ranks_family() == 6 ? "path MTU is below 1512"
								   : "path MTU is below 1492" };

	(void)state;
	prepare(&ranks);
	proxy->orders->rank = FAR;
	proxy->orders->udp_bytes_max = 1200;
	go(&ranks);
	path_fails(&ranks, 2, words);
}

/* ---- the path fails after the start, while TCP passes ---- */

static void path_lost(uint32_t bytes_max, const char *const words[RANKS_WORDS_MAX])
{
	struct ranks ranks = { .size = SIZE, .body = cut_body };
	double within_s = (bytes_max ? 5 : 10) + limit_s;

	prepare(&ranks);
	go(&ranks);
	assert_true(ranks_have_met(&ranks, 2));
	usleep(100000);
	proxy->orders->rank = FAR;
	ranks.shared->event_s = ranks_now_s();
	if (bytes_max)
		proxy->orders->udp_bytes_max = bytes_max;
	else
		proxy->orders->is_udp_blocked = true;
	assert_true(end(&ranks));
	ranks.is_killed[0] = ranks.is_killed[1] = true;
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_SYSTEM, within_s, words));
	ranks.is_killed[0] = ranks.is_killed[1] = false;
	ranks.is_killed[FAR] = true;
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, within_s, words));
}

static void network__that_loses_udp_after_the_start_is_named(void **state)
{
	(void)state;
	path_lost(0, (const char *[RANKS_WORDS_MAX]){ proxy->address, "UDP" });
}

/* R-PACE-10 */
static void network__whose_mtu_falls_after_the_start_is_named(void **state)
{
	(void)state;
	path_lost(1200, (const char *[RANKS_WORDS_MAX]){
				proxy->address, "datagrams of 1464 bytes",
				ranks_family() == 6 ? "MTU of the path has fallen below 1512"
						    : "MTU of the path has fallen below 1492" });
}

/* ---- a program of another version ---- */

static void version_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;

	wait_proxy(ranks);
	ranks->shared->event_s = ranks_now_s();
	ranks_report(ranks, rank, NULL, init(ranks, rank, &comm));
}

static void version__that_differs_ends_it_for_all(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = version_body };
	const char *words[RANKS_WORDS_MAX] = { "rank 2 on ", ranks_host(),
					       "speaks protocol versions 9 to 9", "aggregator 3" };

	(void)state;
	prepare(&ranks);
	proxy->orders->rank = FAR;
	proxy->orders->is_future = true;
	go(&ranks);
	assert_true(end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_ERR_VERSION, limit_s, words));
}

/* ---- what an old life has sent comes once more, from the right address ---- */

static void old_body(struct ranks *ranks, uint32_t rank)
{
	struct tally_comm *comm;
	int result = TALLY_OK;

	wait_proxy(ranks);
	CHECK(init(ranks, rank, &comm) == TALLY_OK);
	for (uint32_t i = 0; i < 40; i++)
		CHECK(ranks_sum(comm, i) == TALLY_OK);
	ranks_meet(ranks);
	while (!result)
		result = ranks_sum(comm, 40);
	CHECK(result == TALLY_ERR_REMOTE);
	tally_comm_destroy(comm);
	while (ranks->shared->event_s == 0.0)
		usleep(1000); /* there is another aggregator */
	CHECK(init(ranks, rank, &comm) == TALLY_OK);
	ranks_meet(ranks);
	for (uint32_t i = 0; i < 200; i++) /* other numbers than the old ones, all verified */
		CHECK(ranks_sum(comm, 1000 + i) == TALLY_OK);
	ranks_report(ranks, rank, comm, TALLY_OK);
	ranks_leave(comm);
}

static void restart__old_packets_never_fit_the_new_life(void **state)
{
	struct ranks ranks = { .size = SIZE, .body = old_body };
	uint16_t port;
	int status;

	(void)state;
	prepare(&ranks);
	go(&ranks);
	assert_true(ranks_have_met(&ranks, 2));
	kill(ranks.aggregator_pid, SIGKILL);
	waitpid(ranks.aggregator_pid, &status, 0);
	proxy->orders->is_repeating = true;
	port = (uint16_t)atoi(strrchr(ranks.aggregator, ':') + 1);
	assert_int_equal(ranks_aggregator(&ranks, port, &ranks.aggregator_pids[0]), port);
	ranks.shared->event_s = ranks_now_s();
	assert_true(ranks_end(&ranks));
	printf("%llu old packets\n", (unsigned long long)proxy->orders->repeated);
	assert_true(proxy->orders->repeated > 200);
	proxy_end(proxy);
}

/* ---- a rank's place is held by a connection whose process is out of reach ---- */

enum { NEWCOMER = 3 }; /* the fourth process is rank 1, as process 1 was */

static void duplicate_body(struct ranks *ranks, uint32_t process)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	uint32_t rank = process == NEWCOMER ? 1 : process;
	struct tally_comm *comm;

	wait_proxy(ranks);
	options.aggregator = proxy->address;
	options.init_timeout_s = 30;
	while (process == NEWCOMER && ranks->shared->event_s == 0.0)
		usleep(1000); /* until the holder's network is cut */
	if (process == 2)
		usleep(16000000); /* the gathering is not complete until its holder is dead */
	if (process == 1) {       /* the holder: told by the silence, too; then it is killed */
		CHECK(tally_comm_init(&comm, ranks->job, 3, rank, &options) == TALLY_ERR_TIMEOUT);
		pause();
	}
	CHECK(tally_comm_init(&comm, ranks->job, 3, rank, &options) == TALLY_OK);
	CHECK(ranks_sum(comm, 5) == TALLY_OK);
	ranks_report(ranks, process, comm, TALLY_OK);
	ranks_leave(comm);
}

/* While gathering a connection is dead after 14 s of silence: until then nobody can say who is right. */
static void duplicate_rank__whose_holder_is_dead_gets_its_place(void **state)
{
	struct ranks ranks = { .size = 4, .body = duplicate_body };
	const char *words[RANKS_WORDS_MAX] = { NULL };

	(void)state;
	prepare(&ranks);
	proxy->orders->rank = 1;
	go(&ranks);
	for (int i = 0; i < 20000 && !proxy->orders->has_joined; i++)
		usleep(1000);
	usleep(500000);
	proxy->orders->is_frozen = true;
	usleep(100000);
	ranks.shared->event_s = ranks_now_s();
	ranks.is_killed[1] = true;
	ranks_wait_reports(&ranks, 25);
	kill(ranks.pid[1], SIGKILL);
	assert_true(end(&ranks));
	assert_true(ranks_have_reported(&ranks, TALLY_OK, 16 + limit_s, words));
}

static int setup(void **state)
{
	(void)state;
	proxy = proxy_shared();
	return proxy ? 0 : 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			network__cut_after_the_start_names_the_rank_and_to_it_the_aggregator),
		cmocka_unit_test(network__that_passes_tcp_but_not_udp_is_named_at_init),
		cmocka_unit_test(network__whose_mtu_is_below_the_interfaces_is_named_at_init),
		cmocka_unit_test(network__that_loses_udp_after_the_start_is_named),
		cmocka_unit_test(network__whose_mtu_falls_after_the_start_is_named),
		cmocka_unit_test(version__that_differs_ends_it_for_all),
		cmocka_unit_test(restart__old_packets_never_fit_the_new_life),
		cmocka_unit_test(duplicate_rank__whose_holder_is_dead_gets_its_place),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("e2e-failures-network", tests, setup, NULL);
}
