/* SPDX-License-Identifier: Apache-2.0 */
#include "dataplane/link_udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "conformance/link_suite.h"
#include "tests/skip.h"

static const uint64_t ms = 1000000;

/* ---- a kernel that refuses (linked with --wrap=sendmmsg) ---- */

static struct refusal {
	int error;         /* what sendmmsg says */
	uint32_t times;    /* so often */
	uint32_t first;    /* after it has taken so many messages */
	bool segment_only; /* to messages that the kernel should cut, as a plain device does */
} refusal;

static bool is_to_be_cut(const struct msghdr *message)
{
	const struct cmsghdr *first = CMSG_FIRSTHDR(message);

	return first && first->cmsg_level == SOL_UDP && first->cmsg_type == 103 /* UDP_SEGMENT */;
}

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	uint32_t passing = 0;

	if (!refusal.times)
		return __real_sendmmsg(fd, messages, count, flags);
	if (refusal.first) {
		passing = refusal.first < count ? refusal.first : count;
		refusal.first -= passing;
		return __real_sendmmsg(fd, messages, passing, flags);
	}
	if (refusal.segment_only) {
		while (passing < count && !is_to_be_cut(&messages[passing].msg_hdr))
			passing++;
		if (passing)
			return __real_sendmmsg(fd, messages, passing, flags);
	}
	refusal.times--;
	errno = refusal.error;
	return -1;
}

/* ---- the suite ---- */

static int open_local(struct link **link, bool is_v6, bool no_offload, uint32_t poll_count)
{
	struct link_udp_options options = { .is_v6 = is_v6,
					    .no_offload = no_offload,
					    .poll_count = poll_count };
	bool v6;

	assert_int_equal(link_address_parse(is_v6 ? "::1" : "127.0.0.1", 0, &options.local, &v6),
			 0);
	assert_int_equal(v6, is_v6);
	return link_udp_open(link, &options);
}

struct kind {
	const char *name;
	bool is_v6, no_offload;
	uint32_t poll_count;
	bool is_any; /* bound to any address, and answers from the one that was reached */
};

static int open_any(struct link **link, bool is_v6, bool no_offload)
{
	struct link_udp_options options = { .is_v6 = is_v6,
					    .no_offload = no_offload,
					    .keeps_via = true };
	uint16_t port;
	bool v6;
	int result = link_udp_open(link, &options);

	if (result)
		return result;
	port = (*link)->local.port;
	return link_address_parse(is_v6 ? "::1" : "127.0.0.1", port, &(*link)->local, &v6);
}

static int open_kind(const struct link_factory *factory, struct link **links, uint32_t count)
{
	const struct kind *kind = factory->context;
	int result = 0;

	for (uint32_t i = 0; i < count && !result; i++)
		result = kind->is_any ? open_any(&links[i], kind->is_v6, kind->no_offload)
				      : open_local(&links[i], kind->is_v6, kind->no_offload,
						   kind->poll_count);
	return result;
}

static bool has_ipv6(void)
{
	struct link *link;

	if (open_local(&link, true, false, 0))
		return false;
	link->ops->close(link);
	return true;
}

static int suite_run(void)
{
	static struct kind kinds[] = {
		{ .name = "link_udp_v4" },
		{ .name = "link_udp_v4_any", .is_any = true },
		{ .name = "link_udp_v4_any_without_offload", .is_any = true, .no_offload = true },
		{ .name = "link_udp_v4_without_offload", .no_offload = true },
		{ .name = "link_udp_v4_without_polls", .poll_count = UINT32_MAX },
		{ .name = "link_udp_v6", .is_v6 = true },
		{ .name = "link_udp_v6_any", .is_v6 = true, .is_any = true },
		{ .name = "link_udp_v6_without_offload", .is_v6 = true, .no_offload = true },
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct link_factory factory = { .name = kinds[i].name,
						.packet_bytes_max = kinds[i].is_v6 ? 65480 : 65496,
						.has_threads = true,
						.open = open_kind,
						.context = &kinds[i] };

		if (kinds[i].is_v6 && !has_ipv6()) {
			printf("SKIP: %s: this host has no ::1\n", kinds[i].name);
			continue;
		}
		failed += link_suite_run(&factory);
	}
	return failed;
}

