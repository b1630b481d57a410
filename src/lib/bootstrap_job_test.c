/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap_job_test.c - a launcher's name is one run's and no other's, and the same on all ranks of that: every
 * launcher that is read has its rows here, of two ranks each, on hosts that are played.
 */
#include "lib/bootstrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/host_id.h"

enum { VARIABLES_MAX = 14, WORDS_MAX = 4 };

/* ---- hosts ---- */

struct host {
	const char *name, *id; /* boot id and network namespace */
};

static const struct host node1 = { "node1", "b0075eed-1/4026531840" };
static const struct host node2 = { "node2", "b0075eed-2/4026531840" };
static const struct host like1 = { "node1", "b0075eed-3/4026531840" }; /* of one image */
static const struct host pod1 = { "node1", "b0075eed-1/4026532999" };  /* a container on node1 */
static const struct host *host;

void __wrap_host_id_read(char id[HOST_ID_BYTES]);
int __wrap_gethostname(char *name, size_t bytes);

void __wrap_host_id_read(char id[HOST_ID_BYTES])
{
	strcpy(id, host->id);
}

int __wrap_gethostname(char *name, size_t bytes)
{
	snprintf(name, bytes, "%s", host->name);
	return 0;
}

/* ---- rows ---- */

struct rank {
	const struct host *host;
	const char *env[VARIABLES_MAX]; /* "NAME=value" */
};

enum relation { SAME, OTHER };

struct row {
	const char *claim;
	enum relation relation;
	struct rank a, b;
};

/* clang-format off */
#define TORCHRUN(rank, size, local) "RANK=" rank, "WORLD_SIZE=" size, "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=" local
#define STATIC(address) "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0", "MASTER_ADDR=" address, "MASTER_PORT=29500"
#define OMPI(rank, size, local) "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size, "OMPI_COMM_WORLD_LOCAL_RANK=0", \
	"OMPI_COMM_WORLD_LOCAL_SIZE=" local
#define SRUN(rank, job, step) "SLURM_PROCID=" rank, "SLURM_NTASKS=4", "SLURM_STEP_NUM_TASKS=4", "SLURM_JOB_ID=" job, \
	"SLURM_STEP_ID=" step
#define AT "TALLY_AGGREGATOR=a"

