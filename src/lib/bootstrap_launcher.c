/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap_launcher.c - the first half of bootstrap.h: what launchers set. What is read is what they are
 * known to set, and no more:
 *
 *   torchrun     RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE TORCHELASTIC_RUN_ID MASTER_ADDR MASTER_PORT;
 *                Kubeflow's PyTorchJob sets RANK WORLD_SIZE MASTER_ADDR MASTER_PORT, the master's being localhost
 *   Open MPI     OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE} PMIX_NAMESPACE
 *   Hydra        PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS (MPICH, Intel MPI); no name of the job
 *   PMIx         PMIX_RANK PMIX_NAMESPACE, and no size: that is asked for inside of PMIx. So the rank must
 *                be another set's, whose size counts (srun --mpi=pmix also sets SLURM_*)
 *   srun         SLURM_{PROCID,NTASKS,LOCALID,NODEID,JOB_ID,STEP_ID,STEP_NUM_TASKS,STEP_TASKS_PER_NODE,HET_SIZE,
 *                CLUSTER_NAME,RESTART_COUNT};
 *                with --mpi=pmi2 also PMI_RANK PMI_SIZE PMI_JOBID
 *
 * The shells of salloc and sbatch have some of srun's, and even SLURM_PROCID=0: but they are no tasks of
 * a step, and so no ranks. The job's name is made in bootstrap_job.c.
 */
#include <stdio.h>
#include <string.h>

#include "lib/bootstrap_read.h"

/* Slurm's numbers for what is no step: pending, external, batch script, interactive. */
static const uint32_t slurm_step_max = 0xfffffff0;

/* What one launcher calls its variables. */
struct launcher {
	const char *source;
	const char *rank, *size, *local_rank, *local_size;
};

/* clang-format off */
static const struct launcher launchers[LAUNCHERS] = {
	{ "TALLY_*",  "TALLY_RANK", "TALLY_SIZE", "TALLY_LOCAL_RANK", "TALLY_LOCAL_SIZE" },
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ "PMI",      "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
	{ "Slurm",    "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE" },
};
/* clang-format on */

static int local_check(struct bootstrap *boot, const struct reader *reader,
		       const struct launcher *launcher, uint32_t size)
{
	const char *rank_text = value_of(reader, launcher->local_rank);
	const char *size_text = value_of(reader, launcher->local_size);
	uint32_t rank = 0;
	int result;

	if (size_text && (size == 0 || size > boot->size))
		return bootstrap_refuse(reader, "%s=%s but %s=%u", launcher->local_size, size_text,
					launcher->size, boot->size);
	if (rank_text) {
		result = bootstrap_number(reader, launcher->local_rank, rank_text, &rank);
		if (result)
			return result;
		if (rank >= boot->size)
			return bootstrap_refuse(reader, "%s=%s but %s=%u", launcher->local_rank,
						rank_text, launcher->size, boot->size);
		if (size_text && rank >= size)
			return bootstrap_refuse(reader, "%s=%s but %s=%s", launcher->local_rank,
						rank_text, launcher->local_size, size_text);
	}
	boot->local_size = size;
	return TALLY_OK;
}

static int local_read(struct bootstrap *boot, const struct reader *reader,
		      const struct launcher *launcher)
{
	const char *text = value_of(reader, launcher->local_size);
	uint32_t size = 0;
	int result = text ? bootstrap_number(reader, launcher->local_size, text, &size) : TALLY_OK;

	return result ? result : local_check(boot, reader, launcher, size);
}

/* ---- Slurm ---- */

/* One entry of "4(x2),3": `tasks` on each of `nodes`. What follows it, or NULL: that is none. */
static const char *tasks_read(const char *at, uint32_t *tasks, uint32_t *nodes)
{
	int used = 0;

	*nodes = 1;
	if (*at < '0' || *at > '9' || sscanf(at, "%9u%n", tasks, &used) != 1)
		return NULL;
	at += used;
	if (*at == '(') {
		used = 0;
		if (at[1] != 'x' || at[2] < '0' || at[2] > '9' ||
		    sscanf(at, "(x%9u)%n", nodes, &used) != 1 || !used)
			return NULL;
		at += used;
	}
	if (*at == ',')
		return at[1] ? at + 1 : NULL;
	return *at ? NULL : at;
}

/* The tasks on node number `node`, and on all; false: that is no such list. */
static bool tasks_per_node(const char *list, uint32_t node, uint32_t *here, uint64_t *all)
{
	uint64_t first = 0;

	*here = 0;
	*all = 0;
	for (const char *at = list; at && *at;) {
		uint32_t tasks, nodes;

		at = tasks_read(at, &tasks, &nodes);
		if (!at)
			return false;
		if (node >= first && node < first + nodes)
			*here = tasks;
		first += nodes;
		*all += (uint64_t)tasks * nodes;
	}
	return true;
}

