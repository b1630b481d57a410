/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - see error.h. */
#include "files/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"

enum { NAME_BYTES = 400, PLACE_BYTES = 100 /* of what is left for a name with a line */ };

int files_fail_at(char error[FILES_ERROR_MAX], const char *name, uint64_t line, uint64_t column,
		  const char *format, ...)
{
	va_list list;
	int used;

	if (line)
		used = snprintf(error, FILES_ERROR_MAX, "%.*s:%" PRIu64 ":%" PRIu64 ": ",
				NAME_BYTES - PLACE_BYTES, name, line, column);
	else
		used = snprintf(error, FILES_ERROR_MAX, "%.*s: ", NAME_BYTES, name);
	va_start(list, format);
	vsnprintf(error + used, (size_t)(FILES_ERROR_MAX - used), format, list);
	va_end(list);
	text_clean(error);
	return -1;
}

struct files_shown files_show(const char *at, size_t bytes)
{
	struct files_shown shown = { "" };
	size_t most = bytes < FILES_SHOWN_BYTES ? bytes : FILES_SHOWN_BYTES;

	for (size_t i = 0; i < most; i++)
		shown.text[i] = at[i] >= ' ' && at[i] < 0x7f ? at[i] : '?';
	if (bytes > most)
		memcpy(shown.text + most, "...", sizeof("..."));
	return shown;
}
