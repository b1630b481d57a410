/* SPDX-License-Identifier: Apache-2.0 */
/* train_sums.c - what is asked of a trainer between epochs: activations of all rows, the model, the state. */
#include <stdlib.h>
#include <string.h>

#include "glm/train_state.h"
#include "util/bytes.h"

enum {
	ACTIVATIONS_AT_ONCE = 1 << 18,
	WEIGHTS_AT_ONCE = 1 << 20,
};

/* ---- activations ---- */

struct pass {
	struct glm_train *train;
	const struct glm_data *data;
	uint64_t first; /* row of this part of the pass */
	uint32_t count; /* rows */
	uint32_t *rows; /* their numbers */
	int64_t *parts; /* [threads][count * classes] */
	int32_t *lanes;
	size_t part_max; /* activations */
};

struct pass_thread {
	struct pass *pass;
	uint32_t index;
	bool fits;
	pthread_t id;
};

static void *pass_forward(void *arg)
{
	struct pass_thread *thread = arg;
	struct pass *pass = thread->pass;

	thread->fits = glm_engine_score(&pass->train->engines[thread->index],
					&pass->data->shares[thread->index], pass->rows, pass->count,
					pass->parts + thread->index * pass->part_max);
	return NULL;
}

/* This rank's part of these rows' activations, in lanes; -1: no threads. */
static int pass_part(struct pass *pass)
{
	struct glm_train *train = pass->train;
	struct pass_thread *threads = calloc(train->threads, sizeof(*threads));
	uint32_t count = pass->count * train->classes, started = 1;
	const struct glm_wire wide = { .is_narrow = false };
	bool beyond = false;

	if (!threads)
		return -1;
	for (uint32_t i = 0; i < train->threads; i++)
		threads[i] = (struct pass_thread){ .pass = pass, .index = i };
	while (started < train->threads &&
	       !pthread_create(&threads[started].id, NULL, pass_forward, &threads[started]))
		started++;
	pass_forward(&threads[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i].id, NULL);
	for (uint32_t t = 0; t < started; t++) {
		const int64_t *parts = pass->parts + t * pass->part_max;

		beyond |= !threads[t].fits;
		for (uint32_t i = 0; t && i < count; i++)
			beyond |= __builtin_add_overflow(pass->parts[i], parts[i], &pass->parts[i]);
	}
	free(threads);
	if (!train_is_counted(train))
		memset(pass->parts, 0, count * sizeof(*pass->parts));
	wire_pack(&wide, train->exchange->ranks, pass->parts, count, beyond, pass->lanes);
	return started == train->threads ? 0 : -1;
}

static int pass_run(struct pass *pass, double *a)
{
	struct glm_train *train = pass->train;
	const struct glm_wire wide = { .is_narrow = false };
	uint32_t classes = train->classes, at_once = (uint32_t)(pass->part_max / classes);

	for (; pass->first < pass->data->rows; pass->first += pass->count) {
		uint64_t left = pass->data->rows - pass->first;

		pass->count = left < at_once ? (uint32_t)left : at_once;
		for (uint32_t i = 0; i < pass->count; i++)
			pass->rows[i] = (uint32_t)(pass->first + i);
		if (pass_part(pass))
			return train_give_up(train,
					     "no memory or no threads for a pass over the data");
		if (train->exchange->ops->sum(train->exchange, pass->lanes,
					      wire_lanes(&wide, pass->count * classes)))
			return train_fail_exchange(train);
		if (!wire_unpack(&wide, pass->lanes, pass->count * classes,
				 a + pass->first * classes))
			return train_fail(
				train,
				"after epoch %u: saturated: an activation of one of the rows %llu "
				"to "
				"%llu is above %g in size. Try a --rate below %g, or --scale",
				train->epochs, (unsigned long long)pass->first + 1,
				(unsigned long long)pass->first + pass->count, wire_limit(&wide, 1),
				train_rate(train, 0));
	}
	return 0;
}

int glm_train_activations(struct glm_train *train, const struct glm_data *data, double *a)
{
	const struct glm_wire wide = { .is_narrow = false };
	uint64_t rows_most = ACTIVATIONS_AT_ONCE / train->classes;
	size_t at_once = (data->rows < rows_most ? data->rows : rows_most) * train->classes;
	struct pass pass = { .train = train, .data = data, .part_max = at_once };
	bool is_alike = data->shares_count == train->threads;
	int result;

	if (train->error[0])
		return -1;
	for (uint32_t i = 0; is_alike && i < train->threads; i++)
		is_alike = data->shares[i].columns <= train->data->shares[i].columns;
	if (!is_alike)
		return train_give_up(train, "these rows are not split as the training's are");
	pass.rows = malloc(at_once * sizeof(*pass.rows));
	pass.parts = malloc(train->threads * at_once * sizeof(*pass.parts));
	pass.lanes = malloc(wire_lanes(&wide, (uint32_t)at_once) * sizeof(*pass.lanes));
	if (!pass.rows || !pass.parts || !pass.lanes)
		result = train_give_up(train, "out of memory");
	else
		result = pass_run(&pass, a);
	free(pass.rows);
	free(pass.parts);
	free(pass.lanes);
	return result;
}

