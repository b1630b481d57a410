/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - what ranks share: see host.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/host.h"

int host_memory_make(uint32_t ranks)
{
	int fd = memfd_create("tally", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)host_bytes(ranks)) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

void *host_memory_map(int fd, uint32_t ranks)
{
	size_t bytes = host_bytes(ranks);
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat stat;
	void *memory;

	if (fstat(fd, &stat))
		return NULL;
	if ((uint64_t)stat.st_size != bytes || seals < 0 || !(seals & F_SEAL_SHRINK)) {
		errno = EPROTO; /* else a read might end this process */
		return NULL;
	}
	/* Now: a fault in the first operations would cost milliseconds. */
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

void host_memory_unmap(void *memory, uint32_t ranks)
{
	munmap(memory, host_bytes(ranks));
}
