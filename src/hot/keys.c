/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - see keys.h. */
#include "hot/keys.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "hot/keys_state.h"

enum { FIRST_LINE_BYTES = 1 << 16 };

const char *const keys_format_names[] = {
	[KEYS_AUTO] = "auto",   [KEYS_LIBSVM] = "libsvm", [KEYS_LIST] = "list",
	[KEYS_WORDS] = "words", [KEYS_CRITEO] = "criteo", [KEYS_AVAZU] = "avazu",
	[KEYS_U64] = "u64",     [KEYS_U64 + 1] = NULL,
};

/* ---- which format ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == ',';
}

static size_t count_of(const char *text, char c)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == c;
	return count;
}

/* `line` has something in it but blanks. */
static enum keys_format format_of(const char *line)
{
	size_t tabs = count_of(line, '\t');

	if (tabs == CRITEO_FIELDS || tabs == CRITEO_FIELDS - 1)
		return KEYS_CRITEO;
	if (strchr(line, ':') && strspn(line, "+-.0123456789eE:# \t") == strlen(line))
		return KEYS_LIBSVM;
	if (strspn(line, "0123456789 \t,") == strlen(line))
		return KEYS_LIST;
	if (!strncmp(line, "id,click,", 9) || !strncmp(line, "id,hour,", 8))
		return KEYS_AVAZU;
	return KEYS_AUTO;
}

/* The first line that has something in it, cut at FIRST_LINE_BYTES; "" if there is none. */
static void first_line(char *text)
{
	char *line = text;

	line += strspn(line, " \t\r\n");
	while (line > text && line[-1] != '\n') /* a line may begin with an empty field */
		line--;
	memmove(text, line, strlen(line) + 1);
	text[strcspn(text, "\r\n")] = 0;
}

static int guess(const char *path, enum keys_format *format, char error[FILES_ERROR_MAX])
{
	char *text = malloc(FIRST_LINE_BYTES + 1);
	struct source *source = NULL;
	size_t has = 0;
	ssize_t got = 1;
	struct stat is;

	*format = KEYS_AUTO;
	if (!text)
		return files_fail(error, path, "out of memory");
	if (!strcmp(path, "-") || (!stat(path, &is) && !S_ISREG(is.st_mode))) {
		files_fail(error, path,
			   "a stream cannot be looked at first: which --format is it?");
	} else if (!source_open(&source, path, error)) {
		while (has < FIRST_LINE_BYTES && got > 0) {
			got = source_read(source, text + has, FIRST_LINE_BYTES - has);
			has += got > 0 ? (size_t)got : 0;
		}
		text[has] = 0;
		first_line(text);
		*format = format_of(text);
		if (got < 0)
			memcpy(error, source_error(source), FILES_ERROR_MAX);
		else if (*format == KEYS_AUTO)
			files_fail(error, path, "its first line does not say what it is: --format");
		source_close(source);
	}
	free(text);
	return *format == KEYS_AUTO || got < 0 ? -1 : 0;
}

/* ---- open, close ---- */

static ssize_t stdin_read(void *arg, void *to, size_t bytes)
{
	(void)arg;
	return read(STDIN_FILENO, to, bytes);
}

int keys_open(struct keys **keys, const char *path, const struct keys_options *options,
	      char error[FILES_ERROR_MAX])
{
	struct keys_options known = *options;
	struct source *source;

	if (known.format == KEYS_AUTO && guess(path, &known.format, error))
		return -1;
	if (strcmp(path, "-") != 0 ? source_open(&source, path, error)
				   : source_open_read(&source, "stdin", stdin_read, NULL, error))
		return -1;
	return keys_open_source(keys, source, &known, error);
}

int keys_open_source(struct keys **keys, struct source *source, const struct keys_options *options,
		     char error[FILES_ERROR_MAX])
{
	struct keys *k = calloc(1, sizeof(*k));
	int result = 0;

	assert(options->format != KEYS_AUTO);
	if (!k) {
		files_fail(error, source_name(source), "out of memory");
		source_close(source);
		return -1;
	}
	k->options = *options;
	if (options->format == KEYS_LIBSVM)
		result = libsvm_open(&k->libsvm, source, error);
	else if (options->format == KEYS_U64)
		k->source = source;
	else
		result = line_open(&k->line, source, error);
	if (result) {
		free(k);
		return -1;
	}
	*keys = k;
	return 0;
}

