/* SPDX-License-Identifier: Apache-2.0 */
/* server_kv_step.c - see server_kv.h. Barriers, and whom they wait for in vain: R-KV-11, R-KV-15 and R-KV-17. */
#include "core/kv/server_kv.h"

/* R-KV-11: whoever said the last number that there is would leave none for any worker of the table, for ever. Servers
 * whose folders are not of one age may be so far apart. */
static const uint64_t BARRIERS_AHEAD_MAX = 1ull << 32;

/* R-KV-17. The milliseconds: who finds no server tries again once a second (src/kvlib/server.c). */
enum { GONE_HEARTBEATS = 4 };
static const uint64_t GONE_NS = 2000000000;

static uint16_t workers_of(const struct server_kv *kv)
{
	return kv->sparse->table->workers;
}

struct server_kv_action *server_kv_act(struct server_kv_actions *actions,
				       enum server_kv_action_type type, uint16_t worker)
{
	struct server_kv_action *action = &actions->list[actions->count++];

	CORE_ASSERT(actions->count <= SERVER_KV_ACTIONS_MAX);
	*action = (struct server_kv_action){ .type = (uint8_t)type, .worker = worker };
	return action;
}

void server_kv_forget(const struct server_kv *kv, struct server_kv_worker *worker)
{
	worker->doubt_ns = 0;
	if (worker->barrier > kv->barrier)
		worker->barrier = kv->barrier;
}

/* ---- who waits for whom ---- */

bool server_kv_has_left(const struct server_kv *kv, uint16_t other, uint16_t worker)
{
	const struct server_kv_worker *it = &kv->worker[other];

	return it->left > it->joined && it->left > kv->worker[worker].joined;
}

/* The last barrier that it has come to, as far as that counts. */
static uint64_t barrier_of(const struct server_kv *kv, uint16_t worker)
{
	const struct server_kv_worker *it = &kv->worker[worker];

	return it->doubt_ns && it->barrier > kv->barrier ? kv->barrier : it->barrier;
}

bool server_kv_awaits(const struct server_kv *kv, uint16_t worker, uint16_t other)
{
	return barrier_of(kv, other) < kv->worker[worker].barrier &&
	       !server_kv_has_left(kv, other, worker);
}

/* The last barrier that all have come to whom this worker waits for. */
static uint64_t common(const struct server_kv *kv, uint16_t worker)
{
	uint64_t least = barrier_of(kv, worker);

	for (uint16_t i = 0; i < workers_of(kv); i++)
		if (barrier_of(kv, i) < least && !server_kv_has_left(kv, i, worker))
			least = barrier_of(kv, i);
	return least;
}

uint16_t server_kv_longest(struct server_kv *kv, uint64_t now_ns)
{
	uint16_t first = workers_of(kv);

	for (uint16_t i = 0; i < workers_of(kv); i++) {
		struct server_kv_worker *it = &kv->worker[i];

		if (!it->link || !it->is_waiting)
			continue;
		if (!it->waits_ns)
			it->waits_ns = now_ns;
		if (first == workers_of(kv) || it->waits_ns < kv->worker[first].waits_ns)
			first = i;
	}
	return first;
}

/* ---- what was passed ---- */

static void answer(struct server_kv *kv, uint16_t index, struct server_kv_actions *actions)
{
	struct server_kv_worker *worker = &kv->worker[index];
	uint64_t number = worker->barrier < kv->barrier ? worker->barrier : kv->barrier;

	/* Only of a bounded worker several may be unanswered. */
	if (number <= worker->answered ||
	    (number < worker->barrier && worker->mode != SERVER_KV_BOUNDED))
		return;
	worker->answered = number;
	worker->waits_ns = 0;
	worker->is_waiting = worker->barrier > kv->barrier;
	server_kv_act(actions, SERVER_KV_DO_ANSWER, index)->number = number;
}

/* R-KV-11. What was passed is on the disk before anybody is told, for one that asks again after a restart may be the
 * only one that does. */
