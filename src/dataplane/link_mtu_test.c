/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_mtu_test.c - what link_route.c asks the kernel of a route, and what it reads out of the answer: one that this
 * test has written, whole or cut off. link_route_test.c asks a real one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"

enum { NETLINK_FD = 1001, SOCKET_FD, ANSWER_BYTES = 512, SOCKET_MTU = 4321 };
enum call { NO_CALL, SOCKET, CONNECT, GETSOCKOPT, SENDTO, RECV, NETLINK, IOCTL, INTERFACE };

/* Interfaces by index: their names, their MTU, and that of IPv6 as its file says it (NULL: there is none). */
static const struct {
	const char *name;
	int mtu;
	const char *v6;
} interfaces[] = {
	[4] = { "near", 2000, "1500\n" }, [5] = { "far", 1600, "9000\n" },
	[6] = { "odd", 1800, "?\n" },     [7] = { "old", 1700, NULL },
	[8] = { "empty", 1900, "" },
};

static struct {
	enum call fails;
	uint32_t sockets, open; /* of these, not closed yet */
	bool is_v6;
	uint8_t question[ANSWER_BYTES], answer[ANSWER_BYTES];
	size_t question_bytes, answer_bytes;
} kernel;

static int refuse(enum call call, int otherwise)
{
	if (kernel.fails != call)
		return otherwise;
	errno = EPROTO;
	return -1;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_close(int fd);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
ssize_t __wrap_sendto(int fd, const void *at, size_t bytes, int flags, const struct sockaddr *to,
		      socklen_t to_bytes);
ssize_t __wrap_recv(int fd, void *at, size_t bytes, int flags);
char *__wrap_if_indextoname(unsigned index, char *name);
int __wrap_ioctl(int fd, unsigned long what, ...);
FILE *__wrap_fopen64(const char *path, const char *mode);

/* The first is of the peer's family and is connected, then the kernel is asked of the route, then of interfaces. */
int __wrap_socket(int family, int type, int protocol)
{
	bool is_netlink = family == AF_NETLINK;
	enum call call = !kernel.sockets++ ? SOCKET : is_netlink ? NETLINK : INTERFACE;

	assert_int_equal(type, (is_netlink ? SOCK_RAW : SOCK_DGRAM) | SOCK_CLOEXEC);
	assert_int_equal(protocol, is_netlink ? NETLINK_ROUTE : 0);
	if (!is_netlink)
		assert_int_equal(family, kernel.is_v6 ? AF_INET6 : AF_INET);
	kernel.open += kernel.fails != call;
	return refuse(call, is_netlink ? NETLINK_FD : SOCKET_FD);
}

int __wrap_close(int fd)
{
	assert_true(fd == NETLINK_FD || fd == SOCKET_FD);
	kernel.open--;
	return 0;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(to->sa_family, kernel.is_v6 ? AF_INET6 : AF_INET);
	assert_int_equal(bytes,
			 kernel.is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	return refuse(CONNECT, 0);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	int mtu = SOCKET_MTU;

	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(level, kernel.is_v6 ? IPPROTO_IPV6 : IPPROTO_IP);
	assert_int_equal(name, kernel.is_v6 ? IPV6_MTU : IP_MTU);
	assert_int_equal(*bytes, sizeof(mtu));
	memcpy(value, &mtu, sizeof(mtu));
	return refuse(GETSOCKOPT, 0);
}

ssize_t __wrap_sendto(int fd, const void *at, size_t bytes, int flags, const struct sockaddr *to,
		      socklen_t to_bytes)
{
	assert_int_equal(fd, NETLINK_FD);
	assert_int_equal(flags, 0);
	assert_int_equal(to->sa_family, AF_NETLINK);
	assert_int_equal(to_bytes, sizeof(struct sockaddr_nl));
	assert_true(bytes <= sizeof(kernel.question));
	memcpy(kernel.question, at, bytes);
	kernel.question_bytes = bytes;
	return refuse(SENDTO, (int)bytes);
}

ssize_t __wrap_recv(int fd, void *at, size_t bytes, int flags)
{
	assert_int_equal(fd, NETLINK_FD);
	assert_int_equal(flags, MSG_DONTWAIT);
	assert_true(bytes >= kernel.answer_bytes);
	memset(at, 0x5a, bytes); /* what lies behind the answer must not count */
	memcpy(at, kernel.answer, kernel.answer_bytes);
	return refuse(RECV, (int)kernel.answer_bytes);
}

static bool is_interface(unsigned index)
{
	return index < sizeof(interfaces) / sizeof(interfaces[0]) && interfaces[index].name;
}

char *__wrap_if_indextoname(unsigned index, char *name)
{
	return is_interface(index) ? strcpy(name, interfaces[index].name) : NULL;
}

int __wrap_ioctl(int fd, unsigned long what, ...)
{
	struct ifreq *request;
	va_list rest;

	assert_int_equal(fd, SOCKET_FD);
	assert_int_equal(what, SIOCGIFMTU);
	va_start(rest, what);
	request = va_arg(rest, struct ifreq *);
	va_end(rest);
	for (unsigned i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
		if (is_interface(i) && !strcmp(request->ifr_name, interfaces[i].name))
			request->ifr_mtu = interfaces[i].mtu;
	assert_int_not_equal(request->ifr_mtu, 0);
	return refuse(IOCTL, 0);
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
	for (unsigned i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
		char wanted[64];

		if (!is_interface(i) || !interfaces[i].v6)
			continue;
		snprintf(wanted, sizeof(wanted), "/proc/sys/net/ipv6/conf/%s/mtu",
			 interfaces[i].name);
		if (!strcmp(path, wanted))
			return fmemopen((void *)(uintptr_t)interfaces[i].v6,
					strlen(interfaces[i].v6) + 1, mode);
	}
	return NULL;
}

/* ---- an answer ---- */

static void *answer_at(size_t bytes)
{
	void *at = kernel.answer + kernel.answer_bytes;

	kernel.answer_bytes += NLMSG_ALIGN(bytes);
	assert_true(kernel.answer_bytes <= sizeof(kernel.answer));
	return at;
}

static void answer_begin(uint16_t type)
{
	struct nlmsghdr header = { .nlmsg_type = type };

	kernel.answer_bytes = 0;
	memset(kernel.answer, 0, sizeof(kernel.answer));
	memcpy(answer_at(sizeof(header)), &header, sizeof(header));
	answer_at(sizeof(struct rtmsg));
}

static void answer_end(void)
{
	uint32_t bytes = (uint32_t)kernel.answer_bytes;

	memcpy(kernel.answer + offsetof(struct nlmsghdr, nlmsg_len), &bytes, sizeof(bytes));
}

static void put(uint16_t type, const void *data, size_t bytes)
{
	struct rtattr head = { .rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(bytes) };
	uint8_t *at = answer_at(RTA_LENGTH(bytes));

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), data, bytes);
}

static void put_u32(uint16_t type, uint32_t value)
{
	put(type, &value, sizeof(value));
}

/* Of the metrics one before it, which is none of ours, has an odd size. */
static void put_metrics(uint32_t mtu)
{
	struct rtattr other = { .rta_type = RTAX_CC_ALGO, .rta_len = RTA_LENGTH(5) };
	struct rtattr head = { .rta_type = RTAX_MTU, .rta_len = RTA_LENGTH(4) };
	uint8_t metrics[12 + 8] = { 0 };

	memcpy(metrics, &other, sizeof(other));
	memcpy(metrics + 12, &head, sizeof(head));
	memcpy(metrics + 12 + sizeof(head), &mtu, sizeof(mtu));
	put(RTA_METRICS, metrics, sizeof(metrics));
}

/* Each way but the last has an attribute of its own behind it, as a gateway is one. */
static void put_several(const int *indices, uint32_t count)
{
	uint8_t several[ANSWER_BYTES / 2] = { 0 };
	size_t at = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct rtnexthop way = { .rtnh_len = i + 1 < count ? 16 : 8,
					 .rtnh_ifindex = indices[i] };

		memcpy(several + at, &way, sizeof(way));
		at += way.rtnh_len;
	}
	put(RTA_MULTIPATH, several, at);
}

