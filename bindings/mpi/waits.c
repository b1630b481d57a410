/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.c - what programs do with requests, where these may be persistent ones of ours: MPI gets the inner request instead
 * of the handle, and nothing of an inactive one, which for MPI is the same as none.
 */
#include <stdlib.h>
#include <string.h>

#include "bindings/mpi/shim.h"

enum { FEW = 64 };

/* A program's requests, as MPI is to see them. */
struct swap {
	int count;
	MPI_Request *handles, *given;
	struct lasting **lasting;
	MPI_Request few_given[FEW];
	struct lasting *few_lasting[FEW];
};

/* False: there is none of ours among them, or no memory. */
static bool swap_begin(struct swap *swap, int count, MPI_Request *handles)
{
	size_t number = count > 0 ? (size_t)count : 0, ours = 0;

	for (size_t i = 0; i < number && handles; i++)
		ours += lasting_of(handles[i]) != NULL;
	if (!ours)
		return false;
	*swap = (struct swap){ .count = count, .handles = handles };
	swap->given = swap->few_given;
	swap->lasting = swap->few_lasting;
	if (number > FEW) {
		swap->given = calloc(number, sizeof(*swap->given));
		swap->lasting = calloc(number, sizeof(struct lasting *));
		if (!swap->given || !swap->lasting)
			abort(); /* a wait that leaves out some of its requests is none */
	}
	for (size_t i = 0; i < number; i++) {
		swap->lasting[i] = lasting_of(handles[i]);
		swap->given[i] = swap->lasting[i] ? lasting_inner(swap->lasting[i]) : handles[i];
	}
	return true;
}

static int swap_end(struct swap *swap, int code)
{
	for (int i = 0; i < swap->count; i++)
		if (swap->lasting[i])
			lasting_set(swap->lasting[i], swap->given[i]);
		else
			swap->handles[i] = swap->given[i];
	if (swap->given != swap->few_given) {
		free(swap->given);
		free(swap->lasting);
	}
	return code;
}

SHIM_API int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
	struct swap swap;

	if (!swap_begin(&swap, 1, request))
		return PMPI_Wait(request, status);
	return swap_end(&swap, PMPI_Wait(swap.given, status));
}

SHIM_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	struct swap swap;

	if (!swap_begin(&swap, 1, request))
		return PMPI_Test(request, flag, status);
	return swap_end(&swap, PMPI_Test(swap.given, flag, status));
}

/* Ours first: MPICH 4.0.2 waits for ever for generalized requests beside persistent collectives of its own. MPI gets on
 * with the others meanwhile. */
SHIM_API int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
	int code = MPI_SUCCESS;
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Waitall(count, requests, statuses);
	for (int i = 0; i < count && !code; i++)
		if (swap.lasting[i])
			code = PMPI_Wait(&swap.given[i], MPI_STATUS_IGNORE);
	if (!code)
		code = PMPI_Waitall(count, swap.given, statuses);
	return swap_end(&swap, code);
}

SHIM_API int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Testall(count, requests, flag, statuses);
	return swap_end(&swap, PMPI_Testall(count, swap.given, flag, statuses));
}

SHIM_API int MPI_Waitany(int count, MPI_Request requests[], int *idx, MPI_Status *status)
{
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Waitany(count, requests, idx, status);
	return swap_end(&swap, PMPI_Waitany(count, swap.given, idx, status));
}

SHIM_API int MPI_Testany(int count, MPI_Request requests[], int *idx, int *flag, MPI_Status *status)
{
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Testany(count, requests, idx, flag, status);
	return swap_end(&swap, PMPI_Testany(count, swap.given, idx, flag, status));
}

SHIM_API int MPI_Waitsome(int count, MPI_Request requests[], int *number, int indices[],
			  MPI_Status statuses[])
{
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Waitsome(count, requests, number, indices, statuses);
	return swap_end(&swap, PMPI_Waitsome(count, swap.given, number, indices, statuses));
}

SHIM_API int MPI_Testsome(int count, MPI_Request requests[], int *number, int indices[],
			  MPI_Status statuses[])
{
	struct swap swap;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Testsome(count, requests, number, indices, statuses);
	return swap_end(&swap, PMPI_Testsome(count, swap.given, number, indices, statuses));
}

SHIM_API int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	const struct lasting *lasting = lasting_of(request);

	pending_look(); /* MPICH 4.0 does not ask in this one call */
	return PMPI_Request_get_status(lasting ? lasting_inner(lasting) : request, flag, status);
}

SHIM_API int MPI_Start(MPI_Request *request)
{
	struct lasting *lasting = request ? lasting_of(*request) : NULL;

	return lasting ? lasting_start(lasting) : PMPI_Start(request);
}

SHIM_API int MPI_Startall(int count, MPI_Request requests[])
{
	struct swap swap;
	int code = MPI_SUCCESS;

	if (!swap_begin(&swap, count, requests))
		return PMPI_Startall(count, requests);
	swap_end(&swap, code);
	for (int i = 0; i < count && !code; i++)
		code = MPI_Start(&requests[i]);
	return code;
}

SHIM_API int MPI_Request_free(MPI_Request *request)
{
	struct lasting *lasting = request ? lasting_of(*request) : NULL;

	if (!lasting)
		return PMPI_Request_free(request);
	lasting_free(lasting);
	*request = MPI_REQUEST_NULL;
	return MPI_SUCCESS;
}

/* Python loads its MPI late: only here is it known which one. */
SHIM_API int MPI_Init(int *argc, char ***argv)
{
	int code;

	load_check();
	code = PMPI_Init(argc, argv);
	if (!code)
		place_begin();
	return code;
}

SHIM_API int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int code;

	load_check();
	code = PMPI_Init_thread(argc, argv, required, provided);
	if (!code)
		place_begin();
	return code;
}
