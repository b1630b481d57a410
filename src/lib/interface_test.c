/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct host_line {
	const char *name, *ip;
	uint32_t bits; /* as people write them */
	bool is_loopback;
};

/* clang-format off */
static const struct host_line host[] = {
	{ "lo",      "127.0.0.1",    8,   true },
	{ "lo",      "::1",          128, true },
	{ "docker0", "172.17.0.1",   16,  false },
	{ "eth0",    "10.0.0.5",     24,  false },
	{ "eth0",    "fe80::5",      64,  false },
	{ "eth0",    "fd00:1::5",    64,  false },
	{ "eth1",    "10.1.0.5",     24,  false },
	{ "ib0",     "192.168.9.5",  16,  false },
	{ "ib0",     "fd00:9::5",    64,  false },
};

/* A pattern, where the aggregator is, and what must be chosen: NULL is nothing. */
static const struct {
	const char *pattern, *peer, *name, *ip;
} choices[] = {
	{ "eth",            "10.0.0.9",    "eth0",    "10.0.0.5" },
	{ "eth",            "10.1.0.9",    "eth1",    "10.1.0.5" },  /* in its network */
	{ "eth",            "8.8.8.8",     "eth0",    "10.0.0.5" },  /* the kernel's order */
	{ "ib,eth",         "8.8.8.8",     "eth0",    "10.0.0.5" },
	{ "ib",             "10.0.0.9",    "ib0",     "192.168.9.5" },
	{ "=eth1",          "10.0.0.9",    "eth1",    "10.1.0.5" },
	{ "=eth",           "10.0.0.9",    NULL,      NULL },
	{ "=eth1,ib0",      "192.168.7.1", "ib0",     "192.168.9.5" },
	{ "^docker,lo",     "8.8.8.8",     "eth0",    "10.0.0.5" },
	{ "^docker",        "8.8.8.8",     "eth0",    "10.0.0.5" },  /* never lo by itself */
	{ "^docker,eth,ib", "8.8.8.8",     NULL,      NULL },
	{ "^=eth0",         "10.0.0.9",    "docker0", "172.17.0.1" },
	{ "^docker",        "127.0.0.1",   "lo",      "127.0.0.1" },
	{ "lo",             "10.0.0.9",    "lo",      "127.0.0.1" },
	{ "eth",            "127.0.0.1",   "eth0",    "10.0.0.5" },
	{ "10.0.0.0/8",     "10.1.0.9",    "eth1",    "10.1.0.5" },
	{ "10.1.0.0/16",    "10.0.0.9",    "eth1",    "10.1.0.5" },
	{ "10.0.0.4/31",    "10.1.0.9",    "eth0",    "10.0.0.5" },
	{ "10.0.0.6/31",    "10.1.0.9",    NULL,      NULL },
	{ "10.0.0.0/29",    "10.1.0.9",    "eth0",    "10.0.0.5" },
	{ "10.0.0.8/29",    "10.1.0.9",    NULL,      NULL },
	{ "0.0.0.0/0",      "8.8.8.8",     "docker0", "172.17.0.1" },
	{ "^172.16.0.0/12", "8.8.8.8",     "eth0",    "10.0.0.5" },
	{ "fd00::/8,ib",    "192.168.0.1", "ib0",     "192.168.9.5" },
	{ "10.0.0.0/8",     "fd00:1::9",   NULL,      NULL },
	{ "fd00::/8",       "fd00:9::9",   "ib0",     "fd00:9::5" },
	{ "eth",            "2001:db8::1", "eth0",    "fd00:1::5" }, /* before a link-local one */
	{ "fe80::/10",      "2001:db8::1", "eth0",    "fe80::5" },
	{ "eth",            "::1",         "eth0",    "fd00:1::5" },
	{ "wlan",           "10.0.0.9",    NULL,      NULL },
};

static const struct { const char *pattern, *word; } patterns[] = {
	{ "eth,ib", NULL }, { "=eth0", NULL }, { "^docker,lo", NULL }, { "^=lo", NULL },
	{ "10.0.0.0/8,fd00::/8,eth", NULL }, { "eth0.100,br-1f@x", NULL },
	{ "", "empty" }, { "^", "empty" }, { "eth,", "empty" }, { ",eth", "empty" },
	{ "a,,b", "empty" }, { "10.0.0.0/33", "network" }, { "10.0.0/8", "network" },
	{ "fd00::/129", "network" }, { "10.0.0.0/", "network" }, { "10.0.0.0/8x", "network" },
	{ "/8", "network" }, { "10.0.0.0/99999999999999999999", "network" },
	{ "a234567890123456", "15 bytes" }, { "eth,^lo", "front" }, { "eth,=lo", "front" },
	{ "eth 0", "front" }, { "eth0:1", "front" },
	{ "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee/64", "network" },
};
/* clang-format on */

enum { HOST_LINES = sizeof(host) / sizeof(host[0]) };

static void ip_read(const char *text, uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	if (inet_pton(AF_INET, text, ip + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, ip), 1);
}

