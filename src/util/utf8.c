/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The first byte says how many follow, and of the second what keeps out longer forms of what is shorter,
 * surrogates, and what is above U+10FFFF (RFC 3629, section 4). */
static size_t tail_of(uint8_t lead, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 1;
	if (lead >= 0xe0 && lead <= 0xef) {
		*low = lead == 0xe0 ? 0xa0 : 0x80;
		*high = lead == 0xed ? 0x9f : 0xbf;
		return 2;
	}
	if (lead >= 0xf0 && lead <= 0xf4) {
		*low = lead == 0xf0 ? 0x90 : 0x80;
		*high = lead == 0xf4 ? 0x8f : 0xbf;
		return 3;
	}
	return 0;
}

/* The bytes of the character at `at`; 0: there is none. */
static size_t character(const char *at)
{
	uint8_t low, high;
	size_t tail = tail_of((uint8_t)at[0], &low, &high);

	if (!tail)
		return (uint8_t)at[0] < 0x80;
	for (size_t i = 1; i <= tail; i++) {
		uint8_t byte = (uint8_t)at[i]; /* the terminator fits none */

		if (byte < low || byte > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return 1 + tail;
}

char *utf8_copy(char *to, size_t max, const char *from)
{
	size_t used = 0;

	while (*from) {
		size_t bytes = character(from);
		bool is_wrong = !bytes;

		if (is_wrong)
			bytes = 1;
		if (used + bytes >= max)
			break;
		memcpy(to + used, is_wrong ? "?" : from, bytes);
		used += bytes;
		from += bytes;
	}
	to[used] = '\0';
	return to;
}

char *utf8_to_word(char *text)
{
	for (char *at = text; *at; at++)
		if (*at <= ' ' || *at > '~')
			*at = '_';
	return text;
}
