/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - see folder.h. */
#include "util/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int folder_sync(const char *path)
{
	char folder[PATH_MAX], *slash;
	int fd, why = 0;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (fsync(fd) && errno != EINVAL) /* some file systems have nothing to sync */
		why = errno;
	close(fd);
	return why;
}
