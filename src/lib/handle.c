/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c - the handles of operations, which users hold. */
#include <sched.h>

#include "lib/operation.h"
#include "lib/present.h"

enum { SPIN_NS = 20000 }; /* looks that follow so soon are a loop of looks */

/* Lock held. The operation's result; the handle is the library's again. */
static int handle_take(struct tally_comm *comm, struct tally_work **handle)
{
	int result = work_report(comm, *handle);

	work_put(comm, *handle);
	*handle = NULL;
	return result;
}

static int handle_wait(struct tally_work **handle, uint64_t until_ns)
{
	struct tally_work *work = *handle;
	struct tally_comm *comm = work->comm;
	int result = TALLY_IN_PROGRESS;

	comm_lock(comm);
	switch (progress_wait(comm, work_is_over, work, until_ns, true)) {
	case PROGRESS_OVER:
		result = handle_take(comm, handle);
		break;
	case PROGRESS_LATE:
		break;
	case PROGRESS_INTERRUPTED:
		result = TALLY_INTERRUPTED;
		break;
	case PROGRESS_FORKED:
		result = comm_check(comm, "tally_wait");
		break;
	}
	comm_unlock(comm);
	return result;
}

static uint64_t until_of(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)timeout_ms * 1000000;
}

/* A look may drive a little, if nobody else does: a program that only tests gets on, too. One that does
 * nothing else lets others have the processor in between. */
static int handle_look(struct tally_work **handle)
{
	struct tally_work *work = *handle;
	struct tally_comm *comm = work->comm;
	int result = TALLY_IN_PROGRESS;
	bool is_spinning = false;

	comm_lock(comm);
	if (!work_is_over(comm, work) && !comm->is_driven && comm->endpoint &&
	    comm->state != COMM_JOINING && !atomic_load(&comm->error)) {
		uint64_t now_ns = clock_ns();

		progress_look(comm);
		is_spinning = now_ns - comm->touched_ns < SPIN_NS;
		comm->touched_ns = now_ns;
	}
	progress_callbacks(comm);
	if (comm_is_forked(comm))
		result = comm_check(comm, "tally_test");
	else if (work_is_over(comm, work))
		result = handle_take(comm, handle);
	comm_unlock(comm);
	if (result == TALLY_IN_PROGRESS && is_spinning)
		sched_yield();
	return result;
}

int tally_test(struct tally_work **work, int *done)
{
	int result;

	if (!work || !done)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_test: %s is NULL",
				    work ? "done" : "work");
	if (!*work) {
		*done = 1;
		return TALLY_OK;
	}
	result = comm_check((*work)->comm, "tally_test");
	if (result)
		return result;
	present_here();
	result = handle_look(work);
	*done = result != TALLY_IN_PROGRESS;
	return *done ? result : TALLY_OK;
}

/* TALLY_OK: go on. Waiting inside an on_done function would wait for itself. */
static int wait_check(const struct tally_work *work, int timeout_ms, const char *call)
{
	int result = comm_check(work->comm, call);

	return !result && timeout_ms ? operation_may_wait(work->comm, call) : result;
}

int tally_wait(struct tally_work **work, int timeout_ms)
{
	int result;

	if (!work)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_wait: work is NULL");
	if (!*work)
		return TALLY_OK;
	result = wait_check(*work, timeout_ms, "tally_wait");
	if (result)
		return result;
	return timeout_ms ? handle_wait(work, until_of(timeout_ms)) : handle_look(work);
}

int tally_waitall(size_t count, struct tally_work **works, int timeout_ms)
{
	uint64_t until_ns = until_of(timeout_ms);
	bool is_late = false;
	int first = TALLY_OK;

	if (!works && count)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_waitall: works is NULL");
	for (size_t i = 0; i < count; i++) {
		int result;

		if (!works[i])
			continue;
		result = wait_check(works[i], timeout_ms, "tally_waitall");
		if (!result)
			result = timeout_ms ? handle_wait(&works[i], until_ns)
					    : handle_look(&works[i]);
		if (result == TALLY_INTERRUPTED)
			return first ? first : result;
		if (result == TALLY_IN_PROGRESS)
			is_late = true;
		else if (!first)
			first = result;
	}
	return first || !is_late ? first : TALLY_IN_PROGRESS;
}

int tally_work_on_done(struct tally_work *work, tally_done_fn fn, void *arg)
{
	struct tally_comm *comm;
	bool is_late, has_one;
	int result;

	if (!work || !fn)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "tally_work_on_done: %s is NULL",
				    work ? "fn" : "work");
	comm = work->comm;
	result = comm_check(comm, "tally_work_on_done");
	if (result)
		return result;
	comm_lock(comm);
	has_one = work->done_fn != NULL;
	is_late = work_is_over(comm, work);
	result = work->result;
	if (!has_one) {
		work->done_fn = fn;
		work->done_arg = arg;
		if (!is_late)
			present_calls(1);
	}
	comm_unlock(comm);
	if (has_one)
		return report_error(&comm->who, TALLY_ERR_USAGE,
				    "tally_work_on_done: this work has one already");
	if (is_late)
		progress_call(work, fn, result, arg);
	return TALLY_OK;
}

void tally_work_free(struct tally_work **handle)
{
	struct tally_work *work = handle ? *handle : NULL;
	struct tally_comm *comm;

	if (!work || comm_check(work->comm, "tally_work_free"))
		return;
	comm = work->comm;
	*handle = NULL;
	comm_lock(comm);
	if (work_is_over(comm, work))
		work_put(comm, work);
	else
		work->is_detached = true;
	comm_unlock(comm);
}
