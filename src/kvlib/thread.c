/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - the thread of a table of keys: see kv.h. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/shared/rto.h"
#include "dataplane/link_udp.h"
#include "kvlib/kv.h"
#include "util/thread.h"

enum { BURST_FRAMES = 4, BURSTS = 512 }; /* of one turn */

static const uint64_t ns_per_s = 1000000000;

/* ---- a turn ---- */

static void packets_read(struct tally_kv *kv)
{
	struct link_frame frames[BURST_FRAMES];

	for (unsigned burst = 0; burst < BURSTS && !kv->error; burst++) {
		int count = kv->link->ops->recv(kv->link, frames, BURST_FRAMES);

		if (count < 0)
			kv_break(kv, TALLY_ERR_SYSTEM,
				 "the kernel refuses to receive on the UDP socket: %s",
				 strerror(-count));
		for (int i = 0; i < count; i++) {
			const struct link_frame *frame = &frames[i];

			for (uint32_t at = 0; at < frame->bytes; at += frame->packet_bytes)
				kv_hot_packet(kv, &frame->peer, frame->data + at,
					      link_packet_bytes(frame, at));
		}
		if (count < BURST_FRAMES)
			return; /* what has come since is seen by poll */
	}
}

/* Somebody waits: the switch is asked for what is not committed. */
static void hurry(struct tally_kv *kv)
{
	if (!kv->awaited && !kv_step_is_awaited(kv))
		return;
	for (uint32_t s = 0; s < kv->servers; s++)
		if (kv->server[s].endpoint)
			endpoint_sparse_hurry(kv->server[s].endpoint);
}

/* Since when nothing has come of what this work waits for there; UINT64_MAX: it waits for nothing. */
static uint64_t waits_since(const struct kv_server *server, const struct kv_work *work)
{
	const struct kv_part *part = &work->part[server->idx];
	uint64_t since_ns = part->pulls ? server->pull_ns : UINT64_MAX;

	if (work->value && !work->is_pulling) {
		if (!part->is_fed)
			since_ns = rto_most(server->hot_ns, server->batch_ns);
		if (!kv_hot_is_committed(server, part->hot.number))
			since_ns = rto_least(since_ns, server->hot_ns);
		if (server->core->batch_done < rto_most(part->cold.number, part->hot.moved))
			since_ns = rto_least(since_ns, server->batch_ns);
	}
	return since_ns == UINT64_MAX ? since_ns : rto_most(since_ns, work->begin_ns);
}

/* A push or a pull that nothing comes of, though the server is there. When to look again. */
static uint64_t stall_look(struct tally_kv *kv)
{
	uint64_t least_ns = kv->now_ns, deadline_ns = kv->core->config.deadline_ns;

	if (kv->now_ns < kv->stall_ns)
		return kv->works ? kv->stall_ns : UINT64_MAX;
	for (const struct kv_work *work = kv->works; work; work = work->next) {
		if (work->is_barrier && !worker_kv_step_is_open(kv->core, work->number))
			break; /* others may take their time */
		if (work->result || work->is_barrier)
			continue;
		for (uint32_t s = 0; s < kv->servers; s++) {
			const struct kv_server *server = &kv->server[s];
			uint64_t since_ns = waits_since(server, work);

			/* One that is not up has a deadline of its own. */
			if (since_ns == UINT64_MAX || !worker_kv_is_up(server->core))
				continue;
			if (kv->now_ns >= since_ns + deadline_ns) {
				kv_break(kv, TALLY_ERR_TIMEOUT,
					 "nothing has come of operation %llu on table %s for %llu "
					 "s; its server %s is there",
					 (unsigned long long)work->timestamp, kv->name,
					 (unsigned long long)(deadline_ns / ns_per_s),
					 server->at.text);
				return UINT64_MAX;
			}
			least_ns = rto_least(least_ns, since_ns);
		}
	}
	kv->stall_ns = least_ns + deadline_ns;
	return kv->works ? kv->stall_ns : UINT64_MAX;
}

