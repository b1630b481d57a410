/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hot_map.h - the rank map of a table: its hot keys, the hottest first; a key's place is its rank. Made by tally hot,
 * published by the table's server; the version goes into every packet of the table (R-SP-2). In a file:
 *
 *   0  8  "tallyhot"
 *   8  4  version of this format, 1; little endian, as all numbers here
 *  12  4  CRC-32 (IEEE 802.3) of all that follows
 *  16  4  table, at most 65535
 *  20  4  version of the map, from 1
 *  24  8  K, the number of keys, from 1
 *  32  8  updates of these keys where they were counted
 *  40  8  updates of all keys there
 *  48     K keys of 8 bytes, no two alike, and nothing behind them
 *
 * A file is replaced whole or not at all (files/aside.h).
 */
#ifndef FILES_HOT_MAP_H
#define FILES_HOT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "files/error.h"

enum {
	HOT_MAP_FORMAT = 1,
	HOT_MAP_HEADER_BYTES = 48,
	HOT_MAP_TABLE_MAX = UINT16_MAX,
	HOT_MAP_KEYS_MAX = 1 << 26,
};
#define HOT_MAP_COLD UINT32_MAX /* the rank of a key that is not in the map */

struct hot_map {
	uint32_t table, version;
	uint32_t keys;
	uint64_t hot_updates, updates;
	uint64_t *key;   /* [keys] */
	uint32_t *index; /* [mask + 1]: a rank + 1, by the hash of its key; 0: none */
	uint32_t mask;
};

/* 0, or -1 with a sentence: what was there is as it was. The index is not looked at; keys differ. */
int hot_map_write(const char *path, const struct hot_map *map, char error[FILES_ERROR_MAX]);

/* On success the map is the caller's until hot_map_fini. -1, with a sentence that names the file and what is wrong
 * with it: not there, no map, of another format, too short, too long, damaged, a key twice. Memory is the
 * file's size, and 8 to 16 bytes per key. */
int hot_map_read(const char *path, struct hot_map *map, char error[FILES_ERROR_MAX]);
/* The bytes of a file; `name` is for the sentence. */
int hot_map_parse(const char *name, const uint8_t *file, size_t bytes, struct hot_map *map,
		  char error[FILES_ERROR_MAX]);
void hot_map_fini(struct hot_map *map); /* zeros are fine */

/* That it is this table's, and of this version (0: of any). -1 with a sentence. */
int hot_map_expect(const struct hot_map *map, const char *name, uint32_t table, uint32_t version,
		   char error[FILES_ERROR_MAX]);

/* Of a map that was read: the key's rank, or HOT_MAP_COLD. */
uint32_t hot_map_rank(const struct hot_map *map, uint64_t key);

#endif
