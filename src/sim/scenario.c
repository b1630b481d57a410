/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/edit.h"

#include <stdio.h>
#include <string.h>

enum {
	US = 1000,
	MS = 1000 * US,
	PACKETS_MIN = 1500,  /* that a run is meant to take, both ways together */
	PACKETS_MAX = 24000, /* unless it is told */
	CHUNKS_MAX = 1200,   /* of one operation */
	CHUNKS_SHORT = 96,   /* where runs are to be short; more than an express operation has */
	SLOTS_MAX = 320,
	STRAGGLE_NS = 200 * MS,
	GATHERS_STREAM = 333,
	SCATTERS_STREAM = 334,
};
/* A whole turn of the held ring takes 4 s, and what is to be recovered in a tree by one PROBE takes four
 * packets in a row: in a storm, many turns. */
#define BOUND_NS 60000000000ull
#define REST_NS 2000000000ull
#define BOUND_STORM_NS 300000000000ull

static const char *const names[] = {
#define X(name, text) #name,
	SCENARIO_KINDS(X)
#undef X
};

static const char *const abouts[] = {
#define X(name, text) text,
	SCENARIO_KINDS(X)
#undef X
};

const char *scenario_name(enum scenario_kind kind)
{
	return kind < SCENARIO_COUNT ? names[kind] : "any";
}

const char *scenario_about(enum scenario_kind kind)
{
	return kind < SCENARIO_COUNT ? abouts[kind] : "";
}

enum scenario_kind scenario_find(const char *name)
{
	for (uint32_t kind = 0; kind < SCENARIO_COUNT; kind++)
		if (!strcmp(names[kind], name))
			return (enum scenario_kind)kind;
	return SCENARIO_COUNT;
}

static enum scenario_kind draw_kind(struct rng *rng)
{
	static const struct {
		enum scenario_kind kind;
		uint32_t percent;
	} share[] = {
		{ SCENARIO_lossy, 60 },   { SCENARIO_clean, 6 },   { SCENARIO_storm, 8 },
		{ SCENARIO_pauses, 7 },   { SCENARIO_restart, 7 }, { SCENARIO_rebind, 5 },
		{ SCENARIO_disagree, 7 },
	};
	uint32_t draw = rng_below(rng, 100);
	uint32_t i = 0;

	while (draw >= share[i].percent)
		draw -= share[i++].percent;
	return share[i].kind;
}

/* A flat shard is one engine; a tree is a root and up to n nodes, some of them with one child, some
 * workers at the root itself, now and then a third level. */
static void draw_shard(struct scenario_shard *shard, uint32_t workers, bool is_tree,
		       struct rng *rng)
{
	uint32_t nodes = is_tree ? 1 + rng_below(rng, workers) : 0;
	bool is_mixed = rng_chance(rng, 150000);

	shard->engines = 1 + nodes;
	shard->parent[0] = SIM_PARENT_NONE;
	for (uint32_t i = 1; i < shard->engines && i < SIM_ENGINES_MAX; i++)
		shard->parent[i] = rng_chance(rng, 80000) ? (uint8_t)rng_below(rng, i) : 0;
	for (uint32_t w = 0; w < workers && w < SIM_WORKERS_MAX; w++) {
		if (w < nodes)
			shard->engine_of[w] = (uint8_t)(w + 1); /* nobody is without a child */
		else if (is_mixed || !nodes)
			shard->engine_of[w] = (uint8_t)rng_below(rng, nodes + 1);
		else
			shard->engine_of[w] = (uint8_t)(1 + rng_below(rng, nodes));
	}
}

static void draw_line(struct net_line *line, const struct scenario *scenario, struct rng *rng)
{
	uint32_t bytes = wire_bytes(scenario->lanes) + NET_OVERHEAD_BYTES;
	/* 100 Gbit/s to 100 Mbit/s: mostly what a rack has. */
	uint32_t slowest = rng_chance(rng, 150000) ? 80000 : 8000;

	line->ps_per_byte = (uint32_t)rng_log(rng, 80, slowest);
	line->delay_ns = (uint32_t)rng_log(rng, 500, rng_chance(rng, 100000) ? 5 * MS : 50 * US);
	line->queue_bytes = bytes * (uint32_t)rng_log(rng, 32, 2048);
	line->loss = 0;
	if (scenario->kind == SCENARIO_clean)
		line->queue_bytes = 1u << 30;
	else if (rng_chance(rng, 30000)) /* a bad cable */
		line->loss = 1 + rng_below(rng, 150000);
}