/* How many tasks of the step are on this node: 0 if Slurm does not say it. */
static int slurm_local_read(struct bootstrap *boot, const struct reader *reader)
{
	const struct launcher *slurm = &launchers[LAUNCHER_SLURM];
	const char *list = value_of(reader, slurm->local_size);
	const char *node_text = value_of(reader, "SLURM_NODEID");
	uint32_t node = 0, here;
	uint64_t all;

	if (!list || !node_text)
		return TALLY_OK;
	if (!bootstrap_digits(node_text, &node) || !tasks_per_node(list, node, &here, &all))
		return bootstrap_refuse(reader,
					"%s=%s is no list as 4(x2),3, or SLURM_NODEID=%s no number",
					slurm->local_size, list, node_text);
	if (all != boot->size || !here)
		return bootstrap_refuse(reader, "%s=%s and SLURM_NODEID=%s but %s=%u",
					slurm->local_size, list, node_text, slurm->size,
					boot->size);
	return local_check(boot, reader, slurm, here);
}

static bool is_slurm_task(const struct reader *reader)
{
	const char *step = value_of(reader, "SLURM_STEP_ID");
	uint32_t number;

	if (!value_of(reader, "SLURM_PROCID") || !step)
		return false;
	return !bootstrap_digits(step, &number) || number < slurm_step_max;
}

/* What is told to a task of a step of several components has not been tried: ranks, sizes and places may be one
 * component's or all's. */
static int slurm_check(const struct bootstrap *boot, const struct reader *reader)
{
	const char *tasks = value_of(reader, "SLURM_STEP_NUM_TASKS");
	const char *parts = value_of(reader, "SLURM_HET_SIZE");
	uint32_t number;

	if (parts && strcmp(parts, "1") != 0)
		return bootstrap_refuse(
			reader,
			"SLURM_HET_SIZE=%.20s: steps of heterogeneous jobs are not supported: set "
			"TALLY_RANK, TALLY_SIZE and TALLY_JOB for each task",
			parts);
	if (tasks && (!bootstrap_digits(tasks, &number) || number != boot->size))
		return bootstrap_refuse(reader, "SLURM_STEP_NUM_TASKS=%s but SLURM_NTASKS=%u",
					tasks, boot->size);
	return TALLY_OK;
}

/* ---- any ---- */

static bool is_launcher_there(const struct reader *reader, const struct launcher *launcher)
{
	if (launcher == &launchers[LAUNCHER_SLURM])
		return is_slurm_task(reader);
	return value_of(reader, launcher->rank) || value_of(reader, launcher->size) ||
	       value_of(reader, launcher->local_rank) || value_of(reader, launcher->local_size);
}

static int launcher_read(struct bootstrap *boot, const struct reader *reader,
			 const struct launcher *launcher)
{
	const char *rank = value_of(reader, launcher->rank);
	const char *size = value_of(reader, launcher->size);
	int result;

	if (!rank || !size)
		return bootstrap_refuse(
			reader, "half of a launcher's variables: %s=%s %s=%s %s=%s %s=%s",
			launcher->rank, shown(rank), launcher->size, shown(size),
			launcher->local_rank, shown(value_of(reader, launcher->local_rank)),
			launcher->local_size, shown(value_of(reader, launcher->local_size)));
	result = bootstrap_number(reader, launcher->rank, rank, &boot->rank);
	if (!result)
		result = bootstrap_number(reader, launcher->size, size, &boot->size);
	if (result)
		return result;
	if (boot->rank >= boot->size)
		return bootstrap_refuse(reader, "%s=%s but %s=%s", launcher->rank, rank,
					launcher->size, size);
	boot->source = launcher->source;
	if (launcher != &launchers[LAUNCHER_SLURM])
		return local_read(boot, reader, launcher);
	result = slurm_check(boot, reader);
	return result ? result : slurm_local_read(boot, reader);
}

/* PMIx says a rank and no size: it must be the rank of the set whose size was read; but torchrun numbers
 * what it starts itself, and whoever sets TALLY_RANK knows better. */
static int pmix_check(const struct bootstrap *boot, const struct reader *reader,
		      const struct launcher *launcher)
{
	const char *text = value_of(reader, "PMIX_RANK");
	uint32_t rank;
	int result;

	if (!text || launcher < &launchers[LAUNCHER_OPEN_MPI])
		return TALLY_OK;
	result = bootstrap_number(reader, "PMIX_RANK", text, &rank);
	if (!result && rank != boot->rank)
		result = bootstrap_refuse(reader, "PMIX_RANK=%s but %s=%u", text, launcher->rank,
					  boot->rank);
	return result;
}

