/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - lines for the log: see internal.h. */
#include <stdarg.h>
#include <stdio.h>

#include "core/shared/text.h"
#include "ps/internal.h"

__attribute__((format(printf, 3, 0))) static void
say(const struct ps_server *server, enum ps_level level, const char *format, va_list arguments)
{
	char line[PS_LINE_BYTES];

	vsnprintf(line, sizeof(line), format, arguments);
	text_clean(line); /* what others send must neither reach a terminal nor forge a line */
	server->options.log(server->options.arg, level, line);
}

void ps_log(const struct ps_server *server, enum ps_level level, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(server, level, format, arguments);
	va_end(arguments);
}

void ps_log_stranger(struct ps_server *server, const char *format, ...)
{
	uint64_t second = ps_now(server) / 1000000000;
	va_list arguments;

	if (second != server->stranger_second) {
		if (server->stranger_lines > PS_STRANGER_LINES)
			ps_log(server, PS_WARN, "%u more lines like these were left out",
			       server->stranger_lines - PS_STRANGER_LINES);
		server->stranger_second = second;
		server->stranger_lines = 0;
	}
	if (++server->stranger_lines > PS_STRANGER_LINES)
		return;
	va_start(arguments, format);
	say(server, PS_WARN, format, arguments);
	va_end(arguments);
}
