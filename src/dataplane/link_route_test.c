/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_route_test.c - what a stranger's ICMP says of a path changes neither what is sent on it nor what is
 * thought of it. In a network namespace of its own: the kernel remembers what ICMP has told.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "tests/skip.h"

enum { PACKET_BYTES = 1464, FORGED_MTU = 1280, PORT_ANY = 9 };

/* "Packet too big" and the head of a datagram from `from` to `to`, of which only the ports and addresses
 * are right: all that a stranger has to know. */
static void forge(const union link_sockaddr *from, const union link_sockaddr *to, bool is_v6)
{
	uint8_t icmp[8 + 40 + 8] = { 0 };
	uint8_t *ip = icmp + 8, *udp = ip + (is_v6 ? 40 : 20);
	uint16_t ports[2] = { is_v6 ? from->v6.sin6_port : from->v4.sin_port,
			      is_v6 ? to->v6.sin6_port : to->v4.sin_port };
	size_t bytes = (size_t)(udp - icmp) + 8;
	union link_sockaddr host = *from;
	uint32_t sum = 0;
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_RAW,
			is_v6 ? (int)IPPROTO_ICMPV6 : (int)IPPROTO_ICMP);

	assert_true(fd >= 0);
	icmp[0] = is_v6 ? 2 : 3; /* packet too big; unreachable: fragmentation needed */
	icmp[1] = is_v6 ? 0 : 4;
	icmp[6] = FORGED_MTU >> 8;
	icmp[7] = FORGED_MTU & 0xff;
	if (is_v6) {
		ip[0] = 0x60;
		ip[6] = IPPROTO_UDP;
		memcpy(ip + 8, &from->v6.sin6_addr, 16);
		memcpy(ip + 24, &to->v6.sin6_addr, 16);
		host.v6.sin6_port = 0;
	} else {
		ip[0] = 0x45;
		ip[9] = IPPROTO_UDP;
		memcpy(ip + 12, &from->v4.sin_addr, 4);
		memcpy(ip + 16, &to->v4.sin_addr, 4);
		host.v4.sin_port = 0;
	}
	memcpy(udp, ports, sizeof(ports));
	for (size_t i = 0; !is_v6 && i < bytes; i += 2) /* IPv6: the kernel does it */
		sum += (uint32_t)icmp[i] << 8 | icmp[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	if (!is_v6) {
		sum = ~(sum + (sum >> 16));
		icmp[2] = (uint8_t)(sum >> 8);
		icmp[3] = (uint8_t)sum;
	}
	assert_int_equal(sendto(fd, icmp, bytes, 0, &host.any,
				is_v6 ? sizeof(host.v6) : sizeof(host.v4)),
			 bytes);
	close(fd);
}

/* What the kernel makes of it: the MTU that a plain socket sees. */
static int mtu_seen(const union link_sockaddr *to, bool is_v6)
{
	int fd = socket(to->any.sa_family, SOCK_DGRAM, 0), mtu = 0;
	socklen_t bytes = sizeof(mtu);

	assert_int_equal(connect(fd, &to->any, is_v6 ? sizeof(to->v6) : sizeof(to->v4)), 0);
	assert_int_equal(getsockopt(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
				    is_v6 ? IPV6_MTU : IP_MTU, &mtu, &bytes),
			 0);
	close(fd);
	return mtu;
}

static void send_after_a_forgery(const char *local, const char *remote, bool is_v6)
{
	static uint8_t data[PACKET_BYTES];
	struct link_udp_options options = { .is_v6 = is_v6 };
	struct link_frame frame = {
		.packet_bytes = sizeof(data), .count = 1, .bytes = sizeof(data), .data = data
	};
	union link_sockaddr from, to;
	struct link *link;
	bool is_its_v6;
	int before;

	assert_int_equal(link_address_parse(local, 0, &options.local, &is_its_v6), 0);
	assert_int_equal(link_address_parse(remote, PORT_ANY, &frame.peer, &is_its_v6), 0);
	assert_int_equal(link_udp_open(&link, &options), 0);
	assert_true(link_address_to_socket(&link->local, is_v6, &from) > 0);
	assert_true(link_address_to_socket(&frame.peer, is_v6, &to) > 0);
	before = link_udp_mtu(&frame.peer, is_v6);
	assert_true(before > PACKET_BYTES);
	assert_int_equal(link->ops->send(link, &frame, 1), 0);

	forge(&from, &to, is_v6);
	assert_int_equal(mtu_seen(&to, is_v6), FORGED_MTU); /* or this test shows nothing */
	assert_int_equal(link->ops->send(link, &frame, 1), 0);
	assert_int_equal(link->stats.send_errors, 0);
	assert_int_equal(link->stats.packets_out, 2);
	assert_int_equal(link_udp_mtu(&frame.peer, is_v6), before);
	link->ops->close(link);
}

static void link_route__icmp_of_a_stranger_changes_nothing(void **state)
{
	(void)state;
	send_after_a_forgery("127.0.0.1", "127.9.9.9", false);
}

static void link_route__icmp_of_a_stranger_changes_nothing_v6(void **state)
{
	(void)state;
	if (access("/proc/net/if_inet6", R_OK))
		SKIP("no IPv6 in this kernel");
	send_after_a_forgery("::1", "::1", true);
}

static void mtu_is(const char *remote, int mtu)
{
	struct link_address peer;
	bool is_v6;

	assert_int_equal(link_address_parse(remote, PORT_ANY, &peer, &is_v6), 0);
	assert_int_equal(link_udp_mtu(&peer, is_v6), mtu);
}

static void link_route__mtu_of_route_and_interface_count(void **state)
{
	(void)state;
	if (system("ip link add near type veth peer name far && ip link set near up mtu 2000 &&"
		   "ip link set far up && ip address add 10.77.0.1/24 dev near &&"
		   "ip route add 10.78.0.0/24 via 10.77.0.2 mtu 1400 &&"
		   "ip route add 10.79.0.0/24 nexthop dev lo nexthop via 10.77.0.2"))
		SKIP("no veth in this kernel, or no ip (scripts/deps.sh test)");
	mtu_is("10.77.0.2", 2000);
	mtu_is("10.78.0.2", 1400);
	mtu_is("10.79.0.2", 2000);
	if (access("/proc/net/if_inet6", R_OK))
		SKIP("no IPv6 in this kernel");
	assert_int_equal(system("ip address add fd77::1/64 dev near nodad &&"
				"ip route add fd78::/64 via fd77::2 mtu 1300"),
			 0);
	mtu_is("fd77::2", 2000);
	mtu_is("fd78::2", 1300);
	assert_int_equal(system("echo 1500 >/proc/sys/net/ipv6/conf/near/mtu"), 0);
	mtu_is("fd77::2", 1500); /* as after a router's advertisement */
}

static bool has_namespace(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;
	bool is_up;

	if (unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	is_up = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &up);
	close(fd);
	return is_up;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_route__icmp_of_a_stranger_changes_nothing),
		cmocka_unit_test(link_route__icmp_of_a_stranger_changes_nothing_v6),
		cmocka_unit_test(link_route__mtu_of_route_and_interface_count),
	};

	if (!has_namespace()) {
		puts("SKIP: link_route: no network namespace of our own (not root)");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
