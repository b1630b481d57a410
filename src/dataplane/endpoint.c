/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - an endpoint's life and its operations; see endpoint.h. Its packets: endpoint_flow.c,
 * endpoint_path.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/endpoint_state.h"
#include "dataplane/link_address.h"

enum { OPS_MAX_DEFAULT = 1024, BUFFER_ALIGN = 64, GUESS_WORKERS_MAX = 64 };

uint32_t endpoint_welcomes(struct endpoint *endpoint, struct endpoint_welcome *welcomes,
			   uint32_t max)
{
	uint32_t count = endpoint->welcomes_count < max ? endpoint->welcomes_count : max;

	memcpy(welcomes, endpoint->welcomes, count * sizeof(*welcomes));
	endpoint->welcomes_count -= count;
	memmove(endpoint->welcomes, endpoint->welcomes + count,
		endpoint->welcomes_count * sizeof(*welcomes));
	return count;
}

bool endpoint_lanes(const struct endpoint *endpoint, const struct endpoint_op *op,
		    struct lanes *lanes)
{
	struct lanes_call call = { .type = op->type,
				   .op = op->op,
				   .form = op->form,
				   .count = op->count,
				   .workers = endpoint->workers,
				   .lanes = endpoint->lanes,
				   .exponent = op->exponent };

	return !endpoint->latency && lanes_choose(lanes, &call, endpoint->quant);
}

static uint32_t op_keep(struct endpoint *endpoint, const struct endpoint_op *op)
{
	uint32_t index = endpoint->ops_free[--endpoint->ops_free_count];

	endpoint->ops[index] = *op;
	return index;
}

static int submit_latency(struct endpoint *endpoint, const struct endpoint_op *op)
{
	if (op->type != LANES_INT32 || (op->op != LANES_SUM && op->op != LANES_AVG) ||
	    op->count > endpoint->lanes)
		return -EINVAL;
	if (!endpoint_latency_has_room(endpoint) || endpoint->ops_free_count == 0)
		return -EAGAIN;
	endpoint_latency_submit(endpoint, op_keep(endpoint, op));
	return 0;
}

static enum map_stream stream_of(const struct endpoint *endpoint, const struct endpoint_op *op,
				 struct map_shape shape)
{
	return op->stream < 0 ? worker_stream_of(&endpoint->worker, shape, op->count)
			      : (enum map_stream)op->stream;
}

static enum worker_wish wish_of(const void *op, uint64_t first, uint32_t elements)
{
	return segments_wish(op, first, elements);
}

/* R-WK-17: what tells operations apart, and whether one may be guessed. */
static void key_set(const struct endpoint *endpoint, const struct endpoint_op *op,
		    struct worker_op *worker_op)
{
	struct map_descriptor descriptor = op->descriptor;

	descriptor.number = worker_op->stream;
	worker_op->key = map_descriptor_hash(&descriptor);
	worker_op->is_guessed = worker_op->is_scaled && op->type == LANES_FLOAT32 &&
				op->form == LANES_FREE && endpoint->workers <= GUESS_WORKERS_MAX;
}

/* What it is before it is submitted. R-WK-11: what has no elements is unscaled, whatever its type. */
static void worker_op_of(const struct endpoint *endpoint, const struct endpoint_op *op,
			 const struct lanes *lanes, struct worker_op *worker_op)
{
	*worker_op = (struct worker_op){ .hash = map_descriptor_hash(&op->descriptor),
					 .count = op->count,
					 .shape = lanes->shape,
					 .stream = stream_of(endpoint, op, lanes->shape),
					 .lane_op = lanes->lane_op,
					 .is_scaled = lanes->way->exponent && op->count,
					 .ends = op->ends,
					 .parts = op->parts,
					 .mine = op->mine,
					 .wants = wish_of };
	key_set(endpoint, op, worker_op);
}

void endpoint_place(struct endpoint *endpoint, const struct endpoint_op *op,
		    struct past_place *place)
{
	struct worker_op worker_op;
	struct lanes lanes;

	if (!endpoint_lanes(endpoint, op, &lanes))
		return;
	worker_op_of(endpoint, op, &lanes, &worker_op);
	worker_place(&endpoint->worker, &worker_op);
	*place = worker_op.place;
}

