/* SPDX-License-Identifier: Apache-2.0 */
#include "files/hot_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { KEYS = 300, BYTES = HOT_MAP_HEADER_BYTES + KEYS * 8 };

static char folder[] = "/tmp/tally-hot-map-XXXXXX";
static char path[64], error[FILES_ERROR_MAX];
static uint64_t key[KEYS];

static int folder_make(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/map", folder);
	for (uint64_t i = 0; i < KEYS; i++)
		key[i] = i * i * 0x9e3779b97f4a7c15 + (i % 3 ? i << 50 : 0);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static struct hot_map map_of(uint32_t version)
{
	return (struct hot_map){
		.table = 7,
		.version = version,
		.keys = KEYS,
		.hot_updates = 1234567890123,
		.updates = 9876543210987,
		.key = key,
	};
}

static void map_written(uint32_t version, uint8_t file[BYTES])
{
	struct hot_map map = map_of(version);
	FILE *from;

	if (hot_map_write(path, &map, error))
		fail_msg("%s", error);
	from = fopen(path, "r");
	assert_non_null(from);
	assert_int_equal(fread(file, 1, BYTES, from), BYTES);
	assert_int_equal(fgetc(from), EOF);
	fclose(from);
}

static void crc_mend(uint8_t *file, size_t bytes)
{
	uint32_t crc = (uint32_t)crc32(0, file + 16, (uInt)(bytes - 16));

	for (int i = 0; i < 4; i++)
		file[12 + i] = (uint8_t)(crc >> 8 * i);
}

static void expect_refused(const uint8_t *file, size_t bytes, const char *why)
{
	struct hot_map map;

	assert_int_equal(hot_map_parse("M", file, bytes, &map, error), -1);
	if (strncmp(error, "M: ", 3) != 0 || !strstr(error, why))
		fail_msg("\"%s\" is not \"M: ... %s\"", error, why);
}

static void map__is_read_as_it_was_written(void **state)
{
	struct hot_map map;
	uint8_t file[BYTES];

	(void)state;
	map_written(3, file);
	if (hot_map_read(path, &map, error))
		fail_msg("%s", error);
	assert_int_equal(map.table, 7);
	assert_int_equal(map.version, 3);
	assert_int_equal(map.keys, KEYS);
	assert_int_equal(map.hot_updates, 1234567890123);
	assert_int_equal(map.updates, 9876543210987);
	assert_memory_equal(map.key, key, sizeof(key));
	for (uint32_t rank = 0; rank < KEYS; rank++)
		assert_int_equal(hot_map_rank(&map, key[rank]), rank);
	for (uint64_t i = 1; i < 1000; i++)
		assert_int_equal(hot_map_rank(&map, key[1] + i), HOT_MAP_COLD);
	hot_map_fini(&map);
	assert_memory_equal(&map, &(struct hot_map){ 0 }, sizeof(map));
}

/* The bytes themselves: another program has to read them. */
static void map__lies_in_the_file_as_it_is_documented(void **state)
{
	uint64_t two[] = { 0x0102030405060708, 9 };
	const struct hot_map map = {
		.table = 0x0a0b, .version = 5, .keys = 2, .hot_updates = 6, .updates = 7, .key = two
	};
	static const uint8_t want[] = {
		't',  'a',  'l', 'l', 'y', 'h', 'o', 't', 1, 0, 0, 0, 0, 0, 0, 0,
		0x0b, 0x0a, 0,   0,   5,   0,   0,   0,   2, 0, 0, 0, 0, 0, 0, 0,
		6,    0,    0,   0,   0,   0,   0,   0,   7, 0, 0, 0, 0, 0, 0, 0,
		8,    7,    6,   5,   4,   3,   2,   1,   9, 0, 0, 0, 0, 0, 0, 0,
	};
	uint8_t file[sizeof(want) + 1], wanted[sizeof(want)];
	FILE *from;

	(void)state;
	memcpy(wanted, want, sizeof(want));
	crc_mend(wanted, sizeof(wanted));
	assert_int_equal(hot_map_write(path, &map, error), 0);
	from = fopen(path, "r");
	assert_non_null(from);
	assert_int_equal(fread(file, 1, sizeof(file), from), sizeof(want));
	fclose(from);
	assert_memory_equal(file, wanted, sizeof(wanted));
}

static void damage__of_any_bit_is_noticed(void **state)
{
	struct hot_map map;
	uint8_t file[BYTES];

	(void)state;
	map_written(3, file);
	for (size_t bit = 0; bit < 8 * sizeof(file); bit++) {
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!hot_map_parse("M", file, sizeof(file), &map, error))
			fail_msg("bit %zu", bit);
		assert_true(!strncmp(error, "M: ", 3));
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(hot_map_parse("M", file, sizeof(file), &map, error), 0);
	hot_map_fini(&map);
	file[BYTES - 1] ^= 1;
	expect_refused(file, sizeof(file), "damaged: its checksum does not fit");
}

static void file__that_is_too_short_or_too_long_is_refused(void **state)
{
	uint8_t file[BYTES], longer[BYTES + 1] = { 0 };

	(void)state;
	map_written(3, file);
	for (size_t bytes = 0; bytes < BYTES; bytes++)
		expect_refused(file, bytes, bytes < 8 ? "no map of tally hot" : "truncated");
	memcpy(longer, file, BYTES);
	expect_refused(longer, BYTES + 1, "something is behind its end");
}

static void file__of_something_else_is_refused(void **state)
{
	struct hot_map map;
	uint8_t file[BYTES];
	char sentence[128];

	(void)state;
	map_written(3, file);
	file[8] = 2;
	expect_refused(file, sizeof(file), "a map of format 2; this program has format 1");
	file[8] = 1;
	file[7]++;
	expect_refused(file, sizeof(file), "no map of tally hot");
	assert_int_equal(hot_map_read(folder, &map, error), -1);
	snprintf(sentence, sizeof(sentence), "%s: not a regular file", folder);
	assert_string_equal(error, sentence);
	assert_int_equal(hot_map_read("/nowhere/at-all", &map, error), -1);
	assert_string_equal(error, "/nowhere/at-all: No such file or directory");
}

static void key__that_is_there_twice_is_refused(void **state)
{
	uint8_t file[BYTES];

	(void)state;
	map_written(3, file);
	memcpy(file + HOT_MAP_HEADER_BYTES + 8 * 200, file + HOT_MAP_HEADER_BYTES + 8 * 5, 8);
	crc_mend(file, sizeof(file));
	expect_refused(file, sizeof(file), "has the ranks 5 and 200");
}

static void numbers__that_cannot_be_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
	} edits[] = { { 18, 1 }, { 20, 0 }, { 39, 0xff } };
	uint8_t file[BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
		map_written(3, file);
		file[edits[i].at] = edits[i].byte;
		crc_mend(file, sizeof(file));
		expect_refused(file, sizeof(file), "damaged: its numbers do not fit each other");
	}
	map_written(3, file);
	memset(file + 24, 0, 8); /* no keys */
	crc_mend(file, HOT_MAP_HEADER_BYTES);
	expect_refused(file, HOT_MAP_HEADER_BYTES, "damaged: its numbers do not fit each other");
	memset(file + 24, 0xff, 8);
	crc_mend(file, sizeof(file));
	expect_refused(file, sizeof(file), "truncated");
}

