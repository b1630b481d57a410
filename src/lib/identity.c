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

/* What torch.distributed.launch and DeepSpeed add for each rank: their programs are one. */
static bool is_rank(const char *argument)
{
	const char *number = !strncmp(argument, "--local-rank=", 13) ||
					     !strncmp(argument, "--local_rank=", 13)
				     ? argument + 13
				     : "";

	return *number && !number[strspn(number, "0123456789")];
}

/* Arguments end with a NUL each, so "a b" and "a", "b" differ. */
static uint64_t program_hash(void)
{
	FILE *file = fopen("/proc/self/cmdline", "re");
	uint64_t hash = HASH_BEGIN;
	char *argument = NULL;
	size_t room = 0;
	ssize_t bytes;

	if (!file)
		return 0;
	while ((bytes = getdelim(&argument, &room, '\0', file)) > 0)
		if (!is_rank(argument))
			hash = hash_bytes(hash, argument, (size_t)bytes);
	free(argument);
	fclose(file);
	return known(hash);
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