static void interface__the_pattern_and_the_aggregator_choose_the_address(void **state)
{
	struct interface list[HOST_LINES];

	(void)state;
	memset(list, 0, sizeof(list));
	for (uint32_t i = 0; i < HOST_LINES; i++) {
		strcpy(list[i].name, host[i].name);
		ip_read(host[i].ip, list[i].ip);
		list[i].prefix_bits = host[i].bits + (strchr(host[i].ip, ':') ? 0 : 96);
		list[i].is_loopback = host[i].is_loopback;
	}
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		uint8_t peer[16], ip[16];
		int chosen;

		ip_read(choices[i].peer, peer);
		chosen = interface_choose(choices[i].pattern, list, HOST_LINES, peer);
		if (!choices[i].name) {
			if (chosen != -1)
				fail_msg("%s chose %s", choices[i].pattern, list[chosen].name);
			continue;
		}
		ip_read(choices[i].ip, ip);
		if (chosen < 0 || strcmp(list[chosen].name, choices[i].name) != 0 ||
		    memcmp(list[chosen].ip, ip, 16) != 0)
			fail_msg("%s towards %s chose %s", choices[i].pattern, choices[i].peer,
				 chosen < 0 ? "nothing" : host[chosen].ip);
	}
}

static void interface__bad_patterns_are_refused_by_what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		const char *why = interface_pattern_check(patterns[i].pattern);

		if (!why != !patterns[i].word || (why && !strstr(why, patterns[i].word)))
			fail_msg("\"%s\": %s", patterns[i].pattern, why ? why : "taken");
	}
}

static void interface__this_host_has_loopback_and_a_refusal_lists_it(void **state)
{
	static const uint8_t peer[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 9 };
	char text[INTERFACE_TEXT_BYTES], why[256] = "";
	uint8_t from[16];

	(void)state;
	assert_true(interface_pick("lo", peer, from, text, why, sizeof(why)));
	assert_string_equal(text, "lo 127.0.0.1");
	assert_int_equal(from[12], 127);
	assert_false(interface_pick("nosuch", peer, from, text, why, sizeof(why)));
	assert_non_null(strstr(why, "TALLY_IFNAME=nosuch"));
	assert_non_null(strstr(why, "IPv4"));
	assert_non_null(strstr(why, "lo 127.0.0.1"));
}

/* ---- a host whose interfaces are the test's ---- */

static struct ifaddrs *played; /* NULL: this host's own */
static bool is_without;        /* the kernel says nothing */
static int frees;

int __real_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all);
void __real_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all);

int __wrap_getifaddrs(struct ifaddrs **all)
{
	if (is_without)
		return -1;
	if (!played)
		return __real_getifaddrs(all);
	*all = played;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
	frees++;
	if (!played)
		__real_freeifaddrs(all);
}

static struct sockaddr_in v4[] = { { .sin_family = AF_INET },
				   { .sin_family = AF_INET },
				   { .sin_family = AF_INET } };
static struct sockaddr_in6 v6[] = { { .sin6_family = AF_INET6 },
				    { .sin6_family = AF_INET6, .sin6_scope_id = 0x203 },
				    { .sin6_family = AF_INET6 } };

static void *v4_of(struct sockaddr_in *at, const char *text)
{
	assert_int_equal(inet_pton(AF_INET, text, &at->sin_addr), 1);
	return at;
}

static void *v6_of(struct sockaddr_in6 *at, const char *text)
{
	assert_int_equal(inet_pton(AF_INET6, text, &at->sin6_addr), 1);
	return at;
}

/* Of these four are up and have an address of ours: with a mask, without, and link-local. */
static void host_play(struct ifaddrs all[7])
{
	static struct sockaddr other = { .sa_family = AF_PACKET };

	memset(all, 0, 7 * sizeof(*all));
	for (int i = 0; i < 7; i++) {
		all[i].ifa_next = i < 6 ? &all[i + 1] : NULL;
		all[i].ifa_flags = IFF_UP;
		all[i].ifa_name = (char *)(uintptr_t) "eth0";
	}
	all[1].ifa_addr = &other;
	all[2].ifa_addr = v4_of(&v4[0], "10.1.2.3");
	all[2].ifa_netmask = v4_of(&v4[1], "255.255.240.0");
	all[3].ifa_addr = v4_of(&v4[0], "10.1.2.3");
	all[3].ifa_flags = IFF_UP | IFF_LOOPBACK;
	all[3].ifa_name = (char *)(uintptr_t) "a234567890123456789"; /* longer than any */
	all[4].ifa_addr = v6_of(&v6[0], "fd00:1::5");
	all[4].ifa_netmask = v6_of(&v6[2], "ffff:ffff:ffff:fffe::");
	all[5].ifa_addr = v6_of(&v6[1], "fe80::7");
	all[6].ifa_addr = v4_of(&v4[2], "10.9.9.9");
	all[6].ifa_flags = 0; /* down */
	played = all;
}