int endpoint_submit(struct endpoint *endpoint, const struct endpoint_op *op)
{
	struct worker_op worker_op;
	struct worker_event event = { .type = WORKER_SUBMIT, .op = &worker_op };
	struct worker_actions actions;
	struct lanes lanes;

	if (!endpoint->lanes)
		return -EINVAL;
	if (endpoint->latency)
		return submit_latency(endpoint, op);
	if (!endpoint_lanes(endpoint, op, &lanes))
		return -EINVAL;
	worker_op_of(endpoint, op, &lanes, &worker_op);
	if (!worker_has_room(&endpoint->worker, worker_op.stream) || endpoint->ops_free_count == 0)
		return -EAGAIN;
	if (op->place)
		worker_op.place = *op->place;
	else
		worker_place(&endpoint->worker, &worker_op);
	worker_op.cookie = op_keep(endpoint, op);
	worker_op.caller = &endpoint->ops[worker_op.cookie];
	endpoint->numbers[worker_op.cookie] = lanes;
	worker_step(&endpoint->worker, &event, &actions);
	return 0;
}

uint32_t endpoint_done(struct endpoint *endpoint, uint64_t *cookies, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && endpoint->done_count) {
		uint32_t index = endpoint->done[endpoint->done_head];

		cookies[count++] = endpoint->ops[index].cookie;
		endpoint->ops_free[endpoint->ops_free_count++] = index;
		endpoint->done_head = (endpoint->done_head + 1) % endpoint->ops_count;
		endpoint->done_count--;
	}
	return count;
}

enum endpoint_fault endpoint_fault(const struct endpoint *endpoint)
{
	return endpoint->fault;
}

uint32_t endpoint_fault_shard(const struct endpoint *endpoint)
{
	for (uint32_t i = 0; i < endpoint->map.shards; i++)
		if (link_address_equal(&endpoint->shards[i].grant.address,
				       &endpoint->link->too_large))
			return i;
	return 0;
}

const struct link_address *endpoint_address(const struct endpoint *endpoint, uint32_t shard)
{
	return &endpoint->shards[shard].grant.address;
}

uint64_t endpoint_progress_ns(const struct endpoint *endpoint)
{
	return endpoint->progress_ns;
}

void endpoint_stats(const struct endpoint *endpoint, struct endpoint_stats *stats)
{
	*stats = endpoint->stats;
	stats->srtt_ns = endpoint->pace_used->shards[0].srtt_ns;
	stats->window = endpoint->pace_used->shards[0].window[MAP_BULK];
	for (uint32_t shard = 0; shard < endpoint->map.shards && !endpoint->latency; shard++) {
		const struct window *follow = &endpoint->pace.shards[shard].follow;

		stats->window_yields += follow->stats.yields;
		stats->window_losses += follow->stats.losses;
		stats->window_presses += follow->stats.presses;
	}
	if (endpoint->latency)
		stats->window = endpoint->window;
}

void endpoint_window(struct endpoint *endpoint, uint32_t shard, enum map_stream stream,
		     uint32_t window)
{
	if (!endpoint->latency) /* there P is the same on all ranks */
		pace_window(&endpoint->pace, shard, stream, window);
}

void endpoint_rounds_begin(struct endpoint *endpoint, uint32_t seq)
{
	if (endpoint->latency) {
		endpoint_latency_rounds_begin(endpoint, seq);
		return;
	}
	for (size_t i = 0; i < (size_t)endpoint->map.shards * endpoint->slots; i++)
		endpoint->worker.slot[i].seq = seq;
}

const struct worker *endpoint_worker(const struct endpoint *endpoint)
{
	return &endpoint->worker;
}

const struct pace *endpoint_pace(const struct endpoint *endpoint)
{
	return endpoint->pace_used;
}

/* What is waited for. Bulk chunks come at the speed of the path, and what others hold up comes when they come. A path
 * within this host has no speed of its own: the processor that makes an answer is waited for. */
enum link_load endpoint_load(const struct endpoint *endpoint)
{
	enum link_load load = LINK_LITTLE;

	if (endpoint->latency)
		return LINK_LITTLE;
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct pace_shard *pace = &endpoint->pace.shards[i];