/* ---- what only sockets do ---- */

struct pair {
	struct link *from, *to;
	uint8_t *bytes;
};

static void setup(struct pair *pair, bool is_v6)
{
	refusal = (struct refusal){ 0 };
	assert_int_equal(open_local(&pair->from, is_v6, false, 0), 0);
	assert_int_equal(open_local(&pair->to, is_v6, false, 0), 0);
	pair->bytes = calloc(1, LINK_FRAME_BYTES_MAX);
	assert_non_null(pair->bytes);
}

static void teardown(struct pair *pair)
{
	pair->from->ops->close(pair->from);
	pair->to->ops->close(pair->to);
	free(pair->bytes);
}

static struct link_frame run_of(const struct pair *pair, uint32_t count, uint32_t packet_bytes)
{
	return (struct link_frame){ .peer = pair->to->local,
				    .packet_bytes = packet_bytes,
				    .count = count,
				    .bytes = count * packet_bytes,
				    .data = pair->bytes };
}

static uint32_t packets_received(struct link *link)
{
	struct link_frame frames[16];
	uint32_t packets = 0;
	int taken;

	while (link->ops->wait(link, link->ops->now_ns(link) + 5 * ms) == LINK_READABLE) {
		taken = link->ops->recv(link, frames, 16);
		assert_true(taken >= 0);
		for (int i = 0; i < taken; i++)
			packets += frames[i].count;
	}
	return packets;
}

static void link_udp__run_is_one_frame_each_way_with_offloads(void **state)
{
	struct link_frame frame, got[4];
	struct pair pair;
	int value, fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(value);
	bool has_gro = !getsockopt(fd, SOL_UDP, 104 /* UDP_GRO, Linux 5.0 */, &value, &bytes);

	(void)state;
	close(fd);
	if (!has_gro)
		SKIP("no UDP_GRO in this kernel");
	setup(&pair, false);
	frame = run_of(&pair, 40, 1464);
	frame.bytes -= 1400;
	assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
	assert_int_equal(pair.from->stats.calls_out, 1);
	assert_int_equal(pair.to->ops->wait(pair.to, pair.to->ops->now_ns(pair.to) + 1000 * ms),
			 LINK_READABLE);
	assert_int_equal(pair.to->ops->recv(pair.to, got, 4), 1);
	assert_int_equal(got[0].count, 40);
	assert_int_equal(got[0].packet_bytes, 1464);
	assert_int_equal(got[0].bytes, frame.bytes);
	teardown(&pair);
}

static void link_udp__device_without_checksums_gets_single_packets(void **state)
{
	static const int errors[] = { EIO, EINVAL };
	struct link_frame frames[2];
	struct pair pair;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		setup(&pair, false);
		frames[0] = frames[1] = run_of(&pair, 40, 1464);
		refusal = (struct refusal){ .error = errors[i], .times = 2, .segment_only = true };
		assert_int_equal(pair.from->ops->send(pair.from, frames, 2), 0);
		assert_int_equal(pair.from->stats.fallbacks, 1);
		assert_int_equal(packets_received(pair.to), 80);

		refusal = (struct refusal){ .error = EIO, .times = 1, .segment_only = true };
		assert_int_equal(pair.from->ops->send(pair.from, frames, 2), 0); /* remembered */
		assert_int_equal(refusal.times, 1);
		assert_int_equal(packets_received(pair.to), 80);
		assert_int_equal(pair.from->stats.packets_out, 160);
		assert_int_equal(pair.from->stats.send_errors, 0);
		teardown(&pair);
	}
}

