/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap.h - who am I, in which job, and where is the aggregator: from arguments and from what
 * launchers put into the environment. A pure function of both.
 */
#ifndef LIB_BOOTSTRAP_H
#define LIB_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "tally.h"

enum {
	BOOTSTRAP_JOB_MAX = 200,
	BOOTSTRAP_SIZE_MAX = 256, /* children of one switch */
	BOOTSTRAP_TIMEOUT_S = 300,
	BOOTSTRAP_PORT = 7171,
	BOOTSTRAP_TEXT_MAX = 512,
};

struct bootstrap {
	char job[BOOTSTRAP_JOB_MAX + 1];
	uint32_t size, rank;
	uint32_t local_size;  /* ranks on this host; 0: not known */
	bool is_local;        /* rank 0 hosts the aggregator */
	char aggregator[256]; /* "host[:port]"; "" if is_local */
	uint32_t init_timeout_s;
	const char *source; /* "arguments", "TALLY_*", "torchrun", "Open MPI" */
};

/* Returns a variable's value, or NULL. */
typedef const char *(*bootstrap_get_fn)(const char *name, void *arg);

/* Fills in job, size, rank and local_size from the first set that is there. TALLY_OK, or
 * TALLY_ERR_ARGUMENT with the names and values that were read in `text`. */
int bootstrap_env(struct bootstrap *boot, bootstrap_get_fn get, void *arg,
		  char text[BOOTSTRAP_TEXT_MAX]);

/* Checks job, size and rank, and fills in the rest from options (may be NULL) and the environment.
 * TALLY_OK, TALLY_ERR_ARGUMENT, TALLY_ERR_UNSUPPORTED. */
int bootstrap_finish(struct bootstrap *boot, const struct tally_options *options,
		     bootstrap_get_fn get, void *arg, char text[BOOTSTRAP_TEXT_MAX]);

#endif