static const struct row rows[] = {
	/* torchrun without a run id */
	{ "torchrun: two ranks of one host", SAME,
	  { &node1, { TORCHRUN("0", "2", "2"), STATIC("127.0.0.1"), AT } },
	  { &node1, { TORCHRUN("1", "2", "2"), STATIC("127.0.0.1"), AT } } },
	{ "torchrun: two jobs of two hosts", OTHER,
	  { &node1, { TORCHRUN("0", "2", "2"), STATIC("127.0.0.1"), AT } },
	  { &node2, { TORCHRUN("1", "2", "2"), STATIC("127.0.0.1"), AT } } },
	{ "torchrun: two jobs of two hosts of one name", OTHER,
	  { &node1, { TORCHRUN("0", "2", "2"), STATIC("localhost"), AT } },
	  { &like1, { TORCHRUN("1", "2", "2"), STATIC("localhost"), AT } } },
	{ "torchrun: two jobs of a host and a container on it", OTHER,
	  { &node1, { TORCHRUN("0", "2", "2"), STATIC("::1"), AT } },
	  { &pod1, { TORCHRUN("1", "2", "2"), STATIC("::1"), AT } } },
	{ "torchrun: two jobs of one host have ports of their own", OTHER,
	  { &node1, { TORCHRUN("0", "2", "2"), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500", AT } },
	  { &node1, { TORCHRUN("1", "2", "2"), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29501", AT } } },
	{ "torchrun: one rank is on one host, whatever else is said", OTHER,
	  { &node1, { "RANK=0", "WORLD_SIZE=1", STATIC("127.0.0.1"), AT } },
	  { &node2, { "RANK=0", "WORLD_SIZE=1", STATIC("127.0.0.1"), AT } } },
	{ "torchrun: one job of two hosts", SAME,
	  { &node1, { TORCHRUN("0", "4", "2"), STATIC("node1"), AT } },
	  { &node2, { TORCHRUN("3", "4", "2"), STATIC("node1"), AT } } },
	/* and with one */
	{ "torchrun: the restart count differs between two agents after one failure", SAME,
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=100", "TORCHELASTIC_RESTART_COUNT=1", AT } },
	  { &node2, { TORCHRUN("2", "4", "2"), "TORCHELASTIC_RUN_ID=100", "TORCHELASTIC_RESTART_COUNT=0", AT } } },
	{ "torchrun: so it does without a run id", SAME,
	  { &node1, { TORCHRUN("0", "4", "2"), "MASTER_ADDR=node1", "TORCHELASTIC_RESTART_COUNT=1", AT } },
	  { &node2, { TORCHRUN("2", "4", "2"), "MASTER_ADDR=node1", "TORCHELASTIC_RESTART_COUNT=0", AT } } },
	{ "torchrun: two agents on one host", SAME,
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=x", "MASTER_ADDR=localhost", AT } },
	  { &node1, { TORCHRUN("2", "4", "2"), "TORCHELASTIC_RUN_ID=x", "MASTER_ADDR=localhost", AT } } },
	{ "torchrun: two agents of different numbers of ranks", SAME,
	  { &node1, { TORCHRUN("0", "4", "1"), "TORCHELASTIC_RUN_ID=x", AT } },
	  { &node2, { TORCHRUN("2", "4", "3"), "TORCHELASTIC_RUN_ID=x", AT } } },
	{ "torchrun: --rdzv_id=100 of an example, in two jobs of other masters", OTHER,
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=node1", "MASTER_PORT=29500", AT } },
	  { &node2, { TORCHRUN("2", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=node3", "MASTER_PORT=29500", AT } } },
	{ "torchrun: and of other ports", OTHER,
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=localhost", "MASTER_PORT=29500", AT } },
	  { &node2, { TORCHRUN("2", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=localhost", "MASTER_PORT=40961", AT } } },
	{ "torchrun: a run id and one master", SAME,
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=node1", "MASTER_PORT=29500", AT } },
	  { &node2, { TORCHRUN("2", "4", "2"), "TORCHELASTIC_RUN_ID=100", "MASTER_ADDR=node1", "MASTER_PORT=29500", AT } } },
	{ "torchrun: --rdzv_id=100 of an example, on two hosts for themselves", OTHER,
	  { &node1, { TORCHRUN("0", "2", "2"), "TORCHELASTIC_RUN_ID=100", AT } },
	  { &node2, { TORCHRUN("1", "2", "2"), "TORCHELASTIC_RUN_ID=100", AT } } },
	/* Kubeflow: its master is refused without TALLY_JOB, see below */
	{ "Kubeflow: two workers", SAME,
	  { &node1, { "RANK=1", "WORLD_SIZE=3", "MASTER_ADDR=j-master-0", "MASTER_PORT=23456", AT } },
	  { &node2, { "RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=j-master-0", "MASTER_PORT=23456", AT } } },
	{ "Kubeflow: master and worker with TALLY_JOB", SAME,
	  { &node1, { "RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=23456", AT, "TALLY_JOB=j" } },
	  { &node2, { "RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=j-master-0", "MASTER_PORT=23456", AT, "TALLY_JOB=j" } } },
	/* Open MPI */
	{ "Open MPI 4: two ranks of one host", SAME,
	  { &node1, { OMPI("0", "2", "2"), "PMIX_NAMESPACE=366411777", AT } },
	  { &node1, { OMPI("1", "2", "2"), "PMIX_NAMESPACE=366411777", AT } } },
	{ "Open MPI 4: two jobs of one number on two hosts", OTHER,
	  { &node1, { OMPI("0", "2", "2"), "PMIX_NAMESPACE=366411777", AT } },
	  { &like1, { OMPI("1", "2", "2"), "PMIX_NAMESPACE=366411777", AT } } },
	{ "Open MPI 4: one job of two hosts", SAME,
	  { &node1, { OMPI("0", "4", "2"), "PMIX_NAMESPACE=366411777", AT } },
	  { &node2, { OMPI("3", "4", "2"), "PMIX_NAMESPACE=366411777", AT } } },
	{ "Open MPI without PMIx: the base job id", OTHER,
	  { &node1, { OMPI("0", "2", "2"), "OMPI_MCA_ess_base_jobid=77", AT } },
	  { &node2, { OMPI("1", "2", "2"), "OMPI_MCA_ess_base_jobid=77", AT } } },
	{ "Open MPI 5: host and process id, in two containers", OTHER,
	  { &node1, { OMPI("0", "2", "2"), "PMIX_NAMESPACE=prterun-node1-12@1", AT } },
	  { &pod1, { OMPI("1", "2", "2"), "PMIX_NAMESPACE=prterun-node1-12@1", AT } } },
	{ "Open MPI 5: two runs of one host", OTHER,
	  { &node1, { OMPI("0", "2", "2"), "PMIX_NAMESPACE=prterun-node1-12@1", AT } },
	  { &node1, { OMPI("1", "2", "2"), "PMIX_NAMESPACE=prterun-node1-13@1", AT } } },
	{ "MPICH by way of PMIx: likewise", OTHER,
	  { &node1, { "PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", "PMIX_RANK=0", "PMIX_NAMESPACE=prterun-n-1@1", AT } },
	  { &node2, { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", "PMIX_RANK=1", "PMIX_NAMESPACE=prterun-n-1@1", AT } } },
	/* Slurm */
	{ "srun: two ranks of two nodes", SAME,
	  { &node1, { SRUN("0", "77", "3"), "SLURM_CLUSTER_NAME=c", AT } },
	  { &node2, { SRUN("3", "77", "3"), "SLURM_CLUSTER_NAME=c", AT } } },
	{ "srun: two steps of one job", OTHER,
	  { &node1, { SRUN("0", "77", "3"), AT } },
	  { &node1, { SRUN("1", "77", "4"), AT } } },
	{ "srun: two clusters", OTHER,
	  { &node1, { SRUN("0", "77", "3"), "SLURM_CLUSTER_NAME=c", AT } },
	  { &node2, { SRUN("1", "77", "3"), "SLURM_CLUSTER_NAME=d", AT } } },
	{ "srun: a job that was requeued has job and step again", OTHER,
	  { &node1, { SRUN("0", "77", "3"), "SLURM_CLUSTER_NAME=c", AT } },
	  { &node1, { SRUN("1", "77", "3"), "SLURM_CLUSTER_NAME=c", "SLURM_RESTART_COUNT=1", AT } } },
	{ "srun: and a second time", OTHER,
	  { &node1, { SRUN("0", "77", "3"), "SLURM_RESTART_COUNT=1", AT } },
	  { &node1, { SRUN("1", "77", "3"), "SLURM_RESTART_COUNT=11", AT } } },
	{ "srun: two tasks of an array", OTHER,
	  { &node1, { SRUN("0", "77", "0"), "SLURM_ARRAY_JOB_ID=77", "SLURM_ARRAY_TASK_ID=1", AT } },
	  { &node1, { SRUN("1", "78", "0"), "SLURM_ARRAY_JOB_ID=77", "SLURM_ARRAY_TASK_ID=2", AT } } },
	{ "srun: job 1, step 11 is not job 11, step 1", OTHER,
	  { &node1, { SRUN("0", "1", "11"), AT } },
	  { &node1, { SRUN("1", "11", "1"), AT } } },
	{ "srun --mpi=pmi2: PMI's job id is step and job, too", OTHER,
	  { &node1, { SRUN("0", "77", "3"), "PMI_RANK=0", "PMI_SIZE=4", "PMI_JOBID=77.3", AT } },
	  { &node1, { SRUN("1", "77", "3"), "PMI_RANK=1", "PMI_SIZE=4", "PMI_JOBID=77.3", "SLURM_RESTART_COUNT=1", AT } } },
	{ "srun --mpi=pmix: so is PMIx's", OTHER,
	  { &node1, { SRUN("0", "77", "3"), "PMIX_RANK=0", "PMIX_NAMESPACE=slurm.pmix.77.3", AT } },
	  { &node1, { SRUN("1", "77", "3"), "PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.77.3", "SLURM_CLUSTER_NAME=d", AT } } },
	/* Hydra, if it says a job id */
	{ "PMI's job id: two ranks", SAME,
	  { &node1, { "PMI_RANK=0", "PMI_SIZE=2", "PMI_JOBID=kvs_7_0", AT } },
	  { &node2, { "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=kvs_7_0", AT } } },
	{ "PMI's job id: two jobs", OTHER,
	  { &node1, { "PMI_RANK=0", "PMI_SIZE=2", "PMI_JOBID=kvs_7_0", AT } },
	  { &node1, { "PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=kvs_8_0", AT } } },
	/* what a person sets is what counts */
	{ "TALLY_JOB", SAME,
	  { &node1, { TORCHRUN("0", "2", "2"), STATIC("127.0.0.1"), AT, "TALLY_JOB=mine" } },
	  { &node2, { TORCHRUN("1", "2", "2"), STATIC("127.0.0.1"), AT, "TALLY_JOB=mine" } } },
};

/* Ranks that have no name, and what they are told. */
static const struct {
	const char *claim;
	struct rank rank;
	const char *words[WORDS_MAX];
} refused[] = {
	{ "Kubeflow: the master",
	  { &node1, { "RANK=0", "WORLD_SIZE=3", "MASTER_ADDR=localhost", "MASTER_PORT=23456", AT } },
	  { "MASTER_ADDR=localhost", "LOCAL_WORLD_SIZE=(not set)", "set TALLY_JOB" } },
	{ "torchrun: several hosts that all call the master themselves",
	  { &node1, { TORCHRUN("0", "4", "2"), STATIC("127.0.0.1"), AT } },
	  { "MASTER_ADDR=127.0.0.1", "LOCAL_WORLD_SIZE=2", "set TALLY_JOB" } },
	{ "127.0.1.1", { &node1, { TORCHRUN("0", "4", "2"), STATIC("127.0.1.1"), AT } }, { "TALLY_JOB" } },
	{ "127.1", { &node1, { TORCHRUN("0", "4", "2"), STATIC("127.1"), AT } }, { "TALLY_JOB" } },
	{ "0.0.0.0", { &node1, { TORCHRUN("0", "4", "2"), STATIC("0.0.0.0"), AT } }, { "TALLY_JOB" } },
	{ "::1", { &node1, { TORCHRUN("0", "4", "2"), STATIC("::1"), AT } }, { "TALLY_JOB" } },
	{ "[::1]", { &node1, { TORCHRUN("0", "4", "2"), STATIC("[::1]"), AT } }, { "TALLY_JOB" } },
	{ "0:0:0:0:0:0:0:1", { &node1, { TORCHRUN("0", "4", "2"), STATIC("0:0:0:0:0:0:0:1"), AT } }, { "TALLY_JOB" } },
	{ "::ffff:127.0.0.1", { &node1, { TORCHRUN("0", "4", "2"), STATIC("::ffff:127.0.0.1"), AT } }, { "TALLY_JOB" } },
	{ "LocalHost", { &node1, { TORCHRUN("0", "4", "2"), STATIC("LocalHost"), AT } }, { "TALLY_JOB" } },
	{ "localhost.localdomain", { &node1, { TORCHRUN("0", "4", "2"), STATIC("localhost.localdomain"), AT } }, { "TALLY_JOB" } },
	{ "localhost4", { &node1, { TORCHRUN("0", "4", "2"), STATIC("localhost4"), AT } }, { "TALLY_JOB" } },
	{ "localhost6.localdomain6", { &node1, { TORCHRUN("0", "4", "2"), STATIC("localhost6.localdomain6"), AT } }, { "TALLY_JOB" } },
	{ "localhost.", { &node1, { TORCHRUN("0", "4", "2"), STATIC("localhost."), AT } }, { "TALLY_JOB" } },
	{ "Hydra", { &node1, { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2", AT } }, { "no name", "TALLY_JOB" } },
	{ "a step of a heterogeneous job",
	  { &node1, { SRUN("0", "77", "0"), "SLURM_HET_SIZE=2", AT } },
	  { "SLURM_HET_SIZE=2", "TALLY_RANK, TALLY_SIZE and TALLY_JOB" } },
	{ "the same with PMI's ranks",
	  { &node1, { SRUN("0", "77", "0"), "PMI_RANK=0", "PMI_SIZE=4", "SLURM_HET_SIZE=2", AT } },
	  { "SLURM_HET_SIZE=2" } },
	{ "nor does a name mend that: ranks and sizes are in doubt",
	  { &node1, { SRUN("0", "77", "0"), "SLURM_HET_SIZE=2", AT, "TALLY_JOB=j" } },
	  { "SLURM_HET_SIZE=2" } },
};

/* Who is warned that a name may be another job's, or not all of its own. */
#define FEW_BITS "mpirun -x TALLY_JOB=$(uuidgen)"
static const struct {
	const char *claim;
	struct rank rank;
	const char *warning; /* what it has; NULL: it is empty */
} warned[] = {
	{ "rank 0 of several hosts", { &node1, { OMPI("0", "4", "2"), "PMIX_NAMESPACE=366411777", AT } }, FEW_BITS },
	{ "one rank says it for all", { &node2, { OMPI("3", "4", "2"), "PMIX_NAMESPACE=366411777", AT } }, NULL },
	{ "one host", { &node1, { OMPI("0", "2", "2"), "PMIX_NAMESPACE=366411777", AT } }, NULL },
	{ "with a name of its own",
	  { &node1, { OMPI("0", "4", "2"), "PMIX_NAMESPACE=366411777", AT, "TALLY_JOB=j" } }, NULL },
	{ "PRRTE", { &node1, { OMPI("0", "4", "2"), "PMIX_NAMESPACE=prterun-n-1@1", AT } }, FEW_BITS },
	{ "torchrun", { &node1, { TORCHRUN("0", "4", "2"), STATIC("node1"), AT } }, NULL },
	{ "a master of loopback, where only its host may call it that",
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=r", "MASTER_ADDR=localhost", AT } },
	  "MASTER_ADDR=localhost is a part of no job's name" },
	{ "one rank says that, too",
	  { &node1, { TORCHRUN("1", "4", "2"), "TORCHELASTIC_RUN_ID=r", "MASTER_ADDR=localhost", AT } }, NULL },
	{ "on one host", { &node1, { TORCHRUN("0", "2", "2"), "TORCHELASTIC_RUN_ID=r", "MASTER_ADDR=::1", AT } }, NULL },
	{ "a master of all hosts",
	  { &node1, { TORCHRUN("0", "4", "2"), "TORCHELASTIC_RUN_ID=r", "MASTER_ADDR=node1", AT } }, NULL },
	{ "srun", { &node1, { SRUN("0", "77", "3"), AT } }, NULL },
};
/* clang-format on */

static const char *env_get(const char *name, void *arg)
{
	const char *const *env = arg;
	size_t length = strlen(name);

	for (size_t i = 0; i < VARIABLES_MAX && env[i]; i++)
		if (!strncmp(env[i], name, length) && env[i][length] == '=')
			return env[i] + length + 1;
	return NULL;
}

static int boot_read(struct bootstrap *boot, const struct rank *rank, char text[BOOTSTRAP_TEXT_MAX])
{
	void *env = (void *)(uintptr_t)rank->env;
	int result;

	host = rank->host;
	*text = '\0';
	result = bootstrap_env(boot, env_get, env, text);
	return result ? result : bootstrap_finish(boot, NULL, env_get, env, text);
}

static void name__is_one_run_s_and_the_same_on_all_its_ranks(void **state)
{
	char text[BOOTSTRAP_TEXT_MAX];
	struct bootstrap a, b;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (boot_read(&a, &rows[i].a, text) || boot_read(&b, &rows[i].b, text))
			fail_msg("%s: %s", rows[i].claim, text);
		if (!strcmp(a.job, b.job) != (rows[i].relation == SAME))
			fail_msg("%s: %s and %s", rows[i].claim, a.job, b.job);
	}
}

static void name__that_cannot_be_had_is_asked_for_at_once(void **state)
{
	char text[BOOTSTRAP_TEXT_MAX];
	struct bootstrap boot;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int result = boot_read(&boot, &refused[i].rank, text);

		if (result != TALLY_ERR_ARGUMENT)
			fail_msg("%s: %d, job %s", refused[i].claim, result, boot.job);
		for (size_t w = 0; w < WORDS_MAX && refused[i].words[w]; w++)
			if (!strstr(text, refused[i].words[w]))
				fail_msg("%s: \"%s\" does not say %s", refused[i].claim, text,
					 refused[i].words[w]);
	}
}

static void name__that_may_not_do_is_warned_of_once(void **state)
{
	char text[BOOTSTRAP_TEXT_MAX];
	struct bootstrap boot;

	(void)state;
	for (size_t i = 0; i < sizeof(warned) / sizeof(warned[0]); i++) {
		const char *words = warned[i].warning;

		if (boot_read(&boot, &warned[i].rank, text))
			fail_msg("%s: %s", warned[i].claim, text);
		if (words ? !strstr(boot.warning, words) : *boot.warning != '\0')
			fail_msg("%s: \"%s\"", warned[i].claim, boot.warning);
	}
}

static void name__too_long_for_a_job_is_refused(void **state)
{
	char text[BOOTSTRAP_TEXT_MAX], run[600] = "TORCHELASTIC_RUN_ID=";
	struct rank rank = { &node1, { TORCHRUN("0", "2", "2"), run, AT } };
	struct bootstrap boot;

	(void)state;
	for (size_t length = 150; length < 560; length++) {
		size_t used = strlen("TORCHELASTIC_RUN_ID=");
		int result;

		memset(run + used, 'x', length);
		run[used + length] = '\0';
		result = boot_read(&boot, &rank, text);
		assert_int_equal(result,
				 length + 17 > BOOTSTRAP_JOB_MAX ? TALLY_ERR_ARGUMENT : TALLY_OK);
		assert_true(!result || strstr(text, "1 to 200 bytes"));
	}
}

static void master__too_long_for_a_job_is_refused(void **state)
{
	char text[BOOTSTRAP_TEXT_MAX], master[600] = "MASTER_ADDR=";
	struct rank rank = { &node1, { TORCHRUN("0", "4", "2"), master, AT } };
	const size_t used = strlen(master);
	struct bootstrap boot;

	(void)state;
	for (size_t length = 190; length < 560; length++) {
		int result;

		memset(master + used, 'x', length);
		master[used + length] = '\0';
		result = boot_read(&boot, &rank, text);
		assert_int_equal(result,
				 length > BOOTSTRAP_JOB_MAX ? TALLY_ERR_ARGUMENT : TALLY_OK);
		assert_true(!result || strstr(text, "1 to 200 bytes"));
	}
	/* It was cut to its buffer's room. */
	assert_non_null(strstr(text, "not 511"));
}

/* tally run's own name is no user's; and of what runs under it, the process that it has started is there once. */
static void name__that_tally_run_makes_up_is_a_launchers(void **state)
{
	static const struct {
		int pid_plus;
		const char *name;
		bool is_launched, is_alone;
	} runs[] = { { 0, "run-7", true, true },
		     { 1, "run-7", true, false },
		     { 0, "run-8", false, false }, /* the user's, set within */
		     { 0, "", false, false } };
	char text[BOOTSTRAP_TEXT_MAX], run[64];
	struct rank rank = { &node1,
			     { "TALLY_RANK=0", "TALLY_SIZE=2", "TALLY_JOB=run-7", run, AT } };
	struct bootstrap boot;

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		snprintf(run, sizeof(run), "TALLY_RUN=%d%s%s", (int)getpid() + runs[i].pid_plus,
			 runs[i].name[0] ? ":" : "", runs[i].name);
		assert_int_equal(boot_read(&boot, &rank, text), TALLY_OK);
		assert_int_equal(boot.is_launched, runs[i].is_launched);
		assert_int_equal(boot.is_alone, runs[i].is_alone);
	}
}

/* Of a program that says size and rank itself, as a worker of tables may. */
static void name__alone_is_asked_for_where_the_program_knows_its_place(void **state)
{
	static const struct {
		const char *env[VARIABLES_MAX];
		const char *job; /* or, if there is none, what the refusal says */
		const char *why;
	} named[] = {
		{ { NULL }, "default", NULL },
		{ { "TALLY_JOB=alice" }, "alice", NULL },
		{ { "TALLY_JOB=" }, "default", NULL },
		{ { "TALLY_JOB=alice", "RANK=1" },
		  "alice",
		  NULL }, /* the launcher's is not asked for */
		{ { SRUN("1", "77", "3"), "SLURM_CLUSTER_NAME=c" },
		  "slurm-c-77",
		  NULL }, /* each may have a step of its own */
		{ { "SLURM_JOB_ID=12", "SLURM_NTASKS=4" },
		  "slurm-12",
		  NULL }, /* sbatch without srun */
		{ { TORCHRUN("2", "3", "2"), "TORCHELASTIC_RUN_ID=r" }, "r", NULL },
		{ { TORCHRUN("2", "3", "2"), "TORCHELASTIC_RUN_ID=r", "SLURM_JOB_ID=12" },
		  "r",
		  NULL },
		{ { TORCHRUN("2", "3", "2"), "MASTER_ADDR=localhost" }, NULL, "set TALLY_JOB" },
		{ { "PMI_RANK=2", "PMI_SIZE=3" }, NULL, "set TALLY_JOB" },
		/* Of a launch of one's own, or of other ranks than the workers. */
		{ { "PMI_RANK=0", "PMI_SIZE=1" }, "default", NULL },
		{ { "PMI_RANK=0", "PMI_SIZE=1", "SLURM_JOB_ID=12" }, "slurm-12", NULL },
		{ { TORCHRUN("1", "3", "2"), "TORCHELASTIC_RUN_ID=r" }, "default", NULL },
		{ { TORCHRUN("2", "4", "2"), "MASTER_ADDR=localhost" }, "default", NULL },
		{ { "RANK=1" }, "default", NULL },
		{ { "TALLY_JOB=two words" }, NULL, "byte 3 is 0x20" },
	};
	char text[BOOTSTRAP_TEXT_MAX];

	(void)state;
	host = &node1;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		void *env = (void *)(uintptr_t)named[i].env;
		struct bootstrap boot = { .size = 3, .rank = 2, .source = "arguments" };
		const struct tally_options options = { .size = sizeof(options), .aggregator = "a" };
		int result = bootstrap_name(&boot, env_get, env, text);

		if (!result)
			result = bootstrap_finish(&boot, &options, env_get, env, text);
		assert_int_equal(result, named[i].job ? TALLY_OK : TALLY_ERR_ARGUMENT);
		if (!named[i].job) {
			assert_non_null(strstr(text, named[i].why));
			continue;
		}
		assert_string_equal(boot.job, named[i].job);
		/* An allocation's name is that of many launches. */
		assert_int_equal(boot.is_launched, !strcmp(boot.job, "r"));
		assert_int_equal(boot.size, 3);
		assert_int_equal(boot.rank, 2);
		assert_int_equal(boot.local_size, 0);
		assert_string_equal(boot.source, "arguments");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name__alone_is_asked_for_where_the_program_knows_its_place),
		cmocka_unit_test(name__is_one_run_s_and_the_same_on_all_its_ranks),
		cmocka_unit_test(name__that_cannot_be_had_is_asked_for_at_once),
		cmocka_unit_test(name__that_may_not_do_is_warned_of_once),
		cmocka_unit_test(name__too_long_for_a_job_is_refused),
		cmocka_unit_test(master__too_long_for_a_job_is_refused),
		cmocka_unit_test(name__that_tally_run_makes_up_is_a_launchers),
	};

	return cmocka_run_group_tests_name("lib-bootstrap_job", tests, NULL, NULL);
}
