/* SPDX-License-Identifier: Apache-2.0 */
/* data_values.c - see data_values.h. */
#include "search/data_values.h"

#include <assert.h>

/* Factors of the workers' values: whatever is missing, doubled or of another chunk shows in a sum. */
static const int32_t scale[DATA_WORKERS] = { 1, -1000, 1000000, 0x10000001 };

int32_t value_of(uint32_t worker, uint32_t chunk, enum wire_round round, uint32_t lane)
{
	uint32_t value = chunk * 8 + lane + 1 + (round == WIRE_DETAIL ? 400 : 0);

	return (int32_t)(value * (uint32_t)scale[worker]);
}

bool value_is_had(const struct data_config *config, uint32_t worker, uint32_t chunk, uint32_t lane)
{
	uint32_t op = 0;

	while (chunk >= op_first_chunk(config, op) + op_chunks(config, op))
		op++;
	if (config->shorts >> op & 1)
		return lane < DATA_LANES / 2 * (2 - (worker + chunk) % 3);
	return !config->part[op] ||
	       ((chunk - op_first_chunk(config, op)) * DATA_LANES + lane) / config->part[op] ==
		       worker;
}

int32_t value_sum(const struct data_config *config, uint32_t chunk, enum wire_round round,
		  uint32_t lane)
{
	uint32_t sum = 0;

	for (uint32_t w = 0; w < config->workers; w++)
		if (value_is_had(config, w, chunk, lane))
			sum += (uint32_t)value_of(w, chunk, round, lane);
	return (int32_t)sum;
}

uint32_t exponent_of(const struct data_config *config, uint32_t worker, uint32_t chunk)
{
	uint32_t said = chunk < DATA_GUESSED ? config->exponent[worker][chunk] : 0;

	if (said)
		return said == DATA_ZERO ? 0 : said;
	return 100 + (worker * 5 + chunk * 3) % 7;
}

uint32_t exponent_max(const struct data_config *config, uint32_t chunk)
{
	uint32_t max = 0;

	for (uint32_t w = 0; w < config->workers; w++)
		max = exponent_of(config, w, chunk) > max ? exponent_of(config, w, chunk) : max;
	return max;
}

static struct map_shape op_shape(const struct data_config *config, uint32_t op)
{
	const struct map_shape one = { 1, 1 };

	return config->shape[op].lanes ? config->shape[op] : one;
}

uint32_t op_chunks(const struct data_config *config, uint32_t op)
{
	uint32_t full = map_full(op_shape(config, op), DATA_LANES);

	return (uint32_t)map_chunks(config->ops[op].elements, full);
}

uint32_t chunk_lanes(const struct data_config *config, const struct worker_chunk *chunk)
{
	return map_lanes(op_shape(config, (uint32_t)chunk->cookie), chunk->elements);
}

uint32_t op_first_chunk(const struct data_config *config, uint32_t op)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < op; i++)
		first += op_chunks(config, i);
	return first;
}

uint32_t chunk_number(const struct data_config *config, const struct worker_chunk *chunk)
{
	uint32_t op = (uint32_t)chunk->cookie;

	return op_first_chunk(config, op) +
	       (uint32_t)(chunk->first / map_full(op_shape(config, op), DATA_LANES));
}

static uint64_t op_hash(uint32_t op)
{
	return 0x1234567ull * (op + 1);
}

/* Where its parts end, or NULL. */
static const uint64_t *op_ends(const struct data_config *config, uint32_t op)
{
	static uint64_t ends[DATA_OPS][DATA_WORKERS];
	uint32_t part = config->part[op];

	for (uint32_t p = 0; p < config->workers; p++)
		ends[op][p] = (p + 1) * part;
	return part ? ends[op] : NULL;
}

uint32_t unwanted_of(const struct data_config *config, uint32_t op, uint32_t place)
{
	uint32_t all = (1u << config->workers) - 1, owner;

	if (!(config->scattered >> op & 1))
		return config->unwanted[op];
	owner = place * map_full(op_shape(config, op), DATA_LANES) * config->workers /
		config->ops[op].elements;
	return all & ~(1u << owner);
}

