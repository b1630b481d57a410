/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_fuzz.c - any bytes as the JSON of a control message. What is refused is refused with a text; what
 * is taken can be said again, and then says the same, to the byte.
 */
#include <errno.h>

#include "control/codec.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct codec first, second;
	static struct control_message message, again;
	uint8_t *frame, *copy;
	size_t frame_bytes, copy_bytes;
	int error = codec_decode(&first, data, bytes, &message);

	if (error) {
		FUZZ_CHECK(error == -EINVAL);
		FUZZ_CHECK(first.error[0]);
		FUZZ_CHECK(strnlen(first.error, CODEC_ERROR_BYTES) < CODEC_ERROR_BYTES);
		return 0;
	}
	FUZZ_CHECK(message.type > CONTROL_NOTHING && message.type < CONTROL_TYPE_END);
	FUZZ_CHECK(!codec_encode(&first, &message, &frame, &frame_bytes));
	FUZZ_CHECK(frame_bytes > CODEC_LENGTH_BYTES);
	FUZZ_CHECK(wire_get32(frame) == frame_bytes - CODEC_LENGTH_BYTES);
	FUZZ_CHECK(!codec_decode(&second, frame + CODEC_LENGTH_BYTES,
				 frame_bytes - CODEC_LENGTH_BYTES, &again));
	FUZZ_CHECK(again.type == message.type);
	FUZZ_CHECK(!codec_encode(&second, &again, &copy, &copy_bytes));
	FUZZ_CHECK(copy_bytes == frame_bytes);
	FUZZ_CHECK(!memcmp(copy, frame, frame_bytes));
	free(copy);
	free(frame);
	return 0;
}
