/* SPDX-License-Identifier: Apache-2.0 */
/* link_open_test.c - what link_udp.c asks the kernel for when it opens a socket, and what it makes of a refusal. */
#include <netinet/in.h>

#include "dataplane/link_kernel_fixture.h"

enum { OPTIONS = 8 };

struct option {
	int level, name, value;
};

static void options_are(const struct option *options)
{
	uint32_t count = 0;

	for (; count < OPTIONS && options[count].name; count++) {
		assert_true(count < kernel.options_count);
		assert_int_equal(kernel.options[count].level, options[count].level);
		assert_int_equal(kernel.options[count].name, options[count].name);
		assert_int_equal(kernel.options[count].value, options[count].value);
	}
	assert_int_equal(kernel.options_count, count);
}

/* clang-format off */
static const struct {
	const char *local;
	struct link_udp_options options;
	int family;
	struct option wanted[OPTIONS];
} sockets[] = {
	{ "127.0.0.1", { .keeps_via = true }, AF_INET, {
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE },
		{ SOL_SOCKET, SO_RCVBUFFORCE, 8388608 },
		{ SOL_SOCKET, SO_SNDBUFFORCE, 524288 },
		{ SOL_UDP, GRO, 1 } } },
	{ "0.0.0.0", { .keeps_via = true, .receive_bytes = 70000, .send_bytes = 30000 }, AF_INET, {
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE },
		{ SOL_SOCKET, SO_RCVBUFFORCE, 70000 },
		{ SOL_SOCKET, SO_SNDBUFFORCE, 30000 },
		{ SOL_UDP, GRO, 1 },
		{ IPPROTO_IP, IP_PKTINFO, 1 } } },
	{ "0.0.0.0", { .no_offload = true }, AF_INET, {
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE },
		{ SOL_SOCKET, SO_RCVBUFFORCE, 8388608 },
		{ SOL_SOCKET, SO_SNDBUFFORCE, 524288 } } },
	{ "::1", { .is_v6 = true, .keeps_via = true }, AF_INET6, {
		{ IPPROTO_IPV6, IPV6_V6ONLY, 1 },
		{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE },
		{ SOL_SOCKET, SO_RCVBUFFORCE, 8388608 },
		{ SOL_SOCKET, SO_SNDBUFFORCE, 524288 },
		{ SOL_UDP, GRO, 1 } } },
	/* It speaks IPv4 too, and IPv4 shall not be cut into fragments either. */
	{ "::", { .is_v6 = true, .keeps_via = true }, AF_INET6, {
		{ IPPROTO_IPV6, IPV6_V6ONLY, 0 },
		{ IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE },
		{ IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE },
		{ SOL_SOCKET, SO_RCVBUFFORCE, 8388608 },
		{ SOL_SOCKET, SO_SNDBUFFORCE, 524288 },
		{ SOL_UDP, GRO, 1 },
		{ IPPROTO_IPV6, IPV6_RECVPKTINFO, 1 } } },
};
/* clang-format on */

/* R-WIRE-1: datagrams are never fragmented. */
static void link_open__asks_for_what_the_socket_is_to_be(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
		struct link_udp_options options = sockets[i].options;
		struct link *link;

		options.local = address_of(sockets[i].local, 0);
		link = open_with(&options);
		assert_int_equal(kernel.family, sockets[i].family);
		assert_int_equal(kernel.type, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC);
		options_are(sockets[i].wanted);
		assert_int_equal(link_udp_fd(link), SOCKET_FD);
		assert_int_equal(link->local.port, 7171); /* which the kernel has chosen */
		close_link(link);
	}
}

/* A buffer beyond the limits is for root. */
static void link_open__buffers_without_privilege_are_asked_for_again(void **state)
{
	static const struct {
		int forced, modest, bytes;
	} buffers[] = { { SO_RCVBUFFORCE, SO_RCVBUF, 70000 },
			{ SO_SNDBUFFORCE, SO_SNDBUF, 30000 } };
	struct link_udp_options options = { .receive_bytes = 70000, .send_bytes = 30000 };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct link *link = NULL;
		uint32_t asked = 0;

		kernel = (struct kernel){ .fails = SETSOCKOPT,
					  .error = EPERM,
					  .failing = buffers[i].forced };
		assert_int_equal(link_udp_open(&link, &options), 0);
		for (uint32_t k = 1; k < kernel.options_count; k++) {
			if (kernel.options[k].name != buffers[i].modest)
				continue;
			assert_int_equal(kernel.options[k - 1].name, buffers[i].forced);
			assert_int_equal(kernel.options[k].level, SOL_SOCKET);
			assert_int_equal(kernel.options[k].value, buffers[i].bytes);
			asked++;
		}
		assert_int_equal(asked, 1);
		close_link(link);
	}
}

