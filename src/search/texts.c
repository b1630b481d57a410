/* SPDX-License-Identifier: Apache-2.0 */
/* texts.c - see texts.h. */
#include "search/texts.h"

#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"

enum { LONG = 1200, BEYOND = 16, PART = 60, RANKS = 256 };

void texts_draw(struct rng *rng, char *text, size_t wanted, size_t max)
{
	static const char *const letters[] = { "a",
					       "Z",
					       "%",
					       " ",
					       "\n",
					       "\x1b",
					       "\x1f",
					       "\x7f",
					       "\xc2\x80",
					       "\xc2\x9b",
					       "\xc2\x9f",
					       "\xc2\xa0",
					       "\xc3\x9b",
					       "\xc3\xa9",
					       "\xdf\xbf",
					       "\xe2\x82\xac",
					       "\xe0\xa4\x85",
					       "\xf0\x9f\x98\x80" };
	const uint32_t count = sizeof(letters) / sizeof(letters[0]);
	size_t used = 0, bytes;

	text[0] = 0;
	while (used < wanted) {
		const char *letter = letters[rng_below(rng, rng_below(rng, 3) ? 3 : count)];

		bytes = strlen(letter);
		if (used + bytes >= max)
			return;
		memcpy(text + used, letter, bytes + 1);
		used += bytes;
	}
}

static size_t letter_bytes(const char *at)
{
	size_t bytes = 1;

	while (((unsigned char)at[bytes] >> 6) == 2)
		bytes++;
	return bytes;
}

/* U+0000 to U+001F, U+007F to U+009F */
static bool is_control(const char *at, size_t bytes)
{
	unsigned char first = (unsigned char)at[0], second = (unsigned char)at[1];

	return bytes == 1 ? first < ' ' || first == 127 : first == 0xc2 && second < 0xa0;
}

void texts_tidy(char *to, size_t max, const char *from)
{
	size_t used = 0, bytes;

	memset(to, 0, max);
	for (; *from; from += bytes) {
		char mark = '?';
		const char *letter = from;
		size_t length;

		bytes = length = letter_bytes(from);
		if (is_control(from, bytes)) {
			letter = &mark;
			length = 1;
		}
		if (used + length > max - 1)
			return;
		memcpy(to + used, letter, length);
		used += length;
	}
}

/* ---- texts ---- */

/* A control character of two bytes becomes two. */
static const char *clean_differs(const char *text)
{
	char cleaned[PART];
	size_t at = 0;

	memcpy(cleaned, text, strlen(text) + 1);
	text_clean(cleaned);
	while (text[at]) {
		bool is_dirt = is_control(text + at, letter_bytes(text + at));

		for (size_t end = at + letter_bytes(text + at); at < end; at++)
			if (cleaned[at] != (is_dirt ? '?' : text[at]))
				return "a control character, or not";
	}
	return cleaned[at] ? "the end of a text moves the cursor" : NULL;
}

static uint64_t draw_number(struct rng *rng)
{
	return rng_below(rng, 4) ? rng_log(rng, 1, UINT64_MAX) : rng_below(rng, 2) ? UINT64_MAX : 0;
}

/* Before a buffer of a text is half a letter, behind it 'x'. */
static void wipe(char *room)
{
	memset(room, 'x', 1 + LONG + BEYOND);
	room[0] = (char)0xf0;
}

static bool is_untouched(const char *room, size_t max)
{
	for (size_t i = 1 + max; i < 1 + LONG + BEYOND; i++)
		if (room[i] != 'x')
			return false;
	return room[0] == (char)0xf0;
}

/* The same in both ways; the buffer is often as large as the text, or one byte less. */
static const char *add_differs(struct rng *rng)
{
	char part[PART], whole[LONG] = "", want[LONG], room[1 + LONG + BEYOND], *buffer = room + 1;
	uint32_t calls = 1 + rng_below(rng, 4), small = rng_u32(rng);
	uint64_t number = draw_number(rng);
	struct text text;
	size_t max;

	texts_draw(rng, part, rng_below(rng, 40), sizeof(part));
	for (uint32_t i = 0; i < calls; i++) {
		size_t used = strlen(whole);

		snprintf(whole + used, sizeof(whole) - used, "<%s> is %u of %llu%%, %s", part,
			 small >> i, (unsigned long long)number, part);
	}
	max = rng_below(rng, 2) ? 1 + rng_below(rng, LONG) : strlen(whole) + 2 - rng_below(rng, 4);
	wipe(room);
	text_begin(&text, buffer, max);
	if (buffer[0])
		return "text_begin empties";
	for (uint32_t i = 0; i < calls; i++)
		text_add(&text, "<%s> is %u of %llu%%, %s", part, small >> i,
			 (unsigned long long)number, part);
	texts_tidy(want, max < LONG ? max : LONG, whole);
	if (strcmp(buffer, want) != 0 || text.used != strlen(want))
		return "another text";
	if (!is_untouched(room, max))
		return "a text beyond its buffer";
	max = max < PART ? max : PART;
	wipe(room);
	texts_tidy(want, max, whole);
	text_copy(buffer, max, whole);
	if (memcmp(buffer, want, max) != 0)
		return "another copy, or no zeros behind it";
	if (!is_untouched(room, max))
		return "a copy beyond its buffer";
	return clean_differs(part);
}

/* ---- sets of ranks ---- */

/* "ranks 0, 3-5, 7": of what goes on for two, both; for more, the ends. */
static void name_ranks(const bool *in, uint32_t count, char *to, size_t max)
{
	const char *between = count == 1 ? "rank " : "ranks ";

	to[0] = 0;
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		bool is_first = in[rank] && !(rank && in[rank - 1]);
		bool is_last = in[rank] && !in[rank + 1];
		size_t used = strlen(to);

		if (is_first)
			snprintf(to + used, max - used, "%s%u", between, rank);
		else if (is_last)
			snprintf(to + used, max - used, "%s%u",
				 rank > 1 && in[rank - 2] ? "-" : ", ", rank);
		if (is_first)
			between = ", ";
	}
}

static const char *ranks_differ(struct rng *rng)
{
	static const uint32_t bounds[] = { 0, 62, 126, 190, 250, 256, 1u << 31, UINT32_MAX - 3 };
	struct text_ranks ranks = { 0 };
	bool in[RANKS + 1] = { false };
	char buffer[LONG], want[LONG];
	uint32_t changes = rng_below(rng, rng_below(rng, 8) ? 20 : 600), count = 0;
	struct text text;

	for (uint32_t i = 0; i < changes; i++) {
		uint32_t rank = rng_below(rng, 3) ? rng_below(rng, 256)
						  : bounds[rng_below(rng, 8)] + rng_below(rng, 4);
		bool is_put = rng_below(rng, 4);

		(is_put ? text_ranks_put : text_ranks_drop)(&ranks, rank);
		if (rank < RANKS)
			in[rank] = is_put;
		if (text_ranks_has(&ranks, rank) != (rank < RANKS && is_put))
			return "another set of ranks";
	}
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		count += in[rank];
		if (text_ranks_has(&ranks, rank) != in[rank])
			return "another set of ranks";
	}
	if (text_ranks_count(&ranks) != count)
		return "another number of ranks";
	text_begin(&text, buffer, sizeof(buffer));
	text_add_ranks(&text, &ranks);
	name_ranks(in, count, want, sizeof(want));
	return strcmp(buffer, want) ? "ranks are named otherwise" : NULL;
}

const char *texts_differ(struct rng *rng)
{
	const char *wrong = add_differs(rng);

	return wrong ? wrong : ranks_differ(rng);
}
