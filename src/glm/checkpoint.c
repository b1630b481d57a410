/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - see checkpoint.h. */
#include "glm/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "files/aside.h"
#include "util/bytes.h"
#include "util/whole.h"

enum { AT_VERSION = 8, AT_CRC = 12, AT_BYTES = 16 };

static const uint8_t magic[8] = { 't', 'a', 'l', 'l', 'y', 'g', 'l', 'm' };

/* Of the length as it lies in the header, and of the state. */
static uint32_t crc_of(const uint8_t *length, const uint8_t *state, size_t bytes)
{
	uLong crc = crc32(0, length, CHECKPOINT_HEADER_BYTES - AT_BYTES);

	return (uint32_t)crc32_z(crc, state, bytes); /* crc32() takes less than 4 GiB */
}

int checkpoint_write(const char *path, const void *state, size_t bytes, char error[GLM_ERROR_MAX])
{
	uint8_t header[CHECKPOINT_HEADER_BYTES];
	struct aside aside;

	memcpy(header, magic, sizeof(magic));
	bytes_put(header + AT_VERSION, CHECKPOINT_VERSION, 4);
	bytes_put(header + AT_BYTES, bytes, 8);
	bytes_put(header + AT_CRC, crc_of(header + AT_BYTES, state, bytes), 4);
	if (aside_open(&aside, path, error))
		return -1;
	if (aside_write(&aside, header, sizeof(header)))
		aside_write(&aside, state, bytes);
	return aside_commit(&aside, error);
}

int checkpoint_parse(const char *name, const uint8_t *file, size_t file_bytes,
		     const uint8_t **state, size_t *bytes, char error[GLM_ERROR_MAX])
{
	uint64_t version, length, has = file_bytes - CHECKPOINT_HEADER_BYTES;

	if (file_bytes < sizeof(magic) || memcmp(file, magic, sizeof(magic)) != 0)
		return files_fail(error, name, "no checkpoint of tally glm");
	if (file_bytes < CHECKPOINT_HEADER_BYTES)
		return files_fail(error, name, "truncated: ends inside of its header");
	version = bytes_get(file + AT_VERSION, 4);
	if (version != CHECKPOINT_VERSION)
		return files_fail(error, name,
				  "a checkpoint of version %" PRIu64
				  "; this program has version %d",
				  version, CHECKPOINT_VERSION);
	length = bytes_get(file + AT_BYTES, 8);
	if (length != has)
		return files_fail(error, name, "%s: %" PRIu64 " bytes of state, not %" PRIu64,
				  has < length ? "truncated" : "something is behind its end", has,
				  length);
	if (bytes_get(file + AT_CRC, 4) !=
	    crc_of(file + AT_BYTES, file + CHECKPOINT_HEADER_BYTES, has))
		return files_fail(error, name, "damaged: its checksum does not fit");
	*state = file + CHECKPOINT_HEADER_BYTES;
	*bytes = has;
	return 0;
}

int checkpoint_read(const char *path, void **state, size_t *bytes, char error[GLM_ERROR_MAX])
{
	const uint8_t *at;
	size_t has = 0;
	uint8_t *file = whole_read(path, SIZE_MAX, &has);
	int result;

	if (!file)
		return files_fail(error, path, "%s", whole_why(errno));
	result = checkpoint_parse(path, file, has, &at, bytes, error);
	if (result) {
		free(file);
		return -1;
	}
	memmove(file, at, *bytes);
	*state = file;
	return 0;
}
