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

enum { KV_STREAM_OUT_MAX = 64 << 20 }; /* a peer that reads nothing for so long is given up */

struct kv_stream {
	int fd;
	uint8_t *in, *out;
	size_t in_at, in_end, in_room; /* what has come and is not taken: in_at .. in_end */
	size_t out_at, out_end, out_room;
	uint64_t received, sent; /* bytes, since it was opened */
};

/* Takes over a non-blocking socket, maybe one that is still connecting. */
void kv_stream_open(struct kv_stream *stream, int fd);
void kv_stream_close(struct kv_stream *stream); /* twice is fine */

/* What to poll for. */
short kv_stream_events(const struct kv_stream *stream);
/* Reads what there is; poll says whether there is more. 0; or -ECONNRESET: the peer has closed; or another negative errno: the connection is lost. */
int kv_stream_read(struct kv_stream *stream);
/* 1: a message, whose arrays are the codec's; 0: none; -EINVAL: what came is none, codec->fault says why. */
int kv_stream_next(struct kv_stream *stream, struct kv_codec *codec, struct kv_message *message);
/* Appends a sound message, or the frame of one. 0, -ENOMEM, -ENOBUFS: the peer does not read. */
int kv_stream_say(struct kv_stream *stream, const struct kv_message *message);
int kv_stream_put(struct kv_stream *stream, const uint8_t *frame, size_t bytes);
/* Sends what goes. 0, or a negative errno: the connection is lost. */
int kv_stream_flush(struct kv_stream *stream);

#endif
