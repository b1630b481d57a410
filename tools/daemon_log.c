/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_log.c - see daemon.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "tools/daemon.h"
#include "util/lines.h"
#include "util/utf8.h"

static struct {
	const char *daemon;
	const bool *is_json;
	struct lines lines;
} log_state;

static const struct daemon_about nobody = { .rank = -1 };

/* NULL: there is no such field. */
static json_t *json_name(const char *name)
{
	char text[DAEMON_LINE_BYTES];

	return name ? json_string(utf8_copy(text, sizeof(text), name)) : NULL;
}

static json_t *json_make(const char *level, const struct daemon_about *about, const char *line)
{
	char text[DAEMON_LINE_BYTES];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return json_pack("{s:f, s:s, s:o*, s:o*, s:o*, s:s}", "time",
			 (double)now.tv_sec + (double)now.tv_nsec / 1e9, "level",
			 *level ? level : "info", "table", json_name(about->table), "job",
			 json_name(about->job), "rank",
			 about->rank >= 0 ? json_integer(about->rank) : NULL, "text",
			 utf8_copy(text, sizeof(text), line));
}

/* Who reads our lines may have stopped. That is no reason for jobs to end. */
static int put_json(const char *level, const struct daemon_about *about, const char *line,
		    unsigned count)
{
	json_t *object = json_make(level, about, line);
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	size_t bytes = text ? strlen(text) : 0;
	int result = 0;

	if (text) {
		text[bytes] = '\n'; /* in place of its end */
		result = lines_put(&log_state.lines, STDERR_FILENO, text, bytes + 1, count);
	}
	free(text);
	json_decref(object);
	return result;
}

static int put_text(const char *level, const char *line, unsigned count)
{
	char text[DAEMON_LINE_BYTES + 64], second[32];
	struct timespec now;
	struct tm day;
	int bytes;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &day);
	strftime(second, sizeof(second), "%FT%T", &day);
	bytes = snprintf(text, sizeof(text), "%s.%03ldZ %s: %s%s%.*s\n", second,
			 now.tv_nsec / 1000000, log_state.daemon, level, *level ? ": " : "",
			 DAEMON_LINE_BYTES - 1, line);
	return lines_put(&log_state.lines, STDERR_FILENO, text, (size_t)bytes, count);
}

/* level "": whatever the level */
static int put(const char *level, const struct daemon_about *about, const char *line,
	       unsigned count)
{
	return *log_state.is_json ? put_json(level, about, line, count)
				  : put_text(level, line, count);
}

/* False: there still is no room. */
static bool put_dropped(void)
{
	unsigned dropped = lines_dropped(&log_state.lines);
	char line[DAEMON_LINE_BYTES];

	if (!dropped)
		return true;
	snprintf(line, sizeof(line), "%u lines before this one were dropped: nobody read them",
		 dropped);
	return !put("warn", &nobody, line, dropped);
}

void daemon_log_open(const char *daemon, const bool *is_json)
{
	log_state.daemon = daemon;
	log_state.is_json = is_json;
}

void daemon_log_about(const char *level, const struct daemon_about *about, const char *line)
{
	if (put_dropped())
		(void)put(level, about, line, 1);
	else
		lines_drop(&log_state.lines);
}

void daemon_log(const char *level, const char *line)
{
	daemon_log_about(level, &nobody, line);
}

void daemon_log_end(void)
{
	(void)put_dropped();
}
