/* SPDX-License-Identifier: Apache-2.0 */
/* conf_load.c - the part of conf.h that reads files. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/conf.h"

enum { KEY_FILE_BYTES = 4096 };

/* Up to bytes_max bytes, or a negative errno. */
static long bytes_read(int fd, char *data, size_t bytes_max)
{
	size_t used = 0;

	while (used < bytes_max) {
		ssize_t got = read(fd, data + used, bytes_max - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		used += (size_t)got;
	}
	return (long)used;
}

long conf_load(const char *path, char *data, size_t bytes_max, uint32_t *mode_out)
{
	/* Not to wait for ever at a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	long result;
	char one;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		result = -errno;
	else if (S_ISDIR(status.st_mode))
		result = -EISDIR;
	else if (!S_ISREG(status.st_mode))
		result = -EINVAL;
	else
		result = bytes_read(fd, data, bytes_max);
	if (result == (long)bytes_max && bytes_read(fd, &one, 1) == 1)
		result = -EFBIG;
	if (result >= 0 && mode_out)
		*mode_out = status.st_mode;
	close(fd);
	return result;
}

static bool is_good_key(const char *key, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (key[i] < ' ' || key[i] > '~')
			return false;
	return bytes;
}

const char *conf_error_text(long error)
{
	if (error == -EBADMSG)
		return "not one line of 1 to 127 printable characters";
	if (error == -EINVAL)
		return "not a regular file";
	return strerror((int)-error);
}

int conf_load_key(const char *path, char *key, size_t key_bytes, uint32_t *mode_out)
{
	char data[KEY_FILE_BYTES];
	long got = conf_load(path, data, sizeof(data), mode_out);
	size_t bytes = got > 0 ? (size_t)got : 0;
	int result = 0;

	key[0] = '\0';
	while (bytes && memchr(" \t\r\n", data[bytes - 1], 4))
		bytes--;
	if (got < 0)
		result = (int)got;
	else if (bytes >= key_bytes || !is_good_key(data, bytes))
		result = -EBADMSG;
	if (!result) {
		memcpy(key, data, bytes);
		key[bytes] = '\0';
	}
	explicit_bzero(data, sizeof(data));
	return result;
}
