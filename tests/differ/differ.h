/* SPDX-License-Identifier: Apache-2.0 */
/*
 * differ.h - the differential test: several builds of the switch programs, each over a world of its own,
 * get the same random datagrams. After every one, what came of it, what was made of it and the whole
 * worlds must be the same, byte by byte.
 */
#ifndef TESTS_DIFFER_DIFFER_H
#define TESTS_DIFFER_DIFFER_H

#include "tests/differ/frame.h"
#include "util/rng.h"

struct differ_world {
	struct switch_job *jobs;   /* DIFFER_JOBS */
	struct differ_slot *slots; /* DIFFER_SLOTS_ALL */
};

/* A frame and its lanes. */
struct differ_datagram {
	struct differ_frame frame;
	int32_t lane[DIFFER_LANES_SENT];
};

typedef uint32_t differ_run(struct differ_world *world, struct differ_frame *frame, uint32_t bytes);

/* One of the builds that are compared; the first is the one that the others must be like. */
struct differ_build {
	const char *name;
	differ_run *run;
	struct differ_world world; /* lent by the caller; of zeros */
};

enum { DIFFER_BUILDS_MAX = 8, DIFFER_OUTCOMES = 24, DIFFER_ROLES = 5 };

struct differ {
	uint64_t seed;
	struct rng rng;
	struct differ_build *builds;
	uint32_t builds_count;
	uint32_t packets; /* so far */
	uint64_t hash;    /* of all results and what was made: the same on every machine */
	uint64_t counts[DIFFER_OUTCOMES][DIFFER_ROLES];
	uint64_t faults[WIRE_FAULT_COUNT], strangers, wraps, lives;
	/* The last packet: as it came, and what each build made of it. */
	uint32_t bytes;
	struct differ_datagram sent, made[DIFFER_BUILDS_MAX];
	uint32_t results[DIFFER_BUILDS_MAX];
};

/* Makes all worlds alike. */
void differ_init(struct differ *differ, uint64_t seed, struct differ_build *builds, uint32_t count);
/* One more packet. False: the builds differ; differ_print says how. */
bool differ_next(struct differ *differ);
void differ_print(const struct differ *differ);
/* How often what happened. False, and why, if something has never happened that a packet can do, or
 * something that none can do. */
bool differ_table(const struct differ *differ);
/* Runs to that number of packets, and up to three times as far while something is missing from the table. True if
 * all builds agree on all of them and nothing is missing; else says why not. */
bool differ_agree(struct differ *differ, uint32_t packets);
/* The number of the first packet, of at most so many, that the builds disagree on; UINT32_MAX: none. */
uint32_t differ_find(struct differ *differ, uint32_t packets);
/* What that build has made of the last packet, in words. */
const char *differ_result_name(const struct differ *differ, uint32_t build);

/* draw.c. Makes what surrounds the packets: restarts and the like, in all worlds; and a datagram: its
 * length, with the frame. Both as it suits the first build's world. */
void differ_draw_world(struct differ *differ);
void differ_draw_event(struct differ *differ);
uint32_t differ_draw_datagram(struct differ *differ, struct differ_datagram *datagram);

/* build.c: one for each compiler and option. */
differ_run differ_gcc_O0, differ_gcc_O2, differ_gcc_O3;
differ_run differ_clang_O0, differ_clang_O2, differ_clang_O3;
/* The check with this name is taken out. */
differ_run differ_without;
extern const char *differ_taken_out;

#endif
