/* SPDX-License-Identifier: Apache-2.0 */
/* conn_address_test.c - what addresses say, and whom they mean. Nobody is connected to. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/conn.h"

static void assert_resolves(const char *text, int error, const char *shown)
{
	struct conn_address address;

	assert_int_equal(conn_resolve(text, 7171, &address), error);
	assert_string_equal(address.text, shown);
}

static void conn__addresses_are_understood_or_refused(void **state)
{
	(void)state;
	struct conn_address address;

	assert_resolves("127.0.0.1", 0, "127.0.0.1:7171");
	assert_resolves("127.0.0.1:80", 0, "127.0.0.1:80");
	assert_resolves("[::1]:80", 0, "[::1]:80");
	assert_resolves("[::1]", 0, "[::1]:7171");
	assert_resolves("::1", 0, "[::1]:7171");
	if (!access("/etc/hosts", R_OK)) /* a Debian from debootstrap has none */
		assert_resolves("localhost:80", 0, "localhost:80");
	assert_resolves("@name", 0, "@name");
	assert_resolves("127.0.0.1:", -EINVAL, "127.0.0.1:");
	assert_resolves("127.0.0.1:70000", -EINVAL, "127.0.0.1:70000");
	assert_resolves("127.0.0.1:8x", -EINVAL, "127.0.0.1:8x");
	assert_resolves("127.0.0.1:-1", -EINVAL, "127.0.0.1:-1");
	assert_resolves("127.0.0.1:+8", -EINVAL, "127.0.0.1:+8");
	assert_resolves("127.0.0.1: 8", -EINVAL, "127.0.0.1: 8");
	assert_resolves("127.0.0.1:9", 0, "127.0.0.1:9");
	assert_resolves("127.0.0.1:65535", 0, "127.0.0.1:65535");
	assert_resolves("127.0.0.1:65536", -EINVAL, "127.0.0.1:65536");
	assert_resolves("[::1]80", -EINVAL, "[::1]80");
	assert_resolves("[::1", -EINVAL, "[::1");
	assert_resolves("@", -EINVAL, "@");
	assert_resolves("", -EINVAL, "");
	assert_resolves(":80", -EINVAL, ":80");
	assert_resolves("[]:80", -EINVAL, "[]:80");
	assert_resolves("127.0.0.1:0", -EINVAL, "127.0.0.1:0");
	assert_resolves("[::1]:00", -EINVAL, "[::1]:00");
	assert_int_equal(conn_resolve("127.0.0.1:0", 0, &address), 0); /* to listen there */
	int error = conn_resolve("no-such-host.invalid", 1, &address);
	assert_true(error == -ENOENT || error == -EAGAIN);
	assert_int_equal(conn_resolve("127.0.0.1:80", 1, &address), 0);
	assert_int_equal(address.socket.ss_family, AF_INET);
	assert_int_equal(ntohs(((struct sockaddr_in *)&address.socket)->sin_port), 80);
}

