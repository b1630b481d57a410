/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/identity.h"
#include "util/host_id.h"

static char *self;
static bool is_boot_unknown;

void __real_host_boot_id(char id[HOST_BOOT_BYTES]);
void __wrap_host_boot_id(char id[HOST_BOOT_BYTES]);

void __wrap_host_boot_id(char id[HOST_BOOT_BYTES])
{
	__real_host_boot_id(id);
	if (is_boot_unknown)
		id[0] = '\0';
}

static const char spawns[] = "it spawns another";

/* What this very program says of itself when it is started anew with these arguments. */
static struct identity started(const char *first, const char *second)
{
	char path[4096], line[128] = "";
	const char *arguments[] = { self, "--say", first, second, NULL };
	struct identity its = { 0 };
	unsigned long long program, boot, process;
	int ends[2];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	pid_t pid;

	assert_true(length > 0);
	path[length] = '\0';
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], 1);
		setpgid(0, 0); /* its parent does not lead its group */
		execv(path, (char **)(uintptr_t)arguments);
		_exit(127);
	}
	close(ends[1]);
	assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
	close(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sscanf(line, "%llx %llx %llx", &program, &boot, &process), 3);
	its = (struct identity){ program, boot, process };
	return its;
}

static void identity__is_the_same_each_time_it_is_read(void **state)
{
	(void)state;
	struct identity one, two;

	identity_read(&one);
	identity_read(&two);
	assert_int_not_equal(one.program, 0);
	assert_int_not_equal(one.boot, 0);
	assert_int_not_equal(one.process, 0);
	assert_memory_equal(&one, &two, sizeof(one));
}

static void identity__one_command_line_is_one_program(void **state)
{
	(void)state;
	struct identity one = started("a", NULL), two = started("a", NULL),
			other = started("b", NULL), parts = started("a b", NULL),
			apart = started("a", "b");

	assert_int_equal(one.program, two.program);
	assert_int_equal(one.boot, two.boot);
	assert_int_not_equal(one.process, two.process);
	assert_int_not_equal(one.program, other.program);
	assert_int_not_equal(parts.program, apart.program);
	/* An empty argument is one, and not the end of them. */
	assert_int_not_equal(started("", "b").program, started("", "c").program);
	assert_int_not_equal(started("", NULL).program, started("", "").program);
}

static void identity__local_rank_that_a_launcher_says_does_not_count(void **state)
{
	(void)state;
	static const char *const names[] = { "LOCAL_RANK", "SLURM_LOCALID",
					     "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID" };
	static const char *const ranks[] = { "--local-rank=17", "--local_rank=17" };
	static const char *const others[] = { "--local-rank=", "--local-rank=1", "--local-rank",
					      "--local_rank=170", "--rank=17" };
	struct identity plain = started("a", NULL);

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		/* The user's own may tell two programs apart. */
		assert_int_equal(unsetenv(names[n]), 0);
		for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
			assert_int_not_equal(started("a", ranks[i]).program, plain.program);
		assert_int_equal(setenv(names[n], "17", 1), 0);
		for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
			assert_int_equal(started("a", ranks[i]).program, plain.program);
			assert_int_equal(started(ranks[i], "a").program, plain.program);
		}
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
			assert_int_not_equal(started("a", others[i]).program, plain.program);
		assert_int_equal(unsetenv(names[n]), 0);
	}
}

/* Python's multiprocessing starts each with the numbers of other descriptors. */
static void identity__spawned_processes_are_the_program_that_spawned_them(void **state)
{
	(void)state;
	struct identity mine,
		one = started("pipe_handle=8", "--multiprocessing-fork"),
		two = started("pipe_handle=10", "--multiprocessing-fork"),
		server = started("from multiprocessing.forkserver import main; main(8)", NULL),
		deep = started("--multiprocessing-fork", spawns),
		other = started("from multiprocessing import main", NULL),
		alike = started("from multiprocessing.forkserver importlib", NULL);

	identity_read(&mine);
	assert_int_equal(one.program, mine.program);
	assert_int_equal(two.program, mine.program);
	assert_int_not_equal(one.process, two.process);
	assert_int_equal(server.program, mine.program);
	assert_int_equal(deep.program, mine.program);
	assert_int_not_equal(other.program, mine.program);
	assert_int_not_equal(alike.program, mine.program);
}

static void identity__a_forked_child_is_another_process(void **state)
{
	(void)state;
	struct identity mine, its;
	int status;
	pid_t pid;

	identity_read(&mine);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		identity_read(&its);
		_exit(its.program == mine.program && its.boot == mine.boot &&
				      its.process != mine.process
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Two hosts that do not know it are not one. */
static void identity__of_an_unknown_boot_is_0(void **state)
{
	(void)state;
	struct identity identity;

	is_boot_unknown = true;
	identity_read(&identity);
	is_boot_unknown = false;
	assert_int_equal(identity.boot, 0);
	assert_int_equal(identity.process, 0);
}

/* Every communicator reads it. */
static void identity__leaves_no_file_open(void **state)
{
	struct identity identity;
	int before = dup(0), after;

	(void)state;
	assert_true(before >= 0);
	close(before);
	for (int i = 0; i < 3; i++)
		identity_read(&identity);
	after = dup(0);
	assert_int_equal(after, before); /* the lowest that is free */
	close(after);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity__is_the_same_each_time_it_is_read),
		cmocka_unit_test(identity__one_command_line_is_one_program),
		cmocka_unit_test(identity__local_rank_that_a_launcher_says_does_not_count),
		cmocka_unit_test(identity__spawned_processes_are_the_program_that_spawned_them),
		cmocka_unit_test(identity__of_an_unknown_boot_is_0),
		cmocka_unit_test(identity__leaves_no_file_open),
		cmocka_unit_test(identity__a_forked_child_is_another_process),
	};
	struct identity identity;
	pid_t child;

	self = argv[0];
	if (argc < 3 || strcmp(argv[1], "--say"))
		return cmocka_run_group_tests(tests, NULL, NULL);
	if (argc > 3 && !strcmp(argv[3], spawns)) {
		argv[3] = NULL;
		child = fork();
		if (!child)
			execv("/proc/self/exe", argv);
		return child < 0 || waitpid(child, NULL, 0) != child;
	}
	identity_read(&identity);
	printf("%llx %llx %llx\n", (unsigned long long)identity.program,
	       (unsigned long long)identity.boot, (unsigned long long)identity.process);
	return 0;
}