void server_kv_look(struct server_kv *kv, struct server_kv_actions *actions)
{
	uint16_t workers = workers_of(kv);

	for (uint16_t i = 0; i < workers; i++) {
		uint64_t least = kv->worker[i].is_waiting ? common(kv, i) : 0;

		if (least <= kv->barrier)
			continue;
		kv->barrier = least;
		server_kv_act(actions, SERVER_KV_DO_PASS, 0)->number = least;
	}
	for (uint16_t i = 0; i < workers; i++)
		if (kv->worker[i].is_waiting && kv->worker[i].link)
			answer(kv, i, actions);
}

void server_kv_come(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions)
{
	struct server_kv_worker *worker = &kv->worker[event->worker];
	bool is_news = event->number > kv->barrier;

	/* One that was passed was so for all, and its step was made: it waits for the disk. */
	if (is_news && event->disk != SERVER_KV_WELL)
		actions->verdict = SERVER_KV_NO_DISK;
	else if (is_news && event->number - kv->barrier > BARRIERS_AHEAD_MAX)
		actions->verdict = SERVER_KV_FAR;
	if (actions->verdict != SERVER_KV_YES)
		return;
	worker->barrier = event->number;
	if (!worker->is_waiting)
		worker->waits_ns = 0;
	worker->answered = 0;
	worker->doubt_ns = 0;
	worker->is_waiting = true;
	server_kv_look(kv, actions);
}

/* ---- who is not sure to be there ---- */

bool server_kv_doubts(const struct server_kv *kv, uint16_t worker)
{
	return kv->worker[worker].doubt_ns;
}

/* R-KV-12: who is there says something every heartbeat. */
void server_kv_heard(struct server_kv *kv, const struct server_kv_event *event)
{
	struct server_kv_worker *worker = &kv->worker[event->worker];

	if (!worker->doubt_ns || event->now_ns <= worker->doubt_ns)
		return;
	worker->doubt_ns = 0;
	kv->is_sure = true;
}

/* ---- what they wait for in vain: the disk, R-KV-11; ---- */

static struct server_kv_action *refuse(struct server_kv *kv, uint16_t worker,
				       enum server_kv_verdict verdict,
				       struct server_kv_actions *actions)
{
	struct server_kv_action *action = server_kv_act(actions, SERVER_KV_DO_REFUSE, worker);

	kv->worker[worker].is_waiting = false;
	action->number = kv->worker[worker].barrier;
	action->verdict = (uint8_t)verdict;
	return action;
}

/* As a batch is refused: a worker must not wait without a word for a record that cannot be written. Who hears nothing more
 * has come as far as it has. */
static void disk_look(struct server_kv *kv, struct server_kv_actions *actions)
{
	for (uint16_t i = 0; i < workers_of(kv); i++) {
		if (!kv->worker[i].link || !kv->worker[i].is_waiting || kv->worker[i].is_ending)
			continue;
		refuse(kv, i, SERVER_KV_NO_DISK, actions);
		server_kv_forget(kv, &kv->worker[i]); /* R-KV-14 */
	}
}

/* ---- and R-KV-17: whom they wait for in vain ---- */

uint64_t server_kv_grace_ns(const struct server_kv *kv)
{
	return GONE_NS + GONE_HEARTBEATS * kv->heartbeat_ns;
}

/* Nobody who has left is said to have gone: whoever waits for it waits for one of its own run, which may begin yet. */
static bool has_gone(const struct server_kv *kv, uint16_t other, uint16_t worker, uint64_t now_ns)
{
	const struct server_kv_worker *it = &kv->worker[other];

	return it->gone_ns && it->gone_ns > kv->worker[worker].joined_ns &&
	       now_ns > it->gone_ns + server_kv_grace_ns(kv) && it->barrier <= kv->barrier;
}

void server_kv_time(struct server_kv *kv, const struct server_kv_event *event,
		    struct server_kv_actions *actions)
{
	uint16_t workers = workers_of(kv);

	if (kv->is_sure)
		server_kv_look(kv, actions);
	kv->is_sure = false;
	if (event->disk != SERVER_KV_WELL)
		disk_look(kv, actions);
	for (uint16_t i = 0; i < workers; i++) {
		const struct server_kv_worker *it = &kv->worker[i];

		if (it->mode == SERVER_KV_ASYNC)
			continue;
		for (uint16_t k = 0; k < workers && it->link && it->is_waiting; k++)
			if (has_gone(kv, k, i, event->now_ns))
				refuse(kv, i, SERVER_KV_HAS_GONE, actions)->other = k;
	}
}
