/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - see trace.h. */
#include "util/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/whole.h"

enum { BYTES_MAX = 1 << 20, FIELDS = 4 };
#define NS_MAX (UINT64_C(3600) * 1000000000)

/* A line's numbers. 0, or -1. */
static int line_parse(const char *line, uint64_t field[FIELDS])
{
	for (int i = 0; i < FIELDS; i++) {
		char *end;

		line += strspn(line, " \t");
		if (*line < '0' || *line > '9')
			return -1;
		errno = 0;
		field[i] = strtoull(line, &end, 10);
		line = end + strspn(end, " \t\r");
		if (errno || (i + 1 < FIELDS && *line++ != ','))
			return -1;
	}
	return *line && *line != '\n' ? -1 : 0;
}

static int refuse(struct trace *trace, char why[TRACE_WHY_BYTES], uint32_t number, const char *what)
{
	snprintf(why, TRACE_WHY_BYTES, "line %" PRIu32 ": %s", number, what);
	free(trace->layers);
	*trace = (struct trace){ 0 };
	return -1;
}

int trace_parse(struct trace *trace, const char *text, char why[TRACE_WHY_BYTES])
{
	uint32_t number = 0;

	*trace = (struct trace){ .layers = calloc(TRACE_LAYERS_MAX, sizeof(*trace->layers)) };
	if (!trace->layers)
		return refuse(trace, why, 0, "no memory");
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		uint64_t field[FIELDS];

		number++;
		if (*line < '0' || *line > '9')
			continue;
		if (line_parse(line, field))
			return refuse(trace, why, number,
				      "not LAYER, ELEMENTS, FORWARD_NS, BACKWARD_NS");
		if (field[1] > TRACE_ELEMENTS_MAX || field[2] > NS_MAX || field[3] > NS_MAX)
			return refuse(trace, why, number,
				      "at most 2^30 elements, and an hour each way");
		if (trace->count == TRACE_LAYERS_MAX)
			return refuse(trace, why, number, "at most 4096 layers");
		trace->layers[trace->count++] = (struct trace_layer){ .elements = field[1],
								      .forward_ns = field[2],
								      .backward_ns = field[3] };
	}
	if (!trace_elements(trace))
		return refuse(trace, why, number, "no layer that has elements");
	return 0;
}

int trace_load(struct trace *trace, const char *path, char why[TRACE_WHY_BYTES])
{
	size_t bytes;
	uint8_t *whole = whole_read(path, BYTES_MAX, &bytes);
	char *text;
	int result;

	if (!whole) {
		snprintf(why, TRACE_WHY_BYTES, "%s", whole_why(errno));
		return -1;
	}
	text = strndup((const char *)whole, bytes);
	free(whole);
	if (!text) {
		snprintf(why, TRACE_WHY_BYTES, "no memory");
		return -1;
	}
	result = trace_parse(trace, text, why);
	free(text);
	return result;
}

uint64_t trace_elements(const struct trace *trace)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < trace->count; i++)
		sum += trace->layers[i].elements;
	return sum;
}

uint64_t trace_compute_ns(const struct trace *trace)
{
	uint64_t sum_ns = 0;

	for (uint32_t i = 0; i < trace->count; i++)
		sum_ns += trace->layers[i].forward_ns + trace->layers[i].backward_ns;
	return sum_ns;
}
