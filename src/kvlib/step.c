/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - barriers and steps of a table of keys: who waits for whom. docs/protocol.md, R-KV-11 and R-KV-15. */
#include <stddef.h>

#include "kvlib/kv.h"

_Static_assert(TALLY_KV_ASYNC == KV_ASYNC && TALLY_KV_BOUNDED == KV_BOUNDED &&
		       TALLY_KV_SYNC == KV_SYNC && (int)WORKER_KV_BOUNDED == KV_BOUNDED &&
		       (int)WORKER_KV_SYNC == KV_SYNC,
	       "tally.h's modes are the protocol's");

const char *kv_step_fault(const struct tally_kv_options *options)
{
	if (options->mode >= KV_MODE_END)
		return "options->mode is none of TALLY_KV_ASYNC, _BOUNDED and _SYNC";
	if (options->staleness > KV_STALENESS_MAX)
		return "options->staleness is above 2^20";
	if (options->staleness && options->mode != KV_BOUNDED)
		return "options->staleness means something with TALLY_KV_BOUNDED alone";
	if (options->mode == KV_SYNC && options->flags & TALLY_KV_COPIES)
		return "TALLY_KV_COPIES and TALLY_KV_SYNC do not go together";
	return NULL;
}

void kv_steps_compare(const struct tally_kv *kv)
{
	const struct kv_server *least = kv->server, *most = kv->server;

	for (uint32_t s = 1; s < kv->servers; s++) {
		const struct kv_server *server = &kv->server[s];

		if (server->core->barrier_found < least->core->barrier_found)
			least = server;
		if (server->core->barrier_found > most->core->barrier_found)
			most = server;
	}
	if (kv->core->config.mode == WORKER_KV_SYNC &&
	    least->core->barrier_found != most->core->barrier_found)
		report_log(&kv->who, TALLY_LOG_WARN,
			   "table %s: server %s has made step %llu and server %s no step after "
			   "%llu: the last run ended between the two, and the rows of one are "
			   "newer than those of the other",
			   kv->name, most->at.text, (unsigned long long)most->core->barrier_found,
			   least->at.text, (unsigned long long)least->core->barrier_found);
}

/* Nothing before it is left to be complete, or it has failed. */
static bool is_first(const struct tally_kv *kv, const struct kv_work *work)
{
	const struct kv_work *first = kv->works;

	while (first->result ||
	       (kv->core->config.mode == WORKER_KV_BOUNDED && first->is_barrier && first->is_begun))
		first = first->next;
	return first == work;
}

bool kv_step_feed(struct tally_kv *kv, struct kv_work *work)
{
	if (!work->is_begun && is_first(kv, work)) {
		if (!work->number) {
			kv_work_complete(kv, work);
			return true;
		}
		work->is_begun = true;
		for (uint32_t s = 0; s < kv->servers && !kv->error; s++)
			kv_server_barrier(&kv->server[s], work->number);
	}
	return worker_kv_step_is_open(kv->core, work->number);
}

void kv_barriers_settle(struct tally_kv *kv)
{
	struct kv_work *work = kv->works, *next;

	for (; work; work = next) {
		next = work->next;
		if (work->is_barrier && work->is_begun &&
		    worker_kv_passed(kv->core) >= work->number)
			kv_work_complete(kv, work);
	}
	kv->is_news = true; /* a bounded worker may wait for its next step */
}

bool kv_step_is_awaited(const struct tally_kv *kv)
{
	const struct kv_work *first = kv->works, *unfed = kv->unfed;

	/* What others still do is not hurried. */
	while (first && first->is_barrier && first->is_begun)
		first = first->next;
	return (first && first->timestamp <= kv->hurry_to) ||
	       (unfed && unfed->is_barrier && !unfed->is_begun &&
		!worker_kv_step_is_open(kv->core, unfed->number));
}