		if (pace->in_flight[MAP_EXPRESS] ||
		    link_address_is_loopback(&endpoint->shards[i].grant.address))
			return LINK_LITTLE;
		if (pace->in_flight[MAP_BULK] || pace->ring.count)
			load = LINK_MUCH;
	}
	return load;
}

/* --- open, start, close ------------------------------------------------------------------------- */

/* Touched only as it fills: calloc's zeros cost nothing. */
static bool past_allocate(struct endpoint *endpoint)
{
	endpoint->past = (struct past){ .ops = calloc(PAST_REACH, sizeof(struct past_op)),
					.reach = PAST_REACH,
					.rows = PAST_ROWS };
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		struct past_rows *rows = &endpoint->rows[i];

		rows->size =
			worker_rows(&endpoint->map, (enum map_stream)i, PAST_ROWS, PAST_ROWS_OPEN);
		rows->exponents = calloc(1, rows->size);
		if (!rows->exponents)
			return false;
	}
	return endpoint->past.ops;
}

/* Everything whose size does not depend on the lanes. */
static bool allocate(struct endpoint *endpoint, bool is_latency)
{
	size_t shards = endpoint->map.shards;
	size_t slots = is_latency ? 1 : shards * endpoint->slots;

	endpoint->shards = calloc(shards, sizeof(*endpoint->shards));
	endpoint->worker.shards = calloc(shards, sizeof(*endpoint->worker.shards));
	endpoint->worker.slot = calloc(slots, sizeof(*endpoint->worker.slot));
	endpoint->pace.shards = calloc(shards, sizeof(*endpoint->pace.shards));
	endpoint->pace.slot = calloc(slots, sizeof(*endpoint->pace.slot));
	endpoint->ops = calloc(endpoint->ops_count, sizeof(*endpoint->ops));
	endpoint->numbers = calloc(endpoint->ops_count, sizeof(*endpoint->numbers));
	endpoint->ops_free = calloc(endpoint->ops_count, sizeof(*endpoint->ops_free));
	endpoint->done = calloc(endpoint->ops_count, sizeof(*endpoint->done));
	endpoint->short_bytes = calloc(1, ENDPOINT_SHORT_BYTES);
	endpoint->hello_bytes = calloc(1, wire_bytes(WIRE_LANES_MAX));
	endpoint->scratch = calloc(ENDPOINT_ELEMENTS_MAX, sizeof(*endpoint->scratch));
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		endpoint->op_states[i] = calloc(endpoint->ops_max, sizeof(*endpoint->op_states[i]));
		if (!endpoint->op_states[i])
			return false;
	}
	if (!is_latency && !past_allocate(endpoint))
		return false;
	return endpoint->shards && endpoint->worker.shards && endpoint->worker.slot &&
	       endpoint->pace.shards && endpoint->pace.slot && endpoint->ops && endpoint->numbers &&
	       endpoint->ops_free && endpoint->done && endpoint->short_bytes &&
	       endpoint->hello_bytes && endpoint->scratch;
}

/* One shard, no streams: of the map only the number of shards is ever asked for. */
static bool latency_map(struct map *map, const struct endpoint_options *options)
{
	*map = (struct map){ .shards = 1 };
	return options->shards_count == 1 && options->slots &&
	       options->slots <= SWITCH_LATENCY_SLOTS_MAX &&
	       options->latency_window <= options->slots && options->run &&
	       options->run <= MAP_RUN_MAX;
}

struct endpoint *endpoint_open(const struct endpoint_options *options)
{
	struct endpoint *endpoint;
	bool is_latency = options->latency_window;
	struct map map;

