/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - lines for the log, and what all need of the kernel: see internal.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/shared/text.h"
#include "ps/internal.h"

uint64_t ps_now(const struct ps_server *server)
{
	return server->link->ops->now_ns(server->link);
}

uint64_t ps_wall(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
}

bool ps_random(void *at, size_t bytes)
{
	return getrandom(at, bytes, 0) == (ssize_t)bytes;
}

struct ps_about ps_about(const struct ps_hosted *hosted, const struct ps_conn *conn)
{
	bool is_known = conn && conn->is_welcome;

	return (struct ps_about){ .table = hosted ? hosted->options.table.name : NULL,
				  .job = is_known && *conn->job ? conn->job : NULL,
				  .worker = is_known ? conn->worker : -1 };
}

/* An error of a table may name it already. */
__attribute__((format(printf, 4, 0))) static void say(const struct ps_server *server,
						      enum ps_level level,
						      const struct ps_about *about,
						      const char *format, va_list arguments)
{
	char line[sizeof("table : ") + KV_NAME_BYTES + PS_LINE_BYTES] = "";
	size_t named;

	if (about->table)
		snprintf(line, sizeof(line), "table %s: ", about->table);
	named = strlen(line);
	vsnprintf(line + named, PS_LINE_BYTES, format, arguments);
	if (strncmp(line + named, line, named) != 0)
		named = 0;
	line[named + PS_LINE_BYTES - 1] = 0;
	text_clean(line); /* what others send must neither reach a terminal nor forge a line */
	server->options.log(server->options.arg, level, about, line + named);
}

void ps_log(const struct ps_server *server, enum ps_level level, struct ps_about about,
	    const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(server, level, &about, format, arguments);
	va_end(arguments);
}

void ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format, ...)
{
	uint64_t second = ps_now(server) / 1000000000;
	va_list arguments;

	if (second != server->stranger_second) {
		if (server->stranger_lines > PS_STRANGER_LINES)
			ps_log(server, PS_WARN, ps_about(NULL, NULL),
			       "%u more lines like these were left out",
			       server->stranger_lines - PS_STRANGER_LINES);
		server->stranger_second = second;
		server->stranger_lines = 0;
	}
	if (++server->stranger_lines > PS_STRANGER_LINES)
		return;
	va_start(arguments, format);
	say(server, PS_WARN, &about, format, arguments);
	va_end(arguments);
}