/* ---- the tests ---- */

static void kernel_is(enum call fails, bool is_v6)
{
	kernel.fails = fails;
	kernel.is_v6 = is_v6;
	kernel.sockets = kernel.open = 0;
}

static int mtu_to(const char *text)
{
	struct link_address peer;
	bool is_v6;
	int mtu;

	assert_int_equal(link_address_parse(text, 9, &peer, &is_v6), 0);
	assert_int_equal(is_v6, kernel.is_v6);
	mtu = link_udp_mtu(&peer, is_v6);
	assert_int_equal(kernel.open, 0);
	return mtu;
}

static int mtu_v4(void)
{
	kernel_is(NO_CALL, false);
	return mtu_to("10.1.2.3");
}

static int mtu_v6(void)
{
	kernel_is(NO_CALL, true);
	return mtu_to("fd00::7");
}

static void question_is(int family, uint8_t dst_bits, const void *address, size_t bytes,
			uint32_t interface)
{
	struct nlmsghdr header;
	struct rtmsg route;
	struct rtattr attribute;
	size_t all =
		NLMSG_LENGTH(sizeof(route)) + RTA_SPACE(bytes) + (interface ? RTA_SPACE(4) : 0);
	const uint8_t *at = kernel.question;

	assert_int_equal(kernel.question_bytes, all);
	memcpy(&header, at, sizeof(header));
	memcpy(&route, at + NLMSG_HDRLEN, sizeof(route));
	assert_int_equal(header.nlmsg_len, all);
	assert_int_equal(header.nlmsg_type, RTM_GETROUTE);
	assert_int_equal(header.nlmsg_flags, NLM_F_REQUEST);
	assert_int_equal(route.rtm_family, family);
	assert_int_equal(route.rtm_dst_len, dst_bits);
	assert_int_equal(route.rtm_flags, RTM_F_FIB_MATCH); /* not what ICMP has made of it */
	at += NLMSG_LENGTH(sizeof(route));
	memcpy(&attribute, at, sizeof(attribute));
	assert_int_equal(attribute.rta_type, RTA_DST);
	assert_int_equal(attribute.rta_len, RTA_LENGTH(bytes));
	assert_memory_equal(at + RTA_LENGTH(0), address, bytes);
	if (!interface)
		return;
	at += RTA_SPACE(bytes);
	memcpy(&attribute, at, sizeof(attribute));
	assert_int_equal(attribute.rta_type, RTA_OIF);
	assert_int_equal(attribute.rta_len, RTA_LENGTH(4));
	assert_memory_equal(at + RTA_LENGTH(0), &interface, 4);
}

