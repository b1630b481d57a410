/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h - for tests with daemons (tests/e2e/daemons.h): one of them on a disk that forgets, and power cuts. */
#ifndef TESTS_DISK_CUT_H
#define TESTS_DISK_CUT_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/disk/disk.h"
#include "tests/e2e/daemons.h"
#include "util/rng.h"

enum {
	CUT_OPERATIONS = 60, /* so many later, */
	CUT_MS = 500,        /* or so long */
};

static struct disk *cut_disk;
/* Arguments of env, in front of the program's. */
static char cut_variable[DISK_PATH + 32], cut_preload[512];

/* Where its files are: on that disk, or in the test's folder. */
static const char *cut_folder(void)
{
	return cut_disk ? cut_disk->root : test_folder();
}

/* library: disk.c, to be preloaded. */
static void cut_begin(const char *library)
{
	char root[DISK_PATH], beside[DISK_PATH];

	snprintf(root, sizeof(root), "%s/disk", test_folder());
	snprintf(beside, sizeof(beside), "%s/beside", test_folder());
	if (mkdir(root, 0700))
		test_fail("%s: %s", root, strerror(errno));
	cut_disk = disk_begin(root, beside);
	snprintf(cut_variable, sizeof(cut_variable), "%s=%s", DISK_VARIABLE, beside);
	snprintf(cut_preload, sizeof(cut_preload), "LD_PRELOAD=%s", library);
}

/* At an operation that is drawn, often while a checkpoint is written; what was not synced by then is gone, but for one of
 * four times. */
static void cut_end(struct daemon *daemon, struct rng *rng)
{
	uint64_t until_ms = now_ms() + CUT_MS;

	if (rng_below(rng, 2))
		kill(daemon->pid, SIGUSR2);
	cut_disk->kill_at = cut_disk->operations + 1 + rng_below(rng, CUT_OPERATIONS);
	while (cut_disk->operations < cut_disk->kill_at && now_ms() < until_ms)
		sleep_ms(1);
	if (!cut_disk->operations)
		test_fail("nobody is minded: is there a library in %s?", cut_preload);
	daemon_end(daemon, SIGKILL);
	if (rng_below(rng, 4))
		disk_crash(cut_disk, rng_next(rng), DISK_DRAWN);
	else
		disk_kill(cut_disk);
}

#endif
