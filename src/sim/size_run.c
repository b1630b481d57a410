/* SPDX-License-Identifier: Apache-2.0 */
/* size_run.c - one allreduce over a tree of switches; see size.h. */
#include "sim/size.h"

#include "dataplane/endpoint.h"
#include "dataplane/engine_soft.h"
#include "sim/net.h"
#include "simd/simd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	PATTERNS = 64,             /* different vectors; worker w has number w mod 64 */
	OUT_QUEUE_BYTES = 1 << 30, /* a host's own queue: its kernel makes the sender wait */
	PROGRESS_EVENTS = 1 << 18,
	JOB = 0,
	GENERATION = 1,
	OPS_MAX = 2,
	HELLO_NS = 100 * 1000 * 1000,
	HELLOS_MAX = 1000,
	LOOK_NS = 10 * 1000,
	PAUSES_NS = 100 * 1000 * 1000,
};
#define SECOND 1000000000ull
#define STUCK_NS (60 * SECOND) /* without any result: a run that would never end */
#define SWITCH_NONE UINT32_MAX

struct size {
	const struct size_options *options;
	struct net *net;
	uint32_t workers, switches;
	uint32_t
		level_first[SIZE_LEVELS_MAX + 1]; /* switches of each level, from the root's 0 on */
	struct endpoint **endpoint;
	struct engine_soft **engine;
	uint64_t elements;
	int32_t *pattern[PATTERNS], *sum;
	int32_t **result;
	bool *is_welcome;
	uint32_t welcomes, done;
	uint64_t begin_ns, end_ns, result_ns;
};

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

uint64_t size_switches(const struct size_options *options)
{
	uint64_t level = 1, all = 0;

	for (uint32_t i = 0; i < options->levels; i++) {
		all += level;
		level *= options->children[i];
	}
	return all;
}

uint64_t size_workers(const struct size_options *options)
{
	uint64_t workers = 1;

	for (uint32_t i = 0; i < options->levels; i++)
		workers *= options->children[i];
	return workers;
}

/* --- the network --- */

static uint32_t ps_per_byte(uint64_t bps)
{
	return bps ? (uint32_t)(8000000000000 / bps) : 0;
}

static uint32_t clip(uint64_t bytes)
{
	return bytes < OUT_QUEUE_BYTES ? (uint32_t)bytes : OUT_QUEUE_BYTES;
}

static void host_fill(const struct size_options *options, bool is_worker, struct net_host *host)
{
	uint64_t bps = is_worker ? options->link_bps : options->uplink_bps;
	struct net_line line = { .ps_per_byte = ps_per_byte(bps),
				 .queue_bytes = clip(options->queue_bytes),
				 .delay_ns = (uint32_t)options->delay_ns,
				 .loss = (uint32_t)(options->loss * 1e6 + 0.5) };

	*host = (struct net_host){ .out = line, .in = line, .inbox_bytes = UINT32_MAX / 2 };
	host->in.delay_ns = 0;
	host->hub_out.delay_ns = (uint32_t)options->delay_ns; /* of the child's cable, downwards */
	if (is_worker) {
		host->out.queue_bytes = OUT_QUEUE_BYTES;
		host->poll_ns = (uint32_t)options->poll_ns;
		return;
	}
	host->hub_out.ps_per_byte = host->hub_in.ps_per_byte = ps_per_byte(options->hub_bps);
	host->hub_out.queue_bytes = host->hub_in.queue_bytes = clip(options->queue_bytes);
}

/* The switch that a switch of level `level`, or a worker (level `levels`), hangs on, and as which child. */
static uint32_t parent_of(const struct size *size, uint32_t level, uint32_t index, uint32_t *child)
{
	uint32_t children = level ? size->options->children[level - 1] : 1;

	*child = index % children;
	return level ? size->level_first[level - 1] + index / children : SWITCH_NONE;
}

static uint32_t level_of(const struct size *size, uint32_t number)
{
	uint32_t level = 0;

	while (size->level_first[level + 1] <= number)
		level++;
	return level;
}