static void link_mtu__asks_for_the_route_itself(void **state)
{
	uint8_t v6[16] = { 0xfd, [15] = 7 }, local[16] = { 0xfe, 0x80, [15] = 9 };

	(void)state;
	answer_begin(RTM_NEWROUTE);
	answer_end();
	mtu_v4();
	question_is(AF_INET, 32, "\x0a\x01\x02\x03", 4, 0);
	mtu_v6();
	question_is(AF_INET6, 128, v6, 16, 0);
	kernel_is(NO_CALL, true);
	mtu_to("fe80::9%1"); /* through this interface alone */
	question_is(AF_INET6, 128, local, 16, 1);
}

static void link_mtu__the_smaller_of_route_and_interface_counts(void **state)
{
	static const struct {
		uint32_t interface, told;
		int v4, v6;
	} rows[] = {
		{ 4, 0, 2000, 1500 }, /* a router has advertised less */
		{ 5, 0, 1600, 1600 }, /* or more, which does not count */
		{ 6, 0, 1800, 1800 },
		{ 7, 0, 1700, 1700 },
		{ 8, 0, 1900, 1900 },
		{ 4, 1400, 1400, 1400 },
		{ 4, 1700, 1700, 1500 },
		{ 4, 3000, 2000, 1500 },
		{ 0, 1400, 1400, 1400 }, /* an interface of which nothing is known */
		{ 0, 0, SOCKET_MTU, SOCKET_MTU },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		answer_begin(RTM_NEWROUTE);
		put_u32(RTA_TABLE, 6); /* the number of an interface, but none */
		put_u32(RTA_OIF, rows[i].interface);
		put_metrics(rows[i].told);
		answer_end();
		assert_int_equal(mtu_v4(), rows[i].v4);
		assert_int_equal(mtu_v6(), rows[i].v6);
	}
}

static void link_mtu__any_of_several_ways_may_be_the_one(void **state)
{
	static const int rows[][3] = { { 4, 6, 8 }, { 8, 4, 6 }, { 6, 8, 4 }, { 6, 0, 4 } };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		answer_begin(RTM_NEWROUTE);
		put_several(rows[i], 3);
		answer_end();
		assert_int_equal(mtu_v4(), 1800);
		assert_int_equal(mtu_v6(), 1500);
		put_u32(RTA_OIF, 7);
		answer_end();
		assert_int_equal(mtu_v4(), 1700);
	}
}

