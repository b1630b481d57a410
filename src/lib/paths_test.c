/* SPDX-License-Identifier: Apache-2.0 */
/* paths_test.c - what a communicator makes of its GRANTs: one endpoint to all shards, and what is said of paths
 * that are not as they should be. The MTU of a path and the size of a receive buffer are the test's. */
#include "lib/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/link_udp.h"

enum { GRANTS_MAX = 3, KIB = 1024 };

static struct tally_comm comm;
static struct control_grant grant[GRANTS_MAX];
static struct paths_grant grants[GRANTS_MAX];
static char text[CONTROL_TEXT_BYTES], line[512];
static uint16_t lanes;
static int mtu;
static uint32_t receive_bytes; /* 0: as the kernel says */

int __wrap_link_udp_mtu(const struct link_address *peer, bool is_v6);
int __real_link_udp_open(struct link **link, const struct link_udp_options *options);
int __wrap_link_udp_open(struct link **link, const struct link_udp_options *options);

int __wrap_link_udp_mtu(const struct link_address *peer, bool is_v6)
{
	assert_int_equal(is_v6, peer->ip[10] != 0xff);
	return mtu;
}

int __wrap_link_udp_open(struct link **link, const struct link_udp_options *options)
{
	int result = __real_link_udp_open(link, options);

	if (receive_bytes)
		*options->receive_got = receive_bytes;
	return result;
}

static uint64_t big_endian; /* of the shards that an endpoint was opened with, a bit each */

struct endpoint *__real_endpoint_open(const struct endpoint_options *options);
struct endpoint *__wrap_endpoint_open(const struct endpoint_options *options);
struct endpoint *__wrap_endpoint_open(const struct endpoint_options *options)
{
	big_endian = 0;
	for (uint32_t i = 0; i < options->shards_count; i++)
		big_endian |= (uint64_t)options->shards[i].is_big_endian << i;
	return __real_endpoint_open(options);
}

static void hear(int level, const char *its, void *arg)
{
	(void)arg;
	snprintf(line, sizeof(line), "%d %s", level, its);
}

/* Each aggregator has one shard, at 127.0.0.N. */
static int setup(void **state)
{
	(void)state;
	memset(&comm, 0, sizeof(comm));
	memset(grant, 0, sizeof(grant));
	text[0] = line[0] = 0;
	lanes = 0;
	mtu = 1500;
	receive_bytes = 64 << 20;
	pthread_mutex_init(&comm.lock, NULL);
	comm.who = (struct report_who){ .job = "j", .host = "h", .size = 2 };
	for (uint32_t i = 0; i < GRANTS_MAX; i++) {
		grants[i].grant = &grant[i];
		grant[i].workers = 2;
		grant[i].shards_count = 1;
		memset(grant[i].nonce, 7 + (int)i, sizeof(grant[i].nonce));
		grant[i].shards[0] = (struct control_shard){ .port = (uint16_t)(700 + i),
							     .slots = 704,
							     .window = 140,
							     .lanes = 360,
							     .run = 44,
							     .generation = 9 };
		memcpy(grant[i].shards[0].ip, (uint8_t[]){ [10] = 0xff, 0xff, 127, 0, 0, 0 }, 16);
		grant[i].shards[0].ip[15] = (uint8_t)(1 + i);
	}
	return tally_set_log(TALLY_LOG_INFO, hear, NULL);
}

static int teardown(void **state)
{
	(void)state;
	if (comm.endpoint)
		endpoint_close(comm.endpoint);
	if (comm.link)
		comm.link->ops->close(comm.link);
	pthread_mutex_destroy(&comm.lock);
	return 0;
}

static void close_paths(void)
{
	endpoint_close(comm.endpoint);
	comm.link->ops->close(comm.link);
	comm.endpoint = NULL;
	comm.link = NULL;
}

static void paths__have_the_least_of_what_all_aggregators_have(void **state)
{
	const struct link_address *address;

	(void)state;
	grant[0].shards[0].slots = 600;
	grant[1].shards[0].run = 30;
	grant[2].shards[0].window = 100;
	grant[1].shards[0].lanes = 203; /* lanes come in fours */
	grant[1].shards[0].is_big_endian = 1;
	assert_int_equal(paths_open(&comm, grants, 3, &lanes, text), TALLY_OK);
	assert_int_equal(lanes, 200);
	assert_int_equal(big_endian, 2); /* but each has its own order of bytes */
	assert_int_equal(comm.shards, 3);
	assert_int_equal(comm.slots, 600);
	assert_int_equal(comm.run, 30);
	for (uint32_t i = 0; i < 3; i++) {
		address = endpoint_address(comm.endpoint, i);
		assert_int_equal(address->port, 700 + i);
		assert_memory_equal(address->ip, grant[i].shards[0].ip, 16);
	}
	assert_false(paths_is_v6(&comm));
	assert_string_equal(line, "");
}

