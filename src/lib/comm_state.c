/* SPDX-License-Identifier: Apache-2.0 */
/* comm_state.c - a communicator's lock, what breaks it, and what it can be asked. */
#include <stdio.h>
#include <string.h>

#include "core/shared/text.h"
#include "lib/carrier.h"
#include "lib/comm.h"
#include "lib/local.h"
#include "lib/present.h"
#include "util/utf8.h"

enum { CHARACTER_BYTES_MAX = 4 /* of UTF-8 */ };

/* Lock held. What tally_comm_abort has asked for. A rank that has left has nothing to end, unless it hosts the
 * aggregator and waits for the others. */
static void abort_do(struct tally_comm *comm)
{
	if ((comm->state != COMM_LEFT || local_stop(comm)) && !atomic_load(&comm->error)) {
		comm->wants_abort = true;
		comm_break(comm, TALLY_ERR_ABORTED, "tally_comm_abort was called");
		wake_background();
	}
	atomic_store(&comm->is_abort_asked, false);
}

void comm_lock(struct tally_comm *comm)
{
	if (pthread_mutex_trylock(&comm->lock)) {
		atomic_fetch_add_explicit(&comm->contenders, 1, memory_order_relaxed);
		pthread_mutex_lock(&comm->lock);
		atomic_fetch_sub_explicit(&comm->contenders, 1, memory_order_relaxed);
	}
	if (atomic_load(&comm->is_abort_asked))
		abort_do(comm);
}

void comm_unlock(struct tally_comm *comm)
{
	pthread_mutex_unlock(&comm->lock);
}

int comm_error(struct tally_comm *comm)
{
	if (atomic_load(&comm->is_abort_asked)) {
		comm_lock(comm);
		comm_unlock(comm);
	}
	return atomic_load(&comm->error);
}

bool comm_is_forked(const struct tally_comm *comm)
{
	return comm->epoch != present_epoch();
}

int comm_check(const struct tally_comm *comm, const char *call)
{
	if (!comm)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "%s: comm is NULL", call);
	if (comm_is_forked(comm))
		return report_error(&comm->who, TALLY_ERR_USAGE,
				    "%s in a forked child: the communicator is its parent's", call);
	return TALLY_OK;
}

int result_of_cause(enum control_cause cause)
{
	/* clang-format off */
	static const int results[CONTROL_CAUSE_END] = {
		[CONTROL_OK]          = TALLY_ERR_INTERNAL, /* a failure without a cause */
		[CONTROL_REMOTE]      = TALLY_ERR_REMOTE,
		[CONTROL_MISMATCH]    = TALLY_ERR_MISMATCH,
		[CONTROL_ABORTED]     = TALLY_ERR_ABORTED,
		[CONTROL_TIMEOUT]     = TALLY_ERR_TIMEOUT,
		[CONTROL_INTERNAL]    = TALLY_ERR_INTERNAL,
		[CONTROL_DENIED]      = TALLY_ERR_DENIED,
		[CONTROL_VERSION_BAD] = TALLY_ERR_VERSION,
		[CONTROL_NO_RESOURCE] = TALLY_ERR_NO_RESOURCE,
		[CONTROL_NO_MEMORY]   = TALLY_ERR_NO_MEMORY,
		[CONTROL_SYSTEM]      = TALLY_ERR_SYSTEM,
	};
	/* clang-format on */

	return (unsigned)cause < CONTROL_CAUSE_END ? results[cause] : TALLY_ERR_INTERNAL;
}

/* Where this rank was when it broke. Names of operations, jobs and hosts are whatever bytes they are: none may end
 * the line, and what is cut off ends between two characters. */
static void error_text_make(struct tally_comm *comm, const char *text)
{
	const struct tally_work *oldest = comm->outstanding.first;
	const struct report_who *who = comm_named(comm);
	char what[96], at[256] = "", last[48] = "none";
	char whole[sizeof(comm->error_text) + CHARACTER_BYTES_MAX];

	if (oldest)
		snprintf(at, sizeof(at), "; waiting for operation #%llu, %s%s%s%s",
			 (unsigned long long)oldest->op.number, report_op(&oldest->op, what),
			 oldest->op.name[0] ? " \"" : "", oldest->op.name,
			 oldest->op.name[0] ? "\"" : "");
	if (comm->last_complete)
		snprintf(last, sizeof(last), "#%llu", (unsigned long long)comm->last_complete - 1);
	if (comm->state == COMM_JOINING)
		snprintf(whole, sizeof(whole), "%s (rank %u of %u on %s, job %s)", text, who->rank,
			 who->size, who->host, who->job);
	else
		snprintf(whole, sizeof(whole),
			 "%s (rank %u of %u on %s, job %s%s; last complete operation: %s)", text,
			 who->rank, who->size, who->host, who->job, at, last);
	text_clean(utf8_copy(comm->error_text, sizeof(comm->error_text), whole));
}

static void all_complete(struct tally_comm *comm, int result)
{
	while (comm->outstanding.first)
		work_complete(comm, comm->outstanding.first, result);
	while (comm->held.first) {
		struct tally_work *work = comm->held.first;

		work_remove(&comm->held, work);
		work_unlend(comm, work);
		work_settle(comm, work, result);
	}
	wake_waiters(comm);
	if (comm->calling.first)
		wake_background();
}

/* The other rank hears of the cause from the aggregator, if it is not here alone. */
void comm_break_pair(struct tally_comm *pair, int result, const char *text)
{
	comm_lock(pair);
	if (!atomic_load(&pair->error)) {
		pair->wants_abort = result == TALLY_ERR_ABORTED;
		pair->wants_error = !pair->wants_abort;
		pair->fault_cause = CONTROL_REMOTE;
		snprintf(pair->fault_text, sizeof(pair->fault_text), "%s", text);
		comm_break(pair, result, text);
		wake_background();
	}
	comm_unlock(pair);
}

