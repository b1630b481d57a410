/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - the operations of a run: their vectors, who has submitted and who has finished which, and
 * what is asserted of results: right (oracle.h), bit-identical on all ranks, nothing written beside
 * them, and none without everybody having called it.
 */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include "sim/check.h"
#include "sim/oracle.h"

struct load;

struct load *load_open(const struct scenario *scenario, struct check *check);
void load_close(struct load *load);

/* Fills in what `rank` submits as operation `index`, and notes that it does. */
void load_submit(struct load *load, uint32_t rank, uint32_t index, struct endpoint_op *op);
/* The rank has stored int32 elements [first, first + count) of it, once more perhaps: are they right? For rules
 * that are expected to fail, and in a slot that is to be shown. */
void load_stored(struct load *load, uint32_t rank, uint32_t index, uint64_t first, uint32_t count,
		 uint32_t slot);
/* The rank's endpoint says that it is complete. */
void load_done(struct load *load, uint32_t rank, uint32_t index);
/* Has the rank finished all that it has submitted? */
bool load_is_idle(const struct load *load, uint32_t rank);
/* All operations at all ranks? */
bool load_is_finished(const struct load *load);
/* All operations before the answer are complete at all ranks; what comes after it is to be submitted
 * again, in the job's next life. */
uint32_t load_restart(struct load *load);
/* The job has ended with an error: what some ranks have completed must be right. load_restart looks, too. */
void load_lost(struct load *load);
/* Elements that were verified. */
uint64_t load_elements(const struct load *load);

#endif
