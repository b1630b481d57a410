/* SPDX-License-Identifier: Apache-2.0 */
/* disk.c - see disk.h. The system calls that it stands around. */
#undef _FILE_OFFSET_BITS /* open and open64 are two names here */
#include "tests/disk/disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FDS = 1024, COPY_BYTES = 1 << 16 };

static struct disk *disk; /* NULL: nobody is minded */
static pid_t known;       /* who has said its pid */
static uint32_t begun;    /* disk->ends when it was minded, or what it was forked from */
static bool is_minded[FDS];

/* ---- below all of it: the calls as they are ---- */

static int real_open(const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void file_name(char kind, uint64_t ino, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%c.%llu", disk->beside, kind, (unsigned long long)ino);
}

static uint64_t ino_of(int fd)
{
	struct stat is;

	return fstat(fd, &is) ? 0 : is.st_ino;
}

/* ---- operations ---- */

static void pid_say(void)
{
	known = getpid();
	for (int i = 0; i < DISK_PROCESSES; i++) {
		int none = 0;

		if (atomic_compare_exchange_strong(&disk->pid[i], &none, known))
			return;
	}
	abort();
}

/* One more, of somebody who is minded; it may be the end of everybody. */
static void operation(void)
{
	if (known != getpid())
		pid_say();
	if (++disk->operations == disk->kill_at)
		disk->is_over = true;
	if (disk->is_over || disk->ends != begun)
		syscall(SYS_kill, getpid(), SIGKILL);
}

static struct disk_file *file_of(uint64_t ino)
{
	for (uint64_t i = 0; i < DISK_FILES; i++) {
		struct disk_file *file = &disk->file[(ino + i) % DISK_FILES];
		uint64_t none = 0;

		if (file->ino == ino || atomic_compare_exchange_strong(&file->ino, &none, ino) ||
		    none == ino)
			return file;
	}
	abort();
}

static void dirty(int fd, uint64_t at)
{
	struct disk_file *file = file_of(ino_of(fd));

	if (at < file->low)
		file->low = at;
}

/* Of a folder: a line in its history. */
__attribute__((format(printf, 2, 3))) static void history_put(const char *path, const char *format,
							      ...)
{
	char folder[PATH_MAX], history[PATH_MAX], line[PATH_MAX];
	va_list arguments;
	struct stat is;
	int fd, bytes;

	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = 0;
	if (stat(folder, &is))
		abort();
	file_name('d', is.st_ino, history);
	va_start(arguments, format);
	bytes = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	fd = real_open(history, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || syscall(SYS_write, fd, line, (size_t)bytes) != bytes)
		abort();
	syscall(SYS_close, fd);
}

static const char *name_of(const char *path)
{
	return strrchr(path, '/') + 1;
}

static bool is_ours(const char *path)
{
	size_t bytes;

	if (!disk)
		return false;
	bytes = strlen(disk->root);
	return !strncmp(path, disk->root, bytes) && (path[bytes] == '/' || !path[bytes]);
}

static bool is_ours_fd(int fd)
{
	return disk && fd >= 0 && fd < FDS && is_minded[fd];
}

/* What loses its name may get it back: it is kept beside. */
static void keep(const char *path)
{
	char kept[PATH_MAX];
	struct stat is;

	if (stat(path, &is) || !S_ISREG(is.st_mode))
		return;
	file_name('k', is.st_ino, kept);
	if (link(path, kept) && errno != EEXIST)
		abort();
}

/* ---- what they stand around ---- */

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ftruncate64(int fd, off64_t bytes);
ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at);

static int any_open(const char *path, int flags, mode_t mode)
{
	struct stat is;
	bool was;
	int fd;

	if (!is_ours(path)) {
		fd = real_open(path, flags, mode);
		if (disk && fd >= 0 && fd < FDS)
			is_minded[fd] = false;
		return fd;
	}
	operation();
	was = !stat(path, &is);
	fd = real_open(path, flags, mode);
	if (fd < 0)
		return fd;
	if (fd >= FDS)
		abort();
	is_minded[fd] = true;
	if (!was)
		history_put(path, "C %s %llu\n", name_of(path), (unsigned long long)ino_of(fd));
	if (!was || flags & O_TRUNC)
		dirty(fd, 0);
	return fd;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return any_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return any_open(path, flags, mode);
}

