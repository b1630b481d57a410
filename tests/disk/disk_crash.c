/* SPDX-License-Identifier: Apache-2.0 */
/* disk_crash.c - see disk.h. What is on the disk, and what a crash leaves of the rest. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/disk/disk.h"
#include "util/rng.h"
#include "util/whole.h"

enum { BLOCK = 512, NAMES = 256, NAME_BYTES = 100, GONE_TRIES = 10000, ALL = 100 };

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void beside_name(const struct disk *disk, char kind, uint64_t ino, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%c.%llu", disk->beside, kind, (unsigned long long)ino);
}

static void bytes_put(const char *path, const void *bytes, size_t count)
{
	FILE *to = fopen(path, "w");

	if (!to || fwrite(bytes, 1, count, to) != count || fclose(to))
		fail(path);
}

/* NULL: there is none. */
static uint8_t *bytes_get(const char *path, size_t *count)
{
	*count = 0;
	return whole_read(path, SIZE_MAX, count);
}

/* ---- all of a folder ---- */

static struct disk *walked;

/* A history that begins with what is there. */
static void history_begin(const char *path, uint64_t ino)
{
	char folder[PATH_MAX], history[PATH_MAX];
	struct stat is;
	FILE *to;

	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = 0;
	if (stat(folder, &is))
		fail(folder);
	beside_name(walked, 'd', is.st_ino, history);
	to = fopen(history, "a");
	if (!to ||
	    fprintf(to, "C %s %llu\nS - 0\n", strrchr(path, '/') + 1, (unsigned long long)ino) <
		    0 ||
	    fclose(to))
		fail(history);
}

static int one_begin(const char *path, const struct stat *is, int type, struct FTW *at)
{
	char brought[PATH_MAX];
	uint8_t *bytes;
	size_t count;

	if (at->level)
		history_begin(path, is->st_ino);
	if (type != FTW_F)
		return 0;
	for (uint64_t i = 0; i < DISK_FILES; i++) {
		struct disk_file *file = &walked->file[(is->st_ino + i) % DISK_FILES];

		if (file->ino)
			continue;
		file->ino = is->st_ino;
		file->low = UINT64_MAX;
		break;
	}
	bytes = bytes_get(path, &count);
	if (!bytes)
		fail(path);
	beside_name(walked, 'f', is->st_ino, brought);
	bytes_put(brought, bytes, count);
	free(bytes);
	return 0;
}

static int one_remove(const char *path, const struct stat *is, int type, struct FTW *at)
{
	(void)is;
	(void)type;
	(void)at;
	return remove(path);
}

/* All that is in the folder is on the disk. */
static void mind_anew(struct disk *disk)
{
	for (uint64_t i = 0; i < DISK_FILES; i++)
		disk->file[i].ino = 0;
	for (uint64_t i = 0; i < DISK_FILES; i++)
		disk->file[i].low = UINT64_MAX;
	for (int i = 0; i < DISK_PROCESSES; i++)
		disk->pid[i] = 0;
	disk->operations = disk->syncs = disk->kill_at = disk->fail_at = 0;
	disk->is_over = false;
	walked = disk;
	if (nftw(disk->root, one_begin, 16, FTW_PHYS))
		fail(disk->root);
}

struct disk *disk_begin(const char *root, const char *beside)
{
	char path[PATH_MAX];
	struct disk *disk;
	int fd;

	if (mkdir(beside, 0700))
		fail(beside);
	snprintf(path, sizeof(path), "%s/control", beside);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*disk)))
		fail(path);
	disk = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (disk == MAP_FAILED)
		fail(path);
	snprintf(disk->root, sizeof(disk->root), "%s", root);
	snprintf(disk->beside, sizeof(disk->beside), "%s", beside);
	mind_anew(disk);
	return disk;
}

void disk_end(struct disk *disk)
{
	disk_kill(disk);
	if (nftw(disk->root, one_remove, 16, FTW_PHYS | FTW_DEPTH) ||
	    nftw(disk->beside, one_remove, 16, FTW_PHYS | FTW_DEPTH))
		fail(disk->beside);
	munmap(disk, sizeof(*disk));
}

/* ---- the end of all ---- */

