/* SPDX-License-Identifier: Apache-2.0 */
#include "files/source.h"

#include <errno.h>

#include "files/file_fixture.h"
#include "util/rng.h"

enum { TEXT_BYTES = 100000 };

static char text[TEXT_BYTES], again[4 * TEXT_BYTES];
static uint8_t packed[2 * FILE_PACKED_MAX];
static char error[FILES_ERROR_MAX];

/* Text that packs to about half, so that it takes several reads. */
static void text_make(void)
{
	struct rng rng;

	rng_init(&rng, 1, 0);
	for (size_t i = 0; i < TEXT_BYTES; i++)
		text[i] = (char)('a' + rng_below(&rng, 16));
}

/* All of the file by reads of `step` bytes; -1: the error is in error[]. */
static ssize_t all_read(const char *path, size_t step)
{
	struct source *source = NULL;
	size_t bytes = 0;
	ssize_t got;

	if (source_open(&source, path, error))
		return -1;
	while ((got = source_read(source, again + bytes, step)) > 0) {
		bytes += (size_t)got;
		assert_true(bytes + step <= sizeof(again));
	}
	if (got < 0) {
		assert_int_equal(got, -1);
		assert_int_equal(source_read(source, again, step), -1); /* it stays so */
		memcpy(error, source_error(source), sizeof(error));
	} else {
		assert_int_equal(source_read(source, again + bytes, step), 0);
		assert_int_equal(source_position(source), source_size(source));
	}
	source_close(source);
	return got < 0 ? -1 : (ssize_t)bytes;
}

static void fails(const char *path, const char *what)
{
	error[0] = 0;
	assert_int_equal(all_read(path, 5000), -1);
	assert_int_equal(strncmp(error, path, strlen(path)), 0);
	if (!strstr(error, what))
		fail_msg("\"%s\" is not in \"%s\"", what, error);
}

static void source__plain_gz_and_xz_give_the_same_bytes(void **state)
{
	size_t steps[] = { 1, 7, 4096, 3 * TEXT_BYTES };

	(void)state;
	text_make();
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(all_read(file_write(text, TEXT_BYTES), steps[i]), TEXT_BYTES);
		assert_memory_equal(again, text, TEXT_BYTES);
		assert_int_equal(all_read(file_write(packed, file_gz(text, TEXT_BYTES, packed)),
					  steps[i]),
				 TEXT_BYTES);
		assert_memory_equal(again, text, TEXT_BYTES);
		assert_int_equal(all_read(file_write(packed, file_xz(text, TEXT_BYTES, packed)),
					  steps[i]),
				 TEXT_BYTES);
		assert_memory_equal(again, text, TEXT_BYTES);
	}
}

static void source__several_members_are_one_after_the_other(void **state)
{
	size_t first, bytes;

	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		first = is_xz ? file_xz(text, 1000, packed) : file_gz(text, 1000, packed);
		bytes = first + (is_xz ? file_xz(text + 1000, TEXT_BYTES - 1000, packed + first)
				       : file_gz(text + 1000, TEXT_BYTES - 1000, packed + first));
		assert_int_equal(all_read(file_write(packed, bytes), 4096), TEXT_BYTES);
		assert_memory_equal(again, text, TEXT_BYTES);
	}
}

static void source__a_cut_file_is_an_error_wherever_it_is_cut(void **state)
{
	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		size_t bytes = is_xz ? file_xz(text, 500, packed) : file_gz(text, 500, packed);

		for (size_t cut = 6; cut < bytes; cut++)
			fails(file_write(packed, cut), is_xz ? "truncated xz" : "truncated gz");
	}
}

/* Of a gz's header only the first bits matter: what it says of times, names and systems is nothing to us. */
static void source__a_changed_bit_is_an_error(void **state)
{
	enum { GZ_HEADER = 10 };

	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		size_t bytes = is_xz ? file_xz(text, 500, packed) : file_gz(text, 500, packed);

		for (size_t at = is_xz ? 6 : GZ_HEADER; at < bytes; at++) {
			packed[at] ^= 4;
			fails(file_write(packed, bytes), is_xz ? " xz" : " gz");
			packed[at] ^= 4;
		}
	}
}

static void source__bytes_after_the_end_are_an_error(void **state)
{
	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		size_t bytes = is_xz ? file_xz(text, 500, packed) : file_gz(text, 500, packed);

		memset(packed + bytes, 'x', 16);
		fails(file_write(packed, bytes + 16),
		      is_xz ? "corrupt xz" : "corrupt gz: incorrect header check");
	}
}

static void source__files_that_cannot_be_read_are_named(void **state)
{
	(void)state;
	fails("/nonexistent/file", strerror(ENOENT));
	fails("/tmp", strerror(EISDIR));
}

static void source__a_short_or_empty_file_is_plain(void **state)
{
	(void)state;
	assert_int_equal(all_read(file_text(""), 10), 0);
	assert_int_equal(all_read(file_text("\x1f"), 10), 1);
	assert_int_equal(all_read(file_text("\xfd"
					    "7zX"),
				  10),
			 4);
}

