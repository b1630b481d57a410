/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many UPDATE packets per second does one core of the aggregator take in, sum and answer? One
 * thread polls an engine, another one plays all the children, over loopback. The rate is that of the
 * engine's thread per second of its own CPU time (it blocks while there is nothing to do), so a busy
 * neighbour changes little.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dataplane/engine_soft.h"
#include "dataplane/link_udp.h"

enum {
	CHILDREN_MAX = 64,
	GROUPS = 8, /* of a run of slots each */
	GROUPS_IN_FLIGHT = 4,
	RECEIVE_FRAMES = 32,
};

struct bench {
	uint32_t children, lanes, run, seconds;
	bool no_offload;
	struct link *engine_link, *link[CHILDREN_MAX];
	struct engine_soft *engine;
	atomic_bool is_over;
	double engine_cpu_s, children_cpu_s, wall_s;
	uint64_t lost; /* groups that never came back */
};

static double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct link *link_open(const struct bench *bench)
{
	struct link_udp_options options = { .no_offload = bench->no_offload,
					    .poll_count = UINT32_MAX };
	struct link *link;
	bool is_v6;

	if (link_address_parse("127.0.0.1", 0, &options.local, &is_v6) ||
	    link_udp_open(&link, &options)) {
		fprintf(stderr, "no socket on 127.0.0.1\n");
		exit(1);
	}
	return link;
}

static void *engine_run(void *bench_given)
{
	struct bench *bench = bench_given;
	struct link *link = bench->engine_link;

	(void)pthread_setname_np(pthread_self(), "engine"); /* for perf --comm */
	while (!bench->is_over) {
		if (!engine_poll(bench->engine))
			(void)link->ops->wait(link, link->ops->now_ns(link) + 100000000);
	}
	bench->engine_cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* Every child's run of UPDATEs for the slots of group g, seq counting its turns. */
static void group_send(struct bench *bench, uint8_t *bytes, uint64_t group)
{
	uint32_t packet_bytes = wire_bytes(bench->lanes);

	for (uint32_t child = 0; child < bench->children; child++) {
		struct link *link = bench->link[child];
		struct link_frame frame = { .peer = bench->engine_link->local,
					    .packet_bytes = packet_bytes,
					    .count = bench->run,
					    .bytes = bench->run * packet_bytes,
					    .data = bytes };

		for (uint32_t i = 0; i < bench->run; i++) {
			struct wire packet = { .type = WIRE_UPDATE,
					       .generation = 1,
					       .seq = (uint32_t)(group / GROUPS) + 1,
					       .slot = (uint16_t)(group % GROUPS * bench->run + i),
					       .child = (uint16_t)child,
					       .lanes = (uint16_t)bench->lanes };

			wire_put(bytes + i * packet_bytes, &packet);
		}
		(void)link->ops->send(link, &frame, 1);
	}
}

/* Waits until every child has `packets` results; false if they stop coming. */
static bool results_take(struct bench *bench, uint64_t packets)
{
	struct link_frame frames[RECEIVE_FRAMES];

	for (uint32_t child = 0; child < bench->children; child++) {
		struct link *link = bench->link[child];

		while (link->stats.packets_in < packets) {
			if (!link->ops->recv(link, frames, RECEIVE_FRAMES) &&
			    link->ops->wait(link, link->ops->now_ns(link) + 1000000000) ==
				    LINK_TIME)
				return false;
		}
	}
	return true;
}

static void children_run(struct bench *bench)
{
	uint8_t *bytes = calloc(1, LINK_FRAME_BYTES_MAX);
	double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID), start = seconds_of(CLOCK_MONOTONIC);
	uint64_t sent = 0, back = 0;

	while (sent == back || seconds_of(CLOCK_MONOTONIC) - start < bench->seconds) {
		for (; sent < back + GROUPS_IN_FLIGHT; sent++)
			group_send(bench, bytes, sent);
		if (!results_take(bench, ++back * bench->run)) {
			bench->lost++;
			break;
		}
	}
	bench->wall_s = seconds_of(CLOCK_MONOTONIC) - start;
	bench->children_cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
	free(bytes);
}

