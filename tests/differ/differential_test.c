/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gcc and clang make of the switch programs, with and without optimisation, is the same, byte by
 * byte; and a build with one check taken out is not. Arguments: how many packets, the seed.
 */
#include "tests/differ/differ.h"

#include <string.h>

#include "tests/random.h"

enum { PACKETS = 100000, PACKETS_FOUND = 300000, BUILDS = 6 };

static const char *const checks[] = {
#define CHECK(name) #name,
#include "differ_checks.h"
#undef CHECK
};

/* step.h asks for a whole header before wire_check does; which form of latency mode a job has was settled
 * when it began. */
static bool is_before(const char *check)
{
	return !strcmp(check, "WIRE_SHORT") || !strcmp(check, "LATENCY_FORM");
}

const char *differ_taken_out = "";

static struct differ_build builds[BUILDS] = {
	{ .name = "gcc -O3", .run = differ_gcc_O3 },
	{ .name = "gcc -O2", .run = differ_gcc_O2 },
	{ .name = "gcc -O0", .run = differ_gcc_O0 },
	{ .name = "clang -O3", .run = differ_clang_O3 },
	{ .name = "clang -O2", .run = differ_clang_O2 },
	{ .name = "clang -O0", .run = differ_clang_O0 },
};

static struct memory {
	struct switch_job jobs[DIFFER_JOBS];
	struct differ_slot slots[DIFFER_SLOTS_ALL];
} memory[BUILDS];

static void worlds_clear(struct differ_build *these, uint32_t count)
{
	memset(memory, 0, sizeof(memory));
	for (uint32_t i = 0; i < count; i++)
		these[i].world = (struct differ_world){ memory[i].jobs, memory[i].slots };
}

/* With nothing taken out it agrees; with any check taken out it does not. */
static bool checks_are_seen(struct differ *differ)
{
	struct differ_build pair[] = { builds[0], { .name = "without", .run = differ_without } };
	bool is_seen = true;

	worlds_clear(pair, 2);
	differ_init(differ, seed, pair, 2);
	if (differ_find(differ, PACKETS_FOUND) != UINT32_MAX) {
		differ_print(differ);
		return false;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		uint32_t packet;

		if (is_before(checks[i]))
			continue;
		differ_taken_out = checks[i];
		worlds_clear(pair, 2);
		differ_init(differ, seed, pair, 2);
		packet = differ_find(differ, PACKETS_FOUND);
		if (packet == UINT32_MAX) {
			printf("without %s: FAILED: nothing differs\n", checks[i]);
			is_seen = false;
			continue;
		}
		if (differ->results[0] == differ->results[1])
			printf("without %s: packet %u: %s, but not the same\n", checks[i], packet,
			       differ_result_name(differ, 1));
		else
			printf("without %s: packet %u: %s, not %s\n", checks[i], packet,
			       differ_result_name(differ, 1), differ_result_name(differ, 0));
	}
	return is_seen;
}

int main(int argc, char **argv)
{
	uint32_t packets = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : PACKETS;
	static struct differ differ;
	bool is_right;

	seed_take(argc - 1, argv + 1);
	worlds_clear(builds, BUILDS);
	differ_init(&differ, seed, builds, BUILDS);
	is_right = differ_agree(&differ, packets);
	is_right &= checks_are_seen(&differ);
	return is_right ? 0 : 1;
}
