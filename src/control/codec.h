/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - control messages as bytes: a 4-byte big-endian length, then one JSON object of so many bytes.
 * Unknown keys are ignored; what is missing, of a wrong type or out of range is refused with a text that
 * names the key. docs/protocol.md, R-CT-2.
 */
#ifndef CONTROL_CODEC_H
#define CONTROL_CODEC_H

#include "core/job/control.h"

enum {
	CODEC_LENGTH_BYTES = 4,
	CODEC_JSON_BYTES_MAX = 1 << 20,
	CODEC_ERROR_BYTES = 160,
};

/* What a message is decoded into; one per thread is enough. */
struct codec {
	struct control_op ops[CONTROL_OPS_MAX];               /* of the last OPINFO */
	struct control_member members[CONTROL_MEMBERS_MAX];   /* of the last START */
	uint8_t nonces[CONTROL_NONCES_MAX][WIRE_NONCE_BYTES]; /* of the last TABLE_GRANT */
	char error[CODEC_ERROR_BYTES];                        /* of the last failure */
};

/* codec_encode makes a frame, length included. *frame is malloc'd and the caller's. 0, -ENOMEM, or -EINVAL:
 * the message has values that decode would refuse, codec->error says which. */
int codec_encode(struct codec *codec, const struct control_message *message, uint8_t **frame,
		 size_t *bytes);

/* codec_decode reads `bytes` bytes of JSON (without the length). *message may point into codec->ops, ->members
 * or ->nonces until the next decode. 0, -ENOMEM, or -EINVAL with codec->error. */
int codec_decode(struct codec *codec, const uint8_t *json, size_t bytes,
		 struct control_message *message);

#endif
