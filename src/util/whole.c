/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - see whole.h. */
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t *all_read(int fd, size_t bytes)
{
	uint8_t *file = malloc(bytes ? bytes : 1);
	size_t has = 0;

	while (file && has < bytes) {
		ssize_t got = read(fd, file + has, bytes - has);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got ? errno : EIO;
			free(file);
			return NULL;
		}
		has += (size_t)got;
	}
	return file;
}

uint8_t *whole_read(const char *path, uint64_t most, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error;
	uint8_t *file = NULL;
	struct stat is;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &is)) {
		error = errno;
	} else if (!S_ISREG(is.st_mode)) {
		error = ENOTSUP;
	} else if ((uint64_t)is.st_size > most) {
		error = EFBIG;
	} else {
		*bytes = (size_t)is.st_size;
		file = all_read(fd, *bytes);
		error = errno;
	}
	close(fd);
	errno = error;
	return file;
}

int64_t whole_number(const char *path, int64_t otherwise)
{
	FILE *file = fopen(path, "re");
	int64_t number = otherwise;

	if (!file)
		return otherwise;
	if (fscanf(file, "%" SCNd64, &number) != 1)
		number = otherwise;
	fclose(file);
	return number;
}

const char *whole_why(int error)
{
	return error == ENOTSUP ? "not a regular file" : strerror(error);
}
