/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - a table of keys as all of it needs it: its error, its thread's sleep, who may call. See kv.h. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "kvlib/kv.h"

void kv_break(struct tally_kv *kv, int result, const char *format, ...)
{
	char text[REPORT_TEXT_MAX - 512];
	va_list args;

	if (kv->error)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(kv->error_text, sizeof(kv->error_text), "%s (worker %u of %u on %s, job %s)", text,
		 kv->who.rank, kv->who.size, kv->who.host, kv->who.job);
	kv->error = result;
	report_log(&kv->who, TALLY_LOG_ERROR, "%s", kv->error_text);
}

/* After the unlock: the thread, once it is awake, takes the lock. */
void kv_thread_wake_unlock(struct tally_kv *kv)
{
	const uint64_t one = 1;
	bool was_asleep = kv->is_asleep;

	kv->is_asleep = false;
	pthread_mutex_unlock(&kv->lock);
	if (was_asleep)
		(void)!write(kv->wake_fd, &one, sizeof(one));
}

int kv_handle_check(const struct tally_kv *kv, const char *call)
{
	if (!kv)
		return report_error(NULL, TALLY_ERR_ARGUMENT, "%s: kv is NULL", call);
	if (kv->pid != getpid())
		return report_error(&kv->who, TALLY_ERR_USAGE,
				    "%s in a forked child: the table is its parent's", call);
	return TALLY_OK;
}

int kv_wait_check(const struct tally_kv *kv, const char *call)
{
	int result = kv_handle_check(kv, call);

	if (!result && pthread_equal(kv->thread, pthread_self()))
		result = report_error(&kv->who, TALLY_ERR_USAGE,
				      "%s in a callback: it would wait for itself", call);
	return result;
}