static void interface__of_a_host_is_what_is_up_and_has_an_address(void **state)
{
	static const struct {
		const char *name, *text;
		uint32_t bits;
		bool is_loopback;
	} wanted[] = { { "eth0", "eth0 10.1.2.3", 96 + 20, false },
		       { "a23456789012345", "a23456789012345 10.1.2.3", 128, true },
		       { "eth0", "eth0 fd00:1::5", 63, false },
		       { "eth0", "eth0 fe80::7", 128, false } };
	struct interface list[INTERFACES_MAX];
	char text[INTERFACE_TEXT_BYTES];
	struct ifaddrs all[7];

	(void)state;
	host_play(all);
	frees = 0;
	assert_int_equal(interface_list(list), 4);
	assert_int_equal(frees, 1);
	for (size_t i = 0; i < 4; i++) {
		assert_string_equal(list[i].name, wanted[i].name);
		assert_string_equal(interface_format(&list[i], text), wanted[i].text);
		assert_int_equal(list[i].prefix_bits, wanted[i].bits);
		assert_int_equal(list[i].is_loopback, wanted[i].is_loopback);
	}
	assert_int_equal(list[3].ip[2], 2); /* a link-local address is one link's */
	assert_int_equal(list[3].ip[3], 3);
	all[2].ifa_netmask = v4_of(&v4[1], "0.0.0.0");
	assert_int_equal(interface_list(list), 4);
	assert_int_equal(list[0].prefix_bits, 96);
	/* What lies behind a mask is no part of it. */
	memset(v4[1].sin_zero, 0xff, sizeof(v4[1].sin_zero));
	all[2].ifa_netmask = v4_of(&v4[1], "255.255.255.255");
	assert_int_equal(interface_list(list), 4);
	assert_int_equal(list[0].prefix_bits, 128);
	memset(v4[1].sin_zero, 0, sizeof(v4[1].sin_zero));
	is_without = true;
	assert_int_equal(interface_list(list), 0);
	is_without = false;
	played = NULL;
}

/* Only there two bytes are no part of the address. */
static void interface__link_local_is_fe80_to_febf(void **state)
{
	static const struct {
		const char *ip, *text;
	} cases[] = { { "fe80:102::5", "e fe80::5" },
		      { "febf:102::5", "e febf::5" },
		      { "fec0:102::5", "e fec0:102::5" },
		      { "fe7f:102::5", "e fe7f:102::5" },
		      { "2080:102::5", "e 2080:102::5" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct interface one = { .name = "e" };
		char text[INTERFACE_TEXT_BYTES];

		ip_read(cases[i].ip, one.ip);
		assert_string_equal(interface_format(&one, text), cases[i].text);
	}
}

static void interface__more_than_there_is_room_for_are_left_out(void **state)
{
	static struct ifaddrs all[INTERFACES_MAX + 2];
	struct interface list[INTERFACES_MAX];

	(void)state;
	for (int i = 0; i < INTERFACES_MAX + 2; i++)
		all[i] = (struct ifaddrs){ .ifa_next = i <= INTERFACES_MAX ? &all[i + 1] : NULL,
					   .ifa_flags = IFF_UP,
					   .ifa_name = (char *)(uintptr_t) "eth0",
					   .ifa_addr = v4_of(&v4[0], "10.1.2.3") };
	played = all;
	assert_int_equal(interface_list(list), INTERFACES_MAX);
	played = NULL;
}

/* What does not fit is cut, and all that does is there. */
static void interface__a_refusal_names_what_there_is(void **state)
{
	static const char whole[] =
		"TALLY_IFNAME=nosuch matches no IPv4 address here: eth0 10.1.2.3, "
		"a23456789012345 10.1.2.3, eth0 fd00:1::5, eth0 fe80::7";
	static const uint8_t peer[16] = { [10] = 0xff, [11] = 0xff, [12] = 10 };
	char text[INTERFACE_TEXT_BYTES], why[sizeof(whole) + 8];
	struct ifaddrs all[7];
	uint8_t from[16];

	(void)state;
	host_play(all);
	for (size_t room = 1; room <= sizeof(whole) + 1; room++) {
		memset(why, '#', sizeof(why));
		assert_false(interface_pick("nosuch", peer, from, text, why, room));
		assert_int_equal(strlen(why), room < sizeof(whole) ? room - 1 : sizeof(whole) - 1);
		assert_memory_equal(why, whole, strlen(why));
		assert_int_equal(why[room], '#');
	}
	assert_true(interface_pick("10.1.0.0/16", peer, from, text, why, sizeof(why)));
	assert_string_equal(text, "eth0 10.1.2.3");
	played = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interface__the_pattern_and_the_aggregator_choose_the_address),
		cmocka_unit_test(interface__of_a_host_is_what_is_up_and_has_an_address),
		cmocka_unit_test(interface__link_local_is_fe80_to_febf),
		cmocka_unit_test(interface__more_than_there_is_room_for_are_left_out),
		cmocka_unit_test(interface__a_refusal_names_what_there_is),
		cmocka_unit_test(interface__bad_patterns_are_refused_by_what_is_wrong),
		cmocka_unit_test(interface__this_host_has_loopback_and_a_refusal_lists_it),
	};

	return cmocka_run_group_tests_name("lib-interface", tests, NULL, NULL);
}
