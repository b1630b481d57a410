/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot_map_fuzz.c - any bytes as a rank map's file. What is taken says the same as the bytes, each key has the one rank at
 * which it stands, and what is not taken leaves a sentence. An input whose first byte is odd has a checksum that
 * fits, so that what lies behind that check is reached.
 */
#include <zlib.h>

#include "files/hot_map.h"
#include "tests/fuzz/input.h"
#include "util/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[FILES_ERROR_MAX] = "";
	struct hot_map map;
	uint8_t *file = fuzz_file(data, &bytes, HOT_MAP_HEADER_BYTES, crc32);

	if (!file)
		return 0;
	if (hot_map_parse("F", file, bytes, &map, error)) {
		FUZZ_CHECK(!strncmp(error, "F: ", 3));
		FUZZ_CHECK(strlen(error) > 3);
	} else {
		FUZZ_CHECK(!memcmp(file, "tallyhot\1\0\0", 12));
		FUZZ_CHECK(bytes_get(file + 16, 4) == map.table);
		FUZZ_CHECK(bytes_get(file + 20, 4) == map.version && map.version);
		FUZZ_CHECK(bytes_get(file + 24, 8) == map.keys && map.keys);
		FUZZ_CHECK(bytes == HOT_MAP_HEADER_BYTES + 8ul * map.keys);
		FUZZ_CHECK(map.hot_updates <= map.updates);
		for (uint32_t rank = 0; rank < map.keys; rank++) {
			FUZZ_CHECK(bytes_get(file + HOT_MAP_HEADER_BYTES + 8ul * rank, 8) ==
				   map.key[rank]);
			FUZZ_CHECK(hot_map_rank(&map, map.key[rank]) == rank);
		}
		hot_map_fini(&map);
	}
	free(file);
	return 0;
}
