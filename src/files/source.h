/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h - the bytes of a file, unpacked: plain, gz (one member or several) or xz (one stream or several),
 * told by its first bytes, not by its name. A file that ends too early or whose checksum is wrong is an error,
 * never an end. Memory is bounded: 256 MiB for an xz of the largest dictionary, some 100 KiB for all else.
 */
#ifndef FILES_SOURCE_H
#define FILES_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files/error.h"

struct source;

/* As read(2): bytes, 0 at the end, -1 with errno. */
typedef ssize_t (*source_read_fn)(void *arg, void *to, size_t bytes);

/* source_open opens a file, a pipe or a device. 0 and *source, which is the caller's until source_close, or -1
 * and the error's sentence, which begins with the path. */
int source_open(struct source **source, const char *path, char error[FILES_ERROR_MAX]);
/* The same over bytes that come from somewhere else; `name` is for errors. */
int source_open_read(struct source **source, const char *name, source_read_fn read, void *arg,
		     char error[FILES_ERROR_MAX]);
void source_close(struct source *source); /* NULL is fine */

/* source_read gives up to `bytes` unpacked bytes (at least 1 of them wanted), 0 at the end, -1 for an error,
 * and then again whenever it is called. */
ssize_t source_read(struct source *source, void *to, size_t bytes);
const char *source_error(const struct source *source);
const char *source_name(const struct source *source);

/* How far in the file, and its size, both before unpacking, for who shows progress. Size 0: not known. */
uint64_t source_position(const struct source *source);
uint64_t source_size(const struct source *source);

#endif