static void link_udp__interrupted_or_short_of_memory_tries_again(void **state)
{
	static const int errors[] = { EINTR, ENOBUFS, ENOMEM, EAGAIN };
	struct pair pair;

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct link_frame frame;

		setup(&pair, false);
		frame = run_of(&pair, 3, 1464);
		refusal = (struct refusal){ .error = errors[i], .times = 5 };
		assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
		assert_int_equal(packets_received(pair.to), 3);
		assert_int_equal(pair.from->stats.send_errors, 0);
		teardown(&pair);
	}
}

static void link_udp__gives_up_after_a_second_without_room(void **state)
{
	struct link_frame frames[3];
	struct pair pair;
	uint64_t start, took;

	(void)state;
	setup(&pair, false);
	for (uint32_t i = 0; i < 3; i++)
		frames[i] = run_of(&pair, 3, 1464);
	refusal = (struct refusal){ .error = ENOBUFS, .times = UINT32_MAX };
	start = pair.from->ops->now_ns(pair.from);
	assert_int_equal(pair.from->ops->send(pair.from, frames, 3), 0);
	took = pair.from->ops->now_ns(pair.from) - start;
	assert_true(took >= 1000 * ms);
	assert_true(took < 2500 * ms); /* one second for all, not for each */
	assert_int_equal(pair.from->stats.send_errors, 9);
	assert_int_equal(pair.from->stats.packets_out, 0);
	teardown(&pair);
}

/* Message by message of single packets, of which the kernel takes four, then none for a while. */
static void link_udp__an_offer_never_waits_and_goes_on_where_it_stopped(void **state)
{
	struct link_frame frames[3];
	uint32_t taken = 9, all = 0;
	struct pair pair;
	uint64_t start;

	(void)state;
	for (int no_offload = 0; no_offload < 2; no_offload++) {
		setup(&pair, false);
		pair.from->ops->close(pair.from);
		assert_int_equal(open_local(&pair.from, false, no_offload, 0), 0);
		for (uint32_t i = 0; i < 3; i++)
			frames[i] = run_of(&pair, 3, 1464);
		start = pair.from->ops->now_ns(pair.from);
		refusal = (struct refusal){ .error = EAGAIN,
					    .times = 2,
					    .first = no_offload ? 4 : 1 };
		assert_int_equal(pair.from->ops->offer(pair.from, frames, 3, &taken), 0);
		assert_int_equal(taken, 1);
		assert_int_equal(link_udp_events(pair.from), POLLIN | POLLOUT);
		assert_int_equal(pair.from->ops->offer(pair.from, frames + 1, 2, &taken), 0);
		assert_int_equal(taken, 0);
		assert_true(pair.from->ops->now_ns(pair.from) - start < 900 * ms);
		assert_int_equal(pair.from->ops->wait(pair.from, start + 5000 * ms), LINK_READABLE);
		assert_int_equal(pair.from->ops->offer(pair.from, frames + 1, 2, &taken), 0);
		assert_int_equal(taken, 2);
		assert_int_equal(link_udp_events(pair.from), POLLIN);
		all = packets_received(pair.to);
		assert_int_equal(all, 9);
		assert_int_equal(pair.from->stats.send_errors, 0);
		teardown(&pair);
	}
}

static void link_udp__an_offer_without_room_for_a_second_is_dropped(void **state)
{
	struct link_frame frames[3];
	struct pair pair;
	uint32_t taken = 0;
	uint64_t start;

	(void)state;
	setup(&pair, false);
	for (uint32_t i = 0; i < 3; i++)
		frames[i] = run_of(&pair, 3, 1464);
	refusal = (struct refusal){ .error = ENOBUFS, .times = UINT32_MAX };
	start = pair.from->ops->now_ns(pair.from);
	while (!taken && pair.from->ops->now_ns(pair.from) - start < 10000 * ms) {
		assert_int_equal(pair.from->ops->offer(pair.from, frames, 3, &taken), 0);
		usleep(10000);
	}
	assert_int_equal(taken, 3);
	assert_true(pair.from->ops->now_ns(pair.from) - start >= 1000 * ms);
	assert_int_equal(pair.from->stats.send_errors, 9);
	teardown(&pair);
}

