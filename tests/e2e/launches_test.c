/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launches_test.c - two launches that one name has, by chance or because one shell has begun two programs, at one
 * aggregator and at once: each rank has the sum of its own program, or an error that says to set TALLY_JOB. Launchers are
 * played by what they set, hosts by their boot ids; each rank is a process with a command line of its own.
 *
 * Usage: launches_test TALLYD [STARTS [SEED [TURN_MS]]]
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ranks.h"
#include "util/host_id.h"
#include "util/rng.h"

enum {
	LAUNCHES = 2,
	SIZE = 2,
	PROCESSES = LAUNCHES * SIZE,
	AT_ONCE = 8,
	LATE_US = 30000, /* a rank begins so much later, at most */
	TURN_MS = 2600,  /* ... and every second one, of programs whose ranks come by turns */
	INIT_S = 40,
	VALUES = 5,
};

static const char *const self_path = "/proc/self/exe";

static uint32_t starts = 8;
static uint64_t seed = 1;
static uint32_t turn_ms = TURN_MS;

/* What a rank has come to. */
struct told {
	int result;
	bool is_right, has_come;
	char text[RANKS_TEXT_MAX];
};

static struct told *told; /* of all that run at once; children have the file, too */
static int told_fd;

/* ---- hosts ---- */

void __wrap_host_boot_id(char id[HOST_BOOT_BYTES]);
void __wrap_host_id_read(char id[HOST_ID_BYTES]);

void __wrap_host_boot_id(char id[HOST_BOOT_BYTES])
{
	const char *host = getenv("LAUNCHES_HOST");

	snprintf(id, HOST_BOOT_BYTES, "%s", host ? host : "");
}

void __wrap_host_id_read(char id[HOST_ID_BYTES])
{
	char boot[HOST_BOOT_BYTES];

	__wrap_host_boot_id(boot);
	snprintf(id, HOST_ID_BYTES, "%s/1", boot);
}

/* ---- launchers ---- */

struct place {
	uint32_t start, launch, rank;
};

