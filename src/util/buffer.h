/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - bytes that have come and are not taken, or that are to leave: appended behind, taken in front. */
#ifndef UTIL_BUFFER_H
#define UTIL_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* at .. end; all zero: none. */
struct buffer {
	uint8_t *bytes; /* malloc */
	size_t at, end, room;
};

static inline size_t buffer_bytes(const struct buffer *buffer)
{
	return buffer->end - buffer->at;
}

static inline uint8_t *buffer_first(const struct buffer *buffer)
{
	return buffer->at ? buffer->bytes + buffer->at : buffer->bytes; /* C knows no NULL + 0 */
}

/* Room for `more` bytes behind the end, which the caller may fill. 0, or -ENOMEM: all is as it was. */
int buffer_reserve(struct buffer *buffer, size_t more);
/* Some room to read into, and twice as much each time that all of it was filled: four bytes of a stranger are not worth
 * a megabyte. None once there are `most` bytes. 0, or -ENOMEM. */
int buffer_widen(struct buffer *buffer, size_t most);
/* 0, or -ENOMEM: all is as it was. */
int buffer_put(struct buffer *buffer, const uint8_t *at, size_t bytes);
/* So many of the first bytes are done with. They stand until more room is asked for. */
void buffer_take(struct buffer *buffer, size_t bytes);
void buffer_fini(struct buffer *buffer);

#endif