static bool is_gone(pid_t pid)
{
	char path[64], state = 0;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	from = fopen(path, "r");
	if (!from)
		return true;
	if (fscanf(from, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	fclose(from);
	return state == 'Z' || state == 'X';
}

void disk_kill(struct disk *disk)
{
	disk->is_over = true;
	disk->ends++; /* for whoever is not known yet: forked, and has done nothing */
	for (int i = 0; i < DISK_PROCESSES; i++) {
		pid_t pid = disk->pid[i];

		if (!pid || is_gone(pid))
			continue;
		kill(pid, SIGKILL);
		for (int tries = 0; !is_gone(pid); tries++) {
			if (tries == GONE_TRIES)
				fail("somebody who was killed goes on");
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
	}
	for (int i = 0; i < DISK_PROCESSES; i++)
		disk->pid[i] = 0;
	disk->kill_at = 0;
	disk->is_over = false;
}

/* ---- what is left ---- */

struct left {
	struct disk *disk;
	struct rng rng;
	uint32_t keep;       /* of 100 */
	char away[PATH_MAX]; /* the folder as it was */
};

static bool is_left(struct left *left)
{
	return rng_below(&left->rng, 100) < left->keep;
}

static size_t bytes_left(struct left *left, size_t brought, size_t now)
{
	if (now <= brought)
		return is_left(left) ? now : brought;
	if (left->keep == 0 || left->keep == ALL)
		return left->keep ? now : brought;
	return brought + rng_below(&left->rng, (uint32_t)(now - brought) + 1);
}

/* Block by block either. What was never written has zeros. */
static void file_leave(struct left *left, uint64_t ino, const char *now_path, const char *to)
{
	char path[PATH_MAX];
	size_t brought_bytes, now_bytes, bytes;
	uint8_t *brought, *now, *out;

	beside_name(left->disk, 'f', ino, path);
	brought = bytes_get(path, &brought_bytes);
	now = bytes_get(now_path, &now_bytes);
	bytes = bytes_left(left, brought_bytes, now_bytes);
	out = calloc(1, bytes + 1);
	if (!out)
		fail("memory");
	for (size_t at = 0; at < bytes; at += BLOCK) {
		bool is_now = is_left(left);
		const uint8_t *from = is_now ? now : brought;
		size_t has = is_now ? now_bytes : brought_bytes, part = bytes - at;

		if (at >= has)
			continue;
		if (part > BLOCK)
			part = BLOCK;
		if (part > has - at)
			part = has - at;
		memcpy(out + at, from + at, part);
	}
	bytes_put(to, out, bytes);
	free(out);
	free(now);
	free(brought);
}

struct names {
	struct name {
		char text[NAME_BYTES];
		unsigned long long ino;
	} name[NAMES];
	uint32_t count;
};

static void name_set(struct names *names, const char *text, unsigned long long ino)
{
	for (uint32_t i = 0; i < names->count; i++) {
		if (strcmp(names->name[i].text, text) != 0)
			continue;
		names->name[i] = names->name[--names->count];
		break;
	}
	if (!ino)
		return;
	if (names->count == NAMES)
		fail("too many names");
	snprintf(names->name[names->count].text, NAME_BYTES, "%s", text);
	names->name[names->count++].ino = ino;
}

static void line_apply(struct names *names, const char *line)
{
	char one[NAME_BYTES], other[NAME_BYTES];
	unsigned long long ino = 0;

	if (sscanf(line, "R %99s %99s %llu", one, other, &ino) == 3) {
		name_set(names, one, 0);
		name_set(names, other, ino);
	} else if (sscanf(line, "%*c %99s %llu", one, &ino) == 2) {
		name_set(names, one, *line == 'C' ? ino : 0);
	}
}

/* Up to its last sync all of a folder's history is there, of the rest what is left. */
static void names_leave(struct left *left, uint64_t folder, struct names *names)
{
	char path[PATH_MAX], *text, *line, *rest;
	uint8_t *bytes;
	size_t count, synced = 0;

	names->count = 0;
	beside_name(left->disk, 'd', folder, path);
	bytes = bytes_get(path, &count);
	text = calloc(1, count + 1);
	if (!text)
		fail("memory");
	if (count)
		memcpy(text, bytes, count);
	for (size_t at = 0; at < count; at++)
		if (text[at] == 'S' && (!at || text[at - 1] == '\n'))
			synced = at;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (*line != 'S' && ((size_t)(line - text) < synced || is_left(left)))
			line_apply(names, line);
	free(text);
	free(bytes);
}

static uint64_t sought;
static char found[PATH_MAX];

static int one_seek(const char *path, const struct stat *is, int type, struct FTW *at)
{
	(void)type;
	(void)at;
	if (is->st_ino != sought)
		return 0;
	snprintf(found, sizeof(found), "%s", path);
	return 1;
}

/* Where it is now, under whatever name. */
static void find(const struct left *left, uint64_t ino)
{
	sought = ino;
	*found = 0;
	if (!nftw(left->away, one_seek, 16, FTW_PHYS))
		(void)nftw(left->disk->beside, one_seek, 16, FTW_PHYS);
	if (!*found)
		fail("a file was removed by somebody who is not minded");
}

static void folder_leave(struct left *left, uint64_t folder, const char *to)
{
	struct names *names = calloc(1, sizeof(*names));

	if (!names)
		fail("memory");
	names_leave(left, folder, names);
	for (uint32_t i = 0; i < names->count; i++) {
		char path[PATH_MAX];
		struct stat is;

		snprintf(path, sizeof(path), "%.3800s/%s", to, names->name[i].text);
		find(left, names->name[i].ino);
		if (stat(found, &is))
			fail(found);
		if (S_ISDIR(is.st_mode)) {
			if (mkdir(path, 0700))
				fail(path);
			folder_leave(left, names->name[i].ino, path);
		} else {
			file_leave(left, names->name[i].ino, found, path);
		}
	}
	free(names);
}

static int one_forget(const char *path, const struct stat *is, int type, struct FTW *at)
{
	(void)is;
	return type == FTW_F && at->level && strcmp(path + at->base, "control") != 0 ? unlink(path)
										     : 0;
}

void disk_crash(struct disk *disk, uint64_t seed, uint32_t keep)
{
	static const uint32_t keeps[] = { 0, 10, 50, 90, ALL };
	struct left left = { .disk = disk, .keep = keep };
	struct stat is;

	disk_kill(disk);
	rng_init(&left.rng, seed, 0);
	if (keep == DISK_DRAWN)
		left.keep = keeps[rng_below(&left.rng, 5)];
	snprintf(left.away, sizeof(left.away), "%s.away", disk->root);
	if (stat(disk->root, &is) || rename(disk->root, left.away) || mkdir(disk->root, 0700))
		fail(disk->root);
	folder_leave(&left, is.st_ino, disk->root);
	if (nftw(left.away, one_remove, 16, FTW_PHYS | FTW_DEPTH) ||
	    nftw(disk->beside, one_forget, 16, FTW_PHYS))
		fail(disk->beside);
	mind_anew(disk);
}
