/* SPDX-License-Identifier: Apache-2.0 */
/* entries.c - the collectives whose counts are int. */
#define LARGE 0
#include "bindings/mpi/entries.h"
