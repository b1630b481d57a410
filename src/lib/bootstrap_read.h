/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap_read.h - reading variables and refusing them, for the two halves of bootstrap. */
#ifndef LIB_BOOTSTRAP_READ_H
#define LIB_BOOTSTRAP_READ_H

#include <stddef.h>

#include "lib/bootstrap.h"

struct reader {
	bootstrap_get_fn get;
	void *arg;
	char *text; /* BOOTSTRAP_TEXT_MAX */
};

/* In the order in which they are asked. */
enum launcher_idx {
	LAUNCHER_TALLY,
	LAUNCHER_TORCHRUN,
	LAUNCHER_OPEN_MPI,
	LAUNCHER_PMI,
	LAUNCHER_SLURM,
	LAUNCHERS
};

/* Puts the text down and returns TALLY_ERR_ARGUMENT. */
__attribute__((format(printf, 2, 3))) int bootstrap_refuse(const struct reader *reader,
							   const char *format, ...);

/* A variable's value or NULL. An empty one counts as one that is not set: that is how shells unset them
 * in one line. */
static inline const char *value_of(const struct reader *reader, const char *name)
{
	const char *value = reader->get(name, reader->arg);

	return value && *value ? value : NULL;
}

static inline const char *shown(const char *value)
{
	return value ? value : "(not set)";
}

/* Plain decimal digits, so that neither "-1" nor "4 " nor "0x4" becomes a number. */
bool bootstrap_digits(const char *value, uint32_t *number);

/* The same for a number of ranks; TALLY_OK, or refused. */
int bootstrap_number(const struct reader *reader, const char *name, const char *value,
		     uint32_t *number);

/* The job's name: TALLY_JOB, else what the launcher gives; rank and sizes are read already. is_slurm_task: srun has
 * started it, whoever says the ranks. TALLY_OK, or refused. */
int bootstrap_job(struct bootstrap *boot, const struct reader *reader, enum launcher_idx launcher,
		  bool is_slurm_task);

#endif
