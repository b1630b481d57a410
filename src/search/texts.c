/* SPDX-License-Identifier: Apache-2.0 */
/* texts.c - see texts.h. */
#include "search/texts.h"

#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"
#include "search/record.h"

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

/* ---- texts ---- */

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

/* The buffer is often as large as the text, or one byte less. */
static void record_added(struct rng *rng)
{
	char part[PART], whole[LONG] = "", room[1 + LONG + BEYOND], *buffer = room + 1;
	uint32_t calls = 1 + rng_below(rng, 4), small = rng_u32(rng);
	uint64_t number = draw_number(rng);
	struct text text;
	bool is_emptied;
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
	is_emptied = !buffer[0];
	for (uint32_t i = 0; i < calls; i++)
		text_add(&text, "<%s> is %u of %llu%%, %s", part, small >> i,
			 (unsigned long long)number, part);
	record("text %u %u %llu %zu ; %u %u %zu", calls, small, (unsigned long long)number, max,
	       is_emptied, is_untouched(room, max), text.used);
	record_text(part);
	record_bytes(buffer, strnlen(buffer, max));
	max = max < PART ? max : PART;
	wipe(room);
	text_copy(buffer, max, whole);
	record("copy %zu %u", max, is_untouched(room, max));
	record_text(whole);
	record_bytes(buffer, max);
	record("clean");
	record_text(part);
	text_clean(part);
	record_text(part);
}

static void record_ranks(struct rng *rng)
{
	static const uint32_t bounds[] = { 0, 62, 126, 190, 250, 256, 1u << 31, UINT32_MAX - 3 };
	struct text_ranks ranks = { 0 };
	char buffer[LONG];
	uint32_t changes = rng_below(rng, rng_below(rng, 8) ? 20 : 600);
	struct text text;

	record("ranks ;");
	for (uint32_t i = 0; i < changes; i++) {
		uint32_t rank = rng_below(rng, 3) ? rng_below(rng, 256)
						  : bounds[rng_below(rng, 8)] + rng_below(rng, 4);
		bool is_put = rng_below(rng, 4);

		(is_put ? text_ranks_put : text_ranks_drop)(&ranks, rank);
		record_also(" %u %u %u", rank, is_put, text_ranks_has(&ranks, rank));
	}
	record_also(" ; %u", text_ranks_count(&ranks));
	for (uint32_t rank = 0; rank < RANKS; rank++)
		if (text_ranks_has(&ranks, rank))
			record_also(" %u", rank);
	text_begin(&text, buffer, sizeof(buffer));
	text_add_ranks(&text, &ranks);
	record_text(buffer);
}

void texts_record(struct rng *rng)
{
	record_added(rng);
	record_ranks(rng);
}
