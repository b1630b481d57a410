/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - see train.h: what a trainer begins with, and its epochs. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/hash.h"
#include "glm/train_state.h"
#include "util/clock.h"
#include "util/rng.h"

enum {
	MICRO_MAX = 1024, /* rows; above that nothing is gained, and memory is */
	MICRO_MIN = 8,    /* that is measured; the largest half of a packet's header */
	CANDIDATES = 4,   /* micro-batches that are measured: the largest, its half, ... */
	MEASURE_ROUNDS =
		5, /* of all candidates in turn: the best of each counts, whatever else runs here */
	MEASURE_BATCHES = 6,
};

/* ---- opening ---- */

/* What every rank says of itself when it opens; a mean that differs is found by comparing. */
enum word {
	WORD_STATUS, /* 0, or what is wrong with this rank alone: enum status */
	WORD_FILE,
	WORD_ROWS,
	WORD_FEATURES,
	WORD_SHARES,
	WORD_OPTIONS,
	WORD_MICRO,
	WORD_SQUARES_LOW, /* the sum of this rank's squares, in units of 2^-40 */
	WORD_SQUARES_HIGH,
	WORDS,
};
enum status { STATUS_GOOD, STATUS_MEMORY, STATUS_COLUMNS, STATUS_LAYOUT };
enum { PIECES = 4 }; /* of a word: int32 lanes of 16 bits */

static uint64_t double_hash(uint64_t hash, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return hash_number(hash, bits, 8);
}

/* What the bits of a model depend on. */
static uint64_t options_hash(const struct glm_options *options, const struct glm_data *data)
{
	uint64_t hash = HASH_BEGIN;

	hash = hash_number(hash, options->loss, 4);
	hash = double_hash(hash, options->l1);
	hash = double_hash(hash, options->l2);
	hash = double_hash(hash, options->bias < 0 ? -1 : options->bias);
	hash = double_hash(hash, options->rate);
	hash = double_hash(hash, options->decay);
	hash = hash_number(hash, options->schedule, 4);
	hash = hash_number(hash, options->batch, 4);
	hash = hash_number(hash, options->is_shuffled ? options->seed : 0, 8);
	hash = hash_number(hash, options->is_shuffled, 1);
	hash = hash_number(hash, options->parallel, 1);
	hash = hash_number(hash, options->wire.is_narrow, 1);
	hash = hash_number(hash, options->wire.fraction, 1);
	if (options->bits)
		hash = hash_number(hash, options->bits, 1);
	hash = hash_number(hash, data->classes_count, 4);
	if (data->classes_count && data->classes[0] != data->label[0])
		hash = hash_number(hash, 1,
				   1); /* states with the signs of the file's order are others */
	return hash;
}

__extension__ typedef unsigned __int128 squares_t;

/* Each square is rounded to a multiple of 2^-40, so that their order does not matter; one of 2^50 or more, with
 * which nothing could be trained, counts as that. */
static squares_t squares_of(const struct glm_data *data, uint32_t rank, double bias)
{
	const double unit = (double)(1ull << 40), largest = (double)(1ull << 50);
	squares_t sum = 0;

	for (uint32_t s = 0; s < data->shares_count; s++) {
		const struct glm_share *share = &data->shares[s];

		for (uint64_t at = 0; at < share->start[data->rows]; at++) {
			double square = (double)share->value[at] * (double)share->value[at];

			sum += (squares_t)((square < largest ? square : largest) * unit);
		}
	}
	if (rank == 0 && bias > 0)
		sum += (squares_t)(fmin(bias * bias, largest) * unit) * data->rows;
	return sum;
}

static void words_put(int32_t *lanes, const uint64_t *words)
{
	for (uint32_t i = 0; i < WORDS * PIECES; i++)
		lanes[i] = (int32_t)(words[i / PIECES] >> 16 * (i % PIECES) & 0xffff);
}

static void words_get(const int32_t *lanes, uint64_t *words)
{
	memset(words, 0, WORDS * sizeof(*words));
	for (uint32_t i = 0; i < WORDS * PIECES; i++)
		words[i / PIECES] |= (uint64_t)lanes[i] << 16 * (i % PIECES);
}

