/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_wide.c - the kinds in which one thing goes wrong that the others hardly have: what each changes
 * in a scenario that was drawn like any other, with milder weather, so that its own trouble is what shows.
 */
#include "sim/scenario.h"

#define US 1000ull
#define MS (1000 * US)
#define SECOND (1000 * MS)
/* Counted from the end of a strike. 100,000 seeds of all kinds waited 16.8 s at most, in a crash that was
 * noticed only after 10 s; 5.4 s where a strike lasts 3 s. */
#define BOUND_WIDE_NS (20 * SECOND)
/* The longest queue of a narrow line; and a bound below the 14 s after which R-CT-43 ends a life. */
#define NARROW_QUEUE_NS (8 * SECOND)
#define BOUND_NARROW_NS (10 * SECOND)

static void weather_mild(struct scenario *scenario, uint32_t loss, struct rng *rng)
{
	bool is_fair = rng_chance(rng, 500000);

	scenario->weather.loss = is_fair ? 0 : rng_below(rng, loss);
	scenario->weather.duplicate /= 2;
	scenario->weather.reorder /= 2;
	scenario->pause_every_ns = 0;
}

/* So that the run lasts until something strikes, and the strikes fall into its midst. */
static void strikes_draw(struct scenario *scenario, uint32_t most, uint64_t longest,
			 struct rng *rng)
{
	scenario->strikes = 1 + rng_below(rng, most);
	scenario->strike_gap_ns = rng_log(rng, 500 * US, 20 * MS);
	scenario->strike_ns = rng_log(rng, 1 * MS, longest);
}

/* A root, nodes below it, and nodes below these that have the workers: nobody is without a child. */
void scenario_deepen(struct scenario_shard *shard, uint32_t workers, struct rng *rng)
{
	uint32_t leaves = 1 + rng_below(rng, workers < 5 ? workers : 5);
	uint32_t middle = 1 + rng_below(rng, leaves < 3 ? leaves : 3);

	shard->engines = 1 + middle + leaves;
	for (uint32_t i = 1; i <= middle; i++)
		shard->parent[i] = 0;
	for (uint32_t i = 0; i < leaves; i++)
		shard->parent[1 + middle + i] =
			(uint8_t)(1 + (i < middle ? i : rng_below(rng, middle)));
	for (uint32_t w = 0; w < workers && w < SIM_WORKERS_MAX; w++)
		shard->engine_of[w] =
			(uint8_t)(1 + middle + (w < leaves ? w : rng_below(rng, leaves)));
}

static void straggle_draw(struct scenario *scenario, struct rng *rng)
{
	uint32_t late = 1 + rng_below(rng, 2);

	for (uint32_t i = 0; i < late; i++) {
		struct scenario_worker *worker =
			&scenario->worker[rng_below(rng, scenario->workers)];

		worker->straggle = 1000000;
		worker->straggle_ns = (uint32_t)rng_log(rng, 10 * MS, SECOND);
		worker->host.poll_ns = (uint32_t)rng_log(rng, 100 * US, 10 * MS);
	}
	if (scenario->ops > 12)
		scenario->ops = 12;
}

/* All cables alike; what comes from all workers at once meets a short queue. */
static void incast_draw(struct scenario *scenario, struct rng *rng)
{
	uint32_t bytes = wire_bytes(scenario->lanes) + NET_OVERHEAD_BYTES;
	struct net_line line = { .ps_per_byte = (uint32_t)rng_log(rng, 80, 8000),
				 .delay_ns = (uint32_t)rng_log(rng, 500, 20 * US),
				 .queue_bytes = bytes * 1024 };

	scenario->weather = (struct net_weather){ 0 };
	for (uint32_t w = 0; w < scenario->workers; w++) {
		struct scenario_worker *worker = &scenario->worker[w];

		worker->host.out = worker->host.in = line;
		worker->host.inbox_bytes = 1u << 30;
		worker->window = scenario->slots;
		worker->gap_ns = 1000;
		worker->window_ns = 0;
	}
	for (uint32_t s = 0; s < scenario->shards; s++)
		for (uint32_t e = 0; e < scenario->shard[s].engines; e++) {
			struct net_host *host = &scenario->shard[s].host[e];

			host->out = host->in = line;
			host->in.queue_bytes = bytes * (8 + rng_below(rng, 25));
			host->inbox_bytes = 1u << 30;
		}
}

/* So long a packet may wait in a line's queue. */
static void line_narrow(struct net_line *line, struct rng *rng)
{
	uint64_t wait_ns = rng_log(rng, 100 * MS, NARROW_QUEUE_NS);
	uint64_t bytes;

	line->ps_per_byte = (uint32_t)rng_log(rng, 80000, 8000000);
	bytes = wait_ns * 1000 / line->ps_per_byte;
	line->queue_bytes = bytes < 1u << 30 ? (uint32_t)bytes : 1u << 30;
}

/* What has a worker's answers wait, wherever it comes from, makes it ask again; and each question that finds its
 * sum complete is answered by all of it. */
static void narrow_draw(struct scenario *scenario, struct rng *rng)
{
	uint32_t which = rng_chance(rng, 300000) ? UINT32_MAX : rng_u32(rng);

	scenario->bound_ns = BOUND_NARROW_NS;
	scenario->rest_ns += NARROW_QUEUE_NS;
	scenario->weather.loss = 0;
	for (uint32_t w = 0; w < scenario->workers; w++) {
		struct net_host *host = &scenario->worker[w].host;

		host->inbox_bytes = 1u << 30;
		host->in.loss = host->out.loss = 0;
		if (which >> 2 * w & 1 || !w)
			line_narrow(&host->in, rng);
		if (which >> 2 * w & 2)
			line_narrow(&host->out, rng);
	}
}

void scenario_widen(struct scenario *scenario, struct rng *rng)
{
	scenario->bound_ns = BOUND_WIDE_NS;
	weather_mild(scenario, 20000, rng);
	switch ((uint32_t)scenario->kind) {
	case SCENARIO_partition:
		strikes_draw(scenario, 5, 3 * SECOND, rng);
		break;
	case SCENARIO_stopped:
		strikes_draw(scenario, 5, 5 * SECOND, rng);
		break;
	case SCENARIO_straggle:
		straggle_draw(scenario, rng);
		break;
	case SCENARIO_crash:
		strikes_draw(scenario, 3, 10 * SECOND, rng);
		scenario->is_given_up = rng_chance(rng, 250000);
		break;
	case SCENARIO_drift:
		strikes_draw(scenario, 8, 100 * MS, rng);
		break;
	case SCENARIO_incast:
		incast_draw(scenario, rng);
		break;
	case SCENARIO_jobs:
		scenario->jobs = 2 + rng_below(rng, SIM_JOBS_MAX - 1);
		break;
	case SCENARIO_narrow:
		narrow_draw(scenario, rng);
		break;
	default: /* deep: its shape is what is special */
		break;
	}
}
