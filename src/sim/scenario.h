/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario.h - what a seed chooses: who takes part, how they are wired, what they compute, when, and how
 * bad the network is. A pure function of (seed, kind).
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "dataplane/endpoint.h"
#include "sim/net.h"

enum {
	SIM_WORKERS_MAX = 8,
	SIM_SHARDS_MAX = 3,
	SIM_ENGINES_MAX = 9, /* of one shard: a root, and at most a node per worker */
	SIM_OPS_DENSE = 40,
	SIM_OPS_MAX = 400,
	SIM_JOBS_MAX = 3,
	SIM_LANES_MAX = 360,
	SIM_PARENT_NONE = 0xff,
};

/* X(name, what it is) */
/* clang-format off */
#define SCENARIO_KINDS(X)                                                                     \
	X(lossy, "2 % loss, duplication, reordering, now and then a pause")                   \
	X(clean, "nothing is lost: no UPDATE may be sent twice")                              \
	X(storm, "up to 25 % loss, 20 % duplicates, half of the packets out of order")        \
	X(pauses, "nodes and lines stand still often, for up to 300 ms")                      \
	X(restart, "the job restarts in its midst, with a fresh generation; old packets live") \
	X(rebind, "workers move to another port, as behind a NAT")                            \
	X(disagree, "one rank calls another operation: a verdict or a stall, never a result")  \
	X(latency, "latency mode, both forms: loss, duplicates, reordering, restarts")          \
	X(fifo, "1 % loss, and nothing overtakes anything: what SwitchML's paper assumes")     \
	X(overtaken, "nothing is lost, a few packets are late: others overtake them")          \
	X(small, "operations of one packet, several at once, 1 % loss, nothing out of order")    \
	X(partition, "the network falls apart, one way or both, for up to 3 s, and heals")      \
	X(stopped, "processes stand still, up to three at once, for up to 5 s: SIGSTOP, GC")    \
	X(straggle, "one rank or more is late with every call, for up to 1 s, and slow to poll") \
	X(crash, "workers and switches die; the next life has the right sums, or a named error") \
	X(drift, "every node's clock runs up to 10 % wrong, changes its rate and jumps ahead")   \
	X(incast, "nothing is lost by chance: queues of 8 to 32 packets in front of a switch")   \
	X(jobs, "two or three jobs on the same switches, 2 % loss")                              \
	X(deep, "trees of three levels, 2 % loss, a level may be a single node")                 \
	X(narrow, "nothing is lost by chance: cables of 1 to 100 Mbit/s behind very long queues")
/* clang-format on */

enum scenario_kind {
#define X(name, text) SCENARIO_##name,
	SCENARIO_KINDS(X)
#undef X
		SCENARIO_COUNT,
	SCENARIO_ANY = SCENARIO_COUNT,
};

/* What is in the vectors. Elements come in blocks, and each block has its own kind of contents. */
struct scenario_op {
	enum lanes_type type;
	enum lanes_op op;
	bool is_barrier;
	int stream; /* enum map_stream, or -1: by its size */
	uint64_t count;
	uint32_t is_in_place; /* a bit per rank */
	bool is_plain;        /* numbers that a reader of a trace can tell apart; `data` is 0..9 */
	uint64_t data;        /* seeds its contents */
	/* LANES_COPY: seeds its parts, and who wants them. Of a sum: who wants which pieces; 0: all want all. The
	 * highest bit: one worker alone wants each piece (R-WK-15). */
	uint64_t parts;
};

/* R-WK-13, R-WK-14. Each part has two pieces, as in a scatter a worker may want one and not the other. Parts and pieces may be
 * empty. */
struct scenario_parts {
	uint32_t count;                       /* 1 to as many as there are workers */
	uint64_t ends[SIM_WORKERS_MAX];       /* of each part */
	uint64_t pieces[2 * SIM_WORKERS_MAX]; /* where these end */
	uint32_t mine[SIM_WORKERS_MAX];       /* which part a worker has; `count`: none */
	uint32_t wanted
		[SIM_WORKERS_MAX]; /* by a worker: a bit per piece; of a sum, by some worker */
	bool is_for_one;           /* by one */
};

