/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - see record.h. */
#include "search/record.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/times.h>
#include <unistd.h>

static FILE *reader;
static uint64_t lines, lines_max;

void record(const char *format, ...)
{
	va_list list;

	if (lines++)
		fputc('\n', reader);
	va_start(list, format);
	vfprintf(reader, format, list);
	va_end(list);
}

void record_also(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vfprintf(reader, format, list);
	va_end(list);
}

void record_list(const void *numbers, uint32_t count)
{
	fputs(" ;", reader);
	for (uint32_t i = 0; i < count; i++) {
		int32_t number;

		memcpy(&number, (const char *)numbers + i * sizeof(number), sizeof(number));
		fprintf(reader, " %d", number);
	}
}

void record_bytes(const void *bytes, size_t count)
{
	fputs(" ;\"", reader);
	for (size_t i = 0; i < count; i++)
		fprintf(reader, "%02x", ((const unsigned char *)bytes)[i]);
}

void record_text(const char *text)
{
	if (text)
		record_bytes(text, strlen(text));
	else
		fputs(" ;", reader);
}

static uint64_t number_at(const void *at, uint32_t bytes)
{
	switch (bytes) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		return *(const uint16_t *)at;
	case 4:
		return *(const uint32_t *)at;
	default:
		return *(const uint64_t *)at;
	}
}

void record_fields(const void *of, const struct record_field *fields)
{
	for (; fields->bytes; fields++) {
		const char *at = (const char *)of + fields->at;

		if (fields->bytes > sizeof(uint64_t))
			record_text(at);
		else
			fprintf(reader, " %llu", (unsigned long long)number_at(at, fields->bytes));
	}
}

bool record_is_over(void)
{
	return ferror(reader) || lines >= lines_max;
}

/* Of the processor, with the reading's. */
static double seconds(void)
{
	struct tms used;

	times(&used);
	return (double)(used.tms_utime + used.tms_stime + used.tms_cutime + used.tms_cstime) /
	       (double)sysconf(_SC_CLK_TCK);
}

struct bfs_result record_run(const struct bfs_model *model, uint64_t states_max)
{
	struct bfs_result result = { .violation = "the rules say something else" };
	double begun = seconds();

	signal(SIGPIPE, SIG_IGN); /* a reading that has found something ends */
	reader = popen("exec python3 -B '" REPLAY "'", "w");
	assert(reader);
	lines = 0;
	lines_max = states_max;
	model->record(model->config);
	if (pclose(reader) == 0)
		result.violation = NULL;
	reader = NULL;
	result.states = lines;
	result.is_complete = !result.violation && lines < lines_max;
	result.seconds = seconds() - begun;
	return result;
}

void record_stop(void)
{
	if (reader)
		pclose(reader);
	reader = NULL;
}