static bool engine_add(struct size *size, uint32_t number)
{
	const struct size_options *options = size->options;
	uint32_t level = level_of(size, number);
	struct engine_options with = { .link = net_link(size->net, size->workers + number),
				       .jobs_max = 1 };
	static const uint8_t nonces[SWITCH_CHILDREN_MAX][WIRE_NONCE_BYTES]; /* nobody lies here */
	struct engine_job job = { .generation = GENERATION,
				  .nonces = nonces,
				  .children = (uint16_t)options->children[level],
				  .slots = (uint32_t)options->slots,
				  .lanes_max = SIZE_LANES_CARRIED };
	uint32_t child;
	uint32_t parent = parent_of(size, level, number - size->level_first[level], &child);

	if (parent != SWITCH_NONE) {
		job.has_parent = true;
		job.parent = net_address(size->net, size->workers + parent);
		job.parent_job = JOB;
		job.parent_child = (uint16_t)child;
		net_node_up(size->net, size->workers + number, size->workers + parent);
	}
	size->engine[number] = engine_open(&with);
	if (!size->engine[number] || engine_job_add(size->engine[number], JOB, &job))
		return false;
	if (parent != SWITCH_NONE) {
		struct link_address address = net_address(size->net, size->workers + number);
		engine_child_bind(size->engine[parent], JOB, (uint16_t)child, &address);
	}
	return !engine_job_set(size->engine[number], JOB, GENERATION, SIZE_LANES_CARRIED, true);
}

static bool endpoint_add(struct size *size, uint32_t w)
{
	const struct size_options *options = size->options;
	uint32_t child;
	uint32_t parent = parent_of(size, options->levels, w, &child);
	struct endpoint_shard shard = { .address = net_address(size->net, size->workers + parent),
					.generation = GENERATION,
					.job = JOB,
					.child = (uint16_t)child };
	struct endpoint_options with = { .link = net_link(size->net, w),
					 .quant = simd_best(),
					 .shards = &shard,
					 .shards_count = 1,
					 .workers = size->workers,
					 .slots = (uint32_t)options->slots,
					 .run = (uint32_t)options->run,
					 .window = (uint32_t)options->window,
					 .is_window_fixed = options->is_fixed,
					 .ops_max = OPS_MAX };

	net_node_up(size->net, w, size->workers + parent);
	size->endpoint[w] = endpoint_open(&with);
	return size->endpoint[w] && !endpoint_start(size->endpoint[w], SIZE_LANES_CARRIED);
}

static bool network_build(struct size *size)
{
	const struct size_options *options = size->options;
	struct net_options with = { .seed = options->seed,
				    .packet_bytes_max = wire_bytes(WIRE_HELLO_LANES),
				    .lane_weight = (uint32_t)options->lanes / SIZE_LANES_CARRIED };
	struct net_host host;

	for (uint32_t level = 0, count = 1; level < options->levels; level++) {
		size->level_first[level + 1] = size->level_first[level] + count;
		count *= options->children[level];
	}
	size->net = need(net_open(&with));
	host_fill(options, true, &host);
	for (uint32_t w = 0; w < size->workers; w++)
		net_node_add(size->net, &host);
	host_fill(options, false, &host);
	for (uint32_t i = 0; i < size->switches; i++)
		net_node_add(size->net, &host);
	for (uint32_t i = 0; i < size->switches; i++)
		if (!engine_add(size, i))
			return false;
	for (uint32_t w = 0; w < size->workers; w++)
		if (!endpoint_add(size, w))
			return false;
	return true;
}

/* --- the operation --- */

static void vectors_fill(struct size *size)
{
	size->sum = need(calloc(size->elements + 1, sizeof(int32_t)));
	for (uint32_t k = 0; k < PATTERNS; k++) {
		int32_t times =
			(int32_t)(size->workers / PATTERNS + (k < size->workers % PATTERNS));

		size->pattern[k] = need(malloc((size->elements + 1) * sizeof(int32_t)));
		for (uint64_t i = 0; i < size->elements; i++) {
			size->pattern[k][i] = (int32_t)((i * 7919 + k * 104729) % 2003) - 1001;
			size->sum[i] += times * size->pattern[k][i];
		}
	}
}

