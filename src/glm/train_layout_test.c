/* SPDX-License-Identifier: Apache-2.0 */
/* train_layout_test.c - how rows may lie, whether there is memory for it, and what was read of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "glm/train_fixture.h"
#include "glm/train_state.h"
#include "glm/weave.h"

enum { ROWS = 50, FEATURES = 24, RANKS = 3, RANK = 1, THREADS = 2, BATCH = 20 };

/* One rank of three, of which the test says what the others add; and how much memory there is. */
static struct {
	struct exchange exchange;
	struct exchange *none;
	struct exchange_ops ops;
	uint32_t aborts;
	size_t summed;
	int32_t times; /* all ranks have so many times what this one has; 0: nobody answers */
	long pages, page_bytes;
	bool has_no_memory;
	struct matrix matrix;
	struct glm_data data;
	struct glm_train *train;
} t;

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
	if (!t.pages || (name != _SC_PHYS_PAGES && name != _SC_PAGESIZE))
		return __real_sysconf(name);
	return name == _SC_PAGESIZE ? t.page_bytes : t.pages;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
	return t.has_no_memory ? NULL : __real_calloc(count, bytes);
}

static int sum(struct exchange *exchange, int32_t *values, size_t count)
{
	t.summed = count;
	for (size_t i = 0; i < count; i++)
		values[i] *= t.times;
	if (!t.times)
		strcpy(exchange->error, "nobody answers");
	return t.times ? 0 : -1;
}

static void count_abort(struct exchange *exchange)
{
	(void)exchange;
	t.aborts++;
}

static const struct glm_options plain = { .loss = GLM_LOGISTIC,
					  .bias = 1,
					  .rate = 0.1,
					  .batch = BATCH };

static void exchange_make(void)
{
	assert_int_equal(exchange_none(&t.none), 0);
	t.exchange = *t.none;
	t.ops = *t.none->ops;
	t.ops.sum = sum;
	t.ops.abort = count_abort;
	t.exchange.ops = &t.ops;
	t.times = 1;
}

static int setup(void **state)
{
	static const struct matrix_shape shape = { ROWS, FEATURES, 2, 300, 3 };

	(void)state;
	memset(&t, 0, sizeof(t));
	matrix_make(&t.matrix, &shape);
	exchange_make();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	t.pages = 0;
	t.has_no_memory = false;
	glm_train_close(t.train);
	t.none->ops->close(t.none);
	data_free(&t.data);
	matrix_free(&t.matrix);
	return 0;
}

/* ---- how much it takes ---- */

/* Features of all threads of a rank, counted one by one. */
static uint32_t features_of(uint32_t rank)
{
	uint32_t count = 0;

	for (uint32_t f = 0; f < FEATURES; f++)
		count += columns_share(&t.data.columns, f) / THREADS == rank;
	return count;
}

/* A train that was not opened: this rank's, as far as its memory is concerned. */
static struct glm_train train_like(enum glm_layout layout, uint32_t bits)
{
	struct glm_train train = { .data = &t.data, .exchange = &t.exchange, .threads = THREADS };

	train.options = plain;
	train.options.layout = layout;
	train.options.bits = bits;
	return train;
}

static void layout__fits_if_there_is_more_memory_than_it_takes(void **state)
{
	struct glm_train train;
	uint32_t bytes;

	(void)state;
	data_make(&t.matrix, RANK, RANKS, THREADS, &t.data);
	t.exchange.rank = RANK;
	t.exchange.ranks = RANKS;
	train = train_like(GLM_LAYOUT_DENSE, 0);
	bytes = ROWS * features_of(RANK) * 4;
	assert_true(features_of(0) > features_of(RANK)); /* all that are dealt out */
	assert_true(features_of(RANK) > 0);
	t.page_bytes = 1;
	t.pages = bytes;
	assert_false(train_layout_fits(&train));
	t.pages = bytes + 1;
	assert_true(train_layout_fits(&train));
	t.page_bytes = 4;
	t.pages = bytes / 4;
	assert_false(train_layout_fits(&train));
	t.pages = bytes / 4 + 1;
	assert_true(train_layout_fits(&train));
	/* What CSR takes is there already. */
	train = train_like(GLM_LAYOUT_CSR, 0);
	t.page_bytes = t.pages = 1;
	assert_true(train_layout_fits(&train));
}

