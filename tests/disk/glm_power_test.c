/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glm_power_test.c - tally glm on a disk that forgets what was not synced, in a folder that was made a moment before: when
 * it has said that it is done, a power cut takes neither model nor checkpoint.
 *
 * Usage: glm_power_test TALLY LIBRARY
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "glm/checkpoint.h"
#include "tests/disk/disk.h"

enum { COMMAND_BYTES = 2000 };

static char top[] = "/tmp/tally-glm-power-XXXXXX";

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "glm_power: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The folder is made by who is minded, as the files are. */
static void train(const char *tally, const char *library, const char *beside, const char *root)
{
	char command[COMMAND_BYTES];

	snprintf(command, sizeof(command),
		 "printf '1 1:1 2:1\\n-1 1:1\\n1 2:1\\n-1 3:1\\n' >%s/rows && export %s=%s "
		 "LD_PRELOAD=%s && mkdir %s/a && mkdir %s/a/b && "
		 "exec %s glm train %s/rows -m %s/a/b/model --checkpoint %s/a/b/checkpoint "
		 "--epochs 3 >/dev/null",
		 top, DISK_VARIABLE, beside, library, root, root, tally, top, root, root);
	if (system(command))
		fail("tally glm train");
}

int main(int argc, char **argv)
{
	char root[64], beside[64], path[96], error[GLM_ERROR_MAX];
	struct disk *disk;
	struct stat is;
	size_t bytes;
	void *state;

	if (argc != 3) {
		fputs("usage: glm_power_test TALLY LIBRARY\n", stderr);
		return 2;
	}
	if (!mkdtemp(top))
		fail(top);
	snprintf(root, sizeof(root), "%s/root", top);
	snprintf(beside, sizeof(beside), "%s/beside", top);
	if (mkdir(root, 0700))
		fail(root);
	disk = disk_begin(root, beside);
	train(argv[1], argv[2], beside, root);
	if (!disk->operations)
		fail("it was not minded");
	disk_crash(disk, 1, 0);
	snprintf(path, sizeof(path), "%s/a/b/model", root);
	if (stat(path, &is) || !is.st_size)
		fail(path);
	snprintf(path, sizeof(path), "%s/a/b/checkpoint", root);
	if (checkpoint_read(path, &state, &bytes, error))
		fail(error);
	free(state);
	disk_end(disk);
	snprintf(path, sizeof(path), "%s/rows", top);
	return unlink(path) || rmdir(top) ? 1 : 0;
}
