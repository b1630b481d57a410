/* SPDX-License-Identifier: Apache-2.0 */
/* aside.c - see aside.h. */
#include "files/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/folder.h"

/* what: in place of errno's own words; NULL: these. */
static int failed(struct aside *aside, const char *path, int why, const char *what,
		  char error[FILES_ERROR_MAX])
{
	aside->why = why;
	return files_fail(error, path, "%s", what ? what : strerror(why));
}

/* What a rename would replace: the target of a link, not the link. */
static int path_resolve(struct aside *aside, const char *path, char error[FILES_ERROR_MAX])
{
	struct stat is;
	int bytes = 0;

	if (stat(path, &is)) {
		if (errno != ENOENT)
			return failed(aside, path, errno, NULL, error);
		bytes = snprintf(aside->path, sizeof(aside->path), "%s", path);
	} else if (!S_ISREG(is.st_mode)) {
		return failed(aside, path, ENOTSUP, "not a regular file: it cannot be replaced",
			      error);
	} else if (!realpath(path, aside->path)) {
		return failed(aside, path, errno, NULL, error);
	}
	if (bytes >= (int)sizeof(aside->path) ||
	    snprintf(aside->partial, sizeof(aside->partial), "%s.partial", aside->path) >=
		    (int)sizeof(aside->partial))
		return failed(aside, path, ENAMETOOLONG, NULL, error);
	return 0;
}

int aside_open(struct aside *aside, const char *path, char error[FILES_ERROR_MAX])
{
	int fd;

	aside->file = NULL;
	aside->why = 0;
	if (path_resolve(aside, path, error))
		return -1;
	fd = open(aside->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (fd < 0)
		return failed(aside, aside->partial, errno, NULL, error);
	aside->file = fdopen(fd, "w");
	if (aside->file)
		return 0;
	close(fd);
	unlink(aside->partial);
	return failed(aside, aside->partial, errno, NULL, error);
}

bool aside_write(struct aside *aside, const void *bytes, size_t count)
{
	if (!aside->why && fwrite(bytes, 1, count, aside->file) != count)
		aside->why = errno;
	return !aside->why;
}

int aside_commit(struct aside *aside, char error[FILES_ERROR_MAX])
{
	int why = aside->why;

	if (!why && (fflush(aside->file) || fsync(fileno(aside->file))))
		why = errno;
	if (fclose(aside->file) && !why)
		why = errno;
	aside->file = NULL;
	if (why) {
		unlink(aside->partial);
		return failed(aside, aside->path, why, NULL, error);
	}
	if (rename(aside->partial, aside->path)) {
		why = errno;
		unlink(aside->partial);
		return failed(aside, aside->path, why, NULL, error);
	}
	why = folder_sync(aside->path);
	return why ? failed(aside, aside->path, why, "written, but its folder cannot be synced",
			    error)
		   : 0;
}

void aside_drop(struct aside *aside)
{
	if (!aside->file)
		return;
	fclose(aside->file);
	aside->file = NULL;
	unlink(aside->partial);
}
