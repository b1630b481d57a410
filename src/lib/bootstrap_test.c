/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/bootstrap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { VARIABLES_MAX = 14, WORDS_MAX = 4 };

/* An environment, and what should come of it. */
struct env_case {
	const char *claim;
	const char *env[VARIABLES_MAX]; /* "NAME=value" */
	int result;
	const char *job; /* if TALLY_OK; of one that ends with '@' the host's digest follows */
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
	{ "so is a local size that is no number, whatever else is right",
	  { "TALLY_RANK=1", "TALLY_SIZE=4", "TALLY_LOCAL_SIZE=four", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_LOCAL_SIZE=four" } },
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

	{ "torchrun: run id and master make the job, with the host that it is all on",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=abc",
	    "TORCHELASTIC_RESTART_COUNT=1", "MASTER_ADDR=m", "MASTER_PORT=29500" },
	  TALLY_OK, "abc@m:29500@", 4, 2, 4, true, "", { 0 } },
	{ "torchrun without a run id: the master's address makes the job",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4", "TORCHELASTIC_RUN_ID=none",
	    "TORCHELASTIC_RESTART_COUNT=0", "MASTER_ADDR=m", "MASTER_PORT=29500" },
	  TALLY_OK, "m:29500@", 4, 2, 4, true, "", { 0 } },
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
	  TALLY_OK, "3476291585@", 2, 1, 2, true, "", { 0 } },
	{ "Open MPI without PMIx: the base job id",
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_MCA_ess_base_jobid=77",
	    "TALLY_AGGREGATOR=[::1]:7171" },
	  TALLY_OK, "77", 2, 1, 0, false, "[::1]:7171", { 0 } },
	{ "half of Open MPI's is refused",
	  { "OMPI_COMM_WORLD_RANK=1", "PMIX_NAMESPACE=1" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=(not set)" } },

	{ "Hydra: PMI's ranks, MPICH's local ones; the name is ours to ask for",
	  { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "PMI_FD=8" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_JOB", "PMI says rank 1 of 2" } },
	{ "Hydra with a name",
	  { "PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "TALLY_JOB=j" },
	  TALLY_OK, "j", 2, 1, 2, true, "", { 0 } },
	{ "a PMI that names the job",
	  { "PMI_RANK=0", "PMI_SIZE=2", "PMI_JOBID=9.1", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "9.1", 2, 0, 0, false, "a", { 0 } },
	{ "half of PMI's is refused",
	  { "PMI_RANK=1", "MPI_LOCALNRANKS=2", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "PMI_RANK=1", "PMI_SIZE=(not set)", "MPI_LOCALNRANKS=2" } },
	{ "Hydra's local rank beyond its local size is refused",
	  { "PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=2", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=2" } },
	{ "Open MPI inside of a Slurm step is Open MPI",
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
	    "PMIX_RANK=1", "PMIX_NAMESPACE=ns", "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0",
	    "SLURM_JOB_ID=7" },
	  TALLY_OK, "ns@", 2, 1, 2, true, "", { 0 } },
	{ "Hydra inside of a Slurm step is Hydra",
	  { "PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALNRANKS=4", "SLURM_PROCID=0", "SLURM_NTASKS=1",
	    "SLURM_STEP_ID=0", "SLURM_JOB_ID=7", "TALLY_JOB=j" },
	  TALLY_OK, "j", 4, 3, 4, true, "", { 0 } },

	{ "srun: job and step name the job, the list says how many are here",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "slurm-77.3", 11, 5, 4, false, "a", { 0 } },
	{ "srun: the last node of the list",
	  { "SLURM_PROCID=9", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=2", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "slurm-77.3", 11, 9, 3, false, "a", { 0 } },
	{ "srun: all on one node",
	  { "SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=3", "SLURM_NODEID=0", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_TASKS_PER_NODE=4" },
	  TALLY_OK, "slurm-77.3", 4, 3, 4, true, "", { 0 } },
	{ "srun: several nodes without an aggregator are refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "4 of 11 ranks", "TALLY_AGGREGATOR" } },
	{ "srun --mpi=pmi2: PMI's ranks, Slurm's places and name",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "PMI_RANK=5", "PMI_SIZE=11", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "slurm-77.3", 11, 5, 4, false, "a", { 0 } },
	{ "srun --mpi=pmix: PMIx has no size, Slurm has",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "PMIX_RANK=5", "PMIX_NAMESPACE=slurm.pmix.77.3", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "slurm-77.3", 11, 5, 4, false, "a", { 0 } },
	{ "PMIx that contradicts Slurm is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3", "PMIX_RANK=6" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "PMIX_RANK=6", "SLURM_PROCID=5" } },
	{ "PMIx alone says no size",
	  { "PMIX_RANK=2", "PMIX_NAMESPACE=ns", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "PMIX_RANK=2", "how many ranks", "TALLY_SIZE" } },
	{ "a list that does not add up to the tasks is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),2" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_STEP_TASKS_PER_NODE=4(x2),2", "SLURM_NTASKS=11" } },
	{ "a node that the list does not have is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=3", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_NODEID=3", "4(x2),3" } },
	{ "a list that is none is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2,3" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_STEP_TASKS_PER_NODE=4(x2,3" } },
	{ "a local rank that the node has no room for is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=4", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=11", "SLURM_STEP_TASKS_PER_NODE=4(x2),3" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_LOCALID=4", "4(x2),3" } },
	{ "a step of another size is refused",
	  { "SLURM_PROCID=5", "SLURM_NTASKS=11", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_JOB_ID=77",
	    "SLURM_STEP_ID=3", "SLURM_STEP_NUM_TASKS=12", "SLURM_STEP_TASKS_PER_NODE=4(x2),3" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_STEP_NUM_TASKS=12", "SLURM_NTASKS=11" } },
	{ "half of srun's is refused",
	  { "SLURM_PROCID=0", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "SLURM_PROCID=0", "SLURM_NTASKS=(not set)" } },
	{ "a shell of salloc is no rank",
	  { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_TASKS_PER_NODE=4" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "no launcher", "Slurm job 7", "srun" } },
	{ "a script of sbatch is no rank, although it is told PROCID 0",
	  { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "no launcher", "Slurm job 7", "srun" } },
	{ "nor is an interactive step",
	  { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0",
	    "SLURM_STEP_ID=4294967290" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL,
	  { "no launcher", "Slurm job 7", "srun" } },

	{ "no launcher at all is refused, and says what to do",
	  { "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "tally run", "TALLY_RANK", "TALLY_SIZE" } },
	{ "several hosts without an aggregator are refused",
	  { "RANK=2", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "2 of 4 ranks", "TALLY_AGGREGATOR" } },
	{ "unknown hosts without an aggregator are refused",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_AGGREGATOR=local" } },
	{ "a list of aggregators is kept as it is written",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=a:1,b:2" },
	  TALLY_OK, "j", 4, 2, 0, false, "a:1,b:2", { 0 } },
	{ "local mode and another aggregator are refused",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=local,127.0.0.1" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "\"local\" stands alone", "local,127.0.0.1" } },
	{ "so are they the other way round",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=a:1,local" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "\"local\" stands alone" } },
	{ "local mode has no port",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=local:7171" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "\"local\" stands alone" } },
	{ "local mode has small letters",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=LOCAL" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "\"local\" stands alone" } },
	{ "a host whose name begins so is one",
	  { "TALLY_RANK=2", "TALLY_SIZE=4", "TALLY_JOB=j", "TALLY_AGGREGATOR=localhost,local.lan" },
	  TALLY_OK, "j", 4, 2, 0, false, "localhost,local.lan", { 0 } },
	{ "a job beyond 256 ranks is refused",
	  { "TALLY_RANK=2", "TALLY_SIZE=257", "TALLY_JOB=j", "TALLY_AGGREGATOR=a" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "257", "256" } },
	{ "Open MPI and PMIx that contradict one another are refused",
	  { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=n", "PMIX_RANK=1" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "PMIX_RANK=1", "OMPI_COMM_WORLD_RANK=0" } },
	{ "Open MPI and PMIx that agree are one",
	  { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=n", "PMIX_RANK=1", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "n", 2, 1, 0, false, "a", { 0 } },
	{ "torchrun's rank is another than that of the PMIx task that started it",
	  { "RANK=5", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=t", "PMIX_NAMESPACE=n", "PMIX_RANK=1", "TALLY_AGGREGATOR=a" },
	  TALLY_OK, "t", 8, 5, 0, false, "a", { 0 } },
	{ "a name with a blank is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=a b" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "job", "byte 1", "0x20" } },
	{ "a timeout that is no number is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_INIT_TIMEOUT_S=soon" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_INIT_TIMEOUT_S=soon" } },
	{ "a timeout of 0 is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_INIT_TIMEOUT_S=0" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_INIT_TIMEOUT_S=0" } },
	{ "a deadline that is no number is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_DEADLINE_S=1.5" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_DEADLINE_S=1.5" } },
	{ "what is to be done with those who wait for one another is end or warn",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_CROSSED=no" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_CROSSED=no is not end or warn" } },
	{ "a deadline of 0 is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_DEADLINE_S=0" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_DEADLINE_S=0" } },
	{ "a deadline of more than a day is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_DEADLINE_S=86401" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_DEADLINE_S=86401" } },
	{ "a key and a key file are refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_KEY=hunter2", "TALLY_KEY_FILE=/nonexistent" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_KEY and TALLY_KEY_FILE=/nonexistent" } },
	{ "a key file that is not there is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_KEY_FILE=/nonexistent" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_KEY_FILE=/nonexistent", "No such file" } },
	{ "a key file that is a device is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_KEY_FILE=/dev/null" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_KEY_FILE=/dev/null: not a regular file" } },
	{ "a key that is not printable is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_KEY=hunter\t2" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_KEY: byte 6" } },
	{ "a wrong pattern of interfaces is refused",
	  { "TALLY_RANK=0", "TALLY_SIZE=1", "TALLY_JOB=j", "TALLY_IFNAME=eth,,ib" },
	  TALLY_ERR_ARGUMENT, NULL, 0, 0, 0, false, NULL, { "TALLY_IFNAME=eth,,ib", "empty" } },
};
/* clang-format on */

static bool is_job(const char *job, const char *wanted)
{
	size_t length = strlen(wanted);

	if (!length || wanted[length - 1] != '@')
		return !strcmp(job, wanted);
	return !strncmp(job, wanted, length) && strlen(job) == length + 16 &&
	       strspn(job + length, "0123456789abcdef") == 16;
}

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
	if (strstr(text, "hunter"))
		fail_msg("%s: \"%s\" has the key", env->claim, text);
	for (size_t i = 0; i < WORDS_MAX && env->words[i]; i++) {
		if (!strstr(text, env->words[i]))
			fail_msg("%s: \"%s\" does not say %s", env->claim, text, env->words[i]);
	}
	if (result)
		return;
	if (!is_job(boot.job, env->job) || boot.size != env->size || boot.rank != env->rank ||
	    boot.local_size != env->local_size || boot.is_local != env->is_local ||
	    strcmp(boot.aggregator, env->aggregator))
		fail_msg("%s: job %s size %u rank %u local_size %u %d %s", env->claim, boot.job,
			 boot.size, boot.rank, boot.local_size, boot.is_local, boot.aggregator);
	if (boot.is_launched != !env_get("TALLY_JOB", arg))
		fail_msg("%s: is the name the launcher's?", env->claim);
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

static void bootstrap__values_arrive_and_options_win(void **state)
{
	const char *env[VARIABLES_MAX] = { "TALLY_DEADLINE_S=30", "TALLY_CROSSED=warn",
					   "TALLY_KEY=hunter2", "TALLY_TIMELINE=/t/%r.json",
					   "TALLY_IFNAME=^docker,lo" };
	struct bootstrap boot = { .job = "j", .size = 4, .rank = 3 };
	struct tally_options options = TALLY_OPTIONS_INIT;

	(void)state;
	assert_int_equal(finish(&boot, &options, env), TALLY_OK);
	assert_int_equal(boot.deadline_ms, 30000);
	assert_true(boot.is_crossed_warn);
	assert_string_equal(boot.key, "hunter2");
	assert_string_equal(boot.timeline, "/t/3.json");
	assert_string_equal(boot.ifname, "^docker,lo");
	options.deadline_ms = 250;
	options.key = "mine";
	env[2] = "TALLY_TIMELINE=/t/all";
	assert_int_equal(finish(&boot, &options, env), TALLY_OK);
	assert_int_equal(boot.deadline_ms, 250);
	assert_string_equal(boot.key, "mine");
	assert_string_equal(boot.timeline, "/t/all.3"); /* not one file of all ranks */
	boot.size = 1;
	boot.rank = 0;
	assert_int_equal(finish(&boot, &options, env), TALLY_OK);
	assert_string_equal(boot.timeline, "/t/all");
}

static void bootstrap__a_key_file_is_read_and_an_open_one_warned_about(void **state)
{
	char path[] = "/tmp/tally-key-XXXXXX", variable[64];
	const char *env[VARIABLES_MAX] = { variable };
	struct bootstrap boot = { .job = "j", .size = 1, .rank = 0 };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_true(dprintf(fd, "hunter2\n") > 0);
	snprintf(variable, sizeof(variable), "TALLY_KEY_FILE=%s", path);
	assert_int_equal(finish(&boot, NULL, env), TALLY_OK);
	assert_string_equal(boot.key, "hunter2");
	assert_string_equal(boot.warning, "");
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(finish(&boot, NULL, env), TALLY_OK);
	assert_non_null(strstr(boot.warning, path));
	close(fd);
	unlink(path);
}

static void bootstrap__whoever_is_launched_is_known(void **state)
{
	static const struct {
		const char *variable;
		bool is_launched;
	} variables[] = { { "TALLY_RANK=0", true },    { "WORLD_SIZE=2", true },
			  { "PMI_RANK=0", true },      { "PMIX_RANK=0", true },
			  { "SLURM_NTASKS=4", false }, { "SLURM_PROCID=0", false },
			  { "TALLY_JOB=j", false } };

	(void)state;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *env[VARIABLES_MAX] = { variables[i].variable };

		assert_int_equal(bootstrap_is_launched(env_get, env), variables[i].is_launched);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			bootstrap__environment_gives_the_right_rank_or_names_what_is_wrong),
		cmocka_unit_test(bootstrap__arguments_alone_mean_one_host),
		cmocka_unit_test(bootstrap__options_win_over_the_environment),
		cmocka_unit_test(bootstrap__wrong_arguments_are_refused),
		cmocka_unit_test(bootstrap__values_arrive_and_options_win),
		cmocka_unit_test(bootstrap__a_key_file_is_read_and_an_open_one_warned_about),
		cmocka_unit_test(bootstrap__whoever_is_launched_is_known),
	};

	return cmocka_run_group_tests_name("lib-bootstrap", tests, NULL, NULL);
}
