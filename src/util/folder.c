/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - see folder.h. */
#include "util/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a file of this path is. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
	char *slash;

	snprintf(folder, PATH_MAX, "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	else
		strcpy(folder, ".");
}

static int sync_one(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd) && errno != EINVAL) /* some file systems have nothing to sync */
		why = errno;
	close(fd);
	return why;
}

int folder_sync(const char *path)
{
	char folder[PATH_MAX];

	folder_of(path, folder);
	return sync_one(folder);
}

int folder_sync_above(const char *path)
{
	char folder[PATH_MAX], whole[PATH_MAX];
	int why = 0;

	folder_of(path, folder);
	if (!realpath(folder, whole))
		return errno;
	while (whole[1] && (!why || why == EACCES || why == EPERM)) {
		folder_of(whole, folder);
		strcpy(whole, folder);
		why = sync_one(whole);
	}
	return why == EACCES || why == EPERM ? 0 : why;
}
