/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_say.c - a finding of tally doctor, as a line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "tools/doctor.h"

enum { TEXT_BYTES = 1024 };

static const char *const status_names[DOCTOR_STATUSES] = { "ok", "warn", "fail" };

static void json_say(enum doctor_status status, const char *check, const char *advice,
		     const char *text)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s?}", "check", check, "status",
				   status_names[status], "text", text, "advice", advice);
	char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;

	puts(line ? line : "{}");
	free(line);
	json_decref(object);
}

void doctor_say(struct doctor *doctor, enum doctor_status status, const char *check,
		const char *advice, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f || *at & 0x80)
			*at = '?';
	doctor->found[status]++;
	if (doctor->is_json) {
		json_say(status, check, advice, text);
		return;
	}
	printf("%-5s %-16s %s\n", status_names[status], check, text);
	if (advice)
		printf("%-5s %-16s -> %s\n", "", "", advice);
}
