/* SPDX-License-Identifier: Apache-2.0 */
#include "files/number.h"

#include <assert.h>
#include <stdlib.h>

static const char *copied(char text[NUMBER_BYTES_MAX + 1], const char *from, const char *to)
{
	assert(to - from <= NUMBER_BYTES_MAX);
	memcpy(text, from, (size_t)(to - from));
	text[to - from] = 0;
	return text;
}

double number_double_slow(const char *from, const char *to)
{
	char text[NUMBER_BYTES_MAX + 1];

	return strtod(copied(text, from, to), NULL);
}

float number_float_slow(const char *from, const char *to)
{
	char text[NUMBER_BYTES_MAX + 1];

	return strtof(copied(text, from, to), NULL);
}