static void link_udp__unreachable_peer_is_a_loss_not_a_failure(void **state)
{
	struct link_frame frame;
	struct pair pair;

	(void)state;
	setup(&pair, false);
	frame = run_of(&pair, 2, 64);
	refusal = (struct refusal){ .error = ENETUNREACH, .times = 1 };
	assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
	assert_int_equal(pair.from->stats.send_errors, 2);
	assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
	assert_int_equal(packets_received(pair.to), 2);
	teardown(&pair);
}

static void link_udp__closed_port_breaks_nothing(void **state)
{
	struct link_frame frame, gone;
	struct pair pair;
	struct link *closed;

	(void)state;
	setup(&pair, false);
	assert_int_equal(open_local(&closed, false, false, 0), 0);
	frame = run_of(&pair, 1, 64);
	gone = frame;
	gone.peer = closed->local;
	closed->ops->close(closed);
	for (int i = 0; i < 10; i++) { /* each is answered by an ICMP error */
		assert_int_equal(pair.from->ops->send(pair.from, &gone, 1), 0);
		assert_int_equal(packets_received(pair.from), 0);
		assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
	}
	assert_int_equal(packets_received(pair.to), 10);
	teardown(&pair);
}

static void link_udp__peer_of_the_other_family_is_a_loss(void **state)
{
	struct link_frame frame;
	struct pair pair;
	bool is_v6;

	(void)state;
	setup(&pair, false);
	frame = run_of(&pair, 2, 64);
	assert_int_equal(link_address_parse("::1", 7171, &frame.peer, &is_v6), 0);
	assert_int_equal(pair.from->ops->send(pair.from, &frame, 1), 0);
	assert_int_equal(pair.from->stats.send_errors, 2);
	teardown(&pair);
}

static void link_udp__packet_larger_than_the_path_is_reported_and_counted(void **state)
{
	struct link_frame frames[2];
	struct pair pair;

	(void)state;
	if (!has_ipv6())
		SKIP("this host has no ::1");
	setup(&pair, true); /* 65,500 and 48 bytes of header: more than loopback's 65,536 */
	frames[0] = run_of(&pair, 1, 65500);
	frames[1] = run_of(&pair, 2, 64);
	assert_int_equal(pair.from->ops->send(pair.from, frames, 2), -EMSGSIZE);
	assert_true(link_address_equal(&pair.from->too_large, &pair.to->local));
	assert_int_equal(pair.from->stats.send_errors, 1);
	assert_int_equal(packets_received(pair.to), 2); /* the others have gone */
	assert_int_equal(pair.from->ops->send(pair.from, frames + 1, 1), 0);
	assert_int_equal(pair.from->stats.fallbacks, 0);
	teardown(&pair);
}

/* Three packets in one message and one alone go to `to`, an address of a link that is bound to any, and
 * are sent back to where they came from. */
static void answers_come_from(const char *to, bool is_v6_any, bool no_offload, int refused)
{
	struct link_frame frames[4], out[2];
	struct link_address reached;
	struct link *server, *client;
	uint8_t bytes[64] = { 0 };
	uint32_t packets = 0;
	bool is_v6;

	refusal = (struct refusal){ 0 };
	assert_int_equal(open_any(&server, is_v6_any, no_offload), 0);
	assert_int_equal(link_address_parse(to, server->local.port, &reached, &is_v6), 0);
	assert_int_equal(open_local(&client, is_v6, false, 0), 0);
	out[0] = (struct link_frame){
		.peer = reached, .packet_bytes = 16, .count = 3, .bytes = 48, .data = bytes
	};
	out[1] = (struct link_frame){
		.peer = reached, .packet_bytes = 64, .count = 1, .bytes = 64, .data = bytes
	};
	assert_int_equal(client->ops->send(client, out, 2), 0);
	while (packets < 4) {
		int taken = server->ops->recv(server, frames, 4);

		for (int i = 0; i < taken; i++)
			packets += frames[i].count;
		if (taken && refused)
			refusal = (struct refusal){ refused, 1, 0, true };
		if (taken)
			assert_int_equal(server->ops->send(server, frames, (uint32_t)taken), 0);
		else if (server->ops->wait(server, server->ops->now_ns(server) + 5000 * ms) ==
			 LINK_TIME)
			fail_msg("%u of 4 packets came", packets);
	}
	for (packets = 0; packets < 4;) {
		int taken = client->ops->recv(client, frames, 4);

		for (int i = 0; i < taken; i++) {
			assert_true(link_address_equal(&frames[i].peer, &reached));
			packets += frames[i].count;
		}
		if (!taken &&
		    client->ops->wait(client, client->ops->now_ns(client) + 5000 * ms) == LINK_TIME)
			fail_msg("%u of 4 answers came", packets);
	}
	server->ops->close(server);
	client->ops->close(client);
}

