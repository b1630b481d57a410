/* SPDX-License-Identifier: Apache-2.0 */
/* link_address_test.c - between the kernel's addresses and ours: claims. */
#include "dataplane/link_address.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dataplane/link_udp.h"

/* As inet_pton reads it; IPv4 as ::ffff:a.b.c.d. */
static struct link_address address_of(const char *text, uint16_t port)
{
	struct link_address address = { .port = port };

	assert_int_equal(inet_pton(AF_INET6, text, address.ip), 1);
	return address;
}

static void kinds_are(const char *text, bool is_any, bool is_v4, bool is_loopback)
{
	struct link_address address = address_of(text, 1);

	assert_int_equal(link_address_is_any(&address), is_any);
	assert_int_equal(link_address_is_v4(&address), is_v4);
	assert_int_equal(link_address_is_loopback(&address), is_loopback);
}

static void addresses__are_of_a_kind(void **state)
{
	(void)state;
	kinds_are("::", true, false, false);
	kinds_are("::ffff:0.0.0.0", true, true, false);
	kinds_are("::ffff:0.0.0.1", false, true, false);
	kinds_are("::ffff:1.0.0.0", false, true, false);
	kinds_are("::1", false, false, true);
	kinds_are("::2", false, false, false);
	kinds_are("1::1", false, false, false);
	kinds_are("::ffff:127.0.0.1", false, true, true);
	kinds_are("::ffff:127.255.0.9", false, true, true);
	kinds_are("::ffff:128.0.0.1", false, true, false);
	kinds_are("::ffff:1.0.0.127", false, true, false);
	kinds_are("::fffe:127.0.0.1", false, false, false);
	kinds_are("1::ffff:127.0.0.1", false, false, false);
}

static void addresses__go_to_sockets_of_their_family(void **state)
{
	struct link_address v4 = address_of("::ffff:10.1.2.3", 7171),
			    v6 = address_of("fd00::7", 258);
	struct link_address any = address_of("::", 80), back;
	union link_sockaddr to;

	(void)state;
	memset(&back, 0xff, sizeof(back));
	assert_int_equal(link_address_to_socket(&v4, false, &to), sizeof(to.v4));
	assert_int_equal(to.v4.sin_family, AF_INET);
	assert_int_equal(ntohs(to.v4.sin_port), 7171);
	assert_int_equal(ntohl(to.v4.sin_addr.s_addr), 0x0a010203);
	link_address_from_socket(&to, &back);
	assert_memory_equal(&back, &v4, sizeof(v4)); /* and `via` is none */
	assert_int_equal(link_address_to_socket(&v4, true, &to), 0);

	memset(&back, 0xff, sizeof(back));
	assert_int_equal(link_address_to_socket(&v6, true, &to), sizeof(to.v6));
	assert_int_equal(to.v6.sin6_family, AF_INET6);
	assert_int_equal(ntohs(to.v6.sin6_port), 258);
	assert_memory_equal(&to.v6.sin6_addr, v6.ip, 16);
	assert_int_equal(to.v6.sin6_scope_id, 0);
	link_address_from_socket(&to, &back);
	assert_memory_equal(&back, &v6, sizeof(v6));
	assert_int_equal(link_address_to_socket(&v6, false, &to), 0);

	/* "::" is anywhere, in both. */
	assert_int_equal(link_address_to_socket(&any, false, &to), sizeof(to.v4));
	assert_int_equal(to.v4.sin_addr.s_addr, 0);
	assert_int_equal(ntohs(to.v4.sin_port), 80);
	assert_int_equal(link_address_to_socket(&any, true, &to), sizeof(to.v6));

	/* A socket that speaks both takes either. */
	assert_int_equal(link_address_to_dual(&v4, &to), sizeof(to.v6));
	assert_int_equal(to.v6.sin6_family, AF_INET6);
	assert_memory_equal(&to.v6.sin6_addr, v4.ip, 16);
	assert_int_equal(ntohs(to.v6.sin6_port), 7171);
}

