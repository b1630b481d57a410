/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/bootstrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VARIABLES_MAX = 10, WORDS_MAX = 4 };

/* An environment, and what should come of it. */
struct env_case {
	const char *claim;
	const char *env[VARIABLES_MAX]; /* "NAME=value" */
	int result;
	const char *job; /* if TALLY_OK */
	uint32_t size, rank, local_size;
	bool is_local;
	const char *aggregator;
	const char *words[WORDS_MAX]; /* that the error's text has */
};

static const char *env_get(const char *name, void *arg)
{
	const char *const *env = arg;
	size_t length = strlen(name);

	for (size_t i = 0; i < VARIABLES_MAX && env[i]; i++) {
		if (!strncmp(env[i], name, length) && env[i][length] == '=')
			return env[i] + length + 1;
	}
	return NULL;
}

/* clang-format off */
static const struct env_case cases[] = {
	{ "tally's own, all on one host",
	  { "TALLY_RANK=1", "TALLY_SIZE=4", "TALLY_LOCAL_RANK=1", "TALLY_LOCAL_SIZE=4", "TALLY_JOB=j" },
	  TALLY_OK, "j", 4, 1, 4, true, "", { 0 } },
	{ "tally's own win over torchrun's",
	  { "TALLY_RANK=1", "TALLY_SIZE=2", "TALLY_JOB=j", "RANK=5", "WORLD_SIZE=8",
	    "TALLY_AGGREGATOR=agg:9" },
	  TALLY_OK, "j", 2, 1, 0, false, "agg:9", { 0 } },
	{ "a half-set of tally's is refused although torchrun's is complete",
	  { "TALLY_RANK=1", "RANK=5", "WORLD_SIZE=8" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "TALLY_RANK=1", "TALLY_SIZE=(not set)" } },
	{ "a size without a rank is refused",
	  { "TALLY_SIZE=4", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "TALLY_RANK=(not set)", "TALLY_SIZE=4" } },
	{ "an empty variable is not set",
	  { "TALLY_RANK=", "TALLY_SIZE=", "RANK=0", "WORLD_SIZE=1", "TALLY_JOB=j" },
	  TALLY_OK, "j", 1, 0, 0, true, "", { 0 } },
	{ "a rank beyond the size is refused",
	  { "TALLY_RANK=4", "TALLY_SIZE=4", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_RANK=4", "TALLY_SIZE=4" } },
	{ "a rank that is no number is refused",
	  { "TALLY_RANK=-1", "TALLY_SIZE=4", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_RANK=-1" } },
	{ "a size that is no number is refused",
	  { "TALLY_RANK=1", "TALLY_SIZE=4x", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_SIZE=4x" } },
	{ "a size beyond 32 bits is refused",
	  { "TALLY_RANK=1", "TALLY_SIZE=99999999999", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_SIZE=99999999999" } },
	{ "a size barely beyond 32 bits, too",
	  { "TALLY_RANK=1", "TALLY_SIZE=4294967298", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_SIZE=4294967298" } },
	{ "a local rank beyond the local size is refused",
	  { "TALLY_RANK=3", "TALLY_SIZE=4", "TALLY_LOCAL_RANK=3", "TALLY_LOCAL_SIZE=2", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "TALLY_LOCAL_RANK=3", "TALLY_LOCAL_SIZE=2" } },
	{ "more ranks here than anywhere are refused",
	  { "RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "LOCAL_WORLD_SIZE=8", "WORLD_SIZE=4" } },
	{ "no name for tally's own is refused",
	  { "TALLY_RANK=1", "TALLY_SIZE=4" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_JOB" } },

	{ "torchrun: run id and restart count make the job",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=abc",
	    "TORCHELASTIC_RESTART_COUNT=1", "MASTER_ADDR=m", "MASTER_PORT=29500" },
	  TALLY_OK, "abc.1", 4, 2, 4, true, "", { 0 } },
	{ "torchrun without a run id: the master's address makes the job",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=none",
	    "TORCHELASTIC_RESTART_COUNT=0", "MASTER_ADDR=m", "MASTER_PORT=29500" },
	  TALLY_OK, "m:29500.0", 4, 2, 4, true, "", { 0 } },
	{ "a rank alone is half of torchrun's",
	  { "RANK=0", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "RANK=0", "WORLD_SIZE=(not set)" } },
	{ "TALLY_JOB names the job for any launcher",
	  { "RANK=0", "WORLD_SIZE=2", "TALLY_JOB=mine", "TORCHELASTIC_RUN_ID=abc",
	    "TALLY_AGGREGATOR=local" },
	  TALLY_OK, "mine", 2, 0, 0, true, "", { 0 } },

	{ "Open MPI: its job id makes the job",
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
	    "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_NAMESPACE=3476291585" },
	  TALLY_OK, "3476291585", 2, 1, 2, true, "", { 0 } },
	{ "Open MPI without PMIx: the base job id",
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_MCA_ess_base_jobid=77",
	    "TALLY_AGGREGATOR=[::1]:7171" },
	  TALLY_OK, "77", 2, 1, 0, false, "[::1]:7171", { 0 } },
	{ "half of Open MPI's is refused",
	  { "OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=1" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=(not set)" } },

	{ "no launcher at all is refused, and says what to do",
	  { "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "tally run", "TALLY_RANK", "TALLY_SIZE" } },
	{ "several hosts without an aggregator are refused",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "2 of 4 ranks", "TALLY_AGGREGATOR" } },
	{ "unknown hosts without an aggregator are refused",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_AGGREGATOR=local" } },
	{ "a list of aggregators is not supported yet",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=a:1,b:2" },
	  TALLY_ERR_UNSUPPORTED, NULL, 0, 0, 0, false, NULL, { "a:1,b:2", "not a list" } },
	{ "a job beyond 256 ranks is refused",
	  { "TALLY_RANK=2", "TALLY_SIZE=257", "TALLY_JOB=j", "TALLY_AGGREGATOR=a" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "257", "256" } },
	{ "a name with a blank is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=a b" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "job", "byte 1", "0x20" } },
	{ "a timeout that is no number is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_INIT_TIMEOUT_S=soon" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_INIT_TIMEOUT_S=soon" } },
	{ "a timeout of 0 is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_INIT_TIMEOUT_S=0" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_INIT_TIMEOUT_S=0" } },
};
/* clang-format on */

static void check(const struct env_case *env)
{
	char text[BOOTSTRAP_TEXT_MAX] = "";
	struct bootstrap boot;
	void *arg = (void *)(uintptr_t)env->env;
	int result = bootstrap_env(&boot, env_get, arg, text);

	if (!result)
		result = bootstrap_finish(&boot, NULL, env_get, arg, text);
	if (result != env->result)
		fail_msg("%s: %d, not %d: %s", env->claim, result, env->result, text);
	for (size_t i = 0; i < WORDS_MAX && env->words[i]; i++) {
		if (!strstr(text, env->words[i]))
			fail_msg("%s: \"%s\" does not say %s", env->claim, text, env->words[i]);
	}
	if (result)
		return;
	if (strcmp(boot.job, env->job) || boot.size != env->size || boot.rank != env->rank ||
	    boot.local_size != env->local_size || boot.is_local != env->is_local ||
	    strcmp(boot.aggregator, env->aggregator))
		fail_msg("%s: job %s size %u rank %u local_size %u %d %s", env->claim, boot.job,
			 boot.size, boot.rank, boot.local_size, boot.is_local, boot.aggregator);
}

static void bootstrap__environment_gives_the_right_rank_or_names_what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check(&cases[i]);
}

static int finish(struct bootstrap *boot, const struct tally_options *options,
		  const char *const env[VARIABLES_MAX])
{
	char text[BOOTSTRAP_TEXT_MAX];

	boot->source = "arguments";
	return bootstrap_finish(boot, options, env_get, (void *)(uintptr_t)env, text);
}

static void bootstrap__arguments_alone_mean_one_host(void **state)
{
	const char *env[VARIABLES_MAX] = { NULL };
	struct bootstrap boot = { .job = "j", .size = 4, .rank = 3 };

	(void)state;
	assert_int_equal(finish(&boot, NULL, env), TALLY_OK);
	assert_true(boot.is_local);
	assert_int_equal(boot.init_timeout_s, 300);
}

static void bootstrap__options_win_over_the_environment(void **state)
{
	const char *env[VARIABLES_MAX] = { "TALLY_AGGREGATOR=other", "TALLY_INIT_TIMEOUT_S=7" };
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct bootstrap boot = { .job = "j", .size = 4, .rank = 3 };

	(void)state;
	assert_int_equal(finish(&boot, &options, env), TALLY_OK);
	assert_string_equal(boot.aggregator, "other");
	assert_int_equal(boot.init_timeout_s, 7);
	options.aggregator = "mine:1";
	options.init_timeout_s = 9;
	assert_int_equal(finish(&boot, &options, env), TALLY_OK);
	assert_string_equal(boot.aggregator, "mine:1");
	assert_int_equal(boot.init_timeout_s, 9);
}

static void bootstrap__wrong_arguments_are_refused(void **state)
{
	const char *env[VARIABLES_MAX] = { NULL };
	struct bootstrap no_name = { .job = "", .size = 4, .rank = 3 };
	struct bootstrap no_size = { .job = "j", .size = 0, .rank = 0 };
	struct bootstrap no_such_rank = { .job = "j", .size = 4, .rank = 4 };
	struct bootstrap good = { .job = "j", .size = 4, .rank = 3 };
	struct tally_options options = TALLY_OPTIONS_INIT;

	(void)state;
	assert_int_equal(finish(&no_name, NULL, env), TALLY_ERR_ARGUMENT);
	assert_int_equal(finish(&no_size, NULL, env), TALLY_ERR_ARGUMENT);
	assert_int_equal(finish(&no_such_rank, NULL, env), TALLY_ERR_ARGUMENT);
	options.local_size = 5;
	assert_int_equal(finish(&good, &options, env), TALLY_ERR_ARGUMENT);
	options.local_size = 2;
	assert_int_equal(finish(&good, &options, env), TALLY_ERR_ARGUMENT); /* several hosts */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			bootstrap__environment_gives_the_right_rank_or_names_what_is_wrong),
		cmocka_unit_test(bootstrap__arguments_alone_mean_one_host),
		cmocka_unit_test(bootstrap__options_win_over_the_environment),
		cmocka_unit_test(bootstrap__wrong_arguments_are_refused),
	};

	return cmocka_run_group_tests_name("lib-bootstrap", tests, NULL, NULL);
}
