/* SPDX-License-Identifier: Apache-2.0 */
/* numbers_set.c - see numbers_set.h. */
#include "bench/numbers_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/shared/hash.h"

enum { SPIKE_EVERY = 16384, PATH_BYTES = 4096 };

static const char first_end[] = "_w0.f32";

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "numbers: %s: %s\n", what, why);
	exit(2);
}

void *memory_get(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory)
		die("memory", strerror(errno));
	return memory;
}

static float made_up(int rank, size_t i)
{
	uint64_t some = hash_number(hash_number(HASH_BEGIN, (uint64_t)rank, 4), i, 8);
	double small = ((double)(some >> 11) * 0x1p-53 - 0.5) * 1e-3;

	return (float)(i % SPIKE_EVERY == 7 ? 100 * (1 + small) : small);
}

static void tensor_add(struct set *set, const char *name, size_t count)
{
	struct tensor *tensor = &set->tensor[set->tensors];

	if (set->tensors == TENSORS_MAX)
		die(set->name, "too many tensors");
	tensor->first = set->tensors ? tensor[-1].first + tensor[-1].count : 0;
	tensor->count = count;
	snprintf(tensor->name, sizeof(tensor->name), "%s", name);
	set->tensors++;
}

void set_make_up(struct set *set, int ranks, size_t count)
{
	*set = (struct set){ .name = "made-up", .ranks = ranks, .count = count };
	for (int rank = 0; rank < ranks; rank++) {
		set->own[rank] = memory_get(count, sizeof(float));
		for (size_t i = 0; i < count; i++)
			set->own[rank][i] = made_up(rank, i);
	}
	tensor_add(set, "all", count);
}

static int is_first(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name), end = sizeof(first_end) - 1;

	return length > end && !strcmp(entry->d_name + length - end, first_end);
}

char **set_names(const char *folder, size_t *count)
{
	struct dirent **entries;
	int found = scandir(folder, &entries, is_first, alphasort);
	char **names;

	if (found < 0)
		die(folder, strerror(errno));
	if (!found)
		die(folder, "no NAME_w0.f32 is there");
	names = memory_get((size_t)found, sizeof(*names));
	for (int i = 0; i < found; i++) {
		names[i] = strndup(entries[i]->d_name,
				   strlen(entries[i]->d_name) - (sizeof(first_end) - 1));
		if (!names[i])
			die("memory", strerror(errno));
		free(entries[i]);
	}
	free(entries);
	*count = (size_t)found;
	return names;
}

static void own_read(struct set *set, int rank, const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat is;
	size_t count;

	if (!file)
		die(path, strerror(errno));
	if (fstat(fileno(file), &is) || !S_ISREG(is.st_mode) || is.st_size % 4)
		die(path, "not a file of float32");
	count = (size_t)is.st_size / sizeof(float);
	if (rank && count != set->count)
		die(path, "it has not as many numbers as the first rank's");
	set->count = count;
	set->own[rank] = memory_get(count, sizeof(float));
	if (fread(set->own[rank], sizeof(float), count, file) != count)
		die(path, "cannot be read");
	fclose(file);
}

static void tensors_read(struct set *set, const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512], name[NAME_MAX_BYTES];
	unsigned long long count;
	size_t all = 0;

	if (!file) {
		tensor_add(set, "all", set->count);
		return;
	}
	for (bool is_title = true; fgets(line, sizeof(line), file); is_title = false) {
		if (is_title)
			continue;
		if (sscanf(line, "%*[^,],%63[^,],%*[^,],%llu", name, &count) != 2 ||
		    count > set->count - all)
			die(path,
			    "index,name,shape,elements are wanted, of no more than the file has");
		tensor_add(set, name, (size_t)count);
		all += (size_t)count;
	}
	fclose(file);
	if (all != set->count)
		die(path, "its tensors are not all of the vector");
}

void set_read(struct set *set, int ranks, const char *folder, const char *name)
{
	char path[PATH_BYTES], model[NAME_MAX_BYTES], *step = NULL;

	*set = (struct set){ .ranks = ranks };
	snprintf(set->name, sizeof(set->name), "%s", name);
	for (int rank = 0; rank < ranks; rank++) {
		snprintf(path, sizeof(path), "%s/%s_w%d.f32", folder, name, rank);
		own_read(set, rank, path);
	}
	snprintf(model, sizeof(model), "%s", name);
	for (char *at = strstr(model, "_s"); at; at = strstr(at + 1, "_s"))
		step = at;
	if (step)
		*step = 0;
	snprintf(path, sizeof(path), "%s/%s_tensors.csv", folder, model);
	tensors_read(set, path);
}

void set_free(struct set *set)
{
	for (int rank = 0; rank < set->ranks; rank++)
		free(set->own[rank]);
}
