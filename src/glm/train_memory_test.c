/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train_memory_test.c - a training that has not all the memory that it wants: whichever piece is missing, the others are
 * told and a sentence says why; and whatever it has got it gives back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "glm/train_fixture.h"
#include "util/memory_fixture.h"

enum { ROWS = 40, FEATURES = 12, THREADS = 2, PIECES_MAX = 200 };

static uint32_t aborts;

static void count_abort(struct exchange *exchange)
{
	(void)exchange;
	aborts++;
}

/* All that a training does. 0, or -1 and why. */
static int train_all(const struct glm_data *data, const struct glm_options *options,
		     struct exchange *exchange, char error[GLM_ERROR_MAX])
{
	float weight[(FEATURES + 1) * 3];
	double activation[ROWS * 3];
	struct glm_train *train = NULL;
	struct glm_parts parts;
	void *bytes = NULL;
	size_t count = 0;
	int result = glm_train_open(&train, data, options, exchange, error);

	if (result)
		return -1;
	result = glm_train_epoch(train, NULL, NULL) ||
		 glm_train_activations(train, data, activation) ||
		 glm_train_weights(train, weight) || glm_train_save(train, &bytes, &count) ||
		 (options->parallel == GLM_MODEL_PARALLEL && glm_train_parts(train, &parts));
	free(bytes);
	snprintf(error, GLM_ERROR_MAX, "%s", glm_train_error(train));
	glm_train_close(train);
	return result ? -1 : 0;
}

static int load_all(const struct glm_data *data, const struct glm_options *options,
		    struct exchange *exchange, const void *bytes, size_t count,
		    char error[GLM_ERROR_MAX])
{
	struct glm_train *train = NULL;
	int result = glm_train_open(&train, data, options, exchange, error);

	if (result)
		return -1;
	result = glm_train_load(train, bytes, count);
	snprintf(error, GLM_ERROR_MAX, "%s", glm_train_error(train));
	glm_train_close(train);
	return result;
}

/* A state to go on from. */
static size_t state_of(const struct glm_data *data, const struct glm_options *options,
		       struct exchange *exchange, void **bytes)
{
	char error[GLM_ERROR_MAX] = "";
	struct glm_train *train;
	size_t count;

	assert_int_equal(glm_train_open(&train, data, options, exchange, error), 0);
	assert_int_equal(glm_train_save(train, bytes, &count), 0);
	glm_train_close(train);
	return count;
}

/* How often it asks for memory, of which each piece is missing once. */
static unsigned pieces_of(const struct glm_options *options, uint32_t threads, bool is_load)
{
	static const struct matrix_shape shape = { ROWS, FEATURES, 3, 400, 5 };
	char error[GLM_ERROR_MAX];
	struct exchange *exchange;
	struct exchange_ops ops;
	struct matrix matrix;
	struct glm_data data;
	void *bytes = NULL;
	unsigned missing = 1;
	size_t count;

	matrix_make(&matrix, &shape);
	data_make(&matrix, 0, 1, threads, &data);
	assert_int_equal(exchange_none(&exchange), 0);
	ops = *exchange->ops;
	ops.abort = count_abort;
	exchange->ops = &ops;
	count = state_of(&data, options, exchange, &bytes);
	for (;; missing++) {
		int result;

		assert_true(missing < PIECES_MAX);
		aborts = 0;
		error[0] = 0;
		memory_count(missing);
		result = is_load ? load_all(&data, options, exchange, bytes, count, error)
				 : train_all(&data, options, exchange, error);
		memory.is_counting = false;
		if (memory.held)
			fail_msg("without piece %u %d are not given back", missing, memory.held);
		if (!result)
			break;
		if (!strstr(error, "rank 0: ") || !strstr(error, "memory"))
			fail_msg("without piece %u: %s", missing, error);
	}
	assert_string_equal(error, "");
	assert_int_equal(aborts, 0);
	assert_true(memory.asked < missing); /* nothing was missing */
	free(bytes);
	exchange->ops->close(exchange);
	data_free(&data);
	matrix_free(&matrix);
	return missing - 1;
}

static const struct glm_options plain = { .loss = GLM_LOGISTIC,
					  .bias = 1,
					  .l1 = 0.001,
					  .batch = 16 };

static void memory__of_a_training_may_be_missing_anywhere(void **state)
{
	struct glm_options options = plain;

	(void)state;
	assert_true(pieces_of(&options, 1, false) > 30);
	options.rate = 0.1;
	assert_true(pieces_of(&options, THREADS, false) > 20);
}

static void memory__of_layouts_may_be_missing(void **state)
{
	struct glm_options options = plain;
	unsigned csr;

	(void)state;
	options.rate = 0.1;
	options.layout = GLM_LAYOUT_CSR;
	csr = pieces_of(&options, 1, false);
	options.layout = GLM_LAYOUT_DENSE;
	assert_int_equal(pieces_of(&options, 1, false), csr + 1);
	options.layout = GLM_LAYOUT_WEAVE;
	options.bits = 3;
	assert_in_range(pieces_of(&options, 1, false), csr + 4, csr + 12);
}

static void memory__of_data_parallel_ranks_may_be_missing(void **state)
{
	struct glm_options options = plain;

	(void)state;
	options.rate = 0.1;
	options.parallel = GLM_DATA_PARALLEL;
	assert_true(pieces_of(&options, 1, false) > 10);
}

static void memory__of_a_state_may_be_missing(void **state)
{
	struct glm_options options = plain;

	(void)state;
	options.rate = 0.1;
	assert_true(pieces_of(&options, 1, true) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__of_a_training_may_be_missing_anywhere),
		cmocka_unit_test(memory__of_layouts_may_be_missing),
		cmocka_unit_test(memory__of_data_parallel_ranks_may_be_missing),
		cmocka_unit_test(memory__of_a_state_may_be_missing),
	};

	return cmocka_run_group_tests_name("glm-train-memory", tests, NULL, NULL);
}
