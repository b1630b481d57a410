/* SPDX-License-Identifier: Apache-2.0 */
/* keys_ctr.c - click logs: each field of a line is a feature, "column=value". See keys.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shared/hash.h"
#include "hot/keys_state.h"

enum { NUMBER_DIGITS_MAX = 18 };

static int fail(struct keys *k, const char *at, const char *to, const char *before,
		const char *after)
{
	return line_fail(&k->line, at, to, before, after, k->error);
}

static int key_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* With few bits two features of a row may have one hash: an update has a key once. */
static void row_end(struct keys *k)
{
	size_t kept = 0;

	if (!k->options.bits || !k->count)
		return;
	qsort(k->key, k->count, sizeof(*k->key), key_compare);
	for (size_t i = 0; i < k->count; i++)
		if (!i || k->key[i] != k->key[i - 1])
			k->key[kept++] = k->key[i];
	k->count = kept;
}

static const char *field_end(const struct keys *k, const char *at, char separator)
{
	const char *end = memchr(at, separator, (size_t)(k->line.end - at));

	return end ? end : k->line.end;
}

static uint32_t fields_count(const struct keys *k, char separator)
{
	uint32_t fields = 1;

	for (const char *at = k->line.at; at < k->line.end; at++)
		fields += *at == separator;
	return fields;
}

static int fields_check(struct keys *k, uint32_t fields)
{
	char sentence[80];

	if (fields == k->fields)
		return 0;
	snprintf(sentence, sizeof(sentence), "%u fields, not %u as in the lines before", fields,
		 k->fields);
	return fail(k, k->line.end, k->line.end, sentence, "");
}

static bool is_bare(const struct keys *k)
{
	return k->line.at == k->line.end;
}

/* ---- criteo ---- */

static int criteo_begin(struct keys *k, uint32_t fields)
{
	char name[16];

	if (fields != CRITEO_FIELDS && fields != CRITEO_FIELDS + 1) {
		char sentence[80];

		snprintf(sentence, sizeof(sentence),
			 "%u fields with tabs between them: a line of criteo has 40 or 39", fields);
		return fail(k, k->line.at, k->line.at, sentence, "");
	}
	k->fields = fields;
	for (uint32_t i = 0; i < CRITEO_FIELDS; i++) {
		if (i < CRITEO_NUMBERS)
			snprintf(name, sizeof(name), "I%u=", i + 1);
		else
			snprintf(name, sizeof(name), "C%u=", i - CRITEO_NUMBERS + 1);
		k->begun[i] = hash_text(HASH_BEGIN, name);
	}
	return 0;
}

static int number_put(struct keys *k, uint64_t hash, const char *at, const char *end)
{
	const char *digits = at + (*at == '-');
	char text[32];
	int64_t number = 0;

	if (end == digits || end - digits > NUMBER_DIGITS_MAX)
		return fail(k, at, end, "", " is no whole number of up to 18 digits");
	for (const char *c = digits; c < end; c++) {
		if (*c < '0' || *c > '9')
			return fail(k, at, end, "", " is no whole number");
		number = 10 * number + (*c - '0');
	}
	number = *at == '-' ? -number : number;
	if (number > 2) {
		double logarithm = log((double)number);

		snprintf(text, sizeof(text), "%" PRId64, (int64_t)(logarithm * logarithm));
	} else {
		snprintf(text, sizeof(text), "S%" PRId64, number);
	}
	return keys_put_hash(k, hash_text(hash, text));
}

int keys_criteo(struct keys *k)
{
	uint32_t fields = fields_count(k, '\t');
	const char *at = k->line.at;

	if (is_bare(k))
		return 1;
	if (k->fields ? fields_check(k, fields) : criteo_begin(k, fields))
		return -1;
	if (fields > CRITEO_FIELDS) {
		if ((*at != '0' && *at != '1') || at[1] != '\t')
			return fail(k, at, field_end(k, at, '\t'), "the label ", " is not 0 or 1");
		at += 2;
	}
	for (uint32_t i = 0; i < CRITEO_FIELDS; i++) {
		const char *end = field_end(k, at, '\t');
		int result = 0;

		if (at < end && i < CRITEO_NUMBERS)
			result = number_put(k, k->begun[i], at, end);
		else if (at < end)
			result = keys_put_hash(k, hash_bytes(k->begun[i], at, (size_t)(end - at)));
		if (result)
			return -1;
		at = end + 1;
	}
	row_end(k);
	return 0;
}

/* ---- avazu ---- */

static bool is_name(const char *at, const char *end, const char *name)
{
	return (size_t)(end - at) == strlen(name) && !memcmp(at, name, strlen(name));
}

static int avazu_begin(struct keys *k, uint32_t fields)
{
	const char *at = k->line.at;

	if (fields < 2)
		return fail(k, at, at, "no names with commas between them", "");
	if (fields > CTR_COLUMNS_MAX)
		return fail(k, at, at, "more than 1024 columns", "");
	for (uint32_t i = 0; i < fields; i++) {
		const char *end = field_end(k, at, ',');

		if (at == end)
			return fail(k, at, at, "a column without a name", "");
		if (strspn(at, "0123456789.") >= (size_t)(end - at))
			return fail(k, at, end, "",
				    " is no name of a column: a first line has names");
		if (!is_name(at, end, "id") && !is_name(at, end, "click"))
			k->begun[i] =
				hash_byte(hash_bytes(HASH_BEGIN, at, (size_t)(end - at)), '=');
		if (is_name(at, end, "hour"))
			k->hour = i + 1;
		at = end + 1;
	}
	k->fields = fields;
	return 1;
}

int keys_avazu(struct keys *k)
{
	uint32_t fields = fields_count(k, ',');
	const char *at = k->line.at;

	if (is_bare(k))
		return 1;
	if (!k->fields)
		return avazu_begin(k, fields);
	if (fields_check(k, fields))
		return -1;
	for (uint32_t i = 0; i < fields; i++) {
		const char *end = field_end(k, at, ',');
		const char *from = i + 1 == k->hour && end - at > 2 ? end - 2 : at;

		if (k->begun[i] &&
		    keys_put_hash(k, hash_bytes(k->begun[i], from, (size_t)(end - from))))
			return -1;
		at = end + 1;
	}
	row_end(k);
	return 0;
}
