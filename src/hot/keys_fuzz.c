/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys_fuzz.c - any bytes as a file of keys, in each format. However they come in, rows and error are the same; an
 * error names file, line and column in printable characters. Of numbers, the keys are those of a second
 * reader, which has all of the file and takes it apart with strtoull.
 */
#include "hot/keys.h"

#include <ctype.h>
#include <errno.h>

#include "core/shared/hash.h"
#include "files/bytes_fixture.h"
#include "tests/fuzz/input.h"

struct said {
	uint64_t rows, keys, hash, is_bad;
};

static bool is_hashed(enum keys_format format)
{
	return format == KEYS_WORDS || format == KEYS_CRITEO || format == KEYS_AVAZU;
}

static struct said shipped(const struct keys_options *options, const uint8_t *data, size_t bytes,
			   size_t step, char error[FILES_ERROR_MAX])
{
	struct bytes from = { data, bytes, step };
	struct said said = { .hash = HASH_BEGIN };
	struct source *source;
	struct keys_row row;
	struct keys *keys;
	int result;

	memset(error, 0, FILES_ERROR_MAX);
	FUZZ_CHECK(!source_open_read(&source, "f", bytes_read, &from, error));
	FUZZ_CHECK(!keys_open_source(&keys, source, options, error));
	while ((result = keys_next(keys, &row)) > 0) {
		said.rows += row.is_each_row ? row.count : 1;
		said.keys += row.count;
		said.hash = hash_bytes(said.hash, row.key, row.count * sizeof(*row.key));
		if (options->bits && is_hashed(options->format))
			for (size_t i = 0; i < row.count; i++)
				FUZZ_CHECK(row.key[i] >= 1 &&
					   row.key[i] <= UINT64_C(1) << options->bits);
	}
	if (result) {
		snprintf(error, FILES_ERROR_MAX, "%s", keys_error(keys));
		said.is_bad = 1;
		FUZZ_CHECK(!strncmp(error, "f:", 2));
		for (const char *at = error; *at; at++)
			FUZZ_CHECK(*at >= ' ' && *at < 0x7f);
		if (options->format != KEYS_U64) {
			char *end;

			FUZZ_CHECK(strtoull(error + 2, &end, 10) > 0 && *end == ':');
			FUZZ_CHECK(strtoull(end + 1, &end, 10) > 0 && !strncmp(end, ": ", 2));
		}
	}
	keys_close(keys);
	return said;
}

static struct said second(const uint8_t *data, size_t bytes)
{
	struct said said = { .hash = HASH_BEGIN };
	char *text = malloc(bytes + 1), *rest = NULL;

	FUZZ_CHECK(text);
	for (size_t i = 0; i < bytes; i++) /* a NUL is what no key has, either */
		text[i] = data[i] ? (char)data[i] : 'x';
	text[bytes] = 0;
	for (char *line = strtok_r(text, "\n", &rest); line && !said.is_bad;
	     line = strtok_r(NULL, "\n", &rest)) {
		size_t length = strlen(line);
		char *more = NULL, *token;
		bool is_row = false;

		if (length && line[length - 1] == '\r')
			line[length - 1] = 0;
		for (token = strtok_r(line, " \t,", &more); token;
		     token = strtok_r(NULL, " \t,", &more)) {
			uint64_t key;
			char *end;

			errno = 0;
			key = strtoull(token, &end, 10);
			if (*end || errno || !isdigit((unsigned char)*token)) {
				said.is_bad = 1;
				break;
			}
			is_row = true;
			said.keys++;
			said.hash = hash_bytes(said.hash, &key, sizeof(key));
		}
		said.rows += is_row && !said.is_bad;
	}
	free(text);
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[FILES_ERROR_MAX], other[FILES_ERROR_MAX];
	struct keys_options options = { 0 };
	struct said said, again;
	size_t step;

	if (bytes < 4 || bytes > 1 << 16)
		return 0;
	options.format = (enum keys_format)(KEYS_LIBSVM + data[0] % (KEYS_U64 - KEYS_LIBSVM + 1));
	options.bits = data[1] % (KEYS_BITS_MAX + 1);
	options.column_first = data[2] & 7;
	options.column_last = data[2] >> 4 ? options.column_first + (data[2] >> 5) : 0;
	step = 1u + data[3] % 64;
	data += 4;
	bytes -= 4;
	if (bytes >= 2 && (!memcmp(data, "\x1f\x8b", 2) || data[0] == 0xfd))
		return 0; /* packed: files/source_fuzz.c */
	said = shipped(&options, data, bytes, bytes + 1, error);
	again = shipped(&options, data, bytes, step, other);
	FUZZ_CHECK(!memcmp(&said, &again, sizeof(said)));
	FUZZ_CHECK(!strcmp(error, other));
	if (options.format == KEYS_LIST) {
		options.column_first = options.column_last = 0;
		said = shipped(&options, data, bytes, step, error);
		again = second(data, bytes);
		FUZZ_CHECK(said.is_bad == again.is_bad && said.rows == again.rows);
		/* Of the row with the error the second reader has the keys before it. */
		FUZZ_CHECK(said.is_bad || !memcmp(&said, &again, sizeof(said)));
	}
	return 0;
}