static uint64_t turn(struct tally_kv *kv)
{
	uint64_t due_ns = UINT64_MAX;

	kv->now_ns = clock_ns();
	if (kv->is_ready)
		packets_read(kv);
	for (uint32_t s = 0; s < kv->servers && !kv->error; s++)
		due_ns = rto_least(due_ns, kv->core->leave_ns ? kv_leave_turn(&kv->server[s])
							      : kv_server_turn(&kv->server[s]));
	if (!kv->error && worker_kv_may_ask_again(kv->core))
		due_ns =
			kv->now_ns; /* the last of the others has opened it after the first one's turn */
	kv_works_settle(kv);
	kv_works_feed(kv);
	hurry(kv);
	kv_hot_dropped_say(kv);
	for (uint32_t s = 0; s < kv->servers && !kv->error; s++)
		due_ns = rto_least(due_ns, kv_hot_turn(&kv->server[s]));
	outbox_flush(&kv->outbox);
	for (uint32_t s = 0; s < kv->servers && !kv->error; s++) {
		kv_server_flush(&kv->server[s]);
		due_ns = rto_least(due_ns, worker_kv_wake_ns(kv->core, s));
	}
	return rto_least(due_ns, stall_look(kv));
}

/* ---- the thread ---- */

static void sleep_until(struct tally_kv *kv, uint64_t due_ns)
{
	struct pollfd polls[2 + KV_SERVERS_MAX] = {
		{ .fd = kv->wake_fd, .events = POLLIN },
		{ .fd = kv->error ? -1 : link_udp_fd(kv->link),
		  .events = link_udp_events(kv->link) },
	};
	uint64_t now_ns = clock_ns(), left_ns = due_ns > now_ns ? due_ns - now_ns : 0, kicks;
	bool is_news = kv->is_news;
	struct timespec left = clock_timespec(left_ns);

	for (uint32_t s = 0; s < kv->servers; s++)
		polls[2 + s] = (struct pollfd){ .fd = kv->error ? -1 : kv->server[s].stream.fd,
						.events = kv_stream_events(&kv->server[s].stream) };
	kv->is_news = false;
	kv->is_asleep = true;
	pthread_mutex_unlock(&kv->lock);
	if (is_news)
		pthread_cond_broadcast(&kv->changed);
	if (ppoll(polls, 2 + kv->servers, due_ns == UINT64_MAX ? NULL : &left, NULL) <= 0)
		for (uint32_t i = 0; i < 2 + kv->servers; i++)
			polls[i].revents = 0;
	if (polls[0].revents)
		(void)!read(kv->wake_fd, &kicks, sizeof(kicks));
	pthread_mutex_lock(&kv->lock);
	kv->is_asleep = false;
	kv->is_ready = polls[1].revents;
	for (uint32_t s = 0; s < kv->servers; s++)
		kv->server[s].is_ready = polls[2 + s].revents;
}

static void *thread_main(void *arg)
{
	struct tally_kv *kv = arg;

	pthread_mutex_lock(&kv->lock);
	while (!kv->is_ending) {
		uint64_t due_ns = kv->error ? UINT64_MAX : turn(kv);

		if (kv->error)
			kv_works_end(kv);
		if (kv_notes_run(kv))
			continue;
		sleep_until(kv, due_ns);
	}
	kv_notes_run(kv);
	pthread_mutex_unlock(&kv->lock);
	return NULL;
}

int kv_thread_begin(struct tally_kv *kv)
{
	return thread_create(&kv->thread, thread_main, kv);
}

void kv_thread_end(struct tally_kv *kv)
{
	pthread_mutex_lock(&kv->lock);
	kv->is_ending = true;
	kv_thread_wake_unlock(kv);
	pthread_join(kv->thread, NULL);
}
