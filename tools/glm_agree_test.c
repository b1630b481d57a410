/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include "glm/exchange_fixture.h"
#include "tools/glm.h"

#include <cmocka.h>

enum { RANKS = 4, WORDS_MAX = 32, LINE_MAX_BYTES = 256 };

/* One rank, in a thread. */
struct asked {
	char line[LINE_MAX_BYTES];
	struct glm_request request;
	struct exchange *exchange;
	int result;
	char error[GLM_ERROR_MAX];
};

static struct asked all[RANKS];
static struct shared shared;

static void parse(struct asked *rank, const char *words)
{
	char *argv[WORDS_MAX + 1] = { (char[]){ "tally glm train" } }, *at = rank->line, *word;
	int argc = 1;

	snprintf(rank->line, sizeof(rank->line), "rows %s", words);
	while ((word = strsep(&at, " ")) && *word)
		argv[argc++] = word;
	assert_int_equal(glm_request_parse(&rank->request, argc, argv), -1);
}

static void *agree(void *arg)
{
	struct asked *rank = arg;

	rank->result = glm_request_agree(&rank->request, rank->exchange, rank->error);
	return NULL;
}

/* Ranks 0, 2 and 3 have `most`, rank 1 `odd`; "": they agree. */
static void agreed(const char *most, const char *odd, const char *error)
{
	pthread_t thread[RANKS];

	memset(all, 0, sizeof(all));
	shared_init(&shared, RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		parse(&all[i], i == 1 ? odd : most);
		all[i].exchange = shared_open(&shared, i);
	}
	for (uint32_t i = 0; i < RANKS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, agree, &all[i]), 0);
	for (uint32_t i = 0; i < RANKS; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_string_equal(all[i].error, error);
		assert_int_equal(all[i].result, *error ? -1 : 0);
		all[i].exchange->ops->close(all[i].exchange);
	}
}

#define SAME "; give all ranks the same"
#define FIRST "; rank 0 does this: give it to rank 0, or to all ranks"