static void refusal__says_what_the_rank_would_need(void **state)
{
	(void)state;
	data_make(&t.matrix, RANK, RANKS, THREADS, &t.data);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		struct glm_train train = train_like(GLM_LAYOUT_DENSE, 0);
		char words[200];

		snprintf(words, sizeof(words),
			 "rank %u: --layout dense takes %.4g GB for 50 rows of its columns, ", rank,
			 ROWS * features_of(rank) * 4 / 1e9);
		assert_int_equal(train_layout_refuse(&train, rank), -1);
		assert_memory_equal(train.error, words, strlen(words));
	}
}

static void open__is_refused_on_all_ranks_where_one_has_no_memory(void **state)
{
	struct glm_options options = plain;
	char error[GLM_ERROR_MAX] = "";

	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	options.layout = GLM_LAYOUT_DENSE;
	t.page_bytes = 1;
	t.pages = ROWS * FEATURES * 4;
	assert_int_equal(glm_train_open(&t.train, &t.data, &options, &t.exchange, error), -1);
	assert_string_equal(
		error,
		"rank 0: --layout dense takes 4.8e-06 GB for 50 rows of its columns, and there "
		"is less memory than that: --layout csr takes what is not 0 alone");
	t.pages++;
	assert_int_equal(glm_train_open(&t.train, &t.data, &options, &t.exchange, error), 0);
}

/* ---- what goes together ---- */

static void check_is(enum glm_layout layout, uint32_t bits, enum glm_parallel parallel,
		     const char *words)
{
	struct glm_train train = train_like(layout, bits);

	train.options.parallel = parallel;
	assert_int_equal(train_layout_check(&train), words[0] ? -1 : 0);
	assert_string_equal(train.error, words);
}

static void bits__go_with_planes_and_model_parallel(void **state)
{
	static const char *const together = "--layout weave and --bits go together";

	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	check_is(GLM_LAYOUT_AUTO, 0, GLM_MODEL_PARALLEL, "");
	check_is(GLM_LAYOUT_DENSE, 0, GLM_DATA_PARALLEL, "");
	check_is(GLM_LAYOUT_CSR, 0, GLM_MODEL_PARALLEL, "");
	check_is(GLM_LAYOUT_AUTO, 1, GLM_MODEL_PARALLEL, "");
	check_is(GLM_LAYOUT_WEAVE, 8, GLM_MODEL_PARALLEL, "");
	check_is(GLM_LAYOUT_WEAVE, 9, GLM_MODEL_PARALLEL, "9 bits of a value: 1 to 8");
	check_is(GLM_LAYOUT_WEAVE, 0, GLM_MODEL_PARALLEL, together);
	check_is(GLM_LAYOUT_DENSE, 8, GLM_MODEL_PARALLEL, together);
	check_is(GLM_LAYOUT_CSR, 1, GLM_MODEL_PARALLEL, together);
	check_is(GLM_LAYOUT_WEAVE, 4, GLM_DATA_PARALLEL, "--bits trains model-parallel");
}

/* Features that no sample knows of are dealt out in blocks: of 2^20 more than two shares may have, the second has too many
 * if the first has a block more. */
static void bits__are_of_shares_that_are_not_too_wide(void **state)
{
	uint64_t most = (uint64_t)WEAVE_FEATURES_MAX;
	struct glm_train train;

	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	columns_make(&t.data.columns, 2, NULL, NULL, 0);
	t.data.features = 2 * most;
	check_is(GLM_LAYOUT_AUTO, 2, GLM_MODEL_PARALLEL, "");
	t.data.features = 2 * most + 1;
	check_is(GLM_LAYOUT_AUTO, 2, GLM_MODEL_PARALLEL,
		 "--bits: a thread's share has 1048577 columns, and can have 1048576: take more "
		 "--threads or ranks");
	check_is(GLM_LAYOUT_CSR, 0, GLM_MODEL_PARALLEL, "");
	/* It is the last share of all that has too many. */
	t.data.columns.first[1] = t.data.columns.first[2] = 0;
	t.data.columns.first[2] = (uint32_t)most + 7;
	t.data.features = most + 7;
	train = train_like(GLM_LAYOUT_AUTO, 2);
	assert_int_equal(train_layout_check(&train), -1);
	assert_non_null(strstr(train.error, "has 1048583 columns"));
}

/* ---- laid out ---- */

static void open_with(enum glm_layout layout, uint32_t bits, double bias)
{
	struct glm_options options = plain;
	char error[GLM_ERROR_MAX] = "";

	options.layout = layout;
	options.bits = bits;
	options.bias = bias;
	if (glm_train_open(&t.train, &t.data, &options, &t.exchange, error))
		fail_msg("%s", error);
}