static void map__of_another_table_or_version_is_named(void **state)
{
	struct hot_map map = map_of(3);

	(void)state;
	assert_int_equal(hot_map_expect(&map, "M", 7, 3, error), 0);
	assert_int_equal(hot_map_expect(&map, "M", 7, 0, error), 0);
	assert_int_equal(hot_map_expect(&map, "M", 8, 3, error), -1);
	assert_string_equal(error, "M: the map of table 7, not of table 8");
	assert_int_equal(hot_map_expect(&map, "M", 7, 4, error), -1);
	assert_string_equal(error, "M: version 3 of the map, not 4");
}

static void file__that_cannot_be_written_leaves_the_old_one(void **state)
{
	struct hot_map map = map_of(4);
	uint8_t file[BYTES];
	char partial[80];

	(void)state;
	map_written(3, file);
	snprintf(partial, sizeof(partial), "%s.partial", path);
	assert_int_equal(mkdir(partial, 0700), 0);
	assert_int_equal(hot_map_write(path, &map, error), -1);
	assert_non_null(strstr(error, "map.partial: Is a directory"));
	assert_int_equal(rmdir(partial), 0);
	assert_int_equal(hot_map_read(path, &map, error), 0);
	assert_int_equal(map.version, 3);
	hot_map_fini(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map__is_read_as_it_was_written),
		cmocka_unit_test(map__lies_in_the_file_as_it_is_documented),
		cmocka_unit_test(damage__of_any_bit_is_noticed),
		cmocka_unit_test(file__that_is_too_short_or_too_long_is_refused),
		cmocka_unit_test(file__of_something_else_is_refused),
		cmocka_unit_test(key__that_is_there_twice_is_refused),
		cmocka_unit_test(numbers__that_cannot_be_are_refused),
		cmocka_unit_test(map__of_another_table_or_version_is_named),
		cmocka_unit_test(file__that_cannot_be_written_leaves_the_old_one),
	};

	return cmocka_run_group_tests_name("files-hot_map", tests, folder_make, folder_remove);
}
