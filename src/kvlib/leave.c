/* SPDX-License-Identifier: Apache-2.0 */
/* leave.c - the end of a table of keys: its servers are told, and have it on the disk. docs/protocol.md, R-KV-13. */
#include "kvlib/kv.h"

static const uint64_t ns_per_s = 1000000000;

uint64_t kv_leave_turn(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	uint64_t due_ns = kv_server_turn(server);

	if (!kv->error || kv->error == TALLY_ERR_NO_MEMORY)
		return due_ns;
	/* It will not say more, however often it is asked; the others are told nevertheless. */
	kv->leave_error = kv->error;
	kv->error = 0;
	worker_kv_broken(server->core);
	kv_server_over(server);
	return UINT64_MAX;
}

static bool are_all_over(const struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		if (!worker_kv_is_over(kv->server[s].core))
			return false;
	return true;
}

static int untold(const struct tally_kv *kv, const struct kv_server *server)
{
	return report_error(&kv->who, TALLY_ERR_REMOTE,
			    "tally_kv_close: server %s of table %s has not answered in %.1f s that "
			    "this worker leaves%s%s: all that it did was acknowledged, but other "
			    "workers may wait for it in a barrier or a step, until it has opened "
			    "the table and closed it once more",
			    server->at.text, kv->name,
			    (double)kv->core->config.deadline_ns / (double)ns_per_s,
			    *server->lost ? ": " : "", server->lost);
}

int kv_leave(struct tally_kv *kv)
{
	int result = TALLY_OK;

	pthread_mutex_lock(&kv->lock);
	if (kv->error) {
		pthread_mutex_unlock(&kv->lock);
		return TALLY_OK; /* it was said before */
	}
	for (uint32_t s = 0; s < kv->servers; s++)
		if (worker_kv_is_up(kv->server[s].core))
			kv->server[s].lost[0] = 0; /* it was another time */
	worker_kv_leave(kv->core, clock_ns());
	kv_thread_wake_unlock(kv);
	pthread_mutex_lock(&kv->lock);
	while (!kv->error && !are_all_over(kv))
		pthread_cond_wait(&kv->changed, &kv->lock);
	if (kv->error || kv->leave_error)
		result = report_again(kv->error ? kv->error : kv->leave_error, kv->error_text);
	for (uint32_t s = 0; s < kv->servers; s++)
		if (kv->server[s].core->state == WORKER_KV_UNTOLD)
			result = untold(kv, &kv->server[s]);
	pthread_mutex_unlock(&kv->lock);
	return result;
}