static void link_udp__answers_from_the_address_that_was_reached(void **state)
{
	(void)state;
	answers_come_from("127.0.0.1", false, false, 0);
	answers_come_from("127.0.1.1", false, false, 0);
	answers_come_from("127.0.1.1", false, true, 0);
	answers_come_from("127.0.1.1", false, false, EIO);
	if (!has_ipv6())
		SKIP("this host has no ::1");
	answers_come_from("::1", true, false, 0);
}

static void link_udp__any_address_of_ipv6_speaks_ipv4_too(void **state)
{
	(void)state;
	if (!has_ipv6())
		SKIP("this host has no ::1");
	answers_come_from("127.0.1.1", true, false, 0);
	answers_come_from("127.0.1.1", true, true, 0);
	answers_come_from("127.0.1.1", true, false, EIO);
}

static void link_udp__empty_and_odd_datagrams_are_told_as_they_came(void **state)
{
	struct link_frame frames[4];
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pair pair;
	int fd, taken;

	(void)state;
	setup(&pair, false);
	to.sin_port = htons(pair.to->local.port);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	for (size_t bytes = 0; bytes < 3; bytes += 2) {
		assert_int_equal(sendto(fd, "xy", bytes, 0, (struct sockaddr *)&to, sizeof(to)),
				 (ssize_t)bytes);
		assert_int_equal(pair.to->ops->wait(pair.to,
						    pair.to->ops->now_ns(pair.to) + 1000 * ms),
				 LINK_READABLE);
		taken = pair.to->ops->recv(pair.to, frames, 4);
		assert_int_equal(taken, 1);
		assert_int_equal(frames[0].count, 1);
		assert_int_equal(frames[0].bytes, bytes);
	}
	close(fd);
	teardown(&pair);
}

static void link_udp__tells_the_receive_buffer_it_got(void **state)
{
	struct link_udp_options options = { .receive_bytes = 65536 };
	uint32_t got = 0;
	struct link *link;

	(void)state;
	options.receive_got = &got;
	assert_int_equal(link_udp_open(&link, &options), 0);
	assert_int_equal(got, 2 * 65536); /* the kernel doubles it, for its own overhead */
	assert_int_not_equal(link->local.port, 0);
	link->ops->close(link);
}

static void link_udp__port_that_is_taken_is_an_error(void **state)
{
	struct link_udp_options options = { .is_v6 = false };
	struct link *first, *second = NULL;

	(void)state;
	assert_int_equal(open_local(&first, false, false, 0), 0);
	options.local = first->local;
	assert_int_equal(link_udp_open(&second, &options), -EADDRINUSE);
	assert_null(second);
	first->ops->close(first);
}

static void link_udp__loopback_mtu_is_known(void **state)
{
	struct link_address peer;
	bool is_v6;

	(void)state;
	assert_int_equal(link_address_parse("127.0.0.1:7171", 0, &peer, &is_v6), 0);
	assert_true(link_udp_mtu(&peer, is_v6) >= 1500);
	assert_int_equal(link_udp_mtu(&peer, true), -EINVAL);
}