struct dribble { /* one byte a read, interrupted before each; an error at the end if errno_at_end */
	const uint8_t *at;
	size_t left;
	bool is_told;
	int errno_at_end;
};

static ssize_t dribble_read(void *arg, void *to, size_t bytes)
{
	struct dribble *dribble = arg;

	assert_true(bytes > 0);
	dribble->is_told = !dribble->is_told;
	if (dribble->is_told) {
		errno = EINTR;
		return -1;
	}
	if (!dribble->left) {
		errno = dribble->errno_at_end;
		return dribble->errno_at_end ? -1 : 0;
	}
	*(uint8_t *)to = *dribble->at++;
	dribble->left--;
	return 1;
}

static void source__short_reads_lose_nothing(void **state)
{
	(void)state;
	text_make();
	for (int form = 0; form < 3; form++) {
		size_t bytes = form == 2   ? file_xz(text, 5000, packed)
			       : form == 1 ? file_gz(text, 5000, packed)
					   : 5000;
		struct dribble dribble = { .at = form ? packed : (const uint8_t *)text,
					   .left = bytes };
		struct source *source = NULL;
		size_t done = 0;
		ssize_t got;

		assert_int_equal(
			source_open_read(&source, "dribble", dribble_read, &dribble, error), 0);
		assert_int_equal(source_size(source), 0);
		while ((got = source_read(source, again + done, 100)) > 0)
			done += (size_t)got;
		assert_int_equal(got, 0);
		assert_int_equal(done, 5000);
		assert_memory_equal(again, text, 5000);
		source_close(source);
	}
}

static void source__an_error_of_the_system_is_named_with_its_byte(void **state)
{
	struct dribble dribble = { .at = (const uint8_t *)"1 2:3 4:5\n",
				   .left = 10,
				   .errno_at_end = EIO };
	struct source *source = NULL;
	ssize_t got;

	(void)state;
	assert_int_equal(source_open_read(&source, "disk", dribble_read, &dribble, error), 0);
	while ((got = source_read(source, again, 4)) > 0)
		;
	assert_int_equal(got, -1);
	assert_string_equal(source_error(source), "disk: Input/output error (byte 10)");
	source_close(source);
}

/* ---- what the system or a library refuses ---- */

static struct {
	bool has_no_room;  /* calloc */
	bool has_no_name;  /* strdup */
	int gz_begins, gz; /* what zlib says instead; 0: what it says itself */
	lzma_ret xz_begins, xz;
} refused;

void *__wrap_calloc(size_t count, size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
char *__wrap_strdup(const char *text);
int __wrap_inflateInit2_(z_streamp z, int bits, const char *version, int bytes);
int __real_inflateInit2_(z_streamp z, int bits, const char *version, int bytes);
int __wrap_inflate(z_streamp z, int flush);
int __real_inflate(z_streamp z, int flush);
lzma_ret __wrap_lzma_stream_decoder(lzma_stream *xz, uint64_t memory_max, uint32_t flags);
lzma_ret __real_lzma_stream_decoder(lzma_stream *xz, uint64_t memory_max, uint32_t flags);
lzma_ret __wrap_lzma_code(lzma_stream *xz, lzma_action action);
lzma_ret __real_lzma_code(lzma_stream *xz, lzma_action action);

void *__wrap_calloc(size_t count, size_t bytes)
{
	return refused.has_no_room ? NULL : __real_calloc(count, bytes);
}

char *__wrap_strdup(const char *its)
{
	size_t bytes = strlen(its) + 1;
	char *copy = refused.has_no_name ? NULL : malloc(bytes);

	return copy ? memcpy(copy, its, bytes) : NULL;
}

int __wrap_inflateInit2_(z_streamp z, int bits, const char *version, int bytes)
{
	return refused.gz_begins ? refused.gz_begins
				 : __real_inflateInit2_(z, bits, version, bytes);
}

int __wrap_inflate(z_streamp z, int flush)
{
	return refused.gz ? refused.gz : __real_inflate(z, flush);
}

lzma_ret __wrap_lzma_stream_decoder(lzma_stream *xz, uint64_t memory_max, uint32_t flags)
{
	assert_int_equal(memory_max, 256 << 20);
	return refused.xz_begins ? refused.xz_begins
				 : __real_lzma_stream_decoder(xz, memory_max, flags);
}

lzma_ret __wrap_lzma_code(lzma_stream *xz, lzma_action action)
{
	return refused.xz ? refused.xz : __real_lzma_code(xz, action);
}

/* The whole sentence, behind the name. */
static void says(const char *path, const char *what)
{
	error[0] = 0;
	assert_int_equal(all_read(path, 5000), -1);
	assert_memory_equal(error, path, strlen(path));
	assert_string_equal(error + strlen(path), what);
}

static void source__without_memory_is_an_error(void **state)
{
	const char *path;

	(void)state;
	text_make();
	path = file_write(text, 10);
	refused.has_no_room = true;
	says(path, ": out of memory");
	refused.has_no_room = false;
	refused.has_no_name = true;
	says(path, ": out of memory");
	refused.has_no_name = false;
	path = file_write(packed, file_gz(text, 500, packed));
	refused.gz_begins = Z_MEM_ERROR;
	says(path, ": no memory to unpack gz (byte 0)");
	refused.gz_begins = 0;
	refused.gz = Z_MEM_ERROR;
	says(path, ": no memory to unpack gz (byte 0)");
	refused.gz = Z_NEED_DICT;
	says(path, ": corrupt gz: it needs a dictionary (byte 0)");
	refused.gz = 0;
	path = file_write(packed, file_xz(text, 500, packed));
	refused.xz_begins = LZMA_MEM_ERROR;
	says(path, ": no memory to unpack xz (byte 0)");
	refused.xz_begins = LZMA_OK;
	assert_int_equal(all_read(path, 100), 500);
}

static void source__says_what_is_wrong_with_an_xz(void **state)
{
	static const struct {
		lzma_ret result;
		const char *what;
	} rows[] = {
		{ LZMA_BUF_ERROR, ": truncated xz (byte 0)" },
		{ LZMA_MEM_ERROR, ": no memory to unpack xz (byte 0)" },
		{ LZMA_MEMLIMIT_ERROR,
		  ": xz that takes more than 256 MiB of memory to unpack (byte 0)" },
		{ LZMA_OPTIONS_ERROR, ": xz with options that liblzma does not know (byte 0)" },
		{ LZMA_FORMAT_ERROR, ": corrupt xz: bytes that are none after its end (byte 0)" },
		{ LZMA_DATA_ERROR, ": corrupt xz (byte 0)" },
	};
	const char *path;

	(void)state;
	text_make();
	path = file_write(packed, file_xz(text, 500, packed));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		refused.xz = rows[i].result;
		says(path, rows[i].what);
	}
	refused.xz = LZMA_OK;
}

