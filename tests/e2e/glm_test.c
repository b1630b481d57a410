/* SPDX-License-Identifier: Apache-2.0 */
/* glm_test.c - training across processes: the model has the bits of one rank's, in both modes; a killed rank is named. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "glm/exchange_tally.h"
#include "glm/train_fixture.h"
#include "ranks.h"

enum { SIZE = 4, EPOCHS = 2, ODD = 2 };

static const double limit_s = 2.0;
static const char
	*const mode_names[] = { [EXCHANGE_LATENCY] = "latency", [EXCHANGE_DENSE] = "dense" };

struct glm_case {
	enum exchange_mode mode;
	struct matrix_shape shape;
	struct glm_options options;
	uint32_t threads;
};

static const struct glm_case cases[] = {
	{ EXCHANGE_LATENCY, { 500, 200, 2, 60, 1 }, { .bias = 1, .l2 = 0.001, .batch = 64 }, 1 },
	{ EXCHANGE_DENSE,
	  { 500, 200, 2, 60, 1 },
	  { .loss = GLM_LOGISTIC, .bias = 1, .batch = 64, .micro = 8 },
	  1 },
	{ EXCHANGE_AUTO,
	  { 300, 90, 5, 100, 2 },
	  { .loss = GLM_HINGE, .bias = -1, .l1 = 0.001, .batch = 40, .is_shuffled = true },
	  2 },
};

static struct exchange *join(struct ranks *ranks, uint32_t rank, enum exchange_mode mode)
{
	const struct exchange_tally_options options = { .mode = mode };
	struct exchange *exchange = NULL;
	char error[GLM_ERROR_MAX], number[16];

	snprintf(number, sizeof(number), "%u", rank);
	setenv("TALLY_RANK", number, 1);
	snprintf(number, sizeof(number), "%u", ranks->size);
	setenv("TALLY_SIZE", number, 1);
	setenv("TALLY_JOB", ranks->job, 1);
	setenv("TALLY_AGGREGATOR", ranks->aggregator, 1);
	if (exchange_tally(&exchange, &options, error))
		fprintf(stderr, "%s\n", error);
	CHECK(exchange);
	return exchange;
}

/* Trains; the model, to be freed, and all activations. */
static float *model_of(const struct glm_case *the, const struct matrix *matrix,
		       struct exchange *exchange, uint32_t threads, double *activations)
{
	uint32_t classes = matrix->classes_count > 2 ? matrix->classes_count : 1;
	float *weights = calloc((size_t)(matrix->features + 1) * classes, sizeof(*weights));
	struct glm_train *train;
	struct glm_data data;
	char error[GLM_ERROR_MAX];

	data_make(matrix, exchange->rank, exchange->ranks, threads, &data);
	CHECK(!glm_train_open(&train, &data, &the->options, exchange, error));
	for (int e = 0; e < EPOCHS; e++)
		CHECK(!glm_train_epoch(train, NULL, NULL));
	CHECK(!glm_train_activations(train, &data, activations));
	CHECK(!glm_train_weights(train, weights));
	CHECK(glm_train_micro(train) > 0);
	glm_train_close(train);
	data_free(&data);
	return weights;
}

static void train_body(struct ranks *ranks, uint32_t rank)
{
	const struct glm_case *the = ranks->arg;
	struct exchange *exchange = join(ranks, rank, the->mode), *alone;
	double *a = calloc(2 * the->shape.rows * 5, sizeof(*a));
	int32_t names[SIZE] = { 0 };
	float *all, *one;
	struct matrix matrix;

	matrix_make(&matrix, &the->shape);
	all = model_of(the, &matrix, exchange, the->threads, a);
	if (the->mode == EXCHANGE_AUTO)
		CHECK(!strcmp(exchange->name, "latency") || !strcmp(exchange->name, "dense"));
	else
		CHECK(!strcmp(exchange->name, mode_names[the->mode]));
	names[rank] = exchange->name[0];
	CHECK(!exchange_gather(exchange, names, 1));
	for (uint32_t i = 0; i < SIZE; i++)
		CHECK(names[i] == exchange->name[0]);
	exchange->ops->close(exchange);

	CHECK(!exchange_none(&alone));
	one = model_of(the, &matrix, alone, 1, a + the->shape.rows * 5);
	CHECK(rank || !memcmp(one, all, (matrix.features + 1) * sizeof(*one)));
	CHECK(!memcmp(a, a + the->shape.rows * 5, the->shape.rows * sizeof(*a)));
	CHECK(a[0] != 0);
	free(all);
	free(one);
	free(a);
	alone->ops->close(alone);
	matrix_free(&matrix);
}