static int compare(struct glm_train *train, uint32_t rank, const uint64_t *words,
		   const uint64_t *first)
{
	if (words[WORD_STATUS] == STATUS_MEMORY)
		return train_fail(train, "rank %u: out of memory", rank);
	if (words[WORD_STATUS] == STATUS_LAYOUT)
		return train_layout_refuse(train, rank);
	if (words[WORD_STATUS] != STATUS_GOOD)
		return train_fail(train, "rank %u: more columns than a rank can have", rank);
	if (words[WORD_FILE] != first[WORD_FILE] || words[WORD_ROWS] != first[WORD_ROWS] ||
	    words[WORD_FEATURES] != first[WORD_FEATURES])
		return train_fail(train,
				  "rank %u has read another file than rank 0: hash %016llx and "
				  "%016llx, %llu and %llu rows",
				  rank, (unsigned long long)words[WORD_FILE],
				  (unsigned long long)first[WORD_FILE],
				  (unsigned long long)words[WORD_ROWS],
				  (unsigned long long)first[WORD_ROWS]);
	if (words[WORD_SHARES] != first[WORD_SHARES])
		return train_fail(train, "rank %u has other threads than rank 0", rank);
	if (words[WORD_OPTIONS] != first[WORD_OPTIONS] || words[WORD_MICRO] != first[WORD_MICRO])
		return train_fail(train, "rank %u has other options than rank 0", rank);
	return 0;
}

/* All ranks know of all ranks, and say the same. Adds up the squares. */
static int agree(struct glm_train *train, enum status status, squares_t *squares)
{
	struct exchange *exchange = train->exchange;
	const struct glm_data *data = train->data;
	int32_t *all = calloc((size_t)exchange->ranks * WORDS * PIECES, sizeof(*all));
	squares_t mine =
		train_is_counted(train) ? squares_of(data, exchange->rank, train->options.bias) : 0;
	uint64_t words[WORDS] = { status,
				  data->hash,
				  data->rows,
				  data->features,
				  data->columns.shares,
				  train->options_hash,
				  train->options.micro,
				  (uint64_t)mine,
				  (uint64_t)(mine >> 64) };
	uint64_t first[WORDS];
	int result = 0;

	if (!all)
		return train_give_up(train, "out of memory");
	words_put(all + (size_t)exchange->rank * WORDS * PIECES, words);
	if (exchange_gather(exchange, all, WORDS * PIECES))
		result = train_fail_exchange(train);
	words_get(all, first);
	for (uint32_t rank = 0; rank < exchange->ranks && !result; rank++) {
		words_get(all + (size_t)rank * WORDS * PIECES, words);
		*squares += (squares_t)words[WORD_SQUARES_HIGH] << 64 | words[WORD_SQUARES_LOW];
		result = compare(train, rank, words, first);
	}
	free(all);
	return result;
}

static enum status engines_open(struct glm_train *train)
{
	const struct glm_data *data = train->data;

	train->order = malloc((data->rows + 1) * sizeof(*train->order));
	train->engines = calloc(data->shares_count, sizeof(*train->engines));
	if (data->classes_count)
		train->class_of = malloc(data->rows + 1);
	if (!train->order || !train->engines || (data->classes_count && !train->class_of))
		return STATUS_MEMORY;
	for (uint32_t i = 0; i < data->shares_count; i++) {
		const struct glm_engine_options options = {
			.classes = train->classes,
			.has_bias = train->options.bias >= 0 && data->share_first + i == 0,
			.bias = (float)train->options.bias,
			.l1 = train->options.l1,
			.l2 = train->options.l2,
			.bits = train->options.bits,
		};

		if ((uint64_t)data->shares[i].columns + 1 > INT32_MAX)
			return STATUS_COLUMNS;
		if (glm_engine_open(&train->engines[i], &data->shares[i], &options))
			return STATUS_MEMORY;
	}
	return train_layout_fits(train) ? STATUS_GOOD : STATUS_LAYOUT;
}

static void classes_find(struct glm_train *train)
{
	const struct glm_data *data = train->data;

	for (uint64_t row = 0; train->class_of && row < data->rows; row++) {
		uint8_t c = 0;

		while (c + 1u < data->classes_count && data->classes[c] != data->label[row])
			c++;
		train->class_of[row] = c;
	}
}