static void draw_host(struct net_host *host, const struct scenario *scenario, struct rng *rng)
{
	uint32_t bytes = wire_bytes(scenario->lanes);

	draw_line(&host->out, scenario, rng);
	draw_line(&host->in, scenario, rng);
	host->poll_ns = rng_chance(rng, 300000) ? 0 : (uint32_t)rng_log(rng, 100, 30 * US);
	host->inbox_bytes = bytes * (uint32_t)rng_log(rng, 128, 4096);
	host->gro = rng_below(rng, 4) * 333333;
	if (scenario->kind == SCENARIO_clean)
		host->inbox_bytes = 1u << 30;
}

static void draw_weather(struct scenario *scenario, struct rng *rng)
{
	struct net_weather *weather = &scenario->weather;

	*weather = (struct net_weather){
		.loss = 20000,
		.duplicate = 10000,
		.reorder = 20000,
		.jitter_ns = rng_chance(rng, 200000) ? (uint32_t)rng_log(rng, 100, 20 * US) : 0,
		.reorder_ns = (uint32_t)rng_log(rng, 10 * US, 20 * MS),
	};
	scenario->pause_every_ns = rng_chance(rng, 300000) ? 200 * MS : 0;
	scenario->pause_ns = 20 * MS;
	if (scenario->kind == SCENARIO_clean) {
		*weather = (struct net_weather){ 0 };
		scenario->pause_every_ns = 0;
	} else if (scenario->kind == SCENARIO_storm) {
		weather->loss = rng_below(rng, 250000);
		weather->duplicate = rng_below(rng, 200000);
		weather->reorder = rng_below(rng, 500000);
	} else if (scenario->kind == SCENARIO_pauses) {
		scenario->pause_every_ns = 5 * MS;
		scenario->pause_ns = (uint32_t)rng_log(rng, 1 * MS, 300 * MS);
	}
}

static void draw_worker(struct scenario_worker *worker, const struct scenario *scenario,
			struct rng *rng)
{
	worker->is_waiting = rng_chance(rng, 250000);
	worker->gap_ns = (uint32_t)rng_log(rng, 1 * US, 2 * MS);
	worker->straggle = rng_chance(rng, 100000) ? 100000 : 5000;
	worker->straggle_ns = STRAGGLE_NS;
	worker->window = 1 + rng_below(rng, scenario->slots);
	worker->window_ns = rng_chance(rng, 400000) ? (uint32_t)rng_log(rng, 50 * US, 20 * MS) : 0;
	draw_host(&worker->host, scenario, rng);
}

/* Log-uniform, with the edges more often than chance would have it. */
static uint64_t draw_count(uint32_t lanes, uint32_t chunks_max, struct rng *rng)
{
	uint64_t edge;

	switch (rng_below(rng, 8)) {
	case 0:
		edge = MAP_EXPRESS_CHUNKS;
		break;
	case 1:
		edge = rng_log(rng, 1, chunks_max);
		break;
	case 2:
	case 3: /* a bulk operation, surely */
		return (uint64_t)lanes * rng_log(rng, MAP_EXPRESS_CHUNKS, chunks_max) + 1 +
		       rng_below(rng, lanes);
	default:
		return rng_log(rng, 1, (uint64_t)lanes * chunks_max);
	}
	if (edge > chunks_max)
		edge = chunks_max;
	return edge * lanes + rng_below(rng, 3) - 1;
}

/* An element is a lane, or three, or ten (a sum that is exact). float16, bfloat16 and float64 are not played but in
 * gathers: the second reading of the numbers has them, and the search has their shapes. */
static enum lanes_type draw_type(struct rng *rng)
{
	static const enum lanes_type others[] = { LANES_INT8, LANES_UINT8, LANES_UINT32,
						  LANES_INT64, LANES_UINT64 };

