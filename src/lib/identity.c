/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h. */
#include "lib/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "util/host_id.h"

enum { START_FIELD = 22, STAT_BYTES = 1024 }; /* of /proc/PID/stat: proc(5) */

/* A hash of nothing says nothing. */
static uint64_t known(uint64_t hash)
{
	return hash == HASH_BEGIN ? 0 : hash;
}

/* What torch.distributed.launch and DeepSpeed add for each rank, and say in LOCAL_RANK as well: their programs are one. */
static bool is_rank(const char *argument)
{
	const char *rank = getenv("LOCAL_RANK");

	return rank &&
	       (!strncmp(argument, "--local-rank=", 13) ||
		!strncmp(argument, "--local_rank=", 13)) &&
	       !strcmp(argument + 13, rank);
}

/* Arguments end with a NUL each, so "a b" and "a", "b" differ. *is_spawned: multiprocessing has started it for another
 * process of Python, with arguments that name descriptors. */
static uint64_t command_hash(const char *path, bool *is_spawned)
{
	FILE *file = fopen(path, "re");
	uint64_t hash = HASH_BEGIN;
	char *argument = NULL;
	size_t room = 0;
	ssize_t bytes;

	*is_spawned = false;
	if (!file)
		return 0;
	while ((bytes = getdelim(&argument, &room, '\0', file)) > 0) {
		*is_spawned |= !strcmp(argument, "--multiprocessing-fork");
		if (!is_rank(argument))
			hash = hash_bytes(hash, argument, (size_t)bytes);
	}
	free(argument);
	fclose(file);
	return known(hash);
}

/* Of a spawned process, as torch.multiprocessing.spawn makes one for each rank, its parent's is the program. */
static uint64_t program_hash(void)
{
	char path[32];
	bool is_spawned, is_parent;
	uint64_t mine = command_hash("/proc/self/cmdline", &is_spawned), its;

	if (!is_spawned)
		return mine;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)getppid());
	its = command_hash(path, &is_parent);
	return its && !is_parent ? its : mine;
}

/* When this process was started, in ticks since the host was booted; "": not known. */
static const char *start_find(char stat[STAT_BYTES])
{
	FILE *file = fopen("/proc/self/stat", "re");
	size_t count = file ? fread(stat, 1, STAT_BYTES - 1, file) : 0;
	char *at;

	if (file)
		fclose(file);
	stat[count] = '\0';
	at = strrchr(stat,
		     ')'); /* of the name, the second field: it may have blanks and more of these */
	for (int field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return "";
	at++;
	at[strcspn(at, " ")] = '\0';
	return at;
}

/* Of two processes of one number at one time, in two containers, the namespace differs. */
static uint64_t process_hash(const char *boot)
{
	struct stat namespace = { 0 };
	char stat_text[STAT_BYTES];
	uint64_t hash;

	if (!*boot || stat("/proc/self/ns/pid", &namespace))
		return 0;
	hash = hash_text(HASH_BEGIN, boot);
	hash = hash_number(hash, namespace.st_ino, 8);
	hash = hash_number(hash, (uint64_t)getpid(), 4);
	return hash_text(hash, start_find(stat_text));
}

void identity_read(struct identity *identity)
{
	char boot[HOST_BOOT_BYTES];

	host_boot_id(boot);
	identity->program = program_hash();
	identity->boot = known(hash_text(HASH_BEGIN, boot));
	identity->process = process_hash(boot);
}
