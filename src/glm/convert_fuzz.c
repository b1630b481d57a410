/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert_fuzz.c - any bytes as a table, or as images and labels. What is taken becomes a file that libsvm.h reads,
 * with the rows of a second reader, which has all of the input and looks at it with strtod, strtof and its own eyes.
 * What is not leaves a sentence that names a file, and no file, whole or partial.
 */
#include <math.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "files/libsvm.h"
#include "files/number.h"
#include "glm/convert.h"
#include "tests/fuzz/input.h"

enum { INPUT_MAX = 1 << 16, PIXELS_MAX = 1 << 22 };

/* A hash of what is in rows. */
struct said {
	uint64_t rows, hash, is_bad;
};

static char from[64], labels[64], to[64], partial[80];

static void paths_make(void)
{
	int pid = (int)getpid();

	if (from[0])
		return;
	snprintf(from, sizeof(from), "/tmp/tally-convert-fuzz-%d", pid);
	snprintf(labels, sizeof(labels), "/tmp/tally-convert-fuzz-%d.labels", pid);
	snprintf(to, sizeof(to), "/tmp/tally-convert-fuzz-%d.to", pid);
	snprintf(partial, sizeof(partial), "%s.partial", to);
}

static void put(const char *path, const uint8_t *data, size_t bytes)
{
	FILE *file = fopen(path, "wb");

	FUZZ_CHECK(file);
	FUZZ_CHECK(fwrite(data, 1, bytes, file) == bytes);
	FUZZ_CHECK(!fclose(file));
}

static void row_begin(struct said *said, double label)
{
	said->rows++;
	said->hash = hash_bytes(said->hash, &label, sizeof(label));
}

static void value_say(struct said *said, uint32_t feature, float value)
{
	said->hash = hash_number(said->hash, feature, 4);
	said->hash = hash_bytes(said->hash, &value, sizeof(value));
}

/* ---- what has become of it ---- */

static struct said written(const struct convert_done *done)
{
	struct said said = { .hash = HASH_BEGIN };
	char error[GLM_ERROR_MAX];
	struct libsvm *libsvm;
	struct source *source;
	struct libsvm_row row;
	int result;

	FUZZ_CHECK(!source_open(&source, to, error));
	FUZZ_CHECK(!libsvm_open(&libsvm, source, error));
	while ((result = libsvm_next(libsvm, &row)) > 0) {
		row_begin(&said, row.label);
		for (uint32_t i = 0; i < row.count; i++) {
			FUZZ_CHECK(row.feature[i] < done->features);
			FUZZ_CHECK(row.value[i] != 0);
			value_say(&said, row.feature[i], row.value[i]);
		}
	}
	FUZZ_CHECK(!result);
	FUZZ_CHECK(said.rows == done->rows);
	libsvm_close(libsvm);
	return said;
}

static struct said result_look(int result, const struct convert_done *done, const char *error)
{
	FUZZ_CHECK(access(partial, F_OK));
	if (!result) {
		struct said said = written(done);

		unlink(to);
		return said;
	}
	FUZZ_CHECK(access(to, F_OK));
	FUZZ_CHECK(!strncmp(error, from, strlen(from)));
	FUZZ_CHECK(strstr(error, ": "));
	for (const char *at = error; *at; at++)
		FUZZ_CHECK(*at >= ' ' && *at < 0x7f);
	return (struct said){ .is_bad = 1 };
}

/* ---- tables ---- */

struct table {
	const uint8_t *at, *end; /* what is left */
	char separator;
	uint32_t label; /* from 1; 0: the column `y` */
	uint32_t fields;
};

struct field {
	const uint8_t *at, *end;
};

static bool is_blank(const struct table *table, uint8_t byte)
{
	return (byte == ' ' || byte == '\t') && byte != (uint8_t)table->separator;
}

static struct field trimmed(const struct table *table, const uint8_t *at, const uint8_t *end)
{
	while (at < end && is_blank(table, *at))
		at++;
	while (at < end && is_blank(table, end[-1]))
		end--;
	return (struct field){ at, end };
}

/* Field number `idx` of a line; false: it has fewer. */
static bool field_get(const struct table *table, struct field line, uint32_t idx,
		      struct field *field)
{
	const uint8_t *at = line.at;

