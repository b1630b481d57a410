/* SPDX-License-Identifier: Apache-2.0 */
/* admission_said.h - where a walk of admission_walk.c is, and what its processes say. */
#ifndef SEARCH_ADMISSION_SAID_H
#define SEARCH_ADMISSION_SAID_H

#include "core/job/admission.h"
#include "util/rng.h"

#define MS_NS UINT64_C(1000000)
#define SECOND_NS (1000 * MS_NS)

enum { PLACES = 14, SHARDS = 64, COMMANDS = 8, RANKS = 7, WAITERS = 4, OPS_MAX = 12 };
enum { ADMISSION_WORDS = 4096, ACTIONS = 3 * (RANKS + WAITERS + 1) + 4 };

/* What the processes of a walk are like. */
enum mood {
	MOOD_ORDERLY,         /* they come, run and leave */
	MOOD_CROWD,           /* too many come, for ranks that are held */
	MOOD_ODD,             /* they differ, are unfit, say what does not fit */
	MOOD_CALLS,           /* their programs differ */
	MOOD_SLOW,            /* they wait, and are silent */
	MOOD_PLOT,            /* what happens once it has started is about one thing */
	MOODS = MOOD_PLOT + 4 /* four times as often as another */
};

enum plot {
	PLOT_DIFFER,   /* their programs differ in one number */
	PLOT_CHANGE,   /* ... and do not when they are asked again */
	PLOT_STILL,    /* no results come */
	PLOT_DEADLINE, /* one's is over */
	PLOT_LEAVE,    /* some leave while others wait */
	PLOTS
};

/* Numbers of operations count from the walk's first one. */
struct process {
	uint32_t connection; /* 0: none */
	bool is_told;        /* CLOSE: it may only close */
	uint64_t submitted, oldest;
	uint32_t program;
};

struct command {
	enum admission_command what;
	uint32_t generation;
};

struct admission_walk {
	struct rng rng;
	uint64_t now_ns;
	uint32_t walk, step, connections, generation, hosts;
	uint32_t shards;
	enum mood mood;
	enum plot plot;
	uint32_t plot_generation, plot_kinds, plot_mute;
	uint64_t plot_number, first;
	struct admission_config config;
	struct process process[PLACES];
	struct command queue[SHARDS][COMMANDS];
	uint32_t queued[SHARDS];
	uint64_t memory[ADMISSION_WORDS];
};
extern struct admission_walk admission_now;

/* Who has a connection, as the shipped code has it. */
struct person {
	struct process *process; /* NULL: there is nobody */
	const struct admission_peer *peer;
	const struct admission_member *member; /* NULL: it waits */
};

uint32_t admission_draw(uint32_t below);
struct admission *admission_shipped(void);
const struct admission_peer *admission_waiters_of(struct admission *admission);
struct process *admission_whose(uint32_t connection); /* NULL: nobody's */
/* Anybody who is_wanted, if that is not NULL. */
struct person admission_somebody(bool (*is_wanted)(const struct person *person));
bool admission_is_ready(const struct person *person);
struct control_join admission_join(void);
struct control_opinfo admission_opinfo(struct process *process); /* lent until the next call */
struct control_message admission_said(const struct person *person);

#endif