	if (rng_chance(rng, 200000))
		return others[rng_below(rng, sizeof(others) / sizeof(*others))];
	return rng_chance(rng, 400000) ? LANES_INT32 : LANES_FLOAT32;
}

static void draw_op(struct scenario_op *op, const struct scenario *scenario, uint32_t chunks_max,
		    struct rng *rng)
{
	*op = (struct scenario_op){
		.type = draw_type(rng),
		.op = rng_chance(rng, 300000) ? LANES_AVG : LANES_SUM,
		.stream = -1,
		.is_in_place = rng_u32(rng) & rng_u32(rng),
		.data = rng_next(rng),
	};
	if (rng_chance(rng, 60000)) {
		op->is_barrier = true;
		op->type = LANES_INT32;
		op->op = LANES_SUM;
	} else if (!rng_chance(rng, 30000)) {
		op->count = draw_count(scenario->lanes, chunks_max, rng);
	}
	if (lanes_bytes(op->type) == 8) /* in three lanes, or so */
		op->count /= 3;
	else if (!op->is_barrier && rng_chance(rng, 150000))
		op->op = rng_below(rng, 2) ? LANES_MAX : LANES_MIN;
	if (rng_chance(rng, 100000))
		op->stream = (int)rng_below(rng, MAP_STREAMS);
}

static void draw_ops(struct scenario *scenario, struct rng *rng)
{
	uint32_t most = scenario->packets_max ? scenario->packets_max : PACKETS_MAX;
	uint64_t packets = rng_log(rng, most < PACKETS_MIN ? most : PACKETS_MIN, most);
	uint64_t left = packets / (2 * scenario->workers) + 1; /* chunks */
	uint32_t chunks_max = (uint32_t)CHUNKS_MAX / (scenario->lanes > 64 ? 3u : 1u);

	if (scenario->packets_max && left < chunks_max)
		chunks_max = (uint32_t)(left < CHUNKS_SHORT ? CHUNKS_SHORT : left);

	while (scenario->ops < SIM_OPS_DENSE) {
		struct scenario_op *op = &scenario->op[scenario->ops++];
		draw_op(op, scenario, chunks_max, rng);
		uint64_t chunks = map_chunks(op->count, scenario->lanes);
		if (chunks >= left)
			break;
		left -= chunks;
	}
}

/* In some scenarios, some operations add nothing up (R-WK-13): they have as many bytes, of any type. A stream of their
 * own draws them, so that all else of a seed is as it was; one in which those of tests/sim/seeds.txt have none. */
static void draw_gathers(struct scenario *scenario)
{
	struct rng rng;

	rng_init(&rng, scenario->seed, GATHERS_STREAM);
	uint32_t share = rng_chance(&rng, 700000) ? 0 : rng_below(&rng, 1000000);
	for (uint32_t i = 0; i < scenario->ops; i++) {
		struct scenario_op *op = &scenario->op[i];
		uint32_t bytes = lanes_bytes(op->type);

		if (op->is_barrier || !rng_chance(&rng, share))
			continue;
		op->op = LANES_COPY;
		op->type = (enum lanes_type)rng_below(&rng, LANES_TYPES);
		op->count = op->count * bytes / lanes_bytes(op->type);
		op->parts = rng_next(&rng) >> 1;
	}
}

/* In some scenarios, not all ranks want all of some operations: as draw_gathers. */
static void draw_scatters(struct scenario *scenario)
{
	struct rng rng;

	rng_init(&rng, scenario->seed, SCATTERS_STREAM);
	uint32_t share = rng_chance(&rng, 700000) ? 0 : rng_below(&rng, 1000000);
	for (uint32_t i = 0; i < scenario->ops; i++) {
		struct scenario_op *op = &scenario->op[i];

		if (op->is_barrier || !rng_chance(&rng, share))
			continue;
		if (op->op == LANES_COPY)
			op->parts |= 1ull << 63;
		else
			op->parts = rng_next(&rng) | 1;
	}
}