/* The byte that it has come to: between the end of the first member and that of the file. */
static void source__says_at_which_byte_a_file_is_wrong(void **state)
{
	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		size_t bytes = is_xz ? file_xz(text, TEXT_BYTES, packed)
				     : file_gz(text, TEXT_BYTES, packed);
		const char *at;
		unsigned long byte;

		memset(packed + bytes, 'x', 5000);
		fails(file_write(packed, bytes + 5000), "corrupt");
		at = strstr(error, " (byte ");
		assert_non_null(at);
		byte = strtoul(at + 7, NULL, 10);
		assert_true(byte >= bytes);
		assert_true(byte <= bytes + 16);
	}
}

/* More than zlib counts: as much as there is comes. */
static void source__takes_any_number_of_bytes_to_read(void **state)
{
	(void)state;
	text_make();
	for (int is_xz = 0; is_xz < 2; is_xz++) {
		size_t bytes = is_xz ? file_xz(text, 500, packed) : file_gz(text, 500, packed);
		struct source *source = NULL;

		assert_int_equal(source_open(&source, file_write(packed, bytes), error), 0);
		assert_int_equal(source_size(source), bytes);
		assert_int_equal(source_read(source, again, (size_t)1 << 33), 500);
		assert_memory_equal(again, text, 500);
		assert_int_equal(source_read(source, again, (size_t)1 << 33), 0);
		source_close(source);
	}
}

static void source__of_a_device_has_no_size(void **state)
{
	struct source *source = NULL;

	(void)state;
	source_close(NULL);
	assert_int_equal(source_open(&source, "/dev/zero", error), 0);
	assert_int_equal(source_size(source), 0);
	assert_string_equal(source_name(source), "/dev/zero");
	memset(again, 1, 100);
	assert_int_equal(source_read(source, again, 100), 100);
	for (int i = 0; i < 100; i++)
		assert_int_equal(again[i], 0);
	source_close(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(source__plain_gz_and_xz_give_the_same_bytes),
		cmocka_unit_test(source__several_members_are_one_after_the_other),
		cmocka_unit_test(source__a_cut_file_is_an_error_wherever_it_is_cut),
		cmocka_unit_test(source__a_changed_bit_is_an_error),
		cmocka_unit_test(source__bytes_after_the_end_are_an_error),
		cmocka_unit_test(source__files_that_cannot_be_read_are_named),
		cmocka_unit_test(source__a_short_or_empty_file_is_plain),
		cmocka_unit_test(source__short_reads_lose_nothing),
		cmocka_unit_test(source__an_error_of_the_system_is_named_with_its_byte),
		cmocka_unit_test(source__without_memory_is_an_error),
		cmocka_unit_test(source__says_what_is_wrong_with_an_xz),
		cmocka_unit_test(source__says_at_which_byte_a_file_is_wrong),
		cmocka_unit_test(source__takes_any_number_of_bytes_to_read),
		cmocka_unit_test(source__of_a_device_has_no_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