/* Nothing is read of what the answer does not hold, nor of what says that it is longer than it is. */
static void link_mtu__answer_that_is_cut_off_says_nothing(void **state)
{
	static const int ways[] = { 6, 7 };
	size_t head = NLMSG_LENGTH(sizeof(struct rtmsg));
	size_t all;

	(void)state;
	answer_begin(RTM_NEWROUTE);
	put_u32(RTA_OIF, 4);
	answer_end();
	all = kernel.answer_bytes;
	for (kernel.answer_bytes = 0; kernel.answer_bytes < all; kernel.answer_bytes++)
		assert_int_equal(mtu_v4(), SOCKET_MTU);
	assert_int_equal(mtu_v4(), 2000);

	kernel.answer_bytes = head; /* the header of a route, and no more */
	answer_end();
	kernel.answer_bytes = all;
	assert_int_equal(mtu_v4(), SOCKET_MTU);
	kernel.answer[0] = (uint8_t)(head - 1);
	assert_int_equal(mtu_v4(), SOCKET_MTU);

	answer_begin(RTM_NEWROUTE);
	put(RTA_OIF, "\4\0", 2); /* too short for a number */
	answer_end();
	assert_int_equal(mtu_v4(), SOCKET_MTU);

	answer_begin(RTM_NEWROUTE);
	put_several(ways, 2);
	answer_end();
	assert_int_equal(mtu_v4(), 1700);
	kernel.answer[head + RTA_LENGTH(0)] = 17; /* the first way, which ends at 16: no second */
	assert_int_equal(mtu_v4(), 1800);
	kernel.answer[head + RTA_LENGTH(0)] = 7; /* is less than a way */
	assert_int_equal(mtu_v4(), SOCKET_MTU);

	answer_begin(RTM_NEWROUTE);
	put_metrics(1400);
	answer_end();
	kernel.answer[head + RTA_LENGTH(0)] = 3; /* a metric that is less than its head */
	assert_int_equal(mtu_v4(), SOCKET_MTU);
}

static void link_mtu__other_message_than_a_route_says_nothing(void **state)
{
	(void)state;
	answer_begin(NLMSG_ERROR);
	put_u32(RTA_OIF, 4);
	answer_end();
	assert_int_equal(mtu_v4(), SOCKET_MTU);
}

/* Without a socket nothing can be sent there; without a word of the route the kernel's own guess counts. */
static void link_mtu__what_fails_is_told_or_done_without(void **state)
{
	static const struct {
		enum call fails;
		int v4, v6;
	} rows[] = {
		{ SOCKET, -EPROTO, -EPROTO },
		{ CONNECT, -EPROTO, -EPROTO },
		{ GETSOCKOPT, -EPROTO, -EPROTO },
		{ NETLINK, SOCKET_MTU, SOCKET_MTU },
		{ SENDTO, SOCKET_MTU, SOCKET_MTU },
		{ RECV, SOCKET_MTU, SOCKET_MTU },
		{ INTERFACE, SOCKET_MTU, SOCKET_MTU },
		{ IOCTL, SOCKET_MTU, SOCKET_MTU },
		{ NO_CALL, 2000, 1500 },
	};

	(void)state;
	answer_begin(RTM_NEWROUTE);
	put_u32(RTA_OIF, 4);
	answer_end();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		kernel_is(rows[i].fails, false);
		assert_int_equal(mtu_to("10.1.2.3"), rows[i].v4);
		kernel_is(rows[i].fails, true);
		assert_int_equal(mtu_to("fd00::7"), rows[i].v6);
	}
}

static void link_mtu__address_of_the_other_family_is_refused(void **state)
{
	struct link_address peer;
	bool is_v6;

	(void)state;
	kernel_is(NO_CALL, false);
	assert_int_equal(link_address_parse("fd00::7", 9, &peer, &is_v6), 0);
	assert_int_equal(link_udp_mtu(&peer, false), -EINVAL);
	assert_int_equal(kernel.sockets, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_mtu__asks_for_the_route_itself),
		cmocka_unit_test(link_mtu__the_smaller_of_route_and_interface_counts),
		cmocka_unit_test(link_mtu__any_of_several_ways_may_be_the_one),
		cmocka_unit_test(link_mtu__answer_that_is_cut_off_says_nothing),
		cmocka_unit_test(link_mtu__other_message_than_a_route_says_nothing),
		cmocka_unit_test(link_mtu__what_fails_is_told_or_done_without),
		cmocka_unit_test(link_mtu__address_of_the_other_family_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