	for (;; idx--) {
		const uint8_t *end = at;

		while (end < line.end && *end != (uint8_t)table->separator)
			end++;
		*field = trimmed(table, at, end);
		if (!idx)
			return true;
		if (end == line.end)
			return false;
		at = end + 1;
	}
}

static uint32_t fields_count(const struct table *table, struct field line)
{
	uint32_t count = 1;

	for (const uint8_t *at = line.at; at < line.end; at++)
		count += *at == (uint8_t)table->separator;
	return count;
}

/* Decimal, as libsvm_fuzz.c has it: nothing else that strtod takes. */
static bool number_read(struct field field, char text[NUMBER_BYTES_MAX + 1])
{
	size_t bytes = (size_t)(field.end - field.at), digits;
	const char *at = text;

	if (!bytes || bytes > NUMBER_BYTES_MAX || memchr(field.at, 0, bytes))
		return false;
	memcpy(text, field.at, bytes);
	text[bytes] = 0;
	at += *at == '-' || *at == '+';
	digits = strspn(at, "0123456789");
	at += digits;
	if (*at == '.') {
		size_t more = strspn(++at, "0123456789");

		digits += more;
		at += more;
	}
	if (digits && (*at == 'e' || *at == 'E')) {
		at += at[1] == '-' || at[1] == '+' ? 2 : 1;
		digits = strspn(at, "0123456789");
		at += digits;
	}
	return digits && !*at;
}

static bool label_read(struct field field, double *label)
{
	char text[NUMBER_BYTES_MAX + 1];

	if (!number_read(field, text))
		return false;
	*label = strtod(text, NULL);
	return isfinite(*label);
}

/* What the first line says; false: it is bad. */
static bool first_read(struct table *table, struct field line, bool *is_row)
{
	struct field field;
	double label;

	table->fields = fields_count(table, line);
	*is_row = false;
	if (!table->label) {
		uint32_t found = 0;

		for (uint32_t i = 0; i < table->fields; i++)
			if (field_get(table, line, i, &field) && field.end - field.at == 1 &&
			    *field.at == 'y') {
				found++;
				table->label = i + 1;
			}
		return found == 1 && table->fields >= 2;
	}
	if (table->label > table->fields || table->fields < 2)
		return false;
	field_get(table, line, table->label - 1, &field);
	*is_row = label_read(field, &label);
	return true;
}

static bool row_read(struct said *said, const struct table *table, struct field line)
{
	char text[NUMBER_BYTES_MAX + 1];
	uint32_t feature = 0;
	struct field field;
	double label;

	if (fields_count(table, line) != table->fields)
		return false;
	field_get(table, line, table->label - 1, &field);
	if (!label_read(field, &label))
		return false;
	row_begin(said, label);
	for (uint32_t i = 0; i < table->fields; i++) {
		float value;

		field_get(table, line, i, &field);
		if (i + 1 == table->label)
			continue;
		if (field.at < field.end) {
			if (!number_read(field, text))
				return false;
			value = strtof(text, NULL);
			if (!isfinite(value))
				return false;
			if (value != 0)
				value_say(said, feature, value);
		}
		feature++;
	}
	return true;
}

static struct said table_read(struct table table)
{
	struct said said = { .hash = HASH_BEGIN };

	while (table.at < table.end) {
		const uint8_t *lf = memchr(table.at, '\n', (size_t)(table.end - table.at));
		struct field line = { table.at, lf ? lf : table.end }, all;
		bool is_row = true;

		table.at = lf ? lf + 1 : table.end;
		if (line.end > line.at && line.end[-1] == '\r')
			line.end--;
		all = trimmed(&table, line.at, line.end);
		if (all.at == all.end)
			continue;
		if ((!table.fields && !first_read(&table, line, &is_row)) ||
		    (is_row && !row_read(&said, &table, line)))
			return (struct said){ .is_bad = 1 };
	}
	return said.rows ? said : (struct said){ .is_bad = 1 };
}