/* ---- the model, from everywhere to rank 0 and back ---- */

static uint64_t features_all(const struct glm_train *train)
{
	return train->data->features + (train->options.bias >= 0);
}

/* The features [first, end), which one rank each owns, between the engines and `bits`. */
struct block {
	uint64_t first, end;
	int32_t *bits; /* [(end - first) * classes] */
};

static void column_move(const struct glm_train *train, const struct block *block, uint64_t feature,
			float *weight, bool is_load)
{
	int32_t *bits = block->bits + (feature - block->first) * train->classes;
	size_t bytes = train->classes * sizeof(*bits);

	if (is_load)
		memcpy(weight, bits, bytes);
	else
		memcpy(bits, weight, bytes);
}

/* `local` is where each share goes on: its columns' features rise. */
static void block_move(struct glm_train *train, const struct block *block, uint32_t *local,
		       bool is_load)
{
	const struct glm_data *data = train->data;

	for (uint32_t i = 0; i < train->threads; i++) {
		struct glm_engine *engine = &train->engines[i];
		float *weight = engine->weight;

		for (; local[i] < data->shares[i].columns; local[i]++) {
			uint64_t feature =
				columns_global(&data->columns, data->share_first + i, local[i]);

			if (feature >= block->end)
				break;
			column_move(train, block, feature,
				    weight + (size_t)local[i] * train->classes, is_load);
		}
		if (engine->options.has_bias && block->end > data->features)
			column_move(train, block, data->features,
				    weight + ((size_t)engine->columns - 1) * train->classes,
				    is_load);
	}
}

/* On rank 0 from or to w: a float's bits are one rank's, and 0 elsewhere, and so is their sum. */
static int weights_move(struct glm_train *train, float *w, bool is_load)
{
	struct exchange *exchange = train->exchange;
	uint64_t features = features_all(train), at_once = WEIGHTS_AT_ONCE / train->classes;
	uint32_t *local = calloc(train->threads, sizeof(*local));
	struct block block = { .first = 0 };
	int result = 0;

	if (at_once > features)
		at_once = features;
	block.bits = malloc(at_once * train->classes * sizeof(*block.bits) + 1); /* never none */
	if (!local || !block.bits)
		result = train_give_up(train, "out of memory");
	for (; block.first < features && !result; block.first = block.end) {
		size_t count;

		block.end = features - block.first < at_once ? features : block.first + at_once;
		count = (block.end - block.first) * train->classes;
		memset(block.bits, 0, count * sizeof(*block.bits));
		if (is_load && exchange->rank == 0)
			memcpy(block.bits, w + block.first * train->classes, count * sizeof(*w));
		if (!is_load && train_is_counted(train))
			block_move(train, &block, local, false);
		if (exchange->ops->sum(exchange, block.bits, count))
			result = train_fail_exchange(train);
		else if (is_load)
			block_move(train, &block, local, true);
		else if (exchange->rank == 0)
			memcpy(w + block.first * train->classes, block.bits, count * sizeof(*w));
	}
	for (uint32_t i = 0; is_load && i < train->threads; i++)
		glm_engine_changed(&train->engines[i]);
	free(local);
	free(block.bits);
	return result;
}

int glm_train_weights(struct glm_train *train, float *w)
{
	return train->error[0] ? -1 : weights_move(train, w, false);
}

/* ---- the state ---- */

/*
 * Numbers of 8 bytes, little endian: what it is, the file's and the options' hashes, features with the bias,
 * classes, epochs, the rate's bits; then the weights, 4 bytes each. At the end of an epoch there is no more.
 */
enum {
	STATE_WHAT,
	STATE_FILE,
	STATE_OPTIONS,
	STATE_FEATURES,
	STATE_CLASSES,
	STATE_EPOCHS,
	STATE_RATE,
	STATE_WORDS
};

static const uint64_t state_what = 0x3174732d6d6c67; /* "glm-st1" */

static void words_make(const struct glm_train *train, uint64_t words[STATE_WORDS])
{
	words[STATE_WHAT] = state_what;
	words[STATE_FILE] = train->data->hash;
	words[STATE_OPTIONS] = train->options_hash;
	words[STATE_FEATURES] = features_all(train);
	words[STATE_CLASSES] = train->classes;
	words[STATE_EPOCHS] = train->epochs;
	memcpy(&words[STATE_RATE], &train->rate, 8);
}