/* What is wrong with the options, which all ranks have alike, or with this data. */
static int options_check(struct glm_train *train)
{
	const struct glm_options *options = &train->options;
	const struct glm_data *data = train->data;
	const struct exchange *exchange = train->exchange;
	uint32_t fit = wire_fit(&options->wire, exchange->lanes_max) / train->classes;

	if (!data->rows || data->rows > UINT32_MAX)
		return train_fail(train, "%llu rows: there have to be 1 to 2^32 - 1",
				  (unsigned long long)data->rows);
	if (exchange->ranks > WIRE_RANKS_MAX)
		return train_fail(train, "%u ranks: %d at most", exchange->ranks, WIRE_RANKS_MAX);
	if (data->classes_count == 1)
		return train_fail(train,
				  "all rows have the label %g: there is nothing to tell apart",
				  data->classes[0]);
	if (!data->classes_count && options->loss != GLM_LEAST_SQUARES)
		return train_fail(train, "labels are numbers: only least-squares fits them, not %s",
				  loss_names[options->loss]);
	if (options->parallel == GLM_DATA_PARALLEL && data->columns.shares != 1)
		return train_fail(train, "data-parallel ranks have one thread, and all columns");
	if (!options->batch)
		return train_fail(train, "a mini-batch has to have rows");
	if (!(options->l1 >= 0) || !(options->l2 >= 0) || !(options->rate >= 0) ||
	    !(options->decay >= 0) || !(options->rate < DBL_MAX) || !(options->decay < DBL_MAX))
		return train_fail(train, "rate, decay, l1 and l2 have to be 0 or above");
	if (options->schedule == GLM_EXPONENTIAL && !(options->decay > 0 && options->decay <= 1))
		return train_fail(train, "decay %g: an exponential schedule needs 0 < decay <= 1",
				  options->decay);
	if (!fit || train->micro > fit)
		return train_fail(train,
				  "a micro-batch of %u rows with %u activations each does not fit "
				  "a packet of %u lanes: %u fit",
				  train->micro ? train->micro : 1, train->classes,
				  exchange->lanes_max, fit);
	return train_layout_check(train);
}

static int rate_find(struct glm_train *train, squares_t squares)
{
	const struct glm_options *options = &train->options;
	double mean = (double)squares / (double)train->data->rows / (double)(1ull << 40);

	train->rate = options->rate;
	if (!(train->rate > 0) && train_rate_auto(train, mean))
		return -1;
	if (!(train->rate * options->l2 < 1))
		return train_fail(
			train,
			"rate %g times l2 %g is 1 or more: a step would turn the model round",
			train->rate, options->l2);
	return 0;
}

/* Of the largest mini-batch: there may be fewer rows than it could have. */
static uint32_t batch_rows(const struct glm_train *train)
{
	uint64_t rows = train->data->rows, batch = train->options.batch;

	return (uint32_t)(rows < batch ? rows : batch);
}

static uint32_t lanes_of(const struct glm_train *train, uint32_t rows)
{
	return wire_lanes(&train->options.wire,
			  (rows < MICRO_MAX ? rows : MICRO_MAX) * train->classes);
}

/* The exchange hears what comes: before anything depends on how much it takes at once. */
static int tune(struct glm_train *train)
{
	const struct glm_options *options = &train->options;
	uint32_t each = train->micro ? lanes_of(train, train->micro) : 0;

	if (options->parallel == GLM_DATA_PARALLEL)
		return 0;
	if (train->exchange->ops->tune(train->exchange, lanes_of(train, batch_rows(train)), each))
		return train_fail_exchange(train);
	return 0;
}

static int open_all(struct glm_train *train)
{
	enum status status = engines_open(train);
	squares_t squares = 0;
	int result;

	if (status == STATUS_GOOD)
		classes_find(train);
	result = agree(train, status, &squares);
	if (!result)
		result = tune(train);
	if (!result)
		result = options_check(train);
	if (!result)
		result = rate_find(train, squares);
	return result ? result : train_layout_open(train);
}

int glm_train_open(struct glm_train **made, const struct glm_data *data,
		   const struct glm_options *options, struct exchange *exchange,
		   char error[GLM_ERROR_MAX])
{
	struct glm_train *train = calloc(1, sizeof(*train));

	if (!train) {
		exchange->ops->abort(exchange);
		snprintf(error, GLM_ERROR_MAX, "rank %u: out of memory", exchange->rank);
		return -1;
	}
	*train = (struct glm_train){ .data = data,
				     .options = *options,
				     .exchange = exchange,
				     .classes = data->classes_count > 2 ? data->classes_count : 1,
				     .threads = data->shares_count,
				     .micro = options->micro,
				     .options_hash = options_hash(options, data) };
	if (train->micro > batch_rows(train))
		train->micro = batch_rows(train);
	if (train->micro > MICRO_MAX)
		train->micro = MICRO_MAX;
	if (open_all(train)) {
		snprintf(error, GLM_ERROR_MAX, "%s", train->error);
		glm_train_close(train);
		return -1;
	}
	*made = train;
	return 0;
}

void glm_train_close(struct glm_train *train)
{
	if (!train)
		return;
	for (uint32_t i = 0; train->engines && i < train->threads; i++)
		glm_engine_close(&train->engines[i]);
	free(train->engines);
	free(train->class_of);
	free(train->order);
	free(train);
}

/* ---- epochs ---- */

