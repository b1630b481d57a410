/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h. */
#include "lib/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/shared/hash.h"
#include "util/host_id.h"

enum { PARENT_FIELD = 4, START_FIELD = 22, STAT_BYTES = 1024 }; /* of /proc/PID/stat: proc(5) */
enum { PATH_BYTES = 32, SPAWNED_MAX = 8 /* deep */ };

/* A hash of nothing says nothing. */
static uint64_t known(uint64_t hash)
{
	return hash == HASH_BEGIN ? 0 : hash;
}

/* What torch.distributed.launch and DeepSpeed add for each rank, and users from what a launcher says: one program. */
static bool is_rank(const char *argument)
{
	static const char *const names[] = { "LOCAL_RANK", "SLURM_LOCALID",
					     "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID" };

	if (strncmp(argument, "--local-rank=", 13) != 0 &&
	    strncmp(argument, "--local_rank=", 13) != 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *rank = getenv(names[i]);

		if (rank && !strcmp(argument + 13, rank))
			return true;
	}
	return false;
}

/* Python's multiprocessing has started it for another process, with arguments that name descriptors. */
static bool is_spawn(const char *argument)
{
	static const char server[] = "from multiprocessing.forkserver import ";

	return !strcmp(argument, "--multiprocessing-fork") ||
	       !strncmp(argument, server, sizeof(server) - 1);
}

/* Process 0 is this one. */
static FILE *proc_open(pid_t pid, const char *name)
{
	char path[PATH_BYTES];

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	else
		snprintf(path, sizeof(path), "/proc/self/%s", name);
	return fopen(path, "re");
}

/* Arguments end with a NUL each, so "a b" and "a", "b" differ. 0: it is not known. */
static uint64_t command_hash(pid_t pid, bool *is_spawned)
{
	FILE *file = proc_open(pid, "cmdline");
	uint64_t hash = HASH_BEGIN;
	char *argument = NULL;
	size_t room = 0;
	ssize_t bytes;

	*is_spawned = false;
	if (!file)
		return 0;
	while ((bytes = getdelim(&argument, &room, '\0', file)) > 0) {
		*is_spawned |= is_spawn(argument);
		if (!is_rank(argument))
			hash = hash_bytes(hash, argument, (size_t)bytes);
	}
	free(argument);
	fclose(file);
	return known(hash);
}

/* A field of a process's state; "": not known. */
static const char *stat_find(pid_t pid, int wanted, char stat[STAT_BYTES])
{
	FILE *file = proc_open(pid, "stat");
	size_t count = file ? fread(stat, 1, STAT_BYTES - 1, file) : 0;
	char *at;

	if (file)
		fclose(file);
	stat[count] = '\0';
	/* Of the name, the second field: it may have blanks and more of these. */
	at = strrchr(stat, ')');
	for (int field = 2; at && field < wanted; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return "";
	at++;
	at[strcspn(at, " ")] = '\0';
	return at;
}

/* torch.multiprocessing spawns a process for each rank: the program is that of who has spawned it. */
static uint64_t program_hash(void)
{
	char stat_text[STAT_BYTES];
	uint64_t mine = 0, hash;
	pid_t pid = 0;
	bool is_spawned;

	for (int above = 0; above < SPAWNED_MAX; above++) {
		hash = command_hash(pid, &is_spawned);
		mine = mine ? mine : hash;
		if (!hash || !is_spawned)
			return hash ? hash : mine;
		pid = (pid_t)strtol(stat_find(pid, PARENT_FIELD, stat_text), NULL, 10);
		if (!pid)
			break;
	}
	return mine;
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
	return hash_text(hash, stat_find(0, START_FIELD, stat_text));
}

void identity_read(struct identity *identity)
{
	char boot[HOST_BOOT_BYTES];

	host_boot_id(boot);
	identity->program = program_hash();
	identity->boot = known(hash_text(HASH_BEGIN, boot));
	identity->process = process_hash(boot);
}
