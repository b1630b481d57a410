/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - main of a fuzz target in builds without a fuzzer: every file of the folders named, in any
 * order, goes through the target once. What a fuzzer has ever found stays found.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/input.h"

enum { INPUT_BYTES_MAX = 1 << 20, PATH_BYTES = 4096 };

static unsigned replayed;

static bool replay(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_BYTES_MAX), *exact;
	size_t bytes;

	if (!file || !data) {
		perror(path);
		return false;
	}
	bytes = fread(data, 1, INPUT_BYTES_MAX, file);
	fclose(file);
	exact = malloc(bytes ? bytes : 1); /* so that a sanitizer sees a byte too far */
	if (!exact)
		return false;
	memcpy(exact, data, bytes);
	LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
	free(data);
	replayed++;
	return true;
}

static bool replay_folder(const char *folder)
{
	char path[PATH_BYTES];
	struct dirent *entry;
	struct stat is;
	bool is_good = true;
	DIR *dir = opendir(folder);

	if (!dir) {
		perror(folder);
		return false;
	}
	while (is_good && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (entry->d_name[0] != '.' && !stat(path, &is) && S_ISREG(is.st_mode))
			is_good = replay(path);
	}
	closedir(dir);
	return is_good;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!replay_folder(argv[i]))
			return 1;
	}
	printf("%u inputs\n", replayed);
	return replayed ? 0 : 1; /* an empty corpus would prove nothing */
}
