/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lasting.c - persistent requests. The program's handle is a request of MPI's own that is never started: a receive from
 * nobody. MPI_Start puts an operation in flight as an inner request; waits.c gives MPI the inner one in place of the handle.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bindings/mpi/shim.h"

struct lasting {
	struct lasting *next;
	struct plan *plan;
	MPI_Request handle, inner;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lasting *first;
static atomic_uint number;

int lasting_make(struct plan *plan, MPI_Request *request)
{
	struct lasting *lasting = calloc(1, sizeof(*lasting));

	if (!lasting)
		return report_fault(TALLY_ERR_NO_MEMORY, "no memory for a request");
	if (PMPI_Recv_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &lasting->handle)) {
		free(lasting);
		return report_fault(TALLY_ERR_INTERNAL, "MPI makes no persistent request");
	}
	lasting->plan = plan;
	lasting->inner = MPI_REQUEST_NULL;
	*request = lasting->handle;
	pthread_mutex_lock(&lock);
	lasting->next = first;
	first = lasting;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&number, 1);
	return TALLY_OK;
}

struct lasting *lasting_of(MPI_Request request)
{
	struct lasting *lasting;

	if (!atomic_load_explicit(&number, memory_order_relaxed) || request == MPI_REQUEST_NULL)
		return NULL;
	pthread_mutex_lock(&lock);
	lasting = first;
	while (lasting && lasting->handle != request)
		lasting = lasting->next;
	pthread_mutex_unlock(&lock);
	return lasting;
}

/* MPI's error goes to the handler of the communicator, or of the world where that has been freed. */
int lasting_start(struct lasting *lasting)
{
	struct place *place = lasting->plan->place;
	int result = pending_start(lasting->plan, false, &lasting->inner), code;

	if (!result)
		return MPI_SUCCESS;
	code = report_code(lasting->plan->kind, result, place->tally);
	place_give_up(place);
	PMPI_Comm_call_errhandler(place->comm == MPI_COMM_NULL ? MPI_COMM_WORLD : place->comm,
				  code);
	return code;
}

void lasting_free(struct lasting *lasting)
{
	pthread_mutex_lock(&lock);
	for (struct lasting **at = &first; *at; at = &(*at)->next)
		if (*at == lasting) {
			*at = lasting->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&number, 1);
	if (lasting->inner != MPI_REQUEST_NULL)
		PMPI_Wait(&lasting->inner, MPI_STATUS_IGNORE);
	PMPI_Request_free(&lasting->handle);
	plan_free(lasting->plan);
	free(lasting->plan);
	free(lasting);
}

MPI_Request lasting_inner(const struct lasting *lasting)
{
	return lasting->inner;
}

void lasting_set(struct lasting *lasting, MPI_Request inner)
{
	lasting->inner = inner;
}