int close(int fd)
{
	if (is_ours_fd(fd)) {
		operation();
		is_minded[fd] = false;
	}
	return (int)syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *from, size_t bytes)
{
	if (is_ours_fd(fd)) {
		off_t at = lseek(fd, 0, SEEK_CUR);

		operation();
		dirty(fd, at < 0 ? 0 : (uint64_t)at);
	}
	return syscall(SYS_write, fd, from, bytes);
}

ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t at)
{
	if (is_ours_fd(fd)) {
		operation();
		dirty(fd, (uint64_t)at);
	}
	return syscall(SYS_pwrite64, fd, from, bytes, at);
}

ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	return pwrite64(fd, from, bytes, at);
}

int ftruncate64(int fd, off64_t bytes)
{
	if (is_ours_fd(fd)) {
		operation();
		dirty(fd, (uint64_t)bytes);
	}
	return (int)syscall(SYS_ftruncate, fd, bytes);
}

int ftruncate(int fd, off_t bytes)
{
	return ftruncate64(fd, bytes);
}

int rename(const char *from, const char *to)
{
	bool is = is_ours(from);
	struct stat was;

	if (is) {
		operation();
		keep(to);
		if (stat(from, &was))
			return -1;
		history_put(to, "R %s %s %llu\n", name_of(from), name_of(to),
			    (unsigned long long)was.st_ino);
	}
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
	if (is_ours(path) && !access(path, F_OK)) {
		operation();
		keep(path);
		history_put(path, "U %s 0\n", name_of(path));
	}
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
	struct stat is;
	int result;

	if (!is_ours(path))
		return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	operation();
	result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	if (!result && !stat(path, &is))
		history_put(path, "C %s %llu\n", name_of(path), (unsigned long long)is.st_ino);
	return result;
}

/* What may differ goes to what is beside. */
static int file_bring(int fd)
{
	struct disk_file *file = file_of(ino_of(fd));
	uint64_t at = file->low;
	char path[PATH_MAX], copy[COPY_BYTES];
	struct stat is;
	ssize_t got;
	int to;

	if (++disk->syncs == disk->fail_at) {
		file->low = UINT64_MAX;
		errno = EIO;
		return -1;
	}
	if (at == UINT64_MAX)
		return 0;
	file_name('f', ino_of(fd), path);
	to = real_open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (to < 0 || fd < 0 || fstat(fd, &is) || syscall(SYS_ftruncate, to, is.st_size))
		abort();
	while ((got = pread(fd, copy, sizeof(copy), (off_t)at)) > 0) {
		if (syscall(SYS_pwrite64, to, copy, (size_t)got, at) != got)
			abort();
		at += (uint64_t)got;
	}
	syscall(SYS_close, to);
	syscall(SYS_close, fd);
	file->low = UINT64_MAX;
	return 0;
}

static int any_sync(int fd)
{
	char path[PATH_MAX];
	struct stat is;

	if (!is_ours_fd(fd))
		return (int)syscall(SYS_fdatasync, fd);
	operation();
	if (fstat(fd, &is))
		return -1;
	if (!S_ISDIR(is.st_mode))
		return file_bring(fd);
	file_name('d', is.st_ino, path);
	fd = real_open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || syscall(SYS_write, fd, "S - 0\n", 6) != 6)
		abort();
	syscall(SYS_close, fd);
	return 0;
}

int fsync(int fd)
{
	return any_sync(fd);
}

int fdatasync(int fd)
{
	return any_sync(fd);
}

/* ---- who is minded ---- */

void disk_mind(struct disk *at)
{
	disk = at;
	begun = at->ends;
}

__attribute__((constructor)) static void begin(void)
{
	const char *beside = getenv(DISK_VARIABLE);
	char path[PATH_MAX];
	void *at;
	int fd;

	if (!beside)
		return;
	snprintf(path, sizeof(path), "%s/control", beside);
	fd = real_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		abort();
	at = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (at == MAP_FAILED)
		abort();
	disk_mind(at);
}