/* srun --mpi=pmi2: Hydra's variables for the ranks, Slurm's for where they are. */
static bool is_pmi_of_slurm(const struct bootstrap *boot, const struct reader *reader)
{
	const char *rank = value_of(reader, "SLURM_PROCID");
	const char *size = value_of(reader, "SLURM_NTASKS");
	uint32_t number;

	return is_slurm_task(reader) && rank && size && bootstrap_digits(rank, &number) &&
	       number == boot->rank && bootstrap_digits(size, &number) && number == boot->size;
}

/* What Slurm says besides, where PMI has not said it. */
static int slurm_of_pmi(struct bootstrap *boot, const struct reader *reader)
{
	int result = slurm_check(boot, reader);

	return result || boot->local_size ? result : slurm_local_read(boot, reader);
}

/* Nobody has set anything: what is there may tell why. */
static int nobody(const struct reader *reader)
{
	const char *pmix = value_of(reader, "PMIX_RANK");
	const char *slurm = value_of(reader, "SLURM_JOB_ID");

	if (pmix)
		return bootstrap_refuse(
			reader,
			"PMIX_RANK=%s, but nothing says how many ranks there are: set TALLY_RANK, "
			"TALLY_SIZE and TALLY_JOB",
			pmix);
	return bootstrap_refuse(reader,
				"no launcher's variables are set: start with tally run, torchrun, "
				"mpirun or srun, or set TALLY_RANK, TALLY_SIZE and TALLY_JOB%s%s%s",
				slurm ? " (Slurm job " : "", slurm ? slurm : "",
				slurm ? ", but this is no task of a step: srun starts those)" : "");
}

bool bootstrap_is_launched(bootstrap_get_fn get, void *arg)
{
	const struct reader reader = { get, arg, NULL };

	for (size_t i = 0; i < LAUNCHERS; i++)
		if (is_launcher_there(&reader, &launchers[i]))
			return true;
	return value_of(&reader, "PMIX_RANK");
}

int bootstrap_env(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		  char text[BOOTSTRAP_TEXT_MAX])
{
	const struct reader reader = { get, arg, text };

	*boot = (struct bootstrap){ 0 };
	for (size_t i = 0; i < LAUNCHERS; i++) {
		const struct launcher *launcher = &launchers[i];
		int result;

		if (!is_launcher_there(&reader, launcher))
			continue;
		result = launcher_read(boot, &reader, launcher);
		if (!result)
			result = pmix_check(boot, &reader, launcher);
		if (!result && i == LAUNCHER_PMI && is_pmi_of_slurm(boot, &reader))
			result = slurm_of_pmi(boot, &reader);
		if (result)
			return result;
		return bootstrap_job(boot, &reader, (enum launcher_idx)i,
				     is_pmi_of_slurm(boot, &reader));
	}
	return nobody(&reader);
}

static const char *but_slurm(const char *name, void *arg)
{
	const struct reader *reader = arg;

	return strncmp(name, "SLURM_", 6) ? value_of(reader, name) : NULL;
}

static const char *but_the_step(const char *name, void *arg)
{
	const struct reader *reader = arg;

	return strcmp(name, "SLURM_STEP_ID") ? value_of(reader, name) : NULL;
}

/* The name of a launcher that has started all workers as its ranks; if it gives none, that is an error as elsewhere.
 * False: nobody has. A worker may be a rank of a launch of its own. */
static bool is_of_all(struct bootstrap *boot, struct reader *reader, int *result)
{
	const struct bootstrap own = *boot;
	bool is_it;

	*result = bootstrap_env(boot, but_slurm, reader, reader->text);
	is_it = boot->size == own.size && boot->rank == own.rank;
	if (!is_it)
		*boot = own;
	boot->source = own.source;
	boot->local_size = 0; /* the launcher's */
	return is_it;
}

int bootstrap_name(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		   char text[BOOTSTRAP_TEXT_MAX])
{
	struct reader reader = { get, arg, text };
	const struct reader allocation = { but_the_step, &reader, text };
	const char *slurm = value_of(&reader, "SLURM_JOB_ID");
	int result;

	if (value_of(&reader, "TALLY_JOB"))
		return bootstrap_job(boot, &reader, LAUNCHER_TALLY, false);
	if (is_of_all(boot, &reader, &result) && (!result || !slurm))
		return result;
	if (slurm) { /* workers may have a step each, or be no tasks */
		result = bootstrap_job(boot, &allocation, LAUNCHER_SLURM, false);
		boot->is_launched = false; /* the allocation's, of many launches */
		return result;
	}
	strcpy(boot->job, "default");
	return TALLY_OK;
}