void keys_close(struct keys *k)
{
	if (!k)
		return;
	libsvm_close(k->libsvm);
	source_close(k->source);
	line_close(&k->line);
	free(k->key);
	free(k);
}

const char *keys_error(const struct keys *k)
{
	return k->error;
}

enum keys_format keys_format(const struct keys *k)
{
	return k->options.format;
}

/* ---- rows ---- */

static int u64_fail(struct keys *k)
{
	return files_fail(k->error, source_name(k->source),
			  "ends inside of a key of 8 bytes, behind %" PRIu64 " whole ones",
			  k->whole);
}

static int u64_read(struct keys *k)
{
	size_t bytes = 0;

	if (k->is_cut)
		return u64_fail(k);
	if (keys_room_make(k, KEYS_ROOM_FIRST))
		return -1;
	while (bytes < KEYS_ROOM_FIRST * sizeof(*k->key)) {
		ssize_t got = source_read(k->source, (uint8_t *)k->key + bytes,
					  KEYS_ROOM_FIRST * sizeof(*k->key) - bytes);

		if (got < 0) {
			memcpy(k->error, source_error(k->source), sizeof(k->error));
			return -1;
		}
		bytes += (size_t)got;
		/* A stream's keys count as they come. */
		if (!got || bytes % sizeof(*k->key) == 0)
			break;
	}
	k->count = bytes / sizeof(*k->key);
	k->whole += k->count;
	k->is_cut = bytes % sizeof(*k->key) != 0;
	if (!k->count)
		return k->is_cut ? u64_fail(k) : 0;
	return 1;
}

static int libsvm_read(struct keys *k)
{
	struct libsvm_row row;
	int result = libsvm_next(k->libsvm, &row);

	if (result < 0)
		memcpy(k->error, libsvm_error(k->libsvm), sizeof(k->error));
	if (result <= 0)
		return result;
	if (keys_room_make(k, row.count))
		return -1;
	for (uint32_t i = 0; i < row.count; i++)
		k->key[i] = row.feature[i] + UINT64_C(1);
	k->count = row.count;
	return 1;
}

static int token_put(struct keys *k, const char *at, const char *end)
{
	uint64_t number = 0;

	if (k->options.format == KEYS_WORDS)
		return keys_put_hash(k, hash_bytes(HASH_BEGIN, at, (size_t)(end - at)));
	for (const char *c = at; c < end; c++) {
		unsigned digit = (unsigned)(*c - '0');

		if (digit > 9)
			return line_fail(&k->line, at, end, "", " is no key: digits are", k->error);
		if (number > (UINT64_MAX - digit) / 10)
			return line_fail(&k->line, at, end, "the key ", " is above 2^64 - 1",
					 k->error);
		number = 10 * number + digit;
	}
	return keys_put(k, number);
}

/* Of list and words. 0: a row; 1: a line without one. */
static int tokens_read(struct keys *k)
{
	const struct keys_options *o = &k->options;
	const char *at = k->line.at;
	uint32_t column = 0;

	for (;;) {
		const char *end;

		while (is_blank(*at))
			at++;
		if (at == k->line.end)
			break;
		for (end = at; end < k->line.end && !is_blank(*end); end++)
			;
		column++;
		if (column >= o->column_first && (!o->column_last || column <= o->column_last)) {
			if (k->count == KEYS_ROW_MAX)
				return line_fail(&k->line, at, at,
						 "a row of more than 4194304 keys", "", k->error);
			if (token_put(k, at, end))
				return -1;
		}
		at = end;
	}
	if (!column)
		return 1;
	/* Who has a column of names may have nothing else. */
	if (o->column_last ? column < o->column_last : column + 1 < o->column_first)
		return line_fail(&k->line, at, at, "fewer columns than --columns asks for", "",
				 k->error);
	return 0;
}

static int lines_read(struct keys *k)
{
	int result;

	do {
		result = line_next(&k->line, k->error);
		if (result <= 0)
			return result;
		result = k->options.format == KEYS_CRITEO  ? keys_criteo(k)
			 : k->options.format == KEYS_AVAZU ? keys_avazu(k)
							   : tokens_read(k);
	} while (result > 0); /* no row */
	return result ? -1 : 1;
}

int keys_next(struct keys *k, struct keys_row *row)
{
	int result;

	k->count = 0;
	result = k->libsvm ? libsvm_read(k) : k->source ? u64_read(k) : lines_read(k);
	if (result > 0)
		*row = (struct keys_row){ k->key, k->count, k->source != NULL };
	return result;
}