static void engines__all_lie_as_was_asked_for(void **state)
{
	static const struct {
		enum glm_layout asked, is;
		uint32_t bits;
		const struct glm_layout_ops *ops;
	} ways[] = {
		{ GLM_LAYOUT_AUTO, GLM_LAYOUT_CSR, 0, &glm_layout_csr },
		{ GLM_LAYOUT_DENSE, GLM_LAYOUT_DENSE, 0, &glm_layout_dense },
		{ GLM_LAYOUT_AUTO, GLM_LAYOUT_WEAVE, 3, &glm_layout_weave },
	};

	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		open_with(ways[i].asked, ways[i].bits, 1);
		assert_int_equal(glm_train_layout(t.train), ways[i].is);
		for (uint32_t k = 0; k < THREADS; k++)
			assert_ptr_equal(t.train->engines[k].layout, ways[i].ops);
		glm_train_close(t.train);
		t.train = NULL;
	}
}

static void layout__without_memory_tells_the_others(void **state)
{
	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	open_with(GLM_LAYOUT_CSR, 0, 1);
	t.train->options.layout = GLM_LAYOUT_DENSE;
	t.has_no_memory = true;
	assert_int_equal(train_layout_open(t.train), -1);
	assert_string_equal(glm_train_error(t.train), "rank 0: out of memory");
	assert_int_equal(t.aborts, 1);
}

/* ---- what was read ---- */

/* Of an epoch of logistic regression: each row once forward, once backward; the bias lies nowhere. */
static void bytes__of_an_epoch_are_those_of_the_rows_both_ways(void **state)
{
	uint64_t read, dense, nonzeros = 0;

	(void)state;
	for (uint32_t i = 0; i < ROWS * FEATURES; i++)
		nonzeros += t.matrix.value[i] != 0;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	for (int is_dense = 0; is_dense < 2; is_dense++) {
		open_with(is_dense ? GLM_LAYOUT_DENSE : GLM_LAYOUT_CSR, 0, 1);
		assert_int_equal(glm_train_bytes(t.train, &read, &dense), 0);
		assert_int_equal(read, 0);
		assert_int_equal(dense, 0);
		for (uint64_t epoch = 1; epoch <= 2; epoch++) {
			assert_int_equal(glm_train_epoch(t.train, NULL, NULL), 0);
			assert_int_equal(glm_train_bytes(t.train, &read, &dense), 0);
			assert_int_equal(dense, epoch * 2 * ROWS * FEATURES * 4);
			/* Of CSR each row has two places of 8 bytes in each share. */
			if (!is_dense)
				dense = epoch * 2 * (nonzeros * 8 + THREADS * ROWS * 16);
			assert_int_equal(read, dense);
		}
		glm_train_close(t.train);
		t.train = NULL;
	}
}

static void bytes__of_all_ranks_are_added_up(void **state)
{
	uint64_t read = 0, dense = 0;

	(void)state;
	data_make(&t.matrix, 0, 1, THREADS, &t.data);
	open_with(GLM_LAYOUT_CSR, 0, 1);
	t.times = 3;
	t.train->engines[0].bytes_read = 0x0123fffe89abcdef;
	t.train->engines[1].bytes_read = 0x1000000000000011;
	t.train->engines[0].rows_read = 0x10003fffe0001;
	t.train->engines[1].rows_read = 5;
	assert_int_equal(glm_train_bytes(t.train, &read, &dense), 0);
	assert_true(read == 3 * 0x1123fffe89abce00);
	assert_int_equal(t.summed, 2 * 4); /* of two numbers 16 bits each */
	assert_true(dense == 12 * (0x10003fffe0001 * t.data.shares[0].columns +
				   5ull * t.data.shares[1].columns));
	t.times = 0;
	assert_int_equal(glm_train_bytes(t.train, &read, &dense), -1);
	assert_string_equal(glm_train_error(t.train), "nobody answers");
	assert_true(read == 3 * 0x1123fffe89abce00);
	t.times = 1; /* once it has failed nobody is asked */
	assert_int_equal(glm_train_bytes(t.train, &read, &dense), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(layout__fits_if_there_is_more_memory_than_it_takes),
		TEST(refusal__says_what_the_rank_would_need),
		TEST(open__is_refused_on_all_ranks_where_one_has_no_memory),
		TEST(bits__go_with_planes_and_model_parallel),
		TEST(bits__are_of_shares_that_are_not_too_wide),
		TEST(engines__all_lie_as_was_asked_for),
		TEST(layout__without_memory_tells_the_others),
		TEST(bytes__of_an_epoch_are_those_of_the_rows_both_ways),
		TEST(bytes__of_all_ranks_are_added_up),
#undef TEST
	};

	return cmocka_run_group_tests_name("glm-train-layout", tests, NULL, NULL);
}