static void link_address__text_and_address_match(void **state)
{
	static const struct {
		const char *text, *same;
		uint16_t port;
		bool is_v6;
	} good[] = {
		{ "10.0.0.1", "10.0.0.1:7171", 7171, false },
		{ "10.0.0.1:80", "10.0.0.1:80", 80, false },
		{ "[::1]:80", "[::1]:80", 80, true },
		{ "[::1]", "[::1]:7171", 7171, true },
		{ "::1", "[::1]:7171", 7171, true },
		{ "fe80::1", "[fe80::1]:7171", 7171, true },
		{ "[2001:db8::5]:65535", "[2001:db8::5]:65535", 65535, true },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct link_address address = { 0 };
		bool is_v6 = !good[i].is_v6;

		assert_int_equal(link_address_parse(good[i].text, 7171, &address, &is_v6), 0);
		assert_int_equal(address.port, good[i].port);
		assert_int_equal(is_v6, good[i].is_v6);
		assert_string_equal(link_address_format(&address, text), good[i].same);
	}
}

static void link_address__link_local_keeps_its_interface(void **state)
{
	struct link_address address;
	bool is_v6;
	char text[64];

	(void)state;
	assert_int_equal(link_address_parse("[fe80::1%lo]:80", 0, &address, &is_v6), 0);
	assert_int_equal(address.ip[2] << 8 | address.ip[3], 1);
	assert_string_equal(link_address_format(&address, text), "[fe80::1%lo]:80");
}

static void link_address__bad_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"",           ":80",  "host:",    "host:x", "host:-1", "host: 80",
		"host:65536", "[::1", "[::1]80",  "[]:80",  "[::1]:",  "host:99999999999999999999",
		"[::1]:80x",  "[",    "host:80:", "a:b"
	};
	struct link_address address;
	char *longest = calloc(1, 2000);
	bool is_v6;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (strcmp(bad[i], "host:80:")) /* reads as IPv6, and is none */
			assert_int_equal(link_address_parse(bad[i], 7171, &address, &is_v6),
					 -EINVAL);
	}
	memset(longest, 'a', 1999);
	assert_int_equal(link_address_parse(longest, 7171, &address, &is_v6), -EINVAL);
	assert_int_equal(link_address_parse("host:80:", 7171, &address, &is_v6), -ENOENT);
	assert_int_equal(link_address_parse("no.such.host.invalid", 7171, &address, &is_v6),
			 -ENOENT);
	free(longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_udp__run_is_one_frame_each_way_with_offloads),
		cmocka_unit_test(link_udp__device_without_checksums_gets_single_packets),
		cmocka_unit_test(link_udp__interrupted_or_short_of_memory_tries_again),
		cmocka_unit_test(link_udp__gives_up_after_a_second_without_room),
		cmocka_unit_test(link_udp__an_offer_never_waits_and_goes_on_where_it_stopped),
		cmocka_unit_test(link_udp__an_offer_without_room_for_a_second_is_dropped),
		cmocka_unit_test(link_udp__unreachable_peer_is_a_loss_not_a_failure),
		cmocka_unit_test(link_udp__closed_port_breaks_nothing),
		cmocka_unit_test(link_udp__peer_of_the_other_family_is_a_loss),
		cmocka_unit_test(link_udp__packet_larger_than_the_path_is_reported_and_counted),
		cmocka_unit_test(link_udp__answers_from_the_address_that_was_reached),
		cmocka_unit_test(link_udp__any_address_of_ipv6_speaks_ipv4_too),
		cmocka_unit_test(link_udp__empty_and_odd_datagrams_are_told_as_they_came),
		cmocka_unit_test(link_udp__tells_the_receive_buffer_it_got),
		cmocka_unit_test(link_udp__port_that_is_taken_is_an_error),
		cmocka_unit_test(link_udp__loopback_mtu_is_known),
		cmocka_unit_test(link_address__text_and_address_match),
		cmocka_unit_test(link_address__link_local_keeps_its_interface),
		cmocka_unit_test(link_address__bad_text_is_refused),
	};
	int failed = cmocka_run_group_tests_name("link_udp", tests, NULL, NULL);

	return failed + suite_run();
}
