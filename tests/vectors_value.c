/* SPDX-License-Identifier: Apache-2.0 */
#include "vectors_value.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct value_name flag_names[] = {
	{ "DATA", WIRE_DATA }, { "EXPONENT", WIRE_EXPONENT }, { "DETAIL", WIRE_DETAIL }, { "GUESS", WIRE_GUESS },
	{ "ADD", WIRE_ADD << WIRE_OP_SHIFT }, { "ADD_SHORT", WIRE_ADD_SHORT << WIRE_OP_SHIFT },
	{ "MAX", WIRE_MAX << WIRE_OP_SHIFT }, { "TAKE", WIRE_TAKE << WIRE_OP_SHIFT },
	{ "NONFINITE", WIRE_NONFINITE }, { "RANGE", WIRE_RANGE },
	{ "RESENT", WIRE_RESENT }, { "HINT", WIRE_HINT },   { "BARE", WIRE_BARE },
};
static const struct value_name mode_names[] = {
	{ "DENSE", SWITCH_DENSE }, { "LATENCY", SWITCH_LATENCY },
	{ "ACKNOWLEDGED", SWITCH_LATENCY_ACKNOWLEDGED },
};
/* clang-format on */

bool value_name_find(const struct value_name *names, size_t count, const char *text,
		     uint32_t *value)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(names[i].text, text)) {
			*value = names[i].value;
			return true;
		}
	}
	return false;
}

/* A number between min and max that ends at `stop` or at the end of the text. */
static bool number(const char **text, char stop, int64_t min, int64_t max, int64_t *value)
{
	char *end;

	if (**text == ' ' || **text == '+' || !**text)
		return false;
	*value = strtoll(*text, &end, **text == '0' ? 16 : 10);
	if (**text == '0' && end - *text > 1 && (*text)[1] != 'x')
		return false; /* 010 is what? */
	if (end == *text || (*end && *end != stop) || *value < min || *value > max)
		return false;
	*text = *end ? end + 1 : end;
	return !*end || **text; /* nothing after the stop: unfinished */
}

static bool lanes_append(struct vector_lanes *lanes, int64_t times, int64_t value)
{
	uint32_t count = lanes->count + (uint32_t)times;

	if (count > 65536)
		return false;
	lanes->lane = realloc(lanes->lane, (count ? count : 1) * sizeof(*lanes->lane));
	if (!lanes->lane)
		abort();
	while (lanes->count < count)
		lanes->lane[lanes->count++] = (int32_t)(uint32_t)value;
	return true;
}

/* 1,-2,3*7 or none */
static bool lanes_parse(const char *text, struct vector_lanes *lanes)
{
	free(lanes->lane);
	*lanes = (struct vector_lanes){ 0 };
	if (!strcmp(text, "none"))
		return true;
	while (*text) {
		size_t part = strcspn(text, ",");
		const char *star = memchr(text, '*', part);
		int64_t times = 1, value;

		if (star && !number(&text, '*', 1, 65536, &times))
			return false;
		if (!number(&text, ',', INT32_MIN, UINT32_MAX, &value))
			return false;
		if (!lanes_append(lanes, times, value))
			return false;
	}
	return lanes->count > 0;
}

/* 0,2,5-7 or none or all */
static bool members_parse(const struct switch_job *job, const char *text, uint64_t *bitmap)
{
	memset(bitmap, 0, SWITCH_BITMAP_WORDS * sizeof(*bitmap));
	if (!strcmp(text, "none"))
		return true;
	if (!strcmp(text, "all")) {
		memcpy(bitmap, job->full, sizeof(job->full));
		return true;
	}
	while (*text) {
		size_t part = strcspn(text, ",");
		int64_t from, to;

		if (memchr(text, '-', part)) {
			if (!number(&text, '-', 0, job->children - 1, &from) ||
			    !number(&text, ',', from, job->children - 1, &to))
				return false;
		} else {
			if (!number(&text, ',', 0, job->children - 1, &from))
				return false;
			to = from;
		}
		for (; from <= to; from++)
			bitmap[from / 64] |= 1ull << (from % 64);
	}
	return true;
}

/* NAME|NAME or a number */
static bool flags_parse(const char *text, uint8_t *flags)
{
	char copy[100];
	uint32_t value, sum = 0;
	int64_t plain;

	if (number(&text, '\0', 0, 255, &plain)) {
		*flags = (uint8_t)plain;
		return true;
	}
	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	for (char *rest = copy, *word; (word = strsep(&rest, "|"));) {
		if (!value_name_find(flag_names, COUNT(flag_names), word, &value) || (value & sum))
			return false;
		sum |= value;
	}
	*flags = (uint8_t)sum;
	return true;
}

static bool u16_parse(const char *text, uint16_t *at)
{
	int64_t value;

	if (!number(&text, '\0', 0, UINT16_MAX, &value))
		return false;
	*at = (uint16_t)value;
	return true;
}

bool value_parse(const struct switch_job *job, const struct value_key *key, const char *text)
{
	uint32_t named = 0;
	int64_t value;

	switch (key->kind) {
	case VALUE_MODE:
		if (!value_name_find(mode_names, COUNT(mode_names), text, &named))
			return false;
		*(uint8_t *)key->at = (uint8_t)named;
		return true;
	case VALUE_FLAGS:
		return flags_parse(text, key->at);
	case VALUE_LANES:
		return lanes_parse(text, key->at);
	case VALUE_MEMBERS:
		return members_parse(job, text, key->at);
	case VALUE_U8:
		if (!number(&text, '\0', 0, 1, &value))
			return false;
		*(uint8_t *)key->at = (uint8_t)value;
		return true;
	case VALUE_EXPONENT:
	case VALUE_CHILD:
		if (!strcmp(text, key->kind == VALUE_CHILD ? "OTHER" : "UNKNOWN"))
			text = "65535";
		return u16_parse(text, key->at);
	case VALUE_U16:
		return u16_parse(text, key->at);
	case VALUE_U32:
		if (!number(&text, '\0', 0, UINT32_MAX, &value))
			return false;
		*(uint32_t *)key->at = (uint32_t)value;
		return true;
	}
	return false;
}