/* Another operation than the others call: in one respect, at one rank. */
static void draw_odd(struct scenario *scenario, struct rng *rng)
{
	scenario->strike_op = rng_below(rng, scenario->ops);
	scenario->odd_rank = rng_below(rng, scenario->workers);
	const struct scenario_op *op = &scenario->op[scenario->strike_op];
	struct scenario_op *odd = &scenario->odd_op;

	*odd = *op;
	odd->is_barrier = false;
	switch (op->is_barrier ? 0 : rng_below(rng, 4)) {
	case 0:
		odd->count = op->count + 1;
		break;
	case 1:
		odd->type = op->type == LANES_INT32 ? LANES_FLOAT32 : LANES_INT32;
		break;
	case 2:
		if (op->op == LANES_COPY && op->data & 2)
			odd->parts++;
		else
			odd->op = op->op == LANES_AVG ? LANES_SUM : LANES_AVG;
		break;
	default:
		odd->count = draw_count(scenario->lanes, 200, rng);
		odd->count += odd->count == op->count;
		break;
	}
}

static struct net_host plain_host(struct rng *rng)
{
	struct net_line line = { .ps_per_byte = 800, /* 10 Gbit/s */
				 .queue_bytes = 1u << 30,
				 .delay_ns = (uint32_t)rng_log(rng, 2 * US, 20 * US) };

	return (struct net_host){
		.out = line, .in = line, .poll_ns = 2 * US, .inbox_bytes = 1u << 30
	};
}

static void plain_ops_draw(struct scenario *scenario, struct rng *rng)
{
	bool is_small = scenario->kind == SCENARIO_small;

	scenario->ops = 1; /* overtaken: a single tensor */
	if (scenario->kind == SCENARIO_fifo)
		scenario->ops = 1 + rng_below(rng, 6);
	if (is_small)
		scenario->ops = 4 + rng_below(rng, SIM_OPS_DENSE - 3);
	for (uint32_t i = 0; i < scenario->ops; i++) {
		uint64_t chunks = rng_log(rng, 3, 48);

		scenario->op[i] = (struct scenario_op){
			.type = LANES_INT32,
			.stream = -1,
			.count = (is_small ? 1 : chunks) * scenario->lanes,
			.is_plain = true,
			.data = i % 10,
		};
	}
}

/* A switch and its workers, small enough for a trace that can be read. */
static void plain_draw(struct scenario *scenario, struct rng *rng)
{
	bool is_fifo = scenario->kind == SCENARIO_fifo;

	scenario->is_plain = true;
	scenario->workers = (uint32_t)rng_log(rng, is_fifo ? 1 : 2, SIM_WORKERS_MAX);
	scenario->shards = 1;
	scenario->lanes = rng_chance(rng, 500000) ? 4 : 8;
	scenario->run = 1;
	scenario->slots = MAP_EXPRESS_SLOTS_MIN + 1 + rng_below(rng, 4);
	draw_shard(&scenario->shard[0], scenario->workers, false, rng);
	scenario->shard[0].host[0] = plain_host(rng);
	for (uint32_t w = 0; w < scenario->workers; w++)
		scenario->worker[w] = (struct scenario_worker){
			.is_waiting = scenario->kind != SCENARIO_small,
			.gap_ns = (uint32_t)rng_log(rng, 1 * US, 100 * US),
			.straggle = 5000,
			.straggle_ns = STRAGGLE_NS,
			.window = scenario->slots,
			.host = plain_host(rng),
		};
	if (scenario->kind == SCENARIO_overtaken) {
		scenario->weather.reorder = (uint32_t)rng_log(rng, 100, 20000);
		scenario->weather.reorder_ns = (uint32_t)rng_log(rng, 200 * US, 5 * MS);
		uint64_t workers = (1u << scenario->workers) - 1;
		uint32_t way = rng_below(rng, 3); /* late up, late down, or both */
		scenario->weather.in_order = way == 0 ? ~workers : way == 1 ? workers : 0;
	} else {
		scenario->weather.loss = 10000;
	}
	plain_ops_draw(scenario, rng);
}

/* S small or large, P anywhere in it: the acknowledged form where S < 2P. */
static void latency_slots_draw(struct scenario *scenario, struct rng *rng)
{
	scenario->slots = (uint32_t)rng_log(rng, 1, 64);
	if (rng_chance(rng, 20000)) /* more than operations */
		scenario->slots = SWITCH_LATENCY_SLOTS_MAX;
	scenario->latency_window = 1 + rng_below(rng, scenario->slots);
	if (rng_chance(rng, 400000)) /* the bound itself */
		scenario->latency_window = (scenario->slots + 1) / 2;
	if (scenario->latency_window > SIM_OPS_MAX)
		scenario->latency_window = scenario->slots / 2;
}

