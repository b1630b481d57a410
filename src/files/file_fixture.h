/* SPDX-License-Identifier: Apache-2.0 */
/* file_fixture.h - files for tests, plain and packed, in a folder of the test's own. */
#ifndef FILES_FILE_FIXTURE_H
#define FILES_FILE_FIXTURE_H

#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { FILE_PACKED_MAX = 1 << 16 };

static char file_path[] = "/tmp/tally-files-XXXXXX";
static bool file_is_made;

static void file_remove(void)
{
	unlink(file_path);
}

/* One file at a time: what is written takes the last one's place. */
static inline const char *file_write(const void *at, size_t bytes)
{
	FILE *file;

	if (!file_is_made) {
		int fd = mkstemp(file_path);

		assert_true(fd >= 0);
		close(fd);
		file_is_made = true;
		atexit(file_remove);
	}
	file = fopen(file_path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(at, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
	return file_path;
}

static inline const char *file_text(const char *text)
{
	return file_write(text, strlen(text));
}

/* The text as one gz member; bytes. */
static inline size_t file_gz(const char *text, size_t length, uint8_t packed[FILE_PACKED_MAX])
{
	z_stream z = { 0 };
	size_t bytes;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	z.next_in = (Bytef *)(uintptr_t)text;
	z.avail_in = (uInt)length;
	z.next_out = packed;
	z.avail_out = FILE_PACKED_MAX;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	bytes = z.total_out;
	deflateEnd(&z);
	return bytes;
}

static inline size_t file_xz(const char *text, size_t length, uint8_t packed[FILE_PACKED_MAX])
{
	size_t bytes = 0;

	assert_int_equal(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, (const uint8_t *)text,
						 length, packed, &bytes, FILE_PACKED_MAX),
			 LZMA_OK);
	return bytes;
}

#endif
