/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - see buffer.h. */
#include "util/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 4 << 10 };

static void to_front(struct buffer *buffer)
{
	buffer->end -= buffer->at;
	if (buffer->at && buffer->end)
		memmove(buffer->bytes, buffer->bytes + buffer->at, buffer->end);
	buffer->at = 0;
}

static int grow(struct buffer *buffer, size_t room)
{
	uint8_t *wider = realloc(buffer->bytes, room);

	if (!wider)
		return -ENOMEM;
	buffer->bytes = wider;
	buffer->room = room;
	return 0;
}

int buffer_reserve(struct buffer *buffer, size_t more)
{
	size_t room = buffer->room ? buffer->room : ROOM_FIRST;

	/* What was taken makes room, if that is worth the move. */
	if (buffer->room - buffer->end < more && buffer->at >= buffer->room / 4)
		to_front(buffer);
	if (buffer->room - buffer->end >= more)
		return 0;
	while (room < buffer->end + more)
		room *= 2;
	return grow(buffer, room);
}

int buffer_widen(struct buffer *buffer, size_t most)
{
	size_t room = buffer->room ? 2 * buffer->room : ROOM_FIRST;

	to_front(buffer);
	if (buffer->end < buffer->room || buffer->end >= most)
		return 0;
	return grow(buffer, room < most ? room : most);
}

int buffer_put(struct buffer *buffer, const uint8_t *at, size_t bytes)
{
	int error = buffer_reserve(buffer, bytes);

	if (error || !bytes)
		return error;
	memcpy(buffer->bytes + buffer->end, at, bytes);
	buffer->end += bytes;
	return 0;
}

void buffer_take(struct buffer *buffer, size_t bytes)
{
	buffer->at += bytes;
	if (buffer->at == buffer->end)
		buffer->at = buffer->end = 0;
}

void buffer_fini(struct buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct buffer){ 0 };
}
