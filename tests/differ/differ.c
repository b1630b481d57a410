/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/differ/differ.h"

#include <stdio.h>
#include <string.h>

#include "core/shared/hash.h"

enum role { ROOT, NODE, PARENT, LATENCY, ACKNOWLEDGED };
_Static_assert(ACKNOWLEDGED + 1 == (int)DIFFER_ROLES, "one column each");

/* What may come of a packet that is one, for whom: all of these must happen, and nothing else. */
#define IN(role) (1u << (role))
#define TREE (IN(ROOT) | IN(NODE))
#define FAST (IN(LATENCY) | IN(ACKNOWLEDGED))
#define CHILDREN (TREE | FAST)
#define ALL (CHILDREN | IN(PARENT))

/* clang-format off */
static const struct outcome {
	const char *name;
	uint8_t result, type; /* type 0: any */
	uint8_t roles;
} outcomes[] = {
	{ "absorb",             SWITCH_ABSORB,          0,            ALL },
	{ "reply RESULT",       SWITCH_REPLY,           WIRE_RESULT,  CHILDREN },
	{ "reply HELD",         SWITCH_REPLY,           WIRE_HELD,    CHILDREN },
	{ "reply NEED",         SWITCH_REPLY,           WIRE_NEED,    TREE },
	{ "reply CONFIRM",      SWITCH_REPLY,           WIRE_CONFIRM, IN(ACKNOWLEDGED) },
	{ "multicast RESULT",   SWITCH_MULTICAST,       WIRE_RESULT,  IN(ROOT) | IN(PARENT) | FAST },
	{ "multicast CONFIRM",  SWITCH_MULTICAST,       WIRE_CONFIRM, IN(ACKNOWLEDGED) },
	{ "up",                 SWITCH_UP,              WIRE_UPDATE,  IN(NODE) | IN(PARENT) },
	{ "held up",            SWITCH_HELD_UP,         WIRE_HELD,    IN(NODE) },
	{ "mismatch",           SWITCH_MISMATCH,        0,            CHILDREN },
	{ "drop type",          SWITCH_DROP_TYPE,       0,            ALL },
	{ "drop job",           SWITCH_DROP_JOB,        0,            ALL },
	{ "drop generation",    SWITCH_DROP_GENERATION, 0,            ALL },
	{ "drop child",         SWITCH_DROP_CHILD,      0,            CHILDREN },
	{ "drop slot",          SWITCH_DROP_SLOT,       0,            ALL },
	{ "drop lanes",         SWITCH_DROP_LANES,      0,            ALL },
	{ "drop stale",         SWITCH_DROP_STALE,      0,            ALL },
	{ "drop alarm",         SWITCH_DROP_ALARM,      0,            CHILDREN },
	{ "anything else",      UINT8_MAX,              0,            0 },
};
/* clang-format on */
enum { OUTCOMES = sizeof(outcomes) / sizeof(outcomes[0]), RUNS_MAX = 3 };
_Static_assert(OUTCOMES <= (int)DIFFER_OUTCOMES, "one row each");

static const char *const role_names[DIFFER_ROLES] = { "root", "node", "parent", "latency", "ack" };
static const char *const fault_names[] = { "no fault",   "fault short", "fault version",
					   "fault type", "fault lanes", "fault length",
					   "fault flags" };
_Static_assert(sizeof(fault_names) / sizeof(fault_names[0]) == (size_t)WIRE_FAULT_COUNT, "all");

void differ_init(struct differ *differ, uint64_t seed, struct differ_build *builds, uint32_t count)
{
	memset(differ, 0, sizeof(*differ));
	differ->seed = seed;
	differ->builds = builds;
	differ->builds_count = count;
	differ->hash = HASH_BEGIN;
	rng_init(&differ->rng, seed, 0);
	differ_draw_world(differ);
}

/* The row of what came of a packet that is one. */
static uint32_t outcome_of(uint32_t result, const struct differ_datagram *made)
{
	uint32_t row = 0;
	struct wire wire;

	wire_get(made->frame.made, &wire);
	while (row < OUTCOMES - 1 && (outcomes[row].result != result ||
				      (outcomes[row].type && outcomes[row].type != wire.type)))
		row++;
	return row;
}

const char *differ_result_name(const struct differ *differ, uint32_t build)
{
	uint32_t result = differ->results[build];

	if (result >= DIFFER_FAULT && result < DIFFER_RESULTS)
		return fault_names[result - DIFFER_FAULT];
	return outcomes[outcome_of(result, &differ->made[build])].name;
}