static void latency_ops_draw(struct scenario *scenario, struct rng *rng)
{
	scenario->ops = (uint32_t)rng_log(rng, 20, SIM_OPS_MAX);
	for (uint32_t i = 0; i < scenario->ops; i++) {
		struct scenario_op *op = &scenario->op[i];

		*op = (struct scenario_op){ .type = LANES_INT32,
					    .op = rng_chance(rng, 300000) ? LANES_AVG : LANES_SUM,
					    .stream = -1,
					    .is_in_place = rng_u32(rng) & rng_u32(rng),
					    .count = rng_below(rng, scenario->lanes + 1),
					    .data = rng_next(rng) };
		op->data |= rng_chance(rng, 900000); /* the others may be out of range */
		if (rng_chance(rng, 60000)) {
			op->is_barrier = true;
			op->op = LANES_SUM;
			op->count = 0;
		}
	}
}

/* Flat, one shard, every operation a packet. */
static void latency_draw(struct scenario *scenario, struct rng *rng)
{
	scenario->workers = 1 + rng_below(rng, SIM_WORKERS_MAX);
	scenario->shards = 1;
	scenario->lanes = rng_chance(rng, 200000) ? 64 : 8;
	scenario->run = (uint32_t)rng_between(rng, 1, 40);
	latency_slots_draw(scenario, rng);
	if (scenario->slots > 64)
		scenario->lanes = 8;
	if (rng_chance(rng, 500000))
		scenario->seq_first = UINT32_MAX - rng_below(rng, 12);
	scenario->is_hello = rng_chance(rng, 500000);
	draw_shard(&scenario->shard[0], scenario->workers, false, rng);
	draw_host(&scenario->shard[0].host[0], scenario, rng);
	for (uint32_t w = 0; w < scenario->workers; w++) {
		draw_worker(&scenario->worker[w], scenario, rng);
		scenario->worker[w].window_ns = 0;
	}
	draw_weather(scenario, rng);
	if (rng_chance(rng, 250000)) { /* a storm */
		scenario->weather.loss = rng_below(rng, 250000);
		scenario->weather.duplicate = rng_below(rng, 200000);
		scenario->weather.reorder = rng_below(rng, 500000);
	}
	latency_ops_draw(scenario, rng);
	scenario->is_restarted = rng_chance(rng, 200000);
	scenario->strike_op = rng_below(rng, scenario->ops);
}

void scenario_draw(struct scenario *scenario, uint64_t seed, enum scenario_kind kind)
{
	scenario_draw_short(scenario, seed, kind, 0);
}

