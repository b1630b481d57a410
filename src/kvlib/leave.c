/* SPDX-License-Identifier: Apache-2.0 */
/* leave.c - the end of a table of keys: its servers are told, and have it on the disk. docs/protocol.md, R-KV-13. */
#include "kvlib/kv.h"

static const uint64_t ns_per_s = 1000000000;

/* Nothing is heard from it, nor said to it, any more. */
static void over(struct kv_server *server)
{
	kv_stream_close(&server->stream);
	server->state = KV_DOWN;
	server->retry_ns = UINT64_MAX;
	server->kv->is_news = true;
}

static void say_leave(struct kv_server *server)
{
	const struct kv_message leave = { .type = KV_LEAVE };

	server->is_leave_said = true;
	kv_say(server, &leave);
}

uint64_t kv_leave_turn(struct kv_server *server)
{
	struct tally_kv *kv = server->kv;
	uint64_t until_ns = kv->leave_ns + kv->deadline_ns, due_ns;

	if (server->leaving != KV_STAYS)
		return UINT64_MAX;
	due_ns = kv_server_turn(server);
	if (kv->error == TALLY_ERR_NO_MEMORY)
		return UINT64_MAX;
	/* It will not say more, however often it is asked; the others are told nevertheless. */
	if (kv->error) {
		kv->leave_error = kv->error;
		kv->error = 0;
		server->leaving = KV_REFUSED;
	}
	/* Before OPENED it would be of no table. */
	if (server->leaving == KV_STAYS && server->state == KV_UP && !server->is_leave_said) {
		say_leave(server);
		due_ns = kv->now_ns; /* it is flushed, or lost again */
	}
	if (server->leaving == KV_STAYS && kv->now_ns >= until_ns)
		server->leaving = KV_UNTOLD;
	if (server->leaving == KV_STAYS)
		return due_ns < until_ns ? due_ns : until_ns;
	over(server);
	return UINT64_MAX;
}

static bool are_all_over(const struct tally_kv *kv)
{
	for (uint32_t s = 0; s < kv->servers; s++)
		if (kv->server[s].leaving == KV_STAYS)
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
			    server->at.text, kv->name, (double)kv->deadline_ns / (double)ns_per_s,
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
		if (kv->server[s].state == KV_UP)
			kv->server[s].lost[0] = 0; /* it was another time */
	kv->leave_ns = clock_ns();
	kv_thread_wake_unlock(kv);
	pthread_mutex_lock(&kv->lock);
	while (!kv->error && !are_all_over(kv))
		pthread_cond_wait(&kv->changed, &kv->lock);
	if (kv->error || kv->leave_error)
		result = report_again(kv->error ? kv->error : kv->leave_error, kv->error_text);
	for (uint32_t s = 0; s < kv->servers; s++)
		if (kv->server[s].leaving == KV_UNTOLD)
			result = untold(kv, &kv->server[s]);
	pthread_mutex_unlock(&kv->lock);
	return result;
}
