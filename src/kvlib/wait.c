/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c - who waits for operations of a table of keys, and whom tally_kv_on_done tells. See kv.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvlib/kv.h"

static const uint64_t ns_per_ms = 1000000;

/* 0: all that were begun. The lock is held. */
static bool is_outstanding(const struct tally_kv *kv, uint64_t timestamp)
{
	const struct kv_work *work;

	if (timestamp) {
		work = kv_work_find(kv, timestamp);
		/* A bounded worker's next step may begin while others are still at this one. */
		return work && !work->result &&
		       !(work->is_step && kv->core->config.mode == WORKER_KV_BOUNDED &&
			 worker_kv_step_is_open(kv->core, work->number));
	}
	for (work = kv->works; work; work = work->next)
		if (!work->result)
			return true;
	return false;
}

/* Of one that is not: its result, which is reported, and forgotten. The lock is held. */
static int outcome(struct tally_kv *kv, uint64_t timestamp)
{
	struct kv_work *work = timestamp ? kv_work_find(kv, timestamp) : kv->works;
	int result;

	if (kv->error)
		return report_again(kv->error, kv->error_text);
	if (!work || !work->result)
		return TALLY_OK;
	result = report_again(work->result, work->text);
	kv_work_drop(kv, work);
	return result;
}

/* What has to be committed soon; is that news to the thread? A pull waits for no push: it ends no epoch before its
 * time. */
static bool awaited_mark(struct tally_kv *kv, uint64_t timestamp)
{
	struct kv_work *work = timestamp ? kv_work_find(kv, timestamp) : NULL;
	uint64_t last = timestamp ? timestamp : kv->timestamp_next - 1;

	if (work && !work->is_barrier) {
		if (!work->value || work->is_pulling || work->is_awaited)
			return false;
		work->is_awaited = true;
		kv->awaited++;
		return true;
	}
	if (last <= kv->hurry_to)
		return false;
	kv->hurry_to = last;
	return true;
}

/* Until something is complete that somebody sleeps for. The lock is held. */
static int news_wait(struct tally_kv *kv, uint64_t timestamp, const struct timespec *until)
{
	struct kv_work *work = timestamp ? kv_work_find(kv, timestamp) : NULL;
	int error;

	if (work)
		work->is_waited = true;
	kv->waits_all += !work;
	error = until ? pthread_cond_timedwait(&kv->changed, &kv->lock, until)
		      : pthread_cond_wait(&kv->changed, &kv->lock);
	kv->waits_all -= !work;
	return error;
}

int tally_kv_wait(struct tally_kv *kv, uint64_t timestamp, int timeout_ms)
{
	int result = timeout_ms ? kv_wait_check(kv, __func__) : kv_handle_check(kv, __func__),
	    error = 0;
	uint64_t until_ns;
	struct timespec until;

	if (result)
		return result;
	until_ns = clock_ns() + (timeout_ms > 0 ? (uint64_t)timeout_ms * ns_per_ms : 0);
	until = clock_timespec(until_ns);
	pthread_mutex_lock(&kv->lock);
	if (timestamp >= kv->timestamp_next) {
		pthread_mutex_unlock(&kv->lock);
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: there was no operation %llu",
				    __func__, (unsigned long long)timestamp);
	}
	if (!kv->error && is_outstanding(kv, timestamp) && timeout_ms &&
	    awaited_mark(kv, timestamp)) {
		kv_thread_wake_unlock(kv);
		pthread_mutex_lock(&kv->lock);
	}
	while (!kv->error && is_outstanding(kv, timestamp) && timeout_ms && !error)
		error = news_wait(kv, timestamp, timeout_ms < 0 ? NULL : &until);
	result = !kv->error && is_outstanding(kv, timestamp) ? TALLY_IN_PROGRESS
							     : outcome(kv, timestamp);
	pthread_mutex_unlock(&kv->lock);
	return result;
}

int tally_kv_test(struct tally_kv *kv, uint64_t timestamp, int *done)
{
	int result;

	if (!done)
		return report_error(kv ? &kv->who : NULL, TALLY_ERR_ARGUMENT, "%s: done is NULL",
				    __func__);
	result = tally_kv_wait(kv, timestamp, 0);
	if (result == TALLY_ERR_ARGUMENT || result == TALLY_ERR_USAGE)
		return result;
	*done = result != TALLY_IN_PROGRESS;
	return *done ? result : TALLY_OK;
}

/* ---- callbacks ---- */

struct kv_note {
	struct kv_note *next;
	uint64_t timestamp;
	tally_kv_done_fn fn;
	void *arg;
	int result; /* of an operation whose error another one was told; 0: not yet */
};

int tally_kv_on_done(struct tally_kv *kv, uint64_t timestamp, tally_kv_done_fn fn, void *arg)
{
	int result = kv_handle_check(kv, __func__);
	struct kv_note *note;

	if (result)
		return result;
	note = fn ? malloc(sizeof(*note)) : NULL;
	if (!note)
		return report_error(&kv->who, fn ? TALLY_ERR_NO_MEMORY : TALLY_ERR_ARGUMENT,
				    fn ? "%s: out of memory" : "%s: fn is NULL", __func__);
	*note = (struct kv_note){ .timestamp = timestamp, .fn = fn, .arg = arg };
	pthread_mutex_lock(&kv->lock);
	if (!timestamp || timestamp >= kv->timestamp_next) {
		pthread_mutex_unlock(&kv->lock);
		free(note);
		return report_error(&kv->who, TALLY_ERR_ARGUMENT, "%s: there was no operation %llu",
				    __func__, (unsigned long long)timestamp);
	}
	*kv->notes_end = note;
	kv->notes_end = &note->next;
	kv_thread_wake_unlock(kv);
	return TALLY_OK;
}

/* The first whose operation is complete goes. */
static struct kv_note *note_take(struct tally_kv *kv)
{
	struct kv_note **at = &kv->notes, *note;

	while (*at && !kv->error && !(*at)->result && is_outstanding(kv, (*at)->timestamp))
		at = &(*at)->next;
	note = *at;
	if (!note)
		return NULL;
	*at = note->next;
	if (!*at)
		kv->notes_end = at;
	return note;
}

bool kv_notes_run(struct tally_kv *kv)
{
	struct kv_note *note;
	bool is_any = false;

	while ((note = note_take(kv))) {
		int result = note->result;

		if (!result)
			result = outcome(kv, note->timestamp);
		for (struct kv_note *other = kv->notes; other; other = other->next)
			if (other->timestamp == note->timestamp)
				other->result = result;
		pthread_mutex_unlock(&kv->lock);
		note->fn(kv, note->timestamp, result, note->arg);
		free(note);
		pthread_mutex_lock(&kv->lock);
		is_any = true;
	}
	return is_any;
}

void kv_notes_fini(struct tally_kv *kv)
{
	while (kv->notes) {
		struct kv_note *note = kv->notes;

		kv->notes = note->next;
		free(note);
	}
}