static void operation_submit(struct size *size)
{
	size->begin_ns = size->result_ns = net_now(size->net);
	for (uint32_t w = 0; w < size->workers; w++) {
		size->result[w] = need(malloc((size->elements + 1) * sizeof(int32_t)));
		struct endpoint_op op = {
			.descriptor = { .kind = 1, .count = size->elements, .name = "" },
			.source = size->pattern[w % PATTERNS],
			.destination = size->result[w],
			.count = size->elements,
			.type = LANES_INT32,
			.stream = -1
		};

		endpoint_submit(size->endpoint[w], &op);
		net_poll_at(size->net, w, size->begin_ns);
	}
}

/* As a worker does before START: binds it, and measures the first round trip. */
static void hello_say(struct size *size, uint32_t serial)
{
	for (uint32_t w = 0; w < size->workers; w++)
		if (!size->is_welcome[w])
			endpoint_hello(size->endpoint[w], 0, serial, WIRE_HELLO_LANES);
	net_timer(size->net, net_now(size->net) + HELLO_NS, serial);
}

static void welcome_look(struct size *size, uint32_t w)
{
	struct endpoint_welcome welcome;

	while (endpoint_poll(size->endpoint[w]))
		;
	while (endpoint_welcomes(size->endpoint[w], &welcome, 1)) {
		size->welcomes += !size->is_welcome[w];
		size->is_welcome[w] = true;
	}
}

static void switch_serve(struct size *size, uint32_t node)
{
	while (engine_poll(size->engine[node - size->workers]))
		;
}

static bool hello_run(struct size *size)
{
	hello_say(size, 1);
	while (size->welcomes < size->workers) {
		struct net_event event = net_step(size->net);

		if (event.type == NET_TIMER && event.cookie == HELLOS_MAX)
			return false;
		if (event.type == NET_TIMER)
			hello_say(size, event.cookie + 1);
		else if (event.node < size->workers)
			welcome_look(size, event.node);
		else
			switch_serve(size, event.node);
	}
	return true;
}

/* The result is looked at when it is there, and then given back: not all ranks' have to fit at once. */
static bool worker_serve(struct size *size, uint32_t w)
{
	struct endpoint *endpoint = size->endpoint[w];
	uint64_t cookie;
	bool is_right = true;

	while (endpoint_poll(endpoint))
		;
	if (endpoint_progress_ns(endpoint) > size->result_ns)
		size->result_ns = endpoint_progress_ns(endpoint);
	if (endpoint_done(endpoint, &cookie, 1)) {
		size->done++;
		size->end_ns = net_now(size->net);
		is_right = !memcmp(size->result[w], size->sum, size->elements * sizeof(int32_t));
		free(size->result[w]);
		size->result[w] = NULL;
	}
	net_poll_at_clock(size->net, w, endpoint_next(endpoint));
	return is_right;
}

