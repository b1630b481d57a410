/* SPDX-License-Identifier: Apache-2.0 */
/* hot_files.c - the files of tally hot: those of keys, and the map. */
#include <stdio.h>
#include <stdlib.h>

#include "files/hot_map.h"
#include "tools/hot.h"

int hot_fail(const char *what)
{
	fprintf(stderr, "tally hot: %s\n", what);
	return -1;
}

int hot_file(const struct hot_request *request, const char *path, hot_rows *rows, void *arg)
{
	const struct keys_options *options = &request->keys;
	char error[FILES_ERROR_MAX], sentence[FILES_ERROR_MAX];
	enum keys_format format;
	struct keys *keys;
	int result;

	if (keys_open(&keys, path, options, error))
		return hot_fail(error);
	format = keys_format(keys);
	if ((options->column_first && format != KEYS_LIST && format != KEYS_WORDS) ||
	    (options->bits &&
	     (format == KEYS_LIST || format == KEYS_LIBSVM || format == KEYS_U64))) {
		snprintf(sentence, sizeof(sentence), "%.300s: is %s, which has no %s", path,
			 keys_format_names[format], options->bits ? "--bits" : "--columns");
		result = hot_fail(sentence);
	} else {
		result = rows(arg, keys);
	}
	keys_close(keys);
	return result;
}

uint32_t hot_version_choose(const struct hot_request *request)
{
	char error[FILES_ERROR_MAX];
	struct hot_map map;
	uint32_t version;
	FILE *file = fopen(request->output, "re");

	if (!file)
		return request->version ? (uint32_t)request->version : 1;
	fclose(file);
	if (hot_map_read(request->output, &map, error) ||
	    hot_map_expect(&map, request->output, (uint32_t)request->table, 0, error)) {
		fprintf(stderr, "tally hot: -o %s; it is left as it is\n", error);
		return 0;
	}
	version = map.version;
	hot_map_fini(&map);
	if (request->version)
		return (uint32_t)request->version;
	if (version == UINT32_MAX)
		fprintf(stderr, "tally hot: -o %s: the last version there is\n", request->output);
	return version + 1;
}

int hot_map_put(const struct hot_request *request, uint32_t version, const struct heat *heat,
		uint64_t keys, uint64_t updates)
{
	char error[FILES_ERROR_MAX];
	struct hot_map map = {
		.table = (uint32_t)request->table,
		.version = version,
		.keys = (uint32_t)keys,
		.updates = updates,
	};
	int result;

	if (!keys)
		return hot_fail("no key is hot: no map is written");
	if (keys > HOT_MAP_KEYS_MAX)
		return hot_fail("more than 67108864 keys: no map has so many");
	map.key = malloc(map.keys * sizeof(*map.key));
	if (!map.key)
		return hot_fail("out of memory");
	for (uint32_t rank = 0; rank < map.keys; rank++) {
		map.key[rank] = heat[rank].key;
		map.hot_updates += heat[rank].count;
	}
	/* A sketch that is too small counts more than there is. */
	if (map.hot_updates > map.updates)
		map.hot_updates = map.updates;
	result = hot_map_write(request->output, &map, error);
	free(map.key);
	return result ? hot_fail(error) : 0;
}
