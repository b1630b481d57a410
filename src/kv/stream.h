/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - one TCP connection of a parameter server, at either end, as messages (kv/message.h). Never blocks; for
 * poll:
 *
 *     wait for kv_stream_events on stream->fd; then
 *     error = kv_stream_read(stream);
 *     while ((got = kv_stream_next(stream, codec, &message)) > 0)
 *             ...
 *     kv_stream_flush(stream);
 *
 * Writing never raises SIGPIPE. Messages that came before the end of the connection are still given.
 */
#ifndef KV_STREAM_H
#define KV_STREAM_H

#include "kv/message.h"
#include "util/buffer.h"

enum { KV_STREAM_OUT_MAX = 64 << 20 }; /* a peer that reads nothing for so long is given up */

struct kv_stream {
	int fd;
	uint32_t bytes_max;    /* of a message that comes: R-KV-1, or less if the caller says so */
	struct buffer in, out; /* in: one frame of the longest at most, and what came with it */
	uint64_t received, sent; /* bytes, since it was opened */
	int error;               /* kv_stream_read's, for the next call; 0: none */
};

/* Takes over a non-blocking socket, maybe one that is still connecting. */
void kv_stream_open(struct kv_stream *stream, int fd);
void kv_stream_close(struct kv_stream *stream); /* twice is fine */

/* What to poll for. */
short kv_stream_events(const struct kv_stream *stream);
/* Reads what there is, at most 64 KiB, or a message that is longer; poll says whether there is more. 0; -ECONNRESET: the
 * peer has closed; another negative errno: the connection is lost. */
int kv_stream_read(struct kv_stream *stream);
/* 1: a message, whose arrays are the codec's; 0: none; -EINVAL: what came is none, codec->fault says why. */
int kv_stream_next(struct kv_stream *stream, struct kv_codec *codec, struct kv_message *message);
/* How many bytes of `in` the next whole frame has, which stands until buffer_take; 0: there is none; SIZE_MAX:
 * nonsense, or longer than it may be. */
size_t kv_stream_frame(const struct kv_stream *stream);
/* Appends the frame of a sound message. 0, or -ENOMEM: the buffer is as it was. */
int kv_append(struct buffer *buffer, const struct kv_message *message);
/* Says a sound message, or the frame of one. 0, -ENOMEM, -ENOBUFS: the peer does not read. */
int kv_stream_say(struct kv_stream *stream, const struct kv_message *message);
int kv_stream_put(struct kv_stream *stream, const uint8_t *frame, size_t bytes);
/* Sends what goes. 0, or a negative errno: the connection is lost. */
int kv_stream_flush(struct kv_stream *stream);

#endif