/* R-CT-20: nothing succeeds from now on. */
void comm_break(struct tally_comm *comm, int result, const char *text)
{
	bool is_wanted = result == TALLY_ERR_ABORTED || result == TALLY_INTERRUPTED ||
			 comm->state == COMM_LEFT; /* a pair that nobody waits for */

	if (atomic_load(&comm->error))
		return;
	error_text_make(comm, text);
	atomic_store(&comm->error, result);
	report_log(comm_named(comm), is_wanted ? TALLY_LOG_INFO : TALLY_LOG_ERROR, "%s",
		   comm->error_text);
	if (comm->host)
		host_abort(comm->host); /* the control connection says why */
	all_complete(comm, result);
	for (struct tally_comm *pair = comm->pairs; pair; pair = pair->next_pair)
		comm_break_pair(pair, result, text);
}

void comm_break_alone(struct tally_comm *pair)
{
	uint64_t ms = (clock_ns() - pair->held.first->submitted_ns) / 1000000;

	snprintf(pair->fault_text, sizeof(pair->fault_text),
		 "rank %u has not called tally_%s for %llu.%03llu s", pair->peer,
		 pair->who.rank ? "send" : "recv", (unsigned long long)ms / 1000,
		 (unsigned long long)ms % 1000);
	pair->wants_error = true;
	pair->fault_cause = CONTROL_TIMEOUT;
	comm_break(pair, TALLY_ERR_TIMEOUT, pair->fault_text);
	wake_background();
}

/* ---- questions ---- */

uint32_t tally_comm_rank(const struct tally_comm *comm)
{
	return comm ? comm->who.rank : 0;
}

uint32_t tally_comm_size(const struct tally_comm *comm)
{
	return comm ? comm->who.size : 0;
}

int tally_comm_get_async_error(struct tally_comm *comm)
{
	int result = comm_check(comm, "tally_comm_get_async_error");

	if (result)
		return result;
	return comm_error(comm);
}

const char *tally_get_last_error(const struct tally_comm *comm)
{
	/* This thread's own questions are answered as if it were done. */
	if (comm && !comm_is_forked(comm))
		(void)comm_error((struct tally_comm *)(uintptr_t)comm);
	if (comm && atomic_load(&comm->error))
		return comm->error_text;
	return report_last();
}

/* What a pair counts; what it has is not the communicator's. */
static void stats_add(struct tally_comm *pair, struct tally_stats *stats)
{
	struct endpoint_stats counted = { 0 };

	comm_lock(pair);
	if (pair->endpoint)
		endpoint_stats(pair->endpoint, &counted);
	stats->operations += pair->completed;
	stats->elements += pair->elements;
	comm_unlock(pair);
	stats->packets_out += counted.updates_out;
	stats->packets_in += counted.results_in;
	stats->packets_resent += counted.updates_resent;
	stats->results_ignored += counted.results_ignored;
	stats->probes += counted.probes_out;
	stats->chunks_express += counted.chunks_express;
	stats->chunks_bulk += counted.chunks_bulk;
	stats->bytes_out += counted.bytes_out;
	stats->bytes_in += counted.bytes_in;
	stats->packets_bad += counted.bad_in;
}

static void stats_fill(struct tally_comm *comm, struct tally_stats *stats)
{
	struct endpoint_stats counted = { 0 };

	comm_lock(comm);
	if (comm->endpoint)
		endpoint_stats(comm->endpoint, &counted);
	*stats = (struct tally_stats){
		.operations = comm->completed,
		.elements = comm->elements,
		.packets_out = counted.updates_out,
		.packets_in = counted.results_in,
		.packets_resent = counted.updates_resent,
		.results_ignored = counted.results_ignored,
		.probes = counted.probes_out,
		.exponent_rounds = counted.exponent_rounds,
		.detail_rounds = counted.detail_rounds,
		.chunks_express = counted.chunks_express,
		.chunks_bulk = counted.chunks_bulk,
		.saturated = counted.saturated + (comm->host ? host_saturated(comm->host) : 0),
		.bytes_out = counted.bytes_out,
		.bytes_in = counted.bytes_in,
		.packets_bad = counted.bad_in,
		.window = counted.window,
		.srtt_us = (uint32_t)((counted.srtt_ns + 500) / 1000),
		.lanes = comm->lanes,
		.shards = comm->shards,
		.slots = comm->slots,
		.run = comm->run,
		.gathered = comm->folded,
		.guess_rounds = counted.guess_rounds,
		.guesses_again = counted.guesses_again,
		.window_yields = counted.window_yields,
		.window_losses = counted.window_losses,
		.window_presses = counted.window_presses,
		.shared = comm->host ? comm->completed : 0,
	};
	for (struct tally_comm *pair = comm->pairs; pair; pair = pair->next_pair)
		stats_add(pair, stats);
	comm_unlock(comm);
}

int tally_comm_get_stats(struct tally_comm *comm, struct tally_stats *stats)
{
	struct tally_stats all;
	int result = comm_check(comm, "tally_comm_get_stats");
	size_t size;

	if (result)
		return result;
	if (!stats || stats->size < sizeof(stats->size) || stats->size > sizeof(all))
		return report_error(
			&comm->who, TALLY_ERR_ARGUMENT,
			"tally_comm_get_stats: stats is NULL, or stats->size is not set: "
			"TALLY_STATS_INIT does");
	size = stats->size;
	stats_fill(comm, &all);
	all.size = size;
	memcpy(stats, &all, size);
	return TALLY_OK;
}
