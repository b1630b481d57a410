/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_route.c - the MTU of a route as this host is configured. What ICMP has told of the path is left out:
 * anybody can say it, of any path, and the kernel remembers it for minutes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "util/whole.h"

enum { REPLY_BYTES = 8192, PATH_BYTES = 64 };

struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	uint8_t attributes[64];
};

static void put(struct question *question, uint16_t type, const void *data, size_t bytes)
{
	struct rtattr attribute = { .rta_type = type,
				    .rta_len = (uint16_t)RTA_LENGTH((uint32_t)bytes) };
	uint8_t *at = (uint8_t *)question + NLMSG_ALIGN(question->header.nlmsg_len);

	memcpy(at, &attribute, sizeof(attribute));
	memcpy(at + RTA_LENGTH(0), data, bytes);
	question->header.nlmsg_len =
		NLMSG_ALIGN(question->header.nlmsg_len) + RTA_SPACE((uint32_t)bytes);
}

/* FIB_MATCH: the route itself, not the entry that ICMP has made of it. */
static void ask(struct question *question, const union link_sockaddr *to)
{
	bool is_v6 = to->any.sa_family == AF_INET6;

	*question = (struct question){
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			    .nlmsg_type = RTM_GETROUTE,
			    .nlmsg_flags = NLM_F_REQUEST },
		.route = { .rtm_family = (uint8_t)to->any.sa_family,
			   .rtm_dst_len = is_v6 ? 128 : 32,
			   .rtm_flags = RTM_F_FIB_MATCH },
	};
	if (!is_v6) {
		put(question, RTA_DST, &to->v4.sin_addr, sizeof(to->v4.sin_addr));
		return;
	}
	put(question, RTA_DST, &to->v6.sin6_addr, sizeof(to->v6.sin6_addr));
	if (to->v6.sin6_scope_id)
		put(question, RTA_OIF, &to->v6.sin6_scope_id, sizeof(to->v6.sin6_scope_id));
}

/* What IPv6 may use of it: an advertisement of the router's can make it less. */
static int mtu_of_v6(const char *interface)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/mtu", interface);
	return (int)whole_number(path, 0);
}

/* 0: not known. */
static int mtu_of_interface(unsigned index, bool is_v6)
{
	struct ifreq request = { .ifr_mtu = 0 };
	int fd, mtu = 0, less;

	if (!if_indextoname(index, request.ifr_name))
		return 0;
	fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	if (!ioctl(fd, SIOCGIFMTU, &request))
		mtu = request.ifr_mtu;
	close(fd);
	less = is_v6 ? mtu_of_v6(request.ifr_name) : 0;
	return less && less < mtu ? less : mtu;
}

static uint32_t get_u32(const struct rtattr *attribute)
{
	uint32_t value = 0;

	if (RTA_PAYLOAD(attribute) >= sizeof(value))
		memcpy(&value, RTA_DATA(attribute), sizeof(value));
	return value;
}

static int smaller(int mtu, int other)
{
	return !mtu || (other && other < mtu) ? other : mtu;
}

/* For rtnetlink's own macros, which cast away what the compiler knows of alignment. */
static const void *after(const void *at, size_t bytes)
{
	return (const uint8_t *)at + bytes;
}

static const struct rtattr *next_of(const struct rtattr *attribute, int *left)
{
	size_t bytes = RTA_ALIGN((size_t)attribute->rta_len);

	*left -= (int)bytes;
	return after(attribute, bytes);
}

static int mtu_of_metrics(const struct rtattr *metrics)
{
	int left = (int)RTA_PAYLOAD(metrics);

	for (const struct rtattr *a = RTA_DATA(metrics); RTA_OK(a, left); a = next_of(a, &left))
		if (a->rta_type == RTAX_MTU)
			return (int)get_u32(a);
	return 0;
}

/* Any of several interfaces may be the one. */
static int mtu_of_several(const struct rtattr *several, bool is_v6)
{
	int left = (int)RTA_PAYLOAD(several);
	const struct rtnexthop *next = RTA_DATA(several);
	int mtu = 0;

	for (; left >= (int)sizeof(*next) && RTNH_OK(next, left);
	     next = after(next, (size_t)RTNH_ALIGN(next->rtnh_len))) {
		mtu = smaller(mtu, mtu_of_interface((unsigned)next->rtnh_ifindex, is_v6));
		left -= RTNH_ALIGN(next->rtnh_len);
	}
	return mtu;
}

/* The route's own, if it has one, or its interface's. 0: not known. */
static int mtu_of_reply(const struct nlmsghdr *reply, size_t bytes, bool is_v6)
{
	const struct rtmsg *route = NLMSG_DATA(reply);
	int mtu = 0, told = 0;
	const struct rtattr *a;
	int left;

	if (!NLMSG_OK(reply, bytes) || reply->nlmsg_type != RTM_NEWROUTE ||
	    reply->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return 0;
	left = (int)RTM_PAYLOAD(reply);
	a = after(route, NLMSG_ALIGN(sizeof(*route)));
	for (; RTA_OK(a, left); a = next_of(a, &left)) {
		if (a->rta_type == RTA_OIF)
			mtu = smaller(mtu, mtu_of_interface(get_u32(a), is_v6));
		else if (a->rta_type == RTA_MULTIPATH)
			mtu = smaller(mtu, mtu_of_several(a, is_v6));
		else if (a->rta_type == RTA_METRICS)
			told = mtu_of_metrics(a);
	}
	return smaller(mtu, told);
}

/* 0: the kernel does not say. */
static int mtu_of_route(const union link_sockaddr *to)
{
	union {
		struct nlmsghdr header;
		uint8_t bytes[REPLY_BYTES];
	} reply;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct question question;
	ssize_t got = -1;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return 0;
	ask(&question, to);
	if (sendto(fd, &question, question.header.nlmsg_len, 0, (struct sockaddr *)&kernel,
		   sizeof(kernel)) > 0)
		got = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT); /* it answers while we send */
	close(fd);
	return got > 0 ? mtu_of_reply(&reply.header, (size_t)got, to->any.sa_family == AF_INET6)
		       : 0;
}

int link_udp_mtu(const struct link_address *peer, bool is_v6)
{
	union link_sockaddr to;
	socklen_t bytes = link_address_to_socket(peer, is_v6, &to), size = sizeof(int);
	int fd, mtu, result;

	if (!bytes)
		return -EINVAL;
	fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, &to.any, bytes) || getsockopt(fd, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP,
						      is_v6 ? IPV6_MTU : IP_MTU, &mtu, &size))
		result = -errno;
	else
		result = mtu;
	close(fd);
	mtu = result > 0 ? mtu_of_route(&to) : 0;
	return mtu ? mtu : result;
}
