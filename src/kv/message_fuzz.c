/* SPDX-License-Identifier: Apache-2.0 */
/* message_fuzz.c - any bytes as frames of a parameter server's connection. What is refused is refused with a text; what
 * is taken says the same when it is put again, to the byte. */
#include <errno.h>

#include "kv/message.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct kv_codec codec;
	static struct kv_message message;
	size_t frame;

	while ((frame = kv_frame_bytes(data, bytes)) && frame != SIZE_MAX) {
		int error = kv_decode(&codec, data, frame, &message);

		FUZZ_CHECK(frame <= bytes);
		if (error) {
			FUZZ_CHECK(error == -EINVAL);
			FUZZ_CHECK(codec.fault[0] &&
				   strnlen(codec.fault, KV_FAULT_BYTES) < KV_FAULT_BYTES);
		} else {
			uint8_t *copy = malloc(kv_bytes(&message));

			FUZZ_CHECK(copy);
			FUZZ_CHECK(kv_put(&message, copy) == frame);
			FUZZ_CHECK(!memcmp(copy, data, frame));
			free(copy);
		}
		data += frame;
		bytes -= frame;
	}
	return 0;
}