static void engine_make(struct bench *bench)
{
	struct engine_options options = { .link = bench->engine_link };
	struct engine_job config = { .generation = 1,
				     .children = (uint16_t)bench->children,
				     .slots = (uint16_t)(GROUPS * bench->run),
				     .lanes_max = (uint16_t)bench->lanes };

	bench->engine = engine_open(&options);
	if (!bench->engine || engine_job_add(bench->engine, 0, &config) ||
	    engine_job_set(bench->engine, 0, 1, config.lanes_max, true)) {
		fprintf(stderr, "no such engine\n");
		exit(1);
	}
	for (uint16_t child = 0; child < bench->children; child++)
		(void)engine_child_bind(bench->engine, 0, child, &bench->link[child]->local);
}

static void report(const struct bench *bench)
{
	const struct engine_stats *stats = engine_stats(bench->engine);
	const struct link_stats *link = &bench->engine_link->stats;
	double updates = (double)stats->packets_in;

	printf("children %u, lanes %u, run %u%s, %.1f s\n", bench->children, bench->lanes,
	       bench->run, bench->no_offload ? ", no offload" : "", bench->wall_s);
	printf("engine: %.3f M UPDATE/s per core, %.0f ns each; %.3f M/s of wall time\n",
	       updates / bench->engine_cpu_s / 1e6, bench->engine_cpu_s / updates * 1e9,
	       updates / bench->wall_s / 1e6);
	printf("packets in %.2f M (%.1f per call), out %.2f M (%.1f per call), refused %llu\n",
	       (double)link->packets_in / 1e6, (double)link->packets_in / (double)link->calls_in,
	       (double)link->packets_out / 1e6, (double)link->packets_out / (double)link->calls_out,
	       (unsigned long long)link->send_errors);
	printf("children: %.0f ns of CPU per UPDATE\n", bench->children_cpu_s / updates * 1e9);
	if (bench->lost)
		printf("LOST: results stopped coming; a larger net.core.rmem_max?\n");
}

static bool options_are_valid(const struct bench *bench)
{
	return bench->children && bench->children <= CHILDREN_MAX && bench->run &&
	       bench->run <= LINK_FRAME_PACKETS_MAX && bench->lanes && bench->seconds &&
	       bench->lanes <= WIRE_LANES_MAX && bench->lanes % WIRE_LANES_STEP == 0 &&
	       bench->run * wire_bytes(bench->lanes) <= LINK_FRAME_BYTES_MAX;
}

static bool options_parse(struct bench *bench, int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "n:l:r:s:o")) != -1) {
		char *end = NULL;
		unsigned long given = optarg ? strtoul(optarg, &end, 10) : 0;
		uint32_t number = given < UINT32_MAX ? (uint32_t)given : UINT32_MAX;

		if (end && (*end || *optarg < '0' || *optarg > '9')) {
			fprintf(stderr, "engine_bench: -%c %s: not a number\n", option, optarg);
			return false;
		}

		switch (option) {
		case 'n':
			bench->children = number;
			break;
		case 'l':
			bench->lanes = number;
			break;
		case 'r':
			bench->run = number;
			break;
		case 's':
			bench->seconds = number;
			break;
		case 'o':
			bench->no_offload = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc && options_are_valid(bench);
}

int main(int argc, char **argv)
{
	struct bench bench = { .children = 2, .lanes = 360, .run = 40, .seconds = 2 };
	pthread_t thread;

	if (!options_parse(&bench, argc, argv)) {
		fprintf(stderr,
			"engine_bench [-n children] [-l lanes] [-r packets per message] "
			"[-s seconds] [-o: no offload]\n"
			"1 to %d children, lanes a multiple of 4 up to %d, a message of at "
			"most %d packets and %d bytes\n",
			(int)CHILDREN_MAX, (int)WIRE_LANES_MAX, (int)LINK_FRAME_PACKETS_MAX,
			(int)LINK_FRAME_BYTES_MAX);
		return 2;
	}
	bench.engine_link = link_open(&bench);
	for (uint32_t child = 0; child < bench.children; child++)
		bench.link[child] = link_open(&bench);
	engine_make(&bench);
	if (pthread_create(&thread, NULL, engine_run, &bench))
		return 1;
	children_run(&bench);
	bench.is_over = true;
	bench.engine_link->ops->wake(bench.engine_link);
	pthread_join(thread, NULL);
	report(&bench);
	engine_close(bench.engine);
	for (uint32_t child = 0; child < bench.children; child++)
		bench.link[child]->ops->close(bench.link[child]);
	bench.engine_link->ops->close(bench.engine_link);
	return bench.lost ? 1 : 0;
}