	if (!(is_latency ? latency_map(&map, options)
			 : map_init(&map, options->shards_count, options->slots, options->run)) ||
	    !options->window || !options->workers || options->workers > UINT16_MAX)
		return NULL;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return NULL;
	endpoint->link = options->link;
	endpoint->quant = options->quant;
	endpoint->map = map;
	endpoint->workers = options->workers;
	endpoint->slots = options->slots;
	endpoint->run = options->run;
	endpoint->window = options->window;
	endpoint->latency_window = options->latency_window;
	endpoint->contenders = options->contenders;
	endpoint->ops_max = options->ops_max ? options->ops_max : OPS_MAX_DEFAULT;
	while (is_latency && endpoint->ops_max < options->latency_window)
		endpoint->ops_max *= 2;
	endpoint->ops_count = MAP_STREAMS * endpoint->ops_max;
	endpoint->pace_used = &endpoint->pace;
	if (!allocate(endpoint, is_latency) || (is_latency && !endpoint_latency_open(endpoint))) {
		endpoint_close(endpoint);
		return NULL;
	}
	for (uint32_t i = 0; i < map.shards; i++)
		endpoint->shards[i].grant = options->shards[i];
	for (uint32_t i = 0; i < endpoint->ops_count; i++)
		endpoint->ops_free[endpoint->ops_free_count++] = endpoint->ops_count - 1 - i;
	if (!is_latency)
		pace_init(&endpoint->pace, &map, endpoint->slots, endpoint->window,
			  endpoint->pace.shards, endpoint->pace.slot);
	if (!is_latency && !options->is_window_fixed)
		pace_follow(&endpoint->pace);
	return endpoint;
}

static bool allocate_shard(const struct endpoint *endpoint, struct shard_state *state)
{
	size_t bytes = (size_t)endpoint->slots * endpoint->packet_bytes;

	if (posix_memalign((void **)&state->buffers, BUFFER_ALIGN, bytes))
		return false;
	state->queued = calloc(endpoint->slots, 1);
	state->fresh = calloc(endpoint->slots, 1);
	state->needs.slots = calloc(endpoint->slots, sizeof(uint32_t));
	state->rounds.slots = calloc(endpoint->slots, sizeof(uint32_t));
	return state->queued && state->fresh && state->needs.slots && state->rounds.slots;
}

int endpoint_start(struct endpoint *endpoint, uint32_t lanes)
{
	struct worker_memory memory = {
		.shards = endpoint->worker.shards,
		.slot = endpoint->worker.slot,
		.ops = { endpoint->op_states[MAP_EXPRESS], endpoint->op_states[MAP_BULK] },
		.past = endpoint->past,
		.rows = { endpoint->rows[MAP_EXPRESS], endpoint->rows[MAP_BULK] }
	};

	if (endpoint->lanes || !lanes || lanes > WIRE_LANES_MAX || lanes % WIRE_LANES_STEP)
		return -EINVAL;
	endpoint->packet_bytes = wire_bytes(lanes);
	for (uint32_t i = 0; i < endpoint->map.shards; i++)
		if (!allocate_shard(endpoint, &endpoint->shards[i]))
			return -ENOMEM;
	endpoint->lanes = lanes;
	endpoint->now_ns = endpoint->link->ops->now_ns(endpoint->link);
	endpoint->progress_ns = endpoint->now_ns;
	if (endpoint->latency) {
		endpoint_latency_start(endpoint);
		return 0;
	}
	worker_init(&endpoint->worker, &endpoint->map, endpoint->slots, lanes, endpoint->ops_max,
		    &memory);
	for (uint32_t i = 0; i < endpoint->map.shards; i++) {
		const struct endpoint_shard *grant = &endpoint->shards[i].grant;

		endpoint->worker.shards[i].generation = grant->generation;
		endpoint->worker.shards[i].job = grant->job;
		endpoint->worker.shards[i].child = grant->child;
	}
	return 0;
}

void endpoint_close(struct endpoint *endpoint)
{
	if (!endpoint)
		return;
	for (uint32_t i = 0; endpoint->shards && i < endpoint->map.shards; i++) {
		free(endpoint->shards[i].buffers);
		free(endpoint->shards[i].queued);
		free(endpoint->shards[i].fresh);
		free(endpoint->shards[i].needs.slots);
		free(endpoint->shards[i].rounds.slots);
	}
	for (uint32_t i = 0; i < MAP_STREAMS; i++) {
		free(endpoint->op_states[i]);
		free(endpoint->rows[i].exponents);
	}
	endpoint_latency_close(endpoint);
	free(endpoint->shards);
	free(endpoint->worker.shards);
	free(endpoint->worker.slot);
	free(endpoint->pace.shards);
	free(endpoint->pace.slot);
	free(endpoint->ops);
	free(endpoint->numbers);
	free(endpoint->ops_free);
	free(endpoint->done);
	free(endpoint->short_bytes);
	free(endpoint->hello_bytes);
	free(endpoint->scratch);
	free(endpoint->past.ops);
	free(endpoint);
}