static void set(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void set(const char *name, const char *format, ...)
{
	char text[128];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	setenv(name, text, 1);
}

static void torchrun(const struct place *place, uint32_t local_size)
{
	set("RANK", "%u", place->rank);
	set("WORLD_SIZE", "%d", SIZE);
	set("LOCAL_RANK", "%u", place->rank % local_size);
	set("LOCAL_WORLD_SIZE", "%u", local_size);
	set("MASTER_PORT", "29500");
	set("TORCHELASTIC_RESTART_COUNT", "0");
}

static void torchrun_static(const struct place *place)
{
	torchrun(place, SIZE);
	set("TORCHELASTIC_RUN_ID", "none");
	set("MASTER_ADDR", "127.0.0.1");
}

static void torchrun_elastic(const struct place *place)
{
	torchrun(place, SIZE);
	set("TORCHELASTIC_RUN_ID", "100");
	set("MASTER_ADDR", "node1");
}

static void torchrun_two_hosts(const struct place *place)
{
	torchrun(place, 1);
	set("TORCHELASTIC_RUN_ID", "run%u", place->start);
	set("MASTER_ADDR", "node1");
}

static void kubeflow(const struct place *place)
{
	set("RANK", "%u",
	    place->rank); /* a real rank 0 is told localhost, and has to set TALLY_JOB */
	set("WORLD_SIZE", "%d", SIZE);
	set("MASTER_ADDR", "job%u-master-0", place->start);
	set("MASTER_PORT", "23456");
}

static void srun(const struct place *place)
{
	set("SLURM_PROCID", "%u", place->rank);
	set("SLURM_NTASKS", "%d", SIZE);
	set("SLURM_STEP_NUM_TASKS", "%d", SIZE);
	set("SLURM_JOB_ID", "%u", 1000 + place->start);
	set("SLURM_STEP_ID", "0");
}

static void open_mpi(const struct place *place, uint32_t local_size)
{
	set("OMPI_COMM_WORLD_RANK", "%u", place->rank);
	set("OMPI_COMM_WORLD_SIZE", "%d", SIZE);
	set("OMPI_COMM_WORLD_LOCAL_RANK", "%u", place->rank % local_size);
	set("OMPI_COMM_WORLD_LOCAL_SIZE", "%u", local_size);
	set("PMIX_NAMESPACE", "%u", 1u + (place->start << 16));
}

static void mpirun(const struct place *place)
{
	open_mpi(place, SIZE);
}

static void mpirun_two_hosts(const struct place *place)
{
	open_mpi(place, 1);
}

static void prterun(const struct place *place)
{
	open_mpi(place, SIZE);
	set("PMIX_NAMESPACE", "prterun-node1-12@1");
}

static void mpich_pmix(const struct place *place)
{
	set("PMI_RANK", "%u", place->rank);
	set("PMI_SIZE", "%d", SIZE);
	set("MPI_LOCALNRANKS", "%d", SIZE);
	set("PMIX_RANK", "%u", place->rank);
	set("PMIX_NAMESPACE", "prterun-node1-12@1");
}

/* A shell between it and the ranks: they are no process that it knows. */
static void tally_run(const struct place *place)
{
	set("TALLY_RANK", "%u", place->rank);
	set("TALLY_SIZE", "%d", SIZE);
	set("TALLY_LOCAL_SIZE", "%d", SIZE);
	set("TALLY_JOB", "run-%u", place->start);
	set("TALLY_RUN", "1:run-%u", place->start);
}

static const struct launcher {
	const char *name;
	void (*set)(const struct place *place);
	bool has_hosts; /* a rank on each of two, so that no host tells one launch from another */
} launchers[] = {
	{ "torchrun without a run id", torchrun_static, false },
	{ "torchrun --rdzv_id=100", torchrun_elastic, false },
	{ "torchrun on two hosts", torchrun_two_hosts, true },
	{ "Kubeflow's variables", kubeflow, true },
	{ "srun", srun, true },
	{ "Open MPI 4", mpirun, false },
	{ "Open MPI 4 on two hosts", mpirun_two_hosts, true },
	{ "Open MPI 5", prterun, false },
	{ "MPICH by way of PMIx", mpich_pmix, false },
};

/* ---- a rank ---- */

static int32_t value_of(const struct place *place, uint32_t i)
{
	int32_t value = (int32_t)(1 + i + 10 * place->rank + 1000 * place->launch);

	return (place->rank + i) % 2 ? -value : value;
}

static bool is_own_sum(const struct place *place, const int32_t *sum)
{
	for (uint32_t i = 0; i < VALUES; i++) {
		struct place other = *place;
		int32_t wanted = 0;

		for (other.rank = 0; other.rank < SIZE; other.rank++)
			wanted += value_of(&other, i);
		if (sum[i] != wanted)
			return false;
	}
	return true;
}

static uint32_t number_of(const char *name)
{
	return (uint32_t)strtoul(getenv(name), NULL, 10);
}

/* One sum, as a program that has nothing else to do. */
static int rank_main(void)
{
	const struct place place = { .launch = number_of("LAUNCHES_LAUNCH"),
				     .rank = number_of("LAUNCHES_RANK") };
	int32_t values[VALUES];
	struct told *mine;
	struct tally_comm *comm = NULL;

	told = mmap(NULL, AT_ONCE * PROCESSES * sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED,
		    (int)number_of("LAUNCHES_FD"), 0);
	if (told == MAP_FAILED)
		return 1;
	mine = &told[number_of("LAUNCHES_PLACE")];
	for (uint32_t i = 0; i < VALUES; i++)
		values[i] = value_of(&place, i);
	mine->result = tally_comm_init_env(&comm, NULL);
	if (!mine->result)
		mine->result =
			tally_allreduce(values, values, VALUES, TALLY_INT32, TALLY_SUM, comm);
	snprintf(mine->text, sizeof(mine->text), "%s", tally_get_last_error(comm));
	mine->is_right = !mine->result && is_own_sum(&place, values);
	mine->has_come = true;
	if (comm && !mine->result)
		(void)tally_comm_finalize(comm);
	if (comm)
		tally_comm_destroy(comm);
	return 0;
}

static pid_t rank_start(const struct launcher *launcher, const struct place *place,
			bool is_one_host, bool is_one_program, const char *aggregator,
			uint32_t late_us)
{
	char program[] = "--program=0";
	char *const arguments[] = { (char *)(uintptr_t) "launches_test", program, NULL };
	pid_t pid = fork();

	if (pid)
		return pid;
	program[sizeof(program) - 2] = (char)('0' + (is_one_program ? 0 : place->launch));
	launcher->set(place);
	set("LAUNCHES_HOST", "start%u-host%u", place->start,
	    (is_one_host ? 0 : SIZE * place->launch) + (launcher->has_hosts ? place->rank : 0));
	set("LAUNCHES_LAUNCH", "%u", place->launch);
	set("LAUNCHES_RANK", "%u", place->rank);
	set("LAUNCHES_FD", "%d", told_fd);
	set("LAUNCHES_PLACE", "%u",
	    (place->start % AT_ONCE * LAUNCHES + place->launch) * SIZE + place->rank);
	set("TALLY_AGGREGATOR", "%s", aggregator);
	set("TALLY_INIT_TIMEOUT_S", "%d", INIT_S);
	set("TALLY_LOG", "error");
	usleep(late_us);
	execv(self_path, arguments);
	_exit(1);
}

/* ---- the test ---- */

enum outcome { RIGHT, REFUSED };

struct counts {
	uint32_t right, refused, wrong;
};

/* Two launches of one name, in each of some starts at once. By turns: rank 0 of the one comes with rank 1 of the other. */
static void some_starts(const struct launcher *launcher, bool is_one_host, bool is_one_program,
			bool is_by_turns, uint32_t first, uint32_t count, const char *aggregator,
			struct rng *rng)
{
	pid_t pid[AT_ONCE * PROCESSES];
	uint32_t begun = 0;

	memset(told, 0, AT_ONCE * PROCESSES * sizeof(*told));
	for (uint32_t i = 0; i < count * PROCESSES; i++) {
		const struct place place = { first + i / PROCESSES, i / SIZE % LAUNCHES, i % SIZE };
		bool is_late = is_by_turns && (place.launch + place.rank) % 2;

		pid[begun++] = rank_start(launcher, &place, is_one_host, is_one_program, aggregator,
					  rng_below(rng, LATE_US) + is_late * turn_ms * 1000);
	}
	for (uint32_t i = 0; i < begun; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
}

static void count_some(uint32_t first, uint32_t count, struct counts *counts)
{
	for (uint32_t i = 0; i < count * PROCESSES; i++) {
		uint32_t place = first % AT_ONCE * PROCESSES + i;
		const struct told *one = &told[place % (AT_ONCE * PROCESSES)];

		if (one->is_right)
			counts->right++;
		else if (one->has_come && one->result && strstr(one->text, "TALLY_JOB"))
			counts->refused++;
		else {
			counts->wrong++;
			fprintf(stderr, "start %u, launch %u, rank %u: result %d, %s\n",
				first + i / PROCESSES, i / SIZE % LAUNCHES, i % SIZE, one->result,
				one->result ? one->text : "another's sum");
		}
	}
}

static bool two_launches(const struct launcher *launcher, bool is_one_host, bool is_one_program,
			 bool is_by_turns, enum outcome wanted)
{
	struct ranks host = { .jobs_max = 4 * AT_ONCE * LAUNCHES };
	uint16_t port = ranks_aggregator(&host, 0, &host.aggregator_pid);
	struct counts counts = { 0 };
	double from_s = ranks_now_s();
	char aggregator[32];
	struct rng rng;
	int status;

	assert_int_not_equal(port, 0);
	snprintf(aggregator, sizeof(aggregator), "127.0.0.1:%u", port);
	rng_init(&rng, seed, (uint64_t)is_one_host << 1 | is_one_program);
	for (uint32_t first = 0; first < starts; first += AT_ONCE) {
		uint32_t count = starts - first < AT_ONCE ? starts - first : AT_ONCE;

		some_starts(launcher, is_one_host, is_one_program, is_by_turns, first, count,
			    aggregator, &rng);
		count_some(first, count, &counts);
	}
	kill(host.aggregator_pid, SIGTERM);
	waitpid(host.aggregator_pid, &status, 0);
	printf("%s, %s, %s%s: %u starts, ranks: %u right, %u refused, %u wrong; %.1f s\n",
	       launcher->name, is_one_host ? "two programs of one launch" : "two jobs of two hosts",
	       is_one_program ? "one command line" : "two command lines",
	       is_by_turns ? ", by turns" : "", starts, counts.right, counts.refused, counts.wrong,
	       ranks_now_s() - from_s);
	return (wanted == RIGHT ? counts.right : counts.refused) == starts * PROCESSES;
}

/* Its names are never two runs': only what one of them has begun can meet. */
static void launches__programs_of_one_tally_run_are_two_or_refused(void **state)
{
	static const struct launcher run = { "tally run", tally_run, false };

	(void)state;
	assert_true(two_launches(&run, true, false, false, RIGHT));
	assert_true(two_launches(&run, true, true, false, REFUSED));
}

static void run_all(bool is_one_host, bool is_one_program)
{
	bool is_good = true;

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		bool is_told_apart = !is_one_program || (!is_one_host && !launchers[i].has_hosts);

		is_good &= two_launches(&launchers[i], is_one_host, is_one_program, false,
					is_told_apart ? RIGHT : REFUSED);
	}
	assert_true(is_good);
}

static void launches__jobs_of_one_name_do_not_meet(void **state)
{
	(void)state;
	run_all(false, true);
}

static void launches__jobs_of_one_name_and_two_programs_are_two(void **state)
{
	(void)state;
	run_all(false, false);
}

static void launches__programs_of_one_launch_are_two(void **state)
{
	(void)state;
	run_all(true, false);
}

static void launches__programs_that_nobody_can_tell_apart_are_refused(void **state)
{
	(void)state;
	run_all(true, true);
}

static void launches__programs_whose_ranks_come_by_turns_are_two(void **state)
{
	static const struct launcher srun_alone = { "srun", srun, true };

	(void)state;
	assert_true(two_launches(&srun_alone, true, false, true, RIGHT));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launches__jobs_of_one_name_do_not_meet),
		cmocka_unit_test(launches__jobs_of_one_name_and_two_programs_are_two),
		cmocka_unit_test(launches__programs_of_one_launch_are_two),
		cmocka_unit_test(launches__programs_that_nobody_can_tell_apart_are_refused),
		cmocka_unit_test(launches__programs_whose_ranks_come_by_turns_are_two),
		cmocka_unit_test(launches__programs_of_one_tally_run_are_two_or_refused),
	};

	if (getenv("LAUNCHES_PLACE"))
		return rank_main();
	if (argc > 2)
		starts = (uint32_t)strtoul(argv[2], NULL, 10);
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		turn_ms = (uint32_t)strtoul(argv[4], NULL, 10);
	told_fd = memfd_create("told", 0); /* children have it */
	if (told_fd < 0 || ftruncate(told_fd, AT_ONCE * PROCESSES * sizeof(*told)))
		return 1;
	told = mmap(NULL, AT_ONCE * PROCESSES * sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED,
		    told_fd, 0);
	return cmocka_run_group_tests_name("e2e-launches", tests, NULL, NULL);
}
