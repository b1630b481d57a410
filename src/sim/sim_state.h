/* SPDX-License-Identifier: Apache-2.0 */
/* sim_state.h - what the parts of the command share: what was asked for, and what has been done. */
#ifndef SIM_SIM_STATE_H
#define SIM_SIM_STATE_H

#include <sys/types.h>

#include "sim/edit.h"
#include "sim/run.h"

enum {
	SIM_EXIT_VIOLATED = 1,
	SIM_EXIT_USAGE = 2,
	SIM_PROCESSES_MAX = 256,
	SIM_EVERY = SCENARIO_COUNT + 1, /* a kind: all of them in turn, by the seed */
};

struct sim_job {
	uint64_t seed;
	enum scenario_kind kind;
	uint32_t packets_max; /* 0: none */
	uint32_t patience_ms; /* no longer without progress; 0: as the scenario says */
	enum sim_rules rules;
};

struct sim {
	const char *name;
	uint64_t first, last; /* seeds; of a list the least and the largest */
	uint32_t kind;        /* enum scenario_kind, or SIM_EVERY */
	const char *list_path;
	struct sim_job *list;
	uint32_t list_count;
	uint32_t packets_max;
	uint32_t patience_ms;
	enum sim_rules rules;
	uint32_t jobs;      /* processes */
	struct edits edits; /* of every scenario */
	bool has_edits;
	bool is_verbose, is_json, is_shortest, is_shrunk;
};

/* What one process did; of one kind of scenario, or of all. */
struct sim_part {
	struct run_report sum;
	uint64_t runs, violations;
	uint64_t stall_seed; /* that waited longest for progress */
};

struct sim_tally {
	struct sim_part all, of[SCENARIO_COUNT];
	uint64_t first_seed;     /* that failed */
	struct sim_job shortest; /* of those that failed, the one with the fewest packets */
	uint64_t shortest_packets;
	double cpu_seconds;
	bool is_whole; /* it has done all that it had to */
};

/* sim_job.c */
extern const char *const sim_rules_names[]; /* by enum sim_rules */
struct opt_value;
/* A..B, or one. NULL, or what is wrong. */
const char *sim_seeds_take(struct opt_value *value, uint64_t *first, uint64_t *last);
/* The job's scenario, made smaller if `edits` is not NULL. */
void sim_job_draw(const struct sim_job *job, const struct edits *edits, struct scenario *scenario);
/* The options that draw this job's scenario: " --seed 7 --scenario storm". */
void sim_job_text(const struct sim_job *job, char text[96]);
/* As fork: a process that does not outlive this one. */
pid_t sim_fork(void);

/* shrink.c: makes the job's scenario as small as it fails with. The exit status. */
int sim_shrink(const struct sim *sim, const struct sim_job *job);

/* sim_report.c */
void sim_help(const char *name);
void sim_table(const struct sim_tally *tally);
void sim_json(const struct sim *sim, const struct sim_tally *tally);
double sim_percent(uint64_t part, uint64_t all);

#endif
