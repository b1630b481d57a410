/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - the two MPIs' handles are not each other's: this library beside the other one would crash at some call. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bindings/mpi/shim.h"

#ifdef OPEN_MPI
#define OWN "Open MPI"
#define OTHER "MPICH or one that is built alike"
#define OTHER_FILE "libtally-mpi-mpich.so"
/* MPICH's name for all that share its ABI, and Debian's. */
static const char *const others[] = { "libmpi.so.12", "libmpich.so" };
#else
#define OWN "MPICH"
#define OTHER "Open MPI"
#define OTHER_FILE "libtally-mpi-openmpi.so"
static const char *const others[] = { "libmpi.so.40", "libopen-rte.so", "libopen-pal.so" };
#endif

static int look(struct dl_phdr_info *info, size_t size, void *found)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strncmp(name, others[i], strlen(others[i])) == 0)
			*(const char **)found = info->dlpi_name;
	return 0;
}

void load_check(void)
{
	const char *found = NULL;

	dl_iterate_phdr(look, &found);
	if (!found)
		return;
	report_say("this library is for programs of " OWN ", and this one uses " OTHER
		   " (%s): preload " OTHER_FILE " instead",
		   found);
	_exit(127);
}

/* Programs without MPI, as mpirun and shells, load it as well, and go on. */
__attribute__((constructor)) static void check_early(void)
{
	load_check();
}