static size_t weights_count(const struct glm_train *train)
{
	return features_all(train) * train->classes;
}

int glm_train_save(struct glm_train *train, void **bytes, size_t *count)
{
	bool is_first = train->exchange->rank == 0;
	size_t weights = weights_count(train);
	float *w = is_first ? malloc(weights * sizeof(*w) + 1) : NULL;
	uint8_t *state = is_first ? malloc(STATE_WORDS * 8 + weights * 4) : NULL;
	uint64_t words[STATE_WORDS];
	int result = train->error[0] ? -1 : 0;

	if (!result && is_first && (!w || !state))
		result = train_give_up(train, "out of memory");
	if (!result)
		result = weights_move(train, w, false);
	if (result) {
		free(w);
		free(state);
		return -1;
	}
	words_make(train, words);
	for (size_t i = 0; is_first && i < STATE_WORDS; i++)
		bytes_put(state + 8 * i, words[i], 8);
	for (size_t i = 0; is_first && i < weights; i++) {
		uint32_t bits;

		memcpy(&bits, &w[i], sizeof(bits));
		bytes_put(state + STATE_WORDS * 8 + 4 * i, bits, 4);
	}
	free(w);
	*bytes = state;
	*count = is_first ? STATE_WORDS * 8 + weights * 4 : 0;
	return 0;
}

enum refusal {
	REFUSE_NOTHING,
	REFUSE_KIND,
	REFUSE_FILE,
	REFUSE_OPTIONS,
	REFUSE_SIZE,
	REFUSE_MEMORY
};

static const char *const refusals[] = {
	[REFUSE_KIND] = "this is no state of a training",
	[REFUSE_FILE] = "the state is of a training with another file",
	[REFUSE_OPTIONS] = "the state is of a training with other options",
	[REFUSE_SIZE] = "the state is not whole",
	[REFUSE_MEMORY] = "rank 0: out of memory",
};

static enum refusal words_check(const struct glm_train *train, const uint8_t *bytes, size_t count,
				uint64_t words[STATE_WORDS])
{
	uint64_t mine[STATE_WORDS];

	words_make(train, mine);
	if (count < STATE_WORDS * 8 || bytes_get(bytes, 8) != state_what)
		return REFUSE_KIND;
	for (size_t i = 0; i < STATE_WORDS; i++)
		words[i] = bytes_get(bytes + 8 * i, 8);
	if (words[STATE_FILE] != mine[STATE_FILE])
		return REFUSE_FILE;
	for (size_t i = STATE_OPTIONS; i < STATE_WORDS; i++)
		if (words[i] != mine[i] && i != STATE_EPOCHS)
			return REFUSE_OPTIONS;
	if (count != STATE_WORDS * 8 + weights_count(train) * 4 || words[STATE_EPOCHS] > UINT32_MAX)
		return REFUSE_SIZE;
	return REFUSE_NOTHING;
}

/* On rank 0: the weights, to be freed. */
static enum refusal state_read(const struct glm_train *train, const uint8_t *bytes, size_t count,
			       uint64_t words[STATE_WORDS], float **w)
{
	enum refusal refusal = words_check(train, bytes, count, words);
	size_t weights = weights_count(train);

	if (refusal)
		return refusal;
	*w = malloc(weights * sizeof(**w) + 1);
	if (!*w)
		return REFUSE_MEMORY;
	for (size_t i = 0; i < weights; i++) {
		uint32_t bits = (uint32_t)bytes_get(bytes + STATE_WORDS * 8 + 4 * i, 4);

		memcpy(&(*w)[i], &bits, sizeof(bits));
	}
	return REFUSE_NOTHING;
}

int glm_train_load(struct glm_train *train, const void *bytes, size_t count)
{
	struct exchange *exchange = train->exchange;
	uint64_t words[STATE_WORDS] = { 0 };
	int32_t told[3] = { 0 }; /* enum refusal; the epochs, in two parts */
	float *w = NULL;
	int result;

	if (train->error[0])
		return -1;
	if (exchange->rank == 0) {
		told[0] = (int32_t)state_read(train, bytes, count, words, &w);
		told[1] = (int32_t)(words[STATE_EPOCHS] & 0xffff);
		told[2] = (int32_t)(words[STATE_EPOCHS] >> 16 & 0xffff);
	}
	if (exchange->ops->sum(exchange, told, 3))
		result = train_fail_exchange(train);
	else if (told[0])
		result = train_fail(train, "%s", refusals[told[0]]);
	else
		result = weights_move(train, w, true);
	if (!result)
		train->epochs = (uint32_t)told[1] | (uint32_t)told[2] << 16;
	free(w);
	return result;
}