void scenario_draw_short(struct scenario *scenario, uint64_t seed, enum scenario_kind kind,
			 uint32_t packets_max)
{
	static const uint32_t lanes[] = { 4, 8, 64, 360 };
	struct rng rng;

	rng_init(&rng, seed, 0);
	*scenario = (struct scenario){
		.seed = seed, .jobs = 1, .bound_ns = BOUND_NS, .rest_ns = REST_NS
	};
	scenario->packets_max = packets_max;
	enum scenario_kind drawn =
		draw_kind(&rng); /* drawn always: a named kind changes nothing else */
	scenario->kind = kind == SCENARIO_ANY ? drawn : kind;
	if (scenario->kind == SCENARIO_storm)
		scenario->bound_ns = BOUND_STORM_NS;
	if (scenario->kind >= SCENARIO_fifo && scenario->kind <= SCENARIO_small) {
		plain_draw(scenario, &rng);
		return;
	}
	if (scenario->kind == SCENARIO_latency ||
	    (scenario->kind == SCENARIO_narrow && rng_chance(&rng, 250000))) {
		latency_draw(scenario, &rng);
		if (scenario->kind == SCENARIO_narrow)
			scenario_widen(scenario, &rng);
		return;
	}
	scenario->is_restarted = scenario->kind == SCENARIO_restart;
	scenario->workers = 1 + rng_below(&rng, SIM_WORKERS_MAX);
	if (scenario->kind == SCENARIO_disagree && scenario->workers == 1)
		scenario->workers = 2;
	scenario->shards = 1 + rng_below(&rng, SIM_SHARDS_MAX);
	scenario->lanes = lanes[rng_below(&rng, 4)];
	scenario->run = (uint32_t)rng_between(&rng, 1, 40);
	if (rng_chance(&rng, 300000))
		scenario->run = 1;
	uint32_t least = MAP_EXPRESS_SLOTS_MIN + scenario->run;
	scenario->slots = (uint32_t)rng_log(&rng, least, SLOTS_MAX);
	if (rng_chance(&rng, 500000))
		scenario->seq_first = UINT32_MAX - rng_below(&rng, 12);
	scenario->is_hello = rng_chance(&rng, 500000) || scenario->kind == SCENARIO_rebind;
	bool is_tree = rng_chance(&rng, 500000) && scenario->kind != SCENARIO_jobs;
	for (uint32_t s = 0; s < scenario->shards; s++) {
		draw_shard(&scenario->shard[s], scenario->workers, is_tree, &rng);
		if (scenario->kind == SCENARIO_deep)
			scenario_deepen(&scenario->shard[s], scenario->workers, &rng);
		for (uint32_t e = 0; e < scenario->shard[s].engines; e++)
			draw_host(&scenario->shard[s].host[e], scenario, &rng);
	}
	for (uint32_t w = 0; w < scenario->workers; w++)
		draw_worker(&scenario->worker[w], scenario, &rng);
	draw_weather(scenario, &rng);
	draw_ops(scenario, &rng);
	draw_gathers(scenario);
	draw_scatters(scenario);
	if (scenario->kind == SCENARIO_disagree)
		draw_odd(scenario, &rng);
	else
		scenario->strike_op = rng_below(&rng, scenario->ops);
	if (scenario->kind >= SCENARIO_partition)
		scenario_widen(scenario, &rng);
}

void scenario_draw_job(struct scenario *scenario, const struct scenario *first, uint32_t job)
{
	scenario_draw_short(scenario, first->seed + (uint64_t)job * 0x9e3779b97f4a7c15, first->kind,
			    first->packets_max);
	if (first->edits)
		edits_apply(first->edits, scenario);
	scenario->job = job;
	scenario->shards = first->shards;
	memcpy(scenario->shard, first->shard, sizeof(scenario->shard)); /* flat */
}

void scenario_describe(const struct scenario *scenario, char text[256])
{
	char shape[64];
	const char *late = "";
	uint64_t bulk = 0, all = 0;

	if (scenario->latency_window)
		snprintf(shape, sizeof(shape), "flat, P=%u (%s)%s", scenario->latency_window,
			 switch_latency_mode(scenario->slots, scenario->latency_window) ==
					 SWITCH_LATENCY
				 ? "self-acknowledging"
				 : "acknowledged",
			 scenario->is_restarted ? ", restart" : "");
	else if (scenario->shard[0].engines == 1)
		snprintf(shape, sizeof(shape), "flat");
	else
		snprintf(shape, sizeof(shape), "tree of %u nodes", scenario->shard[0].engines);
	if (scenario->jobs > 1)
		snprintf(shape, sizeof(shape), "%u jobs, flat", scenario->jobs);
	if (scenario->weather.in_order)
		late = scenario->weather.in_order & 1 ? " (late down only)" : " (late up only)";
	for (uint32_t i = 0; i < scenario->ops; i++) {
		uint64_t chunks = map_chunks(scenario->op[i].count, scenario->lanes);
		all += chunks;
		bulk += chunks > MAP_EXPRESS_CHUNKS ? chunks : 0;
	}
	snprintf(text, 256,
		 "%s%s: n=%u, %s, shards=%u, lanes=%u, run=%u, slots=%u, seq from %u, %u "
		 "operations, "
		 "%llu chunks (%llu bulk), loss %.1f %%",
		 scenario_name(scenario->kind), late, scenario->workers, shape, scenario->shards,
		 scenario->lanes, scenario->run, scenario->slots, scenario->seq_first,
		 scenario->ops, (unsigned long long)all, (unsigned long long)bulk,
		 scenario->weather.loss / 1e4);
}
