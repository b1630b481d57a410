/* SPDX-License-Identifier: Apache-2.0 */
/* conf.c - see conf.h. */
#include "util/conf.h"

#include <stdbool.h>
#include <string.h>

/* A run of bytes of the buffer. */
struct span {
	const char *at;
	size_t bytes;
};

void conf_init(struct conf *conf, const char *data, size_t bytes)
{
	*conf = (struct conf){ .at = data, .end = data + bytes };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_key_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

static bool is_control(char c)
{
	return (unsigned char)c < ' ' || c == 0x7f;
}

static struct span trimmed(struct span text)
{
	while (text.bytes && is_blank(text.at[0])) {
		text.at++;
		text.bytes--;
	}
	while (text.bytes && is_blank(text.at[text.bytes - 1]))
		text.bytes--;
	return text;
}

static struct span line_cut(struct conf *conf)
{
	size_t left = (size_t)(conf->end - conf->at);
	const char *newline = memchr(conf->at, '\n', left);
	struct span line = { conf->at, newline ? (size_t)(newline - conf->at) : left };

	conf->at = newline ? newline + 1 : conf->end;
	conf->line++;
	if (line.bytes && line.at[line.bytes - 1] == '\r')
		line.bytes--;
	return trimmed(line);
}

/* Upper and lower case alike. */
static bool speaks_of_key(struct span line)
{
	for (size_t i = 0; i + 3 <= line.bytes; i++)
		if ((line.at[i] | 0x20) == 'k' && (line.at[i + 1] | 0x20) == 'e' &&
		    (line.at[i + 2] | 0x20) == 'y')
			return true;
	return false;
}

static enum conf_result refuse(struct conf_pair *pair, struct span line, const char *why)
{
	size_t shown = line.bytes < CONF_SHOWN_MAX ? line.bytes : CONF_SHOWN_MAX;

	pair->why = why;
	if (speaks_of_key(line)) { /* it may hold one: keys are never shown */
		strcpy(pair->shown, "(not shown)");
		return CONF_BAD;
	}
	for (size_t i = 0; i < shown; i++)
		pair->shown[i] = is_control(line.at[i]) || line.at[i] & 0x80 ? '?' : line.at[i];
	strcpy(pair->shown + shown, shown < line.bytes ? "..." : "");
	return CONF_BAD;
}

static bool is_good_key(struct span key)
{
	if (!key.bytes || key.bytes > CONF_KEY_MAX)
		return false;
	for (size_t i = 0; i < key.bytes; i++)
		if (!is_key_character(key.at[i]))
			return false;
	return true;
}

static enum conf_result line_read(struct conf_pair *pair, struct span line)
{
	const char *equals = memchr(line.at, '=', line.bytes);
	struct span key, value;

	if (!equals)
		return refuse(pair, line, "not KEY=VALUE");
	key = trimmed((struct span){ line.at, (size_t)(equals - line.at) });
	value = trimmed((struct span){ equals + 1, line.bytes - (size_t)(equals + 1 - line.at) });
	if (!is_good_key(key))
		return refuse(pair, line, "a key has 1 to 63 letters, digits, - and _");
	memcpy(pair->key, key.at, key.bytes);
	pair->key[key.bytes] = '\0';
	if (value.bytes > CONF_VALUE_MAX)
		return refuse(pair, line, "a value has at most 1023 bytes");
	for (size_t i = 0; i < value.bytes; i++)
		if (is_control(value.at[i]))
			return refuse(pair, line, "a control character");
	memcpy(pair->value, value.at, value.bytes);
	pair->value[value.bytes] = '\0';
	return CONF_PAIR;
}

enum conf_result conf_next(struct conf *conf, struct conf_pair *pair)
{
	pair->key[0] = pair->value[0] = pair->shown[0] = '\0';
	pair->why = NULL;
	while (conf->at < conf->end) {
		struct span line = line_cut(conf);

		if (line.bytes && line.at[0] != '#')
			return line_read(pair, line);
	}
	return CONF_END;
}