/* Fisher and Yates; every epoch begins from the file's order, so that one can be gone on from. */
static void shuffle(struct glm_train *train)
{
	uint32_t rows = (uint32_t)train->data->rows;
	struct rng rng;

	for (uint32_t i = 0; i < rows; i++)
		train->order[i] = i;
	if (!train->options.is_shuffled)
		return;
	rng_init(&rng, train->options.seed, train->epochs);
	for (uint32_t i = rows - 1; i > 0; i--) {
		uint32_t other = rng_below(&rng, i + 1), row = train->order[i];

		train->order[i] = train->order[other];
		train->order[other] = row;
	}
}

static uint32_t micro_largest(const struct glm_train *train)
{
	uint32_t largest =
		wire_fit(&train->options.wire, train->exchange->lanes_max) / train->classes;

	if (largest > batch_rows(train))
		largest = batch_rows(train);
	return largest < MICRO_MAX ? largest : MICRO_MAX;
}

/* Every rank's times count, and so all choose alike. */
static int micro_choose(struct glm_train *train, const uint32_t *candidate, uint32_t count,
			int32_t *time_us)
{
	uint32_t best = 0;

	if (train->exchange->ops->sum(train->exchange, time_us, count))
		return train_fail_exchange(train);
	for (uint32_t i = 1; i < count; i++)
		if (time_us[i] < time_us[best])
			best = i;
	train->micro = candidate[best];
	return 0;
}

/* `each` mini-batches; *best_ns becomes less if they were faster. */
static int micro_try(struct glm_train *train, struct flow_plan *plan, uint64_t each,
		     uint64_t *best_ns)
{
	uint64_t begin_ns = clock_ns(), time_ns;
	int result;

	plan->end = plan->first + each;
	result = flow_run(train, plan);
	plan->first = plan->end;
	time_ns = clock_ns() - begin_ns;
	if (time_ns < *best_ns)
		*best_ns = time_ns;
	return result;
}

/* The first mini-batches of an epoch, with several micro-batches in turn: the model is the same whichever they
 * are. plan goes on where they end. */
static int micro_measure(struct glm_train *train, struct flow_plan *plan)
{
	const double us_most = INT32_MAX / WIRE_RANKS_MAX;
	uint32_t candidate[CANDIDATES] = { micro_largest(train) }, count = 1;
	uint64_t best_ns[CANDIDATES], each;
	int32_t time_us[CANDIDATES];
	int result = 0;

	while (count < CANDIDATES && candidate[count - 1] >= 2 * MICRO_MIN) {
		candidate[count] = (candidate[count - 1] + 1) / 2;
		count++;
	}
	memset(best_ns, 0xff, sizeof(best_ns));
	each = train_batches(train) / (count * MEASURE_ROUNDS);
	if (each > MEASURE_BATCHES)
		each = MEASURE_BATCHES;
	for (uint32_t i = 0; i < count * MEASURE_ROUNDS && each && !result; i++) {
		plan->micro = candidate[i % count];
		result = micro_try(train, plan, each, &best_ns[i % count]);
	}
	for (uint32_t i = 0; i < count; i++)
		time_us[i] = (int32_t)fmin((double)best_ns[i] / 1000, us_most);
	return result ? result : micro_choose(train, candidate, count, time_us);
}

static int settle(struct glm_train *train)
{
	struct exchange *exchange = train->exchange;
	int32_t unfit = 0;

	for (uint32_t i = 0; i < train->threads; i++)
		unfit |= !glm_engine_settle(&train->engines[i]);
	if (exchange->ops->sum(exchange, &unfit, 1))
		return train_fail_exchange(train);
	if (unfit)
		return train_fail(train,
				  "epoch %u: saturated: a weight is beyond float32. Try a --rate "
				  "below %g, or "
				  "--scale",
				  train->epochs + 1, train_rate(train, 0));
	return 0;
}

int glm_train_epoch(struct glm_train *train, glm_progress_fn fn, void *arg)
{
	bool is_rows = train->options.parallel == GLM_DATA_PARALLEL;
	struct flow_plan plan = { .progress = fn, .progress_arg = arg };
	int result = 0;

	if (train->error[0])
		return -1;
	shuffle(train);
	if (!train->micro && (train->exchange->ranks == 1 || is_rows))
		train->micro = micro_largest(train);
	if (!train->micro)
		result = micro_measure(train, &plan);
	plan.micro = train->micro;
	plan.end = train_batches(train);
	if (!result && plan.first < plan.end)
		result = is_rows ? rows_run(train, &plan) : flow_run(train, &plan);
	if (!result)
		result = settle(train);
	if (!result)
		train->epochs++;
	return result;
}
