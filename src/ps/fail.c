/* SPDX-License-Identifier: Apache-2.0 */
/* fail.c - see fail.h. */
#include "ps/fail.h"

#include <stdarg.h>
#include <stdio.h>

int ps_fail(char error[PS_ERROR_MAX], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error, PS_ERROR_MAX, format, arguments);
	va_end(arguments);
	return -1;
}
