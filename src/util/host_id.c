/* SPDX-License-Identifier: Apache-2.0 */
/* host_id.c - see host_id.h. */
#include "util/host_id.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void host_boot_id(char id[HOST_BOOT_BYTES])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	id[0] = '\0';
	if (!file)
		return;
	if (!fgets(id, HOST_BOOT_BYTES, file))
		id[0] = '\0';
	fclose(file);
	id[strcspn(id, "\n")] = '\0';
}

void host_id_read(char id[HOST_ID_BYTES])
{
	char boot[HOST_BOOT_BYTES];
	struct stat net = { 0 };

	host_boot_id(boot);
	(void)stat("/proc/self/ns/net", &net);
	snprintf(id, HOST_ID_BYTES, "%s/%llu", boot, (unsigned long long)net.st_ino);
}
