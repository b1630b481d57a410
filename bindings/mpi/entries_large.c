/* SPDX-License-Identifier: Apache-2.0 */
/* entries_large.c - the collectives of MPI-4 whose counts are MPI_Count. */
#include <mpi.h>

#if MPI_VERSION >= 4
#define LARGE 1
#include "bindings/mpi/entries.h"
#else
typedef int entries_of_mpi_4; /* a file that is not empty */
#endif
