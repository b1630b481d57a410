/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_fuzz.c - any bytes as a configuration file. Every pair could be written again and would be read
 * the same; what a message shows of a bad line is printable, and nothing of a line that speaks of a key.
 */
#include "tests/fuzz/input.h"
#include "util/conf.h"

static void printable_check(const char *text, size_t max)
{
	size_t length = strnlen(text, max);

	FUZZ_CHECK(length < max);
	for (size_t i = 0; i < length; i++)
		FUZZ_CHECK(text[i] >= ' ' && text[i] < 0x7f);
}

static void pair_check(const struct conf_pair *pair)
{
	static char line[CONF_KEY_MAX + CONF_VALUE_MAX + 2];
	size_t key = strnlen(pair->key, sizeof(pair->key));
	size_t value = strnlen(pair->value, sizeof(pair->value));
	static struct conf_pair again;
	struct conf conf;

	FUZZ_CHECK(key >= 1 && key <= CONF_KEY_MAX);
	FUZZ_CHECK(value <= CONF_VALUE_MAX);
	printable_check(pair->key, sizeof(pair->key));
	memcpy(line, pair->key, key);
	line[key] = '=';
	memcpy(line + key + 1, pair->value, value);
	conf_init(&conf, line, key + 1 + value);
	FUZZ_CHECK(conf_next(&conf, &again) == CONF_PAIR);
	FUZZ_CHECK(!strcmp(again.key, pair->key));
	FUZZ_CHECK(!strcmp(again.value, pair->value));
	FUZZ_CHECK(conf_next(&conf, &again) == CONF_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct conf_pair pair;
	enum conf_result result;
	struct conf conf;
	uint32_t line = 0;

	conf_init(&conf, (const char *)data, bytes);
	while ((result = conf_next(&conf, &pair)) != CONF_END) {
		FUZZ_CHECK(conf.line > line);
		line = conf.line;
		FUZZ_CHECK(line <= bytes + 1);
		if (result == CONF_PAIR) {
			pair_check(&pair);
			continue;
		}
		FUZZ_CHECK(result == CONF_BAD);
		FUZZ_CHECK(pair.why && pair.why[0]);
		printable_check(pair.shown, sizeof(pair.shown));
	}
	FUZZ_CHECK(conf_next(&conf, &pair) == CONF_END);
	return 0;
}
