/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - a whole file in memory, and one that has a number. */
#ifndef UTIL_WHOLE_H
#define UTIL_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/* The file, of at most `most` bytes, in memory of its own size (one byte if it is empty), which the caller frees. NULL:
 * errno says why; ENOTSUP is no regular file, EFBIG a longer one, EIO one that became shorter meanwhile. A FIFO that
 * nobody writes to is refused, not waited for. */
uint8_t *whole_read(const char *path, uint64_t most, size_t *bytes);

/* The number that a file of the kernel's begins with; `otherwise` if there is none. */
int64_t whole_number(const char *path, int64_t otherwise);

/* strerror, but for ENOTSUP. */
const char *whole_why(int error);

#endif
