/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_fuzz.c - any bytes as a checkpoint's file. What is taken is exactly what checkpoint_write would
 * have written; what is not leaves a sentence. An input whose first byte is odd has a checksum that fits, so
 * that what lies behind that check is reached.
 */
#include <zlib.h>

#include "glm/checkpoint.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[GLM_ERROR_MAX] = "";
	const uint8_t *state = NULL;
	size_t state_bytes = 0;
	uint8_t *file = fuzz_file(data, &bytes, CHECKPOINT_HEADER_BYTES, crc32);

	if (!file)
		return 0;
	if (checkpoint_parse("F", file, bytes, &state, &state_bytes, error)) {
		FUZZ_CHECK(!strncmp(error, "F: ", 3));
		FUZZ_CHECK(strlen(error) > 3);
	} else {
		FUZZ_CHECK(state == file + CHECKPOINT_HEADER_BYTES);
		FUZZ_CHECK(state_bytes == bytes - CHECKPOINT_HEADER_BYTES);
		FUZZ_CHECK(!memcmp(file, "tallyglm\1\0\0", 12));
		FUZZ_CHECK((uint32_t)crc32(0, file + 16, (uInt)(bytes - 16)) ==
			   ((uint32_t)file[12] | (uint32_t)file[13] << 8 |
			    (uint32_t)file[14] << 16 | (uint32_t)file[15] << 24));
	}
	free(file);
	return 0;
}
