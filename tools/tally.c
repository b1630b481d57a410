/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - the `tally` command: finds the command that is asked for. docs/man/tally.1 has them all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/command.h"
#include "util/commit.h"
#include "util/opt.h"

static const char help[] =
	"tally - sum vectors across machines, in the network\n"
	"\n"
	"usage: tally COMMAND [OPTION...]\n"
	"\n"
	"  tally run      start the ranks of a job on this machine\n"
	"  tally bench    measure allreduce, every result verified\n"
	"  tally doctor   check this machine, its settings and the path to the aggregator\n"
	"  tally glm      train linear models with many ranks, and use them\n"
	"  tally hot      find the keys of a sparse model that get most of the updates\n"
	"  tally sim      run the protocol in a simulated network that loses and reorders\n"
	"\n"
	"Try it, without starting anything else:\n"
	"\n"
	"  tally run -n 4 -- tally bench allreduce\n"
	"\n"
	"The same between hosts: start `tallyd` on one of them. Then run on each host, under a\n"
	"launcher (torchrun, mpirun) or with TALLY_RANK, TALLY_SIZE and TALLY_JOB set:\n"
	"\n"
	"  TALLY_AGGREGATOR=10.0.0.1 tally bench allreduce\n"
	"\n"
	"tally COMMAND --help says more. tally --version prints the version.\n"
	"Exit status: 0 done and verified; 1 failed; 2 wrong command line.\n";

/* The simulator is a program of its own, beside this one. */
static int sim_start(int argc, char **argv)
{
	char path[PATH_MAX] = "";
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof("-sim"));

	(void)argc;
	if (bytes > 0) {
		strcpy(path + bytes, "-sim");
		execv(path, argv);
	}
	fprintf(stderr, "%s: %s: %s\n", argv[0], path, strerror(errno));
	return EXIT_FAILED;
}

static struct {
	const char *name;
	char title[16]; /* becomes its argv[0]: what it calls itself in messages */
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "run", "tally run", run_main },          { "bench", "tally bench", bench_main },
	{ "doctor", "tally doctor", doctor_main }, { "glm", "tally glm", glm_main },
	{ "hot", "tally hot", hot_main },          { "sim", "tally sim", sim_start },
};

/* A descriptor that is closed would become a socket, and what is printed would go there. Who has no stdout
 * must still hear that nothing could be written. */
static void fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

/* What tally run starts may have a --version of its own: run.c looks for tally's. */
static bool asks_version(int argc, char **argv)
{
	for (int i = 2; i < argc && strcmp(argv[1], "run") != 0; i++)
		if (!strcmp(argv[i], "--version"))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	fill_standard();
	signal(SIGCHLD, SIG_DFL); /* inherited as ignored it hides how children end */
	if (argc < 2) {
		fputs(help, stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "help") && argc == 3) {
		static char wish[] = "--help"; /* tally help run: as tally run --help */

		argv[1] = argv[2];
		argv[2] = wish;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return opt_print("tally", help);
	if (!strcmp(argv[1], "--version"))
		return opt_print("tally", TALLY_VERSION_OF("tally"));
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (asks_version(argc, argv))
			return opt_print("tally", TALLY_VERSION_OF("tally"));
		argv[1] = commands[i].title;
		return opt_end("tally", commands[i].main(argc - 1, argv + 1));
	}
	fprintf(stderr, "tally: %s: no such command (tally --help)\n", argv[1]);
	return EXIT_USAGE;
}
