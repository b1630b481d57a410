/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines_fixture.h - for tests: what a server logs, word for word, and its clock, which is the test's. Needs
 * -Wl,--wrap=ps_log,--wrap=ps_now, and --wrap=ps_log_stranger where strangers are heard; included once in a program.
 */
#ifndef PS_LINES_FIXTURE_H
#define PS_LINES_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ps/internal.h"

enum { LINES_MAX = 32 };

static struct {
	uint64_t now_ns;
	uint32_t lines;
	enum ps_level level[LINES_MAX];
	struct ps_about about[LINES_MAX];
	char line[LINES_MAX][PS_LINE_BYTES]; /* without "table NAME: " */
} heard;

__attribute__((format(printf, 4, 5))) void __wrap_ps_log(const struct ps_server *server,
							 enum ps_level level, struct ps_about about,
							 const char *format, ...);
uint64_t __wrap_ps_now(const struct ps_server *server);

void __wrap_ps_log(const struct ps_server *server, enum ps_level level, struct ps_about about,
		   const char *format, ...)
{
	va_list values;

	assert_non_null(server);
	assert_true(heard.lines < LINES_MAX);
	heard.level[heard.lines] = level;
	heard.about[heard.lines] = about;
	va_start(values, format);
	vsnprintf(heard.line[heard.lines++], PS_LINE_BYTES, format, values);
	va_end(values);
}

/* At PS_DEBUG, so that a test can tell it. */
__attribute__((format(printf, 3, 4))) void
__wrap_ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format, ...);

void __wrap_ps_log_stranger(struct ps_server *server, struct ps_about about, const char *format,
			    ...)
{
	va_list values;
	char line[PS_LINE_BYTES];

	va_start(values, format);
	vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	__wrap_ps_log(server, PS_DEBUG, about, "%s", line);
}

uint64_t __wrap_ps_now(const struct ps_server *server)
{
	assert_non_null(server);
	return heard.now_ns;
}

/* Of this table, or NULL. */
static inline void assert_line(uint32_t i, enum ps_level level, const char *table, const char *text)
{
	const char *named = heard.about[i].table;

	assert_true(i < heard.lines);
	assert_string_equal(heard.line[i], text);
	assert_int_equal(heard.level[i], level);
	assert_string_equal(named ? named : "none", table ? table : "none");
}

#endif