static void table_try(uint8_t how, const uint8_t *data, size_t bytes)
{
	struct table table = { .at = data,
			       .end = data + bytes,
			       .separator = ",;\t "[how >> 3 & 3],
			       .label = how & 7 };
	const struct convert_csv csv = { .separator = table.separator,
					 .label = table.label,
					 .label_name = table.label ? NULL : "y" };
	struct convert_done done = { 0, 0 };
	char error[GLM_ERROR_MAX] = "";
	struct said said, right;

	put(from, data, bytes);
	said = result_look(convert_csv(from, to, &csv, &done, error), &done, error);
	if (memchr(data, '"', bytes))
		return; /* the second reader has no quotes */
	right = table_read(table);
	FUZZ_CHECK(!memcmp(&said, &right, sizeof(said)));
}

/* ---- images ---- */

/* The dimensions, multiplied from the second on; where the elements begin, or NULL. */
static const uint8_t *header_read(const uint8_t *data, size_t bytes, uint64_t *count,
				  uint64_t *each)
{
	uint32_t dimensions;

	if (bytes < 4 || data[0] || data[1] || data[2] != 8)
		return NULL;
	dimensions = data[3];
	if (!dimensions || dimensions > 4 || bytes < 4 + 4 * (size_t)dimensions)
		return NULL;
	*each = 1;
	for (uint32_t i = 0; i < dimensions; i++) {
		const uint8_t *at = data + 4 + 4 * (size_t)i;
		uint64_t size = (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 |
				(uint64_t)at[2] << 8 | at[3];

		if (!i)
			*count = size;
		else
			*each *= size;
		if (*each > PIXELS_MAX)
			return NULL;
	}
	return data + 4 + 4 * (size_t)dimensions;
}

static struct said images_read(const uint8_t *data, size_t images_bytes, size_t bytes,
			       bool is_scaled)
{
	uint64_t count = 0, each = 0, labels_count = 0, one = 0;
	const uint8_t *label_data = data + images_bytes, *end = data + bytes;
	const uint8_t *pixels = header_read(data, images_bytes, &count, &each);
	const uint8_t *label = header_read(label_data, bytes - images_bytes, &labels_count, &one);
	struct said said = { .hash = HASH_BEGIN };

	if (!pixels || !label || data[3] < 2 || label_data[3] != 1 || !each ||
	    count != labels_count || (uint64_t)(label_data - pixels) != count * each ||
	    (uint64_t)(end - label) != count)
		return (struct said){ .is_bad = 1 };
	for (uint64_t i = 0; i < count; i++) {
		row_begin(&said, label[i]);
		for (uint32_t f = 0; f < each; f++) {
			uint8_t pixel = pixels[i * each + f];

			if (pixel)
				value_say(&said, f, is_scaled ? (float)pixel / 255 : (float)pixel);
		}
	}
	return said;
}

static bool is_packed(const uint8_t *data, size_t bytes)
{
	return bytes && (data[0] == 0x1f || data[0] == 0xfd); /* source_fuzz.c */
}

static void images_try(bool is_scaled, const uint8_t *data, size_t bytes)
{
	struct convert_done done = { 0, 0 };
	char error[GLM_ERROR_MAX] = "";
	size_t images_bytes;
	struct said said, right;

	if (bytes < 2)
		return;
	images_bytes = (size_t)(data[0] | data[1] << 8);
	data += 2;
	bytes -= 2;
	if (images_bytes > bytes)
		images_bytes = bytes;
	if (is_packed(data, images_bytes) || is_packed(data + images_bytes, bytes - images_bytes))
		return;
	put(from, data, images_bytes);
	put(labels, data + images_bytes, bytes - images_bytes);
	said = result_look(convert_idx(from, labels, to, is_scaled, &done, error), &done, error);
	right = images_read(data, images_bytes, bytes, is_scaled);
	FUZZ_CHECK(!memcmp(&said, &right, sizeof(said)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!bytes || bytes > INPUT_MAX)
		return 0;
	paths_make();
	if (data[0] & 0x80)
		images_try(data[0] & 1, data + 1, bytes - 1);
	else if (!is_packed(data + 1, bytes - 1))
		table_try(data[0], data + 1, bytes - 1);
	unlink(from);
	unlink(labels);
	return 0;
}
