/* SPDX-License-Identifier: Apache-2.0 */
/* run_output.c - see run_output.h. */
#include "tools/run_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char erase[] = "\033[K";

bool output_open(struct output *output, int fd, uint32_t rank, bool is_error)
{
	*output = (struct output){ .fd = fd, .rank = rank, .is_error = is_error };
	output->line = malloc(OUTPUT_LINE_BYTES);
	return output->line;
}

void output_close(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	free(output->line);
	*output = (struct output){ .fd = -1 };
}

void output_clear(struct output_style *style)
{
	if (style->is_progress)
		fprintf(stderr, "\r%s", erase);
	style->is_progress = false;
}

static void prefix_print(const struct output *output, const struct output_style *style, FILE *file)
{
	static const int colours[] = { 36, 33, 35, 32, 34, 31 };

	if (!style->has_prefix)
		return;
	if (style->is_terminal[output->is_error] && !getenv("NO_COLOR"))
		fprintf(file, "\033[%dm[%*u]\033[0m ", colours[output->rank % 6],
			style->rank_digits, output->rank);
	else
		fprintf(file, "[%*u] ", style->rank_digits, output->rank);
}

static void line_print(const struct output *output, struct output_style *style, const char *line,
		       size_t bytes, char end)
{
	FILE *file = output->is_error ? stderr : stdout;
	bool is_empty = !bytes || (bytes == strlen(erase) && !memcmp(line, erase, strlen(erase)));

	output_clear(style);
	if (end == '\r' && is_empty)
		return; /* the end of a progress bar */
	prefix_print(output, style, file);
	fwrite(line, 1, bytes, file);
	if (end == '\r' && style->is_terminal[output->is_error])
		style->is_progress = true;
	else
		fputc('\n', file);
}

/* All whole lines of what is there; the rest moves to the front. */
static void lines_print(struct output *output, struct output_style *style)
{
	size_t from = 0;

	for (size_t at = 0; at < output->used; at++) {
		char end = output->line[at];

		if (end != '\n' && end != '\r')
			continue;
		if (end == '\r' && at + 1 < output->used && output->line[at + 1] == '\n')
			continue; /* a newline as DOS writes it: the '\r' goes with the text */
		line_print(output, style, output->line + from, at - from, end);
		from = at + 1;
	}
	if (!from && output->used == OUTPUT_LINE_BYTES) {
		line_print(output, style, output->line, output->used, '\n');
		from = output->used;
	}
	memmove(output->line, output->line + from, output->used - from);
	output->used -= from;
}

void output_read(struct output *output, struct output_style *style)
{
	while (output->fd >= 0) {
		ssize_t got = read(output->fd, output->line + output->used,
				   OUTPUT_LINE_BYTES - output->used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			break;
		if (got <= 0) {
			if (output->used)
				line_print(output, style, output->line, output->used, '\n');
			output_close(output);
			break;
		}
		output->used += (size_t)got;
		lines_print(output, style);
	}
	fflush(output->is_error ? stderr : stdout);
}
