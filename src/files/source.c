/* SPDX-License-Identifier: Apache-2.0 */
#include "files/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
	PACKED_BYTES = 1 << 16,
	XZ_MEMORY_MAX = 1 << 28, /* xz -9 takes 65 MiB to unpack */
	MAGIC_BYTES = 6,         /* of xz, the longest */
};

struct source {
	source_read_fn read;
	void *arg;
	int fd; /* -1: not ours */
	enum { PLAIN, GZ, XZ } form;
	bool is_end;    /* of the packed bytes */
	bool is_inside; /* a gz member that has not ended */
	bool is_done, is_failed;
	z_stream gz;
	lzma_stream xz;
	uint64_t position, size;
	size_t at, filled; /* of packed[], which has the magic bytes of a plain file too */
	uint8_t packed[PACKED_BYTES];
	char error[FILES_ERROR_MAX];
	char *name;
};

static ssize_t fd_read(void *arg, void *to, size_t bytes)
{
	return read(*(const int *)arg, to, bytes);
}

static int source_fail(struct source *s, const char *what, const char *why)
{
	char where[32] = "";

	if (s->position)
		snprintf(where, sizeof(where), " (byte %" PRIu64 ")",
			 s->position - (s->filled - s->at));
	s->is_failed = true;
	return files_fail(s->error, s->name, "%s%s%s%s", what, why ? ": " : "", why ? why : "",
			  where);
}

/* -1: the error is told. 0 and is_end at the end. */
static ssize_t file_read(struct source *s, void *to, size_t bytes)
{
	ssize_t got;

	if (s->is_end)
		return 0;
	do
		got = s->read(s->arg, to, bytes);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return source_fail(s, strerror(errno), NULL);
	s->is_end = !got;
	s->position += (uint64_t)got;
	return got;
}

static int packed_fill(struct source *s)
{
	ssize_t got;

	if (s->at < s->filled)
		return 0;
	s->at = s->filled = 0;
	got = file_read(s, s->packed, PACKED_BYTES);
	if (got < 0)
		return -1;
	s->filled = (size_t)got;
	return 0;
}

static ssize_t plain_read(struct source *s, void *to, size_t bytes)
{
	size_t ready = s->filled - s->at;

	if (!ready)
		return file_read(s, to, bytes);
	if (ready > bytes)
		ready = bytes;
	memcpy(to, s->packed + s->at, ready);
	s->at += ready;
	return (ssize_t)ready;
}

/* zlib and lzma count bytes in 32 or 64 bits. */
static size_t part(size_t bytes)
{
	return bytes < 1 << 30 ? bytes : 1 << 30;
}

static ssize_t gz_read(struct source *s, void *to, size_t bytes)
{
	bytes = part(bytes);
	s->gz.next_out = to;
	s->gz.avail_out = (uInt)bytes;
	while (s->gz.avail_out == bytes) {
		int result;

		if (packed_fill(s))
			return -1;
		if (s->at == s->filled)
			return s->is_inside ? source_fail(s, "truncated gz", NULL) : 0;
		s->gz.next_in = s->packed + s->at;
		s->gz.avail_in = (uInt)(s->filled - s->at);
		s->is_inside = true;
		result = inflate(&s->gz, Z_NO_FLUSH);
		s->at = s->filled - s->gz.avail_in;
		if (result == Z_STREAM_END) { /* what follows is one more member */
			s->is_inside = false;
			result = inflateReset(&s->gz);
		}
		if (result == Z_MEM_ERROR)
			return source_fail(s, "no memory to unpack gz", NULL);
		if (result != Z_OK)
			return source_fail(s, "corrupt gz",
					   s->gz.msg ? s->gz.msg : "it needs a dictionary");
	}
	return (ssize_t)(bytes - s->gz.avail_out);
}

static int xz_fail(struct source *s, lzma_ret result)
{
	switch (result) {
	case LZMA_BUF_ERROR:
		return source_fail(s, "truncated xz", NULL);
	case LZMA_MEM_ERROR:
		return source_fail(s, "no memory to unpack xz", NULL);
	case LZMA_MEMLIMIT_ERROR:
		return source_fail(s, "xz that takes more than 256 MiB of memory to unpack", NULL);
	case LZMA_OPTIONS_ERROR:
		return source_fail(s, "xz with options that liblzma does not know", NULL);
	case LZMA_FORMAT_ERROR:
		return source_fail(s, "corrupt xz", "bytes that are none after its end");
	default:
		return source_fail(s, "corrupt xz", NULL);
	}
}

