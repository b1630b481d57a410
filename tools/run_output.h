/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_output.h - what ranks print, line by line, each line whole and with its rank in front. A line ends
 * with a newline, or with a carriage return: then it is progress, which a terminal shows in place.
 */
#ifndef TOOLS_RUN_OUTPUT_H
#define TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTPUT_LINE_BYTES = 1 << 16 }; /* a longer line is cut in two */

/* How lines look; one for all ranks. */
struct output_style {
	bool has_prefix;
	int rank_digits;
	bool is_terminal[2]; /* stdout, stderr */
	bool is_progress;    /* a line of progress stands on the terminal */
};

/* One pipe of one rank. */
struct output {
	int fd; /* -1: ended */
	uint32_t rank;
	bool is_error; /* goes to stderr */
	size_t used;
	char *line; /* OUTPUT_LINE_BYTES */
};

/* Takes fd, which must not block. false: no memory. */
bool output_open(struct output *output, int fd, uint32_t rank, bool is_error);
void output_close(struct output *output);

/* Prints what has come; at its end, or on an error, also what is left, and closes. */
void output_read(struct output *output, struct output_style *style);

/* Before a line of our own goes to stderr. */
void output_clear(struct output_style *style);

#endif
