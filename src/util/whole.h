/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - a whole file in memory. */
#ifndef UTIL_WHOLE_H
#define UTIL_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/* The file, of at most `most` bytes, in memory of its own size (one byte if it is empty), which the caller frees. NULL:
 * errno says why; ENOTSUP is no regular file, EFBIG a longer one, EIO one that became shorter meanwhile. A FIFO that
 * nobody writes to is refused, not waited for. */
uint8_t *whole_read(const char *path, uint64_t most, size_t *bytes);

/* strerror, but for ENOTSUP. */
const char *whole_why(int error);

#endif
