/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aside.h - a file that is replaced whole or not at all. What is written goes to PATH.partial, is flushed and
 * synced, renamed over PATH, and the folder is synced. A full disk, a limit or a SIGKILL in the middle
 * leaves the old file as it was, and at most a PATH.partial that the next write begins anew.
 */
#ifndef FILES_ASIDE_H
#define FILES_ASIDE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "files/error.h"

struct aside {
	FILE *file; /* NULL: not open */
	int why;    /* errno of the first that failed: who writes to `file` himself sets it */
	char path[PATH_MAX];
	char partial[PATH_MAX];
};

/* A symbolic link is followed: its target is replaced. 0, or -1 with a sentence that names the file: what is
 * there is no regular file, its folder is not there or may not be written. */
int aside_open(struct aside *aside, const char *path, char error[FILES_ERROR_MAX]);

/* What fails here is told by aside_commit; false: there is no need to go on. */
bool aside_write(struct aside *aside, const void *bytes, size_t count);

/* 0: PATH has all that was written, and will have it after a power cut. -1, with a sentence: PATH is as it was,
 * the partial file is gone. Closed either way. */
int aside_commit(struct aside *aside, char error[FILES_ERROR_MAX]);

/* Instead of commit. */
void aside_drop(struct aside *aside);

#endif
