/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - the commands behind `tally`, and what they share. Each takes its own argv, argv[0] being
 * its name, and returns the exit status: 0 all was done and verified, 1 it failed, 2 the command line was
 * wrong (and something on stderr says what). Numbers go to stdout, progress and errors to stderr.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_NOT_RUNNABLE = 126,
	EXIT_NOT_FOUND = 127
};

int run_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int glm_main(int argc, char **argv);
int hot_main(int argc, char **argv);

#endif
