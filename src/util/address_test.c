/* SPDX-License-Identifier: Apache-2.0 */
/* address_test.c - what people write, and what the kernel says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "util/address.h"

enum { UNSAID = 7171, HOST_BYTES = 16 };

static void split__takes_what_people_write(void **state)
{
	static const struct {
		const char *text, *host; /* NULL: refused */
		uint16_t port;
	} forms[] = {
		{ "host", "host", UNSAID },
		{ "host:80", "host", 80 },
		{ "10.0.0.1:0", "10.0.0.1", 0 },
		{ "h:65535", "h", 65535 },
		{ "h:00080", "h", 80 },
		{ "fd00::7", "fd00::7", UNSAID },
		{ "a:b:c", "a:b:c", UNSAID },
		{ "fe80::1%eth0", "fe80::1%eth0", UNSAID },
		{ "::", "::", UNSAID },
		{ "[fd00::7]", "fd00::7", UNSAID },
		{ "[fe80::1%lo]:9", "fe80::1%lo", 9 },
		{ "[host]:9", "host", 9 },
		{ "a]b", "a]b", UNSAID },
		{ "fifteen-letters", "fifteen-letters", UNSAID },
		{ .text = "sixteen--letters" },
		{ .text = "sixteen--letters:80" },
		{ .text = "[sixteen--letters]:80" },
		{ .text = "" },
		{ .text = ":" },
		{ .text = ":80" },
		{ .text = "[]" },
		{ .text = "[]:80" },
		{ .text = "[" },
		{ .text = "[fd00::7" },
		{ .text = "[fd00::7]x" },
		{ .text = "[fd00::7]80" },
		{ .text = "[fd00::7]:" },
		{ .text = "host:" },
		{ .text = "host:x" },
		{ .text = "host:8x" },
		{ .text = "host: 8" },
		{ .text = "host:+8" },
		{ .text = "host:-1" },
		{ .text = "host:65536" },
		{ .text = "host:99999999999999999999" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char host[HOST_BYTES + 1] = { [HOST_BYTES] = 'Z' };
		uint16_t port = UNSAID;
		int error = address_split(forms[i].text, host, HOST_BYTES, &port);

		if (error != (forms[i].host ? 0 : -EINVAL))
			fail_msg("%s: %d", forms[i].text, error);
		assert_int_equal(host[HOST_BYTES], 'Z');
		assert_int_equal(port, forms[i].host ? forms[i].port : UNSAID);
		if (forms[i].host)
			assert_string_equal(host, forms[i].host);
	}
}

static void text__comes_back(void **state)
{
	static const char *const texts[] = { "10.9.8.7", "fd00::7", "::", "::1", "fe80:1::2" };
	char text[INET6_ADDRSTRLEN];
	uint8_t ip[16];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_true(address_from_text(texts[i], ip));
		assert_int_equal(address_is_v4(ip), i == 0);
		assert_string_equal(address_to_text(ip, text), texts[i]);
	}
	assert_true(address_from_text("::ffff:1.2.3.4", ip));
	assert_string_equal(address_to_text(ip, text), "1.2.3.4");
	memset(ip, 0x5a, sizeof(ip));
	assert_false(address_from_text("host", ip));
	assert_false(address_from_text("", ip));
	for (int i = 0; i < 16; i++)
		assert_int_equal(ip[i], 0x5a);
}

static void kinds__are_told(void **state)
{
	static const struct {
		const char *text;
		bool is_loopback, is_link_local;
	} kinds[] = {
		{ "127.0.0.1", true, false },  { "127.9.9.9", true, false },
		{ "128.0.0.1", false, false }, { "::1", true, false },
		{ "::2", false, false },       { "fe80::1", false, true },
		{ "febf::1", false, true },    { "fec0::1", false, false },
		{ "fd80::1", false, false },
	};
	uint8_t ip[16];

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		assert_true(address_from_text(kinds[i].text, ip));
		assert_int_equal(address_is_loopback(ip), kinds[i].is_loopback);
		assert_int_equal(address_is_link_local(ip), kinds[i].is_link_local);
	}
}

static void sockets__are_16_bytes_and_a_port(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(0x1234),
				   .sin6_flowinfo = UINT32_MAX,
				   .sin6_scope_id = 0x98234 };
	struct sockaddr none = { .sa_family = AF_UNIX, .sa_data = "name" };
	uint16_t port;
	uint8_t ip[16];

	(void)state;
	memcpy(&v4.sin_addr, "\x0a\1\2\3", 4);
	address_from_socket((const struct sockaddr *)&v4, ip, &port);
	assert_memory_equal(ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\2\3", 16);
	assert_int_equal(port, 80);
	v6.sin6_addr.s6_addr[0] = 0xfe;
	v6.sin6_addr.s6_addr[1] = 0x80;
	v6.sin6_addr.s6_addr[15] = 7;
	address_from_socket((const struct sockaddr *)&v6, ip, &port);
	assert_memory_equal(ip, "\xfe\x80\x82\x34\0\0\0\0\0\0\0\0\0\0\0\7", 16);
	assert_int_equal(port, 0x1234);
	v6.sin6_addr.s6_addr[0] = 0xfd; /* no link-local one: its bytes are its own */
	address_from_socket((const struct sockaddr *)&v6, ip, &port);
	assert_memory_equal(ip, "\xfd\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\7", 16);
	address_from_socket(&none, ip, &port);
	assert_memory_equal(ip, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split__takes_what_people_write),
		cmocka_unit_test(text__comes_back),
		cmocka_unit_test(kinds__are_told),
		cmocka_unit_test(sockets__are_16_bytes_and_a_port),
	};

	return cmocka_run_group_tests_name("util-address", tests, NULL, NULL);
}