static void glm__four_ranks_have_the_bits_of_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ranks ranks = {
			.size = SIZE, .is_local = true, .body = train_body, .arg = &cases[i]
		};

		assert_true(ranks_run(&ranks));
	}
}

/* ---- what ends it ---- */

static void kill_body(struct ranks *ranks, uint32_t rank)
{
	const struct glm_case *the = ranks->arg;
	struct exchange *exchange = join(ranks, rank, the->mode);
	struct ranks_report *report = &ranks->shared->report[rank];
	struct glm_train *train;
	struct glm_data data;
	struct matrix matrix;
	char error[GLM_ERROR_MAX];
	int result = 0;

	matrix_make(&matrix, &the->shape);
	data_make(&matrix, rank, SIZE, the->threads, &data);
	CHECK(!glm_train_open(&train, &data, &the->options, exchange, error));
	ranks_meet(ranks);
	for (int e = 0; !result; e++) {
		if (rank == ODD && e == 5) {
			ranks->shared->event_s = ranks_now_s();
			raise(SIGKILL);
		}
		result = glm_train_epoch(train, NULL, NULL);
	}
	report->at_s = ranks_now_s();
	report->result = TALLY_ERR_REMOTE;
	snprintf(report->text, sizeof(report->text), "%s", glm_train_error(train));
	report->has_come = true;
	CHECK(glm_train_epoch(train, NULL, NULL) == -1);
	glm_train_close(train);
	exchange->ops->close(exchange);
	data_free(&data);
	matrix_free(&matrix);
}

static void glm__killed_rank_is_named_on_all_others(void **state)
{
	const char *const words[RANKS_WORDS_MAX] = { "rank 2", ranks_host() };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct ranks ranks = { .size = SIZE, .body = kill_body, .arg = &cases[i] };

		ranks.is_killed[ODD] = true;
		assert_true(ranks_run(&ranks));
		assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
	}
}

/* A rank that gives up at home. */
static void abort_body(struct ranks *ranks, uint32_t rank)
{
	const struct glm_case *the = ranks->arg;
	struct exchange *exchange = join(ranks, rank, the->mode);
	struct ranks_report *report = &ranks->shared->report[rank];
	int32_t one = 1;

	ranks_meet(ranks);
	if (rank == ODD) {
		ranks->shared->event_s = ranks_now_s();
		exchange->ops->abort(exchange);
	}
	CHECK(exchange->ops->sum(exchange, &one, 1) == -1);
	report->at_s = ranks_now_s();
	report->result = TALLY_ERR_REMOTE;
	snprintf(report->text, sizeof(report->text), "%s", exchange->error);
	exchange->ops->close(exchange);
}

static void glm__rank_that_gives_up_is_named_on_all(void **state)
{
	const char *const words[RANKS_WORDS_MAX] = { "rank 2", "abort" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct ranks ranks = { .size = SIZE, .body = abort_body, .arg = &cases[i] };

		assert_true(ranks_run(&ranks));
		assert_true(ranks_have_reported(&ranks, TALLY_ERR_REMOTE, limit_s, words));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glm__four_ranks_have_the_bits_of_one),
		cmocka_unit_test(glm__killed_rank_is_named_on_all_others),
		cmocka_unit_test(glm__rank_that_gives_up_is_named_on_all),
	};

	if (ranks_lack_family())
		return 77;
	return cmocka_run_group_tests_name("glm", tests, NULL, NULL);
}
