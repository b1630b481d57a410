/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap_fuzz.c - any environment. What comes out is either a rank of a job with all its fields in
 * their bounds, or a refusal that says why.
 */
#include "lib/bootstrap.h"
#include "tests/fuzz/input.h"

static const char *const names[] = {
	"TALLY_RANK",
	"TALLY_SIZE",
	"TALLY_LOCAL_RANK",
	"TALLY_LOCAL_SIZE",
	"TALLY_JOB",
	"TALLY_RUN",
	"TALLY_AGGREGATOR",
	"TALLY_INIT_TIMEOUT_S",
	"TALLY_DEADLINE_S",
	"TALLY_KEY",
	"TALLY_KEY_FILE",
	"RANK",
	"WORLD_SIZE",
	"LOCAL_RANK",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_RANK",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"PMIX_NAMESPACE",
	"OMPI_MCA_ess_base_jobid",
	"TALLY_IFNAME",
	"TALLY_TIMELINE",
	"PMI_RANK",
	"PMI_SIZE",
	"PMI_ID",
	"MPI_LOCALRANKID",
	"MPI_LOCALNRANKS",
	"PMI_JOBID",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_LOCALID",
	"SLURM_JOB_ID",
	"SLURM_STEP_ID",
	"PMIX_RANK",
	"SLURM_NODEID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_STEP_TASKS_PER_NODE",
	"SLURM_CLUSTER_NAME",
	"SLURM_RESTART_COUNT",
	"SLURM_HET_SIZE",
};

enum { NAMES = sizeof(names) / sizeof(names[0]), VALUE_BYTES = 700 };

static struct {
	bool is_set[NAMES];
	char value[NAMES][VALUE_BYTES];
} environment;

static const char *get(const char *name, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < NAMES; i++) {
		if (!strcmp(names[i], name))
			return environment.is_set[i] ? environment.value[i] : NULL;
	}
	return NULL;
}

int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out);

int __wrap_conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out)
{
	snprintf(key, key_bytes, "%s", path[0] == '/' ? "a key" : "");
	if (mode_out)
		*mode_out = 0100600;
	return path[0] == '/' ? 0 : -2;
}

/* A byte says which variable and how long its value is; 31: as long as can be. */
static void environment_read(struct fuzz_input *input)
{
	memset(environment.is_set, 0, sizeof(environment.is_set));
	while (input->left) {
		uint32_t which = fuzz_u8(input) % NAMES, length = fuzz_u8(input);
		char *value = environment.value[which];
		size_t used;

		used = fuzz_bytes(input, value, length & 31u);
		while (length > 224 && used + 1 < VALUE_BYTES && used)
			value[used] = value[used - 1], used++;
		value[used] = '\0';
		environment.is_set[which] = true;
	}
}

static void refusal_check(int result, const char *text)
{
	FUZZ_CHECK(result == TALLY_ERR_ARGUMENT || result == TALLY_ERR_UNSUPPORTED);
	FUZZ_CHECK(text[0]);
	FUZZ_CHECK(strnlen(text, BOOTSTRAP_TEXT_MAX) < BOOTSTRAP_TEXT_MAX);
}

static void result_check(const struct bootstrap *boot)
{
	size_t length = strnlen(boot->job, sizeof(boot->job));

	FUZZ_CHECK(length >= 1 && length <= BOOTSTRAP_JOB_MAX);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK(boot->job[i] > 0x20 && boot->job[i] < 0x7f);
	FUZZ_CHECK(boot->size >= 1 && boot->size <= BOOTSTRAP_SIZE_MAX);
	FUZZ_CHECK(boot->rank < boot->size);
	FUZZ_CHECK(boot->local_size <= boot->size);
	FUZZ_CHECK(boot->init_timeout_s >= 1 && boot->init_timeout_s <= 86400);
	FUZZ_CHECK(boot->is_local == !boot->aggregator[0]);
	FUZZ_CHECK(strnlen(boot->aggregator, sizeof(boot->aggregator)) < sizeof(boot->aggregator));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	char text[BOOTSTRAP_TEXT_MAX] = "";
	struct bootstrap boot;
	int result;

	environment_read(&input);
	result = bootstrap_env(&boot, get, NULL, text);
	if (!result)
		result = bootstrap_finish(&boot, NULL, get, NULL, text);
	if (result)
		refusal_check(result, text);
	else
		result_check(&boot);
	return 0;
}
