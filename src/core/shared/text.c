/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shared/text.h"

void text_begin(struct text *text, char *at, size_t max)
{
	*text = (struct text){ .at = at, .max = max };
	at[0] = 0;
}

/* What has been cut must still be UTF-8: JSON takes nothing else. */
static void text_cut(struct text *text)
{
	size_t start = text->used;

	while (start && ((uint8_t)text->at[start - 1] & 0xc0) == 0x80)
		start--;
	if (!start)
		return;
	uint8_t lead = (uint8_t)text->at[start - 1];
	size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
	if (start - 1 + bytes > text->used)
		text->used = start - 1;
	text->at[text->used] = 0;
}

static bool text_put(struct text *text, char c)
{
	if (text->used + 1 >= text->max) {
		text_cut(text);
		text->max = text->used + 1; /* nothing after the cut either */
		return false;
	}
	text->at[text->used++] = c;
	text->at[text->used] = 0;
	return true;
}

/* The bytes of the control character at `at`, of C0 or C1 in UTF-8; 0: there is none. */
static size_t text_control(const char *at)
{
	uint8_t byte = (uint8_t)at[0];

	if (!byte)
		return 0;
	if (byte < 0x20 || byte == 0x7f)
		return 1;
	/* C1: U+0080 to U+009F, of which some terminals take U+009B for ESC [ */
	return byte == 0xc2 && ((uint8_t)at[1] & 0xe0) == 0x80 ? 2 : 0;
}

void text_clean(char *text)
{
	while (*text) {
		size_t control = text_control(text);

		for (size_t i = 0; i < control; i++)
			text[i] = '?';
		text += control ? control : 1;
	}
}

static void text_add_string(struct text *text, const char *string)
{
	if (!string)
		string = "(null)";
	while (*string) {
		size_t control = text_control(string);
		if (!text_put(text, control ? '?' : *string))
			return;
		string += control ? control : 1;
	}
}

static void text_add_number(struct text *text, uint64_t number)
{
	char digits[20];
	uint32_t count = 0;

	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (count)
		text_put(text, digits[--count]);
}

void text_add_args(struct text *text, const char *format, __builtin_va_list args)
{
	for (; *format; format++) {
		if (*format != '%') {
			text_put(text, *format);
			continue;
		}
		format++;
		if (*format == 's') {
			text_add_string(text, __builtin_va_arg(args, const char *));
		} else if (*format == 'u') {
			text_add_number(text, __builtin_va_arg(args, unsigned));
		} else if (*format == '%') {
			text_put(text, '%');
		} else { /* llu */
			CORE_ASSERT(format[0] == 'l');
			CORE_ASSERT(format[1] == 'l');
			CORE_ASSERT(format[2] == 'u');
			format += 2;
			text_add_number(text, __builtin_va_arg(args, unsigned long long));
		}
	}
}

void text_add(struct text *text, const char *format, ...)
{
	__builtin_va_list args;

	__builtin_va_start(args, format);
	text_add_args(text, format, args);
	__builtin_va_end(args);
}

void text_ranks_put(struct text_ranks *ranks, uint32_t rank)
{
	if (rank < 256)
		ranks->word[rank / 64 % 4] |= 1ull << (rank % 64);
}

void text_ranks_drop(struct text_ranks *ranks, uint32_t rank)
{
	if (rank < 256)
		ranks->word[rank / 64 % 4] &= ~(1ull << (rank % 64));
}

bool text_ranks_has(const struct text_ranks *ranks, uint32_t rank)
{
	return rank < 256 && ranks->word[rank / 64 % 4] >> (rank % 64) & 1;
}

uint32_t text_ranks_count(const struct text_ranks *ranks)
{
	uint32_t count = 0;

	for (uint32_t rank = 0; rank < 256; rank++)
		count += text_ranks_has(ranks, rank);
	return count;
}

void text_add_ranks(struct text *text, const struct text_ranks *ranks)
{
	const char *before = text_ranks_count(ranks) == 1 ? "rank " : "ranks ";

	for (uint32_t rank = 0; rank < 256; rank++) {
		if (!text_ranks_has(ranks, rank))
			continue;
		uint32_t last = rank;
		while (text_ranks_has(ranks, last + 1))
			last++;
		text_add(text, "%s%u", before, rank);
		if (last > rank)
			text_add(text, "%s%u", last > rank + 1 ? "-" : ", ", last);
		before = ", ";
		rank = last;
	}
}

void text_copy(char *to, size_t max, const char *from)
{
	struct text text;

	memset(to, 0, max);
	text_begin(&text, to, max);
	text_add_string(&text, from);
	memset(to + text.used, 0, max - text.used);
}
