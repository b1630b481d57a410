/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsvm_fuzz.c - any bytes as a LIBSVM file. However they come in, the rows and the error are the same; and
 * they are those of a second reader, which has all of the file, looks at one line after the other and at
 * every token for itself, with strtod and strtof.
 */
#include "files/libsvm.h"

#include <math.h>

#include "core/shared/hash.h"
#include "files/bytes_fixture.h"
#include "files/number.h"
#include "tests/fuzz/input.h"

enum { TOKEN_MAX = 1 << 20 };

/* What a file says: a hash of its rows, and the line of its error, 0 for none. */
struct said {
	uint64_t rows, hash, bad_line;
};

static void row_say(struct said *said, double label, uint32_t count, const uint32_t *feature,
		    const float *value)
{
	said->rows++;
	said->hash = hash_bytes(said->hash, &label, sizeof(label));
	said->hash = hash_bytes(said->hash, feature, count * sizeof(*feature));
	said->hash = hash_bytes(said->hash, value, count * sizeof(*value));
	said->hash = hash_number(said->hash, count, 4);
}

static struct said shipped(const uint8_t *data, size_t bytes, size_t step,
			   char error[FILES_ERROR_MAX])
{
	struct bytes from = { data, bytes, step };
	struct said said = { .hash = HASH_BEGIN };
	struct libsvm *libsvm;
	struct source *source;
	struct libsvm_row row;
	int result;

	error[0] = 0;
	FUZZ_CHECK(!source_open_read(&source, "f", bytes_read, &from, error));
	FUZZ_CHECK(!libsvm_open(&libsvm, source, error));
	while ((result = libsvm_next(libsvm, &row)) > 0)
		row_say(&said, row.label, row.count, row.feature, row.value);
	if (result) {
		char *end;

		memcpy(error, libsvm_error(libsvm), FILES_ERROR_MAX);
		FUZZ_CHECK(!strncmp(error, "f:", 2));
		said.bad_line = strtoull(error + 2, &end, 10);
		FUZZ_CHECK(*end == ':' && strtoull(end + 1, &end, 10) > 0);
		FUZZ_CHECK(!strncmp(end, ": ", 2) && end[2]);
		for (end = error; *end; end++)
			FUZZ_CHECK(*end >= ' ' && *end < 0x7f);
	} else {
		FUZZ_CHECK(libsvm_hash(libsvm) == hash_bytes(HASH_BEGIN, data, bytes));
	}
	libsvm_close(libsvm);
	return said;
}

/* The second reader. A token is text without blanks, its NUL at the end alone. */
static bool is_number(const char *token)
{
	size_t digits;

	if (strlen(token) > NUMBER_BYTES_MAX)
		return false;
	token += *token == '-' || *token == '+';
	digits = strspn(token, "0123456789");
	token += digits;
	if (*token == '.') {
		size_t more = strspn(++token, "0123456789");

		digits += more;
		token += more;
	}
	if (!digits)
		return false;
	if (*token == 'e' || *token == 'E') {
		token += token[1] == '-' || token[1] == '+' ? 2 : 1;
		digits = strspn(token, "0123456789");
		token += digits;
	}
	return digits && !*token;
}

static bool pair_read(char *token, uint64_t *before, float *value)
{
	size_t digits = strspn(token, "0123456789");
	uint64_t index;

	if (!digits || digits > 24 || token[digits] != ':')
		return false;
	index = strtoull(token, NULL, 10); /* too large is ULLONG_MAX */
	if (index <= *before || index > LIBSVM_INDEX_MAX || !is_number(token + digits + 1))
		return false;
	*before = index;
	*value = strtof(token + digits + 1, NULL);
	return isfinite(*value);
}

/* A line, its end and any comment cut off: false for a bad one. */
static bool line_read(struct said *said, char *line, size_t length)
{
	static uint32_t feature[TOKEN_MAX / 2];
	static float value[TOKEN_MAX / 2];
	char *rest = NULL, *token;
	uint64_t before = 0;
	uint32_t count = 0;
	double label;

	if (memchr(line, 0, length) || memchr(line, '\r', length))
		return false;
	token = strtok_r(line, " \t", &rest);
	if (!token)
		return true;
	label = strtod(token, NULL);
	if (!is_number(token) || !isfinite(label))
		return false;
	while ((token = strtok_r(NULL, " \t", &rest))) {
		if (!pair_read(token, &before, &value[count]))
			return false;
		feature[count++] = (uint32_t)(before - 1);
	}
	row_say(said, label, count, feature, value);
	return true;
}

static struct said second(const uint8_t *data, size_t bytes)
{
	static char line[TOKEN_MAX + 1];
	struct said said = { .hash = HASH_BEGIN };

	for (uint64_t number = 1; bytes; number++) {
		const uint8_t *lf = memchr(data, '\n', bytes), *hash;
		size_t whole = lf ? (size_t)(lf - data) + 1 : bytes,
		       length = lf ? whole - 1 : whole;

		hash = memchr(data, '#', length);
		if (hash)
			length = (size_t)(hash - data);
		else
			length -= length && data[length - 1] == '\r';
		FUZZ_CHECK(length <= TOKEN_MAX);
		memcpy(line, data, length);
		line[length] = 0;
		if (!line_read(&said, line, length)) {
			said.bad_line = number;
			return said;
		}
		data += whole;
		bytes -= whole;
	}
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[FILES_ERROR_MAX], other[FILES_ERROR_MAX];
	struct said said, again, right;
	size_t step;

	if (!bytes || bytes > TOKEN_MAX)
		return 0;
	step = 1u + data[0] % 32;
	data++;
	bytes--;
	if (bytes >= 2 && (!memcmp(data, "\x1f\x8b", 2) || data[0] == 0xfd))
		return 0; /* packed: source_fuzz.c */
	said = shipped(data, bytes, bytes + 1, error);
	again = shipped(data, bytes, step, other);
	FUZZ_CHECK(!memcmp(&said, &again, sizeof(said)));
	FUZZ_CHECK(!strcmp(error, other));
	right = second(data, bytes);
	FUZZ_CHECK(!memcmp(&said, &right, sizeof(said)));
	return 0;
}
