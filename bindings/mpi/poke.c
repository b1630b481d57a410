/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poke.c - MPI gets on while this rank waits in tally. MPI may rely on a rank that is inside any of its calls: a large
 * message of a non-blocking send leaves in pieces, and a receiver that waits for it before its own collective would wait
 * for ever. No call of MPI's only makes progress; but to look at a request that is not complete does, in all of them.
 */
#include <dlfcn.h>

#include "bindings/mpi/shim.h"

enum {
	SLICE_MS = 1, /* of a wait in tally: longer than any operation that is short */
	LOOKS = 16,   /* after each: a message has several pieces */
};

static MPI_Request never = MPI_REQUEST_NULL;
static _Thread_local bool is_foreign;

static int query(void *state, MPI_Status *status)
{
	(void)state;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	return MPI_SUCCESS;
}

static int forget(void *state)
{
	(void)state;
	return MPI_SUCCESS;
}

static int cancel(void *state, int is_complete)
{
	(void)state;
	(void)is_complete;
	return MPI_SUCCESS;
}

bool poke_begin(void)
{
	return PMPI_Grequest_start(query, forget, cancel, NULL, &never) == MPI_SUCCESS;
}

void poke_end(void)
{
	if (never == MPI_REQUEST_NULL)
		return;
	PMPI_Grequest_complete(never);
	PMPI_Wait(&never, MPI_STATUS_IGNORE);
}

void poke(void)
{
	int is_complete;

	if (never != MPI_REQUEST_NULL)
		PMPI_Request_get_status(never, &is_complete, MPI_STATUS_IGNORE);
}

int poke_wait(struct tally_work **work)
{
	int result = tally_wait(work, SLICE_MS);

	while (result == TALLY_IN_PROGRESS) {
		for (int i = 0; i < LOOKS; i++)
			poke();
		result = tally_wait(work, SLICE_MS);
	}
	return result;
}

void poke_never_here(void)
{
	is_foreign = true;
}

int poke_meanwhile(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < LOOKS && !is_foreign; i++)
		poke();
	return 0;
}

bool poke_can_ask(void)
{
#ifdef OPEN_MPI
	return dlsym(RTLD_DEFAULT, "opal_progress_register");
#else
	return true;
#endif
}
