/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interface_fuzz.c - any TALLY_IFNAME against some interfaces. What is chosen matches by itself; if
 * nothing is, nothing would match by itself; the order of the list decides among equals only.
 */
#include "lib/interface.h"
#include "tests/fuzz/input.h"

enum { LIST = 4, PATTERN_BYTES = 200 };

static void ip_draw(struct fuzz_input *input, uint8_t how, uint8_t ip[16])
{
	static const uint8_t known[4][16] = {
		{ [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
		{ [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 },
		{ 0xfe, 0x80, [15] = 1 },
		{ 0xfd, [15] = 1 },
	};

	memcpy(ip, known[how & 3], 16);
	if (how & 4)
		ip[13] = fuzz_u8(input);
	if (how & 8)
		(void)fuzz_bytes(input, ip, 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const names[] = {
		"lo", "eth0", "eth1", "ib0", "docker0", "e", "eth", ""
	};
	struct fuzz_input input = { data, bytes };
	struct interface list[LIST];
	char pattern[PATTERN_BYTES + 1], text[INTERFACE_TEXT_BYTES];
	uint8_t peer[16];
	uint32_t count = fuzz_u8(&input) % (LIST + 1);
	int chosen;

	memset(list, 0, sizeof(list));
	for (uint32_t i = 0; i < count; i++) {
		uint8_t how = fuzz_u8(&input), more = fuzz_u8(&input);

		snprintf(list[i].name, INTERFACE_NAME_BYTES, "%s", names[how & 7]);
		list[i].is_loopback = how >> 3 & 1;
		list[i].prefix_bits = more % 129u;
		ip_draw(&input, how >> 4, list[i].ip);
		interface_format(&list[i], text);
		FUZZ_CHECK(strnlen(text, sizeof(text)) < sizeof(text));
	}
	ip_draw(&input, fuzz_u8(&input), peer);
	pattern[fuzz_bytes(&input, pattern, PATTERN_BYTES)] = '\0';
	if (interface_pattern_check(pattern))
		return 0;
	chosen = interface_choose(pattern, list, count, peer);
	FUZZ_CHECK(chosen >= -1 && chosen < (int)count);
	FUZZ_CHECK(chosen < 0 || interface_choose(pattern, &list[chosen], 1, peer) == 0);
	for (uint32_t i = 0; i < count && chosen < 0; i++)
		FUZZ_CHECK(interface_choose(pattern, &list[i], 1, peer) == -1);
	return 0;
}