/* Whose wish it is. */
struct wisher {
	const struct data_config *config;
	uint32_t worker, op;
};

/* R-WK-14, R-WK-15 */
static enum worker_wish wish_of(const void *caller, uint64_t first, uint32_t elements)
{
	const struct wisher *of = caller;
	uint32_t full = map_full(op_shape(of->config, of->op), DATA_LANES);
	uint32_t unwanted = unwanted_of(of->config, of->op, (uint32_t)first / full);

	assert(elements);
	if (unwanted >> of->worker & 1)
		return WORKER_WANTS_NONE;
	return of->config->workers > 1 &&
			       (unwanted | 1u << of->worker) == (1u << of->config->workers) - 1
		       ? WORKER_WANTS_ALONE
		       : WORKER_WANTS_SOME;
}

struct worker_op op_make(const struct data_config *config, uint32_t worker, uint32_t op)
{
	static struct wisher wishers[DATA_WORKERS][DATA_OPS];
	bool has_turns = config->part[op] || config->scattered >> op & 1;

	wishers[worker][op] = (struct wisher){ config, worker, op };
	return (struct worker_op){ .hash = op_hash(op),
				   .count = config->ops[op].elements,
				   .cookie = op,
				   .shape = op_shape(config, op),
				   .stream = config->express >> op & 1 ? MAP_EXPRESS : MAP_BULK,
				   .lane_op = config->part[op]           ? WIRE_TAKE
					      : config->shorts >> op & 1 ? WIRE_ADD_SHORT
									 : WIRE_ADD,
				   .ends = op_ends(config, op),
				   .parts = has_turns ? config->workers : 0,
				   .mine = worker,
				   .wants = wish_of,
				   .caller = &wishers[worker][op],
				   .is_scaled = config->ops[op].is_scaled,
				   .key = 2u * config->keys[op] + (config->express >> op & 1),
				   .is_guessed = config->keys[op] };
}

int tag_chunk(const struct data_config *config, uint32_t tag)
{
	for (uint32_t op = 0, chunk = 0; op < config->ops_count; op++)
		for (uint32_t i = 0; i < op_chunks(config, op); i++, chunk++)
			if ((map_tag(op_hash(op), i) ^ tag) <= 0xff) /* R-WK-18 */
				return (int)chunk;
	return -1;
}

/* The operation that chunk `chunk` is of; *chunk becomes its number there. */
static uint32_t op_of_chunk(const struct data_config *config, uint32_t *chunk)
{
	uint32_t op = 0;

	while (*chunk >= op_first_chunk(config, op + 1))
		op++;
	*chunk -= op_first_chunk(config, op);
	return op;
}

/* R-MAP-8: where the elements of an operation's chunk are. */
static uint32_t place_of(const struct data_config *config, uint32_t op, uint32_t index)
{
	bool has_turns = config->part[op] || config->scattered >> op & 1;
	uint32_t run = config->express >> op & 1 || !config->run ? 1 : config->run;

	if (!has_turns)
		return index;
	return (uint32_t)map_turn(index, op_chunks(config, op), config->workers, run);
}

bool nobody_wants(const struct data_config *config, uint32_t workers, uint32_t tag)
{
	int chunk = tag_chunk(config, tag);
	uint32_t index = (uint32_t)chunk, op;

	if (chunk < 0)
		return false;
	op = op_of_chunk(config, &index);
	return !(workers & ~unwanted_of(config, op, place_of(config, op, index)));
}

bool somebody_gives(const struct data_config *config, uint32_t workers, uint32_t tag)
{
	int chunk = tag_chunk(config, tag);
	uint32_t index = (uint32_t)chunk, op, place;

	if (chunk < 0)
		return false;
	op = op_of_chunk(config, &index);
	place = place_of(config, op, index);
	for (uint32_t w = 0; w < config->workers; w++)
		if (workers >> w & 1 &&
		    value_is_had(config, w, op_first_chunk(config, op) + place, 0))
			return true;
	return false;
}