static void agree__what_changes_the_calls_is_named(void **state)
{
	static const struct {
		const char *most, *odd, *error;
	} cases[] = {
		{ "--epochs 3", "--epochs 4",
		  "--epochs differs: ranks 0, 2, 3 have 3, rank 1 has 4" SAME },
		{ "--early-stop 2", "",
		  "--early-stop differs: ranks 0, 2, 3 have 2, rank 1 has 0" SAME },
		{ "--test t", "",
		  "--test differs: ranks 0, 2, 3 have a file, rank 1 has none" SAME },
		{ "", "--test t",
		  "--test differs: ranks 0, 2, 3 have none, rank 1 has a file" SAME },
		{ "--threads 2", "", "--threads differs: ranks 0, 2, 3 have 2, rank 1 has 1" SAME },
		{ "", "--comm dense",
		  "--comm differs: ranks 0, 2, 3 have auto, rank 1 has dense" SAME },
		{ "--comm latency", "--comm dense",
		  "--comm differs: ranks 0, 2, 3 have latency, rank 1 has dense" SAME },
		{ "", "--parallel data",
		  "--parallel differs: ranks 0, 2, 3 have model, rank 1 has data" SAME },
		{ "", "-b 7", "--micro-batch differs: ranks 0, 2, 3 have auto, rank 1 has 7" SAME },
		{ "", "-B 65", "--batch differs: ranks 0, 2, 3 have 64, rank 1 has 65" SAME },
		{ "", "--bits 3", "--bits differs: ranks 0, 2, 3 have 0, rank 1 has 3" SAME },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		agreed(cases[i].most, cases[i].odd, cases[i].error);
}

static void agree__what_changes_the_model_is_named(void **state)
{
	static const struct {
		const char *odd, *error;
	} cases[] = {
		{ "--loss hinge", "--loss differs: ranks 0, 2, 3 have logistic, rank 1 has hinge" },
		{ "--l1 0.5", "--l1 differs: ranks 0, 2, 3 have 0, rank 1 has 0.5" },
		{ "--l2 0.5", "--l2 differs: ranks 0, 2, 3 have 0, rank 1 has 0.5" },
		{ "--bias 0", "--bias differs: ranks 0, 2, 3 have none, rank 1 has 0" },
		{ "--scale 2", "--scale differs: ranks 0, 2, 3 have 1, rank 1 has 2" },
		{ "--rate 2", "--rate differs: ranks 0, 2, 3 have auto, rank 1 has 2" },
		{ "--schedule sqrt",
		  "--schedule differs: ranks 0, 2, 3 have inverse, rank 1 has sqrt" },
		{ "--no-shuffle", "--no-shuffle differs: ranks 0, 2, 3 have no, rank 1 has yes" },
		{ "--seed 18446744073709551615",
		  "--seed differs: ranks 0, 2, 3 have 1, rank 1 has 18446744073709551615" },
		{ "--wire q12.19",
		  "--wire differs: ranks 0, 2, 3 have fixed64, rank 1 has q12.19" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char error[GLM_ERROR_MAX];

		snprintf(error, sizeof(error), "%s" SAME, cases[i].error);
		agreed("", cases[i].odd, error);
	}
	/* the last digit of a number counts */
	agreed("--decay 0.3", "--decay 0.30000000000000004",
	       "--decay differs: ranks 0, 2, 3 have 0.29999999999999999, rank 1 has "
	       "0.30000000000000004" SAME);
}

static void agree__what_rank_0_writes_the_others_need_not_have(void **state)
{
	(void)state;
	agreed("-m a --checkpoint c --checkpoint-every 3 --resume --plot p --json", "", "");
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_non_null(all[i].request.model);
		assert_non_null(all[i].request.checkpoint);
		assert_int_equal(all[i].request.checkpoint_every, 3);
		assert_true(all[i].request.is_resumed);
		assert_true(all[i].request.is_json);
	}
	agreed("-m a --checkpoint c", "-m b --checkpoint d", ""); /* the others' are not opened */
	agreed("", "", "");
	assert_null(all[1].request.model);
	assert_null(all[1].request.checkpoint);
	assert_false(all[1].request.is_json);
}

static void agree__what_rank_0_would_not_write_is_refused(void **state)
{
	(void)state;
	agreed("", "-m a", "--model differs: ranks 0, 2, 3 have none, rank 1 has a file" FIRST);
	agreed("", "--checkpoint c",
	       "--checkpoint differs: ranks 0, 2, 3 have none, rank 1 has a file" FIRST);
	agreed("--checkpoint c", "--checkpoint c --resume",
	       "--resume differs: ranks 0, 2, 3 have none, rank 1 has it" FIRST);
	agreed("--checkpoint c", "--checkpoint c --checkpoint-every 2",
	       "--checkpoint-every differs: ranks 0, 2, 3 have 1, rank 1 has 2" FIRST);
	agreed("", "--json", "--json differs: ranks 0, 2, 3 have none, rank 1 has it" FIRST);
	agreed("", "--plot p", "--plot differs: ranks 0, 2, 3 have none, rank 1 has a file" FIRST);
}

/* A matter of this rank's speed alone. */
static void agree__what_concerns_a_rank_alone_may_differ(void **state)
{
	(void)state;
	agreed("", "--no-overlap --layout dense", "");
	assert_int_equal(all[1].request.options.depth, 1);
	assert_int_equal(all[0].request.options.depth, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agree__what_changes_the_calls_is_named),
		cmocka_unit_test(agree__what_changes_the_model_is_named),
		cmocka_unit_test(agree__what_rank_0_writes_the_others_need_not_have),
		cmocka_unit_test(agree__what_rank_0_would_not_write_is_refused),
		cmocka_unit_test(agree__what_concerns_a_rank_alone_may_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