static void counts_add(struct differ *differ)
{
	const struct differ_datagram *made = &differ->made[0];
	uint32_t result = differ->results[0], index;
	const struct switch_job *job;
	struct wire was, is;
	enum role role;

	if (result >= DIFFER_FAULT) {
		differ->faults[(result - DIFFER_FAULT) % WIRE_FAULT_COUNT]++;
		return;
	}
	wire_get(made->frame.header, &was);
	wire_get(made->frame.made, &is);
	index = made->frame.from == DIFFER_PARENT ? made->frame.job : was.job;
	if (index >= DIFFER_JOBS) {
		differ->strangers++;
		return;
	}
	job = &differ->builds[0].world.jobs[index];
	role = made->frame.from == DIFFER_PARENT          ? PARENT
	       : job->mode == SWITCH_LATENCY              ? LATENCY
	       : job->mode == SWITCH_LATENCY_ACKNOWLEDGED ? ACKNOWLEDGED
	       : job->has_parent                          ? NODE
							  : ROOT;
	differ->counts[outcome_of(result, made)][role]++;
	differ->wraps += is.seq == 0 && (result == SWITCH_MULTICAST || result == SWITCH_UP);
}

static bool worlds_agree(const struct differ_world *a, const struct differ_world *b)
{
	return !memcmp(a->slots, b->slots, DIFFER_SLOTS_ALL * sizeof(*a->slots)) &&
	       !memcmp(a->jobs, b->jobs, DIFFER_JOBS * sizeof(*a->jobs));
}

static bool build_agrees(const struct differ *differ, uint32_t build)
{
	return differ->results[build] == differ->results[0] &&
	       !memcmp(&differ->made[build], &differ->made[0], sizeof(differ->made[0])) &&
	       worlds_agree(&differ->builds[build].world, &differ->builds[0].world);
}

/* The first build that differs from the first of all; 0: none. */
static uint32_t build_other(const struct differ *differ)
{
	for (uint32_t i = 1; i < differ->builds_count; i++) {
		if (!build_agrees(differ, i))
			return i;
	}
	return 0;
}

bool differ_next(struct differ *differ)
{
	differ_draw_event(differ);
	differ->bytes = differ_draw_datagram(differ, &differ->sent);
	differ->packets++;
	for (uint32_t i = 0; i < differ->builds_count; i++) {
		struct differ_build *build = &differ->builds[i];

		differ->made[i] = differ->sent;
		differ->results[i] =
			build->run(&build->world, &differ->made[i].frame, differ->bytes);
	}
	counts_add(differ);
	differ->hash = hash_number(differ->hash, differ->results[0], 4);
	differ->hash = hash_bytes(differ->hash, differ->made[0].frame.made, 2 * WIRE_HEADER_BYTES);
	return !build_other(differ);
}

static void wire_print(const char *what, const uint8_t *header)
{
	struct wire wire;

	wire_get(header, &wire);
	printf("  %s version %u type %u flags %#04x job %u generation %#x seq %#x slot %u child %u "
	       "exponent %u lanes %u tag %#x\n",
	       what, header[0] >> 4, wire.type, wire.flags, wire.job, wire.generation, wire.seq,
	       wire.slot, wire.child, wire.exponent, wire.lanes, wire.tag);
}

static void sent_print(const struct differ *differ)
{
	const struct differ_datagram *sent = &differ->sent;
	uint32_t bytes = differ->bytes - (uint32_t)offsetof(struct differ_frame, header);

	if (sent->frame.from == DIFFER_PARENT)
		printf("  from the parent of job %u, %u bytes\n", sent->frame.job, bytes);
	else
		printf("  from a child, %u bytes\n", bytes);
	wire_print("sent:", sent->frame.header);
	printf("  lanes:");
	for (uint32_t i = 0; 4 * i + WIRE_HEADER_BYTES < bytes; i++)
		printf(" %08x", (unsigned)sent->lane[i]);
	printf("\n");
}

static void set_print(const char *name, const uint64_t *set)
{
	printf(" %s", name);
	for (uint32_t word = SWITCH_BITMAP_WORDS; word-- > 0;)
		printf("%s%016llx", word + 1 == SWITCH_BITMAP_WORDS ? " " : ":",
		       (unsigned long long)set[word]);
}

static void slot_print(const char *name, const struct differ_slot *slot)
{
	const struct switch_latency_slot *latency = &slot->latency;
	const struct switch_slot *dense = &slot->dense;

	printf("    %s: generation %#x phase %#x final %u", name, dense->generation, dense->phase,
	       dense->final);
	set_print("in", dense->bitmap);
	for (uint32_t i = 0; i < 2; i++)
		printf(" copy %u: tag %#x lanes %u exponent %u last %u flags %#04x", i,
		       dense->copy[i].tag, dense->copy[i].lanes, dense->copy[i].exponent,
		       dense->copy[i].last, dense->copy[i].flags);
	printf("\n    %s: latency: generation %#x round %#x tag %#x lanes %u last %u flags %#04x",
	       name, latency->generation, latency->round, latency->tag, latency->lanes,
	       latency->last, latency->flags);
	set_print("in", latency->sum_bitmap);
	set_print("acknowledged", latency->ack_bitmap);
	printf("\n");
}

