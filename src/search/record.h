/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what the shipped code was asked and what it said, a line each, for a second reading of the rules in
 * Python that finds the first line that they do not allow: tests/interop/replay.py.
 */
#ifndef SEARCH_RECORD_H
#define SEARCH_RECORD_H

#include <stddef.h>

#include "search/bfs.h"

/* Of a struct: a number, or a text if it has more than 8 bytes. A list of them ends with one of no bytes. */
struct record_field {
	uint16_t at, bytes;
};
#define RECORD_FIELD(type, name)                                   \
	{                                                          \
		offsetof(type, name), sizeof(((type *)NULL)->name) \
	}

/* Begins a line: a word, and numbers. */
__attribute__((format(printf, 1, 2))) void record(const char *format, ...);
/* More of the line. */
__attribute__((format(printf, 1, 2))) void record_also(const char *format, ...);
/* More of the line: a list of numbers of 32 bits, with their sign. */
void record_list(const void *numbers, uint32_t count);
/* More of the line; text NULL: an empty list. */
void record_bytes(const void *bytes, size_t count);
void record_text(const char *text);
/* More of the line: what a struct has, numbers before texts. */
void record_fields(const void *of, const struct record_field *fields);
/* Enough has been said, or the reading takes no more of it. */
bool record_is_over(void);

/* Runs model->record beside the reading. states_max: of lines, about. */
struct bfs_result record_run(const struct bfs_model *model, uint64_t states_max);
/* After a record_run that was left by a jump. */
void record_stop(void);

#endif
