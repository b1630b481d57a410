/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - see line.h. */
#include "files/line.h"

#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 16 };

int line_open(struct line *line, struct source *source, char error[FILES_ERROR_MAX])
{
	*line = (struct line){ .source = source, .buffer = malloc(LINE_BYTES_MAX + 1) };
	line->next = line->filled = line->buffer;
	if (line->buffer)
		return 0;
	files_fail(error, source_name(source), "out of memory");
	line_close(line);
	return -1;
}

void line_close(struct line *line)
{
	source_close(line->source);
	free(line->buffer);
	*line = (struct line){ 0 };
}

int line_fail(const struct line *line, const char *at, const char *to, const char *before,
	      const char *after, char error[FILES_ERROR_MAX])
{
	const char *quote = to > at ? "'" : "";

	return files_fail_at(error, source_name(line->source), line->number,
			     (uint64_t)(at - line->at) + 1, "%s%s%s%s%s", before, quote,
			     files_show(at, (size_t)(to - at)).text, quote, after);
}

/* What is left of the line moves to the buffer's begin once half of it is used up. */
static void make_room(struct line *line, char **start)
{
	size_t kept = (size_t)(line->filled - *start);

	if (line->filled - line->buffer < LINE_BYTES_MAX / 2 || *start == line->buffer)
		return;
	memmove(line->buffer, *start, kept);
	*start = line->buffer;
	line->filled = line->buffer + kept;
}

static int fill(struct line *line, char **start, char error[FILES_ERROR_MAX])
{
	size_t room;
	ssize_t got;

	if (line->filled - *start >= LINE_BYTES_MAX) {
		line->at = *start;
		return line_fail(line, *start, *start, "a line of more than 8388608 bytes", "",
				 error);
	}
	make_room(line, start);
	line->next = line->filled;
	room = (size_t)(line->buffer + LINE_BYTES_MAX - line->filled);
	got = source_read(line->source, line->filled, room < READ_BYTES ? room : READ_BYTES);
	if (got < 0) {
		memcpy(error, source_error(line->source), FILES_ERROR_MAX);
		return -1;
	}
	line->is_end = !got;
	line->filled += got;
	return 0;
}

int line_next(struct line *line, char error[FILES_ERROR_MAX])
{
	char *start = line->next, *end;

	line->number++;
	while (!(end = memchr(line->next, '\n', (size_t)(line->filled - line->next))) &&
	       !line->is_end)
		if (fill(line, &start, error))
			return -1;
	if (!end && start == line->filled)
		return 0;
	line->next = end ? end + 1 : line->filled;
	if (!end)
		end = line->filled;
	end -= end > start && end[-1] == '\r';
	*end = 0;
	line->at = start;
	line->end = end;
	return 1;
}