static void slots_print(const struct differ_build *first, const struct differ_build *other)
{
	for (uint32_t i = 0; i < DIFFER_SLOTS_ALL; i++) {
		const struct differ_slot *a = &first->world.slots[i], *b = &other->world.slots[i];

		if (!memcmp(a, b, sizeof(*a)))
			continue;
		printf("  slot %u of job %u differs:\n", i % DIFFER_SLOTS, i / DIFFER_SLOTS);
		slot_print(first->name, a);
		slot_print(other->name, b);
		for (uint32_t k = 0; k < sizeof(a->sum) / sizeof(a->sum[0]); k++) {
			if (a->sum[k] != b->sum[k])
				printf("    sum %u of %u: %s %08x, %s %08x\n", k % DIFFER_LANES,
				       k / DIFFER_LANES, first->name, (unsigned)a->sum[k],
				       other->name, (unsigned)b->sum[k]);
		}
	}
}

void differ_print(const struct differ *differ)
{
	const uint32_t builds[] = { 0, build_other(differ) };

	printf("packet %u of seed %llu: %s and %s differ\n", differ->packets,
	       (unsigned long long)differ->seed, differ->builds[0].name,
	       differ->builds[builds[1]].name);
	sent_print(differ);
	for (uint32_t i = 0; i < 2; i++) {
		const struct differ_datagram *made = &differ->made[builds[i]];

		printf("  %s: %s\n", differ->builds[builds[i]].name,
		       differ_result_name(differ, builds[i]));
		wire_print("  made: ", made->frame.made);
		wire_print("  probe:", made->frame.probe);
		if (memcmp(made->frame.header, differ->sent.frame.header, WIRE_HEADER_BYTES) ||
		    memcmp(made->lane, differ->sent.lane, sizeof(made->lane)))
			printf("  and has written over what was sent\n");
	}
	slots_print(&differ->builds[0], &differ->builds[builds[1]]);
}

static bool once(bool is_right, const char *what, const char *name)
{
	if (!is_right)
		printf("%s: %s\n", what, name);
	return is_right;
}

bool differ_table(const struct differ *differ)
{
	bool is_whole = true;

	printf("%-18s", "");
	for (uint32_t role = 0; role < DIFFER_ROLES; role++)
		printf(" %9s", role_names[role]);
	printf("\n");
	for (uint32_t row = 0; row < OUTCOMES; row++) {
		printf("%-18s", outcomes[row].name);
		for (uint32_t role = 0; role < DIFFER_ROLES; role++)
			printf(" %9llu", (unsigned long long)differ->counts[row][role]);
		printf("\n");
	}
	for (uint32_t fault = 1; fault < WIRE_FAULT_COUNT; fault++) {
		printf("%s %llu, ", fault_names[fault], (unsigned long long)differ->faults[fault]);
		is_whole &= differ->faults[fault] > 0;
	}
	printf("of no job %llu, restarts %llu, results of seq 0 %llu\n",
	       (unsigned long long)differ->strangers, (unsigned long long)differ->lives,
	       (unsigned long long)differ->wraps);
	is_whole &= differ->strangers > 0 && differ->lives > 0 && differ->wraps > 0;
	is_whole = once(is_whole, "never", "one of these");
	for (uint32_t row = 0; row < OUTCOMES; row++) {
		for (uint32_t role = 0; role < DIFFER_ROLES; role++) {
			bool may_be = outcomes[row].roles >> role & 1,
			     is = differ->counts[row][role];

			if (may_be != is)
				is_whole = once(false, is ? "impossible" : "never",
						outcomes[row].name);
		}
	}
	return is_whole;
}

uint32_t differ_find(struct differ *differ, uint32_t packets)
{
	while (differ->packets < packets) {
		if (!differ_next(differ))
			return differ->packets;
	}
	return UINT32_MAX;
}

bool differ_agree(struct differ *differ, uint32_t packets)
{
	bool is_whole = false;

	/* What comes in spells, as a job that is switched off, stays away from one run in hundreds. */
	for (uint32_t run = 1; run <= RUNS_MAX && !is_whole; run++) {
		if (differ_find(differ, packets * run) != UINT32_MAX) {
			differ_print(differ);
			return false;
		}
		is_whole = differ_table(differ);
	}
	printf("%u packets, the same in", differ->packets);
	for (uint32_t i = 0; i < differ->builds_count; i++)
		printf("%s %s", i ? "," : "", differ->builds[i].name);
	printf(": hash %016llx\n", (unsigned long long)differ->hash);
	return is_whole;
}