static void conn__addresses_of_no_host_are_named(void **state)
{
	static const struct {
		const char *text, *word;
	} unfits[] = {
		{ "fe80::1", "%INTERFACE" },
		{ "[fe80::1]:80", "%INTERFACE" },
		{ "224.0.0.1", "multicast" },
		{ "ff02::1", "multicast" },
		{ "255.255.255.255", "broadcast" },
		{ "0.0.0.0", "every address" },
		{ "::", "every address" },
		{ "[fe80::1%lo]:80", NULL },
		{ "192.0.2.1", NULL },
		{ "127.0.0.1", NULL },
		{ "::1", NULL },
		{ "@name", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(unfits) / sizeof(unfits[0]); i++) {
		struct conn_address address;
		const char *why;

		assert_int_equal(conn_resolve(unfits[i].text, 7171, &address), 0);
		why = conn_address_unfit(&address);
		if (!why != !unfits[i].word || (why && !strstr(why, unfits[i].word)))
			fail_msg("%s: %s", unfits[i].text, why ? why : "fit");
	}
}

static void conn__one_fit_address_of_a_name_is_enough(void **state)
{
	struct conn_address address, other;

	(void)state;
	assert_int_equal(conn_resolve("224.0.0.1", 7171, &address), 0);
	assert_int_equal(conn_resolve("127.0.0.1", 7171, &other), 0);
	address.others[address.others_count++] = other.socket;
	assert_null(conn_address_unfit(&address));
}

static void conn__link_local_address_keeps_its_interface(void **state)
{
	(void)state;
	struct conn_address address;
	uint8_t ip[16];
	uint16_t port;

	assert_int_equal(conn_resolve("[fe80::1%lo]:80", 1, &address), 0);
	conn_address_ip(&address, ip, &port);
	assert_memory_equal(ip, "\xfe\x80\0\1\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	assert_int_equal(port, 80);
}

/* Indices of interfaces have two bytes there; what lies behind the 16 is not touched. */
static void conn__addresses_are_16_bytes_with_their_interface(void **state)
{
	struct {
		uint8_t ip[16], behind;
	} v4 = { .behind = 0xa5 }, v6 = { .behind = 0xa5 }, none = { .behind = 0xa5 };
	struct conn_address address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address.socket;
	uint16_t port;

	(void)state;
	assert_int_equal(conn_resolve("[fe80::1%lo]:80", 1, &address), 0);
	in6->sin6_scope_id = 0x8234;
	in6->sin6_flowinfo = UINT32_MAX; /* what is before and behind the bytes */
	conn_address_ip(&address, v6.ip, &port);
	assert_memory_equal(v6.ip, "\xfe\x80\x82\x34\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	assert_int_equal(v6.behind, 0xa5);
	assert_int_equal(conn_resolve("127.0.0.1:80", 1, &address), 0);
	conn_address_ip(&address, v4.ip, &port);
	assert_memory_equal(v4.ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01", 16);
	assert_int_equal(v4.behind, 0xa5);
	assert_int_equal(conn_resolve("@name", 1, &address), 0);
	memset(none.ip, 0xff, sizeof(none.ip));
	conn_address_ip(&address, none.ip, &port);
	assert_memory_equal(none.ip, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(none.behind, 0xa5);
	assert_int_equal(port, 0);
}

static void conn__names_of_this_host_are_as_long_as_they_are(void **state)
{
	struct conn_address address;
	const struct sockaddr_un *un = (const struct sockaddr_un *)&address.socket;
	char text[103] = "@";

	(void)state;
	assert_int_equal(conn_resolve("@name", 0, &address), 0);
	assert_int_equal(un->sun_family, AF_UNIX);
	assert_memory_equal(un->sun_path, "\0name\0", 6);
	assert_int_equal(address.bytes, offsetof(struct sockaddr_un, sun_path) + 5);
	memset(text + 1, 'x', 101);
	assert_int_equal(conn_resolve(text, 0, &address), -EINVAL);
	text[101] = 0;
	assert_int_equal(conn_resolve(text, 0, &address), 0);
	assert_memory_equal(un->sun_path + 1, text + 1, 100);
	assert_int_equal(address.bytes, offsetof(struct sockaddr_un, sun_path) + 101);
}

static void conn__next_of_one_address_is_itself(void **state)
{
	struct conn_address address, before;

	(void)state;
	assert_int_equal(conn_resolve("@name", 0, &address), 0);
	memcpy(&before, &address, sizeof(before));
	conn_address_next(&address);
	assert_memory_equal(&address, &before, sizeof(address));
}

/* The kernel takes none that is as long as another family's. */
static void conn__next_address_is_as_long_as_its_family(void **state)
{
	struct conn_address address, other;

	(void)state;
	assert_int_equal(conn_resolve("127.0.0.1:80", 1, &address), 0);
	assert_int_equal(conn_resolve("[::1]:80", 1, &other), 0);
	address.others[address.others_count++] = other.socket;
	for (int turn = 0; turn < 4; turn++) {
		assert_int_equal(address.socket.ss_family, turn % 2 ? AF_INET6 : AF_INET);
		assert_int_equal(address.bytes, turn % 2 ? sizeof(struct sockaddr_in6)
							 : sizeof(struct sockaddr_in));
		conn_address_next(&address);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conn__addresses_are_understood_or_refused),
		cmocka_unit_test(conn__addresses_of_no_host_are_named),
		cmocka_unit_test(conn__one_fit_address_of_a_name_is_enough),
		cmocka_unit_test(conn__link_local_address_keeps_its_interface),
		cmocka_unit_test(conn__addresses_are_16_bytes_with_their_interface),
		cmocka_unit_test(conn__names_of_this_host_are_as_long_as_they_are),
		cmocka_unit_test(conn__next_of_one_address_is_itself),
		cmocka_unit_test(conn__next_address_is_as_long_as_its_family),
	};

	return cmocka_run_group_tests_name("control-conn_address", tests, NULL, NULL);
}
