/* SPDX-License-Identifier: Apache-2.0 */
/* note.c - callbacks of a table of keys: tally_kv_on_done. */
#include <stdlib.h>

#include "kvlib/kv.h"

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

	while (*at && !kv->error && !(*at)->result && kv_is_outstanding(kv, (*at)->timestamp))
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
			result = kv_outcome(kv, note->timestamp);
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