static void paths__carry_what_the_mtu_lets_through(void **state)
{
	static const struct {
		int mtu;
		bool is_v6;
		uint16_t lanes;
	} cases[] = {
		{ 1500, false, 360 }, { 1500, true, 356 },  { 1400, false, 336 },
		{ 1491, false, 356 }, { 1492, false, 360 }, { 576, false, 128 },
		{ 575, false, 128 },  { -1, false, 128 },   { 9000, false, 2000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		mtu = cases[i].mtu;
		grant[0].shards[0].lanes = 2000;
		memset(grant[0].shards[0].ip, 0, 16);
		grant[0].shards[0].ip[15] = 1;
		if (!cases[i].is_v6)
			memcpy(grant[0].shards[0].ip + 10, (uint8_t[]){ 0xff, 0xff, 127 }, 3);
		if (paths_open(&comm, grants, 1, &lanes, text)) {
			assert_true(cases[i].is_v6); /* this host has none */
			continue;
		}
		assert_int_equal(lanes, cases[i].lanes);
		assert_int_equal(paths_is_v6(&comm), cases[i].is_v6);
		close_paths();
	}
}

static void refused(uint32_t count, const char *words)
{
	assert_int_equal(paths_open(&comm, grants, count, &lanes, text), TALLY_ERR_UNSUPPORTED);
	assert_string_equal(text, words);
	assert_null(comm.endpoint);
	assert_int_equal(lanes, 0);
}

static void paths__that_this_version_cannot_take_are_named(void **state)
{
	(void)state;
	grant[0].shards[0].trailer = 4;
	refused(1, "the aggregator wants trailers, which this version cannot send");
	grant[0].shards[0].trailer = 0;
	memset(grant[1].shards[0].ip, 0, 15);
	refused(2, "some aggregators are reached over IPv4, others over IPv6: name all of them by "
		   "addresses of one family");
	memcpy(grant[1].shards[0].ip, grant[0].shards[0].ip, 16);
	for (uint32_t i = 0; i < 2; i++) {
		grant[i].shards_count = i ? 33 : 32;
		for (uint32_t k = 1; k < grant[i].shards_count; k++)
			grant[i].shards[k] = grant[i].shards[0];
	}
	refused(2, "the aggregators have more than 64 shards");
	grant[1].shards_count = 32;
	assert_int_equal(paths_open(&comm, grants, 2, &lanes, text), TALLY_OK);
	assert_int_equal(comm.shards, 64);
}

static void paths__that_no_endpoint_can_take_are_named(void **state)
{
	(void)state;
	grant[0].shards[0].run = 0;
	assert_int_equal(paths_open(&comm, grants, 1, &lanes, text), TALLY_ERR_NO_MEMORY);
	assert_string_equal(text, "no endpoint for 1 shards of 704 slots in runs of 0: out of "
				  "memory, or impossible");
	assert_null(comm.endpoint);
	assert_null(comm.link);
	assert_int_equal(lanes, 0);
}

static void paths__of_latency_mode_are_to_one_shard_of_so_many_slots(void **state)
{
	static const char not_done[] = "the aggregator does not do latency mode";

	(void)state;
	comm.latency_slots = 64;
	comm.latency_window = 16;
	refused(2, "latency mode takes one aggregator, not a list");
	refused(1, not_done);
	grant[0].shards[0].slots = 64;
	grant[0].shards_count = 2;
	grant[0].shards[1] = grant[0].shards[0];
	refused(1, not_done);
	grant[0].shards_count = 1;
	grant[0].shards[0].window = 16;
	receive_bytes = KIB; /* its window is its own: none is shrunk */
	assert_int_equal(paths_open(&comm, grants, 1, &lanes, text), TALLY_OK);
	assert_int_equal(comm.slots, 64);
	assert_string_equal(line, "");
}

/* A packet of 360 lanes costs 2,304 bytes of it. */
static void paths__have_a_window_that_the_receive_buffer_holds(void **state)
{
	static const struct {
		uint32_t shards, packets, window;
		const char *words;
	} cases[] = {
		{ 1, 140, 0, "" },
		{ 1, 139, 0,
		  "2 [job j rank 0 host h] receive buffer: 156 KiB hold a window of 139 packets "
		  "from "
		  "each of 1 shards, not 140: for full speed raise net.core.rmem_max (sysctl -w "
		  "net.core.rmem_max=16777216, as root)" },
		{ 3, 141, 60,
		  "3 [job j rank 0 host h] receive buffer: 158 KiB hold a window of 47 packets "
		  "from "
		  "each of 3 shards, not 60" },
		{ 3, 60, 60,
		  "3 [job j rank 0 host h] receive buffer: 67 KiB hold a window of 20 packets from "
		  "each of 3 shards, not 60" },
		{ 3, 59, 60,
		  "2 [job j rank 0 host h] receive buffer: 66 KiB hold a window of 19 packets from "
		  "each of 3 shards, not 60: for full speed raise net.core.rmem_max (sysctl -w "
		  "net.core.rmem_max=16777216, as root)" },
		{ 1, 704, 5000, "" }, /* no more are ever on their way than there are slots */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		line[0] = 0;
		receive_bytes = cases[i].packets * 2304;
		comm.window_packets = cases[i].window;
		assert_int_equal(paths_open(&comm, grants, cases[i].shards, &lanes, text),
				 TALLY_OK);
		if (strcmp(line, cases[i].words) != 0)
			fail_msg("%zu: \"%s\", not \"%s\"", i, line, cases[i].words);
		close_paths();
	}
}

static void paths__that_are_lost_are_described(void **state)
{
	struct endpoint_path path = { .shard = 1, .is_short_heard = true };

	(void)state;
	assert_int_equal(paths_open(&comm, grants, 2, &lanes, text), TALLY_OK);
	comm.lanes = 360;
	paths_say_lost(&comm, &path, 5999999999, text);
	assert_string_equal(
		text, "UDP datagrams of 1464 bytes to the aggregator at 127.0.0.2:701 have had no "
		      "answer for 5 s, short ones have: the MTU of the path has fallen below "
		      "1492: set the same MTU all the way, or cap packets (tallyd --lanes)");
	path = (struct endpoint_path){ .shard = 0 };
	paths_say_lost(&comm, &path, 5999999999, text);
	assert_string_equal(text,
			    "UDP to the aggregator at 127.0.0.1:700 worked when the job began, "
			    "and has had no answer for 5 s, while TCP works (firewall?)");
	mtu = 1300;
	comm.lanes = 4; /* less than a HELLO's 8 */
	paths_say_too_large(&comm, text);
	assert_string_equal(
		text, "UDP datagrams of 56 bytes to the aggregator at 127.0.0.1:700 have become "
		      "too large for the path: its MTU was 84 or more when the job began, and is "
		      "1300 now: set the same MTU all the way, or cap packets (tallyd --lanes)");
	mtu = -1;
	comm.lanes = 12;
	paths_say_too_large(&comm, text);
	assert_non_null(strstr(text, "datagrams of 72 bytes "));
	assert_non_null(strstr(text, "its MTU was 100 or more when the job began: set the same"));
}

static void address_set(struct sockaddr_storage *to, const char *ip)
{
	struct conn_address one;

	assert_int_equal(conn_resolve(ip, 7171, &one), 0);
	*to = one.socket;
}

/* Of a name's addresses the first that an interface of TALLY_IFNAME fits. */
static void paths__leave_from_the_interface_that_was_named(void **state)
{
	struct bootstrap boot = { .size = 1 };
	struct conn_address address;
	char why[256] = "";

	(void)state;
	assert_int_equal(conn_resolve("[2001:db8::1]:7171", 7171, &address), 0);
	address_set(&address.others[0], "127.0.0.9");
	address.others_count = 1;
	assert_true(paths_from(&boot, &address, why, sizeof(why))); /* nothing was said */
	assert_int_equal(address.socket.ss_family, AF_INET6);
	assert_int_equal(address.from_bytes, 0);
	strcpy(boot.ifname, "127.0.0.0/8");
	assert_true(paths_from(&boot, &address, why, sizeof(why)));
	assert_int_equal(address.socket.ss_family, AF_INET);
	assert_int_equal(address.from.ss_family, AF_INET);
	assert_true(address.from_bytes > 0);
	assert_string_equal(boot.interface, "lo 127.0.0.1");
	assert_memory_equal(boot.from, ((uint8_t[16]){ [10] = 0xff, 0xff, 127, 0, 0, 1 }), 16);
	strcpy(boot.ifname, "=nosuch");
	assert_false(paths_from(&boot, &address, why, sizeof(why)));
	assert_non_null(strstr(why, "TALLY_IFNAME==nosuch matches no "));
	assert_int_equal(address.socket.ss_family, AF_INET); /* it has come round */
	assert_int_equal(conn_resolve("@tally-test-paths", 0, &address), 0);
	assert_true(paths_from(&boot, &address, why, sizeof(why))); /* it leaves from nowhere */
}

static void paths__of_local_mode_have_the_mtu_of_loopback(void **state)
{
	struct conn_address address;

	(void)state;
	assert_int_equal(conn_resolve("@tally-test-paths", 0, &address), 0);
	mtu = 65536;
	assert_int_equal(paths_mtu(&address), 65536);
	mtu = 1;
	assert_int_equal(paths_mtu(&address), 1);
	mtu = -1;
	assert_int_equal(paths_mtu(&address), 0);
	mtu = 0;
	assert_int_equal(paths_mtu(&address), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(claim) cmocka_unit_test_setup_teardown(paths__##claim, setup, teardown)
		T(have_the_least_of_what_all_aggregators_have),
		T(carry_what_the_mtu_lets_through),
		T(that_this_version_cannot_take_are_named),
		T(that_no_endpoint_can_take_are_named),
		T(of_latency_mode_are_to_one_shard_of_so_many_slots),
		T(have_a_window_that_the_receive_buffer_holds),
		T(that_are_lost_are_described),
		T(leave_from_the_interface_that_was_named),
		T(of_local_mode_have_the_mtu_of_loopback),
#undef T
	};

	return cmocka_run_group_tests_name("lib-paths", tests, NULL, NULL);
}
