/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.h - a disk that forgets what was not synced. It stands around the system calls of whoever is linked with disk.c,
 * or preloads it, and minds one folder with all that is in it: files are what they are for everybody who looks, and beside
 * the folder lies what a sync has brought to the disk. A crash then leaves of the rest, of writes, cuts, names, renames
 * and removals, any part in any order, drawn from a seed; what was written in blocks of 512 bytes.
 *
 * A sync may fail. As with Linux what it should have brought is forgotten then: the next sync finds nothing to do, and
 * says that all is well.
 *
 * Who is minded is killed at an operation whose number was said, wherever that is: between each write and its sync, each
 * rename and that of its folder. It may fork, and close what descriptors it likes. Not minded: hard links, renames from
 * one folder to another, mmap, writes of stdio behind a sync of the same file.
 */
#ifndef TESTS_DISK_DISK_H
#define TESTS_DISK_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { DISK_FILES = 4096, DISK_PROCESSES = 64, DISK_PATH = 256, DISK_DRAWN = 101 };

/* In a file that all who are minded share. */
struct disk_file {
	_Atomic uint64_t ino; /* 0: free */
	_Atomic uint64_t
		low; /* from here on it may differ from what is on the disk; UINT64_MAX: it does not */
};

struct disk {
	char root[DISK_PATH], beside[DISK_PATH];
	_Atomic uint64_t operations, kill_at; /* 0: never */
	_Atomic uint64_t syncs, fail_at;      /* of files: this one fails; 0: none */
	atomic_bool is_over;                  /* nobody does anything any more */
	_Atomic uint32_t ends;                /* how often it was: who is of an earlier time dies */
	_Atomic int pid[DISK_PROCESSES];
	struct disk_file file[DISK_FILES];
};

#define DISK_VARIABLE "TALLY_TEST_DISK" /* where `beside` is, for who preloads it */

/* disk_crash.c's: none of it is minded. Fails by ending the program with a sentence. */

/* root is an absolute path without links; all that is in it is on the disk. beside: a folder of the same file system, that
 * is made. */
struct disk *disk_begin(const char *root, const char *beside);
/* All who are minded are killed, and are gone. */
void disk_kill(struct disk *disk);
/* disk_kill, and the folder is what a crash leaves; it is minded anew. keep: how much of what was not synced is left, of
 * 100; DISK_DRAWN: drawn, too. */
void disk_crash(struct disk *disk, uint64_t seed, uint32_t keep);
/* disk_kill; both folders are removed. */
void disk_end(struct disk *disk);

/* disk.c's: this process is minded from now on, and all that it forks. */
void disk_mind(struct disk *disk);

#endif