/* The interface of a link-local address lies where such an address has zeros. */
static void link_local__has_its_interface_with_it(void **state)
{
	static const char *const local[] = { "fe80::1:2", "febf::1:2" };
	static const char *const other[] = { "fec0::1:2", "fe00::1:2", "ff80::1:2" };

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct link_address plain = address_of(i < 2 ? local[i] : other[i - 2], 9), got;
		union link_sockaddr kernel = { .v6 = { .sin6_family = AF_INET6,
						       .sin6_port = htons(9),
						       .sin6_scope_id = 0x0403 } };

		memcpy(&kernel.v6.sin6_addr, plain.ip, 16);
		link_address_from_socket(&kernel, &got);
		assert_int_equal(got.ip[2], i < 2 ? 4 : 0);
		assert_int_equal(got.ip[3], i < 2 ? 3 : 0);
		assert_memory_equal(got.ip, plain.ip, 2);
		assert_memory_equal(got.ip + 4, plain.ip + 4, 12);
		assert_int_equal(link_address_to_socket(&got, true, &kernel), sizeof(kernel.v6));
		assert_int_equal(kernel.v6.sin6_scope_id, i < 2 ? 0x0403 : 0);
		assert_memory_equal(&kernel.v6.sin6_addr, plain.ip, 16);
	}
}

static void via__goes_beside_a_message_and_comes_back(void **state)
{
	(void)state;
	for (int is_v6 = 0; is_v6 < 2; is_v6++) {
		struct link_address our = address_of(is_v6 ? "fd00::5" : "::ffff:10.9.8.7", 0);
		struct link_address peer = { .port = 5 }, before;
		union link_control control;
		struct cmsghdr *header = &control.header;
		size_t bytes;

		memset(&control, 0, sizeof(control));
		assert_false(link_has_via(&peer));
		bytes = link_via_put(header, is_v6, our.ip);
		assert_int_equal(bytes, is_v6 ? CMSG_SPACE(sizeof(struct in6_pktinfo))
					      : CMSG_SPACE(sizeof(struct in_pktinfo)));
		assert_int_equal(header->cmsg_len, is_v6 ? CMSG_LEN(sizeof(struct in6_pktinfo))
							 : CMSG_LEN(sizeof(struct in_pktinfo)));
		assert_int_equal(header->cmsg_level, is_v6 ? IPPROTO_IPV6 : IPPROTO_IP);
		assert_int_equal(header->cmsg_type, is_v6 ? IPV6_PKTINFO : IP_PKTINFO);
		if (is_v6) {
			struct in6_pktinfo *info = (struct in6_pktinfo *)(void *)CMSG_DATA(header);

			assert_int_equal(info->ipi6_ifindex, 0); /* the route chooses it */
			assert_memory_equal(&info->ipi6_addr, our.ip, 16);
		} else {
			struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(header);

			assert_int_equal(info->ipi_ifindex, 0);
			assert_memory_equal(&info->ipi_spec_dst, our.ip + 12, 4);
		}
		link_via_get(header, &peer);
		assert_memory_equal(peer.via, our.ip, 16);
		assert_true(link_has_via(&peer));
		/* Nothing else is taken for it. */
		before = peer;
		memset(CMSG_DATA(header), 1, 12);
		header->cmsg_level = is_v6 ? IPPROTO_IP : IPPROTO_IPV6;
		link_via_get(header, &peer);
		assert_memory_equal(&peer, &before, sizeof(peer));
		header->cmsg_level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
		header->cmsg_type++;
		link_via_get(header, &peer);
		assert_memory_equal(&peer, &before, sizeof(peer));
	}
}

static void text__is_what_people_write(void **state)
{
	static const char *const texts[] = { "127.0.0.1:80", "[fd00::7]:65535", "[::]:0" };
	char text[64];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct link_address address;
		bool is_v6;

		assert_int_equal(link_address_parse(texts[i], 7171, &address, &is_v6), 0);
		assert_int_equal(is_v6, i > 0);
		assert_string_equal(link_address_format(&address, text), texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses__are_of_a_kind),
		cmocka_unit_test(addresses__go_to_sockets_of_their_family),
		cmocka_unit_test(link_local__has_its_interface_with_it),
		cmocka_unit_test(via__goes_beside_a_message_and_comes_back),
		cmocka_unit_test(text__is_what_people_write),
	};

	return cmocka_run_group_tests_name("dataplane-link-address", tests, NULL, NULL);
}
