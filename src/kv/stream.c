/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - see stream.h. */
#include "kv/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, READS_MAX = 16 }; /* of one call, so that others have their turn */

void kv_stream_open(struct kv_stream *stream, int fd)
{
	int on = 1;

	*stream = (struct kv_stream){ .fd = fd };
	/* A message that somebody waits for leaves at once; of no harm to a unix socket. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void kv_stream_close(struct kv_stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->in);
	free(stream->out);
	*stream = (struct kv_stream){ .fd = -1 };
}

short kv_stream_events(const struct kv_stream *stream)
{
	return (short)(POLLIN | (stream->out_end > stream->out_at ? POLLOUT : 0));
}

/* Room for `more` bytes behind *end; what was taken in front of *at makes room first. */
static int make_room(uint8_t **bytes, size_t *at, size_t *end, size_t *room, size_t more)
{
	size_t want;
	uint8_t *wider;

	if (*at == *end) {
		*at = *end = 0;
	} else if (*at && *room - *end < more) {
		memmove(*bytes, *bytes + *at, *end - *at);
		*end -= *at;
		*at = 0;
	}
	if (*room - *end >= more)
		return 0;
	want = 2 * *room > *end + more ? 2 * *room : *end + more;
	wider = realloc(*bytes, want);
	if (!wider)
		return -ENOMEM;
	*bytes = wider;
	*room = want;
	return 0;
}

int kv_stream_read(struct kv_stream *stream)
{
	for (unsigned i = 0; i < READS_MAX; i++) {
		ssize_t got;
		size_t room;
		int error = make_room(&stream->in, &stream->in_at, &stream->in_end,
				      &stream->in_room, READ_BYTES);

		if (error)
			return error;
		got = recv(stream->fd, stream->in + stream->in_end,
			   stream->in_room - stream->in_end, MSG_DONTWAIT);
		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (!got)
			return -ECONNRESET;
		room = stream->in_room - stream->in_end;
		stream->in_end += (size_t)got;
		stream->received += (size_t)got;
		if ((size_t)got < room)
			return 0; /* poll sees what has come since */
		/* A frame that is too long is not waited for: kv_stream_next refuses it. */
		if (stream->in_end - stream->in_at >= KV_FRAME_BYTES + (size_t)KV_BYTES_MAX)
			return 0;
	}
	return 0;
}

int kv_stream_next(struct kv_stream *stream, struct kv_codec *codec, struct kv_message *message)
{
	const uint8_t *at = stream->in ? stream->in + stream->in_at : NULL;
	size_t bytes = at ? kv_frame_bytes(at, stream->in_end - stream->in_at) : 0;

	if (!bytes)
		return 0;
	if (bytes == SIZE_MAX) {
		strcpy(codec->fault, "message: length is out of range");
		return -EINVAL;
	}
	stream->in_at += bytes;
	return kv_decode(codec, at, bytes, message) ? -EINVAL : 1;
}

static int out_room(struct kv_stream *stream, size_t bytes)
{
	if (stream->out_end - stream->out_at + bytes > KV_STREAM_OUT_MAX)
		return -ENOBUFS;
	return make_room(&stream->out, &stream->out_at, &stream->out_end, &stream->out_room, bytes);
}

int kv_stream_say(struct kv_stream *stream, const struct kv_message *message)
{
	int error = out_room(stream, kv_bytes(message));

	if (!error)
		stream->out_end += kv_put(message, stream->out + stream->out_end);
	return error;
}

int kv_stream_put(struct kv_stream *stream, const uint8_t *frame, size_t bytes)
{
	int error = out_room(stream, bytes);

	if (error)
		return error;
	memcpy(stream->out + stream->out_end, frame, bytes);
	stream->out_end += bytes;
	return 0;
}

int kv_stream_flush(struct kv_stream *stream)
{
	while (stream->out_at < stream->out_end) {
		ssize_t sent = send(stream->fd, stream->out + stream->out_at,
				    stream->out_end - stream->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -errno;
		stream->out_at += (size_t)sent;
		stream->sent += (size_t)sent;
	}
	return 0;
}