/* How a worker behaves. */
struct scenario_worker {
	bool is_waiting;      /* submits only when all before is done */
	uint32_t gap_ns;      /* between its submissions, at random up to this */
	uint32_t straggle;    /* parts per million of its submissions that are late, */
	uint32_t straggle_ns; /* up to so much */
	uint32_t window;      /* at first */
	uint32_t window_ns;   /* changes it so often; 0: never */
	struct net_host host;
};

/* One shard: a tree of engines. Engine 0 is the root; parent[i] < i. */
struct scenario_shard {
	uint32_t engines;
	uint8_t parent[SIM_ENGINES_MAX];
	uint8_t engine_of[SIM_WORKERS_MAX]; /* where each worker is a child */
	struct net_host host[SIM_ENGINES_MAX];
};

/* Ours, or those of a paper (published.h). */
enum sim_rules { SIM_OURS, SIM_SWITCHML, SIM_P4SGD };

struct scenario {
	uint64_t seed;
	enum scenario_kind kind;
	enum sim_rules rules;
	uint32_t packets_max; /* as asked for; 0 */
	uint32_t jobs, job;   /* how many share the switches; which one this is */
	uint32_t workers, shards;
	uint32_t lanes, run, slots;
	uint32_t latency_window; /* not 0: latency mode, P; slots is S */
	bool is_restarted;       /* the job restarts in its midst */
	uint32_t seq_first;      /* every slot begins as if it had done so many rounds */
	bool is_hello;           /* workers are bound by HELLO, not by hand */
	bool is_plain;           /* flat, one shard, plain int32: also for published.h */
	struct scenario_worker worker[SIM_WORKERS_MAX];
	struct scenario_shard shard[SIM_SHARDS_MAX];
	struct net_weather weather;
	uint32_t pause_every_ns; /* on average; 0: never */
	uint32_t pause_ns;       /* at most */
	/* partition, stopped, crash, drift: so often, after up to `strike_gap_ns` of peace, for up to
	 * `strike_ns` */
	uint32_t strikes;
	uint64_t strike_gap_ns, strike_ns;
	bool is_given_up;  /* crash: the last one ends in an error, not in another life */
	uint64_t bound_ns; /* no longer without progress, once all is healed */
	uint64_t rest_ns;  /* after everything is done, until nothing may be on its way any more */
	uint64_t fault_first, fault_last; /* net.h */
	const struct edits *edits;        /* edit.h: what has been made smaller; NULL */
	uint32_t ops;
	struct scenario_op op[SIM_OPS_MAX];
	/* restart, rebind, disagree */
	uint32_t strike_op; /* restart: when rank 0 has submitted it; disagree: the operation */
	uint32_t odd_rank;
	struct scenario_op odd_op;
};

void scenario_draw(struct scenario *scenario, uint64_t seed, enum scenario_kind kind);
/* The run is to take `packets_max` packets at most, or not many more: many short runs find more in an hour
 * than a few long ones. 0: 24,000. */
void scenario_draw_short(struct scenario *scenario, uint64_t seed, enum scenario_kind kind,
			 uint32_t packets_max);
/* Job number `job` of those that share the scenario's switches, 1..jobs - 1. */
void scenario_draw_job(struct scenario *scenario, const struct scenario *first, uint32_t job);
/* scenario_wide.c: what the kinds from `partition` on change in what a seed has drawn. */
void scenario_widen(struct scenario *scenario, struct rng *rng);
void scenario_deepen(struct scenario_shard *shard, uint32_t workers, struct rng *rng);
/* scenario_parts.c: how the vector of a gather, or of a sum of which not all want all, is divided among so many workers. */
void scenario_parts(const struct scenario_op *op, uint32_t workers, struct scenario_parts *parts);
const char *scenario_name(enum scenario_kind kind);
const char *scenario_about(enum scenario_kind kind);
/* SCENARIO_COUNT: no such name. */
enum scenario_kind scenario_find(const char *name);
/* One line: n, shape, lanes, run, slots, operations, network. */
void scenario_describe(const struct scenario *scenario, char text[256]);

#endif