static void link_open__what_fails_is_told_and_undone(void **state)
{
	static const struct {
		enum call fails;
		int failing, error, told;
		bool is_v6;
	} rows[] = {
		{ CALLOC, 0, ENOMEM, -ENOMEM, false },
		{ MMAP, 0, ENOMEM, -ENOMEM, false },
		{ SOCKET, 0, EMFILE, -EMFILE, false },
		{ SOCKET, 0, EAFNOSUPPORT, -EAFNOSUPPORT, true },
		{ SETSOCKOPT, IP_MTU_DISCOVER, EPERM, -EPERM, false },
		{ SETSOCKOPT, IP_MTU_DISCOVER, EPERM, -EPERM, true },
		{ SETSOCKOPT, IPV6_MTU_DISCOVER, EDOM, -EDOM, true },
		{ SETSOCKOPT, IPV6_V6ONLY, EPERM, -EPERM, true },
		{ SETSOCKOPT, IP_PKTINFO, ENOPROTOOPT, -ENOPROTOOPT, false },
		{ SETSOCKOPT, IPV6_RECVPKTINFO, ENOPROTOOPT, -ENOPROTOOPT, true },
		{ BIND, 0, EADDRNOTAVAIL, -EADDRNOTAVAIL, false },
		{ GETSOCKNAME, 0, ENOBUFS, -ENOBUFS, false },
		{ EVENTFD, 0, ENFILE, -ENFILE, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_udp_options options = { .is_v6 = rows[i].is_v6, .keeps_via = true };
		struct link *link = NULL;

		kernel = (struct kernel){ .fails = rows[i].fails,
					  .failing = rows[i].failing,
					  .error = rows[i].error };
		assert_int_equal(link_udp_open(&link, &options), rows[i].told);
		assert_null(link);
		assert_int_equal(kernel.fds, 0);
		assert_int_equal(kernel.blocks, 0);
		assert_int_equal(kernel.mapped_bytes, 0);
	}
}

static void link_open__address_of_the_other_family_is_refused(void **state)
{
	struct link_udp_options options = { .local = address_of("fd00::1", 0) };
	struct link *link = NULL;

	(void)state;
	kernel = (struct kernel){ 0 };
	assert_int_equal(link_udp_open(&link, &options), -EAFNOSUPPORT);
	assert_null(link);
	assert_int_equal(kernel.fds, 0);
	assert_int_equal(kernel.mapped_bytes, 0);
}

static void link_open__receive_buffer_is_told_to_who_asks(void **state)
{
	struct link_udp_options options = { .is_v6 = false };
	uint32_t got = 0;

	(void)state;
	options.receive_got = &got;
	close_link(open_with(&options));
	assert_int_equal(got, GOT_BYTES);
}

/* Three packets of 16 bytes: one message where the kernel cuts it, and else three. */
static uint32_t messages_of_three(struct link *link)
{
	static uint8_t data[48];
	struct link_frame frame = { .peer = address_of("10.0.0.2", 9),
				    .packet_bytes = 16,
				    .count = 3,
				    .bytes = sizeof(data),
				    .data = data };

	assert_int_equal(link->ops->send(link, &frame, 1), 0);
	return kernel.sent_count;
}

static void link_open__offloads_are_used_where_the_kernel_has_them(void **state)
{
	static const struct {
		enum call fails;
		int failing;
		bool no_offload;
		uint32_t messages, received_max;
		bool has_control;
	} rows[] = {
		{ NO_CALL, 0, false, 1, 4, true },
		{ GETSOCKOPT, SEGMENT, false, 3, 4, true },
		{ SETSOCKOPT, GRO, false, 1, 32, false },
		{ NO_CALL, 0, true, 3, 32, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct link_udp_options options = { .no_offload = rows[i].no_offload };
		struct link_frame frames[64];
		struct link *link = NULL;

		kernel = (struct kernel){ .fails = rows[i].fails,
					  .failing = rows[i].failing,
					  .error = ENOPROTOOPT };
		assert_int_equal(link_udp_open(&link, &options), 0);
		assert_int_equal(messages_of_three(link), rows[i].messages);
		assert_int_equal(link->ops->recv(link, frames, 64), 0);
		assert_int_equal(kernel.asked, rows[i].received_max);
		assert_int_equal(kernel.control_bytes,
				 rows[i].has_control ? sizeof(union link_control) : 0);
		close_link(link);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_open__asks_for_what_the_socket_is_to_be),
		cmocka_unit_test(link_open__buffers_without_privilege_are_asked_for_again),
		cmocka_unit_test(link_open__what_fails_is_told_and_undone),
		cmocka_unit_test(link_open__address_of_the_other_family_is_refused),
		cmocka_unit_test(link_open__receive_buffer_is_told_to_who_asks),
		cmocka_unit_test(link_open__offloads_are_used_where_the_kernel_has_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
