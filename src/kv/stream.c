/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - see stream.h. */
#include "kv/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_ROOM = 64 << 10 };

int kv_append(struct buffer *buffer, const struct kv_message *message)
{
	int error = buffer_reserve(buffer, kv_bytes(message));

	if (!error)
		buffer->end += kv_put(message, buffer->bytes + buffer->end);
	return error;
}

void kv_stream_open(struct kv_stream *stream, int fd)
{
	int on = 1;

	*stream = (struct kv_stream){ .fd = fd, .bytes_max = KV_BYTES_MAX };
	/* A message that somebody waits for leaves at once; of no harm to a unix socket. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void kv_stream_close(struct kv_stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	buffer_fini(&stream->in);
	buffer_fini(&stream->out);
	*stream = (struct kv_stream){ .fd = -1 };
}

short kv_stream_events(const struct kv_stream *stream)
{
	return (short)(POLLIN | (buffer_bytes(&stream->out) ? POLLOUT : 0));
}

/* How many bytes have come; 0: none; or a negative errno. */
static int read_some(struct kv_stream *stream)
{
	struct buffer *in = &stream->in;
	size_t most = KV_FRAME_BYTES + (size_t)stream->bytes_max;
	int error = buffer_widen(in, most);
	ssize_t got;

	/* A frame that fills all that there may be is whole, and is taken before more is read: a recv of nothing would look
	 * like the end. */
	if (error || in->end >= most)
		return error;
	got = recv(stream->fd, in->bytes + in->end, in->room - in->end, MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	in->end += (size_t)got;
	stream->received += (size_t)got;
	return got ? (int)got : -ECONNRESET;
}

size_t kv_stream_frame(const struct kv_stream *stream)
{
	const uint8_t *at = buffer_first(&stream->in);
	size_t has = buffer_bytes(&stream->in);

	if (has < KV_FRAME_BYTES)
		return 0;
	return sparse_body_get32(at) > stream->bytes_max ? SIZE_MAX : kv_frame_bytes(at, has);
}

/* Whoever serves many reads a frame, or as much as this, and then the others: a fast peer keeps no larger buffer. */
static bool wants_more(const struct kv_stream *stream)
{
	return stream->in.end == stream->in.room &&
	       (stream->in.room < READ_ROOM || !kv_stream_frame(stream));
}

int kv_stream_read(struct kv_stream *stream)
{
	int got = stream->error ? stream->error : read_some(stream), error = got < 0 ? got : 0;

	stream->error = 0;
	while (got > 0 && wants_more(stream))
		got = read_some(stream);
	if (got < 0 && !error && got != -ENOMEM)
		stream->error = got; /* the kernel tells it once: it is told after what has come */
	return error;
}

int kv_stream_next(struct kv_stream *stream, struct kv_codec *codec, struct kv_message *message)
{
	size_t bytes = kv_stream_frame(stream);
	int error;

	if (!bytes)
		return 0;
	if (bytes == SIZE_MAX) {
		strcpy(codec->fault, "message: length is out of range");
		return -EINVAL;
	}
	error = kv_decode(codec, buffer_first(&stream->in), bytes, message);
	buffer_take(&stream->in, bytes);
	return error ? -EINVAL : 1;
}

static bool has_room(const struct kv_stream *stream, size_t bytes)
{
	return buffer_bytes(&stream->out) + bytes <= KV_STREAM_OUT_MAX;
}

int kv_stream_say(struct kv_stream *stream, const struct kv_message *message)
{
	return has_room(stream, kv_bytes(message)) ? kv_append(&stream->out, message) : -ENOBUFS;
}

int kv_stream_put(struct kv_stream *stream, const uint8_t *frame, size_t bytes)
{
	return has_room(stream, bytes) ? buffer_put(&stream->out, frame, bytes) : -ENOBUFS;
}

int kv_stream_flush(struct kv_stream *stream)
{
	struct buffer *out = &stream->out;

	while (buffer_bytes(out)) {
		ssize_t sent = send(stream->fd, buffer_first(out), buffer_bytes(out),
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0)
			return errno == EAGAIN || errno == EINTR || errno == ENOTCONN ? 0 : -errno;
		stream->sent += (size_t)sent;
		buffer_take(out, (size_t)sent);
	}
	return 0;
}