/* When worker w's pause ends; 0: it has none now. */
static uint64_t pause_end(const struct size *size, uint32_t w)
{
	uint64_t phase_ns = (net_now(size->net) - size->begin_ns) % PAUSES_NS;

	if (w || phase_ns < PAUSES_NS - size->options->pause_ns)
		return 0;
	return net_now(size->net) + PAUSES_NS - phase_ns;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Every so often, and half as often each time that there is no more room. */
static void look(const struct size *size, struct size_report *report, uint64_t *every_ns)
{
	uint64_t now_ns = net_now(size->net) - size->begin_ns;
	struct size_look *at;

	if (report->looks && now_ns - report->look[report->looks - 1].at_ns < *every_ns)
		return;
	if (report->looks == SIZE_LOOKS_MAX) {
		for (uint32_t i = 0; i < SIZE_LOOKS_MAX / 2; i++)
			report->look[i] = report->look[2 * i];
		report->looks /= 2;
		*every_ns *= 2;
	}
	at = &report->look[report->looks++];
	*at = (struct size_look){ .at_ns = now_ns };
	for (uint32_t node = size->workers; node < size->workers + size->switches; node++) {
		at->in_bytes = most(at->in_bytes, net_hub_bytes(size->net, node, false));
		at->out_bytes = most(at->out_bytes, net_hub_bytes(size->net, node, true));
	}
	for (uint32_t w = 0; w < size->workers; w++)
		at->window += endpoint_pace(size->endpoint[w])->shards[0].window[MAP_BULK];
	at->window /= size->workers;
	report->queue_bytes = most(report->queue_bytes, most(at->in_bytes, at->out_bytes));
}

static void events_run(struct size *size, struct size_report *report, size_progress *progress)
{
	struct endpoint_stats stats;
	uint64_t every_ns = LOOK_NS;

	for (uint64_t events = 1; size->done < size->workers; events++) {
		struct net_event event = net_step(size->net);

		look(size, report, &every_ns);
		if (event.type == NET_TIMER) /* of the last HELLO */
			continue;
		if (event.type != NET_POLL || net_now(size->net) - size->result_ns > STUCK_NS) {
			snprintf(report->failure, sizeof(report->failure),
				 "no result for %llu s; %u of %u workers are done",
				 STUCK_NS / SECOND, size->done, size->workers);
			return;
		}
		if (event.node >= size->workers) {
			switch_serve(size, event.node);
		} else if (pause_end(size, event.node)) {
			net_poll_at(size->net, event.node, pause_end(size, event.node));
		} else if (!worker_serve(size, event.node)) {
			snprintf(report->failure, sizeof(report->failure),
				 "worker %u has a wrong sum", event.node);
			return;
		}
		if (progress && events % PROGRESS_EVENTS == 0) {
			endpoint_stats(size->endpoint[0], &stats);
			progress(stats.results_in, report->chunks);
		}
	}
}

/* --- the whole --- */

static void report_fill(const struct size *size, struct size_report *report)
{
	const struct size_options *options = size->options;
	const struct net_stats *net = net_stats(size->net);
	uint64_t wire = wire_bytes((uint32_t)options->lanes) + NET_OVERHEAD_BYTES;
	struct endpoint_stats stats;

	report->tat_ns = size->end_ns - size->begin_ns;
	report->ideal_ns = report->chunks * wire * ps_per_byte(options->link_bps) / 1000;
	report->lost = net->fate[NET_LOST] + net->fate[NET_FULL] + net->fate[NET_NOBODY];
	report->packets = net->fate[NET_SENT] + report->lost;
	report->lost += net->fate[NET_REFUSED] + net->fate[NET_DROPPED];
	report->switch_bytes =
		options->slots * engine_slot_bytes(SWITCH_DENSE, (uint32_t)options->lanes);
	for (uint32_t w = 0; w < size->workers; w++) {
		endpoint_stats(size->endpoint[w], &stats);
		report->updates += stats.updates_out;
		report->resent += stats.updates_resent;
		report->probes += stats.probes_out;
		report->window = stats.window;
	}
}

static void fini(struct size *size)
{
	for (uint32_t w = 0; w < size->workers; w++) {
		endpoint_close(size->endpoint[w]);
		free(size->result[w]);
	}
	for (uint32_t i = 0; i < size->switches; i++)
		engine_close(size->engine[i]);
	for (uint32_t k = 0; k < PATTERNS; k++)
		free(size->pattern[k]);
	free(size->sum);
	free(size->result);
	free(size->is_welcome);
	free(size->endpoint);
	free(size->engine);
	net_close(size->net);
}

void size_run(const struct size_options *options, struct size_report *report,
	      size_progress *progress)
{
	uint64_t numbers = (options->message_bytes + 3) / 4;
	struct size size = { .options = options,
			     .workers = (uint32_t)size_workers(options),
			     .switches = (uint32_t)size_switches(options) };
	clock_t begin = clock();

	*report = (struct size_report){ .workers = size.workers, .switches = size.switches };
	report->chunks = (numbers + options->lanes - 1) / options->lanes;
	size.elements = report->chunks * SIZE_LANES_CARRIED;
	size.endpoint = need(calloc(size.workers, sizeof(*size.endpoint)));
	size.result = need(calloc(size.workers, sizeof(*size.result)));
	size.is_welcome = need(calloc(size.workers, sizeof(*size.is_welcome)));
	size.engine = need(calloc(size.switches, sizeof(*size.engine)));
	if (network_build(&size) && hello_run(&size)) {
		vectors_fill(&size);
		operation_submit(&size);
		events_run(&size, report, progress);
		report_fill(&size, report);
	} else {
		snprintf(report->failure, sizeof(report->failure),
			 "the switches or workers cannot be set up so");
	}
	fini(&size);
	report->cpu_seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
}