static ssize_t xz_read(struct source *s, void *to, size_t bytes)
{
	s->xz.next_out = to;
	s->xz.avail_out = bytes;
	while (s->xz.avail_out == bytes && !s->is_done) {
		lzma_ret result;

		if (packed_fill(s))
			return -1;
		s->xz.next_in = s->packed + s->at;
		s->xz.avail_in = s->filled - s->at;
		result = lzma_code(&s->xz, s->is_end ? LZMA_FINISH : LZMA_RUN);
		s->at = s->filled - s->xz.avail_in;
		s->is_done = result == LZMA_STREAM_END;
		if (result != LZMA_OK && !s->is_done)
			return xz_fail(s, result);
	}
	return (ssize_t)(bytes - s->xz.avail_out);
}

ssize_t source_read(struct source *s, void *to, size_t bytes)
{
	if (s->is_failed)
		return -1;
	return s->form == GZ   ? gz_read(s, to, bytes)
	       : s->form == XZ ? xz_read(s, to, bytes)
			       : plain_read(s, to, bytes);
}

static int source_begin(struct source *s)
{
	static const uint8_t gz[] = { 0x1f, 0x8b },
			     xz[MAGIC_BYTES] = { 0xfd, '7', 'z', 'X', 'Z', 0 };

	while (s->filled < MAGIC_BYTES && !s->is_end) {
		ssize_t got = file_read(s, s->packed + s->filled, PACKED_BYTES - s->filled);

		if (got < 0)
			return -1;
		s->filled += (size_t)got;
	}
	if (s->filled >= sizeof(gz) && !memcmp(s->packed, gz, sizeof(gz))) {
		if (inflateInit2(&s->gz, MAX_WBITS + 16) != Z_OK) /* + 16: with a header of gz */
			return source_fail(s, "no memory to unpack gz", NULL);
		s->form = GZ;
	} else if (s->filled >= sizeof(xz) && !memcmp(s->packed, xz, sizeof(xz))) {
		if (lzma_stream_decoder(&s->xz, XZ_MEMORY_MAX, LZMA_CONCATENATED) != LZMA_OK)
			return source_fail(s, "no memory to unpack xz", NULL);
		s->form = XZ;
	}
	return 0;
}

static struct source *source_make(const char *name, char error[FILES_ERROR_MAX])
{
	struct source *s = calloc(1, sizeof(*s));

	if (s) {
		s->fd = -1;
		s->name = strdup(name);
	}
	if (s && s->name)
		return s;
	free(s);
	files_fail(error, name, "out of memory");
	return NULL;
}

static int source_undo(struct source *s, char error[FILES_ERROR_MAX])
{
	memcpy(error, s->error, FILES_ERROR_MAX);
	source_close(s);
	return -1;
}

int source_open_read(struct source **source, const char *name, source_read_fn read, void *arg,
		     char error[FILES_ERROR_MAX])
{
	struct source *s = source_make(name, error);

	if (!s)
		return -1;
	s->read = read;
	s->arg = arg;
	if (source_begin(s))
		return source_undo(s, error);
	*source = s;
	return 0;
}

int source_open(struct source **source, const char *path, char error[FILES_ERROR_MAX])
{
	struct source *s = source_make(path, error);
	struct stat is;

	if (!s)
		return -1;
	s->read = fd_read;
	s->arg = &s->fd;
	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (s->fd < 0 || fstat(s->fd, &is)) {
		source_fail(s, strerror(errno), NULL);
		return source_undo(s, error);
	}
	s->size = S_ISREG(is.st_mode) ? (uint64_t)is.st_size : 0;
	if (source_begin(s))
		return source_undo(s, error);
	*source = s;
	return 0;
}

void source_close(struct source *s)
{
	if (!s)
		return;
	if (s->form == GZ)
		inflateEnd(&s->gz);
	if (s->form == XZ)
		lzma_end(&s->xz);
	if (s->fd >= 0)
		close(s->fd);
	free(s->name);
	free(s);
}

const char *source_error(const struct source *s)
{
	return s->error;
}

const char *source_name(const struct source *s)
{
	return s->name;
}

uint64_t source_position(const struct source *s)
{
	return s->position;
}

uint64_t source_size(const struct source *s)
{
	return s->size;
}
