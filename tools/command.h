/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - the commands behind `tally`, and what they share. Each takes its own argv, argv[0] being
 * its name, and returns the exit status: 0 all was done and verified, 1 it failed, 2 the command line was
 * wrong (and something on stderr says what). Numbers go to stdout, progress and errors to stderr.
 */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Decimal digits and nothing else, min..max. false: *number is untouched. */
bool args_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* The same, but K, M or G may follow: times 1024, 1024^2, 1024^3. */
bool args_size(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* Seconds, as 2 or 0.25, to a thousandth. */
bool args_seconds(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *ms);

/* An option whose value is one number, and the uint64_t of a request that it goes to. */
struct args_number {
	int option;
	uint64_t min, max;
	size_t at; /* offsetof the uint64_t */
	const char *why;
};

/* Reads the value of an option that the table has. NULL: read; "": the table has no such option; else what is wrong. */
const char *args_numbers(const struct args_number *table, size_t count, void *request, int option,
			 const char *value);

/* An option whose value is the name of a file, and the const char * that it goes to. */
struct args_file {
	int option;
	size_t at;
};
const char *args_files(const struct args_file *table, size_t count, void *request, int option,
		       const char *value);

/* Where the option with this `val` stands in getopt_long's table; it has one. (getopt does not say where an option is
 * that has a short form.) */
struct option;
int args_place(const struct option *options, int val);

/* Reads one option by `read`, whose result is as that of args_numbers, and at most once. 0, or EXIT_USAGE, having
 * said why. */
typedef const char *args_reader(void *request, int option, const char *value);
int args_take(const char *command, const struct option *option, int group, uint64_t *seen,
	      args_reader *read, void *request, const char *value);

/* Says on stderr that `value` (NULL: none) is not what `name` takes; EXIT_USAGE. */
int args_refuse(const char *command, const char *name, const char *value, const char *why);

/* True for the first of `group` (0..63); *seen begins as 0. Whoever says something twice means one of the
 * two, and nobody knows which. */
bool args_once(uint64_t *seen, int group);

/* args_refuse for what args_once has found. */
int args_twice(const char *command, const char *option, const char *value);

/* fflush(stdout) and an error of it as an exit status: a full disk is not success. */
int args_print(const char *text);

/* The version, and the commit if there is one, printed so. */
int args_version(void);

#endif
